//! Folds what constants decide.
//!
//! Precondition: none. Effect, in each function of a shader: integers and truth values that the constants determine are
//! constants; a branch that they decide is unconditional, and blocks, functions and shared variables that only other paths
//! led to are gone, with values that nothing uses any more. A module of an engine has code for each of its modes, and its
//! specialization chooses one: what the other modes do need not be lowered.
//!
//! Values come from a sparse conditional propagation ([`values`]), the edits of the control flow are in [`branches`].
//! Control flow stays structured: which invocations execute an instruction together stays the same, since a decided branch
//! parts none.

mod branches;
mod values;

use crate::pipeline::PassCx;
use crate::{Refusal, cleanup, ssa};
use coop_ir::builder::Globals;
use coop_ir::cfg::Cfg;
use coop_ir::constant::{Constants, Specialization};
use coop_ir::effects::{Written, read_access, written};
use coop_ir::hash::{FxHashMap, FxHashSet};
use coop_ir::rewrite::remove_globals;
use coop_ir::spv::StorageClass;
use coop_ir::types::{Scalar, Type};
use coop_ir::uses::{for_each_use, is_note};
use coop_ir::{Id, IdSet, InstRef, Module, Op, Operand};
use values::Values;

pub(crate) fn run(m: &mut Module, _: &mut PassCx<'_>) -> Result<(), Refusal> {
    if m.is_kernel() {
        return Ok(());
    }
    let constants = Constants::new(m, &Specialization::new());
    let mut g = Globals::new(m);
    let mut gone: FxHashSet<Id> = FxHashSet::default();
    let mut decided = false;
    for f in 0..m.functions.len() {
        decided |= function(m, &mut g, &constants, f, &mut gone);
    }
    ssa::remove_annotations(m, &gone);
    if decided {
        cleanup::unused_functions(m);
        unused_shared_variables(m);
    }
    coop_ir::rewrite::sort_globals(m);
    Ok(())
}

/// Returns the constants that decide branches of a shader under a specialization: those with a SpecId on which the
/// conditions depend.
pub(crate) fn deciders(m: &Module, constants: &Constants) -> Vec<Id> {
    if m.is_kernel() {
        return Vec::new();
    }
    let mut out = Vec::new();
    // A function of one block decides nothing.
    for f in (0..m.functions.len()).filter(|f| m.functions[*f].blocks.len() > 1) {
        let Some(cfg) = graph(m, f) else { continue };
        let values = Values::new(m, constants, &cfg, f);
        let mut work: Vec<Id> = values.decided().filter_map(|(b, _)| selector(m, f, b)).collect();
        let mut seen: FxHashSet<Id> = work.iter().copied().collect();
        while let Some(id) = work.pop() {
            let Some(inst) = m.def_inst(id) else { continue };
            if inst.op.is_constant() {
                out.push(id);
            } else if values.get(id).is_some() {
                work.extend(inst.ids().filter(|id| seen.insert(*id)));
            }
        }
    }
    out
}

/// The graph of a function that can be folded.
fn graph(m: &Module, f: usize) -> Option<Cfg> {
    let function = &m.functions[f];
    if function.blocks.is_empty() || function.insts().any(|r| m.inst(r).opaque) {
        return None;
    }
    Some(Cfg::new(m, function)).filter(|cfg| cfg.problems().is_empty())
}

/// The value that a block branches on.
fn selector(m: &Module, f: usize, block: usize) -> Option<Id> {
    m.functions[f].blocks[block].terminator().and_then(|r| m.inst(r).id(0))
}

/// Folds function `f`; answers whether a branch was decided. `gone` collects the results that are no more.
fn function(m: &mut Module, g: &mut Globals, constants: &Constants, f: usize, gone: &mut FxHashSet<Id>) -> bool {
    let Some(cfg) = graph(m, f) else { return false };
    let values = Values::new(m, constants, &cfg, f);
    let plan = branches::Plan::new(m, &cfg, &values, f);
    // What each id is instead.
    let mut map: FxHashMap<Id, Id> = FxHashMap::default();
    for (id, value) in values.folded(m, f) {
        let Some(constant) = constant(m, g, id, value) else { continue };
        map.insert(id, constant);
    }
    chosen(m, &values, f, &mut map);
    if map.is_empty() && plan.is_none() {
        return false;
    }
    let decided = plan.is_some();
    if let Some(plan) = plan {
        plan.apply(m, g, &cfg, f, &mut map, gone);
    }
    let end = |mut id: Id| {
        // A value that nothing reaches may be made of itself.
        for _ in 0..=map.len() {
            let Some(next) = map.get(&id) else { break };
            id = *next;
        }
        id
    };
    let resolved: FxHashMap<Id, Id> = map.keys().map(|id| (*id, end(*id))).collect();
    ssa::replace_in(m, f, &resolved);
    let replaced: FxHashSet<InstRef> =
        m.functions[f].insts().filter(|r| m.inst(*r).result.is_some_and(|id| resolved.contains_key(&id))).collect();
    ssa::remove_insts(m, f, &replaced);
    gone.extend(resolved.into_keys());
    unused(m, f, gone);
    if decided {
        branches::merge_straight(m, f, gone);
    }
    decided
}

/// The constant with the value of `id`, of its type.
fn constant(m: &mut Module, g: &mut Globals, id: Id, value: u64) -> Option<Id> {
    let ty = m.type_of(id)?;
    match Type::of(m, ty)? {
        Type::Bool => Some(g.boolean(m, value != 0)),
        Type::Scalar(s @ Scalar::Int { .. }) => Some(g.constant_of(m, ty, s, value)),
        _ => None,
    }
}

/// Finds values that are one of their operands: selections whose condition is known, and truth values that the other operand
/// does not change.
fn chosen(m: &Module, values: &Values<'_>, f: usize, map: &mut FxHashMap<Id, Id>) {
    for r in m.functions[f].blocks.iter().flat_map(|b| &b.insts) {
        let i = m.inst(*r);
        let Some(id) = i.result.filter(|id| !map.contains_key(id)) else { continue };
        let known = |at: usize| i.id(at).and_then(|id| values.get(id));
        let same = match i.op {
            Op::Select => known(0).and_then(|c| i.id(if c != 0 { 1 } else { 2 })),
            Op::LogicalAnd => match (known(0), known(1)) {
                (Some(1), _) => i.id(1),
                (_, Some(1)) => i.id(0),
                _ => None,
            },
            Op::LogicalOr => match (known(0), known(1)) {
                (Some(0), _) => i.id(1),
                (_, Some(0)) => i.id(0),
                _ => None,
            },
            _ => None,
        };
        if let Some(same) = same {
            map.insert(id, same);
        }
    }
}

/// Removes values of function `f` that nothing uses and that can be computed without anybody noticing.
fn unused(m: &mut Module, f: usize, gone: &mut FxHashSet<Id>) {
    let insts: Vec<InstRef> = m.functions[f].blocks.iter().flat_map(|b| b.insts.iter().copied()).collect();
    let removable = |m: &Module, r: InstRef| {
        let i = m.inst(r);
        let quiet = match i.op {
            Op::Load => !read_access(i).volatile,
            Op::Phi | Op::Select => true,
            op => op.is_pure() || op.is_address_arithmetic() || op.is_typed_access_chain(),
        };
        i.result.is_some() && quiet && written(m, i) == Written::Nothing
    };
    let mut used = IdSet::default();
    let mut work: Vec<Id> = Vec::new();
    for r in insts.iter().filter(|r| !removable(m, **r)) {
        work.extend(m.inst(*r).ids().filter(|id| used.insert(*id)));
    }
    while let Some(id) = work.pop() {
        if let Some(i) = m.def_inst(id) {
            work.extend(i.ids().filter(|id| used.insert(*id)));
        }
    }
    let dead = |r: &InstRef| removable(m, *r) && m.inst(*r).result.is_some_and(|id| !used.contains(id));
    let dead: FxHashSet<InstRef> = insts.iter().copied().filter(dead).collect();
    gone.extend(dead.iter().filter_map(|r| m.inst(*r).result));
    ssa::remove_insts(m, f, &dead);
}

/// Removes variables in shared and private memory that nothing uses: what they take would count.
fn unused_shared_variables(m: &mut Module) {
    let own = |storage: Option<StorageClass>| matches!(storage, Some(StorageClass::Workgroup | StorageClass::Private));
    let mut used = IdSet::default();
    let users = m.all().map(|r| m.inst(r)).filter(|i| !is_note(i.op) && i.op != Op::EntryPoint);
    users.for_each(|i| for_each_use(m, i, |id| _ = used.insert(id)));
    let variables = m.globals_with(Op::Variable).filter(|r| own(m.inst(*r).enumerant(0)));
    let gone: FxHashSet<Id> = variables.filter_map(|r| m.inst(r).result).filter(|id| !used.contains(*id)).collect();
    if gone.is_empty() || m.all().any(|r| m.inst(r).opaque) {
        return;
    }
    for r in m.globals_with(Op::EntryPoint).collect::<Vec<_>>() {
        m.inst_mut(r).operands.retain(|o| !matches!(o, Operand::Id(id) if gone.contains(id)));
    }
    ssa::remove_annotations(m, &gone);
    remove_globals(m, |m, r| m.inst(r).result.is_some_and(|id| gone.contains(&id)));
    debug_assert!(m.all().all(|r| {
        let mut any = false;
        for_each_use(m, m.inst(r), |id| any |= gone.contains(&id));
        !any
    }));
}
