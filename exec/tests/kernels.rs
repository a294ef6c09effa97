//! The kernels of `testdata/kernels` as they are, with cooperative matrices, on a driver that has them.

use coop_exec::testing::{self, Kernel};
use coop_exec::{Error, vulkan_test};

/// Kernels that lavapipe can't run, and what it says instead.
const NOT_ON_LAVAPIPE: &[(&str, &str)] = &[
    ("gemm_bf16", "capability BFloat16TypeKHR needs feature shaderBFloat16Type"),
    ("gemm_i8_sat", "saturatingAccumulation must be VK_TRUE"),
];

fn reason(kernel: &Kernel) -> Option<&'static str> {
    NOT_ON_LAVAPIPE.iter().find(|(module, _)| *module == kernel.module).map(|(_, reason)| *reason)
}

vulkan_test!(Lavapipe, fn kernels_compute_what_their_cases_expect(device) {
    let kernels = testing::kernels();
    let mut failures = Vec::new();
    let mut checked = 0;
    for kernel in kernels.iter().filter(|kernel| reason(kernel).is_none()) {
        let case = kernel.case();
        assert!(!case.expect.is_empty(), "{kernel} expects nothing");
        checked += 1;
        if let Err(why) = testing::run_and_check(device, &kernel.words(), &case) {
            failures.push(format!("{kernel}: {why}"));
        }
    }
    assert!(failures.is_empty(), "{} of {checked} kernels fail\n{}", failures.len(), failures.join("\n"));
    assert!(checked >= 30, "{checked} kernels");
});

vulkan_test!(Lavapipe, fn kernels_beyond_the_driver_are_told_so(device) {
    for kernel in testing::kernels() {
        let Some(reason) = reason(&kernel) else { continue };
        let why = testing::run_and_check(device, &kernel.words(), &kernel.case()).expect_err(&kernel.module);
        assert!(why.contains(reason), "{kernel}: {why}");
    }
});

vulkan_test!(Debian12, fn an_old_driver_names_what_it_lacks(device) {
    let words = testing::words("testdata/kernels/gemm_simple.spv");
    let error = testing::run(device, &words, &testing::case("testdata/kernels/gemm_simple.toml")).unwrap_err();
    let Error::Unsupported { missing, .. } = &error else { panic!("{error}") };
    let line = "capability CooperativeMatrixKHR needs feature cooperativeMatrix";
    assert!(missing.iter().any(|missing| missing == line), "{error}");
});

#[test]
fn every_kernel_has_a_case() {
    let folder = testing::repository().join("testdata/kernels");
    let kernels = testing::kernels();
    for entry in std::fs::read_dir(folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if let Some(module) = name.strip_suffix(".spv") {
            assert!(kernels.iter().any(|kernel| kernel.module == module), "{name} has no case");
        } else if let Some(case) = name.strip_suffix(".toml") {
            assert!(kernels.iter().any(|kernel| kernel.case == case), "{name} has no module");
        }
    }
}

#[test]
fn variants_are_cases_too() {
    let mut count = 0;
    for kernel in testing::kernels() {
        let case = kernel.case();
        for name in case.variant.keys() {
            case.clone().with_variant(name).unwrap_or_else(|error| panic!("{kernel}, {name}: {error}"));
            count += 1;
        }
    }
    assert!(count > 20, "{count} variants");
}
