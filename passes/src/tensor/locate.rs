//! Computes the location of an element: from row and column, through view, slice and clamping, to an index into the
//! tensor's storage.
//!
//! The row-major index of an element in the matrix is kept as digits of a mixed radix: row and column are digits
//! already, whose radices the matrix has. Taking a coordinate out of the index is then free where a span equals the
//! number of columns, and cheap where one divides the other. Only where nothing is known of the radices do the digits
//! become one number that is divided.
//!
//! All elements of a run are located at once where each coordinate stays or increments by one ([`Step`]).

use super::index_math::{IndexMath, Num, Step};
use super::layout_chain::{LayoutType, ViewType, layout};
use super::{CLAMP_CONSTANT, CLAMP_MIRRORED, CLAMP_REPEAT, CLAMP_TO_EDGE, CLAMP_UNDEFINED};
use crate::Semantics;
use coop_ir::builder::Index;
use coop_ir::{Id, Op};

/// The operands of an access, as numbers of the generated code, and what follows from them for all elements.
#[derive(Clone, Debug)]
pub(super) struct Rules {
    pub(super) layout: LayoutType,
    pub(super) view: Option<ViewType>,
    pub(super) rows: u32,
    pub(super) cols: u32,
    pub(super) store: bool,
    pub(super) semantics: Semantics,
    /// The parts of the layout.
    pub(super) parts: Vec<Num>,
    /// The parts of the view.
    pub(super) view_parts: Vec<Num>,
    /// True if the view's strides are those implied by its dimensions.
    pub(super) plain_strides: bool,
    /// The extents by dimension; all that are too large to be reached are made equal.
    limits: Vec<Num>,
    /// The period of mirroring, by dimension.
    periods: Vec<Num>,
    /// The index of the storage element at the slice's offset, over dimensions that are not clamped.
    base: Num,
    /// The end of the rows and of the columns that are not clipped.
    ends: [Option<Num>; 2],
    /// The dimension whose stride is kept apart, since it has 64 bits.
    far: Option<usize>,
}

/// A coordinate in the tensor.
#[derive(Clone, Copy, Debug)]
pub(super) struct Coordinate {
    pub(super) block: Num,
    pub(super) within: Num,
}

/// The location of an element or of a run.
#[derive(Clone, Debug)]
pub(super) struct Location {
    /// The condition that the view clips it (any of them).
    pub(super) clipped: Option<Id>,
    /// The condition that it (any of them) is outside the tensor, if the clamp mode does not wrap it to another
    /// location.
    pub(super) outside: Option<Id>,
    /// The index of the storage element.
    pub(super) linear: Num,
    /// The signed coordinate to multiply by the 64-bit stride, whose product is added to `linear`.
    pub(super) line: Option<Num>,
    pub(super) coordinates: Vec<Coordinate>,
}

impl Location {
    /// Returns true if the elements of a run are adjacent, each coordinate moving in a known way.
    pub(super) fn is_run(&self) -> bool {
        let known = |n: &Num| n.step != Step::Free;
        known(&self.linear) && self.coordinates.iter().all(|c| known(&c.block) && known(&c.within))
    }

    /// Returns true if the elements of a run differ in the last coordinate alone.
    pub(super) fn moves_last(&self) -> bool {
        let moves = |c: &Coordinate| [c.block, c.within].iter().any(|n| n.step == Step::One);
        self.coordinates.split_last().is_some_and(|(last, others)| moves(last) && !others.iter().any(moves))
    }
}

/// A coordinate of the slice in terms of row and column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Axis {
    Row,
    Col,
    Known(u32),
}

/// A digit: less than its radix, if it has one.
#[derive(Clone, Copy, Debug)]
struct Digit {
    num: Num,
    radix: Option<Num>,
}

/// The properties of an access that its [`Rules`] follow from.
pub(super) struct AccessProperties {
    pub(super) layout: LayoutType,
    pub(super) view: Option<ViewType>,
    /// Rows and columns of the matrix.
    pub(super) shape: (u32, u32),
    pub(super) store: bool,
    pub(super) semantics: Semantics,
    /// The parts of the layout.
    pub(super) parts: Vec<Num>,
    /// The parts of the view.
    pub(super) view_parts: Vec<Num>,
    /// True if the strides of the view are those implied by its dimensions.
    pub(super) plain_strides: bool,
    /// The dimension with a 64-bit stride, if there is one.
    pub(super) far: Option<usize>,
}

impl Rules {
    pub(super) fn new(c: &mut IndexMath<'_, '_>, properties: AccessProperties) -> Rules {
        let AccessProperties { layout, view, shape, store, semantics, parts, view_parts, plain_strides, far } =
            properties;
        let mut rules = Rules {
            layout,
            view,
            rows: shape.0,
            cols: shape.1,
            store,
            semantics,
            parts,
            view_parts,
            plain_strides,
            limits: Vec::new(),
            periods: Vec::new(),
            base: Num::known(0),
            ends: [None, None],
            far,
        };
        rules.prepare(c);
        rules
    }

    pub(super) fn part(&self, kind: usize, d: usize) -> Num {
        self.parts[kind * self.layout.rank + d]
    }

    /// Returns true if a coordinate outside the tensor wraps to another location in it.
    fn wraps(&self) -> bool {
        !self.store && matches!(self.layout.clamp, CLAMP_TO_EDGE | CLAMP_REPEAT | CLAMP_MIRRORED)
    }

    fn is_plain(&self, d: usize) -> bool {
        self.part(layout::BLOCK, d).constant() == Some(1) && !self.wraps()
    }

    /// Returns the same rules, assuming that the offsets of some dimensions are multiples of `by`.
    pub(super) fn assuming(&self, by: u32, dimensions: impl IntoIterator<Item = usize>) -> Rules {
        let mut out = self.clone();
        for d in dimensions {
            let offset = &mut out.parts[layout::OFFSET * self.layout.rank + d];
            offset.align = offset.align.max(by);
        }
        out
    }

    /// Computes what does not depend on the element.
    fn prepare(&mut self, c: &mut IndexMath<'_, '_>) {
        for d in 0..self.layout.rank {
            let extent = self.part(layout::EXTENT, d);
            // Coordinates are signed: those from 2^31 on are negative, and outside any tensor.
            let half = Num::known(1 << 31);
            let limit = match extent.constant() {
                _ if self.layout.clamp == CLAMP_UNDEFINED => extent,
                Some(e) => Num::known(e.min(1 << 31)),
                None => {
                    let large = c.compare(Op::UGreaterThan, extent, half);
                    c.select(large, half, extent)
                }
            };
            self.limits.push(limit);
            if self.wraps() && self.layout.clamp == CLAMP_MIRRORED {
                let period = self.period(c, extent);
                self.periods.push(period);
            }
            if self.is_plain(d) {
                let (offset, stride) = (self.part(layout::OFFSET, d), self.part(layout::STRIDE, d));
                let offset = c.mul(offset, stride);
                self.base = c.add(self.base, offset);
            }
        }
        if let Some(v) = &self.view {
            let clip = 2 * v.order.len();
            for (k, extent) in [(0, self.rows), (1, self.cols)] {
                let (offset, span) = (self.view_parts[clip + 2 * k], self.view_parts[clip + 2 * k + 1]);
                self.ends[k] = clip_end(c, offset, span, extent, self.semantics);
            }
        }
    }

    /// Returns `2 * extent - 2`, but never 0: an extent of 1 has one location only. No coordinate wraps around larger
    /// extents.
    fn period(&self, c: &mut IndexMath<'_, '_>, extent: Num) -> Num {
        if let Some(e) = extent.constant() {
            return Num::known(if e > 1 << 31 { u32::MAX } else { (2 * e).wrapping_sub(2).max(1) });
        }
        let double = c.add(extent, extent);
        let period = c.sub(double, Num::known(2));
        let none = c.compare(Op::IEqual, period, Num::known(0));
        let period = c.select(none, Num::known(1), period);
        let large = c.compare(Op::UGreaterThan, extent, Num::known(1 << 31));
        c.select(large, Num::known(u32::MAX), period)
    }

    /// Returns true if some elements can be clipped.
    pub(super) fn clips(&self) -> bool {
        let Some(v) = &self.view else { return false };
        let clip = 2 * v.order.len();
        (0..2).any(|k| self.ends[k].is_some() || self.view_parts[clip + 2 * k].constant() != Some(0))
    }

    /// Locates the element at a row and a column, or the run that begins there.
    pub(super) fn locate(&self, c: &mut IndexMath<'_, '_>, row: Num, col: Num) -> Location {
        self.locate_from(c, self.base, row, col)
    }

    /// Locates like [`Rules::locate`], but adds the slice's offset last: in a loop that moves the slice, all before it stays the same.
    pub(super) fn locate_in_moving_slice(&self, c: &mut IndexMath<'_, '_>, row: Num, col: Num) -> Location {
        let mut location = self.locate_from(c, Num::known(0), row, col);
        location.linear = c.add(location.linear, self.base);
        location
    }

    /// Locates from the index of the storage element at the slice's offset.
    fn locate_from(&self, c: &mut IndexMath<'_, '_>, base: Num, row: Num, col: Num) -> Location {
        let (row, col) = (row.less_than(self.rows), col.less_than(self.cols));
        let (mut digits, clipped) = self.number(c, row, col);
        if let Some(v) = &self.view {
            digits = self.through_view(c, v, digits);
        }
        let (slice, inside_span) = self.slice(c, &mut digits);
        let mut location = Location { clipped, outside: None, linear: base, line: None, coordinates: Vec::new() };
        for d in 0..self.layout.rank {
            self.coordinate(c, d, slice[d], inside_span[d], &mut location);
        }
        location
    }

    /// Returns the coordinates in the slice, and whether each is known to be less than its span.
    fn slice(&self, c: &mut IndexMath<'_, '_>, digits: &mut Vec<Digit>) -> (Vec<Num>, Vec<bool>) {
        let rank = self.layout.rank;
        let mut slice = vec![Num::known(0); rank];
        let mut inside_span = vec![true; rank];
        for d in (0..rank).rev() {
            if d == 0 && self.view.is_none() && self.semantics == Semantics::Nvidia {
                (slice[0], inside_span[0]) = (flatten(c, digits), false);
            } else {
                slice[d] = peel(c, digits, self.part(layout::SPAN, d));
            }
        }
        (slice, inside_span)
    }

    /// Returns the axis of each coordinate, if each is row, column or constant, and blocks are single elements.
    pub(super) fn axes(&self) -> Option<Vec<Axis>> {
        let c = &mut IndexMath::without_code(1);
        let some = |n: u32| Id::new(0x9000_0000 + n).unwrap_or_else(|| unreachable!("more than 0"));
        let [row, col] = [0, 1].map(|n| Num::value(some(n), 1));
        let (mut digits, _) = self.number(c, row.less_than(self.rows), col.less_than(self.cols));
        if let Some(v) = &self.view {
            digits = self.through_view(c, v, digits);
        }
        let (slice, _) = self.slice(c, &mut digits);
        let single = (0..self.layout.rank).all(|d| self.part(layout::BLOCK, d).constant() == Some(1));
        let axis = |n: &Num| match n.at {
            at if at == row.at => Some(Axis::Row),
            at if at == col.at => Some(Axis::Col),
            _ => n.constant().map(Axis::Known),
        };
        single.then(|| slice.iter().map(axis).collect()).flatten()
    }

    /// Returns true if coordinates less than `below` are inside dimension `d` for all values.
    pub(super) fn surely_inside(&self, d: usize, offset: Num, below: Option<u32>) -> bool {
        let extent = self.part(layout::EXTENT, d);
        let end = offset.constant().filter(|o| *o < 1 << 31).zip(below).and_then(|(o, b)| o.checked_add(b));
        end.zip(extent.constant()).is_some_and(|(b, e)| b <= e.min(1 << 31))
    }

    /// Returns the unsigned bound of the coordinates inside dimension `d`.
    pub(super) fn limit(&self, d: usize) -> Num {
        self.limits[d]
    }

    /// Returns the digits of the element's index, and the condition that it is clipped.
    fn number(&self, c: &mut IndexMath<'_, '_>, row: Num, col: Num) -> (Vec<Digit>, Option<Id>) {
        let digit = |num, radix| Digit { num, radix: Some(radix) };
        let plain = |row, col| vec![digit(row, Num::known(self.rows)), digit(col, Num::known(self.cols))];
        let Some(v) = self.view.as_ref().filter(|_| self.clips()) else { return (plain(row, col), None) };
        let clip = 2 * v.order.len();
        let mut clipped = None;
        let mut at = [row, col];
        for (k, x) in at.iter_mut().enumerate() {
            let offset = self.view_parts[clip + 2 * k];
            let mut out = Vec::new();
            if offset.constant() != Some(0) {
                out.push(c.compare(Op::ULessThan, *x, offset));
            }
            if let Some(end) = self.ends[k] {
                let last = c.last(*x);
                out.push(c.compare(Op::UGreaterThanEqual, last, end));
            }
            for test in out {
                let test = match test {
                    Ok(id) => Some(id),
                    Err(false) => None,
                    Err(true) => c.truth(),
                };
                clipped = c.or(clipped, test);
            }
            *x = c.sub(*x, offset);
        }
        let span = self.view_parts[clip + 3];
        let radix = match span.constant() {
            Some(s) => Num::known(s.min(self.cols)),
            None => {
                let cols = Num::known(self.cols);
                let narrow = c.compare(Op::ULessThan, span, cols);
                c.select(narrow, span, cols).less_than(self.cols.saturating_add(1))
            }
        };
        // Clipped elements may have any digits: they are not used.
        let col = match radix.constant() {
            Some(r) => at[1].less_than(r),
            None => at[1].less_than(self.cols),
        };
        (vec![digit(at[0].less_than(self.rows), Num::known(self.rows)), digit(col, radix)], clipped)
    }

    fn through_view(&self, c: &mut IndexMath<'_, '_>, v: &ViewType, mut digits: Vec<Digit>) -> Vec<Digit> {
        let rank = v.order.len();
        let dims: Vec<Num> =
            if v.sized { self.view_parts[..rank].to_vec() } else { (0..rank).map(|d| self.span(d)).collect() };
        let mut at = vec![Num::known(0); rank];
        for d in v.order.iter().rev() {
            at[*d] = peel(c, &mut digits, dims[*d]);
        }
        if !v.sized || self.plain_strides {
            return at.into_iter().zip(dims).map(|(num, radix)| Digit { num, radix: Some(radix) }).collect();
        }
        let mut sum = Num::known(0);
        for (x, stride) in at.into_iter().zip(&self.view_parts[rank..2 * rank]) {
            let term = c.mul(x, *stride);
            sum = c.add(sum, term);
        }
        vec![Digit { num: sum, radix: None }]
    }

    /// Returns the span of a dimension of the layout; with a view of more dimensions there is none.
    fn span(&self, d: usize) -> Num {
        if d < self.layout.rank { self.part(layout::SPAN, d) } else { Num::known(1) }
    }

    /// Adds the contribution of dimension `d`.
    fn coordinate(&self, c: &mut IndexMath<'_, '_>, d: usize, slice: Num, inside_span: bool, location: &mut Location) {
        let (offset, extent) = (self.part(layout::OFFSET, d), self.part(layout::EXTENT, d));
        let mut t = c.add(slice, offset);
        let within_span = inside_span && offset.constant() == Some(0) && extent.at == self.part(layout::SPAN, d).at;
        let surely = within_span
            || offset.constant().is_some_and(|o| o < 1 << 31)
                && t.below.zip(extent.constant()).is_some_and(|(b, e)| b <= e.min(1 << 31));
        if !surely && self.layout.clamp != CLAMP_UNDEFINED {
            if !self.wraps() || c.count > 1 {
                let mut tests = vec![c.compare(Op::UGreaterThanEqual, t, self.limits[d])];
                if t.step == Step::One {
                    let last = c.last(t);
                    tests.push(c.compare(Op::UGreaterThanEqual, last, self.limits[d]));
                }
                for test in tests {
                    let test = match test {
                        Ok(id) => Some(id),
                        Err(false) => None,
                        Err(true) => c.truth(),
                    };
                    location.outside = c.or(location.outside, test);
                }
            } else {
                t = self.wrapped(c, d, t);
            }
        }
        if self.far == Some(d) {
            location.line = Some(t);
            if t.step != Step::Still {
                location.linear.step = Step::Free;
            }
        }
        let block_size = self.part(layout::BLOCK, d);
        let stride = self.part(layout::STRIDE, d);
        if self.is_plain(d) {
            // The base includes the offset.
            let term = c.mul(slice, stride);
            location.linear = c.add(location.linear, term);
            location.coordinates.push(Coordinate { block: t, within: Num::known(0) });
            return;
        }
        let (block, within) = c.div_rem(t, block_size);
        let term = c.mul(block, stride);
        location.linear = c.add(location.linear, term);
        location.coordinates.push(Coordinate { block, within });
    }

    /// Wraps a coordinate that is outside.
    fn wrapped(&self, c: &mut IndexMath<'_, '_>, d: usize, t: Num) -> Num {
        let extent = self.part(layout::EXTENT, d);
        let negative = c.compare(Op::SLessThan, t, Num::known(0));
        let end = c.sub(extent, Num::known(1));
        match self.layout.clamp {
            CLAMP_TO_EDGE => {
                let over = c.compare(Op::UGreaterThanEqual, t, extent);
                let at = c.select(over, end, t);
                c.select(negative, Num::known(0), at)
            }
            CLAMP_REPEAT => {
                // Below zero the remainder counts from the other end.
                let other = c.not(t);
                let x = c.select(negative, other, t);
                let (_, rest) = c.div_rem(x, extent);
                let mirrored = c.sub(end, rest);
                c.select(negative, mirrored, rest)
            }
            _ => {
                let minus = c.sub(Num::known(0), t);
                let x = c.select(negative, minus, t);
                let (_, rest) = c.div_rem(x, self.periods[d]);
                let back = c.sub(self.periods[d], rest);
                let over = c.compare(Op::UGreaterThanEqual, rest, extent);
                c.select(over, back, rest)
            }
        }
    }

    /// Returns true if elements outside of the tensor take the clamp value.
    pub(super) fn fills(&self) -> bool {
        !self.store && self.layout.clamp == CLAMP_CONSTANT
    }
}

/// Returns the end of the rows or columns that are not clipped; `None` if that is the end of the matrix.
fn clip_end(c: &mut IndexMath<'_, '_>, offset: Num, span: Num, extent: u32, semantics: Semantics) -> Option<Num> {
    if let (Some(o), Some(s)) = (offset.constant(), span.constant()) {
        let end = if semantics == Semantics::Nvidia { o.saturating_add(s) } else { o.wrapping_add(s) };
        return (end < extent).then(|| Num::known(end));
    }
    let sum = c.add(offset, span);
    if semantics == Semantics::Spec || offset.constant() == Some(0) {
        return Some(sum);
    }
    let wrapped = c.compare(Op::ULessThan, sum, offset);
    Some(c.select(wrapped, Num::known(u32::MAX), sum))
}

/// Takes the last coordinate, of `radix` values, out of a number, which becomes the quotient.
fn peel(c: &mut IndexMath<'_, '_>, digits: &mut Vec<Digit>, radix: Num) -> Num {
    if radix.constant() == Some(1) {
        return Num::known(0);
    }
    let Some(digit) = digits.pop() else { return Num::known(0) };
    if digit.radix.is_some_and(|r| r.at == radix.at && r.step == Step::Still) {
        return digit.num;
    }
    if let Some(k) = radix.constant() {
        if digits.is_empty() && digit.num.below.is_some_and(|b| b <= k) {
            return digit.num;
        }
        let own = digit.radix.and_then(Num::constant).filter(|e| *e > 0);
        if let Some(e) = own
            && k.is_multiple_of(e)
        {
            let high = peel(c, digits, Num::known(k / e));
            let high = c.mul(high, Num::known(e));
            return c.add(high, digit.num);
        }
        if own.is_some_and(|e| e.is_multiple_of(k)) || digits.is_empty() {
            let (quotient, rest) = c.div_rem(digit.num, radix);
            digits.push(Digit { num: quotient, radix: own.map(|e| Num::known(e.div_ceil(k))) });
            return rest;
        }
    }
    digits.push(digit);
    let all = flatten(c, digits);
    let (quotient, rest) = c.div_rem(all, radix);
    digits.clear();
    digits.push(Digit { num: quotient, radix: None });
    let mut rest = rest;
    if let Index::Value(_) = radix.at {
        rest.below = all.below;
    }
    rest
}

/// Returns the number with these digits.
fn flatten(c: &mut IndexMath<'_, '_>, digits: &[Digit]) -> Num {
    let mut all = Num::known(0);
    for digit in digits {
        // Only the first digit can lack a radix.
        if let Some(radix) = digit.radix {
            all = c.mul(all, radix);
        }
        all = c.add(all, digit.num);
    }
    all
}
