//! The requirements of SPIR-V capabilities and extensions on a Vulkan device.
//!
//! There is one table for the capabilities and one for the extensions that compute modules use. Anything else is
//! unknown, neither accepted nor refused: new extensions come faster than tables grow.

use std::fmt;

use coop_ir::spv::Capability;
use coop_ir::spv::Capability as C;

use super::{ApiVersion, Feature, Profile, SubgroupOperations};
use coop_ir::nearest::distance;

/// The requirement of a capability on a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Requirement {
    /// None: every Vulkan device accepts it in a compute shader.
    Nothing,
    /// One of these features; the device enables the one that it has.
    AnyOf(&'static [Feature]),
    /// These subgroup operations or more, depending on what the module uses.
    Subgroup(SubgroupOperations),
    /// The extension, or the core version that includes it; it has no feature of its own.
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

    /// Returns true if the version includes what the extension brings.
    pub fn is_core_in(self, version: ApiVersion) -> bool {
        self.core.is_some_and(|core| version >= core)
    }
}

impl Requirement {
    /// Returns true if the device meets the requirement. An unknown requirement counts as met.
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

/// Returns the requirement of a capability on a Vulkan device.
pub fn capability_requirement(capability: Capability) -> Requirement {
    if let Some(operations) = subgroup_operations(capability) {
        return Requirement::Subgroup(operations);
    }
    match enabling_features(capability) {
        [] => requirement_without_feature(capability),
        features => Requirement::AnyOf(features),
    }
}

/// Returns the requirement of a capability that neither features nor subgroup operations enable.
fn requirement_without_feature(capability: Capability) -> Requirement {
    use Requirement::*;
    match capability {
        // Always available in Vulkan.
        C::Matrix
        | C::Shader
        | C::Sampled1D
        | C::Image1D
        | C::SampledBuffer
        | C::ImageBuffer
        | C::ImageQuery
        | C::DerivativeControl => Nothing,
        // OpenCL only.
        C::Addresses
        | C::Linkage
        | C::Kernel
        | C::Vector16
        | C::Float16Buffer
        | C::ImageBasic
        | C::ImageReadWrite
        | C::ImageMipmap
        | C::Pipes
        | C::Groups
        | C::DeviceEnqueue
        | C::LiteralSampler
        | C::GenericPointer
        | C::SubgroupDispatch
        | C::NamedBarrier
        | C::PipeStorage => NeverInVulkan,
        // No Vulkan extension has these: ARM's layouts; Intel's integers, joint matrix and conversions.
        C::CooperativeMatrixLayoutsARM
        | C::Int4TypeINTEL
        | C::Int4CooperativeMatrixINTEL
        | C::BFloat16ConversionINTEL
        | C::CooperativeMatrixCheckedInstructionsINTEL
        | C::CooperativeMatrixOffsetInstructionsINTEL
        | C::CooperativeMatrixPrefetchINTEL
        | C::TensorFloat32RoundingINTEL
        | C::PackedCooperativeMatrixINTEL
        | C::CooperativeMatrixInvocationInstructionsINTEL
        | C::CooperativeMatrixTF32ComponentTypeINTEL
        | C::CooperativeMatrixBFloat16ComponentTypeINTEL
        | C::CacheControlsINTEL => NeverInVulkan,
        C::ShaderNonUniform => Extension(VulkanExtension::core("VK_EXT_descriptor_indexing", 2)),
        C::BitcastExtractEXT => Extension(VulkanExtension::new("VK_EXT_shader_ocp_microscaling_types")),
        C::DotProductFloat16AccFloat32VALVE
        | C::DotProductFloat16AccFloat16VALVE
        | C::DotProductBFloat16AccVALVE
        | C::DotProductFloat8AccFloat32VALVE => {
            Extension(VulkanExtension::new("VK_VALVE_shader_mixed_float_dot_product"))
        }
        _ => Unknown,
    }
}

/// Returns the subgroup operations that enable a capability.
fn subgroup_operations(capability: Capability) -> Option<SubgroupOperations> {
    type Ops = SubgroupOperations;
    Some(match capability {
        C::GroupNonUniform => Ops::BASIC,
        C::GroupNonUniformVote | C::SubgroupVoteKHR => Ops::VOTE,
        C::GroupNonUniformArithmetic => Ops::ARITHMETIC,
        C::GroupNonUniformBallot | C::SubgroupBallotKHR => Ops::BALLOT,
        C::GroupNonUniformShuffle => Ops::SHUFFLE,
        C::GroupNonUniformShuffleRelative => Ops::SHUFFLE_RELATIVE,
        C::GroupNonUniformClustered => Ops::CLUSTERED,
        C::GroupNonUniformQuad => Ops::QUAD,
        C::GroupNonUniformPartitionedNV => Ops::PARTITIONED,
        _ => return None,
    })
}

/// Returns the features any one of which enables a capability.
fn enabling_features(capability: Capability) -> &'static [Feature] {
    use Feature as F;
    match capability {
        C::Float16 => &[F::ShaderFloat16],
        C::Float64 => &[F::ShaderFloat64],
        C::Int64 => &[F::ShaderInt64],
        C::Int64Atomics => &[F::ShaderBufferInt64Atomics, F::ShaderSharedInt64Atomics],
        C::Int16 => &[F::ShaderInt16],
        C::UniformBufferArrayDynamicIndexing => &[F::ShaderUniformBufferArrayDynamicIndexing],
        C::StorageBufferArrayDynamicIndexing => &[F::ShaderStorageBufferArrayDynamicIndexing],
        C::Int8 => &[F::ShaderInt8],
        C::Float8EXT => &[F::ShaderFloat8],
        C::Float8CooperativeMatrixEXT => &[F::ShaderFloat8CooperativeMatrix],
        C::WorkgroupMemoryExplicitLayoutKHR => &[F::WorkgroupMemoryExplicitLayout],
        C::WorkgroupMemoryExplicitLayout8BitAccessKHR => &[F::WorkgroupMemoryExplicitLayout8BitAccess],
        C::WorkgroupMemoryExplicitLayout16BitAccessKHR => &[F::WorkgroupMemoryExplicitLayout16BitAccess],
        C::StorageBuffer16BitAccess => &[F::StorageBuffer16BitAccess],
        C::UniformAndStorageBuffer16BitAccess => &[F::UniformAndStorageBuffer16BitAccess],
        C::StoragePushConstant16 => &[F::StoragePushConstant16],
        C::VariablePointersStorageBuffer => &[F::VariablePointersStorageBuffer],
        C::VariablePointers => &[F::VariablePointers],
        C::StorageBuffer8BitAccess => &[F::StorageBuffer8BitAccess],
        C::UniformAndStorageBuffer8BitAccess => &[F::UniformAndStorageBuffer8BitAccess],
        C::StoragePushConstant8 => &[F::StoragePushConstant8],
        C::DenormPreserve => {
            &[F::ShaderDenormPreserveFloat16, F::ShaderDenormPreserveFloat32, F::ShaderDenormPreserveFloat64]
        }
        C::DenormFlushToZero => {
            &[F::ShaderDenormFlushToZeroFloat16, F::ShaderDenormFlushToZeroFloat32, F::ShaderDenormFlushToZeroFloat64]
        }
        C::SignedZeroInfNanPreserve => &[
            F::ShaderSignedZeroInfNanPreserveFloat16,
            F::ShaderSignedZeroInfNanPreserveFloat32,
            F::ShaderSignedZeroInfNanPreserveFloat64,
        ],
        C::RoundingModeRTE => {
            &[F::ShaderRoundingModeRteFloat16, F::ShaderRoundingModeRteFloat32, F::ShaderRoundingModeRteFloat64]
        }
        C::RoundingModeRTZ => {
            &[F::ShaderRoundingModeRtzFloat16, F::ShaderRoundingModeRtzFloat32, F::ShaderRoundingModeRtzFloat64]
        }
        C::UntypedPointersKHR => &[F::ShaderUntypedPointers],
        C::CooperativeMatrixConversionQCOM => &[F::CooperativeMatrixConversionQcom],
        C::ShaderClockKHR => &[F::ShaderSubgroupClock, F::ShaderDeviceClock],
        C::BFloat16TypeKHR => &[F::ShaderBFloat16Type],
        C::BFloat16DotProductKHR => &[F::ShaderBFloat16DotProduct],
        C::BFloat16CooperativeMatrixKHR => &[F::ShaderBFloat16CooperativeMatrix],
        C::RuntimeDescriptorArray => &[F::RuntimeDescriptorArray],
        C::UniformBufferArrayNonUniformIndexing => &[F::ShaderUniformBufferArrayNonUniformIndexing],
        C::StorageBufferArrayNonUniformIndexing => &[F::ShaderStorageBufferArrayNonUniformIndexing],
        C::VulkanMemoryModel => &[F::VulkanMemoryModel],
        C::VulkanMemoryModelDeviceScope => &[F::VulkanMemoryModelDeviceScope],
        C::PhysicalStorageBufferAddresses => &[F::BufferDeviceAddress],
        C::CooperativeMatrixNV => &[F::CooperativeMatrixNv],
        C::CooperativeVectorNV => &[F::CooperativeVector],
        C::LongVectorEXT => &[F::LongVector],
        C::Shader64BitIndexingEXT => &[F::Shader64BitIndexing],
        C::CooperativeMatrixConversionsEXT => &[F::CooperativeMatrixConversionsExt],
        C::CooperativeMatrixReductionsNV => &[F::CooperativeMatrixReductionsNv, F::CooperativeMatrixReductionsExt],
        C::CooperativeMatrixConversionsNV => &[F::CooperativeMatrixConversionsNv],
        C::CooperativeMatrixPerElementOperationsNV => {
            &[F::CooperativeMatrixPerElementOperationsNv, F::CooperativeMatrixPerElementOperationsExt]
        }
        C::CooperativeMatrixTensorAddressingNV | C::TensorAddressingNV => &[F::CooperativeMatrixTensorAddressing],
        C::CooperativeMatrixBlockLoadsNV => &[F::CooperativeMatrixBlockLoads],
        C::CooperativeVectorTrainingNV => &[F::CooperativeVectorTraining],
        C::CooperativeMatrixGetCoordinateEXT => &[F::CooperativeMatrixGetCoordinate],
        C::CooperativeMatrixDecodeVectorNV => &[F::CooperativeMatrixDecodeVector],
        C::ExpectAssumeKHR => &[F::ShaderExpectAssume],
        C::DotProductInputAll | C::DotProductInput4x8Bit | C::DotProductInput4x8BitPacked | C::DotProduct => {
            &[F::ShaderIntegerDotProduct]
        }
        C::CooperativeMatrixKHR => &[F::CooperativeMatrix],
        C::ReplicatedCompositesEXT => &[F::ShaderReplicatedComposites],
        C::GroupNonUniformRotateKHR => &[F::ShaderSubgroupRotate],
        C::FloatControls2 => &[F::ShaderFloatControls2],
        C::AtomicFloat32AddEXT => &[F::ShaderBufferFloat32AtomicAdd, F::ShaderSharedFloat32AtomicAdd],
        C::AtomicFloat64AddEXT => &[F::ShaderBufferFloat64AtomicAdd],
        C::AtomicFloat16AddEXT => &[F::ShaderBufferFloat16AtomicAdd, F::ShaderSharedFloat16AtomicAdd],
        C::AtomicFloat16MinMaxEXT => &[F::ShaderBufferFloat16AtomicMinMax, F::ShaderSharedFloat16AtomicMinMax],
        C::AtomicFloat32MinMaxEXT => &[F::ShaderBufferFloat32AtomicMinMax, F::ShaderSharedFloat32AtomicMinMax],
        C::AtomicFloat64MinMaxEXT => &[F::ShaderBufferFloat64AtomicMinMax, F::ShaderSharedFloat64AtomicMinMax],
        C::Float4EXT => &[F::ShaderFloat4],
        C::Float6EXT => &[F::ShaderFloat6],
        _ => &[],
    }
}

/// Returns the requirement of a capability on an OpenCL device, which accepts SPIR-V of SPV_INTEL_joint_matrix if it
/// has matrices.
pub fn opencl_requirement(capability: Capability) -> Requirement {
    use Feature as F;
    use Requirement::*;
    match capability {
        C::Addresses
        | C::Linkage
        | C::Kernel
        | C::Vector16
        | C::Float16Buffer
        | C::Int8
        | C::Int16
        | C::Int64
        | C::GenericPointer
        | C::ExpectAssumeKHR => Nothing,
        C::Float16 => AnyOf(&[F::ShaderFloat16]),
        C::Float64 => AnyOf(&[F::ShaderFloat64]),
        C::Int64Atomics => AnyOf(&[F::ShaderBufferInt64Atomics]),
        C::Groups | C::SubgroupDispatch | C::GroupNonUniform => Subgroup(SubgroupOperations::BASIC),
        C::GroupNonUniformVote => Subgroup(SubgroupOperations::VOTE),
        C::GroupNonUniformArithmetic => Subgroup(SubgroupOperations::ARITHMETIC),
        C::GroupNonUniformBallot => Subgroup(SubgroupOperations::BALLOT),
        C::GroupNonUniformShuffle => Subgroup(SubgroupOperations::SHUFFLE),
        C::GroupNonUniformShuffleRelative => Subgroup(SubgroupOperations::SHUFFLE_RELATIVE),
        C::GroupNonUniformClustered => Subgroup(SubgroupOperations::CLUSTERED),
        C::CooperativeMatrixKHR
        | C::CooperativeMatrixCheckedInstructionsINTEL
        | C::CooperativeMatrixOffsetInstructionsINTEL
        | C::CooperativeMatrixPrefetchINTEL
        | C::PackedCooperativeMatrixINTEL
        | C::CooperativeMatrixInvocationInstructionsINTEL
        | C::CooperativeMatrixTF32ComponentTypeINTEL
        | C::CooperativeMatrixBFloat16ComponentTypeINTEL
        | C::BFloat16ConversionINTEL
        | C::TensorFloat32RoundingINTEL
        | C::CacheControlsINTEL => AnyOf(&[F::CooperativeMatrix]),
        C::BFloat16TypeKHR => AnyOf(&[F::ShaderBFloat16Type]),
        C::BFloat16CooperativeMatrixKHR => AnyOf(&[F::ShaderBFloat16CooperativeMatrix]),
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
    ("SPV_EXT_shader_atomic_float16_add", VulkanExtension::new("VK_EXT_shader_atomic_float2")),
    ("SPV_EXT_shader_atomic_float_min_max", VulkanExtension::new("VK_EXT_shader_atomic_float2")),
    ("SPV_EXT_cooperative_matrix_maintenance1", VulkanExtension::new("VK_EXT_cooperative_matrix_maintenance1")),
    ("SPV_NV_cooperative_matrix", VulkanExtension::new("VK_NV_cooperative_matrix")),
    ("SPV_NV_cooperative_matrix2", VulkanExtension::new("VK_NV_cooperative_matrix2")),
    ("SPV_NV_tensor_addressing", VulkanExtension::new("VK_NV_cooperative_matrix2")),
    ("SPV_NV_cooperative_matrix_decode_vector", VulkanExtension::new("VK_NV_cooperative_matrix_decode_vector")),
    ("SPV_NV_cooperative_vector", VulkanExtension::new("VK_NV_cooperative_vector")),
    ("SPV_NV_shader_subgroup_partitioned", VulkanExtension::new("VK_NV_shader_subgroup_partitioned")),
    ("SPV_VALVE_mixed_float_dot_product", VulkanExtension::new("VK_VALVE_shader_mixed_float_dot_product")),
    ("SPV_QCOM_cooperative_matrix_conversion", VulkanExtension::new("VK_QCOM_cooperative_matrix_conversion")),
];

/// Returns the Vulkan extension that a device must have, and enable, before a module may name the SPIR-V extension.
pub fn spirv_extension(name: &str) -> Option<VulkanExtension> {
    SPIRV_EXTENSIONS.iter().find(|(spirv, _)| *spirv == name).map(|(_, vulkan)| *vulkan)
}

/// Returns true if a SPIR-V extension asks for the Vulkan extension of that name.
pub fn serves_spirv(name: &str) -> bool {
    SPIRV_EXTENSIONS.iter().any(|(_, vulkan)| vulkan.name == name)
}

/// Returns the Vulkan extension of the table of which a name looks like a misspelling. A name that differs in its
/// numbers is another version, and the vendor prefix must be right.
pub(super) fn misspelt_extension(name: &str) -> Option<&'static str> {
    const MOST: usize = 2;
    fn stem(n: &str) -> impl Iterator<Item = char> + '_ {
        n.chars().filter(|c| !c.is_ascii_digit())
    }
    let known = || SPIRV_EXTENSIONS.iter().map(|(_, vulkan)| vulkan.name);
    if known().any(|k| stem(k).eq(stem(name))) {
        return None;
    }
    // A profile has hundreds of extensions. Vendor and length tell each from most of the table.
    let (vendor, length) = (name.split('_').nth(1), stem(name).count());
    let alike = known().filter(|k| k.split('_').nth(1) == vendor && stem(k).count().abs_diff(length) <= MOST);
    let stem = |n: &str| stem(n).collect::<String>();
    let name = stem(name);
    alike.into_iter().find(|k| distance(&stem(k), &name) <= MOST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_on_builtin_devices() {
        let h100 = Profile::builtin("nvidia-h100").unwrap();
        let lavapipe = Profile::builtin("mesa-lavapipe").unwrap();
        // CooperativeMatrixKHR, tensor addressing, decode vectors, Kernel.
        assert_eq!(h100.check_capability(Capability::CooperativeMatrixKHR), Ok(()));
        assert_eq!(h100.check_capability(Capability::CooperativeMatrixTensorAddressingNV), Ok(()));
        let missing = lavapipe.check_capability(Capability::CooperativeMatrixTensorAddressingNV).unwrap_err();
        assert_eq!(missing.to_string(), "feature cooperativeMatrixTensorAddressing");
        assert!(h100.check_capability(Capability::CooperativeMatrixDecodeVectorNV).is_err());
        assert_eq!(h100.check_capability(Capability::Kernel), Err(Requirement::NeverInVulkan));
        // Reductions are in two extensions under one number.
        assert_eq!(lavapipe.check_capability(Capability::CooperativeMatrixReductionsNV), Ok(()));
    }

    #[test]
    fn extensions_become_core() {
        let extension = spirv_extension("SPV_KHR_8bit_storage").unwrap();
        assert!(extension.is_core_in(ApiVersion::new(1, 2)) && !extension.is_core_in(ApiVersion::new(1, 1)));
        assert!(!spirv_extension("SPV_KHR_cooperative_matrix").unwrap().is_core_in(ApiVersion::new(1, 4)));
        assert_eq!(spirv_extension("SPV_INTEL_joint_matrix"), None);
    }
}
