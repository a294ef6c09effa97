//! Proofs of the lowerings of generated modules, with a table of why some are not proved.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use coop_cli::args::TargetArg;
use coop_cli::progress::interrupted;
use coop_exec::proof::{Options, Verdict};
use serde::{Deserialize, Serialize};

use crate::generator::{Dialect, GeneratorProfile, Limits};
use crate::proof_reasons::Reason;
use crate::proofs::{generated, word};

/// The longest run of one module.
const MOST_TIME: Duration = Duration::from_secs(120);

/// The modules of a campaign, and how they are proved.
#[derive(Clone, Debug)]
pub struct Campaign {
    /// The number of modules for each target; the dialects take turns.
    pub modules: u64,
    /// The seed of the first module; each has the next.
    pub seed: u64,
    /// The dialects.
    pub dialects: Vec<Dialect>,
    /// The targets.
    pub targets: Vec<TargetArg>,
    /// The options of each proof.
    pub options: Options,
    /// The number of threads.
    pub jobs: u64,
    /// The time after which no module is begun.
    pub most: Option<Duration>,
}

/// The outcomes of one kind, with the first module that had it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Outcomes {
    /// The target.
    pub target: String,
    /// The verdict in words.
    pub verdict: String,
    /// The kind of reason; nothing where the verdict is one.
    pub reason: String,
    /// Their number.
    pub count: u64,
    /// Dialect and limits of the one with the lowest seed.
    pub profile: String,
    /// The lowest seed.
    pub seed: u64,
    /// The whole message of that.
    pub message: String,
}

impl Outcomes {
    /// Returns dialect, limits and seed of the first module.
    pub fn first(&self) -> String {
        format!("{} {}", self.profile, self.seed)
    }

    /// Returns dialect and limits of the first module.
    pub fn profile(&self) -> Option<GeneratorProfile> {
        GeneratorProfile::from_name(&self.profile)
    }
}

/// The outcomes of a campaign by target, verdict and reason.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Table {
    rows: BTreeMap<[String; 3], Outcomes>,
    /// The number of modules.
    pub modules: u64,
    /// The seed after that of the last module: where another campaign goes on.
    pub next: u64,
}

impl Table {
    /// Adds outcomes of a kind.
    pub fn add(&mut self, of: Outcomes) {
        let key = [&of.target, &of.verdict, &of.reason].map(String::clone);
        let row = self.rows.entry(key);
        row.and_modify(|all| {
            let count = all.count + of.count;
            if of.seed < all.seed {
                *all = of.clone();
            }
            all.count = count;
        })
        .or_insert(of);
    }

    /// Returns the outcomes of each kind.
    pub fn rows(&self) -> impl Iterator<Item = &Outcomes> {
        self.rows.values()
    }

    /// Returns true if outcomes of this kind are there, of a module with a lower seed.
    pub fn has_earlier(&self, of: &Outcomes) -> bool {
        let key = [&of.target, &of.verdict, &of.reason].map(String::clone);
        self.rows.get(&key).is_some_and(|row| row.seed < of.seed)
    }

    /// Returns the number of outcomes of a verdict: proved, not provable, refuted, not lowered, failed.
    pub fn count(&self, verdict: &str) -> u64 {
        self.rows.iter().filter(|(key, _)| key[1] == verdict).map(|(_, of)| of.count).sum()
    }

    /// Returns the targets and the first modules of the outcomes that are wrong: refutations, failures, and proofs that are open
    /// by no known kind of reason.
    pub fn wrong(&self) -> impl Iterator<Item = (&str, &Outcomes)> {
        self.of(|verdict| matches!(verdict, REFUTED | FAILED | UNEXPLAINED))
    }

    /// Returns the targets and the first modules of what is neither proved nor refuted.
    pub fn open(&self) -> impl Iterator<Item = (&str, &Outcomes)> {
        self.of(|verdict| verdict == OPEN)
    }

    fn of(&self, wanted: impl Fn(&str) -> bool) -> impl Iterator<Item = (&str, &Outcomes)> {
        self.rows.iter().filter(move |(key, _)| wanted(&key[1])).map(|(key, of)| (key[0].as_str(), of))
    }

    /// Returns the table as text.
    pub fn text(&self) -> String {
        let mut text = String::from("| target | verdict | reason | modules | the first |\n|---|---|---|--:|---|\n");
        for ([target, verdict, reason], of) in &self.rows {
            let reason = reason.replace('|', "\\|");
            let first = if verdict == PROVED { String::new() } else { of.first() };
            let _ = writeln!(text, "| {target} | {verdict} | {reason} | {} | {first} |", of.count);
        }
        text
    }
}

const PROVED: &str = "proved";
const OPEN: &str = "not provable";
/// Open by no kind of reason that is known: somebody has to look.
const UNEXPLAINED: &str = "not explained";
const REFUTED: &str = "refuted";
const REFUSED: &str = "not lowered";
pub(crate) const FAILED: &str = "failed";

impl Campaign {
    /// Proves the lowerings. `report` gets the number of modules done, every now and then.
    pub fn run(&self, report: &(dyn Fn(u64) + Sync)) -> Table {
        let (next, start) = (AtomicU64::new(0), Instant::now());
        let table = Mutex::new(Table::default());
        std::thread::scope(|scope| {
            for _ in 0..self.jobs.max(1) {
                scope.spawn(|| {
                    loop {
                        let late = interrupted() || self.most.is_some_and(|most| start.elapsed() > most);
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        if number >= self.modules || late {
                            return;
                        }
                        for target in &self.targets {
                            let of = self.prove(self.seed.wrapping_add(number), *target);
                            if let Ok(mut table) = table.lock() {
                                table.add(of);
                            }
                        }
                        if number > 0 && number.is_multiple_of(10_000) {
                            report(number);
                        }
                    }
                });
            }
        });
        let mut table = table.into_inner().unwrap_or_default();
        // Each thread has counted one that it did not begin.
        table.modules = next.into_inner().saturating_sub(self.jobs.max(1));
        table.next = self.seed.wrapping_add(table.modules);
        table
    }

    /// Proves the lowerings one after the other, and hands each outcome over.
    pub fn each(&self, done: &dyn Fn(&Outcomes)) -> Table {
        let mut table = Table::default();
        let start = Instant::now();
        for number in 0..self.modules {
            if interrupted() || self.most.is_some_and(|most| start.elapsed() > most) {
                break;
            }
            let seed = self.seed.wrapping_add(number);
            for target in &self.targets {
                let of = self.prove(seed, *target);
                done(&of);
                table.add(of);
            }
            (table.modules, table.next) = (number + 1, seed.wrapping_add(1));
        }
        table
    }

    /// Returns dialect and limits of the module of a seed.
    pub fn profile(&self, seed: u64, target: TargetArg) -> GeneratorProfile {
        // By the seed, so that a campaign in parts has the modules of the whole.
        let dialect = self.dialects[(seed % self.dialects.len() as u64) as usize];
        // What is lowered to tiles has the types and sizes of tiles.
        let limits = if target == TargetArg::Scalar { Limits::Any } else { Limits::Tiles };
        GeneratorProfile { dialect, limits }
    }

    /// Proves the lowering of the module of a seed for a target.
    pub fn prove(&self, seed: u64, target: TargetArg) -> Outcomes {
        let profile = self.profile(seed, target);
        let tried = catch_unwind(AssertUnwindSafe(|| self.tried(profile, seed, target)));
        let said = tried.unwrap_or_else(|panic| {
            let said = panic.downcast_ref::<String>().cloned();
            let said = said.or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned())).unwrap_or_default();
            (FAILED, "a panic".to_owned(), said)
        });
        self.outcome(seed, target, said)
    }

    /// Returns the outcome of one module: the verdict, its kind of reason, and the whole reason.
    pub(crate) fn outcome(
        &self,
        seed: u64,
        target: TargetArg,
        (verdict, reason, message): (&str, String, String),
    ) -> Outcomes {
        let profile = self.profile(seed, target).to_string();
        Outcomes { target: word(target), verdict: verdict.to_owned(), reason, count: 1, profile, seed, message }
    }

    /// Returns the verdict, its kind of reason, and the whole reason.
    fn tried(&self, profile: GeneratorProfile, seed: u64, target: TargetArg) -> (&'static str, String, String) {
        let mut subject = match generated(profile, seed, target) {
            Ok(Ok(subject)) => subject,
            Ok(Err(rule)) => return (REFUSED, rule.clone(), rule),
            Err(failure) => return (FAILED, "the lowering".to_owned(), failure.to_string()),
        };
        subject.interpreted = subject.interpreted.within(MOST_TIME);
        let proof = subject.prove(&self.options);
        let difference = proof.as_ref().ok().and_then(|proof| proof.difference.as_ref());
        let text = difference.map(|difference| format!("\n{difference}")).unwrap_or_default();
        match proof.as_ref().map(|proof| &proof.verdict) {
            Ok(Verdict::Proved) => (PROVED, String::new(), String::new()),
            Ok(Verdict::NotProvable(open)) => {
                let operation = open.operation.as_ref().map(|of| format!(": {of}")).unwrap_or_default();
                let (verdict, reason) = match Reason::of(open, difference) {
                    Some(Reason::Law(law)) => (OPEN, Reason::Law(law).name().to_owned()),
                    Some(reason) => (OPEN, format!("{}{operation}", reason.name())),
                    None => (UNEXPLAINED, format!("{}{operation}", open.cause.name())),
                };
                (verdict, reason, open.message.clone() + &text)
            }
            Ok(Verdict::Refuted(why)) => (REFUTED, String::new(), why.clone() + &text),
            Err(error) => (FAILED, "the proof".to_owned(), error.to_string()),
        }
    }
}
