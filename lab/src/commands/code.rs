//! `cooplab code`: what a driver's compiler makes of the measured kernels, lowered and written by hand.
//!
//! For each figure of `testdata/bench` the module with matrices of workgroup scope is lowered with the tiles that the list
//! of figures has for that, and the hand-written modules are compiled with theirs. Each is a process of its own. Besides
//! what the compiler says, the instructions that are executed are counted: a case's first workgroup runs in the
//! interpreter, as far as control flow goes, and the sum over its subgroups is divided by the size of its tile.

use std::fmt::Write;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use clap::Args;
use coop_cli::Status;
use coop_cli::args::whole;
use coop_cli::cooprun::{DeviceArgs, Failure, print};
use coop_cli::process::{self, End, Limits};
use coop_exec::Case;
use coop_exec::compiled::{Executable, Value};
use coop_exec::interp::{Config, Interpreted};
use coop_exec::isa::{Kind, Listing, Weighed};
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

/// The contenders of a figure.
const CONTENDERS: [Contender; 4] = [
    Contender { of: "khr", name: "to khr", members: ["nv2 for khr", "nv2"], given: "khr" },
    Contender { of: "khr", name: "khr by hand", members: ["khr", "khr"], given: "auto" },
    Contender { of: "scalar", name: "to scalar", members: ["nv2 for scalar", "nv2"], given: "scalar" },
    Contender { of: "scalar", name: "scalar by hand", members: ["scalar", "scalar"], given: "auto" },
];

struct Contender {
    /// The target that it is measured for.
    of: &'static str,
    /// The name in the table.
    name: &'static str,
    /// The suffixes of the members, of which the first that there is counts.
    members: [&'static str; 2],
    /// The target that the module is lowered to.
    given: &'static str,
}

const LIMITS: Limits = Limits { time: Duration::from_secs(300), memory: 8192 };

impl Code {
    pub(crate) fn run(&self) -> Result<Status, Failure> {
        if let Some([member, target]) = self.worker.as_deref() {
            return self.work(member, target);
        }
        if let Some(other) = self.target.iter().find(|target| CONTENDERS.iter().all(|one| one.of != target.as_str())) {
            return Err(Failure::Usage(format!("--target: there is no '{other}', only khr and scalar")));
        }
        let members = match &self.engine {
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

    fn table(&self, gpu: &Gpu, members: &[Member]) -> Result<String, Failure> {
        let figure = |member: &Member| Some(member.name.strip_suffix(" nv2")?.to_owned());
        let wanted = |contender: &&Contender| self.target.iter().any(|target| target == contender.of);
        let mut rows: Vec<(String, Result<Said, String>)> = Vec::new();
        for figure in members.iter().filter_map(figure) {
            if !self.only.is_empty() && self.only.iter().all(|text| !figure.contains(text.as_str())) {
                continue;
            }
            for Contender { name, members: suffixes, given, .. } in CONTENDERS.iter().filter(wanted) {
                let of = |suffix: &str| members.iter().find(|m| m.name == format!("{figure} {suffix}"));
                let Some(member) = suffixes.iter().copied().find_map(of) else { continue };
                let figure = figure.split_once('/').map_or(figure.as_str(), |(_, name)| name);
                rows.push((format!("{figure}, {name}"), ask(gpu, member, given)?));
            }
        }
        let has =
            |name: &&String| rows.iter().any(|(_, r)| r.as_ref().is_ok_and(|s| s.executable.statistic(name).is_some()));
        let names: Vec<&String> = self.statistic.iter().filter(has).collect();
        let mut text = format!("| {} | subgroup |", gpu.name);
        names.iter().for_each(|name| _ = write!(text, " {name} |"));
        Kind::ALL.iter().for_each(|kind| _ = write!(text, " {} |", kind.name()));
        let _ = writeln!(text, " executed | to by hand |\n|---|{}", "---|".repeat(3 + names.len() + Kind::ALL.len()));
        // Subgroups of twice the size take about twice the time for an instruction.
        let all = |name: &str| {
            let (_, said) = rows.iter().find(|(row, _)| row == name)?;
            let said = said.as_ref().ok()?;
            Some(said.executed.as_ref().ok()?.total() * f64::from(said.executable.subgroup_size))
        };
        let mut notes = String::new();
        for (name, said) in &rows {
            let Said { executable, executed } = match said {
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
            let ratio = || Some(all(name)? / all(&by_hand(name)?)?);
            let _ = writeln!(text, " {} |", ratio().map_or_else(String::new, |ratio| format!("{ratio:.2}")));
        }
        if !notes.is_empty() {
            let _ = write!(text, "\n{notes}");
        }
        Ok(text)
    }

    fn work(&self, member: &str, target: &str) -> Result<Status, Failure> {
        let wrong = |why: String| Failure::Usage(format!("--worker: {why}"));
        let member: Member = serde_json::from_str(member).map_err(|error| wrong(error.to_string()))?;
        let target = TARGETS.iter().find(|(name, _)| *name == target).ok_or_else(|| wrong(target.to_owned()))?;
        let vulkan = coop_exec::Vulkan::open(false)?;
        let executor = self.device.executor(&vulkan)?;
        let device = Device::from_profile(executor.profile().clone());
        let used = member.load(&device.profile().required_subgroup_sizes())?;
        let given = give(&used, &device, target.1).map_err(|fate| Failure::Usage(fate.to_string()))?;
        let compiled = executor.compile(&given.words, &given.case, true)?;
        let mut executables = compiled.executables.into_iter().flatten();
        let mut executable = executables.next().ok_or_else(|| wrong("the driver says nothing".to_owned()))?;
        let executed = executed(&executable, &given.words, &used);
        executable.texts.clear();
        let text = serde_json::to_string(&Said { executable, executed }).map_err(|error| wrong(error.to_string()))?;
        print(&text);
        Ok(Status::Success)
    }
}

/// Returns the name of the row that a row is compared with.
fn by_hand(row: &str) -> Option<String> {
    let (figure, target) = row.rsplit_once(", to ")?;
    Some(format!("{figure}, {target} by hand"))
}

/// Returns the instructions that the subgroups of a workgroup execute for each element of its tile.
fn executed(executable: &Executable, words: &[u32], used: &Use) -> Result<Weighed, String> {
    let listing = executable.texts.iter().rev().find_map(|text| Listing::read(text.text.as_deref()?));
    let listing = listing.ok_or("there is no listing of a known language")?;
    let config = Config { subgroup_size: executable.subgroup_size.max(1), ..Config::default() };
    let module = coop_ir::binary::read_words(words).map_err(|error| error.to_string())?;
    let case = Case { subgroup_size: None, ..used.case.clone() };
    let counts = Interpreted { config }.loop_counts(&module, &case).map_err(|error| error.to_string())?;
    let weighed = listing.weigh(&counts).ok_or("the compiler's loops are not the module's")?;
    Ok(weighed.times(counts.subgroups as f64 / used.tile as f64))
}

/// Returns what the compiler of a GPU says of a member, or why it says nothing.
fn ask(gpu: &Gpu, member: &Member, target: &str) -> Result<Result<Said, String>, Failure> {
    let mut command = process::program_with(Some(gpu.runner.as_os_str()));
    let text = serde_json::to_string(member).map_err(|error| Failure::Usage(error.to_string()))?;
    command.args(["code", "--worker", &text, target]).stdin(Stdio::null());
    let finished = process::finish(&mut command, LIMITS)
        .map_err(|error| Failure::Usage(format!("a process can't be started: {error}")))?;
    let last = finished.stdout.lines().last().unwrap_or_default();
    Ok(match finished.end {
        End::Status(0) => serde_json::from_str(last).map_err(|error| error.to_string()),
        end => Err(format!("{}; {end}", finished.last_words().unwrap_or_default())),
    })
}
