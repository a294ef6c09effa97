//! `cooprun run`: runs one module and checks its results.

use std::fmt::Write;
use std::path::PathBuf;

use clap::Args;
use coop_exec::{Case, Difference, Outcome, Timer};

use super::on::{self, Judge, OnArgs, Ran};
use super::results::{dump, expected, tera_operations, verdict};
use super::{CaseArgs, Failure, json, print};
use crate::Status;
use crate::args::{MOST_BENCH, OutputStyle, whole};
use crate::io::{self, Loaded};

#[derive(Args, Debug)]
pub(super) struct Run {
    /// The module, SPIR-V words or assembly; - is stdin
    module: PathBuf,
    #[command(flatten)]
    case: CaseArgs,
    #[command(flatten)]
    on: OnArgs,
    /// Measure this many dispatches
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = whole::<u32>(0, MOST_BENCH))]
    bench: u32,
}

impl Run {
    pub(super) fn json(&self) -> bool {
        self.case.json
    }

    pub(super) fn run(&self, style: &OutputStyle) -> Result<Status, Failure> {
        let loaded = io::load(&self.module)?;
        let case = self.on.interp.apply(self.case.load()?);
        let options = self.case.options(self.bench)?;
        let opened = self.on.open()?;
        if self.bench > 0 && !opened.has_device() {
            return Err(Failure::Usage("--bench measures devices, not the interpreter".into()));
        }
        let runners = self.on.runners(&opened, &case, style)?;
        let mut runs = Vec::new();
        for runner in &runners {
            let ran = runner.run(&loaded.module, &case, &options)?;
            let outcome = &ran.outcome;
            let differences = if self.samples(&case) { outcome.check_some(&case)? } else { outcome.check(&case)? };
            if let Some(folder) = &self.case.dump_dir {
                let folder = if runners.len() > 1 { &folder.join(&runner.key) } else { folder };
                dump(&ran.outcome, folder)?;
            }
            runs.push((ran, differences));
        }
        let judge = Judge::new(&self.on, &runners, &loaded.module, &case);
        let comparisons = on::across(runs.iter().map(|(ran, _)| ran), &judge)?;
        let fine = runs.iter().all(|(ran, differences)| verdict(&[ran], differences) == Status::Success);
        let status = if fine && on::agree(&comparisons) { Status::Success } else { Status::Findings };
        if self.case.json {
            let objects =
                runs.iter().map(|(ran, differences)| json::run(ran, &case, differences, &loaded.module)).collect();
            print(&json::several(objects, &comparisons, status == Status::Success));
        } else if style.quiet == 0 || status != Status::Success {
            let mut text = String::new();
            for (ran, differences) in &runs {
                text.push_str(&self.describe(ran, &case, differences, &loaded, style));
            }
            print(&(text + &on::describe(&comparisons)));
        }
        Ok(status)
    }

    /// Returns true if only a sample of the elements is checked: the host would take too long for all elements of large
    /// products.
    fn samples(&self, case: &Case) -> bool {
        /// The largest number of operations on the host, about ten seconds.
        const MOST: f64 = 1e10;
        self.bench > 0 && case.operations.is_some_and(|operations| operations > MOST)
    }

    fn describe(
        &self,
        ran: &Ran,
        case: &Case,
        differences: &[Difference],
        loaded: &Loaded,
        style: &OutputStyle,
    ) -> String {
        let outcome = &ran.outcome;
        let [x, y, z] = case.workgroups;
        let watched = if ran.validated || ran.findings.is_some() { "" } else { " (without the validation layer)" };
        let mut text =
            format!("{}: ran {x} x {y} x {z} workgroups on {}{watched}\n", self.module.display(), outcome.device);
        text.push_str(&ran.complaints(loaded, style));
        for difference in differences {
            let _ = writeln!(text, "{difference}");
        }
        for name in
            expected(case).into_iter().filter(|name| differences.iter().all(|difference| difference.buffer != *name))
        {
            let places = if self.samples(case) { " at some places" } else { "" };
            let _ = writeln!(text, "buffer {name}: as expected{places}");
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
