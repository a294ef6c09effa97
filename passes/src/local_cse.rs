//! Merges common subexpressions of a block, and removes unused values.
//!
//! Lowerings compute addresses where they need them, again and again. Covers arithmetic on integers and Booleans, and
//! instructions that take composites and pointers apart: their result does not depend on their position. Decorated
//! instructions stay.

use crate::ssa;
use coop_ir::hash::{FxHashMap, FxHashSet};
use coop_ir::uses::is_note;
use coop_ir::{Id, IdMap, IdSet, InstRef, Module, Op, Operand, OperandList};

/// Merges and removes instructions in all functions.
pub(crate) fn run(m: &mut Module) {
    let mut decorated = IdSet::default();
    let notes = m.globals.iter().map(|r| m.inst(*r)).filter(|i| is_note(i.op));
    let ids = notes.filter(|i| !matches!(i.op, Op::Name | Op::MemberName)).flat_map(|i| i.ids());
    ids.for_each(|id| _ = decorated.insert(id));
    let mut gone: FxHashSet<Id> = FxHashSet::default();
    for f in 0..m.functions.len() {
        same(m, f, &decorated, &mut gone);
        unused(m, f, &decorated, &mut gone);
    }
    ssa::remove_annotations(m, &gone);
}

/// Merges equal instructions of a block.
fn same(m: &mut Module, f: usize, decorated: &IdSet, gone: &mut FxHashSet<Id>) {
    let mut map: FxHashMap<Id, Id> = FxHashMap::default();
    let mut removed: FxHashSet<InstRef> = FxHashSet::default();
    for block in 0..m.functions[f].blocks.len() {
        let mut known: FxHashMap<(Op, Option<Id>, OperandList), Id> = FxHashMap::default();
        for at in 0..m.functions[f].blocks[block].insts.len() {
            let r = m.functions[f].blocks[block].insts[at];
            let i = m.inst(r);
            let Some(id) = i.result.filter(|id| i.op.is_address_arithmetic() && !i.opaque && !decorated.contains(*id))
            else {
                continue;
            };
            let operand = |o: &Operand| match o {
                Operand::Id(id) => Operand::Id(map.get(id).copied().unwrap_or(*id)),
                word => *word,
            };
            let key = (i.op, i.ty, i.operands.iter().map(operand).collect());
            match known.get(&key) {
                Some(first) => {
                    map.insert(id, *first);
                    removed.insert(r);
                }
                None => {
                    known.insert(key, id);
                }
            }
        }
    }
    ssa::remove_insts(m, f, &removed);
    ssa::replace_in(m, f, &map);
    gone.extend(map.into_keys());
}

/// Removes unused instructions.
fn unused(m: &mut Module, f: usize, decorated: &IdSet, gone: &mut FxHashSet<Id>) {
    let mut uses: IdMap<u32> = m.id_map();
    let insts: Vec<InstRef> = m.functions[f].insts().collect();
    for id in insts.iter().flat_map(|r| m.inst(*r).ids()) {
        match uses.get_mut(id) {
            Some(count) => *count += 1,
            None => _ = uses.insert(id, 1),
        }
    }
    let mut removed: FxHashSet<InstRef> = FxHashSet::default();
    // Backwards: uses come after definitions, except for phis, which stay.
    for r in insts.iter().rev() {
        let i = m.inst(*r);
        let Some(id) = i.result.filter(|id| i.op.is_address_arithmetic() && !i.opaque && !decorated.contains(*id))
        else {
            continue;
        };
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
