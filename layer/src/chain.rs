//! Searches chains of structures, and copies them without the structures that are not for the driver.
//!
//! An application's chain is const, so that a structure can only be left out of a copy; a copy needs sizes. Those of structures
//! that this layer does not know are not known either: such a structure, and what hangs on it, stays where it is.

use std::ffi::c_void;
use std::mem::size_of;

use ash::vk::{self, TaggedStructure};

use crate::ffi::{self, Base};

/// Goes through the structures of a chain.
///
/// # Safety
///
/// `chain` is null or the `pNext` of a valid structure, and lives as long as the iterator.
pub(crate) unsafe fn structures(chain: *const c_void) -> impl Iterator<Item = *const Base> {
    let mut at = chain.cast::<Base>();
    std::iter::from_fn(move || {
        let here = at;
        // SAFETY: every structure of a valid chain begins with these members, and ends in null.
        at = unsafe { here.as_ref() }?.p_next.cast();
        Some(here)
    })
}

/// Returns the structure of a type in a chain.
///
/// # Safety
///
/// As for [`structures`]; the reference must not outlive the chain.
pub(crate) unsafe fn find<'a, T: TaggedStructure>(chain: *const c_void) -> Option<&'a T> {
    // SAFETY: a structure with the type's number is of the type.
    unsafe { structures(chain).find(|s| (**s).s_type == T::STRUCTURE_TYPE.as_raw()).map(|s| &*s.cast::<T>()) }
}

/// A copy of a chain, or of its head as far as structures are known.
#[derive(Default)]
pub(crate) struct Copy {
    /// Structures in order; of 64-bit words, as that is their alignment.
    blocks: Vec<Box<[u64]>>,
    /// The application's own structures behind them.
    tail: *const c_void,
    /// The structure at the head of the tail, whose size is not known.
    pub(crate) unknown: Option<i32>,
    /// Structures that should have been left out and are in the tail.
    pub(crate) left: Vec<i32>,
}

impl Copy {
    /// Copies a chain without the structures that `leave_out` names.
    ///
    /// # Safety
    ///
    /// As for [`structures`]; the copy must not outlive the chain.
    pub(crate) unsafe fn new(chain: *const c_void, mut leave_out: impl FnMut(i32) -> bool) -> Copy {
        let mut copy = Copy::default();
        // SAFETY: the caller's promise.
        for s in unsafe { structures(chain) } {
            // SAFETY: as above.
            let s_type = unsafe { (*s).s_type };
            if leave_out(s_type) {
                if copy.tail.is_null() {
                    continue;
                }
                copy.left.push(s_type);
            }
            if !copy.tail.is_null() {
                continue;
            }
            match size(s_type) {
                Some(size) => {
                    let mut block = vec![0u64; size.div_ceil(8)].into_boxed_slice();
                    // SAFETY: a structure with that number has that size.
                    unsafe { std::ptr::copy_nonoverlapping(s.cast::<u8>(), block.as_mut_ptr().cast(), size) };
                    copy.blocks.push(block);
                }
                None => {
                    copy.tail = s.cast();
                    copy.unknown = Some(s_type);
                }
            }
        }
        copy
    }

    /// Returns true if a structure is in the chain.
    ///
    /// # Safety
    ///
    /// The chain that was copied lives.
    pub(crate) unsafe fn has(&self, s_type: i32) -> bool {
        // SAFETY: the caller's promise.
        let mut tail = unsafe { structures(self.tail) };
        self.blocks.iter().any(|block| block_type(block) == s_type) ||
            // SAFETY: as above.
            tail.any(|s| unsafe { (*s).s_type } == s_type)
    }

    /// Returns the copied structure of a number as its bytes behind `pNext`, as 32-bit members.
    pub(crate) fn members(&mut self, s_type: i32) -> Option<&mut [u32]> {
        let block = self.blocks.iter_mut().find(|block| block_type(block) == s_type)?;
        let members = &mut block[2..];
        // SAFETY: two 32-bit members fit each 64-bit word, and any bits are a number.
        Some(unsafe { std::slice::from_raw_parts_mut(members.as_mut_ptr().cast(), members.len() * 2) })
    }

    /// Adds a structure of 32-bit members.
    pub(crate) fn push(&mut self, s_type: i32, members: &[u32]) {
        let mut block = vec![0u64; 2 + members.len().div_ceil(2)].into_boxed_slice();
        block[0] = u64::from(s_type.cast_unsigned());
        self.blocks.insert(0, block);
        if let Some(place) = self.members(s_type) {
            place[..members.len()].copy_from_slice(members);
        }
    }

    /// Links the structures: what to put into the `pNext` of the structure that heads the chain.
    pub(crate) fn head(&mut self) -> *const c_void {
        let mut next = self.tail;
        for block in self.blocks.iter_mut().rev() {
            block[1] = next.expose_provenance() as u64;
            next = block.as_ptr().cast();
        }
        next
    }
}

fn block_type(block: &[u64]) -> i32 {
    #[allow(clippy::cast_possible_truncation, reason = "the number is the first 32 bits")]
    (block[0] as u32).cast_signed()
}

/// Returns the size of a structure by its number.
pub(crate) fn size(s_type: i32) -> Option<usize> {
    if s_type == ffi::LOADER_DEVICE_CREATE_INFO {
        return Some(ffi::LOADER_CREATE_INFO_SIZE);
    }
    let known = SIZES.iter().find(|(number, _)| *number == s_type).map(|(_, size)| *size);
    known.or_else(|| {
        let members = NEWER.iter().find(|(number, _)| *number == s_type)?.1;
        Some(16 + (members * 4usize).next_multiple_of(8))
    })
}

macro_rules! sizes {
    ($($structure:ident)*) => {
        &[$((vk::$structure::STRUCTURE_TYPE.as_raw(), size_of::<vk::$structure>())),*]
    };
}

/// Structures of 32-bit members that ash does not know, with the number of their members (registry of Vulkan 1.4.360).
const NEWER: &[(i32, usize)] = &[
    // VK_KHR_cooperative_matrix and what was built on it; VK_NV_cooperative_matrix is in ash.
    (1_000_593_000, 7),
    (1_000_659_000, 5),
    (1_000_689_000, 1),
    (1_000_172_000, 1),
    (1_000_491_000, 2),
    // Types: bfloat16, float8, microscaling; long vectors, 64-bit indexing, untyped pointers, replicated composites.
    (1_000_141_000, 3),
    (1_000_567_000, 2),
    (1_000_672_000, 4),
    (1_000_635_000, 1),
    (1_000_627_000, 1),
    (1_000_387_000, 1),
    (1_000_564_000, 1),
    // VkPhysicalDeviceVulkan14Features: 21 Booleans.
    (55, 21),
    // Maintenance 7, 8 and 9, relaxed extended instructions, pipeline binaries.
    (1_000_562_000, 1),
    (1_000_574_000, 1),
    (1_000_584_000, 1),
    (1_000_558_000, 1),
    (1_000_483_000, 1),
];

/// The structures of ash that may be chained to the creation of a device or to a stage of a pipeline.
const SIZES: &[(i32, usize)] = sizes! {
    DebugUtilsObjectNameInfoEXT DeviceDeviceMemoryReportCreateInfoEXT DeviceDiagnosticsConfigCreateInfoNV
    DeviceGroupDeviceCreateInfo DeviceMemoryOverallocationCreateInfoAMD DevicePrivateDataCreateInfo
    DeviceQueueShaderCoreControlCreateInfoARM PhysicalDevice16BitStorageFeatures PhysicalDevice4444FormatsFeaturesEXT
    PhysicalDevice8BitStorageFeatures PhysicalDeviceASTCDecodeFeaturesEXT
    PhysicalDeviceAccelerationStructureFeaturesKHR PhysicalDeviceAddressBindingReportFeaturesEXT
    PhysicalDeviceAmigoProfilingFeaturesSEC PhysicalDeviceAttachmentFeedbackLoopLayoutFeaturesEXT
    PhysicalDeviceBlendOperationAdvancedFeaturesEXT PhysicalDeviceBorderColorSwizzleFeaturesEXT
    PhysicalDeviceBufferDeviceAddressFeatures PhysicalDeviceBufferDeviceAddressFeaturesEXT
    PhysicalDeviceClusterCullingShaderFeaturesHUAWEI PhysicalDeviceCoherentMemoryFeaturesAMD
    PhysicalDeviceColorWriteEnableFeaturesEXT PhysicalDeviceComputeShaderDerivativesFeaturesNV
    PhysicalDeviceConditionalRenderingFeaturesEXT PhysicalDeviceCooperativeMatrixFeaturesKHR
    PhysicalDeviceCooperativeMatrixFeaturesNV PhysicalDeviceCopyMemoryIndirectFeaturesNV
    PhysicalDeviceCornerSampledImageFeaturesNV PhysicalDeviceCoverageReductionModeFeaturesNV
    PhysicalDeviceCubicClampFeaturesQCOM PhysicalDeviceCubicWeightsFeaturesQCOM
    PhysicalDeviceCudaKernelLaunchFeaturesNV PhysicalDeviceCustomBorderColorFeaturesEXT
    PhysicalDeviceDepthBiasControlFeaturesEXT PhysicalDeviceDepthClampZeroOneFeaturesEXT
    PhysicalDeviceDepthClipControlFeaturesEXT PhysicalDeviceDepthClipEnableFeaturesEXT
    PhysicalDeviceDescriptorBufferFeaturesEXT PhysicalDeviceDescriptorIndexingFeatures
    PhysicalDeviceDescriptorPoolOverallocationFeaturesNV PhysicalDeviceDescriptorSetHostMappingFeaturesVALVE
    PhysicalDeviceDeviceGeneratedCommandsComputeFeaturesNV PhysicalDeviceDeviceGeneratedCommandsFeaturesNV
    PhysicalDeviceDeviceMemoryReportFeaturesEXT PhysicalDeviceDiagnosticsConfigFeaturesNV
    PhysicalDeviceDisplacementMicromapFeaturesNV PhysicalDeviceDynamicRenderingFeatures
    PhysicalDeviceDynamicRenderingLocalReadFeaturesKHR PhysicalDeviceExclusiveScissorFeaturesNV
    PhysicalDeviceExtendedDynamicState2FeaturesEXT PhysicalDeviceExtendedDynamicState3FeaturesEXT
    PhysicalDeviceExtendedDynamicStateFeaturesEXT PhysicalDeviceExtendedSparseAddressSpaceFeaturesNV
    PhysicalDeviceExternalFormatResolveFeaturesANDROID PhysicalDeviceExternalMemoryRDMAFeaturesNV
    PhysicalDeviceExternalMemoryScreenBufferFeaturesQNX PhysicalDeviceFaultFeaturesEXT PhysicalDeviceFeatures2
    PhysicalDeviceFragmentDensityMap2FeaturesEXT PhysicalDeviceFragmentDensityMapFeaturesEXT
    PhysicalDeviceFragmentDensityMapOffsetFeaturesQCOM PhysicalDeviceFragmentShaderBarycentricFeaturesKHR
    PhysicalDeviceFragmentShaderInterlockFeaturesEXT PhysicalDeviceFragmentShadingRateEnumsFeaturesNV
    PhysicalDeviceFragmentShadingRateFeaturesKHR PhysicalDeviceFrameBoundaryFeaturesEXT
    PhysicalDeviceGlobalPriorityQueryFeaturesKHR PhysicalDeviceGraphicsPipelineLibraryFeaturesEXT
    PhysicalDeviceHostImageCopyFeaturesEXT PhysicalDeviceHostQueryResetFeatures
    PhysicalDeviceImage2DViewOf3DFeaturesEXT PhysicalDeviceImageCompressionControlFeaturesEXT
    PhysicalDeviceImageProcessing2FeaturesQCOM PhysicalDeviceImageProcessingFeaturesQCOM
    PhysicalDeviceImageRobustnessFeatures PhysicalDeviceImageSlicedViewOf3DFeaturesEXT
    PhysicalDeviceImageViewMinLodFeaturesEXT PhysicalDeviceImagelessFramebufferFeatures
    PhysicalDeviceIndexTypeUint8FeaturesKHR PhysicalDeviceInheritedViewportScissorFeaturesNV
    PhysicalDeviceInlineUniformBlockFeatures PhysicalDeviceInvocationMaskFeaturesHUAWEI
    PhysicalDeviceLegacyDitheringFeaturesEXT PhysicalDeviceLineRasterizationFeaturesKHR
    PhysicalDeviceLinearColorAttachmentFeaturesNV PhysicalDeviceMaintenance4Features
    PhysicalDeviceMaintenance5FeaturesKHR PhysicalDeviceMaintenance6FeaturesKHR
    PhysicalDeviceMapMemoryPlacedFeaturesEXT PhysicalDeviceMemoryDecompressionFeaturesNV
    PhysicalDeviceMemoryPriorityFeaturesEXT PhysicalDeviceMeshShaderFeaturesEXT PhysicalDeviceMeshShaderFeaturesNV
    PhysicalDeviceMultiDrawFeaturesEXT PhysicalDeviceMultiviewFeatures
    PhysicalDeviceMultiviewPerViewRenderAreasFeaturesQCOM PhysicalDeviceMultiviewPerViewViewportsFeaturesQCOM
    PhysicalDeviceMutableDescriptorTypeFeaturesEXT PhysicalDeviceNestedCommandBufferFeaturesEXT
    PhysicalDeviceNonSeamlessCubeMapFeaturesEXT PhysicalDeviceOpacityMicromapFeaturesEXT
    PhysicalDeviceOpticalFlowFeaturesNV PhysicalDevicePageableDeviceLocalMemoryFeaturesEXT
    PhysicalDevicePerStageDescriptorSetFeaturesNV PhysicalDevicePerformanceQueryFeaturesKHR
    PhysicalDevicePipelineCreationCacheControlFeatures PhysicalDevicePipelineExecutablePropertiesFeaturesKHR
    PhysicalDevicePipelineLibraryGroupHandlesFeaturesEXT PhysicalDevicePipelinePropertiesFeaturesEXT
    PhysicalDevicePipelineProtectedAccessFeaturesEXT PhysicalDevicePipelineRobustnessFeaturesEXT
    PhysicalDevicePortabilitySubsetFeaturesKHR PhysicalDevicePresentBarrierFeaturesNV
    PhysicalDevicePresentIdFeaturesKHR PhysicalDevicePresentWaitFeaturesKHR
    PhysicalDevicePrimitiveTopologyListRestartFeaturesEXT PhysicalDevicePrimitivesGeneratedQueryFeaturesEXT
    PhysicalDevicePrivateDataFeatures PhysicalDeviceProtectedMemoryFeatures PhysicalDeviceProvokingVertexFeaturesEXT
    PhysicalDeviceRGBA10X6FormatsFeaturesEXT PhysicalDeviceRawAccessChainsFeaturesNV PhysicalDeviceRayQueryFeaturesKHR
    PhysicalDeviceRayTracingInvocationReorderFeaturesNV PhysicalDeviceRayTracingMaintenance1FeaturesKHR
    PhysicalDeviceRayTracingMotionBlurFeaturesNV PhysicalDeviceRayTracingPipelineFeaturesKHR
    PhysicalDeviceRayTracingPositionFetchFeaturesKHR PhysicalDeviceRayTracingValidationFeaturesNV
    PhysicalDeviceRelaxedLineRasterizationFeaturesIMG PhysicalDeviceRenderPassStripedFeaturesARM
    PhysicalDeviceRepresentativeFragmentTestFeaturesNV PhysicalDeviceRobustness2FeaturesEXT
    PhysicalDeviceSamplerYcbcrConversionFeatures PhysicalDeviceScalarBlockLayoutFeatures
    PhysicalDeviceSchedulingControlsFeaturesARM PhysicalDeviceSeparateDepthStencilLayoutsFeatures
    PhysicalDeviceShaderAtomicFloat16VectorFeaturesNV PhysicalDeviceShaderAtomicFloat2FeaturesEXT
    PhysicalDeviceShaderAtomicFloatFeaturesEXT PhysicalDeviceShaderAtomicInt64Features
    PhysicalDeviceShaderClockFeaturesKHR PhysicalDeviceShaderCoreBuiltinsFeaturesARM
    PhysicalDeviceShaderDemoteToHelperInvocationFeatures PhysicalDeviceShaderDrawParametersFeatures
    PhysicalDeviceShaderEnqueueFeaturesAMDX PhysicalDeviceShaderExpectAssumeFeaturesKHR
    PhysicalDeviceShaderFloat16Int8Features PhysicalDeviceShaderFloatControls2FeaturesKHR
    PhysicalDeviceShaderImageAtomicInt64FeaturesEXT PhysicalDeviceShaderImageFootprintFeaturesNV
    PhysicalDeviceShaderIntegerDotProductFeatures PhysicalDeviceShaderIntegerFunctions2FeaturesINTEL
    PhysicalDeviceShaderMaximalReconvergenceFeaturesKHR PhysicalDeviceShaderModuleIdentifierFeaturesEXT
    PhysicalDeviceShaderObjectFeaturesEXT PhysicalDeviceShaderQuadControlFeaturesKHR
    PhysicalDeviceShaderSMBuiltinsFeaturesNV PhysicalDeviceShaderSubgroupExtendedTypesFeatures
    PhysicalDeviceShaderSubgroupRotateFeaturesKHR PhysicalDeviceShaderTerminateInvocationFeatures
    PhysicalDeviceShaderTileImageFeaturesEXT PhysicalDeviceShadingRateImageFeaturesNV
    PhysicalDeviceSubgroupSizeControlFeatures PhysicalDeviceSubpassMergeFeedbackFeaturesEXT
    PhysicalDeviceSubpassShadingFeaturesHUAWEI PhysicalDeviceSwapchainMaintenance1FeaturesEXT
    PhysicalDeviceSynchronization2Features PhysicalDeviceTexelBufferAlignmentFeaturesEXT
    PhysicalDeviceTextureCompressionASTCHDRFeatures PhysicalDeviceTilePropertiesFeaturesQCOM
    PhysicalDeviceTimelineSemaphoreFeatures PhysicalDeviceTransformFeedbackFeaturesEXT
    PhysicalDeviceUniformBufferStandardLayoutFeatures PhysicalDeviceVariablePointersFeatures
    PhysicalDeviceVertexAttributeDivisorFeaturesKHR PhysicalDeviceVertexInputDynamicStateFeaturesEXT
    PhysicalDeviceVideoMaintenance1FeaturesKHR PhysicalDeviceVulkan11Features PhysicalDeviceVulkan12Features
    PhysicalDeviceVulkan13Features PhysicalDeviceVulkanMemoryModelFeatures
    PhysicalDeviceWorkgroupMemoryExplicitLayoutFeaturesKHR PhysicalDeviceYcbcr2Plane444FormatsFeaturesEXT
    PhysicalDeviceYcbcrDegammaFeaturesQCOM PhysicalDeviceYcbcrImageArraysFeaturesEXT
    PhysicalDeviceZeroInitializeWorkgroupMemoryFeatures PipelineRobustnessCreateInfoEXT
    PipelineShaderStageModuleIdentifierCreateInfoEXT PipelineShaderStageNodeCreateInfoAMDX
    PipelineShaderStageRequiredSubgroupSizeCreateInfo ShaderModuleCreateInfo ShaderModuleValidationCacheCreateInfoEXT
};

#[cfg(test)]
mod tests {
    use super::*;

    #[repr(C)]
    struct Unknown {
        s_type: i32,
        p_next: *const c_void,
    }

    fn types(chain: *const c_void) -> Vec<i32> {
        // SAFETY: the tests' chains are alive.
        unsafe { structures(chain).map(|s| (*s).s_type).collect() }
    }

    const MATRIX: i32 = 1_000_506_000;

    #[test]
    fn what_is_left_out_is_not_in_the_copy() {
        let mut float16 = vk::PhysicalDeviceShaderFloat16Int8Features::default().shader_int8(true);
        let mut matrix = vk::PhysicalDeviceCooperativeMatrixFeaturesKHR::default().cooperative_matrix(true);
        let mut v11 = vk::PhysicalDeviceVulkan11Features::default().multiview(true);
        matrix.p_next = (&raw mut float16).cast();
        v11.p_next = (&raw mut matrix).cast();
        let original: *const c_void = (&raw const v11).cast();
        // SAFETY: the chain is alive.
        let mut copy = unsafe { Copy::new(original, |s| s == MATRIX) };
        copy.push(1_000_141_000, &[1, 0, 1]);
        assert_eq!(types(copy.head()), [1_000_141_000, 49, 1_000_082_000]);
        assert_eq!(copy.members(1_000_141_000).map(|m| m[..3].to_vec()), Some(vec![1, 0, 1]));
        assert_eq!(copy.members(1_000_082_000).map(|m| m[..2].to_vec()), Some(vec![0, 1]));
        assert_eq!(types(original), [49, MATRIX, 1_000_082_000]);
        assert!(copy.left.is_empty() && copy.unknown.is_none());
    }

    /// The chain of a stage that is changed: its module and subgroup size are another's, its robustness stays.
    #[test]
    fn robustness_stays_beside_what_is_left_out() {
        const ROBUSTNESS: i32 = 1_000_068_000;
        let mut robust = vk::PipelineRobustnessCreateInfoEXT::default()
            .storage_buffers(vk::PipelineRobustnessBufferBehaviorEXT::ROBUST_BUFFER_ACCESS_2);
        let mut size = vk::PipelineShaderStageRequiredSubgroupSizeCreateInfo::default();
        let mut module = vk::ShaderModuleCreateInfo::default();
        size.p_next = (&raw mut robust).cast();
        module.p_next = (&raw const size).cast();
        // SAFETY: the chain is alive.
        let mut copy = unsafe { Copy::new((&raw const module).cast(), |s| s != ROBUSTNESS) };
        copy.push(crate::ffi::s_type::<vk::PipelineShaderStageRequiredSubgroupSizeCreateInfo<'_>>(), &[8]);
        let all = types(copy.head());
        assert_eq!((all.len(), all[1]), (2, ROBUSTNESS));
        assert_eq!(copy.members(ROBUSTNESS).map(|m| m[0]), Some(3));
        assert!(copy.left.is_empty() && copy.unknown.is_none());
    }

    #[test]
    fn what_is_behind_an_unknown_structure_stays() {
        let matrix = vk::PhysicalDeviceCooperativeMatrixFeaturesKHR::default();
        let unknown = Unknown { s_type: 1_999_999_000, p_next: (&raw const matrix).cast() };
        let next = (&raw const unknown).cast_mut().cast();
        let v11 = vk::PhysicalDeviceVulkan11Features { p_next: next, ..Default::default() };
        // SAFETY: the chain is alive.
        let mut copy = unsafe { Copy::new((&raw const v11).cast(), |s| s == MATRIX) };
        assert_eq!(types(copy.head()), [49, 1_999_999_000, MATRIX]);
        assert_eq!((copy.unknown, copy.left.as_slice()), (Some(1_999_999_000), &[MATRIX][..]));
        // SAFETY: the chain is alive.
        assert!(unsafe { copy.has(MATRIX) } && copy.members(MATRIX).is_none());
    }
}
