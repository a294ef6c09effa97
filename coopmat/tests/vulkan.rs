//! Devices from Vulkan handles, and the example engine. Needs a driver: scripts/test.sh brings one.
#![allow(unsafe_code, reason = "Vulkan")]

use coopmat::{ApiVersion, Device, EnabledFeatures, Feature};
use std::path::Path;

#[allow(dead_code, reason = "a program, of which the test takes what it does")]
#[path = "../examples/ash.rs"]
mod engine;

/// The devices of this machine; none, said aloud, where that is allowed.
fn vulkan() -> Option<coop_exec::Vulkan> {
    match coop_exec::Vulkan::open(false) {
        Ok(vulkan) if vulkan.profiles().len() > 0 => Some(vulkan),
        other => {
            let why = other.err().map_or_else(|| "no device".to_owned(), |e| e.to_string());
            assert!(std::env::var_os("COOP_REQUIRE_VULKAN").is_none(), "{why}");
            eprintln!("skipped: {why}");
            None
        }
    }
}

/// Made of handles, a device is what `cooprun profile` says; made of what was enabled, no more than that.
#[test]
fn devices_of_handles() {
    let Some(vulkan) = vulkan() else { return };
    let version = ApiVersion::new(1, 4);
    // SAFETY: handles of this instance, which lives until the end of the block.
    let (all, some, queried) = unsafe {
        let entry = ash::Entry::load().expect("there is a loader");
        let application = ash::vk::ApplicationInfo::default().api_version(version.to_packed());
        let create = ash::vk::InstanceCreateInfo::default().application_info(&application);
        let instance = entry.create_instance(&create, None).expect("an instance");
        let physical = instance.enumerate_physical_devices().expect("devices")[0];
        let all = Device::from_physical(&entry, &instance, version, physical).expect("a device");
        let mut enabled = EnabledFeatures { api_version: Some(ApiVersion::new(1, 2)), ..EnabledFeatures::default() };
        enabled.features.insert(Feature::ShaderFloat16);
        let some = Device::from_vulkan(&entry, &instance, physical, &enabled).expect("a device");
        let everything = EnabledFeatures::everything(all.profile());
        let queried = Device::from_vulkan(&entry, &instance, physical, &everything).expect("a device");
        instance.destroy_instance(None);
        (all, some, queried)
    };
    let profile = vulkan.profiles().next().expect("a device");
    assert_eq!(all.profile(), profile);
    assert_eq!(all, queried);
    assert_eq!(some.profile().api_version, ApiVersion::new(1, 2).min(profile.api_version));
    assert!(some.profile().extensions.is_empty() && some.profile().khr_properties.is_empty());
    assert!(some.profile().has(Feature::ShaderFloat16) && !some.profile().has(Feature::ShaderInt64));
    assert!(!some.can_require_subgroups());
}

/// The example makes a pipeline of a module with matrices, whatever the driver has.
#[test]
fn an_engine_makes_a_pipeline() {
    let Some(vulkan) = vulkan() else { return };
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata/kernels/gemm_simple.spv");
    let said = engine::run(&path).expect("a pipeline");
    let matrices = vulkan.profiles().next().is_some_and(|p| !p.khr_properties.is_empty());
    assert!(said.contains(if matrices { "Khr" } else { "Scalar" }) || said.contains("as it is"), "{said}");
}

/// An engine needs at most 30 lines to use the library: the function, and the other lines that name it.
#[test]
fn an_engine_needs_thirty_lines() {
    let text = include_str!("../examples/ash.rs");
    let function = text.split("fn adapt(").nth(1).and_then(|t| t.split("\n}\n").next()).expect("the function");
    let rest = text.lines().filter(|l| ["use coopmat", "enabled", "adapt(&", "lowered"].iter().any(|w| l.contains(w)));
    let lines = 2 + function.lines().count() + rest.filter(|l| !l.contains("fn ") && !l.starts_with("//")).count();
    eprintln!("{lines} lines");
    assert!((20..=30).contains(&lines), "{lines}");
}
