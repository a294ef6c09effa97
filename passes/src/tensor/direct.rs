//! Recognizes tensor accesses that are plain matrix loads and stores, and the conditions left to test at run time.
//!
//! An access is plain if each coordinate is the row, the column or a constant, nothing is clipped, blocks are single
//! elements, and rows or columns are contiguous. Whether a tile is in bounds and aligned is often known only at run
//! time: then there is a condition, uniform for the scope since the operands of the access are.

use super::access::Access;
use super::base_address::BaseAddress;
use super::byte_address::{Address, Term};
use super::emit::{Endpoint, Visit};
use super::index_math::{IndexMath, Num};
use super::layout_chain::layout;
use super::locate::{Axis, Rules};
use super::{CLAMP_UNDEFINED, access};
use coop_ir::builder::{FunctionBuilder, Index};
use coop_ir::{Id, Op, Operand};

/// A tile of an access as a plain load or store.
#[derive(Clone, Debug)]
pub(crate) struct Direct {
    /// True if columns (not rows) are contiguous.
    pub(crate) col_major: bool,
    /// The pointer operand.
    pub(crate) pointer: Id,
    /// The stride operand.
    pub(crate) stride: Id,
    /// The memory operands.
    pub(crate) operands: Vec<Operand>,
    /// The condition under which the tile is not a plain load or store. `None`: it always is one.
    pub(crate) unless: Option<Id>,
}

impl Access {
    /// Returns `Some` if the access is plain, provided that the conditions to test hold: whether columns are
    /// contiguous.
    pub(crate) fn plain(&self) -> Option<bool> {
        let rules = self.rules_without_code();
        if self.clips || matches!(self.origin, BaseAddress::Unknown) || self.decodes() || !self.reaches_units() {
            return None;
        }
        let axes = rules.axes()?;
        orientation(&rules, &axes)
    }
}

/// Returns whether columns (not rows) are contiguous; `None` if neither are.
fn orientation(rules: &Rules, axes: &[Axis]) -> Option<bool> {
    let c = &mut IndexMath::without_code(1);
    let [rows, cols] = strides(c, rules, axes);
    match (rows.constant(), cols.constant()) {
        (_, Some(1)) => Some(false),
        (Some(1), _) => Some(true),
        _ => None,
    }
}

/// Returns the distances of rows and of columns.
fn strides(c: &mut IndexMath<'_, '_>, rules: &Rules, axes: &[Axis]) -> [Num; 2] {
    [Axis::Row, Axis::Col].map(|axis| {
        let mut sum = Num::known(0);
        for d in (0..axes.len()).filter(|d| axes[*d] == axis) {
            sum = c.add(sum, rules.part(layout::STRIDE, d));
        }
        sum
    })
}

impl Visit {
    /// Returns the tile of `rows` x `cols` elements at a row and a column, inside the matrix, as a plain load or store
    /// whose pointer and stride are multiples of `align` bytes (a power of two).
    pub(crate) fn direct(
        &self,
        b: &mut FunctionBuilder<'_>,
        (row, col): (Index, Index),
        (rows, cols): (u32, u32),
        align: u32,
    ) -> Option<Direct> {
        let col_major = self.access.plain()?;
        let rules = &self.rules;
        let axes = rules.axes()?;
        let Endpoint::Memory(root, _) = &self.source else { return None };
        let c = &mut IndexMath::new(b, 1);
        let [row_step, col_step] = strides(c, rules, &axes);
        let step = if col_major { col_step } else { row_step };
        let (mut linear, mut unless) = (Num::known(0), None);
        for (d, axis) in axes.iter().enumerate() {
            let (from, extent, all) = match axis {
                Axis::Row => (access::invariant(row), rows, rules.rows),
                Axis::Col => (access::invariant(col), cols, rules.cols),
                Axis::Known(v) => (Num::known(*v), 1, 1),
            };
            let (offset, stride) = (rules.part(layout::OFFSET, d), rules.part(layout::STRIDE, d));
            let t = c.add(from, offset);
            let term = c.mul(t, stride);
            linear = c.add(linear, term);
            let known = if matches!(axis, Axis::Known(_)) { from.below } else { Some(all) };
            if rules.layout.clamp == CLAMP_UNDEFINED || rules.surely_inside(d, offset, known) {
                continue;
            }
            let last = c.add(t, Num::known(extent - 1));
            for at in [t, last].into_iter().take(if extent > 1 { 2 } else { 1 }) {
                let out = c.compare(Op::UGreaterThanEqual, at, rules.limit(d));
                unless = match out {
                    Ok(out) => c.or(unless, Some(out)),
                    Err(true) => return None,
                    Err(false) => unless,
                };
            }
        }
        let bytes = self.access.elem.scalar.bytes();
        if align > bytes {
            let line = Address::default().plus(Term { at: step.at, factor: bytes, align: step.align });
            let first = self.access.origin.remainder(b, &self.values, align)?;
            let first = first.plus(Term { at: linear.at, factor: bytes, align: linear.align });
            for address in [first, line] {
                if address.surely_misaligned(align) {
                    return None;
                }
                let off = address.misaligned(b, align);
                unless = IndexMath::new(b, 1).or(unless, off);
            }
        }
        if self.access.store && step.constant().is_none() {
            // The rows of a store must not overlap.
            let none = b.compare(Op::IEqual, step.at, Index::Const(0));
            unless = IndexMath::new(b, 1).or(unless, Some(none));
        }
        let (pointer, stride, unfit) = root.units(b, linear, step)?;
        let unless = IndexMath::new(b, 1).or(unless, unfit);
        let stride = b.index(stride.at);
        let operands = root.matrix_operands(align.min(16).max(bytes));
        Some(Direct { col_major, pointer, stride, operands, unless })
    }
}
