//! Cooperative matrices for engines: take a SPIR-V module as it is where the device runs it, else lower it.
//!
//! An engine has the words of a module, the values of its specialization constants, and a device. [`Prepared`] is a module
//! that was read once; [`Prepared::for_pipeline`] answers for one pipeline with an [`Outcome`]:
//!
//! - [`Outcome::Native`]: give the driver the module as it is;
//! - [`Outcome::Lowered`]: give it these words instead, and make the pipeline as [`Requirements`] says;
//! - [`Outcome::Refused`]: no words that are right are known; why, and what to do.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use coopmat::{Device, Outcome, PipelineOptions, Prepared};
//!
//! # let spirv = std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/../testdata/kernels/gemm_simple.spv"))?;
//! let device = Device::builtin("mesa-lavapipe-debian12").ok_or("no such device")?;
//! let module = Prepared::read_bytes(&spirv)?;
//! let mut options = PipelineOptions::default();
//! for id in 0..3 {
//!     options.specialization.set_u32(id, 16);
//! }
//! match module.for_pipeline(&device, &options) {
//!     Outcome::Native => println!("the driver takes the module as it is"),
//!     Outcome::Lowered(lowered) => println!("{} words, {:?}", lowered.words.len(), lowered.requirements),
//!     Outcome::Refused(refused) => println!("{refused}"),
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Every type here is `Send` and `Sync`, there is no global state, and the same input gives the same output everywhere. No
//! input panics: a bug of ours is a refusal too, `refused-internal`.

#[cfg(feature = "prove")]
mod certificate;
mod device;
#[doc(hidden)]
pub mod fit;
mod hash;
mod lowering;
mod options;
mod outcome;
mod prepared;
mod promise;
#[cfg(feature = "vulkan")]
mod vulkan;

pub use coop_device::{
    ApiVersion, ComponentType, Feature, Features, FlexibleProperties, MatrixProperties, Profile, ProfileError,
    Properties2, Scope,
};

#[cfg(feature = "prove")]
pub use certificate::{Certificate, Coverage, ProofMode, ProofOptions, Uncertified};
#[cfg(feature = "vulkan")]
pub use coop_device::vulkan::{EnabledFeatures, QueryError};
pub use device::Device;
pub use hash::hash;
pub use options::{Lanes, Limits, MapEntry, PipelineOptions, Specialization, SpecializationError, Target};
pub use outcome::{Finding, Lowered, Outcome, Refused, Requirements};
pub use prepared::{Prepared, ReadError, pipeline_key};
pub use promise::Promise;

/// The version of this library.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The version with a hash of the sources that it was built of: two builds of which one lowers a module differently have
/// different ones. Part of every [`Prepared::pipeline_key`].
pub const BUILD: &str = concat!(env!("CARGO_PKG_VERSION"), "+", env!("COOPMAT_SOURCES"));
