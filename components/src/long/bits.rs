//! Bits of pairs of words: counts, orders, fields, and the first and last that are set.

use super::pair::{Code, Pair, Shift};
use coop_ir::builder::FunctionBuilder;
use coop_ir::spv::GlslStd450 as Glsl;
use coop_ir::{Id, Op, Operand};

impl Code {
    fn each(&self, b: &mut FunctionBuilder<'_>, op: Op, x: Pair, y: Pair) -> Pair {
        Pair { low: self.op(b, op, x.low, y.low), high: self.op(b, op, x.high, y.high) }
    }

    pub(super) fn not(&self, b: &mut FunctionBuilder<'_>, x: Pair) -> Pair {
        let [low, high] = [x.low, x.high].map(|word| b.ids(Op::Not, self.uint, &[word]));
        Pair { low, high }
    }

    /// Counts the bits that are set. Returns a word.
    pub(super) fn count_bits(&self, b: &mut FunctionBuilder<'_>, x: Pair) -> Id {
        let [low, high] = [x.low, x.high].map(|word| b.ids(Op::BitCount, self.uint, &[word]));
        self.op(b, Op::IAdd, low, high)
    }

    pub(super) fn reverse_bits(&self, b: &mut FunctionBuilder<'_>, x: Pair) -> Pair {
        let [low, high] = [x.high, x.low].map(|word| b.ids(Op::BitReverse, self.uint, &[word]));
        Pair { low, high }
    }

    /// Returns the lowest bits set, so many of them: none to 64.
    fn ones(&self, b: &mut FunctionBuilder<'_>, count: Id) -> Pair {
        let (all, none, zero) = (self.constant(b, u64::MAX), self.constant(b, 0), b.u32(0));
        // A shift by 64, for none, is one by less.
        let by = self.op(b, Op::ISub, zero, count);
        let by = self.with(b, Op::BitwiseAnd, by, 63);
        let some = self.shift(b, Shift::Logical, all, by);
        let is_none = b.ids(Op::IEqual, self.bool, &[count, zero]);
        self.select(b, is_none, none, some)
    }

    /// Returns a field of bits, extended by zeros or by its highest bit.
    pub(super) fn field(&self, b: &mut FunctionBuilder<'_>, x: Pair, [offset, count]: [Id; 2], signed: bool) -> Pair {
        let moved = self.shift(b, Shift::Logical, x, offset);
        let ones = self.ones(b, count);
        let field = self.each(b, Op::BitwiseAnd, moved, ones);
        if !signed {
            return field;
        }
        // The highest bit of the field, which stands for all above it. A field of none has none.
        let half = self.shift_by(b, Shift::Logical, ones, 1);
        let sign = self.each(b, Op::BitwiseXor, ones, half);
        let flipped = self.each(b, Op::BitwiseXor, field, sign);
        self.sub(b, flipped, sign)
    }

    /// Returns a number with a field of it replaced by the low bits of another.
    pub(super) fn insert(&self, b: &mut FunctionBuilder<'_>, x: Pair, given: Pair, [offset, count]: [Id; 2]) -> Pair {
        let ones = self.ones(b, count);
        let bits = self.each(b, Op::BitwiseAnd, given, ones);
        let [bits, mask] = [bits, ones].map(|pair| self.shift(b, Shift::Left, pair, offset));
        let others = self.not(b, mask);
        let rest = self.each(b, Op::BitwiseAnd, x, others);
        self.each(b, Op::BitwiseOr, rest, bits)
    }

    /// Returns the position of the first or last bit that is set; of signed numbers, the last one that differs from the sign. -1 if there
    /// is none.
    pub(super) fn find(&self, b: &mut FunctionBuilder<'_>, glsl: Id, function: Glsl, x: Pair) -> Pair {
        let x = if function == Glsl::FindSMsb {
            let sign = self.with(b, Op::ShiftRightArithmetic, x.high, 31);
            self.each(b, Op::BitwiseXor, x, Pair { low: sign, high: sign })
        } else {
            x
        };
        let of_words = if function == Glsl::FindILsb { Glsl::FindILsb } else { Glsl::FindUMsb };
        let [low, high] = [x.low, x.high]
            .map(|word| b.op(Op::ExtInst, self.uint, [Operand::Id(glsl), of_words.0.into(), word.into()]));
        let above = self.with(b, Op::IAdd, high, 32);
        let zero = b.u32(0);
        let position = if function == Glsl::FindILsb {
            // -1 stays so.
            let none = b.ids(Op::IEqual, self.bool, &[x.high, zero]);
            let above = b.ids(Op::Select, self.uint, &[none, high, above]);
            let is_low = b.ids(Op::INotEqual, self.bool, &[x.low, zero]);
            b.ids(Op::Select, self.uint, &[is_low, low, above])
        } else {
            let is_high = b.ids(Op::INotEqual, self.bool, &[x.high, zero]);
            b.ids(Op::Select, self.uint, &[is_high, above, low])
        };
        Pair { low: position, high: self.with(b, Op::ShiftRightArithmetic, position, 31) }
    }
}
