//! Sums of integers that saturate: a product of matrices adds so as one operation, other code by comparisons and choices.
//!
//! Both are one function: that of the exact sum of two numbers of a width. The forms that are known are those in which the
//! overflow of `x + y` is computed without wider integers, with `t` for the sum modulo 2^w: `t < x` without sign, and
//! `((x ^ t) & (y ^ t)) < 0` with one. Each is true exactly if the sum does not fit, for all x and y; that `t` is the sum
//! of the two is not taken from the form but computed. A narrow sum in a wider integer, which has it whatever the data, is
//! clamped by two comparisons.

use coop_ir::Op;

use super::super::num::{mask, signed};
use super::super::taint::Taint;
use super::arithmetic::sum;
use super::bits;
use super::term::{Key, Sort};
use super::{Number, Symbols, Value};

/// The form of a value from which an overflow is computed.
#[derive(Clone, Copy, Debug)]
pub(super) enum Form {
    /// The exclusive or of two values.
    Different([Value; 2]),
    /// Negative if the sum of the first two overflows, which is the third.
    Overflow([Value; 3]),
    /// True if the sum of the first two overflows, which is the third.
    Overflows([Value; 3]),
    /// True if a value is negative, false if it is more than 0: a sum of 0 and another number does not overflow.
    Negative(Value),
    /// The least integer if a value is negative, else the greatest.
    Limit(Value),
    /// True if the first is less than the second; both are read with a sign or both without.
    Less([Value; 2], bool),
    /// The least of an integer that does not wrap and the greatest integer with a sign of a narrower width.
    Below(Number, u32),
    /// True if a bit is 1, or, if the second is true, 0: the bit as a number.
    Bit(Number, bool),
}

/// The widths of numbers whose sums are clamped in wider integers.
const NARROW: [u32; 3] = [4, 8, 16];

/// Returns the least and the greatest integer of a width.
fn limits(width: u32, signed: bool) -> [u64; 2] {
    let all = mask(u64::MAX, width);
    if signed { [all ^ all >> 1, all >> 1] } else { [0, all] }
}

fn constant(v: Value) -> Option<u64> {
    v.term.is_none().then_some(v.bits)
}

fn same(a: Value, b: Value) -> bool {
    Symbols::identity(a) == Symbols::identity(b)
}

fn value(taint: Taint, bits: u64) -> Option<Value> {
    match taint {
        Taint::Exact => Some(Value { bits, term: None }),
        Taint::Term(term) => Some(Value { bits, term: Some(term) }),
        Taint::Inexact { .. } | Taint::Undefined => None,
    }
}

impl Symbols {
    /// Returns the sum of two integers of a width, the least or the greatest of the width where that is not one of it.
    pub(super) fn saturated(&mut self, width: u32, signed: bool, [x, y]: [Value; 2]) -> Taint {
        for (one, other) in [(x, y), (y, x)] {
            if one.term.is_none() && one.bits == 0 {
                return other.term.map_or(Taint::Exact, Taint::Term);
            }
        }
        let [x, y] = [x, y].map(|v| self.exact_integer(v, width, signed));
        let total = sum(x, y);
        self.opaque(width, &format!("saturated {width} {signed}"), &[total.0.bits()])
    }

    pub(super) fn form(&self, v: Value) -> Option<Form> {
        self.forms.get(&v.term?.key()).copied()
    }

    pub(super) fn has_form(&mut self, taint: Taint, form: Option<Form>) {
        if let (Taint::Term(term), Some(form)) = (taint, form) {
            self.forms.insert(term.key(), form);
        }
    }

    /// Records the form of the result of an instruction on the bits of integers.
    pub(super) fn note_logic(&mut self, op: Op, width: u32, v: &[Value], taint: Taint) {
        let form = match (op, v.first().copied().zip(v.get(1).copied())) {
            (Op::BitwiseXor, Some((a, b))) => Some(Form::Different([a, b])),
            (Op::BitwiseAnd, Some((a, b))) => self.overflow(width, a, b),
            _ => None,
        };
        self.has_form(taint, form);
    }

    /// Returns the form of `(x ^ t) & (y ^ t)`, where t is the sum of x and y.
    fn overflow(&mut self, width: u32, a: Value, b: Value) -> Option<Form> {
        let (Form::Different(p), Form::Different(q)) = (self.form(a)?, self.form(b)?) else { return None };
        for (x, t) in [(p[0], p[1]), (p[1], p[0])] {
            for (y, other) in [(q[0], q[1]), (q[1], q[0])] {
                let [one, two] = [x, y].map(|v| self.integer(v, width, true, width));
                let total = self.ring_of(width, one.plus(&two));
                let is_sum = matches!((total, t.term), (Taint::Term(total), Some(t)) if total.key() == t.key());
                if is_sum && same(t, other) {
                    return Some(Form::Overflow([x, y, t]));
                }
            }
        }
        None
    }

    /// Records the form of the result of a comparison of integers.
    pub(super) fn note_comparison(&mut self, op: Op, a: Value, b: Value, taint: Taint) {
        let zero = b.term.is_none() && b.bits == 0;
        let form = match op {
            Op::SLessThan if zero => Some(match self.form(a) {
                Some(Form::Overflow(of)) => Form::Overflows(of),
                _ => Form::Negative(a),
            }),
            Op::SLessThanEqual if zero => Some(Form::Negative(a)),
            Op::ULessThan => Some(Form::Less([a, b], false)),
            Op::SLessThan if a.term.is_none() || b.term.is_none() => Some(Form::Less([a, b], true)),
            _ => None,
        };
        self.has_form(taint, form);
    }

    /// Returns the result of a choice that saturates a sum.
    pub(super) fn saturating_choice(&mut self, width: u32, [cond, a, b]: [Value; 3]) -> Option<Taint> {
        match self.form(cond)? {
            Form::Overflows([x, y, total]) if same(total, b) => {
                // Both have the same sign where the sum overflows.
                let Form::Limit(of) = self.form(a)? else { return None };
                (same(of, x) || same(of, y)).then(|| self.saturated(width, true, [x, y]))
            }
            Form::Less([total, x], false) if same(total, b) && constant(a) == Some(limits(width, false)[1]) => {
                // Whatever the total is, it is the sum of x and what it has more than x.
                let [all, one] = [total, x].map(|v| self.integer(v, width, true, width));
                let rest = self.ring_of(width, all.plus(&one.negated()));
                let y = value(rest, mask(total.bits.wrapping_sub(x.bits), width))?;
                Some(self.saturated(width, false, [x, y]))
            }
            // What has too few bits for the limit is not clamped.
            Form::Less(of, signed) if self.is_within(of, width, [a, b], signed) => {
                Some(b.term.map_or(Taint::Exact, Taint::Term))
            }
            Form::Less([limit, total], false) if same(limit, a) && same(total, b) => {
                let number = self.exact(total, false)?.number;
                let narrow = NARROW.into_iter().find(|narrow| constant(a) == Some(limits(*narrow, false)[1]))?;
                Some(self.widened(narrow, width, false, number))
            }
            Form::Less([least, limit], true) if same(limit, a) && same(least, b) => {
                let Form::Below(number, narrow) = self.form(least)? else { return None };
                let wanted = mask(signed(limits(narrow, true)[0], narrow) as u64, width);
                (constant(a) == Some(wanted)).then(|| self.widened(narrow, width, true, number))
            }
            _ => None,
        }
    }

    /// Records that a choice is the limit on the side of a sign, or that it clamps a sum from above.
    pub(super) fn note_choice(&mut self, width: u32, [cond, a, b]: [Value; 3], taint: Taint) {
        let form = match self.form(cond) {
            Some(Form::Negative(x)) if [constant(a), constant(b)] == limits(width, true).map(Some) => {
                Some(Form::Limit(x))
            }
            Some(Form::Less([limit, total], true)) if same(limit, a) && same(total, b) => {
                let narrow = NARROW.into_iter().find(|narrow| constant(a) == Some(limits(*narrow, true)[1]));
                self.exact(total, true).zip(narrow).map(|(exact, narrow)| Form::Below(exact.number, narrow))
            }
            _ => None,
        };
        self.has_form(taint, form);
    }

    /// Returns a saturated sum of a narrow width as an integer of another.
    fn widened(&mut self, narrow: u32, width: u32, signed: bool, total: Number) -> Taint {
        let taint = self.opaque(narrow, &format!("saturated {narrow} {signed}"), &[total.0.bits()]);
        let Taint::Term(term) = taint else { return taint };
        let parts = self.parts(Value { bits: 0, term: Some(term) }, narrow);
        self.of_parts(bits::resized(&parts, narrow, width, signed))
    }

    /// Returns true if `a` is a limit of a narrow width that `b`, which a comparison compares with it, has not more bits for.
    fn is_within(&self, of: [Value; 2], width: u32, [a, b]: [Value; 2], with_sign: bool) -> bool {
        let Some((bits, signed_core)) = self.core_of(b) else { return false };
        NARROW.into_iter().any(|narrow| {
            let [least, most] = limits(narrow, with_sign);
            let least = if with_sign { mask(signed(least, narrow) as u64, width) } else { least };
            let compared = constant(a) == Some(most) && same(of[0], a) && same(of[1], b)
                || constant(a) == Some(least) && same(of[0], b) && same(of[1], a);
            // Without a sign above, a number is less than 2^bits.
            let fits = match (with_sign, signed_core) {
                (true, true) | (false, false) => bits <= narrow,
                (true, false) => bits < narrow,
                (false, true) => false,
            };
            compared && fits
        })
    }

    /// Returns from how many bits a value is extended, and true if with its sign; `None` if from all that it has.
    fn core_of(&self, v: Value) -> Option<(u32, bool)> {
        let term = v.term.filter(|term| term.sort() == Sort::Bits)?;
        let (core, with_sign) = bits::core(self.parts.get(&term.fingerprint())?);
        let kept = core.iter().map(|part| part.len).sum::<u32>();
        (kept < term.width()).then_some((kept, with_sign))
    }
}

/// The forms of values, by their terms.
pub(super) type Forms = coop_ir::hash::FxHashMap<Key, Form>;
