//! Rules about the module as a whole: capabilities, extensions, version, memory model, workgroup size.

use crate::cx::Cx;
use crate::declare_rule;
use crate::report::{Draft, Part, Sink};
use crate::rules::requirements;
use crate::verdict::Verdict;
use coop_ir::entry::{Extent, SizeSource, WorkgroupSize};
use coop_ir::extensions::extensions_of;
use coop_ir::spv::{Capability, MemoryModel, Scope};
use coop_ir::types::CoopMatView;
use coop_ir::{InstRef, Op};

declare_rule! {
    /// ## What it checks
    /// Types, instructions and operands that have to do with matrices come with a capability that enables them, declared
    /// itself or through one that implies it.
    /// ## Why
    /// Consumers enable the feature by the capability; without it the instructions are not available.
    /// ## Example
    /// `OpTypeCooperativeMatrixKHR` in a module that declares only `OpCapability Shader`.
    pub(crate) static CAPABILITY_MISSING = {
        id: "module-capability-missing",
        summary: "matrices are used without the capability that enables them",
        level: Error,
        since: "0.1.0",
        spec: "SPV_KHR_cooperative_matrix and its followers, capabilities",
        vuids: [],
        digest: ["khr.cap-declared", "nv1.cap", "nv2.caps", "nv2.decode-cap", "nv2.lt-view-cap", "tensor.cap",
                 "decode.cap", "ext.caps", "ext.transpose-cap", "qcom.cap", "types.bf16-cap", "types.fp8-cap",
                 "types.int4-cap", "types.replicate"],
    }
}

declare_rule! {
    /// ## What it checks
    /// A capability of an extension for matrices comes with `OpExtension` for it, or for one of several that have it.
    /// ## Why
    /// None of them is part of core SPIR-V in any version.
    /// ## Example
    /// `OpCapability CooperativeMatrixKHR` and no `OpExtension "SPV_KHR_cooperative_matrix"`.
    pub(crate) static EXTENSION_MISSING = {
        id: "module-extension-missing",
        summary: "a capability without its extension",
        level: Error,
        since: "0.1.0",
        spec: "SPV_KHR_cooperative_matrix and its followers, extension names",
        vuids: [],
        digest: ["khr.cap-declared", "nv1.cap", "tensor.cap", "decode.cap", "ext.caps", "qcom.cap", "intel.caps"],
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

declare_rule! {
    /// ## What it checks
    /// The version in the module's header is not older than the one that a declared extension is written against: 1.6
    /// for SPV_NV_cooperative_matrix2, SPV_NV_cooperative_matrix_decode_vector, SPV_NV_tensor_addressing and
    /// SPV_ARM_cooperative_matrix_layouts, 1.3 for SPV_NV_cooperative_matrix, SPV_EXT_cooperative_matrix_maintenance1 and
    /// SPV_QCOM_cooperative_matrix_conversion.
    /// ## Why
    /// The extensions say so. Of the consumers that are known none insists.
    /// ## Example
    /// `OpExtension "SPV_NV_cooperative_matrix2"` in a module of version 1.5.
    pub(crate) static VERSION_EXTENSION = {
        id: "module-version-extension",
        summary: "the module's version is older than an extension asks for",
        level: Warning,
        since: "0.2.0",
        spec: "SPV_NV_cooperative_matrix2 and others, dependencies",
        vuids: [],
        digest: ["nv2.spirv-version", "decode.cap", "ext.caps", "qcom.cap"],
    }
}

declare_rule! {
    /// ## What it checks
    /// In a shader with matrices of scope Workgroup, each entry point has a workgroup size (LocalSize, LocalSizeId or
    /// the built-in WorkgroupSize), and constants of LocalSizeId are defined before the type. A built-in behind the type that
    /// replaces an execution mode is a warning, unless both have the same size.
    /// ## Why
    /// The distribution of such a matrix depends on the number of invocations, which must be known where its type is declared.
    /// The specification requires the size before the type; it does not mention the built-in, which takes precedence over
    /// execution modes and which SPIR-V 1.6, the required version, deprecates.
    /// ## Example
    /// `OpExecutionModeId %main LocalSizeId %x %y %z` with `%x` defined after the matrix type.
    pub(crate) static WORKGROUP_SIZE = {
        id: "module-workgroup-size",
        summary: "a matrix of scope Workgroup without a workgroup size before it",
        level: Error,
        since: "0.2.0",
        spec: "SPV_NV_cooperative_matrix2, 2.16.1 Universal Validation Rules",
        vuids: [],
        digest: ["nv2.wg-size-before-type"],
    }
}

declare_rule! {
    /// ## What it checks
    /// The function of an entry point is not called, neither by `OpFunctionCall` nor as a decode, reduce or per-element
    /// function.
    /// ## Why
    /// It has no caller inside the module; the pipeline starts it.
    /// ## Example
    /// `OpCooperativeMatrixReduceNV ... %main`
    pub(crate) static ENTRY_CALLED = {
        id: "module-entry-point-called",
        summary: "the function of an entry point is called",
        level: Error,
        since: "0.2.0",
        spec: "SPIR-V, 2.16.1 Universal Validation Rules",
        vuids: [],
        digest: ["tangled.entry-point-callback"],
    }
}

declare_rule! {
    /// ## What it checks
    /// A module without capability Linkage has an entry point.
    /// ## Why
    /// Nothing else could start it.
    /// ## Example
    /// A module whose `OpEntryPoint` was stripped with the names.
    pub(crate) static ENTRY_MISSING = {
        id: "module-entry-point-missing",
        summary: "there is no entry point",
        level: Error,
        since: "0.2.0",
        spec: "SPIR-V, 2.16.1 Universal Validation Rules",
        vuids: [],
        digest: ["vk.stages"],
    }
}

fn entry_points_called(cx: &Cx, out: &mut Sink) {
    for &(at, function) in &cx.entry_calls {
        let Some(entry) = cx.entries().iter().find(|e| e.function == function) else { continue };
        out.report(&ENTRY_CALLED, at, || {
            Draft::new(format!("{function} is the function of entry point {}, and is called", entry.name))
                .label(at, Part::Whole, "called here")
                .label(entry.at, Part::Whole, "the entry point")
                .help("give the entry point a function of its own that calls this one")
        });
    }
}

pub(crate) fn check(cx: &Cx, out: &mut Sink) {
    entry_points_called(cx, out);
    requirements::check(cx, out);
    extensions(cx, out);
    versions(cx, out);
    entry_point_missing(cx, out);
    let Some(first) = first_use(cx) else { return };
    let (major, minor) = cx.module.header.version_pair();
    if (major, minor) < (1, 3) {
        let at = capability(cx, Capability::CooperativeMatrixKHR).unwrap_or(first);
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
    // The workgroup of a kernel has the size with which it is started.
    if cx.has(Capability::Shader) {
        workgroup_size(cx, out);
    }
}

/// Reports that a capability is missing. The rule is declared here, and many places report it.
pub(crate) fn missing(at: InstRef, part: Part, what: &str, any_of: &[Capability], out: &mut Sink) {
    let names: Vec<String> = any_of.iter().map(|c| c.to_string()).collect();
    out.report(&CAPABILITY_MISSING, at, || {
        let (first, rest) = names.split_first().map_or(("?", &[][..]), |(f, r)| (f.as_str(), r));
        let or = if rest.is_empty() { String::new() } else { format!(" (or {})", rest.join(", ")) };
        let draft =
            Draft::new(format!("{what} needs capability {first}{or}")).label(at, part, "the first that needs it");
        match any_of.first().and_then(|c| extensions_of(*c).next()) {
            Some(name) => draft.help(format!("declare `OpCapability {first}` and `OpExtension \"{name}\"`")),
            None => draft.help(format!("declare `OpCapability {first}`")),
        }
    });
}

fn extensions(cx: &Cx, out: &mut Sink) {
    for &at in &cx.declared {
        let Some(declared) = cx.inst(at).enumerant::<Capability>(0) else { continue };
        let extensions: Vec<&str> = extensions_of(declared).collect();
        if extensions.is_empty() || extensions.iter().any(|e| cx.has_extension(e)) {
            continue;
        }
        out.report(&EXTENSION_MISSING, at, || {
            let name = declared.name().unwrap_or("?");
            let or = if extensions.len() > 1 {
                format!(" (or \"{}\")", extensions[1..].join("\", \""))
            } else {
                String::new()
            };
            Draft::new(format!("capability {name} is declared without extension \"{}\"{or}", extensions[0]))
                .label(at, Part::Whole, "this is not in core SPIR-V")
                .help(format!("declare `OpExtension \"{}\"`", extensions[0]))
        });
    }
}

fn versions(cx: &Cx, out: &mut Sink) {
    let (major, minor) = cx.module.header.version_pair();
    for &at in &cx.extensions {
        let Some((name, _)) = cx.inst(at).string(0) else { continue };
        let least = match name.as_str() {
            "SPV_NV_cooperative_matrix2"
            | "SPV_NV_cooperative_matrix_decode_vector"
            | "SPV_NV_tensor_addressing"
            | "SPV_ARM_cooperative_matrix_layouts" => (1, 6),
            "SPV_NV_cooperative_matrix"
            | "SPV_EXT_cooperative_matrix_maintenance1"
            | "SPV_QCOM_cooperative_matrix_conversion" => (1, 3),
            _ => continue,
        };
        if (major, minor) < least {
            out.report(&VERSION_EXTENSION, at, || {
                Draft::new(format!("the module is SPIR-V {major}.{minor}; {name} asks for {}.{}", least.0, least.1))
                    .label(at, Part::Whole, format!("written against SPIR-V {}.{}", least.0, least.1))
                    .help("let the compiler make a later version: `--target-env spv1.6` or vulkan1.3, say")
            });
        }
    }
}

fn memory_model(cx: &Cx, first: InstRef, out: &mut Sink) {
    let model = cx.module.globals_with(Op::MemoryModel).next();
    let help = "compile for it, `#pragma use_vulkan_memory_model` in GLSL, `-fspv-use-vulkan-memory-model` with dxc; or run \
                `spirv-opt --upgrade-memory-model`";
    if let (Some(at), Some((_, declared))) = (model, cx.module.memory_model())
        && declared != MemoryModel::Vulkan
    {
        let name = declared.name().unwrap_or("unknown");
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

/// Returns the instruction that declares a capability.
fn capability(cx: &Cx, wanted: Capability) -> Option<InstRef> {
    cx.declared.iter().copied().find(|r| cx.inst(*r).declared_capability() == Some(wanted))
}

/// Returns the first type or instruction of SPV_KHR_cooperative_matrix; if there is none, the declaration of its
/// capability.
fn first_use(cx: &Cx) -> Option<InstRef> {
    let mut all = cx.globals.iter().chain(&cx.body).copied();
    let first = all.find(|r| {
        let op = cx.inst(*r).op;
        (Op::TypeCooperativeMatrixKHR.0..=Op::CooperativeMatrixLengthKHR.0).contains(&op.0)
    });
    first.or_else(|| capability(cx, Capability::CooperativeMatrixKHR))
}

fn entry_point_missing(cx: &Cx, out: &mut Sink) {
    let none = cx.module.globals_with(Op::EntryPoint).next().is_none();
    if let (true, false, Some(&first)) = (none, cx.has(Capability::Linkage), cx.module.globals.first()) {
        out.report(&ENTRY_MISSING, first, || {
            Draft::new("the module has no entry point, and is not a library")
                .label(first, Part::Whole, "a module without entry points")
                .help("declare `OpEntryPoint`, or capability Linkage")
        });
    }
}

fn workgroup_size(cx: &Cx, out: &mut Sink) {
    let Some(matrix) = cx.matrices().iter().find(|m| m.scope.value_as() == Some(Scope::Workgroup)) else { return };
    let Some(at) = cx.decl(matrix) else { return };
    let verdict = Verdict::of(&matrix.scope, |s| s != u64::from(Scope::Workgroup.0));
    for entry in cx.entries().iter().filter(|e| e.has_workgroups()) {
        let Some(size) = entry.workgroup_size else {
            out.judge(&WORKGROUP_SIZE, verdict.clone(), at, || {
                Draft::new(format!(
                    "{matrix} has scope Workgroup, but entry point {} has no workgroup size",
                    entry.name
                ))
                .label(at, Part::Operand(1), "scope Workgroup")
                .label(entry.at, Part::Whole, "no LocalSize")
                .help("declare `OpExecutionMode %main LocalSize x y z`")
            });
            continue;
        };
        let Some(late) = defined_behind(cx, &size, at) else { continue };
        let earlier = entry.size_of_modes(cx.module).filter(|s| defined_behind(cx, s, at).is_none());
        match earlier {
            Some(earlier) if size.source == SizeSource::BuiltIn => replaced(cx, matrix, at, (earlier, size), out),
            _ => out.judge(&WORKGROUP_SIZE, verdict.clone(), at, || {
                Draft::new(format!("{matrix} has scope Workgroup, but the workgroup size is defined after it"))
                    .label(at, Part::Operand(1), "scope Workgroup")
                    .label(late, Part::Whole, "a part of the workgroup size")
                    .help("define the constants of the workgroup size first")
            }),
        }
    }
}

/// Returns the first instruction of a workgroup size that stands behind another one.
fn defined_behind(cx: &Cx, size: &WorkgroupSize, at: InstRef) -> Option<InstRef> {
    let constants = size.extents.iter().filter_map(|e| match e {
        Extent::Constant(id) => cx.def(*id),
        Extent::Literal(_) => None,
    });
    let built_in = (size.source == SizeSource::BuiltIn).then_some(size.at);
    constants.chain(built_in).find(|d| d.index() > at.index())
}

/// Returns the size of an execution mode in front of the type, and the built-in constant behind it that overrides the
/// mode.
///
/// SPV_NV_cooperative_matrix2 requires the size to be specified before the type, and mentions only the constants of
/// LocalSizeId: it is for SPIR-V 1.6, which deprecates the built-in. A mode in front of the type satisfies the wording,
/// and spirv-val accepts it. But the built-in takes precedence: unless both certainly have the same size, the size that
/// counts is specified too late for a consumer that reads the module in one pass. That is a warning; glslang writes
/// such modules for Vulkan before 1.3.
fn replaced(
    cx: &Cx,
    matrix: &CoopMatView,
    at: InstRef,
    (mode, built_in): (WorkgroupSize, WorkgroupSize),
    out: &mut Sink,
) {
    let (first, then) = (mode.values(&cx.constants), built_in.values(&cx.constants));
    if first.iter().zip(&then).all(|(a, b)| a.fixed().is_some() && a.fixed() == b.fixed()) {
        return;
    }
    out.suspect(&WORKGROUP_SIZE, at, || {
        let [x, y, z] = first;
        Draft::new(format!(
            "{matrix} has scope Workgroup, but the built-in WorkgroupSize, which replaces the size {x} {y} {z} of the \
             execution mode, is defined after it"
        ))
        .label(at, Part::Operand(1), "scope Workgroup")
        .label(mode.at, Part::Whole, "replaced")
        .label(built_in.at, Part::Whole, "the workgroup size")
        .help("compile for SPIR-V 1.6 (Vulkan 1.3), which has LocalSizeId, or define the constant first")
    });
}
