//! Executes instructions that look at all components of their operands, which are gathered for one invocation at a
//! time.

use coop_ir::Op;

use super::code::{LaneFn, Row};
use super::glsl_std_450;
use super::num::Rounding;
use super::num::{Num, Sum, mask, signed, two_sum};
use super::registers::Regs;
use super::taint::Taint;
use super::tensor;

pub(super) fn execute(regs: &mut Regs, f: &LaneFn, dst: Row, n: u32, args: &[(Row, u32)]) {
    let total: usize = args.iter().map(|a| a.1 as usize).sum();
    let mut input = vec![0u64; total];
    let mut output = vec![0u64; n as usize];
    let sizes: Vec<u32> = args.iter().map(|a| a.1).collect();
    for k in 0..regs.act.list.len() {
        let l = regs.act.list[k] as usize;
        let mut taint = Taint::Exact;
        let rows = args.iter().flat_map(|(row, n)| *row..row + n);
        for (slot, row) in input.iter_mut().zip(rows) {
            *slot = regs.get(row, l);
            taint = taint.with(regs.taint(row, l));
        }
        apply(f, &input, &sizes, &mut output);
        for (i, v) in output.iter().enumerate() {
            regs.put(dst + i as u32, l, *v);
            regs.set_taint(dst + i as u32, l, taint);
        }
    }
}

fn apply(f: &LaneFn, v: &[u64], sizes: &[u32], out: &mut [u64]) {
    match f {
        LaneFn::Dot(num) => {
            let (a, b) = v.split_at(v.len() / 2);
            out[0] = dot(*num, a.iter().copied(), b.iter().copied());
        }
        LaneFn::IntDot { a, b, to, packed, signed: s, accumulate } => {
            out[0] = int_dot(v, [*a, *b], *to, *packed, *s, *accumulate);
        }
        LaneFn::Product { num, rows, inner, cols } => {
            let (rows, inner, cols) = (*rows as usize, *inner as usize, *cols as usize);
            let (a, b) = v.split_at(rows * inner);
            for c in 0..cols {
                for r in 0..rows {
                    let left = (0..inner).map(|k| a[k * rows + r]);
                    let right = (0..inner).map(|k| b[c * inner + k]);
                    out[c * rows + r] = dot(*num, left, right);
                }
            }
        }
        LaneFn::Outer(num) => {
            let rows = sizes[0] as usize;
            for (i, o) in out.iter_mut().enumerate() {
                *o = num.encode_f64(num.to_f64(v[i % rows]) * num.to_f64(v[rows + i / rows]));
            }
        }
        LaneFn::Bits { from, to } => regroup(v, *from, *to, 0, out),
        LaneFn::BitsAt { from, to } => {
            let n = sizes[0] as usize;
            if n == out.len() {
                // Component by component: a field of each.
                for (x, o) in v[..n].iter().zip(out) {
                    regroup(&[*x], *from, *to, v[n], std::slice::from_mut(o));
                }
            } else {
                regroup(&v[..n], *from, *to, v[n], out);
            }
        }
        LaneFn::Pair { op, width } => pair(*op, *width, v, out),
        LaneFn::Any => out[0] = u64::from(v.iter().any(|x| *x != 0)),
        LaneFn::All => out[0] = u64::from(v.iter().all(|x| *x != 0)),
        LaneFn::Glsl { op, num } => glsl_std_450::whole(*op, *num, v, sizes, out),
        LaneFn::Layout { op, dim, floor } => {
            tensor::update_layout(*op, *dim as usize, v, out);
            if *floor && *op == Op::TensorLayoutSetDimensionNV {
                tensor::floor_strides(*dim as usize, out);
            }
        }
        LaneFn::View { op, dim } => tensor::update_view(*op, *dim as usize, v, out),
    }
}

/// A dot product, rounded once where f64 holds it, else exactly.
fn dot(num: Num, a: impl Iterator<Item = u64> + Clone, b: impl Iterator<Item = u64> + Clone) -> u64 {
    if num == Num::F64 {
        return a.zip(b).fold(0.0, |acc, (x, y)| acc + f64::from_bits(x) * f64::from_bits(y)).to_bits();
    }
    let (mut sum, mut exact) = (0.0, true);
    for (x, y) in a.clone().zip(b.clone()) {
        let (s, e) = two_sum(sum, num.to_f64(x) * num.to_f64(y));
        sum = s;
        exact &= e == 0.0;
    }
    if exact {
        return num.encode_f64(sum);
    }
    let mut sum = Sum::new();
    for (x, y) in a.zip(b) {
        sum.add_product(num.to_f64(x), num.to_f64(y));
    }
    sum.round(num, Rounding::NearestEven)
}

fn int_dot(v: &[u64], num: [Num; 2], to: Num, packed: bool, s: [bool; 2], accumulate: bool) -> u64 {
    let n = (v.len() - usize::from(accumulate)) / 2;
    let read = |value: u64, width: u32, s: bool| if s { i128::from(signed(value, width)) } else { i128::from(value) };
    let mut sum = 0i128;
    for i in 0..n {
        let (a, b) = (v[i], v[n + i]);
        if packed {
            for k in 0..4 {
                let part = |x: u64| x >> (8 * k) & 0xff;
                sum += read(part(a), 8, s[0]) * read(part(b), 8, s[1]);
            }
        } else {
            sum += read(a, num[0].bits(), s[0]) * read(b, num[1].bits(), s[1]);
        }
    }
    let w = to.bits();
    if !accumulate {
        return mask(sum as u64, w);
    }
    let is_signed = s[0] || s[1];
    let total = sum + read(v[2 * n], w, is_signed);
    let (low, high) = if is_signed { (-(1i128 << (w - 1)), (1i128 << (w - 1)) - 1) } else { (0, (1i128 << w) - 1) };
    mask(total.clamp(low, high) as u64, w)
}

/// Components of `from` bits as components of `to` bits, lowest first, from bit `skip` on.
fn regroup(v: &[u64], from: u32, to: u32, skip: u64, out: &mut [u64]) {
    let bit = |at: u64| {
        let (i, k) = (at / u64::from(from), at % u64::from(from));
        v.get(i as usize).map_or(0, |x| x >> k & 1)
    };
    if from == to && skip == 0 {
        for (o, x) in out.iter_mut().zip(v) {
            *o = *x;
        }
        return;
    }
    for (i, o) in out.iter_mut().enumerate() {
        let start = skip.saturating_add(i as u64 * u64::from(to));
        *o = (0..u64::from(to)).fold(0, |acc, k| acc | bit(start.saturating_add(k)) << k);
    }
}

fn pair(op: Op, w: u32, v: &[u64], out: &mut [u64]) {
    let n = v.len() / 2;
    for i in 0..n {
        let (a, b) = (v[i], v[n + i]);
        let (low, high) = match op {
            Op::IAddCarry => {
                let wide = u128::from(a) + u128::from(b);
                (wide as u64, (wide >> w) as u64)
            }
            Op::ISubBorrow => (a.wrapping_sub(b), u64::from(a < b)),
            Op::UMulExtended => {
                let wide = u128::from(a) * u128::from(b);
                (wide as u64, (wide >> w) as u64)
            }
            _ => {
                let wide = i128::from(signed(a, w)) * i128::from(signed(b, w));
                (wide as u64, (wide >> w) as u64)
            }
        };
        (out[i], out[n + i]) = (mask(low, w), mask(high, w));
    }
}
