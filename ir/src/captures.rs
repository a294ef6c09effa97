//! Makes captures of slang's lambdas conform to the specification.
//!
//! SPV_NV_cooperative_matrix2 requires an operand of `OpCooperativeMatrixPerElementOpNV` to have the type of the
//! function's parameter. slang (seen with 2026.12) passes the struct of captured values, while its function takes a
//! pointer to one in the Function storage class. The intent is clear: each call has its own copy.
//!
//! An H100's driver (580.159) implements that for slang's output, whose lambdas only read. If the function writes its
//! copy, later calls see the write there, which no specification says; lavapipe (26.1) computes something else.

use crate::builder::Globals;
use crate::spv::StorageClass;
use crate::types::Type;
use crate::{Id, Inst, InstRef, Module, Op, Operand};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// The parameters before the operands of a per-element operation: row, column, element.
const FIXED: usize = 3;

/// Returns the module with functions that take their captures by value; borrowed if all do.
pub fn as_passed(m: &Module) -> Cow<'_, Module> {
    let found = taken_by_pointer(m);
    if found.is_empty() {
        return Cow::Borrowed(m);
    }
    let mut m = m.clone();
    take_by_value(&mut m, &found);
    Cow::Owned(m)
}

/// Like [`as_passed`], in place.
pub fn take_as_passed(m: &mut Module) {
    let found = taken_by_pointer(m);
    if !found.is_empty() {
        take_by_value(m, &found);
    }
}

/// Returns the functions that only per-element operations use, with the parameters that point to the type that all of
/// those pass.
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
            // Callers disagree about the function, so it is left alone.
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

/// Returns the types of a function's parameters.
fn params(m: &Module, function: Id) -> Option<Vec<Id>> {
    let inst = m.def_inst(function).filter(|i| i.op == Op::Function)?;
    Some(m.def_inst(inst.id(1)?)?.ids_from(1).collect())
}

/// Turns each of the parameters into a variable under the same id, which is initialized from a new parameter.
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
