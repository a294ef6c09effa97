//! Steps of attentions: sums of rows as products with a matrix of one number, and rows that are scaled by what rows were reduced to.

use super::Limits;
use super::emit::{A, ACC, B, Gen};
use super::fun::Value;
use super::number::{Combine, computes};
use super::range::Range;
use coop_ir::Operand;
use coop_ir::grammar::Op;
use coop_ir::spv::Capability;
use coop_ir::types::Scalar;

impl Gen<'_> {
    /// A step of an attention.
    pub(super) fn attention_statement(&mut self) -> Option<Value> {
        if self.side.chance(170) { self.product_with_splat() } else { self.rows_by_reduction() }
    }

    /// A product of a converted accumulator with a matrix of one number.
    fn product_with_splat(&mut self) -> Option<Value> {
        let x = self.find(|v| v.mat.use_ == ACC)?;
        let is_a = self.side.chance(200);
        let [use_, other] = if is_a { [A, B] } else { [B, A] };
        let scalars = self.factor_scalars(x, use_);
        let scalar = *scalars.get(self.side.below(scalars.len().max(1) as u32) as usize)?;
        let extents = self.extents(x.mat);
        if !self.granular(x.mat.workgroup, use_, extents) {
            return None;
        }
        let op = match (x.mat.scalar, scalar) {
            (from, to) if from == to => Op::CooperativeMatrixConvertNV,
            (Scalar::Int { signed: true, .. }, _) => Op::SConvert,
            (Scalar::Int { .. }, _) => Op::UConvert,
            _ => Op::FConvert,
        };
        let mat = self.mat_with(x.mat, scalar, use_, extents)?;
        self.conversions();
        let id = self.ids(op, mat.ty, &[x.id]);
        let converted = Value { id, mat, range: x.range, used: true };
        let others = self.mat(mat.problem, scalar, other);
        let splat = if scalar == (Scalar::Float { width: 32 }) && self.side.chance(60) {
            let (value, frac) = self.small_number(scalar);
            let number = self.spec_number(value, frac);
            let id = self.ids(Op::CompositeConstruct, others.ty, &[number]);
            Value { id, mat: others, range: Range::new(value, value, frac), used: true }
        } else {
            self.splat(others)
        };
        let result = match scalar {
            Scalar::Int { signed, .. } => Scalar::Int { width: 32, signed },
            _ if scalar == Scalar::Float { width: 16 } && self.side.chance(60) => scalar,
            _ => Scalar::Float { width: 32 },
        };
        let result = self.mat(mat.problem, result, ACC);
        let c = self.operand(result);
        self.note(if is_a { "sum of rows by a product" } else { "sum of columns by a product" });
        let [a, b] = if is_a { [converted, splat] } else { [splat, converted] };
        self.multiplied(a, b, c, result)
    }

    /// Component types of factors that hold the elements of an accumulator as they are.
    fn factor_scalars(&self, x: Value, use_: u32) -> Vec<Scalar> {
        let [f16, f32] = [16, 32].map(|width| Scalar::Float { width });
        let [s8, u8] = [true, false].map(|signed| Scalar::Int { width: 8, signed });
        let any = self.profile.limits == Limits::Any;
        let signed = |s: Scalar| matches!(s, Scalar::Int { signed: true, .. });
        let fits = |to: Scalar| {
            let from = x.mat.scalar;
            let known = any || !matches!(to, Scalar::Float { width: 32 });
            let kind = from.is_float() == to.is_float() && signed(from) == signed(to);
            let wide = from == (Scalar::Float { width: 64 });
            known && kind && !wide && x.range.fits(to) && self.scalars(use_).contains(&to)
        };
        [f16, f32, Scalar::BF16, s8, u8].into_iter().filter(|to| fits(*to)).collect()
    }

    /// A matrix with what the rows of another were reduced to: subtracted, or as a factor.
    fn rows_by_reduction(&mut self) -> Option<Value> {
        if self.tiled() {
            return None;
        }
        let of = self.find(|v| v.mat.use_ == ACC && v.mat.scalar.is_float() && computes(v.mat.scalar))?;
        let (mat, scalar) = (of.mat, of.mat.scalar);
        let how = self.side.pick(Combine::all(scalar));
        let range = how.range(of.range, scalar, mat.cols)?;
        let x = self.operand(mat);
        let (op, result) = match self.side.below(3) {
            0 => (Op::FMul, x.range.mul(range)),
            1 => (Op::FAdd, x.range.plus(range)),
            _ => (Op::FSub, x.range.plus(range.negated())),
        };
        let result = result.wrapped(scalar)?;
        let function = self.combiner(how, scalar, range);
        self.second_extension();
        self.capability(Capability::CooperativeMatrixReductionsNV);
        let by_rows = Operand::Word(1);
        let reduced = self.op(Op::CooperativeMatrixReduceNV, mat.ty, [of.id.into(), by_rows, function.into()]);
        self.note("rows by a reduction");
        let id = self.ids(op, mat.ty, &[x.id, reduced]);
        Some(Value { id, mat, range: result, used: false })
    }
}
