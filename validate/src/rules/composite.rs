//! Rules about making a matrix of a single value.

use super::intel;
use crate::cx::Cx;
use crate::declare_rule;
use crate::report::{Draft, Part, Sink};
use crate::rule::Rule;
use coop_ir::InstRef;

declare_rule! {
    /// ## What it checks
    /// A constant of a matrix type has exactly one constituent, of the component type.
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
    /// `OpCompositeConstruct` of a matrix has exactly one constituent, of the component type.
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
    /// What is replicated into a matrix (OpConstantCompositeReplicateEXT and its relatives) is a value of its component
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
        (None, None) => return,
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
