//! Divides K among groups of lanes (split K within a workgroup), where a workgroup has many lanes for a small accumulator.
//!
//! A lane with few sums reads from shared memory almost as much as it multiplies: of 256 lanes, each has a tile of 2 x 4 of an accumulator
//! of 32 x 64, and reads six elements for eight products. In four groups of 64 lanes each lane has a tile of 4 x 8, and reads twelve
//! elements for 32 products, of a quarter of each slice of K; in eight groups of 32 lanes, a tile of 8 x 8.
//!
//! Accumulators of loops get a type of their own for that, of the same shape: a *partial accumulator*.
//!
//! # Invariants
//!
//! 1. Element (r, c) of the matrix is the sum of the elements (r, c) that the groups hold of the partial accumulator.
//! 2. So it begins as 0 in every group, and nothing but products adds to it. What else reads it reads that sum, which is taken in front.
//! 3. The sum goes through shared memory, with barriers: it stands in blocks that are executed when another block is that has an instruction
//!    which the specification allows in uniform control flow of the workgroup alone.
//! 4. A slice of K has as many `k` for each group, so that each `k` is multiplied once.

use super::exchange::StagedTransfer;
use super::register_tile::IN_REGISTERS;
use super::{Key, Lower, Mat};
use crate::Refusal;
use crate::matrix::affine::Affine;
use crate::matrix::lanes::LaneSource;
use crate::matrix::logical::logical;
use crate::matrix::placement::{Shape, Use, tile};
use crate::matrix::position::LanePosition;
use crate::matrix::row_uniform::is_splat;
use coop_ir::builder::{FunctionBuilder, Globals, Index};
use coop_ir::cfg::{Cfg, Loops, PostDoms};
use coop_ir::constant::Constants;
use coop_ir::hash::{FxHashMap, FxHashSet};
use coop_ir::rewrite::insert_before;
use coop_ir::spv::CooperativeMatrixOperands as Bits;
use coop_ir::spv::Scope;
use coop_ir::types::{self, Scalar};
use coop_ir::uses::Users;
use coop_ir::{Function, Id, Inst, InstRef, Module, Op, Operand};
use std::collections::BTreeMap;

/// Sums of a lane at most where K is not divided: with 16 of them, convolutions of 64 x 32 with 128 lanes had 20.3 TFLOP/s for 22.2 on an H100,
/// and 21.9 for 20.5.
const FEW_SUMS: u32 = 8;

/// Sums of a lane at most where it is: products of q8_0 at 4096 x 64 x 14336 had 19.8 TFLOP/s with 64 and 18.5 with 32.
const MOST_SUMS: u32 = 64;

// Sums that are added up in memory have no parts.
const _: () = assert!(MOST_SUMS <= IN_REGISTERS);

/// Lanes of a group at least: on most devices those run together.
const LEAST_LANES: u32 = 32;

/// `k` of a product for each group at least.
const LEAST_K: u32 = 8;

/// The groups of lanes among which K, a multiple of `k`, is divided for an accumulator of workgroup scope; 1 where it is not.
fn parts(shape: Shape, lanes: u32, k: u32) -> u32 {
    let suits = |parts: &u32| {
        let of_group = lanes / parts;
        let placement = tile(of_group, shape, (1, 1), false);
        lanes.is_multiple_of(*parts)
            && k.is_multiple_of(parts * LEAST_K)
            && of_group.is_multiple_of(LEAST_LANES)
            && placement.len() <= MOST_SUMS
            && !placement.copies()
    };
    if tile(lanes, shape, (1, 1), false).len() > FEW_SUMS {
        return 1;
    }
    [8, 4, 2].into_iter().find(suits).unwrap_or(1)
}

/// The accumulators that may be divided.
pub(super) struct Accumulators<'a> {
    constants: &'a Constants,
    /// Their types, and among how many groups each is divided.
    types: FxHashMap<Id, u32>,
}

/// Products that add to each other, in loops.
struct Chain {
    /// The products, and the phis between them.
    members: Vec<InstRef>,
    /// The other instructions that read them, by block.
    readers: BTreeMap<usize, Vec<InstRef>>,
}

/// Gives the accumulators of loops types of partial accumulators. Returns those types, with the groups of lanes of each.
pub(super) fn run(m: &mut Module, g: &mut Globals, accumulators: &Accumulators<'_>) -> FxHashMap<Id, u32> {
    let mut out = FxHashMap::default();
    let mut partial: FxHashMap<Id, Id> = FxHashMap::default();
    for f in 0..m.functions.len() {
        for (ty, chain) in accumulators.chains(m, f) {
            let new = *partial.entry(ty).or_insert_with(|| copy_of(m, ty));
            out.extend(accumulators.types.get(&ty).map(|parts| (new, *parts)));
            chain.rewrite(m, g, f, ty, new);
        }
    }
    out
}

/// A type like another one.
fn copy_of(m: &mut Module, ty: Id) -> Id {
    let id = m.fresh_id();
    if let Some(like) = m.def_inst(ty) {
        let new = Inst { result: Some(id), ..like.clone() };
        let r = m.add(new);
        m.globals.push(r);
    }
    id
}

impl<'a> Accumulators<'a> {
    /// Those of a module whose workgroups have `lanes` invocations.
    pub(super) fn new(m: &Module, constants: &'a Constants, lanes: u32) -> Result<Accumulators<'a>, Refusal> {
        let all = logical(m, constants)?;
        let columns: FxHashMap<Id, u32> = all.iter().map(|l| (l.ty.id, l.shape.cols)).collect();
        // The largest power of two of which the K of every product of a type is a multiple.
        let mut multiples: FxHashMap<Id, u32> = FxHashMap::default();
        for inst in m.all().map(|r| m.inst(r)).filter(|i| i.op == Op::CooperativeMatrixMulAddKHR) {
            let k = inst.ids().next().and_then(|a| columns.get(&m.type_of(a)?));
            if let (Some(ty), Some(k)) = (inst.ty, k) {
                let multiple = multiples.entry(ty).or_insert(u32::MAX);
                *multiple = (*multiple).min(1 << k.trailing_zeros());
            }
        }
        let divided = all.iter().filter(|l| l.workgroup && l.shape.use_ == Use::Accumulator);
        let types = divided.filter_map(|l| Some((l.ty.id, parts(l.shape, lanes, *multiples.get(&l.ty.id)?))));
        Ok(Accumulators { constants, types: types.filter(|(_, parts)| *parts > 1).collect() })
    }

    /// Returns true for the type of an accumulator that may be divided.
    pub(super) fn has(&self, ty: Id) -> bool {
        self.types.contains_key(&ty)
    }

    /// The chains of a function, with the type of their accumulators.
    fn chains(&self, m: &Module, f: usize) -> Vec<(Id, Chain)> {
        let function = &m.functions[f];
        let starts: Vec<InstRef> = function.insts().filter(|r| self.is_product(m, *r)).collect();
        if starts.is_empty() {
            return Vec::new();
        }
        let cfg = Cfg::new(m, function);
        let (loops, post) = (Loops::new(&cfg), PostDoms::new(&cfg));
        let (users, block_of) = (Users::new(m), blocks_by_inst(function));
        let communicates = |b: &usize| function.blocks[*b].insts.iter().any(|r| self.communicates(m, *r));
        let meetings: Vec<usize> = (0..function.blocks.len()).filter(communicates).collect();
        // What the whole workgroup executes together before or behind a block, as often as the block.
        let is_uniform = |block: &usize| {
            meetings.iter().any(|other| {
                let (x, y) = if cfg.dominates(*block, *other) { (*block, *other) } else { (*other, *block) };
                cfg.dominates(x, y) && post.postdominates(y, x) && loops.innermost(x) == loops.innermost(y)
            })
        };
        let mut seen: FxHashSet<InstRef> = FxHashSet::default();
        let mut out = Vec::new();
        for start in starts {
            if seen.contains(&start) {
                continue;
            }
            let Some(ty) = m.inst(start).ty else { continue };
            let Some(chain) = self.chain(m, ty, start, (&users, &block_of)) else { continue };
            seen.extend(&chain.members);
            // The sum over groups is taken once for many products: they add up in a loop, and nothing reads them there.
            let of_loop = |r: &InstRef| block_of.get(r).and_then(|b| loops.innermost(*b));
            let around: FxHashSet<usize> =
                chain.members.iter().filter(|r| self.is_product(m, **r)).filter_map(of_loop).collect();
            let adds_up = !around.is_empty() && chain.members.iter().any(|r| m.inst(*r).op == Op::Phi);
            let outside = |block: &usize| !around.iter().any(|l| loops.contains(*l, *block));
            if adds_up && chain.readers.keys().all(|block| outside(block) && is_uniform(block)) {
                out.push((ty, chain));
            }
        }
        out
    }

    /// The chain of a product; `None` where something else adds to it, or it begins with something else than 0.
    fn chain(
        &self,
        m: &Module,
        ty: Id,
        start: InstRef,
        (users, block_of): (&Users, &FxHashMap<InstRef, usize>),
    ) -> Option<Chain> {
        let mut seen = FxHashSet::from_iter([start]);
        let mut chain = Chain { members: Vec::new(), readers: BTreeMap::new() };
        let mut todo = vec![start];
        while let Some(r) = todo.pop() {
            chain.members.push(r);
            let inst = m.inst(r);
            for before in sums(inst) {
                if self.is_zero(m, before) {
                    continue;
                }
                let def = m.def(before).filter(|r| self.is_member(m, ty, *r) && block_of.contains_key(r))?;
                if seen.insert(def) {
                    todo.push(def);
                }
            }
            let result = inst.result?;
            for user in users.beyond_notes(m, result) {
                if self.is_member(m, ty, user) && sums(m.inst(user)).any(|id| id == result) {
                    if seen.insert(user) {
                        todo.push(user);
                    }
                    continue;
                }
                if m.inst(user).op == Op::Phi {
                    return None;
                }
                let readers = chain.readers.entry(*block_of.get(&user)?).or_default();
                if !readers.contains(&user) {
                    readers.push(user);
                }
            }
        }
        Some(chain)
    }

    fn is_member(&self, m: &Module, ty: Id, r: InstRef) -> bool {
        let inst = m.inst(r);
        inst.ty == Some(ty) && (inst.op == Op::Phi || self.is_product(m, r))
    }

    /// Returns true for a product whose sums may be partial.
    pub(super) fn is_product(&self, m: &Module, r: InstRef) -> bool {
        let inst = m.inst(r);
        let (Op::CooperativeMatrixMulAddKHR, Some(ty)) = (inst.op, inst.ty) else { return false };
        let saturates = inst.matrix_operands().contains(Bits::SaturatingAccumulationKHR);
        self.has(ty) && !saturates && sums(inst).next().is_some_and(|c| m.type_of(c) == Some(ty))
    }

    /// Returns true for a product whose sums may be partial, and that adds to a value.
    pub(super) fn adds_to(&self, m: &Module, r: InstRef, value: Option<Id>) -> bool {
        self.is_product(m, r) && value.is_some() && sums(m.inst(r)).next() == value
    }

    /// Returns true for a matrix of zeros.
    pub(super) fn is_zero(&self, m: &Module, id: Id) -> bool {
        let number = |id: Id| m.def_inst(id).and_then(|inst| inst.ids().next());
        is_splat(m, id) && number(id).is_none_or(|v| self.constants.get(v).fixed() == Some(0))
    }

    /// Returns true for an instruction that the specification allows in uniform control flow of the workgroup alone.
    fn communicates(&self, m: &Module, r: InstRef) -> bool {
        let inst = m.inst(r);
        let op = inst.op;
        let together =
            op.is_matrix_access() || matches!(op, Op::CooperativeMatrixMulAddKHR | Op::CooperativeMatrixReduceNV);
        let mut types = inst.ty.into_iter().chain(inst.ids().filter_map(|id| m.type_of(id)));
        together && types.any(|ty| self.is_of_workgroup(m, ty))
    }

    fn is_of_workgroup(&self, m: &Module, ty: Id) -> bool {
        let scope = types::coop_mat(m, ty).map(|t| t.view(m, self.constants).scope);
        scope.is_some_and(|scope| scope.fixed_as() == Some(Scope::Workgroup))
    }
}

/// The block of each instruction of a function.
pub(super) fn blocks_by_inst(function: &Function) -> FxHashMap<InstRef, usize> {
    let blocks = function.blocks.iter().enumerate();
    blocks.flat_map(|(n, block)| block.insts.iter().map(move |r| (*r, n))).collect()
}

/// The accumulators that an instruction of a chain takes.
fn sums(inst: &Inst) -> impl Iterator<Item = Id> + '_ {
    let product = inst.op == Op::CooperativeMatrixMulAddKHR;
    let of_phi = inst.incoming().filter(move |_| !product).map(|(value, _)| value);
    of_phi.chain(inst.ids().nth(2).filter(move |_| product))
}

impl Chain {
    /// Gives the members the type `new` for `ty`, and their readers the sum over the groups.
    fn rewrite(self, m: &mut Module, g: &mut Globals, f: usize, ty: Id, new: Id) {
        let zero = g.null(m, new);
        let members: FxHashSet<Id> = self.members.iter().filter_map(|r| m.inst(*r).result).collect();
        for r in &self.members {
            let mut inst = m.inst(*r).clone();
            inst.ty = Some(new);
            let places: Vec<usize> = match inst.op {
                Op::Phi => (0..inst.operands.len()).step_by(2).collect(),
                _ => vec![2],
            };
            for n in places {
                if let Some(Operand::Id(id)) = inst.operands.get(n).copied()
                    && !members.contains(&id)
                {
                    inst.operands[n] = zero.into();
                }
            }
            m.replace(*r, inst);
        }
        for (block, readers) in self.readers {
            let mut summed: FxHashMap<Id, Id> = FxHashMap::default();
            let in_order: Vec<InstRef> =
                m.functions[f].blocks[block].insts.iter().copied().filter(|r| readers.contains(r)).collect();
            for r in in_order {
                let mut inst = m.inst(r).clone();
                for operand in &mut inst.operands {
                    let Operand::Id(id) = *operand else { continue };
                    if !members.contains(&id) {
                        continue;
                    }
                    let sum = summed.entry(id).or_insert_with(|| {
                        let sum = m.fresh_id();
                        let whole = Inst::new(Op::CooperativeMatrixConvertNV, Some(ty), Some(sum), [id.into()]);
                        insert_before(m, r, whole.at(m.inst(r).origin));
                        sum
                    });
                    *operand = (*sum).into();
                }
                m.replace(r, inst);
            }
        }
    }
}

impl Mat {
    /// The position of the lane, in its group of those among which K is divided, and the group.
    pub(super) fn lane_position(&self, b: &mut FunctionBuilder<'_>, lanes: &mut LaneSource) -> (LanePosition, Index) {
        let lane = lanes.lane(b, self.workgroup);
        if self.parts == 1 {
            return (LanePosition::of_lane(b, self.placement, lane), Index::Const(0));
        }
        let of_group = self.placement.grid.lanes();
        let in_group = b.rem(lane, of_group);
        (LanePosition::of_lane(b, self.placement, in_group), b.div(lane, of_group))
    }
}

impl Lower<'_, '_> {
    /// Replaces a conversion by the sum over the groups of a partial accumulator.
    pub(super) fn sum_parts(&mut self, r: InstRef, from: Mat, to: Mat, value: Id) -> Result<(), Refusal> {
        let key = Key { op: Op::CooperativeMatrixConvertNV, types: vec![to.ty, from.ty], extra: vec![] };
        self.approximates(
            "MulAdd of small accumulators divides K among groups of lanes, whose sums are added at the end",
        );
        self.call(r, key, &[value], &mut |this| {
            let label = format!("coop_sum_{}_parts_{}", from.parts, to.label());
            let transfer = StagedTransfer { label: &label, from, to, elem: from.element(), step: 1 };
            let width = to.placement.shape.cols;
            let sum = match from.scalar {
                Scalar::Float { width: 64 } => from.scalar,
                scalar if scalar.is_float() => Scalar::Float { width: 32 },
                scalar => scalar,
            };
            let stay = |row: Affine, col: Affine| (row, col);
            this.pass(r, &transfer, &|_, value| value, &stay, &|b, arena, buffer, place| {
                let ty = b.globals.scalar(b.module, sum);
                let (add, convert) = if sum.is_int() { (Op::IAdd, Op::Bitcast) } else { (Op::FAdd, Op::FConvert) };
                let mut total = None;
                for n in 0..from.parts {
                    let place = b.add(place, Index::Const(n * width));
                    let mut part = buffer.get(b, arena, place);
                    if ty != from.elem {
                        part = b.ids(convert, ty, &[part]);
                    }
                    total = Some(total.map_or(part, |total| b.ids(add, ty, &[total, part])));
                }
                let total = total.unwrap_or_else(|| unreachable!("there are at least two groups"));
                if ty == to.elem { total } else { b.ids(convert, to.elem, &[total]) }
            })
        })
    }
}
