//! The values that a pipeline gives to specialization constants.

use super::fold::mask;
use crate::types::{Scalar, Type};
use std::collections::BTreeMap;

/// Parses a SpecId: decimal digits and nothing else.
pub fn parse_spec_id(text: &str) -> Option<u32> {
    text.parse().ok().filter(|_| text.bytes().all(|c| c.is_ascii_digit()))
}

/// A value given for a specialization constant, before the constant's type is known.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum SpecValue {
    /// `12`, `-3`.
    Int(i128),
    /// `0x10`: the bits of an integer, the value of a float.
    Hex(u64),
    /// `1.5`, `1e-3`, `inf`.
    Float(f64),
    /// `true`, `false`.
    Bool(bool),
    /// The bits of a constant of any type, as a pipeline gets them: bits beyond its width are ignored, and a Boolean is
    /// true unless all are zero.
    Bits(u64),
}

impl SpecValue {
    /// Parses the right side of `ID=VALUE`.
    pub fn parse(text: &str) -> Option<SpecValue> {
        match text {
            "true" => return Some(SpecValue::Bool(true)),
            "false" => return Some(SpecValue::Bool(false)),
            _ if text.starts_with('+') => return None,
            _ => {}
        }
        let (negative, digits) = text.strip_prefix('-').map_or((false, text), |d| (true, d));
        if let Some(hex) = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
            // `from_str_radix` would accept a sign after the prefix.
            let value = u64::from_str_radix(hex, 16).ok().filter(|_| !hex.starts_with('+'))?;
            return Some(if negative { SpecValue::Int(-i128::from(value)) } else { SpecValue::Hex(value) });
        }
        if let Some(value) = digits.parse::<u64>().ok().filter(|_| !digits.starts_with('+')) {
            return Some(SpecValue::Int(if negative { -i128::from(value) } else { i128::from(value) }));
        }
        let value = text.parse::<f64>().ok()?;
        // A number that is too large is not infinity.
        let said_infinite = digits.chars().all(|c| c.is_ascii_alphabetic());
        (value.is_finite() || said_infinite).then_some(SpecValue::Float(value))
    }

    /// Returns the bits of the value in a constant of a type, or the reason for which it does not fit.
    pub fn bits(self, ty: &Type) -> Result<u64, String> {
        if let (SpecValue::Bits(v), Type::Scalar(scalar)) = (self, ty) {
            return Ok(mask(v, scalar.width()));
        }
        match ty {
            Type::Bool => match self {
                SpecValue::Bits(v) => Ok(u64::from(v != 0)),
                SpecValue::Bool(b) => Ok(u64::from(b)),
                SpecValue::Int(v @ (0 | 1)) => Ok(v as u64),
                SpecValue::Hex(v @ (0 | 1)) => Ok(v),
                _ => Err("a Boolean is true or false".into()),
            },
            Type::Scalar(Scalar::Int { width, signed }) => self.int_bits(*width, *signed),
            Type::Scalar(Scalar::Float { width }) => self.float_bits(*width),
            Type::Scalar(s) => Err(format!("constants of type {s} can't be given a value")),
            _ => Err("only scalars can be given a value".into()),
        }
    }

    /// Returns the bits of an integer. A decimal number is its value, a hexadecimal one its bits.
    fn int_bits(self, width: u32, signed: bool) -> Result<u64, String> {
        let (least, most) = match width.clamp(1, 64) {
            n if signed => (-(1i128 << (n - 1)), (1i128 << (n - 1)) - 1),
            n => (0, (1i128 << n) - 1),
        };
        match self {
            SpecValue::Bool(b) => Ok(u64::from(b)),
            SpecValue::Float(v) => Err(format!("{v} is not an integer")),
            SpecValue::Bits(v) => Ok(mask(v, width)),
            SpecValue::Hex(v) if v <= mask(u64::MAX, width) => Ok(v),
            SpecValue::Hex(v) => Err(format!("{v:#x} has more than {width} bits")),
            SpecValue::Int(v) if (least..=most).contains(&v) => Ok(mask(v as u64, width)),
            SpecValue::Int(v) => {
                let kind = if signed { "a signed" } else { "an unsigned" };
                let bits = mask(v as u64, width);
                // What has as many bits may have been meant as those.
                let meant = -(1i128 << (width.clamp(1, 64) - 1)) <= v && v < 1i128 << width.min(64);
                let or = if meant { format!("; {bits:#x} has its bits") } else { String::new() };
                Err(format!("{v} does not fit {kind} integer of {width} bits, which is {least} to {most}{or}"))
            }
        }
    }

    fn float_bits(self, width: u32) -> Result<u64, String> {
        let v = match self {
            SpecValue::Bits(v) => return Ok(mask(v, width)),
            SpecValue::Int(v) => v as f64,
            SpecValue::Hex(v) => v as f64,
            SpecValue::Float(v) => v,
            SpecValue::Bool(_) => return Err("the constant is a float".into()),
        };
        let (bits, becomes) = match width {
            64 => (v.to_bits(), v),
            32 => (u64::from((v as f32).to_bits()), f64::from(v as f32)),
            16 => {
                let (bits, value) = half(v);
                (u64::from(bits), value)
            }
            _ => return Err(format!("no float of {width} bits is known")),
        };
        if v.is_finite() && becomes.is_infinite() {
            return Err(format!("{v:e} is larger than any float of {width} bits; inf is infinity"));
        }
        Ok(bits)
    }
}

/// Returns the nearest 16-bit float, ties to even: its bits, and its value.
fn half(v: f64) -> (u16, f64) {
    let power = |n: i32| f64::from_bits(((1023 + n) as u64) << 52);
    let sign = if v.is_sign_negative() { 0x8000 } else { 0 };
    let a = v.abs();
    if a.is_nan() {
        return (sign | 0x7e00, v);
    }
    if a >= 65520.0 {
        return (sign | 0x7c00, f64::INFINITY.copysign(v));
    }
    // Subnormal numbers have the spacing of the smallest normal ones.
    let exponent = if a < power(-14) { -14 } else { (a.to_bits() >> 52) as i32 - 1023 };
    let steps = (a / power(exponent - 10)).round_ties_even();
    // Rounding up may reach the next exponent.
    let bits = (((exponent + 14) as u16) << 10) + steps as u16;
    (sign | bits, (steps * power(exponent - 10)).copysign(v))
}

/// The values given for specialization constants, by SpecId.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Specialization {
    values: BTreeMap<u32, SpecValue>,
}

impl Specialization {
    /// Returns an empty specialization.
    pub fn new() -> Specialization {
        Specialization::default()
    }

    /// Sets the value of `id`; the last one counts.
    pub fn set(&mut self, id: u32, value: SpecValue) {
        self.values.insert(id, value);
    }

    /// Returns the value given for `id`.
    pub fn get(&self, id: u32) -> Option<SpecValue> {
        self.values.get(&id).copied()
    }

    /// Returns all values, ascending by SpecId.
    pub fn iter(&self) -> impl Iterator<Item = (u32, SpecValue)> + '_ {
        self.values.iter().map(|(id, v)| (*id, *v))
    }

    /// Returns true if no value is given.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_those_of_others() {
        let near = |bits: u16| {
            let v = half_crate(bits);
            [
                v,
                f64::from_bits(v.to_bits().wrapping_add(1)),
                f64::from_bits(v.to_bits().wrapping_sub(1)),
                v * 1.0003,
                v * 0.9997,
            ]
        };
        let ties = |bits: u16| (half_crate(bits) + half_crate(bits.wrapping_add(1))) / 2.0;
        let of_all = (0..=u16::MAX).flat_map(|bits| near(bits).into_iter().chain([ties(bits)]));
        for v in of_all.chain([65519.99, 65520.0, 1e300, -1e300, 5e-324, f64::NAN]) {
            let (bits, value) = half(v);
            if v.is_nan() {
                assert!(value.is_nan() && bits & 0x7fff > 0x7c00);
                continue;
            }
            assert_eq!((half_crate(bits), value.is_sign_negative()), (value, v.is_sign_negative()), "{v:e}");
            // That crate ignores the lower half of the number, and so rounds what is above a tie as a tie.
            if v.to_bits() as u32 == 0 {
                assert_eq!(bits, ::half::f16::from_f64(v).to_bits(), "{v:e}");
            }
            let others = [bits.wrapping_sub(1), bits.wrapping_add(1)].map(half_crate);
            let nearer = |other: &f64| other.is_finite() && (v - other).abs() < (v - value).abs();
            assert!(value.is_infinite() || !others.iter().any(nearer), "{v:e}: {value:e}");
        }
    }

    fn half_crate(bits: u16) -> f64 {
        ::half::f16::from_bits(bits).to_f64()
    }
}
