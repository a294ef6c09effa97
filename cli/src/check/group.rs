//! Equal findings of several files, shown once.

use super::baseline::without_ids;
use crate::json::Places;
use crate::render::Problem;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// A piece of a file's output.
pub(super) struct Piece {
    /// Pieces with the same key say the same; without one, a piece stands for itself.
    pub(super) key: Option<String>,
    /// The text, with the end of its last line.
    pub(super) text: String,
}

/// The file that a piece is of, and its configuration.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Owner {
    /// The file.
    pub(super) file: String,
    /// The pipeline and the device; empty if there is only one.
    pub(super) configuration: String,
}

/// Pieces of several files, in the order in which they came.
#[derive(Default)]
pub(super) struct Groups {
    all: Vec<(Piece, Owner, Vec<Owner>)>,
    by_key: BTreeMap<String, usize>,
}

/// Returns what is equal in equal findings of several files: rule, message and function without ids, the line of the shader.
pub(super) fn key(places: &Places<'_>, problem: &Problem) -> String {
    let found = places.problem(problem);
    let function = found["function"].as_str().map(without_ids);
    let (file, line) = (&found["source"]["file"], &found["source"]["line"]);
    let (level, rule, opcode) = (problem.level, &problem.code, &found["opcode"]);
    format!("{level} {rule} {opcode} {function:?} {file}:{line} {}", without_ids(&problem.message))
}

impl Groups {
    /// Adds the pieces of a file. Equal ones within a file stay apart.
    pub(super) fn add(&mut self, pieces: Vec<Piece>, owner: &Owner) {
        let mut within: BTreeMap<String, usize> = BTreeMap::new();
        for mut piece in pieces {
            let Some(key) = piece.key.take() else {
                self.all.push((piece, owner.clone(), Vec::new()));
                continue;
            };
            let nth = within.entry(key.clone()).or_default();
            *nth += 1;
            let key = format!("{nth} {key}");
            match self.by_key.get(&key) {
                Some(index) => self.all[*index].2.push(owner.clone()),
                None => {
                    self.by_key.insert(key, self.all.len());
                    self.all.push((piece, owner.clone(), Vec::new()));
                }
            }
        }
    }

    /// Returns the text of all, each piece with the number of files that it is of, or with their names.
    pub(super) fn text(&self, one_line: bool, names: bool) -> String {
        let mut out = String::new();
        for (piece, owner, others) in &self.all {
            let body = piece.text.trim_end();
            out.push_str(body);
            let more = more(owner, others);
            match (&more, one_line) {
                (Some(more), true) => write!(out, " ({more})").expect("writing to a string does not fail"),
                (Some(more), false) => {
                    out.push_str(&format!("\n  {more}"));
                    if names {
                        let name = |o: &Owner| match o.configuration.as_str() {
                            "" => o.file.clone(),
                            configuration => format!("{} ({configuration})", o.file),
                        };
                        let names: Vec<String> = others.iter().map(name).collect();
                        out.push_str(&format!(": {}", names.join(", ")));
                    }
                }
                (None, _) => {}
            }
            out.push_str(&piece.text[body.len()..]);
        }
        out
    }
}

/// Returns "and N more files", or configurations of the same file.
fn more(owner: &Owner, others: &[Owner]) -> Option<String> {
    let mut files: Vec<&str> = others.iter().map(|o| o.file.as_str()).filter(|file| *file != owner.file).collect();
    files.dedup();
    match (files.len(), others.len()) {
        (_, 0) => None,
        (0, 1) => Some("and 1 more configuration".into()),
        (0, n) => Some(format!("and {n} more configurations")),
        (1, _) => Some("and 1 more file".into()),
        (n, _) => Some(format!("and {n} more files")),
    }
}
