//! The modules of `testdata/hardware` in the interpreter: nothing that they do is undefined, what comes out is what was recorded on a
//! device, and whatever way products are added up stays within the bounds that are derived.

use std::collections::BTreeSet;

use coop_exec::interp::{Config, Interpreted, MulAddMode, Placement, Semantics};
use coop_exec::record::{self, Ended, Known, Recording, Run, Subject};
use coop_exec::{Bounds, Case, Outcome, testing};
use coop_ir::Module;

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

/// What differs from the device, and what is known to.
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
    assert!(agree >= 650, "{agree} runs agree");
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
