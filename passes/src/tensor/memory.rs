//! Accesses the memory of a tensor access: elements by index, whatever the pointee type.

use super::access::{Arg, Args};
use super::byte_address::{Bound, Layouts, Views, unaligned, with_alignment};
use super::index_math::{IndexMath, Num};
use super::vectorized::stepping_pointer;
use crate::Refusal;
use crate::matrix::address::access_operands;
use crate::matrix::arena::Elem;
use crate::matrix::bits::{gather, part, small_type, split_value};
use crate::matrix::pointer::{MemoryLocation, place, step, steppable};
use coop_ir::builder::{FunctionBuilder, Index};
use coop_ir::constant::Constants;
use coop_ir::decorate::Decorations;
use coop_ir::spv::{MemoryAccess, Scope, StorageClass};
use coop_ir::types::{self, Scalar, Type};
use coop_ir::{Id, InstRef, Module, Op, Operand};

/// The memory of an access.
#[derive(Clone, Debug)]
pub(super) struct Memory {
    place: MemoryLocation,
    /// The root, if it is a parameter.
    root: Option<usize>,
    /// The indices before the last.
    fixed: Vec<Fixed>,
    last: Option<Last>,
    component: Option<Arg>,
    elem: Elem,
    operands: Vec<Operand>,
    /// The view of it, if it is not accessed by its declared type.
    seen: Option<Viewed>,
}

/// Memory viewed as an array of elements, whatever its declared type.
#[derive(Clone, Debug)]
struct Viewed {
    from: ViewSource,
}

#[derive(Clone, Debug)]
enum ViewSource {
    /// A view of a binding.
    Binding { view: Id, terms: Vec<(Arg, u32)>, constant: u32, descriptor: Option<Id>, passed: Option<usize> },
    /// A pointer to PhysicalStorageBuffer memory.
    Physical(usize),
}

impl Viewed {
    fn new(
        m: &mut Module,
        (constants, decorations): (&Constants, &Decorations),
        views: &mut Views,
        (pointer, elem, _): (Id, Elem, &[Operand]),
        list: &mut Vec<Id>,
    ) -> Option<Viewed> {
        let Type::Pointer { storage, .. } = Type::of(m, m.type_of(pointer)?)? else { return None };
        if storage == StorageClass::PhysicalStorageBuffer {
            let mut args = Args { m, constants, list: std::mem::take(list) };
            let at = args.pass(pointer);
            *list = args.list;
            return Some(Viewed { from: ViewSource::Physical(at) });
        }
        let Bound { variable, descriptor, terms, constant } = Layouts { m, constants, decorations }.bound(pointer)?;
        let view = views.view(m, decorations, variable, elem.ty, elem.scalar.bytes());
        let mut args = Args { m, constants, list: std::mem::take(list) };
        let terms = terms.into_iter().map(|(id, factor)| (args.of(id), factor)).collect();
        let fixed = descriptor.filter(|id| args.m.def_inst(*id).is_some_and(|i| i.op.is_constant()));
        let passed = descriptor.filter(|_| fixed.is_none()).map(|id| args.pass(id));
        *list = args.list;
        Some(Viewed { from: ViewSource::Binding { view, terms, constant, descriptor: fixed, passed } })
    }

    fn key(&self, out: &mut Vec<Operand>) {
        match &self.from {
            ViewSource::Binding { view, terms, constant, .. } => {
                out.extend([Operand::Id(*view), Operand::Word(*constant)]);
                for (arg, factor) in terms {
                    arg.key(out);
                    out.push(Operand::Word(*factor));
                }
            }
            ViewSource::Physical(at) => out.push(Operand::Word(*at as u32)),
        }
    }

    /// Returns the root and the indices before the last, and the offset to add to an element's index.
    fn begin(&self, b: &mut FunctionBuilder<'_>, values: &[Id], elem: Elem) -> ViewedRoot {
        let bytes = elem.scalar.bytes();
        match &self.from {
            ViewSource::Binding { view, terms, constant, descriptor, passed } => {
                let mut sum = Num::known(*constant);
                for (arg, factor) in terms {
                    let n = unsigned(b, arg.num(values));
                    let c = &mut IndexMath::new(b, 1);
                    let term = c.mul(n, Num::known(*factor));
                    sum = c.add(term, sum);
                }
                // The pointer of an access is a multiple of an element's size.
                sum.align = sum.align.max(bytes);
                let (first_element, _) = IndexMath::new(b, 1).div_rem(sum, Num::known(bytes));
                let descriptor = descriptor.or_else(|| passed.map(|at| values[at]));
                let zero = b.u32(0);
                let chain = [*view].into_iter().chain(descriptor).chain([zero]).collect();
                ViewedRoot { chain, first: first_element, physical: None }
            }
            ViewSource::Physical(at) => {
                let pointer = stepping_pointer(b, elem.ty, bytes);
                let root = b.ids(Op::Bitcast, pointer, &[values[*at]]);
                ViewedRoot { chain: vec![root], first: Num::known(0), physical: Some(pointer) }
            }
        }
    }
}

/// The same in the generated function.
struct ViewedRoot {
    chain: Vec<Id>,
    first: Num,
    /// The type of the pointer that is stepped.
    physical: Option<Id>,
}

impl ViewedRoot {
    fn pointer(&self, b: &mut FunctionBuilder<'_>, elem: Elem, linear: Num, far: Option<Id>) -> Id {
        let index = IndexMath::new(b, 1).add(linear, self.first);
        let index = far_index(b, index.at, far);
        let chain: Vec<Id> = self.chain.iter().copied().chain([index]).collect();
        match self.physical {
            Some(ty) => b.ids(Op::PtrAccessChain, ty, &chain),
            None => {
                let ty = b.globals.pointer(b.module, StorageClass::StorageBuffer, elem.ty);
                b.ids(Op::AccessChain, ty, &chain)
            }
        }
    }
}

/// An index that is passed through.
#[derive(Clone, Copy, Debug)]
enum Fixed {
    Id(Id),
    Param(usize),
}

/// The index that elements are counted from.
#[derive(Clone, Copy, Debug)]
enum Last {
    Narrow(Arg),
    /// A parameter of 64 bits.
    WideMemory(usize),
}

impl Memory {
    /// Makes the memory behind the pointer of an access; `list` has the parameters so far.
    #[allow(clippy::type_complexity, reason = "what an access is is taken apart at once")]
    pub(super) fn new(
        m: &mut Module,
        (constants, decorations): (&Constants, &Decorations),
        views: &mut Views,
        r: InstRef,
        ((pointer, elem, operands), store): ((Id, Elem, &[Operand]), bool),
        list: &mut Vec<Id>,
    ) -> Result<Memory, Refusal> {
        let place = match place(m, constants, r, pointer) {
            Ok(place) => place,
            Err(refusal) => {
                // The pointee type does not matter if elements can be addressed otherwise.
                let seen = Viewed::new(m, (constants, decorations), views, (pointer, elem, operands), list);
                let storage = m.def_inst(m.type_of(pointer).unwrap_or(pointer)).and_then(|t| t.enumerant(0));
                let (Some(seen), Some(storage)) = (seen, storage) else { return Err(refusal) };
                let (memory, memory_ty) = (elem.scalar, elem.ty);
                let nowhere = MemoryLocation {
                    root: pointer,
                    global: true,
                    indices: Vec::new(),
                    component: None,
                    storage,
                    memory,
                    memory_ty,
                    lanes: 1,
                    physical: false,
                };
                return Ok(Memory {
                    seen: Some(seen),
                    ..Memory::typed(m, constants, r, nowhere, elem, operands, list)?
                });
            }
        };
        let (width, own) = (place.memory.width(), elem.scalar.width());
        // A load may read a number of another width and take its part; a store must not touch the neighbors of its
        // element.
        if width < own || store && width > own {
            if let Some(seen) = Viewed::new(m, (constants, decorations), views, (pointer, elem, operands), list) {
                return Ok(Memory { seen: Some(seen), ..Memory::typed(m, constants, r, place, elem, operands, list)? });
            }
            // A part of a word of shared memory is stored by atomic operations.
            let word = matches!(place.memory, Scalar::Int { width: 32, .. }) && place.lanes == 1;
            if width > own && !(word && place.component.is_none()) {
                let why = format!(
                    "a {} matrix is stored into {} memory, where an element does not fill a number",
                    elem.scalar, place.memory
                );
                return Err(Refusal::new(
                    "refused-store-narrow",
                    Some(r),
                    why,
                    "store into memory of the component type",
                ));
            }
        }
        Memory::typed(m, constants, r, place, elem, operands, list)
    }

    fn typed(
        m: &Module,
        constants: &Constants,
        r: InstRef,
        place: MemoryLocation,
        elem: Elem,
        operands: &[Operand],
        list: &mut Vec<Id>,
    ) -> Result<Memory, Refusal> {
        let mut args = Args { m, constants, list: std::mem::take(list) };
        let made = Memory::with(&mut args, r, place, elem, operands.to_vec());
        *list = args.list;
        made
    }

    fn with(
        args: &mut Args<'_>,
        r: InstRef,
        place: MemoryLocation,
        elem: Elem,
        operands: Vec<Operand>,
    ) -> Result<Memory, Refusal> {
        let m = args.m;
        let root = (!place.global).then(|| args.pass(place.root));
        let mut fixed = Vec::new();
        let (last, before) = match place.indices.split_last() {
            Some((last, before)) => (Some(*last), before.to_vec()),
            None => (None, Vec::new()),
        };
        for id in before {
            let constant = m.def_inst(id).is_some_and(|i| i.op.is_constant());
            fixed.push(if constant { Fixed::Id(id) } else { Fixed::Param(args.pass(id)) });
        }
        let width = |id: Id| match m.type_of(id).and_then(|t| types::scalar(m, t)) {
            Some(Scalar::Int { width, .. }) => Some(width),
            _ => None,
        };
        let malformed = || Refusal::malformed(r, "an index is not an integer");
        let last = match last {
            None => None,
            Some(id) => Some(match (args.of(id), width(id).ok_or_else(malformed)?) {
                (Arg::Param(at, _), 64) => Last::WideMemory(at),
                (Arg::Global(_), 64) => Last::WideMemory(args.pass(id)),
                (arg, _) => Last::Narrow(arg),
            }),
        };
        let component = place.component.map(|id| args.of(id));
        Ok(Memory { place, root, fixed, last, component, elem, operands, seen: None })
    }

    pub(super) fn key(&self, out: &mut Vec<Operand>) {
        out.push(Operand::Word(u32::from(self.root.is_some())));
        match self.root {
            Some(at) => out.push(Operand::Word(at as u32)),
            // A view includes its own location.
            None if self.seen.is_some() => {}
            None => out.push(Operand::Id(self.place.root)),
        }
        for f in &self.fixed {
            out.push(match f {
                Fixed::Id(id) => Operand::Id(*id),
                Fixed::Param(at) => Operand::Word(*at as u32),
            });
        }
        match self.last {
            None => out.push(Operand::Word(u32::MAX)),
            Some(Last::Narrow(arg)) => arg.key(out),
            Some(Last::WideMemory(at)) => out.push(Operand::Word(at as u32)),
        }
        self.component.iter().for_each(|a| a.key(out));
        self.seen.iter().for_each(|s| s.key(out));
        out.push(Operand::Id(self.place.memory_ty));
        out.push(Operand::Word(self.place.lanes));
        out.extend(self.operands.iter().copied());
    }

    /// Returns true if it is accessed as volatile.
    pub(super) fn is_volatile(&self) -> bool {
        self.operands.first().is_some_and(|mask| mask.word() & MemoryAccess::Volatile.0 != 0)
    }

    /// Returns true if elements can be counted in whole units of the pointee of a matrix load, not in components of
    /// vectors.
    pub(super) fn has_units(&self) -> bool {
        self.seen.is_some() || self.component.is_none()
    }

    /// Emits what does not depend on the element.
    pub(super) fn begin(&self, b: &mut FunctionBuilder<'_>, values: &[Id]) -> Root {
        let mut root = self.root.map_or(self.place.root, |at| values[at]);
        if self.place.indices.is_empty() && self.seen.is_none() {
            root = steppable(b, &self.place, root);
        }
        let fixed = self.fixed.iter().map(|f| match f {
            Fixed::Id(id) => *id,
            Fixed::Param(at) => values[*at],
        });
        let fixed = fixed.collect();
        let (mut wide, mut last) = (None, Num::known(0));
        match self.last {
            None => {}
            Some(Last::WideMemory(at)) => wide = Some(values[at]),
            Some(Last::Narrow(arg)) => last = unsigned(b, arg.num(values)),
        }
        let component = self.component.map(|arg| unsigned(b, arg.num(values)));
        let seen = self.seen.as_ref().map(|s| s.begin(b, values, self.elem));
        Root { memory: self.clone(), root, fixed, wide, last, component, seen }
    }
}

/// Converts a number to unsigned 32 bits; narrower ones are extended by their signedness, as indices are.
pub(super) fn unsigned(b: &mut FunctionBuilder<'_>, n: Num) -> Num {
    let Index::Value(id) = n.at else { return n };
    let u32_type = b.u32_type();
    let scalar = b.module.type_of(id).and_then(|t| types::scalar(b.module, t));
    let op = match scalar {
        Some(Scalar::Int { width: 32, signed: false }) => return n,
        Some(Scalar::Int { width: 32, .. }) => Op::Bitcast,
        Some(Scalar::Int { signed: true, .. }) => Op::SConvert,
        _ => Op::UConvert,
    };
    Num { at: Index::Value(b.ids(op, u32_type, &[id])), ..n }
}

/// Adds the 64-bit offset `far` to an index, which is then signed and of 64 bits.
pub(super) fn far_index(b: &mut FunctionBuilder<'_>, at: Index, far: Option<Id>) -> Id {
    let id = b.index(at);
    let Some(far) = far else { return id };
    if at == Index::Const(0) {
        return far;
    }
    let wide = b.globals.uint(b.module, 64);
    let near = b.ids(Op::SConvert, wide, &[id]);
    b.ids(Op::IAdd, wide, &[near, far])
}

/// Makes a constant of 64 bits. (Compilers of kernels want both operands of a shift to have one type.)
fn long(b: &mut FunctionBuilder<'_>, value: u32) -> Id {
    b.globals.constant(b.module, Scalar::Int { width: 64, signed: false }, value.into())
}

/// Multiplies by a power of two.
fn times(b: &mut FunctionBuilder<'_>, far: Option<Id>, count: u32) -> Option<Id> {
    let far = far?;
    if count == 1 {
        return Some(far);
    }
    let (wide, by) = (b.globals.uint(b.module, 64), long(b, count.trailing_zeros()));
    Some(b.ids(Op::ShiftLeftLogical, wide, &[far, by]))
}

/// Divides a number plus `far` by `per`: the quotient as number and 64-bit part, and the remainder.
fn split(b: &mut FunctionBuilder<'_>, number: Num, far: Option<Id>, per: u32) -> (Num, Option<Id>, Num) {
    if far.is_none() || per == 1 {
        let (units, rest) = IndexMath::new(b, 1).div_rem(number, Num::known(per));
        return (units, far, rest);
    }
    let all = far_index(b, number.at, far);
    let (wide, word) = (b.globals.uint(b.module, 64), b.u32_type());
    let low = b.ids(Op::UConvert, word, &[all]);
    if !per.is_power_of_two() {
        let per = long(b, per);
        let units = b.ids(Op::UDiv, wide, &[all, per]);
        let rest = b.ids(Op::UMod, wide, &[all, per]);
        let rest = b.ids(Op::UConvert, word, &[rest]);
        return (Num::known(0), Some(units), Num::value(rest, 1));
    }
    let by = long(b, per.trailing_zeros());
    let units = b.ids(Op::ShiftRightArithmetic, wide, &[all, by]);
    let rest = b.u32_op(Op::BitwiseAnd, Index::Value(low), Index::Const(per - 1));
    (Num::known(0), Some(units), Num { at: rest, ..Num::value(low, 1) })
}

/// The memory of an access in the generated function.
pub(super) struct Root {
    memory: Memory,
    root: Id,
    fixed: Vec<Id>,
    wide: Option<Id>,
    last: Num,
    component: Option<Num>,
    seen: Option<ViewedRoot>,
}

impl Root {
    /// Makes the pointer to number `number` of the memory, counted from where the access points, plus `far`.
    fn pointer(&self, b: &mut FunctionBuilder<'_>, number: Num, far: Option<Id>) -> Id {
        let place = &self.memory.place;
        let c = &mut IndexMath::new(b, 1);
        let number = match self.component {
            Some(component) => c.add(number, component),
            None => number,
        };
        let (unit, far, lane) = split(b, number, far, place.lanes);
        let lane = (place.lanes > 1).then_some(lane);
        self.chain(b, unit, far, lane)
    }

    /// Makes the pointer to a unit, or to a number in it.
    fn chain(&self, b: &mut FunctionBuilder<'_>, unit: Num, far: Option<Id>, lane: Option<Num>) -> Id {
        let place = &self.memory.place;
        let at = if self.wide.is_some() { unit } else { IndexMath::new(b, 1).add(unit, self.last) };
        let mut at = match far {
            Some(_) => far_index(b, at.at, far),
            None if place.indices.is_empty() => step(b, place, at.at),
            None => b.index(at.at),
        };
        if let Some(wide) = self.wide {
            let ty = b.module.type_of(wide).unwrap_or_else(|| b.globals.uint(b.module, 64));
            let u64_type = b.globals.uint(b.module, 64);
            let more = if far.is_some() { at } else { b.ids(Op::UConvert, u64_type, &[at]) };
            at = b.ids(Op::IAdd, ty, &[wide, more]);
        }
        let whole = lane.is_none() && place.lanes > 1;
        let pointee = if whole { b.globals.vector(b.module, place.memory_ty, place.lanes) } else { place.memory_ty };
        let ty = b.globals.pointer(b.module, place.storage, pointee);
        let mut operands = vec![self.root];
        operands.extend(&self.fixed);
        operands.push(at);
        operands.extend(lane.map(|l| b.index(l.at)));
        let op = if place.indices.is_empty() { Op::PtrAccessChain } else { Op::AccessChain };
        if op == Op::PtrAccessChain && lane.is_none() {
            // Without further indices the result has the type of the base.
            let ty = b.module.type_of(self.root).unwrap_or(ty);
            return b.ids(op, ty, &operands);
        }
        b.ids(op, ty, &operands)
    }

    /// Returns the pointer to the element with index `linear`, the number `step` of elements in units of a matrix load,
    /// and the condition that either is not a whole number of units.
    pub(super) fn units(&self, b: &mut FunctionBuilder<'_>, linear: Num, step: Num) -> Option<(Id, Num, Option<Id>)> {
        let elem = self.memory.elem;
        if let Some(seen) = &self.seen {
            return Some((seen.pointer(b, elem, linear, None), step, None));
        }
        let place = &self.memory.place;
        let (unit, own) = (place.memory.width() * place.lanes, elem.scalar.width());
        if !self.memory.has_units() {
            return None;
        }
        let c = &mut IndexMath::new(b, 1);
        if unit < own {
            let several = Num::known(own / unit);
            let (linear, step) = (c.mul(linear, several), c.mul(step, several));
            return Some((self.chain(b, linear, None, None), step, None));
        }
        let per = Num::known(unit / own);
        let (at, rest) = c.div_rem(linear, per);
        let (stride, more) = c.div_rem(step, per);
        let mut unfit = None;
        for n in [rest, more] {
            match c.compare(Op::INotEqual, n, Num::known(0)) {
                Ok(test) => unfit = c.or(unfit, Some(test)),
                Err(true) => return None,
                Err(false) => {}
            }
        }
        Some((self.chain(b, at, None, None), stride, unfit))
    }

    /// Returns the memory operands of a matrix load or store that replaces the access.
    pub(super) fn matrix_operands(&self, bytes: u32) -> Vec<Operand> {
        let operands = unaligned(&self.memory.operands);
        if self.memory.place.storage != StorageClass::PhysicalStorageBuffer {
            return operands;
        }
        with_alignment(operands, bytes)
    }

    fn load_number(&self, b: &mut FunctionBuilder<'_>, number: Num, far: Option<Id>) -> Id {
        let place = &self.memory.place;
        let pointer = self.pointer(b, number, far);
        let operands = access_operands(&self.memory.operands, place.memory.bytes());
        b.op(Op::Load, place.memory_ty, [Operand::Id(pointer)].into_iter().chain(operands))
    }

    /// Returns the memory operands for a view of elements.
    fn seen_operands(&self) -> Vec<Operand> {
        let operands = unaligned(&self.memory.operands);
        if self.memory.place.storage != StorageClass::PhysicalStorageBuffer {
            return operands;
        }
        with_alignment(operands, self.memory.elem.scalar.bytes())
    }

    /// Loads the element with index `linear` plus the 64-bit `far`.
    pub(super) fn load(&self, b: &mut FunctionBuilder<'_>, linear: Num, far: Option<Id>) -> Id {
        let (place, Elem { scalar, ty: elem }) = (&self.memory.place, self.memory.elem);
        if let Some(seen) = &self.seen {
            let pointer = seen.pointer(b, self.memory.elem, linear, far);
            let operands = self.seen_operands();
            return b.op(Op::Load, elem, [Operand::Id(pointer)].into_iter().chain(operands));
        }
        let (width, memory_type) = (place.memory.width(), place.memory_ty);
        if width < scalar.width() {
            let count = scalar.width() / width;
            let first = IndexMath::new(b, 1).mul(linear, Num::known(count));
            let far = times(b, far, count);
            let parts: Vec<Id> = (0..count)
                .map(|p| {
                    let at = IndexMath::new(b, 1).add(first, Num::known(p));
                    self.load_number(b, at, far)
                })
                .collect();
            return gather(b, place.memory, memory_type, &parts, elem);
        }
        if width == scalar.width() {
            let whole = self.load_number(b, linear, far);
            return if memory_type == elem { whole } else { b.ids(Op::Bitcast, elem, &[whole]) };
        }
        let (number, far, rest) = split(b, linear, far, width / scalar.width());
        let whole = self.load_number(b, number, far);
        let bit = IndexMath::new(b, 1).mul(rest, Num::known(scalar.width()));
        part(b, scalar, elem, whole, width, bit.at)
    }

    /// Stores an element, which fills whole numbers.
    pub(super) fn store(&self, b: &mut FunctionBuilder<'_>, (linear, far): (Num, Option<Id>), value: Id) {
        let (place, Elem { scalar, ty: elem }) = (&self.memory.place, self.memory.elem);
        if let Some(seen) = &self.seen {
            let pointer = seen.pointer(b, self.memory.elem, linear, far);
            let operands = self.seen_operands();
            b.effect(Op::Store, [pointer, value].map(Operand::Id).into_iter().chain(operands));
            return;
        }
        let (width, memory_type) = (place.memory.width(), place.memory_ty);
        if width > scalar.width() {
            return self.store_part(b, (linear, far), value);
        }
        let numbers = if width < scalar.width() {
            split_value(b, place.memory, memory_type, value, scalar.width())
        } else {
            vec![gather(b, scalar, elem, &[value], memory_type)]
        };
        let first = IndexMath::new(b, 1).mul(linear, Num::known((scalar.width() / width).max(1)));
        let far = times(b, far, (scalar.width() / width).max(1));
        for (p, number) in (0..).zip(numbers) {
            let at = IndexMath::new(b, 1).add(first, Num::known(p));
            let pointer = self.pointer(b, at, far);
            let operands = access_operands(&self.memory.operands, place.memory.bytes());
            b.effect(Op::Store, [pointer, number].map(Operand::Id).into_iter().chain(operands));
        }
    }

    /// Stores an element that is a part of a 32-bit word, atomically: clears the old bits, then sets the new ones.
    fn store_part(&self, b: &mut FunctionBuilder<'_>, (linear, far): (Num, Option<Id>), value: Id) {
        let (place, Elem { scalar, ty: elem }) = (&self.memory.place, self.memory.elem);
        let width = scalar.width();
        let (number, far, rest) = split(b, linear, far, 32 / width);
        let pointer = self.pointer(b, number, far);
        let bit = IndexMath::new(b, 1).mul(rest, Num::known(width));
        let bits = Scalar::Int { width, signed: false };
        small_type(b.module, bits);
        let narrow = b.globals.scalar(b.module, bits);
        let raw = if elem == narrow { value } else { b.ids(Op::Bitcast, narrow, &[value]) };
        let word = b.u32_type();
        let raw = b.ids(Op::UConvert, word, &[raw]);
        let put = b.u32_op(Op::ShiftLeftLogical, Index::Value(raw), bit.at);
        let ones = b.u32_op(Op::ShiftLeftLogical, Index::Const(u32::MAX >> (32 - width)), bit.at);
        let keep = b.u32_op(Op::BitwiseXor, ones, Index::Const(u32::MAX));
        let (scope, relaxed) = (b.u32(Scope::Workgroup.0), b.u32(0));
        for (op, with) in [(Op::AtomicAnd, keep), (Op::AtomicOr, put)] {
            let with = b.index(with);
            let with = if place.memory_ty == word { with } else { b.ids(Op::Bitcast, place.memory_ty, &[with]) };
            b.ids(op, place.memory_ty, &[pointer, scope, relaxed, with]);
        }
    }
}
