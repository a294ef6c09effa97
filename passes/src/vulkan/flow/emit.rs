//! Emits structured statements as blocks with merge instructions.

use super::graph::{Selector, Var};
use super::statements::{Branch, Stmt};
use coop_ir::builder::Globals;
use coop_ir::hash::FxHashMap;
use coop_ir::spv::{LoopControl, SelectionControl};
use coop_ir::{Block, Id, Inst, InstList, InstRef, Module, Op, Operand};

/// The exits of a list of statements besides its end.
#[derive(Clone, Copy)]
struct Exits {
    merge: Id,
    again: Id,
}

/// Writes the blocks of a function.
pub(super) struct Emit<'a> {
    pub(super) m: &'a mut Module,
    pub(super) g: &'a mut Globals,
    /// The original blocks, without merge instructions and terminators.
    pub(super) from: Vec<Block>,
    /// The variables of the restructuring.
    pub(super) variables: FxHashMap<Var, Id>,
    out: Vec<Block>,
    current: Option<Block>,
}

impl<'a> Emit<'a> {
    pub(super) fn new(
        m: &'a mut Module,
        g: &'a mut Globals,
        from: Vec<Block>,
        variables: FxHashMap<Var, Id>,
    ) -> Emit<'a> {
        Emit { m, g, from, variables, out: Vec::new(), current: None }
    }

    /// Emits the blocks of a function with these statements.
    pub(super) fn run(mut self, body: &[Stmt]) -> Vec<Block> {
        self.list(body, None);
        if self.current.is_some() {
            // The last block returns; a function that never returns ends in unreachable code.
            self.effect(Op::Unreachable, []);
            self.close();
        }
        self.out
    }

    fn push(&mut self, r: InstRef) {
        if let Some(block) = &mut self.current {
            block.insts.push(r);
        }
    }

    fn effect(&mut self, op: Op, operands: impl IntoIterator<Item = Operand>) {
        let r = self.m.add(Inst::new(op, None, None, operands));
        self.push(r);
    }

    fn value(&mut self, op: Op, ty: Id, operands: impl IntoIterator<Item = Operand>) -> Id {
        let id = self.m.fresh_id();
        let r = self.m.add(Inst::new(op, Some(ty), Some(id), operands));
        self.push(r);
        id
    }

    fn close(&mut self) {
        self.out.extend(self.current.take());
    }

    /// Opens a block with a new label.
    fn open(&mut self, label: Id) {
        self.close();
        let label = self.m.add(Inst::new(Op::Label, None, Some(label), []));
        self.current = Some(Block { lead: Vec::new(), label, insts: InstList::new() });
    }

    /// Ends the open block, if control reaches its end, with a branch.
    fn branch_if_open(&mut self, to: Id) {
        if self.current.is_some() {
            self.effect(Op::Branch, [to.into()]);
            self.close();
        }
    }

    fn list(&mut self, body: &[Stmt], around: Option<Exits>) {
        for stmt in body {
            self.stmt(stmt, around);
        }
    }

    fn stmt(&mut self, stmt: &Stmt, around: Option<Exits>) {
        match stmt {
            Stmt::Block(b) => self.block(*b),
            Stmt::Set(var, value) => {
                let value = self.g.u32(self.m, *value);
                self.store(*var, value);
            }
            Stmt::Choose(var, condition, yes, no) => {
                let (yes, no) = (self.g.u32(self.m, *yes), self.g.u32(self.m, *no));
                let ty = self.g.uint(self.m, 32);
                let chosen = self.value(Op::Select, ty, [*condition, yes, no].map(Operand::Id));
                self.store(*var, chosen);
            }
            Stmt::Fork(on, branches) => self.fork(*on, branches, around),
            Stmt::Loop(body) => self.repeat(body),
            Stmt::Break => {
                if let Some(around) = around {
                    self.branch_if_open(around.merge);
                }
            }
            Stmt::Continue => {
                if let Some(around) = around {
                    self.branch_if_open(around.again);
                }
            }
        }
    }

    fn store(&mut self, var: Var, value: Id) {
        if let Some(variable) = self.variables.get(&var).copied() {
            self.effect(Op::Store, [variable, value].map(Operand::Id));
        }
    }

    fn block(&mut self, b: usize) {
        let old = &mut self.from[b];
        let (lead, insts, label) = (std::mem::take(&mut old.lead), std::mem::take(&mut old.insts), old.label);
        if let Some(id) = self.m.inst(label).result {
            self.branch_if_open(id);
        }
        self.current = Some(Block { lead, label, insts });
        let ends = self.current.as_ref().and_then(Block::terminator).is_some_and(|t| self.m.inst(t).op.is_terminator());
        if ends {
            self.close();
        }
    }

    fn repeat(&mut self, body: &[Stmt]) {
        let [header, first, again, merge] = std::array::from_fn(|_| self.m.fresh_id());
        self.branch_if_open(header);
        self.open(header);
        self.effect(Op::LoopMerge, [merge.into(), again.into(), LoopControl::None.0.into()]);
        self.branch_if_open(first);
        self.open(first);
        self.list(body, Some(Exits { merge, again }));
        self.branch_if_open(again);
        self.open(again);
        self.branch_if_open(header);
        self.open(merge);
        if !breaks(body) {
            self.effect(Op::Unreachable, []);
            self.close();
        }
    }

    fn fork(&mut self, on: Selector, branches: &[Branch], around: Option<Exits>) {
        if let (Selector::Condition(c), Some(around)) = (on, around)
            && let [Some(yes), Some(no)] = [0, 1].map(|i| branches.get(i).and_then(|b| direct(&b.body, around)))
        {
            self.effect(Op::BranchConditional, [c, yes, no].map(Operand::Id));
            self.close();
            return;
        }
        let merge = self.m.fresh_id();
        let labels: Vec<Id> =
            branches.iter().map(|b| if b.body.is_empty() { merge } else { self.m.fresh_id() }).collect();
        let falls = self.decide(on, branches, &labels, merge);
        let mut reached = falls;
        for (branch, label) in branches.iter().zip(labels) {
            if branch.body.is_empty() {
                reached = true;
                continue;
            }
            self.open(label);
            self.list(&branch.body, around);
            reached |= self.current.is_some();
            self.branch_if_open(merge);
        }
        self.open(merge);
        if !reached {
            self.effect(Op::Unreachable, []);
            self.close();
        }
    }

    /// Ends the open block with a merge instruction and the branch. Returns true if it branches to the merge block
    /// itself.
    fn decide(&mut self, on: Selector, branches: &[Branch], labels: &[Id], merge: Id) -> bool {
        let control = SelectionControl::None.0;
        let two = match (branches, labels) {
            ([a, _], [la, lb]) => Some((a, *la, *lb)),
            _ => None,
        };
        let selector = match on {
            Selector::Always => None,
            Selector::Condition(c) => Some((c, 1)),
            Selector::Switch(s, words) => Some((s, words)),
            Selector::Variable(var) => self.variables.get(&var).copied().map(|v| {
                let ty = self.g.uint(self.m, 32);
                (self.value(Op::Load, ty, [v.into()]), 1)
            }),
        };
        let Some((selector, words)) = selector else {
            // A single arm: `statements` never makes one. Emit valid code anyway.
            self.effect(Op::SelectionMerge, [merge.into(), control.into()]);
            self.effect(Op::Branch, [labels.first().copied().unwrap_or(merge).into()]);
            self.close();
            return false;
        };
        if let (Selector::Condition(c), Some((_, yes, no))) = (on, two) {
            self.effect(Op::SelectionMerge, [merge.into(), control.into()]);
            self.effect(Op::BranchConditional, [c, yes, no].map(Operand::Id));
        } else if let (Selector::Variable(_), Some((first, yes, no))) = (on, two) {
            let value = first.values.first().map_or(0, |v| v[0]);
            let (boolean, value) = (self.g.bool(self.m), self.g.u32(self.m, value));
            let is = self.value(Op::IEqual, boolean, [selector, value].map(Operand::Id));
            self.effect(Op::SelectionMerge, [merge.into(), control.into()]);
            self.effect(Op::BranchConditional, [is, yes, no].map(Operand::Id));
        } else {
            let default = branches.iter().position(|b| b.default).map_or(merge, |i| labels[i]);
            let mut operands: Vec<Operand> = vec![selector.into(), default.into()];
            for (branch, label) in branches.iter().zip(labels).filter(|(b, _)| !b.default) {
                for value in &branch.values {
                    operands.extend(value.iter().take(words).map(|w| Operand::Word(*w)));
                    operands.push((*label).into());
                }
            }
            self.effect(Op::SelectionMerge, [merge.into(), control.into()]);
            self.effect(Op::Switch, operands);
            self.close();
            return default == merge;
        }
        self.close();
        false
    }
}

/// Returns the target of a list that only branches.
fn direct(body: &[Stmt], around: Exits) -> Option<Id> {
    match body {
        [Stmt::Break] => Some(around.merge),
        [Stmt::Continue] => Some(around.again),
        _ => None,
    }
}

/// Returns true if a list, as a loop body, contains a break of that loop.
fn breaks(body: &[Stmt]) -> bool {
    body.iter().any(|s| match s {
        Stmt::Break => true,
        Stmt::Fork(_, branches) => branches.iter().any(|b| breaks(&b.body)),
        _ => false,
    })
}
