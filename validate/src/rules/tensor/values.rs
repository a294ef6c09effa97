//! Rules about the fixed values of tensor layouts and views at a load or store.

use super::access::TensorLoadStore;
use super::rules::{
    BLOCK_AFTER, BLOCK_ZERO, CLAMP_64, CLAMP_UNUSED, CLIP, DEFAULT_STRIDES, ENDLESS, EXCEEDS, MIRROR, OUT_OF_BOUNDS,
    RANK_EXCEEDS, RANK_LESS, SPAN_ZERO, STORE_BLOCK, STORE_OVERLAP, STRIDE_BROADCAST, STRIDE_ORDER, VIEW_ZERO,
};
use super::state::{LayoutState, States, ViewState};
use super::{CLAMP_MODES, MAX_DIM};
use crate::cx::Cx;
use crate::report::{Draft, Part, Sink};
use crate::rule::Rule;
use crate::verdict::Verdict;
use coop_ir::types::Scalar;
use coop_ir::{InstRef, Op};

/// Checks an instruction that changes a layout or view.
pub(crate) fn change(cx: &Cx, at: InstRef, states: &States, out: &mut Sink) {
    let inst = cx.inst(at);
    let Some(layout) = inst.result.and_then(|r| states.layout(r)) else { return };
    match inst.op {
        Op::TensorLayoutSetStrideNV => strides(at, layout, out),
        Op::TensorLayoutSetClampValueNV => {
            let Some(ty) = inst.ty.and_then(|t| cx.layout_type(t)) else { return };
            let mode = cx.constant(ty.clamp);
            // If the mode can be specialized, the value may be used.
            if let Some(m) = mode.fixed().filter(|m| *m != 1) {
                let name = CLAMP_MODES.get(m as usize).copied().unwrap_or("unknown");
                out.report(&CLAMP_UNUSED, at, || {
                    Draft::new(format!("a clamp value is set, but the clamp mode is {name}"))
                        .label(at, Part::Whole, "nothing looks at it")
                        .label(ty.at, Part::Operand(1), format!("clamp mode {name}"))
                        .help("give the layout clamp mode Constant, or leave the value out")
                });
            }
        }
        _ => {}
    }
}

fn strides(at: InstRef, l: &LayoutState, out: &mut Sink) {
    for i in 0..l.dims.saturating_sub(1) {
        let (Some(outer), Some(inner), Some(n)) = (l.stride[i], l.stride[i + 1], l.dim[i + 1]) else { continue };
        let Some(block) = l.block[i + 1].filter(|b| *b > 0) else { continue };
        // A dimension of all ones turns off the bounds check, and is not an extent.
        if n == u32::MAX {
            continue;
        }
        let least = u64::from(inner) * u64::from(n.div_ceil(block));
        if u64::from(outer) >= least {
            continue;
        }
        let rule: &'static Rule = if outer == 0 { &STRIDE_BROADCAST } else { &STRIDE_ORDER };
        out.report(rule, at, || {
            let message = if outer == 0 {
                format!("stride 0 of dimension {i} spreads one row over the tensor; the text wants {least} at least")
            } else {
                format!("stride {outer} of dimension {i} is less than the {least} that the dimension inside it takes")
            };
            Draft::new(message)
                .label(at, Part::Operand(1 + i), format!("stride {outer}"))
                .label_opt(l.dim_at, Part::Operand(2 + i), format!("{n} elements inside it"))
                .help(format!("{least} is the stride of a tensor without gaps"))
        });
    }
}

/// Checks the layout and the view of a load or store.
pub(crate) fn access(cx: &Cx, a: &TensorLoadStore, states: &States, out: &mut Sink) {
    let view = a.view.map(|(v, _)| v);
    ranks(cx, a, out);
    if let Some(layout) = states.layout(a.layout) {
        let clamp = cx.module.type_of(a.layout).and_then(|t| cx.layout_type(t)).map(|t| cx.constant(t.clamp));
        let clamp = clamp.and_then(|c| c.fixed());
        zeros(a, layout, out);
        blocks(a, layout, out);
        elements(a, layout, view.is_some(), clamp, out);
        if clamp == Some(4)
            && let Some(d) = (0..layout.dims).find(|d| layout.dim[*d] == Some(1))
        {
            out.report(&MIRROR, a.at, || {
                Draft::new(format!("dimension {d} is 1: mirrored, its coordinate is found by a division by 0"))
                    .label(a.at, Part::Operand(2), "clamp mode RepeatMirrored")
                    .label_opt(layout.dim_at, Part::Operand(1 + d), "dimension 1")
            });
        }
        if clamp == Some(1) && a.is_load {
            wide(cx, a, out);
        }
    }
    if let Some((id, operand)) = a.view
        && let Some(view) = states.view(id)
    {
        view_values(cx, a, view, (id, operand), out);
    }
}

fn ranks(cx: &Cx, a: &TensorLoadStore, out: &mut Sink) {
    let Some((view, operand)) = a.view else { return };
    let Some(view) = cx.module.type_of(view).and_then(|t| cx.view_type(t)) else { return };
    let Some(layout) = cx.module.type_of(a.layout).and_then(|t| cx.layout_type(t)) else { return };
    if cx.constant(view.has_dimensions).fixed() != Some(0) {
        return;
    }
    let (v, l) = (cx.constant(view.dim), cx.constant(layout.dim));
    let (Some(vn), Some(ln)) = (v.value(), l.value()) else { return };
    if vn == ln {
        return;
    }
    let rule: &'static Rule = if vn > ln { &RANK_EXCEEDS } else { &RANK_LESS };
    let verdict = match cx.equal(view.dim, layout.dim) {
        Verdict::Holds => return,
        other => other,
    };
    out.judge(rule, verdict, a.at, || {
        Draft::new(format!("a view of {vn} dimensions takes them from the spans of a layout of {ln}"))
            .label(a.at, Part::Operand(operand), "the view")
            .label(view.at, Part::Operand(0), format!("{vn} dimensions"))
            .label(layout.at, Part::Operand(0), format!("{ln} dimensions"))
            .help("give the view as many dimensions as the layout, or HasDimensions and dimensions of its own")
    });
}

fn zeros(a: &TensorLoadStore, l: &LayoutState, out: &mut Sink) {
    if let Some(d) = (0..l.dims).find(|d| l.span[*d] == Some(0)) {
        out.report(&SPAN_ZERO, a.at, || {
            let draft = match l.span_at {
                None => Draft::new("the layout has no dimensions: all its spans are 0")
                    .help("set its dimensions by OpTensorLayoutSetDimensionNV"),
                Some(at) => Draft::new(format!("dimension {d} of the layout has span 0"))
                    .label(at, Part::Whole, "spans are set here")
                    .help("nothing is in a slice of span 0, and coordinates are divided by it"),
            };
            draft.label(a.at, Part::Operand(2), "coordinates are divided by the spans")
        });
    }
    if let Some(d) = (0..l.dims).find(|d| l.block[*d] == Some(0)) {
        out.report(&BLOCK_ZERO, a.at, || {
            Draft::new(format!("dimension {d} of the layout has block size 0"))
                .label(a.at, Part::Operand(2), "coordinates are divided by the block sizes")
                .label_opt(l.block_at, Part::Operand(1 + d), "block size 0")
        });
    }
}

fn blocks(a: &TensorLoadStore, l: &LayoutState, out: &mut Sink) {
    if let Some((d, n)) = (0..l.dims).find_map(|d| Some((d, l.block[d].filter(|b| *b > 1)?)))
        && !a.is_load
    {
        out.report(&STORE_BLOCK, a.at, || {
            Draft::new(format!("a tensor store has block sizes of 1; dimension {d} has {n}"))
                .label(a.at, Part::Operand(2), "stored through this layout")
                .label_opt(l.block_at, Part::Operand(1 + d), format!("block size {n}"))
        });
    }
    if l.block_after == Some(true) {
        out.report(&BLOCK_AFTER, a.at, || {
            Draft::new("the block size was set after the dimensions, so that the default strides do not count blocks")
                .label(a.at, Part::Operand(2), "used here")
                .label_opt(l.block_at, Part::Whole, "the block size")
                .label_opt(l.dim_at, Part::Whole, "the dimensions, and with them the strides")
                .help("set the block size first, or the strides last")
        });
    }
    // The outermost dimension does not affect the strides.
    let partial =
        |d: usize| Some((d, l.dim[d]?, l.block[d].filter(|b| *b > 1)?)).filter(|(_, n, b)| !n.is_multiple_of(*b));
    if l.default_strides == Some(true)
        && l.block_after == Some(false)
        && let Some((d, n, b)) = (1..l.dims).find_map(partial)
    {
        out.report(&DEFAULT_STRIDES, a.at, || {
            let (text, seen) = (n.div_ceil(b), n / b);
            Draft::new(format!(
                "dimension {d} of {n} has a partial block of {b}: by the text it counts {text} blocks, on NVIDIA and in Mesa {seen}"
            ))
            .label(a.at, Part::Operand(2), "used with default strides")
            .label_opt(l.dim_at, Part::Operand(1 + d), format!("{n} elements"))
            .label_opt(l.block_at, Part::Operand(1 + d), format!("in blocks of {b}"))
            .help("set the strides by OpTensorLayoutSetStrideNV")
        });
    }
}

/// Returns the product of the spans, if all are fixed and none is 0.
fn volume(l: &LayoutState) -> Option<u64> {
    let spans = l.span.iter().take(l.dims);
    spans.copied().try_fold(1u64, |all, n| all.checked_mul(u64::from(n?))).filter(|n| *n > 0)
}

fn elements(a: &TensorLoadStore, l: &LayoutState, viewed: bool, clamp: Option<u64>, out: &mut Sink) {
    if !a.is_load
        && let Some(d) = (0..l.dims).find(|d| l.stride[*d] == Some(0) && l.span[*d].is_some_and(|n| n > 1))
    {
        out.report(&STORE_OVERLAP, a.at, || {
            Draft::new(format!("stride 0 of dimension {d}: elements are stored to the same place, in no order"))
                .label(a.at, Part::Operand(2), "stored through this layout")
                .label_opt(l.stride_at, Part::Operand(1 + d), "stride 0")
        });
    }
    let endless = |d: &usize| l.dim[*d] == Some(u32::MAX) && l.offset[*d].is_some_and(|o| (o as i32) < 0);
    if clamp == Some(1)
        && let Some(d) = (0..l.dims).find(endless)
    {
        let offset = l.offset[d].unwrap_or(0) as i32;
        out.report(&ENDLESS, a.at, || {
            Draft::new(format!(
                "offset {offset} in dimension {d} of 0xFFFFFFFF: an H100 does not clamp there, and may hang"
            ))
            .label(a.at, Part::Operand(2), "used here")
            .label_opt(l.span_at, Part::Whole, format!("offset {offset}"))
            .help("give the dimension its size")
        });
    }
    let Some(matrix) = a.matrix else { return };
    let (Some(rows), Some(cols)) = (matrix.rows.fixed(), matrix.cols.fixed()) else { return };
    let (count, Some(volume)) = (rows.saturating_mul(cols), volume(l)) else { return };
    if count > volume && !viewed {
        let rule: &'static Rule = if a.is_load { &EXCEEDS } else { &STORE_OVERLAP };
        out.report(rule, a.at, || {
            let then = if a.is_load {
                "by the text coordinates begin again, an H100 runs on"
            } else {
                "by the text coordinates begin again, and places are stored to more than once"
            };
            Draft::new(format!("{matrix} has {count} elements, the spans of the layout {volume}: {then}"))
                .label(a.at, Part::Operand(2), format!("spans {}", list(l)))
                .label_opt(l.span_at, Part::Whole, "spans are set here")
                .help("make the matrix and the slice the same size")
        });
    }
    // If all elements of the slice are accessed, its last coordinates are.
    if clamp == Some(0) && count >= volume && !viewed {
        bounds(a, l, out);
    }
}

fn list(l: &LayoutState) -> String {
    let spans: Vec<String> = l.span.iter().take(l.dims.min(MAX_DIM)).flatten().map(u32::to_string).collect();
    spans.join("x")
}

fn bounds(a: &TensorLoadStore, l: &LayoutState, out: &mut Sink) {
    for d in 0..l.dims {
        let (Some(dim), Some(offset), Some(span)) = (l.dim[d], l.offset[d], l.span[d]) else { continue };
        let first = i64::from(offset as i32);
        let last = first + i64::from(span) - 1;
        if first >= 0 && last < i64::from(dim) {
            continue;
        }
        out.report(&OUT_OF_BOUNDS, a.at, || {
            Draft::new(format!(
                "coordinates {first} to {last} of dimension {d}, which has {dim}: with clamp mode Undefined none may be outside"
            ))
            .label(a.at, Part::Operand(2), "used here")
            .label_opt(l.dim_at, Part::Operand(1 + d), format!("{dim} elements"))
            .label_opt(l.span_at.filter(|s| Some(*s) != l.dim_at), Part::Whole, format!("{span} from {first} on"))
            .help("give the layout another clamp mode, such as Constant")
        });
        return;
    }
}

fn wide(cx: &Cx, a: &TensorLoadStore, out: &mut Sink) {
    let Some(matrix) = a.matrix else { return };
    if matrix.component.map(Scalar::width) != Some(64) {
        return;
    }
    out.report(&CLAMP_64, a.at, || {
        Draft::new(format!("components of {matrix} that are out of bounds get a clamp value of 32 bits"))
            .label(a.at, Part::Operand(2), "clamp mode Constant")
            .label_opt(cx.decl(matrix), Part::Operand(0), "64 bits")
    });
}

fn view_values(cx: &Cx, a: &TensorLoadStore, view: &ViewState, (id, operand): (coop_ir::Id, usize), out: &mut Sink) {
    let has = cx.module.type_of(id).and_then(|t| cx.view_type(t)).map(|t| cx.constant(t.has_dimensions));
    if has.and_then(|c| c.fixed()) == Some(1)
        && let Some(d) = (0..view.dims).find(|d| view.dim[*d] == Some(0))
    {
        out.report(&VIEW_ZERO, a.at, || {
            let draft = match view.dim_at {
                None => Draft::new("the view has no dimensions: all of them are 0")
                    .help("set them by OpTensorViewSetDimensionNV, or take those of the layout (HasDimensions false)"),
                Some(at) => Draft::new(format!("dimension {d} of the view is 0")).label(at, Part::Operand(1 + d), "0"),
            };
            draft.label(a.at, Part::Operand(operand), "elements are numbered by dividing by the dimensions")
        });
    }
    for (name, first) in [("row", 0), ("column", 2)] {
        let (Some(offset), Some(span)) = (view.clip[first], view.clip[first + 1]) else { continue };
        if offset > 0 && offset.checked_add(span).is_none() {
            out.report(&CLIP, a.at, || {
                Draft::new(format!(
                    "clip {name} offset {offset} and span {span:#x} wrap: by the text everything is clipped, on an H100 what lies below the offset"
                ))
                .label(a.at, Part::Operand(operand), "the view")
                .label_opt(view.clip_at, Part::Operand(1 + first), format!("offset {offset}, span {span:#x}"))
                .help(format!("give a span of no more than {:#x}", u32::MAX - offset))
            });
        }
    }
}
