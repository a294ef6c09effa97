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
use std::hash::{Hash, Hasher};

/// Merges and removes instructions in all functions.
pub(crate) fn run(m: &mut Module) {
    let mut decorated = IdSet::default();
    let notes = m.globals.iter().map(|r| m.inst(*r)).filter(|i| is_note(i.op));
    let ids = notes.filter(|i| !matches!(i.op, Op::Name | Op::MemberName)).flat_map(|i| i.ids());
    ids.for_each(|id| _ = decorated.insert(id));
    let mut gone: FxHashSet<Id> = FxHashSet::default();
    for f in 0..m.functions.len() {
        same(m, f, &decorated, &mut gone);
    }
    unused(m, &decorated, &mut gone);
    ssa::remove_annotations(m, &gone);
}

/// Merges equal instructions of a block.
fn same(m: &mut Module, f: usize, decorated: &IdSet, gone: &mut FxHashSet<Id>) {
    let mut map: FxHashMap<Id, Id> = FxHashMap::default();
    let mut removed: FxHashSet<InstRef> = FxHashSet::default();
    // The first instruction of each hash. What collides with another one is not merged.
    let mut known: FxHashMap<u64, InstRef> = FxHashMap::default();
    for block in &m.functions[f].blocks {
        known.clear();
        for r in block.insts.iter().copied() {
            let i = m.inst(r);
            let Some(id) = i.result.filter(|id| is_merged(i, *id, decorated)) else { continue };
            let operand = |o: &Operand| match o {
                Operand::Id(id) if !map.is_empty() => Operand::Id(map.get(id).copied().unwrap_or(*id)),
                other => *other,
            };
            let mut hasher = FxHasher::default();
            (i.op, i.ty, i.operands.len()).hash(&mut hasher);
            i.operands.iter().for_each(|o| operand(o).hash(&mut hasher));
            match known.entry(hasher.finish()) {
                Entry::Vacant(entry) => _ = entry.insert(r),
                Entry::Occupied(entry) => {
                    let first = m.inst(*entry.get());
                    let is_same = (first.op, first.ty) == (i.op, i.ty)
                        && first.operands.iter().map(operand).eq(i.operands.iter().map(operand));
                    if let Some(first) = first.result.filter(|_| is_same) {
                        map.insert(id, first);
                        removed.insert(r);
                    }
                }
            }
        }
    }
    ssa::remove_insts(m, f, &removed);
    ssa::replace_in(m, f, &map);
    gone.extend(map.into_keys());
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
        let insts: Vec<InstRef> = m.functions[f].insts().collect();
        let mut removed: FxHashSet<InstRef> = FxHashSet::default();
        // Backwards: uses come after definitions, except for phis, which stay.
        for r in insts.iter().rev() {
            let i = m.inst(*r);
            let Some(id) = i.result.filter(|id| is_merged(i, *id, decorated)) else { continue };
            if uses.get(id).copied().unwrap_or(0) == 0 {
                for o in i.ids() {
                    uses.get_mut(o).into_iter().for_each(|count| *count -= 1);
                }
                removed.insert(*r);
                gone.insert(id);
            }
        }
        ssa::remove_insts(m, f, &removed);
    }
}
