//! A function's body in place of its calls.

use super::index_of;
use crate::ssa::{is_debug, undef};
use coop_ir::builder::name;
use coop_ir::uses::is_note;
use coop_ir::{Block, Function, Id, Inst, InstList, InstRef, Module, Op, Operand};
use rustc_hash::{FxHashMap, FxHashSet};

/// More calls than this in one function are not inlined: they come from recursion.
const MOST_CALLS: u32 = 10_000;

/// Inlines the calls of `chosen` functions in function `f`. Each of them returns once, in its last reached block, at
/// its outermost level. Fails on recursion.
pub(crate) fn calls(m: &mut Module, f: usize, chosen: &FxHashSet<Id>) -> Result<(), ()> {
    let (mut b, mut left) = (0, MOST_CALLS);
    while b < m.functions[f].blocks.len() {
        let found = m.functions[f].blocks[b].insts.iter().enumerate().find_map(|(at, r)| {
            let i = m.inst(*r);
            let callee = i.id(0).filter(|c| i.op == Op::FunctionCall && chosen.contains(c))?;
            Some((at, index_of(m, callee)?))
        });
        match found {
            // The block is looked at again: what follows the call may be in it still.
            Some((at, callee)) if callee != f && left > 0 => {
                left -= 1;
                call(m, f, b, at, callee);
            }
            Some(_) => return Err(()),
            None => b += 1,
        }
    }
    Ok(())
}

/// Appends a copy of function `f` to the module.
pub(crate) fn duplicate(m: &mut Module, f: usize, suffix: &str) {
    let function = m.functions[f].clone();
    let mut map: FxHashMap<Id, Id> = FxHashMap::default();
    for r in function.insts() {
        if let Some(id) = m.inst(r).result {
            let fresh = m.fresh_id();
            map.insert(id, fresh);
        }
    }
    let copied = |m: &mut Module, r: InstRef| {
        let mut inst = m.inst(r).clone();
        inst.map_ids(|id| map.get(&id).copied().unwrap_or(id));
        inst.result = inst.result.and_then(|id| map.get(&id).copied());
        m.add(inst)
    };
    let list = |m: &mut Module, from: &[InstRef]| from.iter().map(|r| copied(m, *r)).collect::<Vec<_>>();
    let def = copied(m, function.def);
    let (params, tail) = (list(m, &function.params), list(m, &function.tail));
    let mut blocks = Vec::new();
    for block in &function.blocks {
        let label = copied(m, block.label);
        let kept: Vec<InstRef> = block.insts.iter().copied().filter(|r| !is_debug(m, m.inst(*r))).collect();
        let insts = list(m, &kept).into_iter().collect();
        blocks.push(Block { lead: Vec::new(), label, insts });
    }
    let own: FxHashSet<Id> = m.inst(function.def).result.into_iter().collect();
    copy_notes(m, &map, &own);
    let named = m.globals_with(Op::Name).find(|r| m.inst(*r).id(0) == m.inst(function.def).result);
    let label = named.and_then(|r| m.inst(r).string(1)).map_or_else(|| "function".to_owned(), |(s, _)| s);
    if let Some(id) = m.inst(def).result {
        name(m, id, &format!("{label}{suffix}"));
    }
    m.functions.push(Function { lead: Vec::new(), def, params, blocks, tail });
}

/// The body of a function with fresh ids.
struct Body {
    variables: Vec<InstRef>,
    /// What the variables are initialised with.
    stores: Vec<InstRef>,
    blocks: Vec<Block>,
    /// The block that returns, if one does, and with what.
    last: Option<usize>,
    value: Option<Id>,
}

fn call(m: &mut Module, f: usize, b: usize, at: usize, callee: usize) {
    let r = m.functions[f].blocks[b].insts[at];
    let (result, ty, args) = (m.inst(r).result, m.inst(r).ty, m.inst(r).ids_from(1).collect::<Vec<_>>());
    let returns = |b: &Block| b.terminator().is_some_and(|t| matches!(m.inst(t).op, Op::Return | Op::ReturnValue));
    let many = !matches!(m.functions[callee].blocks.as_slice(), [one] if returns(one));
    let (at, b) = if many { split_header(m, f, b, at) } else { (at, b) };
    let here = m.inst(m.functions[f].blocks[b].label).result;
    let body = copy(m, callee, &args, here);
    let line = active_line(m, &m.functions[f].blocks[b].insts[..at]);
    let insts = std::mem::take(&mut m.functions[f].blocks[b].insts);
    let mut before: InstList = insts[..at].iter().copied().collect();
    let mut after: InstList = InstList::new();
    if let Some(line) = line {
        let copy = m.inst(line).clone();
        after.push(m.add(copy));
    } else if body.blocks.iter().any(|b| b.insts.iter().any(|r| m.inst(*r).op == Op::Line)) {
        after.push(m.add(Inst::new(Op::NoLine, None, None, [])));
    }
    after.extend(insts[at + 1..].iter().copied());
    // The calls must not define the result any more.
    m.forget(r);
    let Body { variables, stores, mut blocks, last, value } = body;
    before.extend(stores);
    before.extend(blocks[0].insts.iter().copied());
    if many {
        let label = m.fresh_id();
        let l = m.add(Inst::new(Op::Label, None, Some(label), []));
        let jump = m.add(Inst::new(Op::Branch, None, None, [label.into()]));
        let old = m.inst(m.functions[f].blocks[b].label).result;
        match last {
            Some(0) => before.push(jump),
            Some(last) => blocks[last].insts.push(jump),
            None => {}
        }
        if let Some(old) = old {
            reroute_phis(m, f, &after, old, label);
        }
        m.functions[f].blocks[b].insts = before;
        let mut new: Vec<Block> = blocks.drain(1..).collect();
        new.push(Block { lead: Vec::new(), label: l, insts: after });
        m.functions[f].blocks.splice(b + 1..b + 1, new);
    } else {
        before.extend(after);
        m.functions[f].blocks[b].insts = before;
    }
    if let Some(entry) = m.functions[f].blocks.first_mut() {
        entry.insts.insert_many(0, variables);
    }
    let value = value.or_else(|| {
        // Control never comes back, or nothing does.
        let ty = ty.filter(|t| m.def_inst(*t).is_some_and(|i| i.op != Op::TypeVoid))?;
        Some(undef(m, ty))
    });
    if let (Some(result), Some(value)) = (result, value) {
        let map: FxHashMap<Id, Id> = [(result, value)].into_iter().collect();
        crate::ssa::replace_in(m, f, &map);
        let gone: FxHashSet<Id> = [result].into_iter().collect();
        crate::ssa::forget_notes(m, &gone);
    }
}

/// The successors of a block's new last part see another predecessor.
fn reroute_phis(m: &mut Module, f: usize, after: &[InstRef], old: Id, new: Id) {
    let Some(last) = after.last() else { return };
    let targets: FxHashSet<Id> = m.inst(*last).ids().collect();
    let phis: Vec<InstRef> = m.functions[f]
        .blocks
        .iter()
        .filter(|b| m.inst(b.label).result.is_some_and(|l| targets.contains(&l)))
        .flat_map(|b| b.insts.iter().copied())
        .filter(|r| m.inst(*r).op == Op::Phi)
        .collect();
    for r in phis {
        let inst = m.inst_mut(r);
        for at in (1..inst.operands.len()).step_by(2) {
            if inst.operands[at] == Operand::Id(old) {
                inst.operands[at] = Operand::Id(new);
            }
        }
    }
}

/// A loop header must stay one block with its merge instruction: what else is in it goes to the next block. Answers
/// where the instruction at `at` is then.
fn split_header(m: &mut Module, f: usize, b: usize, at: usize) -> (usize, usize) {
    let insts = m.functions[f].blocks[b].insts.clone();
    let Some(merge) = insts.iter().copied().find(|r| m.inst(*r).op == Op::LoopMerge) else { return (at, b) };
    let phis = insts.iter().take_while(|r| m.inst(**r).op == Op::Phi || m.inst(**r).op.is_line()).count().min(at);
    let label = m.fresh_id();
    let l = m.add(Inst::new(Op::Label, None, Some(label), []));
    let jump = m.add(Inst::new(Op::Branch, None, None, [label.into()]));
    let rest: InstList = insts[phis..].iter().copied().filter(|r| *r != merge).collect();
    let mut head: InstList = insts[..phis].iter().copied().collect();
    let line = active_line(m, &head);
    let mut rest_with_line = InstList::new();
    if let Some(line) = line {
        let copy = m.inst(line).clone();
        rest_with_line.push(m.add(copy));
    }
    let added = rest_with_line.len();
    rest_with_line.extend(rest);
    head.push(merge);
    head.push(jump);
    let old = m.inst(m.functions[f].blocks[b].label).result;
    let at = at - phis + added;
    if let Some(old) = old {
        reroute_phis(m, f, &rest_with_line, old, label);
        // A block that is its own continue target: a new one takes the back edge.
        if m.inst(merge).id(1) == Some(old) {
            let latch = single_block_loop(m, f, merge, &mut rest_with_line, label);
            m.functions[f].blocks.splice(b + 1..b + 1, latch);
        }
    }
    let unreached = own_selection(m, &mut rest_with_line, merge);
    m.functions[f].blocks.splice(b + 1..b + 1, unreached);
    m.functions[f].blocks[b].insts = head;
    let block = Block { lead: Vec::new(), label: l, insts: rest_with_line };
    m.functions[f].blocks.insert(b + 1, block);
    (at, b + 1)
}

/// Gives a loop of one block a continue target of its own: the block that ends `rest` branches there, and it has the
/// terminator of the loop.
fn single_block_loop(m: &mut Module, f: usize, merge: InstRef, rest: &mut InstList, from: Id) -> Option<Block> {
    let terminator = rest.pop()?;
    let label = m.fresh_id();
    let l = m.add(Inst::new(Op::Label, None, Some(label), []));
    rest.push(m.add(Inst::new(Op::Branch, None, None, [label.into()])));
    m.inst_mut(merge).operands[1] = Operand::Id(label);
    reroute_phis(m, f, &[terminator], from, label);
    Some(Block { lead: Vec::new(), label: l, insts: std::iter::once(terminator).collect() })
}

/// The conditional branch of a loop header that is in a block by itself now needs a merge of its own unless one way
/// leaves the loop. Otherwise both ways stay in it and leave the new selection by going on with the loop or out of it,
/// so that nothing reaches its merge block, which is the answer.
fn own_selection(m: &mut Module, insts: &mut InstList, merge: InstRef) -> Option<Block> {
    let last = insts.last().copied()?;
    let (i, loop_merge) = (m.inst(last), m.inst(merge));
    let exit = |t: Option<Id>| t.is_some() && (t == loop_merge.id(0) || t == loop_merge.id(1));
    if i.op != Op::BranchConditional || i.id(1) == i.id(2) || exit(i.id(1)) || exit(i.id(2)) {
        return None;
    }
    let label = m.fresh_id();
    let l = m.add(Inst::new(Op::Label, None, Some(label), []));
    let end = m.add(Inst::new(Op::Unreachable, None, None, []));
    let selection = m.add(Inst::new(Op::SelectionMerge, None, None, [label.into(), 0.into()]));
    insts.insert(insts.len() - 1, selection);
    Some(Block { lead: Vec::new(), label: l, insts: std::iter::once(end).collect() })
}

/// The source position that holds at the end of some instructions.
fn active_line(m: &Module, insts: &[InstRef]) -> Option<InstRef> {
    let last = insts.iter().rev().copied().find(|r| m.inst(*r).op.is_line())?;
    (m.inst(last).op == Op::Line).then_some(last)
}

/// Copies the body of a function, with arguments in place of parameters. Its first block will be part of `here`.
fn copy(m: &mut Module, callee: usize, args: &[Id], here: Option<Id>) -> Body {
    let function = m.functions[callee].clone();
    let mut map: FxHashMap<Id, Id> = FxHashMap::default();
    let params = function.params.iter().filter(|p| m.inst(**p).op == Op::FunctionParameter);
    map.extend(params.zip(args).filter_map(|(p, a)| Some((m.inst(*p).result?, *a))));
    for r in function.blocks.iter().flat_map(Block::all) {
        if let Some(id) = m.inst(r).result {
            let fresh = m.fresh_id();
            map.insert(id, fresh);
        }
    }
    let entry = function.blocks.first().and_then(|b| m.inst(b.label).result);
    map.extend(entry.zip(here));
    let mut body = Body { variables: Vec::new(), stores: Vec::new(), blocks: Vec::new(), last: None, value: None };
    for (b, block) in function.blocks.iter().enumerate() {
        let mut insts = InstList::new();
        for r in &block.insts {
            let mut inst = m.inst(*r).clone();
            if is_debug(m, &inst) {
                continue;
            }
            inst.map_ids(|id| map.get(&id).copied().unwrap_or(id));
            inst.result = inst.result.and_then(|id| map.get(&id).copied());
            match inst.op {
                Op::Variable => {
                    if let (Some(value), Some(id)) = (inst.id(1), inst.result) {
                        inst.operands.truncate(1);
                        let store = Inst::new(Op::Store, None, None, [id, value].map(Operand::Id));
                        body.stores.push(m.add(store));
                    }
                    body.variables.push(m.add(inst));
                }
                Op::Return => body.last = Some(b),
                Op::ReturnValue => (body.last, body.value) = (Some(b), inst.id(0)),
                _ => insts.push(m.add(inst)),
            }
        }
        // The first block's label is that of the block with the call.
        let label = m.inst(block.label).result.filter(|_| b > 0).and_then(|l| map.get(&l).copied());
        let label = m.add(Inst::new(Op::Label, None, label, []));
        body.blocks.push(Block { lead: Vec::new(), label, insts });
    }
    let params = function.params.iter().filter_map(|p| m.inst(*p).result);
    let params: FxHashSet<Id> = params.chain(entry).collect();
    copy_notes(m, &map, &params);
    body
}

/// Repeats names and decorations for the ids of a copy.
pub(crate) fn copy_notes(m: &mut Module, map: &FxHashMap<Id, Id>, not: &FxHashSet<Id>) {
    let mut at = 0;
    while at < m.globals.len() {
        let i = m.inst(m.globals[at]);
        let target = i.id(0).filter(|t| !not.contains(t)).and_then(|t| map.get(&t)).copied();
        if let (true, Some(to)) = (is_note(i.op) && !matches!(i.op, Op::GroupDecorate), target) {
            let mut copy = i.clone();
            copy.operands[0] = Operand::Id(to);
            let r = m.add(copy);
            m.globals.insert(at + 1, r);
            at += 1;
        }
        at += 1;
    }
}
