//! Rules about the components of a matrix that an invocation holds.

use crate::cx::Cx;
use crate::declare_rule;
use crate::matrix::MatrixType;
use crate::operation::Operation;
use crate::report::{Draft, Part, Sink};
use crate::verdict::Verdict;
use coop_ir::constant::Const;
use coop_ir::types::{Scalar, Type};
use coop_ir::{Id, Op};

declare_rule! {
    /// ## What it checks
    /// An access chain, extraction or insertion takes one index into a matrix, and none behind it; extractions and
    /// insertions take at least one.
    /// ## Why
    /// Components are numbered 0, 1, ... within an invocation; they have no row and column that the program could name.
    /// ## Example
    /// `OpAccessChain %ptr %matrix_variable %row %column`
    pub(crate) static INDEX_COUNT = {
        id: "element-index-count",
        summary: "more than one index into a matrix",
        level: Error,
        since: "0.1.0",
        spec: "SPV_KHR_cooperative_matrix, OpTypeCooperativeMatrixKHR",
        vuids: [],
        digest: ["khr.access-chain-index"],
    }
}

declare_rule! {
    /// ## What it checks
    /// The index of an access chain into a matrix is a scalar integer.
    /// ## Why
    /// As for arrays.
    /// ## Example
    /// `OpAccessChain %ptr %matrix_variable %float_0`
    pub(crate) static INDEX_TYPE = {
        id: "element-index-type",
        summary: "the index into a matrix is not an integer",
        level: Error,
        since: "0.1.0",
        spec: "SPIR-V, OpAccessChain",
        vuids: [],
        digest: ["khr.access-chain-index"],
    }
}

declare_rule! {
    /// ## What it checks
    /// Where rows and columns are fixed, a constant index is less than rows times columns.
    /// ## Why
    /// How many components an invocation holds is known only at run time, but never more than the matrix has. Mind that
    /// an index below that can still be too large: compare with the length.
    /// ## Example
    /// `OpCompositeExtract %float %matrix 256` with a matrix of 16x16.
    pub(crate) static INDEX_RANGE = {
        id: "element-index-out-of-range",
        summary: "an index beyond all elements of the matrix",
        level: Error,
        since: "0.1.0",
        spec: "SPIR-V, OpCompositeExtract and OpAccessChain",
        vuids: [],
        digest: ["khr.extract-index", "khr.component-oob"],
    }
}

declare_rule! {
    /// ## What it checks
    /// An element that is extracted from, inserted into or pointed to in a matrix has its component type; if the indices
    /// lead to a matrix in an array or a struct, it has the matrix type.
    /// ## Why
    /// As for other composites.
    /// ## Example
    /// `OpCompositeInsert %f16_matrix %a_float %m 0`
    pub(crate) static TYPE = {
        id: "element-type-mismatch",
        summary: "an element of another type than the matrix's components",
        level: Error,
        since: "0.1.0",
        spec: "SPIR-V, OpCompositeExtract, OpCompositeInsert and OpAccessChain",
        vuids: [],
        digest: ["khr.insert-type"],
    }
}

/// An index of an access: its operand index, and its value.
struct Index {
    operand: usize,
    id: Option<Id>,
    value: Const,
}

/// Follows indices into a type. If they reach a matrix, returns it and the indices into it.
fn into_matrix<'a, 'i>(cx: &'a Cx, mut ty: Id, indices: &'i [Index]) -> Option<(MatrixType<'a>, &'i [Index])> {
    let mut rest = indices;
    loop {
        if let Some(matrix) = cx.matrix_type(ty) {
            return Some((matrix, rest));
        }
        let (index, tail) = rest.split_first()?;
        let inst = cx.module.def_inst(ty)?;
        ty = match inst.op {
            Op::TypeArray | Op::TypeRuntimeArray => inst.id(0)?,
            Op::TypeStruct => inst.id(usize::try_from(index.value.fixed()?).ok()?)?,
            _ => return None,
        };
        rest = tail;
    }
}

fn literals(o: &Operation, first: usize) -> Vec<Index> {
    let words = o.operands().iter().enumerate().skip(first);
    words.map(|(operand, o)| Index { operand, id: None, value: Const::Fixed(o.word().into()) }).collect()
}

/// Does the checks that all accesses share. Returns the matrix and the type of the target: the matrix type itself, or
/// its component type.
fn target<'a>(cx: &'a Cx, o: &Operation, base: Id, indices: &[Index], out: &mut Sink) -> Option<(MatrixType<'a>, Id)> {
    let (matrix, rest) = into_matrix(cx, base, indices)?;
    let Some(index) = rest.first() else {
        if indices.is_empty() && matches!(o.op, Op::CompositeExtract | Op::CompositeInsert) {
            out.report(&INDEX_COUNT, o.at, || {
                Draft::new(format!("no index goes into {matrix}; one index names a component"))
                    .label(o.at, Part::Whole, "no index")
                    .label_opt(matrix.decl(cx), Part::Whole, "the matrix")
            });
            return None;
        }
        return Some((matrix, matrix.id()));
    };
    if let Some(second) = rest.get(1) {
        out.report(&INDEX_COUNT, o.at, || {
            Draft::new(format!("{} indices go into {matrix}; one index names a component", rest.len()))
                .label(o.at, o.part(second.operand), "one too many")
                .label_opt(matrix.decl(cx), Part::Whole, "the matrix")
        });
        return None;
    }
    let is_int = |id| cx.module.type_of(id).and_then(|t| cx.scalar(t)).is_some_and(Scalar::is_int);
    if let Some(id) = index.id
        && !is_int(id)
    {
        let is = cx.describe_value(id);
        out.report(&INDEX_TYPE, o.at, || {
            Draft::new(format!("the index into {matrix} must be a scalar integer; this is {is}")).label(
                o.at,
                o.part(index.operand),
                format!("this is {is}"),
            )
        });
        return None;
    }
    range(cx, o, matrix, index, out);
    Some((matrix, matrix.component_id()))
}

fn range(cx: &Cx, o: &Operation, matrix: MatrixType, index: &Index, out: &mut Sink) {
    // Most indices are loop counters, which are not undecided conditions. Nor are matrices of specialized size: the
    // default is often 1, and then an element access does not indicate a defect.
    let (Some(rows), Some(cols)) = (matrix.rows().1.fixed(), matrix.cols().1.fixed()) else { return };
    let Some(i) = index.value.value() else { return };
    let elements = rows.saturating_mul(cols);
    let inside = |i: u64| index.id.is_none_or(|id| cx.signed(id, i) >= 0) && i < elements;
    let verdict = Verdict::of(&index.value, inside);
    out.judge(&INDEX_RANGE, verdict, o.at, || {
        let n = index.id.map_or_else(|| i.to_string(), |id| cx.signed(id, i).to_string());
        let length = match matrix {
            MatrixType::Khr(_) => Op::CooperativeMatrixLengthKHR,
            MatrixType::Nv(_) => Op::CooperativeMatrixLengthNV,
        };
        Draft::new(format!("component {n} of {matrix}, which has {elements} elements in all"))
            .label(o.at, o.part(index.operand), format!("index {n}"))
            .label_opt(matrix.decl(cx), Part::Whole, format!("{rows} rows, {cols} columns"))
            .help(format!("an invocation holds {length} components, fewer than the matrix has elements"))
    });
}

/// Returns true if the extracted or inserted value has the type of the target.
fn element_type(
    cx: &Cx,
    o: &Operation,
    (matrix, wanted): (MatrixType, Id),
    ty: Option<Id>,
    part: Part,
    out: &mut Sink,
) {
    let Some(ty) = ty.filter(|t| *t != wanted) else { return };
    out.report(&TYPE, o.at, || {
        let is = cx.describe(ty);
        let draft = if wanted == matrix.id() {
            let again = if is == matrix.to_string() { "another type that looks the same, " } else { "" };
            Draft::new(format!("the indices lead to {matrix}; this is {again}{is}"))
        } else {
            Draft::new(format!("a component of {matrix} is {}; this is {is}", cx.describe(wanted)))
        };
        let draft = draft.label(o.at, part, format!("this is {is}"));
        if wanted == matrix.id() {
            draft.label_opt(matrix.decl(cx), Part::Whole, "the matrix")
        } else {
            let label = format!("the component type is {}", cx.describe(wanted));
            draft.label_opt(matrix.decl(cx), Part::Operand(0), label)
        }
    });
}

pub(crate) fn extract(cx: &Cx, o: &Operation, out: &mut Sink) {
    let Some(base) = o.id(0).and_then(|v| cx.module.type_of(v)) else { return };
    if let Some(target) = target(cx, o, base, &literals(o, 1), out) {
        element_type(cx, o, target, o.ty, Part::Type, out);
    }
}

pub(crate) fn insert(cx: &Cx, o: &Operation, out: &mut Sink) {
    let Some(base) = o.ty else { return };
    if let Some(target) = target(cx, o, base, &literals(o, 2), out) {
        let object = o.id(0).and_then(|v| cx.module.type_of(v));
        element_type(cx, o, target, object, o.part(0), out);
    }
}

/// Checks an access chain; `first` is the operand of the first index into the object.
pub(crate) fn chain(cx: &Cx, o: &Operation, first: usize, out: &mut Sink) {
    let pointer = o.id(0).and_then(|v| cx.module.type_of(v)).and_then(|t| Type::of(cx.module, t));
    let Some(Type::Pointer { pointee, .. }) = pointer else { return };
    let indices: Vec<Index> = o
        .ids()
        .filter(|(operand, _)| *operand >= first)
        .map(|(operand, id)| Index { operand, id: Some(id), value: cx.constant(id) })
        .collect();
    if let Some(target) = target(cx, o, pointee, &indices, out) {
        let result = o.ty.and_then(|t| Type::of(cx.module, t));
        if let Some(Type::Pointer { pointee, .. }) = result {
            element_type(cx, o, target, Some(pointee), Part::Type, out);
        }
    }
}
