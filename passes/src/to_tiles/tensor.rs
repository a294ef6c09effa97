//! Lowers tensor loads and stores, and other accesses to single elements: each subgroup fills a staging buffer for some of
//! its tiles and loads them from it, or stores tiles to it and copies the elements from it to memory.
//!
//! Each subgroup has its own staging buffer. For a matrix of workgroup scope it is in the zone of the workgroup, which is
//! free once all subgroups have arrived; so the first barrier is one of the workgroup, and the others are of the subgroup.

use super::fetch::DECODED;
use super::inst::Slot;
use super::memory::{TilePosition, both};
use super::shape::Mat;
use super::staging::{Layout, StagingBuffer};
use super::{TileIds, Tiles};
use crate::matrix::affine::Affine;
use crate::matrix::arena::{Arena, QUAD, Zone};
use crate::matrix::placement::Placement;
use crate::tensor::{Access, Loaded, Share, Visit};
use crate::{Refusal, malformed};
use coop_ir::builder::{FunctionBuilder, Index};
use coop_ir::spv::BuiltIn;
use coop_ir::types::{self, Type};
use coop_ir::{Id, Inst, InstRef, Op, Operand};

/// A subgroup's staging buffer is not made larger than this: more shared memory would only keep other workgroups out.
const MOST: u32 = 4096;

/// The most units of a staging buffer that an invocation fills without a loop.
const WRITTEN_OUT: u32 = 8;

/// A function of the output, by what its body depends on.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Key {
    pub(super) op: Op,
    pub(super) staging_buffers: Vec<StagingBuffer>,
    pub(super) types: Vec<Id>,
    pub(super) extra: Vec<Operand>,
}

/// The tiles of a subgroup in batches, each of which fills a staging buffer.
pub(super) struct Batches {
    pub(super) staging: StagingBuffer,
    /// Rows and columns of tiles of a batch.
    pub(super) rows: u32,
    pub(super) cols: u32,
}

/// Tiles of a batch: first row and column of tiles.
#[derive(Clone, Copy)]
pub(super) struct Batch {
    pub(super) row: u32,
    pub(super) col: u32,
    pub(super) rows: u32,
    pub(super) cols: u32,
}

/// Tiles with the operands of plain loads of them.
type DirectTiles = Vec<(TilePosition, Vec<Operand>)>;

impl Batches {
    pub(super) fn of(&self, mat: Mat) -> Vec<Batch> {
        let mut out = Vec::new();
        for row in (0..mat.rows()).step_by(self.rows as usize) {
            for col in (0..mat.cols()).step_by(self.cols as usize) {
                out.push(Batch { row, col, rows: self.rows, cols: self.cols });
            }
        }
        out
    }
}

impl Batch {
    /// The tiles: index among those of the subgroup, row and column in the staging buffer.
    pub(super) fn tiles(self, mat: Mat) -> Vec<(usize, Affine, Affine)> {
        let mut out = Vec::new();
        for i in 0..self.rows {
            for j in 0..self.cols {
                let (row, col) = (Affine::constant(i * mat.tile_rows), Affine::constant(j * mat.tile_cols));
                out.push((mat.at(self.row + i, self.col + j), row, col));
            }
        }
        out
    }
}

impl Tiles<'_, '_> {
    /// Takes a staging buffer for as many tiles at a time as there is room for, `images` of them side by side.
    pub(super) fn batches(
        &mut self,
        b: &FunctionBuilder<'_>,
        r: InstRef,
        mat: Mat,
        down: bool,
        images: u32,
    ) -> Result<Batches, Refusal> {
        let zone = Zone::of_scope(mat.workgroup);
        let subgroups = if mat.workgroup { mat.placement.grid.lanes() } else { 1 };
        let layout = |rows: u32, cols: u32| {
            let extents = (rows * mat.tile_rows, cols * mat.tile_cols);
            Layout::new(mat.elem, extents, (mat.tile_rows, mat.tile_cols), down, 0)
        };
        let bytes = |layout: &Layout| layout.quads().saturating_mul(QUAD * images);
        let room = self.arena.room_for_batch(zone);
        let halves = |n: u32| (1..=n).rev().filter(move |d| n.is_multiple_of(*d));
        // As many tiles as possible along the lines first.
        let choices: Vec<(u32, u32)> = if down {
            halves(mat.cols()).map(|c| (mat.rows(), c)).chain(halves(mat.rows()).map(|r| (r, 1))).collect()
        } else {
            halves(mat.rows()).map(|r| (r, mat.cols())).chain(halves(mat.cols()).map(|c| (1, c))).collect()
        };
        let fits = |(rows, cols): &&(u32, u32)| {
            let bytes = bytes(&layout(*rows, *cols));
            bytes <= MOST && bytes.saturating_mul(subgroups) <= room
        };
        let (rows, cols) = choices.iter().find(fits).copied().unwrap_or((1, 1));
        let layout = layout(rows, cols);
        let what = b.module.inst(r).op.to_string();
        let region = self.arena.take(r, &what, zone, bytes(&layout).saturating_mul(subgroups))?;
        let each = if mat.workgroup { layout.quads() * images } else { 0 };
        Ok(Batches { staging: StagingBuffer { layout, region, each }, rows, cols })
    }

    /// Waits until the staging buffers of a matrix's scope are free: for all subgroups before the first batch, and for the
    /// subgroup itself before the others.
    pub(super) fn enter(&self, b: &mut FunctionBuilder<'_>, mat: Mat, first: bool) {
        let zone = if first { Zone::of_scope(mat.workgroup) } else { Zone::Subgroup };
        self.arena.barrier(b, zone);
    }

    /// Row and column at which a batch begins.
    pub(super) fn origin(&self, b: &mut FunctionBuilder<'_>, mat: Mat, batch: Batch) -> (Index, Index) {
        let (row, col) = self.function.group.filter(|_| mat.workgroup).unwrap_or((Index::Const(0), Index::Const(0)));
        let Placement { rows, cols, .. } = mat.placement;
        let row = rows.unclamped(b, row, Index::Const(batch.row)).times(mat.tile_rows).emit(b);
        let col = cols.unclamped(b, col, Index::Const(batch.col)).times(mat.tile_cols).emit(b);
        (row, col)
    }

    /// Returns true if a load is left to the product that uses it.
    pub(super) fn defers(&mut self, r: InstRef, inst: &Inst) -> bool {
        let Some(id) = inst.result.filter(|id| self.function.deferred.get(id) == Some(&r)) else { return false };
        self.function.loads.insert(r, inst.clone());
        self.gone.push(id);
        true
    }

    /// The number of the subgroup in the workgroup.
    pub(super) fn subgroup(&mut self, b: &mut FunctionBuilder<'_>) -> Index {
        if self.analysis.subgroups == Some(1) { Index::Const(0) } else { self.builtins.load(b, BuiltIn::SubgroupId) }
    }

    /// Loads the tiles of a batch from a staging buffer, which begins at `begin` for the subgroup.
    pub(super) fn get_batch(
        &mut self,
        b: &mut FunctionBuilder<'_>,
        slot: &mut Slot,
        (staging, begin): (StagingBuffer, Index),
        mat: Mat,
        batch: Batch,
        parts: &mut TileIds,
    ) {
        for (index, row, col) in batch.tiles(mat) {
            let operands = staging.load_operands(b, &mut self.arena, begin, (&row, &col));
            parts[index] = slot.op(b, Op::CooperativeMatrixLoadKHR, mat.tile, operands);
        }
    }

    /// Stores the tiles of a batch to a staging buffer, which begins at `begin` for the subgroup.
    pub(super) fn put_batch(
        &mut self,
        b: &mut FunctionBuilder<'_>,
        (staging, begin): (StagingBuffer, Index),
        mat: Mat,
        batch: Batch,
        parts: &TileIds,
    ) {
        for (index, row, col) in batch.tiles(mat) {
            staging.put(b, &mut self.arena, begin, parts[index], (&row, &col));
        }
    }

    pub(super) fn load_tensor(&mut self, b: &mut FunctionBuilder<'_>, r: InstRef, inst: &Inst) -> Result<(), Refusal> {
        let mat = inst.ty.and_then(|t| self.analysis.mats.get(&t)).copied();
        let (Some(mat), Some(access)) = (mat, self.analysis.accesses.get(&r).cloned()) else {
            return malformed(r, "a tensor load of no matrix");
        };
        if self.defers(r, inst) {
            return Ok(());
        }
        let mut slot = Slot::new(r);
        if let Some(parts) = self.load_ahead(b, r, &mut slot)? {
            self.define(inst, mat, parts);
            return Ok(());
        }
        let Some((tiles, unless)) = self.plain(b, &access, mat) else {
            let parts = self.load_staged(b, r, &access, mat, &mut slot)?;
            self.define(inst, mat, parts);
            return Ok(());
        };
        let load = |b: &mut FunctionBuilder<'_>, slot: &mut Slot| -> TileIds {
            let mut parts = vec![mat.tile; mat.tiles() as usize];
            for (position, operands) in &tiles {
                let operands = operands.iter().copied();
                parts[position.index] = slot.op(b, Op::CooperativeMatrixLoadKHR, mat.tile, operands);
            }
            parts
        };
        let Some(unless) = unless else {
            let parts = load(b, &mut slot);
            self.define(inst, mat, parts);
            return Ok(());
        };
        let mut none = Slot::new(r);
        none.skip();
        let mut fork = b.fork(unless);
        let staged = self.load_staged(b, r, &access, mat, &mut none)?;
        b.other(&mut fork);
        let plain = load(b, &mut none);
        let (from_staged, from_plain) = b.join(fork);
        let phi = |(x, y): (Id, Id)| slot.op(b, Op::Phi, mat.tile, [x, from_staged, y, from_plain].map(Operand::Id));
        let parts = staged.into_iter().zip(plain).map(phi).collect();
        self.define(inst, mat, parts);
        Ok(())
    }

    /// Returns whether an access can go tile by tile after all: then each tile with the operands of a plain load, and
    /// the condition that they can't be used, if that is not known. That is the same for all invocations of the scope.
    fn plain(&self, b: &mut FunctionBuilder<'_>, access: &Access, mat: Mat) -> Option<(DirectTiles, Option<Id>)> {
        if mat.has_partial_tiles() {
            return None;
        }
        let down = access.plain()?;
        let line = if down { mat.tile_rows } else { mat.tile_cols } * mat.elem.scalar.bytes();
        let pointer = b.module.inst(access.at).id(0)?;
        let Type::Pointer { pointee, .. } = Type::of(b.module, b.module.type_of(pointer)?)? else { return None };
        // Else a tile may begin inside a unit although the matrix does not.
        if !line.is_multiple_of(types::packed_bytes(b.module, pointee)?) {
            return None;
        }
        let align = line.min(QUAD);
        let visit = access.begin_here(b);
        let zero = Index::Const(0);
        let whole = visit.direct(b, (zero, zero), (mat.shape.rows, mat.shape.cols), align)?;
        let mut tiles = Vec::new();
        for position in self.tile_positions(b, mat) {
            let (row, col) = (position.row.emit(b), position.col.emit(b));
            // What holds for the whole matrix holds for its tiles.
            let direct = visit.direct(b, (row, col), (mat.tile_rows, mat.tile_cols), align)?;
            let layout = b.u32(u32::from(direct.col_major));
            let operands = [direct.pointer, layout, direct.stride].map(Operand::Id);
            tiles.push((position, operands.into_iter().chain(direct.operands).collect()));
        }
        Some((tiles, whole.unless))
    }

    /// A tensor load through staging buffers.
    fn load_staged(
        &mut self,
        b: &mut FunctionBuilder<'_>,
        r: InstRef,
        access: &Access,
        mat: Mat,
        slot: &mut Slot,
    ) -> Result<TileIds, Refusal> {
        let old = if access.clips { Some(self.tiles_of(b.module, r, access.object)?.1) } else { None };
        let mark = self.arena.mark();
        let batches = self.batches(b, r, mat, access.runs_down, 1)?;
        let staging = batches.staging;
        let function = self.fill(b, access, mat, staging);
        let subgroup = self.subgroup(b);
        let begin = staging.begin(b, &mut self.arena, subgroup);
        let mut parts = vec![function; mat.tiles() as usize];
        for (n, batch) in batches.of(mat).into_iter().enumerate() {
            self.enter(b, mat, n == 0);
            if let Some(old) = &old {
                self.put_batch(b, (staging, begin), mat, batch, old);
                self.arena.barrier(b, Zone::Subgroup);
            }
            let (row, col) = self.origin(b, mat, batch);
            call(b, function, &access.args, row, col);
            self.arena.barrier(b, Zone::Subgroup);
            self.get_batch(b, slot, (staging, begin), mat, batch, &mut parts);
        }
        self.arena.release(mark);
        Ok(parts)
    }

    pub(super) fn store_tensor(&mut self, b: &mut FunctionBuilder<'_>, r: InstRef) -> Result<(), Refusal> {
        let Some(access) = self.analysis.accesses.get(&r).cloned() else {
            return malformed(r, "a tensor store of no matrix");
        };
        let (mat, parts) = self.tiles_of(b.module, r, access.object)?;
        let Some((tiles, unless)) = self.plain(b, &access, mat) else {
            return self.store_staged(b, r, &access, mat, &parts);
        };
        let Some(unless) = unless else {
            self.store_plain(b, mat, &tiles, &parts);
            return Ok(());
        };
        let mut fork = b.fork(unless);
        self.store_staged(b, r, &access, mat, &parts)?;
        b.other(&mut fork);
        self.store_plain(b, mat, &tiles, &parts);
        b.join(fork);
        Ok(())
    }

    fn store_plain(&self, b: &mut FunctionBuilder<'_>, mat: Mat, tiles: &DirectTiles, parts: &TileIds) {
        let owner = self.owner(b, mat);
        for (position, operands) in tiles {
            let mut operands = operands.clone();
            operands.insert(1, parts[position.index].into());
            let condition = both(b, owner, position.inside);
            let mut store = |b: &mut FunctionBuilder<'_>| {
                b.effect(Op::CooperativeMatrixStoreKHR, operands.iter().copied());
            };
            match condition {
                Some(condition) => b.when(condition, &mut store),
                None => store(b),
            }
        }
    }

    /// A tensor store through staging buffers.
    fn store_staged(
        &mut self,
        b: &mut FunctionBuilder<'_>,
        r: InstRef,
        access: &Access,
        mat: Mat,
        parts: &TileIds,
    ) -> Result<(), Refusal> {
        let mark = self.arena.mark();
        let batches = self.batches(b, r, mat, access.runs_down, 1)?;
        let staging = batches.staging;
        let function = self.tensor_store_function(b, access, mat, staging);
        let subgroup = self.subgroup(b);
        let begin = staging.begin(b, &mut self.arena, subgroup);
        let owner = self.owner(b, mat);
        for (n, batch) in batches.of(mat).into_iter().enumerate() {
            self.enter(b, mat, n == 0);
            self.put_batch(b, (staging, begin), mat, batch, parts);
            self.arena.barrier(b, Zone::Subgroup);
            let (row, col) = self.origin(b, mat, batch);
            let mut take = |b: &mut FunctionBuilder<'_>| call(b, function, &access.args, row, col);
            match owner {
                Some(owner) => b.when(owner, &mut take),
                None => take(b),
            }
        }
        self.arena.release(mark);
        Ok(())
    }

    /// The function that fills a subgroup's staging buffer with what a tensor load gives, from a row and a column on.
    pub(super) fn fill(
        &mut self,
        b: &mut FunctionBuilder<'_>,
        access: &Access,
        mat: Mat,
        staging: StagingBuffer,
    ) -> Id {
        self.element_function(b, access, mat, staging, &mut |this, f, row0, col0| {
            let mut visit = access.begin(f, 0);
            let guard = Guard::new(mat, staging);
            let (arena, begin, lane, size) = this.lanes_of(f, staging);
            if guard.is_whole() && fill_quads(f, arena, &mut visit, staging, (begin, lane, size), (row0, col0)) {
                return;
            }
            let zero = f.globals.null(f.module, mat.elem.ty);
            let count = staging.layout.unit();
            let mut unit = |f: &mut FunctionBuilder<'_>, arena: &mut Arena, line: Index, at: Index, word: Index| {
                let (row, col) = staging.row_col(line, at);
                let (row, col) = (f.add(row0, row), f.add(col0, col));
                let old = access.clips.then(|| staging.load_unit(f, arena, word));
                let keep = |f: &mut FunctionBuilder<'_>, n: usize, got: Loaded| match (got.keep, &old) {
                    (Some(keep), Some(old)) => f.ids(Op::Select, mat.elem.ty, &[keep, old[n], got.value]),
                    _ => got.value,
                };
                let whole = |f: &mut FunctionBuilder<'_>, visit: &mut Visit| -> Vec<Id> {
                    let run = visit.load_run(f, row, col, count);
                    run.into_iter().enumerate().map(|(n, got)| keep(f, n, got)).collect()
                };
                match guard.unit(f, row, col) {
                    Inside::Always => whole(f, &mut visit),
                    Inside::Together(inside) => {
                        let types = vec![mat.elem.ty; count as usize];
                        let none = vec![zero; count as usize];
                        f.choose(inside, &types, &mut |f| whole(f, &mut visit), &mut |_| none.clone())
                    }
                    Inside::Each => (0..count)
                        .map(|n| {
                            let (row, col) = guard.along(f, row, col, n);
                            let inside = guard.element(f, row, col);
                            let one = &mut |f: &mut FunctionBuilder<'_>| {
                                let got = visit.load(f, row, col);
                                vec![keep(f, n as usize, got)]
                            };
                            f.choose(inside, &[mat.elem.ty], one, &mut |_| vec![zero])[0]
                        })
                        .collect(),
                }
            };
            staging.for_each_unit(f, begin, (lane, size), &mut |f, line, at, word| {
                let values = unit(f, arena, line, at, word);
                staging.store_unit(f, arena, word, &values);
            });
        })
    }

    /// The function that does a tensor store with what is in a subgroup's staging buffer.
    fn tensor_store_function(
        &mut self,
        b: &mut FunctionBuilder<'_>,
        access: &Access,
        mat: Mat,
        staging: StagingBuffer,
    ) -> Id {
        self.element_function(b, access, mat, staging, &mut |this, f, row0, col0| {
            let mut visit = access.begin(f, 0);
            let guard = Guard::new(mat, staging);
            let (arena, begin, lane, size) = this.lanes_of(f, staging);
            staging.for_each_unit(f, begin, (lane, size), &mut |f, line, at, word| {
                let (row, col) = staging.row_col(line, at);
                let (row, col) = (f.add(row0, row), f.add(col0, col));
                match guard.unit(f, row, col) {
                    Inside::Always => {
                        let values = staging.load_unit(f, arena, word);
                        visit.store_run(f, row, col, &values);
                    }
                    Inside::Together(inside) => f.when(inside, &mut |f| {
                        let values = staging.load_unit(f, arena, word);
                        visit.store_run(f, row, col, &values);
                    }),
                    Inside::Each => {
                        let values = staging.load_unit(f, arena, word);
                        for (n, value) in (0..).zip(values) {
                            let (row, col) = guard.along(f, row, col, n);
                            let inside = guard.element(f, row, col);
                            f.when(inside, &mut |f| visit.store(f, row, col, value));
                        }
                    }
                }
            });
        })
    }

    /// A function for an access and a staging buffer, with first row and column as its last parameters; made when first needed.
    fn element_function(
        &mut self,
        b: &mut FunctionBuilder<'_>,
        access: &Access,
        mat: Mat,
        staging: StagingBuffer,
        body: &mut dyn FnMut(&mut Self, &mut FunctionBuilder<'_>, Index, Index),
    ) -> Id {
        let mut types = access.param_types(b.module);
        let op = b.module.inst(access.at).op;
        let key = Key { op, staging_buffers: vec![staging], types: types.clone(), extra: access.key() };
        if let Some(function) = self.functions.get(&key) {
            return *function;
        }
        let (word, void) = (b.u32_type(), b.globals.void(b.module));
        let first = types.len();
        types.extend([word, word]);
        let label = format!("coop_{}_{}", if access.store { "drain" } else { "fill" }, mat.label());
        let mut f = FunctionBuilder::new(b.module, b.globals, &label, void, &types);
        let (row, col) = (Index::Value(f.param(first)), Index::Value(f.param(first + 1)));
        body(self, &mut f, row, col);
        let function = f.finish(None);
        self.functions.insert(key, function);
        function
    }

    /// For the invocations that share a staging buffer: where it begins, which one this is, and how many they are.
    pub(super) fn lanes_of(
        &mut self,
        b: &mut FunctionBuilder<'_>,
        staging: StagingBuffer,
    ) -> (&mut Arena, Index, Index, u32) {
        let subgroup = self.subgroup(b);
        let begin = staging.begin(b, &mut self.arena, subgroup);
        let (lane, count) = self.sharers(b, staging.is_shared());
        (&mut self.arena, begin, lane, count)
    }

    /// The number of this invocation, and how many there are: of the workgroup or of the subgroup.
    pub(super) fn sharers(&mut self, b: &mut FunctionBuilder<'_>, workgroup: bool) -> (Index, u32) {
        if workgroup {
            (self.builtins.load(b, BuiltIn::LocalInvocationIndex), self.analysis.invocations.unwrap_or(1))
        } else {
            (self.builtins.load(b, BuiltIn::SubgroupLocalInvocationId), self.analysis.size)
        }
    }
}

/// Fills a staging buffer that has nothing but the matrix in quads, each invocation an equal share. All loads, or those of a
/// batch that are decoded, are on their way before one is waited for. Returns false if runs are no quads, or too many.
fn fill_quads(
    f: &mut FunctionBuilder<'_>,
    arena: &mut Arena,
    visit: &mut Visit,
    staging: StagingBuffer,
    (begin, lane, size): (Index, Index, u32),
    (row0, col0): (Index, Index),
) -> bool {
    let layout = staging.layout;
    if layout.unit_words() != 4 || !visit.has_quads() {
        return false;
    }
    let Some(units) = layout.unit_positions(f, begin, (lane, size), WRITTEN_OUT) else { return false };
    let row_col = |f: &mut FunctionBuilder<'_>, line: Index, at: Index| {
        let (row, col) = layout.row_col(line, at);
        (f.add(row0, row), f.add(col0, col))
    };
    let batch = if visit.decodes() { DECODED } else { WRITTEN_OUT };
    for (n, units) in (0..).step_by((batch * size) as usize).zip(units.chunks(batch as usize)) {
        let places: Vec<(Index, Index)> = units.iter().map(|(line, at, _)| row_col(f, *line, *at)).collect();
        let mut place = |f: &mut FunctionBuilder<'_>, i: Index| {
            let skipped = f.mul(i, Index::Const(size));
            let unit = f.add(lane, skipped);
            let unit = f.add(unit, Index::Const(n));
            let (line, at, _) = layout.place(f, unit);
            row_col(f, line, at)
        };
        let share = &mut Share { places: &places, place: &mut place };
        let quads = visit.load_quads(f, share).unwrap_or_else(|| unreachable!("`has_quads` said so"));
        for ((_, _, word), value) in units.iter().zip(quads) {
            let quad = f.div(*word, 4);
            arena.store_quad(f, quad, value);
        }
    }
    true
}

pub(super) fn call(b: &mut FunctionBuilder<'_>, function: Id, args: &[Id], row: Index, col: Index) {
    let (void, row, col) = (b.globals.void(b.module), b.index(row), b.index(col));
    let operands: Vec<Id> = [function].into_iter().chain(args.iter().copied()).chain([row, col]).collect();
    b.ids(Op::FunctionCall, void, &operands);
}

/// The elements of a staging buffer that are the matrix's.
#[derive(Clone, Copy)]
pub(super) struct Guard {
    mat: Mat,
    staging: StagingBuffer,
}

/// The test that the elements of a unit are inside the matrix.
pub(super) enum Inside {
    Always,
    /// All or none.
    Together(Id),
    /// Each must be asked.
    Each,
}

impl Guard {
    pub(super) fn new(mat: Mat, staging: StagingBuffer) -> Guard {
        Guard { mat, staging }
    }

    /// Returns true if all that the staging buffer has is the matrix's.
    fn is_whole(&self) -> bool {
        // One staging buffer for all goes no farther than the last tile that is the matrix's.
        if self.staging.is_shared() {
            !self.mat.has_partial_tiles()
        } else {
            self.mat.covered() == (self.mat.shape.rows, self.mat.shape.cols)
        }
    }

    pub(super) fn unit(&self, b: &mut FunctionBuilder<'_>, row: Index, col: Index) -> Inside {
        let shape = self.mat.shape;
        if self.is_whole() {
            return Inside::Always;
        }
        let along = if self.staging.layout.down { shape.rows } else { shape.cols };
        if along.is_multiple_of(self.staging.layout.unit()) {
            return Inside::Together(self.element(b, row, col));
        }
        Inside::Each
    }

    pub(super) fn element(&self, b: &mut FunctionBuilder<'_>, row: Index, col: Index) -> Id {
        let shape = self.mat.shape;
        let inside = [(row, shape.rows), (col, shape.cols)]
            .map(|(at, extent)| b.compare(Op::ULessThan, at, Index::Const(extent)));
        let ty = b.globals.bool(b.module);
        b.ids(Op::LogicalAnd, ty, &inside)
    }

    /// Row and column of the `n`th element of a unit.
    pub(super) fn along(&self, b: &mut FunctionBuilder<'_>, row: Index, col: Index, n: u32) -> (Index, Index) {
        let n = Index::Const(n);
        if self.staging.layout.down { (b.add(row, n), col) } else { (row, b.add(col, n)) }
    }
}
