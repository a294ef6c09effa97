//! Rules about `OpCooperativeMatrixLengthKHR` and `OpCooperativeMatrixLengthNV`.

use crate::cx::Cx;
use crate::declare_rule;
use crate::operation::Operation;
use crate::report::{Draft, Part, Sink};
use coop_ir::Op;
use coop_ir::types::Scalar;

declare_rule! {
    /// ## What it checks
    /// The result type of `OpCooperativeMatrixLengthKHR` and of `OpCooperativeMatrixLengthNV` is a 32-bit unsigned integer.
    /// ## Why
    /// The specification requires it; consumers rely on it.
    /// ## Example
    /// `OpCooperativeMatrixLengthKHR %int %matrix`
    pub(crate) static RESULT_TYPE = {
        id: "length-result-type",
        summary: "the length is not a 32-bit unsigned integer",
        level: Error,
        since: "0.1.0",
        spec: "SPV_KHR_cooperative_matrix, OpCooperativeMatrixLengthKHR",
        vuids: [],
        digest: ["khr.length-type"],
    }
}

declare_rule! {
    /// ## What it checks
    /// The operand of `OpCooperativeMatrixLengthKHR` is a cooperative-matrix type, not a value of one; that of
    /// `OpCooperativeMatrixLengthNV` is a type of SPV_NV_cooperative_matrix.
    /// ## Why
    /// The length belongs to the type. Early translators passed a value, and such modules are still around.
    /// ## Example
    /// `OpCooperativeMatrixLengthKHR %uint %loaded_matrix`
    pub(crate) static OPERAND_TYPE = {
        id: "length-operand-type",
        summary: "the length of something that is not a matrix type",
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

/// Checks the length of a matrix type of either extension.
pub(crate) fn check(cx: &Cx, o: &Operation, out: &mut Sink) {
    result(cx, o, out);
    operand(cx, o, out);
    if o.is_specialized() && o.op == Op::CooperativeMatrixLengthKHR {
        out.report(&SPECIALIZED, o.at, || {
            Draft::new(
                "the length of a matrix inside OpSpecConstantOp is not in the KHR extension's text, and drivers crash",
            )
            .label(o.at, Part::Operand(0), "no part of a constant")
            .help("ask for the length by OpCooperativeMatrixLengthKHR where it is used")
        });
    }
}

fn result(cx: &Cx, o: &Operation, out: &mut Sink) {
    let Some(ty) = o.ty.filter(|t| cx.scalar(*t) != Some(Scalar::Int { width: 32, signed: false })) else { return };
    let what = cx.describe(ty);
    out.report(&RESULT_TYPE, o.at, || {
        Draft::new(format!("the length of a matrix is a 32-bit unsigned integer; this is {what}")).label(
            o.at,
            Part::Type,
            "must be u32",
        )
    });
}

fn operand(cx: &Cx, o: &Operation, out: &mut Sink) {
    let Some(operand) = o.id(0) else { return };
    let (suits, wanted) = match o.op {
        Op::CooperativeMatrixLengthNV => (cx.nv_matrix(operand).is_some(), "type of SPV_NV_cooperative_matrix"),
        _ => (cx.matrix(operand).is_some(), "cooperative-matrix type"),
    };
    if suits {
        return;
    }
    let what = if cx.module.def_inst(operand).is_some_and(|i| i.op.is_type()) {
        cx.describe(operand)
    } else {
        format!("a value of type {}", cx.describe_value(operand))
    };
    out.report(&OPERAND_TYPE, o.at, || {
        Draft::new(format!("the length is that of a {wanted}; this is {what}")).label(
            o.at,
            o.part(0),
            "must be a matrix type",
        )
    });
}
