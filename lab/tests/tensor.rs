//! The passes before matrices are replaced: inlining, tensor addresses. The interpreter is the witness.

use coop_exec::interp::Interpreted;
use coop_exec::{Case, Executor, Outcome, RunOptions};
use coop_ir::{Module, binary};
use coop_passes::{Error, Options, Semantics, Target, elementwise, lower};
use std::path::Path;

fn testdata(name: &str) -> Module {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata/tensor").join(name);
    binary::read(&std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))).expect("a module")
}

fn interpret(what: &str, module: &Module, case: &Case, subgroup: u32) -> Outcome {
    let mut interpreter = Interpreted::default();
    interpreter.config.subgroup_size = subgroup;
    let outcome = interpreter.run(&binary::write_words(module), case, &RunOptions::default());
    let outcome = outcome.unwrap_or_else(|e| panic!("{what}: {e}"));
    assert!(outcome.faults.is_empty() && outcome.messages.is_empty(), "{what}: {:?}", outcome.faults);
    outcome
}

fn case(text: &str) -> Case {
    Case::parse(text, Path::new(".")).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn functions_that_return_from_anywhere_are_inlined() {
    let mut different = std::collections::BTreeSet::new();
    for name in ["returns.spv", "returns.debug.spv", "returns.opt.spv"] {
        let original = testdata(name);
        let mut options = Options::new(Target::Scalar);
        options.subgroup_size = Some(8);
        let lowered = lower(&original, &options).unwrap_or_else(|e| panic!("{name}: {e}")).module;
        // Nothing takes a matrix any more: what is called are the functions of the scalar lowering.
        assert!(coop_ir::verify::verify(&lowered).is_ok());
        for k in [0u32, 1, 2, 3, 4, 5, 7, 10, 11, 21, 32, 40, 41, 42, 43, 60, 61, 77, 99, 100] {
            let case = case(&format!(
                "workgroups = [1, 1, 1]\nseed = 3\nsubgroup-size = 8\nfull-subgroups = true\npush = [{{ values = [{k}, 3] }}]\n\
                 [[buffer]]\nname = \"A\"\nbinding = 0\ntype = \"f32\"\ncount = 64\nfill = \"half-integers\"\n\
                 [[buffer]]\nname = \"D\"\nbinding = 1\ntype = \"f32\"\ncount = 64\nfill = {{ constant = 99 }}\n"
            ));
            let (before, after) = (interpret(name, &original, &case, 8), interpret(name, &lowered, &case, 8));
            let differences = before.compare(&after, &case).expect("comparable");
            assert!(differences.is_empty(), "{name}, k = {k}: {}", differences[0]);
            different.insert(after.buffer("D").map(<[u8]>::to_vec));
        }
    }
    assert!(different.len() > 10, "only {} results", different.len());
}

/// Modules of the folders with tensor accesses, and their cases.
fn tensor_cases() -> Vec<(String, Module, Case)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut out = Vec::new();
    for folder in ["testdata/hardware", "exec/tests/interp"] {
        let files = std::fs::read_dir(root.join(folder)).expect("testdata").flatten().map(|e| e.path());
        for path in files.filter(|p| p.extension().is_some_and(|e| e == "toml")) {
            let stem = path.file_stem().map_or_else(String::new, |s| s.to_string_lossy().into_owned());
            let Ok(bytes) = std::fs::read(path.with_file_name(format!("{stem}.spv"))) else { continue };
            let module = binary::read(&bytes).expect("a module");
            let has = module.globals.iter().any(|r| module.inst(*r).op == coop_ir::Op::TypeTensorLayoutNV);
            if has {
                let case = Case::load(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
                out.push((format!("{folder}/{stem}"), module, case));
            }
        }
    }
    out.sort_by(|a, b| a.0.cmp(&b.0));
    out
}

/// Interprets a module, and again with its tensor accesses done element by element in runs of several lengths.
fn plainly(name: &str, module: &Module, case: &Case, size: u32, semantics: bool) -> Result<(), String> {
    let mut interpreter = Interpreted::default();
    interpreter.config.subgroup_size = size;
    let mut options = Options::new(Target::Scalar);
    if semantics {
        interpreter.config.semantics = coop_exec::interp::Semantics::Nvidia;
        options.semantics = Semantics::Nvidia;
    }
    options.spec = case.specialization().expect("values");
    options.spec_defaults = true;
    options.subgroup_size = Some(size);
    let run = |m: &Module| interpreter.run(&binary::write_words(m), case, &RunOptions::default());
    let before = run(module).map_err(|e| format!("{name}: original: {e}"))?;
    for length in [0, 1, 4, 8] {
        let made = match elementwise::lower(module, &options, length) {
            Ok(m) => m,
            Err(Error::Refused(r)) => return Err(format!("{name}: refused: {r}")),
            Err(e) => panic!("{name}: {e}"),
        };
        let after = run(&made).map_err(|e| format!("{name}: runs of {length}: {e}"))?;
        let differences = before.compare(&after, case).expect("comparable");
        if let Some(first) = differences.first() {
            return Err(format!("{name}: runs of {length}: {first}"));
        }
    }
    Ok(())
}

#[test]
fn recorded_tensor_accesses_element_by_element() {
    let mut failures = Vec::new();
    let cases = tensor_cases();
    for (name, module, case) in &cases {
        let size = case.subgroup_size.unwrap_or(32);
        for semantics in [false, true] {
            failures.extend(plainly(name, module, case, size, semantics).err());
        }
    }
    assert!(cases.len() > 10, "only {}", cases.len());
    assert!(failures.is_empty(), "{} of {}:\n{}", failures.len(), 2 * cases.len(), failures.join("\n"));
}

/// Generated modules with tensor accesses, element by element.
fn generated(seeds: std::ops::Range<u64>) -> (usize, Vec<String>) {
    use coop_lab::generator::{Dialect, GeneratorProfile, Limits, generate};
    let profile = GeneratorProfile { dialect: Dialect::Nv2, limits: Limits::Any };
    let (mut done, mut failures) = (0, Vec::new());
    for seed in seeds {
        let made = generate(profile, &coop_lab::campaign::entropy(seed, 400));
        let has = made.module.globals.iter().any(|r| made.module.inst(*r).op == coop_ir::Op::TypeTensorLayoutNV);
        if !has {
            continue;
        }
        done += 1;
        let size = [8, 4, 16, 32][(seed % 4) as usize];
        let mut case = case(&made.case);
        if size != 8 {
            case = case.with_variant(&format!("s{size}")).expect("a variant");
        }
        failures.extend(plainly(&format!("seed {seed}"), &made.module, &case, size, false).err());
    }
    (done, failures)
}

#[test]
fn generated_tensor_accesses_element_by_element() {
    let (done, failures) = generated(0..60);
    assert!(done > 10, "only {done} modules with tensors");
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
#[ignore = "scripts/test.sh long runs it: minutes; the test above has a part of the seeds"]
fn many_generated_tensor_accesses_element_by_element() {
    let (done, failures) = generated(1000..4000);
    assert!(done > 500, "only {done} modules with tensors");
    assert!(failures.is_empty(), "{} of {done}:\n{}", failures.len(), failures.join("\n"));
}

#[path = "../../cli/tests/llama_modules/mod.rs"]
mod llama_modules;

/// SpecIds of llama.cpp's modules for cooperative_matrix2, as its engine gives them.
fn engine_values(name: &str) -> coop_ir::constant::Specialization {
    use coop_ir::constant::{SpecValue, Specialization};
    let values: &[(u32, u32)] = if name.starts_with("flash") {
        &[(0, 128), (1, 64), (2, 64), (3, 64), (4, 64), (5, 1), (12, 8), (13, 8), (14, 34), (15, 34)]
    } else if name.starts_with("conv") {
        &[]
    } else {
        &[(0, 256), (1, 128), (2, 128), (3, 64), (4, 0)]
    };
    let mut out = Specialization::new();
    values.iter().for_each(|(id, v)| out.set(*id, SpecValue::Int(i128::from(*v))));
    out
}

/// Modules of llama.cpp for cooperative_matrix2, one of `each`: their tensor accesses, with all that they call, are valid
/// code.
fn llama_is_valid(each: usize, runs: u32) {
    let Some(modules) = llama_modules::modules() else { return };
    let validator = llama_modules::cache().join("bin/spirv-val");
    let folder = std::env::temp_dir().join(format!("coop-tensor-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let (mut done, mut failures) = (0, Vec::new());
    for path in modules.iter().filter(|p| llama_modules::stem(p).ends_with("_cm2")) {
        let name = llama_modules::stem(path);
        let module = binary::read(&std::fs::read(path).expect("readable")).expect("a module");
        if !module.globals.iter().any(|r| module.inst(*r).op == coop_ir::Op::TypeTensorLayoutNV) {
            continue;
        }
        done += 1;
        if done % each != 0 {
            continue;
        }
        let mut options = Options::new(Target::Scalar);
        (options.spec, options.spec_defaults) = (engine_values(&name), true);
        options.subgroup_size = Some(32);
        let made = match elementwise::lower(&module, &options, runs) {
            Ok(m) => m,
            Err(e) => {
                failures.push(format!("{name}: {e}"));
                continue;
            }
        };
        let words = binary::write(&made);
        let file = folder.join(format!("{name}.spv"));
        std::fs::write(&file, words).expect("written");
        if validator.exists() {
            let said = std::process::Command::new(&validator).args(["--target-env", "vulkan1.3"]).arg(&file).output();
            let said = said.expect("spirv-val");
            if !said.status.success() {
                failures.push(format!("{name}: {}", String::from_utf8_lossy(&said.stderr)));
            }
        }
    }
    let _ = std::fs::remove_dir_all(&folder);
    assert_eq!(done, 119);
    assert!(failures.is_empty(), "{} of {done}:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn llama_tensor_accesses_are_valid() {
    llama_is_valid(7, 8);
}

#[test]
#[ignore = "scripts/test.sh long runs it: minutes; the test above has a seventh of the modules"]
fn all_llama_tensor_accesses_are_valid() {
    [1, 4, 8].into_iter().for_each(|runs| llama_is_valid(1, runs));
}

/// Modules of SPV_NV_cooperative_matrix, and their cases.
fn nv1_cases() -> Vec<(String, Module, Case)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut out = Vec::new();
    for folder in ["testdata/hardware", "exec/tests/interp", "testdata/tensor"] {
        let files = std::fs::read_dir(root.join(folder)).expect("testdata").flatten().map(|e| e.path());
        for path in files.filter(|p| p.extension().is_some_and(|e| e == "toml")) {
            let Ok(bytes) = std::fs::read(path.with_extension("spv")) else { continue };
            let module = binary::read(&bytes).expect("a module");
            if module.globals.iter().any(|r| module.inst(*r).op == coop_ir::Op::TypeCooperativeMatrixNV) {
                let case = Case::load(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
                out.push((path.display().to_string(), module, case));
            }
        }
    }
    out
}

#[test]
fn matrices_without_uses_are_lowered() {
    let cases = nv1_cases();
    for (name, module, case) in &cases {
        let size = case.subgroup_size.unwrap_or(32);
        let mut options = Options::new(Target::Scalar);
        options.spec = case.specialization().expect("values");
        options.spec_defaults = true;
        options.subgroup_size = Some(size);
        let lowered = lower(module, &options).unwrap_or_else(|e| panic!("{name}: {e}")).module;
        let (before, after) = (interpret(name, module, case, size), interpret(name, &lowered, case, size));
        let differences = before.compare(&after, case).expect("comparable");
        assert!(differences.is_empty(), "{name}: {}", differences[0]);
    }
    assert!(cases.len() >= 5, "only {}", cases.len());
}
