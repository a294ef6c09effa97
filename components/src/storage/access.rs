//! The code that takes numbers out of words and puts them into words.

use super::Buffer;
use super::atomics::Key;
use super::layout::{Layout, Placed};
use super::number::{as_u32, from_bits, shifted, to_bits};
use super::place::Place;
use crate::emit::wide;
use coop_ir::builder::{FunctionBuilder, Globals, Index, add_global, decorate};
use coop_ir::hash::FxHashMap;
use coop_ir::spv::{Decoration, MemoryAccess, MemorySemantics, Scope, StorageClass};
use coop_ir::types::{self, Scalar, Type};
use coop_ir::views::MemoryOperands;
use coop_ir::{Id, Inst, Module, Op, Operand};

/// A byte.
const BYTE: Scalar = Scalar::Int { width: 8, signed: false };

/// The type of a block of words: class, bytes of an element, number of elements, `BufferBlock`.
type Shape = (StorageClass, u32, Option<u32>, bool);

/// Emits accesses of words.
pub(super) struct Words {
    /// True with the Vulkan memory model.
    vulkan: bool,
    pub(super) uint: Id,
    types: FxHashMap<Shape, Id>,
    /// The functions that store runs of numbers, by variable, bytes of a number, numbers and memory operands.
    pub(super) runs: FxHashMap<(Id, u32, usize, Vec<Operand>), Id>,
    /// The functions for atomic operations that words have no instruction for.
    pub(super) atomics: FxHashMap<Key, Id>,
}

/// One access: its place, how it is executed, and what of it is known already.
pub(super) struct Access<'a> {
    buffer: &'a Buffer,
    place: &'a Place,
    /// The memory operands of its loads and stores.
    memory: Vec<Operand>,
    volatile: bool,
    /// The sum of the indices in units of so many bytes.
    sums: FxHashMap<u32, Index>,
    /// Words that were read, by the known part of their offset.
    read: FxHashMap<u32, Id>,
}

/// The place of a number: the word, and the number's lowest bit in it.
#[derive(Clone, Copy)]
pub(super) struct Spot {
    pub(super) word: Index,
    pub(super) shift: Index,
}

impl Words {
    pub(super) fn new(m: &mut Module, g: &mut Globals, vulkan: bool) -> Words {
        let (types, runs, atomics) = (FxHashMap::default(), FxHashMap::default(), FxHashMap::default());
        Words { vulkan, uint: g.uint(m, 32), types, runs, atomics }
    }

    /// Returns the type of a variable of words.
    pub(super) fn variable_type(&mut self, m: &mut Module, g: &mut Globals, buffer: &Buffer) -> Id {
        if let Some(len) = buffer.len.filter(|_| buffer.plain) {
            let array = g.array(m, self.uint, len);
            return g.pointer(m, buffer.class, array);
        }
        let mut ty = self.block_type(m, g, buffer);
        if let Some(array) = buffer.descriptors {
            let operands = match Type::of(m, array) {
                Some(Type::Array { len, .. }) => vec![ty.into(), len.into()],
                _ => vec![ty.into()],
            };
            let op = m.def_inst(array).map_or(Op::TypeRuntimeArray, |i| i.op);
            ty = new_type(m, op, operands);
        }
        g.pointer(m, buffer.class, ty)
    }

    pub(super) fn block_type(&mut self, m: &mut Module, g: &mut Globals, buffer: &Buffer) -> Id {
        let shape = (buffer.class, buffer.words, buffer.len, buffer.buffer_block);
        if let Some(ty) = self.types.get(&shape) {
            return *ty;
        }
        let elem = if buffer.words == 1 { self.uint } else { g.vector(m, self.uint, buffer.words) };
        let array = match buffer.len {
            None => new_type(m, Op::TypeRuntimeArray, vec![elem.into()]),
            Some(len) => {
                let len = g.u32(m, len);
                new_type(m, Op::TypeArray, vec![elem.into(), len.into()])
            }
        };
        decorate(m, array, Decoration::ArrayStride, &[4 * buffer.words]);
        let block = new_type(m, Op::TypeStruct, vec![array.into()]);
        decorate(m, block, if buffer.buffer_block { Decoration::BufferBlock } else { Decoration::Block }, &[]);
        let offset = [Operand::Id(block), 0.into(), Decoration::Offset.into(), 0.into()];
        add_global(m, Inst::new(Op::MemberDecorate, None, None, offset));
        self.types.insert(shape, block);
        block
    }

    pub(super) fn access<'a>(
        &self,
        buffer: &'a Buffer,
        place: &'a Place,
        memory: Vec<Operand>,
    ) -> Result<Access<'a>, String> {
        if !place.is_in_block() {
            return Err("an array of blocks is accessed as a whole".to_owned());
        }
        let (mut memory, volatile) = without_alignment(memory)?;
        if buffer.class == StorageClass::PhysicalStorageBuffer {
            align_to_words(&mut memory);
        }
        let (sums, read) = (FxHashMap::default(), FxHashMap::default());
        Ok(Access { buffer, place, memory, volatile, sums, read })
    }

    /// Loads the value at a place.
    pub(super) fn load(
        &self,
        b: &mut FunctionBuilder<'_>,
        layout: &Layout,
        buffer: &Buffer,
        place: &Place,
        memory: Vec<Operand>,
    ) -> Result<Id, String> {
        let mut access = self.access(buffer, place, memory)?;
        self.load_part(b, layout, &mut access, place.at, &mut 0)
    }

    fn load_part(
        &self,
        b: &mut FunctionBuilder<'_>,
        layout: &Layout,
        access: &mut Access<'_>,
        at: Placed,
        count: &mut usize,
    ) -> Result<Id, String> {
        counted(count)?;
        if let Some(s) = types::scalar(b.module, at.ty) {
            return self.load_number(b, access, at, s);
        }
        if let Some(value) = self.load_vector(b, access, at)? {
            return Ok(value);
        }
        let mut parts = Vec::new();
        for part in layout.parts(b.module, at)? {
            parts.push(self.load_part(b, layout, access, part, count)?);
        }
        Ok(b.ids(Op::CompositeConstruct, at.ty, &parts))
    }

    fn load_number(
        &self,
        b: &mut FunctionBuilder<'_>,
        access: &mut Access<'_>,
        at: Placed,
        s: Scalar,
    ) -> Result<Id, String> {
        if !access.aligned(at.offset, s)? {
            return self.load_bytes(b, access, at, s);
        }
        let spot = access.spot(b, at.offset, s)?;
        match s.width() {
            64 => {
                let high = b.add(spot.word, Index::Const(1));
                let words = [spot.word, high].map(|w| self.read(b, access, w, true));
                let pair = wide(b, self.uint, 2);
                let pair = b.ids(Op::CompositeConstruct, pair, &words);
                Ok(b.ids(Op::Bitcast, at.ty, &[pair]))
            }
            32 => {
                let word = self.read(b, access, spot.word, true);
                Ok(if at.ty == self.uint { word } else { b.ids(Op::Bitcast, at.ty, &[word]) })
            }
            _ => {
                let key = access.place.constant.wrapping_add(at.offset) & !3;
                let known = access.read.get(&key).copied().filter(|_| access.place.unit == 4);
                let word = match known {
                    Some(word) => word,
                    None => self.read(b, access, spot.word, false),
                };
                access.read.insert(key, word);
                let bits = shifted(b, Op::ShiftRightLogical, word, spot.shift);
                Ok(from_bits(b, bits, at.ty, s))
            }
        }
    }

    /// Loads a number that may lie anywhere, byte by byte.
    fn load_bytes(
        &self,
        b: &mut FunctionBuilder<'_>,
        access: &mut Access<'_>,
        at: Placed,
        s: Scalar,
    ) -> Result<Id, String> {
        let mut words = Vec::new();
        for first in (0..s.bytes()).step_by(4) {
            let mut word = None;
            for n in first..s.bytes().min(first + 4) {
                let spot = access.spot(b, at.offset + n, BYTE)?;
                let whole = self.read(b, access, spot.word, false);
                let bits = shifted(b, Op::ShiftRightLogical, whole, spot.shift);
                let mask = b.u32(0xff);
                let byte = b.ids(Op::BitwiseAnd, self.uint, &[bits, mask]);
                let byte = shifted(b, Op::ShiftLeftLogical, byte, Index::Const(8 * (n - first)));
                word = Some(word.map_or(byte, |w| b.ids(Op::BitwiseOr, self.uint, &[w, byte])));
            }
            words.extend(word);
        }
        Ok(match words.as_slice() {
            [word] if s.width() < 32 => from_bits(b, *word, at.ty, s),
            [word] if at.ty == self.uint => *word,
            [word] => b.ids(Op::Bitcast, at.ty, &[*word]),
            words => {
                let pair = wide(b, self.uint, 2);
                let pair = b.ids(Op::CompositeConstruct, pair, words);
                b.ids(Op::Bitcast, at.ty, &[pair])
            }
        })
    }

    /// Loads a vector of narrow numbers that is known to be made of whole words.
    fn load_vector(
        &self,
        b: &mut FunctionBuilder<'_>,
        access: &mut Access<'_>,
        at: Placed,
    ) -> Result<Option<Id>, String> {
        let Some(count) = access.whole_words(b.module, at) else { return Ok(None) };
        let first = access.word(b, at.offset);
        let words: Vec<Id> = (0..count)
            .map(|n| {
                let word = b.add(first, Index::Const(n));
                self.read(b, access, word, true)
            })
            .collect();
        let words = match words.as_slice() {
            [one] => *one,
            all => {
                let ty = wide(b, self.uint, count);
                b.ids(Op::CompositeConstruct, ty, all)
            }
        };
        Ok(Some(b.ids(Op::Bitcast, at.ty, &[words])))
    }

    /// Reads a word; `whole` says that all of it is read.
    fn read(&self, b: &mut FunctionBuilder<'_>, access: &Access<'_>, word: Index, whole: bool) -> Id {
        let pointer = self.pointer(b, access, word);
        let id = if access.buffer.parts_written && !whole {
            let (scope, semantics) = self.order(b, access);
            b.ids(Op::AtomicLoad, self.uint, &[pointer, scope, semantics])
        } else {
            b.op(Op::Load, self.uint, [Operand::Id(pointer)].into_iter().chain(access.memory.iter().copied()))
        };
        if access.place.non_uniform {
            decorate(b.module, id, Decoration::NonUniform, &[]);
        }
        id
    }

    /// Stores a value at a place.
    pub(super) fn store(
        &self,
        b: &mut FunctionBuilder<'_>,
        layout: &Layout,
        buffer: &Buffer,
        place: &Place,
        value: Id,
        memory: Vec<Operand>,
    ) -> Result<(), String> {
        let mut access = self.access(buffer, place, memory)?;
        let mut parts = Vec::new();
        self.take_apart(b, layout, &mut access, (place.at, value), (&mut 0, &mut parts))?;
        // Parts of one word are written together, if it is known which those are.
        let mut at = 0;
        while let Some((first, bits, width)) = parts.get(at).copied() {
            let word_of = |offset: u32| access.place.constant.wrapping_add(offset) / 4;
            let same = |p: &&(u32, Id, u32)| access.place.unit == 4 && word_of(p.0) == word_of(first);
            let together: Vec<(u32, Id, u32)> = parts[at..].iter().take_while(same).copied().collect();
            if together.len() > 1 && together.iter().map(|p| p.2).sum::<u32>() == 32 {
                let mut word = None;
                for (offset, bits, _) in &together {
                    let shift = access.place.constant.wrapping_add(*offset) % 4 * 8;
                    let part = shifted(b, Op::ShiftLeftLogical, *bits, Index::Const(shift));
                    word = Some(word.map_or(part, |w| b.ids(Op::BitwiseOr, self.uint, &[w, part])));
                }
                let index = access.word(b, first);
                self.write(b, &access, index, word.unwrap_or(bits));
                at += together.len();
                continue;
            }
            if width == 32 {
                let index = access.word(b, first);
                self.write(b, &access, index, bits);
            } else {
                self.write_part(b, &mut access, first, bits, width)?;
            }
            at += 1;
        }
        Ok(())
    }

    /// Takes a value apart into offsets, bits and widths: 32, 16 or 8.
    fn take_apart(
        &self,
        b: &mut FunctionBuilder<'_>,
        layout: &Layout,
        access: &mut Access<'_>,
        (at, value): (Placed, Id),
        (count, out): (&mut usize, &mut Vec<(u32, Id, u32)>),
    ) -> Result<(), String> {
        counted(count)?;
        if let Some(s) = types::scalar(b.module, at.ty) {
            let aligned = access.aligned(at.offset, s)?;
            let words = match s.width() {
                64 => {
                    let pair = wide(b, self.uint, 2);
                    let pair = b.ids(Op::Bitcast, pair, &[value]);
                    [0, 1].map(|n: u32| b.op(Op::CompositeExtract, self.uint, [pair.into(), n.into()])).to_vec()
                }
                32 if at.ty == self.uint => vec![value],
                32 => vec![b.ids(Op::Bitcast, self.uint, &[value])],
                _ => vec![to_bits(b, value, at.ty, s)],
            };
            for (offset, word) in (at.offset..).step_by(4).zip(words) {
                if aligned {
                    out.push((offset, word, s.width().min(32)));
                    continue;
                }
                for n in 0..s.bytes().min(4) {
                    let bits = shifted(b, Op::ShiftRightLogical, word, Index::Const(8 * n));
                    let mask = b.u32(0xff);
                    out.push((offset + n, b.ids(Op::BitwiseAnd, self.uint, &[bits, mask]), 8));
                }
            }
            return Ok(());
        }
        if let Some(count) = access.whole_words(b.module, at) {
            let ty = wide(b, self.uint, count);
            let words = b.ids(Op::Bitcast, ty, &[value]);
            for n in 0..count {
                let word = match count {
                    1 => words,
                    _ => b.op(Op::CompositeExtract, self.uint, [words.into(), n.into()]),
                };
                out.push((at.offset + 4 * n, word, 32));
            }
            return Ok(());
        }
        for (n, part) in layout.parts(b.module, at)?.into_iter().enumerate() {
            let inner = b.op(Op::CompositeExtract, part.ty, [value.into(), (n as u32).into()]);
            self.take_apart(b, layout, access, (part, inner), (count, out))?;
        }
        Ok(())
    }

    pub(super) fn write(&self, b: &mut FunctionBuilder<'_>, access: &Access<'_>, word: Index, bits: Id) {
        let pointer = self.pointer(b, access, word);
        b.effect(Op::Store, [pointer, bits].map(Operand::Id).into_iter().chain(access.memory.iter().copied()));
    }

    /// Writes a part of a word, and nothing of the rest.
    pub(super) fn write_part(
        &self,
        b: &mut FunctionBuilder<'_>,
        access: &mut Access<'_>,
        offset: u32,
        bits: Id,
        width: u32,
    ) -> Result<(), String> {
        let spot = access.spot(b, offset, Scalar::Int { width, signed: false })?;
        let pointer = self.pointer(b, access, spot.word);
        let (scope, semantics) = self.order(b, access);
        let ones = u32::MAX >> (32 - width);
        let keep = match spot.shift {
            Index::Const(shift) => b.u32(!(ones << shift)),
            shift @ Index::Value(_) => {
                let ones = b.u32(ones);
                let mask = shifted(b, Op::ShiftLeftLogical, ones, shift);
                b.ids(Op::Not, self.uint, &[mask])
            }
        };
        let bits = shifted(b, Op::ShiftLeftLogical, bits, spot.shift);
        b.ids(Op::AtomicAnd, self.uint, &[pointer, scope, semantics, keep]);
        b.ids(Op::AtomicOr, self.uint, &[pointer, scope, semantics, bits]);
        Ok(())
    }

    /// Computes the length of an array of unknown length, the last member of a block.
    pub(super) fn length(
        &self,
        b: &mut FunctionBuilder<'_>,
        layout: &Layout,
        buffer: &Buffer,
        place: &Place,
        member: u32,
    ) -> Result<Id, String> {
        let access = self.access(buffer, place, Vec::new())?;
        let Some(Type::Struct { members }) = Type::of(b.module, place.at.ty) else {
            return Err("the length of an array that is not a member of a block".to_owned());
        };
        let array = layout.member(place.at.ty, &members, member)?;
        let (_, stride) = layout.element(b.module, array)?;
        let block = match place.descriptor {
            None => place.variable,
            Some(descriptor) => {
                let Some(block) = self.types.get(&(
                    access.buffer.class,
                    access.buffer.words,
                    access.buffer.len,
                    access.buffer.buffer_block,
                )) else {
                    return Err("a block is not known".to_owned());
                };
                let ty = b.globals.pointer(b.module, access.buffer.class, *block);
                let id = b.ids(Op::AccessChain, ty, &[place.variable, descriptor]);
                if place.non_uniform {
                    decorate(b.module, id, Decoration::NonUniform, &[]);
                }
                id
            }
        };
        let words = b.op(Op::ArrayLength, self.uint, [block.into(), 0.into()]);
        let bytes = b.mul(Index::Value(words), Index::Const(4));
        let rest = match array.offset {
            0 => bytes,
            offset => b.u32_op(Op::ISub, bytes, Index::Const(offset)),
        };
        let count = b.div(rest, stride);
        Ok(b.index(count))
    }

    /// Returns a pointer to a word.
    pub(super) fn pointer(&self, b: &mut FunctionBuilder<'_>, access: &Access<'_>, word: Index) -> Id {
        let ty = b.globals.pointer(b.module, access.buffer.class, self.uint);
        let zero = b.u32(0);
        let mut operands = vec![access.place.variable];
        operands.extend(access.place.descriptor);
        operands.extend(Some(zero).filter(|_| !access.buffer.plain));
        if access.buffer.words == 1 {
            operands.push(b.index(word));
        } else {
            let (element, component) = (b.div(word, access.buffer.words), b.rem(word, access.buffer.words));
            operands.extend([b.index(element), b.index(component)]);
        }
        let id = b.ids(Op::AccessChain, ty, &operands);
        if access.place.non_uniform {
            decorate(b.module, id, Decoration::NonUniform, &[]);
        }
        id
    }

    /// Returns the scope and the semantics of an atomic operation that stands for a load or a store: it orders nothing.
    fn order(&self, b: &mut FunctionBuilder<'_>, access: &Access<'_>) -> (Id, Id) {
        let scope = match access.buffer.class {
            StorageClass::Workgroup => Scope::Workgroup,
            _ if self.vulkan => Scope::QueueFamily,
            _ => Scope::Device,
        };
        let volatile = access.volatile && self.vulkan;
        let semantics = if volatile { MemorySemantics::Volatile } else { MemorySemantics::None };
        (b.u32(scope.0), b.u32(semantics.0))
    }
}

impl Access<'_> {
    /// Returns true if a number is known to lie in one word, or to begin with one; at a device address it need not.
    fn aligned(&self, offset: u32, s: Scalar) -> Result<bool, String> {
        let align = s.bytes().min(4);
        let offset = self.place.constant.checked_add(offset).filter(|o| o.checked_add(8).is_some());
        let offset = offset.ok_or("an offset is too large")?;
        if !matches!(s.width(), 8 | 16 | 32 | 64) {
            return Err(format!("{s} is not a number of 8, 16, 32 or 64 bits"));
        }
        let aligned = offset.is_multiple_of(align) && self.place.unit.is_multiple_of(align);
        if !aligned && self.buffer.class != StorageClass::PhysicalStorageBuffer {
            return Err(format!("{s} at offset {offset} is not aligned to {align} bytes"));
        }
        Ok(aligned)
    }

    /// Returns the place of a number of a type.
    pub(super) fn spot(&mut self, b: &mut FunctionBuilder<'_>, offset: u32, s: Scalar) -> Result<Spot, String> {
        self.aligned(offset, s)?;
        let constant = self.place.constant.wrapping_add(offset);
        if self.place.unit == 4 {
            return Ok(Spot { word: self.word(b, offset), shift: Index::Const(constant % 4 * 8) });
        }
        let unit = self.place.unit.min(1 << constant.trailing_zeros().min(2));
        let sum = self.sum(b, unit);
        let at = b.add(sum, Index::Const(constant / unit));
        let (word, part) = (b.div(at, 4 / unit), b.rem(at, 4 / unit));
        Ok(Spot { word, shift: b.mul(part, Index::Const(8 * unit)) })
    }

    /// Returns the place of a number, counted in numbers of its type from the beginning.
    pub(super) fn number(&mut self, b: &mut FunctionBuilder<'_>, s: Scalar) -> Result<Id, String> {
        self.aligned(0, s)?;
        let sum = self.sum(b, s.bytes());
        let at = b.add(sum, Index::Const(self.place.constant / s.bytes()));
        Ok(b.index(at))
    }

    /// Returns the word at an offset, where every index counts whole words.
    pub(super) fn word(&mut self, b: &mut FunctionBuilder<'_>, offset: u32) -> Index {
        let sum = self.sum(b, 4);
        b.add(sum, Index::Const(self.place.constant.wrapping_add(offset) / 4))
    }

    /// Returns the number of words of a vector of narrow numbers that is known to be made of whole ones.
    fn whole_words(&self, m: &Module, at: Placed) -> Option<u32> {
        let Some(Type::Vector { elem, len }) = Type::of(m, at.ty) else { return None };
        let s = types::scalar(m, elem)?;
        let bytes = s.bytes().checked_mul(len)?;
        let offset = self.place.constant.checked_add(at.offset).filter(|o| o.checked_add(8).is_some())?;
        let aligned = self.place.unit == 4 && offset.is_multiple_of(4);
        let whole = aligned && !at.is_strided();
        (matches!(s.width(), 8 | 16) && whole && matches!(bytes, 4 | 8)).then_some(bytes / 4)
    }

    /// Computes the sum of the indices, in units of so many bytes.
    fn sum(&mut self, b: &mut FunctionBuilder<'_>, unit: u32) -> Index {
        if let Some(sum) = self.sums.get(&unit) {
            return *sum;
        }
        let mut sum = Index::Const(0);
        for (index, bytes) in self.place.terms.clone() {
            // The index is a multiple of what the bytes lack to a unit. Indices are signed.
            let part = unit >> bytes.trailing_zeros().min(unit.trailing_zeros());
            let index = as_u32(b, index);
            let index = shifted(b, Op::ShiftRightArithmetic, index, Index::Const(part.trailing_zeros()));
            let scaled = b.mul(Index::Value(index), Index::Const(bytes * part / unit));
            sum = b.add(sum, scaled);
        }
        self.sums.insert(unit, sum);
        sum
    }
}

/// Counts the numbers of a value that is moved as a whole.
fn counted(count: &mut usize) -> Result<(), String> {
    *count += 1;
    if *count > super::layout::MOST_NUMBERS {
        return Err(format!("a value of more than {} numbers is moved as a whole", super::layout::MOST_NUMBERS));
    }
    Ok(())
}

/// Declares a type that is not shared: it gets decorations.
fn new_type(m: &mut Module, op: Op, operands: Vec<Operand>) -> Id {
    let id = m.fresh_id();
    let r = m.add(Inst::new(op, None, Some(id), operands));
    m.globals.push(r);
    id
}

/// Says in memory operands that words are accessed: at an address, the alignment is not known otherwise.
fn align_to_words(memory: &mut Vec<Operand>) {
    let mask = memory.first().map_or(0, |mask| mask.word());
    memory.splice(..memory.len().min(1), [mask | MemoryAccess::Aligned.0, 4].map(Operand::Word));
}

/// Returns memory operands without the alignment, which is that of a wider type, and whether the access is volatile.
fn without_alignment(memory: Vec<Operand>) -> Result<(Vec<Operand>, bool), String> {
    let view = MemoryOperands::at(&Inst::new(Op::Load, None, None, memory.iter().copied()), 0);
    if !view.unknown.is_empty() || view.end < memory.len() {
        return Err("memory operands are not known".to_owned());
    }
    let volatile = view.mask.contains(MemoryAccess::Volatile);
    let Some((_, at)) = view.aligned else { return Ok((memory, volatile)) };
    let mut memory = memory;
    memory.remove(at);
    if let Some(mask) = memory.first_mut() {
        *mask = Operand::Word(view.mask.0 & !MemoryAccess::Aligned.0);
    }
    Ok((memory, volatile))
}
