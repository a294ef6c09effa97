//! The declaration of rules, and their look-up by name.

use crate::rules::RULES;
use std::fmt;

/// The severity of a violation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Level {
    /// Not reported.
    Allow,
    /// Worth knowing.
    Note,
    /// Likely wrong, or wrong under an assumption.
    Warning,
    /// The module is invalid, or does something undefined.
    Error,
}

impl Level {
    /// Returns the name in lower case.
    pub fn name(self) -> &'static str {
        match self {
            Level::Allow => "allow",
            Level::Note => "note",
            Level::Warning => "warning",
            Level::Error => "error",
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A rule. [`declare_rule!`](crate::declare_rule) makes them.
#[derive(Debug)]
pub struct Rule {
    /// Family and defect in kebab-case: `muladd-k-mismatch`.
    pub id: &'static str,
    /// The defect, in one line.
    pub summary: &'static str,
    /// The level, unless the user sets another.
    pub level: Level,
    /// The first version with the rule.
    pub since: &'static str,
    /// The specification that it comes from.
    pub spec: &'static str,
    /// The Vulkan valid-usage identifiers that it covers.
    pub vuids: &'static [&'static str],
    /// The ids of the rule digest that it covers; `explain` finds it by them.
    pub digest: &'static [&'static str],
    /// Markdown with the headings *What it checks*, *Why*, *Example*.
    pub docs: &'static str,
    /// The source file, for contributors.
    pub file: &'static str,
}

impl Rule {
    /// Returns the first part of the id: the folder of its tests.
    pub fn family(&self) -> &'static str {
        self.id.split('-').next().unwrap_or(self.id)
    }

    /// Returns the documentation, without the space at the start of each doc comment line.
    pub fn docs(&self) -> impl Iterator<Item = &'static str> {
        self.docs.lines().map(|l| l.strip_prefix(' ').unwrap_or(l))
    }

    /// Returns the path of the example file.
    pub fn example_file(&self) -> String {
        format!("testdata/validate/{}/{}.spvasm", self.family(), self.id)
    }
}

/// Declares a rule: its documentation is the comment above it.
#[macro_export]
macro_rules! declare_rule {
    (
        $(#[doc = $doc:literal])+
        $vis:vis static $name:ident = {
            id: $id:literal,
            summary: $summary:literal,
            level: $level:ident,
            since: $since:literal,
            spec: $spec:literal,
            vuids: [$($vuid:literal),*],
            digest: [$($digest:literal),*] $(,)?
        }
    ) => {
        $(#[doc = $doc])+
        $vis static $name: $crate::rule::Rule = $crate::rule::Rule {
            id: $id,
            summary: $summary,
            level: $crate::rule::Level::$level,
            since: $since,
            spec: $spec,
            vuids: &[$($vuid),*],
            digest: &[$($digest),*],
            docs: concat!($($doc, "\n"),+),
            file: file!(),
        };
    };
}

/// The fate of a former rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// It was renamed.
    Renamed(&'static str),
    /// It was removed, for this reason.
    Removed(&'static str),
}

/// Former names of rules. A name is never dropped silently: it moves here.
pub static OLD_NAMES: &[(&str, Fate)] = &[("length-specialized", Fate::Renamed("portability-length-specialized"))];

/// Returns the rule with this id.
pub fn find(id: &str) -> Option<&'static Rule> {
    RULES.binary_search_by_key(&id, |r| r.id).ok().map(|i| RULES[i])
}

/// Returns the fate of the rule that once had this id.
pub fn fate(id: &str) -> Option<Fate> {
    OLD_NAMES.iter().find(|(old, _)| *old == id).map(|(_, fate)| *fate)
}

/// Returns the rules with a rule id, a VUID (or its end) or a digest id.
pub fn search(text: &str) -> Vec<&'static Rule> {
    if let Some(rule) = find(text) {
        return vec![rule];
    }
    let is_vuid = |v: &str| v == text || (text.len() >= 5 && v.strip_suffix(text).is_some_and(|s| s.ends_with('-')));
    RULES.iter().copied().filter(|r| r.digest.contains(&text) || r.vuids.iter().any(|v| is_vuid(v))).collect()
}

/// Returns the rule whose id is nearest to an unknown name.
pub fn nearest(name: &str) -> Option<&'static Rule> {
    find(coop_ir::nearest::nearest(name, RULES.iter().map(|r| r.id))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_to_rules() {
        let ids = |text: &str| search(text).iter().map(|r| r.id).collect::<Vec<_>>();
        assert_eq!(ids("muladd-k-mismatch"), ["muladd-k-mismatch"]);
        assert_eq!(ids("khr.muladd-k"), ["muladd-k-mismatch"]);
        assert_eq!(ids("VUID-StandaloneSpirv-Pointer-08973"), ["access-storage-class"]);
        assert_eq!(ids("08973"), ["access-storage-class"]);
        assert_eq!(ids("nothing"), [""; 0]);
        assert_eq!(nearest("muladd-k-missmatch").map(|r| r.id), Some("muladd-k-mismatch"));
        assert!(nearest("zzzzzzzzzzzzzzzzzzzzzzzz").is_none());
    }
}
