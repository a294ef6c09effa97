//! Rewrites the other instructions of kernels that shaders lack.

use super::Kernel;
use super::pointer_target::PointerTarget;
use crate::Refusal;
use coop_ir::spv::Decoration;
use coop_ir::types::{Scalar, coop_mat};
use coop_ir::{Id, Inst, InstRef, Op, Operand};

/// The type of a bfloat16 in kernels.
const BITS: Scalar = Scalar::Int { width: 16, signed: false };

impl Kernel<'_> {
    /// Rewrites an instruction that no other file of this pass handles.
    pub(super) fn rewrite_other(&mut self, r: InstRef) -> Result<(), Refusal> {
        let inst = self.m.inst(r).clone();
        let ids: Vec<Id> = inst.ids().map(|id| self.now(id)).collect();
        match (inst.op, inst.ty, ids.as_slice()) {
            (Op::LifetimeStart | Op::LifetimeStop | Op::AssumeTrueKHR | Op::Nop, ..) => {
                self.m.forget(r);
                return Ok(());
            }
            (Op::CooperativeMatrixPrefetchINTEL, ..) => {
                self.prefetches += 1;
                self.m.forget(r);
                return Ok(());
            }
            (Op::ConvertFToBF16INTEL | Op::ConvertBF16ToFINTEL, Some(ty), _) => {
                return self.rewrite_conversion(r, &inst, ty);
            }
            (Op::ExpectKHR, _, [value, _]) => {
                self.replace_result(r, *value);
                return Ok(());
            }
            (Op::IsFinite, Some(ty), [x]) => {
                let nan = self.ids(Op::IsNan, ty, &[*x]);
                let inf = self.ids(Op::IsInf, ty, &[*x]);
                let either = self.ids(Op::LogicalOr, ty, &[nan, inf]);
                self.instead(r, Op::LogicalNot, ty, [either.into()]);
                return Ok(());
            }
            (Op::Ordered | Op::Unordered, Some(ty), [x, y]) => {
                let (a, b) = (self.ids(Op::IsNan, ty, &[*x]), self.ids(Op::IsNan, ty, &[*y]));
                if inst.op == Op::Unordered {
                    self.instead(r, Op::LogicalOr, ty, [a, b].map(Operand::Id));
                } else {
                    let either = self.ids(Op::LogicalOr, ty, &[a, b]);
                    self.instead(r, Op::LogicalNot, ty, [either.into()]);
                }
                return Ok(());
            }
            (Op::LessOrGreater, Some(ty), [x, y]) => {
                self.instead(r, Op::FOrdNotEqual, ty, [*x, *y].map(Operand::Id));
                return Ok(());
            }
            (Op::CompositeConstruct, Some(ty), [_]) if coop_mat(self.m, ty).is_some() => {
                return self.rewrite_fill(r, &inst, ty);
            }
            (Op::BitCount | Op::BitReverse, Some(ty), _) if self.shape(ty).is_some_and(|(s, _)| s.width() != 32) => {
                return Err(self.not_in_vulkan(r, &format!("{} of other than 32 bits", inst.op)));
            }
            (
                Op::SatConvertSToU
                | Op::SatConvertUToS
                | Op::IsNormal
                | Op::SignBitSet
                | Op::EnqueueKernel
                | Op::FmaKHR
                | Op::GenericPtrMemSemantics,
                ..,
            ) => return Err(self.not_in_vulkan(r, &inst.op.to_string())),
            (
                Op::ConvertFToS | Op::ConvertFToU | Op::UConvert | Op::SConvert | Op::ConvertSToF | Op::ConvertUToF,
                ..,
            ) if inst.result.is_some_and(|id| self.layout.has(id, Decoration::SaturatedConversion)) => {
                return Err(self.not_in_vulkan(r, "a conversion that saturates"));
            }
            _ => {}
        }
        let pointer = inst.ids().find(|id| self.places.get(id).is_some_and(|p| *p != PointerTarget::Matrix));
        if pointer.is_some() {
            return Err(self.not_in_vulkan(r, &format!("{} of a pointer", inst.op)));
        }
        self.keep(r);
        Ok(())
    }

    /// Rewrites a matrix filled with one value. Producers also pass a pointer to it.
    fn rewrite_fill(&mut self, r: InstRef, inst: &Inst, ty: Id) -> Result<(), Refusal> {
        let value = inst.id(0).ok_or_else(|| self.no_layout(r))?;
        let component = coop_mat(self.m, ty).map(|t| t.component).ok_or_else(|| self.no_layout(r))?;
        if !self.places.contains_key(&value) {
            self.keep(r);
            return Ok(());
        }
        let access = self.access(value, component, inst, usize::MAX).ok_or_else(|| self.no_layout(r))?;
        let value = self.load(access, component).ok_or_else(|| self.no_layout(r))?;
        self.instead(r, Op::CompositeConstruct, ty, [value.into()]);
        Ok(())
    }

    /// Rewrites a conversion of a number that may be passed by pointer.
    fn rewrite_conversion(&mut self, r: InstRef, inst: &Inst, ty: Id) -> Result<(), Refusal> {
        let pointer = inst.id(0).ok_or_else(|| self.no_layout(r))?;
        if !self.places.contains_key(&pointer) {
            self.keep(r);
            return Ok(());
        }
        if self.places.get(&pointer) == Some(&PointerTarget::Matrix) {
            return Err(self.not_in_vulkan(r, &format!("{} of an element of a matrix", inst.op)));
        }
        let number = if inst.op == Op::ConvertFToBF16INTEL { Scalar::Float { width: 32 } } else { BITS };
        let from = self.g.scalar(self.m, number);
        let access = self.access(pointer, from, inst, usize::MAX).ok_or_else(|| self.no_layout(r))?;
        let value = self.load(access, from).ok_or_else(|| self.no_layout(r))?;
        self.instead(r, inst.op, ty, [value.into()]);
        Ok(())
    }

    fn not_in_vulkan(&self, r: InstRef, what: &str) -> Refusal {
        let why = format!("{what} has no equivalent in Vulkan");
        let remedy = "write it in the kernel with plain arithmetic, or compile with more optimization (-O2)";
        Refusal::new("refused-vulkan-instruction", Some(r), why, remedy)
    }
}
