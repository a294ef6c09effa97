//! The report of a lowering: its record, and the needs of its output.

use coop_ir::decorate::Decorations;
use coop_ir::hash::FxHashSet;
use coop_ir::{Function, Id, InstRef, Module, Op, binary};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;

/// One logical matrix type and how it is held.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LoweredMatrix {
    /// The type id in the module.
    pub id: u32,
    /// As messages name it: `f16 16x16 A`.
    pub matrix: String,
    /// Rows and columns of the device's matrices that it is split into; none where it is split into elements.
    pub tile: Option<[u32; 2]>,
    /// Lanes that share it (subgroups, where it is split into tiles), as grid rows and columns.
    pub grid: [u32; 2],
    /// Rows and columns of elements, or of tiles, that each of them holds.
    pub per_lane: [u32; 2],
    /// True if several of them hold copies of one element.
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
    /// Its offset in the push constants.
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

/// The size of a module in SPIR-V words, before and after.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Size {
    /// Bytes of the input.
    pub input: usize,
    /// Bytes of the output.
    pub output: usize,
    /// Why the output is more than six times as large, if it is.
    pub why: Option<String>,
}

impl Size {
    /// An output that is larger by more than this says why.
    const FACTOR: usize = 6;

    pub(crate) fn of(before: &Module, after: &Module) -> Size {
        let bytes = |m: &Module| binary::word_count(m) * 4;
        let (input, output) = (bytes(before), bytes(after));
        let why = (output > Size::FACTOR * input).then(|| Size::why(before, after, (input, output)));
        Size { input, output, why }
    }

    fn why(before: &Module, after: &Module, (input, output): (usize, usize)) -> String {
        let words = |m: &Module, r: InstRef| 1 + m.inst(r).operands.len() + 2;
        let body = |m: &Module, f: &Function| -> usize {
            f.blocks.iter().flat_map(|b| &b.insts).map(|r| words(m, *r)).sum::<usize>() * 4
        };
        let old: FxHashSet<Id> = before.functions.iter().filter_map(|f| before.inst(f.def).result).collect();
        let is_new = |f: &&Function| after.inst(f.def).result.is_some_and(|id| !old.contains(&id));
        let added: Vec<&Function> = after.functions.iter().filter(is_new).collect();
        let kept: usize = after.functions.iter().filter(|f| !is_new(f)).map(|f| body(after, f)).sum();
        let matrices = before.all().filter(|r| touches(before, *r)).count();
        let largest = added.iter().max_by_key(|f| body(after, f));
        let largest = largest.map_or_else(String::new, |f| {
            let id = after.inst(f.def).result;
            let name = id.and_then(|id| Decorations::new(after).name(after, id)).unwrap_or_default();
            format!(", the largest of them, {name}, about {} bytes", body(after, f))
        });
        format!(
            "the output is {:.1} times as large as the input ({input} to {output} bytes): {matrices} instructions on matrices \
             became loops and arithmetic on their elements or tiles, in {} functions that were added{largest}, and about {kept} \
             bytes in those that the module had",
            output as f64 / input.max(1) as f64,
            added.len(),
        )
    }
}

/// Returns true if an instruction makes or takes a matrix.
fn touches(m: &Module, r: InstRef) -> bool {
    let inst = m.inst(r);
    let is_mat = |t: Id| {
        m.def_inst(t).is_some_and(|i| matches!(i.op, Op::TypeCooperativeMatrixKHR | Op::TypeCooperativeMatrixNV))
    };
    inst.ty.into_iter().chain(inst.ids().filter_map(|id| m.type_of(id))).any(is_mat)
}

/// The source of a subgroup size.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SizeSource {
    /// The kernel, by its execution mode.
    Kernel,
    /// The options.
    Given,
    /// A constant of the module, for whose value it was specialised: an assumption.
    SpecializedFor,
    /// The profile, for lack of another source: an assumption.
    Profile,
    /// The workgroup, which is not a number of whole subgroups of the profile's size: with lanes by local index, the largest size
    /// that it is one of. An assumption.
    Workgroup,
}

/// A subgroup size and its source.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SubgroupSize {
    /// Invocations.
    pub size: u32,
    /// The source of the size.
    pub source: SizeSource,
}

/// Something to look at before the output is run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Warning {
    /// The id: `subgroup-size-assumed`.
    pub id: &'static str,
    /// The assumption: lower case, no final period.
    pub message: String,
    /// The remedy.
    pub remedy: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {} [{}]", self.message, self.remedy, self.id)
    }
}

/// The record of a lowering and the needs of its output. Serializes to the JSON of `cooplower --report`.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// The target.
    pub target: String,
    /// The name of the profile, if one was given.
    pub profile: Option<String>,
    /// True if anything was lowered; if not, the output is the input.
    pub changed: bool,
    /// The sizes of input and output, where anything was lowered.
    pub size: Size,
    /// The passes that ran.
    pub passes: Vec<Timing>,
    /// The passes that did not run, since the fuel was used up. The output is not finished if there are any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub skipped_passes: Vec<&'static str>,
    /// The subgroup size that the pipeline must require, if it matters.
    pub required_subgroup_size: Option<u32>,
    /// The subgroup size that the output is made for, if it depends on one.
    pub subgroup_size: Option<SubgroupSize>,
    /// True if the output has subgroups that it counts itself.
    #[serde(skip)]
    pub(crate) counts_subgroups: bool,
    /// Warnings to look at before the output is run.
    pub warnings: Vec<Warning>,
    /// True if the pipeline must require full subgroups.
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
    /// SpecIds that a value was given for, and that the module does not have.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unknown_spec_ids: Vec<u32>,
    /// The targets that `auto` would have liked better, each with why it is not taken.
    pub not_taken: Vec<String>,
    /// The types and the memory that became software besides matrices, in words.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub software: Vec<String>,
    /// The matrix types.
    pub matrices: Vec<LoweredMatrix>,
    /// Prefetches of matrices that were dropped.
    #[serde(skip_serializing_if = "is_zero")]
    pub dropped_prefetches: u32,
    /// Cache controls that were dropped.
    #[serde(skip_serializing_if = "is_zero")]
    pub dropped_cache_controls: u32,
    /// Differences from the input, in words: precision, ordering.
    pub approximations: Vec<String>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "as serde asks")]
fn is_zero(n: &u32) -> bool {
    *n == 0
}
