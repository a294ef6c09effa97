//! Where pointers point.

use super::code::Row;

/// Where a pointer points.
#[derive(Clone, Copy, Debug)]
pub(super) enum Location {
    Buffer(usize, usize),
    Push(usize),
    Shared(usize),
    /// Bytes of the invocation that asks.
    Own(usize),
    Rows(Row),
}

/// Why a pointer can't be followed.
pub(super) enum Fault {
    Null,
    Nowhere(u64),
    Outside(String),
}
