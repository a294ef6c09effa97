//! Statements of SPV_NV_cooperative_matrix2.

use super::emit::{A, ACC, B, Gen};
use super::fun::Value;
use super::{Dialect, Limits};
use coop_ir::grammar::Op;
use coop_ir::spv::{Capability, Decoration};
use coop_ir::types::Scalar;
use coop_ir::{Id, Inst, Operand};

impl Gen<'_> {
    /// A statement that only this dialect has.
    pub(super) fn nv2_statement(&mut self) -> Option<Value> {
        self.extension("SPV_NV_cooperative_matrix2");
        let lavapipe = self.profile.limits == Limits::Lavapipe;
        if !lavapipe && self.side.chance(40) {
            return self.attention_statement();
        }
        if !lavapipe && self.side.chance(if self.wide { 180 } else { 50 }) {
            return self.product_loop();
        }
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
            10..=12 => self.convert_use(),
            13 => self.transpose(),
            _ => self.per_element(),
        }
    }

    /// A statement of SPV_EXT_cooperative_matrix_maintenance1.
    pub(super) fn ext_statement(&mut self) -> Option<Value> {
        if self.side.chance(40) {
            return self.attention_statement();
        }
        match self.e.below(12) {
            0..=2 => self.reduce(),
            3..=5 => self.convert_use(),
            6..=8 => self.coordinates(),
            _ => self.per_element(),
        }
    }

    /// The extension that the instructions of either are from.
    pub(super) fn second_extension(&mut self) {
        let ext = self.profile.dialect == Dialect::Ext;
        self.extension(if ext { "SPV_EXT_cooperative_matrix_maintenance1" } else { "SPV_NV_cooperative_matrix2" });
    }

    /// Declares the capabilities of conversions that change more than the component type.
    pub(super) fn conversions(&mut self) {
        self.second_extension();
        let ext = self.profile.dialect == Dialect::Ext;
        self.capability(if ext {
            Capability::CooperativeMatrixConversionsEXT
        } else {
            Capability::CooperativeMatrixConversionsNV
        });
    }

    /// Returns true if a conversion from this use transposes.
    pub(super) fn transposes(&mut self, from: u32) -> bool {
        self.profile.dialect == Dialect::Ext && from == ACC && self.e.chance(100)
    }

    /// Decorates a conversion as one that transposes.
    pub(super) fn decorate_transpose(&mut self, id: Id) {
        self.note("transposing conversion");
        let operands = [Operand::Id(id), Decoration::CooperativeMatrixTransposeEXT.into()];
        coop_ir::builder::add_global(&mut self.m, Inst::new(Op::Decorate, None, None, operands));
    }

    /// Converts a matrix to another use.
    pub(super) fn convert_use(&mut self) -> Option<Value> {
        let ext = self.profile.dialect == Dialect::Ext;
        let x = self.find(|v| ext || v.mat.use_ == ACC)?;
        let use_ = self.converted_use(x.mat.use_);
        if use_ == x.mat.use_ {
            return None;
        }
        let mut scalar = x.mat.scalar;
        let mut range = x.range;
        if let (Scalar::Int { width, signed }, true) = (scalar, ext && self.e.chance(60)) {
            scalar = Scalar::Int { width, signed: !signed };
            range = range.wrapped(scalar)?;
        }
        let [rows, cols] = self.extents(x.mat);
        let transposes = self.transposes(x.mat.use_);
        let extents = if transposes { [cols, rows] } else { [rows, cols] };
        if !self.scalars(use_).contains(&scalar) || !self.granular(x.mat.workgroup, use_, extents) {
            return None;
        }
        let mat = self.mat_with(x.mat, scalar, use_, extents)?;
        self.conversions();
        self.note("conversion of use");
        let id = self.ids(Op::CooperativeMatrixConvertNV, mat.ty, &[x.id]);
        if transposes {
            self.decorate_transpose(id);
        }
        Some(Value { id, mat, range, used: false })
    }

    /// `OpCooperativeMatrixTransposeNV`.
    fn transpose(&mut self) -> Option<Value> {
        let x = self.find(|v| v.mat.use_ == ACC)?;
        let (mut scalar, mut range) = (x.mat.scalar, x.range);
        let [rows, cols] = self.extents(x.mat);
        if self.side.chance(100) {
            let to = self.side.pick(self.scalars(B));
            if let Some(converted) = range.converted(scalar, to) {
                (scalar, range) = (to, converted);
            }
        }
        if !self.scalars(B).contains(&scalar) || !self.granular(x.mat.workgroup, B, [cols, rows]) {
            return None;
        }
        let mat = self.mat_with(x.mat, scalar, B, [cols, rows])?;
        self.conversions();
        self.note(if scalar == x.mat.scalar { "transposition" } else { "converting transposition" });
        let id = self.ids(Op::CooperativeMatrixTransposeNV, mat.ty, &[x.id]);
        Some(Value { id, mat, range, used: false })
    }

    /// The use that a conversion gives the matrix: another one, or the same.
    pub(super) fn converted_use(&mut self, use_: u32) -> u32 {
        match self.profile.dialect {
            Dialect::Nv2 | Dialect::Ext if use_ == ACC && self.e.chance(80) => self.e.pick(&[A, B]),
            Dialect::Ext if use_ != ACC && self.e.chance(100) => ACC,
            _ => use_,
        }
    }
}
