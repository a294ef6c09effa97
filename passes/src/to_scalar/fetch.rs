//! Fetches factors from memory and puts them into shared memory.
//!
//! Each lane loads some pieces of a slice. They are fetched by a function that gives them as an array, while others still
//! read the slice before, or while the last one is multiplied; and put into shared memory when it is free. A slice of too
//! many pieces for that is loaded by a loop.

use super::arith::MulAdd;
use super::exchange_buffer::where_;
use super::memory::{Arg, Visit};
use super::product::{Plan, Source};
use super::staged_factor::{Factor, QUAD_BITS, StagedFactor};
use super::{Key, Lower};
use crate::matrix::arena::{Arena, words_of};
use crate::matrix::bits::small_type;
use crate::matrix::placement::MajorOrder;
use crate::tensor;
use coop_ir::builder::{FunctionBuilder, Index, Unroll};
use coop_ir::{Id, Op, Operand};

/// More pieces become a loop.
const MOST_PIECES: u32 = 8;

/// A function that loads a lane's pieces of a slice.
#[derive(Clone, Copy)]
pub(super) struct Fetch {
    /// It takes the operands of the load, and the first `k` of the slice.
    pub(super) function: Id,
    /// The type of its result: an array of words, vectors of words, or elements.
    pub(super) ret: Id,
    /// True if elements are decoded, which waits for what is loaded.
    pub(super) decodes: bool,
    lane_pieces: LanePieces,
}

/// The pieces of a slice that a lane loads.
#[derive(Clone, Copy)]
struct LanePieces {
    count: u32,
    /// An entry of the array: some words, or an element.
    kept: Id,
    /// Words in an entry; 0: an element.
    words: u32,
    /// Entries of a piece.
    entries: u32,
}

/// The position of a piece in a slice.
struct Piece {
    line: Index,
    at: Index,
    /// Holds if there is such a piece; `None` if there always is.
    real: Option<Id>,
}

impl Factor {
    /// The number of pieces that a lane loads: pairs of them where lines come two by two.
    fn piece_count(&self) -> u32 {
        let thick = if self.pairs { 2 } else { 1 };
        self.total().div_ceil(self.mat.placement.grid.lanes()) * thick
    }

    /// Returns true if the pieces of a lane can wait in registers.
    pub(super) fn can_wait(&self) -> bool {
        self.piece_count() <= MOST_PIECES
    }

    /// Piece `t` of a lane.
    fn piece_of(&self, b: &mut FunctionBuilder<'_>, lane: Index, t: u32) -> Piece {
        let (total, lanes) = (self.total(), self.mat.placement.grid.lanes());
        let round = if self.pairs { t / 2 } else { t };
        let whole = (round + 1) * lanes <= total;
        let real = (!whole).then(|| {
            let number = b.add(lane, Index::Const(round * lanes));
            b.compare(Op::ULessThan, number, Index::Const(total))
        });
        let (line, at) = self.place_of(b, lane, Index::Const(t));
        Piece { line, at, real }
    }

    /// The line and the first element of piece `t` of a lane.
    fn place_of(&self, b: &mut FunctionBuilder<'_>, lane: Index, t: Index) -> (Index, Index) {
        let pieces = self.length / self.piece;
        let thick = if self.pairs { 2 } else { 1 };
        let round = b.div(t, thick);
        let skipped = b.mul(round, Index::Const(self.mat.placement.grid.lanes()));
        let number = b.add(lane, skipped);
        let (line, piece) = (b.div(number, pieces), b.rem(number, pieces));
        let line = b.mul(line, Index::Const(thick));
        let of_pair = b.rem(t, thick);
        (b.add(line, of_pair), b.mul(piece, Index::Const(self.piece)))
    }

    /// The pieces of a slice: pairs of them where lines come two by two.
    fn total(&self) -> u32 {
        let thick = if self.pairs { 2 } else { 1 };
        self.length / self.piece * self.lines / thick
    }

    /// The lanes that load a part of a slice.
    pub(super) fn loading_lanes(&self) -> u32 {
        self.total().min(self.mat.placement.grid.lanes())
    }

    /// Returns true if all lanes load as many pieces, each of which is a quad.
    fn has_equal_quads(&self) -> bool {
        let equal = self.total().is_multiple_of(self.mat.placement.grid.lanes());
        equal && self.piece * self.mat.scalar.width() == QUAD_BITS
    }
}

/// A load in a function that is made.
enum Load {
    Plain(Box<Visit>),
    /// And whether runs are along the factor's lines.
    Tensor(Box<tensor::Visit>, bool),
}

impl Load {
    fn new(
        b: &mut FunctionBuilder<'_>,
        source: &Source,
        inputs: &[Arg],
        factor: Factor,
        lane: Index,
        known: &dyn Fn(Id) -> Option<u64>,
    ) -> Load {
        match source {
            Source::Memory(access) => Load::Plain(Box::new(Visit::new(b, access, 0, inputs, lane, known))),
            Source::Tensor(access) => {
                let along = if access.runs_down { MajorOrder::Column } else { MajorOrder::Row };
                Load::Tensor(Box::new(access.begin(b, 0)), along == factor.mat.order)
            }
            Source::Value(_) | Source::Moved(..) | Source::Resident(_) => unreachable!("arrays are not loaded"),
        }
    }

    /// All pieces of a lane in the slice from `k` on, as quads. `None` where they are no quads, or lanes have no equal shares.
    fn quads(
        &mut self,
        b: &mut FunctionBuilder<'_>,
        factor: Factor,
        (lane, k): (Index, Index),
        count: u32,
    ) -> Option<Vec<Id>> {
        let Load::Tensor(visit, true) = self else { return None };
        if !factor.has_equal_quads() || !visit.has_quads() {
            return None;
        }
        let mut place = |b: &mut FunctionBuilder<'_>, t: Index| {
            let (line, at) = factor.place_of(b, lane, t);
            factor.element(b, line, at, k)
        };
        let places: Vec<(Index, Index)> = (0..count).map(|t| place(b, Index::Const(t))).collect();
        visit.load_quads(b, &mut tensor::Share { places: &places, place: &mut place })
    }

    /// Neighbours along the lines of the factor, from an element on.
    fn run(&mut self, b: &mut FunctionBuilder<'_>, order: MajorOrder, row: Index, col: Index, count: u32) -> Vec<Id> {
        match self {
            Load::Plain(visit) => visit.load_run(b, row, col, order, count),
            Load::Tensor(visit, true) if count > 1 => {
                visit.load_run(b, row, col, count).into_iter().map(|l| l.value).collect()
            }
            Load::Tensor(visit, _) => {
                let mut out = Vec::new();
                for n in 0..count {
                    let (row, col) = match order {
                        MajorOrder::Row => (row, b.add(col, Index::Const(n))),
                        MajorOrder::Column => (b.add(row, Index::Const(n)), col),
                    };
                    out.push(visit.load(b, row, col).value);
                }
                out
            }
        }
    }
}

impl Lower<'_, '_> {
    /// The function that fetches a slice of a factor, unless its pieces are too many.
    pub(super) fn fetch(&mut self, factor: Factor, source: &Source) -> Option<Fetch> {
        if !factor.can_wait() {
            return None;
        }
        let count = factor.piece_count();
        let bits = factor.piece * factor.mat.scalar.width();
        let words = if bits < 32 { 0 } else { (bits / 32).min(4) };
        let entries = (bits / 32).checked_div(words).unwrap_or(factor.piece);
        let word = self.g.uint(self.m, 32);
        let kept = match words {
            0 => factor.mat.elem,
            1 => word,
            n => self.g.vector(self.m, word, n),
        };
        let ret = self.g.array(self.m, kept, count * entries);
        let lane_pieces = LanePieces { count, kept, words, entries };
        let key = self.load_key(factor, source, &[0, factor.length, factor.lines, factor.piece]);
        let function = self.function(key, &mut |this| this.make_fetch(factor, source, ret, lane_pieces));
        let decodes = matches!(source, Source::Tensor(access) if access.decodes());
        Some(Fetch { function, ret, decodes, lane_pieces })
    }

    fn load_key(&mut self, factor: Factor, source: &Source, more: &[u32]) -> Key {
        let (mut key, _) = self.source_key(source);
        key.types.push(factor.mat.ty);
        key.extra.extend(more.iter().map(|w| Operand::Word(*w)));
        key
    }

    /// The parameters of a function for a load: their types, and what a plain load's inputs are; `k` comes last.
    fn load_types(&mut self, source: &Source) -> (Vec<Id>, Vec<Arg>) {
        let word = self.g.uint(self.m, 32);
        let (mut types, inputs) = match source {
            Source::Memory(access) => self.params(access, 0),
            Source::Tensor(access) => (access.param_types(self.m), Vec::new()),
            Source::Value(_) | Source::Moved(..) | Source::Resident(_) => unreachable!("arrays are not loaded"),
        };
        types.push(word);
        (types, inputs)
    }

    fn make_fetch(&mut self, factor: Factor, source: &Source, ret: Id, lane_pieces: LanePieces) -> Id {
        small_type(self.m, factor.mat.scalar);
        let (types, inputs) = self.load_types(source);
        let label = format!("coop_fetch_{}", factor.mat.label());
        let constants = &self.constants;
        let known = |id: Id| constants.get(id).fixed();
        let mut f = FunctionBuilder::new(self.m, &mut self.g, &label, ret, &types);
        let b = &mut f;
        let lane = self.lanes.lane(b, factor.mat.workgroup);
        let k = Index::Value(b.param(types.len() - 1));
        let mut load = Load::new(b, source, &inputs, factor, lane, &known);
        if let Some(quads) = load.quads(b, factor, (lane, k), lane_pieces.count) {
            let value = b.ids(Op::CompositeConstruct, ret, &quads);
            return f.finish(Some(value));
        }
        let mut parts = Vec::new();
        for t in 0..lane_pieces.count {
            let piece = factor.piece_of(b, lane, t);
            let mut all = |b: &mut FunctionBuilder<'_>| {
                let (row, col) = factor.element(b, piece.line, piece.at, k);
                let values = load.run(b, factor.mat.order, row, col, factor.piece);
                if lane_pieces.words == 0 {
                    return values;
                }
                let words = words_of(b, factor.mat.element(), &values);
                let entry = |part: &[Id]| match part {
                    [one] => *one,
                    part => b.ids(Op::CompositeConstruct, lane_pieces.kept, part),
                };
                words.chunks(lane_pieces.words as usize).map(entry).collect()
            };
            let Some(real) = piece.real else {
                parts.extend(all(b));
                continue;
            };
            let entries = lane_pieces.entries as usize;
            let nothing = b.globals.null(b.module, lane_pieces.kept);
            parts.extend(b.choose(real, &vec![lane_pieces.kept; entries], &mut all, &mut |_| vec![nothing; entries]));
        }
        let value = b.ids(Op::CompositeConstruct, ret, &parts);
        f.finish(Some(value))
    }

    /// The function that loads a slice of a factor in a loop; it takes the stage too where there are two.
    pub(super) fn fill(&mut self, plan: Plan, factor: Factor, source: &Source) -> Id {
        let at = plan.at[usize::from(!factor.is_a)];
        let place =
            [1, factor.length, factor.lines, factor.piece, factor.pitch, factor.elem.ty.get(), at.key(), plan.stages];
        let key = self.load_key(factor, source, &place);
        self.function(key, &mut |this| {
            small_type(this.m, factor.mat.scalar);
            let (mut types, inputs) = this.load_types(source);
            let k = types.len() - 1;
            if plan.stages > 1 {
                types.push(this.g.uint(this.m, 32));
            }
            let label = format!("coop_fill_{}", factor.mat.label());
            let constants = &this.constants;
            let known = |id: Id| constants.get(id).fixed();
            let void = this.g.void(this.m);
            let mut f = FunctionBuilder::new(this.m, &mut this.g, &label, void, &types);
            let b = &mut f;
            let lane = this.lanes.lane(b, factor.mat.workgroup);
            let begin = this.lanes.begin(b, &mut this.arena, at);
            let mut to = StagedFactor { factor, begin };
            if plan.stages > 1 {
                let stage = Index::Value(b.param(k + 1));
                to = to.stage(b, stage);
            }
            let k = Index::Value(b.param(k));
            let mut load = Load::new(b, source, &inputs, factor, lane, &known);
            let pieces = factor.length / factor.piece;
            let total = pieces * factor.lines;
            let lanes = factor.mat.placement.grid.lanes();
            let lane_pieces = total.div_ceil(lanes);
            let arena = &mut this.arena;
            b.repeat(lane_pieces, if lane_pieces <= 16 { Unroll::Ask } else { Unroll::No }, &mut |b, t| {
                let skipped = b.mul(t, Index::Const(lanes));
                let number = b.add(lane, skipped);
                let unsure = !total.is_multiple_of(lanes);
                let real = unsure.then(|| b.compare(Op::ULessThan, number, Index::Const(total)));
                where_(b, real, &mut |b| {
                    let (line, piece) = (b.div(number, pieces), b.rem(number, pieces));
                    let at = b.mul(piece, Index::Const(factor.piece));
                    let (row, col) = factor.element(b, line, at, k);
                    let values = load.run(b, factor.mat.order, row, col, factor.piece);
                    let values: Vec<Id> = values.into_iter().map(|v| factor.staged(b, plan.mul, v)).collect();
                    to.put(b, arena, line, at, &values);
                });
            });
            f.finish(None)
        })
    }
}

/// Puts what was fetched into shared memory.
pub(super) fn fetched(
    b: &mut FunctionBuilder<'_>,
    arena: &mut Arena,
    fetch: &Fetch,
    to: &StagedFactor,
    mul: MulAdd,
    lane: Index,
    value: Id,
) {
    let factor = to.factor;
    let LanePieces { count, kept, words, entries } = fetch.lane_pieces;
    // What a lane has of piece `t`: words, or elements.
    let parts = |b: &mut FunctionBuilder<'_>, t: u32| {
        let mut parts = Vec::new();
        for entry in t * entries..(t + 1) * entries {
            let value = b.op(Op::CompositeExtract, kept, [value.into(), Operand::Word(entry)]);
            let word = b.u32_type();
            match words {
                0 | 1 => parts.push(value),
                n => parts.extend((0..n).map(|n| b.op(Op::CompositeExtract, word, [value.into(), n.into()]))),
            }
        }
        parts
    };
    for t in (0..count).step_by(if factor.pairs { 2 } else { 1 }) {
        let piece = factor.piece_of(b, lane, t);
        where_(b, piece.real, &mut |b| {
            let one = parts(b, t);
            if factor.pairs {
                let other = parts(b, t + 1);
                to.put_pairs(b, arena, (piece.line, piece.at), [&one, &other]);
                return;
            }
            if words > 0 && factor.packed && factor.elem == factor.mat.element() {
                to.put_words(b, arena, piece.line, piece.at, &one);
                return;
            }
            let values = match words {
                0 => one.into_iter().map(|v| factor.staged(b, mul, v)).collect(),
                _ => factor.widened(b, mul, &one),
            };
            to.put(b, arena, piece.line, piece.at, &values);
        });
    }
}
