//! Which row and column a lane's elements have, as code.

use super::Mat;
use crate::matrix::lanes::LaneSource;
use crate::matrix::linear::Lin;
use crate::matrix::placement::{Cut, Grid};
use coop_ir::Id;
use coop_ir::Op;
use coop_ir::builder::{FunctionBuilder, Index};

/// A lane and the part of a matrix that it holds.
#[derive(Clone, Copy)]
pub(super) struct Spot {
    pub(super) mat: Mat,
    pub(super) row_group: Index,
    pub(super) col_group: Index,
}

/// Where an element is.
pub(super) struct At {
    pub(super) row: Lin,
    pub(super) col: Lin,
    /// Whether the element is the matrix's and not a copy in place of padding, where that is not sure.
    pub(super) real: Option<Id>,
}

impl Spot {
    pub(super) fn new(b: &mut FunctionBuilder<'_>, lanes: &mut LaneSource, mat: Mat) -> Spot {
        let lane = lanes.lane(b, mat.workgroup);
        Spot::of_lane(b, mat, lane)
    }

    /// The same for a lane that is known already.
    pub(super) fn of_lane(b: &mut FunctionBuilder<'_>, mat: Mat, lane: Index) -> Spot {
        let Grid { cols, block: (down, right), .. } = mat.grid;
        if right == cols {
            return Spot { mat, row_group: b.div(lane, cols), col_group: b.rem(lane, cols) };
        }
        let (block, inside) = (b.div(lane, down * right), b.rem(lane, down * right));
        let place = |b: &mut FunctionBuilder<'_>, block: Index, size: u32, inside: Index| {
            let begin = b.mul(block, Index::Const(size));
            b.add(begin, inside)
        };
        let across = cols / right;
        let (row, col) =
            if down == mat.grid.rows { (Index::Const(0), block) } else { (b.div(block, across), b.rem(block, across)) };
        let (row_inside, col_inside) = (b.div(inside, right), b.rem(lane, right));
        let row_group = place(b, row, down, row_inside);
        let col_group = place(b, col, right, col_inside);
        Spot { mat, row_group, col_group }
    }

    /// Row and column of the lane's element (`i`, `j`); of padding, those of the last row or column.
    pub(super) fn place(&self, b: &mut FunctionBuilder<'_>, i: Index, j: Index) -> At {
        let (row, in_rows) = along(b, self.mat.band.rows, self.row_group, i);
        let (col, in_cols) = along(b, self.mat.band.cols, self.col_group, j);
        At { row, col, real: both(b, in_rows, in_cols) }
    }

    /// Returns whether the row of the lane's `i`th one exists, where that is not sure.
    pub(super) fn row(&self, b: &mut FunctionBuilder<'_>, i: Index) -> (Lin, Option<Id>) {
        along(b, self.mat.band.rows, self.row_group, i)
    }

    /// Returns whether the column of the lane's `j`th one exists, where that is not sure.
    pub(super) fn col(&self, b: &mut FunctionBuilder<'_>, j: Index) -> (Lin, Option<Id>) {
        along(b, self.mat.band.cols, self.col_group, j)
    }

    /// Returns whether the lane is the first of those that hold the same elements, where several do.
    pub(super) fn first(&self, b: &mut FunctionBuilder<'_>) -> Option<Id> {
        let (band, grid) = (self.mat.band, self.mat.grid);
        let of = |b: &mut FunctionBuilder<'_>, cut: Cut, groups: u32, group: Index| {
            (cut.groups != groups).then(|| b.compare(Op::IEqual, group, Index::Const(0)))
        };
        let row = of(b, band.rows, grid.rows, self.row_group);
        let col = of(b, band.cols, grid.cols, self.col_group);
        both(b, row, col)
    }
}

/// The conjunction of conditions, of which a missing one always holds.
pub(super) fn both(b: &mut FunctionBuilder<'_>, one: Option<Id>, other: Option<Id>) -> Option<Id> {
    match (one, other) {
        (Some(one), Some(other)) => {
            let bool_type = b.globals.bool(b.module);
            Some(b.ids(Op::LogicalAnd, bool_type, &[one, other]))
        }
        (one, other) => one.or(other),
    }
}

fn along(b: &mut FunctionBuilder<'_>, cut: Cut, group: Index, i: Index) -> (Lin, Option<Id>) {
    let group = if cut.groups == 1 { Lin::default() } else { Lin::scaled(group, cut.piece) };
    let step = cut.groups * cut.piece;
    let lin = if cut.piece == cut.held {
        group.plus(&Lin::scaled(i, 1))
    } else if cut.piece == 1 {
        group.plus(&Lin::scaled(i, step))
    } else {
        let (piece, rest) = (b.div(i, cut.piece), b.rem(i, cut.piece));
        group.plus(&Lin::scaled(piece, step)).plus(&Lin::scaled(rest, 1))
    };
    if !cut.pads() {
        return (lin, None);
    }
    let at = lin.emit(b);
    let inside = b.compare(Op::ULessThan, at, Index::Const(cut.extent));
    let (ty, at, end) = (b.u32_type(), b.index(at), b.u32(cut.extent - 1));
    (Lin::scaled(Index::Value(b.ids(Op::Select, ty, &[inside, at, end])), 1), Some(inside))
}
