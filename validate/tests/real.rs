//! No false alarms: modules that compilers made and drivers accept have no errors.

use coop_device::Profile;
use coop_ir::binary;
use coop_validate::{Device, Level, Options, check, check_device};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

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

/// Checks every module below a folder; answers how many there are, how often each rule was broken, and how many errors
/// there are that keep modules from being lowered.
fn survey(dir: &Path) -> (usize, BTreeMap<(Level, &'static str), usize>, usize) {
    let mut files = Vec::new();
    spv_files(dir, &mut files);
    let (mut counts, mut blocking) = (BTreeMap::new(), 0);
    for path in &files {
        let bytes = std::fs::read(path).expect("readable");
        let module = binary::read(&bytes).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let report = check(&module, &Options::default());
        blocking += report.blocking().count();
        for f in report.findings {
            eprintln!("{}: #{}: {}[{}]: {}", path.display(), f.at.index(), f.level, f.rule.id, f.message);
            *counts.entry((f.level, f.rule.id)).or_default() += 1;
        }
    }
    eprintln!("{} modules in {}: {counts:?}", files.len(), dir.display());
    (files.len(), counts, blocking)
}

#[test]
fn our_kernels() {
    let (files, counts, blocking) = survey(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata"));
    assert!(files > 0, "no modules in testdata");
    // Some are there to be lowered though their strides break an alignment.
    assert_eq!(blocking, 0, "{counts:?}");
}

#[test]
fn third_party_shaders_in_the_cache() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let cache = std::env::var_os("COOP_CACHE").map_or(root.join(".cache"), PathBuf::from);
    let (_, counts, _) = survey(&cache);
    assert!(counts.keys().all(|(level, _)| *level < Level::Error), "{counts:?}");
}

/// With `errors_only`, the findings are the errors among all.
#[test]
fn errors_alone() {
    let mut files = Vec::new();
    spv_files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata"), &mut files);
    let (mut errors, mut others) = (0, 0);
    for path in &files {
        let module = binary::read(&std::fs::read(path).expect("readable")).expect("a module");
        for name in ["nvidia-h100", "mesa-lavapipe", "amd-rdna3"] {
            let profile = Profile::builtin(name).unwrap_or_else(|| panic!("no profile {name}"));
            let mut options = Options::default();
            options.device = Some(Arc::new(Device::new(Arc::new(profile))));
            let findings = |options: &Options| {
                let found = check_device(&module, options).findings;
                found.into_iter().map(|f| (f.level, f.rule.id, f.at, f.message)).collect::<Vec<_>>()
            };
            let (wanted, rest): (Vec<_>, Vec<_>) =
                findings(&options).into_iter().partition(|(level, ..)| *level == Level::Error);
            options.errors_only = true;
            assert_eq!(findings(&options), wanted, "{}, {name}", path.display());
            (errors, others) = (errors + wanted.len(), others + rest.len());
        }
    }
    assert!(errors > 10 && others > 10, "{errors} errors, {others} others");
}
