//! Data races between workgroups: tracks which workgroup accessed each byte of the buffers.
//!
//! Nothing orders two workgroups but atomic operations. A workgroup that has executed one on a buffer may have
//! synchronized with others, so its accesses are not reported. Neither are writes of the value that is already there:
//! that every workgroup writes the same value is common and harmless.

use coop_ir::InstRef;

const PAGE: usize = 1024;

/// An access. Workgroups are numbered from 1; 0 means none.
#[derive(Clone, Copy, Default)]
struct Cell {
    writer: u32,
    reader: u32,
    wrote: Option<InstRef>,
    read: Option<InstRef>,
}

/// Several workgroups.
const MANY: u32 = u32::MAX;

/// The other party of a race.
pub(super) struct Other {
    /// Its number, from 0; none if there are several.
    pub workgroup: Option<u32>,
    pub at: InstRef,
    pub wrote: bool,
}

/// The history of the buffers.
#[derive(Default)]
pub(super) struct BufferRace {
    /// True if there are several workgroups.
    on: bool,
    pages: Vec<Vec<Option<Box<[Cell]>>>>,
    /// The workgroup that runs, from 1.
    current: u32,
    /// True if it has executed an atomic operation.
    synchronised: bool,
}

impl BufferRace {
    pub(super) fn new(workgroups: [u32; 3], buffers: usize) -> BufferRace {
        let on = workgroups.iter().any(|count| *count > 1);
        BufferRace { on, pages: vec![Vec::new(); buffers], current: 0, synchronised: false }
    }

    pub(super) fn next_workgroup(&mut self) {
        self.current = self.current.saturating_add(1);
        self.synchronised = false;
    }

    pub(super) fn atomic(&mut self) {
        self.synchronised = true;
    }

    /// Records an access and returns the conflicting one.
    pub(super) fn access(
        &mut self,
        buffer: usize,
        range: std::ops::Range<usize>,
        write: bool,
        at: InstRef,
    ) -> Option<Other> {
        if !self.on {
            return None;
        }
        let (current, synchronised) = (self.current, self.synchronised);
        let pages = self.pages.get_mut(buffer)?;
        let mut found = None;
        for byte in range {
            let page = byte / PAGE;
            if pages.len() <= page {
                pages.resize_with(page + 1, || None);
            }
            let page = pages[page].get_or_insert_with(|| vec![Cell::default(); PAGE].into_boxed_slice());
            let cell = &mut page[byte % PAGE];
            let name = |who: u32| (who != MANY).then(|| who - 1);
            if cell.writer != 0 && cell.writer != current && !synchronised {
                found = cell.wrote.map(|at| Other { workgroup: name(cell.writer), at, wrote: true });
            } else if write && cell.reader != 0 && cell.reader != current && !synchronised {
                found = cell.read.map(|at| Other { workgroup: name(cell.reader), at, wrote: false });
            }
            if write {
                (cell.writer, cell.wrote) = (current, Some(at));
            } else {
                let others = cell.reader != 0 && cell.reader != current;
                (cell.reader, cell.read) = (if others { MANY } else { current }, Some(at));
            }
        }
        found
    }
}
