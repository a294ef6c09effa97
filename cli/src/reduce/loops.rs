//! Takes loops out of modules.

use super::is_nullable;
use coop_ir::builder::Globals;
use coop_ir::cfg::Cfg;
use coop_ir::hash::{FxHashMap, FxHashSet};
use coop_ir::rewrite::replace_uses;
use coop_ir::{Id, Inst, InstRef, Module, Op, Operand};

/// Returns the labels of the headers of loops, inner ones mostly first.
pub(super) fn headers(m: &Module) -> Vec<InstRef> {
    let blocks = m.functions.iter().flat_map(|f| &f.blocks);
    let loops = blocks.filter(|b| b.insts.iter().any(|r| m.inst(*r).continue_target().is_some()));
    let mut labels: Vec<InstRef> = loops.map(|b| b.label).collect();
    labels.reverse();
    labels
}

/// The header of a loop, by the numbers of its function and block, and its merge instruction.
fn find(m: &Module, label: InstRef) -> Option<(usize, usize, InstRef)> {
    m.functions.iter().enumerate().find_map(|(f, function)| {
        let b = function.blocks.iter().position(|block| block.label == label)?;
        let merge = function.blocks[b].insts.iter().copied().find(|r| m.inst(*r).continue_target().is_some())?;
        Some((f, b, merge))
    })
}

/// Returns a module in which a loop is passed by: its header leads to its merge block, and null constants stand for what the loop
/// computed. `None` where there is no such constant.
pub(super) fn passed_by(m: &Module, label: InstRef) -> Option<Module> {
    let (f, header, merge) = find(m, label)?;
    let target = m.inst(merge).merge_block()?;
    let before = Cfg::new(m, &m.functions[f]);
    let mut out = m.clone();
    let jump = out.add(Inst::new(Op::Branch, None, None, [Operand::Id(target)]));
    let block = &mut out.functions[f].blocks[header];
    let old = block.terminator();
    block.insts.retain(|r| *r != merge && Some(*r) != old);
    block.insts.push(jump);
    old.into_iter().chain([merge]).for_each(|r| out.forget(r));
    let after = Cfg::new(&out, &out.functions[f]);
    let next = m.inst(merge).continue_target().and_then(|id| before.block(id));
    let mut gone: FxHashSet<usize> =
        (0..after.len()).filter(|b| before.is_reachable(*b) && !after.is_reachable(*b)).collect();
    gone.extend(unreachable_from(&before, next));
    without_blocks(out, f, &gone)
}

/// Returns a module in which what leads to the continue target of a loop leaves the loop, so that it is none any more. `None` if its
/// blocks can't stand without it.
pub(super) fn executed_once(m: &Module, label: InstRef) -> Option<Module> {
    let m = &left_at_continue(m, label)?;
    let (f, header, merge) = find(m, label)?;
    let function = &m.functions[f];
    let cfg = Cfg::new(m, function);
    let target = m.inst(merge).merge_block()?;
    let next = m.inst(merge).continue_target().and_then(|id| cfg.block(id)).filter(|b| !cfg.is_reachable(*b))?;
    let behind = cfg.block(target)?;
    let jumps = |b: usize| function.blocks[b].terminator().is_some_and(|r| m.inst(r).op == Op::Branch);
    let breaks: Vec<usize> = cfg.predecessors(behind).iter().copied().filter(|b| cfg.is_reachable(*b)).collect();
    let merges = |b: usize| b != header && function.blocks[b].insts.iter().any(|r| m.inst(*r).op.is_merge());
    let nested = (0..cfg.len())
        .any(|b| cfg.is_reachable(b) && cfg.dominates(header, b) && !cfg.dominates(behind, b) && merges(b));
    if nested && !(jumps(header) && breaks.len() <= 1 && breaks.iter().all(|b| jumps(*b))) {
        return None;
    }
    let mut out = m.clone();
    if jumps(header) {
        out.functions[f].blocks[header].insts.retain(|r| *r != merge);
        out.forget(merge);
    } else {
        let selection = Inst::new(Op::SelectionMerge, None, None, [Operand::Id(target), Operand::Word(0)]);
        out.replace(merge, selection);
    }
    let mut gone = unreachable_from(&cfg, Some(next));
    // Nobody comes there, and no merge instruction names it any more.
    if jumps(header) && !cfg.is_reachable(behind) {
        gone.extend(unreachable_from(&cfg, Some(behind)));
    }
    without_blocks(out, f, &gone)
}

/// Returns a module in which branches to the continue target of a loop lead to its merge block.
fn left_at_continue(m: &Module, label: InstRef) -> Option<Module> {
    let (f, header, merge) = find(m, label)?;
    let (next, target) = (m.inst(merge).continue_target()?, m.inst(merge).merge_block()?);
    let function = &m.functions[f];
    let cfg = Cfg::new(m, function);
    let (next_block, behind) = (cfg.block(next)?, cfg.block(target)?);
    if next_block == header {
        return None;
    }
    let mut out = m.clone();
    let mut globals = Globals::new(&out);
    for b in cfg.predecessors(next_block).iter().copied().filter(|b| cfg.is_reachable(*b) && *b != next_block) {
        let (at, from) = (function.blocks[b].terminator()?, cfg.label(b)?);
        let mut jump = m.inst(at).clone();
        jump.map_ids(|id| if id == next { target } else { id });
        let both = cfg.edges(b).iter().all(|edge| [next_block, behind].contains(&edge.to));
        if both {
            jump = Inst::new(Op::Branch, None, None, [Operand::Id(target)]);
        }
        out.replace(at, jump);
        for r in function.blocks[behind].insts.iter().copied().filter(|r| m.inst(*r).op == Op::Phi) {
            if out.inst(r).incoming().all(|(_, known)| known != from) {
                let ty = m.inst(r).ty.filter(|ty| is_nullable(m, *ty))?;
                let null = globals.null(&mut out, ty);
                out.inst_mut(r).operands.extend([Operand::Id(null), Operand::Id(from)]);
            }
        }
    }
    Some(out)
}

/// Returns the blocks that are reached from a block and not from the entry.
fn unreachable_from(cfg: &Cfg, from: Option<usize>) -> FxHashSet<usize> {
    let mut found = FxHashSet::default();
    let mut left: Vec<usize> = from.into_iter().collect();
    while let Some(b) = left.pop() {
        if !cfg.is_reachable(b) && found.insert(b) {
            left.extend(cfg.successors(b));
        }
    }
    found
}

/// Returns a module without some blocks of a function, with null constants for values of theirs that others use.
fn without_blocks(mut out: Module, f: usize, gone: &FxHashSet<usize>) -> Option<Module> {
    let blocks = &out.functions[f].blocks;
    let removed: Vec<InstRef> =
        gone.iter().flat_map(|b| std::iter::once(blocks[*b].label).chain(blocks[*b].insts.iter().copied())).collect();
    let labels: FxHashSet<Id> = gone.iter().filter_map(|b| out.inst(blocks[*b].label).result).collect();
    let kept: Vec<usize> = (0..blocks.len()).filter(|b| !gone.contains(b)).collect();
    let phis: Vec<InstRef> = kept
        .iter()
        .flat_map(|b| blocks[*b].insts.iter().copied())
        .filter(|r| out.inst(*r).op == Op::Phi && out.inst(*r).incoming().any(|(_, from)| labels.contains(&from)))
        .collect();
    let mut lost: Vec<Id> = removed.iter().filter_map(|r| out.inst(*r).result).collect();
    let mut map: FxHashMap<Id, Id> = FxHashMap::default();
    let mut gone_phis = Vec::new();
    for r in phis {
        let left: Vec<(Id, Id)> = out.inst(r).incoming().filter(|(_, from)| !labels.contains(from)).collect();
        let Some(id) = out.inst(r).result else { continue };
        match left.as_slice() {
            [] => lost.push(id),
            [(value, _)] if *value != id => {
                map.insert(id, *value);
            }
            _ => {
                out.inst_mut(r).operands =
                    left.iter().flat_map(|(v, from)| [Operand::Id(*v), Operand::Id(*from)]).collect();
                continue;
            }
        }
        gone_phis.push(r);
    }
    let all_gone: FxHashSet<InstRef> = removed.iter().chain(&gone_phis).copied().collect();
    let used: FxHashSet<Id> =
        out.all().filter(|r| !all_gone.contains(r)).flat_map(|r| out.inst(r).ids().collect::<Vec<_>>()).collect();
    let mut globals = Globals::new(&out);
    for id in lost.into_iter().filter(|id| !labels.contains(id)) {
        if let Some(ty) = out.type_of(id).filter(|_| used.contains(&id) || map.values().any(|v| *v == id)) {
            if !is_nullable(&out, ty) {
                return None;
            }
            map.insert(id, globals.null(&mut out, ty));
        }
    }
    let final_value = |mut id: Id| {
        for _ in 0..map.len() {
            let Some(next) = map.get(&id) else { break };
            id = *next;
        }
        id
    };
    let map: FxHashMap<Id, Id> = map.keys().map(|id| (*id, final_value(*id))).collect();
    let function = &mut out.functions[f];
    function.blocks = kept.iter().map(|b| function.blocks[*b].clone()).collect();
    function.blocks.iter_mut().for_each(|b| b.insts.retain(|r| !all_gone.contains(r)));
    all_gone.into_iter().for_each(|r| out.forget(r));
    replace_uses(&mut out, &map);
    Some(out)
}
