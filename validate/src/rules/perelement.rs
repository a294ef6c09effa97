//! Rules about `OpCooperativeMatrixPerElementOpNV` (`...EXT` is the same instruction): a function is called with row,
//! column and value of each element and returns the new value.

use super::callback::{Callback, is_int32, side_effect};
use super::reduce::{not_function, shorten};
use crate::cx::Cx;
use crate::declare_rule;
use crate::report::{Draft, Part, Sink};
use coop_ir::types::CoopMatView;
use coop_ir::{Id, InstRef};

declare_rule! {
    /// ## What it checks
    /// The result of a per-element operation is a matrix of the type, by id, of its operand Matrix.
    /// ## Why
    /// The function returns a component of the same type, and nothing moves.
    /// ## Example
    /// `OpCooperativeMatrixPerElementOpNV` from f32 16x16 to f16 16x16.
    pub(crate) static TYPE = {
        id: "perelement-type",
        summary: "a per-element operation does not keep the type",
        level: Error,
        since: "0.2.0",
        spec: "SPV_NV_cooperative_matrix2, OpCooperativeMatrixPerElementOpNV",
        vuids: [],
        digest: ["nv2.pe-result-type", "ext.pe-*"],
    }
}

declare_rule! {
    /// ## What it checks
    /// Func is an `OpFunction`.
    /// ## Why
    /// The implementation calls it.
    /// ## Example
    /// Func is a constant.
    pub(crate) static NOT_FUNCTION = {
        id: "perelement-not-function",
        summary: "the Func operand is not a function",
        level: Error,
        since: "0.2.0",
        spec: "SPV_NV_cooperative_matrix2, OpCooperativeMatrixPerElementOpNV",
        vuids: [],
        digest: ["nv2.pe-function"],
    }
}

declare_rule! {
    /// ## What it checks
    /// Func returns a component; its parameters begin with row and column, of 32-bit integer types, and a component.
    /// ## Why
    /// This is how it is called.
    /// ## Example
    /// Func takes the component first.
    pub(crate) static SIGNATURE = {
        id: "perelement-signature",
        summary: "Func does not take row, column and component, and return a component",
        level: Error,
        since: "0.2.0",
        spec: "SPV_NV_cooperative_matrix2, OpCooperativeMatrixPerElementOpNV",
        vuids: [],
        digest: ["nv2.pe-signature"],
    }
}

declare_rule! {
    /// ## What it checks
    /// Func has a parameter for each further operand, and no more.
    /// ## Why
    /// Operands after Func are passed on.
    /// ## Example
    /// Two further operands for a Func of four parameters.
    pub(crate) static COUNT = {
        id: "perelement-argument-count",
        summary: "operands and parameters of Func differ in number",
        level: Error,
        since: "0.2.0",
        spec: "SPV_EXT_cooperative_matrix_maintenance1, OpCooperativeMatrixPerElementOpEXT",
        vuids: [],
        digest: ["nv2.pe-extra-count"],
    }
}

declare_rule! {
    /// ## What it checks
    /// A further operand has the type of its parameter. One that is a matrix has the type of Matrix, and the parameter
    /// is a component: Func gets the element at the same place.
    /// ## Why
    /// This is how it is called.
    /// ## Example
    /// A f32 for a parameter of f16.
    pub(crate) static ARGUMENT = {
        id: "perelement-argument-type",
        summary: "an operand does not suit the parameter of Func",
        level: Error,
        since: "0.2.0",
        spec: "SPV_NV_cooperative_matrix2, OpCooperativeMatrixPerElementOpNV",
        vuids: [],
        digest: ["nv2.pe-extra-type", "nv2.pe-extra-matrix"],
    }
}

declare_rule! {
    /// ## What it checks
    /// Func, and what it calls, writes no memory that outlives the call.
    /// ## Why
    /// Calls come in no order and may be repeated, so that what they write can be written more than once. Scattering a
    /// matrix by such stores is common, and right as long as each call writes the same to the same place.
    /// ## Example
    /// A Func that stores each element to a buffer.
    pub(crate) static SIDE_EFFECTS = {
        id: "perelement-side-effects",
        summary: "Func writes memory",
        level: Note,
        since: "0.2.0",
        spec: "SPV_NV_cooperative_matrix2, OpCooperativeMatrixPerElementOpNV",
        vuids: [],
        digest: ["nv2.pe-pure"],
    }
}

pub(crate) fn check(cx: &Cx, at: InstRef, out: &mut Sink) {
    let inst = cx.inst(at);
    let (Some(value), Some(ty), Some(function)) = (inst.id(0), inst.ty, inst.id(1)) else { return };
    let matrix = cx.matrix_of(value);
    if matrix.is_none() || cx.module.type_of(value) != Some(ty) {
        out.report(&TYPE, at, || {
            let (is, result) = (cx.describe_value(value), cx.describe(ty));
            let again = if is == result { "another type that looks the same, " } else { "" };
            let message = match matrix {
                None => format!("a per-element operation works on a matrix; this is {is}"),
                Some(_) => format!("a per-element operation keeps the type; {is} can't become {again}{result}"),
            };
            Draft::new(message).label(at, Part::Operand(0), format!("this is {is}")).label_opt(
                cx.def(ty),
                Part::Whole,
                "type of the result",
            )
        });
    }
    let Some(callback) = Callback::of(cx, function) else {
        not_function(cx, &NOT_FUNCTION, "Func", at, 1, function, out);
        return;
    };
    let Some(matrix) = matrix else { return };
    signature(cx, at, matrix, &callback, out);
    arguments(cx, at, matrix, &callback, out);
    if let Some(write) = side_effect(cx, function) {
        out.report(&SIDE_EFFECTS, at, || {
            Draft::new(
                "a function that is called for each element writes memory; calls come in no order, and may be repeated",
            )
            .label(at, Part::Operand(1), "calls it for each element")
            .label(write, Part::Whole, "writes")
        });
    }
}

fn signature(cx: &Cx, at: InstRef, matrix: &CoopMatView, callback: &Callback, out: &mut Sink) {
    let component = matrix.ty.component;
    let suits = callback.ret == component
        && (0..2).all(|i| callback.param(i).is_some_and(|t| is_int32(cx, t)))
        && callback.param(2) == Some(component);
    if !suits {
        out.report(&SIGNATURE, at, || {
            let (c, is) = (cx.describe(component), callback.signature(cx));
            Draft::new(format!("Func must be {c} (u32 row, u32 column, {c}, ...), as the components are; it is {is}"))
                .label(at, Part::Operand(1), "Func")
                .label(callback.at, Part::Whole, shorten(is))
                .label_opt(cx.decl(matrix), Part::Operand(0), format!("the components are {c}"))
        });
    }
}

fn arguments(cx: &Cx, at: InstRef, matrix: &CoopMatView, callback: &Callback, out: &mut Sink) {
    let inst = cx.inst(at);
    let given = inst.operands.len().saturating_sub(2);
    let taken = callback.len().saturating_sub(3);
    if given != taken && callback.len() >= 3 {
        out.report(&COUNT, at, || {
            Draft::new(format!("Func takes {taken} values after row, column and element; {given} are given"))
                .label(at, Part::Whole, format!("{given} operands after Func"))
                .label(callback.at, Part::Whole, format!("{} parameters", callback.len()))
        });
    }
    for i in 0..given.min(taken) {
        let (Some(value), Some(wanted)) = (inst.id(2 + i), callback.param(3 + i)) else { continue };
        if let Some(message) = unsuited(cx, matrix, value, wanted) {
            out.report(&ARGUMENT, at, || {
                Draft::new(format!("argument {} of Func: {message}", i + 1))
                    .label(at, Part::Operand(2 + i), format!("this is {}", cx.describe_value(value)))
                    .label(
                        callback.param_at(cx, 3 + i),
                        Part::Whole,
                        format!("the parameter is {}", cx.describe(wanted)),
                    )
                    .label_opt(cx.def(value), Part::Whole, "comes from here")
            });
        }
    }
}

/// Returns the reason for which an argument does not fit.
fn unsuited(cx: &Cx, matrix: &CoopMatView, value: Id, wanted: Id) -> Option<String> {
    let Some(ty) = cx.module.type_of(value) else {
        return cx.is_not_a_value(value).then(|| format!("{} is passed", cx.describe_value(value)));
    };
    let Some(other) = cx.matrix_type(ty) else {
        let (is, parameter) = (cx.describe(ty), cx.describe(wanted));
        return (ty != wanted).then(|| format!("{is} is passed, {parameter} is taken"));
    };
    if ty != matrix.ty.id {
        let again = if other.to_string() == matrix.to_string() { "another type that looks the same, " } else { "" };
        return Some(format!("a matrix that is passed has the type of Matrix, {matrix}; this is {again}{other}"));
    }
    let component = cx.describe(matrix.ty.component);
    let parameter = cx.describe(wanted);
    (wanted != matrix.ty.component)
        .then(|| format!("of a matrix Func gets one component, {component}; the parameter is {parameter}"))
}
