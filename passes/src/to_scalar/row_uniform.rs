//! Lowers operations on matrices whose rows hold one value each.
//!
//! Lanes have arrays for all of their elements, as for other matrices. But an operation on such a matrix reads only the first
//! element of each row that the lane holds, and computes only that one if the result is such a matrix too. The other elements
//! are then unused, in loops as well, and need no registers.

use super::Mat;
use crate::matrix::callback::has_effects;
use crate::matrix::row_uniform::{find, given, uses_position};
use coop_ir::builder::{FunctionBuilder, Index};
use coop_ir::hash::{FxHashMap, FxHashSet};
use coop_ir::{Id, Inst, Module, Op};

/// The values of matrix types whose rows hold one value each, as far as their definitions tell.
pub(super) fn row_uniform_values(m: &Module, mats: &FxHashMap<Id, Mat>) -> FxHashSet<Id> {
    let mat_of = |id: Id| mats.get(&m.type_of(id)?);
    find(m, &|inst: &Inst| {
        let mat = inst.ty.and_then(|t| mats.get(&t))?;
        let matrices: Vec<Id> = inst.ids().filter(|id| mat_of(*id).is_some()).collect();
        match inst.op {
            Op::CooperativeMatrixPerElementOpNV => {
                let function = inst.id(1)?;
                (!has_effects(m, function) && !uses_position(m, function)[1]).then_some(matrices)
            }
            op if op.is_elementwise() => {
                let same = |id: &Id| mat_of(*id).is_some_and(|from| from.placement == mat.placement);
                matrices.iter().all(same).then_some(matrices)
            }
            _ => given(inst, matrices),
        }
    })
}

/// Returns the index of the element that represents a lane's element `at`, in its row `i`: of a row-uniform matrix the
/// first of the row.
pub(super) fn representative(b: &mut FunctionBuilder<'_>, row_uniform: bool, mat: Mat, i: Index, at: Index) -> Index {
    if row_uniform { b.mul(i, Index::Const(mat.placement.cols.per_group)) } else { at }
}
