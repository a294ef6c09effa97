//! Lowers reductions.
//!
//! Each lane folds its elements of a line. If the lanes of a line are in one subgroup, they combine their results by shuffles
//! in a butterfly pattern, without shared memory. Otherwise results go through shared memory as in [`super::exchange`]: one
//! lane of each line folds the results of the others, and all lanes that hold a part of the line read the total.

use super::array::{Array, ArrayBuilder, unroll_much, visit};
use super::exchange::StagedTransfer;
use super::exchange_buffer::{ElementBuffer, where_};
use super::{Key, Lower, Mat, unfit};
use crate::Refusal;
use crate::matrix::arena::{Arena, Region, Zone};
use crate::matrix::bits::{gather, small_type, split_value};
use crate::matrix::lanes::LaneSource;
use crate::matrix::placement::{AxisSplit, LaneRange};
use crate::matrix::position::{ElementPosition, LanePosition, both};
use crate::matrix::row_uniform::{Combine, combine as what};
use coop_ir::builder::{FunctionBuilder, Index, Unroll};
use coop_ir::hash::FxHashMap;
use coop_ir::spv::CooperativeMatrixReduce;
use coop_ir::{Id, InstRef, Module, Op, Operand};

/// Bits of Cooperative Matrix Reduce.
const ROW: u32 = CooperativeMatrixReduce::Row.0;
const COLUMN: u32 = CooperativeMatrixReduce::Column.0;
const QUARTERS: u32 = CooperativeMatrixReduce::_2x2.0;

impl Lower<'_, '_> {
    pub(super) fn reduce(&mut self, r: InstRef) -> Result<(), Refusal> {
        let inst = self.m.inst(r);
        let (matrix, mask, combine) = (inst.id(0), inst.word(1).unwrap_or(0), inst.id(2));
        let to = inst.ty.and_then(|t| self.mats.get(&t)).copied();
        let (Some(matrix), Some(combine), Some(to)) = (matrix, combine, to) else { return unfit(r) };
        let Some(from) = self.mat_of(matrix) else { return unfit(r) };
        let (rows, columns) = (from.placement.shape.rows, from.placement.shape.cols);
        let (to_rows, to_columns) = (to.placement.shape.rows, to.placement.shape.cols);
        let fits = match mask {
            ROW => rows == to_rows,
            COLUMN => columns == to_columns,
            3 => true,
            QUARTERS => Some(rows) == to_rows.checked_mul(2) && Some(columns) == to_columns.checked_mul(2),
            _ => false,
        };
        if !fits || from.elem != to.elem || from.workgroup != to.workgroup || !self.takes(combine, 2, from.elem) {
            return unfit(r);
        }
        let mut key = Key {
            op: Op::CooperativeMatrixReduceNV,
            types: vec![to.ty, from.ty],
            extra: vec![mask.into(), combine.into()],
        };
        let same = self.row_uniform.contains(&matrix) && mask == ROW && what(self.m, combine) == Combine::Idempotent;
        let plan = Reduction { from, to, mask, combine, same };
        key.extra.push(u32::from(same).into());
        self.call(r, key, &[matrix], &mut |this| plan.make(this, r))
    }

    /// Returns true if a function takes `count` elements (and nothing else) and gives one.
    fn takes(&self, function: Id, count: usize, elem: Id) -> bool {
        let Some((ret, params)) = self.signature_of(function) else { return false };
        ret == elem && params == vec![elem; count]
    }
}

#[derive(Clone, Copy)]
struct Reduction {
    from: Mat,
    to: Mat,
    mask: u32,
    combine: Id,
    /// True if every element of a line is the fold of the line already.
    same: bool,
}

/// The lines along which a reduction goes: rows, or columns.
#[derive(Clone, Copy)]
struct Lines {
    /// The division of the lines, and of the elements of a line.
    across: AxisSplit,
    along: AxisSplit,
    by_row: bool,
}

/// Groups of lanes that hold anything real.
fn busy(split: AxisSplit) -> u32 {
    split.extent.div_ceil(split.piece).min(split.groups)
}

/// Returns true if reductions of a matrix along a line can be made by the lanes of a subgroup, if those of the
/// workgroup are counted so.
pub(super) fn in_subgroups(m: &Module, mats: &FxHashMap<Id, Mat>, lanes: &LaneSource) -> bool {
    m.all().map(|r| m.inst(r)).filter(|i| i.op == Op::CooperativeMatrixReduceNV).any(|i| {
        let from = i.id(0).and_then(|id| m.type_of(id)).and_then(|t| mats.get(&t)).filter(|mat| mat.workgroup);
        let (Some(from), Some(mask), Some(combine)) = (from, i.word(1), i.id(2)) else { return false };
        let plan = Reduction { from: *from, to: *from, mask, combine, same: false };
        [ROW, COLUMN].contains(&mask) && plan.line(lanes).is_some()
    })
}

impl Reduction {
    fn make(self, this: &mut Lower<'_, '_>, r: InstRef) -> Result<Id, Refusal> {
        small_type(this.m, self.from.scalar);
        match self.mask {
            ROW | COLUMN => self.lines(this, r),
            QUARTERS => self.quarters(this, r),
            _ => self.all(this, r),
        }
    }

    fn label(&self, how: &str) -> String {
        format!("coop_reduce_{how}_{}", self.from.label())
    }

    fn fold(&self, b: &mut FunctionBuilder<'_>, x: Id, y: Id) -> Id {
        b.ids(Op::FunctionCall, self.from.elem, &[self.combine, x, y])
    }

    /// `x` with `y`, or `x` alone where `y` is not real.
    fn fold_if(&self, b: &mut FunctionBuilder<'_>, real: Option<Id>, x: Id, y: Id) -> Id {
        let value = self.fold(b, x, y);
        match real {
            Some(real) => b.ids(Op::Select, self.from.elem, &[real, value, x]),
            None => value,
        }
    }

    fn take(self, this: &mut Lower<'_, '_>, r: InstRef, places: u32) -> Result<(Zone, Region), Refusal> {
        let zone = this.zone(r, self.from.workgroup)?;
        let elem = self.from.element();
        let slices = this.slices(r, zone, elem, 1, places, 1)?;
        Ok((zone, slices.region))
    }

    /// Every element of a line becomes the fold of the line: each lane folds what it holds of it, one lane of each
    /// line folds those, and all that hold a part of the line read that.
    fn lines(self, this: &mut Lower<'_, '_>, r: InstRef) -> Result<Id, Refusal> {
        let (from, to) = (self.from, self.to);
        let by_row = self.mask == ROW;
        let lines = Lines {
            across: if by_row { from.placement.rows } else { from.placement.cols },
            along: if by_row { from.placement.cols } else { from.placement.rows },
            by_row,
        };
        let line = self.line(&this.lanes);
        if (line.is_some() || self.same) && self.stays(lines) {
            return Ok(self.in_lanes(this, lines, line));
        }
        // Where lanes fold a line without shared memory, each has the fold of the whole line then.
        let parts = if line.is_some() || self.same { 1 } else { busy(lines.along) };
        let (zone, region) = self.take(this, r, lines.across.extent.saturating_mul(parts))?;
        let label = self.label(if by_row { "row" } else { "column" });
        let mut f = FunctionBuilder::new(this.m, &mut this.g, &label, to.ty, &[from.ty]);
        let b = &mut f;
        let (arena, sources) = (&mut this.arena, &mut this.lanes);
        let begin = sources.begin(b, arena, region);
        let buffer = ElementBuffer::new(b, begin, from.element());
        let lane = sources.lane(b, from.workgroup);
        let (source, target) =
            (LanePosition::of_lane(b, from.placement, lane), LanePosition::of_lane(b, to.placement, lane));
        let value = b.param(0);
        let how = unroll_much(from.placement.len());
        let array = Array::new(b, from, value, how != Unroll::Now);

        arena.barrier(b, zone);
        let group = if by_row { source.col_group } else { source.row_group };
        let some = (parts < lines.along.groups).then(|| b.compare(Op::ULessThan, group, Index::Const(parts)));
        let first = source.first(b);
        let mine = both(b, some, first);
        // Neighbouring lines beside each other: those who fold them read neighbouring words.
        let group = if lines.along.groups == 1 || parts == 1 { Index::Const(0) } else { group };
        let skipped = b.mul(group, Index::Const(lines.across.extent));
        if let Some(line) = line.filter(|_| !self.same) {
            b.repeat(lines.across.per_group, how, &mut |b, i| {
                let sum = self.fold_line(b, lines, &source, &array, i, how);
                let sum = self.fold_lanes(b, sources, line, lane, sum);
                let (line, real) = lines.line(b, &source, i);
                let line = line.emit(b);
                let place = b.add(skipped, line);
                let mine = both(b, mine, real);
                where_(b, mine, &mut |b| buffer.put(b, arena, place, sum));
            });
        } else {
            where_(b, mine, &mut |b| {
                b.repeat(lines.across.per_group, how, &mut |b, i| {
                    let (line, real) = lines.line(b, &source, i);
                    let sum = self.fold_line(b, lines, &source, &array, i, how);
                    let line = line.emit(b);
                    let place = b.add(skipped, line);
                    where_(b, real, &mut |b| buffer.put(b, arena, place, sum));
                });
            });
        }
        arena.barrier(b, zone);
        if parts > 1 {
            let count = from.placement.grid.lanes();
            let extent = lines.across.extent;
            b.repeat(extent.div_ceil(count), Unroll::No, &mut |b, t| {
                let skipped = b.mul(t, Index::Const(count));
                let line = b.add(lane, skipped);
                let real =
                    (!extent.is_multiple_of(count)).then(|| b.compare(Op::ULessThan, line, Index::Const(extent)));
                where_(b, real, &mut |b| {
                    let total = self.fold_strided(b, arena, &buffer, line, parts, extent);
                    buffer.put(b, arena, line, total);
                });
            });
            arena.barrier(b, zone);
        }
        // A line of the result is a line of the source: read once, and given to all its elements.
        let split = if by_row { to.placement.rows } else { to.placement.cols };
        let how = unroll_much(to.placement.len());
        let mut sink = ArrayBuilder::new(b, to, how != Unroll::Now);
        if how == Unroll::Now {
            let mut totals = Vec::new();
            for i in 0..split.per_group {
                totals.push(Reduction::total(b, arena, &buffer, lines, &target, Index::Const(i)));
            }
            visit(b, to.placement, how, &mut |b, i, j, at| {
                let Index::Const(line) = (if by_row { i } else { j }) else {
                    unreachable!("the loops are written out")
                };
                sink.set(b, at, totals[line as usize]);
            });
        } else {
            visit(b, to.placement, how, &mut |b, i, j, at| {
                let line = if by_row { i } else { j };
                let total = Reduction::total(b, arena, &buffer, lines, &target, line);
                sink.set(b, at, total);
            });
        }
        let result = sink.finish(b);
        Ok(f.finish(Some(result)))
    }

    /// The lanes that have parts of a line, where they can fold them without shared memory: nothing is held twice, and no
    /// lane is without a part.
    fn line(&self, lanes: &LaneSource) -> Option<LaneRange> {
        let Mat { placement, workgroup, scalar, .. } = self.from;
        let line = placement.grid.line(self.mask == ROW)?;
        let fits = !placement.copies() && scalar.width() <= 32 && lanes.can_shuffle(line, workgroup);
        fits.then_some(line)
    }

    /// Returns true if a lane has the same lines of the result as of the source.
    fn stays(&self, lines: Lines) -> bool {
        let (from, to) = (self.from, self.to);
        let across = if lines.by_row { to.placement.rows } else { to.placement.cols };
        from.placement.grid == to.placement.grid && lines.across == across
    }

    /// The reduction of lines that lanes have of both matrices, without shared memory.
    fn in_lanes(self, this: &mut Lower<'_, '_>, lines: Lines, line: Option<LaneRange>) -> Id {
        let (from, to) = (self.from, self.to);
        let label = self.label(if lines.by_row { "row" } else { "column" });
        let mut f = FunctionBuilder::new(this.m, &mut this.g, &label, to.ty, &[from.ty]);
        let b = &mut f;
        let lane = this.lanes.lane(b, from.workgroup);
        let source = LanePosition::of_lane(b, from.placement, lane);
        let value = b.param(0);
        let how = unroll_much(from.placement.len().max(to.placement.len()));
        let array = Array::new(b, from, value, how != Unroll::Now);
        let mut sink = ArrayBuilder::new(b, to, how != Unroll::Now);
        let lanes = &mut this.lanes;
        let mut fold = |b: &mut FunctionBuilder<'_>, i: Index| {
            let sum = self.fold_line(b, lines, &source, &array, i, how);
            match line.filter(|_| !self.same) {
                Some(line) => self.fold_lanes(b, lanes, line, lane, sum),
                None => sum,
            }
        };
        if lines.by_row {
            sink.rows(b, to, how, &mut |b, i, _| fold(b, i));
        } else {
            b.repeat(to.placement.cols.per_group, how, &mut |b, j| {
                let total = fold(b, j);
                b.repeat(to.placement.rows.per_group, how, &mut |b, i| {
                    let at = to.placement.index(b, i, j);
                    sink.set(b, at, total);
                });
            });
        }
        let result = sink.finish(b);
        f.finish(Some(result))
    }

    /// The fold of what lanes have of a line, in every one of them: those of half of the line with those of the other,
    /// in the order of the line, so that they agree in every bit.
    fn fold_lanes(
        &self,
        b: &mut FunctionBuilder<'_>,
        lanes: &mut LaneSource,
        line: LaneRange,
        lane: Index,
        mut sum: Id,
    ) -> Id {
        let Mat { elem, scalar, .. } = self.from;
        let word = b.u32_type();
        let commutes = matches!(what(b.module, self.combine), Combine::Op(_));
        for n in 0..line.count.ilog2() {
            let mask = line.step << n;
            let mut parts = vec![sum];
            if scalar.width() < 32 {
                let null = b.globals.null(b.module, elem);
                parts.resize((32 / scalar.width()) as usize, null);
            }
            let bits = if elem == word { sum } else { gather(b, scalar, elem, &parts, word) };
            let other = lanes.shuffle(b, bits, mask);
            let other = match scalar.width() {
                32 if elem == word => other,
                32 => b.ids(Op::Bitcast, elem, &[other]),
                _ => split_value(b, scalar, elem, other, 32)[0],
            };
            let (first, second) = if commutes {
                (sum, other)
            } else {
                let bit = b.u32_op(Op::BitwiseAnd, lane, Index::Const(mask));
                let later = b.compare(Op::INotEqual, bit, Index::Const(0));
                let first = b.ids(Op::Select, elem, &[later, other, sum]);
                (first, b.ids(Op::Select, elem, &[later, sum, other]))
            };
            sum = self.fold(b, first, second);
        }
        sum
    }

    /// The fold of a line of the result.
    fn total(
        b: &mut FunctionBuilder<'_>,
        arena: &mut Arena,
        buffer: &ElementBuffer,
        lines: Lines,
        target: &LanePosition,
        line: Index,
    ) -> Id {
        let (line, _) = lines.line(b, target, line);
        let line = line.emit(b);
        buffer.get(b, arena, line)
    }

    /// The fold of what the lane holds of its `i`th line, of which the first element is real.
    fn fold_line(
        &self,
        b: &mut FunctionBuilder<'_>,
        lines: Lines,
        lane_position: &LanePosition,
        array: &Array,
        i: Index,
        how: Unroll,
    ) -> Id {
        let placement = self.from.placement;
        let at = |b: &mut FunctionBuilder<'_>, j: Index| {
            let (row, col) = if lines.by_row { (i, j) } else { (j, i) };
            placement.index(b, row, col)
        };
        let begin = at(b, Index::Const(0));
        let first = array.get(b, begin);
        if self.same {
            return first;
        }
        if how == Unroll::Now {
            let mut sum = first;
            for j in 1..lines.along.per_group {
                let index = at(b, Index::Const(j));
                let value = array.get(b, index);
                let (_, real) = lines.element(b, lane_position, Index::Const(j));
                sum = self.fold_if(b, real, sum, value);
            }
            return sum;
        }
        let sum = b.variable(self.from.elem);
        b.effect(Op::Store, [sum, first].map(Operand::Id));
        b.repeat(lines.along.per_group - 1, how, &mut |b, j| {
            let j = b.add(j, Index::Const(1));
            let index = at(b, j);
            let value = array.get(b, index);
            let (_, real) = lines.element(b, lane_position, j);
            let before = b.ids(Op::Load, self.from.elem, &[sum]);
            let after = self.fold_if(b, real, before, value);
            b.effect(Op::Store, [sum, after].map(Operand::Id));
        });
        b.ids(Op::Load, self.from.elem, &[sum])
    }

    /// The fold of `count` places, `step` apart.
    fn fold_strided(
        &self,
        b: &mut FunctionBuilder<'_>,
        arena: &mut Arena,
        buffer: &ElementBuffer,
        begin: Index,
        count: u32,
        step: u32,
    ) -> Id {
        let first = buffer.get(b, arena, begin);
        if count <= 4 {
            let mut sum = first;
            for i in 1..count {
                let place = b.add(begin, Index::Const(i * step));
                let value = buffer.get(b, arena, place);
                sum = self.fold(b, sum, value);
            }
            return sum;
        }
        let sum = b.variable(self.from.elem);
        b.effect(Op::Store, [sum, first].map(Operand::Id));
        let how = if count <= 16 { Unroll::Ask } else { Unroll::No };
        b.repeat(count - 1, how, &mut |b, i| {
            let offset = b.mul(i, Index::Const(step));
            let offset = b.add(offset, Index::Const(step));
            let place = b.add(begin, offset);
            let value = buffer.get(b, arena, place);
            let before = b.ids(Op::Load, self.from.elem, &[sum]);
            let after = self.fold(b, before, value);
            b.effect(Op::Store, [sum, after].map(Operand::Id));
        });
        b.ids(Op::Load, self.from.elem, &[sum])
    }

    /// Every element becomes the fold of all: each lane folds what it holds; then some lanes fold a chunk of those
    /// each; then all lanes fold the chunks, in one order, so that they agree in every bit.
    fn all(self, this: &mut Lower<'_, '_>, r: InstRef) -> Result<Id, Refusal> {
        let (from, to) = (self.from, self.to);
        let (rows, cols) = (busy(from.placement.rows), busy(from.placement.cols));
        let parts = rows * cols;
        let chunk = if parts <= 8 { parts } else { (f64::from(parts)).sqrt().ceil() as u32 };
        let chunks = parts.div_ceil(chunk);
        let (zone, region) = self.take(this, r, parts)?;
        let mut f = FunctionBuilder::new(this.m, &mut this.g, &self.label("all"), to.ty, &[from.ty]);
        let b = &mut f;
        let (arena, sources) = (&mut this.arena, &mut this.lanes);
        let begin = sources.begin(b, arena, region);
        let buffer = ElementBuffer::new(b, begin, from.element());
        let lane = sources.lane(b, from.workgroup);
        let source = LanePosition::of_lane(b, from.placement, lane);
        let value = b.param(0);
        let how = unroll_much(from.placement.len());
        let array = Array::new(b, from, value, how != Unroll::Now);

        arena.barrier(b, zone);
        let below = |b: &mut FunctionBuilder<'_>, group: Index, busy: u32, split: AxisSplit| {
            (busy < split.groups).then(|| b.compare(Op::ULessThan, group, Index::Const(busy)))
        };
        let in_rows = below(b, source.row_group, rows, from.placement.rows);
        let in_cols = below(b, source.col_group, cols, from.placement.cols);
        let some = both(b, in_rows, in_cols);
        let first = source.first(b);
        let mine = both(b, some, first);
        where_(b, mine, &mut |b| {
            let sum = b.variable(from.elem);
            let first = array.get(b, Index::Const(0));
            b.effect(Op::Store, [sum, first].map(Operand::Id));
            visit(b, from.placement, how, &mut |b, i, j, at| {
                if at == Index::Const(0) {
                    return;
                }
                let value = array.get(b, at);
                let ElementPosition { real, .. } = source.place(b, i, j);
                // In a loop the first one comes by again.
                let other = match at {
                    Index::Const(_) => None,
                    at => Some(b.compare(Op::INotEqual, at, Index::Const(0))),
                };
                let counts = both(b, real, other);
                let before = b.ids(Op::Load, from.elem, &[sum]);
                let after = self.fold_if(b, counts, before, value);
                b.effect(Op::Store, [sum, after].map(Operand::Id));
            });
            let row = if from.placement.rows.groups == 1 { Index::Const(0) } else { source.row_group };
            let col = if from.placement.cols.groups == 1 { Index::Const(0) } else { source.col_group };
            let line = b.mul(row, Index::Const(cols));
            let place = b.add(line, col);
            let sum = b.ids(Op::Load, from.elem, &[sum]);
            buffer.put(b, arena, place, sum);
        });
        arena.barrier(b, zone);
        if chunks > 1 {
            // The last chunk may be shorter; it has at least one.
            let last = parts - (chunks - 1) * chunk;
            let count = from.placement.grid.lanes();
            b.repeat(chunks.div_ceil(count), Unroll::No, &mut |b, t| {
                let skipped = b.mul(t, Index::Const(count));
                let mine = b.add(lane, skipped);
                let begin = b.mul(mine, Index::Const(chunk));
                let whole = b.compare(Op::ULessThan, mine, Index::Const(chunks - u32::from(last < chunk)));
                b.when(whole, &mut |b| {
                    let total = self.fold_strided(b, arena, &buffer, begin, chunk, 1);
                    buffer.put(b, arena, begin, total);
                });
                if last < chunk {
                    let rest = b.compare(Op::IEqual, mine, Index::Const(chunks - 1));
                    b.when(rest, &mut |b| {
                        let total = self.fold_strided(b, arena, &buffer, begin, last, 1);
                        buffer.put(b, arena, begin, total);
                    });
                }
            });
            arena.barrier(b, zone);
        }
        let total = if chunks > 1 {
            self.fold_strided(b, arena, &buffer, Index::Const(0), chunks, chunk)
        } else {
            self.fold_strided(b, arena, &buffer, Index::Const(0), parts, 1)
        };
        let how = unroll_much(to.placement.len());
        let mut sink = ArrayBuilder::new(b, to, how != Unroll::Now);
        visit(b, to.placement, how, &mut |b, _, _, at| sink.set(b, at, total));
        let result = sink.finish(b);
        Ok(f.finish(Some(result)))
    }

    /// Every element becomes the fold of four neighbours.
    fn quarters(self, this: &mut Lower<'_, '_>, r: InstRef) -> Result<Id, Refusal> {
        let (from, to, label) = (self.from, self.to, self.label("2x2"));
        let transfer = StagedTransfer { label: &label, from, to, elem: from.element(), step: 2 };
        let cols = from.placement.shape.cols;
        this.pass(
            r,
            &transfer,
            &|_, value| value,
            &|row, col| (row.times(2), col.times(2)),
            &|b, arena, buffer, corner| {
                let mut sum = buffer.get(b, arena, corner);
                for offset in [1, cols, cols + 1] {
                    let place = b.add(corner, Index::Const(offset));
                    let value = buffer.get(b, arena, place);
                    sum = self.fold(b, sum, value);
                }
                sum
            },
        )
    }
}

impl Lines {
    /// The lane's `i`th line, and what holds if it exists; `None` if it always does.
    fn line(
        self,
        b: &mut FunctionBuilder<'_>,
        lane_position: &LanePosition,
        i: Index,
    ) -> (crate::matrix::affine::Affine, Option<Id>) {
        if self.by_row { lane_position.row(b, i) } else { lane_position.col(b, i) }
    }

    /// The same for the `j`th element of a line.
    fn element(
        self,
        b: &mut FunctionBuilder<'_>,
        lane_position: &LanePosition,
        j: Index,
    ) -> (crate::matrix::affine::Affine, Option<Id>) {
        if self.by_row { lane_position.col(b, j) } else { lane_position.row(b, j) }
    }
}
