//! Removes the hints to unroll loops, where the driver follows them whatever that takes.
//!
//! SwiftShader optimizes modules with spirv-opt's loop-unroll, which unrolls every loop with the hint and a number of rounds that is
//! known: some nested loops of a few instructions take gigabytes (docs/drivers.md).

use crate::Refusal;
use crate::pipeline::Cx;
use coop_ir::spv::LoopControl;
use coop_ir::{Inst, InstRef, Module, Op};

/// The operand of `OpLoopMerge` that has the hints.
const HINTS: usize = 2;

fn hints(i: &Inst) -> Option<LoopControl> {
    i.enumerant(HINTS).filter(|hints: &LoopControl| i.op == Op::LoopMerge && hints.contains(LoopControl::Unroll))
}

/// Returns true if a loop has the hint.
pub(crate) fn has_any(m: &Module) -> bool {
    let mut any = false;
    m.in_blocks(|_, i| any |= hints(i).is_some());
    any
}

pub(crate) fn run(m: &mut Module, cx: &mut Cx<'_>) -> Result<(), Refusal> {
    if cx.lacks.unrolls_all() {
        let all: Vec<InstRef> = m.functions.iter().flat_map(|f| f.insts()).collect();
        for r in all {
            if let Some(hints) = hints(m.inst(r)) {
                m.inst_mut(r).operands[HINTS] = (hints - LoopControl::Unroll).0.into();
            }
        }
    }
    Ok(())
}
