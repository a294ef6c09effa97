//! Turns pointers into numbers: chains become sums, casts are dropped.

use super::Kernel;
use super::pointer_target::PointerTarget;
use crate::Refusal;
use coop_ir::types::{Scalar, Type};
use coop_ir::{Id, Inst, InstRef, Op, Operand};

impl Kernel<'_> {
    /// Rewrites an instruction that makes a pointer. Returns true if it did.
    pub(super) fn rewrite_pointer(&mut self, r: InstRef) -> Result<bool, Refusal> {
        let inst = self.m.inst(r).clone();
        let Some(place) = inst.result.and_then(|id| self.places.get(&id).copied()) else {
            return self.rewrite_of_pointers(r, &inst);
        };
        let width = match place {
            PointerTarget::Global => 64,
            PointerTarget::FlatVariable(_) => 32,
            PointerTarget::BuiltIn(_) => {
                self.built_in_pointer(r, &inst)?;
                return Ok(true);
            }
            PointerTarget::Matrix => {
                self.matrix_pointer(r, &inst)?;
                return Ok(true);
            }
        };
        let word = self.g.uint(self.m, width);
        match inst.op {
            Op::Variable => self.m.forget(r),
            op if op.is_typed_access_chain() => {
                let value = self.chain(r, &inst, place, width)?;
                self.replace_result(r, value);
            }
            Op::Bitcast
            | Op::CopyObject
            | Op::PtrCastToGeneric
            | Op::GenericCastToPtr
            | Op::GenericCastToPtrExplicit => {
                let from = inst.derived_from().ok_or_else(|| self.no_layout(r))?;
                let value = self.address(from, place);
                self.replace_result(r, value);
            }
            Op::Phi | Op::Select => {
                let mut operands = inst.operands.clone();
                let step = if inst.op == Op::Phi { 2 } else { 1 };
                for (i, o) in operands.iter_mut().enumerate() {
                    let pointer = if inst.op == Op::Phi { i % step == 0 } else { i > 0 };
                    if let (true, Some(id)) = (pointer, o.id()) {
                        *o = Operand::Id(self.address(id, place));
                    }
                }
                self.instead(r, inst.op, word, operands);
            }
            Op::Undef => self.instead(r, Op::Undef, word, []),
            Op::Load => self.rewrite_load(r)?,
            Op::ConvertUToPtr => {
                let from = inst.id(0).map(|id| self.now(id)).ok_or_else(|| self.no_layout(r))?;
                let value = self.resize(from, 64, false);
                self.replace_result(r, value);
            }
            _ => return Err(self.no_layout(r)),
        }
        Ok(true)
    }

    /// Rewrites an instruction that uses pointers without making one.
    fn rewrite_of_pointers(&mut self, r: InstRef, inst: &Inst) -> Result<bool, Refusal> {
        let place = |this: &Self, i: usize| inst.id(i).and_then(|p| this.places.get(&p).copied());
        let Some(ty) = inst.ty else { return Ok(false) };
        match inst.op {
            Op::PtrEqual | Op::PtrNotEqual => {
                let Some(found) = place(self, 0).or(place(self, 1)) else { return Ok(false) };
                let op = if inst.op == Op::PtrEqual { Op::IEqual } else { Op::INotEqual };
                let sides = [0, 1].map(|i| inst.id(i));
                let [Some(a), Some(b)] = sides else { return Ok(false) };
                let (a, b) = (self.address(a, found), self.address(b, found));
                self.instead(r, op, ty, [a, b].map(Operand::Id));
            }
            Op::ConvertPtrToU => {
                let (Some(found), Some(from)) = (place(self, 0), inst.id(0)) else { return Ok(false) };
                let width = self.shape(ty).map_or(64, |(s, _)| s.width());
                let value = self.address(from, found);
                let value = self.resize(value, width, false);
                self.replace_result(r, value);
            }
            Op::PtrDiff => {
                let (Some(found), [Some(a), Some(b)]) = (place(self, 0), [0, 1].map(|i| inst.id(i))) else {
                    return Ok(false);
                };
                let pointee = self.pointer_types.get(&a).and_then(|t| self.pointee(*t));
                let size = pointee.and_then(|t| self.layout.size(self.m, t)).ok_or_else(|| self.no_layout(r))?;
                let (a, b) = (self.address(a, found), self.address(b, found));
                let (a, b) = (self.resize(a, 64, true), self.resize(b, 64, true));
                let (word, size) = (self.u64_type(), self.u64(size.bytes.max(1)));
                let bytes = self.ids(Op::ISub, word, &[a, b]);
                self.instead(r, Op::SDiv, ty, [bytes, size].map(Operand::Id));
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Returns the address or offset of an access chain.
    fn chain(&mut self, r: InstRef, inst: &Inst, place: PointerTarget, width: u32) -> Result<Id, Refusal> {
        let base = inst.derived_from().ok_or_else(|| self.no_layout(r))?;
        let mut ty = self.pointer_types.get(&base).and_then(|t| self.pointee(*t)).ok_or_else(|| self.no_layout(r))?;
        let mut at = self.address(base, place);
        let mut fixed = 0u64;
        for (i, index) in inst.ids_from(1).enumerate() {
            if i == 0 && inst.op.is_element_chain() {
                let step = self.layout.size(self.m, ty).ok_or_else(|| self.no_layout(r))?.bytes;
                self.step(width, index, step, &mut at, &mut fixed);
                continue;
            }
            match Type::of(self.m, ty) {
                Some(Type::Array { elem, .. } | Type::RuntimeArray { elem } | Type::Vector { elem, .. }) => {
                    let step = self.layout.size(self.m, elem).ok_or_else(|| self.no_layout(r))?.bytes;
                    self.step(width, index, step, &mut at, &mut fixed);
                    ty = elem;
                }
                Some(Type::Struct { .. }) => {
                    let member = self.layout.constant(index).and_then(|c| usize::try_from(c).ok());
                    let parts = self.layout.parts(self.m, ty).ok_or_else(|| self.no_layout(r))?;
                    let part = member.and_then(|c| parts.get(c)).ok_or_else(|| self.no_layout(r))?;
                    ty = part.0;
                    fixed = fixed.wrapping_add(part.1);
                }
                _ => return Err(self.no_layout(r)),
            }
        }
        Ok(self.plus(width, at, fixed))
    }

    /// Advances by a signed index in units of `step` bytes.
    fn step(&mut self, width: u32, index: Id, step: u64, at: &mut Id, fixed: &mut u64) {
        let index = self.now(index);
        let bits = self.m.type_of(index).and_then(|t| coop_ir::types::scalar(self.m, t)).map(Scalar::width);
        if let (Some(known), Some(bits @ 1..=64)) = (self.layout.constant(index), bits) {
            let value = ((known << (64 - bits)) as i64 >> (64 - bits)) as u64;
            *fixed = fixed.wrapping_add(value.wrapping_mul(step));
            return;
        }
        let index = self.resize(index, width, true);
        let bytes = self.times(width, index, step);
        *at = self.sum(width, *at, bytes);
    }
}
