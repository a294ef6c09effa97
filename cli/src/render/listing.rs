//! The text that findings point into: our disassembly of a binary, or the user's own assembly, or shader source.

use coop_ir::text::{self, Parsed, PrintOptions, Printed};
use coop_ir::{InstRef, Module};
use coop_validate::Part;
use miette::{MietteError, MietteSpanContents, SourceCode, SourceSpan, SpanContents};
use std::ops::Range;

/// A named text by lines, of which some may be missing. Miette's own sources read the text from its beginning for every
/// label, and merge what stands far apart.
#[derive(Debug)]
pub(super) struct Text {
    name: String,
    text: String,
    /// The offsets of the lines.
    lines: Vec<usize>,
    /// The gaps: the first line after each, as an index into `lines`, and its number, from 0. Sorted.
    gaps: Vec<(usize, usize)>,
}

impl Text {
    pub(super) fn new(name: String, text: String) -> Text {
        let ends = text.bytes().enumerate().filter(|(_, b)| *b == b'\n').map(|(i, _)| i + 1);
        let lines = std::iter::once(0).chain(ends.filter(|i| *i < text.len())).collect();
        Text { name, text, lines, gaps: Vec::new() }
    }

    /// Makes the listing of a text without some of its lines. `numbers` gives the offsets of some lines with their
    /// numbers in the whole text, from 1.
    fn with_gaps(name: String, text: String, numbers: impl Iterator<Item = (usize, usize)>) -> Text {
        let mut this = Text::new(name, text);
        for (start, number) in numbers {
            let index = this.line_of(start);
            if this.number(index) + 1 != number {
                this.gaps.push((index, number.saturating_sub(1)));
            }
        }
        this
    }

    /// The number that a line has in the whole text, from 0.
    fn number(&self, index: usize) -> usize {
        let before = self.gaps.partition_point(|g| g.0 <= index);
        match before.checked_sub(1) {
            Some(gap) => self.gaps[gap].1 + index - self.gaps[gap].0,
            None => index,
        }
    }

    /// The line that a byte is in, as an index into `lines`.
    fn line_of(&self, offset: usize) -> usize {
        self.lines.partition_point(|l| *l <= offset).saturating_sub(1)
    }

    fn line_end(&self, line: usize) -> usize {
        self.lines.get(line + 1).copied().unwrap_or(self.text.len())
    }

    /// A line without white space around it; the first is 1.
    pub(super) fn line_span(&self, line: usize) -> Option<Range<usize>> {
        let start = *self.lines.get(line.checked_sub(1)?)?;
        let text = &self.text[start..self.line_end(line - 1)];
        let lead = text.len() - text.trim_start().len();
        let len = text.trim().len();
        (len > 0).then_some(start + lead..start + lead + len)
    }
}

impl SourceCode for Text {
    fn read_span<'a>(
        &'a self,
        span: &SourceSpan,
        before: usize,
        after: usize,
    ) -> Result<Box<dyn SpanContents<'a> + 'a>, MietteError> {
        let (start, end) = (span.offset(), span.offset() + span.len());
        if end > self.text.len() {
            return Err(MietteError::OutOfBounds);
        }
        let line = self.line_of(start);
        let first = line.saturating_sub(before);
        let last = (self.line_of(end.saturating_sub(1).max(start)) + after).min(self.lines.len() - 1);
        let (from, column) = match before {
            0 => (start, self.text[self.lines[line]..start].chars().count()),
            _ => (self.lines[first], 0),
        };
        let to = if after == 0 { end } else { self.line_end(last) };
        Ok(Box::new(MietteSpanContents::new_named(
            self.name.clone(),
            &self.text.as_bytes()[from..to],
            (from, to - from).into(),
            self.number(first),
            column,
            last + 1 - first,
        )))
    }
}

/// A module as text, and where its instructions are in it.
#[derive(Debug)]
pub(crate) struct Listing {
    pub(super) text: Text,
    spans: Spans,
}

#[derive(Debug)]
enum Spans {
    /// We printed it.
    Printed(Printed),
    /// The user wrote it.
    Written(Box<Parsed>),
}

impl Listing {
    /// The module printed.
    pub(super) fn disassembly(module: &Module, name: String) -> Listing {
        let printed = text::print(module, &PrintOptions::default());
        Listing { text: Text::new(name, printed.text.clone()), spans: Spans::Printed(printed) }
    }

    /// Returns the lines of the printed module that findings at these instructions show.
    pub(super) fn excerpt(module: &Module, name: String, shown: impl IntoIterator<Item = InstRef>) -> Listing {
        let printed = text::print_some(module, &PrintOptions::default(), shown);
        let text = Text::with_gaps(name, printed.text.clone(), printed.line_starts());
        Listing { text, spans: Spans::Printed(printed) }
    }

    /// The text that the module was read from; `None` if that can't be.
    pub(crate) fn written(name: String, text: &str) -> Option<Listing> {
        let parsed = text::parse_with_places(text).ok()?;
        Some(Listing { text: Text::new(name, text.to_owned()), spans: Spans::Written(Box::new(parsed)) })
    }

    /// The text of a part of an instruction. Where the part can't be told, the whole instruction.
    pub(crate) fn span(&self, at: InstRef, part: Part) -> Option<Range<usize>> {
        match &self.spans {
            Spans::Printed(printed) => part.in_printed(printed, at),
            Spans::Written(parsed) => part.in_written(&self.text.text, parsed, at),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_written_instructions() {
        let source = "OpCapability Shader\n%v = OpTypeVoid\n%u = OpTypeInt 32 0 ; a comment\n\
                      OpName %u \"a \\\" name\"\n%one = OpConstant\n  %u 1\n";
        let listing = Listing::written("x".into(), source).expect("it parses");
        let module = text::parse(source).expect("it parses");
        let all: Vec<InstRef> = module.all().collect();
        let text = |r: InstRef, part| listing.span(r, part).map(|s| &source[s]);
        assert_eq!(text(all[0], Part::Operand(0)), Some("Shader"));
        assert_eq!(text(all[2], Part::Result), Some("%u"));
        assert_eq!(text(all[2], Part::Operand(1)), Some("0"));
        assert_eq!(text(all[3], Part::Operand(1)), Some("\"a \\\" name\""));
        assert_eq!(text(all[4], Part::Type), Some("%u"));
        assert_eq!(text(all[4], Part::Operand(0)), Some("1"));
        assert_eq!(text(all[4], Part::Operand(7)), text(all[4], Part::Whole));
    }

    #[test]
    fn lines_and_columns() {
        let text = Text::new("x".into(), "one\n  two\n\nfour".into());
        assert_eq!(text.line_span(2), Some(6..9));
        assert_eq!(text.line_span(3), None);
        assert_eq!(text.line_span(4), Some(11..15));
        assert_eq!(text.line_span(5), None);
        let read = |offset, len, context| {
            let c = text.read_span(&(offset, len).into(), context, context).expect("inside");
            (String::from_utf8_lossy(c.data()).into_owned(), c.line(), c.column(), c.line_count())
        };
        assert_eq!(read(6, 3, 1), ("one\n  two\n\n".into(), 0, 0, 3));
        assert_eq!(read(6, 3, 0), ("two".into(), 1, 2, 1));
        assert_eq!(read(11, 4, 1), ("\nfour".into(), 2, 0, 2));
        assert!(text.read_span(&(11, 5).into(), 1, 1).is_err());
    }
}
