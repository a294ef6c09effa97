//! The kinds of reasons why a lowering of a campaign is neither proved nor refuted: docs/proofs.md explains each.

use coop_exec::interp::ExpressionDifference;
use coop_exec::proof::{Cause, Open};

/// A law that would make two expressions equal, and that a proof does not know.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Law {
    /// A sum that is clamped after each step is one that is clamped once, for data that never leave the range in between.
    Clamp,
    /// Integer instructions round a float.
    IntegerRounding,
    /// A choice has the value of an expression without one.
    Choice,
}

impl Law {
    /// Every law.
    pub const ALL: [Law; 3] = [Law::Clamp, Law::IntegerRounding, Law::Choice];

    /// Returns the law that two expressions ask for.
    fn of(difference: &ExpressionDifference) -> Option<Law> {
        let [original, lowered] = &difference.functions;
        let only = |name: &str| lowered.contains(name) && !original.contains(name);
        Some(match () {
            () if original.contains("saturating MulAdd") => Law::Clamp,
            () if only("UGreaterThan") && only("BitwiseAnd") => Law::IntegerRounding,
            () if only("Select") => Law::Choice,
            () => return None,
        })
    }
}

/// A kind of reason.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Reason {
    /// The proof itself says why.
    Cause(Cause),
    /// A law is not known.
    Law(Law),
}

impl Reason {
    /// Returns every kind.
    pub fn all() -> impl Iterator<Item = Reason> {
        let causes = Cause::ALL.into_iter().filter(|cause| *cause != Cause::UnknownLaw).map(Reason::Cause);
        causes.chain(Law::ALL.map(Reason::Law))
    }

    /// Returns the kind of a reason; `None` where two expressions differ by a law that nobody has named.
    pub fn of(open: &Open, difference: Option<&ExpressionDifference>) -> Option<Reason> {
        match open.cause {
            Cause::UnknownLaw => difference.and_then(Law::of).map(Reason::Law),
            cause => Some(Reason::Cause(cause)),
        }
    }

    /// Returns the name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Reason::Cause(cause) => cause.name(),
            Reason::Law(Law::Clamp) => "law-of-clamps",
            Reason::Law(Law::IntegerRounding) => "law-of-integer-rounding",
            Reason::Law(Law::Choice) => "law-of-choices",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use coop_exec::testing::repository;
    use std::collections::BTreeSet;

    #[test]
    fn every_kind_is_explained() {
        let page = std::fs::read_to_string(repository().join("docs/proofs.md")).expect("the page is there");
        let names: Vec<&str> = Reason::all().map(Reason::name).collect();
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
        let missing: Vec<&&str> = names.iter().filter(|name| !page.contains(&format!("| `{name}` |"))).collect();
        assert!(missing.is_empty(), "docs/proofs.md does not explain {missing:?}");
    }
}
