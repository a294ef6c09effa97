//! Numbers: scalar types as bits, and the rounding of every float format.
//!
//! A scalar value is its bits, zero-extended to 64. Every function here keeps these rules: bits above the type's width
//! are zero, in arguments and results; a conversion rounds once.

use std::sync::LazyLock;

use coop_ir::types::Scalar;

/// A numerical scalar type, or the Boolean.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Num {
    /// 0 or 1.
    Bool,
    /// An integer of 1 to 64 bits.
    Int {
        /// In bits.
        width: u8,
        /// The signedness of the `OpTypeInt`; most instructions ignore it.
        signed: bool,
    },
    F16,
    Bf16,
    F32,
    F64,
    E4M3,
    E5M2,
    /// OCP microscaling: 4 bits, no infinities, no NaN.
    E2M1,
    /// OCP microscaling: 8 bits of exponent, no sign, all ones is NaN.
    E8M0,
}

/// The rounding of a value between two representable ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Rounding {
    NearestEven,
    ToZero,
    Up,
    Down,
}

/// A binary float format of at most 64 bits.
#[derive(Clone, Copy)]
struct Format {
    man: u32,
    bias: i32,
    /// The largest finite code, without the sign.
    max: u64,
    /// The result of overflow, without the sign.
    over: u64,
    nan: u64,
    sign: u32,
}

const F16: Format = Format { man: 10, bias: 15, max: 0x7bff, over: 0x7c00, nan: 0x7e00, sign: 15 };
const BF16: Format = Format { man: 7, bias: 127, max: 0x7f7f, over: 0x7f80, nan: 0x7fc0, sign: 15 };
const F32: Format = Format { man: 23, bias: 127, max: 0x7f7f_ffff, over: 0x7f80_0000, nan: 0x7fc0_0000, sign: 31 };
const F64: Format = Format {
    man: 52,
    bias: 1023,
    max: 0x7fef_ffff_ffff_ffff,
    over: 0x7ff0_0000_0000_0000,
    nan: 0x7ff8_0000_0000_0000,
    sign: 63,
};
const E4M3: Format = Format { man: 3, bias: 7, max: 0x7e, over: 0x7f, nan: 0x7f, sign: 7 };
const E5M2: Format = Format { man: 2, bias: 15, max: 0x7b, over: 0x7c, nan: 0x7e, sign: 7 };
const E2M1: Format = Format { man: 1, bias: 1, max: 0x7, over: 0x7, nan: 0x7, sign: 3 };

impl Format {
    /// Encodes `(-1)^negative * (mant + something below one if sticky) * 2^exp`.
    fn encode(&self, negative: bool, mant: u64, exp: i32, sticky: bool, mode: Rounding) -> u64 {
        let sign = u64::from(negative) << self.sign;
        if mant == 0 {
            // What is left is less than anything representable.
            let up = sticky && matches!((mode, negative), (Rounding::Up, false) | (Rounding::Down, true));
            return sign | u64::from(up);
        }
        let lead = exp + 63 - mant.leading_zeros() as i32;
        let least = 1 - self.bias;
        let quantum = lead.max(least) - self.man as i32;
        let (mut units, rest) = shift_right(mant, quantum - exp);
        let half = match rest {
            Rest::Half if sticky => Rest::More,
            Rest::None if sticky => Rest::Less,
            other => other,
        };
        let up = match mode {
            Rounding::NearestEven => match half {
                Rest::More => true,
                Rest::Half => units & 1 == 1,
                _ => false,
            },
            Rounding::ToZero => false,
            Rounding::Up => !negative && half != Rest::None,
            Rounding::Down => negative && half != Rest::None,
        };
        units += u64::from(up);
        // A carry out of the mantissa lands in the exponent, where it belongs.
        let code = if lead < least {
            units
        } else {
            let exponent = (lead - least + 1) as u64;
            let base = exponent.saturating_mul(1 << self.man);
            base.saturating_add(units - (1 << self.man))
        };
        if code > self.max || lead > 1 << 14 {
            let stays = match mode {
                Rounding::NearestEven => false,
                Rounding::ToZero => true,
                Rounding::Up => negative,
                Rounding::Down => !negative,
            };
            return sign | if stays { self.max } else { self.over };
        }
        sign | code
    }

    fn decode(&self, bits: u64) -> f64 {
        let negative = bits >> self.sign & 1 == 1;
        let code = bits & ((1 << self.sign) - 1);
        let magnitude = if code > self.max {
            if code == self.over && self.over != self.nan { f64::INFINITY } else { f64::NAN }
        } else {
            let exponent = (code >> self.man) as i32;
            let man = code & ((1 << self.man) - 1);
            if exponent == 0 {
                man as f64 * pow2(1 - self.bias - self.man as i32)
            } else {
                (man | 1 << self.man) as f64 * pow2(exponent - self.bias - self.man as i32)
            }
        };
        if negative { -magnitude } else { magnitude }
    }
}

/// 2 to the power of `e`, for results that are normal in f64.
fn pow2(e: i32) -> f64 {
    f64::from_bits(((e + 1023) as u64) << 52)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Rest {
    None,
    Less,
    Half,
    More,
}

/// Returns `mant / 2^by` and the remainder. A negative `by` must not lose bits.
fn shift_right(mant: u64, by: i32) -> (u64, Rest) {
    if by <= 0 {
        return (mant << (-by).min(63), Rest::None);
    }
    if by > 64 {
        return (0, Rest::Less);
    }
    let wide = u128::from(mant);
    let lost = wide & ((1u128 << by) - 1);
    let half = 1u128 << (by - 1);
    let rest = match lost.cmp(&half) {
        _ if lost == 0 => Rest::None,
        std::cmp::Ordering::Less => Rest::Less,
        std::cmp::Ordering::Equal => Rest::Half,
        std::cmp::Ordering::Greater => Rest::More,
    };
    ((wide >> by) as u64, rest)
}

static F16_TABLE: LazyLock<Vec<f32>> = LazyLock::new(|| (0..=0xffffu64).map(|b| F16.decode(b) as f32).collect());

impl Num {
    /// Returns the type of a scalar of the module.
    pub(super) fn of(scalar: Scalar) -> Option<Num> {
        Some(match scalar {
            Scalar::Int { width, signed } if (1..=64).contains(&width) => Num::Int { width: width as u8, signed },
            Scalar::Float { width: 16 } => Num::F16,
            Scalar::Float { width: 32 } => Num::F32,
            Scalar::Float { width: 64 } => Num::F64,
            Scalar::BF16 => Num::Bf16,
            Scalar::E4M3 => Num::E4M3,
            Scalar::E5M2 => Num::E5M2,
            // SPV_EXT_ocp_microscaling_types: Float4E2M1 and Float8UnsignedE8M0.
            Scalar::Encoded { width: 4, encoding: 4225 } => Num::E2M1,
            Scalar::Encoded { width: 8, encoding: 4226 } => Num::E8M0,
            _ => return None,
        })
    }

    pub(super) const U32: Num = Num::Int { width: 32, signed: false };
    pub(super) const U64: Num = Num::Int { width: 64, signed: false };

    pub(super) fn bits(self) -> u32 {
        match self {
            Num::Bool => 32,
            Num::Int { width, .. } => u32::from(width),
            Num::F16 | Num::Bf16 => 16,
            Num::F32 => 32,
            Num::F64 => 64,
            Num::E4M3 | Num::E5M2 | Num::E8M0 => 8,
            Num::E2M1 => 4,
        }
    }

    /// Returns the size in memory in bytes; four for a Boolean.
    pub(super) fn bytes(self) -> u32 {
        self.bits().div_ceil(8)
    }

    pub(super) fn is_float(self) -> bool {
        !matches!(self, Num::Bool | Num::Int { .. })
    }

    fn format(self) -> Option<&'static Format> {
        Some(match self {
            Num::F16 => &F16,
            Num::Bf16 => &BF16,
            Num::F32 => &F32,
            Num::F64 => &F64,
            Num::E4M3 => &E4M3,
            Num::E5M2 => &E5M2,
            Num::E2M1 => &E2M1,
            _ => return None,
        })
    }

    /// Returns the exact value. Integers go by their own signedness; those beyond 53 bits are rounded.
    pub(super) fn to_f64(self, bits: u64) -> f64 {
        match self {
            Num::F32 => f64::from(f32::from_bits(bits as u32)),
            Num::F64 => f64::from_bits(bits),
            Num::F16 => f64::from(F16_TABLE[(bits & 0xffff) as usize]),
            Num::Bf16 => f64::from(f32::from_bits((bits as u32) << 16)),
            Num::E4M3 | Num::E5M2 | Num::E2M1 => self.format().map_or(0.0, |f| f.decode(bits)),
            Num::E8M0 if bits & 0xff == 0xff => f64::NAN,
            Num::E8M0 => pow2((bits & 0xff) as i32 - 127),
            Num::Bool => bits as f64,
            Num::Int { width, signed: true } => signed(bits, u32::from(width)) as f64,
            Num::Int { .. } => bits as f64,
        }
    }

    /// The value of a format of at most 32 bits, exactly.
    pub(super) fn to_f32(self, bits: u64) -> f32 {
        match self {
            Num::F32 => f32::from_bits(bits as u32),
            Num::F16 => F16_TABLE[(bits & 0xffff) as usize],
            Num::Bf16 => f32::from_bits((bits as u32) << 16),
            other => other.to_f64(bits) as f32,
        }
    }

    /// Rounds to the nearest, ties to even.
    pub(super) fn encode_f64(self, v: f64) -> u64 {
        match self {
            Num::F32 => u64::from((v as f32).to_bits()),
            Num::F64 => v.to_bits(),
            _ => self.round(v, Rounding::NearestEven),
        }
    }

    /// Rounds to the nearest, ties to even.
    pub(super) fn encode_f32(self, v: f32) -> u64 {
        match self {
            Num::F32 => u64::from(v.to_bits()),
            Num::F64 => f64::from(v).to_bits(),
            _ => self.round(f64::from(v), Rounding::NearestEven),
        }
    }

    /// Rounds as asked. Not for integers.
    pub(super) fn round(self, v: f64, mode: Rounding) -> u64 {
        if self == Num::E8M0 {
            return scale_of(v);
        }
        let Some(format) = self.format() else { return 0 };
        let negative = v.is_sign_negative();
        if v.is_nan() {
            return format.nan;
        }
        if v.is_infinite() {
            return u64::from(negative) << format.sign | format.over;
        }
        let (mant, exp) = parts(v);
        format.encode(negative, mant, exp, false, mode)
    }

    /// Rounds as asked; quick where the machine can do it.
    pub(super) fn round_fast(self, v: f64, mode: Rounding) -> u64 {
        if mode == Rounding::NearestEven { self.encode_f64(v) } else { self.round(v, mode) }
    }

    /// Rounds `(-1)^negative * (mant + something below one if sticky) * 2^exp`. Not for integers.
    pub(super) fn round_parts(self, negative: bool, mant: u64, exp: i32, sticky: bool, mode: Rounding) -> u64 {
        self.format().map_or(0, |f| f.encode(negative, mant, exp, sticky, mode))
    }

    /// The largest finite value of a sign, for saturating conversions.
    pub(super) fn largest(self, negative: bool) -> u64 {
        self.format().map_or(0, |f| u64::from(negative) << f.sign | f.max)
    }

    /// The number of bits of the significand, the hidden one included.
    pub(super) fn precision(self) -> u32 {
        self.format().map_or(1, |f| f.man + 1)
    }
}

/// The power of two that is nearest below or at `v`, as an E8M0 code.
fn scale_of(v: f64) -> u64 {
    if !v.is_finite() || v <= 0.0 {
        return if v == 0.0 { 0 } else { 0xff };
    }
    (v.log2().floor() as i64 + 127).clamp(0, 0xfe) as u64
}

/// The significand and exponent of a finite number: `|v| = m * 2^e`.
pub(super) fn parts(v: f64) -> (u64, i32) {
    let bits = v.to_bits();
    let exponent = (bits >> 52 & 0x7ff) as i32;
    let man = bits & ((1 << 52) - 1);
    if exponent == 0 { (man, -1074) } else { (man | 1 << 52, exponent - 1075) }
}

/// `v` without the bits above `width`.
pub(super) fn mask(v: u64, width: u32) -> u64 {
    if width >= 64 { v } else { v & ((1 << width) - 1) }
}

/// `v`, of `width` bits, as a signed number.
pub(super) fn signed(v: u64, width: u32) -> i64 {
    match width {
        0 => 0,
        1..=63 => ((v << (64 - width)) as i64) >> (64 - width),
        _ => v as i64,
    }
}

/// The sum rounded, and exactly what rounding lost (or NaN).
pub(super) fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let s = a + b;
    let t = s - a;
    (s, (a - (s - t)) + (b - t))
}

/// `a * b + c` of formats of at most 32 bits, rounded once.
pub(super) fn fma_small(num: Num, a: u64, b: u64, c: u64) -> u64 {
    let (x, y, z) = (num.to_f64(a), num.to_f64(b), num.to_f64(c));
    let (s, lost) = two_sum(x * y, z);
    if lost == 0.0 || !lost.is_finite() || !s.is_finite() {
        return num.encode_f64(s);
    }
    // Rounding to odd keeps what a second rounding must know.
    let odd = if s.to_bits() & 1 == 1 {
        s
    } else if (lost > 0.0) == (s > 0.0) {
        f64::from_bits(s.to_bits() + 1)
    } else {
        f64::from_bits(s.to_bits() - 1)
    };
    num.encode_f64(odd)
}

/// A sum of floats without any rounding until the end: a fixed-point number wide enough for products of two f64.
pub(super) struct Sum {
    limbs: [u64; Sum::LIMBS],
    nan: bool,
    inf: [bool; 2],
    /// True if every term was a zero with a minus sign.
    all_negative_zero: bool,
}

impl Sum {
    const LIMBS: usize = 70;
    /// The weight of the lowest bit.
    const LOWEST: i32 = -2200;

    pub(super) fn new() -> Sum {
        Sum { limbs: [0; Sum::LIMBS], nan: false, inf: [false; 2], all_negative_zero: true }
    }

    /// Adds `v`.
    pub(super) fn add(&mut self, v: f64) {
        self.add_product(v, 1.0);
    }

    /// Adds `a * b`.
    pub(super) fn add_product(&mut self, a: f64, b: f64) {
        let negative = a.is_sign_negative() != b.is_sign_negative();
        if a.is_nan() || b.is_nan() || (a.is_infinite() && b == 0.0) || (b.is_infinite() && a == 0.0) {
            self.nan = true;
            return;
        }
        if a.is_infinite() || b.is_infinite() {
            self.inf[usize::from(negative)] = true;
            return;
        }
        let ((ma, ea), (mb, eb)) = (parts(a), parts(b));
        let m = u128::from(ma) * u128::from(mb);
        if m == 0 {
            self.all_negative_zero &= negative;
            return;
        }
        self.all_negative_zero = false;
        let at = (ea + eb - Sum::LOWEST) as u32;
        let (limb, shift) = ((at / 64) as usize, at % 64);
        let low = m << shift;
        let high = if shift == 0 { 0 } else { (m >> (128 - shift)) as u64 };
        let words = [low as u64, (low >> 64) as u64, high];
        self.add_words(limb, words, negative);
    }

    fn add_words(&mut self, limb: usize, words: [u64; 3], negative: bool) {
        let mut carry = false;
        for (i, slot) in self.limbs[limb..].iter_mut().enumerate() {
            let w = words.get(i).copied().unwrap_or(0);
            if i >= 3 && !carry {
                break;
            }
            let (v, c1, c2);
            if negative {
                let (t, b1) = slot.overflowing_sub(w);
                let (t, b2) = t.overflowing_sub(u64::from(carry));
                (v, c1, c2) = (t, b1, b2);
            } else {
                let (t, b1) = slot.overflowing_add(w);
                let (t, b2) = t.overflowing_add(u64::from(carry));
                (v, c1, c2) = (t, b1, b2);
            }
            *slot = v;
            carry = c1 || c2;
        }
    }

    /// The sum, rounded once.
    pub(super) fn round(&self, num: Num, mode: Rounding) -> u64 {
        if self.nan || self.inf == [true, true] {
            return num.round(f64::NAN, mode);
        }
        if self.inf[0] || self.inf[1] {
            return num.round(if self.inf[1] { f64::NEG_INFINITY } else { f64::INFINITY }, mode);
        }
        let negative = self.limbs[Sum::LIMBS - 1] >> 63 == 1;
        let mut limbs = self.limbs;
        if negative {
            let mut carry = true;
            for l in &mut limbs {
                let (v, c) = (!*l).overflowing_add(u64::from(carry));
                (*l, carry) = (v, c);
            }
        }
        let Some(top) = limbs.iter().rposition(|l| *l != 0) else {
            return num.round(if self.all_negative_zero { -0.0 } else { 0.0 }, mode);
        };
        let lz = limbs[top].leading_zeros();
        let below = if top > 0 { limbs[top - 1] } else { 0 };
        let mant = if lz == 0 { limbs[top] } else { limbs[top] << lz | below >> (64 - lz) };
        let rest = if lz == 0 { below } else { below << lz };
        let sticky = rest != 0 || limbs[..top.saturating_sub(1)].iter().any(|l| *l != 0);
        let exp = Sum::LOWEST + 64 * top as i32 - lz as i32;
        num.round_parts(negative, mant, exp, sticky, mode)
    }
}

/// Returns up to eight bytes as a number.
pub(super) fn number(bytes: &[u8]) -> u64 {
    match *bytes {
        [a, b] => u64::from(u16::from_le_bytes([a, b])),
        [a, b, c, d] => u64::from(u32::from_le_bytes([a, b, c, d])),
        _ => {
            let mut all = [0; 8];
            for (slot, b) in all.iter_mut().zip(bytes) {
                *slot = *b;
            }
            u64::from_le_bytes(all)
        }
    }
}

/// Returns `x * y + z`, rounded once.
pub(super) fn fma(num: Num, x: u64, y: u64, z: u64) -> u64 {
    match num {
        Num::F64 => f64::from_bits(x).mul_add(f64::from_bits(y), f64::from_bits(z)).to_bits(),
        Num::F32 => {
            let [x, y, z] = [x, y, z].map(|v| f32::from_bits(v as u32));
            u64::from(x.mul_add(y, z).to_bits())
        }
        num => fma_small(num, x, y, z),
    }
}

/// Rounds an f32 to 10 bits of mantissa, to the nearest, ties to even.
pub(super) fn round_tf32(x: u64) -> u64 {
    let bits = x as u32;
    if bits & 0x7f80_0000 == 0x7f80_0000 {
        return x;
    }
    let odd = bits >> 13 & 1;
    u64::from(bits.wrapping_add(0xfff + odd) & !0x1fff)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn halves_agree_with_the_library() {
        for bits in 0..=0xffffu16 {
            let ours = Num::F16.to_f64(u64::from(bits));
            let theirs = half::f16::from_bits(bits).to_f64();
            assert!(ours == theirs || (ours.is_nan() && theirs.is_nan()), "{bits:#x}");
            if !ours.is_nan() {
                assert_eq!(Num::F16.encode_f64(ours), u64::from(bits));
            }
            let ours = Num::Bf16.to_f64(u64::from(bits));
            let theirs = half::bf16::from_bits(bits).to_f64();
            assert!(ours == theirs || (ours.is_nan() && theirs.is_nan()), "{bits:#x}");
            if !ours.is_nan() {
                assert_eq!(Num::Bf16.encode_f64(ours), u64::from(bits));
            }
        }
        let mut random = Random::new(1);
        for _ in 0..200_000 {
            let v = f32::from_bits(random.bits() as u32);
            if v.is_nan() {
                continue;
            }
            assert_eq!(Num::F16.encode_f32(v), u64::from(half::f16::from_f32(v).to_bits()), "{v:e}");
            assert_eq!(Num::Bf16.encode_f32(v), u64::from(half::bf16::from_f32(v).to_bits()), "{v:e}");
            assert_eq!(Num::F32.round(f64::from(v), Rounding::NearestEven), u64::from(v.to_bits()));
            let wide = f64::from_bits(random.bits());
            if !wide.is_nan() {
                assert_eq!(Num::F32.round(wide, Rounding::NearestEven), u64::from((wide as f32).to_bits()), "{wide:e}");
            }
        }
    }

    #[test]
    fn eighths_are_those_of_the_specification() {
        assert_eq!(Num::E4M3.to_f64(0x7e), 448.0);
        assert!(Num::E4M3.to_f64(0x7f).is_nan());
        assert_eq!(Num::E4M3.to_f64(0x01), 1.0 / 512.0);
        assert_eq!(Num::E5M2.to_f64(0x7b), 57344.0);
        assert_eq!(Num::E5M2.to_f64(0x7c), f64::INFINITY);
        assert_eq!(Num::E4M3.encode_f64(464.0), 0x7e);
        assert_eq!(Num::E4M3.encode_f64(465.0), 0x7f);
        assert_eq!(Num::E4M3.encode_f64(f64::NEG_INFINITY), 0xff);
        assert_eq!(Num::E5M2.encode_f64(1e9), 0x7c);
        assert_eq!(Num::E4M3.largest(true), 0xfe);
        for bits in 0..=255 {
            for num in [Num::E4M3, Num::E5M2] {
                let v = num.to_f64(bits);
                if !v.is_nan() {
                    assert_eq!(num.encode_f64(v), bits);
                }
            }
        }
    }

    #[test]
    fn directed_rounding() {
        let third = 1.0 / 3.0;
        let down = Num::F16.to_f64(Num::F16.round(third, Rounding::Down));
        let up = Num::F16.to_f64(Num::F16.round(third, Rounding::Up));
        assert!(down < third && third < up);
        assert_eq!(Num::F16.round(third, Rounding::ToZero), Num::F16.round(third, Rounding::Down));
        assert_eq!(Num::F16.round(-third, Rounding::ToZero), Num::F16.round(-third, Rounding::Up));
        assert_eq!(Num::F16.round(1e9, Rounding::ToZero), 0x7bff);
        assert_eq!(Num::F16.round(1e-30, Rounding::Up), 1);
    }

    #[test]
    fn sums_are_exact() {
        let mut sum = Sum::new();
        for v in [1e300, 1.0, -1e300, f64::from_bits(1)] {
            sum.add(v);
        }
        assert_eq!(f64::from_bits(sum.round(Num::F64, Rounding::NearestEven)), 1.0);
        assert_eq!(f64::from_bits(sum.round(Num::F64, Rounding::Up)), 1.0 + f64::EPSILON);
        let mut sum = Sum::new();
        sum.add_product(f64::MAX, f64::MAX);
        sum.add_product(-f64::MAX, f64::MAX);
        sum.add_product(f64::MIN_POSITIVE, -3.0);
        assert_eq!(f64::from_bits(sum.round(Num::F64, Rounding::NearestEven)), -3.0 * f64::MIN_POSITIVE);
        let mut random = Random::new(2);
        for _ in 0..20_000 {
            let (a, b) = (f32::from_bits(random.bits() as u32), f32::from_bits(random.bits() as u32));
            let c = f32::from_bits(random.bits() as u32);
            let mut sum = Sum::new();
            sum.add_product(f64::from(a), f64::from(b));
            sum.add(f64::from(c));
            let ours = f32::from_bits(sum.round(Num::F32, Rounding::NearestEven) as u32);
            let wanted = a.mul_add(b, c);
            assert!(ours.to_bits() == wanted.to_bits() || (ours.is_nan() && wanted.is_nan()), "{a:e} {b:e} {c:e}");
        }
    }
}
