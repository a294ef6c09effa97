//! Gives a function one exit.

use crate::ssa;
use coop_ir::builder::Globals;
use coop_ir::{Block, Id, Inst, InstList, InstRef, Module, Op, Operand};

/// Makes every exit of the function branch to one block, which returns; unreachable code branches there too.
pub(crate) fn one_return(m: &mut Module, g: &mut Globals, f: usize) {
    let ends = |m: &Module, b: &Block| b.terminator().filter(|t| m.inst(*t).op.leaves_function());
    let ends: Vec<InstRef> = m.functions[f].blocks.iter().filter_map(|b| ends(m, b)).collect();
    if matches!(ends.as_slice(), [one] if m.inst(*one).op != Op::Unreachable) {
        return;
    }
    let Some(ret) = m.inst(m.functions[f].def).ty else { return };
    let result = (m.def_inst(ret).is_some_and(|i| i.op != Op::TypeVoid)).then(|| ssa::variable(m, g, f, ret));
    let label = m.fresh_id();
    for r in ends {
        if let (Some(variable), Some(value)) = (result, m.inst(r).returned()) {
            store_before(m, f, r, variable, value);
        }
        m.replace(r, Inst::new(Op::Branch, None, None, [label.into()]));
    }
    let label = m.add(Inst::new(Op::Label, None, Some(label), []));
    let mut insts = InstList::new();
    match result {
        None => insts.push(m.add(Inst::new(Op::Return, None, None, []))),
        Some(variable) => {
            let value = m.fresh_id();
            insts.push(m.add(Inst::new(Op::Load, Some(ret), Some(value), [variable.into()])));
            insts.push(m.add(Inst::new(Op::ReturnValue, None, None, [value.into()])));
        }
    }
    m.functions[f].blocks.push(Block { lead: Vec::new(), label, insts });
    ssa::promote(m, f, &result.into_iter().collect::<Vec<_>>());
}

fn store_before(m: &mut Module, f: usize, before: InstRef, variable: Id, value: Id) {
    let inst = Inst::new(Op::Store, None, None, [variable, value].map(Operand::Id));
    let r = m.add(inst);
    for block in &mut m.functions[f].blocks {
        if let Some(at) = block.insts.iter().position(|i| *i == before) {
            block.insts.insert(at, r);
            return;
        }
    }
}
