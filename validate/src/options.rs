//! What the user asks of a check.

use crate::device::Device;
use crate::env::TargetEnv;
use crate::rule::{self, Fate, Level, Rule};
use coop_ir::constant::Specialization;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// What the user asks of a check.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Values of specialization constants.
    pub specialization: Specialization,
    /// The environment; by the module if none is given.
    pub env: Option<TargetEnv>,
    /// The device whose rules apply too.
    pub device: Option<Arc<Device>>,
    /// How many invocations a subgroup has.
    pub subgroup_size: Option<u32>,
    /// True if warnings are errors.
    pub deny_warnings: bool,
    /// True if barriers are looked at in modules that have nothing about matrices. Without this such modules are
    /// answered at once.
    pub barriers: bool,
    levels: BTreeMap<&'static str, Level>,
}

/// A name that is no rule's.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnknownRule {
    /// The name.
    pub name: String,
    /// What may have been meant, or what became of it.
    pub hint: String,
}

impl fmt::Display for UnknownRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no rule is called '{}'; {}", self.name, self.hint)
    }
}

impl std::error::Error for UnknownRule {}

impl Options {
    /// Gives a rule another level.
    pub fn set_level(&mut self, name: &str, level: Level) -> Result<(), UnknownRule> {
        let rule = resolve(name)?;
        self.levels.insert(rule.id, level);
        Ok(())
    }

    /// Returns true if the user has turned a rule off.
    pub(crate) fn is_off(&self, rule: &Rule) -> bool {
        self.levels.get(rule.id) == Some(&Level::Allow)
    }

    /// How many invocations a subgroup has, as far as anybody says it.
    pub(crate) fn subgroups(&self) -> Option<u32> {
        let device = self.device.as_ref();
        let of_device = || device.map(|d| d.subgroup_size.unwrap_or(d.profile.limits.subgroup_size));
        self.subgroup_size.or_else(of_device)
    }

    /// The level of a finding; `by_default` says that it rests on defaults of specialization constants, `accepted` that
    /// it is a habit of the module's producer that every consumer accepts.
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

/// The rule of that name, now or formerly.
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
