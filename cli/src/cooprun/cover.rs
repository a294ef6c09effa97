//! `cooprun prove --cover`: more cases, until every block is executed or nothing leads to those that are left.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use coop_exec::Case;
use coop_exec::cover::{Unreached, others, unreached};
use coop_exec::interp::{Config, Interpreted};
use coop_exec::proof::{Proof, Verdict};
use coop_ir::{Id, Module, binary};

use super::Failure;

/// Proves the lowering of a module with a case; the lowered module too. `None` if it is not lowered with that case.
pub(super) type Prove<'a> = dyn Fn(&Case) -> Result<Option<(Module, Proof)>, Failure> + 'a;

/// The proofs of a module with several cases.
#[derive(Default)]
pub(super) struct Covered {
    /// The difference from the first case, with the proof, and how many blocks it was the first to execute.
    pub proofs: Vec<(String, Proof, usize)>,
    /// The blocks that none executed.
    pub left: Vec<Unreached>,
    /// The number of cases that were tried.
    pub tried: usize,
    /// For each lowered module, in the order of the proofs, the blocks that none of its proofs executed, and why.
    pub lowered: Vec<Vec<Unreached>>,
}

impl Covered {
    /// Returns the first proof that is none.
    pub(super) fn refuted(&self) -> Option<&Proof> {
        self.proofs.iter().map(|(_, proof, _)| proof).find(|proof| matches!(proof.verdict, Verdict::Refuted(_)))
    }

    /// Returns the report.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        for (with, proof, blocks) in &self.proofs {
            let _ = writeln!(text, "with {with}, {blocks} more blocks: {}", first_line(proof));
        }
        let _ = write!(text, "{} cases tried; {} blocks of the original are not executed", self.tried, self.left.len());
        for one in &self.left {
            let _ = write!(text, "\n  {one}");
        }
        for (number, left) in self.lowered.iter().enumerate().filter(|(_, left)| !left.is_empty()) {
            let _ = write!(text, "\nlowered module {}: {} blocks are not executed", number + 1, left.len());
            for one in left {
                let _ = write!(text, "\n  {one}");
            }
        }
        text
    }
}

fn first_line(proof: &Proof) -> String {
    proof.to_string().lines().next().unwrap_or_default().to_owned()
}

/// Looks for cases in which blocks of a module are executed that were not, and proves its lowering with each.
pub(super) fn cover(
    interpreted: &Interpreted,
    module: &Module,
    first: (&Case, &Module, &Proof),
    most: usize,
    prove: &Prove<'_>,
) -> Result<Covered, Failure> {
    let (case, lowered, proof) = first;
    let mut missed: BTreeSet<Id> = proof.blocks[0].missed.iter().copied().collect();
    let mut modules: BTreeMap<Vec<u32>, (usize, Module, BTreeSet<Id>)> = BTreeMap::new();
    note(&mut modules, lowered, proof);
    let (mut covered, mut seen, mut bases) = (Covered::default(), BTreeSet::new(), vec![(String::new(), case.clone())]);
    while let Some((with, base)) = bases.pop() {
        let ids: Vec<Id> = missed.iter().copied().collect();
        for (name, other) in others(module, &base, &unreached(module, &ids)) {
            let name = if with.is_empty() { name } else { format!("{with}, {name}") };
            if covered.tried >= most || missed.is_empty() {
                break;
            }
            if !seen.insert(name.clone()) {
                continue;
            }
            covered.tried += 1;
            let new = executed(interpreted, module, &other, &missed);
            if new.is_empty() {
                continue;
            }
            let Some((lowered, proof)) = prove(&other)? else { continue };
            let before = missed.len();
            if !matches!(proof.verdict, Verdict::NotProvable(_)) {
                missed.retain(|id| proof.blocks[0].missed.contains(id));
                note(&mut modules, &lowered, &proof);
                bases.push((name.clone(), other));
            }
            covered.proofs.push((name, proof, before - missed.len()));
        }
    }
    let ids: Vec<Id> = missed.into_iter().collect();
    covered.left = unreached(module, &ids);
    let mut all: Vec<_> = modules.into_values().collect();
    all.sort_by_key(|of| of.0);
    let reasons = |(_, module, left): (usize, Module, BTreeSet<Id>)| {
        let left: Vec<Id> = left.into_iter().collect();
        unreached(&module, &left)
    };
    covered.lowered = all.into_iter().map(reasons).collect();
    Ok(covered)
}

/// Records which blocks of a lowered module a proof did not execute.
fn note(modules: &mut BTreeMap<Vec<u32>, (usize, Module, BTreeSet<Id>)>, lowered: &Module, proof: &Proof) {
    let missed: BTreeSet<Id> = proof.blocks[1].missed.iter().copied().collect();
    let number = modules.len();
    let of = modules.entry(binary::write_words(lowered)).or_insert_with(|| (number, lowered.clone(), missed.clone()));
    of.2.retain(|id| missed.contains(id));
}

/// Returns those of some blocks that a run executes; none if the case is not one that the module is made for.
fn executed(interpreted: &Interpreted, module: &Module, case: &Case, blocks: &BTreeSet<Id>) -> Vec<Id> {
    let config = Config { coverage: true, ..interpreted.config };
    let Ok((_, report)) = (Interpreted { config }).run_module(module, case) else { return Vec::new() };
    if report.is_undefined() {
        return Vec::new();
    }
    let Some(coverage) = report.coverage else { return Vec::new() };
    let all = module.functions.iter().flat_map(|function| &function.blocks);
    // Branches are not recorded: a proof sees the blocks that have nothing else.
    let reached =
        all.filter(|block| block.insts.iter().any(|at| (0..MOST_INVOCATIONS).any(|lane| coverage.executed(*at, lane))));
    reached.filter_map(|block| module.inst(block.label).result).filter(|label| blocks.contains(label)).collect()
}

/// The most invocations of a workgroup.
const MOST_INVOCATIONS: usize = 1024;
