//! The invocations that hold each element of a matrix: the maps between (lane, index) and (row, column).
//!
//! The lanes of a scope (a subgroup, or a workgroup) are arranged as a grid of `rows` x `cols`, and a matrix is split by
//! the grid's rows and columns. There are three distributions:
//!
//! - *Blocks* ([`ThreadGrid::placement`]), one grid for all matrices of a scope: an accumulator is split in both directions, an A
//!   matrix by rows only, a B matrix by columns only, so that the lanes of one grid row (column) hold the same
//!   elements. The lane that holds a tile of C then holds the rows of A and the columns of B that the tile needs, and
//!   MulAdd communicates nothing. This suits matrices of which a lane's part of A and B is small. Factors whose elements a module accesses one by one are
//!   split in both directions too, as an accumulator of their shape is ([`ThreadGrid::blocked`]): each element is held once, and matrices of one
//!   shape hold the same positions, as on devices. MulAdd then exchanges them first.
//! - *Tiles* ([`tile`]) for accumulators and *coalesced* placements ([`coalesced`]) for factors, a grid for each shape: nothing is held
//!   twice, and MulAdd goes through shared memory.
//!
//! # Invariants
//!
//! 1. Every element is held by at least one lane.
//! 2. An element of a tile or a coalesced placement whose extents the grid divides is held by exactly one lane; so is one of an
//!    accumulator in blocks, and one of a factor in blocks that is to be held once.
//! 3. All lanes hold the same number of elements ([`Placement::len`]), and index `i` is valid in each of them.
//! 4. Where the grid does not divide an extent, some lanes hold copies of the last row or column, never
//!    elements that don't exist: an element-wise loop sees only values of the matrix.
//! 5. Exactly one lane is the owner of an element: the one that stores it.
//! 6. The row of (lane, index) depends on the lane's grid row alone, the column on its grid column alone.

/// The use of a matrix.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub(crate) enum Use {
    /// The left factor.
    A,
    /// The right factor.
    B,
    /// The summand and the result.
    Accumulator,
}

impl Use {
    /// From the value of a Cooperative Matrix Use.
    pub(crate) fn from_value(value: u64) -> Option<Use> {
        [Use::A, Use::B, Use::Accumulator].get(usize::try_from(value).ok()?).copied()
    }
}

/// The extents and the use of a matrix.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub(crate) struct Shape {
    /// Rows.
    pub(crate) rows: u32,
    /// Columns.
    pub(crate) cols: u32,
    /// Use.
    pub(crate) use_: Use,
}

/// A matrix whose fragments are blocks.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct BlockedMatrix {
    /// The matrix.
    pub(crate) shape: Shape,
    /// True if no element is held by several lanes, whatever the use.
    pub(crate) once: bool,
}

impl From<Shape> for BlockedMatrix {
    fn from(shape: Shape) -> BlockedMatrix {
        BlockedMatrix { shape, once: false }
    }
}

/// Lanes that run together, on most devices.
const BLOCK_LANES: u32 = 32;

/// The arrangement of the lanes of a scope.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct ThreadGrid {
    /// Groups of lanes among which rows are divided.
    pub(crate) rows: u32,
    /// Groups of lanes among which columns are divided.
    pub(crate) cols: u32,
    /// Rows and columns of the blocks in which consecutive lanes stand: the lanes of a block row by row, blocks likewise.
    pub(crate) block: (u32, u32),
}

/// Lanes in an aligned range.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct LaneRange {
    /// The number of lanes.
    pub(crate) count: u32,
    /// The distance of neighbors.
    pub(crate) step: u32,
}

/// The division of an extent among groups of lanes: pieces of adjacent rows or columns, distributed block-cyclically.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct AxisSplit {
    /// Rows or columns of the matrix.
    pub(crate) extent: u32,
    /// Groups of lanes: the grid's, or 1 where every group holds the whole extent.
    pub(crate) groups: u32,
    /// Rows or columns that a lane holds; a multiple of `piece`.
    pub(crate) per_group: u32,
    /// Neighbours that stay together; `per_group` where a lane holds consecutive ones only.
    pub(crate) piece: u32,
}

/// The map between (lane, index) and (row, column) of a matrix. The part that one lane holds is its *fragment*. Rows and
/// columns are those of elements, or of tiles where subgroups hold whole tiles.
///
/// The row of an element depends on `rows`, the lane's row in the grid and the row in the fragment alone, and the column
/// likewise: an operation along one axis asks the [`AxisSplit`] of that axis. Matrices of equal placements hold equal
/// positions at equal indices, so that element-wise operations on them move nothing. The other invariants are at the
/// top of this file; [`super::position`] has the same map as code.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Placement {
    /// The matrix.
    pub(crate) shape: Shape,
    /// The arrangement of the lanes.
    pub(crate) grid: ThreadGrid,
    /// The division of the rows.
    pub(crate) rows: AxisSplit,
    /// The division of the columns.
    pub(crate) cols: AxisSplit,
}

impl AxisSplit {
    /// Consecutive ones for each group.
    pub(crate) fn blocks(extent: u32, groups: u32) -> AxisSplit {
        let per_group = extent.div_ceil(groups).max(1);
        AxisSplit { extent, groups, per_group, piece: per_group }
    }

    /// Pieces of each group in cyclic order: a block-cyclic distribution.
    pub(crate) fn block_cyclic(extent: u32, groups: u32, piece: u32) -> AxisSplit {
        let per_group = extent.div_ceil(groups.saturating_mul(piece)).max(1) * piece;
        AxisSplit { extent, groups, per_group, piece }
    }

    /// Returns true if some groups hold copies of the last row or column in place of ones that don't exist.
    pub(crate) fn pads(self) -> bool {
        self.per_group.saturating_mul(self.groups) != self.extent
    }

    /// The row or column of a group's `i`th one; at least `extent` if there is none.
    #[cfg(test)]
    pub(crate) fn place(self, group: u32, i: u32) -> u32 {
        (i / self.piece * self.groups + group) * self.piece + i % self.piece
    }
}

impl ThreadGrid {
    /// A grid in which consecutive lanes stand beside each other.
    pub(crate) fn new(rows: u32, cols: u32) -> ThreadGrid {
        ThreadGrid { rows, cols, block: (1, cols) }
    }

    /// A grid in which consecutive lanes stand below each other.
    pub(crate) fn down(rows: u32, cols: u32) -> ThreadGrid {
        ThreadGrid { rows, cols, block: (rows, 1) }
    }

    /// The same grid, with neighbours in blocks of about 4 x 8 where there are so many: those that run together then
    /// need few different rows and columns.
    fn in_blocks(self) -> ThreadGrid {
        let cols = [8, 4, 2].into_iter().find(|c| self.cols.is_multiple_of(*c)).unwrap_or(1);
        let rows = (1..=BLOCK_LANES / cols).rev().find(|r| self.rows.is_multiple_of(*r)).unwrap_or(1);
        if rows * cols < BLOCK_LANES / 2 { self } else { ThreadGrid { block: (rows, cols), ..self } }
    }

    /// The same with whole rows in a block, where they are not longer than that.
    fn in_rows(self) -> ThreadGrid {
        let rows = BLOCK_LANES.checked_div(self.cols).unwrap_or(0);
        let fits = rows > 0 && self.cols.is_power_of_two() && self.rows.is_multiple_of(rows);
        if fits { ThreadGrid { block: (rows, self.cols), ..self } } else { self.in_blocks() }
    }

    /// The lanes that hold a row (or else a column): `count` of them, a power of two, `step` apart, in an
    /// aligned range of `count * step` lanes. `None` where they stand otherwise.
    pub(crate) fn line(self, by_row: bool) -> Option<LaneRange> {
        let (down, right) = self.block;
        let (count, step, whole) =
            if by_row { (self.cols, 1, right == self.cols) } else { (self.rows, right, down == self.rows) };
        (whole && step.is_power_of_two() && count.is_power_of_two()).then_some(LaneRange { count, step })
    }

    /// The row and the column of a lane.
    #[cfg(test)]
    pub(crate) fn position(self, lane: u32) -> (u32, u32) {
        let (rows, cols) = self.block;
        let (block, inside) = (lane / (rows * cols), lane % (rows * cols));
        let across = self.cols / cols;
        (block / across * rows + inside / cols, block % across * cols + inside % cols)
    }

    /// The number of lanes.
    pub(crate) fn lanes(self) -> u32 {
        self.rows * self.cols
    }

    /// The placement of a matrix in blocks, split in both directions where each element is held once.
    pub(crate) fn blocked(self, holding: BlockedMatrix) -> Placement {
        let BlockedMatrix { shape, once } = holding;
        let split_as = if once { Shape { use_: Use::Accumulator, ..shape } } else { shape };
        Placement { shape, ..self.placement(split_as) }
    }

    /// The placement of a matrix in blocks.
    pub(crate) fn placement(self, shape: Shape) -> Placement {
        let (row_groups, col_groups) = match shape.use_ {
            Use::A => (self.rows, 1),
            Use::B => (1, self.cols),
            Use::Accumulator => (self.rows, self.cols),
        };
        let (rows, cols) = (AxisSplit::blocks(shape.rows, row_groups), AxisSplit::blocks(shape.cols, col_groups));
        Placement { shape, grid: self, rows, cols }
    }
}

impl Placement {
    /// The number of elements that each lane holds; at least 1.
    #[allow(clippy::len_without_is_empty, reason = "no lane holds nothing")]
    pub(crate) fn len(self) -> u32 {
        self.rows.per_group.saturating_mul(self.cols.per_group)
    }

    /// Returns true if some element is held by several lanes of the grid.
    pub(crate) fn copies(self) -> bool {
        let ThreadGrid { rows, cols, .. } = self.grid;
        self.pads() || self.rows.groups != rows || self.cols.groups != cols
    }

    /// Returns true if some lanes hold copies of the last row or column in place of ones that do not exist.
    pub(crate) fn pads(self) -> bool {
        self.rows.pads() || self.cols.pads()
    }

    /// The numbers of groups of lanes among which rows and columns are divided.
    pub(crate) fn groups(self) -> (u32, u32) {
        (self.rows.groups, self.cols.groups)
    }
}

/// The direction in which the neighbours of a matrix lie together in memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum MajorOrder {
    /// Neighbours in a row.
    Row,
    /// Neighbours in a column.
    Column,
}

/// A factor divided among all lanes without copies: consecutive lanes hold consecutive pieces of `piece` elements
/// along a line, then the next lines, so that reading it reads memory in order.
pub(crate) fn coalesced(lanes: u32, shape: Shape, order: MajorOrder, piece: u32) -> Placement {
    coalesced_within(lanes, shape, order, piece, u32::MAX)
}

/// The same, with about `span` neighbours along a line divided before a lane holds the next ones too: every lane then
/// holds a part of any so many of them. More are divided where lanes would be idle else.
pub(crate) fn coalesced_within(lanes: u32, shape: Shape, order: MajorOrder, piece: u32, span: u32) -> Placement {
    let (length, lines) = match order {
        MajorOrder::Row => (shape.cols, shape.rows),
        MajorOrder::Column => (shape.rows, shape.cols),
    };
    // A workgroup without invocations never runs; its module is lowered all the same.
    let lanes = lanes.max(1);
    let piece = whole_pieces(length, piece);
    let pieces = length / piece;
    let most = (1..=lanes.min(pieces)).rev().find(|g| lanes.is_multiple_of(*g)).unwrap_or(1);
    // Of fewer groups along a line none may be idle, or there are copies.
    let along_groups = (1..=most).rev().find(|g| lanes.is_multiple_of(*g) && pieces.is_multiple_of(*g)).unwrap_or(1);
    let along_groups = if along_groups * 4 < most { most } else { along_groups };
    let along_groups = if span == u32::MAX {
        along_groups
    } else {
        // The fewest that leave no lane without a line of its own, or as many as the span has.
        let divides = |g: &u32| lanes.is_multiple_of(*g) && pieces.is_multiple_of(*g);
        let least = (1..=most).filter(divides).find(|g| lanes / g <= lines).unwrap_or(along_groups);
        (least..=(span / piece).min(most)).rev().find(divides).unwrap_or(least)
    };
    let line_groups = lanes / along_groups;
    let (in_line, lines) =
        (AxisSplit::block_cyclic(length, along_groups, piece), AxisSplit::block_cyclic(lines, line_groups, 1));
    match order {
        MajorOrder::Row => {
            Placement { shape, grid: ThreadGrid::new(line_groups, along_groups), rows: lines, cols: in_line }
        }
        MajorOrder::Column => {
            Placement { shape, grid: ThreadGrid::down(along_groups, line_groups), rows: in_line, cols: lines }
        }
    }
}

/// The largest number of neighbours, a power of two up to `piece`, of which a line has a whole number.
pub(crate) fn whole_pieces(length: u32, piece: u32) -> u32 {
    1 << length.trailing_zeros().min(piece.max(1).ilog2())
}

/// An accumulator divided among all lanes in both directions, so that a lane multiplies a tile that is as square as
/// can be. Rows and columns are distributed in pieces of these sizes: adjacent lanes then read adjacent elements of
/// shared memory. With `by_rows`, the lanes of a row stand one after the other where that costs nothing else.
pub(crate) fn tile(lanes: u32, shape: Shape, (row_piece, col_piece): (u32, u32), by_rows: bool) -> Placement {
    let lanes = lanes.max(1);
    let of = |rows: u32| {
        let grid = ThreadGrid::new(rows, lanes / rows);
        let grid = if by_rows { grid.in_rows() } else { grid.in_blocks() };
        let split = |extent: u32, groups: u32, piece: u32| {
            let fits = |p: &u32| extent.is_multiple_of(groups.saturating_mul(*p));
            let piece = [piece, piece / 2, piece / 4, 1].into_iter().find(|p| *p > 0 && fits(p)).unwrap_or(1);
            AxisSplit::block_cyclic(extent, groups, piece)
        };
        let (rows, cols) = (split(shape.rows, grid.rows, row_piece), split(shape.cols, grid.cols, col_piece));
        Placement { shape, grid, rows, cols }
    };
    let cost = |placement: &Placement| {
        let (grid, rows, cols) = (placement.grid, placement.rows.per_group, placement.cols.per_group);
        let apart = by_rows && grid.block.1 != grid.cols;
        // Multiplications, then reads from shared memory; whole vectors; then the squarest grid.
        (rows.saturating_mul(cols), rows + cols, apart, !cols.is_multiple_of(4), grid.rows.abs_diff(grid.cols))
    };
    // Divisors in order; those above the root go with those below.
    let root = lanes.isqrt();
    let small: Vec<u32> = (1..=root).filter(|r| lanes.is_multiple_of(*r)).collect();
    let large = small.iter().rev().map(|r| lanes / r).filter(|r| *r > root);
    small.iter().copied().chain(large).map(of).min_by_key(cost).unwrap_or_else(|| of(1))
}

/// A store that writes several neighbouring elements at once, because memory is declared in larger units.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Run {
    /// The matrix.
    pub(crate) shape: Shape,
    /// True if neighbours in memory are neighbours in a row (else in a column).
    pub(crate) along_row: bool,
    /// The number of elements written at once.
    pub(crate) len: u32,
}

impl Run {
    /// Returns true if a lane holds whole runs.
    pub(crate) fn fits(self, placement: Placement) -> bool {
        let split = if self.along_row { placement.cols } else { placement.rows };
        split.piece.is_multiple_of(self.len) && split.extent.is_multiple_of(self.len)
    }
}

/// The grid of `lanes` lanes for these matrices that holds the fewest elements and copies, among those in which what is to be held
/// once is and every run fits; if there is none, the best of all grids.
pub(crate) fn choose<H: Copy + Into<BlockedMatrix>>(lanes: u32, matrices: &[H], runs: &[Run]) -> ThreadGrid {
    let lanes = lanes.max(1);
    let grids = (1..=lanes).filter(|r| lanes.is_multiple_of(*r)).map(|rows| ThreadGrid::new(rows, lanes / rows));
    let cost = |grid: &ThreadGrid| -> (usize, usize, u64, u32) {
        let unfit = runs.iter().filter(|r| !r.fits(grid.placement(r.shape))).count();
        let placement = |h: BlockedMatrix| grid.blocked(h);
        let wanted = || matrices.iter().map(|h| (*h).into());
        let twice = wanted().filter(|h| h.once).map(placement).filter(|p| p.pads()).count();
        let sum: u64 = wanted()
            .map(|h| {
                let placement = placement(h);
                // A copy costs a bounds test at each access, which weighs more than holding a few elements.
                let copies = if placement.pads() { 4 } else { 1 };
                u64::from(placement.len()) * copies
            })
            .sum();
        // Of equals, the one with more grid rows: neighbours in a row are then held together, and row-major memory
        // is read in longer pieces.
        (twice, unfit, sum, u32::MAX - grid.rows)
    };
    grids.min_by_key(cost).unwrap_or(ThreadGrid::new(lanes, 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The element at (lane, index), and whether the lane owns it; by the text at the top, not by the code.
    fn position(placement: Placement, lane: u32, index: u32) -> (u32, u32, bool) {
        let Placement { grid, rows, cols, .. } = placement;
        let (grid_row, grid_col) = grid.position(lane);
        let along = |split: AxisSplit, groups: u32, group: u32, i: u32| {
            let place = split.place(if split.groups == 1 { 0 } else { group }, i);
            let owner = place < split.extent && (split.groups == groups || group == 0);
            (place.min(split.extent - 1), owner)
        };
        let (row, row_owner) = along(rows, grid.rows, grid_row, index / cols.per_group);
        let (col, col_owner) = along(cols, grid.cols, grid_col, index % cols.per_group);
        (row, col, row_owner && col_owner)
    }

    fn shapes() -> impl Iterator<Item = Shape> {
        let uses = [Use::A, Use::B, Use::Accumulator];
        (1..=17).flat_map(move |rows| {
            (1..=17).flat_map(move |cols| uses.into_iter().map(move |use_| Shape { rows, cols, use_ }))
        })
    }

    #[test]
    fn every_element_has_one_owner_for_every_shape_use_and_grid() {
        for lanes in [1, 2, 4, 6, 8, 16, 32, 64] {
            for grid in (1..=lanes).filter(|r| lanes % r == 0).map(|rows| ThreadGrid::new(rows, lanes / rows)) {
                for shape in shapes() {
                    check(grid.placement(shape));
                }
            }
        }
    }

    #[test]
    fn every_element_has_one_owner_in_tiles_and_coalesced_placements() {
        let large = [(128, 64), (64, 256), (48, 20), (64, 33), (1, 100)];
        let large = large.into_iter().map(|(rows, cols)| Shape { rows, cols, use_: Use::A });
        for shape in shapes().filter(|s| s.use_ == Use::A).chain(large) {
            for lanes in [1, 6, 32, 96, 128] {
                for piece in [1, 2, 4, 8] {
                    for order in [MajorOrder::Row, MajorOrder::Column] {
                        for span in [u32::MAX, 16] {
                            let placement = coalesced_within(lanes, shape, order, piece, span);
                            assert_eq!(placement.grid.lanes(), lanes, "{shape:?}");
                            check(placement);
                        }
                    }
                    let placement = tile(lanes, shape, (1, piece), piece == 2);
                    assert_eq!(placement.grid.lanes(), lanes, "{shape:?}");
                    check(placement);
                }
            }
        }
    }

    fn check(placement: Placement) {
        let (shape, grid) = (placement.shape, placement.grid);
        let mut held = vec![0; (shape.rows * shape.cols) as usize];
        let mut owned = held.clone();
        for lane in 0..grid.lanes() {
            for index in 0..placement.len() {
                let (row, col, owner) = position(placement, lane, index);
                held[(row * shape.cols + col) as usize] += 1;
                owned[(row * shape.cols + col) as usize] += u32::from(owner);
            }
        }
        assert!(held.iter().all(|h| *h > 0), "{placement:?}: an element is lost");
        assert!(owned.iter().all(|o| *o == 1), "{placement:?}: not one owner each");
        if !placement.copies() {
            assert!(held.iter().all(|h| *h == 1), "{placement:?}: copies");
        }
    }

    #[test]
    fn every_place_of_a_grid_has_one_lane() {
        for rows in 1..=40 {
            for cols in 1..=40 {
                for grid in
                    [ThreadGrid::new(rows, cols), ThreadGrid::down(rows, cols), ThreadGrid::new(rows, cols).in_blocks()]
                {
                    let mut places: Vec<(u32, u32)> = (0..grid.lanes()).map(|lane| grid.position(lane)).collect();
                    places.sort_unstable();
                    let all = (0..rows).flat_map(|r| (0..cols).map(move |c| (r, c)));
                    assert!(places.into_iter().eq(all), "{grid:?}");
                }
            }
        }
        assert_eq!(ThreadGrid::new(16, 16).in_blocks().position(40), (1, 8));
    }

    #[test]
    fn the_lanes_of_a_line_are_found_by_their_bits() {
        for grid in [ThreadGrid::new(16, 8), ThreadGrid::new(16, 16), ThreadGrid::new(4, 8), ThreadGrid::down(8, 4)] {
            for grid in [grid, grid.in_blocks(), grid.in_rows()] {
                for by_row in [true, false] {
                    let Some(LaneRange { count, step }) = grid.line(by_row) else { continue };
                    for lane in 0..grid.lanes() {
                        let of = |lane: u32| {
                            let (row, col) = grid.position(lane);
                            if by_row { row } else { col }
                        };
                        let line = (0..count).map(|n| lane ^ (n * step));
                        assert!(line.into_iter().all(|other| of(other) == of(lane)), "{grid:?} {lane}");
                    }
                }
            }
        }
        assert_eq!(ThreadGrid::new(16, 8).in_blocks().line(true), Some(LaneRange { count: 8, step: 1 }));
        assert_eq!(ThreadGrid::new(16, 16).in_rows().line(true), Some(LaneRange { count: 16, step: 1 }));
        assert_eq!(ThreadGrid::new(16, 16).in_blocks().line(true), None);
    }

    #[test]
    fn usual_shapes_need_no_copies() {
        for (lanes, m, n, k) in [(32, 16, 16, 16), (8, 8, 8, 8), (32, 16, 8, 16), (64, 16, 16, 16), (8, 16, 16, 16)] {
            let shapes = [
                Shape { rows: m, cols: k, use_: Use::A },
                Shape { rows: k, cols: n, use_: Use::B },
                Shape { rows: m, cols: n, use_: Use::Accumulator },
            ];
            let grid = choose(lanes, &shapes, &[]);
            assert!(shapes.iter().all(|s| !grid.placement(*s).pads()), "{grid:?}");
        }
        for (lanes, rows, cols) in [(256, 128, 256), (256, 128, 64), (128, 64, 64), (128, 64, 256)] {
            let shape = Shape { rows, cols, use_: Use::Accumulator };
            let placement = tile(lanes, shape, (1, 1), false);
            assert!(!placement.copies(), "{placement:?}");
            let (rows, cols) = (placement.rows.per_group, placement.cols.per_group);
            assert!(rows.max(cols) <= 2 * rows.min(cols), "{placement:?}");
            for order in [MajorOrder::Row, MajorOrder::Column] {
                let placement = coalesced(lanes, shape, order, 8);
                assert!(!placement.copies(), "{placement:?}");
            }
        }
    }

    #[test]
    fn runs_decide_the_grid() {
        let c = Shape { rows: 16, cols: 16, use_: Use::Accumulator };
        let run = Run { shape: c, along_row: true, len: 8 };
        let grid = choose(32, &[c], &[run]);
        assert!(run.fits(grid.placement(c)), "{grid:?}");
        let run = Run { shape: c, along_row: false, len: 4 };
        assert!(run.fits(choose(32, &[c], &[run]).placement(c)));
    }
}
