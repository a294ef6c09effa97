//! Vulkan structures as tables: their numbers and members.
//!
//! ash 0.38 knows Vulkan up to 1.3.281; half of the structures for cooperative matrices are newer. All of these
//! structures have one shape: `sType`, `pNext`, then 32-bit members. [`Row`] is that shape, so a structure is a number
//! and a list of members, whether ash knows it or not. The numbers are those of the registry of Vulkan 1.4.360.

use std::ffi::c_void;

use crate::{ApiVersion, Feature};
use ash::vk;

/// A structure of `N` 32-bit members. `#[repr(C)]` gives it the size and padding of the C one.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Row<const N: usize> {
    /// `sType`.
    pub s_type: i32,
    /// `pNext`.
    pub p_next: *mut c_void,
    /// The members.
    pub members: [u32; N],
}

impl<const N: usize> Row<N> {
    /// Returns a structure with all members zero.
    pub fn new(s_type: i32) -> Row<N> {
        Row { s_type, p_next: std::ptr::null_mut(), members: [0; N] }
    }
}

/// The longest structure that is chained: the dot product properties have 30 members. Vulkan looks at as many members
/// as the `sType` has.
pub type Longest = Row<32>;

/// Structures that are linked through `pNext` when the chain is complete.
#[derive(Default)]
pub struct Chain {
    rows: Vec<Longest>,
}

impl Chain {
    /// Adds a structure and returns its index.
    pub fn push(&mut self, s_type: i32, members: &[u32]) -> usize {
        let mut row = Longest::new(s_type);
        row.members[..members.len()].copy_from_slice(members);
        self.rows.push(row);
        self.rows.len() - 1
    }

    /// Links the structures, and returns the pointer for the `pNext` of the structure that heads the chain. Nothing may
    /// be pushed while Vulkan uses it.
    pub fn head(&mut self) -> *mut c_void {
        let first = self.rows.as_mut_ptr();
        for place in 1..self.rows.len() {
            let next: *mut Longest = first.wrapping_add(place);
            self.rows[place - 1].p_next = next.cast();
        }
        if self.rows.is_empty() { std::ptr::null_mut() } else { first.cast() }
    }

    /// Returns the members of the structure with an index.
    pub fn members(&self, place: usize) -> &[u32] {
        &self.rows[place].members
    }
}

/// A structure of features.
pub struct FeatureStruct {
    /// Its number.
    pub s_type: i32,
    /// The extension that adds it.
    pub extension: &'static str,
    /// The minor version of Vulkan 1 that made it core.
    pub core: Option<u16>,
    /// The members in order; `None` for those that are never queried.
    pub members: &'static [Option<Feature>],
}

impl FeatureStruct {
    /// Returns true if a device of that version knows the structure without the extension.
    pub fn is_core_in(&self, version: ApiVersion) -> bool {
        self.core.is_some_and(|minor| version.at_least(1, minor))
    }
}

const fn feature_struct(
    s_type: i32,
    extension: &'static str,
    core: Option<u16>,
    members: &'static [Option<Feature>],
) -> FeatureStruct {
    FeatureStruct { s_type, extension, core, members }
}

use Feature as F;

/// Every structure of features that is queried and enabled, apart from `VkPhysicalDeviceFeatures` itself.
pub const FEATURE_STRUCTS: &[FeatureStruct] = &[
    feature_struct(
        1_000_083_000,
        "VK_KHR_16bit_storage",
        Some(1),
        &[
            Some(F::StorageBuffer16BitAccess),
            Some(F::UniformAndStorageBuffer16BitAccess),
            Some(F::StoragePushConstant16),
            None,
        ],
    ),
    feature_struct(
        1_000_120_000,
        "VK_KHR_variable_pointers",
        Some(1),
        &[Some(F::VariablePointersStorageBuffer), Some(F::VariablePointers)],
    ),
    feature_struct(
        1_000_177_000,
        "VK_KHR_8bit_storage",
        Some(2),
        &[Some(F::StorageBuffer8BitAccess), Some(F::UniformAndStorageBuffer8BitAccess), Some(F::StoragePushConstant8)],
    ),
    feature_struct(
        1_000_082_000,
        "VK_KHR_shader_float16_int8",
        Some(2),
        &[Some(F::ShaderFloat16), Some(F::ShaderInt8)],
    ),
    feature_struct(
        1_000_175_000,
        "VK_KHR_shader_subgroup_extended_types",
        Some(2),
        &[Some(F::ShaderSubgroupExtendedTypes)],
    ),
    feature_struct(
        1_000_180_000,
        "VK_KHR_shader_atomic_int64",
        Some(2),
        &[Some(F::ShaderBufferInt64Atomics), Some(F::ShaderSharedInt64Atomics)],
    ),
    feature_struct(
        1_000_211_000,
        "VK_KHR_vulkan_memory_model",
        Some(2),
        &[
            Some(F::VulkanMemoryModel),
            Some(F::VulkanMemoryModelDeviceScope),
            Some(F::VulkanMemoryModelAvailabilityVisibilityChains),
        ],
    ),
    feature_struct(1_000_221_000, "VK_EXT_scalar_block_layout", Some(2), &[Some(F::ScalarBlockLayout)]),
    feature_struct(
        1_000_253_000,
        "VK_KHR_uniform_buffer_standard_layout",
        Some(2),
        &[Some(F::UniformBufferStandardLayout)],
    ),
    feature_struct(1_000_257_000, "VK_KHR_buffer_device_address", Some(2), &[Some(F::BufferDeviceAddress), None, None]),
    feature_struct(
        1_000_161_001,
        "VK_EXT_descriptor_indexing",
        Some(2),
        &[
            None,
            None,
            None,
            Some(F::ShaderUniformBufferArrayNonUniformIndexing),
            None,
            Some(F::ShaderStorageBufferArrayNonUniformIndexing),
            None,
            None,
            None,
            None,
            None,
            None,
            None,
            None,
            None,
            None,
            None,
            None,
            None,
            Some(F::RuntimeDescriptorArray),
        ],
    ),
    feature_struct(
        1_000_225_002,
        "VK_EXT_subgroup_size_control",
        Some(3),
        &[Some(F::SubgroupSizeControl), Some(F::ComputeFullSubgroups)],
    ),
    feature_struct(1_000_280_000, "VK_KHR_shader_integer_dot_product", Some(3), &[Some(F::ShaderIntegerDotProduct)]),
    feature_struct(
        1_000_325_000,
        "VK_KHR_zero_initialize_workgroup_memory",
        Some(3),
        &[Some(F::ShaderZeroInitializeWorkgroupMemory)],
    ),
    feature_struct(1_000_413_000, "VK_KHR_maintenance4", Some(3), &[Some(F::Maintenance4)]),
    feature_struct(
        1_000_416_000,
        "VK_KHR_shader_subgroup_rotate",
        Some(4),
        &[Some(F::ShaderSubgroupRotate), Some(F::ShaderSubgroupRotateClustered)],
    ),
    feature_struct(1_000_528_000, "VK_KHR_shader_float_controls2", Some(4), &[Some(F::ShaderFloatControls2)]),
    feature_struct(1_000_544_000, "VK_KHR_shader_expect_assume", Some(4), &[Some(F::ShaderExpectAssume)]),
    feature_struct(
        1_000_336_000,
        "VK_KHR_workgroup_memory_explicit_layout",
        None,
        &[
            Some(F::WorkgroupMemoryExplicitLayout),
            Some(F::WorkgroupMemoryExplicitLayoutScalarBlockLayout),
            Some(F::WorkgroupMemoryExplicitLayout8BitAccess),
            Some(F::WorkgroupMemoryExplicitLayout16BitAccess),
        ],
    ),
    feature_struct(
        1_000_286_000,
        "VK_EXT_robustness2",
        None,
        &[Some(F::RobustBufferAccess2), None, Some(F::NullDescriptor)],
    ),
    feature_struct(
        1_000_260_000,
        "VK_EXT_shader_atomic_float",
        None,
        &[
            Some(F::ShaderBufferFloat32Atomics),
            Some(F::ShaderBufferFloat32AtomicAdd),
            Some(F::ShaderBufferFloat64Atomics),
            Some(F::ShaderBufferFloat64AtomicAdd),
            Some(F::ShaderSharedFloat32Atomics),
            Some(F::ShaderSharedFloat32AtomicAdd),
            None,
            None,
            None,
            None,
            None,
            None,
        ],
    ),
    feature_struct(
        1_000_273_000,
        "VK_EXT_shader_atomic_float2",
        None,
        &[
            Some(F::ShaderBufferFloat16Atomics),
            Some(F::ShaderBufferFloat16AtomicAdd),
            Some(F::ShaderBufferFloat16AtomicMinMax),
            Some(F::ShaderBufferFloat32AtomicMinMax),
            Some(F::ShaderBufferFloat64AtomicMinMax),
            Some(F::ShaderSharedFloat16Atomics),
            Some(F::ShaderSharedFloat16AtomicAdd),
            Some(F::ShaderSharedFloat16AtomicMinMax),
            Some(F::ShaderSharedFloat32AtomicMinMax),
            Some(F::ShaderSharedFloat64AtomicMinMax),
            None,
            None,
        ],
    ),
    feature_struct(
        1_000_181_000,
        "VK_KHR_shader_clock",
        None,
        &[Some(F::ShaderSubgroupClock), Some(F::ShaderDeviceClock)],
    ),
    feature_struct(
        1_000_323_000,
        "VK_KHR_shader_subgroup_uniform_control_flow",
        None,
        &[Some(F::ShaderSubgroupUniformControlFlow)],
    ),
    feature_struct(1_000_434_000, "VK_KHR_shader_maximal_reconvergence", None, &[Some(F::ShaderMaximalReconvergence)]),
    feature_struct(
        1_000_558_000,
        "VK_KHR_shader_relaxed_extended_instruction",
        None,
        &[Some(F::ShaderRelaxedExtendedInstruction)],
    ),
    feature_struct(1_000_574_000, "VK_KHR_maintenance8", None, &[Some(F::Maintenance8)]),
    feature_struct(1_000_564_000, "VK_EXT_shader_replicated_composites", None, &[Some(F::ShaderReplicatedComposites)]),
    feature_struct(1_000_387_000, "VK_KHR_shader_untyped_pointers", None, &[Some(F::ShaderUntypedPointers)]),
    feature_struct(1_000_635_000, "VK_EXT_shader_long_vector", None, &[Some(F::LongVector)]),
    feature_struct(1_000_627_000, "VK_EXT_shader_64bit_indexing", None, &[Some(F::Shader64BitIndexing)]),
    feature_struct(
        1_000_141_000,
        "VK_KHR_shader_bfloat16",
        None,
        &[Some(F::ShaderBFloat16Type), Some(F::ShaderBFloat16DotProduct), Some(F::ShaderBFloat16CooperativeMatrix)],
    ),
    feature_struct(
        1_000_567_000,
        "VK_EXT_shader_float8",
        None,
        &[Some(F::ShaderFloat8), Some(F::ShaderFloat8CooperativeMatrix)],
    ),
    feature_struct(
        1_000_672_000,
        "VK_EXT_shader_ocp_microscaling_types",
        None,
        &[Some(F::ShaderFloat4), Some(F::ShaderFloat6), Some(F::ShaderFloat8UnsignedE8M0), Some(F::ShaderMxInt8)],
    ),
    feature_struct(
        1_000_506_000,
        "VK_KHR_cooperative_matrix",
        None,
        &[Some(F::CooperativeMatrix), Some(F::CooperativeMatrixRobustBufferAccess)],
    ),
    feature_struct(
        1_000_249_000,
        "VK_NV_cooperative_matrix",
        None,
        &[Some(F::CooperativeMatrixNv), Some(F::CooperativeMatrixRobustBufferAccessNv)],
    ),
    feature_struct(
        1_000_593_000,
        "VK_NV_cooperative_matrix2",
        None,
        &[
            Some(F::CooperativeMatrixWorkgroupScope),
            Some(F::CooperativeMatrixFlexibleDimensions),
            Some(F::CooperativeMatrixReductionsNv),
            Some(F::CooperativeMatrixConversionsNv),
            Some(F::CooperativeMatrixPerElementOperationsNv),
            Some(F::CooperativeMatrixTensorAddressing),
            Some(F::CooperativeMatrixBlockLoads),
        ],
    ),
    feature_struct(
        1_000_689_000,
        "VK_NV_cooperative_matrix_decode_vector",
        None,
        &[Some(F::CooperativeMatrixDecodeVector)],
    ),
    feature_struct(
        1_000_659_000,
        "VK_EXT_cooperative_matrix_maintenance1",
        None,
        &[
            Some(F::CooperativeMatrixProperties2),
            Some(F::CooperativeMatrixReductionsExt),
            Some(F::CooperativeMatrixConversionsExt),
            Some(F::CooperativeMatrixPerElementOperationsExt),
            Some(F::CooperativeMatrixGetCoordinate),
        ],
    ),
    feature_struct(
        1_000_172_000,
        "VK_QCOM_cooperative_matrix_conversion",
        None,
        &[Some(F::CooperativeMatrixConversionQcom)],
    ),
    feature_struct(
        1_000_491_000,
        "VK_NV_cooperative_vector",
        None,
        &[Some(F::CooperativeVector), Some(F::CooperativeVectorTraining)],
    ),
];

/// A structure that holds the features of a whole version of Vulkan.
pub struct VersionStruct {
    /// Its number.
    pub s_type: i32,
    /// Its size in bytes.
    pub size: usize,
    /// The features that are queried, each with its offset in the structure.
    pub members: &'static [(usize, Feature)],
}

/// Lists members of a structure of ash's by their names there.
macro_rules! members {
    ($structure:ident { $($member:ident: $feature:ident),* $(,)? }) => {
        VersionStruct {
            s_type: <vk::$structure<'static> as vk::TaggedStructure>::STRUCTURE_TYPE.as_raw(),
            size: size_of::<vk::$structure<'static>>(),
            members: &[$((std::mem::offset_of!(vk::$structure<'static>, $member), F::$feature)),*],
        }
    };
}

/// The structures of the versions. Their features are also in structures of [`FEATURE_STRUCTS`].
pub const VERSION_STRUCTS: &[VersionStruct] = &[
    members!(PhysicalDeviceVulkan11Features {
        storage_buffer16_bit_access: StorageBuffer16BitAccess,
        uniform_and_storage_buffer16_bit_access: UniformAndStorageBuffer16BitAccess,
        storage_push_constant16: StoragePushConstant16,
        variable_pointers_storage_buffer: VariablePointersStorageBuffer,
        variable_pointers: VariablePointers,
    }),
    members!(PhysicalDeviceVulkan12Features {
        storage_buffer8_bit_access: StorageBuffer8BitAccess,
        uniform_and_storage_buffer8_bit_access: UniformAndStorageBuffer8BitAccess,
        storage_push_constant8: StoragePushConstant8,
        shader_buffer_int64_atomics: ShaderBufferInt64Atomics,
        shader_shared_int64_atomics: ShaderSharedInt64Atomics,
        shader_float16: ShaderFloat16,
        shader_int8: ShaderInt8,
        shader_uniform_buffer_array_non_uniform_indexing: ShaderUniformBufferArrayNonUniformIndexing,
        shader_storage_buffer_array_non_uniform_indexing: ShaderStorageBufferArrayNonUniformIndexing,
        runtime_descriptor_array: RuntimeDescriptorArray,
        scalar_block_layout: ScalarBlockLayout,
        uniform_buffer_standard_layout: UniformBufferStandardLayout,
        shader_subgroup_extended_types: ShaderSubgroupExtendedTypes,
        buffer_device_address: BufferDeviceAddress,
        vulkan_memory_model: VulkanMemoryModel,
        vulkan_memory_model_device_scope: VulkanMemoryModelDeviceScope,
        vulkan_memory_model_availability_visibility_chains: VulkanMemoryModelAvailabilityVisibilityChains,
    }),
    members!(PhysicalDeviceVulkan13Features {
        subgroup_size_control: SubgroupSizeControl,
        compute_full_subgroups: ComputeFullSubgroups,
        shader_zero_initialize_workgroup_memory: ShaderZeroInitializeWorkgroupMemory,
        shader_integer_dot_product: ShaderIntegerDotProduct,
        maintenance4: Maintenance4,
    }),
    // Newer than ash: 21 members, of which these are the second to the fifth.
    VersionStruct {
        s_type: 55,
        size: size_of::<Row<21>>(),
        members: &[
            (size_of::<Row<0>>() + 4, F::ShaderSubgroupRotate),
            (size_of::<Row<0>>() + 8, F::ShaderSubgroupRotateClustered),
            (size_of::<Row<0>>() + 12, F::ShaderFloatControls2),
            (size_of::<Row<0>>() + 16, F::ShaderExpectAssume),
        ],
    },
];

/// `VkPhysicalDeviceFeatures`, the one structure without `sType`.
pub fn core_features(features: &mut vk::PhysicalDeviceFeatures) -> [(Feature, &mut vk::Bool32); 6] {
    [
        (F::RobustBufferAccess, &mut features.robust_buffer_access),
        (F::ShaderUniformBufferArrayDynamicIndexing, &mut features.shader_uniform_buffer_array_dynamic_indexing),
        (F::ShaderStorageBufferArrayDynamicIndexing, &mut features.shader_storage_buffer_array_dynamic_indexing),
        (F::ShaderFloat64, &mut features.shader_float64),
        (F::ShaderInt64, &mut features.shader_int64),
        (F::ShaderInt16, &mut features.shader_int16),
    ]
}

/// Returns the extensions that an extension requires.
pub fn extension_needs(extension: &str) -> &'static [&'static str] {
    match extension {
        "VK_NV_cooperative_matrix2" | "VK_EXT_cooperative_matrix_maintenance1" => &["VK_KHR_cooperative_matrix"],
        "VK_NV_cooperative_matrix_decode_vector" => &["VK_NV_cooperative_matrix2", "VK_KHR_cooperative_matrix"],
        _ => &[],
    }
}

/// `VkPhysicalDeviceSubgroupProperties`: size, stages, operations, quads.
pub const SUBGROUP_PROPERTIES: i32 = 1_000_094_000;
/// `VkPhysicalDeviceSubgroupSizeControlProperties`: smallest, largest, subgroups in a workgroup, stages.
pub const SUBGROUP_SIZE_CONTROL_PROPERTIES: i32 = 1_000_225_000;
/// `VkPhysicalDeviceFloatControlsProperties`: two independences, then fifteen Booleans.
pub const FLOAT_CONTROLS_PROPERTIES: i32 = 1_000_197_000;
/// `VkPhysicalDeviceShaderIntegerDotProductProperties`: thirty Booleans, the packed ones fourth to sixth.
pub const DOT_PRODUCT_PROPERTIES: i32 = 1_000_280_001;
/// `VkPhysicalDeviceCooperativeMatrixPropertiesKHR`: stages.
pub const KHR_PROPERTIES: i32 = 1_000_506_002;
/// `VkPhysicalDeviceCooperativeMatrixPropertiesNV`: stages.
pub const NV_PROPERTIES: i32 = 1_000_249_002;
/// `VkPhysicalDeviceCooperativeMatrix2PropertiesNV`: largest workgroup, largest dimension, reserved shared memory.
pub const NV2_PROPERTIES: i32 = 1_000_593_002;
/// `VkPhysicalDeviceShaderLongVectorPropertiesEXT`: components.
pub const LONG_VECTOR_PROPERTIES: i32 = 1_000_635_001;

/// `VkCooperativeMatrixPropertiesKHR`: m, n, k, types of a, b, c and result, saturating, scope.
pub const KHR_ROW: i32 = 1_000_506_001;
/// `VkCooperativeMatrixFlexibleDimensionsPropertiesNV`: the same, then the workgroup's invocations.
pub const FLEXIBLE_ROW: i32 = 1_000_593_001;
/// `VkCooperativeMatrixPropertiesNV`: m, n, k, types of a, b, c and d, scope.
pub const NV_ROW: i32 = 1_000_249_001;
/// `VkCooperativeMatrixProperties2EXT`: m, n, k, types of a, b, c and result.
pub const PROPERTIES2_ROW: i32 = 1_000_659_002;
/// `VkPhysicalDeviceCooperativeMatrixInfo2EXT`: scope, invocations, subgroup size, flags.
pub const PROPERTIES2_INFO: i32 = 1_000_659_001;

/// A query that lists rows for a physical device.
pub type ListRows<const N: usize> = unsafe extern "system" fn(vk::PhysicalDevice, *mut u32, *mut Row<N>) -> vk::Result;

/// `vkGetPhysicalDeviceCooperativeMatrixProperties2EXT`.
pub type ListProperties2 =
    unsafe extern "system" fn(vk::PhysicalDevice, *const Row<4>, *mut u32, *mut Row<7>) -> vk::Result;

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_feature_is_in_one_structure() {
        let mut core = vk::PhysicalDeviceFeatures::default();
        let mut seen: Vec<Feature> = core_features(&mut core).into_iter().map(|(feature, _)| feature).collect();
        for group in FEATURE_STRUCTS {
            let members: Vec<Feature> = group.members.iter().copied().flatten().collect();
            let structures: BTreeSet<_> = members.iter().map(|feature| feature.structure()).collect();
            assert_eq!(structures.len(), 1, "{structures:?} under {}", group.s_type);
            assert!(group.members.len() <= 32);
            seen.extend(members);
        }
        let enabled: BTreeSet<_> = Feature::ALL.iter().filter(|feature| !feature.is_property()).collect();
        assert_eq!(seen.len(), enabled.len());
        assert_eq!(seen.iter().collect::<BTreeSet<_>>(), enabled);
    }

    /// A version's structure has each feature that a structure of its own took into the version.
    #[test]
    fn versions_hold_what_became_core() {
        for (minor, version) in (1..=4).zip(VERSION_STRUCTS) {
            let of_core = FEATURE_STRUCTS.iter().filter(|group| group.core == Some(minor));
            let wanted: BTreeSet<Feature> = of_core.flat_map(|group| group.members.iter().copied().flatten()).collect();
            let have: BTreeSet<Feature> = version.members.iter().map(|(_, feature)| *feature).collect();
            assert_eq!(have, wanted, "1.{minor}");
            assert!(version.members.iter().all(|(offset, _)| offset + 4 <= version.size));
        }
    }

    #[test]
    fn rows_have_the_layout_of_ash_structures() {
        assert_eq!(size_of::<Row<9>>(), size_of::<vk::CooperativeMatrixPropertiesKHR<'_>>());
        assert_eq!(size_of::<Row<8>>(), size_of::<vk::CooperativeMatrixPropertiesNV<'_>>());
        assert_eq!(KHR_ROW, vk::StructureType::COOPERATIVE_MATRIX_PROPERTIES_KHR.as_raw());
        assert_eq!(NV_ROW, vk::StructureType::COOPERATIVE_MATRIX_PROPERTIES_NV.as_raw());
        let ours = FEATURE_STRUCTS.iter().find(|group| group.extension == "VK_EXT_descriptor_indexing").unwrap();
        assert_eq!(ours.s_type, vk::StructureType::PHYSICAL_DEVICE_DESCRIPTOR_INDEXING_FEATURES.as_raw());
        let theirs = size_of::<vk::PhysicalDeviceDescriptorIndexingFeatures<'_>>();
        assert_eq!(theirs, size_of::<Row<0>>() + 4 * ours.members.len());
    }

    #[test]
    fn chains_are_linked() {
        let mut chain = Chain::default();
        assert!(chain.head().is_null());
        chain.push(1, &[7]);
        chain.push(2, &[8, 9]);
        let head: *mut Longest = chain.head().cast();
        assert_eq!(head, &raw mut chain.rows[0]);
        assert_eq!(chain.rows[0].p_next, head.wrapping_add(1).cast());
        assert!(chain.rows[1].p_next.is_null());
        assert_eq!(chain.members(1)[..3], [8, 9, 0]);
    }
}
