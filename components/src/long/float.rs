//! Conversions between pairs of words and floating-point numbers.

use super::pair::{Code, Pair, Shift};
use coop_ir::builder::FunctionBuilder;
use coop_ir::spv::GlslStd450 as Glsl;
use coop_ir::types::Scalar;
use coop_ir::{Id, Op, Operand};

const F32: Scalar = Scalar::Float { width: 32 };

impl Code {
    /// Converts to a floating-point type, rounded once.
    pub(super) fn to_float(
        &self,
        b: &mut FunctionBuilder<'_>,
        glsl: Id,
        x: Pair,
        signed: bool,
        (ty, s): (Id, Scalar),
    ) -> Option<Id> {
        let value = if signed { self.magnitude(b, x) } else { x };
        let float = match s.width() {
            64 => {
                // Both words are exact, and so is the product.
                let [low, high] = [value.low, value.high].map(|word| b.ids(Op::ConvertUToF, ty, &[word]));
                let two_32 = b.globals.constant(b.module, s, 2f64.powi(32).to_bits());
                let high = b.ids(Op::FMul, ty, &[high, two_32]);
                b.ids(Op::FAdd, ty, &[high, low])
            }
            32 => self.to_f32(b, glsl, value, ty),
            16 => {
                // More than the least number that becomes infinite is as good as that.
                let zero = b.u32(0);
                let is_word = b.ids(Op::IEqual, self.bool, &[value.high, zero]);
                let most = b.u32(1 << 31);
                let word = b.ids(Op::Select, self.uint, &[is_word, value.low, most]);
                b.ids(Op::ConvertUToF, ty, &[word])
            }
            _ => return None,
        };
        if !signed {
            return Some(float);
        }
        let negative = self.is_negative(b, x);
        let opposite = b.ids(Op::FNegate, ty, &[float]);
        Some(b.ids(Op::Select, ty, &[negative, opposite, float]))
    }

    /// Converts the upper 31 bits from the first that is set on, with a bit that says if any other is set, and scales. Some
    /// drivers convert numbers of 32 bits in two steps, and round in both.
    fn to_f32(&self, b: &mut FunctionBuilder<'_>, glsl: Id, x: Pair, ty: Id) -> Id {
        let upper = self.shift_by(b, Shift::Logical, x, 31);
        let zero = b.u32(0);
        let upper = self.op(b, Op::BitwiseOr, upper.low, upper.high);
        let is_small = b.ids(Op::IEqual, self.bool, &[upper, zero]);
        let first = b.op(Op::ExtInst, self.uint, [Operand::Id(glsl), Glsl::FindUMsb.0.into(), x.high.into()]);
        // Without a high word the first bit is said to be -1.
        let by = self.with(b, Op::IAdd, first, 2);
        let shifted = self.shift(b, Shift::Logical, x, by);
        let back = self.shift(b, Shift::Left, shifted, by);
        let same = self.equal(b, back, x);
        let one = b.u32(1);
        let rest = b.ids(Op::Select, self.uint, &[same, zero, one]);
        let word = self.op(b, Op::BitwiseOr, shifted.low, rest);
        let word = b.ids(Op::Select, self.uint, &[is_small, x.low, word]);
        let by = b.ids(Op::Select, self.uint, &[is_small, zero, by]);
        let float = b.ids(Op::ConvertSToF, ty, &[word]);
        // 2 to the power of the shift.
        let exponent = self.with(b, Op::IAdd, by, 127);
        let bits = self.with(b, Op::ShiftLeftLogical, exponent, 23);
        let scale = b.ids(Op::Bitcast, ty, &[bits]);
        b.ids(Op::FMul, ty, &[float, scale])
    }

    /// Converts from a floating-point type, toward zero.
    pub(super) fn of_float(
        &self,
        b: &mut FunctionBuilder<'_>,
        glsl: Id,
        value: Id,
        signed: bool,
        (ty, s): (Id, Scalar),
    ) -> Option<Pair> {
        let (value, ty, s) = match s.width() {
            // All of its numbers are less than 2^17.
            16 => {
                let ty = b.globals.scalar(b.module, F32);
                (b.ids(Op::FConvert, ty, &[value]), ty, F32)
            }
            32 | 64 => (value, ty, s),
            _ => return None,
        };
        let constant = |b: &mut FunctionBuilder<'_>, value: f64| {
            let bits = if s.width() == 64 { value.to_bits() } else { (value as f32).to_bits().into() };
            b.globals.constant(b.module, s, bits)
        };
        let apply = |b: &mut FunctionBuilder<'_>, f: Glsl, v: Id| {
            b.op(Op::ExtInst, ty, [Operand::Id(glsl), f.0.into(), v.into()])
        };
        let whole = apply(b, Glsl::Trunc, value);
        let large = if signed { apply(b, Glsl::FAbs, whole) } else { whole };
        let (scale, back) = (constant(b, 2f64.powi(-32)), constant(b, 2f64.powi(32)));
        let high = b.ids(Op::FMul, ty, &[large, scale]);
        let high = apply(b, Glsl::Floor, high);
        let above = b.ids(Op::FMul, ty, &[high, back]);
        let low = b.ids(Op::FSub, ty, &[large, above]);
        let [low, high] = [low, high].map(|part| b.ids(Op::ConvertFToU, self.uint, &[part]));
        let pair = Pair { low, high };
        if !signed {
            return Some(pair);
        }
        let zero = constant(b, 0.0);
        let negative = b.ids(Op::FOrdLessThan, self.bool, &[whole, zero]);
        let opposite = self.negate(b, pair);
        Some(self.select(b, negative, opposite, pair))
    }
}
