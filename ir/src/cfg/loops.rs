//! Loops by the graph alone, whatever the merge instructions say, and their nesting.
//!
//! A loop is a set of blocks from each of which a path leads to each other; a loop within a loop is what is such a set
//! still when no edge into the outer one's header counts. Blocks that are not reached belong to none.
//!
//! - If control can enter at one block only, its *header*, this is a *natural loop*: the header dominates all of it.
//! - Else the loop is *irreducible*: [`Loop::entries`] has all blocks where control enters, and the header is the one
//!   of them that a depth-first walk meets first. What is found inside an irreducible loop depends on that walk, and a
//!   natural loop with the same header is part of it.
//!
//! If all loops are natural, they are exactly those that back edges to dominators make.
//!
//! Found as in Havlak, "Nesting of Reducible and Irreducible Loops": headers from the last met to the first, loops
//! already found collapsed into one node.

use super::Cfg;
use super::graph::{Graph, NONE, Walk};

/// One loop.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Loop {
    /// The header.
    pub header: usize,
    /// The blocks where control enters, the header first; more than one if the loop is irreducible.
    pub entries: Vec<usize>,
    /// The loop around it, as an index into [`Loops::all`].
    pub parent: Option<usize>,
    /// The number of loops around it.
    pub depth: usize,
    /// The range of its blocks in loop order.
    range: (usize, usize),
}

impl Loop {
    /// Returns true if control can enter at the header only.
    pub fn is_natural(&self) -> bool {
        self.entries.len() == 1
    }
}

/// The loops of a function.
#[derive(Clone, Debug)]
pub struct Loops {
    all: Vec<Loop>,
    innermost: Vec<u32>,
    /// The blocks that are in loops, those of each loop side by side, its own before those of loops inside it.
    order: Vec<usize>,
    place: Vec<u32>,
}

impl Loops {
    /// Returns the loops of a function.
    pub fn new(cfg: &Cfg) -> Loops {
        let none = || vec![NONE; cfg.len()];
        if !has_cycles(cfg) {
            return Loops { all: Vec::new(), innermost: none(), order: Vec::new(), place: none() };
        }
        Loops::of_graph(cfg.graph())
    }

    /// Returns the loops of a graph that is entered at its first node.
    ///
    /// # Panics
    /// If the graph is empty.
    pub fn of_graph(graph: &Graph) -> Loops {
        let mut finder = Finder::new(graph);
        for at in (0..finder.walk.pre.len()).rev() {
            finder.candidate(at as u32);
        }
        finder.finish()
    }

    /// Returns every loop, outer ones before those inside them.
    pub fn all(&self) -> &[Loop] {
        &self.all
    }

    /// Returns the innermost loop around a block, as an index into [`Loops::all`].
    pub fn innermost(&self, block: usize) -> Option<usize> {
        Some(self.innermost[block]).filter(|l| *l != NONE).map(|l| l as usize)
    }

    /// Returns the number of loops around a block.
    pub fn depth(&self, block: usize) -> usize {
        self.innermost(block).map_or(0, |l| self.all[l].depth + 1)
    }

    /// Returns the blocks of a loop and of those inside it.
    pub fn blocks(&self, loop_: usize) -> &[usize] {
        let (start, len) = self.all[loop_].range;
        &self.order[start..start + len]
    }

    /// Returns true if a block belongs to a loop or to one inside it.
    pub fn contains(&self, loop_: usize, block: usize) -> bool {
        let (start, len) = self.all[loop_].range;
        self.place[block] != NONE && (start..start + len).contains(&(self.place[block] as usize))
    }

    /// Returns the blocks of the loop from which an edge leads to its header, ascending.
    pub fn latches<'a>(&'a self, cfg: &'a Cfg, loop_: usize) -> impl Iterator<Item = usize> + 'a {
        let header = self.all[loop_].header;
        cfg.predecessors(header).iter().copied().filter(move |p| self.contains(loop_, *p))
    }

    /// Returns the edges out of the loop, as (from, to).
    pub fn exits<'a>(&'a self, cfg: &'a Cfg, loop_: usize) -> impl Iterator<Item = (usize, usize)> + 'a {
        let edges = self.blocks(loop_).iter().flat_map(|b| cfg.successors(*b).iter().map(move |s| (*b, *s)));
        edges.filter(move |(_, to)| !self.contains(loop_, *to))
    }

    /// Returns true if every loop is natural, so that the graph is reducible.
    pub fn all_natural(&self) -> bool {
        self.all.iter().all(Loop::is_natural)
    }
}

/// Returns true if the graph has a back edge: in reverse post-order, each cycle has one.
fn has_cycles(cfg: &Cfg) -> bool {
    let back = |from: usize| cfg.successors(from).iter().any(|to| cfg.rpo_index(*to) <= cfg.rpo_index(from));
    cfg.rpo().iter().any(|b| back(*b))
}

/// A loop while it is looked for; places in the walk's preorder stand for blocks.
struct Found {
    entries: Vec<u32>,
    parent: u32,
}

struct Finder<'a> {
    graph: &'a Graph,
    walk: Walk,
    /// The last place in preorder that was met below this one in the walk.
    last: Vec<u32>,
    found: Vec<Found>,
    innermost: Vec<u32>,
    /// For each loop one around it, in time the outermost: shortened on every look-up.
    top: Vec<u32>,
    work: Vec<u32>,
}

impl<'a> Finder<'a> {
    fn new(graph: &'a Graph) -> Finder<'a> {
        let walk = Walk::new(graph, 0);
        let len = walk.pre.len();
        let mut last: Vec<u32> = (0..len as u32).collect();
        for at in (1..len).rev() {
            let parent = walk.parent[at] as usize;
            last[parent] = last[parent].max(last[at]);
        }
        Finder { graph, last, found: Vec::new(), innermost: vec![NONE; len], top: Vec::new(), work: Vec::new(), walk }
    }

    fn below(&self, head: u32, at: u32) -> bool {
        head <= at && at <= self.last[head as usize]
    }

    /// Pushes the predecessors of a member that are below the candidate; returns true if there are others.
    fn look_back(&mut self, head: u32, at: u32) -> bool {
        let mut entered = false;
        for p in self.graph.predecessors(self.walk.pre[at as usize]) {
            match self.walk.number[*p] {
                NONE => {}
                p if self.below(head, p) => self.work.push(p),
                _ => entered = true,
            }
        }
        entered
    }

    fn outermost(&mut self, loop_: u32) -> u32 {
        let mut root = loop_;
        while self.top[root as usize] != root {
            root = self.top[root as usize];
        }
        let mut at = loop_;
        while at != root {
            at = std::mem::replace(&mut self.top[at as usize], root);
        }
        root
    }

    fn candidate(&mut self, head: u32) {
        self.work.clear();
        self.look_back(head, head);
        if self.work.is_empty() {
            return;
        }
        let this = self.found.len() as u32;
        self.found.push(Found { entries: vec![head], parent: NONE });
        self.top.push(this);
        self.innermost[head as usize] = this;
        while let Some(at) = self.work.pop() {
            if at == head {
                continue;
            }
            match self.innermost[at as usize] {
                NONE => {
                    self.innermost[at as usize] = this;
                    self.join(this, head, at);
                }
                inner => {
                    let inner = self.outermost(inner);
                    if inner == this {
                        continue;
                    }
                    self.found[inner as usize].parent = this;
                    self.top[inner as usize] = this;
                    for entry in self.found[inner as usize].entries.clone() {
                        self.join(this, head, entry);
                    }
                }
            }
        }
    }

    fn join(&mut self, this: u32, head: u32, member: u32) {
        if self.look_back(head, member) {
            self.found[this as usize].entries.push(member);
        }
    }

    /// Numbers the loops, which were found inner before outer, the other way around, and lays out their blocks.
    fn finish(self) -> Loops {
        let count = self.found.len() as u32;
        let renumber = |l: u32| if l == NONE { NONE } else { count - 1 - l };
        let pre = &self.walk.pre;
        let mut all: Vec<Loop> = Vec::with_capacity(self.found.len());
        for f in self.found.iter().rev() {
            let parent = Some(renumber(f.parent)).filter(|p| *p != NONE).map(|p| p as usize);
            let depth = parent.map_or(0, |p: usize| all[p].depth + 1);
            let entries: Vec<_> = f.entries.iter().map(|e| pre[*e as usize]).collect();
            all.push(Loop { header: entries[0], entries, parent, depth, range: (0, 0) });
        }
        let blocks = self.graph.len();
        let mut innermost = vec![NONE; blocks];
        let mut own = vec![0usize; all.len()];
        for (at, l) in self.innermost.iter().enumerate().filter(|(_, l)| **l != NONE) {
            innermost[pre[at]] = renumber(*l);
            own[renumber(*l) as usize] += 1;
        }
        let mut sizes = own.clone();
        for l in (0..all.len()).rev() {
            if let Some(p) = all[l].parent {
                sizes[p] += sizes[l];
            }
        }
        let mut next = 0;
        let mut free = vec![0; all.len()];
        for l in 0..all.len() {
            let slot = all[l].parent.map_or(&mut next, |p| &mut free[p]);
            let start = *slot;
            *slot += sizes[l];
            all[l].range = (start, sizes[l]);
            free[l] = start + own[l];
        }
        let mut slot: Vec<usize> = all.iter().map(|l| l.range.0).collect();
        let mut order = vec![0; next];
        let mut place = vec![NONE; blocks];
        for block in pre.iter().copied().filter(|b| innermost[*b] != NONE) {
            let at = &mut slot[innermost[block] as usize];
            order[*at] = block;
            place[block] = *at as u32;
            *at += 1;
        }
        Loops { all, innermost, order, place }
    }
}
