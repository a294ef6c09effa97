//! Generates tensor layouts and views, and the loads and stores that use them.
//!
//! The location of each element is computed here by the pseudo-code of SPV_NV_tensor_addressing, so that accesses stay
//! inside of buffers and stores do not overlap.

use super::access::{AccessKind, MatrixPointer};
use super::emit::{Gen, Mat};
use super::fun::Value;
use super::range::Range;
use coop_ir::grammar::Op;
use coop_ir::spv::Capability;
use coop_ir::types::Scalar;
use coop_ir::{Id, Inst, Operand};

pub(super) const UNDEFINED: u32 = 0;
const CONSTANT: u32 = 1;
const EDGE: u32 = 2;
const REPEAT: u32 = 3;
const MIRROR: u32 = 4;

/// The most numbers that a tensor may span.
const MAX_TENSOR: u64 = 6000;

/// An instruction on a layout.
#[derive(Clone, Debug)]
enum Step {
    Block(Vec<u32>),
    Dimension(Vec<u32>),
    Stride(Vec<u32>),
    /// Offset and span.
    Slice(Vec<(i32, u32)>),
    Fill(u32),
}

/// A layout, and how it comes about.
#[derive(Clone, Debug)]
pub(super) struct TensorLayout {
    clamp: u32,
    steps: Vec<Step>,
    pub(super) block: Vec<u32>,
    dim: Vec<u32>,
    stride: Vec<u32>,
    offset: Vec<i32>,
    span: Vec<u32>,
    /// A dimension in which the last slice goes on by so much from one execution to the next.
    moves: Option<(usize, i32)>,
}

/// A view, and how it comes about.
#[derive(Clone, Debug)]
struct TensorView {
    perm: Vec<u32>,
    /// Without them, the layout's spans.
    dims: Option<Vec<u32>>,
    stride: Option<Vec<u32>>,
    /// Row offset, row span, column offset, column span.
    clip: Option<[u32; 4]>,
}

/// The location of an element.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Hit {
    Skip,
    Fill,
    At(u64),
}

/// The extent of an access.
#[derive(Clone, Copy, Debug, Default)]
struct Extent {
    /// One more than the last number, or block.
    end: u64,
    skips: bool,
    fills: bool,
}

/// A layout and a view that suit a matrix.
pub(super) struct Tensor {
    pub(super) layout: TensorLayout,
    view: Option<TensorView>,
    extent: Extent,
}

impl TensorLayout {
    fn new(rank: usize, clamp: u32) -> TensorLayout {
        let zeros = vec![0; rank];
        let (block, offset) = (vec![1; rank], vec![0; rank]);
        TensorLayout {
            clamp,
            steps: Vec::new(),
            block,
            dim: zeros.clone(),
            stride: zeros.clone(),
            offset,
            span: zeros,
            moves: None,
        }
    }

    fn apply(&mut self, step: Step) {
        match &step {
            Step::Block(b) => self.block.clone_from(b),
            Step::Dimension(d) => {
                self.dim.clone_from(d);
                self.span.clone_from(d);
                self.offset.fill(0);
                let mut stride = 1u32;
                for i in (0..d.len()).rev() {
                    self.stride[i] = stride;
                    stride = stride.wrapping_mul(d[i].div_ceil(self.block[i]));
                }
            }
            Step::Stride(s) => self.stride.clone_from(s),
            Step::Slice(s) => {
                for (i, (offset, span)) in s.iter().enumerate() {
                    self.offset[i] += offset;
                    self.span[i] = *span;
                }
            }
            Step::Fill(_) => {}
        }
        self.steps.push(step);
    }

    /// The coordinate of dimension `d` in the tensor. `Err` where there is none, with what happens then.
    fn clamped(&self, d: usize, at: u32, store: bool) -> Option<Result<u32, Hit>> {
        let (t, extent) = (i64::from(at) + i64::from(self.offset[d]), i64::from(self.dim[d]));
        if (0..extent).contains(&t) {
            return Some(Ok(t as u32));
        }
        Some(match self.clamp {
            UNDEFINED => return None,
            _ if store => Err(Hit::Skip),
            CONSTANT => Err(Hit::Fill),
            EDGE => Ok(t.clamp(0, extent - 1) as u32),
            REPEAT => Ok(t.rem_euclid(extent) as u32),
            _ => {
                let w = t.rem_euclid(2 * extent - 2);
                Ok(if w >= extent { 2 * extent - 2 - w } else { w } as u32)
            }
        })
    }

    /// `None` where that is undefined, or where devices differ.
    fn locate(&self, (r, c): (u32, u32), cols: u32, view: Option<&TensorView>, store: bool) -> Option<Hit> {
        let mut number = u64::from(r * cols + c);
        if let Some(v) = view {
            if let Some([row, rows, col, columns]) = v.clip {
                if r < row || r >= row + rows || c < col || c >= col + columns {
                    return Some(Hit::Skip);
                }
                number = u64::from((r - row) * cols.min(columns) + (c - col));
            }
            let own = v.dims.as_ref().unwrap_or(&self.span);
            let mut natural = vec![1u32; own.len()];
            for d in (0..own.len().saturating_sub(1)).rev() {
                natural[d] = natural[d + 1] * own[d + 1];
            }
            let strides = v.stride.as_ref().unwrap_or(&natural);
            let mut sum = 0;
            for p in v.perm.iter().rev() {
                let extent = u64::from(own[*p as usize]);
                sum += number % extent * u64::from(strides[*p as usize]);
                number /= extent;
            }
            // More elements than a view with clips and dimensions counts start over.
            number = sum;
        }
        if number >= self.span.iter().map(|s| u64::from(*s)).product() {
            return None;
        }
        let mut linear = 0;
        let mut out = None;
        for d in (0..self.span.len()).rev() {
            let at = (number % u64::from(self.span[d])) as u32;
            number /= u64::from(self.span[d]);
            match self.clamped(d, at, store)? {
                Ok(t) => linear += u64::from(t / self.block[d]) * u64::from(self.stride[d]),
                Err(hit) => out = Some(hit),
            }
        }
        Some(out.unwrap_or(Hit::At(linear)))
    }

    fn extent(&self, mat: Mat, view: Option<&TensorView>, store: bool) -> Option<Extent> {
        let mut extent = Extent::default();
        let mut seen = coop_ir::hash::FxHashSet::default();
        for r in 0..mat.rows {
            for c in 0..mat.cols {
                match self.locate((r, c), mat.cols, view, store)? {
                    Hit::Skip => extent.skips = true,
                    Hit::Fill => extent.fills = true,
                    Hit::At(n) => {
                        extent.end = extent.end.max(n + 1);
                        if store && !seen.insert(n) {
                            return None;
                        }
                    }
                }
            }
        }
        (extent.end <= MAX_TENSOR).then_some(extent)
    }
}

/// The most executions for which a slice that moves is followed.
const MAX_MOVES: u32 = 8;

impl Tensor {
    /// With a slice that moves: what all executions do.
    fn moving(mut self, mat: Mat, count: u32, moves: (usize, i32)) -> Option<Tensor> {
        let mut all = self.extent;
        let mut layout = self.layout.clone();
        for _ in 1..count {
            layout.offset[moves.0] += moves.1;
            let extent = layout.extent(mat, self.view.as_ref(), false)?;
            all = Extent {
                end: all.end.max(extent.end),
                skips: all.skips | extent.skips,
                fills: all.fills | extent.fills,
            };
        }
        self.layout.moves = Some(moves);
        self.extent = all;
        Some(self)
    }
}

impl Gen<'_> {
    /// Numbers whose product is at least `n`, the last ones first thought of.
    fn factors_of(&mut self, n: u32, rank: usize, last: u32) -> Vec<u32> {
        let mut out = vec![1; rank];
        let mut rest = n;
        for d in (0..rank).rev() {
            let small = self.e.pick(&[2, 4, 3, 8, 1, 5, 16]);
            let pick = match d {
                0 => rest,
                _ if d + 1 == rank && !self.e.chance(80) => last,
                _ => small,
            };
            out[d] = pick.min(rest).max(1);
            rest = rest.div_ceil(out[d]);
        }
        out
    }

    /// A layout whose spans hold at least the elements of a matrix. `blocks` is for loads.
    fn layout(&mut self, mat: Mat, blocks: Option<u32>) -> TensorLayout {
        let rank = self.e.pick(&[2, 1, 3, 2, 4, 5]);
        let clamp = self.e.pick(&[CONSTANT, UNDEFINED, EDGE, REPEAT, MIRROR]);
        let mut layout = TensorLayout::new(rank, clamp);
        let spans = self.factors_of(mat.rows * mat.cols, rank, mat.cols);
        let fill = (clamp == CONSTANT).then(|| self.clamp_value(mat.scalar));
        let early = self.e.chance(80);
        if let (Some((bits, _)), true) = (fill, early) {
            layout.apply(Step::Fill(bits));
        }
        let explicit = self.e.chance(80);
        if let Some(width) = blocks {
            let mut block: Vec<u32> = (0..rank).map(|_| self.e.pick(&[1, 1, 2, 4, 3])).collect();
            if let Some(last) = block.last_mut() {
                *last = last.next_multiple_of(width);
            }
            layout.apply(Step::Block(block));
        }
        let mut offsets = vec![0i32; rank];
        let mut dims = spans.clone();
        for d in 0..rank {
            let (offset, more) = (self.e.pick(&[0i32, 0, 1, 2, -1, -2, -5]), self.e.pick(&[0u32, 0, 1, 3, 2]));
            offsets[d] = if clamp == UNDEFINED { offset.abs() } else { offset };
            let whole = spans[d].saturating_add_signed(offsets[d]) + more;
            dims[d] = if clamp != UNDEFINED && self.e.chance(60) { spans[d].saturating_sub(more) } else { whole };
            dims[d] = dims[d].max(if clamp == MIRROR { 2 } else { 1 });
            if !explicit {
                // Else devices differ in the default strides.
                dims[d] = dims[d].next_multiple_of(layout.block[d]);
            }
        }
        layout.apply(Step::Dimension(dims.clone()));
        if explicit {
            let mut stride = vec![self.e.pick(&[1, 1, 2, 3]); rank];
            for d in (0..rank - 1).rev() {
                stride[d] = stride[d + 1] * dims[d + 1].div_ceil(layout.block[d + 1]) + self.e.pick(&[0, 0, 1, 5]);
            }
            layout.apply(Step::Stride(stride));
        }
        if offsets.iter().any(|o| *o != 0) || dims != spans || self.e.chance(40) {
            self.slices(&mut layout, &offsets, &spans);
        }
        if let (Some((bits, _)), false) = (fill, early) {
            layout.apply(Step::Fill(bits));
        }
        layout
    }

    /// One slice or two, whose offsets add up.
    fn slices(&mut self, layout: &mut TensorLayout, offsets: &[i32], spans: &[u32]) {
        let mut rest = offsets.to_vec();
        if self.e.chance(80) {
            let first: Vec<(i32, u32)> = rest
                .iter_mut()
                .map(|o| {
                    let part = *o + self.e.pick(&[0, 1, -2]);
                    *o -= part;
                    (part, 1 + self.e.below(9))
                })
                .collect();
            layout.apply(Step::Slice(first));
            self.note("slice of a slice");
        }
        layout.apply(Step::Slice(rest.into_iter().zip(spans.iter().copied()).collect()));
    }

    /// The bits of a clamp value, and the value.
    fn clamp_value(&mut self, scalar: Scalar) -> (u32, Range) {
        // What wider types have above these bits is not said.
        if scalar.width() > 32 {
            return (0, Gen::zero());
        }
        let (value, frac) = self.small_number(scalar);
        let id = self.number(scalar, value, frac);
        let bits = self.m.def_inst(id).and_then(|i| i.word(0)).unwrap_or(0);
        (bits, Range::new(value, value, frac))
    }

    fn fill_range(&self, layout: &TensorLayout, scalar: Scalar) -> Range {
        let bits = layout.steps.iter().rev().find_map(|s| match s {
            Step::Fill(bits) => Some(*bits),
            _ => None,
        });
        let bits = bits.unwrap_or(0);
        let value = match scalar {
            Scalar::Int { signed: true, width } => {
                let up = 32 - width.min(32);
                return Range::int(((bits << up) as i32 >> up).into(), ((bits << up) as i32 >> up).into());
            }
            Scalar::Int { .. } => return Range::int(bits.into(), bits.into()),
            Scalar::BF16 => f64::from(half::bf16::from_bits(bits as u16)),
            Scalar::Float { width: 16 } => f64::from(half::f16::from_bits(bits as u16)),
            Scalar::Float { width: 32 } => f64::from(f32::from_bits(bits)),
            _ => 0.0,
        };
        // Clamp values have at most two fractional bits.
        Range::new((value * 4.0) as i128, (value * 4.0) as i128, 2)
    }

    fn view(&mut self, mat: Mat, layout: &TensorLayout) -> TensorView {
        let own = self.e.chance(128);
        let rank = if own { self.e.pick(&[2, 3, 1, 4, 5]) } else { layout.span.len() };
        let mut perm: Vec<u32> = (0..rank as u32).collect();
        if rank == 2 {
            perm.swap(0, 1);
        } else {
            for i in (1..rank).rev() {
                let j = self.e.below(i as u32 + 1) as usize;
                perm.swap(i, j);
            }
        }
        let dims = own.then(|| {
            let factors = self.factors_of(mat.rows * mat.cols, rank, mat.rows);
            let mut dims = vec![1; rank];
            // In the order in which they are counted.
            for (f, p) in factors.iter().zip(&perm) {
                dims[*p as usize] = *f;
            }
            dims
        });
        let stride = (own && self.e.chance(80)).then(|| (0..rank).map(|_| self.e.pick(&[1, 2, 0, 4, 3, 8])).collect());
        let clip = self.e.chance(80).then(|| {
            let mut clip = |n: u32| {
                let first = self.e.below(n);
                [first, 1 + self.e.below(n)]
            };
            let ([a, b], [c, d]) = (clip(mat.rows), clip(mat.cols));
            [a, b, c, d]
        });
        TensorView { perm, dims, stride, clip }
    }

    /// A layout and maybe a view for a matrix. `blocks`: block sizes, the last a multiple of this.
    pub(super) fn tensor_for(&mut self, mat: Mat, blocks: Option<u32>, store: bool) -> Option<Tensor> {
        for _ in 0..3 {
            let layout = self.layout(mat, blocks);
            let view = self.e.chance(100).then(|| self.view(mat, &layout));
            if let Some(extent) = layout.extent(mat, view.as_ref(), store) {
                return Some(Tensor { layout, view, extent });
            }
            if let Some(extent) = layout.extent(mat, None, store) {
                return Some(Tensor { layout, view: None, extent });
            }
        }
        None
    }

    pub(super) fn named(&mut self, op: Op, ty: Option<Id>, ids: &[Id]) -> Id {
        if let Some(id) = self.tensor_types.get(&(op, ids.to_vec())) {
            return *id;
        }
        let id = self.m.fresh_id();
        self.global(Inst::new(op, ty, Some(id), ids.iter().copied().map(Operand::Id)));
        self.tensor_types.insert((op, ids.to_vec()), id);
        id
    }

    /// A Boolean constant.
    pub(super) fn truth(&mut self, value: bool) -> Id {
        let bool_type = self.g.bool(&mut self.m);
        self.named(if value { Op::ConstantTrue } else { Op::ConstantFalse }, Some(bool_type), &[])
    }

    /// A layout or view that instructions change step by step: a value, or a variable that holds one.
    fn stepwise(&mut self, ty: Id, create: Op, steps: Vec<(Op, Vec<Id>)>) -> Id {
        let variable = self.e.chance(60).then(|| self.local(ty, None));
        let mut now = self.ids(create, ty, &[]);
        for (op, operands) in steps {
            if let Some(v) = variable {
                self.effect(Op::Store, [v, now].map(Operand::Id));
                now = self.ids(Op::Load, ty, &[v]);
            }
            let all: Vec<Id> = [now].into_iter().chain(operands).collect();
            now = self.ids(op, ty, &all);
        }
        if variable.is_some() {
            self.note("tensor layout or view in a variable");
        }
        now
    }

    /// A number as an operand: most are constants.
    fn tensor_number(&mut self, value: u32) -> Id {
        let id = if self.e.chance(60) { self.uniform(value) } else { self.u32(value) };
        if self.e.chance(30) {
            let ty = self.scalar(Scalar::Int { width: 32, signed: true });
            return self.ids(Op::Bitcast, ty, &[id]);
        }
        id
    }

    fn emit_layout(&mut self, layout: &TensorLayout, exec: Id) -> Id {
        self.extension("SPV_NV_tensor_addressing");
        self.capability(Capability::TensorAddressingNV);
        let rank = self.u32(layout.span.len() as u32);
        let clamp = if self.e.chance(20) { self.constant_u32(layout.clamp) } else { self.u32(layout.clamp) };
        let ty = self.named(Op::TypeTensorLayoutNV, None, &[rank, clamp]);
        self.note(
            ["clamp: none", "clamp: constant", "clamp: edge", "clamp: repeat", "clamp: mirror"][layout.clamp as usize],
        );
        self.note(["", "tensor of 1", "tensor of 2", "tensor of 3", "tensor of 4", "tensor of 5"][layout.span.len()]);
        let last = layout.steps.iter().rposition(|s| matches!(s, Step::Slice(_)));
        let mut steps = Vec::new();
        for (i, step) in layout.steps.iter().enumerate() {
            let (op, values) = match step {
                Step::Block(b) => (Op::TensorLayoutSetBlockSizeNV, b.clone()),
                Step::Dimension(d) => (Op::TensorLayoutSetDimensionNV, d.clone()),
                Step::Stride(s) => (Op::TensorLayoutSetStrideNV, s.clone()),
                Step::Slice(s) => (Op::TensorLayoutSliceNV, s.iter().flat_map(|(o, n)| [*o as u32, *n]).collect()),
                Step::Fill(v) => (Op::TensorLayoutSetClampValueNV, vec![*v]),
            };
            let mut ids: Vec<Id> = values.into_iter().map(|v| self.tensor_number(v)).collect();
            if let (Some((d, by)), true) = (layout.moves, last == Some(i)) {
                ids[2 * d] = self.moved(ids[2 * d], exec, by);
            }
            steps.push((op, ids));
        }
        self.stepwise(ty, Op::CreateTensorLayoutNV, steps)
    }

    /// An offset, and so much more for each execution.
    fn moved(&mut self, offset: Id, exec: Id, by: i32) -> Id {
        let uint = self.uint();
        let (offset, by) = (self.ids(Op::Bitcast, uint, &[offset]), self.u32(by as u32));
        let way = self.u32_op(Op::IMul, exec, by);
        self.note("slice that moves");
        self.u32_op(Op::IAdd, offset, way)
    }

    fn emit_view(&mut self, view: &TensorView) -> Id {
        let rank = self.u32(view.perm.len() as u32);
        let own = self.truth(view.dims.is_some());
        let perm: Vec<Id> = view.perm.iter().map(|p| self.u32(*p)).collect();
        let ids: Vec<Id> = [rank, own].into_iter().chain(perm).collect();
        let ty = self.named(Op::TypeTensorViewNV, None, &ids);
        let mut steps = Vec::new();
        if let Some(d) = &view.dims {
            let ids = d.iter().map(|v| self.tensor_number(*v)).collect();
            steps.push((Op::TensorViewSetDimensionNV, ids));
            self.note("view with dimensions");
        } else {
            self.note("view");
        }
        if let Some(s) = &view.stride {
            let ids = s.iter().map(|v| self.tensor_number(*v)).collect();
            steps.push((Op::TensorViewSetStrideNV, ids));
            self.note("view with strides");
        }
        if let Some(c) = view.clip {
            let ids = c.iter().map(|v| self.tensor_number(*v)).collect();
            steps.push((Op::TensorViewSetClipNV, ids));
            self.note("view that clips");
        }
        self.stepwise(ty, Op::CreateTensorViewNV, steps)
    }

    /// Everything behind Pointer and Object.
    fn tensor_operands(
        &mut self,
        t: &Tensor,
        exec: Id,
        place: &MatrixPointer,
        kind: AccessKind,
        functions: &[(u32, Id)],
    ) -> Vec<Operand> {
        self.extension("SPV_NV_cooperative_matrix2");
        self.capability(Capability::CooperativeMatrixTensorAddressingNV);
        let layout = self.emit_layout(&t.layout, exec);
        let view = t.view.as_ref().map(|v| self.emit_view(v));
        let mut out = vec![Operand::Id(layout)];
        out.extend(self.memory_operands(place.storage, place.align, kind));
        let mask = u32::from(view.is_some()) | functions.iter().fold(0, |m, f| m | f.0);
        out.push(Operand::Word(mask));
        out.extend(view.into_iter().chain(functions.iter().map(|f| f.1)).map(Operand::Id));
        out
    }

    /// Returns the range of the result of a load from memory with a range.
    fn loaded_range(&self, t: &Tensor, mat: Mat, memory: Range, object: Range) -> Option<Range> {
        let mut range = memory;
        if t.extent.fills {
            range = range.hull(self.fill_range(&t.layout, mat.scalar));
        }
        if t.extent.skips {
            range = range.hull(object);
        }
        // Whatever it is, it can be moved about.
        let moved = || mat.scalar.is_float().then(Range::anything);
        if range.fits(mat.scalar) { Some(range) } else { range.wrapped(mat.scalar).or_else(moved) }
    }

    /// `OpCooperativeMatrixLoadTensorNV`, maybe of what functions decode.
    pub(super) fn tensor_load(&mut self, decodes: bool) -> Option<Value> {
        let mat = self.any_mat();
        self.tensor_load_of(mat, decodes)
    }

    /// The same of a matrix of this type.
    pub(super) fn tensor_load_of(&mut self, mat: Mat, decodes: bool) -> Option<Value> {
        let object = self.operand(mat);
        if decodes && !super::number::computes(mat.scalar) {
            return None;
        }
        let vector = if decodes { self.e.pick(&[1, 1, 2, 4]) } else { 1 };
        let blocks = (decodes || self.e.chance(30)).then_some(vector);
        let at = usize::from(mat.workgroup);
        let (exec, count) = (self.fun().exec[at], self.fun().count[at]);
        let mut t = self.tensor_for(mat, blocks, false)?;
        let slices = t.layout.steps.iter().any(|s| matches!(s, Step::Slice(_)));
        if slices && count > 1 && count <= MAX_MOVES && self.e.chance(120) {
            let d = self.e.below(t.layout.span.len() as u32) as usize;
            let by = self.e.pick(&[1, 2, -1, 3]);
            let before = (t.layout.clone(), t.view.clone(), t.extent);
            t = match t.moving(mat, count, (d, by)) {
                Some(moving) => moving,
                None => Tensor { layout: before.0, view: before.1, extent: before.2 },
            };
        }
        let decoder = if decodes { Some(self.decoder(mat.scalar, &t.layout.block, vector)?) } else { None };
        let (component, unit, size) = match &decoder {
            None => (mat.scalar, self.unit_for(mat.scalar, None), mat.scalar.bytes()),
            Some(d) => (d.component, (d.component, self.e.pick(&[1, 1, 2, 4])), d.size),
        };
        let unit_bytes = unit.0.bytes() * unit.1;
        let units = ((t.extent.end.max(1) as u32) * size).div_ceil(unit_bytes);
        let step = self.tensor_step(component, unit_bytes);
        let memory = decoder.as_ref().map(|d| d.range);
        let place = self.input(mat, component, unit, (units, step))?;
        let range = self.loaded_range(&t, mat, memory.unwrap_or(place.range), object.range)?;
        let functions = decoder.map(|d| d.functions).unwrap_or_default();
        let operands = self.tensor_operands(&t, exec, &place, AccessKind::Load, &functions);
        let operands = [place.pointer, object.id].map(Operand::Id).into_iter().chain(operands);
        let id = self.op(Op::CooperativeMatrixLoadTensorNV, mat.ty, operands);
        self.note(match functions.len() {
            0 if blocks.is_some() => "tensor load of blocks",
            0 => "tensor load",
            1 => "tensor load that decodes",
            _ => "tensor load that decodes vectors",
        });
        Some(Value { id, mat, range, used: false })
    }

    /// `OpCooperativeMatrixStoreTensorNV` to a place of its own.
    pub(super) fn tensor_store(&mut self, value: Value) {
        let mat = value.mat;
        let exec = self.fun().exec[0];
        let Some(t) = self.tensor_for(mat, None, true) else { return };
        let unit = self.unit_for(mat.scalar, Some(1));
        let unit_bytes = unit.0.bytes() * unit.1;
        let units = ((t.extent.end.max(1) as u32) * mat.scalar.bytes()).div_ceil(unit_bytes);
        let step = self.tensor_step(mat.scalar, unit_bytes);
        let place = self.output(mat, unit, (units, step));
        let operands = self.tensor_operands(&t, exec, &place, AccessKind::Store, &[]);
        let operands = [place.pointer, value.id].map(Operand::Id).into_iter().chain(operands);
        self.effect(Op::CooperativeMatrixStoreTensorNV, operands);
        self.note("tensor store");
    }

    /// Stores a matrix into shared memory and loads it from there by a layout.
    pub(super) fn tensor_through_shared(&mut self, value: Value) -> Option<Value> {
        let mat = value.mat;
        let instances = if mat.workgroup { 1 } else { self.subgroups };
        let exec = self.fun().exec[0];
        let t = self.tensor_for(mat, None, true)?;
        let bytes = mat.scalar.bytes();
        let step = self.tensor_step(mat.scalar, bytes);
        let gap = step * self.unaligned_gap(step * bytes);
        let region = (gap + t.extent.end.max(1) as u32).next_multiple_of(step);
        let total = region * instances * bytes;
        // What the store leaves out has no value.
        if self.fun().apart || t.extent.skips || self.shared + total > 16384 {
            return None;
        }
        self.shared += total.next_multiple_of(16);
        let elem = self.scalar(mat.scalar);
        self.scalar_capabilities(mat.scalar);
        let (pointers, storage) = self.shared_region(elem, (gap, region), instances, mat.workgroup);
        let [from, to] = pointers.map(|pointer| MatrixPointer { pointer, storage, align: bytes, range: value.range });
        let operands = self.tensor_operands(&t, exec, &from, AccessKind::StoreShared, &[]);
        let operands = [from.pointer, value.id].map(Operand::Id).into_iter().chain(operands);
        self.effect(Op::CooperativeMatrixStoreTensorNV, operands);
        self.barrier();
        let object = self.operand(mat);
        let operands = self.tensor_operands(&t, exec, &to, AccessKind::LoadShared, &[]);
        let operands = [to.pointer, object.id].map(Operand::Id).into_iter().chain(operands);
        let id = self.op(Op::CooperativeMatrixLoadTensorNV, mat.ty, operands);
        self.barrier();
        self.note("tensor through shared memory");
        Some(Value { id, mat, range: value.range, used: false })
    }
}
