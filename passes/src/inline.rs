//! Inlines the functions that matrices and tensor addresses go through.
//!
//! Precondition: none. Effect: no function takes or returns a cooperative matrix, a tensor layout or a tensor view, or
//! something that contains or points to one; variables of layouts and views, and of the numbers that they are made of,
//! are values where they are only loaded and stored as a whole. Callbacks stay functions: they see elements. Functions that
//! nothing calls any more are gone.
//!
//! A function first gets a single return at its outermost level: several returns, or one inside a construct, become
//! breaks out of a loop that is entered once ([`returns::single_return`]). Its body then replaces each call: variables move to
//! the caller's entry block (their initializers become stores at the call), ids and labels are fresh, names and
//! decorations are copied for them, and the code after the call goes to a new block if the body has several.
//!
//! Refuses: recursion.

pub(crate) mod returns;
pub(crate) mod splice;

use crate::Refusal;
use crate::kernel::is_physical;
use crate::pipeline::PassCx;
use crate::ssa;
use coop_ir::builder::Globals;
use coop_ir::hash::{FxHashMap, FxHashSet};
use coop_ir::spv::{Capability, StorageClass};
use coop_ir::types::Type;
use coop_ir::uses::{for_each_use, is_note};
use coop_ir::{Id, InstRef, Module, Op};

pub(crate) fn run(m: &mut Module, _: &mut PassCx<'_>) -> Result<(), Refusal> {
    let mut g = Globals::new(m);
    in_place_of_calls(m, &mut g, &functions_through(m))?;
    for f in 0..m.functions.len() {
        let layouts = m.functions[f].insts().any(|r| m.inst(r).ty.is_some_and(|ty| is_addressing(m, ty)));
        let found = ssa::candidates(m, f, &|m, ty| is_addressing(m, ty) || (layouts && is_part_of_addresses(m, ty)));
        ssa::promote(m, f, &found);
    }
    coop_ir::rewrite::sort_globals(m);
    Ok(())
}

/// Inlines functions made by passes that receive pointers which only variable pointers may be: `OpBufferPointerEXT` and
/// access chains have such results where `SPV_EXT_descriptor_heap` is used.
pub(crate) fn given_pointers(m: &mut Module, cx: &mut PassCx<'_>) -> Result<(), Refusal> {
    if is_physical(m) {
        return Ok(());
    }
    let mut g = Globals::new(m);
    // Pointers that a function passes on are handled in its caller then.
    loop {
        let chosen = functions_given_pointers(m, cx.bound);
        if chosen.is_empty() {
            break;
        }
        in_place_of_calls(m, &mut g, &chosen)?;
    }
    coop_ir::rewrite::sort_globals(m);
    Ok(())
}

/// Returns the functions with ids from `bound` on that a call passes a pointer that is not a memory object declaration,
/// unless the module declares that such pointers are passed (the universal validation rules of the logical addressing
/// model).
fn functions_given_pointers(m: &Module, bound: u32) -> FxHashSet<Id> {
    let [any, storage_buffers] =
        [Capability::VariablePointers, Capability::VariablePointersStorageBuffer].map(|c| m.has_capability(c));
    let passes = |storage: StorageClass| match storage {
        StorageClass::PhysicalStorageBuffer => true,
        StorageClass::StorageBuffer => any || storage_buffers,
        StorageClass::Workgroup => any,
        _ => false,
    };
    let declares = |op: Op| op.is_variable() || op == Op::FunctionParameter;
    let wrong = |id: Id| match m.type_of(id).and_then(|t| Type::of(m, t)) {
        Some(Type::Pointer { storage, .. }) => !passes(storage) && m.def_inst(id).is_some_and(|i| !declares(i.op)),
        _ => false,
    };
    let calls = m.functions.iter().flat_map(|f| f.insts()).map(|r| m.inst(r)).filter(|i| i.op == Op::FunctionCall);
    calls.filter(|i| i.ids_from(1).any(wrong)).filter_map(|i| i.callee()).filter(|f| f.get() >= bound).collect()
}

/// Inlines the functions `chosen`, and removes them.
fn in_place_of_calls(m: &mut Module, g: &mut Globals, chosen: &FxHashSet<Id>) -> Result<(), Refusal> {
    if chosen.is_empty() {
        return Ok(());
    }
    no_recursion(m, chosen)?;
    let all: Vec<usize> = (0..m.functions.len()).collect();
    let is_chosen = |m: &Module, f: usize| m.inst(m.functions[f].def).result.is_some_and(|id| chosen.contains(&id));
    all.iter().filter(|f| is_chosen(m, **f)).copied().collect::<Vec<_>>().into_iter().for_each(|f| {
        returns::single_return(m, g, f);
    });
    // A function with other uses than calls stays, and must not call a removed one.
    let stay = mentioned(m, chosen);
    let callers: Vec<usize> = all
        .into_iter()
        .filter(|f| !is_chosen(m, *f) || m.inst(m.functions[*f].def).result.is_some_and(|id| stay.contains(&id)))
        .collect();
    splice::calls(m, &callers, chosen).map_err(|unfit| unfit.refusal(m, callers.first().copied().unwrap_or(0)))?;
    let gone: FxHashSet<Id> = chosen.iter().copied().filter(|id| !stay.contains(id)).collect();
    remove(m, &gone);
    Ok(())
}

fn is_addressing(m: &Module, ty: Id) -> bool {
    m.def_inst(ty).is_some_and(|i| matches!(i.op, Op::TypeTensorLayoutNV | Op::TypeTensorViewNV))
}

/// Numbers that addresses are computed from: their divisors are visible only if they are values.
fn is_part_of_addresses(m: &Module, ty: Id) -> bool {
    m.def_inst(ty).is_some_and(|i| matches!(i.op, Op::TypeInt | Op::TypeBool))
}

/// The types that are, contain or point to a type that must not pass through a call.
pub(crate) struct Carriers {
    known: FxHashMap<Id, bool>,
    of: Option<Op>,
}

impl Carriers {
    pub(crate) fn new() -> Carriers {
        Carriers { known: FxHashMap::default(), of: None }
    }

    /// Makes the set for one kind of type.
    pub(crate) fn of(op: Op) -> Carriers {
        Carriers { known: FxHashMap::default(), of: Some(op) }
    }

    pub(crate) fn has(&mut self, m: &Module, ty: Id) -> bool {
        if let Some(known) = self.known.get(&ty) {
            return *known;
        }
        // Recursive pointer types do not contain the type by themselves.
        self.known.insert(ty, false);
        let found = match Type::of(m, ty) {
            Some(Type::CoopMat(_)) => self.of.is_none_or(|op| op == Op::TypeCooperativeMatrixKHR),
            Some(Type::Other(op)) if op.is_tensor_type() || op.is_matrix_type() => self.of.is_none_or(|of| of == op),
            Some(Type::Array { elem, .. } | Type::RuntimeArray { elem }) => self.has(m, elem),
            Some(Type::Struct { members }) => members.into_iter().any(|t| self.has(m, t)),
            Some(Type::Pointer { pointee, .. }) => self.has(m, pointee),
            _ => false,
        };
        self.known.insert(ty, found);
        found
    }
}

/// Returns the functions whose signature has a carrier.
fn functions_through(m: &Module) -> FxHashSet<Id> {
    let mut carriers = Carriers::new();
    let mut out = FxHashSet::default();
    for f in m.functions.iter().filter(|f| !f.blocks.is_empty()) {
        let Some(id) = m.inst(f.def).result else { continue };
        let types = m.inst(f.def).ty.into_iter().chain(f.params.iter().filter_map(|p| m.inst(*p).ty));
        if types.into_iter().any(|t| carriers.has(m, t)) {
            out.insert(id);
        }
    }
    out
}

/// Refuses functions of `chosen` that call themselves, directly or through others.
fn no_recursion(m: &Module, chosen: &FxHashSet<Id>) -> Result<(), Refusal> {
    let mut calls: FxHashMap<Id, Vec<(Id, InstRef)>> = FxHashMap::default();
    let mut all = Vec::new();
    for f in &m.functions {
        let Some(id) = m.inst(f.def).result else { continue };
        all.push(id);
        let called = f.insts().filter(|r| m.inst(*r).op == Op::FunctionCall);
        let called = called.filter_map(|r| Some((m.inst(r).callee().filter(|c| chosen.contains(c))?, r)));
        calls.insert(id, called.collect());
    }
    let mut state: FxHashMap<Id, bool> = FxHashMap::default();
    for root in all {
        let mut stack = vec![(root, 0usize)];
        while let Some((id, next)) = stack.pop() {
            if next == 0 && state.contains_key(&id) {
                continue;
            }
            state.insert(id, false);
            let Some((callee, at)) = calls.get(&id).and_then(|c| c.get(next)).copied() else {
                state.insert(id, true);
                continue;
            };
            stack.push((id, next + 1));
            match state.get(&callee) {
                Some(true) => {}
                None => stack.push((callee, 0)),
                Some(false) => {
                    let why = format!("the function {callee} that takes or returns matrices calls itself");
                    return Err(Refusal::new(
                        "refused-recursion",
                        Some(at),
                        why,
                        "SPIR-V for shaders has no recursion",
                    ));
                }
            }
        }
    }
    Ok(())
}

/// Returns the functions of `chosen` with other uses than calls, names and decorations.
fn mentioned(m: &Module, chosen: &FxHashSet<Id>) -> FxHashSet<Id> {
    let mut found: FxHashSet<Id> = FxHashSet::default();
    // A function's own debug definition names it too.
    let own = m.functions.iter().flat_map(|f| f.insts().map(|r| (m.inst(f.def).result, r)));
    let others = m.globals.iter().chain(&m.trailing).map(|r| (None, *r));
    for (owner, r) in own.chain(others) {
        let i = m.inst(r);
        if i.op != Op::FunctionCall && !is_note(i.op) {
            for_each_use(m, i, |id| {
                if chosen.contains(&id) && Some(id) != owner {
                    found.insert(id);
                }
            });
        }
    }
    found
}

/// Removes functions with their bodies, names and decorations.
pub(crate) fn remove(m: &mut Module, gone: &FxHashSet<Id>) {
    let mut results: FxHashSet<Id> = gone.clone();
    let mut kept = Vec::new();
    for f in std::mem::take(&mut m.functions) {
        if !m.inst(f.def).result.is_some_and(|id| gone.contains(&id)) {
            kept.push(f);
            continue;
        }
        for r in f.insts().collect::<Vec<_>>() {
            results.extend(m.inst(r).result);
            m.forget(r);
        }
    }
    m.functions = kept;
    ssa::remove_annotations(m, &results);
}
