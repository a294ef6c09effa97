//! Flags of instructions that every analysis of an entry point uses, computed once for a module.

use super::instructions::barrier;
use super::leaves::LeafLayouts;
use super::memory::Writes;
use coop_ir::{IdSet, Inst, InstRef, Module};

/// A set of flags for each instruction of a function's body.
pub(super) struct InstFlags(Vec<u8>);

/// The result or an operand is, or contains, a matrix.
const MATRIX: u8 = 1;
/// Invocations wait at the instruction.
const BARRIER: u8 = 2;
/// The instruction writes shared memory.
const SHARED: u8 = 4;

impl InstFlags {
    pub(super) fn new(module: &Module, layouts: &LeafLayouts, writes: &Writes) -> InstFlags {
        let mut marks = vec![0; module.arena_len()];
        writes.shared().for_each(|r| marks[r.index()] |= SHARED);
        let matrices = matrices(module, layouts);
        module.in_blocks(|r, inst| {
            if barrier(inst).is_some() {
                marks[r.index()] |= BARRIER;
            }
            if let Some(matrices) = &matrices {
                let own = inst.result.is_some_and(|id| matrices.contains(id));
                if own || inst.ids().any(|id| matrices.contains(id)) {
                    marks[r.index()] |= MATRIX;
                }
            }
        });
        InstFlags(marks)
    }

    /// Returns true if an instruction's result or an operand is, or contains, a matrix.
    pub(super) fn has_matrix(&self, r: InstRef) -> bool {
        self.0[r.index()] & MATRIX != 0
    }

    /// Returns true if an instruction by itself must be executed together.
    pub(super) fn is_collective(&self, r: InstRef) -> bool {
        self.0[r.index()] & (MATRIX | BARRIER) != 0
    }

    /// Returns true if an instruction is a barrier, or writes shared memory.
    pub(super) fn is_event(&self, r: InstRef) -> bool {
        self.0[r.index()] & (BARRIER | SHARED) != 0
    }
}

/// Returns the values that are, or contain, matrices; `None` if the module has no types of that kind.
fn matrices(module: &Module, layouts: &LeafLayouts) -> Option<IdSet> {
    if !layouts.has_matrices() {
        return None;
    }
    let mut types = IdSet::default();
    let all = module.globals.iter().filter_map(|r| module.inst(*r).result);
    all.filter(|id| layouts.matrix(*id).is_some()).for_each(|id| _ = types.insert(id));
    let mut found = IdSet::default();
    let mut look = |inst: &Inst| {
        if let (Some(id), Some(ty)) = (inst.result, inst.ty)
            && types.contains(ty)
        {
            found.insert(id);
        }
    };
    let params = module.functions.iter().flat_map(|f| &f.params);
    module.globals.iter().chain(params).for_each(|r| look(module.inst(*r)));
    module.in_blocks(|_, inst| look(inst));
    Some(found)
}
