//! Replaces the Vulkan memory model by that of GLSL 4.50, for devices that have no other.
//!
//! Precondition: no matrices, no decoration groups. Effect: accesses no longer say what is private, made available or made
//! visible. The variables of which an access is not private are `Coherent` instead, for all of their accesses (shared memory is by
//! itself), and a variable of volatile atomic operations is `Volatile`. Scope QueueFamily becomes Device, which includes it, and so does
//! the memory scope Workgroup in tessellation control, which Vulkan has with the Vulkan memory model only
//! (VUID-StandaloneSpirv-ExecutionModel-07320); a barrier makes outputs visible there in any case.
//!
//! Refuses: accesses that are not private by device addresses and by pointers that are passed or chosen; images; semantics
//! that are not constant.

use crate::Refusal;
use crate::pipeline::Cx;
use crate::report::Software;
use coop_ir::builder::{Globals, decorate};
use coop_ir::constant::{Constants, Specialization};
use coop_ir::decode::decode;
use coop_ir::decorate::Decorations;
use coop_ir::entry::{CallGraph, entry_points};
use coop_ir::rewrite::{remove_capability, sort_globals};
use coop_ir::spv::{
    Capability, Decoration, ExecutionModel, MemoryAccess, MemoryModel, MemorySemantics, Scope, StorageClass,
};
use coop_ir::types::storage_of;
use coop_ir::views::MemoryOperands;
use coop_ir::{Id, Inst, InstRef, Kind, Module, Op, Operand};

/// The bits of memory operands that only the Vulkan memory model has.
const ACCESS: MemoryAccess = MemoryAccess(
    MemoryAccess::MakePointerAvailable.0 | MemoryAccess::MakePointerVisible.0 | MemoryAccess::NonPrivatePointer.0,
);
/// The bits of semantics that only it has.
const SEMANTICS: MemorySemantics = MemorySemantics(
    MemorySemantics::MakeAvailable.0
        | MemorySemantics::MakeVisible.0
        | MemorySemantics::OutputMemory.0
        | MemorySemantics::Volatile.0,
);
/// The bits of semantics that name memory.
const MEMORY: MemorySemantics = MemorySemantics(
    MemorySemantics::UniformMemory.0
        | MemorySemantics::SubgroupMemory.0
        | MemorySemantics::WorkgroupMemory.0
        | MemorySemantics::CrossWorkgroupMemory.0
        | MemorySemantics::AtomicCounterMemory.0
        | MemorySemantics::ImageMemory.0,
);

pub(crate) fn run(m: &mut Module, cx: &mut Cx<'_>) -> Result<(), Refusal> {
    let model = m.globals_with(Op::MemoryModel).next();
    let Some(model) = model.filter(|r| m.inst(*r).enumerant(1) == Some(MemoryModel::Vulkan)) else { return Ok(()) };
    if !cx.lacks.has(coop_device::Feature::VulkanMemoryModel) {
        return Ok(());
    }
    if let Some(r) = m.globals_with(Op::TypeImage).next() {
        let why = "images have no lowering from the Vulkan memory model yet";
        return Err(Refusal::new(r, why, "use buffers, or declare the memory model GLSL450"));
    }
    let mut pass =
        Pass { constants: Constants::new(m, &Specialization::new()), globals: Globals::new(m), decorated: Vec::new() };
    let known = Decorations::new(m);
    let tessellates = tessellating(m, &known);
    for f in 0..m.functions.len() {
        for r in m.functions[f].insts().collect::<Vec<_>>() {
            pass.access(m, r)?;
            pass.operands(m, r, tessellates.contains(&f))?;
        }
    }
    pass.decorated.sort_unstable();
    pass.decorated.dedup();
    for (id, d) in pass.decorated.into_iter().filter(|(id, d)| !known.has(*id, *d)) {
        decorate(m, id, d, &[]);
    }
    m.inst_mut(model).operands[1] = Operand::Word(MemoryModel::GLSL450.0);
    remove_capability(m, Capability::VulkanMemoryModelDeviceScope);
    sort_globals(m);
    cx.report.software.push(Software::MemoryModel);
    Ok(())
}

/// Returns the functions that invocations of tessellation control execute.
fn tessellating(m: &Module, decorations: &Decorations) -> Vec<usize> {
    let mut entries = entry_points(m, decorations);
    entries.retain(|e| e.model == ExecutionModel::TessellationControl);
    if entries.is_empty() {
        return Vec::new();
    }
    let calls = CallGraph::new(m);
    calls.reachable(entries.iter().filter_map(|e| calls.function(e.function)))
}

struct Pass {
    constants: Constants,
    globals: Globals,
    decorated: Vec<(Id, Decoration)>,
}

impl Pass {
    /// Takes the memory operands of an access.
    fn access(&mut self, m: &mut Module, r: InstRef) -> Result<(), Refusal> {
        let Some(at) = m.inst(r).memory_operands_at() else { return Ok(()) };
        let pointers = match m.inst(r).copied() {
            Some((target, source)) => vec![target, source],
            None => m.inst(r).accessed().into_iter().collect(),
        };
        // A copy may have operands for either side.
        let second = MemoryOperands::at(m.inst(r), at).end;
        let mut shared = false;
        for at in [second, at] {
            shared |= without_model(m.inst_mut(r), at);
        }
        pointers.into_iter().filter(|_| shared).try_for_each(|p| self.decorate(m, r, p, Decoration::Coherent))
    }

    /// Replaces scopes and semantics; `tessellates`: of an instruction that invocations of tessellation control execute.
    fn operands(&mut self, m: &mut Module, r: InstRef, tessellates: bool) -> Result<(), Refusal> {
        let i = m.inst(r);
        let words: Vec<u32> = i.operands.iter().map(|o| o.word()).collect();
        let mut found = Vec::new();
        decode(m, i.op, i.ty, &words, &mut |piece| {
            if matches!(piece.kind, Kind::IdScope | Kind::IdMemorySemantics) {
                found.push((piece.kind, piece.start));
            }
        });
        let semantics: Vec<usize> = found.iter().filter(|f| f.0 == Kind::IdMemorySemantics).map(|f| f.1).collect();
        for (kind, at) in found {
            let value = m.inst(r).id(at).and_then(|id| self.constants.get(id).fixed());
            let Some(old) = value.and_then(|v| u32::try_from(v).ok()) else {
                let why = "a scope or semantics are not a constant";
                return Err(Refusal::new(r, why, "lower with the value that the pipeline gives: --spec ID=VALUE"));
            };
            let new = match kind {
                Kind::IdScope if Scope(old) == Scope::QueueFamily => Scope::Device.0,
                // A scope before semantics is one of memory.
                Kind::IdScope if tessellates && Scope(old) == Scope::Workgroup && semantics.contains(&(at + 1)) => {
                    Scope::Device.0
                }
                Kind::IdScope => old,
                _ => {
                    if MemorySemantics(old).contains(MemorySemantics::Volatile)
                        && let Some(pointer) = m.inst(r).accessed()
                    {
                        self.decorate(m, r, pointer, Decoration::Volatile)?;
                    }
                    let left = MemorySemantics(old) - SEMANTICS;
                    if left.intersects(MEMORY) { left.0 } else { MemorySemantics::None.0 }
                }
            };
            if new != old {
                let id = self.globals.u32(m, new);
                m.inst_mut(r).operands[at] = id.into();
            }
        }
        Ok(())
    }

    /// Decorates the variable that a pointer points into, where its memory is no invocation's and no workgroup's own.
    fn decorate(&mut self, m: &Module, r: InstRef, pointer: Id, d: Decoration) -> Result<(), Refusal> {
        let class = storage_of(m, pointer);
        let own = [StorageClass::Function, StorageClass::Private, StorageClass::Workgroup, StorageClass::Input];
        if class.is_none_or(|class| own.contains(&class)) && d == Decoration::Coherent {
            return Ok(());
        }
        let root = coop_ir::pointers::root(m, pointer, Op::derives_pointer);
        match root.filter(|id| m.def_inst(*id).is_some_and(|i| i.op == Op::Variable)) {
            Some(variable) => self.decorated.push((variable, d)),
            None => {
                let why = "memory that other invocations see is accessed through a pointer that no variable is known of, \
                           and the device lacks the Vulkan memory model";
                return Err(Refusal::new(r, why, "access the memory directly, by access chains from its variable"));
            }
        }
        Ok(())
    }
}

/// Takes out of memory operands what the model of GLSL 4.50 lacks. Returns true if they said that the access is not private.
fn without_model(inst: &mut Inst, at: usize) -> bool {
    let memory = MemoryOperands::at(inst, at);
    let mut scopes: Vec<usize> = [memory.available, memory.visible].into_iter().flatten().map(|(_, at)| at).collect();
    scopes.sort_unstable();
    for at in scopes.into_iter().rev() {
        inst.operands.remove(at);
    }
    if memory.mask.intersects(ACCESS) {
        inst.operands[at] = (memory.mask - ACCESS).0.into();
    }
    memory.mask.intersects(ACCESS)
}
