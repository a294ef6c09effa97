//! The memory behind a tensor access: elements by their number, whatever the pointer's pointee is.

use super::access::{Arg, Args};
use super::calc::{Calc, Num};
use crate::Refusal;
use crate::arena::Elem;
use crate::scalar::bits::{gather, part, spread};
use crate::scalar::memory::access_operands;
use crate::scalar::place::{Place, place, steppable};
use coop_ir::builder::{FunctionBuilder, Index, decorate};
use coop_ir::types::{self, Scalar};
use coop_ir::{Id, InstRef, Op, Operand};
use spirv::{Decoration, StorageClass};

/// Where elements are.
#[derive(Clone, Debug)]
pub(super) struct Memory {
    place: Place,
    /// The root, if it is a parameter.
    root: Option<usize>,
    /// The indices before the last.
    fixed: Vec<Fixed>,
    last: Option<Last>,
    component: Option<Arg>,
    elem: Elem,
    operands: Vec<Operand>,
}

/// An index that is not computed with.
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
    Wide(usize),
}

impl Memory {
    pub(super) fn new(
        args: &mut Args<'_>,
        r: InstRef,
        pointer: Id,
        elem: Elem,
        operands: Vec<Operand>,
    ) -> Result<Memory, Refusal> {
        let place = place(args.m, args.constants, r, pointer)?;
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
        let malformed =
            || Refusal::new("refused-malformed", Some(r), "an index is no integer", "see what coopcheck says");
        let last = match last {
            None => None,
            Some(id) => Some(match (args.of(id), width(id).ok_or_else(malformed)?) {
                (Arg::Param(at, _), 64) => Last::Wide(at),
                (Arg::Global(_), 64) => Last::Wide(args.pass(id)),
                (arg, _) => Last::Narrow(arg),
            }),
        };
        let component = place.component.map(|id| args.of(id));
        Ok(Memory { place, root, fixed, last, component, elem, operands })
    }

    pub(super) fn key(&self, out: &mut Vec<Operand>) {
        out.push(Operand::Word(u32::from(self.root.is_some())));
        match self.root {
            Some(at) => out.push(Operand::Word(at as u32)),
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
            Some(Last::Wide(at)) => out.push(Operand::Word(at as u32)),
        }
        self.component.iter().for_each(|a| a.key(out));
        out.push(Operand::Id(self.place.memory_ty));
        out.push(Operand::Word(self.place.lanes));
        out.extend(self.operands.iter().copied());
    }

    /// What does not depend on the element.
    pub(super) fn begin(&self, b: &mut FunctionBuilder<'_>, first: usize) -> Root {
        let param = |b: &FunctionBuilder<'_>, at: usize| b.param(first + at);
        let mut root = self.root.map_or(self.place.root, |at| param(b, at));
        if self.root.is_some() && self.place.storage == StorageClass::PhysicalStorageBuffer as u32 {
            // Vulkan asks for one of the two on every such parameter.
            decorate(b.module, root, Decoration::Aliased, &[]);
        }
        if self.place.indices.is_empty() {
            root = steppable(b, &self.place, root);
        }
        let fixed = self.fixed.iter().map(|f| match f {
            Fixed::Id(id) => *id,
            Fixed::Param(at) => param(b, *at),
        });
        let fixed = fixed.collect();
        let (mut wide, mut last) = (None, Num::known(0));
        match self.last {
            None => {}
            Some(Last::Wide(at)) => wide = Some(param(b, at)),
            Some(Last::Narrow(arg)) => last = unsigned(b, arg.num(b, first)),
        }
        let component = self.component.map(|arg| unsigned(b, arg.num(b, first)));
        Root { memory: self.clone(), root, fixed, wide, last, component }
    }
}

/// A 32-bit number as an unsigned one: narrower ones are extended, as indices are.
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

/// The memory of an access in the function that is made.
pub(super) struct Root {
    memory: Memory,
    root: Id,
    fixed: Vec<Id>,
    wide: Option<Id>,
    last: Num,
    component: Option<Num>,
}

impl Root {
    /// The pointer to number `number` of the memory, counted from where the access points.
    fn pointer(&self, b: &mut FunctionBuilder<'_>, number: Num) -> Id {
        let place = &self.memory.place;
        let lanes = Num::known(place.lanes);
        let c = &mut Calc::new(b, 1);
        let number = match self.component {
            Some(component) => c.add(number, component),
            None => number,
        };
        let (unit, lane) = c.div_rem(number, lanes);
        let at = if self.wide.is_some() { unit } else { c.add(unit, self.last) };
        let mut at = b.index(at.at);
        if let Some(wide) = self.wide {
            let ty = b.module.type_of(wide).unwrap_or_else(|| b.globals.uint(b.module, 64));
            let u64_type = b.globals.uint(b.module, 64);
            let more = b.ids(Op::UConvert, u64_type, &[at]);
            at = b.ids(Op::IAdd, ty, &[wide, more]);
        }
        let ty = b.globals.pointer(b.module, place.storage, place.memory_ty);
        let mut operands = vec![self.root];
        operands.extend(&self.fixed);
        operands.push(at);
        if place.lanes > 1 {
            operands.push(b.index(lane.at));
        }
        let op = if place.indices.is_empty() { Op::PtrAccessChain } else { Op::AccessChain };
        if op == Op::PtrAccessChain && place.lanes == 1 {
            // Without further indices the result has the type of the base.
            let ty = b.module.type_of(self.root).unwrap_or(ty);
            return b.ids(op, ty, &operands);
        }
        b.ids(op, ty, &operands)
    }

    fn load_number(&self, b: &mut FunctionBuilder<'_>, number: Num) -> Id {
        let place = &self.memory.place;
        let pointer = self.pointer(b, number);
        let operands = access_operands(&self.memory.operands, place.memory.bytes());
        b.op(Op::Load, place.memory_ty, [Operand::Id(pointer)].into_iter().chain(operands))
    }

    /// Loads the element with number `linear`.
    pub(super) fn load(&self, b: &mut FunctionBuilder<'_>, linear: Num) -> Id {
        let (place, Elem { scalar, ty: elem }) = (&self.memory.place, self.memory.elem);
        let (width, memory_type) = (place.memory.width(), place.memory_ty);
        if width < scalar.width() {
            let count = scalar.width() / width;
            let first = Calc::new(b, 1).mul(linear, Num::known(count));
            let parts: Vec<Id> = (0..count)
                .map(|p| {
                    let at = Calc::new(b, 1).add(first, Num::known(p));
                    self.load_number(b, at)
                })
                .collect();
            return gather(b, place.memory, memory_type, &parts, elem);
        }
        if width == scalar.width() {
            let whole = self.load_number(b, linear);
            return if memory_type == elem { whole } else { b.ids(Op::Bitcast, elem, &[whole]) };
        }
        let (number, rest) = Calc::new(b, 1).div_rem(linear, Num::known(width / scalar.width()));
        let whole = self.load_number(b, number);
        let bit = Calc::new(b, 1).mul(rest, Num::known(scalar.width()));
        part(b, scalar, elem, whole, width, bit.at)
    }

    /// Stores an element. (That it fills whole numbers was seen to.)
    pub(super) fn store(&self, b: &mut FunctionBuilder<'_>, linear: Num, value: Id) {
        let (place, Elem { scalar, ty: elem }) = (&self.memory.place, self.memory.elem);
        let (width, memory_type) = (place.memory.width(), place.memory_ty);
        let numbers = if width < scalar.width() {
            spread(b, place.memory, memory_type, value, scalar.width())
        } else {
            vec![gather(b, scalar, elem, &[value], memory_type)]
        };
        let first = Calc::new(b, 1).mul(linear, Num::known((scalar.width() / width).max(1)));
        for (p, number) in (0..).zip(numbers) {
            let at = Calc::new(b, 1).add(first, Num::known(p));
            let pointer = self.pointer(b, at);
            let operands = access_operands(&self.memory.operands, place.memory.bytes());
            b.effect(Op::Store, [pointer, number].map(Operand::Id).into_iter().chain(operands));
        }
    }
}
