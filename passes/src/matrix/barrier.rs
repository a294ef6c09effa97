//! Barriers around the shared memory through which invocations exchange elements.
//!
//! In the Vulkan memory model the barrier makes what was written before it available, and visible behind it; the
//! accesses are NonPrivate. MakePointerVisible on every load says the same, but Mesa 22.3 (Debian 12) makes an execution
//! barrier of each, so a loop whose subgroups have different trip counts ends for all when it ends for the first.

use coop_ir::Operand;
use coop_ir::spv::{MemoryAccess, MemorySemantics};

/// The semantics of a barrier in a module that has the Vulkan memory model (`model`), or another one.
pub(crate) fn semantics(model: bool) -> MemorySemantics {
    let ordered = MemorySemantics::AcquireRelease | MemorySemantics::WorkgroupMemory;
    let seen = MemorySemantics::MakeAvailable | MemorySemantics::MakeVisible;
    if model { ordered | seen } else { ordered }
}

/// The memory operands of the accesses between such barriers.
pub(crate) fn access_operands(model: bool) -> Vec<Operand> {
    if model { vec![MemoryAccess::NonPrivatePointer.0.into()] } else { Vec::new() }
}
