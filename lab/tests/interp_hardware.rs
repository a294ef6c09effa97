//! The modules of `testdata/hardware` in the interpreter: nothing that they do is undefined, what comes out is what was recorded on a
//! device, and whatever way products are added up stays within the bounds that are derived; where lavapipe has the
//! matrices, it says the same.

use std::collections::BTreeSet;

use coop_exec::case::Number;
use coop_exec::interp::{Config, Interpreted, MulAddMode, Placement, Semantics};
use coop_exec::vulkan::VulkanExecutor;
use coop_exec::{Bounds, Case, Outcome, testing, vulkan_test};
use coop_ir::Module;
use coop_lab::record::{self, Ended, Known, Recording, Run, Subject};

const FOLDER: &str = "testdata/hardware";

/// Every module with a case that was recorded.
fn each(mut f: impl FnMut(&Subject, &Module, &Case, &Run)) {
    let folder = testing::repository().join(FOLDER);
    for subject in record::subjects(&folder).unwrap() {
        let path = folder.join("h100").join(format!("{}.rec", subject.name));
        if !path.exists() {
            continue;
        }
        let recording = Recording::load(&path).unwrap();
        let words = testing::words(&subject.module);
        assert_eq!(recording.module, record::hash_of_words(&words), "{}: record it again", subject.name);
        let module = coop_ir::binary::read_words(&words).unwrap();
        for path in &subject.cases {
            for (variant, case) in Case::load(path).unwrap().all_variants().unwrap() {
                let run = recording.run(&record::case_name(path), variant.as_deref(), &case).unwrap();
                let run = run.unwrap_or_else(|| panic!("{} {variant:?} was not recorded", path.display()));
                f(&subject, &module, &case, run);
            }
        }
    }
}

fn outcome(module: &Module, case: &Case, config: Config) -> Outcome {
    let (buffers, report) = Interpreted { config }.run_module(module, case).unwrap();
    Interpreted::outcome(buffers, &report)
}

/// Compares the interpreter with the device; known differences must still show.
fn replay(semantics: Semantics, placement: Placement) {
    let config = Config { semantics, placement, ..Config::default() };
    let known = Known::load(&testing::repository().join(FOLDER).join("h100")).unwrap();
    let mut failures = Vec::new();
    let (mut agree, mut differ) = (0, BTreeSet::new());
    each(|subject, module, case, run| {
        let outcome = outcome(module, case, config);
        failures.extend(outcome.faults.iter().map(|fault| format!("{}: {run}: {fault}", subject.name)));
        let Ended::Ran(kept) = &run.ended else { return };
        let mut differences = record::differences(case, kept, &outcome, None).unwrap();
        if !differences.is_empty() {
            let bounds = Bounds::derive(module, case, config);
            differences = record::differences(case, kept, &outcome, Some((&bounds, 1))).unwrap();
        }
        match (differences.first(), known.why(&subject.name, run, semantics == Semantics::Nvidia)) {
            (None, _) => agree += 1,
            (Some(_), Some(_)) => drop(differ.insert(format!("{}: {run}", subject.name))),
            (Some(difference), None) => failures.push(format!("{}: {run}: {difference}", subject.name)),
        }
    });
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(agree >= 710, "{agree} runs agree");
    let mut listed: BTreeSet<String> = known.faults.into_keys().collect();
    if semantics == Semantics::Spec {
        listed.extend(known.observed.into_keys());
    }
    assert_eq!(differ, listed, "what differs is not what h100/known.toml lists");
}

#[test]
fn as_the_specifications_say() {
    replay(Semantics::Spec, Placement::Permuted);
}

#[test]
fn as_a_device_does() {
    replay(Semantics::Nvidia, Placement::Replicated);
}

#[test]
fn what_is_known_is_explained() {
    let page = std::fs::read_to_string(testing::repository().join("docs/hardware.md")).unwrap();
    let known = Known::load(&testing::repository().join(FOLDER).join("h100")).unwrap();
    for (run, section) in known.observed.iter().chain(&known.faults) {
        assert!(page.contains(&format!("\n### {section}\n")), "{run}: docs/hardware.md has no section {section}");
    }
}

/// Bounds hold for every way to add up; where every order gives the same, there are none.
#[test]
fn bounds_hold() {
    let mut failures = Vec::new();
    let mut inexact = 0;
    each(|subject, module, case, run| {
        let name = &run.to_string();
        let sums = ["muladd", "conv", "nv1"].iter().any(|sums| subject.name.starts_with(sums));
        if !sums || [".large", ".workgroup"].iter().any(|large| name.contains(large)) {
            return;
        }
        let exact = outcome(module, case, Config::default());
        let bounds = Bounds::derive(module, case, Config::default());
        for mul_add in [MulAddMode::Sequential, MulAddMode::Lowest, MulAddMode::Highest] {
            let other = outcome(module, case, Config { mul_add, ..Config::default() });
            inexact += usize::from(!other.compare(&exact, case).unwrap().is_empty());
            let differences = other.compare_within(&exact, case, &bounds, 1).unwrap();
            failures.extend(differences.first().map(|d| format!("{}: {name}, {mul_add:?}: {d}", subject.name)));
            if run.variant.is_none() {
                // Inputs are small integers and halves.
                let differences = other.compare(&exact, case).unwrap();
                failures.extend(differences.first().map(|d| format!("{}: {name}, {mul_add:?}: {d}", subject.name)));
            }
        }
    });
    assert!(failures.is_empty(), "{} failures\n{}", failures.len(), failures.join("\n"));
    assert!(inexact >= 50, "{inexact} runs were inexact");
}

/// The modules that lavapipe has the matrices for, with the spec constants that make theirs 8 x 8 (x 8): it has no
/// tensor layouts, no workgroup scope, no bf16, and no products of unlike integers. `element.struct`, which ends its compiler, is
/// in `drivers.rs`.
const SMALL: [(&str, &[&str], &[u32]); 13] = [
    ("move", &["f16", "f16x2", "f16x4", "f32x4", "s8x4", "u8", "s32x2", "u8-in-u32", "shared", "physical"], &[1, 2]),
    ("length", &[""], &[1, 2]),
    (
        "convert",
        &[
            "f16-f32", "f32-f16", "f32-s32", "f16-u32", "s32-f32", "u32-f16", "s32-u32", "s8-f16", "u8-f16", "f16-s8",
            "f16-u8",
        ],
        &[1, 2],
    ),
    ("use", &["f16", "f32-f16", "s32-s8", "u32-u8"], &[1, 2]),
    ("arith", &["f16", "f32", "s32", "u32", "s8", "u8", "a"], &[1, 2]),
    ("divide", &["f16", "f32", "s32", "u8"], &[1, 2]),
    ("composite", &["f16", "f32", "s32"], &[1, 2]),
    ("element", &["f16", "f32", "s32", "a", "s8"], &[1, 2]),
    ("muladd", &["f16", "f16-f32", "s8", "u8"], &[1, 2, 3]),
    ("alias", &[""], &[]),
    ("push", &[""], &[1, 2]),
    ("varptr", &[""], &[1, 2]),
    ("null", &[""], &[1, 2]),
];

/// The variants that differ on lavapipe: it leaves conversions there and back out, and sums with zero
/// (`docs/drivers.md`).
const DIFFERENT: [(&str, &str); 7] = [
    ("convert.f32-f16", "special"),
    ("convert.f32-f16", "subnormal"),
    ("convert.f32-f16", "ties"),
    ("convert.f32-f16", "uniform"),
    ("convert.s32-f32", "bits"),
    ("convert.u32-f16", "ramp"),
    ("null", "special"),
];

/// The small modules on lavapipe and in the interpreter: all variants of their cases, or the case and one.
fn on_lavapipe(device: &VulkanExecutor<'_>, all: bool) {
    let folder = testing::repository().join(FOLDER);
    let subjects = record::subjects(&folder).unwrap();
    let names = |(family, kinds, sizes): &(&str, &[&str], &'static [u32])| -> Vec<(String, &'static [u32])> {
        kinds.iter().map(|k| (format!("{family}.{k}").trim_end_matches('.').to_owned(), *sizes)).collect()
    };
    let (mut ran, mut failures) = (BTreeSet::new(), Vec::new());
    for (name, sizes) in SMALL.iter().flat_map(names) {
        let subject = subjects.iter().find(|s| s.name == name).unwrap_or_else(|| panic!("{name} is not there"));
        let words = testing::words(&subject.module);
        let module = coop_ir::binary::read_words(&words).unwrap();
        let cases = Case::load(&subject.cases[0]).unwrap().all_variants().unwrap();
        let some = if all { cases.len() } else { 2 };
        let skipped = cases.len().saturating_sub(some);
        for (index, (variant, mut case)) in cases.into_iter().enumerate() {
            if index > 0 && index <= skipped {
                continue;
            }
            case.spec.extend([&[0], sizes].concat().iter().map(|id| (id.to_string(), Number::Int(8))));
            let config = Config { subgroup_size: 8, ..Config::default() };
            let wanted = outcome(&module, &case, config);
            let got = testing::run(device, &words, &case).unwrap_or_else(|e| panic!("{name} {variant:?}: {e}"));
            let complaints = wanted.faults.iter().chain(&got.messages).chain(&got.faults);
            failures.extend(complaints.map(|fault| format!("{name} {variant:?}: {fault}")));
            let bounds = Bounds::derive(&module, &case, config);
            let found = got.compare_within(&wanted, &case, &bounds, 1).unwrap();
            let known = DIFFERENT.iter().any(|(n, v)| *n == name && Some(*v) == variant.as_deref());
            match (found.first(), known) {
                (Some(d), false) => failures.push(format!("{name} {variant:?}: {d}")),
                (None, true) => failures.push(format!("{name} {variant:?} does not differ any more")),
                _ => {}
            }
            ran.insert((name.clone(), variant));
        }
    }
    assert!(failures.is_empty(), "{} of {}\n{}", failures.len(), ran.len(), failures.join("\n"));
    let all_ran = DIFFERENT.iter().all(|(n, v)| ran.contains(&((*n).to_owned(), Some((*v).to_owned()))));
    assert!(all_ran || !all, "a variant that differs is not there");
    assert!(ran.len() >= if all { 250 } else { 95 }, "{} runs", ran.len());
}

vulkan_test!(Lavapipe, fn as_lavapipe_does(device) { on_lavapipe(device, false) });

vulkan_test!(
    #[ignore = "scripts/test.sh long runs it: all variants, some minutes"]
    Lavapipe,
    fn as_lavapipe_does_in_all_variants(device) { on_lavapipe(device, true) }
);
