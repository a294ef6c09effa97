//! Inlines every call.

use crate::inline::{remove, splice};
use crate::one_return::one_return;
use crate::private::LIBRARY;
use crate::{Refusal, ssa};
use coop_ir::builder::Globals;
use coop_ir::entry::CallGraph;
use coop_ir::hash::FxHashSet;
use coop_ir::{Id, Inst, InstRef, Module, Op};

/// Inlines all calls into the functions `entries`, and removes all others.
pub(super) fn inline_all(m: &mut Module, g: &mut Globals, entries: &FxHashSet<Id>) -> Result<(), Refusal> {
    let recursive = CallGraph::new(m).recursive();
    if let Some(f) = recursive.first() {
        let at = m.functions.get(*f).map(|f| f.def);
        let why = "a function calls itself, directly or through others";
        return Err(Refusal::new("refused-recursion", at, why, "SPIR-V for shaders has no recursion"));
    }
    let mut chosen: FxHashSet<Id> = FxHashSet::default();
    for f in 0..m.functions.len() {
        let id = m.inst(m.functions[f].def).result;
        if let Some(id) = id.filter(|id| !entries.contains(id) && !m.functions[f].blocks.is_empty()) {
            one_return(m, g, f);
            chosen.insert(id);
        }
    }
    for f in 0..m.functions.len() {
        if m.inst(m.functions[f].def).result.is_some_and(|id| entries.contains(&id)) {
            splice::calls(m, &[f], &chosen).map_err(|unfit| unfit.refusal(m, f))?;
            imported(m, f)?;
            let simple = ssa::candidates(m, f, &|_, _| true);
            ssa::promote(m, f, &simple);
        }
    }
    let gone = m.functions.iter().filter_map(|f| m.inst(f.def).result).filter(|id| !entries.contains(id)).collect();
    remove(m, &gone);
    Ok(())
}

/// Replaces calls of known library functions, which still take a pointer, by instructions; refuses other imported
/// functions.
fn imported(m: &mut Module, f: usize) -> Result<(), Refusal> {
    for at in m.functions[f].insts().filter(|r| m.inst(*r).op == Op::FunctionCall).collect::<Vec<_>>() {
        imported_call(m, at)?;
    }
    Ok(())
}

fn imported_call(m: &mut Module, at: InstRef) -> Result<(), Refusal> {
    let call = m.inst(at).clone();
    let callee = call.callee();
    let name = m.globals_with(Op::Name).map(|r| m.inst(r)).find(|i| i.note_target() == callee);
    let name = name.and_then(|i| i.string(1)).map_or_else(String::new, |(s, _)| s);
    if let (Some((_, op)), Some(pointer)) = (LIBRARY.iter().find(|k| k.0 == name), call.ids_from(1).next()) {
        m.replace(at, Inst::new(*op, call.ty, call.result, [pointer.into()]).at(call.origin));
        return Ok(());
    }
    let why = format!("the function '{name}' is not in the module");
    let remedy = "link the module with what defines it; names of OpenCL's functions are instructions only where the \
                  module said !opencl.ocl.version when it was translated";
    Err(Refusal::new("refused-vulkan-call", Some(at), why, remedy))
}
