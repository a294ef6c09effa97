//! Products of matrices that are cut into tiles.
//!
//! `D[i][j] = C[i][j] + sum over k of A[i][k] * B[k][j]`, tile by tile, `k` ascending from C; the subgroup that holds
//! tile (i, j) of C has the rows of A and the columns of B that it needs, so nothing is communicated.
//!
//! Saturation belongs to the last addition alone. Where the device does that itself and one product is all there is, it
//! does; else the products are summed from zero without it, and C is added element by element.

use super::Tiles;
use super::inst::{Slot, malformed};
use super::shape::Mat;
use crate::Refusal;
use crate::placement::Use;
use crate::scalar::arith::saturated_sum;
use coop_ir::builder::{FunctionBuilder, Index, Unroll};
use coop_ir::profile::Scope;
use coop_ir::{Id, Inst, InstRef, Op, Operand};
use spirv::{CooperativeMatrixOperands as Bits, StorageClass};

impl Tiles<'_, '_> {
    pub(super) fn muladd(&mut self, b: &mut FunctionBuilder<'_>, r: InstRef, inst: &Inst) -> Result<(), Refusal> {
        let result = inst.ty.and_then(|t| self.mats.get(&t)).copied();
        let (Some(d), Some(x), Some(y), Some(z)) = (result, inst.id(0), inst.id(1), inst.id(2)) else {
            return malformed(r, "the operands are not three matrices");
        };
        let (Some(a), Some(bm)) = (self.mat_of(b.module, x), self.mat_of(b.module, y)) else {
            return malformed(r, "the operands are not three matrices");
        };
        let (c, c_parts) = self.tiles_of(b.module, r, z)?;
        check(r, [a, bm, c, d])?;
        let mark = self.arena.mark();
        let slices = self.slices(b, r, (x, a), (y, bm))?;
        let bits = Bits::from_bits_retain(inst.word(3).unwrap_or(0));
        let saturates = bits.contains(Bits::SATURATING_ACCUMULATION_KHR);
        let steps = a.cols;
        let by_device = saturates && steps == 1 && self.device_saturates(d);
        let plain = if by_device { bits } else { bits - Bits::SATURATING_ACCUMULATION_KHR };
        let mut sums = c_parts.clone();
        let add_last = saturates && !by_device;
        if add_last {
            let zero = b.globals.null(b.module, d.tile);
            sums = vec![zero; d.tiles() as usize];
        }
        let mut slot = Slot::new(r);
        for k in 0..steps {
            let first = k / slices.steps * slices.steps;
            if k == first {
                self.bring(b, &slices, (a, bm), first);
            }
            let mut left = Vec::new();
            for i in 0..d.rows {
                left.push(self.factor_tile(b, r, &slices.left, a, (i, k, first))?);
            }
            for j in 0..d.cols {
                let right = self.factor_tile(b, r, &slices.right, bm, (j, k, first))?;
                for i in 0..d.rows {
                    let at = d.at(i, j);
                    let mut operands: Vec<Operand> = [left[i as usize], right, sums[at]].map(Operand::Id).to_vec();
                    if !plain.is_empty() {
                        operands.push(plain.bits().into());
                    }
                    let last = k + 1 == steps && !add_last;
                    let op = Op::CooperativeMatrixMulAddKHR;
                    sums[at] = if last { slot.op(b, op, d.tile, operands) } else { b.op(op, d.tile, operands) };
                }
            }
        }
        self.arena.release(mark);
        if add_last {
            let signed = bits.contains(Bits::MATRIX_RESULT_SIGNED_COMPONENTS_KHR);
            for (sum, c) in sums.iter_mut().zip(c_parts) {
                *sum = add_saturating(b, &mut slot, d, *sum, c, signed);
            }
        }
        self.define(inst, d, sums);
        Ok(())
    }

    /// Whether an instruction saturates as the device can't.
    pub(super) fn must_saturate(&self, inst: &Inst) -> bool {
        let bits = Bits::from_bits_retain(inst.word(3).unwrap_or(0));
        let mat = inst.ty.and_then(|t| self.mats.get(&t));
        bits.contains(Bits::SATURATING_ACCUMULATION_KHR) && mat.is_some_and(|d| !self.device_saturates(*d))
    }

    /// Whether the device has tiles like these with saturation.
    fn device_saturates(&self, d: Mat) -> bool {
        let rows = self.cx.options.profile.map_or(&[][..], |p| &p.khr_properties);
        rows.iter().any(|p| {
            p.saturating
                && p.scope == Scope::Subgroup
                && (p.m, p.n) == (d.tile_rows, d.tile_cols)
                && p.result.bits() == Some(d.elem.scalar.width())
        })
    }
}

fn check(r: InstRef, [a, b, c, d]: [Mat; 4]) -> Result<(), Refusal> {
    let uses = [a, b, c, d].map(|m| m.shape.use_) == [Use::A, Use::B, Use::Accumulator, Use::Accumulator];
    let fits = uses
        && a.shape.rows == d.shape.rows
        && b.shape.cols == d.shape.cols
        && a.shape.cols == b.shape.rows
        && c.shape == d.shape
        && (a.rows, a.cols, b.cols) == (d.rows, b.rows, d.cols)
        && (c.tile_rows, c.tile_cols) == (d.tile_rows, d.tile_cols)
        && [a, b, c].iter().all(|m| m.workgroup == d.workgroup);
    if fits { Ok(()) } else { malformed(r, "the shapes or uses of the operands don't fit together") }
}

/// `sum + c` for each element of two tiles, saturated.
fn add_saturating(b: &mut FunctionBuilder<'_>, slot: &mut Slot, d: Mat, sum: Id, c: Id, signed: bool) -> Id {
    let [to, from] = [sum, c].map(|value| {
        let variable = b.variable(d.tile);
        b.effect(Op::Store, [variable, value].map(Operand::Id));
        variable
    });
    let u32_type = b.u32_type();
    let length = b.ids(Op::CooperativeMatrixLengthKHR, u32_type, &[d.tile]);
    let pointer = b.globals.pointer(b.module, StorageClass::Function as u32, d.elem.ty);
    b.count(Index::Const(0), Index::Value(length), Index::Const(1), Unroll::No, &mut |b, i| {
        let i = b.index(i);
        let [to, from] = [to, from].map(|v| b.ids(Op::AccessChain, pointer, &[v, i]));
        let [x, y] = [to, from].map(|p| b.ids(Op::Load, d.elem.ty, &[p]));
        let value = saturated_sum(b, d.elem.ty, d.elem.scalar, x, y, signed);
        b.effect(Op::Store, [to, value].map(Operand::Id));
    });
    slot.op(b, Op::Load, d.tile, [to.into()])
}
