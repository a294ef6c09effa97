//! Atomic operations on numbers that share a word with others, and on floats where the device has no such operation.
//!
//! Invariants:
//!
//! 1. One atomic operation of the module is one compare-exchange of the whole word that succeeds: no other invocation sees a state between.
//! 2. That compare-exchange has the scope and the semantics of the operation. The attempts that fail, and the load before the first, order
//!    nothing.
//! 3. Bits of the word that are not the number's are stored as they were read. If a neighbor was written since, the compare-exchange fails,
//!    and the next attempt begins with what it read.
//! 4. The result is the number as it was in the word that the compare-exchange replaced.
//!
//! The loop is in a function, so that the block that an operation is in stays one block: it may begin a loop, or be named by phis.

use super::access::Words;
use super::layout::Layout;
use super::number::{from_bits, shifted, to_bits};
use super::place::Place;
use super::{Buffer, pointee};
use crate::emit::glsl;
use crate::{Lacks, Refusal};
use coop_ir::builder::{FunctionBuilder, Index, decorate};
use coop_ir::hash::FxHashSet;
use coop_ir::spv::{Decoration, GlslStd450 as Glsl, MemorySemantics, StorageClass};
use coop_ir::types::{self, Scalar, storage_of};
use coop_ir::{Id, Inst, Module, Op, Operand};

/// Why there is no lowering for what more than a word has.
pub(crate) const NOT_AT_ONCE: &str = "two words can't be exchanged at once";

/// The memory with atomic operations that the device lacks, which becomes words for that.
#[derive(Default)]
pub(super) struct Lacking {
    /// The variables.
    pub(super) variables: FxHashSet<Id>,
    /// The types of the numbers at device addresses.
    pub(super) numbers: Vec<Scalar>,
}

/// The function for an atomic operation on numbers of a type.
#[derive(PartialEq, Eq, Hash)]
pub(super) struct Key {
    /// The variable; `None` at an address.
    variable: Option<Id>,
    /// The type of the index of the descriptor.
    descriptor: Option<Id>,
    non_uniform: bool,
    op: Op,
    ty: Id,
    scope: Id,
    semantics: Id,
}

/// Returns the number that an atomic operation is on, with the storage class, if the device lacks the operation.
fn lacking(m: &Module, lacks: Lacks, i: &Inst) -> Option<(StorageClass, Scalar)> {
    let pointer = i.accessed().filter(|_| i.op.is_atomic())?;
    let (scalar, _) = types::scalar_or_vector(m, pointee(m, pointer)?)?;
    let class = storage_of(m, pointer)?;
    let lacks = |class: StorageClass| lacks.atomic(m, class, i.op, scalar);
    let image = class == StorageClass::Image && lacks(StorageClass::StorageBuffer) && lacks(StorageClass::Workgroup);
    (image || lacks(class)).then_some((class, scalar))
}

/// Returns true if a module has an atomic operation on floats that the device lacks.
pub(crate) fn lacks_any(m: &Module, lacks: Lacks) -> bool {
    let mut any = false;
    m.in_blocks(|_, i| any |= lacking(m, lacks, i).is_some());
    any
}

/// Finds the memory with atomic operations that the device lacks.
pub(super) fn find(m: &Module, lacks: Lacks) -> Result<Lacking, Refusal> {
    let mut found = Lacking::default();
    for r in m.functions.iter().flat_map(|f| f.insts()) {
        let i = m.inst(r);
        let Some((class, scalar)) = lacking(m, lacks, i) else { continue };
        if class == StorageClass::PhysicalStorageBuffer {
            found.numbers.push(scalar);
            continue;
        }
        let root = i.accessed().and_then(|pointer| coop_ir::pointers::root(m, pointer, Op::derives_pointer));
        let variable = root.filter(|id| m.def_inst(*id).is_some_and(|i| i.op == Op::Variable));
        let why = match variable {
            Some(variable) if class != StorageClass::Image => {
                found.variables.insert(variable);
                continue;
            }
            _ if class == StorageClass::Image => "in an image, which no words can stand for",
            _ => "through a pointer that no variable is known of",
        };
        let why = format!("{} on {scalar}, which the device lacks, goes {why}", i.op);
        return Err(Refusal::new(r, why, "access a variable directly, by access chains from it"));
    }
    Ok(found)
}

impl Words {
    /// Emits an atomic operation. Returns its result.
    pub(super) fn atomic(
        &mut self,
        b: &mut FunctionBuilder<'_>,
        layout: &Layout,
        buffer: &Buffer,
        place: &Place,
        i: &Inst,
    ) -> Result<Option<Id>, String> {
        let ty = place.at.ty;
        // Loads, stores and exchanges move bits.
        let moves = i.op.info().is_none_or(|i| i.capabilities.is_empty());
        match types::scalar(b.module, ty) {
            Some(s) if s.width() == 32 && (s.is_int() || moves) => self.atomic_on_word(b, buffer, place, i),
            Some(s) if s.width() < 32 && i.op == Op::AtomicLoad => self.atomic_load(b, buffer, place, i, s).map(Some),
            Some(s) if matches!(s.width(), 8 | 16 | 32) => self.atomic_loop(b, layout, buffer, place, i, s),
            Some(s) if s.width() == 64 => Err(format!("{} on {s} has no lowering: {NOT_AT_ONCE}", i.op)),
            _ => {
                let vector = types::scalar_or_vector(b.module, ty);
                let what =
                    vector.map_or_else(|| "another type".to_owned(), |(s, len)| format!("a vector of {len} {s}"));
                Err(format!("{} on {what} has no lowering: {NOT_AT_ONCE}", i.op))
            }
        }
    }

    /// Emits an atomic operation on the words that numbers of 32 bits are.
    fn atomic_on_word(
        &self,
        b: &mut FunctionBuilder<'_>,
        buffer: &Buffer,
        place: &Place,
        i: &Inst,
    ) -> Result<Option<Id>, String> {
        let mut access = self.access(buffer, place, Vec::new())?;
        let word = access.word(b, 0);
        let pointer = self.pointer(b, &access, word);
        // The operands behind the pointer are scopes, semantics and values: values become words.
        let values = i.atomic_operands().map_or(usize::MAX, |(_, _, values)| values);
        let mut operands = vec![Operand::Id(pointer)];
        for (n, o) in i.operands.iter().enumerate().skip(1) {
            let value = o.id().filter(|_| n >= values && place.at.ty != self.uint);
            operands.push(value.map_or(*o, |id| b.ids(Op::Bitcast, self.uint, &[id]).into()));
        }
        if i.result.is_none() {
            b.effect(i.op, operands);
            return Ok(None);
        }
        let old = b.op(i.op, self.uint, operands);
        Ok(Some(if place.at.ty == self.uint { old } else { b.ids(Op::Bitcast, place.at.ty, &[old]) }))
    }

    /// Loads the word of a number, in the order that the module's load has.
    fn atomic_load(
        &self,
        b: &mut FunctionBuilder<'_>,
        buffer: &Buffer,
        place: &Place,
        i: &Inst,
        s: Scalar,
    ) -> Result<Id, String> {
        let mut access = self.access(buffer, place, Vec::new())?;
        let spot = access.spot(b, 0, s)?;
        let pointer = self.pointer(b, &access, spot.word);
        let operands = [Operand::Id(pointer)].into_iter().chain(i.operands.iter().copied().skip(1));
        let word = b.op(i.op, self.uint, operands);
        let bits = shifted(b, Op::ShiftRightLogical, word, spot.shift);
        Ok(from_bits(b, bits, place.at.ty, s))
    }

    /// Calls the function that compares and exchanges the word of a number until nobody else wrote it between.
    fn atomic_loop(
        &mut self,
        b: &mut FunctionBuilder<'_>,
        layout: &Layout,
        buffer: &Buffer,
        place: &Place,
        i: &Inst,
        s: Scalar,
    ) -> Result<Option<Id>, String> {
        let (scope, semantics, values) = i.atomic_operands().ok_or_else(|| format!("{} has no scope", i.op))?;
        let mut access = self.access(buffer, place, Vec::new())?;
        let spot = access.spot(b, 0, s)?;
        let at_address = buffer.class == StorageClass::PhysicalStorageBuffer;
        let key = Key {
            variable: Some(place.variable).filter(|_| !at_address),
            descriptor: place.descriptor.and_then(|id| b.module.type_of(id)),
            non_uniform: place.non_uniform,
            op: i.op,
            ty: place.at.ty,
            scope,
            semantics,
        };
        let mut arguments = Vec::new();
        if at_address {
            arguments.push(self.pointer(b, &access, spot.word));
        } else {
            arguments.push(b.index(spot.word));
            arguments.extend(place.descriptor);
        }
        if s.width() < 32 {
            arguments.push(b.index(spot.shift));
        }
        arguments.extend(i.ids_from(values));
        let types: Vec<Id> = arguments.iter().filter_map(|id| b.module.type_of(*id)).collect();
        if types.len() != arguments.len() {
            return Err(format!("an operand of {} has no type", i.op));
        }
        let callee = match self.atomics.get(&key) {
            Some(callee) => *callee,
            None => {
                let callee = self.atomic_function(b, layout, (buffer, place), &key, &types, s)?;
                self.atomics.insert(key, callee);
                callee
            }
        };
        let operands: Vec<Id> = [callee].into_iter().chain(arguments).collect();
        Ok(Some(b.ids(Op::FunctionCall, place.at.ty, &operands)))
    }

    /// Makes the function for atomic operations on numbers of a type. Its parameters are the pointer to the word, or its index and that of
    /// the descriptor, the lowest bit of the number in the word, and the values.
    fn atomic_function(
        &self,
        b: &mut FunctionBuilder<'_>,
        layout: &Layout,
        (buffer, place): (&Buffer, &Place),
        key: &Key,
        types: &[Id],
        s: Scalar,
    ) -> Result<Id, String> {
        let Some(semantics) = layout.fixed(key.semantics) else {
            return Err(format!("{} has semantics that are not a constant, and", key.op));
        };
        let volatile = MemorySemantics(semantics) & MemorySemantics::Volatile;
        let (ty, uint) = (place.at.ty, self.uint);
        let name = format!("coop_{}_{s}", key.op.name().unwrap_or_default());
        let mut inner = FunctionBuilder::new(b.module, b.globals, &name, ty, types);
        let b = &mut inner;
        let mut params = (0..types.len()).map(|n| b.param(n)).collect::<Vec<_>>().into_iter();
        let mut param = || params.next().ok_or("a parameter is missing");
        let pointer = match key.variable {
            None => {
                let pointer = param()?;
                // It points to memory that other pointers point to.
                decorate(b.module, pointer, Decoration::Aliased, &[]);
                pointer
            }
            Some(variable) => {
                let word = Index::Value(param()?);
                let mut whole = Place::new(b.module, variable, false, ty);
                whole.descriptor = key.descriptor.map(|_| param()).transpose()?;
                whole.non_uniform = key.non_uniform;
                let access = self.access(buffer, &whole, Vec::new())?;
                self.pointer(b, &access, word)
            }
        };
        let shift = if s.width() < 32 { Index::Value(param()?) } else { Index::Const(0) };
        let values: Vec<Id> = params.collect();
        let relaxed = b.u32(volatile.0);
        let number = |b: &mut FunctionBuilder<'_>, word: Id| {
            let bits = shifted(b, Op::ShiftRightLogical, word, shift);
            if s.width() == 32 { b.ids(Op::Bitcast, ty, &[bits]) } else { from_bits(b, bits, ty, s) }
        };
        let ones = b.u32(u32::MAX >> (32 - s.width()));
        let mask = shifted(b, Op::ShiftLeftLogical, ones, shift);
        let others = b.ids(Op::Not, uint, &[mask]);
        let bool = b.globals.bool(b.module);
        let first = b.ids(Op::AtomicLoad, uint, &[pointer, key.scope, relaxed]);
        let mut unknown = false;
        // The word that the last attempt began with is the one that it replaced.
        let replaced = b.until(&[uint], &[first], &mut |b, old| {
            let old = old[0];
            let value = number(b, old);
            let new = combined(b, key.op, (ty, s), value, &values);
            unknown |= new.is_none();
            let new = new.unwrap_or(value);
            let word = if s.width() == 32 {
                b.ids(Op::Bitcast, uint, &[new])
            } else {
                let bits = to_bits(b, new, ty, s);
                let bits = shifted(b, Op::ShiftLeftLogical, bits, shift);
                let rest = b.ids(Op::BitwiseAnd, uint, &[old, others]);
                b.ids(Op::BitwiseOr, uint, &[rest, bits])
            };
            let operands = [pointer, key.scope, key.semantics, relaxed, word, old];
            let seen = b.ids(Op::AtomicCompareExchange, uint, &operands);
            (b.ids(Op::IEqual, bool, &[seen, old]), vec![seen])
        });
        if unknown {
            return Err(format!("{} on {s} in memory that is accessed by words has no lowering", key.op));
        }
        let result = number(b, replaced[0]);
        Ok(inner.finish(Some(result)))
    }
}

/// Emits the number that an atomic operation stores, from the one that is there and the operands. `None` if the operation is not known.
fn combined(b: &mut FunctionBuilder<'_>, op: Op, (ty, s): (Id, Scalar), old: Id, values: &[Id]) -> Option<Id> {
    let given = values.first().copied();
    let one = |b: &mut FunctionBuilder<'_>| b.globals.constant_of(b.module, ty, s, 1);
    let chosen = |b: &mut FunctionBuilder<'_>, function: Glsl| {
        let set = glsl(b.module);
        Some(b.op(Op::ExtInst, ty, [set.into(), function.0.into(), old.into(), given?.into()]))
    };
    let with = |b: &mut FunctionBuilder<'_>, op: Op| Some(b.ids(op, ty, &[old, given?]));
    match op {
        Op::AtomicStore | Op::AtomicExchange => given,
        Op::AtomicCompareExchange | Op::AtomicCompareExchangeWeak => {
            let bool = b.globals.bool(b.module);
            let same = b.ids(Op::IEqual, bool, &[old, *values.get(1)?]);
            Some(b.ids(Op::Select, ty, &[same, given?, old]))
        }
        Op::AtomicIIncrement => {
            let one = one(b);
            Some(b.ids(Op::IAdd, ty, &[old, one]))
        }
        Op::AtomicIDecrement => {
            let one = one(b);
            Some(b.ids(Op::ISub, ty, &[old, one]))
        }
        Op::AtomicIAdd => with(b, Op::IAdd),
        Op::AtomicISub => with(b, Op::ISub),
        Op::AtomicAnd => with(b, Op::BitwiseAnd),
        Op::AtomicOr => with(b, Op::BitwiseOr),
        Op::AtomicXor => with(b, Op::BitwiseXor),
        Op::AtomicFAddEXT => with(b, Op::FAdd),
        Op::AtomicSMin => chosen(b, Glsl::SMin),
        Op::AtomicSMax => chosen(b, Glsl::SMax),
        Op::AtomicUMin => chosen(b, Glsl::UMin),
        Op::AtomicUMax => chosen(b, Glsl::UMax),
        // Of a number and NaN, they give the number.
        Op::AtomicFMinEXT => chosen(b, Glsl::NMin),
        Op::AtomicFMaxEXT => chosen(b, Glsl::NMax),
        _ => None,
    }
}
