//! Matrix types of either extension.

use crate::cx::Cx;
use coop_ir::constant::{Const, Constants};
use coop_ir::types::{CoopMatView, Scalar, scalar, scope_name};
use coop_ir::{Id, Inst, InstRef, Module};
use std::fmt;

/// A matrix type of SPV_KHR_cooperative_matrix or of SPV_NV_cooperative_matrix, with the properties that both have.
#[derive(Clone, Copy, Debug)]
pub(crate) enum MatrixType<'a> {
    /// Of SPV_KHR_cooperative_matrix.
    Khr(&'a CoopMatView),
    /// Of SPV_NV_cooperative_matrix.
    Nv(&'a NvMatrix),
}

impl<'a> MatrixType<'a> {
    /// Returns the id of the type.
    pub(crate) fn id(self) -> Id {
        match self {
            MatrixType::Khr(m) => m.ty.id,
            MatrixType::Nv(m) => m.id,
        }
    }

    /// Returns the component type, if it is a numerical scalar.
    pub(crate) fn component(self) -> Option<Scalar> {
        match self {
            MatrixType::Khr(m) => m.component,
            MatrixType::Nv(m) => m.component,
        }
    }

    /// Returns the id of the component type.
    pub(crate) fn component_id(self) -> Id {
        match self {
            MatrixType::Khr(m) => m.ty.component,
            MatrixType::Nv(m) => m.component_id,
        }
    }

    /// Returns the constant of the scope and its value.
    pub(crate) fn scope(self) -> (Id, &'a Const) {
        match self {
            MatrixType::Khr(m) => (m.ty.scope, &m.scope),
            MatrixType::Nv(m) => (m.scope, &m.values[0]),
        }
    }

    /// Returns the constant of the number of rows and its value.
    pub(crate) fn rows(self) -> (Id, &'a Const) {
        match self {
            MatrixType::Khr(m) => (m.ty.rows, &m.rows),
            MatrixType::Nv(m) => (m.rows, &m.values[1]),
        }
    }

    /// Returns the constant of the number of columns and its value.
    pub(crate) fn cols(self) -> (Id, &'a Const) {
        match self {
            MatrixType::Khr(m) => (m.ty.cols, &m.cols),
            MatrixType::Nv(m) => (m.cols, &m.values[2]),
        }
    }

    /// Returns the declaration of the type.
    pub(crate) fn decl(self, cx: &Cx) -> Option<InstRef> {
        cx.def(self.id())
    }
}

impl fmt::Display for MatrixType<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MatrixType::Khr(m) => m.fmt(f),
            MatrixType::Nv(m) => m.fmt(f),
        }
    }
}

/// The type of a matrix of SPV_NV_cooperative_matrix, which has no use. Displays as `f16 16x16 NV`.
#[derive(Clone, Debug)]
pub(crate) struct NvMatrix {
    pub(crate) id: Id,
    pub(crate) component_id: Id,
    pub(crate) component: Option<Scalar>,
    pub(crate) scope: Id,
    pub(crate) rows: Id,
    pub(crate) cols: Id,
    values: [Const; 3],
}

impl NvMatrix {
    pub(crate) fn of(module: &Module, constants: &Constants, inst: &Inst) -> Option<NvMatrix> {
        let (component_id, scope, rows, cols) = (inst.id(0)?, inst.id(1)?, inst.id(2)?, inst.id(3)?);
        Some(NvMatrix {
            id: inst.result?,
            component_id,
            component: scalar(module, component_id),
            scope,
            rows,
            cols,
            values: [scope, rows, cols].map(|id| constants.get(id)),
        })
    }
}

impl fmt::Display for NvMatrix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.component {
            Some(s) => write!(f, "{s} ")?,
            None => f.write_str("(no scalar) ")?,
        }
        let [scope, rows, cols] = &self.values;
        write!(f, "{rows}x{cols} NV")?;
        match scope.value().map(scope_name) {
            Some(Some("subgroup")) => Ok(()),
            Some(Some(name)) => write!(f, " {name}"),
            _ => f.write_str(" scope ?"),
        }
    }
}
