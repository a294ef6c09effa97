//! What comes out of our own modules, on the devices that come with the library.

use coopmat::{Device, Outcome, PipelineOptions, Prepared, Target};

fn kernel(name: &str) -> Prepared {
    let path = format!("{}/../testdata/kernels/{name}.spv", env!("CARGO_MANIFEST_DIR"));
    let bytes = std::fs::read(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
    Prepared::read_bytes(&bytes).unwrap_or_else(|e| panic!("{path}: {e}"))
}

fn device(name: &str) -> Device {
    Device::builtin(name).unwrap_or_else(|| panic!("no device {name}"))
}

const fn shared<T: Send + Sync + 'static>() {}

const _: () = {
    shared::<Device>();
    shared::<Prepared>();
    shared::<PipelineOptions>();
    shared::<Outcome>();
    shared::<coopmat::Promise>();
};

#[test]
fn native_where_the_device_runs_it() {
    let module = kernel("gemm_simple");
    assert!(module.has_matrices());
    assert_eq!(module.for_pipeline(&device("nvidia-h100"), &PipelineOptions::default()), Outcome::Native);
}

#[test]
fn lowered_where_it_does_not() {
    let outcome = kernel("gemm_simple").for_pipeline(&device("mesa-lavapipe-debian12"), &PipelineOptions::default());
    let Outcome::Lowered(lowered) = outcome else { panic!("{outcome:?}") };
    assert_eq!(lowered.target, Target::Scalar);
    assert_eq!((lowered.requirements.subgroup_size, lowered.requirements.full_subgroups), (Some(8), true));
    assert!(lowered.because[0].contains("CooperativeMatrixKHR"), "{:?}", lowered.because);
    let again = Prepared::read(&lowered.words).expect("what was written reads");
    assert!(!again.has_matrices());
}
