//! The modules at hand, read; the tools of Khronos; files for them.

use super::{all_modules, cache};
use coop_ir::{Kind, Module, Op, binary};
use std::path::{Path, PathBuf};
use std::process::Command;

pub fn testdata() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata")
}

/// Every module in `testdata` and in the cache, once.
pub fn modules() -> Vec<(PathBuf, Module)> {
    let mut seen = std::collections::HashSet::new();
    let read = |path: PathBuf| {
        let bytes = std::fs::read(&path).expect("readable");
        let module = binary::read(&bytes).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        seen.insert(bytes).then_some((path, module))
    };
    all_modules().into_iter().filter_map(read).collect()
}

/// Every module of `testdata`, and about one in so many of the others, chosen by their names: whatever comes or goes
/// beside them changes nothing.
pub fn some_modules(one_in: u32) -> impl Iterator<Item = (PathBuf, Module)> {
    let number = |path: &Path| name(path).bytes().fold(0u32, |h, b| (h ^ u32::from(b)).wrapping_mul(0x0100_0193)) >> 8;
    let ours = |path: &Path| path.starts_with(testdata());
    modules().into_iter().filter(move |(path, _)| ours(path) || number(path) % one_in == 0)
}

/// The name of a file.
pub fn name(path: &Path) -> String {
    path.file_name().map_or_else(String::new, |n| n.to_string_lossy().into_owned())
}

/// A tool of SPIRV-Tools, from the cache or the path. Without it a test says so, and fails where tools are demanded.
pub fn tool(name: &str) -> Option<PathBuf> {
    let cached = cache().join("bin").join(name);
    let works = |p: &Path| Command::new(p).arg("--version").output().is_ok_and(|o| o.status.success());
    let found = [cached, PathBuf::from(name)].into_iter().find(|p| works(p));
    if found.is_none() {
        assert!(std::env::var_os("COOP_REQUIRE_TOOLS").is_none(), "{name} is not installed");
        eprintln!("SKIPPED: {name} is not installed");
    }
    found
}

/// Returns true if two tokens are the same or two names of one opcode or enumerant.
pub fn same_name(a: &str, b: &str) -> bool {
    let op = |t: &str| t.strip_prefix("Op").and_then(Op::from_name);
    let value = |kind: Kind, t: &str| kind.enumerant_named(t);
    a == b
        || (op(a).is_some() && op(a) == op(b))
        || Kind::ALL.iter().any(|k| value(*k, a).is_some() && value(*k, a) == value(*k, b))
}

/// A folder that is gone when the test is over.
pub struct Scratch(PathBuf);

impl Scratch {
    pub fn new(name: &str) -> Scratch {
        let dir = std::env::temp_dir().join(format!("coop-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a temporary folder");
        Scratch(dir)
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A folder left behind in the temporary one does no harm.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
