//! What there is to say about each instruction that all invocations of a scope must execute together: nothing, that
//! something was assumed, or why they may not, from the instruction back to where values begin to differ.

use super::graph::NONE;
use super::lanes::{Prover, Shown};
use super::nodes::{Check, Group, Kind};
use super::solve::Solved;
use super::{Assumption, Assumptions, Doubt, Step, Uniformity, What, Witness};
use coop_ir::constant::{Constants, SpecIds};
use coop_ir::decorate::Decorations;
use coop_ir::grammar::Class;
use coop_ir::grammar::Op;
use coop_ir::hash::{FxHashMap, FxHashSet};
use coop_ir::{Id, InstRef, Module};
use std::collections::VecDeque;
use std::collections::hash_map::Entry;

/// Steps beyond these are left out.
const MAX_STEPS: usize = 8;
/// For so many instructions proofs and chains are looked for; the others share the last one's.
const MAX_EXPLAINED: usize = 200;

/// Why a value differs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Reason {
    /// A value that it is made of does.
    Operand,
    /// Invocations come to a phi along different edges, because of this branch.
    Joins(u32),
    /// They left a loop in different rounds, because of this branch.
    Leaves(u32),
    /// A part of the subgroup executes the instruction, because of this branch.
    Apart(u32),
}

pub(super) struct Explainer<'s, 'p, 'm> {
    solved: &'s Solved<'p, 'm>,
    decorations: &'s Decorations,
    constants: &'s Constants,
    /// True if somebody must be able to come to what is shown.
    ways: bool,
    prover: Option<Prover<'s, 'p, 'm>>,
    /// By branch, the spots of its region, and the meeting point.
    regions: FxHashMap<u32, (FxHashSet<u32>, Option<u32>)>,
}

/// A proof, and the nodes that decide.
type Told = (Witness, Vec<u32>, Shown);

/// All that was found for an entry point.
#[derive(Default)]
pub(super) struct Findings {
    pub(super) doubts: Vec<Doubt>,
    /// What was assumed for which instructions.
    pub(super) assumed: Vec<(Assumption, InstRef)>,
    /// The specialization constants whose defaults were.
    pub(super) defaults: SpecIds,
}

impl<'s, 'p, 'm> Explainer<'s, 'p, 'm> {
    pub(super) fn new(
        solved: &'s Solved<'p, 'm>,
        decorations: &'s Decorations,
        constants: &'s Constants,
        ways: bool,
    ) -> Self {
        Explainer { solved, decorations, constants, ways, prover: None, regions: FxHashMap::default() }
    }

    fn module(&self) -> &'m Module {
        self.solved.program.module
    }

    pub(super) fn run(mut self) -> Findings {
        let mut out = Findings::default();
        // The nodes that are the same only with the defaults of specialization constants.
        let mut defaults: Vec<u32> = Vec::new();
        let mut told: FxHashMap<(InstRef, What), usize> = FxHashMap::default();
        let solved = self.solved;
        for check in solved.graph.checks.iter().filter(|c| solved.live[c.spot as usize]) {
            let over = solved.flow.spots[check.spot as usize];
            if over > check.scope {
                let what = if check.barrier { What::Barrier } else { What::Flow };
                self.doubt(&mut out, &mut told, check, what);
                continue;
            }
            self.assume(&mut out, check.at, solved.flow.spots_assume[check.spot as usize]);
            if over != Uniformity::Workgroup && !solved.subgroup_flow {
                out.assumed.push((Assumption::Reconvergence, check.at));
            }
            for (operand, node) in &check.operands {
                let node = solved.graph.find(*node);
                let (over, assumes) = solved.seen_from(node, check.spot);
                if over > check.scope {
                    self.doubt(&mut out, &mut told, check, What::Operand(*operand));
                } else {
                    self.assume(&mut out, check.at, assumes);
                    if assumes.any(Assumptions::DEFAULTS) {
                        defaults.push(node);
                    }
                }
            }
        }
        if out.assumed.iter().any(|a| a.0 == Assumption::Defaults) {
            let branches = solved.branches.iter().filter(|(_, (_, assumes))| assumes.any(Assumptions::DEFAULTS));
            defaults.extend(branches.map(|(x, _)| self.condition(*x)));
            out.defaults = self.constants_below(&defaults);
        }
        out
    }

    fn assume(&self, out: &mut Findings, at: InstRef, assumes: Assumptions) {
        out.assumed.extend(assumes.iter().map(|a| (a, at)));
    }

    /// Notes a doubt; of several for one instruction (in several frames) the first that is shown, else the first.
    fn doubt(&mut self, out: &mut Findings, told: &mut FxHashMap<(InstRef, What), usize>, check: &Check, what: What) {
        let before = told.get(&(check.at, what)).copied();
        if before.is_some_and(|i| out.doubts[i].witness.is_some()) || told.len() > MAX_EXPLAINED * 50 {
            return;
        }
        let (shown, chain) = if self.solved.exhausted || told.len() > MAX_EXPLAINED {
            (None, Vec::new())
        } else {
            match what {
                What::Operand(i) => self.operand(check, i),
                What::Flow | What::Barrier => self.flow(check),
            }
        };
        let defaults = match &shown {
            Some((_, from, proof)) if proof.assumes.any(Assumptions::DEFAULTS) => self.constants_below(from),
            _ => SpecIds::default(),
        };
        let (witness, way) = shown.map(|(witness, _, proof)| (witness, Box::new(proof.way))).unzip();
        let way = way.filter(|_| self.ways);
        let doubt = Doubt { at: check.at, what, scope: check.scope, witness, way, defaults, chain };
        match before {
            Some(i) if doubt.witness.is_some() => out.doubts[i] = doubt,
            Some(_) => {}
            None => {
                told.insert((check.at, what), out.doubts.len());
                out.doubts.push(doubt);
            }
        }
    }

    // Control flow.

    /// The branches that part invocations of a scope, in order.
    fn branches(&self, scope: Uniformity) -> Vec<u32> {
        let solved = self.solved;
        let parts = |x: &u32| solved.branches.get(x).is_some_and(|b| b.0 > scope);
        solved.program.order.iter().copied().filter(parts).collect()
    }

    fn region(&mut self, x: u32) -> &(FxHashSet<u32>, Option<u32>) {
        let solved = self.solved;
        self.regions.entry(x).or_insert_with(|| {
            let region = solved.region(x);
            (region.spots.into_iter().collect(), region.meet)
        })
    }

    /// Those of them that have a spot in their region.
    fn branches_around(&mut self, spot: u32, scope: Uniformity) -> Vec<u32> {
        let all = self.branches(scope);
        all.into_iter().filter(|x| self.region(*x).0.contains(&spot)).collect()
    }

    /// Those that decide along which edge invocations come to a spot.
    fn joining(&mut self, spot: u32, scope: Uniformity) -> Vec<u32> {
        let solved = self.solved;
        let all = self.branches(scope);
        all.into_iter()
            .filter(|x| {
                let (spots, meet) = self.region(*x);
                let near = *meet == Some(spot) || spots.contains(&spot);
                near && solved.regions.is_join(*x, spot, |from| from == *x || spots.contains(&from))
            })
            .collect()
    }

    /// Those by which invocations leave a loop in different rounds.
    fn leaving(&mut self, l: u32, scope: Uniformity) -> Vec<u32> {
        let program = self.solved.program;
        let all = self.branches(scope);
        all.into_iter()
            .filter(|x| program.in_loop(*x, l) && self.region(*x).1.is_none_or(|m| !program.in_loop(m, l)))
            .collect()
    }

    /// The proof, with the nodes that decide, and the chain.
    fn flow(&mut self, check: &Check) -> (Option<Told>, Vec<Step>) {
        let solved = self.solved;
        let branches = self.branches_around(check.spot, check.scope);
        for x in branches.iter().take(24) {
            let prover = self.prover.get_or_insert_with(|| Prover::new(solved, self.decorations, self.ways));
            if let Some(shown) = prover.parted(*x, check.spot, check.scope) {
                let told = (self.witness(&shown), vec![self.condition(*x)], shown);
                return (Some(told), self.branch_chain(*x, check.scope));
            }
        }
        let prover = self.prover.get_or_insert_with(|| Prover::new(solved, self.decorations, self.ways));
        if let Some(shown) = prover.parted_on_a_way(check.spot, check.scope, &branches) {
            let parted = shown.run.and_then(|r| r.1).or(branches.first().copied());
            let told = (self.witness(&shown), parted.iter().map(|x| self.condition(*x)).collect(), shown);
            return (Some(told), parted.map_or_else(Vec::new, |x| self.branch_chain(x, check.scope)));
        }
        // Where it begins: a branch that is itself executed by all.
        let first = branches.iter().find(|x| solved.flow.spots[**x as usize] <= check.scope);
        match first.or(branches.first()) {
            Some(x) => (None, self.branch_chain(*x, check.scope)),
            None => (None, Vec::new()),
        }
    }

    fn witness(&self, shown: &Shown) -> Witness {
        let grid = &self.solved.grid;
        Witness {
            invocations: (shown.pair.one as u32, shown.pair.other as u32),
            subgroup: grid.subgroup as u32,
            assumed: grid.assumed,
            in_subgroup: grid.size.is_none(),
            values: shown.values,
            round: shown.pair.round,
            on_a_way: shown.run.is_some(),
            workgroup: shown.run.and_then(|r| r.0),
        }
    }

    /// The specialization constants that values rest on.
    fn constants_below(&self, from: &[u32]) -> SpecIds {
        let graph = &self.solved.graph;
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
            work.extend(graph.operands(n).map(|(op, _)| op));
        }
        found
    }

    fn branch_chain(&mut self, x: u32, scope: Uniformity) -> Vec<Step> {
        let mut chain = Vec::new();
        self.branch_step(x, &mut chain);
        let condition = self.solved.graph.find(self.solved.graph.conditions[x as usize]);
        self.value_steps(condition, x, scope, &mut chain);
        chain
    }

    fn branch_step(&self, x: u32, chain: &mut Vec<Step>) {
        let Some(at) = self.solved.program.terminator(x) else { return };
        let text = match self.module().inst(at).op {
            Op::Switch => "this switch sends invocations different ways",
            Op::BranchConditional => "this branch sends invocations different ways",
            _ => "this may send invocations different ways",
        };
        chain.push(Step { at, text: text.into() });
    }

    // Values.

    fn operand(&mut self, check: &Check, operand: u32) -> (Option<Told>, Vec<Step>) {
        let solved = self.solved;
        let node = check.operands.iter().find(|o| o.0 == operand).map_or(0, |o| solved.graph.find(o.1));
        let prover = self.prover.get_or_insert_with(|| Prover::new(solved, self.decorations, self.ways));
        let shown = prover.differ(node, check.spot, check.scope);
        let told = shown.map(|shown| (self.witness(&shown), vec![node], shown));
        let mut chain = Vec::new();
        self.value_steps(node, check.spot, check.scope, &mut chain);
        (told, chain)
    }

    /// The shortest way from a value that differs to where values begin to.
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
                Reason::Joins(x) | Reason::Apart(x) => self.branch_step(*x, chain),
                Reason::Leaves(x) => {
                    if let Some(at) = self.solved.program.terminator(*x) {
                        chain.push(Step { at, text: "invocations leave the loop in different rounds".into() });
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
        // The deciding branch and where it begins are what matters most.
        if chain.len() > MAX_STEPS {
            chain.drain(MAX_STEPS / 2..chain.len() - MAX_STEPS / 2);
        }
    }

    /// Why a value that is uniform differs for who uses it: those left its loop at different times.
    fn own_reason(&mut self, n: u32, user: u32, scope: Uniformity) -> Option<Vec<(u32, Reason)>> {
        let solved = self.solved;
        if solved.graph.nodes[n as usize].over > scope {
            return None;
        }
        let l = solved.left_apart(n, user, scope)?;
        let leaving = self.leaving(l, scope);
        Some(leaving.into_iter().map(|x| (self.condition(x), Reason::Leaves(x))).collect())
    }

    fn condition(&self, x: u32) -> u32 {
        self.solved.graph.find(self.solved.graph.conditions[x as usize])
    }

    /// Returns true if values begin to differ here.
    fn begins(&self, n: u32, scope: Uniformity) -> bool {
        let node = &self.solved.graph.nodes[n as usize];
        match node.kind {
            Kind::Fixed => node.over > scope,
            Kind::Group(Group::Own) => true,
            Kind::Group(Group::Same(over) | Group::Keeps(over)) => over > scope,
            _ => false,
        }
    }

    /// What makes a value differ.
    fn reasons(&mut self, n: u32, scope: Uniformity) -> Vec<(u32, Reason)> {
        let solved = self.solved;
        let node = &solved.graph.nodes[n as usize];
        let mut out = Vec::new();
        for (op, edge) in solved.graph.operands(n) {
            let of = &solved.graph.nodes[op as usize];
            if edge.is_some_and(|e| !solved.regions.taken[e as usize]) || of.kind == Kind::Undef {
                continue;
            }
            if of.over > scope {
                out.push((op, Reason::Operand));
            } else if let Some(more) = self.own_reason(op, node.spot, scope) {
                out.extend(more);
            }
        }
        if node.kind == Kind::Phi && solved.flow.joins[node.spot as usize] > scope {
            let joining = self.joining(node.spot, scope);
            out.extend(joining.into_iter().map(|x| (self.condition(x), Reason::Joins(x))));
        }
        if matches!(node.kind, Kind::Group(_)) && solved.flow.spots[node.spot as usize] > scope {
            let around = self.branches_around(node.spot, scope);
            out.extend(around.into_iter().map(|x| (self.condition(x), Reason::Apart(x))));
        }
        out
    }

    /// A step on the way; of those that only compute the first is enough.
    fn between(&self, n: u32, next: Reason, computed: &mut bool, chain: &mut Vec<Step>) {
        let node = &self.solved.graph.nodes[n as usize];
        let Some(at) = node.inst else { return };
        let text = match (node.kind, next) {
            (Kind::Phi, Reason::Joins(_)) => "what it is depends on the way taken",
            (_, Reason::Leaves(_)) => "uses what a loop leaves behind",
            (Kind::Phi, _) => "one of its values differs",
            (Kind::Load { .. }, _) => "read at an address that differs",
            (Kind::Group(_), Reason::Apart(_)) => "executed by a part of the subgroup",
            (Kind::Group(_), _) => "moves a value that differs",
            _ if std::mem::replace(computed, true) => return,
            _ => "computed from a value that differs",
        };
        chain.push(Step { at, text: text.into() });
    }

    /// Where values begin to differ.
    fn source(&self, n: u32, chain: &mut Vec<Step>) {
        let node = &self.solved.graph.nodes[n as usize];
        if let Some((variable, component)) = self.solved.graph.source_of.get(&n) {
            let Some(at) = self.module().def(*variable) else { return };
            let text = match self.built_in(*variable, *component) {
                Some(name) if node.over == Uniformity::Subgroup => format!("{name} is the same in a subgroup only"),
                Some(name) => format!("{name} differs between invocations"),
                None => "an input of each invocation".into(),
            };
            chain.push(Step { at, text });
            return;
        }
        let Some(at) = node.inst else { return };
        let inst = self.module().inst(at);
        let text = match inst.op {
            _ if matches!(node.kind, Kind::Group(Group::Own)) => "gives every invocation a result of its own".into(),
            _ if matches!(node.kind, Kind::Group(_)) => "the same in a subgroup, but not in the workgroup".into(),
            Op::FunctionCall => "the result of a call that was not followed".into(),
            Op::Load => "read where other invocations may write".into(),
            Op::Store => "an element of a matrix, or what a pointer may write".into(),
            op if op.is_atomic() => format!("{op} gives invocations different values"),
            Op::CooperativeMatrixReduceNV if node.over == Uniformity::Subgroup => "one value in each subgroup".into(),
            op if op.info().is_some_and(|i| i.class == Class::CooperativeMatrix) => {
                "each invocation has elements of its own".into()
            }
            op if op.is_branch() => "of this nothing is known".into(),
            op => format!("{op} may differ from invocation to invocation"),
        };
        chain.push(Step { at, text });
    }

    fn built_in(&self, variable: Id, component: u32) -> Option<&'static str> {
        let (number, _) = super::source::which(self.module(), self.decorations, variable, component)?;
        number.name()
    }
}

impl Solved<'_, '_> {
    /// The region of a branch, once everything is known.
    pub(super) fn region(&self, x: u32) -> super::flow::Region {
        let mut regions = super::flow::Regions::new(self.program, self.regions.maximal);
        regions.taken.clone_from(&self.regions.taken);
        regions.region(x)
    }

    /// Over what a spot is executed together, [`Uniformity::Workgroup`] also where it is never reached.
    pub(super) fn spot_over(&self, s: u32) -> Uniformity {
        if self.live[s as usize] { self.flow.spots[s as usize] } else { Uniformity::Workgroup }
    }
}
