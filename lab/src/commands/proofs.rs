//! `cooplab proofs`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use coop_cli::args::{MOST_JOBS, MOST_SECONDS, TargetArg, whole};
use coop_cli::cooprun::{Failure, print};
use coop_cli::progress::{self, Progress};
use coop_cli::{Status, io};
use coop_device::Profile;
use coop_exec::interp::Arithmetic;
use coop_exec::proof::{Options, Verdict};
use coop_ir::binary;
use coop_lab::generator::Dialect;
use coop_lab::llama;
use coop_lab::proof_campaign::{Campaign, Outcomes, Table};
use coop_lab::proof_parts::{ENDED, Parts};
use coop_lab::proofs::{List, Setting, Subject, Tally, Task, Times, Trial, generated, made, word};
use serde::{Deserialize, Serialize};

#[derive(Args, Debug)]
pub(crate) struct Proofs {
    /// The list of lowerings (TOML)
    list: Option<PathBuf>,
    /// Prove the lowerings of llama.cpp's modules too: the folder that scripts/llama-shaders.sh made, and that of the cases
    #[arg(long, value_name = "SHADERS CASES", num_args = 2)]
    llama: Option<Vec<PathBuf>>,
    /// Run no module for longer
    #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = whole::<u64>(1, MOST_SECONDS))]
    timeout: u64,
    /// Take only modules that have this in their names
    #[arg(long, value_name = "TEXT", default_value = "")]
    only: String,
    /// Prove nothing: compare the times of symbolic runs with those of ordinary ones
    #[arg(long, conflicts_with_all = ["planted", "every_setting", "generated"])]
    speed: bool,
    /// Prove each lowering in subgroups of 8, 16, 32 and 64, with each placement of elements
    #[arg(long)]
    every_setting: bool,
    /// The meaning of float arithmetic
    #[arg(long, value_name = "MODE", value_enum, default_value_t = Mode::Reals)]
    mode: Mode,
    /// Plant this many errors in each lowered module too
    #[arg(long, value_name = "N", default_value_t = 0)]
    planted: usize,
    /// The seed of the symbols and of the choice of errors
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Prove the lowerings of this many generated modules for each target instead; the dialects take turns
    #[arg(long, value_name = "N", default_value_t = 0)]
    generated: u64,
    /// The targets of generated modules
    #[arg(
        long,
        value_enum,
        value_name = "NAMES",
        value_delimiter = ',',
        default_value = "scalar",
        requires = "generated"
    )]
    target: Vec<TargetArg>,
    /// Threads that share the modules
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = whole::<u64>(1, MOST_JOBS))]
    jobs: u64,
    /// Begin no module after so many seconds
    #[arg(long, value_name = "SECONDS")]
    most_seconds: Option<u64>,
    /// Write what is done into a file, and go on from there; generated modules are proved in processes of their own
    #[arg(long, value_name = "FILE", conflicts_with_all = ["planted", "speed", "every_setting"])]
    state: Option<PathBuf>,
    /// Write a line of JSON for each lowering as soon as it is done, and no table
    #[arg(long, requires = "generated", conflicts_with_all = ["state", "keep", "show_open"])]
    rows: bool,
    /// The dialects of generated modules, or all
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = "all", requires = "generated")]
    dialect: Vec<String>,
    /// Print each planted error that is not refuted, and the whole reason of the first generated module of each kind
    #[arg(long)]
    show_open: bool,
    /// Keep the first generated module of each kind that is not proved: the original, the lowered one and the case
    #[arg(long, value_name = "DIR", requires = "generated")]
    keep: Option<PathBuf>,
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

const PROVED: &str = "proved";

/// Locks what threads share. A thread that panicked leaves nothing half done.
fn locked<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes a generated module, its lowering and its case into a folder.
fn keep(folder: &Path, target: &str, of: &Outcomes) -> Result<(), Failure> {
    let named = <TargetArg as ValueEnum>::from_str(target, false).map_err(Failure::Usage)?;
    let name = format!("{} to {target}", of.first()).replace(' ', "-");
    let write = |end: &str, bytes: &[u8]| {
        let path = folder.join(format!("{name}.{end}"));
        let written = std::fs::create_dir_all(folder).and_then(|()| std::fs::write(&path, bytes));
        written.map_err(|error| Failure::Usage(format!("{}: {error}", path.display())))
    };
    let Some(profile) = of.profile() else { return Ok(()) };
    write("toml", made(profile, of.seed).case.as_bytes())?;
    // The process of such a module ended: its lowering is what it may have ended in.
    if of.reason == ENDED {
        return write("spv", &binary::write(&made(profile, of.seed).module));
    }
    if let Ok(Ok(subject)) = generated(profile, of.seed, named) {
        write("spv", &binary::write(&subject.module))?;
        write("lowered.spv", &binary::write(&subject.lowered))?;
    }
    Ok(())
}

/// Writes an outcome as a line of JSON.
fn write_row(of: &Outcomes) {
    print(&serde_json::to_string(of).unwrap_or_default());
}

/// The results for planted errors.
#[derive(Default)]
struct Planted {
    tally: Tally,
    /// Those that are neither refuted nor equivalent: the lowering, the error and the reason.
    open: BTreeSet<String>,
}

impl Planted {
    fn add(&mut self, lowering: &str, trial: &Trial) {
        self.tally.add(trial);
        if let Verdict::NotProvable(why) = &trial.verdict {
            self.open.insert(format!("- {lowering}, {}: {why}", trial.planted));
        }
    }

    fn text(&self) -> String {
        let mut text = self.tally.table();
        if !self.open.is_empty() {
            text.push_str("\nNeither refuted nor proved equivalent:\n\n");
            self.open.iter().for_each(|line| text.push_str(&format!("{line}\n")));
        }
        text
    }
}

/// A row of the table.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Row {
    text: String,
    /// The verdict in a word.
    kind: String,
    /// True if it is the expected one.
    fine: bool,
    /// How many times as long as an ordinary run a symbolic one takes, if that was asked for.
    ratio: Option<f64>,
}

/// The rows of earlier calls, and the file to which each is added as soon as it is done.
struct Known {
    rows: BTreeMap<String, Row>,
    file: Mutex<File>,
}

impl Known {
    /// Opens the file of proofs with some options, or makes it.
    fn open(path: &Path, options: &str) -> Result<Known, Failure> {
        let fail = |error: std::io::Error| Failure::Usage(format!("{}: {error}", path.display()));
        let text = if path.exists() { io::read_text(path)? } else { String::new() };
        // A call that was ended may have written a part of its last line.
        let whole = text.rfind('\n').map_or(0, |at| at + 1);
        let mut lines = text[..whole].lines();
        let head = lines.next();
        if let Some(head) = head.filter(|head| *head != options) {
            let why = format!("its rows are of '{head}', not of '{options}'; take another file");
            return Err(Failure::Usage(format!("{}: {why}", path.display())));
        }
        let rows = lines.map(serde_json::from_str::<(String, Row)>).collect::<Result<_, _>>();
        let rows = rows.map_err(|error| Failure::Usage(format!("{}: {error}", path.display())))?;
        let mut file = OpenOptions::new().create(true).append(true).open(path).map_err(fail)?;
        file.set_len(whole as u64).map_err(fail)?;
        if head.is_none() {
            std::io::Write::write_all(&mut file, format!("{options}\n").as_bytes()).map_err(fail)?;
        }
        Ok(Known { rows, file: Mutex::new(file) })
    }

    fn row(&self, name: &str, target: TargetArg) -> Option<Row> {
        self.rows.get(&Known::key(name, target)).cloned()
    }

    /// Writes a row down. One that can't be written is done again by the next call.
    fn add(&self, name: &str, target: TargetArg, row: &Row) {
        let key = Known::key(name, target);
        if !self.rows.contains_key(&key)
            && let Ok(line) = serde_json::to_string(&(key, row))
        {
            let _ = std::io::Write::write_all(&mut *locked(&self.file), (line + "\n").as_bytes());
        }
    }

    fn key(name: &str, target: TargetArg) -> String {
        format!("{name} to {}", word(target))
    }
}

/// The runs of which the fastest counts.
const REPEAT: u32 = 3;

impl Proofs {
    /// Returns true if an interrupt leaves a seed to go on with.
    pub(crate) fn resumes(&self) -> bool {
        self.generated > 0
    }

    pub(crate) fn run(&self) -> Result<Status, Failure> {
        let arithmetic = match self.mode {
            Mode::Reals => Arithmetic::Reals,
            Mode::Rounding => Arithmetic::Rounding,
            Mode::Strict => Arithmetic::Strict,
        };
        let options = Options { arithmetic, seed: self.seed, fixed: Vec::new(), explain: true };
        if self.generated > 0 {
            return self.generated(options);
        }
        let tasks = self.tasks()?;
        let work: Vec<(usize, TargetArg)> = tasks
            .iter()
            .enumerate()
            .flat_map(|(n, task)| task.targets.iter().map(move |target| (n, *target)))
            .collect();
        let same = format!("--mode {} --seed {} --timeout {}", arithmetic.name(), self.seed, self.timeout);
        let known = self.state.as_deref().map(|path| Known::open(path, &same)).transpose()?;
        let (next, done) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
        let (planted, started) = (Mutex::new(Planted::default()), Instant::now());
        let progress = Progress::new(work.len() as u64, "{pos} of {len} lowerings, {eta} left", true);
        std::thread::scope(|scope| {
            for _ in 0..self.jobs {
                scope.spawn(|| {
                    while let Some((n, target)) = work.get(next.fetch_add(1, Ordering::Relaxed)) {
                        let task = &tasks[*n];
                        let earlier = known.as_ref().and_then(|known| known.row(&task.name, *target));
                        let late = self.most_seconds.is_some_and(|most| started.elapsed().as_secs() >= most);
                        if late && earlier.is_none() {
                            continue;
                        }
                        let row = match earlier {
                            Some(row) => Ok(row),
                            None => self.task(task, *target, &options, &planted),
                        };
                        if let (Some(known), Ok(row)) = (&known, &row) {
                            known.add(&task.name, *target, row);
                        }
                        locked(&done).insert((*n, word(*target)), row);
                        progress.step();
                    }
                });
            }
        });
        drop(progress);
        let mut text = String::from(if self.speed {
            "| module | target | ordinary run, ms | symbolic run, ms | times |\n|---|---|--:|--:|--:|\n"
        } else {
            "| module | target | verdict | elements | blocks of the original, of the lowered module | error |\n\
             |---|---|---|--:|---|---|\n"
        });
        let (mut wrong, mut counts, mut ratios) = (0u32, BTreeMap::<String, u32>::new(), Vec::new());
        let done = std::mem::take(&mut *locked(&done));
        let number = done.len();
        for row in done.into_values() {
            let row = row?;
            text.push_str(&row.text);
            ratios.extend(row.ratio);
            wrong += u32::from(!row.fine);
            *counts.entry(row.kind).or_default() += 1;
        }
        let counts: Vec<String> = counts.iter().map(|(kind, n)| format!("{n} {kind}")).collect();
        let _ = writeln!(text, "\n{number} of {} lowerings: {}", work.len(), counts.join(", "));
        ratios.sort_by(f64::total_cmp);
        if let (Some(median), Some(most)) = (ratios.get(ratios.len() / 2), ratios.last()) {
            let mean = (ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64).exp();
            let _ = writeln!(
                text,
                "a symbolic run takes {mean:.1} times as long as an ordinary one (geometric mean; median {median:.1}, at most {most:.1})"
            );
        }
        if self.planted > 0 {
            // The lowerings are on a page of their own.
            text = locked(&planted).text();
        }
        if let Some(page) = &self.page {
            let written = std::fs::write(page, self.page_text(&text));
            written.map_err(|error| Failure::Usage(format!("{}: {error}", page.display())))?;
        }
        print(&text);
        Ok(if wrong == 0 { Status::Success } else { Status::Findings })
    }

    /// Returns the modules to prove lowerings of.
    fn tasks(&self) -> Result<Vec<Task>, Failure> {
        let mut tasks = match &self.list {
            Some(path) => List::load(path)?.tasks()?,
            None if self.llama.is_none() => return Err(Failure::Usage("give a list, --llama or --generated N".into())),
            None => Vec::new(),
        };
        if let Some(folders) = &self.llama {
            let [shaders, cases] = folders.as_slice() else {
                return Err(Failure::Usage("--llama: give the folder of the shaders and that of the cases".into()));
            };
            let profile = Profile::builtin("nvidia-h100")
                .ok_or_else(|| Failure::Usage("there is no profile 'nvidia-h100'".into()))?;
            let (found, without) = llama::modules(shaders, cases)?;
            if !without.is_empty() {
                print(&format!("without a case: {}", without.join(", ")));
            }
            tasks.extend(found.into_iter().map(|found| Task {
                name: format!("llama/{}", found.name),
                module: found.module,
                case: found.case,
                profile: profile.clone(),
                targets: vec![TargetArg::Scalar, TargetArg::Khr],
                fixed: found.fixed,
                open: None,
            }));
        }
        tasks.retain(|task| task.name.contains(&self.only));
        Ok(tasks)
    }

    /// Lowers and proves. Returns the row of the table.
    fn task(
        &self,
        task: &Task,
        target: TargetArg,
        options: &Options,
        planted: &Mutex<Planted>,
    ) -> Result<Row, Failure> {
        if self.every_setting {
            return self.every(task, target, options);
        }
        if self.speed {
            return self.timed(task, target, options);
        }
        match task.subject(target, Setting::default())? {
            Ok(subject) => self.subject(subject, options, planted),
            Err(refusal) => {
                let fine = task.open.as_ref().is_some_and(|open| refusal.contains(open));
                let (name, target) = (&task.name, word(target));
                print(&format!("{name} to {target}: refused: {refusal}"));
                let first = refusal.lines().next().unwrap_or_default();
                let text = format!("| {name} | {target} | refused: {first} | | | |\n");
                Ok(Row { text, kind: "refused".to_owned(), fine, ratio: None })
            }
        }
    }

    /// Compares the time of a symbolic run with that of an ordinary one. Returns one row of the table.
    fn timed(&self, task: &Task, target: TargetArg, options: &Options) -> Result<Row, Failure> {
        let (name, target_name) = (&task.name, word(target));
        let Ok(subject) = task.subject(target, Setting::default())? else {
            return Ok(Row { text: String::new(), kind: "refused".to_owned(), fine: true, ratio: None });
        };
        let Times { ordinary, symbolic } = subject.times(options, REPEAT)?;
        let ratio = symbolic / ordinary;
        let text = format!("| {name} | {target_name} | {:.1} | {:.1} | {ratio:.1} |\n", 1e3 * ordinary, 1e3 * symbolic);
        Ok(Row { text, kind: "timed".to_owned(), fine: true, ratio: Some(ratio) })
    }

    /// Proves a lowering in each setting. Returns one row of the table.
    fn every(&self, task: &Task, target: TargetArg, options: &Options) -> Result<Row, Failure> {
        let started = Instant::now();
        let options = Options { explain: false, ..options.clone() };
        let (mut outcomes, mut stored) = (BTreeMap::<String, (usize, BTreeSet<u32>)>::new(), 0);
        let (mut error, mut proved, mut all) = (f64::NEG_INFINITY, 0, 0);
        for setting in task.settings() {
            let (said, size) = match task.subject(target, setting)? {
                // The workgroup is no multiple of the size: the lowering is for others.
                Err(refusal) if refusal.contains("[refused-subgroup-size]") => continue,
                Err(refusal) => (format!("refused: {refusal}"), setting.size.unwrap_or_default()),
                Ok(mut subject) => {
                    subject.interpreted = subject.interpreted.within(Duration::from_secs(self.timeout));
                    let proof = subject.prove(&options)?;
                    stored = stored.max(proof.stored);
                    let said = match proof.verdict {
                        Verdict::Proved => {
                            (error, proved) = (proof.log2_error.max(error), proved + 1);
                            PROVED.to_owned()
                        }
                        Verdict::NotProvable(why) => format!("not provable: {why}"),
                        Verdict::Refuted(why) => format!("refuted: {why}"),
                    };
                    (said, subject.interpreted.config.subgroup_size)
                }
            };
            all += 1;
            let said = said.lines().next().unwrap_or_default().to_owned();
            let of = outcomes.entry(said).or_default();
            of.0 += 1;
            of.1.insert(size);
        }
        let parts: Vec<String> = outcomes
            .iter()
            .map(|(said, (count, sizes))| {
                let sizes: Vec<String> = sizes.iter().map(ToString::to_string).collect();
                format!("{said} ({count} settings, subgroups of {})", sizes.join(", "))
            })
            .collect();
        let (name, target, verdict) = (&task.name, word(target), parts.join("; "));
        print(&format!("{name} to {target}: {verdict} ({:.1} s)", started.elapsed().as_secs_f64()));
        let error = if proved > 0 { format!("2^{:.0}", error.ceil()) } else { String::new() };
        let text = format!("| {name} | {target} | {verdict} | {stored} | | {error} |\n");
        let kind = if proved == all { PROVED } else { "with another outcome in some setting" }.to_owned();
        let expected = |said: &String| said == PROVED || task.open.as_ref().is_some_and(|open| said.contains(open));
        Ok(Row { text, kind, fine: outcomes.keys().all(expected), ratio: None })
    }

    /// Proves a lowering. Returns its row of the table.
    fn subject(&self, mut subject: Subject, options: &Options, planted: &Mutex<Planted>) -> Result<Row, Failure> {
        let started = Instant::now();
        subject.interpreted = subject.interpreted.within(Duration::from_secs(self.timeout));
        let proof = subject.prove(options)?;
        let (verdict, fine) = match (&proof.verdict, &subject.open) {
            (Verdict::Proved, None) => ("proved".to_owned(), true),
            (Verdict::NotProvable(why), Some(open)) if why.message.contains(open.as_str()) => {
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
            let mut trials = subject.plant(options, self.planted, self.seed)?;
            let rounding = Options { arithmetic: Arithmetic::Rounding, ..options.clone() };
            if options.arithmetic != rounding.arithmetic && subject.prove(&rounding)?.is_proved() {
                trials.extend(subject.plant(&rounding, self.planted, self.seed)?);
            }
            for trial in trials {
                locked(planted).add(&format!("{name} to {target}"), &trial);
                if trial.elsewhere {
                    sound = false;
                    print(&format!("the wrong element: {}: {:?}", trial.planted, trial.verdict));
                }
                if let Some(data) = &trial.contradicted {
                    sound = false;
                    print(&format!("wrongly proved: {}: {data}", trial.planted));
                }
                if self.show_open && !matches!(trial.verdict, Verdict::Refuted(_)) {
                    print(&format!("  {}: {:?}", trial.planted, trial.verdict));
                }
            }
        }
        let kind = match proof.verdict {
            Verdict::Proved => "proved",
            Verdict::NotProvable(_) => "not provable",
            Verdict::Refuted(_) => "refuted",
        };
        Ok(Row { text: row, kind: kind.to_owned(), fine: fine && sound, ratio: None })
    }

    /// Proves the lowerings of generated modules.
    fn generated(&self, options: Options) -> Result<Status, Failure> {
        let mut dialects = Vec::new();
        for name in &self.dialect {
            match Dialect::from_name(name) {
                Some(dialect) => dialects.push(dialect),
                None if name == "all" => dialects.extend(Dialect::ALL),
                None => return Err(Failure::Usage(format!("there is no dialect '{name}'"))),
            }
        }
        if dialects.is_empty() || self.target.is_empty() {
            return Err(Failure::Usage("give a dialect and a target at least".into()));
        }
        if dialects.contains(&Dialect::Kernel) && self.target.iter().any(|target| *target != TargetArg::Scalar) {
            return Err(Failure::Usage("kernels have no modules for tiles: take --target scalar".into()));
        }
        let campaign = Campaign {
            modules: self.generated,
            seed: self.seed,
            dialects,
            targets: self.target.clone(),
            options,
            jobs: self.jobs,
            most: self.most_seconds.map(Duration::from_secs),
        };
        progress::watch_interrupts().map_err(Failure::Usage)?;
        let hook = std::panic::take_hook();
        // A panic inside is the outcome of its module.
        std::panic::set_hook(Box::new(|_| {}));
        let started = Instant::now();
        let table = if self.rows { Ok(campaign.each(&write_row)) } else { self.table(&campaign, started) };
        std::panic::set_hook(hook);
        let table = table?;
        if self.rows {
            return Ok(Status::Success);
        }
        let mut text = table.text();
        let open = table.open().filter(|_| self.show_open);
        for (target, of) in table.wrong().chain(open) {
            let _ = writeln!(text, "\n{} to {target}: {}", of.first(), of.message);
        }
        if let Some(folder) = &self.keep {
            for (target, of) in table.wrong().chain(table.open()) {
                keep(folder, target, of)?;
            }
        }
        let (done, next) = (table.modules, table.next);
        let seconds = started.elapsed().as_secs_f64();
        let _ = write!(text, "\n{done} modules for each target in {seconds:.0} s; --seed {next} goes on");
        print(&text);
        Ok(if table.wrong().next().is_none() { Status::Success } else { Status::Findings })
    }

    /// Proves the lowerings of a campaign, with a file of what is done or without.
    fn table(&self, campaign: &Campaign, started: Instant) -> Result<Table, Failure> {
        let report = |n: u64| io::error(&format!("{n} modules after {:.0} s", started.elapsed().as_secs_f64()));
        let Some(path) = &self.state else { return Ok(campaign.run(&report)) };
        let program = std::env::current_exe().map_err(|error| Failure::Usage(error.to_string()))?;
        let command = |seed: u64, modules: u64, targets: &[TargetArg]| {
            let targets: Vec<String> = targets.iter().map(|target| word(*target)).collect();
            let mut command = Command::new(&program);
            command.args(["proofs", "--rows", "--generated", &modules.to_string(), "--seed", &seed.to_string()]);
            command.args(["--target", &targets.join(","), "--dialect", &self.dialect.join(",")]);
            command.args(["--mode", campaign.options.arithmetic.name()]);
            command
        };
        Parts { campaign, command: &command }.run(path, &report).map_err(Failure::Usage)
    }

    fn page_text(&self, tables: &str) -> String {
        let mut words: Vec<String> = self.list.iter().map(|list| list.display().to_string()).collect();
        if let Some([_, cases]) = self.llama.as_deref() {
            words.push(format!("--llama SHADERS {}", cases.display()));
        }
        if !self.only.is_empty() {
            words.push(format!("--only {}", self.only));
        }
        if self.every_setting {
            words.push("--every-setting".to_owned());
        }
        if self.planted > 0 {
            words.push(format!("--planted {}", self.planted));
        }
        let page = self.page.as_deref().and_then(Path::file_name).unwrap_or_default();
        words.push(format!("--page docs/{}", page.display()));
        if self.speed {
            words.push("--speed".to_owned());
        }
        let title = match (self.llama.is_some(), self.every_setting) {
            _ if self.planted > 0 => "Errors planted in lowerings",
            _ if self.speed => "The time of symbolic runs",
            (true, _) => "llama.cpp's modules, lowered and proved",
            (false, true) => "Lowerings that are proved with each placement and size of subgroups",
            (false, false) => "Lowerings that are proved",
        };
        let words = words.join(" ");
        format!(
            "# {title}\n\nWritten by `cooplab proofs {words}`; [proofs.md](proofs.md) says what a proof is.\n\n{tables}"
        )
    }
}
