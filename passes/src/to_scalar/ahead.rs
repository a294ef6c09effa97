//! Fetches the first slices of a product an iteration ahead.
//!
//! Where a loop has one product and [`crate::matrix::iterations`] says what its next iteration loads, the first slice of a factor waits in
//! a variable of the function when the product begins:
//!
//! ```text
//! before the loop    fetch the first slice, if there is an iteration
//! the product        put what was fetched into shared memory; each slice fetches the one behind it; the last one fetches the
//!                    first of the next iteration, if there is one
//! ```
//!
//! So no iteration begins by waiting for memory. A factor that is decoded is fetched where it is needed: with it ahead too, products of
//! q4_0 at 4096 x 512 x 14336 had 38 TFLOP/s for 41 on an H100.

use super::fetch::Fetch;
use super::product::{Plan, Source};
use super::{Key, Lower};
use crate::matrix::iterations::{Exit, InFront, Iteration, LoopValues, ProductLoop, Repeated, product_loop};
use coop_ir::builder::FunctionBuilder;
use coop_ir::cfg::{Cfg, Loops};
use coop_ir::hash::{FxHashMap, FxHashSet};
use coop_ir::spv::StorageClass;
use coop_ir::{Id, Inst, InstRef, Module, Op, Operand};

/// The loop of a product whose factors may be fetched ahead.
pub(super) struct AheadLoop {
    entry: Id,
    exit: Exit,
    values: LoopValues,
}

/// The arguments of a product's call beside its own.
#[derive(Default)]
pub(super) struct AheadCall {
    /// The arguments, and their types.
    pub(super) args: Vec<Id>,
    pub(super) types: Vec<Id>,
    /// The places of the arguments of each factor that is fetched ahead.
    pub(super) factors: [Option<AheadFactor>; 2],
}

/// The arguments for a factor, by their places.
#[derive(Clone)]
pub(super) struct AheadFactor {
    /// The operands of the load in the next iteration.
    pub(super) next: std::ops::Range<usize>,
    /// Holds if there is a next iteration.
    pub(super) goes_on: usize,
    /// The variable in which its first slice waits.
    pub(super) waiting: usize,
}

/// The products that are alone in a loop, each iteration of which executes them, and their loops.
pub(super) fn find(m: &Module, deferred: &FxHashSet<Id>) -> FxHashMap<InstRef, AheadLoop> {
    let mut out = FxHashMap::default();
    let is_tensor = |id: Id| m.def_inst(id).is_some_and(|i| i.op == Op::CooperativeMatrixLoadTensorNV);
    let fetches = |r: &InstRef| {
        let inst = m.inst(*r);
        let mut factors = inst.ids().take(2);
        inst.op == Op::CooperativeMatrixMulAddKHR && factors.any(|id| deferred.contains(&id) && is_tensor(id))
    };
    if deferred.is_empty() {
        return out;
    }
    for function in m.functions.iter().filter(|f| f.insts().any(|r| fetches(&r))) {
        let cfg = Cfg::new(m, function);
        let loops = Loops::new(&cfg);
        for l in 0..loops.all().len() {
            let Some(found) = product_loop(m, function, &cfg, &loops, l, &fetches) else { continue };
            let ProductLoop { around, products, values } = found;
            if let ([product], false) = (&products[..], around.guarded) {
                out.insert(*product, AheadLoop { entry: around.entry, exit: around.exit, values });
            }
        }
    }
    out
}

impl AheadLoop {
    /// Returns true if a value is known for the first and for the next iteration.
    fn can(&self, m: &Module, id: Id) -> bool {
        [Iteration::First, Iteration::Next].iter().all(|iteration| self.values.can(m, id, *iteration))
    }

    /// Returns true if it is known ahead how long the loop goes on.
    fn knows_end(&self, m: &Module) -> bool {
        let condition = self.exit.condition;
        match self.exit.before {
            true => self.can(m, condition),
            false => self.values.can(m, condition, Iteration::This),
        }
    }
}

impl Lower<'_, '_> {
    /// Fetches the first slices of a product before its loop. Returns what its call takes for the next iteration. `None` if nothing is fetched
    /// ahead.
    pub(super) fn fetch_ahead(&mut self, r: InstRef, plan: Plan, sources: &[Source; 2]) -> Option<AheadCall> {
        let around = self.ahead.remove(&r).filter(|a| a.knows_end(self.m))?;
        let entry = self.m.functions.iter().flat_map(|f| &f.blocks);
        let mut entry = entry.filter(|b| self.m.inst(b.label).result == Some(around.entry));
        let end = entry.next()?.terminator()?;
        let mut fetches: Vec<(usize, Fetch, Vec<Id>)> = Vec::new();
        for (n, (source, factor)) in sources.iter().zip([plan.a, plan.b]).enumerate() {
            let Source::Tensor(access) = source else { continue };
            if access.is_volatile() || access.decodes() || !access.args.iter().all(|id| around.can(self.m, *id)) {
                continue;
            }
            if let Some(fetch) = self.fetch(factor, source) {
                fetches.push((n, fetch, access.args.clone()));
            }
        }
        if fetches.is_empty() {
            return None;
        }
        let (mut first, mut next) = (Repeated::default(), Repeated::default());
        let begins = match around.exit.before {
            true => {
                let to = &mut InFront { module: self.m, of: end };
                around.values.goes_on(to, around.exit, Iteration::First, &mut first)
            }
            false => self.g.boolean(self.m, true),
        };
        let goes_on = {
            let to = &mut InFront { module: self.m, of: r };
            around.values.goes_on(to, around.exit, around.exit.of_next(), &mut next)
        };
        let mut call = AheadCall::default();
        for (n, fetch, args) in fetches {
            let pointer = self.g.pointer(self.m, StorageClass::Function, fetch.ret);
            let variable = self.variable_beside(r, pointer)?;
            let to = &mut InFront { module: self.m, of: end };
            let mut operands: Vec<Id> =
                args.iter().map(|id| around.values.get(to, *id, Iteration::First, &mut first)).collect();
            operands.extend([begins, variable]);
            self.fetch_first(end, &fetch, &operands);
            let to = &mut InFront { module: self.m, of: r };
            let begin = call.args.len();
            call.args.extend(args.iter().map(|id| around.values.get(to, *id, Iteration::Next, &mut next)));
            let end = call.args.len();
            call.args.extend([goes_on, variable]);
            call.factors[n] = Some(AheadFactor { next: begin..end, goes_on: end, waiting: end + 1 });
        }
        call.types = call.args.iter().filter_map(|id| self.m.type_of(*id)).collect();
        Some(call)
    }

    /// Makes a variable in the function of an instruction.
    fn variable_beside(&mut self, r: InstRef, pointer: Id) -> Option<Id> {
        let id = self.m.fresh_id();
        let storage = StorageClass::Function.0;
        let variable = self.m.add(Inst::new(Op::Variable, Some(pointer), Some(id), [storage.into()]));
        let function = self.m.functions.iter_mut().find(|f| f.insts().any(|i| i == r))?;
        function.blocks.first_mut()?.insts.insert(0, variable);
        Some(id)
    }

    /// Calls, in front of an instruction, a function that fetches a first slice into a variable under a condition: the last two of its operands.
    fn fetch_first(&mut self, before: InstRef, fetch: &Fetch, operands: &[Id]) {
        let types: Vec<Id> = operands.iter().filter_map(|id| self.m.type_of(*id)).collect();
        let void = self.g.void(self.m);
        let key = Key { op: Op::Store, types: types.clone(), extra: vec![fetch.function.into()] };
        let function = self.function(key, &mut |this| {
            let mut f = FunctionBuilder::new(this.m, &mut this.g, "coop_fetch_first", void, &types);
            let b = &mut f;
            let count = types.len() - 2;
            let (begins, variable, zero) = (b.param(count), b.param(count + 1), b.u32(0));
            let call: Vec<Id> =
                [fetch.function].into_iter().chain((0..count).map(|n| b.param(n))).chain([zero]).collect();
            b.when(begins, &mut |b| {
                let value = b.ids(Op::FunctionCall, fetch.ret, &call);
                b.effect(Op::Store, [variable, value].map(Operand::Id));
            });
            f.finish(None)
        });
        let (id, origin) = (self.m.fresh_id(), self.m.inst(before).origin);
        let operands = [function].into_iter().chain(operands.iter().copied()).map(Operand::Id);
        let call = Inst::new(Op::FunctionCall, Some(void), Some(id), operands).at(origin);
        coop_ir::rewrite::insert_before(self.m, before, call);
    }
}
