//! Elements of buffers: conversion between bytes and numbers for every component type that a case can name.
//!
//! Integers are `i128`, which holds every 64-bit value of either sign; floats are `f64`, which holds every
//! value of the narrower types. Encoding a float rounds once, to nearest even, whatever the type.

use coop_device::ComponentType;

/// One element of a buffer.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Value {
    /// A value of an integer type.
    Int(i128),
    /// A value of a float type.
    Float(f64),
}

impl Value {
    /// The value as a float; integers beyond 2^53 are rounded.
    pub fn to_f64(self) -> f64 {
        match self {
            // Machines convert 64 bits at once.
            Value::Int(value) => i64::try_from(value).map_or(value as f64, |value| value as f64),
            Value::Float(value) => value,
        }
    }

    /// The value as an integer: floats are truncated, and clamped to what `i128` holds; NaN is 0.
    pub fn to_i128(self) -> i128 {
        match self {
            Value::Int(value) => value,
            Value::Float(value) => value as i128,
        }
    }
}

impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Value::Int(value) => write!(f, "{value}"),
            Value::Float(value) => write!(f, "{value}"),
        }
    }
}

/// A float type of at most 16 bits, most significant bit first: sign, exponent, mantissa.
#[derive(Clone, Copy)]
struct SmallFloat {
    exponent: u32,
    mantissa: u32,
    /// True if there is no infinity and the only NaN is all ones (E4M3).
    finite: bool,
}

const F16: SmallFloat = SmallFloat { exponent: 5, mantissa: 10, finite: false };
const BF16: SmallFloat = SmallFloat { exponent: 8, mantissa: 7, finite: false };
const E5M2: SmallFloat = SmallFloat { exponent: 5, mantissa: 2, finite: false };
const E4M3: SmallFloat = SmallFloat { exponent: 4, mantissa: 3, finite: true };

impl SmallFloat {
    const fn bias(self) -> i32 {
        (1 << (self.exponent - 1)) - 1
    }

    const fn sign_bit(self) -> u32 {
        1 << (self.exponent + self.mantissa)
    }

    /// The largest finite value's bits.
    const fn max_bits(self) -> u32 {
        // Of the two below: E4M3 gives up one value for NaN, the others a whole exponent for infinity.
        if self.finite { self.sign_bit() - 2 } else { self.infinity_bits() - 1 }
    }

    const fn infinity_bits(self) -> u32 {
        ((1 << self.exponent) - 1) << self.mantissa
    }

    const fn nan_bits(self) -> u32 {
        if self.finite { self.sign_bit() - 1 } else { self.infinity_bits() | 1 << (self.mantissa - 1) }
    }

    fn decode(self, bits: u32) -> f64 {
        let sign = if bits & self.sign_bit() != 0 { -1.0 } else { 1.0 };
        let magnitude = bits & (self.sign_bit() - 1);
        let exponent = (magnitude >> self.mantissa) as i32;
        let mantissa = f64::from(magnitude & ((1 << self.mantissa) - 1));
        if magnitude > self.max_bits() {
            return if !self.finite && magnitude == self.infinity_bits() { sign * f64::INFINITY } else { f64::NAN };
        }
        let one = f64::from(1u32 << self.mantissa);
        let scale = |power: i32| power_of_two(power - self.bias());
        sign * if exponent == 0 { mantissa / one * scale(1) } else { (1.0 + mantissa / one) * scale(exponent) }
    }

    fn encode(self, value: f64) -> u32 {
        let sign = if value.is_sign_negative() { self.sign_bit() } else { 0 };
        let magnitude = value.abs();
        if magnitude.is_nan() {
            return sign | self.nan_bits();
        }
        let overflow = sign | if self.finite { self.nan_bits() } else { self.infinity_bits() };
        if magnitude == f64::INFINITY {
            return overflow;
        }
        // The exponent of a double's leading bit; doubles that are subnormal are far below half of our smallest value.
        let exponent = ((magnitude.to_bits() >> 52) as i32 - 1023).max(1 - self.bias());
        // In units of the last place at that exponent the value is small enough for exact arithmetic.
        let units = magnitude * power_of_two(self.mantissa as i32 - exponent);
        let rounded = units.round_ties_even() as u32;
        // A mantissa that rounds up to the next power of two carries into the exponent by itself.
        let biased = (exponent + self.bias() - 1) as u32;
        let bits = (biased << self.mantissa) + rounded;
        if bits > self.max_bits() { overflow } else { sign | bits }
    }
}

/// Returns a power of two; that of `powi` where a normal double does not hold it.
fn power_of_two(power: i32) -> f64 {
    match u64::try_from(power + 1023) {
        Ok(biased @ 1..=2046) => f64::from_bits(biased << 52),
        _ => 2f64.powi(power),
    }
}

fn small(kind: ComponentType) -> Option<SmallFloat> {
    match kind {
        ComponentType::F16 => Some(F16),
        ComponentType::Bf16 => Some(BF16),
        ComponentType::E4m3 => Some(E4M3),
        ComponentType::E5m2 => Some(E5M2),
        _ => None,
    }
}

/// Returns true if buffers can be made of the type.
pub fn is_element_type(kind: ComponentType) -> bool {
    use ComponentType::*;
    matches!(kind, F16 | Bf16 | E4m3 | E5m2 | F32 | F64 | S8 | S16 | S32 | S64 | U8 | U16 | U32 | U64)
}

/// Returns true if the type is a float type.
pub fn is_float(kind: ComponentType) -> bool {
    is_element_type(kind) && !kind.is_integer()
}

/// Returns the size of an element in bytes; 0 for types that buffers can't be made of.
pub fn size_of(kind: ComponentType) -> usize {
    if is_element_type(kind) { kind.bits().unwrap_or(0) as usize / 8 } else { 0 }
}

/// The smallest and largest value of an integer type.
pub fn integer_range(kind: ComponentType) -> (i128, i128) {
    let bits = size_of(kind) as u32 * 8;
    if kind.is_signed_integer() { (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) } else { (0, (1 << bits) - 1) }
}

/// The raw bits of an element of at most 8 bytes.
pub fn bits_of(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |bits, &byte| bits << 8 | u64::from(byte))
}

/// Reads one element, [`size_of`] bytes long.
pub fn decode(kind: ComponentType, bytes: &[u8]) -> Value {
    let bits = bits_of(bytes);
    if let Some(format) = small(kind) {
        return Value::Float(format.decode(bits as u32));
    }
    match kind {
        ComponentType::F32 => Value::Float(f64::from(f32::from_bits(bits as u32))),
        ComponentType::F64 => Value::Float(f64::from_bits(bits)),
        _ if kind.is_signed_integer() => {
            let unused = 64 - size_of(kind) as u32 * 8;
            Value::Int(i128::from((bits << unused) as i64 >> unused))
        }
        _ => Value::Int(i128::from(bits)),
    }
}

/// Appends one element: integers wrap, floats round to nearest even.
pub fn encode(kind: ComponentType, value: Value, out: &mut Vec<u8>) {
    let bits: u64 = match kind {
        ComponentType::F32 => u64::from((value.to_f64() as f32).to_bits()),
        ComponentType::F64 => value.to_f64().to_bits(),
        _ => match small(kind) {
            Some(format) => u64::from(format.encode(value.to_f64())),
            None => value.to_i128() as u64,
        },
    };
    out.extend_from_slice(&bits.to_le_bytes()[..size_of(kind)]);
}

/// Returns the value rounded to the type: encoded and decoded again.
pub fn rounded(kind: ComponentType, value: Value) -> Value {
    let mut bytes = Vec::with_capacity(8);
    encode(kind, value, &mut bytes);
    decode(kind, &bytes)
}

/// Decodes all elements of a buffer. Bytes at the end that do not fill an element are left out.
pub fn decode_all(kind: ComponentType, bytes: &[u8]) -> Vec<Value> {
    match size_of(kind) {
        0 => Vec::new(),
        size => bytes.chunks_exact(size).map(|element| decode(kind, element)).collect(),
    }
}

/// Returns the number of consecutive integers, from 0, that the type holds exactly.
pub fn exact_integers(kind: ComponentType) -> u64 {
    match kind {
        ComponentType::F64 => 1 << 53,
        ComponentType::F32 => 1 << 24,
        ComponentType::S64 | ComponentType::U64 => 1 << 62,
        _ => match small(kind) {
            Some(format) => 1 << (format.mantissa + 1),
            None => integer_range(kind).1 as u64 + 1,
        },
    }
}

/// The bits of special values of a float type: quiet NaN, infinity (or the largest value), largest, smallest
/// normal, smallest subnormal. The sign bit is clear.
pub fn special_bits(kind: ComponentType) -> Option<[u64; 5]> {
    Some(match kind {
        ComponentType::F32 => [0x7fc0_0000, 0x7f80_0000, 0x7f7f_ffff, 0x0080_0000, 1],
        ComponentType::F64 => [0x7ff8 << 48, 0x7ff0 << 48, (0x7ff0 << 48) - 1, 0x0010 << 48, 1],
        _ => {
            let format = small(kind)?;
            let infinity = if format.finite { format.max_bits() } else { format.infinity_bits() };
            [format.nan_bits(), infinity, format.max_bits(), 1 << format.mantissa, 1].map(u64::from)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_floats_round_trip_bit_by_bit() {
        for kind in [ComponentType::F16, ComponentType::Bf16, ComponentType::E4m3, ComponentType::E5m2] {
            for bits in 0..1u64 << kind.bits().unwrap() {
                let bytes = bits.to_le_bytes();
                let value = decode(kind, &bytes[..size_of(kind)]);
                let mut again = Vec::new();
                encode(kind, value, &mut again);
                let nan = matches!(value, Value::Float(value) if value.is_nan());
                assert!(nan || bits_of(&again) == bits, "{kind} {bits:#x} is {value} is {again:x?}");
            }
        }
    }

    #[test]
    fn known_values() {
        let float = |kind, bits: u64| decode(kind, &bits.to_le_bytes()[..size_of(kind)]).to_f64();
        assert_eq!(float(ComponentType::F16, 0x3c00), 1.0);
        assert_eq!(float(ComponentType::F16, 0x7bff), 65504.0);
        assert_eq!(float(ComponentType::F16, 0x0001), 2f64.powi(-24));
        assert_eq!(float(ComponentType::F16, 0xfc00), f64::NEG_INFINITY);
        assert_eq!(float(ComponentType::Bf16, 0x4049), 3.140625);
        assert_eq!(float(ComponentType::E4m3, 0x7e), 448.0);
        assert!(float(ComponentType::E4m3, 0x7f).is_nan());
        assert_eq!(float(ComponentType::E5m2, 0x7b), 57344.0);
        assert_eq!(float(ComponentType::E5m2, 0x7c), f64::INFINITY);
        assert_eq!(decode(ComponentType::S8, &[0xff]), Value::Int(-1));
        assert_eq!(decode(ComponentType::U64, &[0xff; 8]), Value::Int(u64::MAX.into()));
    }

    #[test]
    fn rounding_is_to_nearest_even_in_one_step() {
        let f16 = |value| rounded(ComponentType::F16, Value::Float(value)).to_f64();
        assert_eq!(f16(2049.0), 2048.0);
        assert_eq!(f16(2051.0), 2052.0);
        assert_eq!(f16(65519.999), 65504.0);
        assert_eq!(f16(65520.0), f64::INFINITY);
        // Just above a tie; through f32 it would become the tie and round down.
        assert_eq!(f16(1.0 + 2f64.powi(-11) + 2f64.powi(-40)), 1.0 + 2f64.powi(-10));
        assert_eq!(f16(2f64.powi(-25)), 0.0);
        assert_eq!(f16(1.5 * 2f64.powi(-25)), 2f64.powi(-24));
        assert_eq!(f16(f64::MIN_POSITIVE / 4.0), 0.0);
        assert!(rounded(ComponentType::E4m3, Value::Float(1e9)).to_f64().is_nan());
        assert_eq!(rounded(ComponentType::S8, Value::Int(200)), Value::Int(-56));
    }
}
