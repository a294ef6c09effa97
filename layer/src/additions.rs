//! The additions of the layer to a device: extensions, their features, properties and lists of matrices.

use std::ffi::CStr;

use coop_device::Feature;
use coop_device::vulkan::structs;
use coopmat::Promise;

/// Extensions that are added together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Group {
    /// VK_KHR_cooperative_matrix.
    Khr,
    /// VK_NV_cooperative_matrix2.
    Nv2,
    /// VK_NV_cooperative_matrix_decode_vector.
    DecodeVector,
    /// VK_EXT_cooperative_matrix_maintenance1.
    Maintenance1,
    /// VK_KHR_shader_bfloat16.
    Bfloat16,
}

/// An extension that can be added.
pub(crate) struct Addition {
    /// The setting that adds it.
    pub(crate) group: Group,
    /// The extension.
    pub(crate) name: &'static CStr,
    /// Its version, as of the registry of Vulkan 1.4.360.
    pub(crate) spec_version: u32,
    /// The number of its structure of features.
    pub(crate) features_type: i32,
    /// Its features in order, and whether the layer has them.
    pub(crate) features: &'static [(Feature, bool)],
}

use Feature as F;

/// Every extension that can be added.
pub(crate) const ADDITIONS: &[Addition] = &[
    Addition {
        group: Group::Khr,
        name: c"VK_KHR_cooperative_matrix",
        spec_version: 2,
        features_type: 1_000_506_000,
        features: &[(F::CooperativeMatrix, true), (F::CooperativeMatrixRobustBufferAccess, false)],
    },
    Addition {
        group: Group::Nv2,
        name: c"VK_NV_cooperative_matrix2",
        spec_version: 1,
        features_type: 1_000_593_000,
        features: &[
            (F::CooperativeMatrixWorkgroupScope, true),
            (F::CooperativeMatrixFlexibleDimensions, true),
            (F::CooperativeMatrixReductionsNv, true),
            (F::CooperativeMatrixConversionsNv, true),
            (F::CooperativeMatrixPerElementOperationsNv, true),
            (F::CooperativeMatrixTensorAddressing, true),
            (F::CooperativeMatrixBlockLoads, true),
        ],
    },
    Addition {
        group: Group::DecodeVector,
        name: c"VK_NV_cooperative_matrix_decode_vector",
        spec_version: 1,
        features_type: 1_000_689_000,
        features: &[(F::CooperativeMatrixDecodeVector, true)],
    },
    Addition {
        group: Group::Maintenance1,
        name: c"VK_EXT_cooperative_matrix_maintenance1",
        spec_version: 1,
        features_type: 1_000_659_000,
        features: &[
            (F::CooperativeMatrixProperties2, true),
            (F::CooperativeMatrixReductionsExt, true),
            (F::CooperativeMatrixConversionsExt, true),
            (F::CooperativeMatrixPerElementOperationsExt, true),
            (F::CooperativeMatrixGetCoordinate, true),
        ],
    },
    Addition {
        group: Group::Bfloat16,
        name: c"VK_KHR_shader_bfloat16",
        spec_version: 1,
        features_type: 1_000_141_000,
        features: &[
            (F::ShaderBFloat16Type, true),
            (F::ShaderBFloat16DotProduct, false),
            (F::ShaderBFloat16CooperativeMatrix, true),
        ],
    },
];

/// Extensions that name a pipeline or a shader by what it was made from: the driver would take one of this layer's stand-ins for
/// another. Hidden where the layer may lower anything.
pub(crate) const HIDDEN: &[&CStr] = &[
    c"VK_KHR_pipeline_binary",
    c"VK_AMDX_shader_enqueue",
    c"VK_NV_device_generated_commands_compute",
    c"VK_ARM_data_graph",
];

impl Group {
    /// Every group.
    pub(crate) const ALL: &'static [Group] =
        &[Group::Khr, Group::Nv2, Group::DecodeVector, Group::Maintenance1, Group::Bfloat16];

    /// Reads the value of a setting.
    pub(crate) fn parse(text: &str) -> Option<Group> {
        Some(match text {
            "khr" => Group::Khr,
            "nv2" => Group::Nv2,
            "decode-vector" => Group::DecodeVector,
            "maintenance1" => Group::Maintenance1,
            "bfloat16" | "bf16" => Group::Bfloat16,
            _ => return None,
        })
    }
}

/// `VkPhysicalDeviceCooperativeMatrixPropertiesKHR` and the like: the members that the layer answers.
pub(crate) fn properties(s_type: i32, added: &[&Addition], promise: &Promise) -> Option<Vec<u32>> {
    let has = |group| added.iter().any(|addition| addition.group == group);
    match s_type {
        structs::KHR_PROPERTIES if has(Group::Khr) => Some(vec![coop_device::Limits::COMPUTE_STAGE]),
        structs::NV2_PROPERTIES if has(Group::Nv2) => {
            Some(vec![promise.max_workgroup_size, promise.max_dimension, promise.reserved_shared_memory])
        }
        _ => None,
    }
}
