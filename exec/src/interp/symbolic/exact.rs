//! Integers that no data makes wrap: where the results of additions, subtractions and multiplications have enough bits, each is the
//! value of its polynomial, not only modulo 2^w. So a float that is made of one is that polynomial.
//!
//! A range is never too small: it holds the number for all contents of the data buffers.

use super::Symbols;
use super::bits::{self, Part, Source};
use super::term::{Key, Sort};
use super::{Number, Value};

/// The least and the greatest value that a number may have.
pub(super) type Range = [i64; 2];

/// An integer that does not wrap.
#[derive(Clone, Copy, Debug)]
pub(super) struct Exact {
    /// Its value in the field.
    pub(super) number: Number,
    pub(super) range: Range,
}

/// Returns true if each number of a range is one with a sign of so many bits.
pub(super) fn fits([least, most]: Range, width: u32) -> bool {
    width >= i64::BITS || least >= -(1 << (width - 1)) && most < 1 << (width - 1)
}

pub(super) fn negated([least, most]: Range) -> Option<Range> {
    Some([most.checked_neg()?, least.checked_neg()?])
}

pub(super) fn sum(a: Range, b: Range) -> Option<Range> {
    Some([a[0].checked_add(b[0])?, a[1].checked_add(b[1])?])
}

pub(super) fn product(a: Range, b: Range) -> Option<Range> {
    let mut range = [i64::MAX, i64::MIN];
    for (x, y) in a.into_iter().flat_map(|x| b.map(|y| (x, y))) {
        let value = x.checked_mul(y)?;
        range = [range[0].min(value), range[1].max(value)];
    }
    Some(range)
}

impl Symbols {
    /// Returns the number of the lowest bits of an atom, if they are an integer that does not wrap.
    fn exact_atom(&self, atom: u64, width: u32) -> Option<Exact> {
        let term = self.atoms.get(&atom)?;
        let key = Key { fingerprint: term.fingerprint(), width: width as u8, sort: term.sort() };
        self.exact.get(&key).copied()
    }

    /// Returns the number that a pattern is extended from, if it is an integer that does not wrap; `core` is the pattern without what
    /// it is extended by.
    pub(super) fn exact_core(&self, core: &[Part], read_signed: bool) -> Option<Exact> {
        let [Part { source: Source::Atom(atom), from: 0, len }] = *core else { return None };
        self.exact_atom(atom, len).filter(|exact| read_signed || exact.range[0] >= 0)
    }

    /// Returns the range of the number that a pattern stands for, read as signed or unsigned; `None` if that is not known.
    pub(super) fn range_of(&self, parts: &[Part], read_signed: bool) -> Option<Range> {
        let width: u32 = parts.iter().map(|part| part.len).sum();
        let (core, with_sign) = bits::core(parts);
        let kept: u32 = core.iter().map(|part| part.len).sum();
        let (kept, with_sign) = match (kept < width, with_sign) {
            (false, _) | (true, true) if !read_signed => (width, false),
            (false, _) => (width, true),
            (true, with_sign) => (kept, with_sign),
        };
        let whole = kept < width || read_signed;
        match self.exact_core(&core, with_sign).filter(|_| whole) {
            Some(exact) => Some(exact.range),
            None if kept >= i64::BITS - 1 => None,
            None if with_sign => Some([-(1 << kept >> 1), (1 << kept >> 1) - 1]),
            None => Some([0, (1 << kept) - 1]),
        }
    }

    /// Records that a result of `width` bits does not wrap, if it has bits enough for its range.
    pub(super) fn note_exact(&mut self, key: Key, number: Number, range: Option<Range>) {
        if let Some(range) = range.filter(|range| fits(*range, key.width.into())) {
            self.exact.entry(key).or_insert(Exact { number, range });
        }
    }

    /// Returns the number of a value with a sign or without, if it is the result of operations that do not wrap.
    pub(super) fn exact(&self, value: Value, read_signed: bool) -> Option<Exact> {
        let exact = self.exact.get(&value.term?.key())?;
        Some(*exact).filter(|exact| read_signed || exact.range[0] >= 0)
    }

    /// Records the number of the lowest bits of another number, where these are all of it.
    pub(super) fn note_narrowed(&mut self, from: Key, to: Key) {
        if let (Some(exact), Sort::Ring) = (self.exact.get(&from).copied(), to.sort) {
            self.note_exact(to, exact.number, Some(exact.range));
        }
    }
}
