//! `cooprun` as its users call it: exit statuses and what is printed.

use std::path::{Path, PathBuf};
use std::process::Command;

use coop_device::{Feature, Profile};
use coop_exec::testing::{Driver, repository};

struct Ran {
    status: i32,
    stdout: String,
    stderr: String,
}

fn finish(mut command: Command) -> Ran {
    let output = command.current_dir(repository()).output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    Ran {
        status: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// Without a driver.
fn cooprun(arguments: &[&str]) -> Ran {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cooprun"));
    command.args(arguments);
    finish(command)
}

/// With a driver; `None` where there is none, which is said aloud or is a failure.
fn cooprun_on(driver: Driver, arguments: &[&str]) -> Option<Ran> {
    let mut command = Command::new(driver.wrapper_or_skip(arguments)?);
    command.arg(env!("CARGO_BIN_EXE_cooprun")).args(arguments);
    Some(finish(command))
}

fn temporary(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

const SIMPLE: &str = "testdata/kernels/gemm_simple.spv";
const SIMPLE_CASE: &str = "testdata/kernels/gemm_simple.toml";

#[test]
fn wrong_usage_and_unreadable_input_are_2() {
    for arguments in [
        &["frobnicate"][..],
        &["run", SIMPLE],
        &["run", "no-such-file.spv", "--case", SIMPLE_CASE],
        &["run", SIMPLE, "--case", "no-such-case.toml"],
        &["run", SIMPLE_CASE, "--case", SIMPLE_CASE],
        &["run", SIMPLE, "--case", SIMPLE_CASE, "--variant", "no-such-variant"],
        &["run", SIMPLE, "--case", SIMPLE_CASE, "--spec", "x"],
        &["case", "Cargo.toml"],
    ] {
        let ran = cooprun(arguments);
        assert_eq!(ran.status, 2, "{arguments:?}: {}", ran.stderr);
        assert!(ran.stderr.starts_with("error: ") && ran.stdout.is_empty(), "{arguments:?}: {}", ran.stderr);
    }
    let ran = cooprun(&["run", "no-such-file.spv", "--case", SIMPLE_CASE, "--json"]);
    assert_eq!(ran.status, 2);
    let json: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(json["error"]["kind"], "file");
    assert_eq!(json["ok"], false);
}

#[test]
fn help_says_what_there_is() {
    let ran = cooprun(&["--help"]);
    assert_eq!(ran.status, 0);
    for part in ["devices", "profile", "compare", "Examples:", "Exit status:"] {
        assert!(ran.stdout.contains(part), "{part} is not in\n{}", ran.stdout);
    }
}

#[test]
fn a_first_case_goes_to_a_file() {
    let path = temporary("first.toml");
    let ran = cooprun(&["case", SIMPLE, "-o", path.to_str().unwrap()]);
    assert_eq!((ran.status, ran.stdout.as_str(), ran.stderr.as_str()), (0, "", ""));
    coop_exec::Case::load(&path).unwrap();
}

#[test]
fn a_kernel_runs_and_is_right() {
    let Some(ran) = cooprun_on(Driver::Lavapipe, &["run", SIMPLE, "--case", SIMPLE_CASE]) else { return };
    assert_eq!(ran.status, 0, "{}{}", ran.stdout, ran.stderr);
    assert!(ran.stdout.contains("buffer C: as expected"), "{}", ran.stdout);
}

#[test]
fn json_holds_times_and_buffers_are_kept() {
    let folder = temporary("dump");
    let folder = folder.to_str().unwrap();
    let arguments = &["run", SIMPLE, "--case", SIMPLE_CASE, "--json", "--bench", "3", "--dump-dir", folder];
    let Some(ran) = cooprun_on(Driver::Lavapipe, arguments) else { return };
    assert_eq!(ran.status, 0, "{}{}", ran.stdout, ran.stderr);
    let json: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(json["ok"], true);
    assert_eq!(json["validated"], true);
    assert_eq!(json["bench"]["times_ns"].as_array().unwrap().len(), 3);
    assert!(json["bench"]["tflops"].as_f64().unwrap() > 0.0);
    let size = std::fs::metadata(Path::new(folder).join("C.bin")).unwrap().len();
    assert_eq!(json["buffers"][2]["bytes"], size);
}

#[test]
fn a_difference_is_1_and_is_shown() {
    let text = std::fs::read_to_string(repository().join(SIMPLE_CASE)).unwrap();
    let path = temporary("wrong.toml");
    std::fs::write(&path, text.replace("\nk = 32", "\nk = 31")).unwrap();
    let Some(ran) = cooprun_on(Driver::Lavapipe, &["run", SIMPLE, "--case", path.to_str().unwrap()]) else { return };
    assert_eq!(ran.status, 1, "{}{}", ran.stdout, ran.stderr);
    assert!(ran.stdout.contains("elements differ") && ran.stdout.contains("row 0, column 0"), "{}", ran.stdout);
}

#[test]
fn modules_are_compared() {
    let optimised = "testdata/kernels/gemm_simple.opt.spv";
    let Some(ran) = cooprun_on(Driver::Lavapipe, &["compare", SIMPLE, optimised, "--case", SIMPLE_CASE]) else {
        return;
    };
    assert_eq!(ran.status, 0, "{}{}", ran.stdout, ran.stderr);
    assert!(ran.stdout.starts_with("all 3 buffers agree"), "{}", ran.stdout);
    // The same bindings and push constants, but what it multiplies has another type.
    let other = "testdata/kernels/crosstype_i8.spv";
    let Some(ran) = cooprun_on(Driver::Lavapipe, &["compare", SIMPLE, other, "--case", SIMPLE_CASE]) else { return };
    assert_eq!(ran.status, 1, "{}{}", ran.stdout, ran.stderr);
    assert!(ran.stdout.contains("buffer C: "), "{}", ran.stdout);
}

#[test]
fn what_a_device_lacks_is_2() {
    let Some(ran) = cooprun_on(Driver::Debian12, &["run", SIMPLE, "--case", SIMPLE_CASE]) else { return };
    assert_eq!(ran.status, 2, "{}{}", ran.stdout, ran.stderr);
    assert!(ran.stderr.contains("CooperativeMatrixKHR needs feature cooperativeMatrix"), "{}", ran.stderr);
}

#[test]
fn devices_and_profiles() {
    let Some(ran) = cooprun_on(Driver::Lavapipe, &["devices"]) else { return };
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert!(ran.stdout.starts_with("0: llvmpipe") && ran.stdout.contains("8x8x8"), "{}", ran.stdout);
    for (driver, has_matrices) in [(Driver::Lavapipe, true), (Driver::Debian12, false)] {
        let Some(ran) = cooprun_on(driver, &["profile", "--device", "llvmpipe", "--name", "here"]) else { return };
        let profile = Profile::from_json(&ran.stdout).unwrap();
        assert_eq!((profile.name.as_str(), profile.has(Feature::CooperativeMatrix)), ("here", has_matrices));
        assert_eq!(profile.to_json().trim_end(), ran.stdout.trim_end());
    }
    let Some(ran) = cooprun_on(Driver::Lavapipe, &["profile", "--device", "voodoo"]) else { return };
    assert_eq!(ran.status, 2);
    assert!(ran.stderr.contains("no device matches 'voodoo'; there are: 0 'llvmpipe"), "{}", ran.stderr);
}

#[test]
fn maintenance1_in_other_words() {
    let as_nv2 = &["profile", "--spell-as", "nv2"];
    let Some(ran) = cooprun_on(Driver::Lavapipe, as_nv2) else { return };
    let profile = Profile::from_json(&ran.stdout).unwrap();
    assert!(profile.has_extension("VK_EXT_cooperative_matrix_maintenance1"), "{}", ran.stdout);
    assert!(
        profile.has(Feature::CooperativeMatrixReductionsExt) && !profile.has(Feature::CooperativeMatrixProperties2)
    );
    let Some(ran) = cooprun_on(Driver::Debian12, as_nv2) else { return };
    assert_eq!(ran.status, 2);
    assert!(ran.stderr.contains("nothing of SPV_NV_cooperative_matrix2"), "{}", ran.stderr);
    // Lowered for such a device, this one has it find the coordinates.
    let (module, case) = ("testdata/passes/coordinates.spvasm", "testdata/passes/coordinates.toml");
    let (device, lowered) = (temporary("with-maintenance1.json"), temporary("maintenance1.spv"));
    std::fs::write(&device, profile.to_json()).unwrap();
    let [device, lowered] = [&device, &lowered].map(|path| path.to_str().unwrap());
    let arguments =
        ["verify", module, "--case", case, "--target", "ext", "--profile", device, "--on", "interp", "-o", lowered];
    let ran = cooprun(&arguments);
    assert_eq!(ran.status, 0, "{}{}", ran.stdout, ran.stderr);
    let arguments = ["run", lowered, "--case", case];
    let Some(ran) = cooprun_on(Driver::Lavapipe, &arguments) else { return };
    assert!(ran.status == 2 && ran.stderr.contains("maintenance1"), "{}{}", ran.stdout, ran.stderr);
    let arguments = ["run", lowered, "--case", case, "--spell-as", "nv2", "--on", "both"];
    let Some(ran) = cooprun_on(Driver::Lavapipe, &arguments) else { return };
    assert!(ran.status == 0 && ran.stdout.contains("agrees with"), "{}{}", ran.stdout, ran.stderr);
}

#[test]
fn lowered_modules_are_verified() {
    let arguments = ["verify", SIMPLE, "--target", "scalar", "--case", SIMPLE_CASE].as_slice();
    let Some(ran) = cooprun_on(Driver::Lavapipe, arguments) else { return };
    assert_eq!(ran.status, 0, "{}{}", ran.stdout, ran.stderr);
    assert!(ran.stdout.contains("agrees with the expectation and the original"), "{}", ran.stdout);

    // As `scripts/try.sh` does: with the subgroup size nothing is assumed.
    assert!(ran.stderr.contains("[subgroup-size-assumed]"), "{}", ran.stderr);
    let said = [arguments, &["--subgroup-size", "8"][..]].concat();
    let Some(ran) = cooprun_on(Driver::Lavapipe, &said) else { return };
    assert_eq!((ran.status, ran.stderr.as_str()), (0, ""), "{}", ran.stdout);

    // Where the original can't run, what the case expects is all there is.
    let lowered = temporary("lowered.spv");
    let keep = &["verify", SIMPLE, "--case", SIMPLE_CASE, "--json", "-o", lowered.to_str().unwrap()];
    let Some(ran) = cooprun_on(Driver::Debian12, keep) else { return };
    assert_eq!(ran.status, 0, "{}{}", ran.stdout, ran.stderr);
    let json: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(json["compared_with"], serde_json::json!(["expectation"]));
    assert_eq!(json["report"]["target"], "scalar");
    assert!(json["not_compared"].as_str().unwrap().contains("cooperativeMatrix"));

    let compare = &["compare", SIMPLE, lowered.to_str().unwrap(), "--case", SIMPLE_CASE];
    let Some(ran) = cooprun_on(Driver::Lavapipe, compare) else { return };
    assert_eq!(ran.status, 0, "{}{}", ran.stdout, ran.stderr);
}

/// The features that a device lacks are named, or are those of the device that runs the module.
#[test]
fn component_types_become_software() {
    let lowered = temporary("software.spv");
    let local = [
        "verify",
        SIMPLE,
        "--case",
        SIMPLE_CASE,
        "--target",
        "scalar",
        "--lanes",
        "local-index",
        "--subgroup-size",
        "8",
    ];
    let without = ["--without", "shaderFloat16,storageBuffer16BitAccess", "--on", "interp", "--json", "-o"];
    let ran = cooprun(&[&local[..], &without, &[lowered.to_str().unwrap()]].concat());
    assert_eq!(ran.status, 0, "{}{}", ran.stdout, ran.stderr);
    let json: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(json["compared_with"], serde_json::json!(["expectation", "original"]));
    let module = coop_ir::binary::read(&std::fs::read(&lowered).unwrap()).unwrap();
    assert!(!module.enables(coop_ir::spv::Capability::Float16));
    let Some(ran) = cooprun_on(Driver::SwiftShader, &local) else { return };
    assert_eq!(ran.status, 0, "{}{}", ran.stdout, ran.stderr);
    assert!(ran.stdout.contains("agrees with the expectation on SwiftShader"), "{}", ran.stdout);
}

#[test]
fn nothing_to_compare_with_is_2() {
    let text = std::fs::read_to_string(repository().join(SIMPLE_CASE)).unwrap();
    let (inputs, rest) = text.split_once("[[expect]]").unwrap();
    let variants = &rest[rest.find("[variant").unwrap()..];
    let path = temporary("expects-nothing.toml");
    std::fs::write(&path, format!("{inputs}{variants}")).unwrap();
    let arguments = &["verify", SIMPLE, "--case", path.to_str().unwrap()];
    let Some(ran) = cooprun_on(Driver::Debian12, arguments) else { return };
    assert_eq!(ran.status, 2, "{}{}", ran.stdout, ran.stderr);
    assert!(ran.stderr.contains("does not run here and the case expects nothing"), "{}", ran.stderr);
}

#[test]
fn what_can_not_be_lowered_is_3() {
    // Half a row is no size of a matrix.
    let arguments = &["verify", SIMPLE, "--case", SIMPLE_CASE, "--spec", "0=1.5", "--json"];
    let Some(ran) = cooprun_on(Driver::Lavapipe, arguments) else { return };
    assert_eq!(ran.status, 3, "{}{}", ran.stdout, ran.stderr);
    let json: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(json["error"]["kind"], "refused");
}
