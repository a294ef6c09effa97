//! No false alarms: modules that compilers made and drivers accept have no errors.

use coop_ir::binary;
use coop_validate::{Level, Options, check};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

fn spv_files(dir: &Path, out: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(dir) else { return };
    for path in entries.flatten().map(|e| e.path()) {
        if path.is_dir() {
            spv_files(&path, out);
        } else if path.extension().is_some_and(|e| e == "spv") {
            out.push(path);
        }
    }
    out.sort();
}

/// Checks every module below a folder; answers how many there are, and how often each rule was broken.
fn survey(dir: &Path) -> (usize, BTreeMap<(Level, &'static str), usize>) {
    let mut files = Vec::new();
    spv_files(dir, &mut files);
    let mut counts = BTreeMap::new();
    for path in &files {
        let bytes = std::fs::read(path).expect("readable");
        let module = binary::read(&bytes).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        for f in check(&module, &Options::default()).findings {
            eprintln!("{}: #{}: {}[{}]: {}", path.display(), f.at.index(), f.level, f.rule.id, f.message);
            *counts.entry((f.level, f.rule.id)).or_default() += 1;
        }
    }
    eprintln!("{} modules in {}: {counts:?}", files.len(), dir.display());
    (files.len(), counts)
}

#[test]
fn our_kernels() {
    let (files, counts) = survey(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata"));
    assert!(files > 0, "no modules in testdata");
    assert!(counts.keys().all(|(level, _)| *level < Level::Error), "{counts:?}");
}

#[test]
fn third_party_shaders_in_the_cache() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let cache = std::env::var_os("COOP_CACHE").map_or(root.join(".cache"), PathBuf::from);
    let (_, counts) = survey(&cache);
    assert!(counts.keys().all(|(level, _)| *level < Level::Error), "{counts:?}");
}
