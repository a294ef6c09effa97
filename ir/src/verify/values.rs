//! Check 16: types of values where they must be the same, and values where types would be taken for them.

use super::Verifier;
use crate::grammar::Op;
use crate::module::{Function, Id, Inst, InstRef};
use crate::types::{Scalar, Type};

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
                Op::BranchConditional | Op::Switch => self.is_value(r, inst.id(0)),
                Op::Variable => self.is_value(r, inst.id(1)),
                Op::Bitcast => self.is_value(r, inst.id(0)),
                op if op.is_access_chain() => {
                    if let Some(chain) = inst.access_chain() {
                        self.is_value(r, Some(chain.base));
                        inst.ids_from(chain.first).for_each(|id| self.is_index(r, id));
                    }
                }
                op if op.is_conversion() => {
                    self.is_value(r, inst.converted());
                    let count = |ty: Option<Id>| match Type::of(self.module, ty?)? {
                        Type::Vector { len, .. } => Some(len),
                        Type::Scalar(_) => Some(1),
                        _ => None,
                    };
                    let from = inst.converted().and_then(|id| self.module.type_of(id));
                    if let (Some(from), Some(to)) = (count(from), count(inst.ty))
                        && from != to
                    {
                        self.problem(16, r, format_args!("a conversion of {from} components gives {to}"));
                    }
                }
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
            None => self.is_value(r, Some(value)),
        }
    }

    /// Requires an id to be that of an integer, if it is that of a value whose type is known.
    fn is_index(&mut self, r: InstRef, id: Id) {
        self.is_value(r, Some(id));
        let ty = self.module.type_of(id).and_then(|ty| Type::of(self.module, ty));
        if ty.is_some_and(|ty| !ty.scalar().is_some_and(Scalar::is_int)) {
            self.problem(16, r, format_args!("its index {id} is not an integer"));
        }
    }

    /// Requires an id to be that of a value, if it is known. Check 8 tells of labels.
    fn is_value(&mut self, r: InstRef, id: Option<Id>) {
        let Some((id, def)) = id.and_then(|id| Some((id, self.def(id)?))) else { return };
        if def.ty.is_none() && !def.opaque && def.op != Op::Label {
            self.problem(16, r, format_args!("{id} is not a value"));
        }
    }
}
