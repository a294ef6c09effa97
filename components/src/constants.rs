//! Makes instructions of specialization constants that are computed with types that become software, where only code uses them.
//!
//! Effect: such an `OpSpecConstantOp` is computed at the beginning of each function that uses it. Those that types or other constants
//! need stay, and later passes refuse them.

use crate::Refusal;
use crate::parts::MadeOf;
use crate::pipeline::Cx;
use coop_ir::decode::decode;
use coop_ir::hash::{FxHashMap, FxHashSet};
use coop_ir::rewrite::remove_globals;
use coop_ir::{Id, Inst, InstRef, Kind, Module, Op};

pub(crate) fn run(m: &mut Module, cx: &mut Cx<'_>) -> Result<(), Refusal> {
    let computed = in_code(m, cx);
    if computed.is_empty() {
        return Ok(());
    }
    for f in 0..m.functions.len() {
        begin_with(m, f, &computed);
    }
    let gone: FxHashSet<Id> = computed.iter().map(|(id, _)| *id).collect();
    remove_globals(m, |m, r| {
        let i = m.inst(r);
        i.result.or_else(|| i.note_target()).is_some_and(|id| gone.contains(&id))
    });
    Ok(())
}

/// Returns the constants that are computed with such types and that only code uses, or others of them, in their order.
fn in_code(m: &Module, cx: &Cx<'_>) -> Vec<(Id, Inst)> {
    let mut soft = MadeOf::numbers(|m, s| cx.lacks.in_software(m, s));
    let mut touches =
        |i: &Inst| i.ty.into_iter().chain(i.ids().filter_map(|id| m.type_of(id))).any(|ty| soft.any(m, ty));
    let all = m.globals_with(Op::SpecConstantOp).map(|r| m.inst(r)).filter(|i| touches(i));
    let mut computed: Vec<(Id, Inst)> = all.filter_map(|i| Some((i.result?, i.clone()))).collect();
    loop {
        let ours: FxHashSet<Id> = computed.iter().map(|(id, _)| *id).collect();
        let others = m.globals.iter().map(|r| m.inst(*r));
        let others = others.filter(|i| i.note_target().is_none() && i.result.is_none_or(|id| !ours.contains(&id)));
        let mut needed: FxHashSet<Id> = others.flat_map(|i| i.ids().collect::<Vec<_>>()).collect();
        m.functions.iter().flat_map(|f| f.insts()).for_each(|r| constant_operands(m, m.inst(r), &mut needed));
        let before = computed.len();
        computed.retain(|(id, _)| !needed.contains(id));
        if computed.len() == before {
            return computed;
        }
    }
}

/// Adds the operands of an instruction in code that have to be constants.
fn constant_operands(m: &Module, i: &Inst, out: &mut FxHashSet<Id>) {
    if i.op == Op::Variable || i.op.group_operation().is_some() {
        out.extend(i.ids());
        return;
    }
    let words: Vec<u32> = i.operands.iter().map(|o| o.word()).collect();
    decode(m, i.op, i.ty, &words, &mut |piece| {
        if matches!(piece.kind, Kind::IdScope | Kind::IdMemorySemantics) {
            out.extend(i.id(piece.start));
        }
    });
}

/// Computes the constants that a function uses at its beginning.
fn begin_with(m: &mut Module, f: usize, computed: &[(Id, Inst)]) {
    let mut used: FxHashSet<Id> = m.functions[f].insts().flat_map(|r| m.inst(r).ids().collect::<Vec<_>>()).collect();
    for (id, i) in computed.iter().rev() {
        if used.contains(id) {
            used.extend(i.ids());
        }
    }
    let mut ids: FxHashMap<Id, Id> = FxHashMap::default();
    let mut new: Vec<InstRef> = Vec::new();
    for (id, i) in computed.iter().filter(|(id, _)| used.contains(id)) {
        let op = i.operands.first().and_then(|op| u16::try_from(op.word()).ok()).map(Op);
        let (Some(op), fresh) = (op, m.fresh_id()) else { continue };
        let mut inst = Inst::new(op, i.ty, Some(fresh), i.operands.iter().skip(1).copied());
        inst.map_ids(|id| ids.get(&id).copied().unwrap_or(id));
        // The result is no operand of its own.
        inst.result = Some(fresh);
        ids.insert(*id, fresh);
        new.push(m.add(inst));
    }
    for r in m.functions[f].insts().collect::<Vec<_>>() {
        if m.inst(r).ids().any(|id| ids.contains_key(&id)) {
            m.inst_mut(r).map_ids(|id| ids.get(&id).copied().unwrap_or(id));
        }
    }
    let Some(entry) = m.functions[f].blocks.first() else { return };
    let at = entry.insts.iter().position(|r| m.inst(*r).op != Op::Variable).unwrap_or(entry.insts.len());
    m.functions[f].blocks[0].insts.insert_many(at, new);
}
