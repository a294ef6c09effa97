//! `cooplab proofs`.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::{Args, ValueEnum};
use coop_cli::Status;
use coop_cli::cooprun::{Failure, print};
use coop_cli::progress::Progress;
use coop_exec::interp::Arithmetic;
use coop_exec::proof::{Options, Verdict};
use coop_lab::generator::{Dialect, GeneratorProfile};
use coop_lab::proofs::{List, Subject, Tally, generated, word};

#[derive(Args, Debug)]
pub(crate) struct Proofs {
    /// The list of lowerings (TOML)
    list: Option<PathBuf>,
    /// Take only entries whose module has this in its path
    #[arg(long, value_name = "TEXT", default_value = "")]
    only: String,
    /// The meaning of float arithmetic
    #[arg(long, value_name = "MODE", value_enum, default_value_t = Mode::Reals)]
    mode: Mode,
    /// Plant this many errors in each lowered module too
    #[arg(long, value_name = "N", default_value_t = 0)]
    planted: usize,
    /// The seed of the symbols and of the choice of errors
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Prove the lowerings of this many generated modules of each dialect instead
    #[arg(long, value_name = "N", default_value_t = 0)]
    generated: u64,
    /// The dialects of generated modules, or all
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = "all", requires = "generated")]
    dialect: Vec<String>,
    /// Print each planted error that is not refuted, and each generated module that is not proved
    #[arg(long)]
    show_open: bool,
    /// Write the tables as a page
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Mode {
    Reals,
    Rounding,
    Strict,
}

impl Proofs {
    pub(crate) fn run(&self) -> Result<Status, Failure> {
        let arithmetic = match self.mode {
            Mode::Reals => Arithmetic::Reals,
            Mode::Rounding => Arithmetic::Rounding,
            Mode::Strict => Arithmetic::Strict,
        };
        let options = Options { arithmetic, seed: self.seed, fixed: Vec::new() };
        if self.generated > 0 {
            return self.generated(&options);
        }
        let Some(path) = &self.list else { return Err(Failure::Usage("give a list, or --generated N".into())) };
        let list = List::load(path)?;
        let mut table = String::from(
            "| module | target | verdict | elements | blocks of the original, of the lowered module | error |\n\
             |---|---|---|--:|---|---|\n",
        );
        let (mut tally, mut wrong) = (Tally::default(), 0u32);
        let entries = list.proof.iter().filter(|entry| entry.module.display().to_string().contains(&self.only));
        let progress = Progress::new(entries.clone().count() as u64, "{pos} of {len} entries, {eta} left", true);
        for entry in entries {
            for subject in list.subjects(entry)? {
                match subject {
                    Ok(subject) => {
                        let (row, fine) = self.subject(&subject, &options, &mut tally)?;
                        table.push_str(&row);
                        wrong += u32::from(!fine);
                    }
                    Err(refusal) => {
                        let fine = entry.open.as_ref().is_some_and(|open| refusal.contains(open));
                        wrong += u32::from(!fine);
                        print(&format!("refused: {refusal}"));
                    }
                }
            }
            progress.step();
        }
        drop(progress);
        let mut text = table;
        if self.planted > 0 {
            let _ = write!(text, "\n{}", tally.table());
        }
        if let Some(page) = &self.page {
            let written = std::fs::write(page, self.page_text(&text));
            written.map_err(|error| Failure::Usage(format!("{}: {error}", page.display())))?;
        }
        print(&text);
        Ok(if wrong == 0 { Status::Success } else { Status::Findings })
    }

    /// Proves a lowering. Returns its row, and true if the verdict is the expected one.
    fn subject(&self, subject: &Subject, options: &Options, tally: &mut Tally) -> Result<(String, bool), Failure> {
        let started = Instant::now();
        let proof = subject.prove(options)?;
        let (verdict, fine) = match (&proof.verdict, &subject.open) {
            (Verdict::Proved, None) => ("proved".to_owned(), true),
            (Verdict::NotProvable(why), Some(open)) if why.contains(open.as_str()) => {
                (format!("not provable: {why}"), true)
            }
            (Verdict::Proved, Some(_)) => ("proved, against what the list says".to_owned(), false),
            (Verdict::NotProvable(why), _) => (format!("not provable: {why}"), false),
            (Verdict::Refuted(why), _) => (format!("refuted: {why}"), false),
        };
        let [a, b] = &proof.blocks;
        let (name, target) = (&subject.name, word(subject.target));
        let blocks = format!("{} of {}, {} of {}", a.executed, a.all(), b.executed, b.all());
        let error = if proof.is_proved() { format!("2^{:.0}", proof.log2_error.ceil()) } else { String::new() };
        let verdict = verdict.lines().next().unwrap_or_default();
        let row = format!("| {name} | {target} | {verdict} | {} | {blocks} | {error} |\n", proof.stored);
        print(&format!("{name} to {target}: {verdict} ({:.1} s)", started.elapsed().as_secs_f64()));
        let mut sound = true;
        if self.planted > 0 && proof.is_proved() {
            for trial in subject.plant(options, self.planted, self.seed)? {
                tally.add(&trial);
                if let Some(data) = &trial.contradicted {
                    sound = false;
                    print(&format!("wrongly proved: {}: {data}", trial.planted));
                }
                if self.show_open && !matches!(trial.verdict, Verdict::Refuted(_)) {
                    print(&format!("  {}: {:?}", trial.planted, trial.verdict));
                }
            }
        }
        Ok((row, fine && sound))
    }

    /// Proves the lowerings of generated modules.
    fn generated(&self, options: &Options) -> Result<Status, Failure> {
        let mut dialects = Vec::new();
        for name in &self.dialect {
            match Dialect::from_name(name) {
                Some(dialect) => dialects.push(dialect),
                None if name == "all" => dialects.extend(Dialect::ALL),
                None => return Err(Failure::Usage(format!("there is no dialect '{name}'"))),
            }
        }
        let mut wrong = 0;
        for dialect in dialects {
            let [mut proved, mut open, mut refused] = [0u64; 3];
            for seed in self.seed..self.seed.saturating_add(self.generated) {
                let Ok(subject) = generated(GeneratorProfile::any(dialect), seed)? else {
                    refused += 1;
                    continue;
                };
                // Generated modules read sizes and indices from this buffer, so that no compiler knows them.
                let fixed = subject.case.buffer.iter().filter(|b| b.name == "T").map(|b| b.name.clone()).collect();
                match subject.prove(&Options { fixed, ..options.clone() })?.verdict {
                    Verdict::Proved => proved += 1,
                    Verdict::NotProvable(why) => {
                        open += 1;
                        if self.show_open {
                            print(&format!("{}: not provable: {why}", subject.name));
                        }
                    }
                    Verdict::Refuted(why) => {
                        wrong += 1;
                        print(&format!("{}: refuted: {why}", subject.name));
                    }
                }
            }
            let name = dialect.name();
            print(&format!(
                "{name}: {proved} proved, {open} not provable, {wrong} refuted so far, {refused} not lowered"
            ));
        }
        Ok(if wrong == 0 { Status::Success } else { Status::Findings })
    }

    fn page_text(&self, tables: &str) -> String {
        let planted = if self.planted > 0 { format!(" --planted {}", self.planted) } else { String::new() };
        format!(
            "# Lowerings that are proved\n\nWritten by `cooplab proofs {}{planted} --page docs/proved.md`; [proofs.md](proofs.md) says what a proof is.\n\n{tables}",
            self.list.as_deref().unwrap_or(Path::new("")).display()
        )
    }
}
