//! Executes instructions on registers alone: arithmetic, comparisons, conversions, rearrangement of components.
//! Constants are computed with the same functions.

use coop_ir::Op;

use super::code::{Conv, Ins, Row};
use super::eval_lane;
use super::glsl_std_450;
use super::num::{Num, Rounding, fma, mask, round_tf32, signed};
use super::registers::{Regs, Unfit};
use super::taint::Taint;

/// Executes an instruction on registers alone. Returns false for all others.
pub(super) fn execute(regs: &mut Regs, ins: &Ins) -> bool {
    match ins {
        Ins::Each { op, num, dst, args, n } => each(regs, *op, *num, *dst, *args, *n),
        Ins::Ext { op, num, dst, args, n } => glsl_std_450::each(regs, *op, *num, *dst, *args, *n),
        Ins::Convert { conv, dst, a, n } => {
            note_unfit(regs, conv, *a, *n);
            regs.map1(*dst, *a, *n, |v| convert(conv, v));
            true
        }
        Ins::Copy { dst, src, n } => {
            regs.copy(*dst, *src, *n);
            true
        }
        Ins::Rows { dst, src } => {
            regs.rows(*dst, src);
            true
        }
        Ins::Undef { dst, n } => {
            regs.undefine(*dst, *n);
            true
        }
        Ins::Select { cond, wide, dst, a, b, n, .. } => {
            for i in 0..*n {
                let cond = if *wide { cond + i } else { *cond };
                select(regs, dst + i, cond, a + i, b + i);
            }
            true
        }
        Ins::Extract { dst, vector, n, index } => {
            for k in 0..regs.act.list.len() {
                let l = regs.act.list[k] as usize;
                let i = regs.get(*index, l);
                let taint = Taint::undefined_if(i >= u64::from(*n)).with(regs.taint(*index, l));
                let from = vector + i.min(u64::from(*n - 1)) as u32;
                let v = regs.get(from, l);
                let taint = if taint == Taint::Exact { regs.taint(from, l) } else { taint.with(regs.taint(from, l)) };
                regs.put(*dst, l, v);
                regs.set_taint(*dst, l, taint);
            }
            true
        }
        Ins::Insert { dst, vector, n, value, index } => {
            regs.copy(*dst, *vector, *n);
            for k in 0..regs.act.list.len() {
                let l = regs.act.list[k] as usize;
                let (i, decided) = (regs.get(*index, l), regs.taint(*index, l));
                if i < u64::from(*n) {
                    let (v, taint) = (regs.get(*value, l), regs.taint(*value, l));
                    regs.put(dst + i as u32, l, v);
                    regs.set_taint(dst + i as u32, l, taint);
                }
                if decided != Taint::Exact {
                    // Another component may be the one that is replaced.
                    for row in *dst..dst + n {
                        regs.set_taint(row, l, decided.with(regs.taint(row, l)));
                    }
                }
            }
            true
        }
        Ins::Lane { f, dst, n, args } => {
            eval_lane::execute(regs, f, *dst, *n, args);
            true
        }
        _ => false,
    }
}

fn select(regs: &mut Regs, dst: Row, cond: Row, a: Row, b: Row) {
    regs.map3(dst, [cond, a, b], 1, |c, a, b| if c != 0 { a } else { b });
    if regs.dirty[cond as usize] || regs.dirty[a as usize] || regs.dirty[b as usize] {
        for k in 0..regs.act.list.len() {
            let l = regs.act.list[k] as usize;
            let chosen = if regs.get(cond, l) != 0 { a } else { b };
            let decided = regs.taint(cond, l);
            let taint = regs.taint(chosen, l);
            regs.set_taint(dst, l, if decided == Taint::Exact { taint } else { decided.with(taint) });
        }
    }
}

/// Records a number for which a conversion to integers is undefined.
fn note_unfit(regs: &mut Regs, conv: &Conv, a: Row, n: u32) {
    if conv.saturate || !matches!(conv.op, Op::ConvertFToU | Op::ConvertFToS) {
        return;
    }
    let (width, signed) = (conv.to.bits() as i32, conv.op == Op::ConvertFToS);
    let most = 2f64.powi(width - i32::from(signed));
    let least = if signed { -most } else { 0.0 };
    for row in a..a + n {
        for k in 0..regs.act.list.len() {
            let lane = regs.act.list[k] as usize;
            let x = conv.from.to_f64(regs.get(row, lane));
            let whole = x.trunc();
            let fits = whole >= least && whole < most;
            if !fits && !regs.is_undefined(row, lane) {
                regs.unfit = Some(Unfit { value: x, width: conv.to.bits(), signed });
                return;
            }
        }
    }
}

/// Converts one value. A value out of range becomes the nearest one in range, as with saturation; NaN becomes 0. What becomes
/// bfloat16 becomes f32 before, as SPV_KHR_bfloat16 says.
pub(super) fn convert(conv: &Conv, v: u64) -> u64 {
    let (from, to) = (conv.from, conv.to);
    let (fw, tw) = (from.bits(), to.bits());
    match conv.op {
        Op::ConvertFToU => {
            let x = from.to_f64(v).trunc();
            if tw == 64 { x as u64 } else { (x as u64).min(mask(u64::MAX, tw)) }
        }
        Op::ConvertFToS => {
            let x = from.to_f64(v).trunc() as i64;
            let high = (mask(u64::MAX, tw) >> 1) as i64;
            mask(x.clamp(-high - 1, high) as u64, tw)
        }
        Op::ConvertSToF => {
            let x = signed(v, fw);
            integer_to(to, x < 0, x.unsigned_abs(), conv)
        }
        Op::ConvertUToF => integer_to(to, false, v, conv),
        Op::UConvert if conv.saturate => v.min(mask(u64::MAX, tw)),
        Op::UConvert => mask(v, tw),
        Op::SConvert if conv.saturate => {
            let high = (mask(u64::MAX, tw) >> 1) as i64;
            mask(signed(v, fw).clamp(-high - 1, high) as u64, tw)
        }
        Op::SConvert => mask(signed(v, fw) as u64, tw),
        Op::SatConvertSToU => {
            let x = signed(v, fw);
            if x < 0 { 0 } else { (x as u64).min(mask(u64::MAX, tw)) }
        }
        Op::SatConvertUToS => v.min(mask(u64::MAX, tw) >> 1),
        Op::FConvert => {
            if from == to {
                return v;
            }
            let x = match (from.to_f64(v), to) {
                (x, Num::Bf16) if from == Num::F64 => {
                    Num::F32.to_f64(Num::F32.round(x, conv.mode.unwrap_or(Rounding::NearestEven)))
                }
                (x, _) => x,
            };
            let r = match conv.mode {
                None => to.encode_f64(x),
                Some(mode) => to.round(x, mode),
            };
            saturated(conv, x.is_nan(), x.is_sign_negative(), r)
        }
        _ => mask(v, tw),
    }
}

fn integer_to(to: Num, negative: bool, magnitude: u64, conv: &Conv) -> u64 {
    if magnitude == 0 {
        return 0;
    }
    let mode = conv.mode.unwrap_or(Rounding::NearestEven);
    let r = match to {
        Num::Bf16 => {
            let single = Num::F32.round_parts(negative, magnitude, 0, false, mode);
            to.round(Num::F32.to_f64(single), mode)
        }
        _ => to.round_parts(negative, magnitude, 0, false, mode),
    };
    saturated(conv, false, negative, r)
}

fn saturated(conv: &Conv, nan: bool, negative: bool, r: u64) -> u64 {
    let out = conv.to.to_f64(r);
    if conv.saturate && !nan && (out.is_nan() || out.is_infinite()) { conv.to.largest(negative) } else { r }
}

/// Float arithmetic with two operands: f32 for the small formats (one rounding of an exact or correctly rounded
/// result is the right one for them), f64 for itself.
macro_rules! float2 {
    ($regs:expr, $num:expr, $dst:expr, $a:expr, $b:expr, $n:expr, |$x:ident, $y:ident| $e:expr) => {
        match $num {
            Num::F32 => $regs.map2($dst, $a, $b, $n, |x, y| {
                let ($x, $y) = (f32::from_bits(x as u32), f32::from_bits(y as u32));
                u64::from(($e).to_bits())
            }),
            Num::F64 => $regs.map2($dst, $a, $b, $n, |x, y| {
                let ($x, $y) = (f64::from_bits(x), f64::from_bits(y));
                ($e).to_bits()
            }),
            num => $regs.map2($dst, $a, $b, $n, |x, y| {
                let ($x, $y) = (num.to_f32(x), num.to_f32(y));
                num.encode_f32($e)
            }),
        }
    };
}

macro_rules! compare {
    ($regs:expr, $num:expr, $dst:expr, $a:expr, $b:expr, $n:expr, |$x:ident, $y:ident| $e:expr) => {
        match $num {
            Num::F32 => $regs.map2($dst, $a, $b, $n, |x, y| {
                let ($x, $y) = (f32::from_bits(x as u32), f32::from_bits(y as u32));
                u64::from($e)
            }),
            num => $regs.map2($dst, $a, $b, $n, |x, y| {
                let ($x, $y) = (num.to_f64(x), num.to_f64(y));
                u64::from($e)
            }),
        }
    };
}

/// Executes a component-wise instruction. `num` is the type of the first operand's components.
fn each(regs: &mut Regs, op: Op, num: Num, dst: Row, args: [Row; 4], n: u32) -> bool {
    let [a, b, c, _] = args;
    let w = num.bits();
    let s = move |v: u64| signed(v, w);
    let m = move |v: u64| mask(v, w);
    match op {
        Op::IAdd => regs.map2(dst, a, b, n, |x, y| m(x.wrapping_add(y))),
        Op::ISub => regs.map2(dst, a, b, n, |x, y| m(x.wrapping_sub(y))),
        Op::IMul => regs.map2(dst, a, b, n, |x, y| m(x.wrapping_mul(y))),
        Op::UDiv | Op::UMod | Op::SDiv | Op::SRem | Op::SMod => divide(regs, op, w, dst, a, b, n),
        Op::SNegate => regs.map1(dst, a, n, |x| m(x.wrapping_neg())),
        Op::Not => regs.map1(dst, a, n, |x| m(!x)),
        Op::LogicalNot => regs.map1(dst, a, n, |x| u64::from(x == 0)),
        Op::BitwiseAnd | Op::LogicalAnd => regs.map2(dst, a, b, n, |x, y| x & y),
        Op::BitwiseOr | Op::LogicalOr => regs.map2(dst, a, b, n, |x, y| x | y),
        Op::BitwiseXor => regs.map2(dst, a, b, n, |x, y| x ^ y),
        Op::ShiftLeftLogical | Op::ShiftRightLogical | Op::ShiftRightArithmetic => shift(regs, op, w, dst, a, b, n),
        Op::BitReverse => regs.map1(dst, a, n, |x| x.reverse_bits() >> (64 - w)),
        Op::BitCount => regs.map1(dst, a, n, |x| u64::from(x.count_ones())),
        Op::IEqual | Op::LogicalEqual | Op::PtrEqual => regs.map2(dst, a, b, n, |x, y| u64::from(x == y)),
        Op::INotEqual | Op::LogicalNotEqual | Op::PtrNotEqual => regs.map2(dst, a, b, n, |x, y| u64::from(x != y)),
        Op::ULessThan => regs.map2(dst, a, b, n, |x, y| u64::from(x < y)),
        Op::ULessThanEqual => regs.map2(dst, a, b, n, |x, y| u64::from(x <= y)),
        Op::UGreaterThan => regs.map2(dst, a, b, n, |x, y| u64::from(x > y)),
        Op::UGreaterThanEqual => regs.map2(dst, a, b, n, |x, y| u64::from(x >= y)),
        Op::SLessThan => regs.map2(dst, a, b, n, |x, y| u64::from(s(x) < s(y))),
        Op::SLessThanEqual => regs.map2(dst, a, b, n, |x, y| u64::from(s(x) <= s(y))),
        Op::SGreaterThan => regs.map2(dst, a, b, n, |x, y| u64::from(s(x) > s(y))),
        Op::SGreaterThanEqual => regs.map2(dst, a, b, n, |x, y| u64::from(s(x) >= s(y))),

        Op::FNegate => regs.map1(dst, a, n, |x| x ^ 1 << (w - 1)),
        Op::FAdd => float2!(regs, num, dst, a, b, n, |x, y| x + y),
        Op::FSub => float2!(regs, num, dst, a, b, n, |x, y| x - y),
        Op::FMul => float2!(regs, num, dst, a, b, n, |x, y| x * y),
        Op::FDiv => float2!(regs, num, dst, a, b, n, |x, y| x / y),
        Op::FRem => float2!(regs, num, dst, a, b, n, |x, y| x % y),
        Op::FMod => float2!(regs, num, dst, a, b, n, |x, y| {
            let r = x % y;
            if r != 0.0 && (r < 0.0) != (y < 0.0) { r + y } else { r }
        }),
        Op::FmaKHR => regs.map3(dst, [a, b, c], n, |x, y, z| fma(num, x, y, z)),
        Op::FOrdEqual => compare!(regs, num, dst, a, b, n, |x, y| x == y),
        Op::FUnordEqual => compare!(regs, num, dst, a, b, n, |x, y| x.partial_cmp(&y).is_none_or(|o| o.is_eq())),
        Op::FOrdNotEqual | Op::LessOrGreater => {
            compare!(regs, num, dst, a, b, n, |x, y| x.partial_cmp(&y).is_some_and(|o| o.is_ne()));
        }
        Op::FUnordNotEqual => compare!(regs, num, dst, a, b, n, |x, y| x != y),
        Op::FOrdLessThan => compare!(regs, num, dst, a, b, n, |x, y| x < y),
        Op::FUnordLessThan => compare!(regs, num, dst, a, b, n, |x, y| x.partial_cmp(&y).is_none_or(|o| o.is_lt())),
        Op::FOrdGreaterThan => compare!(regs, num, dst, a, b, n, |x, y| x > y),
        Op::FUnordGreaterThan => compare!(regs, num, dst, a, b, n, |x, y| x.partial_cmp(&y).is_none_or(|o| o.is_gt())),
        Op::FOrdLessThanEqual => compare!(regs, num, dst, a, b, n, |x, y| x <= y),
        Op::FUnordLessThanEqual => {
            compare!(regs, num, dst, a, b, n, |x, y| x.partial_cmp(&y).is_none_or(|o| o.is_le()));
        }
        Op::FOrdGreaterThanEqual => compare!(regs, num, dst, a, b, n, |x, y| x >= y),
        Op::FUnordGreaterThanEqual => {
            compare!(regs, num, dst, a, b, n, |x, y| x.partial_cmp(&y).is_none_or(|o| o.is_ge()));
        }
        Op::Ordered => compare!(regs, num, dst, a, b, n, |x, y| !x.is_nan() && !y.is_nan()),
        Op::Unordered => compare!(regs, num, dst, a, b, n, |x, y| x.is_nan() || y.is_nan()),
        Op::IsNan => regs.map1(dst, a, n, |x| u64::from(num.to_f64(x).is_nan())),
        Op::IsInf => regs.map1(dst, a, n, |x| u64::from(num.to_f64(x).is_infinite())),
        Op::IsFinite => regs.map1(dst, a, n, |x| u64::from(num.to_f64(x).is_finite())),
        Op::SignBitSet => regs.map1(dst, a, n, |x| x >> (w - 1) & 1),
        Op::QuantizeToF16 => regs.map1(dst, a, n, quantize),
        Op::RoundFToTF32INTEL => regs.map1(dst, a, n, round_tf32),

        Op::BitFieldInsert | Op::BitFieldUExtract | Op::BitFieldSExtract => bit_field(regs, op, w, dst, args, n),
        _ => return false,
    }
    true
}

/// Shifts bits of numbers of `w` bits; by `w` and more, the result is undefined.
fn shift(regs: &mut Regs, op: Op, w: u32, dst: Row, a: Row, b: Row, n: u32) {
    let width = u64::from(w);
    match op {
        Op::ShiftLeftLogical => regs.map2(dst, a, b, n, |x, y| if y < width { mask(x << y, w) } else { 0 }),
        Op::ShiftRightLogical => regs.map2(dst, a, b, n, |x, y| if y < width { x >> y } else { 0 }),
        _ => regs.map2(dst, a, b, n, |x, y| mask((signed(x, w) >> y.min(width - 1)) as u64, w)),
    }
    (0..n).for_each(|i| undefine_where(regs, dst + i, |regs, l| regs.get(b + i, l) >= width));
}

/// Replaces or extracts bits of numbers of `w` bits.
fn bit_field(regs: &mut Regs, op: Op, w: u32, dst: Row, [a, b, c, d]: [Row; 4], n: u32) {
    for i in 0..n {
        let (dst, a) = (dst + i, a + i);
        match op {
            Op::BitFieldInsert => field(regs, w, dst, [a, b + i, c, d], |base, insert, offset, count| {
                let ones = mask(u64::MAX, count as u32);
                mask(base & !(ones << offset) | (insert & ones) << offset, w)
            }),
            Op::BitFieldUExtract => {
                field(regs, w, dst, [a, a, b, c], |base, _, offset, count| mask(base >> offset, count as u32));
            }
            _ => field(regs, w, dst, [a, a, b, c], |base, _, offset, count| {
                mask(signed(mask(base >> offset, count as u32), count as u32) as u64, w)
            }),
        }
    }
}

fn quantize(x: u64) -> u64 {
    let v = f32::from_bits(x as u32);
    let q = Num::F16.to_f32(Num::F16.encode_f32(v));
    // Subnormal results may be flushed; here they are kept.
    u64::from(q.to_bits())
}

fn field(regs: &mut Regs, width: u32, dst: Row, args: [Row; 4], f: impl Fn(u64, u64, u64, u64) -> u64) {
    for k in 0..regs.act.list.len() {
        let l = regs.act.list[k] as usize;
        let [a, b, c, d] = args.map(|row| regs.get(row, l));
        regs.put(dst, l, if c >= 64 { 0 } else { f(a, b, c, d.min(64)) });
    }
    regs.flow(dst, &args);
    undefine_where(regs, dst, |regs, l| regs.get(args[2], l).saturating_add(regs.get(args[3], l)) > u64::from(width));
}

/// Makes the result of an instruction undefined in the active invocations that gave it an operand out of its range.
fn undefine_where(regs: &mut Regs, dst: Row, wrong: impl Fn(&Regs, usize) -> bool) {
    for k in 0..regs.act.list.len() {
        let l = regs.act.list[k] as usize;
        if wrong(regs, l) {
            regs.set_taint(dst, l, Taint::Undefined);
        }
    }
}

fn divide(regs: &mut Regs, op: Op, w: u32, dst: Row, a: Row, b: Row, n: u32) {
    for row in b..b + n {
        let zero =
            regs.act.list.iter().any(|l| regs.get(row, *l as usize) == 0 && !regs.is_undefined(row, *l as usize));
        regs.divided_by_zero |= zero;
    }
    regs.map2(dst, a, b, n, |x, y| divided(op, w, x, y));
}

pub(super) fn divided(op: Op, w: u32, x: u64, y: u64) -> u64 {
    if y == 0 {
        return 0;
    }
    let (sx, sy) = (signed(x, w), signed(y, w));
    let v = match op {
        Op::UDiv => x / y,
        Op::UMod => x % y,
        Op::SDiv => sx.wrapping_div(sy) as u64,
        Op::SRem => sx.wrapping_rem(sy) as u64,
        _ => {
            let r = sx.wrapping_rem(sy);
            (if r != 0 && (r < 0) != (sy < 0) { r.wrapping_add(sy) } else { r }) as u64
        }
    };
    mask(v, w)
}
