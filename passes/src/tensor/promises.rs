//! Tensor accesses whose pointers are promised to be multiples of 16 bytes.

use super::byte_address::{unaligned, with_alignment};
use crate::matrix::arena::QUAD;
use coop_ir::views::TensorAccess;
use coop_ir::{InstRef, Module};

/// States the alignment of each tensor load and store that decodes nothing, in its memory operands.
pub(super) fn align(m: &mut Module) {
    let all: Vec<InstRef> = m.functions.iter().flat_map(|f| f.insts()).collect();
    for r in all {
        let inst = m.inst(r);
        let Some(access) = inst.tensor_access().filter(|access| access.decode.is_none()) else { continue };
        let memory = TensorAccess::MEMORY..access.at;
        let Some(stated) = inst.operands.get(memory.clone()) else { continue };
        let stated = with_alignment(unaligned(stated), QUAD);
        let mut operands = inst.operands.clone();
        operands.drain(memory.clone());
        operands.insert_many(memory.start, stated);
        m.inst_mut(r).operands = operands;
    }
}
