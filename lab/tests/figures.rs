//! The kernels of `testdata/bench` on their small cases: those with tensor layouts in the interpreter, the others on lavapipe.

use std::path::PathBuf;
use std::time::Duration;

use coop_exec::interp::{Config, Interpreted, Placement};
use coop_exec::measure::Inputs;
use coop_exec::testing;
use coop_exec::{Case, RunOptions, vulkan_test};
use coop_lab::figures::{Figure, List};

fn folder() -> PathBuf {
    testing::repository().join("testdata/bench")
}

/// A module with one of its small cases; `variant` begins with what kind of module it is.
struct Run {
    what: String,
    words: Vec<u32>,
    case: Case,
}

/// The runs of the modules of one kind: `nv2`, `khr`, `scalar`.
fn runs(kind: &str) -> Vec<Run> {
    let mut runs = Vec::new();
    for entry in std::fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let Some((computation, operands)) =
            name.strip_suffix(".spv").and_then(|name| name.split_once(&format!("_{kind}")))
        else {
            continue;
        };
        let operands = operands.trim_start_matches('_').replace("_f16acc", "").replace("_vector", "");
        let cases = if computation == "flash" { vec!["64", "256"] } else { vec![operands.as_str()] };
        for operands in cases {
            let case = Case::load(&folder().join(format!("{computation}_{operands}.small.toml"))).unwrap();
            let variants: Vec<String> =
                case.variant.keys().filter(|variant| variant.starts_with(kind)).cloned().collect();
            if kind == "nv2" {
                runs.push(Run { what: format!("{name}, {operands}"), words: testing::words(&path), case });
                continue;
            }
            assert!(!variants.is_empty(), "{name} has no variant");
            // What differs in types alone needs no second one: drivers take a second to compile each.
            let enough = if name.ends_with("_f16.spv") || operands == "64" { variants.len() } else { 1 };
            for variant in variants.into_iter().rev().take(enough) {
                let case = case.clone().with_variant(&variant).unwrap();
                runs.push(Run { what: format!("{name}, {operands}, {variant}"), words: testing::words(&path), case });
            }
        }
    }
    runs
}

fn check<T>(failures: &mut Vec<String>, what: &str, result: Result<T, String>) {
    if let Err(why) = result {
        failures.push(format!("{what}: {why}"));
    }
}

/// Runs and checks; answers how many instructions that took.
fn interpret(words: &[u32], case: &Case, config: Config) -> Result<u64, String> {
    let (buffers, report) = Interpreted { config }.run_case(words, case).map_err(|error| error.to_string())?;
    if let Some(finding) = report.findings.first() {
        return Err(finding.to_string());
    }
    for (index, wanted) in case.expected().map_err(|error| error.to_string())? {
        let difference = coop_exec::compare(&case.buffer[index], &buffers[index].bytes, &wanted);
        if let Some(difference) = difference.map_err(|error| error.to_string())? {
            return Err(difference.to_string());
        }
    }
    Ok(report.steps)
}

#[test]
fn with_tensor_layouts() {
    let mut failures = Vec::new();
    let runs = runs("nv2");
    for (index, run) in runs.iter().enumerate() {
        // Every kernel is there several times, with small differences.
        let placement = Placement::ALL[index % Placement::ALL.len()];
        let config = Config { placement, vector_decode: index % 2 == 0, ..Config::default() };
        check(&mut failures, &run.what, interpret(&run.words, &run.case, config));
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(runs.len() >= 10, "{} runs", runs.len());
}

/// Limits the number of steps of the interpreter. `scripts/bench.sh` measures time; the number of instructions, each
/// counted once for all invocations that execute it together, shows when something becomes much slower.
#[test]
fn a_whole_product_takes_few_steps() {
    let case = Case::load(&folder().join("matmul_f16.interp.toml")).unwrap();
    for (name, most) in [("matmul_khr_f16.spv", 200_000), ("matmul_nv2_f16.spv", 20_000)] {
        let words = testing::words(folder().join(name));
        let steps = interpret(&words, &case, Config::default()).unwrap();
        assert!(steps < most, "{name}: {steps} steps");
    }
}

#[test]
fn with_bfloat16() {
    // Which lavapipe lacks.
    let mut failures = Vec::new();
    for run in runs("khr").iter().filter(|run| run.what.contains("bf16")) {
        let config = Config { subgroup_size: 8, ..Config::default() };
        check(&mut failures, &run.what, interpret(&run.words, &run.case, config));
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

vulkan_test!(Lavapipe, fn with_subgroup_matrices(device) {
    // lavapipe compiles at the first dispatch: attention with heads of 256 for 45 to 115 seconds, by the machine.
    let options = RunOptions { timeout: Duration::from_secs(300), ..RunOptions::default() };
    let mut failures = Vec::new();
    let runs = runs("khr");
    for run in runs.iter().filter(|run| !run.what.contains("bf16")) {
        check(&mut failures, &run.what, testing::run_and_check_with(device, &run.words, &run.case, &options));
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(runs.len() >= 10, "{} runs", runs.len());
});

vulkan_test!(Lavapipe, fn without_matrices(device) {
    let mut failures = Vec::new();
    let runs = runs("scalar");
    for run in &runs {
        check(&mut failures, &run.what, testing::run_and_check(device, &run.words, &run.case));
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(runs.len() >= 10, "{} runs", runs.len());
});

vulkan_test!(Lavapipe, fn samples_are_judged(device) {
    use coop_exec::RunOptions;
    use coop_exec::measure::MeasureOptions;
    use std::time::Duration;
    let case = Case::load(&folder().join("matmul_f16.small.toml")).unwrap().with_variant("scalar").unwrap();
    let words = testing::words(folder().join("matmul_scalar_f16.spv"));
    let run = RunOptions { bench: 3, ..RunOptions::default() };
    let options = MeasureOptions { run, warm_up: Duration::ZERO };
    let inputs = Inputs::new(case.clone()).unwrap();
    let (measured, differences) = inputs.measure(device, &words, &case, &options).unwrap();
    assert!(differences.is_empty() && measured.times.len() >= 3 && measured.median().is_some());
    // A workgroup less, and the lower rows stay as they were.
    let less = Case { workgroups: [1, 1, 1], ..case };
    let (_, differences) = inputs.measure(device, &words, &less, &options).unwrap();
    assert!(differences[0].count > 0);
});

#[test]
fn lists_name_what_is_there() {
    for name in ["figures.toml", "figures.small.toml"] {
        let list = List::load(&folder().join(name)).unwrap();
        for figure in &list.figure {
            let Figure { nv2, khr, scalar, .. } = figure;
            let case = Case::load(&folder().join(&figure.case)).unwrap();
            assert!(case.operations.is_some() || name.contains("small"), "{}", figure.name);
            assert_eq!(case.expect.len(), 1, "{}", figure.name);
            for contender in [Some(nv2), khr.as_ref(), scalar.as_ref()].into_iter().flatten() {
                assert!(folder().join(&contender.module).is_file(), "{}", contender.module.display());
                assert!(!contender.tries.is_empty());
            }
        }
    }
}
