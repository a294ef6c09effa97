//! What a lowering did, and what its output needs from the pipeline.

use serde::Serialize;
use std::collections::BTreeMap;

/// One logical matrix type and how it is held.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LoweredMatrix {
    /// The type id in the module.
    pub id: u32,
    /// As messages name it: `f16 16x16 A`.
    pub matrix: String,
    /// Rows and columns of the device's matrices that it is cut into; none where it is cut into elements.
    pub tile: Option<[u32; 2]>,
    /// Lanes that share it (subgroups, where it is cut into tiles), as grid rows and columns.
    pub grid: [u32; 2],
    /// Rows and columns of elements, or of tiles, that each of them holds.
    pub per_lane: [u32; 2],
    /// Whether several of them hold copies of one element.
    pub replicated: bool,
}

/// The time that a pass took.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Timing {
    /// The pass.
    pub pass: &'static str,
    /// In microseconds.
    pub micros: u64,
}

/// An argument of a kernel that became a shader.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Argument {
    /// Its number.
    pub index: usize,
    /// Its name, if the module says one.
    pub name: Option<String>,
    /// `address` (of a buffer), `value`, `struct` (by value) or `local` (shared memory, which is in the module).
    pub kind: &'static str,
    /// Where it is in the push constants.
    pub offset: Option<u64>,
    /// Its bytes there, or of shared memory.
    pub size: Option<u64>,
}

/// A kernel that became a shader.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct KernelArguments {
    /// The entry point.
    pub entry: String,
    /// The size of its workgroups.
    pub local_size: [u32; 3],
    /// The bytes of push constants that it reads.
    pub push_constant_bytes: u32,
    /// The arguments in order.
    pub arguments: Vec<Argument>,
}

/// What a lowering did, and what its output needs. Serialises to the JSON of `cooplower --report`.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// The target.
    pub target: String,
    /// The name of the profile, if one was given.
    pub profile: Option<String>,
    /// Whether anything was lowered; if not, the output is the input.
    pub changed: bool,
    /// The passes that ran.
    pub passes: Vec<Timing>,
    /// The subgroup size that the pipeline must require, if it matters.
    pub required_subgroup_size: Option<u32>,
    /// Whether the pipeline must require full subgroups.
    pub full_subgroups: bool,
    /// Bytes of shared memory that the lowering added.
    pub added_shared_memory: u32,
    /// Names of the capabilities that the output declares and the input did not.
    pub added_capabilities: Vec<String>,
    /// Names of the capabilities that the output needs no more.
    pub removed_capabilities: Vec<String>,
    /// Kernels that became shaders, with what became of their arguments.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kernels: Vec<KernelArguments>,
    /// SpecIds that were given their value for good.
    pub consumed_spec_ids: BTreeMap<u32, u64>,
    /// SpecIds that can still be specialised.
    pub remaining_spec_ids: Vec<u32>,
    /// The targets that `auto` would have liked better, each with why it is not taken.
    pub not_taken: Vec<String>,
    /// The matrix types.
    pub matrices: Vec<LoweredMatrix>,
    /// What is not exactly as it was, in words: precision, ordering.
    pub approximations: Vec<String>,
}
