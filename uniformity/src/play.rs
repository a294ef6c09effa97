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
//!    [`coop_ir::cfg::Order`]), and subgroup instructions are computed over those that are there.
//! 4. At its end the instruction is executed by some invocations of an instance, and not by one that the proof names.
//!
//! So whoever lets data decide the other branches sees it happen with the data of [`Way`].

mod compute;
mod run;
mod trial;
mod turns;

pub(super) use run::Run;

use super::Uniformity;
use super::graph::NONE;
use super::lanes::Pair;
use super::nodes::Kind;
use super::shape::Shape;
use super::solve::Solved;
use coop_ir::cfg::Case;
use coop_ir::decorate::Decorations;
use coop_ir::grammar::Op;
use coop_ir::hash::{FxHashMap, FxHashSet};
use coop_ir::{Id, InstRef};
use smallvec::SmallVec;
use std::cell::Cell;
use std::collections::BTreeMap;

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
    /// The same of branches, in the calls in which it is least different.
    least: FxHashMap<InstRef, Uniformity>,
    /// Work that is left.
    left: Cell<u64>,
    /// The same for runs in which every branch goes where its condition says.
    runs_left: Cell<u64>,
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
    /// What is noted besides, if every branch goes where its condition says.
    strict: Option<run::Strict>,
}

impl<'s, 'p, 'm> Player<'s, 'p, 'm> {
    pub(super) fn new(solved: &'s Solved<'p, 'm>, decorations: &'s Decorations) -> Player<'s, 'p, 'm> {
        let program = solved.program;
        let (turn, edge_turn) = turns::turns(solved);
        let (mut closed, mut over) = (FxHashSet::default(), FxHashMap::default());
        let mut least: FxHashMap<InstRef, Uniformity> = FxHashMap::default();
        for s in (0..program.spots.len() as u32).filter(|s| solved.live[*s as usize]) {
            let Some(at) = program.terminator(s) else { continue };
            if program.out(s).any(|e| !solved.regions.taken[e as usize]) {
                closed.insert(at);
            }
            let condition = solved.graph.conditions[s as usize];
            let of = if condition == NONE { Uniformity::Divergent } else { node(solved, condition).over };
            raise(&mut over, at, of);
            let slot = least.entry(at).or_insert(of);
            *slot = (*slot).min(of);
        }
        for (n, node) in solved.graph.nodes.iter().enumerate() {
            if let Some(at) = node.inst.filter(|_| solved.graph.alias[n] == n as u32) {
                raise(&mut over, at, node.over);
            }
        }
        Player {
            solved,
            decorations,
            turn,
            edge_turn,
            closed,
            over,
            least,
            left: Cell::new(MAX_ALL),
            runs_left: Cell::new(MAX_ALL / 4),
        }
    }

    /// Looks for a way.
    pub(super) fn play(&self, goal: &Goal) -> Option<(Pair, Way)> {
        let program = self.solved.program;
        let mut kept = self.closed.clone();
        kept.extend(goal.asked.iter().chain(&goal.branch).filter_map(|s| program.terminator(*s)));
        let mut plan = Plan {
            goal,
            over: self.over_in_calls(goal),
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

    /// Over what the conditions of branches are the same in the calls around a goal: in others of the same functions they
    /// may be less uniform. Where an operand is to differ all must come there, so no branch may part more than it does.
    fn over_in_calls(&self, goal: &Goal) -> FxHashMap<InstRef, Uniformity> {
        let program = self.solved.program;
        let mut over = if goal.differ.is_some() { self.least.clone() } else { FxHashMap::default() };
        let mut frame = program.spot(goal.spot).frame;
        loop {
            for s in (0..program.spots.len() as u32).filter(|s| program.spot(*s).frame == frame) {
                let condition = self.solved.graph.conditions[s as usize];
                if let Some(at) = program.terminator(s).filter(|_| condition != NONE && self.solved.live[s as usize]) {
                    over.insert(at, node(self.solved, condition).over);
                }
            }
            match program.frames[frame as usize].call {
                NONE => return over,
                call => frame = program.spot(call).frame,
            }
        }
    }

    /// Returns true if who lets data decide asks how uniform an instruction is.
    fn is_data(&self, at: InstRef) -> bool {
        let data = [Op::BranchConditional, Op::Switch, Op::CompositeExtract, Op::ExtInst];
        data.contains(&self.solved.program.module.inst(at).op)
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

    /// Returns true if a number is made up for a node, the same each time.
    fn is_made_up(&self, n: u32) -> bool {
        let node = node(self.solved, n);
        let op = node.inst.map(|r| self.solved.program.module.inst(r).op);
        match node.kind {
            Kind::Undef | Kind::Fixed => true,
            Kind::Max => !op.is_some_and(is_conversion) && op != Some(Op::GroupNonUniformBallotBitCount),
            Kind::Load { .. } => self.place(n).is_none(),
            Kind::Fold(_) | Kind::Pick | Kind::Phi | Kind::Group(_) => false,
        }
    }

    /// Where a load reads: the variable or the argument, and the indices.
    fn place(&self, n: u32) -> Option<(Id, SmallVec<[Index; 2]>)> {
        let (solved, module) = (self.solved, self.solved.program.module);
        let inst = module.inst(node(solved, n).inst?);
        let pointer = inst.id(0).filter(|_| inst.op == Op::Load)?;
        let chain = module.def_inst(pointer)?;
        let (address, _) = solved.graph.operands(n).next()?;
        if !chain.op.is_typed_access_chain() {
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

    /// Returns whether those who are here are not all.
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
        for (n, slot) in wanted {
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

    /// Returns true if a spot is in a loop of its own function.
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
