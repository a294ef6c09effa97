//! What can be said about a condition on constants.

use coop_ir::constant::{Comparison, Const, SpecIds};

/// What can be said about a condition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// It holds; with the values in the file, at least.
    Holds,
    /// It does not, whatever is specialised.
    Broken,
    /// It does not with the values in the file; these SpecIds may mend it.
    BrokenByDefault(SpecIds),
    /// Nothing.
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
