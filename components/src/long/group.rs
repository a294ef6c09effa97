//! Sums, and the least and greatest numbers, of subgroups, by group operations on words.
//!
//! A sum is that of four parts of 16 bits: those of the up to 2^16 invocations of a subgroup do not overflow. The greatest number has the greatest
//! high word, and of those that have it, the greatest low word. In a scan it is another one for each invocation: the invocations up to
//! which the greatest high word is the same are a segment, segments are numbered, and the low word follows in two parts, each behind the number of
//! its segment (subgroups have at most 128 invocations): the greatest of these is of the last segment.

use super::Long;
use super::pair::{Code, Pair, Shift};
use coop_ir::builder::FunctionBuilder;
use coop_ir::grammar::{Class, GroupOp};
use coop_ir::spv::GroupOperation;
use coop_ir::{Id, Inst, Op, Operand};

/// A group operation with the operands that its parts share.
struct Group<'a> {
    inst: &'a Inst,
    uint: Id,
}

/// The bits of the first part of the low word.
const FIRST: u32 = 24;

impl Group<'_> {
    /// Emits an operation of the same invocations on words, of a kind.
    fn words(&self, b: &mut FunctionBuilder<'_>, op: Op, kind: Operand, word: Id) -> Id {
        let head = self.inst.operands.first().copied();
        let rest = self.inst.operands.iter().skip(3).copied();
        let operands: Vec<Operand> = head.into_iter().chain([kind, word.into()]).chain(rest).collect();
        b.op(op, self.uint, operands)
    }

    /// Returns the kind of the operation: its second operand.
    fn kind(&self) -> Operand {
        self.inst.operands.get(1).copied().unwrap_or(Operand::Word(0))
    }

    /// Returns the kinds of the inclusive and of the exclusive scan of the same invocations. `None` if it is no scan.
    fn scans(&self) -> Option<[Operand; 2]> {
        use GroupOperation as G;
        Some(match self.inst.reduction_kind()? {
            G::InclusiveScan | G::ExclusiveScan => [G::InclusiveScan, G::ExclusiveScan].map(|g| g.0.into()),
            G::PartitionedInclusiveScanNV | G::PartitionedExclusiveScanNV => {
                [G::PartitionedInclusiveScanNV, G::PartitionedExclusiveScanNV].map(|g| g.0.into())
            }
            _ => return None,
        })
    }

    /// Returns the least or greatest number, whose order is that of unsigned numbers.
    fn greatest(&self, code: &Code, b: &mut FunctionBuilder<'_>, x: Pair) -> Pair {
        let max =
            |b: &mut FunctionBuilder<'_>, kind: Operand, word: Id| self.words(b, Op::GroupNonUniformUMax, kind, word);
        let same = |b: &mut FunctionBuilder<'_>, x: Id, y: Id| b.ids(Op::IEqual, code.bool, &[x, y]);
        let zero = b.u32(0);
        let Some([inclusive, exclusive]) = self.scans() else {
            let high = max(b, self.kind(), x.high);
            let has = same(b, x.high, high);
            let low = b.ids(Op::Select, code.uint, &[has, x.low, zero]);
            return Pair { low: max(b, self.kind(), low), high };
        };
        let is_exclusive = self.kind() == exclusive;
        // The greatest so far, and before, of keys; and which invocations have it.
        let mut has: Option<Id> = None;
        let mut key = x.high;
        let mut parts = Vec::new();
        let first = code.with(b, Op::ShiftRightLogical, x.low, 32 - FIRST);
        let second = code.with(b, Op::BitwiseAnd, x.low, (1 << (32 - FIRST)) - 1);
        for next in [Some(first), Some(second), None] {
            let so_far = max(b, inclusive, key);
            let Some(next) = next else {
                parts.push(if is_exclusive { max(b, exclusive, key) } else { so_far });
                break;
            };
            let before = max(b, exclusive, key);
            parts.push(if is_exclusive { before } else { so_far });
            let has_it = same(b, key, so_far);
            let all = has.map_or(has_it, |has| b.ids(Op::LogicalAnd, code.bool, &[has, has_it]));
            has = Some(all);
            let one = b.u32(1);
            let stays = same(b, so_far, before);
            let begins = b.ids(Op::Select, code.uint, &[stays, zero, one]);
            let segment = self.words(b, Op::GroupNonUniformIAdd, inclusive, begins);
            let segment = code.with(b, Op::ShiftLeftLogical, segment, FIRST);
            let behind = code.op(b, Op::BitwiseOr, segment, next);
            key = b.ids(Op::Select, code.uint, &[all, behind, zero]);
        }
        let [high, first, second] = parts[..] else { return x };
        let first = code.with(b, Op::ShiftLeftLogical, first, 32 - FIRST);
        let second = code.with(b, Op::BitwiseAnd, second, (1 << (32 - FIRST)) - 1);
        Pair { low: code.op(b, Op::BitwiseOr, first, second), high }
    }
}

impl Long {
    /// Emits a sum, or the least or greatest number, of a subgroup. `None` for others.
    pub(super) fn reduction(&mut self, b: &mut FunctionBuilder<'_>, i: &Inst, of: GroupOp) -> Option<Pair> {
        // Operations on whole workgroups have other instructions.
        i.op.info().filter(|info| info.class == Class::NonUniform)?;
        let value = i.operands.get(2)?.id()?;
        let x = self.pair(b, value);
        let code = &self.code;
        let group = Group { inst: i, uint: code.uint };
        let (signed, least) = match of {
            GroupOp::IAdd => {
                let mut sum = code.constant(b, 0);
                for (n, word) in [x.low, x.low, x.high, x.high].into_iter().enumerate() {
                    let part = match n % 2 {
                        0 => code.with(b, Op::BitwiseAnd, word, 0xffff),
                        _ => code.with(b, Op::ShiftRightLogical, word, 16),
                    };
                    let low = group.words(b, i.op, group.kind(), part);
                    let high = b.u32(0);
                    let part = code.shift_by(b, Shift::Left, Pair { low, high }, 16 * n as u32);
                    sum = code.add(b, sum, part);
                }
                return Some(sum);
            }
            GroupOp::UMax => (false, false),
            GroupOp::UMin => (false, true),
            GroupOp::SMax => (true, false),
            GroupOp::SMin => (true, true),
            _ => return None,
        };
        // To unsigned numbers of which the greatest is asked for, and back.
        let mirrored = |b: &mut FunctionBuilder<'_>, x: Pair| {
            let high = if signed { code.with(b, Op::BitwiseXor, x.high, 1 << 31) } else { x.high };
            let x = Pair { high, ..x };
            if least { code.not(b, x) } else { x }
        };
        let x = mirrored(b, x);
        let greatest = group.greatest(code, b, x);
        Some(mirrored(b, greatest))
    }
}
