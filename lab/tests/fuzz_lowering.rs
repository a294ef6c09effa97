//! The fuzz bodies of lowerings for a second each (or `COOP_FUZZ_SECONDS`) on changed kernels.

use coop_ir::{binary, text};
use coop_lab::fuzz::smoke;
use coop_passes::{Lanes, Options, Target, lower};
use std::path::Path;
use std::time::Duration;

/// The modules of a folder in testdata: shaders and kernels, and other dialects as text.
fn modules(folder: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata").join(folder);
    let files = std::fs::read_dir(folder).expect("a folder of ours").flatten().map(|e| e.path());
    let mut paths: Vec<_> = files.collect();
    paths.sort();
    let read = |path: &Path| match path.extension()?.to_str()? {
        "spv" | "bin" => Some(std::fs::read(path).expect("readable")),
        "spvasm" => {
            let source = std::fs::read_to_string(path).expect("readable");
            Some(binary::write(&text::parse(&source).unwrap_or_else(|e| panic!("{}:{e}", path.display()))))
        }
        _ => None,
    };
    paths.iter().filter_map(|path| read(path)).collect()
}

#[test]
fn lowering() {
    let seeds: Vec<Vec<u8>> =
        ["kernels", "opencl", "dialects", "fuzz/lowering"].iter().flat_map(|folder| modules(folder)).collect();
    assert!(seeds.len() >= 60, "{} modules", seeds.len());
    seeds.iter().for_each(|s| coop_lab::fuzz::lowering_in_all_modes(s));
    assert!(smoke(&seeds, time(), coop_lab::fuzz::lowering) > 10);
}

fn time() -> Duration {
    let seconds = std::env::var("COOP_FUZZ_SECONDS").ok().and_then(|s| s.parse().ok());
    Duration::from_secs(seconds.unwrap_or(1))
}

/// The scalar code of a kernel, if it has defaults for everything.
fn scalar(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut options = Options::new(Target::Scalar);
    (options.lanes, options.subgroup_size, options.spec_defaults) = (Lanes::LocalIndex, Some(8), true);
    let lowered = lower(&binary::read(bytes).expect("a kernel of ours"), &options).ok()?;
    Some(binary::write(&lowered.module))
}

#[test]
fn components() {
    let mut seeds = modules("components");
    seeds.extend(modules("fuzz/lowering"));
    seeds.extend(modules("kernels").iter().filter_map(|kernel| scalar(kernel)));
    assert!(seeds.len() >= 15, "{} modules", seeds.len());
    seeds.iter().for_each(|s| coop_lab::fuzz::components(s));
    assert!(smoke(&seeds, time(), coop_lab::fuzz::components) > 10);
}
