//! What slang's lambdas capture, as the specification has it.
//!
//! SPV_NV_cooperative_matrix2 asks that an operand of `OpCooperativeMatrixPerElementOpNV` has the type of the function's
//! parameter. slang (seen with 2026.12) passes the struct of captured values, and its function takes a pointer to one in
//! the Function storage class. What is meant is plain: each call sees a copy.
//!
//! An H100's driver (580.159) does the same with what slang makes, whose lambdas only read. Where the function writes its copy,
//! later calls see it there, which no text asks for; lavapipe (26.1) computes something else altogether.

use crate::builder::Globals;
use crate::spv::StorageClass;
use crate::types::Type;
use crate::{Id, Inst, InstRef, Module, Op, Operand};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Parameters before the operands that a per-element operation adds: row, column, element.
const FIXED: usize = 3;

/// The module with functions that take by value what per-element operations pass by value; borrowed where all do.
pub fn as_passed(m: &Module) -> Cow<'_, Module> {
    let found = taken_by_pointer(m);
    if found.is_empty() {
        return Cow::Borrowed(m);
    }
    let mut m = m.clone();
    take_by_value(&mut m, &found);
    Cow::Owned(m)
}

/// As [`as_passed`], in place.
pub fn take_as_passed(m: &mut Module) {
    let found = taken_by_pointer(m);
    if !found.is_empty() {
        take_by_value(m, &found);
    }
}

/// Functions that per-element operations alone mention, and which of their parameters point to what all of those pass.
fn taken_by_pointer(m: &Module) -> BTreeMap<Id, Vec<usize>> {
    let mut found: BTreeMap<Id, Vec<usize>> = BTreeMap::new();
    let all = || m.functions.iter().flat_map(|f| f.insts()).map(|r| m.inst(r));
    for inst in all().filter(|i| i.op == Op::CooperativeMatrixPerElementOpNV) {
        let Some(function) = inst.id(1) else { continue };
        let Some(params) = params(m, function) else { continue };
        let extras = inst.ids_from(2);
        let by_pointer = params.into_iter().skip(FIXED).zip(extras).enumerate().filter(|(_, (param, extra))| {
            let to = Type::Pointer { storage: StorageClass::Function, pointee: m.type_of(*extra).unwrap_or(*extra) };
            Type::of(m, *param) == Some(to)
        });
        let by_pointer: Vec<usize> = by_pointer.map(|(i, _)| FIXED + i).collect();
        match found.get(&function) {
            None => drop(found.insert(function, by_pointer)),
            Some(known) if *known == by_pointer => {}
            // Different callers mean different functions: nothing here to mend.
            Some(_) => drop(found.insert(function, Vec::new())),
        }
    }
    found.retain(|_, params| !params.is_empty());
    if !found.is_empty() {
        for inst in all().filter(|i| i.op != Op::CooperativeMatrixPerElementOpNV) {
            found.retain(|f, _| !inst.ids().any(|id| id == *f));
        }
    }
    found
}

/// The types of a function's parameters.
fn params(m: &Module, function: Id) -> Option<Vec<Id>> {
    let inst = m.def_inst(function).filter(|i| i.op == Op::Function)?;
    Some(m.def_inst(inst.id(1)?)?.ids_from(1).collect())
}

/// Each of the parameters becomes a variable under the same id, with a new parameter's value in it.
fn take_by_value(m: &mut Module, found: &BTreeMap<Id, Vec<usize>>) {
    let mut g = Globals::new(m);
    for (function, by_pointer) in found {
        let Some(f) = m.functions.iter().position(|f| m.inst(f.def).result == Some(*function)) else { continue };
        let (Some(ret), Some(mut types)) = (m.inst(m.functions[f].def).ty, params(m, *function)) else { continue };
        let mut variables: Vec<InstRef> = Vec::new();
        let mut stores: Vec<InstRef> = Vec::new();
        for at in by_pointer {
            let Some(Type::Pointer { pointee, .. }) = Type::of(m, types[*at]) else { continue };
            let Some(param) = m.functions[f].params.get(*at).copied() else { continue };
            let (Some(pointer), origin) = (m.inst(param).result, m.inst(param).origin) else { continue };
            let value = m.fresh_id();
            m.replace(param, Inst::new(Op::FunctionParameter, Some(pointee), Some(value), []).at(origin));
            let class = Operand::Word(StorageClass::Function.0);
            variables.push(m.add(Inst::new(Op::Variable, Some(types[*at]), Some(pointer), [class]).at(origin)));
            stores.push(m.add(Inst::new(Op::Store, None, None, [pointer, value].map(Operand::Id)).at(origin)));
            types[*at] = pointee;
        }
        let ty = g.function(m, ret, &types);
        let def = m.functions[f].def;
        m.inst_mut(def).operands[1] = Operand::Id(ty);
        let Some(entry) = m.functions[f].blocks.first() else { continue };
        let own = entry.insts.iter().take_while(|r| matches!(m.inst(**r).op, Op::Variable | Op::Line | Op::NoLine));
        let behind = own.count();
        let insts = &mut m.functions[f].blocks[0].insts;
        insts.insert_many(behind, variables.into_iter().chain(stores));
    }
    crate::rewrite::sort_globals(m);
}
