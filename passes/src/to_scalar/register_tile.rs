//! Register tiles. Between two barriers, a lane multiplies a slice of both factors from shared memory into its sums.

use super::arith::MulAdd;
use super::array::{Array, ArrayBuilder};
use super::product::Plan;
use super::staged_factor::StagedFactor;
use super::{Key, Lower};
use crate::matrix::affine::Affine;
use crate::matrix::arena::Arena;
use crate::matrix::placement::whole_pieces;
use crate::matrix::position::LanePosition;
use coop_ir::builder::{FunctionBuilder, Index, Unroll};
use coop_ir::hash::FxHashMap;
use coop_ir::{Id, Op, Operand};

/// The `k` that go without a jump.
const STRAIGHT: u32 = 16;

/// The largest tile that is kept in registers; a larger one is added up in memory.
pub(super) const IN_REGISTERS: u32 = 256;

impl Lower<'_, '_> {
    /// The function that adds a slice to a lane's sums, which it takes and gives as an array of type `sums`. Where there
    /// are two stages, it takes which of them too.
    pub(super) fn multiply(&mut self, plan: Plan, sums: Id) -> Id {
        let mut extra: Vec<Operand> = vec![plan.mul.bits.0.into()];
        extra.extend([plan.slice, plan.block, plan.stages].map(Operand::Word));
        let mut types = vec![plan.mul.d.ty, sums];
        for (factor, at) in [plan.a, plan.b].iter().zip(plan.at) {
            types.extend([factor.mat.ty, factor.elem.ty]);
            let parts = [factor.piece, factor.length, factor.lines, factor.pitch, u32::from(factor.packed), at.key()];
            extra.extend(parts.map(Operand::Word));
        }
        let key = Key { op: Op::CooperativeMatrixMulAddKHR, types, extra };
        self.function(key, &mut |this| this.make_multiply(plan, sums))
    }

    fn make_multiply(&mut self, plan: Plan, sums: Id) -> Id {
        let label = format!("coop_multiply_{}_{}", plan.mul.d.label(), plan.slice);
        let mut types = vec![sums];
        if plan.stages > 1 {
            types.push(self.g.uint(self.m, 32));
        }
        if plan.has_resident() {
            types.push(self.g.uint(self.m, 32));
        }
        let mut f = FunctionBuilder::new(self.m, &mut self.g, &label, sums, &types);
        let b = &mut f;
        let stage = if plan.stages > 1 { Index::Value(b.param(1)) } else { Index::Const(0) };
        let (arena, lanes) = (&mut self.arena, &mut self.lanes);
        let (lane_position, part) = plan.mul.d.lane_position(b, lanes);
        let first = Affine::scaled(part, plan.slice / plan.mul.d.parts);
        let k = plan.has_resident().then(|| Index::Value(b.param(types.len() - 1)));
        let [x, y] = plan.staged(b, lanes, arena).map(|s| s.stage(b, stage).from(b, k));
        let tile = RegisterTile { plan, lane_position, first };
        let before = b.param(0);
        let after = if plan.mul.sums_in_registers() {
            tile.in_registers(b, arena, [&x, &y], before, sums)
        } else {
            tile.in_memory(b, arena, [&x, &y], before, sums)
        };
        f.finish(Some(after))
    }
}

impl MulAdd {
    /// Returns true if the sums of a lane stay in registers.
    pub(super) fn sums_in_registers(&self) -> bool {
        self.d.placement.len() <= IN_REGISTERS
    }
}

/// The register tile of a lane.
struct RegisterTile {
    plan: Plan,
    lane_position: LanePosition,
    /// The first `k` of a slice that the lane multiplies.
    first: Affine,
}

impl RegisterTile {
    fn in_registers(
        &self,
        b: &mut FunctionBuilder<'_>,
        arena: &mut Arena,
        factors: [&StagedFactor; 2],
        before: Id,
        sums: Id,
    ) -> Id {
        let plan = self.plan;
        let placement = plan.mul.d.placement;
        let sum_type = b.globals.scalar(b.module, plan.mul.sum());
        let pairs = plan.mul.pairs;
        let width = if pairs { 2 } else { whole_pieces(placement.cols.per_group, 4) };
        let vector = if width == 1 { sum_type } else { b.globals.vector(b.module, sum_type, width) };
        let extract = |b: &mut FunctionBuilder<'_>, from: Id, at: u32| {
            b.op(Op::CompositeExtract, sum_type, [from.into(), Operand::Word(at)])
        };
        let mut variables = Vec::new();
        for at in (0..placement.len()).step_by(width as usize) {
            let first = if pairs {
                b.op(Op::CompositeExtract, vector, [before.into(), Operand::Word(at / 2)])
            } else {
                let parts: Vec<Id> = (at..at + width).map(|at| extract(b, before, at)).collect();
                if width == 1 { parts[0] } else { b.ids(Op::CompositeConstruct, vector, &parts) }
            };
            let variable = b.variable(vector);
            b.effect(Op::Store, [variable, first].map(Operand::Id));
            variables.push(variable);
        }
        // A few blocks without a jump between them; written out, they would make the module much larger.
        let blocks = plan.slice / plan.mul.d.parts / plan.block;
        let how = if blocks * plan.block <= STRAIGHT { Unroll::Ask } else { Unroll::No };
        b.repeat(blocks, how, &mut |b, n| {
            self.block(b, arena, factors, n, (&variables, vector, width));
        });
        let mut parts = Vec::new();
        for variable in variables {
            let all = b.ids(Op::Load, vector, &[variable]);
            match width {
                1 => parts.push(all),
                _ if pairs => parts.push(all),
                _ => parts.extend((0..width).map(|n| extract(b, all, n))),
            }
        }
        b.ids(Op::CompositeConstruct, sums, &parts)
    }

    /// A lane's rows (or columns) of a factor for some `k` from one on: by row, then by `k`, as numbers of the type of the
    /// sums.
    fn read(
        &self,
        b: &mut FunctionBuilder<'_>,
        arena: &mut Arena,
        staged: &StagedFactor,
        (k, count): (&Affine, u32),
        range: std::ops::Range<u32>,
        known: &mut FxHashMap<Affine, Index>,
    ) -> Vec<Vec<Id>> {
        let factor = staged.factor;
        let is_a = factor.is_a;
        let mul = self.plan.mul;
        let split = if is_a { mul.d.placement.rows } else { mul.d.placement.cols };
        let place = |b: &mut FunctionBuilder<'_>, i: u32| {
            let (lin, _) = if is_a {
                self.lane_position.row(b, Index::Const(i))
            } else {
                self.lane_position.col(b, Index::Const(i))
            };
            lin
        };
        let mut out: Vec<Vec<Id>> = Vec::new();
        if factor.k_along {
            for i in range {
                let line = place(b, i);
                let values = if factor.packed {
                    staged.get(b, arena, mul, (&line, k), count, known)
                } else {
                    let line = line.emit(b);
                    (0..count)
                        .map(|n| {
                            let at = k.clone().plus(&Affine::constant(n)).emit(b);
                            staged.one(b, arena, mul, line, at)
                        })
                        .collect()
                };
                out.push(values);
            }
            return out;
        }
        // Together what the lane has together, as far as the factor was written so.
        let whole = if factor.packed { whole_pieces(split.piece, factor.together) } else { 1 };
        out.resize(range.len(), Vec::new());
        for n in 0..count {
            let line = k.clone().plus(&Affine::constant(n));
            for (at, i) in (0..).zip(range.clone()).step_by(whole as usize) {
                let first = place(b, i);
                let values = if whole * factor.elem.scalar.width() >= 32 || !factor.packed {
                    staged.get(b, arena, mul, (&line, &first), whole, known)
                } else {
                    let (line, first) = (line.emit(b), first.emit(b));
                    vec![staged.one(b, arena, mul, line, first)]
                };
                for (t, value) in (at..).zip(values) {
                    let list: &mut Vec<Id> = &mut out[t as usize];
                    list.push(value);
                }
            }
        }
        out
    }

    /// Adds the outer products of a block of `k`: of one after the other where nothing is read for several.
    fn block(
        &self,
        b: &mut FunctionBuilder<'_>,
        arena: &mut Arena,
        factors: [&StagedFactor; 2],
        n: Index,
        (variables, vector, width): (&[Id], Id, u32),
    ) {
        let mut sums: Vec<Id> = variables.iter().map(|v| b.ids(Op::Load, vector, &[*v])).collect();
        let block = self.plan.block;
        let at_once = if factors.iter().any(|f| f.factor.k_along) { block } else { 1 };
        let first = Affine::scaled(n, block).plus(&self.first);
        let known = &mut FxHashMap::default();
        for n in (0..block).step_by(at_once as usize) {
            let k = first.clone().plus(&Affine::constant(n));
            self.outer(b, arena, factors, (&k, at_once), (&mut sums, vector, width), known);
        }
        for (variable, sum) in variables.iter().zip(sums) {
            b.effect(Op::Store, [*variable, sum].map(Operand::Id));
        }
    }

    /// Adds the outer products of some `k` from one on.
    fn outer(
        &self,
        b: &mut FunctionBuilder<'_>,
        arena: &mut Arena,
        [x, y]: [&StagedFactor; 2],
        k: (&Affine, u32),
        (sums, vector, width): (&mut [Id], Id, u32),
        known: &mut FxHashMap<Affine, Index>,
    ) {
        let plan = self.plan;
        let placement = plan.mul.d.placement;
        let float = !plan.mul.sum().is_int();
        let (mul_op, add_op) = if float { (Op::FMul, Op::FAdd) } else { (Op::IMul, Op::IAdd) };
        let rows = self.read(b, arena, x, k, 0..placement.rows.per_group, known);
        // As vectors where that is not the multiplication of a vector by a number.
        let splats: Vec<Vec<Id>> = if float || width == 1 {
            Vec::new()
        } else {
            let splat =
                |b: &mut FunctionBuilder<'_>, v: &Id| b.ids(Op::CompositeConstruct, vector, &vec![*v; width as usize]);
            rows.iter().map(|row| row.iter().map(|v| splat(b, v)).collect()).collect()
        };
        let columns = placement.cols.per_group / width;
        // As many columns at a time as were written together.
        let step = y.factor.together.min(placement.cols.piece).max(width).min(placement.cols.per_group);
        let step = if y.factor.k_along || !step.is_multiple_of(width) { width } else { step };
        for first in (0..placement.cols.per_group).step_by(step as usize) {
            let last = (first + step).min(placement.cols.per_group);
            let values = self.read(b, arena, y, k, first..last, known);
            for j in (first..last).step_by(width as usize) {
                let these = &values[(j - first) as usize..(j - first + width) as usize];
                let lines: Vec<Id> = (0..k.1 as usize)
                    .map(|n| {
                        let parts: Vec<Id> = these.iter().map(|v| v[n]).collect();
                        if width == 1 { parts[0] } else { join_vector(b, vector, &parts) }
                    })
                    .collect();
                for i in 0..placement.rows.per_group {
                    let sum = &mut sums[(i * columns + j / width) as usize];
                    for (n, line) in lines.iter().enumerate() {
                        let product = if width == 1 {
                            b.ids(mul_op, vector, &[rows[i as usize][n], *line])
                        } else if float {
                            b.ids(Op::VectorTimesScalar, vector, &[*line, rows[i as usize][n]])
                        } else {
                            b.ids(mul_op, vector, &[splats[i as usize][n], *line])
                        };
                        *sum = b.ids(add_op, vector, &[*sum, product]);
                    }
                }
            }
        }
    }

    /// The same for tiles that no registers hold.
    fn in_memory(
        &self,
        b: &mut FunctionBuilder<'_>,
        arena: &mut Arena,
        [x, y]: [&StagedFactor; 2],
        before: Id,
        sums: Id,
    ) -> Id {
        let plan = self.plan;
        let mul = plan.mul;
        let placement = mul.d.placement;
        let sum_type = b.globals.scalar(b.module, mul.sum());
        let all = Array::of(b, sums, sum_type, before, true);
        let mut sink = ArrayBuilder::of(b, sums, sum_type, placement.len(), true);
        let one = |b: &mut FunctionBuilder<'_>, arena: &mut Arena, staged: &StagedFactor, k: Index, other: Index| {
            let (line, at) = if staged.factor.k_along { (other, k) } else { (k, other) };
            staged.one(b, arena, mul, line, at)
        };
        b.repeat(placement.rows.per_group, Unroll::No, &mut |b, i| {
            let (row, _) = self.lane_position.row(b, i);
            let row = row.emit(b);
            b.repeat(placement.cols.per_group, Unroll::No, &mut |b, j| {
                let (col, _) = self.lane_position.col(b, j);
                let col = col.emit(b);
                let at = placement.index(b, i, j);
                let sum = b.variable(sum_type);
                let before = all.get(b, at);
                b.effect(Op::Store, [sum, before].map(Operand::Id));
                b.repeat(plan.slice, Unroll::No, &mut |b, k| {
                    let (left, right) = (one(b, arena, x, k, row), one(b, arena, y, k, col));
                    let before = b.ids(Op::Load, sum_type, &[sum]);
                    let after = mul.step(b, before, left, right);
                    b.effect(Op::Store, [sum, after].map(Operand::Id));
                });
                let after = b.ids(Op::Load, sum_type, &[sum]);
                sink.set(b, at, after);
            });
        });
        sink.finish(b)
    }
}

/// A vector of these components: the one that they are all of, in order, if there is such a one.
fn join_vector(b: &mut FunctionBuilder<'_>, vector: Id, parts: &[Id]) -> Id {
    let of = |(n, part): (u32, &Id)| {
        let inst = b.module.def_inst(*part).filter(|i| i.op == Op::CompositeExtract && i.operands.len() == 2)?;
        inst.id(0).filter(|_| inst.word(1) == Some(n))
    };
    let whole = parts.first().and_then(|p| of((0, p))).filter(|w| b.module.type_of(*w) == Some(vector));
    match whole {
        Some(whole) if (0..).zip(parts).all(|p| of(p) == Some(whole)) => whole,
        _ => b.ids(Op::CompositeConstruct, vector, parts),
    }
}
