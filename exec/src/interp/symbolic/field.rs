//! The field in which fingerprints are computed: the integers modulo the largest prime below 2^64.
//!
//! Invariants: an element is below the modulus, so equal elements have equal bits. Every finite float is an element: the
//! map from the dyadic rationals `m * 2^e` keeps sums and products, because 2 has an inverse.
//!
//! The modulus is not 2^61 - 1: there 2^61 is 1, and a factor of 2^61 would go unseen. Here no power of two that a float
//! or a product of floats can have is 1; a test looks.

use std::sync::LazyLock;

use super::super::num::parts;

/// The modulus, 2^64 - 59.
const MODULUS: u64 = u64::MAX - 58;

/// The least exponent of an f64, whose significand is an integer.
const LEAST: i32 = -1074;

/// The powers of two from [`LEAST`] on.
static POWERS: LazyLock<Vec<Fp>> = LazyLock::new(|| {
    let first = Fp::power_of_two(LEAST);
    std::iter::successors(Some(first), |power| Some(power.plus(*power))).take(2100).collect()
});

/// An element of the field.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(in crate::interp) struct Fp(u64);

impl Fp {
    pub(super) const ZERO: Fp = Fp(0);
    pub(super) const ONE: Fp = Fp(1);

    /// Returns the residue of a number.
    pub(super) fn new(v: u64) -> Fp {
        Fp(if v >= MODULUS { v - MODULUS } else { v })
    }

    /// Returns the element with these bits, which [`Fp::bits`] gave.
    pub(super) fn from_bits(bits: u64) -> Fp {
        debug_assert!(bits < MODULUS);
        Fp(bits)
    }

    pub(super) fn bits(self) -> u64 {
        self.0
    }

    /// Returns the element of an integer.
    pub(super) fn integer(v: i128) -> Fp {
        let magnitude = (v.unsigned_abs() % u128::from(MODULUS)) as u64;
        if v < 0 { Fp(magnitude).negated() } else { Fp(magnitude) }
    }

    /// Returns the element of a float; `None` for infinities and NaN.
    pub(super) fn float(v: f64) -> Option<Fp> {
        if !v.is_finite() {
            return None;
        }
        let (mantissa, exponent) = parts(v);
        if mantissa == 0 {
            return Some(Fp::ZERO);
        }
        let power = usize::try_from(exponent - LEAST).ok().and_then(|at| POWERS.get(at).copied());
        let size = Fp::new(mantissa).times(power.unwrap_or_else(|| Fp::power_of_two(exponent)));
        Some(if v < 0.0 { size.negated() } else { size })
    }

    /// Returns 2 to the power of `e`.
    pub(super) fn power_of_two(e: i32) -> Fp {
        let power = Fp(2).power(u64::from(e.unsigned_abs()));
        if e < 0 { power.inverse() } else { power }
    }

    pub(super) fn plus(self, other: Fp) -> Fp {
        let (sum, carry) = self.0.overflowing_add(other.0);
        if carry || sum >= MODULUS { Fp(sum.wrapping_sub(MODULUS)) } else { Fp(sum) }
    }

    pub(super) fn negated(self) -> Fp {
        if self.0 == 0 { self } else { Fp(MODULUS - self.0) }
    }

    pub(super) fn minus(self, other: Fp) -> Fp {
        self.plus(other.negated())
    }

    pub(super) fn times(self, other: Fp) -> Fp {
        Fp::reduced(u128::from(self.0) * u128::from(other.0))
    }

    /// Returns the residue of a product, or of the sum of two.
    fn reduced(wide: u128) -> Fp {
        // 2^64 is 59.
        let fold = |v: u128| u128::from(v as u64) + (v >> 64) * 59;
        let v = fold(fold(wide));
        let (v, carry) = (v as u64, v >> 64 != 0);
        if carry || v >= MODULUS { Fp(v.wrapping_sub(MODULUS)) } else { Fp(v) }
    }

    fn power(self, mut e: u64) -> Fp {
        let (mut base, mut result) = (self, Fp::ONE);
        while e != 0 {
            if e & 1 == 1 {
                result = result.times(base);
            }
            base = base.times(base);
            e >>= 1;
        }
        result
    }

    /// Returns the inverse; that of 0 is 0.
    pub(super) fn inverse(self) -> Fp {
        self.power(MODULUS - 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn the_laws_of_a_field_hold() {
        let mut random = Random::new(11);
        let edges = [0, 1, 2, MODULUS - 1, MODULUS - 2, 1 << 63, (1 << 32) - 1];
        let mut draw = |i: usize| edges.get(i % 40).map_or_else(|| Fp::new(random.bits()), |v| Fp(*v));
        for i in 0..4000 {
            let (a, b, c) = (draw(i), draw(i / 3), draw(i / 7));
            let wide = |v: Fp| u128::from(v.0);
            let modulus = u128::from(MODULUS);
            assert_eq!(wide(a.plus(b)), (wide(a) + wide(b)) % modulus);
            assert_eq!(wide(a.times(b)), wide(a) * wide(b) % modulus, "{a:?} {b:?}");
            assert_eq!(a.minus(b).plus(b), a);
            assert_eq!(a.times(b.plus(c)), a.times(b).plus(a.times(c)));
            if a != Fp::ZERO {
                assert_eq!(a.times(a.inverse()), Fp::ONE);
            }
        }
    }

    /// A prime has no witness of the contrary (Miller and Rabin, with the bases that decide for 64 bits).
    #[test]
    fn the_modulus_is_prime() {
        let twos = (MODULUS - 1).trailing_zeros();
        for base in [2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37] {
            let mut x = Fp(base).power((MODULUS - 1) >> twos);
            let mut fine = x == Fp::ONE;
            for _ in 0..twos {
                fine |= x == Fp(MODULUS - 1);
                x = x.times(x);
            }
            assert!(fine, "{base}");
        }
    }

    #[test]
    fn floats_are_embedded() {
        let float = |v: f64| Fp::float(v).expect("it is finite");
        let mut random = Random::new(12);
        for _ in 0..2000 {
            let mut draw =
                || ((random.unit() - 0.5) * 2f64.powi(30)).round() * 2f64.powi(random.integer(-40, 40) as i32);
            // Few bits, so that sums and products are exact.
            let (a, b) = (f64::from(draw() as f32), f64::from(draw() as f32));
            assert_eq!(float(a).times(float(b)), float(a * b));
            if (a + b) - a == b && (a + b) - b == a {
                assert_eq!(float(a).plus(float(b)), float(a + b));
            }
        }
        assert_eq!(float(-0.0), Fp::ZERO);
        assert_eq!(float(f64::from_bits(1)).times(float(2f64.powi(1000))), float(2f64.powi(-74)));
        assert_eq!(Fp::float(f64::INFINITY), None);
    }

    /// The exponents of f64 go from -1074 to 971, those of a product of two of them twice as far.
    #[test]
    fn powers_of_two_differ() {
        let mut power = Fp::ONE;
        for e in 1..20_000 {
            power = power.plus(power);
            assert_ne!(power, Fp::ONE, "2^{e}");
            assert_ne!(power, Fp::ONE.negated(), "2^{e}");
        }
    }
}
