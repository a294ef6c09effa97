//! Lowers reductions along lines within a subgroup.
//!
//! Element `i` of a tile is in the same row as element `i` of the tiles beside it. So the tiles of a row of tiles are
//! folded into one tile, element by element and in registers. That tile is stored to a staging buffer of the subgroup, whose
//! invocations fold a line each; the results are loaded as the rows of a tile with stride 0. Where several subgroups hold
//! parts of a line, each writes its results to a vector of its own, and the tiles loaded from these vectors are folded last.
//! Where the lanes that hold a row are known ([`super::known_positions`]), they shuffle instead.
//!
//! Precondition: every element that a subgroup holds of a line is an element of the matrix, and the result is split like
//! the source. Other reductions are in [`super::reduce`].

use super::elements;
use super::inst::Slot;
use super::known_positions::shuffle_rows;
use super::shape::Mat;
use super::staging::{Layout, StagingBuffer};
use super::tensor::Key;
use super::{TileIds, Tiles};
use crate::matrix::affine::Affine;
use crate::matrix::arena::{QUAD, Zone, words_of};
use crate::matrix::bits::small_type;
use crate::matrix::row_uniform::{Combine, combine};
use coop_ir::builder::{FunctionBuilder, Index, Unroll};
use coop_ir::{Id, InstRef, Op, Operand};

/// A reduction along lines.
#[derive(Clone, Copy)]
pub(super) struct Fold {
    pub(super) from: Mat,
    pub(super) to: Mat,
    /// True if lines are rows.
    pub(super) by_row: bool,
    pub(super) function: Id,
}

/// The staging buffers of a fold.
struct FoldBuffers {
    /// The subgroup's folded tiles.
    staging: StagingBuffer,
    /// The folded lines: a line of the staging buffer for each group of subgroups along the lines.
    vector: StagingBuffer,
}

impl Fold {
    /// Tiles held, extent of a tile, groups and extent of the matrix: along the lines.
    fn along(&self) -> (u32, u32, u32, u32) {
        let (m, (row_groups, col_groups)) = (&self.from, self.from.groups());
        if self.by_row {
            (m.cols(), m.tile_cols, col_groups, m.shape.cols)
        } else {
            (m.rows(), m.tile_rows, row_groups, m.shape.rows)
        }
    }

    /// Tiles held, extent of a tile and groups: across the lines.
    fn across(&self, m: &Mat) -> (u32, u32, u32) {
        let (row_groups, col_groups) = m.groups();
        if self.by_row { (m.rows(), m.tile_rows, row_groups) } else { (m.cols(), m.tile_cols, col_groups) }
    }

    fn fits(&self) -> bool {
        let (held, tile, groups, extent) = self.along();
        let (lines, line_tile, line_groups) = self.across(&self.from);
        let (to_lines, to_tile, to_groups) = self.across(&self.to);
        let each = (32 / self.from.elem.scalar.width()).max(1);
        held * tile * groups == extent
            && lines * line_tile == to_lines * to_tile
            && line_groups == to_groups
            && line_tile.is_multiple_of(each)
            && to_tile.is_multiple_of(each)
    }

    /// Bits of Cooperative Matrix Reduce.
    fn mask(&self) -> u32 {
        if self.by_row { 1 } else { 2 }
    }

    /// The tile at a place of a line of tiles.
    fn at(&self, m: &Mat, line: u32, along: u32) -> usize {
        if self.by_row { m.at(line, along) } else { m.at(along, line) }
    }
}

impl Tiles<'_, '_> {
    /// Reduces along lines, if the staging buffers allow that.
    pub(super) fn fold_lines(
        &mut self,
        b: &mut FunctionBuilder<'_>,
        r: InstRef,
        slot: &mut Slot,
        fold: &Fold,
        (value, parts): (Id, &TileIds),
    ) -> Option<TileIds> {
        if !fold.fits() {
            return None;
        }
        let (from, to) = (fold.from, fold.to);
        let what = combine(b.module, fold.function);
        let (lines, line_tile, _) = fold.across(&from);
        let (held, ..) = fold.along();
        if fold.by_row && what == Combine::Idempotent && self.is_row_uniform(Some(value)) && from.tile == to.tile {
            let mut result = vec![to.tile; to.tiles() as usize];
            for i in 0..to.rows() {
                let tile = slot.op(b, Op::CopyObject, to.tile, [parts[from.at(i, 0)].into()]);
                (0..to.cols()).for_each(|j| result[to.at(i, j)] = tile);
            }
            return Some(result);
        }
        let held_of = |i: u32| -> Vec<Id> { (0..held).map(|j| parts[fold.at(&from, i, j)]).collect() };
        let mut result = vec![to.tile; to.tiles() as usize];
        let mut fill = |i: u32, tile: Id| {
            let (along, ..) = Fold { from: to, ..*fold }.along();
            (0..along).for_each(|j| result[fold.at(&to, i, j)] = tile);
        };
        if self.folds_natively(fold) {
            for i in 0..lines {
                let tile = fold_tiles(b, fold, from.tile, what, &held_of(i));
                let operands = [tile.into(), Operand::Word(fold.mask()), fold.function.into()];
                fill(i, slot.op(b, Op::CooperativeMatrixReduceNV, to.tile, operands));
            }
            return Some(result);
        }
        if self.shuffles_rows(fold, what) {
            for i in 0..lines {
                let tile = fold_tiles(b, fold, from.tile, what, &held_of(i));
                let tile = shuffle_rows(b, fold, tile);
                fill(i, slot.op(b, Op::CopyObject, to.tile, [tile.into()]));
            }
            return Some(result);
        }
        let mark = self.arena.mark();
        let buffers = self.fold_buffers(b, r, fold);
        let Some(buffers) = buffers else {
            self.arena.release(mark);
            return None;
        };
        let zone = buffers.vector.zone();
        self.arena.barrier(b, zone);
        let subgroup = self.subgroup(b);
        let begin = buffers.staging.begin(b, &mut self.arena, subgroup);
        for i in 0..lines {
            let tile = fold_tiles(b, fold, from.tile, what, &held_of(i));
            let at = Affine::constant(i * line_tile);
            let zero = Affine::default();
            let place = if fold.by_row { (&at, &zero) } else { (&zero, &at) };
            buffers.staging.put(b, &mut self.arena, begin, tile, place);
        }
        self.arena.barrier(b, Zone::Subgroup);
        let function = self.line_folds(b, fold, &buffers);
        let (group, first) = self.place_in_vector(fold, &buffers);
        let at = first.emit(b);
        let (group_id, first_id) = (b.index(group), b.index(at));
        let void = b.globals.void(b.module);
        b.ids(Op::FunctionCall, void, &[function, group_id, first_id]);
        self.arena.barrier(b, zone);
        let (to_lines, to_tile, _) = fold.across(&to);
        let begin = buffers.vector.begin(b, &mut self.arena, subgroup);
        for i in 0..to_lines {
            let at = first.clone().plus(&Affine::constant(i * to_tile));
            let count = buffers.vector.layout.lines;
            let mut load = |b: &mut FunctionBuilder<'_>, g: u32| {
                let operands = buffers.vector.broadcast_operands(b, &mut self.arena, begin, (g, &at), fold.by_row);
                if count > 1 {
                    b.op(Op::CooperativeMatrixLoadKHR, to.tile, operands)
                } else {
                    slot.op(b, Op::CooperativeMatrixLoadKHR, to.tile, operands)
                }
            };
            let loaded: Vec<Id> = (0..count).map(|g| load(b, g)).collect();
            let mut tile = fold_tiles(b, fold, to.tile, what, &loaded);
            if count > 1 {
                tile = slot.op(b, Op::CopyObject, to.tile, [tile.into()]);
            }
            fill(i, tile);
        }
        self.arena.release(mark);
        Some(result)
    }

    /// Returns true if the device folds the lines of a tile by itself, and the subgroup has them to itself.
    fn folds_natively(&self, fold: &Fold) -> bool {
        let (from, to) = (fold.from, fold.to);
        let (_, _, groups, _) = fold.along();
        let same_shape = fold.across(&from) == fold.across(&to) && from.tile_use == to.tile_use;
        self.analysis.native.reduce && groups == 1 && same_shape
    }

    fn fold_buffers(&mut self, b: &FunctionBuilder<'_>, r: InstRef, fold: &Fold) -> Option<FoldBuffers> {
        let (from, to) = (fold.from, fold.to);
        let (lines, line_tile, line_groups) = fold.across(&from);
        let (_, tile, groups, _) = fold.along();
        let (_, to_tile, _) = fold.across(&to);
        let extents = if fold.by_row { (lines * line_tile, tile) } else { (tile, lines * line_tile) };
        let layout = Layout::new(from.elem, extents, (from.tile_rows, from.tile_cols), !fold.by_row, 1);
        let what = b.module.inst(r).op.to_string();
        // What subgroups hold of the matrix is never the whole arena; the general reduction needs less.
        let mut take = |zone: Zone, quads: u32| {
            let bytes = quads.checked_mul(QUAD).filter(|bytes| *bytes <= self.arena.room(zone))?;
            self.arena.take(r, &what, zone, bytes).ok()
        };
        let staging = StagingBuffer { layout, region: take(Zone::Subgroup, layout.quads())?, each: 0 };
        let alone = groups == 1;
        let zone = if alone { Zone::Subgroup } else { Zone::of_scope(from.workgroup) };
        let length = lines * line_tile * if alone { 1 } else { line_groups };
        let layout = Layout::new(from.elem, (groups, length), (1, to_tile), false, 0);
        let vector = StagingBuffer { layout, region: take(zone, layout.quads())?, each: 0 };
        Some(FoldBuffers { staging, vector })
    }

    /// The line of the vector that the subgroup writes, and where in it its lines begin.
    fn place_in_vector(&self, fold: &Fold, buffers: &FoldBuffers) -> (Index, Affine) {
        let zero = Index::Const(0);
        if buffers.vector.zone() == Zone::Subgroup {
            return (zero, Affine::default());
        }
        let (row, col) = self.function.group.filter(|_| fold.from.workgroup).unwrap_or((zero, zero));
        let (lines, tile, groups) = fold.across(&fold.from);
        let (along, across) = if fold.by_row { (col, row) } else { (row, col) };
        let across = if groups == 1 { zero } else { across };
        (along, Affine::scaled(across, lines * tile))
    }

    /// The function that folds the lines of the subgroup's staging buffer into a line of the vector, from a place on.
    fn line_folds(&mut self, b: &mut FunctionBuilder<'_>, fold: &Fold, buffers: &FoldBuffers) -> Id {
        let FoldBuffers { staging, vector } = *buffers;
        let key = Key {
            op: Op::CooperativeMatrixReduceNV,
            staging_buffers: vec![staging, vector],
            types: vec![fold.from.elem.ty],
            extra: vec![Operand::Id(fold.function)],
        };
        if let Some(function) = self.functions.get(&key) {
            return *function;
        }
        let (void, word) = (b.globals.void(b.module), b.u32_type());
        let label = format!("coop_fold_lines_{}", fold.from.label());
        let mut f = FunctionBuilder::new(b.module, b.globals, &label, void, &[word; 2]);
        let elem = fold.from.elem;
        small_type(f.module, elem.scalar);
        let (group, first) = (Index::Value(f.param(0)), Index::Value(f.param(1)));
        let subgroup = self.subgroup(&mut f);
        let (arena, begin, lane, count) = self.lanes_of(&mut f, staging);
        let vector_begin = vector.begin(&mut f, arena, subgroup);
        let each = (32 / elem.scalar.width()).max(1);
        let layout = staging.layout;
        let end = Index::Const(layout.lines / each);
        let mut body = |f: &mut FunctionBuilder<'_>, n: Index| {
            let line = f.mul(n, Index::Const(each));
            let mut folded = Vec::new();
            for k in 0..each {
                let line = f.add(line, Index::Const(k));
                let mut elements = Vec::new();
                for at in (0..layout.length).step_by(layout.unit() as usize) {
                    let byte = staging.byte(f, begin, line, Index::Const(at));
                    let word = f.div(byte, 4);
                    elements.extend(staging.load_unit(f, arena, word));
                }
                let mut elements = elements.into_iter();
                let sum = elements.next().unwrap_or_else(|| unreachable!("a line has elements"));
                folded.push(elements.fold(sum, |x, y| f.ids(Op::FunctionCall, elem.ty, &[fold.function, x, y])));
            }
            let at = f.add(first, line);
            let byte = vector.byte(f, vector_begin, group, at);
            let word = f.div(byte, 4);
            for (i, value) in (0..).zip(words_of(f, elem, &folded)) {
                let at = f.add(word, Index::Const(i));
                arena.store_word(f, at, value);
            }
        };
        if layout.lines / each <= count {
            let some = f.compare(Op::ULessThan, lane, end);
            f.when(some, &mut |f| body(f, lane));
        } else {
            f.count(lane, end, Index::Const(count), Unroll::No, &mut body);
        }
        let function = f.finish(None);
        self.functions.insert(key, function);
        function
    }
}

/// Tiles folded element by element.
pub(super) fn fold_tiles(b: &mut FunctionBuilder<'_>, fold: &Fold, ty: Id, what: Combine, tiles: &[Id]) -> Id {
    let Some((first, rest)) = tiles.split_first().filter(|(_, rest)| !rest.is_empty()) else { return tiles[0] };
    if let Combine::Op(op) = what {
        return rest.iter().fold(*first, |sum, tile| b.ids(op, ty, &[sum, *tile]));
    }
    let elem = fold.from.elem.ty;
    elements::map(b, None, (ty, elem), tiles, &mut |b, values| {
        values[1..].iter().fold(values[0], |x, y| b.ids(Op::FunctionCall, elem, &[fold.function, x, *y]))
    })
}
