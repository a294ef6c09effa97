//! Rules about arithmetic on matrices, and about instructions that do not accept matrices.

use super::nv1;
use crate::cx::Cx;
use crate::declare_rule;
use crate::matrix::MatrixType;
use crate::operation::Operation;
use crate::report::{Draft, Part, Sink};
use coop_ir::types::{Scalar, Type};
use coop_ir::{Id, InstRef, Op};

declare_rule! {
    /// ## What it checks
    /// Of arithmetic, matrices take only OpFNegate, OpSNegate, OpFAdd, OpIAdd, OpFSub, OpISub, OpFMul, OpIMul, OpFDiv,
    /// OpSDiv, OpUDiv and OpMatrixTimesScalar; no remainders, bit operations, comparisons, group operations or extended
    /// instructions.
    /// ## Why
    /// The extension lists what there is.
    /// ## Example
    /// `OpExtInst %matrix %glsl FMax %m %zero`
    pub(crate) static NOT_ALLOWED = {
        id: "arithmetic-not-allowed",
        summary: "an instruction that does not take matrices",
        level: Error,
        since: "0.1.0",
        spec: "SPV_KHR_cooperative_matrix, Arithmetic Instructions",
        vuids: [],
        digest: ["khr.arith-list", "khr.no-logical-ops"],
    }
}

declare_rule! {
    /// ## What it checks
    /// OpF... instructions work on matrices of floats, OpI... and OpS... on matrices of integers, OpUDiv on matrices of
    /// unsigned integers.
    /// ## Why
    /// As for scalars.
    /// ## Example
    /// `OpFAdd` of matrices of s32.
    pub(crate) static COMPONENT = {
        id: "arithmetic-component",
        summary: "component types that do not suit the operation",
        level: Error,
        since: "0.1.0",
        spec: "SPV_KHR_cooperative_matrix, Arithmetic Instructions",
        vuids: [],
        digest: ["khr.arith-class"],
    }
}

declare_rule! {
    /// ## What it checks
    /// The operands and the result of an operation have one type, by id.
    /// ## Why
    /// Two types are different even if their constants happen to be equal.
    /// ## Example
    /// `OpFAdd %f32_16x16 %a %b` with `%b` of f16 16x16.
    pub(crate) static TYPE_MISMATCH = {
        id: "arithmetic-type-mismatch",
        summary: "operands and result have different types",
        level: Error,
        since: "0.1.0",
        spec: "SPV_KHR_cooperative_matrix, Arithmetic Instructions",
        vuids: [],
        digest: ["khr.arith-type-match", "types.signedness-ids", "nv1.no-mix"],
    }
}

declare_rule! {
    /// ## What it checks
    /// OpMatrixTimesScalar multiplies a matrix of the result's type by a scalar of its component type.
    /// ## Why
    /// As for other matrices.
    /// ## Example
    /// `OpMatrixTimesScalar` of a f16 16x16 matrix and a f32.
    pub(crate) static SCALAR_TYPE = {
        id: "arithmetic-scalar-type",
        summary: "matrix times a scalar of another type",
        level: Error,
        since: "0.1.0",
        spec: "SPV_KHR_cooperative_matrix, OpMatrixTimesScalar",
        vuids: [],
        digest: ["khr.mts-scalar"],
    }
}

declare_rule! {
    /// ## What it checks
    /// OpMatrixTimesScalar works on matrices of floats.
    /// ## Why
    /// The core text speaks of floats only. Compilers emit it for integers, and drivers accept it.
    /// ## Example
    /// `OpMatrixTimesScalar` of a s32 16x16 matrix and a s32.
    pub(crate) static SCALAR_INTEGER = {
        id: "arithmetic-scalar-integer",
        summary: "matrix times scalar with integers",
        level: Note,
        since: "0.1.0",
        spec: "SPIR-V, OpMatrixTimesScalar",
        vuids: [],
        digest: ["khr.mts-scalar"],
    }
}

declare_rule! {
    /// ## What it checks
    /// In OpenCL, OpMatrixTimesScalar is not used on cooperative matrices.
    /// ## Why
    /// The instruction needs capability Matrix, which OpenCL does not have.
    /// ## Example
    /// `OpMatrixTimesScalar` in a module with capability Kernel.
    pub(crate) static SCALAR_OPENCL = {
        id: "arithmetic-scalar-opencl",
        summary: "matrix times scalar in OpenCL",
        level: Error,
        since: "0.1.0",
        spec: "SPV_KHR_cooperative_matrix, issues",
        vuids: [],
        digest: ["khr.mts-opencl"],
    }
}

declare_rule! {
    /// ## What it checks
    /// A matrix of integers is not divided by a constant matrix of 0, nor the smallest number by a constant -1.
    /// ## Why
    /// The result is undefined, as for scalars.
    /// ## Example
    /// `OpUDiv %matrix %m %zeros` with `%zeros = OpConstantNull %matrix`
    pub(crate) static DIVIDE = {
        id: "arithmetic-divide-undefined",
        summary: "a division whose result is undefined",
        level: Warning,
        since: "0.1.0",
        spec: "SPIR-V, OpUDiv and OpSDiv",
        vuids: [],
        digest: ["khr.divide-by-zero", "khr.int-min-div"],
    }
}

declare_rule! {
    /// ## What it checks
    /// OpSelect between matrices has a scalar condition.
    /// ## Why
    /// There is no matrix of Booleans to choose component by component.
    /// ## Example
    /// `OpSelect %matrix %bvec4 %a %b`
    pub(crate) static SELECT = {
        id: "select-condition-not-scalar",
        summary: "OpSelect of matrices without a scalar condition",
        level: Error,
        since: "0.1.0",
        spec: "SPIR-V, OpSelect",
        vuids: [],
        digest: ["khr.select-scalar-cond"],
    }
}

declare_rule! {
    /// ## What it checks
    /// Matrices passed to and returned from functions have the type, by id, that the function declares.
    /// ## Why
    /// Two types are different even if their constants happen to be equal.
    /// ## Example
    /// A call with a f16 16x16 matrix for a parameter of f32 16x16.
    pub(crate) static CALL = {
        id: "call-type-mismatch",
        summary: "a matrix passed or returned with another type",
        level: Error,
        since: "0.1.0",
        spec: "SPIR-V, OpFunctionCall and OpReturnValue",
        vuids: [],
        digest: ["khr.function-cm-args"],
    }
}

/// Checks an extended instruction: no instruction of a set that computes accepts a matrix.
pub(crate) fn extended(cx: &Cx, o: &Operation, out: &mut Sink) {
    if is_semantic(cx, o.at) {
        refused(cx, o, out);
    }
}

/// Returns true if an instruction does not accept matrices: every known one, except for those that accept any type and
/// those of the matrix extensions. The types of arguments in a list are not known.
pub(crate) fn refuses_matrices(op: Op) -> bool {
    op.info().is_some() && !op.takes_any_type() && !op.is_matrix_op()
}

/// Returns true if an extended instruction is of a set that computes.
pub(crate) fn is_semantic(cx: &Cx, at: InstRef) -> bool {
    let set = cx.inst(at).ext_set().and_then(|s| cx.module.def_inst(s)).and_then(|i| i.string(0));
    // The operands of an unknown set are not known.
    set.is_some_and(|(name, _)| matches!(name.as_str(), "GLSL.std.450" | "OpenCL.std"))
}

pub(crate) fn refused(cx: &Cx, o: &Operation, out: &mut Sink) {
    let Some((matrix, part)) = o.matrix(cx) else { return };
    if let MatrixType::Nv(_) = matrix {
        nv1::refused(cx, o, out);
        return;
    }
    out.report(&NOT_ALLOWED, o.at, || {
        let name = match o.op {
            Op::ExtInst => "an extended instruction".to_owned(),
            op => op.to_string(),
        };
        Draft::new(format!("{name} does not take cooperative matrices; this is {matrix}"))
            .label(o.at, part, format!("{matrix}"))
            .help("work component by component, through a variable and OpAccessChain")
    });
}

/// Checks an operation on one or two matrices.
pub(crate) fn arithmetic(cx: &Cx, o: &Operation, integers: bool, out: &mut Sink) {
    let Some((first, _)) = o.matrix(cx) else { return };
    if matches!((first, o.op), (MatrixType::Nv(_), Op::FMul | Op::IMul)) {
        nv1::refused(cx, o, out);
        return;
    }
    let Some(result) = o.ty else { return };
    one_type(cx, o, out);
    let matrix = cx.matrix_type(result).unwrap_or(first);
    suits(cx, o, integers, matrix, out);
    if matches!(o.op, Op::SDiv | Op::UDiv) {
        division(cx, o, matrix, out);
    }
}

/// Returns true if all operands have the type of the result.
fn one_type(cx: &Cx, o: &Operation, out: &mut Sink) {
    let Some(result) = o.ty else { return };
    for (i, value) in o.ids() {
        let ty = cx.module.type_of(value);
        if ty != Some(result) && (ty.is_some() || cx.is_not_a_value(value)) {
            out.report(&TYPE_MISMATCH, o.at, || {
                let (is, wanted) = (cx.describe_value(value), cx.describe(result));
                let again = if is == wanted { "another type that looks the same, " } else { "" };
                Draft::new(format!("{} gives {wanted}, but an operand is {again}{is}", o.op))
                    .label(o.at, o.part(i), format!("this is {is}"))
                    .label_opt(cx.def(result), Part::Whole, "type of the result")
                    .label_opt(ty.and_then(|t| cx.def(t)), Part::Whole, "type of the operand")
            });
        }
    }
}

/// Returns true if the components suit the operation.
fn suits(cx: &Cx, o: &Operation, integers: bool, matrix: MatrixType, out: &mut Sink) {
    let Some(component) = matrix.component() else { return };
    let suits = match (o.op, component) {
        (Op::UDiv, Scalar::Int { signed, .. }) => !signed,
        _ => component.is_int() == integers,
    };
    if !suits {
        out.report(&COMPONENT, o.at, || {
            let works_on = match o.op {
                Op::UDiv => "unsigned integers",
                _ if integers => "integers",
                _ => "floats",
            };
            Draft::new(format!("{} works on {works_on}; this is {matrix}", o.op))
                .label(o.at, Part::Whole, format!("on {component}"))
                .label_opt(matrix.decl(cx), Part::Operand(0), format!("the component type is {component}"))
        });
    }
}

/// Returns the value of all elements of a constant matrix, if it is fixed.
fn splat(cx: &Cx, value: Id) -> Option<u64> {
    let inst = cx.module.def_inst(value)?;
    match inst.op {
        Op::ConstantNull => Some(0),
        Op::ConstantComposite | Op::SpecConstantComposite | Op::CompositeConstruct if inst.operands.len() == 1 => {
            cx.constant(inst.id(0)?).fixed()
        }
        _ => None,
    }
}

fn division(cx: &Cx, o: &Operation, matrix: MatrixType, out: &mut Sink) {
    let Some(Scalar::Int { width, .. }) = matrix.component() else { return };
    let Some(by) = o.id(1).and_then(|v| splat(cx, v)) else { return };
    let ones = if width >= 64 { u64::MAX } else { (1 << width) - 1 };
    let smallest = || o.id(0).and_then(|v| splat(cx, v)) == Some(ones ^ (ones >> 1));
    let what = if by == 0 {
        "a division by 0 is undefined"
    } else if o.op == Op::SDiv && by == ones && smallest() {
        "the smallest number divided by -1 is undefined"
    } else {
        return;
    };
    out.report(&DIVIDE, o.at, || {
        Draft::new(what)
            .label(o.at, o.part(1), if by == 0 { "every element is 0" } else { "every element is -1" })
            .label_opt(o.id(1).and_then(|v| cx.def(v)), Part::Whole, "made here")
    });
}

pub(crate) fn times_scalar(cx: &Cx, o: &Operation, out: &mut Sink) {
    let Some((matrix, _)) = o.matrix(cx) else { return };
    scalar_types(cx, o, matrix, out);
    if matrix.component().is_some_and(Scalar::is_int) {
        out.report(&SCALAR_INTEGER, o.at, || {
            Draft::new(format!("OpMatrixTimesScalar is defined for floats; this is {matrix}")).label(
                o.at,
                o.part(0),
                "accepted in practice",
            )
        });
    }
    if cx.env.is_opencl() {
        out.report(&SCALAR_OPENCL, o.at, || {
            Draft::new("OpenCL has no OpMatrixTimesScalar")
                .label(o.at, Part::Whole, "not in OpenCL")
                .help("construct a matrix of the scalar, and multiply the matrices")
        });
    }
}

/// Returns true if a matrix is multiplied by a scalar of its component type.
fn scalar_types(cx: &Cx, o: &Operation, matrix: MatrixType, out: &mut Sink) {
    let (Some(left), Some(scalar), Some(result)) = (o.id(0), o.id(1), o.ty) else { return };
    if cx.module.type_of(left) != Some(result) {
        out.report(&SCALAR_TYPE, o.at, || {
            let (is, wanted) = (cx.describe_value(left), cx.describe(result));
            Draft::new(format!("OpMatrixTimesScalar gives {wanted}, but the matrix is {is}")).label(
                o.at,
                o.part(0),
                format!("this is {is}"),
            )
        });
    } else if cx.module.type_of(scalar) != Some(matrix.component_id()) {
        out.report(&SCALAR_TYPE, o.at, || {
            let is = cx.describe_value(scalar);
            let wanted = cx.describe(matrix.component_id());
            Draft::new(format!("{matrix} is multiplied by {is}, not by a scalar of its component type {wanted}"))
                .label(o.at, o.part(1), format!("this is {is}"))
                .label_opt(cx.def(result), Part::Operand(0), format!("the component type is {wanted}"))
                .help(format!("convert the scalar to {wanted}"))
        });
    }
}

pub(crate) fn select(cx: &Cx, o: &Operation, out: &mut Sink) {
    let (Some(matrix), Some(condition)) = (o.ty.and_then(|t| cx.matrix_type(t)), o.id(0)) else { return };
    if cx.module.header.version_pair() < (1, 4) {
        out.report(&NOT_ALLOWED, o.at, || {
            Draft::new(format!("before SPIR-V 1.4 OpSelect chooses between scalars and vectors; this is {matrix}"))
                .label(o.at, Part::Type, format!("{matrix}"))
                .help("branch, or compile for SPIR-V 1.4")
        });
    }
    let ty = cx.module.type_of(condition).and_then(|t| Type::of(cx.module, t));
    if ty != Some(Type::Bool) {
        let is = cx.describe_value(condition);
        out.report(&SELECT, o.at, || {
            Draft::new(format!("OpSelect of {matrix} needs a scalar Boolean; the condition is {is}")).label(
                o.at,
                o.part(0),
                format!("this is {is}"),
            )
        });
    }
}

pub(crate) fn call(cx: &Cx, at: InstRef, out: &mut Sink) {
    let inst = cx.inst(at);
    let Some(function) = inst.callee().and_then(|f| cx.module.def_inst(f)) else { return };
    // Decoded in place: a function may have more parameters than are worth copying for each call.
    let ty = function.function_type().and_then(|t| cx.module.def_inst(t)).filter(|i| i.op == Op::TypeFunction);
    let Some((ty, ret)) = ty.and_then(|t| Some((t, t.id(0)?))) else { return };
    let concerns = |a: Id, b: Id| cx.matrix_type(a).is_some() || cx.matrix_type(b).is_some();
    if let Some(ty) = inst.ty
        && ty != ret
        && concerns(ty, ret)
    {
        out.report(&CALL, at, || {
            Draft::new(format!("the call gives {}, the function {}", cx.describe(ty), cx.describe(ret)))
                .label(at, Part::Type, cx.describe(ty))
                .label_opt(inst.callee().and_then(|f| cx.def(f)), Part::Type, cx.describe(ret))
        });
    }
    let (given, taken) = (inst.ids_from(1).count(), ty.ids_from(1).count());
    let matrix = |t: Id| cx.matrix_type(t).is_some();
    let any = || inst.ids_from(1).any(|a| cx.module.type_of(a).is_some_and(matrix)) || ty.ids_from(1).any(matrix);
    if given != taken && any() {
        out.report(&CALL, at, || {
            Draft::new(format!("the call has {given} arguments, the function {taken} parameters"))
                .label(at, Part::Whole, format!("{given} arguments"))
                .label_opt(inst.callee().and_then(|f| cx.def(f)), Part::Whole, "the function")
        });
    }
    for (i, (argument, wanted)) in inst.ids_from(1).zip(ty.ids_from(1)).enumerate() {
        let Some(ty) = cx.module.type_of(argument) else { continue };
        if ty != wanted && concerns(ty, wanted) {
            out.report(&CALL, at, || {
                let (is, wanted) = (cx.describe(ty), cx.describe(wanted));
                Draft::new(format!("argument {} is {is}, the parameter {wanted}", i + 1))
                    .label(at, Part::Operand(i + 1), format!("this is {is}"))
                    .label_opt(inst.callee().and_then(|f| cx.def(f)), Part::Whole, "the function")
            });
        }
    }
}

/// Checks the types of functions and their returns.
pub(crate) fn functions(cx: &Cx, out: &mut Sink) {
    let matrix = |t: Id| cx.matrix_type(t).is_some();
    for f in &cx.module.functions {
        let def = cx.inst(f.def);
        let Some(ret) = def.ty else { continue };
        let ty = def.function_type().and_then(|t| cx.module.def_inst(t)).filter(|t| t.op == Op::TypeFunction);
        // Most functions have no matrices in their types.
        if let Some(ty) = ty {
            let said = ty.id(0).filter(|r| *r != ret && (matrix(*r) || matrix(ret)));
            if let Some(said) = said {
                mismatch(cx, (f.def, Part::Type, ret), "the function returns", said, out);
            }
            let params = f.params.iter().filter(|p| cx.inst(**p).op == Op::FunctionParameter);
            for (param, said) in params.zip(ty.ids_from(1)) {
                if let Some(is) = cx.inst(*param).ty.filter(|t| *t != said && (matrix(*t) || matrix(said))) {
                    mismatch(cx, (*param, Part::Type, is), "the parameter is", said, out);
                }
            }
        }
        for at in f.blocks.iter().filter_map(|b| b.terminator()) {
            returned(cx, f.def, ret, at, out);
        }
    }
}

/// Reports a type that differs from the one in the type of the function.
fn mismatch(cx: &Cx, (at, part, is): (InstRef, Part, Id), what: &str, said: Id, out: &mut Sink) {
    out.report(&CALL, at, || {
        let (is, said) = (cx.describe(is), cx.describe(said));
        Draft::new(format!("{what} {is}, which is {said} in the function's type")).label(at, part, is)
    });
}

/// Checks the value that a terminator returns.
fn returned(cx: &Cx, function: InstRef, ret: Id, at: InstRef, out: &mut Sink) {
    let inst = cx.inst(at);
    let is = match inst.op {
        Op::ReturnValue => inst.returned().and_then(|v| cx.module.type_of(v)),
        Op::Return => None,
        _ => return,
    };
    let known = is.is_some() || inst.op == Op::Return;
    let matrix = |t: Id| cx.matrix_type(t).is_some();
    if known && is != Some(ret) && (matrix(ret) || is.is_some_and(matrix)) {
        out.report(&CALL, at, || {
            let wanted = cx.describe(ret);
            let is = is.map_or_else(|| "nothing".to_owned(), |t| cx.describe(t));
            let part = if inst.op == Op::Return { Part::Whole } else { Part::Operand(0) };
            Draft::new(format!("{is} is returned from a function of {wanted}"))
                .label(at, part, format!("this is {is}"))
                .label(function, Part::Type, format!("returns {wanted}"))
        });
    }
}
