//! Turns the flow graph into nested statements.
//!
//! Properties of the statements of a [`Flow`]:
//!
//! 1. Each reachable node occurs in them once: no code is duplicated.
//! 2. A path through the statements visits the same nodes as the path of the flow graph for the same decisions.
//! 3. [`Stmt::Break`] and [`Stmt::Continue`] belong to the innermost loop, and nothing follows them in their list.
//! 4. Selectors are preserved: a fork is on the same value as the node's, or on a variable to which each path assigned
//!    a constant. So a fork of which all invocations took the same arm has no divergent fork under it, and where paths of
//!    an original fork reconverged, they do so here, or earlier.
//!
//! A level is the function, or the body of a loop. Its loops are taken as one node each; the rest has no cycles, and is
//! split after every fork: nodes that only one arm reaches go into the arm, nodes that several reach go after the fork.
//! If the arms then end in several places, each assigns its target to [`Var::Next`], and a fork on that follows. A loop
//! has one exit, its end, and [`Var::Next`] selects the target from there if there are several.

use super::graph::{Arm, Component, Flow, Selector, Var};
use coop_ir::hash::{FxHashMap, FxHashSet};

/// A statement.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Stmt {
    /// The instructions of a block, without merge instruction and terminator.
    Block(usize),
    /// An assignment.
    Set(Var, u32),
    /// Assigns the first value if the condition holds, otherwise the second.
    Choose(Var, coop_ir::Id, u32, u32),
    /// A fork between several lists.
    Fork(Selector, Vec<Branch>),
    /// A loop: a list that is repeated until a break; its end continues.
    Loop(Vec<Stmt>),
    /// Leaves the loop.
    Break,
    /// Continues with the next iteration.
    Continue,
}

/// An arm of a fork.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Branch {
    pub(super) values: Vec<[u32; 2]>,
    pub(super) default: bool,
    pub(super) body: Vec<Stmt>,
}

/// The nesting is too deep to structure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct TooDeep;

/// The maximum depth of nesting; each level takes stack.
const DEEPEST: usize = 400;

/// Builds the statements of a flow graph.
pub(super) fn build(flow: &mut Flow) -> Result<Vec<Stmt>, TooDeep> {
    let members = flow.reached();
    level(flow, members, 0, None, 0)
}

/// The loop (or function) whose body is being built.
struct Level<'a> {
    flow: &'a mut Flow,
    units: Vec<Unit>,
    unit_of: FxHashMap<usize, usize>,
    header: Option<usize>,
    /// The number of targets outside the loop.
    exits: usize,
}

struct Unit {
    part: Component,
    /// Its outgoing edges, by node.
    on: Selector,
    arms: Vec<Arm>,
}

/// The target of an arm.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Target {
    Continue,
    Break,
    /// A unit of the region.
    Inside(usize),
    /// A node of the level outside the region.
    Beyond,
}

fn level(
    flow: &mut Flow,
    mut members: Vec<usize>,
    entry: usize,
    header: Option<usize>,
    depth: usize,
) -> Result<Vec<Stmt>, TooDeep> {
    if depth > DEEPEST {
        return Err(TooDeep);
    }
    let parts = flow.parts(&mut members, entry, header);
    let inside: FxHashSet<usize> = members.iter().copied().collect();
    let mut unit_of = FxHashMap::default();
    let mut units = Vec::with_capacity(parts.len());
    for (u, part) in parts.into_iter().enumerate() {
        unit_of.extend(part.nodes.iter().map(|n| (*n, u)));
        let (on, arms) = if part.is_loop {
            exits(flow, &part)
        } else {
            let node = &flow.nodes[part.nodes[0]];
            (node.on, node.arms.clone())
        };
        units.push(Unit { part, on, arms });
    }
    let mut left: Vec<usize> = units.iter().flat_map(|u| u.arms.iter().map(|a| a.to)).collect();
    left.retain(|t| !inside.contains(t) && Some(*t) != header);
    left.sort_unstable();
    left.dedup();
    let first = unit_of.get(&entry).copied().unwrap_or(0);
    let rest: Vec<usize> = (0..units.len()).filter(|u| *u != first).collect();
    let exits = left.len();
    Level { flow, units, unit_of, header, exits }.region(Start::Unit(first), rest, false, depth)
}

/// Returns the exits of a loop: a variable selects one if there are several.
fn exits(flow: &Flow, part: &Component) -> (Selector, Vec<Arm>) {
    let own: FxHashSet<usize> = part.nodes.iter().copied().collect();
    let mut to: Vec<usize> = Vec::new();
    for n in &part.nodes {
        let out = flow.nodes[*n].arms.iter().map(|a| a.to).filter(|t| !own.contains(t));
        for t in out {
            if !to.contains(&t) {
                to.push(t);
            }
        }
    }
    to.sort_unstable();
    (if to.len() < 2 { Selector::Always } else { Selector::Variable(Var::Next) }, next_arms(&to))
}

/// Returns the arms of a fork on [`Var::Next`].
fn next_arms(to: &[usize]) -> Vec<Arm> {
    let last = to.len().saturating_sub(1);
    let arm =
        |(i, t): (usize, &usize)| Arm { to: *t, values: vec![[*t as u32, 0]], default: i == last, set: Vec::new() };
    to.iter().enumerate().map(arm).collect()
}

/// The start of a region.
enum Start {
    Unit(usize),
    /// A fork on [`Var::Next`], without a block before it.
    Fork(Vec<Arm>),
}

impl Level<'_> {
    /// Builds the statements of a region: its start and, in order, its other units. With `remember`, an edge that
    /// leaves it to another node of the level assigns the target to [`Var::Next`].
    fn region(
        &mut self,
        mut start: Start,
        mut rest: Vec<usize>,
        remember: bool,
        depth: usize,
    ) -> Result<Vec<Stmt>, TooDeep> {
        if depth > DEEPEST {
            return Err(TooDeep);
        }
        let mut out = Vec::new();
        loop {
            let (on, arms) = match start {
                Start::Unit(u) => {
                    self.unit(u, depth, &mut out)?;
                    (self.units[u].on, self.units[u].arms.clone())
                }
                Start::Fork(arms) => (Selector::Variable(Var::Next), arms),
            };
            match arms.as_slice() {
                [] => return Ok(out),
                [one] => match self.target(one.to, &rest) {
                    Target::Inside(u) => {
                        out.extend(one.set.iter().map(|(v, n)| Stmt::Set(*v, *n)));
                        rest.retain(|r| *r != u);
                        start = Start::Unit(u);
                        continue;
                    }
                    target => {
                        self.leave(one, target, remember, &mut out);
                        return Ok(out);
                    }
                },
                _ => {}
            }
            let split = self.split(&arms, &rest);
            let ends = split.ends.len();
            // A region with a single target need not assign it, unless the target is beyond the region and the caller
            // needs it.
            let inside = |n: usize| self.unit_of.get(&n).is_some_and(|u| split.behind.contains(u));
            let say = ends > 1 || remember && split.ends.first().is_some_and(|n| !inside(*n));
            let mut branches = Vec::with_capacity(arms.len());
            for (arm, own) in arms.iter().zip(split.own) {
                let mut body: Vec<Stmt> = Vec::new();
                match self.target(arm.to, &own) {
                    Target::Inside(u) => {
                        body.extend(arm.set.iter().map(|(v, n)| Stmt::Set(*v, *n)));
                        let others = own.into_iter().filter(|o| *o != u).collect();
                        body.extend(self.region(Start::Unit(u), others, say, depth + 1)?);
                    }
                    target => self.leave(arm, target, say, &mut body),
                }
                branches.push(Branch { values: arm.values.clone(), default: arm.default, body });
            }
            push_fork(on, branches, &mut out);
            rest = split.behind;
            match split.ends.as_slice() {
                [] => return Ok(out),
                _ if rest.is_empty() => return Ok(out),
                [one] => match self.target(*one, &rest) {
                    Target::Inside(u) => {
                        rest.retain(|r| *r != u);
                        start = Start::Unit(u);
                    }
                    _ => return Ok(out),
                },
                many => start = Start::Fork(next_arms(many)),
            }
        }
    }

    fn unit(&mut self, u: usize, depth: usize, out: &mut Vec<Stmt>) -> Result<(), TooDeep> {
        let part = &self.units[u].part;
        if part.is_loop {
            let (nodes, entry) = (part.nodes.clone(), part.entries[0]);
            let body = level(self.flow, nodes, entry, Some(entry), depth + 1)?;
            out.push(Stmt::Loop(body));
        } else if let Some(b) = self.flow.nodes[part.nodes[0]].block {
            out.push(Stmt::Block(b));
        }
        Ok(())
    }

    fn target(&self, to: usize, region: &[usize]) -> Target {
        if Some(to) == self.header {
            return Target::Continue;
        }
        match self.unit_of.get(&to) {
            None => Target::Break,
            Some(u) if region.binary_search(u).is_ok() => Target::Inside(*u),
            Some(_) => Target::Beyond,
        }
    }

    /// Ends a list with an arm that leaves the region.
    fn leave(&self, arm: &Arm, target: Target, remember: bool, out: &mut Vec<Stmt>) {
        out.extend(arm.set.iter().map(|(v, n)| Stmt::Set(*v, *n)));
        match target {
            Target::Continue => out.push(Stmt::Continue),
            Target::Break => {
                if self.exits > 1 {
                    out.push(Stmt::Set(Var::Next, arm.to as u32));
                }
                out.push(Stmt::Break);
            }
            Target::Beyond | Target::Inside(_) if remember => out.push(Stmt::Set(Var::Next, arm.to as u32)),
            Target::Beyond | Target::Inside(_) => {}
        }
    }

    /// Divides the units after a fork.
    fn split(&self, arms: &[Arm], rest: &[usize]) -> DividedUnits {
        const SHARED: usize = usize::MAX;
        let mut owner: FxHashMap<usize, usize> = FxHashMap::default();
        let claim = |owner: &mut FxHashMap<usize, usize>, to: usize, by: usize| {
            if let Target::Inside(u) = self.target(to, rest) {
                let o = owner.entry(u).or_insert(by);
                if *o != by {
                    *o = SHARED;
                }
            }
        };
        for (i, arm) in arms.iter().enumerate() {
            claim(&mut owner, arm.to, i);
        }
        // In this order predecessors come first.
        for u in rest {
            let Some(by) = owner.get(u).copied() else { continue };
            for arm in &self.units[*u].arms {
                claim(&mut owner, arm.to, by);
            }
        }
        let mut split = DividedUnits { own: vec![Vec::new(); arms.len()], behind: Vec::new(), ends: Vec::new() };
        for u in rest {
            match owner.get(u).copied() {
                Some(SHARED) | None => split.behind.push(*u),
                Some(i) => split.own[i].push(*u),
            }
        }
        let mut end = |to: usize| {
            let goes = match self.target(to, rest) {
                Target::Inside(u) => owner.get(&u) == Some(&SHARED),
                Target::Beyond => true,
                Target::Continue | Target::Break => false,
            };
            if goes && !split.ends.contains(&to) {
                split.ends.push(to);
            }
        };
        arms.iter().for_each(|a| end(a.to));
        let owned = split.own.iter().flatten().flat_map(|u| &self.units[*u].arms);
        owned.for_each(|a| end(a.to));
        split.ends.sort_unstable();
        split
    }
}

/// The units after a fork, divided.
struct DividedUnits {
    /// The units that only one arm reaches, by arm.
    own: Vec<Vec<usize>>,
    /// The other units.
    behind: Vec<usize>,
    /// The nodes that the arms lead to, without continues and breaks of loops.
    ends: Vec<usize>,
}

/// Adds a fork, or its body if all arms are equal, or an assignment if the arms only choose its value.
fn push_fork(on: Selector, branches: Vec<Branch>, out: &mut Vec<Stmt>) {
    if branches.iter().all(|b| b.body == branches[0].body) {
        // All arms are equal.
        out.extend(branches.into_iter().next().into_iter().flat_map(|b| b.body));
        return;
    }
    if let (Selector::Condition(c), [a, b]) = (on, branches.as_slice())
        && let ([Stmt::Set(v, yes)], [Stmt::Set(w, no)]) = (a.body.as_slice(), b.body.as_slice())
        && v == w
    {
        out.push(Stmt::Choose(*v, c, *yes, *no));
        return;
    }
    out.push(Stmt::Fork(on, branches));
}
