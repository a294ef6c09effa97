//! Lowerings of cooperative matrices: module in, module out.
//!
//! [`lower`] is the whole of it: it runs the passes of a [`Target`] in order and answers with the new module and what
//! it needs from the pipeline, or with a [`Refusal`] that says why not and what to do. Entry points, bindings, push
//! constants, workgroup size and the SpecIds stay as they were, but for SpecIds that a matrix depends on and those that were
//! given a value by which a branch is decided.

mod bfloat16;
mod builtins;
mod capabilities;
mod cleanup;
mod decorations;
mod device;
mod dialect;
mod emulate;
mod entry;
mod fold;
mod inline;
mod input_blocks;
mod kernel;
mod layout;
mod lengths;
mod local_cse;
mod matrix;
mod one_return;
mod pipeline;
mod private;
mod refusals;
mod report;
mod shared_order;
mod specialize;
mod ssa;
mod subgroups;
mod tensor;
mod to_scalar;
mod to_tiles;
mod typed_pointers;
mod visibility;
#[cfg(feature = "kernels")]
mod vulkan;
mod workgroup;

use coop_device::Profile;
use coop_ir::constant::Specialization;
use coop_ir::{InstRef, Module};
use std::collections::BTreeMap;
use std::fmt;

#[doc(hidden)]
pub use tensor::elementwise;

pub use lengths::has_length_in_constant;
pub use pipeline::{PASSES, Pass, WellFormed, lower, lower_with};
pub use refusals::{REFUSALS, RefusalRule, refusal_rule};
pub use report::{Argument, KernelArguments, LoweredMatrix, Report, Size, SizeSource, SubgroupSize, Timing, Warning};
pub use subgroups::{depends_on_subgroups, registers_of_arrays};
pub use to_tiles::has_wide_stride;

/// The instructions that the output may contain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Target {
    /// No cooperative-matrix type or instruction at all.
    Scalar,
    /// Matrices of SPV_KHR_cooperative_matrix at subgroup scope, of the shapes and types that the profile lists.
    Khr,
    /// As [`Target::Khr`], and what the profile has of SPV_EXT_cooperative_matrix_maintenance1.
    Ext,
    /// The best of these that the profile and the module allow.
    Auto,
}

impl Target {
    /// Every target that a pass can be for: all but [`Target::Auto`].
    pub(crate) const ALL: &'static [Target] = &[Target::Scalar, Target::Khr, Target::Ext];
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Target::Scalar => "scalar",
            Target::Khr => "khr",
            Target::Ext => "ext",
            Target::Auto => "auto",
        })
    }
}

/// The meaning of a lane of a subgroup-scope matrix.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Lanes {
    /// An invocation of a subgroup of the device, which must have the size that was said.
    #[default]
    Subgroup,
    /// An invocation by its place in the workgroup: each `subgroup size` consecutive ones stand for a subgroup. The output runs
    /// with subgroups of any size; where the device has another, the module's own operations on subgroups go through shared
    /// memory.
    LocalIndex,
}

/// The behavior to assume where texts and hardware differ.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Semantics {
    /// The specifications.
    #[default]
    Spec,
    /// The behavior of an NVIDIA H100, as observed.
    Nvidia,
}

/// Options for kernels that become Vulkan compute shaders.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Vulkan {
    /// Bytes of shared memory behind arguments that point to it, by the argument's number.
    pub local_arguments: BTreeMap<u32, u32>,
}

/// The unit of offsets and bounds of SPV_INTEL_joint_matrix's checked accesses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Checked {
    /// Lines of memory and elements of a line, as every implementation has it.
    #[default]
    Implementations,
    /// Rows and columns of a big matrix, as the text says.
    Prose,
}

/// The bits read of numbers that a multiplication takes as tf32.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Tf32 {
    /// With all their bits: what numbers that are tf32 already need.
    #[default]
    F32,
    /// Without those that tf32 does not have.
    Truncate,
    /// Rounded to nearest even.
    Rne,
}

/// Options of a lowering.
#[derive(Clone, Debug)]
pub struct Options<'a> {
    /// The instructions that the output may contain.
    pub target: Target,
    /// Values of spec constants.
    pub spec: Specialization,
    /// True if constants of matrices that no value was given for take their defaults; otherwise that is refused.
    pub spec_defaults: bool,
    /// The entry point to lower for, by name; the others are dropped. Without it all stay, which have workgroups of one size
    /// where that matters.
    pub entry: Option<String>,
    /// The device.
    pub profile: Option<&'a Profile>,
    /// The subgroup size that the pipeline will require. Without it a kernel's own is taken; else the one for which the module
    /// is specialised, if that shows, or the profile's, and the report warns of what was assumed.
    pub subgroup_size: Option<u32>,
    /// The meaning of a lane.
    pub lanes: Lanes,
    /// The behavior to assume where texts and hardware differ.
    pub semantics: Semantics,
    /// Elements outside of a tensor read as zero, and are not written, where its layout has the clamp mode Undefined: engines
    /// read there, and then multiply by zero.
    pub undefined_as_zero: bool,
    /// The pointers of tensor loads and stores are multiples of 16 bytes, as SPV_NV_cooperative_matrix2 demands, and are not
    /// tested. Engines pass multiples of an element's size: without this, any such pointer is right.
    pub assume_aligned: bool,
    /// The module works with subgroups of any size, whatever size its constants seem to be for: no signs are looked for.
    pub assume_any_subgroup_size: bool,
    /// Make Vulkan compute shaders of OpenCL kernels.
    #[cfg(feature = "kernels")]
    pub vulkan: Option<Vulkan>,
    /// The size of a workgroup, where a kernel says none.
    pub local_size: Option<[u32; 3]>,
    /// The unit of offsets and bounds of checked accesses.
    pub checked: Checked,
    /// The bits that a multiplication reads of tf32.
    pub tf32: Tf32,
    /// The function that `OpCooperativeMatrixApplyFunctionINTEL` means, by name.
    pub apply_function: Option<String>,
    /// Check the module after each pass.
    pub verify_each: bool,
    /// Run only this many passes.
    pub fuel: Option<usize>,
    /// Run only these passes, by name, on any module; all where there are none. One that needs what an earlier one does may
    /// refuse, or fail with a bug.
    pub passes: Vec<String>,
    /// The most instructions that are made, those that later passes remove again included: more are refused. It bounds memory and,
    /// as each takes about as long as another, time.
    pub most_instructions: usize,
    /// When to give up. What comes out before that does not depend on it.
    pub deadline: Option<std::time::Instant>,
    /// The result of the check that the module is well formed, where it is lowered several times: the first lowering keeps it here.
    pub well_formed: Option<&'a WellFormed>,
}

impl Options<'_> {
    /// The most instructions that are made where nothing else is said: many times what the largest known modules become, and more
    /// than drivers compile.
    pub const MOST_INSTRUCTIONS: usize = 1 << 20;

    /// Returns the options for kernels that become Vulkan compute shaders, if they shall.
    pub(crate) fn vulkan(&self) -> Option<&Vulkan> {
        #[cfg(feature = "kernels")]
        let vulkan = self.vulkan.as_ref();
        #[cfg(not(feature = "kernels"))]
        let vulkan = None;
        vulkan
    }

    /// For a target, with nothing else said.
    pub fn new(target: Target) -> Options<'static> {
        Options {
            target,
            spec: Specialization::new(),
            spec_defaults: false,
            entry: None,
            profile: None,
            subgroup_size: None,
            lanes: Lanes::default(),
            semantics: Semantics::default(),
            undefined_as_zero: false,
            assume_aligned: false,
            assume_any_subgroup_size: false,
            #[cfg(feature = "kernels")]
            vulkan: None,
            local_size: None,
            checked: Checked::default(),
            tf32: Tf32::default(),
            apply_function: None,
            verify_each: cfg!(debug_assertions),
            fuel: None,
            passes: Vec::new(),
            most_instructions: Options::MOST_INSTRUCTIONS,
            deadline: None,
            well_formed: None,
        }
    }
}

/// Why a module was not lowered. Nothing is written then.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// The id of the reason: `refused-unknown-dimension`.
    pub rule: &'static str,
    /// The instruction, of the module that was given to [`lower`].
    pub at: Option<InstRef>,
    /// Why: lower case, no final period.
    pub reason: String,
    /// The remedy.
    pub remedy: String,
    /// The cause, where another attempt may do something about it.
    pub cause: Cause,
}

/// A cause that another attempt, with other options or another plan, may do something about.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Cause {
    /// The output needs more shared memory than there is room for.
    OutOfSharedMemory,
    /// The output does not run on subgroups of the size that it is lowered for.
    SubgroupSize,
    /// Any other: no attempt does anything about it.
    #[default]
    Other,
}

impl Refusal {
    pub(crate) fn new(
        rule: &'static str,
        at: Option<InstRef>,
        reason: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Refusal {
        Refusal { rule, at, reason: reason.into(), remedy: remedy.into(), cause: Cause::Other }
    }

    /// Refuses a module that is not valid SPIR-V.
    pub(crate) fn malformed(at: impl Into<Option<InstRef>>, reason: impl Into<String>) -> Refusal {
        Refusal::new("refused-malformed", at.into(), reason, "see what coopcheck says of the module")
    }

    /// The refusal with a cause.
    pub(crate) fn caused_by(self, cause: Cause) -> Refusal {
        Refusal { cause, ..self }
    }
}

/// Refuses a module for an instruction that is not valid SPIR-V.
pub(crate) fn malformed<T>(at: InstRef, reason: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal::malformed(at, reason))
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} [{}]; {}", self.reason, self.rule, self.remedy)
    }
}

impl std::error::Error for Refusal {}

/// A lowered module.
#[derive(Clone, Debug)]
pub struct Lowered {
    /// The module.
    pub module: Module,
    /// The record of the lowering and the needs of the output.
    pub report: Report,
}

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
