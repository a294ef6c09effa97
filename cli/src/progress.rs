//! The progress of long work, on terminals only, and how interrupted work is gone on with.

use indicatif::{ProgressBar, ProgressStyle};

/// Returns a line of progress on standard error for so many steps, hidden where that is no terminal or `wanted` is false. In the
/// template, `{pos}` of `{len}` steps are done and the rest takes `{eta}`.
pub fn counter(steps: u64, template: &str, wanted: bool) -> ProgressBar {
    if !wanted {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    // It is hidden by itself where standard error is no terminal.
    ProgressBar::new(steps).with_style(style)
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
