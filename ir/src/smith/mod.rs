//! Entropy in, modules out: valid compute shaders that work on cooperative matrices, each with the case file that
//! runs it.
//!
//! What is true of every module that [`generate`] gives:
//!
//! 1. It is valid, and so is its use: no access outside of its buffers, no races, no undefined value that matters,
//!    nothing that works on a matrix where only some invocations of its scope are.
//! 2. Nothing that it writes depends on which invocation holds which element of a matrix, nor on the size of a
//!    subgroup; a workgroup has as many subgroups in each of its variants.
//! 3. Every number is exact in its type, in whatever order sums are taken (`Range` keeps account), so outputs compare
//!    bit by bit; but for the sign of zero.
//! 4. The same entropy gives the same module. Less entropy gives a simpler one.
//!
//! A module computes matrices and stores them, each store to a place of its own: one for every subgroup (or
//! workgroup) that executes it and every round of the loops around it.

mod emit;
mod entropy;
mod flow;
mod fun;
mod memory;
mod range;
mod value;

use crate::module::Module;
use std::collections::BTreeMap;

/// What the modules may use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Profile {
    /// What a current lavapipe runs itself: matrices of 8 x 8 x 8 in subgroups of 8, f16 or 8-bit integers multiplied
    /// into f16, f32 or 32-bit integers.
    Device8,
    /// Everything in SPV_KHR_cooperative_matrix.
    Any,
}

/// A module and how to run it.
#[derive(Clone, Debug)]
pub struct Generated {
    /// The module.
    pub module: Module,
    /// A case file, in TOML. With [`Profile::Any`] it is for subgroups of 8 and has variants `s4`, `s16` and `s32`.
    pub case: String,
    /// How often which constructs are in it.
    pub made: BTreeMap<&'static str, u32>,
    /// How many bytes of entropy decided; more change nothing.
    pub used: usize,
}

/// The subgroup sizes for which cases of [`Profile::Any`] have variants, besides 8.
pub const VARIANTS: [u32; 3] = [4, 16, 32];

/// Makes a module.
pub fn generate(profile: Profile, entropy: &[u8]) -> Generated {
    emit::Gen::new(profile, entropy).run()
}
