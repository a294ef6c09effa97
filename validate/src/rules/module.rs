//! Rules about the module as a whole: capability, extension, version, memory model.

use crate::cx::Cx;
use crate::declare_rule;
use crate::report::{Draft, Part, Sink};
use coop_ir::{InstRef, Op};
use spirv::{Capability, MemoryModel};

declare_rule! {
    /// ## What it checks
    /// A module with types or instructions of SPV_KHR_cooperative_matrix declares capability CooperativeMatrixKHR, or
    /// a capability that implies it.
    /// ## Why
    /// Consumers enable the feature by the capability; without it the instructions are not available.
    /// ## Example
    /// `OpTypeCooperativeMatrixKHR` in a module that declares only `OpCapability Shader`.
    pub(crate) static CAPABILITY_MISSING = {
        id: "module-capability-missing",
        summary: "matrices are used without capability CooperativeMatrixKHR",
        level: Error,
        since: "0.1.0",
        spec: "SPV_KHR_cooperative_matrix, capabilities",
        vuids: [],
        digest: ["khr.cap-declared"],
    }
}

declare_rule! {
    /// ## What it checks
    /// A module that declares capability CooperativeMatrixKHR also declares
    /// `OpExtension "SPV_KHR_cooperative_matrix"`.
    /// ## Why
    /// The capability is not part of core SPIR-V in any version.
    /// ## Example
    /// `OpCapability CooperativeMatrixKHR` and no `OpExtension`.
    pub(crate) static EXTENSION_MISSING = {
        id: "module-extension-missing",
        summary: "capability CooperativeMatrixKHR without its extension",
        level: Error,
        since: "0.1.0",
        spec: "SPV_KHR_cooperative_matrix, extension name",
        vuids: [],
        digest: ["khr.cap-declared"],
    }
}

declare_rule! {
    /// ## What it checks
    /// In a module with capability Shader, capability VulkanMemoryModel is declared and `OpMemoryModel` says Vulkan.
    /// ## Why
    /// Loads and stores of matrices are made by a whole subgroup or workgroup; only the Vulkan memory model says what
    /// orders them.
    /// ## Example
    /// `OpMemoryModel Logical GLSL450` in a module with cooperative matrices.
    pub(crate) static MEMORY_MODEL = {
        id: "module-memory-model",
        summary: "a shader with matrices does not use the Vulkan memory model",
        level: Error,
        since: "0.1.0",
        spec: "SPV_KHR_cooperative_matrix, 2.16.2 Validation Rules for Shader Capabilities",
        vuids: [],
        digest: ["khr.memory-model"],
    }
}

declare_rule! {
    /// ## What it checks
    /// The version in the module's header is 1.3 or later.
    /// ## Why
    /// SPV_KHR_cooperative_matrix is written against SPIR-V 1.3: earlier consumers know neither the Vulkan memory model
    /// nor the decorations that it needs.
    /// ## Example
    /// A header of version 1.0 in a module with cooperative matrices.
    pub(crate) static VERSION_TOO_OLD = {
        id: "module-version-too-old",
        summary: "matrices in a module of a version before SPIR-V 1.3",
        level: Error,
        since: "0.1.0",
        spec: "SPV_KHR_cooperative_matrix, dependencies",
        vuids: [],
        digest: ["khr.spirv-version"],
    }
}

const EXTENSION: &str = "SPV_KHR_cooperative_matrix";

pub(crate) fn check(cx: &Cx, out: &mut Sink) {
    let declared = capability(cx, Capability::CooperativeMatrixKHR);
    let Some(first) = first_use(cx) else { return };

    if !cx.has(Capability::CooperativeMatrixKHR) {
        out.report(&CAPABILITY_MISSING, first, || {
            Draft::new("cooperative matrices are used without capability CooperativeMatrixKHR")
                .label(first, Part::Whole, "the first of them")
                .help(format!("declare `OpCapability CooperativeMatrixKHR` and `OpExtension \"{EXTENSION}\"`"))
        });
    }
    if let Some(at) = declared
        && !has_extension(cx)
    {
        out.report(&EXTENSION_MISSING, at, || {
            Draft::new(format!("capability CooperativeMatrixKHR is declared without extension \"{EXTENSION}\""))
                .label(at, Part::Whole, "this is not in core SPIR-V")
                .help(format!("declare `OpExtension \"{EXTENSION}\"`"))
        });
    }
    let (major, minor) = cx.module.header.version_pair();
    if (major, minor) < (1, 3) {
        let at = declared.unwrap_or(first);
        out.report(&VERSION_TOO_OLD, at, || {
            Draft::new(format!("the module is SPIR-V {major}.{minor}; cooperative matrices need 1.3")).label(
                at,
                Part::Whole,
                "needs SPIR-V 1.3",
            )
        });
    }
    if cx.has(Capability::Shader) {
        memory_model(cx, first, out);
    }
}

fn memory_model(cx: &Cx, first: InstRef, out: &mut Sink) {
    let model = cx.module.globals_with(Op::MemoryModel).next();
    let says = model.and_then(|r| cx.inst(r).word(1));
    let help = "declare `OpCapability VulkanMemoryModel` and `OpMemoryModel ... Vulkan`, and give loads and stores of \
                shared data their memory operands";
    if let (Some(at), Some(word)) = (model, says)
        && word != MemoryModel::Vulkan as u32
    {
        let name = coop_ir::Kind::MemoryModel.enumerant(word).map_or("unknown", |e| e.name);
        out.report(&MEMORY_MODEL, at, || {
            Draft::new(format!("a shader with cooperative matrices needs the Vulkan memory model; this is {name}"))
                .label(at, Part::Operand(1), "must be Vulkan")
                .help(help)
        });
    } else if !cx.has(Capability::VulkanMemoryModel) {
        let at = model.unwrap_or(first);
        out.report(&MEMORY_MODEL, at, || {
            Draft::new("a shader with cooperative matrices needs capability VulkanMemoryModel")
                .label(at, Part::Whole, "the capability is not declared")
                .help(help)
        });
    }
}

/// The instruction that declares a capability.
fn capability(cx: &Cx, wanted: Capability) -> Option<InstRef> {
    cx.module.globals_with(Op::Capability).find(|r| cx.inst(*r).word(0) == Some(wanted as u32))
}

fn has_extension(cx: &Cx) -> bool {
    cx.module.globals_with(Op::Extension).any(|r| cx.inst(r).string(0).is_some_and(|(name, _)| name == EXTENSION))
}

/// The first type or instruction of the extension.
fn first_use(cx: &Cx) -> Option<InstRef> {
    cx.globals.iter().chain(&cx.body).copied().find(|r| {
        let op = cx.inst(*r).op;
        (Op::TypeCooperativeMatrixKHR.0..=Op::CooperativeMatrixLengthKHR.0).contains(&op.0)
    })
}
