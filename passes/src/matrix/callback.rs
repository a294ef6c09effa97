//! Finds the side effects of callbacks and of other instructions.

use coop_ir::effects::{self, Written};
use coop_ir::grammar::Effects;
use coop_ir::hash::FxHashSet;
use coop_ir::spv::StorageClass;
use coop_ir::types;
use coop_ir::{Id, Inst, Module, Op};

/// Returns true if a function does anything besides computing a value.
pub(crate) fn has_effects(m: &Module, function: Id) -> bool {
    let mut found = false;
    each_inst(m, function, &mut |i| {
        found |= match effects::written(m, i) {
            Written::Nothing => has_effect(i.op),
            Written::Through(pointer) => types::storage_of(m, pointer) != Some(StorageClass::Function),
            Written::Image | Written::Output | Written::Anything => true,
        };
    });
    found
}

/// Returns true if an instruction that writes nothing does anything besides computing a value or leading on.
fn has_effect(op: Op) -> bool {
    let leads_on = op.is_branch() || op.leaves_function();
    let waits = Effects::BARRIER | Effects::EXCHANGES;
    effects::orders_memory(op) || op.info().is_some_and(|i| i.effects.any(waits | Effects::CONTROL) && !leads_on)
}

/// Visits the instructions of a function and of all that it calls, each function once.
pub(crate) fn each_inst(m: &Module, function: Id, visit: &mut dyn FnMut(&Inst)) {
    let mut seen = FxHashSet::default();
    let mut todo = vec![function];
    while let Some(id) = todo.pop() {
        if !seen.insert(id) {
            continue;
        }
        let Some(function) = m.functions.iter().find(|f| m.inst(f.def).result == Some(id)) else { continue };
        for r in function.blocks.iter().flat_map(|b| &b.insts) {
            let inst = m.inst(*r);
            if inst.op == Op::FunctionCall {
                todo.extend(inst.id(0));
            }
            visit(inst);
        }
    }
}

/// Returns true if an instruction may write memory that others see, or wait for others.
pub(crate) fn may_write(m: &Module, op: Op, inst: &Inst) -> bool {
    match effects::written(m, inst) {
        Written::Nothing => inst.callee().is_some() || effects::orders_memory(op),
        Written::Through(pointer) => {
            let own = [StorageClass::Function, StorageClass::Private];
            !types::storage_of(m, pointer).is_some_and(|class| own.contains(&class))
        }
        Written::Image | Written::Output | Written::Anything => true,
    }
}

/// Returns true if an instruction may change memory that a load reads, or wait for others to.
pub(crate) fn writes_or_waits(m: &Module, inst: &Inst) -> bool {
    match inst.op {
        Op::FunctionCall => return inst.callee().is_none_or(|f| has_effects(m, f)),
        Op::CooperativeMatrixPerElementOpNV => return inst.callee().is_none_or(|f| has_effects(m, f)),
        _ if inst.callee().is_some_and(|f| has_effects(m, f)) => return true,
        _ => {}
    }
    match effects::written(m, inst) {
        Written::Nothing => effects::orders_memory(inst.op),
        Written::Through(pointer) => types::storage_of(m, pointer) != Some(StorageClass::Function),
        Written::Image | Written::Output | Written::Anything => true,
    }
}
