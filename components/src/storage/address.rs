//! Memory at device addresses that holds narrow numbers.
//!
//! Every pointer to such memory becomes a pointer to words under the same type id: it is passed, chosen and stored as before. What is
//! accessed follows from the type that the pointer had. An access chain becomes a sum of the address and of bytes, modulo 2^64; the
//! elements that `OpPtrAccessChain` counts have the stride of the pointer's type. Where the address of an access need not be one of a
//! word, which its alignment says, or the numbers there where it says none, the access begins with the word that it is in.
//!
//! Refuses: comparisons and differences of such pointers, which SPIR-V has for no memory at device addresses.

use super::layout::Layout;
use super::number::as_u32;
use super::place::Place;
use super::{Buffer, LONG, Storage};
use crate::Lacks;
use crate::address_casts;
use crate::long::pair::{Code, Pair};
use crate::long::vectors;
use crate::parts::{MadeOf, numbers, parts};
use coop_ir::builder::{FunctionBuilder, Globals, add_global};
use coop_ir::hash::FxHashMap;
use coop_ir::rewrite::remove_globals;
use coop_ir::spv::{Decoration, StorageClass};
use coop_ir::types::{self, Scalar, Type};
use coop_ir::views::MemoryOperands;
use coop_ir::{Id, Inst, InstRef, Module, Op, Operand};

/// Pointers to memory at device addresses that becomes words.
pub(super) struct Addresses {
    /// The types that pointers point to, by the type of the pointer.
    pointees: FxHashMap<Id, Id>,
    /// The memory.
    pub(super) buffer: Buffer,
    /// The type of pointers to a block of words.
    words: Id,
    code: Code,
}

/// Finds the types of pointers to numbers that the device does not access by address, or that have atomic operations that it lacks, with
/// what they point to.
pub(super) fn pointees(m: &Module, lacks: Lacks, atomics: &[Scalar]) -> FxHashMap<Id, Id> {
    let class = StorageClass::PhysicalStorageBuffer;
    let narrow = |m: &Module, s: Scalar| s.width() < 32 && (lacks.storage(class, s) || lacks.in_software(m, s));
    let mut needing = MadeOf::numbers(|m, s| narrow(m, s) || atomics.contains(&s));
    let mut long_vectors = vectors::made_of();
    let pointer = |r: InstRef| match Type::of_inst(m.inst(r)) {
        Some(Type::Pointer { storage, pointee }) if storage == class => {
            let vectors = lacks.in_software(m, LONG) && long_vectors.any(m, pointee);
            (vectors || needing.any(m, pointee)).then_some((m.inst(r).result?, pointee))
        }
        _ => None,
    };
    m.globals.iter().copied().filter_map(pointer).collect()
}

impl Addresses {
    pub(super) fn new(m: &mut Module, g: &mut Globals, pointees: FxHashMap<Id, Id>) -> Addresses {
        let class = StorageClass::PhysicalStorageBuffer;
        let (uint, bool) = (g.uint(m, 32), g.bool(m));
        let code = Code::new(uint, bool, g.vector(m, uint, 2));
        let buffer = Buffer {
            class,
            block: uint,
            descriptors: None,
            len: None,
            words: 1,
            buffer_block: false,
            parts_written: false,
            plain: false,
            own: false,
        };
        let mut addresses = Addresses { pointees, buffer, words: uint, code };
        addresses.buffer.parts_written = addresses.stores(m);
        addresses
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pointees.is_empty()
    }

    /// Returns what a pointer to such memory points to.
    pub(super) fn pointee(&self, m: &Module, pointer: Id) -> Option<Id> {
        self.pointees.get(&m.type_of(pointer)?).copied()
    }

    /// Returns true if numbers are written through such pointers.
    fn stores(&self, m: &Module) -> bool {
        let mut any = false;
        m.in_blocks(|_, i| {
            let writes = i.op == Op::Store || i.op.is_atomic();
            let target = i.copied().map(|(target, _)| target).or_else(|| i.accessed().filter(|_| writes));
            any |= target.is_some_and(|pointer| self.pointee(m, pointer).is_some());
        });
        any
    }

    /// Returns true if an instruction accesses such memory, or derives a pointer from one.
    pub(super) fn reaches(&self, m: &Module, i: &Inst) -> bool {
        let far = |id: Id| self.pointee(m, id).is_some();
        if self.is_empty() {
            return false;
        }
        match i.copied() {
            Some((target, source)) => far(target) || far(source),
            // Instructions of GLSL store through pointers, and a difference counts what they point to.
            None if i.op.is_ext_inst() || compares_pointers(i.op) => i.ids().any(far),
            None => i.accessed().or_else(|| i.access_chain().map(|c| c.base)).is_some_and(far),
        }
    }

    /// Makes the pointers those to words.
    pub(super) fn retype(&mut self, m: &mut Module, g: &mut Globals, layout: &Layout, block: Id) {
        if self.is_empty() {
            return;
        }
        address_casts::require(m);
        let reached = parts(m, self.pointees.values().copied());
        for d in [Decoration::Coherent, Decoration::Volatile] {
            if reached.iter().any(|ty| layout.decorations.members(*ty).any(|(_, of)| of.decoration == d)) {
                let operands = [Operand::Id(block), 0.into(), d.into()];
                add_global(m, Inst::new(Op::MemberDecorate, None, None, operands));
            }
        }
        for (pointer, pointee) in &self.pointees {
            if let Some(r) = m.def(*pointer) {
                m.inst_mut(r).map_ids(|id| if id == *pointee { block } else { id });
            }
        }
        remove_globals(m, |m, r| {
            let d = m.inst(r).decoration();
            d.is_some_and(|(id, d)| d == Decoration::ArrayStride && self.pointees.contains_key(&id))
        });
        self.words = g.pointer(m, StorageClass::PhysicalStorageBuffer, block);
    }

    /// Returns the place that a pointer points to, for an access with memory operands.
    pub(super) fn place(&self, b: &mut FunctionBuilder<'_>, pointer: Id, memory: &[Operand]) -> Option<Place> {
        let pointee = self.pointee(b.module, pointer)?;
        let operands = Inst::new(Op::Load, None, None, memory.iter().copied());
        // Where no alignment is stated, as of atomic operations, a number lies at a multiple of its size.
        let natural = || numbers(b.module, pointee).iter().map(|s| s.bytes()).max().unwrap_or(1);
        let align = MemoryOperands::at(&operands, 0).alignment().unwrap_or_else(natural).min(4);
        let uint = self.code.uint;
        if align == 4 {
            return Some(Place::new(b.module, pointer, false, pointee));
        }
        let whole = self.pair(b, pointer);
        let low = self.code.with(b, Op::BitwiseAnd, whole.low, !3);
        let rest = self.code.with(b, Op::BitwiseAnd, whole.low, 3);
        let count = self.code.with(b, Op::ShiftRightLogical, rest, align.trailing_zeros());
        let vector = self.code.vector(b, Pair { low, ..whole });
        let base = b.ids(Op::Bitcast, self.words, &[vector]);
        debug_assert_eq!(b.module.type_of(count), Some(uint));
        let mut place = Place::new(b.module, base, false, pointee);
        place.add(count, align, 1);
        Some(place)
    }

    /// Returns the words of an address.
    fn pair(&self, b: &mut FunctionBuilder<'_>, pointer: Id) -> Pair {
        let vector = b.ids(Op::Bitcast, self.code.vector, &[pointer]);
        self.code.parts(b, vector)
    }

    /// Returns so many bytes for each that an index counts. Indices are signed.
    fn bytes(&mut self, b: &mut FunctionBuilder<'_>, index: Id, stride: u32) -> Pair {
        let ty = b.module.type_of(index);
        let count = match ty.and_then(|ty| types::scalar(b.module, ty)) {
            Some(Scalar::Int { width: 64, .. }) => self.pair(b, index),
            _ => {
                let low = as_u32(b, index);
                Pair { low, high: self.code.with(b, Op::ShiftRightArithmetic, low, 31) }
            }
        };
        if stride == 1 {
            return count;
        }
        let stride = self.code.constant(b, stride.into());
        self.code.mul(b, count, stride)
    }
}

impl Storage {
    /// Computes the address that an access chain gives.
    pub(super) fn address(&mut self, b: &mut FunctionBuilder<'_>, r: InstRef, i: &Inst) -> Result<(), String> {
        let Some(chain) = i.access_chain() else { return Ok(()) };
        let Some(pointee) = self.addresses.pointee(b.module, chain.base) else { return Ok(()) };
        let mut place = Place::new(b.module, chain.base, false, pointee);
        place.follow(b.module, &self.layout, i)?;
        let mut sum = self.addresses.pair(b, chain.base);
        if place.constant > 0 {
            let constant = self.addresses.code.constant(b, place.constant.into());
            sum = self.addresses.code.add(b, sum, constant);
        }
        for (index, stride) in place.terms {
            let bytes = self.addresses.bytes(b, index, stride);
            sum = self.addresses.code.add(b, sum, bytes);
        }
        let vector = self.addresses.code.vector(b, sum);
        b.module.replace(r, Inst::new(Op::Bitcast, i.ty, i.result, [vector.into()]));
        b.keep(r);
        Ok(())
    }
}

/// Returns true if an instruction compares pointers, or computes their difference.
pub(super) fn compares_pointers(op: Op) -> bool {
    op == Op::PtrDiff || matches!(op, Op::PtrEqual | Op::PtrNotEqual)
}
