//! The order in which the blocks of a function run when invocations are in several of them.
//!
//! Nodes are the blocks that are reached and, for every loop, the *way back* to its header: invocations that take a
//! back edge wait there until all others have left the iteration. The lowest numbered node with invocations waiting
//! runs next. Numbers are a topological order of
//!
//! - the edges of the graph, those that go back leading to the way back instead;
//! - every block of a loop (and of the constructs that its merge instruction declares) before its way back;
//! - the way back before the blocks to which the loop exits, its merge block, and the ways back of outer loops;
//! - a block with a merge instruction before its merge block.
//!
//! So nothing runs before all that can still reach it in the same iteration has run: invocations meet at merge blocks,
//! and in code without merge instructions at the immediate post-dominator, or earlier.

use crate::hash::FxHashMap;

use super::{Cfg, ConstructKind, Constructs};

/// A node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NodeKind {
    /// A block.
    Block(usize),
    /// The way back to the header.
    Back(usize),
}

/// The numbering.
#[derive(Clone, Debug)]
pub struct Order {
    /// The nodes, by number.
    pub nodes: Vec<NodeKind>,
    blocks: Vec<Option<u32>>,
    backs: FxHashMap<usize, u32>,
    places: Vec<usize>,
}

impl Order {
    /// Numbers the nodes of a function.
    pub fn new(cfg: &Cfg) -> Order {
        let count = cfg.len();
        let places: Vec<usize> = (0..count).map(|b| cfg.rpo_index(b).unwrap_or(usize::MAX)).collect();
        let goes_back = |from: usize, to: usize| places[to] <= places[from];
        let reached = |b: &usize| places[*b] != usize::MAX;
        let headers: Vec<usize> = (0..count)
            .filter(reached)
            .filter(|h| cfg.predecessors(*h).iter().any(|p| reached(p) && goes_back(*p, *h)))
            .collect();
        let constructs = Constructs::new(cfg);
        let loops: Vec<Vec<bool>> = headers.iter().map(|h| body(cfg, &constructs, *h, &goes_back)).collect();

        let back_node = |h: usize| headers.iter().position(|x| *x == h).map(|i| count + i);
        let mut next: Vec<Vec<usize>> = vec![Vec::new(); count + headers.len()];
        for b in (0..count).filter(reached) {
            for &s in cfg.successors(b) {
                next[b].push(if goes_back(b, s) { back_node(s).unwrap_or(s) } else { s });
            }
            if let Some(merge) = cfg.merge(b).and_then(|m| m.merge)
                && reached(&merge)
                && !goes_back(b, merge)
            {
                next[b].push(merge);
            }
        }
        for (i, (h, set)) in headers.iter().zip(&loops).enumerate() {
            let way = count + i;
            for b in (0..count).filter(|b| set[*b] && reached(b)) {
                next[b].push(way);
                for &s in cfg.successors(b) {
                    if !set[s] && !goes_back(b, s) {
                        next[way].push(s);
                    }
                }
                if b != *h
                    && let Some(inner) = back_node(b)
                {
                    next[inner].push(way);
                }
            }
            if let Some(merge) = cfg.merge(*h).and_then(|m| m.merge)
                && reached(&merge)
                && !set[merge]
            {
                next[way].push(merge);
            }
        }
        let mut nodes = Vec::new();
        let mut blocks = vec![None; count];
        let mut backs = FxHashMap::default();
        for node in topological(&next, count) {
            let number = nodes.len() as u32;
            if node < count {
                blocks[node] = Some(number);
                nodes.push(NodeKind::Block(node));
            } else {
                backs.insert(headers[node - count], number);
                nodes.push(NodeKind::Back(headers[node - count]));
            }
        }
        Order { nodes, blocks, backs, places }
    }

    /// The node of a block; `None` if it is not reached.
    pub fn block(&self, block: usize) -> Option<u32> {
        self.blocks[block]
    }

    /// The node to which an edge leads.
    pub fn target(&self, from: usize, to: usize) -> Option<u32> {
        if self.places[to] <= self.places[from]
            && let Some(back) = self.backs.get(&to)
        {
            return Some(*back);
        }
        self.blocks[to]
    }
}

/// The blocks of the loop with this header.
fn body(cfg: &Cfg, constructs: &Constructs, header: usize, goes_back: &dyn Fn(usize, usize) -> bool) -> Vec<bool> {
    let mut set = vec![false; cfg.len()];
    set[header] = true;
    let inside = |b: usize| cfg.is_reachable(b) && cfg.dominates(header, b);
    let mut work: Vec<usize> =
        cfg.predecessors(header).iter().copied().filter(|p| inside(*p) && goes_back(*p, header)).collect();
    while let Some(b) = work.pop() {
        if !set[b] {
            set[b] = true;
            work.extend(cfg.predecessors(b).iter().copied().filter(|p| inside(*p)));
        }
    }
    for c in constructs.all() {
        if c.header == header && c.kind != ConstructKind::Selection {
            for b in constructs.blocks(c) {
                set[b] |= cfg.is_reachable(b);
            }
        }
    }
    set
}

fn topological(next: &[Vec<usize>], count: usize) -> Vec<usize> {
    if count == 0 {
        return Vec::new();
    }
    let mut seen = vec![false; next.len()];
    let mut post = Vec::new();
    let mut stack = vec![(0usize, 0usize)];
    seen[0] = true;
    while let Some(top) = stack.last_mut() {
        match next[top.0].get(top.1) {
            Some(&s) => {
                top.1 += 1;
                if !seen[s] {
                    seen[s] = true;
                    stack.push((s, 0));
                }
            }
            None => {
                post.push(top.0);
                stack.pop();
            }
        }
    }
    post.reverse();
    post
}
