//! Integers of 4 bits (SPV_INTEL_int4) as integers of 8 bits.
//!
//! Their values are between 0 and 15 afterwards, in 8 bits without a sign, whatever the type said of one: what reads them as numbers
//! with a sign, which are `OpSConvert`, `OpConvertSToF` and multiplications that say so, extends the sign first. The extension has no
//! arithmetic on them, and of memory that others see it has only vectors of them; what it does not have is refused here.
//!
//! A matrix of them lies in memory two elements to a byte, the first in the low bits. No tensor layout says that, so a load is an
//! operation on each element, which finds its half of a byte by row and column; and a store one that puts it into its word by
//! atomic operations, since the other elements of the word are others'.

use super::edit::{Edit, Shape, malformed, within};
use super::surface::{self, Access};
use crate::cleanup::{remove_capability, remove_extension};
use crate::kernel::is_kernel;
use crate::scalar::bits::small_type;
use crate::scalar::memory::access_operands;
use crate::scalar::place::{Place, place, steppable};
use crate::{Checked, Refusal};
use coop_ir::builder::{FunctionBuilder, Index, require_capability, require_extension};
use coop_ir::rewrite::{sort_globals, unify_types};
use coop_ir::types::{self, Scalar, Type};
use coop_ir::{Id, InstRef, Module, Op, Operand};
use rustc_hash::{FxHashMap, FxHashSet};
use spirv::{Capability, Scope, StorageClass};

const BYTE: Scalar = Scalar::Int { width: 8, signed: false };
const LONG: Scalar = Scalar::Int { width: 64, signed: false };

/// Int4TypeINTEL and Int4CooperativeMatrixINTEL.
const CAPABILITIES: [u32; 2] = [5112, 5114];

/// Operands of multiplications: signs of A and B, of C and the result, and saturation.
const SIGNS: [u32; 2] = [1, 2];
const SUMS_SIGNED: u32 = 4 | 8;
const SATURATING: u32 = 0x10;

fn is_four(scalar: Scalar) -> bool {
    matches!(scalar, Scalar::Int { width: 4, .. })
}

pub(super) fn run(m: &mut Module, checked: Checked) -> Result<(), Refusal> {
    let four = |m: &Module, r: InstRef| m.inst(r).result.and_then(|id| types::scalar(m, id)).is_some_and(is_four);
    let types: Vec<InstRef> = m.globals_with(Op::TypeInt).filter(|r| four(m, *r)).collect();
    if types.is_empty() {
        return Ok(());
    }
    memory_holds_none(m)?;
    let kernel = is_kernel(m);
    let mut pass = Pass { checked, kernel, functions: FxHashMap::default() };
    let mut e = Edit::new(m);
    e.each(&mut |e, r| pass.inst(e, r))?;
    widen(m, &types);
    Ok(())
}

/// The types become those of 8 bits, under their ids, and their constants hold 4 of them.
fn widen(m: &mut Module, four: &[InstRef]) {
    let ids: Vec<Id> = four.iter().filter_map(|r| m.inst(*r).result).collect();
    for r in m.globals.clone() {
        let inst = m.inst(r);
        let constant = matches!(inst.op, Op::Constant | Op::SpecConstant) && inst.ty.is_some_and(|t| ids.contains(&t));
        if let Some(value) = inst.word(0).filter(|_| constant) {
            m.inst_mut(r).operands[0] = Operand::Word(value & 15);
        }
    }
    for r in four {
        m.inst_mut(*r).operands = [8, 0].map(Operand::Word).into_iter().collect();
    }
    small_type(m, BYTE);
    for c in CAPABILITIES {
        remove_capability(m, c);
    }
    remove_extension(m, "SPV_INTEL_int4");
    if m.globals_with(Op::TypeCooperativeMatrixKHR).next().is_some() {
        require_capability(m, Capability::CooperativeMatrixKHR as u32);
        require_extension(m, "SPV_KHR_cooperative_matrix");
    }
    unify_types(m);
    sort_globals(m);
}

fn refuse<T>(r: InstRef, why: String) -> Result<T, Refusal> {
    let remedy = "widen the integers to 8 bits where they are made";
    Err(Refusal::new("refused-type", Some(r), why, remedy))
}

/// Refuses 4-bit integers in memory that is not an invocation's own. (SPV_INTEL_int4 has vectors of them there.)
fn memory_holds_none(m: &Module) -> Result<(), Refusal> {
    fn has(m: &Module, ty: Id, depth: u32) -> bool {
        match Type::of(m, ty) {
            Some(Type::Scalar(s)) => is_four(s),
            Some(Type::Vector { elem, .. } | Type::Array { elem, .. } | Type::RuntimeArray { elem }) if depth < 16 => {
                has(m, elem, depth + 1)
            }
            Some(Type::Struct { members }) if depth < 16 => members.iter().any(|member| has(m, *member, depth + 1)),
            _ => false,
        }
    }
    let own = [StorageClass::Function as u32, StorageClass::Private as u32];
    let used: FxHashSet<Id> = m.all().filter_map(|r| m.inst(r).ty).collect();
    for r in m.globals_with(Op::TypePointer).filter(|r| m.inst(*r).result.is_some_and(|id| used.contains(&id))) {
        let Some(Type::Pointer { storage, pointee }) = m.inst(r).result.and_then(|t| Type::of(m, t)) else { continue };
        // Generic pointers may be to an invocation's own elements.
        let elsewhere = !own.contains(&storage) && storage != StorageClass::Generic as u32;
        // Kernels, and what becomes of them in Vulkan, point to components as to bytes.
        let physical = storage == StorageClass::PhysicalStorageBuffer as u32;
        let component = physical || is_kernel(m) && types::scalar(m, pointee).is_some();
        if elsewhere && !component && has(m, pointee, 0) {
            return refuse(
                r,
                "4-bit integers lie in memory as vectors, two to a byte (SPV_INTEL_int4), which is not lowered".into(),
            );
        }
    }
    Ok(())
}

/// What a function for each element does.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Made {
    Signed,
    Masked,
}

struct Pass {
    checked: Checked,
    kernel: bool,
    functions: FxHashMap<(Made, Id), Id>,
}

/// Whether a type is of 4-bit integers, and whether it is a matrix's.
fn of(m: &Module, ty: Option<Id>) -> Option<bool> {
    let ty = ty?;
    if let Some(matrix) = types::coop_mat(m, ty) {
        return types::scalar(m, matrix.component).filter(|s| is_four(*s)).map(|_| true);
    }
    types::scalar_or_vector(m, ty).filter(|(s, _)| is_four(*s)).map(|_| false)
}

/// The width of the integers of a type.
fn width(m: &Module, ty: Option<Id>) -> Option<u32> {
    let ty = ty?;
    let scalar = match types::coop_mat(m, ty) {
        Some(matrix) => types::scalar(m, matrix.component),
        None => types::scalar_or_vector(m, ty).map(|(s, _)| s),
    };
    scalar.filter(|s| matches!(s, Scalar::Int { .. })).map(Scalar::width)
}

impl Pass {
    /// Answers whether the instruction stays.
    fn inst(&mut self, e: &mut Edit<'_>, r: InstRef) -> Result<bool, Refusal> {
        let inst = e.m.inst(r).clone();
        let to = of(e.m, inst.ty);
        let from = inst.ids().find_map(|id| of(e.m, e.m.type_of(id)));
        if to.is_none() && from.is_none() {
            return Ok(true);
        }
        match inst.op {
            Op::CooperativeMatrixLoadKHR
            | Op::CooperativeMatrixLoadCheckedINTEL
            | Op::CooperativeMatrixLoadOffsetINTEL
            | Op::CooperativeMatrixStoreKHR
            | Op::CooperativeMatrixStoreCheckedINTEL
            | Op::CooperativeMatrixStoreOffsetINTEL => return self.access(e, r),
            Op::CooperativeMatrixMulAddKHR => self.muladd(e, r)?,
            Op::UConvert | Op::SConvert | Op::ConvertSToF | Op::ConvertUToF | Op::ConvertFToS | Op::ConvertFToU => {
                self.convert(e, r, to.is_some())?;
            }
            // Between types with and without a sign.
            Op::Bitcast if to == Some(false) && from == Some(false) && inst.ty.is_some() => {
                let lanes = |ty: Option<Id>| ty.and_then(|t| types::scalar_or_vector(e.m, t)).map(|(_, n)| n);
                if lanes(inst.ty) != lanes(inst.id(0).and_then(|v| e.m.type_of(v))) {
                    return refuse(r, "vectors of 4-bit integers are cast to others".into());
                }
                e.replace(r, Op::CopyObject, inst.operands.iter().copied());
            }
            Op::Load
            | Op::Store
            | Op::Variable
            | Op::CopyMemory
            | Op::AccessChain
            | Op::InBoundsAccessChain
            | Op::PtrAccessChain
            | Op::InBoundsPtrAccessChain
            | Op::CopyObject
            | Op::Phi
            | Op::Select
            | Op::FunctionCall
            | Op::FunctionParameter
            | Op::ReturnValue
            | Op::Undef
            | Op::CompositeConstruct
            | Op::CompositeExtract
            | Op::CompositeInsert
            | Op::VectorShuffle
            | Op::VectorExtractDynamic
            | Op::VectorInsertDynamic
            | Op::ExtInst
            | Op::CooperativeMatrixLengthKHR
            | Op::CooperativeMatrixGetElementCoordINTEL
            | Op::CooperativeMatrixGetCoordinateEXT
            | Op::CooperativeMatrixConstructCheckedINTEL
            | Op::CooperativeMatrixConvertNV
            | Op::CooperativeMatrixTransposeNV => {}
            op => return refuse(r, format!("SPV_INTEL_int4 has no {op} of 4-bit integers")),
        }
        Ok(true)
    }

    /// A function of elements, on a matrix; the same on a number or vector.
    fn each(&mut self, e: &mut Edit<'_>, how: Made, value: Id) -> Result<Id, Refusal> {
        let Some(ty) = e.m.type_of(value) else { return Ok(value) };
        let Some(matrix) = types::coop_mat(e.m, ty) else {
            let lanes = types::scalar_or_vector(e.m, ty).map_or(1, |(_, n)| n);
            let all = |e: &mut Edit<'_>, bits: u64| {
                let scalar = types::scalar_or_vector(e.m, ty).map_or(BYTE, |(s, _)| s);
                let elem = e.g.scalar(e.m, scalar);
                let one = e.g.constant_of(e.m, elem, scalar, bits);
                if lanes == 1 { one } else { e.ids(Op::CompositeConstruct, ty, &vec![one; lanes as usize]) }
            };
            return Ok(match how {
                Made::Masked => {
                    let low = all(e, 15);
                    e.ids(Op::BitwiseAnd, ty, &[value, low])
                }
                Made::Signed => {
                    let sign = all(e, 8);
                    let turned = e.ids(Op::BitwiseXor, ty, &[value, sign]);
                    e.ids(Op::ISub, ty, &[turned, sign])
                }
            });
        };
        let component = matrix.component;
        let function = match self.functions.get(&(how, component)) {
            Some(f) => *f,
            None => {
                let word = e.g.uint(e.m, 32);
                let (sign, low) = {
                    let scalar = types::scalar(e.m, component).unwrap_or(BYTE);
                    (e.g.constant_of(e.m, component, scalar, 8), e.g.constant_of(e.m, component, scalar, 15))
                };
                let mut b = e.function("coop_int4", component, &[word, word, component]);
                let x = b.param(2);
                let out = match how {
                    Made::Masked => b.ids(Op::BitwiseAnd, component, &[x, low]),
                    Made::Signed => {
                        let turned = b.ids(Op::BitwiseXor, component, &[x, sign]);
                        b.ids(Op::ISub, component, &[turned, sign])
                    }
                };
                let f = b.finish(Some(out));
                self.functions.insert((how, component), f);
                f
            }
        };
        Ok(e.ids(Op::CooperativeMatrixPerElementOpNV, ty, &[value, function]))
    }

    fn convert(&mut self, e: &mut Edit<'_>, r: InstRef, to_four: bool) -> Result<(), Refusal> {
        let inst = e.m.inst(r).clone();
        let (Some(mut value), Some(ty)) = (inst.id(0), inst.ty) else { return malformed(r, "a conversion of nothing") };
        let from = e.m.type_of(value);
        let from_four = of(e.m, from).is_some();
        if from_four && matches!(inst.op, Op::SConvert | Op::ConvertSToF) {
            value = self.each(e, Made::Signed, value)?;
        }
        // What has 8 bits has the width already.
        let same = |e: &Edit<'_>, other: Option<Id>| matches!(width(e.m, other), Some(4 | 8));
        let resized = matches!(inst.op, Op::UConvert | Op::SConvert);
        if !to_four {
            let op = if resized && same(e, inst.ty) { Op::Bitcast } else { inst.op };
            e.replace(r, op, [value.into()]);
            return Ok(());
        }
        let op = if resized && same(e, from) { Op::Bitcast } else { inst.op };
        let wide = e.ids(op, ty, &[value]);
        let masked = self.each(e, Made::Masked, wide)?;
        e.replace(r, Op::CopyObject, [masked.into()]);
        Ok(())
    }

    fn muladd(&mut self, e: &mut Edit<'_>, r: InstRef) -> Result<(), Refusal> {
        let inst = e.m.inst(r).clone();
        let (Some(a), Some(b), Some(c)) = (inst.id(0), inst.id(1), inst.id(2)) else {
            return malformed(r, "the operands are not three matrices");
        };
        if of(e.m, inst.ty).is_some() || of(e.m, e.m.type_of(c)).is_some() {
            return refuse(r, "sums of 4 bits: nothing says what becomes of the other bits".into());
        }
        let mut bits = inst.word(3).unwrap_or(0);
        let mut factors = [a, b];
        for (factor, sign) in factors.iter_mut().zip(SIGNS) {
            if bits & sign != 0 && of(e.m, e.m.type_of(*factor)).is_some() {
                *factor = self.each(e, Made::Signed, *factor)?;
            }
        }
        let both = [a, b].iter().all(|x| of(e.m, e.m.type_of(*x)).is_some());
        if both && bits & 3 != 0 {
            // Every value of 4 bits is one of 8 bits with a sign, and devices multiply those by each other.
            bits |= 3;
            if bits & SATURATING == 0 {
                bits |= SUMS_SIGNED;
            }
        }
        let operands = [factors[0], factors[1], c].map(Operand::Id).into_iter();
        e.replace(r, inst.op, operands.chain((bits != 0).then_some(Operand::Word(bits))));
        Ok(())
    }

    /// A load or store as an operation on each element.
    fn access(&mut self, e: &mut Edit<'_>, r: InstRef) -> Result<bool, Refusal> {
        let inst = e.m.inst(r).clone();
        let Some(access) = Access::of(&inst) else { return malformed(r, "the operands don't fit the instruction") };
        let shape = match access.object {
            Some(object) => e.shape(r, object)?,
            None => e.shape_of_type(r, inst.ty)?,
        };
        let mut at = At::new(e, r, &access, shape, (self.kernel, self.checked))?;
        let function = at.function(e, &access, shape);
        let object = access.object.unwrap_or_else(|| e.g.null(e.m, shape.ty));
        let operands: Vec<Id> = [object, function].into_iter().chain(at.extras).collect();
        if access.store {
            e.ids(Op::CooperativeMatrixPerElementOpNV, shape.ty, &operands);
            return Ok(false);
        }
        e.replace(r, Op::CooperativeMatrixPerElementOpNV, operands.into_iter().map(Operand::Id));
        Ok(true)
    }
}

/// Where the elements of an access are, and what its function takes besides row, column and element.
struct At {
    place: Place,
    layout: u64,
    /// Rows that a line of the packed layout has, and 1 otherwise.
    rows: u32,
    /// Whether elements are counted with 64 bits.
    wide: bool,
    /// Elements in a unit of memory.
    per: u32,
    /// Elements for each of the stride.
    stride_counts: u32,
    extras: Vec<Id>,
    /// Which of the extras is what.
    root: Option<usize>,
    last: Option<usize>,
    stride: usize,
    offset: Option<usize>,
    bound: Option<usize>,
}

impl At {
    fn new(
        e: &mut Edit<'_>,
        r: InstRef,
        access: &Access,
        shape: Shape,
        (kernel, checked): (bool, Checked),
    ) -> Result<At, Refusal> {
        let layout = e.known(access.layout).filter(|l| *l <= surface::PACKED);
        let Some(layout) = layout else {
            let why = "the memory layout of 4-bit integers is none of rows, columns and packed".to_owned();
            return Err(Refusal::new("refused-layout", Some(r), why, "use RowMajor, ColumnMajor or PackedINTEL"));
        };
        let mut place = place(e.m, &e.constants, r, access.pointer)?;
        // Compilers of kernels let pointers point to the components; those are bytes in a moment.
        let wide = kernel || place.storage == StorageClass::PhysicalStorageBuffer as u32;
        let components = is_four(place.memory) && wide && place.lanes == 1;
        if components {
            place.memory = BYTE;
        }
        let bits = match place.memory {
            Scalar::Int { width: width @ (8 | 16 | 32), .. } if place.lanes == 1 && place.component.is_none() => width,
            other => {
                let why = format!("a matrix of 4-bit integers in memory of {other} or vectors");
                return Err(Refusal::new("refused-pointer", Some(r), why, "point to integers of 8, 16 or 32 bits"));
            }
        };
        if access.store && bits != 32 {
            let why =
                format!("elements of 4 bits are stored into {}, where an element does not fill a number", place.memory);
            return Err(Refusal::new(
                "refused-store-narrow",
                Some(r),
                why,
                "store through a pointer to 32-bit integers",
            ));
        }
        let rows = if layout == surface::PACKED && shape.use_ != 0 { 8 } else { 1 };
        if !shape.rows.is_multiple_of(rows) {
            let why = format!("a matrix of {} rows is packed by {rows} rows", shape.rows);
            return Err(Refusal::new("refused-layout", Some(r), why, "use a number of rows that can be packed"));
        }
        let counts_components = access.offset.is_some() || layout == surface::PACKED || kernel || components;
        let mut at = At {
            layout,
            rows,
            wide,
            per: bits / 4,
            stride_counts: if counts_components { 1 } else { bits / 4 },
            extras: Vec::new(),
            root: None,
            last: None,
            stride: 0,
            offset: None,
            bound: None,
            place,
        };
        at.pass(e, r, access, checked)?;
        Ok(at)
    }

    /// Collects what the function takes.
    fn pass(&mut self, e: &mut Edit<'_>, r: InstRef, access: &Access, checked: Checked) -> Result<(), Refusal> {
        let zero = e.g.u32(e.m, 0);
        let mut offset = match access.offset {
            Some([a, b]) => Some([e.word(r, a)?, e.word(r, b)?]),
            None => None,
        };
        let mut bound = match access.bound {
            Some([a, b]) => Some([surface::extent(e, r, a)?, surface::extent(e, r, b)?]),
            None => None,
        };
        if checked == Checked::Prose {
            let (o, b) = surface::prose(e, self.layout, self.rows, offset.unwrap_or([zero, zero]), bound);
            (offset, bound) = (offset.map(|_| o), b);
        }
        let Some(mut stride) = access.stride.or(bound.map(|[_, width]| width)) else {
            return malformed(r, "a stride is missing");
        };
        if self.wide {
            let long = e.g.scalar(e.m, LONG);
            match e.m.type_of(stride).and_then(|t| types::scalar(e.m, t)) {
                Some(LONG) => {}
                Some(Scalar::Int { width: 64, .. }) => stride = e.ids(Op::Bitcast, long, &[stride]),
                Some(Scalar::Int { .. }) => stride = e.ids(Op::UConvert, long, &[stride]),
                _ => return malformed(r, "the stride is no integer"),
            }
        } else {
            stride = self.unsigned(e, r, stride)?;
        }
        if let Some((last, before)) = self.place.indices.clone().split_last() {
            if before.iter().any(|id| e.known(*id).is_none()) || !self.place.global && !self.wide {
                let why =
                    "a matrix of 4-bit integers in one of several buffers, which is not known before the module runs";
                return Err(Refusal::new("refused-pointer", Some(r), why.to_owned(), "index buffers by constants"));
            }
            let last = self.unsigned(e, r, *last)?;
            self.last = Some(self.extra(last));
        }
        if !self.place.global {
            self.root = Some(self.extra(self.place.root));
        }
        self.stride = self.extra(stride);
        for (pair, slot) in [(offset, 0), (bound, 1)] {
            let Some([a, b]) = pair else { continue };
            let (a, b) = (self.unsigned(e, r, a)?, self.unsigned(e, r, b)?);
            let first = self.extra(a);
            self.extra(b);
            *(if slot == 0 { &mut self.offset } else { &mut self.bound }) = Some(first);
        }
        Ok(())
    }

    fn extra(&mut self, id: Id) -> usize {
        self.extras.push(id);
        self.extras.len() - 1
    }

    /// A 32-bit number without a sign.
    fn unsigned(&self, e: &mut Edit<'_>, r: InstRef, id: Id) -> Result<Id, Refusal> {
        let value = e.word(r, id)?;
        let word = e.g.uint(e.m, 32);
        Ok(if e.m.type_of(value) == Some(word) { value } else { e.ids(Op::Bitcast, word, &[value]) })
    }

    /// The function of row, column, element and the extras.
    fn function(&mut self, e: &mut Edit<'_>, access: &Access, shape: Shape) -> Id {
        let word = e.g.uint(e.m, 32);
        let mut params = vec![word, word, shape.component];
        params.extend(self.extras.iter().filter_map(|id| e.m.type_of(*id)));
        if access.store {
            require_device_scope(e.m, self.place.storage);
        }
        let memory = access_operands(&access.memory, self.per / 2);
        let label = if access.store { "coop_store_int4" } else { "coop_load_int4" };
        let mut made = e.function(label, shape.component, &params);
        let b = &mut made;
        let [row, col, element] = [0, 1, 2].map(|at| b.param(at));
        let (line, along) = self.surface(b, Index::Value(row), Index::Value(col));
        let inside = self.inside(b, (row, col), (line, along), shape);
        let zero = b.globals.null(b.module, shape.component);
        let out = if access.store {
            b.when(inside, &mut |b| {
                let (pointer, shift) = self.pointer(b, line, along);
                self.put(b, pointer, shift, element);
            });
            vec![element]
        } else {
            b.choose(
                inside,
                &[shape.component],
                &mut |b| {
                    let (pointer, shift) = self.pointer(b, line, along);
                    vec![self.get(b, pointer, shift, shape.component, &memory)]
                },
                &mut |_| vec![zero],
            )
        };
        made.finish(Some(out[0]))
    }

    /// Line and element of the line.
    fn surface(&self, b: &mut FunctionBuilder<'_>, row: Index, col: Index) -> (Index, Index) {
        let (line, along) = match self.layout {
            surface::COLUMN_MAJOR => (col, row),
            _ if self.rows > 1 => {
                let (high, low) = (b.div(row, self.rows), b.rem(row, self.rows));
                let begin = b.mul(col, Index::Const(self.rows));
                (high, b.add(begin, low))
            }
            _ => (row, col),
        };
        let Some(first) = self.offset else { return (line, along) };
        let (x, y) = (b.param(3 + first), b.param(4 + first));
        (b.add(line, Index::Value(x)), b.add(along, Index::Value(y)))
    }

    fn inside(
        &self,
        b: &mut FunctionBuilder<'_>,
        (row, col): (Id, Id),
        (line, along): (Index, Index),
        shape: Shape,
    ) -> Id {
        let truth = b.globals.bool(b.module);
        let rows = b.compare(Op::ULessThan, Index::Value(row), Index::Const(shape.rows));
        let cols = b.compare(Op::ULessThan, Index::Value(col), Index::Const(shape.cols));
        let mut inside = b.ids(Op::LogicalAnd, truth, &[rows, cols]);
        if let Some(first) = self.bound {
            let none = b.u32(0);
            for (at, end) in [(line, b.param(3 + first)), (along, b.param(4 + first))] {
                let at = b.index(at);
                let test = within(b, none, at, end);
                inside = b.ids(Op::LogicalAnd, truth, &[inside, test]);
            }
        }
        inside
    }

    /// The pointer to the unit that an element is in, and the bit where it begins.
    fn pointer(&self, b: &mut FunctionBuilder<'_>, line: Index, along: Index) -> (Id, Index) {
        let stride = b.param(3 + self.stride);
        let by = self.per.trailing_zeros();
        let (unit, low) = if self.wide {
            let (long, by) = (b.globals.scalar(b.module, LONG), b.globals.constant(b.module, LONG, by.into()));
            let [line, along] = [line, along].map(|n| {
                let n = b.index(n);
                b.ids(Op::SConvert, long, &[n])
            });
            let mut begin = b.ids(Op::IMul, long, &[line, stride]);
            if self.stride_counts > 1 {
                begin = b.ids(Op::ShiftLeftLogical, long, &[begin, by]);
            }
            let number = b.ids(Op::IAdd, long, &[begin, along]);
            let word = b.u32_type();
            let low = b.ids(Op::UConvert, word, &[number]);
            (b.ids(Op::ShiftRightArithmetic, long, &[number, by]), Index::Value(low))
        } else {
            let begin = b.mul(line, Index::Value(stride));
            let begin = b.mul(begin, Index::Const(self.stride_counts));
            let number = b.add(begin, along);
            let unit = b.div(number, self.per);
            (b.index(unit), number)
        };
        let bit = b.rem(low, self.per);
        let shift = b.mul(bit, Index::Const(4));
        let pointer_type = b.globals.pointer(b.module, self.place.storage, self.place.memory_ty);
        let root = self.root.map_or(self.place.root, |at| b.param(3 + at));
        let Some((_, before)) = self.place.indices.split_last() else {
            let root = steppable(b, &self.place, root);
            let ty = b.module.type_of(root).unwrap_or(pointer_type);
            return (b.ids(Op::PtrAccessChain, ty, &[root, unit]), shift);
        };
        let last = self.last.map(|at| b.param(3 + at));
        let at = match last {
            Some(last) if self.wide => {
                let long = b.globals.scalar(b.module, LONG);
                let last = b.ids(Op::UConvert, long, &[last]);
                b.ids(Op::IAdd, long, &[last, unit])
            }
            Some(last) => {
                let sum = b.add(Index::Value(last), Index::Value(unit));
                b.index(sum)
            }
            None => unit,
        };
        let chain: Vec<Id> = [root].into_iter().chain(before.iter().copied()).chain([at]).collect();
        (b.ids(Op::AccessChain, pointer_type, &chain), shift)
    }

    fn get(&self, b: &mut FunctionBuilder<'_>, pointer: Id, shift: Index, to: Id, memory: &[Operand]) -> Id {
        let operands = [Operand::Id(pointer)].into_iter().chain(self.aligned(memory));
        let unit = b.op(Op::Load, self.place.memory_ty, operands);
        let word = b.u32_type();
        let unit = match self.place.memory {
            Scalar::Int { width: 32, .. } if self.place.memory_ty == word => unit,
            Scalar::Int { width: 32, .. } => b.ids(Op::Bitcast, word, &[unit]),
            _ => b.ids(Op::UConvert, word, &[unit]),
        };
        let moved = b.u32_op(Op::ShiftRightLogical, Index::Value(unit), shift);
        let value = b.u32_op(Op::BitwiseAnd, moved, Index::Const(15));
        let value = b.index(value);
        b.ids(Op::UConvert, to, &[value])
    }

    /// Memory operands of a load; addresses need their alignment.
    fn aligned(&self, memory: &[Operand]) -> Vec<Operand> {
        let physical = self.place.storage == StorageClass::PhysicalStorageBuffer as u32;
        if memory.is_empty() && physical {
            vec![Operand::Word(2), Operand::Word(self.per / 2)]
        } else {
            memory.to_vec()
        }
    }

    /// Puts an element into its word: what was there is cleared, then the element put in.
    fn put(&self, b: &mut FunctionBuilder<'_>, pointer: Id, shift: Index, element: Id) {
        let word = b.u32_type();
        let value = b.ids(Op::UConvert, word, &[element]);
        let put = b.u32_op(Op::ShiftLeftLogical, Index::Value(value), shift);
        let ones = b.u32_op(Op::ShiftLeftLogical, Index::Const(15), shift);
        let keep = b.u32_op(Op::BitwiseXor, ones, Index::Const(u32::MAX));
        let shared = self.place.storage == StorageClass::Workgroup as u32;
        let scope = if shared { Scope::Workgroup } else { Scope::Device };
        let (scope, relaxed) = (b.u32(scope as u32), b.u32(0));
        for (op, with) in [(Op::AtomicAnd, keep), (Op::AtomicOr, put)] {
            let with = b.index(with);
            let with =
                if self.place.memory_ty == word { with } else { b.ids(Op::Bitcast, self.place.memory_ty, &[with]) };
            b.ids(op, self.place.memory_ty, &[pointer, scope, relaxed, with]);
        }
    }
}

/// Atomic operations on memory of the whole device need a capability in the Vulkan memory model.
fn require_device_scope(m: &mut Module, storage: u32) {
    let model = m.has_capability(Capability::VulkanMemoryModel as u32);
    if model && storage != StorageClass::Workgroup as u32 {
        require_capability(m, Capability::VulkanMemoryModelDeviceScope as u32);
    }
}
