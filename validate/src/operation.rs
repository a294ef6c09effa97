//! Operations on values. A rule about an operation holds for the instruction and for the same operation in
//! `OpSpecConstantOp`.

use crate::cx::Cx;
use crate::matrix::MatrixType;
use crate::report::Part;
use coop_ir::{Id, InstRef, Op, Operand};

/// An instruction, or the operation of an `OpSpecConstantOp`.
#[derive(Clone, Copy)]
pub(crate) struct Operation<'a> {
    /// The instruction.
    pub(crate) at: InstRef,
    /// The opcode of the operation.
    pub(crate) op: Op,
    /// The type of the result.
    pub(crate) ty: Option<Id>,
    operands: &'a [Operand],
    /// The operands of the instruction in front of those of the operation.
    before: usize,
}

impl<'a> Operation<'a> {
    /// Returns the operation of an instruction.
    pub(crate) fn new(cx: &Cx<'a>, at: InstRef) -> Operation<'a> {
        let inst = cx.inst(at);
        Operation { at, op: inst.op, ty: inst.ty, operands: &inst.operands, before: 0 }
    }

    /// Returns the operation of an `OpSpecConstantOp`.
    pub(crate) fn specialized(cx: &Cx<'a>, at: InstRef) -> Option<Operation<'a>> {
        let inst = cx.inst(at);
        let op = inst.specialized_op()?;
        Some(Operation { at, op, ty: inst.ty, operands: inst.operands.get(1..)?, before: 1 })
    }

    /// Returns true if the operation is that of an `OpSpecConstantOp`.
    pub(crate) fn is_specialized(&self) -> bool {
        self.before > 0
    }

    /// Returns the operands.
    pub(crate) fn operands(&self) -> &'a [Operand] {
        self.operands
    }

    /// Returns operand `index`, if it is an id.
    pub(crate) fn id(&self, index: usize) -> Option<Id> {
        self.operands.get(index)?.id()
    }

    /// Returns the operands that are ids, with their indices.
    pub(crate) fn ids(&self) -> impl Iterator<Item = (usize, Id)> + 'a {
        self.operands.iter().enumerate().filter_map(|(i, o)| Some((i, o.id()?)))
    }

    /// Returns operand `index` as a part of the instruction.
    pub(crate) fn part(&self, index: usize) -> Part {
        Part::Operand(self.before + index)
    }

    /// Returns the part of the instruction that names the operation.
    pub(crate) fn opcode(&self) -> Part {
        if self.is_specialized() { Part::Operand(0) } else { Part::Whole }
    }

    /// Returns the first operand that is a matrix, or the result if none is, with its part of the instruction. With
    /// matrices of both extensions, it is one of SPV_KHR_cooperative_matrix.
    pub(crate) fn matrix<'c>(&self, cx: &'c Cx) -> Option<(MatrixType<'c>, Part)> {
        let operands = self.ids().filter_map(|(i, id)| Some((cx.matrix_type_of(id)?, self.part(i))));
        let result = self.ty.and_then(|t| cx.matrix_type(t)).map(|m| (m, Part::Type));
        let mut first = None;
        for found in operands.chain(result) {
            if let MatrixType::Khr(_) = found.0 {
                return Some(found);
            }
            first = first.or(Some(found));
        }
        first
    }
}
