//! `cooplab code`: what a driver's compiler makes of the measured kernels, lowered and written by hand.
//!
//! For each figure of `testdata/bench` the module with matrices of workgroup scope is lowered with the tiles that the list
//! of figures has for that, and the hand-written modules are compiled with theirs. Each is a process of its own. Besides
//! what the compiler says, the instructions that are executed are counted: a case's first workgroup runs in the
//! interpreter, as far as control flow goes, and the sum over its subgroups is divided by the size of its tile.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use clap::Args;
use coop_cli::Status;
use coop_cli::args::whole;
use coop_cli::cooprun::{DeviceArgs, Failure, print};
use coop_cli::process::{self, End, Limits};
use coop_exec::compiled::{Executable, Value};
use coop_exec::isa::{Kind, Weighed};
use coop_lab::compile::{TARGETS, give};
use coop_lab::corpus::{self, Member, Part, Use};
use coop_lab::engine::{self, Choice};
use coopmat::Device;
use serde::{Deserialize, Serialize};

use super::gpus::{self, Gpu};

#[derive(Args, Debug)]
pub(crate) struct Code {
    /// GPUs, by the names of `scripts/drivers.sh gpus`, or all
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = "amd-navi31,amd-gfx1201")]
    gpu: Vec<String>,
    /// Statistics to print, by the driver's names; those that a driver lacks are left out
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        default_value = "VGPRs,Spilled VGPRs,LDS size,Subgroups per SIMD,Instructions,Code size,Inverse Throughput,\
                         Number of GPRs,Spills to memory,Max warps/SM,Instruction count,Static cycle count"
    )]
    statistic: Vec<String>,
    /// ggml's pipelines instead, of the shaders in this folder (scripts/llama-shaders.sh)
    #[arg(long, value_name = "FOLDER")]
    engine: Option<PathBuf>,
    /// With --engine: multiprocessors of the device, by which the engine chooses tiles
    #[arg(long, value_name = "N", default_value_t = 48, requires = "engine")]
    cores: u32,
    /// With --engine: the subgroup size by which the engine chooses tiles
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = whole::<u32>(8, 128), requires = "engine")]
    engine_subgroup: u32,
    /// The targets, each beside what is written by hand for it: khr, scalar
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = "khr,scalar")]
    target: Vec<String>,
    /// Only figures whose name contains this
    #[arg(long, value_name = "TEXT")]
    only: Vec<String>,
    /// Write each module that is compiled, and the compiler's last text of it, into this folder
    #[arg(long, value_name = "FOLDER")]
    keep: Option<PathBuf>,
    /// Compile this module in this process, for the target
    #[arg(long, value_names = ["MEMBER", "TARGET"], num_args = 2, hide = true)]
    worker: Option<Vec<String>>,
    #[command(flatten)]
    device: DeviceArgs,
}

/// The output of a worker: an executable without its texts, and its instructions.
#[derive(Serialize, Deserialize)]
struct Said {
    executable: Executable,
    /// The instructions that subgroups execute for each element of the tile, or why they are not known.
    executed: Result<Weighed, String>,
}

/// The targets, which are also what the hand-written modules are named by.
const NAMES: [&str; 2] = ["khr", "scalar"];

/// A row of the table.
struct Row {
    /// The figure and the target: a lowered module is compared with the one by hand of the same.
    of: (String, &'static str),
    /// The lowered module, or "" for one that is written by hand.
    lowered: String,
    said: Result<Said, String>,
}

impl Row {
    fn name(&self) -> String {
        let (figure, target) = &self.of;
        match self.lowered.as_str() {
            "" => format!("{figure}, {target} by hand"),
            "nv2" => format!("{figure}, to {target}"),
            module => format!("{figure}, {module} to {target}"),
        }
    }

    /// The instructions that the invocations of a tile execute for each of its elements.
    fn executed(&self) -> Option<f64> {
        let said = self.said.as_ref().ok()?;
        // Subgroups of twice the size take about twice the time for an instruction.
        Some(said.executed.as_ref().ok()?.total() * f64::from(said.executable.subgroup_size))
    }
}

const LIMITS: Limits = Limits { time: Duration::from_secs(300), memory: 8192 };

impl Code {
    pub(crate) fn run(&self) -> Result<Status, Failure> {
        if let Some([member, target]) = self.worker.as_deref() {
            return self.work(member, target);
        }
        if let Some(other) = self.target.iter().find(|target| !NAMES.contains(&target.as_str())) {
            return Err(Failure::Usage(format!("--target: there is no '{other}', only khr and scalar")));
        }
        let members = match &self.engine {
            Some(folder) if !folder.is_dir() => {
                return Err(Failure::Usage(format!("--engine: {} is not a folder", folder.display())));
            }
            Some(folder) => {
                let choice = Choice { cores: self.cores, subgroup: self.engine_subgroup, small: false };
                corpus::measured("ggml", &engine::list(folder, choice))
            }
            None => corpus::members(Part::Bench)?,
        };
        for gpu in gpus::named(&self.gpu)? {
            print(&self.table(&gpu, &members)?);
        }
        Ok(Status::Success)
    }

    /// Asks the compiler of a GPU for each module of each figure.
    fn rows(&self, gpu: &Gpu, members: &[Member]) -> Result<Vec<Row>, Failure> {
        let mut rows: Vec<Row> = Vec::new();
        for figure in members.iter().filter_map(|member| member.name.strip_suffix(" nv2")) {
            if !self.only.is_empty() && self.only.iter().all(|text| !figure.contains(text.as_str())) {
                continue;
            }
            let own = |member: &'_ Member| Some(member.name.strip_prefix(figure)?.strip_prefix(' ')?.to_owned());
            let own: Vec<(String, &Member)> = members.iter().filter_map(|m| Some((own(m)?, m))).collect();
            for target in NAMES.into_iter().filter(|name| self.target.iter().any(|wanted| wanted == name)) {
                let of = |(what, member): &(String, _)| {
                    Some((what.strip_suffix(target)?.strip_suffix(" for ")?.to_owned(), *member))
                };
                let named = |name: &str| own.iter().find(|(what, _)| what == name).map(|(_, member)| *member);
                let mut lowered: Vec<(String, &Member)> = own.iter().filter_map(of).collect();
                if lowered.is_empty() {
                    lowered.extend(named("nv2").map(|member| ("nv2".to_owned(), member)));
                }
                let by_hand = named(target).map(|member| (String::new(), member));
                for (lowered, member) in lowered.into_iter().chain(by_hand) {
                    let given = if lowered.is_empty() { "auto" } else { target };
                    let name = figure.split_once('/').map_or(figure, |(_, name)| name);
                    rows.push(Row { of: (name.to_owned(), target), lowered, said: self.ask(gpu, member, given)? });
                }
            }
        }
        Ok(rows)
    }

    fn table(&self, gpu: &Gpu, members: &[Member]) -> Result<String, Failure> {
        let rows = self.rows(gpu, members)?;
        let has = |name: &&String| {
            rows.iter().any(|row| row.said.as_ref().is_ok_and(|said| said.executable.statistic(name).is_some()))
        };
        let names: Vec<&String> = self.statistic.iter().filter(has).collect();
        let mut text = format!("| {} | subgroup |", gpu.name);
        names.iter().for_each(|name| _ = write!(text, " {name} |"));
        Kind::ALL.iter().for_each(|kind| _ = write!(text, " {} |", kind.name()));
        let _ = writeln!(text, " executed | to by hand |\n|---|{}", "---|".repeat(3 + names.len() + Kind::ALL.len()));
        let mut notes = String::new();
        for row in &rows {
            let name = row.name();
            let Said { executable, executed } = match &row.said {
                Ok(said) => said,
                Err(why) => {
                    let _ = writeln!(text, "| {name} | {why} |");
                    continue;
                }
            };
            let _ = write!(text, "| {name} | {} |", executable.subgroup_size);
            let value = |name: &str| executable.statistic(name).as_ref().map_or_else(String::new, Value::to_string);
            names.iter().for_each(|name| _ = write!(text, " {} |", value(name)));
            match executed {
                Ok(executed) => {
                    Kind::ALL.iter().for_each(|kind| _ = write!(text, " {:.2} |", executed.of(*kind)));
                    let _ = write!(text, " {:.2} |", executed.total());
                }
                Err(why) => {
                    text.push_str(&" |".repeat(Kind::ALL.len() + 1));
                    let _ = writeln!(notes, "{name}: {why}");
                }
            }
            let by_hand = || rows.iter().find(|one| one.of == row.of && one.lowered.is_empty());
            let ratio = || Some(row.executed()? / by_hand().filter(|_| !row.lowered.is_empty())?.executed()?);
            let _ = writeln!(text, " {} |", ratio().map_or_else(String::new, |ratio| format!("{ratio:.2}")));
        }
        if !notes.is_empty() {
            let _ = write!(text, "\n{notes}");
        }
        Ok(text)
    }

    /// Returns what the compiler of a GPU says of a member, or why it says nothing.
    fn ask(&self, gpu: &Gpu, member: &Member, target: &str) -> Result<Result<Said, String>, Failure> {
        let mut command = process::program_with(Some(gpu.runner.as_os_str()));
        let text = serde_json::to_string(member).map_err(|error| Failure::Usage(error.to_string()))?;
        command.args(["code", "--worker", &text, target]).stdin(Stdio::null());
        if let Some(folder) = &self.keep {
            command.arg("--keep").arg(folder.join(gpu.name.as_str()));
        }
        let finished = process::finish(&mut command, LIMITS)
            .map_err(|error| Failure::Usage(format!("a process can't be started: {error}")))?;
        let last = finished.stdout.lines().last().unwrap_or_default();
        Ok(match finished.end {
            End::Status(0) => serde_json::from_str(last).map_err(|error| error.to_string()),
            end => Err(format!("{}; {end}", finished.last_words().unwrap_or_default())),
        })
    }

    fn work(&self, member: &str, target: &str) -> Result<Status, Failure> {
        let wrong = |why: String| Failure::Usage(format!("--worker: {why}"));
        let member: Member = serde_json::from_str(member).map_err(|error| wrong(error.to_string()))?;
        let target = TARGETS.iter().find(|(name, _)| *name == target).ok_or_else(|| wrong(target.to_owned()))?;
        let vulkan = coop_exec::Vulkan::open(false)?;
        let executor = self.device.executor(&vulkan)?;
        let device = Device::from_profile(executor.profile().clone());
        let name = member.name.clone();
        let used = member.load(&device.profile().required_subgroup_sizes())?;
        let given = give(&used, &device, target.1).map_err(|fate| Failure::Usage(fate.to_string()))?;
        let compiled = executor.compile(&given.words, &given.case, true)?;
        let mut executables = compiled.executables.into_iter().flatten();
        let mut executable = executables.next().ok_or_else(|| wrong("the driver says nothing".to_owned()))?;
        let executed = executed(&executable, &given.words, &used);
        if let Some(folder) = &self.keep {
            keep(folder, &format!("{name} {}", target.0), &given.words, &executable)?;
        }
        executable.texts.clear();
        let text = serde_json::to_string(&Said { executable, executed }).map_err(|error| wrong(error.to_string()))?;
        print(&text);
        Ok(Status::Success)
    }
}

/// Returns the instructions that the subgroups of a workgroup execute for each element of its tile.
fn executed(executable: &Executable, words: &[u32], used: &Use) -> Result<Weighed, String> {
    let listing = executable.listing().ok_or("there is no listing of a known language")?;
    let module = coop_ir::binary::read_words(words).map_err(|error| error.to_string())?;
    let counts = executable.loop_counts(&module, &used.case, LIMITS.time).map_err(|error| error.to_string())?;
    Ok(listing.weigh(&counts)?.times(counts.subgroups as f64 / used.tile as f64))
}

/// Writes a module and the compiler's last text of it into a folder.
fn keep(folder: &Path, name: &str, words: &[u32], executable: &Executable) -> Result<(), Failure> {
    let name = name.replace(['/', ' '], "-");
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let text = executable.texts.iter().rev().find_map(|text| text.text.as_deref()).unwrap_or_default();
    std::fs::create_dir_all(folder)
        .and_then(|()| std::fs::write(folder.join(format!("{name}.spv")), bytes))
        .and_then(|()| std::fs::write(folder.join(format!("{name}.txt")), text))
        .map_err(|error| Failure::Usage(format!("--keep: {}: {error}", folder.display())))
}
