//! Arithmetic with f16 that is rounded to odd in f32, so that rounding the result to f16 is as rounding once.

use crate::emit::Lanes;
use crate::float::{INFINITY, MAGNITUDE, exactly};
use coop_ir::builder::FunctionBuilder;
use coop_ir::types::Scalar;
use coop_ir::{Id, Op};

/// The scalar type of f16.
pub(super) const F16: Scalar = Scalar::Float { width: 16 };

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
