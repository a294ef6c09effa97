//! Rewrites matrices and instructions of other dialects into KHR and NV2 instructions.
//!
//! Precondition: `inline`. Effect: all matrices are those of SPV_KHR_cooperative_matrix. Operations that KHR lacks are
//! expressed by instructions of SPV_NV_cooperative_matrix2, SPV_NV_tensor_addressing and
//! SPV_EXT_cooperative_matrix_maintenance1, or by bit casts of matrices; the passes that follow lower them. So the
//! output of this pass alone need not be valid SPIR-V.
//!
//! [`nv_cooperative_matrix`] lowers SPV_NV_cooperative_matrix, whose types do not state the use of a matrix, with [`memory_model`] where
//! the module has that of GLSL 4.50; [`int4`]
//! SPV_INTEL_int4; [`intel`] SPV_INTEL_joint_matrix in shaders and kernels; [`tensor_form`] loads and stores with
//! layouts, offsets and bounds of Intel and of SPV_ARM_cooperative_matrix_layouts; [`float_conversions`] bfloat16 and
//! tf32. [`bfloat16_matrices`] turns matrices of integers that hold bfloat16 into matrices of bfloat16 where matrices
//! stay, [`bfloat16_as_f32`] into matrices of f32 where a device multiplies only those. [`qcom`] lowers
//! SPV_QCOM_cooperative_matrix_conversion; [`padded_arrays`] gives accesses memory whose arrays have no padding; [`transpositions`]
//! lowers transpositions that change the component type.

mod bfloat16_as_f32;
mod bfloat16_matrices;
mod float_conversions;
mod int4;
mod intel;
mod memory_model;
mod nv_cooperative_matrix;
mod padded_arrays;
mod qcom;
mod rewriter;
mod tensor_form;
mod transpositions;

use crate::pipeline::PassCx;
use crate::{Refusal, Target, lengths};
use coop_ir::Module;

pub(crate) fn run(m: &mut Module, cx: &mut PassCx<'_>) -> Result<(), Refusal> {
    if cx.options.target != Target::Scalar {
        lengths::run(m)?;
    }
    nv_cooperative_matrix::run(m, cx.options.target)?;
    int4::run(m, cx.options.checked)?;
    intel::run(m, cx)?;
    transpositions::run(m)?;
    if cx.options.target != Target::Scalar {
        bfloat16_matrices::run(m)?;
        bfloat16_as_f32::run(m, cx)?;
    }
    qcom::run(m, cx)?;
    padded_arrays::run(m)
}
