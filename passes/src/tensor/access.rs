//! Generates the code of tensor loads and stores, for the lowerings of matrices.
//!
//! ```text
//! let mut tensors = Tensors::new(m, cx.options);
//! let access = tensors.access(m, g, r)?;                 // one OpCooperativeMatrix{Load,Store}TensorNV
//! let types = access.param_types(m) ++ yours;
//! let mut b = FunctionBuilder::new(m, g, "..", ret, &types);
//! let mut visit = access.begin(&mut b, 0);               // what does not depend on the element, computed once
//! b.repeat(.., |b, i| {
//!     let got = visit.load(b, row, col);                 // or visit.load_run(b, row, col, count): neighbours
//!     // got.value, but where got.keep holds the element stays what it was (the Object operand's)
//! });
//! // a call of the function has the operands access.args ++ yours
//! tensors.finish(m);                                     // when every access is emitted
//! ```
//!
//! `row` and `col` must be inside the matrix: nothing here handles padding. A run is `count` adjacent elements, a power
//! of two, all of them inside the matrix, that begins at a multiple of `count`; along the row unless
//! [`Access::runs_down`], then along the column: the direction in which adjacent elements are adjacent in memory.
//!
//! Two accesses with equal [`Access::key`] have the same code; only their `args` differ.

use super::base_address::BaseAddress;
use super::byte_address::{Views, aliased_parameter};
use super::decode::{Clones, Decode, DecoderBuilder};
use super::divisibility::align;
use super::emit::{Endpoint, Visit};
use super::index_math::{IndexMath, Num, Step};
use super::layout_chain::{LayoutType, TensorType, ViewType, chain, layout};
use super::locate::{AccessProperties, Location, Rules};
use super::memory::Memory;
use super::vectorized::WideMemory;
use crate::builtins::add_to_interfaces;
use crate::matrix::arena::Elem;
use crate::{Options, Refusal, Semantics, ssa};
use coop_ir::builder::{FunctionBuilder, Globals, Index};
use coop_ir::constant::{Constants, Specialization};
use coop_ir::decorate::Decorations;
use coop_ir::hash::{FxHashMap, FxHashSet};
use coop_ir::spv::TensorAddressingOperands;
use coop_ir::types::{self, Scalar};
use coop_ir::views::TensorAccess;
use coop_ir::{Id, InstRef, Module, Op, Operand};

/// The state that the tensor accesses of a module share.
pub(crate) struct Tensors {
    constants: Constants,
    decorations: Decorations,
    semantics: Semantics,
    views: Views,
    clones: Clones,
    /// The component types in memory, by matrix type, where matrices are held in a wider one.
    widened: FxHashMap<Id, Elem>,
}

/// A decoded tensor load or store.
#[derive(Clone, Debug)]
pub(crate) struct Access {
    /// The instruction.
    pub(crate) at: InstRef,
    /// The matrix type.
    pub(crate) matrix: Id,
    /// Its component type.
    pub(crate) elem: Elem,
    /// The component type in memory: another one if elements are converted when they are loaded.
    pub(super) stored: Elem,
    /// Its number of rows.
    pub(crate) rows: u32,
    /// Its number of columns.
    pub(crate) cols: u32,
    /// True if it is a store.
    pub(crate) store: bool,
    /// The stored matrix; for a load, the one whose elements stay where the view clips.
    pub(crate) object: Id,
    /// True if elements can be clipped: a load then needs the elements of `object`.
    pub(crate) clips: bool,
    /// True if runs are along columns.
    pub(crate) runs_down: bool,
    /// The values that the code takes as parameters, in order.
    pub(crate) args: Vec<Id>,
    layout: LayoutType,
    view: Option<ViewType>,
    parts: Vec<Arg>,
    view_parts: Vec<Arg>,
    plain_strides: bool,
    /// The 64-bit stride, and its dimension; among the parts it is 0.
    far: Option<(usize, Arg)>,
    semantics: Semantics,
    /// The alignment of the pointer.
    pub(super) origin: BaseAddress,
    source: Source,
}

/// The source or destination of elements.
#[derive(Clone, Debug)]
enum Source {
    Memory(Box<Memory>, Option<Box<WideMemory>>),
    Decode(Box<Decode>),
}

/// A number among the operands of an access.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Arg {
    Known(u32),
    /// A value of the module, such as a specialization constant.
    Global(Id),
    /// A parameter, and a power of two that divides it.
    Param(usize, u32),
}

/// Collects the values that the code takes as parameters.
pub(super) struct Args<'a> {
    pub(super) m: &'a Module,
    pub(super) constants: &'a Constants,
    pub(super) list: Vec<Id>,
}

impl Args<'_> {
    /// Returns the argument for a value of the function.
    pub(super) fn of(&mut self, id: Id) -> Arg {
        let fixed = self.constants.get(id).fixed().and_then(|v| u32::try_from(v).ok());
        let own =
            self.m.def_inst(id).filter(|i| i.op == Op::Constant && i.operands.len() == 1).and_then(|i| i.literal());
        if let Some(v) = fixed.or(own) {
            return Arg::Known(v);
        }
        if self.m.def_inst(id).is_some_and(|i| i.op.is_constant()) {
            return Arg::Global(id);
        }
        // Alignment beyond what any run or block needs only keeps accesses from sharing their code.
        Arg::Param(self.pass(id), align(self.m, self.constants, id).min(32))
    }

    /// Adds a parameter for a value. Returns its index.
    pub(super) fn pass(&mut self, id: Id) -> usize {
        self.list.iter().position(|a| *a == id).unwrap_or_else(|| {
            self.list.push(id);
            self.list.len() - 1
        })
    }
}

impl Arg {
    /// Returns the number, given the values of [`Access::args`].
    pub(super) fn num(self, values: &[Id]) -> Num {
        match self {
            Arg::Known(v) => Num::known(v),
            Arg::Global(id) => Num::value(id, 1),
            Arg::Param(at, align) => Num::value(values[at], align),
        }
    }

    /// Returns a stand-in for use without code: equal arguments are equal numbers.
    fn without_code(self) -> Num {
        let number = |n: u32| Id::new(n).unwrap_or_else(|| unreachable!("more than 0"));
        match self {
            Arg::Known(v) => Num::known(v),
            Arg::Global(id) => Num::value(id, 1),
            Arg::Param(at, align) => Num::value(number(0x8000_0000 + at as u32), align),
        }
    }

    pub(super) fn key(self, out: &mut Vec<Operand>) {
        match self {
            Arg::Known(v) => out.extend([Operand::Word(0), Operand::Word(v)]),
            Arg::Global(id) => out.extend([Operand::Word(1), Operand::Id(id)]),
            Arg::Param(at, align) => out.extend([2, at as u32, align].map(Operand::Word)),
        }
    }
}

/// An element that was loaded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Loaded {
    /// The element.
    pub(crate) value: Id,
    /// The condition under which the element keeps its old value. `None`: never.
    pub(crate) keep: Option<Id>,
}

impl Tensors {
    /// Makes the state for a module after the passes `inline` and `tensor`.
    pub(crate) fn new(m: &Module, options: &Options<'_>) -> Tensors {
        Tensors {
            constants: Constants::new(m, &Specialization::new()),
            decorations: Decorations::new(m),
            semantics: options.semantics,
            views: Views::default(),
            clones: Clones::default(),
            widened: FxHashMap::default(),
        }
    }

    /// Makes loads of these matrix types convert the elements, which have the given types in memory.
    pub(crate) fn widen(&mut self, types: FxHashMap<Id, Elem>) {
        self.widened = types;
    }

    /// Decodes a tensor load or store, and makes what its code uses: clones of callbacks, further views of buffers.
    pub(crate) fn access(&mut self, m: &mut Module, g: &mut Globals, r: InstRef) -> Result<Access, Refusal> {
        let inst = m.inst(r).clone();
        let malformed = |why: &str| Refusal::malformed(r, why);
        let store = inst.op == Op::CooperativeMatrixStoreTensorNV;
        let (Some(pointer), Some(object), Some(layout_id)) = (inst.id(0), inst.id(1), inst.id(2)) else {
            return Err(malformed("the operands don't fit the instruction"));
        };
        let matrix = if store { m.type_of(object) } else { inst.ty };
        let Some(ty) = matrix.and_then(|t| types::coop_mat(m, t)) else {
            return Err(malformed("the loaded or stored value is not a matrix"));
        };
        let view = ty.view(m, &self.constants);
        let dim = |c: &coop_ir::constant::Const| c.fixed().and_then(|v| u32::try_from(v).ok()).filter(|v| *v > 0);
        let (Some(scalar), Some(rows), Some(cols)) = (view.component, dim(&view.rows), dim(&view.cols)) else {
            return Err(malformed("the matrix type is not known"));
        };
        let operands = Operands::of(&inst).ok_or_else(|| malformed("the operands don't fit the instruction"))?;
        let chained = |id: Id| chain(m, &self.constants, id);
        let Some((TensorType::Layout(layout_type), parts)) = chained(layout_id) else {
            return Err(malformed("the tensor layout can't be followed"));
        };
        let view = match operands.view.map(chained) {
            None => None,
            Some(Some((TensorType::View(v), parts))) => Some((v, parts)),
            Some(_) => return Err(malformed("the tensor view can't be followed")),
        };
        let plain_strides = view.as_ref().is_some_and(|(v, parts)| plain_strides(m, v.order.len(), parts));
        let mut args = Args { m, constants: &self.constants, list: Vec::new() };
        let rank = layout_type.rank;
        let wide = |id: Id| m.type_of(id).and_then(|t| types::scalar(m, t)).is_some_and(|s| s.width() == 64);
        let far = (0..rank).find(|d| wide(parts[layout::STRIDE * rank + d]));
        let mut parts: Vec<Arg> = parts.into_iter().map(|id| args.of(id)).collect();
        let far = far.map(|d| (d, std::mem::replace(&mut parts[layout::STRIDE * rank + d], Arg::Known(0))));
        let view_parts = view.iter().flat_map(|v| &v.1).map(|id| args.of(*id)).collect();
        let elem = Elem { scalar, ty: ty.component };
        let stored = self.widened.get(&ty.id).copied().filter(|_| !store).unwrap_or(elem);
        let mut list = args.list;
        let known = (&self.constants, &self.decorations);
        let what = (pointer, stored, operands.memory.as_slice());
        let source = match operands.decode {
            None => {
                let near = far.is_none();
                let mut units = || WideMemory::new(m, g, known, &mut self.views, what, &mut list);
                let wide = if near { units() } else { None };
                let memory = Memory::new(m, known, &mut self.views, r, (what, store), &mut list)?;
                Source::Memory(Box::new(memory), wide.map(Box::new))
            }
            Some(_) if store => return Err(malformed("a store has no decode function")),
            Some(function) => {
                let mut maker = DecoderBuilder {
                    m,
                    g,
                    constants: &self.constants,
                    decorations: &self.decorations,
                    views: &mut self.views,
                    clones: &mut self.clones,
                    semantics: self.semantics,
                    at: r,
                };
                let functions = (function, operands.decode_vector);
                let decode = maker.decode(functions, pointer, stored, layout_type.rank, &mut list)?;
                Source::Decode(Box::new(decode))
            }
        };
        // Nothing asks where elements are decoded or converted.
        let origin = match &source {
            Source::Memory(..) if stored == elem => {
                BaseAddress::new(m, known, (pointer, scalar.bytes(), &operands.memory), &mut list)
            }
            _ => BaseAddress::Unknown,
        };
        let args = list;
        let mut access = Access {
            at: r,
            matrix: ty.id,
            elem,
            stored,
            rows,
            cols,
            store,
            object,
            clips: false,
            runs_down: false,
            args,
            layout: layout_type,
            view: view.map(|v| v.0),
            parts,
            view_parts,
            plain_strides,
            far,
            semantics: self.semantics,
            origin,
            source,
        };
        access.check()?;
        let rules = access.rules(&mut IndexMath::without_code(1), &Arg::without_code);
        access.clips = rules.clips();
        access.runs_down = !access.is_contiguous(false) && access.is_contiguous(true);
        Ok(access)
    }

    /// Removes the layouts and views, with their types, once every access is lowered.
    pub(crate) fn finish(&mut self, m: &mut Module) {
        let of_tensors = |op: Op| op.is_tensor_layout() || op.is_tensor_view();
        let mut results: FxHashSet<Id> = FxHashSet::default();
        for f in 0..m.functions.len() {
            let gone: FxHashSet<InstRef> = m.functions[f].insts().filter(|r| of_tensors(m.inst(*r).op)).collect();
            results.extend(gone.iter().filter_map(|r| m.inst(*r).result));
            ssa::remove_insts(m, f, &gone);
        }
        ssa::remove_annotations(m, &results);
        let views = self.views.finish(m, &self.decorations);
        if m.header.version_pair() >= (1, 4) {
            add_to_interfaces(m, &views);
        }
    }
}

/// The operands of a tensor load or store after the layout.
struct Operands {
    memory: Vec<Operand>,
    view: Option<Id>,
    decode: Option<Id>,
    decode_vector: Option<Id>,
}

impl Operands {
    fn of(inst: &coop_ir::Inst) -> Option<Operands> {
        let access = inst.tensor_access()?;
        let memory = inst.operands.get(TensorAccess::MEMORY..access.at)?.to_vec();
        // Each bit has its operand.
        let has = |bit, operand: Option<(Id, usize)>| !access.mask.contains(bit) || operand.is_some();
        let complete = has(TensorAddressingOperands::TensorView, access.view)
            && has(TensorAddressingOperands::DecodeFunc, access.decode)
            && has(TensorAddressingOperands::DecodeVectorFunc, access.decode_vector);
        let [view, decode, decode_vector] = [access.view, access.decode, access.decode_vector].map(|o| o.map(|o| o.0));
        complete.then_some(())?;
        Some(Operands { memory, view, decode, decode_vector })
    }
}

/// Returns true if a view's strides are those implied by its dimensions.
fn plain_strides(m: &Module, rank: usize, parts: &[Id]) -> bool {
    let value = |id: Id| m.def_inst(id).filter(|i| i.op == Op::Constant).and_then(|i| i.literal());
    let (dims, strides) = (&parts[..rank], &parts[rank..2 * rank]);
    if value(strides[rank - 1]) != Some(1) {
        return false;
    }
    (0..rank - 1).all(|d| {
        let (stride, inner, dim) = (strides[d], strides[d + 1], dims[d + 1]);
        if let (Some(s), Some(i), Some(n)) = (value(stride), value(inner), value(dim)) {
            return i.checked_mul(n) == Some(s);
        }
        let product = m.def_inst(stride).filter(|i| i.op == Op::IMul);
        let one = value(inner) == Some(1) && stride == dim;
        one || product.is_some_and(|i| i.ids().eq([inner, dim]))
    })
}

impl Access {
    /// Returns the types of the parameters for [`Access::args`].
    pub(crate) fn param_types(&self, m: &Module) -> Vec<Id> {
        self.args.iter().filter_map(|a| m.type_of(*a)).collect()
    }

    /// Returns all that the code depends on, but for the types of the parameters.
    pub(crate) fn key(&self) -> Vec<Operand> {
        let mut out = vec![Operand::Id(self.matrix), Operand::Word(u32::from(self.store))];
        out.push(Operand::Word(self.layout.clamp << 8 | self.layout.rank as u32));
        let view = self.view.as_ref().map_or(0, |v| {
            v.order.iter().fold(1 + u32::from(v.sized) + 2 * u32::from(self.plain_strides), |k, d| k * 8 + *d as u32)
        });
        out.push(Operand::Word(view));
        self.parts.iter().chain(&self.view_parts).for_each(|a| a.key(&mut out));
        if let Some((d, stride)) = self.far {
            out.push(Operand::Word(d as u32));
            stride.key(&mut out);
        }
        match &self.source {
            Source::Memory(memory, wide) => {
                memory.key(&mut out);
                wide.iter().for_each(|w| w.key(&mut out));
            }
            Source::Decode(decode) => decode.key(&mut out),
        }
        out
    }

    /// Refuses accesses that are undefined for all values of their operands.
    fn check(&self) -> Result<(), Refusal> {
        let refuse = |why: String| Err(Refusal::new("refused-tensor", Some(self.at), why, "see what coopcheck says"));
        let rank = self.layout.rank;
        for d in 0..rank {
            if self.parts[layout::SPAN * rank + d] == Arg::Known(0) {
                return refuse(format!("the span of dimension {d} of the tensor layout is 0"));
            }
            if self.parts[layout::BLOCK * rank + d] == Arg::Known(0) {
                return refuse(format!("the block size of dimension {d} of the tensor layout is 0"));
            }
        }
        if let Some(v) = &self.view {
            if v.order.len() > rank && !v.sized {
                return refuse(format!(
                    "a tensor view of {} dimensions without sizes of its own, with a layout of {rank}",
                    v.order.len()
                ));
            }
            if let Some(d) = (0..v.order.len()).find(|d| v.sized && self.view_parts[*d] == Arg::Known(0)) {
                return refuse(format!("dimension {d} of the tensor view is 0"));
            }
        }
        if !matches!(self.elem.scalar.width(), 8 | 16 | 32 | 64) {
            let why = format!("components of type {} have no lowering yet", self.elem.scalar);
            return Err(Refusal::new("refused-type", Some(self.at), why, "use components of 8, 16, 32 or 64 bits"));
        }
        Ok(())
    }

    fn rules(&self, c: &mut IndexMath<'_, '_>, num: &dyn Fn(Arg) -> Num) -> Rules {
        let parts = self.parts.iter().map(|a| num(*a)).collect();
        let view_parts = self.view_parts.iter().map(|a| num(*a)).collect();
        Rules::new(
            c,
            AccessProperties {
                layout: self.layout,
                view: self.view.clone(),
                shape: (self.rows, self.cols),
                store: self.store,
                semantics: self.semantics,
                parts,
                view_parts,
                plain_strides: self.plain_strides,
                far: self.far.map(|(d, _)| d),
            },
        )
    }

    pub(super) fn rules_without_code(&self) -> Rules {
        self.rules(&mut IndexMath::without_code(1), &Arg::without_code)
    }

    /// Returns true if it can be asked how much memory there is: in one binding, accessed in units.
    pub(crate) fn knows_size(&self) -> bool {
        matches!(&self.source, Source::Memory(_, Some(wide)) if wide.knows_size())
    }

    /// Returns true if the memory is volatile: an element is loaded when the program does, and as often.
    pub(crate) fn is_volatile(&self) -> bool {
        matches!(&self.source, Source::Memory(memory, _) if memory.is_volatile())
    }

    /// Returns true if elements are decoded.
    pub(crate) fn decodes(&self) -> bool {
        matches!(self.source, Source::Decode(_))
    }

    /// Returns true if elements have another type in memory.
    pub(super) fn converts(&self) -> bool {
        self.stored != self.elem
    }

    /// Converts an element from the type that it has in memory.
    pub(super) fn converted(&self, b: &mut FunctionBuilder<'_>, value: Id) -> Id {
        if self.converts() { b.ids(Op::FConvert, self.elem.ty, &[value]) } else { value }
    }

    /// Returns true if memory can be addressed in the units that the pointer of a matrix load points to.
    pub(super) fn reaches_units(&self) -> bool {
        match &self.source {
            Source::Memory(memory, _) => self.far.is_none() && memory.has_units(),
            Source::Decode(_) => false,
        }
    }

    /// Returns the location of a run of `count` elements, if its elements can be located at once; with `aligned`,
    /// assuming that all offsets are multiples of `count`.
    pub(super) fn probe(&self, count: u32, down: bool, aligned: bool) -> Option<Location> {
        let c = &mut IndexMath::without_code(count);
        let mut rules = self.rules(c, &Arg::without_code);
        if aligned {
            let all = 0..self.layout.rank;
            rules = rules.assuming(count, all);
        }
        let some = |n: u32| Id::new(0x9000_0000 + n).unwrap_or_else(|| unreachable!("more than 0"));
        let mut at = [Num::value(some(0), 1), Num::value(some(1), 1)];
        let moving = &mut at[usize::from(!down)];
        (moving.step, moving.align) = (Step::One, count);
        let location = rules.locate(c, at[0], at[1]);
        location.is_run().then_some(location)
    }

    /// Returns true if adjacent elements along a row, or down a column, are adjacent in memory, as those of a block are.
    fn is_contiguous(&self, down: bool) -> bool {
        match self.source {
            Source::Memory(..) => self.probe(2, down, false).is_some_and(|s| s.linear.step == Step::One),
            // Blocks may begin at any element as far as one can prove, but hardly ever do.
            Source::Decode(_) => self.probe(2, down, true).is_some_and(|s| s.moves_last()),
        }
    }

    /// Begins the code in a function whose parameters from `first` on are [`Access::args`].
    pub(crate) fn begin(&self, b: &mut FunctionBuilder<'_>, first: usize) -> Visit {
        let values: Vec<Id> = (0..self.args.len()).map(|at| b.param(first + at)).collect();
        values.iter().for_each(|id| aliased_parameter(b, *id));
        self.begin_with(b, &values)
    }

    /// Begins the code in place of the access, where [`Access::args`] are available.
    pub(crate) fn begin_here(&self, b: &mut FunctionBuilder<'_>) -> Visit {
        self.begin_with(b, &self.args)
    }

    fn begin_with(&self, b: &mut FunctionBuilder<'_>, values: &[Id]) -> Visit {
        let nums: Vec<Num> = self.parts.iter().chain(&self.view_parts).map(|a| a.num(values)).collect();
        let args: Vec<Arg> = self.parts.iter().chain(&self.view_parts).copied().collect();
        let num = |arg: Arg| nums[args.iter().position(|a| *a == arg).unwrap_or_default()];
        let rules = self.rules(&mut IndexMath::new(b, 1), &num);
        let source = match &self.source {
            Source::Memory(memory, wide) => {
                Endpoint::Memory(Box::new(memory.begin(b, values)), wide.as_ref().map(|w| Box::new(w.begin(b, values))))
            }
            Source::Decode(decode) => Endpoint::Decode(Box::new(decode.begin(b, values))),
        };
        let rank = self.layout.rank;
        let fill = rules.fills().then(|| {
            let bits = num(self.parts[5 * rank]);
            let value = fill_value(b, self.stored, bits);
            self.converted(b, value)
        });
        let far = self.far.map(|(_, stride)| match stride {
            Arg::Known(v) => b.globals.constant(b.module, Scalar::Int { width: 64, signed: false }, v.into()),
            Arg::Global(id) => id,
            Arg::Param(at, _) => values[at],
        });
        Visit::new(self.clone(), (rules, values), source, fill, far)
    }
}

/// Returns the low bits of the clamp value as an element.
fn fill_value(b: &mut FunctionBuilder<'_>, elem: Elem, bits: Num) -> Id {
    let width = elem.scalar.width();
    if let Some(bits) = bits.constant() {
        let bits = if width < 32 { u64::from(bits) & ((1 << width) - 1) } else { u64::from(bits) };
        return match elem.scalar {
            // Not every environment has constants of these types; constants of their bits always exist.
            Scalar::Encoded { .. } if bits != 0 => {
                let raw = b.globals.constant(b.module, Scalar::Int { width, signed: false }, bits);
                crate::matrix::bits::small_type(b.module, Scalar::Int { width, signed: false });
                b.ids(Op::Bitcast, elem.ty, &[raw])
            }
            scalar => b.globals.constant_of(b.module, elem.ty, scalar, bits),
        };
    }
    let word = b.index(bits.at);
    let unsigned = Scalar::Int { width, signed: false };
    let raw = match width {
        32 => word,
        _ => {
            crate::matrix::bits::small_type(b.module, unsigned);
            let ty = b.globals.uint(b.module, width);
            b.ids(Op::UConvert, ty, &[word])
        }
    };
    let raw_type = b.module.type_of(raw);
    if raw_type == Some(elem.ty) { raw } else { b.ids(Op::Bitcast, elem.ty, &[raw]) }
}

/// Makes a number that is the same for all elements.
pub(super) fn invariant(at: Index) -> Num {
    match at {
        Index::Const(v) => Num::known(v),
        Index::Value(id) => Num::value(id, 1),
    }
}
