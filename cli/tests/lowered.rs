//! Every kernel of `testdata/kernels` with its cases: lowered to scalar code it gives what the case expects, on the
//! device; and so does the original where the device can run it.
//!
//! On the current lavapipe, which has matrices of 8x8x8, and on Debian 12's, which has none.

use coop_exec::case::Number;
use coop_exec::vulkan::VulkanExecutor;
use coop_exec::{Case, Executor, Outcome, RunOptions, vulkan_test};
use coop_ir::{Module, binary};
use coop_passes::{Lanes, Options, Target, lower};
use coop_validate::testing::complaints;
use std::path::{Path, PathBuf};

/// Kernels whose types lavapipe's matrices don't have.
const NOT_ON_LAVAPIPE: [&str; 2] = ["gemm_bf16", "gemm_i8_sat"];

fn kernels() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata/kernels")
}

/// The modules, each with the case files that are named after it: `x.spv` with `x.toml` and `x.*.toml`. Variants of a
/// module (`x.opt.spv`) are run with the cases of `x`.
fn modules() -> Vec<(String, PathBuf, Vec<PathBuf>)> {
    let files: Vec<PathBuf> =
        std::fs::read_dir(kernels()).expect("testdata/kernels").flatten().map(|e| e.path()).collect();
    let name = |p: &Path| p.file_name().map_or_else(String::new, |n| n.to_string_lossy().into_owned());
    let mut out = Vec::new();
    for module in files.iter().filter(|p| p.extension().is_some_and(|e| e == "spv")) {
        let stem = name(module).trim_end_matches(".spv").to_owned();
        let base = stem.split('.').next().unwrap_or_default().to_owned();
        let belongs = |p: &&PathBuf| {
            let n = name(p);
            n.ends_with(".toml") && n.split('.').next() == Some(&base)
        };
        let mut cases: Vec<PathBuf> = files.iter().filter(belongs).cloned().collect();
        cases.sort();
        out.push((stem, module.clone(), cases));
    }
    out.sort();
    out
}

/// The case itself and its variants.
fn variants(path: &Path) -> Vec<(String, Case)> {
    let case = Case::load(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let names: Vec<String> = case.variant.keys().cloned().collect();
    let label = path.file_stem().map_or_else(String::new, |s| s.to_string_lossy().into_owned());
    let mut out = vec![(label.clone(), case.clone())];
    for n in names {
        let variant = case.clone().with_variant(&n).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        out.push((format!("{label}:{n}"), variant));
    }
    out
}

/// Describes the differences of an outcome from what is expected; empty if there are none.
fn wrong(outcome: &Outcome, case: &Case) -> Vec<String> {
    let mut out: Vec<String> = outcome.messages.clone();
    out.extend(outcome.faults.iter().cloned());
    match outcome.check(case) {
        Ok(differences) => out.extend(differences.iter().map(|d| d.to_string())),
        Err(e) => out.push(e.to_string()),
    }
    out
}

fn scalar(module: &Module, case: &Case, subgroup: u32, lanes: Lanes) -> Result<Module, String> {
    let mut options = Options::new(Target::Scalar);
    options.spec = case.specialization().map_err(|e| e.to_string())?;
    options.spec_defaults = true;
    options.subgroup_size = Some(subgroup);
    options.lanes = lanes;
    let lowered = lower(module, &options).map_err(|e| e.to_string())?.module;
    // Barriers stand where all arrive, among other things.
    let found = complaints(&lowered);
    if found.is_empty() { Ok(lowered) } else { Err(found.join("\n")) }
}

vulkan_test!(
    Lavapipe,
    fn kernels_lowered_to_scalar_give_what_their_cases_expect(device) {
        run_all(device);
    }
);

vulkan_test!(
    Debian12,
    fn kernels_lowered_to_scalar_run_on_a_device_without_matrices(device) {
        run_all(device);
    }
);

fn run_all(device: &VulkanExecutor<'_>) {
    let size = device.profile().limits.subgroup_size;
    let options = RunOptions::default();
    let mut failures = Vec::new();
    let (mut native, mut lowered, mut refused) = (0, 0, 0);
    let mut tested = std::collections::BTreeSet::new();
    for (name, path, cases) in modules() {
        let words = std::fs::read(&path).expect("readable");
        let module = binary::read(&words).expect("a module");
        assert!(!cases.is_empty(), "{name} has no case");
        for (label, case) in cases.iter().flat_map(|c| variants(c)) {
            let what = format!("{name} with {label}");
            // SpecId 3 is the subgroup size in all kernels; 0 to 2 are the extents of the matrices.
            let spec = |id: &str| match case.spec.get(id) {
                Some(Number::Int(v)) => u32::try_from(*v).ok(),
                _ => None,
            };
            let subgroup = spec("3").unwrap_or_else(|| panic!("{what}: no value for SpecId 3"));
            let mut extents = ["0", "1", "2"].into_iter().filter_map(spec);
            let matrices = !device.profile().khr_properties.is_empty();
            let runs_here =
                matrices && subgroup == size && extents.all(|n| n == 8) && !NOT_ON_LAVAPIPE.contains(&&*name);
            let original = runs_here.then(|| {
                native += 1;
                device.run(&binary::write_words(&module), &case, &options).unwrap_or_else(|e| panic!("{what}: {e}"))
            });
            if let Some(outcome) = &original {
                failures.extend(wrong(outcome, &case).into_iter().map(|w| format!("{what}, original: {w}")));
            }
            for lanes in [Lanes::Subgroup, Lanes::LocalIndex] {
                if lanes == Lanes::Subgroup && subgroup != size {
                    continue;
                }
                let what = format!("{what}, scalar, {lanes:?} of {subgroup}");
                let new = match scalar(&module, &case, subgroup, lanes) {
                    Ok(m) => m,
                    // The workgroup is smaller than such a subgroup, or the kernel uses those of the device.
                    Err(e) if lanes == Lanes::LocalIndex && e.contains("refused-lanes") => {
                        refused += 1;
                        continue;
                    }
                    Err(e) => {
                        failures.push(format!("{what}: {e}"));
                        continue;
                    }
                };
                let mut case = case.clone();
                if lanes == Lanes::Subgroup {
                    (case.subgroup_size, case.full_subgroups) = (Some(subgroup), true);
                } else {
                    (case.subgroup_size, case.full_subgroups) = (None, false);
                }
                match device.run(&binary::write_words(&new), &case, &options) {
                    Err(e) => failures.push(format!("{what}: {e}")),
                    Ok(outcome) => {
                        lowered += 1;
                        tested.insert(name.clone());
                        failures.extend(wrong(&outcome, &case).into_iter().map(|w| format!("{what}: {w}")));
                        if let Some(original) = &original {
                            let differences = original.compare(&outcome, &case).expect("the same buffers");
                            failures.extend(differences.iter().map(|d| format!("{what}: not the original's: {d}")));
                        }
                    }
                }
            }
        }
    }
    eprintln!("{}: {native} originals, {lowered} lowered, {refused} refused by local index", device.name());
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
    let untested: Vec<_> = modules().into_iter().map(|m| m.0).filter(|n| !tested.contains(n)).collect();
    assert!(untested.is_empty(), "never run lowered: {untested:?}");
}
