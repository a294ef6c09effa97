//! Items that the grammar of rspirv 0.13 (SPIR-V SDK 1.4.341) lacks. Numbers are from the SPIR-V registry and headers
//! as of 2026-08; rows for items that tools ship but the registry lacks say so. A row is removed when rspirv learns its
//! item: the generator refuses a row that rspirv already has.

/// Operand kind and quantifier (`""` one, `"?"` optional, `"*"` any number).
pub(super) type Shape = (&'static str, &'static str);

/// Opcode, name without `Op`, operands, capabilities, extensions.
pub(super) type OpRow = (u16, &'static str, &'static [Shape], &'static [u32], &'static [&'static str]);

const RT: Shape = ("IdResultType", "");
const R: Shape = ("IdResult", "");
const ID: Shape = ("IdRef", "");
const ID_OPT: Shape = ("IdRef", "?");
const MEM_OPT: Shape = ("MemoryAccess", "?");

const INTEL_JM: &[&str] = &["SPV_INTEL_joint_matrix"];

pub(super) const OPS: &[OpRow] = &[
    // SPV_EXT_cooperative_matrix_maintenance1 r1 (2026-05-11).
    (
        5363,
        "CooperativeMatrixGetCoordinateEXT",
        &[RT, R, ID, ID],
        &[5438],
        &["SPV_EXT_cooperative_matrix_maintenance1"],
    ),
    // SPV_INTEL_joint_matrix before it was built on SPV_KHR_cooperative_matrix, as the SPIR-V/LLVM translator had it until 2024.
    (6119, "TypeJointMatrixINTEL", &[R, ID, ID, ID, ID, ID, ID_OPT, ID_OPT], &[6118], INTEL_JM),
    // SPV_INTEL_joint_matrix r16 (2023-11-06).
    (6193, "CooperativeMatrixLoadCheckedINTEL", &[RT, R, ID, ID, ID, ID, ID, ID, ID_OPT, MEM_OPT], &[6192], INTEL_JM),
    (6194, "CooperativeMatrixStoreCheckedINTEL", &[ID, ID, ID, ID, ID, ID, ID, ID_OPT, MEM_OPT], &[6192], INTEL_JM),
    (6195, "CooperativeMatrixConstructCheckedINTEL", &[RT, R, ID, ID, ID, ID, ID], &[6192], INTEL_JM),
    (6440, "CooperativeMatrixGetElementCoordINTEL", &[RT, R, ID, ID], &[6435], INTEL_JM),
    (6448, "CooperativeMatrixApplyFunctionINTEL", &[RT, R, ID, ID], &[6435], INTEL_JM),
    // The published text also has two offsets after the pointer. The shipped form has 6 or 7 words, the published one
    // 8 or 9; what follows the first operand differs, so everything but the pointer is kept as words.
    (6449, "CooperativeMatrixPrefetchINTEL", &[ID, ("LiteralInteger", "*")], &[6411], INTEL_JM),
    // Shipped in the SPIR-V/LLVM translator, not in the published text.
    (6239, "CooperativeMatrixLoadOffsetINTEL", &[RT, R, ID, ID, ID, ID, ID_OPT, MEM_OPT], &[6238], INTEL_JM),
    (6240, "CooperativeMatrixStoreOffsetINTEL", &[ID, ID, ID, ID, ID, ID_OPT, MEM_OPT], &[6238], INTEL_JM),
    // SPV_EXT_ocp_microscaling_types r1 (2026-05-08).
    (4195, "BitcastExtractEXT", &[RT, R, ID, ID], &[4232], &["SPV_EXT_ocp_microscaling_types"]),
    // SPV_VALVE_mixed_float_dot_product, as SPIRV-Tools 2026.4 has it.
    (6916, "FDot2MixAcc32VALVE", &[RT, R, ID, ID, ID], &[6912], &["SPV_VALVE_mixed_float_dot_product"]),
    (6917, "FDot2MixAcc16VALVE", &[RT, R, ID, ID, ID], &[6913, 6914], &["SPV_VALVE_mixed_float_dot_product"]),
    (6918, "FDot4MixAcc32VALVE", &[RT, R, ID, ID, ID], &[6915], &["SPV_VALVE_mixed_float_dot_product"]),
];

/// Kind, value or bit, name, parameters, capabilities.
pub(super) type EnumRow = (&'static str, u32, &'static str, &'static [Shape], &'static [u32]);

pub(super) const ENUMERANTS: &[EnumRow] = &[
    // SPV_EXT_cooperative_matrix_maintenance1 r1.
    ("Capability", 5429, "CooperativeMatrixConversionsEXT", &[], &[]),
    ("Capability", 5438, "CooperativeMatrixGetCoordinateEXT", &[], &[]),
    ("Decoration", 5440, "CooperativeMatrixTransposeEXT", &[], &[5429]),
    // SPV_NV_cooperative_matrix_decode_vector r1 (2026-04).
    ("Capability", 5447, "CooperativeMatrixDecodeVectorNV", &[], &[5434]),
    ("TensorAddressingOperands", 0x4, "DecodeVectorFunc", &[ID], &[5447]),
    // SPV_INTEL_joint_matrix before, and r16.
    ("Capability", 6118, "JointMatrixINTEL", &[], &[]),
    ("Capability", 6192, "CooperativeMatrixCheckedInstructionsINTEL", &[], &[]),
    ("Capability", 6238, "CooperativeMatrixOffsetInstructionsINTEL", &[], &[]),
    ("Capability", 6411, "CooperativeMatrixPrefetchINTEL", &[], &[]),
    ("Capability", 6434, "PackedCooperativeMatrixINTEL", &[], &[6022]),
    ("Capability", 6435, "CooperativeMatrixInvocationInstructionsINTEL", &[], &[]),
    ("Capability", 6436, "CooperativeMatrixTF32ComponentTypeINTEL", &[], &[6022]),
    ("Capability", 6437, "CooperativeMatrixBFloat16ComponentTypeINTEL", &[], &[6022]),
    ("CooperativeMatrixLayout", 2, "PackedINTEL", &[], &[6434]),
    ("CooperativeMatrixOperands", 0x20, "MatrixAAndBTF32ComponentsINTEL", &[], &[6436]),
    ("CooperativeMatrixOperands", 0x40, "MatrixAAndBBFloat16ComponentsINTEL", &[], &[6437]),
    ("CooperativeMatrixOperands", 0x80, "MatrixCBFloat16ComponentsINTEL", &[], &[6437]),
    ("CooperativeMatrixOperands", 0x100, "MatrixResultBFloat16ComponentsINTEL", &[], &[6437]),
    // SPV_EXT_ocp_microscaling_types r1.
    ("Capability", 4228, "Float6EXT", &[], &[]),
    ("Capability", 4229, "Float4EXT", &[], &[]),
    ("Capability", 4232, "BitcastExtractEXT", &[], &[]),
    ("FPEncoding", 4223, "Float6E2M3EXT", &[], &[4228]),
    ("FPEncoding", 4224, "Float6E3M2EXT", &[], &[4228]),
    ("FPEncoding", 4225, "Float4E2M1EXT", &[], &[4229]),
    ("FPEncoding", 4226, "Float8UnsignedE8M0EXT", &[], &[]),
    // SPV_VALVE_mixed_float_dot_product.
    ("Capability", 6912, "DotProductFloat16AccFloat32VALVE", &[], &[]),
    ("Capability", 6913, "DotProductFloat16AccFloat16VALVE", &[], &[]),
    ("Capability", 6914, "DotProductBFloat16AccVALVE", &[], &[]),
    ("Capability", 6915, "DotProductFloat8AccFloat32VALVE", &[], &[]),
];

/// Second names for what the table has: kind (`"Op"` for opcodes), value, name.
/// SPV_EXT_cooperative_matrix_maintenance1 renamed the NV2 instructions that it shares.
pub(super) const ALIASES: &[(&str, u32, &str)] = &[
    ("Op", 5293, "CooperativeMatrixConvertUseEXT"),
    ("Op", 5366, "CooperativeMatrixReduceEXT"),
    ("Op", 5369, "CooperativeMatrixPerElementOpEXT"),
    ("Capability", 5430, "CooperativeMatrixReductionsEXT"),
    ("Capability", 5432, "CooperativeMatrixPerElementOperationsEXT"),
    // SPV_EXT_split_barrier took these over from Intel.
    ("Op", 6142, "ControlBarrierArriveEXT"),
    ("Op", 6143, "ControlBarrierWaitEXT"),
    ("Capability", 6141, "SplitBarrierEXT"),
    ("Capability", 5381, "RayTracingOpacityMicromapKHR"),
    // Bits of masks that were renamed: rspirv knows their new names only.
    ("MemoryAccess", 0x8, "MakePointerAvailableKHR"),
    ("MemoryAccess", 0x10, "MakePointerVisibleKHR"),
    ("MemoryAccess", 0x20, "NonPrivatePointerKHR"),
    ("ImageOperands", 0x100, "MakeTexelAvailableKHR"),
    ("ImageOperands", 0x200, "MakeTexelVisibleKHR"),
    ("ImageOperands", 0x400, "NonPrivateTexelKHR"),
    ("ImageOperands", 0x800, "VolatileTexelKHR"),
    ("FunctionControl", 0x10000, "OptNoneINTEL"),
    ("FPFastMathMode", 0x10000, "AllowContractFastINTEL"),
    ("FPFastMathMode", 0x20000, "AllowReassocINTEL"),
];

/// Instructions of `NonSemantic.Shader.DebugInfo` after revision 100: number, name, how many operands (all ids).
pub(super) const DEBUG_INFO: &[(u32, &str, usize)] =
    &[(109, "DebugTypeVectorIdEXT", 2), (110, "DebugTypeCooperativeMatrixKHR", 5)];
