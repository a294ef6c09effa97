//! Turns products with a matrix of one number into sums of rows: attention sums its rows up by a product with ones.
//!
//! Where every element of B is `v`, row `r` of A x B + C is `v` times the sum of row `r` of A, added to C. A product would
//! put A and B into shared memory and multiply all of it; a reduction of rows adds what lanes hold. It starts from the accumulator
//! that A was converted from, rounded as A was.
//!
//! Sums of f32 only, whose order the specification leaves open.

use crate::matrix::row_uniform::is_splat;
use crate::ssa;
use coop_ir::builder::{FunctionBuilder, Globals, add_global, decorate};
use coop_ir::constant::Constants;
use coop_ir::rewrite::insert_before;
use coop_ir::spv::{CooperativeMatrixReduce, CooperativeMatrixUse, Decoration, Scope};
use coop_ir::types::{self, CoopMat, Scalar};
use coop_ir::{Id, Inst, InstRef, Module, Op, Operand};

const F32: Scalar = Scalar::Float { width: 32 };
const F16: Scalar = Scalar::Float { width: 16 };

/// A product that is a sum of rows.
struct RowSum {
    product: InstRef,
    a: Id,
    /// The accumulator that A was converted from, and the type of its components as A has them.
    from: Id,
    rounded_to: Id,
    /// The number in B; none if it is 1.
    factor: Option<Id>,
    c: Id,
}

/// Returns true if there was such a product.
pub(super) fn run(m: &mut Module, g: &mut Globals, constants: &Constants) -> bool {
    let products = m.functions.iter().flat_map(|f| f.insts());
    let found: Vec<RowSum> = products.filter_map(|r| RowSum::of(m, constants, r)).collect();
    if found.is_empty() {
        return false;
    }
    let f32_type = g.scalar(m, F32);
    let mut f = FunctionBuilder::new(m, g, "coop_sum", f32_type, &[f32_type, f32_type]);
    let operands = [f.param(0), f.param(1)];
    let sum = f.ids(Op::FAdd, f32_type, &operands);
    let add = f.finish(Some(sum));
    let factors = found.iter().map(|sum| sum.a).collect();
    for sum in found {
        sum.rewrite(m, g, add);
    }
    ssa::remove_unused(m, &factors);
    true
}

impl RowSum {
    fn of(m: &Module, constants: &Constants, r: InstRef) -> Option<RowSum> {
        let inst = m.inst(r);
        if inst.op != Op::CooperativeMatrixMulAddKHR || inst.matrix_operands().0 != 0 {
            return None;
        }
        let mut ids = inst.ids();
        let (a, b, c) = (ids.next()?, ids.next()?, ids.next()?);
        let converted = m.def_inst(a).filter(|i| matches!(i.op, Op::FConvert | Op::CooperativeMatrixConvertNV))?;
        let from = converted.ids().next()?;
        let of = |id: Id| types::coop_mat_of(m, id);
        let (a_type, from_type, d_type) = (of(a)?, of(from)?, types::coop_mat(m, inst.ty?)?);
        let scalar = |ty: CoopMat| types::scalar(m, ty.component);
        let view = |ty: CoopMat| ty.view(m, constants);
        let in_workgroup = view(d_type).scope.fixed_as() == Some(Scope::Workgroup);
        let held = view(from_type).use_.fixed_as() == Some(CooperativeMatrixUse::MatrixAccumulatorKHR);
        let rounds = |ty: CoopMat| scalar(ty).is_some_and(|s| s == F32 || s == F16);
        let same = (from_type.rows, from_type.cols) == (a_type.rows, a_type.cols);
        let suits = in_workgroup && held && same && rounds(a_type) && rounds(from_type) && scalar(d_type) == Some(F32);
        // A rounding mode, say.
        let decorated = m.globals_with(Op::Decorate).any(|r| m.inst(r).ids().next() == Some(a));
        if !suits || decorated || m.type_of(c) != inst.ty || !is_splat(m, b) {
            return None;
        }
        let number = m.def_inst(b)?.ids().next()?;
        let one = if scalar(of(b)?)? == F16 { 0x3c00 } else { 0x3f80_0000 };
        let factor = Some(number).filter(|v| constants.get(*v).fixed() != Some(one));
        Some(RowSum { product: r, a, from, rounded_to: a_type.component, factor, c })
    }

    fn rewrite(&self, m: &mut Module, g: &mut Globals, add: Id) {
        let f32_type = g.scalar(m, F32);
        let mut value = self.from;
        for component in [self.rounded_to, f32_type] {
            let Some(ty) = types::coop_mat_of(m, value).filter(|ty| ty.component != component) else { continue };
            let ty = accumulator(m, ty, component);
            value = self.before(m, Op::FConvert, ty, [value.into()]);
            // Mesa would take the number as it was before it was rounded.
            decorate(m, value, Decoration::NoContraction, &[]);
        }
        let product = m.inst(self.product).clone();
        let Some(d) = product.ty else { return };
        let by_rows = Operand::Word(CooperativeMatrixReduce::Row.0);
        let mut sums = self.before(m, Op::CooperativeMatrixReduceNV, d, [value.into(), by_rows, add.into()]);
        if let Some(mut factor) = self.factor {
            if m.type_of(factor) != Some(f32_type) {
                factor = self.before(m, Op::FConvert, f32_type, [factor.into()]);
            }
            sums = self.before(m, Op::MatrixTimesScalar, d, [sums, factor].map(Operand::Id));
        }
        let operands = [self.c, sums].map(Operand::Id);
        m.replace(self.product, Inst::new(Op::FAdd, product.ty, product.result, operands).at(product.origin));
    }

    /// Adds an instruction before the product.
    fn before<const N: usize>(&self, m: &mut Module, op: Op, ty: Id, operands: [Operand; N]) -> Id {
        let id = m.fresh_id();
        let origin = m.inst(self.product).origin;
        insert_before(m, self.product, Inst::new(op, Some(ty), Some(id), operands).at(origin));
        id
    }
}

/// Returns the type of matrices like those of `like`, with other components.
fn accumulator(m: &mut Module, like: CoopMat, component: Id) -> Id {
    let operands = [component, like.scope, like.rows, like.cols, like.use_];
    let known = m.globals_with(Op::TypeCooperativeMatrixKHR).find(|r| m.inst(*r).ids().eq(operands));
    if let Some(id) = known.and_then(|r| m.inst(r).result) {
        return id;
    }
    let id = m.fresh_id();
    add_global(m, Inst::new(Op::TypeCooperativeMatrixKHR, None, Some(id), operands.map(Operand::Id)));
    id
}
