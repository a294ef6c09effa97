//! The shared memory that lowerings add where workgroups that take little of it run beside each other.

use std::path::Path;

use coop_device::Profile;
use coop_ir::binary;
use coop_ir::constant::{SpecValue, Specialization};
use coop_passes::{Options, Target, lower};

/// Bytes of half of what the driver gives the workgroups of a multiprocessor (docs/performance.md).
const HALF: u32 = 49_152 / 2;

/// The shared memory that scalar code for our attention takes, with this many invocations, rows, columns and elements of a head.
fn attention(profile: &str, sizes: [u32; 4]) -> u32 {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata/bench/flash_nv2.spv");
    let module = binary::read(&std::fs::read(path).expect("the module is there")).expect("it is a module");
    let profile = Profile::builtin(profile).expect("a profile");
    let mut spec = Specialization::new();
    for (id, size) in (0..).zip(sizes) {
        spec.set(id, SpecValue::parse(&size.to_string()).expect("a number"));
    }
    let options = Options { profile: Some(&profile), subgroup_size: Some(32), spec, ..Options::new(Target::Scalar) };
    lower(&module, &options).expect("it is lowered").report.added_shared_memory
}

#[test]
fn small_workgroups_leave_room_for_another() {
    assert!(attention("nvidia-h100", [128, 64, 64, 64]) <= HALF);
    // Larger ones, and those whose invocations hold many sums, are slower so.
    assert!(attention("nvidia-h100", [256, 128, 64, 64]) > HALF);
    assert!(attention("nvidia-h100", [128, 64, 32, 256]) > HALF);
    // Nobody has measured other devices.
    assert!(attention("amd-rdna3", [128, 64, 64, 64]) > HALF);
}
