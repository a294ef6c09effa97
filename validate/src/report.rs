//! The findings of a check.

use crate::options::Options;
use crate::producer::{Deviation, Producer};
use crate::rule::{Level, Rule};
use crate::verdict::Verdict;
use coop_ir::InstRef;
use coop_ir::constant::SpecIds;
use std::collections::BTreeMap;

/// The most findings of one rule that are kept.
const MAX_PER_RULE: usize = 20;

/// A part of an instruction.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Part {
    /// All of it.
    Whole,
    /// Its result type.
    Type,
    /// Its result.
    Result,
    /// An operand, counted in words without result type and result.
    Operand(usize),
}

/// An instruction or a part of it, with a text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Label {
    /// The instruction.
    pub at: InstRef,
    /// The part of it.
    pub part: Part,
    /// At most 60 characters.
    pub text: String,
}

/// One violation of one rule.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The rule.
    pub rule: &'static Rule,
    /// The level, after the user's options.
    pub level: Level,
    /// The message: lower case (letters of matrices excepted), no final period.
    pub message: String,
    /// The guilty instruction.
    pub at: InstRef,
    /// The labels, the guilty instruction first.
    pub labels: Vec<Label>,
    /// The remedy.
    pub help: Option<String>,
    /// A deviation of the module's producer that explains it; also in the help.
    pub deviation: Option<&'static Deviation>,
    /// The SpecIds on whose defaults the verdict depends; empty if there are none.
    pub defaults: Vec<u32>,
}

/// The result of a check.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Sorted by instruction, then by rule; of each rule the first 20.
    pub findings: Vec<Finding>,
    /// Rules with more findings than are kept, and how many more.
    pub omitted: Vec<(&'static Rule, usize)>,
    /// The number of conditions that could not be decided, because a value is not known.
    pub undecided: usize,
    /// The highest level, including findings that are not kept.
    pub worst: Option<Level>,
}

impl Report {
    /// Returns true if there is no error.
    pub fn is_ok(&self) -> bool {
        self.worst != Some(Level::Error)
    }

    /// Returns the errors for which a module can't be lowered or run on a device: all except strides that violate an
    /// alignment, and interfaces with too many variables. Lowered code accesses elements at any alignment, and drivers are known
    /// to do so, and to take such interfaces.
    pub fn blocking(&self) -> impl Iterator<Item = &Finding> {
        let tolerated = [crate::rules::stride::MISALIGNED.id, crate::rules::form::INTERFACE.id];
        self.findings.iter().filter(move |f| f.level == Level::Error && !tolerated.contains(&f.rule.id))
    }

    /// Keeps the findings for which `keep` returns true. The highest level follows, but where more was found than is kept.
    pub fn retain(&mut self, keep: impl FnMut(&Finding) -> bool) {
        self.findings.retain(keep);
        if self.omitted.is_empty() {
            self.worst = self.findings.iter().map(|f| f.level).max();
        }
    }

    /// Returns the number of kept findings of this level.
    pub fn count(&self, level: Level) -> usize {
        self.findings.iter().filter(|f| f.level == level).count()
    }
}

/// A finding under construction, without rule, level and instruction.
#[derive(Debug)]
pub(crate) struct Draft {
    message: String,
    labels: Vec<Label>,
    help: Option<String>,
}

impl Draft {
    pub(crate) fn new(message: impl Into<String>) -> Draft {
        Draft { message: message.into(), labels: Vec::new(), help: None }
    }

    pub(crate) fn label(mut self, at: InstRef, part: Part, text: impl Into<String>) -> Draft {
        self.labels.push(Label { at, part, text: text.into() });
        self
    }

    /// Adds a label if there is an instruction for it.
    pub(crate) fn label_opt(self, at: Option<InstRef>, part: Part, text: impl Into<String>) -> Draft {
        match at {
            Some(at) => self.label(at, part, text),
            None => self,
        }
    }

    pub(crate) fn help(mut self, text: impl Into<String>) -> Draft {
        self.help = Some(text.into());
        self
    }
}

/// Collects findings from the rules.
pub(crate) struct Sink<'a> {
    options: &'a Options,
    producer: Producer<'a>,
    report: Report,
    counts: BTreeMap<&'static str, (&'static Rule, usize)>,
}

impl<'a> Sink<'a> {
    pub(crate) fn new(options: &'a Options, producer: Producer<'a>) -> Sink<'a> {
        Sink { options, producer, report: Report::default(), counts: BTreeMap::new() }
    }

    /// Returns true if violations of `rule` are reported.
    pub(crate) fn wants(&self, rule: &Rule) -> bool {
        self.options.wants(self.options.level(rule, false, false))
    }

    /// Reports that `rule` is violated at `at`.
    pub(crate) fn report(&mut self, rule: &'static Rule, at: InstRef, draft: impl FnOnce() -> Draft) {
        self.judge(rule, Verdict::Broken, at, draft);
    }

    /// Reports that `rule` may be violated at `at`: a warning, unless the user sets another level.
    pub(crate) fn suspect(&mut self, rule: &'static Rule, at: InstRef, draft: impl FnOnce() -> Draft) {
        self.judge(rule, Verdict::BrokenByDefault(SpecIds::default()), at, draft);
    }

    /// Reports unless the verdict is that the rule holds, or that nothing is known.
    pub(crate) fn judge(&mut self, rule: &'static Rule, verdict: Verdict, at: InstRef, draft: impl FnOnce() -> Draft) {
        let specs = match verdict {
            Verdict::Holds => return,
            Verdict::Unknown => {
                self.report.undecided += 1;
                return;
            }
            Verdict::Broken => None,
            Verdict::BrokenByDefault(specs) => Some(specs),
        };
        let deviation = self.producer.deviation(rule.id);
        let accepted = deviation.is_some_and(|d| d.accepted);
        let level = self.options.level(rule, specs.is_some(), accepted);
        if !self.options.wants(level) {
            return;
        }
        self.report.worst = self.report.worst.max(Some(level));
        let count = &mut self.counts.entry(rule.id).or_insert((rule, 0)).1;
        *count += 1;
        if *count > MAX_PER_RULE {
            return;
        }
        let Draft { mut message, mut labels, mut help } = draft();
        let defaults: Vec<u32> = specs.iter().flat_map(|s| s.iter()).collect();
        if let Some(specs) = specs.as_ref().filter(|s| !s.is_empty()) {
            let s = if defaults.len() == 1 { "" } else { "s" };
            message.push_str(&format!(" with the default{s} of {specs}"));
            let give: Vec<String> = defaults.iter().take(4).map(|id| format!("--spec {id}=...")).collect();
            let more = if defaults.len() > 4 { " and so on" } else { "" };
            let advice = format!("pass `{}`{more} to check what is shipped", give.join(" "));
            help = Some(match help {
                Some(help) => format!("{advice}; {help}"),
                None => advice,
            });
        }
        if let Some(d) = deviation {
            help = Some(match help {
                Some(help) => format!("{help}; {}", d.words),
                None => d.words.to_owned(),
            });
        }
        if !labels.iter().any(|l| l.at == at) {
            labels.insert(0, Label { at, part: Part::Whole, text: "here".into() });
        }
        self.report.findings.push(Finding { rule, level, message, at, labels, help, deviation, defaults });
    }

    /// Returns true if a warning or an error about an instruction is kept.
    pub(crate) fn has_warning(&self, at: InstRef) -> bool {
        self.report.findings.iter().any(|f| f.at == at && f.level >= Level::Warning)
    }

    pub(crate) fn finish(mut self) -> Report {
        self.report.findings.sort_by_key(|f| (f.at, f.rule.id));
        let counts = std::mem::take(&mut self.counts);
        self.report.omitted =
            counts.into_values().filter(|(_, n)| *n > MAX_PER_RULE).map(|(r, n)| (r, n - MAX_PER_RULE)).collect();
        self.report
    }
}
