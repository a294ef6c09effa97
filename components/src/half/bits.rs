//! Casts between f16 and integers.

use super::{Half, Helper, is_half, len_of};
use crate::Refusal;
use crate::cast::{self, Part};
use coop_ir::builder::FunctionBuilder;
use coop_ir::types::{self, Scalar};
use coop_ir::{Id, Inst, InstRef, Op};

impl Half {
    pub(super) fn bitcast(&mut self, b: &mut FunctionBuilder<'_>, r: InstRef, i: &Inst) -> Result<(), Refusal> {
        let (Some(ty), Some(result), Some(value)) = (i.ty, i.result, i.converted()) else {
            b.keep(r);
            return Ok(());
        };
        let Some(from) = b.module.type_of(value) else { return Ok(()) };
        let (to_half, from_half) = (is_half(b.module, ty), is_half(b.module, from));
        let other = types::scalar_or_vector(b.module, if to_half { from } else { ty });
        if to_half && from_half {
            b.keep(r);
            return Ok(());
        }
        let len = len_of(b.module, if to_half { ty } else { from });
        let same = |s: Scalar, count: u32| len <= 8 && s.width().checked_mul(count) == Some(16 * len);
        let Some((other, count)) = other.filter(|(s, count)| same(*s, *count)) else {
            return Err(self.refuse(r, "a cast between f16 and a type of another kind"));
        };
        self.notes.plain.insert(result);
        if to_half {
            let parts = cast::parts(b, value, other, count);
            let halves = cast::pieces(b, &parts, 16);
            if self.only_parts(b, result, len) {
                self.parts.insert(result, halves);
                return Ok(());
            }
            let float = b.globals.scalar(b.module, Scalar::Float { width: 32 });
            let values: Vec<Id> = halves.into_iter().map(|h| self.call(b, Helper::FromBits, float, h)).collect();
            let value = cast::composed(b, ty, &values);
            self.replaced.insert(result, value);
            return Ok(());
        }
        let parts: Vec<Part> = self.bits_of(b, value, from).into_iter().map(|bits| (bits, 16)).collect();
        let value = cast::value(b, &parts, ty, other, count);
        self.replaced.insert(result, value);
        Ok(())
    }

    /// Returns true if only single components of a vector are used, which it has.
    fn only_parts(&self, b: &FunctionBuilder<'_>, vector: Id, len: u32) -> bool {
        let m = &*b.module;
        let takes = |r: InstRef| match (m.inst(r).extracted_from(), m.inst(r).operands.as_slice()) {
            (of, [_, n]) => of == Some(vector) && n.word() < len,
            _ => false,
        };
        let mut users = self.users.beyond_notes(m, vector).peekable();
        users.peek().is_some() && users.all(takes)
    }

    /// Emits a component of a vector whose halves of words are known. Returns false if the instruction is not such.
    pub(super) fn part(&mut self, b: &mut FunctionBuilder<'_>, i: &Inst) -> bool {
        let Some((vector, result)) = i.extracted_from().zip(i.result) else { return false };
        let half = self.parts.get(&vector).and_then(|p| p.get(i.operands.last()?.word() as usize)).copied();
        let Some(half) = half else { return false };
        let float = b.globals.scalar(b.module, Scalar::Float { width: 32 });
        let value = self.call(b, Helper::FromBits, float, half);
        self.replaced.insert(result, value);
        true
    }

    /// Emits the bits of each component.
    fn bits_of(&mut self, b: &mut FunctionBuilder<'_>, value: Id, ty: Id) -> Vec<Id> {
        let uint = b.u32_type();
        let len = len_of(b.module, ty);
        // A vector that was made for the cast is taken apart.
        let made =
            b.module.def_inst(value).filter(|i| i.op == Op::CompositeConstruct && i.operands.len() as u32 == len);
        let made: Option<Vec<Id>> = made.map(|i| i.ids().collect());
        (0..len)
            .map(|n| {
                let one = match &made {
                    Some(all) if len > 1 => all[n as usize],
                    _ if len == 1 => value,
                    _ => {
                        let float = b.globals.scalar(b.module, Scalar::Float { width: 32 });
                        b.op(Op::CompositeExtract, float, [value.into(), n.into()])
                    }
                };
                if b.module.def_inst(one).is_some_and(|i| i.op == Op::ConstantNull) {
                    return b.u32(0);
                }
                self.call(b, Helper::ToBits, uint, one)
            })
            .collect()
    }
}
