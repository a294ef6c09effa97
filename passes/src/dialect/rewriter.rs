//! Rewrites a module instruction by instruction, inserting new instructions in front of the one being visited.

use crate::{Refusal, malformed};
use coop_ir::builder::{FunctionBuilder, Globals, Index};
use coop_ir::constant::{Constants, Specialization};
use coop_ir::types::{self, Scalar, Type};
use coop_ir::{Id, Inst, InstRef, Module, Op, Operand};

/// Rows, columns and use of a matrix type, and its component type.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) ty: Id,
    pub(super) component: Id,
    pub(super) scalar: Scalar,
    pub(super) rows: u32,
    pub(super) cols: u32,
    pub(super) use_: u32,
}

/// The module being rewritten, and the instructions made in front of the visited one.
pub(super) struct Rewriter<'m> {
    pub(super) m: &'m mut Module,
    pub(super) g: Globals,
    pub(super) constants: Constants,
    /// True if anything was changed.
    pub(super) changed: bool,
    new: Vec<InstRef>,
    at: Option<InstRef>,
}

impl<'m> Rewriter<'m> {
    pub(super) fn new(m: &'m mut Module) -> Rewriter<'m> {
        let (g, constants) = (Globals::new(m), Constants::new(m, &Specialization::new()));
        Rewriter { m, g, constants, changed: false, new: Vec::new(), at: None }
    }

    /// Visits every instruction of every block. `visit` returns true if the instruction, or its replacement, stays.
    pub(super) fn each(
        &mut self,
        visit: &mut dyn FnMut(&mut Rewriter<'m>, InstRef) -> Result<bool, Refusal>,
    ) -> Result<(), Refusal> {
        // Functions made during the visit are appended and not visited.
        for f in 0..self.m.functions.len() {
            for at in 0..self.m.functions[f].blocks.len() {
                let insts = self.m.functions[f].blocks[at].insts.clone();
                let mut all = Vec::with_capacity(insts.len());
                for r in &insts {
                    self.at = Some(*r);
                    let stays = visit(self, *r)?;
                    all.append(&mut self.new);
                    all.extend(stays.then_some(*r));
                }
                if all[..] != insts[..] {
                    self.changed = true;
                    self.m.functions[f].blocks[at].insts = all.into();
                }
            }
        }
        Ok(())
    }

    /// Makes an instruction with a result.
    pub(super) fn op(&mut self, op: Op, ty: Id, operands: impl IntoIterator<Item = Operand>) -> Id {
        let id = self.m.fresh_id();
        let origin = self.at.and_then(|r| self.m.inst(r).origin);
        let r = self.m.add(Inst::new(op, Some(ty), Some(id), operands).at(origin));
        self.new.push(r);
        id
    }

    /// Makes an instruction whose operands are all ids.
    pub(super) fn ids(&mut self, op: Op, ty: Id, operands: &[Id]) -> Id {
        self.op(op, ty, operands.iter().map(|id| Operand::Id(*id)))
    }

    /// Makes an instruction without a result.
    pub(super) fn effect(&mut self, op: Op, operands: impl IntoIterator<Item = Operand>) {
        let origin = self.at.and_then(|r| self.m.inst(r).origin);
        let r = self.m.add(Inst::new(op, None, None, operands).at(origin));
        self.new.push(r);
    }

    /// Replaces an instruction, keeping its result id and type.
    pub(super) fn replace(&mut self, r: InstRef, op: Op, operands: impl IntoIterator<Item = Operand>) {
        let old = self.m.inst(r);
        let new = Inst::new(op, old.ty, old.result, operands).at(old.origin);
        self.m.replace(r, new);
        self.changed = true;
    }

    /// Replaces an instruction by a call of a function.
    pub(super) fn call(&mut self, r: InstRef, function: Id, args: &[Id]) {
        let operands: Vec<Operand> = [function].iter().chain(args).map(|id| Operand::Id(*id)).collect();
        self.replace(r, Op::FunctionCall, operands);
    }

    /// Returns the value of a constant, if it is known.
    pub(super) fn known(&self, id: Id) -> Option<u64> {
        let own = || self.m.def_inst(id).filter(|i| i.op == Op::Constant && i.operands.len() == 1)?.literal();
        self.constants.get(id).fixed().or_else(|| own().map(u64::from))
    }

    /// Converts an integer of any width to 32 bits.
    pub(super) fn word(&mut self, r: InstRef, id: Id) -> Result<Id, Refusal> {
        let Some(Scalar::Int { width, signed }) = self.m.type_of(id).and_then(|t| types::scalar(self.m, t)) else {
            return malformed(r, format!("an operand of {} is not an integer", self.m.inst(r).op));
        };
        if width == 32 {
            return Ok(id);
        }
        if let Some(v) = self.known(id) {
            let v = if signed && width < 32 { ((v << (64 - width)) as i64 >> (64 - width)) as u64 } else { v };
            return Ok(self.g.u32(self.m, v as u32));
        }
        let word = self.g.uint(self.m, 32);
        let op = if signed && width < 32 { Op::SConvert } else { Op::UConvert };
        Ok(self.ids(op, word, &[id]))
    }

    /// Returns the matrix type with this id.
    pub(super) fn shape_of_type(&self, r: InstRef, ty: Option<Id>) -> Result<Shape, Refusal> {
        let found = || {
            let ty = types::coop_mat(self.m, ty?)?;
            let view = ty.view(self.m, &self.constants);
            let number = |c: &coop_ir::constant::Const| c.fixed().and_then(|v| u32::try_from(v).ok());
            Some(Shape {
                ty: ty.id,
                component: ty.component,
                scalar: view.component?,
                rows: number(&view.rows)?,
                cols: number(&view.cols)?,
                use_: number(&view.use_)?,
            })
        };
        found().map_or_else(
            || malformed(r, format!("{} does not operate on a matrix type with known operands", self.m.inst(r).op)),
            Ok,
        )
    }

    /// Returns the matrix type of a value.
    pub(super) fn shape(&self, r: InstRef, value: Id) -> Result<Shape, Refusal> {
        self.shape_of_type(r, self.m.type_of(value))
    }

    /// Returns the matrix type of the same shape and use with another component type.
    pub(super) fn of_component(&mut self, shape: Shape, component: Id) -> Id {
        let Some(inst) = self.m.def_inst(shape.ty) else { return shape.ty };
        let mut operands = inst.operands.clone();
        operands[0] = component.into();
        self.type_with(Op::TypeCooperativeMatrixKHR, &operands)
    }

    /// Returns the type with these operands, declaring it if needed.
    pub(super) fn type_with(&mut self, op: Op, operands: &[Operand]) -> Id {
        let same = self.m.globals_with(op).find(|r| self.m.inst(*r).operands[..] == *operands);
        if let Some(id) = same.and_then(|r| self.m.inst(r).result) {
            return id;
        }
        let id = self.m.fresh_id();
        let r = self.m.add(Inst::new(op, None, Some(id), operands.iter().copied()));
        self.m.globals.push(r);
        id
    }

    /// Returns the pointee type of a pointer.
    pub(super) fn pointee(&self, pointer: Id) -> Option<Id> {
        match Type::of(self.m, self.m.type_of(pointer)?)? {
            Type::Pointer { pointee, .. } => Some(pointee),
            _ => None,
        }
    }

    /// Begins a new function of the output.
    pub(super) fn function(&mut self, label: &str, ret: Id, params: &[Id]) -> FunctionBuilder<'_> {
        FunctionBuilder::new(self.m, &mut self.g, label, ret, params)
    }
}

/// Returns the condition that `begin + at` is less than `end`, where `begin` may be negative.
pub(super) fn within(b: &mut FunctionBuilder<'_>, begin: Id, at: Id, end: Id) -> Id {
    let sum = b.add(Index::Value(begin), Index::Value(at));
    b.compare(Op::ULessThan, sum, Index::Value(end))
}
