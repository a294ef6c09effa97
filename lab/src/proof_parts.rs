//! A campaign of proofs in parts: each has a process of its own, and what is done stays in a file from which another call goes on.
//!
//! A process that ends by itself, or says nothing for long, loses the module that it was at, which counts as failed.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use coop_cli::args::TargetArg;
use coop_cli::progress::interrupted;
use serde::{Deserialize, Serialize};

use crate::proof_campaign::{Campaign, FAILED, Outcomes, Table};
use crate::proofs::word;

/// The modules of a part.
const MODULES: u64 = 100;

/// The longest time that a process says nothing: several runs of one module.
const MOST_SILENCE: Duration = Duration::from_secs(400);

/// The time that processes have to end after the last module was begun.
const GRACE: Duration = Duration::from_secs(20);

/// The most letters of a message in the file.
const MOST_LETTERS: usize = 2000;

/// The reason of an outcome whose process ended.
pub const ENDED: &str = "the process ended";

/// The options that the modules of a file have in common.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Head {
    targets: Vec<String>,
    dialects: Vec<String>,
    arithmetic: String,
    symbols: u64,
}

/// The outcomes of modules whose seeds follow one another.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Part {
    first: u64,
    modules: u64,
    rows: Vec<Outcomes>,
}

/// The file of what is done.
struct State {
    file: File,
    /// The seeds that are done: of the first, and the number.
    done: Vec<(u64, u64)>,
    table: Table,
}

impl State {
    /// Opens the file, or makes it.
    fn open(path: &Path, campaign: &Campaign) -> Result<State, String> {
        let fail = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let opened = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path);
        let mut file = opened.map_err(|error| fail(&error))?;
        let mut text = String::new();
        file.read_to_string(&mut text).map_err(|error| fail(&error))?;
        // A call that was ended may have written a part of its last line.
        let whole = text.rfind('\n').map_or(0, |at| at + 1);
        file.set_len(whole as u64).and_then(|()| file.seek(SeekFrom::End(0))).map_err(|error| fail(&error))?;
        let head = Head {
            targets: campaign.targets.iter().map(|target| word(*target)).collect(),
            dialects: campaign.dialects.iter().map(|dialect| dialect.name().to_owned()).collect(),
            arithmetic: campaign.options.arithmetic.name().to_owned(),
            symbols: campaign.options.seed,
        };
        let mut state = State { file, done: Vec::new(), table: Table::default() };
        let mut lines = text[..whole].lines();
        match lines.next() {
            None => state.write(&head).map_err(|error| fail(&error))?,
            Some(line) => {
                let of: Head = serde_json::from_str(line).map_err(|error| fail(&error))?;
                if of != head {
                    return Err(fail(&format!(
                        "the campaign there is {of:?}, this one is {head:?}; take another file"
                    )));
                }
            }
        }
        for line in lines {
            let part: Part = serde_json::from_str(line).map_err(|error| fail(&error))?;
            state.count(part);
        }
        Ok(state)
    }

    fn write(&mut self, line: &impl Serialize) -> std::io::Result<()> {
        let text = serde_json::to_string(line)? + "\n";
        self.file.write_all(text.as_bytes())
    }

    fn count(&mut self, part: Part) {
        self.done.push((part.first, part.modules));
        self.table.modules += part.modules;
        part.rows.into_iter().for_each(|of| self.table.add(of));
    }

    /// Writes down what is done, and counts it. One message of a kind is enough.
    fn add(&mut self, mut part: Part) -> std::io::Result<()> {
        if part.modules == 0 {
            return Ok(());
        }
        for of in &mut part.rows {
            if self.table.has_earlier(of) {
                of.message.clear();
            }
            of.message = of.message.chars().take(MOST_LETTERS).collect();
        }
        self.write(&part)?;
        self.count(part);
        Ok(())
    }

    /// Returns the seeds that are to do.
    fn gaps(&mut self, seed: u64, modules: u64) -> VecDeque<(u64, u64)> {
        self.done.sort_unstable();
        let (mut gaps, mut at, end) = (VecDeque::new(), seed, seed.saturating_add(modules));
        for (first, modules) in self.done.iter().copied().chain([(end, 0)]) {
            while at < first.min(end) {
                let count = MODULES.min(first.min(end) - at);
                gaps.push_back((at, count));
                at += count;
            }
            at = at.max(first.saturating_add(modules));
        }
        gaps
    }
}

/// A campaign whose parts are processes.
pub struct Parts<'a> {
    /// The campaign.
    pub campaign: &'a Campaign,
    /// Makes the command that proves so many modules from a seed on for some targets, one after the other, and writes a line of
    /// JSON for each outcome.
    pub command: &'a (dyn Fn(u64, u64, &[TargetArg]) -> Command + Sync),
}

/// The lowerings that one process proves: modules from a seed on for some targets.
#[derive(Clone, Debug)]
struct Work {
    first: u64,
    modules: u64,
    targets: Vec<TargetArg>,
}

/// The end of a process.
enum End {
    /// It did what it was to do, or was asked to end.
    Done,
    /// It ended before that, for the reason.
    Lost(String),
}

impl Parts<'_> {
    /// Goes on with the campaign of a file. `report` gets the number of modules done, every now and then.
    pub fn run(&self, path: &Path, report: &(dyn Fn(u64) + Sync)) -> Result<Table, String> {
        let mut state = State::open(path, self.campaign)?;
        let gaps = Mutex::new(state.gaps(self.campaign.seed, self.campaign.modules));
        let (state, failure) = (Mutex::new(state), Mutex::new(None));
        let start = Instant::now();
        std::thread::scope(|scope| {
            for _ in 0..self.campaign.jobs.max(1) {
                scope.spawn(|| {
                    loop {
                        let next = gaps.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
                        let Some((first, modules)) = next.filter(|_| !self.is_late(start)) else { return };
                        let part = self.part(first, modules, start);
                        let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
                        match part.and_then(|part| state.add(part).map_err(|error| error.to_string())) {
                            Ok(()) if state.table.modules % 10_000 < MODULES => report(state.table.modules),
                            Ok(()) => {}
                            Err(why) => {
                                *failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
                                return;
                            }
                        }
                    }
                });
            }
        });
        if let Some(why) = failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
            return Err(why);
        }
        let mut state = state.into_inner().unwrap_or_else(PoisonError::into_inner);
        let gaps = state.gaps(self.campaign.seed, self.campaign.modules);
        let end = self.campaign.seed.saturating_add(self.campaign.modules);
        state.table.next = gaps.front().map_or(end, |(first, _)| *first);
        Ok(state.table)
    }

    fn is_late(&self, start: Instant) -> bool {
        interrupted() || self.campaign.most.is_some_and(|most| start.elapsed() > most)
    }

    /// Proves the modules of a part, or those that there is time for.
    fn part(&self, first: u64, modules: u64, start: Instant) -> Result<Part, String> {
        let mut work = VecDeque::from([Work { first, modules, targets: self.campaign.targets.clone() }]);
        let mut table = Table::default();
        let mut done = 0;
        while let Some(now) = work.pop_front() {
            let (rows, end) = self.process(&now, start)?;
            let count = rows.len();
            let (whole, rest) = (count / now.targets.len(), count % now.targets.len());
            let is_last = (now.first + now.modules).saturating_sub(first);
            match end {
                _ if count == now.modules as usize * now.targets.len() => {
                    rows.into_iter().for_each(|of| table.add(of));
                    done = is_last;
                }
                End::Lost(why) => {
                    rows.into_iter().for_each(|of| table.add(of));
                    let seed = now.first + whole as u64;
                    let said = (FAILED, ENDED.to_owned(), why);
                    table.add(self.campaign.outcome(seed, now.targets[rest], said));
                    let after = now.modules - whole as u64 - 1;
                    done = seed + 1 - first;
                    if after > 0 {
                        work.push_front(Work {
                            first: seed + 1,
                            modules: after,
                            targets: self.campaign.targets.clone(),
                        });
                    }
                    if rest + 1 < now.targets.len() {
                        work.push_front(Work { first: seed, modules: 1, targets: now.targets[rest + 1..].to_vec() });
                    }
                }
                // Late: modules without an outcome for each target are left for another call.
                End::Done => {
                    let full = whole * now.targets.len();
                    rows.into_iter().take(full).for_each(|of| table.add(of));
                    done = (now.first + whole as u64).saturating_sub(first).max(done);
                    break;
                }
            }
        }
        Ok(Part { first, modules: done, rows: table.rows().cloned().collect() })
    }

    /// Runs one process. Returns the outcomes that it wrote, and how it ended.
    fn process(&self, work: &Work, start: Instant) -> Result<(Vec<Outcomes>, End), String> {
        let mut command = (self.command)(work.first, work.modules, &work.targets);
        let spawned = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        let mut child = spawned.map_err(|error| format!("{}: {error}", command.get_program().display()))?;
        let (send, lines) = channel();
        let out = child.stdout.take();
        let reader = std::thread::spawn(move || {
            for line in out.into_iter().flat_map(|out| BufReader::new(out).lines()).map_while(Result::ok) {
                if send.send(line).is_err() {
                    return;
                }
            }
        });
        let end = self.campaign.most.map(|most| start + most + GRACE);
        let (rows, silent) = outcomes(&lines, end);
        let status = if silent.is_some() { stop(&mut child) } else { child.wait() };
        let status = status.map_err(|error| error.to_string())?;
        drop(lines);
        let _ = reader.join();
        Ok((rows, self.end(silent, status, start)))
    }

    fn end(&self, silent: Option<Duration>, status: ExitStatus, start: Instant) -> End {
        match silent {
            Some(MOST_SILENCE) => End::Lost(format!("no outcome in {} s", MOST_SILENCE.as_secs())),
            Some(_) => End::Done,
            None if status.code().is_some_and(|code| code <= 1) || self.is_late(start) => End::Done,
            None => End::Lost(status.to_string()),
        }
    }
}

/// Ends a process.
fn stop(child: &mut Child) -> std::io::Result<ExitStatus> {
    child.kill()?;
    child.wait()
}

/// Returns the outcomes that a process writes, and how long it said nothing if it was not to go on.
fn outcomes(lines: &Receiver<String>, end: Option<Instant>) -> (Vec<Outcomes>, Option<Duration>) {
    let mut rows = Vec::new();
    loop {
        let left = end.map(|end| end.saturating_duration_since(Instant::now()));
        let wait = left.map_or(MOST_SILENCE, |left| left.min(MOST_SILENCE));
        match lines.recv_timeout(wait) {
            Ok(line) => rows.extend(serde_json::from_str::<Outcomes>(&line)),
            Err(RecvTimeoutError::Timeout) => return (rows, Some(wait)),
            Err(RecvTimeoutError::Disconnected) => return (rows, None),
        }
    }
}
