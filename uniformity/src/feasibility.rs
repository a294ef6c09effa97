//! Searches for a path that leads to what a proof claims, by executing the program with made-up values.
//!
//! A proof says that some invocations do not execute an instruction if others do. It does not say that any execution
//! gets there: the conditions on the way may exclude each other, and `n | 2` is never less than 2. So the invocations
//! of a workgroup are led through the program. A path that is found has these properties:
//!
//! 1. The branch of the proof, the branches on whose conditions the proof rests, and those with a single target go
//!    where their conditions say. All other branches go anywhere, as uniformly as their conditions are, anew in each
//!    iteration: the proof holds wherever they go.
//! 2. Conditions are computed from built-ins and from made-up numbers for memory (the same number for one place, which
//!    nothing writes), for arguments, and for elements of matrices.
//! 3. Invocations reconverge where the interpreter lets them if they reconverge as early as they may (see
//!    [`coop_ir::cfg::Order`]). Subgroup instructions are computed over the invocations that are together.
//! 4. At the end of the path some invocations of a scope execute the instruction, and one that the proof names does
//!    not.
//!
//! So a run whose data decides the other branches as [`Path`] says shows the divergence.

mod compute;
mod run;
mod schedule;
mod trial;

pub(super) use run::Run;

use super::Uniformity;
use super::program::NONE;
use super::proofs::Pair;
use super::shape::Shape;
use super::solve::Solution;
use super::value_graph::Kind;
use coop_ir::cfg::Case;
use coop_ir::decorate::Decorations;
use coop_ir::grammar::Op;
use coop_ir::hash::{FxHashMap, FxHashSet};
use coop_ir::{Id, InstRef};
use smallvec::SmallVec;
use std::cell::Cell;
use std::collections::BTreeMap;

/// The most trials for one path.
const TRIALS: u64 = 256;
/// The most work for one path, in all trials: nodes and points times invocations.
const MAX_WORK: u64 = 3_000_000;
/// The most work for all paths of an entry point.
const MAX_ALL: u64 = 100_000_000;
/// The number of iterations in which a branch may go somewhere else. After those it repeats the last choice.
pub const MAX_CHOICES: u32 = 6;

/// A path to an instruction that is not uniform.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Path {
    /// The branches that go where their conditions say.
    pub kept: Vec<InstRef>,
    /// The uniformity of the conditions of branches, and of elements of matrices, over all calls.
    pub uniformity: Vec<(InstRef, Uniformity)>,
    /// The targets of the other branches.
    pub choices: Vec<BranchChoice>,
    /// The values read from memory: the variable or argument, the last index, and the value.
    pub memory: Vec<(Id, u64, u64)>,
    /// The values of arguments of the entry point and of elements of matrices: the instruction, the number of the
    /// invocation or subgroup, and the value.
    pub numbers: Vec<(InstRef, u32, u64)>,
    /// The number of workgroups.
    pub workgroups: [u32; 3],
}

/// The target that a branch takes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BranchChoice {
    /// The branch.
    pub at: InstRef,
    /// How often the branch was executed before in the same call, at most [`MAX_CHOICES`] - 1; 0 for branches outside
    /// of loops.
    pub iteration: u32,
    /// The number of the invocation or the subgroup that takes it, or 0 if the whole workgroup does.
    pub group: u32,
    /// The label of the target.
    pub to: Id,
}

/// The goal of a search.
pub(super) struct Goal<'a> {
    /// The branch at which the invocations diverge.
    pub(super) branch: Option<u32>,
    pub(super) point: u32,
    pub(super) scope: Uniformity,
    /// The branches on whose conditions the proof rests.
    pub(super) used_branches: &'a FxHashSet<u32>,
    /// The two invocations that must disagree, if they are known.
    pub(super) pair: Option<Pair>,
    /// For each invocation, true if it can't reach the point.
    pub(super) never: &'a [bool],
    pub(super) iteration: u64,
    /// The operand that must differ, if the goal is about one.
    pub(super) differ: Option<Differing>,
}

impl<'a> Goal<'a> {
    /// Returns the goal that two invocations execute an instruction with different operands.
    pub(super) fn operand(
        point: u32,
        scope: Uniformity,
        pair: Pair,
        differ: Differing,
        used_branches: &'a FxHashSet<u32>,
    ) -> Goal<'a> {
        let (pair, iteration) = (Some(pair), pair.iteration);
        Goal { branch: None, point, scope, used_branches, pair, never: &[], iteration, differ: Some(differ) }
    }
}

/// A value that must differ.
#[derive(Clone, Copy)]
pub(super) struct Differing {
    pub(super) node: u32,
    /// Distinct integers below this number stay distinct in the operand.
    pub(super) exact: u64,
}

/// Searches for paths.
pub(super) struct PathSearch<'s, 'p, 'm> {
    solution: &'s Solution<'p, 'm>,
    decorations: &'s Decorations,
    /// For each point and each edge, its position in the order of execution.
    position: Vec<u32>,
    edge_position: Vec<u32>,
    /// Branches of which only one edge can be taken in some call instance.
    closed: FxHashSet<InstRef>,
    /// The uniformity of the conditions of branches, and of elements of matrices.
    uniformity: FxHashMap<InstRef, Uniformity>,
    /// The uniformity of the conditions of branches in the call instances in which they are most uniform.
    least: FxHashMap<InstRef, Uniformity>,
    /// The work that is left.
    left: Cell<u64>,
    /// The work that is left for runs, in which every branch goes where its condition says.
    runs_left: Cell<u64>,
}

/// An index into memory.
#[derive(Clone, Copy)]
enum Index {
    Constant(u64),
    Node(u32),
}

/// The part of a search that all trials share.
struct SearchPlan<'a> {
    goal: &'a Goal<'a>,
    /// The uniformity of the conditions of branches in the call instances around the goal.
    uniformity: FxHashMap<InstRef, Uniformity>,
    kept: FxHashSet<InstRef>,
    /// The slots of the nodes whose values must be known.
    slots: FxHashMap<u32, usize>,
    /// Constants to which made-up numbers are compared.
    constants: Vec<u64>,
    /// For each point, the number of points to the branch and to the goal.
    to_branch: Vec<u32>,
    to_goal: Vec<u32>,
}

/// The state of one trial.
struct Trial<'a> {
    number: u64,
    plan: &'a SearchPlan<'a>,
    values: Vec<Option<u64>>,
    /// How often each invocation entered each call instance.
    calls: FxHashMap<(u32, u32), u32>,
    /// How often each invocation executed each branch, by point, invocation and call.
    visits: FxHashMap<(u32, u32, u32), u32>,
    /// For each invocation, true if it has executed the branch.
    passed: Vec<bool>,
    waiting: BTreeMap<u32, (u32, Vec<(u32, u32)>)>,
    choices: FxHashMap<(InstRef, u32, u32), Id>,
    memory: FxHashMap<(Id, SmallVec<[u64; 2]>), u64>,
    numbers: FxHashMap<(InstRef, u32), u64>,
    workgroups: [u32; 3],
    workgroup: [u64; 3],
    rolls: u64,
    work: u64,
    /// More state for runs, in which every branch goes where its condition says.
    strict: Option<run::Strict>,
}

impl<'s, 'p, 'm> PathSearch<'s, 'p, 'm> {
    pub(super) fn new(solution: &'s Solution<'p, 'm>, decorations: &'s Decorations) -> PathSearch<'s, 'p, 'm> {
        let program = solution.program;
        let (position, edge_position) = schedule::positions(solution);
        let (mut closed, mut uniformity) = (FxHashSet::default(), FxHashMap::default());
        let mut least: FxHashMap<InstRef, Uniformity> = FxHashMap::default();
        for s in (0..program.points.len() as u32).filter(|s| solution.live[*s as usize]) {
            let Some(at) = program.terminator(s) else { continue };
            if program.out(s).any(|e| !solution.regions.taken[e as usize]) {
                closed.insert(at);
            }
            let condition = solution.graph.conditions[s as usize];
            let of = if condition == NONE { Uniformity::Divergent } else { node(solution, condition).uniformity };
            raise(&mut uniformity, at, of);
            let slot = least.entry(at).or_insert(of);
            *slot = (*slot).min(of);
        }
        for (n, node) in solution.graph.nodes.iter().enumerate() {
            if let Some(at) = node.inst.filter(|_| solution.graph.alias[n] == n as u32) {
                raise(&mut uniformity, at, node.uniformity);
            }
        }
        PathSearch {
            solution,
            decorations,
            position,
            edge_position,
            closed,
            uniformity,
            least,
            left: Cell::new(MAX_ALL),
            runs_left: Cell::new(MAX_ALL / 4),
        }
    }

    /// Searches for a path to a goal.
    pub(super) fn find(&self, goal: &Goal) -> Option<(Pair, Path)> {
        let program = self.solution.program;
        let mut kept = self.closed.clone();
        kept.extend(goal.used_branches.iter().chain(&goal.branch).filter_map(|s| program.terminator(*s)));
        let mut plan = SearchPlan {
            goal,
            uniformity: self.uniformity_in_calls(goal),
            kept,
            slots: FxHashMap::default(),
            constants: Vec::new(),
            to_branch: goal.branch.map_or_else(Vec::new, |b| self.distances(b)),
            to_goal: self.distances(goal.point),
        };
        self.collect(&mut plan);
        let mut work = 0;
        for number in 0..TRIALS {
            let mut trial = Trial::new(self, &plan, number);
            let found = self.trial(&mut trial);
            work += trial.work;
            self.left.set(self.left.get().saturating_sub(trial.work));
            if let Some(pair) = found {
                let mut path = trial.path();
                let uniformity = self.uniformity.iter().filter(|(at, _)| self.is_data(**at));
                path.uniformity =
                    uniformity.map(|(at, of)| (*at, plan.uniformity.get(at).copied().unwrap_or(*of))).collect();
                path.uniformity.sort_unstable();
                return Some((pair, path));
            }
            if work > MAX_WORK || self.left.get() == 0 {
                break;
            }
        }
        None
    }

    /// Returns the uniformity of the conditions of branches in the call instances around a goal. In other calls of the
    /// same functions they may be less uniform. If the goal is about an operand, all invocations must get there, so no
    /// branch may diverge more than it does.
    fn uniformity_in_calls(&self, goal: &Goal) -> FxHashMap<InstRef, Uniformity> {
        let program = self.solution.program;
        let mut uniformity = if goal.differ.is_some() { self.least.clone() } else { FxHashMap::default() };
        let mut instance = program.point(goal.point).instance;
        loop {
            for s in (0..program.points.len() as u32).filter(|s| program.point(*s).instance == instance) {
                let condition = self.solution.graph.conditions[s as usize];
                if let Some(at) = program.terminator(s).filter(|_| condition != NONE && self.solution.live[s as usize])
                {
                    uniformity.insert(at, node(self.solution, condition).uniformity);
                }
            }
            match program.instances[instance as usize].call {
                NONE => return uniformity,
                call => instance = program.point(call).instance,
            }
        }
    }

    /// Returns true if a test that replaces conditions by data needs the uniformity of an instruction.
    fn is_data(&self, at: InstRef) -> bool {
        let inst = self.solution.program.module.inst(at);
        inst.branch_condition().is_some() || matches!(inst.op, Op::CompositeExtract | Op::ExtInst)
    }

    /// Collects the nodes whose values must be known, and the constants that they use.
    fn collect(&self, plan: &mut SearchPlan) {
        let solution = self.solution;
        let graph = &solution.graph;
        let points = (0..solution.program.points.len() as u32).filter(|s| solution.live[*s as usize]);
        let kept = points.filter(|s| solution.program.terminator(*s).is_some_and(|r| plan.kept.contains(&r)));
        let conditions = kept.map(|s| graph.conditions[s as usize]).filter(|c| *c != NONE);
        let mut work: Vec<u32> = conditions.chain(plan.goal.differ.map(|d| d.node)).map(|n| graph.find(n)).collect();
        let mut seen = FxHashSet::default();
        while let Some(n) = work.pop() {
            if !seen.insert(n) {
                continue;
            }
            if let Shape::Const(v) = node(solution, n).shape {
                plan.constants.push(v);
            }
            if node(solution, n).shape.is_exact() || self.is_made_up(n) {
                continue;
            }
            let slot = plan.slots.len();
            plan.slots.insert(n, slot);
            match node(solution, n).kind {
                Kind::Load { .. } => {
                    let indices = self.place(n).map(|p| p.1).unwrap_or_default();
                    work.extend(indices.iter().filter_map(|i| if let Index::Node(n) = i { Some(*n) } else { None }));
                }
                _ => work.extend(graph.inputs(n)),
            }
        }
        plan.constants.sort_unstable();
        plan.constants.dedup();
    }

    /// Returns true if a node's value is made up, the same each time.
    fn is_made_up(&self, n: u32) -> bool {
        let node = node(self.solution, n);
        let op = node.inst.map(|r| self.solution.program.module.inst(r).op);
        match node.kind {
            Kind::Undef | Kind::Fixed => true,
            Kind::Max => !op.is_some_and(Op::is_int_float_conversion) && op != Some(Op::GroupNonUniformBallotBitCount),
            Kind::Load { .. } => self.place(n).is_none(),
            Kind::Fold(_) | Kind::Pick | Kind::Phi | Kind::Group(_) => false,
        }
    }

    /// Returns the place that a load reads: the variable or the argument, and the indices.
    fn place(&self, n: u32) -> Option<(Id, SmallVec<[Index; 2]>)> {
        let (solution, module) = (self.solution, self.solution.program.module);
        let inst = module.inst(node(solution, n).inst?);
        let pointer = inst.accessed().filter(|_| inst.op == Op::Load)?;
        let chain = module.def_inst(pointer)?;
        let address = solution.graph.inputs(n).next()?;
        if !chain.op.is_typed_access_chain() {
            let plain = matches!(chain.op, Op::Variable | Op::FunctionParameter);
            return plain.then(|| (pointer, SmallVec::new()));
        }
        let base = chain.access_chain()?.base;
        module.def_inst(base).filter(|i| matches!(i.op, Op::Variable | Op::FunctionParameter))?;
        let mut nodes = solution.graph.inputs(address);
        let mut indices = SmallVec::new();
        for id in chain.ids_from(1) {
            let constant = module.def_inst(id).filter(|i| i.op.is_constant());
            indices.push(match constant {
                Some(c) => Index::Constant(u64::from(c.literal()?)),
                None => Index::Node(nodes.next()?),
            });
        }
        nodes.next().is_none().then_some((base, indices))
    }

    /// Returns the number of points from each point to `to`.
    fn distances(&self, to: u32) -> Vec<u32> {
        let (program, taken) = (self.solution.program, &self.solution.regions.taken);
        let mut found = vec![u32::MAX; program.points.len()];
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

    /// Returns the number of the invocation or the subgroup that shares a choice or a value.
    fn group(&self, uniformity: Uniformity, lane: u32) -> u32 {
        match uniformity {
            Uniformity::Workgroup => 0,
            Uniformity::Subgroup => lane / self.solution.grid.subgroup as u32,
            Uniformity::Divergent => lane,
        }
    }

    /// Executes the program once.
    fn trial(&self, t: &mut Trial) -> Option<Pair> {
        let lanes = self.solution.grid.lanes as u32;
        t.waiting.insert(self.position[0], (0, (0..lanes).map(|l| (l, NONE)).collect()));
        while let Some((_, (point, mut here))) = t.waiting.pop_first() {
            here.sort_unstable();
            t.work += 4 * here.len() as u64;
            self.execute(t, point, &here);
            if point == t.plan.goal.point
                && let Some(pair) = self.reached(t, &here)
            {
                return Some(pair);
            }
            if Some(point) == t.plan.goal.branch {
                here.iter().for_each(|(l, _)| t.passed[*l as usize] = true);
            }
            for (lane, _) in &here {
                if let Some(e) = self.leave(t, point, *lane) {
                    let to = self.solution.program.edge(e).to;
                    let at = t.waiting.entry(self.edge_position[e as usize]).or_insert_with(|| (to, Vec::new()));
                    at.1.push((*lane, e));
                }
            }
            if t.work > MAX_WORK / 8 {
                return None;
            }
        }
        None
    }

    /// Returns the pair if only a part of the invocations reached the goal.
    fn reached(&self, t: &mut Trial, here: &[(u32, u32)]) -> Option<Pair> {
        let (grid, goal) = (&self.solution.grid, t.plan.goal);
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
            (!is_here(other)).then_some(Pair { one, other, iteration: goal.iteration })
        })
    }

    /// Computes the values of a point's nodes.
    fn execute(&self, t: &mut Trial, point: u32, here: &[(u32, u32)]) {
        let (solution, lanes) = (self.solution, self.solution.grid.lanes);
        let graph = &solution.graph;
        let program = solution.program;
        let instance = program.point(point).instance;
        if point == program.first(instance, 0) {
            here.iter().for_each(|(l, _)| *t.calls.entry((instance, *l)).or_default() += 1);
        }
        let needed: SmallVec<[(u32, usize); 8]> =
            solution.nodes_in(point).iter().filter_map(|n| Some((*n, *t.plan.slots.get(n)?))).collect();
        let phis = needed.iter().filter(|(n, _)| graph.nodes[*n as usize].kind == Kind::Phi);
        let mut along: Vec<(usize, Option<u64>, bool)> = Vec::new();
        for (n, slot) in phis {
            for (l, e) in here {
                t.touch(false);
                let from = graph.operands(*n).find(|(_, of)| *of == Some(*e));
                let v = from.and_then(|(op, _)| self.value(t, op, *l));
                along.push((slot * lanes + *l as usize, v, t.touched()));
            }
        }
        t.work += along.len() as u64;
        for (at, v, touched) in along {
            t.touch(touched);
            t.put(at, v);
        }
        for (n, slot) in needed {
            let kind = graph.nodes[n as usize].kind;
            if kind == Kind::Phi {
                continue;
            }
            t.work += here.len() as u64;
            for (l, _) in here {
                t.touch(false);
                let v = self.compute(t, n, *l, here);
                t.put(slot * lanes + *l as usize, v);
            }
        }
    }

    /// Returns the edge along which an invocation leaves a point.
    fn leave(&self, t: &mut Trial, point: u32, lane: u32) -> Option<u32> {
        let (solution, program) = (self.solution, self.solution.program);
        let edges: SmallVec<[u32; 4]> = program.out(point).collect();
        if edges.len() < 2 {
            return edges.first().copied();
        }
        let condition = solution.graph.conditions[point as usize];
        let at = program.terminator(point)?;
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
        let uniformity =
            t.plan.uniformity.get(&at).or(self.uniformity.get(&at)).copied().unwrap_or(Uniformity::Divergent);
        let iteration = if self.comes_again(point) {
            let call = t.calls.get(&(program.point(point).instance, lane)).copied().unwrap_or(0);
            let visits = t.visits.entry((point, lane, call)).or_default();
            *visits += 1;
            (*visits - 1).min(MAX_CHOICES - 1)
        } else {
            0
        };
        let key = (at, iteration, self.group(uniformity, lane));
        let label = |e: u32| program.module.inst(program.label(program.edge(e).to)).result;
        if let Some(to) = t.choices.get(&key).copied() {
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
        // The others may take another target.
        let same = t.plan.goal.pair.is_some_and(|p| self.group(uniformity, p.one as u32) == key.2);
        let strays = match t.number % 8 {
            0 => 0,
            1 | 2 => 16,
            3 | 4 => 64,
            5 if !same => 160,
            _ => 128,
        };
        let stray = t.roll() % 256 < strays;
        let last = iteration == MAX_CHOICES - 1;
        let l = program.point(point).in_loop;
        let out = open.iter().filter(|e| last && l != NONE && !program.in_loop(program.edge(**e).to, l));
        let chosen: SmallVec<[u32; 4]> = match out.copied().collect::<SmallVec<[u32; 4]>>() {
            out if !out.is_empty() => out,
            _ if stray || nearest == u32::MAX => open.clone(),
            _ => open.iter().copied().filter(|e| far(e) == nearest).collect(),
        };
        let e = chosen[t.roll() as usize % chosen.len()];
        t.choices.insert(key, label(e)?);
        Some(e)
    }

    /// Returns true if a point is in a loop of its own function.
    fn comes_again(&self, point: u32) -> bool {
        let program = self.solution.program;
        let own = |instance: u32| match program.instances[instance as usize].call {
            NONE => NONE,
            call => program.point(call).in_loop,
        };
        let s = program.point(point);
        s.in_loop != own(s.instance)
    }
}

fn node<'g>(solution: &'g Solution, n: u32) -> &'g super::value_graph::Node {
    &solution.graph.nodes[solution.graph.find(n) as usize]
}

fn raise(uniformity: &mut FxHashMap<InstRef, Uniformity>, at: InstRef, to: Uniformity) {
    let slot = uniformity.entry(at).or_insert(to);
    *slot = (*slot).max(to);
}
