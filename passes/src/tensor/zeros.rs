//! Elements outside of tensors that read as zero, where a layout leaves them undefined.

use coop_ir::builder::Globals;
use coop_ir::constant::{Constants, Specialization};
use coop_ir::rewrite::{sort_globals, unify_types};
use coop_ir::{InstRef, Module, Op};

use super::{CLAMP_CONSTANT, CLAMP_UNDEFINED};

/// Gives layouts with the clamp mode Undefined the mode Constant, whose value is zero unless a module sets it. What is stored there
/// is left out.
pub(super) fn read(m: &mut Module) {
    let constants = Constants::new(m, &Specialization::new());
    let undefined = |r: &InstRef| {
        let mode = m.inst(*r).id(1).and_then(|id| constants.get(id).fixed());
        mode == Some(u64::from(CLAMP_UNDEFINED))
    };
    let layouts: Vec<InstRef> = m.globals_with(Op::TypeTensorLayoutNV).filter(undefined).collect();
    if layouts.is_empty() {
        return;
    }
    let mode = Globals::new(m).u32(m, CLAMP_CONSTANT);
    for r in layouts {
        m.inst_mut(r).operands[1] = mode.into();
    }
    sort_globals(m);
    unify_types(m);
}
