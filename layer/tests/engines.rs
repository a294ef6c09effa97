//! Engines, unmodified, through the layer: ggml's products against ggml on the CPU by ggml's own bound, the tokens that small models of
//! llama.cpp generate, IREE's products against numpy, ncnn's layers against its CPU, Dawn's against JavaScript (`scripts/engines.sh` has more).

mod support;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use coop_exec::testing::{Driver, repository};

/// The folder of an engine, which `scripts/engines.sh fetch` fetches. `None` where it is not there: said aloud, and a failure if
/// `COOP_REQUIRE_ENGINES` is 1.
fn engine(name: &str) -> Option<PathBuf> {
    let cache = std::env::var_os("COOP_CACHE").map_or_else(|| repository().join(".cache"), PathBuf::from);
    let folder = cache.join(name);
    if folder.join("STAMP").is_file() {
        return Some(folder);
    }
    let why = format!("no {name} in {}: run scripts/engines.sh fetch first", folder.display());
    assert!(std::env::var_os("COOP_REQUIRE_ENGINES").is_none_or(|value| value != "1"), "{why}");
    let _ = writeln!(std::io::stderr(), "SKIPPED, {why}");
    None
}

/// The program that runs a case of ggml's operations.
const OPERATIONS: &str = "scripts/engines.py";

/// The program that runs a model with llama.cpp.
const TOKENS: &str = "scripts/llama-tokens.py";

/// Runs one case of a program with the layer on a driver: it is right, and a pipeline was lowered for it.
fn run(program: &str, driver: Driver, name: &str, case: &str, settings: &str) {
    let (Some(libraries), Some(wrapper)) = (engine("ggml"), driver.wrapper_or_skip(name)) else { return };
    let (manifest, log) = (support::manifest(), Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("engines-{name}")));
    let layer = format!(
        "layer=env COOP_LAYER_PATH={} VK_INSTANCE_LAYERS=VK_LAYER_COOPMAT_fallback COOPMAT_LOG=info {settings} {}",
        manifest.display(),
        wrapper.display()
    );
    let output = Command::new("python3")
        .arg(repository().join(program))
        .arg("table")
        .arg(libraries)
        .args(["--only", case, "--log"])
        .arg(&log)
        .arg(layer)
        .output()
        .unwrap_or_else(|error| panic!("python3: {error}"));
    let (said, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let log = PathBuf::from(format!("{}.0.layer", log.display()));
    let log =
        std::fs::read_to_string(&log).unwrap_or_else(|error| panic!("{}: {error}\n{said}\n{errors}", log.display()));
    assert!(output.status.success(), "{said}\n{errors}\n{log}");
    assert!(said.contains("| all | 1, 0, 0, 0, 0, 0 |"), "one case is right: {said}");
    assert!(log.contains(": lowered to "), "ggml used no matrices: {log}");
}

/// Behind these products lavapipe ended in an attention: it uses buffers that ggml's backend replaces (docs/drivers.md), so each case has
/// another backend.
#[test]
#[ignore = "scripts/test.sh long runs it: lavapipe compiles for minutes"]
fn cases_of_ggml_with_subgroup_matrices_share_a_process() {
    let (Some(libraries), Some(wrapper)) = (engine("ggml"), Driver::Debian12.wrapper_or_skip("share")) else { return };
    let cases = [
        r#"{"op": "MUL_MAT_ID", "quick": true, "type": "f16", "m": 64, "n": 32, "k": 256, "experts": 4, "used": 2}"#,
        r#"{"op": "MUL_MAT", "quick": true, "type": "f16", "m": 129, "n": 9, "k": 33}"#,
        r#"{"op": "MUL_MAT", "quick": true, "type": "f16", "m": 64, "n": 45, "k": 128, "view": 64}"#,
        r#"{"op": "MUL_MAT", "quick": true, "type": "f16", "m": 64, "n": 45, "k": 128, "permute": true, "batch": [3, 1]}"#,
        r#"{"op": "FLASH_ATTN_EXT", "quick": true, "type": "f16", "hsk": 64, "heads": 4, "kv": 128, "nb": 35}"#,
    ];
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("share.jsonl");
    std::fs::write(&file, cases.join("\n")).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let input = std::fs::File::open(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let python = Command::new("python3").args(["-c", "import sys; print(sys.executable)"]).output();
    let python = python.unwrap_or_else(|error| panic!("python3: {error}")).stdout;
    let output = Command::new(wrapper)
        .env("COOP_LAYER_PATH", support::manifest())
        .envs([("VK_INSTANCE_LAYERS", "VK_LAYER_COOPMAT_fallback"), ("COOPMAT_EXTENSIONS", "khr")])
        .arg(String::from_utf8_lossy(&python).trim())
        .arg(repository().join(OPERATIONS))
        .arg("worker")
        .arg(libraries)
        .stdin(input)
        .output()
        .unwrap_or_else(|error| panic!("python3: {error}"));
    let (said, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}: {said}\n{errors}", output.status);
    assert_eq!(said.matches(r#""verdict": "right""#).count(), cases.len(), "{said}\n{errors}");
}

#[test]
fn ggml_multiplies_on_a_device_without_matrices() {
    run(OPERATIONS, Driver::Debian12, "debian12", "MUL_MAT f16 m=64 n=32 k=256", "");
}

#[test]
fn ggml_multiplies_quantised_weights_with_subgroup_matrices() {
    run(OPERATIONS, Driver::Debian12, "khr", "MUL_MAT q8_0 m=33 n=67 k=512", "COOPMAT_EXTENSIONS=khr");
}

#[test]
fn ggml_multiplies_with_workgroup_matrices_on_small_ones() {
    run(OPERATIONS, Driver::Lavapipe, "lavapipe", "MUL_MAT f16 m=64 n=32 k=256", "");
}

#[test]
#[ignore = "scripts/test.sh long runs it: lavapipe compiles for a minute"]
fn llama_generates_tokens_on_a_device_without_matrices() {
    run(TOKENS, Driver::Debian12, "tokens-debian12", "dense f16 attention=flash kv=2", "");
}

#[test]
#[ignore = "scripts/test.sh long runs it: lavapipe compiles for minutes"]
fn llama_generates_tokens_with_experts_on_a_device_without_matrices() {
    let case = "experts q4_0 attention=plain kv=2 experts=4 used=2";
    run(TOKENS, Driver::Debian12, "tokens-experts", case, "");
}

#[test]
#[ignore = "scripts/test.sh long runs it: lavapipe compiles for a minute"]
fn llama_generates_tokens_with_workgroup_matrices_on_small_ones() {
    run(TOKENS, Driver::Lavapipe, "tokens-lavapipe", "dense q4_0 attention=flash kv=2", "");
}

/// A product compiled for the matrices of RDNA 3, whose module declares the memory model GLSL450.
#[test]
fn iree_multiplies_on_a_device_without_matrices() {
    let (Some(packages), Some(wrapper)) = (engine("iree"), Driver::Debian12.wrapper_or_skip("iree")) else { return };
    let layer = format!(
        "layer=env COOP_LAYER_PATH={} VK_INSTANCE_LAYERS=VK_LAYER_COOPMAT_fallback COOPMAT_CACHE_MB=0 {}",
        support::manifest().display(),
        wrapper.display()
    );
    let output = Command::new("python3")
        .env("PYTHONPATH", packages)
        .arg(repository().join("scripts/iree-matmul.py"))
        .args(["--only", "rdna3 i8 to i32 m=32", &layer])
        .output()
        .unwrap_or_else(|error| panic!("python3: {error}"));
    let (said, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}\n{errors}");
    assert!(said.contains("| layer | 1 | 0 | 0 | 0 | 0 | 0 | 1 |"), "one case is right, by a lowered pipeline: {said}");
}

/// A convolution and a product of ncnn's, with 16x16x16 matrices of the layer's, against its CPU.
#[test]
fn ncnn_multiplies_on_a_device_without_matrices() {
    let (Some(package), Some(wrapper)) = (engine("ncnn"), Driver::Debian12.wrapper_or_skip("ncnn")) else { return };
    // A version manager's python3 is a script, which has no libraries to be started with.
    let said = Command::new("python3").args(["-c", "import sys; print(sys.executable)"]).output();
    let python = String::from_utf8(said.unwrap_or_else(|error| panic!("python3: {error}")).stdout).unwrap();
    for case in ["Convolution 16 to 32", "Gemm 33x48x96"] {
        let output = Command::new(&wrapper)
            .env("COOP_LAYER_PATH", support::manifest())
            .env("PYTHONPATH", &package)
            .envs([("VK_INSTANCE_LAYERS", "VK_LAYER_COOPMAT_fallback"), ("COOPMAT_LOG", "info")])
            .env("COOPMAT_CACHE_MB", "0")
            .arg(python.trim())
            .arg(repository().join("scripts/ncnn-layers.py"))
            .arg(case)
            .output()
            .unwrap_or_else(|error| panic!("{}: {error}", wrapper.display()));
        let (said, log) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success() && said.contains(r#"{"right": 1, "wrong": 0}"#), "{case}: {said}\n{log}");
        assert!(log.contains(": lowered to Scalar"), "{case}: ncnn used no matrices: {log}");
    }
}

/// Every configuration of subgroup matrices that the layer lists. Dawn takes no device of Debian 12's driver.
#[test]
fn dawn_multiplies_where_the_drivers_own_matrices_are_hidden() {
    let (Some(package), Some(wrapper)) = (engine("dawn"), Driver::Lavapipe.wrapper_or_skip("dawn")) else { return };
    let output = Command::new(wrapper)
        .env("COOP_LAYER_PATH", support::manifest())
        .envs([("VK_INSTANCE_LAYERS", "VK_LAYER_COOPMAT_fallback"), ("COOPMAT_HIDE", "VK_KHR_cooperative_matrix")])
        .envs([("COOPMAT_LOG", "info"), ("COOPMAT_CACHE_MB", "0")])
        .arg("node")
        .arg(repository().join("scripts/dawn-matmul.mjs"))
        .arg(package)
        .output()
        .unwrap_or_else(|error| panic!("node: {error}"));
    let (said, log) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && said.contains(r#"{"right":8,"wrong":0,"refused":0}"#), "{said}\n{log}");
    assert_eq!(log.matches(": lowered to Scalar").count(), 8, "{log}");
}
