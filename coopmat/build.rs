//! Puts a hash of the sources of lowerings into the library: caches of different builds must not be taken for each other's.

use std::path::{Path, PathBuf};

/// The crates that decide what comes out of a lowering.
const CRATES: [&str; 6] = ["ir", "uniformity", "device", "validate", "passes", "coopmat"];

fn main() {
    // Of a published crate the version says it all: it has no siblings there.
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for name in CRATES {
        let folder = Path::new("..").join(name).join("src");
        if folder.is_dir() {
            println!("cargo::rerun-if-changed={}", folder.display());
            add(&mut hash, &folder);
        }
    }
    println!("cargo::rustc-env=COOPMAT_SOURCES={hash:016x}");
}

/// Adds the files of a folder to an FNV-1a hash, in the order of their names.
fn add(hash: &mut u64, folder: &Path) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            add(hash, &path);
        } else if let Ok(bytes) = std::fs::read(&path) {
            for byte in bytes {
                *hash = (*hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
            }
        }
    }
}
