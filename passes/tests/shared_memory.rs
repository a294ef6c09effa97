//! Shared memory is planned: with less of it a lowering takes less, and where nothing fits it says so.

use coop_ir::constant::{SpecValue, Specialization};
use coop_ir::profile::Profile;
use coop_ir::{Module, binary};
use coop_passes::{Options, Target, lower};
use std::path::Path;

fn module(name: &str) -> Module {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata/bench").join(name);
    binary::read(&std::fs::read(path).expect("readable")).expect("a module")
}

/// What a module takes of shared memory where the device has `limit` bytes, or why it can't be lowered.
fn taken(module: &Module, spec: &[u32], limit: u32) -> Result<u32, String> {
    let mut profile = Profile::builtin("nvidia-h100").expect("built in");
    profile.limits.max_compute_shared_memory_size = limit;
    let mut values = Specialization::new();
    for (id, value) in (0..).zip(spec) {
        values.set(id, SpecValue::Int(i128::from(*value)));
    }
    let options = Options { spec: values, profile: Some(&profile), ..Options::new(Target::Khr) };
    lower(module, &options).map(|l| l.report.added_shared_memory).map_err(|e| e.to_string())
}

/// Lowers with less and less shared memory. Answers the different amounts that were taken.
fn shrink(name: &str, spec: &[u32]) -> Vec<u32> {
    let module = module(name);
    let (mut steps, mut refused) = (Vec::new(), false);
    for limit in (1..=96).rev().map(|n| n * 512) {
        match taken(&module, spec, limit) {
            Ok(bytes) => {
                assert!(!refused, "{name}: {limit} bytes are enough, more were not");
                assert!(bytes <= limit, "{name}: {bytes} of {limit}");
                assert!(steps.last().is_none_or(|last| bytes <= *last), "{name}: {bytes} of {limit}, after {steps:?}");
                steps.push(bytes);
            }
            Err(why) => {
                refused = true;
                assert!(why.contains("[refused-shared-memory]") && why.contains(&format!("has {limit};")), "{why}");
            }
        }
    }
    assert!(refused, "{name}: always fits");
    steps.dedup();
    steps
}

#[test]
fn products_are_cut_into_slices_before_they_are_refused() {
    let steps = shrink("matmul_nv2_f16.spv", &[256, 128, 128, 64]);
    assert!(steps.len() >= 4 && steps[0] >= 4 * steps[steps.len() - 1], "{steps:?}");
}

#[test]
fn reductions_and_conversions_take_what_there_is() {
    let steps = shrink("flash_nv2.spv", &[128, 64, 64, 64]);
    assert!(steps.len() >= 4, "{steps:?}");
}
