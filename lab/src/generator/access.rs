//! Loads and stores of whole matrices: layouts, strides, memory operands, in the words of every dialect.

use super::Dialect;
use super::align::{Rule, gcd};
use super::emit::{B, Gen, Mat};
use super::fun::Value;
use super::range::Range;
use coop_ir::grammar::Op;
use coop_ir::spv::{Capability, CooperativeMatrixLayout, MemoryAccess, StorageClass};
use coop_ir::types::Scalar;
use coop_ir::{Id, Inst, Operand};

/// The order of the elements of a matrix in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum MatrixLayout {
    Rows,
    Columns,
    /// SPV_INTEL_joint_matrix: so many rows side by side in 32 bits.
    Packed(u32),
    /// SPV_ARM_cooperative_matrix_layouts: by rows or by columns of blocks. The stride says how many are interleaved.
    Blocks {
        by_rows: bool,
    },
}

impl MatrixLayout {
    fn number(self) -> u32 {
        match self {
            MatrixLayout::Rows => CooperativeMatrixLayout::RowMajorKHR,
            MatrixLayout::Columns => CooperativeMatrixLayout::ColumnMajorKHR,
            MatrixLayout::Packed(_) => CooperativeMatrixLayout::PackedINTEL,
            MatrixLayout::Blocks { by_rows: true } => CooperativeMatrixLayout::RowBlockedInterleavedARM,
            MatrixLayout::Blocks { by_rows: false } => CooperativeMatrixLayout::ColumnBlockedInterleavedARM,
        }
        .0
    }
}

/// The location of a matrix relative to a pointer.
#[derive(Clone, Copy)]
pub(super) struct Footprint {
    layout: MatrixLayout,
    /// In units.
    stride: u32,
    /// In units.
    units: u32,
    /// The alignment of offsets, in units.
    step: u32,
    /// True if that is less than Vulkan asks for.
    unaligned: bool,
}

/// A pointer that a matrix is loaded from or stored to.
pub(super) struct MatrixPointer {
    pub(super) pointer: Id,
    pub(super) storage: StorageClass,
    /// The alignment of the pointer, at most 16.
    pub(super) align: u32,
    /// The range of the numbers in memory.
    pub(super) range: Range,
}

/// The kind of an access.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum AccessKind {
    Load,
    Store,
    LoadShared,
    StoreShared,
}

impl Gen<'_> {
    fn footprint(&mut self, mat: Mat, unit: (Scalar, u32), store: bool) -> Footprint {
        let columns = self.e.chance(100);
        let layout = if columns { MatrixLayout::Columns } else { MatrixLayout::Rows };
        match self.profile.dialect {
            Dialect::Arm if self.e.chance(150) => {
                if let Some(at) = self.blocks(mat, unit) {
                    return at;
                }
            }
            // Its stride counts components, whatever memory is declared as.
            Dialect::Intel | Dialect::Kernel if mat.use_ == B && unit == (mat.scalar, 1) && self.e.chance(120) => {
                let rows = 32 / mat.scalar.width().min(32);
                if mat.scalar.width() <= 32 && mat.rows.is_multiple_of(rows) {
                    self.capability(Capability::PackedCooperativeMatrixINTEL);
                    self.extension("SPV_INTEL_joint_matrix");
                    self.note("packed layout");
                    return self.footprint_of(mat, unit, store, MatrixLayout::Packed(rows));
                }
            }
            _ => {}
        }
        self.footprint_of(mat, unit, store, layout)
    }

    fn footprint_of(&mut self, mat: Mat, unit: (Scalar, u32), store: bool, layout: MatrixLayout) -> Footprint {
        let (lines, len) = match layout {
            MatrixLayout::Columns => (mat.cols, mat.rows),
            MatrixLayout::Packed(rows) => (mat.rows / rows, mat.cols * rows),
            _ => (mat.rows, mat.cols),
        };
        let unit_bytes = unit.0.bytes() * unit.1;
        let line_bytes = len * mat.scalar.bytes();
        // Vulkan's alignment of pointer and stride, or what numbers need.
        let unaligned = self.unaligned(Rule::Plain).is_some();
        let align = if unaligned { mat.scalar.bytes() } else { line_bytes.min(16) };
        let step = align / gcd(align, unit_bytes);
        let least = line_bytes.div_ceil(unit_bytes).next_multiple_of(step);
        let stride = if !store && self.e.chance(20) {
            self.note("stride 0");
            0
        } else {
            least + step * self.e.pick(&[0, 0, 1, 2, 3])
        };
        let units = (lines - 1) * stride + line_bytes.div_ceil(unit_bytes);
        Footprint { layout, stride, units, step, unaligned }
    }

    /// Blocks of 4 rows and 16 bytes, if the matrix is made of such.
    fn blocks(&mut self, mat: Mat, unit: (Scalar, u32)) -> Option<Footprint> {
        let (width, by_rows) = (16 / mat.scalar.bytes(), self.e.chance(128));
        // Larger components would be cut by what is interleaved.
        let group = if mat.scalar.width() > 32 { 1 } else { self.e.pick(&[1, 2, 4]) };
        let [down, across] = if by_rows { [1, group] } else { [group, 1] };
        if !mat.rows.is_multiple_of(4 * down) || !mat.cols.is_multiple_of(width * across) {
            return None;
        }
        self.capability(Capability::CooperativeMatrixLayoutsARM);
        self.extension("SPV_ARM_cooperative_matrix_layouts");
        self.note(if by_rows { "rows of blocks" } else { "columns of blocks" });
        let unit_bytes = unit.0.bytes() * unit.1;
        let units = (mat.rows * mat.cols * mat.scalar.bytes()).div_ceil(unit_bytes);
        let step = 64 / gcd(64, unit_bytes);
        Some(Footprint { layout: MatrixLayout::Blocks { by_rows }, stride: group, units, step, unaligned: false })
    }

    /// Layout, stride and memory operands.
    fn access_operands(&mut self, at: Footprint, storage: StorageClass, align: u32, kind: AccessKind) -> Vec<Operand> {
        let stride = match at.layout {
            MatrixLayout::Blocks { .. } => self.constant_u32(at.stride),
            _ => self.uniform(at.stride),
        };
        let stride = if self.e.chance(40) && at.layout.number() < 2 { self.as_stride(stride) } else { stride };
        let mut out = match self.profile.dialect {
            Dialect::Nv1 => vec![stride, self.truth(at.layout == MatrixLayout::Columns)],
            _ => vec![self.constant_u32(at.layout.number()), stride],
        };
        let mut out: Vec<Operand> = out.drain(..).map(Operand::Id).collect();
        let memory = self.memory_operands(storage, align, kind);
        if memory[0] != Operand::Word(0) || self.e.chance(40) {
            out.extend(memory);
        }
        out
    }

    /// The instruction that loads a matrix from behind a pointer.
    fn emit_load(&mut self, mat: Mat, at: Footprint, place: &MatrixPointer, kind: AccessKind) -> Id {
        let operands = self.access_operands(at, place.storage, place.align, kind);
        let op = match self.profile.dialect {
            Dialect::Nv1 => Op::CooperativeMatrixLoadNV,
            _ => Op::CooperativeMatrixLoadKHR,
        };
        self.op(op, mat.ty, [Operand::Id(place.pointer)].into_iter().chain(operands))
    }

    fn emit_store(&mut self, value: Id, at: Footprint, place: &MatrixPointer, kind: AccessKind) {
        let operands = self.access_operands(at, place.storage, place.align, kind);
        let op = match self.profile.dialect {
            Dialect::Nv1 => Op::CooperativeMatrixStoreNV,
            _ => Op::CooperativeMatrixStoreKHR,
        };
        self.effect(op, [place.pointer, value].map(Operand::Id).into_iter().chain(operands));
    }

    /// Memory operands with their mask.
    pub(super) fn memory_operands(&mut self, storage: StorageClass, align: u32, kind: AccessKind) -> Vec<Operand> {
        if self.kernel() {
            return self.kernel_memory_operands(align, kind);
        }
        let mut mask = MemoryAccess::None;
        let mut words = Vec::new();
        if self.e.chance(20) {
            mask |= MemoryAccess::Volatile;
        }
        if self.e.chance(20) {
            mask |= MemoryAccess::Nontemporal;
        }
        if storage == StorageClass::PhysicalStorageBuffer || self.e.chance(20) {
            mask |= MemoryAccess::Aligned;
            words.push(Operand::Word(align));
        }
        let visible = match kind {
            _ if !self.e.chance(60) => MemoryAccess::None,
            AccessKind::Load | AccessKind::LoadShared => MemoryAccess::MakePointerVisible,
            AccessKind::Store | AccessKind::StoreShared => MemoryAccess::MakePointerAvailable,
        };
        if !visible.is_empty() {
            let scope = self.e.pick(&[2, 5]);
            words.push(Operand::Id(self.u32(scope)));
            mask |= visible | MemoryAccess::NonPrivatePointer;
        }
        if matches!(kind, AccessKind::LoadShared | AccessKind::StoreShared) {
            mask |= MemoryAccess::NonPrivatePointer;
        }
        [Operand::Word(mask.0)].into_iter().chain(words).collect()
    }

    /// Loads a matrix of this type from an input.
    pub(super) fn load(&mut self, mat: Mat) -> Value {
        let unit = self.unit_for(mat.scalar, None);
        let at = self.footprint(mat, unit, false);
        let Some(place) = self.input(mat, mat.scalar, unit, (at.units, at.step)) else { return self.splat(mat) };
        let id = self.emit_load(mat, at, &place, AccessKind::Load);
        self.note(if mat.workgroup { "load, workgroup scope" } else { "load" });
        Value { id, mat, range: place.range, used: false }
    }

    /// Loads a matrix of integers that are the bits of floats.
    pub(super) fn load_as(&mut self, mat: Mat, component: Scalar) -> Option<Value> {
        let unit = (mat.scalar, 1);
        let at = self.footprint(mat, unit, false);
        let place = self.input(mat, component, unit, (at.units, at.step))?;
        let id = self.emit_load(mat, at, &place, AccessKind::Load);
        Some(Value { id, mat, range: place.range, used: false })
    }

    /// Stores a matrix to a place of its own.
    pub(super) fn store(&mut self, value: Value) {
        let mat = value.mat;
        let run = gcd(mat.cols, mat.rows);
        let unit = self.unit_for(mat.scalar, Some(run));
        let at = self.footprint(mat, unit, true);
        let place = self.output(mat, unit, (at.units, at.step));
        self.emit_store(value.id, at, &place, AccessKind::Store);
        self.note(if mat.workgroup { "store, workgroup scope" } else { "store" });
    }

    /// A barrier that all invocations of a workgroup reach.
    pub(super) fn barrier(&mut self) {
        // In Vulkan's memory model also: available and visible.
        let semantics = if self.kernel() { 0x8 | 0x100 } else { 0x8 | 0x100 | 0x2000 | 0x4000 };
        let (scope, semantics) = (self.u32(2), self.u32(semantics));
        self.effect(Op::ControlBarrier, [scope, scope, semantics].map(Operand::Id));
    }

    /// New shared memory with a region for each instance of a scope: two pointers, `gap` units behind its start,
    /// the first to the own one, the second to that or to the next one.
    pub(super) fn shared_region(
        &mut self,
        elem: Id,
        (gap, region): (u32, u32),
        instances: u32,
        workgroup: bool,
    ) -> ([Id; 2], StorageClass) {
        let next = instances > 1 && self.side.chance(90);
        let len = self.constant_u32(region * instances);
        let array = self.m.fresh_id();
        self.global(Inst::new(Op::TypeArray, None, Some(array), [elem, len].map(Operand::Id)));
        let variable = self.variable(StorageClass::Workgroup, array, None);
        let mut pointers = [variable; 2];
        for (k, p) in pointers.iter_mut().enumerate() {
            let at = if workgroup {
                self.uniform(gap)
            } else {
                self.capability(Capability::GroupNonUniform);
                let id = self.builtin_value(coop_ir::spv::BuiltIn::SubgroupId, None);
                let id = self.other_subgroup(id, next && k == 1);
                let step = self.uniform(region);
                let mut at = self.u32_op(Op::IMul, id, step);
                if gap > 0 {
                    let gap = self.u32(gap);
                    at = self.u32_op(Op::IAdd, at, gap);
                }
                self.as_index(at)
            };
            let pointer = self.g.pointer(&mut self.m, StorageClass::Workgroup, elem);
            *p = self.ids(Op::AccessChain, pointer, &[variable, at]);
        }
        (pointers, StorageClass::Workgroup)
    }

    /// Stores a matrix into shared memory and loads it from there as `to`, which has the same extents or the opposite.
    pub(super) fn through_shared(&mut self, value: Value, to: Mat) -> Option<Value> {
        let from = value.mat;
        if self.fun().apart {
            return None;
        }
        let unit = self.unit_for(from.scalar, Some(gcd(from.rows, from.cols)));
        self.scalar_capabilities(unit.0);
        let at = self.footprint(from, unit, true);
        let straight = (from.rows, from.cols) == (to.rows, to.cols);
        let turned = (from.cols, from.rows) == (to.rows, to.cols);
        let row_major = match at.layout {
            // Only what was stored in a layout is loaded in it.
            MatrixLayout::Packed(_) | MatrixLayout::Blocks { .. } => return None,
            layout => layout == MatrixLayout::Rows,
        };
        let row_major = match (straight, turned) {
            (true, true) => self.e.chance(128),
            (true, false) => row_major,
            (false, true) => !row_major,
            (false, false) => return None,
        };
        let instances = if from.workgroup { 1 } else { self.subgroups };
        let unit_bytes = unit.0.bytes() * unit.1;
        // 16 bytes, as both layouts may ask for different alignments.
        let step = if at.unaligned { at.step } else { at.step * (16 / gcd(16, at.step * unit_bytes)) };
        let gap = step * self.unaligned_gap(step * unit_bytes);
        let region = (gap + at.units).next_multiple_of(step);
        let bytes = region * instances * unit_bytes;
        if self.shared + bytes > 16384 {
            return None;
        }
        // The other layout may ask for more of the stride than this one.
        let line = if row_major { to.cols } else { to.rows };
        let align = (line * to.scalar.bytes()).min(16);
        if !at.unaligned && !(at.stride * unit_bytes).is_multiple_of(align) {
            return None;
        }
        self.shared += bytes.next_multiple_of(16);
        let elem = self.unit_type(unit);
        let align = unit.0.bytes();
        let (pointers, storage) = self.shared_region(elem, (gap, region), instances, from.workgroup);
        let [own, other] = pointers.map(|pointer| MatrixPointer { pointer, storage, align, range: value.range });
        self.emit_store(value.id, at, &own, AccessKind::StoreShared);
        self.barrier();
        let there = Footprint { layout: if row_major { MatrixLayout::Rows } else { MatrixLayout::Columns }, ..at };
        let id = self.emit_load(to, there, &other, AccessKind::LoadShared);
        // The next round of a loop must not store before everybody has loaded.
        self.barrier();
        self.note("through shared memory");
        Some(Value { id, mat: to, range: value.range, used: false })
    }
}
