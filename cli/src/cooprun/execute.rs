//! `cooprun run`.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use coop_exec::{Case, Difference, Error, Executor, Outcome, Timer};

use super::{CaseArgs, DeviceArgs, Failure, json, print, read_words};
use crate::Status;

#[derive(Args, Debug)]
pub(super) struct Run {
    /// The module, SPIR-V words; - is stdin
    module: PathBuf,
    #[command(flatten)]
    case: CaseArgs,
    #[command(flatten)]
    device: DeviceArgs,
    /// Measure this many dispatches
    #[arg(long, value_name = "N", default_value_t = 0)]
    bench: u32,
}

impl Run {
    pub(super) fn json(&self) -> bool {
        self.case.json
    }

    pub(super) fn run(&self) -> Result<Status, Failure> {
        let words = read_words(&self.module)?;
        let case = self.case.load()?;
        let vulkan = self.device.open()?;
        let executor = self.device.executor(&vulkan)?;
        let outcome = executor.run(&words, &case, &self.case.options(self.bench)?)?;
        let differences = outcome.check(&case)?;
        if let Some(folder) = &self.case.dump_dir {
            dump(&outcome, folder)?;
        }
        let verdict = verdict(&[&outcome], &differences);
        if self.case.json {
            print(&json::run(&outcome, &case, &differences, vulkan.is_validated(), verdict == Status::Success));
        } else {
            print(&self.describe(&outcome, &case, &differences, vulkan.is_validated()));
        }
        Ok(verdict)
    }

    fn describe(&self, outcome: &Outcome, case: &Case, differences: &[Difference], validated: bool) -> String {
        let [x, y, z] = case.workgroups;
        let watched = if validated { "" } else { " (without the validation layer)" };
        let mut text =
            format!("{}: ran {x} x {y} x {z} workgroups on {}{watched}\n", self.module.display(), outcome.device);
        complain(&mut text, outcome);
        for difference in differences {
            let _ = writeln!(text, "{difference}");
        }
        for name in
            expected(case).into_iter().filter(|name| differences.iter().all(|difference| difference.buffer != *name))
        {
            let _ = writeln!(text, "buffer {name}: as expected");
        }
        if case.expect.is_empty() {
            text.push_str("the case expects nothing\n");
        }
        if let Some(line) = bench_line(outcome, case) {
            let _ = writeln!(text, "{line}");
        }
        text
    }
}

/// Fine is a run that neither differs nor does what it must not.
pub(super) fn verdict(outcomes: &[&Outcome], differences: &[Difference]) -> Status {
    let clean = outcomes.iter().all(|outcome| outcome.messages.is_empty() && outcome.faults.is_empty());
    if clean && differences.is_empty() { Status::Success } else { Status::Findings }
}

/// The buffers that the case says something about, each once.
pub(super) fn expected(case: &Case) -> Vec<&str> {
    let mut names: Vec<&str> = case.expect.iter().map(|expect| expect.buffer()).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// What the validation layer and the guards have to say.
pub(super) fn complain(text: &mut String, outcome: &Outcome) {
    for line in outcome.messages.iter().chain(&outcome.faults) {
        let _ = writeln!(text, "{line}");
    }
}

/// Operations in a second, in 10^12.
pub(super) fn tera_operations(case: &Case, time: Duration) -> Option<f64> {
    case.operations.filter(|_| !time.is_zero()).map(|operations| operations / time.as_secs_f64() / 1e12)
}

fn bench_line(outcome: &Outcome, case: &Case) -> Option<String> {
    let median = outcome.median()?;
    let timer = match outcome.timer {
        Timer::Device => "",
        Timer::Host => ", on the host's clock",
    };
    let mut line = format!("median {median:?} of {} dispatches{timer}", outcome.times.len());
    if let Some(rate) = tera_operations(case, median) {
        let _ = write!(line, "; {rate:.3} TFLOP/s");
    }
    Some(line)
}

/// Writes every buffer to `NAME.bin`.
pub(super) fn dump(outcome: &Outcome, folder: &Path) -> Result<(), Error> {
    let fail = |path: &Path, error: std::io::Error| Error::Case(format!("{}: {error}", path.display()));
    std::fs::create_dir_all(folder).map_err(|error| fail(folder, error))?;
    for (name, bytes) in &outcome.buffers {
        let path = folder.join(dump_name(name));
        std::fs::write(&path, bytes).map_err(|error| fail(&path, error))?;
    }
    Ok(())
}

/// A buffer's name as a file name: what is neither a letter, a digit, `-` nor `_` becomes `_`.
pub(super) fn dump_name(buffer: &str) -> String {
    let safe = |c: char| if c.is_alphanumeric() || c == '-' || c == '_' { c } else { '_' };
    format!("{}.bin", buffer.chars().map(safe).collect::<String>())
}
