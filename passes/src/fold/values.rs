//! The integers and truth values of a function that constants determine.
//!
//! The usual propagation over a function in SSA form: values begin as not yet seen, blocks as not executed; an edge is
//! executed if a branch may take it with what is known of its condition, and a phi sees executed edges only.

use coop_ir::cfg::{Case, Cfg};
use coop_ir::constant::{Constants, fold_int};
use coop_ir::hash::{FxHashMap, FxHashSet};
use coop_ir::types::{Scalar, Type};
use coop_ir::{Id, Inst, Module, Op};

/// The values of a function as far as they are known, and its edges that are executed.
pub(super) struct Values<'a> {
    constants: &'a Constants,
    /// The results of its instructions, as far as they were seen: a number in every execution, or no certain one.
    of: FxHashMap<Id, Option<u64>>,
    executed: FxHashSet<(usize, usize)>,
    live: Vec<bool>,
    /// The successor of a block whose branch is decided.
    decided: Vec<Option<usize>>,
}

impl<'a> Values<'a> {
    pub(super) fn new(m: &Module, constants: &'a Constants, cfg: &Cfg, f: usize) -> Values<'a> {
        let insts: usize = m.functions[f].blocks.iter().map(|b| b.insts.len()).sum();
        let mut this = Values {
            constants,
            // About half of the results are numbers.
            of: FxHashMap::with_capacity_and_hasher(insts / 2, Default::default()),
            executed: FxHashSet::default(),
            live: vec![false; cfg.len()],
            decided: vec![None; cfg.len()],
        };
        if cfg.is_empty() {
            return this;
        }
        this.live[0] = true;
        // A value goes from unseen to known to varying at most, so this ends.
        while this.propagate(m, cfg, f) {}
        for b in 0..cfg.len() {
            this.decided[b] = this.decision(m, cfg, f, b);
        }
        this
    }

    /// Returns the number that a value is in every execution.
    pub(super) fn get(&self, id: Id) -> Option<u64> {
        // Operands are seen before what uses them, but for those of phis that come by edges not executed yet.
        self.constants.get(id).fixed().or_else(|| self.of.get(&id).copied().flatten())
    }

    /// Returns true if a block may be executed.
    pub(super) fn is_live(&self, block: usize) -> bool {
        self.live[block]
    }

    /// Returns true if control may go from one block to another.
    pub(super) fn is_executed(&self, from: usize, to: usize) -> bool {
        self.executed.contains(&(from, to))
    }

    /// Returns the blocks whose branch or switch is decided, with where they go.
    pub(super) fn decided(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        self.decided.iter().enumerate().filter_map(|(b, to)| Some((b, (*to)?)))
    }

    /// Returns the results of instructions in function `f` that are known, in order.
    pub(super) fn folded(&self, m: &Module, f: usize) -> Vec<(Id, u64)> {
        let blocks = m.functions[f].blocks.iter().zip(&self.live).filter(|(_, live)| **live).map(|(b, _)| b);
        let results = blocks.flat_map(|b| &b.insts).filter_map(|r| m.inst(*r).result);
        results.filter_map(|id| Some((id, self.of.get(&id).and_then(|_| self.get(id))?))).collect()
    }

    /// Computes everything once more with what is known; answers whether that changed anything.
    fn propagate(&mut self, m: &Module, cfg: &Cfg, f: usize) -> bool {
        let mut changed = false;
        for b in cfg.rpo() {
            if !self.live[*b] {
                continue;
            }
            for r in &m.functions[f].blocks[*b].insts {
                let i = m.inst(*r);
                let Some((id, ty)) = i.result.zip(i.ty) else { continue };
                let old = self.of.get(&id).copied();
                if old == Some(None) {
                    continue;
                }
                let Some(width) = bits(m, ty) else { continue };
                let new = self.compute(m, cfg, *b, i, width);
                // What was one number and is another now varies.
                let new = if old.is_some_and(|old| old != new) { None } else { new };
                if old != Some(new) {
                    self.of.insert(id, new);
                    changed = true;
                }
            }
            for e in cfg.edges(*b) {
                if self.may_take(m, cfg, f, *b, e.case) && self.executed.insert((*b, e.to)) {
                    self.live[e.to] = true;
                    changed = true;
                }
            }
        }
        changed
    }

    fn compute(&self, m: &Module, cfg: &Cfg, block: usize, i: &Inst, width: u32) -> Option<u64> {
        let operand = |at: usize| i.id(at).and_then(|id| self.get(id));
        match i.op {
            Op::Phi => return self.phi(cfg, block, i),
            Op::Select => {
                return match operand(0) {
                    Some(c) => operand(if c != 0 { 1 } else { 2 }),
                    None => operand(1).filter(|a| operand(2) == Some(*a)),
                };
            }
            Op::CopyObject => return operand(0),
            Op::CompositeExtract => return component_of(m, i).and_then(|id| self.get(id)),
            _ => {}
        }
        let count = i.operands.len();
        if !i.op.is_pure() || !(1..=2).contains(&count) || i.ids().count() != count {
            return None;
        }
        let sized = |at: usize| Some((operand(at)?, m.type_of(i.id(at)?).and_then(|t| bits(m, t))?));
        match (i.op, operand(0), operand(1)) {
            (Op::LogicalOr, Some(1), _) | (Op::LogicalOr, _, Some(1)) => Some(1),
            (Op::LogicalAnd | Op::BitwiseAnd | Op::IMul, Some(0), _)
            | (Op::LogicalAnd | Op::BitwiseAnd | Op::IMul, _, Some(0)) => Some(0),
            (op, ..) if count == 1 => fold_int(op, width, &[sized(0)?]),
            (op, ..) => fold_int(op, width, &[sized(0)?, sized(1)?]),
        }
    }

    fn phi(&self, cfg: &Cfg, block: usize, i: &Inst) -> Option<u64> {
        let mut all = None;
        for at in (0..i.operands.len()).step_by(2) {
            let (value, from) = (i.id(at)?, i.id(at + 1).and_then(|l| cfg.block(l))?);
            if self.is_executed(from, block) {
                let value = self.get(value)?;
                if all.is_some_and(|all| all != value) {
                    return None;
                }
                all = Some(value);
            }
        }
        all
    }

    fn may_take(&self, m: &Module, cfg: &Cfg, f: usize, block: usize, case: Case) -> bool {
        if matches!(case, Case::Always | Case::Possible) || is_back_edge(cfg, block) {
            return true;
        }
        let selector = super::selector(m, f, block);
        let Some(known) = selector.and_then(|id| self.get(id)) else { return true };
        match case {
            Case::True => known != 0,
            Case::False => known == 0,
            Case::Value(v) => v == known,
            Case::Default => cfg.edges(block).iter().all(|e| e.case != Case::Value(known)),
            Case::Always | Case::Possible => true,
        }
    }

    /// Returns the one successor of a block with a branch that known values decide.
    fn decision(&self, m: &Module, cfg: &Cfg, f: usize, block: usize) -> Option<usize> {
        if !self.live[block] || is_back_edge(cfg, block) {
            return None;
        }
        let last = m.functions[f].blocks[block].terminator().map(|r| m.inst(r).op);
        if !matches!(last, Some(Op::BranchConditional | Op::Switch)) {
            return None;
        }
        self.get(super::selector(m, f, block)?)?;
        let mut taken = cfg.edges(block).iter().filter(|e| self.may_take(m, cfg, f, block, e.case));
        taken.next().map(|e| e.to)
    }
}

/// Returns true if an edge leads from a block back to a loop header. Such branches stay as they are: a loop has one.
fn is_back_edge(cfg: &Cfg, block: usize) -> bool {
    cfg.successors(block).iter().any(|to| cfg.rpo_index(*to) <= cfg.rpo_index(block))
}

/// The scalar that `OpCompositeExtract` takes out of what was put together of scalars.
fn component_of(m: &Module, i: &Inst) -> Option<Id> {
    let [_, index] = i.operands.as_slice() else { return None };
    let whole = i.id(0).and_then(|id| m.def_inst(id))?;
    let Some(Type::Vector { len, .. }) = whole.ty.and_then(|t| Type::of(m, t)) else { return None };
    let made = matches!(whole.op, Op::ConstantComposite | Op::CompositeConstruct);
    if !made || whole.operands.len() != len as usize {
        return None;
    }
    whole.id(index.word() as usize)
}

/// Bits of an integer or a Boolean type.
fn bits(m: &Module, ty: Id) -> Option<u32> {
    let ty = m.def_inst(ty)?;
    match Scalar::of_inst(ty) {
        Some(Scalar::Int { width, .. }) if width <= 64 => Some(width),
        _ => (ty.op == Op::TypeBool).then_some(1),
    }
}
