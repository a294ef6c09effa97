//! Matrices whose rows hold one value each.
//!
//! Lanes hold all elements of them as of others. But who computes with such a matrix reads the first that the lane holds
//! of a row, and makes one of those where the result is such a matrix too: the others are then read by nothing, in loops
//! neither, and cost no registers.

use super::Mat;
use crate::matrix::callback::has_effects;
use crate::matrix::row_uniform::{find, given, takes_place};
use coop_ir::builder::{FunctionBuilder, Index};
use coop_ir::hash::{FxHashMap, FxHashSet};
use coop_ir::{Id, Inst, Module, Op};

/// The values of matrix types whose rows hold one value each, as far as their definitions tell.
pub(super) fn rows_alike(m: &Module, mats: &FxHashMap<Id, Mat>) -> FxHashSet<Id> {
    let mat_of = |id: Id| mats.get(&m.type_of(id)?);
    find(m, &|inst: &Inst| {
        let mat = inst.ty.and_then(|t| mats.get(&t))?;
        let matrices: Vec<Id> = inst.ids().filter(|id| mat_of(*id).is_some()).collect();
        match inst.op {
            Op::CooperativeMatrixPerElementOpNV => {
                let function = inst.id(1)?;
                (!has_effects(m, function) && !takes_place(m, function)[1]).then_some(matrices)
            }
            op if op.is_elementwise() => {
                let same = |id: &Id| mat_of(*id).is_some_and(|from| from.band == mat.band && from.grid == mat.grid);
                matrices.iter().all(same).then_some(matrices)
            }
            _ => given(inst, matrices),
        }
    })
}

/// Which of a lane's elements stands for its element `at`, in row `i` as it counts: of a matrix whose rows are alike the
/// first of the row.
pub(super) fn standing(b: &mut FunctionBuilder<'_>, alike: bool, mat: Mat, i: Index, at: Index) -> Index {
    if alike { b.mul(i, Index::Const(mat.band.cols.held)) } else { at }
}
