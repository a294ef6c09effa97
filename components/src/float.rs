//! Conversions between f32 and narrower floating-point formats, component by component: exact, with subnormal numbers, infinities
//! and NaN.
//!
//! A value of a narrow format is held by the f32 that is equal to it. Normal numbers are rounded in integer code, those below by a
//! sum of f32, which has to round to nearest even. Subnormal numbers of f32 become zero, so that devices which flush those
//! give the same results.

use crate::emit::Lanes;
use coop_ir::builder::{FunctionBuilder, decorate};
use coop_ir::spv::Decoration;
use coop_ir::types::Scalar;
use coop_ir::{Id, Op};

pub(crate) const MAGNITUDE: u32 = 0x7fff_ffff;
pub(crate) const INFINITY: u32 = 0x7f80_0000;
/// The bit that makes a NaN quiet.
const QUIET: u32 = 0x0040_0000;
const NAN: u32 = 0x7fc0_0000;

/// Emits arithmetic that is not contracted.
pub(crate) fn exactly(b: &mut FunctionBuilder<'_>, op: Op, ty: Id, x: Id, y: Id) -> Id {
    let id = b.ids(op, ty, &[x, y]);
    decorate(b.module, id, Decoration::NoContraction, &[]);
    id
}

/// A floating-point format with subnormal numbers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Format {
    /// Bits of the mantissa.
    mantissa: u32,
    /// The bias of the exponent.
    bias: u32,
    /// Bits in all.
    width: u32,
    /// The largest finite number, as f32.
    largest: u32,
    /// True if the largest exponent is for infinities and NaN only; otherwise one magnitude is NaN, and none is infinite.
    infinite: bool,
}

impl Format {
    /// IEEE 754's binary16.
    pub(crate) const F16: Format = Format { mantissa: 10, bias: 15, width: 16, largest: 0x477f_e000, infinite: true };
    const E5M2: Format = Format { mantissa: 2, bias: 15, width: 8, largest: 0x4760_0000, infinite: true };
    const E4M3: Format = Format { mantissa: 3, bias: 7, width: 8, largest: 0x43e0_0000, infinite: false };

    /// Returns the format of a type.
    pub(crate) fn of(scalar: Scalar) -> Option<Format> {
        match scalar {
            Scalar::Float { width: 16 } => Some(Format::F16),
            Scalar::E4M3 => Some(Format::E4M3),
            Scalar::E5M2 => Some(Format::E5M2),
            _ => None,
        }
    }

    /// Bits of f32's mantissa that the format has not.
    fn dropped(self) -> u32 {
        23 - self.mantissa
    }

    /// The exponent of the smallest normal number, as f32 has it.
    fn least_exponent(self) -> u32 {
        128 - self.bias
    }

    /// The smallest number above zero, as f32.
    fn least(self) -> u32 {
        (self.least_exponent() - self.mantissa) << 23
    }

    /// The difference of the exponents' biases, in place.
    fn rebias(self) -> u32 {
        (127 - self.bias) << 23
    }

    /// The smallest code that is not finite.
    fn special(self) -> u32 {
        let all = (1 << (self.width - 1)) - 1;
        if self.infinite { all & !((1 << self.mantissa) - 1) } else { all }
    }

    /// The factor that makes the smallest number above zero 1.
    fn scale(self) -> f32 {
        f32::from_bits((127 + self.bias - 1 + self.mantissa) << 23)
    }

    /// Returns the bits of the f32 that is equal to the number with a code.
    pub(crate) fn widened(self, code: u32) -> u32 {
        let a = code & ((1 << (self.width - 1)) - 1);
        let sign = (code >> (self.width - 1) & 1) << 31;
        let magnitude = match a {
            a if a >= self.special() && !self.infinite => NAN,
            a if a >= self.special() => (a << self.dropped()) + 2 * self.rebias(),
            a if a < 1 << self.mantissa => (a as f32 / self.scale()).to_bits(),
            a => (a << self.dropped()) + self.rebias(),
        };
        sign | magnitude
    }

    /// Emits the rounding of f32 to the nearest number of the format, ties to even. What is too large becomes infinite, or NaN
    /// where there are no infinities; with `saturates` it becomes the largest number, and so do infinities.
    pub(crate) fn round(self, b: &mut FunctionBuilder<'_>, len: u32, value: Id, saturates: bool) -> Id {
        let l = Lanes::new(b, len);
        let bits = b.ids(Op::Bitcast, l.uint, &[value]);
        let magnitude = l.with(b, Op::BitwiseAnd, bits, MAGNITUDE);
        let sign = l.op(b, Op::BitwiseXor, bits, magnitude);
        // Just under half of the last place, and the last bit that stays: to nearest even. A carry reaches the exponent.
        let last = 1 << self.dropped();
        let kept = l.with(b, Op::ShiftRightLogical, magnitude, self.dropped());
        let odd = l.with(b, Op::BitwiseAnd, kept, 1);
        let sum = l.with(b, Op::IAdd, magnitude, last / 2 - 1);
        let sum = l.op(b, Op::IAdd, sum, odd);
        let normal = l.with(b, Op::BitwiseAnd, sum, !(last - 1));
        let over = match (saturates, self.infinite) {
            (true, _) => self.largest,
            (false, true) => INFINITY,
            (false, false) => NAN,
        };
        let over = l.constant(b, over);
        let too_large = l.compare(b, Op::UGreaterThan, normal, self.largest);
        let normal = l.select(b, too_large, over, normal);
        let is_nan = l.compare(b, Op::UGreaterThan, magnitude, INFINITY);
        let nan = l.with(b, Op::BitwiseOr, magnitude, QUIET);
        let normal = l.select(b, is_nan, nan, normal);
        let small = self.round_small(b, &l, magnitude);
        let is_small = l.compare(b, Op::ULessThan, magnitude, self.least_exponent() << 23);
        let rounded = l.select(b, is_small, small, normal);
        let bits = l.op(b, Op::BitwiseOr, rounded, sign);
        b.ids(Op::Bitcast, l.float, &[bits])
    }

    /// Emits the rounding of a number below the least normal one: a sum with a number whose last place is that of the format's least
    /// number rounds to it.
    fn round_small(self, b: &mut FunctionBuilder<'_>, l: &Lanes, magnitude: Id) -> Id {
        let value = b.ids(Op::Bitcast, l.float, &[magnitude]);
        let large = l.float(b, f32::from_bits(self.least() + (23 << 23)));
        let sum = exactly(b, Op::FAdd, l.float, value, large);
        let small = exactly(b, Op::FSub, l.float, sum, large);
        b.ids(Op::Bitcast, l.uint, &[small])
    }

    /// Emits the code of a number that is held by f32, in the lowest bits of a word.
    pub(crate) fn encode(self, b: &mut FunctionBuilder<'_>, len: u32, value: Id) -> Id {
        let l = Lanes::new(b, len);
        let bits = b.ids(Op::Bitcast, l.uint, &[value]);
        let a = l.with(b, Op::BitwiseAnd, bits, MAGNITUDE);
        let sign = l.op(b, Op::BitwiseXor, bits, a);
        let sign = l.with(b, Op::ShiftRightLogical, sign, 32 - self.width);
        let normal = l.with(b, Op::ISub, a, self.rebias());
        let normal = l.with(b, Op::ShiftRightLogical, normal, self.dropped());
        let special = if self.infinite {
            let payload = l.with(b, Op::ShiftRightLogical, a, self.dropped());
            let payload = l.with(b, Op::BitwiseAnd, payload, (1 << self.mantissa) - 1);
            l.with(b, Op::BitwiseOr, payload, self.special())
        } else {
            l.constant(b, self.special())
        };
        let is_special = l.compare(b, Op::UGreaterThanEqual, a, INFINITY);
        let large = l.select(b, is_special, special, normal);
        // A subnormal number is a whole number of the least one.
        let is_small = l.compare(b, Op::ULessThan, a, self.least_exponent() << 23);
        let zero = l.constant(b, 0);
        let small = l.select(b, is_small, a, zero);
        let small = b.ids(Op::Bitcast, l.float, &[small]);
        let scale = l.float(b, self.scale());
        let small = b.ids(Op::FMul, l.float, &[small, scale]);
        let small = b.ids(Op::ConvertFToU, l.uint, &[small]);
        let result = l.select(b, is_small, small, large);
        l.op(b, Op::BitwiseOr, result, sign)
    }

    /// Emits the f32 that is equal to the number with a code, which is the lowest bits of a word; those above are ignored.
    pub(crate) fn decode(self, b: &mut FunctionBuilder<'_>, len: u32, bits: Id) -> Id {
        let l = Lanes::new(b, len);
        let top = 1 << (self.width - 1);
        let a = l.with(b, Op::BitwiseAnd, bits, top - 1);
        let sign = l.with(b, Op::BitwiseAnd, bits, top);
        let sign = l.with(b, Op::ShiftLeftLogical, sign, 32 - self.width);
        let shifted = l.with(b, Op::ShiftLeftLogical, a, self.dropped());
        let normal = l.with(b, Op::IAdd, shifted, self.rebias());
        let special = if self.infinite { l.with(b, Op::IAdd, shifted, 2 * self.rebias()) } else { l.constant(b, NAN) };
        let is_special = l.compare(b, Op::UGreaterThanEqual, a, self.special());
        let large = l.select(b, is_special, special, normal);
        let small = b.ids(Op::ConvertUToF, l.float, &[a]);
        let scale = l.float(b, 1.0 / self.scale());
        let small = b.ids(Op::FMul, l.float, &[small, scale]);
        let small = b.ids(Op::Bitcast, l.uint, &[small]);
        let is_small = l.compare(b, Op::ULessThan, a, 1 << self.mantissa);
        let magnitude = l.select(b, is_small, small, large);
        let bits = l.op(b, Op::BitwiseOr, magnitude, sign);
        b.ids(Op::Bitcast, l.float, &[bits])
    }
}

#[cfg(test)]
mod tests {
    use super::Format;

    #[test]
    fn every_half_is_widened_exactly() {
        for bits in 0..=u16::MAX {
            let ours = f32::from_bits(Format::F16.widened(bits.into()));
            let theirs = half::f16::from_bits(bits).to_f32();
            assert!(ours.to_bits() == theirs.to_bits() || ours.is_nan() && theirs.is_nan(), "{bits:#x}");
        }
    }

    /// Values of the tables of OCP's specification of 8-bit floats.
    #[test]
    fn numbers_of_eight_bits() {
        let value = |f: Format, code: u32| f32::from_bits(f.widened(code));
        assert_eq!([0x08, 0x01, 0x7e, 0x38].map(|c| value(Format::E4M3, c)), [0.015_625, 0.001_953_125, 448.0, 1.0]);
        assert_eq!(
            [0x04, 0x01, 0x7b, 0x7c].map(|c| value(Format::E5M2, c)),
            [0.000_061_035_156, 0.000_015_258_789, 57344.0, f32::INFINITY]
        );
        assert!(value(Format::E4M3, 0xff).is_nan() && value(Format::E5M2, 0x7d).is_nan());
        assert_eq!(value(Format::E5M2, 0x80).to_bits(), 1 << 31);
    }
}
