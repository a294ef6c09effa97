//! `cooprun prove --cover`: cases are found in which more blocks are executed, and what is left has a reason.

use std::process::Command;

fn cooprun(args: &[&str]) -> (Option<i32>, String) {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../testdata/kernels/");
    let out = Command::new(env!("CARGO_BIN_EXE_cooprun")).current_dir(folder).args(args).output().expect("it runs");
    let text = String::from_utf8_lossy(&[out.stdout, out.stderr].concat()).into_owned();
    (out.status.code(), text)
}

#[test]
fn more_cases_execute_more_blocks() {
    let prove =
        ["prove", "functions.spv", "--case", "functions.toml", "--target", "scalar", "--profile", "mesa-lavapipe"];
    let (status, plain) = cooprun(&prove);
    assert_eq!(status, Some(0), "{plain}");
    assert!(plain.contains("24 of 30 blocks executed"), "{plain}");
    let (status, covered) = cooprun(&[&prove[..], &["--cover"]].concat());
    assert_eq!(status, Some(0), "{covered}");
    assert!(covered.contains("more: proved"), "{covered}");
    let (status, json) = cooprun(&[&prove[..], &["--cover", "--json"]].concat());
    let json: serde_json::Value = serde_json::from_str(&json).unwrap_or_else(|error| panic!("{error}: {json}"));
    let left = json["cover"]["left"].as_array().expect("a list");
    assert!(left.len() < 6, "{left:?}");
    assert!(json["cover"]["tried"].as_u64().is_some_and(|n| n > 0), "{json}");
    assert_eq!(status, Some(0));
}

#[test]
fn what_is_executed_needs_no_more_cases() {
    let (status, text) = cooprun(&[
        "prove",
        "gemm_simple.spv",
        "--case",
        "gemm_simple.toml",
        "--target",
        "khr",
        "--profile",
        "mesa-lavapipe",
        "--cover",
    ]);
    assert_eq!(status, Some(0), "{text}");
    assert!(text.contains("of the original 0 blocks, 0 ways of branches and the third rounds of 0 loops"), "{text}");
}
