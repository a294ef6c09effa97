//! Check 16: types of values where they must be the same, and values where types would be taken for them.

use super::Verifier;
use crate::decode::{decode, is_in};
use crate::grammar::{Class, Kind, Op};
use crate::module::{Function, Id, IdSet, Inst, InstRef, Operand};
use crate::types::{Scalar, Type};
use std::fmt;

impl Verifier<'_> {
    /// Checks the instructions of a function that move values without changing them.
    pub(super) fn values(&mut self, function: &Function) {
        for &r in function.blocks.iter().flat_map(|b| &b.insts) {
            let inst = self.module.inst(r);
            match inst.op {
                Op::Phi => inst.operands.iter().step_by(2).for_each(|o| self.has_type(r, o.id(), inst.ty)),
                Op::Select => inst.ids_from(1).for_each(|id| self.has_type(r, Some(id), inst.ty)),
                Op::CopyObject => self.has_type(r, inst.id(0), inst.ty),
                Op::VectorTimesScalar | Op::MatrixTimesScalar => {
                    self.has_type(r, inst.id(0), inst.ty);
                    let part = |ty: Id| self.def(ty)?.part_type(0);
                    let column = |ty: &Id| self.def(*ty).is_some_and(|t| t.op == Op::TypeVector);
                    let scalar = inst.ty.and_then(part).and_then(|p| if column(&p) { part(p) } else { Some(p) });
                    self.has_type(r, inst.id(1), scalar);
                }
                Op::Variable => self.variable(r, inst),
                Op::CompositeExtract => {
                    let whole = inst.id(0).and_then(|id| self.module.type_of(id));
                    if let (Some(part), Some(ty)) =
                        (self.part(whole, inst.operands.get(1..).unwrap_or_default()), inst.ty)
                        && part != Some(ty)
                    {
                        let part = part.map_or_else(|| "nothing".to_owned(), |part| part.to_string());
                        self.problem(16, r, format_args!("its type is {ty}, and its indices lead to {part}"));
                    }
                }
                Op::CompositeInsert => {
                    self.has_type(r, inst.id(1), inst.ty);
                    match self.part(inst.ty, inst.operands.get(2..).unwrap_or_default()) {
                        Some(None) => self.problem(16, r, "its indices lead to nothing"),
                        part => self.has_type(r, inst.id(0), part.flatten()),
                    }
                }
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
                    let count = |ty: Option<Id>| self.components(ty?).filter(|n| *n > 0);
                    let from = inst.converted().and_then(|id| self.module.type_of(id));
                    if let (Some(from), Some(to)) = (count(from), count(inst.ty))
                        && from != to
                    {
                        let (from, to) = (Count(from), Count(to));
                        self.problem(16, r, format_args!("a conversion of {from} gives {to}"));
                    }
                }
                Op::Bitcast => {
                    let from = inst.id(0).and_then(|id| self.module.type_of(id));
                    for ty in inst.ty.into_iter().chain(from) {
                        if self.def(ty).and_then(Type::of_inst).is_some_and(|t| !is_cast(&t)) {
                            self.problem(16, r, format_args!("values of type {ty} can't be cast by their bits"));
                        }
                    }
                }
                op if op.is_componentwise() && !op.is_bit_field() => {
                    let (Some(ty), mut before) = (inst.ty, None) else { continue };
                    // A pointer becomes a number, or a number a pointer.
                    let is_conversion = op.info().is_some_and(|info| info.class == Class::Conversion);
                    for id in inst.ids() {
                        let of = self.module.type_of(id).filter(|of| *of != ty && Some(*of) != before);
                        before = of.or(before);
                        if let (Some(of), Some(to)) = (of, self.components(ty).filter(|n| *n > 0))
                            && self.components(of).is_some_and(|from| from != to && !(from == 0 && is_conversion))
                        {
                            self.problem(16, r, format_args!("{id} has type {of}, and not as many components as {ty}"));
                        }
                    }
                }
                op if op.is_atomic() => {
                    let must = inst.ty.or_else(|| self.pointee(inst, 0));
                    let (ty, result) = op.has_type_and_result();
                    let kinds =
                        op.info().map_or(&[][..], |info| &info.operands[usize::from(ty) + usize::from(result)..]);
                    for (i, _) in kinds.iter().enumerate().skip(1).filter(|(_, (kind, _))| *kind == Kind::IdRef) {
                        self.has_type(r, inst.id(i), must);
                    }
                }
                _ => {}
            }
        }
    }

    /// Returns the number of components of a number or truth value, or of a vector of such; one that no vector has for a
    /// cooperative matrix, and 0 for other types.
    fn components(&self, ty: Id) -> Option<u32> {
        let ty = self.def(ty)?;
        match ty.op {
            Op::TypeVector => ty.word(1),
            Op::TypeBool | Op::TypeInt | Op::TypeFloat => Some(1),
            Op::TypeCooperativeMatrixKHR | Op::TypeCooperativeMatrixNV => Some(u32::MAX),
            op => op.is_type().then_some(0),
        }
    }

    /// Returns the type of the part of a composite to which indices lead: `None` if a type on the way is not known, `Some(None)`
    /// if there is no such part.
    fn part(&self, whole: Option<Id>, indices: &[Operand]) -> Option<Option<Id>> {
        let mut ty = whole?;
        for index in indices {
            match self.def(ty)?.part_type(index.word()) {
                Some(part) => ty = part,
                None => return Some(None),
            }
        }
        Some(Some(ty))
    }

    /// Checks the type of a variable and of its initializer.
    pub(super) fn variable(&mut self, r: InstRef, inst: &Inst) {
        let Some(ty) = inst.ty else { return };
        match self.def(ty) {
            Some(pointer) if pointer.op == Op::TypePointer => self.has_type(r, inst.initializer(), pointer.id(1)),
            Some(other) => self.problem(16, r, format_args!("its type {ty} is {}, not a pointer type", other.op)),
            None => {}
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

    /// Checks variables outside functions, and requires the operands of all instructions to be values where the grammar asks for such. Check 8 tells of labels.
    pub(super) fn operands_are_values(&mut self) {
        let module = self.module;
        let mut others = IdSet::default();
        let functions = module.functions.iter().map(|f| f.def);
        for inst in module.globals.iter().copied().chain(functions).map(|r| module.inst(r)) {
            if let Some(id) = inst.result.filter(|_| !inst.opaque && (inst.ty.is_none() || inst.op == Op::Function)) {
                others.insert(id);
            }
        }
        for (r, inst) in module.globals.iter().map(|r| (*r, module.inst(*r))).filter(|(_, i)| i.op == Op::Variable) {
            self.variable(r, inst);
        }
        let bodies = module.functions.iter().flat_map(|f| &f.blocks).flat_map(|b| &b.insts);
        for &r in module.globals.iter().chain(bodies) {
            let inst = module.inst(r);
            // A call of a function that returns nothing: what uses it comes later.
            if inst.op == Op::FunctionCall
                && let (Some(ty), Some(id)) = (inst.ty, inst.result)
                && self.def(ty).is_some_and(|t| t.op == Op::TypeVoid)
            {
                others.insert(id);
            }
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

/// Returns true if there are bit casts from and to a type: it is neither void, nor Boolean, nor a composite with a layout.
fn is_cast(ty: &Type) -> bool {
    !matches!(
        ty,
        Type::Void
            | Type::Bool
            | Type::Matrix { .. }
            | Type::Array { .. }
            | Type::RuntimeArray { .. }
            | Type::Struct { .. }
            | Type::Function { .. }
    )
}

/// A number of components in a message.
struct Count(u32);

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            u32::MAX => f.write_str("a matrix"),
            n => write!(f, "{n} components"),
        }
    }
}
