//! Turns the arguments of a kernel into push constants.
//!
//! The block is an array of 32-bit words. Each argument is at the next multiple of its alignment, as the members of a C
//! struct are: addresses take 8 bytes, a struct by value its size. Pointers to shared memory are not in it.

use super::Kernel;
use super::pointer_target::PointerTarget;
use super::variables::Initial;
use crate::Refusal;
use crate::report::Argument;
use coop_ir::builder::{add_global, decorate, name};
use coop_ir::spv::{Decoration, StorageClass};
use coop_ir::types::{Scalar, Type};
use coop_ir::{Id, Inst, Op, Operand};

/// The smallest maximum size of push constants that Vulkan allows.
const SMALLEST_LIMIT: u64 = 128;

impl Kernel<'_> {
    /// Lays out the arguments, and inserts the code that reads them in front of the first block.
    pub(super) fn arguments(&mut self) -> Result<(), Refusal> {
        let mut end = 0u64;
        let parameters = self.parameters();
        for (index, r) in parameters.iter().enumerate() {
            let Inst { op: Op::FunctionParameter, ty: Some(ty), result: Some(id), .. } = *self.m.inst(*r) else {
                return Err(self.no_layout(*r));
            };
            let name = self.layout.name(self.m, id);
            let (kind, size) = match self.places.get(&id).copied() {
                Some(PointerTarget::FlatVariable(i)) if self.roots[i].initial == Initial::None => {
                    let size = Some(self.roots[i].bytes);
                    self.described.push(Argument { index, name, kind: "local", offset: None, size });
                    self.offsets.push(None);
                    continue;
                }
                Some(PointerTarget::FlatVariable(_)) => ("struct", self.pointee(ty)),
                Some(_) => ("address", Some(ty)),
                None => ("value", Some(ty)),
            };
            let size = size.and_then(|t| self.layout.size(self.m, t)).ok_or_else(|| self.no_layout(*r))?;
            let at = end.next_multiple_of(size.align.max(1));
            end = at + size.bytes;
            self.offsets.push(Some(at));
            self.described.push(Argument { index, name, kind, offset: Some(at), size: Some(size.bytes) });
        }
        let limit = self.push_limit.unwrap_or(SMALLEST_LIMIT);
        if end > limit {
            let why = format!("the arguments take {end} bytes of push constants, and there are {limit}");
            let remedy = "put some of them into a buffer; --profile says what a device has";
            return Err(Refusal::new("refused-vulkan-arguments", None, why, remedy));
        }
        self.push_words = end.div_ceil(4) as u32;
        for (index, r) in parameters.iter().enumerate() {
            let inst = self.m.inst(*r).clone();
            let (Some(ty), Some(id)) = (inst.ty, inst.result) else { continue };
            if self.offsets[index].is_none() || matches!(self.places.get(&id), Some(PointerTarget::FlatVariable(_))) {
                continue;
            }
            let ty = if self.places.contains_key(&id) { self.u64_type() } else { ty };
            let value = self.argument_part(index, ty, 0).ok_or_else(|| self.no_layout(*r))?;
            self.instead_of.insert(id, value);
        }
        self.fill_arguments(self.m.functions[self.f].def)?;
        parameters.into_iter().for_each(|r| self.m.forget(r));
        self.m.functions[self.f].params.clear();
        Ok(())
    }

    /// Loads the part of an argument at an offset.
    pub(super) fn argument_part(&mut self, index: usize, ty: Id, offset: u64) -> Option<Id> {
        let at = (*self.offsets.get(index)?)? + offset;
        self.pushed(ty, at)
    }

    fn pushed(&mut self, ty: Id, at: u64) -> Option<Id> {
        if let Some((scalar, 1)) = self.shape(ty) {
            return self.pushed_number(ty, scalar, at);
        }
        if matches!(Type::of(self.m, ty)?, Type::Pointer { .. }) {
            return None;
        }
        let mut values = Vec::new();
        for (part, offset) in self.layout.parts(self.m, ty)? {
            values.push(self.pushed(part, at + offset)?);
        }
        Some(self.ids(Op::CompositeConstruct, ty, &values))
    }

    fn pushed_number(&mut self, ty: Id, scalar: Scalar, at: u64) -> Option<Id> {
        if !at.is_multiple_of(u64::from(scalar.bytes().clamp(1, 4))) {
            return None;
        }
        let word = self.u32_type();
        Some(match scalar.width() {
            64 => {
                let both = [self.pushed_word(at / 4), self.pushed_word(at / 4 + 1)];
                let vector = self.g.vector(self.m, word, 2);
                let pair = self.ids(Op::CompositeConstruct, vector, &both);
                self.ids(Op::Bitcast, ty, &[pair])
            }
            32 => {
                let value = self.pushed_word(at / 4);
                self.cast(value, ty)
            }
            width => {
                let mut value = self.pushed_word(at / 4);
                if !at.is_multiple_of(4) {
                    let shift = self.u32((at % 4 * 8) as u32);
                    value = self.ids(Op::ShiftRightLogical, word, &[value, shift]);
                }
                let narrow = self.g.uint(self.m, width);
                let value = self.ids(Op::UConvert, narrow, &[value]);
                self.cast(value, ty)
            }
        })
    }

    fn pushed_word(&mut self, index: u64) -> Id {
        let block = self.push_block();
        let word = self.u32_type();
        let pointer = self.g.pointer(self.m, StorageClass::PushConstant, word);
        let (zero, index) = (self.u32(0), self.u32(index as u32));
        let at = self.ids(Op::AccessChain, pointer, &[block, zero, index]);
        self.ids(Op::Load, word, &[at])
    }

    /// Declares the block of push constants.
    fn push_block(&mut self) -> Id {
        if let Some(id) = self.push {
            return id;
        }
        let word = self.u32_type();
        let [array, block, variable] = [0, 1, 2].map(|_| self.m.fresh_id());
        let len = self.u32(self.push_words.max(1));
        let r = self.m.add(Inst::new(Op::TypeArray, None, Some(array), [word, len].map(Operand::Id)));
        self.m.globals.push(r);
        let r = self.m.add(Inst::new(Op::TypeStruct, None, Some(block), [array.into()]));
        self.m.globals.push(r);
        decorate(self.m, array, Decoration::ArrayStride, &[4]);
        decorate(self.m, block, Decoration::Block, &[]);
        let offset = [block.into(), Operand::Word(0), Operand::Word(Decoration::Offset.0), Operand::Word(0)];
        add_global(self.m, Inst::new(Op::MemberDecorate, None, None, offset));
        let storage = StorageClass::PushConstant;
        let pointer = self.g.pointer(self.m, storage, block);
        add_global(self.m, Inst::new(Op::Variable, Some(pointer), Some(variable), [storage.into()]));
        name(self.m, variable, "arguments");
        self.interface.push(variable);
        self.push = Some(variable);
        variable
    }
}
