//! Lowers tensor loads and stores: each lane accesses the elements that it holds, in runs where these are adjacent.

use super::array::{Array, ArrayBuilder, unroll_much};
use super::exchange_buffer::where_;
use super::{Deferred, Key, Lower, Mat, unfit};
use crate::Refusal;
use crate::matrix::bits::small_type;
use crate::matrix::placement::{AxisSplit, whole_pieces};
use crate::matrix::position::{ElementPosition, LanePosition, both};
use crate::tensor::Access;
use coop_ir::builder::{FunctionBuilder, Index, Unroll};
use coop_ir::{Id, InstRef, Op};

/// Bits that are read or written together.
const RUN_BITS: u32 = 128;

impl Lower<'_, '_> {
    pub(super) fn tensor_load(&mut self, r: InstRef) -> Result<(), Refusal> {
        let access = self.tensors.access(self.m, &mut self.g, r)?;
        let result = self.m.inst(r).result;
        if let Some(id) = result.filter(|id| self.deferred.contains(id) && !access.clips) {
            self.leave(r, id, Deferred::Tensor(Box::new(access)));
            return Ok(());
        }
        let Some(mat) = self.mats.get(&access.matrix).copied() else { return unfit(r) };
        let key = self.tensor_key(Op::CooperativeMatrixLoadTensorNV, &access);
        let mut args = access.args.clone();
        args.extend(access.clips.then_some(access.object));
        self.call(r, key, &args, &mut |this| Ok(this.make_tensor_load(&access, mat)))
    }

    pub(super) fn tensor_store(&mut self, r: InstRef) -> Result<(), Refusal> {
        let access = self.tensors.access(self.m, &mut self.g, r)?;
        let Some(mat) = self.mats.get(&access.matrix).copied() else { return unfit(r) };
        let key = self.tensor_key(Op::CooperativeMatrixStoreTensorNV, &access);
        let mut args = access.args.clone();
        args.push(access.object);
        self.call(r, key, &args, &mut |this| Ok(this.make_tensor_store(&access, mat)))
    }

    /// The key of the code for an access.
    pub(super) fn tensor_key(&self, op: Op, access: &Access) -> Key {
        Key { op, types: access.param_types(self.m), extra: access.key() }
    }

    fn make_tensor_load(&mut self, access: &Access, mat: Mat) -> Id {
        let mut types = access.param_types(self.m);
        types.extend(access.clips.then_some(mat.ty));
        small_type(self.m, mat.scalar);
        let label = format!("coop_load_{}", mat.label());
        let mut f = FunctionBuilder::new(self.m, &mut self.g, &label, mat.ty, &types);
        let b = &mut f;
        let lane_position = LanePosition::new(b, &mut self.lanes, mat.placement, mat.workgroup);
        let how = unroll_much(mat.placement.len());
        let old = access.clips.then(|| {
            let object = b.param(types.len() - 1);
            Array::new(b, mat, object, how != Unroll::Now)
        });
        let mut visit = access.begin(b, 0);
        let mut sink = ArrayBuilder::new(b, mat, how != Unroll::Now);
        each_run(b, access, mat, how, &mut |b, places, i, j| {
            let ElementPosition { row, col, .. } = lane_position.place(b, i, j);
            let (row, col) = (row.emit(b), col.emit(b));
            let loaded = match places {
                [_] => vec![visit.load(b, row, col)],
                _ => visit.load_run(b, row, col, places.len() as u32),
            };
            for (at, got) in places.iter().zip(loaded) {
                let value = match (got.keep, &old) {
                    (Some(keep), Some(old)) => {
                        let before = old.get(b, *at);
                        b.ids(Op::Select, mat.elem, &[keep, before, got.value])
                    }
                    _ => got.value,
                };
                sink.set(b, *at, value);
            }
        });
        let value = sink.finish(b);
        f.finish(Some(value))
    }

    fn make_tensor_store(&mut self, access: &Access, mat: Mat) -> Id {
        let mut types = access.param_types(self.m);
        types.push(mat.ty);
        small_type(self.m, mat.scalar);
        let label = format!("coop_store_{}", mat.label());
        let void = self.g.void(self.m);
        let mut f = FunctionBuilder::new(self.m, &mut self.g, &label, void, &types);
        let b = &mut f;
        let lane_position = LanePosition::new(b, &mut self.lanes, mat.placement, mat.workgroup);
        let how = unroll_much(mat.placement.len());
        let object = b.param(types.len() - 1);
        let array = Array::new(b, mat, object, how != Unroll::Now);
        let mut visit = access.begin(b, 0);
        let first = lane_position.first(b);
        where_(b, first, &mut |b| {
            each_run(b, access, mat, how, &mut |b, places, i, j| {
                let ElementPosition { row, col, real } = lane_position.place(b, i, j);
                let real = both(b, real, None);
                where_(b, real, &mut |b| {
                    let (row, col) = (row.emit(b), col.emit(b));
                    let mut values = Vec::new();
                    for at in places {
                        values.push(array.get(b, *at));
                    }
                    match values.as_slice() {
                        [value] => visit.store(b, row, col, *value),
                        _ => visit.store_run(b, row, col, &values),
                    }
                });
            });
        });
        f.finish(None)
    }
}

/// Visits a run: the places of its elements in the lane's array, and row and column of its first element.
type EachRun<'a> = dyn FnMut(&mut FunctionBuilder<'_>, &[Index], Index, Index) + 'a;

/// Visits the lane's elements in runs: the places of a run in the lane's array, and row and column, as the lane counts
/// them, of its first element.
fn each_run(b: &mut FunctionBuilder<'_>, access: &Access, mat: Mat, how: Unroll, body: &mut EachRun<'_>) {
    let (rows, cols) = (mat.placement.rows, mat.placement.cols);
    let most = RUN_BITS / mat.scalar.width();
    // A run has to be inside of the matrix and to begin at a multiple of its length.
    let run = |split: AxisSplit| if split.pads() { 1 } else { whole_pieces(split.piece, most) };
    let (down, right) = if access.runs_down { (run(rows), 1) } else { (1, run(cols)) };
    let (outer, inner) = (rows.per_group / down, cols.per_group / right);
    b.repeat(outer, how, &mut |b, i| {
        let i = b.mul(i, Index::Const(down));
        let line = b.mul(i, Index::Const(cols.per_group));
        b.repeat(inner, how, &mut |b, j| {
            let j = b.mul(j, Index::Const(right));
            let first = b.add(line, j);
            let step = if down > 1 { cols.per_group } else { 1 };
            let mut places = Vec::new();
            for n in 0..down.max(right) {
                places.push(b.add(first, Index::Const(n * step)));
            }
            body(b, &places, i, j);
        });
    });
}
