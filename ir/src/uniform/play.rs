//! Whether an instruction can be come to as a proof says: the program is played through with values that are made up.
//!
//! A proof says who does not execute an instruction if others do. It says nothing of how these come there: conditions
//! on the way may be such that no data leads there, `n | 2` is never less than 2. So a *way* is looked for: the
//! invocations of a workgroup walk through the program. What is true of a way that is found:
//!
//! 1. The branch of the proof, those on whose conditions the proof rests, and those that lead to one place only, go
//!    where their conditions say. All other branches go where they like, as uniformly as their conditions are, and in
//!    each round again: the proof holds whatever they do.
//! 2. Conditions are computed from what invocations and built-ins are, and from numbers that are made up for what is read
//!    (the same for one place in memory, which nobody writes), for arguments and for elements of matrices.
//! 3. Invocations are in the places where the interpreter has them if they meet as early as they can (see
//!    [`crate::cfg::Order`]), and subgroup instructions are computed over those that are there.
//! 4. At its end the instruction is executed by some invocations of an instance, and not by one that the proof names.
//!
//! So whoever lets data decide the other branches sees it happen with the data of [`Way`].

use super::Uniformity;
use super::graph::{End, NONE};
use super::lanes::Pair;
use super::nodes::Kind;
use super::shape::{Arg, Shape, fold};
use super::solve::Solved;
use crate::cfg::{Case, Order};
use crate::decorate::Decorations;
use crate::grammar::Op;
use crate::module::{Id, InstRef};
use rustc_hash::{FxHashMap, FxHashSet, FxHasher};
use smallvec::SmallVec;
use spirv::BuiltIn;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};

/// So many trials for one way.
const TRIALS: u64 = 256;
/// Nodes and spots times invocations, in all trials for one way.
const MAX_WORK: u64 = 3_000_000;
/// The same for all ways of an entry point.
const MAX_ALL: u64 = 100_000_000;
/// In so many rounds a branch may go somewhere else; after that where it went in the last of these.
pub const TURNS: u32 = 6;

/// How it comes to something that is not uniform.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Way {
    /// The branches that go where their conditions say.
    pub kept: Vec<InstRef>,
    /// Over what the conditions of branches, and elements of matrices, are the same, in all calls.
    pub over: Vec<(InstRef, Uniformity)>,
    /// Where the others go.
    pub turns: Vec<Turn>,
    /// What was read from memory: the variable or argument, the last index, and what was there.
    pub memory: Vec<(Id, u64, u64)>,
    /// What arguments of the entry point and elements of matrices were: the instruction, which invocation or subgroup,
    /// and the number.
    pub numbers: Vec<(InstRef, u32, u64)>,
    /// How many workgroups there were.
    pub workgroups: [u32; 3],
}

/// Where a branch went.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Turn {
    /// The branch.
    pub at: InstRef,
    /// How often it had been come to before in the same call, at most [`TURNS`] - 1; 0 for branches outside of loops.
    pub round: u32,
    /// The invocation or the subgroup that went, or 0 if all of the workgroup did.
    pub group: u32,
    /// The label that it went to.
    pub to: Id,
}

/// What a way must lead to.
pub(super) struct Goal<'a> {
    /// The branch that decides.
    pub(super) branch: Option<u32>,
    pub(super) spot: u32,
    pub(super) scope: Uniformity,
    /// The branches on whose conditions the proof rests.
    pub(super) asked: &'a FxHashSet<u32>,
    /// Those that are to disagree, if they are known.
    pub(super) pair: Option<Pair>,
    /// Who can't come to the spot.
    pub(super) never: &'a [bool],
    pub(super) round: u64,
    /// The operand that must differ, if it is one.
    pub(super) differ: Option<Differing>,
}

impl<'a> Goal<'a> {
    /// That two invocations execute something with different operands.
    pub(super) fn operand(
        spot: u32,
        scope: Uniformity,
        pair: Pair,
        differ: Differing,
        asked: &'a FxHashSet<u32>,
    ) -> Goal<'a> {
        let (pair, round) = (Some(pair), pair.round);
        Goal { branch: None, spot, scope, asked, pair, never: &[], round, differ: Some(differ) }
    }
}

/// A value that must differ.
#[derive(Clone, Copy)]
pub(super) struct Differing {
    pub(super) node: u32,
    /// Below this, what is made of it differs too.
    pub(super) exact: u64,
}

/// Plays programs through.
pub(super) struct Player<'s, 'p, 'm> {
    solved: &'s Solved<'p, 'm>,
    decorations: &'s Decorations,
    /// By spot and by edge, when it is its turn.
    turn: Vec<u32>,
    edge_turn: Vec<u32>,
    /// Branches that lead to one place, somewhere.
    closed: FxHashSet<InstRef>,
    /// Over what branches' conditions, and elements of matrices, are the same.
    over: FxHashMap<InstRef, Uniformity>,
    /// Work that is left.
    left: Cell<u64>,
}

/// An index into memory.
#[derive(Clone, Copy)]
enum Index {
    Constant(u64),
    Node(u32),
}

/// What does not change from trial to trial.
struct Plan<'a> {
    goal: &'a Goal<'a>,
    /// Over what branches' conditions are the same in the calls that the goal is in.
    over: FxHashMap<InstRef, Uniformity>,
    kept: FxHashSet<InstRef>,
    /// By node, where its values are, if they must be known.
    slots: FxHashMap<u32, usize>,
    /// Numbers that what is made up is compared with.
    constants: Vec<u64>,
    /// By spot, how far it is to the branch, and to the goal.
    to_branch: Vec<u32>,
    to_goal: Vec<u32>,
}

/// One trial.
struct Trial<'a> {
    number: u64,
    plan: &'a Plan<'a>,
    values: Vec<Option<u64>>,
    /// How often each invocation began each frame.
    calls: FxHashMap<(u32, u32), u32>,
    /// By spot, invocation and call, how often it came to the branch.
    visits: FxHashMap<(u32, u32, u32), u32>,
    /// Who has come to the branch.
    passed: Vec<bool>,
    waiting: BTreeMap<u32, (u32, Vec<(u32, u32)>)>,
    turns: FxHashMap<(InstRef, u32, u32), Id>,
    memory: FxHashMap<(Id, SmallVec<[u64; 2]>), u64>,
    numbers: FxHashMap<(InstRef, u32), u64>,
    workgroups: [u32; 3],
    workgroup: [u64; 3],
    rolls: u64,
    work: u64,
}

impl<'s, 'p, 'm> Player<'s, 'p, 'm> {
    pub(super) fn new(solved: &'s Solved<'p, 'm>, decorations: &'s Decorations) -> Player<'s, 'p, 'm> {
        let program = solved.program;
        let (turn, edge_turn) = turns(solved);
        let (mut closed, mut over) = (FxHashSet::default(), FxHashMap::default());
        for s in (0..program.spots.len() as u32).filter(|s| solved.live[*s as usize]) {
            let Some(at) = program.terminator(s) else { continue };
            if program.out(s).any(|e| !solved.regions.taken[e as usize]) {
                closed.insert(at);
            }
            let condition = solved.graph.conditions[s as usize];
            let of = if condition == NONE { Uniformity::Divergent } else { node(solved, condition).over };
            raise(&mut over, at, of);
        }
        for (n, node) in solved.graph.nodes.iter().enumerate() {
            if let Some(at) = node.inst.filter(|_| solved.graph.alias[n] == n as u32) {
                raise(&mut over, at, node.over);
            }
        }
        Player { solved, decorations, turn, edge_turn, closed, over, left: Cell::new(MAX_ALL) }
    }

    /// Looks for a way.
    pub(super) fn play(&self, goal: &Goal) -> Option<(Pair, Way)> {
        let program = self.solved.program;
        let mut kept = self.closed.clone();
        kept.extend(goal.asked.iter().chain(&goal.branch).filter_map(|s| program.terminator(*s)));
        let mut plan = Plan {
            goal,
            over: self.over_in_calls(goal.spot),
            kept,
            slots: FxHashMap::default(),
            constants: Vec::new(),
            to_branch: goal.branch.map_or_else(Vec::new, |b| self.distances(b)),
            to_goal: self.distances(goal.spot),
        };
        self.collect(&mut plan);
        let mut work = 0;
        for number in 0..TRIALS {
            let mut trial = Trial::new(self, &plan, number);
            let found = self.trial(&mut trial);
            work += trial.work;
            self.left.set(self.left.get().saturating_sub(trial.work));
            if let Some(pair) = found {
                let mut way = trial.way();
                let over = self.over.iter().filter(|(at, _)| self.is_data(**at));
                way.over = over.map(|(at, of)| (*at, plan.over.get(at).copied().unwrap_or(*of))).collect();
                way.over.sort_unstable();
                return Some((pair, way));
            }
            if work > MAX_WORK || self.left.get() == 0 {
                break;
            }
        }
        None
    }

    /// Over what the conditions of branches are the same in the calls around a spot: in others of the same functions they
    /// may be less uniform.
    fn over_in_calls(&self, spot: u32) -> FxHashMap<InstRef, Uniformity> {
        let program = self.solved.program;
        let mut over = FxHashMap::default();
        let mut frame = program.spot(spot).frame;
        loop {
            for s in (0..program.spots.len() as u32).filter(|s| program.spot(*s).frame == frame) {
                let condition = self.solved.graph.conditions[s as usize];
                if let Some(at) = program.terminator(s).filter(|_| condition != NONE && self.solved.live[s as usize]) {
                    raise(&mut over, at, node(self.solved, condition).over);
                }
            }
            match program.frames[frame as usize].call {
                NONE => return over,
                call => frame = program.spot(call).frame,
            }
        }
    }

    /// Whether who lets data decide asks how uniform an instruction is.
    fn is_data(&self, at: InstRef) -> bool {
        matches!(self.solved.program.module.inst(at).op, Op::BranchConditional | Op::Switch | Op::CompositeExtract)
    }

    /// The nodes that must be known, and the constants that they are made of.
    fn collect(&self, plan: &mut Plan) {
        let solved = self.solved;
        let graph = &solved.graph;
        let spots = (0..solved.program.spots.len() as u32).filter(|s| solved.live[*s as usize]);
        let kept = spots.filter(|s| solved.program.terminator(*s).is_some_and(|r| plan.kept.contains(&r)));
        let conditions = kept.map(|s| graph.conditions[s as usize]).filter(|c| *c != NONE);
        let mut work: Vec<u32> = conditions.chain(plan.goal.differ.map(|d| d.node)).map(|n| graph.find(n)).collect();
        let mut seen = FxHashSet::default();
        while let Some(n) = work.pop() {
            if !seen.insert(n) {
                continue;
            }
            if let Shape::Const(v) = node(solved, n).shape {
                plan.constants.push(v);
            }
            if node(solved, n).shape.is_exact() || self.is_made_up(n) {
                continue;
            }
            let slot = plan.slots.len();
            plan.slots.insert(n, slot);
            match node(solved, n).kind {
                Kind::Load { .. } => {
                    let indices = self.place(n).map(|p| p.1).unwrap_or_default();
                    work.extend(indices.iter().filter_map(|i| if let Index::Node(n) = i { Some(*n) } else { None }));
                }
                _ => work.extend(graph.operands(n).map(|(op, _)| op)),
            }
        }
        plan.constants.sort_unstable();
        plan.constants.dedup();
    }

    /// Whether a number is made up for a node, the same each time.
    fn is_made_up(&self, n: u32) -> bool {
        let node = node(self.solved, n);
        let op = node.inst.map(|r| self.solved.program.module.inst(r).op);
        match node.kind {
            Kind::Undef | Kind::Fixed => true,
            Kind::Max => !op.is_some_and(is_conversion) && op != Some(Op::GroupNonUniformBallotBitCount),
            Kind::Load { .. } => self.place(n).is_none(),
            _ => false,
        }
    }

    /// Where a load reads: the variable or the argument, and the indices.
    fn place(&self, n: u32) -> Option<(Id, SmallVec<[Index; 2]>)> {
        let (solved, module) = (self.solved, self.solved.program.module);
        let inst = module.inst(node(solved, n).inst?);
        let pointer = inst.id(0).filter(|_| inst.op == Op::Load)?;
        let chain = module.def_inst(pointer)?;
        let (address, _) = solved.graph.operands(n).next()?;
        let chains = [Op::AccessChain, Op::InBoundsAccessChain, Op::PtrAccessChain, Op::InBoundsPtrAccessChain];
        if !chains.contains(&chain.op) {
            let plain = matches!(chain.op, Op::Variable | Op::FunctionParameter);
            return plain.then(|| (pointer, SmallVec::new()));
        }
        let base = chain.id(0)?;
        module.def_inst(base).filter(|i| matches!(i.op, Op::Variable | Op::FunctionParameter))?;
        let mut nodes = solved.graph.operands(address).map(|(op, _)| op);
        let mut indices = SmallVec::new();
        for id in chain.ids_from(1) {
            let constant = module.def_inst(id).filter(|i| i.op.is_constant());
            indices.push(match constant {
                Some(c) => Index::Constant(u64::from(c.word(0)?)),
                None => Index::Node(nodes.next()?),
            });
        }
        nodes.next().is_none().then_some((base, indices))
    }

    /// How many spots it is to one.
    fn distances(&self, to: u32) -> Vec<u32> {
        let (program, taken) = (self.solved.program, &self.solved.regions.taken);
        let mut found = vec![u32::MAX; program.spots.len()];
        found[to as usize] = 0;
        let mut queue = std::collections::VecDeque::from([to]);
        while let Some(s) = queue.pop_front() {
            for e in program.into(s).iter().filter(|e| taken[**e as usize]) {
                let from = program.edge(*e).from;
                if found[from as usize] == u32::MAX {
                    found[from as usize] = found[s as usize] + 1;
                    queue.push_back(from);
                }
            }
        }
        found
    }

    /// The invocation, or the subgroup, that goes or has a value.
    fn group(&self, over: Uniformity, lane: u32) -> u32 {
        match over {
            Uniformity::Workgroup => 0,
            Uniformity::Subgroup => lane / self.solved.grid.subgroup as u32,
            Uniformity::Divergent => lane,
        }
    }

    /// Plays the program through once.
    fn trial(&self, t: &mut Trial) -> Option<Pair> {
        let lanes = self.solved.grid.lanes as u32;
        t.waiting.insert(self.turn[0], (0, (0..lanes).map(|l| (l, NONE)).collect()));
        while let Some((_, (spot, mut here))) = t.waiting.pop_first() {
            here.sort_unstable();
            t.work += 4 * here.len() as u64;
            self.execute(t, spot, &here);
            if spot == t.plan.goal.spot
                && let Some(pair) = self.reached(t, &here)
            {
                return Some(pair);
            }
            if Some(spot) == t.plan.goal.branch {
                here.iter().for_each(|(l, _)| t.passed[*l as usize] = true);
            }
            for (lane, _) in &here {
                if let Some(e) = self.leave(t, spot, *lane) {
                    let to = self.solved.program.edge(e).to;
                    let at = t.waiting.entry(self.edge_turn[e as usize]).or_insert_with(|| (to, Vec::new()));
                    at.1.push((*lane, e));
                }
            }
            if t.work > MAX_WORK / 8 {
                return None;
            }
        }
        None
    }

    /// Whether those who are here are not all.
    fn reached(&self, t: &mut Trial, here: &[(u32, u32)]) -> Option<Pair> {
        let (grid, goal) = (&self.solved.grid, t.plan.goal);
        let is_here = |l: usize| here.iter().any(|h| h.0 as usize == l);
        if let Some(d) = goal.differ {
            let pair = goal.pair.filter(|p| is_here(p.one) && is_here(p.other))?;
            let [a, b] = [pair.one, pair.other].map(|l| self.value(t, d.node, l as u32));
            return (a? != b? && a?.max(b?) <= d.exact).then_some(pair);
        }
        if let Some(pair) = goal.pair.filter(|p| is_here(p.one) && !is_here(p.other)) {
            return Some(pair);
        }
        let step = if goal.scope == Uniformity::Workgroup { grid.lanes } else { grid.subgroup };
        (0..grid.lanes).step_by(step.max(1)).find_map(|first| {
            let all = first..(first + step).min(grid.lanes);
            let other = all.clone().find(|l| goal.never.get(*l) == Some(&true))?;
            let one = all.clone().find(|l| is_here(*l))?;
            (!is_here(other)).then_some(Pair { one, other, round: goal.round })
        })
    }

    /// Finds the values of a spot's nodes.
    fn execute(&self, t: &mut Trial, spot: u32, here: &[(u32, u32)]) {
        let (solved, lanes) = (self.solved, self.solved.grid.lanes);
        let graph = &solved.graph;
        let program = solved.program;
        let frame = program.spot(spot).frame;
        if spot == program.first(frame, 0) {
            here.iter().for_each(|(l, _)| *t.calls.entry((frame, *l)).or_default() += 1);
        }
        let wanted: SmallVec<[(u32, usize); 8]> =
            solved.nodes_in(spot).iter().filter_map(|n| Some((*n, *t.plan.slots.get(n)?))).collect();
        let phis = wanted.iter().filter(|(n, _)| graph.nodes[*n as usize].kind == Kind::Phi);
        let mut along: Vec<(usize, Option<u64>)> = Vec::new();
        for (n, slot) in phis {
            for (l, e) in here {
                let from = graph.operands(*n).find(|(_, of)| *of == Some(*e));
                let v = from.and_then(|(op, _)| self.value(t, op, *l));
                along.push((slot * lanes + *l as usize, v));
            }
        }
        t.work += along.len() as u64;
        along.into_iter().for_each(|(at, v)| t.values[at] = v);
        for (n, slot) in wanted {
            let kind = graph.nodes[n as usize].kind;
            if kind == Kind::Phi {
                continue;
            }
            t.work += here.len() as u64;
            for (l, _) in here {
                let v = self.compute(t, n, *l, here);
                t.values[slot * lanes + *l as usize] = v;
            }
        }
    }

    fn compute(&self, t: &mut Trial, n: u32, lane: u32, here: &[(u32, u32)]) -> Option<u64> {
        let solved = self.solved;
        let node = node(solved, n);
        let mask = |v: u64| match node.width {
            0 => v & 0xffff_ffff,
            w @ 1..64 => v & ((1 << w) - 1),
            _ => v,
        };
        match node.kind {
            Kind::Fold(f) => {
                let ops: SmallVec<[u32; 4]> = solved.graph.operands(n).map(|(op, _)| op).collect();
                let shapes: SmallVec<[Shape; 4]> =
                    ops.iter().map(|op| self.value(t, *op, lane).map_or(Shape::Unknown, Shape::Const)).collect();
                let args: SmallVec<[Arg; 4]> = shapes
                    .iter()
                    .zip(&ops)
                    .map(|(s, op)| match u32::from(solved.graph.nodes[*op as usize].width) {
                        // An argument of which nothing is known: numbers are made up for it.
                        0 => (s, Uniformity::Divergent, 32),
                        w => (s, Uniformity::Divergent, w),
                    })
                    .collect();
                match fold(&solved.grid, f, u32::from(node.width), &args).0 {
                    Shape::Const(v) => Some(v),
                    _ => None,
                }
            }
            Kind::Max => {
                let (op, _) = solved.graph.operands(n).last()?;
                let v = self.value(t, op, lane)?;
                let counts = solved.program.module.inst(node.inst?).op == Op::GroupNonUniformBallotBitCount;
                Some(if counts { u64::from(v.count_ones()) } else { v })
            }
            Kind::Load { .. } => {
                let (base, indices) = self.place(n)?;
                let indices: Option<SmallVec<[u64; 2]>> = indices
                    .iter()
                    .map(|i| match i {
                        Index::Constant(v) => Some(*v),
                        Index::Node(n) => self.value(t, *n, lane),
                    })
                    .collect();
                let key = (base, indices?);
                let v = mask(t.choose(&key));
                Some(*t.memory.entry(key).or_insert(v))
            }
            Kind::Group(_) => self.grouped(t, n, lane, here).map(mask),
            _ => None,
        }
    }

    /// What a subgroup instruction gives those who execute it.
    fn grouped(&self, t: &mut Trial, n: u32, lane: u32, here: &[(u32, u32)]) -> Option<u64> {
        let (graph, size) = (&self.solved.graph, self.solved.grid.subgroup as u32);
        let inst = self.solved.program.module.inst(node(self.solved, n).inst?);
        let all: SmallVec<[u32; 64]> = here.iter().map(|h| h.0).filter(|l| l / size == lane / size).collect();
        let first = *all.first()?;
        let mut ops = graph.operands(n).map(|(op, _)| op);
        let Some(op) = ops.next() else {
            return (inst.op == Op::GroupNonUniformElect).then_some(u64::from(first == lane));
        };
        let from = |t: &mut Trial, other: u32| all.contains(&other).then(|| self.value(t, op, other)).flatten();
        let named = ops.next().and_then(|n| self.value(t, n, lane));
        let values: Option<SmallVec<[u64; 64]>> = all.iter().map(|l| self.value(t, op, *l)).collect();
        let part = |values: &[u64]| -> SmallVec<[u64; 64]> {
            let wanted = |l: u32| match inst.word(1) {
                Some(1) => l <= lane,
                Some(2) => l < lane,
                _ => true,
            };
            all.iter().zip(values).filter(|(l, _)| wanted(**l)).map(|(_, v)| *v).collect()
        };
        Some(match inst.op {
            Op::GroupNonUniformAll => u64::from(values?.iter().all(|v| *v != 0)),
            Op::GroupNonUniformAny => u64::from(values?.iter().any(|v| *v != 0)),
            Op::GroupNonUniformBroadcastFirst => from(t, first)?,
            Op::GroupNonUniformBroadcast | Op::GroupNonUniformShuffle => {
                let other = u32::try_from(named?).ok().filter(|o| *o < size)?;
                from(t, lane / size * size + other)?
            }
            Op::GroupNonUniformShuffleXor => {
                let other = u32::try_from(named?).ok().filter(|o| *o < size)?;
                from(t, lane / size * size + ((lane % size) ^ other))?
            }
            Op::GroupNonUniformIAdd => part(&values?).iter().fold(0, |a, b| a.wrapping_add(*b)),
            Op::GroupNonUniformUMax => part(&values?).iter().copied().max().unwrap_or(0),
            Op::GroupNonUniformUMin => part(&values?).iter().copied().min().unwrap_or(u64::from(u32::MAX)),
            Op::GroupNonUniformBallot if size <= 64 => {
                let bits = all.iter().zip(values?).map(|(l, v)| u64::from(v != 0) << (l % size));
                bits.fold(0, |a, b| a | b)
            }
            Op::GroupNonUniformBallotBitCount => {
                let bits = self.value(t, op, lane)?;
                let below = |n: u32| if n >= 64 { u64::MAX } else { (1 << n) - 1 };
                u64::from(match inst.word(1) {
                    Some(1) => (bits & below(lane % size + 1)).count_ones(),
                    Some(2) => (bits & below(lane % size)).count_ones(),
                    _ => bits.count_ones(),
                })
            }
            // Others are made up, as uniform as they are.
            _ => return Some(self.number(t, n, lane)),
        })
    }

    /// What a node is for an invocation.
    fn value(&self, t: &mut Trial, n: u32, lane: u32) -> Option<u64> {
        let solved = self.solved;
        let n = solved.graph.find(n);
        let node = node(solved, n);
        if let Some(v) = node.shape.value(lane as usize) {
            return Some(v);
        }
        if let Some(slot) = t.plan.slots.get(&n) {
            return t.values[slot * solved.grid.lanes + lane as usize];
        }
        if node.kind == Kind::Undef {
            return None;
        }
        if let Some(v) = self.source(t, n, lane) {
            return Some(v);
        }
        if let Shape::Offset { lanes, base, .. } = &node.shape {
            let first = t.choose((n, self.group(*base, lane)));
            return Some(u64::from(lanes[lane as usize].wrapping_add(first as u32)));
        }
        Some(self.number(t, n, lane))
    }

    /// A number that is made up for a node, as uniform as it is.
    fn number(&self, t: &mut Trial, n: u32, lane: u32) -> u64 {
        let node = node(self.solved, n);
        let over = node.inst.and_then(|r| self.over.get(&r)).copied().unwrap_or(node.over).max(node.over);
        let group = self.group(over, lane);
        let element = node.inst.is_some_and(|r| self.solved.program.module.inst(r).op == Op::CompositeExtract);
        let v = match node.inst {
            Some(at) => t.choose((at, group)),
            None => t.choose((n, group)),
        };
        let v = match node.width {
            // Floats that are integers keep so many bits.
            0 if element => v & 0xffff,
            0 => v & 0xffff_ffff,
            w @ 1..64 => v & ((1 << w) - 1),
            _ => v,
        };
        if let Some(at) = node.inst {
            t.numbers.insert((at, group), v);
        }
        v
    }

    /// A built-in of which only the place in a workgroup is known.
    fn source(&self, t: &Trial, n: u32, lane: u32) -> Option<u64> {
        let solved = self.solved;
        let grid = &solved.grid;
        let (variable, axis) = *solved.graph.source_of.get(&n)?;
        let axis = axis as usize;
        match BuiltIn::from_u32(self.decorations.built_in(variable)?)? {
            BuiltIn::NumSubgroups => grid.size.map(|_| grid.lanes.div_ceil(grid.subgroup) as u64),
            BuiltIn::SubgroupSize | BuiltIn::SubgroupMaxSize => Some(grid.subgroup as u64),
            BuiltIn::WorkgroupId => t.workgroup.get(axis).copied(),
            BuiltIn::NumWorkgroups => t.workgroups.get(axis).map(|n| u64::from(*n)),
            BuiltIn::GlobalInvocationId => {
                let size = grid.size?;
                let first = *t.workgroup.get(axis)? * u64::from(*size.get(axis)?);
                Some(match &node(solved, n).shape {
                    Shape::Offset { lanes, .. } => first + u64::from(lanes[lane as usize]),
                    _ => first,
                })
            }
            _ => None,
        }
    }

    /// Along which edge an invocation goes on.
    fn leave(&self, t: &mut Trial, spot: u32, lane: u32) -> Option<u32> {
        let (solved, program) = (self.solved, self.solved.program);
        let edges: SmallVec<[u32; 4]> = program.out(spot).collect();
        if edges.len() < 2 {
            return edges.first().copied();
        }
        let condition = solved.graph.conditions[spot as usize];
        let at = program.terminator(spot)?;
        if t.plan.kept.contains(&at) && condition != NONE {
            let v = self.value(t, condition, lane)?;
            let is = |e: &&u32| match program.edge(**e).case {
                Case::True => v != 0,
                Case::False => v == 0,
                Case::Value(x) => x == v,
                _ => false,
            };
            let default = || edges.iter().find(|e| program.edge(**e).case == Case::Default);
            return edges.iter().find(is).or_else(default).copied();
        }
        let over = t.plan.over.get(&at).or(self.over.get(&at)).copied().unwrap_or(Uniformity::Divergent);
        let round = if self.comes_again(spot) {
            let call = t.calls.get(&(program.spot(spot).frame, lane)).copied().unwrap_or(0);
            let visits = t.visits.entry((spot, lane, call)).or_default();
            *visits += 1;
            (*visits - 1).min(TURNS - 1)
        } else {
            0
        };
        let key = (at, round, self.group(over, lane));
        let label = |e: u32| program.module.inst(program.label(program.edge(e).to)).result;
        if let Some(to) = t.turns.get(&key).copied() {
            return edges.iter().copied().find(|e| label(*e) == Some(to));
        }
        let open = |e: &&u32| program.terminator_op(program.edge(**e).to) != Some(Op::Unreachable);
        let open: SmallVec<[u32; 4]> = edges.iter().filter(open).copied().collect();
        let to = if t.passed[lane as usize] || t.plan.goal.branch.is_none() || t.number % 16 == 15 {
            &t.plan.to_goal
        } else {
            &t.plan.to_branch
        };
        let far = |e: &u32| to[program.edge(*e).to as usize];
        let nearest = open.iter().map(far).min()?;
        // Others may go elsewhere.
        let same = t.plan.goal.pair.is_some_and(|p| self.group(over, p.one as u32) == key.2);
        let strays = match t.number % 8 {
            0 => 0,
            1 | 2 => 16,
            3 | 4 => 64,
            5 if !same => 160,
            _ => 128,
        };
        let stray = t.roll() % 256 < strays;
        let last = round == TURNS - 1;
        let l = program.spot(spot).in_loop;
        let out = open.iter().filter(|e| last && l != NONE && !program.in_loop(program.edge(**e).to, l));
        let chosen: SmallVec<[u32; 4]> = match out.copied().collect::<SmallVec<[u32; 4]>>() {
            out if !out.is_empty() => out,
            _ if stray || nearest == u32::MAX => open.clone(),
            _ => open.iter().copied().filter(|e| far(e) == nearest).collect(),
        };
        let e = chosen[t.roll() as usize % chosen.len()];
        t.turns.insert(key, label(e)?);
        Some(e)
    }

    /// Whether a spot is in a loop of its own function.
    fn comes_again(&self, spot: u32) -> bool {
        let program = self.solved.program;
        let own = |frame: u32| match program.frames[frame as usize].call {
            NONE => NONE,
            call => program.spot(call).in_loop,
        };
        let s = program.spot(spot);
        s.in_loop != own(s.frame)
    }
}

impl<'a> Trial<'a> {
    fn new(player: &Player, plan: &'a Plan<'a>, number: u64) -> Trial<'a> {
        let lanes = player.solved.grid.lanes;
        let mut t = Trial {
            number,
            plan,
            values: vec![None; plan.slots.len() * lanes],
            calls: FxHashMap::default(),
            visits: FxHashMap::default(),
            passed: vec![false; lanes],
            waiting: BTreeMap::new(),
            turns: FxHashMap::default(),
            memory: FxHashMap::default(),
            numbers: FxHashMap::default(),
            workgroups: [1; 3],
            workgroup: [0; 3],
            rolls: 0,
            work: (plan.slots.len() * lanes / 8) as u64,
        };
        let all = [[1, 1, 1], [2, 1, 1], [4, 1, 1], [2, 2, 1], [1, 4, 1]];
        t.workgroups = all[t.roll() as usize % all.len()];
        for axis in 0..3 {
            t.workgroup[axis] = t.roll() % u64::from(t.workgroups[axis]);
        }
        t
    }

    fn hash(&self, key: impl Hash) -> u64 {
        let mut h = FxHasher::default();
        (self.number, key).hash(&mut h);
        // The hasher leaves the lower bits little mixed.
        let h = h.finish() ^ 0x9e37_79b9_7f4a_7c15;
        let h = (h ^ (h >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let h = (h ^ (h >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        h ^ (h >> 31)
    }

    /// Any number, another one each time.
    fn roll(&mut self) -> u64 {
        self.rolls += 1;
        self.hash(self.rolls)
    }

    /// A number: small, close to one that it may be compared with, or any.
    fn choose(&self, key: impl Hash) -> u64 {
        let h = self.hash(key);
        let (kind, n) = (h % 8, h >> 8);
        match kind {
            0 => 0,
            1 | 2 => n % 5,
            3 => n % 71,
            7 => n >> (n % 56),
            _ => {
                let near = (n >> 8) % 3;
                let constants = &self.plan.constants;
                let one = |n: u64| constants.get(n as usize % constants.len().max(1)).copied().unwrap_or(n % 9);
                let c = if kind == 6 { one(n >> 16).wrapping_mul(one(n >> 24)) } else { one(n >> 16) };
                c.wrapping_add(near).wrapping_sub(1)
            }
        }
    }

    /// What was made up.
    fn way(self) -> Way {
        let mut kept: Vec<InstRef> = self.plan.kept.iter().copied().collect();
        kept.sort_unstable();
        let mut turns: Vec<Turn> =
            self.turns.into_iter().map(|((at, round, group), to)| Turn { at, round, group, to }).collect();
        turns.sort_unstable_by_key(|t| (t.at, t.round, t.group));
        let memory = self.memory.into_iter();
        let mut memory: Vec<(Id, u64, u64)> =
            memory.map(|((base, indices), v)| (base, indices.last().copied().unwrap_or(0), v)).collect();
        memory.sort_unstable();
        let mut numbers: Vec<(InstRef, u32, u64)> = self.numbers.into_iter().map(|((at, g), v)| (at, g, v)).collect();
        numbers.sort_unstable();
        Way { kept, over: Vec::new(), turns, memory, numbers, workgroups: self.workgroups }
    }
}

fn node<'g>(solved: &'g Solved, n: u32) -> &'g super::nodes::Node {
    &solved.graph.nodes[solved.graph.find(n) as usize]
}

fn raise(over: &mut FxHashMap<InstRef, Uniformity>, at: InstRef, to: Uniformity) {
    let slot = over.entry(at).or_insert(to);
    *slot = (*slot).max(to);
}

fn is_conversion(op: Op) -> bool {
    matches!(op, Op::ConvertUToF | Op::ConvertSToF | Op::ConvertFToU | Op::ConvertFToS)
}

/// By spot and by edge, when it is the turn of those who come there: numbered so that those who parted meet as early as
/// they can.
fn turns(solved: &Solved) -> (Vec<u32>, Vec<u32>) {
    let program = solved.program;
    let orders: Vec<Option<Order>> =
        program.bodies.iter().map(|b| b.as_ref().map(|body| Order::new(&body.cfg))).collect();
    let order = |frame: u32| orders[program.frames[frame as usize].function].as_ref();
    // A call is between what is before it and what is behind it.
    let mut keys: Vec<Vec<u32>> = Vec::with_capacity(program.spots.len());
    let prefix = |keys: &[Vec<u32>], frame: u32| match program.frames[frame as usize].call {
        NONE => Vec::new(),
        call => keys[call as usize].clone(),
    };
    for s in 0..program.spots.len() as u32 {
        let spot = program.spot(s);
        let mut key = prefix(&keys, spot.frame);
        key.extend([order(spot.frame).and_then(|o| o.block(spot.block as usize)).unwrap_or(NONE), spot.from]);
        keys.push(key);
    }
    let edges: Vec<Vec<u32>> = program
        .edges
        .iter()
        .map(|e| {
            let (from, to) = (program.spot(e.from), program.spot(e.to));
            let plain = matches!(from.end, End::Terminator) && from.frame == to.frame;
            let number = order(from.frame).filter(|_| plain);
            match number.and_then(|o| o.target(from.block as usize, to.block as usize)) {
                Some(node) => {
                    let mut key = prefix(&keys, to.frame);
                    key.extend([node, to.from]);
                    key
                }
                None => keys[e.to as usize].clone(),
            }
        })
        .collect();
    let mut all: Vec<&[u32]> = keys.iter().chain(&edges).map(Vec::as_slice).collect();
    all.sort_unstable();
    all.dedup();
    let number = |key: &Vec<u32>| all.binary_search(&key.as_slice()).unwrap_or(0) as u32;
    (keys.iter().map(number).collect(), edges.iter().map(number).collect())
}
