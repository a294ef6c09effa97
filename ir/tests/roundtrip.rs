//! Reading and writing gives the same bytes, for every module in `testdata` and, where it has been compiled, every
//! shader in the cache of third-party ones.

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
}

fn check(path: &Path) {
    let bytes = std::fs::read(path).expect("readable");
    let module = coop_ir::binary::read(&bytes).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    assert!(coop_ir::binary::write(&module) == bytes, "{}: not the same bytes", path.display());
    let mut swapped = bytes.clone();
    swapped.chunks_exact_mut(4).for_each(|w| w.reverse());
    let module = coop_ir::binary::read(&swapped).unwrap_or_else(|e| panic!("{} swapped: {e}", path.display()));
    assert!(coop_ir::binary::write(&module) == swapped, "{}: not the same bytes when big-endian", path.display());
}

#[test]
fn testdata() {
    let mut files = Vec::new();
    spv_files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata"), &mut files);
    assert!(!files.is_empty(), "no modules in testdata");
    files.iter().for_each(|f| check(f));
}

#[test]
fn third_party_shaders_in_the_cache() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let cache = std::env::var_os("COOP_CACHE").map_or(root.join(".cache"), PathBuf::from);
    let mut files = Vec::new();
    spv_files(&cache, &mut files);
    files.iter().for_each(|f| check(f));
}

/// spirv-opt puts DebugNoScope between the last terminator and OpFunctionEnd.
#[test]
fn debug_information_after_a_terminator() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata/kernels/gemm_simple.debug.spv");
    let mut bytes = std::fs::read(&path).expect("readable");
    let module = coop_ir::binary::read(&bytes).expect("a module");
    let debug = |r: &coop_ir::InstRef| module.inst(*r).string(0).is_some_and(|(n, _)| n.starts_with("NonSemantic"));
    let set = module.globals_with(coop_ir::Op::ExtInstImport).find(debug).and_then(|r| module.inst(r).result);
    let void = module.globals_with(coop_ir::Op::TypeVoid).last().and_then(|r| module.inst(r).result);
    let (set, void) = (set.expect("an import").get(), void.expect("void").get());
    let end = bytes.len() - 4;
    let words = [5 << 16 | 12, void, module.header.bound, set, 24];
    bytes.splice(end..end, words.iter().flat_map(|w: &u32| w.to_le_bytes()));
    bytes[12..16].copy_from_slice(&(module.header.bound + 1).to_le_bytes());
    let module = coop_ir::binary::read(&bytes).expect("a module");
    assert_eq!(module.functions.last().map(|f| f.tail.len()), Some(2));
    assert!(coop_ir::binary::write(&module) == bytes);
    assert_eq!(coop_ir::verify::verify(&module), Ok(()));
}
