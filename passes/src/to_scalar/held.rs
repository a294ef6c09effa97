//! Factors that lanes hold, on their way to shared memory.
//!
//! Each lane writes what it holds of a slice. Where the elements of a slice are a range of those that a lane holds, only
//! these are visited; else all are, and each is tested.

use super::Mat;
use super::array::{Array, unroll, unroll_much};
use super::exchange::Move;
use super::factor::Staged;
use super::spot::{At, Spot, both};
use super::stage::where_;
use crate::matrix::arena::Arena;
use crate::matrix::placement::{Along, whole_pieces};
use coop_ir::Id;
use coop_ir::Op;
use coop_ir::builder::{FunctionBuilder, Index, Unroll};

/// What lanes hold that goes into shared memory.
pub(super) struct Held<'a> {
    /// The matrix that they hold.
    pub(super) mat: Mat,
    /// How it becomes the factor, if it is another one.
    pub(super) how: Option<&'a Move>,
    /// What goes into shared memory for an element of the factor.
    pub(super) stage: &'a dyn Fn(&mut FunctionBuilder<'_>, Id) -> Id,
}

/// The part of a lane's elements along a direction that is visited: from the first on, so many.
#[derive(Clone, Copy)]
struct Range {
    first: Index,
    count: u32,
}

impl Held<'_> {
    /// Writes the slice from `k` on.
    pub(super) fn put(
        &self,
        b: &mut FunctionBuilder<'_>,
        arena: &mut Arena,
        to: &Staged,
        slice: u32,
        (lane, k): (Index, Index),
        value: Id,
    ) {
        let (factor, band) = (to.factor, self.mat.band);
        let depth = if factor.is_a { factor.mat.band.shape.cols } else { factor.mat.band.shape.rows };
        let whole = slice == depth;
        let spot = Spot::of_lane(b, self.mat, lane);
        // Lines of the factor in memory, which those in shared memory go along, or across.
        let along = factor.mat.along;
        let (in_line, lines) = match along {
            Along::Row => (band.cols, band.rows),
            Along::Column => (band.rows, band.cols),
        };
        let deep = if factor.along_memory() { in_line } else { lines };
        let all = |held: u32| Range { first: Index::Const(0), count: held };
        let (mut along_line, mut across) = (all(in_line.held), all(lines.held));
        // A slice is a number of rounds in which all lanes get a piece, so a range of what each holds.
        let round = deep.groups.saturating_mul(deep.piece);
        let ranged = !whole && !deep.pads() && slice.is_multiple_of(round);
        if ranged {
            let skipped = b.div(k, round);
            let first = b.mul(skipped, Index::Const(deep.piece));
            let range = Range { first, count: slice / round * deep.piece };
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
        let run = if factor.packed && !factor.turned {
            factor.piece.min(whole_pieces(in_line.piece, factor.piece))
        } else {
            1
        };
        let four = factor.turned && whole_pieces(lines.piece, 4) == 4 && !lines.pads();
        let thick = if four { 4 } else { 1 };
        let at = |i: Index, j: Index| if along == Along::Row { (i, j) } else { (j, i) };
        let first = spot.first(b);
        where_(b, first, &mut |b| {
            b.repeat(across.count / thick, how, &mut |b, line| {
                let line = b.mul(line, Index::Const(thick));
                let line = b.add(line, across.first);
                b.repeat(along_line.count / run, how, &mut |b, n| {
                    let n = b.mul(n, Index::Const(run));
                    let n = b.add(n, along_line.first);
                    let (i, j) = at(line, n);
                    let At { row, col, real } = spot.place(b, i, j);
                    let (row, col) = (row.emit(b), col.emit(b));
                    let (line_at, place) = if along == Along::Row { (row, col) } else { (col, row) };
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
                            let row = b.mul(i, Index::Const(band.cols.held));
                            let index = b.add(row, j);
                            let value = array.get(b, index);
                            let value = self.how.map_or(value, |how| how.convert(b, value));
                            values.push((self.stage)(b, value));
                        }
                        if four {
                            to.put_across(b, arena, line_at, place, &values);
                        } else {
                            to.put(b, arena, line_at, place, &values);
                        }
                    });
                });
            });
        });
    }
}
