//! Test files: assembly with comments for the expected findings of `check`.
//!
//! A comment `; error: [rule-id] part of the message` (or `warning`, `note`) stands on or after the line of the guilty
//! instruction. A comment `; label: text` is for another instruction that a finding must name with that text; a file
//! with one such comment must have all. Comments in front of the first instruction may give options: `; spec: 0=16
//! 1=8`, `; env: opencl2.2`, `; subgroup: 32`, `; warn: rule-id`, `; deny: rule-id`, `; allow: rule-id`, `; profile:
//! NAME` (of a built-in profile, or of a file beside the module) and after it `; subgroup-size: 32`.

use crate::{Device, Level, Options};
use coop_device::Profile;
use coop_ir::constant::SpecValue;
use coop_ir::{InstRef, Module, text};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// An expected finding.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Expected {
    /// The guilty instruction.
    pub at: InstRef,
    /// Its level.
    pub level: String,
    /// The rule's id.
    pub rule: String,
    /// A part of the message.
    pub message: String,
    /// The line of the comment.
    pub line: usize,
}

/// A test file.
#[derive(Clone, Debug)]
pub struct Case {
    /// The path.
    pub path: PathBuf,
    /// The module.
    pub module: Module,
    /// The options from its comments.
    pub options: Options,
    /// The expected findings, in the order of the comments.
    pub expected: Vec<Expected>,
    /// The expected labels of other instructions, with their texts.
    pub labels: Vec<(InstRef, String)>,
    /// The text of the file.
    pub source: String,
}

impl Case {
    /// Returns the file's name without folder and extension.
    pub fn name(&self) -> &str {
        self.path.file_stem().and_then(|s| s.to_str()).unwrap_or("")
    }

    /// Returns the rule that the file is about: its name up to the first dot.
    pub fn rule(&self) -> &str {
        self.name().split('.').next().unwrap_or("")
    }
}

/// Returns the errors and warnings for a module, uniformity included, one line each.
pub fn complaints(module: &Module) -> Vec<String> {
    let found = crate::check(module, &Options::default()).findings;
    let found = found.iter().filter(|f| f.level >= Level::Warning);
    found.map(|f| format!("{}[{}]: {}", f.level, f.rule.id, f.message)).collect()
}

/// Returns the test files below a folder, sorted. If `COOP_TEST` is set, only those whose path contains its value.
pub fn cases(folder: &Path) -> Vec<Case> {
    let mut paths = Vec::new();
    collect(folder, &mut paths);
    paths.sort();
    if let Ok(wanted) = std::env::var("COOP_TEST") {
        paths.retain(|p| p.to_string_lossy().contains(&wanted));
    }
    paths.into_iter().map(read).collect()
}

fn collect(folder: &Path, out: &mut Vec<PathBuf>) {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    for path in entries.map(|e| e.expect("a folder that can be listed").path()) {
        if path.is_dir() {
            collect(&path, out);
        } else if path.extension().is_some_and(|e| e == "spvasm") {
            out.push(path);
        }
    }
}

fn read(path: PathBuf) -> Case {
    let source = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let parsed = text::parse_with_places(&source).unwrap_or_else(|e| panic!("{}:{e}", path.display()));
    let lines: Vec<(usize, InstRef)> = parsed.module.all().filter_map(|r| Some((parsed.line(r)?, r))).collect();
    let mut options = Options::default();
    let mut expected = Vec::new();
    let mut labels = Vec::new();
    for (i, line) in source.lines().enumerate() {
        let (n, Some((_, comment))) = (i + 1, line.split_once(';')) else { continue };
        let Some((key, value)) = comment.split_once(':') else { continue };
        let (key, value) = (key.trim(), value.trim());
        let place = || format!("{}:{n}", path.display());
        match key {
            "error" | "warning" | "note" => {
                let (rule, message) = value
                    .strip_prefix('[')
                    .and_then(|v| v.split_once(']'))
                    .unwrap_or_else(|| panic!("{}: no [rule-id]", place()));
                let at = lines.iter().rfind(|(l, _)| *l <= n).map(|(_, r)| *r);
                let at = at.unwrap_or_else(|| panic!("{}: no instruction in front of it", place()));
                expected.push(Expected {
                    at,
                    level: key.to_owned(),
                    rule: rule.to_owned(),
                    message: message.trim().to_owned(),
                    line: n,
                });
            }
            "label" => {
                let at = lines.iter().rfind(|(l, _)| *l <= n).map(|(_, r)| *r);
                let at = at.unwrap_or_else(|| panic!("{}: no instruction in front of it", place()));
                labels.push((at, value.to_owned()));
            }
            "spec" => {
                for pair in value.split_whitespace() {
                    let (id, v) = pair.split_once('=').unwrap_or_else(|| panic!("{}: not ID=VALUE", place()));
                    let id = id.parse().unwrap_or_else(|_| panic!("{}: not a SpecId", place()));
                    let v = SpecValue::parse(v).unwrap_or_else(|| panic!("{}: not a value", place()));
                    options.specialization.set(id, v);
                }
            }
            "profile" => {
                let profile = Profile::builtin(value).unwrap_or_else(|| {
                    let file = path.with_file_name(value);
                    let text = std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{}: {e}", place()));
                    Profile::from_json(&text).unwrap_or_else(|e| panic!("{}: {e}", place()))
                });
                options.device = Some(Arc::new(Device::new(profile)));
            }
            "subgroup-size" => {
                let device = options.device.as_mut().unwrap_or_else(|| panic!("{}: comes after profile", place()));
                Arc::make_mut(device).subgroup_size = value.parse().ok();
            }
            "subgroup" => {
                options.subgroup_size = Some(value.parse().unwrap_or_else(|_| panic!("{}: not a size", place())));
            }
            "env" => options.env = Some(value.parse().unwrap_or_else(|e| panic!("{}: {e}", place()))),
            "allow" | "warn" | "deny" => {
                let level = match key {
                    "allow" => Level::Allow,
                    "warn" => Level::Warning,
                    _ => Level::Error,
                };
                options.set_level(value, level).unwrap_or_else(|e| panic!("{}: {e}", place()));
            }
            _ => {}
        }
    }
    Case { path, module: parsed.module, options, expected, labels, source }
}
