//! What a check finds.

use crate::options::Options;
use crate::producer::{Deviation, Producer};
use crate::rule::{Level, Rule};
use crate::verdict::Verdict;
use coop_ir::InstRef;
use coop_ir::constant::SpecIds;
use std::collections::BTreeMap;

/// More findings of one rule than this are counted, not kept.
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

/// A place in the module and what to say about it.
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
    /// The level after the user's wishes.
    pub level: Level,
    /// What is wrong: lower case (letters of matrices excepted), no final period.
    pub message: String,
    /// The guilty instruction.
    pub at: InstRef,
    /// Places, the guilty instruction first.
    pub labels: Vec<Label>,
    /// What to do.
    pub help: Option<String>,
    /// A habit of the module's producer that explains it; part of the help too.
    pub deviation: Option<&'static Deviation>,
    /// The SpecIds on whose defaults the verdict rests; empty if it rests on none.
    pub defaults: Vec<u32>,
}

/// Everything that a check found.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Sorted by instruction, then by rule; of each rule the first 20.
    pub findings: Vec<Finding>,
    /// Rules with more findings than are listed, and how many more.
    pub omitted: Vec<(&'static Rule, usize)>,
    /// How many conditions could not be decided, because a value is not known.
    pub undecided: usize,
    /// The highest level found, findings that are not listed included.
    pub worst: Option<Level>,
}

impl Report {
    /// Returns true if there is no error.
    pub fn is_ok(&self) -> bool {
        self.worst != Some(Level::Error)
    }

    /// Returns the errors that keep a module from being lowered, or run on a device: those listed, but for strides that break
    /// an alignment. Lowered code reads elements wherever they are, and drivers are known to do so.
    pub fn blocking(&self) -> impl Iterator<Item = &Finding> {
        let alignment = crate::rules::stride::MISALIGNED.id;
        self.findings.iter().filter(move |f| f.level == Level::Error && f.rule.id != alignment)
    }

    /// How many findings have this level, those listed.
    pub fn count(&self, level: Level) -> usize {
        self.findings.iter().filter(|f| f.level == level).count()
    }
}

/// A finding under construction: all but rule, level and place.
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

    /// A label if there is a place for it.
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

/// Collects findings while the rules run.
pub(crate) struct Sink<'a> {
    options: &'a Options,
    producer: Producer,
    report: Report,
    counts: BTreeMap<&'static str, (&'static Rule, usize)>,
}

impl<'a> Sink<'a> {
    pub(crate) fn new(options: &'a Options, producer: Producer) -> Sink<'a> {
        Sink { options, producer, report: Report::default(), counts: BTreeMap::new() }
    }

    /// Reports that `rule` is broken at `at`.
    pub(crate) fn report(&mut self, rule: &'static Rule, at: InstRef, draft: impl FnOnce() -> Draft) {
        self.judge(rule, Verdict::Broken, at, draft);
    }

    /// Reports that `rule` may be broken at `at`: a warning, unless the user sets another level.
    pub(crate) fn suspect(&mut self, rule: &'static Rule, at: InstRef, draft: impl FnOnce() -> Draft) {
        self.judge(rule, Verdict::BrokenByDefault(SpecIds::default()), at, draft);
    }

    /// Reports unless the verdict is that the rule holds, or nothing is known.
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
        if level == Level::Allow {
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

    pub(crate) fn finish(mut self) -> Report {
        self.report.findings.sort_by_key(|f| (f.at, f.rule.id));
        let counts = std::mem::take(&mut self.counts);
        self.report.omitted =
            counts.into_values().filter(|(_, n)| *n > MAX_PER_RULE).map(|(r, n)| (r, n - MAX_PER_RULE)).collect();
        self.report
    }
}
