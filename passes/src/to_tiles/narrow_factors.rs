//! Multiplies factors in the narrower type that the module converts them from.
//!
//! IREE (seen with 3.13) converts f16 matrices to f32 and multiplies those, which no published device does. If the wide type
//! represents every product of two numbers of the narrow type, the products are the same, and their sum is as exact as a
//! device's sum of the wide type would be. Effect: such a MulAdd takes the narrow matrices if the device multiplies those and
//! not the wide ones; unused conversions and types are removed. Variables of the wide types are promoted to values if they
//! are only loaded and stored as a whole.

use super::shape::multiplies;
use crate::ssa;
use coop_device::Profile;
use coop_ir::constant::Constants;
use coop_ir::hash::FxHashSet;
use coop_ir::rewrite::remove_globals;
use coop_ir::types::{self, Scalar, Type};
use coop_ir::uses::Users;
use coop_ir::{Id, InstRef, Module, Op, Operand};

pub(super) fn run(m: &mut Module, constants: &Constants, profile: &Profile) {
    let converted: FxHashSet<Id> = insts(m, Op::FConvert).filter_map(|r| m.inst(r).ty).collect();
    let products = insts(m, Op::CooperativeMatrixMulAddKHR).filter_map(|r| lacking(m, profile, r)).flatten();
    let wide: FxHashSet<Id> = products.filter(|ty| converted.contains(ty)).collect();
    if wide.is_empty() {
        return;
    }
    for f in 0..m.functions.len() {
        let variables = ssa::candidates(m, f, &|_, ty| wide.contains(&ty));
        ssa::promote(m, f, &variables);
    }
    let products = insts(m, Op::CooperativeMatrixMulAddKHR);
    let found: Vec<(InstRef, [Id; 2])> =
        products.filter_map(|r| Some((r, narrow(m, constants, profile, r)?))).collect();
    let mut conversions = FxHashSet::default();
    for (r, factors) in found {
        for (operand, factor) in m.inst_mut(r).operands.iter_mut().zip(factors) {
            conversions.extend(operand.id());
            *operand = Operand::Id(factor);
        }
    }
    drop_unused(m, &conversions);
}

fn insts(m: &Module, op: Op) -> impl Iterator<Item = InstRef> + '_ {
    m.functions.iter().flat_map(|f| f.insts()).filter(move |r| m.inst(*r).op == op)
}

/// The types of A and B of a product that the device has not.
fn lacking(m: &Module, profile: &Profile, product: InstRef) -> Option<[Id; 2]> {
    let inst = m.inst(product);
    let [a, b] = [m.type_of(inst.id(0)?)?, m.type_of(inst.id(1)?)?];
    let types = [component(m, a)?, component(m, b)?, sum(m, product)?, component(m, inst.ty?)?];
    (!multiplies(profile, types)).then_some([a, b])
}

/// The type of the numbers in a matrix of this type.
fn component(m: &Module, ty: Id) -> Option<Scalar> {
    types::scalar(m, types::coop_mat(m, ty)?.component)
}

/// The type of C's numbers.
fn sum(m: &Module, product: InstRef) -> Option<Scalar> {
    component(m, m.type_of(m.inst(product).id(2)?)?)
}

/// Returns the matrices that A and B of a product that the device lacks were converted from, where it can multiply those.
fn narrow(m: &Module, constants: &Constants, profile: &Profile, product: InstRef) -> Option<[Id; 2]> {
    lacking(m, profile, product)?;
    let inst = m.inst(product);
    let before = |id: Id| {
        let from = m.def_inst(id).filter(|i| i.op == Op::FConvert)?.id(0)?;
        let [was, is] = [types::coop_mat_of(m, from)?, types::coop_mat_of(m, id)?].map(|t| t.view(m, constants));
        let [narrow, wide] = [was.component?, is.component?];
        let same_shape = (&was.scope, &was.rows, &was.cols, &was.use_) == (&is.scope, &is.rows, &is.cols, &is.use_);
        (same_shape && holds_products(wide, narrow)).then_some((from, narrow))
    };
    let ((a, narrow_a), (b, narrow_b)) = (before(inst.id(0)?)?, before(inst.id(1)?)?);
    multiplies(profile, [narrow_a, narrow_b, sum(m, product)?, component(m, inst.ty?)?]).then_some([a, b])
}

/// Returns true if every product of two numbers of a type is a number of the other.
fn holds_products(wide: Scalar, narrow: Scalar) -> bool {
    wide == Scalar::Float { width: 32 } && narrow.is_float() && narrow.width() <= 16
}

/// Removes those of the conversions that nothing uses, and the matrix types that nothing has then.
fn drop_unused(m: &mut Module, conversions: &FxHashSet<Id>) {
    ssa::remove_unused(m, conversions);
    // Pointers to matrices before the matrices.
    for op in [Op::TypePointer, Op::TypeCooperativeMatrixKHR] {
        let users = Users::new(m);
        let of_matrices = |id: &Id| match Type::of(m, *id) {
            Some(Type::Pointer { pointee, .. }) => types::coop_mat(m, pointee).is_some(),
            kind => kind.is_some(),
        };
        let all = m.globals_with(op).filter_map(|r| m.inst(r).result).filter(of_matrices);
        let unused: FxHashSet<Id> = all.filter(|id| users.beyond_notes(m, *id).next().is_none()).collect();
        remove_globals(m, |m, r| m.inst(r).result.is_some_and(|id| unused.contains(&id)));
        ssa::remove_annotations(m, &unused);
    }
}
