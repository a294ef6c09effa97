//! Merge instructions and the constructs that they declare.
//!
//! As in SPIR-V 1.6 revision 2, constructs are taken from *structural* dominance: dominance in the graph that has, for
//! every block with a merge instruction, also edges to its merge block and its continue target. It differs from
//! dominance where control never reaches a merge block. With H the block that has the instruction, M its merge block
//! and C its continue target:
//!
//! - the *selection construct* is what H structurally dominates and M does not;
//! - the *continue construct* is what C structurally dominates and M does not;
//! - the *loop construct* is what H structurally dominates and neither M does nor the continue construct has, and
//!   H itself.
//!
//! SPIR-V asks in addition that the block with the back edge post-dominates a continue construct; where a module keeps
//! its rules that is the same set, but for blocks that end without branching.

use super::Cfg;
use super::dom::DomTree;
use super::graph::Graph;
use crate::module::InstRef;

/// A decoded merge instruction. Blocks that do not exist are `None` and recorded in [`Cfg::problems`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Merge {
    /// The `OpSelectionMerge` or `OpLoopMerge`.
    pub inst: InstRef,
    /// The merge block.
    pub merge: Option<usize>,
    /// True if it is an `OpLoopMerge`.
    pub is_loop: bool,
    /// The continue target of an `OpLoopMerge`.
    pub continue_target: Option<usize>,
}

/// The kind of a construct.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ConstructKind {
    /// The construct of an `OpSelectionMerge`.
    Selection,
    /// The body of a loop, from the header to the start of the continue construct.
    Loop,
    /// From the continue target to the back edge.
    Continue,
}

/// A construct.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Construct {
    /// The kind.
    pub kind: ConstructKind,
    /// The block with the merge instruction; for a continue construct too.
    pub header: usize,
    /// The first block: the header, or the continue target.
    pub first: usize,
    /// The merge block.
    pub merge: Option<usize>,
    /// The continue target of the loop.
    pub continue_target: Option<usize>,
}

/// The constructs of a function.
#[derive(Clone, Debug)]
pub struct Constructs {
    all: Vec<Construct>,
    dom: DomTree,
}

impl Constructs {
    /// Returns the constructs that a function's merge instructions declare, outer ones before those inside them.
    pub fn new(cfg: &Cfg) -> Constructs {
        let mut edges = Vec::with_capacity(cfg.edges.len() + 2 * cfg.merges.len());
        cfg.graph().edges().for_each(|e| edges.push(e));
        let mut of = vec![None; cfg.len()];
        for (b, m) in cfg.merges() {
            edges.extend(m.merge.iter().chain(&m.continue_target).map(|to| (b, *to)));
            of[b] = Some(m);
        }
        let dom = DomTree::new(&Graph::new(cfg.len(), &edges), 0);
        let mut all = Vec::new();
        let unreached = (0..cfg.len()).filter(|b| !dom.is_reachable(*b));
        for header in dom.order().iter().copied().chain(unreached) {
            let Some(m) = of[header] else { continue };
            let (merge, continue_target) = (m.merge, m.continue_target);
            let kind = if m.is_loop { ConstructKind::Loop } else { ConstructKind::Selection };
            all.push(Construct { kind, header, first: header, merge, continue_target });
            if let Some(first) = continue_target {
                all.push(Construct { kind: ConstructKind::Continue, header, first, merge, continue_target });
            }
        }
        Constructs { all, dom }
    }

    /// Returns every construct.
    pub fn all(&self) -> &[Construct] {
        &self.all
    }

    /// Returns the tree of structural dominance.
    pub fn structural(&self) -> &DomTree {
        &self.dom
    }

    /// Returns true if a block belongs to a construct. Blocks that are not structurally reachable belong only to those
    /// that they begin.
    pub fn contains(&self, construct: &Construct, block: usize) -> bool {
        if block == construct.first {
            return true;
        }
        let under = |top: usize| self.dom.is_reachable(block) && self.dom.dominates(top, block);
        under(construct.first)
            && !construct.merge.is_some_and(under)
            && !(construct.kind == ConstructKind::Loop && construct.continue_target.is_some_and(under))
    }

    /// Returns the blocks of a construct, the first one first, dominators before dominated blocks.
    pub fn blocks<'a>(&'a self, construct: &'a Construct) -> impl Iterator<Item = usize> + 'a {
        let rest = self.dom.subtree(construct.first).iter().copied().filter(|b| *b != construct.first);
        std::iter::once(construct.first).chain(rest.filter(move |b| self.contains(construct, *b)))
    }
}
