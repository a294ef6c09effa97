//! Structures control flow.
//!
//! Precondition: a function with any control-flow graph, reducible or not; merge instructions are ignored. Effect: the
//! same instructions under the same conditions, with the merge instructions that shaders require: `statements` lists
//! the properties of the new order. Values of phis, and those that no longer dominate their uses, go through variables,
//! which are promoted to values at the end.
//!
//! Refuses: constructs nested deeper than a few hundred levels.

mod emit;
mod graph;
mod statements;
#[cfg(test)]
mod tests;

use crate::one_return::one_return;
use crate::{Refusal, ssa};
use coop_ir::builder::Globals;
use coop_ir::cfg::Cfg;
use coop_ir::hash::{FxHashMap, FxHashSet};
use coop_ir::{Block, Id, Inst, InstRef, Module, Op, Operand};
use graph::{Flow, Selector, Var};

/// Structures function `f`.
pub(crate) fn run(m: &mut Module, g: &mut Globals, f: usize) -> Result<(), Refusal> {
    let at = m.functions[f].def;
    one_return(m, g, f);
    let mut variables = phis_to_variables(m, g, f);
    let cfg = Cfg::new(m, &m.functions[f]);
    let mut flow = Flow::new(&cfg, |b| selector_of(m, &m.functions[f].blocks[b]));
    let odd = flow.nodes.iter().any(|n| n.arms.len() > 1 && n.on == Selector::Always);
    if odd || !cfg.problems().is_empty() {
        let why = "a block has no terminator, or a branch has an invalid target";
        return Err(Refusal::new("refused-vulkan-flow", Some(at), why, "check the module with spirv-val"));
    }
    let body = statements::build(&mut flow).map_err(|statements::TooDeep| {
        let why = "the control flow, put into nested constructs, is hundreds of levels deep";
        Refusal::new("refused-vulkan-flow", Some(at), why, "compile with less unrolling and inlining")
    })?;
    let mut of: FxHashMap<Var, Id> = FxHashMap::default();
    let word = g.uint(m, 32);
    for var in [Var::Next].into_iter().chain((0..flow.entry_variables()).map(Var::Entry)) {
        let id = ssa::variable(m, g, f, word);
        of.insert(var, id);
        variables.push(id);
    }
    let blocks = std::mem::take(&mut m.functions[f].blocks);
    let old: Vec<InstRef> = blocks.iter().flat_map(Block::all).collect();
    let blocks = blocks.into_iter().map(|b| stripped(m, b)).collect();
    m.functions[f].blocks = emit::Emit::new(m, g, blocks, of).run(&body);
    // What nothing reaches is left out.
    let kept: FxHashSet<InstRef> = m.functions[f].blocks.iter().flat_map(Block::all).collect();
    old.into_iter().filter(|r| !kept.contains(r)).for_each(|r| m.forget(r));
    ssa::promote(m, f, &variables);
    ssa::repair(m, g, f);
    Ok(())
}

/// Returns the selector of the terminator of a block.
fn selector_of(m: &Module, block: &Block) -> Selector {
    let Some(last) = block.terminator().map(|t| m.inst(t)) else { return Selector::Always };
    match (last.op, last.branch_condition()) {
        (Op::BranchConditional, Some(c)) => Selector::Condition(c),
        (Op::Switch, Some(s)) => {
            let width = m.type_of(s).and_then(|t| coop_ir::types::scalar(m, t)).map_or(32, |s| s.width());
            Selector::Switch(s, if width > 32 { 2 } else { 1 })
        }
        _ => Selector::Always,
    }
}

/// Returns the block without merge instruction and branch; an instruction that ends the function stays.
fn stripped(m: &mut Module, mut block: Block) -> Block {
    block.insts.retain(|r| {
        let op = m.inst(*r).op;
        !op.is_merge() && !op.is_branch()
    });
    block
}

/// Replaces each phi by a variable that the predecessors store to; the phi's id becomes the loaded value. Returns the
/// variables.
fn phis_to_variables(m: &mut Module, g: &mut Globals, f: usize) -> Vec<Id> {
    let place: FxHashMap<Id, usize> = m.functions[f]
        .blocks
        .iter()
        .enumerate()
        .filter_map(|(b, block)| Some((m.inst(block.label).result?, b)))
        .collect();
    let phis: Vec<InstRef> = m.functions[f].insts().filter(|r| m.inst(*r).op == Op::Phi).collect();
    let mut variables = Vec::with_capacity(phis.len());
    let mut stores: FxHashMap<usize, Vec<InstRef>> = FxHashMap::default();
    for r in phis {
        let phi = m.inst(r).clone();
        let Some(ty) = phi.ty else { continue };
        let variable = ssa::variable(m, g, f, ty);
        variables.push(variable);
        for (value, from) in phi.incoming() {
            let Some(b) = place.get(&from) else { continue };
            let store = m.add(Inst::new(Op::Store, None, None, [variable, value].map(Operand::Id)));
            stores.entry(*b).or_default().push(store);
        }
        m.replace(r, Inst::new(Op::Load, Some(ty), phi.result, [variable.into()]).at(phi.origin));
    }
    for (b, list) in stores {
        let insts = &m.functions[f].blocks[b].insts;
        // In front of the merge instruction, if there is one, and the terminator.
        let ends = |r: &InstRef| matches!(m.inst(*r).op, Op::SelectionMerge | Op::LoopMerge);
        let at = insts.iter().position(ends).unwrap_or(insts.len().saturating_sub(1));
        m.functions[f].blocks[b].insts.insert_many(at, list);
    }
    variables
}
