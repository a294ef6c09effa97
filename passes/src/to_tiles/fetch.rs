//! Fetches what goes into a staging buffer of the workgroup: each invocation loads its share of the quads into registers, and
//! puts them there behind a barrier. So all loads of a product are on their way before anybody waits for one, or for others to
//! be done with what the buffer has.
//!
//! Quads stay whole from memory to shared memory. Taken apart into elements, they would have to arrive where they are
//! fetched: the test that chooses between whole quads and single elements joins there.

use super::Tiles;
use super::shape::Mat;
use super::staging::{Layout, StagingBuffer};
use super::tensor::Key;
use crate::matrix::arena::{QUAD, words_of};
use crate::tensor::{Access, Share, Visit};
use coop_ir::builder::{FunctionBuilder, Index};
use coop_ir::{Id, Op, Operand};

/// Units that an invocation fetches of a factor, at most.
const MOST: u32 = 8;

/// Units that an invocation decodes at a time. With 8, products of ggml's mxfp4 and iq4_nl lose a tenth on an H200.
pub(super) const DECODED: u32 = 4;

/// A fetch of an access: the staging buffer that it fills, and the share of an invocation.
#[derive(Clone)]
pub(super) struct Fetch {
    pub(super) access: Access,
    pub(super) layout: Layout,
    /// Quads of each invocation.
    pub(super) units: u32,
    /// True if each subgroup fills a staging buffer of its own, with its tiles.
    pub(super) of_subgroup: bool,
}

impl Fetch {
    /// Returns true if the staging buffer has one of so many equal parts of the matrix, by rows and by columns, and nothing else:
    /// what pads tiles is not in memory.
    pub(super) fn is_part(&self, (by_rows, by_cols): (u32, u32)) -> bool {
        let Layout { lines, length, down, .. } = self.layout;
        let (rows, cols) = if down { (length, lines) } else { (lines, length) };
        (rows * by_rows, cols * by_cols) == (self.access.rows, self.access.cols)
    }

    /// Calls the function that fetches: the quads of the invocation.
    pub(super) fn call(&self, b: &mut FunctionBuilder<'_>, operands: &[Id]) -> Vec<Id> {
        let word = b.u32_type();
        let quad = b.globals.vector(b.module, word, 4);
        let array = b.globals.array(b.module, quad, self.units);
        let got = b.ids(Op::FunctionCall, array, operands);
        (0..self.units).map(|n| b.op(Op::CompositeExtract, quad, [got.into(), n.into()])).collect()
    }
}

impl Tiles<'_, '_> {
    /// The share of a staging buffer that each invocation fetches. `None` if they do not have equal shares of a few quads.
    pub(super) fn share(&self, access: &Access, layout: Layout) -> Option<Fetch> {
        let (units, invocations) = (layout.units(), self.analysis.invocations?);
        let quads = !access.is_volatile() && !access.clips && layout.unit_words() == 4;
        let most = if access.decodes() { DECODED } else { MOST };
        let fits = quads && units.is_multiple_of(invocations) && units / invocations <= most;
        fits.then(|| Fetch { access: access.clone(), layout, units: units / invocations, of_subgroup: false })
    }

    /// The share of a subgroup's tiles that each of its invocations fetches. `None` if they do not have equal shares of a few
    /// quads, or if all tiles take more of the shared memory that is left than what is fetched ahead may.
    pub(super) fn subgroup_share(&self, access: &Access, mat: Mat) -> Option<Fetch> {
        let extents = (mat.rows() * mat.tile_rows, mat.cols() * mat.tile_cols);
        let layout = Layout::new(mat.elem, extents, (mat.tile_rows, mat.tile_cols), access.runs_down, 1);
        let (units, size) = (layout.units(), self.analysis.size);
        let quads = !access.is_volatile() && !access.clips && !access.decodes() && layout.unit_words() == 4;
        let fits = layout.quads().saturating_mul(QUAD) <= self.arena.room_for_ahead();
        let all = mat.covered() == (mat.shape.rows, mat.shape.cols);
        let equal = units.is_multiple_of(size) && units / size <= MOST;
        (quads && fits && all && equal).then(|| Fetch {
            access: access.clone(),
            layout,
            units: units / size,
            of_subgroup: true,
        })
    }

    /// Fetches an invocation's share of a staging buffer that is filled from a row and a column of the matrix on. `None` if the
    /// buffer has more than the matrix, or invocations have no equal shares.
    pub(super) fn fetch_slice(
        &mut self,
        b: &mut FunctionBuilder<'_>,
        (access, mat, layout): (&Access, Mat, Layout),
        (row, col): (u32, u32),
    ) -> Option<Vec<Id>> {
        let fetch = self.share(access, layout).filter(|_| !mat.has_partial_tiles())?;
        let function = self.fetch_function(b, &fetch);
        let (row, col) = (b.u32(row), b.u32(col));
        let operands: Vec<Id> = [function].into_iter().chain(access.args.iter().copied()).chain([row, col]).collect();
        Some(fetch.call(b, &operands))
    }

    /// The function that gives an invocation's share of a staging buffer, with first row and column as its last parameters.
    pub(super) fn fetch_function(&mut self, b: &mut FunctionBuilder<'_>, fetch: &Fetch) -> Id {
        let word = b.u32_type();
        let quad = b.globals.vector(b.module, word, 4);
        let array = b.globals.array(b.module, quad, fetch.units);
        let label = format!("coop_fetch_{}x{}", fetch.access.rows, fetch.access.cols);
        self.share_function(b, fetch, (&label, array), &mut |f, visit, share| {
            if let Some(quads) = visit.load_quads(f, share) {
                return f.ids(Op::CompositeConstruct, array, &quads);
            }
            let mut quads = Vec::new();
            for (row, col) in share.places {
                let run = visit.load_run(f, *row, *col, fetch.layout.unit());
                let elements: Vec<Id> = run.into_iter().map(|l| l.value).collect();
                let words = words_of(f, fetch.layout.elem, &elements);
                quads.push(f.ids(Op::CompositeConstruct, quad, &words));
            }
            f.ids(Op::CompositeConstruct, array, &quads)
        })
    }

    /// The function that answers if an invocation's share may be read whether the program reads it or not.
    pub(super) fn readable_function(&mut self, b: &mut FunctionBuilder<'_>, fetch: &Fetch) -> Id {
        let ty = b.globals.bool(b.module);
        let label = format!("coop_may_fetch_{}x{}", fetch.access.rows, fetch.access.cols);
        self.share_function(b, fetch, (&label, ty), &mut |f, visit, share| {
            visit.may_load_quads(f, share).unwrap_or_else(|| f.globals.boolean(f.module, false))
        })
    }

    /// A function about an invocation's share of a staging buffer: the rows and columns at which its quads begin.
    fn share_function(
        &mut self,
        b: &mut FunctionBuilder<'_>,
        Fetch { access, layout, of_subgroup, .. }: &Fetch,
        (label, ty): (&str, Id),
        body: &mut dyn FnMut(&mut FunctionBuilder<'_>, &mut Visit, &mut Share<'_>) -> Id,
    ) -> Id {
        let word = b.u32_type();
        let mut types = access.param_types(b.module);
        let first = types.len();
        types.extend([word; 2]);
        let mut extra = access.key();
        extra.extend([u32::from(layout.down), layout.lines, layout.length, layout.pitch].map(Operand::Word));
        extra.extend([ty.into(), Operand::Word(u32::from(*of_subgroup))]);
        let key =
            Key { op: Op::CooperativeMatrixLoadTensorNV, staging_buffers: Vec::new(), types: types.clone(), extra };
        if let Some(function) = self.functions.get(&key) {
            return *function;
        }
        let mut f = FunctionBuilder::new(b.module, b.globals, label, ty, &types);
        let mut visit = access.begin(&mut f, 0);
        let (row0, col0) = (Index::Value(f.param(first)), Index::Value(f.param(first + 1)));
        let (lane, step) = self.sharers(&mut f, !of_subgroup);
        let places = layout.unit_positions(&mut f, Index::Const(0), (lane, step), MOST).unwrap_or_default();
        let row_col = |f: &mut FunctionBuilder<'_>, line: Index, at: Index| {
            let (row, col) = layout.row_col(line, at);
            (f.add(row0, row), f.add(col0, col))
        };
        let places: Vec<(Index, Index)> = places.into_iter().map(|(line, at, _)| row_col(&mut f, line, at)).collect();
        let mut place = |f: &mut FunctionBuilder<'_>, n: Index| {
            let skipped = f.mul(n, Index::Const(step));
            let unit = f.add(lane, skipped);
            let (line, at, _) = layout.place(f, unit);
            row_col(f, line, at)
        };
        let value = body(&mut f, &mut visit, &mut Share { places: &places, place: &mut place });
        let function = f.finish(Some(value));
        self.functions.insert(key, function);
        function
    }

    /// Puts an invocation's share into a staging buffer.
    pub(super) fn put_words(&mut self, b: &mut FunctionBuilder<'_>, staging: StagingBuffer, quads: &[Id]) {
        let (_, begin, lane, step) = self.lanes_of(b, staging);
        let places = staging.layout.unit_positions(b, begin, (lane, step), MOST).unwrap_or_default();
        for ((_, _, word), value) in places.into_iter().zip(quads) {
            let quad = b.div(word, 4);
            self.arena.store_quad(b, quad, *value);
        }
    }
}
