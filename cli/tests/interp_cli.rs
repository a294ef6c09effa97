//! The interpreter on the command line: it needs no driver, and what it finds is shown and decides the exit status.
//!
//! Snapshots stand in `testdata/cli/run`. `INSTA_UPDATE=always cargo test` rewrites them.

use coop_exec::testing::{Driver, repository};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

const SIMPLE: &str = "testdata/kernels/gemm_simple.spv";
const SIMPLE_CASE: &str = "testdata/kernels/gemm_simple.toml";
const DIVERGENT: &str = "testdata/exec/ub/divergent-load.spvasm";
const DIVERGENT_CASE: &str = "testdata/exec/ub/divergent-load.toml";
const OUTSIDE: &str = "testdata/exec/ub/store-out-of-bounds.spvasm";
const OUTSIDE_CASE: &str = "testdata/exec/ub/store-out-of-bounds.toml";
const OVERLAP: &str = "testdata/exec/ub/rows-overlap.spvasm";
const OVERLAP_CASE: &str = "testdata/exec/ub/rows-overlap.toml";

const BROKEN: &str = "testdata/validate/muladd/muladd-k-mismatch.spvasm";
const POINTERS: &str = "testdata/exec/pointers.spvasm";

struct Ran {
    status: i32,
    stdout: String,
    stderr: String,
}

impl Ran {
    fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|e| panic!("{e}: {}{}", self.stdout, self.stderr))
    }
}

fn finish(mut command: Command) -> Ran {
    let output = command.current_dir(repository()).output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    Ran {
        status: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// With no Vulkan driver that could be found.
fn without_driver(tool: &str, arguments: &[&str]) -> Ran {
    let mut command = Command::new(tool);
    command.args(arguments).env("VK_DRIVER_FILES", "/dev/null").env("VK_ICD_FILENAMES", "/dev/null");
    finish(command)
}

fn cooprun(arguments: &[&str]) -> Ran {
    without_driver(env!("CARGO_BIN_EXE_cooprun"), arguments)
}

fn snapshot(name: &str, tool: &str, arguments: &[&str], ran: &Ran) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata/cli/run").canonicalize().expect("it exists");
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(folder);
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    let Ran { status, stdout, stderr } = ran;
    let line = arguments.join(" ");
    let text = format!("{tool} {line}\nstatus: {status}\n--- stdout\n{stdout}--- stderr\n{stderr}");
    settings.bind(|| insta::assert_snapshot!(name, text));
}

fn shown(name: &str, arguments: &[&str]) {
    snapshot(name, "cooprun", arguments, &cooprun(arguments));
}

#[test]
fn a_kernel_runs_and_is_right() {
    shown("run", &["run", SIMPLE, "--case", SIMPLE_CASE, "--on", "interp", "-v"]);
    shown("run-quiet", &["run", SIMPLE, "--case", SIMPLE_CASE, "--on", "interp", "-q"]);
    // The same without the interpreter asks for a driver.
    let ran = cooprun(&["run", SIMPLE, "--case", SIMPLE_CASE]);
    assert_eq!(ran.status, 2, "{}{}", ran.stdout, ran.stderr);
}

#[test]
fn every_placement_agrees() {
    let size = ["--subgroup-size", "8"];
    let arguments = ["run", SIMPLE, "--case", SIMPLE_CASE, "--on", "interp", "--placement", "all"];
    shown("placements", &[&arguments[..], &size].concat());
    let json = cooprun(&[&arguments[..], &size, &["--json"]].concat()).json();
    assert_eq!(json["ok"], true);
    assert_eq!(json["runs"].as_array().map(Vec::len), Some(5), "{json}");
    assert_eq!(json["comparisons"][2]["device"], "interpreter, placement permuted");
}

#[test]
fn undefined_behaviour_is_1_and_is_shown() {
    shown("divergent-load", &["run", DIVERGENT, "--case", DIVERGENT_CASE, "--on", "interp"]);
    shown("store-out-of-bounds", &["run", OUTSIDE, "--case", OUTSIDE_CASE, "--on", "interp", "-q"]);
    shown("rows-overlap", &["run", OVERLAP, "--case", OVERLAP_CASE, "--on", "interp", "-q"]);
}

#[test]
fn json_has_the_findings() {
    let ran = cooprun(&["run", DIVERGENT, "--case", DIVERGENT_CASE, "--on", "interp", "--json"]);
    let json = ran.json();
    assert_eq!((ran.status, &json["ok"], &json["device"]), (1, &Value::from(false), &Value::from("interpreter")));
    let findings = json["findings"].as_array().expect("findings");
    assert_eq!(findings.len(), 1, "{json}");
    let finding = &findings[0];
    assert_eq!(finding["rule"], "run-non-uniform-execution");
    assert_eq!(finding["opcode"], "OpCooperativeMatrixLoadKHR");
    let labels = finding["labels"].as_array().expect("labels");
    assert!(
        labels.iter().any(|l| l["text"].as_str().is_some_and(|t| t.contains("SubgroupLocalInvocationId"))),
        "{json}"
    );
}

#[test]
fn lowered_modules_are_verified() {
    shown("verify", &["verify", SIMPLE, "--case", SIMPLE_CASE, "--on", "interp", "--subgroup-size", "8"]);
    let lanes = ["--lanes", "local-index", "--variant", "warp", "--json"];
    let json = cooprun(&[&["verify", SIMPLE, "--case", SIMPLE_CASE, "--on", "interp"], &lanes[..]].concat()).json();
    assert_eq!(json["ok"], true, "{json}");
    assert_eq!(json["compared_with"], serde_json::json!(["expectation", "original"]));
    assert_eq!(json["findings"], serde_json::json!([]));
}

#[test]
fn an_undefined_original_is_a_finding_not_a_witness() {
    let arguments = ["verify", DIVERGENT, "--case", DIVERGENT_CASE, "--on", "interp"];
    let ran = cooprun(&arguments);
    assert_eq!(ran.status, 1, "{}{}", ran.stdout, ran.stderr);
    assert!(ran.stdout.contains("run-non-uniform-execution") && ran.stdout.contains("%low %half %done"));
    assert!(ran.stdout.contains("so it is not compared with") && !ran.stdout.contains("agrees"), "{}", ran.stdout);
    let json = cooprun(&[&arguments[..], &["--json"]].concat()).json();
    assert_eq!(json["original_findings"].as_array().map(Vec::len), Some(1), "{json}");
}

#[test]
fn modules_are_compared() {
    let optimised = "testdata/kernels/gemm_simple.opt.spv";
    let ran = cooprun(&["compare", SIMPLE, optimised, "--case", SIMPLE_CASE, "--on", "interp"]);
    assert_eq!((ran.status, ran.stdout.as_str()), (0, "all 3 buffers agree on interpreter\n"), "{}", ran.stderr);
    let ran = cooprun(&["compare", DIVERGENT, OUTSIDE, "--case", OUTSIDE_CASE, "--on", "interp"]);
    assert_eq!(ran.status, 1, "{}{}", ran.stdout, ran.stderr);
    for part in [DIVERGENT, OUTSIDE, "run-non-uniform-execution", "run-out-of-bounds", "buffer out: "] {
        assert!(ran.stdout.contains(part), "{part} is not in\n{}", ran.stdout);
    }
}

#[test]
fn options_that_do_not_go_together_are_2() {
    shown("placement-on-vulkan", &["run", SIMPLE, "--case", SIMPLE_CASE, "--placement", "permuted"]);
    shown("bench-on-interp", &["run", SIMPLE, "--case", SIMPLE_CASE, "--on", "interp", "--bench", "3"]);
    shown("steps", &["run", SIMPLE, "--case", SIMPLE_CASE, "--on", "interp", "--steps", "20"]);
}

fn coopcheck(arguments: &[&str]) -> Ran {
    without_driver(env!("CARGO_BIN_EXE_coopcheck"), arguments)
}

#[test]
fn coopcheck_runs_modules_that_break_no_rule() {
    // The rules see it too, and a module that breaks one is not run.
    let [allow, rule] = ["--allow", "uniformity-flow"];
    for (name, arguments) in [
        ("check-human", &["--run", OUTSIDE_CASE, OUTSIDE][..]),
        ("check-short", &["--format", "short", allow, rule, "--run", DIVERGENT_CASE, DIVERGENT, OUTSIDE]),
        ("check-valid", &["--run", SIMPLE_CASE, SIMPLE]),
        ("check-invalid", &["--format", "short", "--run", DIVERGENT_CASE, BROKEN]),
        ("check-does-not-fit", &["--run", SIMPLE_CASE, POINTERS]),
    ] {
        snapshot(name, "coopcheck", arguments, &coopcheck(arguments));
    }
    let ran = coopcheck(&["--format", "json", allow, rule, "--run", DIVERGENT_CASE, DIVERGENT]);
    let json = ran.json();
    assert_eq!((ran.status, &json["ok"]), (1, &Value::from(false)), "{json}");
    assert_eq!(json["findings"][0]["rule"], "run-non-uniform-execution");
    let quiet = coopcheck(&["-qq", allow, rule, "--run", DIVERGENT_CASE, DIVERGENT]);
    assert_eq!((quiet.status, quiet.stdout.as_str(), quiet.stderr.as_str()), (1, "", ""));
}

#[test]
fn device_and_interpreter_agree() {
    for command in [&["run", SIMPLE][..], &["compare", SIMPLE, SIMPLE], &["verify", SIMPLE]] {
        let arguments = [command, &["--case", SIMPLE_CASE, "--on", "both", "-v"]].concat();
        let Some(wrapper) = Driver::Lavapipe.wrapper_or_skip(&arguments) else { return };
        let mut tool = Command::new(wrapper);
        tool.arg(env!("CARGO_BIN_EXE_cooprun")).args(&arguments);
        let ran = finish(tool);
        assert_eq!(ran.status, 0, "{}{}", ran.stdout, ran.stderr);
        assert!(ran.stdout.contains("agrees with interpreter\n"), "{}", ran.stdout);
        assert!(ran.stderr.contains("interpreter: subgroups of 8 (the device's)"), "{}", ran.stderr);
    }
}
