//! Lowers reductions of all elements.
//!
//! Each subgroup folds its tiles into one, element by element and in registers, and stores that tile to a staging buffer of
//! its own. Each invocation folds its share of the buffer and writes the result to a word of the subgroup's. Every invocation
//! folds these words. Where several subgroups hold the matrix, one invocation of each writes what it has to a word of the
//! workgroup, and every invocation folds those. All read the same words in the same order, so all have the same value.
//!
//! Precondition: every element that a subgroup holds is an element of the matrix, and no two subgroups that take part hold the
//! same; invocations have equal shares of a tile. Other reductions are in [`super::reduce`].

use super::inst::Slot;
use super::line_reduce::{Fold, fold_tiles};
use super::reduce::ALL;
use super::shape::Mat;
use super::staging::{Layout, StagingBuffer};
use super::tensor::Key;
use super::{TileIds, Tiles};
use crate::matrix::affine::Affine;
use crate::matrix::arena::{Elem, QUAD, Zone, words_of};
use crate::matrix::bits::{part, small_type};
use crate::matrix::row_uniform::combine;
use coop_ir::builder::{FunctionBuilder, Index};
use coop_ir::spv::BuiltIn;
use coop_ir::types::Scalar;
use coop_ir::{Id, InstRef, Op, Operand};

const WORD: Scalar = Scalar::Int { width: 32, signed: false };

/// The most values that a fold reads in a row.
const MOST: u32 = 64;

/// The staging buffers of a fold.
#[derive(Clone, Copy)]
struct WholeBuffers {
    /// The subgroup's folded tile.
    tile: StagingBuffer,
    /// A word for each invocation of the subgroup.
    lanes: StagingBuffer,
    /// A word for each subgroup that holds a part, if there are several.
    subgroups: Option<StagingBuffer>,
}

impl Tiles<'_, '_> {
    /// Reduces all elements to one, which every element of the result is, if the precondition holds and there is room.
    pub(super) fn fold_whole(
        &mut self,
        b: &mut FunctionBuilder<'_>,
        r: InstRef,
        slot: &mut Slot,
        fold: &Fold,
        parts: &TileIds,
    ) -> Option<TileIds> {
        let mark = self.arena.mark();
        let Some(buffers) = self.whole_buffers(b, r, fold.from) else {
            self.arena.release(mark);
            return None;
        };
        let zone = buffers.subgroups.map_or(Zone::Subgroup, |s| s.zone());
        let subgroup = self.subgroup(b);
        let tile = fold_tiles(b, fold, fold.from.tile, combine(b.module, fold.function), parts);
        self.arena.barrier(b, zone);
        let begin = buffers.tile.begin(b, &mut self.arena, subgroup);
        buffers.tile.put(b, &mut self.arena, begin, tile, (&Affine::default(), &Affine::default()));
        self.arena.barrier(b, Zone::Subgroup);
        let function = self.tile_fold(b, fold, &buffers);
        let elem = fold.from.elem;
        let mut value = b.ids(Op::FunctionCall, elem.ty, &[function]);
        if let Some(all) = buffers.subgroups {
            let (row, col) = self.function.group.unwrap_or((Index::Const(0), Index::Const(0)));
            let first_of_row = b.mul(row, Index::Const(fold.from.groups().1));
            let at = b.add(first_of_row, col);
            let lane = self.builtins.load(b, BuiltIn::SubgroupLocalInvocationId);
            let mut writes = b.compare(Op::IEqual, lane, Index::Const(0));
            if let Some(owner) = self.owner(b, fold.from) {
                let ty = b.globals.bool(b.module);
                writes = b.ids(Op::LogicalAnd, ty, &[writes, owner]);
            }
            let arena = &mut self.arena;
            b.when(writes, &mut |b| {
                let begin = all.begin(b, arena, Index::Const(0));
                let first = b.mul(begin, Index::Const(4));
                let word = b.add(first, at);
                let value = word_of(b, elem, value);
                arena.store_word(b, word, value);
            });
            self.arena.barrier(b, zone);
            value = self.fold_words(b, fold, all, Index::Const(0));
        }
        self.arena.release(mark);
        let tile = slot.op(b, Op::CompositeConstruct, fold.to.tile, [value.into()]);
        Some(vec![tile; fold.to.tiles() as usize])
    }

    fn whole_buffers(&mut self, b: &mut FunctionBuilder<'_>, r: InstRef, from: Mat) -> Option<WholeBuffers> {
        let (row_groups, col_groups) = from.groups();
        let (covered_rows, covered_cols) = from.covered();
        let lanes = self.analysis.size;
        let groups = row_groups * col_groups;
        let layout =
            Layout::new(from.elem, (from.tile_rows, from.tile_cols), (from.tile_rows, from.tile_cols), false, 0);
        let units = layout.units();
        let whole = (covered_rows, covered_cols) == (from.shape.rows, from.shape.cols);
        let shares = units.is_multiple_of(lanes) && units / lanes * layout.unit() <= MOST;
        if !whole || !shares || lanes > MOST || groups > MOST || from.elem.scalar.width() > 32 {
            return None;
        }
        let what = b.module.inst(r).op.to_string();
        let word = Elem { scalar: WORD, ty: b.u32_type() };
        let mut buffer = |zone: Zone, layout: Layout| {
            let bytes = layout.quads().checked_mul(QUAD).filter(|bytes| *bytes <= self.arena.room(zone))?;
            Some(StagingBuffer { layout, region: self.arena.take(r, &what, zone, bytes).ok()?, each: 0 })
        };
        let words = |count: u32| Layout::new(word, (1, count), (1, count), false, 0);
        let tile = buffer(Zone::Subgroup, layout)?;
        let lanes = buffer(Zone::Subgroup, words(lanes))?;
        let subgroups = if groups > 1 { Some(buffer(Zone::of_scope(from.workgroup), words(groups))?) } else { None };
        Some(WholeBuffers { tile, lanes, subgroups })
    }

    /// The function that folds the tile in the subgroup's staging buffer.
    fn tile_fold(&mut self, b: &mut FunctionBuilder<'_>, fold: &Fold, buffers: &WholeBuffers) -> Id {
        let WholeBuffers { tile, lanes, .. } = *buffers;
        let key = Key {
            op: Op::CooperativeMatrixReduceNV,
            staging_buffers: vec![tile, lanes],
            types: vec![fold.from.elem.ty],
            extra: vec![Operand::Id(fold.function), Operand::Word(ALL)],
        };
        if let Some(function) = self.functions.get(&key) {
            return *function;
        }
        let elem = fold.from.elem;
        let label = format!("coop_fold_tile_{}", fold.from.label());
        let mut f = FunctionBuilder::new(b.module, b.globals, &label, elem.ty, &[]);
        small_type(f.module, elem.scalar);
        let subgroup = self.subgroup(&mut f);
        let (arena, begin, lane, count) = self.lanes_of(&mut f, tile);
        let units = tile.layout.unit_positions(&mut f, begin, (lane, count), MOST).unwrap_or_default();
        let mut elements = Vec::new();
        for (_, _, word) in units {
            elements.extend(tile.load_unit(&mut f, arena, word));
        }
        let value = fold_elements(&mut f, fold, elements);
        let begin = lanes.begin(&mut f, arena, subgroup);
        let first = f.mul(begin, Index::Const(4));
        let word = f.add(first, lane);
        let value = word_of(&mut f, elem, value);
        arena.store_word(&mut f, word, value);
        arena.barrier(&mut f, Zone::Subgroup);
        let value = self.fold_words(&mut f, fold, lanes, subgroup);
        let function = f.finish(Some(value));
        self.functions.insert(key, function);
        function
    }

    /// The fold of the elements in the words of a staging buffer.
    fn fold_words(&mut self, b: &mut FunctionBuilder<'_>, fold: &Fold, words: StagingBuffer, subgroup: Index) -> Id {
        let begin = words.begin(b, &mut self.arena, subgroup);
        let first = b.mul(begin, Index::Const(4));
        let mut elements = Vec::new();
        for at in (0..words.layout.length).step_by(words.layout.unit() as usize) {
            let word = b.add(first, Index::Const(at));
            for word in words.load_unit(b, &mut self.arena, word) {
                elements.push(element_of(b, fold.from.elem, word));
            }
        }
        fold_elements(b, fold, elements)
    }
}

/// The fold of some elements, the first one first.
fn fold_elements(b: &mut FunctionBuilder<'_>, fold: &Fold, elements: Vec<Id>) -> Id {
    let mut elements = elements.into_iter();
    let first = elements.next().unwrap_or_else(|| unreachable!("a tile has elements"));
    elements.fold(first, |x, y| b.ids(Op::FunctionCall, fold.from.elem.ty, &[fold.function, x, y]))
}

/// A word with an element of at most 32 bits in its lowest ones.
fn word_of(b: &mut FunctionBuilder<'_>, elem: Elem, value: Id) -> Id {
    let count = (32 / elem.scalar.width()) as usize;
    let null = b.globals.null(b.module, elem.ty);
    let mut elements = vec![null; count];
    elements[0] = value;
    words_of(b, elem, &elements)[0]
}

/// The element in the lowest bits of a word.
fn element_of(b: &mut FunctionBuilder<'_>, Elem { scalar, ty }: Elem, word: Id) -> Id {
    if scalar.width() < 32 {
        return part(b, scalar, ty, word, 32, Index::Const(0));
    }
    if ty == b.u32_type() { word } else { b.ids(Op::Bitcast, ty, &[word]) }
}
