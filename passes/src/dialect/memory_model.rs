//! Replaces the memory model of GLSL 4.50 by that of Vulkan, which matrices of SPV_KHR_cooperative_matrix need.
//!
//! Precondition: no decoration groups. Effect: accesses of shared memory are made available and visible to the workgroup; those
//! of buffers to the queue family, if anything is `Coherent` or orders buffers. All of them are then, and all are volatile
//! where anything is: a module may ask for more than it needs. Scope Device becomes QueueFamily, which is what it means where the
//! model is not declared. Sequentially consistent operations acquire and release.
//!
//! Refuses: images that are `Coherent` or `Volatile`; extended instructions that write shared memory or buffers; semantics and
//! scopes that are not constant.

use crate::Refusal;
use coop_ir::builder::{Globals, require_capability, require_extension};
use coop_ir::constant::{Constants, Specialization};
use coop_ir::decode::decode;
use coop_ir::rewrite::{remove_globals, sort_globals};
use coop_ir::spv::{Capability, Decoration, MemoryAccess, MemoryModel, MemorySemantics, Scope, StorageClass};
use coop_ir::types::storage_of;
use coop_ir::views::MemoryOperands;
use coop_ir::{Id, Inst, InstRef, Kind, Module, Op, Operand};

pub(super) fn run(m: &mut Module) -> Result<(), Refusal> {
    let glsl = |r: &InstRef| m.inst(*r).enumerant(1) == Some(MemoryModel::GLSL450);
    let Some(model) = m.globals_with(Op::MemoryModel).next().filter(glsl) else { return Ok(()) };
    let has = |m: &Module, d| m.globals.iter().any(|r| decorates(m.inst(*r), d));
    let (coherent, volatile) = (has(m, Decoration::Coherent), has(m, Decoration::Volatile));
    if let Some(image) = m.globals_with(Op::TypeImage).next().filter(|_| coherent || volatile) {
        let why = "images beside Coherent or Volatile memory have no form in the Vulkan memory model yet";
        return Err(refusal(image, why));
    }
    let mut pass = Pass {
        globals: Globals::new(m),
        constants: Constants::new(m, &Specialization::new()),
        buffers: coherent || volatile,
        volatile,
    };
    let body: Vec<InstRef> = m.functions.iter().flat_map(|f| f.insts()).collect();
    for r in body.iter().copied() {
        pass.semantics(m, r)?;
    }
    for r in body {
        pass.access(m, r)?;
    }
    remove_globals(m, |m, r| [Decoration::Coherent, Decoration::Volatile].iter().any(|d| decorates(m.inst(r), *d)));
    m.inst_mut(model).operands[1] = MemoryModel::Vulkan.into();
    require_capability(m, Capability::VulkanMemoryModel);
    if m.header.version_pair() < (1, 5) {
        require_extension(m, "SPV_KHR_vulkan_memory_model");
    }
    sort_globals(m);
    Ok(())
}

fn decorates(inst: &Inst, decoration: Decoration) -> bool {
    inst.decorates(decoration) || inst.decorates_member(decoration)
}

fn refusal(at: InstRef, why: &str) -> Refusal {
    let remedy = "compile the shader for the Vulkan memory model (#pragma use_vulkan_memory_model in GLSL), or lower it to scalar";
    Refusal::new("refused-dialect", Some(at), why, remedy)
}

struct Pass {
    globals: Globals,
    constants: Constants,
    /// True if other invocations see what is written to buffers.
    buffers: bool,
    volatile: bool,
}

impl Pass {
    /// Replaces scopes and semantics.
    fn semantics(&mut self, m: &mut Module, r: InstRef) -> Result<(), Refusal> {
        let i = m.inst(r);
        let words: Vec<u32> = i.operands.iter().map(|o| o.word()).collect();
        let mut found = Vec::new();
        decode(m, i.op, i.ty, &words, &mut |piece| {
            if matches!(piece.kind, Kind::IdScope | Kind::IdMemorySemantics) {
                found.push((piece.kind, piece.start));
            }
        });
        for (kind, at) in found {
            let value = m.inst(r).id(at).and_then(|id| self.constants.get(id).fixed());
            let Some(old) = value.and_then(|v| u32::try_from(v).ok()) else {
                return Err(refusal(r, "a scope or semantics are not a constant"));
            };
            let new = match kind {
                Kind::IdScope if Scope(old) == Scope::Device => Scope::QueueFamily.0,
                Kind::IdScope => old,
                _ => self.new_semantics(m.inst(r).op, MemorySemantics(old)).0,
            };
            if new != old {
                let id = self.globals.u32(m, new);
                m.inst_mut(r).operands[at] = id.into();
            }
        }
        Ok(())
    }

    fn new_semantics(&mut self, op: Op, old: MemorySemantics) -> MemorySemantics {
        let mut new = old;
        if old.contains(MemorySemantics::SequentiallyConsistent) {
            new = old - MemorySemantics::SequentiallyConsistent;
            new |= match op {
                Op::AtomicLoad => MemorySemantics::Acquire,
                Op::AtomicStore => MemorySemantics::Release,
                _ => MemorySemantics::AcquireRelease,
            };
        }
        self.buffers |= new.intersects(MemorySemantics::UniformMemory);
        if self.volatile && op.is_atomic() {
            new |= MemorySemantics::Volatile;
        }
        new
    }

    /// Gives an access its memory operands.
    fn access(&mut self, m: &mut Module, r: InstRef) -> Result<(), Refusal> {
        let inst = m.inst(r);
        if inst.op.is_ext_inst() {
            let mut written = inst.ids().filter_map(|id| storage_of(m, id));
            return match written.find(|class| self.scope(*class).is_some()) {
                Some(class) => Err(refusal(r, &format!("an extended instruction accesses {class} memory"))),
                None => Ok(()),
            };
        }
        let Some(at) = inst.memory_operands_at() else { return Ok(()) };
        let scope = |id: Id| storage_of(m, id).and_then(|class| self.scope(class));
        let (target, source) = match inst.copied() {
            Some((target, source)) => (scope(target), scope(source)),
            None if inst.stored().is_some() => (inst.accessed().and_then(scope), None),
            None => (None, inst.accessed().and_then(scope)),
        };
        let (target, source) = (target.map(|s| self.globals.u32(m, s.0)), source.map(|s| self.globals.u32(m, s.0)));
        // A copy may have operands for either side.
        let second = MemoryOperands::at(m.inst(r), at).end;
        if m.inst(r).copied().is_some() && second < m.inst(r).operands.len() {
            share(m.inst_mut(r), second, (None, source), self.volatile);
            share(m.inst_mut(r), at, (target, None), self.volatile);
        } else {
            share(m.inst_mut(r), at, (target, source), self.volatile);
        }
        Ok(())
    }

    /// Returns the scope that sees what is written to memory of a class.
    fn scope(&self, class: StorageClass) -> Option<Scope> {
        match class {
            StorageClass::Workgroup => Some(Scope::Workgroup),
            StorageClass::StorageBuffer | StorageClass::PhysicalStorageBuffer | StorageClass::Uniform => {
                self.buffers.then_some(Scope::QueueFamily)
            }
            _ => None,
        }
    }
}

/// Adds the scopes for which an access makes what it writes available, and what it reads visible.
fn share(inst: &mut Inst, at: usize, (available, visible): (Option<Id>, Option<Id>), volatile: bool) {
    if available.is_none() && visible.is_none() {
        return;
    }
    let mut mask = MemoryOperands::at(inst, at).mask | MemoryAccess::NonPrivatePointer;
    let mut end = MemoryOperands::at(inst, at).end;
    if inst.operands.len() == at {
        inst.operands.push(Operand::Word(0));
        end = at + 1;
    }
    for (scope, bit) in [(available, MemoryAccess::MakePointerAvailable), (visible, MemoryAccess::MakePointerVisible)] {
        if let Some(scope) = scope {
            mask |= bit;
            inst.operands.insert(end, scope.into());
            end += 1;
        }
    }
    if volatile {
        mask |= MemoryAccess::Volatile;
    }
    inst.operands[at] = mask.0.into();
}
