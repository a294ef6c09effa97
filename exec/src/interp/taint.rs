//! The taint of a value: that it is undefined, how far another implementation's value may be from it, or its term.
//!
//! An error bound is absolute, in the numbers of the type that the value was computed in, and rounded up. It travels
//! with the value through registers and memory (see `error_bound`). An infinite bound means that any value is right;
//! NaN means that no bound is known.

use super::symbolic::term::Term;

/// The taint of a value.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) enum Taint {
    /// Every implementation has this value.
    #[default]
    Exact,
    /// The value of another implementation may be this far away.
    Inexact {
        /// The bound. Infinite: any value is right. NaN: none is known.
        bound: f32,
        /// True if the value is a float, false if it is an integer or a Boolean.
        float: bool,
    },
    /// The value is undefined.
    Undefined,
    /// The value depends on the contents of data buffers. In symbolic runs only, which have no error bounds.
    Term(Term),
}

impl Taint {
    /// Defined, with an unknown error bound; in a symbolic run, with an unknown term.
    pub(super) const UNKNOWN: Taint = Taint::Inexact { bound: f32::NAN, float: true };

    /// Returns the taint of a float or an integer with an error bound.
    pub(super) fn inexact(by: f64, float: bool) -> Taint {
        if by == 0.0 {
            return Taint::Exact;
        }
        let narrow = by as f32;
        let up = if f64::from(narrow) < by { narrow.next_up() } else { narrow };
        Taint::Inexact { bound: up, float }
    }

    pub(super) fn undefined_if(undefined: bool) -> Taint {
        if undefined { Taint::Undefined } else { Taint::Exact }
    }

    /// Returns the taint of what is computed with the concrete value of a term, after that was recorded as a decision.
    pub(super) fn decided(self) -> Taint {
        if let Taint::Term(_) = self { Taint::Exact } else { self }
    }

    /// Returns true if two equal values stay equal for other data: they are the same term, or do not depend on it.
    pub(super) fn is_same_term(self, other: Taint) -> bool {
        match (self, other) {
            (Taint::Term(a), Taint::Term(b)) => a.key() == b.key(),
            (Taint::Term(_), _) | (_, Taint::Term(_)) => false,
            _ => true,
        }
    }

    pub(super) fn is_undefined(self) -> bool {
        self == Taint::Undefined
    }

    pub(super) fn is_inexact(self) -> bool {
        matches!(self, Taint::Inexact { .. })
    }

    /// Returns the error bound of a value read as a float or as an integer; NaN if it was computed as the other, or is
    /// undefined.
    pub(super) fn bound(self, as_float: bool) -> f64 {
        match self {
            Taint::Exact => 0.0,
            Taint::Inexact { bound, float } if float == as_float || bound == f32::INFINITY => f64::from(bound),
            _ => f64::NAN,
        }
    }

    /// Returns the taint of a value that depends on two others in a way that is not known.
    pub(super) fn with(self, other: Taint) -> Taint {
        match (self, other) {
            (Taint::Undefined, _) | (_, Taint::Undefined) => Taint::Undefined,
            (Taint::Exact, Taint::Exact) => Taint::Exact,
            (Taint::Term(_), _) | (_, Taint::Term(_)) => Taint::UNKNOWN,
            (Taint::Inexact { bound, float }, other) | (other, Taint::Inexact { bound, float })
                if bound == f32::INFINITY && other.bound(float) >= 0.0 =>
            {
                Taint::Inexact { bound, float }
            }
            _ => Taint::UNKNOWN,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_rounded_up() {
        let tenth = Taint::inexact(0.1, true).bound(true);
        assert!((0.1..0.1000001).contains(&tenth));
        assert_eq!(Taint::inexact(0.0, true), Taint::Exact);
        assert_eq!(Taint::inexact(1e300, true).bound(false), f64::INFINITY);
        assert!(Taint::inexact(f64::NAN, true).bound(true).is_nan());
        assert!(Taint::inexact(1.0, true).bound(false).is_nan());
        assert!(Taint::Exact.with(Taint::inexact(1.0, true)).bound(true).is_nan());
        assert_eq!(Taint::Exact.with(Taint::inexact(f64::INFINITY, true)).bound(true), f64::INFINITY);
        assert_eq!(Taint::UNKNOWN.with(Taint::Undefined), Taint::Undefined);
    }
}
