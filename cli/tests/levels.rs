//! One module of ncnn's for every device: compiled with every component type, lowered for the devices of ncnn's levels, and compared
//! with what ncnn compiles for each (`scripts/ncnn-levels.py` has all of them).

use coop_exec::testing::{Driver, repository};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns true if ncnn's source is there, which `scripts/engines.sh fetch` fetches: said aloud if not, and a failure if
/// `COOP_REQUIRE_ENGINES` is 1.
fn has_source() -> bool {
    let cache = std::env::var_os("COOP_CACHE").map_or_else(|| repository().join(".cache"), PathBuf::from);
    let folders = std::fs::read_dir(cache.join("ncnn-source")).into_iter().flatten().flatten();
    if folders.into_iter().any(|folder| folder.path().join("src").is_dir()) {
        return true;
    }
    let why = "no source of ncnn: run scripts/engines.sh fetch first";
    assert!(std::env::var_os("COOP_REQUIRE_ENGINES").is_none_or(|value| value != "1"), "{why}");
    let _ = writeln!(std::io::stderr(), "SKIPPED, {why}");
    false
}

/// On lavapipe both, and on SwiftShader what is lowered.
#[test]
fn some_shaders_of_ncnn_give_what_its_own_for_a_level_give() {
    let drivers = [Driver::Lavapipe, Driver::SwiftShader].map(|d| d.wrapper_or_skip("levels"));
    if drivers.iter().any(Option::is_none) || !has_source() {
        return;
    }
    let tools = Path::new(env!("CARGO_BIN_EXE_cooplower")).parent().expect("a folder");
    let output = Command::new("python3")
        .arg(repository().join("scripts/ncnn-levels.py"))
        .arg("--tools")
        .arg(tools)
        .args(["--level", "fp16 packed", "--level", "fp16 packed, with f16", "--level", "int8 packed"])
        .args(["check", "gemm_int8", "convolution_gemm_cm"])
        .output()
        .unwrap_or_else(|error| panic!("python3: {error}"));
    let (said, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}{errors}");
    let equal = said.lines().filter(|line| line.contains("| yes | equal |") && line.ends_with("| equal |"));
    assert_eq!(equal.count(), 3, "{said}");
}
