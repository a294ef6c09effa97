//! The verdict about a condition on constants.

use coop_ir::constant::{Comparison, Const, SpecIds};

/// The verdict about a condition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// It holds, at least with the values in the file.
    Holds,
    /// It is violated under every specialization.
    Broken,
    /// It is violated with the values in the file; specializing one of these may change that.
    BrokenByDefault(SpecIds),
    /// Not known.
    Unknown,
}

impl From<Comparison> for Verdict {
    /// Returns true if two constants are equal.
    fn from(c: Comparison) -> Verdict {
        match c {
            Comparison::Equal | Comparison::EqualByDefault => Verdict::Holds,
            Comparison::Different => Verdict::Broken,
            Comparison::DifferentByDefault(specs) => Verdict::BrokenByDefault(specs),
            Comparison::Unknown => Verdict::Unknown,
        }
    }
}

impl From<bool> for Verdict {
    fn from(holds: bool) -> Verdict {
        if holds { Verdict::Holds } else { Verdict::Broken }
    }
}

impl Verdict {
    /// Returns true if the value of a constant satisfies `ok`.
    pub(crate) fn of(constant: &Const, ok: impl FnOnce(u64) -> bool) -> Verdict {
        match constant {
            Const::Fixed(v) => ok(*v).into(),
            Const::Default { value, .. } if ok(*value) => Verdict::Holds,
            Const::Default { specs, .. } => Verdict::BrokenByDefault(specs.clone()),
            Const::Unknown => Verdict::Unknown,
        }
    }
}
