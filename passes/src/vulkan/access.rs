//! Rewrites loads, stores and copies of memory.

use super::Kernel;
use super::pointer_target::PointerTarget;
use crate::Refusal;
use coop_ir::spv::{MemoryAccess, StorageClass};
use coop_ir::types::{Scalar, Type};
use coop_ir::views::MemoryOperands;
use coop_ir::{Id, Inst, InstRef, Op, Operand};

/// A memory access: its pointer, alignment and flags.
#[derive(Clone, Copy, Debug)]
pub(super) struct Access {
    pub(super) place: PointerTarget,
    /// The address or the offset.
    pub(super) pointer: Id,
    /// A power of two that divides the pointer.
    pub(super) align: u64,
    /// The memory operand bits that are kept: Volatile and Nontemporal.
    pub(super) bits: u32,
}

/// The most pieces that a copy of bytes is split into.
const MOST_PIECES: u64 = 512;

/// The memory operand bits that describe the access itself.
const KEPT: u32 = MemoryAccess::Volatile.0 | MemoryAccess::Nontemporal.0;

impl Kernel<'_> {
    /// Records the widths and alignments at which an instruction accesses variables.
    pub(super) fn note_access(&mut self, r: InstRef) -> Result<(), Refusal> {
        let inst = self.m.inst(r).clone();
        match inst.op {
            Op::Load => self.note_type(r, inst.accessed(), inst.ty, &inst, 1),
            Op::Store => {
                let ty = inst.stored().and_then(|v| self.value_type(v));
                self.note_type(r, inst.accessed(), ty, &inst, 2)
            }
            Op::CopyMemory => {
                let ty = inst.copied().and_then(|(to, _)| self.pointer_types.get(&to)).and_then(|t| self.pointee(*t));
                self.note_type(r, inst.copied().map(|c| c.0), ty, &inst, 2)?;
                self.note_type(r, inst.copied().map(|c| c.1), ty, &inst, 2)
            }
            Op::CopyMemorySized => {
                let piece = self.piece(&inst).unwrap_or(1);
                let unit = Scalar::Int { width: piece as u32 * 8, signed: false };
                for p in inst.ids().take(2) {
                    if let Some(PointerTarget::FlatVariable(i)) = self.places.get(&p) {
                        self.roots[*i].note(unit, piece);
                    }
                }
                Ok(())
            }
            Op::ConvertFToBF16INTEL | Op::ConvertBF16ToFINTEL => {
                let width = if inst.op == Op::ConvertFToBF16INTEL { 32 } else { 16 };
                if let Some(PointerTarget::FlatVariable(i)) = inst.id(0).and_then(|p| self.places.get(&p)) {
                    let number =
                        if width == 32 { Scalar::Float { width } } else { Scalar::Int { width, signed: false } };
                    self.roots[*i].note(number, 16);
                }
                Ok(())
            }
            Op::CompositeConstruct => match inst.id(0).and_then(|p| self.places.get(&p)) {
                Some(PointerTarget::FlatVariable(_)) => {
                    let component = self.matrix_component(&inst);
                    self.note_type(r, inst.id(0), component, &inst, usize::MAX)
                }
                _ => Ok(()),
            },
            op if super::sync::is_atomic(op) => {
                let value = inst.ty.or_else(|| inst.id(3).and_then(|v| self.value_type(v)));
                self.note_type(r, inst.accessed(), value, &inst, usize::MAX)
            }
            op if super::matrix::accesses(op) => {
                let component = self.matrix_component(&inst);
                self.note_type(r, inst.accessed(), component, &inst, usize::MAX)
            }
            _ => Ok(()),
        }
    }

    fn note_type(
        &mut self,
        r: InstRef,
        pointer: Option<Id>,
        ty: Option<Id>,
        inst: &Inst,
        operands: usize,
    ) -> Result<(), Refusal> {
        let Some(PointerTarget::FlatVariable(root)) = pointer.and_then(|p| self.places.get(&p).copied()) else {
            return Ok(());
        };
        let align = aligned(inst, operands).unwrap_or(16);
        let leaves = ty.and_then(|t| self.layout.leaves(self.m, t, 1 << 12));
        let leaves = leaves.ok_or_else(|| self.no_layout(r))?;
        for leaf in leaves {
            let at = if leaf.offset == 0 { align } else { align.min(1 << leaf.offset.trailing_zeros()) };
            self.roots[root].note(leaf.scalar, at);
        }
        Ok(())
    }

    /// Returns the type that a value had before pointers became numbers.
    fn value_type(&self, id: Id) -> Option<Id> {
        self.pointer_types.get(&id).copied().or_else(|| self.m.type_of(self.now(id)))
    }

    /// Returns the access through a pointer, with the memory operands that begin at `operands`.
    pub(super) fn access(&mut self, pointer: Id, ty: Id, inst: &Inst, operands: usize) -> Option<Access> {
        let place = *self.places.get(&pointer)?;
        let natural = self.layout.leaves(self.m, ty, 1 << 12)?.iter().map(|l| l.scalar.bytes()).max();
        let align = aligned(inst, operands).unwrap_or(u64::from(natural.unwrap_or(1)));
        let bits = inst.word(operands).unwrap_or(0) & KEPT;
        let pointer = self.address(pointer, place);
        Some(Access { place, pointer, align, bits })
    }

    /// Returns the number that a pointer became.
    pub(super) fn address(&mut self, pointer: Id, place: PointerTarget) -> Id {
        let null = |op: Option<Op>| matches!(op, Some(Op::ConstantNull | Op::Undef));
        match place {
            PointerTarget::FlatVariable(i) if self.roots[i].was == pointer => self.u32(0),
            PointerTarget::FlatVariable(_) if null(self.m.def_inst(pointer).map(|i| i.op)) => self.u32(u32::MAX),
            PointerTarget::Global if null(self.m.def_inst(pointer).map(|i| i.op)) => self.u64(0),
            _ => self.now(pointer),
        }
    }

    pub(super) fn rewrite_load(&mut self, r: InstRef) -> Result<(), Refusal> {
        let inst = self.m.inst(r).clone();
        let (Some(pointer), Some(ty)) = (inst.accessed(), inst.ty) else { return Err(self.no_layout(r)) };
        match self.places.get(&pointer).copied() {
            None => self.keep(r),
            Some(PointerTarget::BuiltIn(variable)) => return self.rewrite_built_in(r, variable, pointer),
            Some(PointerTarget::Matrix) => self.rewrite_matrix_load(r)?,
            Some(_) => {
                let access = self.access(pointer, ty, &inst, 1).ok_or_else(|| self.no_layout(r))?;
                let value = self.load(access, ty).ok_or_else(|| self.no_layout(r))?;
                self.replace_result(r, value);
            }
        }
        Ok(())
    }

    pub(super) fn rewrite_store(&mut self, r: InstRef) -> Result<(), Refusal> {
        let inst = self.m.inst(r).clone();
        let (Some(pointer), Some(value)) = (inst.accessed(), inst.stored()) else { return Err(self.no_layout(r)) };
        match self.places.get(&pointer).copied() {
            None | Some(PointerTarget::BuiltIn(_)) => self.keep(r),
            Some(PointerTarget::Matrix) => self.rewrite_matrix_store(r)?,
            Some(_) => {
                let ty = self.value_type(value).ok_or_else(|| self.no_layout(r))?;
                let access = self.access(pointer, ty, &inst, 2).ok_or_else(|| self.no_layout(r))?;
                let value = match self.places.get(&value).copied() {
                    Some(place) => self.address(value, place),
                    None => self.now(value),
                };
                self.store(access, ty, value).ok_or_else(|| self.no_layout(r))?;
            }
        }
        Ok(())
    }

    pub(super) fn rewrite_copy(&mut self, r: InstRef) -> Result<(), Refusal> {
        let inst = self.m.inst(r).clone();
        let Some((to, from)) = inst.copied() else { return Err(self.no_layout(r)) };
        let (ty, count, step) = if inst.op == Op::CopyMemory {
            let ty = self.pointer_types.get(&to).and_then(|t| self.pointee(*t)).ok_or_else(|| self.no_layout(r))?;
            (ty, 1, 0)
        } else {
            let piece = self.piece(&inst).filter(|p| *p > 0);
            let size = inst.id(2).and_then(|s| self.layout.constant(s));
            let (Some(piece), Some(size)) = (piece, size.filter(|s| *s <= MOST_PIECES * piece.unwrap_or(1))) else {
                let why = "a copy of memory whose length is not a constant, or is long";
                return Err(Refusal::new("refused-vulkan-copy", Some(r), why, "write a loop"));
            };
            (self.g.uint(self.m, piece as u32 * 8), size / piece, piece)
        };
        let operands = if inst.op == Op::CopyMemory { 2 } else { 3 };
        let write = self.access(to, ty, &inst, operands).ok_or_else(|| self.no_layout(r))?;
        let read = self.access(from, ty, &inst, operands).ok_or_else(|| self.no_layout(r))?;
        for i in 0..count {
            let at = self.further(read, i * step);
            let value = self.load(at, ty).ok_or_else(|| self.no_layout(r))?;
            let place = self.further(write, i * step);
            self.store(place, ty, value).ok_or_else(|| self.no_layout(r))?;
        }
        Ok(())
    }

    /// Returns the bytes that a copy moves at a time.
    fn piece(&self, inst: &Inst) -> Option<u64> {
        let size = inst.id(2).and_then(|s| self.layout.constant(s))?;
        let align = aligned(inst, 3).unwrap_or(1);
        let whole = if size == 0 { 1 } else { 1 << size.trailing_zeros() };
        Some(align.min(whole).min(4))
    }

    /// Returns the access advanced by some bytes.
    fn further(&mut self, access: Access, by: u64) -> Access {
        if by == 0 {
            return access;
        }
        let width = if access.place == PointerTarget::Global { 64 } else { 32 };
        let align = access.align.min(1 << by.trailing_zeros());
        Access { pointer: self.plus(width, access.pointer, by), align, ..access }
    }

    /// Loads a value of any type; a pointer as the number that it became. `None` for types without a layout.
    pub(super) fn load(&mut self, access: Access, ty: Id) -> Option<Id> {
        if matches!(Type::of(self.m, ty)?, Type::Pointer { .. }) {
            let word = self.u64_type();
            return self.load(access, word);
        }
        match self.shape(ty) {
            Some((scalar, 1)) => self.load_number(access, ty, scalar),
            Some((scalar, _)) if self.whole(access, scalar) => Some(self.load_global(access, ty)),
            _ => {
                let parts = self.layout.parts(self.m, ty)?;
                let mut values = Vec::with_capacity(parts.len());
                for (part, offset) in parts {
                    let at = self.further(access, offset);
                    values.push(self.load(at, part)?);
                }
                Some(self.ids(Op::CompositeConstruct, ty, &values))
            }
        }
    }

    /// Returns true if numbers are loaded and stored whole, in memory of the device.
    fn whole(&self, access: Access, scalar: Scalar) -> bool {
        access.place == PointerTarget::Global && access.align >= u64::from(scalar.bytes())
    }

    /// Stores a value of any type.
    pub(super) fn store(&mut self, access: Access, ty: Id, value: Id) -> Option<()> {
        if matches!(Type::of(self.m, ty)?, Type::Pointer { .. }) {
            let word = self.u64_type();
            return self.store(access, word, value);
        }
        match self.shape(ty) {
            Some((scalar, 1)) => self.store_number(access, scalar, value),
            Some((scalar, _)) if self.whole(access, scalar) => {
                self.store_global(access, ty, value);
                Some(())
            }
            _ => {
                for (i, (part, offset)) in self.layout.parts(self.m, ty)?.into_iter().enumerate() {
                    let piece = self.op(Op::CompositeExtract, part, [value.into(), Operand::Word(i as u32)]);
                    let at = self.further(access, offset);
                    self.store(at, part, piece)?;
                }
                Some(())
            }
        }
    }

    /// Returns the number of bytes moved at once.
    fn stride(&self, access: Access, scalar: Scalar) -> u64 {
        match access.place {
            PointerTarget::FlatVariable(i) => self.roots[i].unit_bytes(),
            _ => access.align.min(u64::from(scalar.bytes())),
        }
    }

    fn load_number(&mut self, access: Access, ty: Id, scalar: Scalar) -> Option<Id> {
        let step = self.stride(access, scalar);
        let bytes = u64::from(scalar.bytes());
        if step >= bytes {
            let value = self.load_unit(access, scalar)?;
            return Some(self.cast(value, ty));
        }
        let piece = Scalar::Int { width: step as u32 * 8, signed: false };
        let mut values = Vec::new();
        for i in 0..bytes / step {
            let at = self.further(access, i * step);
            values.push(self.load_unit(at, piece)?);
        }
        Some(self.joined(values, piece, ty))
    }

    fn store_number(&mut self, access: Access, scalar: Scalar, value: Id) -> Option<()> {
        let step = self.stride(access, scalar);
        let bytes = u64::from(scalar.bytes());
        if step >= bytes {
            return self.store_unit(access, scalar, value);
        }
        let piece = Scalar::Int { width: step as u32 * 8, signed: false };
        for (i, part) in self.split_number(value, piece, (bytes / step) as u32).into_iter().enumerate() {
            let at = self.further(access, i as u64 * step);
            self.store_unit(at, piece, part)?;
        }
        Some(())
    }

    /// Joins narrower numbers into one, the lowest first.
    fn joined(&mut self, values: Vec<Id>, piece: Scalar, ty: Id) -> Id {
        let elem = self.g.scalar(self.m, piece);
        if values.len() > 4 {
            let word = self.u32_type();
            let halves: Vec<Id> = values.chunks(4).map(|c| self.joined(c.to_vec(), piece, word)).collect();
            let vector = self.g.vector(self.m, word, 2);
            let both = self.ids(Op::CompositeConstruct, vector, &halves);
            return self.ids(Op::Bitcast, ty, &[both]);
        }
        let vector = self.g.vector(self.m, elem, values.len() as u32);
        let all = self.ids(Op::CompositeConstruct, vector, &values);
        self.ids(Op::Bitcast, ty, &[all])
    }

    /// Splits a number into narrower ones, the lowest first.
    fn split_number(&mut self, value: Id, piece: Scalar, count: u32) -> Vec<Id> {
        let elem = self.g.scalar(self.m, piece);
        if count > 4 {
            let word = self.u32_type();
            let vector = self.g.vector(self.m, word, 2);
            let both = self.ids(Op::Bitcast, vector, &[value]);
            let halves: Vec<Id> =
                (0..2u32).map(|i| self.op(Op::CompositeExtract, word, [both.into(), Operand::Word(i)])).collect();
            return halves.into_iter().flat_map(|h| self.split_number(h, piece, count / 2)).collect();
        }
        let vector = self.g.vector(self.m, elem, count);
        let all = self.ids(Op::Bitcast, vector, &[value]);
        (0..count).map(|i| self.op(Op::CompositeExtract, elem, [all.into(), Operand::Word(i)])).collect()
    }

    /// Loads one unit: of a variable as the type of its units, otherwise as the requested number.
    fn load_unit(&mut self, access: Access, scalar: Scalar) -> Option<Id> {
        match access.place {
            PointerTarget::FlatVariable(i) => {
                let pointer = self.unit_pointer(i, access.pointer)?;
                let ty = self.unit_type(i);
                let operands = self.variable_operands(i, access.bits);
                Some(self.op(Op::Load, ty, [Operand::Id(pointer)].into_iter().chain(operands)))
            }
            _ => {
                let ty = self.g.scalar(self.m, scalar);
                Some(self.load_global(access, ty))
            }
        }
    }

    fn store_unit(&mut self, access: Access, scalar: Scalar, value: Id) -> Option<()> {
        match access.place {
            PointerTarget::FlatVariable(i) => {
                let pointer = self.unit_pointer(i, access.pointer)?;
                let ty = self.unit_type(i);
                let value = self.cast(value, ty);
                let operands = self.variable_operands(i, access.bits);
                self.effect(Op::Store, [pointer, value].map(Operand::Id).into_iter().chain(operands));
            }
            _ => {
                let ty = self.g.scalar(self.m, scalar);
                let value = self.cast(value, ty);
                self.store_global(access, ty, value);
            }
        }
        Some(())
    }

    /// Shared memory is visible to other invocations, so its accesses are not private.
    fn variable_operands(&self, root: usize, bits: u32) -> Option<Operand> {
        let shared = self.roots[root].storage == StorageClass::Workgroup;
        let bits = bits | if shared { MemoryAccess::NonPrivatePointer.0 } else { 0 };
        (bits != 0).then_some(Operand::Word(bits))
    }

    fn global_operands(access: Access) -> [Operand; 2] {
        let bits = access.bits | MemoryAccess::Aligned.0 | MemoryAccess::NonPrivatePointer.0;
        [Operand::Word(bits), Operand::Word(access.align.clamp(1, 1 << 16) as u32)]
    }

    fn load_global(&mut self, access: Access, ty: Id) -> Id {
        let pointer = self.global_pointer(access.pointer, ty);
        self.op(Op::Load, ty, [Operand::Id(pointer)].into_iter().chain(Self::global_operands(access)))
    }

    fn store_global(&mut self, access: Access, ty: Id, value: Id) {
        let pointer = self.global_pointer(access.pointer, ty);
        let operands = [pointer, value].map(Operand::Id);
        self.effect(Op::Store, operands.into_iter().chain(Self::global_operands(access)));
    }

    /// Makes a pointer to a value in memory of the device.
    pub(super) fn global_pointer(&mut self, address: Id, ty: Id) -> Id {
        let pointer = self.g.pointer(self.m, StorageClass::PhysicalStorageBuffer, ty);
        self.ids(Op::ConvertUToPtr, pointer, &[address])
    }
}

/// Returns the alignment in the memory operands that begin at an operand.
pub(super) fn aligned(inst: &Inst, operands: usize) -> Option<u64> {
    MemoryOperands::at(inst, operands).alignment().map(u64::from)
}
