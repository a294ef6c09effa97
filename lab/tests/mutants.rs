//! Rules that are broken on purpose in generated modules are found by name. `cooplab mutants` does the same at length.

use coop_lab::campaign::{Scores, UNBROKEN, device_rules, score, score_device};
use coop_lab::generator::mutate::mutators;
use coop_lab::generator::{Dialect, Limits};
use std::collections::BTreeSet;

/// Modules of each dialect.
const MODULES: u64 = 5;

/// Rules that generated modules break because engines do, and lowered code is right all the same; and what Intel's compiler does
/// not take.
const ON_PURPOSE: [&str; 6] = [
    "access-pointer-misaligned",
    "access-stride-misaligned",
    "intel-checked-storage",
    "muladd-saturating-float",
    "portability-length-specialized",
    "portability-shared-order",
];

#[test]
fn broken_rules_are_found_by_name() {
    let mut scores = Scores::default();
    for dialect in Dialect::ALL {
        for seed in 0..MODULES {
            score(dialect, 7000 + seed, None, None, &mut scores);
            if dialect.has(Limits::Lavapipe) {
                score_device(dialect, 7000 + seed, None, &mut scores);
            }
        }
    }
    let (broken, found) = scores.total();
    assert!(broken > 1500 && scores.rules.len() > 140, "{}", scores.table());
    assert!(found as f64 >= 0.99 * broken as f64, "{}", scores.table());
    // Nothing is said against what they were before, but what generated modules do on purpose.
    let alarm = |k: &&(coop_validate::Level, &str)| k.0 > coop_validate::Level::Note && !ON_PURPOSE.contains(&k.1);
    let alarms = scores.valid.reported.keys().filter(alarm).count();
    assert!(alarms == 0 && scores.valid.modules >= 30, "{}", scores.table());
}

#[test]
fn every_mutator_breaks_a_rule_of_the_catalogue_once() {
    let all: Vec<&str> = mutators().iter().map(|m| m.rule).collect();
    for pair in all.windows(2) {
        assert!(pair[0] < pair[1], "{} is there twice", pair[1]);
    }
    for rule in all {
        assert!(coop_validate::RULES.iter().any(|r| r.id == rule), "there is no rule {rule}");
    }
}

/// Every rule of the catalogue is broken in some way, or it is said why not; the page has all of them.
#[test]
fn every_rule_is_broken_or_explained() {
    let broken: BTreeSet<&str> = mutators().iter().map(|m| m.rule).chain(device_rules()).collect();
    let explained: BTreeSet<&str> = UNBROKEN.iter().map(|u| u.0).collect();
    let all: BTreeSet<&str> = coop_validate::RULES.iter().map(|r| r.id).collect();
    assert!(broken.is_disjoint(&explained), "{:?}", broken.intersection(&explained));
    let either: BTreeSet<&str> = broken.union(&explained).copied().collect();
    assert_eq!(either, all);

    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/mutants.md");
    let page = std::fs::read_to_string(path).expect("docs/mutants.md");
    let rows: Vec<Vec<&str>> = page.lines().filter(|l| l.starts_with("| ")).map(|l| l.split('|').collect()).collect();
    let named: BTreeSet<&str> = rows.iter().map(|r| r[1].trim()).filter(|r| all.contains(r)).collect();
    assert_eq!(named, all, "docs/mutants.md is stale: `cooplab mutants --page`");
    let total = rows.iter().find(|r| r[1].starts_with(" all ")).expect("a row for all");
    assert!(total[3].trim().parse::<f64>().expect("a number") >= 99.0, "{total:?}");
}
