//! Rules about types, arithmetic, conversions, elements, calls and multiplications.

use super::{AnyMatrix, Edit, F32, Mutant, Rows, S32, U32, U64};
use coop_ir::grammar::Op;
use coop_ir::spv::{Capability, Decoration, StorageClass};
use coop_ir::types::{CoopMat, Scalar, Type, coop_mat};
use coop_ir::{Id, Inst, Operand};

const FLOAT_OPS: [(Op, Op); 4] =
    [(Op::IAdd, Op::FAdd), (Op::ISub, Op::FSub), (Op::IMul, Op::FMul), (Op::SNegate, Op::FNegate)];

/// Returns true for arithmetic that is defined for matrices, without the multiplication by a scalar.
fn is_arithmetic(op: Op) -> bool {
    op.is_matrix_arithmetic() && op != Op::MatrixTimesScalar
}

/// Returns the arithmetic with two operands of one type, for components that are integers or floats.
fn binary_arithmetic(int: bool) -> impl Iterator<Item = Op> {
    let kind = if int { Op::is_integer_arithmetic } else { Op::is_float_arithmetic };
    Op::all().filter(move |op| kind(*op) && op.required_operands() == 2)
}

pub(super) const MATRIX_TYPES: [Op; 2] = [Op::TypeCooperativeMatrixKHR, Op::TypeCooperativeMatrixNV];

pub(super) const ROWS: Rows = &[
    ("arithmetic-component", |x| {
        let (r, id, ty) = x.any_matrix(|s| matches!(s, Scalar::Int { .. } | Scalar::Float { .. }))?;
        // Matrices of SPV_NV_cooperative_matrix are not multiplied component by component.
        let ops: Vec<(Op, Op)> = FLOAT_OPS.into_iter().filter(|o| ty.ids.len() > 4 || o.0 != Op::IMul).collect();
        let (int, float) = x.e.pick(&ops);
        let op = if x.scalar_of(&ty)?.is_int() { float } else { int };
        let operands: &[Id] = if int == Op::SNegate { &[id] } else { &[id, id] };
        x.operation(r, op, ty.id, operands).map(drop)
    }),
    ("arithmetic-divide-undefined", |x| {
        let (r, id, ty) = x.any_matrix(Scalar::is_int)?;
        let zero = x.g.null(&mut x.m, ty.id);
        let op = if matches!(x.scalar_of(&ty)?, Scalar::Int { signed: true, .. }) { Op::SDiv } else { Op::UDiv };
        x.operation(r, op, ty.id, &[id, zero]).map(drop)
    }),
    ("arithmetic-not-allowed", |x| {
        let (r, id, ty) = x.matrix(|_, _| true)?;
        let int = x.component(ty)?.is_int();
        let bits = [Op::BitwiseAnd, Op::ShiftLeftLogical].into_iter().filter(|_| int);
        let others: Vec<Op> = binary_arithmetic(int).filter(|op| !op.is_matrix_arithmetic()).chain(bits).collect();
        let op = x.e.pick(&others);
        x.operation(r, op, ty.id, &[id, id]).map(drop)
    }),
    ("arithmetic-scalar-type", |x| {
        let (r, id, ty) = x.any_matrix(|s| matches!(s, Scalar::Float { width: 16 | 32 }))?;
        let other = if x.scalar_of(&ty)? == F32 { Scalar::Float { width: 16 } } else { F32 };
        let bits = if other == F32 { 0x3f80_0000 } else { 0x3c00 };
        if other != F32 {
            x.capability(Capability::Float16);
        }
        let one = x.constant(other, bits);
        x.after(r, Op::MatrixTimesScalar, ty.id, &[id, one]).map(drop)
    }),
    ("arithmetic-type-mismatch", |x| {
        let r = x.find(|m, i| {
            is_arithmetic(i.op) && i.op.required_operands() == 2 && i.ty.and_then(|t| matrix_op(m, t)).is_some()
        })?;
        let (inst, ty) = (x.inst(r), x.any_type(x.inst(r).ty?)?);
        let other = x.other_type(&ty.ids, &[Edit::Rows(1)])?;
        let null = x.g.null(&mut x.m, other);
        x.operation(r, inst.op, ty.id, &[inst.id(0)?, null]).map(drop)
    }),
    ("call-type-mismatch", |x| {
        let r = x.find(|m, i| {
            i.op == Op::FunctionCall && i.ids_from(1).any(|a| coop_ir::types::coop_mat_of(m, a).is_some())
        })?;
        let inst = x.inst(r);
        let at = (1..inst.operands.len()).find(|i| inst.id(*i).is_some_and(|id| x.mat(id).is_some()))?;
        let other = x.altered(x.mat(inst.id(at)?)?, &[Edit::Columns(1)])?;
        let undef = x.undef(r, other)?;
        x.set(r, at, undef)
    }),
    ("component-arithmetic", |x| {
        let (r, id, ty) = x.matrix(|x, t| matches!(x.component(t), Some(Scalar::Encoded { .. })))?;
        let op = x.e.pick(&binary_arithmetic(false).collect::<Vec<_>>());
        x.after(r, op, ty.id, &[id, id]).map(drop)
    }),
    ("component-saturation-target", |x| {
        let r = x.find(|_, i| is_arithmetic(i.op))?;
        let id = x.inst(r).result?;
        x.capability(Capability::Float8EXT);
        coop_ir::builder::require_extension(&mut x.m, "SPV_EXT_float8");
        x.annotation(Inst::new(
            Op::Decorate,
            None,
            None,
            [Operand::Id(id), Decoration::SaturatedToLargestFloat8NormalConversionEXT.into()],
        ));
        Some(())
    }),
    ("constant-constituents", |x| {
        let r = x.find(|m, i| i.op == Op::ConstantComposite && i.ty.and_then(|t| matrix_op(m, t)).is_some())?;
        let one = x.inst(r).operands[0];
        x.m.inst_mut(r).operands.push(one);
        Some(())
    }),
    ("constant-operation-not-allowed", |x| {
        let r = x.op(Op::CooperativeMatrixMulAddKHR)?;
        let inst = x.inst(r);
        let mut operands = vec![Operand::Word(u32::from(inst.op.0))];
        for i in 0..3 {
            operands.push(x.null_like(inst.id(i)?)?.into());
        }
        let id = x.m.fresh_id();
        x.global(Inst::new(Op::SpecConstantOp, inst.ty, Some(id), operands));
        Some(())
    }),
    ("construct-constituents", |x| {
        let r = x.find(|m, i| i.op == Op::CompositeConstruct && i.ty.and_then(|t| matrix_op(m, t)).is_some())?;
        let one = x.inst(r).operands[0];
        x.m.inst_mut(r).operands.push(one);
        Some(())
    }),
    ("replicate-constituent", |x| {
        let ops = [Op::ConstantCompositeReplicateEXT, Op::CompositeConstructReplicateEXT];
        let r = x.find(|m, i| ops.contains(&i.op) && i.ty.is_some_and(|t| coop_mat(m, t).is_some()))?;
        let scalar = x.component(coop_mat(&x.m, x.inst(r).ty?)?)?;
        let wrong = if scalar == F32 { x.u32(1) } else { x.float() };
        x.set(r, 0, wrong)
    }),
    ("convert-bitcast-component", |x| {
        let (r, id, ty) = x.matrix(|x, t| matches!(x.component(t), Some(Scalar::Int { width: 16 | 32, .. })))?;
        let width = x.component(ty)?.width();
        if width == 16 {
            x.capability(Capability::Float16);
        }
        let other = x.altered(ty, &[Edit::Component(Scalar::Float { width })])?;
        x.after(r, Op::Bitcast, other, &[id]).map(drop)
    }),
    ("convert-bitcast-use", |x| {
        let (r, id, ty) = x.matrix(|x, t| x.component(t).is_some_and(Scalar::is_int))?;
        let Scalar::Int { width, signed } = x.component(ty)? else { return None };
        let use_ = (x.value(ty.use_)? + 1) % 3;
        let other = x.altered(ty, &[Edit::Component(Scalar::Int { width, signed: !signed }), Edit::Use(use_)])?;
        x.after(r, Op::Bitcast, other, &[id]).map(drop)
    }),
    ("convert-component", |x| {
        let (r, id, ty) = x.any_matrix(|s| matches!(s, Scalar::Float { .. }))?;
        let (op, to) = x.e.pick(&[(Op::ConvertSToF, F32), (Op::UConvert, U32), (Op::SConvert, S32)]);
        let other = x.other_type(&ty.ids, &[Edit::Component(to)])?;
        x.operation(r, op, other, &[id]).map(drop)
    }),
    ("convert-not-allowed", |x| {
        let (r, id, ty) = x.matrix(|x, t| x.component(t) == Some(F32))?;
        x.operation(r, Op::QuantizeToF16, ty.id, &[id]).map(drop)
    }),
    ("convert-operand-not-matrix", |x| {
        let (r, _, ty) = x.matrix(|x, t| matches!(x.component(t), Some(Scalar::Float { width: 16 | 64 })))?;
        let one = x.float();
        x.operation(r, Op::FConvert, ty.id, &[one]).map(drop)
    }),
    ("convert-shape-mismatch", |x| {
        let edit = x.e.pick(&[Edit::Rows(1), Edit::Columns(1)]);
        x.converted(edit)
    }),
    ("convert-use-mismatch", |x| {
        // A to B, which no extension allows.
        let (r, id, ty) = x.matrix(|x, t| {
            x.value(t.use_).is_some_and(|u| u < 2) && matches!(x.component(t), Some(Scalar::Float { width: 16 | 64 }))
        })?;
        let use_ = 1 - x.value(ty.use_)?;
        let other = x.altered(ty, &[Edit::Component(F32), Edit::Use(use_)])?;
        x.operation(r, Op::FConvert, other, &[id]).map(drop)
    }),
    ("coordinate-index-out-of-range", |x| {
        let copy = x.coordinate()?;
        let many = x.u32(1 << 20);
        x.set(copy, 1, many)
    }),
    ("coordinate-index-type", |x| {
        let copy = x.coordinate()?;
        let one = x.float();
        x.set(copy, 1, one)
    }),
    ("coordinate-not-matrix", |x| {
        let copy = x.coordinate()?;
        let one = x.float();
        x.set(copy, 0, one)
    }),
    ("coordinate-result-type", |x| {
        let copy = x.coordinate()?;
        let uint = x.scalar(U32);
        let three = x.g.vector(&mut x.m, uint, 3);
        x.m.inst_mut(copy).ty = Some(three);
        Some(())
    }),
    ("element-index-count", |x| {
        let (r, _) = x.element()?;
        x.m.inst_mut(r).operands.push(Operand::Word(0));
        Some(())
    }),
    ("element-index-out-of-range", |x| {
        let (r, _) = x.element()?;
        x.set_operand(r, 1, 1u32 << 20)
    }),
    ("element-index-type", |x| {
        let r = x.find(|m, i| i.op == Op::AccessChain && element_of(m, i).is_some())?;
        let copy = x.copy(r)?;
        let (last, one) = (x.m.inst(copy).operands.len() - 1, x.float());
        x.set(copy, last, one)
    }),
    ("element-type-mismatch", |x| {
        let (r, ty) = x.element()?;
        let other = if x.scalar_of(&ty)? == F32 { U32 } else { F32 };
        let other = x.scalar(other);
        x.m.inst_mut(r).ty = Some(other);
        Some(())
    }),
    ("length-operand-type", |x| {
        let (r, uint) = (x.length()?, x.scalar(U32));
        x.set_operand(r, 0, uint)
    }),
    ("length-result-type", |x| {
        let (r, int) = (x.length()?, x.scalar(S32));
        x.m.inst_mut(r).ty = Some(int);
        Some(())
    }),
    ("move-storage-class", |x| {
        let (r, _, ty) = x.any_matrix(|_| true)?;
        let pointer = x.g.pointer(&mut x.m, StorageClass::Workgroup, ty.id);
        let there = x.after(r, Op::Undef, pointer, &[])?;
        let behind = x.m.def(there)?;
        x.after(behind, Op::Load, ty.id, &[there]).map(drop)
    }),
    ("move-type-mismatch", |x| {
        let (r, id, ty) = x.any_matrix(|_| true)?;
        let other = x.other_type(&ty.ids, &[Edit::Rows(1)])?;
        if x.e.chance(128) {
            return x.operation(r, Op::CopyObject, other, &[id]).map(drop);
        }
        let yes = x.g.boolean(&mut x.m, true);
        let null = x.g.null(&mut x.m, other);
        x.operation(r, Op::Select, other, &[yes, null, id]).map(drop)
    }),
    ("muladd-k-mismatch", |x| x.factor(1, &[Edit::Rows(1)])),
    ("muladd-m-mismatch", |x| x.factor(2, &[Edit::Rows(1)])),
    ("muladd-n-mismatch", |x| x.factor(2, &[Edit::Columns(1)])),
    ("muladd-scope-mismatch", |x| {
        let (r, ty) = x.multiplication()?;
        let scope = if x.value(ty.scope)? == 3 { 2 } else { 3 };
        let at = x.e.pick(&[0, 1, 2]);
        x.factor_of(r, at, &[Edit::Scope(scope)])
    }),
    ("muladd-use-mismatch", |x| x.factor(0, &[Edit::Use(2)])),
    ("muladd-operand-not-matrix", |x| {
        let (r, _) = x.multiplication()?;
        let (copy, one, at) = (x.copy(r)?, x.float(), x.e.pick(&[0, 1, 2]));
        x.set(copy, at, one)
    }),
    ("muladd-operands-unknown", |x| x.operand_bits(|_| true, 0x8000)),
    ("muladd-saturating-float", |x| x.operand_bits(Scalar::is_float, 0x10)),
    ("muladd-signed-not-integer", |x| x.operand_bits(Scalar::is_float, 0x1)),
    ("muladd-signed-disagrees", |x| x.operand_bits_exactly(|s| matches!(s, Scalar::Int { signed: false, .. }), 0x1, 0)),
    ("muladd-component-wider", |x| {
        let (r, _) = x.multiplication()?;
        let result = coop_mat(&x.m, x.inst(r).ty?)?;
        if !matches!(x.component(result)?, Scalar::Int { width: ..64, .. }) {
            return None;
        }
        x.capability(Capability::Int64);
        let ty = x.mat(x.inst(r).id(0)?)?;
        let wide = x.altered(ty, &[Edit::Component(U64)])?;
        let undef = x.undef(r, wide)?;
        let copy = x.copy(r)?;
        x.set(copy, 0, undef)
    }),
    ("select-condition-not-scalar", |x| {
        let (r, id, ty) = x.any_matrix(|_| true)?;
        let bool_type = x.g.bool(&mut x.m);
        let pair = x.g.vector(&mut x.m, bool_type, 2);
        let both = x.g.null(&mut x.m, pair);
        x.operation(r, Op::Select, ty.id, &[both, id, id]).map(drop)
    }),
    ("type-columns-not-constant", |x| x.type_operand(3, |x| Some(x.constant(U64, 8)))),
    ("type-rows-not-constant", |x| x.type_operand(2, |x| Some(x.constant(U64, 8)))),
    ("type-scope-not-constant", |x| x.type_operand(1, |x| Some(x.constant(U64, 3)))),
    ("type-use-not-constant", |x| x.type_operand(4, |x| Some(x.constant(U64, 2)))),
    ("type-scope-unsupported", |x| {
        let scope = x.e.pick(&[1, 4, 5]);
        let id = x.u32(scope);
        x.any_type_operand(1, id)
    }),
    ("type-use-unknown", |x| x.type_operand(4, |x| Some(x.u32(3)))),
    ("type-dimension-zero", |x| {
        let (at, zero) = (x.e.pick(&[2, 3]), x.u32(0));
        x.any_type_operand(at, zero)
    }),
    ("type-component-not-scalar", |x| {
        x.type_operand(0, |x| {
            let float = x.scalar(F32);
            Some(x.g.vector(&mut x.m, float, 2))
        })
    }),
    ("type-variable-storage", |x| {
        let r = x.ops(&MATRIX_TYPES)?;
        let ty = x.inst(r).result?;
        x.variable(StorageClass::Workgroup, ty);
        Some(())
    }),
    ("type-duplicate", |x| {
        let r = x.ops(&[MATRIX_TYPES[0], MATRIX_TYPES[1], Op::TypeTensorLayoutNV, Op::TypeTensorViewNV])?;
        let (inst, id) = (x.inst(r), x.m.fresh_id());
        x.global(Inst { result: Some(id), ..inst });
        Some(())
    }),
    ("type-in-block", |x| {
        let r = x.ops(&MATRIX_TYPES)?;
        let ty = x.inst(r).result?;
        let block = x.type_with(Op::TypeStruct, vec![ty.into()]);
        x.annotation(Inst::new(Op::Decorate, None, None, [block.into(), Decoration::Block.into()]));
        x.annotation(Inst::new(Op::MemberDecorate, None, None, [block.into(), 0u32.into(), 35u32.into(), 0u32.into()]));
        Some(())
    }),
    ("type-pointer-bitcast", |x| {
        let r = x.find(|m, i| i.op == Op::Load && i.ty.and_then(|t| matrix_op(m, t)).is_some())?;
        let pointer = x.inst(r).id(0)?;
        let ty = x.m.type_of(pointer)?;
        x.before(r, Op::Bitcast, ty, [pointer.into()]).map(drop)
    }),
    ("transpose-component-mismatch", |x| {
        x.relabelled(Op::CooperativeMatrixTransposeNV, |_, s| Some(Edit::Component(other_than(s))))
    }),
    ("transpose-shape", |x| x.relabelled(Op::CooperativeMatrixTransposeNV, |_, _| Some(Edit::Rows(1)))),
    ("transpose-use", |x| x.relabelled(Op::CooperativeMatrixTransposeNV, |_, _| Some(Edit::Use(0)))),
    ("transpose-decoration-target", |x| {
        x.capability(Capability::CooperativeMatrixConversionsEXT);
        coop_ir::builder::require_extension(&mut x.m, "SPV_EXT_cooperative_matrix_maintenance1");
        let r = x.find(|_, i| is_arithmetic(i.op))?;
        let id = x.inst(r).result?;
        x.annotation(Inst::new(
            Op::Decorate,
            None,
            None,
            [Operand::Id(id), Decoration::CooperativeMatrixTransposeEXT.into()],
        ));
        Some(())
    }),
    ("use-conversion-component", |x| {
        x.relabelled(Op::CooperativeMatrixConvertNV, |_, s| Some(Edit::Component(other_than(s))))
    }),
    ("use-conversion-shape", |x| x.relabelled(Op::CooperativeMatrixConvertNV, |_, _| Some(Edit::Rows(1)))),
    ("use-conversion-direction", |x| {
        // To itself.
        let r = x.op(Op::CooperativeMatrixConvertNV)?;
        let from = x.m.type_of(x.inst(r).id(0)?)?;
        let copy = x.copy(r)?;
        x.m.inst_mut(copy).ty = Some(from);
        Some(())
    }),
    ("use-conversion-not-matrix", |x| {
        let copy = x.copy_of(Op::CooperativeMatrixConvertNV)?;
        let one = x.float();
        x.set(copy, 0, one)
    }),
    ("nv1-convert-shape", |x| {
        let (r, id, ids) = x.nv1_matrix(|s| matches!(s, Scalar::Float { width: 16 | 64 }))?;
        let float = x.scalar(F32);
        let rows = x.value(ids[2])?;
        let more = x.u32(rows + 1);
        let other = x.matrix_type(&[float, ids[1], more, ids[3]]);
        x.after(r, Op::FConvert, other, &[id]).map(drop)
    }),
    ("nv1-muladd-shape", |x| {
        let r = x.op(Op::CooperativeMatrixMulAddNV)?;
        let at = x.e.pick(&[0, 1, 2]);
        let ty = x.m.type_of(x.inst(r).id(at)?)?;
        let ids: Vec<Id> = x.m.def_inst(ty)?.ids().collect();
        let rows = x.value(ids[2])?;
        let more = x.u32(rows + 1);
        let other = x.matrix_type(&[ids[0], ids[1], more, ids[3]]);
        let undef = x.undef(r, other)?;
        let copy = x.copy(r)?;
        x.set(copy, at, undef)
    }),
    ("nv1-not-allowed", |x| {
        let (r, id, _) = x.nv1_matrix(|_| true)?;
        let ty = x.m.type_of(id)?;
        let component = x.m.def_inst(ty)?.id(0)?;
        let int = coop_ir::types::scalar(&x.m, component)?.is_int();
        let op = x.e.pick(if int { &[Op::IMul, Op::BitwiseOr] } else { &[Op::FMul, Op::FRem] });
        x.after(r, op, ty, &[id, id]).map(drop)
    }),
    ("nv1-not-matrix", |x| {
        let copy = x.copy_of(Op::CooperativeMatrixMulAddNV)?;
        let (one, at) = (x.float(), x.e.pick(&[0, 1, 2]));
        x.set(copy, at, one)
    }),
    ("nv1-type-operand", |x| {
        let r = x.op(Op::TypeCooperativeMatrixNV)?;
        let mut ids: Vec<Id> = x.inst(r).ids().collect();
        let at = x.e.pick(&[0usize, 1, 2, 3]);
        ids[at] = if at == 0 { x.g.bool(&mut x.m) } else { x.float() };
        x.matrix_type(&ids);
        Some(())
    }),
    ("portability-length-specialized", |x| {
        let r = x.op(Op::TypeCooperativeMatrixKHR)?;
        let (ty, uint, id) = (x.inst(r).result?, x.scalar(U32), x.m.fresh_id());
        let operands = [Operand::Word(u32::from(Op::CooperativeMatrixLengthKHR.0)), ty.into()];
        x.global(Inst::new(Op::SpecConstantOp, Some(uint), Some(id), operands));
        Some(())
    }),
];

/// The opcode of a matrix type.
fn matrix_op(m: &coop_ir::Module, ty: Id) -> Option<Op> {
    m.def_inst(ty).map(|i| i.op).filter(|op| MATRIX_TYPES.contains(op))
}

fn other_than(scalar: Scalar) -> Scalar {
    if scalar == F32 { U32 } else { F32 }
}

/// The matrix type into whose elements a chain leads.
fn element_of(m: &coop_ir::Module, chain: &Inst) -> Option<CoopMat> {
    let Type::Pointer { pointee, .. } = Type::of(m, m.type_of(chain.id(0)?)?)? else { return None };
    let ty = coop_mat(m, pointee)?;
    (chain.operands.len() == 2).then_some(ty)
}

impl Mutant<'_> {
    /// A conversion of a float matrix to a type that is otherwise wrong.
    fn converted(&mut self, edit: Edit) -> Option<()> {
        let (r, id, ty) = self.matrix(|x, t| matches!(x.component(t), Some(Scalar::Float { width: 16 | 64 })))?;
        let other = self.altered(ty, &[Edit::Component(F32), edit])?;
        self.operation(r, Op::FConvert, other, &[id]).map(drop)
    }

    fn coordinate(&mut self) -> Option<coop_ir::InstRef> {
        let r = self.ops(&[Op::CooperativeMatrixGetCoordinateEXT, Op::CooperativeMatrixGetElementCoordINTEL])?;
        self.copy(r)
    }

    /// A new extraction of element 0, and the type of the matrix.
    fn element(&mut self) -> Option<(coop_ir::InstRef, AnyMatrix)> {
        let (r, id, ty) = self.any_matrix(|_| true)?;
        let r = self.operation(r, Op::CompositeExtract, ty.ids[0], &[id])?;
        self.m.inst_mut(r).operands.push(Operand::Word(0));
        Some((r, ty))
    }

    /// A new question for the length of a type.
    fn length(&mut self) -> Option<coop_ir::InstRef> {
        let (r, _, ty) = self.any_matrix(|_| true)?;
        let uint = self.scalar(U32);
        let op = if ty.ids.len() > 4 { Op::CooperativeMatrixLengthKHR } else { Op::CooperativeMatrixLengthNV };
        self.operation(r, op, uint, &[ty.id])
    }

    fn multiplication(&mut self) -> Option<(coop_ir::InstRef, CoopMat)> {
        let r = self.op(Op::CooperativeMatrixMulAddKHR)?;
        Some((r, self.mat(self.inst(r).id(0)?)?))
    }

    /// A multiplication with another type of operand.
    fn factor(&mut self, at: usize, edits: &[Edit]) -> Option<()> {
        let (r, _) = self.multiplication()?;
        self.factor_of(r, at, edits)
    }

    fn factor_of(&mut self, r: coop_ir::InstRef, at: usize, edits: &[Edit]) -> Option<()> {
        let ty = self.mat(self.inst(r).id(at)?)?;
        let other = self.altered(ty, edits)?;
        let undef = self.undef(r, other)?;
        let copy = self.copy(r)?;
        self.set(copy, at, undef)
    }

    fn operand_bits(&mut self, test: impl Fn(Scalar) -> bool, bits: u32) -> Option<()> {
        self.operand_bits_exactly(test, bits, u32::MAX)
    }

    /// A multiplication with more bits, of those for A's component type a test holds; old bits are masked.
    fn operand_bits_exactly(&mut self, test: impl Fn(Scalar) -> bool, bits: u32, mask: u32) -> Option<()> {
        let (r, ty) = self.multiplication()?;
        if !test(self.component(ty)?) {
            return None;
        }
        let copy = self.copy(r)?;
        let operands = &mut self.m.inst_mut(copy).operands;
        let old = operands.get(3).map_or(0, |o| o.word());
        operands.truncate(3);
        operands.push(Operand::Word(old & mask | bits));
        Some(())
    }

    /// A new matrix type that differs in one operand.
    fn type_operand(&mut self, at: usize, new: impl Fn(&mut Self) -> Option<Id>) -> Option<()> {
        let r = self.op(Op::TypeCooperativeMatrixKHR)?;
        let mut ids: Vec<Id> = self.inst(r).ids().collect();
        ids[at] = new(self)?;
        self.matrix_type(&ids);
        Some(())
    }

    /// A new matrix type of either extension that differs in one operand.
    fn any_type_operand(&mut self, at: usize, new: Id) -> Option<()> {
        let r = self.ops(&MATRIX_TYPES)?;
        let mut ids: Vec<Id> = self.inst(r).ids().collect();
        ids[at] = new;
        self.matrix_type(&ids);
        Some(())
    }

    /// A copy of a transposition or conversion with another result.
    fn relabelled(&mut self, op: Op, edit: fn(&Self, Scalar) -> Option<Edit>) -> Option<()> {
        let r = self.op(op)?;
        let ty = coop_mat(&self.m, self.inst(r).ty?)?;
        let edit = edit(self, self.component(ty)?)?;
        let other = self.altered(ty, &[edit])?;
        let copy = self.copy(r)?;
        self.m.inst_mut(copy).ty = Some(other);
        Some(())
    }

    /// A value of a matrix type of SPV_NV_cooperative_matrix, with the type's operands.
    pub(super) fn nv1_matrix(&mut self, test: impl Fn(Scalar) -> bool) -> Option<(coop_ir::InstRef, Id, Vec<Id>)> {
        let r = self.find(|m, i| {
            let ty = i.ty.and_then(|t| m.def_inst(t)).filter(|t| t.op == Op::TypeCooperativeMatrixNV);
            let scalar = ty.and_then(|t| coop_ir::types::scalar(m, t.id(0)?));
            scalar.is_some_and(&test) && !i.op.is_constant() && i.op != Op::Phi && !i.op.is_function_header()
        })?;
        let inst = self.inst(r);
        let ids: Vec<Id> = self.m.def_inst(inst.ty?)?.ids().collect();
        Some((r, inst.result?, ids))
    }
}
