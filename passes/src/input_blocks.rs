//! Turns built-ins that are members of a block into variables of their own.
//!
//! Vulkan allows both: a variable with the decoration BuiltIn, as glslang and slang emit, and a block whose members
//! have it, as CubeCL emits (seen with 0.11). An interface may have each built-in once, in either form, so a pass that
//! adds one must find it; after this step there is one form only. The interpreter and the uniformity analysis support
//! both.

use crate::Refusal;
use crate::pipeline::PassCx;
use coop_ir::builder::{Globals, add_global};
use coop_ir::decorate::Decorations;
use coop_ir::hash::FxHashMap;
use coop_ir::rewrite::{remove_globals, replace_uses, sort_globals};
use coop_ir::spv::{Decoration, StorageClass};
use coop_ir::types::Type;
use coop_ir::uses::is_note;
use coop_ir::{Id, Inst, InstRef, Module, Op, Operand};

/// Makes a variable for each built-in that is a member of a block which is only loaded, or accessed by member.
pub(crate) fn run(m: &mut Module, _: &mut PassCx<'_>) -> Result<(), Refusal> {
    blocks(m).iter().for_each(|(variable, members)| split(m, *variable, members));
    Ok(())
}

/// Returns the variables that are blocks of built-ins and only loaded or accessed by member, with the types of the
/// members.
fn blocks(m: &Module) -> Vec<(Id, Vec<Id>)> {
    let block = |variable: &InstRef| {
        let inst = m.inst(*variable);
        let Some(Type::Pointer { storage, pointee }) = Type::of(m, inst.ty?) else { return None };
        let Some(Type::Struct { members }) = Type::of(m, pointee).filter(|_| storage == StorageClass::Input) else {
            return None;
        };
        Some((inst.result?, pointee, members.to_vec()))
    };
    let found: Vec<(Id, Id, Vec<Id>)> = m.globals_with(Op::Variable).filter_map(|r| block(&r)).collect();
    if found.is_empty() {
        return Vec::new();
    }
    let decorations = Decorations::new(m);
    let built_in = |(_, ty, members): &(Id, Id, Vec<Id>)| {
        !members.is_empty() && (0..members.len()).all(|i| decorations.member_has(*ty, i as u32, Decoration::BuiltIn))
    };
    let plain = |(variable, _, members): &(Id, Id, Vec<Id>)| {
        m.all().map(|r| m.inst(r)).filter(|i| i.ids().any(|id| id == *variable)).all(|i| match i.op {
            // Debug information of the block moves to its first member.
            op if matches!(op, Op::EntryPoint | Op::Load) || op.is_ext_inst() => true,
            op if op.is_member_chain() => {
                i.derived_from() == Some(*variable)
                    && !i.ids().skip(1).any(|id| id == *variable)
                    && member(m, i).is_some_and(|n| n < members.len())
            }
            op => is_note(op),
        })
    };
    found.into_iter().filter(built_in).filter(plain).map(|(variable, _, members)| (variable, members)).collect()
}

/// Returns the member that an access chain into a struct selects first.
fn member(m: &Module, chain: &Inst) -> Option<usize> {
    let index = m.def_inst(chain.ids_from(1).next()?).filter(|i| i.op == Op::Constant)?;
    Some(index.literal()? as usize)
}

fn split(m: &mut Module, variable: Id, members: &[Id]) {
    let mut g = Globals::new(m);
    let class = StorageClass::Input;
    let pointee = m.type_of(variable).and_then(|p| m.def_inst(p)).and_then(|i| i.id(1));
    let origin = m.def_inst(variable).and_then(|i| i.origin);
    let parts: Vec<Id> = members
        .iter()
        .map(|ty| {
            let pointer = g.pointer(m, class, *ty);
            let id = m.fresh_id();
            add_global(m, Inst::new(Op::Variable, Some(pointer), Some(id), [class.into()]).at(origin));
            id
        })
        .collect();
    // The decorations of the members, except for offsets.
    let said: Vec<Inst> = m
        .globals_with(Op::MemberDecorate)
        .map(|r| m.inst(r))
        .filter(|i| i.id(0) == pointee && i.enumerant(2) != Some(Decoration::Offset))
        .filter_map(|i| {
            let part = parts.get(i.word(1)? as usize)?;
            let rest = i.operands[2..].iter().copied();
            Some(Inst::new(Op::Decorate, None, None, std::iter::once(Operand::Id(*part)).chain(rest)).at(i.origin))
        })
        .collect();
    for inst in said {
        add_global(m, inst);
    }
    for r in m.globals_with(Op::EntryPoint).collect::<Vec<_>>() {
        let operands = &mut m.inst_mut(r).operands;
        let listed = operands.len();
        operands.retain(|o| *o != Operand::Id(variable));
        if operands.len() < listed {
            operands.extend(parts.iter().map(|p| Operand::Id(*p)));
        }
    }
    let Some(first) = parts.first() else { return };
    let mut same: FxHashMap<Id, Id> = FxHashMap::from_iter([(variable, *first)]);
    for f in 0..m.functions.len() {
        for b in 0..m.functions[f].blocks.len() {
            let old = std::mem::take(&mut m.functions[f].blocks[b].insts);
            let mut new = Vec::with_capacity(old.len());
            for r in old {
                let inst = m.inst(r);
                if inst.id(0) != Some(variable) {
                    new.push(r);
                    continue;
                }
                let inst = inst.clone();
                if inst.op == Op::Load {
                    let load = |(ty, part): (&Id, &Id)| {
                        let id = m.fresh_id();
                        new.push(m.add(Inst::new(Op::Load, Some(*ty), Some(id), [Operand::Id(*part)]).at(inst.origin)));
                        Operand::Id(id)
                    };
                    let values: Vec<Operand> = members.iter().zip(&parts).map(load).collect();
                    m.replace(r, Inst::new(Op::CompositeConstruct, inst.ty, inst.result, values).at(inst.origin));
                    new.push(r);
                    continue;
                }
                let Some(part) = member(m, &inst).map(|n| parts[n]) else { continue };
                if let (Some(result), 2) = (inst.result, inst.operands.len()) {
                    same.insert(result, part);
                    m.forget(r);
                    continue;
                }
                let operands = std::iter::once(Operand::Id(part)).chain(inst.operands[2..].iter().copied());
                m.replace(r, Inst::new(inst.op, inst.ty, inst.result, operands).at(inst.origin));
                new.push(r);
            }
            m.functions[f].blocks[b].insts = new.into_iter().collect();
        }
    }
    remove_globals(m, |m, r| {
        let inst = m.inst(r);
        let told = inst.note_target().or(inst.result);
        told.is_some_and(|id| same.contains_key(&id))
    });
    replace_uses(m, &same);
    sort_globals(m);
}
