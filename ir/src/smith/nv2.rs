//! Statements of SPV_NV_cooperative_matrix2.

use super::emit::{A, ACC, B, Gen};
use super::fun::Value;
use super::{Dialect, Limits};
use crate::grammar::Op;
use spirv::Capability;

impl Gen<'_> {
    /// A statement that only this dialect has.
    pub(super) fn nv2_statement(&mut self) -> Option<Value> {
        self.extension("SPV_NV_cooperative_matrix2");
        let lavapipe = self.profile.limits == Limits::Lavapipe;
        match self.e.below(16) {
            0..=3 if !lavapipe => self.tensor_load(false),
            4 | 5 if !lavapipe => self.tensor_load(true),
            6 if !lavapipe => {
                let value = self.find(|_| true)?;
                self.tensor_store(value);
                None
            }
            7 if !lavapipe => {
                let x = self.find(|_| true)?;
                self.tensor_through_shared(x)
            }
            8 | 9 => self.reduce(),
            10 | 11 => self.convert_use(),
            12 => self.transpose(),
            _ => self.per_element(),
        }
    }

    /// What conversions that are more than numerical need.
    pub(super) fn conversions(&mut self) {
        self.extension("SPV_NV_cooperative_matrix2");
        self.capability(Capability::CooperativeMatrixConversionsNV as u32);
    }

    /// The same elements for another use.
    pub(super) fn convert_use(&mut self) -> Option<Value> {
        let x = self.find(|v| v.mat.use_ == ACC)?;
        let use_ = self.e.pick(&[A, B]);
        let scalar = x.mat.scalar;
        let extents = self.extents(x.mat);
        if !self.scalars(use_).contains(&scalar) || !self.granular(x.mat.workgroup, use_, extents) {
            return None;
        }
        let mat = self.mat_with(x.mat, scalar, use_, extents)?;
        self.conversions();
        self.note("conversion of use");
        let id = self.ids(Op::CooperativeMatrixConvertNV, mat.ty, &[x.id]);
        Some(Value { id, mat, range: x.range, used: false })
    }

    /// `OpCooperativeMatrixTransposeNV`.
    fn transpose(&mut self) -> Option<Value> {
        let x = self.find(|v| v.mat.use_ == ACC)?;
        let scalar = x.mat.scalar;
        let [rows, cols] = self.extents(x.mat);
        if !self.scalars(B).contains(&scalar) || !self.granular(x.mat.workgroup, B, [cols, rows]) {
            return None;
        }
        let mat = self.mat_with(x.mat, scalar, B, [cols, rows])?;
        self.conversions();
        self.note("transposition");
        let id = self.ids(Op::CooperativeMatrixTransposeNV, mat.ty, &[x.id]);
        Some(Value { id, mat, range: x.range, used: false })
    }

    /// The use that a conversion of the component type gives the matrix.
    pub(super) fn converted_use(&mut self, use_: u32) -> u32 {
        match self.profile.dialect {
            Dialect::Nv2 if use_ == ACC && self.e.chance(80) => self.e.pick(&[A, B]),
            _ => use_,
        }
    }
}
