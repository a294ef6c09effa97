//! Rules about the layouts of SPV_ARM_cooperative_matrix_layouts: blocks of 64 bytes, some of them interleaved.

use super::access::{COLUMN_BLOCKED, LoadStore, ROW_BLOCKED};
use crate::cx::Cx;
use crate::declare_rule;
use crate::report::{Draft, Part, Sink};
use crate::verdict::Verdict;
use coop_ir::constant::Const;

declare_rule! {
    /// ## What it checks
    /// With a blocked layout, Stride is a constant of 1, 2 or 4.
    /// ## Why
    /// It says how many blocks are interleaved, which must be known when the pipeline is made.
    /// ## Example
    /// A stride of 16, as for row-major.
    pub(crate) static STRIDE = {
        id: "arm-stride",
        summary: "the stride of a blocked layout is not 1, 2 or 4",
        level: Error,
        since: "0.2.0",
        spec: "SPV_ARM_cooperative_matrix_layouts, Cooperative Matrix Layout",
        vuids: [],
        digest: ["arm.stride-const"],
    }
}

declare_rule! {
    /// ## What it checks
    /// RowBlockedInterleavedARM: rows are a multiple of 4, columns of 16 bytes times Stride. ColumnBlockedInterleavedARM:
    /// rows of 4 times Stride, columns of 16 bytes.
    /// ## Why
    /// The matrix is made of whole blocks of 4 rows of 16 bytes, and these of whole groups.
    /// ## Example
    /// A f16 16x12 matrix with RowBlockedInterleavedARM: 12 columns are not a multiple of 8.
    pub(crate) static SHAPE = {
        id: "arm-shape",
        summary: "a matrix is not made of whole blocks",
        level: Error,
        since: "0.2.0",
        spec: "SPV_ARM_cooperative_matrix_layouts, Cooperative Matrix Layout",
        vuids: [],
        digest: ["arm.row-shape", "arm.col-shape"],
    }
}

/// A load or store, of any layout.
pub(crate) fn check(cx: &Cx, a: &LoadStore, out: &mut Sink) {
    let Some(layout @ (ROW_BLOCKED | COLUMN_BLOCKED)) = a.layout_value.fixed() else { return };
    let Some((stride, operand)) = a.stride else { return };
    let is_constant = cx.module.def_inst(stride).is_some_and(|i| i.op.is_constant());
    let value = cx.constant(stride);
    let verdict = match is_constant {
        true => Verdict::of(&value, |v| matches!(v, 1 | 2 | 4)),
        false => Verdict::Broken,
    };
    if verdict != Verdict::Holds {
        out.judge(&STRIDE, verdict, a.at, || {
            let is = if is_constant { format!("{value}") } else { "not a constant".into() };
            Draft::new(format!("the stride of a blocked layout is 1, 2 or 4 blocks; this is {is}"))
                .label(a.at, Part::Operand(operand), "blocks that are interleaved")
                .label_opt(cx.def(stride), Part::Whole, "comes from here")
        });
        return;
    }
    let (Some(matrix), Some(group)) = (a.matrix, value.fixed()) else { return };
    let Some(width) = matrix.component.map(|c| u64::from(16 / c.bytes().clamp(1, 16))) else { return };
    let (rows, cols) = if layout == ROW_BLOCKED { (4, width * group) } else { (4 * group, width) };
    let sides: [(&str, &Const, u64, usize); 2] = [("rows", &matrix.rows, rows, 2), ("columns", &matrix.cols, cols, 3)];
    for (name, n, of, type_operand) in sides {
        out.judge(&SHAPE, Verdict::of(n, |n| n.is_multiple_of(of)), a.at, || {
            Draft::new(format!(
                "{n} {name} of {matrix} are not a multiple of {of}, which a group of {group} blocks has"
            ))
            .label(a.at, Part::Operand(operand), format!("groups of {group}"))
            .label_opt(cx.decl(matrix), Part::Operand(type_operand), format!("{n} {name}"))
        });
    }
}
