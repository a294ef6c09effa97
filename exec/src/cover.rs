//! Blocks, ways of branches and rounds of loops that a proof did not execute: what keeps control from them, and other cases
//! that may lead it there.
//!
//! A block that is not executed is behind a branch of one that is; the rounds of a loop are counted by the branches out of it. The
//! condition of such a branch is traced back to what it depends on: specialization constants, push constants, the dispatch, data. The cases to try change one of these at a time; whether such
//! a case is one that the module is made for, only a run says.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use coop_ir::cfg::Cfg;
use coop_ir::constant::{Constants, Specialization};
use coop_ir::pointers::root;
use coop_ir::spv::StorageClass;
use coop_ir::{Function, Id, Inst, Module, Op};

use crate::case::{Case, Number, PushPart};
use crate::interp::Blocks;

/// The most values that one condition is traced through.
const MOST_VALUES: usize = 4000;

/// The most parts of push constants that are changed.
const MOST_PUSHED: usize = 24;

/// An input that a branch depends on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Source {
    /// The specialization constant with this SpecId.
    Specialization(u32),
    /// Push constants.
    Push,
    /// Built-in inputs: which invocation it is, and of how many.
    Invocation,
    /// The contents of a buffer.
    Data,
    /// Shared memory.
    Shared,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Specialization(id) => write!(f, "specialization constant {id}"),
            Source::Push => f.write_str("push constants"),
            Source::Invocation => f.write_str("the invocation"),
            Source::Data => f.write_str("data"),
            Source::Shared => f.write_str("shared memory"),
        }
    }
}

/// A part of a module that a proof is to execute.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Goal {
    /// The block with this label.
    Block(Id),
    /// The way from the branch at the end of one block to another.
    Way(Id, Id),
    /// Three rounds in a row of the loop with this header.
    Rounds(Id),
}

impl Goal {
    /// Returns what a run left out.
    pub fn missed(blocks: &Blocks) -> BTreeSet<Goal> {
        let whole = blocks.missed.iter().map(|id| Goal::Block(*id));
        let ways = blocks.missed_ways.iter().map(|(from, to)| Goal::Way(*from, *to));
        whole.chain(ways).chain(blocks.short_loops.iter().map(|id| Goal::Rounds(*id))).collect()
    }
}

/// A part of a module that was not executed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unreached {
    /// The part.
    pub goal: Goal,
    /// Why.
    pub why: Why,
}

/// The reason why a block was not executed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Why {
    /// The block with this label was executed and branched elsewhere; its condition depends on these. Nothing: on constants.
    Branch(Id, BTreeSet<Source>),
    /// Blocks that were not executed either lead to it.
    Behind(Id),
    /// The function was not called.
    NotCalled(Id),
    /// No block leads to it.
    Unreachable,
    /// A branch that was executed decides; its condition depends on these. Nothing: on constants.
    Decided(BTreeSet<Source>),
}

impl fmt::Display for Unreached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.goal {
            Goal::Block(block) => write!(f, "{block}: ")?,
            Goal::Way(from, to) => write!(f, "the way from {from} to {to}: ")?,
            Goal::Rounds(header) => write!(f, "three rounds of the loop {header}: ")?,
        }
        let by = |sources: &BTreeSet<Source>| match sources.is_empty() {
            true => "a constant".to_owned(),
            false => sources.iter().map(Source::to_string).collect::<Vec<_>>().join(", "),
        };
        match &self.why {
            Why::Branch(from, sources) => write!(f, "{from} branches elsewhere, by {}", by(sources)),
            Why::Behind(other) => write!(f, "behind {other}"),
            Why::NotCalled(function) => write!(f, "function {function} is not called"),
            Why::Unreachable => f.write_str("unreachable"),
            Why::Decided(sources) => write!(f, "decided by {}", by(sources)),
        }
    }
}

/// Returns why each goal was not reached: blocks in the order of the module, then the others.
pub fn unreached(module: &Module, goals: &BTreeSet<Goal>) -> Vec<Unreached> {
    let block = |goal: &Goal| if let Goal::Block(id) = goal { Some(*id) } else { None };
    let missed: BTreeSet<Id> = goals.iter().filter_map(block).collect();
    let trace = Trace::new(module);
    let (mut out, mut others) = (Vec::new(), Vec::new());
    for function in &module.functions {
        let labels: Vec<Id> = function.blocks.iter().filter_map(|b| module.inst(b.label).result).collect();
        let own = |goal: &&Goal| match goal {
            Goal::Block(id) | Goal::Way(id, _) | Goal::Rounds(id) => labels.contains(id),
        };
        if !goals.iter().any(|goal| own(&goal)) {
            continue;
        }
        let cfg = Cfg::new(module, function);
        for block in labels.iter().filter(|label| missed.contains(label)) {
            out.push(Unreached { goal: Goal::Block(*block), why: trace.why(function, &cfg, *block, &missed) });
        }
        for goal in goals.iter().filter(own) {
            let conditions = match goal {
                Goal::Block(_) => continue,
                Goal::Way(from, _) => trace.condition(function, *from).into_iter().collect(),
                Goal::Rounds(header) => trace.exits(function, *header),
            };
            let sources = conditions.into_iter().flat_map(|condition| trace.sources(condition)).collect();
            others.push(Unreached { goal: *goal, why: Why::Decided(sources) });
        }
    }
    out.append(&mut others);
    out
}

/// Traces values back to inputs.
struct Trace<'a> {
    module: &'a Module,
    constants: Constants,
    /// The values stored to each variable.
    stored: BTreeMap<Id, Vec<Id>>,
    /// The arguments that calls give to each parameter.
    given: BTreeMap<Id, Vec<Id>>,
}

impl<'a> Trace<'a> {
    fn new(module: &'a Module) -> Trace<'a> {
        let (mut stored, mut given) = (BTreeMap::<Id, Vec<Id>>::new(), BTreeMap::<Id, Vec<Id>>::new());
        let parameters: BTreeMap<Id, Vec<Id>> = module
            .functions
            .iter()
            .filter_map(|f| {
                let own = f.params.iter().map(|r| module.inst(*r)).filter(|i| i.op == Op::FunctionParameter);
                Some((module.inst(f.def).result?, own.filter_map(|i| i.result).collect()))
            })
            .collect();
        module.in_blocks(|_, inst| {
            if let (Some(pointer), Some(value)) = (inst.accessed(), inst.stored())
                && let Some(variable) = root(module, pointer, Op::derives_pointer)
            {
                stored.entry(variable).or_default().push(value);
            }
            if let Some(parameters) = inst.callee().and_then(|callee| parameters.get(&callee)) {
                // The arguments are the last operands of a call; what an instruction adds itself comes before them.
                let arguments: Vec<Id> = inst.ids().collect();
                for (parameter, argument) in parameters.iter().rev().zip(arguments.iter().rev()) {
                    given.entry(*parameter).or_default().push(*argument);
                }
            }
        });
        Trace { module, constants: Constants::new(module, &Specialization::new()), stored, given }
    }

    fn why(&self, function: &Function, cfg: &Cfg, label: Id, missed: &BTreeSet<Id>) -> Why {
        let Some(block) = cfg.block(label) else { return Why::Unreachable };
        let before: Vec<Id> = cfg.predecessors(block).iter().filter_map(|p| cfg.label(*p)).collect();
        if let Some(from) = before.iter().find(|label| !missed.contains(label)) {
            let condition = self.condition(function, *from);
            return Why::Branch(*from, condition.map(|id| self.sources(id)).unwrap_or_default());
        }
        match (before.first(), self.module.inst(function.def).result) {
            (Some(other), _) => Why::Behind(*other),
            (None, Some(function)) if block == 0 => Why::NotCalled(function),
            _ => Why::Unreachable,
        }
    }

    /// Returns the condition of the branch at the end of a block.
    fn condition(&self, function: &Function, label: Id) -> Option<Id> {
        let own = function.blocks.iter().find(|b| self.module.inst(b.label).result == Some(label))?;
        self.module.inst(own.terminator()?).branch_condition()
    }

    /// Returns the conditions of the branches to the block behind a loop.
    fn exits(&self, function: &Function, header: Id) -> Vec<Id> {
        let own = function.blocks.iter().find(|b| self.module.inst(b.label).result == Some(header));
        let insts = own.into_iter().flat_map(|b| &b.insts).map(|r| self.module.inst(*r));
        let merge = insts.filter(|inst| inst.op == Op::LoopMerge).find_map(|inst| inst.ids().next());
        let ends = function.blocks.iter().filter_map(|b| b.terminator()).map(|r| self.module.inst(r));
        let leaves = ends.filter(|inst| merge.is_some_and(|merge| inst.ids().any(|id| id == merge)));
        leaves.filter_map(Inst::branch_condition).collect()
    }

    /// Returns the inputs that a value depends on.
    fn sources(&self, value: Id) -> BTreeSet<Source> {
        let (mut out, mut seen, mut work) = (BTreeSet::new(), BTreeSet::new(), vec![value]);
        while let Some(id) = work.pop() {
            if !seen.insert(id) || seen.len() > MOST_VALUES {
                continue;
            }
            if let Some(specs) = self.constants.specs(id) {
                out.extend(specs.iter().map(Source::Specialization));
                continue;
            }
            let Some(inst) = self.module.def_inst(id) else { continue };
            if let Some(class) = inst.variable_storage() {
                match class {
                    StorageClass::Input => _ = out.insert(Source::Invocation),
                    StorageClass::PushConstant => _ = out.insert(Source::Push),
                    StorageClass::Workgroup => _ = out.insert(Source::Shared),
                    StorageClass::Function | StorageClass::Private => {
                        work.extend(self.stored.get(&id).into_iter().flatten());
                        work.extend(inst.initializer());
                    }
                    _ => _ = out.insert(Source::Data),
                }
                continue;
            }
            if inst.op == Op::FunctionParameter {
                work.extend(self.given.get(&id).into_iter().flatten());
                continue;
            }
            if let Some(callee) = inst.callee() {
                self.module.in_blocks(|_, other| work.extend(other.returned().filter(|_| self.is_in(other, callee))));
            }
            // Values and variables have types; types and labels have none.
            work.extend(inst.ids().filter(|id| self.module.type_of(*id).is_some()));
        }
        out
    }

    fn is_in(&self, inst: &Inst, function: Id) -> bool {
        let own = self.module.functions.iter().find(|f| self.module.inst(f.def).result == Some(function));
        own.is_some_and(|f| f.insts().any(|r| std::ptr::eq(self.module.inst(r), inst)))
    }
}

/// Returns cases that differ from one in an input of the branches that keep control from blocks, with what differs.
pub fn others(module: &Module, case: &Case, unreached: &[Unreached]) -> Vec<(String, Case)> {
    let sources: BTreeSet<Source> = unreached
        .iter()
        .filter_map(|of| match &of.why {
            Why::Branch(_, sources) | Why::Decided(sources) => Some(sources),
            _ => None,
        })
        .flatten()
        .copied()
        .collect();
    let mut out = Vec::new();
    for source in &sources {
        match source {
            Source::Specialization(id) => specialized(module, case, *id, &mut out),
            Source::Push => pushed(case, &mut out),
            Source::Invocation => dispatched(case, &mut out),
            Source::Data | Source::Shared => {}
        }
    }
    if sources.contains(&Source::Data) || sources.contains(&Source::Shared) {
        for seed in 1..4 {
            let other = Case { seed: case.seed.wrapping_add(seed), ..case.clone() };
            out.push((format!("seed {}", other.seed), other));
        }
    }
    out
}

fn specialized(module: &Module, case: &Case, id: u32, out: &mut Vec<(String, Case)>) {
    let Ok(given) = case.specialization() else { return };
    let constants = Constants::new(module, &given);
    let own = module.globals.iter().map(|r| module.inst(*r)).filter(|inst| inst.op.is_spec_literal());
    let Some(inst) = own.into_iter().find(|inst| inst.result.and_then(|r| constants.spec_id(r)) == Some(id)) else {
        return;
    };
    let now = inst.result.and_then(|r| constants.get(r).value()).unwrap_or(0) as i64;
    let values: Vec<Number> = if inst.literal().is_none() {
        vec![Number::Bool(now == 0)]
    } else {
        let near = [0, 1, 2, 3, 4, now / 2, now - 1, now + 1, 2 * now];
        let near: BTreeSet<i64> = near.into_iter().filter(|v| *v >= 0 && *v != now).collect();
        near.into_iter().map(Number::Int).collect()
    };
    for value in values {
        let mut other = case.clone();
        let said = format!("specialization constant {id} = {}", said(&value));
        other.spec.insert(id.to_string(), value);
        out.push((said, other));
    }
}

fn said(number: &Number) -> String {
    match number {
        Number::Bool(value) => value.to_string(),
        Number::Int(value) => value.to_string(),
        Number::Float(value) => value.to_string(),
        Number::Text(text) => text.clone(),
    }
}

fn pushed(case: &Case, out: &mut Vec<(String, Case)>) {
    let mut tried = 0;
    for (part, PushPart { values, .. }) in case.push.iter().enumerate() {
        for (at, value) in values.iter().flatten().enumerate() {
            let Number::Int(now) = *value else { continue };
            tried += 1;
            if tried > MOST_PUSHED {
                return;
            }
            // A small number may be one of several modes.
            let near = if now <= 8 { vec![0, 1, 2, 3, 4] } else { vec![now - 1, now + 1, now / 2, 2 * now] };
            for new in near.into_iter().filter(|new| *new >= 0 && *new != now) {
                let mut other = case.clone();
                if let Some(value) = other.push[part].values.as_mut().and_then(|values| values.get_mut(at)) {
                    *value = Number::Int(new);
                }
                out.push((format!("push constant {at} of part {part} = {new}"), other));
            }
        }
    }
}

fn dispatched(case: &Case, out: &mut Vec<(String, Case)>) {
    for axis in 0..3 {
        let mut other = case.clone();
        other.workgroups[axis] += 1;
        let [x, y, z] = other.workgroups;
        out.push((format!("{x} x {y} x {z} workgroups"), other));
    }
}
