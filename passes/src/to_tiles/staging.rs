//! Staging buffers: parts of matrices in shared memory that tiles are stored to and loaded from, and that invocations
//! write and read element by element.
//!
//! A *staging buffer* is a rectangle of elements in lines: rows, or columns if it is `down`. A line is a sequence of
//! *pieces*, each as long as a tile is in that direction and padded to whole quads, so that every tile begins at a quad and
//! the distance of its lines is a whole number of quads. Invocations write whole *units*: a quad of elements if pieces need
//! no padding, otherwise a word.

use crate::matrix::affine::Affine;
use crate::matrix::arena::{Arena, Elem, QUAD, Region, Zone, words_of};
use crate::matrix::bits::{gather, small_type, split_value};
use coop_ir::builder::{FunctionBuilder, Index, Unroll};
use coop_ir::types::Scalar;
use coop_ir::{Id, Op, Operand};

const WORD: Scalar = Scalar::Int { width: 32, signed: false };

/// The layout of a staging buffer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Layout {
    pub(super) elem: Elem,
    /// True if lines are columns.
    pub(super) down: bool,
    pub(super) lines: u32,
    /// Elements of a line.
    pub(super) length: u32,
    /// Elements of a piece.
    piece: u32,
    /// Quads from one line to the next.
    pub(super) pitch: u32,
}

/// The location of a staging buffer: one for the zone, or one for each subgroup in a region of the workgroup.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct StagingBuffer {
    pub(super) layout: Layout,
    pub(super) region: Region,
    /// Quads from the staging buffer of one subgroup to that of the next; 0 where all share one.
    pub(super) each: u32,
}

impl Layout {
    /// For `rows` x `cols` elements, with tiles of `tile_rows` x `tile_cols`. `spare` quads are added to each line, so
    /// that lines begin in different banks.
    pub(super) fn new(elem: Elem, (rows, cols): (u32, u32), tile: (u32, u32), down: bool, spare: u32) -> Layout {
        let (lines, length, piece) = if down { (cols, rows, tile.0) } else { (rows, cols, tile.1) };
        let mut layout = Layout { elem, down, lines, length, piece, pitch: 0 };
        layout.pitch = length.div_ceil(piece) * layout.piece_quads() + spare;
        layout
    }

    fn piece_quads(&self) -> u32 {
        (self.piece * self.elem.scalar.bytes()).div_ceil(QUAD)
    }

    fn is_dense(&self) -> bool {
        (self.piece * self.elem.scalar.bytes()).is_multiple_of(QUAD)
    }

    pub(super) fn quads(&self) -> u32 {
        self.lines.saturating_mul(self.pitch)
    }

    /// Words of a unit.
    pub(super) fn unit_words(&self) -> u32 {
        if self.is_dense() { 4 } else { 1 }
    }

    /// Elements of a unit.
    pub(super) fn unit(&self) -> u32 {
        self.unit_words() * 4 / self.elem.scalar.bytes()
    }

    /// Units of all lines.
    pub(super) fn units(&self) -> u32 {
        self.lines * (self.length / self.unit())
    }

    /// The quad at which a tile begins, counted from the first of the staging buffer. Row and column are those of a tile.
    fn quad(&self, row: &Affine, col: &Affine) -> Affine {
        let (line, at) = if self.down { (col, row) } else { (row, col) };
        let line = line.clone().times(self.pitch);
        let along = if self.is_dense() {
            at.clone().times(self.elem.scalar.bytes()).exact(QUAD)
        } else {
            at.exact(self.piece).map(|p| p.times(self.piece_quads()))
        };
        line.plus(&along.unwrap_or_else(|| unreachable!("tiles begin at multiples of a piece")))
    }

    /// The units that an invocation visits, if they are at most `most` and as many for all: line, first element, first
    /// word of the array.
    pub(super) fn unit_positions(
        &self,
        b: &mut FunctionBuilder<'_>,
        begin: Index,
        (first, step): (Index, u32),
        most: u32,
    ) -> Option<Vec<(Index, Index, Index)>> {
        let layout = self;
        let (units, per_line) = (layout.units(), layout.length / layout.unit());
        if !units.is_multiple_of(step) || units / step > most {
            return None;
        }
        small_type(b.module, layout.elem.scalar);
        let words = b.mul(begin, Index::Const(4));
        let mut out = Vec::new();
        if step.is_multiple_of(per_line) {
            // Always the same place in a line, so many lines on.
            let (line, at, word) = layout.place(b, first);
            let word = b.add(words, word);
            let lines = step / per_line;
            for n in 0..units / step {
                let line = b.add(line, Index::Const(n * lines));
                out.push((line, at, b.add(word, Index::Const(n * lines * layout.pitch * 4))));
            }
        } else {
            for n in 0..units / step {
                let unit = b.add(first, Index::Const(n * step));
                let (line, at, word) = layout.place(b, unit);
                out.push((line, at, b.add(words, word)));
            }
        }
        Some(out)
    }

    /// Row and column of an element of a line, counted from the first of the staging buffer.
    pub(super) fn row_col(&self, line: Index, at: Index) -> (Index, Index) {
        if self.down { (at, line) } else { (line, at) }
    }

    /// Line and first element of a unit, and its first word in the staging buffer.
    pub(super) fn place(&self, b: &mut FunctionBuilder<'_>, unit: Index) -> (Index, Index, Index) {
        let per_line = self.length / self.unit();
        let (line, x) = (b.div(unit, per_line), b.rem(unit, per_line));
        let at = b.mul(x, Index::Const(self.unit()));
        let begin = b.mul(line, Index::Const(self.pitch * 4));
        let offset = if self.is_dense() {
            b.mul(x, Index::Const(4))
        } else {
            let per_piece = self.piece / self.unit();
            let (piece, rest) = (b.div(x, per_piece), b.rem(x, per_piece));
            let piece = b.mul(piece, Index::Const(self.piece_quads() * 4));
            b.add(piece, rest)
        };
        (line, at, b.add(begin, offset))
    }
}

impl StagingBuffer {
    pub(super) fn zone(&self) -> Zone {
        self.region.zone
    }

    /// Returns true if it is one for all invocations of the workgroup.
    pub(super) fn is_shared(&self) -> bool {
        self.each == 0 && self.zone() == Zone::Workgroup
    }

    /// The quad at which the staging buffer begins; `subgroup` is the invocation's.
    pub(super) fn begin(&self, b: &mut FunctionBuilder<'_>, arena: &mut Arena, subgroup: Index) -> Index {
        let begin = arena.begin(b, self.region, Some(subgroup));
        let mine = b.mul(subgroup, Index::Const(self.each));
        b.add(begin, mine)
    }

    /// Stores a tile to its place.
    pub(super) fn put(
        &self,
        b: &mut FunctionBuilder<'_>,
        arena: &mut Arena,
        begin: Index,
        tile: Id,
        (row, col): (&Affine, &Affine),
    ) {
        let pointer = self.pointer(b, arena, begin, row, col);
        let (layout, stride) = (b.u32(u32::from(self.layout.down)), self.stride(b, arena));
        let operands = arena.access_operands();
        let all = [pointer, tile, layout, stride].map(Operand::Id).into_iter().chain(operands);
        b.effect(Op::CooperativeMatrixStoreKHR, all);
    }

    /// The operands of a load of a tile from its place.
    pub(super) fn load_operands(
        &self,
        b: &mut FunctionBuilder<'_>,
        arena: &mut Arena,
        begin: Index,
        (row, col): (&Affine, &Affine),
    ) -> Vec<Operand> {
        let pointer = self.pointer(b, arena, begin, row, col);
        let (layout, stride) = (b.u32(u32::from(self.layout.down)), self.stride(b, arena));
        let operands = arena.access_operands();
        [pointer, layout, stride].map(Operand::Id).into_iter().chain(operands).collect()
    }

    /// The operands of a load that makes every column (if `down`) or every row of a tile the piece of a line that begins
    /// at `at`.
    pub(super) fn broadcast_operands(
        &self,
        b: &mut FunctionBuilder<'_>,
        arena: &mut Arena,
        begin: Index,
        (line, at): (u32, &Affine),
        down: bool,
    ) -> Vec<Operand> {
        let pointer = self.pointer(b, arena, begin, &Affine::constant(line), at);
        let (layout, stride) = (b.u32(u32::from(down)), b.u32(0));
        let operands = arena.access_operands();
        [pointer, layout, stride].map(Operand::Id).into_iter().chain(operands).collect()
    }

    fn pointer(&self, b: &mut FunctionBuilder<'_>, arena: &mut Arena, begin: Index, row: &Affine, col: &Affine) -> Id {
        let quad = Affine::scaled(begin, 1).plus(&self.layout.quad(row, col)).emit(b);
        arena.matrix_pointer(b, quad, self.layout.elem)
    }

    /// The distance of two lines, in what the pointer points to.
    fn stride(&self, b: &mut FunctionBuilder<'_>, arena: &Arena) -> Id {
        b.u32(self.layout.pitch * arena.units_of_quad(self.layout.elem))
    }

    /// Visits the units of the staging buffer, one in `step` of them from `first` on: line, first element, first word of the
    /// array.
    pub(super) fn for_each_unit(
        &self,
        b: &mut FunctionBuilder<'_>,
        begin: Index,
        (first, step): (Index, u32),
        body: &mut dyn FnMut(&mut FunctionBuilder<'_>, Index, Index, Index),
    ) {
        small_type(b.module, self.layout.elem.scalar);
        let words = b.mul(begin, Index::Const(4));
        let layout = self.layout;
        b.count(first, Index::Const(layout.units()), Index::Const(step), Unroll::Never, &mut |b, unit| {
            let (line, at, word) = layout.place(b, unit);
            let word = b.add(words, word);
            body(b, line, at, word);
        });
    }

    /// The byte of the array at which an element begins.
    pub(super) fn byte(&self, b: &mut FunctionBuilder<'_>, begin: Index, line: Index, at: Index) -> Index {
        let layout = &self.layout;
        let size = layout.elem.scalar.bytes();
        let begin = b.mul(begin, Index::Const(QUAD));
        let line = b.mul(line, Index::Const(layout.pitch * QUAD));
        let along = if layout.is_dense() {
            b.mul(at, Index::Const(size))
        } else {
            let (piece, rest) = (b.div(at, layout.piece), b.rem(at, layout.piece));
            let piece = b.mul(piece, Index::Const(layout.piece_quads() * QUAD));
            let rest = b.mul(rest, Index::Const(size));
            b.add(piece, rest)
        };
        let offset = b.add(line, along);
        b.add(begin, offset)
    }

    /// Row and column of an element of a line, counted from the first of the staging buffer.
    pub(super) fn row_col(&self, line: Index, at: Index) -> (Index, Index) {
        self.layout.row_col(line, at)
    }

    /// The elements of the unit that begins at a word.
    pub(super) fn load_unit(&self, b: &mut FunctionBuilder<'_>, arena: &mut Arena, word: Index) -> Vec<Id> {
        let word_type = b.u32_type();
        let words: Vec<Id> = if self.layout.unit_words() == 4 {
            let quad = b.div(word, 4);
            let quad = arena.load_quad(b, quad);
            (0..4).map(|i| b.op(Op::CompositeExtract, word_type, [quad.into(), Operand::Word(i)])).collect()
        } else {
            vec![arena.load_word(b, word)]
        };
        let Elem { scalar, ty } = self.layout.elem;
        match scalar.width() {
            8 | 16 => words.into_iter().flat_map(|w| split_value(b, scalar, ty, w, 32)).collect(),
            32 if ty == word_type => words,
            32 => words.into_iter().map(|w| b.ids(Op::Bitcast, ty, &[w])).collect(),
            width => {
                let count = (width / 32) as usize;
                words.chunks(count).map(|c| gather(b, WORD, word_type, c, ty)).collect()
            }
        }
    }

    /// Writes the elements of the unit that begins at a word.
    pub(super) fn store_unit(&self, b: &mut FunctionBuilder<'_>, arena: &mut Arena, word: Index, elements: &[Id]) {
        let words = words_of(b, self.layout.elem, elements);
        match <[Id; 4]>::try_from(words) {
            Ok(four) => {
                let word_type = b.u32_type();
                let quad_type = b.globals.vector(b.module, word_type, 4);
                let value = b.ids(Op::CompositeConstruct, quad_type, &four);
                let quad = b.div(word, 4);
                arena.store_quad(b, quad, value);
            }
            Err(words) => {
                for (i, value) in (0..).zip(words) {
                    let at = b.add(word, Index::Const(i));
                    arena.store_word(b, at, value);
                }
            }
        }
    }
}
