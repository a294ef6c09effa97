//! Every kernel of `testdata/kernels`, lowered to scalar code and then for a device that lacks all component types, gives the
//! bytes that the scalar code gives.

mod common;

use common::{
    environment, everything, interpret, lacks, lowered, of_devices, run_on, same, scalar, try_lowered, valid_for,
};
use coop_components::Lacks;
use coop_device::{Feature, Profile};
use coop_exec::testing::kernels;
use coop_exec::vulkan::VulkanExecutor;
use coop_exec::{Vulkan, vulkan_test};
use coop_ir::binary;

#[test]
fn kernels_without_component_types_in_the_interpreter() {
    let mut ran = 0;
    for kernel in kernels() {
        let what = kernel.to_string();
        let case = kernel.case();
        let module = binary::read_words(&kernel.words()).expect("a module");
        let plain = scalar(&module, &case, 8).unwrap_or_else(|e| panic!("{what}: {e}"));
        let lowered = lowered(&what, &plain, everything());
        let expected = interpret(&what, &plain, &case, 8);
        let found = interpret(&format!("{what}, lowered"), &lowered.module, &case, 8);
        same(&what, &found, &expected);
        ran += 1;
    }
    assert_eq!(ran, 34, "pairs of kernels and cases");
}

/// Runs kernels lowered for a device that lacks features, on a device.
fn on_device(device: &VulkanExecutor<'_>, lacks: Lacks, mine: impl Fn(usize) -> bool) {
    for kernel in kernels().into_iter().enumerate().filter(|(n, _)| mine(*n)).map(|(_, kernel)| kernel) {
        let (what, case) = (format!("{kernel} without {:?}", lacks.features().collect::<Vec<_>>()), kernel.case());
        let module = binary::read_words(&kernel.words()).expect("a module");
        let plain = scalar(&module, &case, 8).unwrap_or_else(|e| panic!("{what}: {e}"));
        let Ok(lowered) = try_lowered(&what, &plain, lacks) else { continue };
        let outcome = run_on(device, &what, &lowered.module, &case);
        let wrong: Vec<String> = outcome.check(&case).expect("a case").iter().map(ToString::to_string).collect();
        assert!(wrong.is_empty(), "{what}: {}", wrong.join("\n"));
    }
}

vulkan_test!(
    Lavapipe,
    fn kernels_without_component_types_on_lavapipe(device) {
        on_device(device, everything(), |_| true);
    }
);

/// Interprets kernels as each device takes them: all of them, or other ones for each device.
fn interpreted_for_devices(every: bool) {
    let kernels = kernels();
    let originals: Vec<_> = kernels
        .iter()
        .map(|kernel| {
            let (what, case) = (kernel.to_string(), kernel.case());
            let module = binary::read_words(&kernel.words()).expect("a module");
            let plain = scalar(&module, &case, 8).unwrap_or_else(|e| panic!("{what}: {e}"));
            let wanted = interpret(&what, &plain, &case, 8);
            (what, case, plain, wanted)
        })
        .collect();
    for (n, (device, lacks)) in of_devices().into_iter().enumerate() {
        let mine = originals.iter().enumerate().filter(|(k, _)| every || k % 6 == n % 6);
        for (_, (what, case, plain, wanted)) in mine {
            let what = format!("{what} for {device}");
            let lowered = lowered(&what, plain, lacks).module;
            valid_for(environment(&lowered), &what, &lowered);
            same(&what, &interpret(&what, &lowered, case, 8), wanted);
        }
    }
}

#[test]
fn kernels_are_interpreted_with_what_other_devices_have() {
    interpreted_for_devices(false);
}

#[test]
#[ignore = "scripts/test.sh long runs it: every kernel with what each device has"]
fn every_kernel_is_interpreted_with_what_other_devices_have() {
    interpreted_for_devices(true);
}

/// Runs kernels on lavapipe made without the features that each device lacks: all of them, or another one for each device.
fn as_on_devices(every: bool) {
    let all = of_devices();
    for (n, (_, lacks)) in all.iter().enumerate() {
        let features: Vec<Feature> = lacks.features().collect();
        let vulkan = Vulkan::open(true).expect("a loader").without(&features);
        let device = vulkan.device(Some("llvmpipe")).expect("lavapipe");
        let one = n * kernels().len() / all.len();
        on_device(&device, *lacks, |kernel| every || kernel == one);
    }
}

vulkan_test!(
    Lavapipe,
    fn kernels_run_on_lavapipe_with_what_other_devices_have(_device) {
        as_on_devices(false);
    }
);

vulkan_test!(
    #[ignore = "scripts/test.sh long runs it: every kernel with what each device has"]
    Lavapipe,
    fn every_kernel_runs_on_lavapipe_with_what_other_devices_have(_device) {
        as_on_devices(true);
    }
);

vulkan_test!(
    #[ignore = "scripts/test.sh long runs it: every kernel without each feature"]
    Lavapipe,
    fn every_kernel_runs_on_lavapipe_without_each_feature(_device) {
        for feature in Lacks::FEATURES {
            let vulkan = Vulkan::open(true).expect("a loader").without(&[feature]);
            let device = vulkan.device(Some("llvmpipe")).expect("lavapipe");
            on_device(&device, lacks(&[feature]), |_| true);
        }
    }
);

/// Kepler's driver takes SPIR-V 1.5, and has another memory model.
#[test]
fn kernels_become_those_of_an_older_vulkan() {
    let kepler = Lacks::of(&Profile::builtin("nvk-kepler").expect("a profile"));
    for kernel in kernels().into_iter().step_by(5) {
        let (what, case) = (kernel.to_string(), kernel.case());
        let module = binary::read_words(&kernel.words()).expect("a module");
        let plain = scalar(&module, &case, 8).unwrap_or_else(|e| panic!("{what}: {e}"));
        let Ok(lowered) = try_lowered(&what, &plain, kepler) else { continue };
        assert!(lowered.module.header.version_pair() <= (1, 5), "{what}");
        valid_for("vulkan1.2", &what, &lowered.module);
    }
}
