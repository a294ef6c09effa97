//! Lowers per-element operations and queries of coordinates.
//!
//! A callback is called for each element of the matrix. If it has side effects, the lane that owns the element calls it once;
//! if other lanes hold copies of the element and the result is used, the copies are then updated through shared memory.

use super::array::{Array, ArrayBuilder, unroll_much, visit};
use super::exchange::Conversion;
use super::exchange_buffer::where_;
use super::row_uniform::representative;
use super::{Key, Lower, Mat, unfit};
use crate::Refusal;
use crate::matrix::affine::Affine;
use crate::matrix::bits::small_type;
use crate::matrix::callback::{each_inst, has_effects};
use crate::matrix::position::{ElementPosition, LanePosition, both};
use coop_ir::builder::{FunctionBuilder, Index, Unroll};
use coop_ir::rewrite::insert_before;
use coop_ir::types::{self, Scalar, Type};
use coop_ir::{Id, Inst, InstRef, Op, Operand};

/// The instructions of callbacks that a lane may have written out, all together; more become a loop.
const WRITTEN_OUT: u32 = 1024;

impl Lower<'_, '_> {
    /// Returns the result type and the parameter types of a function.
    pub(super) fn signature_of(&self, function: Id) -> Option<(Id, Vec<Id>)> {
        let inst = self.m.def_inst(function).filter(|i| i.op == Op::Function)?;
        let ty = self.m.def_inst(inst.id(1)?)?;
        Some((ty.id(0)?, ty.ids_from(1).collect()))
    }

    pub(super) fn per_element(&mut self, r: InstRef) -> Result<(), Refusal> {
        let inst = self.m.inst(r);
        let (result, origin) = (inst.result, inst.origin);
        let mut ids = inst.ids();
        let (Some(matrix), Some(function)) = (ids.next(), ids.next()) else { return unfit(r) };
        let extras: Vec<Id> = ids.collect();
        let Some(mat) = self.mat_of(matrix) else { return unfit(r) };
        let Some((ret, params)) = self.signature_of(function) else { return unfit(r) };
        let extra_mats: Vec<Option<Mat>> = extras.iter().map(|e| self.mat_of(*e)).collect();
        let integer = |t: Id| matches!(types::scalar(self.m, t), Some(Scalar::Int { width: 32, .. }));
        let fits = params.len() == 3 + extras.len()
            && integer(params[0])
            && integer(params[1])
            && params[2] == mat.elem
            && ret == mat.elem
            && extra_mats.iter().flatten().all(|m| m.placement == mat.placement)
            && params[3..].iter().zip(extras.iter().zip(&extra_mats)).all(|(param, (extra, matrix))| {
                matrix.map_or_else(|| self.m.type_of(*extra), |m| Some(m.elem)) == Some(*param)
            });
        if !fits {
            return unfit(r);
        }
        let args: Vec<Id> = [matrix].into_iter().chain(extras.iter().copied()).collect();
        let types: Vec<Id> = args.iter().filter_map(|a| self.m.type_of(*a)).collect();
        if types.len() != args.len() {
            return unfit(r);
        }
        let (size, effects) = (self.size(function), has_effects(self.m, function));
        let alone = effects && mat.placement.copies();
        let used = result.is_some_and(|id| self.is_used(id));
        let result_is_row_uniform = result.is_some_and(|id| self.row_uniform.contains(&id));
        let row_uniform: Vec<bool> = args.iter().map(|a| self.row_uniform.contains(a)).collect();
        let mut extra = vec![Operand::Id(function), u32::from(result_is_row_uniform).into()];
        extra.extend(row_uniform.iter().map(|a| Operand::Word(u32::from(*a))));
        let key = Key { op: Op::CooperativeMatrixPerElementOpNV, types: types.clone(), extra };
        let plan = PerElement { mat, function, extras: extra_mats, size, alone, row_uniform, result_is_row_uniform };
        if alone && used {
            // The call gives the owners' values under a new id, and what was the instruction's id is for all.
            let own = self.m.fresh_id();
            let call = Inst::new(Op::Undef, Some(mat.ty), Some(own), []).at(origin);
            let Some(first) = insert_before(self.m, r, call) else { return unfit(r) };
            self.call(first, key, &args, &mut |this| plan.make(this, &params, &types))?;
            let share = Conversion { from: mat, to: mat, transposed: false, op: None, truncates: false };
            return self.transfer(r, &share, own);
        }
        self.call(r, key, &args, &mut |this| plan.make(this, &params, &types))
    }

    pub(super) fn coordinate(&mut self, r: InstRef) -> Result<(), Refusal> {
        let inst = self.m.inst(r);
        let (Some(ty), Some(matrix), Some(index)) = (inst.ty, inst.id(0), inst.id(1)) else { return unfit(r) };
        let Some(mat) = self.mat_of(matrix) else { return unfit(r) };
        let component = match Type::of(self.m, ty) {
            Some(Type::Vector { elem, len: 2 }) => Some(elem),
            _ => None,
        };
        let integer =
            |t: Option<Id>| matches!(t.and_then(|t| types::scalar(self.m, t)), Some(Scalar::Int { width: 32, .. }));
        let index_type = self.m.type_of(index);
        let (Some(component), true, Some(index_type)) =
            (component.filter(|c| integer(Some(*c))), integer(index_type), index_type)
        else {
            return unfit(r);
        };
        let key = Key { op: Op::CooperativeMatrixGetCoordinateEXT, types: vec![mat.ty, ty, index_type], extra: vec![] };
        self.call(r, key, &[index], &mut |this| {
            let label = format!("coop_coordinate_{}", mat.label());
            let mut f = FunctionBuilder::new(this.m, &mut this.g, &label, ty, &[index_type]);
            let b = &mut f;
            let lane_position = LanePosition::new(b, &mut this.lanes, mat.placement, mat.workgroup);
            let index = b.param(0);
            let index = Index::Value(as_type(b, index, index_type));
            let (i, j) = mat.placement.row_and_column(b, index);
            let ElementPosition { row, col, .. } = lane_position.place(b, i, j);
            let parts = [row, col].map(|at| {
                let at = at.emit(b);
                let at = b.index(at);
                let word = b.u32_type();
                if component == word { at } else { b.ids(Op::Bitcast, component, &[at]) }
            });
            let value = b.ids(Op::CompositeConstruct, ty, &parts);
            Ok(f.finish(Some(value)))
        })
    }

    /// Returns true if anything but debug information and names mentions an id besides its definition.
    fn is_used(&self, id: Id) -> bool {
        self.m.functions.iter().flat_map(|f| &f.blocks).flat_map(|b| &b.insts).any(|r| {
            let i = self.m.inst(*r);
            i.op != Op::ExtInst && i.ids().any(|o| o == id)
        })
    }

    /// The instructions of a function, and of those that it calls.
    fn size(&self, function: Id) -> u32 {
        let mut total = 0;
        each_inst(self.m, function, &mut |_| total += 1);
        total
    }
}

/// A 32-bit integer as one of type `ty` or the other way round: a number without sign.
fn as_type(b: &mut FunctionBuilder<'_>, value: Id, from: Id) -> Id {
    let word = b.u32_type();
    if from == word { value } else { b.ids(Op::Bitcast, word, &[value]) }
}

struct PerElement {
    mat: Mat,
    function: Id,
    /// True for each extra operand that is a matrix.
    extras: Vec<Option<Mat>>,
    size: u32,
    /// True if only the owner may call.
    alone: bool,
    /// True for the matrix, and for each extra operand, if it is row-uniform.
    row_uniform: Vec<bool>,
    /// True if those of the result do.
    result_is_row_uniform: bool,
}

impl PerElement {
    fn make(&self, this: &mut Lower<'_, '_>, params: &[Id], types: &[Id]) -> Result<Id, Refusal> {
        let mat = self.mat;
        small_type(this.m, mat.scalar);
        let calls = if self.result_is_row_uniform { mat.placement.rows.per_group } else { mat.placement.len() };
        let how = match unroll_much(calls) {
            Unroll::Now if self.size.saturating_mul(calls) > WRITTEN_OUT => Unroll::Ask,
            how => how,
        };
        let dynamic = how != Unroll::Now;
        let label = format!("coop_each_{}", mat.label());
        let mut f = FunctionBuilder::new(this.m, &mut this.g, &label, mat.ty, types);
        let b = &mut f;
        let lane_position = LanePosition::new(b, &mut this.lanes, mat.placement, mat.workgroup);
        let value = b.param(0);
        let array = Array::new(b, mat, value, dynamic);
        let mut extras: Vec<(Id, Option<Array>)> = Vec::new();
        for (n, extra) in self.extras.iter().enumerate() {
            let id = b.param(n + 1);
            extras.push((id, extra.map(|m| Array::new(b, m, id, dynamic))));
        }
        let each = |b: &mut FunctionBuilder<'_>, (row, col): (&Affine, &Affine), i: Index, at: Index| {
            let coordinates = [(row, params[0]), (col, params[1])].map(|(at, ty)| {
                let at = at.emit(b);
                let at = b.index(at);
                let word = b.u32_type();
                if ty == word { at } else { b.ids(Op::Bitcast, ty, &[at]) }
            });
            let mut args = vec![self.function];
            args.extend(coordinates);
            let place = representative(b, self.row_uniform[0], mat, i, at);
            args.push(array.get(b, place));
            for ((id, extra), row_uniform) in extras.iter().zip(&self.row_uniform[1..]) {
                args.push(match extra {
                    Some(array) => {
                        let place = representative(b, *row_uniform, mat, i, at);
                        array.get(b, place)
                    }
                    None => *id,
                });
            }
            b.op(Op::FunctionCall, mat.elem, args.iter().map(|id| Operand::Id(*id)))
        };
        let mut sink = if self.alone { ArrayBuilder::with(b, mat, value) } else { ArrayBuilder::new(b, mat, dynamic) };
        if self.result_is_row_uniform {
            sink.rows(b, mat, how, &mut |b, i, at| {
                let ElementPosition { row, col, .. } = lane_position.place(b, i, Index::Const(0));
                each(b, (&row, &col), i, at)
            });
            let result = sink.finish(b);
            return Ok(f.finish(Some(result)));
        }
        let first = if self.alone { lane_position.first(b) } else { None };
        where_(b, first, &mut |b| {
            visit(b, mat.placement, how, &mut |b, i, j, at| {
                let ElementPosition { row, col, real } = lane_position.place(b, i, j);
                let real = if self.alone { both(b, real, None) } else { None };
                where_(b, real, &mut |b| {
                    let value = each(b, (&row, &col), i, at);
                    sink.set(b, at, value);
                });
            });
        });
        let result = sink.finish(b);
        Ok(f.finish(Some(result)))
    }
}
