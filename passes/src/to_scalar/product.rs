//! MulAdd of factors that go through shared memory.
//!
//! No lane holds the rows and columns that its tile of C needs. A slice of K of both factors is put into shared memory
//! by all lanes together, then each lane multiplies its tile out of it: for a block of `k` it reads what its rows of A
//! and its columns of B have there, and adds their outer products to its sums, which stay in registers. Slices are as
//! long as there is room for; a factor that was only loaded to be multiplied goes from memory to shared memory without
//! ever being held ([`Source::Memory`]).
//!
//! Sums of f16 into f16 are taken two at a time, in vectors, of factors that stay f16: half of the instructions, and half
//! of what is read. A factor that several products use, or one in a loop, stays in shared memory ([`super::resident`]).
//!
//! # How a factor lies in shared memory
//!
//! In lines along the direction in which it lies in memory ([`crate::matrix::placement::MajorOrder`]), each line from a whole quad on. *Packed*:
//! elements as they are, so that a piece of neighbours is written and read as whole words or quads; an odd number of
//! quads from line to line keeps lanes that read neighbouring lines from the same banks. *Loose*, where neighbours don't
//! make whole words: a word for each element.

use super::ahead::AheadCall;
use super::arith::{HALF, MulAdd};
use super::array::{Array, ArrayBuilder, unroll};
use super::exchange::Conversion;
use super::k_loop::{FactorFill, FillMethod, KLoop, NextIteration, call};
use super::memory::Access;
use super::staged_factor::{Factor, StagedFactor};
use super::{Key, Lower, Mat};
use crate::matrix::arena::{Arena, Elem, Region};
use crate::matrix::bits::small_type;
use crate::matrix::lanes::LaneSource;
use crate::matrix::placement::whole_pieces;
use crate::tensor;
use crate::{Cause, Refusal};
use coop_ir::builder::{FunctionBuilder, Unroll};
use coop_ir::{Id, InstRef, Op, Operand};
use std::ops::Range;

/// Multiplications of a lane that are written out at most, unless a single block of `k` has more.
const WRITTEN_OUT: u32 = 1024;

/// Bytes of shared memory that the slices of a product take at most, so that several workgroups can be resident.
const MOST_BYTES: u32 = 48 << 10;

/// The `k` of a slice at most.
const LONGEST_SLICE: u32 = 64;

/// The same of widened elements: elements that are being fetched wait in registers.
const LONGEST_WIDE: u32 = 16;

/// Slices of widened elements that are shorter are not worth their barriers.
const SHORTEST_WIDE: u32 = 8;

/// The `k` of a slice and the stages of a product that sums in pairs: of those for which there is room, the first in which most lanes
/// load a part of each factor. An H100 reached 49.9 TFLOP/s with slices of 32 in two stages, 49.2 in one, 47.3 with slices of 16. Longer
/// ones are for many lanes with few sums: of 256 lanes with a tile of 32 x 64, 64 would decode a slice of 32.
const PAIRED_SLICES: [(u32, u32); 8] = [(32, 2), (32, 1), (64, 2), (64, 1), (128, 1), (16, 2), (16, 1), (8, 1)];

/// Where K is divided among groups of lanes and a lane has no more sums than this, two stages are worth more than longer slices: products of q4_0 at
/// 4096 x 32 x 14336 (tiles of 32 x 32, 256 lanes) had 10.2 TFLOP/s with two of 64 on an H100 and 8.0 with one of 128, but those at 4096 x 64 x 14336, with
/// 64 sums, 19.3 and 20.5.
const FEW_SUMS_OF_PART: u32 = 32;
const TWO_STAGES: (u32, u32) = (64, 2);

/// The `k` of a slice that each group of lanes multiplies at least, where K is divided among groups: whole words of any element.
const LEAST_K_OF_PART: u32 = 4;

/// Slices of what lanes hold that are written out at most.
pub(super) const WRITTEN_OUT_SLICES: u32 = 4;

/// The `k` that are multiplied at once at most.
const LONGEST_BLOCK: u32 = 16;

/// The source of the elements of a factor.
pub(super) enum Source {
    /// An array of which each lane holds a part.
    Value(Id),
    /// A matrix of another use, which each lane holds a part of.
    Moved(Box<Conversion>, Id),
    /// A load, whose result nothing else uses.
    Memory(Box<Access>),
    /// The same of a tensor.
    Tensor(Box<tensor::Access>),
    /// Shared memory, where it is as it is to be.
    Resident(Resident),
}

/// A factor that stays in shared memory.
#[derive(Clone, Copy)]
pub(super) struct Resident {
    pub(super) factor: Factor,
    pub(super) at: Region,
}

/// The plan of a product.
#[derive(Clone, Copy)]
pub(super) struct Plan {
    pub(super) mul: MulAdd,
    pub(super) a: Factor,
    pub(super) b: Factor,
    /// The `k` of a slice, and how many slices there are.
    pub(super) slice: u32,
    pub(super) slices: u32,
    /// The `k` that are multiplied at once.
    pub(super) block: u32,
    /// Slices for which there is room at the same time: with two, one is written while the other is read.
    pub(super) stages: u32,
    /// The locations of the factors.
    pub(super) at: [Region; 2],
}

impl Plan {
    /// Returns true if a factor stays in shared memory, and more of it than a slice.
    pub(super) fn has_resident(&self) -> bool {
        self.slices > 1 && (self.a.resident || self.b.resident)
    }

    /// The factors, in the first stage.
    pub(super) fn staged(
        &self,
        b: &mut FunctionBuilder<'_>,
        lanes: &mut LaneSource,
        arena: &mut Arena,
    ) -> [StagedFactor; 2] {
        [(self.a, self.at[0]), (self.b, self.at[1])]
            .map(|(factor, region)| StagedFactor { factor, begin: lanes.begin(b, arena, region) })
    }
}

impl Lower<'_, '_> {
    /// MulAdd through shared memory.
    pub(super) fn product(&mut self, r: InstRef, mul: MulAdd, sources: [Source; 2], c: Id) -> Result<(), Refusal> {
        let mut key = Key {
            op: Op::CooperativeMatrixMulAddKHR,
            types: [mul.d, mul.a, mul.b, mul.c].map(|m| m.ty).to_vec(),
            extra: vec![mul.bits.0.into()],
        };
        let mut args = Vec::new();
        for source in &sources {
            let (mine, inputs) = self.source_key(source);
            key.extra.push(Operand::Word(u32::from(mine.op.0)));
            key.types.extend(mine.types);
            key.extra.extend(mine.extra);
            args.extend(inputs);
        }
        args.push(c);
        let ahead = match self.ahead.contains_key(&r) {
            true => {
                let plan = self.plan(r, mul, &sources)?;
                self.fetch_ahead(r, plan, &sources).unwrap_or_default()
            }
            false => AheadCall::default(),
        };
        key.extra.extend(ahead.factors.iter().map(|factor| Operand::Word(factor.is_some().into())));
        args.extend(&ahead.args);
        self.call(r, key, &args, &mut |this| this.make_product(r, mul, &sources, &ahead))
    }

    /// The key of the code for a source, and its arguments.
    pub(super) fn source_key(&mut self, source: &Source) -> (Key, Vec<Id>) {
        match source {
            Source::Value(id) => (Key { op: Op::Nop, types: vec![], extra: vec![] }, vec![*id]),
            Source::Moved(how, id) => (how.key(), vec![*id]),
            Source::Memory(access) => self.signature(access, Op::CooperativeMatrixLoadKHR),
            Source::Tensor(access) => (self.tensor_key(Op::CooperativeMatrixLoadTensorNV, access), access.args.clone()),
            Source::Resident(Resident { factor, at }) => {
                let extra = [at.key(), factor.pitch].map(Operand::Word).to_vec();
                (Key { op: Op::Undef, types: vec![], extra }, vec![])
            }
        }
    }

    /// The longest slices for which there is room.
    fn plan(&mut self, r: InstRef, mul: MulAdd, sources: &[Source; 2]) -> Result<Plan, Refusal> {
        let zone = self.zone(r, mul.d.workgroup)?;
        let depth = mul.a.placement.shape.cols;
        let room = self.arena.room(zone).min(MOST_BYTES);
        let (mul, slice, wide, stages) = match self.pairs(mul, sources, room) {
            Some((mul, slice, stages)) => (mul, slice, true, stages),
            None => self.singles(mul, sources, room),
        };
        let stages = if slice == depth { 1 } else { stages };
        let (a, b) = self.factors(mul, sources, slice, wide);
        let work = mul.d.placement.len();
        let of_group = slice / mul.d.parts;
        if mul.d.parts > 1 && !slice.is_multiple_of(mul.d.parts * LEAST_K_OF_PART) {
            let why = format!(
                "there is no room for a slice of K of which each of {} groups of lanes multiplies a part",
                mul.d.parts
            );
            let remedy = "use smaller matrices, or less shared memory";
            let refusal = Refusal::new("refused-shared-memory", Some(r), why, remedy);
            return Err(refusal.caused_by(Cause::OutOfSharedMemory));
        }
        let wanted = match (a.k_along && a.packed, b.k_along && b.packed) {
            (true, true) => a.k_piece().min(b.k_piece()),
            (true, false) => a.k_piece(),
            (false, true) => b.k_piece(),
            (false, false) => whole_pieces(of_group, 8),
        };
        let mut block = wanted.min(LONGEST_BLOCK).min(1 << of_group.trailing_zeros());
        let least =
            [a, b].iter().filter(|f| f.k_along && f.packed).map(|f| 32u32.div_ceil(f.elem.scalar.width())).max();
        while block > least.unwrap_or(1) && block * work > WRITTEN_OUT {
            block /= 2;
        }
        let mark = self.arena.mark();
        let what = "a product of matrices";
        let mut at = Vec::new();
        for (source, factor) in sources.iter().zip([a, b]) {
            at.push(match source {
                Source::Resident(resident) => resident.at,
                _ => self.arena.take(r, what, zone, factor.bytes().saturating_mul(stages))?,
            });
        }
        self.arena.release(mark);
        Ok(Plan { mul, a, b, slice, slices: depth / slice, block, stages, at: [at[0], at[1]] })
    }

    /// The factors in slices of `slice`, widened if `wide`.
    fn factors(&mut self, mul: MulAdd, sources: &[Source; 2], slice: u32, wide: bool) -> (Factor, Factor) {
        use coop_ir::spv::CooperativeMatrixOperands as Bits;
        let signed = |bit: Bits| mul.bits.contains(bit);
        let (a_signed, b_signed) = (signed(Bits::MatrixASignedComponentsKHR), signed(Bits::MatrixBSignedComponentsKHR));
        let sum = mul.sum();
        let sum = Elem { scalar: sum, ty: self.g.scalar(self.m, sum) };
        let elem = |m: Mat| if wide && m.scalar.width() < sum.scalar.width() { sum } else { m.element() };
        let placement = mul.d.placement;
        let a = Factor::new(mul.a, (true, a_signed, mul.pairs), placement.rows.piece, slice, elem(mul.a));
        let b = Factor::new(mul.b, (false, b_signed, mul.pairs), placement.cols.piece, slice, elem(mul.b));
        let there = |source: &Source, factor: Factor| match source {
            Source::Resident(resident) => resident.factor,
            _ => factor,
        };
        (there(&sources[0], a), there(&sources[1], b))
    }

    /// The product with sums in pairs of f16, its slices and stages, where everything is f16 and lies so that pairs are
    /// read as they are: elements along K have to be transposed between memory and shared memory, two lines at a time.
    fn pairs(&mut self, mul: MulAdd, sources: &[Source; 2], room: u32) -> Option<(MulAdd, u32, u32)> {
        let placement = mul.d.placement;
        let halves = [mul.a, mul.b, mul.c, mul.d].iter().all(|m| m.scalar == HALF) && mul.c.ty == mul.d.ty;
        if !halves
            || !placement.rows.piece.is_multiple_of(2)
            || !placement.cols.piece.is_multiple_of(2)
            || !mul.sums_in_registers()
        {
            return None;
        }
        let mul = MulAdd { pairs: true, ..mul };
        let depth = mul.a.placement.shape.cols;
        let is_loaded = |source: &Source| matches!(source, Source::Memory(_) | Source::Tensor(_));
        // The lanes that load a part of the factor of which fewest do so.
        let mut busy = |(slice, stages): (u32, u32)| {
            let (a, b) = self.factors(mul, sources, slice, true);
            let bytes = slice_bytes(&a, &b).saturating_mul(stages);
            let loaded = |factor: &Factor, source: &Source| {
                is_loaded(source) && factor.piece >= 2 && factor.lines.is_multiple_of(2) && factor.can_wait()
            };
            let factors = || [a, b].into_iter().zip(sources);
            let fits = depth.is_multiple_of(slice)
                && slice.is_multiple_of(mul.d.parts * LEAST_K_OF_PART)
                && bytes <= room
                && factors().all(|(factor, source)| !factor.transposed || loaded(&factor, source));
            let loading = factors().filter(|(_, source)| is_loaded(source)).map(|(factor, _)| factor.loading_lanes());
            fits.then(|| loading.min().unwrap_or(0))
        };
        if mul.d.parts > 1 && placement.len() <= FEW_SUMS_OF_PART && busy(TWO_STAGES).is_some() {
            return Some((mul, TWO_STAGES.0, TWO_STAGES.1));
        }
        // Of equals the first.
        let fitting = PAIRED_SLICES.into_iter().rev().filter_map(|slices| Some((busy(slices)?, slices)));
        let (_, (slice, stages)) = fitting.max_by_key(|(busy, _)| *busy)?;
        Some((mul, slice, stages))
    }

    /// Slices, whether they are widened, and stages, where each element is summed by itself.
    fn singles(&mut self, mul: MulAdd, sources: &[Source; 2], room: u32) -> (MulAdd, u32, bool, u32) {
        let depth = mul.a.placement.shape.cols;
        // Of a partial accumulator each lane has as many sums as of one of `parts` times its size, whose slices would be as long for what is fetched.
        let (whole, longer) = if mul.d.parts > 1 { (mul.d.parts * LEAST_K_OF_PART, 2) } else { (1, 1) };
        let mut longest = |wide: bool, stages: u32, most: u32| {
            let fits = |slice: &u32| {
                let (a, b) = self.factors(mul, sources, *slice, wide);
                let bytes = slice_bytes(&a, &b).saturating_mul(stages);
                depth.is_multiple_of(*slice) && slice.is_multiple_of(whole) && bytes <= room
            };
            // Whole slices, so that none is longer than what is left.
            (1..=depth.min(most)).rev().find(fits).unwrap_or(1)
        };
        // Conversions are cheaper once, when the element is staged, than each time that an element is read; two stages spare half of
        // the barriers. What lanes hold is looked through for each slice, so slices of that are long.
        let held = sources.iter().any(|s| matches!(s, Source::Value(_) | Source::Moved(..)));
        let (wanted, two) = if held { (LONGEST_SLICE, 1) } else { (LONGEST_WIDE * longer, 2) };
        let stages = if depth > wanted { two } else { 1 };
        match (longest(true, stages, wanted), longest(true, 1, wanted)) {
            (slice, _) if slice > wanted.min(depth) / 2 => (mul, slice, true, stages),
            (_, slice) if slice >= SHORTEST_WIDE.min(depth) => (mul, slice, true, 1),
            _ => (mul, longest(false, 1, LONGEST_SLICE), false, 1),
        }
    }

    fn make_product(
        &mut self,
        r: InstRef,
        mul: MulAdd,
        sources: &[Source; 2],
        ahead: &AheadCall,
    ) -> Result<Id, Refusal> {
        let plan = self.plan(r, mul, sources)?;
        let mul = plan.mul;
        if mul.pairs {
            self.approximates("MulAdd of f16 alone, at workgroup scope, sums in f16 and rounds at each k");
        }
        for m in [mul.a, mul.b, mul.c, mul.d] {
            small_type(self.m, m.scalar);
        }
        let sums = self.sums_type(mul);
        let begin = self.begin_sums(mul, sums);
        let multiply = self.multiply(plan, sums);
        let end = self.end_sums(mul, sums);
        let (fills, mut types) = self.fills(plan, sources);
        let at_c = types.len();
        types.push(mul.c.ty);
        types.extend(&ahead.types);
        let label = format!("coop_product_{}_{}", mul.d.label(), mul.a.placement.shape.cols);
        let mut f = FunctionBuilder::new(self.m, &mut self.g, &label, mul.d.ty, &types);
        let b = &mut f;
        let lane = self.lanes.lane(b, mul.d.workgroup);
        let staged = plan.staged(b, &mut self.lanes, &mut self.arena);
        let params: Vec<Id> = (0..types.len()).map(|n| b.param(n)).collect();
        let c = params[at_c];
        let first = begin.map_or(c, |begin| call(b, begin, sums, &[c]));
        let fills = fills.into_iter().zip(staged);
        let fills = fills.zip(&ahead.factors).map(|(((fill, range), staged), ahead)| {
            let of_call = &params[at_c + 1..];
            let next = ahead.as_ref().map(|a| NextIteration {
                args: of_call[a.next.clone()].to_vec(),
                goes_on: of_call[a.goes_on],
                waiting: of_call[a.waiting],
            });
            FactorFill::new(fill, params[range].to_vec(), staged, next)
        });
        let mut slices = KLoop { plan, lane, sums, multiply, fills: fills.collect() };
        let last = slices.multiply_all(b, &mut self.arena, first);
        let result = end.map_or(last, |end| call(b, end, mul.d.ty, &[last, c]));
        Ok(f.finish(Some(result)))
    }

    /// The method that stages each factor, and which of the parameters of the product's function that takes; their
    /// types.
    fn fills(&mut self, plan: Plan, sources: &[Source; 2]) -> (Vec<(FillMethod, Range<usize>)>, Vec<Id>) {
        let mut types = Vec::new();
        let mut fills = Vec::new();
        for (source, factor) in sources.iter().zip([plan.a, plan.b]) {
            let inputs: Vec<Id> = match source {
                Source::Value(_) => vec![factor.mat.ty],
                Source::Moved(how, _) => vec![how.from.ty],
                Source::Memory(access) => self.params(access, 0).0,
                Source::Tensor(access) => access.param_types(self.m),
                Source::Resident(_) => Vec::new(),
            };
            let range = types.len()..types.len() + inputs.len();
            types.extend(inputs);
            let fill = match source {
                Source::Value(_) => FillMethod::Array(None),
                Source::Resident(_) => FillMethod::There,
                Source::Moved(how, _) => FillMethod::Array(Some(how.clone())),
                load => match self.fetch(factor, load) {
                    Some(fetch) => FillMethod::Fetch(fetch),
                    None => FillMethod::Function(self.fill(plan, factor, load)),
                },
            };
            fills.push((fill, range));
        }
        (fills, types)
    }

    /// The type of a lane's sums: an array of them.
    fn sums_type(&mut self, mul: MulAdd) -> Id {
        let sum = mul.sum();
        let sum = self.g.scalar(self.m, sum);
        if mul.keeps_sums() {
            return mul.d.ty;
        }
        let len = mul.d.placement.len();
        if mul.pairs {
            let pair = self.g.vector(self.m, sum, 2);
            return self.g.array(self.m, pair, len / 2);
        }
        self.g.array(self.m, sum, len)
    }

    /// The function that makes sums of C, where C is not that already.
    fn begin_sums(&mut self, mul: MulAdd, sums: Id) -> Option<Id> {
        if mul.keeps_sums() {
            return None;
        }
        let key = Key { op: Op::CopyObject, types: vec![mul.c.ty, sums], extra: vec![mul.bits.0.into()] };
        Some(self.function(key, &mut |this| {
            let label = format!("coop_sums_{}", mul.c.label());
            let mut f = FunctionBuilder::new(this.m, &mut this.g, &label, sums, &[mul.c.ty]);
            let b = &mut f;
            let c = b.param(0);
            if mul.pairs {
                let parts = paired(b, mul, c);
                let value = b.ids(Op::CompositeConstruct, sums, &parts);
                return f.finish(Some(value));
            }
            let how = unroll(mul.c.placement.len());
            let c = Array::new(b, mul.c, c, how != Unroll::Now);
            let sum = b.globals.scalar(b.module, mul.sum());
            let mut sink = ArrayBuilder::of(b, sums, sum, mul.c.placement.len(), how != Unroll::Now);
            b.repeat(mul.c.placement.len(), how, &mut |b, at| {
                let value = c.get(b, at);
                let first = mul.begin(b, value);
                sink.set(b, at, first);
            });
            let value = sink.finish(b);
            f.finish(Some(value))
        }))
    }

    /// The function that makes the result of the sums and C, where the sums are not that already.
    fn end_sums(&mut self, mul: MulAdd, sums: Id) -> Option<Id> {
        if mul.keeps_sums() {
            return None;
        }
        let types = vec![mul.d.ty, sums, mul.c.ty];
        let key = Key { op: Op::CompositeConstruct, types, extra: vec![mul.bits.0.into()] };
        Some(self.function(key, &mut |this| {
            let label = format!("coop_result_{}", mul.d.label());
            let mut f = FunctionBuilder::new(this.m, &mut this.g, &label, mul.d.ty, &[sums, mul.c.ty]);
            let b = &mut f;
            let sum = b.globals.scalar(b.module, mul.sum());
            let (all, c) = (b.param(0), b.param(1));
            if mul.pairs {
                let parts: Vec<Id> = (0..mul.d.placement.len())
                    .map(|n| b.op(Op::CompositeExtract, sum, [all.into(), (n / 2).into(), (n % 2).into()]))
                    .collect();
                let value = b.ids(Op::CompositeConstruct, mul.d.ty, &parts);
                return f.finish(Some(value));
            }
            let how = unroll(mul.d.placement.len());
            let all = Array::of(b, sums, sum, all, how != Unroll::Now);
            let c = Array::new(b, mul.c, c, how != Unroll::Now);
            let mut sink = ArrayBuilder::new(b, mul.d, how != Unroll::Now);
            b.repeat(mul.d.placement.len(), how, &mut |b, at| {
                let sum = all.get(b, at);
                let c = c.get(b, at);
                let value = mul.end(b, sum, c);
                sink.set(b, at, value);
            });
            let value = sink.finish(b);
            f.finish(Some(value))
        }))
    }
}

/// The bytes of a slice, without what stays in shared memory anyway.
fn slice_bytes(a: &Factor, b: &Factor) -> u32 {
    [a, b].iter().filter(|f| !f.resident).map(|f| f.bytes()).fold(0, u32::saturating_add)
}

/// The elements of a lane's part of C, two by two.
fn paired(b: &mut FunctionBuilder<'_>, mul: MulAdd, c: Id) -> Vec<Id> {
    let half = mul.c.elem;
    let pair = b.globals.vector(b.module, half, 2);
    let mut pairs = Vec::new();
    for at in (0..mul.c.placement.len()).step_by(2) {
        let two = [at, at + 1].map(|n| b.op(Op::CompositeExtract, half, [c.into(), n.into()]));
        pairs.push(b.ids(Op::CompositeConstruct, pair, &two));
    }
    pairs
}
