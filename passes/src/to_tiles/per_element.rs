//! Lowers per-element operations and queries of coordinates.
//!
//! The position of an element in a tile is not known, but two tiles of one type have the same positions. So an *iota
//! table*, the numbers 0, 1, 2, .. in shared memory, is loaded as a tile with stride 0, down the columns or along the
//! rows: element `i` of it is the row (or column) of element `i` of every tile of that type.
//!
//! A callback without side effects is called for the elements that an invocation holds, in place. One with side effects must
//! be called exactly once for each element, which the device does not guarantee for the elements that invocations hold: its
//! tiles go through a staging buffer of the subgroup, of which each invocation processes a share. If several subgroups hold
//! the same tiles, the first calls the function, and the others load its result if it is used.

use super::elements;
use super::exchange::{Change, Conversion};
use super::inst::Slot;
use super::shape::Mat;
use super::staging::{Layout, StagingBuffer};
use super::tensor::{Guard, Inside, Key};
use super::{TileIds, Tiles};
use crate::matrix::affine::Affine;
use crate::matrix::arena::{Elem, QUAD, Zone};
use crate::matrix::callback::has_effects;
use crate::matrix::placement::{AxisSplit, Placement};
use crate::matrix::row_uniform::uses_position;
use crate::{Refusal, malformed};
use coop_ir::builder::{FunctionBuilder, Index};
use coop_ir::spv::{BuiltIn, StorageClass};
use coop_ir::types::{self, Scalar, Type};
use coop_ir::{Id, Inst, InstRef, Module, Op, Operand};

/// Returns the result type and the parameter types of a function.
pub(super) fn signature(m: &Module, function: Id) -> Option<(Id, Vec<Id>)> {
    let inst = m.def_inst(function).filter(|i| i.op == Op::Function)?;
    let ty = m.def_inst(inst.id(1)?)?;
    Some((ty.id(0)?, ty.ids_from(1).collect()))
}

/// A per-element operation.
pub(super) struct Callback {
    pub(super) function: Id,
    pub(super) params: Vec<Id>,
    /// Further operands, with their tiles where they are matrices.
    pub(super) extras: Vec<(Id, Option<TileIds>)>,
}

impl Callback {
    /// Calls it for an element.
    fn call(&self, b: &mut FunctionBuilder<'_>, elem: Elem, at: (Index, Index), values: &[Id], others: &[Id]) -> Id {
        let coordinate = |b: &mut FunctionBuilder<'_>, at: Index, ty: Id| {
            let at = b.index(at);
            let word = b.u32_type();
            if ty == word { at } else { b.ids(Op::Bitcast, ty, &[at]) }
        };
        let (row, col) = (coordinate(b, at.0, self.params[0]), coordinate(b, at.1, self.params[1]));
        let mut operands = vec![self.function, row, col, values[0]];
        let (mut matrices, mut others) = (values[1..].iter(), others.iter());
        for (_, parts) in &self.extras {
            let next = if parts.is_some() { matrices.next() } else { others.next() };
            operands.extend(next);
        }
        b.ids(Op::FunctionCall, elem.ty, &operands)
    }

    /// The operands that are no matrices.
    fn others(&self) -> Vec<Id> {
        self.extras.iter().filter(|e| e.1.is_none()).map(|e| e.0).collect()
    }

    fn matrices(&self) -> Vec<&TileIds> {
        self.extras.iter().filter_map(|e| e.1.as_ref()).collect()
    }
}

impl Tiles<'_, '_> {
    pub(super) fn per_element(&mut self, b: &mut FunctionBuilder<'_>, r: InstRef, inst: &Inst) -> Result<(), Refusal> {
        let to = inst.ty.and_then(|t| self.analysis.mats.get(&t)).copied();
        let (Some(to), Some(value), Some(function)) = (to, inst.id(0), inst.id(1)) else {
            return malformed(r, "a per-element operation on no matrix");
        };
        let (mat, parts) = self.tiles_of(b.module, r, value)?;
        let Some((ret, params)) = signature(b.module, function) else {
            return malformed(r, "the callback is not a function");
        };
        let mut extras = Vec::new();
        for id in inst.ids_from(2) {
            if self.mat_of(b.module, id).is_none() {
                extras.push((id, None));
                continue;
            }
            let (other, tiles) = self.tiles_of(b.module, r, id)?;
            if other.shape != mat.shape || other.elem != mat.elem || other.workgroup != mat.workgroup {
                return malformed(r, "a further matrix of a per-element operation is not like the first");
            }
            extras.push((id, Some(tiles)));
        }
        let integer = |t: Id| matches!(types::scalar(b.module, t), Some(Scalar::Int { width: 32, .. }));
        let fits = params.len() == 3 + extras.len()
            && integer(params[0])
            && integer(params[1])
            && params[2] == mat.elem.ty
            && ret == mat.elem.ty
            && (to.shape, to.elem, to.workgroup) == (mat.shape, mat.elem, mat.workgroup)
            && params[3..].iter().zip(&extras).all(|(param, (extra, tiles))| match tiles {
                Some(_) => *param == mat.elem.ty,
                None => b.module.type_of(*extra) == Some(*param),
            });
        if !fits {
            return malformed(r, "the callback does not fit the matrix");
        }
        let callback = Callback { function, params, extras };
        let mut slot = Slot::new(r);
        let places = wanted_positions(b.module, function, mat).contains(&true);
        let effects = has_effects(b.module, function);
        let result = if self.calls_natively(mat) && !effects {
            let row_uniform = self.is_row_uniform(inst.result);
            self.native_each(b, &mut slot, mat, &callback, (&parts, row_uniform))
        } else if effects || (places && !represents_positions(mat)) {
            self.call_exactly_once(b, &mut slot, inst, mat, &callback, &parts)?
        } else {
            let row_uniform = self.is_row_uniform(inst.result);
            self.call_in_place(b, r, &mut slot, mat, &callback, (&parts, row_uniform))?
        };
        self.define(inst, mat, result);
        Ok(())
    }

    /// Calls for the elements that the invocation holds.
    fn call_in_place(
        &mut self,
        b: &mut FunctionBuilder<'_>,
        r: InstRef,
        slot: &mut Slot,
        mat: Mat,
        callback: &Callback,
        (parts, row_uniform): (&TileIds, bool),
    ) -> Result<TileIds, Refusal> {
        let iota_tables = self.iota_tables(b, r, mat, wanted_positions(b.module, callback.function, mat))?;
        let (others, guarded) = (callback.others(), is_guarded(mat));
        // Like tiles at unlike places are called for alone.
        let mut result = parts.clone();
        for position in self.tile_positions(b, mat) {
            let column = position.index as u32 % mat.cols();
            if row_uniform && column > 0 {
                result[position.index] = result[position.index - column as usize];
                continue;
            }
            let tiles = [parts].into_iter().chain(callback.matrices()).map(|p| p[position.index]);
            let tiles: Vec<Id> = tiles.chain(iota_tables.into_iter().flatten()).collect();
            let types = (mat.tile, mat.elem.ty);
            result[position.index] = elements::map(b, Some(slot), types, &tiles, &mut |b, values| {
                let mut rest = values[1 + callback.matrices().len()..].iter();
                let mut place = |b: &mut FunctionBuilder<'_>, iota_table: Option<Id>, origin: &Affine| {
                    let Some(at) = iota_table.and_then(|_| rest.next()) else { return Index::Const(0) };
                    let at = as_word(b, mat.elem, *at);
                    Affine::scaled(Index::Value(at), 1).plus(origin).emit(b)
                };
                let at = (place(b, iota_tables[0], &position.row), place(b, iota_tables[1], &position.col));
                if !guarded {
                    return callback.call(b, mat.elem, at, values, &others);
                }
                let inside = inside(b, mat, at);
                let mut call = |b: &mut FunctionBuilder<'_>| vec![callback.call(b, mat.elem, at, values, &others)];
                b.choose(inside, &[mat.elem.ty], &mut call, &mut |_| vec![values[0]])[0]
            });
        }
        Ok(result)
    }

    /// Calls exactly once for each element, through staging buffers.
    fn call_exactly_once(
        &mut self,
        b: &mut FunctionBuilder<'_>,
        slot: &mut Slot,
        inst: &Inst,
        mat: Mat,
        callback: &Callback,
        parts: &TileIds,
    ) -> Result<TileIds, Refusal> {
        let r = slot.at();
        let used = inst.result.is_some_and(|id| self.analysis.uses.contains_key(&id));
        let mark = self.arena.mark();
        let matrices = callback.matrices();
        let images = 1 + matrices.len() as u32;
        let batches = self.batches(b, r, mat, false, images)?;
        let staging_buffers: Vec<StagingBuffer> = (0..images)
            .map(|n| {
                let mut staging = batches.staging;
                staging.region.at += n * staging.layout.quads();
                staging
            })
            .collect();
        let others = callback.others();
        let function = self.exactly_once_function(b, mat, callback, &staging_buffers, &others, used);
        let subgroup = self.subgroup(b);
        let begins: Vec<Index> = staging_buffers.iter().map(|s| s.begin(b, &mut self.arena, subgroup)).collect();
        let owner = self.owner(b, mat);
        let alone = owner.is_some();
        let mut own = Slot::new(r);
        let mut result = parts.clone();
        let void = b.globals.void(b.module);
        for (n, batch) in batches.of(mat).into_iter().enumerate() {
            self.enter(b, mat, n == 0);
            for ((staging, begin), tiles) in
                staging_buffers.iter().zip(&begins).zip([parts].into_iter().chain(matrices.iter().copied()))
            {
                self.put_batch(b, (*staging, *begin), mat, batch, tiles);
            }
            self.arena.barrier(b, Zone::Subgroup);
            let (row, col) = self.origin(b, mat, batch);
            let at = [row, col].map(|i| b.index(i));
            let mut call = |b: &mut FunctionBuilder<'_>| {
                let operands: Vec<Id> = [function].into_iter().chain(others.iter().copied()).chain(at).collect();
                b.ids(Op::FunctionCall, void, &operands);
            };
            match owner {
                Some(owner) => b.when(owner, &mut call),
                None => call(b),
            }
            if used {
                self.arena.barrier(b, Zone::Subgroup);
                let target = if alone { &mut own } else { &mut *slot };
                if alone {
                    // The id of the result is for what all agree on.
                    target.skip();
                }
                self.get_batch(b, target, (staging_buffers[0], begins[0]), mat, batch, &mut result);
            }
        }
        self.arena.release(mark);
        if used && alone {
            let share = Conversion { from: mat, to: mat, transposed: false, change: Change::None };
            return self.exchange_from_owners(b, r, slot, &share, &result);
        }
        if !used {
            // Nobody looks at the result; names may, and get one of the tiles.
            let tile = slot.op(b, Op::CopyObject, mat.tile, [parts[0].into()]);
            result[0] = tile;
        }
        Ok(result)
    }

    fn exactly_once_function(
        &mut self,
        b: &mut FunctionBuilder<'_>,
        mat: Mat,
        callback: &Callback,
        staging_buffers: &[StagingBuffer],
        others: &[Id],
        used: bool,
    ) -> Id {
        let word = b.u32_type();
        let mut types: Vec<Id> = others.iter().filter_map(|id| b.module.type_of(*id)).collect();
        let key = Key {
            op: Op::CooperativeMatrixPerElementOpNV,
            staging_buffers: staging_buffers.to_vec(),
            types: [mat.ty].into_iter().chain(types.iter().copied()).collect(),
            extra: [Operand::Id(callback.function), Operand::Word(u32::from(used))]
                .into_iter()
                .chain(callback.extras.iter().map(|e| Operand::Word(u32::from(e.1.is_some()))))
                .collect(),
        };
        if let Some(function) = self.functions.get(&key) {
            return *function;
        }
        types.extend([word, word]);
        let void = b.globals.void(b.module);
        let label = format!("coop_each_{}", mat.label());
        let mut f = FunctionBuilder::new(b.module, b.globals, &label, void, &types);
        let values: Vec<Id> = (0..others.len()).map(|n| f.param(n)).collect();
        let (row0, col0) = (Index::Value(f.param(others.len())), Index::Value(f.param(others.len() + 1)));
        let staging = staging_buffers[0];
        let guard = Guard::new(mat, staging);
        let (arena, begin, lane, count) = self.lanes_of(&mut f, staging);
        staging.for_each_unit(&mut f, begin, (lane, count), &mut |f, line, at, word| {
            let (row, col) = staging.row_col(line, at);
            let (row, col) = (f.add(row0, row), f.add(col0, col));
            let inside = guard.unit(f, row, col);
            let mut unit = |f: &mut FunctionBuilder<'_>| {
                let mut images = Vec::new();
                for other in staging_buffers {
                    let skip = (other.region.at - staging.region.at) * 4;
                    let word = f.add(word, Index::Const(skip));
                    images.push(other.load_unit(f, arena, word));
                }
                let mut results = Vec::new();
                for n in 0..staging.layout.unit() {
                    let at = guard.along(f, row, col, n);
                    let elements: Vec<Id> = images.iter().map(|i| i[n as usize]).collect();
                    results.push(if matches!(inside, Inside::Each) {
                        let inside = guard.element(f, at.0, at.1);
                        let mut call =
                            |f: &mut FunctionBuilder<'_>| vec![callback.call(f, mat.elem, at, &elements, &values)];
                        let old = elements[0];
                        f.choose(inside, &[mat.elem.ty], &mut call, &mut |_| vec![old])[0]
                    } else {
                        callback.call(f, mat.elem, at, &elements, &values)
                    });
                }
                if used {
                    staging.store_unit(f, arena, word, &results);
                }
            };
            match inside {
                Inside::Together(inside) => f.when(inside, &mut unit),
                _ => unit(f),
            }
        });
        let function = f.finish(None);
        self.functions.insert(key, function);
        function
    }

    /// `OpCooperativeMatrixGetCoordinateEXT`.
    pub(super) fn coordinate(&mut self, b: &mut FunctionBuilder<'_>, r: InstRef, inst: &Inst) -> Result<(), Refusal> {
        let (Some(ty), Some(matrix), Some(index)) = (inst.ty, inst.id(0), inst.id(1)) else {
            return malformed(r, "coordinates of nothing");
        };
        let Some(mat) = self.mat_of(b.module, matrix) else { return malformed(r, "coordinates of no matrix") };
        let component = match Type::of(b.module, ty) {
            Some(Type::Vector { elem, len: 2 }) => elem,
            _ => return malformed(r, "coordinates that are not a pair"),
        };
        if !self.analysis.native.coordinate && !represents_positions(mat) {
            let why = format!("a matrix of {} can't hold the numbers of its rows and columns", mat.elem.scalar);
            return Err(Refusal::new("refused-instruction", Some(r), why, "lower to scalar code (--target scalar)"));
        }
        let constants = &self.analysis.constants;
        let index = crate::matrix::address::narrow(b, index, &|id| constants.get(id).fixed());
        let (tile, element) = (b.rem(index, mat.tiles()), b.div(index, mat.tiles()));
        let (row_tile, col_tile) = (b.div(tile, mat.cols()), b.rem(tile, mat.cols()));
        let Placement { rows, cols, .. } = mat.placement;
        let (group_row, group_col) =
            self.function.group.filter(|_| mat.workgroup).unwrap_or((Index::Const(0), Index::Const(0)));
        let element = b.index(element);
        let [row, col] = self.in_tile(b, r, mat, matrix, (ty, component), element)?;
        let word = b.u32_type();
        let mut place = |value: Id, split: AxisSplit, group: Index, at: Index, tile: u32| {
            let lin = split.unclamped(b, group, at).times(tile);
            let lin = lin.plus(&Affine::scaled(Index::Value(value), 1)).emit(b);
            let lin = b.index(lin);
            if component == word { lin } else { b.ids(Op::Bitcast, component, &[lin]) }
        };
        let row = place(row, rows, group_row, row_tile, mat.tile_rows);
        let col = place(col, cols, group_col, col_tile, mat.tile_cols);
        Slot::new(r).op(b, Op::CompositeConstruct, ty, [row, col].map(Operand::Id));
        Ok(())
    }

    /// Row and column of an element in its tile. `ty` is that of coordinates, a pair of `component`.
    fn in_tile(
        &mut self,
        b: &mut FunctionBuilder<'_>,
        r: InstRef,
        mat: Mat,
        matrix: Id,
        (ty, component): (Id, Id),
        element: Id,
    ) -> Result<[Id; 2], Refusal> {
        let word = b.u32_type();
        if self.analysis.native.coordinate {
            // All tiles of a type have theirs in the same places.
            let (_, parts) = self.tiles_of(b.module, r, matrix)?;
            let pair = b.ids(Op::CooperativeMatrixGetCoordinateEXT, ty, &[parts[0], element]);
            return Ok([0, 1].map(|n| {
                let at = b.op(Op::CompositeExtract, component, [Operand::Id(pair), Operand::Word(n)]);
                if component == word { at } else { b.ids(Op::Bitcast, word, &[at]) }
            }));
        }
        let [Some(rows), Some(cols)] = self.iota_tables(b, r, mat, [true; 2])? else {
            return malformed(r, "coordinates of nothing");
        };
        let pointer = b.globals.pointer(b.module, StorageClass::Function, mat.elem.ty);
        Ok([rows, cols].map(|tile| {
            let variable = b.variable(mat.tile);
            b.effect(Op::Store, [variable, tile].map(Operand::Id));
            let value = b.ids(Op::AccessChain, pointer, &[variable, element]);
            let value = b.ids(Op::Load, mat.elem.ty, &[value]);
            as_word(b, mat.elem, value)
        }))
    }

    /// Takes room for the iota tables that the module's instructions need, never to be given back.
    pub(super) fn take_iota_tables(&mut self, m: &Module) -> Result<(), Refusal> {
        let used: Vec<(InstRef, Mat)> = m
            .functions
            .iter()
            .flat_map(|f| f.blocks.iter().flat_map(|b| b.insts.iter().copied()))
            .filter_map(|r| {
                let i = m.inst(r);
                let asks = match i.op {
                    Op::CooperativeMatrixGetCoordinateEXT => !self.analysis.native.coordinate,
                    Op::CooperativeMatrixPerElementOpNV => i.id(1).zip(i.id(0)).is_some_and(|(f, value)| {
                        let wanted =
                            |mat: Mat| !self.calls_natively(mat) && wanted_positions(m, f, mat).contains(&true);
                        !has_effects(m, f) && self.mat_of(m, value).is_some_and(wanted)
                    }),
                    _ => false,
                };
                asks.then(|| Some((r, self.mat_of(m, i.id(0)?)?))).flatten()
            })
            .chain(self.checked_mats(m))
            .filter(|(_, mat)| represents_positions(*mat))
            .collect();
        let extent = |mat: &Mat| mat.tile_rows.max(mat.tile_cols);
        let length = used.iter().map(|(_, mat)| extent(mat)).max().unwrap_or(0);
        for (r, mat) in used {
            if self.iota_tables.iter().any(|s| s.layout.elem == mat.elem) {
                continue;
            }
            let layout = Layout::new(mat.elem, (1, length), (1, length), false, 0);
            let region = self.arena.take(r, "the coordinates of elements", Zone::Workgroup, layout.quads() * QUAD)?;
            self.iota_tables.push(StagingBuffer { layout, region, each: 0 });
        }
        Ok(())
    }

    /// A tile of row numbers and one of column numbers, as far as they are wanted.
    fn iota_tables(
        &mut self,
        b: &mut FunctionBuilder<'_>,
        r: InstRef,
        mat: Mat,
        wanted: [bool; 2],
    ) -> Result<[Option<Id>; 2], Refusal> {
        if !wanted.contains(&true) {
            return Ok([None; 2]);
        }
        let Some(iota_table) = self.iota_tables.iter().find(|s| s.layout.elem == mat.elem).copied() else {
            return malformed(r, "coordinates of a matrix that was none");
        };
        Ok([0, 1].map(|n| wanted[n].then(|| self.iota_tile(b, iota_table, mat, n == 0))))
    }

    /// A tile of row numbers if the numbers of a table go down, else of column numbers.
    pub(super) fn iota_tile(&mut self, b: &mut FunctionBuilder<'_>, table: StagingBuffer, mat: Mat, down: bool) -> Id {
        let begin = table.begin(b, &mut self.arena, Index::Const(0));
        let operands = table.broadcast_operands(b, &mut self.arena, begin, (0, &Affine::default()), down);
        b.op(Op::CooperativeMatrixLoadKHR, mat.tile, operands)
    }

    /// The function that writes the iota tables, to be called at the beginning of every entry point.
    pub(super) fn write_iota_tables(&mut self, m: &mut Module, g: &mut coop_ir::builder::Globals) -> Option<Id> {
        if self.iota_tables.is_empty() {
            return None;
        }
        let void = g.void(m);
        let mut f = FunctionBuilder::new(m, g, "coop_iota_tables", void, &[]);
        let mut lane = self.builtins.load(&mut f, BuiltIn::LocalInvocationIndex);
        if self.analysis.invocations.is_none() {
            // How many there are is not known: the first one writes all, the others begin behind the end.
            let others = f.compare(Op::INotEqual, lane, Index::Const(0));
            let (behind, begin, word) = (f.u32(u32::MAX), f.u32(0), f.u32_type());
            lane = Index::Value(f.ids(Op::Select, word, &[others, behind, begin]));
        }
        for iota_table in self.iota_tables.clone() {
            let begin = iota_table.begin(&mut f, &mut self.arena, Index::Const(0));
            let count = self.analysis.invocations.unwrap_or(1);
            let arena = &mut self.arena;
            iota_table.for_each_unit(&mut f, begin, (lane, count), &mut |f, _, at, word| {
                let mut values = Vec::new();
                for n in 0..iota_table.layout.unit() {
                    let at = f.add(at, Index::Const(n));
                    values.push(from_word(f, iota_table.layout.elem, at));
                }
                iota_table.store_unit(f, arena, word, &values);
            });
        }
        self.arena.barrier(&mut f, Zone::Workgroup);
        Some(f.finish(None))
    }
}

/// Returns true if the numbers of a tile's rows and columns are numbers of its elements' type.
pub(super) fn represents_positions(mat: Mat) -> bool {
    let exact = match mat.elem.scalar {
        Scalar::Int { width, signed } => 1u64 << (width - u32::from(signed)).min(32),
        Scalar::Float { width: 16 } => 2048,
        Scalar::Float { .. } => 1 << 24,
        Scalar::BF16 => 256,
        Scalar::E4M3 => 16,
        _ => 0,
    };
    u64::from(mat.tile_rows.max(mat.tile_cols)) <= exact
}

/// An element, which is a small number, as an unsigned integer.
pub(super) fn as_word(b: &mut FunctionBuilder<'_>, elem: Elem, value: Id) -> Id {
    let word = b.u32_type();
    crate::matrix::bits::small_type(b.module, elem.scalar);
    match elem.scalar {
        _ if elem.ty == word => value,
        Scalar::Int { width: 32, .. } => b.ids(Op::Bitcast, word, &[value]),
        Scalar::Int { .. } => b.ids(Op::UConvert, word, &[value]),
        Scalar::Float { .. } => b.ids(Op::ConvertFToU, word, &[value]),
        Scalar::Encoded { .. } => {
            let float = b.globals.scalar(b.module, Scalar::Float { width: 32 });
            let value = b.ids(Op::FConvert, float, &[value]);
            b.ids(Op::ConvertFToU, word, &[value])
        }
    }
}

/// The inverse of [`as_word`].
fn from_word(b: &mut FunctionBuilder<'_>, elem: Elem, value: Index) -> Id {
    let value = b.index(value);
    match elem.scalar {
        _ if b.module.type_of(value) == Some(elem.ty) => value,
        Scalar::Int { width: 32, .. } => b.ids(Op::Bitcast, elem.ty, &[value]),
        Scalar::Int { width, .. } => {
            let narrow = b.globals.uint(b.module, width);
            let value = b.ids(Op::UConvert, narrow, &[value]);
            if narrow == elem.ty { value } else { b.ids(Op::Bitcast, elem.ty, &[value]) }
        }
        Scalar::Float { .. } => b.ids(Op::ConvertUToF, elem.ty, &[value]),
        Scalar::Encoded { .. } => {
            let float = b.globals.scalar(b.module, Scalar::Float { width: 32 });
            let value = b.ids(Op::ConvertUToF, float, &[value]);
            b.ids(Op::FConvert, elem.ty, &[value])
        }
    }
}

/// Returns whether rows, and columns, have to be known to call a function for the elements that invocations hold.
pub(super) fn wanted_positions(m: &Module, function: Id, mat: Mat) -> [bool; 2] {
    if is_guarded(mat) { [true; 2] } else { uses_position(m, function) }
}

/// Returns true if some of the elements that invocations hold are not the matrix's.
pub(super) fn is_guarded(mat: Mat) -> bool {
    mat.covered() != (mat.shape.rows, mat.shape.cols)
}

fn inside(b: &mut FunctionBuilder<'_>, mat: Mat, at: (Index, Index)) -> Id {
    let ty = b.globals.bool(b.module);
    let both = [(at.0, mat.shape.rows), (at.1, mat.shape.cols)]
        .map(|(at, extent)| b.compare(Op::ULessThan, at, Index::Const(extent)));
    b.ids(Op::LogicalAnd, ty, &both)
}
