//! Says how an element that two runs store differently differs, from the fingerprints alone: the difference of the two is
//! looked for among the data, their products, and the other elements. What is found is right but for the probability that
//! two unrelated elements of the field are equal.

use coop_ir::hash::FxHashMap;

use super::super::num::{Num, signed};
use super::super::taint::Taint;
use super::bits::{Part, Source};
use super::compare::{Elements, Fingerprints, Mismatch};
use super::field::Fp;
use super::term::{Sort, Term};
use super::{Symbols, Value};

/// The most symbols of which products of three are tried.
const MOST: usize = 3000;

/// The constants by which a value may be too large.
const SCALES: [f64; 8] = [0.0, -1.0, 2.0, 0.5, 4.0, 0.25, 3.0, 1.0 / 3.0];

/// The location of a symbol: buffer and byte.
type Place = (usize, usize);

/// How numbers are read: as floats of a format, or as integers of a width.
#[derive(Clone, Copy)]
enum Reading {
    Float(Num),
    Integer(u32),
}

impl Fingerprints {
    /// Describes the difference of an element; `name` names an element of a buffer. `None` if it is of no simple form.
    pub fn explain(
        original: &mut Fingerprints,
        lowered: &mut Fingerprints,
        buffers: &[Elements],
        mismatch: Mismatch,
        name: &dyn Fn(usize, usize) -> String,
    ) -> Option<String> {
        let size = buffers[mismatch.buffer].size;
        let at = mismatch.element * size;
        let [a, b] = [&mut *original, &mut *lowered].map(|side| side.element(mismatch.buffer, at, size));
        if lowered.is_kept(mismatch.buffer, at) {
            return Some("the lowered module does not store it".into());
        }
        if original.is_kept(mismatch.buffer, at) {
            return Some("the original does not store it".into());
        }
        let reading = reading(a.0).or_else(|| reading(b.0))?;
        let x = original.symbols.read_as(a, reading)?;
        let y = lowered.symbols.read_as(b, reading)?;
        if let Some(other) = original.element_with(mismatch, size, reading, y) {
            return Some(format!("the lowered module stores what belongs to {}", name(mismatch.buffer, other)));
        }
        for scale in SCALES {
            if Fp::float(scale).is_some_and(|scale| x != Fp::ZERO && y == x.times(scale)) {
                return Some(format!("the lowered module stores it times {scale}"));
            }
        }
        let symbols = places(&[&original.symbols, &lowered.symbols]);
        let place = |(buffer, byte): Place| name(buffer, byte / buffers[buffer].size.max(1));
        let difference = x.minus(y);
        let said = |d: Fp| {
            simple(&symbols, d).map(|(p, q)| match q {
                Some(q) => format!("{} * {}", place(p), place(q)),
                None => place(p),
            })
        };
        if let Some(what) = said(difference) {
            return Some(format!("{what} is missing from the sum"));
        }
        if let Some(what) = said(difference.negated()) {
            return Some(format!("{what} is too much in the sum"));
        }
        let (p, q, other) = exchanged(&symbols, difference)?;
        Some(format!("{} is multiplied by {} instead of {}", place(p), place(other), place(q)))
    }

    fn is_kept(&self, buffer: usize, at: usize) -> bool {
        !self.symbols.is_written(buffer, at)
    }

    /// Returns another element of the buffer with a value.
    fn element_with(&mut self, mismatch: Mismatch, size: usize, reading: Reading, value: Fp) -> Option<usize> {
        let count = self.symbols.written(mismatch.buffer) / size;
        (0..count).find(|other| {
            let read = self.element(mismatch.buffer, other * size, size);
            *other != mismatch.element
                && matches!(read.0, Taint::Term(_))
                && self.symbols.read_as(read, reading) == Some(value)
        })
    }
}

fn reading(taint: Taint) -> Option<Reading> {
    let Taint::Term(term) = taint else { return None };
    match (term.sort().format(), term.sort()) {
        (Some(format), _) => Some(Reading::Float(format)),
        (None, Sort::Ring) => Some(Reading::Integer(term.width())),
        _ => None,
    }
}

impl Symbols {
    /// Returns the number that stored bits stand for.
    fn read_as(&mut self, (taint, bits): (Taint, u64), reading: Reading) -> Option<Fp> {
        let term = match taint {
            Taint::Exact => None,
            Taint::Term(term) => Some(term),
            Taint::Inexact { .. } | Taint::Undefined => return None,
        };
        match (reading, term) {
            (Reading::Float(format), None) => Fp::float(format.to_f64(bits)),
            (Reading::Float(format), Some(_)) => Some(self.number(Value { bits, term }, format).0),
            (Reading::Integer(width), None) => Some(Fp::integer(signed(bits, width).into())),
            (Reading::Integer(width), Some(_)) => {
                Some(self.integer(Value { bits, term }, width, true, width).number()?.0)
            }
        }
    }
}

/// Returns the symbols that are numbers in a buffer.
fn places(sides: &[&Symbols]) -> FxHashMap<Fp, Place> {
    let mut out = FxHashMap::default();
    let place = |(buffer, bit): (u32, u64)| (buffer as usize, (bit / 8) as usize);
    for symbols in sides {
        let number =
            |(symbol, (term, _)): (&u64, &(Term, Num))| Some((Fp::from_bits(*symbol), place(term.as_input()?)));
        out.extend(symbols.numbers.iter().filter_map(number));
        for (symbol, (core, _)) in &symbols.integers {
            if let [Part { source: Source::Input(buffer), from, .. }] = **core {
                out.insert(Fp::from_bits(*symbol), place((buffer, from)));
            }
        }
    }
    out
}

/// Returns the symbol, or the two whose product a number is.
fn simple(symbols: &FxHashMap<Fp, Place>, number: Fp) -> Option<(Place, Option<Place>)> {
    if let Some(place) = symbols.get(&number) {
        return Some((*place, None));
    }
    let factors = symbols.iter().filter_map(|(x, p)| {
        let q = symbols.get(&number.times(x.inverse()))?;
        Some((*p, *q))
    });
    // Of both orders the one that does not depend on that of the map.
    factors.min().map(|(p, q)| (p, Some(q)))
}

/// Returns x, y and z if a number is x * (y - z).
fn exchanged(symbols: &FxHashMap<Fp, Place>, number: Fp) -> Option<(Place, Place, Place)> {
    if symbols.len() > MOST {
        return None;
    }
    let found = symbols.iter().filter_map(|(x, p)| {
        let rest = number.times(x.inverse());
        symbols.iter().filter_map(|(z, other)| symbols.get(&rest.plus(*z)).map(|q| (*p, *q, *other))).min()
    });
    found.min()
}
