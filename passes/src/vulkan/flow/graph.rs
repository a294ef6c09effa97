//! The flow graph that structuring works on: nodes, arms, and loops with one entry each.

use coop_ir::Id;
use coop_ir::cfg::{Case, Cfg, Graph};
use coop_ir::hash::{FxHashMap, FxHashSet};

/// The selector of a fork.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Selector {
    /// None: there is at most one arm.
    Always,
    /// A Boolean: true takes the first arm, false the second.
    Condition(Id),
    /// An integer, and how many words its literals have.
    Switch(Id, usize),
    /// A variable of the restructuring.
    Variable(Var),
}

/// A variable of the restructuring that selects a target.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(super) enum Var {
    /// The node to go to after the construct that is left.
    Next,
    /// The entry of a loop with several.
    Entry(usize),
}

/// An edge out of a node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Arm {
    pub(super) to: usize,
    /// The values for which it is taken, as literal words; empty for a condition.
    pub(super) values: Vec<[u32; 2]>,
    /// True if it is taken for all other values.
    pub(super) default: bool,
    /// The assignments on the edge.
    pub(super) set: Vec<(Var, u32)>,
}

impl Arm {
    #[cfg(test)]
    pub(super) fn always(to: usize) -> Arm {
        Arm { to, values: Vec::new(), default: true, set: Vec::new() }
    }
}

/// A block, or a made node that dispatches to one of several blocks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Node {
    /// The index of the block; none for made nodes.
    pub(super) block: Option<usize>,
    pub(super) on: Selector,
    pub(super) arms: Vec<Arm>,
}

/// The nodes of a function; node `b` is block `b`, made nodes follow.
#[derive(Clone, Debug)]
pub(super) struct Flow {
    pub(super) nodes: Vec<Node>,
    entries: usize,
}

impl Flow {
    /// Makes a flow graph of these nodes; the first is the entry.
    #[cfg(test)]
    pub(super) fn of(nodes: Vec<Node>) -> Flow {
        Flow { nodes, entries: 0 }
    }

    /// Makes the flow graph of a function. `on` returns the selector at the end of a block with several targets.
    pub(super) fn new(cfg: &Cfg, on: impl Fn(usize) -> Selector) -> Flow {
        let node = |b: usize| {
            let mut arms: Vec<Arm> = Vec::new();
            for edge in cfg.edges(b) {
                let values = match edge.case {
                    Case::Value(v) => vec![[v as u32, (v >> 32) as u32]],
                    _ => Vec::new(),
                };
                let default = !matches!(edge.case, Case::Value(_));
                match arms.iter_mut().find(|a| a.to == edge.to) {
                    Some(arm) => {
                        arm.values.extend(values);
                        arm.default |= default;
                    }
                    None => arms.push(Arm { to: edge.to, values, default, set: Vec::new() }),
                }
            }
            let on = if arms.len() < 2 { Selector::Always } else { on(b) };
            Node { block: Some(b), on, arms }
        };
        Flow { nodes: (0..cfg.len()).map(node).collect(), entries: 0 }
    }

    /// Returns the nodes that are reachable from the first.
    pub(super) fn reached(&self) -> Vec<usize> {
        let mut seen = vec![false; self.nodes.len()];
        let mut work = vec![0];
        let mut out = Vec::new();
        while let Some(n) = work.pop() {
            if std::mem::replace(&mut seen[n], true) {
                continue;
            }
            out.push(n);
            work.extend(self.nodes[n].arms.iter().map(|a| a.to));
        }
        out.sort_unstable();
        out
    }

    /// Returns the strongly connected components of `members` in topological order, ignoring edges to `header`. Each
    /// component that is a loop gets one entry: if there were several, all edges into it go through a new node, which
    /// joins the members.
    pub(super) fn parts(&mut self, members: &mut Vec<usize>, entry: usize, header: Option<usize>) -> Vec<Component> {
        loop {
            let parts = self.components(members, header);
            let Some(wild) = parts.iter().find(|p| p.entries.len() > 1) else { return parts };
            let (entries, all) = (wild.entries.clone(), members.clone());
            let made = self.enter_through_one(&entries, &all, header);
            debug_assert!(!entries.contains(&entry), "the entry of a level has no edges that count");
            members.push(made);
        }
    }

    fn components(&self, members: &[usize], header: Option<usize>) -> Vec<Component> {
        let place: FxHashMap<usize, usize> = members.iter().enumerate().map(|(i, n)| (*n, i)).collect();
        let inner = |n: usize| {
            let targets = self.nodes[n].arms.iter().map(|a| a.to).filter(move |t| Some(*t) != header);
            targets.filter_map(|t| place.get(&t).copied())
        };
        let edges: Vec<(usize, usize)> =
            members.iter().enumerate().flat_map(|(i, n)| inner(*n).map(move |t| (i, t))).collect();
        let graph = Graph::new(members.len(), &edges);
        let component = graph.components();
        let count = component.iter().max().map_or(0, |c| c + 1);
        let mut parts: Vec<Component> = (0..count).map(|_| Component::default()).collect();
        for (i, n) in members.iter().enumerate() {
            parts[component[i]].nodes.push(*n);
        }
        for (from, to) in &edges {
            let part = &mut parts[component[*to]];
            if component[*from] != component[*to] {
                if !part.entries.contains(&members[*to]) {
                    part.entries.push(members[*to]);
                }
            } else {
                part.is_loop = true;
            }
        }
        for part in &mut parts {
            part.entries.sort_unstable();
            if !part.is_loop || part.entries.is_empty() {
                // A component without an edge from this level is entered at the level's entry.
                part.entries.truncate(1);
                if part.entries.is_empty() {
                    part.entries.extend(part.nodes.first());
                }
            }
        }
        // Components come after their successors.
        parts.reverse();
        parts
    }

    /// Makes a node through which every edge to one of `entries` goes.
    fn enter_through_one(&mut self, entries: &[usize], members: &[usize], header: Option<usize>) -> usize {
        let made = self.nodes.len();
        let var = Var::Entry(self.entries);
        self.entries += 1;
        let wanted: FxHashSet<usize> = entries.iter().copied().filter(|e| Some(*e) != header).collect();
        for n in members {
            for arm in &mut self.nodes[*n].arms {
                if wanted.contains(&arm.to) {
                    arm.set.push((var, arm.to as u32));
                    arm.to = made;
                }
            }
        }
        let last = entries.len().saturating_sub(1);
        let arm =
            |(i, e): (usize, &usize)| Arm { to: *e, values: vec![[*e as u32, 0]], default: i == last, set: Vec::new() };
        let arms = entries.iter().enumerate().map(arm).collect();
        self.nodes.push(Node { block: None, on: Selector::Variable(var), arms });
        made
    }

    /// Returns the number of loops that got an entry node.
    pub(super) fn entry_variables(&self) -> usize {
        self.entries
    }
}

/// A strongly connected component of a level: a node, or a loop.
#[derive(Clone, Debug, Default)]
pub(super) struct Component {
    pub(super) nodes: Vec<usize>,
    pub(super) is_loop: bool,
    /// The node where it is entered from the rest of the level.
    pub(super) entries: Vec<usize>,
}
