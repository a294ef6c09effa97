//! `cooplab replay`: every module of a folder, as it is or lowered, against what a device wrote.
//!
//! A run that the device failed is left out and counted; so is a module that can't be lowered or that does not run here. That
//! nothing at all was compared is an error. Where the device lacks component types, they become software as `cooprun verify` does it.
//!
//! With `--table` each module has a process of its own, with limits of time and memory: drivers crash, and keep what they compiled.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use clap::Args;
use coop_components::Lacks;
use coop_exec::{Case, Error, RunOptions};
use coop_ir::Module;
use coop_lab::record::{self, Ended, Kept, Known, Recording, Run, Subject};

use serde::{Deserialize, Serialize};

use super::record::matches;
use coop_cli::Status;
use coop_cli::args::{MOST_SECONDS, OutputStyle, TargetArg, whole};
use coop_cli::cooprun::on::{OnArgs, Opened, Runner};
use coop_cli::cooprun::verify::{LanesName, asked, lower};
use coop_cli::cooprun::{Failure, print};
use coop_cli::io;
use coop_cli::process::{self, Finished, Limits};
use coop_cli::progress::{self, Progress};

#[derive(Args, Debug)]
pub(crate) struct Replay {
    /// The folder with modules and their cases
    folder: PathBuf,
    /// The folder of the recordings [default: FOLDER/h100]
    #[arg(long, value_name = "DIR")]
    recorded: Option<PathBuf>,
    /// Only the module of this name, or, with a * at the end, those whose names begin so
    #[arg(long, value_name = "NAME", default_value = "*")]
    only: String,
    /// Lower each module first
    #[arg(long, value_enum)]
    target: Option<TargetArg>,
    /// The lanes of a lowered matrix
    #[arg(long, value_enum, default_value_t)]
    lanes: LanesName,
    /// Print a table in Markdown: which modules the device runs as they are, which lowered, by lanes of subgroups or else of the local
    /// index, and why not
    #[arg(long, requires = "target")]
    table: bool,
    /// Only the first recorded run of each module
    #[arg(long)]
    first: bool,
    /// With --table: the time limit of a module in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 600, value_parser = whole::<u64>(1, MOST_SECONDS))]
    timeout: u64,
    /// With --table: the most memory of a module
    #[arg(long, value_name = "MIB", default_value_t = 8192, value_parser = whole::<u64>(64, 1 << 30))]
    memory: u64,
    /// Print the row of this process' module, as JSON
    #[arg(long, requires = "target", conflicts_with = "table", hide = true)]
    row: bool,
    #[command(flatten)]
    on: OnArgs,
}

/// A row of the table.
#[derive(Serialize, Deserialize)]
struct Row {
    /// Why the device does not run the module as it is.
    native: Option<String>,
    runs: Tally,
}

/// The rule of a refusal that a message ends with, where it is in brackets.
fn rule_of(why: &str) -> Option<&str> {
    let (_, rest) = why.rsplit_once(" [refused-")?;
    rest.split_once(']').map(|(rule, _)| rule)
}

/// The rows of a table of modules.
#[derive(Default)]
struct Table {
    rows: Vec<String>,
    /// The number of modules that run as they are.
    native: usize,
    /// The number of modules of which a run was compared, none differed and none was left out.
    alike: usize,
    /// The number of modules of which some runs were left out, and none differed.
    partly: usize,
    /// The number of modules of which a run differs.
    differ: usize,
    /// The number of modules of which nothing ran, by the reason.
    refused: BTreeMap<String, usize>,
    /// The number of modules at which the driver ended, or which went over a limit.
    ended: usize,
    /// The number of modules that the other device did not run.
    unrecorded: usize,
}

impl Table {
    /// Enters a module with the counts of its runs.
    fn enter(&mut self, name: &str, native: Option<String>, runs: &Tally, reasons: &[String]) {
        let Tally { agree, differ, known, refused, .. } = *runs;
        if agree + differ + known + refused == 0 {
            self.unrecorded += 1;
            return;
        }
        self.native += usize::from(native.is_none());
        let as_it_is = native.map_or("yes".to_owned(), |why| cell(&why));
        let ran = agree + differ + known;
        let lowered = match (ran, differ, refused) {
            (0, _, _) => {
                let why = reasons.first().map_or("", String::as_str);
                *self.refused.entry(rule_of(why).unwrap_or("beyond its limits").to_owned()).or_default() += 1;
                "-".to_owned()
            }
            (_, 0, 0) => {
                self.alike += 1;
                format!("{ran} of {ran}")
            }
            (_, 0, _) => {
                self.partly += 1;
                format!("{ran} of {}", ran + refused)
            }
            _ => {
                self.differ += 1;
                format!("{ran} of {}, {differ} differ", ran + refused)
            }
        };
        let known = if known == 0 { String::new() } else { format!(" ({known} differ as is known)") };
        let why: Vec<String> = reasons.iter().map(|why| cell(why)).collect();
        self.rows.push(format!("| {name} | {as_it_is} | {lowered}{known} | {} |", why.join("; ")));
    }

    /// Enters a module whose process did not say how its runs were.
    fn ended(&mut self, name: &str, finished: &Finished) {
        self.ended += 1;
        let said = finished.last_words().map_or(String::new(), |said| format!(": {}", cell(said)));
        self.rows.push(format!("| {name} | | - | the process {}{said} |", finished.end));
    }

    fn text(&self) -> String {
        let Table { rows, native, alike, partly, differ, refused, ended, unrecorded } = self;
        let refused: Vec<String> = refused.iter().map(|(why, n)| format!("{why} {n}")).collect();
        let mut text = "| module | runs as it is | runs lowered | why not |\n|---|---|---|---|\n".to_owned();
        rows.iter().for_each(|row| text.push_str(&format!("{row}\n")));
        text.push_str(&format!(
            "\nOf {} modules {native} run as they are. Lowered, all runs of {alike} agree with what was recorded, and some of {partly}, of which the \
             others do not run; of {differ} a run differs. Not run: {}. The driver ended, or went over a limit, at {ended}. {unrecorded} more have no recorded run.",
            rows.len(),
            if refused.is_empty() { "none".to_owned() } else { refused.join(", ") },
        ));
        text
    }
}

/// Returns a text for a cell: its first lines, and no bars.
fn cell(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).take(2).collect();
    lines.join(" ").replace('|', "/")
}

/// A recorded run of a module with a case.
struct Recorded<'a> {
    module: &'a Module,
    case: &'a Case,
    kept: &'a [(String, Kept)],
    /// The known reason why runs differ from it.
    known: Option<&'a str>,
    title: &'a str,
}

/// The counts of the results of runs.
#[derive(Default, Serialize, Deserialize)]
struct Tally {
    agree: usize,
    differ: usize,
    /// Differ as is known.
    known: usize,
    /// The device has no answer.
    no_answer: usize,
    /// There is no recording.
    missing: usize,
    /// The number of modules that can't be lowered or do not run here.
    refused: usize,
    /// Why, each reason once.
    reasons: Vec<String>,
}

impl Replay {
    pub(crate) fn run(&self, style: &OutputStyle) -> Result<Status, Failure> {
        if self.table {
            return self.table();
        }
        let opened = self.on.open()?;
        let mut tally = Tally::default();
        for subject in record::subjects(&self.folder)?.iter().filter(|subject| matches(&self.only, &subject.name)) {
            self.subject(subject, &opened, style, &mut tally)?;
            if self.row {
                let native = self.natively(subject, &opened, style)?;
                let row = Row { native, runs: std::mem::take(&mut tally) };
                print(&serde_json::to_string(&row).map_err(|error| Failure::Usage(error.to_string()))?);
                return Ok(Status::Success);
            }
        }
        let Tally { agree, differ, known, no_answer, missing, refused, .. } = tally;
        print(&format!(
            "{agree} runs agree with what was recorded, {differ} differ, {known} differ as is known; {refused} do not run here, \
             {no_answer} did not run there, {missing} were never recorded"
        ));
        match (agree, differ) {
            (0, 0) => Err(Failure::Usage("nothing was compared".into())),
            (_, 0) => Ok(Status::Success),
            _ => Ok(Status::Findings),
        }
    }

    /// Runs each module in a process of its own, and prints the table.
    fn table(&self) -> Result<Status, Failure> {
        let words: Vec<String> = std::env::args().collect();
        let limits = Limits { time: Duration::from_secs(self.timeout), memory: self.memory };
        let subjects = record::subjects(&self.folder)?;
        let subjects: Vec<&Subject> = subjects.iter().filter(|subject| matches(&self.only, &subject.name)).collect();
        let progress = Progress::new(subjects.len() as u64, "{pos} of {len} modules, {eta} left", true);
        let mut table = Table::default();
        for subject in subjects {
            let words = progress::with_options(&words, &[("--only", subject.name.clone())]);
            let words = words.iter().skip(1).map(|word| if word == "--table" { "--row" } else { word });
            let mut command = process::this_program();
            command.args(words).stdin(Stdio::null());
            let finished = process::finish(&mut command, limits)
                .map_err(|error| Failure::Usage(format!("a process can't be started: {error}")))?;
            let row = finished.stdout.lines().rev().find_map(|line| serde_json::from_str::<Row>(line).ok());
            match row {
                Some(row) => table.enter(&subject.name, row.native, &row.runs, &row.runs.reasons),
                None => table.ended(&subject.name, &finished),
            }
            progress.step();
        }
        print(&table.text());
        Ok(if table.differ + table.ended == 0 { Status::Success } else { Status::Findings })
    }

    fn subject(
        &self,
        subject: &Subject,
        opened: &Opened,
        style: &OutputStyle,
        tally: &mut Tally,
    ) -> Result<(), Failure> {
        let module = io::load(&subject.module)?.module;
        let folder = self.recorded.clone().unwrap_or_else(|| self.folder.join("h100"));
        let known = Known::load(&folder)?;
        let path = folder.join(format!("{}.rec", subject.name));
        let recording = if path.exists() { Some(Recording::load(&path)?) } else { None };
        let hash = record::hash_of_words(&coop_ir::binary::write_words(&module));
        if recording.as_ref().is_some_and(|recording| recording.module != hash) {
            return Err(Error::Case(format!("{}: the module is not the one that was recorded", subject.name)).into());
        }
        for path in &subject.cases {
            for (variant, case) in Case::load(path)?.all_variants()? {
                let name = record::case_name(path);
                let run = match &recording {
                    Some(recording) => recording.run(&name, variant.as_deref(), &case)?,
                    None => None,
                };
                match run {
                    None => tally.missing += 1,
                    Some(Run { ended: Ended::Failed(_), .. }) => tally.no_answer += 1,
                    Some(run @ Run { ended: Ended::Ran(kept), .. }) => {
                        let why = known.why(&subject.name, run, self.target.is_none() && self.on.interp.is_nvidia());
                        let title = format!("{}: {run}", subject.name);
                        let recorded = Recorded { module: &module, case: &case, kept, known: why, title: &title };
                        self.one(&recorded, opened, style, tally)?;
                        if self.first {
                            return Ok(());
                        }
                    }
                }
            }
        }
        Ok(())
    }

    fn one(
        &self,
        recorded: &Recorded<'_>,
        opened: &Opened,
        style: &OutputStyle,
        tally: &mut Tally,
    ) -> Result<(), Failure> {
        let Recorded { module, case, kept, known, title } = *recorded;
        let runners = self.on.runners(opened, case, style)?;
        let mut bounds = None;
        for runner in &runners {
            let outcome = match self.outcome(runner, &runners, module, case) {
                Ok(outcome) => outcome,
                Err(why) => {
                    if style.verbose > 0 {
                        print(&format!("{title}: {why}"));
                    }
                    tally.refused += 1;
                    let why = why.to_string();
                    if !tally.reasons.contains(&why) {
                        tally.reasons.push(why);
                    }
                    continue;
                }
            };
            let mut wrong: Vec<String> = outcome.messages.iter().chain(&outcome.faults).cloned().collect();
            let mut differences = record::differences(case, kept, &outcome, None)?;
            if !differences.is_empty() {
                let sides = if self.target.is_none() && runner.is_interpreter() { 1 } else { 2 };
                let bounds = bounds.get_or_insert_with(|| self.on.bounds(&runners, module, case));
                differences = record::differences(case, kept, &outcome, Some((bounds, sides)))?;
            }
            wrong.extend(differences.iter().map(ToString::to_string));
            if wrong.is_empty() {
                tally.agree += 1;
            } else if let Some(known) = known {
                tally.known += 1;
                if style.verbose > 0 {
                    print(&format!("{title}, {}: differs, see {known}", outcome.device));
                }
            } else {
                tally.differ += 1;
                print(&format!("{title}, {}:\n{}", outcome.device, wrong.join("\n")));
            }
        }
        Ok(())
    }

    /// Returns why the device does not run a module as it is, with its first case.
    fn natively(&self, subject: &Subject, opened: &Opened, style: &OutputStyle) -> Result<Option<String>, Failure> {
        let module = io::load(&subject.module)?.module;
        let Some(path) = subject.cases.first() else { return Ok(None) };
        let Some((_, case)) = Case::load(path)?.all_variants()?.into_iter().next() else { return Ok(None) };
        let runners = self.on.runners(opened, &case, style)?;
        let failed = runners.iter().find_map(|runner| runner.run(&module, &case, &RunOptions::default()).err());
        Ok(failed.map(|why| why.to_string()))
    }

    /// Runs a case in a place. The error says why it does not run there.
    fn outcome(
        &self,
        runner: &Runner<'_>,
        runners: &[Runner<'_>],
        module: &Module,
        case: &Case,
    ) -> Result<coop_exec::Outcome, Failure> {
        let options = RunOptions::default();
        let Some(target) = self.target else { return Ok(runner.run(module, case, &options)?.outcome) };
        let profile = OnArgs::profile(runners);
        let run = |lanes: LanesName| -> Result<coop_exec::Outcome, Failure> {
            let mut lowered = lower(module, case, target, lanes, profile, &self.on.interp)?;
            if let Some(profile) = profile {
                let options = coop_components::Options::new(Lacks::of(profile));
                coopmat::fit::components(module, &options, &mut lowered, true).map_err(Failure::Lower)?;
            }
            Ok(runner.run(&lowered.module, &asked(case, &lowered.report), &options)?.outcome)
        };
        // An engine gets lanes by local index where those of subgroups are refused.
        let first = run(self.lanes);
        if self.row && matches!(self.lanes, LanesName::Subgroup) && first.is_err() {
            run(LanesName::LocalIndex).or(first)
        } else {
            first
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use coop_cli::process::End;

    fn runs(agree: usize, differ: usize, refused: usize, why: &str) -> Tally {
        Tally { agree, differ, refused, reasons: vec![why.to_owned()], ..Tally::default() }
    }

    /// Each module is a row, and in one of the sums.
    #[test]
    fn rows_and_sums() {
        let mut table = Table::default();
        let mut enter = |name: &str, native: Option<&str>, runs: Tally| {
            let reasons: Vec<String> = runs.reasons.iter().filter(|why| !why.is_empty()).cloned().collect();
            table.enter(name, native.map(str::to_owned), &runs, &reasons);
        };
        enter("fine", None, runs(2, 0, 0, ""));
        enter("some", Some("no f16"), runs(1, 0, 1, "subgroups of 4 | 8 [refused-lanes]; more"));
        enter("none", Some("no f16"), runs(0, 0, 1, "why [refused-lanes]; a remedy"));
        enter("large", Some("no f16"), runs(0, 0, 1, "too large\n  40960 bytes of shared memory, and it has 32768"));
        enter("wrong", Some("no f16"), runs(1, 1, 0, ""));
        enter("unknown", None, Tally::default());
        let end = End::OutOfTime(Duration::from_secs(3));
        table.ended("slow", &Finished { end, stdout: String::new(), stderr: "at it\n".to_owned() });
        let text = table.text();
        for row in [
            "| fine | yes | 2 of 2 |  |",
            "| some | no f16 | 1 of 2 | subgroups of 4 / 8 [refused-lanes]; more |",
            "| none | no f16 | - | why [refused-lanes]; a remedy |",
            "| large | no f16 | - | too large 40960 bytes of shared memory, and it has 32768 |",
            "| wrong | no f16 | 2 of 2, 1 differ |  |",
            "Of 6 modules 1 run as they are.",
            "all runs of 1 agree",
            "some of 1, of which",
            "of 1 a run differs. Not run: beyond its limits 1, lanes 1.",
            "over a limit, at 1. 1 more",
        ] {
            assert!(text.contains(row), "{row}: {text}");
        }
        assert!(text.contains("| slow | | - | the process ") && text.contains(": at it |"), "{text}");
    }
}
