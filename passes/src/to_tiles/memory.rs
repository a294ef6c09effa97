//! Lowers loads and stores of whole matrices to one load or store for each tile, from the same memory with the same stride.
//!
//! Tile (i, j) begins `i * rows of a tile` rows and `j * columns of a tile` columns after the pointer. The declared type of
//! the memory does not matter to a load, but the pointer to a tile has to point to a whole element of it.

use super::Tiles;
use super::inst::Slot;
use super::shape::Mat;
use crate::device::is_nvidia;
use crate::matrix::address::narrow;
use crate::matrix::affine::Affine;
use crate::matrix::placement::{AxisSplit, Placement};
use crate::matrix::pointer::{MemoryLocation, place, steppable};
use crate::matrix::position::LanePosition;
use crate::{Refusal, malformed};
use coop_device::Profile;
use coop_ir::builder::{FunctionBuilder, Globals, Index};
use coop_ir::constant::{Constants, Specialization};
use coop_ir::rewrite::insert_before;
use coop_ir::spv::{MemoryAccess, StorageClass};
use coop_ir::types::{self, Scalar};
use coop_ir::{Id, Inst, InstRef, Module, Op, Operand};

/// Memory that a matrix is loaded from or stored to.
pub(super) struct Memory {
    pointer: Id,
    place: MemoryLocation,
    row_major: bool,
    pub(super) layout: Id,
    pub(super) stride: Id,
    operands: Vec<Operand>,
}

/// A tile among those of the subgroup, and where it begins in the matrix.
#[derive(Clone)]
pub(super) struct TilePosition {
    pub(super) index: usize,
    pub(super) row: Affine,
    pub(super) col: Affine,
    /// Holds where the tile is not beyond the matrix; `None` where it never is.
    pub(super) inside: Option<Id>,
}

impl Tiles<'_, '_> {
    pub(super) fn load_khr(&mut self, b: &mut FunctionBuilder<'_>, r: InstRef, inst: &Inst) -> Result<(), Refusal> {
        let mat = inst.ty.and_then(|t| self.analysis.mats.get(&t)).copied();
        let Some(mat) = mat else { return malformed(r, "a load of no matrix") };
        if self.defers(r, inst) {
            return Ok(());
        }
        let memory = self.memory_of_load(b, r, inst)?;
        let mut slot = Slot::new(r);
        let mut parts = Vec::new();
        for position in self.tile_positions(b, mat) {
            let (pointer, operands) = self.tile_in_memory(b, r, &memory, mat, &position)?;
            let all = [pointer, memory.layout, memory.stride].map(Operand::Id).into_iter().chain(operands);
            parts.push(slot.op(b, Op::CooperativeMatrixLoadKHR, mat.tile, all));
        }
        self.define(inst, mat, parts);
        Ok(())
    }

    /// The memory that a load reads.
    pub(super) fn memory_of_load(&self, b: &FunctionBuilder<'_>, r: InstRef, inst: &Inst) -> Result<Memory, Refusal> {
        let Some(a) = inst.matrix_access() else { return malformed(r, "a load of no matrix") };
        self.memory(b, r, a.pointer, a.layout, a.stride, inst.operands.get(a.memory..).unwrap_or_default())
    }

    pub(super) fn store_khr(&mut self, b: &mut FunctionBuilder<'_>, r: InstRef, inst: &Inst) -> Result<(), Refusal> {
        let Some((a, object)) = inst.matrix_access().and_then(|a| Some((a, a.object?))) else {
            return malformed(r, "a store of no matrix");
        };
        let (mat, parts) = self.tiles_of(b.module, r, object)?;
        let operands = inst.operands.get(a.memory..).unwrap_or_default();
        let memory = self.memory(b, r, a.pointer, a.layout, a.stride, operands)?;
        let owner = self.owner(b, mat);
        for position in self.tile_positions(b, mat) {
            let (pointer, operands) = self.tile_in_memory(b, r, &memory, mat, &position)?;
            let fixed = [pointer, parts[position.index], memory.layout, memory.stride].map(Operand::Id);
            let all: Vec<Operand> = fixed.into_iter().chain(operands).collect();
            let condition = both(b, owner, position.inside);
            let mut store = |b: &mut FunctionBuilder<'_>| b.effect(Op::CooperativeMatrixStoreKHR, all.iter().copied());
            match condition {
                Some(condition) => b.when(condition, &mut store),
                None => store(b),
            }
        }
        Ok(())
    }

    fn memory(
        &self,
        b: &FunctionBuilder<'_>,
        r: InstRef,
        pointer: Id,
        layout: Id,
        stride: Option<Id>,
        operands: &[Operand],
    ) -> Result<Memory, Refusal> {
        let row_major = match self.analysis.constants.get(layout).fixed() {
            Some(0) => true,
            Some(1) => false,
            other => {
                let layout = other.map_or_else(|| "an unknown layout".to_owned(), |l| format!("layout {l}"));
                let why = format!("{layout} has no lowering yet");
                return Err(Refusal::new("refused-layout", Some(r), why, "use RowMajor or ColumnMajor"));
            }
        };
        let Some(stride) = stride else { return malformed(r, "the stride is missing") };
        let place = place(b.module, &self.analysis.constants, r, pointer)?;
        let integer =
            |id: &Id| b.module.type_of(*id).and_then(|t| types::scalar(b.module, t)).is_some_and(Scalar::is_int);
        if !place.indices.iter().chain(&place.component).chain([&stride]).all(integer) {
            return malformed(r, "an index or the stride is not an integer");
        }
        Ok(Memory { pointer, place, row_major, layout, stride, operands: operands.to_vec() })
    }

    /// Returns the row and column of the subgroup's first tile. Tiles beyond the matrix are moved to its last row and column of tiles, where
    /// they can be loaded.
    pub(super) fn tile_positions(&self, b: &mut FunctionBuilder<'_>, mat: Mat) -> Vec<TilePosition> {
        let (group_row, group_col) = self.function.group.unwrap_or((Index::Const(0), Index::Const(0)));
        let Placement { rows, cols, .. } = mat.placement;
        let mut along = |split: AxisSplit, group: Index, tile: u32| -> Vec<(Affine, Option<Id>)> {
            let positions = (0..split.per_group).map(|i| split.position(b, group, Index::Const(i)));
            positions.map(|(begin, inside)| (begin.times(tile), inside)).collect()
        };
        let rows = along(rows, group_row, mat.tile_rows);
        let cols = along(cols, group_col, mat.tile_cols);
        let mut out = Vec::new();
        for (i, (row, row_inside)) in (0..).zip(rows) {
            for (j, (col, col_inside)) in (0..).zip(&cols) {
                let inside = both(b, row_inside, *col_inside);
                out.push(TilePosition { index: mat.at(i, j), row: row.clone(), col: col.clone(), inside });
            }
        }
        out
    }

    /// Returns the condition that the subgroup stores its tiles: the first of those that hold the same ones does.
    pub(super) fn owner(&self, b: &mut FunctionBuilder<'_>, mat: Mat) -> Option<Id> {
        let (row_group, col_group) = self.function.group.filter(|_| mat.workgroup)?;
        LanePosition { placement: mat.placement, row_group, col_group }.first(b)
    }

    /// The pointer to a tile, and the memory operands for it.
    pub(super) fn tile_in_memory(
        &self,
        b: &mut FunctionBuilder<'_>,
        r: InstRef,
        memory: &Memory,
        mat: Mat,
        position: &TilePosition,
    ) -> Result<(Id, Vec<Operand>), Refusal> {
        let (line, along) =
            if memory.row_major { (&position.row, &position.col) } else { (&position.col, &position.row) };
        if line.known() == Some(0) && along.known() == Some(0) {
            return Ok((memory.pointer, memory.operands.clone()));
        }
        let place = &memory.place;
        let unit = if place.component.is_some() { place.memory.bytes() } else { place.memory.bytes() * place.lanes };
        let bytes = along.clone().times(mat.elem.scalar.bytes());
        let Some(units) = bytes.exact(unit) else {
            let why = format!(
                "a tile of {}x{} {} begins inside a unit of {unit} bytes",
                mat.tile_rows, mat.tile_cols, mat.elem.scalar
            );
            return Err(Refusal::new("refused-pointer", Some(r), why, "declare the memory in smaller units"));
        };
        let constants = &self.analysis.constants;
        let known = |id: Id| constants.get(id).fixed();
        let offset = match narrow(b, memory.stride, &known) {
            Index::Const(s) => line.clone().times(s),
            stride => {
                let line = line.emit(b);
                Affine::scaled(b.mul(line, stride), 1)
            }
        };
        let pointer = step(b, memory, &offset.plus(&units), &known);
        let line_bytes = if memory.row_major { mat.tile_cols } else { mat.tile_rows } * mat.elem.scalar.bytes();
        let aligned = MemoryAccess::Aligned.0;
        let mut operands = memory.operands.clone();
        if operands.first().is_some_and(|m| m.word() & aligned != 0)
            && let Some(Operand::Word(align)) = operands.get_mut(1)
        {
            *align = (*align).min(line_bytes).min(16);
        }
        Ok((pointer, operands))
    }
}

/// Makes strides of 64 bits those of 32: there are drivers that do not compile such (`docs/drivers.md`). Lines of a
/// matrix that are 2^32 elements apart are in no buffer and in no shared memory. From an address they can be reached, so a stride there stays if it may be as
/// large and the driver takes it.
pub(super) fn narrow_strides(m: &mut Module, profile: &Profile) {
    let constants = Constants::new(m, &Specialization::new());
    let mut g = Globals::new(m);
    for r in m.all().collect::<Vec<_>>() {
        let Some((at, stride)) = wide_stride(m, m.inst(r)) else { continue };
        let conversion = m.def_inst(stride).filter(|i| matches!(i.op, Op::UConvert | Op::SConvert));
        let before = conversion.and_then(|i| i.id(0)).filter(|from| width(m, *from) == Some(32));
        let known = constants.get(stride).fixed();
        let narrow = match (before, known.map(u32::try_from)) {
            (Some(before), _) => before,
            (None, Some(Ok(known))) => g.u32(m, known),
            (None, _) if is_address(m, r) && !ends_at_wide_strides(profile) => continue,
            (None, _) => {
                let (ty, narrow) = (g.uint(m, 32), m.fresh_id());
                let origin = m.inst(r).origin;
                insert_before(m, r, Inst::new(Op::UConvert, Some(ty), Some(narrow), [stride.into()]).at(origin));
                narrow
            }
        };
        m.inst_mut(r).operands[at] = Operand::Id(narrow);
    }
}

/// Returns true if a module loads or stores a matrix with a stride of 64 bits, at which the device's driver ends or refuses (`docs/drivers.md`), and which it
/// takes with 32, as lowered code has it.
pub fn has_wide_stride(m: &Module, profile: &Profile) -> bool {
    if !ends_at_wide_strides(profile) {
        return false;
    }
    let constants = Constants::new(m, &Specialization::new());
    let mut strides = m.functions.iter().flat_map(|f| f.insts()).filter_map(|r| wide_stride(m, m.inst(r)));
    // NVIDIA's own driver takes constants.
    strides.any(|(_, stride)| profile.driver != "NVIDIA" || constants.get(stride).value().is_none())
}

/// Returns true for the drivers of NVIDIA's GPUs and lavapipe.
fn ends_at_wide_strides(profile: &Profile) -> bool {
    is_nvidia(Some(profile)) || profile.driver == "llvmpipe"
}

/// Returns the stride of a load or store and the place of its operand, if it has 64 bits.
fn wide_stride(m: &Module, i: &Inst) -> Option<(usize, Id)> {
    let at = match i.op {
        Op::CooperativeMatrixLoadKHR => 2,
        Op::CooperativeMatrixStoreKHR => 3,
        _ => return None,
    };
    i.id(at).filter(|id| width(m, *id) == Some(64)).map(|stride| (at, stride))
}

fn width(m: &Module, id: Id) -> Option<u32> {
    m.type_of(id).and_then(|ty| types::scalar(m, ty)).map(Scalar::width)
}

/// Returns true if the pointer of a load or store is a physical address.
fn is_address(m: &Module, r: InstRef) -> bool {
    let pointer = m.inst(r).matrix_access().and_then(|access| m.type_of(access.pointer));
    let storage = pointer.and_then(|ty| match types::Type::of(m, ty)? {
        types::Type::Pointer { storage, .. } => Some(storage),
        _ => None,
    });
    storage == Some(StorageClass::PhysicalStorageBuffer)
}

/// Both conditions, as far as there are any.
pub(super) fn both(b: &mut FunctionBuilder<'_>, x: Option<Id>, y: Option<Id>) -> Option<Id> {
    match (x, y) {
        (Some(x), Some(y)) => {
            let ty = b.globals.bool(b.module);
            Some(b.ids(Op::LogicalAnd, ty, &[x, y]))
        }
        (x, y) => x.or(y),
    }
}

/// The pointer that is `units` units behind that of `memory`.
fn step(b: &mut FunctionBuilder<'_>, memory: &Memory, units: &Affine, known: &dyn Fn(Id) -> Option<u64>) -> Id {
    let place = &memory.place;
    let ty = b.module.type_of(memory.pointer).unwrap_or_else(|| unreachable!("place() found its type"));
    let mut indices = place.indices.clone();
    let last = indices.pop();
    if let (Some(component), Some(last)) = (place.component, last) {
        // Units are the numbers of a vector here: counted from the start of the first vector.
        let component = narrow(b, component, known);
        let total = units.clone().plus(&Affine::scaled(component, 1));
        let (vectors, number) = total.div_rem(b, place.lanes);
        let vector = add(b, last, &vectors, known);
        let number = b.index(number);
        let operands: Vec<Id> = [place.root].into_iter().chain(indices).chain([vector, number]).collect();
        return b.ids(Op::AccessChain, ty, &operands);
    }
    let Some(last) = last else {
        let root = if place.storage == StorageClass::PhysicalStorageBuffer {
            steppable(b, place, place.root)
        } else {
            place.root
        };
        let ty = b.module.type_of(root).unwrap_or(ty);
        let units = units.emit(b);
        let units = b.index(units);
        return b.ids(Op::PtrAccessChain, ty, &[root, units]);
    };
    let last = add(b, last, units, known);
    let operands: Vec<Id> = [place.root].into_iter().chain(indices).chain([last]).collect();
    b.ids(Op::AccessChain, ty, &operands)
}

/// `index + lin`, in the width of the index.
fn add(b: &mut FunctionBuilder<'_>, index: Id, lin: &Affine, known: &dyn Fn(Id) -> Option<u64>) -> Id {
    let wide =
        b.module.type_of(index).filter(|t| matches!(types::scalar(b.module, *t), Some(Scalar::Int { width: 64, .. })));
    let Some(ty) = wide else {
        let index = narrow(b, index, known);
        let sum = Affine::scaled(index, 1).plus(lin).emit(b);
        return b.index(sum);
    };
    let offset = lin.emit(b);
    let (u64_type, offset) = (b.globals.uint(b.module, 64), b.index(offset));
    let offset = b.ids(Op::UConvert, u64_type, &[offset]);
    b.ids(Op::IAdd, ty, &[index, offset])
}
