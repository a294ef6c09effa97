//! Planted errors: a sample is refuted or equivalent, and no proof is contradicted by a run. `cooplab proofs --planted` has
//! more of them.

use std::path::Path;

use coop_exec::interp::Arithmetic;
use coop_exec::proof::{Options, Verdict};
use coop_exec::testing::repository;
use coop_lab::planted::{Kind, sites};
use coop_lab::proofs::{List, Subject, Tally};

fn subjects(path: &Path, only: &[&str]) -> Vec<Subject> {
    let list = List::load(path).unwrap_or_else(|error| panic!("{error}"));
    let wanted = list.proof.iter().filter(|entry| only.iter().any(|name| entry.module.ends_with(name)));
    wanted
        .flat_map(|entry| list.subjects(entry).unwrap_or_else(|error| panic!("{error}")))
        .map(|subject| subject.unwrap_or_else(|refusal| panic!("{refusal}")))
        .collect()
}

fn options() -> Options {
    Options { arithmetic: Arithmetic::Reals, seed: 7, fixed: Vec::new(), explain: true }
}

#[test]
fn planted_errors_are_refuted_or_equivalent() {
    let list = repository().join("testdata/proofs.toml");
    let mut tally = Tally::default();
    for subject in subjects(&list, &["gemm_simple.spv", "functions.spv", "colmajor.spv", "gemm_i8.spv"]) {
        for trial in subject.plant(&options(), 6, 7).unwrap_or_else(|error| panic!("{}: {error}", subject.name)) {
            let what = format!("{}: {}", subject.name, trial.planted);
            assert_eq!(trial.contradicted, None, "{what} is proved");
            // What an ordinary run finds, a proof does not miss.
            assert!(trial.found.is_none() || trial.verdict != Verdict::Proved, "{what}: {:?}", trial.found);
            tally.add(&trial);
        }
    }
    let [planted, refuted, proved, open, _] = tally.total();
    assert!(
        planted >= 50 && refuted * 10 >= planted * 6 && open * 20 <= planted,
        "{planted} {refuted} {proved} {open}"
    );
}

/// Every kind of error finds a place in some lowering.
#[test]
fn all_kinds_of_errors_have_places() {
    let list = repository().join("testdata/proofs.toml");
    let all: Vec<Kind> =
        subjects(&list, &["gemm_tutorial.spv", "crosstype.spv", "matmul_nv2_q4_k.spv", "flash_nv2.spv"])
            .iter()
            .flat_map(|subject| sites(&subject.lowered))
            .map(|planted| planted.kind)
            .collect();
    let missing: Vec<Kind> = Kind::ALL.into_iter().filter(|kind| !all.contains(kind)).collect();
    assert_eq!(missing, []);
}
