//! Proofs that invocations disagree, from the values that are known for each invocation.
//!
//! A branch proves that an instruction is not executed together if the instruction can't be executed without the
//! branch, and one of these holds:
//!
//! 1. the branch sends one invocation where it can't reach the instruction whatever else happens, since the condition
//!    is the same in every iteration: whoever executes the instruction does so without that invocation;
//! 2. in some iteration it sends one invocation where the instruction is never reached again, in that iteration or
//!    later, and another where every path leads to the instruction; if the condition changes between iterations, every
//!    path of that iteration must lead to the branch.
//!
//! The values in an iteration follow from the entry of the loop and, for later iterations, from the operands of its
//! phis, as long as everything that may leave the loop is known to stay.
//!
//! Where neither holds, `feasibility` runs the program with made-up data. That proves a disagreement on one path to the
//! instruction, if invocations diverge by known values alone.

mod evaluate;
mod tensor_layouts;

use super::feasibility::{Differing, Goal, Path, PathSearch, Run};
use super::program::NONE;
use super::shape::Shape;
use super::solve::Solution;
use super::value_graph::Kind;
use super::{Assumptions, Number, Uniformity};
use coop_ir::InstRef;
use coop_ir::cfg::{DomTree, Graph};
use coop_ir::decorate::Decorations;
use coop_ir::grammar::Op;
use coop_ir::hash::{FxHashMap, FxHashSet};
use std::cell::OnceCell;
use std::rc::Rc;

/// A value for each invocation, where it is known.
pub(super) type Values = Rc<Vec<Option<u64>>>;

/// The greatest depth of expressions that are evaluated.
const MAX_DEPTH: u32 = 80;
/// The most iterations of a loop that are evaluated.
const MAX_ITERATIONS: u64 = 2048;
/// The most iterations for which a path is searched for.
const MAX_SEARCHES: u32 = 4;
/// The most nodes that are evaluated for one proof.
const MAX_WORK: u32 = 20_000;

/// Two invocations of one scope.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Pair {
    /// The invocation that may execute the instruction, or has the first value.
    pub(super) one: usize,
    /// The invocation that does not execute it, or has the other value.
    pub(super) other: usize,
    /// The iteration of the loop in which they diverge; 0 is the first.
    pub(super) iteration: u64,
}

/// Looks for proofs.
pub(super) struct Prover<'s, 'p, 'm> {
    solution: &'s Solution<'p, 'm>,
    decorations: &'s Decorations,
    dom: DomTree,
    /// Searches for paths, if a proof needs one.
    search: Option<OnceCell<PathSearch<'s, 'p, 'm>>>,
}

/// A proof that two invocations disagree.
pub(super) struct Proof {
    pub(super) pair: Pair,
    /// The values of the operand, if they are known.
    pub(super) values: Option<(Number, Number)>,
    pub(super) path: Path,
    /// The assumptions of the proof.
    pub(super) assumes: Assumptions,
    /// For a proof on one path only: the workgroup, if it decides, and the branch at which the two diverge.
    pub(super) run: Option<(Option<[u32; 3]>, Option<u32>)>,
}

/// The consequences of a branch's target.
struct Exit {
    to: u32,
    /// True if the instruction can be reached if the branch always goes there.
    ever: bool,
    /// True if the instruction can be reached from there on.
    again: bool,
    /// True if the instruction must be reached from there, before the branch is executed again.
    certain: bool,
}

/// The values of a node in an iteration.
struct IterationValues {
    values: Values,
    iteration: u64,
    /// True if they depend on the phis of loops in this iteration.
    varies: bool,
    /// True if they do, and some path through the iteration bypasses the point.
    unsure: bool,
    /// The branches whose conditions were used.
    used_branches: FxHashSet<u32>,
    assumes: Assumptions,
}

/// The state of an evaluation as seen from a point.
struct Iteration<'a> {
    from: u32,
    /// The values of the loop's phis in this iteration.
    phis: &'a FxHashMap<u32, Values>,
    memo: FxHashMap<u32, Values>,
    left: u32,
    /// True if a phi of a loop was used.
    varies: bool,
    /// The branches whose conditions were used.
    used_branches: FxHashSet<u32>,
    /// The assumptions of the values.
    assumes: Assumptions,
}

impl<'a> Iteration<'a> {
    fn new(from: u32, phis: &'a FxHashMap<u32, Values>) -> Iteration<'a> {
        let (memo, used_branches) = (FxHashMap::default(), FxHashSet::default());
        Iteration { from, phis, memo, left: MAX_WORK, varies: false, used_branches, assumes: Assumptions::NONE }
    }
}

impl<'s, 'p, 'm> Prover<'s, 'p, 'm> {
    /// With `feasible_only`, a proof counts only with a path that reaches it.
    pub(super) fn new(
        solution: &'s Solution<'p, 'm>,
        decorations: &'s Decorations,
        feasible_only: bool,
    ) -> Prover<'s, 'p, 'm> {
        let taken = solution.program.edges.iter().enumerate().filter(|(e, _)| solution.regions.taken[*e]);
        let edges: Vec<_> = taken.map(|(_, e)| (e.from as usize, e.to as usize)).collect();
        let graph = Graph::new(solution.program.points.len(), &edges);
        Prover { solution, decorations, dom: DomTree::new(&graph, 0), search: feasible_only.then(OnceCell::new) }
    }

    /// Searches for a path to a goal.
    fn find_path(&self, goal: &Goal) -> Option<(Pair, Path)> {
        match &self.search {
            Some(search) => search.get_or_init(|| PathSearch::new(self.solution, self.decorations)).find(goal),
            None => goal.pair.map(|pair| (pair, Path::default())),
        }
    }

    /// Returns two invocations of which one can't execute `point` because of a branch, at least not together with the
    /// other, and how the other gets there.
    pub(super) fn diverges_at(&self, branch: u32, point: u32, scope: Uniformity) -> Option<Proof> {
        let solution = self.solution;
        let condition = solution.graph.find(solution.graph.conditions[branch as usize]);
        let targets: Vec<u32> = solution.regions.next(branch).collect();
        let exits: Vec<Exit> = targets
            .iter()
            .map(|t| Exit {
                to: *t,
                ever: self.reaches(0, point, Some((branch, *t))),
                again: *t == point || self.reaches(*t, point, None),
                certain: *t == point || self.unavoidable(branch, *t, point),
            })
            .collect();
        let with_it = self.dom.dominates(branch as usize, point as usize)
            || self.unavoidable(point, point, branch)
            || exits.iter().any(|w| !w.ever);
        if !with_it || exits.iter().all(|w| w.ever && w.again) {
            return None;
        }
        let (mut searches, mut assumes) = (MAX_SEARCHES, Assumptions::NONE);
        let (pair, path) = self.each_iteration(branch, condition, |known| {
            let IterationValues { values, iteration, varies, unsure, used_branches, .. } = known;
            assumes = known.assumes;
            let exit_of = |lane: usize| {
                let to = self.target(branch, values.get(lane).copied().flatten()?)?;
                exits.iter().find(|w| w.to == to)
            };
            let all: Vec<Option<&Exit>> = (0..solution.grid.lanes).map(exit_of).collect();
            // Invocations that can't reach the point in any iteration.
            let never: Vec<bool> = all.iter().map(|w| !varies && w.is_some_and(|w| !w.ever)).collect();
            // True if the first reaches it, or may, and the second does not.
            let separates = |one: usize, other: usize| match (all[one], all[other]) {
                (Some(to), Some(w)) => {
                    (never[other] && to.ever) || (!unsure && to.certain && !w.again && w.to != to.to)
                }
                _ => false,
            };
            let found = solution.grid.witness(scope, |a, b| separates(a, b) || separates(b, a));
            let pair = found.map(|(a, b)| {
                let (one, other) = if separates(a, b) { (a, b) } else { (b, a) };
                Pair { one, other, iteration: *iteration }
            });
            // Nothing may be known about the first, but it must be possible to get there.
            let may = |one: usize| all[one].is_none_or(|w| w.ever);
            let pair = pair.or_else(|| {
                let (a, b) = solution.grid.witness(scope, |a, b| never[a] && may(b) || never[b] && may(a))?;
                let (one, other) = if never[b] { (a, b) } else { (b, a) };
                Some(Pair { one, other, iteration: *iteration })
            });
            pair.filter(|_| searches > 0)?;
            searches -= 1;
            let goal = Goal {
                branch: Some(branch),
                point,
                scope,
                used_branches,
                pair,
                never: &never,
                iteration: *iteration,
                differ: None,
            };
            self.find_path(&goal)
        })?;
        Some(Proof { pair, values: None, path, assumes, run: None })
    }

    /// Returns two invocations of which one executes `point` without the other, on one path to it. The branches in
    /// `around` are those at which they may diverge.
    pub(super) fn diverges_on_a_path(&self, point: u32, scope: Uniformity, around: &[u32]) -> Option<Proof> {
        let condition = |x: &u32| self.solution.graph.find(self.solution.graph.conditions[*x as usize]);
        let known = around.iter().any(|x| self.differs_by_known_values(condition(x)));
        known.then(|| self.run(point, scope, None)).flatten()
    }

    /// Returns true if a value depends on something in which invocations are known to differ, without a read of memory.
    fn differs_by_known_values(&self, n: u32) -> bool {
        let graph = &self.solution.graph;
        let mut seen = FxHashSet::default();
        let mut work = vec![n];
        while let Some(n) = work.pop() {
            let node = &graph.nodes[n as usize];
            if matches!(node.shape, Shape::Lanes(_) | Shape::Offset { .. }) {
                return true;
            }
            if seen.len() < MAX_WORK as usize && seen.insert(n) && !matches!(node.kind, Kind::Load { .. }) {
                work.extend(graph.inputs(n));
            }
        }
        false
    }

    fn run(&self, point: u32, scope: Uniformity, differ: Option<Differing>) -> Option<Proof> {
        let search = self.search.as_ref()?.get_or_init(|| PathSearch::new(self.solution, self.decorations));
        let Run { pair, path, workgroup, diverged, assumes, values } = search.run(point, scope, differ)?;
        let values = differ.zip(values).map(|(d, v)| self.numbers(d.node, v));
        Some(Proof { pair, values, path, assumes, run: Some((workgroup, diverged)) })
    }

    /// Returns two invocations for which an operand differs, and how they get there.
    pub(super) fn differ(&self, node: u32, point: u32, scope: Uniformity) -> Option<Proof> {
        let sources = self.sources(node, scope);
        let always = sources.iter().find_map(|(n, exact)| self.differ_always(*n, *exact, point, scope));
        always.or_else(|| {
            let on_a_path =
                |(n, exact): &(u32, u64)| self.run(point, scope, Some(Differing { node: *n, exact: *exact }));
            sources.iter().find_map(on_a_path)
        })
    }

    /// Returns the values each of which alone makes the operand differ if it differs, with the bound below which
    /// distinct integers stay distinct.
    fn sources(&self, node: u32, scope: Uniformity) -> Vec<(u32, u64)> {
        let solution = self.solution;
        let mut n = solution.graph.find(node);
        // Below this, distinct integers stay distinct.
        let mut exact = u64::MAX;
        // If a single index of an address differs, the address does.
        for _ in 0..32 {
            let of = &solution.graph.nodes[n as usize];
            let op = of.inst.map(|r| solution.program.module.inst(r).op);
            if op.is_some_and(tensor_layouts::is_layout) {
                return self.fields(n, scope).into_iter().map(|n| (n, exact)).collect();
            }
            if of.kind != Kind::Max || !op.is_none_or(preserves_difference) {
                break;
            }
            if matches!(op, Some(Op::ConvertUToF | Op::ConvertSToF)) {
                exact = exact.min(self.exact_integers(of.inst));
            }
            let mut differing =
                solution.graph.operands(n).filter(|(op, _)| solution.seen_from(*op, of.point).0 > scope);
            match (differing.next(), differing.next()) {
                (Some((op, _)), None) => n = op,
                _ => return Vec::new(),
            }
        }
        vec![(n, exact)]
    }

    fn differ_always(&self, n: u32, exact: u64, point: u32, scope: Uniformity) -> Option<Proof> {
        let solution = self.solution;
        let of = &solution.graph.nodes[n as usize];
        if let Shape::Offset { lanes, base, .. } = &of.shape
            && *base <= scope
            && exact == u64::MAX
        {
            let (one, other) = solution.grid.witness(scope, |a, b| lanes[a] != lanes[b])?;
            let pair = Pair { one, other, iteration: 0 };
            let none = FxHashSet::default();
            let (pair, path) =
                self.find_path(&Goal::operand(point, scope, pair, Differing { node: n, exact }, &none))?;
            return Some(Proof { pair, values: None, path, assumes: of.shape_assumes, run: None });
        }
        let (mut values, mut searches, mut assumes) = ((0, 0), MAX_SEARCHES, Assumptions::NONE);
        let (pair, path) = self.each_iteration(point, n, |known| {
            // It is not known whether it is executed in this iteration.
            (!known.varies).then_some(())?;
            let v = &known.values;
            let (one, other) = solution
                .grid
                .witness(scope, |a, b| matches!((v[a], v[b]), (Some(x), Some(y)) if x != y && x.max(y) <= exact))?;
            values = (v[one]?, v[other]?);
            assumes = known.assumes;
            searches = u32::checked_sub(searches, 1)?;
            let pair = Pair { one, other, iteration: known.iteration };
            self.find_path(&Goal::operand(point, scope, pair, Differing { node: n, exact }, &known.used_branches))
        })?;
        Some(Proof { pair, values: Some(self.numbers(n, values)), path, assumes, run: None })
    }

    /// Returns two values of a node as numbers of its type.
    fn numbers(&self, n: u32, (a, b): (u64, u64)) -> (Number, Number) {
        let float = self.solution.graph.nodes[n as usize].width == 0;
        (Number::new(a, float), Number::new(b, float))
    }

    /// Returns the bound below which a conversion to floats is exact for integers.
    fn exact_integers(&self, conversion: Option<InstRef>) -> u64 {
        let module = self.solution.program.module;
        let ty = conversion.and_then(|r| module.inst(r).ty).and_then(|t| module.def_inst(t));
        match ty.and_then(|t| t.word(0)).filter(|_| ty.is_some_and(|t| t.op == Op::TypeFloat)) {
            Some(32 | 64) => 1 << 24,
            // The smallest significand of all 16-bit formats.
            Some(16) => 1 << 8,
            _ => 0,
        }
    }

    /// Calls a function with the values of a node in the first iteration of all loops around a point, and in later ones
    /// of the innermost.
    fn each_iteration(
        &self,
        point: u32,
        node: u32,
        mut judge: impl FnMut(&IterationValues) -> Option<(Pair, Path)>,
    ) -> Option<(Pair, Path)> {
        let solution = self.solution;
        let mut phis: FxHashMap<u32, Values> = FxHashMap::default();
        let l = solution.program.point(point).in_loop;
        let mut work = 0;
        let (mut before, mut assumes) = (FxHashSet::default(), Assumptions::NONE);
        for iteration in 0..MAX_ITERATIONS {
            let mut r = Iteration::new(point, &phis);
            (r.used_branches, r.assumes) = (std::mem::take(&mut before), assumes);
            let values = self.values(node, &mut r, 0);
            let varies = r.varies;
            let unsure = varies && !self.comes_to(point, &mut r);
            let (used_branches, assumed) = (std::mem::take(&mut r.used_branches), r.assumes);
            let known = IterationValues { values, iteration, varies, unsure, used_branches, assumes: assumed };
            if let Some(found) = judge(&known) {
                return Some(found);
            }
            r.used_branches = known.used_branches;
            work += r.memo.len() as u64 * solution.grid.lanes as u64;
            let one_entry = l != NONE && solution.program.loops[l as usize].entries.len() == 1;
            if !one_entry || work > 4_000_000 || !self.all_stay(l, &mut r) {
                return None;
            }
            let met: Vec<u32> = r.memo.keys().copied().chain(phis.keys().copied()).collect();
            // The phis of the next iteration that matter.
            let mut next = FxHashMap::default();
            for n in met {
                if self.is_header_phi(n, l) && !next.contains_key(&n) {
                    next.insert(n, self.latched(n, l, &mut r));
                }
            }
            if next.is_empty() || next == phis {
                return None;
            }
            (before, assumes) = (r.used_branches, r.assumes);
            phis = next;
        }
        None
    }

    /// Returns true if, in this iteration, every path through the loops around a point reaches it.
    fn comes_to(&self, point: u32, r: &mut Iteration) -> bool {
        let mut l = self.solution.program.point(point).in_loop;
        while l != NONE {
            if !self.comes_in(l, point, r) {
                return false;
            }
            l = self.solution.program.loops[l as usize].parent;
        }
        true
    }

    fn comes_in(&self, l: u32, point: u32, r: &mut Iteration) -> bool {
        let solution = self.solution;
        let program = solution.program;
        let entries = &program.loops[l as usize].entries;
        let mut seen = vec![false; program.points.len()];
        let mut work: Vec<u32> = entries.clone();
        while let Some(s) = work.pop() {
            if s == point || std::mem::replace(&mut seen[s as usize], true) {
                continue;
            }
            let condition = solution.graph.conditions[s as usize];
            let known: Option<Vec<u32>> = match condition {
                NONE => None,
                c => self.values(c, r, 0).iter().map(|v| v.and_then(|v| self.target(s, v))).collect(),
            };
            r.used_branches.extend(known.is_some().then_some(s));
            let next: Vec<u32> = known.unwrap_or_else(|| solution.regions.next(s).collect());
            let ends = next.is_empty() && program.terminator_op(s) != Some(Op::Unreachable);
            if ends || next.iter().any(|t| !program.in_loop(*t, l) || entries.contains(t) && *t != point) {
                return false;
            }
            work.extend(next);
        }
        true
    }

    /// Returns true if no invocation leaves a loop in an iteration.
    fn all_stay(&self, l: u32, r: &mut Iteration) -> bool {
        let solution = self.solution;
        let program = solution.program;
        let points = program.order.iter().copied().filter(|s| solution.live[*s as usize] && program.in_loop(*s, l));
        for s in points {
            if solution.regions.next(s).all(|to| program.in_loop(to, l)) {
                continue;
            }
            let condition = solution.graph.conditions[s as usize];
            if condition == NONE {
                return false;
            }
            let values = self.values(condition, r, 0);
            let stays = |v: &Option<u64>| v.and_then(|v| self.target(s, v)).is_some_and(|to| program.in_loop(to, l));
            if !values.iter().all(stays) {
                return false;
            }
            r.used_branches.insert(s);
        }
        true
    }

    fn is_header_phi(&self, n: u32, l: u32) -> bool {
        let node = &self.solution.graph.nodes[n as usize];
        node.kind == Kind::Phi && self.solution.program.headed_loop(node.point) == Some(l)
    }

    /// Returns the values of a phi of a loop's header in the next iteration.
    fn latched(&self, n: u32, l: u32, r: &mut Iteration) -> Values {
        let solution = self.solution;
        let program = solution.program;
        let mut back = solution.graph.operands(n).filter(|(_, e)| {
            e.is_some_and(|e| solution.regions.taken[e as usize] && program.in_loop(program.edge(e).from, l))
        });
        match (back.next(), back.next()) {
            (Some((op, _)), None) => self.values(op, r, 0),
            _ => self.unknown(),
        }
    }

    /// Returns true if a path leads from one point to another. With `forced`, the path goes from that branch to that
    /// target each time.
    fn reaches(&self, from: u32, point: u32, forced: Option<(u32, u32)>) -> bool {
        let program = self.solution.program;
        let mut seen = vec![false; program.points.len()];
        let mut work = vec![from];
        while let Some(s) = work.pop() {
            if s == point && (forced.is_some() || s != from) {
                return true;
            }
            if std::mem::replace(&mut seen[s as usize], true) {
                continue;
            }
            let next = self.solution.regions.next(s);
            work.extend(next.filter(|n| forced.is_none_or(|(branch, to)| s != branch || *n == to)));
        }
        false
    }

    /// Returns true if every path from `to` reaches a point before it reaches the branch (again) or ends.
    fn unavoidable(&self, branch: u32, to: u32, point: u32) -> bool {
        let program = self.solution.program;
        let ends = |s: u32| {
            self.solution.regions.next(s).next().is_none() && program.terminator_op(s) != Some(Op::Unreachable)
        };
        if to == branch && ends(to) {
            return false;
        }
        let mut seen = vec![false; program.points.len()];
        let mut work: Vec<u32> = if to == branch { self.solution.regions.next(to).collect() } else { vec![to] };
        while let Some(s) = work.pop() {
            if s == point || std::mem::replace(&mut seen[s as usize], true) {
                continue;
            }
            if s == branch || ends(s) {
                return false;
            }
            work.extend(self.solution.regions.next(s));
        }
        true
    }
}

/// Returns true if the result differs whenever one operand does.
fn preserves_difference(op: Op) -> bool {
    super::instructions::is_followed_chain(op)
        // For small integers.
        || matches!(op, Op::ConvertUToF | Op::ConvertSToF)
}
