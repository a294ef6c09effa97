//! llama.cpp's cooperative-matrix-2 modules with the cases of `testdata/llama/cm2`, in the interpreter.
//! `scripts/llama-shaders.sh` compiles the modules; without them the tests say that they were skipped, and fail if
//! `COOP_REQUIRE_LLAMA` is 1.
//!
//! A case's file is named after its module, up to the first dot. Where a case expects nothing, because its numbers are coded in
//! tables of thousands, the same case is run with the scalar module of the same product: its variant `scalar`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use coop_exec::interp::{Config, FindingKind, Interpreted, Memory, Placement, Semantics};
use coop_exec::testing;
use coop_exec::vulkan::VulkanExecutor;
use coop_exec::{Case, vulkan_test};

/// The cases with the names of their modules, in order.
fn cases() -> Vec<(String, PathBuf)> {
    let folder = testing::repository().join("testdata/llama/cm2");
    let mut cases: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
        .map(|path| (path.file_name().unwrap().to_string_lossy().split('.').next().unwrap().to_owned(), path))
        .collect();
    cases.sort();
    cases
}

/// Runs a case; every finding is an error, but for one that is known.
fn interpret(module: &str, words: &[u32], case: &Case, config: Config) -> Result<Vec<Memory>, String> {
    let (buffers, report) = Interpreted { config }.run_case(words, case).map_err(|error| error.to_string())?;
    // They promise addresses that are multiples of 2, for blocks of 17 bytes.
    let known = |kind| module.contains("mxfp4") && kind == FindingKind::Misaligned;
    match report.findings.iter().find(|finding| !known(finding.kind)) {
        Some(finding) => Err(finding.to_string()),
        None => Ok(buffers),
    }
}

fn check(module: &str, words: &[u32], case: &Case, config: Config) -> Result<(), String> {
    let buffers = interpret(module, words, case, config)?;
    for (index, wanted) in case.expected().map_err(|error| error.to_string())? {
        let difference = coop_exec::compare(&case.buffer[index], &buffers[index].bytes, &wanted);
        if let Some(difference) = difference.map_err(|error| error.to_string())? {
            return Err(difference.to_string());
        }
    }
    Ok(())
}

/// The case itself, and its variants for the same module.
fn ways(path: &Path) -> Vec<(String, Case)> {
    let case = Case::load(path).unwrap();
    let variants = case.variant.keys().filter(|name| *name != "scalar").cloned().collect::<Vec<_>>();
    let named = variants.into_iter().map(|name| {
        let variant = case.clone().with_variant(&name).unwrap();
        (name, variant)
    });
    std::iter::once((String::new(), case.clone())).chain(named.collect::<Vec<_>>()).collect()
}

fn run(chosen: impl Fn(usize, &str) -> bool) -> usize {
    let Some(folder) = testing::llama_modules() else { return usize::MAX };
    let mut failures = Vec::new();
    let mut checked = 0;
    for (index, (module, path)) in cases().into_iter().enumerate() {
        let file = path.file_name().unwrap().to_string_lossy().into_owned();
        if !chosen(index, &file) {
            continue;
        }
        let words = testing::words(folder.join(format!("{module}.spv")));
        for (variant, case) in ways(&path) {
            let placement = Placement::ALL[checked % Placement::ALL.len()];
            // What NVIDIA's driver does with tensor pointers that are no multiples of 16 bytes is what the engine means.
            let semantics = if file.contains(".odd-") { Semantics::Nvidia } else { Semantics::Spec };
            let config = Config { placement, vector_decode: checked % 2 == 0, semantics, ..Config::default() };
            checked += 1;
            if let Err(why) = check(&module, &words, &case, config) {
                failures.push(format!("{file} {variant} {placement:?}: {why}"));
            }
        }
    }
    assert!(failures.is_empty(), "{} of {checked} fail\n{}", failures.len(), failures.join("\n"));
    checked
}

/// One of each family, and what has features of its own.
const QUICK: &[&str] = &[
    "matmul_f16_cm2.unaligned.toml",
    "matmul_f16_cm2.splits.toml",
    "matmul_f16_cm2.odd-batches.toml",
    "matmul_q5_1_f16_cm2.toml",
    "matmul_q3_k_f16_cm2.toml",
    "matmul_nvfp4_f16_ocp_cm2.toml",
    "matmul_id_subgroup_q8_0_f16_cm2.toml",
    "matmul_id_subgroup_f16_cm2.slots.toml",
    "flash_attn_f32_f16_cm2.groups.toml",
    "flash_attn_f32_f16_cm2.edge.toml",
    "flash_attn_f32_f16_cm2.odd-masks.toml",
    "flash_attn_f32_f16_cm2.summary.toml",
    "flash_attn_f32_f16_cm2.q8-0-q4-0.toml",
    "conv2d_f16_f32_cm2.toml",
    "conv3d_f16_f32_cm2.callback.toml",
];

#[test]
fn some_cases() {
    let names: BTreeSet<String> =
        cases().iter().map(|(_, path)| path.file_name().unwrap().to_string_lossy().into_owned()).collect();
    for name in QUICK {
        assert!(names.contains(*name), "there is no {name}");
    }
    assert!(run(|_, file| QUICK.contains(&file)) >= QUICK.len());
}

#[test]
#[ignore = "scripts/test.sh long runs it: every case and variant, a minute in a debug build"]
fn all_cases() {
    assert!(run(|_, _| true) >= 100);
}

/// The results that an H100 gave natively, lowered to khr and lowered to scalar are recorded, and still have their
/// cases.
#[test]
fn what_an_h100_agreed_on_is_listed() {
    let text = std::fs::read_to_string(testing::repository().join("testdata/llama/cm2/h100.txt")).unwrap();
    let listed: BTreeSet<&str> = text.lines().collect();
    let names: BTreeSet<String> =
        cases().iter().map(|(_, path)| path.file_stem().unwrap().to_string_lossy().into_owned()).collect();
    let missing: Vec<&&str> = listed.iter().filter(|name| !names.contains(**name)).collect();
    assert!(missing.is_empty(), "no case for {missing:?}");
    assert!(listed.len() >= 40, "{} cases", listed.len());
    for kind in
        ["matmul_q", "matmul_id_", "matmul_iq", "matmul_tq", "flash_attn_", "conv2d_", "conv3d_", "conv_transpose_"]
    {
        assert!(listed.iter().any(|name| name.starts_with(kind)), "none of {kind}");
    }
}

/// Every module has a case, but for some that differ from one that has in the type of sums alone.
#[test]
fn every_callback_has_a_case() {
    let Some(folder) = testing::llama_modules() else { return };
    let cases: BTreeSet<String> = cases().into_iter().map(|(module, _)| module).collect();
    let mut missing = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let Some(module) = name.strip_suffix(".spv").filter(|module| module.ends_with("_cm2")) else { continue };
        if !cases.contains(module) && !cases.contains(&module.replace("_f16acc", "")) {
            missing.push(module.to_owned());
        }
    }
    assert!(missing.is_empty(), "no case for {}", missing.join(", "));
    assert!(cases.len() >= 60, "{} modules with cases", cases.len());
}

/// Runs the cases that have a scalar module on both.
fn compare_with_scalar(device: &VulkanExecutor<'_>, chosen: &dyn Fn(&str) -> bool) -> usize {
    let Some(folder) = testing::llama_modules() else { return usize::MAX };
    let mut compared = 0;
    for (module, path) in cases() {
        let case = Case::load(&path).unwrap();
        if !case.variant.contains_key("scalar") || !chosen(&module) {
            continue;
        }
        let words = testing::words(folder.join(format!("{module}.spv")));
        let ours = interpret(&module, &words, &case, Config::default()).unwrap_or_else(|why| panic!("{module}: {why}"));
        let other = module.replace("_cm2", "");
        let words = testing::words(folder.join(format!("{other}.spv")));
        let outcome = testing::run(device, &words, &case.clone().with_variant("scalar").unwrap())
            .unwrap_or_else(|error| panic!("{other}: {error}"));
        for (buffer, memory) in case.buffer.iter().zip(&ours) {
            let theirs = outcome.buffer(&buffer.name).unwrap();
            let difference = coop_exec::compare(buffer, &memory.bytes, theirs).unwrap();
            assert!(difference.is_none(), "{other}: {}", difference.unwrap());
        }
        compared += 1;
    }
    compared
}

vulkan_test!(Lavapipe, fn tables_are_those_of_a_scalar_module(device) {
    assert!(compare_with_scalar(device, &|module| module.contains("iq2_xs")) >= 1);
});

vulkan_test!(#[ignore = "scripts/test.sh long runs it: lavapipe compiles seven large modules"] Lavapipe, fn tables_are_those_of_the_scalar_modules(device) {
    assert!(compare_with_scalar(device, &|_| true) >= 7);
});
