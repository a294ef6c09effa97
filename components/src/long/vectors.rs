//! Makes arrays of vectors of 64-bit integers, whose numbers become pairs of words.
//!
//! Precondition: no memory that others see has such vectors (`storage`). Effect: the type becomes an array under the same id, and each operation
//! on such vectors one on each of their components.
//!
//! Refuses: casts between such vectors and others than those of words or of numbers of 64 bits; dot products.

use super::{REMEDY, is_long};
use crate::narrow::Notes;
use crate::parts::MadeOf;
use crate::pipeline::Cx;
use crate::{Refusal, emit};
use coop_ir::builder::{FunctionBuilder, Globals};
use coop_ir::grammar::Class;
use coop_ir::hash::FxHashMap;
use coop_ir::rewrite::{replace_uses, sort_globals, unify_types};
use coop_ir::types::{self, Scalar, Type};
use coop_ir::{Id, Inst, InstRef, Module, Op, Operand};

/// The pass while it runs.
struct Vectors {
    notes: Notes,
    replaced: FxHashMap<Id, Id>,
}

pub(crate) fn run(m: &mut Module, cx: &mut Cx<'_>) -> Result<(), Refusal> {
    let long = Scalar::Int { width: 64, signed: false };
    let declared: Vec<InstRef> = m.globals.iter().copied().filter(|r| is_vector(m, m.inst(*r).result)).collect();
    if declared.is_empty() || !cx.lacks.in_software(m, long) {
        return Ok(());
    }
    let mut g = Globals::new(m);
    let mut pass = Vectors { notes: Notes::default(), replaced: FxHashMap::default() };
    emit::rebuild(m, &mut g, &mut |b, r| pass.inst(b, r))?;
    pass.notes.gone.extend(pass.replaced.keys());
    pass.notes.apply(m);
    replace_uses(m, &pass.replaced);
    for r in declared {
        let i = m.inst(r).clone();
        let Some(Type::Vector { elem, len }) = Type::of_inst(&i) else { continue };
        let len = g.u32(m, len);
        m.replace(r, Inst::new(Op::TypeArray, None, i.result, [elem, len].map(Operand::Id)));
    }
    unify_types(m);
    sort_globals(m);
    Ok(())
}

/// Returns the type of the components of a vector type, and their number.
fn vector(m: &Module, ty: Id) -> Option<(Id, u32)> {
    match Type::of(m, ty)? {
        Type::Vector { elem, len } => Some((elem, len)),
        _ => None,
    }
}

/// Returns true if a type is a vector of integers of 64 bits.
fn is_vector(m: &Module, ty: Option<Id>) -> bool {
    ty.and_then(|ty| vector(m, ty)).is_some_and(|(elem, _)| is_long(m, elem))
}

/// The types that have a vector of integers of 64 bits.
pub(crate) fn made_of() -> MadeOf<'static> {
    MadeOf::parts(|m, part| is_vector(m, Some(part)))
}

fn refusal(r: InstRef, what: &str) -> Refusal {
    Refusal::new(r, format!("{what} on vectors of integers of 64 bits has no lowering to pairs of words"), REMEDY)
}

impl Vectors {
    fn inst(&mut self, b: &mut FunctionBuilder<'_>, r: InstRef) -> Result<(), Refusal> {
        let i = b.module.inst(r).clone();
        let given = i.ids().any(|id| is_vector(b.module, b.module.type_of(id)));
        let gives = is_vector(b.module, i.ty);
        let (Some(ty), Some(result), true) = (i.ty, i.result, given || gives) else {
            b.keep(r);
            return Ok(());
        };
        let parts = match i.op {
            Op::CompositeConstruct if gives => self.flattened(b, &i),
            Op::VectorShuffle => self.shuffled(b, &i),
            Op::VectorExtractDynamic | Op::VectorInsertDynamic => return self.dynamic(b, r, &i),
            Op::Bitcast => self.cast(b, r, &i)?,
            op if keeps_values(op) => {
                b.keep(r);
                return Ok(());
            }
            op if is_by_component(op) => self.by_component(b, &i).ok_or_else(|| refusal(r, &op.to_string()))?,
            op => return Err(refusal(r, &op.to_string())),
        };
        let value = b.ids(Op::CompositeConstruct, ty, &parts);
        self.notes.gone.insert(result);
        self.replaced.insert(result, value);
        Ok(())
    }

    /// Returns the components of a value; those of a number are the number.
    fn components(&self, b: &mut FunctionBuilder<'_>, value: Id) -> Vec<Id> {
        let Some((elem, len)) = b.module.type_of(value).and_then(|ty| vector(b.module, ty)) else { return vec![value] };
        (0..len).map(|n| b.op(Op::CompositeExtract, elem, [value.into(), n.into()])).collect()
    }

    fn flattened(&self, b: &mut FunctionBuilder<'_>, i: &Inst) -> Vec<Id> {
        let all: Vec<Id> = i.ids().collect();
        all.into_iter().flat_map(|id| self.components(b, id)).collect()
    }

    fn shuffled(&self, b: &mut FunctionBuilder<'_>, i: &Inst) -> Vec<Id> {
        let Some((elem, _)) = i.ty.and_then(|ty| vector(b.module, ty)) else { return Vec::new() };
        let sources: Vec<Id> = i.ids().take(2).collect();
        let all: Vec<Id> = sources.into_iter().flat_map(|id| self.components(b, id)).collect();
        let chosen = i.operands.iter().skip(2).map(|o| all.get(o.word() as usize).copied()).collect::<Vec<_>>();
        chosen.into_iter().map(|part| part.unwrap_or_else(|| b.op(Op::Undef, elem, []))).collect()
    }

    /// Chooses the component that an index selects, or puts one there.
    fn dynamic(&mut self, b: &mut FunctionBuilder<'_>, r: InstRef, i: &Inst) -> Result<(), Refusal> {
        let (Some(ty), Some(result)) = (i.ty, i.result) else { return Ok(()) };
        let ids: Vec<Id> = i.ids().collect();
        let (Some(source), Some(index)) = (ids.first(), ids.last()) else { return Ok(()) };
        let parts = self.components(b, *source);
        let bool = b.globals.bool(b.module);
        let of = b.module.type_of(*index).and_then(|ty| Some((ty, types::scalar(b.module, ty)?)));
        let (of, s) = of.ok_or_else(|| refusal(r, &i.op.to_string()))?;
        let is = |b: &mut FunctionBuilder<'_>, n: usize| {
            let constant = b.globals.constant_of(b.module, of, s, n as u64);
            b.ids(Op::IEqual, bool, &[*index, constant])
        };
        let value = if i.op == Op::VectorExtractDynamic {
            let mut chosen = parts[0];
            for (n, part) in parts.into_iter().enumerate().skip(1) {
                let same = is(b, n);
                chosen = b.ids(Op::Select, ty, &[same, part, chosen]);
            }
            chosen
        } else {
            let (Some((elem, _)), Some(given)) = (vector(b.module, ty), ids.get(1).copied()) else { return Ok(()) };
            let mut all = Vec::new();
            for (n, part) in parts.into_iter().enumerate() {
                let same = is(b, n);
                all.push(b.ids(Op::Select, elem, &[same, given, part]));
            }
            b.ids(Op::CompositeConstruct, ty, &all)
        };
        self.notes.gone.insert(result);
        self.replaced.insert(result, value);
        Ok(())
    }

    /// Casts each component where there are as many, else words.
    fn cast(&self, b: &mut FunctionBuilder<'_>, r: InstRef, i: &Inst) -> Result<Vec<Id>, Refusal> {
        let refuse = || refusal(r, "a cast to or from numbers that are not of 32 or 64 bits");
        let (value, ty) = i.converted().zip(i.ty).ok_or_else(refuse)?;
        let (elem, len) = vector(b.module, ty).ok_or_else(refuse)?;
        let parts = self.components(b, value);
        let width = |m: &Module, ty: Option<Id>| ty.and_then(|ty| types::scalar(m, ty)).map(|s| s.width());
        let from = width(b.module, b.module.type_of(parts[0]));
        if parts.len() as u32 == len {
            return Ok(parts.into_iter().map(|part| b.ids(Op::Bitcast, elem, &[part])).collect());
        }
        let uint = b.u32_type();
        let pair = b.globals.vector(b.module, uint, 2);
        match (from, width(b.module, Some(elem))) {
            (Some(32), Some(64)) => {
                let words: Vec<Id> = parts.into_iter().map(|part| as_type(b, part, uint)).collect();
                let pairs = words.chunks_exact(2).map(|w| b.ids(Op::CompositeConstruct, pair, w)).collect::<Vec<_>>();
                Ok(pairs.into_iter().map(|w| b.ids(Op::Bitcast, elem, &[w])).collect())
            }
            (Some(64), Some(32)) => {
                let mut all = Vec::new();
                for part in parts {
                    let words = b.ids(Op::Bitcast, pair, &[part]);
                    for n in 0..2u32 {
                        let word = b.op(Op::CompositeExtract, uint, [words.into(), n.into()]);
                        all.push(as_type(b, word, elem));
                    }
                }
                Ok(all)
            }
            _ => Err(refuse()),
        }
    }

    /// Emits an operation for each component. `None` if the result has no components.
    fn by_component(&self, b: &mut FunctionBuilder<'_>, i: &Inst) -> Option<Vec<Id>> {
        let (elem, len) = vector(b.module, i.ty?)?;
        let group = i.op.group_operation().is_some();
        let mut columns: Vec<Vec<Operand>> = Vec::new();
        for o in i.operands.iter() {
            let shape = o.id().and_then(|id| vector(b.module, b.module.type_of(id)?));
            // A group operation may have a set of invocations as an operand.
            let by_part = shape.is_some_and(|(elem, of)| of == len && (!group || is_long(b.module, elem)));
            columns.push(match o.id().filter(|_| by_part) {
                Some(id) => self.components(b, id).into_iter().map(Operand::Id).collect(),
                None => vec![*o; len as usize],
            });
        }
        let emit = |b: &mut FunctionBuilder<'_>, n: usize| {
            let operands: Vec<Operand> = columns.iter().filter_map(|c| c.get(n)).copied().collect();
            b.op(i.op, elem, operands)
        };
        Some((0..len as usize).map(|n| emit(b, n)).collect())
    }
}

fn as_type(b: &mut FunctionBuilder<'_>, value: Id, ty: Id) -> Id {
    if b.module.type_of(value) == Some(ty) { value } else { b.ids(Op::Bitcast, ty, &[value]) }
}

/// Returns true if an instruction does with a vector what it does with an array.
fn keeps_values(op: Op) -> bool {
    let whole = op.takes_any_type() || op.moves_whole_values() || op.is_composite() || op == Op::CopyLogical;
    op != Op::Select && (whole || op.moves_components() || op.is_access_chain() || op == Op::CopyMemory)
}

/// Returns true if an operation on vectors is one on each of their components.
fn is_by_component(op: Op) -> bool {
    let bits = op.info().is_some_and(|info| info.class == Class::Bit);
    let numbers = op == Op::SNegate || op.is_integer_arithmetic() || op.is_conversion() || op.compares_integers();
    bits || numbers || op == Op::Select || op.is_ext_inst() || op.group_operation().is_some()
}
