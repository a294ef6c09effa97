//! Rules about `OpCooperativeMatrixGetCoordinateEXT` and Intel's equivalent: the row and column of a component of an
//! invocation.

use super::callback::is_int32;
use crate::cx::Cx;
use crate::declare_rule;
use crate::report::{Draft, Part, Sink};
use crate::verdict::Verdict;
use coop_ir::spv::Capability;
use coop_ir::types::{Scalar, Type};
use coop_ir::{Id, InstRef};

declare_rule! {
    /// ## What it checks
    /// The result is a vector of two 32-bit integers.
    /// ## Why
    /// Row and column are returned together.
    /// ## Example
    /// `OpCooperativeMatrixGetCoordinateEXT %uint %matrix %uint_0`
    pub(crate) static RESULT = {
        id: "coordinate-result-type",
        summary: "coordinates are not a vector of two 32-bit integers",
        level: Error,
        since: "0.2.0",
        spec: "SPV_EXT_cooperative_matrix_maintenance1, OpCooperativeMatrixGetCoordinateEXT",
        vuids: [],
        digest: ["ext.getcoord-types", "intel.getcoord"],
    }
}

declare_rule! {
    /// ## What it checks
    /// Matrix is a matrix, and not its type.
    /// ## Why
    /// Components belong to a matrix.
    /// ## Example
    /// `OpCooperativeMatrixGetCoordinateEXT %v2uint %a_float %uint_0`
    pub(crate) static NOT_MATRIX = {
        id: "coordinate-not-matrix",
        summary: "the coordinates of something that is not a matrix",
        level: Error,
        since: "0.2.0",
        spec: "SPV_EXT_cooperative_matrix_maintenance1, OpCooperativeMatrixGetCoordinateEXT",
        vuids: [],
        digest: ["ext.getcoord-types", "intel.getcoord"],
    }
}

declare_rule! {
    /// ## What it checks
    /// Index is a scalar of a 32-bit integer type, in a kernel of any integer type.
    /// ## Why
    /// It counts the components of an invocation. DPC++ counts in 64 bits, and Intel's compilers take it.
    /// ## Example
    /// `OpCooperativeMatrixGetCoordinateEXT %v2uint %matrix %float_0`
    pub(crate) static INDEX = {
        id: "coordinate-index-type",
        summary: "the index of a component is not a 32-bit integer",
        level: Error,
        since: "0.2.0",
        spec: "SPV_EXT_cooperative_matrix_maintenance1, OpCooperativeMatrixGetCoordinateEXT",
        vuids: [],
        digest: ["ext.getcoord-types", "intel.getcoord"],
    }
}

declare_rule! {
    /// ## What it checks
    /// Where rows and columns are fixed, a constant Index is less than rows times columns.
    /// ## Why
    /// Beyond the length the coordinates are undefined, and no invocation holds more components than the matrix has.
    /// ## Example
    /// `OpCooperativeMatrixGetCoordinateEXT %v2uint %matrix %uint_256` with a matrix of 16x16.
    pub(crate) static RANGE = {
        id: "coordinate-index-out-of-range",
        summary: "an index beyond all elements of the matrix",
        level: Warning,
        since: "0.2.0",
        spec: "SPV_EXT_cooperative_matrix_maintenance1, OpCooperativeMatrixGetCoordinateEXT",
        vuids: [],
        digest: ["ext.getcoord-range", "intel.getcoord"],
    }
}

pub(crate) fn check(cx: &Cx, at: InstRef, out: &mut Sink) {
    let inst = cx.inst(at);
    let (Some(ty), Some(value), Some(index)) = (inst.ty, inst.id(0), inst.id(1)) else { return };
    if !matches!(Type::of(cx.module, ty), Some(Type::Vector { elem, len: 2 }) if is_int32(cx, elem)) {
        let is = cx.describe(ty);
        out.report(&RESULT, at, || {
            Draft::new(format!("coordinates are a vector of two 32-bit integers, row and column; this is {is}")).label(
                at,
                Part::Type,
                format!("this is {is}"),
            )
        });
    }
    // In kernels indices have 64 bits: DPC++ emits that, and Intel's compilers accept it.
    let wide = |t: Id| cx.module.has_capability(Capability::Kernel) && cx.scalar(t).is_some_and(Scalar::is_int);
    if !cx.module.type_of(index).is_some_and(|t| is_int32(cx, t) || wide(t)) {
        let is = cx.describe_value(index);
        out.report(&INDEX, at, || {
            Draft::new(format!("the index of a component must be a 32-bit integer; this is {is}")).label(
                at,
                Part::Operand(1),
                format!("this is {is}"),
            )
        });
    }
    match cx.matrix_of(value) {
        None => {
            let is = cx.describe_value(value);
            out.report(&NOT_MATRIX, at, || {
                Draft::new(format!("coordinates are those of a component of a matrix; this is {is}")).label(
                    at,
                    Part::Operand(0),
                    format!("this is {is}"),
                )
            });
        }
        Some(matrix) => {
            if let (Some(rows), Some(cols)) = (matrix.rows.fixed(), matrix.cols.fixed()) {
                range(cx, at, index, rows.saturating_mul(cols), &matrix.to_string(), out);
            }
        }
    }
}

fn range(cx: &Cx, at: InstRef, index: Id, elements: u64, matrix: &str, out: &mut Sink) {
    let value = cx.constant(index);
    let Some(i) = value.value() else { return };
    let n = cx.signed(index, i);
    let inside = |i: u64| cx.signed(index, i) >= 0 && i < elements;
    out.judge(&RANGE, Verdict::of(&value, inside), at, || {
        Draft::new(format!("component {n} of {matrix}, which has {elements} elements in all"))
            .label(at, Part::Operand(1), format!("index {n}"))
            .help("an invocation holds OpCooperativeMatrixLengthKHR components")
    });
}
