//! Rules about the memory operands of loads and stores.

use super::access::Pointer;
use super::sync;
use crate::cx::Cx;
use crate::declare_rule;
use crate::report::{Draft, Part, Sink};
use crate::verdict::Verdict;
use coop_ir::spv::{Capability, MemoryAccess, Scope, StorageClass};
use coop_ir::types::scope_name;
use coop_ir::views::MemoryOperands;
use coop_ir::{Id, InstRef};

declare_rule! {
    /// ## What it checks
    /// A load does not carry MakePointerAvailable.
    /// ## Why
    /// Only writes are made available; a load makes visible what others wrote.
    /// ## Example
    /// `OpCooperativeMatrixLoadKHR ... MakePointerAvailable|NonPrivatePointer %workgroup`
    pub(crate) static LOAD_AVAILABLE = {
        id: "memory-load-available",
        summary: "a load makes its pointer available",
        level: Error,
        since: "0.1.0",
        spec: "SPIR-V, Memory Operands",
        vuids: [],
        digest: ["mem.load-no-available"],
    }
}

declare_rule! {
    /// ## What it checks
    /// A store does not carry MakePointerVisible.
    /// ## Why
    /// Only reads make visible; a store makes available what it wrote.
    /// ## Example
    /// `OpCooperativeMatrixStoreKHR ... MakePointerVisible|NonPrivatePointer %workgroup`
    pub(crate) static STORE_VISIBLE = {
        id: "memory-store-visible",
        summary: "a store makes its pointer visible",
        level: Error,
        since: "0.1.0",
        spec: "SPIR-V, Memory Operands",
        vuids: [],
        digest: ["mem.store-no-visible"],
    }
}

declare_rule! {
    /// ## What it checks
    /// MakePointerAvailable and MakePointerVisible come with NonPrivatePointer.
    /// ## Why
    /// A private access takes no part in what invocations show each other.
    /// ## Example
    /// `OpCooperativeMatrixLoadKHR ... MakePointerVisible %workgroup`
    pub(crate) static PRIVATE = {
        id: "memory-not-nonprivate",
        summary: "available or visible without NonPrivatePointer",
        level: Error,
        since: "0.1.0",
        spec: "SPIR-V, Memory Operands",
        vuids: [],
        digest: ["mem.nonprivate"],
    }
}

declare_rule! {
    /// ## What it checks
    /// The literal of Aligned is a power of two.
    /// ## Why
    /// Nothing else is an alignment.
    /// ## Example
    /// `OpCooperativeMatrixLoadKHR ... Aligned 12`
    pub(crate) static NOT_POWER = {
        id: "memory-alignment-not-power",
        summary: "an alignment is not a power of two",
        level: Error,
        since: "0.1.0",
        spec: "SPIR-V, Memory Operands",
        vuids: [],
        digest: ["mem.aligned-pow2"],
    }
}

declare_rule! {
    /// ## What it checks
    /// Loads and stores in PhysicalStorageBuffer memory carry Aligned.
    /// ## Why
    /// The alignment of an address is not known otherwise, and the consumer selects instructions by it.
    /// ## Example
    /// A load through a buffer reference without memory operands.
    pub(crate) static ALIGNED_MISSING = {
        id: "memory-aligned-missing",
        summary: "an access to PhysicalStorageBuffer without Aligned",
        level: Error,
        since: "0.1.0",
        spec: "Vulkan, Standalone SPIR-V Validation",
        vuids: ["VUID-StandaloneSpirv-PhysicalStorageBuffer64-04708"],
        digest: ["mem.psb-aligned"],
    }
}

declare_rule! {
    /// ## What it checks
    /// In PhysicalStorageBuffer memory, the literal of Aligned is a multiple of the size of the scalar that Pointer
    /// points to.
    /// ## Why
    /// No scalar may lie across its own size.
    /// ## Example
    /// `Aligned 2` with a pointer to f32.
    pub(crate) static NOT_MULTIPLE = {
        id: "memory-alignment-not-multiple",
        summary: "an alignment less than the scalar's size",
        level: Error,
        since: "0.1.0",
        spec: "Vulkan, Standalone SPIR-V Validation",
        vuids: ["VUID-StandaloneSpirv-PhysicalStorageBuffer64-06314"],
        digest: ["mem.psb-align-multiple"],
    }
}

declare_rule! {
    /// ## What it checks
    /// In a shader, the scope of MakePointerAvailable or MakePointerVisible is a constant instruction of a 32-bit integer
    /// type; specialization constants are allowed.
    /// ## Why
    /// Which caches are concerned must be known when the pipeline is made.
    /// ## Example
    /// `MakePointerVisible|NonPrivatePointer %loaded`
    pub(crate) static SCOPE_NOT_CONSTANT = {
        id: "memory-scope-not-constant",
        summary: "the scope of a memory operand is not a constant instruction",
        level: Error,
        since: "0.1.0",
        spec: "SPV_KHR_cooperative_matrix, 2.16.2 Validation Rules for Shader Capabilities",
        vuids: [],
        digest: ["khr.scope-ids-const", "flow.uniform-memop-ids"],
    }
}

declare_rule! {
    /// ## What it checks
    /// In Vulkan, the scope of MakePointerAvailable or MakePointerVisible is Device, Workgroup, Subgroup, Invocation,
    /// QueueFamily or ShaderCall.
    /// ## Why
    /// Vulkan has no other.
    /// ## Example
    /// `MakePointerVisible|NonPrivatePointer %cross_device`
    pub(crate) static SCOPE_UNSUPPORTED = {
        id: "memory-scope-unsupported",
        summary: "the scope of a memory operand is not one of Vulkan's",
        level: Error,
        since: "0.1.0",
        spec: "Vulkan, Standalone SPIR-V Validation",
        vuids: ["VUID-StandaloneSpirv-None-04638"],
        digest: ["mem.scope-vulkan"],
    }
}

declare_rule! {
    /// ## What it checks
    /// The memory operands have no bit that is not defined.
    /// ## Why
    /// The operands of an unknown bit are unknown, so the operands behind it can't be decoded either.
    /// ## Example
    /// A mask of `0x400`.
    pub(crate) static UNKNOWN = {
        id: "memory-operand-unknown",
        summary: "undefined bits in the memory operands",
        level: Error,
        since: "0.1.0",
        spec: "SPIR-V, Memory Operands",
        vuids: [],
        digest: ["mem.mask-known"],
    }
}

/// The memory operands of a load or store.
pub(crate) struct Site {
    pub(crate) at: InstRef,
    pub(crate) is_load: bool,
    /// The index of the first memory operand.
    pub(crate) memory: usize,
    pub(crate) pointer: Pointer,
}

impl Site {
    fn verb(&self) -> &'static str {
        if self.is_load { "load" } else { "store" }
    }
}

/// Checks the memory operands of a load or store; returns the index of the operand behind them, if they are known.
pub(crate) fn check(cx: &Cx, a: &Site, out: &mut Sink) -> Option<usize> {
    let m = MemoryOperands::at(cx.inst(a.at), a.memory);
    let mask = Part::Operand(a.memory);
    if !m.unknown.is_empty() {
        out.report(&UNKNOWN, a.at, || {
            Draft::new(format!("the bits {:#x} of the memory operands are not defined", m.unknown.0)).label(
                a.at,
                mask,
                format!("the mask is {:#x}", m.mask.0),
            )
        });
    }
    if a.is_load && m.mask.contains(MemoryAccess::MakePointerAvailable) {
        out.report(&LOAD_AVAILABLE, a.at, || {
            Draft::new("a load can't make its pointer available")
                .label(a.at, mask, "MakePointerAvailable is set")
                .help("use MakePointerVisible")
        });
    }
    if !a.is_load && m.mask.contains(MemoryAccess::MakePointerVisible) {
        out.report(&STORE_VISIBLE, a.at, || {
            Draft::new("a store can't make its pointer visible")
                .label(a.at, mask, "MakePointerVisible is set")
                .help("use MakePointerAvailable")
        });
    }
    if m.mask.intersects(MemoryAccess::MakePointerAvailable | MemoryAccess::MakePointerVisible)
        && !m.mask.contains(MemoryAccess::NonPrivatePointer)
    {
        let name = if m.mask.contains(MemoryAccess::MakePointerAvailable) {
            "MakePointerAvailable"
        } else {
            "MakePointerVisible"
        };
        out.report(&PRIVATE, a.at, || {
            Draft::new(format!("{name} needs NonPrivatePointer"))
                .label(a.at, mask, "NonPrivatePointer is not set")
                .help(format!("write {name}|NonPrivatePointer"))
        });
    }
    alignment(cx, a, &m, out);
    for (name, scope) in [("MakePointerAvailable", m.available), ("MakePointerVisible", m.visible)] {
        if let Some((id, operand)) = scope {
            check_scope(cx, a, name, id, operand, out);
        }
    }
    m.unknown.is_empty().then_some(m.end)
}

fn alignment(cx: &Cx, a: &Site, m: &MemoryOperands, out: &mut Sink) {
    let physical = a.pointer.storage == Some(StorageClass::PhysicalStorageBuffer);
    let Some((n, operand)) = m.aligned else {
        if physical && !m.mask.contains(MemoryAccess::Aligned) {
            out.report(&ALIGNED_MISSING, a.at, || {
                Draft::new(format!("a {} in PhysicalStorageBuffer memory must say its alignment", a.verb()))
                    .label(a.at, Part::Operand(0), "points to PhysicalStorageBuffer memory")
                    .help("add the memory operand Aligned with the alignment in bytes")
            });
        }
        return;
    };
    if !n.is_power_of_two() {
        out.report(&NOT_POWER, a.at, || {
            Draft::new(format!("the alignment {n} is not a power of two")).label(
                a.at,
                Part::Operand(operand),
                "must be a power of two",
            )
        });
        return;
    }
    if let (true, Some((scalar, _))) = (physical, a.pointer.unit(cx))
        // A width of 0 is wrong, but outside of these rules.
        && !n.is_multiple_of(scalar.bytes().max(1))
    {
        let bytes = scalar.bytes();
        out.report(&NOT_MULTIPLE, a.at, || {
            Draft::new(format!("the alignment {n} is not a multiple of the {bytes} bytes of {scalar}"))
                .label(a.at, Part::Operand(operand), format!("must be a multiple of {bytes}"))
                .label_opt(cx.def(a.pointer.ty), Part::Operand(1), format!("points to {scalar}"))
        });
    }
}

fn check_scope(cx: &Cx, a: &Site, name: &str, id: Id, operand: usize, out: &mut Sink) {
    let Some(def) = cx.module.def_inst(id) else { return };
    if cx.has(Capability::Shader) && !def.op.is_constant() {
        out.report(&SCOPE_NOT_CONSTANT, a.at, || {
            Draft::new(format!("the scope of {name} must be a constant instruction; this is the result of {}", def.op))
                .label(a.at, Part::Operand(operand), "not a constant")
                .label_opt(cx.def(id), Part::Result, "computed here")
        });
        return;
    }
    if let (true, Some(why)) = (cx.has(Capability::Shader), cx.not_const_u32(id)) {
        out.report(&SCOPE_NOT_CONSTANT, a.at, || {
            Draft::new(format!("the scope of {name} must be a constant of a 32-bit integer type; {why}"))
                .label(a.at, Part::Operand(operand), "a scope")
                .label_opt(cx.def(id), Part::Whole, "comes from here")
        });
        return;
    }
    sync::device_scope(cx, a.at, operand, id, out);
    if cx.env.is_vulkan() {
        let value = cx.constant(id);
        let known = [
            Scope::Device,
            Scope::Workgroup,
            Scope::Subgroup,
            Scope::Invocation,
            Scope::QueueFamily,
            Scope::ShaderCallKHR,
        ];
        let verdict = Verdict::of(&value, |v| known.iter().any(|s| u64::from(s.0) == v));
        out.judge(&SCOPE_UNSUPPORTED, verdict, a.at, || {
            let scope = value.value().and_then(scope_name).unwrap_or("unknown");
            Draft::new(format!("{name} has scope {value} ({scope}), which Vulkan does not have"))
                .label(a.at, Part::Operand(operand), format!("scope {value}"))
                .label_opt(cx.def(id), Part::Whole, "comes from here")
        });
    }
}
