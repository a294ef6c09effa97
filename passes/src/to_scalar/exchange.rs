//! Lowers operations that move elements between lanes: conversions of use, transposition. Reductions are in [`super::reduce`].
//!
//! Elements go through shared memory: a barrier, since other lanes may still read earlier contents; each lane writes the
//! elements that it owns; a barrier; each lane reads its elements of the result. A matrix that does not fit is processed in
//! slices of rows. Every lane of the scope executes every barrier: the trip counts are constants.

use super::array::{Array, ArrayBuilder, unroll_much, visit};
use super::exchange_buffer::{ElementBuffer, in_slice, where_};
use super::{Deferred, Key, Lower, Mat};
use crate::decorations::Decorated;
use crate::matrix::affine::Affine;
use crate::matrix::arena::{Arena, Elem};
use crate::matrix::bits::small_type;
use crate::matrix::elementwise::{apply, truncated};
use crate::matrix::position::{ElementPosition, LanePosition, both};
use crate::{Refusal, malformed};
use coop_ir::builder::{FunctionBuilder, Index, Unroll};
use coop_ir::{Id, InstRef, Op, Operand};

/// A conversion of a matrix to another use, placement or orientation.
#[derive(Clone)]
pub(super) struct Conversion {
    pub(super) from: Mat,
    pub(super) to: Mat,
    pub(super) transposed: bool,
    /// The operation on each element.
    pub(super) op: Option<(Op, Vec<Decorated>)>,
    /// True if that cuts off what does not fit.
    pub(super) truncates: bool,
}

impl Lower<'_, '_> {
    /// Afterwards all lanes that hold an element have the value of its owner, even if both matrix types are the same.
    pub(super) fn transfer(&mut self, r: InstRef, how: &Conversion, value: Id) -> Result<(), Refusal> {
        let Conversion { from, to, transposed, .. } = how;
        let shape = if *transposed {
            (from.placement.shape.cols, from.placement.shape.rows)
        } else {
            (from.placement.shape.rows, from.placement.shape.cols)
        };
        if shape != (to.placement.shape.rows, to.placement.shape.cols) || from.workgroup != to.workgroup {
            return malformed(r, format!("{} changes the shape or the scope of a matrix", self.m.inst(r).op));
        }
        // Where a product puts it into shared memory anyway, it does so from where it is.
        if let Some(id) = self.m.inst(r).result.filter(|id| self.deferred.contains(id) && !transposed) {
            self.leave(r, id, Deferred::Moved(Box::new(how.clone()), value));
            return Ok(());
        }
        let key = how.key();
        self.call(r, key, &[value], &mut |this| this.make_transfer(r, how))
    }

    fn make_transfer(&mut self, r: InstRef, how: &Conversion) -> Result<Id, Refusal> {
        let (from, to) = (how.from, how.to);
        small_type(self.m, from.scalar);
        let label = format!("coop_move_{}_{}", from.label(), to.label());
        let transfer = StagedTransfer { label: &label, from, to, elem: to.element(), step: 1 };
        let transpose = |row: Affine, col: Affine| if how.transposed { (col, row) } else { (row, col) };
        self.pass(r, &transfer, &|b, value| how.convert(b, value), &transpose, &|b, arena, buffer, place| {
            buffer.get(b, arena, place)
        })
    }

    /// The function that takes a matrix through shared memory: elements are put there as `put` makes them, and what is in
    /// the result is what `get` makes of those from the row and column on that `origin` says. A row there has the row of each part of a partial
    /// accumulator, one after the other.
    pub(super) fn pass(
        &mut self,
        r: InstRef,
        transfer: &StagedTransfer<'_>,
        put: &dyn Fn(&mut FunctionBuilder<'_>, Id) -> Id,
        origin: &dyn Fn(Affine, Affine) -> (Affine, Affine),
        get: &dyn Fn(&mut FunctionBuilder<'_>, &mut Arena, &ElementBuffer, Index) -> Id,
    ) -> Result<Id, Refusal> {
        let StagedTransfer { label, from, to, elem, step } = *transfer;
        let zone = self.zone(r, from.workgroup)?;
        let shape = from.placement.shape;
        let width = shape.cols * from.parts;
        let slices = self.slices(r, zone, elem, shape.rows, width, step)?;
        let mut f = FunctionBuilder::new(self.m, &mut self.g, label, to.ty, &[from.ty]);
        let b = &mut f;
        let (arena, lanes) = (&mut self.arena, &mut self.lanes);
        let begin = lanes.begin(b, arena, slices.region);
        let buffer = ElementBuffer::new(b, begin, elem);
        let (source, part) = from.lane_position(b, lanes);
        let target = LanePosition::new(b, lanes, to.placement, to.workgroup);
        let begin_of_part = Affine::scaled(part, shape.cols);
        let value = b.param(0);
        let (reading, writing) = (unroll_much(from.placement.len()), unroll_much(to.placement.len()));
        let array = Array::new(b, from, value, reading != Unroll::Now);
        let first = source.first(b);
        let mut sink = ArrayBuilder::new(b, to, writing != Unroll::Now || slices.count > 1);
        b.repeat(slices.count, Unroll::No, &mut |b, slice| {
            arena.barrier(b, zone);
            where_(b, first, &mut |b| {
                visit(b, from.placement, reading, &mut |b, i, j, at| {
                    let ElementPosition { row, col, real } = source.place(b, i, j);
                    let row = row.emit(b);
                    let (row, inside) = in_slice(b, slices, slice, row);
                    let mine = both(b, real, inside);
                    where_(b, mine, &mut |b| {
                        let value = array.get(b, at);
                        let value = put(b, value);
                        let place = cell(b, row, &col.clone().plus(&begin_of_part), width);
                        buffer.put(b, arena, place, value);
                    });
                });
            });
            arena.barrier(b, zone);
            visit(b, to.placement, writing, &mut |b, i, j, at| {
                let ElementPosition { row, col, .. } = target.place(b, i, j);
                let (row, col) = origin(row, col);
                let row = row.emit(b);
                let (row, inside) = in_slice(b, slices, slice, row);
                where_(b, inside, &mut |b| {
                    let place = cell(b, row, &col, width);
                    let value = get(b, arena, &buffer, place);
                    sink.set(b, at, value);
                });
            });
        });
        let result = sink.finish(b);
        Ok(f.finish(Some(result)))
    }
}

/// A transfer of a matrix through shared memory, in slices of rows.
pub(super) struct StagedTransfer<'a> {
    /// The name of the function.
    pub(super) label: &'a str,
    pub(super) from: Mat,
    pub(super) to: Mat,
    /// The type of an element in shared memory.
    pub(super) elem: Elem,
    /// Rows that are needed together.
    pub(super) step: u32,
}

impl Conversion {
    /// The key of the function for it.
    pub(super) fn key(&self) -> Key {
        let words = self.op.iter().flat_map(|(o, d)| {
            let more = d.iter().flat_map(|(d, more)| [d.0].into_iter().chain(more.iter().copied()));
            [u32::from(o.0)].into_iter().chain(more)
        });
        let extra = [u32::from(self.transposed)].into_iter().chain(words).map(Operand::Word).collect();
        Key { op: Op::CooperativeMatrixConvertNV, types: vec![self.to.ty, self.from.ty], extra }
    }

    pub(super) fn convert(&self, b: &mut FunctionBuilder<'_>, value: Id) -> Id {
        match &self.op {
            Some(_) if self.truncates => truncated(b, self.to.elem, value),
            Some((op, decorations)) => apply(b, *op, self.to.elem, &[value], decorations),
            None if self.from.elem != self.to.elem => b.ids(Op::Bitcast, self.to.elem, &[value]),
            None => value,
        }
    }
}

/// The number of an element in rows of `width`.
fn cell(b: &mut FunctionBuilder<'_>, row: Index, col: &Affine, width: u32) -> Index {
    let line = b.mul(row, Index::Const(width));
    Affine::scaled(line, 1).plus(col).emit(b)
}
