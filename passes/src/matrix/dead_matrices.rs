//! Removes matrices that nothing reads, before matrices become arrays.
//!
//! Front ends give a tensor load the matrix that it replaces as an operand, whose elements stay where a view clips.
//! Where there is no clip nothing of it stays, yet through it every load of a loop depends on the one before, in phis.
//! Afterwards an operand that does not count is undefined, matrices that nothing reads are gone, and so are variables
//! that are only written.

use crate::ssa;
use coop_ir::builder::add_global;
use coop_ir::constant::Constants;
use coop_ir::hash::{FxHashMap, FxHashSet};
use coop_ir::types::Type;
use coop_ir::uses::is_note;
use coop_ir::{Id, Inst, InstRef, Module, Op, Operand};

/// Removes the matrices that nothing reads, of the types in `types`. Variables of those in `values` become values where
/// they can, so that it is seen what a load is used for.
pub(crate) fn run(m: &mut Module, constants: &Constants, types: &FxHashSet<Id>, values: &FxHashSet<Id>) {
    for f in 0..m.functions.len() {
        let variables = ssa::candidates(m, f, &|_, ty| values.contains(&ty));
        ssa::promote(m, f, &variables);
    }
    replaced(m, constants);
    let is_matrix = |m: &Module, id: Id| m.type_of(id).is_some_and(|t| types.contains(&t));
    for f in 0..m.functions.len() {
        let insts: Vec<InstRef> = m.functions[f].insts().collect();
        let written = only_written(m, &insts, types);
        // What is read by anything but a phi, and then what those phis read.
        let mut users: FxHashMap<Id, Vec<Id>> = FxHashMap::default();
        let mut live: Vec<Id> = Vec::new();
        for r in &insts {
            let i = m.inst(*r);
            if is_note(i.op) || (i.op == Op::Store && i.accessed().is_some_and(|p| written.contains(&p))) {
                continue;
            }
            match i.result.filter(|_| i.op == Op::Phi) {
                Some(phi) if is_matrix(m, phi) => users.entry(phi).or_default().extend(i.ids()),
                _ => live.extend(i.ids().filter(|id| is_matrix(m, *id))),
            }
        }
        let mut read: FxHashSet<Id> = FxHashSet::default();
        while let Some(id) = live.pop() {
            if read.insert(id)
                && let Some(from) = users.get(&id)
            {
                live.extend(from.iter().copied().filter(|id| is_matrix(m, *id)));
            }
        }
        let gone: FxHashSet<InstRef> = insts
            .iter()
            .copied()
            .filter(|r| {
                let i = m.inst(*r);
                match i.op {
                    Op::Store => i.accessed().is_some_and(|p| written.contains(&p)),
                    Op::Phi | Op::CooperativeMatrixLoadTensorNV => {
                        i.result.is_some_and(|id| is_matrix(m, id) && !read.contains(&id))
                    }
                    _ => false,
                }
            })
            .collect();
        let results: FxHashSet<Id> = gone.iter().filter_map(|r| m.inst(*r).result).collect();
        ssa::remove_insts(m, f, &gone);
        ssa::remove_annotations(m, &results);
    }
}

/// The variables of a function that hold matrices and are never read.
fn only_written(m: &Module, insts: &[InstRef], types: &FxHashSet<Id>) -> FxHashSet<Id> {
    let of_matrix = |i: &Inst| {
        let pointee = i.ty.and_then(|t| match Type::of(m, t)? {
            Type::Pointer { pointee, .. } => Some(pointee),
            _ => None,
        });
        i.op == Op::Variable && pointee.is_some_and(|t| types.contains(&t))
    };
    let mut out: FxHashSet<Id> =
        insts.iter().map(|r| m.inst(*r)).filter(|i| of_matrix(i)).filter_map(|i| i.result).collect();
    for i in insts.iter().map(|r| m.inst(*r)).filter(|i| !is_note(i.op)) {
        let into = if i.op == Op::Store { i.id(0) } else { None };
        for id in i.ids().enumerate().filter(|(n, id)| *n > 0 || Some(*id) != into).map(|(_, id)| id) {
            out.remove(&id);
        }
    }
    out
}

/// Undefines the operands of tensor loads of which nothing can stay.
fn replaced(m: &mut Module, constants: &Constants) {
    let loads: Vec<InstRef> = m.all().filter(|r| m.inst(*r).op == Op::CooperativeMatrixLoadTensorNV).collect();
    let mut undefined: FxHashMap<Id, Id> = FxHashMap::default();
    for r in loads {
        let inst = m.inst(r);
        let Some(ty) = inst.ty.filter(|_| !clips(m, constants, inst)) else { continue };
        let id = *undefined.entry(ty).or_insert_with(|| {
            let id = m.fresh_id();
            add_global(m, Inst::new(Op::Undef, Some(ty), Some(id), []));
            id
        });
        if let Some(object) = m.inst_mut(r).operands.get_mut(1) {
            *object = Operand::Id(id);
        }
    }
}

/// Returns true if a view may clip elements of a load.
fn clips(m: &Module, constants: &Constants, inst: &Inst) -> bool {
    let ty = |id: Id| m.type_of(id).and_then(|t| m.def_inst(t)).map(|t| t.op);
    let Some(view) = inst.ids().find(|id| ty(*id) == Some(Op::TypeTensorViewNV)) else { return false };
    let Some(clip) = m.def_inst(view).filter(|i| i.op == Op::TensorViewSetClipNV) else { return true };
    let parts: Vec<Option<u64>> = clip.ids_from(1).map(|id| constants.get(id).value()).collect();
    let all = Some(u64::from(u32::MAX));
    parts != [Some(0), all, Some(0), all]
}
