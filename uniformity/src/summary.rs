//! Summaries of large functions that need not be followed.
//!
//! A function can be summarized if it writes no variables except its own and has no instructions that invocations
//! execute together. Its result depends on its arguments and its reads only, so it is as uniform as those are. Small
//! functions are followed anyway, which tells more.

use super::leaves::LeafLayouts;
use super::memory::UNKNOWN_CLASS;
use super::memory::{Writes, root};
use super::shape::Grid;
use super::{Assumptions, Uniformity, inputs};
use coop_ir::decorate::Decorations;
use coop_ir::effects::{ExtSet, ExtSets};
use coop_ir::entry::CallGraph;
use coop_ir::grammar::Op;
use coop_ir::spv::StorageClass;
use coop_ir::{Function, Id, Inst, Module};

/// Functions with fewer instructions are followed.
const SMALL: usize = 120;

/// The uniformity of what a function reads besides its arguments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Summary {
    pub(super) uniformity: Uniformity,
    pub(super) assumes: Assumptions,
    size: usize,
}

/// The analyses from which summaries are made.
pub(super) struct Summarizer<'a> {
    pub(super) module: &'a Module,
    pub(super) calls: &'a CallGraph,
    pub(super) layouts: &'a LeafLayouts,
    pub(super) decorations: &'a Decorations,
    pub(super) writes: &'a Writes,
    pub(super) sets: &'a ExtSets,
}

impl Summarizer<'_> {
    /// Returns the summary of each function that is large and can be summarized. `recursive` functions have none.
    pub(super) fn run(&self, recursive: &[usize]) -> Vec<Option<Summary>> {
        let count = self.module.functions.len();
        let mut all: Vec<Option<Summary>> = vec![None; count];
        let mut done = vec![false; count];
        let mut open = vec![false; count];
        recursive.iter().for_each(|f| done[*f] = true);
        // Callees first.
        for first in 0..count {
            let mut stack = vec![first];
            while let Some(&f) = stack.last() {
                open[f] = true;
                match self.calls.callees(f).iter().copied().find(|c| !done[*c] && !open[*c]) {
                    Some(callee) if !done[f] => stack.push(callee),
                    _ => {
                        if !std::mem::replace(&mut done[f], true) {
                            all[f] = self.function(&self.module.functions[f], &all);
                        }
                        stack.pop();
                    }
                }
            }
        }
        all.into_iter().map(|s| s.filter(|s| s.size >= SMALL)).collect()
    }

    fn function(&self, f: &Function, callees: &[Option<Summary>]) -> Option<Summary> {
        let none = Assumptions::NONE;
        let mut summary = Summary { uniformity: Uniformity::Workgroup, assumes: none, size: 0 };
        if f.blocks.is_empty() {
            return None;
        }
        for r in f.blocks.iter().flat_map(|b| b.insts.iter()) {
            summary.size += 1;
            self.add(self.module.inst(*r), callees, &mut summary)?;
        }
        Some(summary)
    }

    fn class(&self, pointer: Id) -> Option<StorageClass> {
        self.module.type_of(pointer).and_then(|t| self.layouts.storage(t))
    }

    /// Adds an instruction; `None` if a function with it can't be summarized.
    fn add(&self, inst: &Inst, callees: &[Option<Summary>], out: &mut Summary) -> Option<()> {
        if inst.opaque || inst.ty.is_some_and(|t| self.layouts.matrix(t).is_some()) {
            return None;
        }
        match inst.op {
            Op::Load => self.read(inst, inst.accessed()?, out),
            Op::Store => {
                let to = root(self.module, inst.accessed()?)?;
                let own = self.class(to) == Some(StorageClass::Function);
                own.then_some(())
            }
            Op::FunctionCall => {
                let callee = self.calls.function(inst.callee()?)?;
                let summary = callees[callee]?;
                // The callee would store through pointers into variables of the caller.
                out.uniformity = out.uniformity.max(summary.uniformity);
                out.assumes = out.assumes.and(summary.assumes);
                out.size += summary.size;
                Some(())
            }
            Op::ExtInst => {
                let pointer = inst.ids_from(2).any(|id| self.class(id).is_some());
                let known = self.sets.of(inst) != ExtSet::Other;
                (known && !pointer).then_some(())
            }
            Op::Variable | Op::Phi | Op::Undef | Op::Nop => Some(()),
            // Control flow within the function.
            op if op.is_merge() || op.leaves_function() => Some(()),
            op if op.is_branch() || op.is_typed_access_chain() || op.is_line() => Some(()),
            op => (op.is_pure() || op.is_image_sample()).then_some(()),
        }
    }

    fn read(&self, inst: &Inst, pointer: Id, out: &mut Summary) -> Option<()> {
        let class = self.class(pointer).unwrap_or(UNKNOWN_CLASS);
        let from = root(self.module, pointer);
        match class {
            // A variable of its own, or one that an argument points to.
            StorageClass::Function => Some(()),
            StorageClass::Input => {
                let all = inputs::all(self.module, self.decorations, from?)?;
                // The size of the workgroup is not known here, so this is less than is known later.
                let grid = Grid::new(None, None, true);
                let uniformity = all.into_iter().map(|(number, c)| inputs::built_in(&grid, number, c).uniformity).max();
                out.uniformity = out.uniformity.max(uniformity.unwrap_or(Uniformity::Divergent));
                Some(())
            }
            _ => {
                let access = self.writes.load_modes.access(self.module, self.decorations, inst, pointer);
                let reading = self.writes.reading(self.module, self.decorations, (class, from), access);
                out.assumes = out.assumes.and(reading.assumes()?);
                Some(())
            }
        }
    }
}
