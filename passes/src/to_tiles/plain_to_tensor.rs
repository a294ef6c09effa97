//! Rewrites plain loads and stores that can't be split into tiles to tensor loads and stores, which access single elements.
//!
//! These are accesses to matrices whose extents are not multiples of the tile's, since a load of the tile would read beyond
//! the matrix; accesses of which a tile would begin inside an element of the memory's type, which no pointer can address;
//! loads that convert elements ([`super::wide_factors`]); and accesses whose pointer or stride is known to be misaligned for tiles. (Where the alignment is not known, tiles rely on it
//! as the matrix did.) Rows and columns become the dimensions of a layout whose strides are the stride and 1, without clamping.

use super::shape::Mat;
use crate::kernel::is_kernel;
use crate::matrix::arena::{Elem, QUAD};
use crate::tensor::is_misaligned_pointer;
use coop_ir::builder::Globals;
use coop_ir::constant::Constants;
use coop_ir::decorate::Decorations;
use coop_ir::hash::FxHashMap;
use coop_ir::types::{self, Scalar, Type};
use coop_ir::{Id, Inst, InstRef, Module, Op, Operand};

/// The operands that the new instructions share.
struct PlainToTensor<'a> {
    constants: &'a Constants,
    decorations: Decorations,
    mats: &'a FxHashMap<Id, Mat>,
    /// The component types in memory of matrices that have another.
    widened: &'a FxHashMap<Id, Elem>,
    layout_type: Option<Id>,
}

/// Changes such loads and stores.
pub(super) fn to_tensor(
    m: &mut Module,
    g: &mut Globals,
    constants: &Constants,
    mats: &FxHashMap<Id, Mat>,
    widened: &FxHashMap<Id, Elem>,
) {
    let mut plain = PlainToTensor { constants, decorations: Decorations::new(m), mats, widened, layout_type: None };
    for f in 0..m.functions.len() {
        for at in 0..m.functions[f].blocks.len() {
            let insts = m.functions[f].blocks[at].insts.clone();
            let mut new = Vec::new();
            for r in &insts {
                plain.inst(m, g, *r, &mut new);
                new.push(*r);
            }
            if new.len() != insts.len() {
                m.functions[f].blocks[at].insts = new.into();
            }
        }
    }
}

impl PlainToTensor<'_> {
    fn inst(&mut self, m: &mut Module, g: &mut Globals, r: InstRef, new: &mut Vec<InstRef>) -> Option<()> {
        let inst = m.inst(r).clone();
        let store = inst.op == Op::CooperativeMatrixStoreKHR;
        if !store && inst.op != Op::CooperativeMatrixLoadKHR {
            return None;
        }
        let access = inst.matrix_access()?;
        let matrix = if store { m.type_of(access.object?)? } else { inst.ty? };
        let mat = *self.mats.get(&matrix)?;
        let (pointer, stride) = (access.pointer, access.stride?);
        let row_major = match self.constants.get(access.layout).fixed()? {
            0 => true,
            1 => false,
            _ => return None,
        };
        let Type::Pointer { pointee, .. } = Type::of(m, m.type_of(pointer)?)? else { return None };
        let unit = types::packed_bytes(m, pointee)?;
        let stored = self.widened.get(&matrix).copied();
        let as_tiles = stored.is_none() && !needs_elements(mat, unit, row_major);
        if as_tiles && !self.is_misaligned(m, mat, (pointer, stride, unit), row_major) {
            return None;
        }
        let mut add = |m: &mut Module, op: Op, ty: Id, operands: Vec<Operand>| -> Id {
            let id = m.fresh_id();
            new.push(m.add(Inst::new(op, Some(ty), Some(id), operands).at(inst.origin)));
            id
        };
        // The stride in elements, without a sign: with 64 bits where it has as many.
        let known = self.constants.get(stride).fixed().and_then(|s| u32::try_from(s).ok());
        let size = stored.unwrap_or(mat.elem).scalar.bytes();
        let stride = match known {
            Some(stride) => g.u32(m, stride.wrapping_mul(unit) / size),
            None => {
                let scalar = types::scalar(m, m.type_of(stride)?)?;
                let number = Scalar::Int { width: scalar.width().max(32), signed: false };
                let word = g.scalar(m, number);
                let stride = match scalar {
                    Scalar::Int { width: 32 | 64, signed: false } => stride,
                    Scalar::Int { width: 32 | 64, .. } => add(m, Op::Bitcast, word, vec![stride.into()]),
                    Scalar::Int { signed: true, .. } => add(m, Op::SConvert, word, vec![stride.into()]),
                    Scalar::Int { .. } => add(m, Op::UConvert, word, vec![stride.into()]),
                    _ => return None,
                };
                let by = |m: &mut Module, g: &mut Globals, n: u32| Operand::Id(g.constant(m, number, n.into()));
                if unit == size {
                    stride
                } else if unit.is_multiple_of(size) {
                    let by = by(m, g, unit / size);
                    add(m, Op::IMul, word, vec![stride.into(), by])
                } else {
                    let (unit, size) = (by(m, g, unit), by(m, g, size));
                    let bytes = add(m, Op::IMul, word, vec![stride.into(), unit]);
                    add(m, Op::UDiv, word, vec![bytes.into(), size])
                }
            }
        };
        let ty = self.layout_type(m, g);
        let (zero, one) = (g.u32(m, 0), g.u32(m, 1));
        let (rows, cols) = (g.u32(m, mat.shape.rows), g.u32(m, mat.shape.cols));
        let strides = if row_major { [stride, one] } else { [one, stride] };
        let mut layout = add(m, Op::CreateTensorLayoutNV, ty, Vec::new());
        for (op, operands) in [
            (Op::TensorLayoutSetBlockSizeNV, vec![one, one]),
            (Op::TensorLayoutSetDimensionNV, vec![rows, cols]),
            (Op::TensorLayoutSetStrideNV, strides.to_vec()),
            (Op::TensorLayoutSliceNV, vec![zero, rows, zero, cols]),
            (Op::TensorLayoutSetClampValueNV, vec![zero]),
        ] {
            let operands = [layout].into_iter().chain(operands).map(Operand::Id).collect();
            layout = add(m, op, ty, operands);
        }
        let object = if store { access.object? } else { g.null(m, mat.ty) };
        let memory = inst.operands.get(access.memory..).unwrap_or_default();
        let none = [Operand::Word(0)];
        let memory = if memory.is_empty() { &none[..] } else { memory };
        let operands = [pointer, object, layout].map(Operand::Id).into_iter();
        let operands = operands.chain(memory.iter().copied()).chain([Operand::Word(0)]);
        let op = if store { Op::CooperativeMatrixStoreTensorNV } else { Op::CooperativeMatrixLoadTensorNV };
        m.replace(r, Inst::new(op, inst.ty, inst.result, operands).at(inst.origin));
        Some(())
    }

    /// Returns true if a matrix that is split into tiles is known to be at an address that Vulkan does not allow for tiles.
    fn is_misaligned(&self, m: &Module, mat: Mat, (pointer, stride, unit): (Id, Id, u32), row_major: bool) -> bool {
        let (line, lines) = if row_major { (mat.tile_cols, mat.shape.rows) } else { (mat.tile_rows, mat.shape.cols) };
        let need = (line * mat.elem.scalar.bytes()).min(QUAD);
        if mat.is_kept() || is_kernel(m) || !need.is_power_of_two() {
            return false;
        }
        let stride = self.constants.get(stride).fixed().map(|s| (s as u32).wrapping_mul(unit));
        let beside = stride.is_some_and(|s| !s.is_multiple_of(need)) && lines > 1;
        beside || is_misaligned_pointer(m, (self.constants, &self.decorations), pointer, need)
    }

    fn layout_type(&mut self, m: &mut Module, g: &mut Globals) -> Id {
        *self.layout_type.get_or_insert_with(|| {
            let operands = [g.u32(m, 2), g.u32(m, 0)].map(Operand::Id);
            let same = m.globals_with(Op::TypeTensorLayoutNV).find(|r| m.inst(*r).operands[..] == operands[..]);
            if let Some(id) = same.and_then(|r| m.inst(r).result) {
                return id;
            }
            let id = m.fresh_id();
            let r = m.add(Inst::new(Op::TypeTensorLayoutNV, None, Some(id), operands));
            m.globals.push(r);
            id
        })
    }
}

/// Returns true if an access can't go tile by tile.
fn needs_elements(mat: Mat, unit: u32, row_major: bool) -> bool {
    let (tile, held) = if row_major { (mat.tile_cols, mat.shape.cols) } else { (mat.tile_rows, mat.shape.rows) };
    let inside = held > tile && !(tile * mat.elem.scalar.bytes()).is_multiple_of(unit);
    !mat.is_kept() && (mat.has_partial_tiles() || inside)
}
