//! The rows and columns of a lane's elements, as code: what [`super::placement`] says, computed by the output.

use super::lanes::LaneSource;
use super::linear::Lin;
use super::placement::{AxisSplit, Placement, ThreadGrid};
use coop_ir::Id;
use coop_ir::Op;
use coop_ir::builder::{FunctionBuilder, Index};

/// A lane (or a subgroup, of a placement of tiles) with its row and its column in the thread grid.
#[derive(Clone, Copy)]
pub(crate) struct LanePosition {
    pub(crate) placement: Placement,
    pub(crate) row_group: Index,
    pub(crate) col_group: Index,
}

/// Row and column of an element.
pub(crate) struct At {
    pub(crate) row: Lin,
    pub(crate) col: Lin,
    /// Holds if the element is the matrix's and not a copy in place of padding; `None` where it always is.
    pub(crate) real: Option<Id>,
}

impl LanePosition {
    pub(crate) fn new(
        b: &mut FunctionBuilder<'_>,
        lanes: &mut LaneSource,
        placement: Placement,
        workgroup: bool,
    ) -> LanePosition {
        let lane = lanes.lane(b, workgroup);
        LanePosition::of_lane(b, placement, lane)
    }

    /// The same for a lane that is known already.
    pub(crate) fn of_lane(b: &mut FunctionBuilder<'_>, placement: Placement, lane: Index) -> LanePosition {
        let ThreadGrid { cols, block: (down, right), .. } = placement.grid;
        if right == cols {
            return LanePosition { placement, row_group: b.div(lane, cols), col_group: b.rem(lane, cols) };
        }
        let (block, inside) = (b.div(lane, down * right), b.rem(lane, down * right));
        let place = |b: &mut FunctionBuilder<'_>, block: Index, size: u32, inside: Index| {
            let begin = b.mul(block, Index::Const(size));
            b.add(begin, inside)
        };
        let across = cols / right;
        let (row, col) = if down == placement.grid.rows {
            (Index::Const(0), block)
        } else {
            (b.div(block, across), b.rem(block, across))
        };
        let (row_inside, col_inside) = (b.div(inside, right), b.rem(lane, right));
        let row_group = place(b, row, down, row_inside);
        let col_group = place(b, col, right, col_inside);
        LanePosition { placement, row_group, col_group }
    }

    /// Row and column of the lane's element (`i`, `j`); of padding, those of the last row or column.
    pub(crate) fn place(&self, b: &mut FunctionBuilder<'_>, i: Index, j: Index) -> At {
        let (row, in_rows) = self.placement.rows.position(b, self.row_group, i);
        let (col, in_cols) = self.placement.cols.position(b, self.col_group, j);
        At { row, col, real: both(b, in_rows, in_cols) }
    }

    /// Returns whether the row of the lane's `i`th one exists, where that is not sure.
    pub(crate) fn row(&self, b: &mut FunctionBuilder<'_>, i: Index) -> (Lin, Option<Id>) {
        self.placement.rows.position(b, self.row_group, i)
    }

    /// Returns whether the column of the lane's `j`th one exists, where that is not sure.
    pub(crate) fn col(&self, b: &mut FunctionBuilder<'_>, j: Index) -> (Lin, Option<Id>) {
        self.placement.cols.position(b, self.col_group, j)
    }

    /// Returns whether the lane is the first of those that hold the same elements, where several do.
    pub(crate) fn first(&self, b: &mut FunctionBuilder<'_>) -> Option<Id> {
        let (placement, grid) = (self.placement, self.placement.grid);
        let of = |b: &mut FunctionBuilder<'_>, split: AxisSplit, groups: u32, group: Index| {
            (split.groups != groups).then(|| b.compare(Op::IEqual, group, Index::Const(0)))
        };
        let row = of(b, placement.rows, grid.rows, self.row_group);
        let col = of(b, placement.cols, grid.cols, self.col_group);
        both(b, row, col)
    }
}

/// The conjunction of conditions, of which a missing one always holds.
pub(crate) fn both(b: &mut FunctionBuilder<'_>, one: Option<Id>, other: Option<Id>) -> Option<Id> {
    match (one, other) {
        (Some(one), Some(other)) => {
            let bool_type = b.globals.bool(b.module);
            Some(b.ids(Op::LogicalAnd, bool_type, &[one, other]))
        }
        (one, other) => one.or(other),
    }
}

impl AxisSplit {
    /// The row or column of a group's `i`th one: at least the extent if there is none.
    pub(crate) fn unclamped(self, b: &mut FunctionBuilder<'_>, group: Index, i: Index) -> Lin {
        let group = if self.groups == 1 { Lin::default() } else { Lin::scaled(group, self.piece) };
        let step = self.groups * self.piece;
        if self.piece == self.held {
            group.plus(&Lin::scaled(i, 1))
        } else if self.piece == 1 {
            group.plus(&Lin::scaled(i, step))
        } else {
            let (piece, rest) = (b.div(i, self.piece), b.rem(i, self.piece));
            group.plus(&Lin::scaled(piece, step)).plus(&Lin::scaled(rest, 1))
        }
    }

    /// The row or column of a group's `i`th one, the last if there is none, and what holds if there is one; `None` where
    /// there always is.
    pub(crate) fn position(self, b: &mut FunctionBuilder<'_>, group: Index, i: Index) -> (Lin, Option<Id>) {
        let lin = self.unclamped(b, group, i);
        if !self.pads() {
            return (lin, None);
        }
        let at = lin.emit(b);
        let inside = b.compare(Op::ULessThan, at, Index::Const(self.extent));
        let (ty, at, end) = (b.u32_type(), b.index(at), b.u32(self.extent - 1));
        (Lin::scaled(Index::Value(b.ids(Op::Select, ty, &[inside, at, end])), 1), Some(inside))
    }
}
