//! The device that pipelines are made for.

use crate::hash;
use crate::{Feature, Profile, ProfileError, Promise, promise};
use coop_device::Limits;
use std::sync::{Arc, OnceLock};

/// A device, as far as modules with matrices are concerned. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Device {
    profile: Arc<Profile>,
    hash: Arc<OnceLock<[u8; 32]>>,
}

impl PartialEq for Device {
    fn eq(&self, other: &Device) -> bool {
        self.profile == other.profile
    }
}

impl Device {
    /// Makes one of what a profile says.
    pub fn from_profile(profile: Profile) -> Device {
        Device { profile: Arc::new(profile), hash: Arc::default() }
    }

    /// Reads a profile as `cooprun profile` writes it.
    pub fn from_json(text: &str) -> Result<Device, ProfileError> {
        Profile::from_json(text).map(Device::from_profile)
    }

    /// Returns a device that comes with the library: `nvidia-h100`. [`Device::builtin_names`] lists them.
    pub fn builtin(name: &str) -> Option<Device> {
        Profile::builtin(name).map(Device::from_profile)
    }

    /// Returns the names of the devices that come with the library.
    pub fn builtin_names() -> impl Iterator<Item = &'static str> {
        Profile::builtin_names()
    }

    /// Returns the profile of the device.
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// Returns a hash of all that the device has: part of [`Prepared::pipeline_key`](crate::Prepared::pipeline_key).
    pub fn hash(&self) -> [u8; 32] {
        *self.hash.get_or_init(|| hash::hash(&[self.profile.to_json().as_bytes()]))
    }

    pub(crate) fn shared(&self) -> &Arc<Profile> {
        &self.profile
    }

    /// Returns the properties that the device may report, since modules that use them are lowered.
    pub fn promised(&self) -> Promise {
        promise::of(&self.profile)
    }

    /// Returns true if compute pipelines can require a subgroup size, and full subgroups.
    pub fn can_require_subgroups(&self) -> bool {
        let stages = self.profile.limits.required_subgroup_size_stages & Limits::COMPUTE_STAGE != 0;
        stages && self.profile.has(Feature::SubgroupSizeControl) && self.profile.has(Feature::ComputeFullSubgroups)
    }
}
