//! Casts between types of as many bits, by way of words.

use crate::emit::wide;
use coop_ir::builder::FunctionBuilder;
use coop_ir::types::Scalar;
use coop_ir::{Id, Op};

/// A part of a value: bits in the lowest places of a word, with anything above, and their number.
pub(crate) type Part = (Id, u32);

/// Takes a value of a type that the device has apart, into its components or the words of those.
pub(crate) fn parts(b: &mut FunctionBuilder<'_>, value: Id, s: Scalar, len: u32) -> Vec<Part> {
    let uint = b.u32_type();
    if s.width() < 32 && s.is_int() {
        let elem = b.globals.scalar(b.module, s);
        let all = components(b, value, elem, len);
        return all.into_iter().map(|v| (b.ids(Op::UConvert, uint, &[v]), s.width())).collect();
    }
    if s.width() < 32 {
        // Whole words of them, filled up.
        let each = 32 / s.width();
        let elem = b.globals.scalar(b.module, s);
        let vector = wide(b, elem, each);
        let all = components(b, value, elem, len);
        let whole = |b: &mut FunctionBuilder<'_>, group: &[Id]| {
            let filled: Vec<Id> = (0..each as usize).map(|n| group[n.min(group.len() - 1)]).collect();
            let vector = b.ids(Op::CompositeConstruct, vector, &filled);
            (b.ids(Op::Bitcast, uint, &[vector]), group.len() as u32 * s.width())
        };
        return all.chunks(each as usize).map(|group| whole(b, group)).collect();
    }
    let words = s.width() / 32 * len;
    let vector = wide(b, uint, words);
    let value = if b.module.type_of(value) == Some(vector) { value } else { b.ids(Op::Bitcast, vector, &[value]) };
    components(b, value, uint, words).into_iter().map(|v| (v, 32)).collect()
}

/// Makes a value of a type that the device has.
pub(crate) fn value(b: &mut FunctionBuilder<'_>, parts: &[Part], ty: Id, s: Scalar, len: u32) -> Id {
    let uint = b.u32_type();
    let elem = b.globals.scalar(b.module, s);
    if s.width() < 32 && s.is_int() {
        let op = if matches!(s, Scalar::Int { signed: true, .. }) { Op::SConvert } else { Op::UConvert };
        let all: Vec<Id> = pieces(b, parts, s.width()).into_iter().map(|v| b.ids(op, elem, &[v])).collect();
        return composed(b, ty, &all);
    }
    let words = pieces(b, parts, 32);
    if s.width() < 32 {
        let each = 32 / s.width();
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

/// Cuts or joins parts so that each has `width` bits, the last maybe fewer; above them is anything where they are cut.
pub(crate) fn pieces(b: &mut FunctionBuilder<'_>, parts: &[Part], width: u32) -> Vec<Id> {
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

/// Returns the components of a number or vector.
pub(crate) fn components(b: &mut FunctionBuilder<'_>, value: Id, elem: Id, len: u32) -> Vec<Id> {
    if len == 1 {
        return vec![value];
    }
    (0..len).map(|n| b.op(Op::CompositeExtract, elem, [value.into(), n.into()])).collect()
}

/// Makes a number or vector of its components.
pub(crate) fn composed(b: &mut FunctionBuilder<'_>, ty: Id, all: &[Id]) -> Id {
    match all {
        [one] => *one,
        all => b.ids(Op::CompositeConstruct, ty, all),
    }
}
