//! Devices, lowerings and comparisons that the tests share.
#![allow(dead_code, reason = "each test file uses a part")]

use coop_components::{Error, Lacks, Lowered, lower};
use coop_device::{Feature, Profile};
use coop_exec::interp::Interpreted;
use coop_exec::testing::run_clean;
use coop_exec::vulkan::VulkanExecutor;
use coop_exec::{Case, Executor, Outcome, RunOptions};
use coop_ir::{Module, binary, text};
use coop_passes::{Lanes, Options, Target};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A device that lacks all that can be done without.
pub(crate) fn everything() -> Lacks {
    Lacks::all()
}

pub(crate) fn lacks(features: &[Feature]) -> Lacks {
    let one = |f: &Feature| Lacks::without(*f).unwrap_or_else(|| panic!("{f} can't be done without"));
    features.iter().map(one).fold(Lacks::default(), Lacks::and)
}

/// The lacks of the devices that there are profiles of, each once, with a device.
pub(crate) fn of_devices() -> Vec<(&'static str, Lacks)> {
    let mut all: Vec<(&str, Lacks)> = Vec::new();
    for name in Profile::builtin_names() {
        let lacks = Lacks::of(&Profile::builtin(name).expect("a profile"));
        if !lacks.is_empty() && all.iter().all(|(_, other)| *other != lacks) {
            all.push((name, lacks));
        }
    }
    assert!(all.len() >= 5, "{all:?}");
    all
}

/// The oldest Vulkan that takes a module, as spirv-val calls it.
pub(crate) fn environment(module: &Module) -> &'static str {
    match module.header.version_pair() {
        (1, 6) => "vulkan1.3",
        (1, 5) => "vulkan1.2",
        (1, 4) => "vulkan1.1spv1.4",
        _ => "vulkan1.1",
    }
}

pub(crate) fn parse(source: &str) -> Module {
    text::parse(source).unwrap_or_else(|e| panic!("{e}"))
}

pub(crate) fn case(source: &str) -> Case {
    Case::parse(source, Path::new(".")).unwrap_or_else(|e| panic!("{e}"))
}

/// Writes the contents of a buffer to a file of this process. Returns its name, for a case of [`case_with_files`].
pub(crate) fn contents(name: &str, bytes: impl IntoIterator<Item = u8>) -> String {
    let name = format!("{name}-{}", std::process::id());
    let bytes: Vec<u8> = bytes.into_iter().collect();
    std::fs::write(Path::new(env!("CARGO_TARGET_TMPDIR")).join(&name), bytes).expect("a file is written");
    name
}

/// As [`case`], with buffers that files fill.
pub(crate) fn case_with_files(source: &str) -> Case {
    let mut case = case(source);
    case.folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    case
}

/// Lowers the matrices of a module to scalar code for a case, and bfloat16 with them.
pub(crate) fn scalar(module: &Module, case: &Case, size: u32) -> Result<Module, String> {
    let mut options = Options::new(Target::Scalar);
    options.spec = case.specialization().map_err(|e| e.to_string())?;
    options.spec_defaults = true;
    options.subgroup_size = Some(size);
    options.lanes = Lanes::LocalIndex;
    let mut profile = Profile::builtin("mesa-lavapipe").expect("a profile");
    profile.features.set(Feature::ShaderBFloat16Type, false);
    options.profile = Some(&profile);
    coop_passes::lower(module, &options).map(|l| l.module).map_err(|e| e.to_string())
}

/// Lowers, and checks what every output has to be.
pub(crate) fn lowered(what: &str, module: &Module, lacks: Lacks) -> Lowered {
    try_lowered(what, module, lacks).unwrap_or_else(|e| panic!("{what}: {e}"))
}

pub(crate) fn try_lowered(what: &str, module: &Module, lacks: Lacks) -> Result<Lowered, Error> {
    let lowered = lower(module, &coop_components::Options::new(lacks))?;
    for c in lowered.module.capabilities() {
        if let coop_device::Requirement::AnyOf(features) = coop_device::capability_requirement(c) {
            assert!(features.iter().any(|f| !lacks.has(*f)), "{what}: the output declares {c}");
        }
    }
    valid(what, &lowered.module);
    Ok(lowered)
}

/// Runs a module in the interpreter; undefined behavior is a failure.
pub(crate) fn interpret(what: &str, module: &Module, case: &Case, size: u32) -> Outcome {
    let mut interpreter = Interpreted::default();
    interpreter.config.subgroup_size = size;
    let outcome = interpreter.run(&binary::write_words(module), case, &RunOptions::default());
    let outcome = outcome.unwrap_or_else(|e| panic!("{what}: {e}"));
    assert!(outcome.faults.is_empty(), "{what}: {}", outcome.faults.join("\n"));
    outcome
}

/// Runs a module on a device; whatever it says is a failure.
pub(crate) fn run_on(device: &VulkanExecutor<'_>, what: &str, module: &Module, case: &Case) -> Outcome {
    run_clean(device, &binary::write_words(module), case).unwrap_or_else(|e| panic!("{what}: {e}"))
}

/// Asserts that two runs left the same bytes.
pub(crate) fn same(what: &str, one: &Outcome, other: &Outcome) {
    for ((name, a), (_, b)) in one.buffers.iter().zip(&other.buffers) {
        let first = a.iter().zip(b).position(|(a, b)| a != b);
        assert!(first.is_none() && a.len() == b.len(), "{what}: {name} differs from byte {first:?} on");
    }
}

/// The tool in the folder of fetched tools.
fn spirv_val() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let cache = std::env::var_os("COOP_CACHE").map_or(root.join(".cache"), PathBuf::from);
    let tool = cache.join("bin/spirv-val");
    if tool.is_file() {
        return Some(tool);
    }
    assert!(std::env::var_os("COOP_REQUIRE_TOOLS").is_none(), "spirv-val is not there: scripts/drivers.sh fetches it");
    None
}

/// Asserts that spirv-val accepts a module, where that is there.
pub(crate) fn valid(what: &str, module: &Module) {
    valid_for("vulkan1.3", what, module);
}

/// As [`valid`], for an environment.
pub(crate) fn valid_for(environment: &str, what: &str, module: &Module) {
    let Some(tool) = spirv_val() else { return };
    let mut child = Command::new(tool)
        .args(["--target-env", environment, "--scalar-block-layout", "--allow-localsizeid", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("spirv-val starts");
    let words = binary::write_words(module);
    let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
    child.stdin.take().expect("a pipe").write_all(&bytes).expect("spirv-val reads");
    let output = child.wait_with_output().expect("spirv-val ends");
    assert!(
        output.status.success(),
        "{what}: {}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
}
