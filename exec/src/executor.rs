//! The interface that all ways to run a module share, and their results.

use std::time::Duration;

use crate::case::Case;
use crate::error::Error;

/// Options of a run that depend neither on the module nor on the case.
#[derive(Clone, PartialEq, Debug)]
pub struct RunOptions {
    /// The number of dispatches to measure after the first one; 0 measures nothing.
    pub bench: u32,
    /// The longest time to wait for a submission.
    pub timeout: Duration,
    /// True to enable robust buffer access, with tight bounds (`robustBufferAccess2`) where the device has that.
    pub robust: bool,
}

impl Default for RunOptions {
    fn default() -> RunOptions {
        RunOptions { bench: 0, timeout: Duration::from_secs(60), robust: false }
    }
}

/// The clock that measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Timer {
    /// Timestamps of the device.
    Device,
    /// The host's clock around each submission.
    Host,
}

/// The result of a run.
#[derive(Clone, PartialEq, Debug)]
pub struct Outcome {
    /// The name of the device.
    pub device: String,
    /// The buffers by name, in the order of the case.
    pub buffers: Vec<(String, Vec<u8>)>,
    /// The clock that measured.
    pub timer: Timer,
    /// The time of each measured dispatch.
    pub times: Vec<Duration>,
    /// The messages of the validation layer.
    pub messages: Vec<String>,
    /// Faults that no driver reports: writes behind the end of a buffer.
    pub faults: Vec<String>,
}

impl Outcome {
    /// Returns the bytes of a buffer.
    pub fn buffer(&self, name: &str) -> Option<&[u8]> {
        self.buffers.iter().find(|(other, _)| other == name).map(|(_, bytes)| bytes.as_slice())
    }

    /// Returns the median of the measured times.
    pub fn median(&self) -> Option<Duration> {
        let mut times = self.times.clone();
        times.sort();
        times.get(times.len() / 2).copied()
    }
}

/// Something that runs modules.
pub trait Executor {
    /// Returns the name in messages.
    fn name(&self) -> String;

    /// Runs a module with a case. The words are in the host's byte order.
    fn run(&self, words: &[u32], case: &Case, options: &RunOptions) -> Result<Outcome, Error>;
}
