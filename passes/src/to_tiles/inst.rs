//! Lowers the instructions of a function one by one: each stays as it is, or becomes one instruction for each tile.

use super::elements;
use super::shape::Mat;
use super::{Phi, TileIds, Tiles};
use crate::decorations;
use crate::matrix::address::narrow;
use crate::matrix::arena::Elem;
use crate::{Refusal, malformed};
use coop_ir::builder::FunctionBuilder;
use coop_ir::hash::FxHashMap;
use coop_ir::types::{self, Type};
use coop_ir::{Id, Inst, InstRef, Module, Op, Operand};

/// The first instruction made for an old one takes its place and its id; the others get ids of their own.
pub(super) struct Slot {
    at: InstRef,
    used: bool,
}

impl Slot {
    pub(super) fn new(at: InstRef) -> Slot {
        Slot { at, used: false }
    }

    /// Returns the old instruction.
    pub(super) fn at(&self) -> InstRef {
        self.at
    }

    /// Leaves the id to another slot of the instruction.
    pub(super) fn skip(&mut self) {
        self.used = true;
    }

    pub(super) fn op(
        &mut self,
        b: &mut FunctionBuilder<'_>,
        op: Op,
        ty: Id,
        operands: impl IntoIterator<Item = Operand>,
    ) -> Id {
        let old = b.module.inst(self.at);
        match old.result.filter(|_| !self.used) {
            Some(id) => {
                let new = Inst::new(op, Some(ty), Some(id), operands).at(old.origin);
                b.module.replace(self.at, new);
                b.keep(self.at);
                self.used = true;
                id
            }
            None => b.op(op, ty, operands),
        }
    }
}

/// The step of a chain of indices into a matrix: the number of indices before it, and the matrix.
type MatrixStep = Option<(usize, Mat)>;

impl Tiles<'_, '_> {
    /// Returns true if an instruction has to do with a matrix that becomes an array.
    pub(super) fn touches(&self, m: &Module, inst: &Inst) -> bool {
        let is_split = |t: Id| self.analysis.mats.get(&t).is_some_and(|m| !m.is_kept());
        let is_split_value = |id: Id| self.mat_of(m, id).is_some_and(|m| !m.is_kept());
        match inst.op {
            Op::CooperativeMatrixLengthKHR => inst.id(0).is_some_and(is_split),
            op if op.is_typed_access_chain() => {
                matches!(self.chain_through(m, inst), Some((_, mat)) if !mat.is_kept())
            }
            Op::CooperativeMatrixMulAddKHR if self.must_saturate(m, inst) || self.must_widen(m, inst) => true,
            Op::Select if inst.ty.is_some_and(|t| self.analysis.selected.contains(&t)) => true,
            op if op.is_extended_matrix_instruction() => true,
            op if op.is_elementwise()
                && inst.ty.and_then(|t| self.analysis.mats.get(&t)).is_some_and(|to| self.moves(m, inst, *to)) =>
            {
                true
            }
            Op::CompositeExtract | Op::CompositeInsert => {
                inst.ty.is_some_and(is_split)
                    || inst.ids().any(is_split_value)
                    || matches!(self.literals_through(m, inst), Some((_, mat)) if !mat.is_kept())
            }
            op if op == Op::Variable || op.is_function_header() => false,
            _ => inst.ty.is_some_and(is_split) || inst.ids().any(is_split_value),
        }
    }

    pub(super) fn inst(&mut self, b: &mut FunctionBuilder<'_>, r: InstRef) -> Result<(), Refusal> {
        let inst = b.module.inst(r).clone();
        if !self.touches(b.module, &inst) {
            b.keep(r);
            return Ok(());
        }
        self.cx.within_limits(b.module, Some(r))?;
        let result = inst.ty.and_then(|t| self.analysis.mats.get(&t)).copied();
        match inst.op {
            Op::CooperativeMatrixLoadKHR => self.load_khr(b, r, &inst),
            Op::CooperativeMatrixStoreKHR => self.store_khr(b, r, &inst),
            Op::CooperativeMatrixMulAddKHR => self.muladd(b, r, &inst),
            Op::CooperativeMatrixLoadTensorNV => self.load_tensor(b, r, &inst),
            Op::CooperativeMatrixStoreTensorNV => self.store_tensor(b, r),
            Op::CooperativeMatrixReduceNV => self.reduce(b, r, &inst),
            Op::CooperativeMatrixPerElementOpNV => self.per_element(b, r, &inst),
            Op::CooperativeMatrixConvertNV | Op::CooperativeMatrixTransposeNV => self.convert(b, r, &inst),
            Op::CooperativeMatrixGetCoordinateEXT => self.coordinate(b, r, &inst),
            Op::CooperativeMatrixLengthKHR => self.length(b, r, &inst),
            op if op.is_typed_access_chain() => self.access_chain(b, r, &inst),
            Op::CompositeExtract => self.extract(b, r, &inst),
            Op::CompositeInsert => self.insert(b, r, &inst),
            Op::Load => match result {
                Some(mat) => self.load(b, r, &inst, mat),
                None => self.other(b, r, &inst),
            },
            Op::Store => self.store(b, r, &inst),
            Op::Phi => match result {
                Some(mat) => self.phi(b, r, &inst, mat),
                None => malformed(r, "a phi of matrices that gives none"),
            },
            Op::Select => self.select(b, r, &inst, result),
            Op::Undef | Op::CopyObject => match result {
                Some(mat) => self.each(b, r, &inst, mat),
                None => malformed(r, format!("{} of a matrix that gives none", inst.op)),
            },
            Op::CompositeConstruct | Op::CompositeConstructReplicateEXT => match result {
                Some(mat) => self.splat(b, r, &inst, mat),
                None => self.construct(b, r, inst),
            },
            op if op.is_elementwise() => match result {
                Some(mat) if self.moves(b.module, &inst, mat) => self.convert(b, r, &inst),
                Some(mat) => self.each(b, r, &inst, mat),
                None => malformed(r, format!("{op} of a matrix that gives none")),
            },
            // Debug information may name matrices, and keeps doing so.
            Op::ExtInst if result.is_none() => {
                b.keep(r);
                Ok(())
            }
            _ => self.other(b, r, &inst),
        }
    }

    /// Returns true if a conversion of components takes them to other places.
    pub(super) fn moves(&self, m: &Module, inst: &Inst, to: Mat) -> bool {
        let from = inst.id(0).and_then(|id| self.mat_of(m, id));
        let one = inst.operands.len() == 1 && inst.op != Op::Bitcast;
        let place = |mat: &Mat| (mat.shape, mat.tile_use, mat.tile_rows, mat.tile_cols);
        one && from
            .is_some_and(|from| place(&from) != place(&to) || inst.result.is_some_and(|id| self.transposed(m, id)))
    }

    fn other(&mut self, b: &mut FunctionBuilder<'_>, r: InstRef, inst: &Inst) -> Result<(), Refusal> {
        match inst.op {
            // Pointers to matrices go about as before.
            Op::CopyMemory | Op::Load => {
                b.keep(r);
                Ok(())
            }
            Op::FunctionCall | Op::ReturnValue => {
                let why = "a function takes or returns a matrix that the device does not have";
                let remedy = "inline the function (spirv-opt --inline-entry-points-exhaustive)";
                Err(Refusal::new("refused-function", Some(r), why, remedy))
            }
            op => {
                let why = format!("{op} on a matrix has no lowering to tiles yet");
                Err(Refusal::new(
                    "refused-instruction",
                    Some(r),
                    why,
                    "lower to scalar code (--target scalar); docs/instructions.md has what is lowered",
                ))
            }
        }
    }

    /// The tiles of a value.
    pub(super) fn tiles_of(&self, m: &Module, r: InstRef, value: Id) -> Result<(Mat, TileIds), Refusal> {
        let Some(mat) = self.mat_of(m, value) else { return malformed(r, format!("{value} is not a matrix")) };
        if mat.is_kept() {
            return Ok((mat, vec![value]));
        }
        match self.parts.get(&value) {
            Some((_, parts)) => Ok((mat, parts.clone())),
            None => malformed(r, format!("{value} is used before it is defined")),
        }
    }

    /// The value as an array of its tiles.
    fn boxed(&mut self, b: &mut FunctionBuilder<'_>, r: InstRef, value: Id) -> Result<Id, Refusal> {
        if self.boxed.contains(&value) {
            return Ok(value);
        }
        let (mat, parts) = self.tiles_of(b.module, r, value)?;
        if mat.is_kept() {
            return Ok(value);
        }
        Ok(b.ids(Op::CompositeConstruct, mat.ty, &parts))
    }

    /// Takes a value that is an array under its own id apart.
    fn unbox(&mut self, b: &mut FunctionBuilder<'_>, value: Id, mat: Mat) {
        let parts = (0..mat.tiles()).map(|t| b.op(Op::CompositeExtract, mat.tile, [value.into(), t.into()])).collect();
        self.boxed.insert(value);
        self.parts.insert(value, (mat, parts));
    }

    /// Records the tiles of the result.
    pub(super) fn define(&mut self, inst: &Inst, mat: Mat, parts: TileIds) {
        if let Some(id) = inst.result.filter(|_| !mat.is_kept()) {
            self.parts.insert(id, (mat, parts));
        }
    }

    fn length(&mut self, b: &mut FunctionBuilder<'_>, r: InstRef, inst: &Inst) -> Result<(), Refusal> {
        let mat = inst.id(0).and_then(|t| self.analysis.mats.get(&t)).copied();
        let (Some(mat), Some(ty)) = (mat, inst.ty) else { return malformed(r, "a length of no matrix") };
        let Some(scalar) = types::scalar(b.module, ty).filter(|s| s.is_int()) else {
            return malformed(r, "a length that is not an integer");
        };
        let length = b.ids(Op::CooperativeMatrixLengthKHR, ty, &[mat.tile]);
        let tiles = b.globals.constant_of(b.module, ty, scalar, u64::from(mat.tiles()));
        Slot::new(r).op(b, Op::IMul, ty, [length, tiles].map(Operand::Id));
        Ok(())
    }

    /// The matrix that a chain of accesses steps into, if there is one.
    fn chain_through(&self, m: &Module, inst: &Inst) -> MatrixStep {
        let Type::Pointer { pointee, .. } = Type::of(m, m.type_of(inst.id(0)?)?)? else { return None };
        let first = if inst.op.is_element_chain() { 2 } else { 1 };
        let mut ty = pointee;
        for (n, index) in inst.ids_from(first).enumerate() {
            if let Some(mat) = self.analysis.mats.get(&ty) {
                return Some((first + n, *mat));
            }
            ty = match Type::of(m, ty)? {
                Type::Array { elem, .. } | Type::RuntimeArray { elem } | Type::Vector { elem, .. } => elem,
                Type::Struct { members } => *members.get(self.analysis.constants.get(index).value()? as usize)?,
                Type::Matrix { column, .. } => column,
                _ => return None,
            };
        }
        None
    }

    /// The same for the literal indices of an extraction or insertion.
    fn literals_through(&self, m: &Module, inst: &Inst) -> MatrixStep {
        let first = if inst.op == Op::CompositeInsert { 2 } else { 1 };
        let composite = inst.id(first - 1)?;
        let mut ty = self.mat_of(m, composite).map(|mat| mat.ty).or_else(|| m.type_of(composite))?;
        for (n, index) in inst.operands.iter().enumerate().skip(first) {
            if let Some(mat) = self.analysis.mats.get(&ty) {
                return Some((n, *mat));
            }
            ty = match Type::of(m, ty)? {
                Type::Array { elem, .. } | Type::Vector { elem, .. } => elem,
                Type::Struct { members } => *members.get(index.word() as usize)?,
                Type::Matrix { column, .. } => column,
                _ => return None,
            };
        }
        None
    }

    fn access_chain(&mut self, b: &mut FunctionBuilder<'_>, r: InstRef, inst: &Inst) -> Result<(), Refusal> {
        let through = self.chain_through(b.module, inst);
        let (Some((at, mat)), Some(ty)) = (through, inst.ty) else { return malformed(r, "a chain of accesses") };
        let Some(index) = inst.id(at).filter(|_| inst.operands.len() == at + 1) else {
            return malformed(r, "a chain of accesses goes on behind an element");
        };
        let constants = &self.analysis.constants;
        let index = narrow(b, index, &|id| constants.get(id).fixed());
        let (tile, element) = (b.rem(index, mat.tiles()), b.div(index, mat.tiles()));
        let (tile, element) = (b.index(tile), b.index(element));
        let operands = inst.operands[..at].iter().copied().chain([tile, element].map(Operand::Id));
        Slot::new(r).op(b, inst.op, ty, operands);
        Ok(())
    }

    fn extract(&mut self, b: &mut FunctionBuilder<'_>, r: InstRef, inst: &Inst) -> Result<(), Refusal> {
        let (Some(ty), Some(from)) = (inst.ty, inst.id(0)) else { return malformed(r, "an extraction of nothing") };
        if let Some((at, mat)) = self.literals_through(b.module, inst).filter(|(_, mat)| !mat.is_kept()) {
            let Some(index) = inst.word(at).filter(|_| inst.operands.len() == at + 1) else {
                return malformed(r, "an extraction goes on behind an element");
            };
            let (tile, element) = (index % mat.tiles(), index / mat.tiles());
            if at == 1 {
                let (_, parts) = self.tiles_of(b.module, r, from)?;
                Slot::new(r).op(b, Op::CompositeExtract, ty, [parts[tile as usize].into(), element.into()]);
            } else {
                let before = inst.operands[..at].iter().copied();
                Slot::new(r).op(b, Op::CompositeExtract, ty, before.chain([tile, element].map(Operand::Word)));
            }
            return Ok(());
        }
        b.keep(r);
        if let (Some(mat), Some(id)) = (self.analysis.mats.get(&ty).copied().filter(|m| !m.is_kept()), inst.result) {
            self.unbox(b, id, mat);
        }
        Ok(())
    }

    fn insert(&mut self, b: &mut FunctionBuilder<'_>, r: InstRef, inst: &Inst) -> Result<(), Refusal> {
        let (Some(ty), Some(object), Some(into)) = (inst.ty, inst.id(0), inst.id(1)) else {
            return malformed(r, "an insertion of nothing");
        };
        let through = self.literals_through(b.module, inst).filter(|(_, mat)| !mat.is_kept());
        let mut operands = inst.operands.clone();
        if let Some((at, mat)) = through {
            let Some(index) = inst.word(at).filter(|_| inst.operands.len() == at + 1) else {
                return malformed(r, "an insertion goes on behind an element");
            };
            let (tile, element) = (index % mat.tiles(), index / mat.tiles());
            if at == 2 {
                let (_, mut parts) = self.tiles_of(b.module, r, into)?;
                let operands = [object.into(), parts[tile as usize].into(), Operand::Word(element)];
                parts[tile as usize] = Slot::new(r).op(b, Op::CompositeInsert, mat.tile, operands);
                self.define(inst, mat, parts);
                return Ok(());
            }
            operands.truncate(at);
            operands.extend([tile, element].map(Operand::Word));
        }
        if self.mat_of(b.module, object).is_some() {
            operands[0] = self.boxed(b, r, object)?.into();
        }
        Slot::new(r).op(b, Op::CompositeInsert, ty, operands);
        Ok(())
    }

    /// The pointer to a tile of a matrix in memory of the shader.
    pub(super) fn tile_of_variable(
        &self,
        b: &mut FunctionBuilder<'_>,
        r: InstRef,
        pointer: Id,
        mat: Mat,
        tile: u32,
    ) -> Result<Id, Refusal> {
        let Some(Type::Pointer { storage, .. }) = b.module.type_of(pointer).and_then(|t| Type::of(b.module, t)) else {
            return malformed(r, "a pointer without a type");
        };
        let ty = b.globals.pointer(b.module, storage, mat.tile);
        let tile = b.u32(tile);
        Ok(b.ids(Op::AccessChain, ty, &[pointer, tile]))
    }

    fn load(&mut self, b: &mut FunctionBuilder<'_>, r: InstRef, inst: &Inst, mat: Mat) -> Result<(), Refusal> {
        let Some(pointer) = inst.id(0) else { return malformed(r, "a load from nowhere") };
        let mut slot = Slot::new(r);
        let mut parts = TileIds::new();
        for t in 0..mat.tiles() {
            let from = self.tile_of_variable(b, r, pointer, mat, t)?;
            let operands = [Operand::Id(from)].into_iter().chain(inst.operands.iter().skip(1).copied());
            parts.push(slot.op(b, Op::Load, mat.tile, operands));
        }
        self.define(inst, mat, parts);
        Ok(())
    }

    fn store(&mut self, b: &mut FunctionBuilder<'_>, r: InstRef, inst: &Inst) -> Result<(), Refusal> {
        let (Some(pointer), Some(object)) = (inst.accessed(), inst.stored()) else {
            return malformed(r, "a store of nothing");
        };
        let (mat, parts) = self.tiles_of(b.module, r, object)?;
        for (t, part) in (0..).zip(parts) {
            let to = self.tile_of_variable(b, r, pointer, mat, t)?;
            let operands = [to, part].map(Operand::Id).into_iter().chain(inst.operands.iter().skip(2).copied());
            b.effect(Op::Store, operands);
        }
        Ok(())
    }

    fn phi(&mut self, b: &mut FunctionBuilder<'_>, r: InstRef, inst: &Inst, mat: Mat) -> Result<(), Refusal> {
        let from: Vec<(Id, Id)> = inst.incoming().collect();
        let mut slot = Slot::new(r);
        let mut parts = TileIds::new();
        let row_uniform = self.is_row_uniform(inst.result);
        for tile in 0..mat.tiles() as usize {
            let column = tile % mat.cols() as usize;
            if row_uniform && column > 0 {
                parts.push(parts[tile - column]);
                continue;
            }
            let id = slot.op(b, Op::Phi, mat.tile, []);
            let at = if tile == 0 { Some(r) } else { b.module.def(id) };
            if let Some(at) = at {
                self.function.phis.push(Phi { at, tile, from: from.clone() });
            }
            parts.push(id);
        }
        self.define(inst, mat, parts);
        Ok(())
    }

    /// A choice between two matrices, or of what has some: control flow with nothing in it.
    fn select(
        &mut self,
        b: &mut FunctionBuilder<'_>,
        r: InstRef,
        inst: &Inst,
        mat: Option<Mat>,
    ) -> Result<(), Refusal> {
        let (Some(condition), Some(yes), Some(no), Some(ty)) = (inst.id(0), inst.id(1), inst.id(2), inst.ty) else {
            return malformed(r, "a choice between nothing");
        };
        let of = |id: Id| match mat {
            Some(_) => self.tiles_of(b.module, r, id).map(|(_, parts)| parts),
            None => Ok(vec![id]),
        };
        let (yes, no) = (of(yes)?, of(no)?);
        let tile = mat.map_or(ty, |mat| mat.tile);
        let types = |values: &[Id]| values.iter().all(|id| b.module.type_of(*id) == Some(tile));
        if yes.len() != no.len() || !types(&yes) || !types(&no) {
            return malformed(r, "a choice between matrices of several types");
        }
        let mut fork = b.fork(condition);
        b.other(&mut fork);
        let from = b.join(fork);
        let row_uniform = self.is_row_uniform(inst.result);
        let (mut slot, mut parts) = (Slot::new(r), TileIds::new());
        for (at, (yes, no)) in yes.into_iter().zip(no).enumerate() {
            let column = mat.map_or(0, |mat| at % mat.cols() as usize);
            let part = match parts.get(at - column).filter(|_| row_uniform && column > 0) {
                Some(first) => *first,
                None => slot.op(b, Op::Phi, tile, [yes, from.0, no, from.1].map(Operand::Id)),
            };
            parts.push(part);
        }
        if let Some(mat) = mat {
            self.define(inst, mat, parts);
        }
        Ok(())
    }

    /// An instruction that works on each tile by itself.
    fn each(&mut self, b: &mut FunctionBuilder<'_>, r: InstRef, inst: &Inst, mat: Mat) -> Result<(), Refusal> {
        let mut arguments: Vec<(Operand, Option<TileIds>)> = Vec::new();
        for o in &inst.operands {
            let id = o.id().filter(|id| self.mat_of(b.module, *id).is_some());
            let Some(id) = id else {
                arguments.push((*o, None));
                continue;
            };
            let (from, parts) = self.tiles_of(b.module, r, id)?;
            let fits = from.shape == mat.shape && from.workgroup == mat.workgroup;
            if !fits {
                let why = format!("{} makes a {} matrix of a {} one", inst.op, mat.name(), from.name());
                let remedy = "convert between matrices of one shape and use";
                return Err(Refusal::new("refused-instruction", Some(r), why, remedy));
            }
            if (from.tile_rows, from.tile_cols) != (mat.tile_rows, mat.tile_cols) {
                let tiles = |m: Mat| format!("{}x{} of {}", m.tile_rows, m.tile_cols, m.elem.scalar);
                let why = format!("{} goes from tiles of {} to tiles of {}", inst.op, tiles(from), tiles(mat));
                return Err(Refusal::new(
                    "refused-instruction",
                    Some(r),
                    why,
                    "lower to scalar code (--target scalar)",
                ));
            }
            let divides = inst.op.is_division() && inst.op.is_integer_arithmetic() && arguments.len() == 1;
            let parts = if divides && from.has_partial_tiles() { without_zeros(b, from, &parts) } else { parts };
            arguments.push((*o, Some(parts)));
        }
        let decorations = inst.result.and_then(|id| self.analysis.decorated.get(&id)).cloned().unwrap_or_default();
        let mut slot = Slot::new(r);
        let mut parts = TileIds::new();
        // Tiles that are the same may stand at several places.
        let mut made: FxHashMap<Vec<Operand>, Id> = FxHashMap::default();
        let row_uniform = self.is_row_uniform(inst.result);
        for tile in 0..mat.tiles() as usize {
            let at = if row_uniform { tile - tile % mat.cols() as usize } else { tile };
            let operand = |(o, parts): &(Operand, Option<TileIds>)| match parts {
                Some(parts) => Operand::Id(parts[at]),
                None => *o,
            };
            let operands: Vec<Operand> = arguments.iter().map(operand).collect();
            if let Some(id) = made.get(&operands) {
                parts.push(*id);
                continue;
            }
            let id = slot.op(b, inst.op, mat.tile, operands.iter().copied());
            made.insert(operands, id);
            decorations::add(b.module, id, &decorations);
            parts.push(id);
        }
        self.define(inst, mat, parts);
        Ok(())
    }

    fn splat(&mut self, b: &mut FunctionBuilder<'_>, r: InstRef, inst: &Inst, mat: Mat) -> Result<(), Refusal> {
        let Some(value) = inst.id(0).filter(|_| inst.operands.len() == 1) else {
            return malformed(r, "a matrix is made of one number");
        };
        let tile = Slot::new(r).op(b, inst.op, mat.tile, [value.into()]);
        self.define(inst, mat, vec![tile; mat.tiles() as usize]);
        Ok(())
    }

    /// A struct or array of matrices.
    fn construct(&mut self, b: &mut FunctionBuilder<'_>, r: InstRef, mut inst: Inst) -> Result<(), Refusal> {
        for o in &mut inst.operands {
            if let Operand::Id(id) = o
                && self.mat_of(b.module, *id).is_some()
            {
                *id = self.boxed(b, r, *id)?;
            }
        }
        b.module.replace(r, inst);
        b.keep(r);
        Ok(())
    }
}

/// Returns tiles whose elements are one where those of a divisor are zero. Padding may be, and division by it is undefined,
/// also where nobody looks at the quotient; an element of the matrix never is.
fn without_zeros(b: &mut FunctionBuilder<'_>, mat: Mat, parts: &TileIds) -> TileIds {
    let Elem { scalar, ty } = mat.elem;
    let mut made: FxHashMap<Id, Id> = FxHashMap::default();
    let mut nonzero = |part: Id| {
        // Padding is what all elements are.
        let is_splat = |i: &Inst| i.op.is_constant() || i.op.is_composite();
        if b.module.def_inst(part).is_some_and(is_splat) {
            return part;
        }
        *made.entry(part).or_insert_with(|| {
            elements::map(b, None, (mat.tile, ty), &[part], &mut |b, values| {
                let [zero, one] = [0, 1].map(|n| b.globals.constant_of(b.module, ty, scalar, n));
                let truth = b.globals.bool(b.module);
                let is_zero = b.ids(Op::IEqual, truth, &[values[0], zero]);
                b.ids(Op::Select, ty, &[is_zero, one, values[0]])
            })
        })
    };
    parts.iter().map(|part| nonzero(*part)).collect()
}
