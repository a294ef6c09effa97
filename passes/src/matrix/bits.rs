//! Joins numbers into wider ones and splits them into narrower ones, by bit casts of vectors.

use coop_ir::builder::{FunctionBuilder, Index, require_capability};
use coop_ir::spv::Capability;
use coop_ir::types::{Scalar, Type};
use coop_ir::{Id, Module, Op};

/// Numbers put together, the first in the lowest bits, as a value of type `to`.
pub(crate) fn gather(b: &mut FunctionBuilder<'_>, scalar: Scalar, ty: Id, parts: &[Id], to: Id) -> Id {
    if let Some(whole) = original_value(b.module, parts, to) {
        return whole;
    }
    match parts {
        [one] if ty == to => *one,
        [one] => b.ids(Op::Bitcast, to, &[*one]),
        // Vectors have at most four components without further capabilities.
        [low @ .., _, _, _, _] if parts.len() == 8 && low.len() == 4 => {
            let u32_type = b.u32_type();
            let halves = [0, 4].map(|at| gather(b, scalar, ty, &parts[at..at + 4], u32_type));
            gather(b, Scalar::Int { width: 32, signed: false }, u32_type, &halves, to)
        }
        _ => {
            small_type(b.module, scalar);
            let vector = b.globals.vector(b.module, ty, parts.len() as u32);
            let whole = b.ids(Op::CompositeConstruct, vector, parts);
            b.ids(Op::Bitcast, to, &[whole])
        }
    }
}

/// Returns the value of type `to` that the numbers are all the parts of, in order, if there is one.
fn original_value(m: &Module, parts: &[Id], to: Id) -> Option<Id> {
    let extracted = |(at, part): (usize, &Id)| {
        let inst = m.def_inst(*part).filter(|i| i.op == Op::CompositeExtract && i.operands.len() == 2)?;
        inst.id(0).filter(|_| inst.word(1) == u32::try_from(at).ok())
    };
    let vector = extracted((0, parts.first()?))?;
    let same = parts.iter().enumerate().all(|p| extracted(p) == Some(vector));
    let count = match Type::of(m, m.type_of(vector)?)? {
        Type::Vector { len, .. } => len as usize,
        _ => return None,
    };
    let bits = m.def_inst(vector).filter(|i| i.op == Op::Bitcast && same && count == parts.len())?;
    bits.id(0).filter(|w| m.type_of(*w) == Some(to))
}

/// The numbers of type `ty` that make up a value of `width` bits, the lowest first.
pub(crate) fn split_value(b: &mut FunctionBuilder<'_>, scalar: Scalar, ty: Id, value: Id, width: u32) -> Vec<Id> {
    let count = width / scalar.width();
    if count == 8 {
        let u32_type = b.u32_type();
        let word = Scalar::Int { width: 32, signed: false };
        let halves = split_value(b, word, u32_type, value, width);
        return halves.into_iter().flat_map(|h| split_value(b, scalar, ty, h, 32)).collect();
    }
    small_type(b.module, scalar);
    let vector = b.globals.vector(b.module, ty, count);
    let all = b.ids(Op::Bitcast, vector, &[value]);
    (0..count).map(|i| b.op(Op::CompositeExtract, ty, [all.into(), i.into()])).collect()
}

/// The element of type `elem` that begins at bit `at` of a number of `width` bits.
pub(crate) fn part(b: &mut FunctionBuilder<'_>, scalar: Scalar, elem: Id, whole: Id, width: u32, at: Index) -> Id {
    let count = width / scalar.width();
    if count == 8 {
        let u32_type = b.u32_type();
        let pair = b.globals.vector(b.module, u32_type, 2);
        let halves = b.ids(Op::Bitcast, pair, &[whole]);
        let half = b.div(at, 32);
        let half = component(b, u32_type, halves, half);
        let rest = b.rem(at, 32);
        return part(b, scalar, elem, half, 32, rest);
    }
    small_type(b.module, scalar);
    let vector = b.globals.vector(b.module, elem, count);
    let all = b.ids(Op::Bitcast, vector, &[whole]);
    let at = b.div(at, scalar.width());
    component(b, elem, all, at)
}

fn component(b: &mut FunctionBuilder<'_>, ty: Id, vector: Id, at: Index) -> Id {
    match at {
        Index::Const(at) => b.op(Op::CompositeExtract, ty, [vector.into(), at.into()]),
        Index::Value(at) => b.ids(Op::VectorExtractDynamic, ty, &[vector, at]),
    }
}

/// Declares what values (not only memory) of a small type need.
pub(crate) fn small_type(m: &mut Module, scalar: Scalar) {
    let capability = match scalar {
        Scalar::Int { width: 8, .. } => Capability::Int8,
        Scalar::Int { width: 16, .. } => Capability::Int16,
        Scalar::Int { width: 64, .. } => Capability::Int64,
        Scalar::Float { width: 16 } => Capability::Float16,
        Scalar::Float { width: 64 } => Capability::Float64,
        _ => return,
    };
    require_capability(m, capability);
}
