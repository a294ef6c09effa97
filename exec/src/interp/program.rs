//! Translates the types, constants and variables of a module to a [`Program`]. Functions are in `translate_function`.

use coop_ir::hash::FxHashMap;
use coop_ir::spv::{BuiltIn, Decoration, ExecutionMode, StorageClass};

use coop_ir::constant::{SpecValue, Specialization};
use coop_ir::types::Type;
use coop_ir::{Id, IdMap, Inst, InstRef, Module, Op};

use super::code::{Func, Ins, Row};
use super::eval;
use super::num::{Num, Rounding, mask};
use super::placement::Placed;
use super::registers::{MAX_LANES, Regs};
use super::translate_values::{Arg, Manner, Translation};
use super::types::{Coop, Decorations, Kind, Leaf, MAX_SLOTS, MatLayout, Ty, Types};
use super::{Config, Semantics};

/// A pointer is 64 bits. Those with none of these tags are addresses of buffers; the others an offset into shared
/// memory, or a row.
pub(super) mod tag {
    pub(in crate::interp) const SHIFT: u32 = 56;
    pub(in crate::interp) const SHARED: u64 = 0xa1;
    pub(in crate::interp) const ROWS: u64 = 0xa2;
    /// A pointer outside its array; the low bits are the instruction.
    pub(in crate::interp) const INVALID: u64 = 0xa3;
    /// Memory of the invocation's own.
    pub(in crate::interp) const OWN: u64 = 0xa4;

    /// Returns true if a pointer is not a multiple of so many bytes. One outside its array has no address.
    pub(in crate::interp) fn is_misaligned(pointer: u64, bytes: u64) -> bool {
        pointer >> SHIFT != INVALID && !pointer.is_multiple_of(bytes)
    }
}

/// A constant's value.
#[derive(Clone, Debug)]
pub(super) struct Value {
    pub ty: Ty,
    pub v: Vec<u64>,
    /// Empty, or which of `v` are undefined.
    pub undef: Vec<bool>,
}

/// A buffer variable.
#[derive(Clone, Debug)]
pub(super) struct Binding {
    pub set: u32,
    pub binding: u32,
    pub row: Row,
    pub id: Id,
}

/// A variable in shared memory.
#[derive(Clone, Debug)]
pub(super) struct Shared {
    pub id: Id,
    pub offset: u32,
    pub size: u32,
    pub zero: bool,
}

/// The kind of a kernel's parameter.
#[derive(Clone, Copy, Debug)]
pub(super) enum Argument {
    /// A buffer.
    Buffer,
    /// A number of this size in bytes.
    Number(u32),
    /// Workgroup memory: the pointer.
    Shared(u64),
    /// A struct by value, copied to this offset in the invocation's own memory.
    Value { bytes: u32, align: u32, offset: u32 },
}

/// A translated module.
pub(super) struct Program {
    pub types: Types,
    pub decorations: Decorations,
    pub rows: u32,
    pub constants: Vec<(Row, u64, bool)>,
    /// Private variables: rows, and the initializer.
    pub privates: Vec<(Row, u32, Option<Value>)>,
    pub builtins: Vec<(u32, Row, u32)>,
    pub bindings: Vec<Binding>,
    pub push: Vec<Row>,
    pub shared: Vec<Shared>,
    pub shared_size: u32,
    /// Bytes of each invocation's own memory.
    pub own_size: u32,
    /// Variables of the module in that memory: offset, scalars and initializer.
    pub own_globals: Vec<(u32, Vec<Leaf>, Option<Value>)>,
    pub functions: Vec<Func>,
    pub ids: Vec<Id>,
    pub entry: usize,
    /// Parameters of the entry point (kernels have some), and their rows.
    pub arguments: Vec<(Row, Argument)>,
    pub local_size: [u32; 3],
    pub lanes: usize,
    /// Invocations in a subgroup; the last one may have fewer.
    pub subgroup: usize,
}

/// Translates a module.
pub(super) struct Translator<'m> {
    pub m: &'m Module,
    pub config: Config,
    pub types: Types,
    pub d: Decorations,
    pub consts: IdMap<Value>,
    pub row_of: IdMap<Row>,
    /// Constant pointers to rows.
    pub known: IdMap<u64>,
    pub mat: IdMap<MatLayout>,
    pub rows: u32,
    pub constants: Vec<(Row, u64, bool)>,
    pub function_index: FxHashMap<Id, usize>,
    pub work: Vec<Id>,
    pub functions: Vec<Func>,
    pub privates: Vec<(Row, u32, Option<Value>)>,
    pub builtins: Vec<(u32, Row, u32)>,
    pub bindings: Vec<Binding>,
    pub push: Vec<Row>,
    pub shared: Vec<Shared>,
    pub shared_size: u32,
    /// Bytes of each invocation's own memory, where private and constant variables of kernels are.
    pub own_size: u32,
    pub own_globals: Vec<(u32, Vec<Leaf>, Option<Value>)>,
    /// The invocations that share a subgroup- and a workgroup-scope matrix.
    pub members: [u32; 2],
    pub glsl: Option<Id>,
    pub opencl: Option<Id>,
    pub specialization: &'m Specialization,
}

/// The largest number of rows of all values and variables together.
const MAX_ROWS: u64 = 1 << 22;

impl<'m> Translator<'m> {
    pub(super) fn new(m: &'m Module, specialization: &'m Specialization, config: Config) -> Translator<'m> {
        Translator {
            m,
            config,
            types: Types::new(m),
            d: Decorations::new(m),
            consts: m.id_map(),
            row_of: m.id_map(),
            known: m.id_map(),
            mat: m.id_map(),
            rows: 0,
            constants: Vec::new(),
            function_index: FxHashMap::default(),
            work: Vec::new(),
            functions: Vec::new(),
            privates: Vec::new(),
            builtins: Vec::new(),
            bindings: Vec::new(),
            push: Vec::new(),
            shared: Vec::new(),
            shared_size: 0,
            own_size: 0,
            own_globals: Vec::new(),
            members: [config.subgroup_size.clamp(1, MAX_LANES as u32); 2],
            glsl: None,
            opencl: None,
            specialization,
        }
    }

    /// Translates all that the entry point reaches.
    pub(super) fn run(mut self, entry: Id) -> Result<Program, String> {
        // Placement needs the number of invocations; types do not decide that.
        self.globals()?;
        let local_size = self.local_size(entry)?;
        let lanes = local_size.iter().try_fold(1u32, |a, b| a.checked_mul(*b)).unwrap_or(u32::MAX) as usize;
        if lanes == 0 || lanes > MAX_LANES {
            return Err(format!(
                "a workgroup of {} x {} x {} invocations; at most {MAX_LANES} are run",
                local_size[0], local_size[1], local_size[2]
            ));
        }
        let subgroup = (self.config.subgroup_size as usize).clamp(1, MAX_LANES);
        self.members = [subgroup.min(lanes) as u32, lanes as u32];
        self.globals()?;

        let arguments = self.arguments(entry)?;
        let entry = self.function(entry)?;
        while let Some(id) = self.work.pop() {
            self.translate_function(id);
        }
        let mut ids: Vec<(usize, Id)> = self.function_index.iter().map(|(id, i)| (*i, *id)).collect();
        ids.sort();
        Ok(Program {
            types: self.types,
            decorations: self.d,
            rows: self.rows,
            constants: self.constants,
            privates: self.privates,
            builtins: self.builtins,
            bindings: self.bindings,
            push: self.push,
            shared: self.shared,
            shared_size: self.shared_size,
            own_size: self.own_size,
            own_globals: self.own_globals,
            functions: self.functions,
            ids: ids.into_iter().map(|x| x.1).collect(),
            entry,
            arguments,
            local_size,
            lanes,
            subgroup,
        })
    }

    fn arguments(&mut self, entry: Id) -> Result<Vec<(Row, Argument)>, String> {
        let function = self.m.functions.iter().find(|f| self.m.inst(f.def).result == Some(entry));
        let mut arguments = Vec::new();
        let mut local = self.config.local_memory.into_iter();
        for p in function.iter().flat_map(|f| &f.params) {
            let inst = self.m.inst(*p);
            let (Op::FunctionParameter, Some(id)) = (inst.op, inst.result) else { continue };
            let row = self.row(id)?;
            match *self.types.kind(self.type_of(id)?) {
                Kind::Pointer { class: StorageClass::CrossWorkgroup, .. } => arguments.push((row, Argument::Buffer)),
                Kind::Pointer { class: StorageClass::Workgroup, .. } => {
                    let offset = self.shared_size.next_multiple_of(16);
                    let size = local.next().filter(|s| *s > 0 && *s <= 1 << 20);
                    let Some(size) = size else {
                        return Err(format!(
                            "the parameter {id} of the entry point needs to know how much memory it has"
                        ));
                    };
                    self.shared_size = offset + size;
                    self.shared.push(Shared { id, offset, size, zero: false });
                    arguments.push((row, Argument::Shared(tag::SHARED << tag::SHIFT | u64::from(offset))));
                }
                Kind::Pointer { class: StorageClass::Function, pointee, .. } => {
                    let ty = self.types.of(pointee).ok_or("a parameter points to an unknown type")?;
                    let (size, align) = self.types.size(ty, MatLayout::default());
                    let offset = self.own(ty)?;
                    let bytes = u32::try_from(size).map_err(|_| "an argument is too large")?.next_multiple_of(align);
                    self.constants.push((row, tag::OWN << tag::SHIFT | u64::from(offset), false));
                    arguments.push((row, Argument::Value { bytes, align, offset }));
                }
                Kind::Num(num) => arguments.push((row, Argument::Number(num.bytes()))),
                _ => return Err(format!("the parameter {id} of the entry point is neither a buffer nor a number")),
            }
        }
        Ok(arguments)
    }

    fn globals(&mut self) -> Result<(), String> {
        self.types = Types::new(self.m);
        self.consts = self.m.id_map();
        for r in &self.m.globals {
            let mut inst = self.m.inst(*r);
            if inst.op == Op::TypeForwardPointer {
                // Structs may contain it before it is declared.
                match inst.id(0).and_then(|p| self.m.def_inst(p)) {
                    Some(pointer) => inst = pointer,
                    None => continue,
                }
            }
            let Some(id) = inst.result else { continue };
            if inst.op.is_type() && self.types.of(id).is_none() {
                let kind = match self.types.plain(inst, &self.d) {
                    Some(kind) => kind,
                    None => self.sized_type(inst, id).unwrap_or(Kind::Other),
                };
                self.types.add(id, kind)?;
            } else if inst.op.is_constant() || inst.op == Op::Undef {
                if let Some(value) = self.constant(inst, id)? {
                    self.consts.insert(id, value);
                }
            } else if inst.op == Op::ExtInstImport {
                match inst.string(0).map(|s| s.0).as_deref() {
                    Some("GLSL.std.450") => self.glsl = Some(id),
                    Some("OpenCL.std") => self.opencl = Some(id),
                    _ => {}
                }
            }
        }
        Ok(())
    }

    /// Returns a type whose parameters are constants.
    fn sized_type(&self, inst: &Inst, id: Id) -> Option<Kind> {
        let number = |i: usize| self.scalar(inst.id(i)?);
        Some(match inst.op {
            Op::TypeArray => {
                let stride = self.d.word(id, Decoration::ArrayStride);
                Kind::Array { elem: self.types.of(inst.id(0)?)?, len: u32::try_from(number(1)?).ok()?, stride }
            }
            Op::TypeVectorIdEXT => {
                Kind::Vector { elem: self.types.of(inst.id(0)?)?, len: u32::try_from(number(1)?).ok()? }
            }
            Op::TypeCooperativeMatrixKHR | Op::TypeCooperativeMatrixNV => {
                let elem = self.types.of(inst.id(0)?)?;
                let Kind::Num(num) = *self.types.kind(elem) else { return None };
                let (scope, rows, cols) = (number(1)? as u32, number(2)?, number(3)?);
                let use_ = if inst.op == Op::TypeCooperativeMatrixKHR { number(4)? as u32 } else { 3 };
                if rows == 0 || cols == 0 || rows.saturating_mul(cols) > MAX_SLOTS {
                    return None;
                }
                let members = match scope {
                    3 => self.members[0],
                    2 => self.members[1],
                    _ => return None,
                };
                let (rows, cols) = (rows as u32, cols as u32);
                let placed = Placed::new(self.config.placement, rows, cols, use_, members, num);
                Kind::Coop(Box::new(Coop { num, elem, scope, rows, cols, use_, placed }))
            }
            Op::TypeTensorLayoutNV => {
                let dim = number(0)?;
                if !(1..=5).contains(&dim) {
                    return None;
                }
                Kind::Layout { dim: dim as u32, clamp: number(1)? as u32 }
            }
            Op::TypeTensorViewNV => {
                let dim = number(0)?;
                let perm: Option<Box<[u32]>> = (2..inst.operands.len()).map(|i| Some(number(i)? as u32)).collect();
                let perm = perm?;
                let mut sorted = perm.to_vec();
                sorted.sort_unstable();
                if sorted != (0..dim as u32).collect::<Vec<_>>() {
                    return None;
                }
                Kind::View { dim: dim as u32, has_dims: number(1)? != 0, perm }
            }
            _ => return None,
        })
    }

    /// Returns the value of a scalar constant.
    pub(super) fn scalar(&self, id: Id) -> Option<u64> {
        let value = self.consts.get(id)?;
        match value.v.as_slice() {
            [one] if value.undef.is_empty() => Some(*one),
            _ => None,
        }
    }

    fn constant(&self, inst: &Inst, id: Id) -> Result<Option<Value>, String> {
        let Some(ty) = inst.ty.and_then(|t| self.types.of(t)) else { return Ok(None) };
        let slots = self.types.slots(ty);
        if u64::from(slots) > MAX_SLOTS {
            return Ok(None);
        }
        let n = slots as usize;
        let defined = |v: Vec<u64>| Some(Value { ty, v, undef: Vec::new() });
        let given = || self.d.word(id, Decoration::SpecId).and_then(|s| Some((s, self.specialization.get(s)?)));
        Ok(match inst.op {
            Op::ConstantTrue => defined(vec![1]),
            Op::ConstantFalse => defined(vec![0]),
            Op::ConstantNull => defined(vec![0; n]),
            Op::Undef => Some(Value { ty, v: vec![0; n], undef: vec![true; n] }),
            Op::Constant => defined(vec![self.literal(inst, ty)]),
            op if op.is_spec_literal() => {
                let value = match given() {
                    Some((spec, value)) => {
                        self.specialized(value, inst, ty).map_err(|why| format!("spec constant {spec}: {why}"))?
                    }
                    None if inst.op == Op::SpecConstant => self.literal(inst, ty),
                    None => u64::from(inst.op == Op::SpecConstantTrue),
                };
                defined(vec![value])
            }
            Op::ConstantComposite | Op::SpecConstantComposite => {
                let Some(parts) = inst.ids().map(|p| self.consts.get(p)).collect::<Option<Vec<_>>>() else {
                    return Ok(None);
                };
                if let (Kind::Coop(_), [one]) = (self.types.kind(ty), parts.as_slice()) {
                    let undef = if one.undef.is_empty() { Vec::new() } else { vec![true; n] };
                    return Ok(Some(Value { ty, v: vec![one.v[0]; n], undef }));
                }
                let v: Vec<u64> = parts.iter().flat_map(|p| p.v.iter().copied()).collect();
                let undef = if parts.iter().all(|p| p.undef.is_empty()) {
                    Vec::new()
                } else {
                    let of = |p: &Value| if p.undef.is_empty() { vec![false; p.v.len()] } else { p.undef.clone() };
                    parts.iter().flat_map(|p| of(p)).collect()
                };
                if v.len() == n { Some(Value { ty, v, undef }) } else { None }
            }
            Op::ConstantCompositeReplicateEXT | Op::SpecConstantCompositeReplicateEXT => {
                let Some(part) = inst.id(0).and_then(|p| self.consts.get(p)) else { return Ok(None) };
                let v: Vec<u64> = part.v.iter().copied().cycle().take(n).collect();
                if v.len() == n { defined(v) } else { None }
            }
            Op::SpecConstantOp => self.spec_op(inst, ty)?,
            _ => None,
        })
    }

    fn literal(&self, inst: &Inst, ty: Ty) -> u64 {
        let bits = u64::from(inst.word(0).unwrap_or(0)) | u64::from(inst.word(1).unwrap_or(0)) << 32;
        match self.types.kind(ty) {
            Kind::Num(n) => mask(bits, n.bits()),
            _ => bits,
        }
    }

    fn specialized(&self, value: SpecValue, inst: &Inst, ty: Ty) -> Result<u64, String> {
        let (Kind::Num(num), Some(said)) = (self.types.kind(ty), inst.ty.and_then(|t| Type::of(self.m, t))) else {
            return Err("only scalars can be given a value".into());
        };
        match (num, value) {
            (Num::Bf16 | Num::E4M3 | Num::E5M2, SpecValue::Float(v)) => Ok(num.encode_f64(v)),
            (Num::Bf16 | Num::E4M3 | Num::E5M2, SpecValue::Int(v)) => Ok(num.encode_f64(v as f64)),
            (Num::Bf16 | Num::E4M3 | Num::E5M2, SpecValue::Hex(v)) => Ok(num.encode_f64(v as f64)),
            _ => value.bits(&said),
        }
    }

    /// Evaluates an `OpSpecConstantOp` on one invocation.
    fn spec_op(&self, inst: &Inst, ty: Ty) -> Result<Option<Value>, String> {
        let Some(op) = inst.word(0).and_then(|w| u16::try_from(w).ok()).map(Op) else { return Ok(None) };
        if matches!(op, Op::CooperativeMatrixLengthKHR | Op::CooperativeMatrixLengthNV) {
            let len = inst.id(1).and_then(|t| self.types.of(t)).and_then(|t| self.types.coop(t));
            return Ok(len.map(|c| Value { ty, v: vec![u64::from(c.placed.len)], undef: Vec::new() }));
        }
        let inner = Inst::new(op, inst.ty, inst.result, inst.operands.iter().skip(1).copied());
        let Some(values) = inner.ids().map(|id| self.consts.get(id)).collect::<Option<Vec<_>>>() else {
            return Ok(None);
        };
        let mut args = Vec::new();
        let mut next = 0;
        for value in &values {
            args.push(Arg { row: next, ty: value.ty });
            next += value.v.len() as u32;
        }
        let n = self.types.slots(ty);
        let mut code = Vec::new();
        let manner = Manner::default();
        let translation =
            Translation { types: &self.types, inst: &inner, ty, dst: next, args: &args, manner, out: &mut code };
        if !matches!(translation.run(), Ok(true)) {
            return Ok(None);
        }
        let mut regs = Regs::new(1, (next + n) as usize);
        for (arg, value) in args.iter().zip(&values) {
            for (i, v) in value.v.iter().enumerate() {
                let undef = value.undef.get(i).copied().unwrap_or(false);
                regs.fill(arg.row + i as u32, *v, undef);
            }
        }
        for ins in &code {
            if !eval::execute(&mut regs, ins) {
                return Ok(None);
            }
        }
        let v = (next..next + n).map(|row| regs.get(row, 0)).collect();
        let undef: Vec<bool> = (next..next + n).map(|row| regs.is_undefined(row, 0)).collect();
        Ok(Some(Value { ty, v, undef: if undef.contains(&true) { undef } else { Vec::new() } }))
    }

    fn local_size(&self, entry: Id) -> Result<[u32; 3], String> {
        let built_in =
            self.d.of.iter().find(|d| d.1 == Decoration::BuiltIn && d.2.first() == Some(&BuiltIn::WorkgroupSize.0));
        if let Some(value) = built_in.and_then(|d| self.consts.get(d.0))
            && let [x, y, z] = value.v[..]
        {
            return Ok([x as u32, y as u32, z as u32]);
        }
        for r in &self.m.globals {
            let inst = self.m.inst(*r);
            let Some((_, mode)) = inst.execution_mode().filter(|(function, _)| *function == entry) else { continue };
            match (inst.op, mode) {
                (Op::ExecutionMode, ExecutionMode::LocalSize) => {
                    return Ok([2, 3, 4].map(|i| inst.word(i).unwrap_or(1)));
                }
                (Op::ExecutionModeId, ExecutionMode::LocalSizeId) => {
                    let of = |i: usize| inst.id(i).and_then(|id| self.scalar(id)).map(|v| v as u32);
                    if let (Some(x), Some(y), Some(z)) = (of(2), of(3), of(4)) {
                        return Ok([x, y, z]);
                    }
                }
                _ => {}
            }
        }
        // Kernels leave it to the host.
        self.config.local_size.ok_or_else(|| "the size of a workgroup is not known".into())
    }

    pub(super) fn new_rows(&mut self, n: u32) -> Result<Row, String> {
        let row = self.rows;
        if u64::from(row) + u64::from(n) > MAX_ROWS {
            return Err("values and variables take more memory than the interpreter has".into());
        }
        self.rows += n;
        Ok(row)
    }

    /// Returns a row that holds a constant.
    pub(super) fn constant_row(&mut self, v: u64) -> Result<Row, String> {
        let row = self.new_rows(1)?;
        self.constants.push((row, v, false));
        Ok(row)
    }

    /// Returns the type of a value.
    pub(super) fn type_of(&self, id: Id) -> Result<Ty, String> {
        self.m.type_of(id).and_then(|t| self.types.of(t)).ok_or_else(|| format!("{id} has no type"))
    }

    /// Returns the first row of a value.
    pub(super) fn row(&mut self, id: Id) -> Result<Row, String> {
        if let Some(row) = self.row_of.get(id) {
            return Ok(*row);
        }
        let row = if let Some(value) = self.consts.get(id).cloned() {
            let row = self.new_rows(value.v.len() as u32)?;
            for (i, v) in value.v.iter().enumerate() {
                self.constants.push((row + i as u32, *v, value.undef.get(i).copied().unwrap_or(false)));
            }
            row
        } else {
            let inst = self.m.def_inst(id).ok_or_else(|| format!("{id} is not defined"))?;
            if matches!(inst.op, Op::Variable | Op::UntypedVariableKHR) {
                return self.variable(inst, id);
            }
            if inst.op.is_constant() {
                return Err(format!("the value of the constant {id} can't be computed"));
            }
            let ty = self.type_of(id)?;
            let n = self.types.slots(ty);
            if u64::from(n) > MAX_SLOTS {
                return Err(format!("{id} has {n} components"));
            }
            self.new_rows(n)?
        };
        self.row_of.insert(id, row);
        Ok(row)
    }

    fn variable(&mut self, inst: &Inst, id: Id) -> Result<Row, String> {
        let storage = inst.enumerant(0).unwrap_or(StorageClass::UniformConstant);
        let pointee = if inst.op == Op::UntypedVariableKHR {
            inst.id(1).and_then(|t| self.types.of(t))
        } else {
            match self.type_of(id).map(|t| self.types.kind(t).clone()) {
                Ok(Kind::Pointer { pointee, .. }) => self.types.of(pointee),
                _ => None,
            }
        };
        let pointee = pointee.ok_or_else(|| format!("the variable {id} has no known type"))?;
        let initializer = inst.initializer();
        let row = match storage {
            StorageClass::StorageBuffer | StorageClass::Uniform => {
                let row = self.new_rows(1)?;
                let set = self.d.word(id, Decoration::DescriptorSet).unwrap_or(0);
                let binding =
                    self.d.word(id, Decoration::Binding).ok_or_else(|| format!("the variable {id} has no binding"))?;
                if matches!(self.types.kind(pointee), Kind::Array { .. } | Kind::Runtime { .. }) {
                    return Err(format!("the variable {id} is an array of buffers"));
                }
                self.bindings.push(Binding { set, binding, row, id });
                row
            }
            StorageClass::PushConstant => {
                let row = self.new_rows(1)?;
                self.push.push(row);
                row
            }
            StorageClass::Workgroup => {
                let (size, align) = self.types.size(pointee, MatLayout::default());
                let size = u32::try_from(size).ok().filter(|s| *s <= 1 << 26).ok_or("too much shared memory")?;
                // Matrices in shared memory ask for 16 bytes; devices give that.
                let offset = self.shared_size.next_multiple_of(align.max(16));
                let aliased = self.explicit_workgroup(pointee);
                let offset = if aliased { 0 } else { offset };
                self.shared_size = self.shared_size.max(offset + size);
                let zero = initializer.is_some();
                self.shared.push(Shared { id, offset, size, zero });
                self.constant_row(tag::SHARED << tag::SHIFT | u64::from(offset))?
            }
            StorageClass::Function | StorageClass::Private | StorageClass::UniformConstant
                if self.is_in_bytes(pointee) =>
            {
                let offset = self.own(pointee)?;
                if storage != StorageClass::Function {
                    let leaves = self.types.leaves(pointee, MatLayout::default()).unwrap_or_default();
                    let init = initializer.and_then(|i| self.consts.get(i)).cloned();
                    self.own_globals.push((offset, leaves, init));
                }
                self.constant_row(tag::OWN << tag::SHIFT | u64::from(offset))?
            }
            StorageClass::Private
            | StorageClass::Input
            | StorageClass::Output
            | StorageClass::UniformConstant
            | StorageClass::Function => {
                let n = self.types.slots(pointee);
                if u64::from(n) > MAX_SLOTS {
                    return Err(format!("the variable {id} has {n} components"));
                }
                let rows = self.new_rows(n)?;
                let pointer = tag::ROWS << tag::SHIFT | u64::from(rows);
                self.known.insert(id, pointer);
                // Of a variable, or of the members of a block.
                let mut built_in: Vec<(u32, Row, u32)> = Vec::new();
                if storage == StorageClass::Input {
                    let of = self.types.get(pointee).id;
                    match (self.d.word(id, Decoration::BuiltIn), self.types.kind(pointee)) {
                        (Some(b), _) => built_in.push((b, rows, n)),
                        (None, Kind::Struct { members }) => built_in.extend((0..).zip(members).filter_map(|(i, m)| {
                            Some((self.d.member(of, i, Decoration::BuiltIn)?, rows + m.slot, self.types.slots(m.ty)))
                        })),
                        _ => {}
                    }
                }
                match storage {
                    StorageClass::Input if !built_in.is_empty() => self.builtins.append(&mut built_in),
                    StorageClass::Function => {}
                    _ => {
                        let init = initializer.and_then(|i| self.consts.get(i)).cloned();
                        self.privates.push((rows, n, init));
                    }
                }
                self.constant_row(pointer)?
            }
            other => return Err(format!("the variable {id} has storage class {other}, which is not run")),
        };
        self.row_of.insert(id, row);
        Ok(row)
    }

    /// Returns true if the module has OpenCL kernels.
    pub(super) fn is_kernel(&self) -> bool {
        let has = |c: coop_ir::spv::Capability| self.m.has_capability(c);
        has(coop_ir::spv::Capability::Kernel) && !has(coop_ir::spv::Capability::Shader)
    }

    /// Returns true if a private variable is in byte-addressed memory: in kernels, unless it holds matrices, which have
    /// no layout.
    pub(super) fn is_in_bytes(&self, pointee: Ty) -> bool {
        self.is_kernel() && self.types.leaves(pointee, MatLayout::default()).is_some()
    }

    /// Allocates a variable in the memory of each invocation.
    fn own(&mut self, ty: Ty) -> Result<u32, String> {
        let (size, _) = self.types.size(ty, MatLayout::default());
        let offset = self.own_size.next_multiple_of(16);
        let end = u64::from(offset) + size;
        self.own_size = u32::try_from(end).ok().filter(|end| *end <= 1 << 20).ok_or("too much private memory")?;
        Ok(offset)
    }

    /// Returns true if a Workgroup variable is a block: all blocks of an entry point begin at the same offset.
    fn explicit_workgroup(&self, pointee: Ty) -> bool {
        matches!(self.types.kind(pointee), Kind::Struct { .. })
            && self.d.has(self.types.get(pointee).id, Decoration::Block)
    }

    /// Returns the index of a function that is called.
    pub(super) fn function(&mut self, id: Id) -> Result<usize, String> {
        if let Some(i) = self.function_index.get(&id) {
            return Ok(*i);
        }
        let function = self
            .m
            .functions
            .iter()
            .find(|f| self.m.inst(f.def).result == Some(id))
            .ok_or_else(|| format!("{id} is not a function"))?;
        let i = self.functions.len();
        self.function_index.insert(id, i);
        self.functions.push(Func::default());
        let mut params = Vec::new();
        for p in &function.params {
            let inst = self.m.inst(*p);
            if let (Op::FunctionParameter, Some(param)) = (inst.op, inst.result) {
                let n = self.types.slots(self.type_of(param)?);
                params.push((self.row(param)?, n));
            }
        }
        let ret = self.m.inst(function.def).ty.and_then(|t| self.types.of(t));
        let n = ret.map_or(0, |t| self.types.slots(t));
        let row = self.new_rows(n)?;
        self.functions[i].params = params;
        self.functions[i].ret = (row, n);
        self.work.push(id);
        Ok(i)
    }

    /// Returns the properties of an instruction that its decorations and its module decide.
    pub(super) fn manner(&self, inst: &Inst, _at: InstRef) -> Manner {
        let Some(id) = inst.result else { return Manner::default() };
        let mode = self.d.word(id, Decoration::FPRoundingMode).and_then(|m| {
            Some(match m {
                0 => Rounding::NearestEven,
                1 => Rounding::ToZero,
                2 => Rounding::Up,
                3 => Rounding::Down,
                _ => return None,
            })
        });
        let to_float = inst.op.is_conversion_to_float();
        let saturate = self.d.has(
            id,
            if to_float {
                Decoration::SaturatedToLargestFloat8NormalConversionEXT
            } else {
                Decoration::SaturatedConversion
            },
        );
        let floor_strides = self.config.semantics == Semantics::Nvidia;
        Manner {
            saturate,
            mode,
            floor_strides,
            // What is run of OpenCL.std has the numbers of GLSL.std.450 by now.
            glsl: inst.op == Op::ExtInst
                && inst.ext_set().is_some_and(|set| Some(set) == self.glsl || Some(set) == self.opencl),
        }
    }

    pub(super) fn push_all(&self, code: &mut Vec<Ins>, at: &mut Vec<InstRef>, more: Vec<Ins>, r: InstRef) {
        at.extend(std::iter::repeat_n(r, more.len()));
        code.extend(more);
    }
}
