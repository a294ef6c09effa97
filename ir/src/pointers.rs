//! Where pointers come from.

use crate::grammar::Op;
use crate::module::{Id, Module};

/// Definitions come before their uses, so that a walk ends; a cycle, which only broken modules have, is cut here.
const MOST_STEPS: usize = 1000;

/// Returns the pointer that another is derived from: the result of the first instruction, from the pointer on, that `follows`
/// does not take for a step. `None`: nothing defines it.
///
/// Which instructions count as steps depends on who asks: [`Op::is_member_chain`] stays inside of an object,
/// [`Op::derives_pointer`] follows whatever makes a pointer of another one.
pub fn root(module: &Module, pointer: Id, follows: impl Fn(Op) -> bool) -> Option<Id> {
    let mut id = pointer;
    for _ in 0..MOST_STEPS {
        let inst = module.def_inst(id)?;
        if !follows(inst.op) {
            return Some(id);
        }
        // The data type is in front of the base of an untyped chain.
        id = inst.id(usize::from(inst.op.is_untyped()))?;
    }
    None
}
