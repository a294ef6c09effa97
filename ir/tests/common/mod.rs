//! Helpers that several test files share.
#![allow(dead_code, unreachable_pub, reason = "each test file uses a part")]

pub mod tools;

use coop_ir::Module;
use coop_ir::cfg::{Cfg, Constructs, ControlDeps, Frontiers, Loops, PostDoms};
use coop_ir::decorate::Decorations;
use coop_ir::entry::{CallGraph, entry_points};
use coop_ir::uses::Users;
use std::path::{Path, PathBuf};

/// Adds the `.spv` files below `dir`, sorted.
pub fn spv_files(dir: &Path, out: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(dir) else { return };
    let mut paths: Vec<_> = entries.flatten().map(|e| e.path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            spv_files(&path, out);
        } else if path.extension().is_some_and(|e| e == "spv") {
            out.push(path);
        }
    }
}

/// The folder of third-party files: `COOP_CACHE`, or `.cache` in the repository.
pub fn cache() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    std::env::var_os("COOP_CACHE").map_or(root.join(".cache"), PathBuf::from)
}

/// Every module in `testdata`, of which there must be some.
pub fn testdata_modules() -> Vec<PathBuf> {
    let mut files = Vec::new();
    spv_files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata"), &mut files);
    assert!(!files.is_empty(), "no modules in testdata");
    files
}

/// Every module in `testdata`, and every one in the cache.
pub fn all_modules() -> Vec<PathBuf> {
    let mut files = testdata_modules();
    spv_files(&cache(), &mut files);
    files
}

/// Numbers that look random and are the same on every run (xorshift64*).
pub struct Random(pub u64);

impl Random {
    /// The next number.
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// A number below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        (self.next() >> 33) as usize % n
    }
}

/// Runs every analysis, only to see that it ends.
pub fn survey(m: &Module) {
    let d = Decorations::new(m);
    entry_points(m, &d);
    CallGraph::new(m).recursive();
    Users::new(m);
    for f in &m.functions {
        let cfg = Cfg::new(m, f);
        let (loops, constructs) = (Loops::new(&cfg), Constructs::new(&cfg));
        Frontiers::new(cfg.graph(), cfg.dom());
        ControlDeps::new(&PostDoms::new(&cfg));
        for l in 0..loops.all().len() {
            let _ = (loops.exits(&cfg, l).count(), loops.latches(&cfg, l).count());
        }
        for c in constructs.all() {
            let _ = constructs.blocks(c).count();
        }
    }
}
