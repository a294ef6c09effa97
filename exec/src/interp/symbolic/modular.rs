//! Integers modulo powers of two, by fingerprints: polynomials over the bits of data whose coefficients count modulo 2^w.
//!
//! The field cannot know that 2^w is 0. Here a polynomial is evaluated in the Galois ring of 2^64 and 2^(64 * 64), the integers
//! modulo 2^64 with a root of t^64 + t^4 + t^3 + t + 1, which is irreducible modulo 2. An element modulo 2^w is the value of the
//! polynomial in the ring of 2^w. A polynomial that is not 0 modulo 2^w is 2^k * Q with k < w and Q not 0 modulo 2; if it
//! vanishes in the ring, Q vanishes in the residue field of 2^64 elements, with probability at most d / 2^64 where the
//! residues of the symbols are random: so are the bits that a symbol has for coefficients.
//!
//! A multiplication costs some thousand steps; proofs come here where the field has not decided.

use std::hash::Hasher;

use coop_ir::hash::FxHashMap;

use super::super::num::mask;
use super::super::taint::Taint;
use super::bits::{self, Part, Pattern, Source};
use super::exact::{self, Range};
use super::field::Fp;
use super::term::{Degree, Sort, Term};
use super::{Symbols, Value};

/// The degree of the extension.
const N: usize = 64;

/// The exponents of the polynomial that the root is of, below its highest.
const TAIL: [usize; 4] = [0, 1, 3, 4];

/// The most elements that are kept: half a kilobyte each.
const MOST_ELEMENTS: usize = 1 << 20;

/// The widths at which a pattern is known by its number.
const WIDTHS: [u32; 4] = [8, 16, 32, 64];

/// An element: the coefficients of powers of the root.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Element([u64; N]);

impl Element {
    fn constant(value: u64) -> Box<Element> {
        let mut out = Element([0; N]);
        out.0[0] = value;
        Box::new(out)
    }

    /// Adds a symbol, whose coefficients are bits, times a power of two.
    fn add_symbol(&mut self, symbol: u64, power: u32) {
        for (i, c) in self.0.iter_mut().enumerate() {
            *c = c.wrapping_add((symbol >> i & 1) << power);
        }
    }

    fn add_scaled(&mut self, other: &Element, by: u64) {
        for (c, o) in self.0.iter_mut().zip(&other.0) {
            *c = c.wrapping_add(o.wrapping_mul(by));
        }
    }

    fn scaled(&self, by: u64) -> Box<Element> {
        let mut out = Box::new(Element([0; N]));
        out.add_scaled(self, by);
        out
    }

    fn times(&self, other: &Element) -> Box<Element> {
        match (self.as_constant(), other.as_constant()) {
            (Some(c), _) => return other.scaled(c),
            (_, Some(c)) => return self.scaled(c),
            _ => {}
        }
        let mut wide = [0u64; 2 * N];
        for (i, a) in self.0.iter().enumerate() {
            for (slot, b) in wide[i..i + N].iter_mut().zip(&other.0) {
                *slot = slot.wrapping_add(a.wrapping_mul(*b));
            }
        }
        // From the highest power down: the root to the power of 64 is the negated tail.
        for i in (N..2 * N).rev() {
            let c = std::mem::take(&mut wide[i]);
            for k in TAIL {
                wide[i - N + k] = wide[i - N + k].wrapping_sub(c);
            }
        }
        let mut out = Box::new(Element([0; N]));
        out.0.copy_from_slice(&wide[..N]);
        out
    }

    /// Returns the value if no symbol is in it.
    fn as_constant(&self) -> Option<u64> {
        self.0[1..].iter().all(|c| *c == 0).then_some(self.0[0])
    }

    fn reduced(&self, width: u32) -> Box<Element> {
        Box::new(Element(self.0.map(|c| mask(c, width))))
    }
}

/// An integer that depends on data: the value of a polynomial with integer coefficients, in the field or modulo 2^w.
#[derive(Clone, Debug)]
pub(super) struct Integer {
    value: Fp,
    /// Its value in the Galois ring, if integers count modulo powers of two.
    element: Option<Box<Element>>,
    degree: Degree,
    /// The range of the value that it has without wrapping, if that is known: then the value in the field is that of the number.
    range: Option<Range>,
}

impl Integer {
    pub(super) fn of_field((value, degree): (Fp, Degree), range: Option<Range>) -> Integer {
        Integer { value, element: None, degree, range }
    }

    /// Returns the value in the field, if integers have one, and the bound of the degree.
    pub(super) fn number(&self) -> Option<(Fp, Degree)> {
        self.element.is_none().then_some((self.value, self.degree))
    }

    pub(super) fn negated(&self) -> Integer {
        let element = self.element.as_ref().map(|e| e.scaled(u64::MAX));
        Integer {
            value: self.value.negated(),
            element,
            degree: self.degree,
            range: self.range.and_then(exact::negated),
        }
    }

    pub(super) fn plus(&self, other: &Integer) -> Integer {
        let element = self.element.as_ref().zip(other.element.as_ref()).map(|(a, b)| {
            let mut sum = a.clone();
            sum.add_scaled(b, 1);
            sum
        });
        let range = self.range.zip(other.range).and_then(|(a, b)| exact::sum(a, b));
        Integer { value: self.value.plus(other.value), element, degree: self.degree.of_sum(other.degree), range }
    }

    pub(super) fn times(&self, other: &Integer) -> Integer {
        let element = self.element.as_ref().zip(other.element.as_ref()).map(|(a, b)| a.times(b));
        let range = self.range.zip(other.range).and_then(|(a, b)| exact::product(a, b));
        Integer { value: self.value.times(other.value), element, degree: self.degree.of_product(other.degree), range }
    }
}

/// The values of integers modulo powers of two.
#[derive(Debug, Default)]
pub(super) struct Modular {
    /// The elements of the terms of sort `Ring`, by fingerprint.
    elements: FxHashMap<u64, Box<Element>>,
    /// The patterns of known numbers, by the fingerprint modulo 2 to the power of their width.
    patterns: FxHashMap<(u64, u32), Box<[Part]>>,
    /// The symbols of bits.
    bits: FxHashMap<(Source, u64), u64>,
}

impl Symbols {
    /// Returns the integer of a constant.
    pub(super) fn integer_constant(&self, value: i128) -> Integer {
        let element = self.modular.is_some().then(|| Element::constant(value as u64));
        let range = i64::try_from(value).ok().map(|value| [value, value]);
        Integer { value: Fp::integer(value), element, degree: Degree::CONSTANT, range }
    }

    /// Returns the fingerprint of an element.
    fn fingerprint_of(&self, element: &Element) -> u64 {
        // The hash is keyed by the seed, as every function is.
        let mut hasher = self.hasher("modular");
        element.0.iter().for_each(|c| hasher.write_u64(*c));
        Fp::new(hasher.finish()).bits()
    }

    /// Returns a bit of a source as a symbol: 64 random bits, the coefficients of an element.
    fn bit_symbol(&mut self, source: Source, bit: u64) -> u64 {
        if let Some(symbol) = self.modular.as_ref().and_then(|modular| modular.bits.get(&(source, bit))) {
            return *symbol;
        }
        let words = match source {
            Source::Constant => [0, 0, 0],
            Source::Input(buffer) => [1, u64::from(buffer), bit],
            Source::Atom(atom) => [2, self.atom_below(atom, bit as u32 + 1), bit],
        };
        let mut hasher = self.hasher("bit");
        words.iter().for_each(|word| hasher.write_u64(*word));
        let symbol = hasher.finish();
        if let Source::Atom(_) = source {
            self.applied.insert(symbol);
        }
        if let Some(modular) = &mut self.modular {
            modular.bits.insert((source, bit), symbol);
        }
        symbol
    }

    /// Returns what the lowest bits of an atom are known by: those of a number modulo 2^w do not depend on its width.
    pub(super) fn atom_below(&self, atom: u64, width: u32) -> u64 {
        let term = self.atoms.get(&atom).filter(|term| term.sort() == Sort::Ring);
        let element = term.and_then(|term| self.modular.as_ref()?.elements.get(&term.fingerprint()));
        element.map_or(atom, |element| self.fingerprint_of(&element.reduced(width)))
    }

    /// Returns true if an atom is a number that has an element.
    fn is_modular(&self, atom: u64) -> bool {
        let term = self.atoms.get(&atom).filter(|term| term.sort() == Sort::Ring);
        term.zip(self.modular.as_ref())
            .is_some_and(|(term, modular)| modular.elements.contains_key(&term.fingerprint()))
    }

    /// Adds what the lowest bits of a number stand for, times a power of two: the number, and what it lacks, which is a
    /// multiple of 2 to the power of their count.
    fn add_lowest(&mut self, out: &mut Element, atom: u64, count: u32, at: u32) {
        let term = self.atoms.get(&atom);
        let element = term.and_then(|term| self.modular.as_ref()?.elements.get(&term.fingerprint()));
        let Some(element) = element.map(|element| element.reduced(count)) else { return };
        out.add_scaled(&element, 1 << at);
        if at + count < u64::BITS {
            let mut hasher = self.hasher("lacks");
            hasher.write_u64(self.fingerprint_of(&element));
            hasher.write_u32(count);
            let symbol = hasher.finish();
            self.applied.insert(symbol);
            out.add_symbol(symbol, at + count);
        }
    }

    /// Returns the number that a pattern of `width` bits stands for modulo 2^`width`.
    fn modular_pattern(&mut self, parts: &[Part], width: u32) -> (Box<Element>, Degree) {
        let mut out = Element::constant(0);
        let (mut at, mut degree) = (0, Degree::SYMBOL);
        for part in parts {
            if let Source::Atom(_) = part.source {
                degree = Degree::FUNCTION;
            }
            match part.source {
                Source::Constant => out.0[0] = out.0[0].wrapping_add(part.from << at),
                Source::Atom(atom) if part.from == 0 && self.is_modular(atom) => {
                    self.add_lowest(&mut out, atom, part.len, at);
                }
                source => {
                    for i in 0..part.len {
                        let symbol = self.bit_symbol(source, part.from + u64::from(i));
                        out.add_symbol(symbol, at + i);
                    }
                }
            }
            at += part.len;
        }
        for narrow in WIDTHS.into_iter().filter(|narrow| *narrow <= width) {
            let fingerprint = self.fingerprint_of(&out.reduced(narrow));
            let known = bits::slice(parts, 0, narrow);
            // The lowest bits of a polynomial are a polynomial, not a pattern of it.
            let is_number =
                matches!(*known, [Part { source: Source::Atom(atom), from: 0, .. }] if self.is_modular(atom));
            if let Some(modular) = self.modular.as_mut().filter(|_| !is_number) {
                modular.patterns.entry((fingerprint, narrow)).or_insert_with(|| known.as_slice().into());
            }
        }
        (out, degree)
    }

    /// Returns the number of a value of `width` bits modulo 2^`to`. `None` if integers are values in the field.
    pub(super) fn modular_integer(&mut self, value: Value, width: u32, read_signed: bool, to: u32) -> Option<Integer> {
        let modular = self.modular.as_ref()?;
        let term = value.term?;
        if term.sort() == Sort::Ring && to <= width {
            let element = modular.elements.get(&term.fingerprint())?.clone();
            let exact = self.exact(value, true);
            let number = exact.map_or(Fp::ZERO, |exact| exact.number.0);
            let range = exact.map(|exact| exact.range);
            return Some(Integer { value: number, element: Some(element), degree: term.degree(), range });
        }
        let parts = self.parts(value, width);
        let (number, range) = self.number_of(&parts, read_signed || to <= width);
        let (element, degree) = self.modular_pattern(&bits::resized(&parts, width, to, read_signed), to);
        Some(Integer { value: number.0, element: Some(element), degree, range })
    }

    /// Returns the result of ring operations in `width` bits.
    pub(super) fn ring_of(&mut self, width: u32, integer: Integer) -> Taint {
        let Integer { value, element, degree, range } = integer;
        let taint = match element {
            Some(element) => self.modular_term(width, &element, degree),
            None if self.modular.is_some() => self.lose("an integer operation modulo powers of two without a rule"),
            None => self.ring(width, (value, degree)),
        };
        if let Taint::Term(term) = taint
            && term.sort() == Sort::Ring
        {
            // A bit and its square are the same for all data, and not the same polynomial.
            let linear = degree.bound().is_some_and(|bound| bound <= 1);
            self.note_exact(term.key(), (value, if linear { degree } else { degree.uninterpreted() }), range);
        }
        taint
    }

    fn modular_term(&mut self, width: u32, element: &Element, degree: Degree) -> Taint {
        match degree.bound() {
            Some(bound) => self.degree = self.degree.max(bound),
            None => self.degree_lost = true,
        }
        let element = element.reduced(width);
        if element.as_constant().is_some() {
            // Data cancels.
            return Taint::Exact;
        }
        let fingerprint = self.fingerprint_of(&element);
        let Some(modular) = &mut self.modular else { return Taint::UNKNOWN };
        if let Some(parts) = modular.patterns.get(&(fingerprint, width)) {
            let parts = Pattern::from_slice(parts);
            return self.of_parts(parts);
        }
        if modular.elements.len() >= MOST_ELEMENTS {
            return self.lose("more integer operations on data than are counted modulo powers of two");
        }
        modular.elements.entry(fingerprint).or_insert(element);
        self.applied.insert(fingerprint);
        Taint::Term(Term::new(Sort::Ring, width, fingerprint, degree))
    }

    /// Joins the lowest bits of a number with those that follow, where a narrower number stands for the lowest: integers of 64 bits
    /// may be computed and stored as pairs of words.
    pub(super) fn with_whole_numbers(&mut self, parts: Pattern) -> Pattern {
        if self.modular.is_none() || parts.len() < 2 {
            return parts;
        }
        let mut out = Pattern::new();
        for part in parts {
            let below = out.last().copied().filter(|below| below.from == 0 && u64::from(below.len) == part.from);
            let joins = below.is_some_and(|below| match (below.source, part.source) {
                (Source::Atom(low), Source::Atom(all)) if self.is_modular(low) && self.is_modular(all) => {
                    self.atom_below(low, below.len) == self.atom_below(all, below.len)
                }
                _ => false,
            });
            if let Some(below) = below.filter(|_| joins) {
                out.pop();
                out.push(Part { source: part.source, from: 0, len: below.len + part.len });
            } else {
                out.push(part);
            }
        }
        out
    }

    /// Returns what the number is known by that the bits of a term are, modulo two to the power of their count; `None` if integers
    /// are values in the field.
    pub(super) fn name_of_integer(&mut self, term: Term) -> Option<u64> {
        let value = Value { bits: 0, term: Some(term) };
        let integer = self.modular_integer(value, term.width(), true, term.width())?;
        Some(self.fingerprint_of(&integer.element?.reduced(term.width())))
    }

    /// Returns the lowest bits of a number.
    pub(super) fn narrowed(&mut self, term: Term, width: u32) -> Taint {
        let element = self.modular.as_ref().and_then(|modular| modular.elements.get(&term.fingerprint()).cloned());
        let taint = match element {
            Some(element) => self.modular_term(width, &element, term.degree()),
            None => Taint::Term(Term::new(Sort::Ring, width, term.fingerprint(), term.degree())),
        };
        if let Taint::Term(narrow) = taint {
            self.note_narrowed(term.key(), narrow.key());
        }
        taint
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    fn drawn(random: &mut Random) -> Element {
        Element(std::array::from_fn(|_| random.bits()))
    }

    fn sum(a: &Element, b: &Element) -> Element {
        let mut out = a.clone();
        out.add_scaled(b, 1);
        out
    }

    #[test]
    fn the_laws_of_a_ring_hold() {
        let mut random = Random::new(31);
        for _ in 0..50 {
            let [a, b, c] = std::array::from_fn(|_| drawn(&mut random));
            assert_eq!(a.times(&b), b.times(&a));
            assert_eq!(a.times(&b).times(&c), a.times(&b.times(&c)));
            assert_eq!(*a.times(&sum(&b, &c)), sum(&a.times(&b), &a.times(&c)));
            assert_eq!(*a.times(&Element::constant(1)), a);
            assert_eq!(a.times(&Element::constant(3)), a.scaled(3));
        }
    }

    /// The residues are a field of 2^64 elements: each is its own power of 2^64, and no power of 2^32 only. An
    /// irreducible polynomial of degree 64 is one that divides t^(2^64) - t and shares no root with t^(2^32) - t.
    #[test]
    fn the_residues_are_a_field() {
        let root = {
            let mut root = Element([0; N]);
            root.0[1] = 1;
            root
        };
        let mut power = Box::new(root.clone());
        for i in 0..64 {
            if i == 32 {
                let mut difference = power.clone();
                difference.add_scaled(&root, 1);
                assert!(is_unit(&difference.reduced(1)));
            }
            power = power.times(&power).reduced(1);
        }
        assert_eq!(*power, root);
    }

    /// In a field of 2^64 elements the power of 2^64 - 1 of what is not 0 is 1; modulo a reducible polynomial a factor of it
    /// stays one.
    fn is_unit(x: &Element) -> bool {
        let (mut all, mut square) = (Element::constant(1), x.reduced(1));
        for _ in 0..64 {
            all = all.times(&square).reduced(1);
            square = square.times(&square).reduced(1);
        }
        all == Element::constant(1)
    }
}
