//! The reference interpreter as the witness: originals and their lowerings, without any driver.
//!
//! Besides the kernels, the modules of `testdata/exec`: assembly for what front ends don't emit and drivers choke on.

use coop_exec::interp::Interpreted;
use coop_exec::vulkan::VulkanExecutor;
use coop_exec::{Case, Executor, RunOptions, testing, vulkan_test};
use coop_ir::{Module, binary, text};
use coop_passes::{Lanes, Options, Target, lower};
use std::path::{Path, PathBuf};

fn testdata(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata").join(folder)
}

fn files(folder: &str, extension: &str) -> Vec<PathBuf> {
    let mut out: Vec<PathBuf> = std::fs::read_dir(testdata(folder))
        .expect("testdata")
        .flatten()
        .map(|e| e.path())
        .filter(|p| p.extension().is_some_and(|e| e == extension))
        .collect();
    out.sort();
    assert!(!out.is_empty(), "nothing in testdata/{folder}");
    out
}

fn scalar(module: &Module, case: &Case, size: u32, lanes: Lanes) -> Module {
    let mut options = Options::new(Target::Scalar);
    options.spec = case.specialization().expect("values");
    options.spec_defaults = true;
    options.subgroup_size = Some(size);
    options.lanes = lanes;
    lower(module, &options).unwrap_or_else(|e| panic!("{e}")).module
}

/// Interprets a module and its lowerings with a case.
fn interpret(what: &str, module: &Module, case: &Case, size: u32) -> Vec<String> {
    let mut interpreter = Interpreted::default();
    interpreter.config.subgroup_size = size;
    let options = RunOptions::default();
    let run = |module: &Module| interpreter.run(&binary::write_words(module), case, &options);
    let mut out = testing::wrong(&format!("{what}, original"), run(module), case);
    for lanes in [Lanes::Subgroup, Lanes::LocalIndex] {
        let lowered = scalar(module, case, size, lanes);
        out.extend(testing::wrong(&format!("{what}, scalar, {lanes:?}"), run(&lowered), case));
    }
    out
}

#[test]
fn kernels_and_their_lowerings_in_the_interpreter() {
    let mut failures = Vec::new();
    let mut runs = 0;
    for path in files("kernels", "toml") {
        let case = Case::load(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let name = path.file_name().map_or_else(String::new, |n| n.to_string_lossy().into_owned());
        let base = name.split('.').next().unwrap_or_default().to_owned();
        let bytes = std::fs::read(testdata("kernels").join(format!("{base}.spv"))).expect("the kernel of a case");
        let module = binary::read(&bytes).expect("a module");
        runs += 1;
        // Every case is made for subgroups of 8.
        failures.extend(interpret(&name, &module, &case, 8));
    }
    assert!(runs >= 20, "only {runs} cases");
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

fn assembly() -> Vec<(String, Module, Case)> {
    files("exec", "spvasm")
        .into_iter()
        .map(|path| {
            let source = std::fs::read_to_string(&path).expect("readable");
            let module = text::parse(&source).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
            let case = Case::load(&path.with_extension("toml")).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
            (path.file_stem().map_or_else(String::new, |n| n.to_string_lossy().into_owned()), module, case)
        })
        .collect()
}

#[test]
fn assembly_and_its_lowerings_in_the_interpreter() {
    let failures: Vec<String> = assembly().iter().flat_map(|(name, m, case)| interpret(name, m, case, 8)).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Runs the lowerings of the assembly on a device. (The originals make lavapipe fall over.)
fn on_device(device: &VulkanExecutor<'_>) {
    let mut failures = Vec::new();
    for (name, module, case) in assembly() {
        for lanes in [Lanes::Subgroup, Lanes::LocalIndex] {
            let mut case = case.clone();
            if lanes == Lanes::Subgroup {
                (case.subgroup_size, case.full_subgroups) = (Some(8), true);
            }
            let words = binary::write_words(&scalar(&module, &case, 8, lanes));
            let outcome = device.run(&words, &case, &RunOptions::default());
            failures.extend(testing::wrong(&format!("{name}, scalar, {lanes:?}"), outcome, &case));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

vulkan_test!(
    Lavapipe,
    fn lowered_assembly_on_lavapipe(device) {
        on_device(device);
    }
);

vulkan_test!(
    Debian12,
    fn lowered_assembly_on_debian_12(device) {
        on_device(device);
    }
);
