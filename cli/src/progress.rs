//! The progress of long work, on terminals only, and how interrupted work is gone on with.

use indicatif::{ProgressBar, ProgressStyle};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// The line that is shown now, around which other output goes.
static SHOWN: Mutex<Option<ProgressBar>> = Mutex::new(None);

/// True once the user has interrupted the process.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// The exit status of a process that an interrupt ends, as shells have it.
const INTERRUPTED_STATUS: i32 = 130;

/// A line of progress on standard error, hidden where that is no terminal. It goes when the value does.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// Shows the progress of so many steps if it is `wanted`. In the template, `{pos}` of `{len}` steps are done and the rest takes
    /// `{eta}`.
    pub fn new(steps: u64, template: &str, wanted: bool) -> Progress {
        if !wanted {
            return Progress { bar: ProgressBar::hidden() };
        }
        let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        // It is hidden by itself where standard error is no terminal.
        let bar = ProgressBar::new(steps).with_style(style);
        if !bar.is_hidden()
            && let Ok(mut shown) = SHOWN.lock()
        {
            *shown = Some(bar.clone());
        }
        Progress { bar }
    }

    /// One more step is done.
    pub fn step(&self) {
        self.bar.inc(1);
    }

    /// So many steps are done at least.
    pub fn reached(&self, steps: u64) {
        self.bar.set_position(self.bar.position().max(steps));
    }

    /// Replaces `{msg}`.
    pub fn say(&self, message: String) {
        self.bar.set_message(message);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if !self.bar.is_hidden()
            && let Ok(mut shown) = SHOWN.lock()
        {
            *shown = None;
        }
        self.bar.finish_and_clear();
    }
}

/// Writes other output around the line of progress.
pub(crate) fn aside<R>(write: impl FnOnce() -> R) -> R {
    // A clone, so that the lock is free meanwhile.
    let shown = SHOWN.lock().ok().and_then(|shown| shown.clone());
    match shown {
        Some(bar) => bar.suspend(write),
        None => write(),
    }
}

/// From now on an interrupt is a wish to end, which [`interrupted`] tells; a second one ends the process.
pub fn watch_interrupts() -> Result<(), String> {
    let handler = || {
        if INTERRUPTED.swap(true, Ordering::Relaxed) {
            std::process::exit(INTERRUPTED_STATUS);
        }
    };
    ctrlc::set_handler(handler).map_err(|error| format!("interrupts can't be watched: {error}"))
}

/// From now on an interrupt ends the process, which says how to start again: for work that keeps nothing until it is done.
pub fn end_on_interrupt() -> Result<(), String> {
    let line = shell_line(&std::env::args().collect::<Vec<_>>());
    let handler = move || {
        crate::io::error(&format!("interrupted; to start again: {line}"));
        std::process::exit(INTERRUPTED_STATUS);
    };
    ctrlc::set_handler(handler).map_err(|error| format!("interrupts can't be watched: {error}"))
}

/// Returns true once the user has interrupted the process.
pub fn interrupted() -> bool {
    INTERRUPTED.load(Ordering::Relaxed)
}

/// Returns words as a line for a shell.
pub fn shell_line<S: AsRef<str>>(words: &[S]) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+%@".contains(c);
    let quoted = |word: &str| match word {
        word if !word.is_empty() && word.chars().all(plain) => word.to_owned(),
        word => format!("'{}'", word.replace('\'', "'\\''")),
    };
    words.iter().map(|word| quoted(word.as_ref())).collect::<Vec<_>>().join(" ")
}

/// Returns a command line with other values for options that each have one: those that it has are replaced.
pub fn with_options(words: &[String], options: &[(&str, String)]) -> Vec<String> {
    let mut out = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let given = options.iter().find(|(name, _)| word == name || word.starts_with(&format!("{name}=")));
        match given {
            Some((name, _)) if word == name => drop(words.next()),
            Some(_) => {}
            None => out.push(word.clone()),
        }
    }
    out.extend(options.iter().flat_map(|(name, value)| [(*name).to_owned(), value.clone()]));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_for_a_shell_is_what_was_given() {
        let words: Vec<String> = ["lab", "--seed", "4", "--keep", "it's here", "--count=9"].map(str::to_owned).to_vec();
        let line = shell_line(&with_options(&words, &[("--seed", "12".to_owned()), ("--count", "3".to_owned())]));
        assert_eq!(line, r"lab --keep 'it'\''s here' --seed 12 --count 3");
    }
}
