//! `cooplab compile`: every module on the compiler of every driver.
//!
//! Each module has a process of its own on each device, which lowers it for every target and makes the pipelines: it is
//! this program, started with the device's driver (`scripts/drivers.sh`) and `--worker`. It prints a line when it begins a
//! target and one when it is done. What crashes it is the target that it was at; another process goes on behind that.
//! Generated modules are small and many: a process takes a batch of them.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use coop_cli::args::{MOST_JOBS, MOST_SECONDS, whole};
use coop_cli::cooprun::{DeviceArgs, Failure, print};
use coop_cli::io;
use coop_cli::process::{self, End, Limits};
use coop_cli::progress::Progress;
use coop_cli::{BUG, Status};
use coop_lab::compile::{Fate, Given, TARGETS, Tally, attempt, case_text, give};
use coop_lab::corpus::{self, Member, Part};
use coopmat::{Device, Target};
use serde::{Deserialize, Serialize};

use super::gpus;

/// A part of the corpus, on the command line.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum PartArg {
    /// The modules of testdata that have cases
    Testdata,
    /// The kernels that `cooplab figures` measures
    Bench,
    /// llama.cpp's modules (scripts/llama-shaders.sh)
    Llama,
}

impl From<PartArg> for Part {
    fn from(part: PartArg) -> Part {
        match part {
            PartArg::Testdata => Part::Testdata,
            PartArg::Bench => Part::Bench,
            PartArg::Llama => Part::Llama,
        }
    }
}

#[derive(Args, Debug)]
pub(crate) struct Compile {
    /// GPUs that are not there, by the names of `scripts/drivers.sh gpus`, or all; without it the device at hand
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    gpu: Vec<String>,
    /// Parts of the corpus
    #[arg(long, value_enum, value_delimiter = ',', default_value = "testdata,bench,llama")]
    part: Vec<PartArg>,
    /// Also so many generated modules of each dialect
    #[arg(long, value_name = "N", default_value_t = 0)]
    generated: u64,
    /// The seed of the first of them
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// The targets: auto, khr, scalar
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = "auto,khr,scalar")]
    target: Vec<String>,
    /// Only modules whose name contains this
    #[arg(long, value_name = "TEXT")]
    only: Vec<String>,
    /// Only every Nth module, another one first on each device
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = whole::<usize>(1, 1 << 20))]
    every: usize,
    /// Processes at a time
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = whole::<u64>(1, MOST_JOBS))]
    jobs: u64,
    /// The time limit of a process in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = whole::<u64>(1, MOST_SECONDS))]
    timeout: u64,
    /// The most memory of a process
    #[arg(long, value_name = "MIB", default_value_t = 8192, value_parser = whole::<u64>(64, 1 << 30))]
    memory: u64,
    /// Begin no module after so many seconds
    #[arg(long, value_name = "SECONDS")]
    most_seconds: Option<u64>,
    /// Keep what was given to a driver that did not make a pipeline of it, with a case for `cooprun compile`
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Also write the result to this file, as JSON
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The work of this process, as JSON
    #[arg(long, value_name = "WORK", hide = true)]
    worker: Option<String>,
    #[command(flatten)]
    device: DeviceArgs,
}

/// The most generated modules of one process.
const BATCH: usize = 64;

/// The time after which a process begins none of the modules that are left of its batch.
const BATCH_TIME: Duration = Duration::from_secs(20);

/// The attempts of a worker, in order: all targets of a module before the next module.
#[derive(Serialize, Deserialize)]
struct Work<'a> {
    members: Cow<'a, [Member]>,
    /// The attempts of the first module that are done.
    done: usize,
}

/// A line of a worker: about the attempt behind those that are done.
#[derive(Serialize, Deserialize)]
enum Line {
    /// It begins.
    Begin,
    /// It is done.
    Done(Fate),
}

/// A device, and the program that starts others with its driver.
struct Place {
    name: String,
    runner: Option<OsString>,
}

/// Returns the target of this name on the command line.
fn target(name: &str) -> Result<Target, Failure> {
    let known = TARGETS.map(|(known, _)| known).join(", ");
    let found = TARGETS.iter().find(|(known, _)| *known == name);
    let target = found.map(|(_, target)| *target);
    target.ok_or_else(|| Failure::Usage(format!("--target: there is no '{name}', only: {known}")))
}

impl Compile {
    pub(crate) fn run(&self) -> Result<Status, Failure> {
        let targets = self.target.iter().map(|name| target(name)).collect::<Result<Vec<Target>, Failure>>()?;
        if let Some(work) = &self.worker {
            let work = serde_json::from_str(work).map_err(|error| Failure::Usage(format!("--worker: {error}")))?;
            return self.work(&work, &targets);
        }
        let members = self.members()?;
        let places = self.places()?;
        if let Some(folder) = &self.keep {
            std::fs::create_dir_all(folder)
                .map_err(|error| Failure::Usage(format!("{}: {error}", folder.display())))?;
        }
        let start = Instant::now();
        let (tally, left) = self.all(&places, &members);
        let seconds = start.elapsed().as_secs_f64();
        let mut text = tally.table();
        text.push('\n');
        for (device, target, module, fate) in tally.troubles() {
            text.push_str(&format!("{device}, {target}, {module}: {}\n", fate.to_string().replace('\n', "; ")));
        }
        let (modules, devices) = (members.len(), places.len());
        text.push_str(&format!("{modules} modules, {devices} devices, {} pipelines in {seconds:.0} s\n", tally.made()));
        if left > 0 {
            text.push_str(&format!("{left} modules of all devices were not begun: the time was over\n"));
        }
        print(&text);
        if let Some(path) = &self.output {
            let text = serde_json::to_string_pretty(&tally).map_err(|error| Failure::Usage(error.to_string()))?;
            io::write_bytes(path, (text + "\n").as_bytes())?;
        }
        Ok(if tally.troubles().next().is_none() { Status::Success } else { Status::Findings })
    }

    fn members(&self) -> Result<Vec<Member>, Failure> {
        let mut members = Vec::new();
        for part in &self.part {
            members.extend(corpus::members((*part).into())?);
        }
        members.extend(corpus::generated(self.generated, self.seed));
        members.retain(|member| self.only.is_empty() || self.only.iter().any(|text| member.name.contains(text)));
        if members.is_empty() {
            return Err(Failure::Usage("there is no such module".to_owned()));
        }
        Ok(members)
    }

    fn places(&self) -> Result<Vec<Place>, Failure> {
        if self.gpu.is_empty() {
            let vulkan = self.device.open()?;
            let name = self.device.executor(&vulkan)?.profile().device.clone();
            return Ok(vec![Place { name, runner: std::env::var_os("COOP_RUNNER") }]);
        }
        let gpus = gpus::named(&self.gpu)?.into_iter();
        Ok(gpus.map(|gpu| Place { name: gpu.name, runner: Some(gpu.runner.into()) }).collect())
    }

    /// Runs all modules on all devices. Returns the fates, and how many modules were not begun in time.
    fn all(&self, places: &[Place], members: &[Member]) -> (Tally, usize) {
        let start = Instant::now();
        let batches = self.batches(places, members);
        let modules = batches.iter().map(|(_, batch)| batch.len()).sum::<usize>();
        let progress = Progress::new(modules as u64, "{pos} of {len} modules, {eta} left", true);
        let todo = Mutex::new(VecDeque::from(batches));
        let result = Mutex::new((Tally::default(), 0));
        let in_time = || self.most_seconds.is_none_or(|most| start.elapsed().as_secs() < most);
        std::thread::scope(|scope| {
            for _ in 0..self.jobs {
                scope.spawn(|| {
                    loop {
                        let next = todo.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
                        let Some((place, batch)) = next else { break };
                        let fates = self.batch(place, &batch, &in_time);
                        let fates: Vec<&[Fate]> = fates.chunks(self.target.len()).collect();
                        let mut result = result.lock().unwrap_or_else(PoisonError::into_inner);
                        result.1 += batch.len() - fates.len();
                        for (member, fates) in batch.iter().zip(fates) {
                            for (target, fate) in self.target.iter().zip(fates) {
                                if fate.is_trouble() {
                                    io::error(&format!("{}, {target}, {}: {fate}", place.name, member.name));
                                }
                                result.0.enter(&place.name, target, &member.name, fate.clone());
                            }
                        }
                        batch.iter().for_each(|_| progress.step());
                    }
                });
            }
        });
        result.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the modules of each process: devices take turns.
    fn batches<'p>(&self, places: &'p [Place], members: &[Member]) -> Vec<(&'p Place, Vec<Member>)> {
        let mut batches = Vec::new();
        for (n, place) in places.iter().enumerate() {
            let here = members.iter().enumerate().filter(|(at, _)| (at + n) % self.every == 0);
            let here: Vec<Member> = here.map(|(_, member)| member.clone()).collect();
            let (generated, alone): (Vec<Member>, Vec<Member>) = here.into_iter().partition(Member::is_generated);
            let of_place = alone.chunks(1).chain(generated.chunks(BATCH)).map(<[Member]>::to_vec);
            batches.extend(of_place.enumerate().map(|(turn, batch)| (turn, place, batch)));
        }
        batches.sort_by_key(|(turn, ..)| *turn);
        batches.into_iter().map(|(_, place, batch)| (place, batch)).collect()
    }

    /// Runs modules on a device. Returns the fates of all targets of a module, of the next, and so on, as far as there was time.
    fn batch(&self, place: &Place, members: &[Member], in_time: &dyn Fn() -> bool) -> Vec<Fate> {
        let mut fates: Vec<Fate> = Vec::new();
        let targets = self.target.len();
        let more = if members.len() > 1 { BATCH_TIME } else { Duration::ZERO };
        let limits = Limits { time: Duration::from_secs(self.timeout) + more, memory: self.memory };
        while fates.len() < members.len() * targets && (in_time() || !fates.len().is_multiple_of(targets)) {
            let work = Work { members: members[fates.len() / targets..].into(), done: fates.len() % targets };
            let mut command = process::program_with(place.runner.as_deref());
            let text = serde_json::to_string(&work).unwrap_or_default();
            command.args(["compile", "--worker", &text, "--target", &self.target.join(",")]).stdin(Stdio::null());
            if let Some(folder) = &self.keep {
                command.arg("--keep").arg(folder.join(place.name.replace(|c: char| !c.is_alphanumeric(), "-")));
            }
            if let Some(device) = &self.device.device {
                command.args(["--device", device]);
            }
            let finished = match process::finish(&mut command, limits) {
                Ok(finished) => finished,
                Err(error) => {
                    fates.push(Fate::Ours(format!("a process can't be started: {error}")));
                    continue;
                }
            };
            let before = fates.len();
            let mut at_work = false;
            for line in finished.stdout.lines().filter_map(|line| serde_json::from_str(line).ok()) {
                at_work = matches!(line, Line::Begin);
                if let Line::Done(fate) = line {
                    fates.push(fate);
                }
            }
            // It ended between two modules: what ends the next one does so at the beginning of the next process.
            if fates.len() > before && !at_work {
                continue;
            }
            let said = finished.last_words().unwrap_or_default();
            let how = format!("the process {}; its last words: {said}", finished.end);
            fates.push(match finished.end {
                End::Crashed(_) => Fate::Crashed(how),
                End::OutOfTime(_) | End::OutOfMemory(_) => Fate::OverLimit(how),
                End::Status(BUG) => Fate::Ours(finished.stderr.trim().to_owned()),
                End::Status(_) => Fate::Ours(how),
            });
        }
        fates
    }

    /// Lowers modules of this process for each target and makes the pipelines.
    fn work(&self, work: &Work<'_>, targets: &[Target]) -> Result<Status, Failure> {
        // The validation layer would tell of the lowered modules what tests with spirv-val tell.
        let vulkan = coop_exec::Vulkan::open(false)?;
        let executor = self.device.executor(&vulkan)?;
        let device = Device::from_profile(executor.profile().clone());
        let sizes = device.profile().required_subgroup_sizes();
        let start = Instant::now();
        let mut done = work.done;
        for member in work.members.iter() {
            if start.elapsed() > BATCH_TIME {
                break;
            }
            let used = member.load(&sizes)?;
            // Targets often come to the same words.
            let mut before: Vec<(Given, Fate)> = Vec::new();
            for (name, target) in self.target.iter().zip(targets).skip(std::mem::take(&mut done)) {
                say(&Line::Begin);
                let fate = match give(&used, &device, *target) {
                    Err(fate) => fate,
                    Ok(given) => match before.iter().find(|(other, _)| other.words == given.words) {
                        Some((_, fate)) => fate.clone(),
                        None => {
                            let kept = self.keep(member, name, &given)?;
                            let fate = attempt(&executor, &given);
                            if fate.is_made() {
                                kept.iter().for_each(|file| drop(std::fs::remove_file(file)));
                            }
                            before.push((given, fate.clone()));
                            fate
                        }
                    },
                };
                say(&Line::Done(fate));
            }
        }
        Ok(Status::Success)
    }

    /// Writes what the driver gets, before it may crash. Returns the files.
    fn keep(&self, member: &Member, target: &str, given: &Given) -> Result<Vec<PathBuf>, Failure> {
        let Some(prefix) = &self.keep else { return Ok(Vec::new()) };
        let name: String = member.name.chars().map(|c| if c.is_alphanumeric() { c } else { '-' }).collect();
        let stem = prefix.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let path = |ending: &str| prefix.with_file_name(format!("{stem}-{target}-{name}.{ending}"));
        let bytes: Vec<u8> = given.words.iter().flat_map(|word| word.to_le_bytes()).collect();
        write(&path("spv"), &bytes)?;
        write(&path("toml"), case_text(&given.case).as_bytes())?;
        Ok(vec![path("spv"), path("toml")])
    }
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    io::write_bytes(path, bytes).map_err(Failure::from)
}

fn say(line: &Line) {
    match serde_json::to_string(line) {
        Ok(text) => io::print(&format!("{text}\n")),
        Err(error) => unreachable!("names and texts only: {error}"),
    }
}
