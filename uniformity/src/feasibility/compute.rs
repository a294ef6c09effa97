//! Computes the values of nodes for one invocation of a trial.

use super::super::Uniformity;
use super::super::inputs;
use super::super::shape::{Arg, Shape, float_of_code, fold};
use super::super::subgroup_ops::{ActiveLanes, is_computed};
use super::super::value_graph::Kind;
use super::{Index, PathSearch, Trial, node};
use coop_ir::grammar::Op;
use coop_ir::spv::BuiltIn;
use coop_ir::spv::GroupOperation;
use smallvec::SmallVec;

impl PathSearch<'_, '_, '_> {
    pub(super) fn compute(&self, t: &mut Trial, n: u32, lane: u32, here: &[(u32, u32)]) -> Option<u64> {
        let solution = self.solution;
        let node = node(solution, n);
        let mask = |v: u64| match node.width {
            0 => v & 0xffff_ffff,
            w @ 1..64 => v & ((1 << w) - 1),
            _ => v,
        };
        match node.kind {
            Kind::Fold(f) => {
                let ops: SmallVec<[u32; 4]> = solution.graph.operands(n).map(|(op, _)| op).collect();
                let shapes: SmallVec<[Shape; 4]> =
                    ops.iter().map(|op| self.value(t, *op, lane).map_or(Shape::Unknown, Shape::Const)).collect();
                let args: SmallVec<[Arg; 4]> = shapes
                    .iter()
                    .zip(&ops)
                    .map(|(s, op)| match u32::from(solution.graph.nodes[*op as usize].width) {
                        // An argument about which nothing is known gets a made-up number.
                        0 => (s, Uniformity::Divergent, 32),
                        w => (s, Uniformity::Divergent, w),
                    })
                    .collect();
                match fold(&solution.grid, f, u32::from(node.width), &args).0 {
                    Shape::Const(v) => Some(v),
                    _ => None,
                }
            }
            Kind::Max => {
                let (op, _) = solution.graph.operands(n).last()?;
                let v = self.value(t, op, lane)?;
                let to_integer = |op| matches!(op, Op::ConvertFToU | Op::ConvertFToS);
                Some(match solution.program.module.inst(node.inst?).op {
                    Op::GroupNonUniformBallotBitCount => u64::from(v.count_ones()),
                    // Made-up numbers are integers.
                    made if to_integer(made) && super::node(solution, op).shape.is_exact() => float_of_code(v) as u64,
                    _ => v,
                })
            }
            Kind::Pick => {
                let mut ops = solution.graph.operands(n).map(|(op, _)| op);
                let index = self.value(t, ops.next()?, lane)?;
                self.value(t, ops.nth(usize::try_from(index).ok()?)?, lane)
            }
            Kind::Load { .. } => {
                let (base, indices) = self.place(n)?;
                let indices: Option<SmallVec<[u64; 2]>> = indices
                    .iter()
                    .map(|i| match i {
                        Index::Constant(v) => Some(*v),
                        Index::Node(n) => self.value(t, *n, lane),
                    })
                    .collect();
                let key = (base, indices?);
                // The content of memory that the module writes is not known.
                if t.strict.is_some() && !matches!(node.kind, Kind::Load { constant: true, .. }) {
                    return None;
                }
                t.touch(true);
                let v = mask(t.choose(&key));
                Some(*t.memory.entry(key).or_insert(v))
            }
            Kind::Group(_) => self.grouped(t, n, lane, here).map(mask),
            _ => None,
        }
    }

    /// Computes a subgroup instruction for one of the invocations that execute it.
    fn grouped(&self, t: &mut Trial, n: u32, lane: u32, here: &[(u32, u32)]) -> Option<u64> {
        let (graph, size) = (&self.solution.graph, self.solution.grid.subgroup as u32);
        let of = node(self.solution, n);
        let inst = self.solution.program.module.inst(of.inst?);
        let all: SmallVec<[u32; 64]> = here.iter().map(|h| h.0).filter(|l| l / size == lane / size).collect();
        let mut ops = graph.operands(n).map(|(op, _)| op);
        let (op, second) = (ops.next(), ops.next());
        match (inst.op, op) {
            (Op::GroupNonUniformBallot, Some(op)) if size <= 64 => {
                let values: Option<SmallVec<[u64; 64]>> = all.iter().map(|l| self.value(t, op, *l)).collect();
                let bits = all.iter().zip(values?).map(|(l, v)| u64::from(v != 0) << (l % size));
                return Some(bits.fold(0, |a, b| a | b));
            }
            (Op::GroupNonUniformBallotBitCount, Some(op)) => {
                let bits = self.value(t, op, lane)?;
                let below = |n: u32| if n >= 64 { u64::MAX } else { (1 << n) - 1 };
                return Some(u64::from(match inst.enumerant(1) {
                    Some(GroupOperation::InclusiveScan) => (bits & below(lane % size + 1)).count_ones(),
                    Some(GroupOperation::ExclusiveScan) => (bits & below(lane % size)).count_ones(),
                    _ => bits.count_ones(),
                }));
            }
            _ => {}
        }
        // A result that can't be computed is made up, with the uniformity of the node.
        if !is_computed(inst) {
            return t.strict.is_none().then(|| self.number(t, n, lane));
        }
        // If a part of a subgroup is here, it is not known which other invocations are.
        let whole = (self.solution.grid.lanes as u32 - lane / size * size).min(size);
        if t.strict.is_some() && (all.len() as u32) < whole {
            return None;
        }
        let named = second.and_then(|n| self.value(t, n, lane));
        let width = u32::from(of.width);
        ActiveLanes { all: &all, size }.evaluate(inst, lane, width, named, |l| op.and_then(|op| self.value(t, op, l)))
    }

    /// Returns the value of a node for an invocation.
    pub(super) fn value(&self, t: &mut Trial, n: u32, lane: u32) -> Option<u64> {
        let solution = self.solution;
        let n = solution.graph.find(n);
        let node = node(solution, n);
        if let Some(v) = node.shape.value(lane as usize) {
            if let Some(strict) = &mut t.strict {
                strict.assumes = strict.assumes.and(node.shape_assumes);
            }
            return Some(v);
        }
        if let Some(slot) = t.plan.slots.get(&n) {
            let at = slot * solution.grid.lanes + lane as usize;
            if let Some(strict) = &mut t.strict {
                strict.touched |= strict.made_up[at];
            }
            return t.values[at];
        }
        if node.kind == Kind::Undef {
            return None;
        }
        if let Some(v) = self.source(t, n, lane) {
            return Some(v);
        }
        if t.strict.is_some() && !matches!(node.shape, Shape::Offset { .. }) && !self.is_argument(n) {
            return None;
        }
        t.touch(true);
        if let Shape::Offset { lanes, base, .. } = &node.shape {
            let first = t.choose((n, self.group(*base, lane)));
            return Some(u64::from(lanes[lane as usize].wrapping_add(first as u32)));
        }
        Some(self.number(t, n, lane))
    }

    /// Returns a made-up value for a node, with the uniformity of the node.
    fn number(&self, t: &mut Trial, n: u32, lane: u32) -> u64 {
        let node = node(self.solution, n);
        let uniformity =
            node.inst.and_then(|r| self.uniformity.get(&r)).copied().unwrap_or(node.uniformity).max(node.uniformity);
        let group = self.group(uniformity, lane);
        let element = node.inst.is_some_and(|r| self.solution.program.module.inst(r).op == Op::CompositeExtract);
        let v = match node.inst {
            Some(at) => t.choose((at, group)),
            None => t.choose((n, group)),
        };
        let v = match node.width {
            // Floats that are integers hold this many bits.
            0 if element => v & 0xffff,
            0 => v & 0xffff_ffff,
            w @ 1..64 => v & ((1 << w) - 1),
            _ => v,
        };
        if let Some(at) = node.inst {
            t.numbers.insert((at, group), v);
        }
        v
    }

    /// Returns the value of a built-in of which only the position in the workgroup is known.
    fn source(&self, t: &mut Trial, n: u32, lane: u32) -> Option<u64> {
        let solution = self.solution;
        let grid = &solution.grid;
        let (variable, component) = *solution.graph.source_of.get(&n)?;
        let (number, axis) = inputs::which(solution.program.module, self.decorations, variable, component)?;
        let axis = axis as usize;
        match number {
            BuiltIn::NumSubgroups => grid.size.map(|_| grid.lanes.div_ceil(grid.subgroup) as u64),
            BuiltIn::SubgroupSize | BuiltIn::SubgroupMaxSize => Some(grid.subgroup as u64),
            BuiltIn::WorkgroupId => {
                t.place();
                t.workgroup.get(axis).copied()
            }
            BuiltIn::NumWorkgroups => {
                t.touch(true);
                t.workgroups.get(axis).map(|n| u64::from(*n))
            }
            BuiltIn::GlobalInvocationId => {
                let size = grid.size?;
                t.place();
                let first = *t.workgroup.get(axis)? * u64::from(*size.get(axis)?);
                Some(match &node(solution, n).shape {
                    Shape::Offset { lanes, .. } => first + u64::from(lanes[lane as usize]),
                    _ => first,
                })
            }
            _ => None,
        }
    }
}
