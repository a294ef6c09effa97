//! Rules about conversions of matrices, `OpBitcast` included.

use super::{change_use, nv1};
use crate::cx::Cx;
use crate::declare_rule;
use crate::matrix::MatrixType;
use crate::operation::Operation;
use crate::report::{Draft, Part, Sink};
use coop_ir::constant::Const;
use coop_ir::spv::Capability;
use coop_ir::types::{CoopMatView, Scalar, use_name};
use coop_ir::{Id, InstRef, Op, spv};

declare_rule! {
    /// ## What it checks
    /// The only conversions of matrices are OpConvertFToU, OpConvertFToS, OpConvertSToF, OpConvertUToF, OpUConvert,
    /// OpSConvert, OpFConvert and OpBitcast.
    /// ## Why
    /// The extension lists them; other conversions take scalars and vectors only.
    /// ## Example
    /// `OpQuantizeToF16 %matrix %value`
    pub(crate) static NOT_ALLOWED = {
        id: "convert-not-allowed",
        summary: "a conversion that does not take matrices",
        level: Error,
        since: "0.1.0",
        spec: "SPV_KHR_cooperative_matrix, Conversion Instructions",
        vuids: [],
        digest: ["khr.convert-list"],
    }
}

declare_rule! {
    /// ## What it checks
    /// A conversion to a matrix is one from a matrix.
    /// ## Why
    /// Conversions go component by component.
    /// ## Example
    /// `OpFConvert %matrix %a_float`
    pub(crate) static OPERAND_NOT_MATRIX = {
        id: "convert-operand-not-matrix",
        summary: "a conversion between a matrix and something else",
        level: Error,
        since: "0.1.0",
        spec: "SPV_KHR_cooperative_matrix, Conversion Instructions",
        vuids: [],
        digest: ["khr.convert-shape"],
    }
}

declare_rule! {
    /// ## What it checks
    /// A conversion keeps the scope, the rows and the columns.
    /// ## Why
    /// Conversions go component by component.
    /// ## Example
    /// `OpFConvert` from f32 16x16 to f16 16x8.
    pub(crate) static SHAPE_MISMATCH = {
        id: "convert-shape-mismatch",
        summary: "a conversion changes scope, rows or columns",
        level: Error,
        since: "0.1.0",
        spec: "SPV_KHR_cooperative_matrix, Conversion Instructions",
        vuids: [],
        digest: ["khr.convert-shape"],
    }
}

declare_rule! {
    /// ## What it checks
    /// A conversion keeps the use. With capability CooperativeMatrixConversionsNV or CooperativeMatrixConversionsEXT an
    /// accumulator may become A or B, and with the latter A or B an accumulator.
    /// ## Why
    /// Matrices of different use are spread over invocations differently, so that data would have to move.
    /// ## Example
    /// `OpFConvert` from an f32 accumulator to an f16 A.
    pub(crate) static USE_MISMATCH = {
        id: "convert-use-mismatch",
        summary: "a conversion changes the use",
        level: Error,
        since: "0.1.0",
        spec: "SPV_KHR_cooperative_matrix, Conversion Instructions",
        vuids: [],
        digest: ["khr.convert-use", "nv2.convert-num-use", "ext.convert-num-use"],
    }
}

declare_rule! {
    /// ## What it checks
    /// The component types suit the conversion: floats and integers where its name says so; OpConvertFToU and OpUConvert
    /// make unsigned integers; OpUConvert, OpSConvert and OpFConvert change the type.
    /// ## Why
    /// As for scalars.
    /// ## Example
    /// `OpConvertSToF` from a matrix of f32.
    pub(crate) static COMPONENT = {
        id: "convert-component",
        summary: "component types that do not suit the conversion",
        level: Error,
        since: "0.1.0",
        spec: "SPIR-V, Conversion Instructions",
        vuids: [],
        digest: ["khr.convert-component"],
    }
}

declare_rule! {
    /// ## What it checks
    /// `OpBitcast` of matrices goes between integer types of the same width.
    /// ## Why
    /// The extension allows only that; there is no bitcast between f16 and u16 matrices.
    /// ## Example
    /// `OpBitcast` from f16 16x16 to u16 16x16.
    pub(crate) static BITCAST_COMPONENT = {
        id: "convert-bitcast-component",
        summary: "OpBitcast of matrices that are not integers of one width",
        level: Error,
        since: "0.1.0",
        spec: "SPV_KHR_cooperative_matrix, OpBitcast",
        vuids: [],
        digest: ["khr.bitcast-int"],
    }
}

declare_rule! {
    /// ## What it checks
    /// `OpBitcast` of matrices keeps the use, whatever capabilities are declared.
    /// ## Why
    /// Matrices of different use are spread over invocations differently; a bitcast moves nothing.
    /// ## Example
    /// `OpBitcast` from a u32 accumulator to a s32 A.
    pub(crate) static BITCAST_USE = {
        id: "convert-bitcast-use",
        summary: "OpBitcast changes the use",
        level: Error,
        since: "0.1.0",
        spec: "SPV_KHR_cooperative_matrix, OpBitcast",
        vuids: [],
        digest: ["khr.bitcast-use"],
    }
}

declare_rule! {
    /// ## What it checks
    /// No matrix is converted to bfloat16 by OpFConvert.
    /// ## Why
    /// How values between two bfloat16 are rounded is left open: an H100 cuts off, others round to nearest even. Results
    /// differ in the last bit.
    /// ## Example
    /// `OpFConvert` from an accumulator of f32 to a matrix of bf16.
    pub(crate) static BF16_ROUNDING = {
        id: "portability-bfloat16-rounding",
        summary: "a conversion to bfloat16, which devices round differently",
        level: Note,
        since: "0.2.0",
        spec: "SPV_KHR_bfloat16; Vulkan, Precision of Core SPIR-V Instructions; seen on an H100 (580.159)",
        vuids: [],
        digest: ["vk.precision"],
    }
}

/// Reports a conversion that does not accept matrices.
pub(crate) fn not_allowed(cx: &Cx, o: &Operation, out: &mut Sink) {
    let Some((matrix, part)) = o.matrix(cx) else { return };
    if let MatrixType::Nv(_) = matrix {
        nv1::refused(cx, o, out);
        return;
    }
    out.report(&NOT_ALLOWED, o.at, || {
        Draft::new(format!("{} does not take cooperative matrices", o.op))
            .label(o.at, part, format!("{matrix}"))
            .help("convert component by component, through a variable and OpAccessChain")
    });
}

/// Checks a conversion that accepts matrices.
pub(crate) fn conversion(cx: &Cx, o: &Operation, out: &mut Sink) {
    let Some(value) = o.id(0) else { return };
    let (from, to) = match (cx.matrix_type_of(value), o.ty.and_then(|t| cx.matrix_type(t))) {
        (Some(MatrixType::Khr(from)), Some(MatrixType::Khr(to))) => (from, to),
        (None, None) => return,
        (Some(MatrixType::Khr(m)), _) => {
            let other = o.ty.map(|t| cx.describe(t)).unwrap_or_default();
            not_both(o, &m.to_string(), other, Part::Type, out);
            return;
        }
        (_, Some(MatrixType::Khr(m))) => {
            not_both(o, &m.to_string(), cx.describe_value(value), o.part(0), out);
            return;
        }
        (from, to) => {
            nv1::conversion(cx, o, from, to, out);
            return;
        }
    };
    // A transposing conversion exchanges rows and columns, and has its own rules.
    if cx.transposes(o.at) && o.op != Op::Bitcast {
        change_use::transposed(cx, o.at, from, to, out);
    } else {
        shape(cx, o.at, from, to, out);
        uses(cx, o, from, to, out);
    }
    if o.op == Op::FConvert && to.component == Some(Scalar::BF16) && from.component != Some(Scalar::BF16) {
        out.report(&BF16_ROUNDING, o.at, || {
            Draft::new(format!("{from} becomes bf16: an H100 cuts the rest off, others round to nearest even"))
                .label(o.at, Part::Whole, "rounded here, one way or the other")
                .help("allow for a difference in the last bit, or keep f16 or f32")
        });
    }
    let same_use = from.ty.use_ == to.ty.use_;
    components(cx, o, MatrixType::Khr(from), MatrixType::Khr(to), same_use, out);
}

fn not_both(o: &Operation, matrix: &str, other: String, part: Part, out: &mut Sink) {
    out.report(&OPERAND_NOT_MATRIX, o.at, || {
        Draft::new(format!("{} between {matrix} and {other}: both must be matrices", o.op)).label(
            o.at,
            part,
            format!("this is {other}"),
        )
    });
}

fn shape(cx: &Cx, at: InstRef, from: &CoopMatView, to: &CoopMatView, out: &mut Sink) {
    let parts: [(&str, usize, Id, &Const, Id, &Const); 3] = [
        ("scope", 1, from.ty.scope, &from.scope, to.ty.scope, &to.scope),
        ("rows", 2, from.ty.rows, &from.rows, to.ty.rows, &to.rows),
        ("columns", 3, from.ty.cols, &from.cols, to.ty.cols, &to.cols),
    ];
    for (name, operand, a, was, b, is) in parts {
        out.judge(&SHAPE_MISMATCH, cx.equal(a, b), at, || {
            Draft::new(format!("a conversion from {from} to {to} changes the {name} from {was} to {is}"))
                .label(at, Part::Whole, "converted here")
                .label_opt(cx.decl(from), Part::Operand(operand), format!("{name}: {was}"))
                .label_opt(cx.decl(to), Part::Operand(operand), format!("{name}: {is}"))
        });
    }
}

fn uses(cx: &Cx, o: &Operation, from: &CoopMatView, to: &CoopMatView, out: &mut Sink) {
    let (at, op) = (o.at, o.op);
    let verdict = cx.equal(from.ty.use_, to.ty.use_);
    let name = |m: &CoopMatView| m.use_.value().and_then(use_name).unwrap_or("unknown").to_owned();
    let draft = |message: String, help: &str| {
        Draft::new(message)
            .label(at, Part::Whole, "converted here")
            .label_opt(cx.decl(from), Part::Operand(4), format!("use {}", name(from)))
            .label_opt(cx.decl(to), Part::Operand(4), format!("use {}", name(to)))
            .help(help)
    };
    if op == Op::Bitcast {
        out.judge(&BITCAST_USE, verdict, at, || {
            draft(format!("OpBitcast from {from} to {to} changes the use"), "convert the use separately")
        });
        return;
    }
    if let (Some(a), Some(b)) = (from.use_.value(), to.use_.value()) {
        let nv = cx.has(Capability::CooperativeMatrixConversionsNV);
        let ext = cx.capabilities.has(spv::Capability::CooperativeMatrixConversionsEXT);
        if ((nv || ext) && a == 2) || (ext && b == 2) {
            return;
        }
    }
    out.judge(&USE_MISMATCH, verdict, at, || {
        draft(
            format!("{op} from {from} to {to} changes the use"),
            "store and load the matrix, or declare a capability of conversions between uses",
        )
    });
}

/// Returns true if the component types suit the conversion; one that changes the use may keep the type.
pub(crate) fn components(cx: &Cx, o: &Operation, from: MatrixType, to: MatrixType, same_use: bool, out: &mut Sink) {
    let (Some(f), Some(t)) = (from.component(), to.component()) else { return };
    let op = o.op;
    if op == Op::Bitcast {
        if !(f.is_int() && t.is_int() && f.width() == t.width()) {
            out.report(&BITCAST_COMPONENT, o.at, || {
                Draft::new(format!("OpBitcast of matrices goes between integers of one width, not from {f} to {t}"))
                    .label(o.at, Part::Whole, "cast here")
                    .label_opt(from.decl(cx), Part::Operand(0), format!("from {f}"))
                    .label_opt(to.decl(cx), Part::Operand(0), format!("to {t}"))
                    .help("cast component by component, through a variable and OpAccessChain")
            });
        }
        return;
    }
    let (from_int, to_int) = match op {
        Op::ConvertFToU | Op::ConvertFToS => (false, true),
        Op::ConvertSToF | Op::ConvertUToF => (true, false),
        Op::FConvert => (false, false),
        _ => (true, true),
    };
    let wrong = if f.is_int() != from_int {
        Some(format!("{op} takes {}; this is {from}", if from_int { "integers" } else { "floats" }))
    } else if t.is_int() != to_int {
        Some(format!("{op} makes {}; this is {to}", if to_int { "integers" } else { "floats" }))
    } else if matches!((op, t), (Op::ConvertFToU | Op::UConvert, Scalar::Int { signed: true, .. })) {
        Some(format!("{op} makes unsigned integers; this is {to}"))
    } else if matches!(op, Op::UConvert | Op::SConvert) && f.width() == t.width() {
        Some(format!("{op} changes the width of integers; both are of {} bits", f.width()))
    } else if op == Op::FConvert && f == t && same_use {
        Some(format!("{op} changes the type of floats; both are {f}"))
    } else {
        None
    };
    if let Some(message) = wrong {
        out.report(&COMPONENT, o.at, || {
            Draft::new(message)
                .label(o.at, Part::Whole, "converted here")
                .label_opt(from.decl(cx), Part::Operand(0), format!("from {f}"))
                .label_opt(to.decl(cx), Part::Operand(0), format!("to {t}"))
        });
    }
}
