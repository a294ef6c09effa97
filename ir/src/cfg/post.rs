//! Post-dominators and control dependence.
//!
//! Post-dominators are the dominators of the graph turned around, seen from a virtual exit to which these blocks lead:
//!
//! 1. every block without successors (return, kill, unreachable, a terminator of which nothing is known);
//! 2. where control can get into a set of blocks and never out of it again (an endless loop), the one of the set's
//!    blocks that comes last in reverse post-order (last by number, if none is reached): as a rule the block that
//!    closes the loop. "The set" is a strongly connected component with no edge out of it.
//!
//! So from every block, reached from the entry or not, a path leads to the virtual exit, and each has a
//! post-dominator.

use super::Cfg;
use super::dom::{DomTree, Frontiers, closure};
use super::graph::{Graph, Lists, NONE, Walk};

/// The post-dominator tree: the blocks on every path from a block to the end.
#[derive(Clone, Debug)]
pub struct PostDoms {
    /// Turned around; the virtual exit is the last node.
    graph: Graph,
    tree: DomTree,
    endless: Vec<usize>,
}

impl PostDoms {
    /// The post-dominators of a function's blocks.
    pub fn new(cfg: &Cfg) -> PostDoms {
        let exit = cfg.len();
        let mut edges: Vec<_> = cfg.graph().edges().collect();
        edges.extend((0..exit).filter(|b| cfg.successors(*b).is_empty()).map(|b| (b, exit)));
        let mut graph = Graph::new(exit + 1, &edges).reversed();
        let mut walk = Walk::new(&graph, exit);
        let mut endless = Vec::new();
        if walk.pre.len() < graph.len() {
            endless = sinks(cfg, &walk);
            edges.extend(endless.iter().map(|b| (*b, exit)));
            graph = Graph::new(exit + 1, &edges).reversed();
            walk = Walk::new(&graph, exit);
        }
        let tree = DomTree::of_walk(&graph, exit, &walk);
        PostDoms { graph, tree, endless }
    }

    /// Returns true if every path from `b` to the end goes through `a`; each block post-dominates itself.
    pub fn postdominates(&self, a: usize, b: usize) -> bool {
        self.tree.dominates(a, b)
    }

    /// Returns the closest other block that post-dominates `b`; `None` if that is the virtual exit.
    pub fn ipdom(&self, b: usize) -> Option<usize> {
        self.tree.idom(b).filter(|d| *d != self.tree.root())
    }

    /// Returns the closest block that post-dominates both; `None` if that is the virtual exit.
    pub fn common(&self, a: usize, b: usize) -> Option<usize> {
        self.tree.common(a, b).filter(|d| *d != self.tree.root())
    }

    /// Returns the blocks of endless loops that were connected to the virtual exit (rule 2), ascending.
    pub fn endless(&self) -> &[usize] {
        &self.endless
    }
}

/// Control dependence: the branches that decide whether a block runs.
///
/// `b` is control dependent on `a` if `b` post-dominates a successor of `a` (the virtual exit counts as one) without
/// strictly post-dominating `a`. A block that closes an endless loop can have one successor and still control the
/// blocks of its loop, since the loop might end there.
#[derive(Clone, Debug)]
pub struct ControlDeps {
    controllers: Lists,
    controlled: Lists,
}

impl ControlDeps {
    /// Returns the control dependences between a function's blocks. Their number can be quadratic in that of the
    /// blocks.
    pub fn new(post: &PostDoms) -> ControlDeps {
        let blocks = post.tree.root();
        let frontiers = Frontiers::new(&post.graph, &post.tree);
        let real = || frontiers.pairs().filter(move |(a, b)| *a < blocks && *b < blocks);
        ControlDeps {
            controllers: Lists::new(blocks, real),
            controlled: Lists::new(blocks, || real().map(|(a, b)| (b, a))),
        }
    }

    /// Returns the blocks whose branch decides whether `b` runs.
    pub fn controllers(&self, b: usize) -> &[usize] {
        self.controllers.of(b)
    }

    /// Returns the blocks that the branch of `a` controls.
    pub fn controlled(&self, a: usize) -> &[usize] {
        self.controlled.of(a)
    }

    /// Returns the controllers of the blocks, their controllers, and so on, ascending.
    pub fn iterated_controllers(&self, blocks: impl IntoIterator<Item = usize>) -> Vec<usize> {
        closure(&self.controllers, blocks)
    }

    /// Returns the blocks that the branches of the blocks control, the blocks that those control, and so on, ascending.
    pub fn iterated_controlled(&self, blocks: impl IntoIterator<Item = usize>) -> Vec<usize> {
        closure(&self.controlled, blocks)
    }
}

/// Returns one block of each strongly connected component that has no edge out of it, among the blocks from which
/// `walk` reached no exit.
fn sinks(cfg: &Cfg, walk: &Walk) -> Vec<usize> {
    let stuck = |b: usize| walk.number[b] == NONE;
    // A stuck block leads to stuck blocks only, so those make components of their own.
    let component = cfg.graph().components();
    let count = component.iter().max().map_or(0, |c| c + 1);
    let mut best: Vec<Option<usize>> = vec![None; count];
    let mut leaves = vec![false; count];
    let rank = |b: usize| (cfg.rpo_index(b), b);
    for b in (0..cfg.len()).filter(|b| stuck(*b)) {
        let c = component[b];
        if best[c].is_none_or(|other| rank(other) < rank(b)) {
            best[c] = Some(b);
        }
        if cfg.successors(b).iter().any(|s| component[*s] != c) {
            leaves[c] = true;
        }
    }
    let mut found: Vec<_> = best.into_iter().zip(leaves).filter(|(_, l)| !l).filter_map(|(b, _)| b).collect();
    found.sort_unstable();
    found
}
