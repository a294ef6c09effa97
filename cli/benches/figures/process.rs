//! The time that programs take as processes.

use crate::llama_modules::cache;
use coop_ir::text;
use nix::sys::resource::{UsageWho, getrusage};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The number of runs of a program; the fastest one counts.
const RUNS: usize = 15;
/// The number of runs where a tenth of a millisecond matters.
const MANY_RUNS: usize = 150;

const NOTHING: &str = r#"
    OpCapability Shader
    OpMemoryModel Logical GLSL450
    OpEntryPoint GLCompute %main "main"
    OpExecutionMode %main LocalSize 1 1 1
    %void = OpTypeVoid
    %fn = OpTypeFunction %void
    %main = OpFunction %void None %fn
    %entry = OpLabel
    OpReturn
    OpFunctionEnd
"#;

/// The cost of a process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    /// The time from start to end.
    pub(crate) wall: Duration,
    /// The processor time of all its threads.
    pub(crate) cpu: Duration,
}

/// A program that checks modules.
pub(crate) struct Tool {
    command: Vec<PathBuf>,
    /// True if it is given a folder instead of files.
    takes_folder: bool,
}

impl Tool {
    /// Ours.
    pub(crate) fn coopcheck() -> Tool {
        Tool { command: vec![env!("CARGO_BIN_EXE_coopcheck").into(), "-qq".into()], takes_folder: false }
    }

    /// The one that `scripts/drivers.sh` has unpacked, started without the shell script around it.
    pub(crate) fn spirv_val() -> Option<Tool> {
        let root = cache().join("mesa/usr");
        let folders = std::fs::read_dir(root.join("lib")).ok()?.map_while(Result::ok).map(|e| e.path());
        let (libraries, linker) = folders.filter_map(|f| Some((f.clone(), linker(&f)?))).next()?;
        let mut command = vec![linker, "--library-path".into(), libraries, root.join("bin/spirv-val")];
        command.extend(["--target-env".into(), "vulkan1.3".into()]);
        Some(Tool { command, takes_folder: true })
    }

    /// The version that it tells, in a line.
    pub(crate) fn version(&self) -> String {
        let out = self.start().arg("--version").output();
        let text = out.map_or(String::new(), |o| String::from_utf8_lossy(&o.stdout).into_owned());
        text.lines().next().unwrap_or("of unknown version").to_owned()
    }

    /// Returns the cost for these files.
    pub(crate) fn cost(&self, files: &[PathBuf]) -> Cost {
        let folder = Scratch::of("files", files);
        least(RUNS, [&|| self.once(&folder)])[0]
    }

    /// Returns the cost for a module that does nothing.
    pub(crate) fn nothing(&self) -> Cost {
        let folder = Scratch::nothing();
        least(RUNS, [&|| self.once(&folder)])[0]
    }

    /// Returns the cost for these files, and that of printing the version.
    pub(crate) fn cost_and_idle(&self, files: &[PathBuf]) -> [Cost; 2] {
        let folder = Scratch::of("files", files);
        let idle = || {
            let mut command = self.start();
            command.arg("--version");
            Tool::timed(command)
        };
        least(MANY_RUNS, [&|| self.once(&folder), &idle])
    }

    /// Returns the cost for these files without starting and ending.
    pub(crate) fn net(&self, files: &[PathBuf]) -> Cost {
        let (folder, empty) = (Scratch::of("files", files), Scratch::nothing());
        let [all, nothing] = least(RUNS, [&|| self.once(&folder), &|| self.once(&empty)]);
        Cost { wall: all.wall.saturating_sub(nothing.wall), cpu: all.cpu.saturating_sub(nothing.cpu) }
    }

    fn once(&self, folder: &Scratch) -> Cost {
        let mut command = self.start();
        if self.takes_folder {
            command.arg(&folder.path);
        } else {
            command.args(folder.files());
        }
        Tool::timed(command)
    }

    fn timed(mut command: Command) -> Cost {
        let before = cpu_of_children();
        let start = Instant::now();
        let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
        let cost = Cost { wall: start.elapsed(), cpu: cpu_of_children() - before };
        let passed = status.as_ref().is_ok_and(|s| s.success());
        // A figure for a run that found an error, or did not take place, would be one for something else.
        assert!(passed, "{}: {status:?}", command.get_program().display());
        cost
    }

    fn start(&self) -> Command {
        let mut command = Command::new(&self.command[0]);
        command.args(&self.command[1..]);
        command
    }
}

/// The least that each of some starts takes. They take turns, so that whatever else the machine does slows all of them
/// alike.
fn least<const N: usize>(runs: usize, starts: [&dyn Fn() -> Cost; N]) -> [Cost; N] {
    let mut out = [Cost { wall: Duration::MAX, cpu: Duration::MAX }; N];
    for _ in 0..runs {
        for (slot, start) in out.iter_mut().zip(starts) {
            let cost = start();
            *slot = Cost { wall: slot.wall.min(cost.wall), cpu: slot.cpu.min(cost.cpu) };
        }
    }
    out
}

/// The dynamic linker itself, not a link that may lead elsewhere.
fn linker(folder: &Path) -> Option<PathBuf> {
    let mut files = std::fs::read_dir(folder).ok()?.map_while(Result::ok).map(|e| e.path());
    let is_linker = |p: &PathBuf| {
        let name = p.file_name().map_or_else(String::new, |n| n.to_string_lossy().into_owned());
        name.starts_with("ld-linux") && name.contains(".so.") && !p.is_symlink()
    };
    files.find(is_linker)
}

/// The largest amount of memory that a process started by this one has used.
pub(crate) fn peak_of_children() -> u64 {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).unwrap_or_else(|e| panic!("getrusage: {e}"));
    // In kilobytes, except where it is in bytes.
    u64::try_from(usage.max_rss()).unwrap_or_default() * if cfg!(target_vendor = "apple") { 1 } else { 1024 }
}

fn cpu_of_children() -> Duration {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).unwrap_or_else(|e| panic!("getrusage: {e}"));
    [usage.user_time(), usage.system_time()]
        .into_iter()
        .map(|t| Duration::new(t.tv_sec().unsigned_abs(), t.tv_usec().unsigned_abs() as u32 * 1000))
        .sum()
}

/// A folder with the files of one start; gone afterwards.
struct Scratch {
    path: PathBuf,
}

impl Scratch {
    /// With these files.
    fn of(name: &str, files: &[PathBuf]) -> Scratch {
        let folder = Scratch::new(name);
        for (n, file) in files.iter().enumerate() {
            folder.add(n, &std::fs::read(file).unwrap_or_else(|e| panic!("{}: {e}", file.display())));
        }
        folder
    }

    /// With a module that does nothing.
    fn nothing() -> Scratch {
        let module = text::parse(NOTHING).unwrap_or_else(|e| panic!("{e}"));
        let folder = Scratch::new("nothing");
        folder.add(0, &coop_ir::binary::write(&module));
        folder
    }

    fn new(name: &str) -> Scratch {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("figures-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        Scratch { path }
    }

    fn add(&self, number: usize, bytes: &[u8]) {
        let file = self.path.join(format!("{number:05}.spv"));
        std::fs::write(&file, bytes).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    }

    fn files(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(&self.path).unwrap_or_else(|e| panic!("{}: {e}", self.path.display()));
        let mut files: Vec<PathBuf> = entries.map_while(Result::ok).map(|e| e.path()).collect();
        files.sort();
        files
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}
