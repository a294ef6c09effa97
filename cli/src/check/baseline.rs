//! Baselines: the findings that a project knows of. Only others are reported.
//!
//! A finding is known by its file, its rule, its function and the text of its line, not by numbers of lines and ids: code that moves has
//! no new findings.

use crate::io;
use crate::json::Places;
use crate::render::Problem;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The layout of the file.
const VERSION: u32 = 1;

/// How a finding is known again.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub(super) struct Fingerprint {
    rule: String,
    function: Option<String>,
    text: String,
}

/// How often each finding of a file is there.
pub(super) type Counts = BTreeMap<Fingerprint, usize>;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    version: u32,
    findings: Vec<Entry>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    file: String,
    rule: String,
    function: Option<String>,
    text: String,
    count: usize,
}

/// The known findings, by file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Baseline {
    folder: PathBuf,
    files: BTreeMap<String, Counts>,
}

impl Fingerprint {
    /// The fingerprint of a problem.
    pub(super) fn of(places: &Places<'_>, problem: &Problem) -> Fingerprint {
        let found = places.problem(problem);
        let text = |value: &serde_json::Value| value.as_str().map(str::to_owned);
        let line = text(&found["source"]["text"]).map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
        let instruction =
            || format!("{}: {}", text(&found["opcode"]).unwrap_or_default(), without_ids(&problem.message));
        Fingerprint {
            rule: problem.code.clone(),
            function: text(&found["function"]).map(|name| without_ids(&name)),
            text: line.filter(|line| !line.is_empty()).unwrap_or_else(instruction),
        }
    }

    /// The fingerprint of all findings of a rule beyond those that are kept.
    pub(super) fn omitted(rule: &str) -> Fingerprint {
        Fingerprint { rule: rule.to_owned(), function: None, text: "(more)".into() }
    }
}

/// Returns a text with `%` for ids, which change when a module is compiled again.
pub(super) fn without_ids(text: &str) -> String {
    let mut out = String::new();
    let mut parts = text.split('%');
    out.push_str(parts.next().unwrap_or_default());
    for part in parts {
        out.push('%');
        out.push_str(part.trim_start_matches(|c: char| c.is_alphanumeric() || c == '_'));
    }
    out
}

impl Baseline {
    /// An empty baseline for a file of this name: files are named from its folder.
    pub(super) fn new(path: &Path) -> Baseline {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        Baseline { folder: folder.canonicalize().unwrap_or_else(|_| folder.to_owned()), files: BTreeMap::new() }
    }

    /// An empty baseline for the same files.
    pub(super) fn like(&self) -> Baseline {
        Baseline { folder: self.folder.clone(), files: BTreeMap::new() }
    }

    /// Reads a baseline.
    pub(super) fn read(path: &Path) -> Result<Baseline, String> {
        let name = path.display();
        let text = io::read_text(path).map_err(|e| {
            format!("{e}; `coopcheck --write-baseline {name}` writes a baseline, the findings that are known")
        })?;
        let written: Written = serde_json::from_str(&text).map_err(|e| format!("{name}: not a baseline: {e}"))?;
        if written.version != VERSION {
            return Err(format!(
                "{name}: a baseline of version {}; this coopcheck reads version {VERSION}",
                written.version
            ));
        }
        let mut baseline = Baseline::new(path);
        for Entry { file, rule, function, text, count } in written.findings {
            *baseline.files.entry(file).or_default().entry(Fingerprint { rule, function, text }).or_default() += count;
        }
        Ok(baseline)
    }

    /// Returns the name of a file in the baseline: from its folder, if the file is below that.
    fn name(&self, path: &Path) -> String {
        let absolute = path.canonicalize().ok();
        let below = absolute.as_ref().and_then(|path| path.strip_prefix(&self.folder).ok());
        below.unwrap_or(path).display().to_string().replace('\\', "/")
    }

    /// Returns what is known of a file.
    pub(super) fn known(&self, path: &Path) -> Counts {
        self.files.get(&self.name(path)).cloned().unwrap_or_default()
    }

    /// Adds what was found in a file, in one of its configurations.
    pub(super) fn add(&mut self, path: &Path, found: &Counts) {
        let name = self.name(path);
        let file = self.files.entry(name).or_default();
        for (fingerprint, count) in found {
            let known = file.entry(fingerprint.clone()).or_default();
            *known = (*known).max(*count);
        }
    }

    /// Returns how many findings there are.
    pub(super) fn len(&self) -> usize {
        self.files.values().flat_map(BTreeMap::values).sum()
    }

    /// Returns how many of these findings were not found, in the files of `found`.
    pub(super) fn gone(&self, found: &Baseline) -> usize {
        let mut gone = 0;
        for (file, counts) in &found.files {
            let known = self.files.get(file).into_iter().flatten();
            gone += known.map(|(f, n)| n.saturating_sub(counts.get(f).copied().unwrap_or(0))).sum::<usize>();
        }
        gone
    }

    /// Writes it.
    pub(super) fn write(&self, path: &Path) -> Result<(), String> {
        let entry = |file: &String, f: &Fingerprint, count: usize| Entry {
            file: file.clone(),
            rule: f.rule.clone(),
            function: f.function.clone(),
            text: f.text.clone(),
            count,
        };
        let all = self.files.iter().flat_map(|(file, counts)| counts.iter().map(move |(f, n)| entry(file, f, *n)));
        let written = Written { version: VERSION, findings: all.collect() };
        let text = serde_json::to_string_pretty(&written).map_err(|e| e.to_string())?;
        io::write_bytes(path, (text + "\n").as_bytes()).map_err(|e| e.to_string())
    }
}

/// Takes a finding out of those that are known. Returns false for a new one.
pub(super) fn take(known: &mut Counts, fingerprint: &Fingerprint, count: usize) -> bool {
    match known.get_mut(fingerprint) {
        Some(left) if *left >= count => {
            *left -= count;
            true
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::without_ids;

    #[test]
    fn ids_are_left_out() {
        assert_eq!(without_ids("%12 has K 16, %b_2 has K 8"), "% has K 16, % has K 8");
        assert_eq!(without_ids("100% of it"), "100% of it");
    }
}
