//! Reads, writes and visits the elements of the arrays that replace matrices, in generated functions.

use super::Mat;
use crate::matrix::placement::Placement;
use coop_ir::builder::{FunctionBuilder, Index, Unroll};
use coop_ir::spv::StorageClass;
use coop_ir::{Id, Op, Operand};

/// Chooses how a loop over a lane's elements is unrolled.
pub(super) fn unroll(elements: u32) -> Unroll {
    match elements {
        0..=64 => Unroll::Now,
        65..=256 => Unroll::Ask,
        _ => Unroll::No,
    }
}

/// The same where much is done with each element.
pub(super) fn unroll_much(elements: u32) -> Unroll {
    match elements {
        0..=16 => Unroll::Now,
        17..=128 => Unroll::Ask,
        _ => Unroll::No,
    }
}

/// Visits the elements of a lane in order: row and column as the lane counts them, and the index.
pub(super) fn visit(
    b: &mut FunctionBuilder<'_>,
    placement: Placement,
    how: Unroll,
    body: &mut dyn FnMut(&mut FunctionBuilder<'_>, Index, Index, Index),
) {
    // Where the outer one is a loop, the inner one need not be written out.
    let inner = match (how, unroll(placement.cols.per_group)) {
        (Unroll::Now, _) => Unroll::Now,
        (_, Unroll::Now) => Unroll::Ask,
        (_, own) => own,
    };
    b.repeat(placement.rows.per_group, how, &mut |b, i| {
        let line = b.mul(i, Index::Const(placement.cols.per_group));
        b.repeat(placement.cols.per_group, inner, &mut |b, j| {
            let at = b.add(line, j);
            body(b, i, j, at);
        });
    });
}

/// An array that is read: where it is when every index is known, from a variable else.
pub(super) struct Array {
    elem: Id,
    value: Id,
    variable: Option<Id>,
}

impl Array {
    pub(super) fn new(b: &mut FunctionBuilder<'_>, mat: Mat, value: Id, dynamic: bool) -> Array {
        Array::of(b, mat.ty, mat.elem, value, dynamic)
    }

    /// Reads an array of any type `ty`.
    pub(super) fn of(b: &mut FunctionBuilder<'_>, ty: Id, elem: Id, value: Id, dynamic: bool) -> Array {
        let variable = dynamic.then(|| {
            let variable = b.variable(ty);
            b.effect(Op::Store, [variable.into(), value.into()]);
            variable
        });
        Array { elem, value, variable }
    }

    pub(super) fn get(&self, b: &mut FunctionBuilder<'_>, at: Index) -> Id {
        match (at, self.variable) {
            (Index::Const(at), None) => b.op(Op::CompositeExtract, self.elem, [self.value.into(), at.into()]),
            (at, variable) => {
                let slot = slot(b, variable.unwrap_or(self.value), self.elem, at);
                b.ids(Op::Load, self.elem, &[slot])
            }
        }
    }
}

/// The pointer to an element of an array in a variable of the function.
pub(super) fn slot(b: &mut FunctionBuilder<'_>, array: Id, elem: Id, at: Index) -> Id {
    let pointer = b.globals.pointer(b.module, StorageClass::Function, elem);
    let at = b.index(at);
    b.ids(Op::AccessChain, pointer, &[array, at])
}

/// An array that is being made: put together at the end when the indices are known and each comes once, else in a
/// variable.
pub(super) struct ArrayBuilder {
    ty: Id,
    elem: Id,
    parts: Vec<Option<Id>>,
    variable: Option<Id>,
}

impl ArrayBuilder {
    pub(super) fn new(b: &mut FunctionBuilder<'_>, mat: Mat, dynamic: bool) -> ArrayBuilder {
        ArrayBuilder::of(b, mat.ty, mat.elem, mat.placement.len(), dynamic)
    }

    /// Any array of type `ty`.
    pub(super) fn of(b: &mut FunctionBuilder<'_>, ty: Id, elem: Id, len: u32, dynamic: bool) -> ArrayBuilder {
        let variable = dynamic.then(|| b.variable(ty));
        ArrayBuilder { ty, elem, parts: vec![None; if dynamic { 0 } else { len as usize }], variable }
    }

    /// In a variable, with a value to begin with.
    pub(super) fn with(b: &mut FunctionBuilder<'_>, mat: Mat, value: Id) -> ArrayBuilder {
        let variable = b.variable(mat.ty);
        b.effect(Op::Store, [variable.into(), value.into()]);
        ArrayBuilder { ty: mat.ty, elem: mat.elem, parts: Vec::new(), variable: Some(variable) }
    }

    pub(super) fn set(&mut self, b: &mut FunctionBuilder<'_>, at: Index, value: Id) {
        match self.variable {
            Some(variable) => {
                let slot = slot(b, variable, self.elem, at);
                b.effect(Op::Store, [slot.into(), value.into()]);
            }
            None => {
                let Index::Const(at) = at else { unreachable!("the loops are written out") };
                self.parts[at as usize] = Some(value);
            }
        }
    }

    /// Sets all elements of each row to what is made of the first of them, which has the index that is given.
    pub(super) fn rows(
        &mut self,
        b: &mut FunctionBuilder<'_>,
        mat: Mat,
        how: Unroll,
        make: &mut dyn FnMut(&mut FunctionBuilder<'_>, Index, Index) -> Id,
    ) {
        let cols = mat.placement.cols.per_group;
        let inner = if how == Unroll::Now { how } else { unroll(cols) };
        b.repeat(mat.placement.rows.per_group, how, &mut |b, i| {
            let line = b.mul(i, Index::Const(cols));
            let value = make(b, i, line);
            b.repeat(cols, inner, &mut |b, j| {
                let at = b.add(line, j);
                self.set(b, at, value);
            });
        });
    }

    pub(super) fn finish(self, b: &mut FunctionBuilder<'_>) -> Id {
        match self.variable {
            Some(variable) => b.ids(Op::Load, self.ty, &[variable]),
            None => {
                let parts = self.parts.iter().flatten().copied().map(Operand::Id);
                b.op(Op::CompositeConstruct, self.ty, parts)
            }
        }
    }
}
