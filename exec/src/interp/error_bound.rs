//! How far the results of another implementation may be from the interpreter's: error bounds are propagated from where
//! they arise to where values are stored.
//!
//! Sources of error:
//!
//! - A sum of n terms whose order and precision are free (multiplication of matrices, reduction, dot product, group
//!   operation): each term may be rounded n + 1 times, to the precision of the result's type, in any direction: ((1 +
//!   u)^(n + 1) - 1) times the sum of the magnitudes, with u = 2^(1 - p). Where all terms are multiples of one power of
//!   two and the sum of their magnitudes has few enough bits, every order gives the same, and the bound is 0: integers
//!   and halves are compared exactly.
//! - A product of floats may be contracted with a following addition: it is off by what rounding took away.
//! - Subnormal operands and results of float arithmetic and conversions may be flushed to zero.
//! - Division and GLSL.std.450: the precision that Vulkan demands.
//! - A conversion to bf16 may truncate, and so may the use of a factor as tf32, which may as well keep all bits.
//! - A reduction, or a group operation, that adds or multiplies: the order is free, and the interpreter's rounds as others
//!   do, so the bound counts twice.
//!
//! Propagation: an instruction is computed again at the ends of its operands' intervals, and the farthest result
//! counts, which is exact for functions that are monotone in each operand. Sums of products take the first order of
//! every operand and the product of both. Where nothing is required, as for a division by a subnormal or a sum that may
//! overflow on its way, any value is right. Where no rule is known (packed bits, say), no bound is claimed. A branch or
//! an address that depends on an inexact value makes all bounds worthless, and the run says so.

use coop_ir::grammar::GroupOp;
use coop_ir::spv::GlslStd450 as Glsl;
use coop_ir::{InstRef, Op};

use super::code::{Conv, Ins, LaneFn, Row};
use super::eval;
use super::glsl_std_450;
use super::num::{Num, Rounding, mask, parts, signed};
use super::registers::Regs;
use super::symbolic;
use super::taint::Taint;

/// The number of lanes of the registers that instructions are computed in again: three values for each of three
/// operands.
const PROBES: usize = 27;
/// The row of the result there.
const RESULT: Row = 4;

/// Returns registers to compute instructions in again.
pub(super) fn probe() -> Box<Regs> {
    Box::new(Regs::new(PROBES, RESULT as usize + 1))
}

/// The error bound of a stored number.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ErrorBound {
    /// The offset in bytes.
    pub offset: usize,
    /// Its size in bytes.
    pub bytes: u8,
    /// The bound. Infinite: any value is right. NaN: none is known.
    pub bound: f64,
}

/// The error bounds of the results of a run.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ErrorBounds {
    /// The inexact numbers of each buffer, in order of offset. All others are the same everywhere.
    pub buffers: Vec<Vec<ErrorBound>>,
    /// A decision of the run that depends on rounding, which makes the bounds worthless.
    pub depends: Option<(InstRef, String)>,
}

/// Executes an instruction on registers alone, with the error bounds or the
/// terms of its result where those are tracked. Returns false
/// for all other instructions.
pub(super) fn execute(regs: &mut Regs, ins: &Ins) -> bool {
    let done = eval::execute(regs, ins);
    if done && regs.probe.is_some() {
        refine(regs, ins);
    } else if done && regs.symbols.is_some() {
        symbolic::refine(regs, ins);
    }
    done
}

/// Corrects the error bounds of a result after its instruction was executed.
fn refine(regs: &mut Regs, ins: &Ins) {
    let Some(mut probe) = regs.probe.take() else { return };
    match ins {
        Ins::Each { op, num, dst, args, n } => {
            let Some((arity, to)) = shape(*op, *num) else {
                regs.probe = Some(probe);
                return;
            };
            let again = Ins::Each { op: *op, num: *num, dst: RESULT, args: [0, 1, 2, 3], n: 1 };
            let own = own_of(*op, *num);
            for i in 0..*n {
                let from: Vec<(Row, Num)> = args[..arity].iter().map(|row| (row + i, *num)).collect();
                component(regs, &mut probe, &again, &from, (dst + i, to), own.as_deref());
            }
        }
        Ins::Ext { op, num, dst, args, n } => {
            let arity = glsl_std_450::arity(*op);
            let again = Ins::Ext { op: *op, num: *num, dst: RESULT, args: [0, 1, 2], n: 1 };
            let own: Option<Own> = if num.is_float() { Some(Box::new(ext_own(*op, *num))) } else { None };
            for i in 0..*n {
                let kind =
                    |k: usize| if *op == Glsl::Ldexp && k == 1 { Num::Int { width: 32, signed: true } } else { *num };
                let from: Vec<(Row, Num)> =
                    args[..arity].iter().enumerate().map(|(k, row)| (row + i, kind(k))).collect();
                component(regs, &mut probe, &again, &from, (dst + i, *num), own.as_deref());
            }
        }
        Ins::Convert { conv, dst, a, n } => {
            let again = Ins::Convert { conv: *conv, dst: RESULT, a: 0, n: 1 };
            let conv = *conv;
            let own: Option<Own> = (conv.from.is_float() && conv.to.is_float())
                .then(|| Box::new(move |v: &[u64], r| converted(&conv, v[0], r)) as Own);
            let own = own.as_deref();
            for i in 0..*n {
                component(regs, &mut probe, &again, &[(a + i, conv.from)], (dst + i, conv.to), own);
            }
        }
        Ins::Select { cond, wide, dst, a, b, n, num } => {
            for i in 0..*n {
                let cond = if *wide { cond + i } else { *cond };
                if regs.any_taint(cond..cond + 1) {
                    chosen(regs, cond, [a + i, b + i], dst + i, *num);
                }
            }
        }
        Ins::Lane { f: LaneFn::Dot(num), dst, args, .. } if num.is_float() => {
            if let [(a, n), (b, _)] = **args {
                let (a, b): (Vec<Row>, Vec<Row>) = ((a..a + n).collect(), (b..b + n).collect());
                dot(regs, *num, &a, &b, *dst);
            }
        }
        Ins::Lane { f: LaneFn::Product { num, rows, inner, cols }, dst, args, .. } if num.is_float() => {
            if let [(a, _), (b, _)] = **args {
                for (c, r) in (0..*cols).flat_map(|c| (0..*rows).map(move |r| (c, r))) {
                    let left: Vec<Row> = (0..*inner).map(|k| a + k * rows + r).collect();
                    let right: Vec<Row> = (0..*inner).map(|k| b + c * inner + k).collect();
                    dot(regs, *num, &left, &right, dst + c * rows + r);
                }
            }
        }
        _ => {}
    }
    regs.probe = Some(probe);
}

/// A function from operands and result to the error that the instruction itself adds.
type Own = Box<OwnFn>;
type OwnFn = dyn Fn(&[u64], u64) -> f64;

/// Returns the number of operands of a component-wise instruction, and the type of its result.
fn shape(op: Op, num: Num) -> Option<(usize, Num)> {
    if op.is_bit_field() {
        return None;
    }
    let truth = op.is_comparison();
    Some((op.required_operands(), if truth { Num::Bool } else { num }))
}

/// Corrects the error bounds of one row.
fn component(
    regs: &mut Regs,
    probe: &mut Regs,
    again: &Ins,
    from: &[(Row, Num)],
    (dst, to): (Row, Num),
    own: Option<&OwnFn>,
) {
    let dirty = from.iter().any(|(row, _)| regs.any_taint(*row..row + 1));
    if !dirty && own.is_none() {
        return;
    }
    for k in 0..regs.act.list.len() {
        let l = regs.act.list[k] as usize;
        let taints: Vec<Taint> = from.iter().map(|(row, _)| regs.taint(*row, l)).collect();
        if taints.iter().any(|taint| taint.is_undefined()) {
            continue;
        }
        let values: Vec<u64> = from.iter().map(|(row, _)| regs.get(*row, l)).collect();
        let result = regs.get(dst, l);
        let mut by = own.map_or(0.0, |own| own(&values, result));
        if taints.iter().any(|taint| taint.is_inexact()) {
            by += farthest(probe, again, from, &values, &taints, result, to);
        }
        regs.set_taint(dst, l, Taint::inexact(by, to.is_float()));
    }
}

/// Returns the largest difference from `result` that an instruction gives at the ends of its operands' intervals.
fn farthest(
    probe: &mut Regs,
    again: &Ins,
    from: &[(Row, Num)],
    values: &[u64],
    taints: &[Taint],
    result: u64,
    to: Num,
) -> f64 {
    let mut ends: Vec<Vec<u64>> = Vec::with_capacity(values.len());
    for (((_, num), v), taint) in from.iter().zip(values).zip(taints) {
        let by = taint.bound(num.is_float());
        if !by.is_finite() {
            return by;
        }
        ends.push(if by == 0.0 { vec![*v] } else { around(*num, *v, by) });
    }
    let count: usize = ends.iter().map(Vec::len).product();
    probe.act.list.clear();
    probe.act.list.extend(0..count as u32);
    probe.act.full = count == PROBES;
    for place in 0..count {
        let mut rest = place;
        for (row, list) in ends.iter().enumerate() {
            probe.put(row as Row, place, list[rest % list.len()]);
            rest /= list.len();
        }
    }
    if !eval::execute(probe, again) {
        return f64::NAN;
    }
    (probe.divided_by_zero, probe.unfit) = (false, None);
    (0..count).map(|place| apart(to, probe.get(RESULT, place), result)).fold(0.0, f64::max)
}

/// Returns a value and the ends of its interval.
fn around(num: Num, v: u64, by: f64) -> Vec<u64> {
    if num.is_float() {
        let x = num.to_f64(v);
        if !x.is_finite() {
            return vec![v];
        }
        return vec![v, num.round(x - by, Rounding::Down), num.round(x + by, Rounding::Up)];
    }
    let by = by.ceil() as u64;
    vec![v, mask(v.wrapping_sub(by), num.bits()), mask(v.wrapping_add(by), num.bits())]
}

/// Returns the larger of two bounds; NaN if either is.
pub(super) fn larger(a: f64, b: f64) -> f64 {
    if a.is_nan() || a > b { a } else { b }
}

/// Returns the distance between two values of a type.
fn apart(num: Num, a: u64, b: u64) -> f64 {
    if a == b {
        return 0.0;
    }
    if num == Num::Bool {
        return f64::INFINITY;
    }
    if num.is_float() {
        let (x, y) = (num.to_f64(a), num.to_f64(b));
        return match (x.is_nan(), y.is_nan()) {
            (true, true) => 0.0,
            _ if x == y => 0.0,
            _ if x.is_finite() && y.is_finite() => (x - y).abs(),
            _ => f64::INFINITY,
        };
    }
    let w = num.bits();
    (signed(a, w).abs_diff(signed(b, w)) as f64).min(a.abs_diff(b) as f64)
}

/// Corrects the result of a select whose condition is inexact: it may be either value.
fn chosen(regs: &mut Regs, cond: Row, either: [Row; 2], dst: Row, num: Option<Num>) {
    for k in 0..regs.act.list.len() {
        let l = regs.act.list[k] as usize;
        if !regs.taint(cond, l).is_inexact() {
            continue;
        }
        let [a, b] = either.map(|row| (regs.get(row, l), regs.taint(row, l)));
        if a.1.is_undefined() || b.1.is_undefined() {
            continue;
        }
        let taint = match num {
            _ if a == b => a.1,
            Some(num) => {
                let by = apart(num, a.0, b.0) + larger(a.1.bound(num.is_float()), b.1.bound(num.is_float()));
                Taint::inexact(by, num.is_float())
            }
            None => Taint::UNKNOWN,
        };
        regs.set_taint(dst, l, taint);
    }
}

fn dot(regs: &mut Regs, num: Num, a: &[Row], b: &[Row], dst: Row) {
    for k in 0..regs.act.list.len() {
        let l = regs.act.list[k] as usize;
        if regs.is_undefined(dst, l) {
            continue;
        }
        let read = |rows: &[Row]| -> Vec<(f64, f64)> {
            rows.iter().map(|row| (num.to_f64(regs.get(*row, l)), regs.taint(*row, l).bound(true))).collect()
        };
        let by = of_products(&read(a), &read(b), (0.0, 0.0), num);
        regs.set_taint(dst, l, Taint::inexact(by, true));
    }
}

/// Returns the error bound of a sum of products of numbers with bounds, and of `c`, that is rounded to `to`.
pub(super) fn of_products(a: &[(f64, f64)], b: &[(f64, f64)], c: (f64, f64), to: Num) -> f64 {
    let mut carried = c.1;
    for ((x, ex), (y, ey)) in a.iter().zip(b) {
        if *ex == f64::INFINITY || *ey == f64::INFINITY {
            // Any value times 0 may be any value, too.
            carried += ex + ey;
        } else if *ex != 0.0 || *ey != 0.0 {
            carried += x.abs() * ey + y.abs() * ex + ex * ey;
        }
    }
    let terms = a.iter().zip(b).map(|(x, y)| x.0 * y.0).chain([c.0]);
    // Terms that are not sure have bits that these do not show.
    let own = of_terms(terms.clone(), to, carried == 0.0);
    if carried == 0.0 && own == 0.0 {
        return 0.0;
    }
    // The result itself is rounded once more, and what operands may be more is rounded as well.
    let size: f64 = terms.clone().map(f64::abs).sum();
    own + carried * (1.0 + growth(terms.count(), to)) + unit(to) * (size + carried + own) + quantum(to)
}

/// Returns the error bound of a sum whose order and precision are free, but for the type of its result.
pub(super) fn of_sum(terms: impl Iterator<Item = f64> + Clone, to: Num) -> f64 {
    of_terms(terms, to, true)
}

/// Like [`of_sum`]; `sure` is true if the terms are exact.
pub(super) fn of_terms(terms: impl Iterator<Item = f64> + Clone, to: Num, sure: bool) -> f64 {
    let (mut size, mut count, mut lowest, mut special) = (0.0, 0usize, i32::MAX, false);
    for t in terms.clone().filter(|t| *t != 0.0) {
        count += 1;
        special |= !t.is_finite();
        size += t.abs();
        if t.is_finite() {
            let (mant, exp) = parts(t);
            lowest = lowest.min(exp + mant.trailing_zeros() as i32);
        }
    }
    if count == 0 || special {
        // Infinities and NaNs come out of every order.
        return 0.0;
    }
    let largest = to.to_f64(to.largest(false));
    let precision = to.precision() as i32;
    let least = least_exponent(to) - (precision - 1);
    if sure && to != Num::F64 && lowest >= least && size <= 2f64.powi(precision + lowest) && size <= largest {
        return 0.0;
    }
    let grown = 1.0 + growth(count, to);
    if size * grown > largest {
        // Where the sum passes the largest value depends on the order, unless all terms are of one sign and far too large.
        let one_sign = terms.clone().all(|t| t >= 0.0) || terms.clone().all(|t| t <= 0.0);
        return if one_sign && size > largest * grown { 0.0 } else { f64::INFINITY };
    }
    let flushed = if size < 4.0 * normal(to) { count as f64 * normal(to) } else { 0.0 };
    growth(count, to) * size + quantum(to) + flushed
}

/// Returns how far another order of a sum of numbers with bounds may be from the interpreter's, which rounds after each addition
/// too: both are as far from the sum as [`of_terms`] says.
pub(super) fn of_free_sum(terms: impl Iterator<Item = (f64, f64)> + Clone, to: Num) -> f64 {
    if terms.clone().count() < 2 {
        return terms.map(|t| t.1).sum();
    }
    let carried: f64 = terms.clone().map(|t| t.1).sum();
    if !carried.is_finite() {
        return carried;
    }
    let own = of_terms(terms.map(|t| t.0 + t.1.copysign(t.0)), to, carried == 0.0);
    if carried + own == 0.0 { 0.0 } else { carried + 2.0 * own + quantum(to) }
}

/// Returns how far another order of a product of numbers with bounds may be from the interpreter's. Products of powers of two are
/// exact.
pub(super) fn of_free_product(factors: impl Iterator<Item = (f64, f64)> + Clone, to: Num) -> f64 {
    let (count, product) = (factors.clone().count(), factors.clone().map(|f| f.0.abs()).product::<f64>());
    let power = |f: (f64, f64)| f.1 == 0.0 && (f.0 == 0.0 || f.0.abs().log2().fract() == 0.0);
    if count < 2 {
        return factors.map(|f| f.1).sum();
    }
    // The order decides on the way whether a part is too large, or too small.
    let most: f64 = factors.clone().map(|f| (f.0.abs() + f.1).max(1.0)).product();
    let least: f64 = factors.clone().map(|f| (f.0.abs() - f.1).clamp(0.0, 1.0)).product();
    if most > to.to_f64(to.largest(false)) || least != 0.0 && least < normal(to) {
        return f64::INFINITY;
    }
    if factors.clone().all(power) {
        return 0.0;
    }
    // The product of the largest factors, less that of the values, is what the bounds of the factors change.
    let largest: f64 = factors.map(|f| f.0.abs() + f.1).product();
    (largest - product) + 2.0 * growth(count, to) * largest + quantum(to)
}

/// Returns the relative error bound of a sum of `count` terms: each term is rounded at most once as a product and once
/// in every addition, by less than a unit.
fn growth(count: usize, to: Num) -> f64 {
    (1.0 + unit(to)).powf(count as f64 + 1.0) - 1.0
}

/// Returns how far a factor that is used as tf32 may be from the nearest number there: the specification does not say how the
/// bits that tf32 lacks are dropped, nor that they are.
pub(super) fn of_tf32(bits: u64, by: f64) -> f64 {
    let value = Num::F32.to_f64(bits);
    if by == 0.0 && bits & 0x1fff == 0 || !value.is_finite() {
        return by;
    }
    by + ulp(Num::F32, bits) * 8192.0
}

/// Returns a unit in the last place of 1.
fn unit(num: Num) -> f64 {
    2f64.powi(1 - num.precision() as i32)
}

/// Returns the exponent of the smallest normal value.
fn least_exponent(num: Num) -> i32 {
    match num {
        Num::F16 | Num::E5M2 => -14,
        Num::E4M3 => -6,
        Num::F64 => -1022,
        _ => -126,
    }
}

/// Returns the smallest normal value.
fn normal(num: Num) -> f64 {
    2f64.powi(least_exponent(num))
}

/// Returns the smallest subnormal value.
pub(super) fn quantum(num: Num) -> f64 {
    if num == Num::F64 { f64::from_bits(1) } else { 2f64.powi(least_exponent(num) + 1 - num.precision() as i32) }
}

/// Returns a unit in the last place of a value.
fn ulp(num: Num, bits: u64) -> f64 {
    let magnitude = mask(bits, num.bits() - 1);
    let (here, next) = (num.to_f64(magnitude), num.to_f64(magnitude + 1));
    if next.is_finite() {
        next - here
    } else if here.is_finite() && magnitude > 0 {
        here - num.to_f64(magnitude - 1)
    } else {
        0.0
    }
}

/// Returns the error of flushing subnormal operands and results to zero.
fn flushed(num: Num, values: &[u64], result: u64) -> f64 {
    let small = |bits: u64| {
        let x = num.to_f64(bits).abs();
        if x < normal(num) { x } else { 0.0 }
    };
    values.iter().map(|v| small(*v)).sum::<f64>() + small(result)
}

/// Returns the error that float arithmetic itself adds, if any.
fn own_of(op: Op, num: Num) -> Option<Own> {
    match op {
        Op::FAdd | Op::FSub | Op::FNegate => Some(Box::new(move |v, r| flushed(num, v, r))),
        Op::FMul => Some(Box::new(move |v, r| multiplied(num, v, r))),
        Op::FDiv => Some(Box::new(move |v, r| divided(num, v, r))),
        Op::FmaKHR => Some(Box::new(move |v, r| fused(num, v, r))),
        _ => None,
    }
}

fn multiplied(num: Num, v: &[u64], r: u64) -> f64 {
    let (x, y, z) = (num.to_f64(v[0]), num.to_f64(v[1]), num.to_f64(r));
    if x == 0.0 || y == 0.0 {
        return 0.0;
    }
    let rounding = x.mul_add(y, -z).abs();
    let subnormal = |x: f64| x != 0.0 && x.abs() < normal(num);
    if subnormal(x) && y.is_infinite() || subnormal(y) && x.is_infinite() {
        // 0 times infinity.
        return f64::INFINITY;
    }
    if !z.is_finite() {
        return 0.0;
    }
    let tiny = [x, y, z].into_iter().any(subnormal);
    rounding + if tiny { z.abs() + rounding } else { 0.0 }
}

fn converted(conv: &Conv, v: u64, r: u64) -> f64 {
    let (x, y) = (conv.from.to_f64(v), conv.to.to_f64(r));
    let tiny = |x: f64, num: Num| if x.abs() < normal(num) { x.abs() } else { 0.0 };
    let truncated = match conv.to {
        Num::Bf16 if conv.mode.is_none() && x != y && !x.is_nan() => {
            if y.is_infinite() {
                f64::INFINITY
            } else {
                ulp(conv.to, r)
            }
        }
        _ => 0.0,
    };
    truncated + tiny(x, conv.from).max(tiny(y, conv.to))
}

fn divided(num: Num, v: &[u64], r: u64) -> f64 {
    let (x, y, z) = (num.to_f64(v[0]), num.to_f64(v[1]), num.to_f64(r));
    if x.is_nan() || y.is_nan() {
        return 0.0;
    }
    let range = match num {
        Num::F16 => 14,
        Num::F32 => 126,
        _ => 1022,
    };
    if !(2f64.powi(-range)..=2f64.powi(range)).contains(&y.abs())
        || x.is_infinite()
        || x.abs() < normal(num) && x != 0.0
    {
        // Precision is demanded for divisors of ordinary size only.
        return f64::INFINITY;
    }
    if z.is_infinite() { f64::INFINITY } else { 2.5 * ulp(num, r) + flushed(num, &[], r) }
}

fn fused(num: Num, v: &[u64], r: u64) -> f64 {
    let [x, y] = [num.to_f64(v[0]), num.to_f64(v[1])];
    let product = num.to_f64(num.encode_f64(x * y));
    let rounding = x.mul_add(y, -product).abs();
    if rounding.is_finite() {
        rounding + ulp(num, r) * f64::from(u8::from(rounding != 0.0)) + flushed(num, &v[2..], r)
    } else {
        0.0
    }
}

/// Returns the error that an instruction of GLSL.std.450 on floats itself adds, by the precision that Vulkan requires.
fn ext_own(op: Glsl, num: Num) -> impl Fn(&[u64], u64) -> f64 {
    move |v: &[u64], r: u64| {
        let x = num.to_f64(v[0]);
        let result = num.to_f64(r);
        if !result.is_finite() {
            return 0.0;
        }
        let half = num == Num::F16;
        let unit = ulp(num, r);
        // In units in the last place.
        let exp_units = |x: f64| if half { 1.0 + 2.0 * x.abs() } else { 3.0 + 2.0 * x.abs() };
        let log_error = |x: f64, r: f64| {
            if (0.5..=2.0).contains(&x) {
                2f64.powi(if half { -7 } else { -21 })
            } else {
                3.0 * ulp(num, num.encode_f64(r))
            }
        };
        let grows = |x: f64| {
            let e = x.abs().exp();
            exp_units(x) * ulp(num, num.encode_f64(e))
        };
        let tiny = flushed(num, &v[..1], r);
        match op {
            Glsl::Sin | Glsl::Cos => 2f64.powi(if half { -7 } else { -11 }),
            Glsl::Tan => 2f64.powi(if half { -7 } else { -11 }) * (1.0 + result * result) * 2.0,
            Glsl::Asin | Glsl::Acos => 2f64.powi(if half { -7 } else { -11 }) * 2.0,
            Glsl::Atan | Glsl::Atan2 => {
                if half {
                    5.0 * unit
                } else {
                    4096.0 * unit
                }
            }
            Glsl::Sinh | Glsl::Cosh => grows(x) + unit,
            Glsl::Tanh => (grows(x) * (1.0 + result.abs())) / x.cosh() + 2.5 * unit,
            Glsl::Asinh | Glsl::Acosh | Glsl::Atanh => log_error(1.0, result) + log_error(4.0, result) + 4.0 * unit,
            Glsl::Pow => {
                let y = num.to_f64(v[1]);
                let log = x.log2();
                let exponent = y.abs() * log_error(x, log);
                result.abs() * exponent * std::f64::consts::LN_2 + exp_units(y * log) * unit
            }
            Glsl::Exp | Glsl::Exp2 => exp_units(x) * unit + tiny,
            Glsl::Log | Glsl::Log2 => log_error(x, result) + unit,
            // 1 / inversesqrt(x).
            Glsl::Sqrt => {
                if result == 0.0 {
                    tiny
                } else {
                    (2.0 + 2.5) * unit
                }
            }
            Glsl::InverseSqrt => 2.0 * unit,
            Glsl::Radians | Glsl::Degrees => unit,
            Glsl::FMix | Glsl::SmoothStep => v.iter().map(|v| ulp(num, *v)).fold(0.0, f64::max) * 3.0 + 3.0 * unit,
            Glsl::Fma => fused(num, v, r),
            _ => flushed(num, v, r),
        }
    }
}

/// Returns the taint of the value that an atomic instruction writes.
pub(super) fn of_atomic(op: Op, num: Num, old: (u64, Taint), given: (u64, Taint)) -> Taint {
    let float = num.is_float();
    let near = old.1.is_inexact() || given.1.is_inexact();
    match op {
        Op::AtomicStore | Op::AtomicExchange => given.1,
        Op::AtomicLoad => old.1,
        Op::AtomicFAddEXT => {
            // Other invocations may come first.
            let own = of_terms([num.to_f64(old.0), num.to_f64(given.0)].into_iter(), num, !near);
            Taint::inexact(old.1.bound(true) + given.1.bound(true) + own, true)
        }
        _ if !near => Taint::Exact,
        Op::AtomicFMinEXT | Op::AtomicFMaxEXT | Op::AtomicSMin | Op::AtomicSMax | Op::AtomicUMin | Op::AtomicUMax => {
            Taint::inexact(larger(old.1.bound(float), given.1.bound(float)), float)
        }
        Op::AtomicIAdd | Op::AtomicISub => Taint::inexact(old.1.bound(false) + given.1.bound(false), false),
        _ => Taint::UNKNOWN,
    }
}

/// Returns the taint of the result of a group operation on some values; `all` is the fallback.
pub(super) fn of_group(what: GroupOp, num: Num, values: &[(u64, Taint)], all: Taint) -> Taint {
    let by = || values.iter().map(|v| v.1.bound(num.is_float()));
    let numbers = || values.iter().map(|v| (num.to_f64(v.0), v.1.bound(true)));
    match what {
        GroupOp::FAdd => Taint::inexact(of_free_sum(numbers(), num), true),
        GroupOp::FMul => Taint::inexact(of_free_product(numbers(), num), true),
        GroupOp::FMin | GroupOp::FMax | GroupOp::SMin | GroupOp::SMax | GroupOp::UMin | GroupOp::UMax
            if all.is_inexact() =>
        {
            Taint::inexact(by().fold(0.0, larger), num.is_float())
        }
        _ => all,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    /// Combines numbers of a format in a random tree, or neighbors first.
    fn combined(random: Option<&mut Random>, num: Num, list: &[f64], f: fn(f64, f64) -> f64) -> f64 {
        let (mut list, mut random) = (list.to_vec(), random);
        while list.len() > 1 {
            let draw = |random: &mut Option<&mut Random>, n: usize| {
                random.as_mut().map_or(0, |random| random.integer(0, n as i64 - 1) as usize)
            };
            let a = list.remove(draw(&mut random, list.len()));
            let at = draw(&mut random, list.len());
            list[at] = num.to_f64(num.encode_f64(f(a, list[at])));
        }
        list[0]
    }

    /// Any order is within the bound of the interpreter's, and what lacks an operand is not.
    #[test]
    fn orders_are_within_their_bounds() {
        let mut random = Random::new(41);
        let mut apart = [0u32; 2];
        for round in 0..400 {
            let num = [Num::F16, Num::Bf16, Num::F32][round % 3];
            let count = 2 + round % 30;
            for (kind, f) in [(|a, b| a + b) as fn(f64, f64) -> f64, |a, b| a * b].into_iter().enumerate() {
                let (low, high) = if kind == 0 { (-4.0, 4.0) } else { (0.7, 1.4) };
                let mut draw = || num.to_f64(num.encode_f64(low + random.unit() * (high - low)));
                let list: Vec<f64> = (0..count).map(|_| draw()).collect();
                let terms = || list.iter().map(|x| (*x, 0.0));
                let by = if kind == 0 { of_free_sum(terms(), num) } else { of_free_product(terms(), num) };
                let ours = combined(None, num, &list, f);
                for _ in 0..8 {
                    let other = combined(Some(&mut random), num, &list, f);
                    assert!((ours - other).abs() <= by, "{num:?} {list:?}: {ours} {other} {by:e}");
                    apart[kind] += u32::from(ours != other);
                }
                let without = combined(None, num, &list[1..], f);
                let effect = if kind == 0 { list[0].abs() } else { (list[0] - 1.0).abs() * without };
                assert!(effect <= 3.0 * by || (ours - without).abs() > by, "{num:?} {list:?}: {by:e}");
            }
        }
        assert!(apart.iter().all(|n| *n > 1000), "{apart:?}: another order rounds in another way");
    }

    /// A factor is used as tf32 in whatever direction it is rounded, or as it is.
    #[test]
    fn factors_as_tf32_are_within_their_bounds() {
        let mut random = Random::new(42);
        for _ in 0..2000 {
            let bits = random.bits() & 0x7fff_ffff;
            let value = f32::from_bits(bits as u32);
            if !value.is_normal() {
                continue;
            }
            let ours = Num::F32.to_f64(super::super::num::round_tf32(bits));
            let by = of_tf32(bits, 0.0);
            let down = f64::from(f32::from_bits(bits as u32 & !0x1fff));
            let up = f64::from(f32::from_bits((bits as u32 | 0x1fff) + 1));
            let exact = bits & 0x1fff == 0;
            assert_eq!(by == 0.0, exact, "{value:e}");
            for other in [down, f64::from(value)].into_iter().chain((!exact).then_some(up)) {
                assert!(!ours.is_finite() || !other.is_finite() || (ours - other).abs() <= by, "{value:e} {other:e}");
            }
        }
    }
}
