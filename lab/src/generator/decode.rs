//! Functions that decode blocks of a tensor: one for single elements, and one for vectors of them that agrees.

use super::emit::Gen;
use super::number::Num;
use super::range::Range;
use coop_ir::builder::{add_global, decorate};
use coop_ir::grammar::Op;
use coop_ir::spv::{Capability, Decoration, MemoryAccess, StorageClass};
use coop_ir::types::Scalar;
use coop_ir::{Id, Inst, Operand};

const U32: Scalar = Scalar::Int { width: 32, signed: false };
const U8: Scalar = Scalar::Int { width: 8, signed: false };

/// The functions, and what they read.
pub(super) struct Decoder {
    /// With their bits of the Tensor Addressing Operands.
    pub(super) functions: Vec<(u32, Id)>,
    /// The component type of memory.
    pub(super) component: Scalar,
    /// Bytes of a block.
    pub(super) size: u32,
    pub(super) range: Range,
}

/// The layout of numbers in a block.
#[derive(Clone, Copy)]
struct Packing {
    /// The width of a number.
    bits: u32,
    /// The type that they are packed into.
    word: Scalar,
    words: u32,
    /// True if a word of factors comes first.
    scaled: bool,
    block: Id,
}

/// The decoding of the numbers of a block.
struct Recipe {
    packing: Packing,
    scalar: Scalar,
    /// Taken from each number.
    bias: Option<Num>,
    /// A dimension whose block's number is added, taken modulo 2.
    by_block: Option<u32>,
}

impl Gen<'_> {
    /// Functions for blocks of these extents; those of vectors have `width` numbers, if that is not 1.
    pub(super) fn decoder(&mut self, scalar: Scalar, block: &[u32], width: u32) -> Option<Decoder> {
        let elements: u32 = block.iter().product();
        if elements > 128 {
            return None;
        }
        self.capability(Capability::PhysicalStorageBufferAddresses);
        self.capability(Capability::CooperativeMatrixBlockLoadsNV);
        let packing = self.packing(elements);
        let bias = (scalar.is_float() || matches!(scalar, Scalar::Int { signed: true, .. })) && self.e.chance(100);
        let bias = bias.then(|| 1i128 << (packing.bits - 1));
        let bias = bias.map(|b| Num { id: self.number(scalar, b, 0), scalar, range: Range::int(b, b) });
        let by_block = self.e.chance(60).then(|| self.e.below(block.len() as u32));
        let recipe = Recipe { packing, scalar, bias, by_block };
        let (one, range) = self.decode_function(&recipe, block, 1)?;
        let mut functions = vec![(2, one)];
        if width > 1 {
            self.extension("SPV_NV_cooperative_matrix_decode_vector");
            self.capability(Capability::CooperativeMatrixDecodeVectorNV);
            functions.push((4, self.decode_function(&recipe, block, width)?.0));
        }
        let size = (packing.words + u32::from(packing.scaled)) * packing.word.bytes();
        Some(Decoder { functions, component: packing.word, size, range })
    }

    fn packing(&mut self, elements: u32) -> Packing {
        let word = self.e.pick(&[U32, U8]);
        let bits = self.e.pick(&[8, 4, 2]);
        let words = (elements * bits).div_ceil(word.width());
        let scaled = self.e.chance(100);
        self.scalar_capabilities(word);
        if word == U8 {
            self.capability(Capability::StorageBuffer8BitAccess);
        }
        let elem = self.scalar(word);
        let len = self.u32(words);
        let array = self.m.fresh_id();
        self.global(Inst::new(Op::TypeArray, None, Some(array), [elem, len].map(Operand::Id)));
        decorate(&mut self.m, array, Decoration::ArrayStride, &[word.bytes()]);
        let block = self.m.fresh_id();
        let members: Vec<Id> = if scaled { vec![elem, array] } else { vec![array] };
        self.global(Inst::new(Op::TypeStruct, None, Some(block), members.iter().copied().map(Operand::Id)));
        decorate(&mut self.m, block, Decoration::Block, &[]);
        for (i, offset) in (0..members.len() as u32).zip([0, word.bytes()]) {
            let words = [i, Decoration::Offset.0, offset].map(Operand::Word);
            let operands = [Operand::Id(block)].into_iter().chain(words);
            add_global(&mut self.m, Inst::new(Op::MemberDecorate, None, None, operands));
        }
        Packing { bits, word, words, scaled, block }
    }

    fn decode_function(&mut self, recipe: &Recipe, block: &[u32], width: u32) -> Option<(Id, Range)> {
        let rank = block.len() as u32;
        let (elem, uint) = (self.scalar(recipe.scalar), self.uint());
        let ret = if width == 1 { elem } else { self.g.vector(&mut self.m, elem, width) };
        let pointer = self.g.pointer(&mut self.m, StorageClass::PhysicalStorageBuffer, recipe.packing.block);
        let at = self.g.array(&mut self.m, uint, rank);
        let (function, ids) = self.begin(ret, &[pointer, at, at], "decode");
        decorate(&mut self.m, ids[0], Decoration::Aliased, &[]);
        let coordinates = self.array_numbers(ids[2], at, rank);
        // Its number in the block.
        let mut number = self.u32(0);
        for (c, size) in coordinates.iter().zip(block) {
            let size = self.u32(*size);
            let before = self.u32_op(Op::IMul, number, size);
            number = self.u32_op(Op::IAdd, before, *c);
        }
        let scale = recipe.packing.scaled.then(|| self.scale(&recipe.packing, ids[0]));
        let more = recipe.by_block.map(|d| {
            let id = self.op(Op::CompositeExtract, uint, [Operand::Id(ids[1]), Operand::Word(d)]);
            let one = self.u32(1);
            self.u32_op(Op::BitwiseAnd, id, one)
        });
        let mut results = Vec::new();
        for k in 0..width {
            let k = self.u32(k);
            let number = if width == 1 { number } else { self.u32_op(Op::IAdd, number, k) };
            results.push(self.decoded(recipe, ids[0], number, scale, more));
        }
        let result = match (width, results[0]) {
            (_, None) => None,
            (1, Some(n)) => Some((n.id, n.range)),
            (_, Some(n)) => {
                let parts: Vec<Id> = results.iter().flatten().map(|n| n.id).collect();
                Some((self.ids(Op::CompositeConstruct, ret, &parts), n.range))
            }
        };
        match result {
            Some((id, _)) => self.effect(Op::ReturnValue, [id.into()]),
            // Nobody calls it.
            None => self.effect(Op::Unreachable, []),
        }
        self.end();
        Some((function, result?.1))
    }

    /// The numbers of an array parameter: extracted, or read from a variable as front ends do.
    fn array_numbers(&mut self, param: Id, ty: Id, rank: u32) -> Vec<Id> {
        let uint = self.uint();
        if !self.e.chance(80) {
            return (0..rank)
                .map(|d| self.op(Op::CompositeExtract, uint, [Operand::Id(param), Operand::Word(d)]))
                .collect();
        }
        let variable = self.local(ty, None);
        self.effect(Op::Store, [variable, param].map(Operand::Id));
        let pointer = self.g.pointer(&mut self.m, StorageClass::Function, uint);
        (0..rank)
            .map(|d| {
                let d = self.u32(d);
                let slot = self.ids(Op::AccessChain, pointer, &[variable, d]);
                self.ids(Op::Load, uint, &[slot])
            })
            .collect()
    }

    fn word(&mut self, packing: &Packing, chain: &[Id]) -> Id {
        let (elem, uint) = (self.scalar(packing.word), self.uint());
        let pointer = self.g.pointer(&mut self.m, StorageClass::PhysicalStorageBuffer, elem);
        let slot = self.ids(Op::AccessChain, pointer, chain);
        let align = packing.word.bytes();
        let word = self.op(Op::Load, elem, [Operand::Id(slot), MemoryAccess::Aligned.into(), Operand::Word(align)]);
        if packing.word == U32 { word } else { self.ids(Op::UConvert, uint, &[word]) }
    }

    /// The block's factor: 0 to 3.
    fn scale(&mut self, packing: &Packing, root: Id) -> Id {
        let zero = self.u32(0);
        let word = self.word(packing, &[root, zero]);
        let three = self.u32(3);
        self.note("decoding with a factor");
        self.u32_op(Op::BitwiseAnd, word, three)
    }

    /// Element `number` of a block.
    fn decoded(&mut self, recipe: &Recipe, root: Id, number: Id, scale: Option<Id>, more: Option<Id>) -> Option<Num> {
        let p = &recipe.packing;
        let per_word = p.word.width() / p.bits;
        let (member, per, bits) = (self.u32(u32::from(p.scaled)), self.u32(per_word), self.u32(p.bits));
        let at = self.u32_op(Op::UDiv, number, per);
        let word = self.word(p, &[root, member, at]);
        let within = self.u32_op(Op::UMod, number, per);
        let by = self.u32_op(Op::IMul, within, bits);
        let shifted = self.u32_op(Op::ShiftRightLogical, word, by);
        let mask = self.u32((1 << p.bits) - 1);
        let mut value = self.u32_op(Op::BitwiseAnd, shifted, mask);
        let mut range = Range::int(0, (1 << p.bits) - 1);
        if let Some(scale) = scale {
            value = self.u32_op(Op::IMul, value, scale);
            range = range.mul(Range::int(0, 3));
        }
        if let Some(more) = more {
            value = self.u32_op(Op::IAdd, value, more);
            range = range.plus(Range::int(0, 1));
        }
        let value = self.num_of_u32(value, range, recipe.scalar)?;
        match recipe.bias {
            None => Some(value),
            Some(b) => {
                let op = if recipe.scalar.is_float() { Op::FSub } else { Op::ISub };
                let range = value.range.plus(b.range.negated()).wrapped(recipe.scalar)?;
                Some(self.num_op(op, recipe.scalar, &[value.id, b.id], range))
            }
        }
    }
}
