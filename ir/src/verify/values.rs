//! Check 16: types of values where they must be the same.

use super::Verifier;
use crate::grammar::Op;
use crate::module::{Function, Id, Inst, InstRef};

impl Verifier<'_> {
    /// Checks the instructions of a function that move values without changing them.
    pub(super) fn values(&mut self, function: &Function) {
        for &r in function.blocks.iter().flat_map(|b| &b.insts) {
            let inst = self.module.inst(r);
            match inst.op {
                Op::Phi => inst.operands.iter().step_by(2).for_each(|o| self.has_type(r, o.id(), inst.ty)),
                Op::Select => inst.ids_from(1).for_each(|id| self.has_type(r, Some(id), inst.ty)),
                Op::CopyObject => self.has_type(r, inst.id(0), inst.ty),
                Op::Load => {
                    let pointee = self.pointee(inst, 0);
                    if let (Some(pointee), Some(ty)) = (pointee, inst.ty.filter(|t| Some(*t) != pointee)) {
                        self.problem(16, r, format_args!("its type is {ty}, and the pointer is one to {pointee}"));
                    }
                }
                Op::Store => self.has_type(r, inst.id(1), self.pointee(inst, 0)),
                _ => {}
            }
        }
    }

    /// Returns the type behind the pointer in an operand, if the pointer is typed.
    fn pointee(&self, inst: &Inst, operand: usize) -> Option<Id> {
        let pointer = self.def(inst.id(operand)?)?.ty?;
        self.def(pointer).filter(|t| t.op == Op::TypePointer)?.id(1)
    }

    /// Requires a value to have this type, if both are known.
    fn has_type(&mut self, r: InstRef, value: Option<Id>, must: Option<Id>) {
        let (Some(value), Some(must)) = (value, must) else { return };
        let Some(def) = self.def(value) else { return };
        match def.ty {
            Some(ty) if ty == must => {}
            Some(ty) => self.problem(16, r, format_args!("{value} has type {ty}, and must have {must}")),
            None if def.opaque => {}
            None => self.problem(16, r, format_args!("{value} is not a value")),
        }
    }
}
