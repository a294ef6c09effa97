//! Products in loops over K, as engines have them: an iteration loads both factors, multiplies them, and does nothing else.

use super::emit::{A, B, Gen, Mat};
use super::fun::Value;
use super::range::Range;
use coop_ir::grammar::Op;
use coop_ir::{Id, InstRef, Operand};

/// The largest number of executions of a load, counting subgroups and iterations.
const MAX_EXECUTIONS: u32 = 200;

/// The forms of a loop of products beside the plain one.
struct Form {
    /// A loop around the loop that goes on with the same sums, with so many iterations.
    around: Option<u32>,
    /// A second sum, of a factor of its own.
    second: bool,
    /// Each product is added twice.
    twice: bool,
    /// Only some iterations multiply.
    sometimes: bool,
}

/// A loop that is being made, which goes on with sums.
struct Counted {
    /// The first block, the one that goes on, and the one behind the loop.
    header: Id,
    next: Id,
    merge: Id,
    /// The counter, and what it is next.
    i: Id,
    i_next: Id,
    /// The phis of the sums.
    phis: Vec<InstRef>,
    sums: Vec<Id>,
}

impl Gen<'_> {
    /// A loop that adds products to a matrix. Each iteration loads what it multiplies by layouts, whose slices may move with it.
    pub(super) fn product_loop(&mut self) -> Option<Value> {
        let most = 1 + self.side.below(5);
        let trips = if self.side.chance(20) { 0 } else { most };
        let form = Form {
            around: self.side.chance(60).then(|| 1 + self.side.below(2)),
            second: self.side.chance(60),
            twice: self.side.chance(40),
            sometimes: self.side.chance(50),
        };
        let rounds = form.around.unwrap_or(1);
        let executions = most * rounds;
        if self.fun().count[0] * executions > MAX_EXECUTIONS {
            return None;
        }
        let c = self.find(|v| v.mat.use_ == super::emit::ACC)?;
        let scalars = self.factors(Some(c.mat.scalar));
        if scalars[2] != c.mat.scalar || scalars[3] != c.mat.scalar {
            return None;
        }
        let [a, b] = [(scalars[0], A), (scalars[1], B)].map(|(scalar, use_)| self.mat(c.mat.problem, scalar, use_));
        let mat = c.mat;
        // The sums of engines begin as 0.
        let zero = self.g.null(&mut self.m, mat.ty);
        let zero = self.made_value(zero, mat, Gen::zero());
        let c = if self.side.chance(if c.mat.workgroup { 230 } else { 128 }) { zero } else { c };
        let mut first = vec![c.id];
        if form.second {
            first.push(zero.id);
            self.note("loop of two sums");
        }
        let trips = self.uniform(trips);
        let (exec, count) = (self.fun().exec, self.fun().count);
        let around = form.around.map(|n| {
            self.note("loop around a loop of products");
            let n = self.uniform(n);
            let around = self.begin_counted(n, mat, &first);
            self.count_execution(n, around.i);
            first.clone_from(&around.sums);
            around
        });
        let inner = self.begin_counted(trips, mat, &first);
        self.count_execution(trips, inner.i);
        self.fun().count = count.map(|c| c * executions);
        let decodes = [60, 60].map(|chance| self.side.chance(chance));
        let x = self.tensor_load_of(a, decodes[0]);
        let y = self.tensor_load_of(b, decodes[1]);
        let z = if form.second { self.tensor_load_of(b, false) } else { None };
        let mut sums = inner.sums.clone();
        let mut ranges = [c.range, Gen::zero()];
        if let Some((x, y)) = x.zip(y) {
            let times = if form.twice { 2 } else { 1 };
            let skip = form.sometimes.then(|| self.begin_sometimes(mat.workgroup));
            for (n, (y, first)) in [Some(y), z].into_iter().flatten().zip([c.range, Gen::zero()]).enumerate() {
                // Of whole numbers any sum, of others the sum of all products so far.
                let all = x.range.products(y.range, a.cols * executions * times);
                let inside = match mat.scalar.is_int() {
                    true => Range::of(mat.scalar),
                    false => first.hull(all.negated().hull(all).plus(first)),
                };
                let now = Value { id: sums[n], mat, range: inside, used: true };
                if let Some(product) = self.multiplied(x, y, now, mat) {
                    sums[n] = product.id;
                    ranges[n] = product.range.hull(inside);
                    self.note("loop of products");
                    let again = form.twice.then(|| self.multiplied(x, y, Value { range: inside, ..product }, mat));
                    if let Some(again) = again.flatten() {
                        sums[n] = again.id;
                        ranges[n] = ranges[n].hull(again.range);
                        self.note("product added twice");
                    }
                }
            }
            if let Some((from, merge)) = skip {
                self.note("product of some iterations");
                let here = self.fun().label;
                self.branch(merge);
                self.start(merge);
                let changed = sums.iter_mut().zip(&inner.sums).filter(|(now, before)| now != before);
                for (now, before) in changed {
                    *now = self.ids(Op::Phi, mat.ty, &[*now, here, *before, from]);
                }
            }
        }
        let mut out = inner.sums.clone();
        self.end_counted(inner, &sums);
        if let Some(around) = around {
            let sums = around.sums.clone();
            self.end_counted(around, &out);
            out = sums;
        }
        (self.fun().exec, self.fun().count) = (exec, count);
        let second = out.get(1).map(|id| Value { id: *id, mat, range: ranges[1], used: false });
        self.fun().values.extend(second);
        Some(Value { id: out[0], mat, range: ranges[0], used: false })
    }

    /// The beginning of a loop with a counter, in front of its body.
    fn begin_counted(&mut self, trips: Id, mat: Mat, first: &[Id]) -> Counted {
        let uint = self.uint();
        let zero = self.u32(0);
        let [header, body, next, merge] = std::array::from_fn(|_| self.m.fresh_id());
        let [i, i_next] = std::array::from_fn(|_| self.m.fresh_id());
        let sums: Vec<Id> = first.iter().map(|_| self.m.fresh_id()).collect();
        let before = self.fun().label;
        self.branch(header);
        self.start(header);
        self.op_as(i, Op::Phi, uint, &[zero, before, i_next, next]);
        let phis = sums.iter().zip(first).map(|(sum, c)| self.op_as(*sum, Op::Phi, mat.ty, &[*c, before, *sum, next]));
        let phis = phis.collect();
        let more = self.compare(Op::ULessThan, i, trips);
        let control = self.side.below(3);
        self.effect(Op::LoopMerge, [merge.into(), next.into(), Operand::Word(control)]);
        self.effect(Op::BranchConditional, [more, body, merge].map(Operand::Id));
        self.start(body);
        Counted { next, merge, header, i, i_next, phis, sums }
    }

    /// Makes the number of an execution that of an iteration of a loop.
    fn count_execution(&mut self, trips: Id, i: Id) {
        let exec = self.fun().exec;
        let rounds = exec.map(|e| {
            let before = self.u32_op(Op::IMul, e, trips);
            self.u32_op(Op::IAdd, before, i)
        });
        self.fun().exec = rounds;
    }

    /// The end of a loop, whose iterations leave these sums.
    fn end_counted(&mut self, around: Counted, sums: &[Id]) {
        for (phi, sum) in around.phis.iter().zip(sums) {
            self.m.inst_mut(*phi).operands[2] = Operand::Id(*sum);
        }
        let (uint, one) = (self.uint(), self.u32(1));
        self.branch(around.next);
        self.start(around.next);
        self.op_as(around.i_next, Op::IAdd, uint, &[around.i, one]);
        self.branch(around.header);
        self.start(around.merge);
    }

    /// Begins a block of some iterations. Returns the block in front of it and the one behind it.
    fn begin_sometimes(&mut self, workgroup: bool) -> (Id, Id) {
        let (condition, _) = self.condition(workgroup);
        let [inside, merge] = std::array::from_fn(|_| self.m.fresh_id());
        let from = self.fun().label;
        self.effect(Op::SelectionMerge, [merge.into(), Operand::Word(0)]);
        self.effect(Op::BranchConditional, [condition, inside, merge].map(Operand::Id));
        self.start(inside);
        (from, merge)
    }
}
