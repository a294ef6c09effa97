//! Casts between narrow integers and other types of as many bits.

use super::{Int, Integer, int, low_bits, word};
use crate::Refusal;
use crate::emit::wide;
use coop_ir::builder::FunctionBuilder;
use coop_ir::types::{self, Scalar};
use coop_ir::{Id, Inst, InstRef, Op};

/// A part of a value: bits in the lowest places of a word, with anything above, and their number.
type Part = (Id, u32);

impl Integer {
    pub(super) fn bitcast(&mut self, b: &mut FunctionBuilder<'_>, r: InstRef, i: &Inst) -> Result<(), Refusal> {
        let (Some(ty), Some(result), Some(value)) = (i.ty, i.result, i.converted()) else {
            b.keep(r);
            return Ok(());
        };
        let shape = |ty: Option<Id>| ty.and_then(|ty| types::scalar_or_vector(b.module, ty));
        let (Some((from, count)), Some((to, len))) = (shape(b.module.type_of(value)), shape(Some(ty))) else {
            return Err(self.refuse(r, "a cast of pointers or other types"));
        };
        if from.width() * count != to.width() * len || from.width() * count > 128 {
            return Err(self.refuse(r, "a cast between types of different sizes"));
        }
        let parts = self.parts(b, value, from, count);
        let value = self.made_of(b, &parts, ty, to, len);
        self.replaced.insert(result, value);
        Ok(())
    }

    /// Takes a value apart, into its components or the words of those.
    fn parts(&self, b: &mut FunctionBuilder<'_>, value: Id, s: Scalar, len: u32) -> Vec<Part> {
        let uint = b.u32_type();
        if let Some(narrow) = self.narrow_of(b.module, value) {
            let unsigned = word(b, Int { width: 32, signed: false, len });
            let value = if narrow.signed { b.ids(Op::Bitcast, unsigned, &[value]) } else { value };
            return components(b, value, uint, len).into_iter().map(|v| (v, s.width())).collect();
        }
        if s.width() < 32 {
            // Whole words of them, filled up.
            let each = 32 / s.width();
            let elem = b.globals.scalar(b.module, s);
            let all = components(b, value, elem, len);
            let mut out = Vec::new();
            for group in all.chunks(each as usize) {
                let mut group = group.to_vec();
                let known = group.len() as u32;
                group.resize(each as usize, group[0]);
                let vector = wide(b, elem, each);
                let whole = b.ids(Op::CompositeConstruct, vector, &group);
                out.push((b.ids(Op::Bitcast, uint, &[whole]), known * s.width()));
            }
            return out;
        }
        let words = s.width() / 32 * len;
        let vector = wide(b, uint, words);
        let value = if b.module.type_of(value) == Some(vector) { value } else { b.ids(Op::Bitcast, vector, &[value]) };
        components(b, value, uint, words).into_iter().map(|v| (v, 32)).collect()
    }

    /// Makes a value of a type of parts.
    fn made_of(&self, b: &mut FunctionBuilder<'_>, parts: &[Part], ty: Id, s: Scalar, len: u32) -> Id {
        let uint = b.u32_type();
        let narrow = int(b.module, ty).filter(|i| self.is_narrow(*i));
        if let Some(to) = narrow {
            let one = Int { len: 1, ..to };
            let elem = b.globals.scalar(b.module, s);
            let bits = pieces(b, parts, s.width());
            let all: Vec<Id> = bits
                .into_iter()
                .map(|v| {
                    let same = word(b, Int { width: 32, ..one });
                    let v = if one.signed { b.ids(Op::Bitcast, same, &[v]) } else { v };
                    low_bits(b, v, elem, one)
                })
                .collect();
            return composed(b, ty, &all);
        }
        let words = pieces(b, parts, 32);
        if s.width() < 32 {
            let each = 32 / s.width();
            let elem = b.globals.scalar(b.module, s);
            let vector = wide(b, elem, each);
            let mut all = Vec::new();
            for w in words {
                let whole = b.ids(Op::Bitcast, vector, &[w]);
                all.extend(components(b, whole, elem, each));
            }
            all.truncate(len as usize);
            return composed(b, ty, &all);
        }
        let vector = wide(b, uint, words.len() as u32);
        let value = composed(b, vector, &words);
        if vector == ty { value } else { b.ids(Op::Bitcast, ty, &[value]) }
    }
}

/// Cuts or joins parts so that each has `width` bits, the last maybe fewer; above them is anything where they are cut.
fn pieces(b: &mut FunctionBuilder<'_>, parts: &[Part], width: u32) -> Vec<Id> {
    let uint = b.u32_type();
    let mut out = Vec::new();
    let mut open: Option<Part> = None;
    for (bits, count) in parts.iter().copied() {
        let mut at = 0;
        while at < count {
            let piece = match at {
                0 => bits,
                at => {
                    let by = b.u32(at);
                    b.ids(Op::ShiftRightLogical, uint, &[bits, by])
                }
            };
            let (joined, have) = match open.take() {
                None => (piece, (count - at).min(width)),
                Some((low, have)) => {
                    let (zero, mask) = (b.u32(0), b.u32(have));
                    let low = b.ids(Op::BitFieldUExtract, uint, &[low, zero, mask]);
                    let high = b.ids(Op::ShiftLeftLogical, uint, &[piece, mask]);
                    (b.ids(Op::BitwiseOr, uint, &[low, high]), (have + count - at).min(width))
                }
            };
            at = if have == width { count.min(at + width) } else { count };
            if have == width { out.push(joined) } else { open = Some((joined, have)) }
        }
    }
    out.extend(open.map(|(bits, _)| bits));
    out
}

fn components(b: &mut FunctionBuilder<'_>, value: Id, elem: Id, len: u32) -> Vec<Id> {
    if len == 1 {
        return vec![value];
    }
    (0..len).map(|n| b.op(Op::CompositeExtract, elem, [value.into(), n.into()])).collect()
}

fn composed(b: &mut FunctionBuilder<'_>, ty: Id, all: &[Id]) -> Id {
    match all {
        [one] => *one,
        all => b.ids(Op::CompositeConstruct, ty, all),
    }
}
