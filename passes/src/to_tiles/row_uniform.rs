//! Finds matrices whose rows hold one value each: in a row of tiles, all tiles equal the first.

use super::Tiles;
use super::per_element::{represents_positions, wanted_positions};
use crate::matrix::callback::has_effects;
use crate::matrix::row_uniform::{find, given, is_splat, uses_position};
use coop_ir::hash::FxHashSet;
use coop_ir::{Id, Inst, Module, Op};

impl Tiles<'_, '_> {
    /// The values of matrix types whose rows hold one value each, as far as their definitions tell.
    pub(super) fn find_row_uniform(&self, m: &Module) -> FxHashSet<Id> {
        find(m, &|inst| self.row_uniform_if(m, inst))
    }

    fn row_uniform_if(&self, m: &Module, inst: &Inst) -> Option<Vec<Id>> {
        let mat = inst.ty.and_then(|t| self.analysis.mats.get(&t)).filter(|mat| !mat.is_kept())?;
        let matrices: Vec<Id> = inst.ids().filter(|id| self.mat_of(m, *id).is_some()).collect();
        match inst.op {
            Op::CooperativeMatrixPerElementOpNV => {
                let function = inst.id(1)?;
                let wanted = wanted_positions(m, function, *mat).contains(&true);
                let held = !has_effects(m, function) && (represents_positions(*mat) || !wanted);
                (held && !uses_position(m, function)[1]).then_some(matrices)
            }
            // Where all columns of B are one, those of the product are: attention sums its rows up that way.
            Op::CooperativeMatrixMulAddKHR => is_splat(m, inst.id(1)?).then(|| inst.id(2).into_iter().collect()),
            op if op.is_elementwise() && !self.moves(m, inst, *mat) => Some(matrices),
            _ => given(inst, matrices),
        }
    }

    /// Returns true if the rows of a value hold one value each.
    pub(super) fn is_row_uniform(&self, value: Option<Id>) -> bool {
        value.is_some_and(|id| self.analysis.row_uniform.contains(&id))
    }
}
