//! The places of findings in the text of a module.

use crate::report::Part;
use coop_ir::InstRef;
use coop_ir::text::{Parsed, Printed};
use std::ops::Range;

impl Part {
    /// Returns the bytes of this part of an instruction in a printed module; of all of the instruction where the part can't be told.
    pub fn in_printed(self, printed: &Printed, at: InstRef) -> Option<Range<usize>> {
        let part = match self {
            Part::Whole => None,
            Part::Type => printed.type_span(at),
            Part::Result => printed.result_span(at),
            Part::Operand(i) => printed.operand_span(at, i),
        };
        part.or_else(|| printed.span(at))
    }

    /// Returns the same in the text that a module was read from.
    pub fn in_written(self, text: &str, parsed: &Parsed, at: InstRef) -> Option<Range<usize>> {
        let part = match self {
            Part::Whole => None,
            Part::Type => parsed.type_span(text, at),
            Part::Result => parsed.result_span(text, at),
            Part::Operand(i) => parsed.operand_span(text, at, i),
        };
        part.or_else(|| parsed.span(at))
    }
}
