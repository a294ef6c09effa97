//! Promotes private memory of kernels to values, whatever pointers access it.
//!
//! Compilers of kernels leave much in variables: everything without optimization, and always matrices whose elements
//! are accessed. They wrap them in structs, keep pointers to them in other variables, copy them as bytes and pass them
//! to functions through Generic pointers.
//!
//! Precondition: none. Effect, in a module of kernels:
//!
//! - Functions that take or return pointers to private memory, or matrices, are inlined.
//! - A variable is split into the numbers, pointers and matrices that it is accessed as ([`pieces`]), if every pointer
//!   into it can be followed to a known location ([`pointer_uses`]); each piece is a variable of its own, accessed
//!   directly ([`rewrite`]), and is promoted to a value unless it is a matrix whose elements are accessed. The targets of
//!   pointers in such variables are known then, so the process repeats.
//! - Pointers that only count become numbers ([`counting_pointers`]).
//! - `OpCopyMemorySized` between such variables and other memory becomes loads and stores.
//! - No function is marked to be left unoptimized.
//! - Calls of compilers' library functions that are equivalent to an instruction become that instruction.
//!
//! - A variable that can't be split and holds matrices, for example an array of them with a computed index, is accessed
//!   by access chains that begin at the variable itself ([`matrices`]).
//!
//! Any other variable that can't be split stays as it is.

mod counting_pointers;
mod matrices;
mod pieces;
mod pointer_uses;
mod rewrite;

use crate::inline::{self, Carriers, splice};
use crate::kernel::{is_kernel, is_physical};
use crate::layout::Layout;
use crate::one_return::one_return;
use crate::pipeline::PassCx;
use crate::{Refusal, ssa};
use coop_ir::builder::Globals;
use coop_ir::constant::{Constants, Specialization};
use coop_ir::entry::CallGraph;
use coop_ir::hash::FxHashSet;
use coop_ir::rewrite::{insert_before, remove_globals, sort_globals};
use coop_ir::spv::{Capability, FunctionControl, StorageClass};
use coop_ir::types::Type;
use coop_ir::{Id, Inst, InstRef, Module, Op, Operand};

/// Library functions that are equivalent to instructions: each takes a pointer to a number.
pub(crate) const LIBRARY: [(&str, Op); 2] = [
    ("__devicelib_ConvertFToBF16INTEL", Op::ConvertFToBF16INTEL),
    ("__devicelib_ConvertBF16ToFINTEL", Op::ConvertBF16ToFINTEL),
];

/// The maximum depth of pointers in variables that point to other variables.
const MOST_REPETITIONS: usize = 64;

pub(crate) fn run(m: &mut Module, _: &mut PassCx<'_>) -> Result<(), Refusal> {
    if !is_kernel(m) {
        return Ok(());
    }
    let most = if is_physical(m) { MOST_REPETITIONS } else { 0 };
    let mut g = Globals::new(m);
    in_place_of_calls(m, &mut g)?;
    let layout = Layout::with_matrices(m, Constants::new(m, &Specialization::new()));
    for f in 0..m.functions.len() {
        library(m, f);
        for _ in 0..most {
            if !split_variables(m, &mut g, &layout, f) {
                break;
            }
            counting_pointers::run(m, &mut g, f);
        }
        matrices::run(m, &mut g, f)?;
    }
    be_optimised(m);
    sort_globals(m);
    Ok(())
}

/// The function control that forbids optimization, the capability that it needs, and the extensions that have it.
const OPT_NONE: (FunctionControl, Capability, [&str; 2]) =
    (FunctionControl::OptNoneEXT, Capability::OptNoneEXT, ["SPV_INTEL_optnone", "SPV_EXT_optnone"]);

/// Allows functions to be optimized again: not every consumer knows the function control, and this pass has ignored it.
fn be_optimised(m: &mut Module) {
    let (bit, capability, extensions) = OPT_NONE;
    for r in m.functions.iter().map(|f| f.def).collect::<Vec<_>>() {
        if m.inst(r).word(0).is_some_and(|control| control & bit.0 != 0) {
            let control = m.inst(r).word(0).unwrap_or(0) & !bit.0;
            m.inst_mut(r).operands[0] = Operand::Word(control);
        }
    }
    if m.has_capability(capability) {
        remove_globals(m, |m, r| {
            let inst = m.inst(r);
            match inst.op {
                Op::Capability => inst.enumerant(0) == Some(capability),
                Op::Extension => inst.string(0).is_some_and(|(name, _)| extensions.contains(&name.as_str())),
                _ => false,
            }
        });
    }
}

/// Splits the variables of a function that can be split. Returns true if there were any.
fn split_variables(m: &mut Module, g: &mut Globals, layout: &Layout, f: usize) -> bool {
    let mut left = FxHashSet::default();
    let (walk, pieces) = loop {
        let walk = pointer_uses::walk(m, layout, f, &left);
        if walk.variables.iter().all(|v| left.contains(&v.id)) {
            return false;
        }
        match pieces::split(m, layout, &walk, &left) {
            Ok(pieces) => break (walk, pieces),
            Err(variable) => {
                left.insert(variable);
            }
        }
    };
    rewrite::run(m, g, layout, f, &walk, pieces);
    let simple = ssa::candidates(m, f, &|_, _| true);
    ssa::promote(m, f, &simple);
    true
}

/// Inlines functions that take or return matrices, or pointers that may point to private memory.
fn in_place_of_calls(m: &mut Module, g: &mut Globals) -> Result<(), Refusal> {
    let mut carriers = Carriers::new();
    let mut chosen: FxHashSet<Id> = FxHashSet::default();
    let entries: FxHashSet<Id> = m.globals_with(Op::EntryPoint).filter_map(|r| m.inst(r).entry_function()).collect();
    for f in m.functions.iter().filter(|f| !f.blocks.is_empty()) {
        let Some(id) = m.inst(f.def).result.filter(|id| !entries.contains(id)) else { continue };
        let mut types = m.inst(f.def).ty.into_iter().chain(f.params.iter().filter_map(|p| m.inst(*p).ty));
        if types.any(|t| is_private(m, t) || carriers.has(m, t)) {
            chosen.insert(id);
        }
    }
    if chosen.is_empty() {
        return Ok(());
    }
    if let Some(f) = CallGraph::new(m).recursive().first() {
        let at = m.functions.get(*f).map(|f| f.def);
        let why = "a function that is given pointers to private memory calls itself, directly or through others";
        return Err(Refusal::new("refused-recursion", at, why, "OpenCL kernels have no recursion"));
    }
    for f in 0..m.functions.len() {
        if m.inst(m.functions[f].def).result.is_some_and(|id| chosen.contains(&id)) {
            one_return(m, g, f);
        }
    }
    for f in 0..m.functions.len() {
        if m.inst(m.functions[f].def).result.is_some_and(|id| !chosen.contains(&id)) {
            splice::calls(m, &[f], &chosen).map_err(|unfit| unfit.refusal(m, f))?;
        }
    }
    inline::remove(m, &chosen);
    Ok(())
}

/// Returns true if a type is a pointer that may point to a variable of a function.
fn is_private(m: &Module, ty: Id) -> bool {
    let private = [StorageClass::Function, StorageClass::Generic];
    matches!(Type::of(m, ty), Some(Type::Pointer { storage, .. }) if private.contains(&storage))
}

/// Replaces calls of known library functions by the instructions that they are equivalent to.
fn library(m: &mut Module, f: usize) {
    let calls = m.functions[f].insts().filter(|r| m.inst(*r).op == Op::FunctionCall);
    for at in calls.collect::<Vec<InstRef>>() {
        let call = m.inst(at).clone();
        let known = call.callee().and_then(|callee| library_function(m, callee));
        let pointee = call.ids_from(1).next().and_then(|p| m.type_of(p)).and_then(|t| match Type::of(m, t) {
            Some(Type::Pointer { pointee, .. }) => Some(pointee),
            _ => None,
        });
        let (Some(op), Some(pointer), Some(ty)) = (known, call.ids_from(1).next(), pointee) else { continue };
        if coop_ir::types::scalar_or_vector(m, ty).is_none() {
            continue;
        }
        let value = m.fresh_id();
        insert_before(m, at, Inst::new(Op::Load, Some(ty), Some(value), [pointer.into()]).at(call.origin));
        m.replace(at, Inst::new(op, call.ty, call.result, [value.into()]).at(call.origin));
    }
}

/// Returns the instruction that a library function is equivalent to, by its name.
fn library_function(m: &Module, callee: Id) -> Option<Op> {
    let name = m.globals_with(Op::Name).map(|r| m.inst(r)).find(|i| i.note_target() == Some(callee))?;
    let (name, _) = name.string(1)?;
    LIBRARY.iter().find(|k| k.0 == name).map(|k| k.1)
}
