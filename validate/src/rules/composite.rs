//! Rules about making a matrix of a single value.

use super::intel;
use crate::cx::{Cx, TypeClass};
use crate::declare_rule;
use crate::report::{Draft, Part, Sink};
use crate::rule::Rule;
use coop_ir::{Id, InstRef, Op};

declare_rule! {
    /// ## What it checks
    /// A constant of a matrix type has exactly one constituent, of the component type; one of an array or struct with
    /// matrices inside has constituents of their types.
    /// ## Why
    /// How many components an invocation holds is not known; the one value is given to all elements.
    /// ## Example
    /// `OpConstantComposite %matrix %half_0 %half_0`
    pub(crate) static CONSTANT = {
        id: "constant-constituents",
        summary: "a constant matrix is not made of one component",
        level: Error,
        since: "0.1.0",
        spec: "SPV_KHR_cooperative_matrix, OpConstantComposite and OpSpecConstantComposite",
        vuids: [],
        digest: ["khr.const-single", "nv1.const-single"],
    }
}

declare_rule! {
    /// ## What it checks
    /// `OpCompositeConstruct` of a matrix has exactly one constituent, of the component type; that of an array or struct with
    /// matrices inside has constituents of their types.
    /// ## Why
    /// How many components an invocation holds is not known; the one value is given to all elements.
    /// ## Example
    /// `OpCompositeConstruct %matrix_of_half %a_float`
    pub(crate) static CONSTRUCT = {
        id: "construct-constituents",
        summary: "a matrix is not constructed of one component",
        level: Error,
        since: "0.1.0",
        spec: "SPV_KHR_cooperative_matrix, OpCompositeConstruct",
        vuids: [],
        digest: ["khr.construct-single", "nv1.const-single"],
    }
}

declare_rule! {
    /// ## What it checks
    /// The value that is replicated into a matrix (OpConstantCompositeReplicateEXT and its relatives) has the component
    /// type.
    /// ## Why
    /// The one value is given to all elements.
    /// ## Example
    /// `OpCompositeConstructReplicateEXT %matrix_of_half %a_float`
    pub(crate) static REPLICATE = {
        id: "replicate-constituent",
        summary: "a matrix is not replicated from one component",
        level: Error,
        since: "0.2.0",
        spec: "SPV_EXT_replicated_composites",
        vuids: [],
        digest: ["types.replicate"],
    }
}

pub(crate) fn constituents(cx: &Cx, rule: &'static Rule, at: InstRef, out: &mut Sink) {
    let inst = cx.inst(at);
    let Some(ty) = inst.ty else { return };
    let component = match (cx.matrix(ty), cx.nv_matrix(ty)) {
        (Some(m), _) => m.ty.component,
        (None, Some(m)) => m.component_id,
        (None, None) => {
            members(cx, rule, at, ty, out);
            return;
        }
    };
    let matrix = || cx.describe(ty);
    let n = inst.operands.len();
    if n != 1 {
        out.report(rule, at, || {
            Draft::new(format!("a matrix is made of one component, given to all its elements; here are {n}")).label(
                at,
                Part::Whole,
                format!("{n} constituents of {}", matrix()),
            )
        });
        return;
    }
    let Some(value) = inst.id(0) else { return };
    if intel::filled(cx, at, &matrix(), out) {
        return;
    }
    if cx.module.type_of(value) != Some(component) {
        let what = cx.describe_value(value);
        out.report(rule, at, || {
            Draft::new(format!("{} is made of a component of its type; this is {what}", matrix()))
                .label(at, Part::Operand(0), format!("this is {what}"))
                .label_opt(cx.def(ty), Part::Operand(0), "the component type")
        });
    }
}

/// An array or a struct with matrices inside: its constituents have the types of its elements.
fn members(cx: &Cx, rule: &'static Rule, at: InstRef, ty: Id, out: &mut Sink) {
    let inst = cx.inst(at);
    let Some(composite) = cx.module.def_inst(ty).filter(|_| cx.class(ty) == Some(TypeClass::Holder)) else { return };
    let member = |i: usize| match composite.op {
        Op::TypeArray | Op::TypeRuntimeArray => composite.id(0),
        Op::TypeStruct if rule.id == REPLICATE.id => composite.id(0),
        Op::TypeStruct => composite.id(i),
        _ => None,
    };
    for (i, value) in inst.ids().enumerate() {
        let (Some(wanted), Some(is)) = (member(i), cx.module.type_of(value)) else { continue };
        if wanted == is || cx.class(wanted).is_none() && cx.class(is).is_none() {
            continue;
        }
        out.report(rule, at, || {
            let (is, wanted) = (cx.describe(is), cx.describe(wanted));
            let again = if is == wanted { "another type that looks the same, " } else { "" };
            Draft::new(format!("element {i} of {} is {wanted}; this is {again}{is}", cx.describe(ty)))
                .label(at, Part::Operand(i), format!("this is {is}"))
                .label_opt(cx.def(ty), Part::Whole, "the type")
        });
    }
}
