//! Lowerings of component types: module in, module out, for devices that lack 16-bit floats, small or 64-bit integers, memory
//! of them, or the Vulkan memory model.
//!
//! [`lower`] runs the passes of [`PASSES`] in order and gives the new module with a [`Report`] of the types that became
//! software, or a [`Refusal`]. It is for modules without cooperative matrices: those are lowered first (`coop_passes`). Matrices stay only where
//! [`keeps_matrices`] says so.
//!
//! # Invariants
//!
//! 1. Memory that the application sees stays as it was: offsets, strides, sizes and lengths of arrays, and the order of bytes.
//!    What changes is the type by which the module accesses it. The range of a buffer has to be a multiple of 4 bytes then.
//! 2. No store changes a byte that the original does not write, not for an instant: others may write the neighboring bytes.
//! 3. A value of a narrow type is held by a wider one that has all its values, and holds one of them at every point where the
//!    original has a value. Operations round or wrap as the narrow type does.
//! 4. The output declares no capability for which the device lacks the feature ([`Lacks`]).
//! 5. [`coop_ir::verify`] holds after each pass.

mod address_casts;
mod cast;
mod constants;
mod dot;
mod emit;
mod float;
mod float8;
mod half;
mod integer;
mod lacks;
mod long;
mod memory_model;
mod narrow;
mod nulls;
mod parts;
mod pipeline;
mod refusals;
mod report;
mod storage;
mod unrolling;
mod version;

use coop_ir::{InstRef, Module};
use std::fmt;

pub use lacks::Lacks;
pub use pipeline::{Options, PASSES, Pass, keeps_matrices, lower, needs_any, run};
pub use refusals::{REFUSALS, RefusalRule, refusal_rule};
pub use report::{Report, Software};

/// A lowered module.
#[derive(Clone, Debug)]
pub struct Lowered {
    /// The module.
    pub module: Module,
    /// The types that became software, and the needs of the output.
    pub report: Report,
}

/// Why a module was not lowered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// The id of the reason, of [`REFUSALS`]; `refused-limit` and `refused-malformed` are those of other lowerings too.
    pub rule: &'static str,
    /// The instruction, of the module that was given to [`lower`].
    pub at: Option<InstRef>,
    /// Why: lower case, no final period.
    pub reason: String,
    /// The remedy.
    pub remedy: String,
}

impl Refusal {
    /// A refusal of an instruction that has no lowering.
    pub(crate) fn new(at: InstRef, reason: impl Into<String>, remedy: impl Into<String>) -> Refusal {
        Refusal { rule: "refused-component-type", at: Some(at), reason: reason.into(), remedy: remedy.into() }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} [{}]; {}", self.reason, self.rule, self.remedy)
    }
}

impl std::error::Error for Refusal {}

/// Why [`lower`] gives no module.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Error {
    /// The module can't be lowered.
    Refused(Box<Refusal>),
    /// A pass left a module that is not well formed: a bug of ours.
    Bug {
        /// The pass.
        pass: &'static str,
        /// The fault.
        message: String,
    },
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Error {
        Error::Refused(Box::new(refusal))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Refused(r) => r.fmt(f),
            Error::Bug { pass, message } => write!(f, "pass {pass}: {message}"),
        }
    }
}

impl std::error::Error for Error {}
