//! `cooprun compile`: makes the pipeline of a module and prints what the driver's compiler says about it.
//!
//! Compilers crash, hang and take all memory, so each module is compiled by a process of its own, which is this program
//! again with `--here`: it prints one JSON object, and its parent tells how it ended.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use coop_exec::compiled::{Compiled, Executable};
use coop_exec::isa::{Kind, Weighed};
use coop_exec::vulkan::VulkanExecutor;
use coop_exec::{Case, Error};
use coop_ir::Module;
use coop_passes::{Options, Target};
use serde_json::{Value as Json, json};

use super::compile_text::{Column, table};
use super::results::file_name;
use super::{CaseChoice, DeviceArgs, Failure, print};
use crate::args::{MOST_SECONDS, OutputStyle, parse_subgroup_size, whole};
use crate::io::{self, FileError};
use crate::process::{End, Limits, finish, this_program};
use crate::{BUG, Status};

#[derive(Args, Debug)]
pub(super) struct Compile {
    /// The module, SPIR-V words or assembly; a second one is shown beside it, with ratios
    #[arg(value_name = "MODULE", num_args = 1..=2, required = true)]
    modules: Vec<PathBuf>,
    /// The case file (TOML) that names the entry point, the specialization and the subgroup size; with its push constants
    /// and buffers, the instructions that a subgroup executes are counted
    #[arg(long, value_name = "FILE")]
    case: Option<PathBuf>,
    #[command(flatten)]
    choice: CaseChoice,
    /// The subgroup size that the pipeline requires
    #[arg(long, value_name = "N", value_parser = parse_subgroup_size)]
    subgroup_size: Option<u32>,
    /// Ask for full subgroups
    #[arg(long)]
    full_subgroups: bool,
    #[command(flatten)]
    device: DeviceArgs,
    /// Compile what the device does not list too, such as matrices of other sizes
    #[arg(long)]
    no_check: bool,
    /// Do not ask for the texts of the compiler, of which instructions are counted
    #[arg(long, conflicts_with = "dump_dir")]
    no_texts: bool,
    /// Write the texts of the compiler to this folder: intermediate code and instructions
    #[arg(long, value_name = "DIR")]
    dump_dir: Option<PathBuf>,
    /// The time limit of each module in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = whole::<u64>(1, MOST_SECONDS))]
    timeout: u64,
    /// The most memory for each module
    #[arg(long, value_name = "MIB", default_value_t = 8192, value_parser = whole::<u64>(64, 1 << 30))]
    memory: u64,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
    /// Compile the module of this number in this process
    #[arg(long, value_name = "N", hide = true)]
    here: Option<usize>,
}

/// The time that the interpreter may take to count how often loops run.
const COUNTING: Duration = Duration::from_secs(60);

/// A module that is not compiled, and the reason.
struct NotMade {
    /// The reason in one word, for programs.
    kind: String,
    message: String,
    status: Status,
}

impl Compile {
    pub(super) fn json(&self) -> bool {
        self.json || self.here.is_some()
    }

    pub(super) fn run(&self, style: &OutputStyle) -> Result<Status, Failure> {
        if let Some(number) = self.here {
            let missing = || Failure::Usage(format!("--here {number}: {} modules are given", self.modules.len()));
            let module = self.modules.get(number).ok_or_else(missing)?;
            return self.compile_here(module);
        }
        if self.modules.iter().all(|module| module == Path::new("-")) && self.modules.len() > 1 {
            return Err(Failure::Usage("only one module can come from standard input".into()));
        }
        // What is wrong with the command line or a file needs no process to say so.
        self.case()?;
        let mut from_files = self.modules.iter().filter(|module| *module != Path::new("-"));
        from_files.try_for_each(|module| io::load(module).map(drop))?;
        let made = self.modules.iter().enumerate().map(|(at, _)| self.compile_apart(at));
        let made: Vec<Result<Compiled, NotMade>> = made.collect::<Result<_, _>>()?;
        if let Some(folder) = &self.dump_dir {
            let columns = self.modules.iter().zip(&made).filter_map(|(m, made)| Some((m, made.as_ref().ok()?)));
            for (at, (module, compiled)) in columns.enumerate() {
                dump(folder, &format!("{at}-{}", stem(module)), compiled)?;
            }
        }
        let status = made.iter().map(status_of).max().unwrap_or_default();
        let executed = self.modules.iter().zip(&made).map(|(module, made)| self.executed(module, made.as_ref().ok()?));
        let executed: Vec<Vec<Option<Weighed>>> = executed.map(Option::unwrap_or_default).collect();
        if self.json {
            print(&self.object(&made, &executed, status).to_string());
        } else {
            self.say(&made, &executed, style);
        }
        Ok(status)
    }

    /// Returns the case: a file's, or one that says nothing.
    fn case(&self) -> Result<Case, Failure> {
        let case = match &self.case {
            Some(path) => Case::load(path)?,
            None => Case { workgroups: [1; 3], ..Case::default() },
        };
        let mut case = self.choice.apply(case)?;
        case.subgroup_size = self.subgroup_size.or(case.subgroup_size);
        case.full_subgroups |= self.full_subgroups;
        Ok(case)
    }

    fn compile_here(&self, module: &Path) -> Result<Status, Failure> {
        let module = io::load(module)?.module;
        let (vulkan, case) = (self.device.open()?, self.case()?);
        let device = self.device.executor(&vulkan)?;
        if !self.no_check {
            runs_there(&device, &module, &case)?;
        }
        let compiled = device.compile(&coop_ir::binary::write_words(&module), &case, !self.no_texts)?;
        let text = serde_json::to_string(&compiled).map_err(|error| Failure::Usage(error.to_string()))?;
        print(&text);
        Ok(Status::Success)
    }

    /// Compiles a module in a process of its own.
    fn compile_apart(&self, module: usize) -> Result<Result<Compiled, NotMade>, Failure> {
        let limits = Limits { time: Duration::from_secs(self.timeout), memory: self.memory };
        let mut command = this_program();
        command.args(std::env::args_os().skip(1)).args(["--here", &module.to_string()]).stdin(Stdio::inherit());
        let finished = finish(&mut command, limits)
            .map_err(|error| Failure::Usage(format!("a process can't be started: {error}")))?;
        // A driver may write lines of its own before.
        let last = finished.stdout.lines().last().unwrap_or_default();
        let said: Json = serde_json::from_str(last).unwrap_or_default();
        let [kind, message] = ["kind", "message"].map(|key| said["error"][key].as_str());
        let not_made =
            |kind: &str, message: &str, status| NotMade { kind: kind.to_owned(), message: message.to_owned(), status };
        Ok(Err(match (finished.end, kind, message) {
            (End::Status(0), ..) => {
                return match serde_json::from_value(said) {
                    Ok(compiled) => Ok(Ok(compiled)),
                    Err(error) => panic!("the process that compiles wrote {last}: {error}"),
                };
            }
            (End::Status(BUG), ..) => panic!("the process that compiles panicked: {}", finished.stderr.trim()),
            (End::Status(_), Some("vulkan"), Some(message)) => not_made("refused", message, Status::Findings),
            (End::Status(_), Some(kind), Some(message)) => not_made(kind, message, Status::BadInput),
            (end, ..) => {
                let kind = match end {
                    End::OutOfTime(_) => "out-of-time",
                    End::OutOfMemory(_) => "out-of-memory",
                    End::Crashed(_) | End::Status(_) => "crashed",
                };
                let words = finished.last_words().map(|line| format!("; its last words: {line}")).unwrap_or_default();
                not_made(kind, &format!("the process that compiles {end}{words}"), Status::Findings)
            }
        }))
    }

    /// Returns the instructions that a subgroup executes in the case, for each executable of a module. A loop that the
    /// interpreter can't count, or that the listing does not have, is said on standard error.
    fn executed(&self, module: &Path, compiled: &Compiled) -> Option<Vec<Option<Weighed>>> {
        self.case.as_ref().filter(|_| module != Path::new("-"))?;
        let (module_name, case) = (module.display(), self.case().ok()?);
        let module = io::load(module).ok()?.module;
        let of = |executable: &Executable| {
            let listing = executable.listing()?;
            let counts = executable.loop_counts(&module, &case, COUNTING).map_err(|error| error.to_string());
            let found = counts.and_then(|counts| listing.weigh(&counts));
            let note =
                |why: &String| io::error(&format!("note: {module_name}: executed instructions are not counted: {why}"));
            found.inspect_err(note).ok()
        };
        Some(compiled.executables.iter().flatten().map(of).collect())
    }

    fn object(&self, made: &[Result<Compiled, NotMade>], executed: &[Vec<Option<Weighed>>], status: Status) -> Json {
        let one = |module: &Path, made: &Result<Compiled, NotMade>, executed: &[Option<Weighed>]| {
            let mut object = match made {
                Ok(compiled) => {
                    let counts = |one: &Executable| Some(one.listing()?.counts());
                    let counts = compiled.executables.iter().flatten().map(counts);
                    json!({
                        "ok": true,
                        "compiled": compiled,
                        "instructions": counts.map(|one| by_kind(|kind| Some(one?.of(kind)))).collect::<Json>(),
                        "executed": executed.iter().map(|one| by_kind(|kind| Some((*one)?.of(kind)))).collect::<Json>(),
                    })
                }
                Err(why) => json!({ "ok": false, "error": { "kind": why.kind, "message": why.message } }),
            };
            object["module"] = module.display().to_string().into();
            object
        };
        let all = self.modules.iter().zip(made).zip(executed);
        let modules: Vec<Json> = all.map(|((module, made), executed)| one(module, made, executed)).collect();
        json!({ "ok": status == Status::Success, "modules": modules })
    }

    fn say(&self, made: &[Result<Compiled, NotMade>], executed: &[Vec<Option<Weighed>>], style: &OutputStyle) {
        let mut columns = Vec::new();
        let names = names(&self.modules);
        for ((name, made), executed) in names.into_iter().zip(made).zip(executed) {
            match made {
                Ok(compiled) => {
                    compiled.messages.iter().for_each(|message| io::error(&format!("{name}: {message}")));
                    columns.push(Column { name, compiled, executed });
                }
                Err(why) => io::error(&format!("error: {name}: {}", why.message)),
            }
        }
        if !columns.is_empty() && style.quiet == 0 {
            print(&table(&columns));
        }
    }
}

fn status_of(made: &Result<Compiled, NotMade>) -> Status {
    match made {
        Ok(compiled) if compiled.messages.is_empty() => Status::Success,
        Ok(_) => Status::Findings,
        Err(why) => why.status,
    }
}

/// Refuses a module that needs what the device does not list: what a compiler makes of that says nothing.
fn runs_there(device: &VulkanExecutor<'_>, module: &Module, case: &Case) -> Result<(), Failure> {
    let options = Options {
        spec: case.specialization()?,
        entry: case.entry.clone(),
        // The compiler gets the same constants, whatever the lowering of one would be.
        spec_defaults: true,
        ..Options::new(Target::Scalar)
    };
    let profile = Arc::new(device.profile().clone());
    let lacking = coopmat::fit::lacking(module, &options, &profile, case.subgroup_size);
    if lacking.is_empty() {
        return Ok(());
    }
    let mut missing: Vec<String> =
        lacking.iter().map(|finding| format!("{} [{}]", finding.message, finding.rule.id)).collect();
    missing.sort();
    missing.dedup();
    missing.push("lower it for the device (cooplower --device 0), or give --no-check".into());
    Err(Error::Unsupported { device: profile.device.clone(), missing }.into())
}

/// Returns a module's file name without its extension.
fn stem(module: &Path) -> String {
    module.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

/// Returns the names of modules in a table: the files' own, or their paths where those are alike.
fn names(modules: &[PathBuf]) -> Vec<String> {
    let short = |path: &PathBuf| path.file_name().map(|name| name.to_string_lossy().into_owned());
    let all: Vec<_> = modules.iter().map(short).collect();
    let distinct = all.iter().enumerate().all(|(at, one)| all[..at].iter().all(|other| other != one));
    let name = |(path, short): (&PathBuf, Option<String>)| match short {
        Some(short) if distinct && short != "-" => short,
        _ => io::display_name(path),
    };
    modules.iter().zip(all).map(name).collect()
}

/// Writes the texts of a pipeline, each to a file of its own: `PREFIX-EXECUTABLE-STAGE.txt`.
fn dump(folder: &Path, prefix: &str, compiled: &Compiled) -> Result<(), FileError> {
    let fail = |error: std::io::Error| FileError { name: folder.display().to_string(), message: error.to_string() };
    std::fs::create_dir_all(folder).map_err(fail)?;
    for (at, executable) in compiled.executables.iter().flatten().enumerate() {
        for text in &executable.texts {
            let Some(contents) = &text.text else { continue };
            let path = folder.join(format!("{}-{at}-{}.txt", file_name(prefix), file_name(&text.name)));
            io::write_bytes(&path, contents.as_bytes())?;
        }
    }
    Ok(())
}

/// Returns an object with a number for each kind of instructions; null if one is not known.
fn by_kind<N: Into<Json>>(of: impl Fn(Kind) -> Option<N>) -> Json {
    let one = |kind: &Kind| Some((kind.name().to_owned(), of(*kind)?.into()));
    Kind::ALL.iter().map(one).collect::<Option<serde_json::Map<String, Json>>>().map_or(Json::Null, Json::Object)
}
