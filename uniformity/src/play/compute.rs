//! What values are for one invocation of a trial.

use super::super::Uniformity;
use super::super::nodes::Kind;
use super::super::shape::{Arg, Shape, fold};
use super::super::source;
use super::{Index, Player, Trial, node};
use coop_ir::grammar::Op;
use smallvec::SmallVec;
use spirv::BuiltIn;

impl Player<'_, '_, '_> {
    pub(super) fn compute(&self, t: &mut Trial, n: u32, lane: u32, here: &[(u32, u32)]) -> Option<u64> {
        let solved = self.solved;
        let node = node(solved, n);
        let mask = |v: u64| match node.width {
            0 => v & 0xffff_ffff,
            w @ 1..64 => v & ((1 << w) - 1),
            _ => v,
        };
        match node.kind {
            Kind::Fold(f) => {
                let ops: SmallVec<[u32; 4]> = solved.graph.operands(n).map(|(op, _)| op).collect();
                let shapes: SmallVec<[Shape; 4]> =
                    ops.iter().map(|op| self.value(t, *op, lane).map_or(Shape::Unknown, Shape::Const)).collect();
                let args: SmallVec<[Arg; 4]> = shapes
                    .iter()
                    .zip(&ops)
                    .map(|(s, op)| match u32::from(solved.graph.nodes[*op as usize].width) {
                        // An argument of which nothing is known: numbers are made up for it.
                        0 => (s, Uniformity::Divergent, 32),
                        w => (s, Uniformity::Divergent, w),
                    })
                    .collect();
                match fold(&solved.grid, f, u32::from(node.width), &args).0 {
                    Shape::Const(v) => Some(v),
                    _ => None,
                }
            }
            Kind::Max => {
                let (op, _) = solved.graph.operands(n).last()?;
                let v = self.value(t, op, lane)?;
                let counts = solved.program.module.inst(node.inst?).op == Op::GroupNonUniformBallotBitCount;
                Some(if counts { u64::from(v.count_ones()) } else { v })
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
                let v = mask(t.choose(&key));
                Some(*t.memory.entry(key).or_insert(v))
            }
            Kind::Group(_) => self.grouped(t, n, lane, here).map(mask),
            _ => None,
        }
    }

    /// What a subgroup instruction gives those who execute it.
    fn grouped(&self, t: &mut Trial, n: u32, lane: u32, here: &[(u32, u32)]) -> Option<u64> {
        let (graph, size) = (&self.solved.graph, self.solved.grid.subgroup as u32);
        let inst = self.solved.program.module.inst(node(self.solved, n).inst?);
        let all: SmallVec<[u32; 64]> = here.iter().map(|h| h.0).filter(|l| l / size == lane / size).collect();
        let first = *all.first()?;
        let mut ops = graph.operands(n).map(|(op, _)| op);
        let Some(op) = ops.next() else {
            return (inst.op == Op::GroupNonUniformElect).then_some(u64::from(first == lane));
        };
        let from = |t: &mut Trial, other: u32| all.contains(&other).then(|| self.value(t, op, other)).flatten();
        let named = ops.next().and_then(|n| self.value(t, n, lane));
        let values: Option<SmallVec<[u64; 64]>> = all.iter().map(|l| self.value(t, op, *l)).collect();
        let part = |values: &[u64]| -> SmallVec<[u64; 64]> {
            let wanted = |l: u32| match inst.word(1) {
                Some(1) => l <= lane,
                Some(2) => l < lane,
                _ => true,
            };
            all.iter().zip(values).filter(|(l, _)| wanted(**l)).map(|(_, v)| *v).collect()
        };
        Some(match inst.op {
            Op::GroupNonUniformAll => u64::from(values?.iter().all(|v| *v != 0)),
            Op::GroupNonUniformAny => u64::from(values?.iter().any(|v| *v != 0)),
            Op::GroupNonUniformBroadcastFirst => from(t, first)?,
            Op::GroupNonUniformBroadcast | Op::GroupNonUniformShuffle => {
                let other = u32::try_from(named?).ok().filter(|o| *o < size)?;
                from(t, lane / size * size + other)?
            }
            Op::GroupNonUniformShuffleXor => {
                let other = u32::try_from(named?).ok().filter(|o| *o < size)?;
                from(t, lane / size * size + ((lane % size) ^ other))?
            }
            Op::GroupNonUniformIAdd => part(&values?).iter().fold(0, |a, b| a.wrapping_add(*b)),
            Op::GroupNonUniformUMax => part(&values?).iter().copied().max().unwrap_or(0),
            Op::GroupNonUniformUMin => part(&values?).iter().copied().min().unwrap_or(u64::from(u32::MAX)),
            Op::GroupNonUniformBallot if size <= 64 => {
                let bits = all.iter().zip(values?).map(|(l, v)| u64::from(v != 0) << (l % size));
                bits.fold(0, |a, b| a | b)
            }
            Op::GroupNonUniformBallotBitCount => {
                let bits = self.value(t, op, lane)?;
                let below = |n: u32| if n >= 64 { u64::MAX } else { (1 << n) - 1 };
                u64::from(match inst.word(1) {
                    Some(1) => (bits & below(lane % size + 1)).count_ones(),
                    Some(2) => (bits & below(lane % size)).count_ones(),
                    _ => bits.count_ones(),
                })
            }
            // Others are made up, as uniform as they are.
            _ => return Some(self.number(t, n, lane)),
        })
    }

    /// What a node is for an invocation.
    pub(super) fn value(&self, t: &mut Trial, n: u32, lane: u32) -> Option<u64> {
        let solved = self.solved;
        let n = solved.graph.find(n);
        let node = node(solved, n);
        if let Some(v) = node.shape.value(lane as usize) {
            return Some(v);
        }
        if let Some(slot) = t.plan.slots.get(&n) {
            return t.values[slot * solved.grid.lanes + lane as usize];
        }
        if node.kind == Kind::Undef {
            return None;
        }
        if let Some(v) = self.source(t, n, lane) {
            return Some(v);
        }
        if let Shape::Offset { lanes, base, .. } = &node.shape {
            let first = t.choose((n, self.group(*base, lane)));
            return Some(u64::from(lanes[lane as usize].wrapping_add(first as u32)));
        }
        Some(self.number(t, n, lane))
    }

    /// A number that is made up for a node, as uniform as it is.
    fn number(&self, t: &mut Trial, n: u32, lane: u32) -> u64 {
        let node = node(self.solved, n);
        let over = node.inst.and_then(|r| self.over.get(&r)).copied().unwrap_or(node.over).max(node.over);
        let group = self.group(over, lane);
        let element = node.inst.is_some_and(|r| self.solved.program.module.inst(r).op == Op::CompositeExtract);
        let v = match node.inst {
            Some(at) => t.choose((at, group)),
            None => t.choose((n, group)),
        };
        let v = match node.width {
            // Floats that are integers keep so many bits.
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

    /// A built-in of which only the place in a workgroup is known.
    fn source(&self, t: &Trial, n: u32, lane: u32) -> Option<u64> {
        let solved = self.solved;
        let grid = &solved.grid;
        let (variable, component) = *solved.graph.source_of.get(&n)?;
        let (number, axis) = source::which(solved.program.module, self.decorations, variable, component)?;
        let axis = axis as usize;
        match BuiltIn::from_u32(number)? {
            BuiltIn::NumSubgroups => grid.size.map(|_| grid.lanes.div_ceil(grid.subgroup) as u64),
            BuiltIn::SubgroupSize | BuiltIn::SubgroupMaxSize => Some(grid.subgroup as u64),
            BuiltIn::WorkgroupId => t.workgroup.get(axis).copied(),
            BuiltIn::NumWorkgroups => t.workgroups.get(axis).map(|n| u64::from(*n)),
            BuiltIn::GlobalInvocationId => {
                let size = grid.size?;
                let first = *t.workgroup.get(axis)? * u64::from(*size.get(axis)?);
                Some(match &node(solved, n).shape {
                    Shape::Offset { lanes, .. } => first + u64::from(lanes[lane as usize]),
                    _ => first,
                })
            }
            _ => None,
        }
    }
}
