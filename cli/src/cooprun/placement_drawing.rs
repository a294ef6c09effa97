//! The drawing of placements: a grid of elements for each matrix, in the colors of the invocations that hold them.

use super::placed::{Placed, short};
use crate::svg::{Anchor, Rectangle, Svg, color};

/// The sizes of a grid.
struct Cells {
    width: f64,
    height: f64,
    /// The size of text in them; none where they are too small.
    text: Option<f64>,
}

impl Cells {
    fn of(placed: &Placed) -> Cells {
        let longest = placed.elements.iter().map(|holders| short(holders).len()).max().unwrap_or(1).max(4) as f64;
        match placed.matrix.rows.max(placed.matrix.columns) {
            0..=32 => Cells { width: longest * 6.2 + 8.0, height: 20.0, text: Some(10.0) },
            33..=64 => Cells { width: longest * 4.4 + 4.0, height: 14.0, text: Some(7.0) },
            _ => Cells { width: 8.0, height: 8.0, text: None },
        }
    }
}

const INK: &str = "#222222";
const GRAY: &str = "#777777";

/// Returns a drawing of placements, one below the other.
pub(super) fn drawing(all: &[Placed]) -> String {
    let mut svg = Svg::default();
    let mut top = 16.0;
    for placed in all {
        top = grid(&mut svg, placed, top) + 28.0;
    }
    svg.text(
        (16.0, top),
        11.0,
        Anchor::Start,
        INK,
        "invocation.index: the invocation, by its color, and the index at which it holds the element;",
    );
    svg.text(
        (16.0, top + 16.0),
        11.0,
        Anchor::Start,
        INK,
        "+n: and n other places hold it too. Rows go down, columns to the right.",
    );
    svg.finish()
}

/// Draws one; returns where it ends.
fn grid(svg: &mut Svg, placed: &Placed, top: f64) -> f64 {
    let [name, by] = placed.heading();
    svg.text((16.0, top + 14.0), 16.0, Anchor::Start, INK, &name);
    svg.text((16.0, top + 32.0), 11.0, Anchor::Start, GRAY, &by);
    let cells = Cells::of(placed);
    let (left, first) = (52.0, top + 58.0);
    let columns = placed.matrix.columns as usize;
    // Every one has its number where there is room for that.
    let step = if cells.text.is_some() { 1 } else { 8 };
    for column in (0..columns).step_by(step) {
        let x = left + (column as f64 + 0.5) * cells.width;
        svg.text((x, first - 6.0), 9.0, Anchor::Middle, GRAY, &column.to_string());
    }
    for (row, line) in placed.elements.chunks(columns).enumerate() {
        let y = first + row as f64 * cells.height;
        if row % step == 0 {
            svg.text((left - 6.0, y + cells.height / 2.0 + 3.0), 9.0, Anchor::End, GRAY, &row.to_string());
        }
        for (column, holders) in line.iter().enumerate() {
            let at = Rectangle { x: left + column as f64 * cells.width, y, width: cells.width, height: cells.height };
            let fill = holders.first().map_or_else(|| "#ffffff".to_owned(), |(lane, _)| color(*lane));
            let places: Vec<String> =
                holders.iter().map(|(lane, index)| format!("invocation {lane} at {index}")).collect();
            svg.rectangle(at, &fill, "#ffffff", &format!("row {row}, column {column}: {}", places.join(", ")));
            if let Some(size) = cells.text {
                let point = (at.x + at.width / 2.0, y + cells.height / 2.0 + size * 0.35);
                svg.text(point, size, Anchor::Middle, INK, &short(holders));
            }
        }
    }
    first + placed.matrix.rows as f64 * cells.height
}
