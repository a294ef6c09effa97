//! Generates arithmetic on single elements: operations, conversions that truncate, saturated sums.

use super::bits::part;
use crate::decorations::{self, Decorated};
use coop_ir::builder::{FunctionBuilder, Index};
use coop_ir::types::{Scalar, Type};
use coop_ir::{Id, Op};

/// An operation on elements, which gives a `ty`.
pub(crate) fn apply(b: &mut FunctionBuilder<'_>, op: Op, ty: Id, operands: &[Id], decorations: &[Decorated]) -> Id {
    // Two ids of one type, or equal widths: SPIR-V has no conversion of a type to itself.
    let same = operands.len() == 1 && b.module.type_of(operands[0]) == Some(ty);
    if same && (op == Op::Bitcast || op.is_width_conversion()) {
        return operands[0];
    }
    if let Some(difference) = byte_difference(b, op, ty, operands, decorations) {
        return difference;
    }
    let id = b.ids(op, ty, operands);
    decorations::add(b.module, id, decorations);
    id
}

/// A negated byte or the difference of two bytes, computed with 32 bits and truncated to 8 bits by a bit field extraction.
///
/// NVIDIA's driver (580.159) takes -(-128) in 8 bits for 128 where the result is made wider, divided or compared, and for
/// every other way to write it that `docs/drivers.md` lists.
fn byte_difference(
    b: &mut FunctionBuilder<'_>,
    op: Op,
    ty: Id,
    operands: &[Id],
    decorations: &[Decorated],
) -> Option<Id> {
    let is_byte = matches!(Type::of(b.module, ty), Some(Type::Scalar(Scalar::Int { width: 8, .. })));
    let is_difference = matches!(op, Op::SNegate | Op::ISub) && decorations.is_empty();
    // OpBitFieldSExtract needs the capability Shader.
    if !is_byte || !is_difference || b.module.is_kernel() {
        return None;
    }
    let int = b.globals.scalar(b.module, Scalar::Int { width: 32, signed: true });
    let wide: Vec<Id> = operands.iter().map(|value| b.ids(Op::SConvert, int, &[*value])).collect();
    let difference = b.ids(op, int, &wide);
    let (offset, count) = (b.u32(0), b.u32(8));
    let field = b.ids(Op::BitFieldSExtract, int, &[difference, offset, count]);
    Some(b.ids(Op::SConvert, ty, &[field]))
}

/// A float as bfloat16, without the bits that are too many.
pub(crate) fn truncated(b: &mut FunctionBuilder<'_>, ty: Id, value: Id) -> Id {
    let float = b.globals.scalar(b.module, Scalar::Float { width: 32 });
    let value = if b.module.type_of(value) == Some(float) { value } else { b.ids(Op::FConvert, float, &[value]) };
    let (word, bool_type) = (b.u32_type(), b.globals.bool(b.module));
    let bits = b.ids(Op::Bitcast, word, &[value]);
    // A NaN stays one, whichever bits say so.
    let is_nan = b.ids(Op::IsNan, bool_type, &[value]);
    let quiet = b.u32(1 << 22);
    let nan = b.ids(Op::BitwiseOr, word, &[bits, quiet]);
    let bits = b.ids(Op::Select, word, &[is_nan, nan, bits]);
    part(b, Scalar::BF16, ty, bits, 32, Index::Const(16))
}

/// `x + y`, saturated in their own width, in the sign that is asked for whatever that of the type is.
pub(crate) fn saturated_sum(b: &mut FunctionBuilder<'_>, ty: Id, scalar: Scalar, x: Id, y: Id, signed: bool) -> Id {
    let width = scalar.width();
    let bool_type = b.globals.bool(b.module);
    let total = b.ids(Op::IAdd, ty, &[x, y]);
    if !signed {
        let wrapped = b.ids(Op::ULessThan, bool_type, &[total, x]);
        let most = b.globals.constant_of(b.module, ty, scalar, u64::MAX >> (64 - width));
        return b.ids(Op::Select, ty, &[wrapped, most, total]);
    }
    // It overflows when both operands have the sign that the total has not.
    let zero = b.globals.constant_of(b.module, ty, scalar, 0);
    let most = b.globals.constant_of(b.module, ty, scalar, u64::MAX >> (65 - width));
    let least = b.globals.constant_of(b.module, ty, scalar, 1 << (width - 1));
    let flipped = [x, y].map(|v| b.ids(Op::BitwiseXor, ty, &[v, total]));
    let both = b.ids(Op::BitwiseAnd, ty, &flipped);
    let overflows = b.ids(Op::SLessThan, bool_type, &[both, zero]);
    let negative = b.ids(Op::SLessThan, bool_type, &[x, zero]);
    let limit = b.ids(Op::Select, ty, &[negative, least, most]);
    b.ids(Op::Select, ty, &[overflows, limit, total])
}
