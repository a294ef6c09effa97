//! The device that a module is checked for.

use coop_device::Profile;
use std::sync::Arc;

/// The device that a module is checked for, and what is known of the pipeline.
#[derive(Clone, Debug)]
pub struct Device {
    /// What it accepts: shared, since each pipeline is checked on its own.
    pub profile: Arc<Profile>,
    /// The subgroup size that the pipeline requires; without it, the device's.
    pub subgroup_size: Option<u32>,
    /// The entry point that is meant; without it, all of them.
    pub entry: Option<String>,
}

impl Device {
    /// A device with nothing else said.
    pub fn new(profile: impl Into<Arc<Profile>>) -> Device {
        Device { profile: profile.into(), subgroup_size: None, entry: None }
    }

    /// What the device is called in messages.
    pub fn name(&self) -> &str {
        if self.profile.name.is_empty() { "the device" } else { &self.profile.name }
    }
}
