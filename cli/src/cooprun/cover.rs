//! `cooprun prove --cover`: more cases, until every block, way of a branch and round of a loop is executed, or nothing leads to
//! those that are left.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use coop_exec::Case;
use coop_exec::cover::{Goal, Unreached, others, unreached};
use coop_exec::interp::{Arithmetic, Decisions, Interpreted, Symbolic};
use coop_exec::proof::{Proof, Verdict};
use coop_ir::{Module, binary};

use super::Failure;

/// Proves the lowering of a module with a case; the lowered module too. `None` if it is not lowered with that case.
pub(super) type Prove<'a> = dyn Fn(&Case) -> Result<Option<(Module, Proof)>, Failure> + 'a;

/// The proofs of a module with several cases.
#[derive(Default)]
pub(super) struct Covered {
    /// The difference from the first case, with the proof, and how many blocks, ways and loops it was the first to execute.
    pub proofs: Vec<(String, Proof, usize)>,
    /// The blocks, ways of branches and rounds of loops that none executed.
    pub left: Vec<Unreached>,
    /// The number of cases that were tried.
    pub tried: usize,
    /// For each lowered module, in the order of the proofs, what none of its proofs executed, and why.
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
            let _ = writeln!(text, "with {with}, {blocks} more: {}", first_line(proof));
        }
        let _ = write!(text, "{} cases tried; of the original {}", self.tried, counted(&self.left));
        for one in &self.left {
            let _ = write!(text, "\n  {one}");
        }
        for (number, left) in self.lowered.iter().enumerate().filter(|(_, left)| !left.is_empty()) {
            let _ = write!(text, "\nof the lowered module {} {}", number + 1, counted(left));
            for one in left {
                let _ = write!(text, "\n  {one}");
            }
        }
        text
    }
}

/// Says how much is left.
fn counted(left: &[Unreached]) -> String {
    let of = |kind: fn(&Goal) -> bool| left.iter().filter(|one| kind(&one.goal)).count();
    let blocks = of(|goal| matches!(goal, Goal::Block(_)));
    let ways = of(|goal| matches!(goal, Goal::Way(..)));
    let loops = of(|goal| matches!(goal, Goal::Rounds(_)));
    format!("{blocks} blocks, {ways} ways of branches and the third rounds of {loops} loops are not executed")
}

fn first_line(proof: &Proof) -> String {
    proof.to_string().lines().next().unwrap_or_default().to_owned()
}

/// Looks for cases in which more of a module is executed, and proves its lowering with each.
pub(super) fn cover(
    interpreted: &Interpreted,
    module: &Module,
    first: (&Case, &Module, &Proof),
    most: usize,
    prove: &Prove<'_>,
) -> Result<Covered, Failure> {
    let (case, lowered, proof) = first;
    let mut missed = Goal::missed(&proof.blocks[0]);
    let mut modules: BTreeMap<Vec<u32>, (usize, Module, BTreeSet<Goal>)> = BTreeMap::new();
    note(&mut modules, lowered, proof);
    let (mut covered, mut seen, mut bases) = (Covered::default(), BTreeSet::new(), vec![(String::new(), case.clone())]);
    while let Some((with, base)) = bases.pop() {
        for (name, other) in others(module, &base, &unreached(module, &missed)) {
            let name = if with.is_empty() { name } else { format!("{with}, {name}") };
            if covered.tried >= most || missed.is_empty() {
                break;
            }
            if !seen.insert(name.clone()) {
                continue;
            }
            covered.tried += 1;
            if !executes_more(interpreted, module, &other, &missed) {
                continue;
            }
            let Some((lowered, proof)) = prove(&other)? else { continue };
            let mut more = 0;
            if !matches!(proof.verdict, Verdict::NotProvable(_)) {
                let left = Goal::missed(&proof.blocks[0]);
                more = reached(&missed, &left);
                missed = still_missed(&missed, &left);
                note(&mut modules, &lowered, &proof);
                bases.push((name.clone(), other));
            }
            covered.proofs.push((name, proof, more));
        }
    }
    covered.left = unreached(module, &missed);
    let mut all: Vec<_> = modules.into_values().collect();
    all.sort_by_key(|of| of.0);
    let reasons = |(_, module, left): (usize, Module, BTreeSet<Goal>)| unreached(&module, &left);
    covered.lowered = all.into_iter().map(reasons).collect();
    Ok(covered)
}

/// Returns true if a run that missed this left a goal out. Of a block that it left out it says nothing about ways and rounds.
fn left_out(by: &BTreeSet<Goal>, goal: &Goal) -> bool {
    match goal {
        Goal::Block(_) => by.contains(goal),
        Goal::Way(from, _) | Goal::Rounds(from) => by.contains(goal) || by.contains(&Goal::Block(*from)),
    }
}

/// Returns what two runs both left out.
fn still_missed(one: &BTreeSet<Goal>, other: &BTreeSet<Goal>) -> BTreeSet<Goal> {
    one.union(other).filter(|goal| left_out(one, goal) && left_out(other, goal)).copied().collect()
}

/// Returns the number of goals that a run reached which missed this.
fn reached(goals: &BTreeSet<Goal>, by: &BTreeSet<Goal>) -> usize {
    goals.iter().filter(|goal| !left_out(by, goal)).count()
}

/// Records what of a lowered module a proof did not execute.
fn note(modules: &mut BTreeMap<Vec<u32>, (usize, Module, BTreeSet<Goal>)>, lowered: &Module, proof: &Proof) {
    let missed = Goal::missed(&proof.blocks[1]);
    let number = modules.len();
    let of = modules.entry(binary::write_words(lowered)).or_insert_with(|| (number, lowered.clone(), missed.clone()));
    of.2 = still_missed(&of.2, &missed);
}

/// Returns true if a run executes more than what was missed before, in a case that the module is made for.
fn executes_more(interpreted: &Interpreted, module: &Module, case: &Case, missed: &BTreeSet<Goal>) -> bool {
    // Without data, so that there are no terms: only what is executed counts.
    let symbolic = Symbolic {
        arithmetic: Arithmetic::Reals,
        seed: 0,
        data: vec![false; case.buffer.len()],
        modular: false,
        nearest: false,
        expressions: false,
        given: Decisions::default(),
    };
    let Ok((report, run)) = interpreted.run_symbolic(module, case, &symbolic) else { return false };
    !report.is_undefined() && reached(missed, &Goal::missed(&run.blocks)) > 0
}
