//! The options of a check.

use crate::device::Device;
use crate::env::TargetEnv;
use crate::rule::{self, Fate, Level, Rule};
use coop_ir::constant::Specialization;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// The options of a check.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Values of specialization constants.
    pub specialization: Specialization,
    /// The environment; by default that of the module.
    pub env: Option<TargetEnv>,
    /// The device, if its rules apply.
    pub device: Option<Arc<Device>>,
    /// The number of invocations of a subgroup.
    pub subgroup_size: Option<u32>,
    /// True if warnings are errors.
    pub deny_warnings: bool,
    /// True if barriers are checked in modules without matrices. Otherwise such modules are skipped.
    pub barriers: bool,
    /// True if findings below [`Level::Error`] are not made.
    pub errors_only: bool,
    levels: BTreeMap<&'static str, Level>,
}

/// A name that is not the name of a rule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnknownRule {
    /// The name.
    pub name: String,
    /// A suggestion, or the rule's fate.
    pub hint: String,
}

impl fmt::Display for UnknownRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no rule is called '{}'; {}", self.name, self.hint)
    }
}

impl std::error::Error for UnknownRule {}

impl Options {
    /// Sets the level of a rule.
    pub fn set_level(&mut self, name: &str, level: Level) -> Result<(), UnknownRule> {
        let rule = resolve(name)?;
        self.levels.insert(rule.id, level);
        Ok(())
    }

    /// Returns true if the user has turned a rule off.
    #[cfg(feature = "uniformity")]
    pub(crate) fn is_off(&self, rule: &Rule) -> bool {
        self.levels.get(rule.id) == Some(&Level::Allow)
    }

    /// Returns true if findings of a level are made.
    pub(crate) fn wants(&self, level: Level) -> bool {
        level > if self.errors_only { Level::Warning } else { Level::Allow }
    }

    /// Returns the number of invocations of a subgroup, if it is known.
    #[cfg(feature = "uniformity")]
    pub(crate) fn subgroups(&self) -> Option<u32> {
        let device = self.device.as_ref();
        let of_device = || device.map(|d| d.subgroup_size.unwrap_or(d.profile.limits.subgroup_size));
        self.subgroup_size.or_else(of_device)
    }

    /// Returns the level of a finding; `by_default` is set if it depends on defaults of specialization constants,
    /// `accepted` if it is a deviation of the module's producer that every consumer accepts.
    pub(crate) fn level(&self, rule: &Rule, by_default: bool, accepted: bool) -> Level {
        let level = match self.levels.get(rule.id) {
            Some(level) => *level,
            None if accepted => rule.level.min(Level::Note),
            None if by_default => rule.level.min(Level::Warning),
            None => rule.level,
        };
        if self.deny_warnings && level == Level::Warning { Level::Error } else { level }
    }
}

/// Returns the rule with a current or former name.
pub(crate) fn resolve(name: &str) -> Result<&'static Rule, UnknownRule> {
    if let Some(rule) = rule::find(name) {
        return Ok(rule);
    }
    let hint = match rule::fate(name) {
        Some(Fate::Renamed(new)) => match rule::find(new) {
            Some(rule) => return Ok(rule),
            None => format!("it became '{new}', which is gone too"),
        },
        Some(Fate::Removed(why)) => format!("it was removed: {why}"),
        None => match rule::nearest(name) {
            Some(near) => format!("did you mean '{}'?", near.id),
            None => "`coopcheck rules` lists them".to_owned(),
        },
    };
    Err(UnknownRule { name: name.to_owned(), hint })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_names_get_a_hint() {
        let e = Options::default().set_level("muladd-k-missmatch", Level::Allow).expect_err("no such rule");
        assert_eq!(e.to_string(), "no rule is called 'muladd-k-missmatch'; did you mean 'muladd-k-mismatch'?");
    }

    #[test]
    fn defaults_weaken_and_denying_strengthens() {
        let rule = rule::find("muladd-k-mismatch").expect("it exists");
        let mut o = Options::default();
        assert_eq!((o.level(rule, false, false), o.level(rule, true, false)), (Level::Error, Level::Warning));
        o.deny_warnings = true;
        assert_eq!(o.level(rule, true, false), Level::Error);
        o.set_level(rule.id, Level::Allow).expect("it exists");
        assert_eq!((o.level(rule, false, false), o.level(rule, true, false)), (Level::Allow, Level::Allow));
    }
}
