//! Evaluates nodes for all invocations in an iteration.

use super::super::Uniformity;
use super::super::program::NONE;
use super::super::shape::{Arg, Fold, Shape, fold};
use super::super::value_graph::Kind;
use super::{Iteration, MAX_DEPTH, Prover, Values};
use coop_ir::cfg::Case;
use std::rc::Rc;

impl Prover<'_, '_, '_> {
    pub(super) fn unknown(&self) -> Values {
        Rc::new(vec![None; self.solution.grid.lanes])
    }

    pub(super) fn values(&self, n: u32, r: &mut Iteration, depth: u32) -> Values {
        let n = self.solution.graph.find(n);
        if let Some(v) = r.phis.get(&n).cloned() {
            r.varies = true;
            return v;
        }
        if let Some(v) = r.memo.get(&n) {
            return v.clone();
        }
        if depth > MAX_DEPTH || r.left == 0 {
            return self.unknown();
        }
        r.left -= 1;
        // A cycle finds no value for the node itself.
        r.memo.insert(n, self.unknown());
        let values = self.find_values(n, r, depth);
        r.memo.insert(n, values.clone());
        values
    }

    fn find_values(&self, n: u32, r: &mut Iteration, depth: u32) -> Values {
        let solution = self.solution;
        let node = &solution.graph.nodes[n as usize];
        if node.shape.is_exact() {
            r.assumes = r.assumes.and(node.shape_assumes);
            return Rc::new((0..solution.grid.lanes).map(|l| node.shape.value(l)).collect());
        }
        match node.kind {
            Kind::Fold(f) => {
                let ops: Vec<u32> = solution.graph.operands(n).map(|(op, _)| op).collect();
                let widths: Vec<u32> =
                    ops.iter().map(|op| u32::from(solution.graph.nodes[*op as usize].width)).collect();
                let args: Vec<Values> = ops.iter().map(|op| self.values(*op, r, depth + 1)).collect();
                self.computed(f, u32::from(node.width), &args, &widths)
            }
            Kind::Pick => {
                let all: Vec<Values> =
                    solution.graph.operands(n).map(|(op, _)| self.values(op, r, depth + 1)).collect();
                let Some((index, from)) = all.split_first() else { return self.unknown() };
                let one = |lane: usize| from.get(usize::try_from(index[lane]?).ok()?)?[lane];
                Rc::new((0..solution.grid.lanes).map(one).collect())
            }
            Kind::Phi => self.phi_values(n, r, depth),
            _ => self.unknown(),
        }
    }

    fn computed(&self, f: Fold, out: u32, args: &[Values], widths: &[u32]) -> Values {
        let grid = &self.solution.grid;
        if args.len() > 4 || args.iter().all(|a| a.iter().all(Option::is_none)) {
            return self.unknown();
        }
        let one = |lane: usize| {
            let mut shapes: [Shape; 4] = std::array::from_fn(|_| Shape::Unknown);
            for (slot, a) in shapes.iter_mut().zip(args) {
                *slot = a[lane].map_or(Shape::Unknown, Shape::Const);
            }
            let full: [Arg; 4] =
                std::array::from_fn(|i| (&shapes[i], Uniformity::Divergent, widths.get(i).copied().unwrap_or(0)));
            match fold(grid, f, out, &full[..args.len()]).0 {
                Shape::Const(v) => Some(v),
                _ => None,
            }
        };
        Rc::new((0..grid.lanes).map(one).collect())
    }

    fn phi_values(&self, n: u32, r: &mut Iteration, depth: u32) -> Values {
        let solution = self.solution;
        let program = solution.program;
        let point = solution.graph.nodes[n as usize].point;
        if let Some(l) = program.headed_loop(point) {
            // The first iteration of a loop. A loop with several entries has no first iteration.
            if !program.in_loop(r.from, l) || program.loops[l as usize].entries.len() > 1 {
                return self.unknown();
            }
            let mut entering = solution.graph.operands(n).filter(|(_, e)| {
                e.is_some_and(|e| solution.regions.taken[e as usize] && !program.in_loop(program.edge(e).from, l))
            });
            r.varies = true;
            return match (entering.next(), entering.next()) {
                (Some((op, _)), None) => self.values(op, r, depth + 1),
                _ => self.unknown(),
            };
        }
        // The closest branch that decides along which edge an invocation arrives.
        let Some(branch) = self.dom.idom(point as usize).map(|b| b as u32) else { return self.unknown() };
        let condition = solution.graph.conditions[branch as usize];
        if condition == NONE || program.point(branch).in_loop != program.point(point).in_loop {
            return self.unknown();
        }
        let condition = self.values(condition, r, depth + 1);
        r.used_branches.insert(branch);
        let ops: Vec<(u32, u32)> = solution
            .graph
            .operands(n)
            .filter_map(|(op, e)| Some((op, e.filter(|e| solution.regions.taken[*e as usize])?)))
            .collect();
        let values: Vec<Values> = ops
            .iter()
            .map(|(op, e)| match self.implied(*op, *e) {
                Some(v) => Rc::new(vec![Some(v); solution.grid.lanes]),
                None => self.values(*op, r, depth + 1),
            })
            .collect();
        let targets: Vec<u32> = solution.regions.next(branch).collect();
        // For each target, the operands that may arrive from there.
        let from: Vec<(u32, Vec<usize>)> = targets
            .iter()
            .map(|t| (*t, (0..ops.len()).filter(|i| self.comes_by(branch, *t, ops[*i].1)).collect()))
            .collect();
        let all: Vec<usize> = (0..ops.len()).collect();
        let same = |lane: usize, which: &[usize]| {
            let first = values[*which.first()?][lane]?;
            which.iter().all(|i| values[*i][lane] == Some(first)).then_some(first)
        };
        let one = |lane: usize| match condition[lane] {
            Some(c) => {
                let to = self.target(branch, c)?;
                let (_, which) = from.iter().find(|(t, _)| *t == to)?;
                same(lane, which)
            }
            None => same(lane, &all),
        };
        Rc::new((0..solution.grid.lanes).map(one).collect())
    }

    /// Returns the target of a branch for a value of its condition.
    pub(super) fn target(&self, branch: u32, value: u64) -> Option<u32> {
        let program = self.solution.program;
        let edges = || program.out(branch).map(|e| program.edge(e));
        let found = edges().find(|e| match e.case {
            Case::True => value != 0,
            Case::False => value == 0,
            Case::Value(v) => v == value,
            _ => false,
        });
        found.or_else(|| edges().find(|e| e.case == Case::Default)).map(|e| e.to)
    }

    /// Returns the value of a branch's condition on one of its edges.
    fn implied(&self, op: u32, edge: u32) -> Option<u64> {
        let solution = self.solution;
        let e = solution.program.edge(edge);
        let condition = solution.graph.conditions[e.from as usize];
        if condition == NONE || solution.graph.find(condition) != op {
            return None;
        }
        match e.case {
            Case::True => Some(1),
            Case::False => Some(0),
            Case::Value(v) => Some(v),
            _ => None,
        }
    }

    /// Returns true if a path from a branch through `to` takes an edge without reaching the branch again.
    fn comes_by(&self, branch: u32, to: u32, edge: u32) -> bool {
        let program = self.solution.program;
        let e = program.edge(edge);
        if e.from == branch {
            return e.to == to;
        }
        let mut seen = vec![false; program.points.len()];
        let mut work = vec![to];
        while let Some(s) = work.pop() {
            if s == branch || s == e.to || std::mem::replace(&mut seen[s as usize], true) {
                continue;
            }
            if s == e.from {
                return true;
            }
            work.extend(self.solution.regions.next(s));
        }
        false
    }
}
