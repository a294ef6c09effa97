//! Which invocation holds which element: the maps between (lane, index) and (row, column).
//!
//! The lanes of a scope (a subgroup, or a workgroup) are arranged as a grid of `rows` x `cols`. Every matrix of that
//! scope is cut by the same grid, whatever its shape:
//!
//! - an accumulator is cut in both directions: a lane holds a tile of consecutive rows and columns;
//! - an A matrix is cut by rows only: the lanes of one grid row hold the same elements;
//! - a B matrix is cut by columns only: the lanes of one grid column hold the same elements.
//!
//! So the lane that holds a tile of C also holds the rows of A and the columns of B that the tile needs, and MulAdd
//! communicates nothing.
//!
//! # Invariants
//!
//! 1. Every element is held by at least one lane.
//! 2. An element of an accumulator whose extents the grid divides is held by exactly one lane.
//! 3. All lanes hold the same number of elements ([`Band::len`]), and index `i` is valid in each of them.
//! 4. Where the grid does not divide an extent, the last lanes hold copies of the last row or column, never
//!    elements that don't exist: an element-wise loop sees only values of the matrix.
//! 5. Exactly one lane is the owner of an element: the one that stores it.
//! 6. The row of (lane, index) depends on the lane's grid row alone, the column on its grid column alone.

/// What a matrix is used for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum Use {
    /// The left factor.
    A,
    /// The right factor.
    B,
    /// The summand and the result.
    Accumulator,
}

impl Use {
    /// From the value of a Cooperative Matrix Use.
    pub fn from_value(value: u64) -> Option<Use> {
        [Use::A, Use::B, Use::Accumulator].get(usize::try_from(value).ok()?).copied()
    }
}

/// The extents and the use of a matrix.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct Shape {
    /// Rows.
    pub rows: u32,
    /// Columns.
    pub cols: u32,
    /// Use.
    pub use_: Use,
}

/// How the lanes of a scope are arranged.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Grid {
    /// Groups of lanes among which rows are divided.
    pub rows: u32,
    /// Groups of lanes among which columns are divided.
    pub cols: u32,
}

/// The part of a matrix that one lane holds.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Band {
    /// The matrix.
    pub shape: Shape,
    /// The groups among which its rows are divided: the grid's, or 1.
    pub row_groups: u32,
    /// The groups among which its columns are divided: the grid's, or 1.
    pub col_groups: u32,
    /// Rows that a lane holds.
    pub rows: u32,
    /// Columns that a lane holds.
    pub cols: u32,
}

impl Grid {
    /// The number of lanes.
    pub fn lanes(self) -> u32 {
        self.rows * self.cols
    }

    /// What a lane holds of a matrix.
    pub fn band(self, shape: Shape) -> Band {
        let (row_groups, col_groups) = match shape.use_ {
            Use::A => (self.rows, 1),
            Use::B => (1, self.cols),
            Use::Accumulator => (self.rows, self.cols),
        };
        let rows = shape.rows.div_ceil(row_groups).max(1);
        let cols = shape.cols.div_ceil(col_groups).max(1);
        Band { shape, row_groups, col_groups, rows, cols }
    }
}

impl Band {
    /// The number of elements that each lane holds; at least 1.
    #[allow(clippy::len_without_is_empty, reason = "no lane holds nothing")]
    pub fn len(self) -> u32 {
        self.rows.saturating_mul(self.cols)
    }

    /// Whether some lanes hold copies because the grid does not divide the rows.
    pub fn pads_rows(self) -> bool {
        self.rows * self.row_groups != self.shape.rows
    }

    /// Whether some lanes hold copies because the grid does not divide the columns.
    pub fn pads_cols(self) -> bool {
        self.cols * self.col_groups != self.shape.cols
    }

    /// The index of a lane's element (`i`, `j`), counted from the first row and column that it holds.
    pub fn index(self, i: u32, j: u32) -> u32 {
        i * self.cols + j
    }
}

/// A store that writes several neighbouring elements at once, because memory is declared in larger units.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Run {
    /// The matrix.
    pub shape: Shape,
    /// Whether neighbours in memory are neighbours in a row (else in a column).
    pub along_row: bool,
    /// How many elements are written at once.
    pub len: u32,
}

impl Run {
    /// Whether a lane of this grid holds whole runs.
    pub fn fits(self, grid: Grid) -> bool {
        let band = grid.band(self.shape);
        let (extent, pads) = if self.along_row { (band.cols, band.pads_cols()) } else { (band.rows, band.pads_rows()) };
        extent % self.len == 0 && !pads
    }
}

/// The grid of `lanes` lanes for these matrices that holds the fewest elements and copies, among those in which every
/// run fits; if there is none, the best of all grids.
pub fn choose(lanes: u32, shapes: &[Shape], runs: &[Run]) -> Grid {
    let lanes = lanes.max(1);
    let grids = (1..=lanes).filter(|r| lanes.is_multiple_of(*r)).map(|rows| Grid { rows, cols: lanes / rows });
    let cost = |grid: &Grid| -> (usize, u64, u32) {
        let unfit = runs.iter().filter(|r| !r.fits(*grid)).count();
        let held: u64 = shapes
            .iter()
            .map(|s| {
                let band = grid.band(*s);
                // A copy costs a bounds test at each access, which weighs more than holding a few elements.
                let copies = if band.pads_rows() || band.pads_cols() { 4 } else { 1 };
                u64::from(band.len()) * copies
            })
            .sum();
        // Of equals, the one with more grid rows: neighbours in a row are then held together, and row-major memory
        // is read in longer pieces.
        (unfit, held, u32::MAX - grid.rows)
    };
    grids.min_by_key(cost).unwrap_or(Grid { rows: lanes, cols: 1 })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The element at (lane, index), and whether the lane owns it; by the text at the top, not by the code.
    fn position(grid: Grid, band: Band, lane: u32, index: u32) -> (u32, u32, bool) {
        let (grid_row, grid_col) = (lane / grid.cols, lane % grid.cols);
        let row_group = if band.row_groups == 1 { 0 } else { grid_row };
        let col_group = if band.col_groups == 1 { 0 } else { grid_col };
        let row = row_group * band.rows + index / band.cols;
        let col = col_group * band.cols + index % band.cols;
        let real = row < band.shape.rows && col < band.shape.cols;
        let first = (band.row_groups > 1 || grid_row == 0) && (band.col_groups > 1 || grid_col == 0);
        (row.min(band.shape.rows - 1), col.min(band.shape.cols - 1), real && first)
    }

    #[test]
    fn every_element_has_one_owner_for_every_shape_use_and_grid() {
        for lanes in [1, 2, 4, 6, 8, 16, 32, 64] {
            for grid in (1..=lanes).filter(|r| lanes % r == 0).map(|rows| Grid { rows, cols: lanes / rows }) {
                for rows in 1..=17 {
                    for cols in 1..=17 {
                        for use_ in [Use::A, Use::B, Use::Accumulator] {
                            check(grid, Shape { rows, cols, use_ });
                        }
                    }
                }
            }
        }
    }

    fn check(grid: Grid, shape: Shape) {
        let band = grid.band(shape);
        let mut held = vec![0; (shape.rows * shape.cols) as usize];
        let mut owned = held.clone();
        for lane in 0..grid.lanes() {
            for index in 0..band.len() {
                let (row, col, owner) = position(grid, band, lane, index);
                held[(row * shape.cols + col) as usize] += 1;
                owned[(row * shape.cols + col) as usize] += u32::from(owner);
            }
        }
        assert!(held.iter().all(|h| *h > 0), "{grid:?} {shape:?}: an element is lost");
        assert!(owned.iter().all(|o| *o == 1), "{grid:?} {shape:?}: not one owner each");
        if shape.use_ == Use::Accumulator && !band.pads_rows() && !band.pads_cols() {
            assert!(held.iter().all(|h| *h == 1), "{grid:?} {shape:?}: copies");
        }
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
            assert!(shapes.iter().all(|s| !grid.band(*s).pads_rows() && !grid.band(*s).pads_cols()), "{grid:?}");
        }
    }

    #[test]
    fn runs_decide_the_grid() {
        let c = Shape { rows: 16, cols: 16, use_: Use::Accumulator };
        let run = Run { shape: c, along_row: true, len: 8 };
        let grid = choose(32, &[c], &[run]);
        assert!(run.fits(grid), "{grid:?}");
        let run = Run { shape: c, along_row: false, len: 4 };
        assert!(run.fits(choose(32, &[c], &[run])));
    }
}
