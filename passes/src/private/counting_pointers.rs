//! Turns pointers that only count into integers: the index of the object they point to. Compilers leave such pointers
//! in loops over the objects of an array whose constructors do nothing.

use crate::ssa;
use coop_ir::builder::Globals;
use coop_ir::hash::{FxHashMap, FxHashSet};
use coop_ir::rewrite::insert_before;
use coop_ir::types::{Scalar, Type};
use coop_ir::uses::{Users, is_note};
use coop_ir::{Id, Inst, InstRef, Module, Op, Operand};

const WORD: Scalar = Scalar::Int { width: 64, signed: false };

/// Turns them into integers in function `f`.
pub(super) fn run(m: &mut Module, g: &mut Globals, f: usize) {
    let phis = m.functions[f].insts().filter(|r| {
        let inst = m.inst(*r);
        inst.op == Op::Phi && inst.ty.is_some_and(|t| matches!(Type::of(m, t), Some(Type::Pointer { .. })))
    });
    for phi in phis.collect::<Vec<_>>() {
        let users = Users::new(m);
        if let Some(web) = (Search { m, users: &users }).web(phi) {
            web.replace(m, g, f);
        }
    }
}

/// A phi of pointers with the instructions derived from it.
struct Web {
    phi: InstRef,
    start: Id,
    /// Pointers at an offset of so many objects from another one, in the order of the function.
    steps: Vec<InstRef>,
    /// Conversions to integers, which are only compared.
    numbers: Vec<InstRef>,
    /// Comparisons of the pointers themselves.
    compares: Vec<InstRef>,
}

struct Search<'a> {
    m: &'a Module,
    users: &'a Users,
}

impl Search<'_> {
    fn web(&self, phi: InstRef) -> Option<Web> {
        let inst = self.m.inst(phi);
        let result = inst.result?;
        let mut web = Web { phi, start: result, steps: Vec::new(), numbers: Vec::new(), compares: Vec::new() };
        let mut inside: FxHashSet<Id> = [result].into_iter().collect();
        let mut work = vec![result];
        while let Some(pointer) = work.pop() {
            for r in self.users.of(pointer) {
                let user = self.m.inst(*r);
                match user.op {
                    Op::Phi if *r == phi => {}
                    op if is_note(op) => {}
                    Op::PtrAccessChain | Op::InBoundsPtrAccessChain
                        if user.operands.len() == 2 && user.ty == inst.ty =>
                    {
                        web.steps.push(*r);
                        if inside.insert(user.result?) {
                            work.push(user.result?);
                        }
                    }
                    Op::ConvertPtrToU => {
                        self.is_compared(user.result?)?;
                        web.numbers.push(*r);
                    }
                    Op::PtrEqual | Op::PtrNotEqual => web.compares.push(*r),
                    _ => return None,
                }
            }
        }
        let mut starts = inst.ids().step_by(2).filter(|id| !inside.contains(id));
        web.start = starts.next()?;
        if starts.next().is_some() || web.start == result {
            return None;
        }
        // The end of the comparison is counted from the same start.
        for r in web.numbers.clone() {
            for compare in self.users.of(self.m.inst(r).result?) {
                for other in self.m.inst(*compare).ids() {
                    let Some(def) = self.m.def(other).filter(|d| !web.numbers.contains(d)) else { continue };
                    let end = self.m.inst(def);
                    let behind = end.ids().next().filter(|_| end.op == Op::ConvertPtrToU)?;
                    web.steps.push(self.behind(web.start, behind)?);
                    self.is_compared(other)?;
                    web.numbers.push(def);
                }
            }
        }
        for compare in web.compares.clone() {
            for other in self.m.inst(compare).ids().filter(|id| !inside.contains(id)) {
                web.steps.push(self.behind(web.start, other)?);
            }
        }
        web.steps.sort_unstable();
        web.steps.dedup();
        web.compares.dedup();
        // The end pointer must have no other use.
        let shown =
            |r: &InstRef| self.m.inst(*r).result.map(|id| self.users.beyond_notes(self.m, id).collect::<Vec<_>>());
        let all = web.steps.iter().chain(&web.numbers).chain(&web.compares);
        let known: FxHashSet<InstRef> = all.copied().chain([phi]).collect();
        web.steps.iter().all(|r| shown(r).is_some_and(|u| u.iter().all(|r| known.contains(r)))).then_some(web)
    }

    /// Returns the instruction that makes a pointer so many objects after `start`.
    fn behind(&self, start: Id, pointer: Id) -> Option<InstRef> {
        let at = self.m.def(pointer)?;
        let step = self.m.inst(at);
        let chain = step.op.is_element_chain() && step.operands.len() == 2;
        (chain && step.derived_from() == Some(start) && step.ty == self.m.type_of(start)).then_some(at)
    }

    fn is_compared(&self, number: Id) -> Option<()> {
        let compares = |r: InstRef| matches!(self.m.inst(r).op, Op::IEqual | Op::INotEqual);
        self.users.beyond_notes(self.m, number).all(compares).then_some(())
    }
}

impl Web {
    fn replace(self, m: &mut Module, g: &mut Globals, f: usize) {
        let word = g.uint(m, 64);
        let zero = g.constant(m, WORD, 0);
        let mut count: FxHashMap<Id, Id> = [(self.start, zero)].into_iter().collect();
        let ids = |m: &Module, r: InstRef| m.inst(r).result;
        let all: Vec<InstRef> = self.steps.iter().copied().chain([self.phi]).collect();
        for r in &all {
            let fresh = m.fresh_id();
            count.extend(ids(m, *r).map(|id| (id, fresh)));
        }
        let counted = |id: Id| count.get(&id).copied().unwrap_or(id);
        for r in self.steps.iter().copied() {
            let inst = m.inst(r).clone();
            let (Some(base), Some(by), Some(id)) = (inst.id(0), inst.id(1), inst.result) else { continue };
            let mut by = by;
            if m.type_of(by) != Some(word) {
                let wide = m.fresh_id();
                insert_before(m, r, Inst::new(Op::SConvert, Some(word), Some(wide), [by.into()]).at(inst.origin));
                by = wide;
            }
            let operands = [counted(base), by].map(Operand::Id);
            insert_before(m, r, Inst::new(Op::IAdd, Some(word), Some(counted(id)), operands).at(inst.origin));
        }
        let phi = m.inst(self.phi).clone();
        let operands = phi.operands.iter().enumerate().map(|(n, o)| match o.id() {
            Some(id) if n % 2 == 0 => Operand::Id(counted(id)),
            _ => *o,
        });
        let operands: Vec<Operand> = operands.collect();
        insert_before(m, self.phi, Inst::new(Op::Phi, Some(word), phi.result.map(counted), operands).at(phi.origin));
        let numbers: FxHashMap<Id, Id> =
            self.numbers.iter().filter_map(|r| Some((m.inst(*r).result?, counted(m.inst(*r).id(0)?)))).collect();
        ssa::replace_in(m, f, &numbers);
        for r in self.compares {
            let inst = m.inst(r).clone();
            let op = if inst.op == Op::PtrEqual { Op::IEqual } else { Op::INotEqual };
            let operands: Vec<Operand> = inst.ids().map(counted).map(Operand::Id).collect();
            m.replace(r, Inst::new(op, inst.ty, inst.result, operands).at(inst.origin));
        }
        let gone: FxHashSet<InstRef> = all.into_iter().chain(self.numbers).collect();
        let results: FxHashSet<Id> = gone.iter().filter_map(|r| m.inst(*r).result).collect();
        ssa::remove_insts(m, f, &gone);
        ssa::remove_annotations(m, &results);
    }
}
