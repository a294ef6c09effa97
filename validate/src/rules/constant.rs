//! Rules about `OpSpecConstantOp` with matrices. The rules about its operation apply, too.

use crate::cx::Cx;
use crate::declare_rule;
use crate::operation::Operation;
use crate::report::{Draft, Sink};

declare_rule! {
    /// ## What it checks
    /// Of what takes or gives matrices, `OpSpecConstantOp` computes only what the core lists for it, and the length of a
    /// matrix type. In shaders the list has no floating-point arithmetic, no conversions between integers and floats, no
    /// `OpBitcast` and no access chains.
    /// ## Why
    /// The operation is carried out when the pipeline is made, where there are no invocations to hold a matrix.
    /// ## Example
    /// `OpSpecConstantOp %matrix CooperativeMatrixMulAddKHR %a %b %c`
    pub(crate) static OPERATION = {
        id: "constant-operation-not-allowed",
        summary: "OpSpecConstantOp of an operation on matrices that it does not take",
        level: Error,
        since: "0.2.0",
        spec: "SPIR-V, OpSpecConstantOp; SPV_NV_cooperative_matrix",
        vuids: [],
        digest: ["khr.length-specop"],
    }
}

/// Checks an `OpSpecConstantOp` that involves matrices. Returns true if it may have the operation.
pub(crate) fn operation(cx: &Cx, o: &Operation, out: &mut Sink) -> bool {
    // Operations beyond the grammar are accepted.
    if o.op.info().is_none() || o.op.is_specializable(|c| cx.capabilities.has(c)) {
        return true;
    }
    out.report(&OPERATION, o.at, || {
        let name = o.op.to_string();
        Draft::new(format!("OpSpecConstantOp does not take {name}")).label(o.at, o.opcode(), "not among its operations")
    });
    false
}
