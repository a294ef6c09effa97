//! Factors that are fetched a product ahead.
//!
//! In a loop whose products stage their factors, an invocation's share of the next factors is on its way
//! from memory into registers while the present ones are multiplied:
//!
//! ```text
//! before the loop    fetch the first, if there is one
//! each product       barrier; put what was fetched into the staging buffers; barrier; fetch the next, if there is one; multiply
//! ```
//!
//! [`crate::matrix::iterations`] has how the addresses of the next product's loads are known ahead, and what is asked of a loop. Besides,
//! each invocation fills an equal share of the staging buffers, which have the factors or a slice of them and nothing else.
//!
//! A product in slices (`fused_loads.rs`) fetches each slice behind the barrier of the one before, and in its last the first of the next
//! product. What is fetched here are first slices.
//!
//! # Iterations that skip their products
//!
//! Masked attention skips blocks of keys that nobody looks at, and the decision comes late. Where every iteration but such
//! has the products, and the exit is before the products, what is fetched for the next iteration may never be asked for. So it is
//! fetched only if that is in the memory of its binding, whose size the module asks for. It is kept with the arguments that it
//! was fetched with; a product whose arguments are others, as behind an iteration that was skipped, loads its factors itself.
//!
//! # Loads of sums
//!
//! A matrix that such a loop loads to add it to sums, the mask of attention, is fetched an iteration ahead in the same way: the load
//! goes through a staging buffer, and behind it the next one's data are fetched. Loaded by each subgroup from memory where it is used,
//! it would be waited for: on an H200 masked attention with heads of 64 spends a third of its time so.
//!
//! Where a loop is not like that, a product can still be fetched for behind another of the same block: it is executed if that
//! one is. Between the two, nothing writes memory or waits, and the shares are equal.
//!
//! Factors that are decoded stay as they are: a fetch would wait for memory to decode.

use super::fetch::Fetch;
use super::fused_loads::{Factor, SlicePlan, Slices};
use super::inst::Slot;
use super::shape::Mat;
use super::staging::{Layout, StagingBuffer};
use super::tensor::Batch;
use super::{TileIds, Tiles};
use crate::Refusal;
use crate::matrix::arena::{QUAD, Zone};
use crate::matrix::callback::writes_or_waits;
use crate::matrix::iterations::{Around, Iteration, LoopValues, ProductLoop, product_loop};
use crate::matrix::placement::Use;
use crate::tensor::Access;
use coop_ir::builder::FunctionBuilder;
use coop_ir::cfg::{Cfg, Loops};
use coop_ir::hash::{FxHashMap, FxHashSet};
use coop_ir::types::{self, Scalar};
use coop_ir::{Block, Function, Id, InstRef, Module, Op, Operand};

/// Products of a block whose factors are fetched ahead.
#[derive(Default)]
pub(super) struct Pipeline {
    /// The loop, if each iteration fetches for the first product of the next.
    around: Option<Around>,
    /// The products, in order.
    products: Vec<InstRef>,
    /// The values of the loop; without one, those behind the first product.
    values: LoopValues,
    /// The data fetched for the next product: words of the left and of the right factor. Empty before the loop, and
    /// for what is not fetched.
    fetched: [Vec<Id>; 2],
    /// The fetch for the first product, if iterations may skip it.
    saved: Option<Saved>,
    /// The loads of the loop that are no product's, and the fetches for those that can be made ahead.
    loads: Vec<InstRef>,
    ahead: Vec<LoadAhead>,
    /// The data fetched for each product.
    plans: Vec<[Option<Fetch>; 2]>,
    live: bool,
}

/// A fetch for an iteration that may not ask for it, and the variables that have its data.
#[derive(Clone)]
struct Saved {
    /// The fetches: of a left and of a right factor, or of one matrix.
    fetches: [Option<Fetch>; 2],
    /// True if something was fetched.
    ready: Id,
    /// The arguments that differ by iteration, and the values that it was fetched with.
    args: Vec<(Id, Id)>,
    /// The quads of each.
    quads: [Vec<Id>; 2],
}

/// A load that is fetched an iteration ahead.
#[derive(Clone)]
struct LoadAhead {
    load: InstRef,
    mat: Mat,
    saved: Saved,
}

/// A phi of fetched words, whose operands are not filled in yet.
pub(super) struct CarriedPhi {
    pub(super) at: InstRef,
    pub(super) first: (Id, Id),
    pub(super) next: (Id, Id),
}

/// The products of a function whose factors can be fetched ahead, as far as control flow is concerned: by loops, and behind
/// them by blocks.
pub(super) fn find(
    m: &Module,
    function: &Function,
    deferred: &FxHashMap<Id, InstRef>,
    accesses: &FxHashMap<InstRef, Access>,
) -> Vec<Pipeline> {
    if deferred.is_empty() {
        return Vec::new();
    }
    let cfg = Cfg::new(m, function);
    let loops = Loops::new(&cfg);
    let fetches = |r: &InstRef| {
        let inst = m.inst(*r);
        let plain = |id: Id| deferred.get(&id).and_then(|l| accesses.get(l)).is_some_and(|a| !a.decodes());
        inst.op == Op::CooperativeMatrixMulAddKHR && inst.ids().take(2).any(plain)
    };
    let mut out = Vec::new();
    for l in 0..loops.all().len() {
        let Some(found) = product_loop(m, function, &cfg, &loops, l, &fetches) else { continue };
        let ProductLoop { around, products, values } = found;
        let mut pipeline = Pipeline { around: Some(around), products, values, ..Pipeline::default() };
        for b in loops.blocks(l).iter().filter(|b| loops.innermost(**b) == Some(l)) {
            let insts = &function.blocks[*b].insts;
            let is_deferred = |r: &InstRef| m.inst(*r).result.is_some_and(|id| deferred.contains_key(&id));
            let loads = insts.iter().filter(|r| m.inst(**r).op == Op::CooperativeMatrixLoadTensorNV && !is_deferred(r));
            pipeline.loads.extend(loads);
        }
        out.push(pipeline);
    }
    for block in &function.blocks {
        out.extend(of_block(m, block, &fetches));
    }
    out
}

/// The products of a block that follow each other, with nothing between them that writes memory or waits.
fn of_block(m: &Module, block: &Block, fetches: &dyn Fn(&InstRef) -> bool) -> Vec<Pipeline> {
    let mut out: Vec<Pipeline> = Vec::new();
    let mut open = Pipeline::default();
    for r in &block.insts {
        let inst = m.inst(*r);
        if writes_or_waits(m, inst) {
            out.push(std::mem::take(&mut open));
            continue;
        }
        if !open.products.is_empty() {
            open.values.inside.extend(inst.result);
        }
        if fetches(r) {
            open.products.push(*r);
        }
    }
    out.push(open);
    out.retain(|p| p.products.len() > 1);
    out
}

/// Makes the variables for what is fetched for an iteration that may not ask for it, with nothing in them.
fn saved_variables(b: &mut FunctionBuilder<'_>, inside: &FxHashSet<Id>, fetches: [Option<Fetch>; 2]) -> Saved {
    let (ty, word) = (b.globals.bool(b.module), b.u32_type());
    let quad = b.globals.vector(b.module, word, 4);
    let ready = b.variable(ty);
    let mut args: Vec<(Id, Id)> = Vec::new();
    for fetch in fetches.iter().flatten() {
        for arg in fetch.access.args.iter().filter(|id| inside.contains(*id)) {
            if args.iter().all(|(known, _)| known != arg) {
                let of = b.module.type_of(*arg).unwrap_or(word);
                args.push((*arg, b.variable(of)));
            }
        }
    }
    let quads = [0, 1].map(|n| {
        let units = fetches[n].as_ref().map_or(0, |fetch: &Fetch| fetch.units);
        (0..units).map(|_| b.variable(quad)).collect()
    });
    let no = b.globals.boolean(b.module, false);
    b.effect(Op::Store, [ready, no].map(Operand::Id));
    for (arg, variable) in &args {
        let zero = b.globals.null(b.module, b.module.type_of(*arg).unwrap_or(word));
        b.effect(Op::Store, [*variable, zero].map(Operand::Id));
    }
    Saved { fetches, ready, args, quads }
}

/// Returns true if what is fetched can be tested and kept: memory whose size can be asked, and integers as arguments.
fn can_be_saved(m: &Module, inside: &FxHashSet<Id>, fetches: &[Option<Fetch>; 2]) -> bool {
    let is_int = |id: &Id| m.type_of(*id).and_then(|t| types::scalar(m, t)).is_some_and(Scalar::is_int);
    let args = |f: &Fetch| f.access.args.iter().filter(|id| inside.contains(*id)).all(is_int);
    fetches.iter().flatten().all(|f| f.access.knows_size() && args(f))
}

impl Tiles<'_, '_> {
    /// The factors of a product whose first slice is fetched. `None` if neither is.
    fn fetches(&self, m: &Module, product: InstRef) -> Option<[Option<Fetch>; 2]> {
        let inst = m.inst(product);
        let (x, y) = (inst.id(0)?, inst.id(1)?);
        let (a, b) = (self.mat_of(m, x)?, self.mat_of(m, y)?);
        let SlicePlan { steps, factors: [left, right] } = self.plan_slices((x, a), (y, b));
        let slices = a.cols() / steps;
        let share = |factor: Option<(Access, Layout)>, slices: (u32, u32)| {
            let (access, layout) = factor.filter(|(access, _)| !access.decodes())?;
            self.share(&access, layout).filter(|fetch| fetch.is_part(slices))
        };
        let fetches = [share(left, (1, slices)), share(right, (slices, 1))];
        fetches.iter().any(Option::is_some).then_some(fetches)
    }

    /// Plans what is fetched for the products of a block, each but the first.
    pub(super) fn plan_blocks(&mut self, m: &Module) {
        let mut pipelines = std::mem::take(&mut self.function.pipelines);
        for pipeline in pipelines.iter_mut().filter(|p| p.around.is_none()) {
            let fetched = |r: &InstRef| {
                let mut plan = self.fetches(m, *r)?;
                let can = |f: &Fetch| f.access.args.iter().all(|id| pipeline.values.can(m, *id, Iteration::This));
                plan.iter_mut().for_each(|f| *f = f.take().filter(can));
                Some(plan)
            };
            let rest = pipeline.products[1..].iter().map(|r| fetched(r).unwrap_or_default());
            let plans: Vec<[Option<Fetch>; 2]> = std::iter::once([None, None]).chain(rest).collect();
            pipeline.live = plans.iter().flatten().any(Option::is_some);
            pipeline.plans = plans;
        }
        self.function.pipelines = pipelines;
    }

    /// The fetches for each product of a loop, if all that they need is there.
    fn plans(&self, m: &Module, pipeline: &Pipeline) -> Option<Vec<[Option<Fetch>; 2]>> {
        let exit = pipeline.around.as_ref()?.exit;
        let iterations =
            if exit.before { [Iteration::First, Iteration::Next] } else { [Iteration::This, Iteration::This] };
        if !iterations.iter().all(|iteration| pipeline.values.can(m, exit.condition, *iteration)) {
            return None;
        }
        let mut plans: Vec<[Option<Fetch>; 2]> = Vec::new();
        for (n, product) in pipeline.products.iter().enumerate() {
            let plan = self.fetches(m, *product)?;
            let iterations: &[Iteration] =
                if n == 0 { &[Iteration::First, Iteration::Next] } else { &[Iteration::This] };
            let mut args = plan.iter().flatten().flat_map(|f| f.access.args.iter().copied());
            if !args.all(|id| iterations.iter().all(|iteration| pipeline.values.can(m, id, *iteration))) {
                return None;
            }
            plans.push(plan);
        }
        Some(plans)
    }

    /// At the end of a block: fetches for the first product of a loop that begins behind it.
    pub(super) fn prefetch_first(&mut self, b: &mut FunctionBuilder<'_>, label: Id) {
        for n in 0..self.function.pipelines.len() {
            let pipeline = &self.function.pipelines[n];
            let Some(around) = pipeline.around.clone().filter(|a| a.entry == label) else { continue };
            let mut pipeline = std::mem::take(&mut self.function.pipelines[n]);
            self.plan_loads(b, &mut pipeline);
            let plans = self.plans(b.module, &pipeline);
            if let Some(plans) =
                plans.filter(|plans| !around.guarded || can_be_saved(b.module, &pipeline.values.inside, &plans[0]))
            {
                pipeline.plans = plans;
                if around.guarded {
                    let saved = saved_variables(b, &pipeline.values.inside, pipeline.plans[0].clone());
                    let origin = [b.u32(0); 2];
                    self.fetch_if_readable(b, &pipeline, &saved, (Iteration::First, origin));
                    pipeline.saved = Some(saved);
                } else {
                    let ask = around.exit.before.then_some(Iteration::First);
                    pipeline.fetched = self.fetch(b, &pipeline, 0, Iteration::First, ask);
                }
                pipeline.live = true;
            }
            self.function.pipelines[n] = pipeline;
        }
    }

    /// Before a loop: plans the loads of sums that are fetched an iteration ahead. Nothing is there for the first.
    fn plan_loads(&mut self, b: &mut FunctionBuilder<'_>, pipeline: &mut Pipeline) {
        let Some(exit) = pipeline.around.as_ref().map(|a| a.exit) else { return };
        for load in std::mem::take(&mut pipeline.loads) {
            let mat = b.module.inst(load).ty.and_then(|ty| self.analysis.mats.get(&ty)).copied();
            let sums = |m: &Mat| m.workgroup && m.shape.use_ == Use::Accumulator;
            let Some((mat, access)) = mat.filter(sums).zip(self.analysis.accesses.get(&load)) else { continue };
            let can = |id: &Id| pipeline.values.can(b.module, *id, Iteration::Next);
            let fetch = self.subgroup_share(access, mat).filter(|f| f.access.args.iter().all(can));
            let plan = [fetch, None];
            if plan[0].is_some()
                && pipeline.values.can(b.module, exit.condition, exit.of_next())
                && can_be_saved(b.module, &pipeline.values.inside, &plan)
            {
                let saved = saved_variables(b, &pipeline.values.inside, plan);
                pipeline.ahead.push(LoadAhead { load, mat, saved });
            }
        }
    }

    /// Loads tiles that were fetched an iteration ahead, if this load is one of those, and fetches for the next iteration: of
    /// several loads in the branches of a loop, that one asks for the same as a rule.
    pub(super) fn load_ahead(
        &mut self,
        b: &mut FunctionBuilder<'_>,
        r: InstRef,
        slot: &mut Slot,
    ) -> Result<Option<TileIds>, Refusal> {
        let is_this = |p: &Pipeline| p.ahead.iter().position(|a| a.load == r);
        let mut all = self.function.pipelines.iter().enumerate();
        let Some((n, at)) = all.find_map(|(n, p)| Some((n, is_this(p)?))) else { return Ok(None) };
        let LoadAhead { mat, saved, .. } = self.function.pipelines[n].ahead[at].clone();
        let Some(layout) = saved.fetches[0].as_ref().map(|f| f.layout) else { return Ok(None) };
        let bytes = layout.quads().saturating_mul(QUAD);
        if bytes > self.arena.room(Zone::Subgroup) {
            return Ok(None);
        }
        let batch = Batch { row: 0, col: 0, rows: mat.rows(), cols: mat.cols() };
        let (row, col) = self.origin(b, mat, batch);
        let origin = [b.index(row), b.index(col)];
        let [quads, _] = self.saved_or_loaded(b, &saved, origin);
        let mark = self.arena.mark();
        let region = self.arena.take(r, "a load of a matrix", Zone::Subgroup, bytes)?;
        let staging = StagingBuffer { layout, region, each: 0 };
        self.arena.barrier(b, Zone::Subgroup);
        self.put_words(b, staging, &quads);
        self.arena.barrier(b, Zone::Subgroup);
        let subgroup = self.subgroup(b);
        let begin = staging.begin(b, &mut self.arena, subgroup);
        let mut parts = vec![mat.tile; mat.tiles() as usize];
        self.get_batch(b, slot, (staging, begin), mat, batch, &mut parts);
        self.arena.release(mark);
        let pipeline = std::mem::take(&mut self.function.pipelines[n]);
        self.fetch_if_readable(b, &pipeline, &saved, (Iteration::Next, origin));
        self.function.pipelines[n] = pipeline;
        Ok(Some(parts))
    }

    /// Fetches for an iteration that may not ask for it, if the loop gets there and the memory may be read in any case.
    fn fetch_if_readable(
        &mut self,
        b: &mut FunctionBuilder<'_>,
        pipeline: &Pipeline,
        saved: &Saved,
        (iteration, origin): (Iteration, [Id; 2]),
    ) {
        let Some(exit) = pipeline.around.as_ref().map(|a| a.exit) else { return };
        let mut made = FxHashMap::default();
        let decided = if iteration == Iteration::Next { exit.of_next() } else { iteration };
        let goes_on = pipeline.values.goes_on(b, exit, decided, &mut made);
        let mut get = |b: &mut FunctionBuilder<'_>, id: Id, of: Iteration| pipeline.values.get(b, id, of, &mut made);
        let ty = b.globals.bool(b.module);
        let values: Vec<Id> = saved.args.iter().map(|(arg, _)| get(b, *arg, iteration)).collect();
        let mut calls = Vec::new();
        for (fetch, variables) in saved.fetches.iter().zip(&saved.quads) {
            let Some(fetch) = fetch else { continue };
            let args: Vec<Id> = fetch.access.args.iter().map(|id| get(b, *id, iteration)).chain(origin).collect();
            let functions = [self.readable_function(b, fetch), self.fetch_function(b, fetch)];
            let [readable, all] = functions.map(|f| [f].into_iter().chain(args.iter().copied()).collect::<Vec<Id>>());
            calls.push((fetch, readable, all, variables));
        }
        let [no, yes] = [false, true].map(|value| b.globals.boolean(b.module, value));
        b.effect(Op::Store, [saved.ready, no].map(Operand::Id));
        b.when(goes_on, &mut |b| {
            let mut readable = yes;
            for (_, operands, ..) in &calls {
                let one = b.ids(Op::FunctionCall, ty, operands);
                readable = if readable == yes { one } else { b.ids(Op::LogicalAnd, ty, &[readable, one]) };
            }
            b.when(readable, &mut |b| {
                for (fetch, _, operands, variables) in &calls {
                    for (variable, quad) in variables.iter().zip(fetch.call(b, operands)) {
                        b.effect(Op::Store, [*variable, quad].map(Operand::Id));
                    }
                }
                for ((_, variable), value) in saved.args.iter().zip(&values) {
                    b.effect(Op::Store, [*variable, *value].map(Operand::Id));
                }
                b.effect(Op::Store, [saved.ready, yes].map(Operand::Id));
            });
        });
    }

    /// Returns the saved quads, if they were fetched for this iteration, else loads them now.
    fn saved_or_loaded(&mut self, b: &mut FunctionBuilder<'_>, saved: &Saved, origin: [Id; 2]) -> [Vec<Id>; 2] {
        let ty = b.globals.bool(b.module);
        let word = b.u32_type();
        let quad = b.globals.vector(b.module, word, 4);
        let mut same = b.ids(Op::Load, ty, &[saved.ready]);
        for (arg, variable) in &saved.args {
            let of = b.module.type_of(*arg).unwrap_or(word);
            let was = b.ids(Op::Load, of, &[*variable]);
            let equal = b.ids(Op::IEqual, ty, &[was, *arg]);
            same = b.ids(Op::LogicalAnd, ty, &[same, equal]);
        }
        let mut calls = Vec::new();
        for fetch in saved.fetches.iter().flatten() {
            let function = self.fetch_function(b, fetch);
            let operands = [function].into_iter().chain(fetch.access.args.iter().copied()).chain(origin);
            calls.push((fetch, operands.collect::<Vec<Id>>()));
        }
        let all: Vec<Id> = saved.quads.iter().flatten().copied().collect();
        let quads = b.choose(
            same,
            &vec![quad; all.len()],
            &mut |b| all.iter().map(|variable| b.ids(Op::Load, quad, &[*variable])).collect(),
            &mut |b| calls.iter().flat_map(|(fetch, operands)| fetch.call(b, operands)).collect(),
        );
        let (left, right) = quads.split_at(saved.quads[0].len());
        [left.to_vec(), right.to_vec()]
    }

    /// In the header of a loop: what was fetched comes from before the loop, or from the previous iteration.
    pub(super) fn add_carried_phis(&mut self, b: &mut FunctionBuilder<'_>, label: Id) {
        let word = b.u32_type();
        let quad = b.globals.vector(b.module, word, 4);
        for pipeline in self.function.pipelines.iter_mut().filter(|p| p.live) {
            let Some(around) = pipeline.around.as_ref().filter(|a| a.header == label) else { continue };
            for factor in &mut pipeline.fetched {
                for value in factor {
                    let phi = b.ids(Op::Phi, quad, &[]);
                    let Some(at) = b.module.def(phi) else { continue };
                    let nothing = (*value, around.latch);
                    self.function.carried.push(CarriedPhi { at, first: (*value, around.entry), next: nothing });
                    *value = phi;
                }
            }
        }
    }

    /// Fetches for a product; where the loop goes on, if that has to be asked.
    fn fetch(
        &mut self,
        b: &mut FunctionBuilder<'_>,
        pipeline: &Pipeline,
        product: usize,
        iteration: Iteration,
        ask: Option<Iteration>,
    ) -> [Vec<Id>; 2] {
        let fetches = &pipeline.plans[product];
        let mut made = FxHashMap::default();
        let args: Vec<Vec<Id>> = fetches
            .iter()
            .map(|f| {
                f.iter()
                    .flat_map(|f| &f.access.args)
                    .map(|id| pipeline.values.get(b, *id, iteration, &mut made))
                    .collect()
            })
            .collect();
        let word = b.u32_type();
        let quad = b.globals.vector(b.module, word, 4);
        let zero = b.u32(0);
        let functions: Vec<Option<Id>> =
            fetches.iter().map(|f| f.as_ref().map(|f| self.fetch_function(b, f))).collect();
        let load = |b: &mut FunctionBuilder<'_>| -> Vec<Vec<Id>> {
            let mut all = Vec::new();
            for ((function, fetch), args) in functions.iter().zip(fetches).zip(&args) {
                let Some((function, fetch)) = function.zip(fetch.as_ref()) else {
                    all.push(Vec::new());
                    continue;
                };
                let operands: Vec<Id> =
                    [function].into_iter().chain(args.iter().copied()).chain([zero, zero]).collect();
                all.push(fetch.call(b, &operands));
            }
            all
        };
        let Some((ask, exit)) = ask.zip(pipeline.around.as_ref().map(|a| a.exit)) else {
            let mut all = load(b).into_iter();
            return std::array::from_fn(|_| all.next().unwrap_or_default());
        };
        let goes_on = pipeline.values.goes_on(b, exit, ask, &mut made);
        let nothing = b.ids(Op::Undef, quad, &[]);
        let mut fork = b.fork(goes_on);
        let all = load(b);
        b.other(&mut fork);
        let (from, otherwise) = b.join(fork);
        let mut all = all.into_iter().map(|factor| {
            factor.into_iter().map(|id| b.ids(Op::Phi, quad, &[id, from, nothing, otherwise])).collect::<Vec<Id>>()
        });
        std::array::from_fn(|_| all.next().unwrap_or_default())
    }

    /// Returns the quads that were fetched ahead for the factors of a product.
    pub(super) fn take_fetched(
        &mut self,
        b: &mut FunctionBuilder<'_>,
        r: InstRef,
        slices: &Slices,
    ) -> [Option<Vec<Id>>; 2] {
        let Some(n) = self.function.pipelines.iter().position(|p| p.live && p.products.contains(&r)) else {
            return [None, None];
        };
        let pipeline = std::mem::take(&mut self.function.pipelines[n]);
        let at = pipeline.products.iter().position(|p| *p == r).unwrap_or(0);
        let fetched = match &pipeline.saved {
            Some(saved) if at == 0 => {
                let origin = [b.u32(0); 2];
                self.saved_or_loaded(b, saved, origin)
            }
            _ => pipeline.fetched.clone(),
        };
        let taken = std::array::from_fn(|n| {
            let Factor::StagingBuffer { staging, .. } = [&slices.left, &slices.right][n] else { return None };
            let layout = pipeline.plans[at][n].as_ref().map(|f| f.layout);
            Some(fetched[n].clone()).filter(|quads| !quads.is_empty() && layout == Some(staging.layout))
        });
        self.function.pipelines[n] = pipeline;
        taken
    }

    /// Behind the barrier of a product: fetches for the next.
    pub(super) fn fetch_next(&mut self, b: &mut FunctionBuilder<'_>, r: InstRef) {
        let Some(n) = self.function.pipelines.iter().position(|p| p.live && p.products.contains(&r)) else { return };
        let mut pipeline = std::mem::take(&mut self.function.pipelines[n]);
        let at = pipeline.products.iter().position(|p| *p == r).unwrap_or(0);
        pipeline.fetched = if at + 1 < pipeline.products.len() {
            self.fetch(b, &pipeline, at + 1, Iteration::This, None)
        } else if let Some(saved) = &pipeline.saved {
            let origin = [b.u32(0); 2];
            self.fetch_if_readable(b, &pipeline, saved, (Iteration::Next, origin));
            Default::default()
        } else if let Some(around) = &pipeline.around {
            let next = self.fetch(b, &pipeline, 0, Iteration::Next, Some(around.exit.of_next()));
            self.close(around, &next);
            next
        } else {
            Default::default()
        };
        self.function.pipelines[n] = pipeline;
    }

    /// Hands what was fetched in the last product to the phis of the header.
    fn close(&mut self, around: &Around, next: &[Vec<Id>; 2]) {
        let of = |phi: &&mut CarriedPhi| phi.next.1 == around.latch && phi.first.1 == around.entry;
        for (phi, value) in self.function.carried.iter_mut().filter(of).zip(next.iter().flatten()) {
            phi.next.0 = *value;
        }
    }
}
