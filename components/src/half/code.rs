//! Conversions between f32 and f16 in integer code, component by component: exact, with subnormal numbers, infinities and NaN.
//!
//! A value of f16 is held by the f32 that is equal to it. None of the intermediate numbers here is a subnormal f32, so that
//! devices which flush those give the same results.

use crate::emit::Lanes;
use coop_ir::Id;
use coop_ir::Op;
use coop_ir::builder::{FunctionBuilder, decorate};
use coop_ir::spv::Decoration;
use coop_ir::types::Scalar;

const MAGNITUDE: u32 = 0x7fff_ffff;
const INFINITY: u32 = 0x7f80_0000;
/// The bit that makes a NaN quiet.
const QUIET: u32 = 0x0040_0000;
/// The smallest normal f16, 2^-14, as f32.
const LEAST_NORMAL: u32 = 0x3880_0000;
/// The smallest f16 above zero, 2^-24, as f32.
const LEAST: u32 = 0x3380_0000;
/// Half of it: what is not more rounds to zero.
const HALF_OF_LEAST: u32 = 0x3300_0000;
/// What is not less is infinity after rounding to 11 bits: 2^16.
const TOO_LARGE: u32 = 0x4780_0000;
/// The difference of the exponents' biases, in place.
const REBIAS: u32 = 112 << 23;
/// The infinity of f16.
const HALF_INFINITY: u32 = 0x7c00;

/// Emits the rounding of f32 to the nearest f16, ties to even.
pub(super) fn round(b: &mut FunctionBuilder<'_>, len: u32, value: Id) -> Id {
    let l = Lanes::new(b, len);
    let bits = b.ids(Op::Bitcast, l.uint, &[value]);
    let magnitude = l.with(b, Op::BitwiseAnd, bits, MAGNITUDE);
    let sign = l.op(b, Op::BitwiseXor, bits, magnitude);
    // Between half of the least number and it there is nothing to round to but the latter.
    let (zero, least) = (l.constant(b, 0), l.constant(b, LEAST));
    let small = l.compare(b, Op::ULessThan, magnitude, LEAST);
    let at_least = l.select(b, small, least, magnitude);
    let vanishes = l.compare(b, Op::ULessThanEqual, magnitude, HALF_OF_LEAST);
    let a = l.select(b, vanishes, zero, at_least);
    // Bits to drop: 13, and one more for each power of two below the least normal number.
    let exponent = l.with(b, Op::ShiftRightLogical, a, 23);
    let is_normal = l.compare(b, Op::UGreaterThan, exponent, LEAST_NORMAL >> 23);
    let normal = l.constant(b, LEAST_NORMAL >> 23);
    let exponent = l.select(b, is_normal, normal, exponent);
    let all = l.constant(b, (LEAST_NORMAL >> 23) + 13);
    let dropped = l.op(b, Op::ISub, all, exponent);
    let too_many = l.compare(b, Op::UGreaterThan, dropped, 23);
    let most = l.constant(b, 23);
    let dropped = l.select(b, too_many, most, dropped);
    // Just under half of the last place, and the last bit that stays: to nearest even. A carry reaches the exponent.
    let (one, below) = (l.constant(b, 1), l.with(b, Op::ISub, dropped, 1));
    let half = l.op(b, Op::ShiftLeftLogical, one, below);
    let half = l.with(b, Op::ISub, half, 1);
    let kept = l.op(b, Op::ShiftRightLogical, a, dropped);
    let odd = l.with(b, Op::BitwiseAnd, kept, 1);
    let sum = l.op(b, Op::IAdd, a, half);
    let sum = l.op(b, Op::IAdd, sum, odd);
    let sum = l.op(b, Op::ShiftRightLogical, sum, dropped);
    let rounded = l.op(b, Op::ShiftLeftLogical, sum, dropped);
    let infinity = l.constant(b, INFINITY);
    let too_large = l.compare(b, Op::UGreaterThanEqual, rounded, TOO_LARGE);
    let rounded = l.select(b, too_large, infinity, rounded);
    let is_nan = l.compare(b, Op::UGreaterThan, magnitude, INFINITY);
    let nan = l.with(b, Op::BitwiseOr, magnitude, QUIET);
    let rounded = l.select(b, is_nan, nan, rounded);
    let bits = l.op(b, Op::BitwiseOr, rounded, sign);
    b.ids(Op::Bitcast, l.float, &[bits])
}

/// Emits the bits of an f16 that is held by f32, in the lower half of a word.
pub(super) fn to_bits(b: &mut FunctionBuilder<'_>, len: u32, value: Id) -> Id {
    let l = Lanes::new(b, len);
    let bits = b.ids(Op::Bitcast, l.uint, &[value]);
    let a = l.with(b, Op::BitwiseAnd, bits, MAGNITUDE);
    let sign = l.op(b, Op::BitwiseXor, bits, a);
    let sign = l.with(b, Op::ShiftRightLogical, sign, 16);
    let normal = l.with(b, Op::ISub, a, REBIAS);
    let normal = l.with(b, Op::ShiftRightLogical, normal, 13);
    let payload = l.with(b, Op::ShiftRightLogical, a, 13);
    let payload = l.with(b, Op::BitwiseAnd, payload, 0x3ff);
    let special = l.with(b, Op::BitwiseOr, payload, HALF_INFINITY);
    let is_special = l.compare(b, Op::UGreaterThanEqual, a, INFINITY);
    let large = l.select(b, is_special, special, normal);
    // A subnormal number is a whole number of the least one.
    let is_small = l.compare(b, Op::ULessThan, a, LEAST_NORMAL);
    let zero = l.constant(b, 0);
    let small = l.select(b, is_small, a, zero);
    let small = b.ids(Op::Bitcast, l.float, &[small]);
    let scale = l.float(b, 16_777_216.0);
    let small = b.ids(Op::FMul, l.float, &[small, scale]);
    let small = b.ids(Op::ConvertFToU, l.uint, &[small]);
    let result = l.select(b, is_small, small, large);
    l.op(b, Op::BitwiseOr, result, sign)
}

/// Emits the f32 that holds the f16 with these bits, which are the lower half of a word; the upper half is ignored.
pub(super) fn from_bits(b: &mut FunctionBuilder<'_>, len: u32, bits: Id) -> Id {
    let l = Lanes::new(b, len);
    let a = l.with(b, Op::BitwiseAnd, bits, 0x7fff);
    let sign = l.with(b, Op::BitwiseAnd, bits, 0x8000);
    let sign = l.with(b, Op::ShiftLeftLogical, sign, 16);
    let shifted = l.with(b, Op::ShiftLeftLogical, a, 13);
    let normal = l.with(b, Op::IAdd, shifted, REBIAS);
    let special = l.with(b, Op::IAdd, shifted, 2 * REBIAS);
    let is_special = l.compare(b, Op::UGreaterThanEqual, a, HALF_INFINITY);
    let large = l.select(b, is_special, special, normal);
    let small = b.ids(Op::ConvertUToF, l.float, &[a]);
    let scale = l.float(b, 1.0 / 16_777_216.0);
    let small = b.ids(Op::FMul, l.float, &[small, scale]);
    let small = b.ids(Op::Bitcast, l.uint, &[small]);
    let is_small = l.compare(b, Op::ULessThan, a, 0x400);
    let magnitude = l.select(b, is_small, small, large);
    let bits = l.op(b, Op::BitwiseOr, magnitude, sign);
    b.ids(Op::Bitcast, l.float, &[bits])
}

/// Emits `x * y + z` of f16, rounded to odd in f32: rounded again, to f16, it is what one rounding gives.
///
/// The product is exact in f32. The sum's error is found by Knuth's two-sum, and where the sum is inexact and even, the number
/// next to it in the direction of the error is odd.
pub(super) fn fused(b: &mut FunctionBuilder<'_>, len: u32, [x, y, z]: [Id; 3]) -> Id {
    let l = Lanes::new(b, len);
    let product = exactly(b, Op::FMul, l.float, x, y);
    let sum = exactly(b, Op::FAdd, l.float, product, z);
    let second = exactly(b, Op::FSub, l.float, sum, product);
    let first = exactly(b, Op::FSub, l.float, sum, second);
    let first = exactly(b, Op::FSub, l.float, product, first);
    let second = exactly(b, Op::FSub, l.float, z, second);
    let error = exactly(b, Op::FAdd, l.float, first, second);
    let zero = l.float(b, 0.0);
    // False for NaN, which the error of an infinite sum is.
    let inexact = b.ids(Op::FOrdNotEqual, l.bool, &[error, zero]);
    let grows = b.ids(Op::FOrdGreaterThan, l.bool, &[error, zero]);
    to_odd(b, &l, sum, inexact, grows)
}

/// Emits f64 rounded to odd in f32.
pub(super) fn from_f64(b: &mut FunctionBuilder<'_>, len: u32, value: Id, ty: Id) -> Id {
    let l = Lanes::new(b, len);
    let near = b.ids(Op::FConvert, l.float, &[value]);
    let back = b.ids(Op::FConvert, ty, &[near]);
    let inexact = b.ids(Op::FOrdNotEqual, l.bool, &[back, value]);
    let grows = b.ids(Op::FOrdLessThan, l.bool, &[back, value]);
    let odd = to_odd(b, &l, near, inexact, grows);
    // A number that is infinite in f32 already stays so.
    let bits = b.ids(Op::Bitcast, l.uint, &[near]);
    let a = l.with(b, Op::BitwiseAnd, bits, MAGNITUDE);
    let infinite = l.compare(b, Op::UGreaterThanEqual, a, INFINITY);
    b.ids(Op::Select, l.float, &[infinite, near, odd])
}

/// Emits the odd one of the two numbers between which an inexact result lies: `near`, or its neighbor towards the result.
fn to_odd(b: &mut FunctionBuilder<'_>, l: &Lanes, near: Id, inexact: Id, grows: Id) -> Id {
    let bits = b.ids(Op::Bitcast, l.uint, &[near]);
    let up = l.with(b, Op::IAdd, bits, 1);
    let down = l.with(b, Op::ISub, bits, 1);
    let positive = l.compare(b, Op::ULessThan, bits, 1 << 31);
    let away = b.ids(Op::LogicalEqual, l.bool, &[grows, positive]);
    let next = l.select(b, away, up, down);
    let last = l.with(b, Op::BitwiseAnd, bits, 1);
    let even = l.compare(b, Op::IEqual, last, 0);
    let moves = b.ids(Op::LogicalAnd, l.bool, &[inexact, even]);
    let bits = l.select(b, moves, next, bits);
    b.ids(Op::Bitcast, l.float, &[bits])
}

/// Emits arithmetic that is not contracted.
fn exactly(b: &mut FunctionBuilder<'_>, op: Op, ty: Id, x: Id, y: Id) -> Id {
    let id = b.ids(op, ty, &[x, y]);
    decorate(b.module, id, Decoration::NoContraction, &[]);
    id
}

/// Returns the bits of the f32 that is equal to an f16.
pub(super) fn widened(bits: u32) -> u32 {
    let (sign, a) = ((bits & 0x8000) << 16, bits & 0x7fff);
    let magnitude = match a {
        0..0x400 => (a as f32 / 16_777_216.0).to_bits(),
        0x400..HALF_INFINITY => (a << 13) + REBIAS,
        _ => (a << 13) + 2 * REBIAS,
    };
    sign | magnitude
}

/// The scalar type of f16.
pub(super) const F16: Scalar = Scalar::Float { width: 16 };

#[cfg(test)]
mod tests {
    use super::widened;

    #[test]
    fn every_half_is_widened_exactly() {
        for bits in 0..=u16::MAX {
            let (ours, theirs) = (f32::from_bits(widened(bits.into())), half::f16::from_bits(bits).to_f32());
            assert!(ours.to_bits() == theirs.to_bits() || ours.is_nan() && theirs.is_nan(), "{bits:#x}");
        }
    }
}
