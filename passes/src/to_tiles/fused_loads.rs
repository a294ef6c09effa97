//! Loads factors where they are multiplied.
//!
//! A matrix of workgroup scope is never held if it is loaded for one product, in the same block, and no instruction between
//! the two can change that memory. The product is computed in *slices* of K: all invocations of the workgroup stage a slice
//! of each such factor in one staging buffer, so that each element is read from memory once, however many subgroups need it.
//! Each subgroup then loads the tiles of one step of K at a time, right before it multiplies them. A factor that can be
//! loaded tile by tile from its own memory (a plain load, usually from shared memory) needs no staging buffer and is loaded
//! at each step as well.
//!
//! Lines of staging buffers are padded by a quad, so that the lines of a tile are in different banks.

use super::Tiles;
use super::memory::{Memory, TilePosition};
use super::shape::Mat;
use super::staging::{Layout, StagingBuffer};
use crate::Refusal;
use crate::matrix::affine::Affine;
use crate::matrix::arena::{QUAD, Zone};
use crate::matrix::callback::writes_or_waits;
use crate::matrix::placement::Use;
use crate::tensor::Access;
use coop_ir::builder::{FunctionBuilder, Index};
use coop_ir::hash::{FxHashMap, FxHashSet};
use coop_ir::{Function, Id, InstRef, Module, Op, Operand};

/// The source of the tiles of a factor.
pub(super) enum Factor {
    /// The tiles are values.
    Held(Vec<Id>),
    /// A staging buffer, which is filled by an access.
    StagingBuffer { access: Box<Access>, staging: StagingBuffer },
    /// Memory.
    Memory(Box<Memory>),
}

/// The plan of a product.
pub(super) struct Slices {
    pub(super) left: Factor,
    pub(super) right: Factor,
    /// Steps of K in a slice.
    pub(super) steps: u32,
}

/// The plan that stages the factors of a product.
pub(super) struct SlicePlan {
    pub(super) steps: u32,
    /// The loads of the left and the right one, and the part of them that is in a staging buffer at a time.
    pub(super) factors: [Option<(Access, Layout)>; 2],
}

/// The loads of a function that are left to the products that use them, by the id of what they load.
pub(super) fn deferred(
    m: &Module,
    function: &Function,
    mats: &FxHashMap<Id, Mat>,
    accesses: &FxHashMap<InstRef, Access>,
    uses: &FxHashMap<Id, u32>,
) -> FxHashMap<Id, InstRef> {
    let mut out = FxHashMap::default();
    for block in &function.blocks {
        let mut open: FxHashMap<Id, InstRef> = FxHashMap::default();
        for r in block.insts.iter().copied() {
            let inst = m.inst(r);
            let loads = match inst.op {
                Op::CooperativeMatrixLoadTensorNV => accesses.get(&r).is_some_and(|a| !a.clips),
                Op::CooperativeMatrixLoadKHR => true,
                _ => false,
            };
            if loads {
                let mat = inst.ty.and_then(|t| mats.get(&t));
                let factor = mat.is_some_and(|m| m.workgroup && m.shape.use_ != Use::Accumulator);
                if let Some(id) = inst.result.filter(|id| factor && uses.get(id) == Some(&1)) {
                    open.insert(id, r);
                }
            } else if inst.op == Op::CooperativeMatrixMulAddKHR {
                for id in inst.ids().take(2) {
                    out.extend(open.remove_entry(&id));
                }
            } else if writes_or_waits(m, inst) {
                open.clear();
            }
        }
    }
    out
}

/// The number of uses of each value by instructions; names and debug information don't count.
pub(super) fn uses(m: &Module) -> FxHashMap<Id, u32> {
    let mut out: FxHashMap<Id, u32> = FxHashMap::default();
    for r in m.functions.iter().flat_map(|f| f.blocks.iter().flat_map(|b| b.insts.iter())) {
        let i = m.inst(*r);
        if i.op != Op::ExtInst {
            i.ids().for_each(|id| *out.entry(id).or_default() += 1);
        }
    }
    out
}

impl Slices {
    /// Returns true if tiles can be loaded at a step that is not known.
    pub(super) fn can_loop(&self) -> bool {
        [&self.left, &self.right].iter().all(|f| !matches!(f, Factor::Held(_)))
    }
}

impl Tiles<'_, '_> {
    /// Chooses how the factors of a product are staged: in how many steps of K at a time, and what goes through staging buffers.
    pub(super) fn plan_slices(&self, (x, a): (Id, Mat), (y, bm): (Id, Mat)) -> SlicePlan {
        let zone = Zone::of_scope(a.workgroup);
        let from_tensor = |id: Id| self.analysis.accesses.get(self.function.deferred.get(&id)?).cloned();
        let accesses = [(from_tensor(x), a), (from_tensor(y), bm)];
        let total = a.cols();
        let layout = |(access, mat): &(Option<Access>, Mat), steps: u32| {
            let access = access.as_ref()?;
            let (rows, cols) = match mat.shape.use_ {
                Use::A => (mat.shape.rows.next_multiple_of(mat.tile_rows), steps * mat.tile_cols),
                _ => (steps * mat.tile_rows, mat.shape.cols.next_multiple_of(mat.tile_cols)),
            };
            Some(Layout::new(mat.elem, (rows, cols), (mat.tile_rows, mat.tile_cols), access.runs_down, 1))
        };
        let bytes = |steps: u32| -> u32 {
            let layouts = accesses.iter().filter_map(|a| layout(a, steps));
            layouts.fold(0u32, |n, l| n.saturating_add(l.quads().saturating_mul(QUAD)))
        };
        let room = self.arena.room(zone);
        let divides = |n: &u32| total.is_multiple_of(*n);
        let steps = (1..=total).rev().filter(divides).find(|n| bytes(*n) <= room).unwrap_or(1);
        let factors = accesses.map(|a| {
            let layout = layout(&a, steps)?;
            Some((a.0?, layout))
        });
        SlicePlan { steps, factors }
    }

    /// The factors of a product, and in how many slices it goes. What staging buffers need is taken from the arena.
    pub(super) fn slices(
        &mut self,
        b: &mut FunctionBuilder<'_>,
        r: InstRef,
        (x, a): (Id, Mat),
        (y, bm): (Id, Mat),
    ) -> Result<Slices, Refusal> {
        let SlicePlan { steps, factors: [left, right] } = self.plan_slices((x, a), (y, bm));
        let left = self.factor(b, r, (x, a), left)?;
        let right = self.factor(b, r, (y, bm), right)?;
        Ok(Slices { left, right, steps })
    }

    fn factor(
        &mut self,
        b: &mut FunctionBuilder<'_>,
        r: InstRef,
        (id, mat): (Id, Mat),
        plan: Option<(Access, Layout)>,
    ) -> Result<Factor, Refusal> {
        if let Some((access, layout)) = plan {
            let bytes = layout.quads().saturating_mul(QUAD);
            let region = self.arena.take(r, "a product of matrices", Zone::of_scope(mat.workgroup), bytes)?;
            let staging = StagingBuffer { layout, region, each: 0 };
            return Ok(Factor::StagingBuffer { access: Box::new(access), staging });
        }
        if let Some((load, inst)) =
            self.function.deferred.get(&id).and_then(|load| Some((*load, self.function.loads.get(load)?.clone())))
        {
            return Ok(Factor::Memory(Box::new(self.memory_of_load(b, load, &inst)?)));
        }
        Ok(Factor::Held(self.tiles_of(b.module, r, id)?.1))
    }

    /// Fills the staging buffers with the slice of K that begins with step `first`, and fetches the next: of this product, whose
    /// quads `ahead` has at its next slice, or of the next product.
    pub(super) fn stage_slice(
        &mut self,
        b: &mut FunctionBuilder<'_>,
        r: InstRef,
        slices: &Slices,
        mats: (Mat, Mat),
        (first, ahead): (u32, &mut [Option<Vec<Id>>; 2]),
    ) {
        let zone = Zone::of_scope(mats.0.workgroup);
        let begins = |mat: Mat, first: u32| match mat.shape.use_ {
            Use::A => (0, first * mat.tile_cols),
            _ => (first * mat.tile_rows, 0),
        };
        let staged = [(&slices.left, mats.0), (&slices.right, mats.1)].map(|(factor, mat)| match factor {
            Factor::StagingBuffer { access, staging } => Some((access, mat, *staging)),
            _ => None,
        });
        if staged.iter().all(Option::is_none) {
            return;
        }
        // Loads are on their way before anybody waits: of both factors, and while others still read the last slice.
        let mut quads = if first == 0 { self.take_fetched(b, r, slices) } else { std::mem::take(ahead) };
        for (factor, quads) in staged.iter().zip(&mut quads).filter(|(_, quads)| quads.is_none()) {
            let Some((access, mat, staging)) = factor else { continue };
            *quads = self.fetch_slice(b, (access, *mat, staging.layout), begins(*mat, first));
        }
        self.arena.barrier(b, zone);
        for (factor, quads) in staged.iter().zip(&quads) {
            let (Some((access, mat, staging)), None) = (factor, quads) else { continue };
            let function = self.fill(b, access, *mat, *staging);
            let (row, col) = begins(*mat, first);
            super::tensor::call(b, function, &access.args, Index::Const(row), Index::Const(col));
        }
        for (factor, quads) in staged.iter().zip(&quads) {
            if let Some(((_, _, staging), quads)) = factor.as_ref().zip(quads.as_ref()) {
                self.put_words(b, *staging, quads);
            }
        }
        self.arena.barrier(b, zone);
        let next = first + slices.steps;
        if next == mats.0.cols() {
            return self.fetch_next(b, r);
        }
        // Between the slices of a factor that is decoded there are no registers for the other one: on an H200 that takes products of
        // 128 x 256 tiles with mxfp4 from 158 to 54 TFLOP/s. Its first slice alone helps: on an H100, from 155 to 170.
        if staged.iter().flatten().any(|(access, ..)| access.decodes()) {
            return;
        }
        for (factor, quads) in staged.iter().zip(ahead) {
            let Some((access, mat, staging)) = factor else { continue };
            *quads = self.fetch_slice(b, (access, *mat, staging.layout), begins(*mat, next));
        }
    }

    /// The tile of a factor at row (or column) of tiles `line` of those that the subgroup holds, and step `k` of the
    /// slice that begins with step `first` of K.
    pub(super) fn factor_tile(
        &mut self,
        b: &mut FunctionBuilder<'_>,
        r: InstRef,
        factor: &Factor,
        mat: Mat,
        (line, k, first): (u32, Index, u32),
    ) -> Result<Id, Refusal> {
        let left = mat.shape.use_ == Use::A;
        let step = if left { mat.tile_cols } else { mat.tile_rows };
        match factor {
            Factor::Held(parts) => match k {
                Index::Const(k) => {
                    let k = first + k;
                    Ok(parts[if left { mat.at(line, k) } else { mat.at(k, line) }])
                }
                Index::Value(_) => unreachable!("a step that is not known is of factors that are nowhere held"),
            },
            Factor::StagingBuffer { staging, .. } => {
                let position = self.position(b, mat, line);
                let along = Affine::scaled(k, step);
                let begin = staging.begin(b, &mut self.arena, Index::Const(0));
                let place = if left { (&position, &along) } else { (&along, &position) };
                let operands = staging.load_operands(b, &mut self.arena, begin, place);
                Ok(b.op(Op::CooperativeMatrixLoadKHR, mat.tile, operands))
            }
            Factor::Memory(memory) => {
                let along = Affine::scaled(k, step).plus(&Affine::constant(first * step));
                let position = self.position(b, mat, line);
                let (row, col) = if left { (position, along) } else { (along, position) };
                let position = TilePosition { index: 0, row, col, inside: None };
                let (pointer, operands) = self.tile_in_memory(b, r, memory, mat, &position)?;
                let fixed = [pointer, memory.layout, memory.stride].map(Operand::Id);
                Ok(b.op(Op::CooperativeMatrixLoadKHR, mat.tile, fixed.into_iter().chain(operands)))
            }
        }
    }

    /// The row of A (the column of B) at which a line of tiles of the subgroup begins.
    fn position(&self, b: &mut FunctionBuilder<'_>, mat: Mat, line: u32) -> Affine {
        let (row, col) = self.function.group.unwrap_or((Index::Const(0), Index::Const(0)));
        let (split, group, tile) = match mat.shape.use_ {
            Use::A => (mat.placement.rows, row, mat.tile_rows),
            _ => (mat.placement.cols, col, mat.tile_cols),
        };
        split.position(b, group, Index::Const(line)).0.times(tile)
    }

    /// Forgets names of loads that are no more.
    pub(super) fn forget_deferred(&self, m: &mut Module) {
        let gone: FxHashSet<Id> = self.gone.iter().copied().collect();
        crate::ssa::remove_annotations(m, &gone);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::callback::{self, has_effects};

    /// Returns whether an instruction of a function is taken to write: here, where scalar code defers loads, and of the
    /// function.
    fn taken_to_write(line: &str) -> [bool; 3] {
        let source = format!(
            "%glsl = OpExtInstImport \"GLSL.std.450\"
             %ocl = OpExtInstImport \"OpenCL.std\"
             %void = OpTypeVoid
             %float = OpTypeFloat 32
             %own = OpTypePointer Function %float
             %shared = OpTypePointer Workgroup %float
             %s = OpVariable %shared Workgroup
             %x = OpConstant %float 1
             %fn = OpTypeFunction %void
             %main = OpFunction %void None %fn
             %entry = OpLabel
             %v = OpVariable %own Function
             {line}
             OpReturn
             OpFunctionEnd"
        );
        let m = coop_ir::text::parse(&source).expect("it is text");
        let function = &m.functions[0];
        let inst = m.inst(function.blocks[0].insts[1]);
        let id = m.inst(function.def).result.expect("it has an id");
        [writes_or_waits(&m, inst), callback::may_write(&m, inst.op, inst), has_effects(&m, id)]
    }

    #[test]
    fn extended_instructions_write_through_pointers() {
        for line in [
            "%r = OpExtInst %float %glsl Modf %x %s",
            "%r = OpExtInst %float %ocl fract %x %s",
            "%r = OpExtInst %float %ocl sincos %x %s",
            "OpStore %s %x",
        ] {
            assert_eq!(taken_to_write(line), [true; 3], "{line}");
        }
        for line in [
            "%r = OpExtInst %float %glsl Modf %x %v",
            "%r = OpExtInst %float %ocl remainder %x %x",
            "%r = OpExtInst %float %glsl FMax %x %x",
            "OpStore %v %x",
            "%r = OpFAdd %float %x %x",
        ] {
            assert_eq!(taken_to_write(line), [false; 3], "{line}");
        }
    }
}
