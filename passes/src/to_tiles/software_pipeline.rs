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
//! The addresses of the next product's loads are known ahead where they are plain arithmetic on the loop's phis and on
//! values that do not change in the loop. That arithmetic is repeated with the values of the next iteration, and so is
//! the condition of the loop's one exit, since nothing may be read that the program would not have read.
//!
//! Where the next product need not be executed (some iterations skip it, there is another exit), nothing can be fetched for it.
//! A product of the same block can: it is executed if the one before it is. In masked attention, which skips blocks of
//! keys that nobody looks at, V is on its way while K is multiplied.
//!
//! # What is asked of a loop
//!
//! 1. One entry (a block that ends in a branch to the header), one back edge, one exit, which is before the products or
//!    behind them.
//! 2. All products are in one block, which every iteration executes.
//! 3. Nothing in the loop writes memory or waits: what is read an iteration early is what would have been read.
//! 4. The factors fit their staging buffers as a whole, of which each invocation fills an equal share.
//!
//! 5. One factor of each product is held, as in attention. Products of two factors from memory keep the device busy as
//!    they are, and what is fetched would cost them registers: an H100 multiplied 128x128x64 of bfloat16 with 224 TFLOP/s
//!    without this and with 55 with it, while attention went from 84 to 103.
//!
//! # What is asked of a block
//!
//! Between two products, nothing writes memory or waits; 4 and 5 hold for the second.
//!
//! Factors that are decoded stay as they are: a fetch would wait for memory to decode.

use super::Tiles;
use super::fused_loads::{Factor, Slices, writes};
use super::shape::Mat;
use super::staging::{Layout, StagingBuffer};
use super::tensor::Key;
use crate::matrix::arena::words_of;
use crate::tensor::Access;
use coop_ir::builder::{FunctionBuilder, Index, Unroll};
use coop_ir::cfg::{Cfg, Loops};
use coop_ir::hash::{FxHashMap, FxHashSet};
use coop_ir::spv::{BuiltIn, StorageClass};
use coop_ir::types::Type;
use coop_ir::{Block, Function, Id, Inst, InstRef, Module, Op, Operand};

/// Units that an invocation fetches of a factor, at most.
const MOST: u32 = 8;
/// Instructions that are repeated for a value, at most.
const DEPTH: u32 = 64;

/// Products of a block whose factors are fetched ahead.
#[derive(Default)]
pub(super) struct Pipeline {
    /// The loop, if each iteration fetches for the first product of the next.
    around: Option<Around>,
    /// The products, in order.
    products: Vec<InstRef>,
    /// The ids that are defined in the loop; without one, behind the first product.
    inside: FxHashSet<Id>,
    /// The data fetched for the next product: words of the left and of the right factor. Empty before the loop, and
    /// for what is not fetched.
    fetched: [Vec<Id>; 2],
    /// The data fetched for each product.
    plans: Vec<[Option<Fetch>; 2]>,
    live: bool,
}

/// A loop each of whose iterations has the products.
#[derive(Clone)]
struct Around {
    /// The block before the loop, and the loop's first.
    entry: Id,
    header: Id,
    /// The block that goes back.
    latch: Id,
    /// The header's phis: what they begin with and what they get from each iteration.
    phis: FxHashMap<Id, (Id, Id)>,
    exit: Exit,
}

/// The exit of a loop.
#[derive(Clone, Copy)]
struct Exit {
    condition: Id,
    /// True if the loop goes on when the condition holds.
    stays: bool,
    /// True if it is evaluated before the products of an iteration.
    before: bool,
}

/// A phi of fetched words, whose operands are not filled in yet.
pub(super) struct CarriedPhi {
    pub(super) at: InstRef,
    pub(super) first: (Id, Id),
    pub(super) next: (Id, Id),
}

/// The iteration that a value is computed for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Iteration {
    First,
    This,
    Next,
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
        out.extend(pipeline(m, function, &cfg, &loops, l, &fetches));
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
        if writes(m, inst) {
            out.push(std::mem::take(&mut open));
            continue;
        }
        if !open.products.is_empty() {
            open.inside.extend(inst.result);
        }
        if fetches(r) {
            open.products.push(*r);
        }
    }
    out.push(open);
    out.retain(|p| p.products.len() > 1);
    out
}

fn pipeline(
    m: &Module,
    function: &Function,
    cfg: &Cfg,
    loops: &Loops,
    l: usize,
    fetches: &dyn Fn(&InstRef) -> bool,
) -> Option<Pipeline> {
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
        if rest.iter().any(|r| writes(m, m.inst(*r))) || !m.inst(*end).op.is_branch() {
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
    if !cfg.dominates(block, latch) || loops.innermost(block) != Some(l) {
        return None;
    }
    let before = from != block && cfg.dominates(from, block);
    if !before && !cfg.dominates(block, from) {
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
    let around = Around { entry, header: cfg.label(header)?, latch, phis, exit };
    Some(Pipeline { around: Some(around), products, inside, ..Pipeline::default() })
}

/// Returns true if an instruction may be repeated elsewhere.
fn is_pure(m: &Module, inst: &Inst) -> bool {
    match inst.op {
        op if op.is_address_arithmetic() => true,
        // Of memory that nobody writes.
        Op::Load => {
            let ty = inst.id(0).and_then(|p| m.type_of(p)).and_then(|t| Type::of(m, t));
            let of = [StorageClass::Input, StorageClass::PushConstant, StorageClass::Uniform];
            matches!(ty, Some(Type::Pointer { storage, .. }) if of.contains(&storage)) && inst.operands.len() == 1
        }
        _ => false,
    }
}

impl Pipeline {
    /// The values that a phi of the loop's header begins with and gets from each iteration.
    fn phi(&self, id: Id) -> Option<(Id, Id)> {
        self.around.as_ref()?.phis.get(&id).copied()
    }

    /// Returns true if a value can be computed for an iteration.
    fn can(&self, m: &Module, id: Id, iteration: Iteration, depth: u32) -> bool {
        if !self.inside.contains(&id) {
            return true;
        }
        if depth == 0 {
            return false;
        }
        if let Some((first, next)) = self.phi(id) {
            return match iteration {
                Iteration::First => !self.inside.contains(&first),
                Iteration::This => true,
                Iteration::Next => self.can(m, next, Iteration::This, depth - 1),
            };
        }
        let Some(inst) = m.def_inst(id) else { return false };
        is_pure(m, inst) && inst.ids().all(|o| self.can(m, o, iteration, depth - 1))
    }

    /// Returns a value for an iteration, by repeating the instructions that compute it.
    fn get(
        &self,
        b: &mut FunctionBuilder<'_>,
        id: Id,
        iteration: Iteration,
        made: &mut FxHashMap<(Id, bool), Id>,
    ) -> Id {
        if !self.inside.contains(&id) {
            return id;
        }
        if let Some((first, next)) = self.phi(id) {
            return match iteration {
                Iteration::First => first,
                Iteration::This => id,
                Iteration::Next => self.get(b, next, Iteration::This, made),
            };
        }
        let key = (id, iteration == Iteration::Next);
        if let Some(id) = made.get(&key) {
            return *id;
        }
        let inst = b.module.inst(b.module.def(id).unwrap_or_else(|| unreachable!("`can` saw it"))).clone();
        let operands: Vec<Operand> = inst
            .operands
            .iter()
            .map(|o| match o {
                Operand::Id(id) => Operand::Id(self.get(b, *id, iteration, made)),
                word => *word,
            })
            .collect();
        let ty = inst.ty.unwrap_or_else(|| unreachable!("pure instructions have a type"));
        let new = b.op(inst.op, ty, operands);
        made.insert(key, new);
        new
    }
}

/// A factor that is fetched: how it is loaded, and the staging buffer that it goes to.
#[derive(Clone)]
struct Fetch {
    access: Access,
    layout: Layout,
    units: u32,
}

impl Fetch {
    /// Returns true if the staging buffer has the whole matrix and nothing else: what pads tiles is not in memory.
    fn is_whole(&self) -> bool {
        let (rows, cols) = (self.access.rows, self.access.cols);
        let extents = if self.layout.down { (cols, rows) } else { (rows, cols) };
        (self.layout.lines, self.layout.length) == extents
    }

    /// Calls the function that fetches: the quads of the invocation.
    fn call(&self, b: &mut FunctionBuilder<'_>, operands: &[Id]) -> Vec<Id> {
        let word = b.u32_type();
        let quad = b.globals.vector(b.module, word, 4);
        let array = b.globals.array(b.module, quad, self.units);
        let got = b.ids(Op::FunctionCall, array, operands);
        (0..self.units).map(|n| b.op(Op::CompositeExtract, quad, [got.into(), n.into()])).collect()
    }
}

impl Tiles<'_, '_> {
    /// The factors of a product that are fetched. `None` if they do not fit their staging buffers as a whole.
    fn fetches(&self, m: &Module, product: InstRef) -> Option<[Option<Fetch>; 2]> {
        let inst = m.inst(product);
        let (x, y) = (inst.id(0)?, inst.id(1)?);
        let (a, b) = (self.mat_of(m, x)?, self.mat_of(m, y)?);
        let plan = self.plan_slices((x, a), (y, b));
        if plan.steps != a.cols() {
            return None;
        }
        let [left, right] = plan.factors;
        if left.is_some() && right.is_some() {
            return None;
        }
        let [left, right] = [left, right].map(|factor| factor.and_then(|(access, layout)| self.share(&access, layout)));
        let fetches = [left.filter(Fetch::is_whole), right.filter(Fetch::is_whole)];
        fetches.iter().any(Option::is_some).then_some(fetches)
    }

    /// The share of a staging buffer that each invocation fetches. `None` if they do not have equal shares of a few quads.
    fn share(&self, access: &Access, layout: Layout) -> Option<Fetch> {
        let (units, invocations) = (layout.units(), self.analysis.invocations?);
        let quads = !access.decodes() && !access.clips && layout.unit_words() == 4;
        let fits = quads && units.is_multiple_of(invocations) && units / invocations <= MOST;
        fits.then(|| Fetch { access: access.clone(), layout, units: units / invocations })
    }

    /// Fetches an invocation's share of a staging buffer that is filled from a row and a column of the matrix on. `None` if the
    /// buffer has more than the matrix, or invocations have no equal shares.
    pub(super) fn fetch_slice(
        &mut self,
        b: &mut FunctionBuilder<'_>,
        (access, mat, layout): (&Access, Mat, Layout),
        (row, col): (u32, u32),
    ) -> Option<Vec<Id>> {
        let fetch = self.share(access, layout).filter(|_| !mat.has_partial_tiles())?;
        let function = self.fetch_function(b, &fetch);
        let (row, col) = (b.u32(row), b.u32(col));
        let operands: Vec<Id> = [function].into_iter().chain(access.args.iter().copied()).chain([row, col]).collect();
        Some(fetch.call(b, &operands))
    }

    /// Plans what is fetched for the products of a block, each but the first.
    pub(super) fn plan_blocks(&mut self, m: &Module) {
        let mut pipelines = std::mem::take(&mut self.function.pipelines);
        for pipeline in pipelines.iter_mut().filter(|p| p.around.is_none()) {
            let factors = |r: &InstRef| Some((m.inst(*r).id(0)?, m.inst(*r).id(1)?));
            let whole = |r: &InstRef| {
                let Some((x, y)) = factors(r) else { return false };
                let (Some(a), Some(b)) = (self.mat_of(m, x), self.mat_of(m, y)) else { return false };
                self.plan_slices((x, a), (y, b)).steps == a.cols()
            };
            // A product in slices stages several times, and what was fetched would be put there with the first.
            if !pipeline.products.iter().all(whole) {
                continue;
            }
            let fetched = |r: &InstRef| {
                let mut plan = self.fetches(m, *r)?;
                let can = |f: &Fetch| f.access.args.iter().all(|id| pipeline.can(m, *id, Iteration::This, DEPTH));
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
        if !iterations.iter().all(|iteration| pipeline.can(m, exit.condition, *iteration, DEPTH)) {
            return None;
        }
        let mut plans: Vec<[Option<Fetch>; 2]> = Vec::new();
        for (n, product) in pipeline.products.iter().enumerate() {
            let plan = self.fetches(m, *product)?;
            let iterations: &[Iteration] =
                if n == 0 { &[Iteration::First, Iteration::Next] } else { &[Iteration::This] };
            let mut args = plan.iter().flatten().flat_map(|f| f.access.args.iter().copied());
            if !args.all(|id| iterations.iter().all(|iteration| pipeline.can(m, id, *iteration, DEPTH))) {
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
            let Some(before) = pipeline.around.as_ref().filter(|a| a.entry == label).map(|a| a.exit.before) else {
                continue;
            };
            let Some(plans) = self.plans(b.module, pipeline) else { continue };
            let mut pipeline = std::mem::take(&mut self.function.pipelines[n]);
            pipeline.plans = plans;
            pipeline.fetched = self.fetch(b, &pipeline, 0, Iteration::First, before.then_some(Iteration::First));
            pipeline.live = true;
            self.function.pipelines[n] = pipeline;
        }
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
                f.iter().flat_map(|f| &f.access.args).map(|id| pipeline.get(b, *id, iteration, &mut made)).collect()
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
        let mut goes_on = pipeline.get(b, exit.condition, ask, &mut made);
        if !exit.stays {
            let ty = b.globals.bool(b.module);
            goes_on = b.ids(Op::LogicalNot, ty, &[goes_on]);
        }
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

    /// The function that gives an invocation's share of a staging buffer, with first row and column as its last parameters.
    fn fetch_function(&mut self, b: &mut FunctionBuilder<'_>, fetch: &Fetch) -> Id {
        let Fetch { access, layout, units } = fetch;
        let word = b.u32_type();
        let quad = b.globals.vector(b.module, word, 4);
        let array = b.globals.array(b.module, quad, *units);
        let mut types = access.param_types(b.module);
        let first = types.len();
        types.extend([word; 2]);
        let mut extra = access.key();
        extra.extend([u32::from(layout.down), layout.lines, layout.length, layout.pitch].map(Operand::Word));
        let key =
            Key { op: Op::CooperativeMatrixLoadTensorNV, staging_buffers: Vec::new(), types: types.clone(), extra };
        if let Some(function) = self.functions.get(&key) {
            return *function;
        }
        let label = format!("coop_fetch_{}x{}", access.rows, access.cols);
        let mut f = FunctionBuilder::new(b.module, b.globals, &label, array, &types);
        let mut visit = access.begin(&mut f, 0);
        let (row0, col0) = (Index::Value(f.param(first)), Index::Value(f.param(first + 1)));
        let lane = self.builtins.load(&mut f, BuiltIn::LocalInvocationIndex);
        let step = self.analysis.invocations.unwrap_or(1);
        let mut quads_at = |f: &mut FunctionBuilder<'_>, places: &[(Index, Index)]| -> Vec<Id> {
            let row_col = |(line, at): &(Index, Index)| {
                let (row, col) = layout.row_col(*line, *at);
                (f.add(row0, row), f.add(col0, col))
            };
            let places: Vec<(Index, Index)> = places.iter().map(row_col).collect();
            if let Some(quads) = visit.load_quads(f, &places) {
                return quads;
            }
            let mut quads = Vec::new();
            for (row, col) in places {
                let run = visit.load_run(f, row, col, layout.unit());
                let elements: Vec<Id> = run.into_iter().map(|l| l.value).collect();
                let words = words_of(f, layout.elem, &elements);
                quads.push(f.ids(Op::CompositeConstruct, quad, &words));
            }
            quads
        };
        let value = if access.clamps() {
            // The code for what is beyond the tensor stands there once.
            let variable = f.variable(array);
            let pointer = f.globals.pointer(f.module, StorageClass::Function, quad);
            f.repeat(*units, Unroll::Ask, &mut |f, n| {
                let skipped = f.mul(n, Index::Const(step));
                let unit = f.add(lane, skipped);
                let (line, at, _) = layout.place(f, unit);
                let value = quads_at(f, &[(line, at)])[0];
                let n = f.index(n);
                let slot = f.ids(Op::AccessChain, pointer, &[variable, n]);
                f.effect(Op::Store, [slot, value].map(Operand::Id));
            });
            f.ids(Op::Load, array, &[variable])
        } else {
            let places = layout.unit_positions(&mut f, Index::Const(0), (lane, step), MOST).unwrap_or_default();
            let places: Vec<(Index, Index)> = places.into_iter().map(|(line, at, _)| (line, at)).collect();
            let quads = quads_at(&mut f, &places);
            f.ids(Op::CompositeConstruct, array, &quads)
        };
        let function = f.finish(Some(value));
        self.functions.insert(key, function);
        function
    }

    /// What was fetched ahead for the factors of a product.
    pub(super) fn take_fetched(&mut self, r: InstRef, slices: &Slices) -> [Option<Vec<Id>>; 2] {
        let Some(n) = self.function.pipelines.iter().position(|p| p.live && p.products.contains(&r)) else {
            return [None, None];
        };
        let pipeline = &self.function.pipelines[n];
        let at = pipeline.products.iter().position(|p| *p == r).unwrap_or(0);
        std::array::from_fn(|n| {
            let Factor::StagingBuffer { staging, .. } = [&slices.left, &slices.right][n] else { return None };
            let layout = pipeline.plans[at][n].as_ref().map(|f| f.layout);
            Some(pipeline.fetched[n].clone()).filter(|quads| !quads.is_empty() && layout == Some(staging.layout))
        })
    }

    /// Puts an invocation's share into a staging buffer.
    pub(super) fn put_words(&mut self, b: &mut FunctionBuilder<'_>, staging: StagingBuffer, quads: &[Id]) {
        let lane = self.builtins.load(b, BuiltIn::LocalInvocationIndex);
        let begin = staging.begin(b, &mut self.arena, Index::Const(0));
        let step = self.analysis.invocations.unwrap_or(1);
        let places = staging.layout.unit_positions(b, begin, (lane, step), MOST).unwrap_or_default();
        for ((_, _, word), value) in places.into_iter().zip(quads) {
            let quad = b.div(word, 4);
            self.arena.store_quad(b, quad, *value);
        }
    }

    /// Behind the barrier of a product: fetches for the next.
    pub(super) fn fetch_next(&mut self, b: &mut FunctionBuilder<'_>, r: InstRef) {
        let Some(n) = self.function.pipelines.iter().position(|p| p.live && p.products.contains(&r)) else { return };
        let mut pipeline = std::mem::take(&mut self.function.pipelines[n]);
        let at = pipeline.products.iter().position(|p| *p == r).unwrap_or(0);
        pipeline.fetched = if at + 1 < pipeline.products.len() {
            self.fetch(b, &pipeline, at + 1, Iteration::This, None)
        } else if let Some(around) = &pipeline.around {
            let ask = if around.exit.before { Iteration::Next } else { Iteration::This };
            let next = self.fetch(b, &pipeline, 0, Iteration::Next, Some(ask));
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
