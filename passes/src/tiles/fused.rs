//! Factors that are loaded where they are multiplied.
//!
//! A matrix of workgroup scope that is loaded for one product, in the same block and with nothing between that could
//! change what is in memory, is never held. The product goes in *slices* of K: all invocations of the workgroup
//! together bring a slice of each such factor into one sheet (so each element is read from memory once, however many
//! subgroups need it), and each subgroup then loads the tiles of one step of K at a time, right before it multiplies
//! them. A factor that is loaded tile by tile from where it is (a plain load, from shared memory as a rule) needs no
//! sheet and is loaded at each step as well.
//!
//! Lines of sheets are a quad longer than they have to be, so that the lines of a tile are in different banks.

use super::Tiles;
use super::memory::{Memory, Spot};
use super::shape::Mat;
use super::sheet::{Layout, Sheet};
use crate::Refusal;
use crate::arena::{QUAD, Zone};
use crate::placement::Use;
use crate::scalar::callback::has_effects;
use crate::scalar::lin::Lin;
use crate::tensor::Access;
use coop_ir::builder::{FunctionBuilder, Index};
use coop_ir::types::Type;
use coop_ir::{Function, Id, Inst, InstRef, Module, Op, Operand};
use rustc_hash::{FxHashMap, FxHashSet};
use spirv::StorageClass;

/// Where the tiles of a factor come from.
pub(super) enum Factor {
    /// They are values.
    Held(Vec<Id>),
    /// Sheets, which a function fills from a row and a column on.
    Sheet { access: Box<Access>, sheet: Sheet, function: Id },
    /// Memory.
    Memory { memory: Box<Memory>, spots: Vec<Spot> },
}

/// How a product goes.
pub(super) struct Slices {
    pub(super) left: Factor,
    pub(super) right: Factor,
    /// Steps of K in a slice.
    pub(super) steps: u32,
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
            } else if writes(m, inst) {
                open.clear();
            }
        }
    }
    out
}

/// Whether an instruction may change memory that a load reads, or wait for others to.
fn writes(m: &Module, inst: &Inst) -> bool {
    let own = |pointer: Option<Id>| {
        let ty = pointer.and_then(|p| m.type_of(p)).and_then(|t| Type::of(m, t));
        matches!(ty, Some(Type::Pointer { storage, .. }) if storage == StorageClass::Function as u32)
    };
    match inst.op {
        Op::Store | Op::CopyMemory => !own(inst.id(0)),
        Op::FunctionCall => inst.id(0).is_none_or(|f| has_effects(m, f)),
        Op::CooperativeMatrixPerElementOpNV => inst.id(1).is_none_or(|f| has_effects(m, f)),
        Op::LoopMerge | Op::SelectionMerge | Op::Line | Op::NoLine | Op::Nop | Op::ExtInst => false,
        op if op.name().is_some_and(|n| n.starts_with("Atomic")) => true,
        _ => inst.result.is_none(),
    }
}

/// How often instructions use each value; names and debug information don't count.
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

impl Tiles<'_, '_> {
    /// The factors of a product, and in how many slices it goes. What sheets need is taken from the arena.
    pub(super) fn slices(
        &mut self,
        b: &mut FunctionBuilder<'_>,
        r: InstRef,
        (x, a): (Id, Mat),
        (y, bm): (Id, Mat),
    ) -> Result<Slices, Refusal> {
        let zone = Zone::of_scope(a.workgroup);
        let from_tensor = |this: &Self, id: Id| {
            let load = this.deferred.get(&id)?;
            this.accesses.get(load).cloned()
        };
        let (left, right) = (from_tensor(self, x), from_tensor(self, y));
        let total = a.cols;
        let layouts = |steps: u32| {
            let of = |mat: Mat, access: &Option<Access>| {
                let access = access.as_ref()?;
                let (rows, cols) = match mat.shape.use_ {
                    Use::A => (mat.shape.rows.next_multiple_of(mat.tile_rows), steps * mat.tile_cols),
                    _ => (steps * mat.tile_rows, mat.shape.cols.next_multiple_of(mat.tile_cols)),
                };
                Some(Layout::new(mat.elem, (rows, cols), (mat.tile_rows, mat.tile_cols), access.runs_down, 1))
            };
            [of(a, &left), of(bm, &right)]
        };
        let bytes = |steps: u32| -> u32 {
            layouts(steps).iter().flatten().fold(0u32, |n, l| n.saturating_add(l.quads().saturating_mul(QUAD)))
        };
        let room = self.arena.room(zone);
        let divides = |n: &u32| total.is_multiple_of(*n);
        let steps = (1..=total).rev().filter(divides).find(|n| bytes(*n) <= room).unwrap_or(1);
        let [left_layout, right_layout] = layouts(steps);
        let factor =
            |this: &mut Self, b: &mut FunctionBuilder<'_>, id: Id, mat: Mat, access, layout: Option<Layout>| {
                let access: Option<Access> = access;
                if let (Some(access), Some(layout)) = (access, layout) {
                    let what = "a product of matrices";
                    let region = this.arena.take(r, what, zone, layout.quads().saturating_mul(QUAD))?;
                    let sheet = Sheet { layout, region, each: 0 };
                    let function = this.fill(b, &access, mat, sheet);
                    return Ok(Factor::Sheet { access: Box::new(access), sheet, function });
                }
                if let Some(load) = this.deferred.get(&id).copied() {
                    let inst = this.loads.get(&load).cloned();
                    if let Some(inst) = inst {
                        let memory = this.memory_of_load(b, load, &inst)?;
                        return Ok(Factor::Memory { memory: Box::new(memory), spots: this.spots(b, mat) });
                    }
                }
                Ok(Factor::Held(this.tiles_of(b.module, r, id)?.1))
            };
        let left = factor(self, b, x, a, left, left_layout)?;
        let right = factor(self, b, y, bm, right, right_layout)?;
        Ok(Slices { left, right, steps })
    }

    /// Brings the slice of K that begins with step `first` into the sheets.
    pub(super) fn bring(&mut self, b: &mut FunctionBuilder<'_>, slices: &Slices, mats: (Mat, Mat), first: u32) {
        let zone = Zone::of_scope(mats.0.workgroup);
        let mut any = false;
        for (factor, mat) in [(&slices.left, mats.0), (&slices.right, mats.1)] {
            let Factor::Sheet { access, function, .. } = factor else { continue };
            if !any {
                self.arena.barrier(b, zone);
            }
            any = true;
            let (row, col) = match mat.shape.use_ {
                Use::A => (0, first * mat.tile_cols),
                _ => (first * mat.tile_rows, 0),
            };
            super::tensor::call(b, *function, &access.args, Index::Const(row), Index::Const(col));
        }
        if any {
            self.arena.barrier(b, zone);
        }
    }

    /// The tile of a factor at row (or column) of tiles `line` of those that the subgroup holds, and step `k` of K;
    /// `first` is the first step of the slice.
    pub(super) fn factor_tile(
        &mut self,
        b: &mut FunctionBuilder<'_>,
        r: InstRef,
        factor: &Factor,
        mat: Mat,
        (line, k, first): (u32, u32, u32),
    ) -> Result<Id, Refusal> {
        let (i, j) = if mat.shape.use_ == Use::A { (line, k) } else { (k, line) };
        let index = mat.at(i, j);
        match factor {
            Factor::Held(parts) => Ok(parts[index]),
            Factor::Sheet { sheet, .. } => {
                let spot = self.spot(b, mat, line);
                let along =
                    Lin::constant((k - first) * if mat.shape.use_ == Use::A { mat.tile_cols } else { mat.tile_rows });
                let begin = sheet.begin(b, &mut self.arena, Index::Const(0));
                let place = if mat.shape.use_ == Use::A { (&spot, &along) } else { (&along, &spot) };
                let operands = sheet.load_operands(b, &mut self.arena, begin, place);
                Ok(b.op(Op::CooperativeMatrixLoadKHR, mat.tile, operands))
            }
            Factor::Memory { memory, spots } => {
                let spot = spots.iter().find(|s| s.index == index);
                let Some(spot) = spot else { return super::inst::malformed(r, "a tile that nobody holds") };
                let (pointer, operands) = self.tile_in_memory(b, r, memory, mat, spot)?;
                let fixed = [pointer, memory.layout, memory.stride].map(Operand::Id);
                Ok(b.op(Op::CooperativeMatrixLoadKHR, mat.tile, fixed.into_iter().chain(operands)))
            }
        }
    }

    /// The row of A (the column of B) at which a line of tiles of the subgroup begins.
    fn spot(&self, b: &mut FunctionBuilder<'_>, mat: Mat, line: u32) -> Lin {
        let (row, col) = self.group.unwrap_or((Index::Const(0), Index::Const(0)));
        let (row_groups, col_groups) = mat.groups();
        match mat.shape.use_ {
            Use::A => self.along(b, (row, row_groups), mat.rows, line, mat.tile_rows, mat.shape.rows).0,
            _ => self.along(b, (col, col_groups), mat.cols, line, mat.tile_cols, mat.shape.cols).0,
        }
    }

    /// Forgets names of loads that are no more.
    pub(super) fn forget_deferred(&self, m: &mut Module) {
        let gone: FxHashSet<Id> = self.gone.iter().copied().collect();
        crate::ssa::forget_notes(m, &gone);
    }
}
