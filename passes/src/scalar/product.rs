//! MulAdd of factors that go through shared memory.
//!
//! No lane holds the rows and columns that its tile of C needs. A slice of K of both factors is put into shared memory
//! by all lanes together, then each lane multiplies its tile out of it: for a block of `k` it reads what its rows of A
//! and its columns of B have there, and adds their outer products to its sums, which stay in registers. Slices are as
//! long as there is room for; a factor that was only loaded to be multiplied goes from memory to shared memory without
//! ever being held ([`Source::Memory`]).
//!
//! # How a factor lies in shared memory
//!
//! In lines along the direction in which it lies in memory ([`Along`]), each line from a whole quad on. *Packed*:
//! elements as they are, so that a piece of neighbours is written and read as whole words or quads; an odd number of
//! quads from line to line keeps lanes that read neighbouring lines from the same banks. *Loose*, where neighbours don't
//! make whole words: a word for each element.

use super::arith::MulAdd;
use super::array::{Array, Sink, unroll_much};
use super::bits::{part, small_type, spread};
use super::lin::Lin;
use super::memory::{Access, Visit};
use super::spot::{At, Spot, both};
use super::stage::where_;
use super::{Key, Lower, Mat, stage};
use crate::Refusal;
use crate::arena::{Arena, Elem, Region, Zone, words_of};
use crate::placement::{Along, whole_pieces};
use crate::tensor;
use coop_ir::builder::{FunctionBuilder, Index, Unroll};
use coop_ir::types::Scalar;
use coop_ir::{Id, InstRef, Op, Operand};
use rustc_hash::FxHashMap;

/// Bits of a quad.
const QUAD_BITS: u32 = 128;

/// The largest tile that is kept in registers; a larger one is added up in memory.
const IN_REGISTERS: u32 = 256;

/// Multiplications of a lane that are written out between two barriers at most.
const WRITTEN_OUT: u32 = 1024;

/// Bytes of shared memory that the slices of a product take at most, so that several workgroups can be resident.
const MOST_BYTES: u32 = 48 << 10;

/// The `k` of a slice at most.
const LONGEST_SLICE: u32 = 64;

/// Slices of widened elements that are shorter are not worth their barriers.
const SHORTEST_WIDE: u32 = 8;

/// The `k` that are multiplied at once at most.
const LONGEST_BLOCK: u32 = 16;

/// Where the elements of a factor come from.
pub(super) enum Source {
    /// An array of which each lane holds a part.
    Value(Id),
    /// A load, whose result nothing else uses.
    Memory(Box<Access>),
    /// The same of a tensor.
    Tensor(Box<tensor::Access>),
}

/// A factor in shared memory.
#[derive(Clone, Copy)]
struct Factor {
    mat: Mat,
    is_a: bool,
    signed: bool,
    /// What is in shared memory: elements as the matrix has them, or widened to the type of the sums already.
    elem: Elem,
    /// Whether lines go along K.
    k_along: bool,
    packed: bool,
    /// Neighbours in a line that are written together.
    piece: u32,
    /// Elements of a line in a slice.
    length: u32,
    /// Lines of a slice.
    lines: u32,
    /// Quads from line to line.
    pitch: u32,
}

impl Factor {
    /// For slices of `slice` of `k`.
    fn new(mat: Mat, is_a: bool, signed: bool, tile_piece: u32, slice: u32, elem: Elem) -> Factor {
        let shape = mat.band.shape;
        let k_along = (mat.along == Along::Row) == is_a;
        let across = if is_a { shape.rows } else { shape.cols };
        let (length, lines) = if k_along { (slice, across) } else { (across, slice) };
        let bits = elem.scalar.width();
        let most = QUAD_BITS / mat.scalar.width();
        let piece = whole_pieces(length, most).min(whole_pieces(mat.piece(), most));
        // What is read together: a block of k, or a piece of the lane's rows or columns.
        let read = if k_along { piece } else { piece.min(tile_piece) };
        let packed = read * bits >= 32;
        let quads =
            if packed { (length * bits).div_ceil(QUAD_BITS) } else { (length * stage::words(elem.scalar)).div_ceil(4) };
        let pitch = if k_along { quads | 1 } else { quads };
        Factor { mat, is_a, signed, elem, k_along, packed, piece, length, lines, pitch }
    }

    fn bytes(&self) -> u32 {
        self.lines.saturating_mul(self.pitch).saturating_mul(16)
    }

    /// Where element `at` of a line is in the matrix, in the slice from `k` on.
    fn element(&self, b: &mut FunctionBuilder<'_>, line: Index, at: Index, k: Index) -> (Index, Index) {
        let (in_line, of_line) = if self.k_along { (b.add(at, k), line) } else { (at, b.add(line, k)) };
        match self.mat.along {
            Along::Row => (of_line, in_line),
            Along::Column => (in_line, of_line),
        }
    }

    /// What goes into shared memory for an element.
    fn staged(&self, b: &mut FunctionBuilder<'_>, mul: MulAdd, value: Id) -> Id {
        if self.elem.ty == self.mat.elem { value } else { mul.widen(b, value, self.mat, self.signed) }
    }

    /// A number of the type of the sums, of what was in shared memory.
    fn number(&self, b: &mut FunctionBuilder<'_>, mul: MulAdd, value: Id) -> Id {
        if self.elem.ty == self.mat.elem { mul.widen(b, value, self.mat, self.signed) } else { value }
    }

    /// The `k` that can be read together.
    fn k_piece(&self) -> u32 {
        if self.k_along && self.packed { self.piece.min(QUAD_BITS / self.elem.scalar.width()) } else { 1 }
    }
}

/// A factor while code is made.
struct Staged {
    factor: Factor,
    zone: Zone,
    /// The quad at which it begins.
    begin: Index,
}

impl Staged {
    fn line(&self, b: &mut FunctionBuilder<'_>, line: Index) -> Index {
        let offset = b.mul(line, Index::Const(self.factor.pitch));
        b.add(self.begin, offset)
    }

    /// Writes neighbours of a line, from its element `at` on.
    fn put(&self, b: &mut FunctionBuilder<'_>, arena: &mut Arena, line: Index, at: Index, values: &[Id]) {
        let elem = self.factor.elem;
        if !self.factor.packed {
            let quad = self.line(b, line);
            for (n, value) in (0..).zip(values) {
                let place = b.add(at, Index::Const(n));
                stage::Loose::new(b, self.zone, quad, elem).put(b, arena, place, *value);
            }
            return;
        }
        let words = words_of(b, elem, values);
        self.put_words(b, arena, line, at, &words);
    }

    /// The same for elements that are words already, as they are to be in shared memory.
    fn put_words(&self, b: &mut FunctionBuilder<'_>, arena: &mut Arena, line: Index, at: Index, words: &[Id]) {
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
                arena.store_quad(b, self.zone, quad, value);
            }
            return;
        }
        let first = b.mul(quad, Index::Const(4));
        let at = if bits > 32 { b.mul(at, Index::Const(bits / 32)) } else { b.div(at, 32 / bits) };
        let first = b.add(first, at);
        for (n, word) in (0..).zip(words) {
            let place = b.add(first, Index::Const(n));
            arena.store_word(b, self.zone, place, *word);
        }
    }

    /// Reads `count` neighbours of a line, from its element `at` on, which is a multiple of `count`. `known` has sums that
    /// were computed before, where the code goes straight on.
    fn get(
        &self,
        b: &mut FunctionBuilder<'_>,
        arena: &mut Arena,
        line: &Lin,
        at: &Lin,
        count: u32,
        known: &mut FxHashMap<Lin, Index>,
    ) -> Vec<Id> {
        let scalar = self.factor.elem.scalar;
        let each = QUAD_BITS / scalar.width();
        if self.factor.packed && count.is_multiple_of(each) {
            let (quads, _) = at.div_rem(b, each);
            let sum = line.clone().times(self.factor.pitch).plus(&Lin::scaled(self.begin, 1)).plus(&quads);
            let (sum, constant) = sum.apart();
            let base = match known.get(&sum) {
                Some(base) => *base,
                None => {
                    let base = sum.emit(b);
                    known.insert(sum, base);
                    base
                }
            };
            let word_type = b.u32_type();
            let mut words = Vec::new();
            for n in 0..count / each {
                let quad = b.add(base, Index::Const(constant + n));
                let quad = arena.load_quad(b, self.zone, quad);
                for n in 0..4 {
                    words.push(b.op(Op::CompositeExtract, word_type, [quad.into(), Operand::Word(n)]));
                }
            }
            return elements(b, self.factor.elem, &words);
        }
        let (line, at) = (line.emit(b), at.emit(b));
        let quad = self.line(b, line);
        if !self.factor.packed {
            let loose = stage::Loose::new(b, self.zone, quad, self.factor.elem);
            return (0..count)
                .map(|n| {
                    let place = b.add(at, Index::Const(n));
                    loose.get(b, arena, place)
                })
                .collect();
        }
        let bits = scalar.width();
        let first = b.mul(quad, Index::Const(4));
        let at = if bits > 32 { b.mul(at, Index::Const(bits / 32)) } else { b.div(at, 32 / bits) };
        let first = b.add(first, at);
        let words: Vec<Id> = (0..(count * bits).div_ceil(32))
            .map(|n| {
                let place = b.add(first, Index::Const(n));
                arena.load_word(b, self.zone, place)
            })
            .collect();
        let mut all = elements(b, self.factor.elem, &words);
        all.truncate(count as usize);
        all
    }

    /// Reads one element of a line.
    fn one(&self, b: &mut FunctionBuilder<'_>, arena: &mut Arena, line: Index, at: Index) -> Id {
        let Elem { scalar, ty } = self.factor.elem;
        let bits = scalar.width();
        if !self.factor.packed || bits >= 32 {
            let (line, at) = (Lin::scaled(line, 1), Lin::scaled(at, 1));
            return self.get(b, arena, &line, &at, 1, &mut FxHashMap::default()).remove(0);
        }
        let quad = self.line(b, line);
        let first = b.mul(quad, Index::Const(4));
        let word = b.div(at, 32 / bits);
        let word = b.add(first, word);
        let word = arena.load_word(b, self.zone, word);
        let rest = b.rem(at, 32 / bits);
        let bit = b.mul(rest, Index::Const(bits));
        part(b, scalar, ty, word, 32, bit)
    }
}

const WORD: Scalar = Scalar::Int { width: 32, signed: false };

/// How a product is made.
#[derive(Clone, Copy)]
struct Plan {
    mul: MulAdd,
    a: Factor,
    b: Factor,
    /// The `k` of a slice, and how many slices there are.
    slice: u32,
    slices: u32,
    /// The `k` that are multiplied at once.
    block: u32,
    /// Where the factors are.
    at: [Region; 2],
}

impl Lower<'_, '_> {
    /// MulAdd through shared memory.
    pub(super) fn product(&mut self, r: InstRef, mul: MulAdd, sources: [Source; 2], c: Id) -> Result<(), Refusal> {
        let mut key = Key {
            op: Op::CooperativeMatrixMulAddKHR,
            types: [mul.d, mul.a, mul.b, mul.c].map(|m| m.ty).to_vec(),
            extra: vec![mul.bits.bits().into()],
        };
        let mut args = Vec::new();
        for source in &sources {
            match source {
                Source::Value(id) => args.push(*id),
                Source::Memory(access) => {
                    let (mine, inputs) = self.signature(access, Op::CooperativeMatrixLoadKHR);
                    key.extra.push(Operand::Word(u32::from(mine.op.0)));
                    key.types.extend(mine.types);
                    key.extra.extend(mine.extra);
                    args.extend(inputs);
                }
                Source::Tensor(access) => {
                    let mine = self.tensor_key(Op::CooperativeMatrixLoadTensorNV, access);
                    key.extra.push(Operand::Word(u32::from(mine.op.0)));
                    key.types.extend(mine.types);
                    key.extra.extend(mine.extra);
                    args.extend(&access.args);
                }
            }
        }
        args.push(c);
        self.call(r, key, &args, &mut |this| this.make_product(r, mul, &sources))
    }

    /// The longest slices for which there is room.
    fn plan(&mut self, r: InstRef, mul: MulAdd) -> Result<Plan, Refusal> {
        use spirv::CooperativeMatrixOperands as Bits;
        let zone = self.zone(r, mul.d.workgroup)?;
        let depth = mul.a.band.shape.cols;
        let (a_signed, b_signed) = (
            mul.bits.contains(Bits::MATRIX_A_SIGNED_COMPONENTS_KHR),
            mul.bits.contains(Bits::MATRIX_B_SIGNED_COMPONENTS_KHR),
        );
        let band = mul.d.band;
        let sum = mul.sum();
        let sum = Elem { scalar: sum, ty: self.g.scalar(self.m, sum) };
        let factors = |slice: u32, wide: bool| {
            let elem = |m: Mat| if wide && m.scalar.width() < sum.scalar.width() { sum } else { m.element() };
            let a = Factor::new(mul.a, true, a_signed, band.rows.piece, slice, elem(mul.a));
            let b = Factor::new(mul.b, false, b_signed, band.cols.piece, slice, elem(mul.b));
            (a, b)
        };
        let room = self.arena.room(zone).min(MOST_BYTES);
        let longest = |wide: bool| {
            let fits = |slice: &u32| {
                let (a, b) = factors(*slice, wide);
                depth.is_multiple_of(*slice) && a.bytes().saturating_add(b.bytes()) <= room
            };
            // Whole slices, so that none is longer than what is left.
            (1..=depth.min(LONGEST_SLICE)).rev().find(fits).unwrap_or(1)
        };
        // Conversions are cheaper once, on the way in, than each time that an element is read.
        let (wide, slice) = match longest(true) {
            slice if slice >= SHORTEST_WIDE.min(depth) => (true, slice),
            _ => (false, longest(false)),
        };
        let (a, b) = factors(slice, wide);
        let work = band.len();
        let wanted = match (a.k_along && a.packed, b.k_along && b.packed) {
            (true, true) => a.k_piece().min(b.k_piece()),
            (true, false) => a.k_piece(),
            (false, true) => b.k_piece(),
            (false, false) => whole_pieces(slice, 4),
        };
        let mut block = wanted.min(LONGEST_BLOCK);
        let least =
            [a, b].iter().filter(|f| f.k_along && f.packed).map(|f| 32u32.div_ceil(f.elem.scalar.width())).max();
        while block > least.unwrap_or(1) && block * work > WRITTEN_OUT {
            block /= 2;
        }
        let mark = self.arena.mark();
        let what = "a product of matrices";
        let first = self.arena.take(r, what, zone, a.bytes())?;
        let second = self.arena.take(r, what, zone, b.bytes())?;
        self.arena.release(mark);
        Ok(Plan { mul, a, b, slice, slices: depth / slice, block, at: [first, second] })
    }

    fn make_product(&mut self, r: InstRef, mul: MulAdd, sources: &[Source; 2]) -> Result<Id, Refusal> {
        let plan = self.plan(r, mul)?;
        let mut types = Vec::new();
        let mut inputs = Vec::new();
        for (source, mat) in sources.iter().zip([mul.a, mul.b]) {
            let first = types.len();
            match source {
                Source::Value(_) => {
                    types.push(mat.ty);
                    inputs.push((first, Vec::new()));
                }
                Source::Memory(access) => {
                    let (more, args) = self.params(access, first);
                    types.extend(more);
                    inputs.push((first, args));
                }
                Source::Tensor(access) => {
                    types.extend(access.param_types(self.m));
                    inputs.push((first, Vec::new()));
                }
            }
        }
        let c_at = types.len();
        types.push(mul.c.ty);
        for m in [mul.a, mul.b, mul.c, mul.d] {
            small_type(self.m, m.scalar);
        }
        let label = format!("coop_product_{}_{}", mul.d.label(), mul.a.band.shape.cols);
        let constants = &self.constants;
        let known = |id: Id| constants.get(id).fixed();
        let mut f = FunctionBuilder::new(self.m, &mut self.g, &label, mul.d.ty, &types);
        let b = &mut f;
        let (arena, lanes) = (&mut self.arena, &mut self.lanes);
        let lane = lanes.lane(b, mul.d.workgroup);
        let zone = plan.at[0].zone;
        let [x, y] = [(plan.a, plan.at[0]), (plan.b, plan.at[1])].map(|(factor, region)| Staged {
            factor,
            zone,
            begin: lanes.begin(b, arena, region),
        });
        let mut fills = Vec::new();
        for ((source, staged), (first, args)) in sources.iter().zip([&x, &y]).zip(&inputs) {
            fills.push(match source {
                Source::Value(_) => {
                    let value = b.param(*first);
                    Fill::Array(value)
                }
                Source::Memory(access) => Fill::Visit(Box::new(Visit::new(b, access, *first, args, lane, &known))),
                Source::Tensor(access) => {
                    let along = if access.runs_down { Along::Column } else { Along::Row };
                    Fill::Tensor(Box::new(access.begin(b, *first)), along == staged.factor.mat.along)
                }
            });
        }
        let c = b.param(c_at);
        let tile = Tile::new(b, plan, lane, c);
        let mut rounds: Vec<Option<Rounds>> = Vec::new();
        for (fill, staged) in fills.iter_mut().zip([&x, &y]) {
            let mut of = fill.is_load().then(|| Rounds::new(b, staged.factor, lane)).flatten();
            if let Some(rounds) = &mut of {
                rounds.fetch(b, fill, staged.factor, Index::Const(0));
            }
            rounds.push(of);
        }
        b.repeat(plan.slices, Unroll::No, &mut |b, slice| {
            arena.barrier(b, zone);
            let k = b.mul(slice, Index::Const(plan.slice));
            for ((fill, staged), rounds) in fills.iter_mut().zip([&x, &y]).zip(&rounds) {
                match rounds {
                    Some(rounds) => rounds.put(b, arena, staged, plan.mul),
                    None => fill.run(b, arena, staged, plan, lane, k),
                }
            }
            arena.barrier(b, zone);
            if plan.slices > 1 && rounds.iter().any(Option::is_some) {
                let next = b.add(k, Index::Const(plan.slice));
                let more = b.compare(Op::ULessThan, next, Index::Const(plan.slice * plan.slices));
                b.when(more, &mut |b| {
                    for ((fill, staged), rounds) in fills.iter_mut().zip([&x, &y]).zip(&rounds) {
                        if let Some(rounds) = rounds {
                            rounds.fetch(b, fill, staged.factor, next);
                        }
                    }
                });
            }
            tile.multiply(b, arena, plan, &x, &y);
        });
        let result = tile.finish(b, plan);
        Ok(f.finish(Some(result)))
    }
}

/// What fills a factor's place.
enum Fill {
    Array(Id),
    Visit(Box<Visit>),
    /// And whether runs are along the factor's lines.
    Tensor(Box<tensor::Visit>, bool),
}

impl Fill {
    fn is_load(&self) -> bool {
        !matches!(self, Fill::Array(_))
    }

    fn run(&mut self, b: &mut FunctionBuilder<'_>, arena: &mut Arena, to: &Staged, plan: Plan, lane: Index, k: Index) {
        match self {
            Fill::Array(value) => from_array(b, arena, to, plan, lane, k, *value),
            load => together(b, arena, to, plan.mul, lane, k, load),
        }
    }

    /// Loads neighbours along the lines of the factor, from an element on.
    fn load(&mut self, b: &mut FunctionBuilder<'_>, along: Along, row: Index, col: Index, count: u32) -> Vec<Id> {
        match self {
            Fill::Array(_) => unreachable!("arrays are not loaded"),
            Fill::Visit(visit) => visit.load_run(b, row, col, along, count),
            Fill::Tensor(visit, true) if count > 1 => {
                visit.load_run(b, row, col, count).into_iter().map(|l| l.value).collect()
            }
            Fill::Tensor(visit, _) => {
                let mut out = Vec::new();
                for n in 0..count {
                    let (row, col) = match along {
                        Along::Row => (row, b.add(col, Index::Const(n))),
                        Along::Column => (b.add(row, Index::Const(n)), col),
                    };
                    out.push(visit.load(b, row, col).value);
                }
                out
            }
        }
    }
}

/// The pieces of a factor's slices that a lane brings: they are loaded while others still read the slice before, and
/// wait in variables.
struct Rounds {
    rounds: Vec<Round>,
    /// What a variable holds: some words, or an element.
    kept: Id,
    /// Words in a variable; 0: an element.
    words: u32,
}

struct Round {
    line: Index,
    at: Index,
    /// Whether there is such a piece, where that is not sure.
    real: Option<Id>,
    variables: Vec<Id>,
}

/// More rounds become a loop, and don't wait in variables.
const MOST_ROUNDS: u32 = 8;

impl Rounds {
    fn new(b: &mut FunctionBuilder<'_>, factor: Factor, lane: Index) -> Option<Rounds> {
        let pieces = factor.length / factor.piece;
        let total = pieces * factor.lines;
        let lanes = factor.mat.grid.lanes();
        let count = total.div_ceil(lanes);
        if count > MOST_ROUNDS {
            return None;
        }
        let bits = factor.piece * factor.mat.scalar.width();
        let words = if bits < 32 { 0 } else { (bits / 32).min(4) };
        let variables = if words == 0 { factor.piece } else { bits / 32 / words };
        let word = b.u32_type();
        let kept = match words {
            0 => factor.mat.elem,
            1 => word,
            n => b.globals.vector(b.module, word, n),
        };
        let rounds = (0..count)
            .map(|t| {
                let number = b.add(lane, Index::Const(t * lanes));
                let whole = (t + 1) * lanes <= total;
                let real = (!whole).then(|| b.compare(Op::ULessThan, number, Index::Const(total)));
                let (line, piece) = (b.div(number, pieces), b.rem(number, pieces));
                let at = b.mul(piece, Index::Const(factor.piece));
                let variables = (0..variables).map(|_| b.variable(kept)).collect();
                Round { line, at, real, variables }
            })
            .collect();
        Some(Rounds { rounds, kept, words })
    }

    /// Loads the pieces of the slice from `k` on.
    fn fetch(&self, b: &mut FunctionBuilder<'_>, fill: &mut Fill, factor: Factor, k: Index) {
        for round in &self.rounds {
            where_(b, round.real, &mut |b| {
                let (row, col) = factor.element(b, round.line, round.at, k);
                let values = fill.load(b, factor.mat.along, row, col, factor.piece);
                let values = match self.words {
                    0 => values,
                    _ => words_of(b, factor.mat.element(), &values),
                };
                for (variable, part) in round.variables.iter().zip(values.chunks(self.words.max(1) as usize)) {
                    let value = if part.len() == 1 { part[0] } else { b.ids(Op::CompositeConstruct, self.kept, part) };
                    b.effect(Op::Store, [*variable, value].map(Operand::Id));
                }
            });
        }
    }

    /// Puts them into shared memory.
    fn put(&self, b: &mut FunctionBuilder<'_>, arena: &mut Arena, to: &Staged, mul: MulAdd) {
        let factor = to.factor;
        for round in &self.rounds {
            where_(b, round.real, &mut |b| {
                let mut parts = Vec::new();
                for variable in &round.variables {
                    let value = b.ids(Op::Load, self.kept, &[*variable]);
                    let word = b.u32_type();
                    match self.words {
                        0 | 1 => parts.push(value),
                        n => parts.extend((0..n).map(|n| b.op(Op::CompositeExtract, word, [value.into(), n.into()]))),
                    }
                }
                if self.words > 0 && factor.packed && factor.elem == factor.mat.element() {
                    to.put_words(b, arena, round.line, round.at, &parts);
                    return;
                }
                let values = if self.words == 0 { parts } else { elements(b, factor.mat.element(), &parts) };
                let values: Vec<Id> = values.into_iter().map(|v| factor.staged(b, mul, v)).collect();
                to.put(b, arena, round.line, round.at, &values);
            });
        }
    }
}

/// The elements that words consist of.
fn elements(b: &mut FunctionBuilder<'_>, elem: Elem, words: &[Id]) -> Vec<Id> {
    let Elem { scalar, ty } = elem;
    let word_type = b.u32_type();
    match scalar.width() {
        0..32 => words.iter().flat_map(|w| spread(b, scalar, ty, *w, 32)).collect(),
        32 => words.iter().map(|w| if ty == word_type { *w } else { b.ids(Op::Bitcast, ty, &[*w]) }).collect(),
        _ => words.chunks(2).map(|pair| super::bits::gather(b, WORD, word_type, pair, ty)).collect(),
    }
}

/// Writes the slice from `k` on of what the lanes hold.
fn from_array(
    b: &mut FunctionBuilder<'_>,
    arena: &mut Arena,
    to: &Staged,
    plan: Plan,
    lane: Index,
    k: Index,
    value: Id,
) {
    let factor = to.factor;
    let mat = factor.mat;
    let spot = Spot::of_lane(b, mat, lane);
    let how = unroll_much(mat.band.len());
    let array = Array::new(b, mat, value, how != Unroll::Now);
    let band = mat.band;
    let (in_line, lines) = match mat.along {
        Along::Row => (band.cols, band.rows),
        Along::Column => (band.rows, band.cols),
    };
    // A lane's neighbours are the matrix's as long as they are in one piece.
    let run = if factor.packed { factor.piece.min(in_line.piece) } else { 1 };
    let first = spot.first(b);
    where_(b, first, &mut |b| {
        b.repeat(lines.held, how, &mut |b, line| {
            b.repeat(in_line.held / run, how, &mut |b, n| {
                let at = b.mul(n, Index::Const(run));
                let (i, j) = if mat.along == Along::Row { (line, at) } else { (at, line) };
                let At { row, col, real } = spot.place(b, i, j);
                let (line_at, place) = if mat.along == Along::Row { (row, col) } else { (col, row) };
                let (line_at, place) = (line_at.emit(b), place.emit(b));
                let (deep, other) = if factor.k_along { (place, line_at) } else { (line_at, place) };
                let (deep, inside) = if plan.slices == 1 {
                    (deep, None)
                } else {
                    let offset = b.u32_op(Op::ISub, deep, k);
                    (offset, Some(b.compare(Op::ULessThan, offset, Index::Const(plan.slice))))
                };
                let (place, line_at) = if factor.k_along { (deep, other) } else { (other, deep) };
                let mine = both(b, real, inside);
                where_(b, mine, &mut |b| {
                    let mut values = Vec::new();
                    for t in 0..run {
                        let at = b.add(at, Index::Const(t));
                        let (i, j) = if mat.along == Along::Row { (line, at) } else { (at, line) };
                        let row = b.mul(i, Index::Const(band.cols.held));
                        let index = b.add(row, j);
                        let value = array.get(b, index);
                        values.push(factor.staged(b, plan.mul, value));
                    }
                    to.put(b, arena, line_at, place, &values);
                });
            });
        });
    });
}

/// Fills a slice with what `load` gives for pieces, consecutive lanes taking consecutive pieces of a line.
fn together(
    b: &mut FunctionBuilder<'_>,
    arena: &mut Arena,
    to: &Staged,
    mul: MulAdd,
    lane: Index,
    k: Index,
    fill: &mut Fill,
) {
    let factor = to.factor;
    let pieces = factor.length / factor.piece;
    let total = pieces * factor.lines;
    let lanes = factor.mat.grid.lanes();
    let rounds = total.div_ceil(lanes);
    b.repeat(rounds, if rounds <= 16 { Unroll::Ask } else { Unroll::No }, &mut |b, t| {
        let skipped = b.mul(t, Index::Const(lanes));
        let number = b.add(lane, skipped);
        let real = (!total.is_multiple_of(lanes)).then(|| b.compare(Op::ULessThan, number, Index::Const(total)));
        where_(b, real, &mut |b| {
            let (line, piece) = (b.div(number, pieces), b.rem(number, pieces));
            let at = b.mul(piece, Index::Const(factor.piece));
            let (row, col) = factor.element(b, line, at, k);
            let values = fill.load(b, factor.mat.along, row, col, factor.piece);
            let values: Vec<Id> = values.into_iter().map(|v| factor.staged(b, mul, v)).collect();
            to.put(b, arena, line, at, &values);
        });
    });
}

/// The sums of a lane.
struct Tile {
    spot: Spot,
    c: Id,
    how: Sums,
}

enum Sums {
    /// A vector for each row and each few columns.
    Registers { variables: Vec<Id>, vector: Id, width: u32 },
    /// One array.
    Memory { array: Id },
}

impl Tile {
    fn new(b: &mut FunctionBuilder<'_>, plan: Plan, lane: Index, c: Id) -> Tile {
        let mul = plan.mul;
        let band = mul.d.band;
        let spot = Spot::of_lane(b, mul.d, lane);
        let sum = mul.sum();
        let sum_type = b.globals.scalar(b.module, sum);
        if band.len() > IN_REGISTERS {
            let array_type = b.globals.array(b.module, sum_type, band.len());
            let array = b.variable(array_type);
            let cs = Array::new(b, mul.c, c, true);
            b.repeat(band.len(), Unroll::No, &mut |b, at| {
                let value = cs.get(b, at);
                let first = mul.begin(b, value);
                let slot = super::array::slot(b, array, sum_type, at);
                b.effect(Op::Store, [slot, first].map(Operand::Id));
            });
            return Tile { spot, c, how: Sums::Memory { array } };
        }
        let width = whole_pieces(band.cols.held, 4);
        let vector = if width == 1 { sum_type } else { b.globals.vector(b.module, sum_type, width) };
        let mut variables = Vec::new();
        for i in 0..band.rows.held {
            for j in (0..band.cols.held).step_by(width as usize) {
                let parts: Vec<Id> = (j..j + width)
                    .map(|j| {
                        let at = Operand::Word(band.index(i, j));
                        let value = b.op(Op::CompositeExtract, mul.c.elem, [c.into(), at]);
                        mul.begin(b, value)
                    })
                    .collect();
                let first = if width == 1 { parts[0] } else { b.ids(Op::CompositeConstruct, vector, &parts) };
                let variable = b.variable(vector);
                b.effect(Op::Store, [variable, first].map(Operand::Id));
                variables.push(variable);
            }
        }
        Tile { spot, c, how: Sums::Registers { variables, vector, width } }
    }

    fn multiply(&self, b: &mut FunctionBuilder<'_>, arena: &mut Arena, plan: Plan, x: &Staged, y: &Staged) {
        match &self.how {
            Sums::Registers { variables, vector, width } => {
                b.repeat(plan.slice / plan.block, Unroll::No, &mut |b, n| {
                    self.block(b, arena, plan, [x, y], (n, plan.block), (variables, *vector, *width));
                });
            }
            Sums::Memory { array } => self.one_by_one(b, arena, plan, [x, y], *array),
        }
    }

    /// A lane's rows (or columns) of a factor for a block of `k`, the product of the two of `k`: by row, then by `k`, as numbers of the sum's type.
    fn read(
        &self,
        b: &mut FunctionBuilder<'_>,
        arena: &mut Arena,
        plan: Plan,
        staged: &Staged,
        k: (Index, u32),
        range: std::ops::Range<u32>,
    ) -> Vec<Vec<Id>> {
        let factor = staged.factor;
        let is_a = factor.is_a;
        let cut = if is_a { plan.mul.d.band.rows } else { plan.mul.d.band.cols };
        let place = |b: &mut FunctionBuilder<'_>, i: u32| {
            let (lin, _) = if is_a { self.spot.row(b, Index::Const(i)) } else { self.spot.col(b, Index::Const(i)) };
            lin
        };
        let known = &mut FxHashMap::default();
        let k = Lin::scaled(k.0, k.1);
        let mut out: Vec<Vec<Id>> = Vec::new();
        if factor.k_along {
            for i in range {
                let line = place(b, i);
                let values = if factor.packed {
                    staged.get(b, arena, &line, &k, plan.block, known)
                } else {
                    let line = line.emit(b);
                    (0..plan.block)
                        .map(|n| {
                            let at = k.clone().plus(&Lin::constant(n)).emit(b);
                            staged.one(b, arena, line, at)
                        })
                        .collect()
                };
                out.push(values.into_iter().map(|v| factor.number(b, plan.mul, v)).collect());
            }
            return out;
        }
        // Together what the lane has together, as far as the factor was written so.
        let whole = if factor.packed { factor.piece.min(whole_pieces(cut.piece, factor.piece)) } else { 1 };
        out.resize(range.len(), Vec::new());
        for n in 0..plan.block {
            let line = k.clone().plus(&Lin::constant(n));
            for (at, i) in (0..).zip(range.clone()).step_by(whole as usize) {
                let first = place(b, i);
                let values = if whole * factor.elem.scalar.width() >= 32 || !factor.packed {
                    staged.get(b, arena, &line, &first, whole, known)
                } else {
                    let (line, first) = (line.emit(b), first.emit(b));
                    vec![staged.one(b, arena, line, first)]
                };
                for (t, value) in (at..).zip(values) {
                    let wide = factor.number(b, plan.mul, value);
                    let list: &mut Vec<Id> = &mut out[t as usize];
                    list.push(wide);
                }
            }
        }
        out
    }

    /// Adds the outer products of a block of `k`.
    fn block(
        &self,
        b: &mut FunctionBuilder<'_>,
        arena: &mut Arena,
        plan: Plan,
        [x, y]: [&Staged; 2],
        k: (Index, u32),
        (variables, vector, width): (&[Id], Id, u32),
    ) {
        let band = plan.mul.d.band;
        let float = !plan.mul.sum().is_int();
        let (mul_op, add_op) = if float { (Op::FMul, Op::FAdd) } else { (Op::IMul, Op::IAdd) };
        let rows = self.read(b, arena, plan, x, k, 0..band.rows.held);
        // As vectors where that is not the multiplication of a vector by a number.
        let splats: Vec<Vec<Id>> = if float || width == 1 {
            Vec::new()
        } else {
            let splat =
                |b: &mut FunctionBuilder<'_>, v: &Id| b.ids(Op::CompositeConstruct, vector, &vec![*v; width as usize]);
            rows.iter().map(|row| row.iter().map(|v| splat(b, v)).collect()).collect()
        };
        let columns = band.cols.held / width;
        // As many columns at a time as were written together.
        let step = y.factor.piece.min(band.cols.piece).max(width).min(band.cols.held);
        let step = if y.factor.k_along || !step.is_multiple_of(width) { width } else { step };
        for first in (0..band.cols.held).step_by(step as usize) {
            let last = (first + step).min(band.cols.held);
            let values = self.read(b, arena, plan, y, k, first..last);
            for j in (first..last).step_by(width as usize) {
                let these = &values[(j - first) as usize..(j - first + width) as usize];
                let lines: Vec<Id> = (0..plan.block as usize)
                    .map(|n| {
                        let parts: Vec<Id> = these.iter().map(|v| v[n]).collect();
                        if width == 1 { parts[0] } else { b.ids(Op::CompositeConstruct, vector, &parts) }
                    })
                    .collect();
                for i in 0..band.rows.held {
                    let variable = variables[(i * columns + j / width) as usize];
                    let mut sum = b.ids(Op::Load, vector, &[variable]);
                    for (n, line) in lines.iter().enumerate() {
                        let product = if width == 1 {
                            b.ids(mul_op, vector, &[rows[i as usize][n], *line])
                        } else if float {
                            b.ids(Op::VectorTimesScalar, vector, &[*line, rows[i as usize][n]])
                        } else {
                            b.ids(mul_op, vector, &[splats[i as usize][n], *line])
                        };
                        sum = b.ids(add_op, vector, &[sum, product]);
                    }
                    b.effect(Op::Store, [variable, sum].map(Operand::Id));
                }
            }
        }
    }

    /// The same for tiles that no registers hold.
    fn one_by_one(&self, b: &mut FunctionBuilder<'_>, arena: &mut Arena, plan: Plan, [x, y]: [&Staged; 2], array: Id) {
        let mul = plan.mul;
        let band = mul.d.band;
        let sum_type = b.globals.scalar(b.module, mul.sum());
        let one = |b: &mut FunctionBuilder<'_>, arena: &mut Arena, staged: &Staged, k: Index, other: Index| {
            let (line, at) = if staged.factor.k_along { (other, k) } else { (k, other) };
            let value = staged.one(b, arena, line, at);
            staged.factor.number(b, mul, value)
        };
        b.repeat(band.rows.held, Unroll::No, &mut |b, i| {
            let (row, _) = self.spot.row(b, i);
            let row = row.emit(b);
            b.repeat(band.cols.held, Unroll::No, &mut |b, j| {
                let (col, _) = self.spot.col(b, j);
                let col = col.emit(b);
                let line = b.mul(i, Index::Const(band.cols.held));
                let at = b.add(line, j);
                let slot = super::array::slot(b, array, sum_type, at);
                let sum = b.variable(sum_type);
                let before = b.ids(Op::Load, sum_type, &[slot]);
                b.effect(Op::Store, [sum, before].map(Operand::Id));
                b.repeat(plan.slice, Unroll::No, &mut |b, k| {
                    let (left, right) = (one(b, arena, x, k, row), one(b, arena, y, k, col));
                    let before = b.ids(Op::Load, sum_type, &[sum]);
                    let after = mul.step(b, before, left, right);
                    b.effect(Op::Store, [sum, after].map(Operand::Id));
                });
                let after = b.ids(Op::Load, sum_type, &[sum]);
                b.effect(Op::Store, [slot, after].map(Operand::Id));
            });
        });
    }

    /// The elements of the result.
    fn finish(&self, b: &mut FunctionBuilder<'_>, plan: Plan) -> Id {
        let mul = plan.mul;
        let band = mul.d.band;
        let sum_type = b.globals.scalar(b.module, mul.sum());
        match &self.how {
            Sums::Registers { variables, vector, width } => {
                let mut sink = Sink::new(b, mul.d, false);
                let mut at = 0;
                for variable in variables {
                    let all = b.ids(Op::Load, *vector, &[*variable]);
                    for n in 0..*width {
                        let sum = if *width == 1 {
                            all
                        } else {
                            b.op(Op::CompositeExtract, sum_type, [all.into(), Operand::Word(n)])
                        };
                        let c = b.op(Op::CompositeExtract, mul.c.elem, [self.c.into(), Operand::Word(at)]);
                        let value = mul.end(b, sum, c);
                        sink.set(b, Index::Const(at), value);
                        at += 1;
                    }
                }
                sink.finish(b)
            }
            Sums::Memory { array } => {
                let cs = Array::new(b, mul.c, self.c, true);
                let mut sink = Sink::new(b, mul.d, true);
                b.repeat(band.len(), Unroll::No, &mut |b, at| {
                    let slot = super::array::slot(b, *array, sum_type, at);
                    let sum = b.ids(Op::Load, sum_type, &[slot]);
                    let c = cs.get(b, at);
                    let value = mul.end(b, sum, c);
                    sink.set(b, at, value);
                });
                sink.finish(b)
            }
        }
    }
}
