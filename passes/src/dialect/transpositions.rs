//! Lowers transpositions that change the component type into conversions of the components that transpose.
//!
//! The text of `OpCooperativeMatrixTransposeNV` names no component type, spirv-val takes any, and Khronos' conformance tests
//! expect what the conversion instruction of SPIR-V gives: numbers of another float type are rounded, integers keep their
//! value as far as it fits. Conversions that transpose are those of SPV_EXT_cooperative_matrix_maintenance1.
//!
//! Integers of one width are left: they keep their bits.

use super::rewriter::{Rewriter, Shape};
use crate::Refusal;
use coop_ir::builder::{decorate, require_capability};
use coop_ir::spv::{Capability, Decoration};
use coop_ir::types::Scalar;
use coop_ir::{Id, InstRef, Module, Op};

pub(super) fn run(m: &mut Module) -> Result<(), Refusal> {
    if !m.all().any(|r| m.inst(r).op == Op::CooperativeMatrixTransposeNV) {
        return Ok(());
    }
    let mut e = Rewriter::new(m);
    e.each(&mut |e, r| {
        let inst = e.m.inst(r);
        if inst.op == Op::CooperativeMatrixTransposeNV
            && let (Some(value), ty) = (inst.id(0), inst.ty)
        {
            let (from, to) = (e.shape(r, value)?, e.shape_of_type(r, ty)?);
            convert(e, r, value, from, to);
        }
        Ok(true)
    })
}

/// Makes a transposition a conversion, where the component types differ by more than the sign.
fn convert(e: &mut Rewriter<'_>, r: InstRef, value: Id, from: Shape, to: Shape) {
    let op = match (from.scalar, to.scalar) {
        (a, b) if a == b => return,
        (Scalar::Int { width: a, .. }, Scalar::Int { width: b, .. }) if a == b => return,
        (Scalar::Int { signed: true, .. }, Scalar::Int { .. }) => Op::SConvert,
        (Scalar::Int { width: a, .. }, Scalar::Int { width: b, .. }) if b < a => Op::SConvert,
        (Scalar::Int { .. }, Scalar::Int { signed: false, .. }) => Op::UConvert,
        (Scalar::Int { .. }, Scalar::Int { width, signed: true }) => {
            // OpUConvert gives unsigned numbers only. What is as wide then is only transposed.
            let component = e.g.scalar(e.m, Scalar::Int { width, signed: false });
            let ty = e.of_component(from, component);
            let wide = e.ids(Op::UConvert, ty, &[value]);
            return e.replace(r, Op::CooperativeMatrixTransposeNV, [wide.into()]);
        }
        (Scalar::Int { signed: true, .. }, _) => Op::ConvertSToF,
        (Scalar::Int { .. }, _) => Op::ConvertUToF,
        (_, Scalar::Int { signed: true, .. }) => Op::ConvertFToS,
        (_, Scalar::Int { .. }) => Op::ConvertFToU,
        _ => Op::FConvert,
    };
    e.replace(r, op, [value.into()]);
    if let Some(result) = e.m.inst(r).result {
        decorate(e.m, result, Decoration::CooperativeMatrixTransposeEXT, &[]);
        require_capability(e.m, Capability::CooperativeMatrixConversionsEXT);
    }
}
