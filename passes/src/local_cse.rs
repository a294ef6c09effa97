//! Merges common subexpressions of a block, and removes unused values.
//!
//! Lowerings compute addresses where they need them, again and again. Covers arithmetic on integers and Booleans, and
//! instructions that take composites and pointers apart: their result does not depend on their position. Decorated
//! instructions stay.

use crate::ssa;
use coop_ir::hash::{FxHashMap, FxHashSet, FxHasher};
use coop_ir::uses::is_note;
use coop_ir::{Function, Id, IdMap, IdSet, Inst, InstRef, Module, Op, Operand};
use std::collections::hash_map::Entry;
use std::hash::Hasher;

/// Merges and removes instructions in all functions.
pub(crate) fn run(m: &mut Module) {
    let mut decorated = IdSet::default();
    let notes = m.globals.iter().map(|r| m.inst(*r)).filter(|i| is_note(i.op));
    let ids = notes.filter(|i| !matches!(i.op, Op::Name | Op::MemberName)).flat_map(|i| i.ids());
    ids.for_each(|id| _ = decorated.insert(id));
    let mut gone: FxHashSet<Id> = FxHashSet::default();
    merge(m, &decorated, &mut gone);
    unused(m, &decorated, &mut gone);
    ssa::remove_annotations(m, &gone);
}

/// Merges equal instructions of each block.
fn merge(m: &mut Module, decorated: &IdSet, gone: &mut FxHashSet<Id>) {
    // What is used instead of a merged value.
    let mut instead: IdMap<Id> = m.id_map();
    // The first instruction of each hash. What collides with another one is not merged.
    let mut known: FxHashMap<u64, InstRef> = FxHashMap::default();
    for f in 0..m.functions.len() {
        let before = gone.len();
        for block in &m.functions[f].blocks {
            known.clear();
            for r in block.insts.iter().copied() {
                let i = m.inst(r);
                let Some(id) = i.result.filter(|id| is_merged(i, *id, decorated)) else { continue };
                let operand = |o: &Operand| match o {
                    Operand::Id(id) => Operand::Id(instead.get(*id).copied().unwrap_or(*id)),
                    Operand::Word(_) => *o,
                };
                match known.entry(hash(i, operand)) {
                    Entry::Vacant(entry) => _ = entry.insert(r),
                    Entry::Occupied(entry) => {
                        let first = m.inst(*entry.get());
                        let is_same = (first.op, first.ty) == (i.op, i.ty)
                            && first.operands.iter().map(operand).eq(i.operands.iter().map(operand));
                        if let Some(first) = first.result.filter(|_| is_same) {
                            instead.insert(id, first);
                            gone.insert(id);
                        }
                    }
                }
            }
        }
        if gone.len() > before {
            replace(m, f, &instead);
        }
    }
}

/// Returns the hash of what an instruction computes.
fn hash(i: &Inst, operand: impl Fn(&Operand) -> Operand) -> u64 {
    let mut hasher = FxHasher::default();
    hasher.write_u64(u64::from(i.op.0) << 32 | u64::from(i.ty.map_or(0, Id::get)));
    for o in &i.operands {
        let kind = u64::from(matches!(o, Operand::Id(_)));
        hasher.write_u64(kind << 32 | u64::from(operand(o).word()));
    }
    hasher.finish()
}

/// Removes the merged instructions of function `f`, and uses the others instead.
fn replace(m: &mut Module, f: usize, instead: &IdMap<Id>) {
    retain(m, f, |m, r| {
        let i = m.inst(r);
        if i.result.is_some_and(|id| instead.get(id).is_some()) {
            return false;
        }
        if i.ids().any(|id| instead.get(id).is_some()) {
            m.inst_mut(r).map_ids(|id| instead.get(id).copied().unwrap_or(id));
        }
        true
    });
}

/// Removes the instructions of function `f` that `is_kept` does not keep, from the last to the first.
fn retain(m: &mut Module, f: usize, mut is_kept: impl FnMut(&mut Module, InstRef) -> bool) {
    let mut blocks = std::mem::take(&mut m.functions[f].blocks);
    let mut removed: Vec<InstRef> = Vec::new();
    for block in blocks.iter_mut().rev() {
        removed.extend(block.insts.iter().rev().copied().filter(|r| !is_kept(m, *r)));
        removed.iter().for_each(|r| m.forget(*r));
        // The last one of the list is the next one of the block.
        if !removed.is_empty() {
            block.insts.retain(|r| removed.pop_if(|next| next == r).is_none());
        }
    }
    m.functions[f].blocks = blocks;
}

/// Returns true if an instruction depends on its operands alone, and nothing else is said of its result.
fn is_merged(i: &Inst, id: Id, decorated: &IdSet) -> bool {
    i.op.is_address_arithmetic() && !i.opaque && !decorated.contains(id)
}

/// Removes unused instructions of all functions.
fn unused(m: &mut Module, decorated: &IdSet, gone: &mut FxHashSet<Id>) {
    let mut uses: IdMap<u32> = m.id_map();
    for id in m.functions.iter().flat_map(Function::insts).flat_map(|r| m.inst(r).ids()) {
        match uses.get_mut(id) {
            Some(count) => *count += 1,
            None => _ = uses.insert(id, 1),
        }
    }
    for f in 0..m.functions.len() {
        // From the last: uses come after definitions, except for phis, which stay.
        retain(m, f, |m, r| {
            let i = m.inst(r);
            let Some(id) = i.result.filter(|id| is_merged(i, *id, decorated)) else { return true };
            if uses.get(id).copied().unwrap_or(0) > 0 {
                return true;
            }
            i.ids().filter_map(|o| uses.get_mut(o).map(|count| *count -= 1)).for_each(drop);
            gone.insert(id);
            false
        });
    }
}
