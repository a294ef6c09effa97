//! Products in loops over K, as engines have them: an iteration loads both factors, multiplies them, and does nothing else.

use super::emit::{A, B, Gen};
use super::fun::Value;
use super::range::Range;
use coop_ir::Operand;
use coop_ir::grammar::Op;

/// The largest number of executions of a load, counting subgroups and iterations.
const MAX_EXECUTIONS: u32 = 200;

impl Gen<'_> {
    /// A loop that adds products to a matrix. Each iteration loads what it multiplies by layouts, whose slices may move with it.
    pub(super) fn product_loop(&mut self) -> Option<Value> {
        let most = 1 + self.side.below(5);
        let trips = if self.side.chance(20) { 0 } else { most };
        if self.fun().count[0] * most > MAX_EXECUTIONS {
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
        let c = if self.side.chance(if c.mat.workgroup { 230 } else { 128 }) {
            let zero = self.g.null(&mut self.m, mat.ty);
            self.made_value(zero, mat, Gen::zero())
        } else {
            c
        };
        let uint = self.uint();
        let (trips, zero, one) = (self.uniform(trips), self.u32(0), self.u32(1));
        let [header, body, next, merge] = std::array::from_fn(|_| self.m.fresh_id());
        let [i, i_next, sum] = std::array::from_fn(|_| self.m.fresh_id());
        let before = self.fun().label;
        self.branch(header);
        self.start(header);
        self.op_as(i, Op::Phi, uint, &[zero, before, i_next, next]);
        let phi = self.op_as(sum, Op::Phi, mat.ty, &[c.id, before, sum, next]);
        let more = self.compare(Op::ULessThan, i, trips);
        let control = self.side.below(3);
        self.effect(Op::LoopMerge, [merge.into(), next.into(), Operand::Word(control)]);
        self.effect(Op::BranchConditional, [more, body, merge].map(Operand::Id));
        self.start(body);
        let (exec, count) = (self.fun().exec, self.fun().count);
        let rounds = exec.map(|e| {
            let before = self.u32_op(Op::IMul, e, trips);
            self.u32_op(Op::IAdd, before, i)
        });
        (self.fun().exec, self.fun().count) = (rounds, count.map(|c| c * most));
        let decodes = [60, 60].map(|chance| self.side.chance(chance));
        let x = self.tensor_load_of(a, decodes[0]);
        let y = self.tensor_load_of(b, decodes[1]);
        let mut range = c.range;
        if let Some((x, y)) = x.zip(y) {
            // Of whole numbers any sum, of others the sum of all products so far.
            let all = x.range.products(y.range, a.cols * most);
            let inside = match mat.scalar.is_int() {
                true => Range::of(mat.scalar),
                false => c.range.hull(all.negated().hull(all).plus(c.range)),
            };
            let now = Value { id: sum, mat, range: inside, used: true };
            if let Some(product) = self.multiplied(x, y, now, mat) {
                self.m.inst_mut(phi).operands[2] = Operand::Id(product.id);
                range = product.range.hull(inside);
                self.note("loop of products");
            }
        }
        self.branch(next);
        self.start(next);
        self.op_as(i_next, Op::IAdd, uint, &[i, one]);
        self.branch(header);
        (self.fun().exec, self.fun().count) = (exec, count);
        self.start(merge);
        Some(Value { id: sum, mat, range, used: false })
    }
}
