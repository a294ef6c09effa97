//! What tensor layouts and views hold at each instruction, as far as it is fixed.
//!
//! Front ends keep layouts and views in Function variables, also in optimized modules, and load, change and store them
//! at each step. So this is a forward analysis of each function that has any: a state says what each such variable
//! holds, and each number in it is a fixed value or unknown. Where paths meet, what differs becomes unknown. That ends,
//! because a number changes at most once on its way from "not seen" by way of a value to unknown; passes are bounded
//! all the same, and a function that exceeds the bound has no known values.
//!
//! Numbers that rest on defaults of specialization constants are unknown here: what follows from them would have to
//! name all of them.

use super::MAX_DIM;
use crate::cx::{Class, Cx};
use coop_ir::cfg::Cfg;
use coop_ir::{Id, InstRef, Op};
use std::collections::BTreeMap;
use std::rc::Rc;

/// A number that is fixed, or `None`.
pub(crate) type Num = Option<u32>;

/// One number for each dimension.
pub(crate) type Nums = [Num; MAX_DIM];

/// What a tensor layout holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Layout {
    /// How many dimensions there are.
    pub(crate) dims: usize,
    pub(crate) block: Nums,
    pub(crate) dim: Nums,
    pub(crate) stride: Nums,
    pub(crate) offset: Nums,
    pub(crate) span: Nums,
    pub(crate) clamp: Num,
    /// Whether the strides are those that SetDimension computes.
    pub(crate) default_strides: Option<bool>,
    /// Whether the block size was changed after the default strides were computed.
    pub(crate) block_after: Option<bool>,
    /// Where the dimensions, the spans, the block sizes and the strides were set.
    pub(crate) dim_at: Option<InstRef>,
    pub(crate) span_at: Option<InstRef>,
    pub(crate) block_at: Option<InstRef>,
    pub(crate) stride_at: Option<InstRef>,
}

/// What a tensor view holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct View {
    /// How many dimensions there are.
    pub(crate) dims: usize,
    pub(crate) dim: Nums,
    pub(crate) stride: Nums,
    /// Row offset and span, column offset and span.
    pub(crate) clip: [Num; 4],
    pub(crate) dim_at: Option<InstRef>,
    pub(crate) clip_at: Option<InstRef>,
}

/// A layout or view; `Unknown` is one of which nothing is known.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Value {
    Layout(Rc<Layout>),
    View(Rc<View>),
    Unknown,
}

impl Layout {
    /// As `OpCreateTensorLayoutNV` makes it.
    fn new(dims: usize) -> Layout {
        Layout {
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

    /// The strides of a tensor whose dimensions follow each other without gaps, counted in blocks.
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

impl View {
    /// As `OpCreateTensorViewNV` makes it.
    fn new(dims: usize) -> View {
        View {
            dims,
            dim: [Some(0); MAX_DIM],
            stride: [Some(0); MAX_DIM],
            clip: [Some(0), Some(u32::MAX), Some(0), Some(u32::MAX)],
            dim_at: None,
            clip_at: None,
        }
    }
}

/// What is true on both paths.
fn meet(a: &Value, b: &Value) -> Value {
    fn nums<const N: usize>(a: [Num; N], b: [Num; N]) -> [Num; N] {
        std::array::from_fn(|i| both(a[i], b[i]))
    }
    fn both<T: PartialEq>(a: Option<T>, b: Option<T>) -> Option<T> {
        if a == b { a } else { None }
    }
    match (a, b) {
        (a, b) if a == b => a.clone(),
        (Value::Layout(a), Value::Layout(b)) if a.dims == b.dims => Value::Layout(Rc::new(Layout {
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
        })),
        (Value::View(a), Value::View(b)) if a.dims == b.dims => Value::View(Rc::new(View {
            dims: a.dims,
            dim: nums(a.dim, b.dim),
            stride: nums(a.stride, b.stride),
            clip: nums(a.clip, b.clip),
            dim_at: both(a.dim_at, b.dim_at),
            clip_at: both(a.clip_at, b.clip_at),
        })),
        _ => Value::Unknown,
    }
}

/// What the variables hold. One that is missing holds nothing known.
type State = BTreeMap<Id, Value>;

/// What is known of each layout and view of a function.
pub(crate) struct States {
    values: BTreeMap<Id, Value>,
}

/// More passes over a function than this are not worth it.
const MAX_PASSES: usize = 12;

impl States {
    /// Analyses a function; `None` if it has no layouts or views, or is too intricate.
    pub(crate) fn new(cx: &Cx, index: usize) -> Option<States> {
        let function = &cx.module.functions[index];
        let concerned = |r: &InstRef| {
            let inst = cx.inst(*r);
            matches!(inst.op, Op::CreateTensorLayoutNV | Op::CreateTensorViewNV)
                || inst.ty.is_some_and(|t| matches!(cx.class(t), Some(Class::Layout | Class::View)))
        };
        let body = cx.body_of(index);
        if !body.iter().any(concerned) {
            return None;
        }
        let cfg = cx.cfg(index);
        let mut pass = Analysis { cx, escaped: escaped(cx, body), values: BTreeMap::new() };
        // Few instructions have to do with them, and few blocks change what variables hold.
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

    /// The layout that a value is.
    pub(crate) fn layout(&self, value: Id) -> Option<&Layout> {
        match self.values.get(&value)? {
            Value::Layout(l) => Some(l),
            _ => None,
        }
    }

    /// The view that a value is.
    pub(crate) fn view(&self, value: Id) -> Option<&View> {
        match self.values.get(&value)? {
            Value::View(v) => Some(v),
            _ => None,
        }
    }
}

/// Variables of layouts and views that are used by more than loads and stores of the whole.
fn escaped(cx: &Cx, body: &[InstRef]) -> Vec<Id> {
    let mut out = Vec::new();
    for &r in body {
        let inst = cx.inst(r);
        let skip = match inst.op {
            Op::Load => 1,
            // What is stored is the second operand; a pointer that is stored escapes.
            Op::Store if inst.id(1).is_none_or(|v| cx.class(v) != Some(Class::TensorPointer)) => 2,
            _ => 0,
        };
        out.extend(inst.ids_from(skip).filter(|i| cx.class(*i) == Some(Class::TensorPointer)));
    }
    out.sort_unstable();
    out
}

struct Analysis<'a, 'm> {
    cx: &'a Cx<'m>,
    escaped: Vec<Id>,
    values: BTreeMap<Id, Value>,
}

impl Analysis<'_, '_> {
    /// What holds where a block begins: what all its predecessors that were seen agree on.
    fn begin(&self, cfg: &Cfg, block: usize, ends: &[Option<Rc<State>>]) -> Rc<State> {
        let mut seen = cfg.predecessors(block).iter().filter_map(|p| ends[*p].as_ref());
        let Some(mut state) = seen.next().cloned() else { return Rc::default() };
        for other in seen {
            // As a rule it is the very same one.
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
            return inst.id(0).is_some_and(|p| self.cx.class(p) == Some(Class::TensorPointer));
        }
        let made = inst.ty.filter(|_| inst.result.is_some()).and_then(|t| self.cx.class(t));
        matches!(made, Some(Class::Layout | Class::View))
    }

    /// Returns true if what is known of the result has changed.
    fn step(&mut self, at: InstRef, state: &mut Rc<State>) -> bool {
        let inst = self.cx.inst(at);
        if inst.op == Op::Store {
            if let (Some(pointer), Some(value)) = (inst.id(0), inst.id(1))
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

    fn value(&self, id: Id) -> Value {
        self.values.get(&id).cloned().unwrap_or(Value::Unknown)
    }

    fn eval(&self, at: InstRef, ty: Id, state: &State) -> Value {
        let inst = self.cx.inst(at);
        let dims = |dim: Option<Id>| dim.and_then(|d| self.cx.dimensions(d));
        match inst.op {
            Op::CreateTensorLayoutNV => match dims(self.cx.layout_type(ty).map(|l| l.dim)) {
                Some(n) => Value::Layout(Rc::new(Layout::new(n))),
                None => Value::Unknown,
            },
            Op::CreateTensorViewNV => match dims(self.cx.view_type(ty).map(|v| v.dim)) {
                Some(n) => Value::View(Rc::new(View::new(n))),
                None => Value::Unknown,
            },
            Op::Load => inst.accessed().and_then(|p| state.get(&p)).cloned().unwrap_or(Value::Unknown),
            Op::CopyObject => inst.id(0).map_or(Value::Unknown, |v| self.value(v)),
            // Of the operands of a phi, those that were not seen yet are left for the next pass.
            Op::Phi => {
                let mut known = inst.ids().step_by(2).filter_map(|v| self.values.get(&v));
                let first = known.next().cloned();
                known.fold(first.unwrap_or(Value::Unknown), |a, b| meet(&a, b))
            }
            Op::Select => match (inst.id(1), inst.id(2)) {
                (Some(a), Some(b)) => meet(&self.value(a), &self.value(b)),
                _ => Value::Unknown,
            },
            _ => match inst.id(0).map(|v| self.value(v)) {
                Some(Value::Layout(l)) => self.change_layout(at, &l),
                Some(Value::View(v)) => self.change_view(at, &v),
                _ => Value::Unknown,
            },
        }
    }

    /// The fixed values of `n` operands after the layout or view, each `step`th from `first`.
    fn operands(&self, at: InstRef, first: usize, step: usize, n: usize) -> Nums {
        let inst = self.cx.inst(at);
        let value = |i: usize| {
            let id = inst.id(1 + first + i * step)?;
            u32::try_from(self.cx.constant(id).fixed()?).ok()
        };
        std::array::from_fn(|i| if i < n { value(i) } else { None })
    }

    fn change_layout(&self, at: InstRef, old: &Layout) -> Value {
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
            _ => return Value::Unknown,
        }
        Value::Layout(Rc::new(new))
    }

    fn change_view(&self, at: InstRef, old: &View) -> Value {
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
            _ => return Value::Unknown,
        }
        Value::View(Rc::new(new))
    }
}
