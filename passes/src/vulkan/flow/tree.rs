//! From nodes to statements that nest.
//!
//! What is true of the statements of a [`Flow`]:
//!
//! 1. Each node that is reached stands in them once: no code is repeated.
//! 2. A path through the statements passes the same nodes as the path of the flow for the same decisions.
//! 3. [`Stmt::Break`] and [`Stmt::Continue`] are of the innermost loop, and nothing follows them in their list.
//! 4. What decides is what decided before: a fork is on the same value as the node's, or on a variable to which each path
//!    assigned a constant. So a fork of which all invocations took the same arm has no fork under it where they part,
//!    and where paths of an original fork met, so they do here, or earlier.
//!
//! A level is the function, or the body of a loop. Its loops are taken as one node each; what is left has no
//! cycles, and is cut behind every fork: what only one arm leads to goes into the arm, what several lead to goes behind
//! the fork. If the arms then end in several places, each remembers in [`Var::Next`] where it goes, and a fork on that
//! follows. Out of a loop there is one way, its end, and [`Var::Next`] says where to go from there if there are several.

use super::graph::{Arm, Flow, On, Part, Var};
use coop_ir::hash::{FxHashMap, FxHashSet};

/// A statement.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Stmt {
    /// The instructions of a block, but for how it ends.
    Block(usize),
    /// An assignment.
    Set(Var, u32),
    /// The assignment of the first value where the condition holds, of the second elsewhere.
    Choose(Var, coop_ir::Id, u32, u32),
    /// One of several lists.
    Fork(On, Vec<Branch>),
    /// A list that is repeated until a break; at its end it begins again.
    Loop(Vec<Stmt>),
    /// Behind the loop.
    Break,
    /// The loop again.
    Continue,
}

/// An arm of a fork.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Branch {
    pub(super) values: Vec<[u32; 2]>,
    pub(super) default: bool,
    pub(super) body: Vec<Stmt>,
}

/// The nesting is deeper than what is worth following.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct TooDeep;

/// Constructs may be nested so deeply; each level takes stack.
const DEEPEST: usize = 400;

/// The statements of a flow.
pub(super) fn build(flow: &mut Flow) -> Result<Vec<Stmt>, TooDeep> {
    let members = flow.reached();
    level(flow, members, 0, None, 0)
}

/// The loop (or function) whose inside is built.
struct Level<'a> {
    flow: &'a mut Flow,
    units: Vec<Unit>,
    unit_of: FxHashMap<usize, usize>,
    header: Option<usize>,
    /// Whether the loop is left to more than one place.
    exits: usize,
}

struct Unit {
    part: Part,
    /// Where it leads, as the nodes say it.
    on: On,
    arms: Vec<Arm>,
}

/// Where an arm leads.
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

/// The ways out of a loop: a variable says which, where there are several.
fn exits(flow: &Flow, part: &Part) -> (On, Vec<Arm>) {
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
    (if to.len() < 2 { On::Always } else { On::Variable(Var::Next) }, next_arms(&to))
}

/// Arms that go where [`Var::Next`] says.
fn next_arms(to: &[usize]) -> Vec<Arm> {
    let last = to.len().saturating_sub(1);
    let arm =
        |(i, t): (usize, &usize)| Arm { to: *t, values: vec![[*t as u32, 0]], default: i == last, set: Vec::new() };
    to.iter().enumerate().map(arm).collect()
}

/// What a region begins with.
enum Start {
    Unit(usize),
    /// A fork on where to go, nothing before it.
    Fork(Vec<Arm>),
}

impl Level<'_> {
    /// The statements of a region: what it begins with and, in order, the other units of it. With `remember`, whoever
    /// leaves it to another node of the level says in [`Var::Next`] to which.
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
                Start::Fork(arms) => (On::Variable(Var::Next), arms),
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
            // Who ends in one place need not say so, unless that place is beyond the region and it must.
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

    /// Ends a list with an arm that leads out of the region.
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

    /// Divides what is behind a fork.
    fn split(&self, arms: &[Arm], rest: &[usize]) -> Split {
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
        // In this order whatever leads to a unit comes before it.
        for u in rest {
            let Some(by) = owner.get(u).copied() else { continue };
            for arm in &self.units[*u].arms {
                claim(&mut owner, arm.to, by);
            }
        }
        let mut split = Split { own: vec![Vec::new(); arms.len()], behind: Vec::new(), ends: Vec::new() };
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

/// What is behind a fork, divided.
struct Split {
    /// What only one arm leads to, by arm.
    own: Vec<Vec<usize>>,
    /// The rest.
    behind: Vec<usize>,
    /// The nodes to which control goes from the arms, those that loops go on or end at left out.
    ends: Vec<usize>,
}

/// Adds a fork, unless nothing depends on it but an assignment.
fn push_fork(on: On, branches: Vec<Branch>, out: &mut Vec<Stmt>) {
    if branches.iter().all(|b| b.body == branches[0].body) {
        // Whatever it decided makes no difference.
        out.extend(branches.into_iter().next().into_iter().flat_map(|b| b.body));
        return;
    }
    if let (On::Condition(c), [a, b]) = (on, branches.as_slice())
        && let ([Stmt::Set(v, yes)], [Stmt::Set(w, no)]) = (a.body.as_slice(), b.body.as_slice())
        && v == w
    {
        out.push(Stmt::Choose(*v, c, *yes, *no));
        return;
    }
    out.push(Stmt::Fork(on, branches));
}
