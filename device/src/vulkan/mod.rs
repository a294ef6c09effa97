//! Profiles of physical devices, and what an application enabled of one.
//!
//! Nothing here opens a loader: who asks has an instance already. Unsafe code is confined to this module. What makes it
//! sound: handles are the caller's and stay alive during a call; structures that Vulkan fills outlive the call, and are as
//! large as their `sType` says.
#![allow(unsafe_code)]

mod enabled;
mod query;
pub mod structs;

use std::fmt;

use ash::vk;

pub use enabled::EnabledFeatures;
pub use query::profile;

/// Why a device could not be asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueryError {
    /// The call.
    pub call: &'static str,
    /// What it returned.
    pub result: vk::Result,
}

impl fmt::Display for QueryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} failed: {}", self.call, self.result)
    }
}

impl std::error::Error for QueryError {}

/// Turns the result of a Vulkan call into ours.
fn check<T>(call: &'static str, result: Result<T, vk::Result>) -> Result<T, QueryError> {
    result.map_err(|result| QueryError { call, result })
}
