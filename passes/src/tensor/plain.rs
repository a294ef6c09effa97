//! The simplest way to do tensor accesses, for tests: matrices stay, and each load and store goes element by element
//! through a shared array of its own.
//!
//! It works for any shape and scope, and the interpreter runs what comes out; devices have no such shared memory. So
//! it shows what the code of [`super::access`] does, apart from the realisations.

use super::access::{Access, Tensors};
use crate::builtins::{Builtins, add_to_interfaces};
use crate::pipeline::PassCx;
use crate::{Error, Options, Refusal, Report, inline, specialize};
use coop_ir::builder::{FunctionBuilder, Globals, Index, Unroll, require_capability};
use coop_ir::constant::{Constants, Specialization};
use coop_ir::decorate::Decorations;
use coop_ir::entry::entry_points;
use coop_ir::rewrite::{insert_before, sort_globals};
use coop_ir::types;
use coop_ir::{Id, Inst, InstRef, Module, Op, Operand};
use spirv::{BuiltIn, Capability, MemoryAccess, MemorySemantics, StorageClass};

/// Replaces the tensor loads and stores of a module; elements are loaded and stored in runs of `run`.
pub fn realise(module: &Module, options: &Options<'_>, run: u32) -> Result<Module, Error> {
    let mut m = module.clone();
    let mut report = Report::default();
    let cx = &mut PassCx { options, report: &mut report };
    specialize::run(&mut m, cx)?;
    inline::run(&mut m, cx)?;
    super::run(&mut m, cx)?;
    let tensors = Tensors::new(&m, options);
    let g = Globals::new(&m);
    let builtins = Builtins::new(&m);
    let constants = Constants::new(&m, &Specialization::new());
    let mut plain = Plain {
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
    let Plain { mut tensors, builtins, made, .. } = plain;
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

struct Plain<'m> {
    m: &'m mut Module,
    g: Globals,
    tensors: Tensors,
    builtins: Builtins,
    constants: Constants,
    run: u32,
    size: u32,
    made: Vec<Id>,
}

/// What one access is given.
struct Stage {
    array: Id,
    pointer: Id,
    workgroup: bool,
    lanes: u32,
    per: u32,
}

impl Plain<'_> {
    fn all(&mut self) -> Result<(), Refusal> {
        let is = |r: &InstRef| {
            matches!(self.m.inst(*r).op, Op::CooperativeMatrixLoadTensorNV | Op::CooperativeMatrixStoreTensorNV)
        };
        for r in self.m.all().filter(is).collect::<Vec<_>>() {
            let access = self.tensors.access(self.m, &mut self.g, r)?;
            self.one(r, &access)?;
        }
        Ok(())
    }

    fn stage(&mut self, access: &Access) -> Result<Stage, Refusal> {
        let scope = types::coop_mat(self.m, access.matrix).map(|t| t.view(self.m, &self.constants).scope);
        let workgroup = scope.and_then(|s| s.fixed()) == Some(2);
        let entries = entry_points(self.m, &Decorations::new(self.m));
        let size = entries.iter().find_map(|e| crate::scalar::lanes::invocations(e, &self.constants)).unwrap_or(1);
        let (lanes, parts) = if workgroup { (size, 1) } else { (self.size, size.div_ceil(self.size)) };
        let per = access.rows * access.cols;
        let array = self.g.array(self.m, access.elem.ty, per * parts);
        let storage = StorageClass::Workgroup as u32;
        let to_array = self.g.pointer(self.m, storage, array);
        let id = self.m.fresh_id();
        let variable = self.m.add(Inst::new(Op::Variable, Some(to_array), Some(id), [storage.into()]));
        self.m.globals.push(variable);
        self.made.push(id);
        let pointer = self.g.pointer(self.m, storage, access.elem.ty);
        Ok(Stage { array: id, pointer, workgroup, lanes, per })
    }

    /// Puts an instruction in front of another.
    fn put(&mut self, before: InstRef, op: Op, ty: Option<Id>, operands: Vec<Operand>) -> Id {
        let id = self.m.fresh_id();
        insert_before(self.m, before, Inst::new(op, ty, ty.map(|_| id), operands));
        id
    }

    fn barrier(&mut self, before: InstRef, stage: &Stage) {
        let scope = self.g.u32(self.m, if stage.workgroup { 2 } else { 3 });
        let semantics = MemorySemantics::ACQUIRE_RELEASE | MemorySemantics::WORKGROUP_MEMORY;
        let semantics = self.g.u32(self.m, semantics.bits());
        self.put(before, Op::ControlBarrier, None, [scope, scope, semantics].map(Operand::Id).to_vec());
    }

    fn operands(&mut self, stage: &Stage, load: bool) -> Vec<Operand> {
        let make = if load { MemoryAccess::MAKE_POINTER_VISIBLE } else { MemoryAccess::MAKE_POINTER_AVAILABLE };
        let scope = self.g.u32(self.m, if stage.workgroup { 2 } else { 3 });
        vec![(make | MemoryAccess::NON_PRIVATE_POINTER).bits().into(), scope.into()]
    }

    fn one(&mut self, r: InstRef, access: &Access) -> Result<(), Refusal> {
        let stage = self.stage(access)?;
        let function = self.make(access, &stage);
        let u32_type = self.g.uint(self.m, 32);
        let first = if stage.workgroup {
            self.g.u32(self.m, 0)
        } else {
            require_capability(self.m, Capability::GroupNonUniform as u32);
            let variable = self.builtins.variable(self.m, &mut self.g, BuiltIn::SubgroupId);
            let id = self.put(r, Op::Load, Some(u32_type), vec![variable.into()]);
            let per = self.g.u32(self.m, stage.per);
            self.put(r, Op::IMul, Some(u32_type), vec![id.into(), per.into()])
        };
        let at = self.put(r, Op::AccessChain, Some(stage.pointer), vec![stage.array.into(), first.into()]);
        let (row_major, stride) = (self.g.u32(self.m, 0), self.g.u32(self.m, access.cols));
        let void = self.g.void(self.m);
        let call: Vec<Operand> =
            std::iter::once(function).chain(access.args.iter().copied()).map(Operand::Id).collect();
        self.barrier(r, &stage);
        if access.store || access.clips {
            let mut operands = [at, access.object, row_major, stride].map(Operand::Id).to_vec();
            operands.extend(self.operands(&stage, false));
            self.put(r, Op::CooperativeMatrixStoreKHR, None, operands);
            self.barrier(r, &stage);
        }
        if access.store {
            self.put(r, Op::FunctionCall, Some(void), call);
            // The memory model wants others to see what one invocation stored for all.
            let origin = self.m.inst(r).origin;
            self.m.replace(r, Inst::new(Op::Nop, None, None, []).at(origin));
            return Ok(());
        }
        self.put(r, Op::FunctionCall, Some(void), call);
        self.barrier(r, &stage);
        let mut operands = [at, row_major, stride].map(Operand::Id).to_vec();
        operands.extend(self.operands(&stage, true));
        let (ty, result, origin) = (self.m.inst(r).ty, self.m.inst(r).result, self.m.inst(r).origin);
        self.m.replace(r, Inst::new(Op::CooperativeMatrixLoadKHR, ty, result, operands).at(origin));
        Ok(())
    }

    /// The function that visits the elements, each invocation some of them.
    fn make(&mut self, access: &Access, stage: &Stage) -> Id {
        let types = access.param_types(self.m);
        let (load_operands, store_operands) = (self.operands(stage, true), self.operands(stage, false));
        let void = self.g.void(self.m);
        let mut b = FunctionBuilder::new(self.m, &mut self.g, "plain_tensor", void, &types);
        let mut visit = access.begin(&mut b, 0);
        let index = self.builtins.load(&mut b, BuiltIn::LocalInvocationIndex);
        let (lane, part) = (b.rem(index, stage.lanes), b.div(index, stage.lanes));
        let first = b.mul(part, Index::Const(if stage.workgroup { 0 } else { stage.per }));
        let along = if access.runs_down { access.rows } else { access.cols };
        let run = if along.is_multiple_of(self.run) { self.run } else { 1 };
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
                            let operands = [Operand::Id(slot)].into_iter().chain(load_operands.iter().copied());
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
                        b.effect(Op::Store, value.into_iter().chain(store_operands.iter().copied()));
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
