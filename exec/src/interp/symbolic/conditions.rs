//! Conditions: a choice between numbers is a polynomial in its condition, which is 0 or 1. That of one bit is the bit, however it was
//! cut out and compared. A choice by a condition that is given is decided.

use coop_ir::Op;

use super::super::num::Num;
use super::super::taint::Taint;
use super::arithmetic::{product, sum};
use super::bits::Source;
use super::field::Fp;
use super::saturation::Form;
use super::term::{Key, Sort};
use super::{Number, Symbols, Value};

/// The function that tells the conditions of bits apart from others: of the bit, and 1 where they are true if it is 0.
const OF_BIT: &str = "condition of a bit";

impl Symbols {
    /// Returns the one bit of a value that is not 0 for all data, and true if it is compared with the value that has it: else with 0.
    fn bit(&mut self, width: u32, a: Value, b: Value) -> Option<(Number, bool)> {
        let (of, with) = match (a.term, b.term) {
            (Some(_), None) => (a, b.bits),
            (None, Some(_)) => (b, a.bits),
            _ => return None,
        };
        let parts = self.parts(of, width);
        let (mut at, mut found) = (0, None);
        for part in parts {
            match part.source {
                Source::Constant if part.from == 0 => {}
                Source::Constant => return None,
                _ if part.len > 1 || found.is_some() => return None,
                _ => found = Some((at, part)),
            }
            at += part.len;
        }
        let (at, part) = found?;
        let of_one = with == 1 << at;
        (of_one || with == 0).then(|| (self.number_of(&[part], false).0, of_one))
    }

    /// Returns the result of a comparison of a value that has one bit with 0, or with that bit; `None` if it is none.
    pub(super) fn condition_of_bit(&mut self, op: Op, width: u32, a: Value, b: Value) -> Option<Taint> {
        if !matches!(op, Op::IEqual | Op::INotEqual) {
            return None;
        }
        let (bit, of_one) = self.bit(width, a, b)?;
        let inverted = of_one == (op == Op::INotEqual);
        let taint = self.opaque(Num::Bool.bits(), OF_BIT, &[bit.0.bits(), u64::from(inverted)]);
        self.has_form(taint, Some(Form::Bit(bit, inverted)));
        Some(taint)
    }

    /// Returns true if a condition has its value for all data that is looked at.
    pub(super) fn is_given(&self, cond: Value) -> bool {
        let Some(term) = cond.term.filter(|_| !self.given.is_empty()) else { return false };
        if self.given.contains(&(term.key(), cond.bits)) {
            return true;
        }
        let Some(Form::Bit((bit, _), inverted)) = self.form(cond) else { return false };
        let other = self.symbol(OF_BIT, &[bit.bits(), u64::from(!inverted)]);
        let key = Key { fingerprint: other.bits(), width: Num::Bool.bits() as u8, sort: Sort::Opaque };
        self.given.contains(&(key, u64::from(cond.bits == 0)))
    }

    /// Returns a condition as a number: 1 where it is true, else 0. Its square is itself, which no polynomial says.
    fn condition(&mut self, cond: Value) -> Number {
        match self.form(cond) {
            Some(Form::Bit((bit, degree), false)) => (bit, degree.uninterpreted()),
            Some(Form::Bit((bit, degree), true)) => (Fp::ONE.minus(bit), degree.uninterpreted()),
            _ => self.function("condition", &Symbols::identity(cond)),
        }
    }

    /// Returns the first number where a condition is true, else the second.
    pub(super) fn chosen(&mut self, cond: Value, x: Number, y: Number) -> Number {
        let condition = self.condition(cond);
        sum(y, product(condition, sum(x, (y.0.negated(), y.1))))
    }
}
