//! Dominator trees, by the Semi-NCA method (Georgiadis, "Linear-Time Algorithms for Dominators and Related Problems"):
//! semidominators as Lengauer and Tarjan find them, then the nearest common ancestor of semidominator and parent.
//! Nothing recurses, and no input takes more than a walk up the tree for each node.

use super::graph::{Graph, Lists, NONE, Walk};
use smallvec::{SmallVec, smallvec};

/// A dominator tree: the nodes on every path from a root to a node.
///
/// A node that no path reaches is dominated by all nodes, as "every path" says; it dominates only such nodes, and is
/// not in the tree.
#[derive(Clone, Debug)]
pub struct DomTree {
    root: usize,
    /// The immediate dominator of each node; [`NONE`] for the root and for unreachable nodes.
    idom: Vec<u32>,
    /// The tree in preorder.
    order: Vec<usize>,
    /// The place in `order` by node, or [`NONE`].
    pre: Vec<u32>,
    /// By place in `order`: how many nodes the subtree has.
    size: Vec<u32>,
}

impl DomTree {
    /// Returns the dominators of a graph as seen from `root`.
    pub fn new(graph: &Graph, root: usize) -> DomTree {
        DomTree::of_walk(graph, root, &Walk::new(graph, root))
    }

    pub(super) fn of_walk(graph: &Graph, root: usize, walk: &Walk) -> DomTree {
        let idom = idoms(graph, walk);
        // A node's dominator is met before the node, so one pass down gives the sizes and one up the numbers.
        let reached = walk.pre.len();
        let mut sizes = vec![1u32; reached];
        for at in (1..reached).rev() {
            sizes[idom[at] as usize] += sizes[at];
        }
        let mut tree = DomTree {
            root,
            idom: vec![NONE; graph.len()],
            order: vec![0; reached],
            pre: vec![NONE; graph.len()],
            size: vec![0; reached],
        };
        let mut next = vec![1u32; reached];
        for at in 0..reached {
            let node = walk.pre[at];
            let place = if at == 0 { 0 } else { next[idom[at] as usize] };
            if at > 0 {
                next[idom[at] as usize] += sizes[at];
                tree.idom[node] = walk.pre[idom[at] as usize] as u32;
            }
            next[at] = place + 1;
            tree.pre[node] = place;
            tree.order[place as usize] = node;
            tree.size[place as usize] = sizes[at];
        }
        tree
    }

    /// Returns the root.
    pub fn root(&self) -> usize {
        self.root
    }

    /// Returns true if a path leads from the root to `node`.
    pub fn is_reachable(&self, node: usize) -> bool {
        self.pre[node] != NONE
    }

    /// Returns the closest other node that dominates `node`; `None` for the root and for unreachable nodes.
    pub fn idom(&self, node: usize) -> Option<usize> {
        Some(self.idom[node]).filter(|d| *d != NONE).map(|d| d as usize)
    }

    /// Returns true if every path from the root to `b` goes through `a`; each node dominates itself. Takes constant
    /// time.
    pub fn dominates(&self, a: usize, b: usize) -> bool {
        let (a, b) = (self.pre[a], self.pre[b]);
        if b == NONE {
            return true;
        }
        a != NONE && a <= b && b - a < self.size[a as usize]
    }

    /// Returns the reachable nodes, dominators before dominated nodes.
    pub fn order(&self) -> &[usize] {
        &self.order
    }

    /// Returns the reachable nodes that `node` dominates, itself first; none if it is not reachable itself.
    pub fn subtree(&self, node: usize) -> &[usize] {
        match self.pre[node] {
            NONE => &[],
            at => &self.order[at as usize..(at + self.size[at as usize]) as usize],
        }
    }

    /// Returns the nodes of which `node` is the immediate dominator.
    pub fn children(&self, node: usize) -> impl Iterator<Item = usize> + '_ {
        let end = self.pre[node].wrapping_add(self.subtree(node).len() as u32);
        let mut at = self.pre[node].saturating_add(1);
        std::iter::from_fn(move || {
            if at >= end {
                return None;
            }
            let child = self.order[at as usize];
            at += self.size[at as usize];
            Some(child)
        })
    }

    /// Returns the closest node that dominates both; `None` if one of them is not reachable.
    pub fn common(&self, a: usize, b: usize) -> Option<usize> {
        if self.pre[a] == NONE || self.pre[b] == NONE {
            return None;
        }
        let mut up = a;
        while !self.dominates(up, b) {
            up = self.idom(up)?;
        }
        Some(up)
    }
}

/// The immediate dominators, both as places in the walk's preorder.
fn idoms(graph: &Graph, walk: &Walk) -> Vec<u32> {
    let reached = walk.pre.len();
    let mut forest = Forest {
        ancestor: walk.parent.clone(),
        label: (0..reached as u32).collect(),
        semi: (0..reached as u32).collect(),
        stack: Vec::new(),
    };
    for at in (1..reached).rev() {
        let mut semi = walk.parent[at];
        for &p in graph.predecessors(walk.pre[at]) {
            if walk.number[p] != NONE {
                let label = forest.eval(walk.number[p], at as u32 + 1);
                semi = semi.min(forest.semi[label as usize]);
            }
        }
        forest.semi[at] = semi;
    }
    let mut idom = walk.parent.clone();
    for at in 1..reached {
        let mut up = idom[at];
        while up > forest.semi[at] {
            up = idom[up as usize];
        }
        idom[at] = up;
    }
    idom
}

struct Forest {
    ancestor: Vec<u32>,
    label: Vec<u32>,
    semi: Vec<u32>,
    stack: Vec<u32>,
}

impl Forest {
    /// The place with the least semidominator between `at` and the top of its linked tree, top not included; what is
    /// numbered from `linked` on is linked. Shortens the paths that it walks.
    fn eval(&mut self, at: u32, linked: u32) -> u32 {
        let mut at = at;
        while self.ancestor[at as usize] >= linked {
            self.stack.push(at);
            at = self.ancestor[at as usize];
        }
        let (top, mut best) = (self.ancestor[at as usize], self.label[at as usize]);
        while let Some(below) = self.stack.pop() {
            self.ancestor[below as usize] = top;
            if self.semi[best as usize] < self.semi[self.label[below as usize] as usize] {
                self.label[below as usize] = best;
            } else {
                best = self.label[below as usize];
            }
        }
        best
    }
}

/// Dominance frontiers: for each node the nodes at which its dominance ends, that is, which it does not strictly
/// dominate while it dominates one of their predecessors. Diverged paths first join there.
///
/// Their sum can be quadratic in the number of nodes, for deeply nested loops.
#[derive(Clone, Debug)]
pub struct Frontiers {
    lists: Lists,
}

impl Frontiers {
    /// The frontiers of all nodes that are reached; the others have none.
    pub fn new(graph: &Graph, dom: &DomTree) -> Frontiers {
        let mut pairs = Vec::new();
        let mut last = vec![NONE; graph.len()];
        for &join in dom.order() {
            for &p in graph.predecessors(join) {
                let mut up = Some(p).filter(|p| dom.is_reachable(*p));
                while let Some(node) = up {
                    // What this predecessor's walk meets from here on, another's has seen.
                    if Some(node) == dom.idom(join) || last[node] == join as u32 {
                        break;
                    }
                    last[node] = join as u32;
                    pairs.push((node, join));
                    up = dom.idom(node);
                }
            }
        }
        Frontiers { lists: Lists::new(graph.len(), || pairs.iter().copied()) }
    }

    /// Returns the frontier of `node`.
    pub fn of(&self, node: usize) -> &[usize] {
        self.lists.of(node)
    }

    /// Returns the least set that has the frontiers of all `nodes` and of all its own members, ascending: there,
    /// different values of the `nodes` join.
    pub fn iterated(&self, nodes: impl IntoIterator<Item = usize>) -> Vec<usize> {
        closure(&self.lists, nodes)
    }

    /// (node, member of its frontier), for all nodes.
    pub(super) fn pairs(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        self.lists.pairs()
    }
}

/// All that lists lead to from `nodes` in one step or more, ascending.
pub(super) fn closure(lists: &Lists, nodes: impl IntoIterator<Item = usize>) -> Vec<usize> {
    let mut work: SmallVec<[usize; 16]> = nodes.into_iter().collect();
    // A bit for each node: most sets are small, and looking for their members must not cost a step for each node.
    let mut found: SmallVec<[u64; 16]> = smallvec![0; lists.len().div_ceil(64)];
    while let Some(node) = work.pop() {
        for &next in lists.of(node) {
            let (word, bit) = (&mut found[next / 64], 1 << (next % 64));
            if *word & bit == 0 {
                *word |= bit;
                work.push(next);
            }
        }
    }
    let mut all = Vec::new();
    for (i, mut word) in found.into_iter().enumerate() {
        while word != 0 {
            all.push(64 * i + word.trailing_zeros() as usize);
            word &= word - 1;
        }
    }
    all
}
