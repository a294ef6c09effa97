//! `cooplab lowering`: how long the lowerings take for an engine's pipelines, and how large their output is.
//!
//! A pipeline is a module with the constants that the engine gives it, as in `cooplab figures --engine`. What is timed is what the
//! layer does when an application makes a pipeline: the words are read and checked, the device and the rules are asked, the module is
//! lowered, written, and checked again, on a new thread. As in the layer, a module from which a pipeline was made before, which stands
//! further up in the list, is not read and checked again; `first` and `further` in the summary are the two kinds. Of several runs the
//! least counts, because other work on the machine only adds.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use coop_cli::args::whole;
use coop_cli::cooprun::{Failure, print};
use coop_cli::{Status, io};
use coop_exec::case::Case;
use coop_lab::engine::{self, Choice};
use coopmat::{Device, Outcome, PipelineOptions, Prepared, Target};

#[derive(Args, Debug)]
pub(crate) struct Lowering {
    /// The folder of the engine's shaders
    shaders: PathBuf,
    /// The built-in profile to lower for
    #[arg(long, value_name = "NAME", default_value = "nvidia-h100")]
    profile: String,
    /// Multiprocessors of the device, by which the engine chooses tiles
    #[arg(long, value_name = "N", default_value_t = 132)]
    cores: u32,
    /// Only pipelines whose figure's name contains this
    #[arg(long, value_name = "TEXT")]
    only: Vec<String>,
    /// Runs of each pipeline, of which the least time counts
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = whole::<u32>(1, 1000))]
    runs: u32,
}

/// The times of one pipeline's runs.
#[derive(Clone, Copy)]
struct Times {
    /// True if no pipeline of the module was made before.
    first_of_module: bool,
    /// The first run's: with nothing in the processor's caches, and memory that is not mapped yet.
    cold: Duration,
    least: Duration,
    /// Bytes of the output.
    output: usize,
}

impl Lowering {
    pub(crate) fn run(&self) -> Result<Status, Failure> {
        let device = Device::builtin(&self.profile)
            .ok_or_else(|| Failure::Usage(format!("--profile: there is no built-in profile '{}'", self.profile)))?;
        let choice = Choice { cores: self.cores, subgroup: device.profile().limits.subgroup_size, small: false };
        let list = engine::list(&self.shaders, choice);
        let (mut seen, mut modules) = (BTreeSet::new(), BTreeSet::new());
        let mut by_target: BTreeMap<&str, Vec<Times>> = BTreeMap::new();
        for figure in &list.figure {
            if !self.only.is_empty() && self.only.iter().all(|text| !figure.name.contains(text.as_str())) {
                continue;
            }
            let case = list.case(figure.case_of(&figure.nv2))?;
            let bytes = io::read_bytes(&list.folder.join(&figure.nv2.module))?;
            for one in &figure.nv2.tries {
                if !seen.insert((figure.nv2.module.clone(), one.name())) {
                    continue;
                }
                let mut case = one.apply(&case, figure.grid);
                case.subgroup_size = case.subgroup_size.or(figure.nv2.subgroup_size);
                let new = modules.insert(figure.nv2.module.clone());
                let mut line = format!("{:<32} {:<40}", figure.name, one.name());
                for (name, target) in [("khr", Target::Khr), ("scalar", Target::Scalar)] {
                    match self.times(&device, &bytes, new, &pipeline(&case, target)?) {
                        Ok(times) => {
                            let ratio = times.output as f64 / bytes.len() as f64;
                            let least = milliseconds(times.least);
                            let _ = write!(line, " {name} {least:>6.2} ms, output {ratio:.2} of input");
                            by_target.entry(name).or_default().push(times);
                        }
                        Err(why) => _ = write!(line, " {name}: {why}"),
                    }
                }
                print(&line);
            }
        }
        print("");
        for (name, all) in by_target {
            print(&format!("to {name}, {} pipelines: {}", all.len(), summary(&all, |times| times.least)));
            for (kind, first) in [("first", true), ("further", false)] {
                let of: Vec<Times> = all.iter().copied().filter(|times| times.first_of_module == first).collect();
                if !of.is_empty() {
                    print(&format!("    {kind}, {}: {}", of.len(), summary(&of, |times| times.least)));
                }
            }
            print(&format!("    with cold caches: {}", summary(&all, |times| times.cold)));
        }
        Ok(Status::Success)
    }

    /// Times a pipeline; of a module that is `new`, or one of which there is another pipeline.
    fn times(&self, device: &Device, bytes: &[u8], new: bool, options: &PipelineOptions) -> Result<Times, String> {
        let mut times = Times { first_of_module: new, cold: Duration::MAX, least: Duration::MAX, output: 0 };
        let read = || Prepared::read_bytes(bytes).map_err(|error| error.to_string());
        let known = if new { None } else { Some(read()?) };
        if let Some(known) = &known {
            // What is kept is about the module, nothing about its pipelines.
            known.for_pipeline(device, options);
        }
        for run in 0..self.runs {
            let one = || {
                let start = Instant::now();
                let outcome = match &known {
                    Some(known) => known.for_pipeline(device, options),
                    None => read()?.for_pipeline(device, options),
                };
                Ok::<_, String>((outcome, start.elapsed()))
            };
            let joined = std::thread::scope(|scope| scope.spawn(one).join());
            let (outcome, took) = joined.map_err(|_| "a panic".to_owned())??;
            let lowered = match outcome {
                Outcome::Lowered(lowered) => lowered,
                Outcome::Refused(why) => return Err(why.to_string()),
                Outcome::Native => return Err("the device takes it as it is".to_owned()),
            };
            times.output = lowered.words.len() * 4;
            times.least = times.least.min(took);
            if run == 0 {
                times.cold = took;
            }
        }
        Ok(times)
    }
}

/// Returns the median and the maximum of the times, in words.
fn summary(all: &[Times], time: fn(&Times) -> Duration) -> String {
    let mut all: Vec<Duration> = all.iter().map(time).collect();
    all.sort();
    let (median, most) = (milliseconds(all[all.len() / 2]), milliseconds(all[all.len() - 1]));
    format!("{median:.2} ms at the median, {most:.2} at most")
}

/// The options that the layer lowers a pipeline with.
fn pipeline(case: &Case, target: Target) -> Result<PipelineOptions, Failure> {
    let mut options = PipelineOptions::default();
    for (id, value) in &case.spec {
        let value = value.value().map_err(Failure::from)?;
        options.specialization.set_u32(id.parse().unwrap_or(0), value.to_i128() as u32);
    }
    options.required_subgroup_size = case.subgroup_size;
    options.target = target;
    options.always_lower = true;
    options.check_rules = true;
    options.undefined_as_zero = true;
    Ok(options)
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
