//! llama.cpp's 362 modules with cooperative matrices: they are read and written unchanged, nothing is found in them, the
//! KHR ones are lowered to valid scalar code with all the spec constants that the engine uses, and that code computes
//! what the original does.
//!
//! `scripts/llama-shaders.sh` compiles the modules; without them the tests say that they were skipped, and fail if
//! `COOP_REQUIRE_LLAMA` is 1.

// The counts belong to what a test says about itself.
#![allow(clippy::print_stdout)]

mod llama_modules;

use coop_device::Profile;
use coop_exec::vulkan::VulkanExecutor;
use coop_exec::{Case, Difference, Executor, Outcome, RunOptions, testing, vulkan_test};
use coop_ir::constant::SpecValue;
use coop_ir::{Module, binary};
use coop_passes::{Error, Lanes, Options, Target, lower};
use coop_validate::Level;
use llama_modules::{Entry, Group, Member, groups, in_parallel, members, modules, none, read, stem};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// The number of them that `scripts/llama-shaders.sh` makes.
const KHR: usize = 237;
const NV: usize = 125;

/// SpecIds of the matrix multiplies.
const SUBGROUP_SIZE: u32 = 10;

fn is_khr(path: &Path) -> bool {
    stem(path).ends_with("_cm1")
}

/// A folder for files that a test makes.
fn scratch(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("llama").join(name);
    // What an earlier run left behind.
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    folder
}

#[test]
fn each_khr_module_has_values_for_its_spec_constants() {
    let groups = groups();
    assert_eq!(groups.iter().map(|g| g.count).sum::<usize>(), KHR);
    let Some(modules) = modules() else { return };
    let members = members(&modules, &groups);
    for group in &groups {
        let count = members.iter().filter(|m| m.group.name == group.name).count();
        assert_eq!(count, group.count, "{}", group.name);
    }
    assert!(members.iter().all(|m| is_khr(m.path)));
    assert_eq!(modules.len(), KHR + NV);
}

#[test]
fn written_as_they_were_read() {
    let Some(modules) = modules() else { return };
    none(&in_parallel(&modules, |path| {
        let bytes = std::fs::read(path).expect("readable");
        match binary::read(&bytes) {
            Err(e) => vec![format!("{}: {e}", stem(path))],
            Ok(module) if binary::write(&module) != bytes => vec![format!("{}: other bytes", stem(path))],
            Ok(_) => vec![],
        }
    }));
}

#[test]
fn printed_and_parsed_again() {
    let Some(modules) = modules() else { return };
    none(&in_parallel(&modules, |path| {
        let module = read(path);
        let text = coop_ir::text::print_with(&module, &coop_ir::text::Names::numeric(), &Default::default()).text;
        match coop_ir::text::parse(&text) {
            Err(e) => vec![format!("{}: {e}", stem(path))],
            Ok(again) if binary::write(&again) != binary::write(&module) => {
                vec![format!("{}: another module", stem(path))]
            }
            Ok(_) => vec![],
        }
    }));
}

/// Returns the findings of the checker at this level or above.
fn findings(module: &Module, options: &coop_validate::Options, least: Level) -> Vec<String> {
    let report = coop_validate::check(module, options);
    let at_least = report.findings.iter().filter(|f| f.level >= least);
    at_least.map(|f| format!("{}[{}]: {}", f.level, f.rule.id, f.message)).collect()
}

/// The engine never uses the defaults of the spec constants, so they may give warnings.
#[test]
fn no_errors_whatever_the_spec_constants() {
    let Some(modules) = modules() else { return };
    let warnings = AtomicUsize::new(0);
    none(&in_parallel(&modules, |path| {
        let module = read(path);
        let options = coop_validate::Options::default();
        warnings.fetch_add(findings(&module, &options, Level::Warning).len(), Ordering::Relaxed);
        let errors = findings(&module, &options, Level::Error);
        errors.into_iter().map(|e| format!("{}: {e}", stem(path))).collect()
    }));
    println!("{} warnings that rest on defaults", warnings.into_inner());
}

/// The engine makes its values of what the device lists: each of them is taken by one of the devices that we know. But
/// for bfloat16: no device has it at 8x8x8, and none accumulates it in f16; and none has the microscaling formats of one
/// module. Of the tiles the medium one will do: the large one exceeds the shared memory of lavapipe now and then.
#[test]
fn some_device_takes_each_module_with_the_values_of_the_engine() {
    let Some(modules) = modules() else { return };
    let groups = groups();
    let devices: Vec<_> = ["nvidia-h100", "mesa-lavapipe"]
        .map(|name| Profile::builtin(name).expect("built in"))
        .map(|profile| std::sync::Arc::new(coop_validate::Device::new(profile)))
        .into();
    none(&in_parallel(&members(&modules, &groups), |member| {
        let module = read(member.path);
        let mut out = Vec::new();
        for entry in member.group.entry.iter().filter(|e| e.label().ends_with("tile m")) {
            let name = stem(member.path);
            let taken = !name.contains("ocp") && !name.contains("bf16")
                || entry.label().starts_with("16x16x16") && name.contains("bf16") && !name.contains("f16acc");
            let refusals: Vec<Vec<String>> = devices
                .iter()
                .map(|device| {
                    let mut options = coop_validate::Options::default();
                    options.specialization = entry.specialization();
                    options.device = Some(device.clone());
                    findings(&module, &options, Level::Warning)
                })
                .collect();
            if refusals.iter().any(Vec::is_empty) != taken {
                out.push(format!("{name}, {}: {refusals:?}", entry.label()));
            }
        }
        out
    }));
}

/// Nothing; but what a uniform instruction rests on may be noted. Of a module's entries only `every` so many-th is tried,
/// beginning with another one for each module.
fn no_findings(every: usize) {
    let Some(modules) = modules() else { return };
    let groups = groups();
    let members: Vec<_> = members(&modules, &groups).into_iter().enumerate().collect();
    none(&in_parallel(&members, |(i, member)| {
        let module = read(member.path);
        let mut out = Vec::new();
        for entry in member.group.entry.iter().skip(i % every).step_by(every) {
            let mut options = coop_validate::Options::default();
            options.specialization = entry.specialization();
            options.subgroup_size = Some(entry.subgroup_size());
            let mut found = findings(&module, &options, Level::Note);
            found.retain(|f| !f.starts_with("note[uniformity-assumed]"));
            out.extend(found.into_iter().map(|f| format!("{}, {}: {f}", stem(member.path), entry.label())));
        }
        out
    }));
}

#[test]
fn no_findings_with_the_values_of_the_engine() {
    no_findings(5);
}

#[test]
#[ignore = "scripts/test.sh long runs it: minutes; the test above has a fifth of the values"]
fn no_findings_with_all_values_of_the_engine() {
    no_findings(1);
}

/// Uniformity depends neither on the specialization constants nor on the subgroup size.
#[test]
fn uniform_with_the_defaults_too() {
    let Some(modules) = modules() else { return };
    let modules: Vec<_> = modules.into_iter().enumerate().collect();
    none(&in_parallel(&modules, |(i, path)| {
        let module = read(path);
        let size = [None, Some(8), Some(16), Some(32), Some(64)][i % 5];
        let mut options = coop_validate::Options::default();
        options.subgroup_size = size;
        let mut found = findings(&module, &options, Level::Warning);
        found.retain(|f| f.contains("[uniformity-"));
        found.into_iter().map(|f| format!("{}, subgroups of {size:?}: {f}", stem(path))).collect()
    }));
}

/// Returns the options for lowering for the device of an entry.
fn options(entry: &Entry) -> Options<'static> {
    Options {
        spec: entry.specialization(),
        subgroup_size: Some(entry.subgroup_size()),
        verify_each: true,
        ..Options::new(Target::Scalar)
    }
}

/// Every module with one entry of its group, each with another: lowered (with `ir::verify` after each pass) and accepted by
/// spirv-val.
#[test]
fn lowered_to_valid_scalar_code() {
    lowered_and_valid("scalar", &|member, entry, entries| member % entries == entry, &|group| group.count);
}

#[test]
#[ignore = "scripts/test.sh long runs it: every module with every entry takes minutes"]
fn lowered_to_valid_scalar_code_with_every_entry() {
    lowered_and_valid("scalar_every", &|_, _, _| true, &|group| group.count * group.entry.len());
}

/// Lowers modules with those of their entries that are chosen by the numbers of module and entry, and the number of entries:
/// as many of a group as are `expected`.
fn lowered_and_valid(
    name: &str,
    chosen: &(dyn Fn(usize, usize, usize) -> bool + Sync),
    expected: &dyn Fn(&Group) -> usize,
) {
    let Some(modules) = modules() else { return };
    let validator = spirv_val();
    let folder = scratch(name);
    let groups = groups();
    let done = AtomicUsize::new(0);
    let work: Vec<_> = members(&modules, &groups).into_iter().enumerate().collect();
    none(&in_parallel(&work, |(number, member)| {
        let count = member.group.entry.len();
        let entries: Vec<usize> = (0..count).filter(|entry| chosen(*number, *entry, count)).collect();
        let (count, failures) = lower_all(*member, &entries, validator.as_deref(), &folder.join(stem(member.path)));
        done.fetch_add(count, Ordering::Relaxed);
        failures
    }));
    let expected: usize = groups.iter().map(expected).sum();
    println!("{expected} modules lowered");
    assert_eq!(done.into_inner(), expected);
}

/// Lowers a module with some entries of its group; how many were, and what went wrong.
fn lower_all(member: Member<'_>, entries: &[usize], validator: Option<&Path>, folder: &Path) -> (usize, Vec<String>) {
    let name = stem(member.path);
    let module = read(member.path);
    let mut failures = Vec::new();
    std::fs::create_dir_all(folder).expect("writable");
    for n in entries {
        let entry = &member.group.entry[*n];
        match lower(&module, &options(entry)) {
            Err(e) => failures.push(format!("{name}, {}: {e}", entry.label())),
            Ok(new) => std::fs::write(folder.join(format!("{n}.spv")), binary::write(&new.module)).expect("writable"),
        }
    }
    let done = entries.len() - failures.len();
    // One process for all of a module's: it takes folders.
    if let Some(validator) = validator {
        let out = Command::new(validator).args(["--target-env", "vulkan1.3"]).arg(folder).output();
        let out = out.unwrap_or_else(|e| panic!("{}: {e}", validator.display()));
        if !out.status.success() {
            let said = [out.stdout, out.stderr].concat();
            failures.push(format!("{name}: spirv-val: {}", String::from_utf8_lossy(&said)));
        }
    }
    let _ = std::fs::remove_dir_all(folder);
    (done, failures)
}

/// The validator. `None` where there is none: said aloud, and a failure where tools are required.
fn spirv_val() -> Option<PathBuf> {
    let path = llama_modules::cache().join("bin/spirv-val");
    if path.exists() {
        return Some(path);
    }
    let why = format!("no spirv-val: run scripts/drivers.sh first ({} is missing)", path.display());
    assert!(std::env::var_os("COOP_REQUIRE_TOOLS").is_none_or(|value| value != "1"), "{why}");
    let _ = writeln!(std::io::stderr(), "NOT VALIDATED, {why}");
    None
}

/// spirv-val finds an invalid module in a folder, so that its silence about the others means something.
#[test]
fn an_invalid_module_in_a_folder_is_found() {
    let Some(validator) = spirv_val() else { return };
    let folder = scratch("invalid");
    let valid = testing::words("testdata/kernels/gemm_simple.spv");
    // Without the last instruction, OpFunctionEnd.
    let invalid = &valid[..valid.len() - 1];
    for (name, words) in [("0.spv", &valid[..]), ("1.spv", invalid), ("2.spv", &valid[..])] {
        let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        std::fs::write(folder.join(name), bytes).expect("writable");
    }
    let status = |what: &Path| {
        let out = Command::new(&validator).args(["--target-env", "vulkan1.3"]).arg(what).output().expect("it starts");
        out.status.success()
    };
    assert!(status(&folder.join("0.spv")));
    assert!(!status(&folder.join("1.spv")));
    assert!(!status(&folder));
}

/// The NV modules use more than SPV_KHR_cooperative_matrix; they are refused with a reason, never lowered in part.
#[test]
fn what_is_beyond_khr_lowers_with_its_defaults_too() {
    let Some(modules) = modules() else { return };
    let beyond: Vec<&PathBuf> = modules.iter().filter(|p| !is_khr(p)).collect();
    none(&in_parallel(&beyond, |path| {
        let mut options = Options::new(Target::Scalar);
        options.subgroup_size = Some(32);
        options.spec_defaults = true;
        match lower(&read(path), &options) {
            Ok(_) => vec![],
            Err(e) => vec![format!("{}: {e}", stem(path))],
        }
    }));
}

/// The cases of a module with their variants: a label, and the case.
fn cases(module: &str) -> Vec<(String, Case)> {
    let folder = testing::repository().join("testdata/llama");
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let names = entries.map_while(Result::ok).filter_map(|e| e.file_name().into_string().ok());
    let mut names: Vec<String> =
        names.filter(|n| n.ends_with(".toml") && n.split('.').next() == Some(module)).collect();
    names.sort();
    let mut out = Vec::new();
    for name in names {
        let case = testing::case(folder.join(&name));
        let variants: Vec<String> = case.variant.keys().cloned().collect();
        out.push((name.clone(), case.clone()));
        out.extend(variants.into_iter().map(|v| {
            let variant = case.clone().with_variant(&v).unwrap_or_else(|e| panic!("{name}, {v}: {e}"));
            (format!("{name}, {v}"), variant)
        }));
    }
    out
}

/// A SpecId's value in a case.
fn spec(case: &Case, id: u32) -> u32 {
    let spec = case.specialization().unwrap_or_else(|e| panic!("{e}"));
    match spec.get(id) {
        Some(SpecValue::Int(v)) => u32::try_from(v).unwrap_or_else(|_| panic!("SpecId {id} is {v}")),
        _ => panic!("the case gives SpecId {id} no value"),
    }
}

/// Runs a module; the validation layer and the guards behind buffers must have nothing to say.
fn run(device: &VulkanExecutor<'_>, module: &Module, case: &Case) -> Result<Outcome, String> {
    // These drivers compile when the first dispatch comes.
    let options = RunOptions { timeout: Duration::from_secs(240), ..RunOptions::default() };
    let outcome = device.run(&binary::write_words(module), case, &options).map_err(|e| e.to_string())?;
    let complaints: Vec<&str> = outcome.messages.iter().chain(&outcome.faults).map(String::as_str).collect();
    if complaints.is_empty() { Ok(outcome) } else { Err(complaints.join("\n")) }
}

/// Runs a module with its cases for subgroups of the device's size: lowered, and as it is where the device has the
/// matrices.
fn run_all(device: &VulkanExecutor<'_>, name: &str, cases: &[(String, Case)]) {
    let Some(modules) = modules() else { return };
    let path = modules.iter().find(|p| stem(p) == name).unwrap_or_else(|| panic!("there is no {name}"));
    let module = read(path);
    let matrices = !device.profile().khr_properties.is_empty();
    let mut failures = Vec::new();
    let mut runs = 0;
    for (label, case) in cases.iter().filter(|(_, c)| spec(c, SUBGROUP_SIZE) == device.profile().limits.subgroup_size) {
        runs += 1;
        let original = matrices.then(|| run(device, &module, case));
        if let Err(why) = run_lowered(device, &module, case, Lanes::default(), original.as_ref()) {
            failures.push(format!("{label}: {why}"));
        }
        if let Some(Err(why)) = original.map(|o| o.and_then(|o| as_expected(&o, case))) {
            failures.push(format!("{label}, original: {why}"));
        }
    }
    println!("{name}: {runs} cases on {}", device.name());
    none(&failures);
    assert!(runs >= 5 || !matrices, "{runs} cases");
    assert!(runs >= 1, "no case");
}

/// Runs a module lowered; what differs from what the case expects and from the original's outcome.
fn run_lowered(
    device: &VulkanExecutor<'_>,
    module: &Module,
    case: &Case,
    lanes: Lanes,
    original: Option<&Result<Outcome, String>>,
) -> Result<(), String> {
    let mut options = Options { lanes, ..Options::new(Target::Scalar) };
    options.spec = case.specialization().map_err(|e| e.to_string())?;
    options.subgroup_size = Some(spec(case, SUBGROUP_SIZE));
    let new = lower(module, &options).map_err(|e| e.to_string())?;
    let mut on_device = case.clone();
    on_device.subgroup_size = new.report.required_subgroup_size;
    on_device.full_subgroups = new.report.full_subgroups;
    let outcome = run(device, &new.module, &on_device)?;
    as_expected(&outcome, case)?;
    if let Some(Ok(original)) = original {
        all_equal(&original.compare(&outcome, case).map_err(|e| e.to_string())?)?;
    }
    Ok(())
}

fn as_expected(outcome: &Outcome, case: &Case) -> Result<(), String> {
    all_equal(&outcome.check(case).map_err(|e| e.to_string())?)
}

fn all_equal(differences: &[Difference]) -> Result<(), String> {
    let lines: Vec<String> = differences.iter().map(ToString::to_string).collect();
    if lines.is_empty() { Ok(()) } else { Err(lines.join("\n")) }
}

/// The modules name the subgroup in their barriers, and lanes by local index have none; in a workgroup of one subgroup those are
/// barriers of the workgroup.
#[test]
fn barriers_of_one_subgroup_of_several_are_refused_for_lanes_by_local_index() {
    let Some(modules) = modules() else { return };
    let groups = groups();
    for member in members(&modules, &groups).into_iter().filter(|m| stem(m.path) == "matmul_f16_cm1") {
        for entry in &member.group.entry {
            let options = Options { lanes: Lanes::LocalIndex, ..options(entry) };
            let one_subgroup = entry.spec["0"] == entry.subgroup_size();
            match lower(&read(member.path), &options) {
                Err(Error::Refused(r)) => assert_eq!((r.rule, one_subgroup), ("refused-lanes", false), "{r}"),
                Err(e) => panic!("{}: {e}", entry.label()),
                Ok(_) => assert!(one_subgroup, "{}: lowered", entry.label()),
            }
        }
    }
}

vulkan_test!(
    /// The small tile of 32 invocations and subgroups of 32, on a device whose subgroups have 8.
    Lavapipe,
    fn a_workgroup_of_one_subgroup_runs_with_lanes_by_local_index(device) {
        let Some(modules) = modules() else { return };
        for name in ["matmul_f16_cm1", "matmul_q4_0_f32_cm1"] {
            let path = modules.iter().find(|p| stem(p) == name).unwrap_or_else(|| panic!("there is no {name}"));
            let one = |case: &Case| spec(case, 0) == 32 && spec(case, SUBGROUP_SIZE) == 32;
            let cases: Vec<(String, Case)> = cases(name).into_iter().filter(|(_, case)| one(case)).collect();
            assert!(!cases.is_empty(), "{name} has no case");
            for (label, case) in cases {
                let result = run_lowered(device, &read(path), &case, Lanes::LocalIndex, None);
                result.unwrap_or_else(|why| panic!("{label}: {why}"));
            }
        }
    }
);

/// One test for each module and driver: a driver takes up to half a minute to compile one of these for the first time.
macro_rules! runs {
    ($($name:ident: $module:literal on $driver:ident, $cases:expr;)*) => {
        $(vulkan_test!($driver, fn $name(device) {
            run_all(device, $module, $cases);
        });)*
    };
}

runs! {
    f16_on_lavapipe: "matmul_f16_cm1" on Lavapipe, &cases("matmul_f16_cm1");
    q4_0_on_lavapipe: "matmul_q4_0_f32_cm1" on Lavapipe, &cases("matmul_q4_0_f32_cm1");
    q8_0_on_lavapipe: "matmul_q8_0_f32_cm1" on Lavapipe, &cases("matmul_q8_0_f32_cm1");
    // The small tile only: Mesa 22.3 keeps the result of compiling, but a first run should end in time as well.
    f16_on_debian_12: "matmul_f16_cm1" on Debian12, &small("matmul_f16_cm1");
    q4_0_on_debian_12: "matmul_q4_0_f32_cm1" on Debian12, &small("matmul_q4_0_f32_cm1");
    q8_0_on_debian_12: "matmul_q8_0_f32_cm1" on Debian12, &small("matmul_q8_0_f32_cm1");
}

/// The case with the small tile.
fn small(module: &str) -> Vec<(String, Case)> {
    cases(module).into_iter().filter(|(label, _)| *label == format!("{module}.toml")).collect()
}
