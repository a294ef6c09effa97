//! The layer's log: standard error or a file, one line per event.

use std::fmt;
use std::fs::File;
use std::io::Write;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, PoisonError};

/// The verbosity.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub(crate) enum Level {
    /// Nothing.
    Off,
    /// Failures.
    Error,
    /// Failures and assumptions.
    Warn,
    /// A line per device and per pipeline that is lowered.
    Info,
    /// Each module and each pipeline of a device with matrices.
    Debug,
}

impl Level {
    /// Reads the value of a setting.
    pub(crate) fn parse(text: &str) -> Option<Level> {
        Some(match text {
            "off" | "0" => Level::Off,
            "error" => Level::Error,
            "warn" | "warning" => Level::Warn,
            "info" | "1" => Level::Info,
            "debug" => Level::Debug,
            _ => return None,
        })
    }
}

static LEVEL: AtomicU8 = AtomicU8::new(Level::Error as u8);
static OUT: Mutex<Option<File>> = Mutex::new(None);

/// Sets the verbosity and the file. The latest instance's settings hold for the process.
pub(crate) fn configure(level: Level, file: Option<File>) {
    LEVEL.store(level as u8, Ordering::Relaxed);
    if file.is_some() {
        *OUT.lock().unwrap_or_else(PoisonError::into_inner) = file;
    }
}

/// Returns true if lines of a level are written.
pub(crate) fn enabled(level: Level) -> bool {
    level as u8 <= LEVEL.load(Ordering::Relaxed)
}

/// Writes a line of a level. A log that can't be written is no reason to fail.
pub(crate) fn write(level: Level, text: fmt::Arguments<'_>) {
    if !enabled(level) {
        return;
    }
    let line = format!("coopmat: {text}\n");
    let mut out = OUT.lock().unwrap_or_else(PoisonError::into_inner);
    let _ = match out.as_mut() {
        Some(file) => file.write_all(line.as_bytes()),
        None => std::io::stderr().write_all(line.as_bytes()),
    };
}

/// Writes an error.
pub(crate) fn error(text: fmt::Arguments<'_>) {
    write(Level::Error, text);
}

/// Writes a warning.
pub(crate) fn warn(text: fmt::Arguments<'_>) {
    write(Level::Warn, text);
}

/// Writes what was done.
pub(crate) fn info(text: fmt::Arguments<'_>) {
    write(Level::Info, text);
}

/// Writes a detail.
pub(crate) fn debug(text: fmt::Arguments<'_>) {
    write(Level::Debug, text);
}
