//! What every way to run a module has in common.

use std::time::Duration;

use crate::case::Case;
use crate::error::Error;

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
}

/// Something that runs modules.
pub trait Executor {
    /// What it is called in messages.
    fn name(&self) -> String;

    /// Runs a module, words in the host's byte order, with a case.
    fn run(&self, words: &[u32], case: &Case, options: &RunOptions) -> Result<Outcome, Error>;
}
