//! Generates the code that computes the rows and columns of a lane's elements, as [`super::placement`] defines them.

use super::affine::Affine;
use super::lanes::LaneSource;
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
pub(crate) struct ElementPosition {
    pub(crate) row: Affine,
    pub(crate) col: Affine,
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
    pub(crate) fn place(&self, b: &mut FunctionBuilder<'_>, i: Index, j: Index) -> ElementPosition {
        let (row, in_rows) = self.placement.rows.position(b, self.row_group, i);
        let (col, in_cols) = self.placement.cols.position(b, self.col_group, j);
        ElementPosition { row, col, real: both(b, in_rows, in_cols) }
    }

    /// Returns whether the row of the lane's `i`th one exists, where that is not sure.
    pub(crate) fn row(&self, b: &mut FunctionBuilder<'_>, i: Index) -> (Affine, Option<Id>) {
        self.placement.rows.position(b, self.row_group, i)
    }

    /// Returns whether the column of the lane's `j`th one exists, where that is not sure.
    pub(crate) fn col(&self, b: &mut FunctionBuilder<'_>, j: Index) -> (Affine, Option<Id>) {
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

impl Placement {
    /// The index of the element in row `i` and column `j` of a fragment.
    pub(crate) fn index(self, b: &mut FunctionBuilder<'_>, i: Index, j: Index) -> Index {
        let line = b.mul(i, Index::Const(self.cols.per_group));
        b.add(line, j)
    }

    /// The row and the column, in the fragment, of the element at an index.
    pub(crate) fn row_and_column(self, b: &mut FunctionBuilder<'_>, index: Index) -> (Index, Index) {
        (b.div(index, self.cols.per_group), b.rem(index, self.cols.per_group))
    }
}

impl AxisSplit {
    /// The row or column of a group's `i`th one: at least the extent if there is none.
    pub(crate) fn unclamped(self, b: &mut FunctionBuilder<'_>, group: Index, i: Index) -> Affine {
        let group = if self.groups == 1 { Affine::default() } else { Affine::scaled(group, self.piece) };
        let step = self.groups * self.piece;
        if self.piece == self.per_group {
            group.plus(&Affine::scaled(i, 1))
        } else if self.piece == 1 {
            group.plus(&Affine::scaled(i, step))
        } else {
            let (piece, rest) = (b.div(i, self.piece), b.rem(i, self.piece));
            group.plus(&Affine::scaled(piece, step)).plus(&Affine::scaled(rest, 1))
        }
    }

    /// The row or column of a group's `i`th one, the last if there is none, and what holds if there is one; `None` where
    /// there always is.
    pub(crate) fn position(self, b: &mut FunctionBuilder<'_>, group: Index, i: Index) -> (Affine, Option<Id>) {
        let lin = self.unclamped(b, group, i);
        if !self.pads() {
            return (lin, None);
        }
        let at = lin.emit(b);
        let inside = b.compare(Op::ULessThan, at, Index::Const(self.extent));
        let (ty, at, end) = (b.u32_type(), b.index(at), b.u32(self.extent - 1));
        (Affine::scaled(Index::Value(b.ids(Op::Select, ty, &[inside, at, end])), 1), Some(inside))
    }
}

#[cfg(test)]
mod tests {
    use super::super::placement::{MajorOrder, Shape, ThreadGrid, Use, coalesced_within, tile};
    use super::*;
    use coop_ir::builder::Globals;
    use coop_ir::text;

    fn placements() -> Vec<Placement> {
        let mut out = Vec::new();
        let shapes = [(16, 16), (16, 8), (5, 7), (64, 33), (1, 100)];
        for (rows, cols) in shapes {
            for use_ in [Use::A, Use::B, Use::Accumulator] {
                let shape = Shape { rows, cols, use_ };
                for lanes in [1, 6, 32, 64] {
                    out.extend(
                        (1..=lanes).filter(|r| lanes % r == 0).map(|r| ThreadGrid::new(r, lanes / r).placement(shape)),
                    );
                    for piece in [1, 2, 4] {
                        out.push(tile(lanes, shape, (1, piece), piece == 2));
                        for order in [MajorOrder::Row, MajorOrder::Column] {
                            out.push(coalesced_within(lanes, shape, order, piece, 16));
                        }
                    }
                }
            }
        }
        out
    }

    /// For a constant lane and index, the code folds to the position that [`super::super::placement`] computes.
    #[test]
    fn code_of_known_positions_is_the_placement() {
        let mut m = text::parse("OpCapability Shader\nOpMemoryModel Logical GLSL450").expect("it is text");
        let mut g = Globals::new(&m);
        let void = g.void(&mut m);
        let mut f = FunctionBuilder::new(&mut m, &mut g, "positions", void, &[]);
        let b = &mut f;
        let placements = placements();
        assert!(placements.len() > 500, "{}", placements.len());
        for placement in placements {
            let Placement { grid, rows, cols, .. } = placement;
            for lane in 0..grid.lanes() {
                let at = LanePosition::of_lane(b, placement, Index::Const(lane));
                let (grid_row, grid_col) = grid.position(lane);
                assert_eq!(
                    (at.row_group, at.col_group),
                    (Index::Const(grid_row), Index::Const(grid_col)),
                    "{placement:?}"
                );
                for index in 0..placement.len() {
                    let (i, j) = placement.row_and_column(b, Index::Const(index));
                    assert_eq!(placement.index(b, i, j), Index::Const(index), "{placement:?}");
                    for (split, group, code, n) in
                        [(rows, grid_row, at.row_group, i), (cols, grid_col, at.col_group, j)]
                    {
                        let Index::Const(number) = n else { panic!("{n:?} is not folded") };
                        let place = split.place(if split.groups == 1 { 0 } else { group }, number);
                        assert_eq!(split.unclamped(b, code, n).known(), Some(place), "{placement:?}");
                        // What does not pad needs no test.
                        assert!(split.pads() || place < split.extent, "{placement:?}");
                        assert_eq!(split.pads(), split.per_group * split.groups != split.extent);
                    }
                }
            }
        }
    }

    /// Positions in equal fragments are equal: element-wise operations move nothing.
    #[test]
    fn matrices_of_a_shape_that_are_held_once_have_equal_positions() {
        for lanes in [4, 32] {
            for grid in (1..=lanes).filter(|r| lanes % r == 0).map(|r| ThreadGrid::new(r, lanes / r)) {
                let of = |use_| {
                    grid.blocked(super::super::placement::BlockedMatrix {
                        shape: Shape { rows: 16, cols: 16, use_ },
                        once: true,
                    })
                };
                let [a, b, c] = [Use::A, Use::B, Use::Accumulator].map(of);
                assert_eq!((a.rows, a.cols), (c.rows, c.cols));
                assert_eq!((b.rows, b.cols), (c.rows, c.cols));
                assert_eq!((a.copies(), a.groups()), (c.copies(), c.groups()));
            }
        }
    }
}
