//! Decodes the parts of tensor layouts and views, as values of the module.

use super::CLAMP_MIRRORED;
use coop_ir::constant::Constants;
use coop_ir::{Id, Module, Op};

/// The operands of a tensor layout type.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct LayoutType {
    pub(super) rank: usize,
    pub(super) clamp: u32,
}

/// The operands of a tensor view type.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct ViewType {
    /// The permutation: for each dimension, from the outermost, the one that takes its place.
    pub(super) order: Vec<usize>,
    pub(super) sized: bool,
}

/// A layout or view type.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum TensorType {
    Layout(LayoutType),
    View(ViewType),
}

impl TensorType {
    /// Decodes a type; `Err` says what is wrong with it. `Ok(None)`: it is another type.
    pub(super) fn of(m: &Module, constants: &Constants, ty: Id) -> Result<Option<TensorType>, String> {
        let Some(inst) = m.def_inst(ty) else { return Ok(None) };
        let number = |i: usize, what: &str| {
            let value = inst.id(i).and_then(|id| constants.get(id).fixed());
            value.ok_or_else(|| format!("{what} of the type {ty} is not a known constant"))
        };
        match inst.op {
            Op::TypeTensorLayoutNV => {
                // SPV_NV_tensor_addressing has five modes; blocked layouts of other extensions have a sixth.
                let (rank, clamp) = (number(0, "the number of dimensions")?, number(1, "the clamp mode")?);
                if !(1..=6).contains(&rank) || clamp > u64::from(CLAMP_MIRRORED) {
                    return Err(format!("a tensor layout of {rank} dimensions and clamp mode {clamp}"));
                }
                Ok(Some(TensorType::Layout(LayoutType { rank: rank as usize, clamp: clamp as u32 })))
            }
            Op::TypeTensorViewNV => {
                let rank = number(0, "the number of dimensions")?;
                let sized = number(1, "the operand HasDimensions")? != 0;
                if !(1..=5).contains(&rank) {
                    return Err(format!("a tensor view of {rank} dimensions"));
                }
                let order = (0..rank as usize).map(|d| number(2 + d, "the permutation").map(|p| p as usize));
                let order = order.collect::<Result<Vec<usize>, String>>()?;
                if (0..order.len()).any(|d| !order.contains(&d)) {
                    return Err(format!("the tensor view type {ty} has no permutation of its dimensions"));
                }
                Ok(Some(TensorType::View(ViewType { order, sized })))
            }
            _ => Ok(None),
        }
    }

    /// Returns the number of parts of a layout or view of the type.
    pub(super) fn parts(&self) -> usize {
        match self {
            TensorType::Layout(l) => 5 * l.rank + 1,
            TensorType::View(v) => 2 * v.order.len() + 4,
        }
    }
}

/// The parts of a layout, by kind; each kind has one for each dimension. After them comes the clamp value.
pub(super) mod layout {
    pub(in crate::tensor) const BLOCK: usize = 0;
    pub(in crate::tensor) const EXTENT: usize = 1;
    pub(in crate::tensor) const STRIDE: usize = 2;
    pub(in crate::tensor) const OFFSET: usize = 3;
    pub(in crate::tensor) const SPAN: usize = 4;
}

/// Follows the chain in front of an access: returns the type and the parts of the layout or view.
pub(super) fn chain(m: &Module, constants: &Constants, value: Id) -> Option<(TensorType, Vec<Id>)> {
    let ty = TensorType::of(m, constants, m.type_of(value)?).ok()??;
    let mut found: Vec<Option<Id>> = vec![None; ty.parts()];
    let mut at = m.def_inst(value)?;
    let (first, changes) = at.op.tensor_chain().split_first()?;
    for op in changes.iter().rev() {
        if at.op != *op {
            return None;
        }
        let operands: Vec<Id> = at.ids_from(1).collect();
        set_part(&ty, *op, &operands, &mut found);
        at = m.def_inst(at.id(0)?)?;
    }
    (at.op == *first).then_some(())?;
    Some((ty, found.into_iter().collect::<Option<Vec<Id>>>()?))
}

fn set_part(ty: &TensorType, op: Op, operands: &[Id], found: &mut [Option<Id>]) {
    let rank = match ty {
        TensorType::Layout(l) => l.rank,
        TensorType::View(v) => v.order.len(),
    };
    let start = match op {
        Op::TensorLayoutSetBlockSizeNV => layout::BLOCK * rank,
        Op::TensorLayoutSetDimensionNV => layout::EXTENT * rank,
        Op::TensorLayoutSetStrideNV => layout::STRIDE * rank,
        Op::TensorLayoutSetClampValueNV => 5 * rank,
        Op::TensorLayoutSliceNV => {
            for (d, pair) in operands.chunks_exact(2).enumerate().take(rank) {
                found[layout::OFFSET * rank + d] = Some(pair[0]);
                found[layout::SPAN * rank + d] = Some(pair[1]);
            }
            return;
        }
        Op::TensorViewSetDimensionNV => 0,
        Op::TensorViewSetStrideNV => rank,
        _ => 2 * rank,
    };
    for (slot, id) in found.iter_mut().skip(start).zip(operands) {
        *slot = Some(*id);
    }
}

/// Returns the instructions after `Create` that make a layout or view with these parts: opcode and operands.
pub(super) fn steps(ty: &TensorType, parts: &[Id]) -> Vec<(Op, Vec<Id>)> {
    match ty {
        TensorType::Layout(l) => {
            let kind = |k: usize| parts[k * l.rank..(k + 1) * l.rank].to_vec();
            let slice = kind(layout::OFFSET).into_iter().zip(kind(layout::SPAN)).flat_map(|(o, s)| [o, s]).collect();
            vec![
                (Op::TensorLayoutSetBlockSizeNV, kind(layout::BLOCK)),
                (Op::TensorLayoutSetDimensionNV, kind(layout::EXTENT)),
                (Op::TensorLayoutSetStrideNV, kind(layout::STRIDE)),
                (Op::TensorLayoutSliceNV, slice),
                (Op::TensorLayoutSetClampValueNV, parts[5 * l.rank..].to_vec()),
            ]
        }
        TensorType::View(v) => {
            let rank = v.order.len();
            vec![
                (Op::TensorViewSetDimensionNV, parts[..rank].to_vec()),
                (Op::TensorViewSetStrideNV, parts[rank..2 * rank].to_vec()),
                (Op::TensorViewSetClipNV, parts[2 * rank..].to_vec()),
            ]
        }
    }
}
