//! Finds matrices whose rows hold one value each.
//!
//! A reduction of rows gives such a matrix, and so does element-wise arithmetic on such matrices only: attention keeps the
//! maximum and the sum of every row in such a matrix. One element of each row then represents the row, which takes fewer
//! registers and instructions.

use crate::ssa::is_debug;
use coop_ir::hash::{FxHashMap, FxHashSet};
use coop_ir::spv::{CooperativeMatrixReduce as Reduce, GlslStd450};
use coop_ir::{Function, Id, Inst, InstRef, Module, Op};

/// The values whose rows hold one value each, as far as their definitions tell. `given` says of an instruction which
/// others have to be row-uniform for its result to be; `None` if it is not, whatever they are.
pub(crate) fn find(m: &Module, given: &dyn Fn(&Inst) -> Option<Vec<Id>>) -> FxHashSet<Id> {
    let mut needs: FxHashMap<Id, Vec<Id>> = FxHashMap::default();
    let insts = m.functions.iter().flat_map(|f| f.insts());
    for r in m.globals.iter().copied().chain(insts) {
        let inst = m.inst(r);
        if let (Some(id), Some(from)) = (inst.result, given(inst)) {
            needs.insert(id, from);
        }
    }
    // A value that depends on others is row-uniform until one of them is not.
    let mut users: FxHashMap<Id, Vec<Id>> = FxHashMap::default();
    for (id, from) in &needs {
        from.iter().for_each(|f| users.entry(*f).or_default().push(*id));
    }
    let mut gone: Vec<Id> = users.keys().copied().filter(|id| !needs.contains_key(id)).collect();
    while let Some(id) = gone.pop() {
        let users = users.remove(&id).unwrap_or_default();
        gone.extend(users.into_iter().filter(|user| needs.remove(user).is_some()));
    }
    needs.into_keys().collect()
}

/// The answer to [`find`] for instructions that every lowering treats so; the `matrices` are the operands that are.
pub(crate) fn given(inst: &Inst, matrices: Vec<Id>) -> Option<Vec<Id>> {
    match inst.op {
        op if op.is_constant() => Some(Vec::new()),
        Op::Undef => Some(Vec::new()),
        Op::CompositeConstruct | Op::CompositeConstructReplicateEXT => {
            Some(Vec::new()).filter(|_| matrices.is_empty() && inst.operands.len() == 1)
        }
        Op::CooperativeMatrixReduceNV => {
            Some(Vec::new()).filter(|_| inst.enumerant(1).is_some_and(|mask: Reduce| mask.contains(Reduce::Row)))
        }
        Op::Phi | Op::Select | Op::CopyObject => Some(matrices),
        _ => None,
    }
}

/// Returns true if a matrix has one number in all its elements.
pub(crate) fn is_splat(m: &Module, id: Id) -> bool {
    m.def_inst(id).is_some_and(|inst| match inst.op {
        Op::ConstantNull => true,
        Op::ConstantComposite
        | Op::ConstantCompositeReplicateEXT
        | Op::CompositeConstruct
        | Op::CompositeConstructReplicateEXT => inst.operands.len() == 1,
        _ => false,
    })
}

/// Returns whether a callback for each element looks at the row, and at the column.
pub(crate) fn uses_position(m: &Module, function: Id) -> [bool; 2] {
    let Some(f) = m.functions.iter().find(|f| m.inst(f.def).result == Some(function)) else { return [true; 2] };
    let params = params(m, f);
    [0, 1].map(|n| params.get(n).is_none_or(|id| f.insts().any(|r| m.inst(r).ids().any(|o| o == *id))))
}

fn params(m: &Module, f: &Function) -> Vec<Id> {
    f.params.iter().filter_map(|p| m.inst(*p).result).collect()
}

/// The kind of a function of two elements, where that is plain to see.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Combine {
    /// An operation that matrices have too.
    Op(Op),
    /// The function of an element and itself is that element.
    Idempotent,
    /// Anything.
    Other,
}

/// Returns the kind of a reduction's function.
pub(crate) fn combine(m: &Module, function: Id) -> Combine {
    let of = || {
        let f = m.functions.iter().find(|f| m.inst(f.def).result == Some(function))?;
        let [block] = &f.blocks[..] else { return None };
        let params = params(m, f);
        let said = |inst: &Inst| inst.op.is_line() || is_debug(m, inst);
        let body: Vec<InstRef> = block.insts.iter().copied().filter(|r| !said(m.inst(*r))).collect();
        let (end, rest) = body.split_last()?;
        let value = m.inst(*end).id(0).filter(|_| m.inst(*end).op == Op::ReturnValue)?;
        if params.contains(&value) {
            return Some(Combine::Idempotent);
        }
        let [only] = rest else { return None };
        let inst = m.inst(*only);
        if inst.result != Some(value) {
            return None;
        }
        match inst.op {
            Op::FAdd | Op::IAdd => {
                let decorated = m.globals_with(Op::Decorate).any(|r| m.inst(r).id(0) == Some(value));
                (inst.ids().eq(params) && !decorated).then_some(Combine::Op(inst.op))
            }
            Op::ExtInst => {
                let set = inst.id(0).and_then(|s| m.def_inst(s)).and_then(|i| i.string(0));
                let is_glsl = set.is_some_and(|(name, _)| name == "GLSL.std.450");
                let of_params = inst.ids_from(2).all(|id| params.contains(&id));
                let picks = inst.ext_instruction().is_some_and(|op| PICKS.contains(&GlslStd450(op)));
                (is_glsl && of_params && picks).then_some(Combine::Idempotent)
            }
            _ => None,
        }
    };
    of().unwrap_or(Combine::Other)
}

/// FMin, UMin, SMin, FMax, UMax, SMax, NMin, NMax.
const PICKS: [GlslStd450; 8] = [
    GlslStd450::FMin,
    GlslStd450::UMin,
    GlslStd450::SMin,
    GlslStd450::FMax,
    GlslStd450::UMax,
    GlslStd450::SMax,
    GlslStd450::NMin,
    GlslStd450::NMax,
];
