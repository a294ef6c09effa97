//! Matrix instructions that call functions: reductions, per-element operations, tensor loads and stores.
//!
//! Functions are called for as many elements at once as there are invocations; each element once.

use std::ops::Range;

use super::Semantics;
use super::code::{Extra, Row, Tensor};
use super::error_bound;
use super::findings::FindingKind;
use super::machine::{Machine, Stop};
use super::num::{Num, mask};
use super::program::tag;
use super::registers::Mask;
use super::taint::Taint;
use super::tensor::{Coords, Hit, TensorLayout, TensorView, locate};
use super::types::{Coop, Kind, Ty};

/// The reason for which the term of a reduction is lost.
pub(crate) const FREE_ORDER: &str = "a reduction whose result depends on the order of the elements";

/// An element for a decode function to compute.
struct Job {
    element: u32,
    linear: u64,
    block: Vec<u32>,
    within: Vec<u32>,
}

/// The laws that a function of two floats has kept so far: both are true until an application breaks them.
#[derive(Clone, Copy)]
struct Law {
    num: Num,
    is_sum: bool,
    is_product: bool,
}

impl Law {
    fn of(num: Num) -> Law {
        Law { num, is_sum: num.is_float(), is_product: num.is_float() }
    }

    /// Looks at one application.
    fn look(&mut self, a: u64, b: u64, result: u64) {
        let [x, y, got] = [a, b, result].map(|bits| self.num.to_f64(bits));
        let is = |wanted: f64| {
            let wanted = self.num.to_f64(self.num.encode_f64(wanted));
            wanted == got || wanted.is_nan() && got.is_nan()
        };
        (self.is_sum, self.is_product) = (self.is_sum && is(x + y), self.is_product && is(x * y));
    }
}

impl Machine<'_> {
    /// Calls a function for some invocations, then restores the instruction and the invocations that called.
    fn call_back(&mut self, func: usize, mask: &Mask) -> Result<(), Stop> {
        let (at, here) = (self.at, self.regs.act.mask);
        let tile = std::mem::take(&mut self.tile);
        let taint = std::mem::take(&mut self.tile_taint);
        self.call(func, mask)?;
        (self.tile, self.tile_taint) = (tile, taint);
        self.at = at;
        self.regs.activate(&here);
        Ok(())
    }

    fn put(&mut self, row: Row, lane: usize, v: u64, taint: Taint) {
        self.regs.put(row, lane, v);
        self.regs.set_taint(row, lane, taint);
    }

    pub(super) fn reduce(&mut self, dst: Row, src: Row, from: Ty, to: Ty, how: u32, func: usize) -> Result<(), Stop> {
        let p = self.p;
        let (Some(a), Some(b)) = (p.types.coop(from), p.types.coop(to)) else { return Ok(()) };
        let (rows, cols) = (a.rows as usize, a.cols as usize);
        let params = &p.functions[func].params;
        if params.iter().any(|p| p.1 != 1) || p.functions[func].ret.1 != 1 || a.scope != b.scope {
            return Err(self.unsupported("a function whose parameters do not fit"));
        }
        let fits = match how {
            1 => b.rows == a.rows,
            2 => b.cols == a.cols,
            3 => true,
            4 => b.rows * 2 == a.rows && b.cols * 2 == a.cols,
            _ => return Err(self.unsupported(&format!("the reduction {how:#x}"))),
        };
        if !fits {
            let (h, w) = (b.rows, b.cols);
            self.find(FindingKind::MatrixSize, || format!("a {rows}x{cols} matrix is reduced to {h}x{w} by {how:#x}"));
            return Ok(());
        }
        for range in self.matrix_instances(from)? {
            self.gather(src, from, &range);
            let taint = |i: usize| self.tile_taint.get(i).copied().unwrap_or_default();
            let element = |r: usize, c: usize| (self.tile[r * cols + c], taint(r * cols + c));
            let lists: Vec<Vec<(u64, Taint)>> = match how {
                1 => (0..rows).map(|r| (0..cols).map(|c| element(r, c)).collect()).collect(),
                2 => (0..cols).map(|c| (0..rows).map(|r| element(r, c)).collect()).collect(),
                3 => vec![(0..rows * cols).map(|i| element(i / cols, i % cols)).collect()],
                _ => (0..rows / 2 * (cols / 2))
                    .map(|i| {
                        let (r, c) = (i / (cols / 2) * 2, i % (cols / 2) * 2);
                        vec![element(r, c), element(r, c + 1), element(r + 1, c), element(r + 1, c + 1)]
                    })
                    .collect(),
            };
            let mirrored = self
                .config
                .error_bounds
                .then(|| lists.iter().map(|list| list.iter().rev().copied().collect()).collect::<Vec<Vec<_>>>());
            let rotated = self.regs.symbols.is_some().then(|| lists.clone());
            let mut law = mirrored.is_some().then(|| Law::of(a.num));
            let mut folded = self.fold(lists, func, &range, law.as_mut())?;
            if let Some((mirrored, law)) = mirrored.zip(law) {
                self.orders(&mut folded, mirrored, func, law, &range)?;
            }
            if let Some(rotated) = rotated {
                self.free_order(&mut folded, rotated, func, &range)?;
            }
            let out = b.cols as usize;
            self.tile.clear();
            self.tile_taint.clear();
            for i in 0..b.elems() {
                let (v, taint) = match how {
                    1 => folded[i / out],
                    2 => folded[i % out],
                    3 => folded[0],
                    _ => folded[i],
                };
                self.tile.push(v);
                self.tile_taint.push(taint);
            }
            self.scatter(dst, to, &range);
        }
        Ok(())
    }

    /// Sets the error bounds of reductions whose order is free: of sums and products, by their operands; of other functions there
    /// is none where another order gives another result.
    fn orders(
        &mut self,
        folded: &mut [(u64, Taint)],
        mirrored: Vec<Vec<(u64, Taint)>>,
        func: usize,
        mut law: Law,
        range: &Range<usize>,
    ) -> Result<(), Stop> {
        let others = self.fold(mirrored.clone(), func, range, Some(&mut law))?;
        let same = folded.iter().map(|f| f.0).eq(others.iter().map(|f| f.0));
        for (result, list) in folded.iter_mut().zip(&mirrored).filter(|f| !f.0.1.is_undefined() && f.1.len() > 1) {
            let terms = || list.iter().map(|v| (law.num.to_f64(v.0), v.1.bound(true)));
            let by = match () {
                () if law.is_sum => error_bound::of_free_sum(terms(), law.num),
                () if law.is_product => error_bound::of_free_product(terms(), law.num),
                () if same => continue,
                () => f64::NAN,
            };
            // The function's own bound is that of one order, with what is flushed to zero.
            result.1 = Taint::inexact(error_bound::larger(by, result.1.bound(true)), true);
        }
        Ok(())
    }

    /// Loses the terms of results that depend on the order of the operands, which is free. Another grouping of the same
    /// operands shows that, and so does another first one.
    fn free_order(
        &mut self,
        folded: &mut [(u64, Taint)],
        mut rotated: Vec<Vec<(u64, Taint)>>,
        func: usize,
        range: &Range<usize>,
    ) -> Result<(), Stop> {
        rotated.iter_mut().filter(|list| list.len() > 1).for_each(|list| list.rotate_left(1));
        let others = self.fold(rotated, func, range, None)?;
        for (one, (value, other)) in folded.iter_mut().zip(others) {
            let same = match (one.1, other) {
                (Taint::Term(a), Taint::Term(b)) => a.key() == b.key(),
                (Taint::Exact, Taint::Exact) => one.0 == value,
                (a, b) => a == b,
            };
            if !same && let Some(symbols) = &mut self.regs.symbols {
                one.1 = symbols.lose(FREE_ORDER);
            }
        }
        Ok(())
    }

    /// Combines each list to one value, neighbors first, so that the order of operands is kept.
    fn fold(
        &mut self,
        mut lists: Vec<Vec<(u64, Taint)>>,
        func: usize,
        range: &Range<usize>,
        mut law: Option<&mut Law>,
    ) -> Result<Vec<(u64, Taint)>, Stop> {
        let params = self.p.functions[func].params.clone();
        let ret = self.p.functions[func].ret.0;
        while lists.iter().any(|l| l.len() > 1) {
            let pairs: Vec<(usize, usize)> =
                lists.iter().enumerate().flat_map(|(k, l)| (0..l.len() / 2).map(move |i| (k, 2 * i))).collect();
            let mut results = Vec::with_capacity(pairs.len());
            for chunk in pairs.chunks(range.len()) {
                let mut mask = Mask::EMPTY;
                for (lane, (k, i)) in range.clone().zip(chunk) {
                    let ((x, px), (y, py)) = (lists[*k][*i], lists[*k][*i + 1]);
                    self.put(params[0].0, lane, x, px);
                    self.put(params[1].0, lane, y, py);
                    mask.set(lane);
                }
                self.call_back(func, &mask)?;
                for (lane, (k, i)) in range.clone().zip(chunk) {
                    let result = self.regs.get(ret, lane);
                    if let Some(law) = &mut law {
                        law.look(lists[*k][*i].0, lists[*k][*i + 1].0, result);
                    }
                    results.push((result, self.regs.taint(ret, lane)));
                }
            }
            let mut results = results.into_iter();
            for l in &mut lists {
                let odd = if l.len() % 2 == 1 { l.last().copied() } else { None };
                *l = results.by_ref().take(l.len() / 2).chain(odd).collect();
            }
        }
        Ok(lists.into_iter().map(|l| l.first().copied().unwrap_or((0, Taint::Undefined))).collect())
    }

    pub(super) fn per_element(
        &mut self,
        dst: Row,
        src: Row,
        ty: Ty,
        func: usize,
        extras: &[Extra],
    ) -> Result<(), Stop> {
        let p = self.p;
        let Some(coop) = p.types.coop(ty) else { return Ok(()) };
        let f = &p.functions[func];
        let params = &f.params;
        let fits = params[3..].iter().zip(extras).all(|(p, e)| p.1 == if e.matrix { 1 } else { e.n });
        if !fits || params[2].1 != 1 || f.ret.1 != 1 {
            return Err(self.unsupported("a function whose parameters do not fit"));
        }
        for range in self.matrix_instances(ty)? {
            for e in extras.iter().filter(|e| !e.matrix) {
                for i in 0..e.n {
                    self.warn_extra(e.row + i, range.clone());
                }
            }
            self.tile.clear();
            self.tile.resize(coop.elems(), 0);
            self.tile_taint.clear();
            self.tile_taint.resize(coop.elems(), Taint::Exact);
            for index in 0..coop.placed.len {
                let mask = self.homes(coop, index, &range);
                for lane in mask.lanes() {
                    let place = index as usize * coop.placed.members as usize + lane - range.start;
                    let e = coop.placed.element[place];
                    self.put(params[0].0, lane, u64::from(e / coop.cols), Taint::Exact);
                    self.put(params[1].0, lane, u64::from(e % coop.cols), Taint::Exact);
                    let (v, taint) = (self.regs.get(src + index, lane), self.regs.taint(src + index, lane));
                    self.put(params[2].0, lane, v, taint);
                    for (param, extra) in params[3..].iter().zip(extras) {
                        for i in 0..param.1 {
                            let row = if extra.matrix { extra.row + index } else { extra.row + i };
                            let (v, taint) = (self.regs.get(row, lane), self.regs.taint(row, lane));
                            self.put(param.0 + i, lane, v, taint);
                        }
                    }
                }
                if mask.is_empty() {
                    continue;
                }
                self.call_back(func, &mask)?;
                for lane in mask.lanes() {
                    let place = index as usize * coop.placed.members as usize + lane - range.start;
                    let e = coop.placed.element[place] as usize;
                    self.tile[e] = self.regs.get(f.ret.0, lane);
                    self.tile_taint[e] = self.regs.taint(f.ret.0, lane);
                }
            }
            self.scatter(dst, ty, &range);
        }
        Ok(())
    }

    fn warn_extra(&mut self, row: Row, range: Range<usize>) {
        if let Err((a, b)) = self.regs.uniform(row, range) {
            self.find(FindingKind::Portability, || {
                format!("an extra operand differs between invocations {a} and {b}: each element sees that of whoever computes it")
            });
        }
    }

    /// Returns the invocations that hold an element at an index that no invocation holds at an earlier one.
    fn homes(&self, coop: &Coop, index: u32, range: &Range<usize>) -> Mask {
        let members = coop.placed.members as usize;
        let mut mask = Mask::EMPTY;
        for member in 0..members {
            let place = index as usize * members + member;
            if coop.placed.home[coop.placed.element[place] as usize] as usize == place {
                mask.set(range.start + member);
            }
        }
        mask
    }

    /// The slots of a value that must be the same in all invocations.
    fn uniform_slots(&mut self, row: Row, n: u32, range: &Range<usize>, what: &str) -> Vec<u64> {
        (0..n).map(|i| self.uniform(row + i, range.clone(), what)).collect()
    }

    pub(super) fn tensor(&mut self, t: &Tensor) -> Result<(), Stop> {
        let p = self.p;
        let Some(coop) = p.types.coop(t.ty) else { return Ok(()) };
        if !coop.num.bits().is_multiple_of(8) {
            return Err(self.unsupported("components of less than a byte in memory"));
        }
        let Kind::Layout { dim, clamp } = *p.types.kind(t.layout.1) else { return Ok(()) };
        for range in self.matrix_instances(t.ty)? {
            let slots = p.types.slots(t.layout.1);
            let values = self.uniform_slots(t.layout.0, slots, &range, "the tensor layout");
            let layout = TensorLayout::new(clamp, dim as usize, &values);
            let view = match t.view {
                Some((row, ty)) => {
                    let values = self.uniform_slots(row, p.types.slots(ty), &range, "the tensor view");
                    match p.types.kind(ty) {
                        Kind::View { has_dims, perm, .. } => Some(TensorView::new(*has_dims, perm, &values)),
                        _ => None,
                    }
                }
                None => None,
            };
            let ptr = self.uniform(t.ptr, range.clone(), "the pointer");
            self.note_layout(coop, &layout, view.as_ref());
            self.check_tensor_pointer(t, coop, ptr);
            if t.store {
                self.tensor_store(t, coop, &layout, view.as_ref(), ptr, &range)?;
            } else {
                self.tensor_load(t, coop, &layout, view.as_ref(), ptr, &range)?;
            }
        }
        Ok(())
    }

    /// Reports a pointer that is not a multiple of the component's size, or only of that and not of 16 bytes.
    fn check_tensor_pointer(&mut self, t: &Tensor, coop: &Coop, ptr: u64) {
        // What is decoded has an alignment of its own, which loads in the function say.
        let bytes = if t.decode.is_some() { 1 } else { u64::from(coop.num.bytes()) };
        if tag::is_misaligned(ptr, bytes) {
            self.find(FindingKind::Misaligned, || format!("the pointer {ptr:#x} is not a multiple of {bytes}"));
        } else if tag::is_misaligned(ptr, 16) && self.config.semantics != Semantics::Nvidia {
            self.find(FindingKind::Portability, || {
                format!("the pointer {ptr:#x} is not a multiple of 16: the specification leaves that undefined, NVIDIA's driver mostly does what is meant")
            });
        }
    }

    /// Reports layouts for which devices are known to differ from the specification.
    fn note_layout(&mut self, coop: &Coop, layout: &TensorLayout, view: Option<&TensorView>) {
        let span = layout.span.iter().fold(1u64, |a, s| a.saturating_mul(u64::from(*s)));
        if view.is_none() && span < coop.elems() as u64 {
            let (rows, cols) = (coop.rows, coop.cols);
            self.find(FindingKind::Portability, || {
                format!("the {rows}x{cols} matrix is larger than the layout's spans, {span} elements: devices differ")
            });
        }
        let wraps = |off: u32, span: u32| off != 0 && off.checked_add(span).is_none();
        if view.is_some_and(|v| wraps(v.clip[0], v.clip[1]) || wraps(v.clip[2], v.clip[3])) {
            self.find(FindingKind::Portability, || {
                "the sum of the clip's offset and span wraps: by the specification everything is clipped, devices differ".into()
            });
        }
        if layout.dim.iter().zip(&layout.block).any(|(d, b)| *b > 1 && d % b != 0) {
            self.find(FindingKind::Portability, || {
                "a dimension is not a multiple of its block: devices differ in the default strides".into()
            });
        }
    }

    fn tensor_store(
        &mut self,
        t: &Tensor,
        coop: &Coop,
        layout: &TensorLayout,
        view: Option<&TensorView>,
        ptr: u64,
        range: &Range<usize>,
    ) -> Result<(), Stop> {
        if layout.block.iter().any(|b| *b != 1) {
            self.find(FindingKind::Undefined, || "a store with a block size other than 1".into());
        }
        self.gather(t.object, t.ty, range);
        let agent = self.matrix_agent(coop.scope, range);
        let bytes = coop.num.bytes() as u8;
        let mut coords = Coords::default();
        for r in 0..coop.rows {
            for c in 0..coop.cols {
                let hit = locate((r, c), coop.cols, layout, view, true, self.config.semantics, &mut coords);
                let i = (r * coop.cols + c) as usize;
                match self.hit(hit, r, c)? {
                    Hit::At { linear } => {
                        let (v, taint) = (self.tile[i], self.tile_taint.get(i).copied().unwrap_or_default());
                        let at = ptr.wrapping_add(linear.wrapping_mul(u64::from(bytes)));
                        self.coop_write(at, bytes, v, taint, agent);
                    }
                    _ => continue,
                }
            }
        }
        Ok(())
    }

    /// Reports an undefined element, which is skipped.
    fn hit(&mut self, hit: Result<Hit, String>, r: u32, c: u32) -> Result<Hit, Stop> {
        Ok(match hit {
            Ok(Hit::Undefined) => {
                self.find(FindingKind::OutOfBounds, || {
                    format!("element ({r}, {c}) is outside of the tensor, and the layout's clamp mode is Undefined")
                });
                Hit::Undefined
            }
            Ok(hit) => hit,
            Err(why) => {
                self.find(FindingKind::MatrixSize, || why);
                Hit::Undefined
            }
        })
    }

    fn tensor_load(
        &mut self,
        t: &Tensor,
        coop: &Coop,
        layout: &TensorLayout,
        view: Option<&TensorView>,
        ptr: u64,
        range: &Range<usize>,
    ) -> Result<(), Stop> {
        let bytes = coop.num.bytes() as u8;
        // Clipped elements keep what Object has.
        self.gather(t.object, t.ty, range);
        if self.tile_taint.is_empty() {
            self.tile_taint.resize(coop.elems(), Taint::Exact);
        }
        let agent = self.matrix_agent(coop.scope, range);
        let mut coords = Coords::default();
        let mut jobs = Vec::new();
        for r in 0..coop.rows {
            for c in 0..coop.cols {
                let hit = locate((r, c), coop.cols, layout, view, false, self.config.semantics, &mut coords);
                let i = (r * coop.cols + c) as usize;
                let (v, taint) = match self.hit(hit, r, c)? {
                    Hit::Skip => continue,
                    Hit::Undefined => (0, Taint::Undefined),
                    Hit::Fill => (mask(u64::from(layout.value), coop.num.bits()), Taint::Exact),
                    Hit::At { linear } if t.decode.is_some() => {
                        let (block, within) = (coords.block.clone(), coords.within.clone());
                        jobs.push(Job { element: i as u32, linear, block, within });
                        continue;
                    }
                    Hit::At { linear } => {
                        self.coop_read(ptr.wrapping_add(linear.wrapping_mul(u64::from(bytes))), bytes, agent)
                    }
                };
                (self.tile[i], self.tile_taint[i]) = (v, taint);
            }
        }
        if let Some(decode) = t.decode {
            self.decode(t, coop, decode, ptr, &jobs, range)?;
        }
        self.scatter(t.dst, t.ty, range);
        Ok(())
    }

    /// Calls the decode function for every element, each in the invocation that holds the element.
    fn decode(
        &mut self,
        t: &Tensor,
        coop: &Coop,
        (scalar, size): (usize, u32),
        ptr: u64,
        jobs: &[Job],
        range: &Range<usize>,
    ) -> Result<(), Stop> {
        let members = coop.placed.members as usize;
        let mut by_index: Vec<Vec<&Job>> = vec![Vec::new(); coop.placed.len as usize];
        for job in jobs {
            by_index[coop.placed.home[job.element as usize] as usize / members].push(job);
        }
        let vector = t.vector.filter(|_| self.config.vector_decode);
        let (func, size, width) = match vector {
            Some((func, size, width)) => (func, size, width.max(1)),
            None => (scalar, size, 1),
        };
        let f = &self.p.functions[func];
        let dim = jobs.first().map_or(0, |j| j.block.len()) as u32;
        if f.params.iter().map(|p| p.1).ne([1, dim, dim]) && !jobs.is_empty() {
            return Err(self.unsupported("a decode function whose parameters do not fit the layout"));
        }
        let (params, ret) = (f.params.clone(), f.ret.0);
        for jobs in by_index {
            let mut mask = Mask::EMPTY;
            let lane_of = |j: &Job| range.start + coop.placed.home[j.element as usize] as usize % members;
            for j in &jobs {
                let lane = lane_of(j);
                mask.set(lane);
                let address = ptr.wrapping_add(j.linear.wrapping_mul(u64::from(size)));
                self.put(params[0].0, lane, address, Taint::Exact);
                for (i, (b, w)) in j.block.iter().zip(&j.within).enumerate() {
                    // The vector function gets the first of its group's coordinates.
                    let w = if i + 1 == j.within.len() { w - w % width } else { *w };
                    self.put(params[1].0 + i as u32, lane, u64::from(*b), Taint::Exact);
                    self.put(params[2].0 + i as u32, lane, u64::from(w), Taint::Exact);
                }
            }
            if jobs.is_empty() {
                continue;
            }
            self.call_back(func, &mask)?;
            for j in &jobs {
                let lane = lane_of(j);
                let part = j.within.last().map_or(0, |w| w % width);
                let e = j.element as usize;
                self.tile[e] = self.regs.get(ret + part, lane);
                self.tile_taint[e] = self.regs.taint(ret + part, lane);
            }
        }
        Ok(())
    }
}
