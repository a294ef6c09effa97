//! GLSL.std.450. Transcendental functions are computed in f64 and rounded once to the type.

use coop_ir::spv::{GlslStd450 as Glsl, OpenClStd as OpenCl};

use super::code::Row;
use super::num::{Num, fma, mask, signed};
use super::registers::Regs;

/// IEEE 754's remainder, and the last bits of the quotient: in OpenCL.std, but not in GLSL.std.450.
pub(super) const REMAINDER: Glsl = Glsl(0x1_0000);
pub(super) const QUOTIENT: Glsl = Glsl(0x1_0001);

/// Executes an instruction that works component by component. Returns false for all others.
pub(super) fn each(regs: &mut Regs, op: Glsl, num: Num, dst: Row, args: [Row; 3], n: u32) -> bool {
    let [a, b, _] = args;
    let w = num.bits();
    if let Some(f) = float1(op) {
        regs.map1(dst, a, n, |x| num.encode_f64(f(num.to_f64(x))));
        return true;
    }
    let float2 = |f: fn(f64, f64) -> f64| move |x, y| num.encode_f64(f(num.to_f64(x), num.to_f64(y)));
    match op {
        Glsl::FAbs => regs.map1(dst, a, n, |x| x & !(1 << (w - 1))),
        Glsl::SAbs => regs.map1(dst, a, n, |x| mask(signed(x, w).wrapping_abs() as u64, w)),
        Glsl::SSign => regs.map1(dst, a, n, |x| mask(signed(x, w).signum() as u64, w)),
        Glsl::Atan2 => regs.map2(dst, a, b, n, float2(f64::atan2)),
        Glsl::Pow => regs.map2(dst, a, b, n, float2(f64::powf)),
        Glsl::FMin | Glsl::NMin => regs.map2(dst, a, b, n, |x, y| choose(num, x, y, op == Glsl::NMin, false)),
        Glsl::FMax | Glsl::NMax => regs.map2(dst, a, b, n, |x, y| choose(num, x, y, op == Glsl::NMax, true)),
        Glsl::UMin => regs.map2(dst, a, b, n, u64::min),
        Glsl::UMax => regs.map2(dst, a, b, n, u64::max),
        Glsl::SMin => regs.map2(dst, a, b, n, |x, y| if signed(y, w) < signed(x, w) { y } else { x }),
        Glsl::SMax => regs.map2(dst, a, b, n, |x, y| if signed(y, w) > signed(x, w) { y } else { x }),
        Glsl::FClamp | Glsl::NClamp => regs.map3(dst, args, n, |x, low, high| {
            choose(num, choose(num, x, low, op == Glsl::NClamp, true), high, op == Glsl::NClamp, false)
        }),
        Glsl::UClamp => regs.map3(dst, args, n, |x, low, high| x.max(low).min(high)),
        Glsl::SClamp => regs
            .map3(dst, args, n, |x, low, high| mask(signed(x, w).max(signed(low, w)).min(signed(high, w)) as u64, w)),
        Glsl::FMix => regs.map3(dst, args, n, |x, y, t| {
            let (p, q) = (num.to_f64(x), num.to_f64(y));
            let t = num.to_f64(t);
            // x * (1 - t) + y * t, each step rounded.
            let r = |v: f64| num.to_f64(num.encode_f64(v));
            num.encode_f64(r(p * r(1.0 - t)) + r(q * t))
        }),
        Glsl::Step => regs.map2(dst, a, b, n, float2(|edge, x| if x < edge { 0.0 } else { 1.0 })),
        Glsl::SmoothStep => regs.map3(dst, args, n, |low, high, x| {
            let (low, high, x) = (num.to_f64(low), num.to_f64(high), num.to_f64(x));
            let t = ((x - low) / (high - low)).clamp(0.0, 1.0);
            num.encode_f64(t * t * (3.0 - 2.0 * t))
        }),
        Glsl::Fma => regs.map3(dst, args, n, |x, y, z| fma(num, x, y, z)),
        Glsl::Ldexp => regs.map2(dst, a, b, n, |x, e| {
            let e = signed(e, 32).clamp(-5000, 5000);
            let (h, rest) = (e / 4, e - 3 * (e / 4));
            let step = |k: i64| 2f64.powi(k as i32);
            num.encode_f64(num.to_f64(x) * step(h) * step(h) * step(h) * step(rest))
        }),
        REMAINDER => regs.map2(dst, a, b, n, float2(|x, y| remainder(x, y).0)),
        QUOTIENT => regs.map2(dst, a, b, n, |x, y| remainder(num.to_f64(x), num.to_f64(y)).1),
        Glsl::FindILsb => regs.map1(dst, a, n, |x| if x == 0 { 0xffff_ffff } else { u64::from(x.trailing_zeros()) }),
        Glsl::FindSMsb => regs.map1(dst, a, n, |x| {
            let v = signed(x, w);
            let v = (if v < 0 { !v } else { v }) as u64;
            if v == 0 { 0xffff_ffff } else { 63 - u64::from(v.leading_zeros()) }
        }),
        Glsl::FindUMsb => {
            regs.map1(dst, a, n, |x| if x == 0 { 0xffff_ffff } else { 63 - u64::from(x.leading_zeros()) });
        }
        _ => return false,
    }
    true
}

/// Returns the instruction that is the same as one of OpenCL.std.
pub(super) fn of_opencl(op: OpenCl) -> Option<Glsl> {
    Some(match op {
        OpenCl::acos => Glsl::Acos,
        OpenCl::acosh => Glsl::Asinh,
        OpenCl::asin => Glsl::Asin,
        OpenCl::asinh => Glsl::Acosh,
        OpenCl::atan => Glsl::Atan,
        OpenCl::atan2 => Glsl::Atan2,
        OpenCl::atanh => Glsl::Atanh,
        OpenCl::ceil => Glsl::Ceil,
        OpenCl::cos | OpenCl::half_cos | OpenCl::native_cos => Glsl::Cos,
        OpenCl::cosh => Glsl::Cosh,
        OpenCl::exp | OpenCl::half_exp | OpenCl::native_exp => Glsl::Exp,
        OpenCl::exp2 | OpenCl::half_exp2 | OpenCl::native_exp2 => Glsl::Exp2,
        OpenCl::fabs => Glsl::FAbs,
        OpenCl::floor => Glsl::Floor,
        OpenCl::fma | OpenCl::mad => Glsl::Fma,
        OpenCl::fmax => Glsl::NMax,
        OpenCl::fmin => Glsl::NMin,
        OpenCl::log | OpenCl::half_log | OpenCl::native_log => Glsl::Log,
        OpenCl::log2 | OpenCl::half_log2 | OpenCl::native_log2 => Glsl::Log2,
        OpenCl::pow | OpenCl::powr | OpenCl::half_powr | OpenCl::native_powr => Glsl::Pow,
        OpenCl::rint => Glsl::RoundEven,
        OpenCl::rsqrt | OpenCl::half_rsqrt | OpenCl::native_rsqrt => Glsl::InverseSqrt,
        OpenCl::sin | OpenCl::half_sin | OpenCl::native_sin => Glsl::Sin,
        OpenCl::sinh => Glsl::Sinh,
        OpenCl::sqrt | OpenCl::half_sqrt | OpenCl::native_sqrt => Glsl::Sqrt,
        OpenCl::tan | OpenCl::half_tan | OpenCl::native_tan => Glsl::Tan,
        OpenCl::tanh => Glsl::Tanh,
        OpenCl::trunc => Glsl::Trunc,
        OpenCl::fclamp => Glsl::NClamp,
        OpenCl::degrees => Glsl::Degrees,
        OpenCl::fmax_common => Glsl::FMax,
        OpenCl::fmin_common => Glsl::FMin,
        OpenCl::radians => Glsl::Radians,
        OpenCl::step => Glsl::Step,
        OpenCl::smoothstep => Glsl::SmoothStep,
        OpenCl::sign => Glsl::FSign,
        OpenCl::s_abs => Glsl::SAbs,
        OpenCl::s_clamp => Glsl::SClamp,
        OpenCl::u_clamp => Glsl::UClamp,
        OpenCl::s_max => Glsl::SMax,
        OpenCl::u_max => Glsl::UMax,
        OpenCl::s_min => Glsl::SMin,
        OpenCl::u_min => Glsl::UMin,
        _ => return None,
    })
}

fn float1(op: Glsl) -> Option<fn(f64) -> f64> {
    Some(match op {
        Glsl::Round => f64::round_ties_even,
        Glsl::RoundEven => f64::round_ties_even,
        Glsl::Trunc => f64::trunc,
        Glsl::FSign => |x| {
            if x > 0.0 {
                1.0
            } else if x < 0.0 {
                -1.0
            } else {
                x
            }
        },
        Glsl::Floor => f64::floor,
        Glsl::Ceil => f64::ceil,
        Glsl::Fract => |x| x - x.floor(),
        Glsl::Radians => f64::to_radians,
        Glsl::Degrees => f64::to_degrees,
        Glsl::Sin => f64::sin,
        Glsl::Cos => f64::cos,
        Glsl::Tan => f64::tan,
        Glsl::Asin => f64::asin,
        Glsl::Acos => f64::acos,
        Glsl::Atan => f64::atan,
        Glsl::Sinh => f64::sinh,
        Glsl::Cosh => f64::cosh,
        Glsl::Tanh => f64::tanh,
        Glsl::Asinh => f64::asinh,
        Glsl::Acosh => f64::acosh,
        Glsl::Atanh => f64::atanh,
        Glsl::Exp => f64::exp,
        Glsl::Log => f64::ln,
        Glsl::Exp2 => f64::exp2,
        Glsl::Log2 => f64::log2,
        Glsl::Sqrt => f64::sqrt,
        Glsl::InverseSqrt => |x| 1.0 / x.sqrt(),
        _ => return None,
    })
}

/// Returns the minimum or maximum. With `number` the operand that is not NaN wins; else the first operand if either is
/// NaN.
fn choose(num: Num, x: u64, y: u64, number: bool, max: bool) -> u64 {
    let (p, q) = (num.to_f64(x), num.to_f64(y));
    if number && p.is_nan() {
        return y;
    }
    if if max { p < q } else { q < p } { y } else { x }
}

/// Executes an instruction that looks at several components. `sizes` are the numbers of components of the operands,
/// which are consecutive in `v`.
pub(super) fn whole(op: Glsl, num: Num, v: &[u64], sizes: &[u32], out: &mut [u64]) {
    let first = sizes.first().copied().unwrap_or(0) as usize;
    let (a, rest) = v.split_at(first.min(v.len()));
    let f = |b: u64| num.to_f64(b);
    let r = |x: f64| num.encode_f64(x);
    let dot = |a: &[u64], b: &[u64]| a.iter().zip(b).map(|(x, y)| f(*x) * f(*y)).sum::<f64>();
    match op {
        Glsl::Determinant => out[0] = r(determinant(&a.iter().map(|b| f(*b)).collect::<Vec<_>>())),
        Glsl::MatrixInverse => {
            for (o, x) in out.iter_mut().zip(inverse(&a.iter().map(|b| f(*b)).collect::<Vec<_>>())) {
                *o = r(x);
            }
        }
        Glsl::ModfStruct => {
            for i in 0..first {
                let x = f(a[i]);
                out[i] = r(if x.is_infinite() { 0.0_f64.copysign(x) } else { x.fract() });
                out[first + i] = r(x.trunc());
            }
        }
        Glsl::FrexpStruct => {
            for i in 0..first {
                let (s, e) = frexp(f(a[i]));
                (out[i], out[first + i]) = (r(s), mask(e as u64, 32));
            }
        }
        Glsl::PackSnorm4x8 => out[0] = pack(a, 8, |x| (x.clamp(-1.0, 1.0) * 127.0).round_ties_even() as i64 as u64),
        Glsl::PackUnorm4x8 => out[0] = pack(a, 8, |x| (x.clamp(0.0, 1.0) * 255.0).round_ties_even() as u64),
        Glsl::PackSnorm2x16 => out[0] = pack(a, 16, |x| (x.clamp(-1.0, 1.0) * 32767.0).round_ties_even() as i64 as u64),
        Glsl::PackUnorm2x16 => out[0] = pack(a, 16, |x| (x.clamp(0.0, 1.0) * 65535.0).round_ties_even() as u64),
        Glsl::PackHalf2x16 => out[0] = pack(a, 16, |x| Num::F16.encode_f64(x)),
        Glsl::PackDouble2x32 => out[0] = a[0] | a[1] << 32,
        Glsl::UnpackSnorm2x16 => unpack(a[0], 16, out, |x| (signed(x, 16) as f64 / 32767.0).clamp(-1.0, 1.0)),
        Glsl::UnpackUnorm2x16 => unpack(a[0], 16, out, |x| x as f64 / 65535.0),
        Glsl::UnpackHalf2x16 => unpack(a[0], 16, out, |x| Num::F16.to_f64(x)),
        Glsl::UnpackSnorm4x8 => unpack(a[0], 8, out, |x| (signed(x, 8) as f64 / 127.0).clamp(-1.0, 1.0)),
        Glsl::UnpackUnorm4x8 => unpack(a[0], 8, out, |x| x as f64 / 255.0),
        Glsl::UnpackDouble2x32 => {
            out[0] = a[0] & 0xffff_ffff;
            out[1] = a[0] >> 32;
        }
        Glsl::Length => out[0] = r(dot(a, a).sqrt()),
        Glsl::Distance => out[0] = r(a.iter().zip(rest).map(|(x, y)| (f(*x) - f(*y)).powi(2)).sum::<f64>().sqrt()),
        Glsl::Cross => {
            let (p, q) = ([0, 1, 2].map(|i| f(a[i])), [0, 1, 2].map(|i| f(rest[i])));
            for (i, o) in out.iter_mut().enumerate() {
                let (j, k) = ((i + 1) % 3, (i + 2) % 3);
                *o = r(p[j] * q[k] - q[j] * p[k]);
            }
        }
        Glsl::Normalize => {
            let length = dot(a, a).sqrt();
            for (o, x) in out.iter_mut().zip(a) {
                *o = r(f(*x) / length);
            }
        }
        Glsl::FaceForward => {
            let (i, nref) = rest.split_at(first);
            let keep = dot(nref, i) < 0.0;
            for (o, x) in out.iter_mut().zip(a) {
                *o = r(if keep { f(*x) } else { -f(*x) });
            }
        }
        Glsl::Reflect => {
            let d = dot(rest, a);
            for i in 0..first {
                out[i] = r(f(a[i]) - 2.0 * d * f(rest[i]));
            }
        }
        Glsl::Refract => {
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

/// Returns true if [`whole`] executes the instruction.
pub(super) fn is_whole(op: Glsl) -> bool {
    matches!(
        op,
        Glsl::Determinant
            | Glsl::MatrixInverse
            | Glsl::ModfStruct
            | Glsl::FrexpStruct
            | Glsl::PackSnorm4x8
            | Glsl::PackUnorm4x8
            | Glsl::PackSnorm2x16
            | Glsl::PackUnorm2x16
            | Glsl::PackHalf2x16
            | Glsl::PackDouble2x32
            | Glsl::UnpackSnorm2x16
            | Glsl::UnpackUnorm2x16
            | Glsl::UnpackHalf2x16
            | Glsl::UnpackSnorm4x8
            | Glsl::UnpackUnorm4x8
            | Glsl::UnpackDouble2x32
            | Glsl::Length
            | Glsl::Distance
            | Glsl::Cross
            | Glsl::Normalize
            | Glsl::FaceForward
            | Glsl::Reflect
            | Glsl::Refract
    )
}

/// Returns true if operands of these sizes and a result of `n` components are what [`whole`] expects.
pub(super) fn fits(op: Glsl, sizes: &[u32], n: u32) -> bool {
    let size = |i: usize| sizes.get(i).copied().unwrap_or(0);
    let square = matches!(size(0), 4 | 9 | 16);
    match op {
        Glsl::Determinant => square && n == 1,
        Glsl::MatrixInverse => square && n == size(0),
        Glsl::ModfStruct | Glsl::FrexpStruct => n == 2 * size(0),
        Glsl::PackSnorm4x8 | Glsl::PackUnorm4x8 => size(0) == 4 && n == 1,
        Glsl::PackSnorm2x16 | Glsl::PackUnorm2x16 | Glsl::PackHalf2x16 | Glsl::PackDouble2x32 => size(0) == 2 && n == 1,
        Glsl::UnpackSnorm2x16 | Glsl::UnpackUnorm2x16 | Glsl::UnpackHalf2x16 | Glsl::UnpackDouble2x32 => {
            size(0) == 1 && n == 2
        }
        Glsl::UnpackSnorm4x8 | Glsl::UnpackUnorm4x8 => size(0) == 1 && n == 4,
        Glsl::Length => n == 1,
        Glsl::Distance => size(0) == size(1) && n == 1,
        Glsl::Cross => size(0) == 3 && size(1) == 3 && n == 3,
        Glsl::Normalize => n == size(0),
        Glsl::FaceForward => n == size(0) && n == size(1) && n == size(2),
        Glsl::Reflect => n == size(0) && n == size(1),
        Glsl::Refract => n == size(0) && n == size(1) && size(2) == 1,
        _ => false,
    }
}

/// Returns the number of operands of an instruction that [`each`] executes.
pub(super) fn arity(op: Glsl) -> usize {
    match op {
        Glsl::Atan2
        | Glsl::Pow
        | Glsl::FMin
        | Glsl::UMin
        | Glsl::SMin
        | Glsl::FMax
        | Glsl::UMax
        | Glsl::SMax
        | Glsl::Step
        | Glsl::Ldexp
        | Glsl::NMin
        | Glsl::NMax
        | REMAINDER
        | QUOTIENT => 2,
        Glsl::FClamp | Glsl::UClamp | Glsl::SClamp | Glsl::FMix | Glsl::SmoothStep | Glsl::Fma | Glsl::NClamp => 3,
        _ => 1,
    }
}

/// Returns true if [`each`] executes the instruction.
pub(super) fn is_each(op: Glsl) -> bool {
    float1(op).is_some()
        || matches!(
            op,
            Glsl::FAbs
                | Glsl::SAbs
                | Glsl::SSign
                | Glsl::Atan2
                | Glsl::Pow
                | Glsl::FMin
                | Glsl::UMin
                | Glsl::SMin
                | Glsl::FMax
                | Glsl::UMax
                | Glsl::SMax
                | Glsl::FClamp
                | Glsl::UClamp
                | Glsl::SClamp
                | Glsl::FMix
                | Glsl::Step
                | Glsl::SmoothStep
                | Glsl::Fma
                | Glsl::Ldexp
                | Glsl::FindILsb
                | Glsl::FindSMsb
                | Glsl::FindUMsb
                | Glsl::NMin
                | Glsl::NMax
                | Glsl::NClamp
        )
}

/// Returns the remainder of a division that rounds to nearest even, and the last 7 bits of its quotient with its sign,
/// as 32 bits.
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
