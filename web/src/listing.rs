//! The text that findings point into, and positions in it as JavaScript counts.

use crate::Input;
use coop_ir::InstRef;
use coop_ir::text::{self, Parsed, PrintOptions, Printed};
use coop_validate::Part;
use std::ops::Range;

/// Where the lines of a text begin, in bytes and in units of UTF-16.
pub(crate) struct Positions<'t> {
    text: &'t str,
    /// Empty where the text is ASCII: then both are the same.
    lines: Vec<(usize, usize)>,
}

impl<'t> Positions<'t> {
    pub(crate) fn new(text: &'t str) -> Positions<'t> {
        let mut lines = Vec::new();
        if !text.is_ascii() {
            let (mut bytes, mut units) = (0, 0);
            for line in text.split_inclusive('\n') {
                lines.push((bytes, units));
                bytes += line.len();
                units += line.encode_utf16().count();
            }
        }
        Positions { text, lines }
    }

    fn unit(&self, byte: usize) -> usize {
        let line = self.lines.partition_point(|(start, _)| *start <= byte).checked_sub(1);
        let Some((start, units)) = line.map(|line| self.lines[line]) else { return byte };
        units + self.text.get(start..byte).map_or(0, |text| text.encode_utf16().count())
    }

    /// Returns a span of bytes in units of UTF-16.
    pub(crate) fn span(&self, bytes: &Range<usize>) -> Range<usize> {
        self.unit(bytes.start)..self.unit(bytes.end)
    }
}

/// A module's text: the user's own, or the disassembly.
pub(crate) enum Listing<'a> {
    Written(&'a str, &'a Parsed),
    Printed(Box<Printed>),
}

impl<'a> Listing<'a> {
    pub(crate) fn of(input: &'a Input<'_>) -> Listing<'a> {
        match &input.written {
            Some((text, parsed)) => Listing::Written(text, parsed),
            None => Listing::Printed(Box::new(text::print(&input.module, &PrintOptions::default()))),
        }
    }

    pub(crate) fn text(&self) -> &str {
        match self {
            Listing::Written(text, _) => text,
            Listing::Printed(printed) => &printed.text,
        }
    }

    /// Returns the bytes of a part of an instruction; all of the instruction where the part can't be told.
    pub(crate) fn span(&self, at: InstRef, part: Part) -> Option<Range<usize>> {
        match self {
            Listing::Written(text, parsed) => part.in_written(text, parsed, at),
            Listing::Printed(printed) => part.in_printed(printed, at),
        }
    }

    /// Returns the line on which an instruction begins; the first line is 1.
    pub(crate) fn line(&self, at: InstRef) -> Option<usize> {
        match self {
            Listing::Written(_, parsed) => parsed.line(at),
            Listing::Printed(printed) => printed.line(at),
        }
    }
}
