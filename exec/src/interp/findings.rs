//! The findings of a run, with the history that led to them.

use coop_ir::hash::{FxHashMap, FxHashSet};
use coop_ir::spv::{BuiltIn, Decoration, StorageClass};
use std::collections::VecDeque;
use std::fmt;

use coop_ir::{Id, InstRef, Module, Op};

use super::registers::Mask;
use super::types::Decorations;

/// The kind of a finding.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FindingKind {
    /// An instruction that all invocations of a scope must execute together, executed by some of them.
    NonUniformExecution,
    /// An operand that must be the same in all invocations of a scope, and is not.
    NonUniformOperand,
    /// An access outside of an object or a buffer.
    OutOfBounds,
    /// An access at an address that is not a multiple of the promised or required alignment.
    Misaligned,
    /// An undefined value that decides something or leaves the shader.
    Uninitialised,
    /// Two invocations access the same shared memory between two barriers, one of them writing.
    DataRace,
    /// Sizes of matrices or a tensor layout that do not match.
    MatrixSize,
    /// The step budget ran out.
    InfiniteLoop,
    /// `OpUnreachable` was reached.
    Unreachable,
    /// Undefined behavior of another kind: division by zero, an overflow that is not defined.
    Undefined,
    /// Replicated elements with different values: the result depends on the placement.
    Placement,
    /// Behavior that devices differ in, or that a specification leaves undefined while devices do what is meant.
    Portability,
}

impl FindingKind {
    /// A short name, for reports.
    pub fn name(self) -> &'static str {
        match self {
            FindingKind::NonUniformExecution => "non-uniform-execution",
            FindingKind::NonUniformOperand => "non-uniform-operand",
            FindingKind::OutOfBounds => "out-of-bounds",
            FindingKind::Misaligned => "misaligned",
            FindingKind::Uninitialised => "uninitialised",
            FindingKind::DataRace => "data-race",
            FindingKind::MatrixSize => "matrix-size",
            FindingKind::InfiniteLoop => "infinite-loop",
            FindingKind::Unreachable => "unreachable-reached",
            FindingKind::Undefined => "undefined-behaviour",
            FindingKind::Placement => "placement-dependent",
            FindingKind::Portability => "portability",
        }
    }

    /// Returns true if the run had no defined result.
    pub fn is_undefined_behaviour(self) -> bool {
        self != FindingKind::Portability
    }
}

impl fmt::Display for FindingKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Something that went wrong in a run.
#[derive(Clone, PartialEq, Debug)]
pub struct Finding {
    /// The kind.
    pub kind: FindingKind,
    /// The instruction.
    pub at: InstRef,
    /// The message for the first occurrence.
    pub message: String,
    /// The history: other instructions, and what they did.
    pub notes: Vec<(Option<InstRef>, String)>,
    /// The number of occurrences.
    pub count: u64,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind, self.message)?;
        if self.count > 1 {
            write!(f, " ({} times)", self.count)?;
        }
        for (at, note) in &self.notes {
            match at {
                Some(at) => write!(f, "\n  instruction {}: {note}", at.index())?,
                None => write!(f, "\n  {note}")?,
            }
        }
        Ok(())
    }
}

/// Collects findings, one for each instruction and kind.
#[derive(Default)]
pub(super) struct Findings {
    pub list: Vec<Finding>,
    index: FxHashMap<(FindingKind, InstRef), usize>,
}

impl Findings {
    /// Counts a finding. Returns true if its message is wanted, that is, if it is the first of its kind at the
    /// instruction.
    pub(super) fn wants(&mut self, kind: FindingKind, at: InstRef) -> bool {
        match self.index.get(&(kind, at)) {
            Some(i) => {
                self.list[*i].count += 1;
                false
            }
            None => true,
        }
    }

    pub(super) fn push(
        &mut self,
        kind: FindingKind,
        at: InstRef,
        message: String,
        notes: Vec<(Option<InstRef>, String)>,
    ) {
        self.index.insert((kind, at), self.list.len());
        self.list.push(Finding { kind, at, message, notes, count: 1 });
    }
}

/// A branch at which invocations diverged.
#[derive(Clone)]
pub(super) struct Split {
    pub at: InstRef,
    pub parts: Vec<Mask>,
}

/// The latest branches at which invocations diverged, and the points where invocations ended.
#[derive(Default)]
pub(super) struct History {
    splits: VecDeque<Split>,
    returned: Vec<(InstRef, Mask)>,
}

/// The number of branches that are kept.
const REMEMBERED: usize = 256;

impl History {
    pub(super) fn clear(&mut self) {
        self.splits.clear();
        self.returned.clear();
    }

    pub(super) fn split(&mut self, at: InstRef, parts: Vec<Mask>) {
        if self.splits.len() == REMEMBERED {
            self.splits.pop_front();
        }
        self.splits.push_back(Split { at, parts });
    }

    pub(super) fn returned(&mut self, at: InstRef, mask: &Mask) {
        match self.returned.iter_mut().find(|r| r.0 == at) {
            Some(r) => r.1.or(mask),
            None => self.returned.push((at, *mask)),
        }
    }

    /// Returns the latest branch that sent `a` and `b` to different blocks.
    pub(super) fn parted(&self, a: usize, b: usize) -> Option<InstRef> {
        let side = |s: &Split, lane: usize| s.parts.iter().position(|m| m.has(lane));
        self.splits
            .iter()
            .rev()
            .find(|s| matches!((side(s, a), side(s, b)), (Some(x), Some(y)) if x != y))
            .map(|s| s.at)
    }

    /// Returns the instruction at which an invocation left the entry point.
    pub(super) fn left(&self, lane: usize) -> Option<InstRef> {
        self.returned.iter().find(|r| r.1.has(lane)).map(|r| r.0)
    }
}

/// Abbreviates a list of invocations: `0 to 7, 12`.
pub(super) fn lane_list(lanes: impl Iterator<Item = usize>) -> String {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for l in lanes {
        match runs.last_mut() {
            Some(r) if r.1 + 1 == l => r.1 = l,
            _ => runs.push((l, l)),
        }
    }
    let more = runs.len() > 6;
    let mut parts: Vec<String> = runs
        .iter()
        .take(6)
        .map(|(a, b)| match b - a {
            0 => format!("{a}"),
            1 => format!("{a}, {b}"),
            _ => format!("{a} to {b}"),
        })
        .collect();
    if more {
        parts.push("...".into());
    }
    parts.join(", ")
}

/// Returns the name of an id, or its number.
pub(super) fn name_of(module: &Module, id: Id) -> String {
    let named = module.globals_with(Op::Name).find_map(|r| {
        let inst = module.inst(r);
        if inst.id(0) == Some(id) { inst.string(1).map(|s| s.0) } else { None }
    });
    // A block without an instance name has that of its type.
    let block = || {
        let variable = module.def_inst(id).filter(|i| i.op == Op::Variable)?;
        let pointee = module.def_inst(variable.ty?)?.id(1)?;
        Some(name_of(module, pointee)).filter(|n| !n[1..].starts_with(|c: char| c.is_ascii_digit()))
    };
    match named.filter(|n| !n.is_empty()) {
        Some(n) => format!("%{n}"),
        None if block().is_some() => block().unwrap_or_default(),
        None => format!("{id}"),
    }
}

/// Describes the origin of a value: the sources in the computation of `id` that can differ between invocations.
pub(super) fn sources(module: &Module, decorations: &Decorations, id: Id) -> String {
    let mut seen = FxHashSet::default();
    let mut work = VecDeque::from([id]);
    let mut found: Vec<String> = Vec::new();
    while let Some(id) = work.pop_front() {
        if !seen.insert(id) || seen.len() > 400 {
            continue;
        }
        let Some(inst) = module.def_inst(id) else { continue };
        let mut note = |text: String| {
            if !found.contains(&text) && found.len() < 5 {
                found.push(text);
            }
        };
        match inst.op {
            Op::Variable => match (decorations.word(id, Decoration::BuiltIn), inst.enumerant(0)) {
                (Some(b), _) => {
                    let name = BuiltIn(b).name().unwrap_or("?");
                    note(format!("built-in {name}"));
                }
                (
                    None,
                    Some(StorageClass::StorageBuffer | StorageClass::Uniform | StorageClass::PhysicalStorageBuffer),
                ) => note(format!("buffer {}", name_of(module, id))),
                (None, Some(StorageClass::Workgroup)) => note(format!("shared variable {}", name_of(module, id))),
                (None, Some(StorageClass::PushConstant)) => note("push constants".into()),
                // What was stored into the variable decides.
                _ => {
                    for f in &module.functions {
                        for r in f.insts() {
                            let store = module.inst(r);
                            if store.op == Op::Store && root(module, store.accessed()) == Some(id) {
                                work.extend(store.stored());
                            }
                        }
                    }
                }
            },
            Op::FunctionParameter => note(format!("parameter {}", name_of(module, id))),
            Op::FunctionCall => {
                note(format!("the result of {}", inst.callee().map_or("?".into(), |f| name_of(module, f))));
            }
            op if op.execution_scope().is_some() || op.is_atomic() => {
                note(format!("{op}"));
            }
            op if op.is_constant() || op.is_type() => {}
            _ => work.extend(inst.ids()),
        }
    }
    if found.is_empty() { "constants only".into() } else { found.join(", ") }
}

/// Returns the variable that a pointer points into.
fn root(module: &Module, id: Option<Id>) -> Option<Id> {
    let root = coop_ir::pointers::root(module, id?, |op| op != Op::Variable)?;
    (module.def_inst(root)?.op == Op::Variable).then_some(root)
}
