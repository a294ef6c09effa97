//! Rules about scopes and memory semantics, which the extension loosens for scopes and tightens for semantics.

use crate::cx::Cx;
use crate::declare_rule;
use crate::report::{Draft, Part, Sink};
use crate::verdict::Verdict;
use coop_ir::decode::{Piece, decode};
use coop_ir::spv::{Capability, ExecutionModel, Scope};
use coop_ir::types::scope_name;
use coop_ir::{Id, InstRef, Kind, Op};

declare_rule! {
    /// ## What it checks
    /// In a shader, an execution or memory scope is a constant instruction of a 32-bit integer type; specialization constants
    /// are allowed.
    /// ## Why
    /// Which invocations a barrier waits for must be known when the pipeline is made.
    /// ## Example
    /// `OpControlBarrier %loaded %workgroup %semantics` with `%loaded` read from a buffer.
    pub(crate) static SCOPE_NOT_CONSTANT = {
        id: "sync-scope-not-constant",
        summary: "a scope is not a constant instruction",
        level: Error,
        since: "0.1.0",
        spec: "SPV_KHR_cooperative_matrix, 2.16.2 Validation Rules for Shader Capabilities",
        vuids: [],
        digest: ["khr.scope-ids-const"],
    }
}

declare_rule! {
    /// ## What it checks
    /// In a shader, memory semantics are an `OpConstant`, not a specialization constant; with capability CooperativeMatrixNV
    /// any constant instruction.
    /// ## Why
    /// SPV_KHR_cooperative_matrix lets only scopes be specialized; what a barrier orders is part of the program.
    /// ## Example
    /// `OpControlBarrier %workgroup %workgroup %chosen` with `%chosen = OpSpecConstant %uint 264`.
    pub(crate) static SEMANTICS_NOT_CONSTANT = {
        id: "sync-semantics-not-constant",
        summary: "memory semantics are not an OpConstant",
        level: Error,
        since: "0.1.0",
        spec: "SPV_KHR_cooperative_matrix, 2.16.2 Validation Rules for Shader Capabilities",
        vuids: [],
        digest: ["khr.memsem-ids-const"],
    }
}

declare_rule! {
    /// ## What it checks
    /// In Vulkan, the execution scope of a control barrier is Workgroup or Subgroup, and Workgroup only in stages that
    /// have workgroups.
    /// ## Why
    /// Vulkan has no other.
    /// ## Example
    /// `OpControlBarrier %device %device %semantics`
    pub(crate) static EXECUTION_SCOPE = {
        id: "sync-execution-scope",
        summary: "the execution scope of a barrier is not one of Vulkan's",
        level: Error,
        since: "0.2.0",
        spec: "Vulkan, Standalone SPIR-V Validation",
        vuids: ["VUID-StandaloneSpirv-None-04636", "VUID-StandaloneSpirv-None-04637"],
        digest: ["vk.exec-scope"],
    }
}

declare_rule! {
    /// ## What it checks
    /// With the Vulkan memory model, the memory scope of a barrier, an atomic or a memory operand is Device only where
    /// capability VulkanMemoryModelDeviceScope is declared.
    /// ## Why
    /// Devices need not have it.
    /// ## Example
    /// `OpControlBarrier %workgroup %device %semantics` without the capability.
    pub(crate) static DEVICE_SCOPE = {
        id: "sync-device-scope",
        summary: "scope Device without its capability",
        level: Error,
        since: "0.2.0",
        spec: "SPIR-V, Scope; SPV_KHR_vulkan_memory_model",
        vuids: [],
        digest: ["mem.scope-vulkan"],
    }
}

/// Checks a memory scope.
pub(super) fn device_scope(cx: &Cx, at: InstRef, operand: usize, id: Id, out: &mut Sink) {
    if !cx.has(Capability::VulkanMemoryModel) || cx.has(Capability::VulkanMemoryModelDeviceScope) {
        return;
    }
    let verdict = Verdict::of(&cx.constant(id), |v| v != u64::from(Scope::Device.0));
    // An unknown scope is counted elsewhere.
    if verdict == Verdict::Unknown {
        return;
    }
    out.judge(&DEVICE_SCOPE, verdict, at, || {
        Draft::new("scope Device needs capability VulkanMemoryModelDeviceScope")
            .label(at, Part::Operand(operand), "scope Device")
            .label_opt(cx.def(id), Part::Whole, "comes from here")
            .help("declare the capability, or give a scope of QueueFamily or less")
    });
}

fn execution_scope(cx: &Cx, at: InstRef, out: &mut Sink) {
    let Some(id) = cx.inst(at).id(0) else { return };
    let value = cx.constant(id);
    let stages = [
        ExecutionModel::GLCompute,
        ExecutionModel::TessellationControl,
        ExecutionModel::TaskNV,
        ExecutionModel::MeshNV,
        ExecutionModel::TaskEXT,
        ExecutionModel::MeshEXT,
    ];
    let workgroups = cx.entries().is_empty() || cx.entries().iter().any(|e| stages.contains(&e.model));
    let ok = |v: u64| v == u64::from(Scope::Subgroup.0) || v == u64::from(Scope::Workgroup.0) && workgroups;
    out.judge(&EXECUTION_SCOPE, Verdict::of(&value, ok), at, || {
        let name = value.value().and_then(scope_name).unwrap_or("unknown");
        let message = if value.value() == Some(u64::from(Scope::Workgroup.0)) {
            "a barrier for the workgroup in a stage without workgroups".to_owned()
        } else {
            format!("a barrier waits for a workgroup or a subgroup; the execution scope is {value} ({name})")
        };
        Draft::new(message).label(at, Part::Operand(0), format!("scope {name}")).label_opt(
            cx.def(id),
            Part::Whole,
            "comes from here",
        )
    });
}

pub(crate) fn check(cx: &Cx, out: &mut Sink) {
    if !cx.has(Capability::Shader) {
        return;
    }
    if cx.env.is_vulkan() {
        for &at in cx.synchronizing.iter().filter(|r| cx.inst(**r).op == Op::ControlBarrier) {
            execution_scope(cx, at, out);
        }
    }
    for &at in &cx.synchronizing {
        let inst = cx.inst(at);
        // The most frequent case, without decoding.
        if let (Op::ControlBarrier, [execution, memory, what]) = (inst.op, inst.operands.as_slice()) {
            let [execution, memory, what] = [execution, memory, what].map(|o| o.id());
            execution.into_iter().for_each(|id| scope(cx, at, 0, id, out));
            memory.into_iter().for_each(|id| {
                scope(cx, at, 1, id, out);
                device_scope(cx, at, 1, id, out);
            });
            what.into_iter().for_each(|id| semantics(cx, at, 2, id, out));
            continue;
        }
        let words: Vec<u32> = inst.operands.iter().map(|o| o.word()).collect();
        decode(cx.module, inst.op, inst.ty, &words, &mut |p: Piece| {
            let Some(id) = inst.id(p.start) else { return };
            match p.kind {
                // A separate rule checks the memory operands of loads and stores.
                Kind::IdScope => {
                    scope(cx, at, p.start, id, out);
                    device_scope(cx, at, p.start, id, out);
                }
                Kind::IdMemorySemantics => semantics(cx, at, p.start, id, out),
                _ => {}
            }
        });
    }
}

fn scope(cx: &Cx, at: InstRef, operand: usize, id: Id, out: &mut Sink) {
    let Some(def) = cx.module.def_inst(id) else { return };
    if !def.op.is_constant() {
        out.report(&SCOPE_NOT_CONSTANT, at, || {
            Draft::new(format!("a scope must be a constant instruction; this is the result of {}", def.op))
                .label(at, Part::Operand(operand), "not a constant")
                .label_opt(cx.def(id), Part::Result, "computed here")
        });
    } else if let Some(why) = cx.not_const_u32(id) {
        out.report(&SCOPE_NOT_CONSTANT, at, || {
            Draft::new(format!("a scope must be a constant of a 32-bit integer type; {why}"))
                .label(at, Part::Operand(operand), "a scope")
                .label_opt(cx.def(id), Part::Whole, "comes from here")
        });
    }
}

fn semantics(cx: &Cx, at: InstRef, operand: usize, id: Id, out: &mut Sink) {
    let Some(def) = cx.module.def_inst(id) else { return };
    // SPV_NV_cooperative_matrix also lets semantics be specialized.
    let specialized = cx.has(Capability::CooperativeMatrixNV);
    let suits = if specialized { def.op.is_constant() } else { matches!(def.op, Op::Constant | Op::ConstantNull) };
    if !suits {
        out.report(&SEMANTICS_NOT_CONSTANT, at, || {
            let wanted = if specialized { "a constant instruction" } else { "an OpConstant" };
            Draft::new(format!("memory semantics must be {wanted}; this is the result of {}", def.op))
                .label(at, Part::Operand(operand), format!("not {wanted}"))
                .label_opt(cx.def(id), Part::Result, "declared here")
        });
    }
}
