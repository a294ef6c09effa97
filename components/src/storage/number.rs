//! Numbers and the words that they are parts of.

use crate::emit::wide;
use coop_ir::builder::{FunctionBuilder, Index};
use coop_ir::types::{self, Scalar};
use coop_ir::{Id, Op};

/// Returns an index as an unsigned number of 32 bits. Indices are signed.
pub(super) fn as_u32(b: &mut FunctionBuilder<'_>, index: Id) -> Id {
    let uint = b.u32_type();
    let ty = b.module.type_of(index);
    match ty.and_then(|ty| types::scalar(b.module, ty)) {
        _ if ty == Some(uint) => index,
        Some(Scalar::Int { width: 32, .. }) => b.ids(Op::Bitcast, uint, &[index]),
        _ => b.ids(Op::SConvert, uint, &[index]),
    }
}

/// Shifts a word.
pub(super) fn shifted(b: &mut FunctionBuilder<'_>, op: Op, word: Id, by: Index) -> Id {
    if by == Index::Const(0) {
        return word;
    }
    let (ty, by) = (b.u32_type(), b.index(by));
    b.ids(op, ty, &[word, by])
}

/// Returns the number whose bits are the lowest of a word.
pub(super) fn from_bits(b: &mut FunctionBuilder<'_>, word: Id, ty: Id, s: Scalar) -> Id {
    match s {
        Scalar::Int { signed: true, .. } => b.ids(Op::SConvert, ty, &[word]),
        Scalar::Int { .. } => b.ids(Op::UConvert, ty, &[word]),
        _ => {
            let vector = wide(b, ty, 32 / s.width());
            let all = b.ids(Op::Bitcast, vector, &[word]);
            b.op(Op::CompositeExtract, ty, [all.into(), 0.into()])
        }
    }
}

/// Returns the bits of a number, with zeros above.
pub(super) fn to_bits(b: &mut FunctionBuilder<'_>, value: Id, ty: Id, s: Scalar) -> Id {
    let uint = b.u32_type();
    if s.is_int() {
        return b.ids(Op::UConvert, uint, &[value]);
    }
    let vector = wide(b, ty, 32 / s.width());
    let zero = b.globals.null(b.module, ty);
    let mut all = vec![zero; (32 / s.width()) as usize];
    all[0] = value;
    let all = b.ids(Op::CompositeConstruct, vector, &all);
    b.ids(Op::Bitcast, uint, &[all])
}
