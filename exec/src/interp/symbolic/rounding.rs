//! Roundings of f32 to bf16 and tf32 that integer instructions make: code for devices without such conversions.
//!
//! With x for the bits of a number and d for the bits that are dropped, the code adds 2^(d-1) - 1 and the lowest kept bit to x, and
//! drops d bits: that is the nearest number, the even one of two, up to infinity, for each x that is no NaN. For a NaN, which
//! `x & 0x7fffffff > 0x7f800000` says, it takes the kept bits of `x | 0x400000`: a NaN again. Each part is computed here and compared,
//! none is taken from the form.

use smallvec::smallvec;

use super::super::num::{Num, Rounding};
use super::super::taint::Taint;
use super::bits::{self, Part, Pattern, Source};
use super::saturation::Form;
use super::term::{Key, Sort, Term};
use super::{Arithmetic, Number, Symbols, Value};

/// The bits of infinity.
const INFINITY: u64 = 0x7f80_0000;

/// The bit that makes a NaN quiet.
const QUIET: u32 = 22;

/// A rounding: the bits that are dropped, and the format of which the rest is.
const ROUNDINGS: [(u32, Option<Num>); 2] = [(16, Some(Num::Bf16)), (13, None)];

impl Symbols {
    /// Returns the result of a choice that rounds: between the kept bits of a NaN and those of a rounded number.
    pub(super) fn rounding_choice(&mut self, width: u32, [cond, a, b]: [Value; 3]) -> Option<Taint> {
        let Form::Less([limit, magnitude], false) = self.form(cond)? else { return None };
        if width != 32 || limit.term.is_some() || limit.bits != INFINITY || self.arithmetic == Arithmetic::Strict {
            return None;
        }
        let x = self.number_of_magnitude(magnitude)?;
        let [a, b] = [a, b].map(|v| v.term.map(Term::key));
        ROUNDINGS.into_iter().find_map(|(dropped, to)| {
            let (quiet, rounded) = (self.quiet(x)?, self.rounded_up(x, dropped)?);
            let high = [quiet, rounded].map(|of| self.kept(of, dropped, true));
            let low = [quiet, rounded].map(|of| self.kept(of, dropped, false));
            let in_place = [a, b] == low;
            if !in_place && [a, b] != high {
                return None;
            }
            let number = self.number(x, Num::F32);
            self.placed(to, number, in_place)
        })
    }

    /// Returns the f32 whose bits without the sign are those of a value.
    fn number_of_magnitude(&mut self, magnitude: Value) -> Option<Value> {
        magnitude.term?;
        let parts = self.parts(magnitude, 32);
        let [rest @ .., top] = parts.as_slice() else { return None };
        if (top.source, top.from, top.len) != (Source::Constant, 0, 1) {
            return None;
        }
        let mut whole = Pattern::from_slice(rest);
        let last = whole.last_mut().filter(|last| last.source != Source::Constant)?;
        last.len += 1;
        if let Source::Atom(atom) = last.source {
            // The sign is the highest bit that the term has.
            let term = self.atoms.get(&atom)?;
            (last.from + u64::from(last.len) == u64::from(term.width())).then_some(())?;
        }
        match self.of_parts(whole) {
            Taint::Term(term) if term.width() == 32 => Some(Value { bits: 0, term: Some(term) }),
            _ => None,
        }
    }

    /// Returns the bits of a quiet NaN made of another.
    fn quiet(&mut self, x: Value) -> Option<Value> {
        let parts = self.parts(x, 32);
        let one: Pattern = smallvec![Part { source: Source::Constant, from: 1, len: 1 }];
        let [below, above] = [bits::slice(&parts, 0, QUIET), bits::slice(&parts, QUIET + 1, 31 - QUIET)];
        self.value_of(bits::joined([&below[..], &one, &above]))
    }

    /// Returns the sum of the bits of a number, its lowest kept bit, and just less than half of that.
    fn rounded_up(&mut self, x: Value, dropped: u32) -> Option<Value> {
        let parts = self.parts(x, 32);
        let odd = self.value_of(bits::resized(&bits::slice(&parts, dropped, 1), 1, 32, false))?;
        let [x, odd] = [x, odd].map(|v| self.integer(v, 32, true, 32));
        let half = self.integer_constant((1 << (dropped - 1)) - 1);
        match self.ring_of(32, x.plus(&odd).plus(&half)) {
            Taint::Term(term) => Some(Value { bits: 0, term: Some(term) }),
            _ => None,
        }
    }

    /// Returns the name of the kept bits, in the lowest bits of a word if `high`, else in place.
    fn kept(&mut self, of: Value, dropped: u32, high: bool) -> Option<Key> {
        let parts = self.parts(of, 32);
        let kept = bits::shifted_right(&parts, 32, dropped, false);
        let kept = if high { kept } else { bits::shifted_left(&kept, 32, dropped) };
        self.value_of(kept)?.term.map(Term::key)
    }

    fn value_of(&mut self, parts: Pattern) -> Option<Value> {
        match self.of_parts(parts) {
            Taint::Term(term) => Some(Value { bits: 0, term: Some(term) }),
            _ => None,
        }
    }

    /// Returns a rounded number as a word.
    fn placed(&mut self, to: Option<Num>, number: Number, in_place: bool) -> Option<Taint> {
        let Some(to) = to else {
            return (in_place && self.arithmetic == Arithmetic::Reals).then(|| self.as_tf32(number));
        };
        let Taint::Term(term) = self.rounded(to, Some(Rounding::NearestEven), true, number) else { return None };
        let parts = self.parts(Value { bits: 0, term: Some(term) }, 16);
        let word = bits::resized(&parts, 16, 32, false);
        Some(self.of_parts(if in_place { bits::shifted_left(&word, 32, 16) } else { word }))
    }

    /// Returns a number as an f32 of which some bits were dropped: never the bits that it was read from.
    pub(super) fn as_tf32(&mut self, (value, degree): Number) -> Taint {
        // For the bound of the degree.
        let Taint::Term(_) = self.float(Num::F32, (value, degree)) else { return self.lose("a number of tf32") };
        Taint::Term(Term::new(Sort::F32, 32, value.bits(), degree))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    /// The code that the law is about, of which the interpreter's own conversion knows nothing.
    fn code(x: u32) -> u32 {
        if x & 0x7fff_ffff > 0x7f80_0000 {
            (x | 1 << QUIET) >> 16
        } else {
            x.wrapping_add((x >> 16 & 1) + 0x7fff) >> 16
        }
    }

    #[test]
    fn the_code_is_the_conversion_for_all_kinds_of_numbers() {
        let mut random = Random::new(7);
        let edges =
            [0, 1, 0x7fff, 0x8000, 0x8001, 0x1_8000, 0x7f7f_7fff, 0x7f7f_8000, 0x7f80_0000, 0x7fc0_0000, 0x7f80_0001];
        let any = (0..200_000).map(|_| random.bits() as u32);
        for x in edges.into_iter().flat_map(|x| [x, x | 1 << 31]).chain(any) {
            let (got, wanted) = (u64::from(code(x)), Num::Bf16.encode_f64(f32::from_bits(x).into()));
            let nan = |bits: u64| bits & 0x7fff > 0x7f80;
            assert!(got == wanted || nan(got) && nan(wanted), "{x:#x}: {got:#x}, {wanted:#x}");
        }
    }
}
