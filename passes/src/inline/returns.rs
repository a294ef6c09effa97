//! Gives a function a single return at its outermost level.
//!
//! The body goes into a loop that is entered once; a return becomes a break out of it. Control can leave a loop inside
//! the body only to that loop's merge block: there a flag decides whether to leave further. The new edges reach blocks
//! with values that no path computed; [`ssa::repair`] makes those undefined, and nothing uses them.

use crate::ssa;
use coop_ir::builder::Globals;
use coop_ir::cfg::{Cfg, ConstructKind, Constructs};
use coop_ir::hash::FxHashMap;
use coop_ir::{Block, Id, Inst, InstList, InstRef, Module, Op, Operand};

/// Gives function `f` a single return outside all constructs.
pub(crate) fn single_return(m: &mut Module, g: &mut Globals, f: usize) {
    let cfg = Cfg::new(m, &m.functions[f]);
    let constructs = Constructs::new(&cfg);
    let returns: Vec<usize> = (0..cfg.len())
        .filter(|b| {
            let last = m.functions[f].blocks[*b].terminator();
            last.is_some_and(|r| matches!(m.inst(r).op, Op::Return | Op::ReturnValue))
        })
        .collect();
    for b in returns.iter().filter(|b| !cfg.is_reachable(**b)) {
        if let Some(r) = m.functions[f].blocks[*b].terminator() {
            m.replace(r, Inst::new(Op::Unreachable, None, None, []));
        }
    }
    let returns: Vec<usize> = returns.into_iter().filter(|b| cfg.is_reachable(*b)).collect();
    match returns.as_slice() {
        [] => return,
        [one] if !constructs.all().iter().any(|c| c.header != *one && constructs.contains(c, *one)) => return,
        _ => {}
    }
    // The loop constructs around each return, the innermost first.
    let around = |b: usize| -> Vec<usize> {
        let holds = |h: usize| {
            constructs
                .all()
                .iter()
                .any(|c| c.header == h && c.kind != ConstructKind::Selection && constructs.contains(c, b))
        };
        let loops = constructs.all().iter().filter(|c| c.kind == ConstructKind::Loop).map(|c| c.header);
        let mut out: Vec<usize> = loops.filter(|h| holds(*h)).collect();
        out.reverse();
        out
    };
    let around: Vec<(usize, Vec<usize>)> = returns.into_iter().map(|b| (b, around(b))).collect();
    let labels: Vec<Option<Id>> = (0..cfg.len()).map(|b| cfg.label(b)).collect();
    let merges: FxHashMap<usize, LoopExit> = around
        .iter()
        .flat_map(|(_, loops)| loops.iter().copied())
        .filter_map(|h| Some((h, LoopExit::of(&cfg, &constructs, h, &labels)?)))
        .collect();
    Wrap { m, g, f }.run(&around, &merges);
}

/// The exit of a loop.
struct LoopExit {
    merge_inst: InstRef,
    merge: Id,
    /// The blocks of the loop that branch to its merge block.
    breaks: Vec<Id>,
}

impl LoopExit {
    fn of(cfg: &Cfg, constructs: &Constructs, header: usize, labels: &[Option<Id>]) -> Option<LoopExit> {
        let merge = cfg.merge(header)?;
        let block = merge.merge?;
        let inside = |b: usize| {
            let mut of_loop = constructs.all().iter().filter(|c| c.header == header);
            of_loop.any(|c| c.kind != ConstructKind::Selection && constructs.contains(c, b))
        };
        let breaks = cfg.predecessors(block).iter().copied().filter(|b| inside(*b));
        let breaks = breaks.filter_map(|b| labels[b]).collect();
        Some(LoopExit { merge_inst: merge.inst, merge: labels[block]?, breaks })
    }
}

struct Wrap<'m, 'g> {
    m: &'m mut Module,
    g: &'g mut Globals,
    f: usize,
}

impl Wrap<'_, '_> {
    fn run(mut self, around: &[(usize, Vec<usize>)], exits: &FxHashMap<usize, LoopExit>) {
        let [entry, header, end, next] = std::array::from_fn(|_| self.m.fresh_id());
        let ret = self.m.inst(self.m.functions[self.f].def).ty;
        let ret = ret.filter(|t| self.m.def_inst(*t).is_some_and(|i| i.op != Op::TypeVoid));
        let value = ret.map(|ty| (ty, ssa::variable(self.m, self.g, self.f, ty)));
        let bool_type = self.g.bool(self.m);
        let flag = (!exits.is_empty()).then(|| ssa::variable(self.m, self.g, self.f, bool_type));
        let constant = |this: &mut Self, op: Op| {
            let found = this.m.globals_with(op).find(|r| this.m.inst(*r).ty == Some(bool_type));
            found.and_then(|r| this.m.inst(r).result).unwrap_or_else(|| {
                let id = this.m.fresh_id();
                let r = this.m.add(Inst::new(op, Some(bool_type), Some(id), []));
                this.m.globals.push(r);
                id
            })
        };
        // The future merge blocks of the loops that are left.
        let mut new_merge: FxHashMap<usize, Id> = FxHashMap::default();
        let mut ordered: Vec<usize> = exits.keys().copied().collect();
        ordered.sort_unstable();
        for h in &ordered {
            new_merge.insert(*h, self.m.fresh_id());
        }
        for (b, loops) in around {
            let mut insts = self.m.functions[self.f].blocks[*b].insts.clone();
            let Some(last) = insts.pop() else { continue };
            if let (Some((_, variable)), Some(v)) = (value, self.m.inst(last).returned()) {
                insts.push(self.inst(Op::Store, &[variable, v]));
            }
            let target = match loops.first() {
                Some(inner) => new_merge.get(inner).copied().unwrap_or(end),
                None => end,
            };
            if let (Some(flag), false) = (flag, loops.is_empty()) {
                let yes = constant(&mut self, Op::ConstantTrue);
                insts.push(self.inst(Op::Store, &[flag, yes]));
            }
            insts.push(self.inst(Op::Branch, &[target]));
            self.m.functions[self.f].blocks[*b].insts = insts;
        }
        let mut parents: FxHashMap<usize, Id> = FxHashMap::default();
        for (_, loops) in around {
            for (at, h) in loops.iter().enumerate() {
                let outer = loops.get(at + 1).and_then(|o| new_merge.get(o)).copied().unwrap_or(end);
                parents.insert(*h, outer);
            }
        }
        for h in &ordered {
            let (Some(exit), Some(flag), Some(outer)) = (exits.get(h), flag, parents.get(h)) else { continue };
            self.leave(exit, new_merge[h], flag, *outer, bool_type);
        }
        let mut setup = Vec::new();
        if let Some(flag) = flag {
            let no = constant(&mut self, Op::ConstantFalse);
            setup.push(self.inst(Op::Store, &[flag, no]));
        }
        self.enclose(setup, entry, header, end, next, value);
        ordered.iter().for_each(|h| self.complete_phis(new_merge[h]));
        let promoted: Vec<Id> = value.map(|v| v.1).into_iter().chain(flag).collect();
        ssa::repair(self.m, self.g, self.f);
        ssa::promote(self.m, self.f, &promoted);
    }

    fn inst(&mut self, op: Op, ids: &[Id]) -> InstRef {
        self.m.add(Inst::new(op, None, None, ids.iter().map(|id| Operand::Id(*id))))
    }

    fn block(&mut self, label: Id, insts: InstList) -> Block {
        let label = self.m.add(Inst::new(Op::Label, None, Some(label), []));
        Block { lead: Vec::new(), label, insts }
    }

    /// Makes a new merge block of a loop, in front of the old one: it leaves further if the flag is set.
    fn leave(&mut self, exit: &LoopExit, label: Id, flag: Id, outer: Id, bool_type: Id) {
        self.m.inst_mut(exit.merge_inst).operands[0] = Operand::Id(label);
        let mut insts = InstList::new();
        let blocks = &self.m.functions[self.f].blocks;
        let is = |b: &Block, l: Id| self.m.inst(b.label).result == Some(l);
        let Some(at) = blocks.iter().position(|b| is(b, exit.merge)) else { return };
        let terminators: Vec<InstRef> =
            blocks.iter().filter(|b| exit.breaks.iter().any(|l| is(b, *l))).filter_map(Block::terminator).collect();
        let phis: Vec<InstRef> = blocks[at].insts.iter().copied().filter(|r| self.m.inst(*r).op == Op::Phi).collect();
        for t in terminators {
            // Not the selector of a switch, which is not a label.
            self.m.inst_mut(t).map_ids(|id| if id == exit.merge { label } else { id });
        }
        for phi in phis {
            let inst = self.m.inst(phi).clone();
            let (moved, kept): (Vec<_>, Vec<_>) = inst
                .operands
                .chunks_exact(2)
                .map(|p| (p[0], p[1]))
                .partition(|(_, from)| from.id().is_some_and(|l| exit.breaks.contains(&l)));
            if moved.is_empty() {
                continue;
            }
            let id = self.m.fresh_id();
            let operands = moved.into_iter().flat_map(|(v, l)| [v, l]);
            insts.push(self.m.add(Inst::new(Op::Phi, inst.ty, Some(id), operands)));
            let rest = kept.into_iter().flat_map(|(v, l)| [v, l]).chain([id.into(), label.into()]);
            self.m.inst_mut(phi).operands = rest.collect();
        }
        let (flagged, leaving) = (self.m.fresh_id(), self.m.fresh_id());
        insts.push(self.m.add(Inst::new(Op::Load, Some(bool_type), Some(flagged), [flag.into()])));
        insts.push(self.m.add(Inst::new(Op::SelectionMerge, None, None, [exit.merge.into(), 0.into()])));
        insts.push(self.inst(Op::BranchConditional, &[flagged, leaving, exit.merge]));
        let new = self.block(label, insts);
        let jump = std::iter::once(self.inst(Op::Branch, &[outer])).collect();
        let out = self.block(leaving, jump);
        self.m.functions[self.f].blocks.splice(at..at, [new, out]);
    }

    /// Completes the phis of a loop's merge block: returns contribute no values to them.
    fn complete_phis(&mut self, label: Id) {
        let blocks = &self.m.functions[self.f].blocks;
        let to_it = |b: &&Block| b.terminator().is_some_and(|t| self.m.inst(t).ids().any(|id| id == label));
        let from: Vec<Id> = blocks.iter().filter(to_it).filter_map(|b| self.m.inst(b.label).result).collect();
        let Some(block) = blocks.iter().find(|b| self.m.inst(b.label).result == Some(label)) else { return };
        let phis: Vec<InstRef> = block.insts.iter().copied().filter(|r| self.m.inst(*r).op == Op::Phi).collect();
        for phi in phis {
            let Some(ty) = self.m.inst(phi).ty else { continue };
            for pred in &from {
                let inst = self.m.inst(phi);
                if inst.operands.iter().skip(1).step_by(2).any(|o| o.id() == Some(*pred)) {
                    continue;
                }
                let nothing = ssa::undef(self.m, ty);
                self.m.inst_mut(phi).operands.extend([nothing, *pred].map(Operand::Id));
            }
        }
    }

    /// Puts the body into a loop that is entered once.
    fn enclose(&mut self, setup: Vec<InstRef>, entry: Id, header: Id, end: Id, next: Id, value: Option<(Id, Id)>) {
        let mut first = InstList::new();
        if let Some(old) = self.m.functions[self.f].blocks.first().map(|b| b.insts.clone()) {
            let (variables, rest): (Vec<_>, Vec<_>) = old.into_iter().partition(|r| self.m.inst(*r).op == Op::Variable);
            first.extend(variables);
            self.m.functions[self.f].blocks[0].insts = rest.into_iter().collect();
        }
        first.extend(setup);
        first.push(self.inst(Op::Branch, &[header]));
        let body = self.m.functions[self.f].blocks.first().and_then(|b| self.m.inst(b.label).result);
        let merge = [end.into(), next.into(), 0.into()];
        let mut head = InstList::new();
        head.push(self.m.add(Inst::new(Op::LoopMerge, None, None, merge)));
        head.push(self.inst(Op::Branch, &body.into_iter().collect::<Vec<_>>()));
        let mut tail = InstList::new();
        match value {
            Some((ty, variable)) => {
                let id = self.m.fresh_id();
                tail.push(self.m.add(Inst::new(Op::Load, Some(ty), Some(id), [variable.into()])));
                tail.push(self.inst(Op::ReturnValue, &[id]));
            }
            None => tail.push(self.inst(Op::Return, &[])),
        }
        let back = std::iter::once(self.inst(Op::Branch, &[header])).collect();
        let (entry, header) = (self.block(entry, first), self.block(header, head));
        let (next, end) = (self.block(next, back), self.block(end, tail));
        let blocks = &mut self.m.functions[self.f].blocks;
        blocks.splice(0..0, [entry, header]);
        blocks.extend([next, end]);
    }
}
