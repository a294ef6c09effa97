//! llama.cpp's 125 modules with workgroup-scope matrices, lowered to scalar code: all of them, with the constants that the
//! engine gives them, become valid SPIR-V; and with the cases in `testdata/llama/cm2` they give the right answers, in the
//! interpreter, on the current lavapipe and on Debian 12's. Lowered to subgroup matrices, cases give the right answers in the
//! interpreter.
//!
//! `scripts/llama-shaders.sh` compiles the modules; without them the tests say that they were skipped, and fail if
//! `COOP_REQUIRE_LLAMA` is 1.

mod llama_modules;

use coop_device::Profile;
use coop_exec::interp::{Config, Interpreted, Placement};
use coop_exec::vulkan::VulkanExecutor;
use coop_exec::{Case, Executor, Outcome, RunOptions, vulkan_test};
use coop_ir::{Module, Op, binary};
use coop_passes::{Lowered, Options, Target, lower};
use coop_validate::testing::complaints;
use llama_modules::{cache, groups_of, in_parallel, members, modules, none, read, repository, stem};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const MODULES: usize = 125;

/// Every module with an entry of its group, and those of the small groups with all: lowered for the H100, accepted by our
/// rules and by spirv-val.
#[test]
fn all_are_lowered_to_valid_scalar_code() {
    let Some(modules) = modules() else { return };
    let groups = groups_of("spec_cm2.toml");
    let modules: Vec<PathBuf> = modules.into_iter().filter(|p| stem(p).ends_with("_cm2")).collect();
    let members = members(&modules, &groups);
    assert_eq!(members.len(), MODULES);
    assert_eq!(groups.iter().map(|g| g.count).sum::<usize>(), MODULES);
    let profile = Profile::builtin("nvidia-h100").expect("a profile");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("llama_cases");
    // What an earlier run left behind.
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("writable");
    let work: Vec<_> = members.iter().enumerate().collect();
    none(&in_parallel(&work, |(at, member)| {
        let module = read(member.path);
        let mut failures = Vec::new();
        let entries = &member.group.entry;
        let mine = |n: usize| member.group.count <= 6 || n == at % entries.len();
        for (n, entry) in entries.iter().enumerate().filter(|(n, _)| mine(*n)) {
            let label = format!("{}, {}", stem(member.path), entry.label());
            let mut options = Options::new(Target::Scalar);
            (options.spec, options.profile) = (entry.specialization(), Some(&profile));
            match lower(&module, &options) {
                Err(e) => failures.push(format!("{label}: {e}")),
                Ok(new) => {
                    failures.extend(complaints(&new.module).into_iter().map(|c| format!("{label}: {c}")));
                    let shared = new.report.added_shared_memory;
                    if shared == 0 || shared > profile.limits.max_compute_shared_memory_size {
                        failures.push(format!("{label}: {shared} bytes of shared memory"));
                    }
                    let file = folder.join(format!("{}.{n}.spv", stem(member.path)));
                    std::fs::write(file, binary::write(&new.module)).expect("writable");
                }
            }
        }
        failures
    }));
    let validator = cache().join("bin/spirv-val");
    if !validator.exists() {
        assert!(std::env::var_os("COOP_REQUIRE_TOOLS").is_none(), "no spirv-val: run scripts/drivers.sh first");
        eprintln!("SKIPPED: no spirv-val: run scripts/drivers.sh first");
        return;
    }
    let out = Command::new(validator).args(["--target-env", "vulkan1.3"]).arg(&folder).output().expect("it runs");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&[out.stdout, out.stderr].concat()));
    let _ = std::fs::remove_dir_all(&folder);
}

/// A case of `testdata/llama/cm2`, and its module. `None` where the modules have not been compiled.
fn load(name: &str) -> Option<(Module, Case)> {
    let case = repository().join(format!("testdata/llama/cm2/{name}.toml"));
    let case = Case::load(&case).unwrap_or_else(|e| panic!("{}: {e}", case.display()));
    let modules = modules()?;
    let wanted = name.split('.').next().unwrap_or_default();
    let path = modules.iter().find(|p| stem(p) == wanted).unwrap_or_else(|| panic!("no module {wanted}"));
    Some((read(path), case))
}

fn lowered(target: Target, module: &Module, case: &Case, profile: Option<&Profile>) -> Result<Lowered, String> {
    let mut options = Options::new(target);
    options.spec = case.specialization().map_err(|e| e.to_string())?;
    options.profile = profile;
    options.subgroup_size = case.subgroup_size;
    lower(module, &options).map_err(|e| e.to_string())
}

/// Describes the differences of an outcome from what the case expects; empty if there are none.
fn wrong(outcome: Result<Outcome, coop_exec::Error>, case: &Case) -> Vec<String> {
    let outcome = match outcome {
        Ok(o) => o,
        Err(e) => return vec![e.to_string()],
    };
    assert!(!case.expect.is_empty(), "a case that expects nothing");
    let mut out: Vec<String> = outcome.messages.iter().chain(&outcome.faults).cloned().collect();
    match outcome.check(case) {
        Ok(differences) => out.extend(differences.iter().map(|d| d.to_string())),
        Err(e) => out.push(e.to_string()),
    }
    out
}

/// Cases of many formats: factors in f32, f16, bf16 and blocks, sums in f32 and f16, one matrix of many picked for each
/// row, batches, edges, addresses that are odd multiples of a component.
const CASES: [&str; 18] = [
    "matmul_f16_cm2",
    "matmul_f16_cm2.unaligned",
    "matmul_f16_cm2.batches",
    "matmul_f16_f16acc_cm2",
    "matmul_f32_f16_cm2",
    "matmul_bf16_cm2",
    "matmul_q4_0_f16_cm2",
    "matmul_q8_0_f16_cm2",
    "matmul_q4_k_f16_cm2",
    "matmul_q6_k_f16_cm2",
    "matmul_iq4_xs_f16_cm2",
    "matmul_tq2_0_f16_cm2",
    "matmul_id_subgroup_f16_cm2",
    "matmul_id_subgroup_q4_k_f16_cm2",
    "matmul_id_subgroup_iq4_nl_f16_cm2",
    "matmul_id_subgroup_bf16_cm2",
    "matmul_f16_cm2.odd-batches",
    "flash_attn_f32_f16_cm2.odd-masks",
];

#[test]
fn the_right_answers_in_the_interpreter() {
    none(&in_parallel(&CASES, |name| {
        let Some((module, case)) = load(name) else { return Vec::new() };
        interpret(Target::Scalar, "nvidia-h100", name, (&module, &case), &[Placement::default()])
    }));
}

/// Returns where a case that is lowered for a device differs in the interpreter from what it should give.
fn interpret(
    target: Target,
    profile: &str,
    name: &str,
    (module, case): (&Module, &Case),
    placements: &[Placement],
) -> Vec<String> {
    let lowered = match lowered(target, module, case, Profile::builtin(profile).as_ref()) {
        Ok(lowered) => lowered,
        Err(e) => return vec![format!("{name}, {profile}: {e}")],
    };
    let words = binary::write_words(&lowered.module);
    let of = |placement: &Placement| {
        let config = Config { placement: *placement, ..Config::default() };
        let outcome = Interpreted { config }.run(&words, case, &RunOptions::default());
        let wrong = wrong(outcome, case).into_iter();
        wrong.map(|w| format!("{name}, {profile}, {placement:?}: {w}")).collect::<Vec<_>>()
    };
    placements.iter().flat_map(of).collect()
}

/// Cases whose factors are fetched ahead, or can't be: rounds that are skipped, in the middle too; edges, odd addresses, slices,
/// types that are decoded.
const AHEAD: [&str; 19] = [
    "flash_attn_f32_f16_cm2",
    "flash_attn_f32_f16_cm2.bias",
    "flash_attn_f32_f16_cm2.causal",
    "flash_attn_f32_f16_cm2.edge",
    "flash_attn_f32_f16_cm2.f32",
    "flash_attn_f32_f16_cm2.groups",
    "flash_attn_f32_f16_cm2.heads-72-48",
    "flash_attn_f32_f16_cm2.hole",
    "flash_attn_f32_f16_cm2.odd-masks",
    "flash_attn_f32_f16_cm2.q8-0-q4-0",
    "flash_attn_f32_f16_cm2.summary",
    "flash_attn_f32_f16_f16acc_cm2",
    "matmul_f16_cm2",
    "matmul_f16_cm2.unaligned",
    "matmul_f16_cm2.odd-batches",
    "matmul_f16_f16acc_cm2",
    "matmul_f32_f16_cm2",
    "matmul_q4_0_f16_cm2",
    "matmul_q4_k_f16_cm2",
];

#[test]
fn subgroup_matrices_give_the_right_answers_in_the_interpreter() {
    none(&in_parallel(&AHEAD, |name| {
        let Some((module, case)) = load(name) else { return Vec::new() };
        // Attention has a version for each of these.
        let placements = [Placement::BlockedRows, Placement::Fragments];
        let placements = if name.starts_with("flash") { &placements[..] } else { &placements[..1] };
        let mut out = interpret(Target::Khr, "nvidia-h100", name, (&module, &case), placements);
        // Larger subgroups, and fewer of them.
        let case = Case { subgroup_size: Some(64), ..case };
        out.extend(interpret(Target::Khr, "amd-rdna3", name, (&module, &case), &placements[..1]));
        out
    }));
}

/// Attention that is lowered for NVIDIA's driver has two versions: the one is executed where elements are held as that driver
/// holds them, the other everywhere else.
#[test]
fn the_version_that_suits_is_executed() {
    let Some((module, case)) = load("flash_attn_f32_f16_cm2") else { return };
    let lowered =
        lowered(Target::Khr, &module, &case, Profile::builtin("nvidia-h100").as_ref()).expect("it is lowered");
    let m = &lowered.module;
    let named = |r| m.inst(r).string(1).is_some_and(|(name, _)| name.ends_with("_in_registers"));
    let id = m.globals_with(Op::Name).find(|r| named(*r)).and_then(|r| m.inst(r).id(0));
    let version = m.functions.iter().find(|f| m.inst(f.def).result == id).expect("a version");
    for (placement, suits) in
        [(Placement::Fragments, true), (Placement::BlockedRows, false), (Placement::Permuted, false)]
    {
        let config = Config { placement, coverage: true, ..Config::default() };
        let (_, report) = Interpreted { config }.run_module(m, &case).expect("it runs");
        assert!(!report.is_undefined(), "{placement:?}: {:?}", report.findings);
        let coverage = report.coverage.expect("it was asked for");
        let executed = version.insts().any(|at| coverage.executed(at, 0));
        assert_eq!(executed, suits, "{placement:?}");
    }
}

fn on_device(device: &VulkanExecutor<'_>, cases: &[&str]) {
    let mut failures = Vec::new();
    for name in cases {
        let Some((module, case)) = load(name) else { return };
        match lowered(Target::Scalar, &module, &case, Some(device.profile())) {
            Ok(lowered) => {
                let options = RunOptions { timeout: Duration::from_secs(300), ..RunOptions::default() };
                let outcome = device.run(&binary::write_words(&lowered.module), &case, &options);
                failures.extend(wrong(outcome, &case).into_iter().map(|w| format!("{name}: {w}")));
            }
            Err(e) => failures.push(format!("{name}: {e}")),
        }
    }
    none(&failures);
}

vulkan_test!(
    Lavapipe,
    fn the_right_answers_on_lavapipe(device) {
        on_device(device, &CASES[..8]);
    }
);

vulkan_test!(
    Lavapipe,
    fn more_right_answers_on_lavapipe(device) {
        on_device(device, &CASES[8..13]);
    }
);

vulkan_test!(
    #[ignore = "scripts/test.sh long runs it: the driver compiles these modules for a minute"]
    Lavapipe,
    fn other_right_answers_on_lavapipe(device) {
        on_device(device, &CASES[13..]);
    }
);

vulkan_test!(
    #[ignore = "scripts/test.sh long runs it: Mesa 22.3 compiles attention for a minute"]
    Debian12,
    fn odd_masks_on_debian_12(device) {
        on_device(device, &[CASES[17]]);
    }
);

vulkan_test!(
    Debian12,
    fn the_right_answers_on_debian_12(device) {
        on_device(device, &[CASES[0], CASES[5], CASES[6], CASES[12], CASES[16]]);
    }
);
