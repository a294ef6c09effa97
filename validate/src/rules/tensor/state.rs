//! Data-flow analysis of the values of tensor layouts and views, as far as they are fixed.
//!
//! Front ends keep layouts and views in Function variables, also in optimized modules, and load, change and store them
//! at each step. So this is a forward analysis of each function with such variables. A state has the value of each
//! variable, and each number in it is fixed or unknown. At joins, numbers that differ become unknown. The analysis
//! ends, because a number changes at most twice, from "not seen" to a value to unknown; passes are bounded all the
//! same, and a function that exceeds the bound has no known values.
//!
//! Numbers that depend on defaults of specialization constants are unknown here: findings about them would have to name
//! all of these constants.

use super::MAX_DIM;
use crate::cx::{Cx, TypeClass};
use coop_ir::cfg::Cfg;
use coop_ir::{Id, InstRef, Op};
use std::collections::BTreeMap;
use std::rc::Rc;

/// A number that is fixed, or `None`.
pub(crate) type Num = Option<u32>;

/// One number for each dimension.
pub(crate) type Nums = [Num; MAX_DIM];

/// The value of a tensor layout.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct LayoutState {
    /// The number of dimensions.
    pub(crate) dims: usize,
    pub(crate) block: Nums,
    pub(crate) dim: Nums,
    pub(crate) stride: Nums,
    pub(crate) offset: Nums,
    pub(crate) span: Nums,
    pub(crate) clamp: Num,
    /// True if the strides are those that SetDimension computes.
    pub(crate) default_strides: Option<bool>,
    /// True if the block size was changed after the default strides were computed.
    pub(crate) block_after: Option<bool>,
    /// The instructions that set the dimensions, the spans, the block sizes and the strides.
    pub(crate) dim_at: Option<InstRef>,
    pub(crate) span_at: Option<InstRef>,
    pub(crate) block_at: Option<InstRef>,
    pub(crate) stride_at: Option<InstRef>,
}

/// The value of a tensor view.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ViewState {
    /// The number of dimensions.
    pub(crate) dims: usize,
    pub(crate) dim: Nums,
    pub(crate) stride: Nums,
    /// Row offset and span, column offset and span.
    pub(crate) clip: [Num; 4],
    pub(crate) dim_at: Option<InstRef>,
    pub(crate) clip_at: Option<InstRef>,
}

/// A layout or view; `Unknown` if nothing is known about it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum TensorValue {
    Layout(Rc<LayoutState>),
    View(Rc<ViewState>),
    Unknown,
}

impl LayoutState {
    /// Returns the value of `OpCreateTensorLayoutNV`.
    fn new(dims: usize) -> LayoutState {
        LayoutState {
            dims,
            block: [Some(1); MAX_DIM],
            dim: [Some(0); MAX_DIM],
            stride: [Some(0); MAX_DIM],
            offset: [Some(0); MAX_DIM],
            span: [Some(0); MAX_DIM],
            clamp: Some(0),
            default_strides: Some(false),
            block_after: Some(false),
            dim_at: None,
            span_at: None,
            block_at: None,
            stride_at: None,
        }
    }

    /// Returns the strides of a tensor without gaps between its dimensions, counted in blocks.
    fn packed(&self) -> Nums {
        let mut strides = [None; MAX_DIM];
        let mut stride = Some(1u32);
        for d in (0..self.dims).rev() {
            strides[d] = stride;
            let blocks = match (self.dim[d], self.block[d]) {
                (Some(n), Some(b)) if b > 0 => Some(n.div_ceil(b)),
                _ => None,
            };
            stride = stride.zip(blocks).map(|(s, n)| s.wrapping_mul(n));
        }
        strides
    }
}

impl ViewState {
    /// Returns the value of `OpCreateTensorViewNV`.
    fn new(dims: usize) -> ViewState {
        ViewState {
            dims,
            dim: [Some(0); MAX_DIM],
            stride: [Some(0); MAX_DIM],
            clip: [Some(0), Some(u32::MAX), Some(0), Some(u32::MAX)],
            dim_at: None,
            clip_at: None,
        }
    }
}

/// Returns the facts that hold on both paths.
fn meet(a: &TensorValue, b: &TensorValue) -> TensorValue {
    fn nums<const N: usize>(a: [Num; N], b: [Num; N]) -> [Num; N] {
        std::array::from_fn(|i| both(a[i], b[i]))
    }
    fn both<T: PartialEq>(a: Option<T>, b: Option<T>) -> Option<T> {
        if a == b { a } else { None }
    }
    match (a, b) {
        (a, b) if a == b => a.clone(),
        (TensorValue::Layout(a), TensorValue::Layout(b)) if a.dims == b.dims => {
            TensorValue::Layout(Rc::new(LayoutState {
                dims: a.dims,
                block: nums(a.block, b.block),
                dim: nums(a.dim, b.dim),
                stride: nums(a.stride, b.stride),
                offset: nums(a.offset, b.offset),
                span: nums(a.span, b.span),
                clamp: both(a.clamp, b.clamp),
                default_strides: both(a.default_strides, b.default_strides),
                block_after: both(a.block_after, b.block_after),
                dim_at: both(a.dim_at, b.dim_at),
                span_at: both(a.span_at, b.span_at),
                block_at: both(a.block_at, b.block_at),
                stride_at: both(a.stride_at, b.stride_at),
            }))
        }
        (TensorValue::View(a), TensorValue::View(b)) if a.dims == b.dims => TensorValue::View(Rc::new(ViewState {
            dims: a.dims,
            dim: nums(a.dim, b.dim),
            stride: nums(a.stride, b.stride),
            clip: nums(a.clip, b.clip),
            dim_at: both(a.dim_at, b.dim_at),
            clip_at: both(a.clip_at, b.clip_at),
        })),
        _ => TensorValue::Unknown,
    }
}

/// The values of the variables. A missing variable is unknown.
type State = BTreeMap<Id, TensorValue>;

/// The values of the layouts and views in a function.
pub(crate) struct States {
    values: BTreeMap<Id, TensorValue>,
}

/// The most passes over a function.
const MAX_PASSES: usize = 12;

impl States {
    /// Analyzes a function; `None` if it has no layouts or views, or is too complex.
    pub(crate) fn new(cx: &Cx, index: usize) -> Option<States> {
        let function = &cx.module.functions[index];
        let concerned = |r: &InstRef| {
            let inst = cx.inst(*r);
            matches!(inst.op, Op::CreateTensorLayoutNV | Op::CreateTensorViewNV)
                || inst.ty.is_some_and(|t| matches!(cx.class(t), Some(TypeClass::Layout | TypeClass::View)))
        };
        let body = cx.body_of(index);
        if !body.iter().any(concerned) {
            return None;
        }
        let cfg = cx.cfg(index);
        let mut pass = Analysis { cx, escaped: escaped(cx, body), values: BTreeMap::new() };
        // Few instructions concern them, and few blocks change the variables.
        let concerns = |r: &InstRef| pass.concerns(*r);
        let of_each = function.blocks.iter().map(|b| b.insts.iter().copied().filter(concerns).collect());
        let steps: Vec<Vec<InstRef>> = of_each.collect();
        let mut ends: Vec<Option<Rc<State>>> = vec![None; function.blocks.len()];
        for _ in 0..MAX_PASSES {
            let mut changed = false;
            for &b in cfg.rpo() {
                let mut state = pass.begin(&cfg, b, &ends);
                for &r in &steps[b] {
                    changed |= pass.step(r, &mut state);
                }
                if ends[b].as_ref() != Some(&state) {
                    ends[b] = Some(state);
                    changed = true;
                }
            }
            if !changed {
                return Some(States { values: pass.values });
            }
        }
        None
    }

    /// Returns the layout of a value.
    pub(crate) fn layout(&self, value: Id) -> Option<&LayoutState> {
        match self.values.get(&value)? {
            TensorValue::Layout(l) => Some(l),
            _ => None,
        }
    }

    /// Returns the view of a value.
    pub(crate) fn view(&self, value: Id) -> Option<&ViewState> {
        match self.values.get(&value)? {
            TensorValue::View(v) => Some(v),
            _ => None,
        }
    }
}

/// Returns the variables of layouts and views with other uses than loads and stores of the whole.
fn escaped(cx: &Cx, body: &[InstRef]) -> Vec<Id> {
    let mut out = Vec::new();
    for &r in body {
        let inst = cx.inst(r);
        let skip = match inst.op {
            Op::Load => 1,
            // The second operand is the stored object; a pointer that is stored escapes.
            Op::Store if inst.stored().is_none_or(|v| cx.class(v) != Some(TypeClass::TensorPointer)) => 2,
            _ => 0,
        };
        out.extend(inst.ids_from(skip).filter(|i| cx.class(*i) == Some(TypeClass::TensorPointer)));
    }
    out.sort_unstable();
    out
}

struct Analysis<'a, 'm> {
    cx: &'a Cx<'m>,
    escaped: Vec<Id>,
    values: BTreeMap<Id, TensorValue>,
}

impl Analysis<'_, '_> {
    /// Returns the state at the beginning of a block: the facts on which all visited predecessors agree.
    fn begin(&self, cfg: &Cfg, block: usize, ends: &[Option<Rc<State>>]) -> Rc<State> {
        let mut seen = cfg.predecessors(block).iter().filter_map(|p| ends[*p].as_ref());
        let Some(mut state) = seen.next().cloned() else { return Rc::default() };
        for other in seen {
            // Most predecessors have the same state.
            if Rc::ptr_eq(other, &state) || *other == state {
                continue;
            }
            let state = Rc::make_mut(&mut state);
            state.retain(|id, _| other.contains_key(id));
            for (id, value) in state {
                if let Some(b) = other.get(id)
                    && value != b
                {
                    *value = meet(value, b);
                }
            }
        }
        state
    }

    /// Returns true if an instruction makes a layout or view, or stores one.
    fn concerns(&self, at: InstRef) -> bool {
        let inst = self.cx.inst(at);
        if inst.op == Op::Store {
            return inst.accessed().is_some_and(|p| self.cx.class(p) == Some(TypeClass::TensorPointer));
        }
        let made = inst.ty.filter(|_| inst.result.is_some()).and_then(|t| self.cx.class(t));
        matches!(made, Some(TypeClass::Layout | TypeClass::View))
    }

    /// Returns true if the value of the result has changed.
    fn step(&mut self, at: InstRef, state: &mut Rc<State>) -> bool {
        let inst = self.cx.inst(at);
        if inst.op == Op::Store {
            if let (Some(pointer), Some(value)) = (inst.accessed(), inst.stored())
                && self.escaped.binary_search(&pointer).is_err()
            {
                let value = self.value(value);
                if state.get(&pointer) != Some(&value) {
                    Rc::make_mut(state).insert(pointer, value);
                }
            }
            return false;
        }
        let (Some(ty), Some(result)) = (inst.ty, inst.result) else { return false };
        let value = self.eval(at, ty, state);
        if self.values.get(&result) == Some(&value) {
            return false;
        }
        self.values.insert(result, value);
        true
    }

    fn value(&self, id: Id) -> TensorValue {
        self.values.get(&id).cloned().unwrap_or(TensorValue::Unknown)
    }

    fn eval(&self, at: InstRef, ty: Id, state: &State) -> TensorValue {
        let inst = self.cx.inst(at);
        let dims = |dim: Option<Id>| dim.and_then(|d| self.cx.dimensions(d));
        match inst.op {
            Op::CreateTensorLayoutNV => match dims(self.cx.layout_type(ty).map(|l| l.dim)) {
                Some(n) => TensorValue::Layout(Rc::new(LayoutState::new(n))),
                None => TensorValue::Unknown,
            },
            Op::CreateTensorViewNV => match dims(self.cx.view_type(ty).map(|v| v.dim)) {
                Some(n) => TensorValue::View(Rc::new(ViewState::new(n))),
                None => TensorValue::Unknown,
            },
            Op::Load => inst.accessed().and_then(|p| state.get(&p)).cloned().unwrap_or(TensorValue::Unknown),
            Op::CopyObject => inst.id(0).map_or(TensorValue::Unknown, |v| self.value(v)),
            // Operands of a phi that were not visited yet are left for the next pass.
            Op::Phi => {
                let mut known = inst.ids().step_by(2).filter_map(|v| self.values.get(&v));
                let first = known.next().cloned();
                known.fold(first.unwrap_or(TensorValue::Unknown), |a, b| meet(&a, b))
            }
            Op::Select => match (inst.id(1), inst.id(2)) {
                (Some(a), Some(b)) => meet(&self.value(a), &self.value(b)),
                _ => TensorValue::Unknown,
            },
            _ => match inst.id(0).map(|v| self.value(v)) {
                Some(TensorValue::Layout(l)) => self.change_layout(at, &l),
                Some(TensorValue::View(v)) => self.change_view(at, &v),
                _ => TensorValue::Unknown,
            },
        }
    }

    /// Returns the fixed values of `n` operands after the layout or view, each `step`th from `first`.
    fn operands(&self, at: InstRef, first: usize, step: usize, n: usize) -> Nums {
        let inst = self.cx.inst(at);
        let value = |i: usize| {
            let id = inst.id(1 + first + i * step)?;
            u32::try_from(self.cx.constant(id).fixed()?).ok()
        };
        std::array::from_fn(|i| if i < n { value(i) } else { None })
    }

    fn change_layout(&self, at: InstRef, old: &LayoutState) -> TensorValue {
        let inst = self.cx.inst(at);
        let n = old.dims;
        let mut new = old.clone();
        match inst.op {
            Op::TensorLayoutSetBlockSizeNV => {
                new.block = self.operands(at, 0, 1, n);
                new.block_at = Some(at);
                new.block_after = old.default_strides;
            }
            Op::TensorLayoutSetDimensionNV => {
                new.dim = self.operands(at, 0, 1, n);
                new.span = new.dim;
                new.offset = [Some(0); MAX_DIM];
                new.stride = new.packed();
                new.default_strides = Some(true);
                new.block_after = Some(false);
                (new.dim_at, new.span_at, new.stride_at) = (Some(at), Some(at), Some(at));
            }
            Op::TensorLayoutSetStrideNV => {
                new.stride = self.operands(at, 0, 1, n);
                new.default_strides = Some(false);
                new.block_after = Some(false);
                new.stride_at = Some(at);
            }
            Op::TensorLayoutSliceNV => {
                let by = self.operands(at, 0, 2, n);
                new.offset = std::array::from_fn(|i| old.offset[i].zip(by[i]).map(|(a, b)| a.wrapping_add(b)));
                new.span = self.operands(at, 1, 2, n);
                new.span_at = Some(at);
            }
            Op::TensorLayoutSetClampValueNV => new.clamp = self.operands(at, 0, 1, 1)[0],
            _ => return TensorValue::Unknown,
        }
        TensorValue::Layout(Rc::new(new))
    }

    fn change_view(&self, at: InstRef, old: &ViewState) -> TensorValue {
        let inst = self.cx.inst(at);
        let mut new = old.clone();
        match inst.op {
            Op::TensorViewSetDimensionNV => {
                new.dim = self.operands(at, 0, 1, old.dims);
                let mut stride = Some(1u32);
                for d in (0..old.dims).rev() {
                    new.stride[d] = stride;
                    stride = stride.zip(new.dim[d]).map(|(s, n)| s.wrapping_mul(n));
                }
                new.dim_at = Some(at);
            }
            Op::TensorViewSetStrideNV => new.stride = self.operands(at, 0, 1, old.dims),
            Op::TensorViewSetClipNV => {
                let clip = self.operands(at, 0, 1, 4);
                new.clip = std::array::from_fn(|i| clip[i]);
                new.clip_at = Some(at);
            }
            _ => return TensorValue::Unknown,
        }
        TensorValue::View(Rc::new(new))
    }
}
