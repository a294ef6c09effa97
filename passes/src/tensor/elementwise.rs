//! Lowers tensor accesses without tiles or fragments, for tests: matrices stay, and each load and store goes element by
//! element through a shared array of its own.
//!
//! It works for any shape and scope, and the interpreter runs the output; devices have no such shared memory. So it
//! tests the code of `tensor::access` apart from the lowerings of matrices.

use super::access::{Access, Tensors};
use crate::builtins::{Builtins, add_to_interfaces};
use crate::matrix::barrier;
use crate::pipeline::PassCx;
use crate::workgroup::Workgroup;
use crate::{Error, Options, Refusal, Report, inline, specialize};
use coop_ir::builder::{FunctionBuilder, Globals, Index, Unroll, require_capability};
use coop_ir::constant::{Constants, Specialization};
use coop_ir::hash::{FxHashMap, FxHashSet};
use coop_ir::rewrite::sort_globals;
use coop_ir::spv::{BuiltIn, Capability, Scope, StorageClass};
use coop_ir::types;
use coop_ir::{Id, Inst, InstRef, Module, Op, Operand};

/// Replaces the tensor loads and stores of a module; elements are loaded and stored in runs of `run`. With a `run` of
/// 0, an access becomes one load or store of the whole matrix where possible.
pub fn lower(module: &Module, options: &Options<'_>, run: u32) -> Result<Module, Error> {
    let mut m = module.clone();
    let mut report = Report::default();
    let cx = &mut PassCx {
        options,
        report: &mut report,
        bound: module.header.bound,
        declared: &[],
        non_uniform: Default::default(),
    };
    specialize::run(&mut m, cx)?;
    inline::run(&mut m, cx)?;
    super::run(&mut m, cx)?;
    let tensors = Tensors::new(&m, options);
    let g = Globals::new(&m);
    let builtins = Builtins::new(&m);
    let constants = Constants::new(&m, &Specialization::new());
    let mut plain = ElementAccess {
        m: &mut m,
        g,
        tensors,
        builtins,
        constants,
        run,
        size: options.subgroup_size.unwrap_or(1),
        made: vec![],
    };
    plain.all()?;
    let ElementAccess { mut tensors, builtins, made, .. } = plain;
    tensors.finish(&mut m);
    builtins.finish(&mut m);
    if m.header.version_pair() >= (1, 4) {
        add_to_interfaces(&mut m, &made);
    }
    sort_globals(&mut m);
    coop_ir::verify::verify(&m).map_err(|problems| {
        let message = problems.iter().map(|p| p.to_string()).collect::<Vec<_>>().join("; ");
        Error::Bug { pass: "plain", message }
    })?;
    Ok(m)
}

struct ElementAccess<'m> {
    m: &'m mut Module,
    g: Globals,
    tensors: Tensors,
    builtins: Builtins,
    constants: Constants,
    run: u32,
    size: u32,
    made: Vec<Id>,
}

/// The result of a load, and its replacement.
type LoadReplacement = (Id, Id);

/// An access and its helper function.
struct AccessHelper {
    access: Access,
    stage: Stage,
    function: Id,
}

impl AccessHelper {
    fn emit(&self, b: &mut FunctionBuilder<'_>, builtins: &mut Builtins, direct: bool) -> Option<LoadReplacement> {
        let access = &self.access;
        let result = b.module.inst(access.at).result;
        let whole = (access.rows, access.cols);
        let zero = Index::Const(0);
        let plain = direct.then(|| access.begin_here(b).direct(b, (zero, zero), whole, 16)).flatten();
        let Some(plain) = plain else {
            let value = self.staged(b, builtins)?;
            return Some((result?, value));
        };
        let one = |b: &mut FunctionBuilder<'_>| -> Vec<Id> {
            let layout = b.u32(u32::from(plain.col_major));
            let mut operands: Vec<Operand> = vec![plain.pointer.into()];
            operands.extend(access.store.then_some(Operand::Id(access.object)));
            operands.extend([layout, plain.stride].map(Operand::Id));
            operands.extend(plain.operands.iter().copied());
            if access.store {
                b.effect(Op::CooperativeMatrixStoreKHR, operands);
                return Vec::new();
            }
            vec![b.op(Op::CooperativeMatrixLoadKHR, access.matrix, operands)]
        };
        let types: &[Id] = if access.store { &[] } else { &[access.matrix] };
        let values = match plain.unless {
            None => one(b),
            Some(no) => b.choose(no, types, &mut |b| self.staged(b, builtins).into_iter().collect(), &mut |b| one(b)),
        };
        Some((result?, *values.first()?))
    }

    /// Emits the access through the shared array.
    fn staged(&self, b: &mut FunctionBuilder<'_>, builtins: &mut Builtins) -> Option<Id> {
        let AccessHelper { access, stage, function } = self;
        let u32_type = b.u32_type();
        let first = if stage.workgroup {
            b.u32(0)
        } else {
            require_capability(b.module, Capability::GroupNonUniform);
            let variable = builtins.variable(b.module, b.globals, BuiltIn::SubgroupId);
            let id = b.ids(Op::Load, u32_type, &[variable]);
            let per = b.u32(stage.per);
            b.ids(Op::IMul, u32_type, &[id, per])
        };
        let at = b.ids(Op::AccessChain, stage.pointer, &[stage.array, first]);
        let (row_major, stride, void) = (b.u32(0), b.u32(access.cols), b.globals.void(b.module));
        let call: Vec<Id> = std::iter::once(*function).chain(access.args.iter().copied()).collect();
        stage.barrier(b);
        if access.store || access.clips {
            let operands = [at, access.object, row_major, stride].map(Operand::Id);
            let all: Vec<Operand> = operands.into_iter().chain(barrier::access_operands(stage.model)).collect();
            b.effect(Op::CooperativeMatrixStoreKHR, all);
            stage.barrier(b);
        }
        b.ids(Op::FunctionCall, void, &call);
        if access.store {
            return None;
        }
        stage.barrier(b);
        let operands = [at, row_major, stride].map(Operand::Id);
        let all: Vec<Operand> = operands.into_iter().chain(barrier::access_operands(stage.model)).collect();
        Some(b.op(Op::CooperativeMatrixLoadKHR, access.matrix, all))
    }
}

impl Stage {
    fn barrier(&self, b: &mut FunctionBuilder<'_>) {
        let scope = b.u32(if self.workgroup { 2 } else { 3 });
        let semantics = b.u32(barrier::semantics(self.model).0);
        b.effect(Op::ControlBarrier, [scope, scope, semantics].map(Operand::Id));
    }
}

/// The resources of one access.
struct Stage {
    array: Id,
    pointer: Id,
    workgroup: bool,
    lanes: u32,
    per: u32,
    model: bool,
}

impl ElementAccess<'_> {
    fn all(&mut self) -> Result<(), Refusal> {
        let is = |r: &InstRef| {
            matches!(self.m.inst(*r).op, Op::CooperativeMatrixLoadTensorNV | Op::CooperativeMatrixStoreTensorNV)
        };
        let mut jobs: FxHashMap<InstRef, AccessHelper> = FxHashMap::default();
        for r in self.m.all().filter(is).collect::<Vec<_>>() {
            let access = self.tensors.access(self.m, &mut self.g, r)?;
            let stage = self.stage(&access)?;
            let function = self.make(&access, &stage);
            jobs.insert(r, AccessHelper { access, stage, function });
        }
        for f in 0..self.m.functions.len() {
            if self.m.functions[f].insts().any(|r| jobs.contains_key(&r)) {
                self.function(f, &jobs);
            }
        }
        Ok(())
    }

    /// Rebuilds a function with the new code for its accesses.
    fn function(&mut self, f: usize, jobs: &FxHashMap<InstRef, AccessHelper>) {
        let function = self.m.functions[f].clone();
        let direct = self.run == 0;
        let builtins = &mut self.builtins;
        let Some(mut b) = FunctionBuilder::rebuild(self.m, &mut self.g, &function) else { return };
        let mut moved: FxHashMap<Id, Id> = FxHashMap::default();
        let mut made: Vec<LoadReplacement> = Vec::new();
        for (n, block) in function.blocks.iter().enumerate() {
            if n > 0 {
                b.reopen(block);
            }
            let label = b.block_id();
            for r in &block.insts {
                match jobs.get(r) {
                    Some(job) => made.extend(job.emit(&mut b, builtins, direct)),
                    None => b.keep(*r),
                }
            }
            moved.insert(label, b.block_id());
        }
        let blocks = b.blocks();
        for (old, new) in made {
            // The value replaces the load's result.
            let map = [(old, new)].into_iter().collect();
            coop_ir::rewrite::replace_uses(self.m, &map);
            for r in blocks.iter().flat_map(|b| b.insts.iter().copied()) {
                self.m.inst_mut(r).map_ids(|id| if id == old { new } else { id });
            }
        }
        let old: FxHashSet<InstRef> = function.insts().collect();
        for r in blocks.iter().flat_map(|b| b.insts.iter().copied()) {
            if self.m.inst(r).op == Op::Phi && old.contains(&r) {
                let inst = self.m.inst_mut(r);
                for at in (1..inst.operands.len()).step_by(2) {
                    if let Some(new) = inst.operands[at].id().and_then(|l| moved.get(&l)) {
                        inst.operands[at] = Operand::Id(*new);
                    }
                }
            }
        }
        self.m.functions[f].blocks = blocks;
    }

    fn stage(&mut self, access: &Access) -> Result<Stage, Refusal> {
        let scope = types::coop_mat(self.m, access.matrix).map(|t| t.view(self.m, &self.constants).scope);
        let workgroup = scope.and_then(|s| s.fixed_as()) == Some(Scope::Workgroup);
        let size = Workgroup::new(self.m, &self.constants).most.unwrap_or(1);
        let (lanes, parts) = if workgroup { (size, 1) } else { (self.size, size.div_ceil(self.size)) };
        let per = access.rows * access.cols;
        let array = self.g.array(self.m, access.elem.ty, per * parts);
        let storage = StorageClass::Workgroup;
        let to_array = self.g.pointer(self.m, storage, array);
        let id = self.m.fresh_id();
        let variable = self.m.add(Inst::new(Op::Variable, Some(to_array), Some(id), [storage.into()]));
        self.m.globals.push(variable);
        self.made.push(id);
        let pointer = self.g.pointer(self.m, storage, access.elem.ty);
        let model = self.m.has_capability(Capability::VulkanMemoryModel);
        Ok(Stage { array: id, pointer, workgroup, lanes, per, model })
    }

    /// Makes the function that visits the elements, each invocation some of them.
    fn make(&mut self, access: &Access, stage: &Stage) -> Id {
        let types = access.param_types(self.m);
        let void = self.g.void(self.m);
        let mut b = FunctionBuilder::new(self.m, &mut self.g, "plain_tensor", void, &types);
        let access_operands = barrier::access_operands(stage.model);
        let mut visit = access.begin(&mut b, 0);
        let index = self.builtins.load(&mut b, BuiltIn::LocalInvocationIndex);
        let (lane, part) = (b.rem(index, stage.lanes), b.div(index, stage.lanes));
        let first = b.mul(part, Index::Const(if stage.workgroup { 0 } else { stage.per }));
        let along = if access.runs_down { access.rows } else { access.cols };
        let run = if self.run > 0 && along.is_multiple_of(self.run) { self.run } else { 1 };
        let runs = stage.per / run;
        let per_line = along / run;
        b.repeat(runs.div_ceil(stage.lanes), Unroll::No, &mut |b, i| {
            let at = b.mul(i, Index::Const(stage.lanes));
            let at = b.add(at, lane);
            let mine = b.compare(Op::ULessThan, at, Index::Const(runs));
            b.when(mine, &mut |b| {
                let line = b.div(at, per_line);
                let place = b.rem(at, per_line);
                let begin = b.mul(place, Index::Const(run));
                let (row, col) = if access.runs_down { (begin, line) } else { (line, begin) };
                let slot = |b: &mut FunctionBuilder<'_>, j: u32| {
                    let (row, col) = if access.runs_down {
                        (b.add(row, Index::Const(j)), col)
                    } else {
                        (row, b.add(col, Index::Const(j)))
                    };
                    let at = b.mul(row, Index::Const(access.cols));
                    let at = b.add(at, col);
                    let at = b.add(at, first);
                    let at = b.index(at);
                    b.ids(Op::AccessChain, stage.pointer, &[stage.array, at])
                };
                if access.store {
                    let values: Vec<Id> = (0..run)
                        .map(|j| {
                            let slot = slot(b, j);
                            let operands = [Operand::Id(slot)].into_iter().chain(access_operands.iter().copied());
                            b.op(Op::Load, access.elem.ty, operands)
                        })
                        .collect();
                    visit.store_run(b, row, col, &values);
                    return;
                }
                for (j, got) in (0..).zip(visit.load_run(b, row, col, run)) {
                    let slot = slot(b, j);
                    let mut write = |b: &mut FunctionBuilder<'_>| {
                        let value = [slot, got.value].map(Operand::Id);
                        b.effect(Op::Store, value.into_iter().chain(access_operands.iter().copied()));
                    };
                    match got.keep {
                        Some(keep) => {
                            let bool_type = b.globals.bool(b.module);
                            let change = b.ids(Op::LogicalNot, bool_type, &[keep]);
                            b.when(change, &mut write);
                        }
                        None => write(b),
                    }
                }
            });
        });
        b.finish(None)
    }
}
