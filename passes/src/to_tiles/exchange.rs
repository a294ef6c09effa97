//! Lowers operations that move elements between tiles: conversions of use, transposition, folding of 2x2 blocks.
//!
//! Where positions are known to be the same ([`super::known_positions`]), invocations copy what they hold. Otherwise:
//!
//! A staging buffer holds rows of the source in row-major or column-major order. Every subgroup stores its tiles to it and
//! loads the tiles of the result from it, in the other order for a transposition. Where elements are converted too, or where
//! the padding of the result must be zero, invocations fill a second staging buffer from the first. If the matrix does not
//! fit, it is processed in slices of rows, and every invocation of the scope takes part in every slice.

use super::inst::Slot;
use super::known_positions::copy;
use super::memory::both;
use super::native::TRANSPOSE;
use super::shape::{self, Mat};
use super::staging::{Layout, StagingBuffer};
use super::tensor::{Batch, Key};
use super::{TileIds, Tiles, tile_type};
use crate::decorations::Decorated;
use crate::matrix::affine::Affine;
use crate::matrix::arena::{Arena, QUAD, Zone};
use crate::matrix::elementwise::apply;
use crate::matrix::placement::Use;
use crate::{Refusal, malformed};
use coop_ir::builder::{FunctionBuilder, Index};
use coop_ir::rewrite::remove_globals;
use coop_ir::spv::Capability;
use coop_ir::{Id, Inst, InstRef, Module, Op, Operand};

/// The change of the elements.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Change {
    /// Nothing.
    None,
    /// A conversion, with its decorations.
    Convert(Op, Vec<Decorated>),
    /// Blocks of 2x2 are folded by a function.
    Fold(Id),
}

/// A conversion of a matrix to another one.
#[derive(Clone, Debug)]
pub(super) struct Conversion {
    pub(super) from: Mat,
    pub(super) to: Mat,
    pub(super) transposed: bool,
    pub(super) change: Change,
}

impl Conversion {
    /// Rows of the source for each row of the second staging buffer.
    fn ratio(&self) -> u32 {
        if matches!(self.change, Change::Fold(_)) { 2 } else { 1 }
    }

    /// Returns true if the padding of the result has to be made zero.
    pub(super) fn clears(&self) -> bool {
        self.to.shape.use_ != Use::Accumulator && self.to.has_partial_tiles()
    }
}

/// The staging buffers of an exchange.
struct Plan {
    first: StagingBuffer,
    second: Option<StagingBuffer>,
    /// Rows of the source in a slice, and how many slices there are.
    lines: u32,
    count: u32,
}

impl Tiles<'_, '_> {
    /// `OpCooperativeMatrixConvertNV`, `OpCooperativeMatrixTransposeNV`, and conversions of components that are more.
    pub(super) fn convert(&mut self, b: &mut FunctionBuilder<'_>, r: InstRef, inst: &Inst) -> Result<(), Refusal> {
        let to = inst.ty.and_then(|t| self.analysis.mats.get(&t)).copied();
        let (Some(to), Some(value)) = (to, inst.id(0)) else { return malformed(r, "a conversion of no matrix") };
        let (from, parts) = self.tiles_of(b.module, r, value)?;
        let transposed =
            inst.op == Op::CooperativeMatrixTransposeNV || inst.result.is_some_and(|id| self.transposed(b.module, id));
        let shape = if transposed { (from.shape.cols, from.shape.rows) } else { (from.shape.rows, from.shape.cols) };
        if shape != (to.shape.rows, to.shape.cols) || from.workgroup != to.workgroup {
            return malformed(r, format!("{} changes the shape or the scope of a matrix", inst.op));
        }
        let decorations = inst.result.and_then(|id| self.analysis.decorated.get(&id)).cloned().unwrap_or_default();
        let change = match inst.op {
            Op::CooperativeMatrixConvertNV | Op::CooperativeMatrixTransposeNV if from.elem == to.elem => Change::None,
            Op::CooperativeMatrixConvertNV | Op::CooperativeMatrixTransposeNV => {
                Change::Convert(Op::Bitcast, decorations)
            }
            op => Change::Convert(op, decorations),
        };
        forget_transpose(b, inst.result);
        let how = Conversion { from, to, transposed, change };
        let mut slot = Slot::new(r);
        let result = self.exchange(b, r, &mut slot, how, parts)?;
        self.define(inst, to, result);
        Ok(())
    }

    /// Returns true if a conversion transposes.
    pub(super) fn transposed(&self, m: &Module, result: Id) -> bool {
        m.has_capability(Capability::CooperativeMatrixConversionsEXT)
            && m.globals_with(Op::Decorate).any(|r| {
                let i = m.inst(r);
                i.id(0) == Some(result) && i.word(1) == Some(TRANSPOSE)
            })
    }

    /// A tile like those of `from` with the components of `to`, if the device has it.
    fn device_tile(&mut self, b: &mut FunctionBuilder<'_>, from: Mat, to: Mat) -> Option<Id> {
        let profile = self.cx.options.profile?;
        if !shape::has_tile(profile, to.elem.scalar, from.tile_use, (from.tile_rows, from.tile_cols)) {
            return None;
        }
        let use_ = from.tile_use as u32;
        let key = (to.elem.ty, from.tile_rows, from.tile_cols, use_);
        Some(tile_type(b.module, b.globals, &mut self.tile_types, key))
    }

    /// Converts a matrix to the positions and the type of another one.
    pub(super) fn exchange(
        &mut self,
        b: &mut FunctionBuilder<'_>,
        r: InstRef,
        slot: &mut Slot,
        mut how: Conversion,
        mut parts: TileIds,
    ) -> Result<TileIds, Refusal> {
        if let Change::Convert(op, decorations) = &how.change
            && let Some(tile) = self.device_tile(b, how.from, how.to)
        {
            // The device converts tiles in place; only the converted elements then move.
            for part in &mut parts {
                *part = apply(b, *op, tile, &[*part], decorations);
            }
            how.from.elem = how.to.elem;
            how.from.tile = tile;
            how.change = Change::None;
        }
        if let Some(result) = self.native_convert(b, slot, &how, &parts) {
            return Ok(result);
        }
        if self.stays_in_registers(&how) {
            let copied: TileIds = parts.iter().map(|tile| copy(b, how.from, how.to, *tile)).collect();
            let tile = how.to.tile;
            return Ok(copied.into_iter().map(|part| slot.op(b, Op::CopyObject, tile, [part.into()])).collect());
        }
        if let Some(result) = self.exchange_alone(b, r, slot, &how, &parts) {
            return Ok(result);
        }
        self.exchange_from_owners(b, r, slot, &how, &parts)
    }

    /// Converts a matrix, of which the subgroup that owns a tile alone may hold what counts, through staging buffers of
    /// the scope.
    pub(super) fn exchange_from_owners(
        &mut self,
        b: &mut FunctionBuilder<'_>,
        r: InstRef,
        slot: &mut Slot,
        how: &Conversion,
        parts: &TileIds,
    ) -> Result<TileIds, Refusal> {
        let (from, to) = (how.from, how.to);
        let zone = Zone::of_scope(from.workgroup);
        let mark = self.arena.mark();
        let plan = self.plan(b, r, how)?;
        let subgroup = self.subgroup(b);
        let begin = plan.first.begin(b, &mut self.arena, subgroup);
        let last = plan.second.unwrap_or(plan.first);
        let last_begin = last.begin(b, &mut self.arena, subgroup);
        let owner = self.owner(b, from);
        let from_spots = self.tile_positions(b, from);
        let to_spots = self.tile_positions(b, to);
        // Tiles of different subgroups come in different slices: variables hold what has come.
        let sliced: Option<Vec<Id>> = (plan.count > 1).then(|| (0..to.tiles()).map(|_| b.variable(to.tile)).collect());
        let mut result = vec![to.tile; to.tiles() as usize];
        for s in 0..plan.count {
            let row = s * plan.lines;
            self.arena.barrier(b, zone);
            for position in &from_spots {
                let (line, inside) = in_slice(b, &position.row, row, plan.lines, plan.count);
                let Some(line) = line else { continue };
                let real = both(b, owner, position.inside);
                let condition = both(b, inside, real);
                let tile = parts[position.index];
                let arena = &mut self.arena;
                let mut put =
                    |b: &mut FunctionBuilder<'_>| plan.first.put(b, arena, begin, tile, (&line, &position.col));
                match condition {
                    Some(condition) => b.when(condition, &mut put),
                    None => put(b),
                }
            }
            self.arena.barrier(b, zone);
            if let Some(second) = plan.second {
                let function = self.change(b, how, plan.first, second);
                let (void, row) = (b.globals.void(b.module), b.u32(row / how.ratio()));
                b.ids(Op::FunctionCall, void, &[function, row]);
                self.arena.barrier(b, zone);
            }
            let (row, lines) = (row / how.ratio(), plan.lines / how.ratio());
            for position in &to_spots {
                let along = if how.transposed { &position.col } else { &position.row };
                let (line, inside) = in_slice(b, along, row, lines, plan.count);
                let Some(line) = line else { continue };
                let mut staging = last;
                staging.layout.down = how.transposed;
                let place = if how.transposed { (&position.row, &line) } else { (&line, &position.col) };
                let arena = &mut self.arena;
                match (&sliced, inside) {
                    (Some(variables), condition) => {
                        let variable = variables[position.index];
                        let mut get = |b: &mut FunctionBuilder<'_>| {
                            let operands = staging.load_operands(b, arena, last_begin, place);
                            let tile = b.op(Op::CooperativeMatrixLoadKHR, to.tile, operands);
                            b.effect(Op::Store, [variable, tile].map(Operand::Id));
                        };
                        match condition {
                            Some(condition) => b.when(condition, &mut get),
                            None => get(b),
                        }
                    }
                    (None, _) => {
                        let operands = staging.load_operands(b, arena, last_begin, place);
                        result[position.index] = slot.op(b, Op::CooperativeMatrixLoadKHR, to.tile, operands);
                    }
                }
            }
        }
        if let Some(variables) = sliced {
            for (part, variable) in result.iter_mut().zip(variables) {
                *part = slot.op(b, Op::Load, to.tile, [variable.into()]);
            }
        }
        self.arena.release(mark);
        Ok(result)
    }

    /// Converts a matrix of which each of several subgroups holds the same rows and columns before and after, through a
    /// staging buffer for each subgroup.
    fn exchange_alone(
        &mut self,
        b: &mut FunctionBuilder<'_>,
        r: InstRef,
        slot: &mut Slot,
        how: &Conversion,
        parts: &TileIds,
    ) -> Option<TileIds> {
        let (from, to) = (how.from, how.to);
        let held = |m: &Mat| (m.groups(), m.rows() * m.tile_rows, m.cols() * m.tile_cols);
        let plain = how.change == Change::None && !how.transposed && !how.clears();
        if !plain || !from.workgroup || held(&from) != held(&to) {
            return None;
        }
        let (_, rows, cols) = held(&from);
        let layout = Layout::new(from.elem, (rows, cols), (1, from.tile_cols.min(to.tile_cols)), false, 1);
        let bytes = layout.quads().checked_mul(QUAD).filter(|bytes| *bytes <= self.arena.room(Zone::Subgroup))?;
        let mark = self.arena.mark();
        let what = b.module.inst(r).op.to_string();
        let region = self.arena.take(r, &what, Zone::Subgroup, bytes).ok()?;
        let staging = StagingBuffer { layout, region, each: 0 };
        let subgroup = self.subgroup(b);
        let begin = staging.begin(b, &mut self.arena, subgroup);
        let whole = |m: Mat| Batch { row: 0, col: 0, rows: m.rows(), cols: m.cols() };
        self.arena.barrier(b, Zone::Subgroup);
        self.put_batch(b, (staging, begin), from, whole(from), parts);
        self.arena.barrier(b, Zone::Subgroup);
        let mut result = vec![to.tile; to.tiles() as usize];
        self.get_batch(b, slot, (staging, begin), to, whole(to), &mut result);
        self.arena.release(mark);
        Some(result)
    }

    fn plan(&mut self, b: &FunctionBuilder<'_>, r: InstRef, how: &Conversion) -> Result<Plan, Refusal> {
        let (from, to) = (how.from, how.to);
        let zone = Zone::of_scope(from.workgroup);
        let ratio = how.ratio();
        // Rows and columns of the result's tiles as the source counts them.
        let (to_rows, to_cols) =
            if how.transposed { (to.tile_cols, to.tile_rows) } else { (to.tile_rows, to.tile_cols) };
        let row_step = common(from.tile_rows, to_rows * ratio);
        let col_step = common(from.tile_cols, to_cols * ratio);
        let rows = from.shape.rows.next_multiple_of(row_step);
        let cols = from.shape.cols.next_multiple_of(col_step);
        let two = how.change != Change::None || how.clears();
        let piece = from.tile_cols.min(if two { from.tile_cols } else { to_cols });
        let layouts = |lines: u32| {
            let first = Layout::new(from.elem, (lines, cols), (1, piece), false, 0);
            let second = two.then(|| Layout::new(to.elem, (lines / ratio, cols / ratio), (1, to_cols), false, 0));
            (first, second)
        };
        let quads = |lines: u32| {
            let (first, second) = layouts(lines);
            first.quads().saturating_add(second.map_or(0, |s| s.quads()))
        };
        let room = self.arena.room(zone) / QUAD;
        let steps = rows / row_step;
        let fit = (1..=steps).rev().find(|n| quads(n * row_step) <= room).unwrap_or(1);
        let count = steps.div_ceil(fit);
        let lines = steps.div_ceil(count) * row_step;
        let (first, second) = layouts(lines);
        let what = b.module.inst(r).op.to_string();
        let mut take = |layout: Layout| -> Result<StagingBuffer, Refusal> {
            let region = self.arena.take(r, &what, zone, layout.quads().saturating_mul(QUAD))?;
            Ok(StagingBuffer { layout, region, each: 0 })
        };
        let first = take(first)?;
        let second = second.map(take).transpose()?;
        Ok(Plan { first, second, lines, count })
    }

    /// The function that makes the second staging buffer of the first; its parameter is the first row of the second.
    fn change(
        &mut self,
        b: &mut FunctionBuilder<'_>,
        how: &Conversion,
        first: StagingBuffer,
        second: StagingBuffer,
    ) -> Id {
        let (op, mut extra) = match &how.change {
            Change::None => (Op::CopyObject, Vec::new()),
            Change::Convert(op, decorations) => {
                let words = decorations.iter().flat_map(|(d, more)| [d.0].into_iter().chain(more.iter().copied()));
                (*op, words.map(Operand::Word).collect())
            }
            Change::Fold(function) => (Op::CooperativeMatrixReduceNV, vec![Operand::Id(*function)]),
        };
        let shape = how.to.shape;
        extra.extend([shape.rows, shape.cols, u32::from(how.transposed)].map(Operand::Word));
        let key = Key { op, staging_buffers: vec![first, second], types: Vec::new(), extra };
        if let Some(function) = self.functions.get(&key) {
            return *function;
        }
        let (rows, cols) = if how.transposed { (shape.cols, shape.rows) } else { (shape.rows, shape.cols) };
        let (void, word) = (b.globals.void(b.module), b.u32_type());
        let label = format!("coop_change_{}", how.to.label());
        let mut f = FunctionBuilder::new(b.module, b.globals, &label, void, &[word]);
        let row0 = Index::Value(f.param(0));
        let (_, first_begin, ..) = self.lanes_of(&mut f, first);
        let (arena, begin, lane, count) = self.lanes_of(&mut f, second);
        let source = Source { how, staging: first, begin: first_begin };
        let to = how.to.elem;
        let zero = f.globals.null(f.module, to.ty);
        let padded = !rows.is_multiple_of(second.layout.lines) || second.layout.length != cols;
        let unit = second.layout.unit();
        second.for_each_unit(&mut f, begin, (lane, count), &mut |f, line, at, word| {
            let row = f.add(row0, line);
            let values: Vec<Id> = (0..unit)
                .map(|n| {
                    let at = f.add(at, Index::Const(n));
                    if !padded {
                        return source.element(f, arena, line, at);
                    }
                    let in_rows = f.compare(Op::ULessThan, row, Index::Const(rows));
                    let in_cols = f.compare(Op::ULessThan, at, Index::Const(cols));
                    let ty = f.globals.bool(f.module);
                    let inside = f.ids(Op::LogicalAnd, ty, &[in_rows, in_cols]);
                    let mut get = |f: &mut FunctionBuilder<'_>| vec![source.element(f, arena, line, at)];
                    f.choose(inside, &[to.ty], &mut get, &mut |_| vec![zero])[0]
                })
                .collect();
            second.store_unit(f, arena, word, &values);
        });
        let function = f.finish(None);
        self.functions.insert(key, function);
        function
    }
}

/// The source of the elements of a second staging buffer.
struct Source<'a> {
    how: &'a Conversion,
    staging: StagingBuffer,
    begin: Index,
}

impl Source<'_> {
    fn read(&self, f: &mut FunctionBuilder<'_>, arena: &mut Arena, line: Index, at: Index) -> Id {
        let byte = self.staging.byte(f, self.begin, line, at);
        arena.load_element(f, self.staging.layout.elem, byte)
    }

    /// The element of the second staging buffer.
    fn element(&self, f: &mut FunctionBuilder<'_>, arena: &mut Arena, line: Index, at: Index) -> Id {
        match &self.how.change {
            Change::None => self.read(f, arena, line, at),
            Change::Convert(op, decorations) => {
                let value = self.read(f, arena, line, at);
                apply(f, *op, self.how.to.elem.ty, &[value], decorations)
            }
            Change::Fold(function) => {
                let (line, at) = (f.mul(line, Index::Const(2)), f.mul(at, Index::Const(2)));
                let mut sum = self.read(f, arena, line, at);
                for (i, j) in [(0, 1), (1, 0), (1, 1)] {
                    let (line, at) = (f.add(line, Index::Const(i)), f.add(at, Index::Const(j)));
                    let value = self.read(f, arena, line, at);
                    sum = f.ids(Op::FunctionCall, self.how.to.elem.ty, &[*function, sum, value]);
                }
                sum
            }
        }
    }
}

/// The least extent that both divide.
fn common(a: u32, b: u32) -> u32 {
    let step = a.max(b);
    (1..).map(|n| n * step).find(|n| n.is_multiple_of(a) && n.is_multiple_of(b)).unwrap_or(step)
}

/// A row in the slice of `lines` rows from `first` on: `None` if it is known not to be there, else its place in the
/// slice and the condition that it is in the slice, if that is not known.
fn in_slice(
    b: &mut FunctionBuilder<'_>,
    row: &Affine,
    first: u32,
    lines: u32,
    count: u32,
) -> (Option<Affine>, Option<Id>) {
    if count == 1 {
        return (Some(row.clone()), None);
    }
    if let Some(known) = row.known() {
        let inside = (first..first + lines).contains(&known);
        return (inside.then(|| Affine::constant(known - first)), None);
    }
    let line = row.clone().plus(&Affine::constant(first.wrapping_neg()));
    let at = line.emit(b);
    // What is before the slice wraps around.
    let inside = b.compare(Op::ULessThan, at, Index::Const(lines));
    (Some(line), Some(inside))
}

/// Takes that decoration off an id.
fn forget_transpose(b: &mut FunctionBuilder<'_>, id: Option<Id>) {
    remove_globals(b.module, |m, r| {
        let i = m.inst(r);
        i.op == Op::Decorate && i.id(0) == id && i.word(1) == Some(TRANSPOSE)
    });
}
