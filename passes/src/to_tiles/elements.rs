//! Visits the elements of tiles that an invocation holds.
//!
//! The device decides how many elements those are when the shader is compiled. Element `i` of a tile has the same position
//! as element `i` of any other tile of the same type.

use super::inst::Slot;
use coop_ir::builder::{FunctionBuilder, Index, Unroll};
use coop_ir::spv::StorageClass;
use coop_ir::{Id, Op, Operand};

/// A tile like the first of `tiles`, all of type `ty`, with what `body` makes of their elements.
pub(super) fn map(
    b: &mut FunctionBuilder<'_>,
    slot: Option<&mut Slot>,
    (ty, elem): (Id, Id),
    tiles: &[Id],
    body: &mut dyn FnMut(&mut FunctionBuilder<'_>, &[Id]) -> Id,
) -> Id {
    let variables: Vec<Id> = tiles
        .iter()
        .map(|tile| {
            let variable = b.variable(ty);
            b.effect(Op::Store, [variable, *tile].map(Operand::Id));
            variable
        })
        .collect();
    let word = b.u32_type();
    let length = b.ids(Op::CooperativeMatrixLengthKHR, word, &[ty]);
    let pointer = b.globals.pointer(b.module, StorageClass::Function, elem);
    b.count(Index::Const(0), Index::Value(length), Index::Const(1), Unroll::Ask, &mut |b, i| {
        let i = b.index(i);
        let places: Vec<Id> = variables.iter().map(|v| b.ids(Op::AccessChain, pointer, &[*v, i])).collect();
        let values: Vec<Id> = places.iter().map(|p| b.ids(Op::Load, elem, &[*p])).collect();
        let value = body(b, &values);
        b.effect(Op::Store, [places[0], value].map(Operand::Id));
    });
    let operands = [Operand::Id(variables[0])];
    match slot {
        Some(slot) => slot.op(b, Op::Load, ty, operands),
        None => b.op(Op::Load, ty, operands),
    }
}
