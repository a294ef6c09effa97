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
        let mask = |v: u64| if width == 0 || width >= 64 { v } else { v & ((1 << width) - 1) };
        let begin = lane / self.size * self.size;
        let other = |to: Option<u64>| {
            let to = u32::try_from(to?).ok().filter(|o| *o < self.size)?;
            Some(begin + to).filter(|o| self.all.contains(o))
        };
        let member = u64::from(lane - begin);
        let from = match inst.op {
            Op::GroupNonUniformElect => return Some(u64::from(first == lane)),
            Op::GroupNonUniformBroadcastFirst => first,
            Op::GroupNonUniformBroadcast | Op::GroupNonUniformShuffle => other(named)?,
            Op::GroupNonUniformShuffleXor => other(named.map(|n| member ^ n))?,
            Op::GroupNonUniformShuffleUp => other(member.checked_sub(named?))?,
            Op::GroupNonUniformShuffleDown => other(member.checked_add(named?))?,
            _ => {
                let operation = inst.word(1);
                let values: Some64 = self.all.iter().map(|l| value(*l)).collect::<Option<_>>()?;
                if inst.op == Op::GroupNonUniformAll {
                    return Some(u64::from(values.iter().all(|v| *v != 0)));
                } else if inst.op == Op::GroupNonUniformAny {
                    return Some(u64::from(values.iter().any(|v| *v != 0)));
                }
                let (begin, fold) = reduction(inst.op, width)?;
                let needed = |l: u32| match operation {
                    Some(0) => Some(true),
                    Some(1) => Some(l <= lane),
                    Some(2) => Some(l < lane),
                    _ => None,
                };
                let mut sum = begin;
                for (l, v) in self.all.iter().zip(&values) {
                    if needed(*l)? {
                        sum = mask(fold(sum, *v, width));
                    }
                }
                return Some(sum);
            }
        };
        value(from)
    }
}

/// Returns true if [`ActiveLanes::evaluate`] knows the instruction.
pub(super) fn is_computed(inst: &Inst) -> bool {
    let moves = matches!(
        inst.op,
        Op::GroupNonUniformElect
            | Op::GroupNonUniformAll
            | Op::GroupNonUniformAny
            | Op::GroupNonUniformBroadcastFirst
            | Op::GroupNonUniformBroadcast
            | Op::GroupNonUniformShuffle
            | Op::GroupNonUniformShuffleXor
            | Op::GroupNonUniformShuffleUp
            | Op::GroupNonUniformShuffleDown
    );
    moves
        || reduction(inst.op, 32).is_some()
            && matches!(
                inst.enumerant(1),
                Some(GroupOperation::Reduce | GroupOperation::InclusiveScan | GroupOperation::ExclusiveScan)
            )
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
