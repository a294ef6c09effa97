//! The terms of bytes in memory.
//!
//! A byte that was written since the start of the run has a cell: it is constant, or the byte of a term. Other bytes of a
//! data buffer are its input; other bytes of anything else are constant. What is read is put together from its bytes in
//! the form of `bits`, so it does not matter in which widths it was written.

use smallvec::SmallVec;

use super::super::location::Location;
use super::super::taint::Taint;
use super::bits;
use super::term::Term;
use super::{Symbols, Value};

/// A byte that was written.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Cell {
    /// As before the run.
    Kept,
    Constant,
    /// A byte of a term, the lowest is number 0.
    Byte(Term, u8),
    /// The term is lost.
    Lost,
}

/// The cells of all memory.
#[derive(Debug)]
pub(super) struct Cells {
    /// True for each buffer that has data.
    data: Vec<bool>,
    /// Empty where nothing was written.
    buffers: Vec<Vec<Cell>>,
    shared: Vec<Cell>,
    own: Vec<Cell>,
}

impl Cells {
    pub(super) fn new(data: &[bool]) -> Cells {
        Cells { data: data.to_vec(), buffers: vec![Vec::new(); data.len()], shared: Vec::new(), own: Vec::new() }
    }

    /// Returns the cells of a place, grown to the end of the access.
    fn of(&mut self, place: Location, own: usize, end: usize) -> Option<(&mut Vec<Cell>, usize)> {
        let (cells, base) = match place {
            Location::Buffer(index, base) => (self.buffers.get_mut(index)?, base),
            Location::Shared(base) => (&mut self.shared, base),
            Location::Own(base) => (&mut self.own, own + base),
            Location::Push(_) | Location::Rows(_) => return None,
        };
        if cells.len() < base + end {
            cells.resize(base + end, Cell::Kept);
        }
        Some((cells, base))
    }
}

impl Symbols {
    /// Forgets what a workgroup leaves in memory that is its own.
    pub(in crate::interp) fn start_workgroup(&mut self) {
        self.cells.shared.clear();
        self.cells.own.clear();
    }

    /// Returns the taint of up to 8 bytes that are read; `bits` is their value. `own` is where the invocation's memory
    /// begins.
    pub(in crate::interp) fn read(&mut self, place: Location, own: usize, at: usize, bytes: usize, bits: u64) -> Taint {
        let input = match place {
            Location::Buffer(index, base) if self.cells.data.get(index) == Some(&true) => Some((index as u32, base)),
            _ => None,
        };
        let Some((cells, base)) = self.cells.of(place, own, 0) else { return Taint::Exact };
        let none: &[Cell] = &[];
        let end = (base + at + bytes).min(cells.len());
        let cells = cells.get(base + at..end).unwrap_or(none);
        let untouched = cells.iter().all(|cell| *cell == Cell::Kept);
        if untouched {
            return match input {
                Some((buffer, base)) => Taint::Term(Term::input(buffer, 8 * (base + at) as u64, 8 * bytes as u32)),
                None => Taint::Exact,
            };
        }
        if let Some(Cell::Byte(term, 0)) = cells.first()
            && term.width() as usize == 8 * bytes
            && cells.len() == bytes
            && cells.iter().enumerate().all(|(i, cell)| *cell == Cell::Byte(*term, i as u8))
        {
            return Taint::Term(*term);
        }
        if cells.contains(&Cell::Lost) {
            return Taint::UNKNOWN;
        }
        let cells = cells.to_vec();
        let mut parts: Vec<bits::Pattern> = Vec::with_capacity(bytes);
        for i in 0..bytes {
            let byte = Value { bits: bits >> (8 * i) & 0xff, term: None };
            parts.push(match (cells.get(i).copied().unwrap_or(Cell::Kept), input) {
                (Cell::Byte(term, k), _) => {
                    let whole = self.parts(Value { bits: 0, term: Some(term) }, term.width());
                    bits::slice(&whole, 8 * u32::from(k), 8)
                }
                (Cell::Kept, Some((buffer, base))) => {
                    let term = Term::input(buffer, 8 * (base + at + i) as u64, 8);
                    self.parts(Value { bits: 0, term: Some(term) }, 8)
                }
                _ => self.parts(byte, 8),
            });
        }
        let whole = bits::joined(parts.iter().map(|parts| parts.as_slice()));
        self.of_parts(whole)
    }

    /// Records what is written. Returns a bit for each byte that may have another value than was there, for some data.
    pub(in crate::interp) fn write(
        &mut self,
        place: Location,
        own: usize,
        at: usize,
        bytes: usize,
        taint: Taint,
    ) -> u8 {
        let is_data = matches!(place, Location::Buffer(index, _) if self.cells.data.get(index) == Some(&true));
        let Some((cells, base)) = self.cells.of(place, own, at + bytes) else {
            return u8::MAX >> (8 - bytes.clamp(1, 8));
        };
        let mut changed: SmallVec<[(usize, Cell, Cell); 8]> = SmallVec::new();
        for (i, cell) in cells[base + at..base + at + bytes].iter_mut().enumerate() {
            let now = match taint {
                Taint::Exact | Taint::Undefined => Cell::Constant,
                // A Boolean or a number of four bits is written with zeros above; more bytes than the term has are not.
                Taint::Term(term) if term.width() as usize == 8 * bytes => Cell::Byte(term, i as u8),
                Taint::Term(_) | Taint::Inexact { .. } => Cell::Lost,
            };
            // A constant may be written over another; the caller compares the values of those.
            let constant = [*cell, now].iter().all(|c| *c == Cell::Constant || *c == Cell::Kept && !is_data);
            if !constant && (*cell != now || now == Cell::Lost) {
                changed.push((i, *cell, now));
            }
            *cell = now;
        }
        let other = changed.into_iter().filter(|(_, before, now)| !self.is_same(*before, *now));
        other.fold(0, |all, (i, ..)| all | 1 << i)
    }

    /// Returns true if two cells are the same byte of one term, whatever the widths that it was written in.
    fn is_same(&mut self, before: Cell, now: Cell) -> bool {
        let (Cell::Byte(x, i), Cell::Byte(y, j)) = (before, now) else { return false };
        let mut byte = |term: Term, k: u8| {
            let parts = self.parts(Value { bits: 0, term: Some(term) }, term.width());
            bits::slice(&parts, 8 * u32::from(k), 8)
        };
        byte(x, i) == byte(y, j)
    }

    /// Returns the ends of the bytes that were written in a buffer, as far as anything was.
    pub(super) fn written(&self, buffer: usize) -> usize {
        self.cells.buffers.get(buffer).map_or(0, Vec::len)
    }

    /// Returns true if a byte of a buffer was written.
    pub(super) fn is_written(&self, buffer: usize, at: usize) -> bool {
        let cells = self.cells.buffers.get(buffer);
        cells.and_then(|cells| cells.get(at)).is_some_and(|cell| *cell != Cell::Kept)
    }

    /// Returns where the term that a byte belongs to lies, if one was written there as a whole.
    pub(super) fn extent(&self, buffer: usize, at: usize) -> Option<(usize, usize)> {
        let cell = self.cells.buffers.get(buffer)?.get(at)?;
        match cell {
            Cell::Byte(term, k) => Some((at.checked_sub(usize::from(*k))?, term.width() as usize / 8)),
            _ => None,
        }
    }
}
