//! `cooplab mutants`.

use std::path::PathBuf;

use clap::Args;
use coop_lab::generator::{Dialect, Limits};

use coop_cli::Status;
use coop_cli::args::{MOST_JOBS, whole};
use coop_cli::cooprun::{Failure, print};
use coop_lab::campaign::{Scores, score, score_device};

#[derive(Args, Debug)]
pub(crate) struct Mutants {
    /// Dialects of the modules, or all
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = "all")]
    dialect: Vec<String>,
    /// The number of modules of each dialect
    #[arg(long, value_name = "N", default_value_t = 200)]
    count: u64,
    /// The seed of the first
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Break this rule only; none, with an empty word, so that valid modules are checked
    #[arg(long, value_name = "ID")]
    rule: Option<String>,
    /// Ask spirv-val as well
    #[arg(long, value_name = "PROGRAM", num_args = 0..=1, default_missing_value = "spirv-val")]
    spirv_val: Option<PathBuf>,
    /// Ask it about one module of so many only: it takes a process for each
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = whole::<u64>(1, u64::MAX))]
    each: u64,
    /// Keep a module for each rule that was not found
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Write the scores as a page too
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
    /// Threads
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = whole::<u64>(1, MOST_JOBS))]
    jobs: u64,
    /// The share of broken rules that must be found, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 99.0)]
    wanted: f64,
}

impl Mutants {
    pub(crate) fn run(&self) -> Result<Status, Failure> {
        let mut dialects = Vec::new();
        for name in &self.dialect {
            match Dialect::from_name(name) {
                Some(d) => dialects.push(d),
                None if name == "all" => dialects.extend(Dialect::ALL),
                None => return Err(Failure::Usage(format!("there is no dialect '{name}'"))),
            }
        }
        let jobs = self.jobs.max(1);
        let one = |job: u64| {
            let mut scores = Scores::default();
            for dialect in &dialects {
                for seed in (job..self.count).step_by(jobs as usize) {
                    let validator = self.spirv_val.as_deref().map(|tool| (tool, self.each));
                    let (seed, rule) = (self.seed.wrapping_add(seed), self.rule.as_deref());
                    score(*dialect, seed, validator, rule, &mut scores);
                    if dialect.has(Limits::Lavapipe) {
                        score_device(*dialect, seed, rule, &mut scores);
                    }
                }
            }
            scores
        };
        let one = &one;
        let all: Vec<Scores> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..jobs).map(|job| scope.spawn(move || one(job))).collect();
            threads.into_iter().filter_map(|t| t.join().ok()).collect()
        });
        let mut scores = Scores::default();
        all.into_iter().for_each(|s| scores.add(s));
        if let Some(folder) = &self.keep {
            scores.keep(folder).map_err(|e| Failure::Usage(format!("{}: {e}", folder.display())))?;
        }
        if let Some(page) = &self.page {
            let how = format!("cooplab mutants --count {} --seed {} --each {}", self.count, self.seed, self.each);
            let written = std::fs::write(page, scores.page(&format!("{how} --spirv-val --page docs/mutants.md")));
            written.map_err(|e| Failure::Usage(format!("{}: {e}", page.display())))?;
        }
        print(scores.table().trim_end());
        let (broken, found) = scores.total();
        let good = found as f64 * 100.0 >= broken as f64 * self.wanted;
        Ok(if good { Status::Success } else { Status::Findings })
    }
}
