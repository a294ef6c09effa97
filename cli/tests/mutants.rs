//! Rules that are broken on purpose in generated modules are found by name. `cooprun mutants` does the same at length.

use coop_cli::smith::{Scores, score, score_device};
use coop_ir::smith::mutate::mutators;
use coop_ir::smith::{Dialect, Limits};

/// Modules of each dialect.
const MODULES: u64 = 5;

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
