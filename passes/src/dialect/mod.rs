//! Other extensions' matrices in terms of SPV_KHR_cooperative_matrix.
//!
//! Precondition: `inline`. Effect: no type or instruction of SPV_NV_cooperative_matrix is left; what stands for them is
//! KHR's, with SPV_NV_cooperative_matrix2's change of use where a value has several. [`nv1`] says how uses are found.

mod nv1;

use crate::Refusal;
use crate::pipeline::PassCx;
use coop_ir::{Module, Op};

/// The opcodes that no module has afterwards.
pub(crate) const REMOVED: &[Op] = &[
    Op::TypeCooperativeMatrixNV,
    Op::CooperativeMatrixLoadNV,
    Op::CooperativeMatrixStoreNV,
    Op::CooperativeMatrixMulAddNV,
    Op::CooperativeMatrixLengthNV,
];

pub(crate) fn run(m: &mut Module, _: &mut PassCx<'_>) -> Result<(), Refusal> {
    nv1::run(m)
}
