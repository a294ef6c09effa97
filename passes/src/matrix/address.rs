//! Computes parts of the addresses of matrix accesses, for every lowering.

use coop_ir::builder::{FunctionBuilder, Index};
use coop_ir::spv::MemoryAccess;
use coop_ir::types::{self, Scalar};
use coop_ir::{Id, Op, Operand};

/// Memory operands of a matrix access, for one number of `bytes` bytes: alignment can't be more than its own.
pub(crate) fn access_operands(operands: &[Operand], bytes: u32) -> Vec<Operand> {
    let mut out = operands.to_vec();
    let aligned = MemoryAccess::Aligned.0;
    if out.first().is_some_and(|m| m.word() & aligned != 0)
        && let Some(Operand::Word(align)) = out.get_mut(1)
    {
        *align = (*align).min(bytes);
    }
    out
}

/// Strides from here on are multiplied with 64 bits: no matrix has as many lines as would take the product of a smaller one
/// beyond 32.
pub(crate) const FAR: u64 = 1 << 12;

/// A 32-bit value of an index of any integer type.
pub(crate) fn narrow(b: &mut FunctionBuilder<'_>, id: Id, known: &dyn Fn(Id) -> Option<u64>) -> Index {
    if let Some(value) = known(id).and_then(|v| u32::try_from(v).ok()) {
        return Index::Const(value);
    }
    let u32_type = b.u32_type();
    let ty = b.module.type_of(id);
    match ty.and_then(|t| types::scalar(b.module, t)) {
        Some(Scalar::Int { width: 32, signed: false }) => Index::Value(id),
        Some(Scalar::Int { width: 32, .. }) => Index::Value(b.ids(Op::Bitcast, u32_type, &[id])),
        Some(Scalar::Int { width, signed: true }) if width < 32 => Index::Value(b.ids(Op::SConvert, u32_type, &[id])),
        _ => Index::Value(b.ids(Op::UConvert, u32_type, &[id])),
    }
}
