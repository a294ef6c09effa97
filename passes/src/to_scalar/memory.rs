//! Loads and stores.
//!
//! A matrix load or store becomes a call of a function with the moving parts of the address as parameters: the
//! indices of the access chain that are not constants, the stride, and the pointer itself where it is not a variable
//! of the module. The function visits the lane's elements.
//!
//! Memory is seen as units (the pointee of the pointer) of one or more numbers. Element (r, c) begins at bit
//! `(r * stride * unit) + c * width` behind the pointer (row major), whatever the unit: it may be a part of a number,
//! a number, or several of them. Lane-dependent parts of the address are kept as sums ([`Affine`]), so that the quotient
//! and the remainder by the unit fold whenever a lane's elements begin at whole units.

use super::array::unroll;
use super::exchange::Conversion;
use super::{Deferred, Key, Lower, Mat, unfit};
use crate::matrix::address::{FAR, access_operands, narrow};
use crate::matrix::affine::Affine;
use crate::matrix::bits::{gather, part, split_value};
use crate::matrix::placement::{self, MajorOrder, Run};
use crate::matrix::pointer::{MemoryLocation, place, step, steppable};
use crate::matrix::position::{ElementPosition, LanePosition};
use crate::{Refusal, malformed};
use coop_ir::builder::{FunctionBuilder, Index, Unroll, decorate};
use coop_ir::hash::FxHashMap;
use coop_ir::rewrite::insert_before;
use coop_ir::spv::{Decoration, StorageClass};
use coop_ir::types::{self, Scalar};
use coop_ir::{Id, Inst, InstRef, Op, Operand};

/// The access that a memory function is generated for, and the indices of its arguments among the parameters.
pub(super) struct Access {
    mat: Mat,
    place: MemoryLocation,
    row_major: bool,
    stride: Id,
    operands: Vec<Operand>,
}

/// A value in the function that is made: a constant of the module, or a parameter.
#[derive(Clone, Copy)]
pub(super) enum Arg {
    Constant(Id),
    Param(usize),
}

impl Access {
    /// The ids whose values the function needs, in order.
    fn inputs(&self) -> Vec<Id> {
        let p = &self.place;
        p.indices.iter().copied().chain(p.component).chain([self.stride]).collect()
    }
}

/// The state of a function that visits a lane's elements.
pub(super) struct Visit {
    mat: Mat,
    place: MemoryLocation,
    row_major: bool,
    operands: Vec<Operand>,
    root: Id,
    /// The indices before the last.
    fixed: Vec<Id>,
    /// The last index, as 32 bits or (with `wide`) as 64.
    last: Index,
    wide: Option<Id>,
    component: Index,
    stride: Index,
    /// The stride, where distances are computed with its 64 bits.
    far: Option<Id>,
    lane_position: LanePosition,
    /// Numbers that were loaded in straight-line code, by (line, unit, number).
    loaded: FxHashMap<(Affine, Affine, Index), Id>,
    /// Lines times the stride, likewise.
    lines: FxHashMap<Affine, Index>,
}

impl Lower<'_, '_> {
    pub(super) fn load(&mut self, r: InstRef) -> Result<(), Refusal> {
        let inst = self.m.inst(r);
        let mat = inst.ty.and_then(|t| self.mats.get(&t)).copied();
        let (Some(mat), Some(said)) = (mat, inst.matrix_access()) else { return unfit(r) };
        let operands = inst.operands.get(said.memory..).unwrap_or_default().to_vec();
        let access = self.access(r, mat, said.pointer, said.layout, said.stride, operands)?;
        if let Some(id) = self.m.inst(r).result.filter(|id| self.deferred.contains(id)) {
            self.leave(r, id, Deferred::Plain(Box::new(access)));
            return Ok(());
        }
        let (key, args) = self.signature(&access, Op::CooperativeMatrixLoadKHR);
        self.call(r, key, &args, &mut |this| Ok(this.make_load(&access)))
    }

    pub(super) fn store(&mut self, r: InstRef) -> Result<(), Refusal> {
        let inst = self.m.inst(r);
        let Some((said, object)) = inst.matrix_access().and_then(|a| Some((a, a.object?))) else { return unfit(r) };
        let operands = inst.operands.get(said.memory..).unwrap_or_default().to_vec();
        let Some(mat) = self.mat_of(object) else { return unfit(r) };
        let mut access = self.access(r, mat, said.pointer, said.layout, said.stride, operands)?;
        let mut object = object;
        let (memory, width) = (access.place.memory.width(), mat.scalar.width());
        if memory > width {
            let run = Run { shape: mat.placement.shape, along_row: access.row_major, len: memory / width };
            if !run.fits(mat.placement) {
                (access.mat, object) = self.whole_words(r, mat, run, object, access.place.memory)?;
            }
        }
        let (key, mut args) = self.signature(&access, Op::CooperativeMatrixStoreKHR);
        args.push(object);
        self.call(r, key, &args, &mut |this| Ok(this.make_store(&access)))
    }

    /// A matrix whose words no lane holds whole, handed around so that each word is held by one.
    fn whole_words(
        &mut self,
        r: InstRef,
        mat: Mat,
        run: Run,
        object: Id,
        memory: Scalar,
    ) -> Result<(Mat, Id), Refusal> {
        let along = if run.along_row { MajorOrder::Row } else { MajorOrder::Column };
        let lanes = mat.placement.grid.lanes();
        let placement = placement::coalesced(lanes, run.shape, along, run.len);
        let moved =
            Conversion { from: mat, to: Mat { placement, ..mat }, transposed: false, op: None, truncates: false };
        if !run.fits(placement) || self.zone(r, mat.workgroup).is_err() {
            let why = format!(
                "a {} matrix of {}x{} is stored into {memory} memory, and no lane holds all {} elements of a {}-bit word",
                mat.scalar,
                run.shape.rows,
                run.shape.cols,
                run.len,
                memory.width()
            );
            let remedy = "store into memory of the component type, or use other dimensions";
            return Err(Refusal::new("refused-store-narrow", Some(r), why, remedy));
        }
        let held = match self.words.get(&(mat.ty, run)) {
            Some(held) => *held,
            None => {
                // A type of its own, so that functions for it are not taken for those of another matrix.
                let (ty, len) = (self.m.fresh_id(), self.g.u32(self.m, placement.len()));
                let array = self.m.add(Inst::new(Op::TypeArray, None, Some(ty), [mat.elem.into(), len.into()]));
                self.m.globals.push(array);
                let held = Mat { ty, ..moved.to };
                self.words.insert((mat.ty, run), held);
                held
            }
        };
        let id = self.m.fresh_id();
        let place = Inst::new(Op::Undef, Some(held.ty), Some(id), []).at(self.m.inst(r).origin);
        let Some(first) = insert_before(self.m, r, place) else {
            unreachable!("a store that is being lowered is in a block")
        };
        self.transfer(first, &Conversion { to: held, ..moved }, object)?;
        Ok((held, id))
    }

    fn access(
        &mut self,
        r: InstRef,
        mat: Mat,
        pointer: Id,
        layout: Id,
        stride: Option<Id>,
        operands: Vec<Operand>,
    ) -> Result<Access, Refusal> {
        let row_major = match self.constants.get(layout).fixed() {
            Some(0) => true,
            Some(1) => false,
            other => {
                let layout = other.map_or_else(|| "an unknown layout".to_owned(), |l| format!("layout {l}"));
                let why = format!("{layout} has no lowering yet");
                return Err(Refusal::new("refused-layout", Some(r), why, "use RowMajor or ColumnMajor"));
            }
        };
        let Some(stride) = stride else {
            let why = "the stride is missing";
            return Err(Refusal::new("refused-malformed", Some(r), why, "give the load or store a stride"));
        };
        if !matches!(mat.scalar.width(), 8 | 16 | 32 | 64) {
            let why = format!("components of type {} have no lowering yet", mat.scalar);
            return Err(Refusal::new("refused-type", Some(r), why, "use components of 8, 16, 32 or 64 bits"));
        }
        let place = place(self.m, &self.constants, r, pointer)?;
        let access = Access { mat, place, row_major, stride, operands };
        let integer = |id: &Id| self.m.type_of(*id).and_then(|t| types::scalar(self.m, t)).is_some_and(Scalar::is_int);
        if !access.inputs().iter().all(integer) {
            return malformed(r, "an index or the stride is not an integer");
        }
        Ok(access)
    }

    /// The key of the function for an access, and the arguments of its call (without the object).
    pub(super) fn signature(&mut self, access: &Access, op: Op) -> (Key, Vec<Id>) {
        let mut args = Vec::new();
        let p = &access.place;
        let mut key = Key { op, types: vec![access.mat.ty], extra: vec![u32::from(access.row_major).into()] };
        key.extra.extend(access.operands.iter().copied());
        key.extra.push(Operand::Word(p.component.is_some().into()));
        if p.global {
            key.extra.push(p.root.into());
        } else {
            args.push(p.root);
            key.types.extend(self.m.type_of(p.root));
        }
        for id in access.inputs() {
            if self.is_constant(id) {
                key.extra.push(id.into());
            } else {
                args.push(id);
                key.extra.push(Operand::Word(0));
                key.types.extend(self.m.type_of(id));
            }
        }
        (key, args)
    }

    fn is_constant(&self, id: Id) -> bool {
        self.m.def_inst(id).is_some_and(|i| i.op.is_constant())
    }

    /// The parameters of the function for an access, of which `before` come first: their types, and what the inputs are.
    pub(super) fn params(&self, access: &Access, before: usize) -> (Vec<Id>, Vec<Arg>) {
        let mut types = Vec::new();
        if !access.place.global {
            types.extend(self.m.type_of(access.place.root));
        }
        let inputs = access
            .inputs()
            .into_iter()
            .map(|id| {
                if self.is_constant(id) {
                    return Arg::Constant(id);
                }
                types.extend(self.m.type_of(id));
                Arg::Param(before + types.len() - 1)
            })
            .collect();
        (types, inputs)
    }

    fn make_load(&mut self, access: &Access) -> Id {
        let mat = access.mat;
        let (types, inputs) = self.params(access, 0);
        let label = format!("coop_load_{}", mat.label());
        let constants = &self.constants;
        let known = |id: Id| constants.get(id).fixed();
        let mut b = FunctionBuilder::new(self.m, &mut self.g, &label, mat.ty, &types);
        let lane = self.lanes.lane(&mut b, mat.workgroup);
        let mut v = Visit::new(&mut b, access, 0, &inputs, lane, &known);
        let outer = unroll(mat.placement.len());
        let value = if outer == Unroll::Now {
            let mut parts = Vec::new();
            for i in 0..mat.placement.rows.per_group {
                for j in 0..mat.placement.cols.per_group {
                    parts.push(v.load(&mut b, Index::Const(i), Index::Const(j)));
                }
            }
            b.ids(Op::CompositeConstruct, mat.ty, &parts)
        } else {
            let array = b.variable(mat.ty);
            let pointer = b.globals.pointer(b.module, StorageClass::Function, mat.elem);
            let inner = unroll(mat.placement.cols.per_group);
            b.repeat(mat.placement.rows.per_group, outer, &mut |b, i| {
                b.repeat(mat.placement.cols.per_group, inner, &mut |b, j| {
                    v.forget();
                    let value = v.load(b, i, j);
                    let at = mat.placement.index(b, i, j);
                    let at = b.index(at);
                    let slot = b.ids(Op::AccessChain, pointer, &[array, at]);
                    b.effect(Op::Store, [slot.into(), value.into()]);
                });
            });
            b.ids(Op::Load, mat.ty, &[array])
        };
        b.finish(Some(value))
    }

    fn make_store(&mut self, access: &Access) -> Id {
        let mat = access.mat;
        let (mut types, inputs) = self.params(access, 0);
        types.push(mat.ty);
        let object = types.len() - 1;
        let label = format!("coop_store_{}", mat.label());
        let constants = &self.constants;
        let known = |id: Id| constants.get(id).fixed();
        let void = self.g.void(self.m);
        let mut b = FunctionBuilder::new(self.m, &mut self.g, &label, void, &types);
        let object = b.param(object);
        let lane = self.lanes.lane(&mut b, mat.workgroup);
        let mut v = Visit::new(&mut b, access, 0, &inputs, lane, &known);
        // Of lanes that hold the same elements, the first stores them.
        match v.lane_position.first(&mut b) {
            Some(first) => b.when(first, &mut |b| v.store_all(b, object)),
            None => v.store_all(&mut b, object),
        }
        b.finish(None)
    }
}

impl Visit {
    /// `first` is the number of the access's first parameter.
    pub(super) fn new(
        b: &mut FunctionBuilder<'_>,
        access: &Access,
        first: usize,
        inputs: &[Arg],
        lane: Index,
        known: &dyn Fn(Id) -> Option<u64>,
    ) -> Visit {
        let place = access.place.clone();
        let mat = access.mat;
        let root = if place.global { place.root } else { b.param(first) };
        if !place.global && place.storage == StorageClass::PhysicalStorageBuffer {
            // Vulkan asks for one of the two on every such parameter.
            decorate(b.module, root, Decoration::Aliased, &[]);
        }
        let mut ids = Vec::new();
        for arg in inputs {
            ids.push(match arg {
                Arg::Constant(id) => *id,
                Arg::Param(n) => b.param(*n),
            });
        }
        let far = ids.last().copied().filter(|id| {
            let wide = b.module.type_of(*id).and_then(|t| types::scalar(b.module, t)).is_some_and(|s| s.width() == 64);
            let stepped = place.indices.is_empty() && place.component.is_none();
            wide && stepped && known(*id).is_none_or(|stride| stride >= FAR)
        });
        let stride = ids.pop().map_or(Index::Const(0), |id| narrow(b, id, known));
        let component = place.component.and_then(|_| ids.pop()).map_or(Index::Const(0), |id| narrow(b, id, known));
        let last = ids.pop();
        let wide = last
            .and_then(|id| b.module.type_of(id))
            .filter(|t| matches!(types::scalar(b.module, *t), Some(Scalar::Int { width: 64, .. })));
        let last = match last {
            None => Index::Const(0),
            Some(id) if wide.is_some() => Index::Value(id),
            Some(id) => narrow(b, id, known),
        };
        let root = if place.indices.is_empty() { steppable(b, &place, root) } else { root };
        let lane_position = LanePosition::of_lane(b, mat.placement, lane);
        Visit {
            mat,
            row_major: access.row_major,
            operands: access.operands.clone(),
            root,
            fixed: ids,
            last,
            wide,
            component,
            stride,
            far,
            lane_position,
            loaded: FxHashMap::default(),
            lines: FxHashMap::default(),
            place,
        }
    }

    /// The pointer to a number: `line` strides, `unit` units and `number` numbers behind the start.
    fn pointer(&mut self, b: &mut FunctionBuilder<'_>, line: &Affine, unit: &Affine, number: Index) -> Id {
        if let Some(stride) = self.far {
            return self.far_pointer(b, (line, unit, number), stride);
        }
        let lines = match self.stride {
            Index::Const(s) => line.clone().times(s),
            stride => {
                let known = self.lines.get(line).copied();
                let lines = known.unwrap_or_else(|| {
                    let line = line.emit(b);
                    b.mul(line, stride)
                });
                self.lines.insert(line.clone(), lines);
                Affine::scaled(lines, 1)
            }
        };
        let mut offset = lines.plus(unit);
        let mut number = number;
        if self.place.component.is_some() {
            // Units are the numbers of a vector here: count them from the start of the first vector.
            let total = offset.plus(&Affine::scaled(self.component, 1));
            let (vectors, rest) = total.div_rem(b, self.place.lanes);
            (offset, number) = (vectors, rest);
        }
        let offset = offset.emit(b);
        let at = match (self.wide, self.last) {
            (Some(ty), Index::Value(last)) => match offset {
                Index::Const(0) => last,
                _ => {
                    let (u64_type, offset) = (b.globals.uint(b.module, 64), b.index(offset));
                    let offset = b.ids(Op::UConvert, u64_type, &[offset]);
                    b.ids(Op::IAdd, ty, &[last, offset])
                }
            },
            (_, last) => {
                let sum = b.add(last, offset);
                if self.place.indices.is_empty() { step(b, &self.place, sum) } else { b.index(sum) }
            }
        };
        let ty = b.globals.pointer(b.module, self.place.storage, self.place.memory_ty);
        let mut operands: Vec<Id> = vec![self.root];
        operands.extend(&self.fixed);
        operands.push(at);
        if self.place.lanes > 1 {
            operands.push(b.index(number));
        }
        let op = if self.place.indices.is_empty() { Op::PtrAccessChain } else { Op::AccessChain };
        if op == Op::PtrAccessChain && self.place.lanes == 1 {
            // Without further indices the result has the type of the base.
            let ty = b.module.type_of(self.root).unwrap_or(ty);
            return b.ids(op, ty, &operands);
        }
        b.ids(op, ty, &operands)
    }

    /// The same where the distance from the start is computed with 64 bits, as the stride has them.
    fn far_pointer(
        &mut self,
        b: &mut FunctionBuilder<'_>,
        (line, unit, number): (&Affine, &Affine, Index),
        stride: Id,
    ) -> Id {
        let wide = b.globals.uint(b.module, 64);
        let widened = |b: &mut FunctionBuilder<'_>, n: &Affine| {
            let n = n.emit(b);
            let n = b.index(n);
            b.ids(Op::UConvert, wide, &[n])
        };
        let lines = match self.lines.get(line) {
            Some(Index::Value(known)) => *known,
            _ => {
                let line_number = widened(b, line);
                let lines = b.ids(Op::IMul, wide, &[line_number, stride]);
                self.lines.insert(line.clone(), Index::Value(lines));
                lines
            }
        };
        let along = widened(b, unit);
        let at = b.ids(Op::IAdd, wide, &[lines, along]);
        let ty = b.globals.pointer(b.module, self.place.storage, self.place.memory_ty);
        if self.place.lanes > 1 {
            let number = b.index(number);
            return b.ids(Op::PtrAccessChain, ty, &[self.root, at, number]);
        }
        let ty = b.module.type_of(self.root).unwrap_or(ty);
        b.ids(Op::PtrAccessChain, ty, &[self.root, at])
    }

    /// Splits the bits at which an element begins, in its line, into units and numbers in the unit.
    fn split(&self, b: &mut FunctionBuilder<'_>, bits: &Affine) -> (Affine, Index, Index) {
        let width = self.place.memory.width();
        let unit = if self.place.component.is_some() { width } else { width * self.place.lanes };
        let (unit, rest) = bits.div_rem(b, unit);
        (unit, b.div(rest, width), b.rem(rest, width))
    }

    fn load_number(&mut self, b: &mut FunctionBuilder<'_>, line: &Affine, unit: Affine, number: Index) -> Id {
        let key = (line.clone(), unit, number);
        if let Some(id) = self.loaded.get(&key) {
            return *id;
        }
        let pointer = self.pointer(b, line, &key.1, number);
        let operands = access_operands(&self.operands, self.place.memory.bytes());
        let id = b.op(Op::Load, self.place.memory_ty, [Operand::Id(pointer)].into_iter().chain(operands));
        self.loaded.insert(key, id);
        id
    }

    /// Forgets the numbers that were loaded: they are not known where control flow goes on.
    fn forget(&mut self) {
        self.loaded.clear();
        self.lines.clear();
    }

    /// Loads the lane's element (`i`, `j`).
    fn load(&mut self, b: &mut FunctionBuilder<'_>, i: Index, j: Index) -> Id {
        let ElementPosition { row, col, .. } = self.lane_position.place(b, i, j);
        self.load_lin(b, row, col)
    }

    /// Loads neighbours of the matrix, from an element on.
    pub(super) fn load_run(
        &mut self,
        b: &mut FunctionBuilder<'_>,
        row: Index,
        col: Index,
        order: MajorOrder,
        count: u32,
    ) -> Vec<Id> {
        self.forget();
        (0..count)
            .map(|n| {
                let (row, col) = (Affine::scaled(row, 1), Affine::scaled(col, 1));
                match order {
                    MajorOrder::Row => self.load_lin(b, row, col.plus(&Affine::constant(n))),
                    MajorOrder::Column => self.load_lin(b, row.plus(&Affine::constant(n)), col),
                }
            })
            .collect()
    }

    fn load_lin(&mut self, b: &mut FunctionBuilder<'_>, row: Affine, col: Affine) -> Id {
        let (line, along) = if self.row_major { (row, col) } else { (col, row) };
        let (memory, scalar) = (self.place.memory, self.mat.scalar);
        let (width, elem) = (memory.width(), self.mat.elem);
        let bits = along.times(scalar.width());
        if width < scalar.width() {
            // Several numbers make an element.
            let count = scalar.width() / width;
            let parts: Vec<Id> = (0..count)
                .map(|p| {
                    let (unit, number, _) = self.split(b, &bits.clone().plus(&Affine::constant(p * width)));
                    self.load_number(b, &line, unit, number)
                })
                .collect();
            return gather(b, memory, self.place.memory_ty, &parts, elem);
        }
        let (unit, number, rest) = self.split(b, &bits);
        let whole = self.load_number(b, &line, unit, number);
        if width == scalar.width() {
            return if self.place.memory_ty == elem { whole } else { b.ids(Op::Bitcast, elem, &[whole]) };
        }
        part(b, scalar, elem, whole, width, rest)
    }

    /// Stores the lane's elements.
    fn store_all(&mut self, b: &mut FunctionBuilder<'_>, object: Id) {
        let placement = self.mat.placement;
        let (width, scalar) = (self.place.memory.width(), self.mat.scalar.width());
        let run = (width / scalar).max(1);
        let outer = unroll(placement.len());
        let array = (outer != Unroll::Now).then(|| {
            let array = b.variable(self.mat.ty);
            b.effect(Op::Store, [array.into(), object.into()]);
            array
        });
        let (lines, along) = if self.row_major {
            (placement.rows.per_group, placement.cols.per_group / run)
        } else {
            (placement.cols.per_group, placement.rows.per_group / run)
        };
        let inner = unroll(along * run);
        let this = &mut *self;
        b.repeat(lines, outer, &mut |b, line| {
            b.repeat(along, inner, &mut |b, at| {
                let first = b.mul(at, Index::Const(run));
                let mut parts = Vec::new();
                for t in 0..run {
                    let at = b.add(first, Index::Const(t));
                    let (i, j) = if this.row_major { (line, at) } else { (at, line) };
                    parts.push(element(b, &this.mat, object, array, i, j));
                }
                let (i, j) = if this.row_major { (line, first) } else { (first, line) };
                this.store(b, i, j, &parts);
            });
        });
    }

    /// Stores elements from (`i`, `j`) on, which make one number or a part of several.
    fn store(&mut self, b: &mut FunctionBuilder<'_>, i: Index, j: Index, parts: &[Id]) {
        self.forget();
        let ElementPosition { row, col, real: owned } = self.lane_position.place(b, i, j);
        let (line, along) = if self.row_major { (row, col) } else { (col, row) };
        let mut write = |b: &mut FunctionBuilder<'_>| {
            let (memory, scalar) = (self.place.memory, self.mat.scalar);
            let bits = along.clone().times(scalar.width());
            let numbers = if memory.width() < scalar.width() {
                split_value(b, memory, self.place.memory_ty, parts[0], scalar.width())
            } else {
                vec![gather(b, scalar, self.mat.elem, parts, self.place.memory_ty)]
            };
            for (p, value) in (0..).zip(numbers) {
                let (unit, number, _) = self.split(b, &bits.clone().plus(&Affine::constant(p * memory.width())));
                let pointer = self.pointer(b, &line, &unit, number);
                let operands = access_operands(&self.operands, memory.bytes());
                b.effect(Op::Store, [pointer, value].map(Operand::Id).into_iter().chain(operands));
            }
        };
        match owned {
            Some(owned) => b.when(owned, &mut write),
            None => write(b),
        }
    }
}

/// Element (`i`, `j`) of a lane's array: extracted where the index is known, read from `array` else.
fn element(b: &mut FunctionBuilder<'_>, mat: &Mat, object: Id, array: Option<Id>, i: Index, j: Index) -> Id {
    let at = mat.placement.index(b, i, j);
    match (at, array) {
        (Index::Const(at), None) => b.op(Op::CompositeExtract, mat.elem, [object.into(), at.into()]),
        (at, array) => {
            let pointer = b.globals.pointer(b.module, StorageClass::Function, mat.elem);
            let at = b.index(at);
            let slot = b.ids(Op::AccessChain, pointer, &[array.unwrap_or(object), at]);
            b.ids(Op::Load, mat.elem, &[slot])
        }
    }
}
