//! llama.cpp's matrix multiplies as they are, on a driver with cooperative matrices. `scripts/llama-shaders.sh` compiles the
//! modules; without them the test says that it was skipped, and fails if `COOP_REQUIRE_LLAMA` is 1.

use coop_exec::vulkan::VulkanExecutor;
use coop_exec::{testing, vulkan_test};

/// The variant for devices with subgroups of 32.
const NOT_ON_LAVAPIPE: &str = "warp";

fn cases() -> Vec<String> {
    let folder = testing::repository().join("testdata/llama");
    let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut cases: Vec<String> = names
        .filter(|name| name.starts_with("matmul_"))
        .filter_map(|name| Some(name.strip_suffix(".toml")?.into()))
        .collect();
    cases.sort();
    cases
}

#[test]
fn cases_and_their_variants_are_sound() {
    assert!(cases().len() >= 6, "{:?}", cases());
    for name in cases() {
        let case = testing::case(format!("testdata/llama/{name}.toml"));
        for variant in case.variant.keys() {
            case.clone().with_variant(variant).unwrap_or_else(|error| panic!("{name}, {variant}: {error}"));
        }
        assert_eq!(case.expected().unwrap().len(), 1, "{name}");
    }
}

/// Every case of a module, with every variant that the driver has the matrices for.
fn check(device: &VulkanExecutor<'_>, module: &str) {
    let Some(folder) = testing::llama_modules() else { return };
    let words = testing::words(folder.join(format!("{module}.spv")));
    let mut failures = Vec::new();
    let mut checked = 0;
    for name in cases().into_iter().filter(|name| name.split('.').next() == Some(module)) {
        let case = testing::case(format!("testdata/llama/{name}.toml"));
        let variants = case.variant.keys().filter(|variant| *variant != NOT_ON_LAVAPIPE);
        let variants = variants.map(|variant| (variant.as_str(), case.clone().with_variant(variant).unwrap()));
        for (variant, case) in [("", case.clone())].into_iter().chain(variants) {
            checked += 1;
            if let Err(why) = testing::run_and_check(device, &words, &case) {
                failures.push(format!("{name} {variant}: {why}"));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(checked >= 5, "{checked} runs");
}

// One test each: a driver takes seconds to compile one of these for the first time.

vulkan_test!(Lavapipe, fn f16_is_exact(device) {
    check(device, "matmul_f16_cm1");
});

vulkan_test!(Lavapipe, fn q4_0_is_exact(device) {
    check(device, "matmul_q4_0_f32_cm1");
});

vulkan_test!(Lavapipe, fn q8_0_is_exact(device) {
    check(device, "matmul_q8_0_f32_cm1");
});
