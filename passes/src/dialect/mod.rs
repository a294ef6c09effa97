//! Other extensions' matrices and instructions in terms of what the realisations of matrices know.
//!
//! Precondition: `inline`. Effect: matrices are those of SPV_KHR_cooperative_matrix. What KHR does not have is said with
//! instructions of SPV_NV_cooperative_matrix2, SPV_NV_tensor_addressing and SPV_EXT_cooperative_matrix_maintenance1, or
//! with bit casts of matrices; the passes that follow take them away. So the output of this pass by itself need not be
//! SPIR-V that anybody accepts.
//!
//! [`nv1`] has SPV_NV_cooperative_matrix, whose types don't say what a matrix is used for; [`int4`] SPV_INTEL_int4; [`intel`] SPV_INTEL_joint_matrix, of
//! shaders and kernels; [`surface`] loads and stores by layouts, offsets and bounds, of Intel and of
//! SPV_ARM_cooperative_matrix_layouts; [`numbers`] bfloat16 and tf32; [`retype`] makes matrices of bfloat16 in integers such
//! of bfloat16 where matrices stay, [`widen`] of f32 where a device multiplies only those; [`qcom`] has SPV_QCOM_cooperative_matrix_conversion; [`padded`] gives all accesses memory whose arrays have no padding.

mod edit;
mod int4;
mod intel;
mod numbers;
mod nv1;
mod padded;
mod qcom;
mod retype;
mod surface;
mod widen;

use crate::pipeline::PassCx;
use crate::{Refusal, Target, lengths};
use coop_ir::{Module, Op};

/// The opcodes that no module has afterwards.
pub(crate) const REMOVED: &[Op] = &[
    Op::TypeCooperativeMatrixNV,
    Op::CooperativeMatrixLoadNV,
    Op::CooperativeMatrixStoreNV,
    Op::CooperativeMatrixMulAddNV,
    Op::CooperativeMatrixLengthNV,
    Op::CooperativeMatrixLoadCheckedINTEL,
    Op::CooperativeMatrixStoreCheckedINTEL,
    Op::CooperativeMatrixConstructCheckedINTEL,
    Op::CooperativeMatrixLoadOffsetINTEL,
    Op::CooperativeMatrixStoreOffsetINTEL,
    Op::CooperativeMatrixGetElementCoordINTEL,
    Op::CooperativeMatrixPrefetchINTEL,
    Op::CooperativeMatrixApplyFunctionINTEL,
    Op::ConvertFToBF16INTEL,
    Op::ConvertBF16ToFINTEL,
    Op::RoundFToTF32INTEL,
    Op::CompositeConstructCoopMatQCOM,
    Op::CompositeExtractCoopMatQCOM,
    Op::BitCastArrayQCOM,
    Op::ExtractSubArrayQCOM,
];

pub(crate) fn run(m: &mut Module, cx: &mut PassCx<'_>) -> Result<(), Refusal> {
    if cx.options.target != Target::Scalar {
        lengths::run(m)?;
    }
    nv1::run(m)?;
    int4::run(m, cx.options.checked)?;
    intel::run(m, cx)?;
    if cx.options.target != Target::Scalar {
        retype::run(m)?;
        widen::run(m, cx)?;
    }
    qcom::run(m, cx)?;
    padded::run(m)
}
