//! Rules about functions that matrix instructions call.

use super::access::addressing;
use super::{Edit, F32, Mutant, Rows, S32, U32};
use coop_ir::grammar::Op;
use coop_ir::spv::{Capability, CooperativeMatrixReduce, Decoration, StorageClass};
use coop_ir::types::{Scalar, Type, coop_mat};
use coop_ir::{Id, Inst, InstRef, Operand};

pub(super) const ROWS: Rows = &[
    ("component-reduce", |x| {
        // Of bfloat16, which only SPV_EXT_cooperative_matrix_maintenance1 takes.
        let (r, id, ty) = x.matrix(|x, t| x.value(t.use_) == Some(2) && x.component(t) == Some(Scalar::BF16))?;
        coop_ir::builder::require_extension(&mut x.m, "SPV_NV_cooperative_matrix2");
        x.capability(Capability::CooperativeMatrixReductionsNV);
        let elem = ty.component;
        let function = x.function(elem, &[elem, elem]);
        let at = x.m.fresh_id();
        let operands = [id.into(), CooperativeMatrixReduce::Row.into(), function.into()];
        x.insert(r, Inst::new(Op::CooperativeMatrixReduceNV, Some(ty.id), Some(at), operands), true).map(drop)
    }),
    ("decode-not-function", |x| {
        let (copy, at) = x.decoding(2)?;
        let one = x.u32(1);
        x.set(copy, at, one)
    }),
    ("decode-parameter-coordinates", |x| {
        let which = x.e.pick(&[1, 2]);
        x.decoder(2, |x, ret, params| {
            let Some(Type::Array { elem, .. }) = Type::of(&x.m, params[which]) else { return ret };
            params[which] = x.array(elem, 9);
            ret
        })
    }),
    ("decode-parameter-count", |x| {
        x.decoder(2, |_, ret, params| {
            params.pop();
            ret
        })
    }),
    ("decode-parameter-pointer", |x| {
        x.decoder(2, |x, ret, params| {
            params[0] = x.scalar(U32);
            ret
        })
    }),
    ("decode-return-type", |x| {
        x.decoder(2, |x, ret, _| {
            let other = if coop_ir::types::scalar(&x.m, ret) == Some(F32) { U32 } else { F32 };
            x.scalar(other)
        })
    }),
    ("decode-side-effects", |x| {
        let (copy, at) = x.decoding(2)?;
        let function = x.inst(copy).id(at)?;
        x.writes(function)
    }),
    ("decode-storage-class", |x| {
        let (copy, _) = x.decoding(2)?;
        let uint = x.scalar(U32);
        let array = x.array(uint, 4096);
        let variable = x.variable(StorageClass::Workgroup, array);
        let (pointer, zero) = (x.g.pointer(&mut x.m, StorageClass::Workgroup, uint), x.u32(0));
        let at = x.before(copy, Op::AccessChain, pointer, [variable, zero].map(Operand::Id))?;
        x.set(copy, 0, at)
    }),
    ("decode-vector-alone", |x| {
        let (copy, at) = x.decoding(4)?;
        let operands = &mut x.m.inst_mut(copy).operands;
        // The scalar function stands in front of it.
        operands.remove(at - 1);
        // The mask, and behind it maybe a view.
        let mask = if operands[at - 2].id().is_some() { at - 3 } else { at - 2 };
        let old = operands[mask].word();
        operands[mask] = Operand::Word(old & !2);
        Some(())
    }),
    ("decode-vector-eight", |x| {
        x.decoder(4, |x, ret, _| {
            let Some(Type::Vector { elem, .. }) = Type::of(&x.m, ret) else { return ret };
            x.g.vector(&mut x.m, elem, 8)
        })
    }),
    ("portability-decode-step", |x| {
        x.decoder(2, |x, ret, params| {
            let [word, byte] = [32, 8].map(|width| x.scalar(Scalar::Int { width, signed: false }));
            x.capability(Capability::Int8);
            x.capability(Capability::StorageBuffer8BitAccess);
            let block = x.type_with(Op::TypeStruct, vec![word.into(), byte.into()]);
            x.annotation(Inst::new(Op::Decorate, None, None, [block.into(), Decoration::Block.into()]));
            for (i, offset) in [(0u32, 0u32), (1, 4)] {
                let words = [i.into(), Decoration::Offset.into(), offset.into()];
                x.annotation(Inst::new(Op::MemberDecorate, None, None, [block.into()].into_iter().chain(words)));
            }
            params[0] = x.g.pointer(&mut x.m, StorageClass::PhysicalStorageBuffer, block);
            ret
        })
    }),
    ("decode-vector-return", |x| {
        x.decoder(4, |x, ret, _| {
            let Some(Type::Vector { elem, .. }) = Type::of(&x.m, ret) else { return ret };
            if x.e.chance(128) { elem } else { x.g.vector(&mut x.m, elem, 3) }
        })
    }),
    ("decode-vector-block", |x| {
        let r = x.find(|m, i| {
            i.op == Op::TensorLayoutSetBlockSizeNV
                && m.all().any(|o| {
                    let o = m.inst(o);
                    o.op == Op::CooperativeMatrixLoadTensorNV && addressing(o).is_some_and(|(_, mask)| mask & 4 != 0)
                })
        })?;
        let (last, three) = (x.m.inst(r).operands.len() - 1, x.u32(3));
        x.set(r, last, three)
    }),
    ("perelement-argument-count", |x| {
        let (copy, one) = (x.copy_of(Op::CooperativeMatrixPerElementOpNV)?, x.float());
        x.m.inst_mut(copy).operands.push(one.into());
        Some(())
    }),
    ("perelement-argument-type", |x| {
        let r = x.find(|_, i| i.op == Op::CooperativeMatrixPerElementOpNV && i.operands.len() > 2)?;
        let copy = x.copy(r)?;
        let many = if x.e.chance(64) {
            // A matrix of SPV_NV_cooperative_matrix, which is passed as little.
            x.capability(Capability::CooperativeMatrixNV);
            coop_ir::builder::require_extension(&mut x.m, "SPV_NV_cooperative_matrix");
            let ty = x.mat(x.inst(copy).id(0)?)?;
            x.matrix_type(&[ty.component, ty.scope, ty.rows, ty.cols])
        } else {
            let uint = x.scalar(U32);
            x.g.vector(&mut x.m, uint, 4)
        };
        let undef = x.undef(copy, many)?;
        x.set(copy, 2, undef)
    }),
    ("perelement-not-function", |x| {
        let (copy, one) = (x.copy_of(Op::CooperativeMatrixPerElementOpNV)?, x.u32(1));
        x.set(copy, 1, one)
    }),
    ("perelement-side-effects", |x| {
        let r = x.op(Op::CooperativeMatrixPerElementOpNV)?;
        let function = x.inst(r).id(1)?;
        x.writes(function)
    }),
    ("perelement-signature", |x| {
        let kind = x.e.below(3);
        x.per_element(|x, ret, params| match kind {
            0 => {
                params[0] = x.scalar(F32);
                ret
            }
            1 => {
                params[1] = x.scalar(Scalar::Int { width: 16, signed: false });
                x.capability(Capability::Int16);
                ret
            }
            _ => {
                let other = if coop_ir::types::scalar(&x.m, ret) == Some(F32) { S32 } else { F32 };
                x.scalar(other)
            }
        })
    }),
    ("perelement-type", |x| {
        let r = x.op(Op::CooperativeMatrixPerElementOpNV)?;
        let ty = coop_mat(&x.m, x.inst(r).ty?)?;
        let other = x.altered(ty, &[Edit::Rows(1)])?;
        let copy = x.copy(r)?;
        x.m.inst_mut(copy).ty = Some(other);
        Some(())
    }),
    ("reduce-component-mismatch", |x| {
        x.reduction_result(|x, t| {
            let other = if x.component(t)? == F32 { U32 } else { F32 };
            Some(Edit::Component(other))
        })
    }),
    ("reduce-mask", |x| {
        let copy = x.copy_of(Op::CooperativeMatrixReduceNV)?;
        let mask = x.e.pick(&[0u32, 5, 6, 7, 8]);
        x.set(copy, 1, mask)
    }),
    ("reduce-not-function", |x| {
        let (copy, one) = (x.copy_of(Op::CooperativeMatrixReduceNV)?, x.u32(1));
        x.set(copy, 2, one)
    }),
    ("reduce-operand-not-matrix", |x| {
        let (copy, one) = (x.copy_of(Op::CooperativeMatrixReduceNV)?, x.float());
        x.set(copy, 0, one)
    }),
    ("reduce-scope-mismatch", |x| {
        x.reduction_result(|x, t| Some(Edit::Scope(if x.value(t.scope)? == 3 { 2 } else { 3 })))
    }),
    ("reduce-use", |x| x.reduction_result(|_, _| Some(Edit::Use(0)))),
    ("reduce-shape", |x| {
        let r = x.find(|_, i| {
            i.op == Op::CooperativeMatrixReduceNV
                && i.enumerant(1) != Some(CooperativeMatrixReduce::Row | CooperativeMatrixReduce::Column)
        })?;
        let mask = x.inst(r).word(1)?;
        let ty = coop_mat(&x.m, x.inst(r).ty?)?;
        let other = x.altered(ty, &[if mask == 2 { Edit::Columns(1) } else { Edit::Rows(1) }])?;
        let copy = x.copy(r)?;
        x.m.inst_mut(copy).ty = Some(other);
        Some(())
    }),
    ("reduce-signature", |x| {
        let copy = x.copy_of(Op::CooperativeMatrixReduceNV)?;
        let elem = x.mat(x.inst(copy).id(0)?)?.component;
        let three = x.e.chance(128);
        let params = if three {
            vec![elem; 3]
        } else {
            vec![elem, x.scalar(if coop_ir::types::scalar(&x.m, elem) == Some(F32) { U32 } else { F32 })]
        };
        let function = x.function(elem, &params);
        x.set(copy, 2, function)
    }),
    ("tensor-store-decode", |x| {
        let copy = x.copy_of(Op::CooperativeMatrixStoreTensorNV)?;
        let function = x.m.functions.first().and_then(|f| x.m.inst(f.def).result)?;
        let (at, mask) = addressing(x.m.inst(copy))?;
        let operands = &mut x.m.inst_mut(copy).operands;
        operands[at] = Operand::Word(mask | 2);
        operands.push(function.into());
        x.capability(Capability::CooperativeMatrixBlockLoadsNV);
        Some(())
    }),
];

impl Mutant<'_> {
    /// A copy of a tensor load that decodes, and where the function for a bit of the mask stands.
    fn decoding(&mut self, bit: u32) -> Option<(InstRef, usize)> {
        let r = self.find(|_, i| {
            i.op == Op::CooperativeMatrixLoadTensorNV && addressing(i).is_some_and(|(_, mask)| mask & bit != 0)
        })?;
        let copy = self.copy(r)?;
        let (at, mask) = addressing(self.m.inst(copy))?;
        Some((copy, at + 1 + (mask & (bit - 1)).count_ones() as usize))
    }

    /// A tensor load with another decode function: `change` says what its signature becomes.
    fn decoder(&mut self, bit: u32, change: impl Fn(&mut Self, Id, &mut Vec<Id>) -> Id) -> Option<()> {
        let (copy, at) = self.decoding(bit)?;
        let (ret, mut params) = self.signature(self.inst(copy).id(at)?)?;
        let ret = change(self, ret, &mut params);
        let function = self.function(ret, &params);
        self.set(copy, at, function)
    }

    fn per_element(&mut self, change: impl Fn(&mut Self, Id, &mut Vec<Id>) -> Id) -> Option<()> {
        let copy = self.copy_of(Op::CooperativeMatrixPerElementOpNV)?;
        let (ret, mut params) = self.signature(self.inst(copy).id(1)?)?;
        let ret = change(self, ret, &mut params);
        let function = self.function(ret, &params);
        self.set(copy, 1, function)
    }

    /// A reduction to another type.
    fn reduction_result(&mut self, edit: impl Fn(&Self, coop_ir::types::CoopMat) -> Option<Edit>) -> Option<()> {
        let r = self.op(Op::CooperativeMatrixReduceNV)?;
        let ty = coop_mat(&self.m, self.inst(r).ty?)?;
        let edit = edit(self, ty)?;
        let other = self.altered(ty, &[edit])?;
        let copy = self.copy(r)?;
        self.m.inst_mut(copy).ty = Some(other);
        Some(())
    }

    /// A store at the end of a function.
    fn writes(&mut self, function: Id) -> Option<()> {
        let uint = self.scalar(U32);
        let (variable, one) = (self.variable(StorageClass::Workgroup, uint), self.u32(1));
        let f = self.m.functions.iter().position(|f| self.m.inst(f.def).result == Some(function))?;
        let last = self.m.functions[f].blocks.last()?.insts.last().copied()?;
        self.insert(last, Inst::new(Op::Store, None, None, [variable, one].map(Operand::Id)), false).map(drop)
    }
}
