//! Reading files that may be longer than memory, or have no end.

use std::fs::File;
use std::io::{Error, ErrorKind, Read, Result};
use std::path::Path;

/// The largest size of a module in bytes: far more than a compiler writes.
pub const MAX_MODULE: u64 = 256 << 20;

/// The largest size in bytes of a case, a profile or a list of values.
pub const MAX_TEXT: u64 = 64 << 20;

/// The most bytes that are set aside for a file before it is read.
const MAX_ROOM: u64 = 1 << 20;

/// Returns the bytes of a file that has at most `most`.
pub fn read(path: &Path, most: u64) -> Result<Vec<u8>> {
    let file = File::open(path)?;
    // With room for all of it, what was read is not copied as it grows. What is no plain file may say anything.
    let size = file.metadata().map_or(0, |m| m.len().min(most)).min(MAX_ROOM);
    read_into(Vec::with_capacity(size as usize), file, most)
}

/// Returns the text of a file that has at most `most` bytes.
pub fn read_text(path: &Path, most: u64) -> Result<String> {
    let at = |e: std::string::FromUtf8Error| format!("not text: byte {} is not UTF-8", e.utf8_error().valid_up_to());
    String::from_utf8(read(path, most)?).map_err(|e| Error::new(ErrorKind::InvalidData, at(e)))
}

/// Returns the bytes of a reader that has at most `most`.
pub fn read_from(reader: impl Read, most: u64) -> Result<Vec<u8>> {
    read_into(Vec::new(), reader, most)
}

fn read_into(mut bytes: Vec<u8>, mut reader: impl Read, most: u64) -> Result<Vec<u8>> {
    reader.by_ref().take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(Error::new(ErrorKind::FileTooLarge, format!("it has more than {most} bytes")));
    }
    Ok(bytes)
}

/// Returns the first `most` bytes of a file, or all of a shorter one.
pub fn read_start(path: &Path, most: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endless_reader_ends() {
        let error = read_from(std::io::repeat(0), 1000).unwrap_err();
        assert_eq!(error.to_string(), "it has more than 1000 bytes");
        assert_eq!(read_from(&[1u8, 2][..], 2).unwrap(), [1, 2]);
    }
}
