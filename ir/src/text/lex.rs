//! Splits text into tokens, as `spirv-as` does.

use super::GENERATORS;
use super::number::integer;
use crate::module::Header;

/// The place of a token in the text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Token {
    pub(super) start: u32,
    pub(super) end: u32,
}

/// The words of the header in comments.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct HeaderComments {
    version: Option<u32>,
    generator: Option<u32>,
    bound: Option<u32>,
    schema: Option<u32>,
}

/// Splits a text of less than 4 GB into tokens, and reads the comments in front of the first one.
pub(super) fn lex(text: &str) -> (Vec<Token>, HeaderComments) {
    let bytes = text.as_bytes();
    let mut tokens = Vec::with_capacity(text.len() / 8);
    let mut header = HeaderComments::default();
    let mut at = if text.starts_with('\u{feff}') { 3 } else { 0 };
    while let Some(&b) = bytes.get(at) {
        let start = at;
        match b {
            b' ' | b'\t' | b'\n' | b'\r' => {
                at += 1;
                continue;
            }
            b';' => {
                at += bytes[at..].iter().position(|b| *b == b'\n').unwrap_or(bytes.len() - at);
                if tokens.is_empty() {
                    header.read(&text[start + 1..at]);
                }
                continue;
            }
            b',' | b'(' | b')' => at += 1,
            _ => at = word_end(bytes, at),
        }
        tokens.push(Token { start: start as u32, end: at as u32 });
    }
    (tokens, header)
}

fn word_end(bytes: &[u8], mut at: usize) -> usize {
    let (mut quoting, mut escaping) = (false, false);
    while let Some(&b) = bytes.get(at) {
        match b {
            b'\\' => {
                escaping = !escaping;
                at += 1;
                continue;
            }
            b'"' if !escaping => quoting = !quoting,
            b' ' | b';' | b',' | b'(' | b')' | b'\t' | b'\n' | b'\r' if !escaping && !quoting => break,
            _ => {}
        }
        escaping = false;
        at += 1;
    }
    at
}

impl HeaderComments {
    /// Reads a comment such as ` Version: 1.6`; any other comment is ignored.
    fn read(&mut self, comment: &str) {
        let Some((key, value)) = comment.split_once(':') else { return };
        let value = value.trim();
        match key.trim() {
            "Version" => self.version = version(value).or(self.version),
            "Generator" => self.generator = generator(value).or(self.generator),
            "Bound" => self.bound = value.parse().ok().or(self.bound),
            "Schema" => self.schema = value.parse().ok().or(self.schema),
            _ => {}
        }
    }

    /// Returns the header of a module whose largest id is `max_id` (0: it has none).
    pub(super) fn header(self, max_id: u32) -> Header {
        let given = self.bound.filter(|b| *b <= crate::binary::MAX_BOUND);
        let needed = if max_id == 0 && given.is_some() { 0 } else { max_id + 1 };
        Header {
            version: self.version.unwrap_or(0x0001_0600),
            generator: self.generator.unwrap_or(0),
            bound: given.unwrap_or(0).max(needed),
            schema: self.schema.unwrap_or(0),
            big_endian: false,
        }
    }
}

fn version(text: &str) -> Option<u32> {
    if let Some((major, minor)) = text.split_once('.') {
        return Some(u32::from_be_bytes([0, major.parse().ok()?, minor.parse().ok()?, 0]));
    }
    match integer(text)? {
        (false, magnitude, true) => u32::try_from(magnitude).ok(),
        _ => None,
    }
}

/// Parses `Google rspirv; 3` or `Unknown(77); 3`.
fn generator(text: &str) -> Option<u32> {
    let (tool, number) = text.rsplit_once(';')?;
    let number: u16 = number.trim().parse().ok()?;
    let tool = tool.trim();
    let known = GENERATORS.iter().position(|g| *g == tool).and_then(|i| u16::try_from(i).ok());
    let unknown = || tool.strip_prefix("Unknown(")?.strip_suffix(')')?.parse().ok();
    Some(u32::from(known.or_else(unknown)?) << 16 | u32::from(number))
}
