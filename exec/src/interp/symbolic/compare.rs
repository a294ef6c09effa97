//! Compares what two symbolic runs stored.

use super::super::Memory;
use super::super::location::Location;
use super::super::num::{Num, number, signed};
use super::super::taint::Taint;
use super::arithmetic::sum;
use super::bits::{Part, Source};
use super::field::Fp;
use super::term::{Degree, Sort, Term};
use super::{Blocks, Decisions, Number, Symbols, Value};
use coop_ir::Module;

/// The result of a symbolic run: the buffers and the terms of what was stored.
#[derive(Debug)]
pub struct Fingerprints {
    pub(super) symbols: Box<Symbols>,
    /// The buffers after the run on the concrete data.
    pub memory: Vec<Memory>,
    /// The blocks that were executed.
    pub blocks: Blocks,
}

/// An element that two runs store differently.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mismatch {
    /// The index of the buffer.
    pub buffer: usize,
    /// The element.
    pub element: usize,
    /// True if both are fractions of polynomials over numbers in the data that do not depend on each other: then the real
    /// numbers differ for nearly all data. Else laws that are not known here may make the values equal.
    pub certain: bool,
}

/// The part of a buffer that is compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Elements {
    /// The size of an element in bytes.
    pub size: usize,
    /// The number of consecutive elements of which only the sum is compared: how it is split among them is free. 1
    /// compares each element; 0 nothing.
    pub group: usize,
}

/// The result of a comparison.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Agreement {
    /// The elements that either run stored.
    pub stored: u64,
    /// The number of elements that differ.
    pub differing: u64,
    /// The first of them; at most 16.
    pub mismatches: Vec<Mismatch>,
    /// Elements whose term is lost: buffer and element of the first.
    pub lost: Option<(usize, usize)>,
    /// The largest degree of a term.
    pub degree: u32,
    /// The number of applications of uninterpreted functions, by operands.
    pub functions: u64,
    /// True if some degree is not bounded.
    pub unbounded: bool,
    /// The values that decided something in the original.
    pub decisions: usize,
    /// True if a run computed with integers from data.
    pub integers: bool,
    /// True if no two symbols are made of the same bits of a buffer.
    pub independent: bool,
    /// A decision of the second run that the first does not make.
    pub new_decision: Option<String>,
}

impl Agreement {
    /// Returns the element that says most about how the runs differ.
    pub fn first(&self) -> Option<Mismatch> {
        self.mismatches.iter().find(|m| m.certain).or(self.mismatches.first()).copied()
    }

    /// Returns the binary logarithm of a bound of the probability that different elements have equal fingerprints.
    ///
    /// A difference of degree d vanishes with probability at most d / 2^63.9; so does each of the differences of two
    /// lists of operands that would make one of two functions, and two hashes are equal with probability 2^-63.9.
    pub fn log2_error(&self) -> f64 {
        let pairs = (self.functions as f64) * (self.functions as f64) / 2.0;
        // Both sides of an equation may be fractions: their difference has at most twice the degree.
        let degree = 2.0 * f64::from(self.degree.max(1));
        (degree + pairs * (degree + 1.0)).log2() - 63.9
    }
}

impl Fingerprints {
    pub(in crate::interp) fn new(symbols: Box<Symbols>, memory: Vec<Memory>, module: &Module) -> Fingerprints {
        let blocks = Blocks::new(module, &symbols.trace);
        Fingerprints { symbols, memory, blocks }
    }

    /// Returns what data decided in the run.
    pub fn decisions(&self) -> Decisions {
        Decisions(self.symbols.decisions.clone())
    }

    /// Returns the decision of the run that depends on data in a way that is not known.
    pub fn depends(&self) -> Option<&str> {
        self.symbols.depends.as_deref()
    }

    /// Compares what two runs stored in each buffer.
    pub fn compare(original: &mut Fingerprints, lowered: &mut Fingerprints, buffers: &[Elements]) -> Agreement {
        let mut agreement = Agreement {
            degree: original.symbols.degree.max(lowered.symbols.degree),
            functions: original.symbols.applied.union(&lowered.symbols.applied).count() as u64,
            unbounded: original.symbols.degree_lost || lowered.symbols.degree_lost,
            decisions: original.symbols.decisions.len(),
            integers: !original.symbols.integers.is_empty() || !lowered.symbols.integers.is_empty(),
            independent: independent([&original.symbols, &lowered.symbols]),
            ..Agreement::default()
        };
        let new = lowered.symbols.decisions.difference(&original.symbols.decisions).next();
        agreement.new_decision = new.map(|decision| {
            let known = lowered.symbols.decided.get(decision);
            known.map_or_else(String::new, |(at, what)| format!("instruction {}: {what}", at.index()))
        });
        for (buffer, Elements { size, group }) in buffers.iter().copied().enumerate().filter(|(_, of)| of.group > 0) {
            let end = original.symbols.written(buffer).max(lowered.symbols.written(buffer));
            let all = original.memory[buffer].bytes.len() / size;
            for element in 0..end.div_ceil(size) {
                // Of a group all elements count, whichever is written.
                let together = if group > 1 && element % group == 0 { group.min(all - element) } else { 1 };
                let range = element * size..(element + together) * size;
                let written = |side: &Fingerprints| range.clone().any(|at| side.symbols.is_written(buffer, at));
                if !written(original) && !written(lowered) {
                    continue;
                }
                agreement.stored += 1;
                if group == 1 {
                    agreement.element(original, lowered, buffer, element, size);
                } else if element % group == 0 {
                    agreement.sum(original, lowered, (buffer, element), size, together);
                }
            }
        }
        agreement
    }

    /// Returns the taint and bits of some bytes.
    pub(super) fn element(&mut self, buffer: usize, at: usize, bytes: usize) -> (Taint, u64) {
        let memory = &self.memory[buffer].bytes;
        let bits = memory.get(at..at + bytes).map_or(0, number);
        (self.symbols.read(Location::Buffer(buffer, at), 0, 0, bytes, bits), bits)
    }

    /// Returns of what kind the terms of an element are in two runs, for tables.
    pub fn kinds(a: &mut Fingerprints, b: &mut Fingerprints, buffers: &[Elements], of: Mismatch) -> String {
        let size = buffers[of.buffer].size;
        let [x, y] = [a, b].map(|side| match side.element(of.buffer, of.element * size, size).0 {
            Taint::Term(term) if term.degree().is_uninterpreted() => format!("{:?} with functions", term.sort()),
            Taint::Term(term) => format!("{:?}", term.sort()),
            _ => "a constant".to_owned(),
        });
        if x == y { x } else { format!("{x}, {y}") }
    }

    /// Returns the instruction that first lost a term, and why.
    pub fn lost(&self) -> Option<(usize, &str)> {
        self.symbols.lost.as_ref().map(|(at, why)| (at.index(), why.as_str()))
    }
}

impl Agreement {
    fn element(
        &mut self,
        original: &mut Fingerprints,
        lowered: &mut Fingerprints,
        buffer: usize,
        element: usize,
        size: usize,
    ) {
        let (at, end) = (element * size, element * size + size);
        let (mut a, mut b) = (original.element(buffer, at, size), lowered.element(buffer, at, size));
        if same(original, a, lowered, b) {
            return;
        }
        // Constants are numbers of the type that was stored, not of the buffer's elements: these are compared where they lie,
        // one after the other until the element ends.
        let mut from = at;
        while from < end {
            let extent = original.symbols.extent(buffer, from).or_else(|| lowered.symbols.extent(buffer, from));
            let Some((first, bytes)) = extent.filter(|(_, bytes)| *bytes <= 8) else { break };
            (a, b) = (original.element(buffer, first, bytes), lowered.element(buffer, first, bytes));
            if !same(original, a, lowered, b) {
                break;
            }
            from = first + bytes;
        }
        if from >= end {
            return;
        }
        let lost = [a.0, b.0].iter().any(|taint| matches!(taint, Taint::Inexact { .. } | Taint::Undefined));
        if lost {
            self.lost.get_or_insert((buffer, element));
            return;
        }
        self.differing += 1;
        if self.mismatches.len() < 16 {
            let free = |taint: Taint| match taint {
                Taint::Term(term) if term.sort() == Sort::Input => true,
                Taint::Term(term) => term.sort().format().is_some() && !term.degree().is_uninterpreted(),
                _ => true,
            };
            self.mismatches.push(Mismatch { buffer, element, certain: self.independent && free(a.0) && free(b.0) });
        }
    }
}

impl Fingerprints {
    /// Returns the terms and bits of consecutive elements.
    fn group(&mut self, buffer: usize, first: usize, size: usize, count: usize) -> Vec<(Taint, u64)> {
        (first..first + count).map(|at| self.element(buffer, at * size, size)).collect()
    }

    /// Returns the sum of a group of elements, read as floats of a format; `None` if the term of one is lost.
    fn sum(&mut self, elements: &[(Taint, u64)], format: Num) -> Option<Number> {
        let mut total = (Fp::ZERO, Degree::CONSTANT);
        for (taint, bits) in elements {
            let number = match taint {
                Taint::Term(term) => self.symbols.number(Value { bits: *bits, term: Some(*term) }, format),
                Taint::Exact => (Fp::float(format.to_f64(*bits))?, Degree::CONSTANT),
                Taint::Inexact { .. } | Taint::Undefined => return None,
            };
            total = sum(total, number);
        }
        Some(total)
    }
}

/// Returns the float format of a group of elements; `None` if none of them depends on data as a float.
fn format_of(elements: &[(Taint, u64)]) -> Option<Num> {
    elements.iter().find_map(|(taint, _)| match taint {
        Taint::Term(term) => term.sort().format(),
        _ => None,
    })
}

impl Agreement {
    /// Compares the sum of a group of elements.
    fn sum(
        &mut self,
        original: &mut Fingerprints,
        lowered: &mut Fingerprints,
        (buffer, first): (usize, usize),
        size: usize,
        group: usize,
    ) {
        let [a, b] = [&mut *original, &mut *lowered].map(|side| side.group(buffer, first, size, group));
        // One of both may not depend on data at all, or be what the buffer held before.
        let format = format_of(&a).or_else(|| format_of(&b));
        let sums = format.map(|format| [original.sum(&a, format), lowered.sum(&b, format)]);
        match sums {
            Some([Some(a), Some(b)]) if a.0 == b.0 => {}
            Some([Some(a), Some(b)]) => {
                self.differing += 1;
                let certain = self.independent && !a.1.is_uninterpreted() && !b.1.is_uninterpreted();
                self.mismatches.push(Mismatch { buffer, element: first, certain });
            }
            _ if a == b && a.iter().all(|(taint, _)| *taint == Taint::Exact) => {}
            _ => {
                self.lost.get_or_insert((buffer, first));
            }
        }
    }
}

/// Returns true if two values of two runs are the same for all data.
fn same(original: &mut Fingerprints, a: (Taint, u64), lowered: &mut Fingerprints, b: (Taint, u64)) -> bool {
    equal(a, b) || same_number(original, a, lowered, b) || same_integer(original, a, lowered, b)
}

/// Returns true if a polynomial and a pattern of bits are the same integer modulo two to the power of their width.
fn same_integer(
    original: &mut Fingerprints,
    (a, _): (Taint, u64),
    lowered: &mut Fingerprints,
    (b, _): (Taint, u64),
) -> bool {
    let (Taint::Term(a), Taint::Term(b)) = (a, b) else { return false };
    let bits = |sort: Sort| matches!(sort, Sort::Input | Sort::Bits);
    let mixed = a.sort() == Sort::Ring && bits(b.sort()) || bits(a.sort()) && b.sort() == Sort::Ring;
    if !mixed || a.width() != b.width() {
        return false;
    }
    let [a, b] = [(original, a), (lowered, b)].map(|(side, term)| side.symbols.name_of_integer(term));
    a.is_some() && a == b
}

/// Returns true if an f32 is the number that a pattern of bits stands for: that of a bf16 in its upper half.
fn same_number(
    original: &mut Fingerprints,
    (a, _): (Taint, u64),
    lowered: &mut Fingerprints,
    (b, _): (Taint, u64),
) -> bool {
    let (Taint::Term(a), Taint::Term(b)) = (a, b) else { return false };
    // Among the reals a conversion of an element of a buffer is the element.
    let number = |sort: Sort| matches!(sort, Sort::F32 | Sort::Input);
    let mixed = number(a.sort()) && b.sort() == Sort::Bits || a.sort() == Sort::Bits && number(b.sort());
    if !mixed || a.width() != 32 || b.width() != 32 {
        return false;
    }
    let [a, b] = [(original, a), (lowered, b)]
        .map(|(side, term)| side.symbols.number(Value { bits: 0, term: Some(term) }, Num::F32).0);
    a == b
}

/// Returns true if no two symbols of two runs are made of the same bits of a buffer.
fn independent(sides: [&Symbols; 2]) -> bool {
    let mut regions: Vec<(Source, u64, u64, u64)> = Vec::new();
    for symbols in sides {
        let mut add = |symbol: u64, parts: &[Part]| {
            regions.extend(parts.iter().map(|part| (part.source, part.from, part.from + u64::from(part.len), symbol)));
        };
        for (symbol, (term, _)) in &symbols.numbers {
            match (term.as_input(), symbols.parts.get(&term.fingerprint())) {
                (Some((buffer, from)), _) => {
                    add(*symbol, &[Part { source: Source::Input(buffer), from, len: term.width() }]);
                }
                (None, Some(parts)) => add(*symbol, parts),
                (None, None) => {}
            }
        }
        symbols.integers.iter().for_each(|(symbol, (core, _))| add(*symbol, core));
    }
    regions.retain(|region| region.0 != Source::Constant);
    regions.sort_unstable();
    regions.dedup();
    regions.windows(2).all(|pair| pair[0].0 != pair[1].0 || pair[0].2 <= pair[1].1)
}

/// Returns true if two values are the same for all data.
fn equal(a: (Taint, u64), b: (Taint, u64)) -> bool {
    match (a.0, b.0) {
        (Taint::Exact, Taint::Exact) => a.1 == b.1,
        (Taint::Term(x), Taint::Term(y)) => x.key() == y.key(),
        (Taint::Term(x), Taint::Exact) => is_constant(x, b.1),
        (Taint::Exact, Taint::Term(y)) => is_constant(y, a.1),
        _ => false,
    }
}

/// Returns true if a term has the value of a constant for all data: where data cancels.
fn is_constant(term: Term, bits: u64) -> bool {
    let value = match (term.sort(), term.sort().format()) {
        (Sort::Ring, _) => Some(Fp::integer(signed(bits, term.width()).into())),
        (_, Some(format)) => Fp::float(format.to_f64(bits)),
        _ => None,
    };
    value.is_some_and(|value| value.bits() == term.fingerprint())
}
