//! The memory locations that pointers resolve to.

use super::code::Row;

/// A memory location.
#[derive(Clone, Copy, Debug)]
pub(super) enum Location {
    Buffer(usize, usize),
    Push(usize),
    Shared(usize),
    /// An offset in the invocation's own memory.
    Own(usize),
    Rows(Row),
}

/// The reason why a pointer can't be dereferenced.
pub(super) enum Fault {
    Null,
    Nowhere(u64),
    Outside(String),
}
