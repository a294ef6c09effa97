//! Results of runs: verdicts, speeds, files, and the comparisons of a lowered module.

use std::path::Path;
use std::time::Duration;

use coop_exec::{Case, Difference, Error, Outcome};
use coop_passes::Report;

use super::on::Ran;
use crate::Status;

/// Returns success for runs without differences and complaints.
pub(super) fn verdict(runs: &[&Ran], differences: &[Difference]) -> Status {
    let clean = runs.iter().all(|ran| ran.is_clean());
    if clean && differences.is_empty() { Status::Success } else { Status::Findings }
}

/// Returns the buffers that the case expects something of, each once.
pub(super) fn expected(case: &Case) -> Vec<&str> {
    let mut names: Vec<&str> = case.expect.iter().map(|expect| expect.buffer()).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// Returns the operations in a second, in 10^12.
pub fn tera_operations(case: &Case, time: Duration) -> Option<f64> {
    case.operations.filter(|_| !time.is_zero()).map(|operations| operations / time.as_secs_f64() / 1e12)
}

/// Writes every buffer to `NAME.bin`.
pub(super) fn dump(outcome: &Outcome, folder: &Path) -> Result<(), Error> {
    let fail = |path: &Path, error: std::io::Error| Error::Case(format!("{}: {error}", path.display()));
    std::fs::create_dir_all(folder).map_err(|error| fail(folder, error))?;
    for (name, bytes) in &outcome.buffers {
        let path = folder.join(dump_name(name));
        std::fs::write(&path, bytes).map_err(|error| fail(&path, error))?;
    }
    Ok(())
}

/// Returns the name of a buffer's file.
pub(super) fn dump_name(buffer: &str) -> String {
    format!("{}.bin", file_name(buffer))
}

/// Returns a name as that of a file: characters other than letters, digits, `-` and `_` become `_`.
pub(super) fn file_name(name: &str) -> String {
    let safe = |c: char| if c.is_alphanumeric() || c == '-' || c == '_' { c } else { '_' };
    name.chars().map(safe).collect()
}

/// The comparisons of a lowered module, and their results.
pub(super) struct Verification<'a> {
    /// The run of the lowered module.
    pub(super) ran: Ran,
    /// The run of the original, if it ran.
    pub(super) original: Option<Ran>,
    /// The comparisons: `original`, `expectation`.
    pub(super) compared_with: Vec<&'static str>,
    /// The reason why the original was left out, if it was.
    pub(super) not_compared: Option<String>,
    /// The differences, each with the name of the comparison.
    pub(super) differences: Vec<(&'static str, Difference)>,
    /// The report of the lowering.
    pub(super) report: &'a Report,
}
