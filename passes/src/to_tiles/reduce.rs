//! Lowers reductions.
//!
//! Along lines (rows or columns) that [`super::line_reduce`] does not cover, or of all elements where [`super::whole_reduce`]
//! does not: each subgroup stores some of its tiles to a staging buffer of its own, and its invocations fold their shares of
//! the lines. These *partial* results go to words of the scope's zone. Then the partial results of each line are folded into a
//! vector with an element for each line, packed in the layout of tiles. A load with stride 0 broadcasts the vector to the rows
//! (or columns) of a tile, whatever the extent of the result is in the other direction.
//!
//! Of all elements: the partial results of rows are folded in chunks, and every invocation that writes the vector folds the
//! chunks. The vector has as many equal elements as a tile is wide; the rows of the tile are loaded from it.
//!
//! There is no neutral element: only elements of the matrix are folded. Every fold begins with the first element and
//! proceeds in order.

use super::exchange::{Change, Conversion};
use super::inst::Slot;
use super::line_reduce::Fold;
use super::shape::Mat;
use super::staging::{Layout, StagingBuffer};
use super::tensor::{Batches, Key};
use super::{TileIds, Tiles};
use crate::matrix::arena::{Arena, Elem, QUAD, Region, Zone, words_of};
use crate::matrix::bits::{gather, part, small_type};
use crate::{Refusal, malformed};
use coop_ir::builder::{FunctionBuilder, Index, Unroll};
use coop_ir::spv::CooperativeMatrixReduce;
use coop_ir::types::Scalar;
use coop_ir::{Id, Inst, InstRef, Op, Operand};

/// Bits of Cooperative Matrix Reduce.
const ROW: u32 = CooperativeMatrixReduce::Row.0;
const COLUMN: u32 = CooperativeMatrixReduce::Column.0;
pub(super) const ALL: u32 = ROW | COLUMN;
const QUARTERS: u32 = CooperativeMatrixReduce::_2x2.0;

const WORD: Scalar = Scalar::Int { width: 32, signed: false };

/// Elements that are written one by one: each has a word of its own, or more.
#[derive(Clone, Copy)]
struct ElementBuffer {
    region: Region,
    elem: Elem,
}

impl ElementBuffer {
    fn words(elem: Elem) -> u32 {
        elem.scalar.width().div_ceil(32)
    }

    fn word(&self, b: &mut FunctionBuilder<'_>, arena: &mut Arena, subgroup: Index, place: Index) -> Index {
        let begin = arena.begin(b, self.region, Some(subgroup));
        let begin = b.mul(begin, Index::Const(4));
        let offset = b.mul(place, Index::Const(Self::words(self.elem)));
        b.add(begin, offset)
    }

    fn put(&self, b: &mut FunctionBuilder<'_>, arena: &mut Arena, subgroup: Index, place: Index, value: Id) {
        let first = self.word(b, arena, subgroup, place);
        let count = (32 / self.elem.scalar.width()).max(1);
        let null = b.globals.null(b.module, self.elem.ty);
        let mut elements = vec![null; count as usize];
        elements[0] = value;
        for (i, word) in (0..).zip(words_of(b, self.elem, &elements)) {
            let at = b.add(first, Index::Const(i));
            arena.store_word(b, at, word);
        }
    }

    fn get(&self, b: &mut FunctionBuilder<'_>, arena: &mut Arena, subgroup: Index, place: Index) -> Id {
        let first = self.word(b, arena, subgroup, place);
        let word_type = b.u32_type();
        let mut words = Vec::new();
        for i in 0..Self::words(self.elem) {
            let at = b.add(first, Index::Const(i));
            words.push(arena.load_word(b, at));
        }
        let Elem { scalar, ty } = self.elem;
        if scalar.width() < 32 {
            part(b, scalar, ty, words[0], 32, Index::Const(0))
        } else {
            gather(b, WORD, word_type, &words, ty)
        }
    }
}

/// A reduction along lines, or of all elements.
#[derive(Clone, Copy)]
struct Plan {
    from: Mat,
    to: Mat,
    /// True if lines are rows (else columns).
    by_row: bool,
    all: bool,
    combine: Id,
    /// The staging buffer of a subgroup.
    staging: StagingBuffer,
    /// Partial folds of a line.
    parts: u32,
    partial: ElementBuffer,
    /// Folds of chunks, where all elements are folded.
    chunks: ElementBuffer,
    chunk: u32,
    vector: StagingBuffer,
}

impl Plan {
    /// Lines of the matrix.
    fn lines(&self) -> u32 {
        if self.by_row { self.from.shape.rows } else { self.from.shape.cols }
    }

    /// Elements of a line.
    fn length(&self) -> u32 {
        if self.by_row { self.from.shape.cols } else { self.from.shape.rows }
    }

    fn key(&self, step: u32) -> Key {
        Key {
            op: Op::CooperativeMatrixReduceNV,
            staging_buffers: vec![self.staging, self.vector],
            types: vec![self.from.ty, self.to.ty],
            extra: [step, u32::from(self.by_row), u32::from(self.all), self.partial.region.at, self.chunks.region.at]
                .into_iter()
                .map(Operand::Word)
                .chain([Operand::Id(self.combine)])
                .collect(),
        }
    }

    fn fold(&self, b: &mut FunctionBuilder<'_>, x: Id, y: Id) -> Id {
        b.ids(Op::FunctionCall, self.from.elem.ty, &[self.combine, x, y])
    }

    /// The fold of `count` elements that `get` gives; `count` is at least 1.
    fn fold_all(
        &self,
        b: &mut FunctionBuilder<'_>,
        count: Index,
        get: &mut dyn FnMut(&mut FunctionBuilder<'_>, Index) -> Id,
    ) -> Id {
        let first = get(b, Index::Const(0));
        if count == Index::Const(1) {
            return first;
        }
        let sum = b.variable(self.from.elem.ty);
        b.effect(Op::Store, [sum, first].map(Operand::Id));
        b.count(Index::Const(1), count, Index::Const(1), Unroll::Never, &mut |b, i| {
            let value = get(b, i);
            let before = b.ids(Op::Load, self.from.elem.ty, &[sum]);
            let after = self.fold(b, before, value);
            b.effect(Op::Store, [sum, after].map(Operand::Id));
        });
        b.ids(Op::Load, self.from.elem.ty, &[sum])
    }
}

impl Tiles<'_, '_> {
    pub(super) fn reduce(&mut self, b: &mut FunctionBuilder<'_>, r: InstRef, inst: &Inst) -> Result<(), Refusal> {
        let to = inst.ty.and_then(|t| self.analysis.mats.get(&t)).copied();
        let (Some(to), Some(value), Some(combine)) = (to, inst.id(0), inst.id(2)) else {
            return malformed(r, "a reduction of no matrix");
        };
        let mask = inst.word(1).unwrap_or(0);
        let (from, parts) = self.tiles_of(b.module, r, value)?;
        let ((rows, cols), (to_rows, to_cols)) = ((from.shape.rows, from.shape.cols), (to.shape.rows, to.shape.cols));
        let fits = match mask {
            ROW => rows == to_rows,
            COLUMN => cols == to_cols,
            ALL => true,
            QUARTERS => rows == 2 * to_rows && cols == 2 * to_cols,
            _ => false,
        };
        let takes = super::per_element::signature(b.module, combine)
            .is_some_and(|(ret, params)| ret == from.elem.ty && params == vec![from.elem.ty; 2]);
        if !fits || from.elem != to.elem || from.workgroup != to.workgroup || !takes {
            return malformed(r, "the operands don't fit the reduction");
        }
        let mut slot = Slot::new(r);
        let fold = Fold { from, to, by_row: mask == ROW, function: combine };
        let result = if mask == QUARTERS {
            let how = Conversion { from, to, transposed: false, change: Change::Fold(combine) };
            self.exchange(b, r, &mut slot, how, parts)?
        } else {
            let in_registers = match mask {
                ALL => self.fold_whole(b, r, &mut slot, &fold, &parts),
                _ => self.fold_lines(b, r, &mut slot, &fold, (value, &parts)),
            };
            match in_registers {
                Some(result) => result,
                None => self.reduce_lines(b, r, &mut slot, (from, to), (mask, combine), &parts)?,
            }
        };
        self.define(inst, to, result);
        Ok(())
    }

    fn reduce_lines(
        &mut self,
        b: &mut FunctionBuilder<'_>,
        r: InstRef,
        slot: &mut Slot,
        (from, to): (Mat, Mat),
        (mask, combine): (u32, Id),
        parts: &TileIds,
    ) -> Result<TileIds, Refusal> {
        let mark = self.arena.mark();
        let (plan, batches) = self.plan_reduction(b, r, (from, to), (mask, combine))?;
        let zone = Zone::of_scope(from.workgroup);
        let subgroup = self.subgroup(b);
        let begin = plan.staging.begin(b, &mut self.arena, subgroup);
        let owner = self.owner(b, from);
        let void = b.globals.void(b.module);
        let lines = self.partial_folds(b, &plan);
        for (n, batch) in batches.of(from).into_iter().enumerate() {
            self.enter(b, from, n == 0);
            self.put_batch(b, (plan.staging, begin), from, batch, parts);
            self.arena.barrier(b, Zone::Subgroup);
            let (row, col) = self.origin(b, from, batch);
            let (row, col) = (b.index(row), b.index(col));
            let mut fold = |b: &mut FunctionBuilder<'_>| {
                b.ids(Op::FunctionCall, void, &[lines, row, col]);
            };
            match owner {
                Some(owner) => b.when(owner, &mut fold),
                None => fold(b),
            }
        }
        self.arena.barrier(b, zone);
        if plan.all {
            let chunks = self.chunk_folds(b, &plan);
            b.ids(Op::FunctionCall, void, &[chunks]);
            self.arena.barrier(b, zone);
        }
        let totals = self.totals(b, &plan);
        b.ids(Op::FunctionCall, void, &[totals]);
        self.arena.barrier(b, zone);
        let result = self.broadcast_vector(b, slot, &plan, subgroup);
        self.arena.release(mark);
        Ok(result)
    }

    fn plan_reduction(
        &mut self,
        b: &FunctionBuilder<'_>,
        r: InstRef,
        (from, to): (Mat, Mat),
        (mask, combine): (u32, Id),
    ) -> Result<(Plan, Batches), Refusal> {
        let zone = Zone::of_scope(from.workgroup);
        let by_row = mask & ROW != 0;
        let all = mask == ALL;
        let elem = from.elem;
        let word_bytes = ElementBuffer::words(elem) * 4;
        let (lines, length) =
            if by_row { (from.shape.rows, from.shape.cols) } else { (from.shape.cols, from.shape.rows) };
        // The least that a batch covers is a tile; more parts than that there are not.
        let tile = if by_row { from.tile_cols } else { from.tile_rows };
        let most_parts = length.div_ceil(tile);
        let what = b.module.inst(r).op.to_string();
        let take = |this: &mut Self, bytes: u32| this.arena.take(r, &what, zone, bytes);
        let partial =
            ElementBuffer { region: take(self, lines.saturating_mul(most_parts).saturating_mul(word_bytes))?, elem };
        let (vector_length, vector_piece) = match (all, by_row) {
            (true, _) => (to.tile_cols, to.tile_cols),
            (false, true) => (to.shape.rows.next_multiple_of(to.tile_rows), to.tile_rows),
            (false, false) => (to.shape.cols.next_multiple_of(to.tile_cols), to.tile_cols),
        };
        let layout = Layout::new(elem, (1, vector_length), (1, vector_piece), false, 0);
        let vector = StagingBuffer { layout, region: take(self, layout.quads() * QUAD)?, each: 0 };
        let total = lines * most_parts;
        let chunk = (f64::from(total).sqrt().ceil() as u32).max(1);
        let chunks =
            ElementBuffer { region: take(self, if all { total.div_ceil(chunk) * word_bytes } else { 0 })?, elem };
        let batches = self.batches(b, r, from, !by_row, 1)?;
        let covered = if by_row { batches.cols * from.tile_cols } else { batches.rows * from.tile_rows };
        let parts = length.div_ceil(covered);
        let plan = Plan {
            from,
            to,
            by_row,
            all,
            combine,
            staging: batches.staging,
            parts,
            partial,
            chunks,
            chunk: (f64::from(lines * parts).sqrt().ceil() as u32).max(1),
            vector,
        };
        Ok((plan, batches))
    }

    /// A function of the reduction, made when first needed.
    fn reduction_function(
        &mut self,
        b: &mut FunctionBuilder<'_>,
        key: Key,
        label: &str,
        params: usize,
        body: &mut dyn FnMut(&mut Self, &mut FunctionBuilder<'_>),
    ) -> Id {
        if let Some(function) = self.functions.get(&key) {
            return *function;
        }
        let (void, word) = (b.globals.void(b.module), b.u32_type());
        let mut f = FunctionBuilder::new(b.module, b.globals, label, void, &vec![word; params]);
        body(self, &mut f);
        let function = f.finish(None);
        self.functions.insert(key, function);
        function
    }

    /// The function that folds what a subgroup's staging buffer has of each line, from a row and a column on.
    fn partial_folds(&mut self, b: &mut FunctionBuilder<'_>, plan: &Plan) -> Id {
        let label = format!("coop_fold_{}", plan.from.label());
        self.reduction_function(b, plan.key(0), &label, 2, &mut |this, f| {
            small_type(f.module, plan.from.elem.scalar);
            let (row0, col0) = (Index::Value(f.param(0)), Index::Value(f.param(1)));
            let (line0, at0) = if plan.by_row { (row0, col0) } else { (col0, row0) };
            let subgroup = this.subgroup(f);
            let (arena, begin, lane, count) = this.lanes_of(f, plan.staging);
            let layout = plan.staging.layout;
            let some = f.compare(Op::ULessThan, at0, Index::Const(plan.length()));
            f.when(some, &mut |f| {
                // Not beyond the end of the line.
                let left = f.u32_op(Op::ISub, Index::Const(plan.length()), at0);
                let whole = f.compare(Op::UGreaterThanEqual, left, Index::Const(layout.length));
                let length = f.select(whole, Index::Const(layout.length), left);
                let part = f.div(at0, layout.length);
                f.count(lane, Index::Const(layout.lines), Index::Const(count), Unroll::Never, &mut |f, line| {
                    let at = f.add(line0, line);
                    let real = f.compare(Op::ULessThan, at, Index::Const(plan.lines()));
                    f.when(real, &mut |f| {
                        let sum = plan.fold_all(f, length, &mut |f, i| {
                            let byte = plan.staging.byte(f, begin, line, i);
                            arena.load_element(f, plan.from.elem, byte)
                        });
                        let place = f.mul(at, Index::Const(plan.parts));
                        let place = f.add(place, part);
                        plan.partial.put(f, arena, subgroup, place, sum);
                    });
                });
            });
        })
    }

    /// The function that folds chunks of the partial folds.
    fn chunk_folds(&mut self, b: &mut FunctionBuilder<'_>, plan: &Plan) -> Id {
        let label = format!("coop_fold_chunks_{}", plan.from.label());
        self.reduction_function(b, plan.key(1), &label, 0, &mut |this, f| {
            small_type(f.module, plan.from.elem.scalar);
            let subgroup = this.subgroup(f);
            let (arena, _, lane, count) = this.lanes_of(f, plan.vector);
            let total = plan.lines() * plan.parts;
            let chunks = total.div_ceil(plan.chunk);
            f.count(lane, Index::Const(chunks), Index::Const(count), Unroll::Never, &mut |f, chunk| {
                let first = f.mul(chunk, Index::Const(plan.chunk));
                let left = f.u32_op(Op::ISub, Index::Const(total), first);
                let whole = f.compare(Op::UGreaterThanEqual, left, Index::Const(plan.chunk));
                let length = f.select(whole, Index::Const(plan.chunk), left);
                let sum = plan.fold_all(f, length, &mut |f, i| {
                    let place = f.add(first, i);
                    plan.partial.get(f, arena, subgroup, place)
                });
                plan.chunks.put(f, arena, subgroup, chunk, sum);
            });
        })
    }

    /// The function that writes the vector of folds.
    fn totals(&mut self, b: &mut FunctionBuilder<'_>, plan: &Plan) -> Id {
        let label = format!("coop_fold_totals_{}", plan.from.label());
        self.reduction_function(b, plan.key(2), &label, 0, &mut |this, f| {
            small_type(f.module, plan.from.elem.scalar);
            let subgroup = this.subgroup(f);
            let (arena, begin, lane, count) = this.lanes_of(f, plan.vector);
            let ty = plan.from.elem.ty;
            let null = f.globals.null(f.module, ty);
            plan.vector.for_each_unit(f, begin, (lane, count), &mut |f, _, at, word| {
                let unit = plan.vector.layout.unit();
                let values = if plan.all {
                    let chunks = (plan.lines() * plan.parts).div_ceil(plan.chunk);
                    let sum =
                        plan.fold_all(f, Index::Const(chunks), &mut |f, i| plan.chunks.get(f, arena, subgroup, i));
                    vec![sum; unit as usize]
                } else {
                    let mut values = Vec::new();
                    for n in 0..unit {
                        let line = f.add(at, Index::Const(n));
                        let mut fold = |f: &mut FunctionBuilder<'_>| {
                            let first = f.mul(line, Index::Const(plan.parts));
                            vec![plan.fold_all(f, Index::Const(plan.parts), &mut |f, i| {
                                let place = f.add(first, i);
                                plan.partial.get(f, arena, subgroup, place)
                            })]
                        };
                        values.push(if plan.vector.layout.length == plan.lines() {
                            fold(f)[0]
                        } else {
                            let real = f.compare(Op::ULessThan, line, Index::Const(plan.lines()));
                            f.choose(real, &[ty], &mut fold, &mut |_| vec![null])[0]
                        });
                    }
                    values
                };
                plan.vector.store_unit(f, arena, word, &values);
            });
        })
    }

    /// The tiles whose rows (or columns) are all like the vector.
    fn broadcast_vector(
        &mut self,
        b: &mut FunctionBuilder<'_>,
        slot: &mut Slot,
        plan: &Plan,
        subgroup: Index,
    ) -> TileIds {
        let to = plan.to;
        let begin = plan.vector.begin(b, &mut self.arena, subgroup);
        if plan.all {
            // One value, which every invocation reads at one place: whoever looks at an element of it goes the same way.
            small_type(b.module, to.elem.scalar);
            let byte = plan.vector.byte(b, begin, Index::Const(0), Index::Const(0));
            let value = self.arena.load_element(b, to.elem, byte);
            let tile = slot.op(b, Op::CompositeConstruct, to.tile, [value.into()]);
            return vec![tile; to.tiles() as usize];
        }
        // The vector lies down each column when it has an element for each row.
        let down = plan.by_row;
        let tile_positions = self.tile_positions(b, to);
        let mut loaded: Vec<(u32, Id)> = Vec::new();
        let mut result = vec![to.tile; to.tiles() as usize];
        for position in tile_positions {
            let (i, j) = (position.index as u32 / to.cols(), position.index as u32 % to.cols());
            let (which, at) = if plan.by_row { (i, position.row.clone()) } else { (j, position.col.clone()) };
            if let Some((_, tile)) = loaded.iter().find(|(w, _)| *w == which) {
                result[position.index] = *tile;
                continue;
            }
            let operands = plan.vector.broadcast_operands(b, &mut self.arena, begin, (0, &at), down);
            let tile = slot.op(b, Op::CooperativeMatrixLoadKHR, to.tile, operands);
            loaded.push((which, tile));
            result[position.index] = tile;
        }
        result
    }
}
