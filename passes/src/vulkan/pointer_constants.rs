//! Turns constant expressions on pointers into instructions, so that their pointers are followed like others.

use crate::ssa;
use coop_ir::hash::{FxHashMap, FxHashSet};
use coop_ir::{Id, Inst, InstRef, Module, Op};

/// Inserts those that function `f` uses in front of its first block's instructions.
pub(super) fn unfold(m: &mut Module, f: usize) {
    let used: Vec<Id> = m.functions[f].insts().flat_map(|r| m.inst(r).ids().collect::<Vec<_>>()).collect();
    let mut entered: FxHashSet<Id> = FxHashSet::default();
    let mut order: Vec<Inst> = Vec::new();
    let mut work: Vec<(Id, bool)> = used.into_iter().map(|id| (id, false)).collect();
    while let Some((id, ready)) = work.pop() {
        let Some(inst) = of_pointers(m, id) else { continue };
        if ready {
            order.push(inst);
        } else if entered.insert(id) {
            // Operands come first.
            work.push((id, true));
            work.extend(inst.ids().map(|o| (o, false)));
        }
    }
    let mut map: FxHashMap<Id, Id> = FxHashMap::default();
    let mut made: Vec<InstRef> = Vec::new();
    for inst in order {
        let op = inst.word(0).and_then(|w| u16::try_from(w).ok()).map(Op);
        let (Some(op), Some(old)) = (op, inst.result) else { continue };
        let new = m.fresh_id();
        map.insert(old, new);
        made.push(m.add(Inst::new(op, inst.ty, Some(new), inst.operands.iter().skip(1).copied())));
    }
    if made.is_empty() {
        return;
    }
    if let Some(entry) = m.functions[f].blocks.first() {
        let at = entry.insts.iter().take_while(|r| m.inst(**r).op == Op::Variable).count();
        m.functions[f].blocks[0].insts.insert_many(at, made);
    }
    ssa::replace_in(m, f, &map);
}

/// Returns the constant expression `id`, if its result or an operand is a pointer.
fn of_pointers(m: &Module, id: Id) -> Option<Inst> {
    let inst = m.def_inst(id).filter(|i| i.op == Op::SpecConstantOp)?;
    let pointer = |t: Id| m.def_inst(t).is_some_and(|i| i.op == Op::TypePointer);
    let about = inst.ty.is_some_and(pointer) || inst.ids().any(|o| m.type_of(o).is_some_and(pointer));
    about.then(|| inst.clone())
}
