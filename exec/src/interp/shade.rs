//! What is known about a value besides its bits: that it is undefined, or how far another implementation's value may be from it.
//!
//! A distance is absolute, in the numbers of the type that the value was computed in; it is rounded up. It travels with the value
//! through registers and memory (`spread` says what instructions make of it). A value with an infinite distance may be anything, and
//! be right; where the distance is NaN, none is known.

/// What is known about a value besides its bits.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) enum Shade {
    /// Every implementation has this value.
    #[default]
    Sure,
    /// Another one's may be this far away.
    Near {
        /// The distance; infinite: anything is right; NaN: none is known.
        by: f32,
        /// True if the value is a float; else it is an integer or a Boolean.
        float: bool,
    },
    /// There is no value.
    Undefined,
}

impl Shade {
    /// Nothing is known, but that it is not undefined.
    pub(super) const UNKNOWN: Shade = Shade::Near { by: f32::NAN, float: true };

    /// At a distance of a float, or of an integer.
    pub(super) fn near(by: f64, float: bool) -> Shade {
        if by == 0.0 {
            return Shade::Sure;
        }
        let narrow = by as f32;
        let up = if f64::from(narrow) < by { narrow.next_up() } else { narrow };
        Shade::Near { by: up, float }
    }

    pub(super) fn undefined_if(undefined: bool) -> Shade {
        if undefined { Shade::Undefined } else { Shade::Sure }
    }

    pub(super) fn is_undefined(self) -> bool {
        self == Shade::Undefined
    }

    pub(super) fn is_near(self) -> bool {
        matches!(self, Shade::Near { .. })
    }

    /// The distance as a number of a kind (float or not); NaN for one of the other kind, and for what is undefined.
    pub(super) fn by(self, as_float: bool) -> f64 {
        match self {
            Shade::Sure => 0.0,
            Shade::Near { by, float } if float == as_float || by == f32::INFINITY => f64::from(by),
            _ => f64::NAN,
        }
    }

    /// Of a value that was made of two in a way that nothing more is known about.
    pub(super) fn with(self, other: Shade) -> Shade {
        match (self, other) {
            (Shade::Undefined, _) | (_, Shade::Undefined) => Shade::Undefined,
            (Shade::Sure, Shade::Sure) => Shade::Sure,
            (Shade::Near { by, float }, other) | (other, Shade::Near { by, float })
                if by == f32::INFINITY && other.by(float) >= 0.0 =>
            {
                Shade::Near { by, float }
            }
            _ => Shade::UNKNOWN,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_rounded_up() {
        let tenth = Shade::near(0.1, true).by(true);
        assert!((0.1..0.1000001).contains(&tenth));
        assert_eq!(Shade::near(0.0, true), Shade::Sure);
        assert_eq!(Shade::near(1e300, true).by(false), f64::INFINITY);
        assert!(Shade::near(f64::NAN, true).by(true).is_nan());
        assert!(Shade::near(1.0, true).by(false).is_nan());
        assert!(Shade::Sure.with(Shade::near(1.0, true)).by(true).is_nan());
        assert_eq!(Shade::Sure.with(Shade::near(f64::INFINITY, true)).by(true), f64::INFINITY);
        assert_eq!(Shade::UNKNOWN.with(Shade::Undefined), Shade::Undefined);
    }
}
