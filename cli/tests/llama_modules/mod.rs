//! llama.cpp's modules, which `scripts/llama-shaders.sh` compiles, and the spec constants with which its engine uses
//! them (`testdata/llama/spec.toml`). For tests and benchmarks.

// Each of these programs uses a part of it.
#![allow(dead_code)]

use coop_ir::constant::{SpecValue, Specialization};
use coop_ir::{Module, binary};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The modules that one group of `spec.toml` is about.
#[derive(serde::Deserialize, Debug)]
pub(crate) struct Group {
    /// The name of the modules.
    pub(crate) name: String,
    /// Glob patterns over their names.
    modules: Vec<String>,
    /// The number of modules.
    pub(crate) count: usize,
    /// The ways in which the engine uses them.
    pub(crate) entry: Vec<Entry>,
}

/// One pipeline that the engine makes.
#[derive(serde::Deserialize, Debug)]
pub(crate) struct Entry {
    /// Shape of the matrices and subgroup size of the device: `16x16x16 subgroup 32`.
    pub(crate) device: String,
    /// The engine's name for it.
    pub(crate) tile: String,
    /// True if loads are aligned.
    pub(crate) aligned: bool,
    spec: BTreeMap<String, u32>,
}

impl Entry {
    /// The values of the spec constants.
    pub(crate) fn specialization(&self) -> Specialization {
        let mut out = Specialization::new();
        for (id, value) in &self.spec {
            let id = id.parse().unwrap_or_else(|_| panic!("{id} is not a SpecId"));
            out.set(id, SpecValue::Int(i128::from(*value)));
        }
        out
    }

    /// The invocations of a subgroup of the device.
    pub(crate) fn subgroup_size(&self) -> u32 {
        let size = self.device.rsplit(' ').next().and_then(|n| n.parse().ok());
        size.unwrap_or_else(|| panic!("'{}' names no subgroup size", self.device))
    }

    /// The entry in a few words.
    pub(crate) fn label(&self) -> String {
        let aligned = if self.aligned { ", aligned" } else { "" };
        format!("{}, tile {}{aligned}", self.device, self.tile)
    }
}

/// A module and the group that it belongs to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Member<'a> {
    /// The file.
    pub(crate) path: &'a Path,
    /// The group.
    pub(crate) group: &'a Group,
}

/// The groups of `spec.toml`.
pub(crate) fn groups() -> Vec<Group> {
    groups_of("spec.toml")
}

/// The groups of a file in `testdata/llama`.
pub(crate) fn groups_of(file: &str) -> Vec<Group> {
    #[derive(serde::Deserialize)]
    struct File {
        group: Vec<Group>,
    }
    let path = repository().join("testdata/llama").join(file);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let file: File = toml::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    file.group
}

/// The modules with the group that each belongs to: the first one that matches. Those of no group are left out.
pub(crate) fn members<'a>(modules: &'a [PathBuf], groups: &'a [Group]) -> Vec<Member<'a>> {
    let group = |path: &Path| groups.iter().find(|g| g.modules.iter().any(|m| matches(m, &stem(path))));
    modules.iter().filter_map(|path| Some(Member { path, group: group(path)? })).collect()
}

/// The modules with cooperative matrices. `None` if they have not been compiled, which is said aloud, and is a failure
/// where they are required.
pub(crate) fn modules() -> Option<Vec<PathBuf>> {
    let folder = cache().join("llama");
    let Ok(entries) = std::fs::read_dir(&folder) else {
        let why = format!("no llama.cpp modules in {}: run scripts/llama-shaders.sh first", folder.display());
        assert!(std::env::var_os("COOP_REQUIRE_LLAMA").is_none_or(|value| value != "1"), "{why}");
        // Straight to stderr: the test harness keeps what `eprintln!` writes to itself.
        let _ = writeln!(std::io::stderr(), "SKIPPED, {why}");
        return None;
    };
    let mut files: Vec<PathBuf> = entries.map_while(Result::ok).map(|e| e.path()).filter(|p| has_matrices(p)).collect();
    files.sort();
    Some(files)
}

/// The largest module with the constants of one of its pipelines, as arguments of cooplower.
pub(crate) fn largest() -> Option<(PathBuf, Vec<String>)> {
    let modules = modules()?;
    let groups: Vec<Group> = ["spec_cm2.toml", "spec.toml"].into_iter().flat_map(groups_of).collect();
    let size = |path: &Path| std::fs::metadata(path).map_or(0, |m| m.len());
    let member = members(&modules, &groups).into_iter().max_by_key(|m| size(m.path))?;
    let spec = &member.group.entry.first()?.spec;
    Some((member.path.to_owned(), spec.iter().flat_map(|(id, v)| ["--spec".to_owned(), format!("{id}={v}")]).collect()))
}

fn has_matrices(path: &Path) -> bool {
    let name = stem(path);
    path.extension().is_some_and(|e| e == "spv") && (name.ends_with("_cm1") || name.ends_with("_cm2"))
}

/// The file's name without `.spv`.
pub(crate) fn stem(path: &Path) -> String {
    path.file_stem().map_or_else(String::new, |s| s.to_string_lossy().into_owned())
}

/// Returns the folder of drivers, tools and third-party modules.
pub(crate) fn cache() -> PathBuf {
    std::env::var_os("COOP_CACHE").map_or_else(|| repository().join(".cache"), PathBuf::from)
}

/// The repository's folder.
pub(crate) fn repository() -> PathBuf {
    let cli = Path::new(env!("CARGO_MANIFEST_DIR"));
    cli.parent().unwrap_or(cli).to_owned()
}

/// Returns true if `name` matches a pattern in which `*` stands for anything.
fn matches(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((head, tail)) => name.strip_prefix(head).is_some_and(|rest| {
            rest.char_indices().map(|(i, _)| i).chain([rest.len()]).any(|i| matches(tail, &rest[i..]))
        }),
    }
}

/// A module, which can be read.
pub(crate) fn read(path: &Path) -> Module {
    let bytes = std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    binary::read(&bytes).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Applies `work` to every item on all processors, and gives all that went wrong.
pub(crate) fn in_parallel<T: Sync>(items: &[T], work: impl Fn(&T) -> Vec<String> + Sync) -> Vec<String> {
    let next = AtomicUsize::new(0);
    let failures = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let found = work(item);
                    failures.lock().unwrap_or_else(|e| e.into_inner()).extend(found);
                }
            });
        }
    });
    failures.into_inner().unwrap_or_else(|e| e.into_inner())
}

/// Nothing went wrong, or the test fails and shows what.
pub(crate) fn none(failures: &[String]) {
    let shown = failures.iter().take(20).cloned().collect::<Vec<_>>().join("\n");
    assert!(failures.is_empty(), "{} failures, the first:\n{shown}", failures.len());
}
