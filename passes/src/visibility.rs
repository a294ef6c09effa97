//! Moves the visibility of shared memory from accesses to barriers.
//!
//! In the Vulkan memory model a load of shared memory can say MakePointerVisible, and a store MakePointerAvailable, as
//! glslang writes for `shared` variables. Mesa 22.3 (Debian 12) makes an execution barrier of each. That is wrong where
//! subgroups take different paths, and decode functions stand in such code once they are lowered: the driver mixes up
//! its coroutines and its heap (ggml's products of experts with iq4_nl). A barrier that orders shared memory says the
//! same with MakeAvailable and MakeVisible, for all accesses at once.
//!
//! Precondition: none. Effect: if barriers alone order shared memory, they make it available and visible, and accesses
//! of it are NonPrivate only. A module with atomics that order shared memory, or with semantics that are not known,
//! stays as it is.

use crate::Refusal;
use crate::pipeline::PassCx;
use coop_ir::builder::Globals;
use coop_ir::constant::{Constants, Specialization};
use coop_ir::spv::{Capability, MemoryAccess, MemorySemantics, StorageClass};
use coop_ir::types::Type;
use coop_ir::{Inst, InstRef, Module, Op, Operand};

/// The semantics that make writes available, and those that make them visible.
const RELEASES: MemorySemantics = MemorySemantics(
    MemorySemantics::Release.0 | MemorySemantics::AcquireRelease.0 | MemorySemantics::SequentiallyConsistent.0,
);
const ACQUIRES: MemorySemantics = MemorySemantics(
    MemorySemantics::Acquire.0 | MemorySemantics::AcquireRelease.0 | MemorySemantics::SequentiallyConsistent.0,
);

pub(crate) fn run(m: &mut Module, _: &mut PassCx<'_>) -> Result<(), Refusal> {
    let accesses: Vec<InstRef> = m.all().filter(|r| is_shared(m, m.inst(*r))).collect();
    if accesses.is_empty() || !m.has_capability(Capability::VulkanMemoryModel) {
        return Ok(());
    }
    let Some(barriers) = barriers(m) else { return Ok(()) };
    let mut globals = Globals::new(m);
    for (r, at, semantics) in barriers {
        let id = globals.u32(m, semantics.0);
        m.inst_mut(r).operands[at] = Operand::Id(id);
    }
    for r in accesses {
        make_non_private(m.inst_mut(r));
    }
    Ok(())
}

/// Returns true if an instruction loads or stores shared memory, and makes it visible or available.
fn is_shared(m: &Module, inst: &Inst) -> bool {
    let makes = MemoryAccess::MakePointerAvailable | MemoryAccess::MakePointerVisible;
    if !matches!(inst.op, Op::Load | Op::Store) || !inst.memory_access().intersects(makes) {
        return false;
    }
    let pointer = inst.accessed().and_then(|p| m.type_of(p)).and_then(|t| Type::of(m, t));
    matches!(pointer, Some(Type::Pointer { storage: StorageClass::Workgroup, .. }))
}

/// Returns the barriers that order shared memory, each with the operand index of its semantics and the new semantics.
/// `None` if anything else orders it, or the semantics of an instruction are not constant.
fn barriers(m: &Module) -> Option<Vec<(InstRef, usize, MemorySemantics)>> {
    let constants = Constants::new(m, &Specialization::new());
    let mut found = Vec::new();
    for r in m.all() {
        let inst = m.inst(r);
        let at = match inst.op {
            Op::ControlBarrier => 2,
            Op::MemoryBarrier => 1,
            // An atomic has semantics behind its scope: one that compares has two.
            op if op.is_atomic() => {
                let compares = matches!(op, Op::AtomicCompareExchange | Op::AtomicCompareExchangeWeak);
                for at in 2..3 + usize::from(compares) {
                    let semantics = MemorySemantics(constants.get(inst.id(at)?).fixed()? as u32);
                    if semantics.intersects(RELEASES | ACQUIRES)
                        && semantics.intersects(MemorySemantics::WorkgroupMemory)
                    {
                        return None;
                    }
                }
                continue;
            }
            op if op.is_control_barrier() => return None,
            _ => continue,
        };
        let old = MemorySemantics(constants.get(inst.id(at)?).fixed()? as u32);
        if !old.intersects(MemorySemantics::WorkgroupMemory) {
            continue;
        }
        let mut new = old;
        if old.intersects(RELEASES) {
            new |= MemorySemantics::MakeAvailable;
        }
        if old.intersects(ACQUIRES) {
            new |= MemorySemantics::MakeVisible;
        }
        found.push((r, at, new));
    }
    Some(found)
}

/// Takes MakePointerAvailable and MakePointerVisible out of the memory operands of an access.
fn make_non_private(inst: &mut Inst) {
    let Some(at) = inst.memory_operands_at() else { return };
    let memory = inst.memory_operands().expect("it has memory operands");
    let mut scopes: Vec<usize> = [memory.available, memory.visible].into_iter().flatten().map(|(_, at)| at).collect();
    scopes.sort_unstable();
    for at in scopes.into_iter().rev() {
        inst.operands.remove(at);
    }
    let makes = MemoryAccess::MakePointerAvailable | MemoryAccess::MakePointerVisible;
    inst.operands[at] = (memory.mask - makes).0.into();
}
