//! Directed graphs on the numbers below some `len`, as two tables of lists.

/// A list of nodes for every node, in two allocations.
#[derive(Clone, Debug, Default)]
pub(super) struct Lists {
    start: Vec<u32>,
    items: Vec<usize>,
}

impl Lists {
    /// The lists of `len` nodes; `pairs` gives (whose list, item) as often as it is called, in the order kept.
    pub(super) fn new<I: Iterator<Item = (usize, usize)>>(len: usize, pairs: impl Fn() -> I) -> Lists {
        let mut start = vec![0u32; len + 1];
        for (of, _) in pairs() {
            start[of + 1] += 1;
        }
        for i in 0..len {
            start[i + 1] += start[i];
        }
        let mut items = vec![0; start[len] as usize];
        for (of, item) in pairs() {
            let at = &mut start[of];
            items[*at as usize] = item;
            *at += 1;
        }
        Lists { start: shifted(start), items }
    }

    /// Returns the transposed lists: for each node those whose lists it is in, ascending.
    fn turned(&self) -> Lists {
        let mut start = vec![0u32; self.start.len()];
        for item in &self.items {
            start[item + 1] += 1;
        }
        for i in 1..start.len() {
            start[i] += start[i - 1];
        }
        let mut items = vec![0; self.items.len()];
        for node in 0..self.len() {
            for item in self.of(node) {
                let at = &mut start[*item];
                items[*at as usize] = node;
                *at += 1;
            }
        }
        Lists { start: shifted(start), items }
    }

    pub(super) fn of(&self, node: usize) -> &[usize] {
        &self.items[self.start[node] as usize..self.start[node + 1] as usize]
    }

    pub(super) fn len(&self) -> usize {
        self.start.len().saturating_sub(1)
    }

    /// Returns (whose list, item), list after list.
    pub(super) fn pairs(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        (0..self.len()).flat_map(|n| self.of(n).iter().map(move |i| (n, *i)))
    }

    /// Removes repeated items of each list.
    fn dedup(&mut self) {
        let mut seen = vec![usize::MAX; self.len()];
        let mut kept = 0;
        for node in 0..self.len() {
            let range = self.start[node] as usize..self.start[node + 1] as usize;
            self.start[node] = kept as u32;
            for at in range {
                let item = self.items[at];
                if seen[item] != node {
                    seen[item] = node;
                    self.items[kept] = item;
                    kept += 1;
                }
            }
        }
        if let Some(last) = self.start.last_mut() {
            *last = kept as u32;
        }
        self.items.truncate(kept);
    }
}

/// Converts the ends of lists to their starts, except for the last entry, the number of items.
fn shifted(mut ends: Vec<u32>) -> Vec<u32> {
    if let Some(last) = ends.len().checked_sub(1) {
        ends.copy_within(..last, 1);
        ends[0] = 0;
    }
    ends
}

/// A directed graph. Nodes are numbers from 0; there is at most one edge from a node to another.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    succ: Lists,
    pred: Lists,
}

impl Graph {
    /// The graph of `len` nodes with these edges; repeated ones count once. The order of a node's successors is that
    /// of the edges, the order of its predecessors is ascending.
    ///
    /// # Panics
    /// If an edge names a node that is not below `len`.
    pub fn new(len: usize, edges: &[(usize, usize)]) -> Graph {
        let mut succ = Lists::new(len, || edges.iter().copied());
        succ.dedup();
        Graph { pred: succ.turned(), succ }
    }

    /// Returns the transposed graph.
    #[must_use]
    pub fn reversed(self) -> Graph {
        Graph { succ: self.pred, pred: self.succ }
    }

    /// Returns the number of nodes.
    pub fn len(&self) -> usize {
        self.succ.len()
    }

    /// Returns true if there are no nodes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the successors of `node`, each once.
    pub fn successors(&self, node: usize) -> &[usize] {
        self.succ.of(node)
    }

    /// Returns the predecessors of `node`, each once, ascending.
    pub fn predecessors(&self, node: usize) -> &[usize] {
        self.pred.of(node)
    }

    /// Returns the strongly connected component of each node, as numbers from 0; components come after those that their
    /// edges lead to.
    ///
    /// Tarjan's algorithm with a stack of its own: a long chain of blocks must not recurse.
    pub fn components(&self) -> Vec<usize> {
        let len = self.len();
        let mut component = vec![usize::MAX; len];
        let mut found = 0;
        // Numbers from 1 in the order of discovery; 0 is not discovered yet.
        let mut number = vec![0u32; len];
        let mut low = vec![0u32; len];
        let mut discovered = 0;
        // Discovered nodes without a component, and the nodes being walked, each with the number of its next edge.
        let (mut open, mut walk): (Vec<usize>, Vec<(usize, usize)>) = (Vec::new(), Vec::new());
        for root in 0..len {
            if number[root] != 0 {
                continue;
            }
            walk.push((root, 0));
            while let Some((node, edge)) = walk.pop() {
                if edge == 0 {
                    discovered += 1;
                    (number[node], low[node]) = (discovered, discovered);
                    open.push(node);
                } else {
                    low[node] = low[node].min(low[self.successors(node)[edge - 1]]);
                }
                let mut rest = self.successors(node).iter().enumerate().skip(edge);
                let unknown = rest.find_map(|(i, &next)| match number[next] {
                    0 => Some((i, next)),
                    at => {
                        if component[next] == usize::MAX {
                            low[node] = low[node].min(at);
                        }
                        None
                    }
                });
                if let Some((i, next)) = unknown {
                    walk.push((node, i + 1));
                    walk.push((next, 0));
                    continue;
                }
                if low[node] == number[node] {
                    while let Some(member) = open.pop() {
                        component[member] = found;
                        // A closed component lowers nobody's number any more.
                        low[member] = u32::MAX;
                        if member == node {
                            break;
                        }
                    }
                    found += 1;
                }
            }
        }
        component
    }

    /// Returns the nodes that are reached from `root` in reverse postorder: a node comes before those that its edges lead
    /// to, back edges aside.
    pub fn reverse_postorder(&self, root: usize) -> Vec<usize> {
        let mut order = Walk::new(self, root).post;
        order.reverse();
        order
    }

    /// Every edge as (from, to).
    pub fn edges(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        self.succ.pairs()
    }
}

/// A depth-first walk from one node.
#[derive(Clone, Debug)]
pub(super) struct Walk {
    /// The nodes in preorder.
    pub(super) pre: Vec<usize>,
    /// The nodes in postorder.
    pub(super) post: Vec<usize>,
    /// The position of each node in `pre`, or [`NONE`].
    pub(super) number: Vec<u32>,
    /// For each position in `pre` that of the node's parent; 0 for the first.
    pub(super) parent: Vec<u32>,
}

/// No node, or no place.
pub(super) const NONE: u32 = u32::MAX;

impl Walk {
    /// Walks from `root`. The last successor is entered first, so that the reverse of `post` has the first successor
    /// of a branch, and all that hangs from it, before the others.
    pub(super) fn new(graph: &Graph, root: usize) -> Walk {
        let len = graph.len();
        let mut walk = Walk {
            pre: Vec::with_capacity(len),
            post: Vec::with_capacity(len),
            number: vec![NONE; len],
            parent: Vec::with_capacity(len),
        };
        if root >= len {
            return walk;
        }
        // Nodes, and how many of their successors are left.
        let mut stack = Vec::new();
        walk.enter(root, 0, graph, &mut stack);
        while let Some((node, left)) = stack.last_mut() {
            let node = *node as usize;
            if *left == 0 {
                walk.post.push(node);
                stack.pop();
                continue;
            }
            *left -= 1;
            let next = graph.successors(node)[*left as usize];
            if walk.number[next] == NONE {
                let parent = walk.number[node];
                walk.enter(next, parent, graph, &mut stack);
            }
        }
        walk
    }

    #[inline(always)]
    fn enter(&mut self, node: usize, parent: u32, graph: &Graph, stack: &mut Vec<(u32, u32)>) {
        self.number[node] = self.pre.len() as u32;
        self.pre.push(node);
        self.parent.push(parent);
        stack.push((node as u32, graph.successors(node).len() as u32));
    }
}
