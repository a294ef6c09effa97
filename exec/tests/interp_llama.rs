//! llama.cpp's matrix multiplies on the interpreter. `scripts/llama-shaders.sh` compiles the modules; without them the
//! tests say that they were skipped, and fail if `COOP_REQUIRE_LLAMA` is 1.

use std::path::{Path, PathBuf};

use coop_exec::Case;
use coop_exec::interp::{Config, FindingKind, Interpreted, Interpreter, Memory, Placement, Semantics};
use coop_exec::testing;

fn check(words: &[u32], case: &Case, config: Config) -> Result<(), String> {
    let (buffers, report) = Interpreted { config }.run_case(words, case).map_err(|e| e.to_string())?;
    if let Some(finding) = report.findings.first() {
        return Err(finding.to_string());
    }
    for (index, wanted) in case.expected().map_err(|e| e.to_string())? {
        let buffer = &case.buffer[index];
        if let Some(d) = coop_exec::compare(buffer, &buffers[index].bytes, &wanted).map_err(|e| e.to_string())? {
            return Err(d.to_string());
        }
    }
    Ok(())
}

fn cases(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut cases: Vec<PathBuf> = entries
        .map(|e| e.unwrap().path())
        .filter(|p| p.extension().is_some_and(|e| e == "toml"))
        .filter(|p| p.file_name().is_some_and(|n| n.to_string_lossy().starts_with("matmul_")))
        .collect();
    cases.sort();
    cases
}

fn module_of(case: &Path) -> String {
    let name = case.file_name().unwrap_or_default().to_string_lossy();
    name.split('.').next().unwrap_or_default().to_string()
}

#[test]
fn plain_matrices() {
    let Some(folder) = testing::llama_modules() else { return };
    let mut checked = 0;
    for path in cases(&testing::repository().join("testdata/llama")) {
        if path.to_string_lossy().contains(".large.") {
            // Minutes in a debug build; the small ones have the same code.
            continue;
        }
        let words = testing::words(folder.join(format!("{}.spv", module_of(&path))));
        let case = Case::load(&path).unwrap();
        let variants: Vec<String> = case.variant.keys().cloned().collect();
        for variant in std::iter::once(None).chain(variants.iter().map(Some)) {
            let case = variant.map_or_else(|| case.clone(), |v| case.clone().with_variant(v).unwrap());
            let subgroup_size = if variant.is_some_and(|v| v == "warp") { 32 } else { 8 };
            for placement in [Placement::BlockedRows, Placement::Replicated] {
                let config = Config { subgroup_size, placement, ..Config::default() };
                let what = format!("{} {variant:?} {placement:?}", path.display());
                check(&words, &case, config).unwrap_or_else(|why| panic!("{what}: {why}"));
                checked += 1;
            }
        }
    }
    assert!(checked >= 20, "{checked} runs");
}

#[test]
fn tensor_layouts_and_decode_functions() {
    let Some(folder) = testing::llama_modules() else { return };
    let paths = cases(&testing::repository().join("exec/tests/interp/llama"));
    assert_eq!(paths.len(), 3);
    for path in paths {
        let words = testing::words(folder.join(format!("{}.spv", module_of(&path))));
        let case = Case::load(&path).unwrap();
        for placement in Placement::ALL {
            for (vector_decode, semantics) in
                [(false, Semantics::Spec), (true, Semantics::Spec), (true, Semantics::Nvidia)]
            {
                let config = Config { placement, vector_decode, semantics, ..Config::default() };
                let what = format!("{} {placement:?} {vector_decode} {semantics:?}", path.display());
                check(&words, &case, config).unwrap_or_else(|why| panic!("{what}: {why}"));
            }
        }
    }
}

/// Nothing in any of the modules is beyond the interpreter, but for one extension without matrices.
#[test]
fn every_module_is_understood() {
    let Some(folder) = testing::llama_modules() else { return };
    let mut modules = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|e| e != "spv") {
            continue;
        }
        let module = coop_ir::binary::read(&std::fs::read(&path).unwrap()).unwrap();
        let specialization = coop_ir::constant::Specialization::new();
        let interpreter = Interpreter::new(&module, None, &specialization, Config::default());
        let interpreter = interpreter.unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        for (_, why) in interpreter.unsupported() {
            assert!(why.contains("OpFDot2MixAcc32VALVE"), "{}: {why}", path.display());
        }
        modules += 1;
    }
    assert!(modules > 100, "{modules} modules");
}

/// The same numbers decoded by 4-bit float types (SPV_EXT_ocp_microscaling_types) and by a table.
#[test]
fn small_floats_are_what_the_table_says() {
    let Some(folder) = testing::llama_modules() else { return };
    let mut case = Case::load(&testing::repository().join("exec/tests/interp/llama/matmul_q4_0_f16_cm2.toml")).unwrap();
    case.expect.clear();
    // Blocks of a scale and 16 bytes.
    case.buffer[0].count = 64 * 2 * 17;
    case.buffer[0].fill = coop_exec::fill::Fill::default();
    let mut results = Vec::new();
    for name in ["matmul_mxfp4_f16_cm2", "matmul_mxfp4_f16_ocp_cm2"] {
        let path = folder.join(format!("{name}.spv"));
        let module = coop_ir::binary::read(&std::fs::read(path).unwrap()).unwrap();
        let specialization = case.specialization().unwrap();
        let mut buffers: Vec<Memory> = (0..case.buffer.len())
            .map(|i| Memory {
                name: case.buffer[i].name.clone(),
                slot: case.buffer[i].slot(),
                bytes: case.contents(i, &|_| 0).unwrap(),
            })
            .collect();
        let mut random = coop_exec::random::Random::new(9);
        for (i, byte) in buffers[0].bytes.iter_mut().enumerate() {
            *byte = if i % 17 == 0 { random.integer(122, 130) as u8 } else { random.bits() as u8 };
        }
        let interpreter = Interpreter::new(&module, None, &specialization, Config::default()).unwrap();
        let push = case.push_constants(&|_| 0).unwrap();
        let report = interpreter.run(&mut buffers, &push, case.workgroups).unwrap();
        // Both promise addresses that are multiples of 2 (`buffer_reference_align`: `Aligned 2`), for blocks of 17 bytes.
        let broken: Vec<String> =
            report.findings.iter().filter(|f| f.kind != FindingKind::Misaligned).map(|f| f.to_string()).collect();
        assert!(broken.is_empty(), "{}", broken.join("\n"));
        assert!(!report.findings.is_empty(), "{name}: odd addresses are not reported");
        results.push(buffers.pop().unwrap().bytes);
    }
    assert!(results[0] == results[1]);
    assert!(results[0].iter().any(|b| *b != results[0][0]));
}
