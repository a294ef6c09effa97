//! The device that a module is checked for.

use coop_device::Profile;
use std::sync::Arc;

/// A device with the known parameters of the pipeline.
#[derive(Clone, Debug)]
pub struct Device {
    /// The profile: shared, since each pipeline is checked separately.
    pub profile: Arc<Profile>,
    /// The subgroup size that the pipeline requires; without it, the device's.
    pub subgroup_size: Option<u32>,
    /// The entry point of the pipeline; without it, all of them.
    pub entry: Option<String>,
}

impl Device {
    /// Returns a device without parameters of the pipeline.
    pub fn new(profile: impl Into<Arc<Profile>>) -> Device {
        Device { profile: profile.into(), subgroup_size: None, entry: None }
    }

    /// Returns the device's name in messages.
    pub fn name(&self) -> &str {
        if self.profile.name.is_empty() { "the device" } else { &self.profile.name }
    }
}
