//! Computes subgroup instructions for the invocations that execute them together.

use coop_ir::Inst;
use coop_ir::grammar::Op;
use coop_ir::spv::GroupOperation;
use smallvec::SmallVec;

/// The invocations that execute a subgroup instruction together.
pub(super) struct ActiveLanes<'a> {
    /// Their positions in the workgroup, ascending.
    pub(super) all: &'a [u32],
    /// The number of invocations of a subgroup.
    pub(super) size: u32,
}

/// The values of a few invocations.
type Some64 = SmallVec<[u64; 64]>;

/// A subgroup instruction that can be computed.
#[derive(Clone, Copy)]
enum Computation {
    /// True for the first invocation.
    Elect,
    All,
    Any,
    /// The operand of another invocation.
    Read(Source),
    /// A reduction or a scan with the operation of this opcode.
    Reduce(Op, GroupOperation),
}

/// The invocation whose operand is the result.
#[derive(Clone, Copy)]
enum Source {
    First,
    /// The one with the number of the index operand.
    Index,
    Xor,
    Up,
    Down,
}

impl Computation {
    fn of(inst: &Inst) -> Option<Computation> {
        Some(match inst.op {
            Op::GroupNonUniformElect => Computation::Elect,
            Op::GroupNonUniformAll => Computation::All,
            Op::GroupNonUniformAny => Computation::Any,
            Op::GroupNonUniformBroadcastFirst => Computation::Read(Source::First),
            Op::GroupNonUniformBroadcast | Op::GroupNonUniformShuffle => Computation::Read(Source::Index),
            Op::GroupNonUniformShuffleXor => Computation::Read(Source::Xor),
            Op::GroupNonUniformShuffleUp => Computation::Read(Source::Up),
            Op::GroupNonUniformShuffleDown => Computation::Read(Source::Down),
            op => {
                let kind = inst.reduction_kind().filter(|_| reduction(op, 32).is_some())?;
                let whole = [GroupOperation::Reduce, GroupOperation::InclusiveScan, GroupOperation::ExclusiveScan];
                Some(Computation::Reduce(op, kind)).filter(|_| whole.contains(&kind))?
            }
        })
    }
}

impl ActiveLanes<'_> {
    /// Returns the result for one invocation, if it can be computed. `value` returns the operand of an invocation,
    /// `named` is the index operand of this one, `width` the width of the result in bits.
    pub(super) fn evaluate(
        &self,
        inst: &Inst,
        lane: u32,
        width: u32,
        named: Option<u64>,
        mut value: impl FnMut(u32) -> Option<u64>,
    ) -> Option<u64> {
        let first = *self.all.first()?;
        let mut values = || self.all.iter().map(|l| value(*l)).collect::<Option<Some64>>();
        match Computation::of(inst)? {
            Computation::Elect => Some(u64::from(first == lane)),
            Computation::All => Some(u64::from(values()?.iter().all(|v| *v != 0))),
            Computation::Any => Some(u64::from(values()?.iter().any(|v| *v != 0))),
            Computation::Reduce(op, kind) => self.reduce(op, kind, (lane, width), &values()?),
            Computation::Read(source) => value(self.source(source, first, lane, named)?),
        }
    }

    /// Returns the invocation from which one reads, if it is among these.
    fn source(&self, source: Source, first: u32, lane: u32, named: Option<u64>) -> Option<u32> {
        let begin = lane / self.size * self.size;
        let member = u64::from(lane - begin);
        let to = match source {
            Source::First => return Some(first),
            Source::Index => named?,
            Source::Xor => member ^ named?,
            Source::Up => member.checked_sub(named?)?,
            Source::Down => member.checked_add(named?)?,
        };
        let to = u32::try_from(to).ok().filter(|o| *o < self.size)?;
        Some(begin + to).filter(|o| self.all.contains(o))
    }

    /// Returns the result of a reduction or a scan of the invocations' values for one of them.
    fn reduce(&self, op: Op, kind: GroupOperation, (lane, width): (u32, u32), values: &[u64]) -> Option<u64> {
        let mask = |v: u64| if width == 0 || width >= 64 { v } else { v & ((1 << width) - 1) };
        let (identity, fold) = reduction(op, width)?;
        let includes = |l: u32| match kind {
            GroupOperation::InclusiveScan => l <= lane,
            GroupOperation::ExclusiveScan => l < lane,
            _ => true,
        };
        let included = self.all.iter().zip(values).filter(|(l, _)| includes(**l));
        Some(included.fold(identity, |sum, (_, v)| mask(fold(sum, *v, width))))
    }
}

/// Returns true if [`ActiveLanes::evaluate`] can compute the instruction.
pub(super) fn is_computed(inst: &Inst) -> bool {
    Computation::of(inst).is_some()
}

/// Combines two numbers of a width in bits.
type Combine = fn(u64, u64, u32) -> u64;

/// Returns the identity of a reduction, and its operation on two numbers.
fn reduction(op: Op, width: u32) -> Option<(u64, Combine)> {
    let width = width.clamp(1, 64);
    let all = u64::MAX >> (64 - width);
    Some(match op {
        Op::GroupNonUniformIAdd => (0, |a, b, _| a.wrapping_add(b)),
        Op::GroupNonUniformIMul => (1, |a, b, _| a.wrapping_mul(b)),
        Op::GroupNonUniformUMax => (0, |a, b, _| a.max(b)),
        Op::GroupNonUniformUMin => (all, |a, b, _| a.min(b)),
        Op::GroupNonUniformSMax => (1 << (width - 1), |a, b, w| if signed(a, w) < signed(b, w) { b } else { a }),
        Op::GroupNonUniformSMin => (all >> 1, |a, b, w| if signed(b, w) < signed(a, w) { b } else { a }),
        Op::GroupNonUniformBitwiseAnd | Op::GroupNonUniformLogicalAnd => (all, |a, b, _| a & b),
        Op::GroupNonUniformBitwiseOr | Op::GroupNonUniformLogicalOr => (0, |a, b, _| a | b),
        Op::GroupNonUniformBitwiseXor | Op::GroupNonUniformLogicalXor => (0, |a, b, _| a ^ b),
        _ => return None,
    })
}

fn signed(v: u64, width: u32) -> i64 {
    let unused = 64 - width.clamp(1, 64);
    ((v << unused) as i64) >> unused
}
