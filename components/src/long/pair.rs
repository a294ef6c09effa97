//! Arithmetic on pairs of words, modulo 2^64.

use coop_ir::builder::{FunctionBuilder, Index, add_global};
use coop_ir::{Id, Inst, Op};

/// A number of 64 bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Pair {
    pub(crate) low: Id,
    pub(crate) high: Id,
}

/// The order of two numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Order {
    Signed,
    Unsigned,
}

/// An operation that shifts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Shift {
    Left,
    Logical,
    Arithmetic,
}

/// Emits operations on pairs.
pub(crate) struct Code {
    pub(crate) uint: Id,
    pub(crate) bool: Id,
    /// The type of pairs in memory and as values: a vector of two words, the low one first.
    pub(crate) vector: Id,
    /// The type of a product of two words.
    product: Option<Id>,
    /// The function that divides.
    divide: Option<Id>,
}

impl Code {
    pub(crate) fn new(uint: Id, bool: Id, vector: Id) -> Code {
        Code { uint, bool, vector, product: None, divide: None }
    }

    pub(crate) fn op(&self, b: &mut FunctionBuilder<'_>, op: Op, x: Id, y: Id) -> Id {
        b.ids(op, self.uint, &[x, y])
    }

    pub(crate) fn with(&self, b: &mut FunctionBuilder<'_>, op: Op, x: Id, constant: u32) -> Id {
        let constant = b.u32(constant);
        self.op(b, op, x, constant)
    }

    fn test(&self, b: &mut FunctionBuilder<'_>, op: Op, x: Id, y: Id) -> Id {
        b.ids(op, self.bool, &[x, y])
    }

    fn one_if(&self, b: &mut FunctionBuilder<'_>, condition: Id) -> Id {
        let (one, zero) = (b.u32(1), b.u32(0));
        b.ids(Op::Select, self.uint, &[condition, one, zero])
    }

    pub(crate) fn constant(&self, b: &mut FunctionBuilder<'_>, value: u64) -> Pair {
        Pair { low: b.u32(value as u32), high: b.u32((value >> 32) as u32) }
    }

    pub(crate) fn select(&self, b: &mut FunctionBuilder<'_>, condition: Id, x: Pair, y: Pair) -> Pair {
        let one = |b: &mut FunctionBuilder<'_>, x: Id, y: Id| {
            if x == y { x } else { b.ids(Op::Select, self.uint, &[condition, x, y]) }
        };
        Pair { low: one(b, x.low, y.low), high: one(b, x.high, y.high) }
    }

    /// Returns the words of a vector of two.
    pub(crate) fn parts(&self, b: &mut FunctionBuilder<'_>, vector: Id) -> Pair {
        let [low, high] = [0, 1].map(|n: u32| b.op(Op::CompositeExtract, self.uint, [vector.into(), n.into()]));
        Pair { low, high }
    }

    pub(crate) fn vector(&self, b: &mut FunctionBuilder<'_>, x: Pair) -> Id {
        b.ids(Op::CompositeConstruct, self.vector, &[x.low, x.high])
    }

    pub(crate) fn add(&self, b: &mut FunctionBuilder<'_>, x: Pair, y: Pair) -> Pair {
        let low = self.op(b, Op::IAdd, x.low, y.low);
        let carries = self.test(b, Op::ULessThan, low, x.low);
        let carry = self.one_if(b, carries);
        let high = self.op(b, Op::IAdd, x.high, y.high);
        Pair { low, high: self.op(b, Op::IAdd, high, carry) }
    }

    pub(crate) fn sub(&self, b: &mut FunctionBuilder<'_>, x: Pair, y: Pair) -> Pair {
        let low = self.op(b, Op::ISub, x.low, y.low);
        let borrows = self.test(b, Op::ULessThan, x.low, y.low);
        let borrow = self.one_if(b, borrows);
        let high = self.op(b, Op::ISub, x.high, y.high);
        Pair { low, high: self.op(b, Op::ISub, high, borrow) }
    }

    pub(crate) fn negate(&self, b: &mut FunctionBuilder<'_>, x: Pair) -> Pair {
        let zero = self.constant(b, 0);
        self.sub(b, zero, x)
    }

    pub(crate) fn mul(&mut self, b: &mut FunctionBuilder<'_>, x: Pair, y: Pair) -> Pair {
        let uint = self.uint;
        let product = *self.product.get_or_insert_with(|| {
            let id = b.module.fresh_id();
            add_global(b.module, Inst::new(Op::TypeStruct, None, Some(id), [uint.into(), uint.into()]));
            id
        });
        let whole = b.ids(Op::UMulExtended, product, &[x.low, y.low]);
        let Pair { low, high } = self.parts(b, whole);
        let cross = [(x.low, y.high), (x.high, y.low)].map(|(x, y)| self.op(b, Op::IMul, x, y));
        let cross = self.op(b, Op::IAdd, cross[0], cross[1]);
        Pair { low, high: self.op(b, Op::IAdd, high, cross) }
    }

    pub(crate) fn equal(&self, b: &mut FunctionBuilder<'_>, x: Pair, y: Pair) -> Id {
        let (low, high) = (self.test(b, Op::IEqual, x.low, y.low), self.test(b, Op::IEqual, x.high, y.high));
        self.test(b, Op::LogicalAnd, low, high)
    }

    pub(crate) fn less(&self, b: &mut FunctionBuilder<'_>, order: Order, x: Pair, y: Pair) -> Id {
        let op = if order == Order::Signed { Op::SLessThan } else { Op::ULessThan };
        let above = self.test(b, op, x.high, y.high);
        let same = self.test(b, Op::IEqual, x.high, y.high);
        let below = self.test(b, Op::ULessThan, x.low, y.low);
        let below = self.test(b, Op::LogicalAnd, same, below);
        self.test(b, Op::LogicalOr, above, below)
    }

    pub(crate) fn is_negative(&self, b: &mut FunctionBuilder<'_>, x: Pair) -> Id {
        let zero = b.u32(0);
        self.test(b, Op::SLessThan, x.high, zero)
    }

    /// Returns the absolute value, which is 2^63 for the number that has no opposite.
    pub(crate) fn magnitude(&self, b: &mut FunctionBuilder<'_>, x: Pair) -> Pair {
        let (negative, opposite) = (self.is_negative(b, x), self.negate(b, x));
        self.select(b, negative, opposite, x)
    }

    /// Shifts by a number of 32 bits, which is less than 64.
    pub(crate) fn shift(&self, b: &mut FunctionBuilder<'_>, shift: Shift, x: Pair, by: Id) -> Pair {
        // A word is not shifted by 32: bits that go from one to the other are shifted by one, and by the rest.
        let by_small = self.with(b, Op::BitwiseAnd, by, 31);
        let rest = self.with(b, Op::BitwiseXor, by_small, 31);
        let is_large = self.with(b, Op::BitwiseAnd, by, 32);
        let zero = b.u32(0);
        let is_large = self.test(b, Op::INotEqual, is_large, zero);
        if shift == Shift::Left {
            let low = self.op(b, Op::ShiftLeftLogical, x.low, by_small);
            let moved = self.with(b, Op::ShiftRightLogical, x.low, 1);
            let moved = self.op(b, Op::ShiftRightLogical, moved, rest);
            let high = self.op(b, Op::ShiftLeftLogical, x.high, by_small);
            let high = self.op(b, Op::BitwiseOr, high, moved);
            return self.select(b, is_large, Pair { low: zero, high: low }, Pair { low, high });
        }
        let low = self.op(b, Op::ShiftRightLogical, x.low, by_small);
        let moved = self.with(b, Op::ShiftLeftLogical, x.high, 1);
        let moved = self.op(b, Op::ShiftLeftLogical, moved, rest);
        let low = self.op(b, Op::BitwiseOr, low, moved);
        let (op, filled) = match shift {
            Shift::Arithmetic => (Op::ShiftRightArithmetic, self.with(b, Op::ShiftRightArithmetic, x.high, 31)),
            _ => (Op::ShiftRightLogical, zero),
        };
        let high = self.op(b, op, x.high, by_small);
        self.select(b, is_large, Pair { low: high, high: filled }, Pair { low, high })
    }

    /// Shifts by a constant.
    pub(crate) fn shift_by(&self, b: &mut FunctionBuilder<'_>, shift: Shift, x: Pair, by: u32) -> Pair {
        let zero = b.u32(0);
        let back = match shift {
            Shift::Left => Op::ShiftLeftLogical,
            Shift::Logical => Op::ShiftRightLogical,
            Shift::Arithmetic => Op::ShiftRightArithmetic,
        };
        let one = |b: &mut FunctionBuilder<'_>, op: Op, word: Id, by: u32| {
            if by == 0 { word } else { self.with(b, op, word, by) }
        };
        match (by, shift) {
            (0, _) => x,
            (1..=31, Shift::Left) => {
                let moved = self.with(b, Op::ShiftRightLogical, x.low, 32 - by);
                let high = self.with(b, back, x.high, by);
                Pair { low: self.with(b, back, x.low, by), high: self.op(b, Op::BitwiseOr, high, moved) }
            }
            (1..=31, _) => {
                let moved = self.with(b, Op::ShiftLeftLogical, x.high, 32 - by);
                let low = self.with(b, Op::ShiftRightLogical, x.low, by);
                Pair { low: self.op(b, Op::BitwiseOr, low, moved), high: self.with(b, back, x.high, by) }
            }
            (_, Shift::Left) => Pair { low: zero, high: one(b, back, x.low, by % 32) },
            (_, Shift::Logical) => Pair { low: one(b, back, x.high, by % 32), high: zero },
            (_, Shift::Arithmetic) => Pair { low: one(b, back, x.high, by % 32), high: self.with(b, back, x.high, 31) },
        }
    }

    /// Divides unsigned numbers. Returns the quotient and the rest.
    pub(crate) fn divide(&mut self, b: &mut FunctionBuilder<'_>, x: Pair, y: Pair) -> [Pair; 2] {
        let four = b.globals.vector(b.module, self.uint, 4);
        let callee = match self.divide {
            Some(id) => id,
            None => self.division(b, four),
        };
        self.divide = Some(callee);
        let both = b.ids(Op::FunctionCall, four, &[callee, x.low, x.high, y.low, y.high]);
        let [ql, qh, rl, rh] =
            [0, 1, 2, 3].map(|n: u32| b.op(Op::CompositeExtract, self.uint, [both.into(), n.into()]));
        [Pair { low: ql, high: qh }, Pair { low: rl, high: rh }]
    }

    /// Makes the function that divides: by words where those suffice, else bit by bit.
    fn division(&self, b: &mut FunctionBuilder<'_>, four: Id) -> Id {
        let uint = self.uint;
        let mut b = FunctionBuilder::new(b.module, b.globals, "coop_divide_u64", four, &[uint; 4]);
        let (x, y) = (Pair { low: b.param(0), high: b.param(1) }, Pair { low: b.param(2), high: b.param(3) });
        let highs = self.op(&mut b, Op::BitwiseOr, x.high, y.high);
        let small = b.compare(Op::IEqual, Index::Value(highs), Index::Const(0));
        let words = &mut |b: &mut FunctionBuilder<'_>| {
            let zero = b.u32(0);
            vec![self.op(b, Op::UDiv, x.low, y.low), zero, self.op(b, Op::UMod, x.low, y.low), zero]
        };
        let bits = &mut |b: &mut FunctionBuilder<'_>| {
            let zero = b.u32(0);
            let range = (Index::Const(0), Index::Const(64), Index::Const(1));
            b.fold(range, &[uint; 4], &[x.low, x.high, zero, zero], &mut |b, _, v| self.digit(b, v, y))
        };
        let all = b.choose(small, &[uint; 4], words, bits);
        let result = b.ids(Op::CompositeConstruct, four, &all);
        b.finish(Some(result))
    }

    /// Moves the highest bit of the dividend to the rest, and subtracts the divisor if it is there once. The digit takes the bit's place.
    fn digit(&self, b: &mut FunctionBuilder<'_>, v: &[Id], divisor: Pair) -> Vec<Id> {
        let (x, rest) = (Pair { low: v[0], high: v[1] }, Pair { low: v[2], high: v[3] });
        let lost = self.is_negative(b, rest);
        let bit = self.with(b, Op::ShiftRightLogical, x.high, 31);
        let rest = self.shift_by(b, Shift::Left, rest, 1);
        let rest = Pair { low: self.op(b, Op::BitwiseOr, rest.low, bit), high: rest.high };
        let less = self.less(b, Order::Unsigned, rest, divisor);
        let whole = b.ids(Op::LogicalNot, self.bool, &[less]);
        let fits = self.test(b, Op::LogicalOr, lost, whole);
        let smaller = self.sub(b, rest, divisor);
        let rest = self.select(b, fits, smaller, rest);
        let digit = self.one_if(b, fits);
        let x = self.shift_by(b, Shift::Left, x, 1);
        vec![self.op(b, Op::BitwiseOr, x.low, digit), x.high, rest.low, rest.high]
    }

    /// Divides signed numbers, toward zero. Returns the quotient and the rest, which has the sign of the dividend.
    pub(crate) fn divide_signed(&mut self, b: &mut FunctionBuilder<'_>, x: Pair, y: Pair) -> [Pair; 2] {
        let (negative_x, negative_y) = (self.is_negative(b, x), self.is_negative(b, y));
        let (large, small) = (self.magnitude(b, x), self.magnitude(b, y));
        let [quotient, rest] = self.divide(b, large, small);
        let differ = self.test(b, Op::LogicalNotEqual, negative_x, negative_y);
        let opposites = [quotient, rest].map(|v| self.negate(b, v));
        [self.select(b, differ, opposites[0], quotient), self.select(b, negative_x, opposites[1], rest)]
    }

    /// Returns the rest with the sign of the divisor.
    pub(crate) fn modulo(&mut self, b: &mut FunctionBuilder<'_>, x: Pair, y: Pair) -> Pair {
        let [_, rest] = self.divide_signed(b, x, y);
        let (sum, zero) = (self.add(b, rest, y), self.constant(b, 0));
        let signs = self.op(b, Op::BitwiseXor, rest.high, y.high);
        let differ = self.is_negative(b, Pair { low: signs, high: signs });
        let is_zero = self.equal(b, rest, zero);
        let is_other = b.ids(Op::LogicalNot, self.bool, &[is_zero]);
        let moves = self.test(b, Op::LogicalAnd, differ, is_other);
        self.select(b, moves, sum, rest)
    }
}
