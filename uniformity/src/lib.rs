//! Uniformity analysis: the scope over which a value is the same, and over which an instruction is executed together.
//!
//! # The question
//!
//! A cooperative matrix belongs to a subgroup or a workgroup as a whole. All invocations of that scope must execute an
//! instruction that uses one, or none of them, and most of the other operands must be the same for all. [`Analysis`]
//! answers whether that holds for each such instruction and for barriers. `docs/uniformity.md` has the reasons and the
//! proofs.
//!
//! # Guarantees
//!
//! 1. [`Uniformity`] is ordered: a value that is uniform over a workgroup is uniform over its subgroups. A value that
//!    is uniform over a scope is the same in all invocations of the scope that execute it with the same history: the
//!    same path from the entry point, iterations of loops included.
//! 2. All invocations of a scope execute a block that is uniform over the scope together, or none does.
//! 3. Both hold in every execution without undefined behavior, provided that the listed [`Assumption`]s hold. No answer
//!    rests on an assumption that is not listed.
//! 4. A [`Witness`] is a proof: if one of its two invocations executes the instruction, the other does not execute it
//!    together with that one; or the operand has the two values.
//!
//! # How it works
//!
//! - `program` inlines callees at their calls and cuts blocks at the calls, which gives the program points.
//! - `needed_values` finds the values that decide anything. `build` makes a graph of them (`value_graph`,
//!   `instructions`, `inputs`). Variables of one invocation are promoted to values (`leaves`, `pointers`, `variables`,
//!   `reaching_stores`); `memory` and `loads` say what other memory may hold.
//! - `reconvergence` finds the points at which invocations may be diverged after a branch.
//! - `solve` computes the fixed point of the uniformity of values and of control flow. `shape` and `subgroup_ops`
//!   compute with the values of single invocations, and `shared_reduction` recognizes reductions through shared memory.
//! - `proofs` proves that two invocations disagree, and `feasibility` finds data with which they get there. `explain`
//!   makes the findings.

mod build;
mod explain;
mod feasibility;
mod inputs;
mod inst_flags;
mod instructions;
mod leaves;
mod loads;
mod memory;
mod needed_values;
mod pointers;
mod program;
mod proofs;
mod reaching_stores;
mod reconvergence;
mod shape;
mod shared_reduction;
mod solve;
mod subgroup_ops;
mod summary;
mod value_graph;
mod variables;

pub use feasibility::{BranchChoice, MAX_CHOICES, Path};

use coop_ir::cfg::Cfgs;
use coop_ir::constant::{Constants, SpecIds};
use coop_ir::decorate::Decorations;
use coop_ir::effects::{ExtPointer, ExtSet, ExtSets};
use coop_ir::entry::{CallGraph, EntryPoint, entry_points};
use coop_ir::grammar::Op;
use coop_ir::hash::{FxHashMap, FxHashSet};
use coop_ir::spv::{Capability, ExecutionMode, StorageClass};
use coop_ir::{Id, IdIndex, IdMap, IdSet, Inst, InstRef, Module};
use explain::Explainer;
use std::borrow::Cow;
use std::fmt;

/// The largest scope over which something is the same.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Uniformity {
    /// The same for all invocations of a workgroup.
    Workgroup,
    /// The same for all invocations of a subgroup.
    Subgroup,
    /// May differ between any two invocations.
    Divergent,
}

impl fmt::Display for Uniformity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Uniformity::Workgroup => "workgroup",
            Uniformity::Subgroup => "subgroup",
            Uniformity::Divergent => "invocation",
        })
    }
}

/// An assumption on which an answer may rest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Assumption {
    /// Subgroups are consecutive invocations by `LocalInvocationIndex`, and full but for the last one.
    FullSubgroups,
    /// Subgroups have 32 invocations, because neither the module nor the options say how many.
    SubgroupSize,
    /// No invocation writes what others read at the same time.
    NoRace,
    /// Every invocation holds equally many elements of a matrix.
    EqualLengths,
    /// The result of a reduction through shared memory covers the operand of every invocation: the maximum (or minimum,
    /// or conjunction) of an invocation's own value and the reduced one is that of all.
    Reduced,
    /// The invocations of a subgroup stay together where only the workgroup diverges, though the entry point does not
    /// ask for it.
    Reconvergence,
    /// Specialization constants have their defaults: see [`Analysis::defaults`].
    Defaults,
}

/// A set of assumptions.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Assumptions(u8);

impl Assumptions {
    pub(crate) const NONE: Assumptions = Assumptions(0);
    pub(crate) const FULL: Assumptions = Assumptions(1);
    pub(crate) const SIZE: Assumptions = Assumptions(2);
    pub(crate) const RACE: Assumptions = Assumptions(4);
    pub(crate) const LENGTH: Assumptions = Assumptions(8);
    pub(crate) const REDUCED: Assumptions = Assumptions(16);
    pub(crate) const RECONVERGENCE: Assumptions = Assumptions(32);
    pub(crate) const DEFAULTS: Assumptions = Assumptions(64);

    /// Returns the union of both sets.
    #[must_use]
    pub fn and(self, other: Assumptions) -> Assumptions {
        Assumptions(self.0 | other.0)
    }

    /// Returns true if the sets have an assumption in common.
    pub(crate) fn any(self, of: Assumptions) -> bool {
        self.0 & of.0 != 0
    }

    /// Returns the assumptions of the set.
    pub fn iter(self) -> impl Iterator<Item = Assumption> {
        let all = [
            Assumption::FullSubgroups,
            Assumption::SubgroupSize,
            Assumption::NoRace,
            Assumption::EqualLengths,
            Assumption::Reduced,
            Assumption::Reconvergence,
            Assumption::Defaults,
        ];
        all.into_iter().enumerate().filter(move |(i, _)| self.0 >> i & 1 == 1).map(|(_, a)| a)
    }
}

/// The subgroup size that is assumed where none is specified.
pub const DEFAULT_SUBGROUP: u32 = 32;

/// The aspect of an instruction that is not uniform.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Aspect {
    /// Only some invocations execute it.
    Flow,
    /// Only some invocations execute it, and it is a barrier.
    Barrier,
    /// An operand differs. Operands are counted in words, without result type and result.
    Operand(u32),
}

/// A value of an operand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Number {
    /// An integer.
    Int(u64),
    /// The bits of a 32-bit float.
    Float(u32),
}

impl Number {
    /// Returns the number for a value of a shape: an integer, or the code of a float.
    fn new(value: u64, float: bool) -> Number {
        if float { Number::Float(shape::float_of_code(value).to_bits()) } else { Number::Int(value) }
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Number::Int(n) => write!(f, "{n}"),
            Number::Float(bits) => write!(f, "{}", f32::from_bits(*bits)),
        }
    }
}

/// Two invocations that disagree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Witness {
    /// The first may execute the instruction while the second does not; or their values differ.
    pub invocations: (u32, u32),
    /// True if they are numbered within a subgroup instead of by `LocalInvocationIndex`.
    pub in_subgroup: bool,
    /// The size of a subgroup.
    pub subgroup: u32,
    /// True if no subgroup size is specified, so that this is the default.
    pub assumed: bool,
    /// Their values of the operand, if known.
    pub values: Option<(Number, Number)>,
    /// The iteration of the innermost loop in which they diverge; 0 is the first.
    pub iteration: u64,
    /// True if the proof covers one path to the instruction instead of every path.
    pub on_a_path: bool,
    /// The workgroup for which the proof holds, if the path depends on it.
    pub workgroup: Option<[u32; 3]>,
}

/// A step on the chain from an instruction to where values begin to differ.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Step {
    /// The instruction.
    pub at: InstRef,
    /// A description of at most 60 characters.
    pub text: String,
}

/// An instruction that is not uniform, or may not be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Divergence {
    /// The instruction.
    pub at: InstRef,
    /// The aspect that is not uniform.
    pub aspect: Aspect,
    /// The scope over which it must be uniform.
    pub scope: Uniformity,
    /// The proof, if there is one.
    pub witness: Option<Witness>,
    /// A path that reaches it, if there is a proof: without one, no execution need get there.
    pub path: Option<Box<Path>>,
    /// The specialization constants on whose defaults the proof rests.
    pub defaults: SpecIds,
    /// The reasons: the deciding branch (or the operand's value) first, the origin of the difference last.
    pub chain: Vec<Step>,
}

/// Options of an analysis.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Options {
    /// The number of invocations of a subgroup, if it is known.
    pub subgroup_size: Option<u32>,
    /// True if [`Analysis::value`] and [`Analysis::block`] will be asked.
    pub facts: bool,
    /// True if a proof counts even if no path to it is known. Then none is searched for.
    pub unreached: bool,
}

/// A reason for which there is no analysis.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// Functions that call each other, or themselves.
    Recursion(Vec<usize>),
    /// The entry point's function does not exist or has no blocks.
    NoFunction,
}

/// The uniformity of all instructions that an entry point executes.
#[derive(Clone, Debug)]
pub struct Analysis {
    /// The instructions that may not be uniform, in the order of execution.
    pub divergences: Vec<Divergence>,
    /// The assumptions, and the instructions for which they were made.
    pub assumed: Vec<(Assumption, InstRef)>,
    /// The specialization constants whose defaults were assumed.
    pub defaults: SpecIds,
    /// The number of instructions that must be executed together.
    pub checked: usize,
    /// Calls that were not followed because the program became too large, with the function called: an index into
    /// [`Module::functions`]. Nothing is known about the instructions that those execute.
    pub unfollowed: Vec<(InstRef, usize)>,
    /// True if the module was too large to be analyzed. Then nothing counts as uniform.
    pub exhausted: bool,
    values: IdMap<Uniformity>,
    blocks: FxHashMap<Id, Uniformity>,
    edits: u64,
}

/// The data that all entry points of a module share.
pub struct Analyzer<'a> {
    module: &'a Module,
    constants: &'a Constants,
    decorations: Cow<'a, Decorations>,
    calls: Cow<'a, CallGraph>,
    cfgs: Cow<'a, Cfgs>,
    layouts: leaves::LeafLayouts,
    writes: memory::Writes,
    escaped: FxHashSet<Id>,
    function_numbers: Vec<std::ops::Range<u32>>,
    numbers: IdIndex,
    callback_privates: Vec<Id>,
    recursive: Vec<usize>,
    summaries: Vec<Option<summary::Summary>>,
    callbacks: Vec<usize>,
    needed: IdSet,
    marks: inst_flags::InstFlags,
    sets: ExtSets,
}

impl<'a> Analyzer<'a> {
    /// Collects the data that all entry points share.
    pub fn new(module: &'a Module, constants: &'a Constants) -> Analyzer<'a> {
        let (decorations, calls) = (Cow::Owned(Decorations::new(module)), Cow::Owned(CallGraph::new(module)));
        Analyzer::made(module, constants, decorations, calls, Cow::Owned(Cfgs::default()))
    }

    /// Does the same for a caller that has these analyses already. `cfgs` may lack some functions.
    pub fn with(
        module: &'a Module,
        constants: &'a Constants,
        decorations: &'a Decorations,
        calls: &'a CallGraph,
        cfgs: &'a Cfgs,
    ) -> Analyzer<'a> {
        Analyzer::made(module, constants, Cow::Borrowed(decorations), Cow::Borrowed(calls), Cow::Borrowed(cfgs))
    }

    fn made(
        module: &'a Module,
        constants: &'a Constants,
        decorations: Cow<'a, Decorations>,
        calls: Cow<'a, CallGraph>,
        cfgs: Cow<'a, Cfgs>,
    ) -> Analyzer<'a> {
        let callbacks = program::callbacks(&calls, module.functions.len());
        let (function_numbers, numbers) = program::number_values(module);
        let layouts = leaves::LeafLayouts::new(module, constants);
        let sets = ExtSets::new(module);
        let writes = memory::Writes::new(module, &decorations, &sets, &callbacks);
        let recursive = calls.recursive();
        let from = summary::Summarizer {
            module,
            calls: &calls,
            layouts: &layouts,
            decorations: &decorations,
            writes: &writes,
            sets: &sets,
        };
        let summaries = from.run(&recursive);
        let marks = inst_flags::InstFlags::new(module, &layouts, &writes);
        Analyzer {
            needed: needed_values::needed(module, &calls, &layouts, &marks),
            marks,
            escaped: escaped(module, &calls, &layouts, &sets),
            sets,
            writes,
            summaries,
            layouts,
            callback_privates: privates_written(module, &callbacks),
            recursive,
            module,
            constants,
            decorations,
            calls,
            cfgs,
            function_numbers,
            numbers,
            callbacks,
        }
    }

    /// Returns the entry points of the module.
    pub fn entry_points(&self) -> Vec<EntryPoint> {
        entry_points(self.module, &self.decorations)
    }

    /// Returns the functions that instructions call implicitly, and their callees: indices into [`Module::functions`].
    pub fn callbacks(&self) -> &[usize] {
        &self.callbacks
    }

    /// Returns the call graph.
    pub fn calls(&self) -> &CallGraph {
        &self.calls
    }

    /// Returns true if an entry point reaches a function that calls itself. Such an entry point can't be analyzed.
    pub fn is_recursive(&self, entry: &EntryPoint) -> bool {
        let reached = self.calls.reachable(self.calls.function(entry.function));
        self.recursive.iter().any(|f| reached.contains(f))
    }

    /// Returns true if an entry point reaches an instruction that must be executed together. Otherwise there are no
    /// divergences and no assumptions.
    pub fn has_collectives(&self, entry: &EntryPoint) -> bool {
        let reached = self.calls.reachable(self.calls.function(entry.function));
        let blocks = reached.iter().flat_map(|f| &self.module.functions[*f].blocks);
        blocks.flat_map(|b| &b.insts).any(|r| self.marks.is_collective(*r))
    }

    /// Analyzes an entry point.
    pub fn analyze(&self, entry: &EntryPoint, options: Options) -> Result<Analysis, Refusal> {
        self.solved(entry, options, |solution| {
            let found = match solution.grid.is_single() {
                true => explain::Findings::default(),
                false => self.explainer(solution, options).run(),
            };
            self.answer(solution, found, options.facts)
        })
    }

    /// Returns the largest scope over which a value is uniform where it is defined, as [`Analysis::value`] does, and why it is not
    /// uniform over more: a chain from what differs to where values begin to differ, empty for a value that is uniform over
    /// the workgroup.
    pub fn explain(&self, entry: &EntryPoint, options: Options, id: Id) -> Result<(Uniformity, Vec<Step>), Refusal> {
        let options = Options { facts: true, ..options };
        self.solved(entry, options, |solution| {
            let is_single = solution.grid.is_single();
            let worst = self.numbers.get(id).filter(|_| !is_single).and_then(|number| solution.worst(number));
            worst.map_or((Uniformity::Workgroup, Vec::new()), |node| self.explainer(solution, options).value(node))
        })
    }

    fn explainer<'s, 'p, 'm>(
        &'s self,
        solution: &'s solve::Solution<'p, 'm>,
        options: Options,
    ) -> Explainer<'s, 'p, 'm> {
        Explainer::new(solution, &self.decorations, self.constants, !options.unreached)
    }

    /// Solves an entry point, and applies a function to the solution.
    fn solved<R>(
        &self,
        entry: &EntryPoint,
        options: Options,
        f: impl FnOnce(&solve::Solution<'_, '_>) -> R,
    ) -> Result<R, Refusal> {
        let function = self.calls.function(entry.function).ok_or(Refusal::NoFunction)?;
        if self.module.functions[function].blocks.is_empty() {
            return Err(Refusal::NoFunction);
        }
        let reached = self.calls.reachable([function]);
        let cycle: Vec<usize> = self.recursive.iter().copied().filter(|f| reached.contains(f)).collect();
        if !cycle.is_empty() {
            return Err(Refusal::Recursion(cycle));
        }
        let grid = shape::Grid::new(self.workgroup_size(entry), options.subgroup_size, self.is_kernel());
        let program = program::Program::new(
            self.module,
            &self.calls,
            &self.cfgs,
            &self.summaries,
            function,
            &self.function_numbers,
        );
        let context = build::BuildContext {
            module: self.module,
            program: &program,
            constants: self.constants,
            decorations: &self.decorations,
            layouts: &self.layouts,
            writes: &self.writes,
            escaped: &self.escaped,
            numbers: &self.numbers,
            grid,
            callback_privates: &self.callback_privates,
            needed: (!options.facts).then_some(&self.needed),
            marks: &self.marks,
            sets: &self.sets,
        };
        let values = build::Builder::new(context).run();
        let maximal = entry.mode(ExecutionMode::MaximallyReconvergesKHR).is_some();
        let subgroup_flow = maximal || entry.mode(ExecutionMode::SubgroupUniformControlFlowKHR).is_some();
        let mut solution = solve::Solution::new(&program, values, grid, (maximal, subgroup_flow));
        solution.run();
        Ok(f(&solution))
    }

    fn answer(&self, solution: &solve::Solution, found: explain::Findings, facts: bool) -> Analysis {
        let program = solution.program;
        let mut blocks: FxHashMap<Id, Uniformity> = FxHashMap::default();
        // Everything is uniform over a single invocation.
        let facts = facts && !solution.grid.is_single();
        let asked = if facts { program.points.len() as u32 } else { 0 };
        for s in 0..asked {
            if let Some(label) = self.module.inst(program.label(s)).result {
                let uniformity = blocks.entry(label).or_insert(Uniformity::Workgroup);
                *uniformity = (*uniformity).max(solution.point_uniformity(s));
            }
        }
        let mut values = self.module.id_map();
        for (at, instance) in program.instances.iter().enumerate().filter(|_| facts) {
            let f = program.function(at as u32);
            for r in f.params.iter().copied().chain(f.blocks.iter().flat_map(|b| b.insts.iter().copied())) {
                let Some(id) = self.module.inst(r).result else { continue };
                let Some(slot) = self.numbers.get(id).and_then(|n| instance.slot(n)) else { continue };
                let uniformity = solution.uniformities(slot).map(|(_, uniformity)| uniformity).max();
                let uniformity = uniformity.unwrap_or(Uniformity::Workgroup);
                let before = values.get(id).copied().unwrap_or(Uniformity::Workgroup);
                values.insert(id, uniformity.max(before));
            }
        }
        Analysis {
            divergences: found.divergences,
            assumed: found.assumed,
            defaults: found.defaults,
            checked: solution.graph.checks.iter().filter(|c| solution.live[c.point as usize]).count(),
            unfollowed: program.unfollowed.clone(),
            exhausted: solution.exhausted,
            values,
            blocks,
            edits: self.module.edits(),
        }
    }

    /// Returns true if the module is an OpenCL kernel.
    fn is_kernel(&self) -> bool {
        let has = |c: Capability| self.module.has_capability(c);
        has(Capability::Kernel) && !has(Capability::Shader)
    }

    /// Returns the size of a workgroup, if no specialization can change it.
    fn workgroup_size(&self, entry: &EntryPoint) -> Option<[u32; 3]> {
        let size = entry.workgroup_size?.values(self.constants);
        let mut out = [0; 3];
        for (slot, c) in out.iter_mut().zip(&size) {
            *slot = u32::try_from(c.fixed()?).ok()?;
        }
        Some(out)
    }
}

impl Analysis {
    /// Returns the scope over which a value is uniform where it is defined: the workgroup, if it is never defined or
    /// [`Options::facts`] was not set.
    pub fn value(&self, id: Id) -> Uniformity {
        self.values.get(id).copied().unwrap_or(Uniformity::Workgroup)
    }

    /// Returns the scope over which the block with a label is executed together: the workgroup, if it is never
    /// executed.
    pub fn block(&self, label: Id) -> Uniformity {
        self.blocks.get(&label).copied().unwrap_or(Uniformity::Workgroup)
    }

    /// Returns true if the module was edited since the analysis.
    pub fn is_stale(&self, module: &Module) -> bool {
        self.edits != module.edits()
    }
}

/// Returns the variables of storage class Function or Private whose address escapes: goes where the analysis can't
/// follow it.
fn escaped(module: &Module, calls: &CallGraph, layouts: &leaves::LeafLayouts, sets: &ExtSets) -> FxHashSet<Id> {
    let own = |id: Id| {
        let class = module.type_of(id).and_then(|t| layouts.storage(t));
        let classes = [StorageClass::Function, StorageClass::Private];
        class.is_some_and(|c| classes.contains(&c))
    };
    // Returns the variable, or a parameter that may be one.
    let root = |id: Id| coop_ir::pointers::root(module, id, |op| op.is_member_chain() || op == Op::CopyObject);
    let mut escaped = FxHashSet::default();
    let mut passed: Vec<(Id, Id)> = Vec::new();
    module.in_blocks(|_, inst| {
        if follows_all(inst.op) && !inst.opaque {
            return;
        }
        for (i, id) in inst.operands.iter().enumerate().filter_map(|(i, o)| Some((i, o.id()?))) {
            let is_call = inst.op == Op::FunctionCall;
            if !is_call && follows(sets, inst, i) || !own(id) {
                continue;
            }
            if is_call && i > 0 {
                let callee = inst.callee().and_then(|f| calls.function(f)).map(|f| &module.functions[f]);
                let mut params = callee.iter().flat_map(|f| &f.params).filter_map(|r| {
                    let p = module.inst(*r);
                    (p.op == Op::FunctionParameter).then_some(p.result)?
                });
                if let (Some(param), Some(root)) = (params.nth(i - 1), root(id)) {
                    passed.push((param, root));
                    continue;
                }
            }
            escaped.extend(root(id));
        }
        for word in inst.operands.iter().filter(|_| inst.opaque) {
            escaped.extend(Id::new(word.word()).filter(|id| own(*id)).and_then(root));
        }
    });
    loop {
        let before = escaped.len();
        for (param, arg) in &passed {
            if escaped.contains(param) {
                escaped.insert(*arg);
            }
        }
        if escaped.len() == before {
            return escaped;
        }
    }
}

/// Returns true for instructions that take no pointers except ones that the analysis follows.
fn follows_all(op: Op) -> bool {
    matches!(op, Op::Load | Op::CopyObject) || op.takes_no_pointer() || op.is_member_chain() || op.is_branch()
}

/// Returns true if the analysis follows a pointer through an operand.
fn follows(sets: &ExtSets, inst: &Inst, operand: usize) -> bool {
    match inst.op {
        Op::Load | Op::CopyObject => operand == 0,
        op if op.is_member_chain() => operand == 0,
        Op::Store => operand == 0,
        Op::CopyMemory => operand < 2,
        Op::LifetimeStart | Op::LifetimeStop => true,
        // Instructions that read or write objects, and notes. A vector is also written beside the object.
        Op::ExtInst | Op::ExtInstWithForwardRefsKHR => {
            let set = sets.of(inst);
            let does =
                inst.ext_instruction().zip(operand.checked_sub(2)).and_then(|(number, i)| set.pointer(number, i));
            set == ExtSet::Note || matches!(does, Some(ExtPointer::Writes | ExtPointer::Reads))
        }
        _ => false,
    }
}

/// Returns the Private variables that some functions may write.
fn privates_written(module: &Module, functions: &[usize]) -> Vec<Id> {
    let private = |r| module.inst(r).enumerant(0) == Some(StorageClass::Private);
    // Most modules have none.
    if functions.is_empty() || !module.globals_with(Op::Variable).any(private) {
        return Vec::new();
    }
    let insts = functions.iter().flat_map(|f| module.functions[*f].blocks.iter().flat_map(|b| b.insts.iter().copied()));
    let mut found = FxHashSet::default();
    let reads = |op: Op| op == Op::Load || op.is_member_chain();
    for inst in insts.map(|r| module.inst(r)).filter(|i| !reads(i.op)) {
        for id in inst.ids() {
            let root = memory::root(module, id);
            let private = |id: &Id| {
                let class = module.type_of(*id).and_then(|t| memory::storage(module, t));
                class == Some(StorageClass::Private)
            };
            found.extend(root.filter(private));
        }
    }
    let mut found: Vec<Id> = found.into_iter().collect();
    found.sort_unstable();
    found
}
