//! The placement of a matrix: which invocation holds which element, as text and as JSON.

use std::fmt::Write;

use coop_device::ComponentType;
use coop_ir::types::use_name;
use serde_json::json;

/// A matrix type.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Matrix {
    /// The type of its elements.
    pub(super) component: ComponentType,
    /// Rows.
    pub(super) rows: u32,
    /// Columns.
    pub(super) columns: u32,
    /// Its use, as the SPIR-V enumerant.
    pub(super) use_: u32,
    /// True if its scope is the workgroup.
    pub(super) workgroup: bool,
}

/// The places that hold an element: invocations, each with an index.
pub(super) type Holders = Vec<(u32, u32)>;

/// The placement of a matrix.
pub(super) struct Placed {
    /// The matrix.
    pub(super) matrix: Matrix,
    /// The invocations that hold it together.
    pub(super) invocations: u32,
    /// The device or the interpreter, and how the module came there.
    pub(super) by: String,
    /// The elements that an invocation holds, at least and at most.
    pub(super) lengths: (u32, u32),
    /// The holders of each element, row by row.
    pub(super) elements: Vec<Holders>,
}

impl Matrix {
    /// The component type, the extents and the use.
    pub(super) fn name(&self) -> String {
        let component = self.component.name().unwrap_or_default();
        let use_ = use_name(u64::from(self.use_)).unwrap_or_default();
        let scope = if self.workgroup { " workgroup" } else { "" };
        format!("{component} {}x{} {use_}{scope}", self.rows, self.columns)
    }
}

/// The holders of an element in few characters: invocation.index, and how many others there are.
pub(super) fn short(holders: &Holders) -> String {
    match holders.as_slice() {
        [] => "-".to_owned(),
        [(lane, index)] => format!("{lane}.{index}"),
        [(lane, index), others @ ..] => format!("{lane}.{index}+{}", others.len()),
    }
}

impl Placed {
    /// Returns the heading: the matrix, and who holds it.
    pub(super) fn heading(&self) -> [String; 2] {
        let (least, most) = self.lengths;
        let each = if least == most { format!("{most}") } else { format!("{least} to {most}") };
        [self.matrix.name(), format!("{} invocations with {each} elements each; {}", self.invocations, self.by)]
    }

    /// Returns it as a table.
    pub(super) fn text(&self) -> String {
        let [name, by] = self.heading();
        let cells: Vec<String> = self.elements.iter().map(short).collect();
        let width = cells.iter().map(String::len).max().unwrap_or(1).max(3);
        let mut out = format!("{name}: {by}\n    ");
        (0..self.matrix.columns).for_each(|column| _ = write!(out, " {column:>width$}"));
        for (row, line) in cells.chunks(self.matrix.columns as usize).enumerate() {
            let _ = write!(out, "\n{row:>4}");
            line.iter().for_each(|cell| _ = write!(out, " {cell:>width$}"));
        }
        out.push('\n');
        out
    }

    /// Returns it as a JSON object.
    pub(super) fn to_json(&self) -> serde_json::Value {
        json!({
            "matrix": self.matrix.name(),
            "rows": self.matrix.rows,
            "columns": self.matrix.columns,
            "invocations": self.invocations,
            "by": self.by,
            "lengths": [self.lengths.0, self.lengths.1],
            "elements": self.elements.chunks(self.matrix.columns as usize).collect::<Vec<_>>(),
        })
    }
}
