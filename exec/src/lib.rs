//! Running SPIR-V modules on Vulkan and OpenCL, and comparing what they wrote.
//!
//! A [`Case`] says what goes in; an [`Executor`] runs a module with it and gives an [`Outcome`], the bytes of
//! every buffer afterwards. [`compare()`] says whether two outcomes are the same within the case's tolerances, and
//! [`Case::expected`] what the right answer is, independent of any driver.

pub mod bounds;
pub mod case;
pub mod compare;
pub mod error;
pub mod facts;
pub mod file;
pub mod fill;
pub mod interp;
pub mod layout;
pub mod measure;
pub mod number;
pub mod opencl;
pub mod quantised;
pub mod random;
pub mod reference;
pub mod respell;
#[cfg(feature = "testing")]
pub mod testing;
pub mod vulkan;

use std::time::Duration;

pub use bounds::Bounds;
pub use case::Case;
pub use compare::{Difference, Tolerance, compare, compare_within};
pub use error::Error;
pub use opencl::OpenCl;
pub use vulkan::Vulkan;

/// How to run, whatever the module and the case.
#[derive(Clone, PartialEq, Debug)]
pub struct RunOptions {
    /// Dispatches to measure after the one that counts; 0 measures nothing.
    pub bench: u32,
    /// How long to wait for a submission.
    pub timeout: Duration,
    /// True if accesses outside of buffers are to be harmless.
    pub robust: bool,
}

impl Default for RunOptions {
    fn default() -> RunOptions {
        RunOptions { bench: 0, timeout: Duration::from_secs(60), robust: false }
    }
}

/// Whose clock measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Timer {
    /// Timestamps of the device.
    Device,
    /// The host's clock around each submission.
    Host,
}

/// What a run left.
#[derive(Clone, PartialEq, Debug)]
pub struct Outcome {
    /// Where it ran.
    pub device: String,
    /// The buffers by name, in the order of the case.
    pub buffers: Vec<(String, Vec<u8>)>,
    /// Whose clock measured.
    pub timer: Timer,
    /// How long each measured dispatch took.
    pub times: Vec<Duration>,
    /// What the validation layer said.
    pub messages: Vec<String>,
    /// What went wrong without anybody saying so: writes behind the end of a buffer.
    pub faults: Vec<String>,
}

impl Outcome {
    /// The bytes of a buffer.
    pub fn buffer(&self, name: &str) -> Option<&[u8]> {
        self.buffers.iter().find(|(other, _)| other == name).map(|(_, bytes)| bytes.as_slice())
    }

    /// The median of the measured times.
    pub fn median(&self) -> Option<Duration> {
        let mut times = self.times.clone();
        times.sort();
        times.get(times.len() / 2).copied()
    }

    /// How this outcome differs from what the case expects.
    pub fn check(&self, case: &Case) -> Result<Vec<Difference>, Error> {
        let mut differences = Vec::new();
        for (index, wanted) in case.expected()? {
            let buffer = &case.buffer[index];
            let got = self.buffer(&buffer.name).unwrap_or_default();
            if let Some(mut difference) = compare(buffer, got, &wanted)? {
                difference.trace(buffer, got, &wanted, &case.contents(index, &|_| 0)?);
                differences.push(difference);
            }
        }
        Ok(differences)
    }

    /// How this outcome differs from another of the same case. Tolerances that are to be derived count as exact.
    pub fn compare(&self, other: &Outcome, case: &Case) -> Result<Vec<Difference>, Error> {
        self.compare_with(other, case, None)
    }

    /// The same with bounds for what the case leaves to be derived; `sides` is 1 if one of the two is the interpreter's, else 2.
    pub fn compare_within(
        &self,
        other: &Outcome,
        case: &Case,
        bounds: &Bounds,
        sides: u8,
    ) -> Result<Vec<Difference>, Error> {
        self.compare_with(other, case, Some((bounds, sides)))
    }

    fn compare_with(
        &self,
        other: &Outcome,
        case: &Case,
        bounds: Option<(&Bounds, u8)>,
    ) -> Result<Vec<Difference>, Error> {
        let mut differences = Vec::new();
        for (index, buffer) in case.buffer.iter().enumerate() {
            let ours = self.buffer(&buffer.name).unwrap_or_default();
            let theirs = other.buffer(&buffer.name).unwrap_or_default();
            let theirs = &*buffer.with_addresses_of(ours, theirs)?;
            let bounds = bounds.map(|(bounds, sides)| (bounds, index, sides));
            if let Some(mut difference) = compare_within(buffer, ours, theirs, bounds)? {
                difference.trace(buffer, ours, theirs, &case.contents(index, &|_| 0)?);
                differences.push(difference);
            }
        }
        Ok(differences)
    }
}

/// Something that runs modules.
pub trait Executor {
    /// What it is called in messages.
    fn name(&self) -> String;

    /// Runs a module, words in the host's byte order, with a case.
    fn run(&self, words: &[u32], case: &Case, options: &RunOptions) -> Result<Outcome, Error>;
}
