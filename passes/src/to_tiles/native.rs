//! Lowers operations on tiles to instructions of SPV_EXT_cooperative_matrix_maintenance1.
//!
//! With `--target ext`, and as far as the profile has the features, operations of a subgroup on its own tiles need no
//! shared memory: each tile is reduced, mapped or converted by the instruction that the whole matrix had. Operations that
//! cross subgroups, and those that must not see the padding of a tile, are lowered as with `--target khr`.

use super::exchange::{Change, Conversion};
use super::inst::Slot;
use super::per_element::{Callback, is_guarded, wanted_positions};
use super::shape::Mat;
use super::tensor::Key;
use super::{TileIds, Tiles};
use crate::Target;
use crate::matrix::placement::Use;
use crate::pipeline::PassCx;
use coop_device::Feature;
use coop_ir::builder::{FunctionBuilder, Index, add_global};
use coop_ir::spv::Decoration;
use coop_ir::{Id, Inst, Op, Operand};

/// The decoration CooperativeMatrixTransposeEXT.
pub(super) const TRANSPOSE: u32 = Decoration::CooperativeMatrixTransposeEXT.0;

/// The parts of the extension that may be used.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Native {
    pub(super) reduce: bool,
    pub(super) convert: bool,
    pub(super) per_element: bool,
    pub(super) coordinate: bool,
}

impl Native {
    pub(super) fn new(cx: &PassCx<'_>) -> Native {
        let wanted = cx.options.target == Target::Ext;
        let profile =
            cx.options.profile.filter(|p| wanted && p.has_extension("VK_EXT_cooperative_matrix_maintenance1"));
        let has = |feature: Feature| profile.is_some_and(|p| p.has(feature));
        Native {
            reduce: has(Feature::CooperativeMatrixReductionsExt),
            convert: has(Feature::CooperativeMatrixConversionsExt),
            per_element: has(Feature::CooperativeMatrixPerElementOperationsExt),
            coordinate: has(Feature::CooperativeMatrixGetCoordinate),
        }
    }
}

impl Tiles<'_, '_> {
    /// Returns true if a function is called for each element of tiles by the device.
    pub(super) fn calls_natively(&self, mat: Mat) -> bool {
        self.analysis.native.per_element && !is_guarded(mat)
    }

    /// Has the device call a function for each element of the tiles.
    pub(super) fn native_each(
        &mut self,
        b: &mut FunctionBuilder<'_>,
        slot: &mut Slot,
        mat: Mat,
        callback: &Callback,
        (parts, row_uniform): (&TileIds, bool),
    ) -> TileIds {
        let placed = wanted_positions(b.module, callback.function, mat).contains(&true);
        let mut result = parts.clone();
        for position in self.tile_positions(b, mat) {
            let column = position.index as u32 % mat.cols();
            if row_uniform && column > 0 {
                result[position.index] = result[position.index - column as usize];
                continue;
            }
            let at_origin = position.row.known() == Some(0) && position.col.known() == Some(0);
            let mut operands = vec![parts[position.index], callback.function];
            operands
                .extend(callback.extras.iter().map(|(id, tiles)| tiles.as_ref().map_or(*id, |t| t[position.index])));
            if placed && !at_origin {
                operands[1] = self.offset_callback(b, mat, callback);
                let [row, col] = [&position.row, &position.col].map(|at| {
                    let at = at.emit(b);
                    b.index(at)
                });
                operands.extend([row, col]);
            }
            let operands = operands.into_iter().map(Operand::Id);
            result[position.index] = slot.op(b, Op::CooperativeMatrixPerElementOpNV, mat.tile, operands);
        }
        result
    }

    /// A function that adds its last two parameters to row and column and calls another one.
    fn offset_callback(&mut self, b: &mut FunctionBuilder<'_>, mat: Mat, callback: &Callback) -> Id {
        let mut types = callback.params.clone();
        let extra = vec![Operand::Id(callback.function)];
        let key = Key { op: Op::FunctionCall, staging_buffers: Vec::new(), types: types.clone(), extra };
        if let Some(function) = self.functions.get(&key) {
            return *function;
        }
        let word = b.u32_type();
        types.extend([word, word]);
        let label = format!("coop_each_moved_{}", mat.label());
        let mut f = FunctionBuilder::new(b.module, b.globals, &label, mat.elem.ty, &types);
        let count = callback.params.len();
        let mut operands = vec![callback.function];
        for n in 0..2 {
            let (at, by) = (f.param(n), f.param(count + n));
            let ty = callback.params[n];
            let at = if ty == word { at } else { f.ids(Op::Bitcast, word, &[at]) };
            let sum = f.add(Index::Value(at), Index::Value(by));
            let sum = f.index(sum);
            operands.push(if ty == word { sum } else { f.ids(Op::Bitcast, ty, &[sum]) });
        }
        operands.extend((2..count).map(|n| f.param(n)));
        let value = f.ids(Op::FunctionCall, mat.elem.ty, &operands);
        let function = f.finish(Some(value));
        self.functions.insert(key, function);
        function
    }

    /// Takes tiles to another use, one by one.
    pub(super) fn native_convert(
        &self,
        b: &mut FunctionBuilder<'_>,
        slot: &mut Slot,
        how: &Conversion,
        parts: &TileIds,
    ) -> Option<TileIds> {
        let (from, to) = (how.from, how.to);
        let sums = |m: &Mat| m.tile_use == Use::Accumulator;
        if !self.analysis.native.convert || how.change != Change::None || how.clears() || sums(&from) == sums(&to) {
            return None;
        }
        let held = |m: &Mat| (m.groups(), (m.rows(), m.cols()), (m.tile_rows, m.tile_cols));
        let transposed =
            |(groups, (rows, cols), (tile_rows, tile_cols))| (groups, (cols, rows), (tile_cols, tile_rows));
        if how.transposed {
            if !sums(&from) || from.groups() != (1, 1) || transposed(held(&from)) != held(&to) {
                return None;
            }
        } else if held(&from) != held(&to) {
            return None;
        }
        let mut result = vec![to.tile; to.tiles() as usize];
        for i in 0..to.rows() {
            for j in 0..to.cols() {
                let part = parts[if how.transposed { from.at(j, i) } else { from.at(i, j) }];
                let id = slot.op(b, Op::CooperativeMatrixConvertNV, to.tile, [part.into()]);
                if how.transposed {
                    let operands = [Operand::Id(id), TRANSPOSE.into()];
                    add_global(b.module, Inst::new(Op::Decorate, None, None, operands));
                }
                result[to.at(i, j)] = id;
            }
        }
        Some(result)
    }
}
