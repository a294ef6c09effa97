//! Rules about instructions that change the use of a matrix: `OpCooperativeMatrixConvertNV` (`...ConvertUseEXT` is the
//! same instruction), `OpCooperativeMatrixTransposeNV`, and conversions with the transposing decoration.

use crate::cx::Cx;
use crate::declare_rule;
use crate::operation::Operation;
use crate::report::{Draft, Part, Sink};
use crate::verdict::Verdict;
use coop_ir::constant::Const;
use coop_ir::spv::Capability;
use coop_ir::types::{CoopMatView, Scalar, use_name};
use coop_ir::{Id, InstRef, Op, spv};

declare_rule! {
    /// ## What it checks
    /// Matrix and result of a conversion between uses are matrices with one component type. With capability
    /// CooperativeMatrixConversionsEXT integers may differ in signedness.
    /// ## Why
    /// The instruction moves elements and changes none.
    /// ## Example
    /// `OpCooperativeMatrixConvertNV` from a f32 accumulator to a f16 A.
    pub(crate) static TYPES = {
        id: "use-conversion-component",
        summary: "a conversion between uses changes the component type",
        level: Error,
        since: "0.2.0",
        spec: "SPV_NV_cooperative_matrix2, OpCooperativeMatrixConvertNV",
        vuids: [],
        digest: ["nv2.convert-types", "ext.convertuse-types"],
    }
}

declare_rule! {
    /// ## What it checks
    /// A conversion between uses, or a transposition, goes from a matrix to a matrix.
    /// ## Why
    /// Nothing else has a use.
    /// ## Example
    /// `OpCooperativeMatrixConvertNV %matrix %an_array`
    pub(crate) static NOT_MATRIX = {
        id: "use-conversion-not-matrix",
        summary: "a conversion between uses of or to something that is not a matrix",
        level: Error,
        since: "0.2.0",
        spec: "SPV_NV_cooperative_matrix2, OpCooperativeMatrixConvertNV and TransposeNV",
        vuids: [],
        digest: ["nv2.convert-types", "ext.convertuse-types", "nv2.transpose-use"],
    }
}

declare_rule! {
    /// ## What it checks
    /// A conversion between uses keeps the scope, and the rows and columns unless it is decorated to transpose.
    /// ## Why
    /// Element (r, c) of the result is element (r, c) of the matrix.
    /// ## Example
    /// `OpCooperativeMatrixConvertNV` from f16 16x16 to f16 16x8.
    pub(crate) static SHAPE = {
        id: "use-conversion-shape",
        summary: "a conversion between uses changes scope, rows or columns",
        level: Error,
        since: "0.2.0",
        spec: "SPV_NV_cooperative_matrix2, OpCooperativeMatrixConvertNV",
        vuids: [],
        digest: ["nv2.convert-types", "ext.convertuse-shape"],
    }
}

declare_rule! {
    /// ## What it checks
    /// A conversion between uses goes from Accumulator to A or B; with capability CooperativeMatrixConversionsEXT also
    /// from A or B to Accumulator.
    /// ## Why
    /// The two extensions share the instruction and differ in what it may do: only the capability tells them apart.
    /// ## Example
    /// `OpCooperativeMatrixConvertNV` from A to Accumulator with capability CooperativeMatrixConversionsNV alone.
    pub(crate) static DIRECTION = {
        id: "use-conversion-direction",
        summary: "a conversion between uses that does not exist",
        level: Error,
        since: "0.2.0",
        spec: "SPV_NV_cooperative_matrix2, OpCooperativeMatrixConvertNV; SPV_EXT_cooperative_matrix_maintenance1, \
               OpCooperativeMatrixConvertUseEXT",
        vuids: [],
        digest: ["nv2.convert-use", "ext.convertuse-use", "ext.nv-ambiguity"],
    }
}

declare_rule! {
    /// ## What it checks
    /// `OpCooperativeMatrixTransposeNV` goes from Accumulator to B, a conversion that is decorated with
    /// CooperativeMatrixTransposeEXT from Accumulator to A or B.
    /// ## Why
    /// Other transpositions do not exist.
    /// ## Example
    /// `OpCooperativeMatrixTransposeNV` from A to B.
    pub(crate) static TRANSPOSE_USE = {
        id: "transpose-use",
        summary: "a transposition between uses that does not exist",
        level: Error,
        since: "0.2.0",
        spec: "SPV_NV_cooperative_matrix2, OpCooperativeMatrixTransposeNV; SPV_EXT_cooperative_matrix_maintenance1, \
               CooperativeMatrixTransposeEXT",
        vuids: [],
        digest: ["nv2.transpose-use", "ext.transpose-use"],
    }
}

declare_rule! {
    /// ## What it checks
    /// A transposition exchanges rows and columns, and keeps the scope.
    /// ## Why
    /// Element (r, c) of the matrix becomes element (c, r) of the result.
    /// ## Example
    /// `OpCooperativeMatrixTransposeNV` from f16 16x8 to f16 16x8.
    pub(crate) static TRANSPOSE_SHAPE = {
        id: "transpose-shape",
        summary: "a transposition does not exchange rows and columns",
        level: Error,
        since: "0.2.0",
        spec: "SPV_NV_cooperative_matrix2, OpCooperativeMatrixTransposeNV; SPV_EXT_cooperative_matrix_maintenance1, \
               CooperativeMatrixTransposeEXT",
        vuids: [],
        digest: ["nv2.transpose-shape", "ext.transpose-shape"],
    }
}

declare_rule! {
    /// ## What it checks
    /// `OpCooperativeMatrixTransposeNV` keeps the component type.
    /// ## Why
    /// GL_NV_cooperative_matrix2 requires it. The SPIR-V specification omits it, and spirv-val accepts any type, but the
    /// meaning of a change is not defined. Khronos' conformance tests expect converted numbers, and lowered code converts them.
    /// ## Example
    /// `OpCooperativeMatrixTransposeNV` from a f32 accumulator to a f16 B.
    pub(crate) static TRANSPOSE_COMPONENT = {
        id: "transpose-component-mismatch",
        summary: "a transposition changes the component type",
        level: Warning,
        since: "0.2.0",
        spec: "GL_NV_cooperative_matrix2, coopMatTransposeNV",
        vuids: [],
        digest: ["nv2.transpose-component"],
    }
}

declare_rule! {
    /// ## What it checks
    /// CooperativeMatrixTransposeEXT decorates only OpCooperativeMatrixConvertUseEXT and the conversions OpFConvert,
    /// OpSConvert, OpUConvert, OpConvertFToS, OpConvertFToU, OpConvertSToF and OpConvertUToF between matrices, by itself
    /// or through a decoration group.
    /// ## Why
    /// On anything else it means nothing.
    /// ## Example
    /// `OpDecorate %sum CooperativeMatrixTransposeEXT` with `%sum = OpFAdd ...`
    pub(crate) static TARGET = {
        id: "transpose-decoration-target",
        summary: "CooperativeMatrixTransposeEXT on something that is not a conversion between matrices",
        level: Error,
        since: "0.2.0",
        spec: "SPV_EXT_cooperative_matrix_maintenance1, CooperativeMatrixTransposeEXT",
        vuids: [],
        digest: ["ext.transpose-target", "ext.transpose-group"],
    }
}

/// Returns both matrices; reports an operand that is not a matrix.
fn matrices<'a>(cx: &'a Cx, at: InstRef, out: &mut Sink) -> Option<(&'a CoopMatView, &'a CoopMatView)> {
    let inst = cx.inst(at);
    let (value, ty) = (inst.id(0)?, inst.ty?);
    let (from, to) = (cx.matrix_of(value), cx.matrix(ty));
    for (found, part, what) in
        [(from.is_some(), Part::Operand(0), cx.describe_value(value)), (to.is_some(), Part::Type, cx.describe(ty))]
    {
        if !found {
            out.report(&NOT_MATRIX, at, || {
                Draft::new(format!("{} goes from a matrix to a matrix; this is {what}", inst.op)).label(
                    at,
                    part,
                    format!("this is {what}"),
                )
            });
        }
    }
    Some((from?, to?))
}

/// `OpCooperativeMatrixConvertNV`.
pub(crate) fn convert(cx: &Cx, at: InstRef, out: &mut Sink) {
    let Some((from, to)) = matrices(cx, at, out) else { return };
    let ext = cx.capabilities.has(spv::Capability::CooperativeMatrixConversionsEXT);
    let same = from.ty.component == to.ty.component
        || ext
            && matches!((from.component, to.component), (Some(Scalar::Int { width: a, .. }), Some(Scalar::Int { width: b, .. })) if a == b);
    if !same {
        out.report(&TYPES, at, || {
            Draft::new(format!("{} keeps the component type; this one goes from {from} to {to}", cx.inst(at).op))
                .label(at, Part::Whole, "converted here")
                .label_opt(cx.decl(from), Part::Operand(0), format!("from {}", cx.describe(from.ty.component)))
                .label_opt(cx.decl(to), Part::Operand(0), format!("to {}", cx.describe(to.ty.component)))
                .help("OpFConvert and the other conversions change the component type and, with the same capability, the use")
        });
    }
    if cx.transposes(at) {
        transposed(cx, at, from, to, out);
        return;
    }
    unchanged(cx, at, ("scope", 1), (from, from.ty.scope, &from.scope), (to, to.ty.scope, &to.scope), out);
    unchanged(cx, at, ("rows", 2), (from, from.ty.rows, &from.rows), (to, to.ty.rows, &to.rows), out);
    unchanged(cx, at, ("columns", 3), (from, from.ty.cols, &from.cols), (to, to.ty.cols, &to.cols), out);
    direction(cx, at, from, to, ext, out);
}

type Side<'a> = (&'a CoopMatView, Id, &'a Const);

fn unchanged(cx: &Cx, at: InstRef, (name, operand): (&str, usize), was: Side, is: Side, out: &mut Sink) {
    out.judge(&SHAPE, cx.equal(was.1, is.1), at, || {
        Draft::new(format!("{} from {} to {} changes the {name}", cx.inst(at).op, was.0, is.0))
            .label(at, Part::Whole, "converted here")
            .label_opt(cx.decl(was.0), Part::Operand(operand), format!("{name}: {}", was.2))
            .label_opt(cx.decl(is.0), Part::Operand(operand), format!("{name}: {}", is.2))
    });
}

fn direction(cx: &Cx, at: InstRef, from: &CoopMatView, to: &CoopMatView, ext: bool, out: &mut Sink) {
    // The capability decides; without either, that is what is reported.
    if !ext && !cx.has(Capability::CooperativeMatrixConversionsNV) {
        return;
    }
    let verdict = pair(&from.use_, &to.use_, |a, b| (a == 2 && b < 2) || (ext && a < 2 && b == 2));
    out.judge(&DIRECTION, verdict, at, || {
        let name = |m: &CoopMatView| m.use_.value().and_then(use_name).unwrap_or("unknown").to_owned();
        let (a, b) = (name(from), name(to));
        let draft = Draft::new(format!("there is no conversion from use {a} to use {b}"))
            .label(at, Part::Whole, "converted here")
            .label_opt(cx.decl(from), Part::Operand(4), format!("use {a}"))
            .label_opt(cx.decl(to), Part::Operand(4), format!("use {b}"));
        match (a.as_str(), b.as_str()) {
            ("A" | "B", "Accumulator") => draft.help(
                "with capability CooperativeMatrixConversionsNV only accumulators are converted; \
                 CooperativeMatrixConversionsEXT (SPV_EXT_cooperative_matrix_maintenance1) has this direction too",
            ),
            _ => draft.help("go by way of an accumulator, or store and load the matrix"),
        }
    });
}

/// Returns the verdict of a condition on two constants.
fn pair(a: &Const, b: &Const, ok: impl Fn(u64, u64) -> bool) -> Verdict {
    match (a.value(), b.value()) {
        (Some(x), Some(y)) if ok(x, y) => Verdict::Holds,
        (Some(x), Some(y)) => match (a, b) {
            (Const::Default { .. }, _) => Verdict::of(a, |a| ok(a, y)),
            _ => Verdict::of(b, |b| ok(x, b)),
        },
        _ => Verdict::Unknown,
    }
}

/// `OpCooperativeMatrixTransposeNV`.
pub(crate) fn transpose(cx: &Cx, at: InstRef, out: &mut Sink) {
    let Some((from, to)) = matrices(cx, at, out) else { return };
    if from.ty.component != to.ty.component {
        out.report(&TRANSPOSE_COMPONENT, at, || {
            Draft::new(format!("a transposition from {from} to {to} changes the component type"))
                .label(at, Part::Whole, "transposed here")
                .label_opt(cx.decl(from), Part::Operand(0), format!("from {}", cx.describe(from.ty.component)))
                .label_opt(cx.decl(to), Part::Operand(0), format!("to {}", cx.describe(to.ty.component)))
                .help("convert the components by OpFConvert first")
        });
    }
    transposed(cx, at, from, to, out);
}

/// Checks the rules that all transpositions share.
pub(crate) fn transposed(cx: &Cx, at: InstRef, from: &CoopMatView, to: &CoopMatView, out: &mut Sink) {
    let nv = cx.inst(at).op == Op::CooperativeMatrixTransposeNV;
    let verdict = pair(&from.use_, &to.use_, |a, b| a == 2 && (b == 1 || b == 0 && !nv));
    out.judge(&TRANSPOSE_USE, verdict, at, || {
        let name = |m: &CoopMatView| m.use_.value().and_then(use_name).unwrap_or("unknown");
        let to_what = if nv { "B" } else { "A or B" };
        Draft::new(format!(
            "a transposition goes from Accumulator to {to_what}, not from {} to {}",
            name(from),
            name(to)
        ))
        .label(at, Part::Whole, "transposed here")
        .label_opt(cx.decl(from), Part::Operand(4), format!("use {}", name(from)))
        .label_opt(cx.decl(to), Part::Operand(4), format!("use {}", name(to)))
    });
    let (f, t) = (&from.ty, &to.ty);
    exchanged(cx, at, ("rows", 2, from, f.rows, &from.rows), ("columns", 3, to, t.cols, &to.cols), out);
    exchanged(cx, at, ("columns", 3, from, f.cols, &from.cols), ("rows", 2, to, t.rows, &to.rows), out);
    exchanged(cx, at, ("scope", 1, from, f.scope, &from.scope), ("scope", 1, to, t.scope, &to.scope), out);
}

/// Name, operand of the type, matrix, and the constant with its value.
type Named<'a> = (&'a str, usize, &'a CoopMatView, Id, &'a Const);

fn exchanged(cx: &Cx, at: InstRef, was: Named, is: Named, out: &mut Sink) {
    out.judge(&TRANSPOSE_SHAPE, cx.equal(was.3, is.3), at, || {
        let message = match was.0 {
            "scope" => format!("a transposition from {} to {} changes the scope", was.2, is.2),
            _ => format!("{} {} become {} {} by transposition, not {}", was.4, was.0, was.4, is.0, is.4),
        };
        Draft::new(message)
            .label(at, Part::Whole, "transposed here")
            .label_opt(cx.decl(was.2), Part::Operand(was.1), format!("{}: {}", was.0, was.4))
            .label_opt(cx.decl(is.2), Part::Operand(is.1), format!("{}: {}", is.0, is.4))
    });
}

/// Checks the targets of the transposing decoration.
pub(crate) fn targets(cx: &Cx, out: &mut Sink) {
    let decorations = cx.decorations();
    for id in decorations.ids() {
        let Some(decorated) =
            decorations.of(id).find(|d| d.decoration == spv::Decoration::CooperativeMatrixTransposeEXT)
        else {
            continue;
        };
        let Some(at) = cx.def(id) else { continue };
        let inst = cx.inst(at);
        // The decorations of a group count where the group is applied.
        if inst.op == Op::DecorationGroup {
            continue;
        }
        let o = Operation::specialized(cx, at).unwrap_or_else(|| Operation::new(cx, at));
        let conversion = o.op.is_conversion() || o.op == Op::CooperativeMatrixConvertNV;
        let matrices =
            o.ty.is_some_and(|t| cx.matrix(t).is_some()) && o.id(0).is_some_and(|v| cx.matrix_of(v).is_some());
        if !(conversion && matrices) {
            out.report(&TARGET, at, || {
                Draft::new(format!(
                    "CooperativeMatrixTransposeEXT is on {}, which is not a conversion between matrices",
                    o.op
                ))
                .label(at, Part::Whole, "decorated, but nothing is transposed here")
                .label(decorated.inst, Part::Whole, "the decoration")
            });
        }
    }
}
