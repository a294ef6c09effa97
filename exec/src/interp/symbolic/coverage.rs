//! The blocks, ways of branches and rounds of loops that a run executed.

use std::collections::BTreeMap;

use coop_ir::hash::{FxHashMap, FxHashSet};
use coop_ir::{Block, Id, InstRef, Module, Op};

/// The ways of control in a run.
#[derive(Debug, Default)]
pub(in crate::interp) struct Trace {
    /// How often each block was executed, by its last instruction.
    pub blocks: FxHashMap<InstRef, u64>,
    /// The ways that branches took: the branch, and the last instruction of the block that it led to, or the label of the
    /// header of a loop that it led back to.
    pub ways: FxHashSet<(InstRef, InstRef)>,
    /// How often control went back to the header of each loop, by its label.
    pub backs: FxHashMap<InstRef, u64>,
}

/// The parts of a module that a run executed.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Blocks {
    /// The number of blocks executed.
    pub executed: usize,
    /// The ids of the others.
    pub missed: Vec<Id>,
    /// The number of ways of branches that control took.
    pub ways: usize,
    /// The others, of branches that were executed: from one block to another.
    pub missed_ways: Vec<(Id, Id)>,
    /// The number of loops of which control made at least three rounds in a row.
    pub loops: usize,
    /// The headers of the others that were executed.
    pub short_loops: Vec<Id>,
}

impl Blocks {
    pub(super) fn new(module: &Module, trace: &Trace) -> Blocks {
        let mut out = Blocks::default();
        for function in &module.functions {
            let labels: BTreeMap<Id, &Block> =
                function.blocks.iter().filter_map(|block| Some((module.inst(block.label).result?, block))).collect();
            for block in &function.blocks {
                let Some(id) = module.inst(block.label).result else { continue };
                let Some(last) = block.insts.last().filter(|last| trace.blocks.contains_key(last)) else {
                    out.missed.push(id);
                    continue;
                };
                out.executed += 1;
                out.ways_of(module, trace, (id, *last), &labels);
                if block.insts.iter().any(|at| module.inst(*at).op == Op::LoopMerge) {
                    let backs = trace.backs.get(&block.label).copied().unwrap_or_default();
                    let entries = trace.blocks[last].saturating_sub(backs);
                    // More ways back than entries: some entry has two.
                    if backs > entries { out.loops += 1 } else { out.short_loops.push(id) }
                }
            }
        }
        out
    }

    /// Notes the ways of the branch at the end of a block.
    fn ways_of(&mut self, module: &Module, trace: &Trace, (from, last): (Id, InstRef), labels: &BTreeMap<Id, &Block>) {
        let inst = module.inst(last);
        if inst.branch_condition().is_none() {
            return;
        }
        let mut targets: Vec<Id> = inst.ids().filter(|id| labels.contains_key(id)).collect();
        targets.sort_unstable();
        targets.dedup();
        for target in targets {
            let block = labels[&target];
            let ends = [Some(block.label), block.insts.last().copied()];
            if ends.into_iter().flatten().any(|end| trace.ways.contains(&(last, end))) {
                self.ways += 1;
            } else {
                self.missed_ways.push((from, target));
            }
        }
    }

    /// Returns the number of blocks of the module.
    pub fn all(&self) -> usize {
        self.executed + self.missed.len()
    }
}
