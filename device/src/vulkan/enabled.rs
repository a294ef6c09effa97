//! The features and extensions that an application enabled when it created its device.

use std::collections::BTreeSet;
use std::ffi::CStr;

use ash::vk;

use super::structs::{self, FEATURE_STRUCTS, Row, VERSION_STRUCTS};
use crate::{ApiVersion, Feature, Features, Profile};

/// The features and extensions of a `VkDevice`: a shader may use nothing else of the physical device.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct EnabledFeatures {
    /// The Vulkan version of the application (`VkApplicationInfo`); without it, the device's.
    pub api_version: Option<ApiVersion>,
    /// The device extensions.
    pub extensions: BTreeSet<String>,
    /// The features.
    pub features: Features,
}

impl EnabledFeatures {
    /// Returns everything that a physical device has, for use before there is a `VkDevice`.
    pub fn everything(profile: &Profile) -> EnabledFeatures {
        let extensions = profile.extensions.iter().cloned().collect();
        EnabledFeatures { api_version: None, extensions, features: profile.features }
    }

    /// Reads a `VkDeviceCreateInfo`: its extensions, `pEnabledFeatures`, and every structure of features in its chain,
    /// those of Vulkan 1.1 to 1.4 included. Unknown structures are skipped.
    ///
    /// # Safety
    ///
    /// `info` is valid as Vulkan defines it: its pointers, and those of each structure in its chain, are valid.
    pub unsafe fn from_create_info(info: &vk::DeviceCreateInfo<'_>) -> EnabledFeatures {
        let mut enabled = EnabledFeatures::default();
        let names = info.pp_enabled_extension_names;
        for index in 0..info.enabled_extension_count as usize {
            // SAFETY: the array has as many elements as the count says, each a string.
            let name = unsafe { CStr::from_ptr(*names.add(index)) };
            enabled.extensions.insert(name.to_string_lossy().into_owned());
        }
        // SAFETY: null or a structure.
        if let Some(features) = unsafe { info.p_enabled_features.as_ref() } {
            enabled.add_core(*features);
        }
        let mut next: *const vk::BaseInStructure<'_> = info.p_next.cast();
        while !next.is_null() {
            // SAFETY: each link is null or a structure that begins with `sType` and `pNext`.
            unsafe {
                enabled.add(next);
                next = (*next).p_next;
            }
        }
        enabled
    }

    /// Adds the features of a structure in the chain.
    ///
    /// # Safety
    ///
    /// `link` points to a structure as large as its `sType` says.
    unsafe fn add(&mut self, link: *const vk::BaseInStructure<'_>) {
        // SAFETY: every structure of a chain begins like this.
        let s_type = unsafe { (*link).s_type };
        if s_type == vk::StructureType::PHYSICAL_DEVICE_FEATURES_2 {
            // SAFETY: `sType` says what the structure is.
            self.add_core(unsafe { (*link.cast::<vk::PhysicalDeviceFeatures2<'_>>()).features });
            return;
        }
        let mut read = |offset: usize, feature: Feature| {
            // SAFETY: the tables name 32-bit members of the structure of that `sType`.
            if unsafe { *link.cast::<u8>().add(offset).cast::<vk::Bool32>() } != vk::FALSE {
                self.features.insert(feature);
            }
        };
        if let Some(group) = FEATURE_STRUCTS.iter().find(|group| group.s_type == s_type.as_raw()) {
            for (index, feature) in group.members.iter().enumerate() {
                if let Some(feature) = *feature {
                    read(size_of::<Row<0>>() + 4 * index, feature);
                }
            }
        }
        if let Some(version) = VERSION_STRUCTS.iter().find(|version| version.s_type == s_type.as_raw()) {
            version.members.iter().for_each(|&(offset, feature)| read(offset, feature));
        }
    }

    fn add_core(&mut self, mut features: vk::PhysicalDeviceFeatures) {
        for (feature, on) in structs::core_features(&mut features) {
            if *on != vk::FALSE {
                self.features.insert(feature);
            }
        }
    }
}

impl Profile {
    /// Returns the profile restricted to what was enabled. Boolean properties stay, as they need not be enabled.
    #[must_use]
    pub fn restricted_to(&self, enabled: &EnabledFeatures) -> Profile {
        let mut profile = self.clone();
        if let Some(version) = enabled.api_version {
            profile.api_version = profile.api_version.min(version);
        }
        profile.extensions.retain(|name| enabled.extensions.contains(name));
        let has = |feature: &Feature| feature.is_property() || enabled.features.has(*feature);
        profile.features = self.features.iter().filter(has).collect();
        profile.drop_lists_of_absent_features();
        profile
    }
}

impl Profile {
    /// Empties the lists that a device reports only if it has the feature.
    fn drop_lists_of_absent_features(&mut self) {
        if !self.has(Feature::CooperativeMatrix) {
            self.khr_properties.clear();
        }
        if !self.has(Feature::CooperativeMatrixFlexibleDimensions) {
            self.flexible_properties.clear();
        }
        if !self.has(Feature::CooperativeMatrixProperties2) {
            self.properties2.clear();
        }
        if !self.has(Feature::CooperativeMatrixNv) {
            self.nv_properties.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chains_are_read() {
        let mut float16 = vk::PhysicalDeviceVulkan12Features::default().shader_float16(true).scalar_block_layout(true);
        let mut sizes = vk::PhysicalDeviceSubgroupSizeControlFeatures::default().compute_full_subgroups(true);
        // This structure is not known here.
        let mut multiview = vk::PhysicalDeviceMultiviewFeatures::default().multiview(true);
        let core = vk::PhysicalDeviceFeatures::default().shader_int16(true);
        let mut features = vk::PhysicalDeviceFeatures2::default().features(core);
        let names = [c"VK_KHR_cooperative_matrix".as_ptr()];
        let info = vk::DeviceCreateInfo::default()
            .enabled_extension_names(&names)
            .push_next(&mut float16)
            .push_next(&mut multiview)
            .push_next(&mut sizes)
            .push_next(&mut features);
        // SAFETY: all that it points to is alive.
        let enabled = unsafe { EnabledFeatures::from_create_info(&info) };
        let wanted =
            [Feature::ShaderInt16, Feature::ShaderFloat16, Feature::ScalarBlockLayout, Feature::ComputeFullSubgroups];
        assert_eq!(enabled.features, wanted.into_iter().collect());
        assert!(enabled.extensions.iter().eq(["VK_KHR_cooperative_matrix"]));
        let core = vk::PhysicalDeviceFeatures::default().shader_int64(true);
        let info = vk::DeviceCreateInfo::default().enabled_features(&core);
        // SAFETY: as above.
        let enabled = unsafe { EnabledFeatures::from_create_info(&info) };
        assert!(enabled.features.iter().eq([Feature::ShaderInt64]));
    }

    #[test]
    fn what_is_not_enabled_is_not_there() {
        let device = Profile::builtin("mesa-lavapipe").unwrap();
        assert_eq!(device.restricted_to(&EnabledFeatures::everything(&device)), device);
        let none = device.restricted_to(&EnabledFeatures::default());
        assert!(none.features.iter().all(Feature::is_property) && none.khr_properties.is_empty());
        assert!(none.extensions.is_empty() && none.limits == device.limits);
    }
}
