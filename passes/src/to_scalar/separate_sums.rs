//! Gives the sums of a loop a variable of their own, where the program accesses single elements of the variable that holds them later.
//!
//! Engines add products up in a variable and clamp its elements behind the loop:
//!
//! ```text
//! store sum, 0
//! loop { c = load sum; store sum, muladd(a, b, c) }
//! for each element: sum[i] = clamp(sum[i])
//! ```
//!
//! A variable whose elements are accessed does not become a value. Afterwards the loop has a variable that does, and what it holds is stored
//! into the other one behind the loop.
//!
//! # Invariants
//!
//! 1. The new variable has all accesses of sums: loads that only products read, stores of products and of zeros.
//! 2. The place of the copy dominates all other accesses, can't be reached from itself, and none of the accesses of sums can be reached from it: the copy is
//!    executed once, before any other access, and stores what the variable held then.

use super::split_k::{Accumulators, blocks_by_inst};
use coop_ir::cfg::{Cfg, Loops};
use coop_ir::hash::FxHashSet;
use coop_ir::rewrite::insert_before;
use coop_ir::spv::MemoryAccess;
use coop_ir::types::Type;
use coop_ir::uses::Users;
use coop_ir::{Function, Id, Inst, InstRef, Module, Op, Operand};

/// A variable whose sums get one of their own.
struct Separated {
    variable: InstRef,
    /// The loads and the stores of sums.
    sums: Vec<InstRef>,
    /// The instruction in front of which the sums are copied.
    copy_before: InstRef,
}

/// Separates the sums of products that may be partial.
pub(super) fn run(m: &mut Module, accumulators: &Accumulators<'_>) {
    for f in 0..m.functions.len() {
        let found = find(m, &m.functions[f], accumulators);
        for separated in found {
            separated.rewrite(m, f);
        }
    }
}

fn find(m: &Module, function: &Function, accumulators: &Accumulators<'_>) -> Vec<Separated> {
    let Some(entry) = function.blocks.first() else { return Vec::new() };
    let holds_sums = |r: &InstRef| {
        let inst = m.inst(*r);
        let pointer = inst.ty.and_then(|ty| Type::of(m, ty));
        let Some(Type::Pointer { pointee, .. }) = pointer.filter(|_| inst.op == Op::Variable) else { return false };
        // An initializer would be a store at the beginning.
        accumulators.has(pointee) && inst.operands.len() == 1
    };
    let variables: Vec<InstRef> = entry.insts.iter().copied().filter(holds_sums).collect();
    if variables.is_empty() {
        return Vec::new();
    }
    let cfg = Cfg::new(m, function);
    let loops = Loops::new(&cfg);
    let (users, block_of) = (Users::new(m), blocks_by_inst(function));
    let is_sum = |variable: Id, r: InstRef| {
        let inst = m.inst(r);
        let plain = !inst.memory_access().contains(MemoryAccess::Volatile);
        plain
            && match inst.op {
                Op::Load => {
                    let mut readers = inst.result.into_iter().flat_map(|id| users.beyond_notes(m, id));
                    readers.all(|user| accumulators.adds_to(m, user, inst.result))
                }
                Op::Store => {
                    let product = |id: Id| m.def(id).is_some_and(|r| accumulators.is_product(m, r));
                    inst.accessed() == Some(variable)
                        && inst.stored().is_some_and(|id| product(id) || accumulators.is_zero(m, id))
                }
                _ => false,
            }
    };
    let separated = |r: InstRef| {
        let variable = m.inst(r).result?;
        let (sums, others): (Vec<InstRef>, Vec<InstRef>) =
            users.beyond_notes(m, variable).partition(|user| is_sum(variable, *user));
        if !sums.iter().any(|r| m.inst(*r).op == Op::Load) {
            return None;
        }
        let blocks = |of: &[InstRef]| of.iter().map(|r| block_of.get(r).copied()).collect::<Option<Vec<usize>>>();
        let (of_sums, of_others) = (blocks(&sums)?, blocks(&others)?);
        let mut blocks = of_others.into_iter();
        let first = blocks.next()?;
        let mut place = blocks.try_fold(first, |a, b| cfg.dom().common(a, b))?;
        while loops.depth(place) > 0 {
            place = cfg.idom(place)?;
        }
        let reached = reached_from(&cfg, place);
        if reached.contains(&place) || of_sums.iter().any(|block| *block == place || reached.contains(block)) {
            return None;
        }
        let here = |r: &&InstRef| others.contains(r);
        let insts = &function.blocks[place].insts;
        let copy_before = *insts.iter().find(here).or_else(|| insts.iter().find(|r| ends(m, **r)))?;
        Some(Separated { variable: r, sums, copy_before })
    };
    variables.into_iter().filter_map(separated).collect()
}

/// Returns true for the first instruction of those that end a block: its merge instruction, or else its terminator.
fn ends(m: &Module, r: InstRef) -> bool {
    let op = m.inst(r).op;
    matches!(op, Op::LoopMerge | Op::SelectionMerge) || op.is_branch() || op.leaves_function()
}

/// The blocks that can be reached from a block by at least one edge.
fn reached_from(cfg: &Cfg, block: usize) -> FxHashSet<usize> {
    let mut out = FxHashSet::default();
    let mut todo = vec![block];
    while let Some(from) = todo.pop() {
        todo.extend(cfg.successors(from).iter().copied().filter(|to| out.insert(*to)));
    }
    out
}

impl Separated {
    fn rewrite(&self, m: &mut Module, f: usize) {
        let variable = m.inst(self.variable).clone();
        let (Some(old), Some(pointer)) = (variable.result, variable.ty) else { return };
        let Some(Type::Pointer { pointee, .. }) = Type::of(m, pointer) else { return };
        let (new, value) = (m.fresh_id(), m.fresh_id());
        let own = m.add(Inst { result: Some(new), ..variable });
        m.functions[f].blocks[0].insts.insert(0, own);
        for r in &self.sums {
            let mut inst = m.inst(*r).clone();
            inst.operands.iter_mut().filter(|o| **o == Operand::Id(old)).for_each(|o| *o = new.into());
            m.replace(*r, inst);
        }
        let origin = m.inst(self.copy_before).origin;
        let load = Inst::new(Op::Load, Some(pointee), Some(value), [new.into()]).at(origin);
        let store = Inst::new(Op::Store, None, None, [old, value].map(Operand::Id)).at(origin);
        for inst in [load, store] {
            insert_before(m, self.copy_before, inst);
        }
    }
}
