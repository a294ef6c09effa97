//! The layout of a factor of a product in shared memory, and the code that writes and reads it.

use super::arith::MulAdd;
use super::{Mat, exchange_buffer};
use crate::matrix::affine::Affine;
use crate::matrix::arena::{Arena, Elem, words_of};
use crate::matrix::bits::{gather, part, split_value};
use crate::matrix::placement::{MajorOrder, whole_pieces};
use coop_ir::builder::{FunctionBuilder, Index};
use coop_ir::hash::FxHashMap;
use coop_ir::types::Scalar;
use coop_ir::{Id, Op, Operand};

/// Bits of a quad.
pub(super) const QUAD_BITS: u32 = 128;

const WORD: Scalar = Scalar::Int { width: 32, signed: false };

/// A factor in shared memory.
#[derive(Clone, Copy)]
pub(super) struct Factor {
    pub(super) mat: Mat,
    pub(super) is_a: bool,
    pub(super) signed: bool,
    /// The type of an element in shared memory: elements as the matrix has them, or widened to the type of the sums already.
    pub(super) elem: Elem,
    /// True if lines go along K.
    pub(super) k_along: bool,
    /// True if lines lie across those in memory.
    pub(super) transposed: bool,
    /// True if two lines are transposed together: a word has a pair of elements.
    pub(super) pairs: bool,
    /// True if it stays in shared memory, all of it.
    pub(super) resident: bool,
    pub(super) packed: bool,
    /// The adjacent elements in memory that are loaded together.
    pub(super) piece: u32,
    /// Neighbours in a line that can be read together.
    pub(super) together: u32,
    /// Elements of a line in a slice, as it lies in memory.
    pub(super) length: u32,
    /// Lines of a slice, as it lies in memory.
    pub(super) lines: u32,
    /// Lines of a slice in shared memory.
    height: u32,
    /// Quads from line to line.
    pub(super) pitch: u32,
}

impl Factor {
    /// Makes the layout for slices of `slice` of `k`; with `pairs`, f16 is transposed too.
    pub(super) fn new(
        mat: Mat,
        (is_a, signed, pairs): (bool, bool, bool),
        tile_piece: u32,
        slice: u32,
        elem: Elem,
    ) -> Factor {
        let shape = mat.placement.shape;
        let along_memory = (mat.order == MajorOrder::Row) == is_a;
        let across = if is_a { shape.rows } else { shape.cols };
        let (length, lines) = if along_memory { (slice, across) } else { (across, slice) };
        let bits = elem.scalar.width();
        let most = QUAD_BITS / mat.scalar.width();
        let piece = whole_pieces(length, most).min(whole_pieces(mat.piece(), most));
        let transposed = along_memory && (bits == 32 || pairs);
        let (k_along, packed, together, height, pitch) = if transposed {
            // Lines begin in different banks, for those who write.
            let each = QUAD_BITS / bits;
            (false, true, whole_pieces(across, each), slice, across.div_ceil(each) + 1)
        } else {
            // What is read together: a block of k, or a piece of the lane's rows or columns.
            let read = if along_memory { piece } else { piece.min(tile_piece) };
            let packed = read * bits >= 32;
            let words = length.saturating_mul(exchange_buffer::words(elem.scalar));
            let quads = if packed { length.saturating_mul(bits).div_ceil(QUAD_BITS) } else { words.div_ceil(4) };
            (along_memory, packed, piece, lines, if along_memory { quads | 1 } else { quads })
        };
        Factor {
            mat,
            is_a,
            signed,
            elem,
            k_along,
            transposed,
            pairs: transposed && pairs,
            resident: false,
            packed,
            piece,
            together,
            length,
            lines,
            height,
            pitch,
        }
    }

    /// The quads of a slice.
    pub(super) fn quads(&self) -> u32 {
        self.height.saturating_mul(self.pitch)
    }

    pub(super) fn bytes(&self) -> u32 {
        self.quads().saturating_mul(16)
    }

    /// Returns true if lines in memory go along K.
    pub(super) fn along_memory(&self) -> bool {
        self.k_along || self.transposed
    }

    /// Returns the position in the matrix of element `at` of a line of memory, in the slice from `k` on.
    pub(super) fn element(&self, b: &mut FunctionBuilder<'_>, line: Index, at: Index, k: Index) -> (Index, Index) {
        let (in_line, of_line) = if self.along_memory() { (b.add(at, k), line) } else { (at, b.add(line, k)) };
        match self.mat.order {
            MajorOrder::Row => (of_line, in_line),
            MajorOrder::Column => (in_line, of_line),
        }
    }

    /// The value put into shared memory for an element.
    pub(super) fn staged(&self, b: &mut FunctionBuilder<'_>, mul: MulAdd, value: Id) -> Id {
        if self.elem.ty == self.mat.elem { value } else { mul.widen(b, value, self.mat, self.signed) }
    }

    /// The values put into shared memory for the elements of words of memory.
    pub(super) fn widened(&self, b: &mut FunctionBuilder<'_>, mul: MulAdd, words: &[Id]) -> Vec<Id> {
        let element = self.mat.element();
        if element.scalar == Scalar::BF16 && self.elem.scalar == (Scalar::Float { width: 32 }) {
            // The upper half of the number's bits.
            let word = b.u32_type();
            let mask = b.u32(0xffff_0000);
            let sixteen = b.u32(16);
            let mut out = Vec::new();
            for w in words {
                for bits in [(Op::ShiftLeftLogical, sixteen), (Op::BitwiseAnd, mask)] {
                    let bits = b.ids(bits.0, word, &[*w, bits.1]);
                    out.push(b.ids(Op::Bitcast, self.elem.ty, &[bits]));
                }
            }
            return out;
        }
        let values = elements(b, element, words);
        values.into_iter().map(|v| self.staged(b, mul, v)).collect()
    }

    /// A number of the type of the sums, of what was in shared memory.
    fn number(&self, b: &mut FunctionBuilder<'_>, mul: MulAdd, value: Id) -> Id {
        if self.elem.ty == self.mat.elem { mul.widen(b, value, self.mat, self.signed) } else { value }
    }

    /// The numbers of the type of the sums that a quad holds; by vectors where that is shorter.
    fn numbers(&self, b: &mut FunctionBuilder<'_>, mul: MulAdd, quad: Id) -> Vec<Id> {
        let (sum, word) = (mul.sum(), b.u32_type());
        let sum_type = b.globals.scalar(b.module, sum);
        let four = b.globals.vector(b.module, sum_type, 4);
        let extract = |b: &mut FunctionBuilder<'_>, ty: Id, from: Id, n: u32| {
            b.op(Op::CompositeExtract, ty, [from.into(), Operand::Word(n)])
        };
        if self.elem.scalar.width() == 32 && sum.width() == 32 {
            let all = if sum_type == word { quad } else { b.ids(Op::Bitcast, four, &[quad]) };
            return (0..4).map(|n| extract(b, sum_type, all, n)).collect();
        }
        if self.elem.scalar == (Scalar::Float { width: 16 }) && sum == (Scalar::Float { width: 32 }) {
            let (pair, halves) = (b.globals.vector(b.module, word, 2), b.globals.vector(b.module, self.elem.ty, 4));
            let mut out = Vec::new();
            for n in [0, 2] {
                let words = [quad.into(), quad.into(), Operand::Word(n), Operand::Word(n + 1)];
                let words = b.op(Op::VectorShuffle, pair, words);
                let halves = b.ids(Op::Bitcast, halves, &[words]);
                let all = b.ids(Op::FConvert, four, &[halves]);
                out.extend((0..4).map(|n| extract(b, sum_type, all, n)));
            }
            return out;
        }
        let words: Vec<Id> = (0..4).map(|n| extract(b, word, quad, n)).collect();
        let values = elements(b, self.elem, &words);
        values.into_iter().map(|v| self.number(b, mul, v)).collect()
    }

    /// The `k` that can be read together.
    pub(super) fn k_piece(&self) -> u32 {
        if self.k_along && self.packed { self.piece.min(QUAD_BITS / self.elem.scalar.width()) } else { 1 }
    }
}

/// A factor while code is made.
#[derive(Clone, Copy)]
pub(super) struct StagedFactor {
    pub(super) factor: Factor,
    /// The quad at which it begins.
    pub(super) begin: Index,
}

impl StagedFactor {
    /// The same in stage `n`.
    pub(super) fn stage(&self, b: &mut FunctionBuilder<'_>, n: Index) -> StagedFactor {
        if self.factor.resident {
            return *self;
        }
        let skipped = b.mul(n, Index::Const(self.factor.quads()));
        StagedFactor { begin: b.add(self.begin, skipped), ..*self }
    }

    /// The same from `k` on, if all of it is there.
    pub(super) fn from(&self, b: &mut FunctionBuilder<'_>, k: Option<Index>) -> StagedFactor {
        let Some(k) = k.filter(|_| self.factor.resident) else { return *self };
        let skipped = b.mul(k, Index::Const(self.factor.pitch));
        StagedFactor { begin: b.add(self.begin, skipped), ..*self }
    }

    fn line(&self, b: &mut FunctionBuilder<'_>, line: Index) -> Index {
        let offset = b.mul(line, Index::Const(self.factor.pitch));
        b.add(self.begin, offset)
    }

    /// Writes neighbours of a line of memory, from its element `at` on.
    pub(super) fn put(&self, b: &mut FunctionBuilder<'_>, arena: &mut Arena, line: Index, at: Index, values: &[Id]) {
        let elem = self.factor.elem;
        if !self.factor.packed {
            let quad = self.line(b, line);
            for (n, value) in (0..).zip(values) {
                let place = b.add(at, Index::Const(n));
                exchange_buffer::ElementBuffer::new(b, quad, elem).put(b, arena, place, *value);
            }
            return;
        }
        let words = words_of(b, elem, values);
        self.put_words(b, arena, line, at, &words);
    }

    /// Writes four neighbours across the lines of a transposed factor: from line `line` of memory on, which is a
    /// multiple of four, their elements `at`.
    pub(super) fn put_transposed(
        &self,
        b: &mut FunctionBuilder<'_>,
        arena: &mut Arena,
        line: Index,
        at: Index,
        values: &[Id],
    ) {
        let words = words_of(b, self.factor.elem, values);
        let quad = self.line(b, at);
        let across = b.div(line, 4);
        let quad = b.add(quad, across);
        let word = b.u32_type();
        let vector = b.globals.vector(b.module, word, 4);
        let value = b.ids(Op::CompositeConstruct, vector, &words);
        arena.store_quad(b, quad, value);
    }

    /// Writes neighbours of two lines of memory that are transposed, from element `at` on: words of f16 of line `line`, which
    /// is even, and of the next one.
    pub(super) fn put_pairs(
        &self,
        b: &mut FunctionBuilder<'_>,
        arena: &mut Arena,
        (line, at): (Index, Index),
        [one, other]: [&[Id]; 2],
    ) {
        let quad = self.line(b, at);
        let (across, pair) = (b.div(line, 8), b.div(line, 2));
        let (first, part) = (b.add(quad, across), b.rem(pair, 4));
        let (word, sixteen) = (b.u32_type(), b.u32(16));
        let [lower, upper] = [0xffff, 0xffff_0000].map(|mask| b.u32(mask));
        for (n, (x, y)) in (0..).zip(one.iter().zip(other)) {
            let even = [(Op::BitwiseAnd, *x, lower), (Op::ShiftLeftLogical, *y, sixteen)];
            let odd = [(Op::ShiftRightLogical, *x, sixteen), (Op::BitwiseAnd, *y, upper)];
            for (n, halves) in (2 * n..).zip([even, odd]) {
                let halves = halves.map(|(op, value, by)| b.ids(op, word, &[value, by]));
                let both = b.ids(Op::BitwiseOr, word, &halves);
                let quad = b.add(first, Index::Const(n * self.factor.pitch));
                arena.store_part(b, quad, part, both);
            }
        }
    }

    /// As [`StagedFactor::put`], for elements that are words already, as they are to be in shared memory.
    pub(super) fn put_words(
        &self,
        b: &mut FunctionBuilder<'_>,
        arena: &mut Arena,
        line: Index,
        at: Index,
        words: &[Id],
    ) {
        if self.factor.transposed {
            let quad = self.line(b, at);
            let (across, part) = (b.div(line, 4), b.rem(line, 4));
            let first = b.add(quad, across);
            for (n, word) in (0..).zip(words) {
                let quad = b.add(first, Index::Const(n * self.factor.pitch));
                arena.store_part(b, quad, part, *word);
            }
            return;
        }
        let quad = self.line(b, line);
        let bits = self.factor.elem.scalar.width();
        if words.len().is_multiple_of(4) {
            let at = b.div(at, QUAD_BITS / bits);
            let first = b.add(quad, at);
            let word = b.u32_type();
            let vector = b.globals.vector(b.module, word, 4);
            for (n, four) in (0..).zip(words.chunks(4)) {
                let value = b.ids(Op::CompositeConstruct, vector, four);
                let quad = b.add(first, Index::Const(n));
                arena.store_quad(b, quad, value);
            }
            return;
        }
        let first = b.mul(quad, Index::Const(4));
        let at = if bits > 32 { b.mul(at, Index::Const(bits / 32)) } else { b.div(at, 32 / bits) };
        let first = b.add(first, at);
        for (n, word) in (0..).zip(words) {
            let place = b.add(first, Index::Const(n));
            arena.store_word(b, place, *word);
        }
    }

    /// Reads `count` neighbours of a line, from its element `at` on, which is a multiple of `count`, as numbers of the
    /// type of the sums. `known` has sums that were computed before, where the code goes straight on.
    pub(super) fn get(
        &self,
        b: &mut FunctionBuilder<'_>,
        arena: &mut Arena,
        mul: MulAdd,
        (line, at): (&Affine, &Affine),
        count: u32,
        known: &mut FxHashMap<Affine, Index>,
    ) -> Vec<Id> {
        if !self.factor.packed {
            let (line, at) = (line.emit(b), at.emit(b));
            let quad = self.line(b, line);
            let buffer = exchange_buffer::ElementBuffer::new(b, quad, self.factor.elem);
            return (0..count)
                .map(|n| {
                    let place = b.add(at, Index::Const(n));
                    let value = buffer.get(b, arena, place);
                    self.factor.number(b, mul, value)
                })
                .collect();
        }
        let bits = self.factor.elem.scalar.width();
        let each = QUAD_BITS / bits;
        let (quads, in_quad) = at.div_rem_by_parts(b, each);
        let sum = line.clone().times(self.factor.pitch).plus(&Affine::scaled(self.begin, 1)).plus(&quads);
        let (sum, constant) = sum.split_constant();
        let base = match known.get(&sum) {
            Some(base) => *base,
            None => {
                let base = sum.emit(b);
                known.insert(sum, base);
                base
            }
        };
        if count.is_multiple_of(each) {
            let mut out = Vec::new();
            for n in 0..count / each {
                let quad = b.add(base, Index::Const(constant + n));
                let quad = arena.load_quad(b, quad);
                out.extend(self.factor.numbers(b, mul, quad));
            }
            return out;
        }
        // Neighbours that are a part of a quad do not go beyond it.
        let quad = b.add(base, Index::Const(constant));
        let first = if bits > 32 { b.mul(in_quad, Index::Const(bits / 32)) } else { b.div(in_quad, 32 / bits) };
        let words: Vec<Id> = (0..(count * bits).div_ceil(32))
            .map(|n| {
                let part = b.add(first, Index::Const(n));
                arena.load_part(b, quad, part)
            })
            .collect();
        let mut all = elements(b, self.factor.elem, &words);
        all.truncate(count as usize);
        all.into_iter().map(|v| self.factor.number(b, mul, v)).collect()
    }

    /// Reads one element of a line, as a number of the type of the sums.
    pub(super) fn one(
        &self,
        b: &mut FunctionBuilder<'_>,
        arena: &mut Arena,
        mul: MulAdd,
        line: Index,
        at: Index,
    ) -> Id {
        let Elem { scalar, ty } = self.factor.elem;
        let bits = scalar.width();
        if !self.factor.packed || bits >= 32 {
            let (line, at) = (Affine::scaled(line, 1), Affine::scaled(at, 1));
            return self.get(b, arena, mul, (&line, &at), 1, &mut FxHashMap::default()).remove(0);
        }
        let quad = self.line(b, line);
        let first = b.mul(quad, Index::Const(4));
        let word = b.div(at, 32 / bits);
        let word = b.add(first, word);
        let word = arena.load_word(b, word);
        let rest = b.rem(at, 32 / bits);
        let bit = b.mul(rest, Index::Const(bits));
        let value = part(b, scalar, ty, word, 32, bit);
        self.factor.number(b, mul, value)
    }
}

/// The elements that words consist of.
pub(super) fn elements(b: &mut FunctionBuilder<'_>, elem: Elem, words: &[Id]) -> Vec<Id> {
    let Elem { scalar, ty } = elem;
    let word_type = b.u32_type();
    match scalar.width() {
        0..32 => words.iter().flat_map(|w| split_value(b, scalar, ty, *w, 32)).collect(),
        32 => words.iter().map(|w| if ty == word_type { *w } else { b.ids(Op::Bitcast, ty, &[*w]) }).collect(),
        _ => words.chunks(2).map(|pair| gather(b, WORD, word_type, pair, ty)).collect(),
    }
}
