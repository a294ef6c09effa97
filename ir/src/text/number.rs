//! Numeric literals: converts words to text and back, by the type of the literal.

use crate::grammar::Op;
use crate::module::Inst;
use std::fmt::Write as _;

/// A type of literals.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Number {
    /// Up to 64 bits.
    Int { width: u32, signed: bool },
    /// One of the encodings with numbers as text.
    Float(Float),
}

/// A binary floating-point format: a sign bit, then this many bits of exponent and mantissa.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Float {
    exponent: u32,
    mantissa: u32,
    /// The exponent with code 0, negated.
    bias: i32,
}

const F16: Float = Float { exponent: 5, mantissa: 10, bias: 15 };
const F32: Float = Float { exponent: 8, mantissa: 23, bias: 127 };
const F64: Float = Float { exponent: 11, mantissa: 52, bias: 1023 };
const BF16: Float = Float { exponent: 8, mantissa: 7, bias: 127 };
const E4M3: Float = Float { exponent: 4, mantissa: 3, bias: 7 };
const E5M2: Float = Float { exponent: 5, mantissa: 2, bias: 15 };

impl Number {
    /// Returns the type of literals for the type that `inst` declares; `None` if they are printed as words.
    pub(crate) fn of_type(inst: &Inst) -> Option<Number> {
        match inst.op {
            Op::TypeInt => {
                let width = inst.word(0)?;
                let signed = inst.word(1)? != 0;
                (1..=64).contains(&width).then_some(Number::Int { width, signed })
            }
            Op::TypeFloat => Number::of_float(inst.word(0)?, inst.word(1)),
            _ => None,
        }
    }

    /// Does the same for the operands of `OpTypeFloat`.
    pub(crate) fn of_float(width: u32, encoding: Option<u32>) -> Option<Number> {
        Some(Number::Float(match (width, encoding) {
            (16, None) => F16,
            (32, None) => F32,
            (64, None) => F64,
            (16, Some(0)) => BF16,
            (8, Some(4214)) => E4M3,
            (8, Some(4215)) => E5M2,
            _ => return None,
        }))
    }

    /// Returns the number of words of a literal.
    pub(crate) fn words(self) -> usize {
        let width = match self {
            Number::Int { width, .. } => width,
            Number::Float(f) => 1 + f.exponent + f.mantissa,
        };
        if width > 32 { 2 } else { 1 }
    }

    /// Appends the number that `words` hold. Returns `false`, and appends nothing, if the number would not parse to the
    /// same words.
    pub(crate) fn print(self, words: &[u32], out: &mut String) -> bool {
        let bits = match (self.words(), words) {
            (1, &[low]) => u64::from(low),
            (2, &[low, high]) => u64::from(low) | u64::from(high) << 32,
            _ => return false,
        };
        match self {
            Number::Int { width, signed } => {
                let container = if width > 32 { 64 } else { 32 };
                let value = extend(bits, width, signed);
                if value << (64 - container) != bits << (64 - container) {
                    return false;
                }
                if signed {
                    let _ = write!(out, "{}", value as i64);
                } else {
                    push_u64(out, value);
                }
                true
            }
            Number::Float(f) => {
                let width = 1 + f.exponent + f.mantissa;
                if width < 64 && bits >> width != 0 {
                    return false;
                }
                f.print(bits, out);
                true
            }
        }
    }

    /// Appends the words of a number in text; an error says why it is not a number.
    pub(crate) fn parse(self, text: &str, out: &mut Vec<u32>) -> Result<(), String> {
        let bits = match self {
            Number::Int { width, signed } => parse_int(text, width, signed)?,
            Number::Float(f) => f.parse(text)?,
        };
        out.push(bits as u32);
        if self.words() == 2 {
            out.push((bits >> 32) as u32);
        }
        Ok(())
    }
}

/// Extends the low `width` bits of a number to 64.
fn extend(bits: u64, width: u32, signed: bool) -> u64 {
    let shift = 64 - width;
    if signed { (((bits << shift) as i64) >> shift) as u64 } else { (bits << shift) >> shift }
}

/// Returns sign and magnitude of an integer in decimal, octal (`0…`) or hexadecimal (`0x…`).
pub(crate) fn integer(text: &str) -> Option<(bool, u64, bool)> {
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    if !digits.as_bytes().first()?.is_ascii_digit() {
        return None;
    }
    let hex = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X"));
    let magnitude = match (hex, digits.strip_prefix('0')) {
        // `from_str_radix` would accept a sign after the prefix.
        (Some(hex), _) if hex.starts_with(|c: char| c.is_ascii_hexdigit()) => u64::from_str_radix(hex, 16).ok()?,
        (Some(_), _) => return None,
        (None, Some(octal)) if octal.starts_with(|c: char| c.is_digit(8)) => u64::from_str_radix(octal, 8).ok()?,
        (None, _) => digits.parse().ok()?,
    };
    Some((negative, magnitude, hex.is_some()))
}

fn parse_int(text: &str, width: u32, signed: bool) -> Result<u64, String> {
    let Some((negative, magnitude, hex)) = integer(text) else {
        return Err(format!("`{}` is not an integer", shorten(text)));
    };
    if negative && !signed {
        return Err(format!("`{}` is negative and the type is unsigned", shorten(text)));
    }
    // Hexadecimal numbers are the bits of a signed number; decimal ones its value.
    let limit = if !signed || (hex && !negative) {
        u64::MAX >> (64 - width)
    } else {
        (1u64 << (width - 1)) - u64::from(!negative)
    };
    if magnitude > limit {
        let sign = if signed { "signed" } else { "unsigned" };
        return Err(format!("`{}` does not fit {width} bits, {sign}", shorten(text)));
    }
    let value = if negative { magnitude.wrapping_neg() } else { magnitude };
    Ok(extend(value, width, signed))
}

impl Float {
    fn print(self, bits: u64, out: &mut String) {
        let exponent = (bits >> self.mantissa) & ((1 << self.exponent) - 1);
        let fraction = bits & ((1 << self.mantissa) - 1);
        let special = exponent == (1 << self.exponent) - 1 || (exponent == 0 && fraction != 0);
        match self {
            F32 if !special => print_decimal(format_args!("{:e}", f32::from_bits(bits as u32)), 9, out),
            F64 if !special => print_decimal(format_args!("{:e}", f64::from_bits(bits)), 17, out),
            _ => self.print_hex(bits, out),
        }
    }

    /// Prints `0x1.8p+3`; infinities and NaNs as if their exponent were one more than the largest.
    fn print_hex(self, bits: u64, out: &mut String) {
        if bits >> (self.exponent + self.mantissa) & 1 == 1 {
            out.push('-');
        }
        let exponent = (bits >> self.mantissa) & ((1 << self.exponent) - 1);
        let mut fraction = bits & ((1 << self.mantissa) - 1);
        if exponent == 0 && fraction == 0 {
            out.push_str("0x0p+0");
            return;
        }
        let mut power = exponent as i32 - self.bias;
        if exponent == 0 {
            // Shift the first one-bit of a denormal in front of the point.
            power += 1;
            while fraction >> self.mantissa == 0 {
                fraction <<= 1;
                power -= 1;
            }
            fraction &= (1 << self.mantissa) - 1;
        }
        out.push_str("0x1");
        if fraction != 0 {
            out.push('.');
            let mut left = fraction << (64 - self.mantissa);
            while left != 0 {
                out.push(char::from_digit((left >> 60) as u32, 16).unwrap_or_else(|| unreachable!("four bits")));
                left <<= 4;
            }
        }
        let _ = write!(out, "p{power:+}");
    }

    fn parse(self, text: &str) -> Result<u64, String> {
        let bad = || format!("`{}` is not a floating-point number", shorten(text));
        let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
        if let Some(hex) = unsigned.strip_prefix("0x").or_else(|| unsigned.strip_prefix("0X")) {
            let magnitude = self.parse_hex(hex).ok_or_else(bad)?;
            return Ok(magnitude | u64::from(text.starts_with('-')) << (self.exponent + self.mantissa));
        }
        // Rust also parses names such as `inf`, which assembly does not have.
        if !text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E')) {
            return Err(bad());
        }
        let too_large = || format!("`{}` is too large for the type", shorten(text));
        match self {
            F32 => {
                let value: f32 = text.parse().map_err(|_| bad())?;
                if value.is_finite() { Ok(u64::from(value.to_bits())) } else { Err(too_large()) }
            }
            _ => {
                let value: f64 = text.parse().map_err(|_| bad())?;
                if !value.is_finite() {
                    return Err(too_large());
                }
                Ok(if self == F64 { value.to_bits() } else { self.truncate(value) })
            }
        }
    }

    /// Returns a finite number in a small format: rounded toward zero, as other tools do, and never to infinity.
    fn truncate(self, value: f64) -> u64 {
        let bits = value.to_bits();
        let sign = (bits >> 63) << (self.exponent + self.mantissa);
        let fraction = bits & ((1 << 52) - 1);
        let exponent = (bits >> 52 & 0x7ff) as i32;
        if exponent == 0 {
            return sign;
        }
        let largest = match self {
            E4M3 => 0x7e,
            _ => (((1 << self.exponent) - 2) << self.mantissa) | ((1 << self.mantissa) - 1),
        };
        let range = (1 << self.exponent) - 1 - self.bias;
        let magnitude = match exponent - 1023 {
            power if power > range => largest,
            power => self.assemble(fraction | 1 << 52, power - 52).min(largest),
        };
        sign | magnitude
    }

    /// Parses the hexadecimal digits and the exponent after `0x`.
    fn parse_hex(self, text: &str) -> Option<u64> {
        let (digits, power) = text.split_once(['p', 'P'])?;
        let power: i32 = power.parse().ok()?;
        let mut significand = 0u64;
        let mut scale = i64::from(power);
        let (mut any, mut point) = (false, false);
        for c in digits.chars() {
            if c == '.' && !point {
                point = true;
                continue;
            }
            let digit = u64::from(c.to_digit(16)?);
            any = true;
            // Digits that do not fit in 64 bits are cut off.
            if significand >> 60 == 0 {
                significand = significand << 4 | digit;
                scale -= 4 * i64::from(point);
            } else {
                scale += 4 * i64::from(!point);
            }
        }
        any.then(|| self.assemble(significand, scale.clamp(-1_000_000, 1_000_000) as i32))
    }

    /// Returns the bits of `significand * 2^power`, truncated. An exponent one more than the largest gives what
    /// [`Float::print_hex`] prints for infinities and NaNs; a larger one gives infinity.
    fn assemble(self, significand: u64, power: i32) -> u64 {
        if significand == 0 {
            return 0;
        }
        let top = 63 - significand.leading_zeros() as i32;
        let biased = top + power + self.bias;
        let mask = (1u64 << self.mantissa) - 1;
        if biased >= 1 << self.exponent {
            return ((1 << self.exponent) - 1) << self.mantissa;
        }
        // The mantissa's last bit is worth `shift` bits of the significand; denormals have fewer bits.
        let shift = top - self.mantissa as i32 + if biased < 1 { 1 - biased } else { 0 };
        let mantissa = match shift {
            64.. => 0,
            0..64 => significand >> shift,
            _ => significand << -shift,
        };
        if biased < 1 { mantissa } else { (biased as u64) << self.mantissa | mantissa & mask }
    }
}

/// Formats the shortest digits (in the form `1.25e-7`) like C's `%g` with that precision.
fn print_decimal(digits: std::fmt::Arguments<'_>, precision: i32, out: &mut String) {
    let text = digits.to_string();
    let (mantissa, power) = text.split_once('e').unwrap_or((&text, "0"));
    let power: i32 = power.parse().unwrap_or(0);
    let (sign, mantissa) = mantissa.strip_prefix('-').map_or(("", mantissa), |m| ("-", m));
    out.push_str(sign);
    if power < -4 || power >= precision {
        let _ = write!(out, "{mantissa}e{}{:02}", if power < 0 { '-' } else { '+' }, power.abs());
        return;
    }
    let digits = mantissa.bytes().filter(u8::is_ascii_digit).map(char::from);
    let count = digits.clone().count() as i32;
    if power < 0 {
        out.push_str("0.");
        out.extend((power + 1..0).map(|_| '0'));
        out.extend(digits);
        return;
    }
    for (i, digit) in digits.enumerate() {
        if i as i32 == power + 1 {
            out.push('.');
        }
        out.push(digit);
    }
    out.extend((count..=power).map(|_| '0'));
}

/// Appends a number in decimal.
pub(crate) fn push_u64(out: &mut String, mut value: u64) {
    let mut digits = [0u8; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            break;
        }
    }
    out.push_str(std::str::from_utf8(&digits[at..]).unwrap_or_else(|_| unreachable!("digits are ASCII")));
}

/// Returns a token for a message: shortened, on one line.
pub(crate) fn shorten(text: &str) -> String {
    let end = if text.len() <= 40 { "" } else { "..." };
    let shown = text.chars().take(if end.is_empty() { 40 } else { 36 });
    shown.flat_map(char::escape_debug).chain(end.chars()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(n: Number, words: &[u32]) -> String {
        let mut out = String::new();
        assert!(n.print(words, &mut out), "{words:x?} can be shown");
        let mut back = Vec::new();
        n.parse(&out, &mut back).unwrap_or_else(|e| panic!("{out}: {e}"));
        assert_eq!(back, words, "{out}");
        out
    }

    #[test]
    fn every_small_float_reads_back() {
        for format in [F16, BF16, E4M3, E5M2] {
            for bits in 0..1u32 << (1 + format.exponent + format.mantissa) {
                shown(Number::Float(format), &[bits]);
            }
        }
        assert_eq!(shown(Number::Float(F16), &[0x3c00]), "0x1p+0");
        assert_eq!(shown(Number::Float(F16), &[0x8000]), "-0x0p+0");
        assert_eq!(shown(Number::Float(F16), &[0x0001]), "0x1p-24");
        assert_eq!(shown(Number::Float(F16), &[0x7e00]), "0x1.8p+16");
        assert_eq!(shown(Number::Float(E4M3), &[0x7f]), "0x1.ep+8");
    }

    #[test]
    fn floats_are_shortest() {
        let f = |x: f32| shown(Number::Float(F32), &[x.to_bits()]);
        let numbers = [0.0, -0.0, 0.1, 1.5, 1e30, 123_456_789.0, 1e-5, 0.0001, 100_000.0, 1e9, f32::MAX];
        assert_eq!(numbers.map(f).join(" "), "0 -0 0.1 1.5 1e+30 123456790 1e-05 0.0001 100000 1e+09 3.4028235e+38");
        assert_eq!(f(f32::INFINITY), "0x1p+128");
        assert_eq!(f(f32::from_bits(0xff80_0001)), "-0x1.000002p+128");
        assert_eq!(f(f32::from_bits(1)), "0x1p-149");
        let d = |x: f64| shown(Number::Float(F64), &[x.to_bits() as u32, (x.to_bits() >> 32) as u32]);
        assert_eq!(d(0.1), "0.1");
        assert_eq!(d(f64::from_bits(1)), "0x1p-1074");
        assert_eq!(d(1e16), "10000000000000000");
    }

    #[test]
    fn integers_by_type() {
        let i = |width, signed, words: &[u32]| shown(Number::Int { width, signed }, words);
        assert_eq!(i(8, true, &[u32::MAX]), "-1");
        assert_eq!(i(32, true, &[0x8000_0000]), "-2147483648");
        assert_eq!(i(64, true, &[0, 0x8000_0000]), "-9223372036854775808");
        assert_eq!(i(64, false, &[u32::MAX, u32::MAX]), "18446744073709551615");
        assert_eq!(i(4, true, &[0xffff_fffd]), "-3");
        let mut out = String::new();
        assert!(!Number::Int { width: 8, signed: true }.print(&[0xff], &mut out), "not sign-extended");
        assert!(!Number::Int { width: 8, signed: false }.print(&[0x1ff], &mut out), "high bits");
        assert!(!Number::Float(F16).print(&[0x1_3c00], &mut out), "high bits");
        assert_eq!(out, "");
    }

    #[test]
    fn bad_numbers() {
        let mut out = Vec::new();
        for (n, text) in [
            (Number::Int { width: 8, signed: true }, "200"),
            (Number::Int { width: 8, signed: true }, "0x1ff"),
            (Number::Int { width: 32, signed: false }, "-1"),
            (Number::Int { width: 32, signed: false }, "4294967296"),
            (Number::Int { width: 32, signed: false }, "0x"),
            (Number::Int { width: 32, signed: false }, "0x+1"),
            (Number::Int { width: 32, signed: false }, "--1"),
            (Number::Float(F32), "inf"),
            (Number::Float(F32), "nan"),
            (Number::Float(F32), "1e50"),
            (Number::Float(F32), "0x10"),
            (Number::Float(F32), "0xp+1"),
            (Number::Float(F32), "0x1..p+1"),
            (Number::Float(F32), ""),
        ] {
            assert!(n.parse(text, &mut out).is_err(), "{text} as {n:?}");
        }
        assert!(out.is_empty());
    }
}
