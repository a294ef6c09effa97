//! Profiles of physical devices, and the features that an application enabled.
//!
//! Nothing here opens a loader: the caller has an instance already. Unsafe code is confined to this module. It is sound
//! because handles are the caller's and stay alive during a call, and structures that Vulkan fills outlive the call and
//! are as large as their `sType` says.
#![allow(unsafe_code)]

mod enabled;
mod query;
pub mod structs;

use std::fmt;

use ash::vk;

pub use enabled::EnabledFeatures;
pub use query::profile;

/// An error of a Vulkan call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueryError {
    /// The name of the call.
    pub call: &'static str,
    /// The result that it returned.
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
