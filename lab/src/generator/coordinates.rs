//! Loops over the elements that an invocation holds, with the coordinates of each.

use super::Dialect;
use super::emit::Gen;
use super::fun::Value;
use super::number::{Num, computes};
use super::range::Range;
use coop_ir::grammar::Op;
use coop_ir::spv::{Capability, StorageClass};
use coop_ir::types::Scalar;
use coop_ir::{Id, Operand};

const U32: Scalar = Scalar::Int { width: 32, signed: false };

impl Gen<'_> {
    /// Rows and columns from `OpCooperativeMatrixGetCoordinateEXT` or `OpCooperativeMatrixGetElementCoordINTEL`.
    pub(super) fn coordinates(&mut self) -> Option<Value> {
        let x = self.find(|v| computes(v.mat.scalar))?;
        let (mat, scalar) = (x.mat, x.mat.scalar);
        let elem = self.scalar(scalar);
        let variable = self.local(mat.ty, None);
        self.effect(Op::Store, [variable, x.id].map(Operand::Id));
        let elements = self.begin_elements(mat);
        let i = elements.i;
        let place = self.coordinate(x.id, i, [mat.rows, mat.cols]);
        let pointer = self.g.pointer(&mut self.m, StorageClass::Function, elem);
        let slot = self.ids(Op::AccessChain, pointer, &[variable, i]);
        let id = self.ids(Op::Load, elem, &[slot]);
        let mut numbers = vec![Num { id, scalar, range: x.range }];
        for _ in 0..1 + self.e.below(3) {
            if let Some(n) = self.element_step(&numbers, &place, place) {
                numbers.push(n);
            }
        }
        let last = numbers[numbers.len() - 1];
        self.effect(Op::Store, [slot, last.id].map(Operand::Id));
        self.end_elements(&elements);
        let id = self.ids(Op::Load, mat.ty, &[variable]);
        self.note("loop with coordinates");
        Some(Value { id, mat, range: last.range, used: false })
    }

    /// Row and column of element `index`.
    fn coordinate(&mut self, matrix: Id, index: Id, extents: [u32; 2]) -> [Num; 2] {
        let intel = matches!(self.profile.dialect, Dialect::Intel | Dialect::Kernel);
        let signed = intel || self.e.chance(80);
        let int = Scalar::Int { width: 32, signed };
        let (int_type, uint) = (self.scalar(int), self.uint());
        let pair = self.g.vector(&mut self.m, int_type, 2);
        let op = if intel {
            self.capability(Capability::CooperativeMatrixInvocationInstructionsINTEL);
            self.extension("SPV_INTEL_joint_matrix");
            Op::CooperativeMatrixGetElementCoordINTEL
        } else {
            self.capability(Capability::CooperativeMatrixGetCoordinateEXT);
            self.second_extension();
            Op::CooperativeMatrixGetCoordinateEXT
        };
        let both = self.ids(op, pair, &[matrix, index]);
        [0, 1].map(|k| {
            let id = self.op(Op::CompositeExtract, int_type, [Operand::Id(both), Operand::Word(k)]);
            let id = if signed { self.ids(Op::Bitcast, uint, &[id]) } else { id };
            Num { id, scalar: U32, range: Range::int(0, (extents[k as usize] - 1).into()) }
        })
    }
}
