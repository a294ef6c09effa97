//! Kernels: `testdata/opencl` in the interpreter and, lowered, on OpenCL devices.

use std::process::Command;

use coop_exec::interp::Interpreted;
use coop_exec::testing::{Driver, case, repository, words};
use coop_exec::{Executor, RunOptions};

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

/// Runs every kernel, lowered to scalar code, in the interpreter and on a runtime: both agree with the original in the
/// interpreter and with what the case expects.
fn scalar_code_runs_on(driver: Driver, more: &[&str]) {
    for (name, toml) in kernels() {
        let module = format!("testdata/opencl/{name}.spv");
        let arguments = ["verify", &module, "--case", &toml, "--target", "scalar", "--on", "interp-opencl"];
        let Some((status, text)) = cooprun(driver, &[&arguments[..], more].concat()) else { return };
        assert_eq!(status, Some(0), "{name}: {text}");
        let agrees = text.lines().filter(|line| line.contains("agrees with the")).count();
        assert_eq!(agrees, 2, "{name}: {text}");
        assert!(text.contains("agrees with the original and the expectation on interpreter"), "{name}: {text}");
        assert!(text.contains("agrees with the expectation on "), "{name}: {text}");
        assert!(text.trim_end().ends_with("agrees with interpreter"), "{name}: {text}");
    }
}

#[test]
fn scalar_code_of_kernels_runs_on_pocl() {
    scalar_code_runs_on(Driver::Pocl, &[]);
}

#[test]
fn scalar_code_of_kernels_runs_on_rusticl() {
    scalar_code_runs_on(Driver::Rusticl, &[]);
}
