//! Rules about the instructions that make and change tensor layouts and views.

use crate::cx::Cx;
use crate::declare_rule;
use crate::report::{Draft, Part, Sink};
use crate::rules::callback::is_int32;
use crate::verdict::Verdict;
use coop_ir::{Id, InstRef, Op};

declare_rule! {
    /// ## What it checks
    /// Instructions on tensor layouts (or views) have a layout type (a view type) as their result type, the one of the
    /// layout (view) that they change.
    /// ## Why
    /// They give a changed copy.
    /// ## Example
    /// `OpTensorLayoutSetDimensionNV %layout_3d %layout_of_2d %uint_8 %uint_8`
    pub(crate) static RESULT = {
        id: "tensor-result-type",
        summary: "a layout or view is changed into something else",
        level: Error,
        since: "0.2.0",
        spec: "SPV_NV_tensor_addressing, instructions",
        vuids: [],
        digest: ["tensor.op-result-type"],
    }
}

declare_rule! {
    /// ## What it checks
    /// Instructions on tensor layouts and views have one operand for each dimension, OpTensorLayoutSliceNV two,
    /// OpTensorLayoutSetClampValueNV one and OpTensorViewSetClipNV four in all.
    /// ## Why
    /// Each says one thing of each dimension.
    /// ## Example
    /// `OpTensorLayoutSetDimensionNV %layout_2d %layout %uint_8`
    pub(crate) static COUNT = {
        id: "tensor-operand-count",
        summary: "more or fewer operands than the dimensions ask for",
        level: Error,
        since: "0.2.0",
        spec: "SPV_NV_tensor_addressing, instructions",
        vuids: [],
        digest: ["tensor.op-operand-count"],
    }
}

declare_rule! {
    /// ## What it checks
    /// Dimensions, strides, offsets, spans, block sizes and clip values are scalars of a 32-bit integer type.
    /// ## Why
    /// All arithmetic on them is of 32 bits.
    /// ## Example
    /// `OpTensorLayoutSetDimensionNV %layout_2d %layout %ulong_8 %ulong_8`
    pub(crate) static OPERAND = {
        id: "tensor-operand-type",
        summary: "an operand is not a 32-bit integer",
        level: Error,
        since: "0.2.0",
        spec: "SPV_NV_tensor_addressing, instructions",
        vuids: [],
        digest: ["tensor.op-operand-type"],
    }
}

/// The number of operands after the layout or view.
enum Count {
    None,
    PerDimension(u64),
    Exactly(u64),
}

/// Checks an instruction that makes or changes a layout or view.
pub(crate) fn check(cx: &Cx, at: InstRef, out: &mut Sink) {
    let inst = cx.inst(at);
    let (is_view, changes, count) = match inst.op {
        Op::CreateTensorLayoutNV => (false, false, Count::None),
        Op::CreateTensorViewNV => (true, false, Count::None),
        Op::TensorLayoutSliceNV => (false, true, Count::PerDimension(2)),
        Op::TensorLayoutSetClampValueNV => (false, true, Count::Exactly(1)),
        Op::TensorLayoutSetDimensionNV | Op::TensorLayoutSetStrideNV | Op::TensorLayoutSetBlockSizeNV => {
            (false, true, Count::PerDimension(1))
        }
        Op::TensorViewSetDimensionNV | Op::TensorViewSetStrideNV => (true, true, Count::PerDimension(1)),
        Op::TensorViewSetClipNV => (true, true, Count::Exactly(4)),
        _ => return,
    };
    let Some(ty) = inst.ty else { return };
    let dim = if is_view { cx.view_type(ty).map(|v| v.dim) } else { cx.layout_type(ty).map(|l| l.dim) };
    let Some(dim) = dim else {
        let (what, is) = (if is_view { "view" } else { "layout" }, cx.describe(ty));
        out.report(&RESULT, at, || {
            Draft::new(format!("{} gives a tensor {what}; the result type is {is}", inst.op)).label(
                at,
                Part::Type,
                format!("this is {is}"),
            )
        });
        return;
    };
    if changes {
        let Some(input) = inst.id(0) else { return };
        if cx.module.type_of(input) != Some(ty) {
            let is = cx.describe_value(input);
            out.report(&RESULT, at, || {
                Draft::new(format!(
                    "{} gives {}, but what it changes is of another type, {is}",
                    inst.op,
                    cx.describe(ty)
                ))
                .label(at, Part::Operand(0), format!("this is {is}"))
                .label_opt(cx.def(ty), Part::Whole, "type of the result")
                .label_opt(
                    cx.module.type_of(input).and_then(|t| cx.def(t)),
                    Part::Whole,
                    "type of what is changed",
                )
            });
        }
    }
    operands(cx, at, usize::from(changes), dim, &count, out);
}

fn operands(cx: &Cx, at: InstRef, first: usize, dim: Id, count: &Count, out: &mut Sink) {
    let inst = cx.inst(at);
    let given = inst.operands.len().saturating_sub(first) as u64;
    let value = cx.constant(dim);
    let verdict = match count {
        Count::None => (given == 0).into(),
        Count::Exactly(n) => (given == *n).into(),
        Count::PerDimension(n) => Verdict::of(&value, |v| v.checked_mul(*n) == Some(given)),
    };
    out.judge(&COUNT, verdict, at, || {
        let wanted = match count {
            Count::None => "no operand".to_owned(),
            Count::Exactly(n) => format!("{n} of them"),
            Count::PerDimension(1) => format!("one for each of {value} dimensions"),
            Count::PerDimension(n) => format!("{n} for each of {value} dimensions"),
        };
        Draft::new(format!("{} takes {wanted}; here are {given}", inst.op))
            .label(at, Part::Whole, format!("{given} operands"))
            .label_opt(cx.def(dim), Part::Whole, format!("Dim is {value}"))
    });
    for (i, o) in inst.operands.iter().enumerate().skip(first) {
        let Some(id) = o.id() else { continue };
        if !cx.module.type_of(id).is_some_and(|t| is_int32(cx, t)) {
            let is = cx.describe_value(id);
            out.report(&OPERAND, at, || {
                Draft::new(format!("operands of {} are 32-bit integers; this is {is}", inst.op))
                    .label(at, Part::Operand(i), format!("this is {is}"))
                    .label_opt(cx.def(id), Part::Whole, "comes from here")
            });
        }
    }
}
