//! Rules about making a matrix of a single value.

use crate::cx::Cx;
use crate::declare_rule;
use crate::report::{Draft, Part, Sink};
use crate::rule::Rule;
use coop_ir::{InstRef, Op};

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
        digest: ["khr.const-single"],
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
        digest: ["khr.construct-single"],
    }
}

pub(crate) fn check(cx: &Cx, out: &mut Sink) {
    for &r in cx.globals.iter().chain(&cx.body) {
        match cx.inst(r).op {
            Op::ConstantComposite | Op::SpecConstantComposite => constituents(cx, &CONSTANT, r, out),
            Op::CompositeConstruct => constituents(cx, &CONSTRUCT, r, out),
            _ => {}
        }
    }
}

fn constituents(cx: &Cx, rule: &'static Rule, at: InstRef, out: &mut Sink) {
    let inst = cx.inst(at);
    let Some(matrix) = inst.ty.and_then(|t| cx.matrix(t)) else { return };
    let n = inst.operands.len();
    if n != 1 {
        out.report(rule, at, || {
            Draft::new(format!("a matrix is made of one component, given to all its elements; here are {n}")).label(
                at,
                Part::Whole,
                format!("{n} constituents of {matrix}"),
            )
        });
        return;
    }
    let Some(value) = inst.id(0) else { return };
    if cx.module.type_of(value) != Some(matrix.ty.component) {
        let what = cx.describe_value(value);
        out.report(rule, at, || {
            Draft::new(format!("{matrix} is made of a component of its type; this is {what}"))
                .label(at, Part::Operand(0), format!("this is {what}"))
                .label_opt(cx.decl(matrix), Part::Operand(0), "the component type")
        });
    }
}
