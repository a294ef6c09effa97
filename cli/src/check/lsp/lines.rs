//! Positions of the protocol: lines from 0, and columns in units of UTF-16.

use lsp_types::{Position, Range, Uri};
use std::fmt::Write;
use std::ops;
use std::path::{Path, PathBuf};

/// Returns the path of a document that is a file.
pub(super) fn path_of(uri: &Uri) -> Option<PathBuf> {
    let is_file = uri.scheme().is_some_and(|scheme| scheme.as_str() == "file");
    let path = uri.path().as_estr().decode().into_string().ok()?;
    is_file.then(|| PathBuf::from(path.into_owned()))
}

/// Returns the address of a file.
pub(super) fn uri_of(path: &Path) -> Option<Uri> {
    let mut text = "file://".to_owned();
    for byte in std::path::absolute(path).ok()?.to_str()?.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'/' | b'-' | b'_' | b'.' | b'~' => text.push(char::from(byte)),
            other => _ = write!(text, "%{other:02X}"),
        }
    }
    text.parse().ok()
}

/// Returns the text of a line, the first is 0.
pub(super) fn line(text: &str, number: u32) -> Option<&str> {
    text.lines().nth(number as usize)
}

/// Returns the range of a line without the white space around it.
pub(super) fn whole_line(text: &str, number: u32) -> Range {
    let line = line(text, number).unwrap_or("");
    let start = line.len() - line.trim_start().len();
    columns(line, number, start..line.trim_end().len().max(start))
}

/// Returns the range of bytes of a line.
fn columns(line: &str, number: u32, bytes: ops::Range<usize>) -> Range {
    let column = |at: usize| Position::new(number, line[..at].encode_utf16().count() as u32);
    Range::new(column(bytes.start), column(bytes.end))
}

/// Returns the range of bytes of a text.
pub(super) fn range(text: &str, bytes: &ops::Range<usize>) -> Range {
    let position = |at: usize| {
        let before = text.get(..at).unwrap_or(text);
        let start = before.rfind('\n').map_or(0, |n| n + 1);
        let line = before.matches('\n').count() as u32;
        Position::new(line, before[start..].encode_utf16().count() as u32)
    };
    Range::new(position(bytes.start), position(bytes.end))
}

/// Returns the word at a position, with its range: letters, digits and underscores, and the `%` in front of an id.
pub(super) fn word_at(text: &str, at: Position) -> Option<(&str, Range)> {
    let line = line(text, at.line)?;
    let mut units = 0;
    let byte = line.char_indices().find_map(|(i, c)| {
        units += c.len_utf16() as u32;
        (units > at.character).then_some(i)
    });
    let byte = byte.unwrap_or(line.len());
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let start =
        line[..byte].rfind(|c| !is_part(c)).map_or(0, |i| i + line[i..].chars().next().map_or(1, char::len_utf8));
    let end = line[byte..].find(|c| !is_part(c)).map_or(line.len(), |i| byte + i);
    let start = if start > 0 && line.as_bytes()[start - 1] == b'%' { start - 1 } else { start };
    (start < end).then(|| (&line[start..end], columns(line, at.line, start..end)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_count_utf_16() {
        let text = "a\n  é𝄞 word;\n%x = y\n";
        assert_eq!(range(text, &(4..10)), Range::new(Position::new(1, 2), Position::new(1, 5)));
        let word = |line, column| word_at(text, Position::new(line, column)).map(|(word, _)| word);
        assert_eq!(
            [word(1, 6), word(1, 9), word(1, 10), word(1, 11)],
            [Some("word"), Some("word"), Some("word"), None]
        );
        assert_eq!([word(2, 0), word(2, 1), word(2, 3), word(9, 0)], [None, Some("%x"), None, None]);
        assert_eq!(whole_line(text, 1), Range::new(Position::new(1, 2), Position::new(1, 11)));
    }

    #[test]
    fn addresses_are_paths() {
        let path = Path::new("/a b/ü%/x.comp");
        let uri = uri_of(path).expect("an address");
        assert_eq!(uri.as_str(), "file:///a%20b/%C3%BC%25/x.comp");
        assert_eq!(path_of(&uri).as_deref(), Some(path));
        assert_eq!(path_of(&"untitled:Untitled-1".parse().expect("an address")), None);
    }
}
