//! The capabilities that an instruction needs, by the grammar.
//!
//! The grammar has those of opcodes and of enumerants. Other requirements are in the specification's prose: of widths
//! of numbers, types in memory and the like.

use crate::decode::decode;
use crate::grammar::{Kind, Op};
use crate::module::{Inst, Module};
use crate::spv::Capability;

/// Calls `emit` for each need of an instruction, which is a list of capabilities: any one of them meets it.
pub fn each_need(module: &Module, inst: &Inst, emit: &mut dyn FnMut(&'static [Capability])) {
    let mut need = |capabilities: &'static [Capability]| {
        if !capabilities.is_empty() {
            emit(capabilities);
        }
    };
    need(inst.op.info().map_or(&[], |i| i.capabilities));
    let words: Vec<u32> = inst.operands.iter().map(|o| o.word()).collect();
    decode(module, inst.op, inst.ty, &words, &mut |piece| {
        let word = words[piece.start];
        if piece.kind == Kind::LiteralSpecConstantOpInteger {
            let inner = u16::try_from(word).ok().and_then(|op| Op(op).info());
            need(inner.map_or(&[], |i| i.capabilities));
        } else if piece.kind.is_mask() {
            let bits = (0..32).map(|n| 1 << n).filter(|bit| word & bit != 0);
            bits.filter_map(|bit| piece.kind.enumerant(bit)).for_each(|e| need(e.capabilities));
        } else if let Some(e) = piece.kind.enumerant(word) {
            need(e.capabilities);
        }
    });
}
