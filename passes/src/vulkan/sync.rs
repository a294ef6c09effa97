//! Rewrites barriers, atomics and group operations for Vulkan's memory model.

use super::Kernel;
use super::pointer_target::PointerTarget;
use crate::{Lanes, Refusal};
use coop_ir::grammar::{Class, ExecutionScope};
use coop_ir::spv::{Capability, MemorySemantics, Scope};
use coop_ir::{Id, Inst, InstRef, Op, Operand};

/// Returns true if an instruction is atomic and has an equivalent in Vulkan, which has no atomic flags. Its first operand
/// is the pointer, then come scope and semantics.
pub(super) fn is_atomic(op: Op) -> bool {
    op.is_atomic() && !matches!(op, Op::AtomicFlagTestAndSet | Op::AtomicFlagClear)
}

/// Returns the subgroup operation that is equivalent to a group operation.
fn of_subgroup(op: Op) -> Option<(Op, Capability)> {
    const ARITHMETIC: Capability = Capability::GroupNonUniformArithmetic;
    Some(match op {
        Op::GroupAll => (Op::GroupNonUniformAll, Capability::GroupNonUniformVote),
        Op::GroupAny => (Op::GroupNonUniformAny, Capability::GroupNonUniformVote),
        Op::GroupBroadcast => (Op::GroupNonUniformBroadcast, Capability::GroupNonUniformBallot),
        Op::GroupIAdd => (Op::GroupNonUniformIAdd, ARITHMETIC),
        Op::GroupFAdd => (Op::GroupNonUniformFAdd, ARITHMETIC),
        Op::GroupFMin => (Op::GroupNonUniformFMin, ARITHMETIC),
        Op::GroupUMin => (Op::GroupNonUniformUMin, ARITHMETIC),
        Op::GroupSMin => (Op::GroupNonUniformSMin, ARITHMETIC),
        Op::GroupFMax => (Op::GroupNonUniformFMax, ARITHMETIC),
        Op::GroupUMax => (Op::GroupNonUniformUMax, ARITHMETIC),
        Op::GroupSMax => (Op::GroupNonUniformSMax, ARITHMETIC),
        _ => return None,
    })
}

/// Returns true if an instruction is a subgroup operation of Vulkan with a scope.
fn is_non_uniform(op: Op) -> bool {
    let class = op.info().map(|i| i.class);
    class == Some(Class::NonUniform) && op.execution_scope() == Some(ExecutionScope::Operand(0))
}

impl Kernel<'_> {
    fn scope(&mut self, id: Option<Id>) -> Option<Id> {
        let scope = id.and_then(|s| self.layout.constant(s))?;
        // A dispatch runs on one queue family.
        let now = if scope <= u64::from(Scope::Device.0) { Scope::QueueFamily.0 } else { scope as u32 };
        Some(self.u32(now))
    }

    /// Returns the same semantics in Vulkan's memory model. With `barrier`, writes are made available and visible.
    fn semantics(&mut self, id: Option<Id>, barrier: bool) -> Option<Id> {
        let was = MemorySemantics(id.and_then(|s| self.layout.constant(s))? as u32);
        let consistent = MemorySemantics::SequentiallyConsistent;
        let orders = MemorySemantics::Acquire | MemorySemantics::Release | MemorySemantics::AcquireRelease | consistent;
        let order = was & orders;
        if order.is_empty() && !barrier {
            return Some(self.u32(0));
        }
        let mut now = if order.intersects(consistent | MemorySemantics::AcquireRelease) || barrier {
            MemorySemantics::AcquireRelease
        } else {
            order
        };
        if was.intersects(MemorySemantics::WorkgroupMemory) {
            now |= MemorySemantics::WorkgroupMemory;
        }
        let device = MemorySemantics::CrossWorkgroupMemory | MemorySemantics::UniformMemory;
        let memory = device | MemorySemantics::WorkgroupMemory;
        // Without a storage class the barrier orders all of them in OpenCL's older compilers.
        if was.intersects(device) || !was.intersects(memory) {
            now |= MemorySemantics::UniformMemory;
        }
        if !was.intersects(memory) {
            now |= MemorySemantics::WorkgroupMemory;
        }
        if now.intersects(MemorySemantics::AcquireRelease | MemorySemantics::Release) {
            now |= MemorySemantics::MakeAvailable;
        }
        if now.intersects(MemorySemantics::AcquireRelease | MemorySemantics::Acquire) {
            now |= MemorySemantics::MakeVisible;
        }
        Some(self.u32(now.0))
    }

    fn unsupported(&self, r: InstRef, what: &str) -> Refusal {
        let why = format!("{what} has no equivalent in Vulkan");
        Refusal::new("refused-vulkan-group", Some(r), why, "use barriers, shared memory and operations on subgroups")
    }

    /// Rewrites a barrier.
    pub(super) fn rewrite_barrier(&mut self, r: InstRef) -> Result<(), Refusal> {
        let inst = self.m.inst(r).clone();
        let control = inst.op == Op::ControlBarrier;
        let at = usize::from(control);
        let execution = inst.scope_operand().filter(|_| control).and_then(|s| self.layout.constant(s));
        if control && execution == Some(u64::from(Scope::Subgroup.0)) && self.lanes == Lanes::LocalIndex {
            let invocations: u32 = self.local_size.iter().product();
            if self.subgroup_size.is_none_or(|s| invocations > s) {
                let why = "a barrier of a subgroup, where subgroups are parts of the workgroup (--lanes local-index)";
                let remedy = "run with one subgroup per workgroup, or with --lanes subgroup";
                return Err(Refusal::new("refused-vulkan-group", Some(r), why, remedy));
            }
        }
        let (workgroup, subgroup) = (u64::from(Scope::Workgroup.0), u64::from(Scope::Subgroup.0));
        if control && execution != Some(workgroup) && execution != Some(subgroup) {
            return Err(self.unsupported(r, "a barrier of more than a workgroup"));
        }
        let scope = self.scope(inst.id(at)).ok_or_else(|| self.unsupported(r, "a scope that is not a constant"))?;
        let semantics = self.semantics(inst.id(at + 1), true);
        let semantics = semantics.ok_or_else(|| self.unsupported(r, "semantics that are not constant"))?;
        let execution = match execution {
            // The workgroup is one subgroup.
            Some(s) if s == subgroup && self.lanes == Lanes::LocalIndex => Some(self.u32(Scope::Workgroup.0)),
            Some(s) => Some(self.u32(s as u32)),
            None => None,
        };
        let operands: Vec<Operand> = execution.into_iter().chain([scope, semantics]).map(Operand::Id).collect();
        self.m.replace(r, Inst::new(inst.op, None, None, operands).at(self.origin));
        self.keep(r);
        Ok(())
    }

    /// Rewrites an atomic instruction.
    pub(super) fn rewrite_atomic(&mut self, r: InstRef) -> Result<(), Refusal> {
        let inst = self.m.inst(r).clone();
        let pointer = inst.accessed().ok_or_else(|| self.no_layout(r))?;
        let place = self.places.get(&pointer).copied().ok_or_else(|| self.no_layout(r))?;
        let value = inst.ty.or_else(|| inst.id(3).and_then(|v| self.m.type_of(self.now(v))));
        let ty = value.ok_or_else(|| self.no_layout(r))?;
        let address = self.address(pointer, place);
        let now = match place {
            PointerTarget::Global => self.global_pointer(address, ty),
            PointerTarget::FlatVariable(root) => {
                if self.unit_type(root) != ty {
                    return Err(
                        self.unsupported(r, "an atomic on shared memory that is also accessed as other numbers")
                    );
                }
                self.unit_pointer(root, address).ok_or_else(|| self.no_layout(r))?
            }
            PointerTarget::BuiltIn(_) | PointerTarget::Matrix => return Err(self.no_layout(r)),
        };
        let exchange = matches!(inst.op, Op::AtomicCompareExchange | Op::AtomicCompareExchangeWeak);
        let mut operands = vec![Operand::Id(now)];
        let scope = self.scope(inst.id(1)).ok_or_else(|| self.unsupported(r, "a scope that is not a constant"))?;
        operands.push(scope.into());
        let masks = if exchange { 2 } else { 1 };
        for i in 0..masks {
            let semantics = self.semantics(inst.id(2 + i), false);
            operands.push(semantics.ok_or_else(|| self.unsupported(r, "semantics that are not constant"))?.into());
        }
        operands.extend(inst.ids_from(2 + masks).map(|id| Operand::Id(self.now(id))));
        let op = if exchange { Op::AtomicCompareExchange } else { inst.op };
        self.m.replace(r, Inst::new(op, inst.ty, inst.result, operands).at(self.origin));
        self.keep(r);
        Ok(())
    }

    /// Rewrites a group operation. Returns true if it was one.
    pub(super) fn rewrite_group(&mut self, r: InstRef) -> Result<bool, Refusal> {
        let inst = self.m.inst(r).clone();
        if inst.op.execution_scope().is_none() {
            return Ok(false);
        }
        let name = inst.op.to_string();
        if self.lanes == Lanes::LocalIndex {
            let why = format!("{name}, where subgroups are parts of the workgroup (--lanes local-index)");
            return Err(Refusal::new("refused-vulkan-group", Some(r), why, "use --lanes subgroup"));
        }
        if inst.op == Op::SubgroupShuffleINTEL {
            let (Some(ty), [Some(value), Some(lane)]) = (inst.ty, [0, 1].map(|i| inst.id(i))) else {
                return Err(self.no_layout(r));
            };
            let scope = self.u32(Scope::Subgroup.0);
            self.needs(Capability::GroupNonUniformShuffle);
            self.instead(r, Op::GroupNonUniformShuffle, ty, [scope, value, lane].map(Operand::Id));
            return Ok(true);
        }
        let scope = inst.scope_operand().and_then(|s| self.layout.constant(s));
        if scope != Some(u64::from(Scope::Subgroup.0)) {
            return Err(self.unsupported(r, &format!("{name} of another scope than a subgroup")));
        }
        if is_non_uniform(inst.op) {
            self.keep(r);
            return Ok(true);
        }
        let (Some((op, capability)), Some(ty)) = (of_subgroup(inst.op), inst.ty) else {
            return Err(self.unsupported(r, &name));
        };
        self.needs(capability);
        let mut operands = inst.operands.clone();
        if let Some(first) = operands.first_mut() {
            *first = Operand::Id(self.u32(Scope::Subgroup.0));
        }
        if inst.op == Op::GroupBroadcast
            && let Some(lane) = inst.id(2)
        {
            let lane = self.now(lane);
            operands[2] = Operand::Id(self.resize(lane, 32, false));
        }
        self.instead(r, op, ty, operands);
        Ok(true)
    }
}
