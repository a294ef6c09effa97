//! Running SPIR-V modules on Vulkan and OpenCL, and comparing what they wrote.
//!
//! A [`Case`] says what goes in; an [`Executor`] runs a module with it and gives an [`Outcome`], the bytes of
//! every buffer afterwards. [`compare()`] says whether two outcomes are the same within the case's tolerances, and
//! [`Case::expected`] what the right answer is, independent of any driver.

pub mod bounds;
pub mod case;
pub mod compare;
pub mod error;
pub mod executor;
pub mod facts;
pub mod file;
pub mod fill;
pub mod interp;
pub mod measure;
pub mod number;
pub mod opencl;
pub mod quantised;
pub mod random;
pub mod reference;
pub mod respell;
#[cfg(feature = "testing")]
pub mod testing;
pub mod tolerance;
pub mod type_layout;
pub mod vulkan;

pub use bounds::Bounds;
pub use case::Case;
pub use compare::{Difference, compare, compare_within};
pub use error::Error;
pub use executor::{Executor, Outcome, RunOptions, Timer};
pub use opencl::OpenCl;
pub use tolerance::Tolerance;
pub use vulkan::Vulkan;
