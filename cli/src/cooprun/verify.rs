//! `cooprun verify`: lower, run, compare.
//!
//! The lowered module is compared with the original where that runs without complaint, and with the expectations of the
//! case. Having nothing to compare with is an error, but undefined behavior of the original that the interpreter found
//! is a finding.

use std::fmt::Write;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use coop_device::Profile;
use coop_exec::{Case, Difference, Error, RunOptions};
use coop_ir::Module;
use coop_passes::{Lanes, Lowered, Options, Report};

use super::on::{self, Judge, OnArgs, Ran, Runner};
use super::results::{Verification, dump};
use super::{CaseArgs, Failure, json, print};
use crate::args::{OutputStyle, ProfileArgs, TargetArg};
use crate::interp::InterpArgs;
use crate::io::{Format, Loaded};
use crate::software::WithoutArgs;
use crate::{Status, io};

#[derive(Args, Debug)]
pub(super) struct Verify {
    /// The module
    module: PathBuf,
    /// The target of the lowering
    #[arg(long, value_enum, default_value_t)]
    target: TargetArg,
    /// The lanes of a matrix: invocations of a subgroup, or consecutive invocations of the workgroup
    #[arg(long, value_enum, default_value_t)]
    lanes: LanesName,
    #[command(flatten)]
    case: CaseArgs,
    /// The profile to lower for, if not that of the device that runs the module: a built-in name, or a file
    #[arg(long, value_name = "NAME|FILE.json")]
    profile: Option<String>,
    #[command(flatten)]
    without: WithoutArgs,
    #[command(flatten)]
    on: OnArgs,
    /// Write the lowered module to this file
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// The values of `--lanes`.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub enum LanesName {
    /// Invocations of a subgroup of the device
    #[default]
    Subgroup,
    /// Consecutive invocations of a workgroup; no subgroup operations
    LocalIndex,
}

impl Verify {
    pub(super) fn json(&self) -> bool {
        self.case.json
    }

    pub(super) fn run(&self, style: &OutputStyle) -> Result<Status, Failure> {
        let original = io::load(&self.module)?;
        let case = self.on.interp.apply(self.case.load()?);
        let options = self.case.options(0)?;
        let opened = self.on.open()?;
        let runners = self.on.runners(&opened, &case, style)?;
        let named = ProfileArgs { profile: self.profile.clone(), ..ProfileArgs::default() }.named()?;
        let profile = named.as_ref().or(OnArgs::profile(&runners));
        let mut lowered = self.lower(&original.module, &case, profile)?;
        let limits = Options { profile, ..Options::new(self.target.into()) };
        let warn = style.quiet < 2 && !self.case.json;
        self.without.apply(&original.module, &limits, &mut lowered, warn).map_err(Failure::Lower)?;
        if warn {
            lowered.report.warnings.iter().for_each(|w| io::error(&format!("warning: {w}")));
        }
        if let Some(path) = &self.output {
            io::write_binary(path, &lowered.module)?;
        }
        let module = as_written(&lowered.module)?;
        let name = format!("{}, lowered", original.name);
        let lowered_file = Loaded { name, bytes: Vec::new(), format: Format::Binary, module };
        let judge = Judge::new(&self.on, &runners, &original.module, &case);
        let mut all = Vec::new();
        for runner in &runners {
            let verification =
                verify(runner, &original.module, &lowered_file.module, &lowered.report, &judge, &options)?;
            if let Some(folder) = &self.case.dump_dir {
                let folder = if runners.len() > 1 { &folder.join(&runner.key) } else { folder };
                dump(&verification.ran.outcome, folder)?;
            }
            all.push(verification);
        }
        let comparisons = on::across(all.iter().map(|verification| &verification.ran), &judge)?;
        let fine = all.iter().all(|verification| verification.status() == Status::Success);
        let status = if fine && on::agree(&comparisons) { Status::Success } else { Status::Findings };
        if self.case.json {
            let objects = all.iter().map(|v| json::verify(v, &lowered_file.module, &original.module)).collect();
            print(&json::several(objects, &comparisons, status == Status::Success));
        } else if style.quiet == 0 || status != Status::Success {
            let text: String = all.iter().map(|v| v.describe(&lowered_file, &original, style)).collect();
            print(&(text + &on::describe(&comparisons)));
        }
        Ok(status)
    }

    fn lower(&self, module: &Module, case: &Case, profile: Option<&Profile>) -> Result<Lowered, Failure> {
        lower(module, case, self.target, self.lanes, profile, &self.on.interp)
    }
}

/// Returns a module as it would be written: that is what is run.
pub fn as_written(module: &Module) -> Result<Module, Error> {
    coop_ir::binary::read_words(&coop_ir::binary::write_words(module)).map_err(|error| Error::Module(error.to_string()))
}

/// Lowers a module for a case.
pub fn lower(
    module: &Module,
    case: &Case,
    target: TargetArg,
    lanes: LanesName,
    profile: Option<&Profile>,
    interp: &InterpArgs,
) -> Result<Lowered, Failure> {
    let options = Options {
        spec: case.specialization()?,
        // A dispatch takes the defaults of what the case leaves open, and so does its replacement.
        spec_defaults: true,
        entry: case.entry.clone(),
        profile,
        // Where there is no device, the interpreter's default.
        subgroup_size: match (case.subgroup_size.or(interp.subgroup_size), profile) {
            (None, None) => Some(interp.subgroup_size(case, None).0),
            (said, _) => said,
        },
        lanes: match lanes {
            LanesName::Subgroup => Lanes::Subgroup,
            LanesName::LocalIndex => Lanes::LocalIndex,
        },
        ..Options::new(target.into())
    };
    let lowered = coop_passes::lower(module, &options);
    let unknown = |error: &coop_passes::Error| match error {
        coop_passes::Error::Refused(refusal) => matches!(refusal.rule, "refused-unknown-size" | "refused-lanes"),
        coop_passes::Error::Bug { .. } => false,
    };
    match lowered {
        // The size of a kernel's workgroups is the case's.
        Err(error) if unknown(&error) && case.local_size.is_some() => {
            coop_passes::lower(module, &Options { local_size: case.local_size, ..options })
        }
        lowered => lowered,
    }
    .map_err(Failure::Lower)
}

/// Returns the case with the requirements of a lowered module on the pipeline.
pub fn asked(case: &Case, report: &Report) -> Case {
    let mut asked = case.clone();
    asked.subgroup_size = report.required_subgroup_size.or(case.subgroup_size);
    asked.full_subgroups |= report.full_subgroups;
    asked
}

/// Runs the lowered module with what it asks of the pipeline, and the original, and compares.
fn verify<'a>(
    runner: &Runner<'_>,
    original: &Module,
    lowered: &Module,
    report: &'a Report,
    judge: &Judge<'_>,
    options: &RunOptions,
) -> Result<Verification<'a>, Error> {
    let case = judge.case;
    let ran = runner.run(lowered, &asked(case, report), options)?;
    let (original, not_compared) = match runner.run(original, case, options) {
        Ok(original) if original.is_clean() => (Some(original), None),
        Ok(original) => {
            let said = original.outcome.messages.iter().chain(&original.outcome.faults);
            let why = said.cloned().collect::<Vec<_>>().join("\n");
            (Some(original).filter(|_| runner.is_interpreter()), Some(why))
        }
        Err(
            error @ (Error::Unsupported { .. } | Error::Vulkan { .. } | Error::OpenCl { .. } | Error::Timeout { .. }),
        ) => (None, Some(error.to_string())),
        Err(other) => return Err(other),
    };
    let (mut compared_with, mut differences) = (Vec::new(), Vec::new());
    let mut add = |with: &'static str, found: Vec<Difference>| {
        compared_with.push(with);
        differences.extend(found.into_iter().map(|difference| (with, difference)));
    };
    if !case.expect.is_empty() {
        add("expectation", ran.outcome.check(case)?);
    }
    match (&original, &not_compared) {
        (Some(original), None) => add("original", judge.compare(&ran, original)?),
        (None, Some(why)) if case.expect.is_empty() => {
            let why = format!("the original does not run here and the case expects nothing: {why}");
            return Err(Error::Case(why));
        }
        _ => {}
    }
    Ok(Verification { ran, original, compared_with, not_compared, differences, report })
}

impl Verification<'_> {
    /// Fine is a lowered module that runs without complaint and does not differ, made from one that is defined.
    pub(super) fn status(&self) -> Status {
        let original = self.original.as_ref().is_none_or(Ran::is_clean);
        let fine = self.ran.is_clean() && original && self.differences.is_empty();
        if fine { Status::Success } else { Status::Findings }
    }

    fn describe(&self, lowered: &Loaded, original: &Loaded, style: &OutputStyle) -> String {
        let device = &self.ran.outcome.device;
        let mut text = self.original.as_ref().map(|ran| ran.complaints(original, style)).unwrap_or_default();
        text.push_str(&self.ran.complaints(lowered, style));
        for (with, difference) in &self.differences {
            let _ = writeln!(text, "against the {with}: {difference}");
        }
        match (&self.not_compared, &self.original) {
            (Some(_), Some(_)) => text.push_str("the original has undefined behaviour, so it is not compared with\n"),
            (Some(why), None) => {
                let first = why.lines().take(2).collect::<Vec<_>>().join(" ");
                let _ = writeln!(text, "the original does not run on {device}: {first}");
            }
            (None, _) => {}
        }
        if self.differences.is_empty() && !self.compared_with.is_empty() {
            let with = self.compared_with.join(" and the ");
            let _ = writeln!(text, "lowered to {}: agrees with the {with} on {device}", self.report.target);
        }
        text
    }
}
