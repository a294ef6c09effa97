//! What a SPIR-V capability or extension asks of a Vulkan device.
//!
//! One table each, for the capabilities and extensions that compute modules use. What is not in a table is
//! answered with "unknown", never with "fine" or "refused": new extensions come faster than tables grow.

use std::fmt;

use super::{ApiVersion, Feature, Profile, SubgroupOperations};
use crate::nearest::distance;

/// What a device must have before a module may declare a capability.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Requirement {
    /// Nothing: every Vulkan device takes it in a compute shader.
    Nothing,
    /// One of these features; the device enables whichever it has.
    AnyOf(&'static [Feature]),
    /// One of these Boolean properties or more, depending on what the module then asks for.
    Subgroup(SubgroupOperations),
    /// The extension, or the core version that took it in; it has no feature of its own.
    Extension(VulkanExtension),
    /// No Vulkan feature enables it.
    NeverInVulkan,
    /// Not in the table.
    Unknown,
}

/// A device extension, and the core version that includes it, if one does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VulkanExtension {
    /// The extension's name.
    pub name: &'static str,
    /// The first Vulkan version that needs no extension for it.
    pub core: Option<ApiVersion>,
}

impl VulkanExtension {
    const fn new(name: &'static str) -> VulkanExtension {
        VulkanExtension { name, core: None }
    }

    const fn core(name: &'static str, minor: u16) -> VulkanExtension {
        VulkanExtension { name, core: Some(ApiVersion::new(1, minor)) }
    }

    /// Whether the version includes what the extension brings.
    pub fn is_core_in(self, version: ApiVersion) -> bool {
        self.core.is_some_and(|core| version >= core)
    }
}

impl Requirement {
    /// Whether the device has what is required. What is unknown counts as met: nobody can say.
    pub fn is_met_by(self, profile: &Profile) -> bool {
        match self {
            Requirement::Nothing | Requirement::Unknown => true,
            Requirement::AnyOf(features) => features.iter().any(|&feature| profile.has(feature)),
            Requirement::Subgroup(operations) => profile.limits.subgroup_supported_operations.has(operations),
            Requirement::Extension(extension) => {
                extension.is_core_in(profile.api_version) || profile.has_extension(extension.name)
            }
            Requirement::NeverInVulkan => false,
        }
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Requirement::Nothing => f.write_str("nothing"),
            Requirement::AnyOf(features) => {
                let mut separator = if features.len() == 1 { "feature " } else { "one of the features " };
                for feature in *features {
                    write!(f, "{separator}{feature}")?;
                    separator = ", ";
                }
                Ok(())
            }
            Requirement::Subgroup(operations) => write!(f, "subgroup operations '{operations}'"),
            Requirement::Extension(extension) => write!(f, "extension {}", extension.name),
            Requirement::NeverInVulkan => f.write_str("something that Vulkan does not have"),
            Requirement::Unknown => f.write_str("something unknown"),
        }
    }
}

/// What the capability of that number asks of a device.
pub fn capability_requirement(capability: u32) -> Requirement {
    use Feature as F;
    use Requirement::*;
    type Ops = SubgroupOperations;
    match capability {
        // Matrix, Shader, ImageQuery, Sampled1D and the other capabilities that Vulkan always has.
        0 | 1 | 43 | 44 | 46 | 47 | 50 | 51 => Nothing,
        // Addresses, Linkage, Kernel, Vector16, Float16Buffer, ImageBasic .. Pipes, Groups, DeviceEnqueue, LiteralSampler,
        // GenericPointer, SubgroupDispatch, NamedBarrier, PipeStorage.
        4..=8 | 13..=15 | 17..=20 | 38 | 58..=60 => NeverInVulkan,
        // CooperativeMatrixLayoutsARM; Intel's integers, joint matrix and conversions.
        4201 | 5112 | 5114 | 6115 | 6192 | 6238 | 6411 | 6425 | 6434..=6437 | 6441 => NeverInVulkan,
        9 => AnyOf(&[F::ShaderFloat16]),
        10 => AnyOf(&[F::ShaderFloat64]),
        11 => AnyOf(&[F::ShaderInt64]),
        12 => AnyOf(&[F::ShaderBufferInt64Atomics, F::ShaderSharedInt64Atomics]),
        22 => AnyOf(&[F::ShaderInt16]),
        28 => AnyOf(&[F::ShaderUniformBufferArrayDynamicIndexing]),
        30 => AnyOf(&[F::ShaderStorageBufferArrayDynamicIndexing]),
        39 => AnyOf(&[F::ShaderInt8]),
        61 => Subgroup(Ops::BASIC),
        62 | 4431 => Subgroup(Ops::VOTE),
        63 => Subgroup(Ops::ARITHMETIC),
        64 | 4423 => Subgroup(Ops::BALLOT),
        65 => Subgroup(Ops::SHUFFLE),
        66 => Subgroup(Ops::SHUFFLE_RELATIVE),
        67 => Subgroup(Ops::CLUSTERED),
        68 => Subgroup(Ops::QUAD),
        5297 => Subgroup(Ops::PARTITIONED),
        4212 => AnyOf(&[F::ShaderFloat8]),
        4213 => AnyOf(&[F::ShaderFloat8CooperativeMatrix]),
        4428 => AnyOf(&[F::WorkgroupMemoryExplicitLayout]),
        4429 => AnyOf(&[F::WorkgroupMemoryExplicitLayout8BitAccess]),
        4430 => AnyOf(&[F::WorkgroupMemoryExplicitLayout16BitAccess]),
        4433 => AnyOf(&[F::StorageBuffer16BitAccess]),
        4434 => AnyOf(&[F::UniformAndStorageBuffer16BitAccess]),
        4435 => AnyOf(&[F::StoragePushConstant16]),
        4441 => AnyOf(&[F::VariablePointersStorageBuffer]),
        4442 => AnyOf(&[F::VariablePointers]),
        4448 => AnyOf(&[F::StorageBuffer8BitAccess]),
        4449 => AnyOf(&[F::UniformAndStorageBuffer8BitAccess]),
        4450 => AnyOf(&[F::StoragePushConstant8]),
        4464 => {
            AnyOf(&[F::ShaderDenormPreserveFloat16, F::ShaderDenormPreserveFloat32, F::ShaderDenormPreserveFloat64])
        }
        4465 => AnyOf(&[
            F::ShaderDenormFlushToZeroFloat16,
            F::ShaderDenormFlushToZeroFloat32,
            F::ShaderDenormFlushToZeroFloat64,
        ]),
        4466 => AnyOf(&[
            F::ShaderSignedZeroInfNanPreserveFloat16,
            F::ShaderSignedZeroInfNanPreserveFloat32,
            F::ShaderSignedZeroInfNanPreserveFloat64,
        ]),
        4467 => {
            AnyOf(&[F::ShaderRoundingModeRteFloat16, F::ShaderRoundingModeRteFloat32, F::ShaderRoundingModeRteFloat64])
        }
        4468 => {
            AnyOf(&[F::ShaderRoundingModeRtzFloat16, F::ShaderRoundingModeRtzFloat32, F::ShaderRoundingModeRtzFloat64])
        }
        4473 => AnyOf(&[F::ShaderUntypedPointers]),
        4496 => AnyOf(&[F::CooperativeMatrixConversionQcom]),
        5055 => AnyOf(&[F::ShaderSubgroupClock, F::ShaderDeviceClock]),
        5116 => AnyOf(&[F::ShaderBFloat16Type]),
        5117 => AnyOf(&[F::ShaderBFloat16DotProduct]),
        5118 => AnyOf(&[F::ShaderBFloat16CooperativeMatrix]),
        5301 => Extension(VulkanExtension::core("VK_EXT_descriptor_indexing", 2)),
        5302 => AnyOf(&[F::RuntimeDescriptorArray]),
        5306 => AnyOf(&[F::ShaderUniformBufferArrayNonUniformIndexing]),
        5308 => AnyOf(&[F::ShaderStorageBufferArrayNonUniformIndexing]),
        5345 => AnyOf(&[F::VulkanMemoryModel]),
        5346 => AnyOf(&[F::VulkanMemoryModelDeviceScope]),
        5347 => AnyOf(&[F::BufferDeviceAddress]),
        5357 => AnyOf(&[F::CooperativeMatrixNv]),
        5394 => AnyOf(&[F::CooperativeVector]),
        5425 => AnyOf(&[F::LongVector]),
        5426 => AnyOf(&[F::Shader64BitIndexing]),
        5429 => AnyOf(&[F::CooperativeMatrixConversionsExt]),
        5430 => AnyOf(&[F::CooperativeMatrixReductionsNv, F::CooperativeMatrixReductionsExt]),
        5431 => AnyOf(&[F::CooperativeMatrixConversionsNv]),
        5432 => AnyOf(&[F::CooperativeMatrixPerElementOperationsNv, F::CooperativeMatrixPerElementOperationsExt]),
        5433 | 5439 => AnyOf(&[F::CooperativeMatrixTensorAddressing]),
        5434 => AnyOf(&[F::CooperativeMatrixBlockLoads]),
        5435 => AnyOf(&[F::CooperativeVectorTraining]),
        5438 => AnyOf(&[F::CooperativeMatrixGetCoordinate]),
        5447 => AnyOf(&[F::CooperativeMatrixDecodeVector]),
        5629 => AnyOf(&[F::ShaderExpectAssume]),
        6016..=6019 => AnyOf(&[F::ShaderIntegerDotProduct]),
        6022 => AnyOf(&[F::CooperativeMatrix]),
        6024 => AnyOf(&[F::ShaderReplicatedComposites]),
        6026 => AnyOf(&[F::ShaderSubgroupRotate]),
        6029 => AnyOf(&[F::ShaderFloatControls2]),
        6033 => AnyOf(&[F::ShaderBufferFloat32AtomicAdd, F::ShaderSharedFloat32AtomicAdd]),
        6034 => AnyOf(&[F::ShaderBufferFloat64AtomicAdd]),
        _ => Unknown,
    }
}

/// The Vulkan extension behind each SPIR-V extension.
const SPIRV_EXTENSIONS: &[(&str, VulkanExtension)] = &[
    ("SPV_KHR_variable_pointers", VulkanExtension::core("VK_KHR_variable_pointers", 1)),
    ("SPV_KHR_16bit_storage", VulkanExtension::core("VK_KHR_16bit_storage", 1)),
    ("SPV_KHR_storage_buffer_storage_class", VulkanExtension::core("VK_KHR_storage_buffer_storage_class", 1)),
    ("SPV_KHR_device_group", VulkanExtension::core("VK_KHR_device_group", 1)),
    ("SPV_KHR_8bit_storage", VulkanExtension::core("VK_KHR_8bit_storage", 2)),
    ("SPV_KHR_float_controls", VulkanExtension::core("VK_KHR_shader_float_controls", 2)),
    ("SPV_KHR_vulkan_memory_model", VulkanExtension::core("VK_KHR_vulkan_memory_model", 2)),
    ("SPV_KHR_physical_storage_buffer", VulkanExtension::core("VK_KHR_buffer_device_address", 2)),
    ("SPV_EXT_physical_storage_buffer", VulkanExtension::core("VK_EXT_buffer_device_address", 2)),
    ("SPV_EXT_descriptor_indexing", VulkanExtension::core("VK_EXT_descriptor_indexing", 2)),
    ("SPV_KHR_integer_dot_product", VulkanExtension::core("VK_KHR_shader_integer_dot_product", 3)),
    ("SPV_KHR_non_semantic_info", VulkanExtension::core("VK_KHR_shader_non_semantic_info", 3)),
    ("SPV_KHR_subgroup_rotate", VulkanExtension::core("VK_KHR_shader_subgroup_rotate", 4)),
    ("SPV_KHR_float_controls2", VulkanExtension::core("VK_KHR_shader_float_controls2", 4)),
    ("SPV_KHR_expect_assume", VulkanExtension::core("VK_KHR_shader_expect_assume", 4)),
    ("SPV_KHR_shader_ballot", VulkanExtension::new("VK_EXT_shader_subgroup_ballot")),
    ("SPV_KHR_subgroup_vote", VulkanExtension::new("VK_EXT_shader_subgroup_vote")),
    ("SPV_KHR_shader_clock", VulkanExtension::new("VK_KHR_shader_clock")),
    ("SPV_KHR_subgroup_uniform_control_flow", VulkanExtension::new("VK_KHR_shader_subgroup_uniform_control_flow")),
    ("SPV_KHR_maximal_reconvergence", VulkanExtension::new("VK_KHR_shader_maximal_reconvergence")),
    ("SPV_KHR_relaxed_extended_instruction", VulkanExtension::new("VK_KHR_shader_relaxed_extended_instruction")),
    ("SPV_KHR_workgroup_memory_explicit_layout", VulkanExtension::new("VK_KHR_workgroup_memory_explicit_layout")),
    ("SPV_KHR_untyped_pointers", VulkanExtension::new("VK_KHR_shader_untyped_pointers")),
    ("SPV_KHR_cooperative_matrix", VulkanExtension::new("VK_KHR_cooperative_matrix")),
    ("SPV_KHR_bfloat16", VulkanExtension::new("VK_KHR_shader_bfloat16")),
    ("SPV_EXT_float8", VulkanExtension::new("VK_EXT_shader_float8")),
    ("SPV_EXT_replicated_composites", VulkanExtension::new("VK_EXT_shader_replicated_composites")),
    ("SPV_EXT_long_vector", VulkanExtension::new("VK_EXT_shader_long_vector")),
    ("SPV_EXT_shader_64bit_indexing", VulkanExtension::new("VK_EXT_shader_64bit_indexing")),
    ("SPV_EXT_ocp_microscaling_types", VulkanExtension::new("VK_EXT_shader_ocp_microscaling_types")),
    ("SPV_EXT_shader_atomic_float_add", VulkanExtension::new("VK_EXT_shader_atomic_float")),
    ("SPV_EXT_cooperative_matrix_maintenance1", VulkanExtension::new("VK_EXT_cooperative_matrix_maintenance1")),
    ("SPV_NV_cooperative_matrix", VulkanExtension::new("VK_NV_cooperative_matrix")),
    ("SPV_NV_cooperative_matrix2", VulkanExtension::new("VK_NV_cooperative_matrix2")),
    ("SPV_NV_tensor_addressing", VulkanExtension::new("VK_NV_cooperative_matrix2")),
    ("SPV_NV_cooperative_matrix_decode_vector", VulkanExtension::new("VK_NV_cooperative_matrix_decode_vector")),
    ("SPV_NV_cooperative_vector", VulkanExtension::new("VK_NV_cooperative_vector")),
    ("SPV_NV_shader_subgroup_partitioned", VulkanExtension::new("VK_NV_shader_subgroup_partitioned")),
    ("SPV_QCOM_cooperative_matrix_conversion", VulkanExtension::new("VK_QCOM_cooperative_matrix_conversion")),
];

/// The Vulkan extension that a device must have, and enable, before a module may name the SPIR-V extension.
pub fn spirv_extension(name: &str) -> Option<VulkanExtension> {
    SPIRV_EXTENSIONS.iter().find(|(spirv, _)| *spirv == name).map(|(_, vulkan)| *vulkan)
}

/// The Vulkan extension of the table that a name is a misspelling of, if it looks like one. A name that differs in its
/// numbers is that of another version, and the vendor is taken at his word.
pub(super) fn misspelt_extension(name: &str) -> Option<&'static str> {
    let stem = |n: &str| n.chars().filter(|c| !c.is_ascii_digit()).collect::<String>();
    let vendor = |n: &str| n.split('_').nth(1).map(str::to_owned);
    let known = || SPIRV_EXTENSIONS.iter().map(|(_, vulkan)| vulkan.name);
    let near = |k: &&str| vendor(k) == vendor(name) && (1..=2).contains(&distance(&stem(k), &stem(name)));
    if known().any(|k| stem(k) == stem(name)) { None } else { known().find(near) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_on_builtin_devices() {
        let h100 = Profile::builtin("nvidia-h100").unwrap();
        let lavapipe = Profile::builtin("mesa-lavapipe").unwrap();
        // CooperativeMatrixKHR, tensor addressing, decode vectors, Kernel.
        assert_eq!(h100.check_capability(6022), Ok(()));
        assert_eq!(h100.check_capability(5433), Ok(()));
        let missing = lavapipe.check_capability(5433).unwrap_err();
        assert_eq!(missing.to_string(), "feature cooperativeMatrixTensorAddressing");
        assert!(h100.check_capability(5447).is_err());
        assert_eq!(h100.check_capability(6), Err(Requirement::NeverInVulkan));
        // Reductions are in two extensions under one number.
        assert_eq!(lavapipe.check_capability(5430), Ok(()));
    }

    #[test]
    fn extensions_become_core() {
        let extension = spirv_extension("SPV_KHR_8bit_storage").unwrap();
        assert!(extension.is_core_in(ApiVersion::new(1, 2)) && !extension.is_core_in(ApiVersion::new(1, 1)));
        assert!(!spirv_extension("SPV_KHR_cooperative_matrix").unwrap().is_core_in(ApiVersion::new(1, 4)));
        assert_eq!(spirv_extension("SPV_INTEL_joint_matrix"), None);
    }
}
