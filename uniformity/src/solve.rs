//! The fixed point: the uniformity of values and of control flow, from the most uniform down.
//!
//! Everything starts as uniform, unreached and of unknown shape, and only gets less uniform: values by their operands,
//! points and joins by the conditions of branches, values by joins and by loops that invocations leave at different
//! times. The result holds when nothing changes any more, since each step is valid for all invocations that have
//! executed the same path of points so far.

use super::program::{NONE, Program};
use super::reconvergence::{Changed, Flow, Regions};
use super::shape::{Arg, Grid, Shape, fold};
use super::shared_reduction::ReductionRule;
use super::subgroup_ops::{ActiveLanes, is_computed};
use super::value_graph::{Group, Kind, Node, ValueGraph};
use super::{Assumptions, Uniformity};
use coop_ir::cfg::Case;
use coop_ir::grammar::Op;
use coop_ir::hash::FxHashMap;
use std::ops::Range;

/// The nodes to evaluate again, by their positions in [`Solution::nodes_of`].
struct Dirty {
    words: Vec<u64>,
    any: bool,
}

impl Dirty {
    fn add(&mut self, place: u32) {
        self.words[place as usize / 64] |= 1 << (place % 64);
        self.any = true;
    }
}

/// A uniformity, and its assumptions.
type Rated = (Uniformity, Assumptions);

/// The uniformity and shape of each node and point.
pub(super) struct Solution<'p, 'm> {
    pub(super) program: &'p Program<'m>,
    pub(super) graph: ValueGraph,
    pub(super) grid: Grid,
    pub(super) regions: Regions<'p, 'm>,
    pub(super) flow: Flow,
    /// For each point, true if it can be reached.
    pub(super) live: Vec<bool>,
    /// For each node, the loop between whose iterations it may change, or [`NONE`].
    vary: Vec<u32>,
    /// The users of each node.
    users: (Vec<u32>, Vec<u32>),
    /// For each point, in program order, its nodes: phis first, then each after its operands, as far as loops allow.
    /// Nodes with another representative are not in a list.
    nodes_of: (Vec<u32>, Vec<u32>),
    /// The position of each point in the program's order.
    point_place: Vec<u32>,
    /// The position of each node in those lists.
    place: Vec<u32>,
    /// True if the entry point requires subgroups to stay together.
    pub(super) subgroup_flow: bool,
    /// The rules about reductions through shared memory, by node. There are few.
    rules: Vec<ReductionRule>,
    /// The current answer of each rule, and the loop behind which alone it holds.
    ruled: Vec<(Option<Rated>, Option<u32>)>,
    /// The positions of the nodes that use a value of a loop from outside of it; found when invocations first leave a
    /// loop at different times.
    outside: Option<Vec<u32>>,
    /// The branches at which invocations diverge, with their uniformity.
    pub(super) branches: FxHashMap<u32, (Uniformity, Assumptions)>,
    /// Points that are reached and have edges that were not taken yet.
    open: Vec<u32>,
    /// Points with a condition, in the program's order.
    deciding: Vec<u32>,
    /// True if the budget is exhausted: then nothing is uniform.
    pub(super) exhausted: bool,
}

/// Builds adjacent lists of several owners. All items are counted first.
struct ListBuilder {
    /// The count of a list is stored two entries behind its number: a prefix sum moves its start one entry behind, and
    /// filling the list moves that to its end, where the next one starts.
    start: Vec<u32>,
    items: Vec<u32>,
}

impl ListBuilder {
    fn new(owners: usize) -> ListBuilder {
        ListBuilder { start: vec![0; owners + 2], items: Vec::new() }
    }

    fn count(&mut self, owner: u32) {
        self.start[owner as usize + 2] += 1;
    }

    fn counted(&mut self) {
        let mut sum = 0;
        for n in &mut self.start {
            sum += *n;
            *n = sum;
        }
        self.items = vec![0; sum as usize];
    }

    fn put(&mut self, owner: u32, item: u32) {
        let at = &mut self.start[owner as usize + 1];
        self.items[*at as usize] = item;
        *at += 1;
    }

    /// Returns the start of each list, and all items.
    fn finish(self) -> (Vec<u32>, Vec<u32>) {
        (self.start, self.items)
    }
}

/// Returns the users of each node, without nodes that have another representative.
fn users(graph: &ValueGraph) -> (Vec<u32>, Vec<u32>) {
    let mut builder = ListBuilder::new(graph.nodes.len());
    for n in graph.standing() {
        graph.inputs(n).for_each(|op| builder.count(op));
    }
    builder.counted();
    for n in graph.standing() {
        graph.inputs(n).for_each(|op| builder.put(op, n));
    }
    builder.finish()
}

/// Returns the nodes of each point, by position, phis first.
fn nodes_of(graph: &ValueGraph, point_place: &[u32]) -> (Vec<u32>, Vec<u32>) {
    let mut builder = ListBuilder::new(point_place.len());
    let place = |n: u32| point_place[graph.nodes[n as usize].point as usize];
    graph.standing().for_each(|n| builder.count(place(n)));
    builder.counted();
    for phis in [true, false] {
        for n in graph.standing() {
            if (graph.nodes[n as usize].kind == Kind::Phi) == phis {
                builder.put(place(n), n);
            }
        }
    }
    builder.finish()
}

/// Returns the position of each number in a list; those that are not in it come last.
fn places(count: usize, list: &[u32]) -> Vec<u32> {
    let mut place = vec![NONE; count];
    for (at, n) in list.iter().enumerate() {
        place[*n as usize] = at as u32;
    }
    for (slot, at) in place.iter_mut().filter(|p| **p == NONE).zip(list.len() as u32..) {
        *slot = at;
    }
    place
}

fn list(lists: &(Vec<u32>, Vec<u32>), i: u32) -> &[u32] {
    &lists.1[lists.0[i as usize] as usize..lists.0[i as usize + 1] as usize]
}

/// A guard against bugs: each pass lowers something that has few levels.
const MAX_PASSES: usize = 10_000;

impl<'p, 'm> Solution<'p, 'm> {
    /// `promises` are those of the entry point: maximal reconvergence, and subgroups that stay together.
    pub(super) fn new(
        program: &'p Program<'m>,
        mut graph: ValueGraph,
        grid: Grid,
        promises: (bool, bool),
    ) -> Solution<'p, 'm> {
        let count = graph.nodes.len();
        let users = users(&graph);
        let vary = vary(program, &graph);
        let point_place = places(program.points.len(), &program.order);
        let nodes_of = nodes_of(&graph, &point_place);
        for node in &mut graph.nodes {
            if node.kind == Kind::Undef {
                node.shape = Shape::Unknown;
            }
        }
        let place = places(count, &nodes_of.1);
        let rules = super::shared_reduction::rules(program, &graph);
        let best = Some((Uniformity::Workgroup, Assumptions::NONE));
        let ruled = rules.iter().map(|rule| (best, rule.only_behind(&graph))).collect();
        Solution {
            program,
            grid,
            regions: Regions::new(program, promises.0),
            subgroup_flow: promises.1,
            flow: Flow::new(program),
            live: vec![false; program.points.len()],
            vary,
            users,
            nodes_of,
            point_place,
            place,
            rules,
            ruled,
            outside: None,
            branches: FxHashMap::default(),
            open: Vec::new(),
            deciding: program.order.iter().copied().filter(|s| graph.conditions[*s as usize] != NONE).collect(),
            exhausted: false,
            graph,
        }
    }

    /// Returns the nodes of the values in a slot, each with its uniformity.
    pub(super) fn uniformities(&self, slot: u32) -> impl Iterator<Item = (u32, Uniformity)> + '_ {
        let standing = self.graph.nodes_of(slot).iter().map(|n| self.graph.find(*n));
        standing.map(|n| (n, self.graph.nodes[n as usize].uniformity))
    }

    /// Returns the least uniform node of the value with a number, in any call instance.
    pub(super) fn worst(&self, number: u32) -> Option<u32> {
        let slots = self.program.instances.iter().filter_map(|instance| instance.slot(number));
        slots.flat_map(|slot| self.uniformities(slot)).max_by_key(|(_, uniformity)| *uniformity).map(|(n, _)| n)
    }

    /// Runs until nothing changes.
    pub(super) fn run(&mut self) {
        if self.program.points.is_empty() {
            return;
        }
        let mut dirty = Dirty { words: vec![0; self.nodes_of.1.len().div_ceil(64)], any: false };
        self.reach(0, &mut dirty);
        for _ in 0..MAX_PASSES {
            while dirty.any {
                self.sweep(&mut dirty);
                self.branch_out(&mut dirty);
            }
            let diverged = self.apply_branches(&mut dirty);
            if !self.ask_rules(&mut dirty) && !diverged {
                break;
            }
            if self.regions.budget == 0 {
                self.give_up();
                break;
            }
        }
    }

    fn give_up(&mut self) {
        self.exhausted = true;
        self.flow.points.fill(Uniformity::Divergent);
        for node in &mut self.graph.nodes {
            node.uniformity = Uniformity::Divergent;
        }
    }

    fn reach(&mut self, s: u32, dirty: &mut Dirty) {
        if !std::mem::replace(&mut self.live[s as usize], true) {
            self.open.push(s);
            let places = self.places_of(s);
            places.for_each(|p| dirty.add(p));
        }
    }

    /// Returns the nodes of a point, as positions in the list of all.
    fn places_of(&self, s: u32) -> Range<u32> {
        let at = self.point_place[s as usize] as usize;
        self.nodes_of.0[at]..self.nodes_of.0[at + 1]
    }

    /// Returns the nodes of a point: phis first, then each after its operands.
    pub(super) fn nodes_in(&self, s: u32) -> &[u32] {
        let places = self.places_of(s);
        &self.nodes_of.1[places.start as usize..places.end as usize]
    }

    fn sweep(&mut self, dirty: &mut Dirty) {
        dirty.any = false;
        for w in 0..dirty.words.len() {
            while dirty.words[w] != 0 {
                let bit = dirty.words[w].trailing_zeros();
                dirty.words[w] &= dirty.words[w] - 1;
                let Some(&n) = self.nodes_of.1.get(w * 64 + bit as usize) else { continue };
                if self.update(n) {
                    for user in list(&self.users, n) {
                        dirty.add(self.place[*user as usize]);
                    }
                }
            }
        }
    }

    /// Takes the edges that conditions leave open.
    fn branch_out(&mut self, dirty: &mut Dirty) {
        // Points that are reached meanwhile are appended, and visited in this loop.
        let (mut at, mut kept) = (0, 0);
        while let Some(&s) = self.open.get(at) {
            at += 1;
            if self.take_from(s, dirty) {
                self.open[kept] = s;
                kept += 1;
            }
        }
        self.open.truncate(kept);
    }

    /// Takes the edges of one point; returns true if edges are left.
    fn take_from(&mut self, s: u32, dirty: &mut Dirty) -> bool {
        let mut left = false;
        for e in self.program.out(s) {
            if self.regions.taken[e as usize] {
                continue;
            }
            if !self.may_take(s, self.program.edge(e).case) {
                left = true;
                continue;
            }
            self.regions.taken[e as usize] = true;
            // A region may grow with every edge.
            self.branches.clear();
            let to = self.program.edge(e).to;
            self.reach(to, dirty);
            for p in self.places_of(to) {
                if self.graph.nodes[self.nodes_of.1[p as usize] as usize].kind != Kind::Phi {
                    break;
                }
                dirty.add(p);
            }
        }
        left
    }

    fn may_take(&self, s: u32, case: Case) -> bool {
        let condition = self.graph.conditions[s as usize];
        if condition == NONE {
            return true;
        }
        let node = &self.graph.nodes[self.graph.find(condition) as usize];
        match (&node.shape, case) {
            (Shape::Top, _) => false,
            // A constant under an assumption does not close an edge.
            (Shape::Const(v), _) if node.shape_assumes == Assumptions::NONE => match case {
                Case::Always | Case::Possible => true,
                Case::True => *v != 0,
                Case::False => *v == 0,
                Case::Value(x) => x == *v,
                Case::Default => !self.program.out(s).any(|e| self.program.edge(e).case == Case::Value(*v)),
            },
            _ => true,
        }
    }

    /// Applies the effects of diverging branches; returns true if anything changed.
    fn apply_branches(&mut self, dirty: &mut Dirty) -> bool {
        let mut changed = Changed::default();
        for i in 0..self.deciding.len() {
            let s = self.deciding[i];
            let condition = self.graph.conditions[s as usize];
            if !self.live[s as usize] || !self.regions.diverges(s) {
                continue;
            }
            let now = self.seen_from(self.graph.find(condition), s);
            let plain = (Uniformity::Workgroup, Assumptions::NONE);
            if now == plain || self.branches.get(&s) == Some(&now) {
                continue;
            }
            self.branches.insert(s, now);
            self.regions.apply(&mut self.flow, (s, now.0, now.1), &mut changed);
        }
        for (points, of) in [(&changed.points, false), (&changed.joins, true)] {
            for s in points {
                for p in self.places_of(*s) {
                    let kind = self.graph.nodes[self.nodes_of.1[p as usize] as usize].kind;
                    if if of { kind == Kind::Phi } else { matches!(kind, Kind::Group(_)) } {
                        dirty.add(p);
                    }
                }
            }
        }
        if changed.exits {
            let outside = self.outside.take().unwrap_or_else(|| self.outside());
            outside.iter().for_each(|p| dirty.add(*p));
            self.outside = Some(outside);
        }
        changed.any()
    }

    /// Returns the positions of the nodes for which [`Solution::seen_from`] asks about loops.
    fn outside(&self) -> Vec<u32> {
        let (nodes, mut found) = (&self.graph.nodes, Vec::new());
        for (n, l) in self.vary.iter().enumerate().filter(|(_, l)| **l != NONE) {
            let users = list(&self.users, n as u32).iter();
            let behind = users.filter(|u| !self.program.in_loop(nodes[**u as usize].point, *l));
            found.extend(behind.map(|u| self.place[*u as usize]));
        }
        found
    }

    /// Returns the uniformity of a value for a use at a point.
    pub(super) fn seen_from(&self, n: u32, point: u32) -> (Uniformity, Assumptions) {
        let node = &self.graph.nodes[n as usize];
        let mut seen = (node.uniformity, node.assumes);
        if node.shape.is_exact() && node.shape_assumes == Assumptions::NONE {
            return seen;
        }
        let mut l = self.vary[n as usize];
        while l != NONE && !self.program.in_loop(point, l) {
            seen.0 = seen.0.max(self.flow.exits[l as usize]);
            seen.1 = seen.1.and(self.flow.exits_assume[l as usize]);
            l = self.program.loops[l as usize].parent;
        }
        if let Some((uniformity, assumes)) = self.rule_of(n, Some(point))
            && uniformity < seen.0
        {
            return (uniformity, assumes);
        }
        // A value that is known for each invocation is the same in all iterations.
        if seen.0 > node.uniformity && node.shape.is_exact() {
            return (node.uniformity, node.assumes.and(node.shape_assumes));
        }
        seen
    }

    /// Returns the loop that invocations leave at different times and that makes a value differ, as seen from a point.
    pub(super) fn left_divergently(&self, n: u32, point: u32, scope: Uniformity) -> Option<u32> {
        let mut l = self.vary[n as usize];
        while l != NONE && !self.program.in_loop(point, l) {
            if self.flow.exits[l as usize] > scope {
                return Some(l);
            }
            l = self.program.loops[l as usize].parent;
        }
        None
    }

    fn update(&mut self, n: u32) -> bool {
        let node = &self.graph.nodes[n as usize];
        if matches!(node.kind, Kind::Fixed | Kind::Undef) || !self.live[node.point as usize] {
            return false;
        }
        let mut new = NodeValue::new(Shape::Unknown);
        if !self.evaluate(n, &mut new) {
            return false;
        }
        let node = &mut self.graph.nodes[n as usize];
        let shape = match (&node.shape, new.shape) {
            (Shape::Top, Shape::Top) | (Shape::Unknown, _) => None,
            (Shape::Top, s) => Some(s),
            (old, s) if *old == s => None,
            _ => Some(Shape::Unknown),
        };
        let before = (node.uniformity, node.assumes, node.shape_assumes);
        node.uniformity = node.uniformity.max(new.uniformity);
        node.assumes = node.assumes.and(new.assumes);
        node.shape_assumes = node.shape_assumes.and(new.shape_assumes);
        let changed = shape.is_some() || before != (node.uniformity, node.assumes, node.shape_assumes);
        if let Some(shape) = shape {
            node.shape = shape;
        }
        changed
    }

    /// Computes the current value of a node. `value` comes in empty; filling it instead of returning it saves a quarter
    /// of the time.
    fn evaluate(&self, n: u32, value: &mut NodeValue) -> bool {
        if !self.by_kind(n, value) {
            return false;
        }
        if let Some((uniformity, assumes)) = self.rule_of(n, None)
            && uniformity < value.uniformity
        {
            (value.uniformity, value.assumes) = (uniformity, assumes);
        }
        true
    }

    /// Returns the answer of a rule about a node: behind its loop, or at a point.
    fn rule_of(&self, n: u32, point: Option<u32>) -> Option<(Uniformity, Assumptions)> {
        if self.rules.is_empty() {
            return None;
        }
        let at = self.rules.binary_search_by_key(&n, |r| r.node).ok()?;
        let (said, behind) = self.ruled[at];
        match (behind, point) {
            (None, None) => said,
            (Some(l), Some(point)) => said.filter(|_| !self.program.in_loop(point, l)),
            _ => None,
        }
    }

    /// Evaluates all rules again; returns true if an answer changed.
    fn ask_rules(&mut self, dirty: &mut Dirty) -> bool {
        let mut changed = false;
        for i in 0..self.rules.len() {
            let now = self.by_rule(&self.rules[i]);
            if now == self.ruled[i].0 {
                continue;
            }
            changed = true;
            self.ruled[i].0 = now;
            let n = self.rules[i].node;
            dirty.add(self.place[n as usize]);
            for user in list(&self.users, n) {
                dirty.add(self.place[*user as usize]);
            }
        }
        changed
    }

    fn by_kind(&self, n: u32, value: &mut NodeValue) -> bool {
        let node = &self.graph.nodes[n as usize];
        match node.kind {
            Kind::Undef | Kind::Fixed => return false,
            Kind::Max => self.graph.inputs(n).for_each(|op| value.join(self.seen_from(op, node.point))),
            Kind::Fold(f) => self.computed(n, f, value),
            Kind::Pick => self.picked(n, value),
            Kind::Phi => return self.phi(n, value),
            Kind::Load { assumes, .. } => {
                let Some(op) = self.graph.inputs(n).next() else { return false };
                value.join(self.seen_from(op, node.point));
                value.assumes = value.assumes.and(assumes);
            }
            Kind::Group(g) => {
                value.join(self.group(n, g));
                self.gathered(n, value);
            }
        }
        true
    }

    fn group(&self, n: u32, g: Group) -> (Uniformity, Assumptions) {
        let node = &self.graph.nodes[n as usize];
        let mut ops = self.graph.inputs(n).map(|op| self.seen_from(op, node.point));
        let all = ops.next().unwrap_or((Uniformity::Divergent, Assumptions::NONE));
        let named = ops.next();
        // The invocations that execute it together need not be those that arrived together.
        let flow = self.flow.points[node.point as usize];
        let within = |scope: Uniformity| {
            let whole = if scope == Uniformity::Workgroup { flow == scope } else { flow <= Uniformity::Subgroup };
            let mut assumes = self.flow.points_assume[node.point as usize];
            if flow == Uniformity::Subgroup && !self.subgroup_flow {
                assumes = assumes.and(Assumptions::RECONVERGENCE);
            }
            (if whole { scope } else { Uniformity::Divergent }, assumes)
        };
        match (g, named) {
            (Group::Own, _) => (Uniformity::Divergent, Assumptions::NONE),
            (Group::Keeps(scope), _) if all.0 < scope => all,
            (Group::Same(scope) | Group::Keeps(scope), _) => within(scope),
            (Group::Moved, _) => all,
            (Group::Named, _) if all.0 != Uniformity::Divergent => all,
            (Group::Named, Some(who)) if who.0 != Uniformity::Divergent => {
                let (uniformity, assumes) = within(Uniformity::Subgroup);
                (uniformity, assumes.and(who.1))
            }
            (Group::Named, _) => (Uniformity::Divergent, Assumptions::NONE),
        }
    }

    /// Computes a subgroup instruction that whole subgroups execute with known operands.
    fn gathered(&self, n: u32, value: &mut NodeValue) {
        let node = &self.graph.nodes[n as usize];
        let point = node.point as usize;
        let Some(inst) = node.inst.map(|r| self.program.module.inst(r)) else { return };
        let elects = inst.op == Op::GroupNonUniformElect;
        let scope = inst.scope_operand().and_then(|s| self.program.module.def_inst(s)).and_then(|s| s.literal());
        let of_subgroup = scope == Some(3) && self.flow.points[point] <= Uniformity::Subgroup;
        if !of_subgroup || !is_computed(inst) || node.width == 0 || node.width > 32 {
            return;
        }
        let mut ops = self.graph.inputs(n).map(|op| &self.graph.nodes[op as usize]);
        let (first, second) = (ops.next(), ops.next());
        let known = |of: Option<&Node>| of.is_none_or(|of| of.shape.is_exact());
        if first.into_iter().chain(second).any(|of| of.shape == Shape::Top) {
            // The operand is not reached yet.
            value.shape = Shape::Top;
            return;
        }
        if !(elects || first.is_some()) || !known(first) || !known(second) {
            return;
        }
        let size = self.grid.subgroup;
        let all: Vec<u32> = (0..self.grid.lanes as u32).collect();
        let lane = |l: u32| {
            let begin = l as usize / size * size;
            let together = &all[begin..(begin + size).min(all.len())];
            let named = second.and_then(|of| of.shape.value(l as usize));
            let operand = |l: u32| first.and_then(|of| of.shape.value(l as usize));
            let v = ActiveLanes { all: together, size: size as u32 }.evaluate(
                inst,
                l,
                node.width.into(),
                named,
                operand,
            )?;
            u32::try_from(v).ok()
        };
        let lanes: Option<Vec<u32>> = all.iter().map(|l| lane(*l)).collect();
        let Some(lanes) = lanes else { return };
        value.shape = Shape::Lanes(lanes.into()).normal();
        let operands = first.into_iter().chain(second);
        let rests = operands.fold(self.grid.subgroups(), |sum, of| sum.and(of.shape_assumes));
        value.shape_assumes = rests.and(self.flow.points_assume[point]);
        if self.flow.points[point] == Uniformity::Subgroup && !self.subgroup_flow {
            value.shape_assumes = value.shape_assumes.and(Assumptions::RECONVERGENCE);
        }
        self.by_shape(value);
    }

    /// Computes the operand that an index selects.
    fn picked(&self, n: u32, value: &mut NodeValue) {
        let node = &self.graph.nodes[n as usize];
        for op in self.graph.inputs(n) {
            value.join(self.seen_from(op, node.point));
            value.shape_assumes = value.shape_assumes.and(self.graph.nodes[op as usize].shape_assumes);
        }
        let shape = |op: u32| &self.graph.nodes[op as usize].shape;
        let raw = self.graph.raw(n);
        let Some((index, from)) = raw.split_first() else { return };
        if raw.iter().any(|op| *shape(*op) == Shape::Top) {
            value.shape = Shape::Top;
            return;
        }
        let lane = |l: usize| {
            let at = usize::try_from(shape(*index).value(l)?).ok()?;
            u32::try_from(shape(*from.get(at)?).value(l)?).ok()
        };
        let lanes: Option<Vec<u32>> = (0..self.grid.lanes).map(lane).collect();
        value.shape = lanes.map_or(Shape::Unknown, |lanes| Shape::Lanes(lanes.into()).normal());
        self.by_shape(value);
    }

    fn phi(&self, n: u32, value: &mut NodeValue) -> bool {
        let node = &self.graph.nodes[n as usize];
        value.shape = Shape::Top;
        let (mut first, mut differ) = (None, false);
        for &[op, edge] in self.graph.incoming(n) {
            let other = &self.graph.nodes[op as usize];
            if !self.regions.taken[edge as usize] || op == n || other.kind == Kind::Undef {
                continue;
            }
            value.join(self.seen_from(op, node.point));
            value.shape.meet(&other.shape);
            value.shape_assumes = value.shape_assumes.and(other.shape_assumes);
            differ |= first.is_some_and(|f| f != op);
            first = Some(op);
        }
        if first.is_none() {
            return false;
        }
        if differ {
            let s = node.point as usize;
            value.join((self.flow.joins[s], self.flow.joins_assume[s]));
        }
        self.by_shape(value);
        true
    }

    fn computed(&self, n: u32, f: super::shape::Fold, value: &mut NodeValue) {
        let node = &self.graph.nodes[n as usize];
        let mut args: [Arg; 4] = [(&Shape::Unknown, Uniformity::Divergent, 0); 4];
        let mut count = 0;
        for op in self.graph.inputs(n) {
            let other = &self.graph.nodes[op as usize];
            let seen = self.seen_from(op, node.point);
            value.join(seen);
            value.shape_assumes = value.shape_assumes.and(other.shape_assumes);
            if let Some(slot) = args.get_mut(count) {
                let shape = match &other.shape {
                    // If invocations left a loop at different times, the unknown part differs.
                    Shape::Offset { base, .. } if self.left_divergently(op, node.point, *base).is_some() => {
                        &Shape::Unknown
                    }
                    s => s,
                };
                *slot = (shape, seen.0, u32::from(other.width));
            }
            count += 1;
        }
        let Some(args) = args.get(..count) else { return };
        let (shape, uniformity) = fold(&self.grid, f, u32::from(node.width), args);
        value.shape = shape;
        if let Some(uniformity) = uniformity
            && uniformity < value.uniformity
        {
            // The unknown parts are this uniform without the assumptions of the known parts.
            value.uniformity = uniformity;
            value.assumes = value.assumes.and(value.shape_assumes);
            if uniformity == Uniformity::Subgroup {
                value.assumes = value.assumes.and(self.grid.subgroups());
            }
        }
        self.by_shape(value);
    }

    /// Improves the uniformity by the shape.
    fn by_shape(&self, value: &mut NodeValue) {
        let (uniformity, mut assumes) = match &value.shape {
            Shape::Const(_) => (Uniformity::Workgroup, value.shape_assumes),
            Shape::Lanes(v) => (self.grid.agreement(v), value.shape_assumes),
            _ => return,
        };
        if uniformity == Uniformity::Subgroup {
            assumes = assumes.and(self.grid.subgroups());
        }
        if uniformity < value.uniformity || (uniformity == value.uniformity && assumes == Assumptions::NONE) {
            (value.uniformity, value.assumes) = (uniformity, assumes);
        }
    }
}

/// The uniformity and shape of a value.
struct NodeValue {
    uniformity: Uniformity,
    assumes: Assumptions,
    shape: Shape,
    shape_assumes: Assumptions,
}

impl NodeValue {
    fn new(shape: Shape) -> NodeValue {
        let none = Assumptions::NONE;
        NodeValue { uniformity: Uniformity::Workgroup, assumes: none, shape, shape_assumes: none }
    }

    fn join(&mut self, (uniformity, assumes): (Uniformity, Assumptions)) {
        self.uniformity = self.uniformity.max(uniformity);
        self.assumes = self.assumes.and(assumes);
    }
}

/// Returns for each node the innermost loop between whose iterations it may change.
fn vary(program: &Program, graph: &ValueGraph) -> Vec<u32> {
    let count = graph.nodes.len();
    let mut vary = vec![NONE; count];
    let own = |n: usize| program.point(graph.nodes[n].point).in_loop;
    for (n, v) in vary.iter_mut().enumerate() {
        let node = &graph.nodes[n];
        *v = match node.kind {
            Kind::Phi | Kind::Group(_) => own(n),
            Kind::Load { constant: false, .. } => own(n),
            Kind::Fixed if node.inst.is_some() => own(n),
            _ => NONE,
        };
    }
    // Except for phis, operands come first.
    for n in 0..count {
        let node = &graph.nodes[n];
        if !matches!(node.kind, Kind::Max | Kind::Pick | Kind::Fold(_) | Kind::Load { constant: true, .. }) {
            continue;
        }
        let mut deepest = vary[n];
        for op in graph.inputs(n as u32) {
            let mut l = vary[op as usize];
            while l != NONE && !program.in_loop(node.point, l) {
                l = program.loops[l as usize].parent;
            }
            if l != NONE && (deepest == NONE || program.loops[l as usize].depth > program.loops[deepest as usize].depth)
            {
                deepest = l;
            }
        }
        vary[n] = deepest;
    }
    vary
}
