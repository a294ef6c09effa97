//! The tolerances of comparisons of buffers.
//!
//! In every class of tolerance a NaN equals any other NaN and nothing else, and an infinity equals itself only. `exact` tells
//! zeros of different signs apart; the others do not. `derived`, the default, allows each element as much as
//! `Bounds` say, and is `exact` where they say nothing.

use std::fmt;

use serde::Deserialize;

/// The tolerances of comparisons of buffers.
#[derive(Clone, Copy, PartialEq, Debug, Default, Deserialize)]
#[serde(try_from = "Written")]
pub enum Tolerance {
    /// As far apart as correct implementations may be, as the interpreter derives it; exact where nothing inexact is
    /// computed.
    #[default]
    Derived,
    /// The same bits.
    Exact,
    /// At most this many representable values apart.
    Ulp(u64),
    /// |got - wanted| at most abs + rel * |wanted|.
    Near {
        /// The absolute part.
        abs: f64,
        /// The relative part.
        rel: f64,
    },
    /// The sum of squared errors over the sum of squares is at most this, for the buffer as a whole.
    Nmse(f64),
    /// The sums of `group` consecutive elements are `Near` each other. How a sum is split among its elements is free.
    Sums {
        /// The number of elements in a sum.
        group: u64,
        /// The absolute part.
        abs: f64,
        /// The relative part.
        rel: f64,
    },
    /// Anything goes.
    Any,
}

/// A tolerance as the case file writes it.
#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Word(String),
    Ulp(OnlyUlp),
    Nmse(OnlyNmse),
    Near(OnlyNear),
    Sums(OnlySums),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OnlyUlp {
    ulp: i64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OnlyNmse {
    nmse: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OnlyNear {
    #[serde(default)]
    abs: f64,
    #[serde(default)]
    rel: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OnlySums {
    #[serde(rename = "sums-of")]
    sums_of: u64,
    #[serde(default)]
    abs: f64,
    #[serde(default)]
    rel: f64,
}

impl TryFrom<Written> for Tolerance {
    type Error = String;

    fn try_from(written: Written) -> Result<Tolerance, String> {
        let positive = |name, value: f64| {
            if value >= 0.0 { Ok(value) } else { Err(format!("tolerance: {name} is {value}, not 0 or more")) }
        };
        match written {
            Written::Word(word) if word == "exact" => Ok(Tolerance::Exact),
            Written::Word(word) if word == "any" => Ok(Tolerance::Any),
            Written::Word(word) if word == "derived" => Ok(Tolerance::Derived),
            Written::Sums(OnlySums { sums_of: 0, .. }) => Err("tolerance: sums-of is 0".into()),
            Written::Sums(OnlySums { sums_of, abs, rel }) => {
                Ok(Tolerance::Sums { group: sums_of, abs: positive("abs", abs)?, rel: positive("rel", rel)? })
            }
            Written::Word(word) => Err(format!(
                "tolerance: '{word}' is not \"derived\", \"exact\", \"any\", {{ ulp }}, {{ abs, rel }}, {{ nmse }} or {{ sums-of, abs, rel }}"
            )),
            Written::Ulp(OnlyUlp { ulp }) => {
                u64::try_from(ulp).map(Tolerance::Ulp).map_err(|_| format!("tolerance: ulp is {ulp}, not 0 or more"))
            }
            Written::Nmse(OnlyNmse { nmse }) => positive("nmse", nmse).map(Tolerance::Nmse),
            Written::Near(OnlyNear { abs, rel }) => {
                Ok(Tolerance::Near { abs: positive("abs", abs)?, rel: positive("rel", rel)? })
            }
        }
    }
}

impl Tolerance {
    /// Returns the tolerance that counts where no bounds are derived.
    pub(crate) fn without_bounds(self) -> Tolerance {
        if self == Tolerance::Derived { Tolerance::Exact } else { self }
    }
}

impl fmt::Display for Tolerance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Tolerance::Derived => f.write_str("derived"),
            Tolerance::Exact => f.write_str("exact"),
            Tolerance::Ulp(ulp) => write!(f, "{ulp} ulp"),
            Tolerance::Near { abs, rel } => write!(f, "abs {abs:e} + rel {rel:e}"),
            Tolerance::Nmse(nmse) => write!(f, "nmse {nmse:e}"),
            Tolerance::Sums { group, abs, rel } => write!(f, "sums of {group}: abs {abs:e} + rel {rel:e}"),
            Tolerance::Any => f.write_str("any"),
        }
    }
}
