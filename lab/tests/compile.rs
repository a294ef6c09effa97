//! `cooplab compile` on drivers of GPUs that are not there: a small part of the corpus on one GPU of each driver.

use std::path::Path;
use std::process::{Command, Output};

use coop_exec::testing::{Driver, gpus, repository};

/// One GPU of each driver, with matrices where a GPU of the driver has them.
const GPUS: [&str; 5] = ["amd-navi31", "nvk-ampere", "adreno-740", "apple-m1", "intel-xe2"];

fn cooplab(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cooplab"));
    command.args(arguments).current_dir(repository());
    command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

fn compile(arguments: &[&str]) -> Output {
    cooplab(&[&["compile"], arguments].concat())
}

/// Returns the rows of the table, each with its cells.
fn rows(output: &Output) -> Vec<Vec<String>> {
    let text = String::from_utf8_lossy(&output.stdout);
    let lines = text.lines().skip(2).take_while(|line| line.starts_with('|'));
    lines.map(|line| line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect()).collect()
}

#[test]
fn the_gpus_are_among_those_of_the_script() {
    let known = gpus().expect("the script runs");
    assert!(GPUS.iter().all(|name| known.iter().any(|gpu| gpu == name)), "{known:?}");
}

#[test]
fn wrong_usage_is_2() {
    for (arguments, why) in [
        (&["compile", "--gpu", "no-such-gpu", "--part", "bench"][..], "there is no 'no-such-gpu'"),
        (&["compile", "--gpu", "amd-navi31", "--target", "metal"], "there is no 'metal'"),
        (&["compile", "--part", "bench", "--only", "no such module"], "there is no such module"),
        (&["compile", "--worker", "{}"], "--worker"),
        (&["code", "--gpu", "no-such-gpu"], "there is no 'no-such-gpu'"),
        (&["code", "--target", "auto"], "there is no 'auto'"),
        (&["code", "--engine", "no/such/folder"], "no/such/folder is not a folder"),
    ] {
        let output = cooplab(arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains(why), "{arguments:?}: {said}");
    }
}

/// Every kernel is given to the compilers as it is or lowered, and what is given is compiled.
#[test]
fn kernels_compile_on_every_driver() {
    if GPUS.iter().any(|gpu| Driver::Gpu(gpu).wrapper_or_skip("kernels").is_none()) {
        return;
    }
    let output = compile(&[
        "--gpu",
        &GPUS.join(","),
        "--part",
        "testdata",
        "--only",
        "kernels/gemm",
        "--every",
        "2",
        "--jobs",
        "2",
    ]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{}{said}", String::from_utf8_lossy(&output.stdout));
    let rows = rows(&output);
    assert_eq!(rows.len(), GPUS.len() * 3, "{rows:?}");
    for row in &rows {
        let made = |at: usize| row[at].parse::<u64>().unwrap_or(0);
        // Two of the GPUs have no matrices.
        let least = if row[1] == "khr" && ["adreno-740", "apple-m1"].contains(&row[0].as_str()) { 0 } else { 5 };
        assert!(made(2) + made(3) >= least, "{row:?}");
    }
}

/// A process takes a batch of generated modules. What ends it is the end of one attempt: the others are made by the next ones.
#[test]
fn generated_modules_are_compiled_in_batches() {
    if Driver::Gpu("amd-navi31").wrapper_or_skip("generated modules").is_none() {
        return;
    }
    let run = |more: &[&str]| {
        let modules = ["--gpu", "amd-navi31", "--part", "bench", "--only", "generated/", "--generated", "2"];
        let output = compile(&[&modules[..], &["--target", "scalar,khr"], more].concat());
        let rows = rows(&output);
        assert_eq!(rows.len(), 2, "{rows:?}{}", String::from_utf8_lossy(&output.stderr));
        let counts = |row: &Vec<String>| row[2..9].iter().map(|cell| cell.parse().unwrap_or(0)).collect::<Vec<u32>>();
        (output.status.code(), rows.iter().map(counts).collect::<Vec<_>>())
    };
    let (status, counts) = run(&[]);
    assert_eq!(status, Some(0), "{counts:?}");
    // Two of each of seven dialects: made or refused by us.
    for row in &counts {
        assert_eq!(row[..3].iter().sum::<u32>(), 14, "{counts:?}");
    }
    assert!(counts[1][1] > 10, "scalar: {counts:?}");
    // A process of this driver has more than 64 MiB as soon as it compiles: it ends in an attempt, and the next one goes on behind that.
    let (status, limited) = run(&["--memory", "64"]);
    assert_eq!(status, Some(1), "{limited:?}");
    for row in &limited {
        let [native, lowered, refused, by_driver, crashed, over, ours] = row[..] else { panic!("{row:?}") };
        assert_eq!(native + lowered + refused + over, 14, "{limited:?}");
        assert_eq!((by_driver, crashed, ours), (0, 0, 0), "{limited:?}");
        assert!(over > 1, "{limited:?}");
    }
}

/// Drivers end at the length of a matrix in a constant (cli/tests/compile.rs has that), and take what it is lowered to.
#[test]
fn a_length_in_a_constant_is_lowered() {
    let gpus = ["amd-navi31", "nvk-ampere", "nvk-turing"];
    if gpus.iter().any(|gpu| Driver::Gpu(gpu).wrapper_or_skip("a length in a constant").is_none()) {
        return;
    }
    let (gpus, name) = (gpus.join(","), "drivers/gpu/length-in-constant");
    let output = compile(&["--gpu", &gpus, "--part", "testdata", "--only", name, "--target", "auto"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{text}{}", String::from_utf8_lossy(&output.stderr));
    for row in rows(&output) {
        assert_eq!((row[2].as_str(), row[3].as_str()), ("", "1"), "{row:?}");
    }
}

/// NVK refuses matrices whose strides have 64 bits (cli/tests/compile.rs has that), and takes what they are lowered to.
#[test]
fn a_wide_stride_is_lowered() {
    let gpus = ["nvk-ampere", "nvk-turing"];
    if gpus.iter().any(|gpu| Driver::Gpu(gpu).wrapper_or_skip("a wide stride").is_none()) {
        return;
    }
    let name = "drivers/gpu/wide-stride";
    let output = compile(&["--gpu", &gpus.join(","), "--part", "testdata", "--only", name, "--target", "auto,khr"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{text}{}", String::from_utf8_lossy(&output.stderr));
    for row in rows(&output) {
        assert_eq!((row[2].as_str(), row[3].as_str()), ("", "1"), "{row:?}");
    }
}

/// Intel's driver refuses code that spills too much: what is best for the A770 is code without matrices, for subgroups of a size that the driver chooses.
#[test]
fn the_best_for_an_arc_is_compiled() {
    if Driver::Gpu("intel-arc").wrapper_or_skip("products").is_none() {
        return;
    }
    let names = ["--only", "bench/matmul q4_0 khr", "--only", "bench/flash attention 64 nv2"];
    let output = compile(&[&["--gpu", "intel-arc", "--part", "bench", "--target", "auto"][..], &names].concat());
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{text}{}", String::from_utf8_lossy(&output.stderr));
    for row in rows(&output) {
        assert_eq!((row[2].as_str(), row[3].as_str()), ("", "3"), "{row:?}");
    }
}

/// Modules that a driver makes no pipeline of are told apart and kept.
#[test]
fn crashes_and_refusals_are_told_apart_and_kept() {
    if ["apple-m1", "nvk-kepler"].iter().any(|gpu| Driver::Gpu(gpu).wrapper_or_skip("a crash").is_none()) {
        return;
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("compile-kept");
    let _ = std::fs::remove_dir_all(&folder);
    let output = compile(&[
        "--gpu",
        "apple-m1,nvk-kepler",
        "--part",
        "testdata",
        "--only",
        "over-4-kib",
        "--only",
        "hardware/once.workgroup",
        "--target",
        "auto",
        "--keep",
        folder.to_str().expect("a name"),
    ]);
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout);
    for line in [
        "apple-m1, auto, drivers/gpu/spills-over-4-kib: the driver crashed: ",
        "nvk-kepler, auto, hardware/once.workgroup one: the driver refuses it: ",
    ] {
        assert!(text.contains(line), "{text}");
    }
    for file in ["apple-m1-auto-drivers-gpu-spills-over-4-kib.spv", "nvk-kepler-auto-hardware-once-workgroup-one.toml"]
    {
        assert!(folder.join(file).is_file(), "{file} is not kept");
    }
}

/// By hand and lowered, a product of f16 multiplies as many matrices as its size says: K / (rows * columns * depth) of an
/// instruction for each element of the tile. The loops of the compiler's listing were matched with those of the module for
/// that, and its barriers are in the same loops.
#[test]
fn executed_products_are_those_of_the_size() {
    let gpus = [("amd-navi31", 16 * 16 * 16), ("nvk-ampere", 16 * 8 * 16), ("intel-xe2", 8 * 16 * 16)];
    if gpus.iter().any(|(gpu, _)| Driver::Gpu(gpu).wrapper_or_skip("executed instructions").is_none()) {
        return;
    }
    for (gpu, size) in gpus {
        let output = cooplab(&["code", "--gpu", gpu, "--statistic", "none", "--only", "matmul f16", "--target", "khr"]);
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(0), "{text}{}", String::from_utf8_lossy(&output.stderr));
        let rows = rows(&output);
        assert_eq!(rows.len(), 4, "{text}");
        for row in rows {
            // The case has K = 14336.
            assert_eq!(row[2], format!("{:.2}", 14336.0 / f64::from(size)), "{row:?}\n{text}");
            assert!(row[6].parse::<f64>().unwrap() > 0.0, "no barriers: {row:?}\n{text}");
        }
    }
}
