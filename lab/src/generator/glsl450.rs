//! The memory model of GLSL 4.50 for generated modules, as compilers declared it with SPV_NV_cooperative_matrix.

use coop_ir::builder::{Globals, decorate};
use coop_ir::constant::{Constants, Specialization};
use coop_ir::decode::decode;
use coop_ir::rewrite::remove_capability;
use coop_ir::spv::{Capability, Decoration, MemoryAccess, MemoryModel, MemorySemantics, Scope, StorageClass};
use coop_ir::types::storage_of;
use coop_ir::views::MemoryOperands;
use coop_ir::{Id, Inst, InstRef, Kind, Module, Op, Operand};

const ACCESS: MemoryAccess = MemoryAccess(
    MemoryAccess::MakePointerAvailable.0 | MemoryAccess::MakePointerVisible.0 | MemoryAccess::NonPrivatePointer.0,
);
const SEMANTICS: MemorySemantics =
    MemorySemantics(MemorySemantics::MakeAvailable.0 | MemorySemantics::MakeVisible.0 | MemorySemantics::Volatile.0);

/// Takes the Vulkan memory model from a module. Buffers whose accesses are shared are `Coherent` instead.
pub(super) fn declare(m: &mut Module) {
    let body: Vec<InstRef> = m.functions.iter().flat_map(|f| f.insts()).collect();
    let mut shared = false;
    for r in body {
        semantics(m, r);
        let Some(at) = m.inst(r).memory_operands_at() else { continue };
        let buffer = m.inst(r).accessed().and_then(|p| storage_of(m, p)) != Some(StorageClass::Workgroup);
        shared |= without_model(m.inst_mut(r), at) && buffer;
    }
    let buffers: Vec<Id> = m
        .globals_with(Op::Variable)
        .map(|r| m.inst(r))
        .filter(|i| i.variable_storage() == Some(StorageClass::StorageBuffer))
        .filter_map(|i| i.result)
        .collect();
    buffers.into_iter().filter(|_| shared).for_each(|id| decorate(m, id, Decoration::Coherent, &[]));
    remove_capability(m, Capability::VulkanMemoryModel);
    remove_capability(m, Capability::VulkanMemoryModelDeviceScope);
    let model = m.globals_with(Op::MemoryModel).next();
    if let Some(model) = model {
        m.inst_mut(model).operands[1] = MemoryModel::GLSL450.into();
    }
}

/// Replaces semantics and scopes that the model does not have.
fn semantics(m: &mut Module, r: InstRef) {
    let constants = Constants::new(m, &Specialization::new());
    let mut globals = Globals::new(m);
    let words: Vec<u32> = m.inst(r).operands.iter().map(|o| o.word()).collect();
    let mut found = Vec::new();
    decode(m, m.inst(r).op, m.inst(r).ty, &words, &mut |piece| {
        if matches!(piece.kind, Kind::IdScope | Kind::IdMemorySemantics) {
            found.push((piece.kind, piece.start));
        }
    });
    for (kind, at) in found {
        let Some(old) = m.inst(r).id(at).and_then(|id| constants.get(id).fixed()) else { continue };
        let old = old as u32;
        let new = match kind {
            Kind::IdScope if Scope(old) == Scope::QueueFamily => Scope::Device.0,
            Kind::IdScope => old,
            _ => (MemorySemantics(old) - SEMANTICS).0,
        };
        if new != old {
            let id = globals.u32(m, new);
            m.inst_mut(r).operands[at] = id.into();
        }
    }
}

/// Takes what the model lacks out of memory operands. Returns true if they said that the access is not private.
fn without_model(inst: &mut Inst, at: usize) -> bool {
    let memory = MemoryOperands::at(inst, at);
    let mut scopes: Vec<usize> = [memory.available, memory.visible].into_iter().flatten().map(|(_, at)| at).collect();
    scopes.sort_unstable();
    for at in scopes.into_iter().rev() {
        inst.operands.remove(at);
    }
    if memory.mask.intersects(ACCESS) {
        inst.operands[at] = Operand::Word((memory.mask - ACCESS).0);
    }
    memory.mask.intersects(ACCESS)
}
