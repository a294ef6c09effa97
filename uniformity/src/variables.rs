//! Promotes variables of one invocation to values: each scalar of a variable is a cell, loads read the last store, and
//! phis join several stores.

use super::build::Builder;
use super::reaching_stores::{Definition, Reaching, Tree};
use super::value_graph::{Kind, List};
use coop_ir::Id;
use smallvec::SmallVec;

/// One leaf of a variable, with its reads and stores.
pub(super) struct Cell {
    pub(super) variable: Id,
    /// The node of the initial value.
    pub(super) first: u32,
    /// By point: the node of the value at the beginning.
    pub(super) reads: SmallVec<[(u32, u32); 2]>,
    /// By point: the node of the value at the end, if the point stores into the cell.
    pub(super) stores: SmallVec<[(u32, u32); 2]>,
}

/// The values of a cell within the current point.
#[derive(Clone, Copy)]
pub(super) struct Current {
    pub(super) point: u32,
    pub(super) node: u32,
    pub(super) stored: bool,
}

impl Builder<'_> {
    pub(super) fn read_cell(&mut self, cell: u32) -> u32 {
        let at = self.current[cell as usize];
        if at.point == self.point {
            return at.node;
        }
        // The value at the beginning is found when all stores are known.
        let node = self.node(Kind::Phi, &[], None, 0);
        self.cells[cell as usize].reads.push((self.point, node));
        self.touched.push(cell);
        self.current[cell as usize] = Current { point: self.point, node, stored: false };
        node
    }

    pub(super) fn define(&mut self, cell: u32, node: u32) {
        if self.current[cell as usize].point != self.point {
            self.touched.push(cell);
        }
        self.current[cell as usize] = Current { point: self.point, node, stored: true };
    }

    pub(super) fn leave(&mut self) {
        for cell in self.touched.drain(..) {
            let at = self.current[cell as usize];
            if at.stored {
                self.cells[cell as usize].stores.push((self.point, at.node));
            }
        }
    }

    /// Finds the store, or the phi of stores, that every read reads.
    pub(super) fn resolve_cells(&mut self) {
        let program = self.context.program;
        let edges: Vec<(usize, usize)> = program.edges.iter().map(|e| (e.from as usize, e.to as usize)).collect();
        let tree = Tree::new(program.points.len(), &edges);
        let mut work = Vec::new();
        for cell in std::mem::take(&mut self.cells) {
            if !cell.reads.is_empty() {
                self.resolve_cell(&tree, &cell, &mut work);
            }
        }
    }

    /// `work` is empty before and after.
    fn resolve_cell(&mut self, tree: &Tree, cell: &Cell, work: &mut Vec<(u32, u32)>) {
        let program = self.context.program;
        let mut reach = Reaching::new(tree, cell);
        for (point, node) in &cell.reads {
            let value = self.reaching(&mut reach, *point, true, work);
            self.graph.alias[*node as usize] = value;
        }
        let mut ops = List::new();
        while let Some((point, phi)) = work.pop() {
            ops.clear();
            for e in program.into(point) {
                ops.extend([self.reaching(&mut reach, program.edge(*e).from, false, work), *e]);
            }
            self.set_ops(phi, &ops);
        }
    }

    /// Returns the node of a cell's value at the beginning or the end of a point.
    pub(super) fn reaching(
        &mut self,
        reach: &mut Reaching,
        point: u32,
        begin: bool,
        work: &mut Vec<(u32, u32)>,
    ) -> u32 {
        let (point, found) = reach.find(point, begin);
        match found {
            Definition::Store(n) => n,
            Definition::First => reach.cell.first,
            Definition::Phi => {
                if let Some(n) = reach.phis.get(&point) {
                    return *n;
                }
                let was = std::mem::replace(&mut self.point, point);
                let n = self.node(Kind::Phi, &[], None, 0);
                self.point = was;
                self.graph.cell_of.insert(n, reach.cell.variable);
                reach.phis.insert(point, n);
                self.phis.push(n);
                work.push((point, n));
                n
            }
        }
    }

    pub(super) fn set_ops(&mut self, node: u32, ops: &[u32]) {
        let start = self.graph.ops.len() as u32;
        self.graph.ops.extend_from_slice(ops);
        self.graph.nodes[node as usize].ops = (start, self.graph.ops.len() as u32);
    }

    /// Replaces phis of one value by that value.
    pub(super) fn simplify(&mut self) {
        // Each pass sees through one more level of loops. A phi that is left is not an error, only less precise.
        for _ in 0..16 {
            let mut changed = false;
            for i in 0..self.phis.len() {
                let n = self.phis[i];
                if self.graph.alias[n as usize] != n {
                    continue;
                }
                let mut only = None;
                let mut many = false;
                for [op, _] in self.graph.incoming(n) {
                    let op = self.graph.find(*op);
                    if op != n && only != Some(op) {
                        many |= only.is_some();
                        only = Some(op);
                    }
                }
                if let (Some(only), false) = (only, many) {
                    self.graph.alias[n as usize] = only;
                    changed = true;
                }
            }
            if !changed {
                break;
            }
        }
        self.graph.settle();
        self.widths();
    }

    /// Gives each phi the width of its operands. Loops take another pass for each level.
    pub(super) fn widths(&mut self) {
        for _ in 0..4 {
            let mut changed = false;
            for i in 0..self.phis.len() {
                let n = self.phis[i];
                if self.graph.nodes[n as usize].width != 0 {
                    continue;
                }
                let width = self.graph.inputs(n).map(|op| self.graph.nodes[op as usize].width).max();
                if let Some(width) = width.filter(|w| *w != 0) {
                    self.graph.nodes[n as usize].width = width;
                    changed = true;
                }
            }
            if !changed {
                break;
            }
        }
    }
}
