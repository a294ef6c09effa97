//! `cooprun verify`: lower, run, compare.
//!
//! The lowered module is compared with the original where the device runs that without complaint, and with what the case
//! expects where it expects something. Nothing to compare with is an error, not a success.

use std::fmt::Write;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use coop_exec::vulkan::VulkanExecutor;
use coop_exec::{Case, Difference, Error, Executor, Outcome, RunOptions};
use coop_ir::Module;
use coop_passes::{Lanes, Lowered, Options, Report, Target};

use super::execute::{complain, dump, verdict};
use super::{CaseArgs, DeviceArgs, Failure, json, print};
use crate::{Status, io};

#[derive(Args, Debug)]
pub(super) struct Verify {
    /// The module
    module: PathBuf,
    /// What to lower to
    #[arg(long, value_enum, default_value_t)]
    target: TargetName,
    /// What a lane of a matrix is: an invocation of a subgroup, or one by its place in the workgroup
    #[arg(long, value_enum, default_value_t)]
    lanes: LanesName,
    /// How many lanes share a matrix; without it, the case's subgroup size or the device's
    #[arg(long, value_name = "N")]
    subgroup_size: Option<u32>,
    #[command(flatten)]
    case: CaseArgs,
    #[command(flatten)]
    device: DeviceArgs,
    /// Keep the lowered module
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum TargetName {
    /// No cooperative matrices at all
    #[default]
    Scalar,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum LanesName {
    /// Invocations of a subgroup of the device
    #[default]
    Subgroup,
    /// Consecutive invocations of a workgroup; no subgroup operations
    LocalIndex,
}

/// What a lowered module was compared with, and how it differs.
pub(super) struct Verification {
    /// `original`, `expectation`.
    pub(super) compared_with: Vec<&'static str>,
    /// Why the original was left out, if it was.
    pub(super) not_compared: Option<String>,
    /// Each with what it was compared with.
    pub(super) differences: Vec<(&'static str, Difference)>,
    /// What the lowering did.
    pub(super) report: Report,
}

impl Verify {
    pub(super) fn json(&self) -> bool {
        self.case.json
    }

    pub(super) fn run(&self) -> Result<Status, Failure> {
        let module = io::load(&self.module)?.module;
        let case = self.case.load()?;
        let options = self.case.options(0)?;
        let vulkan = self.device.open()?;
        let executor = self.device.executor(&vulkan)?;
        let lowered = self.lower(&module, &case, &executor)?;
        if let Some(path) = &self.output {
            io::write_binary(path, &lowered.module)?;
        }
        let outcome = run_lowered(&executor, &lowered, &case, &options)?;
        if let Some(folder) = &self.case.dump_dir {
            dump(&outcome, folder)?;
        }
        let original = original(&executor, &module, &case, &options)?;
        let verification = verify(&outcome, original, &case, lowered.report)?;
        let differences: Vec<Difference> =
            verification.differences.iter().map(|(_, difference)| difference.clone()).collect();
        let status = verdict(&[&outcome], &differences);
        if self.case.json {
            print(&json::verify(&outcome, &verification, vulkan.is_validated(), status == Status::Success));
        } else {
            print(&describe(&outcome, &verification));
        }
        Ok(status)
    }

    fn lower(&self, module: &Module, case: &Case, executor: &VulkanExecutor<'_>) -> Result<Lowered, Failure> {
        let target = match self.target {
            TargetName::Scalar => Target::Scalar,
        };
        let options = Options {
            spec: case.specialization()?,
            // A dispatch takes the defaults of what the case leaves open, and so does its replacement.
            spec_defaults: true,
            profile: Some(executor.profile()),
            subgroup_size: self.subgroup_size.or(case.subgroup_size),
            lanes: match self.lanes {
                LanesName::Subgroup => Lanes::Subgroup,
                LanesName::LocalIndex => Lanes::LocalIndex,
            },
            ..Options::new(target)
        };
        coop_passes::lower(module, &options).map_err(Failure::Lower)
    }
}

/// Runs the lowered module with what it asks of the pipeline.
fn run_lowered(
    executor: &VulkanExecutor<'_>,
    lowered: &Lowered,
    case: &Case,
    options: &RunOptions,
) -> Result<Outcome, Error> {
    let mut case = case.clone();
    case.subgroup_size = lowered.report.required_subgroup_size.or(case.subgroup_size);
    case.full_subgroups |= lowered.report.full_subgroups;
    executor.run(&coop_ir::binary::write_words(&lowered.module), &case, options)
}

/// The original's outcome, or why there is none that counts.
fn original(
    executor: &VulkanExecutor<'_>,
    module: &Module,
    case: &Case,
    options: &RunOptions,
) -> Result<Result<Outcome, String>, Error> {
    match executor.run(&coop_ir::binary::write_words(module), case, options) {
        Ok(outcome) if outcome.messages.is_empty() && outcome.faults.is_empty() => Ok(Ok(outcome)),
        Ok(outcome) => Ok(Err(outcome.messages.iter().chain(&outcome.faults).cloned().collect::<Vec<_>>().join("\n"))),
        Err(error @ (Error::Unsupported { .. } | Error::Vulkan { .. })) => Ok(Err(error.to_string())),
        Err(other) => Err(other),
    }
}

fn verify(
    outcome: &Outcome,
    original: Result<Outcome, String>,
    case: &Case,
    report: Report,
) -> Result<Verification, Error> {
    let mut verification =
        Verification { compared_with: Vec::new(), not_compared: None, differences: Vec::new(), report };
    let mut add = |with: &'static str, differences: Vec<Difference>| {
        verification.compared_with.push(with);
        verification.differences.extend(differences.into_iter().map(|difference| (with, difference)));
    };
    if !case.expect.is_empty() {
        add("expectation", outcome.check(case)?);
    }
    match original {
        Ok(original) => add("original", outcome.compare(&original, case)?),
        Err(why) if case.expect.is_empty() => {
            let why = format!("the original does not run here and the case expects nothing: {why}");
            return Err(Error::Case(why));
        }
        Err(why) => verification.not_compared = Some(why),
    }
    Ok(verification)
}

fn describe(outcome: &Outcome, verification: &Verification) -> String {
    let mut text = String::new();
    complain(&mut text, outcome);
    for (with, difference) in &verification.differences {
        let _ = writeln!(text, "against the {with}: {difference}");
    }
    if let Some(why) = &verification.not_compared {
        let first = why.lines().take(2).collect::<Vec<_>>().join(" ");
        let _ = writeln!(text, "the original does not run on {}: {first}", outcome.device);
    }
    if verification.differences.is_empty() {
        let with = verification.compared_with.join(" and the ");
        let _ =
            writeln!(text, "lowered to {}: agrees with the {with} on {}", verification.report.target, outcome.device);
    }
    text
}
