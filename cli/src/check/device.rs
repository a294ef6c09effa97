//! Finds profiles by name: built in, in a file, or of this machine's devices.

use crate::args::ProfileArgs;
use coop_device::Profile;
use coop_exec::Vulkan;

/// Returns a built-in profile, or one in a file.
pub(super) fn named(name: &str) -> Result<Profile, String> {
    let args = ProfileArgs { profile: Some(name.to_owned()), ..ProfileArgs::default() };
    match args.named() {
        Ok(Some(profile)) => Ok(profile),
        Ok(None) => Err(format!("'{name}' is not a profile")),
        Err(e) => Err(e.to_string()),
    }
}

/// Returns the profile of a Vulkan device of this machine, by number or by a part of its name.
pub(crate) fn of_this_machine(name: &str) -> Result<Profile, String> {
    let vulkan = Vulkan::open(false).map_err(|e| e.to_string())?;
    let device = vulkan.device(Some(name)).map_err(|e| e.to_string())?;
    let mut profile = device.profile().clone();
    if profile.name.is_empty() {
        profile.name.clone_from(&profile.device);
    }
    Ok(profile)
}
