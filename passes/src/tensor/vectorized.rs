//! Accesses adjacent elements at once: 4, 8 or 16 bytes of a binding or behind a pointer, whatever their declared type.

use super::access::Args;
use super::base_address::{BaseAddress, promised};
use super::byte_address::{Address, Layouts, Term, Views, unaligned, with_alignment};
use super::index_math::{IndexMath, Num, Step};
use crate::matrix::arena::{Elem, QUAD, words_of};
use crate::matrix::bits::{gather, split_value};
use coop_ir::builder::{FunctionBuilder, Globals, Index, decorate};
use coop_ir::constant::Constants;
use coop_ir::decorate::Decorations;
use coop_ir::spv::{Decoration, MemoryAccess, StorageClass};
use coop_ir::types::{Scalar, Type};
use coop_ir::{Id, Inst, Module, Op, Operand};

/// The sizes of units, in bytes.
const UNITS: [u32; 3] = [4, 8, 16];

const WORD: Scalar = Scalar::Int { width: 32, signed: false };

/// Memory that can be accessed in units.
#[derive(Clone, Debug)]
pub(super) struct WideMemory {
    base: Base,
    elem: Elem,
    operands: Vec<Operand>,
}

#[derive(Clone, Debug)]
enum Base {
    /// A binding, viewed as arrays of units.
    Binding { origin: BaseAddress, descriptor: Option<Id>, passed: Option<usize>, views: [Id; 3] },
    /// A pointer to PhysicalStorageBuffer memory, and its divisor, at most 16.
    Physical { pointer: usize, align: u32 },
}

impl WideMemory {
    /// Describes the memory behind a pointer. `None` if it can only be accessed by its declared type.
    pub(super) fn new(
        m: &mut Module,
        g: &mut Globals,
        (constants, decorations): (&Constants, &Decorations),
        views: &mut Views,
        (pointer, elem, operands): (Id, Elem, &[Operand]),
        list: &mut Vec<Id>,
    ) -> Option<WideMemory> {
        let mask = operands.first().map_or(0, |o| o.word());
        if mask & MemoryAccess::Volatile.0 != 0 || elem.scalar.width() > 64 {
            return None;
        }
        let Type::Pointer { storage, .. } = Type::of(m, m.type_of(pointer)?)? else { return None };
        if storage == StorageClass::PhysicalStorageBuffer {
            let align = promised(operands, elem.scalar.bytes());
            let mut args = Args { m, constants, list: std::mem::take(list) };
            let pointer = args.pass(pointer);
            *list = args.list;
            let base = Base::Physical { pointer, align };
            return Some(WideMemory { base, elem, operands: operands.to_vec() });
        }
        let bound = Layouts { m, constants, decorations }.bound(pointer)?;
        let word = g.uint(m, 32);
        let units = UNITS.map(|bytes| if bytes == 4 { word } else { g.vector(m, word, bytes / 4) });
        let views = [0, 1, 2].map(|i| views.view(m, decorations, bound.variable, units[i], UNITS[i]));
        let mut args = Args { m, constants, list: std::mem::take(list) };
        let origin = BaseAddress::of(&bound, operands, &mut args);
        let (mut fixed, mut param) = (None, None);
        if let Some(id) = bound.descriptor {
            let constant = args.m.def_inst(id).is_some_and(|i| i.op.is_constant());
            if constant { fixed = Some(id) } else { param = Some(args.pass(id)) }
        }
        *list = args.list;
        let base = Base::Binding { origin, descriptor: fixed, passed: param, views };
        Some(WideMemory { base, elem, operands: unaligned(operands) })
    }

    /// Returns the unit for runs of `count` elements, in bytes.
    pub(super) fn unit(&self, count: u32) -> Option<u32> {
        let most = if let Base::Physical { align, .. } = self.base { align } else { 16 };
        let bytes = (count * self.elem.scalar.bytes()).min(most);
        (bytes >= 4 && bytes > self.elem.scalar.bytes()).then_some(bytes)
    }

    /// Returns true if the size of the memory can be asked: that of a binding, but not of one of an array of bindings.
    pub(super) fn knows_size(&self) -> bool {
        matches!(self.base, Base::Binding { descriptor: None, passed: None, .. })
    }

    pub(super) fn key(&self, out: &mut Vec<Operand>) {
        if let Base::Binding { origin, passed, .. } = &self.base {
            origin.key(out);
            out.push(Operand::Word(passed.map_or(0, |p| p as u32 + 1)));
        }
    }

    pub(super) fn begin(&self, b: &mut FunctionBuilder<'_>, values: &[Id]) -> WideRoot {
        let (mut base, mut descriptor, mut pointer) = (Address::default(), None, None);
        match &self.base {
            Base::Binding { origin, descriptor: fixed, passed, .. } => {
                base = origin.address(b, values, QUAD).unwrap_or_else(|| unreachable!("a binding's is known"));
                descriptor = fixed.or_else(|| passed.map(|at| values[at]));
            }
            Base::Physical { pointer: at, .. } => pointer = Some(values[*at]),
        }
        WideRoot { wide: self.clone(), base, descriptor, pointer }
    }
}

/// The same in the generated function.
pub(super) struct WideRoot {
    wide: WideMemory,
    /// The base of the access: in a binding, or (modulo the units) behind a pointer.
    base: Address,
    descriptor: Option<Id>,
    pointer: Option<Id>,
}

impl WideRoot {
    pub(super) fn unit(&self, count: u32) -> Option<u32> {
        self.wide.unit(count)
    }

    /// Returns the address of the element with index `linear`.
    fn address(&self, linear: Num) -> Address {
        self.element_from(self.base.clone(), linear)
    }

    /// Returns the address of the element with index `linear`, counted from a base.
    fn element_from(&self, base: Address, linear: Num) -> Address {
        let bytes = self.wide.elem.scalar.bytes();
        base.plus(Term { at: linear.at, factor: bytes, align: linear.align })
    }

    /// Returns the condition that the element with index `linear` does not begin a unit. `None`: it always does.
    pub(super) fn misaligned(&self, b: &mut FunctionBuilder<'_>, linear: Num, unit: u32) -> Option<Id> {
        let Base::Binding { origin, .. } = &self.wide.base else { return self.address(linear).misaligned(b, unit) };
        let base = if origin.is_aligned() { Address::default() } else { self.base.clone() };
        self.element_from(base, linear).misaligned(b, unit)
    }

    fn pointer(&self, b: &mut FunctionBuilder<'_>, address: &Address, unit: u32) -> (Id, Id) {
        let word = b.u32_type();
        let ty = if unit == 4 { word } else { b.globals.vector(b.module, word, unit / 4) };
        let index = address.index(b, unit);
        let index = b.index(index);
        match &self.wide.base {
            Base::Binding { views, .. } => {
                let view = views[UNITS.iter().position(|u| *u == unit).unwrap_or(0)];
                let pointer = b.globals.pointer(b.module, StorageClass::StorageBuffer, ty);
                let zero = b.u32(0);
                let chain: Vec<Id> = [view].into_iter().chain(self.descriptor).chain([zero, index]).collect();
                (b.ids(Op::AccessChain, pointer, &chain), ty)
            }
            Base::Physical { .. } => {
                let base = self.pointer.unwrap_or_else(|| unreachable!("begun with one"));
                let pointer = stepping_pointer(b, ty, unit);
                let base = b.ids(Op::Bitcast, pointer, &[base]);
                (b.ids(Op::PtrAccessChain, pointer, &[base, index]), ty)
            }
        }
    }

    fn operands(&self, unit: u32) -> Vec<Operand> {
        if matches!(self.wide.base, Base::Binding { .. }) {
            return self.wide.operands.clone();
        }
        with_alignment(unaligned(&self.wide.operands), unit)
    }

    /// Returns the condition that the unit at the element with index `linear` is in the binding. `None`: how much memory
    /// there is can't be asked.
    pub(super) fn in_bounds(&self, b: &mut FunctionBuilder<'_>, linear: Num, unit: u32) -> Option<Id> {
        let Base::Binding { views, .. } = &self.wide.base else { return None };
        let view = views[UNITS.iter().position(|u| *u == unit)?];
        if self.descriptor.is_some() {
            return None;
        }
        let index = self.address(linear).index(b, unit);
        let word = b.u32_type();
        let length = b.op(Op::ArrayLength, word, [view.into(), Operand::Word(0)]);
        Some(b.compare(Op::ULessThan, index, Index::Value(length)))
    }

    /// Loads `count` elements from index `linear`, which begins a unit.
    pub(super) fn load(&self, b: &mut FunctionBuilder<'_>, linear: Num, count: u32, unit: u32) -> Vec<Id> {
        let bytes = self.wide.elem.scalar.bytes();
        let mut out = Vec::new();
        for n in 0..(count * bytes).div_ceil(unit) {
            let whole = self.load_unit(b, linear, n, unit);
            let word = b.u32_type();
            let words: Vec<Id> = match unit {
                4 => vec![whole],
                _ => (0..unit / 4).map(|i| b.op(Op::CompositeExtract, word, [whole.into(), i.into()])).collect(),
            };
            out.extend(elements_of(b, self.wide.elem, &words));
        }
        out.truncate(count as usize);
        out
    }

    /// Loads unit `n` from the element with index `linear` on, which begins a unit: a word or a vector of words.
    pub(super) fn load_unit(&self, b: &mut FunctionBuilder<'_>, linear: Num, n: u32, unit: u32) -> Id {
        let address = self.address(linear).behind(n * unit);
        let (pointer, ty) = self.pointer(b, &address, unit);
        let operands = self.operands(unit);
        b.op(Op::Load, ty, [Operand::Id(pointer)].into_iter().chain(operands))
    }

    /// Stores elements from index `linear`, which begins a unit.
    pub(super) fn store(&self, b: &mut FunctionBuilder<'_>, linear: Num, values: &[Id], unit: u32) {
        let bytes = self.wide.elem.scalar.bytes();
        for (n, values) in (0..).zip(values.chunks((unit / bytes) as usize)) {
            let address = self.address(linear).behind(n * unit);
            let (pointer, ty) = self.pointer(b, &address, unit);
            let words = words_of(b, self.wide.elem, values);
            let whole = match words.as_slice() {
                [one] => *one,
                _ => b.ids(Op::CompositeConstruct, ty, &words),
            };
            let operands = self.operands(unit);
            b.effect(Op::Store, [pointer, whole].map(Operand::Id).into_iter().chain(operands));
        }
    }
}

/// Splits words into elements.
fn elements_of(b: &mut FunctionBuilder<'_>, elem: Elem, words: &[Id]) -> Vec<Id> {
    let word = b.u32_type();
    match elem.scalar.width() {
        8 | 16 => words.iter().flat_map(|w| split_value(b, elem.scalar, elem.ty, *w, 32)).collect(),
        32 => words.iter().map(|w| if elem.ty == word { *w } else { b.ids(Op::Bitcast, elem.ty, &[*w]) }).collect(),
        _ => words.chunks_exact(2).map(|pair| gather(b, WORD, word, pair, elem.ty)).collect(),
    }
}

/// Returns a pointer type that is stepped by units.
pub(super) fn stepping_pointer(b: &mut FunctionBuilder<'_>, unit: Id, bytes: u32) -> Id {
    let storage = StorageClass::PhysicalStorageBuffer.0;
    let stride = Decoration::ArrayStride;
    let strided = |m: &Module, id: Id| {
        let mut all = m.globals_with(Op::Decorate).map(|r| m.inst(r));
        all.any(|i| i.decoration() == Some((id, stride)) && i.operands[2..] == [Operand::Word(bytes)])
    };
    let pointers = b.module.globals_with(Op::TypePointer).map(|r| b.module.inst(r));
    let same = pointers.filter(|i| i.operands[..] == [storage.into(), unit.into()]).filter_map(|i| i.result);
    if let Some(id) = same.into_iter().find(|id| strided(b.module, *id)) {
        return id;
    }
    let id = b.module.fresh_id();
    let r = b.module.add(Inst::new(Op::TypePointer, None, Some(id), [storage.into(), unit.into()]));
    b.module.globals.push(r);
    decorate(b.module, id, Decoration::ArrayStride, &[bytes]);
    id
}

/// Returns a number at element `j` of a run.
pub(super) fn at(c: &mut IndexMath<'_, '_>, n: Num, j: u32) -> Num {
    let more = if n.step == Step::One { j } else { 0 };
    c.add(Num { step: Step::Still, align: if more == 0 { n.align } else { 1 }, ..n }, Num::known(more))
}
