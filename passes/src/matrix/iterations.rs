//! Loops that multiply matrices, and values of their next iteration.
//!
//! The data of an iteration can be fetched in the one before if their addresses are plain arithmetic on the loop's phis and on values
//! that do not change in the loop. That arithmetic is repeated with the values of the next iteration, and so is the condition of
//! the loop's one exit, since nothing may be read that the program would not have read.
//!
//! # What is asked of a loop
//!
//! 1. One entry (a block that ends in a branch to the header), one back edge, one exit, which is before the products or
//!    behind them.
//! 2. All products are in one block, which every iteration executes, unless [`Around::guarded`] says otherwise.
//! 3. Nothing in the loop writes memory or waits: what is read an iteration early is what would have been read.

use super::callback::writes_or_waits;
use coop_ir::builder::FunctionBuilder;
use coop_ir::cfg::{Cfg, Loops};
use coop_ir::hash::{FxHashMap, FxHashSet};
use coop_ir::rewrite::insert_before;
use coop_ir::spv::StorageClass;
use coop_ir::types;
use coop_ir::{Function, Id, Inst, InstRef, Module, Op, Operand};

/// Instructions that are repeated for a value, at most.
const MOST_REPEATED: usize = 512;

/// A loop with products.
pub(crate) struct ProductLoop {
    pub(crate) around: Around,
    /// The products, in order.
    pub(crate) products: Vec<InstRef>,
    pub(crate) values: LoopValues,
}

/// The place where a loop begins, goes back and ends.
#[derive(Clone)]
pub(crate) struct Around {
    /// The block before the loop, and the loop's first.
    pub(crate) entry: Id,
    pub(crate) header: Id,
    /// The block that goes back.
    pub(crate) latch: Id,
    pub(crate) exit: Exit,
    /// True if some iterations skip the products.
    pub(crate) guarded: bool,
}

/// The exit of a loop.
#[derive(Clone, Copy)]
pub(crate) struct Exit {
    pub(crate) condition: Id,
    /// True if the loop goes on when the condition holds.
    stays: bool,
    /// True if it is evaluated before the products of an iteration.
    pub(crate) before: bool,
}

impl Exit {
    /// The iteration whose condition says that there is a next one.
    pub(crate) fn of_next(self) -> Iteration {
        if self.before { Iteration::Next } else { Iteration::This }
    }
}

/// The iteration that a value is computed for.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Iteration {
    First,
    This,
    Next,
}

/// The values of a loop; or of a block, behind an instruction of it.
#[derive(Default)]
pub(crate) struct LoopValues {
    /// The ids that are defined in it.
    pub(crate) inside: FxHashSet<Id>,
    /// The header's phis: what they begin with and what they get from each iteration.
    phis: FxHashMap<Id, (Id, Id)>,
    /// Phis of two values between which one branch of the loop chooses: its condition, and the values if it holds and if not.
    choices: FxHashMap<Id, [Id; 3]>,
}

/// The values that were repeated: by id, and if they are those of the next iteration.
pub(crate) type Repeated = FxHashMap<(Id, bool), Id>;

/// The place where instructions are repeated.
pub(crate) trait Repeat {
    fn module(&self) -> &Module;

    /// Adds an instruction. Returns its result.
    fn emit(&mut self, op: Op, ty: Id, operands: Vec<Operand>) -> Id;
}

impl Repeat for FunctionBuilder<'_> {
    fn module(&self) -> &Module {
        self.module
    }

    fn emit(&mut self, op: Op, ty: Id, operands: Vec<Operand>) -> Id {
        self.op(op, ty, operands)
    }
}

/// The place in front of an instruction of the module.
pub(crate) struct InFront<'a> {
    pub(crate) module: &'a mut Module,
    pub(crate) of: InstRef,
}

impl Repeat for InFront<'_> {
    fn module(&self) -> &Module {
        self.module
    }

    fn emit(&mut self, op: Op, ty: Id, operands: Vec<Operand>) -> Id {
        let id = self.module.fresh_id();
        let inst = Inst::new(op, Some(ty), Some(id), operands).at(self.module.inst(self.of).origin);
        insert_before(self.module, self.of, inst);
        id
    }
}

/// The products of a loop for which `fetches` holds, if they can be fetched for an iteration ahead as far as control flow is concerned.
pub(crate) fn product_loop(
    m: &Module,
    function: &Function,
    cfg: &Cfg,
    loops: &Loops,
    l: usize,
    fetches: &dyn Fn(&InstRef) -> bool,
) -> Option<ProductLoop> {
    let this = &loops.all()[l];
    if !this.is_natural() {
        return None;
    }
    let header = this.header;
    let mut latches = loops.latches(cfg, l);
    let (latch, None) = (latches.next()?, latches.next()) else { return None };
    let outside: Vec<usize> = cfg.predecessors(header).iter().copied().filter(|p| !loops.contains(l, *p)).collect();
    let [entry] = outside[..] else { return None };
    let entry_block = &function.blocks[entry];
    let plain_entry = m.inst(entry_block.terminator()?).op == Op::Branch
        && !entry_block.insts.iter().any(|r| m.inst(*r).op == Op::LoopMerge);
    let mut exits = loops.exits(cfg, l);
    let ((from, _), None) = (exits.next()?, exits.next()) else { return None };
    if !plain_entry {
        return None;
    }
    let blocks: Vec<usize> = loops.blocks(l).to_vec();
    let mut products: Option<(usize, Vec<InstRef>)> = None;
    let mut inside = FxHashSet::default();
    for b in &blocks {
        let insts = &function.blocks[*b].insts;
        let (end, rest) = insts.split_last()?;
        if rest.iter().any(|r| writes_or_waits(m, m.inst(*r))) || !m.inst(*end).op.is_branch() {
            return None;
        }
        inside.extend(insts.iter().filter_map(|r| m.inst(*r).result));
        let here: Vec<InstRef> = insts.iter().copied().filter(|r| fetches(r)).collect();
        if !here.is_empty() {
            if products.is_some() {
                return None;
            }
            products = Some((*b, here));
        }
    }
    let (block, products) = products?;
    if loops.innermost(block) != Some(l) {
        return None;
    }
    let guarded = !cfg.dominates(block, latch);
    let before = from != block && cfg.dominates(from, block);
    if !before && (guarded || !cfg.dominates(block, from)) {
        return None;
    }
    let end = m.inst(function.blocks[from].terminator()?);
    let (Op::BranchConditional, Some(condition), Some(yes)) = (end.op, end.id(0), end.id(1)) else { return None };
    let stays = cfg.block(yes).is_some_and(|b| loops.contains(l, b));
    let (entry, latch) = (cfg.label(entry)?, cfg.label(latch)?);
    let mut phis = FxHashMap::default();
    for r in &function.blocks[header].insts {
        let inst = m.inst(*r);
        if inst.op == Op::Phi {
            let from = |block: Id| inst.incoming().find(|p| p.1 == block).map(|p| p.0);
            phis.insert(inst.result?, (from(entry)?, from(latch)?));
        }
    }
    let exit = Exit { condition, stays, before };
    let around = Around { entry, header: cfg.label(header)?, latch, exit, guarded };
    let own = blocks.iter().filter(|b| loops.innermost(**b) == Some(l));
    let choices = own.flat_map(|b| choices(m, function, cfg, *b)).collect();
    Some(ProductLoop { around, products, values: LoopValues { inside, phis, choices } })
}

/// The phis of a block that two ways lead to from one branch, each by at most one block.
fn choices(m: &Module, function: &Function, cfg: &Cfg, block: usize) -> Vec<(Id, [Id; 3])> {
    let [x, y] = cfg.predecessors(block) else { return Vec::new() };
    let before = |b: usize| match cfg.predecessors(b) {
        [one] => *one,
        _ => b,
    };
    // Of an `if` without `else`, one way is the branch itself.
    let head = if before(*x) == *y || before(*y) != *x { before(*x) } else { *x };
    let end = function.blocks[head].terminator().map(|r| m.inst(r)).filter(|i| i.op == Op::BranchConditional);
    let ids: Vec<Id> = end.map(|i| i.ids().collect()).unwrap_or_default();
    let [condition, yes, no] = ids[..] else { return Vec::new() };
    let reaches = |p: usize| p == head || before(p) == head && cfg.successors(head).contains(&p);
    // Both values are computed: what is undefined on one way must not be.
    let divides = |p: usize| p != head && function.blocks[p].insts.iter().any(|r| m.inst(*r).op.divides_integers());
    if !reaches(*x) || !reaches(*y) || yes == no || divides(*x) || divides(*y) {
        return Vec::new();
    }
    let target = cfg.block(yes).filter(|b| *b != block).unwrap_or(head);
    let phi = |r: &InstRef| {
        let inst = m.inst(*r);
        let incoming: Vec<(Id, Id)> = inst.incoming().collect();
        let [(a, from), (other, _)] = incoming[..] else { return None };
        let values = if cfg.block(from) == Some(target) { [condition, a, other] } else { [condition, other, a] };
        let is_scalar = inst.ty.is_some_and(|ty| types::scalar(m, ty).is_some());
        Some((inst.result.filter(|_| inst.op == Op::Phi && is_scalar)?, values))
    };
    function.blocks[block].insts.iter().filter_map(phi).collect()
}

/// Returns true if an instruction may be repeated elsewhere, for an iteration that there may not be: it has no effect and is defined
/// whatever its operands are.
fn is_pure(m: &Module, inst: &Inst) -> bool {
    match inst.op {
        op if op.divides_integers() => op.is_address_arithmetic() && inst.id(1).is_some_and(|by| is_not_zero(m, by)),
        op if op.is_address_arithmetic() => true,
        // Of memory that nobody writes; variables of the invocation are not written where nothing is (3).
        Op::Load => inst.accessed().is_some_and(|pointer| {
            let of = [StorageClass::Input, StorageClass::PushConstant, StorageClass::Uniform, StorageClass::Private];
            let plain = types::storage_of(m, pointer).is_some_and(|storage| of.contains(&storage));
            plain && inst.operands.len() == 1 && is_fixed(m, pointer)
        }),
        _ => false,
    }
}

/// Returns true for a constant other than 0 that has no other value in any pipeline.
fn is_not_zero(m: &Module, id: Id) -> bool {
    m.def_inst(id).filter(|i| i.op == Op::Constant).and_then(Inst::literal).is_some_and(|value| value != 0)
}

/// Returns true if a pointer is one to the same part of a variable always.
fn is_fixed(m: &Module, pointer: Id) -> bool {
    let is_constant = |id: Id| m.def_inst(id).is_some_and(|i| i.op == Op::Constant);
    let mut at = pointer;
    while let Some(chain) = m.def_inst(at).filter(|i| i.op.is_member_chain()) {
        let Some(base) = chain.id(0).filter(|_| chain.ids().skip(1).all(is_constant)) else { return false };
        at = base;
    }
    m.def_inst(at).is_some_and(|i| i.op.is_variable())
}

impl LoopValues {
    /// The values that a phi of the loop's header begins with and gets from each iteration.
    fn phi(&self, id: Id) -> Option<(Id, Id)> {
        self.phis.get(&id).copied()
    }

    /// Returns true if a value can be computed for an iteration.
    pub(crate) fn can(&self, m: &Module, id: Id, iteration: Iteration) -> bool {
        self.can_with(m, id, iteration, &mut FxHashSet::default())
    }

    /// As [`LoopValues::can`]. `seen` has what was looked at already: nothing of it is looked at again, however often it is used.
    fn can_with(&self, m: &Module, id: Id, iteration: Iteration, seen: &mut FxHashSet<(Id, Iteration)>) -> bool {
        if !self.inside.contains(&id) || seen.contains(&(id, iteration)) {
            return true;
        }
        if seen.len() == MOST_REPEATED {
            return false;
        }
        seen.insert((id, iteration));
        if let Some((first, next)) = self.phi(id) {
            return match iteration {
                Iteration::First => !self.inside.contains(&first),
                Iteration::This => true,
                Iteration::Next => self.can_with(m, next, Iteration::This, seen),
            };
        }
        if let Some(choice) = self.choices.get(&id) {
            return choice.iter().all(|o| self.can_with(m, *o, iteration, seen));
        }
        let Some(inst) = m.def_inst(id) else { return false };
        is_pure(m, inst) && inst.ids().all(|o| self.can_with(m, o, iteration, seen))
    }

    /// Returns a value for an iteration, by repeating the instructions that compute it. `made` has what was repeated already.
    pub(crate) fn get(&self, to: &mut dyn Repeat, id: Id, iteration: Iteration, made: &mut Repeated) -> Id {
        if !self.inside.contains(&id) {
            return id;
        }
        if let Some((first, next)) = self.phi(id) {
            return match iteration {
                Iteration::First => first,
                Iteration::This => id,
                Iteration::Next => self.get(to, next, Iteration::This, made),
            };
        }
        let key = (id, iteration == Iteration::Next);
        if let Some(id) = made.get(&key) {
            return *id;
        }
        let inst = to.module().def_inst(id).unwrap_or_else(|| unreachable!("`can` saw it")).clone();
        let ty = inst.ty.unwrap_or_else(|| unreachable!("phis and pure instructions have a type"));
        let (op, operands) = match self.choices.get(&id) {
            Some(choice) => (Op::Select, choice.map(Operand::Id).to_vec()),
            None => (inst.op, inst.operands.to_vec()),
        };
        let mut repeated = |o: Operand| match o {
            Operand::Id(id) => Operand::Id(self.get(to, id, iteration, made)),
            word => word,
        };
        let operands = operands.into_iter().map(&mut repeated).collect();
        let new = to.emit(op, ty, operands);
        made.insert(key, new);
        new
    }

    /// Returns the condition that there is an iteration, or one behind it, from the loop's exit as it is decided in `iteration`.
    pub(crate) fn goes_on(&self, to: &mut dyn Repeat, exit: Exit, iteration: Iteration, made: &mut Repeated) -> Id {
        let condition = self.get(to, exit.condition, iteration, made);
        if exit.stays {
            return condition;
        }
        let ty = to.module().type_of(condition).unwrap_or_else(|| unreachable!("a branch has a condition"));
        to.emit(Op::LogicalNot, ty, vec![condition.into()])
    }
}
