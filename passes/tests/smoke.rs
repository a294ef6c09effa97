//! The fuzz body for a second (or `COOP_FUZZ_SECONDS`) on changed kernels.

use coop_ir::fuzz::smoke;
use std::path::Path;
use std::time::Duration;

#[test]
fn lowering() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata/kernels");
    let files = std::fs::read_dir(folder).expect("our kernels").flatten().map(|e| e.path());
    let mut paths: Vec<_> = files.filter(|p| p.extension().is_some_and(|e| e == "spv")).collect();
    paths.sort();
    let seeds: Vec<Vec<u8>> = paths.iter().map(|p| std::fs::read(p).expect("readable")).collect();
    seeds.iter().for_each(|s| coop_passes::fuzz::lowering(s));
    let seconds = std::env::var("COOP_FUZZ_SECONDS").ok().and_then(|s| s.parse().ok());
    assert!(smoke(&seeds, Duration::from_secs(seconds.unwrap_or(1)), coop_passes::fuzz::lowering) > 10);
}
