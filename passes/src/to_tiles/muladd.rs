//! Lowers products of matrices that are split into tiles.
//!
//! `D[i][j] = C[i][j] + sum over k of A[i][k] * B[k][j]`, tile by tile, `k` ascending from C. The subgroup that holds
//! tile (i, j) of C holds the rows of A and the columns of B that it needs, so subgroups do not communicate.
//!
//! If the device has a product with f32 sums only, the sum is computed in f32 and rounded to the requested type at the end.
//!
//! Saturation applies to the last addition alone. If the device saturates and there is a single product, the device does it;
//! otherwise products are summed from zero without saturation, and C is added element by element.

use super::exchange::{Change, Conversion};
use super::fused_loads::{Factor, Slices};
use super::inst::Slot;
use super::padding::ends_inside;
use super::shape::{Mat, has_product, products};
use super::{Tiles, tile_type};
use crate::matrix::elementwise::saturated_sum;
use crate::matrix::placement::Use;
use crate::{Refusal, malformed};
use coop_ir::builder::{FunctionBuilder, Index, Unroll};
use coop_ir::spv::{CooperativeMatrixOperands as Bits, StorageClass};
use coop_ir::types::Scalar;
use coop_ir::{Id, Inst, InstRef, Module, Op, Operand};

/// A product that is being made.
#[derive(Clone, Copy)]
struct Product<'a> {
    r: InstRef,
    slices: &'a Slices,
    /// A, B and the result.
    mats: [Mat; 3],
    /// The type of sums.
    ty: Id,
    bits: Bits,
    /// True if the result is row-uniform: all tiles of a row equal the first.
    row_uniform: bool,
}

impl Tiles<'_, '_> {
    pub(super) fn muladd(&mut self, b: &mut FunctionBuilder<'_>, r: InstRef, inst: &Inst) -> Result<(), Refusal> {
        let result = inst.ty.and_then(|t| self.analysis.mats.get(&t)).copied();
        let (Some(d), Some(x), Some(y), Some(z)) = (result, inst.id(0), inst.id(1), inst.id(2)) else {
            return malformed(r, "the operands are not three matrices");
        };
        let (Some(a), Some(bm)) = (self.mat_of(b.module, x), self.mat_of(b.module, y)) else {
            return malformed(r, "the operands are not three matrices");
        };
        let (c, c_parts) = self.tiles_of(b.module, r, z)?;
        check(r, [a, bm, c, d])?;
        let mark = self.arena.mark();
        let cleared = [self.masked_factor(b, r, (x, a))?, self.masked_factor(b, r, (y, bm))?];
        let mut slices = self.slices(b, r, (x, a), (y, bm))?;
        for (factor, parts) in [&mut slices.left, &mut slices.right].into_iter().zip(cleared) {
            if let Some(parts) = parts {
                *factor = Factor::Held(parts);
            }
        }
        let bits = inst.matrix_operands();
        // Sums of floats have no limits to saturate at: the bit means nothing there.
        let saturates = saturates(inst) && d.elem.scalar.is_int();
        let steps = a.cols();
        let by_device = saturates && steps == 1 && self.device_saturates([a, bm, c, d], bits);
        let plain = if by_device { bits } else { bits - Bits::SaturatingAccumulationKHR };
        let mut sums = c_parts.clone();
        let add_last = saturates && !by_device;
        if add_last {
            let zero = b.globals.null(b.module, d.tile);
            sums = vec![zero; d.tiles() as usize];
        }
        // The type of sums, where it is not that of the result.
        let wide = self.wide_sums(b, [a, bm, c, d]);
        if let Some(wide) = wide.filter(|w| *w != c.tile) {
            sums.iter_mut().for_each(|sum| *sum = b.ids(Op::FConvert, wide, &[*sum]));
        }
        let wide = wide.filter(|w| *w != d.tile);
        let ty = wide.unwrap_or(d.tile);
        let mut slot = Slot::new(r);
        let row_uniform = self.is_row_uniform(inst.result);
        let product = Product { r, slices: &slices, mats: [a, bm, d], ty, bits: plain, row_uniform };
        let most = self.most_written_out(a, d, wide.is_some());
        let written_out = slices.steps * d.tiles() <= most || !slices.can_loop();
        let in_a_round = (1..=slices.steps).rev().find(|n| slices.steps.is_multiple_of(*n) && n * d.tiles() <= most);
        let in_a_round = in_a_round.unwrap_or(1);
        let mut ahead = [None, None];
        for first in (0..steps).step_by(slices.steps as usize) {
            self.stage_slice(b, r, &slices, (a, bm), (first, &mut ahead));
            if written_out {
                for k in 0..slices.steps {
                    let last = first + k + 1 == steps && !add_last && wide.is_none();
                    sums = self.step(b, &product, (Index::Const(k), first), &sums, last.then_some(&mut slot))?;
                }
                continue;
            }
            let types = vec![ty; sums.len()];
            let range = (Index::Const(0), Index::Const(slices.steps), Index::Const(in_a_round));
            let mut failed = None;
            sums = b.fold(range, &types, &sums, &mut |b, k, sums| {
                let mut sums = sums.to_vec();
                for at in 0..in_a_round {
                    let k = b.add(k, Index::Const(at));
                    let next = self.step(b, &product, (k, first), &sums, None);
                    next.map_or_else(|e| failed = Some(e), |next| sums = next);
                }
                sums
            });
            failed.map_or(Ok(()), Err)?;
        }
        if !written_out && !add_last && wide.is_none() {
            // What was made in a loop has ids of its own.
            sums[0] = slot.op(b, Op::CopyObject, d.tile, [sums[0].into()]);
        }
        self.arena.release(mark);
        if wide.is_some() {
            sums.iter_mut().for_each(|sum| *sum = slot.op(b, Op::FConvert, d.tile, [(*sum).into()]));
        }
        if add_last {
            let signed = bits.contains(Bits::MatrixResultSignedComponentsKHR);
            for (sum, c) in sums.iter_mut().zip(c_parts) {
                *sum = add_saturating(b, &mut slot, d, *sum, c, signed);
            }
        }
        self.define(inst, d, sums);
        Ok(())
    }

    /// A factor whose tiles may hold elements beyond the end of K, with those masked to zero.
    fn masked_factor(
        &mut self,
        b: &mut FunctionBuilder<'_>,
        r: InstRef,
        (id, mat): (Id, Mat),
    ) -> Result<Option<Vec<Id>>, Refusal> {
        if !ends_inside(mat) || !self.analysis.filled.contains(&id) {
            return Ok(None);
        }
        let (_, parts) = self.tiles_of(b.module, r, id)?;
        let mut slot = Slot::new(r);
        slot.skip();
        let how = Conversion { from: mat, to: mat, transposed: false, change: Change::None };
        self.exchange(b, r, &mut slot, how, parts).map(Some)
    }

    /// The products of one step of K, added to the sums.
    fn step(
        &mut self,
        b: &mut FunctionBuilder<'_>,
        product: &Product<'_>,
        (k, first): (Index, u32),
        sums: &[Id],
        mut slot: Option<&mut Slot>,
    ) -> Result<Vec<Id>, Refusal> {
        let Product { r, slices, mats: [a, bm, d], ty, bits, row_uniform } = *product;
        let mut out = sums.to_vec();
        let mut left = Vec::new();
        for i in 0..d.rows() {
            left.push(self.factor_tile(b, r, &slices.left, a, (i, k, first))?);
        }
        for j in 0..d.cols() {
            if row_uniform && j > 0 {
                (0..d.rows()).for_each(|i| out[d.at(i, j)] = out[d.at(i, 0)]);
                continue;
            }
            let right = self.factor_tile(b, r, &slices.right, bm, (j, k, first))?;
            for i in 0..d.rows() {
                let at = d.at(i, j);
                let mut operands: Vec<Operand> = [left[i as usize], right, out[at]].map(Operand::Id).to_vec();
                if !bits.is_empty() {
                    operands.push(bits.0.into());
                }
                let op = Op::CooperativeMatrixMulAddKHR;
                out[at] = match &mut slot {
                    Some(slot) => slot.op(b, op, ty, operands),
                    None => b.op(op, ty, operands),
                };
            }
        }
        Ok(out)
    }

    /// Returns how many products of tiles may stand in a row, outside of a loop or in a round of one. Small tiles mean many
    /// products, and devices that are no faster for it.
    fn most_written_out(&self, a: Mat, d: Mat, wide: bool) -> u32 {
        // RADV packs sums of f16 for the next round of a loop, and unpacks them there: 8 moves for each product.
        let packs = self.cx.options.profile.is_some_and(|p| p.driver == "radv") && d.elem.scalar.width() == 16 && !wide;
        match d.tile_rows * d.tile_cols * a.tile_cols {
            ..2048 => 8,
            _ if packs => 128,
            _ => 64,
        }
    }

    /// Returns true if the device has a product only with sums of another type.
    pub(super) fn must_widen(&self, m: &Module, inst: &Inst) -> bool {
        match (self.cx.options.profile, self.operands_and_result(m, inst)) {
            (Some(profile), Some(mats @ [.., d])) => d.elem.scalar.is_float() && !has_product(profile, mats),
            _ => false,
        }
    }

    /// The type of tiles of f32, where the device has the product only with sums of that.
    fn wide_sums(&mut self, b: &mut FunctionBuilder<'_>, [x, y, c, d]: [Mat; 4]) -> Option<Id> {
        let profile = self.cx.options.profile?;
        if has_product(profile, [x, y, c, d]) || !d.elem.scalar.is_float() {
            return None;
        }
        let float = b.globals.scalar(b.module, Scalar::Float { width: 32 });
        let key = (float, d.tile_rows, d.tile_cols, d.shape.use_ as u32);
        Some(tile_type(b.module, b.globals, &mut self.tile_types, key))
    }

    /// Returns true if an instruction saturates as the device can't.
    pub(super) fn must_saturate(&self, m: &Module, inst: &Inst) -> bool {
        let mats = self.operands_and_result(m, inst);
        let bits = inst.matrix_operands();
        saturates(inst) && mats.is_some_and(|mats| !self.device_saturates(mats, bits))
    }

    /// The matrices that an instruction multiplies and adds, and that of the result.
    fn operands_and_result(&self, m: &Module, inst: &Inst) -> Option<[Mat; 4]> {
        let operand = |at: usize| self.mat_of(m, inst.id(at)?);
        Some([operand(0)?, operand(1)?, operand(2)?, *self.analysis.mats.get(&inst.ty?)?])
    }

    /// Returns true if the device has a product of tiles like these that saturates.
    fn device_saturates(&self, mats: [Mat; 4], bits: Bits) -> bool {
        let profile = self.cx.options.profile.filter(|_| mats[3].elem.scalar.is_int());
        profile.is_some_and(|p| products(p, mats, Some(bits)).any(|p| p.saturating))
    }
}

fn saturates(inst: &Inst) -> bool {
    inst.matrix_operands().contains(Bits::SaturatingAccumulationKHR)
}

fn check(r: InstRef, [a, b, c, d]: [Mat; 4]) -> Result<(), Refusal> {
    let uses = [a, b, c, d].map(|m| m.shape.use_) == [Use::A, Use::B, Use::Accumulator, Use::Accumulator];
    let fits = uses
        && a.shape.rows == d.shape.rows
        && b.shape.cols == d.shape.cols
        && a.shape.cols == b.shape.rows
        && c.shape == d.shape
        && (a.rows(), a.cols(), b.cols()) == (d.rows(), b.rows(), d.cols())
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
    let pointer = b.globals.pointer(b.module, StorageClass::Function, d.elem.ty);
    b.count(Index::Const(0), Index::Value(length), Index::Const(1), Unroll::No, &mut |b, i| {
        let i = b.index(i);
        let [to, from] = [to, from].map(|v| b.ids(Op::AccessChain, pointer, &[v, i]));
        let [x, y] = [to, from].map(|p| b.ids(Op::Load, d.elem.ty, &[p]));
        let value = saturated_sum(b, d.elem.ty, d.elem.scalar, x, y, signed);
        b.effect(Op::Store, [to, value].map(Operand::Id));
    });
    slot.op(b, Op::Load, d.tile, [to.into()])
}
