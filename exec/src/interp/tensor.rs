//! Tensor layouts and views (SPV_NV_tensor_addressing): the location of each element of a matrix.
//!
//! A layout of L dimensions is these slots: block sizes, dimensions, strides, offsets, spans (L each), clamp value.
//! A view of V: dimensions, strides (V each), then the clip's row offset, row span, column offset, column span. All are
//! 32-bit, and sums wrap.

use coop_ir::Op;
use coop_ir::spv::TensorClampMode;

use super::Semantics;

const BLOCK: usize = 0;
const DIM: usize = 1;
const STRIDE: usize = 2;
const OFFSET: usize = 3;
const SPAN: usize = 4;

/// Computes a layout instruction. `v` is the layout (except for `OpCreateTensorLayoutNV`) and the operands.
pub(super) fn update_layout(op: Op, dim: usize, v: &[u64], out: &mut [u64]) {
    let size = 5 * dim + 1;
    if op == Op::CreateTensorLayoutNV {
        out.fill(0);
        out[..dim].fill(1);
        return;
    }
    let (old, args) = v.split_at(size.min(v.len()));
    out.copy_from_slice(old);
    let arg = |i: usize| args.get(i).copied().unwrap_or(0) & 0xffff_ffff;
    match op {
        Op::TensorLayoutSetBlockSizeNV => {
            for i in 0..dim {
                out[BLOCK * dim + i] = arg(i);
            }
        }
        Op::TensorLayoutSetDimensionNV => {
            for i in 0..dim {
                out[DIM * dim + i] = arg(i);
                out[SPAN * dim + i] = arg(i);
                out[OFFSET * dim + i] = 0;
            }
            let mut stride = 1u32;
            for i in (0..dim).rev() {
                out[STRIDE * dim + i] = u64::from(stride);
                let block = (out[BLOCK * dim + i] as u32).max(1);
                stride = stride.wrapping_mul((arg(i) as u32).div_ceil(block));
            }
        }
        Op::TensorLayoutSetStrideNV => {
            for i in 0..dim {
                out[STRIDE * dim + i] = arg(i);
            }
        }
        Op::TensorLayoutSliceNV => {
            for i in 0..dim {
                let sum = (out[OFFSET * dim + i] as u32).wrapping_add(arg(2 * i) as u32);
                out[OFFSET * dim + i] = u64::from(sum);
                out[SPAN * dim + i] = arg(2 * i + 1);
            }
        }
        _ => out[5 * dim] = arg(0),
    }
}

/// Computes default strides like `update_layout`, but with the division of an H100.
pub(super) fn floor_strides(dim: usize, out: &mut [u64]) {
    let mut stride = 1u32;
    for i in (0..dim).rev() {
        out[STRIDE * dim + i] = u64::from(stride);
        let block = (out[BLOCK * dim + i] as u32).max(1);
        stride = stride.wrapping_mul(out[DIM * dim + i] as u32 / block);
    }
}

/// Computes a view instruction. `v` is the view (except for `OpCreateTensorViewNV`) and the operands.
pub(super) fn update_view(op: Op, dim: usize, v: &[u64], out: &mut [u64]) {
    let size = 2 * dim + 4;
    if op == Op::CreateTensorViewNV {
        out.fill(0);
        out[2 * dim + 1] = 0xffff_ffff;
        out[2 * dim + 3] = 0xffff_ffff;
        return;
    }
    let (old, args) = v.split_at(size.min(v.len()));
    out.copy_from_slice(old);
    let arg = |i: usize| args.get(i).copied().unwrap_or(0) & 0xffff_ffff;
    match op {
        Op::TensorViewSetDimensionNV => {
            let mut stride = 1u32;
            for i in (0..dim).rev() {
                out[i] = arg(i);
                out[dim + i] = u64::from(stride);
                stride = stride.wrapping_mul(arg(i) as u32);
            }
        }
        Op::TensorViewSetStrideNV => {
            for i in 0..dim {
                out[dim + i] = arg(i);
            }
        }
        _ => {
            for i in 0..4 {
                out[2 * dim + i] = arg(i);
            }
        }
    }
}

/// The modes of `OpTypeTensorLayoutNV`.
const CLAMP_UNDEFINED: u32 = TensorClampMode::Undefined.0;
const CLAMP_CONSTANT: u32 = TensorClampMode::Constant.0;
const CLAMP_EDGE: u32 = TensorClampMode::ClampToEdge.0;
const CLAMP_REPEAT: u32 = TensorClampMode::Repeat.0;

/// A layout's values.
#[derive(Clone, Debug)]
pub(super) struct TensorLayout {
    pub clamp: u32,
    pub block: Vec<u32>,
    pub dim: Vec<u32>,
    pub stride: Vec<u32>,
    pub offset: Vec<i32>,
    pub span: Vec<u32>,
    pub value: u32,
}

impl TensorLayout {
    pub(super) fn new(clamp: u32, dim: usize, v: &[u64]) -> TensorLayout {
        let part = |k: usize| v[k * dim..(k + 1) * dim].iter().map(|x| *x as u32).collect::<Vec<u32>>();
        TensorLayout {
            clamp,
            block: part(BLOCK),
            dim: part(DIM),
            stride: part(STRIDE),
            offset: part(OFFSET).into_iter().map(|x| x as i32).collect(),
            span: part(SPAN),
            value: v[5 * dim] as u32,
        }
    }
}

/// A view's values.
#[derive(Clone, Debug)]
pub(super) struct TensorView {
    pub has_dims: bool,
    pub perm: Vec<u32>,
    pub dim: Vec<u32>,
    pub stride: Vec<u32>,
    /// Row offset and span, column offset and span.
    pub clip: [u32; 4],
}

impl TensorView {
    pub(super) fn new(has_dims: bool, perm: &[u32], v: &[u64]) -> TensorView {
        let n = perm.len();
        let part = |k: usize| v[k * n..(k + 1) * n].iter().map(|x| *x as u32).collect::<Vec<u32>>();
        let clip = [0, 1, 2, 3].map(|i| v[2 * n + i] as u32);
        TensorView { has_dims, perm: perm.to_vec(), dim: part(0), stride: part(1), clip }
    }
}

/// The location of an element.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Hit {
    /// Clipped: the element keeps its value.
    Skip,
    /// Out of bounds: the element is the clamp value.
    Fill,
    /// Out of bounds of a layout with the clamp mode Undefined.
    Undefined,
    /// In the tensor.
    At {
        /// The index of the storage element, or of the block.
        linear: u64,
    },
}

/// The coordinates of an element, for decode functions.
#[derive(Clone, Default, Debug)]
pub(super) struct Coords {
    pub block: Vec<u32>,
    pub within: Vec<u32>,
}

/// Locates the element (`r`, `c`) of a matrix with `cols` columns. The error says why it is undefined.
pub(super) fn locate(
    (r, c): (u32, u32),
    cols: u32,
    layout: &TensorLayout,
    view: Option<&TensorView>,
    store: bool,
    semantics: Semantics,
    coords: &mut Coords,
) -> Result<Hit, String> {
    let nvidia = semantics == Semantics::Nvidia;
    let mut number = match view {
        None => r.wrapping_mul(cols).wrapping_add(c),
        Some(v) => {
            let [row_off, row_span, col_off, col_span] = v.clip;
            let out = |x: u32, off: u32, span: u32| {
                let end = if nvidia { off.saturating_add(span) } else { off.wrapping_add(span) };
                x < off || x >= end
            };
            if out(r, row_off, row_span) || out(c, col_off, col_span) {
                return Ok(Hit::Skip);
            }
            (r - row_off).wrapping_mul(cols.min(col_span)).wrapping_add(c - col_off)
        }
    };
    if let Some(v) = view {
        number = through_view(number, layout, v)?;
    }
    let rank = layout.dim.len();
    let mut slice = vec![0u32; rank];
    for d in (0..rank).rev() {
        let span = layout.span[d];
        if span == 0 {
            return Err(format!("the span of dimension {d} of the tensor layout is 0"));
        }
        // Observed on an H100: without a view the outermost coordinate runs on and is clamped by the dimension.
        slice[d] = if nvidia && d == 0 && view.is_none() { number } else { number % span };
        number /= span;
    }
    coords.block.clear();
    coords.within.clear();
    let mut linear = 0u32;
    for (d, at) in slice.iter().enumerate() {
        let t = match clamped(layout, d, *at, store) {
            Ok(t) => t,
            Err(hit) => return Ok(hit),
        };
        let block = layout.block[d];
        if block == 0 {
            return Err(format!("the block size of dimension {d} of the tensor layout is 0"));
        }
        coords.within.push(t % block);
        coords.block.push(t / block);
        linear = linear.wrapping_add((t / block).wrapping_mul(layout.stride[d]));
    }
    Ok(Hit::At { linear: u64::from(linear) })
}

fn through_view(mut number: u32, layout: &TensorLayout, v: &TensorView) -> Result<u32, String> {
    let n = v.perm.len();
    if !v.has_dims && n > layout.span.len() {
        return Err(format!(
            "a tensor view of {n} dimensions without sizes of its own, with a layout of {}",
            layout.span.len()
        ));
    }
    let mut suffix = vec![1u32; n];
    for d in (0..n.saturating_sub(1)).rev() {
        suffix[d] = suffix[d + 1].wrapping_mul(layout.span.get(d + 1).copied().unwrap_or(1));
    }
    let (dims, strides) = if v.has_dims { (&v.dim, &v.stride) } else { (&layout.span, &suffix) };
    let mut at = vec![0u32; n];
    for d in (0..n).rev() {
        let i = v.perm[d] as usize;
        if dims[i] == 0 {
            return Err(format!("dimension {i} of the tensor view is 0"));
        }
        at[i] = number % dims[i];
        number /= dims[i];
    }
    Ok(at.iter().zip(strides).fold(0u32, |sum, (x, s)| sum.wrapping_add(x.wrapping_mul(*s))))
}

/// Returns the coordinate in dimension `d` after clamping.
fn clamped(layout: &TensorLayout, d: usize, slice: u32, store: bool) -> Result<u32, Hit> {
    let extent = layout.dim[d];
    let t = (slice as i32).wrapping_add(layout.offset[d]);
    if t >= 0 && (t as u32) < extent {
        return Ok(t as u32);
    }
    let (t, extent) = (i64::from(t), i64::from(extent));
    match layout.clamp {
        CLAMP_UNDEFINED => Err(Hit::Undefined),
        _ if store => Err(Hit::Skip),
        CLAMP_CONSTANT => Err(Hit::Fill),
        _ if extent == 0 => Err(Hit::Undefined),
        CLAMP_EDGE => Ok(t.clamp(0, extent - 1) as u32),
        CLAMP_REPEAT => Ok(t.rem_euclid(extent) as u32),
        _ if extent == 1 => Ok(0),
        _ => {
            let period = 2 * extent - 2;
            let w = t.rem_euclid(period);
            Ok(if w >= extent { period - w } else { w } as u32)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(clamp: u32, block: &[u32], dims: &[u32], slice: &[(i32, u32)]) -> TensorLayout {
        let n = dims.len();
        let mut v = vec![0u64; 5 * n + 1];
        let step = |op, args: &[u32], v: &mut Vec<u64>| {
            let input: Vec<u64> = v.iter().copied().chain(args.iter().map(|a| u64::from(*a))).collect();
            update_layout(op, n, &input, v);
        };
        update_layout(Op::CreateTensorLayoutNV, n, &[], &mut v);
        step(Op::TensorLayoutSetBlockSizeNV, block, &mut v);
        step(Op::TensorLayoutSetDimensionNV, dims, &mut v);
        let args: Vec<u32> = slice.iter().flat_map(|(o, s)| [*o as u32, *s]).collect();
        step(Op::TensorLayoutSliceNV, &args, &mut v);
        TensorLayout::new(clamp, n, &v)
    }

    fn at(
        r: u32,
        c: u32,
        cols: u32,
        l: &TensorLayout,
        view: Option<&TensorView>,
        semantics: Semantics,
    ) -> (Hit, Coords) {
        let mut coords = Coords::default();
        let hit = locate((r, c), cols, l, view, false, semantics, &mut coords).unwrap();
        (hit, coords)
    }

    #[test]
    fn five_dimensions_in_blocks() {
        let (block, dims) = ([1, 2, 1, 3, 2], [3, 4, 2, 7, 6]);
        let slice = [(1, 2), (-1, 3), (0, 2), (2, 6), (1, 4)];
        let spans: Vec<u32> = slice.iter().map(|s| s.1).collect();
        let l = layout(CLAMP_CONSTANT, &block, &dims, &slice);
        // Blocks in each dimension: 3, 2, 2, 3, 3.
        assert_eq!(l.stride, [36, 18, 9, 3, 1]);
        let total: u32 = spans.iter().product();
        let cols = 16;
        let mut number = 0;
        for a in 0..spans[0] {
            for b in 0..spans[1] {
                for c in 0..spans[2] {
                    for d in 0..spans[3] {
                        for e in 0..spans[4] {
                            let place = [a, b, c, d, e];
                            let x: Vec<i64> = (0..5).map(|i| i64::from(place[i]) + i64::from(slice[i].0)).collect();
                            let inside = (0..5).all(|i| (0..i64::from(dims[i])).contains(&x[i]));
                            let (hit, coords) = at(number / cols, number % cols, cols, &l, None, Semantics::Spec);
                            if inside {
                                let of = |i: usize| x[i] as u32 / block[i];
                                let linear = of(0) * 36 + of(1) * 18 + of(2) * 9 + of(3) * 3 + of(4);
                                assert_eq!(hit, Hit::At { linear: u64::from(linear) }, "{place:?}");
                                assert_eq!(coords.within, (0..5).map(|i| x[i] as u32 % block[i]).collect::<Vec<_>>());
                            } else {
                                assert_eq!(hit, Hit::Fill, "{place:?}");
                            }
                            number += 1;
                        }
                    }
                }
            }
        }
        assert_eq!(number, total);
    }

    #[test]
    fn where_the_h100_differs() {
        let l = layout(CLAMP_CONSTANT, &[1, 1], &[8, 8], &[(0, 4), (0, 8)]);
        // More rows than the span: by the text the outermost coordinate wraps; an H100 goes on.
        assert_eq!(at(5, 2, 8, &l, None, Semantics::Spec).0, Hit::At { linear: 10 });
        assert_eq!(at(5, 2, 8, &l, None, Semantics::Nvidia).0, Hit::At { linear: 42 });
        let mut v = vec![0u64; 8];
        update_view(Op::CreateTensorViewNV, 2, &[], &mut v);
        let clip: Vec<u64> = v.iter().copied().chain([1, 0xffff_ffff, 0, 0xffff_ffff]).collect();
        update_view(Op::TensorViewSetClipNV, 2, &clip, &mut v);
        let view = TensorView::new(false, &[0, 1], &v);
        assert_eq!(at(2, 3, 8, &l, Some(&view), Semantics::Spec).0, Hit::Skip);
        assert_eq!(at(2, 3, 8, &l, Some(&view), Semantics::Nvidia).0, Hit::At { linear: 11 });
        assert_eq!(at(0, 3, 8, &l, Some(&view), Semantics::Nvidia).0, Hit::Skip);
    }

    #[test]
    fn a_dimension_without_end_is_never_out_of_bounds() {
        let l = layout(CLAMP_CONSTANT, &[1, 1], &[!0, 8], &[(1000, 4), (0, 8)]);
        assert_eq!(at(3, 1, 8, &l, None, Semantics::Spec).0, Hit::At { linear: 8025 });
    }
}
