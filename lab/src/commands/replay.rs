//! `cooplab replay`: every module of a folder, as it is or lowered, against what a device wrote.
//!
//! A run that the device failed is left out and counted; so is a module that can't be lowered or that does not run here. That
//! nothing at all was compared is an error.

use std::path::PathBuf;

use clap::Args;
use coop_exec::{Case, Error, RunOptions};
use coop_ir::Module;
use coop_lab::record::{self, Ended, Kept, Known, Recording, Run, Subject};

use super::record::matches;
use coop_cli::Status;
use coop_cli::args::{OutputStyle, TargetArg};
use coop_cli::cooprun::on::{OnArgs, Opened, Runner};
use coop_cli::cooprun::verify::{LanesName, asked, lower};
use coop_cli::cooprun::{Failure, print};
use coop_cli::io;

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
    #[command(flatten)]
    on: OnArgs,
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
#[derive(Default)]
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
}

impl Replay {
    pub(crate) fn run(&self, style: &OutputStyle) -> Result<Status, Failure> {
        let opened = self.on.open()?;
        let mut tally = Tally::default();
        for subject in record::subjects(&self.folder)?.iter().filter(|subject| matches(&self.only, &subject.name)) {
            self.subject(subject, &opened, style, &mut tally)?;
        }
        let Tally { agree, differ, known, no_answer, missing, refused } = tally;
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
        let lowered = lower(module, case, target, self.lanes, OnArgs::profile(runners), &self.on.interp)?;
        Ok(runner.run(&lowered.module, &asked(case, &lowered.report), &options)?.outcome)
    }
}
