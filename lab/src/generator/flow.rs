//! Statements, and control flow around them.

use super::Dialect;
use super::emit::{ACC, Gen, Mat};
use super::fun::{Path, Value, Var};
use super::range::Range;
use coop_ir::grammar::Op;
use coop_ir::spv::{BuiltIn, Capability, StorageClass};
use coop_ir::{Id, Operand};

/// The largest nesting of control flow.
const MAX_DEPTH: u32 = 4;
/// The largest number of executions of a statement, counting subgroups and iterations.
const MAX_EXECUTIONS: u32 = 200;

impl Gen<'_> {
    /// The entry point's function.
    pub(super) fn main(&mut self) -> Id {
        let void = self.g.void(&mut self.m);
        let (id, _) = self.begin(void, &[], "main");
        self.budget = 2 + self.e.below(20);
        let [x, y] = self.workgroups;
        let mut workgroup = self.builtin_value(BuiltIn::WorkgroupId, Some(0));
        if y > 1 {
            let (row, width) = (self.builtin_value(BuiltIn::WorkgroupId, Some(1)), self.u32(x));
            let rows = self.u32_op(Op::IMul, row, width);
            workgroup = self.u32_op(Op::IAdd, rows, workgroup);
        }
        let mut subgroup = workgroup;
        if self.subgroups > 1 {
            self.capability(Capability::GroupNonUniform);
            let (n, which) = (self.u32(self.subgroups), self.builtin_value(BuiltIn::SubgroupId, None));
            let before = self.u32_op(Op::IMul, workgroup, n);
            subgroup = self.u32_op(Op::IAdd, before, which);
        }
        let count = x * y;
        let subgroups = self.subgroups;
        let fun = self.fun();
        fun.exec = [subgroup, workgroup];
        fun.count = [count * subgroups, count];
        let mat = self.any_mat();
        let first = self.load(mat);
        self.fun().values.push(first);
        self.statements(u32::MAX);
        self.store_unused(0, 8);
        if !self.buffers.iter().any(|b| b.is_output()) {
            self.store(first);
        }
        self.effect(Op::Return, []);
        self.end();
        id
    }

    /// Stores up to `most` values that nothing used, of those from `from` on.
    fn store_unused(&mut self, from: usize, most: usize) {
        let values: Vec<Value> = self.fun().values.iter().skip(from).filter(|v| !v.used).copied().collect();
        for value in values.into_iter().rev().take(most) {
            if self.allowed(value.mat) {
                self.store(value);
            }
        }
    }

    /// Makes up to `most` statements.
    fn statements(&mut self, most: u32) {
        for _ in 0..most {
            if self.budget == 0 {
                return;
            }
            self.budget -= 1;
            if let Some(value) = self.statement() {
                self.fun().values.push(value);
            }
        }
    }

    fn statement(&mut self) -> Option<Value> {
        let more = match self.profile.dialect {
            Dialect::Khr | Dialect::Nv1 | Dialect::Arm => 32,
            Dialect::Nv2 | Dialect::Ext | Dialect::Intel | Dialect::Qcom | Dialect::Kernel => 56,
        };
        match self.e.below(more) {
            32.. => match self.profile.dialect {
                Dialect::Ext => self.ext_statement(),
                Dialect::Intel | Dialect::Kernel => self.intel_statement(),
                Dialect::Qcom => self.qcom_statement(),
                _ => self.nv2_statement(),
            },
            0 => {
                if !self.kernel() && self.side.chance(60) {
                    self.atomic_extreme();
                }
                None
            }
            1 | 2 => {
                let mat = self.any_mat();
                Some(self.load(mat))
            }
            3 => {
                let mat = self.any_mat();
                Some(self.splat(mat))
            }
            4 => {
                let value = self.find(|_| true)?;
                self.store(value);
                None
            }
            5..=8 => self.arithmetic(),
            9 | 10 => self.convert(),
            11..=14 => self.multiply(None),
            15 | 16 => self.choose(),
            17 | 18 => self.elements(),
            19..=21 => self.variables(),
            22 | 23 => self.shared_statement(),
            24 | 25 => self.selection(),
            26 => self.switch(),
            27..=29 => self.repeat(),
            30 => self.call(),
            _ => {
                self.leave_early();
                None
            }
        }
    }

    /// A type of the same component type with the same extents or the opposite, maybe of another use.
    pub(super) fn turned(&mut self, mat: Mat) -> Mat {
        let scalars_allowed = |this: &Self, use_: u32| this.scalars(use_).contains(&mat.scalar);
        let uses: Vec<u32> = (0..3).filter(|u| scalars_allowed(self, *u)).collect();
        let use_ = self.e.pick(&uses);
        let other = self.mat(mat.problem, mat.scalar, use_);
        let same = (other.rows, other.cols) == (mat.rows, mat.cols);
        let turned = (other.cols, other.rows) == (mat.rows, mat.cols);
        if same || turned { other } else { mat }
    }

    /// A condition that is the same in every invocation of the scope, and its value where it is known.
    pub(super) fn condition(&mut self, workgroup: bool) -> (Id, Option<bool>) {
        let apart_allowed = !workgroup && self.subgroups > 1;
        let counters = self.fun().counters.clone();
        match self.e.below(6) {
            0 | 1 => {
                let (a, b) = (self.e.below(3), self.e.below(3));
                let (x, y) = (self.uniform(a), self.uniform(b));
                (self.compare(Op::ULessThan, x, y), Some(a < b))
            }
            2 => {
                let exec = self.fun().exec[1];
                let limit = self.uniform(1);
                (self.compare(Op::ULessThan, exec, limit), None)
            }
            3 if apart_allowed => {
                self.capability(Capability::GroupNonUniform);
                let id = self.builtin_value(BuiltIn::SubgroupId, None);
                let limit = self.uniform(1);
                (self.compare(Op::UGreaterThanEqual, id, limit), None)
            }
            4 if !counters.is_empty() => {
                let counter = self.e.pick(&counters).0;
                let limit = self.uniform(1);
                (self.compare(Op::IEqual, counter, limit), None)
            }
            _ => {
                let exec = self.fun().exec[1];
                let (one, zero) = (self.u32(1), self.u32(0));
                let bit = self.u32_op(Op::BitwiseAnd, exec, one);
                (self.compare(Op::IEqual, bit, zero), None)
            }
        }
    }

    /// A branch of a selection: statements, of which the last value of type `mat` comes out.
    fn arm(&mut self, merge: Id, out: Option<Value>) -> (Id, Option<Value>) {
        let from = self.fun().values.len();
        let most = self.e.below(5);
        self.statements(most);
        let result = out.map(|x| self.find(|v| v.mat == x.mat).unwrap_or(x));
        let few = self.e.below(3) as usize;
        self.store_unused(from, few);
        self.fun().values.truncate(from);
        let end = self.fun().label;
        self.branch(merge);
        (end, result)
    }

    /// Returns true if another level of control flow is fine.
    fn enter(&mut self) -> bool {
        let total: u32 = self.funs.iter().map(|f| f.depth + 1).sum();
        if total > MAX_DEPTH {
            return false;
        }
        self.fun().depth += 1;
        true
    }

    fn phi(&mut self, incoming: &[(Id, Option<Value>)]) -> Option<Value> {
        let values: Vec<Value> = incoming.iter().filter_map(|(_, v)| *v).collect();
        let first = *values.first()?;
        let range = values.iter().fold(first.range, |r, v| r.hull(v.range));
        let operands: Vec<Id> = incoming.iter().filter_map(|(label, v)| v.map(|v| [v.id, *label])).flatten().collect();
        let id = self.ids(Op::Phi, first.mat.ty, &operands);
        self.note("OpPhi");
        Some(Value { id, mat: first.mat, range, used: false })
    }

    fn selection(&mut self) -> Option<Value> {
        let out = self.find(|_| true);
        let was = self.fun().apart;
        // Subgroups may part only where no workgroup's matrix is meant.
        let parts = self.e.chance(80) && self.subgroups > 1 && self.problems.iter().any(|p| !p.workgroup);
        let out = out.filter(|x| !(parts && x.mat.workgroup));
        if !self.enter() {
            return None;
        }
        let condition = if parts && !was {
            self.capability(Capability::GroupNonUniform);
            let id = self.builtin_value(BuiltIn::SubgroupId, None);
            let limit = self.uniform(1);
            self.note("selection by subgroup");
            self.fun().apart = true;
            self.compare(Op::ULessThan, id, limit)
        } else {
            self.note("selection");
            self.condition(true).0
        };
        let [yes, no, merge] = std::array::from_fn(|_| self.m.fresh_id());
        let only_then = self.e.chance(80);
        let control = self.e.below(3);
        self.effect(Op::SelectionMerge, [merge.into(), Operand::Word(control)]);
        let before = self.fun().label;
        let otherwise = if only_then { merge } else { no };
        self.effect(Op::BranchConditional, [condition, yes, otherwise].map(Operand::Id));
        self.start(yes);
        let mut incoming = vec![self.arm(merge, out)];
        if only_then {
            incoming.push((before, out));
        } else {
            self.start(no);
            incoming.push(self.arm(merge, out));
        }
        self.start(merge);
        let fun = self.fun();
        fun.apart = was;
        fun.depth -= 1;
        self.phi(&incoming)
    }

    fn switch(&mut self) -> Option<Value> {
        let out = self.find(|_| true);
        if !self.enter() {
            return None;
        }
        let merge = self.m.fresh_id();
        let value = self.e.below(4);
        let selector = if self.e.chance(128) {
            let exec = self.fun().exec[1];
            let three = self.u32(3);
            self.u32_op(Op::BitwiseAnd, exec, three)
        } else {
            self.uniform(value)
        };
        let cases = self.e.below(3);
        let labels: Vec<Id> = (0..=cases).map(|_| self.m.fresh_id()).collect();
        self.effect(Op::SelectionMerge, [merge.into(), Operand::Word(0)]);
        let mut operands = vec![Operand::Id(selector), Operand::Id(labels[0])];
        for (i, label) in labels.iter().enumerate().skip(1) {
            operands.extend([Operand::Word(i as u32 - 1), Operand::Id(*label)]);
        }
        self.effect(Op::Switch, operands);
        self.note("OpSwitch");
        let mut incoming = Vec::new();
        for label in labels {
            self.start(label);
            incoming.push(self.arm(merge, out));
        }
        self.start(merge);
        self.fun().depth -= 1;
        self.phi(&incoming)
    }

    /// A loop that carries a matrix, in a phi or in a variable.
    fn repeat(&mut self) -> Option<Value> {
        let trips = 1 + self.e.below(4);
        if self.fun().count[0] * trips > MAX_EXECUTIONS || !self.enter() {
            return None;
        }
        let kind = self.e.below(5);
        let x = match kind {
            0 | 1 => self.find(|v| v.mat.use_ == ACC),
            _ => self.find(|_| true),
        };
        let Some(x) = x else {
            self.fun().depth -= 1;
            return None;
        };
        let mat = x.mat;
        let uint = self.uint();
        let trips_id = self.uniform(trips);
        let (zero, one) = (self.u32(0), self.u32(1));
        let by_variable = self.e.chance(80).then(|| {
            let variable = self.local(mat.ty, None);
            self.effect(Op::Store, [variable, x.id].map(Operand::Id));
            variable
        });
        let [header, check, body, next, merge] = std::array::from_fn(|_| self.m.fresh_id());
        let [i, i_next, carried] = std::array::from_fn(|_| self.m.fresh_id());
        let before = self.fun().label;
        self.branch(header);
        self.start(header);
        self.op_as(i, Op::Phi, uint, &[zero, before, i_next, next]);
        let phi = match by_variable {
            None => Some(self.op_as(carried, Op::Phi, mat.ty, &[x.id, before, carried, next])),
            Some(_) => None,
        };
        let control = self.e.below(3);
        self.effect(Op::LoopMerge, [merge.into(), next.into(), Operand::Word(control)]);
        self.branch(check);
        self.start(check);
        let more = self.compare(Op::ULessThan, i, trips_id);
        self.effect(Op::BranchConditional, [more, body, merge].map(Operand::Id));
        self.start(body);
        self.note(if phi.is_some() { "loop with a phi" } else { "loop with a variable" });

        let (exec, count, from) = (self.fun().exec, self.fun().count, self.fun().values.len());
        let rounds = exec.map(|e| {
            let before = self.u32_op(Op::IMul, e, trips_id);
            self.u32_op(Op::IAdd, before, i)
        });
        let fun = self.fun();
        fun.exec = rounds;
        fun.count = count.map(|c| c * trips);
        fun.counters.push((i, trips));

        let inside = match by_variable {
            Some(variable) => self.ids(Op::Load, mat.ty, &[variable]),
            None => carried,
        };
        // What is made of the carried matrix, and the range that it keeps.
        let step = self.step(kind, x, trips);
        let range = step.range;
        let now = Value { id: inside, mat, range, used: true };
        self.fun().values.push(now);
        let most = self.e.below(4);
        self.statements(most);
        let result = self.carried_result(&step, now);
        let mut result = result.unwrap_or(inside);
        if self.e.chance(60) {
            // Only in some rounds.
            let (condition, _) = self.condition(mat.workgroup);
            result = self.select(mat, condition, result, inside);
        }
        let few = self.e.below(3) as usize;
        self.store_unused(from, few);
        if let Some(variable) = by_variable {
            self.effect(Op::Store, [variable, result].map(Operand::Id));
        }
        if self.e.chance(60) {
            self.leave_loop(merge, next, phi.is_none());
        }
        self.branch(next);
        self.start(next);
        self.op_as(i_next, Op::IAdd, uint, &[i, one]);
        self.branch(header);
        if let Some(phi) = phi {
            self.m.inst_mut(phi).operands[2] = Operand::Id(result);
        }
        let fun = self.fun();
        fun.exec = exec;
        fun.count = count;
        fun.counters.pop();
        fun.values.truncate(from);
        fun.depth -= 1;
        self.start(merge);
        let id = match by_variable {
            Some(variable) => self.ids(Op::Load, mat.ty, &[variable]),
            None => carried,
        };
        Some(Value { id, mat, range, used: false })
    }

    /// Emits an iteration's change of the matrix `now` that a loop carries. `None` if there is none to make.
    fn carried_result(&mut self, step: &Stepped, now: Value) -> Option<Id> {
        match step.with {
            Some(Step::Multiply(a, b)) => self.multiplied(a, b, now, now.mat).map(|v| v.id),
            Some(Step::Add(y)) => {
                let op = if now.mat.scalar.is_float() { Op::FAdd } else { Op::IAdd };
                Some(self.ids(op, now.mat.ty, &[now.id, y.id]))
            }
            Some(Step::Negate) => {
                let op = if now.mat.scalar.is_float() { Op::FNegate } else { Op::SNegate };
                Some(self.ids(op, now.mat.ty, &[now.id]))
            }
            None => self.find(|v| v.mat == now.mat && v.range.within(step.range)).map(|v| v.id),
        }
    }

    /// Leaves a loop, or with `may_continue` its iteration, on a condition.
    fn leave_loop(&mut self, merge: Id, next: Id, may_continue: bool) {
        let (condition, _) = self.condition(true);
        let stay = self.m.fresh_id();
        let to_next = may_continue && self.e.chance(80);
        let out = if to_next { next } else { merge };
        // The way out needs no merge instruction: both targets are the loop's own or go on in it.
        let on = self.m.fresh_id();
        self.effect(Op::SelectionMerge, [on.into(), Operand::Word(0)]);
        self.effect(Op::BranchConditional, [condition, stay, on].map(Operand::Id));
        self.start(stay);
        self.branch(out);
        self.start(on);
        self.note(if to_next { "continue" } else { "break" });
    }

    /// Emits one iteration's change of the matrix that a loop carries, and returns the range in which it stays.
    fn step(&mut self, kind: u32, x: Value, trips: u32) -> Stepped {
        let (mat, range) = (x.mat, x.range);
        let scalar = mat.scalar;
        let bfloat = scalar == coop_ir::types::Scalar::BF16;
        let full = Range::of(scalar);
        match kind {
            0 | 1 => {
                let types = self.loop_factors(mat);
                let [a, b] = types.map(|m| self.operand(m));
                if !scalar.is_float() && self.profile.dialect != Dialect::Nv1 {
                    return Stepped { with: Some(Step::Multiply(a, b)), range: full };
                }
                let grows = a.range.products(b.range, a.mat.cols);
                let either = grows.hull(grows.negated()).times(trips);
                let grown = range.hull(Gen::zero()).plus(either);
                if grown.fits(scalar) {
                    self.note("multiplications in a loop");
                    return Stepped { with: Some(Step::Multiply(a, b)), range: grown };
                }
                Stepped { with: None, range }
            }
            2 if !bfloat => {
                let y = self.operand(mat);
                let grown = range.hull(Gen::zero()).plus(y.range.hull(Gen::zero()).times(trips));
                match grown.wrapped(scalar) {
                    Some(range) => Stepped { with: Some(Step::Add(y)), range },
                    None => Stepped { with: None, range },
                }
            }
            3 if !bfloat => match range.hull(range.negated()).wrapped(scalar) {
                Some(range) => Stepped { with: Some(Step::Negate), range },
                None => Stepped { with: None, range },
            },
            _ => {
                let range = if scalar.is_int() { full } else { range };
                Stepped { with: None, range }
            }
        }
    }

    /// Types of A and B that multiply into an accumulator.
    fn loop_factors(&mut self, acc: Mat) -> [Mat; 2] {
        let scalars = self.factors(Some(acc.scalar));
        [(scalars[0], super::emit::A), (scalars[1], super::emit::B)].map(|(s, u)| self.mat(acc.problem, s, u))
    }

    /// A call of a new function, at one or two places.
    fn call(&mut self) -> Option<Value> {
        if self.tiled() {
            return None;
        }
        let x = self.find(|_| true)?;
        let sites = 1 + self.e.below(2);
        if self.fun().count[0] * sites > MAX_EXECUTIONS || !self.enter() {
            return None;
        }
        let y = self.find(|v| v.mat == x.mat).unwrap_or(x);
        let range = x.range.hull(y.range);
        let uint = self.uint();
        let mut params = vec![uint, uint, x.mat.ty];
        // A variable of the caller.
        let pointers: Vec<Var> = self
            .fun()
            .vars
            .iter()
            .filter(|v| matches!(v.path, Path::Whole) && v.storage == StorageClass::Function)
            .cloned()
            .collect();
        let apart = self.fun().apart;
        let pointer = (!pointers.is_empty() && self.e.chance(128)).then(|| {
            let at = self.e.below(pointers.len() as u32) as usize;
            pointers[at].clone()
        });
        let pointer = pointer.filter(|p| !(apart && p.mat.workgroup));
        if let Some(p) = &pointer {
            params.push(self.g.pointer(&mut self.m, p.storage, p.mat.ty));
            self.note("pointer to a matrix as an argument");
        }
        let returns = !self.e.chance(40);
        let ret = if returns { x.mat.ty } else { self.g.void(&mut self.m) };
        let count = self.fun().count.map(|c| c * sites);
        let depth = self.fun().depth;
        let (function, ids) = self.begin(ret, &params, "part");
        let fun = self.fun();
        fun.exec = [ids[0], ids[1]];
        fun.count = count;
        fun.apart = apart;
        fun.depth = depth.min(1);
        fun.values.push(Value { id: ids[2], mat: x.mat, range, used: false });
        if let (Some(p), Some(id)) = (&pointer, ids.get(3)) {
            fun.vars.push(Var { id: *id, ..p.clone() });
        }
        fun.ret = returns.then_some((x.mat, range));
        let most = 1 + self.e.below(5);
        self.statements(most);
        let result = returns.then(|| {
            let found = self.find(|v| v.mat == x.mat);
            found.unwrap_or(Value { id: ids[2], mat: x.mat, range, used: true })
        });
        self.store_unused(0, 2);
        match result {
            Some(v) => self.effect(Op::ReturnValue, [v.id.into()]),
            None => self.effect(Op::Return, []),
        }
        self.end();
        self.note("function");
        let mut out = None;
        let exec = self.fun().exec;
        for site in 0..sites {
            let (n, which) = (self.u32(sites), self.u32(site));
            let [e, w] = exec.map(|e| {
                let all = self.u32_op(Op::IMul, e, n);
                self.u32_op(Op::IAdd, all, which)
            });
            let argument = if site == 0 { x.id } else { y.id };
            let mut operands = vec![function, e, w, argument];
            operands.extend(pointer.as_ref().map(|p| p.id));
            let id = self.ids(Op::FunctionCall, ret, &operands);
            if let Some(result) = result {
                let range = range.hull(result.range);
                let value = Value { id, mat: x.mat, range, used: false };
                if let Some(earlier) = out.replace(value) {
                    self.fun().values.push(earlier);
                }
            }
        }
        self.fun().depth -= 1;
        out
    }

    /// A return that all invocations of a workgroup take or none does.
    fn leave_early(&mut self) {
        if self.fun().apart {
            return;
        }
        let value = self.fun().ret.map(|(mat, range)| {
            let found = self.find(|v| v.mat == mat && v.range.within(range));
            found.unwrap_or_else(|| unreachable!("the parameter is such a value"))
        });
        let (condition, _) = self.condition(true);
        let [out, on] = std::array::from_fn(|_| self.m.fresh_id());
        self.effect(Op::SelectionMerge, [on.into(), Operand::Word(0)]);
        self.effect(Op::BranchConditional, [condition, out, on].map(Operand::Id));
        self.start(out);
        match value {
            Some(v) => self.effect(Op::ReturnValue, [v.id.into()]),
            None => self.effect(Op::Return, []),
        }
        self.start(on);
        self.note("early return");
    }
}

enum Step {
    Multiply(Value, Value),
    Add(Value),
    Negate,
}

struct Stepped {
    with: Option<Step>,
    range: Range,
}
