//! Checks stages, workgroup sizes, subgroups and shared memory.

use super::On;
use crate::declare_rule;
use crate::report::{Draft, Part, Sink};
use coop_device::{Feature, Limits};
use coop_ir::entry::EntryPoint;
use coop_ir::hash::FxHashMap;
use coop_ir::spv::{Capability, ExecutionModel, Scope, StorageClass};
use coop_ir::types::{Type, scalar_or_vector};
use coop_ir::{Id, InstRef, Op};

declare_rule! {
    /// ## What it checks
    /// With a device: the stage of an entry point is one in which the device has matrices.
    /// ## Why
    /// Devices list the stages (cooperativeMatrixSupportedStages); so far only compute can be among them.
    /// ## Example
    /// Matrices in a fragment shader.
    pub(crate) static STAGE = {
        id: "device-stage",
        summary: "matrices in a stage in which the device has none",
        level: Error,
        since: "0.2.0",
        spec: "Vulkan, Runtime SPIR-V Validation",
        vuids: [
            "VUID-RuntimeSpirv-cooperativeMatrixSupportedStages-08985",
            "VUID-RuntimeSpirv-OpTypeCooperativeMatrixNV-06322"
        ],
        digest: ["vk.stages", "khr.entry-stage", "vk.nv1-stages"],
    }
}

declare_rule! {
    /// ## What it checks
    /// With a device: the workgroup is not larger than the device's limits.
    /// ## Why
    /// maxComputeWorkGroupSize and maxComputeWorkGroupInvocations.
    /// ## Example
    /// LocalSize 2048 1 1 for a device with up to 1024 invocations.
    pub(crate) static WORKGROUP = {
        id: "device-workgroup-size",
        summary: "the workgroup is too large for the device",
        level: Error,
        since: "0.2.0",
        spec: "Vulkan, Runtime SPIR-V Validation",
        vuids: ["VUID-RuntimeSpirv-x-06429", "VUID-RuntimeSpirv-x-06432"],
        digest: ["vk.local-wg"],
    }
}

declare_rule! {
    /// ## What it checks
    /// With a device and matrices of scope Subgroup: x of the workgroup size is a multiple of the subgroup size. With
    /// matrices of scope Workgroup also: the invocations are a power of two times the subgroup size, and not more than
    /// cooperativeMatrixWorkgroupScopeMaxWorkgroupSize.
    /// ## Why
    /// Only full subgroups can hold a matrix. The subgroup size is the one given by `--subgroup-size`; else the device's,
    /// the largest for modules of SPIR-V 1.6, in which it may vary.
    /// ## Example
    /// LocalSize 16 2 1 on a device with subgroups of 32.
    pub(crate) static LOCAL_SIZE = {
        id: "device-local-size",
        summary: "the workgroup is not made of full subgroups",
        level: Error,
        since: "0.2.0",
        spec: "Vulkan, VkPipelineShaderStageCreateInfo",
        vuids: [
            "VUID-VkPipelineShaderStageCreateInfo-module-08987",
            "VUID-VkPipelineShaderStageCreateInfo-module-10169"
        ],
        digest: ["vk.local-x-subgroup", "vk.local-wg", "vk.subgroup-pow2-effective"],
    }
}

declare_rule! {
    /// ## What it checks
    /// With a device and a module of a version before SPIR-V 1.6: that the pipeline must require full subgroups.
    /// ## Why
    /// From SPIR-V 1.6 on they are implied; before, VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT is
    /// demanded, for which the device needs computeFullSubgroups.
    /// ## Example
    /// A module of SPIR-V 1.5 with matrices.
    pub(crate) static FULL_SUBGROUPS = {
        id: "device-full-subgroups",
        summary: "the pipeline must require full subgroups",
        level: Note,
        since: "0.2.0",
        spec: "Vulkan, Runtime SPIR-V Validation",
        vuids: [
            "VUID-RuntimeSpirv-OpTypeCooperativeMatrixKHR-10770",
            "VUID-RuntimeSpirv-OpTypeCooperativeMatrixKHR-10771"
        ],
        digest: ["vk.full-subgroups", "vk.subgroup-size-flags"],
    }
}

declare_rule! {
    /// ## What it checks
    /// With a device: variables in Workgroup memory fit maxComputeSharedMemorySize, less what the device keeps for
    /// itself where there are matrices of scope Workgroup.
    /// ## Why
    /// cooperativeMatrixWorkgroupScopeReservedSharedMemory is taken from the same memory.
    /// ## Example
    /// 44 KiB of shared arrays and a matrix of scope Workgroup, on a device with 48 KiB that keeps 8 of them.
    pub(crate) static SHARED = {
        id: "device-shared-memory",
        summary: "shared memory does not fit the device",
        level: Error,
        since: "0.2.0",
        spec: "Vulkan, Runtime SPIR-V Validation",
        vuids: [
            "VUID-RuntimeSpirv-maxComputeSharedMemorySize-10168",
            "VUID-RuntimeSpirv-Workgroup-06530"
        ],
        digest: ["vk.wg-shared-reserve", "vk.shared-memory-total"],
    }
}

declare_rule! {
    /// ## What it checks
    /// With a device: a block in a storage buffer whose size is fixed is not larger than maxStorageBufferRange.
    /// ## Why
    /// No descriptor can show the shader more.
    /// ## Example
    /// A block with an array of 2^28 floats, on a device with a range of 2^27 bytes.
    pub(crate) static RANGE = {
        id: "device-buffer-range",
        summary: "a storage buffer is larger than the device can show",
        level: Error,
        since: "0.2.0",
        spec: "Vulkan, limits",
        vuids: [],
        digest: ["vk.ssbo-range"],
    }
}

/// Returns the stage bit of an execution model.
fn stage_bit(model: ExecutionModel) -> u32 {
    match model {
        m if m == ExecutionModel::Vertex => 0x1,
        m if m == ExecutionModel::TessellationControl => 0x2,
        m if m == ExecutionModel::TessellationEvaluation => 0x4,
        m if m == ExecutionModel::Geometry => 0x8,
        m if m == ExecutionModel::Fragment => 0x10,
        m if m == ExecutionModel::GLCompute => Limits::COMPUTE_STAGE,
        m if m == ExecutionModel::TaskEXT || m == ExecutionModel::TaskNV => 0x40,
        m if m == ExecutionModel::MeshEXT || m == ExecutionModel::MeshNV => 0x80,
        _ => 0,
    }
}

pub(super) fn check(on: &mut On, out: &mut Sink) {
    let cx = on.cx;
    let mut sizes = Vec::new();
    for entry in on.entries().cloned().collect::<Vec<_>>() {
        stage(on, &entry, out);
        sizes.push(local_size(on, &entry, out));
    }
    on.invocations = match sizes.split_first() {
        Some((first, rest)) if rest.iter().all(|s| s == first) => *first,
        _ => None,
    };
    if let Some(at) = cx.matrices().first().and_then(|m| cx.decl(m))
        && on.is_vulkan()
        && cx.module.header.version_pair() < (1, 6)
    {
        full_subgroups(on, at, out);
    }
    shared_memory(on, out);
    if on.is_vulkan() {
        buffers(on, out);
    }
}

/// Returns true if an entry point has matrices in a stage in which the device has none.
pub(super) fn refuses_stage(on: &On, entry: &EntryPoint) -> bool {
    let matrices = !on.cx.matrices().is_empty() || on.cx.has_nv1();
    let supported = on.device.profile.limits.cooperative_matrix_supported_stages;
    matrices && on.is_vulkan() && supported & stage_bit(entry.model) == 0
}

fn stage(on: &On, entry: &EntryPoint, out: &mut Sink) {
    if !refuses_stage(on, entry) {
        return;
    }
    let supported = on.device.profile.limits.cooperative_matrix_supported_stages;
    let model = entry.model.name().unwrap_or("unknown");
    out.report(&STAGE, entry.at, || {
        let where_ = if supported == Limits::COMPUTE_STAGE { "in compute shaders only" } else { "in other stages" };
        let where_ = if supported == 0 { "in no stage" } else { where_ };
        Draft::new(format!("{} has cooperative matrices {where_}; {} is {model}", on.device.name(), entry.name)).label(
            entry.at,
            Part::Operand(0),
            model,
        )
    });
}

/// Returns the number of invocations of a workgroup of this entry point, if it is fixed.
fn local_size(on: &mut On, entry: &EntryPoint, out: &mut Sink) -> Option<u64> {
    let cx = on.cx;
    let size = entry.workgroup_size?;
    let values = size.values(&cx.constants);
    let mut fixed = [0u64; 3];
    for (slot, value) in fixed.iter_mut().zip(&values) {
        *slot = on.open.value(value, "the workgroup size", size.at)?;
    }
    let total = fixed.iter().try_fold(1u64, |all, n| all.checked_mul(*n))?;
    let limits = &on.device.profile.limits;
    let most = limits.max_compute_work_group_size.map(u64::from);
    let name = on.device.name();
    let too_long = fixed.iter().zip(most).find(|(n, most)| **n > *most);
    if too_long.is_some() || total > u64::from(limits.max_compute_work_group_invocations) {
        out.report(&WORKGROUP, size.at, || {
            let [x, y, z] = fixed;
            let what = match too_long {
                Some((n, most)) => format!("{n} in one dimension, and {name} has up to {most}"),
                None => {
                    format!("{total} invocations, and {name} has up to {}", limits.max_compute_work_group_invocations)
                }
            };
            Draft::new(format!("the workgroup size {x} {y} {z} has {what}")).label(
                size.at,
                Part::Whole,
                format!("{total} invocations"),
            )
        });
        return Some(total);
    }
    if on.is_vulkan() {
        subgroups(on, size.at, fixed[0], total, out);
    }
    Some(total)
}

fn subgroups(on: &On, at: InstRef, x: u64, total: u64, out: &mut Sink) {
    let cx = on.cx;
    let limits = &on.device.profile.limits;
    let varies = on.device.subgroup_size.is_none()
        && cx.module.header.version_pair() >= (1, 6)
        && limits.max_subgroup_size > limits.min_subgroup_size;
    let subgroup = match on.device.subgroup_size {
        Some(size) => size,
        None if varies => limits.max_subgroup_size,
        None => limits.subgroup_size,
    };
    let name = on.device.name();
    let size = u64::from(subgroup.max(1));
    let scope = |n: u64| cx.matrices().iter().find(|m| m.scope.fixed() == Some(n));
    let why = |message: String| {
        let help = if varies {
            format!(
                "subgroups may have up to {size} invocations in a module of SPIR-V 1.6; --subgroup-size says which size the pipeline requires"
            )
        } else {
            format!("make x a multiple of {size}; some engines set the size when they load the module")
        };
        Draft::new(message).label(at, Part::Whole, format!("x is {x}, {total} invocations in all")).help(help)
    };
    let any = scope(3).or_else(|| scope(2)).is_some() || cx.has_nv1();
    if any && !x.is_multiple_of(size) {
        out.report(&LOCAL_SIZE, at, || {
            why(format!(
                "x of the workgroup size, {x}, is not a multiple of the {size} invocations of a subgroup on {name}"
            ))
        });
        return;
    }
    let Some(matrix) = scope(2) else { return };
    let most = u64::from(limits.cooperative_matrix_workgroup_scope_max_workgroup_size);
    // Without the feature another rule reports it.
    if most == 0 {
        return;
    }
    let label = |draft: Draft| draft.label_opt(cx.decl(matrix), Part::Operand(1), "scope Workgroup");
    if total > most {
        out.report(&LOCAL_SIZE, at, || {
            label(why(format!("{total} invocations with a matrix of scope Workgroup; {name} has up to {most}")))
        });
    } else if !(total / size).is_power_of_two() {
        out.report(&LOCAL_SIZE, at, || {
            label(why(format!(
                "a matrix of scope Workgroup needs a power of two of subgroups; here are {} of {size}",
                total / size
            )))
        });
    }
}

fn full_subgroups(on: &On, at: InstRef, out: &mut Sink) {
    let has = on.device.profile.has(Feature::ComputeFullSubgroups);
    let (major, minor) = on.cx.module.header.version_pair();
    out.report(&FULL_SUBGROUPS, at, || {
        let draft = Draft::new(format!(
            "in a module of SPIR-V {major}.{minor} matrices ask for a pipeline that requires full subgroups"
        ))
        .label(at, Part::Whole, "the first matrix");
        if has {
            draft.help("set VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT, or compile for SPIR-V 1.6")
        } else {
            draft.help(format!("{} lacks computeFullSubgroups: compile for SPIR-V 1.6", on.device.name()))
        }
    });
}

/// Returns the least number of bytes of an object, if all lengths are fixed. `known` has those of types that were asked for: structs of
/// structs may have very many parts.
fn least_bytes(on: &mut On, (ty, depth): (Id, u32), at: InstRef, known: &mut Known) -> Option<u64> {
    if let Some(bytes) = known.get(&ty) {
        return *bytes;
    }
    let bytes = if depth > DEEPEST { None } else { computed_bytes(on, (ty, depth + 1), at, known) };
    known.insert(ty, bytes);
    bytes
}

/// The bytes of types.
type Known = FxHashMap<Id, Option<u64>>;

/// Types are nested so deeply at most.
const DEEPEST: u32 = 16;

fn computed_bytes(on: &mut On, (ty, depth): (Id, u32), at: InstRef, known: &mut Known) -> Option<u64> {
    let cx = on.cx;
    if let Some((scalar, n)) = scalar_or_vector(cx.module, ty) {
        return Some(u64::from(scalar.bytes()) * u64::from(n));
    }
    match Type::of(cx.module, ty)? {
        Type::Bool => Some(1),
        Type::Array { elem, len } => {
            let n = on.open.value(&cx.constant(len), "the size of shared memory", at)?;
            least_bytes(on, (elem, depth), at, known)?.checked_mul(n)
        }
        Type::Struct { members } => {
            members.iter().try_fold(0u64, |all, m| all.checked_add(least_bytes(on, (*m, depth), at, known)?))
        }
        Type::Matrix { column, cols } => least_bytes(on, (column, depth), at, known)?.checked_mul(cols.into()),
        _ => None,
    }
}

fn shared_memory(on: &mut On, out: &mut Sink) {
    let cx = on.cx;
    let (mut sum, mut most, mut first) = (0u64, 0u64, None);
    let mut known = FxHashMap::default();
    for at in cx.module.globals_with(Op::Variable) {
        let inst = cx.inst(at);
        if inst.enumerant(0) != Some(StorageClass::Workgroup) {
            continue;
        }
        let Some(Type::Pointer { pointee, .. }) = inst.ty.and_then(|t| Type::of(cx.module, t)) else { continue };
        let Some(bytes) = least_bytes(on, (pointee, 0), at, &mut known) else { continue };
        first.get_or_insert(at);
        sum = sum.saturating_add(bytes);
        most = most.max(bytes);
    }
    let Some(at) = first else { return };
    // Blocks with an explicit layout alias each other.
    let explicit = cx.has(Capability::WorkgroupMemoryExplicitLayoutKHR);
    let used = if explicit { most } else { sum };
    let limits = &on.device.profile.limits;
    let total = u64::from(limits.max_compute_shared_memory_size);
    let wide = cx.matrices().iter().find(|m| m.scope.fixed_as() == Some(Scope::Workgroup));
    let reserved = if wide.is_some() { limits.cooperative_matrix_workgroup_scope_reserved_shared_memory } else { 0 };
    let left = total.saturating_sub(u64::from(reserved));
    if used <= left {
        return;
    }
    let name = on.device.name();
    out.report(&SHARED, at, || {
        let keeps = if reserved > 0 {
            format!(" and keeps {reserved} of them where matrices of scope Workgroup are used")
        } else {
            String::new()
        };
        Draft::new(format!("{used} bytes of shared memory; {name} has {total}{keeps}"))
            .label(at, Part::Whole, "the first of the variables in shared memory")
            .label_opt(wide.and_then(|m| cx.decl(m)), Part::Operand(1), "scope Workgroup")
    });
}

fn buffers(on: &On, out: &mut Sink) {
    let cx = on.cx;
    let range = on.device.profile.limits.max_storage_buffer_range;
    for at in cx.module.globals_with(Op::Variable) {
        let inst = cx.inst(at);
        if inst.enumerant(0) != Some(StorageClass::StorageBuffer) {
            continue;
        }
        let Some(Type::Pointer { pointee, .. }) = inst.ty.and_then(|t| Type::of(cx.module, t)) else { continue };
        let Some((size, _)) = crate::rules::decode::extent(cx, pointee).filter(|(s, _)| *s > range) else {
            continue;
        };
        out.report(&RANGE, at, || {
            Draft::new(format!(
                "a block of {size} bytes; {} shows a shader up to {range} of a buffer",
                on.device.name()
            ))
            .label(at, Part::Whole, "the buffer")
            .label_opt(cx.def(pointee), Part::Whole, format!("{size} bytes"))
        });
    }
}
