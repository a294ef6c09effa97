//! Emits instructions and replaces results.

use super::Kernel;
use coop_ir::types::{Scalar, Type};
use coop_ir::{Id, Inst, InstRef, Op, Operand};

impl Kernel<'_> {
    /// Emits an instruction with a result.
    pub(super) fn op(&mut self, op: Op, ty: Id, operands: impl IntoIterator<Item = Operand>) -> Id {
        let id = self.m.fresh_id();
        let r = self.m.add(Inst::new(op, Some(ty), Some(id), operands).at(self.origin));
        self.out.push(r);
        id
    }

    /// Emits an instruction whose operands are ids.
    pub(super) fn ids(&mut self, op: Op, ty: Id, operands: &[Id]) -> Id {
        self.op(op, ty, operands.iter().map(|id| Operand::Id(*id)))
    }

    /// Emits an instruction without a result.
    pub(super) fn effect(&mut self, op: Op, operands: impl IntoIterator<Item = Operand>) {
        let r = self.m.add(Inst::new(op, None, None, operands).at(self.origin));
        self.out.push(r);
    }

    /// Emits an instruction in place of another, with the same result id.
    pub(super) fn instead(&mut self, r: InstRef, op: Op, ty: Id, operands: impl IntoIterator<Item = Operand>) {
        let result = self.m.inst(r).result;
        self.m.replace(r, Inst::new(op, Some(ty), result, operands).at(self.origin));
        self.out.push(r);
    }

    /// Keeps an instruction as it is.
    pub(super) fn keep(&mut self, r: InstRef) {
        self.out.push(r);
    }

    /// Replaces the result of an instruction by a value; the instruction is dropped.
    pub(super) fn replace_result(&mut self, r: InstRef, value: Id) {
        // In a module that is not well formed a value may depend on itself.
        let value = self.now(value);
        if let Some(id) = self.m.inst(r).result.filter(|id| *id != value) {
            self.instead_of.insert(id, value);
        }
        self.m.forget(r);
    }

    /// Returns the value that replaces an id.
    pub(super) fn now(&self, mut id: Id) -> Id {
        while let Some(next) = self.instead_of.get(&id) {
            id = *next;
        }
        id
    }

    pub(super) fn u32_type(&mut self) -> Id {
        self.g.uint(self.m, 32)
    }

    pub(super) fn u64_type(&mut self) -> Id {
        self.g.uint(self.m, 64)
    }

    pub(super) fn u32(&mut self, value: u32) -> Id {
        self.g.u32(self.m, value)
    }

    pub(super) fn u64(&mut self, value: u64) -> Id {
        self.g.constant(self.m, Scalar::Int { width: 64, signed: false }, value)
    }

    /// Returns a constant of an unsigned type of 32 or 64 bits.
    pub(super) fn number(&mut self, width: u32, value: u64) -> Id {
        if width == 64 { self.u64(value) } else { self.u32(value as u32) }
    }

    /// Returns the value of an integer constant of 32 or 64 bits.
    pub(super) fn known(&self, id: Id) -> Option<u64> {
        self.m.def_inst(id)?.constant_bits()
    }

    /// Emits `value + more`, in an unsigned type of that width.
    pub(super) fn plus(&mut self, width: u32, value: Id, more: u64) -> Id {
        let mask = if width == 64 { u64::MAX } else { u64::from(u32::MAX) };
        if more & mask == 0 {
            return value;
        }
        if let Some(known) = self.known(value) {
            return self.number(width, known.wrapping_add(more) & mask);
        }
        let (ty, more) = (self.g.uint(self.m, width), self.number(width, more & mask));
        self.ids(Op::IAdd, ty, &[value, more])
    }

    /// Emits `a + b`, in an unsigned type of that width.
    pub(super) fn sum(&mut self, width: u32, a: Id, b: Id) -> Id {
        if let Some(known) = self.known(a) {
            return self.plus(width, b, known);
        }
        if let Some(known) = self.known(b) {
            return self.plus(width, a, known);
        }
        let ty = self.g.uint(self.m, width);
        self.ids(Op::IAdd, ty, &[a, b])
    }

    /// Emits `value * by`, in an unsigned type of that width.
    pub(super) fn times(&mut self, width: u32, value: Id, by: u64) -> Id {
        if by == 1 {
            return value;
        }
        if let Some(known) = self.known(value) {
            let mask = if width == 64 { u64::MAX } else { u64::from(u32::MAX) };
            return self.number(width, known.wrapping_mul(by) & mask);
        }
        let ty = self.g.uint(self.m, width);
        let (op, by) = match by.is_power_of_two() {
            true => (Op::ShiftLeftLogical, u64::from(by.trailing_zeros())),
            false => (Op::IMul, by),
        };
        let by = self.number(width, by);
        self.ids(op, ty, &[value, by])
    }

    /// Casts a value to another type of the same width.
    pub(super) fn cast(&mut self, value: Id, to: Id) -> Id {
        if self.m.type_of(value) == Some(to) { value } else { self.ids(Op::Bitcast, to, &[value]) }
    }

    /// Converts an integer to an unsigned one of another width, sign-extending if `signed`.
    pub(super) fn resize(&mut self, value: Id, width: u32, signed: bool) -> Id {
        let ty = self.m.type_of(value);
        let Some(Scalar::Int { width: from, .. }) = ty.and_then(|t| coop_ir::types::scalar(self.m, t)) else {
            return value;
        };
        let to = self.g.uint(self.m, width);
        if from == width || !(1..=64).contains(&from) {
            return self.cast(value, to);
        }
        if let Some(bits) = self.layout.constant(value) {
            let extended =
                if signed && from < 64 { ((bits << (64 - from)) as i64 >> (64 - from)) as u64 } else { bits };
            if width >= 32 {
                return self.number(width, extended);
            }
        }
        // Integer types of kernels have no signedness: the instruction determines it.
        let op = if signed && from < width { Op::SConvert } else { Op::UConvert };
        self.ids(op, to, &[value])
    }

    /// Returns the component of a scalar or vector type, and the number of components.
    pub(super) fn shape(&self, ty: Id) -> Option<(Scalar, u32)> {
        coop_ir::types::scalar_or_vector(self.m, ty)
    }

    /// Returns the component type of a vector, or the type itself.
    pub(super) fn component(&self, ty: Id) -> Id {
        match Type::of(self.m, ty) {
            Some(Type::Vector { elem, .. }) => elem,
            _ => ty,
        }
    }
}
