//! Devices for tests to run modules on.
//!
//! A test that needs a driver is written with [`vulkan_test!`](crate::vulkan_test). Its body runs in a process that
//! sees the driver asked for: this one, if it was started with that driver (`COOP_MESA` says so), else a second process
//! of the same test program, started for this one test by the wrapper that `scripts/drivers.sh` made. Without wrapper
//! and driver the test prints that it was skipped; with `COOP_REQUIRE_VULKAN=1` it fails.

pub mod llama;
pub mod pages;

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use coop_device::Feature;

use crate::vulkan::VulkanExecutor;
use crate::{Case, Error, Executor, Outcome, RunOptions, Vulkan};

/// The time limit of a test in a process of its own.
const LIMIT: Duration = Duration::from_secs(300);

/// Set in the second process, so that it starts no third one.
const CHILD: &str = "COOP_TEST_CHILD";

/// A driver that tests run on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Driver {
    /// A current Mesa's lavapipe, which has cooperative matrices of 8 x 8 x 8 and subgroups of 8.
    Lavapipe,
    /// Debian 12's lavapipe (Mesa 22.3), without cooperative matrices.
    Debian12,
    /// Mesa's driver of AMD's Navi 31 (RDNA 3) without the GPU: it compiles pipelines, and executes nothing.
    Navi31,
    /// The driver of another GPU that is not there, by its name in `scripts/drivers.sh gpus`.
    Gpu(&'static str),
    /// pocl, which runs kernels with subgroups of the size that they ask for.
    Pocl,
    /// Mesa's OpenCL on llvmpipe, with subgroups of 16.
    Rusticl,
    /// SwiftShader, which has subgroups of 4 and 32-bit numbers only: `scripts/drivers.sh swiftshader` fetches it.
    SwiftShader,
    /// Intel's OpenCL for CPUs, which is large: `scripts/drivers.sh intel` fetches it, and no test requires it.
    Intel,
}

impl Driver {
    /// The value of `COOP_MESA` in processes that run with the driver.
    fn tag(self) -> &'static str {
        match self {
            Driver::Lavapipe => "new",
            Driver::Debian12 => "debian12",
            Driver::Navi31 => "amd-navi31",
            Driver::Gpu(name) => name,
            Driver::Pocl => "pocl",
            Driver::Rusticl => "rusticl",
            Driver::SwiftShader => "swiftshader",
            Driver::Intel => "intel",
        }
    }

    /// Returns the command that starts a program with the driver. `None` if there is none, which is printed, and is a
    /// failure where a driver is required.
    pub fn wrapper_or_skip(self, what: impl std::fmt::Debug) -> Option<PathBuf> {
        let wrapper = self.wrapper();
        if wrapper.exists() {
            return Some(wrapper);
        }
        if self == Driver::Intel {
            skipped(&format!("no driver for {what:?}: scripts/drivers.sh {} fetches it", self.tag()));
            return None;
        }
        skip(&format!("no driver for {what:?}: run scripts/drivers.sh first ({} is missing)", wrapper.display()));
        None
    }

    fn wrapper(self) -> PathBuf {
        cached(&match self {
            Driver::Lavapipe => "mesa-run".to_owned(),
            Driver::Debian12 => "mesa12-run".to_owned(),
            _ => format!("{}-run", self.tag()),
        })
    }
}

/// Returns the program that starts others with the driver of a GPU that is not there; the file may not exist.
pub fn runner_of_gpu(name: &str) -> PathBuf {
    cached(&format!("{name}-run"))
}

/// Returns the names of the GPUs that `scripts/drivers.sh` has drivers for.
pub fn gpus() -> std::io::Result<Vec<String>> {
    let output = Command::new(repository().join("scripts/drivers.sh")).arg("gpus").output()?;
    Ok(String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect())
}

/// A program that `scripts/drivers.sh` put into the cache.
fn cached(name: &str) -> PathBuf {
    cache().join("bin").join(name)
}

/// Returns the folder of what the scripts fetch.
fn cache() -> PathBuf {
    std::env::var_os("COOP_CACHE").map_or_else(|| repository().join(".cache"), PathBuf::from)
}

/// Returns a tool that `scripts/drivers.sh NAME` fetches and that no test requires. Prints a note if it is missing.
pub fn optional_tool(name: &str) -> Option<PathBuf> {
    let tool = cached(name);
    if tool.exists() {
        return Some(tool);
    }
    skipped(&format!("no {name}: scripts/drivers.sh {name} fetches it"));
    None
}

/// Declares a test that runs on a driver: `vulkan_test!(Lavapipe, fn name(device) { ... })`, where `device` is a
/// `&VulkanExecutor`.
#[macro_export]
macro_rules! vulkan_test {
    ($(#[$attribute:meta])* $driver:ident, fn $name:ident($device:ident) $body:block) => {
        $(#[$attribute])*
        #[test]
        fn $name() {
            let path = concat!(module_path!(), "::", stringify!($name));
            $crate::testing::with_device($crate::testing::Driver::$driver, path, |$device| $body);
        }
    };
}

/// Returns the folder of llama.cpp's modules, which `scripts/llama-shaders.sh` compiles. `None` if it does not exist,
/// which is printed, and is a failure if `COOP_REQUIRE_LLAMA` is 1.
pub fn llama_modules() -> Option<PathBuf> {
    let folder = cache().join("llama");
    if folder.is_dir() {
        return Some(folder);
    }
    let why = format!("no llama.cpp modules in {}: run scripts/llama-shaders.sh first", folder.display());
    assert!(std::env::var_os("COOP_REQUIRE_LLAMA").is_none_or(|value| value != "1"), "{why}");
    let _ = writeln!(std::io::stderr(), "SKIPPED, {why}");
    None
}

/// Describes the differences of an outcome from what the case expects; empty if there are none.
pub fn wrong(what: &str, outcome: Result<Outcome, Error>, case: &Case) -> Vec<String> {
    let outcome = match outcome {
        Ok(o) => o,
        Err(e) => return vec![format!("{what}: {e}")],
    };
    let mut out: Vec<String> = outcome.messages.iter().chain(&outcome.faults).map(|w| format!("{what}: {w}")).collect();
    match outcome.check(case) {
        Ok(differences) => out.extend(differences.iter().map(|d| format!("{what}: {d}"))),
        Err(e) => out.push(format!("{what}: {e}")),
    }
    out
}

/// Runs the body of the test `path` (crate, modules, function) with a device of the driver.
pub fn with_device(driver: Driver, path: &str, body: impl FnOnce(&VulkanExecutor<'_>)) {
    if std::env::var_os("COOP_MESA").is_some_and(|tag| tag == driver.tag()) {
        let vulkan = Vulkan::open(true).unwrap_or_else(|error| panic!("{error}"));
        body(&vulkan.device(None).unwrap_or_else(|error| panic!("{error}")));
        return;
    }
    let wrapper = driver.wrapper();
    if wrapper.exists() {
        return in_second_process(&wrapper, path);
    }
    if driver == Driver::Lavapipe
        && let Ok(vulkan) = Vulkan::open(true)
        && let Ok(device) = vulkan.device(Some("llvmpipe"))
        && device.profile().has(Feature::CooperativeMatrix)
    {
        return body(&device);
    }
    skip(&format!("no driver for {path}: run scripts/drivers.sh first ({} is missing)", wrapper.display()));
}

fn skip(why: &str) {
    assert!(std::env::var_os("COOP_REQUIRE_VULKAN").is_none_or(|value| value != "1"), "{why}");
    skipped(why);
}

fn skipped(why: &str) {
    // Straight to stderr: the test harness keeps what `eprintln!` writes to itself.
    let _ = writeln!(std::io::stderr(), "SKIPPED, {why}");
}

fn in_second_process(wrapper: &Path, path: &str) {
    assert!(std::env::var_os(CHILD).is_none(), "{} does not set COOP_MESA", wrapper.display());
    // The harness's names have no crate in front.
    let (_, test) = path.split_once("::").unwrap_or(("", path));
    // `current_exe` would name the linker that the wrapper starts programs with.
    let program = std::env::args_os().next().unwrap_or_else(|| panic!("a process has a name"));
    let mut child = Command::new(wrapper)
        .arg(program)
        .args(["--exact", test, "--include-ignored", "--nocapture", "--test-threads=1"])
        .env(CHILD, "1")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{}: {error}", wrapper.display()));
    let stdout = reader(child.stdout.take());
    let stderr = reader(child.stderr.take());
    let start = Instant::now();
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break Some(status),
            Ok(None) if start.elapsed() < LIMIT => std::thread::sleep(Duration::from_millis(5)),
            _ => {
                let _ = child.kill();
                let _ = child.wait();
                break None;
            }
        }
    };
    let (stdout, stderr) = (stdout.join().unwrap_or_default(), stderr.join().unwrap_or_default());
    // A name that matches no test would pass with nothing run.
    let passed = status.is_some_and(|status| status.success()) && stdout.contains("1 passed");
    let how = status.map_or(format!("did not end in {LIMIT:?}"), |status| status.to_string());
    assert!(passed, "{test} with {}: {how}\n{stdout}\n{stderr}", wrapper.display());
}

fn reader(pipe: Option<impl Read + Send + 'static>) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            let _ = pipe.read_to_end(&mut bytes);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// The repository's folder.
pub fn repository() -> PathBuf {
    let exec = Path::new(env!("CARGO_MANIFEST_DIR"));
    exec.parent().unwrap_or(exec).to_owned()
}

/// The words of a module, compiled or as text (`.spvasm`), by its path in the repository.
pub fn words(path: impl AsRef<Path>) -> Vec<u32> {
    let path = repository().join(path);
    let bytes = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let wrong = |why: &dyn std::fmt::Display| -> ! { panic!("{}: {why}", path.display()) };
    let module = if path.extension().is_some_and(|extension| extension == "spvasm") {
        coop_ir::text::parse(&String::from_utf8_lossy(&bytes)).unwrap_or_else(|error| wrong(&error))
    } else {
        coop_ir::binary::read(&bytes).unwrap_or_else(|error| wrong(&error))
    };
    coop_ir::binary::write_words(&module)
}

/// A case, by its path in the repository.
pub fn case(path: impl AsRef<Path>) -> Case {
    Case::load(&repository().join(path)).unwrap_or_else(|error| panic!("{error}"))
}

/// A module of `testdata/kernels` with one of its cases.
#[derive(Clone, PartialEq, Debug)]
pub struct Kernel {
    /// The module's file name without `.spv`: `gemm_simple.opt`.
    pub module: String,
    /// The case's file name without `.toml`: `gemm_simple`.
    pub case: String,
}

impl Kernel {
    /// The module's words.
    pub fn words(&self) -> Vec<u32> {
        words(format!("testdata/kernels/{}.spv", self.module))
    }

    /// The case.
    pub fn case(&self) -> Case {
        case(format!("testdata/kernels/{}.toml", self.case))
    }
}

impl std::fmt::Display for Kernel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.spv with {}.toml", self.module, self.case)
    }
}

/// Returns every kernel with every case that has its name as a prefix: `gemm_simple.opt.spv` and `gemm_simple.spv` have
/// the cases `gemm_simple.toml` and `gemm_simple.*.toml`.
pub fn kernels() -> Vec<Kernel> {
    let folder = repository().join("testdata/kernels");
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let files: Vec<String> =
        entries.map_while(Result::ok).filter_map(|entry| entry.file_name().into_string().ok()).collect();
    let with = |ending: &str| -> Vec<String> {
        let mut names: Vec<String> = files.iter().filter_map(|name| Some(name.strip_suffix(ending)?.into())).collect();
        names.sort();
        names
    };
    let first = |name: &str| name.split('.').next().unwrap_or_default().to_string();
    let cases = with(".toml");
    let pairs = with(".spv").into_iter().flat_map(|module| {
        let cases = cases.iter().filter(|case| first(case) == first(&module)).cloned().collect::<Vec<_>>();
        cases.into_iter().map(move |case| Kernel { module: module.clone(), case })
    });
    pairs.collect()
}

/// Runs a module and asserts that neither the validation layer nor the guards after buffers report anything.
pub fn run_clean(device: &VulkanExecutor<'_>, words: &[u32], case: &Case) -> Result<Outcome, String> {
    run_clean_with(device, words, case, &RunOptions::default())
}

fn run_clean_with(
    device: &VulkanExecutor<'_>,
    words: &[u32],
    case: &Case,
    options: &RunOptions,
) -> Result<Outcome, String> {
    let outcome = device.run(words, case, options).map_err(|error| error.to_string())?;
    let complaints: Vec<&str> = outcome.messages.iter().chain(&outcome.faults).map(String::as_str).collect();
    if complaints.is_empty() { Ok(outcome) } else { Err(complaints.join("\n")) }
}

/// Runs a module. Complaints are in the outcome.
pub fn run(device: &VulkanExecutor<'_>, words: &[u32], case: &Case) -> Result<Outcome, Error> {
    device.run(words, case, &RunOptions::default())
}

/// Runs a module and checks it against what the case expects.
pub fn run_and_check(device: &VulkanExecutor<'_>, words: &[u32], case: &Case) -> Result<(), String> {
    run_and_check_with(device, words, case, &RunOptions::default())
}

/// Runs a module with options and checks it against what the case expects.
pub fn run_and_check_with(
    device: &VulkanExecutor<'_>,
    words: &[u32],
    case: &Case,
    options: &RunOptions,
) -> Result<(), String> {
    let outcome = run_clean_with(device, words, case, options)?;
    let differences = outcome.check(case).map_err(|error| error.to_string())?;
    let lines: Vec<String> = differences.iter().map(ToString::to_string).collect();
    if lines.is_empty() { Ok(()) } else { Err(lines.join("\n")) }
}
