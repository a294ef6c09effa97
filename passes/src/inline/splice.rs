//! Replaces calls of a function by its body.
//!
//! The blocks of the caller are rebuilt one after the other; at a call, the body of the callee comes next. So each body
//! is copied once for each call, from the original function, and the work is linear in the output. References in copied
//! instructions are fixed at the end: results of calls ([`Splice::results`]), and the predecessors in phis
//! ([`Splice::ends`]).

use crate::ssa::{is_debug, undef};
use crate::{Refusal, pipeline};
use coop_ir::binary::MAX_BOUND;
use coop_ir::builder::name;
use coop_ir::hash::{FxHashMap, FxHashSet};
use coop_ir::{Block, Function, Id, Inst, InstRef, Module, Op, Operand};

/// The reason why calls can't be inlined.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NotInlinable {
    /// A function calls itself, directly or through others.
    Recursion,
    /// The output would have more ids than a module can have, or more instructions than it may have.
    TooLarge,
}

impl NotInlinable {
    /// Returns the refusal of calls in function `f`.
    pub(crate) fn refusal(self, m: &Module, f: usize) -> Refusal {
        let at = m.functions.get(f).map(|f| f.def);
        match self {
            NotInlinable::Recursion => {
                let why = "a function calls itself, directly or through others";
                Refusal::new("refused-recursion", at, why, "SPIR-V for shaders has no recursion")
            }
            NotInlinable::TooLarge if m.is_full() => pipeline::too_many(m, at),
            NotInlinable::TooLarge => {
                let why = format!("with functions inlined, the module has more than {MAX_BOUND} ids");
                Refusal::new("refused-size", at, why, "call fewer functions that take or return matrices")
            }
        }
    }
}

/// Inlines the calls of `chosen` functions in the functions `callers`, by index. Each chosen function returns once, in
/// its last reached block, at its outermost level.
pub(crate) fn calls(m: &mut Module, callers: &[usize], chosen: &FxHashSet<Id>) -> Result<(), NotInlinable> {
    let bodies = (0..m.functions.len()).filter_map(|f| Some((m.inst(m.functions[f].def).result?, f)));
    let bodies: FxHashMap<Id, usize> = bodies.filter(|(id, _)| chosen.contains(id)).collect();
    let calls_any = |f: &usize| m.functions[*f].insts().any(|r| callee(m, r, &bodies).is_some());
    let callers: Vec<usize> = callers.iter().copied().filter(calls_any).collect();
    if callers.is_empty() {
        return Ok(());
    }
    if is_recursive(m, &callers, &bodies) {
        return Err(NotInlinable::Recursion);
    }
    let mut notes = Annotations::new(m);
    for f in callers {
        let splice = Splice {
            f,
            bodies: &bodies,
            notes: &mut notes,
            out: Vec::new(),
            todo: Vec::new(),
            variables: Vec::new(),
            results: FxHashMap::default(),
            ends: FxHashMap::default(),
        };
        splice.run(m)?;
    }
    notes.finish(m);
    Ok(())
}

/// Returns the function of `bodies` that an instruction calls.
fn callee(m: &Module, r: InstRef, bodies: &FxHashMap<Id, usize>) -> Option<usize> {
    let i = m.inst(r);
    if i.op == Op::FunctionCall { bodies.get(&i.callee()?).copied() } else { None }
}

/// Returns true if a function that is reachable from `callers` by calls of `bodies` is reachable from itself.
fn is_recursive(m: &Module, callers: &[usize], bodies: &FxHashMap<Id, usize>) -> bool {
    let called = |f: usize| -> Vec<usize> { m.functions[f].insts().filter_map(|r| callee(m, r, bodies)).collect() };
    // True for a function once all its callees are visited.
    let mut done: FxHashMap<usize, bool> = FxHashMap::default();
    for root in callers {
        let mut stack = vec![(*root, called(*root))];
        done.entry(*root).or_insert(false);
        while let Some((f, rest)) = stack.last_mut() {
            let Some(next) = rest.pop() else {
                done.insert(*f, true);
                stack.pop();
                continue;
            };
            match done.get(&next) {
                Some(true) => {}
                Some(false) => return true,
                None => {
                    done.insert(next, false);
                    stack.push((next, called(next)));
                }
            }
        }
    }
    false
}

/// Names and decorations, by the id that they are about, and copies of them for other ids.
struct Annotations {
    of: FxHashMap<Id, Vec<InstRef>>,
    /// The copies of each, in the order in which they were made.
    copies: FxHashMap<InstRef, Vec<InstRef>>,
    /// The removed ids.
    gone: FxHashSet<Id>,
}

impl Annotations {
    fn new(m: &Module) -> Annotations {
        let mut of: FxHashMap<Id, Vec<InstRef>> = FxHashMap::default();
        for r in &m.globals {
            let i = m.inst(*r);
            if let Some(id) = i.note_target().filter(|_| i.op != Op::GroupDecorate) {
                of.entry(id).or_default().push(*r);
            }
        }
        Annotations { of, copies: FxHashMap::default(), gone: FxHashSet::default() }
    }

    /// Copies the names and decorations of an id for another one.
    fn copy(&mut self, m: &mut Module, from: Id, to: Id) {
        for r in self.of.get(&from).cloned().unwrap_or_default() {
            let mut copy = m.inst(r).clone();
            copy.operands[0] = Operand::Id(to);
            let new = m.add(copy);
            self.copies.entry(r).or_default().push(new);
            self.of.entry(to).or_default().push(new);
        }
    }

    /// Inserts each copy after its original, and drops the names and decorations of removed ids.
    fn finish(self, m: &mut Module) {
        let mut globals = Vec::with_capacity(m.globals.len());
        for r in std::mem::take(&mut m.globals) {
            let mut stack = vec![r];
            while let Some(r) = stack.pop() {
                stack.extend(self.copies.get(&r).into_iter().flatten().rev());
                let i = m.inst(r);
                if i.note_target().is_some_and(|id| self.gone.contains(&id)) {
                    m.forget(r);
                } else {
                    globals.push(r);
                }
            }
        }
        m.globals = globals;
    }
}

/// A block of the caller that is still to be built.
struct Pending {
    lead: Vec<InstRef>,
    label: InstRef,
    /// Its instructions, the last first.
    rest: Vec<InstRef>,
    /// The original block whose terminator comes at its end: phis name that block.
    end: Option<Id>,
    /// Its loop merge, if it is the header of a loop.
    merge: Option<InstRef>,
}

/// The block being built.
struct Current {
    block: Pending,
    made: Vec<InstRef>,
    /// The current source position.
    line: Option<InstRef>,
}

impl Current {
    fn new(block: Pending) -> Current {
        Current { block, made: Vec::new(), line: None }
    }

    fn emit(&mut self, m: &Module, r: InstRef) {
        match m.inst(r).op {
            Op::Line => self.line = Some(r),
            op if op.is_line() => self.line = None,
            _ => {}
        }
        self.made.push(r);
    }
}

/// A caller being rebuilt.
struct Splice<'a> {
    f: usize,
    bodies: &'a FxHashMap<Id, usize>,
    notes: &'a mut Annotations,
    out: Vec<Block>,
    /// The next is the last.
    todo: Vec<Pending>,
    variables: Vec<InstRef>,
    /// The replacements of the results of calls.
    results: FxHashMap<Id, Id>,
    /// For blocks (and for the stand-ins of the first blocks of bodies), the block that now has their terminator.
    ends: FxHashMap<Id, Id>,
}

/// The body of a function with fresh ids.
struct Body {
    variables: Vec<InstRef>,
    /// The stores of the initializers of variables.
    stores: Vec<InstRef>,
    /// The first block has no label.
    blocks: Vec<(Option<Id>, Vec<InstRef>)>,
    /// The block that returns, if one does, and its value.
    last: Option<usize>,
    value: Option<Id>,
}

impl Splice<'_> {
    fn run(mut self, m: &mut Module) -> Result<(), NotInlinable> {
        let blocks = std::mem::take(&mut m.functions[self.f].blocks);
        self.todo = blocks.into_iter().map(|b| pending(m, b.lead, b.label, b.insts.to_vec())).rev().collect();
        while let Some(block) = self.todo.pop() {
            self.block(m, block)?;
        }
        self.fix_terminators(m);
        if let Some(entry) = self.out.first_mut() {
            entry.insts.insert_many(0, self.variables);
        }
        m.functions[self.f].blocks = self.out;
        Ok(())
    }

    fn block(&mut self, m: &mut Module, block: Pending) -> Result<(), NotInlinable> {
        let mut current = Current::new(block);
        while let Some(r) = current.block.rest.pop() {
            match callee(m, r, self.bodies) {
                Some(callee) => self.call(m, &mut current, r, callee)?,
                None => current.emit(m, r),
            }
        }
        self.done(m, current);
        Ok(())
    }

    /// Ends a block.
    fn done(&mut self, m: &Module, Current { block, made, .. }: Current) {
        if let (Some(end), Some(label)) = (block.end, m.inst(block.label).result)
            && end != label
        {
            self.ends.insert(end, label);
        }
        self.out.push(Block { lead: block.lead, label: block.label, insts: made.into_iter().collect() });
    }

    fn call(&mut self, m: &mut Module, current: &mut Current, r: InstRef, callee: usize) -> Result<(), NotInlinable> {
        let (result, ty, args) = (m.inst(r).result, m.inst(r).ty, m.inst(r).ids_from(1).collect::<Vec<_>>());
        let returns = |b: &Block| b.terminator().is_some_and(|t| matches!(m.inst(t).op, Op::Return | Op::ReturnValue));
        let many = !matches!(m.functions[callee].blocks.as_slice(), [one] if returns(one));
        if many && current.block.merge.is_some() {
            self.split_header(m, current);
        }
        // The id for the first block in the phis of the body.
        let first = m.fresh_id();
        let mut body = self.copy(m, callee, &args, first);
        if m.header.bound > MAX_BOUND || m.is_full() {
            return Err(NotInlinable::TooLarge);
        }
        // The call must no longer define the result.
        m.forget(r);
        let has_lines = body.blocks.iter().any(|(_, insts)| insts.iter().any(|r| m.inst(*r).op == Op::Line));
        let back = match current.line {
            Some(line) => Some(m.inst(line).clone()),
            None => has_lines.then(|| Inst::new(Op::NoLine, None, None, [])),
        };
        let back = back.map(|inst| m.add(inst));
        self.variables.extend(body.variables);
        for store in body.stores {
            current.emit(m, store);
        }
        if many {
            let label = m.fresh_id();
            let after = Pending {
                lead: Vec::new(),
                label: m.add(Inst::new(Op::Label, None, Some(label), [])),
                rest: std::mem::take(&mut current.block.rest),
                end: current.block.end.replace(first),
                merge: None,
            };
            self.todo.push(after);
            if let Some(last) = body.last {
                let jump = m.add(Inst::new(Op::Branch, None, None, [label.into()]));
                body.blocks[last].1.push(jump);
            }
            let at_end = self.todo.last_mut().map(|after| &mut after.rest);
            at_end.into_iter().for_each(|rest| rest.extend(back));
            for (label, insts) in body.blocks.drain(1..).rev() {
                let label = m.add(Inst::new(Op::Label, None, label, []));
                self.todo.push(pending(m, Vec::new(), label, insts));
            }
        } else {
            current.block.rest.extend(back);
        }
        if let Some((_, insts)) = body.blocks.pop() {
            current.block.rest.extend(insts.into_iter().rev());
        }
        let value = body.value.or_else(|| {
            // Control never returns, or returns no value.
            let ty = ty.filter(|t| m.def_inst(*t).is_some_and(|i| i.op != Op::TypeVoid))?;
            Some(undef(m, ty))
        });
        if let Some(result) = result {
            self.results.extend(value.map(|value| (result, value)));
            self.notes.gone.insert(result);
        }
        Ok(())
    }

    /// Splits a loop header, which must stay one block with its merge instruction: the rest goes to the next block.
    fn split_header(&mut self, m: &mut Module, current: &mut Current) {
        let Some(merge) = current.block.merge.take() else { return };
        let stays = |r: &InstRef| m.inst(*r).op == Op::Phi || m.inst(*r).op.is_line();
        let phis = current.made.iter().take_while(|r| stays(r)).count();
        let moved = current.made.split_off(phis);
        let line = current.made.iter().rev().copied().find(|r| m.inst(*r).op.is_line());
        let line = line.filter(|r| m.inst(*r).op == Op::Line).map(|r| m.inst(r).clone());
        let label = m.fresh_id();
        let jump = m.add(Inst::new(Op::Branch, None, None, [label.into()]));
        let next = Pending {
            lead: Vec::new(),
            label: m.add(Inst::new(Op::Label, None, Some(label), [])),
            rest: std::mem::take(&mut current.block.rest).into_iter().filter(|r| *r != merge).collect(),
            end: current.block.end.take(),
            merge: None,
        };
        let kept_line = current.line;
        let mut head = std::mem::replace(current, Current::new(next));
        let old = m.inst(head.block.label).result;
        head.made.extend([merge, jump]);
        self.done(m, head);
        current.made.extend(line.map(|inst| m.add(inst)));
        current.made.extend(moved);
        current.line = kept_line;
        // A block that is its own continue target: a new one takes the back edge.
        if old.is_some() && m.inst(merge).continue_target() == old {
            self.own_latch(m, current, merge);
        }
        self.own_selection(m, current, merge);
    }

    /// Gives a loop of one block a continue target of its own: the current block branches there, and it gets the
    /// terminator of the loop.
    fn own_latch(&mut self, m: &mut Module, current: &mut Current, merge: InstRef) {
        let Some(terminator) = current.block.rest.first().copied() else { return };
        let label = m.fresh_id();
        current.block.rest[0] = m.add(Inst::new(Op::Branch, None, None, [label.into()]));
        m.inst_mut(merge).operands[1] = Operand::Id(label);
        let label = m.add(Inst::new(Op::Label, None, Some(label), []));
        let end = current.block.end.take();
        self.todo.push(Pending { lead: Vec::new(), label, rest: vec![terminator], end, merge: None });
    }

    /// Gives the conditional branch of a loop header, now in a block by itself, a merge of its own unless one arm
    /// leaves the loop. Otherwise both arms stay in the loop and leave the new selection by continuing or leaving the
    /// loop, so that nothing reaches its merge block.
    fn own_selection(&mut self, m: &mut Module, current: &mut Current, merge: InstRef) {
        let Some(last) = current.block.rest.first().copied() else { return };
        let (i, loop_merge) = (m.inst(last), m.inst(merge));
        let exit = |t: Option<Id>| t.is_some() && (t == loop_merge.merge_block() || t == loop_merge.continue_target());
        if i.op != Op::BranchConditional || i.id(1) == i.id(2) || exit(i.id(1)) || exit(i.id(2)) {
            return;
        }
        let label = m.fresh_id();
        let l = m.add(Inst::new(Op::Label, None, Some(label), []));
        let end = m.add(Inst::new(Op::Unreachable, None, None, []));
        let selection = m.add(Inst::new(Op::SelectionMerge, None, None, [label.into(), 0.into()]));
        current.block.rest.insert(1, selection);
        self.todo.push(Pending { lead: Vec::new(), label: l, rest: vec![end], end: None, merge: None });
    }

    /// Copies the body of a function, with arguments in place of parameters. Its phis name its first block `first`.
    fn copy(&mut self, m: &mut Module, callee: usize, args: &[Id], first: Id) -> Body {
        let function = m.functions[callee].clone();
        let mut map: FxHashMap<Id, Id> = FxHashMap::default();
        let params = function.params.iter().filter(|p| m.inst(**p).op == Op::FunctionParameter);
        map.extend(params.zip(args).filter_map(|(p, a)| Some((m.inst(*p).result?, *a))));
        let entry = function.blocks.first().and_then(|b| m.inst(b.label).result);
        map.extend(entry.map(|id| (id, first)));
        let results = function.blocks.iter().flat_map(Block::all).filter_map(|r| m.inst(r).result);
        let results: Vec<Id> = results.filter(|id| Some(*id) != entry).collect();
        for id in results {
            let fresh = m.fresh_id();
            map.insert(id, fresh);
            self.notes.copy(m, id, fresh);
        }
        let mut body = Body { variables: Vec::new(), stores: Vec::new(), blocks: Vec::new(), last: None, value: None };
        for (b, block) in function.blocks.iter().enumerate() {
            let mut insts = Vec::with_capacity(block.insts.len());
            for r in &block.insts {
                let mut inst = m.inst(*r).clone();
                if is_debug(m, &inst) {
                    continue;
                }
                inst.map_ids(|id| map.get(&id).copied().unwrap_or(id));
                inst.result = inst.result.and_then(|id| map.get(&id).copied());
                match inst.op {
                    Op::Variable => {
                        if let (Some(value), Some(id)) = (inst.initializer(), inst.result) {
                            inst.operands.truncate(1);
                            let store = Inst::new(Op::Store, None, None, [id, value].map(Operand::Id));
                            body.stores.push(m.add(store));
                        }
                        body.variables.push(m.add(inst));
                    }
                    Op::Return => body.last = Some(b),
                    Op::ReturnValue => (body.last, body.value) = (Some(b), inst.returned()),
                    _ => insts.push(m.add(inst)),
                }
            }
            let label = m.inst(block.label).result.filter(|_| b > 0).and_then(|l| map.get(&l).copied());
            body.blocks.push((label, insts));
        }
        body
    }

    /// Replaces the results of calls by values, and the predecessors in phis by the blocks that now have their
    /// terminators.
    fn fix_terminators(&mut self, m: &mut Module) {
        let (results, ends) = (resolved(&self.results), &self.ends);
        for r in self.out.iter().flat_map(|b| b.insts.iter().copied()).chain(self.variables.iter().copied()) {
            let inst = m.inst(r);
            let is_phi = inst.op == Op::Phi;
            let changes = |id: Id| results.contains_key(&id) || is_phi && ends.contains_key(&id);
            if !inst.ids().any(changes) {
                continue;
            }
            let inst = m.inst_mut(r);
            inst.map_ids(|id| results.get(&id).copied().unwrap_or(id));
            if is_phi {
                for operand in inst.operands.iter_mut().skip(1).step_by(2) {
                    if let Some(end) = operand.id().and_then(|id| ends.get(&id)) {
                        *operand = Operand::Id(*end);
                    }
                }
            }
        }
    }
}

/// Makes a pending block from an original one.
fn pending(m: &Module, lead: Vec<InstRef>, label: InstRef, mut insts: Vec<InstRef>) -> Pending {
    let merge = insts.iter().copied().find(|r| m.inst(*r).op == Op::LoopMerge);
    insts.reverse();
    Pending { lead, label, rest: insts, end: m.inst(label).result, merge }
}

/// Resolves chains of replacements.
fn resolved(steps: &FxHashMap<Id, Id>) -> FxHashMap<Id, Id> {
    let mut out: FxHashMap<Id, Id> = FxHashMap::default();
    let mut path = Vec::new();
    for start in steps.keys() {
        let mut id = *start;
        // A result that is its own argument makes a cycle; unreachable code may have one.
        while let Some(next) = steps.get(&id).filter(|_| !out.contains_key(&id) && path.len() <= steps.len()) {
            path.push(id);
            id = *next;
        }
        let end = out.get(&id).copied().unwrap_or(id);
        path.drain(..).for_each(|id| _ = out.insert(id, end));
    }
    out
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
    copy_annotations(m, &map, &own);
    let named = m.globals_with(Op::Name).find(|r| m.inst(*r).note_target() == m.inst(function.def).result);
    let label = named.and_then(|r| m.inst(r).string(1)).map_or_else(|| "function".to_owned(), |(s, _)| s);
    if let Some(id) = m.inst(def).result {
        name(m, id, &format!("{label}{suffix}"));
    }
    m.functions.push(Function { lead: Vec::new(), def, params, blocks, tail });
}

/// Copies names and decorations for the ids of a copy.
pub(crate) fn copy_annotations(m: &mut Module, map: &FxHashMap<Id, Id>, not: &FxHashSet<Id>) {
    let mut at = 0;
    while at < m.globals.len() {
        let i = m.inst(m.globals[at]);
        let target = i.note_target().filter(|t| !not.contains(t)).and_then(|t| map.get(&t)).copied();
        if let (true, Some(to)) = (i.op != Op::GroupDecorate, target) {
            let mut copy = i.clone();
            copy.operands[0] = Operand::Id(to);
            let r = m.add(copy);
            m.globals.insert(at + 1, r);
            at += 1;
        }
        at += 1;
    }
}
