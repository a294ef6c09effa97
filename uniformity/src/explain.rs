//! Makes the findings for the instructions that all invocations of a scope must execute together: the assumptions that
//! were made, or why the instruction may not be uniform, as a chain from the instruction back to where values begin to
//! differ.

use super::program::NONE;
use super::proofs::{Proof, Prover};
use super::solve::Solution;
use super::value_graph::{Check, Group, Kind};
use super::{Aspect, Assumption, Assumptions, Divergence, Step, Uniformity, Witness};
use coop_ir::constant::{Constants, SpecIds};
use coop_ir::decorate::Decorations;
use coop_ir::grammar::Class;
use coop_ir::grammar::Op;
use coop_ir::hash::{FxHashMap, FxHashSet};
use coop_ir::{Id, InstRef, Module};
use std::collections::VecDeque;
use std::collections::hash_map::Entry;

/// The most steps of a chain.
const MAX_STEPS: usize = 8;
/// The most instructions for which proofs and chains are searched for.
const MAX_EXPLAINED: usize = 200;

/// A reason for which a value differs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Reason {
    /// One of its operands differs.
    Operand,
    /// Invocations reach a phi along different edges, because of this branch.
    Joins(u32),
    /// Invocations left a loop in different iterations, because of this branch.
    Leaves(u32),
    /// Only a part of the subgroup executes the instruction, because of this branch.
    PartialSubgroup(u32),
}

pub(super) struct Explainer<'s, 'p, 'm> {
    solution: &'s Solution<'p, 'm>,
    decorations: &'s Decorations,
    constants: &'s Constants,
    /// True if a proof counts only with a path that reaches it.
    feasible_only: bool,
    prover: Option<Prover<'s, 'p, 'm>>,
    /// For each branch the points of its region, and the reconvergence point.
    regions: FxHashMap<u32, (FxHashSet<u32>, Option<u32>)>,
}

/// A proof, and the nodes that decide.
type Proven = (Witness, Vec<u32>, Proof);

/// All findings for an entry point.
#[derive(Default)]
pub(super) struct Findings {
    pub(super) divergences: Vec<Divergence>,
    /// The assumptions, and the instructions for which they were made.
    pub(super) assumed: Vec<(Assumption, InstRef)>,
    /// The specialization constants whose defaults were assumed.
    pub(super) defaults: SpecIds,
}

impl<'s, 'p, 'm> Explainer<'s, 'p, 'm> {
    pub(super) fn new(
        solution: &'s Solution<'p, 'm>,
        decorations: &'s Decorations,
        constants: &'s Constants,
        feasible_only: bool,
    ) -> Self {
        Explainer { solution, decorations, constants, feasible_only, prover: None, regions: FxHashMap::default() }
    }

    fn module(&self) -> &'m Module {
        self.solution.program.module
    }

    pub(super) fn run(mut self) -> Findings {
        let mut out = Findings::default();
        // The nodes that are uniform only with the defaults of specialization constants.
        let mut defaults: Vec<u32> = Vec::new();
        let mut reported: FxHashMap<(InstRef, Aspect), usize> = FxHashMap::default();
        let solution = self.solution;
        for check in solution.graph.checks.iter().filter(|c| solution.live[c.point as usize]) {
            let uniformity = solution.flow.points[check.point as usize];
            if uniformity > check.scope {
                let aspect = if check.barrier { Aspect::Barrier } else { Aspect::Flow };
                self.divergence(&mut out, &mut reported, check, aspect);
                continue;
            }
            self.assume(&mut out, check.at, solution.flow.points_assume[check.point as usize]);
            if uniformity != Uniformity::Workgroup && !solution.subgroup_flow {
                out.assumed.push((Assumption::Reconvergence, check.at));
            }
            for (operand, node) in &check.operands {
                let node = solution.graph.find(*node);
                let (uniformity, assumes) = solution.seen_from(node, check.point);
                if uniformity > check.scope {
                    self.divergence(&mut out, &mut reported, check, Aspect::Operand(*operand));
                } else {
                    self.assume(&mut out, check.at, assumes);
                    if assumes.any(Assumptions::DEFAULTS) {
                        defaults.push(node);
                    }
                }
            }
        }
        if out.assumed.iter().any(|a| a.0 == Assumption::Defaults) {
            let branches = solution.branches.iter().filter(|(_, (_, assumes))| assumes.any(Assumptions::DEFAULTS));
            defaults.extend(branches.map(|(x, _)| self.condition(*x)));
            out.defaults = self.constants_below(&defaults);
        }
        out
    }

    fn assume(&self, out: &mut Findings, at: InstRef, assumes: Assumptions) {
        out.assumed.extend(assumes.iter().map(|a| (a, at)));
    }

    /// Adds a divergence. Of several for one instruction, in several call instances, the first with a proof is kept,
    /// else the first.
    fn divergence(
        &mut self,
        out: &mut Findings,
        reported: &mut FxHashMap<(InstRef, Aspect), usize>,
        check: &Check,
        aspect: Aspect,
    ) {
        let before = reported.get(&(check.at, aspect)).copied();
        if before.is_some_and(|i| out.divergences[i].witness.is_some()) || reported.len() > MAX_EXPLAINED * 50 {
            return;
        }
        let (proof, chain) = if self.solution.exhausted || reported.len() > MAX_EXPLAINED {
            (None, Vec::new())
        } else {
            match aspect {
                Aspect::Operand(i) => self.operand(check, i),
                Aspect::Flow | Aspect::Barrier => self.flow(check),
            }
        };
        let defaults = match &proof {
            Some((_, from, proof)) if proof.assumes.any(Assumptions::DEFAULTS) => self.constants_below(from),
            _ => SpecIds::default(),
        };
        let (witness, path) = proof.map(|(witness, _, proof)| (witness, Box::new(proof.path))).unzip();
        let path = path.filter(|_| self.feasible_only);
        let divergence = Divergence { at: check.at, aspect, scope: check.scope, witness, path, defaults, chain };
        match before {
            Some(i) if divergence.witness.is_some() => out.divergences[i] = divergence,
            Some(_) => {}
            None => {
                reported.insert((check.at, aspect), out.divergences.len());
                out.divergences.push(divergence);
            }
        }
    }

    // Control flow.

    /// Returns the branches at which invocations of a scope diverge, in program order.
    fn branches(&self, scope: Uniformity) -> Vec<u32> {
        let solution = self.solution;
        let diverges = |x: &u32| solution.branches.get(x).is_some_and(|b| b.0 > scope);
        solution.program.order.iter().copied().filter(diverges).collect()
    }

    fn region(&mut self, x: u32) -> &(FxHashSet<u32>, Option<u32>) {
        let solution = self.solution;
        self.regions.entry(x).or_insert_with(|| {
            let region = solution.region(x);
            (region.points.into_iter().collect(), region.reconvergence)
        })
    }

    /// Returns the diverging branches whose region contains a point.
    fn branches_around(&mut self, point: u32, scope: Uniformity) -> Vec<u32> {
        let all = self.branches(scope);
        all.into_iter().filter(|x| self.region(*x).0.contains(&point)).collect()
    }

    /// Returns the diverging branches that decide along which edge invocations reach a point.
    fn joining(&mut self, point: u32, scope: Uniformity) -> Vec<u32> {
        let solution = self.solution;
        let all = self.branches(scope);
        all.into_iter()
            .filter(|x| {
                let (points, reconvergence) = self.region(*x);
                let near = *reconvergence == Some(point) || points.contains(&point);
                near && solution.regions.is_join(*x, point, |from| from == *x || points.contains(&from))
            })
            .collect()
    }

    /// Returns the diverging branches by which invocations leave a loop in different iterations.
    fn leaving(&mut self, l: u32, scope: Uniformity) -> Vec<u32> {
        let program = self.solution.program;
        let all = self.branches(scope);
        all.into_iter()
            .filter(|x| program.in_loop(*x, l) && self.region(*x).1.is_none_or(|m| !program.in_loop(m, l)))
            .collect()
    }

    /// Returns the proof, with the nodes that decide, and the chain.
    fn flow(&mut self, check: &Check) -> (Option<Proven>, Vec<Step>) {
        let solution = self.solution;
        let branches = self.branches_around(check.point, check.scope);
        for x in branches.iter().take(24) {
            let prover = self.prover.get_or_insert_with(|| Prover::new(solution, self.decorations, self.feasible_only));
            if let Some(proof) = prover.diverges_at(*x, check.point, check.scope) {
                let reported = (self.witness(&proof), vec![self.condition(*x)], proof);
                return (Some(reported), self.branch_chain(*x, check.scope));
            }
        }
        let prover = self.prover.get_or_insert_with(|| Prover::new(solution, self.decorations, self.feasible_only));
        if let Some(proof) = prover.diverges_on_a_path(check.point, check.scope, &branches) {
            let diverged = proof.run.and_then(|r| r.1).or(branches.first().copied());
            let reported = (self.witness(&proof), diverged.iter().map(|x| self.condition(*x)).collect(), proof);
            return (Some(reported), diverged.map_or_else(Vec::new, |x| self.branch_chain(x, check.scope)));
        }
        // The first cause: a branch that all invocations execute.
        let first = branches.iter().find(|x| solution.flow.points[**x as usize] <= check.scope);
        match first.or(branches.first()) {
            Some(x) => (None, self.branch_chain(*x, check.scope)),
            None => (None, Vec::new()),
        }
    }

    fn witness(&self, proof: &Proof) -> Witness {
        let grid = &self.solution.grid;
        Witness {
            invocations: (proof.pair.one as u32, proof.pair.other as u32),
            subgroup: grid.subgroup as u32,
            assumed: grid.assumed,
            in_subgroup: grid.size.is_none(),
            values: proof.values,
            iteration: proof.pair.iteration,
            on_a_path: proof.run.is_some(),
            workgroup: proof.run.and_then(|r| r.0),
        }
    }

    /// Returns the specialization constants on which values depend.
    fn constants_below(&self, from: &[u32]) -> SpecIds {
        let graph = &self.solution.graph;
        let mut found = SpecIds::default();
        let mut seen = FxHashSet::default();
        let mut work = from.to_vec();
        while let Some(n) = work.pop() {
            let node = &graph.nodes[n as usize];
            let rests = node.shape_assumes.and(node.assumes).any(Assumptions::DEFAULTS);
            if !rests || !seen.insert(n) {
                continue;
            }
            if let Some(id) = graph.constant_of.get(&n)
                && let Some(specs) = self.constants.get(*id).specs()
            {
                found.merge(specs);
            }
            work.extend(graph.inputs(n));
        }
        found
    }

    fn branch_chain(&mut self, x: u32, scope: Uniformity) -> Vec<Step> {
        let mut chain = Vec::new();
        self.branch_step(x, &mut chain);
        let condition = self.solution.graph.find(self.solution.graph.conditions[x as usize]);
        self.value_steps(condition, x, scope, &mut chain);
        chain
    }

    fn branch_step(&self, x: u32, chain: &mut Vec<Step>) {
        let Some(at) = self.solution.program.terminator(x) else { return };
        let text = match self.module().inst(at).op {
            Op::Switch => "this switch sends invocations different ways",
            Op::BranchConditional => "this branch sends invocations different ways",
            _ => "this may send invocations different ways",
        };
        chain.push(Step { at, text: text.into() });
    }

    // Values.

    fn operand(&mut self, check: &Check, operand: u32) -> (Option<Proven>, Vec<Step>) {
        let solution = self.solution;
        let node = check.operands.iter().find(|o| o.0 == operand).map_or(0, |o| solution.graph.find(o.1));
        let prover = self.prover.get_or_insert_with(|| Prover::new(solution, self.decorations, self.feasible_only));
        let proof = prover.differ(node, check.point, check.scope);
        let reported = proof.map(|proof| (self.witness(&proof), vec![node], proof));
        let mut chain = Vec::new();
        self.value_steps(node, check.point, check.scope, &mut chain);
        (reported, chain)
    }

    /// Returns the uniformity of a node, and the chain that says why it is not uniform over a larger scope.
    pub(super) fn value(&mut self, n: u32) -> (Uniformity, Vec<Step>) {
        let node = &self.solution.graph.nodes[n as usize];
        let (uniformity, point) = (node.uniformity, node.point);
        let mut chain = Vec::new();
        // The largest scope over which it is not uniform.
        match uniformity {
            Uniformity::Workgroup => {}
            Uniformity::Subgroup => self.value_steps(n, point, Uniformity::Workgroup, &mut chain),
            Uniformity::Divergent => self.value_steps(n, point, Uniformity::Subgroup, &mut chain),
        }
        (uniformity, chain)
    }

    /// Adds the shortest chain from a value that differs to where values begin to differ.
    fn value_steps(&mut self, n: u32, user: u32, scope: Uniformity, chain: &mut Vec<Step>) {
        let mut came: FxHashMap<u32, (u32, Reason)> = FxHashMap::default();
        let mut queue = VecDeque::new();
        let own = self.own_reason(n, user, scope);
        for (to, reason) in own.unwrap_or_else(|| vec![(n, Reason::Operand)]) {
            came.insert(to, (NONE, reason));
            queue.push_back(to);
        }
        let mut end = None;
        while let Some(n) = queue.pop_front() {
            if self.begins(n, scope) {
                end = Some(n);
                break;
            }
            for (to, reason) in self.reasons(n, scope) {
                if let Entry::Vacant(e) = came.entry(to) {
                    e.insert((n, reason));
                    queue.push_back(to);
                }
            }
        }
        let mut path = Vec::new();
        let mut at = end;
        while let Some((n, (before, reason))) = at.and_then(|n| came.get(&n).map(|c| (n, *c))) {
            path.push((n, reason));
            at = (before != NONE).then_some(before);
        }
        path.reverse();
        let mut computed = false;
        for (i, (n, reason)) in path.iter().enumerate() {
            match reason {
                Reason::Operand => {}
                Reason::Joins(x) | Reason::PartialSubgroup(x) => self.branch_step(*x, chain),
                Reason::Leaves(x) => {
                    if let Some(at) = self.solution.program.terminator(*x) {
                        chain.push(Step { at, text: "invocations leave the loop in different iterations".into() });
                    }
                }
            }
            if i + 1 == path.len() {
                self.source(*n, chain);
            } else {
                self.between(*n, path[i + 1].1, &mut computed, chain);
            }
        }
        let mut seen = FxHashSet::default();
        chain.retain(|s| seen.insert(s.at));
        // The deciding branch and the origin matter most.
        if chain.len() > MAX_STEPS {
            chain.drain(MAX_STEPS / 2..chain.len() - MAX_STEPS / 2);
        }
    }

    /// Returns the reasons for which a uniform value differs for a user outside of its loop: invocations left the loop
    /// at different times.
    fn own_reason(&mut self, n: u32, user: u32, scope: Uniformity) -> Option<Vec<(u32, Reason)>> {
        let solution = self.solution;
        if solution.graph.nodes[n as usize].uniformity > scope {
            return None;
        }
        let l = solution.left_divergently(n, user, scope)?;
        let leaving = self.leaving(l, scope);
        Some(leaving.into_iter().map(|x| (self.condition(x), Reason::Leaves(x))).collect())
    }

    fn condition(&self, x: u32) -> u32 {
        self.solution.graph.find(self.solution.graph.conditions[x as usize])
    }

    /// Returns true if a node is an origin of differing values.
    fn begins(&self, n: u32, scope: Uniformity) -> bool {
        let node = &self.solution.graph.nodes[n as usize];
        match node.kind {
            Kind::Fixed => node.uniformity > scope,
            Kind::Group(Group::Own) => true,
            Kind::Group(Group::Same(uniformity) | Group::Keeps(uniformity)) => uniformity > scope,
            _ => false,
        }
    }

    /// Returns the reasons for which a node's value differs.
    fn reasons(&mut self, n: u32, scope: Uniformity) -> Vec<(u32, Reason)> {
        let solution = self.solution;
        let node = &solution.graph.nodes[n as usize];
        let mut out = Vec::new();
        for (op, edge) in solution.graph.operands(n) {
            let of = &solution.graph.nodes[op as usize];
            if edge.is_some_and(|e| !solution.regions.taken[e as usize]) || of.kind == Kind::Undef {
                continue;
            }
            if of.uniformity > scope {
                out.push((op, Reason::Operand));
            } else if let Some(more) = self.own_reason(op, node.point, scope) {
                out.extend(more);
            }
        }
        if node.kind == Kind::Phi && solution.flow.joins[node.point as usize] > scope {
            let joining = self.joining(node.point, scope);
            out.extend(joining.into_iter().map(|x| (self.condition(x), Reason::Joins(x))));
        }
        if matches!(node.kind, Kind::Group(_)) && solution.flow.points[node.point as usize] > scope {
            let around = self.branches_around(node.point, scope);
            out.extend(around.into_iter().map(|x| (self.condition(x), Reason::PartialSubgroup(x))));
        }
        out
    }

    /// Adds a step between the ends of a chain. Of the steps that only compute, the first is enough.
    fn between(&self, n: u32, next: Reason, computed: &mut bool, chain: &mut Vec<Step>) {
        let node = &self.solution.graph.nodes[n as usize];
        let Some(at) = node.inst else { return };
        let text = match (node.kind, next) {
            (Kind::Phi, Reason::Joins(_)) => "its value depends on the path taken",
            (_, Reason::Leaves(_)) => "uses a value from inside of a loop",
            (Kind::Phi, _) => "one of its values differs",
            (Kind::Load { .. }, _) => "read at an address that differs",
            (Kind::Group(_), Reason::PartialSubgroup(_)) => "executed by a part of the subgroup",
            (Kind::Group(_), _) => "moves a value that differs",
            _ if std::mem::replace(computed, true) => return,
            _ => "computed from a value that differs",
        };
        chain.push(Step { at, text: text.into() });
    }

    /// Adds the step at which values begin to differ.
    fn source(&self, n: u32, chain: &mut Vec<Step>) {
        let node = &self.solution.graph.nodes[n as usize];
        if let Some((variable, component)) = self.solution.graph.source_of.get(&n) {
            let Some(at) = self.module().def(*variable) else { return };
            let text = match self.built_in(*variable, *component) {
                Some(name) if node.uniformity == Uniformity::Subgroup => {
                    format!("{name} is the same in a subgroup only")
                }
                Some(name) => format!("{name} differs between invocations"),
                None => "an input of each invocation that may differ".into(),
            };
            chain.push(Step { at, text });
            return;
        }
        let Some(at) = node.inst else { return };
        let inst = self.module().inst(at);
        let text = match inst.op {
            _ if matches!(node.kind, Kind::Group(Group::Own)) => "each invocation gets its own result".into(),
            _ if matches!(node.kind, Kind::Group(_)) => "the same in a subgroup, but not in the workgroup".into(),
            Op::FunctionCall => "the result of a call that was not followed".into(),
            Op::Load => "read where other invocations may write".into(),
            Op::Store => "an element of a matrix, or what a pointer may write".into(),
            op if op.is_atomic() => format!("{op} gives invocations different values"),
            Op::CooperativeMatrixReduceNV if node.uniformity == Uniformity::Subgroup => {
                "one value in each subgroup".into()
            }
            op if op.info().is_some_and(|i| i.class == Class::CooperativeMatrix) => {
                "each invocation has its own elements".into()
            }
            op if op.is_branch() => "nothing is known about this".into(),
            op => format!("{op} may differ from invocation to invocation"),
        };
        chain.push(Step { at, text });
    }

    fn built_in(&self, variable: Id, component: u32) -> Option<&'static str> {
        let (number, _) = super::inputs::which(self.module(), self.decorations, variable, component)?;
        number.name()
    }
}

impl Solution<'_, '_> {
    /// Returns the region of a branch in the solution.
    pub(super) fn region(&self, x: u32) -> super::reconvergence::Region {
        let mut regions = super::reconvergence::Regions::new(self.program, self.regions.maximal);
        regions.taken.clone_from(&self.regions.taken);
        regions.region(x)
    }

    /// Returns the scope over which a point is executed together: [`Uniformity::Workgroup`] also if it is never
    /// reached.
    pub(super) fn point_uniformity(&self, s: u32) -> Uniformity {
        if self.live[s as usize] { self.flow.points[s as usize] } else { Uniformity::Workgroup }
    }
}
