//! Emits index arithmetic with known facts about each number: constants fold, redundant remainders are dropped, and
//! each number knows its divisor, its bound, and how it changes along a run of adjacent elements.

use coop_ir::builder::{FunctionBuilder, Index};
use coop_ir::{Id, Op};

/// The change of a number from one element of a run to the next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Step {
    /// None.
    Still,
    /// By one.
    One,
    /// Not known.
    Free,
}

/// A 32-bit unsigned number: its value at the first element of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Num {
    pub(super) at: Index,
    pub(super) step: Step,
    /// A power of two that divides it.
    pub(super) align: u32,
    /// An upper bound (exclusive) for all elements of the run, if one is known.
    pub(super) below: Option<u32>,
}

const MAX_ALIGN: u32 = 1 << 31;

/// Returns the largest power of two that divides `value`.
pub(super) fn power(value: u32) -> u32 {
    if value == 0 { MAX_ALIGN } else { 1 << value.trailing_zeros() }
}

impl Num {
    pub(super) fn known(value: u32) -> Num {
        Num { at: Index::Const(value), step: Step::Still, align: power(value), below: value.checked_add(1) }
    }

    pub(super) fn value(id: Id, align: u32) -> Num {
        Num { at: Index::Value(id), step: Step::Still, align, below: None }
    }

    pub(super) fn constant(self) -> Option<u32> {
        match self.at {
            Index::Const(v) if self.step == Step::Still => Some(v),
            _ => None,
        }
    }

    /// Returns the same number, known to be less than `limit`.
    pub(super) fn less_than(mut self, limit: u32) -> Num {
        self.below = Some(self.below.map_or(limit, |b| b.min(limit)));
        self
    }
}

/// Emits code, or only computes the facts about its results.
pub(super) struct IndexMath<'a, 'm> {
    builder: Option<&'a mut FunctionBuilder<'m>>,
    dummies: u32,
    /// The number of elements of a run.
    pub(super) count: u32,
}

impl<'a, 'm> IndexMath<'a, 'm> {
    pub(super) fn new(b: &'a mut FunctionBuilder<'m>, count: u32) -> IndexMath<'a, 'm> {
        IndexMath { builder: Some(b), dummies: 0, count }
    }

    /// Makes a value that emits no code.
    pub(super) fn without_code(count: u32) -> IndexMath<'a, 'm> {
        IndexMath { builder: None, dummies: 0, count }
    }

    fn dummy(&mut self) -> Id {
        self.dummies += 1;
        Id::new(u32::MAX - self.dummies).unwrap_or_else(|| unreachable!("far from 0"))
    }

    /// Emits an operation that does not fold.
    fn number(&mut self, op: Op, x: Index, y: Index) -> Index {
        match &mut self.builder {
            Some(b) => b.u32_op(op, x, y),
            None => Index::Value(self.dummy()),
        }
    }

    pub(super) fn add(&mut self, x: Num, y: Num) -> Num {
        let at = match (x.at, y.at) {
            (Index::Const(a), Index::Const(b)) => Index::Const(a.wrapping_add(b)),
            (Index::Const(0), at) | (at, Index::Const(0)) => at,
            (a, b) => self.number(Op::IAdd, a, b),
        };
        let step = match (x.step, y.step) {
            (Step::Still, step) | (step, Step::Still) => step,
            _ => Step::Free,
        };
        // Each is below its bound, so the sum is below the sum of the bounds less one.
        let below = x.below.zip(y.below).and_then(|(a, b)| a.checked_add(b)?.checked_sub(1));
        Num { at, step, align: x.align.min(y.align), below }
    }

    pub(super) fn sub(&mut self, x: Num, y: Num) -> Num {
        let at = match (x.at, y.at) {
            (Index::Const(a), Index::Const(b)) => Index::Const(a.wrapping_sub(b)),
            (at, Index::Const(0)) => at,
            (a, b) => self.number(Op::ISub, a, b),
        };
        let step = if y.step == Step::Still { x.step } else { Step::Free };
        Num { at, step, align: x.align.min(y.align), below: None }
    }

    pub(super) fn mul(&mut self, x: Num, y: Num) -> Num {
        if x.constant() == Some(0) || y.constant() == Some(0) {
            return Num::known(0);
        }
        let at = match (x.at, y.at) {
            (Index::Const(a), Index::Const(b)) => Index::Const(a.wrapping_mul(b)),
            (Index::Const(0), _) | (_, Index::Const(0)) => Index::Const(0),
            (Index::Const(1), at) | (at, Index::Const(1)) => at,
            (at, Index::Const(k)) | (Index::Const(k), at) if k.is_power_of_two() => {
                self.number(Op::ShiftLeftLogical, at, Index::Const(k.trailing_zeros()))
            }
            (a, b) => self.number(Op::IMul, a, b),
        };
        let step = match (x.step, y.step) {
            (Step::Still, Step::Still) => Step::Still,
            (Step::One, Step::Still) if y.at == Index::Const(1) => Step::One,
            (Step::Still, Step::One) if x.at == Index::Const(1) => Step::One,
            _ => Step::Free,
        };
        let align = x.align.saturating_mul(y.align).min(MAX_ALIGN);
        let below = x.below.zip(y.below).and_then(|(a, b)| {
            let most = (a.checked_sub(1)?).checked_mul(b.checked_sub(1)?)?;
            most.checked_add(1)
        });
        Num { at, step, align, below }
    }

    /// Returns quotient and remainder by `d`, which is not 0.
    pub(super) fn div_rem(&mut self, x: Num, d: Num) -> (Num, Num) {
        let Some(k) = d.constant() else { return self.div_rem_value(x, d) };
        if k <= 1 {
            return (x, Num::known(0));
        }
        if x.below.is_some_and(|b| b <= k) {
            return (Num::known(0), x);
        }
        let (quotient, rest) = match x.at {
            Index::Const(a) => (Index::Const(a / k), Index::Const(a % k)),
            at if k.is_power_of_two() => {
                let quotient = self.number(Op::ShiftRightLogical, at, Index::Const(k.trailing_zeros()));
                // The remainder of a multiple is 0.
                let rest =
                    if x.align >= k { Index::Const(0) } else { self.number(Op::BitwiseAnd, at, Index::Const(k - 1)) };
                (quotient, rest)
            }
            at => {
                let quotient = self.number(Op::UDiv, at, Index::Const(k));
                let whole = self.number(Op::IMul, quotient, Index::Const(k));
                (quotient, self.number(Op::ISub, at, whole))
            }
        };
        // A run that begins at a multiple of its length stays in one block.
        let inside = k.is_multiple_of(self.count) && x.align >= self.count;
        let (q_step, r_step) = match x.step {
            Step::Still => (Step::Still, Step::Still),
            Step::One if inside => (Step::Still, Step::One),
            _ => (Step::Free, Step::Free),
        };
        let align = if x.align.is_multiple_of(power(k)) { (x.align / power(k)).max(1) } else { 1 };
        let align = if k.is_power_of_two() { align } else { 1 };
        let q = Num { at: quotient, step: q_step, align, below: x.below.map(|b| b.div_ceil(k)) };
        let r = Num { at: rest, step: r_step, align: x.align.min(power(k)), below: Some(k) };
        let r = if rest == Index::Const(0) && r_step == Step::Still { Num::known(0) } else { r };
        (q, r)
    }

    fn div_rem_value(&mut self, x: Num, d: Num) -> (Num, Num) {
        if x.constant() == Some(0) {
            return (x, x);
        }
        let quotient = self.number(Op::UDiv, x.at, d.at);
        let whole = self.number(Op::IMul, quotient, d.at);
        let rest = self.number(Op::ISub, x.at, whole);
        let still = x.step == Step::Still && d.step == Step::Still;
        let step = if still { Step::Still } else { Step::Free };
        let q = Num { at: quotient, step, align: 1, below: x.below };
        (q, Num { at: rest, step, align: x.align.min(d.align), below: x.below })
    }

    /// Returns the last number of a run.
    pub(super) fn last(&mut self, x: Num) -> Num {
        let more = if x.step == Step::One { self.count - 1 } else { 0 };
        let mut end = x;
        end.step = Step::Still;
        end.align = 1;
        if more == 0 { x } else { self.add(end, Num::known(more)) }
    }

    /// Compares `x` with `y`: `Err` if the result is known.
    pub(super) fn compare(&mut self, op: Op, x: Num, y: Num) -> Result<Id, bool> {
        if let (Index::Const(a), Index::Const(b)) = (x.at, y.at) {
            return Err(match op {
                Op::ULessThan => a < b,
                Op::UGreaterThanEqual => a >= b,
                Op::UGreaterThan => a > b,
                Op::SLessThan => (a as i32) < b as i32,
                Op::INotEqual => a != b,
                _ => a == b,
            });
        }
        Ok(match &mut self.builder {
            Some(b) => b.compare(op, x.at, y.at),
            None => self.dummy(),
        })
    }

    /// Returns the disjunction of two conditions; a missing one is false.
    pub(super) fn or(&mut self, x: Option<Id>, y: Option<Id>) -> Option<Id> {
        match (x, y) {
            (Some(x), Some(y)) => Some(self.logical(Op::LogicalOr, x, y)),
            (one, other) => one.or(other),
        }
    }

    /// Returns a condition that is true.
    pub(super) fn truth(&mut self) -> Option<Id> {
        Some(match &mut self.builder {
            Some(b) => b.compare(Op::IEqual, Index::Const(0), Index::Const(0)),
            None => self.dummy(),
        })
    }

    fn logical(&mut self, op: Op, x: Id, y: Id) -> Id {
        match &mut self.builder {
            Some(b) => {
                let ty = b.globals.bool(b.module);
                b.ids(op, ty, &[x, y])
            }
            None => self.dummy(),
        }
    }

    pub(super) fn select(&mut self, condition: Result<Id, bool>, x: Num, y: Num) -> Num {
        match condition {
            Err(true) => x,
            Err(false) => y,
            Ok(_) if x == y => x,
            Ok(c) => {
                let at = match &mut self.builder {
                    Some(b) => b.select(c, x.at, y.at),
                    None => Index::Value(self.dummy()),
                };
                let step = if x.step == Step::Still && y.step == Step::Still { Step::Still } else { Step::Free };
                let below = x.below.zip(y.below).map(|(a, b)| a.max(b));
                Num { at, step, align: x.align.min(y.align), below }
            }
        }
    }

    /// Returns the bitwise complement of `x`.
    pub(super) fn not(&mut self, x: Num) -> Num {
        let ones = Num::known(u32::MAX);
        let at = match x.at {
            Index::Const(v) => Index::Const(!v),
            at => self.number(Op::BitwiseXor, at, ones.at),
        };
        Num { at, step: if x.step == Step::Still { Step::Still } else { Step::Free }, align: 1, below: None }
    }
}
