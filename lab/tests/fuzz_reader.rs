//! The fuzz bodies, a second each, on changed kernels.

#[path = "../../ir/tests/common/mod.rs"]
mod common;

use coop_ir::binary;
use coop_ir::text::{self, PrintOptions};
use coop_lab::fuzz;
use std::time::Duration;

/// The smaller kernels: a call costs time in proportion.
fn seeds() -> Vec<Vec<u8>> {
    let files = common::testdata_modules();
    let mut seeds: Vec<Vec<u8>> = files.iter().map(|p| std::fs::read(p).expect("readable")).collect();
    seeds.retain(|bytes| bytes.len() < 20_000);
    seeds
}

fn time() -> Duration {
    let seconds = std::env::var("COOP_FUZZ_SECONDS").ok().and_then(|s| s.parse().ok());
    Duration::from_secs(seconds.unwrap_or(1))
}

#[test]
fn reader() {
    let seeds = seeds();
    seeds.iter().for_each(|s| fuzz::reader(s));
    assert!(fuzz::smoke(&seeds, time(), fuzz::reader) > 10);
}

/// Inputs that failed once.
#[test]
fn found_modules() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata/fuzz/reader");
    let files = std::fs::read_dir(folder).expect("a folder of ours").map(|e| e.expect("an entry").path());
    let ran = files.map(|path| fuzz::reader(&std::fs::read(path).expect("readable"))).count();
    assert!(ran >= 1, "{ran} modules");
}

#[test]
fn parser() {
    let print = |bytes: &Vec<u8>| {
        let module = binary::read(bytes).expect("a kernel");
        [true, false].map(|friendly_names| {
            let text = text::print(&module, &PrintOptions { friendly_names, ..PrintOptions::default() }).text;
            text.into_bytes()
        })
    };
    let seeds: Vec<Vec<u8>> = seeds().iter().step_by(5).flat_map(print).collect();
    seeds.iter().for_each(|s| fuzz::parser(s));
    assert!(fuzz::smoke(&seeds, time(), fuzz::parser) > 10);
}
