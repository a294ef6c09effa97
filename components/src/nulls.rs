//! Spells out null arrays, number by number.
//!
//! spirv-opt, which SwiftShader has inside, ends at an `OpCompositeInsert` into an `OpConstantNull` of an array (docs/drivers.md).
//! Initializers stay: shared memory may have no other.

use crate::Refusal;
use crate::pipeline::Cx;
use coop_ir::builder::Globals;
use coop_ir::constant::{Constants, Specialization};
use coop_ir::hash::FxHashSet;
use coop_ir::rewrite::sort_globals;
use coop_ir::types::Type;
use coop_ir::{Id, Inst, Module, Op, Operand};

/// The most elements of an array that is spelled out.
const MOST: u32 = 256;

pub(crate) fn run(m: &mut Module, _: &mut Cx<'_>) -> Result<(), Refusal> {
    let inserted_into = |i: &Inst| (i.op == Op::CompositeInsert).then(|| i.ids().nth(1)).flatten();
    let is_null = |m: &Module, id: &Id| m.def_inst(*id).is_some_and(|i| i.op == Op::ConstantNull);
    if !m.all().filter_map(|r| inserted_into(m.inst(r))).any(|id| is_null(m, &id)) {
        return Ok(());
    }
    let constants = Constants::new(m, &Specialization::new());
    let initial: FxHashSet<Id> =
        m.all().map(|r| m.inst(r)).filter(|i| i.op == Op::Variable).flat_map(Inst::ids).collect();
    let mut g = Globals::new(m);
    let mut at = 0;
    // Elements that are arrays come behind, and have their turn.
    while let Some(r) = m.globals.get(at).copied() {
        at += 1;
        let i = m.inst(r).clone();
        let array = i.ty.filter(|_| i.op == Op::ConstantNull).and_then(|ty| Type::of(m, ty));
        let Some(Type::Array { elem, len }) = array else { continue };
        let len = constants.get(len).fixed_as::<u32>().filter(|len| (1..=MOST).contains(len));
        if let Some(len) = len.filter(|_| i.result.is_some_and(|id| !initial.contains(&id))) {
            let zero = Operand::Id(g.null(m, elem));
            m.replace(r, Inst::new(Op::ConstantComposite, i.ty, i.result, vec![zero; len as usize]));
        }
    }
    sort_globals(m);
    Ok(())
}
