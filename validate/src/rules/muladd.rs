//! Rules about `OpCooperativeMatrixMulAddKHR`: A is M x K, B is K x N, C and the result are M x N.

use super::intel;
use crate::cx::Cx;
use crate::declare_rule;
use crate::report::{Draft, Part, Sink};
use crate::rule::Rule;
use crate::verdict::Verdict;
use coop_ir::constant::Const;
use coop_ir::spv::{Capability, CooperativeMatrixOperands as Mask};
use coop_ir::types::{CoopMatView, Scalar, scope_name, use_name};
use coop_ir::{Id, Inst, InstRef, Kind};

declare_rule! {
    /// ## What it checks
    /// A, B, C and the result are matrices of SPV_KHR_cooperative_matrix.
    /// ## Why
    /// Nothing else can be multiplied by this instruction; matrices of SPV_NV_cooperative_matrix have their own.
    /// ## Example
    /// `OpCooperativeMatrixMulAddKHR %acc %a %b %zero` with `%zero = OpConstant %float 0`
    pub(crate) static OPERAND_NOT_MATRIX = {
        id: "muladd-operand-not-matrix",
        summary: "an operand or the result is not a cooperative matrix",
        level: Error,
        since: "0.1.0",
        spec: "SPV_KHR_cooperative_matrix, OpCooperativeMatrixMulAddKHR",
        vuids: [],
        digest: ["khr.muladd-types", "nv1.no-mix"],
    }
}

declare_rule! {
    /// ## What it checks
    /// Use is A for the operand A, B for B, and Accumulator for C and the result.
    /// ## Why
    /// The use decides how a matrix is spread over invocations, and the hardware expects each in its place.
    /// ## Example
    /// The operand B is a matrix with use A: the operands were exchanged.
    pub(crate) static USE_MISMATCH = {
        id: "muladd-use-mismatch",
        summary: "a matrix stands where its Use does not belong",
        level: Error,
        since: "0.1.0",
        spec: "SPV_KHR_cooperative_matrix, OpCooperativeMatrixMulAddKHR",
        vuids: [],
        digest: ["khr.muladd-use-a", "khr.muladd-use-b", "khr.muladd-use-c", "khr.muladd-use-result"],
    }
}

declare_rule! {
    /// ## What it checks
    /// A, B, C and the result have the same Scope.
    /// ## Why
    /// The invocations that hold the operands compute the result together.
    /// ## Example
    /// A and B of scope Subgroup, C and the result of scope Workgroup.
    pub(crate) static SCOPE_MISMATCH = {
        id: "muladd-scope-mismatch",
        summary: "operands and result have different scopes",
        level: Error,
        since: "0.1.0",
        spec: "SPV_KHR_cooperative_matrix, OpCooperativeMatrixMulAddKHR",
        vuids: [],
        digest: ["khr.muladd-scope"],
    }
}

declare_rule! {
    /// ## What it checks
    /// A, C and the result have the same number of rows.
    /// ## Why
    /// A is M x K, and C and the result are M x N.
    /// ## Example
    /// A is f16 16x16, C is f32 8x16.
    pub(crate) static M_MISMATCH = {
        id: "muladd-m-mismatch",
        summary: "A, C and the result differ in rows",
        level: Error,
        since: "0.1.0",
        spec: "SPV_KHR_cooperative_matrix, OpCooperativeMatrixMulAddKHR",
        vuids: [],
        digest: ["khr.muladd-m"],
    }
}

declare_rule! {
    /// ## What it checks
    /// B, C and the result have the same number of columns.
    /// ## Why
    /// B is K x N, and C and the result are M x N.
    /// ## Example
    /// B is f16 16x8, C is f32 16x16.
    pub(crate) static N_MISMATCH = {
        id: "muladd-n-mismatch",
        summary: "B, C and the result differ in columns",
        level: Error,
        since: "0.1.0",
        spec: "SPV_KHR_cooperative_matrix, OpCooperativeMatrixMulAddKHR",
        vuids: [],
        digest: ["khr.muladd-n"],
    }
}

declare_rule! {
    /// ## What it checks
    /// A has as many columns as B has rows.
    /// ## Why
    /// The product of an M x K and a K x N matrix needs one K.
    /// ## Example
    /// A is f16 16x16, B is f16 8x16.
    pub(crate) static K_MISMATCH = {
        id: "muladd-k-mismatch",
        summary: "K of A differs from K of B",
        level: Error,
        since: "0.1.0",
        spec: "SPV_KHR_cooperative_matrix, OpCooperativeMatrixMulAddKHR",
        vuids: [],
        digest: ["khr.muladd-k"],
    }
}

declare_rule! {
    /// ## What it checks
    /// The bits `Matrix...SignedComponentsKHR` are set only for matrices of integers.
    /// ## Why
    /// They say how integers are extended; floats have their sign.
    /// ## Example
    /// `MatrixASignedComponentsKHR` with A of f16.
    pub(crate) static SIGNED_NOT_INTEGER = {
        id: "muladd-signed-not-integer",
        summary: "a SignedComponents bit for a matrix of floats",
        level: Error,
        since: "0.1.0",
        spec: "SPV_KHR_cooperative_matrix, 2.16.1 Universal Validation Rules",
        vuids: [],
        digest: ["khr.muladd-signed-int-only"],
    }
}

declare_rule! {
    /// ## What it checks
    /// The Cooperative Matrix Operands have no bit that is not defined.
    /// ## Why
    /// A consumer may do anything with a bit that it does not know.
    /// ## Example
    /// A mask of `0x200`.
    pub(crate) static OPERANDS_UNKNOWN = {
        id: "muladd-operands-unknown",
        summary: "undefined bits in the Cooperative Matrix Operands",
        level: Error,
        since: "0.1.0",
        spec: "SPV_KHR_cooperative_matrix, Cooperative Matrix Operands",
        vuids: [],
        digest: ["khr.muladd-mask-known"],
    }
}

declare_rule! {
    /// ## What it checks
    /// `SaturatingAccumulationKHR` is set only when the result is a matrix of integers.
    /// ## Why
    /// Its meaning for floats is not defined, and no device supports it.
    /// ## Example
    /// `SaturatingAccumulationKHR` with a result of f32.
    pub(crate) static SATURATING_FLOAT = {
        id: "muladd-saturating-float",
        summary: "saturating accumulation of floats",
        level: Warning,
        since: "0.1.0",
        spec: "SPV_KHR_cooperative_matrix, OpCooperativeMatrixMulAddKHR",
        vuids: [],
        digest: ["khr.muladd-sat-int"],
    }
}

declare_rule! {
    /// ## What it checks
    /// In a shader, the SignedComponents bit of a matrix of integers is set exactly if its component type is declared
    /// signed.
    /// ## Why
    /// The bit decides how the integers are read, the declaration does not: if they disagree, one of them is likely
    /// a mistake. It is legal, though.
    /// ## Example
    /// A of s8 without `MatrixASignedComponentsKHR`: its bytes are read as 0 to 255.
    pub(crate) static SIGNED_DISAGREES = {
        id: "muladd-signed-disagrees",
        summary: "a SignedComponents bit disagrees with the component type",
        level: Note,
        since: "0.1.0",
        spec: "SPV_KHR_cooperative_matrix, OpCooperativeMatrixMulAddKHR",
        vuids: [],
        digest: ["khr.muladd-sign-vs-type"],
    }
}

declare_rule! {
    /// ## What it checks
    /// No matrix of integers that goes in has wider components than the result.
    /// ## Why
    /// Components are extended to the width of the result; what becomes of wider ones is not defined.
    /// ## Example
    /// C of s32 and a result of s8.
    pub(crate) static COMPONENT_WIDER = {
        id: "muladd-component-wider",
        summary: "integers that go in are wider than the result",
        level: Warning,
        since: "0.1.0",
        spec: "SPV_KHR_cooperative_matrix, OpCooperativeMatrixMulAddKHR",
        vuids: [],
        digest: ["khr.muladd-widen"],
    }
}

/// A matrix operand with its role.
struct Role<'a> {
    name: &'static str,
    part: Part,
    /// The Use of this role.
    use_: u64,
    /// The bit for signed integers.
    signed_bit: u32,
    matrix: &'a CoopMatView,
}

pub(crate) fn muladd<'a>(cx: &'a Cx, at: InstRef, out: &mut Sink) {
    let inst = cx.inst(at);
    let mask = inst.matrix_operands().0;
    operands_known(cx, at, inst, mask, out);
    let Some(roles) = roles(cx, at, inst, out) else { return };
    let [a, b, c, result] = &roles;

    for role in &roles {
        uses(cx, at, role, out);
    }
    for (other, against) in [(b, a), (c, a), (result, a)] {
        let verdict = cx.equal(other.matrix.ty.scope, against.matrix.ty.scope);
        out.judge(&SCOPE_MISMATCH, verdict, at, || {
            let name = |m: &CoopMatView| m.scope.value().and_then(scope_name).unwrap_or("unknown");
            Draft::new(format!(
                "{} has scope {}, {} has scope {}",
                other.name,
                name(other.matrix),
                against.name,
                name(against.matrix)
            ))
            .label(at, Part::Whole, "multiplied here")
            .label_opt(cx.decl(against.matrix), Part::Operand(1), declares(against, "scope", name(against.matrix)))
            .label_opt(
                cx.decl(other.matrix),
                Part::Operand(1),
                declares(other, "scope", name(other.matrix)),
            )
        });
    }
    for (other, against) in [(c, a), (result, a)] {
        dimension(cx, &M_MISMATCH, at, ("M", "rows"), (against, rows), (other, rows), out);
    }
    for (other, against) in [(c, b), (result, b)] {
        dimension(cx, &N_MISMATCH, at, ("N", "columns"), (against, cols), (other, cols), out);
    }
    dimension(cx, &K_MISMATCH, at, ("K", ""), (a, cols), (b, rows), out);
    signs(cx, at, &roles, mask, out);
    if mask & 0x1e0 != 0 {
        let of = |r: &Role<'a>| (r.name, r.part, r.matrix, mask & r.signed_bit != 0);
        intel::muladd(cx, at, mask, [of(a), of(b), of(c), of(result)], out);
    }
    widths(cx, at, &roles, out);
}

/// Returns the four matrices; reports operands that are not matrices.
fn roles<'a>(cx: &'a Cx, at: InstRef, inst: &Inst, out: &mut Sink) -> Option<[Role<'a>; 4]> {
    let mut role = |name, part, use_, signed_bit: Mask, ty: Option<Id>, value: Option<Id>| {
        let matrix = ty.and_then(|t| cx.matrix(t));
        if matrix.is_none() {
            let what = match (ty, value) {
                (Some(ty), _) => cx.describe(ty),
                (None, Some(value)) => cx.describe_value(value),
                (None, None) => "missing".into(),
            };
            out.report(&OPERAND_NOT_MATRIX, at, || {
                Draft::new(format!("{name} must be a cooperative matrix; this is {what}")).label(
                    at,
                    part,
                    format!("this is {what}"),
                )
            });
        }
        matrix.map(|matrix| Role { name, part, use_, signed_bit: signed_bit.0, matrix })
    };
    let ty = |i: usize| inst.id(i).and_then(|v| cx.module.type_of(v));
    let a = role("A", Part::Operand(0), 0, Mask::MatrixASignedComponentsKHR, ty(0), inst.id(0));
    let b = role("B", Part::Operand(1), 1, Mask::MatrixBSignedComponentsKHR, ty(1), inst.id(1));
    let c = role("C", Part::Operand(2), 2, Mask::MatrixCSignedComponentsKHR, ty(2), inst.id(2));
    let r = role("the result", Part::Type, 2, Mask::MatrixResultSignedComponentsKHR, inst.ty, None);
    Some([a?, b?, c?, r?])
}

fn rows(m: &CoopMatView) -> (Id, usize, &Const) {
    (m.ty.rows, 2, &m.rows)
}

fn cols(m: &CoopMatView) -> (Id, usize, &Const) {
    (m.ty.cols, 3, &m.cols)
}

/// Returns a label for a declaration, shortened so that the longest type fits.
fn declares(role: &Role, what: &str, value: impl std::fmt::Display) -> String {
    let long = format!("{} is {}: {what} = {value}", role.name, role.matrix);
    if long.chars().count() <= 60 { long } else { format!("{}: {what} = {value}", role.name) }
}

type Dimension = fn(&CoopMatView) -> (Id, usize, &Const);

fn dimension(
    cx: &Cx,
    rule: &'static Rule,
    at: InstRef,
    (letter, noun): (&str, &str),
    (first, of_first): (&Role, Dimension),
    (second, of_second): (&Role, Dimension),
    out: &mut Sink,
) {
    let (first_id, first_operand, first_value) = of_first(first.matrix);
    let (second_id, second_operand, second_value) = of_second(second.matrix);
    out.judge(rule, cx.equal(first_id, second_id), at, || {
        let (x, y) = (first.name, second.name);
        let help = match letter {
            "K" => "give A as many columns as B has rows".to_owned(),
            _ => format!("give {x} and {y} the same number of {noun}"),
        };
        Draft::new(format!("{letter} of {x} ({first_value}) differs from {letter} of {y} ({second_value})"))
            .label(at, Part::Whole, "multiplied here")
            .label_opt(cx.decl(first.matrix), Part::Operand(first_operand), declares(first, letter, first_value))
            .label_opt(cx.decl(second.matrix), Part::Operand(second_operand), declares(second, letter, second_value))
            .help(help)
    });
}

fn uses(cx: &Cx, at: InstRef, role: &Role, out: &mut Sink) {
    let verdict = Verdict::of(&role.matrix.use_, |v| v == role.use_);
    out.judge(&USE_MISMATCH, verdict, at, || {
        let wanted = use_name(role.use_).unwrap_or("?");
        let is = match role.matrix.use_.value().and_then(use_name) {
            Some(name) => name.to_owned(),
            None => role.matrix.use_.to_string(),
        };
        Draft::new(format!("{} must have use {wanted}; it is {}", role.name, role.matrix))
            .label(at, role.part, format!("must have use {wanted}"))
            .label_opt(cx.decl(role.matrix), Part::Operand(4), format!("use {is}"))
    });
}

fn operands_known(cx: &Cx, at: InstRef, inst: &Inst, mask: u32, out: &mut Sink) {
    // Four more bits that one vendor's compiler uses internally.
    let private = if cx.has(Capability::Kernel) { 0x3c00 } else { 0 };
    let unknown = (0..32)
        .map(|i| 1u32 << i)
        .filter(|bit| mask & !private & bit != 0 && Kind::CooperativeMatrixOperands.enumerant(*bit).is_none())
        .fold(0, |all, bit| all | bit);
    let message = match inst.operands.len() {
        _ if unknown != 0 => format!("the bits {unknown:#x} of the Cooperative Matrix Operands are not defined"),
        more @ 5.. => format!("{} words follow the Cooperative Matrix Operands, the last operand", more - 4),
        _ => return,
    };
    out.report(&OPERANDS_UNKNOWN, at, || {
        Draft::new(message).label(at, Part::Operand(3), format!("the mask is {mask:#x}"))
    });
}

fn signs(cx: &Cx, at: InstRef, roles: &[Role; 4], mask: u32, out: &mut Sink) {
    let shader = cx.has(Capability::Shader);
    for role in roles {
        let set = mask & role.signed_bit != 0;
        let Some(component) = role.matrix.component else { continue };
        match component {
            Scalar::Int { signed, .. } if shader && signed != set => {
                out.report(&SIGNED_DISAGREES, at, || {
                    let (is, as_) = if set { ("set", "signed") } else { ("clear", "unsigned") };
                    Draft::new(format!(
                        "{} is {}, but its SignedComponents bit is {is}: its integers are read as {as_}",
                        role.name, role.matrix
                    ))
                    .label(at, role.part, format!("{component} read as {as_}"))
                });
            }
            Scalar::Int { .. } => {}
            _ if set => {
                out.report(&SIGNED_NOT_INTEGER, at, || {
                    Draft::new(format!("the SignedComponents bit of {} is set, but it is {}", role.name, role.matrix))
                        .label(at, role.part, format!("{component} is not an integer"))
                        .label(at, Part::Operand(3), format!("the mask is {mask:#x}"))
                        .help("clear the bit")
                });
            }
            _ => {}
        }
    }
    let result = &roles[3];
    let saturates = mask & Mask::SaturatingAccumulationKHR.0 != 0;
    if saturates && result.matrix.component.is_some_and(Scalar::is_float) {
        out.report(&SATURATING_FLOAT, at, || {
            Draft::new(format!("SaturatingAccumulationKHR is not defined for a result of {}", result.matrix))
                .label(at, Part::Operand(3), format!("the mask is {mask:#x}"))
                .help("clear the bit")
        });
    }
}

fn widths(cx: &Cx, at: InstRef, roles: &[Role; 4], out: &mut Sink) {
    let [inputs @ .., result] = roles;
    let Some(Scalar::Int { width: narrow, .. }) = result.matrix.component else { return };
    for role in inputs {
        let Some(Scalar::Int { width, .. }) = role.matrix.component else { continue };
        if width > narrow {
            out.report(&COMPONENT_WIDER, at, || {
                Draft::new(format!(
                    "{} has components of {width} bits and the result of {narrow}: what is kept is not defined",
                    role.name
                ))
                .label(at, role.part, format!("{}", role.matrix))
                .label_opt(
                    cx.decl(result.matrix),
                    Part::Operand(0),
                    format!("the result is {}", result.matrix),
                )
            });
        }
    }
}
