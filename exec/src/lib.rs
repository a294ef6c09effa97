//! Runs SPIR-V modules on Vulkan and OpenCL devices and in a reference interpreter, and compares their results.
//!
//! A [`Case`] describes the inputs; an [`Executor`] runs a module with it and returns an [`Outcome`], the bytes of
//! every buffer after the run. [`compare()`] compares two contents of a buffer within the case's tolerance, and
//! [`Case::expected`] computes the right answer independently of any driver.

pub mod bounds;
pub mod case;
pub mod compare;
pub mod compiled;
pub mod cover;
pub mod error;
pub mod executor;
pub mod facts;
pub mod file;
pub mod fill;
pub mod interp;
pub mod isa;
pub mod measure;
pub mod number;
pub mod opencl;
pub mod proof;
pub mod quantised;
pub mod random;
pub mod reference;
pub mod respell;
#[cfg(feature = "testing")]
pub mod testing;
pub mod tolerance;
pub mod type_layout;
pub mod vulkan;
mod witness;

pub use bounds::Bounds;
pub use case::Case;
pub use compare::{Difference, compare, compare_within};
pub use error::Error;
pub use executor::{Executor, Outcome, RunOptions, Timer};
pub use opencl::OpenCl;
pub use tolerance::Tolerance;
pub use vulkan::Vulkan;
