//! Devices from an engine's own Vulkan handles.
#![allow(unsafe_code)]

use crate::{ApiVersion, Device, EnabledFeatures, QueryError};
use ash::vk;

impl Device {
    /// Asks a physical device for what it has, and keeps what is enabled of it: [`EnabledFeatures::from_create_info`] says what a
    /// `VkDevice` is made with.
    ///
    /// # Safety
    ///
    /// The instance is alive, was made through `entry` (an [`ash::Entry`] of the engine's own `vkGetInstanceProcAddr` will do),
    /// and `physical` is one of its devices.
    pub unsafe fn from_vulkan(
        entry: &ash::Entry,
        instance: &ash::Instance,
        physical: vk::PhysicalDevice,
        enabled: &EnabledFeatures,
    ) -> Result<Device, QueryError> {
        let version = enabled.api_version.unwrap_or(ApiVersion::new(1, 4));
        // SAFETY: what is asked of the caller.
        let device = unsafe { Device::from_physical(entry, instance, version, physical) }?;
        Ok(device.restricted_to(enabled))
    }

    /// Asks a physical device for all that it has: for who does not know yet what will be enabled of it. `version` is the newest that
    /// the instance may be used with.
    ///
    /// # Safety
    ///
    /// As for [`Device::from_vulkan`].
    pub unsafe fn from_physical(
        entry: &ash::Entry,
        instance: &ash::Instance,
        version: ApiVersion,
        physical: vk::PhysicalDevice,
    ) -> Result<Device, QueryError> {
        // SAFETY: what is asked of the caller.
        let profile = unsafe { coop_device::vulkan::profile(entry, instance, version, physical) }?;
        Ok(Device::from_profile(profile))
    }

    /// Returns the device with no more than what is enabled of it.
    #[must_use]
    pub fn restricted_to(&self, enabled: &EnabledFeatures) -> Device {
        Device::from_profile(self.profile().restricted_to(enabled))
    }
}
