//! `coop reduce`: makes a module small for which a command does something.

use crate::Status;
use crate::args::{MOST_SECONDS, whole};
use crate::io::{self, FileError};
use crate::process::{self, End, Limits};
use crate::progress::{self, Progress};
use crate::reduce::{self, Answer, size};
use clap::Args;
use coop_ir::{Module, binary};
use std::ffi::{OsStr, OsString};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The word of the command that the file of a candidate replaces.
const FILE: &str = "{}";

/// The command line of `coop reduce`.
#[derive(Args, Debug)]
#[command(after_long_help = "\
The command is run for each candidate, with {} replaced by its file. A candidate is taken if the command ends as it should: with the \
wanted status, or by a crash (--crash), and with the wanted text in its output. Every candidate is well formed and breaks no rule of level \
error that the module does not break itself. Where spirv-val is there and accepts the module, it accepts each candidate too.

Examples:
  coop reduce bad.spv -o small.spv --status 1 --text muladd-k-mismatch -- coopcheck {}
  coop reduce bad.spv -o small.spv --crash -- cooprun compile {} --case bad.toml")]
pub(super) struct Reduce {
    /// The module: SPIR-V words or assembly text
    #[arg(value_name = "MODULE")]
    input: PathBuf,
    /// The file to write the smallest module so far to, as text if its name ends with .spvasm [default: MODULE.reduced.spv]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The exit status of the command for modules that are to be kept
    #[arg(long, value_name = "N", default_value_t = 0, conflicts_with = "crash")]
    status: i32,
    /// Keep modules at which the command crashes
    #[arg(long)]
    crash: bool,
    /// Text that the command must print, to standard output or standard error; may be repeated
    #[arg(long, visible_alias = "output-text", value_name = "TEXT")]
    text: Vec<String>,
    /// The most runs of the command
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    tries: u32,
    /// End after this many seconds with the smallest module so far
    #[arg(long, value_name = "SECONDS", default_value_t = 3600, value_parser = whole::<u64>(1, MOST_SECONDS))]
    seconds: u64,
    /// The time limit of one run in seconds; a module for which it is over is not kept
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = whole::<u64>(1, MOST_SECONDS))]
    timeout: u64,
    /// The limit of memory of one run in MiB
    #[arg(long, value_name = "MIB", default_value_t = 8192, value_parser = whole::<u64>(1, 1 << 30))]
    memory: u64,
    /// Don't ask spirv-val about candidates: capabilities and extensions then stay, unless the grammar shows that nothing needs them
    #[arg(long)]
    no_spirv_val: bool,
    /// Say nothing while it runs
    #[arg(short, long)]
    quiet: bool,
    /// The command, with {} for the file
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// The files and limits of a reduction.
struct Run<'a> {
    options: &'a Reduce,
    candidate: PathBuf,
    output: PathBuf,
    deadline: Instant,
}

impl Run<'_> {
    fn is_over(&self) -> bool {
        progress::interrupted() || Instant::now() >= self.deadline
    }

    /// Runs the command for a module: `None` if there is no time for that any more.
    fn shows(&self, module: &Module) -> Result<Option<(bool, String)>, FileError> {
        io::write_bytes(&self.candidate, &binary::write(module))?;
        let words = self.options.command.iter().map(|word| with_file(word, &self.candidate));
        let mut words = words.collect::<Vec<OsString>>().into_iter();
        let program = words.next().unwrap_or_default();
        let limits = Limits { time: Duration::from_secs(self.options.timeout), memory: self.options.memory };
        let mut command = Command::new(&program);
        command.args(words).stdin(Stdio::null());
        let finished = process::finish_all(&mut command, limits, &|| self.is_over())
            .map_err(|e| FileError { name: program.to_string_lossy().into_owned(), message: not_started(&e) })?;
        Ok(finished.map(|finished| {
            let ended = match finished.end {
                End::Status(status) => !self.options.crash && status == self.options.status,
                End::Crashed(_) => self.options.crash,
                End::OutOfTime(_) | End::OutOfMemory(_) => false,
            };
            let printed = |text: &String| finished.stdout.contains(text) || finished.stderr.contains(text);
            (ended && self.options.text.iter().all(printed), finished.end.to_string())
        }))
    }

    /// Writes the smallest module so far.
    fn keep(&self, module: &Module) -> Result<(), FileError> {
        match self.output.extension() {
            Some(extension) if extension == "spvasm" => io::write_text(&self.output, module),
            _ => io::write_bytes(&self.output, &binary::write(module)),
        }
    }
}

/// Why a program can't be started.
fn not_started(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => "no such program, or not in PATH".to_owned(),
        _ => format!("can't be started: {error}"),
    }
}

/// spirv-val, in an environment in which it accepts the module.
struct SpirvVal {
    environment: &'static str,
    candidate: PathBuf,
}

impl SpirvVal {
    /// The environments that are tried, the strictest first.
    const ENVIRONMENTS: [&str; 10] = [
        "vulkan1.0",
        "vulkan1.1",
        "vulkan1.2",
        "vulkan1.3",
        "vulkan1.4",
        "opencl2.2",
        "spv1.3",
        "spv1.4",
        "spv1.5",
        "spv1.6",
    ];
    /// Its time and memory are those of a program that hangs or takes all: what it is asked about is small.
    const LIMITS: Limits = Limits { time: Duration::from_secs(60), memory: 4096 };

    /// Returns `None` where it is not there, or accepts the module in no environment.
    fn of(module: &Module, folder: &Path) -> Option<SpirvVal> {
        let all =
            SpirvVal::ENVIRONMENTS.map(|environment| SpirvVal { environment, candidate: folder.join("judged.spv") });
        all.into_iter().find(|val| val.accepts(module))
    }

    fn accepts(&self, module: &Module) -> bool {
        if io::write_bytes(&self.candidate, &binary::write(module)).is_err() {
            return false;
        }
        let mut command = Command::new("spirv-val");
        command.args(["--target-env", self.environment]).arg(&self.candidate).stdin(Stdio::null());
        let finished = process::finish_all(&mut command, SpirvVal::LIMITS, &progress::interrupted);
        matches!(finished, Ok(Some(finished)) if finished.end == End::Status(0))
    }
}

/// Returns a word of the command with the file in its place.
fn with_file(word: &OsStr, file: &Path) -> OsString {
    match word.to_str() {
        _ if word == FILE => file.as_os_str().to_owned(),
        Some(text) => text.replace(FILE, &file.to_string_lossy()).into(),
        None => word.to_owned(),
    }
}

impl Reduce {
    pub(super) fn run(&self) -> Result<Status, FileError> {
        let fail = |name: &str, message: String| Err(FileError { name: name.to_owned(), message });
        if !self.command.iter().any(|word| word.to_string_lossy().contains(FILE)) {
            return fail("COMMAND", format!("has no {FILE}, which is where the file of a module goes"));
        }
        if self.output.as_deref() == Some(Path::new("-")) {
            return fail("--output -", "the smallest module so far is kept in a file: name one".to_owned());
        }
        let loaded = io::load(&self.input)?;
        if let Err(problems) = coop_ir::verify::verify(&loaded.module) {
            let first = problems.first().map_or_else(String::new, ToString::to_string);
            return fail(&loaded.name, format!("not well formed: {first}"));
        }
        let output = self.output.clone().unwrap_or_else(|| match self.input.file_stem() {
            Some(_) if loaded.name != "stdin" => self.input.with_extension("reduced.spv"),
            _ => PathBuf::from("reduced.spv"),
        });
        let folder = std::env::temp_dir().join(format!("coop-reduce-{}", std::process::id()));
        if let Err(error) = std::fs::create_dir_all(&folder) {
            return fail(&folder.display().to_string(), error.to_string());
        }
        if let Err(error) = progress::watch_interrupts() {
            return fail("coop reduce", error);
        }
        let deadline = Instant::now() + Duration::from_secs(self.seconds);
        let run = Run { options: self, candidate: folder.join("candidate.spv"), output, deadline };
        let result = self.reduce(&run, &loaded.module, &loaded.name);
        let _ = std::fs::remove_dir_all(&folder);
        result
    }

    fn reduce(&self, run: &Run<'_>, module: &Module, name: &str) -> Result<Status, FileError> {
        let first = run.shows(module)?;
        let wanted = match &first {
            Some((true, _)) => None,
            Some((false, end)) => Some(format!("the command is to {} and {end}{}", self.wanted(), self.printed())),
            None => Some("interrupted before the module itself was tried".to_owned()),
        };
        if let Some(message) = wanted {
            return Err(FileError { name: name.to_owned(), message });
        }
        run.keep(module)?;
        let folder = run.candidate.parent().unwrap_or(Path::new("."));
        let val = if self.no_spirv_val { None } else { SpirvVal::of(module, folder) };
        let all = size(module);
        let progress = Progress::new(u64::from(self.tries), "{pos} of at most {len} runs, {msg}", !self.quiet);
        progress.say(format!("{all} instructions"));
        let mut failure = None;
        let mut accepted = |candidate: &Module| val.as_ref().is_none_or(|val| val.accepts(candidate));
        let judge: Option<&mut reduce::Judge<'_>> = if val.is_some() { Some(&mut accepted) } else { None };
        let mut test = |candidate: &Module| -> Answer {
            progress.step();
            let shown = run.shows(candidate).and_then(|shown| match shown {
                Some((true, _)) => run.keep(candidate).map(|()| Some(true)),
                Some((false, _)) => Ok(Some(false)),
                None => Ok(None),
            });
            match shown {
                Ok(Some(kept)) => {
                    if kept {
                        progress.say(format!("{} of {all} instructions", size(candidate)));
                    }
                    ControlFlow::Continue(kept)
                }
                Ok(None) => ControlFlow::Break(()),
                Err(error) => {
                    failure = Some(error);
                    ControlFlow::Break(())
                }
            }
        };
        let reduced = reduce::reduce_valid(module, self.tries.saturating_sub(1), judge, &mut test);
        drop(progress);
        if let Some(error) = failure {
            return Err(error);
        }
        if !self.quiet {
            let (left, output) = (size(&reduced.module), run.output.display());
            let runs = reduced.tries.saturating_add(1);
            let valid = val.as_ref().map_or_else(String::new, |val| {
                format!("; valid by spirv-val for {}, as the module is", val.environment)
            });
            io::error(&format!("{output}: {left} of {all} instructions, after {runs} runs of the command{valid}"));
            if reduced.end != reduce::End::Smallest {
                io::error(&format!("it may become smaller; to go on: {}", self.again(&run.output)));
            }
        }
        Ok(Status::Success)
    }

    /// Returns the wanted end of the command, after "the command is to".
    fn wanted(&self) -> String {
        if self.crash { "crash".to_owned() } else { format!("end with status {}", self.status) }
    }

    fn printed(&self) -> String {
        match self.text.as_slice() {
            [] => String::new(),
            texts => {
                format!("; it is to print {}", texts.iter().map(|t| format!("'{t}'")).collect::<Vec<_>>().join(", "))
            }
        }
    }

    /// The command line that goes on with the smallest module so far.
    fn again(&self, output: &Path) -> String {
        let file = output.to_string_lossy().into_owned();
        let mut words = vec!["coop".to_owned(), "reduce".to_owned(), file.clone(), "-o".to_owned(), file];
        if self.crash {
            words.push("--crash".to_owned());
        } else if self.status != 0 {
            words.extend(["--status".to_owned(), self.status.to_string()]);
        }
        words.extend(self.text.iter().flat_map(|text| ["--text".to_owned(), text.clone()]));
        if self.no_spirv_val {
            words.push("--no-spirv-val".to_owned());
        }
        for (name, value, usual) in [
            ("--tries", u64::from(self.tries), 10_000),
            ("--seconds", self.seconds, 3600),
            ("--timeout", self.timeout, 60),
            ("--memory", self.memory, 8192),
        ] {
            if value != usual {
                words.extend([name.to_owned(), value.to_string()]);
            }
        }
        words.push("--".to_owned());
        words.extend(self.command.iter().map(|word| word.to_string_lossy().into_owned()));
        progress::shell_line(&words)
    }
}
