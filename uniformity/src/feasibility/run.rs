//! Runs with made-up data in which every branch goes where its condition says.
//!
//! A run proves that a part of the invocations executes an instruction alone, on one path to it, if
//!
//! 1. every condition on the path was computed from built-ins, constants, and made-up numbers for arguments and for
//!    memory that nothing writes: so it is an execution of the module with some data;
//! 2. conditions that depend on made-up numbers are the same for the whole scope: data decides where all of it goes,
//!    and only built-ins make it diverge.
//!
//! The second condition excludes a bound that the host may always choose so that it never cuts a subgroup.

use super::super::program::NONE;
use super::super::proofs::Pair;
use super::super::shape::Shape;
use super::super::value_graph::Kind;
use super::super::{Assumptions, Uniformity};
use super::{Differing, Goal, MAX_WORK, Path, PathSearch, SearchPlan, Trial, node};
use coop_ir::cfg::Case;
use coop_ir::grammar::Op;
use coop_ir::hash::FxHashSet;
use smallvec::SmallVec;

/// The most runs for one instruction.
const RUNS: u64 = 48;
/// The most values that are stored in one run.
const MAX_VALUES: usize = 400_000;

/// The result of a run.
pub(in super::super) struct Run {
    pub(in super::super) pair: Pair,
    pub(in super::super) path: Path,
    /// The workgroup, if the result depends on it.
    pub(in super::super) workgroup: Option<[u32; 3]>,
    /// The branch at which the two invocations diverged.
    pub(in super::super) diverged: Option<u32>,
    pub(in super::super) assumes: Assumptions,
    /// The two values of an operand.
    pub(in super::super) values: Option<(u64, u64)>,
}

/// The additional state of a run.
#[derive(Default)]
pub(super) struct Strict {
    /// For each value, true if it depends on made-up numbers.
    pub(super) made_up: Vec<bool>,
    /// True if the last value that was computed does.
    pub(super) touched: bool,
    pub(super) assumes: Assumptions,
    /// True if a value depends on the number of the workgroup.
    pub(super) placed: bool,
    /// Branches at which invocations diverged: the edge of each invocation.
    splits: Vec<(u32, Vec<(u32, u32)>)>,
}

impl PathSearch<'_, '_, '_> {
    /// Searches for a run in which only a part of a scope executes a point, or in which an operand differs there.
    pub(in super::super) fn run(&self, point: u32, scope: Uniformity, differ: Option<Differing>) -> Option<Run> {
        let none = FxHashSet::default();
        let goal =
            Goal { branch: None, point, scope, used_branches: &none, pair: None, never: &[], iteration: 0, differ };
        let plan = self.plan_of_run(&goal);
        if plan.slots.len() * self.solution.grid.lanes > MAX_VALUES {
            return None;
        }
        let mut work = 0;
        for number in 0..RUNS {
            let mut t = Trial::new(self, &plan, number);
            t.strict = Some(Strict { made_up: vec![false; t.values.len()], ..Strict::default() });
            self.choose_workgroup(&mut t);
            let found = self.one_run(&mut t);
            work += t.work;
            self.runs_left.set(self.runs_left.get().saturating_sub(t.work));
            if let Some((pair, values)) = found {
                let strict = t.strict.take().unwrap_or_default();
                let edge = |all: &[(u32, u32)], l: usize| all.iter().find(|a| a.0 as usize == l).map(|a| a.1);
                let separates = |s: &&(u32, Vec<(u32, u32)>)| match (edge(&s.1, pair.one), edge(&s.1, pair.other)) {
                    (Some(a), Some(b)) => a != b,
                    _ => false,
                };
                let diverged = strict.splits.iter().find(separates).map(|s| s.0);
                let workgroup = strict.placed.then(|| t.workgroup.map(|n| n as u32));
                let mut path = t.path();
                let uniformity = self.uniformity.iter().filter(|(at, _)| self.is_data(**at));
                path.uniformity = uniformity.map(|(at, of)| (*at, *of)).collect();
                path.uniformity.sort_unstable();
                return Some(Run { pair, path, workgroup, diverged, assumes: strict.assumes, values });
            }
            if work > MAX_WORK / 2 || self.runs_left.get() == 0 {
                break;
            }
        }
        None
    }

    /// Returns a plan with the conditions of all branches from which the goal can be reached.
    fn plan_of_run<'a>(&self, goal: &'a Goal<'a>) -> SearchPlan<'a> {
        let program = self.solution.program;
        let to_goal = self.distances(goal.point);
        let points = (0..program.points.len() as u32).filter(|s| self.solution.live[*s as usize]);
        let leading = points.filter(|s| to_goal[*s as usize] != u32::MAX);
        let kept = leading.filter_map(|s| program.terminator(s)).collect();
        let mut plan = SearchPlan {
            goal,
            uniformity: coop_ir::hash::FxHashMap::default(),
            kept,
            slots: coop_ir::hash::FxHashMap::default(),
            constants: Vec::new(),
            to_branch: Vec::new(),
            to_goal,
        };
        self.collect(&mut plan);
        plan
    }

    /// Chooses the first workgroup in most runs, sometimes one that a constant cuts.
    fn choose_workgroup(&self, t: &mut Trial) {
        if !t.number.is_multiple_of(4) || t.number == 0 {
            (t.workgroups, t.workgroup) = ([1; 3], [0; 3]);
        }
        let Some(size) = self.solution.grid.size.filter(|_| t.number % 4 >= 2) else { return };
        let (axis, which) = (t.roll() as usize % 3, t.roll() as usize);
        let constants = &t.plan.constants;
        let Some(c) = constants.get(which % constants.len().max(1)) else { return };
        let group = c / u64::from(size[axis].max(1));
        if group <= 64 {
            (t.workgroups[axis], t.workgroup[axis]) = (group as u32 + 1, group);
        }
    }

    fn one_run(&self, t: &mut Trial) -> Option<(Pair, Option<(u64, u64)>)> {
        let lanes = self.solution.grid.lanes as u32;
        t.waiting.insert(self.position[0], (0, (0..lanes).map(|l| (l, NONE)).collect()));
        while let Some((_, (point, mut here))) = t.waiting.pop_first() {
            here.sort_unstable();
            t.work += 4 * here.len() as u64;
            self.execute(t, point, &here);
            if point == t.plan.goal.point
                && let Some(found) = self.shows(t, &here)
            {
                return Some(found);
            }
            // Invocations that can't reach the goal any more stop.
            if t.plan.to_goal[point as usize] == u32::MAX {
                continue;
            }
            for (lane, e) in self.decide(t, point, &here)? {
                let to = self.solution.program.edge(e).to;
                let at = t.waiting.entry(self.edge_position[e as usize]).or_insert_with(|| (to, Vec::new()));
                at.1.push((lane, e));
            }
            if t.work > MAX_WORK / 16 {
                return None;
            }
        }
        None
    }

    /// Returns the pair if only a part of a scope is here, or if an operand differs.
    fn shows(&self, t: &mut Trial, here: &[(u32, u32)]) -> Option<(Pair, Option<(u64, u64)>)> {
        let (grid, goal) = (&self.solution.grid, t.plan.goal);
        let step = if goal.scope == Uniformity::Workgroup { grid.lanes } else { grid.subgroup };
        let is_here = |l: usize| here.binary_search_by_key(&(l as u32), |h| h.0).is_ok();
        for first in (0..grid.lanes).step_by(step.max(1)) {
            let mut all = first..(first + step).min(grid.lanes);
            let Some(one) = all.clone().find(|l| is_here(*l)) else { continue };
            let Some(d) = goal.differ else {
                if let Some(other) = all.find(|l| !is_here(*l)) {
                    return Some((Pair { one, other, iteration: 0 }, None));
                }
                continue;
            };
            let mut known = |l: usize| {
                t.touch(false);
                let v = self.value(t, d.node, l as u32)?;
                (!t.touched() && v <= d.exact).then_some(v)
            };
            let Some(a) = known(one) else { continue };
            for other in all.filter(|l| *l != one && is_here(*l)) {
                if let Some(b) = known(other).filter(|b| *b != a) {
                    return Some((Pair { one, other, iteration: 0 }, Some((a, b))));
                }
            }
        }
        None
    }

    /// Returns the edges along which invocations continue; `None` if they are not known.
    fn decide(&self, t: &mut Trial, point: u32, here: &[(u32, u32)]) -> Option<Vec<(u32, u32)>> {
        let (solution, program) = (self.solution, self.solution.program);
        let edges: SmallVec<[u32; 4]> = program.out(point).collect();
        match edges.as_slice() {
            [] => return Some(Vec::new()),
            [one] => return Some(here.iter().map(|h| (h.0, *one)).collect()),
            _ => {}
        }
        let condition = solution.graph.conditions[point as usize];
        if condition == NONE {
            return None;
        }
        t.touch(false);
        let mut out = Vec::with_capacity(here.len());
        for (lane, _) in here {
            let v = self.value(t, condition, *lane)?;
            let is = |e: &&u32| match program.edge(**e).case {
                Case::True => v != 0,
                Case::False => v == 0,
                Case::Value(x) => x == v,
                _ => false,
            };
            let default = || edges.iter().find(|e| program.edge(**e).case == Case::Default);
            out.push((*lane, *edges.iter().find(is).or_else(default)?));
        }
        let split = out.windows(2).any(|w| w[0].1 != w[1].1);
        let alike = solution.seen_from(solution.graph.find(condition), point).0 <= t.plan.goal.scope;
        if t.touched() && !alike {
            return None;
        }
        if split && let Some(strict) = &mut t.strict {
            strict.splits.push((point, out.clone()));
        }
        Some(out)
    }

    /// Returns true if a run may make up a number for a node: it is an argument of the entry point.
    pub(super) fn is_argument(&self, n: u32) -> bool {
        let of = node(self.solution, n);
        let op = of.inst.map(|r| self.solution.program.module.inst(r).op);
        of.kind == Kind::Fixed && op == Some(Op::FunctionParameter) && of.shape == Shape::Unknown
    }
}
