//! The range of the elements of a value, which keeps every result exact in its type whatever the order of sums.

use coop_ir::types::Scalar;

/// Every element is a multiple of `2^-frac` between `lo` and `hi`, both counted in such steps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Range {
    pub(super) lo: i128,
    pub(super) hi: i128,
    pub(super) frac: u32,
}

/// The most fractional bits: the smallest step must be a normal number of every type.
const MAX_FRAC: u32 = 8;

/// More than fits any type. What may be that much may be infinite or no number too, which no factor of 0 makes up for.
const ENOUGH: i128 = 1 << 100;

impl Range {
    pub(super) fn new(lo: i128, hi: i128, frac: u32) -> Range {
        Range { lo, hi, frac }
    }

    pub(super) fn int(lo: i128, hi: i128) -> Range {
        Range { lo, hi, frac: 0 }
    }

    /// Returns a range that is exact in no type.
    pub(super) fn anything() -> Range {
        Range::int(-ENOUGH, ENOUGH)
    }

    /// All values of an integer type.
    pub(super) fn full(width: u32, signed: bool) -> Range {
        let top = 1i128 << (width - u32::from(signed));
        Range::int(if signed { -top } else { 0 }, top - 1)
    }

    pub(super) fn of(scalar: Scalar) -> Range {
        match scalar {
            Scalar::Int { width, signed } => Range::full(width, signed),
            _ => Range::int(0, 0),
        }
    }

    fn scaled(self, frac: u32) -> Range {
        let by = frac - self.frac;
        Range::new(self.lo << by, self.hi << by, frac)
    }

    fn common(self, other: Range) -> (Range, Range) {
        let frac = self.frac.max(other.frac);
        (self.scaled(frac), other.scaled(frac))
    }

    pub(super) fn hull(self, other: Range) -> Range {
        let (a, b) = self.common(other);
        Range::new(a.lo.min(b.lo), a.hi.max(b.hi), a.frac)
    }

    pub(super) fn within(self, other: Range) -> bool {
        let (a, b) = self.common(other);
        a.frac == other.frac && a.lo >= b.lo && a.hi <= b.hi
    }

    pub(super) fn plus(self, other: Range) -> Range {
        let (a, b) = self.common(other);
        Range::new(a.lo + b.lo, a.hi + b.hi, a.frac)
    }

    pub(super) fn negated(self) -> Range {
        Range::new(-self.hi, -self.lo, self.frac)
    }

    /// The sum of `n` products, each as large as it can be of either sign.
    pub(super) fn products(self, other: Range, n: u32) -> Range {
        if self.is_wild() || other.is_wild() {
            return Range::anything();
        }
        let most = self.magnitude().saturating_mul(other.magnitude()).saturating_mul(i128::from(n)).min(ENOUGH);
        let least = if self.lo >= 0 && other.lo >= 0 { 0 } else { -most };
        Range::new(least, most, self.frac + other.frac)
    }

    /// `n` times as far in either direction.
    pub(super) fn times(self, n: u32) -> Range {
        if self.is_wild() {
            return self;
        }
        let n = i128::from(n);
        let times = |v: i128| v.saturating_mul(n).clamp(-ENOUGH, ENOUGH);
        Range::new(times(self.lo).min(0), times(self.hi).max(0), self.frac)
    }

    pub(super) fn mul(self, other: Range) -> Range {
        if self.is_wild() || other.is_wild() {
            return Range::anything();
        }
        let products = [(self.lo, other.lo), (self.lo, other.hi), (self.hi, other.lo), (self.hi, other.hi)]
            .map(|(a, b)| a.saturating_mul(b).clamp(-ENOUGH, ENOUGH));
        let (lo, hi) = products.iter().fold((i128::MAX, i128::MIN), |(l, h), p| (l.min(*p), h.max(*p)));
        Range::new(lo, hi, self.frac + other.frac)
    }

    /// Divided by `2^by`.
    pub(super) fn halved(self, by: u32) -> Range {
        Range { frac: self.frac + by, ..self }
    }

    /// The integers that truncation leaves.
    pub(super) fn truncated(self) -> Range {
        let one = 1i128 << self.frac;
        Range::int(self.lo / one, self.hi / one)
    }

    /// Returns true if it may be anything, or something near.
    fn is_wild(self) -> bool {
        self.magnitude() > ENOUGH / 2
    }

    fn magnitude(self) -> i128 {
        self.lo.abs().max(self.hi.abs())
    }

    /// Returns true if every such value, and every sum on the way to it, is exact in the type (for integers: does not
    /// wrap).
    pub(super) fn fits(self, scalar: Scalar) -> bool {
        let mantissa = match scalar {
            Scalar::Int { width, signed } => return self.within(Range::full(width, signed)),
            Scalar::BF16 => 8,
            Scalar::Float { width: 16 } => 11,
            Scalar::Float { width: 32 } => 24,
            Scalar::Float { .. } => 53,
            Scalar::Encoded { .. } => 2,
        };
        let narrow = scalar == Scalar::Float { width: 16 };
        self.frac <= MAX_FRAC && self.magnitude() <= 1 << mantissa && (!narrow || self.magnitude() >> self.frac < 65504)
    }

    /// Returns the range after clamping to an integer type.
    pub(super) fn clamped(self, scalar: Scalar) -> Range {
        let all = Range::of(scalar);
        Range::int(self.lo.clamp(all.lo, all.hi), self.hi.clamp(all.lo, all.hi))
    }

    /// Returns the range after a conversion to another component type, if that is defined and exact, or wraps.
    pub(super) fn converted(self, from: Scalar, to: Scalar) -> Option<Range> {
        match (from.is_int(), to) {
            (false, Scalar::Int { signed, .. }) => {
                let range = self.truncated();
                (range.fits(to) && (signed || self.lo >= 0)).then_some(range)
            }
            _ => self.wrapped(to),
        }
    }

    /// The range itself if it fits; of an integer type else all values, as it wraps; `None` for floats.
    pub(super) fn wrapped(self, scalar: Scalar) -> Option<Range> {
        if self.fits(scalar) {
            return Some(self);
        }
        scalar.is_int().then(|| Range::of(scalar))
    }
}
