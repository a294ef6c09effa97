//! Bit patterns as sequences of parts: what loads of other widths than stores, shifts, masks, casts and packs make.
//!
//! A pattern has one form: parts from the lowest bit up, none empty, neighbors merged where they continue each other. So
//! two halves packed into a word are the same term as the word that is loaded from where the halves were stored.

use coop_ir::hash::FxHashMap;
use smallvec::{SmallVec, smallvec};

use super::super::num::mask;
use super::super::taint::Taint;
use super::field::Fp;
use super::term::{Degree, Sort, Term};
use super::{Number, Symbols, Value};

/// The origin of the bits of a part.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) enum Source {
    /// `from` is the value.
    Constant,
    /// The contents of a buffer before the run.
    Input(u32),
    /// A term that is not made of parts.
    Atom(u64),
}

/// Consecutive bits of a source.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct Part {
    pub source: Source,
    pub from: u64,
    pub len: u32,
}

impl Part {
    fn constant(value: u64, len: u32) -> Part {
        Part { source: Source::Constant, from: mask(value, len), len }
    }

    /// Returns `len` of the bits from the one at `skip` on.
    fn slice(self, skip: u32, len: u32) -> Part {
        let from =
            if self.source == Source::Constant { mask(self.from >> skip, len) } else { self.from + u64::from(skip) };
        Part { from, len, ..self }
    }
}

/// Parts from the lowest bit up. Most have one or two.
pub(super) type Pattern = SmallVec<[Part; 3]>;

/// Hashes that were computed before: a keyed hash takes longer than to look up what it is of.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// The terms of patterns.
    terms: FxHashMap<Pattern, Term>,
    /// The atoms of terms by sort, width and fingerprint.
    atoms: FxHashMap<(Sort, u64, u64), u64>,
    /// The numbers that patterns stand for, without a sign and with one.
    pub numbers: FxHashMap<Pattern, [Option<Number>; 2]>,
    /// The symbols of bits of buffers.
    pub bits: FxHashMap<(u32, u64), Fp>,
}

/// Appends a part, and merges it with the last one where it continues that.
fn push(parts: &mut Pattern, part: Part) {
    if part.len == 0 {
        return;
    }
    if let Some(last) = parts.last_mut().filter(|last| last.source == part.source) {
        if part.source == Source::Constant {
            // A value is at most 64 bits wide, what is regrouped may be wider.
            if last.len + part.len <= 64 {
                last.from |= part.from << last.len;
                last.len += part.len;
                return;
            }
        } else if last.from + u64::from(last.len) == part.from {
            last.len += part.len;
            return;
        }
    }
    parts.push(part);
}

/// Returns some bits of a pattern.
pub(super) fn slice(parts: &[Part], skip: u32, len: u32) -> Pattern {
    let (mut out, mut at, end) = (Pattern::new(), 0, skip + len);
    for part in parts {
        let (first, last) = (skip.max(at), end.min(at + part.len));
        if first < last {
            push(&mut out, part.slice(first - at, last - first));
        }
        at += part.len;
    }
    out
}

/// Returns patterns one after the other, the first in the lowest bits.
pub(super) fn joined<'a>(patterns: impl IntoIterator<Item = &'a [Part]>) -> Pattern {
    let mut out = Pattern::new();
    patterns.into_iter().flatten().for_each(|part| push(&mut out, *part));
    out
}

/// Returns a pattern of `to` bits: the lowest ones, or all with zeros or copies of the highest one above.
pub(super) fn resized(parts: &[Part], width: u32, to: u32, signed: bool) -> Pattern {
    if to <= width {
        return slice(parts, 0, to);
    }
    let mut out = Pattern::from_slice(parts);
    let top = slice(parts, width - 1, 1);
    match top.first() {
        Some(top) if signed && top.source != Source::Constant => {
            for _ in width..to {
                out.push(*top);
            }
        }
        Some(top) if signed && top.from == 1 => push(&mut out, Part::constant(u64::MAX, to - width)),
        _ => push(&mut out, Part::constant(0, to - width)),
    }
    out
}

/// Returns a pattern shifted to higher bits, with zeros below.
pub(super) fn shifted_left(parts: &[Part], width: u32, by: u32) -> Pattern {
    let by = by.min(width);
    joined([&[Part::constant(0, by)][..], &slice(parts, 0, width - by)])
}

/// Returns a pattern shifted to lower bits.
pub(super) fn shifted_right(parts: &[Part], width: u32, by: u32, signed: bool) -> Pattern {
    if by >= width {
        return if signed {
            resized(&slice(parts, width - 1, 1), 1, width, true)
        } else {
            smallvec![Part::constant(0, width)]
        };
    }
    resized(&slice(parts, by, width - by), width - by, width, signed)
}

/// Combines two patterns bit by bit. `f` gets a bit of each, `None` if it is not constant, and says which it is: a
/// constant, the bit of the first or that of the second. Returns `None` if there is no such pattern.
pub(super) fn bitwise(
    a: &[Part],
    b: &[Part],
    width: u32,
    f: impl Fn(Option<bool>, Option<bool>) -> Option<Bit>,
) -> Option<Pattern> {
    let (mut out, mut at) = (Pattern::new(), 0);
    while at < width {
        let (x, y) = (run(a, at)?, run(b, at)?);
        let len = x.len.min(y.len).min(width - at);
        let (x, y) = (x.slice(0, len), y.slice(0, len));
        let constant = |part: Part| (part.source == Source::Constant).then_some(part.from & 1 == 1);
        let bit = match f(constant(x), constant(y)) {
            Some(bit) => bit,
            // The same bits twice: `and` and `or` give them back.
            None if x == y => Bit::First,
            None => return None,
        };
        match bit {
            Bit::Constant(bit) => push(&mut out, Part::constant(if bit { u64::MAX } else { 0 }, len)),
            Bit::First => push(&mut out, x),
            Bit::Second => push(&mut out, y),
        }
        at += len;
    }
    Some(out)
}

/// Returns the longest part of a pattern from a bit on that is of one source; if that is constant, of equal bits.
fn run(parts: &[Part], at: u32) -> Option<Part> {
    let mut first = 0;
    let part = parts.iter().find(|part| {
        first += part.len;
        at < first
    })?;
    let rest = part.slice(part.len - (first - at), first - at);
    if rest.source != Source::Constant {
        return Some(rest);
    }
    let equal = if rest.from & 1 == 1 { rest.from.trailing_ones() } else { rest.from.trailing_zeros() };
    Some(rest.slice(0, equal.min(rest.len)))
}

/// A bit of the result of [`bitwise`].
pub(super) enum Bit {
    Constant(bool),
    First,
    Second,
}

/// Returns the sign bit that a pattern ends with copies of, and the pattern without those: what was extended.
pub(super) fn core(parts: &[Part]) -> (Pattern, bool) {
    let Some(last) = parts.last() else { return (Pattern::new(), false) };
    if last.source == Source::Constant {
        let zeros = last.len.min(last.from.leading_zeros() - (64 - last.len));
        let mut core = Pattern::from_slice(&parts[..parts.len() - 1]);
        push(&mut core, last.slice(0, last.len - zeros));
        return (core, zeros == 0);
    }
    let mut rest = parts;
    while let [.., before, top] = rest
        && top.len == 1
        && before.source == top.source
        && before.from + u64::from(before.len) == top.from + 1
    {
        rest = &rest[..rest.len() - 1];
    }
    (Pattern::from_slice(rest), true)
}

impl Symbols {
    /// Returns the parts of a value.
    pub(super) fn parts(&mut self, value: Value, width: u32) -> Pattern {
        let Some(term) = value.term else { return smallvec![Part::constant(value.bits, width)] };
        if let Some((buffer, from)) = term.as_input() {
            return smallvec![Part { source: Source::Input(buffer), from, len: term.width() }];
        }
        if term.sort() == Sort::Bits {
            let parts = self.parts.get(&term.fingerprint());
            return parts
                .map(|parts| Pattern::from_slice(parts))
                .unwrap_or_else(|| unreachable!("a term of parts has parts"));
        }
        // Narrower and wider results of one polynomial have their low bits in common, if they have its fingerprint.
        let width = if term.sort() == Sort::Ring && self.modular.is_none() { 0 } else { u64::from(term.width()) };
        let name = (term.sort(), width, term.fingerprint());
        let atom = match self.known.atoms.get(&name) {
            Some(atom) => *atom,
            None => {
                let atom = self.symbol("atom", &[term.sort() as u64, width, term.fingerprint()]).bits();
                self.known.atoms.insert(name, atom);
                atom
            }
        };
        self.atoms.insert(atom, term);
        smallvec![Part { source: Source::Atom(atom), from: 0, len: term.width() }]
    }

    /// Returns the taint of some bits of a byte that was read.
    pub(in crate::interp) fn part_of(&mut self, taint: Taint, bits: u64, skip: u32, len: u32) -> Taint {
        let Taint::Term(term) = taint else { return taint };
        let parts = self.parts(Value { bits, term: Some(term) }, term.width());
        self.of_parts(slice(&parts, skip, len))
    }

    /// Returns the taint of values of some bits each, one after the other, the first in the lowest bits. `None` if a term is
    /// lost or a value undefined.
    pub(in crate::interp) fn in_one(&mut self, values: &[(u64, Taint)], width: u32) -> Option<Taint> {
        let mut parts: Vec<Pattern> = Vec::with_capacity(values.len());
        for (bits, taint) in values {
            let term = match taint {
                Taint::Exact => None,
                Taint::Term(term) => Some(*term),
                Taint::Inexact { .. } | Taint::Undefined => return None,
            };
            parts.push(self.parts(Value { bits: *bits, term }, width));
        }
        Some(self.of_parts(joined(parts.iter().map(|parts| parts.as_slice()))))
    }

    /// Returns the value of a pattern as a taint.
    pub(super) fn of_parts(&mut self, parts: Pattern) -> Taint {
        let parts = self.with_whole_numbers(parts);
        let width: u32 = parts.iter().map(|part| part.len).sum();
        match *parts.as_slice() {
            [Part { source: Source::Constant, .. }] => return Taint::Exact,
            [Part { source: Source::Input(buffer), from, .. }] => return Taint::Term(Term::input(buffer, from, width)),
            [Part { source: Source::Atom(atom), from: 0, .. }] => {
                if let Some(term) = self.atoms.get(&atom) {
                    if term.width() == width {
                        return Taint::Term(*term);
                    }
                    if term.sort() == Sort::Ring {
                        return self.narrowed(*term, width);
                    }
                }
            }
            _ => {}
        }
        if let Some(term) = self.known.terms.get(parts.as_slice()) {
            return Taint::Term(*term);
        }
        let fingerprint = self.hash("bits", &parts);
        let function = parts.iter().any(|part| match part.source {
            Source::Atom(atom) => self.atoms.get(&atom).is_none_or(|term| term.degree().is_uninterpreted()),
            _ => false,
        });
        // A word of two rounded halves is a function of theirs, of which nothing else is known.
        let degree = if function { Degree::FUNCTION } else { Degree::SYMBOL };
        self.applied.insert(fingerprint.bits());
        self.parts.entry(fingerprint.bits()).or_insert_with(|| parts.as_slice().into());
        let term = Term::new(Sort::Bits, width, fingerprint.bits(), degree);
        self.known.terms.insert(parts, term);
        Taint::Term(term)
    }

    /// Returns the hash of a pattern.
    pub(super) fn hash(&self, tag: &str, parts: &[Part]) -> Fp {
        let words: SmallVec<[u64; 12]> = parts
            .iter()
            .flat_map(|part| {
                let (kind, number) = match part.source {
                    Source::Constant => (0, 0),
                    Source::Input(buffer) => (1, u64::from(buffer)),
                    Source::Atom(atom) => (2, self.atom_below(atom, part.from as u32 + part.len)),
                };
                [kind << 32 | u64::from(part.len), number, part.from]
            })
            .collect();
        self.symbol(tag, &words)
    }
}
