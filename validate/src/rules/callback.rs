//! Functions that an instruction calls: for each element, to combine two elements, or to decode a block.

use crate::cx::Cx;
use coop_ir::effects::{self, Written};
use coop_ir::spv::StorageClass;
use coop_ir::types::{self, Scalar};
use coop_ir::{Id, InstRef, Op, Operand};

/// A function with its type. Parameters are not copied: there may be many.
pub(crate) struct Callback<'a> {
    /// The `OpFunction`.
    pub(crate) at: InstRef,
    pub(crate) ret: Id,
    params: &'a [Operand],
}

impl<'a> Callback<'a> {
    /// Returns the function `id`; `None` if it is not a function, or has no function type.
    pub(crate) fn of(cx: &Cx<'a>, id: Id) -> Option<Callback<'a>> {
        let at = cx.def(id).filter(|r| cx.inst(*r).op == Op::Function)?;
        let ty =
            cx.inst(at).function_type().and_then(|t| cx.module.def_inst(t)).filter(|i| i.op == Op::TypeFunction)?;
        Some(Callback { at, ret: ty.id(0)?, params: ty.operands.get(1..)? })
    }

    pub(crate) fn len(&self) -> usize {
        self.params.len()
    }

    /// Returns the type of a parameter.
    pub(crate) fn param(&self, i: usize) -> Option<Id> {
        self.params.get(i)?.id()
    }

    /// Returns the `OpFunctionParameter` for labels, or else the function.
    pub(crate) fn param_at(&self, cx: &Cx, i: usize) -> InstRef {
        let function = cx.module.functions.iter().find(|f| f.def == self.at);
        let mut params = function.iter().flat_map(|f| &f.params).filter(|r| cx.inst(**r).op == Op::FunctionParameter);
        params.nth(i).copied().unwrap_or(self.at)
    }

    /// Returns the types of the parameters as text: `u32, u32, f16`.
    pub(crate) fn signature(&self, cx: &Cx) -> String {
        let params: Vec<String> = (0..self.len().min(8)).filter_map(|i| Some(cx.describe(self.param(i)?))).collect();
        let more = if self.len() > 8 { ", ..." } else { "" };
        format!("{} ({}{more})", cx.describe(self.ret), params.join(", "))
    }
}

/// Returns true for a 32-bit integer type of either sign.
pub(crate) fn is_int32(cx: &Cx, ty: Id) -> bool {
    matches!(cx.scalar(ty), Some(Scalar::Int { width: 32, .. }))
}

/// Returns the first instruction of `function`, or of its callees, that writes memory that outlives the call.
pub(crate) fn side_effect(cx: &Cx, function: Id) -> Option<InstRef> {
    *cx.side_effects.borrow_mut().entry(function).or_insert_with(|| find_side_effect(cx, function))
}

fn find_side_effect(cx: &Cx, function: Id) -> Option<InstRef> {
    let calls = cx.calls();
    let reached = calls.reachable(calls.function(function));
    let blocks = reached.iter().flat_map(|f| &cx.module.functions[*f].blocks);
    blocks.into_iter().find_map(|b| b.insts.iter().copied().find(|r| writes(cx, *r)))
}

fn writes(cx: &Cx, at: InstRef) -> bool {
    match effects::written(cx.module, cx.inst(at)) {
        Written::Nothing | Written::Output => false,
        Written::Through(pointer) => types::storage_of(cx.module, pointer) != Some(StorageClass::Function),
        Written::Image | Written::Anything => true,
    }
}
