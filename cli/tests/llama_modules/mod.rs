//! llama.cpp's modules, which `scripts/llama-shaders.sh` compiles, and the spec constants with which its engine uses
//! them (`testdata/llama/spec.toml`). For tests and benchmarks.

// Each of these programs uses a part of it.
#![allow(dead_code, unused_imports)]

pub(crate) use coop_exec::testing::llama::{Entry, Group, Member, groups_of, members, modules, stem};

use coop_exec::testing::llama::SPEC_FILES;
use coop_ir::{Module, binary};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The groups of `spec.toml`.
pub(crate) fn groups() -> Vec<Group> {
    groups_of("spec.toml")
}

/// The largest module with the constants of one of its pipelines, as arguments of cooplower.
pub(crate) fn largest() -> Option<(PathBuf, Vec<String>)> {
    let modules = modules()?;
    let groups: Vec<Group> = SPEC_FILES.into_iter().rev().flat_map(groups_of).collect();
    let size = |path: &Path| std::fs::metadata(path).map_or(0, |m| m.len());
    let member = members(&modules, &groups).into_iter().max_by_key(|m| size(m.path))?;
    let spec = &member.group.entry.first()?.spec;
    Some((member.path.to_owned(), spec.iter().flat_map(|(id, v)| ["--spec".to_owned(), format!("{id}={v}")]).collect()))
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
