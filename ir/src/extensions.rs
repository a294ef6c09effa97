//! The SPIR-V extensions for cooperative matrices and their component types, with their capabilities.

use crate::spv::Capability as C;
use crate::types::Scalar;

/// An extension.
struct Extension {
    name: &'static str,
    /// True if it is an extension for matrices.
    matrices: bool,
    capabilities: &'static [C],
}

const fn of_matrices(name: &'static str, capabilities: &'static [C]) -> Extension {
    Extension { name, matrices: true, capabilities }
}

const fn of_components(name: &'static str, capabilities: &'static [C]) -> Extension {
    Extension { name, matrices: false, capabilities }
}

/// Where two extensions share a capability, the older one comes first.
static EXTENSIONS: &[Extension] = &[
    of_matrices("SPV_KHR_cooperative_matrix", &[C::CooperativeMatrixKHR]),
    of_matrices("SPV_NV_cooperative_matrix", &[C::CooperativeMatrixNV]),
    of_matrices(
        "SPV_NV_cooperative_matrix2",
        &[
            C::CooperativeMatrixReductionsNV,
            C::CooperativeMatrixConversionsNV,
            C::CooperativeMatrixPerElementOperationsNV,
            C::CooperativeMatrixTensorAddressingNV,
            C::CooperativeMatrixBlockLoadsNV,
        ],
    ),
    of_matrices("SPV_NV_tensor_addressing", &[C::TensorAddressingNV]),
    of_matrices("SPV_NV_cooperative_matrix_decode_vector", &[C::CooperativeMatrixDecodeVectorNV]),
    of_matrices(
        "SPV_EXT_cooperative_matrix_maintenance1",
        &[
            C::CooperativeMatrixConversionsEXT,
            C::CooperativeMatrixReductionsEXT,
            C::CooperativeMatrixPerElementOperationsEXT,
            C::CooperativeMatrixGetCoordinateEXT,
        ],
    ),
    of_matrices("SPV_QCOM_cooperative_matrix_conversion", &[C::CooperativeMatrixConversionQCOM]),
    of_matrices("SPV_ARM_cooperative_matrix_layouts", &[C::CooperativeMatrixLayoutsARM]),
    of_matrices(
        "SPV_INTEL_joint_matrix",
        &[
            C::CooperativeMatrixCheckedInstructionsINTEL,
            C::CooperativeMatrixOffsetInstructionsINTEL,
            C::CooperativeMatrixPrefetchINTEL,
            C::PackedCooperativeMatrixINTEL,
            C::CooperativeMatrixInvocationInstructionsINTEL,
            C::CooperativeMatrixTF32ComponentTypeINTEL,
            C::CooperativeMatrixBFloat16ComponentTypeINTEL,
        ],
    ),
    of_components("SPV_KHR_bfloat16", &[C::BFloat16TypeKHR, C::BFloat16CooperativeMatrixKHR]),
    of_components("SPV_EXT_float8", &[C::Float8EXT, C::Float8CooperativeMatrixEXT]),
    of_components("SPV_INTEL_int4", &[C::Int4TypeINTEL, C::Int4CooperativeMatrixINTEL]),
    of_components("SPV_EXT_replicated_composites", &[C::ReplicatedCompositesEXT]),
];

/// Returns the extensions that have a capability, of those that are known here.
pub fn extensions_of(capability: C) -> impl Iterator<Item = &'static str> {
    EXTENSIONS.iter().filter(move |e| e.capabilities.contains(&capability)).map(|e| e.name)
}

/// Returns the capabilities of an extension that is known here.
pub fn capabilities_of(name: &str) -> &'static [C] {
    EXTENSIONS.iter().find(|e| e.name == name).map_or(&[], |e| e.capabilities)
}

/// Returns the additional capability that matrices of a component type need, if there is one.
pub fn capability_of_component(component: Scalar) -> Option<C> {
    match component {
        Scalar::BF16 => Some(C::BFloat16CooperativeMatrixKHR),
        Scalar::E4M3 | Scalar::E5M2 => Some(C::Float8CooperativeMatrixEXT),
        Scalar::Int { width: 4, .. } => Some(C::Int4CooperativeMatrixINTEL),
        _ => None,
    }
}

/// Returns true if an extension is one for matrices.
pub fn is_matrix_extension(name: &str) -> bool {
    EXTENSIONS.iter().any(|e| e.matrices && e.name == name)
}

/// Returns the first version of SPIR-V that an extension may be declared with.
pub fn extension_since(name: &str) -> (u8, u8) {
    const SINCE_1_4: [&str; 3] =
        ["SPV_KHR_workgroup_memory_explicit_layout", "SPV_EXT_mesh_shader", "SPV_NV_shader_invocation_reorder"];
    if SINCE_1_4.contains(&name) { (1, 4) } else { (1, 0) }
}

/// Returns true if a capability is one for matrices: of an extension for them, or for matrices of some component type.
pub fn is_matrix_capability(capability: C) -> bool {
    let of_components = [C::BFloat16CooperativeMatrixKHR, C::Float8CooperativeMatrixEXT, C::Int4CooperativeMatrixINTEL];
    of_components.contains(&capability) || EXTENSIONS.iter().any(|e| e.matrices && e.capabilities.contains(&capability))
}
