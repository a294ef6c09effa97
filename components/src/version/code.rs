//! Instructions that older versions of SPIR-V lack, by others.

use super::{Target, refused};
use crate::Refusal;
use crate::emit::{rebuild, wide};
use coop_ir::builder::{FunctionBuilder, Globals};
use coop_ir::constant::{Constants, Specialization};
use coop_ir::decode::decode;
use coop_ir::spv::Capability;
use coop_ir::types::Type;
use coop_ir::views::MemoryOperands;
use coop_ir::{Id, Inst, InstRef, Kind, Module, Op, Operand};

/// A composite that is copied or selected part by part has at most so many parts.
const MOST_PARTS: usize = 1 << 12;

pub(super) fn run(m: &mut Module, target: &Target) -> Result<(), Refusal> {
    for r in m.functions.iter().flat_map(|f| f.insts()).collect::<Vec<_>>() {
        if target.version < (1, 4) {
            loop_control(m, r, target);
        }
        if target.version < (1, 5) {
            broadcast(m, r, target.version)?;
        }
    }
    if target.version >= (1, 4) {
        return Ok(());
    }
    constants(m, target.version)?;
    let parts = Parts { constants: Constants::new(m, &Specialization::new()) };
    let mut g = Globals::new(m);
    rebuild(m, &mut g, &mut |b, r| {
        let done = match b.module.inst(r).op {
            Op::CopyLogical => parts.copy(b, r),
            Op::Select => parts.select(b, r),
            Op::CopyMemory | Op::CopyMemorySized => copy_memory(b, r),
            _ => {
                b.keep(r);
                Ok(())
            }
        };
        done.map_err(|what| refused(r, &what, (1, 4), target.version))
    })
}

/// Removes the hints of a loop that the version lacks, with their numbers.
fn loop_control(m: &mut Module, r: InstRef, target: &Target) {
    let i = m.inst(r);
    let words: Vec<u32> = i.operands.iter().map(|o| o.word()).collect();
    let mut at = None;
    decode(m, i.op, i.ty, &words, &mut |piece| {
        if piece.kind == Kind::LoopControl {
            at = Some(piece.start);
        }
    });
    let Some(mask) = at.and_then(|at| words.get(at).copied()) else { return };
    let mut kept = vec![Operand::Word(0)];
    let (mut left, mut next) = (0, at.map_or(0, |at| at + 1));
    for bit in (0..u32::BITS).map(|b| 1 << b).filter(|b| mask & b != 0) {
        let numbers = Kind::LoopControl.enumerant(bit).map_or(0, |row| row.params.len());
        if Kind::LoopControl.since(bit) <= target.version {
            left |= bit;
            kept.extend(i.operands.iter().skip(next).take(numbers).copied());
        }
        next += numbers;
    }
    if left != mask
        && let Some(at) = at
    {
        kept[0] = Operand::Word(left);
        let operands = &mut m.inst_mut(r).operands;
        operands.truncate(at);
        operands.extend(kept);
    }
}

/// Takes a value from an invocation that no constant names by a shuffle: before 1.5 a broadcast is from a constant.
fn broadcast(m: &mut Module, r: InstRef, version: (u8, u8)) -> Result<(), Refusal> {
    let i = m.inst(r);
    let Some(from) = i.broadcast_from() else { return Ok(()) };
    if m.def_inst(from).is_some_and(|i| i.op.is_constant()) {
        return Ok(());
    }
    if i.op == Op::GroupNonUniformBroadcast && m.enables(Capability::GroupNonUniformShuffle) {
        m.inst_mut(r).op = Op::GroupNonUniformShuffle;
        return Ok(());
    }
    let what = format!("{} from an invocation that is not a constant", i.op);
    let refusal = refused(r, &what, (1, 5), version);
    Err(Refusal {
        remedy: "name the invocation by a constant, or declare the capability GroupNonUniformShuffle".to_owned(),
        ..refusal
    })
}

/// Refuses constants that are computed in ways that specialization had no place for.
fn constants(m: &Module, version: (u8, u8)) -> Result<(), Refusal> {
    for r in m.globals_with(Op::SpecConstantOp) {
        let i = m.inst(r);
        let composite =
            i.ty.and_then(|ty| Type::of(m, ty)).is_some_and(|ty| !matches!(ty, Type::Scalar(_) | Type::Bool));
        let since_1_4 = match i.specialized_op() {
            // Kernels always had it.
            Some(Op::UConvert) => !m.is_kernel(),
            Some(Op::Select) => composite,
            _ => false,
        };
        if since_1_4 {
            let op = i.specialized_op().map_or_else(String::new, |op| op.to_string());
            let refusal = refused(r, &format!("{} of {op}", i.op), (1, 4), version);
            return Err(Refusal {
                remedy: "lower with the values that the pipeline gives: --spec ID=VALUE".to_owned(),
                ..refusal
            });
        }
    }
    Ok(())
}

/// Splits a copy with memory operands for each side into a load and a store.
fn copy_memory(b: &mut FunctionBuilder<'_>, r: InstRef) -> Result<(), String> {
    let i = b.module.inst(r).clone();
    let (Some(at), Some((target, source))) = (i.memory_operands_at(), i.copied()) else {
        b.keep(r);
        return Ok(());
    };
    let end = MemoryOperands::at(&i, at).end;
    if end >= i.operands.len() {
        b.keep(r);
        return Ok(());
    }
    let pointee = |id: Id| match b.module.type_of(id).and_then(|ty| Type::of(b.module, ty)) {
        Some(Type::Pointer { pointee, .. }) if i.op == Op::CopyMemory => Some(pointee),
        _ => None,
    };
    let Some(ty) = pointee(source) else { return Err(format!("{} with operands for each side", i.op)) };
    let value = b.op(Op::Load, ty, [Operand::Id(source)].into_iter().chain(i.operands[end..].iter().copied()));
    let operands: Vec<Operand> =
        [target.into(), value.into()].into_iter().chain(i.operands[at..end].iter().copied()).collect();
    b.module.replace(r, Inst::new(Op::Store, None, None, operands));
    b.keep(r);
    Ok(())
}

/// Composites part by part.
struct Parts {
    constants: Constants,
}

impl Parts {
    /// Returns the types of the parts of a composite; `None` for a number, a truth value or a pointer.
    fn of(&self, m: &Module, ty: Id) -> Result<Option<Vec<Id>>, String> {
        let (part, count) = match Type::of(m, ty) {
            Some(Type::Struct { members }) => return Ok(Some(members)),
            Some(Type::Array { elem, len }) => {
                let len = self.constants.get(len).fixed_as::<u32>();
                (elem, len.ok_or("a copy or a choice of an array whose length the pipeline sets")?)
            }
            Some(Type::Matrix { column, cols }) => (column, cols),
            _ => return Ok(None),
        };
        if count as usize > MOST_PARTS {
            return Err(format!("a copy or a choice of {count} parts"));
        }
        Ok(Some(vec![part; count as usize]))
    }

    /// Copies between types of the same parts.
    fn copy(&self, b: &mut FunctionBuilder<'_>, r: InstRef) -> Result<(), String> {
        let i = b.module.inst(r).clone();
        let (Some(ty), Some(source)) = (i.ty, i.copy_source()) else { return Ok(()) };
        let parts = match b.module.type_of(source) {
            Some(from) if from != ty => self.copied(b, (from, ty), source, &mut 0)?,
            _ => None,
        };
        let new = match parts {
            Some(parts) => Inst::new(Op::CompositeConstruct, i.ty, i.result, parts.into_iter().map(Operand::Id)),
            None => Inst::new(Op::CopyObject, i.ty, i.result, [source.into()]),
        };
        b.module.replace(r, new);
        b.keep(r);
        Ok(())
    }

    /// Returns the copies of the parts of a value; `None` if it has none.
    fn copied(
        &self,
        b: &mut FunctionBuilder<'_>,
        (from, to): (Id, Id),
        value: Id,
        count: &mut usize,
    ) -> Result<Option<Vec<Id>>, String> {
        let (Some(from), Some(to)) = (self.of(b.module, from)?, self.of(b.module, to)?) else { return Ok(None) };
        let mut out = Vec::new();
        for (n, (from, to)) in from.into_iter().zip(to).enumerate() {
            counted(count)?;
            let part = b.op(Op::CompositeExtract, from, [value.into(), Operand::Word(n as u32)]);
            let inner = if from == to { None } else { self.copied(b, (from, to), part, count)? };
            out.push(match inner {
                Some(parts) => b.ids(Op::CompositeConstruct, to, &parts),
                None => part,
            });
        }
        Ok(Some(out))
    }

    /// Selects vectors by vectors of truth values, and other composites part by part.
    fn select(&self, b: &mut FunctionBuilder<'_>, r: InstRef) -> Result<(), String> {
        let i = b.module.inst(r).clone();
        let (Some(ty), Some([condition, yes, no])) = (i.ty, i.selection()) else {
            b.keep(r);
            return Ok(());
        };
        let new = match self.of(b.module, ty)? {
            Some(types) => {
                let parts = self.selected(b, &types, [condition, yes, no], &mut 0)?;
                Inst::new(Op::CompositeConstruct, i.ty, i.result, parts.into_iter().map(Operand::Id))
            }
            None => {
                let condition = repeated(b, ty, condition);
                Inst::new(Op::Select, i.ty, i.result, [condition, yes, no].map(Operand::Id))
            }
        };
        b.module.replace(r, new);
        b.keep(r);
        Ok(())
    }

    fn selected(
        &self,
        b: &mut FunctionBuilder<'_>,
        types: &[Id],
        [condition, yes, no]: [Id; 3],
        count: &mut usize,
    ) -> Result<Vec<Id>, String> {
        let mut out = Vec::new();
        for (ty, n) in types.iter().copied().zip(0..) {
            counted(count)?;
            let [yes, no] = [yes, no].map(|id| b.op(Op::CompositeExtract, ty, [id.into(), Operand::Word(n)]));
            out.push(match self.of(b.module, ty)? {
                Some(inner) => {
                    let parts = self.selected(b, &inner, [condition, yes, no], count)?;
                    b.ids(Op::CompositeConstruct, ty, &parts)
                }
                None => {
                    let condition = repeated(b, ty, condition);
                    b.ids(Op::Select, ty, &[condition, yes, no])
                }
            });
        }
        Ok(out)
    }
}

/// Returns a condition for a selection of a type: for each component of a vector.
fn repeated(b: &mut FunctionBuilder<'_>, ty: Id, condition: Id) -> Id {
    let bool = b.globals.bool(b.module);
    match Type::of(b.module, ty) {
        Some(Type::Vector { len, .. }) if b.module.type_of(condition) == Some(bool) => {
            let ty = wide(b, bool, len);
            b.ids(Op::CompositeConstruct, ty, &vec![condition; len as usize])
        }
        _ => condition,
    }
}

/// Counts the parts of a composite.
fn counted(count: &mut usize) -> Result<(), String> {
    *count += 1;
    if *count > MOST_PARTS {
        return Err(format!("a copy or a choice of more than {MOST_PARTS} parts"));
    }
    Ok(())
}
