//! `cooprun compare`: runs two modules with the same inputs and compares every buffer.

use std::fmt::Write;
use std::path::PathBuf;

use clap::Args;
use coop_exec::{Case, Difference};

use super::on::{self, Judge, OnArgs, Ran};
use super::results::{dump, verdict};
use super::{CaseArgs, Failure, json, print};
use crate::Status;
use crate::args::OutputStyle;
use crate::io::{self, Loaded};

#[derive(Args, Debug)]
pub(super) struct Compare {
    /// The first module
    a: PathBuf,
    /// The second module, which should give the same results
    b: PathBuf,
    #[command(flatten)]
    case: CaseArgs,
    #[command(flatten)]
    on: OnArgs,
}

/// The runs of both modules in one place.
struct Pair {
    a: Ran,
    b: Ran,
    /// The differences of the second from the first.
    differences: Vec<Difference>,
}

impl Compare {
    pub(super) fn json(&self) -> bool {
        self.case.json
    }

    pub(super) fn run(&self, style: &OutputStyle) -> Result<Status, Failure> {
        let (first, second) = (io::load(&self.a)?, io::load(&self.b)?);
        let case = self.on.interp.apply(self.case.load()?);
        let options = self.case.options(0)?;
        let opened = self.on.open()?;
        let runners = self.on.runners(&opened, &case, style)?;
        let judge = Judge::new(&self.on, &runners, &first.module, &case);
        let mut pairs = Vec::new();
        for runner in &runners {
            let a = runner.run(&first.module, &case, &options)?;
            let b = runner.run(&second.module, &case, &options)?;
            let differences = judge.compare(&b, &a)?;
            if let Some(folder) = &self.case.dump_dir {
                let folder = if runners.len() > 1 { &folder.join(&runner.key) } else { folder };
                dump(&a.outcome, &folder.join("a"))?;
                dump(&b.outcome, &folder.join("b"))?;
            }
            pairs.push(Pair { a, b, differences });
        }
        // Where the modules agree everywhere, the first says it for both.
        let comparisons = on::across(pairs.iter().map(|pair| &pair.a), &judge)?;
        let fine = pairs.iter().all(|pair| verdict(&[&pair.a, &pair.b], &pair.differences) == Status::Success);
        let status = if fine && on::agree(&comparisons) { Status::Success } else { Status::Findings };
        if self.case.json {
            let objects = pairs
                .iter()
                .map(|Pair { a, b, differences }| json::compare((a, &first.module), (b, &second.module), differences))
                .collect();
            print(&json::several(objects, &comparisons, status == Status::Success));
        } else if style.quiet == 0 || status != Status::Success {
            let text: String = pairs.iter().map(|pair| describe(pair, [&first, &second], &case, style)).collect();
            print(&(text + &on::describe(&comparisons)));
        }
        Ok(status)
    }
}

fn describe(pair: &Pair, [first, second]: [&Loaded; 2], case: &Case, style: &OutputStyle) -> String {
    let mut text = String::new();
    for (loaded, ran) in [(first, &pair.a), (second, &pair.b)] {
        let complaints = ran.complaints(loaded, style);
        if !complaints.is_empty() {
            let _ = write!(text, "{}:\n{complaints}", loaded.name);
        }
    }
    for difference in &pair.differences {
        let _ = writeln!(text, "{difference}");
    }
    if pair.differences.is_empty() {
        let _ = writeln!(text, "all {} buffers agree on {}", case.buffer.len(), pair.a.outcome.device);
    }
    text
}
