//! The register file: rows of values, which of them are undefined, and which invocations are active.

use super::code::{NO_ROW, Row};
use super::symbolic::Symbols;
use super::taint::Taint;

/// The largest number of invocations in a workgroup.
pub(super) const MAX_LANES: usize = 1024;

/// A set of invocations of a workgroup.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Mask([u64; MAX_LANES / 64]);

impl Mask {
    pub(super) const EMPTY: Mask = Mask([0; MAX_LANES / 64]);

    pub(super) fn first(lanes: usize) -> Mask {
        let mut m = Mask::EMPTY;
        for l in 0..lanes {
            m.set(l);
        }
        m
    }

    pub(super) fn set(&mut self, lane: usize) {
        self.0[lane / 64] |= 1 << (lane % 64);
    }

    pub(super) fn has(&self, lane: usize) -> bool {
        self.0[lane / 64] >> (lane % 64) & 1 == 1
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.iter().all(|w| *w == 0)
    }

    pub(super) fn or(&mut self, other: &Mask) {
        for (a, b) in self.0.iter_mut().zip(&other.0) {
            *a |= b;
        }
    }

    pub(super) fn minus(&self, other: &Mask) -> Mask {
        let mut m = *self;
        for (a, b) in m.0.iter_mut().zip(&other.0) {
            *a &= !b;
        }
        m
    }

    pub(super) fn lanes(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.iter().enumerate().flat_map(|(i, w)| {
            let mut w = *w;
            std::iter::from_fn(move || {
                if w == 0 {
                    return None;
                }
                let bit = w.trailing_zeros() as usize;
                w &= w - 1;
                Some(i * 64 + bit)
            })
        })
    }
}

/// The active invocations, as a mask and as a list.
pub(super) struct Active {
    pub full: bool,
    pub list: Vec<u32>,
    pub mask: Mask,
}

/// A number that an integer type can't represent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unfit {
    pub value: f64,
    pub width: u32,
    pub signed: bool,
}

/// The register file.
pub(super) struct Regs {
    pub lanes: usize,
    pub r: Vec<u64>,
    /// The taint of each value of `r`. In rows that are not `dirty` all are exact.
    taints: Vec<Taint>,
    pub dirty: Vec<bool>,
    /// Registers to compute instructions in again, where error bounds are tracked (`error_bound`).
    pub probe: Option<Box<Regs>>,
    /// The terms of values, in a symbolic run.
    pub symbols: Option<Box<Symbols>>,
    pub act: Active,
    /// True if an integer was divided by zero.
    pub divided_by_zero: bool,
    /// A number that was converted to an integer type that can't represent it.
    pub unfit: Option<Unfit>,
}

impl Regs {
    pub(super) fn new(lanes: usize, rows: usize) -> Regs {
        let act = Active { full: true, list: (0..lanes as u32).collect(), mask: Mask::first(lanes) };
        Regs {
            lanes,
            r: vec![0; rows * lanes],
            taints: vec![Taint::Exact; rows * lanes],
            dirty: vec![false; rows],
            probe: None,
            symbols: None,
            act,
            divided_by_zero: false,
            unfit: None,
        }
    }

    pub(super) fn activate(&mut self, mask: &Mask) {
        if self.act.mask == *mask {
            return;
        }
        self.act.list.clear();
        self.act.list.extend(mask.lanes().map(|l| l as u32));
        self.act.full = self.act.list.len() == self.lanes;
        self.act.mask = *mask;
    }

    pub(super) fn get(&self, row: Row, lane: usize) -> u64 {
        self.r[row as usize * self.lanes + lane]
    }

    pub(super) fn put(&mut self, row: Row, lane: usize, v: u64) {
        self.r[row as usize * self.lanes + lane] = v;
    }

    pub(super) fn taint(&self, row: Row, lane: usize) -> Taint {
        if self.dirty[row as usize] { self.taints[row as usize * self.lanes + lane] } else { Taint::Exact }
    }

    pub(super) fn set_taint(&mut self, row: Row, lane: usize, taint: Taint) {
        if taint != Taint::Exact || self.dirty[row as usize] {
            self.taints[row as usize * self.lanes + lane] = taint;
            self.dirty[row as usize] |= taint != Taint::Exact;
        }
    }

    pub(super) fn is_undefined(&self, row: Row, lane: usize) -> bool {
        self.taint(row, lane).is_undefined()
    }

    /// Returns true if any value of the rows is tainted.
    pub(super) fn any_taint(&self, rows: std::ops::Range<Row>) -> bool {
        self.dirty[rows.start as usize..rows.end as usize].contains(&true)
    }

    /// Sets a row for every invocation.
    pub(super) fn fill(&mut self, row: Row, v: u64, undefined: bool) {
        let at = row as usize * self.lanes;
        self.r[at..at + self.lanes].fill(v);
        self.taints[at..at + self.lanes].fill(Taint::undefined_if(undefined));
        self.dirty[row as usize] = undefined;
    }

    /// Makes rows undefined in the active invocations.
    pub(super) fn undefine(&mut self, dst: Row, n: u32) {
        for row in dst..dst + n {
            let at = row as usize * self.lanes;
            self.dirty[row as usize] = true;
            if self.act.full {
                self.taints[at..at + self.lanes].fill(Taint::Undefined);
            } else {
                for l in &self.act.list {
                    self.taints[at + *l as usize] = Taint::Undefined;
                }
            }
        }
    }

    /// Propagates taints: an undefined source makes the result undefined. The error bound of a single inexact source
    /// becomes that of the result (`error_bound` corrects it where values change); that of several is unknown.
    pub(super) fn flow(&mut self, dst: Row, sources: &[Row]) {
        if self.dirty[dst as usize] || sources.iter().any(|s| self.dirty[*s as usize]) {
            self.flow_slowly(dst, sources);
        }
    }

    #[cold]
    fn flow_slowly(&mut self, dst: Row, sources: &[Row]) {
        let mut any = !self.act.full && self.dirty[dst as usize];
        for i in 0..self.act.list.len() {
            let l = self.act.list[i] as usize;
            let taint = match sources {
                [one] => self.taint(*one, l),
                _ => sources.iter().fold(Taint::Exact, |taint, s| taint.with(self.taint(*s, l))),
            };
            self.taints[dst as usize * self.lanes + l] = taint;
            any |= taint != Taint::Exact;
        }
        self.dirty[dst as usize] = any;
    }

    pub(super) fn map1(&mut self, dst: Row, a: Row, n: u32, f: impl Fn(u64) -> u64) {
        for i in 0..n {
            let (d, a) = ((dst + i) as usize * self.lanes, (a + i) as usize * self.lanes);
            if self.act.full && d > a {
                let (src, out) = self.r.split_at_mut(d);
                for (o, x) in out[..self.lanes].iter_mut().zip(&src[a..a + self.lanes]) {
                    *o = f(*x);
                }
            } else {
                for l in &self.act.list {
                    let l = *l as usize;
                    self.r[d + l] = f(self.r[a + l]);
                }
            }
        }
        for i in 0..n {
            self.flow(dst + i, &[a + i]);
        }
    }

    pub(super) fn map2(&mut self, dst: Row, a: Row, b: Row, n: u32, f: impl Fn(u64, u64) -> u64) {
        let lanes = self.lanes;
        for i in 0..n {
            let (d, x, y) = ((dst + i) as usize * lanes, (a + i) as usize * lanes, (b + i) as usize * lanes);
            if self.act.full && d > x && d > y {
                let (src, out) = self.r.split_at_mut(d);
                let (xs, ys) = (&src[x..x + lanes], &src[y..y + lanes]);
                for ((o, x), y) in out[..lanes].iter_mut().zip(xs).zip(ys) {
                    *o = f(*x, *y);
                }
            } else {
                for l in &self.act.list {
                    let l = *l as usize;
                    self.r[d + l] = f(self.r[x + l], self.r[y + l]);
                }
            }
        }
        for i in 0..n {
            self.flow(dst + i, &[a + i, b + i]);
        }
    }

    pub(super) fn map3(&mut self, dst: Row, args: [Row; 3], n: u32, f: impl Fn(u64, u64, u64) -> u64) {
        for i in 0..n {
            let at = args.map(|a| (a + i) as usize * self.lanes);
            let d = (dst + i) as usize * self.lanes;
            for l in &self.act.list {
                let l = *l as usize;
                self.r[d + l] = f(self.r[at[0] + l], self.r[at[1] + l], self.r[at[2] + l]);
            }
        }
        for i in 0..n {
            self.flow(dst + i, &args.map(|a| a + i));
        }
    }

    pub(super) fn copy(&mut self, dst: Row, src: Row, n: u32) {
        if dst == src || n == 0 {
            return;
        }
        let (d, s, len) = (dst as usize * self.lanes, src as usize * self.lanes, n as usize * self.lanes);
        if self.act.full {
            self.r.copy_within(s..s + len, d);
        } else {
            for i in 0..n as usize {
                for l in &self.act.list {
                    let at = i * self.lanes + *l as usize;
                    self.r[d + at] = self.r[s + at];
                }
            }
        }
        for i in 0..n {
            self.flow(dst + i, &[src + i]);
        }
    }

    pub(super) fn rows(&mut self, dst: Row, src: &[Row]) {
        for (i, s) in src.iter().enumerate() {
            if *s == NO_ROW {
                self.undefine(dst + i as u32, 1);
            } else {
                self.copy(dst + i as u32, *s, 1);
            }
        }
    }

    /// Returns the value of a row if it is the same in all of `lanes`.
    pub(super) fn uniform(&self, row: Row, lanes: impl Iterator<Item = usize>) -> Result<u64, (usize, usize)> {
        let mut first = None;
        for l in lanes {
            let v = self.get(row, l);
            match first {
                None => first = Some((l, v)),
                Some((f, w)) if w != v => return Err((f, l)),
                _ => {}
            }
        }
        Ok(first.map_or(0, |f| f.1))
    }
}
