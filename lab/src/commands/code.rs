//! `cooplab code`: what a driver's compiler makes of the measured kernels, lowered and written by hand.
//!
//! For each figure of `testdata/bench` the module with matrices of workgroup scope is lowered with the tiles that the list
//! of figures has for that, and the hand-written modules are compiled with theirs. Each is a process of its own.

use std::fmt::Write;
use std::process::Stdio;
use std::time::Duration;

use clap::Args;
use coop_cli::Status;
use coop_cli::cooprun::{DeviceArgs, Failure, print};
use coop_cli::process::{self, End, Limits};
use coop_exec::compiled::{Executable, Value};
use coop_exec::isa::{self, Counts, Kind};
use coop_lab::compile::{TARGETS, give};
use coop_lab::corpus::{self, Member, Part};
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
    counts: Option<Counts>,
}

/// The contenders of a figure: the name in the table, the suffixes of the members, of which the first that there is
/// counts, and the target.
const CONTENDERS: [(&str, [&str; 2], &str); 4] = [
    ("to khr", ["nv2 for khr", "nv2"], "khr"),
    ("khr by hand", ["khr", "khr"], "auto"),
    ("to scalar", ["nv2 for scalar", "nv2"], "scalar"),
    ("scalar by hand", ["scalar", "scalar"], "auto"),
];

const LIMITS: Limits = Limits { time: Duration::from_secs(300), memory: 8192 };

impl Code {
    pub(crate) fn run(&self) -> Result<Status, Failure> {
        if let Some([member, target]) = self.worker.as_deref() {
            return self.work(member, target);
        }
        let members = corpus::members(Part::Bench)?;
        for gpu in gpus::named(&self.gpu)? {
            print(&self.table(&gpu, &members)?);
        }
        Ok(Status::Success)
    }

    fn table(&self, gpu: &Gpu, members: &[Member]) -> Result<String, Failure> {
        let figure = |member: &Member| Some(member.name.strip_suffix(" nv2")?.to_owned());
        let mut rows: Vec<(String, Result<Said, String>)> = Vec::new();
        for figure in members.iter().filter_map(figure) {
            if !self.only.is_empty() && self.only.iter().all(|text| !figure.contains(text.as_str())) {
                continue;
            }
            for (name, suffixes, target) in CONTENDERS {
                let of = |suffix: &str| members.iter().find(|m| m.name == format!("{figure} {suffix}"));
                let Some(member) = suffixes.into_iter().find_map(of) else { continue };
                let figure = figure.trim_start_matches("bench/");
                rows.push((format!("{figure}, {name}"), ask(gpu, member, target)?));
            }
        }
        let has =
            |name: &&String| rows.iter().any(|(_, r)| r.as_ref().is_ok_and(|s| s.executable.statistic(name).is_some()));
        let names: Vec<&String> = self.statistic.iter().filter(has).collect();
        let kinds = Kind::ALL.map(Kind::name);
        let mut text = format!("| {} | subgroup |", gpu.name);
        names.iter().for_each(|name| _ = write!(text, " {name} |"));
        kinds.iter().for_each(|name| _ = write!(text, " {name} |"));
        let _ = writeln!(text, "\n|---|{}", "---|".repeat(1 + names.len() + kinds.len()));
        for (name, said) in rows {
            match said {
                Err(why) => _ = writeln!(text, "| {name} | {why} |"),
                Ok(Said { executable, counts }) => {
                    let _ = write!(text, "| {name} | {} |", executable.subgroup_size);
                    let value =
                        |name: &str| executable.statistic(name).as_ref().map_or_else(String::new, Value::to_string);
                    names.iter().for_each(|name| _ = write!(text, " {} |", value(name)));
                    let count = |kind| counts.map_or_else(String::new, |counts| counts.of(kind).to_string());
                    Kind::ALL.iter().for_each(|kind| _ = write!(text, " {} |", count(*kind)));
                    text.push('\n');
                }
            }
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
        let counts = executable.texts.iter().filter_map(|text| isa::count(text.text.as_deref()?)).next_back();
        executable.texts.clear();
        let text = serde_json::to_string(&Said { executable, counts }).map_err(|error| wrong(error.to_string()))?;
        print(&text);
        Ok(Status::Success)
    }
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
