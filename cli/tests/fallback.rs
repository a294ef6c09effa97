//! The library as an engine uses it: `cli/examples/fallback.rs`.

#[path = "../examples/fallback.rs"]
mod fallback;

use coop_device::Profile;
use coop_ir::binary;
use coop_ir::constant::{SpecValue, Specialization};
use coop_ir::spv::Capability;
use std::path::Path;

#[test]
fn one_shader_for_every_device() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata/bench/matmul_nv2_f16.spv");
    let spirv = std::fs::read(path).expect("a kernel");
    // The invocations of a workgroup: what an engine gives the pipeline.
    let mut spec = Specialization::new();
    spec.set(0, SpecValue::Int(128));
    let on = |device: &str| {
        let device = Profile::builtin(device).expect("a profile");
        fallback::shader_for(&spirv, &device, &spec)
    };
    let native = on("nvidia-h100").expect("it is made for this");
    assert!(native.spirv == spirv && native.lowered.is_none());

    for (device, target, size) in [("mesa-lavapipe", "khr", Some(8)), ("arm-mali", "scalar", None)] {
        let shader = on(device).unwrap_or_else(|e| panic!("{device}: {e}"));
        let (lowered, why) = shader.lowered.expect("a device without it");
        assert_eq!((lowered.as_str(), shader.subgroup_size), (target, size), "{device}: {why}");
        let module = binary::read(&shader.spirv).expect("a module");
        assert_eq!(
            module.capabilities().any(|c| c == Capability::CooperativeMatrixKHR),
            target == "khr",
            "CooperativeMatrixKHR on {device}"
        );
    }
    // What has no 16-bit floats runs it in no form, and that is said.
    let error = on("google-swiftshader").err().expect("no 16-bit floats").to_string();
    assert!(error.contains("Float16"), "{error}");
    let broken = fallback::shader_for(
        b"no module",
        &Profile::builtin("nvidia-h100").expect("a profile"),
        &Specialization::new(),
    );
    assert!(broken.is_err());
}
