//! Replaces dot products of integers by products and sums, where the device has no such instructions, or not the components'
//! type.
//!
//! Effect: components are extended to the type of the result, and multiplied and added there, which is modulo its width as the
//! instruction says. Later passes find conversions and arithmetic that they know. The capabilities of dot products go.

use crate::Refusal;
use crate::emit;
use crate::pipeline::Cx;
use crate::report::Software;
use coop_device::Feature;
use coop_ir::builder::{FunctionBuilder, Globals};
use coop_ir::rewrite::{remove_capability, remove_extension, sort_globals};
use coop_ir::spv::Capability;
use coop_ir::types::{self, Scalar};
use coop_ir::{Id, Inst, InstRef, Module, Op, Operand};

const REMEDY: &str = "multiply and add the components, or use a device with shaderIntegerDotProduct";

/// A dot product: the signs of its factors' components, and if a sum is added that saturates.
#[derive(Clone, Copy)]
struct Dot {
    signed: [bool; 2],
    saturates: bool,
}

impl Dot {
    fn of(op: Op) -> Option<Dot> {
        let (signed, saturates) = match op {
            Op::SDot => ([true; 2], false),
            Op::UDot => ([false; 2], false),
            Op::SUDot => ([true, false], false),
            Op::SDotAccSat => ([true; 2], true),
            Op::UDotAccSat => ([false; 2], true),
            Op::SUDotAccSat => ([true, false], true),
            _ => return None,
        };
        Some(Dot { signed, saturates })
    }
}

pub(crate) fn run(m: &mut Module, cx: &mut Cx<'_>) -> Result<(), Refusal> {
    let dots = |m: &Module, r: InstRef| Dot::of(m.inst(r).op).is_some();
    let soft = |m: &Module, r: InstRef| {
        let number = m.inst(r).ids().next().and_then(|id| m.type_of(id)).and_then(|ty| types::scalar_or_vector(m, ty));
        number.is_some_and(|(s, _)| cx.lacks.in_software(m, s))
    };
    let all: Vec<InstRef> = m.functions.iter().flat_map(|f| f.insts()).filter(|r| dots(m, *r)).collect();
    let lacking = cx.lacks.has(Feature::ShaderIntegerDotProduct);
    if !all.iter().any(|r| soft(m, *r)) && cx.lacks.in_software(m, Scalar::Int { width: 8, signed: false }) {
        // It implies the type, which packed bytes don't need.
        remove_capability(m, Capability::DotProductInput4x8Bit);
    }
    if all.is_empty() || !(lacking || all.iter().any(|r| soft(m, *r))) {
        return Ok(());
    }
    let mut g = Globals::new(m);
    emit::rebuild(m, &mut g, &mut |b, r| {
        let i = b.module.inst(r).clone();
        match Dot::of(i.op) {
            Some(dot) => replace(b, r, &i, dot),
            None => {
                b.keep(r);
                Ok(())
            }
        }
    })?;
    for capability in [
        Capability::DotProductInputAll,
        Capability::DotProductInput4x8Bit,
        Capability::DotProductInput4x8BitPacked,
        Capability::DotProduct,
    ] {
        remove_capability(m, capability);
    }
    remove_extension(m, "SPV_KHR_integer_dot_product");
    sort_globals(m);
    let (narrow, wide) = ("dot products of integers".to_owned(), "products and sums".to_owned());
    cx.report.software.push(Software::Arithmetic { narrow, wide });
    Ok(())
}

/// Puts products and sums in the place of an instruction.
fn replace(b: &mut FunctionBuilder<'_>, r: InstRef, i: &Inst, dot: Dot) -> Result<(), Refusal> {
    let refuse = || Refusal::new(r, format!("{} of other types than integers has no lowering", i.op), REMEDY);
    let (Some(ty), Some(result)) = (i.ty, i.result) else { return Err(refuse()) };
    let Some(to @ Scalar::Int { .. }) = types::scalar(b.module, ty) else { return Err(refuse()) };
    let factors: Vec<Id> = i.ids().take(2).collect();
    let [first, second] = factors.as_slice() else { return Err(refuse()) };
    let mut parts = Vec::new();
    for (factor, signed) in [(*first, dot.signed[0]), (*second, dot.signed[1])] {
        parts.push(components(b, factor, signed, (ty, to)).ok_or_else(refuse)?);
    }
    let products: Vec<Id> = parts[0].iter().zip(&parts[1]).map(|(x, y)| b.ids(Op::IMul, ty, &[*x, *y])).collect();
    let sum = products.into_iter().reduce(|sum, product| b.ids(Op::IAdd, ty, &[sum, product])).ok_or_else(refuse)?;
    let value = match i.ids().nth(2).filter(|_| dot.saturates) {
        Some(more) => saturated(b, (ty, to), dot.signed[0], [sum, more]),
        None => sum,
    };
    b.module.replace(r, Inst::new(Op::CopyObject, Some(ty), Some(result), [Operand::Id(value)]).at(i.origin));
    b.keep(r);
    Ok(())
}

/// Returns the components of a factor, a vector or four bytes of a word, extended to the type of the result.
fn components(b: &mut FunctionBuilder<'_>, factor: Id, signed: bool, (ty, to): (Id, Scalar)) -> Option<Vec<Id>> {
    let of = b.module.type_of(factor)?;
    let (from @ Scalar::Int { width, .. }, len) = types::scalar_or_vector(b.module, of)? else { return None };
    if len > 1 {
        let elem = b.globals.scalar(b.module, from);
        let parts = crate::cast::components(b, factor, elem, len);
        return Some(parts.into_iter().map(|part| extended(b, part, (elem, from), signed, (ty, to))).collect());
    }
    // A word with four of them.
    let word = Scalar::Int { width: 32, signed };
    let elem = b.globals.scalar(b.module, word);
    let factor = if of == elem { factor } else { b.ids(Op::Bitcast, elem, &[factor]) };
    let op = if signed { Op::BitFieldSExtract } else { Op::BitFieldUExtract };
    (width == 32).then(|| {
        let byte = |n: u32| {
            let (at, count) = (b.u32(8 * n), b.u32(8));
            let part = b.ids(op, elem, &[factor, at, count]);
            extended(b, part, (elem, word), signed, (ty, to))
        };
        (0..4).map(byte).collect()
    })
}

/// Returns a number as one of a type that is as wide or wider, extended by a sign or zeros.
fn extended(
    b: &mut FunctionBuilder<'_>,
    value: Id,
    (ty, from): (Id, Scalar),
    signed: bool,
    (result, to): (Id, Scalar),
) -> Id {
    let (wider, op) = (from.width() < to.width(), if signed { Op::SConvert } else { Op::UConvert });
    let wide = b.globals.scalar(b.module, Scalar::Int { width: to.width(), signed });
    let value = if wider { b.ids(op, wide, &[value]) } else { value };
    let ty = if wider { wide } else { ty };
    if ty == result { value } else { b.ids(Op::Bitcast, result, &[value]) }
}

/// Adds, and clamps to the least and the greatest number of the type.
fn saturated(b: &mut FunctionBuilder<'_>, (ty, s): (Id, Scalar), signed: bool, [x, y]: [Id; 2]) -> Id {
    let bool = b.globals.bool(b.module);
    let sum = b.ids(Op::IAdd, ty, &[x, y]);
    let ones = u64::MAX >> (64 - s.width());
    if !signed {
        let over = b.ids(Op::ULessThan, bool, &[sum, x]);
        let most = b.globals.constant(b.module, s, ones);
        return b.ids(Op::Select, ty, &[over, most, sum]);
    }
    // The sum has another sign than both.
    let [one, other] = [x, y].map(|of| b.ids(Op::BitwiseXor, ty, &[of, sum]));
    let both = b.ids(Op::BitwiseAnd, ty, &[one, other]);
    let zero = b.globals.constant(b.module, s, 0);
    let over = b.ids(Op::SLessThan, bool, &[both, zero]);
    let negative = b.ids(Op::SLessThan, bool, &[x, zero]);
    let [least, most] = [ones ^ ones >> 1, ones >> 1].map(|bits| b.globals.constant(b.module, s, bits));
    let limit = b.ids(Op::Select, ty, &[negative, least, most]);
    b.ids(Op::Select, ty, &[over, limit, sum])
}
