//! Rules about `OpCooperativeMatrixReduceNV` (`...EXT` is the same instruction): the rows, columns or 2x2 squares of an
//! accumulator are combined by a function.

use super::callback::Callback;
use crate::cx::Cx;
use crate::declare_rule;
use crate::report::{Draft, Part, Sink};
use crate::rule::Rule;
use crate::verdict::Verdict;
use coop_ir::constant::Const;
use coop_ir::spv::CooperativeMatrixReduce;
use coop_ir::types::{CoopMatView, scope_name, use_name};
use coop_ir::{Id, InstRef};

declare_rule! {
    /// ## What it checks
    /// Matrix and result of a reduction are matrices of SPV_KHR_cooperative_matrix.
    /// ## Why
    /// Nothing else has rows and columns to combine.
    /// ## Example
    /// `OpCooperativeMatrixReduceNV %matrix %a_float Row %max`
    pub(crate) static NOT_MATRIX = {
        id: "reduce-operand-not-matrix",
        summary: "a reduction of or to something that is not a matrix",
        level: Error,
        since: "0.2.0",
        spec: "SPV_NV_cooperative_matrix2, OpCooperativeMatrixReduceNV",
        vuids: [],
        digest: ["nv2.reduce-types", "ext.reduce-*"],
    }
}

declare_rule! {
    /// ## What it checks
    /// Matrix and result of a reduction have the same component type.
    /// ## Why
    /// The function combines two components into one of the same type.
    /// ## Example
    /// A reduction from f32 16x16 to f16 16x16.
    pub(crate) static COMPONENT = {
        id: "reduce-component-mismatch",
        summary: "a reduction changes the component type",
        level: Error,
        since: "0.2.0",
        spec: "SPV_NV_cooperative_matrix2, OpCooperativeMatrixReduceNV",
        vuids: [],
        digest: ["nv2.reduce-types"],
    }
}

declare_rule! {
    /// ## What it checks
    /// Matrix and result of a reduction have the same scope.
    /// ## Why
    /// The invocations that hold the matrix compute the result together.
    /// ## Example
    /// A reduction from a matrix of scope Subgroup to one of scope Workgroup.
    pub(crate) static SCOPE = {
        id: "reduce-scope-mismatch",
        summary: "a reduction changes the scope",
        level: Error,
        since: "0.2.0",
        spec: "SPV_NV_cooperative_matrix2, OpCooperativeMatrixReduceNV",
        vuids: [],
        digest: ["nv2.reduce-scope"],
    }
}

declare_rule! {
    /// ## What it checks
    /// Matrix and result of a reduction are accumulators.
    /// ## Why
    /// Reductions exist for accumulators only.
    /// ## Example
    /// A reduction of a matrix with use A.
    pub(crate) static USE = {
        id: "reduce-use",
        summary: "a reduction of or to a matrix that is not an accumulator",
        level: Error,
        since: "0.2.0",
        spec: "SPV_NV_cooperative_matrix2, OpCooperativeMatrixReduceNV",
        vuids: [],
        digest: ["nv2.reduce-use"],
    }
}

declare_rule! {
    /// ## What it checks
    /// The Reduce operand is Row, Column, both of them, or 2x2 alone.
    /// ## Why
    /// Nothing is combined without a bit, 2x2 has no meaning together with another, and other bits do not exist.
    /// ## Example
    /// `Row|2x2`
    pub(crate) static MASK = {
        id: "reduce-mask",
        summary: "the Reduce operand is not Row, Column, Row|Column or 2x2",
        level: Error,
        since: "0.2.0",
        spec: "SPV_NV_cooperative_matrix2, Cooperative Matrix Reduce",
        vuids: [],
        digest: ["nv2.reduce-mask"],
    }
}

declare_rule! {
    /// ## What it checks
    /// Row keeps the number of rows, Column that of columns; 2x2 halves both, which must be even.
    /// ## Why
    /// Each element of the result is made of one row, of one column, or of a square of four elements.
    /// ## Example
    /// A Row reduction from f32 16x16 to f32 8x16.
    pub(crate) static SHAPE = {
        id: "reduce-shape",
        summary: "the result of a reduction has the wrong size",
        level: Error,
        since: "0.2.0",
        spec: "SPV_NV_cooperative_matrix2, OpCooperativeMatrixReduceNV",
        vuids: [],
        digest: ["nv2.reduce-shape-row", "nv2.reduce-shape-col", "nv2.reduce-shape-2x2"],
    }
}

declare_rule! {
    /// ## What it checks
    /// CombineFunc is an `OpFunction`.
    /// ## Why
    /// The implementation calls it.
    /// ## Example
    /// CombineFunc is a constant.
    pub(crate) static NOT_FUNCTION = {
        id: "reduce-not-function",
        summary: "the CombineFunc operand is not a function",
        level: Error,
        since: "0.2.0",
        spec: "SPV_NV_cooperative_matrix2, OpCooperativeMatrixReduceNV",
        vuids: [],
        digest: ["nv2.reduce-combine-function"],
    }
}

declare_rule! {
    /// ## What it checks
    /// CombineFunc takes two components and returns one.
    /// ## Why
    /// It is called with two elements of the matrix, or with what it returned before.
    /// ## Example
    /// A reduction of a f32 matrix with a function of f16.
    pub(crate) static SIGNATURE = {
        id: "reduce-signature",
        summary: "CombineFunc does not make one component of two",
        level: Error,
        since: "0.2.0",
        spec: "SPV_NV_cooperative_matrix2, OpCooperativeMatrixReduceNV",
        vuids: [],
        digest: ["nv2.reduce-combine-signature"],
    }
}

const ROW: u32 = CooperativeMatrixReduce::Row.0;
const COLUMN: u32 = CooperativeMatrixReduce::Column.0;
const SQUARE: u32 = CooperativeMatrixReduce::_2x2.0;

pub(crate) fn check(cx: &Cx, at: InstRef, out: &mut Sink) {
    let inst = cx.inst(at);
    let (Some(value), Some(ty), Some(mask)) = (inst.id(0), inst.ty, inst.word(1)) else { return };
    let (matrix, result) = (cx.matrix_of(value), cx.matrix(ty));
    for (found, part, what) in [
        (matrix.is_some(), Part::Operand(0), cx.describe_value(value)),
        (result.is_some(), Part::Type, cx.describe(ty)),
    ] {
        if !found {
            out.report(&NOT_MATRIX, at, || {
                Draft::new(format!("a reduction goes from a matrix to a matrix; this is {what}")).label(
                    at,
                    part,
                    format!("this is {what}"),
                )
            });
        }
    }
    function(cx, at, matrix.or(result), out);
    let known = matches!(mask, 1..=4);
    if !known {
        out.report(&MASK, at, || {
            Draft::new(format!("the Reduce operand {mask:#x} is not Row, Column, Row|Column or 2x2"))
                .label(at, Part::Operand(1), format!("the mask is {mask:#x}"))
                .help("give Row (1), Column (2), both (3), or 2x2 (4) alone")
        });
    }
    let (Some(matrix), Some(result)) = (matrix, result) else { return };
    if matrix.ty.component != result.ty.component {
        out.report(&COMPONENT, at, || {
            Draft::new(format!("a reduction keeps the component type; this one goes from {matrix} to {result}"))
                .label(at, Part::Whole, "reduced here")
                .label_opt(cx.decl(matrix), Part::Operand(0), format!("from {}", cx.describe(matrix.ty.component)))
                .label_opt(cx.decl(result), Part::Operand(0), format!("to {}", cx.describe(result.ty.component)))
        });
    }
    out.judge(&SCOPE, cx.equal(matrix.ty.scope, result.ty.scope), at, || {
        let name = |m: &CoopMatView| m.scope.value().and_then(scope_name).unwrap_or("unknown");
        Draft::new(format!("a reduction from scope {} to scope {}", name(matrix), name(result)))
            .label(at, Part::Whole, "reduced here")
            .label_opt(cx.decl(matrix), Part::Operand(1), format!("scope {}", name(matrix)))
            .label_opt(cx.decl(result), Part::Operand(1), format!("scope {}", name(result)))
    });
    for (m, name, part) in [(matrix, "the matrix", Part::Operand(0)), (result, "the result", Part::Type)] {
        out.judge(&USE, Verdict::of(&m.use_, |u| u == 2), at, || {
            let is = m.use_.value().and_then(use_name).unwrap_or("unknown");
            Draft::new(format!("{name} of a reduction must be an accumulator; it is {m}"))
                .label(at, part, format!("{m}"))
                .label_opt(cx.decl(m), Part::Operand(4), format!("use {is}"))
                .help("convert it to an accumulator, or give its type Use 2")
        });
    }
    if known {
        shape(cx, at, mask, matrix, result, out);
    }
}

fn function(cx: &Cx, at: InstRef, matrix: Option<&CoopMatView>, out: &mut Sink) {
    let Some(function) = cx.inst(at).callee() else { return };
    let Some(callback) = Callback::of(cx, function) else {
        not_function(cx, &NOT_FUNCTION, "CombineFunc", at, 2, function, out);
        return;
    };
    let Some(matrix) = matrix else { return };
    let component = matrix.ty.component;
    let suits =
        callback.len() == 2 && callback.ret == component && (0..2).all(|i| callback.param(i) == Some(component));
    if !suits {
        out.report(&SIGNATURE, at, || {
            let (c, is) = (cx.describe(component), callback.signature(cx));
            Draft::new(format!("CombineFunc must be {c} ({c}, {c}), as the components are; it is {is}"))
                .label(at, Part::Operand(2), "CombineFunc")
                .label(callback.at, Part::Whole, shorten(is))
                .label_opt(cx.decl(matrix), Part::Operand(0), format!("the components are {c}"))
        });
    }
}

/// Returns a label's text, cut if it is too long.
pub(crate) fn shorten(text: String) -> String {
    if text.chars().count() <= 60 { text } else { text.chars().take(57).chain("...".chars()).collect() }
}

/// Reports that an operand should be a function.
pub(crate) fn not_function(
    cx: &Cx,
    rule: &'static Rule,
    name: &str,
    at: InstRef,
    operand: usize,
    id: Id,
    out: &mut Sink,
) {
    let what = cx.describe_value(id);
    out.report(rule, at, || {
        Draft::new(format!("{name} must be an OpFunction; this is {what}"))
            .label(at, Part::Operand(operand), format!("{name} is {what}"))
            .label_opt(cx.def(id), Part::Whole, "comes from here")
    });
}

fn shape(cx: &Cx, at: InstRef, mask: u32, matrix: &CoopMatView, result: &CoopMatView, out: &mut Sink) {
    let sides: [(&str, usize, Id, &Const, Id, &Const); 2] = [
        ("rows", 2, matrix.ty.rows, &matrix.rows, result.ty.rows, &result.rows),
        ("columns", 3, matrix.ty.cols, &matrix.cols, result.ty.cols, &result.cols),
    ];
    for (name, operand, a, was, b, is) in sides {
        let kept = match (mask, name) {
            (ROW, "rows") | (COLUMN, "columns") => true,
            (SQUARE, _) => false,
            _ => continue,
        };
        let verdict = if kept { cx.equal(a, b) } else { halved(was, is) };
        out.judge(&SHAPE, verdict, at, || {
            let message = match (mask, kept) {
                (_, false) => format!("a 2x2 reduction halves the {name}: {was} can't become {is}"),
                (ROW, _) => format!("a Row reduction keeps the rows: {was} can't become {is}"),
                _ => format!("a Column reduction keeps the columns: {was} can't become {is}"),
            };
            Draft::new(message)
                .label(at, Part::Whole, "reduced here")
                .label_opt(cx.decl(matrix), Part::Operand(operand), format!("{name}: {was}"))
                .label_opt(cx.decl(result), Part::Operand(operand), format!("{name}: {is}"))
        });
    }
}

/// Returns true if `half` is exactly half of `whole`.
fn halved(whole: &Const, half: &Const) -> Verdict {
    match (whole, half) {
        (Const::Fixed(w), h) => Verdict::of(h, |h| h.checked_mul(2) == Some(*w)),
        (w, Const::Fixed(h)) => Verdict::of(w, |w| h.checked_mul(2) == Some(w)),
        // Two specialization constants: in published kernels one is computed from the other.
        (w, h) => match (w.value(), h.value()) {
            (Some(w), Some(h)) if h.checked_mul(2) == Some(w) => Verdict::Holds,
            (Some(_), Some(h)) => Verdict::of(w, |w| h.checked_mul(2) == Some(w)),
            _ => Verdict::Unknown,
        },
    }
}
