//! Rules about SPV_QCOM_cooperative_matrix_conversion: matrices to and from arrays, a row or a column for each lane.

use super::callback::is_int32;
use crate::cx::Cx;
use crate::declare_rule;
use crate::report::{Draft, Part, Sink};
use crate::rule::Rule;
use crate::verdict::Verdict;
use coop_ir::constant::Const;
use coop_ir::spv::Scope;
use coop_ir::types::{CoopMatView, Scalar, Type, scope_name};
use coop_ir::{Id, InstRef, Op};

declare_rule! {
    /// ## What it checks
    /// Arrays that are cast, cut or made of matrices have one dimension, of 32-bit integers, f16 or f32.
    /// ## Why
    /// These are what a lane's registers hold.
    /// ## Example
    /// `OpBitCastArrayQCOM` of an array of f64.
    pub(crate) static ARRAY = {
        id: "qcom-array-type",
        summary: "something that is not an array of 32-bit integers, f16 or f32",
        level: Error,
        since: "0.2.0",
        spec: "SPV_QCOM_cooperative_matrix_conversion",
        vuids: [],
        digest: ["qcom.bitcast-arrays", "qcom.subarray-types"],
    }
}

declare_rule! {
    /// ## What it checks
    /// `OpBitCastArrayQCOM` keeps the size in bytes.
    /// ## Why
    /// Bits are neither made nor lost.
    /// ## Example
    /// From 8 f32 to 8 f16.
    pub(crate) static BITCAST = {
        id: "qcom-bitcast-size",
        summary: "a cast of arrays changes the size",
        level: Error,
        since: "0.2.0",
        spec: "SPV_QCOM_cooperative_matrix_conversion, OpBitCastArrayQCOM",
        vuids: [],
        digest: ["qcom.bitcast-arrays"],
    }
}

declare_rule! {
    /// ## What it checks
    /// A matrix that is made of arrays, or taken apart into some, has scope Subgroup.
    /// ## Why
    /// Lane i has row (or column) i.
    /// ## Example
    /// `OpCompositeExtractCoopMatQCOM` of a matrix of scope Workgroup.
    pub(crate) static SCOPE = {
        id: "qcom-scope",
        summary: "a matrix that is spread over lanes does not have scope Subgroup",
        level: Error,
        since: "0.2.0",
        spec: "SPV_QCOM_cooperative_matrix_conversion, OpCompositeConstructCoopMatQCOM and ExtractCoopMatQCOM",
        vuids: [],
        digest: ["qcom.scope"],
    }
}

declare_rule! {
    /// ## What it checks
    /// The array of a lane has elements of the matrix's component type, or u32.
    /// ## Why
    /// A row is given as it is, or packed into words.
    /// ## Example
    /// An array of f32 for a matrix of f16.
    pub(crate) static ELEMENT = {
        id: "qcom-element-type",
        summary: "the array of a lane has other elements than the matrix",
        level: Error,
        since: "0.2.0",
        spec: "SPV_QCOM_cooperative_matrix_conversion, OpCompositeConstructCoopMatQCOM and ExtractCoopMatQCOM",
        vuids: [],
        digest: ["qcom.elem-type"],
    }
}

declare_rule! {
    /// ## What it checks
    /// A and B are of 8-bit integers, f16 or f32, accumulators of 32-bit integers, f16 or f32.
    /// ## Why
    /// The extension has no others.
    /// ## Example
    /// An accumulator of s8.
    pub(crate) static COMPONENT = {
        id: "qcom-component",
        summary: "components that the extension does not have",
        level: Error,
        since: "0.2.0",
        spec: "SPV_QCOM_cooperative_matrix_conversion, OpCompositeConstructCoopMatQCOM and ExtractCoopMatQCOM",
        vuids: [],
        digest: ["qcom.a-shape", "qcom.b-shape", "qcom.acc-component"],
    }
}

declare_rule! {
    /// ## What it checks
    /// K of A (its columns) and of B (its rows) is 256 bits: 32 8-bit integers, 16 f16 or 8 f32.
    /// ## Why
    /// A lane has 8 registers for it.
    /// ## Example
    /// A of f16 16x32.
    pub(crate) static SHAPE = {
        id: "qcom-shape",
        summary: "K of a matrix is not 256 bits",
        level: Error,
        since: "0.2.0",
        spec: "SPV_QCOM_cooperative_matrix_conversion, OpCompositeConstructCoopMatQCOM and ExtractCoopMatQCOM",
        vuids: [],
        digest: ["qcom.a-shape", "qcom.b-shape"],
    }
}

declare_rule! {
    /// ## What it checks
    /// The array of a lane is as long as K for A and B (8 for u32), and as the columns for accumulators (half of them for
    /// f16 in u32).
    /// ## Why
    /// It holds one row, or one column of B.
    /// ## Example
    /// 8 f16 for A of f16 16x16.
    pub(crate) static LENGTH = {
        id: "qcom-array-length",
        summary: "the array of a lane has the wrong length",
        level: Error,
        since: "0.2.0",
        spec: "SPV_QCOM_cooperative_matrix_conversion, OpCompositeConstructCoopMatQCOM and ExtractCoopMatQCOM",
        vuids: [],
        digest: ["qcom.array-length"],
    }
}

declare_rule! {
    /// ## What it checks
    /// `OpExtractSubArrayQCOM` keeps the element type.
    /// ## Why
    /// It gives a part of an array.
    /// ## Example
    /// From an array of f32 to one of f16.
    pub(crate) static SUBARRAY = {
        id: "qcom-subarray-type",
        summary: "a part of an array has other elements",
        level: Error,
        since: "0.2.0",
        spec: "SPV_QCOM_cooperative_matrix_conversion, OpExtractSubArrayQCOM",
        vuids: [],
        digest: ["qcom.subarray-types"],
    }
}

declare_rule! {
    /// ## What it checks
    /// Start of `OpExtractSubArrayQCOM` is a 32-bit integer; where it is fixed, the part lies in the array.
    /// ## Why
    /// Elements outside are undefined. The specification has a signed integer; unsigned ones are accepted everywhere.
    /// ## Example
    /// 8 elements from 12 on of an array of 16.
    pub(crate) static BOUNDS = {
        id: "qcom-subarray-start",
        summary: "a part of an array begins at the wrong place",
        level: Error,
        since: "0.2.0",
        spec: "SPV_QCOM_cooperative_matrix_conversion, OpExtractSubArrayQCOM",
        vuids: [],
        digest: ["qcom.subarray-start"],
    }
}

declare_rule! {
    /// ## What it checks
    /// In Vulkan, a fixed Start of `OpExtractSubArrayQCOM` is a multiple of the length of the part.
    /// ## Why
    /// Parts are those of K elements each.
    /// ## Example
    /// 8 elements from 4 on.
    pub(crate) static MULTIPLE = {
        id: "qcom-subarray-multiple",
        summary: "a part of an array begins between two parts",
        level: Warning,
        since: "0.2.0",
        spec: "Vulkan, Runtime SPIR-V Validation",
        vuids: ["VUID-RuntimeSpirv-OpExtractSubArrayQCOM-12354"],
        digest: ["qcom.subarray-k-multiple"],
    }
}

/// An array of one dimension: its element type, and its length.
struct Array {
    ty: Id,
    elem: Id,
    scalar: Scalar,
    len: Const,
}

/// Returns the array type `ty`; reports if it is not an allowed one.
fn array(cx: &Cx, at: InstRef, ty: Option<Id>, part: Part, out: &mut Sink) -> Option<Array> {
    let ty = ty?;
    let found = match Type::of(cx.module, ty) {
        Some(Type::Array { elem, len }) => {
            cx.scalar(elem).map(|scalar| Array { ty, elem, scalar, len: cx.constant(len) })
        }
        _ => None,
    };
    // The arrays of lanes for A and B of 8-bit integers may have these elements.
    let lanes = matches!(cx.inst(at).op, Op::CompositeConstructCoopMatQCOM | Op::CompositeExtractCoopMatQCOM);
    let suits = |a: &Array| match a.scalar {
        Scalar::Int { width: 8, .. } => lanes,
        scalar => matches!(scalar, Scalar::Int { width: 32, .. } | Scalar::Float { width: 16 | 32 }),
    };
    let found = found.filter(suits);
    if found.is_none() {
        out.report(&ARRAY, at, || {
            let is = match Type::of(cx.module, ty) {
                Some(Type::Array { elem, .. }) => format!("an array of {}", cx.describe(elem)),
                _ => cx.describe(ty),
            };
            Draft::new(format!("{} works on arrays of 32-bit integers, f16 or f32; this is {is}", cx.inst(at).op))
                .label(at, part, format!("this is {is}"))
        });
    }
    found
}

/// `OpBitCastArrayQCOM`.
pub(crate) fn bitcast(cx: &Cx, at: InstRef, out: &mut Sink) {
    let inst = cx.inst(at);
    let from = array(cx, at, inst.id(0).and_then(|v| cx.module.type_of(v)), Part::Operand(0), out);
    let to = array(cx, at, inst.ty, Part::Type, out);
    let (Some(from), Some(to)) = (from, to) else { return };
    let bytes = |a: &Array| a.len.fixed().and_then(|n| n.checked_mul(a.scalar.bytes().into()));
    if let (Some(a), Some(b)) = (bytes(&from), bytes(&to))
        && a != b
    {
        out.report(&BITCAST, at, || {
            Draft::new(format!("a cast of arrays keeps the size; this one goes from {a} bytes to {b}"))
                .label(at, Part::Whole, "cast here")
                .label_opt(cx.def(from.ty), Part::Whole, format!("{a} bytes"))
                .label_opt(cx.def(to.ty), Part::Whole, format!("{b} bytes"))
        });
    }
}

/// `OpCompositeConstructCoopMatQCOM` and `OpCompositeExtractCoopMatQCOM`.
pub(crate) fn composite(cx: &Cx, at: InstRef, out: &mut Sink) {
    let inst = cx.inst(at);
    let operand = inst.id(0).and_then(|v| cx.module.type_of(v));
    let constructs = inst.op == Op::CompositeConstructCoopMatQCOM;
    let (matrix, matrix_part, lane, lane_part) = if constructs {
        (inst.ty, Part::Type, operand, Part::Operand(0))
    } else {
        (operand, Part::Operand(0), inst.ty, Part::Type)
    };
    let lane = array(cx, at, lane, lane_part, out);
    let Some(matrix) = matrix.and_then(|t| cx.matrix(t)) else {
        let is = matrix.map(|t| cx.describe(t)).unwrap_or_default();
        out.report(&ARRAY, at, || {
            Draft::new(format!("{} goes between a matrix and an array; this is {is}", inst.op)).label(
                at,
                matrix_part,
                format!("this is {is}"),
            )
        });
        return;
    };
    out.judge(&SCOPE, Verdict::of(&matrix.scope, |s| s == u64::from(Scope::Subgroup.0)), at, || {
        let is = matrix.scope.value().and_then(scope_name).unwrap_or("unknown");
        Draft::new(format!("a matrix that is spread over lanes has scope Subgroup; this is {matrix}"))
            .label(at, matrix_part, format!("{matrix}"))
            .label_opt(cx.decl(matrix), Part::Operand(1), format!("scope {is}"))
    });
    shape(cx, at, matrix, matrix_part, out);
    if let Some(lane) = lane {
        lanes(cx, at, matrix, &lane, lane_part, out);
    }
}

fn shape(cx: &Cx, at: InstRef, m: &CoopMatView, part: Part, out: &mut Sink) {
    let (Some(component), Some(use_)) = (m.component, m.use_.fixed()) else { return };
    let suits = matches!(
        (component, use_),
        (Scalar::Float { width: 16 | 32 }, _)
            | (Scalar::Int { width: 8, .. }, 0 | 1)
            | (Scalar::Int { width: 32, .. }, 2)
    );
    if !suits {
        out.report(&COMPONENT, at, || {
            let which = if use_ == 2 { "accumulators are of 32-bit integers" } else { "A and B are of 8-bit integers" };
            Draft::new(format!("{which}, f16 or f32; this is {m}")).label(at, part, format!("{m}")).label_opt(
                cx.decl(m),
                Part::Operand(0),
                format!("{component}"),
            )
        });
        return;
    }
    let (k, operand) = match use_ {
        0 => (&m.cols, 3),
        1 => (&m.rows, 2),
        _ => return,
    };
    let wanted = u64::from(256 / component.width().max(1));
    out.judge(&SHAPE, Verdict::of(k, |k| k == wanted), at, || {
        Draft::new(format!("K of {m} is {k}; of {component} it must be {wanted}, which makes 256 bits"))
            .label(at, part, format!("{m}"))
            .label_opt(cx.decl(m), Part::Operand(operand), format!("K is {k}"))
    });
}

fn lanes(cx: &Cx, at: InstRef, m: &CoopMatView, lane: &Array, part: Part, out: &mut Sink) {
    let packed = lane.scalar == Scalar::Int { width: 32, signed: false } && lane.elem != m.ty.component;
    if lane.elem != m.ty.component && !packed {
        let is = format!("an array of {}", lane.scalar);
        element(cx, at, &ELEMENT, m, part, is, out);
        return;
    }
    let (Some(component), Some(use_)) = (m.component, m.use_.fixed()) else { return };
    let long = match use_ {
        0 | 1 if packed => Const::Fixed(8),
        0 => m.cols.clone(),
        1 => m.rows.clone(),
        _ => m.cols.clone(),
    };
    let half = use_ == 2 && packed && component.width() == 16;
    let Some(long) = long.fixed().map(|n| if half { n / 2 } else { n }) else { return };
    out.judge(&LENGTH, Verdict::of(&lane.len, |n| n == long), at, || {
        Draft::new(format!("a lane's part of {m} is {long} elements of {}; the array has {}", lane.scalar, lane.len))
            .label(at, part, format!("{} elements", lane.len))
            .label_opt(cx.def(lane.ty), Part::Whole, "the array")
            .label_opt(cx.decl(m), Part::Whole, "the matrix")
    });
}

fn element(cx: &Cx, at: InstRef, rule: &'static Rule, m: &CoopMatView, part: Part, is: String, out: &mut Sink) {
    out.report(rule, at, || {
        let c = cx.describe(m.ty.component);
        Draft::new(format!("a lane's part of {m} is an array of {c}, or of u32; this is {is}"))
            .label(at, part, format!("this is {is}"))
            .label_opt(cx.decl(m), Part::Operand(0), format!("the components are {c}"))
    });
}

/// `OpExtractSubArrayQCOM`.
pub(crate) fn subarray(cx: &Cx, at: InstRef, out: &mut Sink) {
    let inst = cx.inst(at);
    let from = array(cx, at, inst.id(0).and_then(|v| cx.module.type_of(v)), Part::Operand(0), out);
    let to = array(cx, at, inst.ty, Part::Type, out);
    let Some(start) = inst.id(1) else { return };
    if !cx.module.type_of(start).is_some_and(|t| is_int32(cx, t)) {
        let is = cx.describe_value(start);
        out.report(&BOUNDS, at, || {
            Draft::new(format!("the start of a part must be a 32-bit integer; this is {is}")).label(
                at,
                Part::Operand(1),
                format!("this is {is}"),
            )
        });
        return;
    }
    let (Some(from), Some(to)) = (from, to) else { return };
    if from.elem != to.elem {
        out.report(&SUBARRAY, at, || {
            Draft::new(format!("a part of an array of {} has elements of {}", from.scalar, to.scalar))
                .label(at, Part::Whole, "cut here")
                .label_opt(cx.def(from.ty), Part::Whole, format!("of {}", from.scalar))
                .label_opt(cx.def(to.ty), Part::Whole, format!("of {}", to.scalar))
        });
        return;
    }
    let value = cx.constant(start);
    let (Some(have), Some(want), Some(v)) = (from.len.fixed(), to.len.fixed(), value.value()) else { return };
    let first = cx.signed(start, v);
    let inside = |v: u64| {
        let first = cx.signed(start, v);
        u64::try_from(first).is_ok_and(|f| f.saturating_add(want) <= have)
    };
    let verdict = Verdict::of(&value, inside);
    if verdict != Verdict::Holds {
        out.judge(&BOUNDS, verdict, at, || {
            Draft::new(format!("{want} elements from {first} on of an array of {have}"))
                .label(at, Part::Operand(1), format!("from {first} on"))
                .label_opt(cx.def(from.ty), Part::Whole, format!("{have} elements"))
        });
    } else if cx.env.is_vulkan() && want > 0 {
        out.judge(&MULTIPLE, Verdict::of(&value, |v| v.is_multiple_of(want)), at, || {
            Draft::new(format!("a part of {want} elements begins at {first}, which is not a multiple of {want}")).label(
                at,
                Part::Operand(1),
                format!("from {first} on"),
            )
        });
    }
}
