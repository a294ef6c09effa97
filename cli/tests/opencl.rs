//! Kernels: `testdata/opencl` in the interpreter and, lowered, on OpenCL devices.

use std::process::Command;

use coop_exec::interp::Interpreted;
use coop_exec::testing::{Driver, case, repository, words};
use coop_exec::{Executor, RunOptions};

/// Those whose workgroups are one subgroup.
const NARROW: [&str; 8] =
    ["plain", "plain.llc", "gemm_f16", "gemm_f16.llc", "gemm_tf32", "gemm_checked", "gemm_checked.llc", "elements"];

/// Those whose workgroups are several: pocl has subgroups as wide as a workgroup and does not keep the size that a kernel asks
/// for, and rusticl crashes while it compiles them (`testdata/opencl/README.md`).
const WIDE: [&str; 6] = ["gemm_bf16", "gemm_bf16.llc", "gemm_i8", "gemm_i8.llc", "gemm_slm", "gemm_slm.llc"];

/// The modules of `testdata/opencl`, by name without `.spv`, each with its case's path.
fn kernels() -> Vec<(String, String)> {
    let folder = repository().join("testdata/opencl");
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let names = entries.map(|entry| entry.expect("a readable folder").file_name().into_string().expect("a UTF-8 name"));
    let mut modules: Vec<String> = names.filter_map(|name| Some(name.strip_suffix(".spv")?.to_owned())).collect();
    modules.sort();
    assert!(modules.len() >= 12, "only {} kernels", modules.len());
    let case = |name: &str| format!("testdata/opencl/{}.toml", name.split('.').next().unwrap_or_default());
    modules.into_iter().map(|name| (name.clone(), case(&name))).collect()
}

/// `cooprun` on a runtime: its status and what it prints. `None` where there is no such runtime.
fn cooprun(driver: Driver, arguments: &[&str]) -> Option<(Option<i32>, String)> {
    let mut command = Command::new(driver.wrapper_or_skip(arguments)?);
    // What the tests themselves run with is for Vulkan.
    command.env_remove("LP_NATIVE_VECTOR_WIDTH").env_remove("GALLIUM_OVERRIDE_CPU_CAPS");
    command.arg(env!("CARGO_BIN_EXE_cooprun")).args(arguments).current_dir(repository());
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    Some((output.status.code(), text))
}

#[test]
fn kernels_do_in_the_interpreter_what_their_cases_expect() {
    for (name, toml) in kernels() {
        let case = case(&toml);
        let outcome = Interpreted::default()
            .run(&words(format!("testdata/opencl/{name}.spv")), &case, &RunOptions::default())
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(outcome.faults.is_empty(), "{name}: {}", outcome.faults.join("\n"));
        assert!(!case.expect.is_empty(), "{name} expects nothing");
        let differences = outcome.check(&case).unwrap();
        assert!(differences.is_empty(), "{name}: {}", differences[0]);
    }
}

/// Runs a kernel, lowered to scalar code, in the interpreter and on a runtime: both agree with the original in the
/// interpreter and with what the case expects. Answers whether there is such a runtime.
fn scalar_code_runs_on(driver: Driver, name: &str, more: &[&str]) -> bool {
    let (module, case) = (format!("testdata/opencl/{name}.spv"), name.split('.').next().unwrap_or_default());
    let case = format!("testdata/opencl/{case}.toml");
    let arguments = ["verify", &module, "--case", &case, "--target", "scalar", "--on", "interp-opencl"];
    let Some((status, text)) = cooprun(driver, &[&arguments[..], more].concat()) else { return false };
    assert_eq!(status, Some(0), "{name}: {text}");
    let agrees: Vec<&str> = text.lines().filter(|line| line.contains("agrees with the expectation")).collect();
    assert_eq!(agrees.len(), 2, "{name}: {text}");
    assert!(agrees[0].ends_with("and the original on interpreter"), "{name}: {text}");
    assert!(!agrees[1].contains("interpreter"), "{name}: {text}");
    assert!(text.trim_end().ends_with("agrees with interpreter"), "{name}: {text}");
    true
}

#[test]
fn scalar_code_of_kernels_runs_on_pocl() {
    for name in NARROW {
        if !scalar_code_runs_on(Driver::Pocl, name, &[]) {
            return;
        }
    }
    for name in WIDE {
        scalar_code_runs_on(Driver::Pocl, name, &["--lanes", "local-index"]);
    }
    let listed = NARROW.iter().chain(&WIDE).count();
    assert_eq!(listed, kernels().len(), "a kernel is in neither list");
}

#[test]
fn scalar_code_of_kernels_runs_on_rusticl() {
    for name in NARROW.into_iter().filter(|name| !name.ends_with(".llc")) {
        if !scalar_code_runs_on(Driver::Rusticl, name, &[]) {
            return;
        }
    }
}

/// A device whose subgroups are of another size than the kernel asks for does not run it.
#[test]
fn kernels_do_not_run_with_other_subgroups_than_they_ask_for() {
    let lowered = concat!(env!("CARGO_TARGET_TMPDIR"), "/gemm_f16.scalar.spv");
    let case = "testdata/opencl/gemm_f16.toml";
    let verify = ["verify", "testdata/opencl/gemm_f16.spv", "--case", case, "--on", "interp", "-o", lowered];
    let Some((status, text)) = cooprun(Driver::Rusticl, &verify) else { return };
    assert_eq!(status, Some(0), "{text}");
    let Some(wrapper) = Driver::Rusticl.wrapper_or_skip("subgroups of 8") else { return };
    let mut narrow = Command::new(wrapper);
    narrow.env("LP_NATIVE_VECTOR_WIDTH", "256").current_dir(repository());
    let run = narrow.arg(env!("CARGO_BIN_EXE_cooprun")).args(["run", lowered, "--case", case, "--on", "opencl"]);
    let output = run.output().unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains("subgroups of 16 invocations (SubgroupSize); it has 8"), "{text}");
}

/// Without OpenCL the message says what to install.
#[test]
fn a_missing_loader_is_said() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cooprun"));
    command.args(["run", "testdata/opencl/plain.spv", "--case", "testdata/opencl/plain.toml", "--on", "opencl"]);
    command.env("OPENCL_DYLIB_PATH", "/nowhere/libOpenCL.so").current_dir(repository());
    let output = command.output().unwrap_or_else(|error| panic!("{error}"));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("apt install ocl-icd-libopencl1 pocl-opencl-icd"), "{text}");
}
