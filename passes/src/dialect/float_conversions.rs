//! Lowers conversions to bfloat16 and tf32 (SPV_INTEL_bfloat16_conversion, SPV_INTEL_tensor_float32_conversion), and
//! multiplications whose operand bits reinterpret their factors as such.
//!
//! bfloat16 in 16-bit integers becomes bfloat16 (SPV_KHR_bfloat16) by bit casts of matrices, which no extension has but
//! both lowerings of matrices implement. Numbers are rounded to nearest even as 32-bit numbers before they become
//! bfloat16, since the rounding of devices is implementation-defined.

use super::rewriter::{Rewriter, Shape};
use crate::{Refusal, Tf32, malformed};
use coop_ir::builder::{FunctionBuilder, Index, require_capability, require_extension};
use coop_ir::hash::FxHashMap;
use coop_ir::spv::{Capability, CooperativeMatrixOperands};
use coop_ir::types::{self, Scalar, Type};
use coop_ir::{Id, InstRef, Op, Operand};

const F32: Scalar = Scalar::Float { width: 32 };

/// Operand bits of a multiplication.
const TF32: u32 = CooperativeMatrixOperands::MatrixAAndBTF32ComponentsINTEL.0;
const AB_BF16: u32 = CooperativeMatrixOperands::MatrixAAndBBFloat16ComponentsINTEL.0;
const C_BF16: u32 = CooperativeMatrixOperands::MatrixCBFloat16ComponentsINTEL.0;
const RESULT_BF16: u32 = CooperativeMatrixOperands::MatrixResultBFloat16ComponentsINTEL.0;
/// The operand bits of both factors, and those that only Intel's compiler sets.
const ABOUT_NUMBERS: u32 = TF32 | AB_BF16 | C_BF16 | RESULT_BF16;

/// A reduction of the precision of a 32-bit number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Narrow {
    /// Keeps the 16 bits of bfloat16.
    Bf16,
    /// Keeps the 19 bits of tf32, rounding to nearest even.
    Tf32,
    /// Keeps the 19 bits of tf32, truncating.
    Tf32Truncated,
}

impl Narrow {
    fn dropped(self) -> u32 {
        if self == Narrow::Bf16 { 16 } else { 13 }
    }
}

/// The kind of a helper function.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Helper {
    /// Reduces the precision of a 32-bit number or vector of them.
    Values(Narrow, Id),
    /// The same, as a per-element function of a matrix.
    Element(Narrow),
    /// Converts between two types.
    Convert(Id, Id),
}

/// The helper functions made so far.
#[derive(Default)]
pub(super) struct Numbers {
    functions: FxHashMap<Helper, Id>,
}

impl Numbers {
    /// Lowers `OpConvertFToBF16INTEL`, `OpConvertBF16ToFINTEL` and `OpRoundFToTF32INTEL`.
    pub(super) fn conversion(&mut self, e: &mut Rewriter<'_>, r: InstRef) -> Result<(), Refusal> {
        let inst = e.m.inst(r).clone();
        let (Some(value), Some(to)) = (inst.ids().next(), inst.ty) else {
            return malformed(r, "the conversion has no operand or no type");
        };
        if types::coop_mat(e.m, to).is_none() {
            let Some(from) = e.m.type_of(value) else { return malformed(r, "the operand has no type") };
            if inst.op == Op::RoundFToTF32INTEL && from != to {
                return malformed(r, format!("{value} has type {from}, and is rounded to {to}"));
            }
            let function = if inst.op == Op::RoundFToTF32INTEL {
                self.values(e, Narrow::Tf32, to)
            } else {
                self.convert(e, r, from, to)?
            };
            e.call(r, function, &[value]);
            return Ok(());
        }
        let from = e.shape(r, value)?;
        let result = e.shape_of_type(r, inst.ty)?;
        let same = inst.op != Op::RoundFToTF32INTEL || from.ty == to;
        if !same || (from.rows, from.cols, from.use_) != (result.rows, result.cols, result.use_) {
            return malformed(r, format!("{value} is a matrix of type {}, which can't be converted to {to}", from.ty));
        }
        match inst.op {
            Op::RoundFToTF32INTEL => {
                let function = self.element(e, Narrow::Tf32);
                e.replace(r, Op::CooperativeMatrixPerElementOpNV, [value, function].map(Operand::Id));
            }
            Op::ConvertFToBF16INTEL => {
                let bits = self.rounded_bf16(e, value, from);
                e.replace(r, Op::Bitcast, [bits.into()]);
            }
            _ => {
                let bf16 = as_bf16(e, value, from);
                e.replace(r, Op::FConvert, [bf16.into()]);
            }
        }
        Ok(())
    }

    /// Lowers a multiplication whose operand bits reinterpret its factors.
    pub(super) fn muladd(&mut self, e: &mut Rewriter<'_>, r: InstRef, tf32: Tf32) -> Result<(), Refusal> {
        let inst = e.m.inst(r).clone();
        let bits = inst.matrix_operands().0;
        if bits & ABOUT_NUMBERS == 0 {
            return Ok(());
        }
        let Some([mut a, mut b, mut c]) = inst.mul_add() else {
            return malformed(r, "the operands are not three matrices");
        };
        let mut rest = bits & !ABOUT_NUMBERS;
        if bits & TF32 != 0 && tf32 != Tf32::F32 {
            let how = if tf32 == Tf32::Rne { Narrow::Tf32 } else { Narrow::Tf32Truncated };
            let function = self.element(e, how);
            for x in [&mut a, &mut b] {
                let ty = e.shape(r, *x)?.ty;
                *x = e.ids(Op::CooperativeMatrixPerElementOpNV, ty, &[*x, function]);
            }
        }
        if bits & AB_BF16 != 0 {
            rest &= !3;
            for x in [&mut a, &mut b] {
                let shape = e.shape(r, *x)?;
                *x = as_bf16(e, *x, shape);
            }
        }
        if bits & C_BF16 != 0 {
            rest &= !4;
            let shape = e.shape(r, c)?;
            let bf16 = as_bf16(e, c, shape);
            let wide = wide(e, shape);
            c = e.ids(Op::FConvert, wide, &[bf16]);
        }
        let operands = [a, b, c].map(Operand::Id).into_iter();
        if bits & RESULT_BF16 == 0 {
            let operands = operands.chain((rest != 0).then_some(Operand::Word(rest)));
            e.replace(r, Op::CooperativeMatrixMulAddKHR, operands);
            return Ok(());
        }
        rest &= !8;
        let shape = e.shape_of_type(r, inst.ty)?;
        let wide = wide(e, shape);
        let operands = operands.chain((rest != 0).then_some(Operand::Word(rest)));
        let sum = e.op(Op::CooperativeMatrixMulAddKHR, wide, operands);
        let sum_shape = e.shape(r, sum)?;
        let bf16 = self.rounded_bf16(e, sum, sum_shape);
        let op = if shape.scalar == Scalar::BF16 { Op::CopyObject } else { Op::Bitcast };
        e.replace(r, op, [bf16.into()]);
        Ok(())
    }

    /// Lowers a call of a function imported from Intel's device library. Returns true if it was one.
    pub(super) fn library_call(&mut self, e: &mut Rewriter<'_>, r: InstRef, name: &str) -> Result<bool, Refusal> {
        let inst = e.m.inst(r).clone();
        if !matches!(name, "__devicelib_ConvertFToBF16INTEL" | "__devicelib_ConvertBF16ToFINTEL") {
            return Ok(false);
        }
        let (Some(to), Some(pointer)) = (inst.ty, inst.id(1)) else { return malformed(r, "a call without operands") };
        let Some((from, depth)) = super::tensor_form::number_behind(e, pointer) else {
            return malformed(r, format!("{name} is not passed a pointer to a number"));
        };
        let value = load_number(e, pointer, from, depth);
        let function = self.convert(e, r, from, to)?;
        e.call(r, function, &[value]);
        Ok(true)
    }

    /// Converts a matrix to bfloat16, rounding to nearest even.
    fn rounded_bf16(&mut self, e: &mut Rewriter<'_>, value: Id, from: Shape) -> Id {
        let function = self.element(e, Narrow::Bf16);
        let rounded = e.ids(Op::CooperativeMatrixPerElementOpNV, from.ty, &[value, function]);
        let ty = bf16_type(e, from);
        e.ids(Op::FConvert, ty, &[rounded])
    }

    /// Returns the function that reduces the precision of a number or vector.
    fn values(&mut self, e: &mut Rewriter<'_>, how: Narrow, ty: Id) -> Id {
        if let Some(f) = self.functions.get(&Helper::Values(how, ty)) {
            return *f;
        }
        let mut b = e.function("coop_round", ty, &[ty]);
        let value = b.param(0);
        let out = each_number(&mut b, value, ty, ty, &mut |b, x| narrowed(b, how, x));
        let id = b.finish(Some(out));
        self.functions.insert(Helper::Values(how, ty), id);
        id
    }

    /// Returns the same as a per-element function of a matrix.
    fn element(&mut self, e: &mut Rewriter<'_>, how: Narrow) -> Id {
        if let Some(f) = self.functions.get(&Helper::Element(how)) {
            return *f;
        }
        let (word, f32_type) = (e.g.uint(e.m, 32), e.g.scalar(e.m, F32));
        let mut b = e.function("coop_round_element", f32_type, &[word, word, f32_type]);
        let value = b.param(2);
        let out = narrowed(&mut b, how, value);
        let id = b.finish(Some(out));
        self.functions.insert(Helper::Element(how), id);
        id
    }

    /// Returns the function that converts between 32-bit numbers and the bits of bfloat16.
    fn convert(&mut self, e: &mut Rewriter<'_>, r: InstRef, from: Id, to: Id) -> Result<Id, Refusal> {
        if let Some(f) = self.functions.get(&Helper::Convert(from, to)) {
            return Ok(*f);
        }
        let kind = |ty: Id| types::scalar_or_vector(e.m, ty);
        let narrows = match (kind(from), kind(to)) {
            (Some((F32, n)), Some((s, k))) if n == k && s.width() == 16 => true,
            (Some((s, n)), Some((F32, k))) if n == k && s.width() == 16 => false,
            _ => return malformed(r, "a conversion between f32 and bfloat16 has other types"),
        };
        let mut b = e.function(if narrows { "coop_bf16_bits" } else { "coop_bf16_value" }, to, &[from]);
        let value = b.param(0);
        let out = each_number(&mut b, value, from, to, &mut |b, x| if narrows { bits(b, x) } else { value_of(b, x) });
        let id = b.finish(Some(out));
        self.functions.insert(Helper::Convert(from, to), id);
        Ok(id)
    }
}

/// Loads the number behind a pointer, at the start of `depth` nested structs.
pub(super) fn load_number(e: &mut Rewriter<'_>, pointer: Id, number: Id, depth: u32) -> Id {
    let pointee = e.pointee(pointer).unwrap_or(number);
    let whole = e.ids(Op::Load, pointee, &[pointer]);
    if depth == 0 {
        return whole;
    }
    let indices = (0..depth).map(|_| Operand::Word(0));
    e.op(Op::CompositeExtract, number, [Operand::Id(whole)].into_iter().chain(indices))
}

/// Returns the matrix type of this shape with bfloat16 components.
fn bf16_type(e: &mut Rewriter<'_>, shape: Shape) -> Id {
    for c in [Capability::BFloat16TypeKHR, Capability::BFloat16CooperativeMatrixKHR] {
        require_capability(e.m, c);
    }
    require_extension(e.m, "SPV_KHR_bfloat16");
    let bf16 = e.g.scalar(e.m, Scalar::BF16);
    e.of_component(shape, bf16)
}

/// Returns the matrix type of this shape with f32 components.
fn wide(e: &mut Rewriter<'_>, shape: Shape) -> Id {
    let f32_type = e.g.scalar(e.m, F32);
    e.of_component(shape, f32_type)
}

/// Reinterprets 16-bit integers as bfloat16.
fn as_bf16(e: &mut Rewriter<'_>, value: Id, shape: Shape) -> Id {
    if shape.scalar == Scalar::BF16 {
        return value;
    }
    let ty = bf16_type(e, shape);
    e.ids(Op::Bitcast, ty, &[value])
}

/// Applies a scalar function to a number or to each component of a vector.
fn each_number(
    b: &mut FunctionBuilder<'_>,
    value: Id,
    from: Id,
    to: Id,
    body: &mut dyn FnMut(&mut FunctionBuilder<'_>, Id) -> Id,
) -> Id {
    let elem = |b: &FunctionBuilder<'_>, ty: Id| match Type::of(b.module, ty) {
        Some(Type::Vector { elem, len }) => (elem, Some(len)),
        _ => (ty, None),
    };
    let ((from, len), (to_elem, _)) = (elem(b, from), elem(b, to));
    let fit = |b: &mut FunctionBuilder<'_>, x: Id| {
        if b.module.type_of(x) == Some(to_elem) { x } else { b.ids(Op::Bitcast, to_elem, &[x]) }
    };
    let Some(len) = len else {
        let out = body(b, value);
        return fit(b, out);
    };
    let parts: Vec<Id> = (0..len)
        .map(|i| {
            let x = b.op(Op::CompositeExtract, from, [value.into(), i.into()]);
            let out = body(b, x);
            fit(b, out)
        })
        .collect();
    b.ids(Op::CompositeConstruct, to, &parts)
}

/// Reduces the precision of a 32-bit number, as a 32-bit number. NaN stays NaN.
fn narrowed(b: &mut FunctionBuilder<'_>, how: Narrow, value: Id) -> Id {
    let (word, ty) = (b.u32_type(), b.globals.scalar(b.module, F32));
    let bits = b.ids(Op::Bitcast, word, &[value]);
    let bits = narrowed_bits(b, how, bits);
    b.ids(Op::Bitcast, ty, &[bits])
}

fn narrowed_bits(b: &mut FunctionBuilder<'_>, how: Narrow, bits: Id) -> Id {
    let word = b.u32_type();
    let bits = Index::Value(bits);
    let dropped = how.dropped();
    let kept = Index::Const(u32::MAX << dropped);
    let sum = if how == Narrow::Tf32Truncated {
        bits
    } else {
        // Just under half a unit in the last place, plus the lowest kept bit.
        let last = b.u32_op(Op::ShiftRightLogical, bits, Index::Const(dropped));
        let odd = b.u32_op(Op::BitwiseAnd, last, Index::Const(1));
        let up = b.add(odd, Index::Const((1 << (dropped - 1)) - 1));
        b.add(bits, up)
    };
    let rounded = b.u32_op(Op::BitwiseAnd, sum, kept);
    let magnitude = b.u32_op(Op::BitwiseAnd, bits, Index::Const(0x7fff_ffff));
    let nan = b.compare(Op::UGreaterThan, magnitude, Index::Const(0x7f80_0000));
    let quiet = b.u32_op(Op::BitwiseOr, bits, Index::Const(0x0040_0000));
    let quiet = b.u32_op(Op::BitwiseAnd, quiet, kept);
    let (quiet, rounded) = (b.index(quiet), b.index(rounded));
    b.ids(Op::Select, word, &[nan, quiet, rounded])
}

/// Converts a 32-bit number to the bits of bfloat16.
fn bits(b: &mut FunctionBuilder<'_>, value: Id) -> Id {
    let word = b.u32_type();
    let bits = b.ids(Op::Bitcast, word, &[value]);
    let bits = narrowed_bits(b, Narrow::Bf16, bits);
    let high = b.u32_op(Op::ShiftRightLogical, Index::Value(bits), Index::Const(16));
    let high = b.index(high);
    let half = Scalar::Int { width: 16, signed: false };
    crate::matrix::bits::small_type(b.module, half);
    let half = b.globals.scalar(b.module, half);
    b.ids(Op::UConvert, half, &[high])
}

/// Converts the bits of bfloat16 to a 32-bit number.
pub(super) fn value_of(b: &mut FunctionBuilder<'_>, value: Id) -> Id {
    let half = Scalar::Int { width: 16, signed: false };
    let half = b.globals.scalar(b.module, half);
    let value = if b.module.type_of(value) == Some(half) { value } else { b.ids(Op::Bitcast, half, &[value]) };
    let (word, ty) = (b.u32_type(), b.globals.scalar(b.module, F32));
    let bits = b.ids(Op::UConvert, word, &[value]);
    let bits = b.u32_op(Op::ShiftLeftLogical, Index::Value(bits), Index::Const(16));
    let bits = b.index(bits);
    b.ids(Op::Bitcast, ty, &[bits])
}
