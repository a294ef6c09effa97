//! A buffer of single elements in shared memory, through which lanes exchange them.
//!
//! Each element has a word of its own (two, if it is wider), because lanes that hold neighbours write at the same time
//! and nothing writes less than a word.

use super::{Lower, Mat};
use crate::Refusal;
use crate::matrix::arena::{Arena, Elem, Region, Zone};
use crate::matrix::bits::{gather, part, small_type, split_value};
use coop_ir::builder::{FunctionBuilder, Index};
use coop_ir::types::Scalar;
use coop_ir::{Id, InstRef, Op};

const WORD: Scalar = Scalar::Int { width: 32, signed: false };

/// The words of an element.
pub(super) fn words(scalar: Scalar) -> u32 {
    scalar.width().div_ceil(32)
}

/// A region with an element in each place.
#[derive(Clone, Copy)]
pub(super) struct ElementBuffer {
    /// Its first word.
    begin: Index,
    elem: Elem,
}

impl ElementBuffer {
    /// `first`: the quad at which the region begins.
    pub(super) fn new(b: &mut FunctionBuilder<'_>, first: Index, elem: Elem) -> ElementBuffer {
        small_type(b.module, elem.scalar);
        ElementBuffer { begin: b.mul(first, Index::Const(4)), elem }
    }

    fn word(&self, b: &mut FunctionBuilder<'_>, place: Index, part: u32) -> Index {
        let offset = b.mul(place, Index::Const(words(self.elem.scalar)));
        let offset = b.add(offset, Index::Const(part));
        b.add(self.begin, offset)
    }

    pub(super) fn put(&self, b: &mut FunctionBuilder<'_>, arena: &mut Arena, place: Index, value: Id) {
        let Elem { scalar, ty } = self.elem;
        let word_type = b.u32_type();
        let parts = match scalar.width() {
            width @ 0..32 => {
                let null = b.globals.null(b.module, ty);
                let mut parts = vec![null; (32 / width) as usize];
                parts[0] = value;
                vec![gather(b, scalar, ty, &parts, word_type)]
            }
            32 => vec![gather(b, scalar, ty, &[value], word_type)],
            width => split_value(b, WORD, word_type, value, width),
        };
        for (at, value) in (0..).zip(parts) {
            let word = self.word(b, place, at);
            arena.store_word(b, word, value);
        }
    }

    pub(super) fn get(&self, b: &mut FunctionBuilder<'_>, arena: &mut Arena, place: Index) -> Id {
        let Elem { scalar, ty } = self.elem;
        let word_type = b.u32_type();
        let mut parts = Vec::new();
        for at in 0..words(scalar) {
            let word = self.word(b, place, at);
            parts.push(arena.load_word(b, word));
        }
        match scalar.width() {
            0..32 => part(b, scalar, ty, parts[0], 32, Index::Const(0)),
            _ => gather(b, WORD, word_type, &parts, ty),
        }
    }
}

/// The number of lines of a matrix that go through shared memory at a time.
#[derive(Clone, Copy)]
pub(super) struct KLoop {
    /// The lines of a slice.
    pub(super) lines: u32,
    /// The number of times.
    pub(super) count: u32,
    pub(super) region: Region,
}

impl Mat {
    pub(super) fn element(&self) -> Elem {
        Elem { scalar: self.scalar, ty: self.elem }
    }
}

impl Lower<'_, '_> {
    /// The zone in which lanes of a scope hand each other elements.
    pub(super) fn zone(&self, at: InstRef, workgroup: bool) -> Result<Zone, Refusal> {
        if workgroup || self.lanes.subgroup_is_workgroup() {
            return Ok(Zone::Workgroup);
        }
        if !self.lanes.has_subgroups() {
            let why = format!(
                "{} moves elements between the lanes of a subgroup, and lanes by local index have no subgroup that could wait for each other",
                self.m.inst(at).op
            );
            let remedy = "lower for subgroups of the device (--lanes subgroup), or use workgroups of one subgroup";
            return Err(Refusal::new("refused-lanes", Some(at), why, remedy));
        }
        Ok(Zone::Subgroup)
    }

    /// The region for `lines` lines of `width` elements each, or for as many of them at a time as there is room for:
    /// a multiple of `step`.
    pub(super) fn slices(
        &mut self,
        at: InstRef,
        zone: Zone,
        elem: Elem,
        lines: u32,
        width: u32,
        step: u32,
    ) -> Result<KLoop, Refusal> {
        let line = width.saturating_mul(words(elem.scalar) * 4);
        let fit = (self.arena.room(zone) / line.max(1)).min(lines) / step * step;
        let most = if fit >= lines { lines } else { fit.max(step) };
        let count = lines.div_ceil(most);
        // As even as can be.
        let lines = lines.div_ceil(count).next_multiple_of(step);
        let what = self.m.inst(at).op.to_string();
        let mark = self.arena.mark();
        let region = self.arena.take(at, &what, zone, lines.saturating_mul(line))?;
        self.arena.release(mark);
        Ok(KLoop { lines, count, region })
    }
}

/// Returns whether `at` is in slice `slice` of `lines`, and its place there; sure where there is one slice only.
pub(super) fn in_slice(b: &mut FunctionBuilder<'_>, slices: KLoop, slice: Index, at: Index) -> (Index, Option<Id>) {
    if slices.count == 1 {
        return (at, None);
    }
    let begin = b.mul(slice, Index::Const(slices.lines));
    let place = b.u32_op(Op::ISub, at, begin);
    // What is before the slice wraps around.
    (place, Some(b.compare(Op::ULessThan, place, Index::Const(slices.lines))))
}

/// Runs `body` where a condition holds, or always if there is none.
pub(super) fn where_(
    b: &mut FunctionBuilder<'_>,
    condition: Option<Id>,
    body: &mut dyn FnMut(&mut FunctionBuilder<'_>),
) {
    match condition {
        Some(condition) => b.when(condition, body),
        None => body(b),
    }
}
