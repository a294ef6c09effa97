//! The capabilities that an instruction needs, by the grammar.
//!
//! The grammar has those of opcodes and of enumerants. Other requirements are in the specification's prose: of widths
//! of numbers, types in memory and the like.

use crate::decode::decode;
use crate::grammar::{Kind, Op, implied_capabilities};
use crate::hash::FxHashSet;
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

/// Returns true if some instruction needs a capability, as no other that is declared enables what it has.
pub fn is_needed(m: &Module, capability: Capability) -> bool {
    let others = m.capabilities().filter(|c| *c != capability);
    let enabled: FxHashSet<Capability> = others.flat_map(|c| implied_capabilities(c).into_iter().chain([c])).collect();
    let own: FxHashSet<Capability> = implied_capabilities(capability).into_iter().chain([capability]).collect();
    let mut found = false;
    for r in m.all().filter(|r| m.inst(*r).op != Op::Capability) {
        each_need(m, m.inst(r), &mut |any| {
            found |= any.iter().any(|c| own.contains(c)) && !any.iter().any(|c| enabled.contains(c));
        });
        if found {
            return true;
        }
    }
    false
}
