//! Keeps one entry point of several.
//!
//! The others are removed, with the functions and variables that only they use: a pipeline has one entry point, and
//! decisions made once per module (how many invocations share a matrix, the sizes of shared memory) are made for that
//! one. Matrices in a stage that has no workgroups are refused.
//!
//! Debug information for OpenCL goes, with all entry points too: the grammar does not know which of its words are ids.

use crate::pipeline::PassCx;
use crate::{Refusal, cleanup};
use coop_ir::decorate::Decorations;
use coop_ir::entry::{CallGraph, EntryPoint, entry_points};
use coop_ir::grammar::Class;
use coop_ir::hash::FxHashSet;
use coop_ir::rewrite::{remove_globals, remove_opaque_notes};
use coop_ir::spv::StorageClass;
use coop_ir::uses::Users;
use coop_ir::{Id, InstRef, Module, Op};

pub(crate) fn run(m: &mut Module, cx: &mut PassCx<'_>) -> Result<(), Refusal> {
    remove_opaque_notes(m);
    cx.options.entry.as_ref().map_or(Ok(()), |name| keep_only(m, name))?;
    stages(m)
}

/// Refuses matrices that an entry point without workgroups may execute.
fn stages(m: &Module) -> Result<(), Refusal> {
    let entries = entry_points(m, &Decorations::new(m));
    if entries.iter().all(EntryPoint::has_workgroups) {
        return Ok(());
    }
    let calls = CallGraph::new(m);
    for entry in entries.iter().filter(|e| !e.has_workgroups()) {
        let blocks = calls.reachable(calls.function(entry.function)).into_iter().flat_map(|f| &m.functions[f].blocks);
        if let Some(at) = blocks.flat_map(|b| &b.insts).find(|r| of_matrices(m.inst(**r).op)) {
            let model = entry.model.name().unwrap_or("unknown");
            let why = format!("{} is {model}, which has no workgroups, and uses matrices", entry.name);
            let remedy = "use matrices in compute, task or mesh shaders; --entry NAME lowers one entry point alone";
            return Err(Refusal::new("refused-stage", Some(*at), why, remedy));
        }
    }
    Ok(())
}

/// Returns true if an instruction of any dialect works on matrices.
fn of_matrices(op: Op) -> bool {
    op.info().is_some_and(|info| info.class == Class::CooperativeMatrix)
}

/// Keeps only the entry point with a name.
fn keep_only(m: &mut Module, name: &str) -> Result<(), Refusal> {
    let entries = entry_points(m, &Decorations::new(m));
    let (kept, dropped): (Vec<_>, Vec<_>) = entries.iter().partition(|e| e.name == name);
    if kept.is_empty() {
        let names: Vec<String> = entries.iter().map(|e| format!("'{}'", e.name)).collect();
        let why = format!("the module has no entry point '{name}'");
        let remedy = format!("name one that it has: {}", names.join(", "));
        return Err(Refusal::new("refused-entry", None, why, remedy));
    }
    if let [_, second, ..] = kept.as_slice() {
        let why = format!("the module has several entry points '{name}', of different stages");
        return Err(Refusal::new("refused-entry", Some(second.at), why, "give them different names"));
    }
    if dropped.is_empty() {
        return Ok(());
    }
    let gone: FxHashSet<InstRef> = dropped.iter().map(|e| e.at).collect();
    let functions: FxHashSet<Id> = kept.iter().map(|e| e.function).collect();
    let modes: FxHashSet<InstRef> =
        dropped.iter().filter(|e| !functions.contains(&e.function)).flat_map(|e| &e.modes).map(|m| m.at).collect();
    remove_globals(m, |_, r| gone.contains(&r) || modes.contains(&r));
    cleanup::unused_functions(m);
    unused_variables(m);
    Ok(())
}

/// Removes unused variables. Those with a binding belong to the pipeline layout, and stay.
fn unused_variables(m: &mut Module) {
    let of_functions = [StorageClass::Input, StorageClass::Output, StorageClass::Private, StorageClass::Workgroup];
    let users = Users::new(m);
    let unused = |r: &InstRef| {
        let inst = m.inst(*r);
        let id = inst.result.filter(|_| inst.variable_storage().is_some_and(|s| of_functions.contains(&s)))?;
        users.beyond_notes(m, id).next().is_none().then_some(id)
    };
    let gone: FxHashSet<Id> = m.globals_with(Op::Variable).filter_map(|r| unused(&r)).collect();
    remove_globals(m, |m, r| {
        let inst = m.inst(r);
        inst.op == Op::Variable && inst.result.is_some_and(|id| gone.contains(&id))
    });
    crate::ssa::remove_annotations(m, &gone);
}
