//! `cooprun compile` on drivers of GPUs that are not there: what is printed, and how it ends.

use std::path::{Path, PathBuf};
use std::process::Command;

use coop_exec::testing::{Driver, repository};
use serde_json::Value;

struct Ran {
    status: i32,
    stdout: String,
    stderr: String,
}

/// Returns the result of `cooprun compile`; `None` where there is no driver, which is said aloud or is a failure.
fn compile_on(driver: Driver, arguments: &[&str]) -> Option<Ran> {
    let mut command = Command::new(driver.wrapper_or_skip(arguments)?);
    command.arg(env!("CARGO_BIN_EXE_cooprun")).arg("compile").args(arguments).current_dir(repository());
    Some(finish(command))
}

fn finish(mut command: Command) -> Ran {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    Ran {
        status: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

fn temporary(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

const BY_HAND: &str = "testdata/bench/matmul_khr_f16.spv";
/// Invocations, the tile of a workgroup, its slice of K, the tile of a subgroup, stages.
const SPEC: [&str; 14] = [
    "--spec", "0=256", "--spec", "1=64", "--spec", "2=64", "--spec", "3=32", "--spec", "4=32", "--spec", "5=32",
    "--spec", "6=1",
];
const NAVI31: Driver = Driver::Navi31;

fn with<'a>(modules: &[&'a str], more: &[&'a str]) -> Vec<&'a str> {
    [modules, &SPEC, &["--subgroup-size", "32", "--full-subgroups"], more].concat()
}

#[test]
fn wrong_usage_and_unreadable_input_are_2() {
    for arguments in [
        &["compile"][..],
        &["compile", BY_HAND, BY_HAND, BY_HAND],
        &["compile", "-", "-"],
        &["compile", "no-such-file.spv"],
        &["compile", "Cargo.toml"],
        &["compile", BY_HAND, "--case", "no-such-case.toml"],
        &["compile", BY_HAND, "--variant", "no-such-variant"],
        &["compile", BY_HAND, "--timeout", "0"],
        &["compile", BY_HAND, "--no-texts", "--dump-dir", "x"],
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cooprun"));
        command.args(arguments).current_dir(repository());
        let ran = finish(command);
        assert_eq!(ran.status, 2, "{arguments:?}: {}{}", ran.stdout, ran.stderr);
        assert!(ran.stderr.starts_with("error: ") && ran.stdout.is_empty(), "{arguments:?}: {}", ran.stderr);
    }
}

#[test]
fn one_module_on_navi31() {
    let Some(ran) = compile_on(NAVI31, &with(&[BY_HAND], &[])) else { return };
    assert_eq!(ran.status, 0, "{}{}", ran.stdout, ran.stderr);
    for part in [
        "RADV NAVI31",
        "matmul_khr_f16.spv\n",
        "time to compile, ms",
        "subgroups of 32",
        "  VGPRs  ",
        "  Spilled VGPRs  ",
        "  Subgroups per SIMD  ",
        "  Inverse Throughput  ",
        "instructions by kind\n",
        "  matrix  ",
    ] {
        assert!(ran.stdout.contains(part), "{part} is not in\n{}", ran.stdout);
    }
    assert!(!ran.stdout.contains("ratio"), "{}", ran.stdout);
}

/// The instructions by kind are all instructions that the compiler counts.
#[test]
fn counts_by_kind_add_up() {
    for (driver, name) in [(NAVI31, "Instructions"), (Driver::Gpu("nvk-ampere"), "Instruction count")] {
        let Some(ran) = compile_on(driver, &with(&[BY_HAND], &["--json"])) else { return };
        let json: Value = serde_json::from_str(&ran.stdout).unwrap_or_else(|e| panic!("{e}: {}", ran.stdout));
        assert_eq!((ran.status, &json["ok"]), (0, &Value::Bool(true)), "{}", ran.stderr);
        let one = &json["modules"][0];
        assert_eq!(one["module"], BY_HAND);
        let statistics = one["compiled"]["executables"][0]["statistics"].as_array().unwrap();
        let said = statistics.iter().find(|s| s["name"] == name).unwrap()["value"]["uint"].as_u64().unwrap();
        let kinds = one["instructions"][0].as_object().unwrap();
        assert!(kinds["matrix"].as_u64().unwrap() > 0, "{kinds:?}");
        assert_eq!(kinds.values().map(|n| n.as_u64().unwrap()).sum::<u64>(), said, "{driver:?}: {kinds:?}");
    }
}

/// Intel's compiler says registers and spills in its own words, and its listing has instructions for matrices.
#[test]
fn one_module_on_an_arc() {
    let Some(ran) = compile_on(Driver::Gpu("intel-xe2"), &with(&[BY_HAND], &[])) else { return };
    assert_eq!(ran.status, 0, "{}{}", ran.stdout, ran.stderr);
    for part in
        ["B580", "subgroups of 32", "  Max live registers  ", "  Spills  ", "instructions by kind\n", "  matrix  "]
    {
        assert!(ran.stdout.contains(part), "{part} is not in\n{}", ran.stdout);
    }
}

/// The library in the kernel's place takes memory and submissions, and executes nothing: buffers stay as they were.
#[test]
fn a_module_that_runs_on_an_arc_stores_nothing() {
    for gpu in ["intel-arc", "intel-xe2"] {
        let name = "testdata/drivers/gpu/spills-over-4-kib";
        let Some(wrapper) = Driver::Gpu(gpu).wrapper_or_skip(name) else { return };
        let mut command = Command::new(wrapper);
        command.arg(env!("CARGO_BIN_EXE_cooprun")).arg("run").arg(format!("{name}.spvasm"));
        command.arg("--case").arg(format!("{name}.toml")).current_dir(repository());
        let ran = finish(command);
        assert_eq!(ran.status, 1, "{gpu}: {}{}", ran.stdout, ran.stderr);
        assert!(ran.stdout.contains("30719 of 30720 elements differ"), "{gpu}: {}{}", ran.stdout, ran.stderr);
    }
}

#[test]
fn two_modules_have_ratios_and_texts_go_to_files() {
    let folder = temporary("compile-texts");
    let _ = std::fs::remove_dir_all(&folder);
    let other = "testdata/bench/matmul_khr_bf16.spv";
    let arguments = with(&[BY_HAND, "testdata/bench/matmul_khr_q4_0.spv"], &["--dump-dir", folder.to_str().unwrap()]);
    let Some(ran) = compile_on(NAVI31, &arguments) else { return };
    assert_eq!(ran.status, 0, "{}{}", ran.stdout, ran.stderr);
    let head = "matmul_khr_f16.spv  matmul_khr_q4_0.spv       ratio\n";
    assert!(ran.stdout.contains(head), "{}", ran.stdout);
    let names: Vec<String> =
        std::fs::read_dir(&folder).unwrap().map(|f| f.unwrap().file_name().into_string().unwrap()).collect();
    for name in ["0-matmul_khr_f16-0-Assembly.txt", "1-matmul_khr_q4_0-0-Assembly.txt"] {
        assert!(names.iter().any(|n| n == name), "{name} is not among {names:?}");
    }
    // One that the device lacks something for does not keep the other from being shown.
    let Some(ran) = compile_on(NAVI31, &with(&[BY_HAND, other], &[])) else { return };
    assert_eq!(ran.status, 2, "{}{}", ran.stdout, ran.stderr);
    assert!(ran.stderr.contains("matmul_khr_bf16.spv") && ran.stderr.contains("BFloat16"), "{}", ran.stderr);
    assert!(ran.stdout.contains("  VGPRs  "), "{}", ran.stdout);
}

#[test]
fn what_the_device_does_not_list_is_refused_unless_asked_for() {
    let arguments = ["testdata/kernels/gemm_simple.spv", "--case", "testdata/kernels/gemm_simple.toml"];
    let Some(ran) = compile_on(NAVI31, &arguments) else { return };
    assert_eq!((ran.status, ran.stdout.as_str()), (2, ""), "{}", ran.stderr);
    assert!(ran.stderr.contains("no f16 8x8 A") && ran.stderr.contains("--no-check"), "{}", ran.stderr);
    let Some(ran) = compile_on(NAVI31, &[&arguments[..], &["--no-check"]].concat()) else { return };
    assert_eq!(ran.status, 0, "{}{}", ran.stdout, ran.stderr);
}

/// The modules of `testdata/drivers/gpu`, each with a GPU whose driver does not make its pipeline, and what it does.
const NOT_MADE: [(&str, &str, &str); 11] = [
    ("length-in-constant", "amd-navi31", "crashed"),
    ("length-in-constant", "nvk-ampere", "refused"),
    ("length-in-constant", "intel-xe2", "refused"),
    ("wide-stride", "nvk-turing", "refused"),
    ("wide-stride", "nvk-ampere", "refused"),
    ("struct-of-matrices", "intel-xe2", "crashed"),
    ("struct-of-matrices", "intel-arc", "crashed"),
    ("struct-initializer", "intel-xe2", "crashed"),
    ("struct-initializer", "intel-arc", "crashed"),
    ("spills-over-4-kib", "apple-m1", "crashed"),
    ("pack-64", "apple-m1", "crashed"),
];

/// Compilers that crash are told from those that refuse. One that does neither any more is to be taken off docs/drivers.md.
#[test]
fn compilers_fail_as_the_page_says() {
    for (name, gpu, kind) in NOT_MADE {
        let module = format!("testdata/drivers/gpu/{name}.spvasm");
        let arguments = [module.as_str(), "--no-check"];
        let Some(ran) = compile_on(Driver::Gpu(gpu), &[&arguments[..], &["--json"]].concat()) else { return };
        let json: Value = serde_json::from_str(&ran.stdout).unwrap_or_else(|e| panic!("{e}: {}", ran.stdout));
        assert_eq!((ran.status, json["modules"][0]["error"]["kind"].as_str()), (1, Some(kind)), "{gpu}: {json}");
        let Some(ran) = compile_on(Driver::Gpu(gpu), &arguments) else { return };
        assert!(ran.stderr.contains(&format!("error: {name}.spvasm: ")), "{}", ran.stderr);
    }
}

/// The same of SwiftShader, which is there where it was fetched.
#[test]
fn swiftshader_fails_as_the_page_says() {
    let page = std::fs::read_to_string(repository().join("docs/drivers.md")).unwrap();
    for name in ["pointer-bitcast", "insert-into-null"] {
        let module = format!("testdata/drivers/swiftshader/{name}.spvasm");
        assert!(page.contains(&format!("scripts/drivers.sh run --swiftshader cooprun compile {module}")));
        let Some(ran) = compile_on(Driver::SwiftShader, &[&module, "--json"]) else { return };
        let json: Value = serde_json::from_str(&ran.stdout).unwrap_or_else(|e| panic!("{e}: {}", ran.stdout));
        assert_eq!((ran.status, json["modules"][0]["error"]["kind"].as_str()), (1, Some("crashed")), "{json}");
    }
}

#[test]
fn the_page_has_the_modules_of_gpus() {
    let page = std::fs::read_to_string(repository().join("docs/drivers.md")).unwrap();
    let files = std::fs::read_dir(repository().join("testdata/drivers/gpu")).unwrap();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    let names: Vec<String> = names.filter_map(|name| name.strip_suffix(".spvasm").map(str::to_owned)).collect();
    assert!(names.iter().all(|name| NOT_MADE.iter().any(|(known, ..)| known == name)), "{names:?}");
    for (name, gpu, _) in NOT_MADE {
        assert!(names.iter().any(|known| known == name), "{name}");
        let command = format!("scripts/drivers.sh run --gpu {gpu} cooprun compile testdata/drivers/gpu/{name}.spvasm");
        assert!(page.contains(&command), "{command}");
    }
}

#[test]
fn a_driver_without_statistics_says_the_time() {
    let arguments = ["testdata/kernels/gemm_simple.spv", "--case", "testdata/kernels/gemm_simple.toml"];
    let Some(ran) = compile_on(Driver::Lavapipe, &arguments) else { return };
    assert_eq!(ran.status, 0, "{}{}", ran.stdout, ran.stderr);
    assert!(ran.stdout.contains("time to compile, ms"), "{}", ran.stdout);
    assert!(ran.stdout.contains("lacks VK_KHR_pipeline_executable_properties"), "{}", ran.stdout);
}
