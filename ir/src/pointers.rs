//! The origin of pointers.

use crate::grammar::Op;
use crate::module::{Id, Module};

/// Definitions come before their uses, so a walk ends; this bound stops it at a cycle, which only malformed modules
/// have.
const MOST_STEPS: usize = 1000;

/// Returns the pointer from which another is derived: the result of the first instruction, from the pointer on, for
/// which `follows` is false. `None`: it has no definition.
///
/// The caller chooses the steps: [`Op::is_member_chain`] stays inside of an object, [`Op::derives_pointer`] follows
/// every instruction that derives a pointer from another one.
pub fn root(module: &Module, pointer: Id, follows: impl Fn(Op) -> bool) -> Option<Id> {
    let mut id = pointer;
    for _ in 0..MOST_STEPS {
        let inst = module.def_inst(id)?;
        if !follows(inst.op) {
            return Some(id);
        }
        // The data type precedes the base of an untyped chain.
        id = inst.id(usize::from(inst.op.is_untyped()))?;
    }
    None
}
