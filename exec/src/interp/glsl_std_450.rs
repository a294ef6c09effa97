//! GLSL.std.450. Transcendental functions are computed in f64 and rounded once to the type.

use super::code::Row;
use super::num::{Num, fma, mask, signed};
use super::registers::Regs;

/// IEEE 754's remainder, and the last bits of the quotient, which GLSL.std.450 lacks and OpenCL.std has.
pub(super) const REMAINDER: u32 = 0x1_0000;
pub(super) const QUOTIENT: u32 = 0x1_0001;

/// Instructions that work component by component.
pub(super) fn each(regs: &mut Regs, op: u32, num: Num, dst: Row, args: [Row; 3], n: u32) -> bool {
    let [a, b, _] = args;
    let w = num.bits();
    if let Some(f) = float1(op) {
        regs.map1(dst, a, n, |x| num.encode_f64(f(num.to_f64(x))));
        return true;
    }
    let float2 = |f: fn(f64, f64) -> f64| move |x, y| num.encode_f64(f(num.to_f64(x), num.to_f64(y)));
    match op {
        4 => regs.map1(dst, a, n, |x| x & !(1 << (w - 1))),
        5 => regs.map1(dst, a, n, |x| mask(signed(x, w).wrapping_abs() as u64, w)),
        7 => regs.map1(dst, a, n, |x| mask(signed(x, w).signum() as u64, w)),
        25 => regs.map2(dst, a, b, n, float2(f64::atan2)),
        26 => regs.map2(dst, a, b, n, float2(f64::powf)),
        37 | 79 => regs.map2(dst, a, b, n, |x, y| choose(num, x, y, op == 79, false)),
        40 | 80 => regs.map2(dst, a, b, n, |x, y| choose(num, x, y, op == 80, true)),
        38 => regs.map2(dst, a, b, n, u64::min),
        41 => regs.map2(dst, a, b, n, u64::max),
        39 => regs.map2(dst, a, b, n, |x, y| if signed(y, w) < signed(x, w) { y } else { x }),
        42 => regs.map2(dst, a, b, n, |x, y| if signed(y, w) > signed(x, w) { y } else { x }),
        43 | 81 => regs
            .map3(dst, args, n, |x, low, high| choose(num, choose(num, x, low, op == 81, true), high, op == 81, false)),
        44 => regs.map3(dst, args, n, |x, low, high| x.max(low).min(high)),
        45 => regs
            .map3(dst, args, n, |x, low, high| mask(signed(x, w).max(signed(low, w)).min(signed(high, w)) as u64, w)),
        46 => regs.map3(dst, args, n, |x, y, t| {
            let (p, q) = (num.to_f64(x), num.to_f64(y));
            let t = num.to_f64(t);
            // x * (1 - t) + y * t, each step rounded.
            let r = |v: f64| num.to_f64(num.encode_f64(v));
            num.encode_f64(r(p * r(1.0 - t)) + r(q * t))
        }),
        48 => regs.map2(dst, a, b, n, float2(|edge, x| if x < edge { 0.0 } else { 1.0 })),
        49 => regs.map3(dst, args, n, |low, high, x| {
            let (low, high, x) = (num.to_f64(low), num.to_f64(high), num.to_f64(x));
            let t = ((x - low) / (high - low)).clamp(0.0, 1.0);
            num.encode_f64(t * t * (3.0 - 2.0 * t))
        }),
        50 => regs.map3(dst, args, n, |x, y, z| fma(num, x, y, z)),
        53 => regs.map2(dst, a, b, n, |x, e| {
            let e = signed(e, 32).clamp(-5000, 5000);
            let (h, rest) = (e / 4, e - 3 * (e / 4));
            let step = |k: i64| 2f64.powi(k as i32);
            num.encode_f64(num.to_f64(x) * step(h) * step(h) * step(h) * step(rest))
        }),
        REMAINDER => regs.map2(dst, a, b, n, float2(|x, y| remainder(x, y).0)),
        QUOTIENT => regs.map2(dst, a, b, n, |x, y| remainder(num.to_f64(x), num.to_f64(y)).1),
        73 => regs.map1(dst, a, n, |x| if x == 0 { 0xffff_ffff } else { u64::from(x.trailing_zeros()) }),
        74 => regs.map1(dst, a, n, |x| {
            let v = signed(x, w);
            let v = (if v < 0 { !v } else { v }) as u64;
            if v == 0 { 0xffff_ffff } else { 63 - u64::from(v.leading_zeros()) }
        }),
        75 => regs.map1(dst, a, n, |x| if x == 0 { 0xffff_ffff } else { 63 - u64::from(x.leading_zeros()) }),
        _ => return false,
    }
    true
}

/// The instruction that does the same as one of OpenCL.std, where there is one.
pub(super) fn of_opencl(op: u32) -> Option<u32> {
    Some(match op {
        0 => 17,
        1 => 22,
        3 => 16,
        4 => 23,
        6 => 18,
        7 => 25,
        8 => 24,
        12 => 9,
        14 | 67 | 81 => 14,
        15 => 20,
        19 | 69 | 83 => 27,
        20 | 70 | 84 => 29,
        23 => 4,
        25 => 8,
        26 | 42 => 50,
        27 => 80,
        28 => 79,
        37 | 72 | 86 => 28,
        38 | 73 | 87 => 30,
        48 | 50 | 75 | 89 => 26,
        53 => 2,
        56 | 77 | 91 => 32,
        57 | 78 | 92 => 13,
        59 => 19,
        61 | 79 | 93 => 31,
        62 | 80 | 94 => 15,
        63 => 21,
        66 => 3,
        95 => 81,
        96 => 12,
        97 => 40,
        98 => 37,
        100 => 11,
        101 => 48,
        102 => 49,
        103 => 6,
        141 => 5,
        149 => 45,
        150 => 44,
        156 => 42,
        157 => 41,
        158 => 39,
        159 => 38,
        _ => return None,
    })
}

fn float1(op: u32) -> Option<fn(f64) -> f64> {
    Some(match op {
        1 => f64::round_ties_even,
        2 => f64::round_ties_even,
        3 => f64::trunc,
        6 => |x| {
            if x > 0.0 {
                1.0
            } else if x < 0.0 {
                -1.0
            } else {
                x
            }
        },
        8 => f64::floor,
        9 => f64::ceil,
        10 => |x| x - x.floor(),
        11 => f64::to_radians,
        12 => f64::to_degrees,
        13 => f64::sin,
        14 => f64::cos,
        15 => f64::tan,
        16 => f64::asin,
        17 => f64::acos,
        18 => f64::atan,
        19 => f64::sinh,
        20 => f64::cosh,
        21 => f64::tanh,
        22 => f64::asinh,
        23 => f64::acosh,
        24 => f64::atanh,
        27 => f64::exp,
        28 => f64::ln,
        29 => f64::exp2,
        30 => f64::log2,
        31 => f64::sqrt,
        32 => |x| 1.0 / x.sqrt(),
        _ => return None,
    })
}

/// Minimum or maximum. `number`: a NaN loses; else the first operand stays if either is a NaN.
fn choose(num: Num, x: u64, y: u64, number: bool, max: bool) -> u64 {
    let (p, q) = (num.to_f64(x), num.to_f64(y));
    if number && p.is_nan() {
        return y;
    }
    if if max { p < q } else { q < p } { y } else { x }
}

/// Instructions that look at several components. `sizes` are the numbers of components of the operands, which follow
/// each other in `v`.
pub(super) fn whole(op: u32, num: Num, v: &[u64], sizes: &[u32], out: &mut [u64]) {
    let first = sizes.first().copied().unwrap_or(0) as usize;
    let (a, rest) = v.split_at(first.min(v.len()));
    let f = |b: u64| num.to_f64(b);
    let r = |x: f64| num.encode_f64(x);
    let dot = |a: &[u64], b: &[u64]| a.iter().zip(b).map(|(x, y)| f(*x) * f(*y)).sum::<f64>();
    match op {
        33 => out[0] = r(determinant(&a.iter().map(|b| f(*b)).collect::<Vec<_>>())),
        34 => {
            for (o, x) in out.iter_mut().zip(inverse(&a.iter().map(|b| f(*b)).collect::<Vec<_>>())) {
                *o = r(x);
            }
        }
        // ModfStruct, FrexpStruct.
        36 => {
            for i in 0..first {
                let x = f(a[i]);
                out[i] = r(if x.is_infinite() { 0.0_f64.copysign(x) } else { x.fract() });
                out[first + i] = r(x.trunc());
            }
        }
        52 => {
            for i in 0..first {
                let (s, e) = frexp(f(a[i]));
                (out[i], out[first + i]) = (r(s), mask(e as u64, 32));
            }
        }
        54 => out[0] = pack(a, 8, |x| (x.clamp(-1.0, 1.0) * 127.0).round_ties_even() as i64 as u64),
        55 => out[0] = pack(a, 8, |x| (x.clamp(0.0, 1.0) * 255.0).round_ties_even() as u64),
        56 => out[0] = pack(a, 16, |x| (x.clamp(-1.0, 1.0) * 32767.0).round_ties_even() as i64 as u64),
        57 => out[0] = pack(a, 16, |x| (x.clamp(0.0, 1.0) * 65535.0).round_ties_even() as u64),
        58 => out[0] = pack(a, 16, |x| Num::F16.encode_f64(x)),
        59 => out[0] = a[0] | a[1] << 32,
        60 => unpack(a[0], 16, out, |x| (signed(x, 16) as f64 / 32767.0).clamp(-1.0, 1.0)),
        61 => unpack(a[0], 16, out, |x| x as f64 / 65535.0),
        62 => unpack(a[0], 16, out, |x| Num::F16.to_f64(x)),
        63 => unpack(a[0], 8, out, |x| (signed(x, 8) as f64 / 127.0).clamp(-1.0, 1.0)),
        64 => unpack(a[0], 8, out, |x| x as f64 / 255.0),
        65 => {
            out[0] = a[0] & 0xffff_ffff;
            out[1] = a[0] >> 32;
        }
        66 => out[0] = r(dot(a, a).sqrt()),
        67 => out[0] = r(a.iter().zip(rest).map(|(x, y)| (f(*x) - f(*y)).powi(2)).sum::<f64>().sqrt()),
        68 => {
            let (p, q) = ([0, 1, 2].map(|i| f(a[i])), [0, 1, 2].map(|i| f(rest[i])));
            for (i, o) in out.iter_mut().enumerate() {
                let (j, k) = ((i + 1) % 3, (i + 2) % 3);
                *o = r(p[j] * q[k] - q[j] * p[k]);
            }
        }
        69 => {
            let length = dot(a, a).sqrt();
            for (o, x) in out.iter_mut().zip(a) {
                *o = r(f(*x) / length);
            }
        }
        70 => {
            let (i, nref) = rest.split_at(first);
            let keep = dot(nref, i) < 0.0;
            for (o, x) in out.iter_mut().zip(a) {
                *o = r(if keep { f(*x) } else { -f(*x) });
            }
        }
        71 => {
            let d = dot(rest, a);
            for i in 0..first {
                out[i] = r(f(a[i]) - 2.0 * d * f(rest[i]));
            }
        }
        72 => {
            let (normal, eta) = (&rest[..first], f(rest[first]));
            let d = dot(normal, a);
            let k = 1.0 - eta * eta * (1.0 - d * d);
            for i in 0..first {
                out[i] = r(if k < 0.0 { 0.0 } else { eta * f(a[i]) - (eta * d + k.sqrt()) * f(normal[i]) });
            }
        }
        _ => out.fill(0),
    }
}

/// Returns true if [`whole`] knows the instruction.
pub(super) fn is_whole(op: u32) -> bool {
    matches!(op, 33 | 34 | 36 | 52 | 54..=72)
}

/// Returns true if operands of these sizes and a result of `n` components are what [`whole`] expects.
pub(super) fn fits(op: u32, sizes: &[u32], n: u32) -> bool {
    let size = |i: usize| sizes.get(i).copied().unwrap_or(0);
    let square = matches!(size(0), 4 | 9 | 16);
    match op {
        33 => square && n == 1,
        34 => square && n == size(0),
        36 | 52 => n == 2 * size(0),
        54 | 55 => size(0) == 4 && n == 1,
        56..=59 => size(0) == 2 && n == 1,
        60..=62 | 65 => size(0) == 1 && n == 2,
        63 | 64 => size(0) == 1 && n == 4,
        66 => n == 1,
        67 => size(0) == size(1) && n == 1,
        68 => size(0) == 3 && size(1) == 3 && n == 3,
        69 => n == size(0),
        70 => n == size(0) && n == size(1) && n == size(2),
        71 => n == size(0) && n == size(1),
        72 => n == size(0) && n == size(1) && size(2) == 1,
        _ => false,
    }
}

/// Returns true if [`each`] needs one operand only.
pub(super) fn is_unary(op: u32) -> bool {
    float1(op).is_some() || matches!(op, 4 | 5 | 7 | 73..=75)
}

/// Returns true if [`each`] knows the instruction.
pub(super) fn is_each(op: u32) -> bool {
    float1(op).is_some() || matches!(op, 4 | 5 | 7 | 25 | 26 | 37..=46 | 48..=50 | 53 | 73..=75 | 79..=81)
}

/// The rest of a division that is rounded to nearest even, and the last 7 bits of its quotient with its sign, as 32 bits.
fn remainder(x: f64, y: f64) -> (f64, u64) {
    if !x.is_finite() || y.is_nan() || y == 0.0 {
        return (f64::NAN, 0);
    }
    if y.is_infinite() {
        return (x, 0);
    }
    // The operator's result is exact, and so are the differences.
    let (a, b) = (x.abs(), y.abs());
    let mut rest = if b <= f64::MAX / 256.0 { a % (b * 128.0) } else { a };
    let mut quotient = (rest / b).trunc();
    rest -= quotient * b;
    if rest < 0.0 {
        rest += b;
        quotient -= 1.0;
    }
    if rest > b - rest || (rest == b - rest && quotient % 2.0 == 1.0) {
        rest -= b;
        quotient += 1.0;
    }
    let bits = (quotient as u64) & 0x7f;
    let negative = x.is_sign_negative() != y.is_sign_negative();
    let rest = if rest == 0.0 { 0.0_f64.copysign(x) } else { rest * 1.0_f64.copysign(x) };
    (rest, if negative { mask((bits as i64).wrapping_neg() as u64, 32) } else { bits })
}

pub(super) fn frexp(x: f64) -> (f64, i64) {
    if x == 0.0 || !x.is_finite() {
        return (x, 0);
    }
    let (m, e) = super::num::parts(x);
    let top = 64 - i64::from(m.leading_zeros());
    let s = m as f64 / 2f64.powi(top as i32);
    (s.copysign(x), i64::from(e) + top)
}

fn pack(a: &[u64], bits: u32, f: impl Fn(f64) -> u64) -> u64 {
    a.iter().enumerate().fold(0, |acc, (i, x)| acc | mask(f(Num::F32.to_f64(*x)), bits) << (i as u32 * bits))
}

fn unpack(a: u64, bits: u32, out: &mut [u64], f: impl Fn(u64) -> f64) {
    for (i, o) in out.iter_mut().enumerate() {
        *o = Num::F32.encode_f64(f(mask(a >> (i as u32 * bits), bits)));
    }
}

fn determinant(m: &[f64]) -> f64 {
    let n = m.len().isqrt();
    if n == 1 {
        return m[0];
    }
    (0..n).map(|c| (if c % 2 == 0 { 1.0 } else { -1.0 }) * m[c * n] * determinant(&minor(m, n, c, 0))).sum()
}

fn minor(m: &[f64], n: usize, col: usize, row: usize) -> Vec<f64> {
    let mut out = Vec::new();
    for c in (0..n).filter(|c| *c != col) {
        for r in (0..n).filter(|r| *r != row) {
            out.push(m[c * n + r]);
        }
    }
    out
}

fn inverse(m: &[f64]) -> Vec<f64> {
    let n = m.len().isqrt();
    let d = determinant(m);
    let mut out = vec![0.0; m.len()];
    for c in 0..n {
        for r in 0..n {
            let sign = if (c + r) % 2 == 0 { 1.0 } else { -1.0 };
            let cofactor = if n == 1 { 1.0 } else { determinant(&minor(m, n, r, c)) };
            out[c * n + r] = sign * cofactor / d;
        }
    }
    out
}
