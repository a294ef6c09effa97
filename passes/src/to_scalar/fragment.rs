//! Factors that lanes hold, on their way to shared memory.
//!
//! Each lane writes what it holds of a slice. Where the elements of a slice are a range of those that a lane holds, only
//! these are visited; else all are, and each is tested.

use super::Mat;
use super::array::{Array, unroll, unroll_much};
use super::exchange::Conversion;
use super::exchange_buffer::where_;
use super::staged_factor::StagedFactor;
use crate::matrix::arena::Arena;
use crate::matrix::placement::{MajorOrder, whole_pieces};
use crate::matrix::position::{ElementPosition, LanePosition, both};
use coop_ir::Id;
use coop_ir::Op;
use coop_ir::builder::{FunctionBuilder, Index, Unroll};

/// Fragments of a matrix that are put into shared memory.
pub(super) struct Fragment<'a> {
    /// The matrix that they hold.
    pub(super) mat: Mat,
    /// The conversion to the factor, if the matrix is another one.
    pub(super) how: Option<&'a Conversion>,
    /// Computes the value put into shared memory for an element of the factor.
    pub(super) stage: &'a dyn Fn(&mut FunctionBuilder<'_>, Id) -> Id,
}

/// The part of a lane's elements along a direction that is visited: from the first on, so many.
#[derive(Clone, Copy)]
struct Range {
    first: Index,
    count: u32,
}

impl Fragment<'_> {
    /// Writes the slice from `k` on.
    pub(super) fn put(
        &self,
        b: &mut FunctionBuilder<'_>,
        arena: &mut Arena,
        to: &StagedFactor,
        slice: u32,
        (lane, k): (Index, Index),
        value: Id,
    ) {
        let (factor, placement) = (to.factor, self.mat.placement);
        let depth = if factor.is_a { factor.mat.placement.shape.cols } else { factor.mat.placement.shape.rows };
        let whole = slice == depth;
        let lane_position = LanePosition::of_lane(b, self.mat.placement, lane);
        // Lines of the factor in memory, which those in shared memory go along, or across.
        let along = factor.mat.order;
        let (in_line, lines) = match along {
            MajorOrder::Row => (placement.cols, placement.rows),
            MajorOrder::Column => (placement.rows, placement.cols),
        };
        let deep = if factor.along_memory() { in_line } else { lines };
        let all = |held: u32| Range { first: Index::Const(0), count: held };
        let (mut along_line, mut across) = (all(in_line.per_group), all(lines.per_group));
        // A slice is a multiple of one piece per lane, so it is a range of the elements that each lane holds.
        let stride = deep.groups.saturating_mul(deep.piece);
        let ranged = !whole && !deep.pads() && slice.is_multiple_of(stride);
        if ranged {
            let skipped = b.div(k, stride);
            let first = b.mul(skipped, Index::Const(deep.piece));
            let range = Range { first, count: slice / stride * deep.piece };
            *(if factor.along_memory() { &mut along_line } else { &mut across }) = range;
        }
        let work = along_line.count * across.count;
        let how = if ranged {
            unroll_much(work)
        } else if whole {
            unroll(work)
        } else {
            unroll_much(work)
        };
        let known = matches!((along_line.first, across.first), (Index::Const(_), Index::Const(_)));
        let array = Array::new(b, self.mat, value, !known || how != Unroll::Now);
        // Neighbours that are written together: in a line, where lanes hold them together; across, if lines are turned.
        let run = if factor.packed && !factor.transposed {
            factor.piece.min(whole_pieces(in_line.piece, factor.piece))
        } else {
            1
        };
        let four = factor.transposed && whole_pieces(lines.piece, 4) == 4 && !lines.pads();
        let thick = if four { 4 } else { 1 };
        let at = |i: Index, j: Index| if along == MajorOrder::Row { (i, j) } else { (j, i) };
        let first = lane_position.first(b);
        where_(b, first, &mut |b| {
            b.repeat(across.count / thick, how, &mut |b, line| {
                let line = b.mul(line, Index::Const(thick));
                let line = b.add(line, across.first);
                b.repeat(along_line.count / run, how, &mut |b, n| {
                    let n = b.mul(n, Index::Const(run));
                    let n = b.add(n, along_line.first);
                    let (i, j) = at(line, n);
                    let ElementPosition { row, col, real } = lane_position.place(b, i, j);
                    let (row, col) = (row.emit(b), col.emit(b));
                    let (line_at, place) = if along == MajorOrder::Row { (row, col) } else { (col, row) };
                    let (deep, other) = if factor.along_memory() { (place, line_at) } else { (line_at, place) };
                    let (deep, inside) = if whole {
                        (deep, None)
                    } else {
                        let offset = b.u32_op(Op::ISub, deep, k);
                        let test = (!ranged).then(|| b.compare(Op::ULessThan, offset, Index::Const(slice)));
                        (offset, test)
                    };
                    let (place, line_at) = if factor.along_memory() { (deep, other) } else { (other, deep) };
                    let mine = both(b, real, inside);
                    where_(b, mine, &mut |b| {
                        let mut values = Vec::new();
                        for t in 0..run.max(thick) {
                            let (line, n) = if four {
                                (b.add(line, Index::Const(t)), n)
                            } else {
                                (line, b.add(n, Index::Const(t)))
                            };
                            let (i, j) = at(line, n);
                            let index = placement.index(b, i, j);
                            let value = array.get(b, index);
                            let value = self.how.map_or(value, |how| how.convert(b, value));
                            values.push((self.stage)(b, value));
                        }
                        if four {
                            to.put_transposed(b, arena, line_at, place, &values);
                        } else {
                            to.put(b, arena, line_at, place, &values);
                        }
                    });
                });
            });
        });
    }
}
