//! The error bounds of numbers in memory.

use std::collections::BTreeMap;

use coop_ir::InstRef;

use super::error_bound::{ErrorBound, ErrorBounds};
use super::location::Location;
use super::taint::Taint;

/// The error bounds of numbers in memory.
#[derive(Default)]
pub(super) struct MemoryBounds {
    inexact: BTreeMap<(usize, usize), (u8, Taint)>,
    pub depends: Option<(InstRef, String)>,
}

/// The buffer index that stands for shared memory.
const SHARED: usize = usize::MAX;

impl MemoryBounds {
    fn key(place: Location, at: usize) -> Option<(usize, usize)> {
        match place {
            Location::Buffer(index, base) => Some((index, base + at)),
            Location::Shared(base) => Some((SHARED, base + at)),
            Location::Push(_) | Location::Own(_) | Location::Rows(_) => None,
        }
    }

    fn overlapping(&self, key: (usize, usize), bytes: u8) -> impl Iterator<Item = (usize, usize)> + '_ {
        let range = (key.0, key.1.saturating_sub(7))..(key.0, key.1 + usize::from(bytes));
        self.inexact.range(range).filter(move |(k, v)| k.1 + usize::from(v.0) > key.1).map(|(k, _)| *k)
    }

    pub(super) fn at(&self, place: Location, at: usize, bytes: u8) -> Taint {
        if self.inexact.is_empty() {
            return Taint::Exact;
        }
        let Some(key) = MemoryBounds::key(place, at) else { return Taint::Exact };
        match self.inexact.get(&key) {
            Some((size, taint)) if *size == bytes => *taint,
            _ if self.overlapping(key, bytes).next().is_some() => Taint::UNKNOWN,
            _ => Taint::Exact,
        }
    }

    pub(super) fn put(&mut self, place: Location, at: usize, bytes: u8, taint: Taint) {
        if self.inexact.is_empty() && !taint.is_inexact() {
            return;
        }
        let Some(key) = MemoryBounds::key(place, at) else { return };
        let before: Vec<_> = self.overlapping(key, bytes).collect();
        for other in before {
            let inside = self.inexact.get(&other).is_some_and(|(size, _)| {
                other.1 >= key.1 && other.1 + usize::from(*size) <= key.1 + usize::from(bytes)
            });
            if inside {
                self.inexact.remove(&other);
            } else if let Some(part) = self.inexact.get_mut(&other) {
                part.1 = Taint::UNKNOWN;
            }
        }
        if taint.is_inexact() {
            self.inexact.insert(key, (bytes, taint));
        }
    }

    /// Forgets the bounds of shared memory, which is new for every workgroup.
    pub(super) fn forget_shared(&mut self) {
        self.inexact.retain(|key, _| key.0 != SHARED);
    }

    pub(super) fn error_bounds(&self, buffers: usize) -> ErrorBounds {
        let mut bounds = ErrorBounds { buffers: vec![Vec::new(); buffers], depends: self.depends.clone() };
        for ((buffer, offset), (bytes, taint)) in &self.inexact {
            if let Some(list) = bounds.buffers.get_mut(*buffer) {
                let bound = match taint {
                    Taint::Inexact { bound, .. } => f64::from(*bound),
                    Taint::Exact | Taint::Undefined | Taint::Term(_) => 0.0,
                };
                list.push(ErrorBound { offset: *offset, bytes: *bytes, bound });
            }
        }
        bounds
    }
}
