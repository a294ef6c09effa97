//! `cooplab compile`: every module on the compiler of every driver.
//!
//! Each module has a process of its own on each device, which lowers it for every target and makes the pipelines: it is
//! this program, started with the device's driver (`scripts/drivers.sh`) and `--worker`. It prints a line when it begins a
//! target and one when it is done. What crashes it is the target that it was at; another process goes on behind that.

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
use coopmat::Device;
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
    /// The module of this process, as JSON
    #[arg(long, value_name = "MEMBER", hide = true)]
    worker: Option<String>,
    #[command(flatten)]
    device: DeviceArgs,
}

/// A line of a worker.
#[derive(Serialize, Deserialize)]
enum Line {
    /// It begins this target.
    Begin(String),
    /// It is done with the target.
    Done(String, Fate),
}

/// A device, and the program that starts others with its driver.
struct Place {
    name: String,
    runner: Option<OsString>,
}

impl Compile {
    pub(crate) fn run(&self) -> Result<Status, Failure> {
        if let Some(unknown) = self.target.iter().find(|name| TARGETS.iter().all(|(known, _)| known != name)) {
            let known = TARGETS.map(|(name, _)| name).join(", ");
            return Err(Failure::Usage(format!("--target: there is no '{unknown}', only: {known}")));
        }
        if let Some(member) = &self.worker {
            let member = serde_json::from_str(member).map_err(|error| Failure::Usage(format!("--worker: {error}")))?;
            return self.work(&member);
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
        let mut todo: VecDeque<(&Place, &Member)> = VecDeque::new();
        for (at, member) in members.iter().enumerate() {
            let here = places.iter().enumerate().filter(|(n, _)| (at + n) % self.every == 0);
            todo.extend(here.map(|(_, place)| (place, member)));
        }
        let progress = Progress::new(todo.len() as u64, "{pos} of {len} modules, {eta} left", true);
        let (todo, tally) = (Mutex::new(todo), Mutex::new(Tally::default()));
        let in_time = || self.most_seconds.is_none_or(|most| start.elapsed().as_secs() < most);
        std::thread::scope(|scope| {
            for _ in 0..self.jobs {
                scope.spawn(|| {
                    while in_time() {
                        let next = todo.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
                        let Some((place, member)) = next else { break };
                        let fates = self.one(place, member);
                        let mut tally = tally.lock().unwrap_or_else(PoisonError::into_inner);
                        for (target, fate) in fates {
                            if fate.is_trouble() {
                                io::error(&format!("{}, {target}, {}: {fate}", place.name, member.name));
                            }
                            tally.enter(&place.name, &target, &member.name, fate);
                        }
                        progress.step();
                    }
                });
            }
        });
        let left = todo.into_inner().unwrap_or_else(PoisonError::into_inner).len();
        (tally.into_inner().unwrap_or_else(PoisonError::into_inner), left)
    }

    /// Runs one module on a device, with all targets.
    fn one(&self, place: &Place, member: &Member) -> Vec<(String, Fate)> {
        let mut fates: Vec<(String, Fate)> = Vec::new();
        let limits = Limits { time: Duration::from_secs(self.timeout), memory: self.memory };
        loop {
            let left: Vec<&str> = self.target.iter().skip(fates.len()).map(String::as_str).collect();
            if left.is_empty() {
                return fates;
            }
            let mut command = process::program_with(place.runner.as_deref());
            let member_text = serde_json::to_string(member).unwrap_or_default();
            command.args(["compile", "--worker", &member_text, "--target", &left.join(",")]).stdin(Stdio::null());
            if let Some(folder) = &self.keep {
                command.arg("--keep").arg(folder.join(place.name.replace(|c: char| !c.is_alphanumeric(), "-")));
            }
            if let Some(device) = &self.device.device {
                command.args(["--device", device]);
            }
            let finished = match process::finish(&mut command, limits) {
                Ok(finished) => finished,
                Err(error) => {
                    fates.push((left[0].to_owned(), Fate::Ours(format!("a process can't be started: {error}"))));
                    continue;
                }
            };
            let mut at = left[0].to_owned();
            let mut done = 0;
            for line in finished.stdout.lines().filter_map(|line| serde_json::from_str(line).ok()) {
                match line {
                    Line::Begin(target) => at = target,
                    Line::Done(target, fate) => {
                        fates.push((target, fate));
                        done += 1;
                    }
                }
            }
            if done == left.len() {
                return fates;
            }
            let said = finished.last_words().unwrap_or_default();
            let how = format!("the process {}; its last words: {said}", finished.end);
            fates.push((
                at,
                match finished.end {
                    End::Crashed(_) => Fate::Crashed(how),
                    End::OutOfTime(_) | End::OutOfMemory(_) => Fate::OverLimit(how),
                    End::Status(BUG) => Fate::Ours(finished.stderr.trim().to_owned()),
                    End::Status(_) => Fate::Ours(how),
                },
            ));
        }
    }

    /// Lowers the module of this process for each target and makes the pipelines.
    fn work(&self, member: &Member) -> Result<Status, Failure> {
        // The validation layer would tell of the lowered modules what tests with spirv-val tell.
        let vulkan = coop_exec::Vulkan::open(false)?;
        let executor = self.device.executor(&vulkan)?;
        let device = Device::from_profile(executor.profile().clone());
        let used = member.load(&device.profile().required_subgroup_sizes())?;
        // Targets often come to the same words.
        let mut before: Vec<(Given, Fate)> = Vec::new();
        for (name, target) in TARGETS.iter().filter(|(name, _)| self.target.iter().any(|wanted| wanted == name)) {
            say(&Line::Begin((*name).to_owned()));
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
            say(&Line::Done((*name).to_owned(), fate));
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
