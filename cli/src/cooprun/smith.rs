//! `cooprun smith`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use clap::Args;
use coop_ir::smith::{Dialect, Limits, Profile, generate};

use super::{DeviceArgs, Failure, print};
use crate::Status;
use crate::io;
use crate::smith::{Differential, Tally, Trouble, entropy, keep, profile, try_seed};

/// The exit status of a process whose device did not answer in time.
const GIVEN_UP: i32 = 102;

#[derive(Args, Debug)]
pub(super) struct Smith {
    /// How many modules
    #[arg(long, value_name = "N", default_value_t = 1000)]
    count: u64,
    /// The seed of the first; each module has the next
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// The most entropy for a module, which is how large it may become
    #[arg(long, value_name = "BYTES", default_value_t = 600)]
    bytes: usize,
    /// Processes that share the work
    #[arg(long, value_name = "N", default_value_t = 1)]
    jobs: u64,
    /// Keep what fails here, shrunk
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Only modules for what the device runs itself (device8), or only of every kind (any), or of a dialect
    #[arg(long, value_name = "NAME", value_parser = ["device8", "any", "nv2", "nv2-lavapipe", "nv2-nvidia"])]
    only: Option<String>,
    /// Leave the interpreter out
    #[arg(long)]
    no_interpreter: bool,
    /// Use no device: the interpreter runs everything
    #[arg(long)]
    no_device: bool,
    /// Take every so many-th seed only: for the processes of --jobs
    #[arg(long, value_name = "N", default_value_t = 0, hide = true)]
    step: u64,
    #[command(flatten)]
    device: DeviceArgs,
}

impl Smith {
    pub(super) fn run(&self) -> Result<Status, Failure> {
        // With a folder there is always a process apart, that may come to grief.
        if self.step == 0 && (self.jobs > 1 || self.keep.is_some()) {
            return Ok(self.spread());
        }
        let vulkan = if self.no_device { None } else { Some(self.device.open()?) };
        let device = vulkan.as_ref().map(|v| self.device.executor(v)).transpose()?;
        let differential = Differential { device: device.as_ref(), interpret: !self.no_interpreter };
        let (start, mut said) = (Instant::now(), Instant::now());
        let mut tally = Tally::default();
        let mut classes: BTreeMap<String, u64> = BTreeMap::new();
        let mut done = 0;
        let step = self.step.max(1);
        while done < self.count {
            let seed = self.seed.wrapping_add(done);
            done += step;
            let kind = match self.only.as_deref() {
                Some("device8") => Profile::DEVICE8,
                Some("nv2") => Profile::any(Dialect::Nv2),
                Some("nv2-lavapipe") => Profile { dialect: Dialect::Nv2, limits: Limits::Lavapipe },
                Some("nv2-nvidia") => Profile { dialect: Dialect::Nv2, limits: Limits::Nvidia },
                Some(_) => Profile::ANY,
                None => profile(seed / step),
            };
            let bytes = entropy(seed, self.bytes);
            if let Some(folder) = &self.keep {
                // Should the driver take the process down, this says with what.
                let made = generate(kind, &bytes);
                let running = folder.join(format!("running-{}", self.seed));
                let why =
                    Trouble { class: format!("seed {seed}, {kind}"), message: String::new(), modules: Vec::new() };
                let _ = keep(&running, &made, &bytes, &why);
                let _ = std::fs::write(running.join("seed"), seed.to_string());
            }
            if let Err(trouble) = try_seed(&differential, (seed, &bytes), kind, self.keep.as_deref(), &mut tally) {
                *classes.entry(trouble.class.clone()).or_default() += 1;
                print(&format!("seed {seed} ({kind}): {}", trouble.message));
                if trouble.is_timeout() {
                    self.summary(&tally, &classes, start);
                    std::process::exit(GIVEN_UP);
                }
            }
            if said.elapsed() > Duration::from_secs(20) {
                said = Instant::now();
                let rate = tally.modules as f64 / start.elapsed().as_secs_f64();
                let bad: u64 = classes.values().sum();
                io::error(&format!("{} modules, {rate:.1} a second, {bad} failed", tally.modules));
            }
        }
        let bad: u64 = classes.values().sum();
        self.summary(&tally, &classes, start);
        Ok(if bad == 0 { Status::Success } else { Status::Findings })
    }

    fn summary(&self, tally: &Tally, classes: &BTreeMap<String, u64>, start: Instant) {
        let rate = tally.modules as f64 / start.elapsed().as_secs_f64();
        let bad: u64 = classes.values().sum();
        let mut lines = vec![format!("{} modules, {rate:.1} a second, {bad} failed", tally.modules)];
        let counts = |title: &str, of: &mut dyn Iterator<Item = (String, u64)>| {
            let parts: Vec<String> = of.map(|(k, n)| format!("{k} {n}")).collect();
            format!("{title}: {}", if parts.is_empty() { "none".into() } else { parts.join(", ") })
        };
        lines.push(counts("runs", &mut tally.runs.iter().map(|(k, n)| (k.clone(), *n))));
        lines.push(counts("refused", &mut tally.refused.iter().map(|(k, n)| (k.clone(), *n))));
        lines.push(counts("made", &mut tally.made.iter().map(|(k, n)| ((*k).to_string(), *n))));
        lines.push(counts("failures", &mut classes.iter().map(|(k, n)| (k.clone(), *n))));
        print(&lines.join("\n"));
    }

    /// Starts a process for each job. They share nothing, so a driver that takes one down leaves the others; the job
    /// goes on behind the module that did it.
    fn spread(&self) -> Status {
        let jobs: Vec<u64> = (0..self.jobs.max(1)).collect();
        let results: Vec<Status> = std::thread::scope(|scope| {
            let threads: Vec<_> = jobs.iter().map(|job| scope.spawn(move || self.job(*job))).collect();
            threads.into_iter().map(|t| t.join().unwrap_or(Status::BadInput)).collect()
        });
        results.into_iter().max().unwrap_or(Status::Success)
    }

    fn job(&self, job: u64) -> Status {
        let (mut seed, mut count) = (self.seed.wrapping_add(job), self.count.saturating_sub(job));
        let mut worst = Status::Success;
        while count > 0 {
            let status = self.command(seed, count).status();
            match status {
                Ok(s) if s.success() => return worst,
                Ok(s) if s.code() == Some(1) => return worst.max(Status::Findings),
                Ok(s)
                    if s.code().is_none()
                        || s.code() == Some(101)
                        || s.code() == Some(GIVEN_UP)
                        || s.code() > Some(128) =>
                {
                    worst = worst.max(Status::Findings);
                    let Some(at) = self.running(seed) else {
                        io::error(&format!("a process ended with {s}; with --keep the rest would go on"));
                        return worst;
                    };
                    io::error(&format!("seed {at}: the process ended with {s}"));
                    let done = at.wrapping_sub(seed).wrapping_add(self.jobs.max(1));
                    (seed, count) = (seed.wrapping_add(done), count.saturating_sub(done));
                }
                Ok(s) => {
                    io::error(&format!("a process ended with {s}"));
                    return Status::BadInput;
                }
                Err(error) => {
                    io::error(&format!("a process could not be started: {error}"));
                    return Status::BadInput;
                }
            }
        }
        worst
    }

    /// The seed at which the process that began with `first` was; what it was running is kept.
    fn running(&self, first: u64) -> Option<u64> {
        let folder = self.keep.as_ref()?;
        let from = folder.join(format!("running-{first}"));
        let seed: u64 = std::fs::read_to_string(from.join("seed")).ok()?.trim().parse().ok()?;
        std::fs::rename(from, folder.join(format!("crash-{seed}"))).ok()?;
        Some(seed)
    }

    fn command(&self, seed: u64, count: u64) -> Command {
        let program = std::env::args_os().next().unwrap_or_default();
        let mut command = match std::env::var_os("COOP_RUNNER") {
            Some(runner) => {
                let mut command = Command::new(runner);
                command.arg(&program);
                command
            }
            None => Command::new(&program),
        };
        command.arg("smith").stdin(Stdio::null());
        for (name, value) in
            [("--count", count), ("--seed", seed), ("--step", self.jobs.max(1)), ("--bytes", self.bytes as u64)]
        {
            command.args([name.to_string(), value.to_string()]);
        }
        if let Some(folder) = &self.keep {
            command.arg("--keep").arg(folder);
        }
        if let Some(only) = &self.only {
            command.args(["--only", only]);
        }
        if let Some(device) = &self.device.device {
            command.args(["--device", device]);
        }
        let flags = [
            ("--no-interpreter", self.no_interpreter),
            ("--no-device", self.no_device),
            ("--no-validation", self.device.no_validation),
        ];
        command.args(flags.iter().filter(|f| f.1).map(|f| f.0));
        command
    }
}
