//! Rules about the types of tensor layouts and views, and about where objects of them may be.

use super::CLAMP_MODES;
use crate::cx::{Cx, TypeClass};
use crate::declare_rule;
use crate::report::{Draft, Part, Sink};
use crate::rule::Rule;
use crate::rules::types::storage_name;
use crate::verdict::Verdict;
use coop_ir::spv::StorageClass;
use coop_ir::types::Type;
use coop_ir::{Id, InstRef, Op};

declare_rule! {
    /// ## What it checks
    /// Dim of a tensor layout or view is a constant instruction of a 32-bit integer type.
    /// ## Why
    /// The type must be complete when the pipeline is made.
    /// ## Example
    /// `OpTypeTensorLayoutNV %ulong_2 %undefined`
    pub(crate) static DIMENSION_NOT_CONSTANT = {
        id: "tensor-dimension-not-constant",
        summary: "Dim of a layout or view is not a constant of a 32-bit integer type",
        level: Error,
        since: "0.2.0",
        spec: "SPV_NV_tensor_addressing, OpTypeTensorLayoutNV and OpTypeTensorViewNV",
        vuids: [],
        digest: ["tensor.layout-dim-const", "tensor.view-dim"],
    }
}

declare_rule! {
    /// ## What it checks
    /// Dim of a tensor layout or view is 1 to 5.
    /// ## Why
    /// Tensors of other ranks do not exist.
    /// ## Example
    /// `OpTypeTensorLayoutNV %uint_6 %undefined`
    pub(crate) static DIMENSION_RANGE = {
        id: "tensor-dimension-range",
        summary: "Dim of a layout or view is not 1 to 5",
        level: Error,
        since: "0.2.0",
        spec: "SPV_NV_tensor_addressing, OpTypeTensorLayoutNV and OpTypeTensorViewNV",
        vuids: [],
        digest: ["tensor.layout-dim-range", "tensor.view-dim"],
    }
}

declare_rule! {
    /// ## What it checks
    /// ClampMode of a tensor layout is a constant instruction of a 32-bit integer type.
    /// ## Why
    /// The type must be complete when the pipeline is made; it may be specialized.
    /// ## Example
    /// ClampMode is an `OpUndef`.
    pub(crate) static CLAMP_NOT_CONSTANT = {
        id: "tensor-clamp-not-constant",
        summary: "ClampMode is not a constant of a 32-bit integer type",
        level: Error,
        since: "0.2.0",
        spec: "SPV_NV_tensor_addressing, OpTypeTensorLayoutNV",
        vuids: [],
        digest: ["tensor.clamp-const"],
    }
}

declare_rule! {
    /// ## What it checks
    /// ClampMode is Undefined (0), Constant (1), ClampToEdge (2), Repeat (3) or RepeatMirrored (4).
    /// ## Why
    /// No other mode exists.
    /// ## Example
    /// `OpTypeTensorLayoutNV %uint_2 %uint_5`
    pub(crate) static CLAMP_UNKNOWN = {
        id: "tensor-clamp-unknown",
        summary: "ClampMode is not a clamp mode",
        level: Error,
        since: "0.2.0",
        spec: "SPV_NV_tensor_addressing, Tensor Clamp Mode",
        vuids: [],
        digest: ["tensor.clamp-range"],
    }
}

declare_rule! {
    /// ## What it checks
    /// HasDimensions of a tensor view is a constant instruction of the Boolean type.
    /// ## Why
    /// It must be known when the pipeline is made if the view has its own dimensions.
    /// ## Example
    /// `OpTypeTensorViewNV %uint_2 %uint_1 %uint_0 %uint_1`
    pub(crate) static HAS_DIMENSIONS = {
        id: "tensor-has-dimensions-not-boolean",
        summary: "HasDimensions is not a Boolean constant",
        level: Error,
        since: "0.2.0",
        spec: "SPV_NV_tensor_addressing, OpTypeTensorViewNV",
        vuids: [],
        digest: ["tensor.view-hasdim-bool"],
    }
}

declare_rule! {
    /// ## What it checks
    /// A tensor view has as many permutation operands as dimensions.
    /// ## Why
    /// Each dimension has its place in the order.
    /// ## Example
    /// `OpTypeTensorViewNV %uint_2 %false %uint_0`
    pub(crate) static PERMUTATION_COUNT = {
        id: "tensor-permutation-count",
        summary: "a view has more or fewer permutation operands than dimensions",
        level: Error,
        since: "0.2.0",
        spec: "SPV_NV_tensor_addressing, OpTypeTensorViewNV",
        vuids: [],
        digest: ["tensor.view-perm-count"],
    }
}

declare_rule! {
    /// ## What it checks
    /// The permutation operands of a tensor view are constants of 32-bit integer types, and each of 0 to Dim - 1 is
    /// among them once.
    /// ## Why
    /// Otherwise a dimension would be visited twice and another never.
    /// ## Example
    /// `OpTypeTensorViewNV %uint_2 %false %uint_1 %uint_1`
    pub(crate) static PERMUTATION = {
        id: "tensor-permutation",
        summary: "the operands of a view are not a permutation of its dimensions",
        level: Error,
        since: "0.2.0",
        spec: "SPV_NV_tensor_addressing, OpTypeTensorViewNV",
        vuids: [],
        digest: ["tensor.view-perm"],
    }
}

declare_rule! {
    /// ## What it checks
    /// Variables that are tensor layouts or views, or have some inside, have storage class Function or Private, and no
    /// struct with Block or BufferBlock has some inside.
    /// ## Why
    /// The types are opaque: they have no layout in memory that anybody else could see.
    /// ## Example
    /// `OpVariable %ptr_Workgroup_layout Workgroup`
    pub(crate) static STORAGE = {
        id: "tensor-variable-storage",
        summary: "a layout or view in memory that others see",
        level: Error,
        since: "0.2.0",
        spec: "SPV_NV_tensor_addressing, opaque types",
        vuids: [],
        digest: ["tensor.opaque-storage"],
    }
}

/// `OpTypeTensorLayoutNV`.
pub(crate) fn layout(cx: &Cx, at: InstRef, out: &mut Sink) {
    let inst = cx.inst(at);
    let Some((dim, clamp)) = inst.tensor_layout_type() else { return };
    dimensions(cx, at, dim, out);
    if !constant(cx, at, &CLAMP_NOT_CONSTANT, "ClampMode", 1, clamp, out) {
        return;
    }
    let value = cx.constant(clamp);
    out.judge(&CLAMP_UNKNOWN, Verdict::of(&value, |v| v < CLAMP_MODES.len() as u64), at, || {
        Draft::new(format!("{value} is not a clamp mode"))
            .label(at, Part::Operand(1), format!("ClampMode is {value}"))
            .label_opt(cx.def(clamp), Part::Whole, "comes from here")
            .help("0 is Undefined, 1 Constant, 2 ClampToEdge, 3 Repeat, 4 RepeatMirrored")
    });
}

/// Returns true if an operand is a constant of a 32-bit integer type; reports if it is not.
fn constant(cx: &Cx, at: InstRef, rule: &'static Rule, name: &str, operand: usize, id: Id, out: &mut Sink) -> bool {
    let Some(why) = cx.not_const_u32(id) else { return true };
    out.report(rule, at, || {
        Draft::new(format!("{name} must be a constant of a 32-bit integer type; {why}"))
            .label(at, Part::Operand(operand), format!("{name} is given here"))
            .label_opt(cx.def(id), Part::Whole, "comes from here")
    });
    false
}

fn dimensions(cx: &Cx, at: InstRef, dim: Id, out: &mut Sink) {
    if !constant(cx, at, &DIMENSION_NOT_CONSTANT, "Dim", 0, dim, out) {
        return;
    }
    let value = cx.constant(dim);
    out.judge(&DIMENSION_RANGE, Verdict::of(&value, |v| (1..=5).contains(&v)), at, || {
        Draft::new(format!("tensors have 1 to 5 dimensions; here Dim is {value}"))
            .label(at, Part::Operand(0), format!("Dim is {value}"))
            .label_opt(cx.def(dim), Part::Whole, "comes from here")
    });
}

/// `OpTypeTensorViewNV`.
pub(crate) fn view(cx: &Cx, at: InstRef, out: &mut Sink) {
    let inst = cx.inst(at);
    let Some((dim, has)) = inst.tensor_view_type() else { return };
    dimensions(cx, at, dim, out);
    let constant_bool = cx
        .module
        .def_inst(has)
        .is_some_and(|i| i.op.is_constant() && i.ty.and_then(|t| Type::of(cx.module, t)) == Some(Type::Bool));
    if !constant_bool {
        let what = cx.describe_value(has);
        out.report(&HAS_DIMENSIONS, at, || {
            Draft::new(format!("HasDimensions must be a constant of the Boolean type; this is {what}"))
                .label(at, Part::Operand(1), "HasDimensions")
                .label_opt(cx.def(has), Part::Whole, "comes from here")
        });
    }
    let given = inst.operands.len().saturating_sub(2);
    let value = cx.constant(dim);
    let verdict = Verdict::of(&value, |v| v == given as u64);
    let counted = verdict == Verdict::Holds;
    out.judge(&PERMUTATION_COUNT, verdict, at, || {
        Draft::new(format!("a view of {value} dimensions has {value} permutation operands; here are {given}"))
            .label(at, Part::Operand(0), format!("Dim is {value}"))
            .label(at, Part::Whole, format!("{given} after HasDimensions"))
    });
    permutation(cx, at, counted, out);
}

fn permutation(cx: &Cx, at: InstRef, counted: bool, out: &mut Sink) {
    let inst = cx.inst(at);
    let mut constants = true;
    for (i, o) in inst.operands.iter().enumerate().skip(2) {
        let Some(id) = o.id() else { return };
        constants &= constant(cx, at, &PERMUTATION, "a permutation operand", i, id, out);
    }
    // If their number is wrong, it is not known which of them is.
    let n = inst.operands.len().saturating_sub(2);
    if !constants || !counted || n > super::MAX_DIM {
        return;
    }
    let mut seen = 0u64;
    for (i, id) in inst.ids_from(2).enumerate() {
        let value = cx.constant(id);
        let ok = |v: u64| v < n as u64 && seen >> v & 1 == 0;
        let verdict = Verdict::of(&value, ok);
        out.judge(&PERMUTATION, verdict.clone(), at, || {
            let again = value.value().is_some_and(|v| v < n as u64);
            let why = if again { "stands there twice".into() } else { format!("is not one of 0 to {}", n - 1) };
            Draft::new(format!("the operands are not a permutation of {n} dimensions: {value} {why}"))
                .label(at, Part::Operand(2 + i), format!("{value}"))
                .label_opt(cx.def(id), Part::Whole, "comes from here")
        });
        match value.value() {
            Some(v) if v < 64 => seen |= 1 << v,
            _ => return,
        }
    }
}

/// Checks a variable with a layout or view inside.
pub(crate) fn variable(cx: &Cx, at: InstRef, out: &mut Sink) {
    let inst = cx.inst(at);
    let Some(storage) = inst.enumerant(0) else { return };
    let holds = match inst.op {
        Op::Variable => inst.result.and_then(|v| cx.class(v)) == Some(TypeClass::TensorPointer),
        _ => inst.id(1).and_then(|t| cx.class(t)).is_some_and(is_tensor),
    };
    if holds && storage != StorageClass::Function && storage != StorageClass::Private {
        let name = storage_name(storage);
        out.report(&STORAGE, at, || {
            Draft::new(format!("a variable with a tensor layout or view has storage class {name}"))
                .label(at, Part::Operand(0), "must be Function or Private")
                .label_opt(inst.ty.and_then(|t| cx.def(t)), Part::Whole, "its type has one inside")
                .help("pass the numbers, and make the layout where it is used")
        });
    }
}

pub(crate) fn is_tensor(class: TypeClass) -> bool {
    matches!(class, TypeClass::Layout | TypeClass::View | TypeClass::TensorHolder)
}

/// Checks a struct with Block or BufferBlock that has a layout or view inside.
pub(crate) fn in_block(at: InstRef, decorated: InstRef, out: &mut Sink) {
    out.report(&STORAGE, at, || {
        Draft::new("a struct of an interface has a tensor layout or view inside")
            .label(at, Part::Whole, "has one inside")
            .label(decorated, Part::Whole, "decorated here")
            .help("pass the numbers, and make the layout where it is used")
    });
}
