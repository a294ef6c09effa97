//! `cooplab record`: what a device does with every module of a folder, kept for machines that have no such device.
//!
//! Each run is done twice, so that what the device leaves open is known as such. A run that fails is kept with its reason; the
//! next one begins with a fresh instance, since a lost device takes its instance with it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use coop_exec::{Case, Executor, RunOptions, Vulkan};
use coop_lab::record::{self, Ended, Recording, Run, Subject};

use coop_cli::Status;
use coop_cli::cooprun::{DeviceArgs, Failure};
use coop_cli::io;

#[derive(Args, Debug)]
pub(crate) struct Record {
    /// The folder with modules and their cases: a.b.spv is run with a.b.toml or a.toml, and every variant
    folder: PathBuf,
    /// The folder to write the recordings to, as MODULE.rec
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    /// Only the module of this name, or, with a * at the end, those whose names begin so
    #[arg(long, value_name = "NAME", default_value = "*")]
    only: String,
    /// Seconds to wait for a dispatch
    #[arg(long, value_name = "SECONDS", default_value_t = 20.0)]
    timeout: f64,
    #[command(flatten)]
    device: DeviceArgs,
}

impl Record {
    pub(crate) fn run(&self) -> Result<Status, Failure> {
        let timeout = Duration::try_from_secs_f64(self.timeout)
            .map_err(|_| Failure::Usage(format!("--timeout: {} is not a number of seconds", self.timeout)))?;
        let options = RunOptions { timeout, ..RunOptions::default() };
        std::fs::create_dir_all(&self.output)
            .map_err(|error| Failure::Usage(format!("{}: {error}", self.output.display())))?;
        let mut failed = 0;
        for subject in record::subjects(&self.folder)?.iter().filter(|subject| matches(&self.only, &subject.name)) {
            let recording = self.record(subject, &options)?;
            let bad = recording.runs.iter().filter(|run| matches!(run.ended, Ended::Failed(_))).count();
            io::print(&format!("{}: {} runs, {bad} failed\n", subject.name, recording.runs.len()));
            failed += bad;
            let path = self.output.join(format!("{}.rec", subject.name));
            io::write_bytes(&path, &recording.to_bytes())?;
        }
        Ok(if failed == 0 { Status::Success } else { Status::Findings })
    }

    fn record(&self, subject: &Subject, options: &RunOptions) -> Result<Recording, Failure> {
        let words = coop_cli::cooprun::read_words(&subject.module)?;
        let mut vulkan = self.device.open()?;
        let mut recording = Recording { module: record::hash_of_words(&words), ..Recording::default() };
        {
            let executor = self.device.executor(&vulkan)?;
            let profile = executor.profile();
            recording.device.clone_from(&profile.device);
            recording.driver = format!("{} {}", profile.driver, profile.driver_info);
        }
        for path in &subject.cases {
            for (variant, case) in Case::load(path)?.all_variants()? {
                let ended = match self.run_twice(&vulkan, &words, &case, options) {
                    Ok(ended) => ended,
                    Err(why) => {
                        io::error(&format!("{} {}: {why}", subject.name, name(path, variant.as_deref())));
                        vulkan = self.device.open()?;
                        Ended::Failed(why.to_string())
                    }
                };
                recording.runs.push(Run {
                    case: record::case_name(path),
                    variant,
                    inputs: record::hash_of_inputs(&case)?,
                    ended,
                });
            }
        }
        Ok(recording)
    }

    fn run_twice(
        &self,
        vulkan: &Vulkan,
        words: &[u32],
        case: &Case,
        options: &RunOptions,
    ) -> Result<Ended, coop_exec::Error> {
        let executor = self.device.executor(vulkan)?;
        let first = executor.run(words, case, options)?;
        let second = executor.run(words, case, options)?;
        if let Some(fault) = first.faults.first() {
            return Ok(Ended::Failed(fault.clone()));
        }
        record::keep(case, &first, &second).map(Ended::Ran)
    }
}

fn name(case: &Path, variant: Option<&str>) -> String {
    format!("{} {}", record::case_name(case), variant.unwrap_or("-"))
}

/// Returns true if a name is meant by `--only`.
pub(crate) fn matches(wanted: &str, name: &str) -> bool {
    match wanted.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix),
        None => name == wanted,
    }
}
