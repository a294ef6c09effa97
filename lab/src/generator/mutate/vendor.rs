//! Rules of the extensions of Arm, Intel and Qualcomm, and about who executes what together.

use super::{Edit, F32, Mutant, Rows, S32, U32};
use coop_ir::grammar::Op;
use coop_ir::spv::CooperativeMatrixLayout;
use coop_ir::spv::{BuiltIn, Capability, Decoration, Scope, StorageClass};
use coop_ir::types::{Scalar, Type, coop_mat};
use coop_ir::{Block, Id, Inst, InstList, InstRef, Operand};

const CHECKED: [Op; 2] = [Op::CooperativeMatrixLoadCheckedINTEL, Op::CooperativeMatrixStoreCheckedINTEL];
const U16: Scalar = Scalar::Int { width: 16, signed: false };
const F16: Scalar = Scalar::Float { width: 16 };

pub(super) const ROWS: Rows = &[
    ("arm-stride", |x| {
        let copy = x.blocked()?;
        let stride = x.u32(3);
        let at = if x.m.inst(copy).op == Op::CooperativeMatrixLoadKHR { 2 } else { 3 };
        x.set(copy, at, stride)
    }),
    ("arm-shape", |x| {
        let r =
            x.find(|m, i| i.op == Op::CooperativeMatrixLoadKHR && i.ty.is_some_and(|t| coop_mat(m, t).is_some()))?;
        if !x.m.has_capability(Capability::CooperativeMatrixLayoutsARM) {
            return None;
        }
        let ty = coop_mat(&x.m, x.inst(r).ty?)?;
        // One row more than whole blocks have.
        let rows = x.value(ty.rows)?;
        let other = x.altered(ty, &[Edit::Rows(4 - rows % 4 + 1)])?;
        let (copy, layout, one) = (x.copy(r)?, x.u32(CooperativeMatrixLayout::RowBlockedInterleavedARM.0), x.u32(1));
        x.m.inst_mut(copy).ty = Some(other);
        x.set(copy, 1, layout)?;
        x.set(copy, 2, one)
    }),
    ("intel-bfloat16-signed", |x| {
        let r = x.find(|_, i| i.op == Op::CooperativeMatrixMulAddKHR && i.word(3).is_some_and(|w| w & 0x40 != 0))?;
        let copy = x.copy(r)?;
        let old = x.inst(copy).word(3)?;
        x.set(copy, 3, old | 1)
    }),
    ("intel-bfloat16-type", |x| {
        let r = x.find(|_, i| i.op == Op::CooperativeMatrixMulAddKHR && i.word(3).is_some_and(|w| w & 0xc0 == 0x40))?;
        let copy = x.copy(r)?;
        let old = x.inst(copy).word(3)?;
        x.set(copy, 3, old | 0x80)
    }),
    ("intel-tf32-type", |x| {
        let r = x.find(|m, i| {
            let first = i.id(0).and_then(|a| coop_ir::types::coop_mat_of(m, a));
            i.op == Op::CooperativeMatrixMulAddKHR
                && i.word(3).unwrap_or(0) & 0x1e0 == 0
                && first.and_then(|t| coop_ir::types::scalar(m, t.component)) == Some(F16)
        })?;
        x.intel(Capability::CooperativeMatrixTF32ComponentTypeINTEL)?;
        let copy = x.copy(r)?;
        let old = x.inst(copy).word(3).unwrap_or(0);
        x.m.inst_mut(copy).operands.truncate(3);
        x.m.inst_mut(copy).operands.push(Operand::Word(old | 0x20));
        Some(())
    }),
    ("intel-capability-missing", |x| {
        let packed = x.m.all().any(|r| {
            let i = x.m.inst(r);
            i.op == Op::CooperativeMatrixLoadKHR && i.id(1).and_then(|l| x.value(l)) == Some(2)
        });
        let uses = |x: &Mutant<'_>, op: Op| x.m.all().any(|r| x.m.inst(r).op == op);
        let bits = |x: &Mutant<'_>, mask: u32| {
            x.m.all().any(|r| {
                let i = x.m.inst(r);
                i.op == Op::CooperativeMatrixMulAddKHR && i.word(3).is_some_and(|w| w & mask != 0)
            })
        };
        let all = [
            (
                Capability::CooperativeMatrixCheckedInstructionsINTEL,
                CHECKED.iter().any(|op| uses(x, *op)) || uses(x, Op::CooperativeMatrixConstructCheckedINTEL),
            ),
            (
                Capability::CooperativeMatrixOffsetInstructionsINTEL,
                uses(x, Op::CooperativeMatrixLoadOffsetINTEL) || uses(x, Op::CooperativeMatrixStoreOffsetINTEL),
            ),
            (Capability::CooperativeMatrixPrefetchINTEL, uses(x, Op::CooperativeMatrixPrefetchINTEL)),
            // Of shaders another rule says that.
            (Capability::PackedCooperativeMatrixINTEL, packed && x.m.has_capability(Capability::Kernel)),
            (
                Capability::CooperativeMatrixInvocationInstructionsINTEL,
                uses(x, Op::CooperativeMatrixGetElementCoordINTEL),
            ),
            (Capability::CooperativeMatrixTF32ComponentTypeINTEL, bits(x, 0x20)),
            (Capability::CooperativeMatrixBFloat16ComponentTypeINTEL, bits(x, 0x1c0)),
        ];
        let all: Vec<Capability> = all.iter().filter(|c| c.1).map(|c| c.0).collect();
        if all.is_empty() {
            return None;
        }
        let one = x.e.pick(&all);
        x.drop_capability(&[one])
    }),
    ("intel-checked-type", |x| {
        let r = x.ops(&[Op::CooperativeMatrixLoadCheckedINTEL, Op::CooperativeMatrixConstructCheckedINTEL])?;
        let (copy, one) = (x.copy(r)?, x.float());
        let first = usize::from(x.m.inst(copy).op == Op::CooperativeMatrixLoadCheckedINTEL);
        let at = x.e.pick(&[first, first + 1]);
        x.set(copy, at, one)
    }),
    ("intel-checked-value", |x| {
        let r = x.op(Op::CooperativeMatrixConstructCheckedINTEL)?;
        let scalar = x.component(coop_mat(&x.m, x.inst(r).ty?)?)?;
        let (copy, wrong) = (x.copy(r)?, if scalar == F32 { x.u32(1) } else { x.float() });
        x.set(copy, 4, wrong)
    }),
    ("intel-checked-column-major", |x| {
        let (copy, one) = (x.copy_of(Op::CooperativeMatrixStoreCheckedINTEL)?, x.u32(1));
        x.set(copy, 4, one)
    }),
    ("intel-conversion-type", |x| {
        let r = x.find(|_, i| i.op.is_intel_float_conversion())?;
        let ty = coop_mat(&x.m, x.inst(r).ty?)?;
        x.capability(Capability::Float16);
        let other = x.altered(ty, &[Edit::Component(F16)])?;
        let copy = x.copy(r)?;
        x.m.inst_mut(copy).ty = Some(other);
        Some(())
    }),
    ("intel-packed-a", |x| x.packed(0, 0)),
    ("intel-packed-accumulator", |x| x.packed(2, 0)),
    ("intel-packed-rows", |x| x.packed(1, 1)),
    ("intel-prefetch-form", |x| {
        x.intel(Capability::CooperativeMatrixPrefetchINTEL)?;
        let r = x.op(Op::CooperativeMatrixLoadKHR)?;
        let pointer = x.inst(r).id(0)?;
        let [zero, eight] = [0, 8].map(|v| x.u32(v).get());
        let words = [zero, zero, eight, eight, 0, zero].map(Operand::Word);
        let operands = [pointer.into()].into_iter().chain(words);
        x.insert(r, Inst::new(Op::CooperativeMatrixPrefetchINTEL, None, None, operands), false).map(drop)
    }),
    ("intel-apply-function", |x| x.apply(&[])),
    ("intel-apply-type", |x| x.apply(&[Edit::Rows(1)])),
    ("intel-cache-control", |x| {
        x.capability(Capability::CacheControlsINTEL);
        coop_ir::builder::require_extension(&mut x.m, "SPV_INTEL_cache_controls");
        let uint = x.scalar(U32);
        let variable = x.variable(StorageClass::Workgroup, uint);
        let words = [Decoration::CacheControlLoadINTEL.into(), Operand::Word(0), Operand::Word(0)];
        x.annotation(Inst::new(Op::Decorate, None, None, [variable.into()].into_iter().chain(words)));
        Some(())
    }),
    ("qcom-array-length", |x| x.raked(|x, scalar, len| Some(x.lanes_of(scalar, len + 1)))),
    ("qcom-element-type", |x| {
        x.raked(|x, scalar, len| {
            let other = if scalar == F32 { F16 } else { F32 };
            x.capability(Capability::Float16);
            Some(x.lanes_of(other, len))
        })
    }),
    ("qcom-array-type", |x| {
        x.raked(|x, _, len| {
            x.capability(Capability::Float64);
            Some(x.lanes_of(Scalar::Float { width: 64 }, len))
        })
    }),
    ("qcom-bitcast-size", |x| {
        let r = x.op(Op::BitCastArrayQCOM)?;
        let longer = x.lanes_of(F32, 64);
        let copy = x.copy(r)?;
        x.m.inst_mut(copy).ty = Some(longer);
        Some(())
    }),
    ("qcom-subarray-start", |x| {
        let (copy, far) = (x.copy_of(Op::ExtractSubArrayQCOM)?, x.constant(S32, 1 << 16));
        x.set(copy, 1, far)
    }),
    ("qcom-subarray-multiple", |x| {
        let r = x.op(Op::ExtractSubArrayQCOM)?;
        let Some(Type::Array { len, .. }) = Type::of(&x.m, x.inst(r).ty?) else { return None };
        if x.value(len)? < 2 {
            return None;
        }
        let (copy, one) = (x.copy(r)?, x.constant(S32, 1));
        x.set(copy, 1, one)
    }),
    ("qcom-subarray-type", |x| {
        let r = x.op(Op::ExtractSubArrayQCOM)?;
        let Some(Type::Array { elem, len }) = Type::of(&x.m, x.inst(r).ty?) else { return None };
        let other = if coop_ir::types::scalar(&x.m, elem) == Some(F32) { U32 } else { F32 };
        let elem = x.scalar(other);
        let ty = x.type_with(Op::TypeArray, vec![elem.into(), len.into()]);
        let copy = x.copy(r)?;
        x.m.inst_mut(copy).ty = Some(ty);
        Some(())
    }),
    ("qcom-scope", |x| x.rake_matrix(&[Edit::Scope(Scope::Workgroup.0)])),
    ("qcom-shape", |x| {
        let r =
            x.find(|m, i| i.op == Op::CompositeConstructCoopMatQCOM && i.ty.and_then(|t| coop_mat(m, t)).is_some())?;
        let ty = coop_mat(&x.m, x.inst(r).ty?)?;
        let edit = match x.value(ty.use_)? {
            0 => Edit::Columns(8),
            1 => Edit::Rows(8),
            _ => return None,
        };
        let other = x.altered(ty, &[edit])?;
        let copy = x.copy(r)?;
        x.m.inst_mut(copy).ty = Some(other);
        Some(())
    }),
    ("qcom-component", |x| {
        x.capability(Capability::Int16);
        x.rake_matrix(&[Edit::Component(U16)])
    }),
    ("portability-bfloat16-rounding", |x| {
        let (r, id, ty) = x.matrix(|x, t| x.component(t) == Some(F32))?;
        x.capability(Capability::BFloat16CooperativeMatrixKHR);
        x.capability(Capability::BFloat16TypeKHR);
        coop_ir::builder::require_extension(&mut x.m, "SPV_KHR_bfloat16");
        let other = x.altered(ty, &[Edit::Component(Scalar::BF16)])?;
        x.after(r, Op::FConvert, other, &[id]).map(drop)
    }),
    ("uniformity-flow", |x| {
        let r = x.alone()?;
        x.for_some(r)
    }),
    ("uniformity-barrier", |x| {
        let at = x.alone()?;
        let scope = x.u32(2);
        let semantics = x.u32(0x108);
        let barrier = Inst::new(Op::ControlBarrier, None, None, [scope, scope, semantics].map(Operand::Id));
        let r = x.insert(at, barrier, false)?;
        x.for_some(r)
    }),
    ("uniformity-callback", |x| {
        let r = x.ops(&[Op::CooperativeMatrixReduceNV, Op::CooperativeMatrixPerElementOpNV])?;
        let at = if x.m.inst(r).op == Op::CooperativeMatrixReduceNV { 2 } else { 1 };
        let function = x.inst(r).id(at)?;
        let f = x.m.functions.iter().position(|f| x.m.inst(f.def).result == Some(function))?;
        let last = x.m.functions[f].blocks.last()?.insts.last().copied()?;
        let (scope, semantics) = (x.u32(2), x.u32(0x108));
        let barrier = Inst::new(Op::ControlBarrier, None, None, [scope, scope, semantics].map(Operand::Id));
        x.insert(last, barrier, false).map(drop)
    }),
    ("uniformity-operand", |x| {
        let main = x.main()?;
        let r = x.find(|m, i| {
            i.op == Op::CooperativeMatrixLoadKHR
                && i.id(1).and_then(|l| m.def_inst(l)).is_some_and(|l| l.word(0) < Some(2))
        })?;
        if !x.m.functions[main].insts().any(|i| i == r) {
            return None;
        }
        let copy = x.copy(r)?;
        let lane = x.lane(copy)?;
        let uint = x.scalar(U32);
        let stride = x.inst(copy).id(2)?;
        if x.m.type_of(stride)? != uint {
            return None;
        }
        let sixteen = x.u32(16);
        let far = x.before(copy, Op::IMul, uint, [lane, sixteen].map(Operand::Id))?;
        let sum = x.before(copy, Op::IAdd, uint, [stride, far].map(Operand::Id))?;
        x.set(copy, 2, sum)
    }),
    ("uniformity-recursion", |x| {
        let r = x.ops(&[Op::CooperativeMatrixReduceNV])?;
        let function = x.inst(r).id(2)?;
        let (ret, params) = x.signature(function)?;
        let f = x.m.functions.iter().position(|f| x.m.inst(f.def).result == Some(function))?;
        let first = x.m.functions[f].blocks.first()?.insts.first().copied()?;
        let undef = x.before(first, Op::Undef, params[0], [])?;
        let operands = [function, undef, undef].map(Operand::Id);
        x.before(first, Op::FunctionCall, ret, operands).map(drop)
    }),
];

impl Mutant<'_> {
    /// A copy of an access with a blocked layout.
    fn blocked(&mut self) -> Option<InstRef> {
        let constants: Vec<Id> = self
            .m
            .globals_with(Op::Constant)
            .filter(|r| {
                matches!(
                    self.m.inst(*r).enumerant(0),
                    Some(
                        CooperativeMatrixLayout::RowBlockedInterleavedARM
                            | CooperativeMatrixLayout::ColumnBlockedInterleavedARM
                    )
                )
            })
            .filter_map(|r| self.m.inst(r).result)
            .collect();
        let ops = [Op::CooperativeMatrixLoadKHR, Op::CooperativeMatrixStoreKHR];
        let r = self.find(|_, i| ops.contains(&i.op) && i.ids().any(|id| constants.contains(&id)))?;
        self.copy(r)
    }

    /// For modules of Intel's dialect: others would break more.
    fn intel(&mut self, capability: Capability) -> Option<()> {
        let known = self.m.globals_with(Op::Extension).any(|r| {
            let name = self.m.inst(r).string(0);
            name.is_some_and(|(s, _)| s == "SPV_INTEL_joint_matrix")
        });
        known.then(|| self.capability(capability))
    }

    /// A load of a matrix of this use in the packed layout, with so many rows more.
    fn packed(&mut self, use_: u32, rows: u32) -> Option<()> {
        self.intel(Capability::PackedCooperativeMatrixINTEL)?;
        let (r, _, ty) = self.matrix(|x, t| {
            let narrow = x.component(t).is_some_and(|s| s.width() <= 16);
            x.value(t.use_) == Some(use_) && narrow
        })?;
        let even = self.value(ty.rows)?.next_multiple_of(4) - self.value(ty.rows)?;
        let other = if rows == 0 { ty.id } else { self.altered(ty, &[Edit::Rows(even + rows)])? };
        let array = self.array(ty.component, 1 << 16);
        let variable = self.variable(StorageClass::Workgroup, array);
        let (pointer, zero) = (self.g.pointer(&mut self.m, StorageClass::Workgroup, ty.component), self.u32(0));
        let at = self.after(r, Op::AccessChain, pointer, &[variable, zero])?;
        let (layout, stride) = (self.u32(CooperativeMatrixLayout::PackedINTEL.0), self.u32(128));
        let chain = self.m.def(at)?;
        self.after(chain, Op::CooperativeMatrixLoadKHR, other, &[at, layout, stride]).map(drop)
    }

    fn apply(&mut self, edits: &[Edit]) -> Option<()> {
        self.intel(Capability::CooperativeMatrixInvocationInstructionsINTEL)?;
        let (r, id, ty) = self.matrix(|_, _| true)?;
        let uint = self.scalar(U32);
        let block = self.type_with(Op::TypeStruct, vec![uint.into()]);
        let variable = self.variable(StorageClass::Private, block);
        let other = if edits.is_empty() { ty.id } else { self.altered(ty, edits)? };
        self.after(r, Op::CooperativeMatrixApplyFunctionINTEL, other, &[variable, id]).map(drop)
    }

    fn lanes_of(&mut self, scalar: Scalar, len: u32) -> Id {
        let elem = self.scalar(scalar);
        self.array(elem, len)
    }

    /// A matrix taken apart into arrays of another type, of which the function is told component and length.
    fn raked(&mut self, other: impl Fn(&mut Self, Scalar, u32) -> Option<Id>) -> Option<()> {
        let r = self.op(Op::CompositeExtractCoopMatQCOM)?;
        let Some(Type::Array { elem, len }) = Type::of(&self.m, self.inst(r).ty?) else { return None };
        let component = self.component(self.mat(self.inst(r).id(0)?)?)?;
        // Words are another matter.
        if coop_ir::types::scalar(&self.m, elem) != Some(component) {
            return None;
        }
        let len = self.value(len)?;
        let ty = other(self, component, len)?;
        let copy = self.copy(r)?;
        self.m.inst_mut(copy).ty = Some(ty);
        Some(())
    }

    /// A matrix of another type made of arrays.
    fn rake_matrix(&mut self, edits: &[Edit]) -> Option<()> {
        let r = self.op(Op::CompositeConstructCoopMatQCOM)?;
        let ty = coop_mat(&self.m, self.inst(r).ty?)?;
        let other = self.altered(ty, edits)?;
        let copy = self.copy(r)?;
        self.m.inst_mut(copy).ty = Some(other);
        Some(())
    }

    fn main(&self) -> Option<usize> {
        let entry = self.m.globals_with(Op::EntryPoint).next()?;
        let main = self.m.inst(entry).id(1)?;
        self.m.functions.iter().position(|f| self.m.inst(f.def).result == Some(main))
    }

    /// A copy of a load of a matrix in the entry block of the entry point, which nothing needs.
    fn alone(&mut self) -> Option<InstRef> {
        let main = self.main()?;
        let first = self.m.functions[main].blocks.first()?;
        let loads = first.insts.iter().copied().filter(|r| {
            let i = self.m.inst(*r);
            i.op == Op::CooperativeMatrixLoadKHR
        });
        let all: Vec<InstRef> = loads.collect();
        if all.is_empty() {
            return None;
        }
        let r = self.e.pick(&all);
        self.copy(r)
    }

    /// The number of the invocation in the workgroup, in front of an instruction.
    fn lane(&mut self, before: InstRef) -> Option<Id> {
        let uint = self.scalar(U32);
        let known = self.m.globals_with(Op::Decorate).find_map(|r| {
            let i = self.m.inst(r);
            (i.enumerant(1) == Some(Decoration::BuiltIn) && i.enumerant(2) == Some(BuiltIn::LocalInvocationIndex))
                .then(|| i.id(0))
                .flatten()
        });
        let variable = match known {
            Some(v) => v,
            None => {
                let v = self.variable(StorageClass::Input, uint);
                let words = [Decoration::BuiltIn.into(), BuiltIn::LocalInvocationIndex.into()];
                self.annotation(Inst::new(Op::Decorate, None, None, [v.into()].into_iter().chain(words)));
                v
            }
        };
        self.before(before, Op::Load, uint, [variable.into()])
    }

    /// Puts an instruction under a condition that holds in the first invocation only.
    fn for_some(&mut self, r: InstRef) -> Option<()> {
        let lane = self.lane(r)?;
        let (bool_type, one) = (self.g.bool(&mut self.m), self.u32(1));
        let condition = self.before(r, Op::ULessThan, bool_type, [lane, one].map(Operand::Id))?;
        let (f, b, i) = self.m.functions.iter().enumerate().find_map(|(f, function)| {
            let place = |b: &Block| b.insts.iter().position(|x| *x == r);
            function.blocks.iter().enumerate().find_map(|(b, block)| Some((f, b, place(block)?)))
        })?;
        let [inside, merge] = std::array::from_fn(|_| self.m.fresh_id());
        let old = self.m.inst(self.m.functions[f].blocks[b].label).result?;
        let rest: InstList = self.m.functions[f].blocks[b].insts.drain(i..).collect();
        let add = |x: &mut Self, op: Op, operands: Vec<Operand>| x.m.add(Inst::new(op, None, None, operands));
        let selection = add(self, Op::SelectionMerge, vec![merge.into(), Operand::Word(0)]);
        let branch = add(self, Op::BranchConditional, vec![condition.into(), inside.into(), merge.into()]);
        let back = add(self, Op::Branch, vec![merge.into()]);
        let labels = [inside, merge].map(|id| self.m.add(Inst::new(Op::Label, None, Some(id), [])));
        let function = &mut self.m.functions[f];
        function.blocks[b].insts.extend([selection, branch]);
        let block = |label, insts| Block { lead: Vec::new(), label, insts };
        function.blocks.insert(b + 1, block(labels[0], [r, back].into_iter().collect()));
        function.blocks.insert(b + 2, block(labels[1], rest[1..].iter().copied().collect()));
        // What followed the block follows its last part now.
        for r in function.blocks.iter().flat_map(|b| b.insts.iter().copied()).collect::<Vec<_>>() {
            let inst = self.m.inst_mut(r);
            if inst.op == Op::Phi {
                for o in inst.operands.iter_mut().skip(1).step_by(2) {
                    if o.id() == Some(old) {
                        *o = merge.into();
                    }
                }
            }
        }
        Some(())
    }
}
