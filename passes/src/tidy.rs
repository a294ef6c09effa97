//! Values that are computed twice, or for nothing.
//!
//! Lowerings compute addresses where they need them, again and again. Within a block what computes the same is computed
//! once, and what nobody uses is not. Only arithmetic on integers and truth values, and what takes composites and
//! pointers apart: instructions that give the same wherever they stand. What is decorated stays.

use crate::ssa;
use coop_ir::hash::{FxHashMap, FxHashSet};
use coop_ir::uses::is_note;
use coop_ir::{Id, InstRef, Module, Op, Operand};

/// Removes such instructions from all functions.
pub(crate) fn run(m: &mut Module) {
    let decorated: FxHashSet<Id> = m
        .globals
        .iter()
        .map(|r| m.inst(*r))
        .filter(|i| is_note(i.op) && !matches!(i.op, Op::Name | Op::MemberName))
        .flat_map(|i| i.ids())
        .collect();
    let mut gone: FxHashSet<Id> = FxHashSet::default();
    for f in 0..m.functions.len() {
        same(m, f, &decorated, &mut gone);
        unused(m, f, &decorated, &mut gone);
    }
    ssa::forget_notes(m, &gone);
}

/// Leaves one of those that compute the same in a block.
fn same(m: &mut Module, f: usize, decorated: &FxHashSet<Id>, gone: &mut FxHashSet<Id>) {
    let mut map: FxHashMap<Id, Id> = FxHashMap::default();
    let mut removed: FxHashSet<InstRef> = FxHashSet::default();
    for block in 0..m.functions[f].blocks.len() {
        let mut known: FxHashMap<(Op, Option<Id>, Vec<Operand>), Id> = FxHashMap::default();
        for at in 0..m.functions[f].blocks[block].insts.len() {
            let r = m.functions[f].blocks[block].insts[at];
            let i = m.inst(r);
            let Some(id) = i.result.filter(|id| i.op.is_address_arithmetic() && !i.opaque && !decorated.contains(id))
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

/// Removes what nobody uses.
fn unused(m: &mut Module, f: usize, decorated: &FxHashSet<Id>, gone: &mut FxHashSet<Id>) {
    let mut uses: FxHashMap<Id, u32> = FxHashMap::default();
    let insts: Vec<InstRef> = m.functions[f].insts().collect();
    insts.iter().flat_map(|r| m.inst(*r).ids()).for_each(|id| *uses.entry(id).or_default() += 1);
    let mut removed: FxHashSet<InstRef> = FxHashSet::default();
    // Backwards: what uses a value comes behind it, but for phis, which stay.
    for r in insts.iter().rev() {
        let i = m.inst(*r);
        let Some(id) = i.result.filter(|id| i.op.is_address_arithmetic() && !i.opaque && !decorated.contains(id))
        else {
            continue;
        };
        if uses.get(&id).copied().unwrap_or(0) == 0 {
            i.ids().for_each(|o| *uses.entry(o).or_default() -= 1);
            removed.insert(*r);
            gone.insert(id);
        }
    }
    ssa::remove_insts(m, f, &removed);
}
