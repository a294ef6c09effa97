//! Generated kernels on OpenCL devices.

use std::process::Command;

use coop_exec::testing::{Driver, repository};

/// Generated kernels: scalar code on pocl, with one subgroup to a workgroup and with several, in their own lanes and by place.
#[test]
fn generated_kernels_run_on_pocl() {
    let keep = concat!(env!("CARGO_TARGET_TMPDIR"), "/kernels-found");
    let on = ["campaign", "--dialect", "kernel", "--on", "interp,opencl", "--keep", keep, "--shrink", "0"];
    let which = ["--count", "24", "--bytes", "60", "--placements", "1", "--target", "scalar"];
    let arguments = [&on[..], &which].concat();
    let Some(wrapper) = Driver::Pocl.wrapper_or_skip(&arguments) else { return };
    let mut command = Command::new(wrapper);
    command.arg(env!("CARGO_BIN_EXE_cooplab")).args(arguments).current_dir(repository());
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{text}");
    let line = text.lines().find(|line| line.starts_with("kernel ") && line.contains(" scalar opencl "));
    let words: Vec<&str> = line.unwrap_or_else(|| panic!("{text}")).split_whitespace().collect();
    // Modules, lowered, refused, run, alike, troubles.
    assert_eq!(words, ["kernel", "scalar", "opencl", "24", "22", "2", "22", "22", "0"], "{text}");
    // They look at elements of factors, which scalar code holds once in the lanes of a subgroup.
    assert!(text.contains(" 2  kernel: scalar: refused-lanes"), "{text}");
}
