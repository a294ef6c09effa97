//! Rules about loads and stores: pointers, layouts, strides, memory operands.

use super::{Edit, F32, Mutant, Rows, S32, U32, U64};
use coop_ir::grammar::Op;
use coop_ir::spv::CooperativeMatrixLayout;
use coop_ir::spv::{AddressingModel, Capability, MemoryAccess, StorageClass};
use coop_ir::types::{Scalar, Type};
use coop_ir::{Id, Inst, InstRef, Operand};

/// Returns the index of the stride operand of a load or store.
fn stride_of(i: &Inst) -> Option<usize> {
    Some(match i.op {
        Op::CooperativeMatrixLoadNV => 1,
        Op::CooperativeMatrixLoadKHR | Op::CooperativeMatrixStoreNV => 2,
        Op::CooperativeMatrixStoreKHR => 3,
        Op::CooperativeMatrixLoadOffsetINTEL => 4,
        Op::CooperativeMatrixStoreOffsetINTEL => 5,
        Op::CooperativeMatrixLoadCheckedINTEL => 6,
        Op::CooperativeMatrixStoreCheckedINTEL => 7,
        _ => return None,
    })
}

pub(super) const ROWS: Rows = &[
    ("access-layout-capability", |x| {
        let wanted = x.e.pick(&[
            (CooperativeMatrixLayout::RowBlockedInterleavedARM, Capability::CooperativeMatrixLayoutsARM),
            (CooperativeMatrixLayout::ColumnBlockedInterleavedARM, Capability::CooperativeMatrixLayoutsARM),
            (CooperativeMatrixLayout::PackedINTEL, Capability::PackedCooperativeMatrixINTEL),
        ]);
        if x.m.has_capability(wanted.1) {
            return None;
        }
        let layout = x.u32(wanted.0.0);
        x.layout(layout)
    }),
    ("access-layout-not-constant", |x| {
        let layout = x.constant(U64, 0);
        x.layout(layout)
    }),
    ("access-layout-unknown", |x| {
        let layout = x.u32(7);
        x.layout(layout)
    }),
    ("access-not-in-array", |x| {
        let r = x.find(|_, i| is_khr(i) || is_nv(i))?;
        let (uint, copy) = (x.scalar(U32), x.copy(r)?);
        let variable = x.variable(StorageClass::Workgroup, uint);
        x.set(copy, 0, variable)
    }),
    ("access-out-of-bounds", |x| {
        // The second of at least four lines is behind the end of an array of 64 numbers.
        let (_, ty, chain) = x.shared_floats(64, 0)?;
        let (zero, stride) = (x.u32(0), x.u32(64));
        let at = x.m.def(chain)?;
        x.after(at, Op::CooperativeMatrixLoadKHR, ty, &[chain, zero, stride]).map(drop)
    }),
    ("access-pointee-type", |x| {
        let r = x.find(|m, i| is_khr(i) && pointer_storage(m, i) == Some(StorageClass::Workgroup))?;
        let root = x.root(x.inst(r).id(0)?)?;
        let copy = x.copy(r)?;
        x.set(copy, 0, root)
    }),
    ("access-pointer-misaligned", |x| {
        // The second number of 4 bytes, where lines are of 16 bytes.
        let (_, ty, chain) = x.shared_floats(4096, 1)?;
        let (zero, stride) = (x.u32(0), x.u32(64));
        let at = x.m.def(chain)?;
        x.after(at, Op::CooperativeMatrixLoadKHR, ty, &[chain, zero, stride]).map(drop)
    }),
    ("access-pointer-source", |x| {
        // Elsewhere pointers may come from anywhere.
        x.find(|_, i| i.op == Op::MemoryModel && i.enumerant(0) == Some(AddressingModel::Logical))?;
        let r = x.find(|m, i| {
            (is_access(i) || is_nv(i))
                && pointer_storage(m, i).is_some_and(|s| s != StorageClass::PhysicalStorageBuffer)
        })?;
        let copy = x.copy(r)?;
        let ty = x.m.type_of(x.inst(copy).id(0)?)?;
        let undef = x.undef(copy, ty)?;
        x.set(copy, 0, undef)
    }),
    ("access-pointer-type", |x| {
        let (copy, one) = (x.khr()?, x.float());
        x.set(copy, 0, one)
    }),
    ("access-storage-capability", |x| {
        // The types may be declared, but not be in buffers.
        let r = x.find(|m, i| {
            let narrow = |s| matches!(s, Scalar::Int { width: ..=16, .. } | Scalar::Float { width: 16 });
            is_khr(i)
                && pointer_storage(m, i) != Some(StorageClass::Workgroup)
                && pointee_scalar(m, i).is_some_and(narrow)
        })?;
        let width = pointee_scalar(&x.m, x.m.inst(r))?.width();
        let (gone, stays) = if width == 16 {
            (
                [Capability::StorageBuffer16BitAccess, Capability::Float16, Capability::Int16],
                Capability::StoragePushConstant16,
            )
        } else {
            (
                [Capability::StorageBuffer8BitAccess, Capability::Int8, Capability::Int8],
                Capability::StoragePushConstant8,
            )
        };
        x.capability(stays);
        while x.drop_capability(&gone).is_some() {}
        Some(())
    }),
    ("access-storage-class", |x| {
        let (uint, copy) = (x.scalar(U32), x.khr()?);
        let array = x.array(uint, 4096);
        let variable = x.variable(StorageClass::Private, array);
        let (pointer, zero) = (x.g.pointer(&mut x.m, StorageClass::Private, uint), x.u32(0));
        let at = x.before(copy, Op::AccessChain, pointer, [variable, zero].map(Operand::Id))?;
        x.set(copy, 0, at)
    }),
    ("access-stride-misaligned", |x| {
        let loads = [Op::CooperativeMatrixLoadKHR, Op::CooperativeMatrixLoadNV];
        let r = x.find(|m, i| loads.contains(&i.op) && pointee_bytes(m, i) == Some(4))?;
        if is_khr(x.m.inst(r)) && x.inst(r).id(1).and_then(|layout| x.value(layout))? > 1 {
            return None;
        }
        let ty = x.any_type(x.inst(r).ty?)?;
        let line = x.value(ty.ids[3])?.min(x.value(ty.ids[2])?) * x.scalar_of(&ty)?.bytes();
        if line < 16 {
            return None;
        }
        let (copy, stride) = (x.copy(r)?, x.u32(67));
        let at = stride_of(x.m.inst(copy))?;
        x.set(copy, at, stride)
    }),
    ("access-stride-missing", |x| {
        let copy = x.khr()?;
        let layout = x.inst(copy).id(if x.inst(copy).result.is_some() { 1 } else { 2 })?;
        // The packed layout may go without.
        if x.value(layout).is_none_or(|l| l == 2) {
            return None;
        }
        let at = x.stride_at(copy);
        x.m.inst_mut(copy).operands.truncate(at);
        Some(())
    }),
    ("access-stride-type", |x| {
        let (copy, one) = (x.khr()?, x.float());
        let at = x.stride_at(copy);
        x.set(copy, at, one)
    }),
    ("load-result-not-matrix", |x| {
        let copy = x.copy_of(Op::CooperativeMatrixLoadKHR)?;
        let float = x.scalar(F32);
        x.m.inst_mut(copy).ty = Some(float);
        Some(())
    }),
    ("load-stride-negative", |x| {
        let r = x.find(|_, i| i.op.is_matrix_load() && stride_of(i).is_some_and(|at| at < i.operands.len()))?;
        let copy = x.copy(r)?;
        let stride = x.constant(S32, (-64i32) as u32 as u64);
        let at = stride_of(x.m.inst(copy))?;
        x.set(copy, at, stride)
    }),
    ("store-object-not-matrix", |x| {
        let (copy, one) = (x.copy_of(Op::CooperativeMatrixStoreKHR)?, x.float());
        x.set(copy, 1, one)
    }),
    ("store-rows-overlap", |x| {
        // Lines of more than 16 bytes, 16 bytes apart.
        let stores = [Op::CooperativeMatrixStoreKHR, Op::CooperativeMatrixStoreNV];
        let r = x.find(|m, i| stores.contains(&i.op) && pointee_bytes(m, i).is_some())?;
        if is_khr(x.m.inst(r)) && x.inst(r).id(2).and_then(|layout| x.value(layout))? > 1 {
            return None;
        }
        let ty = x.any_type(x.m.type_of(x.inst(r).id(1)?)?)?;
        let line = x.value(ty.ids[3])?.min(x.value(ty.ids[2])?) * x.scalar_of(&ty)?.bytes();
        let unit = pointee_bytes(&x.m, x.m.inst(r))?;
        if line <= 16 || unit > 16 || 16 % unit != 0 {
            return None;
        }
        let (copy, stride) = (x.copy(r)?, x.u32(16 / unit));
        let at = stride_of(x.m.inst(copy))?;
        x.set(copy, at, stride)
    }),
    ("store-stride-not-positive", |x| {
        let r = x.find(|_, i| i.op.is_matrix_store() && stride_of(i).is_some_and(|at| at < i.operands.len()))?;
        let (copy, zero) = (x.copy(r)?, x.u32(0));
        let at = stride_of(x.m.inst(copy))?;
        x.set(copy, at, zero)
    }),
    ("memory-aligned-missing", |x| {
        let r = x.find(|m, i| {
            (is_access(i) || is_nv(i)) && pointer_storage(m, i) == Some(StorageClass::PhysicalStorageBuffer)
        })?;
        let copy = x.copy(r)?;
        x.memory(copy, 0, &[])
    }),
    ("memory-alignment-not-multiple", |x| {
        let physical =
            |m: &coop_ir::Module, i: &Inst| pointer_storage(m, i) == Some(StorageClass::PhysicalStorageBuffer);
        let r = x.find(|m, i| {
            (is_access(i) || is_nv(i)) && physical(m, i) && pointee_scalar(m, i).is_some_and(|s| s.bytes() > 1)
        })?;
        let copy = x.copy(r)?;
        x.memory(copy, MemoryAccess::Aligned.0, &[Operand::Word(1)])
    }),
    ("memory-alignment-not-power", |x| {
        let r = x.find(|m, i| {
            (is_access(i) || is_nv(i)) && pointer_storage(m, i) == Some(StorageClass::PhysicalStorageBuffer)
        })?;
        let copy = x.copy(r)?;
        x.memory(copy, MemoryAccess::Aligned.0, &[Operand::Word(24)])
    }),
    ("memory-load-available", |x| {
        let r = x.with_memory(Op::is_matrix_load)?;
        let (copy, scope) = (x.copy(r)?, x.u32(2));
        x.memory_and_aligned(copy, 0x28, &[scope.into()])
    }),
    ("memory-store-visible", |x| {
        let r = x.with_memory(Op::is_matrix_store)?;
        let (copy, scope) = (x.copy(r)?, x.u32(2));
        x.memory_and_aligned(copy, 0x30, &[scope.into()])
    }),
    ("memory-not-nonprivate", |x| {
        let r = x.with_memory(Op::is_matrix_load)?;
        let (copy, scope) = (x.copy(r)?, x.u32(2));
        x.memory_and_aligned(copy, 0x10, &[scope.into()])
    }),
    ("memory-operand-unknown", |x| {
        let r = x.find(|_, i| memory_of(i).is_some_and(|at| at <= i.operands.len()))?;
        let copy = x.copy(r)?;
        x.memory_and_aligned(copy, 0x4000, &[])
    }),
    ("memory-scope-not-constant", |x| {
        // In kernels scopes may be computed.
        let r = x.with_memory(Op::is_matrix_load).filter(|_| x.m.has_capability(Capability::Shader))?;
        let (copy, two) = (x.copy(r)?, x.u32(2));
        let scope = x.computed(copy, two)?;
        x.memory_and_aligned(copy, 0x30, &[scope.into()])
    }),
    ("memory-scope-unsupported", |x| {
        let r = x.with_memory(Op::is_matrix_load).filter(|_| x.m.has_capability(Capability::Shader))?;
        let (copy, scope) = (x.copy(r)?, x.u32(0));
        x.memory_and_aligned(copy, 0x30, &[scope.into()])
    }),
    ("nv1-access-type", |x| {
        let r = x.ops(&[Op::CooperativeMatrixLoadNV, Op::CooperativeMatrixStoreNV])?;
        let (copy, one) = (x.copy(r)?, x.float());
        let stride = if x.inst(copy).op == Op::CooperativeMatrixLoadNV { 1 } else { 2 };
        let at = x.e.pick(&[0, stride]);
        x.set(copy, at, one)
    }),
    ("nv1-column-major", |x| {
        let r = x.ops(&[Op::CooperativeMatrixLoadNV, Op::CooperativeMatrixStoreNV])?;
        let (copy, one) = (x.copy(r)?, x.u32(1));
        let at = if x.inst(copy).op == Op::CooperativeMatrixLoadNV { 2 } else { 3 };
        x.set(copy, at, one)
    }),
    ("nv1-storage-class", |x| {
        let r = x.ops(&[Op::CooperativeMatrixLoadNV, Op::CooperativeMatrixStoreNV])?;
        let (uint, copy) = (x.scalar(U32), x.copy(r)?);
        let array = x.array(uint, 4096);
        let variable = x.variable(StorageClass::Private, array);
        let (pointer, zero) = (x.g.pointer(&mut x.m, StorageClass::Private, uint), x.u32(0));
        let at = x.before(copy, Op::AccessChain, pointer, [variable, zero].map(Operand::Id))?;
        x.set(copy, 0, at)
    }),
    ("tensor-access-not-matrix", |x| {
        let r = x.ops(&[Op::CooperativeMatrixStoreTensorNV])?;
        let (copy, one) = (x.copy(r)?, x.float());
        x.set(copy, 1, one)
    }),
    ("tensor-object-type", |x| {
        let r = x.op(Op::CooperativeMatrixLoadTensorNV)?;
        let ty = x.mat(x.inst(r).id(1)?)?;
        let other = x.altered(ty, &[Edit::Rows(1)])?;
        let undef = x.undef(r, other)?;
        let copy = x.copy(r)?;
        x.set(copy, 1, undef)
    }),
    ("tensor-pointer-not-in-array", |x| {
        let r = x.find(|_, i| is_tensor(i) && addressing(i).is_some_and(|(_, mask)| mask & 2 == 0))?;
        let (uint, copy) = (x.scalar(U32), x.copy(r)?);
        let variable = x.variable(StorageClass::Workgroup, uint);
        x.set(copy, 0, variable)
    }),
    ("tensor-pointer-type", |x| {
        let r = x.find(|_, i| is_tensor(i))?;
        let (copy, one) = (x.copy(r)?, x.float());
        x.set(copy, 0, one)
    }),
    ("tensor-storage-class", |x| {
        let r = x.find(|_, i| is_tensor(i) && addressing(i).is_some_and(|(_, mask)| mask & 2 == 0))?;
        let (uint, copy) = (x.scalar(U32), x.copy(r)?);
        let array = x.array(uint, 4096);
        let variable = x.variable(StorageClass::Private, array);
        let (pointer, zero) = (x.g.pointer(&mut x.m, StorageClass::Private, uint), x.u32(0));
        let at = x.before(copy, Op::AccessChain, pointer, [variable, zero].map(Operand::Id))?;
        x.set(copy, 0, at)
    }),
];

fn is_khr(i: &Inst) -> bool {
    matches!(i.op, Op::CooperativeMatrixLoadKHR | Op::CooperativeMatrixStoreKHR)
}

fn is_nv(i: &Inst) -> bool {
    matches!(i.op, Op::CooperativeMatrixLoadNV | Op::CooperativeMatrixStoreNV)
}

/// Returns the index of the memory operands of a load or store with a stride.
fn memory_of(i: &Inst) -> Option<usize> {
    // Column Major stands between the stride and them.
    Some(stride_of(i)? + if is_nv(i) { 2 } else { 1 })
}

pub(super) fn is_tensor(i: &Inst) -> bool {
    matches!(i.op, Op::CooperativeMatrixLoadTensorNV | Op::CooperativeMatrixStoreTensorNV)
}

fn is_access(i: &Inst) -> bool {
    is_khr(i) || is_tensor(i)
}

/// The mask of a tensor access: where it is, and its value.
pub(super) fn addressing(i: &Inst) -> Option<(usize, u32)> {
    i.tensor_access().map(|a| (a.at, a.mask.0))
}

fn pointer_storage(m: &coop_ir::Module, i: &Inst) -> Option<StorageClass> {
    match Type::of(m, m.type_of(i.id(0)?)?)? {
        Type::Pointer { storage, .. } => Some(storage),
        _ => None,
    }
}

fn pointee_scalar(m: &coop_ir::Module, i: &Inst) -> Option<Scalar> {
    match Type::of(m, m.type_of(i.id(0)?)?)? {
        Type::Pointer { pointee, .. } => Some(coop_ir::types::scalar_or_vector(m, pointee)?.0),
        _ => None,
    }
}

fn pointee_bytes(m: &coop_ir::Module, i: &Inst) -> Option<u32> {
    match Type::of(m, m.type_of(i.id(0)?)?)? {
        Type::Pointer { pointee, .. } => coop_ir::types::packed_bytes(m, pointee),
        _ => None,
    }
}

impl Mutant<'_> {
    /// A matrix of floats of at least 4 x 4: an instruction behind which it is known, its type, and a pointer behind that
    /// instruction into a new shared array of `len` floats, to the one at `at`.
    fn shared_floats(&mut self, len: u32, at: u32) -> Option<(InstRef, Id, Id)> {
        let (r, _, ty) = self.matrix(|x, t| {
            let large = |id| x.value(id).is_some_and(|n| n >= 4);
            x.component(t) == Some(F32) && large(t.rows) && large(t.cols)
        })?;
        let float = self.scalar(F32);
        let array = self.array(float, len);
        let variable = self.variable(StorageClass::Workgroup, array);
        let (pointer, at) = (self.g.pointer(&mut self.m, StorageClass::Workgroup, float), self.u32(at));
        let chain = self.after(r, Op::AccessChain, pointer, &[variable, at])?;
        Some((r, ty.id, chain))
    }

    /// A copy of a plain load or store.
    fn khr(&mut self) -> Option<InstRef> {
        let r = self.find(|_, i| is_khr(i))?;
        self.copy(r)
    }

    fn layout(&mut self, layout: Id) -> Option<()> {
        let copy = self.khr()?;
        let at = self.stride_at(copy) - 1;
        self.set(copy, at, layout)
    }

    fn stride_at(&self, r: InstRef) -> usize {
        if self.m.inst(r).op == Op::CooperativeMatrixLoadKHR { 2 } else { 3 }
    }

    /// The variable behind access chains.
    fn root(&self, pointer: Id) -> Option<Id> {
        let root = coop_ir::pointers::root(&self.m, pointer, Op::is_member_chain)?;
        (self.m.def_inst(root)?.op == Op::Variable).then_some(root)
    }

    /// One of the instructions with these opcodes that has room for memory operands.
    fn with_memory(&mut self, wanted: fn(Op) -> bool) -> Option<InstRef> {
        let room = |i: &Inst| is_tensor(i) || memory_of(i).is_some_and(|at| at <= i.operands.len());
        self.find(|_, i| wanted(i.op) && room(i))
    }

    /// Other memory operands.
    fn memory(&mut self, r: InstRef, mask: u32, more: &[Operand]) -> Option<()> {
        let inst = self.inst(r);
        let new = [Operand::Word(mask)].into_iter().chain(more.iter().copied());
        let operands: Vec<Operand> = if is_tensor(&inst) {
            let (at, _) = addressing(&inst)?;
            inst.operands[..3].iter().copied().chain(new).chain(inst.operands[at..].iter().copied()).collect()
        } else {
            inst.operands.get(..memory_of(&inst)?)?.iter().copied().chain(new).collect()
        };
        self.m.inst_mut(r).operands = operands.into_iter().collect();
        Some(())
    }

    /// Other memory operands; what must be aligned stays so.
    fn memory_and_aligned(&mut self, r: InstRef, mask: u32, more: &[Operand]) -> Option<()> {
        if pointer_storage(&self.m, self.m.inst(r)) != Some(StorageClass::PhysicalStorageBuffer) {
            return self.memory(r, mask, more);
        }
        let all: Vec<Operand> = [Operand::Word(16)].into_iter().chain(more.iter().copied()).collect();
        self.memory(r, mask | MemoryAccess::Aligned.0, &all)
    }
}
