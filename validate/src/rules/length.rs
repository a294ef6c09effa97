//! Rules about `OpCooperativeMatrixLengthKHR`.

use crate::cx::Cx;
use crate::declare_rule;
use crate::report::{Draft, Part, Sink};
use coop_ir::types::Scalar;
use coop_ir::{Id, InstRef};

declare_rule! {
    /// ## What it checks
    /// The result type of `OpCooperativeMatrixLengthKHR` is a 32-bit unsigned integer.
    /// ## Why
    /// The text says so; consumers rely on it.
    /// ## Example
    /// `OpCooperativeMatrixLengthKHR %int %matrix`
    pub(crate) static RESULT_TYPE = {
        id: "length-result-type",
        summary: "the length is no 32-bit unsigned integer",
        level: Error,
        since: "0.1.0",
        spec: "SPV_KHR_cooperative_matrix, OpCooperativeMatrixLengthKHR",
        vuids: [],
        digest: ["khr.length-type"],
    }
}

declare_rule! {
    /// ## What it checks
    /// The operand of `OpCooperativeMatrixLengthKHR` is a cooperative-matrix type, not a value of one.
    /// ## Why
    /// The length belongs to the type. Early translators passed a value, and such modules are still around.
    /// ## Example
    /// `OpCooperativeMatrixLengthKHR %uint %loaded_matrix`
    pub(crate) static OPERAND_TYPE = {
        id: "length-operand-type",
        summary: "the length is asked of something that is no matrix type",
        level: Error,
        since: "0.1.0",
        spec: "SPV_KHR_cooperative_matrix, OpCooperativeMatrixLengthKHR",
        vuids: [],
        digest: ["khr.length-type"],
    }
}

declare_rule! {
    /// ## What it checks
    /// `OpCooperativeMatrixLengthKHR` is not used inside `OpSpecConstantOp`.
    /// ## Why
    /// Only the older SPV_NV_cooperative_matrix lists that use. glslang emits it for the length of a KHR matrix in a constant
    /// expression, and spirv-val accepts it; drivers do not. NVIDIA's and RADV end with SIGSEGV while the pipeline is made, NVK and
    /// lavapipe refuse the module. cooplower takes it, and writes the instruction instead.
    /// ## Example
    /// `OpSpecConstantOp %uint CooperativeMatrixLengthKHR %matrix`, for GLSL's `const uint n = matrix.length();`
    pub(crate) static SPECIALIZED = {
        id: "portability-length-specialized",
        summary: "the length inside OpSpecConstantOp",
        level: Warning,
        since: "0.2.0",
        spec: "SPV_NV_cooperative_matrix, OpSpecConstantOp; seen on current drivers of NVIDIA and Mesa",
        vuids: [],
        digest: ["khr.length-specop"],
    }
}

/// The length inside `OpSpecConstantOp`.
pub(crate) fn specialized(cx: &Cx, at: InstRef, out: &mut Sink) {
    let inst = cx.inst(at);
    length(cx, at, inst.ty, inst.id(1), 1, out);
    out.report(&SPECIALIZED, at, || {
        Draft::new(
            "the length of a matrix inside OpSpecConstantOp is not in the KHR extension's text, and drivers crash",
        )
        .label(at, Part::Operand(0), "no part of a constant")
        .help("ask for the length by OpCooperativeMatrixLengthKHR where it is used")
    });
}

/// The length where it is asked for.
pub(crate) fn check(cx: &Cx, at: InstRef, out: &mut Sink) {
    let inst = cx.inst(at);
    length(cx, at, inst.ty, inst.id(0), 0, out);
}

/// The length of a matrix of SPV_NV_cooperative_matrix.
pub(crate) fn nv(cx: &Cx, at: InstRef, ty: Id, operand: usize, out: &mut Sink) {
    if cx.nv_matrix(ty).is_none() {
        let is = cx.describe_value(ty);
        out.report(&OPERAND_TYPE, at, || {
            Draft::new(format!("the length is that of a type of SPV_NV_cooperative_matrix; this is {is}")).label(
                at,
                Part::Operand(operand),
                "must be a matrix type",
            )
        });
    }
}

fn length(cx: &Cx, at: InstRef, ty: Option<Id>, operand: Option<Id>, index: usize, out: &mut Sink) {
    let scalar = ty.and_then(|t| cx.scalar(t));
    if let Some(ty) = ty
        && scalar != Some(Scalar::Int { width: 32, signed: false })
    {
        let what = cx.describe(ty);
        out.report(&RESULT_TYPE, at, || {
            Draft::new(format!("the length of a matrix is a 32-bit unsigned integer; this is {what}")).label(
                at,
                Part::Type,
                "must be u32",
            )
        });
    }
    let Some(operand) = operand else { return };
    if cx.matrix(operand).is_none() {
        let what = if cx.module.def_inst(operand).is_some_and(|i| i.op.is_type()) {
            cx.describe(operand)
        } else {
            format!("a value of type {}", cx.describe_value(operand))
        };
        out.report(&OPERAND_TYPE, at, || {
            Draft::new(format!("the length is that of a cooperative-matrix type; this is {what}")).label(
                at,
                Part::Operand(index),
                "must be a matrix type",
            )
        });
    }
}
