//! Check 16: types of values where they must be the same, and values where types would be taken for them.

use super::Verifier;
use crate::decode::{decode, is_in};
use crate::grammar::Op;
use crate::module::{Function, Id, IdSet, Inst, InstRef, Operand};
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
                op if op.is_access_chain() => {
                    if let Some(chain) = inst.access_chain() {
                        inst.ids_from(chain.first).for_each(|id| self.is_index(r, id));
                    }
                }
                op if op.is_conversion() => {
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
        if let Some(ty) = def.ty.filter(|ty| *ty != must) {
            self.problem(16, r, format_args!("{value} has type {ty}, and must have {must}"));
        }
    }

    /// Requires an id to be that of an integer, if it is that of a value whose type is known.
    fn is_index(&mut self, r: InstRef, id: Id) {
        let ty = self.module.type_of(id).and_then(|ty| Type::of(self.module, ty));
        if ty.is_some_and(|ty| !ty.scalar().is_some_and(Scalar::is_int)) {
            self.problem(16, r, format_args!("its index {id} is not an integer"));
        }
    }

    /// Requires the operands of all instructions to be values where the grammar asks for such. Check 8 tells of labels.
    pub(super) fn operands_are_values(&mut self) {
        let module = self.module;
        let mut others = IdSet::default();
        let functions = module.functions.iter().map(|f| f.def);
        for inst in module.globals.iter().copied().chain(functions).map(|r| module.inst(r)) {
            if let Some(id) = inst.result.filter(|_| !inst.opaque && (inst.ty.is_none() || inst.op == Op::Function)) {
                others.insert(id);
            }
        }
        let bodies = module.functions.iter().flat_map(|f| &f.blocks).flat_map(|b| &b.insts);
        for &r in module.globals.iter().chain(bodies) {
            let inst = module.inst(r);
            let not_values = inst.op.not_values();
            if not_values == u16::MAX {
                continue;
            }
            for (i, operand) in inst.operands.iter().enumerate() {
                if let Operand::Id(id) = *operand
                    && others.contains(id)
                    && !is_in(not_values, i)
                    && self.is_value(inst, i)
                {
                    self.problem(16, r, format_args!("{id} is not a value"));
                }
            }
        }
    }

    /// Returns true if an operand of an instruction is a value by what stands before it too.
    #[cold]
    fn is_value(&self, inst: &Inst, operand: usize) -> bool {
        let words: Vec<u32> = inst.operands.iter().map(|o| o.word()).collect();
        let mut found = false;
        decode(self.module, inst.op, inst.ty, &words, &mut |p| found |= p.start == operand && p.is_value);
        found
    }
}
