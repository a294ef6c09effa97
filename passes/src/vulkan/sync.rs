//! Barriers, atomics and operations on groups, in Vulkan's memory model.

use super::Kernel;
use super::place::Place;
use crate::{Lanes, Refusal};
use coop_ir::{Id, Inst, InstRef, Op, Operand};
use spirv::{Capability, MemorySemantics, Scope};

/// Whether an instruction is atomic. Its first operand is the pointer, then come scope and semantics.
pub(super) fn is_atomic(op: Op) -> bool {
    matches!(
        op,
        Op::AtomicLoad
            | Op::AtomicStore
            | Op::AtomicExchange
            | Op::AtomicCompareExchange
            | Op::AtomicCompareExchangeWeak
            | Op::AtomicIIncrement
            | Op::AtomicIDecrement
            | Op::AtomicIAdd
            | Op::AtomicISub
            | Op::AtomicSMin
            | Op::AtomicUMin
            | Op::AtomicSMax
            | Op::AtomicUMax
            | Op::AtomicAnd
            | Op::AtomicOr
            | Op::AtomicXor
            | Op::AtomicFAddEXT
            | Op::AtomicFMinEXT
            | Op::AtomicFMaxEXT
    )
}

/// The operation on subgroups that does what one on groups does.
fn of_subgroup(op: Op) -> Option<(Op, Capability)> {
    use Capability::{GroupNonUniformArithmetic, GroupNonUniformBallot, GroupNonUniformVote};
    Some(match op {
        Op::GroupAll => (Op::GroupNonUniformAll, GroupNonUniformVote),
        Op::GroupAny => (Op::GroupNonUniformAny, GroupNonUniformVote),
        Op::GroupBroadcast => (Op::GroupNonUniformBroadcast, GroupNonUniformBallot),
        Op::GroupIAdd => (Op::GroupNonUniformIAdd, GroupNonUniformArithmetic),
        Op::GroupFAdd => (Op::GroupNonUniformFAdd, GroupNonUniformArithmetic),
        Op::GroupFMin => (Op::GroupNonUniformFMin, GroupNonUniformArithmetic),
        Op::GroupUMin => (Op::GroupNonUniformUMin, GroupNonUniformArithmetic),
        Op::GroupSMin => (Op::GroupNonUniformSMin, GroupNonUniformArithmetic),
        Op::GroupFMax => (Op::GroupNonUniformFMax, GroupNonUniformArithmetic),
        Op::GroupUMax => (Op::GroupNonUniformUMax, GroupNonUniformArithmetic),
        Op::GroupSMax => (Op::GroupNonUniformSMax, GroupNonUniformArithmetic),
        _ => return None,
    })
}

impl Kernel<'_> {
    fn scope(&mut self, id: Option<Id>) -> Option<Id> {
        let scope = id.and_then(|s| self.layout.constant(s))?;
        // A dispatch runs on one queue.
        let now = if scope <= Scope::Device as u64 { Scope::QueueFamily as u32 } else { scope as u32 };
        Some(self.u32(now))
    }

    /// The same semantics in Vulkan's memory model. `barrier`: what was written is made visible.
    fn semantics(&mut self, id: Option<Id>, barrier: bool) -> Option<Id> {
        let was = MemorySemantics::from_bits_truncate(id.and_then(|s| self.layout.constant(s))? as u32);
        let consistent = MemorySemantics::SEQUENTIALLY_CONSISTENT;
        let orders =
            MemorySemantics::ACQUIRE | MemorySemantics::RELEASE | MemorySemantics::ACQUIRE_RELEASE | consistent;
        let order = was & orders;
        if order.is_empty() && !barrier {
            return Some(self.u32(0));
        }
        let mut now = if order.intersects(consistent | MemorySemantics::ACQUIRE_RELEASE) || barrier {
            MemorySemantics::ACQUIRE_RELEASE
        } else {
            order
        };
        if was.intersects(MemorySemantics::WORKGROUP_MEMORY) {
            now |= MemorySemantics::WORKGROUP_MEMORY;
        }
        let device = MemorySemantics::CROSS_WORKGROUP_MEMORY | MemorySemantics::UNIFORM_MEMORY;
        let memory = device | MemorySemantics::WORKGROUP_MEMORY;
        // Without a kind of memory the barrier orders all of them in OpenCL's older compilers.
        if was.intersects(device) || !was.intersects(memory) {
            now |= MemorySemantics::UNIFORM_MEMORY;
        }
        if !was.intersects(memory) {
            now |= MemorySemantics::WORKGROUP_MEMORY;
        }
        if now.intersects(MemorySemantics::ACQUIRE_RELEASE | MemorySemantics::RELEASE) {
            now |= MemorySemantics::MAKE_AVAILABLE;
        }
        if now.intersects(MemorySemantics::ACQUIRE_RELEASE | MemorySemantics::ACQUIRE) {
            now |= MemorySemantics::MAKE_VISIBLE;
        }
        Some(self.u32(now.bits()))
    }

    fn odd(&self, r: InstRef, what: &str) -> Refusal {
        let why = format!("{what} has no equal in Vulkan");
        Refusal::new("refused-vulkan-group", Some(r), why, "use barriers, shared memory and operations on subgroups")
    }

    /// A barrier.
    pub(super) fn rewrite_barrier(&mut self, r: InstRef) -> Result<(), Refusal> {
        let inst = self.m.inst(r).clone();
        let control = inst.op == Op::ControlBarrier;
        let at = usize::from(control);
        let execution = if control { inst.id(0).and_then(|s| self.layout.constant(s)) } else { None };
        if control && execution == Some(Scope::Subgroup as u64) && self.lanes == Lanes::LocalIndex {
            let invocations: u32 = self.local_size.iter().product();
            if self.subgroup_size.is_none_or(|s| invocations > s) {
                let why = "a barrier of a subgroup, where subgroups are parts of the workgroup (--lanes local-index)";
                let remedy = "run with one subgroup per workgroup, or with --lanes subgroup";
                return Err(Refusal::new("refused-vulkan-group", Some(r), why, remedy));
            }
        }
        if control && !matches!(execution, Some(2 | 3)) {
            return Err(self.odd(r, "a barrier of more than a workgroup"));
        }
        let scope = self.scope(inst.id(at)).ok_or_else(|| self.odd(r, "a scope that is not a constant"))?;
        let semantics = self.semantics(inst.id(at + 1), true);
        let semantics = semantics.ok_or_else(|| self.odd(r, "semantics that are not constant"))?;
        let execution = match execution {
            // One subgroup is the workgroup.
            Some(3) if self.lanes == Lanes::LocalIndex => Some(self.u32(Scope::Workgroup as u32)),
            Some(s) => Some(self.u32(s as u32)),
            None => None,
        };
        let operands: Vec<Operand> = execution.into_iter().chain([scope, semantics]).map(Operand::Id).collect();
        self.m.replace(r, Inst::new(inst.op, None, None, operands).at(self.origin));
        self.keep(r);
        Ok(())
    }

    /// An atomic instruction.
    pub(super) fn rewrite_atomic(&mut self, r: InstRef) -> Result<(), Refusal> {
        let inst = self.m.inst(r).clone();
        let pointer = inst.id(0).ok_or_else(|| self.no_layout(r))?;
        let place = self.places.get(&pointer).copied().ok_or_else(|| self.no_layout(r))?;
        let value = inst.ty.or_else(|| inst.id(3).and_then(|v| self.m.type_of(self.now(v))));
        let ty = value.ok_or_else(|| self.no_layout(r))?;
        let address = self.address(pointer, place);
        let now = match place {
            Place::Global => self.global_pointer(address, ty),
            Place::Root(root) => {
                if self.unit_type(root) != ty {
                    return Err(self.odd(r, "an atomic on shared memory that is looked at as other numbers too"));
                }
                self.unit_pointer(root, address).ok_or_else(|| self.no_layout(r))?
            }
            Place::BuiltIn(_) | Place::Matrix => return Err(self.no_layout(r)),
        };
        let exchange = matches!(inst.op, Op::AtomicCompareExchange | Op::AtomicCompareExchangeWeak);
        let mut operands = vec![Operand::Id(now)];
        let scope = self.scope(inst.id(1)).ok_or_else(|| self.odd(r, "a scope that is not a constant"))?;
        operands.push(scope.into());
        let masks = if exchange { 2 } else { 1 };
        for i in 0..masks {
            let semantics = self.semantics(inst.id(2 + i), false);
            operands.push(semantics.ok_or_else(|| self.odd(r, "semantics that are not constant"))?.into());
        }
        operands.extend(inst.ids_from(2 + masks).map(|id| Operand::Id(self.now(id))));
        let op = if exchange { Op::AtomicCompareExchange } else { inst.op };
        self.m.replace(r, Inst::new(op, inst.ty, inst.result, operands).at(self.origin));
        self.keep(r);
        Ok(())
    }

    /// An operation on a group. Answers whether it was one.
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
            let scope = self.u32(Scope::Subgroup as u32);
            self.needs(Capability::GroupNonUniformShuffle);
            self.instead(r, Op::GroupNonUniformShuffle, ty, [scope, value, lane].map(Operand::Id));
            return Ok(true);
        }
        let scope = inst.id(0).and_then(|s| self.layout.constant(s));
        if scope != Some(Scope::Subgroup as u64) {
            return Err(self.odd(r, &format!("{name} of another scope than a subgroup")));
        }
        if name.starts_with("OpGroupNonUniform") {
            self.keep(r);
            return Ok(true);
        }
        let (Some((op, capability)), Some(ty)) = (of_subgroup(inst.op), inst.ty) else {
            return Err(self.odd(r, &name));
        };
        self.needs(capability);
        let mut operands = inst.operands.clone();
        if let Some(first) = operands.first_mut() {
            *first = Operand::Id(self.u32(Scope::Subgroup as u32));
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
