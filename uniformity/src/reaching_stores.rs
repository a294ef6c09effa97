//! Finds the store that a read of a cell reads.
//!
//! As in SSA construction, values of different stores join at the iterated dominance frontier of the points that store.
//! Anywhere else a cell holds the value that the closest dominating point with a store or a join left in it. Only the
//! phis that something reads are made.

use super::variables::Cell;
use coop_ir::cfg::{DomTree, Frontiers, Graph};
use coop_ir::hash::FxHashMap;
use smallvec::{SmallVec, smallvec};

/// The dominator tree of a program's points.
pub(super) struct Tree {
    dom: DomTree,
    frontiers: Frontiers,
    /// The number of each point in the tree's preorder.
    place: Vec<u32>,
}

impl Tree {
    pub(super) fn new(count: usize, edges: &[(usize, usize)]) -> Tree {
        let graph = Graph::new(count, edges);
        let dom = DomTree::new(&graph, 0);
        let frontiers = Frontiers::new(&graph, &dom);
        let mut place = vec![0; count];
        for (i, s) in dom.order().iter().enumerate() {
            place[*s] = i as u32;
        }
        Tree { dom, frontiers, place }
    }
}

/// The definition of a cell's value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Definition {
    /// A store of this node.
    Store(u32),
    /// A phi at the beginning of the point.
    Phi,
    /// The initial value.
    First,
}

/// A point that defines a cell's value.
struct Mark {
    point: u32,
    store: Option<u32>,
    phi: bool,
    /// The closest mark that dominates this one.
    up: u32,
}

/// The definitions of one cell.
pub(super) struct Reaching<'t> {
    tree: &'t Tree,
    pub(super) cell: &'t Cell,
    /// In preorder of the tree; the first mark is the first point.
    marks: SmallVec<[Mark; 8]>,
    /// The phis that were made, by point.
    pub(super) phis: FxHashMap<u32, u32>,
}

impl<'t> Reaching<'t> {
    pub(super) fn new(tree: &'t Tree, cell: &'t Cell) -> Reaching<'t> {
        let mark = |point| Mark { point, store: None, phi: false, up: 0 };
        let mut marks: SmallVec<[Mark; 8]> = smallvec![mark(0)];
        marks.extend(cell.stores.iter().map(|(point, n)| Mark { store: Some(*n), ..mark(*point) }));
        if cell.stores.len() > 1 || cell.stores.first().is_some_and(|s| s.0 != 0) {
            let joins = tree.frontiers.iterated(marks.iter().map(|m| m.point as usize));
            marks.extend(joins.into_iter().map(|s| Mark { phi: true, ..mark(s as u32) }));
        }
        marks.sort_by_key(|m| tree.place[m.point as usize]);
        marks.dedup_by(|b, a| {
            let same = a.point == b.point;
            if same {
                (a.store, a.phi) = (a.store.or(b.store), a.phi || b.phi);
            }
            same
        });
        let all = marks.as_mut_slice();
        for i in 1..all.len() {
            let mut up = i - 1;
            while !tree.dom.dominates(all[up].point as usize, all[i].point as usize) {
                up = all[up].up as usize;
            }
            all[i].up = up as u32;
        }
        Reaching { tree, cell, marks, phis: FxHashMap::default() }
    }

    /// Returns the definition that a cell has at the beginning or the end of a point, and its point.
    pub(super) fn find(&self, point: u32, begin: bool) -> (u32, Definition) {
        let (place, marks) = (self.tree.place[point as usize], self.marks.as_slice());
        let behind = marks.partition_point(|m| self.tree.place[m.point as usize] <= place);
        let mut at = behind.saturating_sub(1);
        if begin && marks[at].point == point {
            if marks[at].phi {
                return (point, Definition::Phi);
            }
            if at == 0 {
                return (point, Definition::First);
            }
            at = marks[at].up as usize;
        }
        while !self.tree.dom.dominates(marks[at].point as usize, point as usize) {
            at = marks[at].up as usize;
        }
        let m = &marks[at];
        match m.store {
            Some(n) => (m.point, Definition::Store(n)),
            None if m.phi => (m.point, Definition::Phi),
            None => (m.point, Definition::First),
        }
    }
}
