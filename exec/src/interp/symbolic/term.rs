//! Terms: what a value is as an expression over the contents of the data buffers, known by its fingerprint.
//!
//! Invariants: a term stands for one bit pattern of `width` bits for each content of the buffers. Two terms with the same
//! [`Key`] stand for the same bits, but for the probability that docs/proofs.md derives; different keys say nothing.
//! A value without a term is the same for all contents. [`super::Symbols`] makes terms, and makes each in one way only:
//! what is a slice of a buffer's contents is an `Input`, never `Bits` of one part.

use super::super::num::Num;
use super::field::Fp;

/// The kind of a fingerprint.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(in crate::interp) enum Sort {
    /// The value of the number of a float format, in the field.
    F16,
    Bf16,
    F32,
    F64,
    E4M3,
    E5M2,
    E2M1,
    E8M0,
    /// The value of a polynomial with integer coefficients, in the field; the bits are the low bits of that integer.
    Ring,
    /// No hash: the number of a buffer and the first bit in it. The bits are what the buffer held before the run.
    Input,
    /// A hash of the parts that the bits are made of.
    Bits,
    /// A hash of an operation and its operands.
    Opaque,
}

impl Sort {
    /// Returns the sort of the results of float arithmetic in a format; `None` for integers.
    pub(super) fn of(num: Num) -> Option<Sort> {
        Some(match num {
            Num::F16 => Sort::F16,
            Num::Bf16 => Sort::Bf16,
            Num::F32 => Sort::F32,
            Num::F64 => Sort::F64,
            Num::E4M3 => Sort::E4M3,
            Num::E5M2 => Sort::E5M2,
            Num::E2M1 => Sort::E2M1,
            Num::E8M0 => Sort::E8M0,
            Num::Bool | Num::Int { .. } => return None,
        })
    }

    /// Returns the float format, the inverse of [`Sort::of`].
    pub(super) fn format(self) -> Option<Num> {
        Some(match self {
            Sort::F16 => Num::F16,
            Sort::Bf16 => Num::Bf16,
            Sort::F32 => Num::F32,
            Sort::F64 => Num::F64,
            Sort::E4M3 => Num::E4M3,
            Sort::E5M2 => Num::E5M2,
            Sort::E2M1 => Num::E2M1,
            Sort::E8M0 => Num::E8M0,
            Sort::Ring | Sort::Input | Sort::Bits | Sort::Opaque => return None,
        })
    }
}

/// A bound of the degree of a fraction of polynomials over the symbols, and how the fraction came about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::interp) struct Degree(u16);

impl Degree {
    pub(super) const CONSTANT: Degree = Degree(0);
    pub(super) const SYMBOL: Degree = Degree(1);
    /// The degree of the result of an uninterpreted function, which is a symbol of its own.
    pub(super) const FUNCTION: Degree = Degree(1 | Degree::UNINTERPRETED);
    /// Set if the denominator is not constant.
    const FRACTION: u16 = 1 << 15;
    /// Set if an uninterpreted function is among the symbols.
    const UNINTERPRETED: u16 = 1 << 14;
    /// The largest bound; there it no longer bounds anything.
    const MOST: u16 = Degree::UNINTERPRETED - 1;

    fn with(self, other: Degree, bound: u16, fraction: bool) -> Degree {
        let flags = (self.0 | other.0) & (Degree::FRACTION | Degree::UNINTERPRETED);
        Degree(flags | if fraction { Degree::FRACTION } else { 0 } | bound.min(Degree::MOST))
    }

    /// Returns the bound, or `None` if it is lost.
    pub(super) fn bound(self) -> Option<u32> {
        let bound = self.0 & Degree::MOST;
        (bound < Degree::MOST).then_some(u32::from(bound))
    }

    pub(super) fn is_uninterpreted(self) -> bool {
        self.0 & Degree::UNINTERPRETED != 0
    }

    /// Returns the bound for a number of which the symbols say less than its value.
    pub(super) fn uninterpreted(self) -> Degree {
        Degree(self.0 | Degree::UNINTERPRETED)
    }

    pub(super) fn of_sum(self, other: Degree) -> Degree {
        let (a, b) = (self.0 & Degree::MOST, other.0 & Degree::MOST);
        let fraction = (self.0 | other.0) & Degree::FRACTION != 0;
        // Over a common denominator.
        self.with(other, if fraction { a + b } else { a.max(b) }, fraction)
    }

    pub(super) fn of_product(self, other: Degree) -> Degree {
        self.with(other, (self.0 & Degree::MOST) + (other.0 & Degree::MOST), false)
    }

    pub(super) fn of_quotient(self, divisor: Degree) -> Degree {
        let fraction = divisor.0 & !Degree::UNINTERPRETED != 0;
        self.with(divisor, (self.0 & Degree::MOST) + (divisor.0 & Degree::MOST), fraction)
    }
}

/// A term. It has the size of three words of 32 bits, because each register has room for one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::interp) struct Term {
    fingerprint: [u32; 2],
    degree: Degree,
    width: u8,
    sort: Sort,
}

/// The identity of a term: equal for terms that stand for the same bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(in crate::interp) struct Key {
    pub fingerprint: u64,
    pub width: u8,
    pub sort: Sort,
}

impl Term {
    pub(super) fn new(sort: Sort, width: u32, fingerprint: u64, degree: Degree) -> Term {
        Term { fingerprint: [fingerprint as u32, (fingerprint >> 32) as u32], degree, width: width as u8, sort }
    }

    /// The bits of a buffer from `first` on.
    pub(super) fn input(buffer: u32, first: u64, width: u32) -> Term {
        Term::new(Sort::Input, width, u64::from(buffer) << 48 | first, Degree::SYMBOL)
    }

    /// Returns the buffer and the first bit of an input.
    pub(super) fn as_input(self) -> Option<(u32, u64)> {
        let f = self.fingerprint();
        (self.sort == Sort::Input).then_some(((f >> 48) as u32, f & ((1 << 48) - 1)))
    }

    pub(super) fn fingerprint(self) -> u64 {
        u64::from(self.fingerprint[0]) | u64::from(self.fingerprint[1]) << 32
    }

    pub(super) fn sort(self) -> Sort {
        self.sort
    }

    pub(super) fn width(self) -> u32 {
        u32::from(self.width)
    }

    pub(super) fn degree(self) -> Degree {
        self.degree
    }

    pub(in crate::interp) fn key(self) -> Key {
        Key { fingerprint: self.fingerprint(), width: self.width, sort: self.sort }
    }

    /// Returns the number in the field, if the fingerprint is that of a float of the format.
    pub(super) fn number(self, format: Num) -> Option<Fp> {
        (Sort::of(format) == Some(self.sort)).then(|| Fp::from_bits(self.fingerprint()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_have_room_for_a_term() {
        assert_eq!(size_of::<Term>(), 12);
        assert_eq!(size_of::<super::super::super::taint::Taint>(), 12);
    }

    #[test]
    fn degrees_are_bounded_from_above() {
        let x = Degree::SYMBOL;
        assert_eq!(x.of_product(x).of_sum(x).bound(), Some(2));
        assert_eq!(Degree::CONSTANT.of_quotient(x).of_sum(x.of_quotient(x)).bound(), Some(3));
        assert_eq!(x.of_quotient(Degree::CONSTANT).of_sum(x).bound(), Some(1));
        let mut power = x;
        for _ in 0..20 {
            power = power.of_product(power);
        }
        assert_eq!(power.bound(), None);
        assert!(power.of_product(Degree::FUNCTION).is_uninterpreted());
        assert!(!power.is_uninterpreted());
    }
}
