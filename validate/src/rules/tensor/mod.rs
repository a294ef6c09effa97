//! Rules about SPV_NV_tensor_addressing: tensor layouts and views, and the loads and stores of SPV_NV_cooperative_matrix2
//! that use them.

pub(crate) mod access;
pub(crate) mod ops;
pub(crate) mod rules;
pub(crate) mod state;
pub(crate) mod types;
pub(crate) mod values;

use crate::cx::Cx;
use coop_ir::{Id, Inst, InstRef, Op};

/// The most dimensions of a tensor.
pub(crate) const MAX_DIM: usize = 5;

/// `OpTypeTensorLayoutNV`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LayoutType {
    pub(crate) at: InstRef,
    pub(crate) dim: Id,
    pub(crate) clamp: Id,
}

/// `OpTypeTensorViewNV`, without its permutation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ViewType {
    pub(crate) at: InstRef,
    pub(crate) dim: Id,
    pub(crate) has_dimensions: Id,
}

/// The clamp modes by number.
pub(crate) const CLAMP_MODES: [&str; 5] = ["Undefined", "Constant", "ClampToEdge", "Repeat", "RepeatMirrored"];

impl<'a> Cx<'a> {
    fn typed(&self, ty: Id, op: Op) -> Option<(InstRef, &'a Inst)> {
        let at = self.def(ty)?;
        Some((at, self.inst(at))).filter(|(_, i)| i.op == op)
    }

    /// Returns the tensor-layout type `ty`.
    pub(crate) fn layout_type(&self, ty: Id) -> Option<LayoutType> {
        let (at, inst) = self.typed(ty, Op::TypeTensorLayoutNV)?;
        let (dim, clamp) = inst.tensor_layout_type()?;
        Some(LayoutType { at, dim, clamp })
    }

    /// Returns the tensor-view type `ty`.
    pub(crate) fn view_type(&self, ty: Id) -> Option<ViewType> {
        let (at, inst) = self.typed(ty, Op::TypeTensorViewNV)?;
        let (dim, has_dimensions) = inst.tensor_view_type()?;
        Some(ViewType { at, dim, has_dimensions })
    }

    /// Returns a number of dimensions, if it is fixed and valid.
    pub(crate) fn dimensions(&self, dim: Id) -> Option<usize> {
        let n = self.constant(dim).fixed()?;
        usize::try_from(n).ok().filter(|n| (1..=MAX_DIM).contains(n))
    }
}
