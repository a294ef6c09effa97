//! Built-in profiles that drivers wrote: one for each GPU that a driver runs for without having it.
//!
//! Extensions that nothing here asks about are left out, so that a profile stays small and a new
//! Mesa that adds an extension for images changes nothing.

use std::path::PathBuf;

use coop_device::vulkan::structs::FEATURE_STRUCTS;
use coop_device::{Origin, Profile, serves_spirv};
use coop_exec::testing::repository;

/// Profiles that had a name before a driver wrote them, by GPU. All others have the name of the GPU.
const NAMES: [(&str, &str); 2] = [("amd-navi31", "amd-rdna3"), ("amd-gfx1201", "amd-rdna4")];

/// Returns the name of the built-in profile of a GPU.
pub fn name_of(gpu: &str) -> &str {
    NAMES.iter().find(|(of, _)| *of == gpu).map_or(gpu, |(_, name)| name)
}

/// Returns the file of a built-in profile.
pub fn file_of(name: &str) -> PathBuf {
    repository().join("device/profiles").join(format!("{name}.json"))
}

/// Returns true if a driver wrote a built-in profile without its GPU, which its source says.
pub fn is_of_driver(profile: &Profile) -> bool {
    profile.source.contains("for a GPU that is not there")
}

/// Returns the profile of a GPU as it is built in, from what its driver says on a day.
pub fn from_driver(gpu: &str, said: &Profile, day: &str) -> Profile {
    let mut profile = said.clone();
    profile.name = name_of(gpu).to_owned();
    profile.origin = Origin::Measured;
    profile.source = format!(
        "{} on {day}, for a GPU that is not there (scripts/drivers.sh run --gpu {gpu}): features, limits and lists are the \
         driver's own. Nothing was executed.",
        said.driver_info
    );
    profile.extensions.retain(|name| is_asked_for(name));
    profile
}

/// Returns true if something here depends on a device's having an extension.
fn is_asked_for(name: &str) -> bool {
    const OTHERS: [&str; 2] = ["VK_KHR_spirv_1_4", "VK_KHR_pipeline_executable_properties"];
    serves_spirv(name) || FEATURE_STRUCTS.iter().any(|group| group.extension == name) || OTHERS.contains(&name)
}

/// Returns what a driver says now that its built-in profile does not, a line each; none if they agree. The version of the
/// driver alone is no difference.
pub fn changes(built_in: &Profile, now: &Profile) -> Vec<String> {
    let lines = |profile: &Profile| {
        let profile = Profile {
            source: String::new(),
            driver_info: String::new(),
            api_version: built_in.api_version,
            ..profile.clone()
        };
        profile.to_json().lines().map(|line| line.trim().trim_end_matches(',').to_owned()).collect::<Vec<_>>()
    };
    let (old, new) = (lines(built_in), lines(now));
    let missing = |from: &[String], of: &[String], sign: &str| {
        let gone: Vec<String> = from.iter().filter(|line| !of.contains(line)).map(|l| format!("{sign} {l}")).collect();
        gone
    };
    let mut changes = missing(&old, &new, "-");
    changes.extend(missing(&new, &old, "+"));
    if changes.is_empty() && old != new {
        changes.push("lists are in another order, or have a row more or less often".to_owned());
    }
    changes
}

#[cfg(test)]
mod tests {
    use super::*;
    use coop_device::Feature;

    #[test]
    fn changes_are_named() {
        let old = Profile::builtin("amd-rdna3").unwrap();
        assert!(changes(&old, &old).is_empty());
        let mut new = Profile { driver_info: "Mesa 99".into(), source: "later".into(), ..old.clone() };
        assert!(changes(&old, &new).is_empty());
        new.features.set(Feature::ShaderFloat16, false);
        new.limits.max_compute_shared_memory_size = 1234;
        let found = changes(&old, &new).join("\n");
        assert!(found.contains("- \"shaderFloat16\": true") && found.contains("1234"), "{found}");
    }
}
