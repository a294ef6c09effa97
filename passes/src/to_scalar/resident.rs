//! Keeps factors in shared memory: a load that several products use, or one in a loop, is staged once, in the layout that
//! the products need, and lanes hold none of it. Factors stay resident only if they are widened: with conversions at each `k`
//! an H100 loses more time (17 % of a product of f16) than with staging the held elements again.

use super::Lower;
use super::arith::MulAdd;
use super::fetch::fetched;
use super::product::Resident;
use super::staged_factor::{Factor, StagedFactor};
use crate::Refusal;
use crate::matrix::arena::Elem;
use coop_ir::builder::FunctionBuilder;
use coop_ir::rewrite::insert_before;
use coop_ir::spv::CooperativeMatrixOperands as Bits;
use coop_ir::types::Scalar;
use coop_ir::{Id, Inst, InstRef, Op, Operand};

/// Bytes of shared memory that such a factor takes at most, so that several workgroups can be resident.
const MOST_BYTES: u32 = 36 << 10;

impl Lower<'_, '_> {
    /// Lets the result of a load stay in shared memory, if it can: whether it does.
    pub(super) fn make_resident(&mut self, r: InstRef) -> Result<bool, Refusal> {
        let inst = self.m.inst(r);
        let (Some(id), Some(ty), origin) = (inst.result, inst.ty, inst.origin) else { return Ok(false) };
        let Some((is_a, sums)) = self.settled.remove(&id) else { return Ok(false) };
        let (Some(mat), Some(d)) = (self.mats.get(&ty).copied(), self.mats.get(&sums).copied()) else {
            return Ok(false);
        };
        let float = Scalar::Float { width: 32 };
        if !mat.scalar.is_float() || mat.scalar.width() > 32 || d.scalar != float {
            return Ok(false);
        }
        let zone = self.zone(r, true)?;
        let room = MOST_BYTES.min(self.arena.room_for_residents(zone) / 2);
        let wide = Elem { scalar: float, ty: self.g.scalar(self.m, float) };
        let (tile, depth) = if is_a {
            (d.placement.rows, mat.placement.shape.cols)
        } else {
            (d.placement.cols, mat.placement.shape.rows)
        };
        let mut factor = Factor::new(mat, (is_a, false, false), tile.piece, depth, wide);
        if factor.k_along || !factor.can_wait() || factor.bytes() > room {
            return Ok(false);
        }
        factor.resident = true;
        self.deferred.insert(id);
        self.inst(r)?;
        // What does not wait was loaded as any other.
        if !self.left.contains_key(&id) {
            return Ok(true);
        }
        let source = self.source(id);
        let Some(fetch) = self.fetch(factor, &source) else { unreachable!("it was asked whether it can wait") };
        let (mut key, args) = self.source_key(&source);
        let types: Vec<Id> = args.iter().filter_map(|a| self.m.type_of(*a)).collect();
        let at = self.arena.take_resident(r, "a factor of products", zone, factor.bytes())?;
        let void = self.g.void(self.m);
        let done = self.m.fresh_id();
        let call = Inst::new(Op::Undef, Some(void), Some(done), []).at(origin);
        let Some(call) = insert_before(self.m, r, call) else { return Ok(false) };
        key.types.extend([ty, factor.elem.ty]);
        key.extra.extend([at.key(), factor.pitch].map(Operand::Word));
        key.op = Op::CopyMemory;
        // It is of floats: no signs matter.
        let mul = MulAdd { a: mat, b: mat, c: d, d, bits: Bits::None, pairs: false };
        self.call(call, key, &args, &mut |this| {
            let label = format!("coop_settle_{}", mat.label());
            let mut f = FunctionBuilder::new(this.m, &mut this.g, &label, void, &types);
            let b = &mut f;
            let (arena, lanes) = (&mut this.arena, &mut this.lanes);
            let lane = lanes.lane(b, true);
            let staged = StagedFactor { factor, begin: lanes.begin(b, arena, at) };
            let mut inputs: Vec<Id> =
                [fetch.function].into_iter().chain((0..types.len()).map(|n| b.param(n))).collect();
            inputs.push(b.u32(0));
            let value = b.ids(Op::FunctionCall, fetch.ret, &inputs);
            arena.barrier(b, zone);
            fetched(b, arena, &fetch, &staged, mul, lane, value);
            arena.barrier(b, zone);
            Ok(f.finish(None))
        })?;
        self.residents.insert(id, Resident { factor, at });
        Ok(true)
    }
}
