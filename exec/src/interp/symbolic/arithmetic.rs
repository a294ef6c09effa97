//! Arithmetic on components.

use coop_ir::Op;
use smallvec::SmallVec;

use super::super::code::Conv;
use super::super::num::{Num, Rounding, signed};
use super::super::taint::Taint;
use super::bits::{self, Source};
use super::field::Fp;
use super::term::{Degree, Sort};
use super::{Arithmetic, Number, Operand, Rule, Symbols, Value};

impl Symbols {
    /// Returns the number that a value stands for in a float format.
    pub(super) fn number(&mut self, v: Value, num: Num) -> Number {
        let Some(term) = v.term else {
            return self.constant(num.to_f64(v.bits));
        };
        if let Some(number) = term.number(num) {
            return (number, term.degree());
        }
        if num == Num::F32 && term.sort() == Sort::Bits {
            // A bf16 is the upper half of an f32 with zeros below.
            let parts = self.parts(v, 32);
            if let [low, ..] = parts.as_slice()
                && low.source == Source::Constant
                && low.len >= 16
                && low.from & 0xffff == 0
                && let Taint::Term(upper) = self.of_parts(bits::slice(&parts, 16, 16))
            {
                return self.number(Value { bits: v.bits >> 16, term: Some(upper) }, Num::Bf16);
            }
        }
        let format = Sort::of(num).map_or(u64::MAX, |sort| sort as u64);
        let key = term.key();
        let degree = if term.degree().is_uninterpreted() { Degree::FUNCTION } else { Degree::SYMBOL };
        let name = (key.fingerprint, key.sort, key.width, num);
        if let Some(symbol) = self.symbols_of_numbers.get(&name) {
            return (*symbol, degree);
        }
        let words = [format, key.fingerprint, u64::from(key.width), key.sort as u64];
        let symbol = self.symbol("number", &words);
        self.is_number(symbol, term, num);
        self.symbols_of_numbers.insert(name, symbol);
        (symbol, degree)
    }

    /// Returns the number of a constant. Not a number, infinity and, where operations round, zero are symbols: a zero has a
    /// sign there.
    fn constant(&self, value: f64) -> Number {
        let signed = |symbol: Fp| (if value.is_sign_negative() { symbol.negated() } else { symbol }, Degree::FUNCTION);
        match Fp::float(value) {
            Some(Fp::ZERO) if self.arithmetic == Arithmetic::Strict => signed(self.symbol("zero", &[])),
            Some(value) => (value, Degree::CONSTANT),
            None if value.is_nan() => (self.symbol("NaN", &[]), Degree::FUNCTION),
            None => signed(self.symbol("infinity", &[])),
        }
    }

    /// Returns the result of a function of floats of which nothing is known.
    pub(super) fn float_function(&mut self, tag: &str, num: Num, of: &[Fp]) -> Taint {
        let words: Vec<u64> = of.iter().map(|x| x.bits()).collect();
        // Where operations round, the same operation in another format is another function.
        let format = if self.arithmetic == Arithmetic::Strict { num.bits() * 64 + num.precision() } else { 0 };
        let result = self.function(&format!("{tag} {format}"), &words);
        self.float(num, result)
    }

    /// Returns what a conversion that saturates rounds: the value, or the largest of the format on either side.
    pub(super) fn bounded(&mut self, conv: &Conv, v: Value) -> Value {
        let (from, to) = (conv.from, conv.to);
        let most = to.to_f64(to.largest(false));
        if !conv.saturate || v.term.is_none() || from.to_f64(from.largest(false)) <= most {
            return v;
        }
        let bound = |value: f64| Value { bits: from.encode_f64(value), term: None };
        let mut out = v;
        for (tag, bound) in [("float max", bound(-most)), ("float min", bound(most))] {
            if let Taint::Term(term) = self.extreme(tag, from, &[out, bound]) {
                out = Value { bits: v.bits, term: Some(term) };
            }
        }
        out
    }

    /// Returns the result of a conversion between float formats.
    pub(super) fn round(&mut self, conv: &Conv, v: Value) -> Taint {
        if conv.from == conv.to {
            return v.term.map_or(Taint::Exact, Taint::Term);
        }
        let number = self.number(v, conv.from);
        self.rounded(conv.to, conv.mode, !holds(conv.to, conv.from), number)
    }

    /// Returns a number in a format, rounded if `narrows`; `mode` if it is not to the nearest even one.
    pub(super) fn rounded(&mut self, to: Num, mode: Option<Rounding>, narrows: bool, number: Number) -> Taint {
        if self.arithmetic == Arithmetic::Reals || !narrows {
            return self.float(to, number);
        }
        let format = Sort::of(to).map_or(u64::MAX, |sort| sort as u64);
        if self.fits(number.0, to) || self.fits(number.0.negated(), to) {
            return self.float(to, number);
        }
        // Where a conversion does not say how it rounds, that is a function of its own.
        let mode = mode.or(self.nearest.then_some(Rounding::NearestEven)).map_or(0, |mode| 1 + mode as u64);
        let result = self.function("round", &[format | mode << 32, number.0.bits()]);
        self.fits.insert(result.0.bits(), to);
        self.float(to, result)
    }

    /// Returns true if a number is known to be one of a format: it was rounded to that, or is read in a format that it holds.
    fn fits(&self, number: Fp, to: Num) -> bool {
        let read = || self.numbers.get(&number.bits()).map(|(_, format)| *format);
        self.fits.get(&number.bits()).copied().or_else(read).is_some_and(|format| holds(to, format))
    }

    /// Returns the result of an instruction on components of type `num`.
    pub(super) fn each(&mut self, op: Op, num: Num, v: &[Value]) -> Taint {
        let taint = self.result(op, num, v);
        self.made_by(op, num, v, taint);
        taint
    }

    fn result(&mut self, op: Op, num: Num, v: &[Value]) -> Taint {
        if op.is_comparison() {
            return self.compare(op, num, v);
        }
        let known = if num.is_float() { self.float_each(op, num, v) } else { self.integer_each(op, num, v) };
        if let Some(taint) = known {
            return taint;
        }
        if num.is_float() {
            let of: SmallVec<[Fp; 4]> = v.iter().map(|v| self.number(*v, num).0).collect();
            return self.float_function(&op.to_string(), num, &of);
        }
        if matches!(op, Op::LogicalAnd | Op::LogicalOr) {
            return self.commutative(op, num.bits(), v);
        }
        let ids: SmallVec<[u64; 8]> = v.iter().flat_map(|v| Symbols::identity(*v)).collect();
        self.opaque(num.bits(), &format!("{op} {}", num.bits()), &ids)
    }

    /// Returns the result of float arithmetic; `None` for other functions.
    fn float_each(&mut self, op: Op, num: Num, v: &[Value]) -> Option<Taint> {
        if self.arithmetic == Arithmetic::Strict {
            return Some(self.strict_each(op, num, v));
        }
        let mut number = |k: usize| self.number(v[k], num);
        let result = match op {
            Op::FNegate => {
                let (x, degree) = number(0);
                (x.negated(), degree)
            }
            Op::FAdd => sum(number(0), number(1)),
            Op::FSub => {
                let (x, (y, degree)) = (number(0), number(1));
                sum(x, (y.negated(), degree))
            }
            Op::FMul => product(number(0), number(1)),
            Op::FmaKHR => sum(product(number(0), number(1)), number(2)),
            Op::FDiv => {
                let (x, y) = (number(0), number(1));
                return self.quotient(num, x, y);
            }
            Op::QuantizeToF16 => {
                let x = number(0);
                return Some(self.quantized(Num::F16, num, x));
            }
            Op::RoundFToTF32INTEL if self.arithmetic == Arithmetic::Reals => {
                let x = self.number(v[0], num);
                return Some(self.as_tf32(x));
            }
            _ => return None,
        };
        Some(self.float(num, result))
    }

    /// Returns the result of float arithmetic that rounds.
    fn strict_each(&mut self, op: Op, num: Num, v: &[Value]) -> Taint {
        let numbers: SmallVec<[Number; 3]> = v.iter().map(|v| self.number(*v, num)).collect();
        let commutes = matches!(op, Op::FAdd | Op::FMul);
        // A change of sign is exact.
        if op == Op::FNegate {
            let (x, degree) = numbers[0];
            return self.float(num, (x.negated(), degree));
        }
        let mut of: Vec<Fp> = numbers.iter().map(|n| n.0).collect();
        if commutes || op == Op::FmaKHR {
            of[..2].sort_unstable();
        }
        let tag = if op == Op::FSub {
            // x - y is x + -y.
            of[1] = of[1].negated();
            of.sort_unstable();
            Op::FAdd.to_string()
        } else {
            op.to_string()
        };
        self.float_function(&tag, num, &of)
    }

    /// Returns a number rounded to a narrower format and back.
    fn quantized(&mut self, narrow: Num, wide: Num, number: Number) -> Taint {
        match self.rounded(narrow, None, true, number) {
            Taint::Term(term) => match term.number(narrow) {
                Some(value) => self.float(wide, (value, term.degree())),
                None => self.lose("a rounded number"),
            },
            other => other,
        }
    }

    fn quotient(&mut self, num: Num, x: Number, y: Number) -> Option<Taint> {
        if y.0 == Fp::ZERO {
            // A divisor that is 0 for all data; the quotient is no real number.
            return None;
        }
        Some(self.float(num, (x.0.times(y.0.inverse()), x.1.of_quotient(y.1))))
    }

    fn compare(&mut self, op: Op, num: Num, v: &[Value]) -> Taint {
        if let (false, [a, b]) = (num.is_float(), v)
            && let Some(taint) = self.condition_of_bit(op, num.bits(), *a, *b)
        {
            return taint;
        }
        let (op, swap) = mirrored(op);
        let mut ids: SmallVec<[u64; 5]> = if num.is_float() {
            v.iter().map(|v| self.number(*v, num).0.bits()).collect()
        } else {
            v.iter().flat_map(|v| Symbols::identity(*v)).collect()
        };
        if swap {
            let half = ids.len() / 2;
            ids.rotate_left(half);
        }
        ids.push(if num.is_float() { 0 } else { u64::from(num.bits()) });
        let taint = self.opaque(Num::Bool.bits(), op.name().unwrap_or("?"), &ids);
        if let (false, [a, b]) = (num.is_float(), v) {
            let (a, b) = if swap { (*b, *a) } else { (*a, *b) };
            self.note_comparison(op, a, b, taint);
        }
        taint
    }

    /// Returns the result of a choice whose condition depends on data.
    pub(super) fn select(&mut self, num: Option<Num>, v: &[Value]) -> Taint {
        let taint = self.selected(num, v);
        let nums = [Num::Bool, num.unwrap_or(Num::U32), num.unwrap_or(Num::U32)];
        let operands = v.iter().zip(nums).map(|(value, num)| Operand { value: *value, num });
        self.made(taint, || Rule::Function("Select".into()), operands);
        taint
    }

    fn selected(&mut self, num: Option<Num>, v: &[Value]) -> Taint {
        let [cond, a, b] = *v else { return self.lose("a choice without three operands") };
        let [condition, sort] = Symbols::identity(cond);
        if self.is_given(cond) {
            let chosen = if cond.bits != 0 { a } else { b };
            return chosen.term.map_or(Taint::Exact, Taint::Term);
        }
        match num {
            Some(num) if num.is_float() => {
                let (x, y) = (self.number(a, num), self.number(b, num));
                if x.0 == y.0 {
                    return self.float(num, x);
                }
                let result = if self.arithmetic == Arithmetic::Strict {
                    self.function("select", &[condition, sort, x.0.bits(), y.0.bits()])
                } else {
                    self.chosen(cond, x, y)
                };
                self.float(num, result)
            }
            Some(num) => {
                let [x, y] = [a, b].map(Symbols::identity);
                if x == y {
                    return a.term.map_or(Taint::Exact, Taint::Term);
                }
                if let Some(rounded) = self.rounding_choice(num.bits(), [cond, a, b]) {
                    return rounded;
                }
                if let Some(sum) = self.saturating_choice(num.bits(), [cond, a, b]) {
                    return sum;
                }
                let taint = self.opaque(num.bits(), "select", &[condition, sort, x[0], x[1], y[0], y[1]]);
                self.note_choice(num.bits(), [cond, a, b], taint);
                if let (Taint::Term(term), None, None) = (taint, a.term, b.term) {
                    let [x, y] = [a, b].map(|v| self.exact_integer(v, num.bits(), true));
                    let range = [a, b].map(|v| signed(v.bits, num.bits()));
                    let range = [range[0].min(range[1]), range[0].max(range[1])];
                    let number = self.chosen(cond, x, y);
                    self.note_exact(term.key(), number, Some(range));
                }
                taint
            }
            None => self.lose("a choice between values of another kind than numbers"),
        }
    }

    /// Returns the greatest or least of values, in whatever order and however often they are combined.
    pub(super) fn extreme(&mut self, tag: &str, num: Num, of: &[Value]) -> Taint {
        let mut members: Vec<u64> = Vec::new();
        let mut words = Vec::new();
        for v in of {
            if num.is_float() {
                words.push(self.number(*v, num).0.bits());
            } else {
                words.push(self.symbol("operand", &Symbols::identity(*v)).bits());
            }
        }
        for word in words {
            match self.extremes.get(&word) {
                Some((kind, inner)) if kind == tag => members.extend(inner),
                _ => members.push(word),
            }
        }
        members.sort_unstable();
        members.dedup();
        if num.is_float() && members.len() == 1 {
            // The extreme of one value, however often it was given.
            return of.iter().find_map(|v| v.term).map_or(Taint::Exact, Taint::Term);
        }
        let (result, degree) = self.function(tag, &members);
        if num.is_float() {
            self.extremes.insert(result.bits(), (tag.to_owned(), members.into()));
            return self.float(num, (result, degree));
        }
        let term = Taint::Term(super::Term::new(Sort::Opaque, num.bits(), result.bits(), degree));
        if let Taint::Term(t) = term {
            let word = self.symbol("operand", &Symbols::identity(Value { bits: 0, term: Some(t) })).bits();
            self.extremes.insert(word, (tag.to_owned(), members.into()));
        }
        term
    }
}

pub(super) fn sum(x: Number, y: Number) -> Number {
    (x.0.plus(y.0), x.1.of_sum(y.1))
}

pub(super) fn product(x: Number, y: Number) -> Number {
    (x.0.times(y.0), x.1.of_product(y.1))
}

/// Returns true if every value of a float format is one of another.
fn holds(to: Num, from: Num) -> bool {
    // The largest value says how far the exponents go.
    to.precision() >= from.precision()
        && to.to_f64(to.largest(false)) >= from.to_f64(from.largest(false))
        && !matches!((from, to), (Num::E8M0, _) | (_, Num::E8M0))
}

/// Returns the comparison with exchanged operands where that is "less than", so that both spellings are one.
fn mirrored(op: Op) -> (Op, bool) {
    match op {
        Op::FOrdGreaterThan => (Op::FOrdLessThan, true),
        Op::FOrdGreaterThanEqual => (Op::FOrdLessThanEqual, true),
        Op::FUnordGreaterThan => (Op::FUnordLessThan, true),
        Op::FUnordGreaterThanEqual => (Op::FUnordLessThanEqual, true),
        Op::UGreaterThan => (Op::ULessThan, true),
        Op::UGreaterThanEqual => (Op::ULessThanEqual, true),
        Op::SGreaterThan => (Op::SLessThan, true),
        Op::SGreaterThanEqual => (Op::SLessThanEqual, true),
        other => (other, false),
    }
}
