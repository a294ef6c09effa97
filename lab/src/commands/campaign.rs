//! `cooplab campaign`.
//!
//! With the interpreter alone, jobs are threads. With a device each job is a process of its own: drivers crash, hang
//! and share locks. A job writes down what it is at and what it has done, so that another can go on behind what took
//! it down.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use coop_components::Lacks;
use coop_exec::opencl::OpenClExecutor;
use coop_exec::vulkan::VulkanExecutor;
use coop_exec::{Case, Executor, OpenCl, Vulkan};
use coop_lab::generator::{Dialect, GeneratorProfile, Limits, generate};
use serde_json::{Value, json};

use coop_cli::Status;
use coop_cli::args::{MOST_ENTROPY, MOST_JOBS, MOST_SECONDS, TargetArg, whole};
use coop_cli::cooprun::{DeviceArgs, Failure, print};
use coop_cli::io;
use coop_cli::process::this_program;
use coop_cli::progress::{self, Progress};
use coop_lab::campaign::{
    Differential, Tally, Trouble, Without, entropy, keep, may_end, may_end_lowered, reduce, salt, shrink, try_seed,
};

/// The exit status of a process whose device did not answer in time.
const GIVEN_UP: i32 = 102;

/// A place to run modules.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Where {
    /// The reference interpreter
    Interp,
    /// A Vulkan device
    Vulkan,
    /// An OpenCL device, which runs kernels (--dialect kernel)
    Opencl,
}

/// The limits that modules keep to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum LimitsArg {
    /// Each in turn: the limits of the device, if there is one; modules that can be lowered to tiles, if that is asked
    /// for; the specification's limits only
    Auto,
    /// The specification only
    Any,
    /// Types and sizes that can be lowered to matrices of 8 x 8 x 8
    Tiles,
    /// The limits of lavapipe
    Lavapipe,
    /// The limits of an NVIDIA GPU
    Nvidia,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct Campaign {
    /// Instructions that modules have, each dialect in its turn: khr, nv2 and so on, or all; kernel makes kernels of OpenCL
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = "khr")]
    dialect: Vec<String>,
    /// The number of modules of each dialect; a dialect that is named twice has twice as many
    #[arg(long, value_name = "N", default_value_t = 1000)]
    count: u64,
    /// The seed of the first; each module has the next
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// The most entropy for a module, which is how large it may become
    #[arg(long, value_name = "BYTES", default_value_t = 600, value_parser = whole::<usize>(1, MOST_ENTROPY))]
    bytes: usize,
    /// Threads that share the work, or processes where there is a device
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = whole::<u64>(1, MOST_JOBS))]
    jobs: u64,
    /// The places to run them
    #[arg(long, value_enum, value_delimiter = ',', default_value = "interp,vulkan")]
    on: Vec<Where>,
    /// With how many placements of elements the interpreter runs them as they are, 1 to 3
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = whole::<usize>(1, 3))]
    placements: usize,
    /// Leave the device what is lowered only
    #[arg(long)]
    lowered_only: bool,
    /// Ask the driver for pipelines without optimization, which some make sooner
    #[arg(long)]
    unoptimized: bool,
    /// The targets of the lowering; an empty string means none
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = "scalar")]
    target: Vec<String>,
    /// The built-in profile whose tile shapes the lowering targets; by default that of the device, or of lavapipe
    #[arg(long, value_name = "NAME")]
    tile_profile: Option<String>,
    /// Features of component types that lowered code does without, by commas; every one: all; any, others for each module: some
    #[arg(long, value_name = "FEATURES|all|some")]
    without: Option<String>,
    /// The limits that modules keep to
    #[arg(long, value_enum, default_value = "auto")]
    limits: LimitsArg,
    /// Keep what fails here, shrunk
    #[arg(long, value_name = "DIR", default_value = "smith-found")]
    keep: PathBuf,
    /// Begin no module after so many seconds
    #[arg(long, value_name = "SECONDS")]
    most_seconds: Option<u64>,
    /// Keep the counts in this file after each part of the campaign, and go on behind the parts that it counts
    #[arg(long, value_name = "FILE", conflicts_with = "again")]
    state: Option<PathBuf>,
    /// The number of modules of each dialect in a part
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = whole::<u64>(1, 1 << 32), requires = "state")]
    part: u64,
    /// The number of attempts to shrink a failing module, in each of two ways
    #[arg(long, value_name = "TRIES", default_value_t = 400)]
    shrink: u32,
    /// Ask spirv-val about every module too
    #[arg(long, value_name = "PROGRAM", num_args = 0..=1, default_missing_value = "spirv-val")]
    spirv_val: Option<PathBuf>,
    /// End a process that is at one module for longer
    #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = whole::<u64>(1, MOST_SECONDS))]
    patience: u64,
    /// Also say how often each construct was made
    #[arg(long)]
    constructs: bool,
    /// Run one again: entropy (FILE.bin), or a module with the case beside it (FILE.spv or .spvasm, and FILE.toml)
    #[arg(long, value_name = "FILE", requires = "profile")]
    again: Option<PathBuf>,
    /// The profile that it is of: khr, nv2-lavapipe and so on
    #[arg(long, value_name = "NAME", value_parser = profile_named)]
    profile: Option<GeneratorProfile>,
    /// The number of the job that this process runs, and its first module
    #[arg(long, value_name = "JOB,FIRST", value_delimiter = ',', hide = true)]
    worker: Option<Vec<u64>>,
    #[command(flatten)]
    device: DeviceArgs,
}

fn profile_named(name: &str) -> Result<GeneratorProfile, String> {
    GeneratorProfile::from_name(name).ok_or_else(|| format!("there is not a profile '{name}'"))
}

/// The devices that run modules besides the interpreter.
#[derive(Default)]
struct Devices<'v> {
    vulkan: Option<VulkanExecutor<'v>>,
    opencl: Option<OpenClExecutor<'v>>,
}

impl Devices<'_> {
    /// Returns the name of the device, if there is one.
    fn name(&self) -> Option<String> {
        let vulkan = self.vulkan.as_ref().map(|d| d.profile().device.clone());
        vulkan.or_else(|| self.opencl.as_ref().map(Executor::name))
    }
}

/// The settings of all jobs.
struct Settings {
    dialects: Vec<Dialect>,
    targets: Vec<coop_passes::Target>,
    limits: Option<Limits>,
    tile_profile: Option<coop_device::Profile>,
    without: Option<Without>,
}

/// The progress of all jobs.
struct Jobs {
    progress: Progress,
    /// The number of the module that each job is at; the number of modules for one that is done.
    at: Vec<AtomicU64>,
}

impl Jobs {
    fn new(jobs: u64, total: u64) -> Jobs {
        let template = "{pos} of {len} modules, {eta} left";
        Jobs { progress: Progress::new(total, template, true), at: (0..jobs).map(AtomicU64::new).collect() }
    }

    /// A job begins with the module of that number.
    fn begins(&self, job: u64, number: u64) {
        if let Some(at) = self.at.get(job as usize) {
            at.store(number, Ordering::Relaxed);
        }
        self.progress.reached(self.first());
    }

    /// Returns the number of the first module that is not done.
    fn first(&self) -> u64 {
        self.at.iter().map(|at| at.load(Ordering::Relaxed)).min().unwrap_or(0)
    }
}

impl Campaign {
    pub(crate) fn run(&self) -> Result<Status, Failure> {
        let settings = self.settings()?;
        if let Some(worker) = &self.worker {
            let opened = self.open()?;
            let devices = self.devices(&opened)?;
            let devices = Devices { vulkan: devices.vulkan.map(VulkanExecutor::frugal), ..devices };
            let (job, first) = (worker.first().copied().unwrap_or(0), worker.get(1).copied().unwrap_or(0));
            // What is wrong inside is trouble of its module, not the end.
            std::panic::set_hook(Box::new(|_| {}));
            let tally = self.work(&settings, &devices, job, first, None);
            return Ok(self.status(&tally));
        }
        if let (Some(file), Some(profile)) = (&self.again, self.profile) {
            return self.once_more(&settings, file, profile);
        }
        std::fs::create_dir_all(&self.keep).map_err(|e| Failure::Usage(format!("{}: {e}", self.keep.display())))?;
        if !self.has_device() {
            std::panic::set_hook(Box::new(|_| {}));
        }
        progress::watch_interrupts().map_err(Failure::Usage)?;
        let (tally, seconds) = match &self.state {
            Some(path) => self.in_parts(&settings, path)?,
            None => {
                let start = Instant::now();
                let (tally, first) = self.all_jobs(&settings);
                if progress::interrupted() {
                    io::error(&self.going_on(&settings, first));
                }
                (tally, start.elapsed().as_secs_f64())
            }
        };
        let mut text = tally.table(seconds);
        if self.constructs {
            text.push_str(&format!("made: {}\n", tally.constructs()));
        }
        print(text.trim_end());
        Ok(self.status(&tally))
    }

    /// Returns true if modules run elsewhere than in the interpreter.
    fn has_device(&self) -> bool {
        self.on.iter().any(|w| *w != Where::Interp)
    }

    /// Runs all jobs. Returns the counts, and the number of the first module that was not done.
    fn all_jobs(&self, settings: &Settings) -> (Tally, u64) {
        let total = self.count.saturating_mul(settings.dialects.len() as u64);
        let all = &Jobs::new(self.jobs.max(1), total);
        let alone = |job| self.work(settings, &Devices::default(), job, job, Some(all));
        let tallies: Vec<Tally> = std::thread::scope(|scope| {
            let one = |job| if self.has_device() { self.processes(job, all) } else { alone(job) };
            let threads: Vec<_> = (0..self.jobs.max(1)).map(|job| scope.spawn(move || one(job))).collect();
            threads.into_iter().filter_map(|t| t.join().ok()).collect()
        });
        let mut tally = Tally::default();
        tallies.iter().for_each(|t| tally.add(t));
        (tally, all.first())
    }

    /// Runs part after part, each with processes of its own, and writes the counts behind each. Returns those of all parts, with
    /// the seconds that they took.
    fn in_parts(&self, settings: &Settings, path: &Path) -> Result<(Tally, f64), Failure> {
        let mut state = State::open(path, self.options())?;
        let start = Instant::now();
        let in_time = || self.most_seconds.is_none_or(|most| start.elapsed().as_secs() < most);
        while state.done < self.count && in_time() {
            let count = self.part.min(self.count - state.done);
            let skipped = state.done.saturating_mul(settings.dialects.len() as u64);
            let part = Campaign { seed: self.seed.wrapping_add(skipped), count, most_seconds: None, ..self.clone() };
            let before = Instant::now();
            let (tally, _) = part.all_jobs(settings);
            if progress::interrupted() {
                io::error("interrupted; the same command goes on with this part");
                break;
            }
            state.tally.add(&tally);
            state.done += count;
            state.seconds += before.elapsed().as_secs_f64();
            state.write(path)?;
        }
        Ok((state.tally, state.seconds))
    }

    /// Returns the options that decide what the modules of a seed are and how they run.
    fn options(&self) -> Value {
        json!({
            "dialect": self.dialect, "seed": self.seed, "bytes": self.bytes, "target": self.target,
            "limits": format!("{:?}", self.limits), "on": format!("{:?}", self.on), "without": self.without,
            "placements": self.placements, "lowered_only": self.lowered_only, "tile_profile": self.tile_profile,
            "device": self.device.device, "unoptimized": self.unoptimized,
        })
    }

    /// Says how to go on with the module of that number.
    fn going_on(&self, settings: &Settings, number: u64) -> String {
        // Each dialect has its turn as before.
        let rounds = number / settings.dialects.len().max(1) as u64;
        let done = rounds.saturating_mul(settings.dialects.len() as u64);
        let words: Vec<String> = std::env::args().collect();
        let seed = self.seed.wrapping_add(done).to_string();
        let count = self.count.saturating_sub(rounds).to_string();
        let words = progress::with_options(&words, &[("--seed", seed), ("--count", count)]);
        format!("interrupted; to go on: {}", progress::shell_line(&words))
    }

    fn settings(&self) -> Result<Settings, Failure> {
        let unknown = |what: &str, name: &str| Failure::Usage(format!("there is no {what} '{name}'"));
        let mut dialects = Vec::new();
        for name in &self.dialect {
            match Dialect::from_name(name) {
                Some(d) => dialects.push(d),
                None if name == "all" => dialects.extend(Dialect::ALL),
                None => return Err(unknown("dialect", name)),
            }
        }
        let names = self.target.iter().filter(|n| !n.is_empty());
        let targets = names
            .map(|n| TargetArg::from_str(n, true).map(Into::into).map_err(|_| unknown("target", n)))
            .collect::<Result<_, _>>()?;
        let limits = match self.limits {
            LimitsArg::Auto => None,
            LimitsArg::Any => Some(Limits::Any),
            LimitsArg::Tiles => Some(Limits::Tiles),
            LimitsArg::Lavapipe => Some(Limits::Lavapipe),
            LimitsArg::Nvidia => Some(Limits::Nvidia),
        };
        let profile = |name: &String| coop_device::Profile::builtin(name).ok_or_else(|| unknown("profile", name));
        let tile_profile = self.tile_profile.as_ref().map(profile).transpose()?;
        let feature = |name: &str| {
            let lacks = coop_device::Feature::from_name(name).and_then(Lacks::without);
            lacks.ok_or_else(|| unknown("feature of component types", name))
        };
        let without = match self.without.as_deref() {
            None => None,
            Some("some") => Some(Without::Some),
            Some("all") => Some(Without::Given(Lacks::all())),
            Some(names) => {
                let all: Result<Lacks, Failure> =
                    names.split(',').try_fold(Lacks::default(), |all, name| Ok(all.and(feature(name)?)));
                Some(Without::Given(all?))
            }
        };
        Ok(Settings { dialects, targets, limits, tile_profile, without })
    }

    /// One module in every way, without more ado.
    fn once_more(&self, settings: &Settings, file: &Path, profile: GeneratorProfile) -> Result<Status, Failure> {
        let opened = self.open()?;
        let devices = self.devices(&opened)?;
        let differential = self.differential(settings, &devices);
        let mut tally = Tally::default();
        let result = if file.extension().is_some_and(|e| e == "bin") {
            let bytes = std::fs::read(file).map_err(|e| Failure::Usage(format!("{}: {e}", file.display())))?;
            try_seed(&differential, (self.seed, &bytes), profile, None, &mut tally)
        } else {
            let module = io::load(file)?.module;
            let case = Case::load(&file.with_extension("toml"))?;
            differential.check_case(profile, &module, &case, salt(self.seed), tally.row(profile))
        };
        print(tally.table(0.0).trim_end());
        match result {
            Ok(()) => Ok(Status::Success),
            Err(trouble) => {
                print(&format!("{}\n{}", trouble.class, trouble.message));
                Ok(Status::Findings)
            }
        }
    }

    fn executor<'a>(&self, vulkan: &'a Vulkan) -> Result<VulkanExecutor<'a>, Failure> {
        let device = self.device.executor(vulkan)?;
        Ok(if self.unoptimized { device.unoptimized() } else { device })
    }

    /// Opens the loaders that are needed.
    fn open(&self) -> Result<(Option<Vulkan>, Option<OpenCl>), Failure> {
        let vulkan = self.on.contains(&Where::Vulkan).then(|| self.device.open()).transpose()?;
        let opencl = self.on.contains(&Where::Opencl).then(OpenCl::open).transpose()?;
        Ok((vulkan, opencl))
    }

    fn devices<'v>(&self, (vulkan, opencl): &'v (Option<Vulkan>, Option<OpenCl>)) -> Result<Devices<'v>, Failure> {
        let vulkan = vulkan.as_ref().map(|v| self.executor(v)).transpose()?;
        let opencl = opencl.as_ref().map(|o| o.device(self.device.name())).transpose()?;
        Ok(Devices { vulkan, opencl })
    }

    fn differential<'a, 'v>(&'a self, settings: &'a Settings, devices: &'a Devices<'v>) -> Differential<'a, 'v> {
        Differential {
            device: devices.vulkan.as_ref(),
            opencl: devices.opencl.as_ref(),
            lowered_only: self.lowered_only,
            interpret: self.on.contains(&Where::Interp),
            placements: self.placements,
            targets: settings.targets.clone(),
            tile_profile: settings.tile_profile.as_ref(),
            validator: self.spirv_val.as_deref(),
            without: settings.without,
        }
    }

    fn status(&self, tally: &Tally) -> Status {
        if tally.total().failed.is_empty() { Status::Success } else { Status::Findings }
    }

    /// Returns the limits that the module of a seed keeps to.
    fn limits(&self, settings: &Settings, dialect: Dialect, seed: u64, device: Option<&VulkanExecutor<'_>>) -> Limits {
        let lowers = settings.targets.iter().any(|t| *t != coop_passes::Target::Scalar);
        let native = device.map(|d| match d.profile().limits.subgroup_size {
            32 => Limits::Nvidia,
            _ => Limits::Lavapipe,
        });
        let all = [Some(Limits::Any), native, lowers.then_some(Limits::Tiles)];
        let all: Vec<Limits> = all.into_iter().flatten().filter(|l| dialect.has(*l)).collect();
        // Jobs take every so many-th seed: each shall have all of them.
        let turn = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        let wanted = settings.limits.unwrap_or(all[turn as usize % all.len()]);
        if dialect.has(wanted) { wanted } else { Limits::Any }
    }

    fn at(&self, job: u64, what: &str) -> PathBuf {
        self.keep.join(format!("job-{job}.{what}"))
    }

    /// Every so many-th module from number `first` on.
    fn work(&self, settings: &Settings, devices: &Devices<'_>, job: u64, first: u64, all: Option<&Jobs>) -> Tally {
        let differential = self.differential(settings, devices);
        let name = devices.name();
        let (start, mut said) = (Instant::now(), Instant::now());
        let mut tally = Tally::default();
        let total = self.count.saturating_mul(settings.dialects.len() as u64);
        let mut number = first;
        let in_time = || self.most_seconds.is_none_or(|most| start.elapsed().as_secs() < most);
        while number < total && in_time() && !progress::interrupted() {
            all.into_iter().for_each(|all| all.begins(job, number));
            // In turns, so that all have their share when the time is up.
            let (dialect, seed) =
                (settings.dialects[(number % settings.dialects.len() as u64) as usize], self.seed.wrapping_add(number));
            let limits = self.limits(settings, dialect, seed, devices.vulkan.as_ref());
            let profile = GeneratorProfile { dialect, limits };
            let bytes = entropy(seed, self.bytes);
            if let Some(name) = &name {
                // Should the driver take the process down, this says with what.
                let _ = std::fs::write(self.at(job, "now"), format!("{number} {seed} {profile} {name}"));
                let _ = std::fs::write(self.at(job, "json"), tally.to_json().to_string());
            }
            let before = Instant::now();
            let result = try_seed(&differential, (seed, &bytes), profile, Some((&self.keep, self.shrink)), &mut tally);
            tally.row(profile).seconds += before.elapsed().as_secs_f64();
            if let Err(trouble) = result {
                io::error(&format!("seed {seed} ({profile}): {}", trouble.message));
                if trouble.is_timeout() {
                    let _ = std::fs::write(self.at(job, "json"), tally.to_json().to_string());
                    std::process::exit(GIVEN_UP);
                }
            }
            if job == 0 && said.elapsed() > Duration::from_secs(30) {
                said = Instant::now();
                let row = tally.total();
                let (n, bad) = (row.modules, row.failed.values().sum::<u64>());
                let rate = n as f64 / start.elapsed().as_secs_f64();
                io::error(&format!(
                    "{n} modules ({profile}), {rate:.1} a second, {bad} failed; of {} jobs one",
                    self.jobs
                ));
            }
            number = number.saturating_add(self.jobs.max(1));
        }
        all.into_iter().for_each(|all| all.begins(job, number));
        if name.is_some() {
            let _ = std::fs::write(self.at(job, "json"), tally.to_json().to_string());
        }
        tally
    }

    /// One job, in a process and in others behind what takes one down.
    fn processes(&self, job: u64, all: &Jobs) -> Tally {
        let mut tally = Tally::default();
        let (mut first, start) = (job, Instant::now());
        loop {
            let left = self.most_seconds.map(|most| most.saturating_sub(start.elapsed().as_secs()));
            if left == Some(0) {
                return tally;
            }
            let [json, now] = ["json", "now"].map(|w| self.at(job, w));
            let (_, _) = (std::fs::remove_file(&json), std::fs::remove_file(&now));
            let ended = match self.command(job, first, left).spawn() {
                Ok(child) => self.watch(child, &now, |number| all.begins(job, number)),
                Err(error) => {
                    io::error(&format!("a process could not be started: {error}"));
                    return tally;
                }
            };
            let text = std::fs::read_to_string(&json).unwrap_or_default();
            tally.add(&Tally::from_json(&serde_json::from_str(&text).unwrap_or_default()));
            if progress::interrupted() {
                return tally;
            }
            let signalled = ended.as_ref().is_ok_and(|status| status.code().is_none());
            let why = match ended {
                Ok(status) if matches!(status.code(), Some(0 | 1)) => {
                    let (_, _) = (std::fs::remove_file(&json), std::fs::remove_file(&now));
                    all.begins(job, u64::MAX);
                    return tally;
                }
                Ok(status) if status.code() == Some(GIVEN_UP) => None,
                Ok(status) => Some(format!("the process ended with {status}")),
                Err(seconds) => Some(format!("nothing happened for {seconds} seconds")),
            };
            let Some((number, seed, profile, name)) = running(&now) else {
                io::error(&why.unwrap_or_else(|| "a process gave up".into()));
                return tally;
            };
            let known = if signalled { self.explained(seed, profile, &name) } else { None };
            if let Some(known) = known {
                let row = tally.row(profile);
                row.modules += 1;
                *row.skipped.entry(known).or_default() += 1;
            } else if let Some(why) = why {
                *tally.row(profile).failed.entry(why.clone()).or_default() += 1;
                let small = self.crashed(seed, profile, &why, ended.is_err());
                io::error(&format!("seed {seed} ({profile}): {why}; kept in {}", small.display()));
            }
            first = number + self.jobs.max(1);
        }
    }

    /// Returns the known fault at which the driver of a device crashes, if the module of a seed shows it and crashes
    /// the driver again, as it is or lowered for one target.
    fn explained(&self, seed: u64, profile: GeneratorProfile, device: &str) -> Option<String> {
        let bytes = entropy(seed, self.bytes);
        let made = generate(profile, &bytes);
        let spec = Case::parse(&made.case, Path::new("")).ok()?.specialization().ok()?;
        let file = self.keep.join(format!("{profile}-{seed}.bin"));
        std::fs::write(&file, &bytes).ok()?;
        let why = may_end(&made.module, &spec, device).filter(|_| self.goes_down(&file, seed, profile, &[]));
        let why = why.map(|why| format!("original vulkan: {why}")).or_else(|| {
            self.target.iter().find_map(|name| {
                let target = TargetArg::from_str(name, true).ok()?.into();
                let why = may_end_lowered(profile, &made.module, &spec, target, device)?;
                let again = self.goes_down(&file, seed, profile, std::slice::from_ref(name));
                again.then(|| format!("{name} vulkan: {why}"))
            })
        });
        let _ = std::fs::remove_file(&file);
        why
    }

    /// Keeps what took a process down, shrunk if that is quick.
    fn crashed(&self, seed: u64, profile: GeneratorProfile, why: &str, slow: bool) -> PathBuf {
        let bytes = entropy(seed, self.bytes);
        let trouble = Trouble { class: why.to_owned(), message: why.to_owned(), modules: Vec::new() };
        let folder = self.keep.join(format!("{profile}-{seed}-ended"));
        let _ = keep(&folder.join("whole"), profile, &generate(profile, &bytes), &bytes, &trouble);
        if slow || self.shrink == 0 {
            return folder;
        }
        let (bin, spv) = (folder.join("try.bin"), folder.join("try.spv"));
        let small = shrink(&bytes, self.shrink.min(120), &mut |candidate| {
            std::fs::write(&bin, candidate).is_ok() && self.goes_down(&bin, seed, profile, &self.target)
        });
        let mut made = generate(profile, &small);
        let _ = std::fs::write(spv.with_extension("toml"), &made.case);
        made.module = reduce(&made.module, self.shrink.min(120), &mut |module| {
            std::fs::write(&spv, coop_ir::binary::write(module)).is_ok()
                && self.goes_down(&spv, seed, profile, &self.target)
        });
        [bin, spv.with_extension("toml"), spv].iter().for_each(|f| drop(std::fs::remove_file(f)));
        let _ = keep(&folder, profile, &made, &small, &trouble);
        folder
    }

    /// Returns true if a process that runs this, as it is and lowered, ends by a signal.
    fn goes_down(&self, file: &Path, seed: u64, profile: GeneratorProfile, targets: &[String]) -> bool {
        let mut command = self.tool();
        self.common(&mut command, targets);
        command.args(["--seed", &seed.to_string(), "--profile", &profile.to_string(), "--again"]).arg(file);
        let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
        status.is_ok_and(|s| s.code().is_none_or(|c| c > 128))
    }

    /// Waits for a process, as long as it goes on with new modules.
    fn watch(&self, mut child: Child, now: &Path, begins: impl Fn(u64)) -> Result<ExitStatus, u64> {
        let (mut last, mut since) = (String::new(), Instant::now());
        loop {
            match child.try_wait() {
                Ok(Some(status)) => return Ok(status),
                Ok(None) => {}
                Err(_) => return Err(0),
            }
            std::thread::sleep(Duration::from_millis(100));
            let at = std::fs::read_to_string(now).unwrap_or_default();
            if at != last {
                at.split(' ').next().and_then(|number| number.parse().ok()).into_iter().for_each(&begins);
                (last, since) = (at, Instant::now());
            } else if since.elapsed() > Duration::from_secs(self.patience) {
                let (_, _) = (child.kill(), child.wait());
                return Err(self.patience);
            }
        }
    }

    /// This program.
    fn tool(&self) -> Command {
        let mut command = this_program();
        command.arg("campaign").stdin(Stdio::null());
        // Jobs are enough threads.
        if std::env::var_os("LP_NUM_THREADS").is_none() {
            command.env("LP_NUM_THREADS", "1");
        }
        command
    }

    /// The options that every process has.
    fn common(&self, command: &mut Command, targets: &[String]) {
        let on: Vec<String> =
            self.on.iter().filter_map(|w| Some(w.to_possible_value()?.get_name().to_owned())).collect();
        command.args(["--on", &on.join(","), "--target", &targets.join(",")]);
        command.args(["--placements", &self.placements.to_string()]);
        if let Some(features) = &self.without {
            command.args(["--without", features]);
        }
        if let Some(program) = &self.spirv_val {
            command.arg("--spirv-val").arg(program);
        }
        if let Some(device) = &self.device.device {
            command.args(["--device", device]);
        }
        if self.device.no_validation {
            command.arg("--no-validation");
        }
        if let Some(spelling) = self.device.spell_as.and_then(|s| s.to_possible_value()) {
            command.args(["--spell-as", spelling.get_name()]);
        }
        for (name, set) in [("--unoptimized", self.unoptimized), ("--lowered-only", self.lowered_only)] {
            if set {
                command.arg(name);
            }
        }
    }

    fn command(&self, job: u64, first: u64, seconds: Option<u64>) -> Command {
        let limits = self.limits.to_possible_value().map_or_else(String::new, |v| v.get_name().to_owned());
        let mut command = self.tool();
        self.common(&mut command, &self.target);
        for (name, value) in [
            ("--dialect", self.dialect.join(",")),
            ("--count", self.count.to_string()),
            ("--seed", self.seed.to_string()),
            ("--bytes", self.bytes.to_string()),
            ("--jobs", self.jobs.to_string()),
            ("--limits", limits),
            ("--worker", format!("{job},{first}")),
            ("--shrink", self.shrink.to_string()),
        ] {
            command.args([name, &value]);
        }
        if let Some(name) = &self.tile_profile {
            command.args(["--tile-profile", name]);
        }
        if let Some(seconds) = seconds {
            command.args(["--most-seconds", &seconds.to_string()]);
        }
        command.arg("--keep").arg(&self.keep);
        command
    }
}

/// The counts of the parts that are done.
struct State {
    options: Value,
    /// The modules of each dialect.
    done: u64,
    seconds: f64,
    tally: Tally,
}

impl State {
    /// Reads the counts that a campaign with the same options wrote; none if there is no file.
    fn open(path: &Path, options: Value) -> Result<State, Failure> {
        if !path.exists() {
            return Ok(State { options, done: 0, seconds: 0.0, tally: Tally::default() });
        }
        let bad = |why: &str| Failure::Usage(format!("{}: {why}", path.display()));
        let value: Value = serde_json::from_str(&io::read_text(path)?).unwrap_or_default();
        let (Some(done), Some(seconds)) = (value["done"].as_u64(), value["seconds"].as_f64()) else {
            return Err(bad("not the counts of a campaign"));
        };
        if value["options"] != options {
            return Err(bad("the counts of a campaign with other options; name another file"));
        }
        Ok(State { options, done, seconds, tally: Tally::from_json(&value["tally"]) })
    }

    fn write(&self, path: &Path) -> Result<(), Failure> {
        let text = json!({
            "options": self.options, "done": self.done, "seconds": self.seconds, "tally": self.tally.to_json(),
        });
        Ok(io::write_bytes(path, text.to_string().as_bytes())?)
    }
}

/// Number, seed and profile of the module that a job was at, and the device's name.
fn running(now: &Path) -> Option<(u64, u64, GeneratorProfile, String)> {
    let text = std::fs::read_to_string(now).ok()?;
    let mut words = text.splitn(4, ' ');
    let (number, seed) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    Some((number, seed, GeneratorProfile::from_name(words.next()?)?, words.next().unwrap_or("").to_owned()))
}
