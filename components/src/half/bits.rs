//! Casts between f16 and integers.

use super::{Half, Helper, is_half, len_of};
use crate::Refusal;
use crate::emit::wide;
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
        let Some((other, _)) = other.filter(|(s, _)| to_half || from_half && matches!(s.width(), 16 | 32 | 64)) else {
            return Err(self.refuse(r, "a cast between f16 and a type of another kind"));
        };
        self.notes.plain.insert(result);
        if to_half {
            let halves = halves_of(b, value, from, other);
            if self.only_parts(b, result) {
                self.parts.insert(result, halves);
                return Ok(());
            }
            let float = b.globals.scalar(b.module, Scalar::Float { width: 32 });
            let values: Vec<Id> = halves.into_iter().map(|h| self.call(b, Helper::FromBits, float, h)).collect();
            let value = match values.as_slice() {
                [one] => *one,
                all => b.ids(Op::CompositeConstruct, ty, all),
            };
            self.replaced.insert(result, value);
            return Ok(());
        }
        let halves = self.bits_of(b, value, from);
        let value = from_halves(b, &halves, ty, other);
        self.replaced.insert(result, value);
        Ok(())
    }

    /// Returns true if only single components of a vector are used.
    fn only_parts(&self, b: &FunctionBuilder<'_>, vector: Id) -> bool {
        let m = &*b.module;
        let takes = |r: InstRef| m.inst(r).extracted_from() == Some(vector) && m.inst(r).operands.len() == 2;
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

/// Emits the halves of words of a value of another type, each in the lower half of a word; upper halves are not zero.
fn halves_of(b: &mut FunctionBuilder<'_>, value: Id, ty: Id, s: Scalar) -> Vec<Id> {
    let uint = b.u32_type();
    let len = len_of(b.module, ty);
    let words = match s.width() {
        // Two words each.
        64 => {
            let pair = wide(b, uint, 2 * len);
            let pair = b.ids(Op::Bitcast, pair, &[value]);
            components(b, pair, uint, 2 * len)
        }
        32 => {
            let same = wide(b, uint, len);
            let words = if ty == same { value } else { b.ids(Op::Bitcast, same, &[value]) };
            components(b, words, uint, len)
        }
        _ => {
            let elem = b.globals.scalar(b.module, s);
            let all = components(b, value, elem, len);
            return all.into_iter().map(|v| b.ids(Op::UConvert, uint, &[v])).collect();
        }
    };
    let mut out = Vec::new();
    for word in words {
        let sixteen = b.u32(16);
        out.push(word);
        out.push(b.ids(Op::ShiftRightLogical, uint, &[word, sixteen]));
    }
    out
}

fn components(b: &mut FunctionBuilder<'_>, value: Id, elem: Id, len: u32) -> Vec<Id> {
    if len == 1 {
        return vec![value];
    }
    (0..len).map(|n| b.op(Op::CompositeExtract, elem, [value.into(), n.into()])).collect()
}

/// Emits a value of another type, made of bits of 16.
fn from_halves(b: &mut FunctionBuilder<'_>, halves: &[Id], ty: Id, s: Scalar) -> Id {
    let uint = b.u32_type();
    let made = |b: &mut FunctionBuilder<'_>, ty: Id, all: &[Id]| match all {
        [one] => *one,
        all => b.ids(Op::CompositeConstruct, ty, all),
    };
    if s.width() == 16 {
        let elem = b.globals.scalar(b.module, s);
        let op = if matches!(s, Scalar::Int { signed: true, .. }) { Op::SConvert } else { Op::UConvert };
        let all: Vec<Id> = halves.iter().map(|h| b.ids(op, elem, &[*h])).collect();
        return made(b, ty, &all);
    }
    let words: Vec<Id> = halves
        .chunks(2)
        .map(|pair| match pair {
            [low, high] => {
                let sixteen = b.u32(16);
                let high = b.ids(Op::ShiftLeftLogical, uint, &[*high, sixteen]);
                b.ids(Op::BitwiseOr, uint, &[*low, high])
            }
            rest => rest[0],
        })
        .collect();
    let same = wide(b, uint, words.len() as u32);
    let value = made(b, same, &words);
    if ty == same { value } else { b.ids(Op::Bitcast, ty, &[value]) }
}
