//! Options of the lowering of other dialects, and instructions that are dropped or refused. (`smith.rs` runs
//! `testdata/dialects` without options.)

use coop_device::Profile;
use coop_exec::interp::{Config, Interpreted};
use coop_exec::{Case, Outcome};
use coop_ir::builder::Globals;
use coop_ir::{Inst, Module, Op, Operand, text};
use coop_passes::{Checked, Error, Lowered, Options, Refusal, Target, Tf32, lower};
use std::path::{Path, PathBuf};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata/dialects")
}

fn module(name: &str) -> Module {
    let source = std::fs::read_to_string(folder().join(name).with_extension("spvasm")).expect(name);
    text::parse(&source).unwrap_or_else(|e| panic!("{name}: {e}"))
}

fn case(name: &str) -> Case {
    Case::load(&folder().join(name).with_extension("toml")).unwrap_or_else(|e| panic!("{name}: {e}"))
}

fn lowered(module: &Module, target: Target, change: &dyn Fn(&mut Options<'_>)) -> Result<Lowered, Box<Refusal>> {
    let lavapipe = Profile::builtin("mesa-lavapipe");
    let mut options = Options::new(target);
    options.subgroup_size = Some(8);
    options.profile = lavapipe.as_ref().filter(|_| target != Target::Scalar);
    change(&mut options);
    lower(module, &options).map_err(|e| match e {
        Error::Refused(refusal) => refusal,
        bug => panic!("{bug}"),
    })
}

fn run(module: &Module, case: &Case) -> Outcome {
    let config = Config { subgroup_size: 8, ..Config::default() };
    let (buffers, report) = Interpreted { config }.run_module(module, case).unwrap_or_else(|e| panic!("{e}"));
    Interpreted::outcome(buffers, &report)
}

/// Lowers to each target and runs that; it must be as the case expects.
fn as_expected(file: &str, case_file: &str, targets: &[Target], change: &dyn Fn(&mut Options<'_>)) {
    let (module, case) = (module(file), case(case_file));
    for target in targets {
        let lowered = lowered(&module, *target, change).unwrap_or_else(|r| panic!("{case_file}: {r}"));
        let outcome = run(&lowered.module, &case);
        let wrong = outcome.check(&case).unwrap_or_else(|e| panic!("{case_file}: {e}"));
        let lines: Vec<String> = wrong.iter().map(ToString::to_string).chain(outcome.faults).collect();
        assert!(lines.is_empty(), "{case_file} ({target}):\n{}", lines.join("\n"));
    }
}

const BOTH: [Target; 2] = [Target::Scalar, Target::Khr];

#[test]
fn tf32_is_read_as_the_option_says() {
    for (name, tf32) in [("f32", Tf32::F32), ("truncate", Tf32::Truncate), ("rne", Tf32::Rne)] {
        as_expected("options/tf32", &format!("options/tf32-{name}"), &[Target::Scalar], &|o| o.tf32 = tf32);
    }
}

#[test]
fn offsets_and_bounds_count_what_the_option_says() {
    for (name, checked) in [("implementations", Checked::Implementations), ("prose", Checked::Prose)] {
        as_expected("options/checked", &format!("options/checked-{name}"), &BOTH, &|o| o.checked = checked);
    }
}

#[test]
fn a_function_object_is_applied_where_the_function_is_named() {
    let refusal = lowered(&module("options/apply"), Target::Scalar, &|_| {}).expect_err("no function is named");
    assert_eq!(refusal.rule, "refused-apply-function");
    assert!(refusal.remedy.contains("--apply-function"), "{refusal}");
    for name in ["bias", "twice"] {
        as_expected("options/apply", &format!("options/apply-{name}"), &BOTH, &|o| {
            o.apply_function = Some(name.to_owned());
        });
    }
    for wrong in ["main", "nobody"] {
        let result = lowered(&module("options/apply"), Target::Scalar, &|o| o.apply_function = Some(wrong.to_owned()));
        let refusal = result.expect_err("no such function");
        assert!(refusal.reason.contains(wrong), "{refusal}");
    }
}

#[test]
fn prefetches_and_cache_controls_are_dropped_and_counted() {
    let before = module("intel-elements");
    for target in BOTH {
        let Lowered { module, report } = lowered(&before, target, &|_| {}).unwrap_or_else(|r| panic!("{r}"));
        assert_eq!((report.dropped_prefetches, report.dropped_cache_controls), (2, 1));
        let left = text::print(&module, &text::PrintOptions::default()).text;
        for gone in ["INTEL", "CacheControl", "Prefetch"] {
            assert!(!left.contains(gone), "{gone} is left:\n{left}");
        }
    }
}

/// Modules of the size that an H100 has, which it runs lowered (and those of SPV_NV_cooperative_matrix as they are).
#[test]
fn modules_for_an_h100_are_as_expected_lowered_for_it() {
    let h100 = Profile::builtin("nvidia-h100").expect("a built-in profile");
    let files = std::fs::read_dir(folder().join("h100")).expect("there").flatten().map(|e| e.path());
    let names = files.filter(|p| p.extension().is_some_and(|e| e == "spvasm"));
    let mut names: Vec<String> =
        names.filter_map(|p| Some(format!("h100/{}", p.file_stem()?.to_string_lossy()))).collect();
    names.sort();
    assert!(names.len() >= 5, "{names:?}");
    for name in names {
        let (before, case) = (module(&name), case(&name));
        let mut all = vec![before.clone()];
        for target in BOTH {
            let mut options = Options::new(target);
            (options.profile, options.subgroup_size) = (Some(&h100), Some(32));
            all.push(lower(&before, &options).unwrap_or_else(|e| panic!("{name}: {e}")).module);
        }
        let config = Config { subgroup_size: 32, ..Config::default() };
        for module in all {
            let ran = Interpreted { config }.run_module(&module, &case);
            let (buffers, report) = ran.unwrap_or_else(|e| panic!("{name}: {e}"));
            let wrong = Interpreted::outcome(buffers, &report).check(&case).unwrap_or_else(|e| panic!("{name}: {e}"));
            assert!(wrong.is_empty(), "{name}: {}", wrong[0]);
        }
    }
}

#[test]
fn bfloat16_in_integers_becomes_bfloat16_where_the_device_has_it() {
    let before = module("h100/intel-bfloat16-factors");
    let on = |name: &str| {
        let profile = Profile::builtin(name).expect("a built-in profile");
        let mut options = Options::new(Target::Khr);
        options.profile = Some(&profile);
        lower(&before, &options)
    };
    let lowered = on("nvidia-h100").unwrap_or_else(|e| panic!("{e}")).module;
    let types: Vec<String> = lowered
        .globals_with(Op::TypeCooperativeMatrixKHR)
        .filter_map(|r| coop_ir::types::coop_mat(&lowered, lowered.inst(r).result?))
        .filter_map(|t| coop_ir::types::scalar(&lowered, t.component))
        .map(|s| s.to_string())
        .collect();
    assert!(types.contains(&"bf16".to_owned()) && !types.contains(&"u16".to_owned()), "{types:?}");
    let Err(Error::Refused(refusal)) = on("mesa-lavapipe") else { panic!("lowered for a device without bfloat16") };
    assert_eq!(refusal.rule, "refused-device-types");
}

#[test]
fn the_joint_matrices_of_old_are_refused_with_advice() {
    let mut old = module("intel-elements");
    let word = Globals::new(&old).u32(&mut old, 8);
    let id = old.fresh_id();
    let r = old.add(Inst::new(Op::TypeJointMatrixINTEL, None, Some(id), [Operand::Id(word); 6]));
    old.globals.push(r);
    let refusal = lowered(&old, Target::Scalar, &|_| {}).expect_err("refused");
    assert_eq!(refusal.rule, "refused-dialect");
    assert!(refusal.reason.contains("OpTypeJointMatrixINTEL") && refusal.remedy.contains("KHR"), "{refusal}");
}
