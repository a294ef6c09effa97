//! `coopcheck --watch`: checks again whenever a file changes.
//!
//! Files are looked at a few times a second, which works on every file system, for network folders and containers too.

use super::files::Checked;
use super::{Cli, once, project_file};
use crate::{Status, io};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

/// How long to wait between two looks.
const INTERVAL: Duration = Duration::from_millis(200);

/// When a file was written, and its length.
type State = Option<(SystemTime, u64)>;

/// Checks until the process is interrupted.
pub(super) fn check(cli: &Cli) -> Result<Status, String> {
    if cli.files.iter().any(|file| file.as_os_str() == "-") {
        return Err("--watch needs files that can change; standard input is read once".into());
    }
    loop {
        // What changes while files are checked is seen behind it.
        let begun = states(&own_files(cli));
        let read = match once(cli) {
            Ok(Checked { read, .. }) => read,
            Err(message) => {
                io::error(&format!("error: {message}"));
                cli.files.iter().cloned().collect()
            }
        };
        let all: BTreeSet<PathBuf> = read.into_iter().chain(own_files(cli)).collect();
        let mut before = states(&all);
        before.extend(begun);
        io::error(&format!("watching {} files", before.values().flatten().count()));
        while states(&all) == before {
            std::thread::sleep(INTERVAL);
        }
        io::error("");
    }
}

/// Returns the files that the command line names.
fn own_files(cli: &Cli) -> BTreeSet<PathBuf> {
    let named = [&cli.baseline, &cli.run].into_iter().flatten().cloned();
    cli.files.iter().cloned().chain(named).chain(project_file(cli)).collect()
}

fn states(files: &BTreeSet<PathBuf>) -> BTreeMap<PathBuf, State> {
    let state = |path: &PathBuf| {
        let metadata = std::fs::metadata(path).ok()?;
        Some((metadata.modified().ok()?, metadata.len()))
    };
    files.iter().map(|path| (path.clone(), state(path))).collect()
}
