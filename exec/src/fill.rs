//! The contents of buffers before the run.
//!
//! Contents that come from a generator are chosen so that sums and products of matrices are exact in every type: small
//! integers and halves. The others show what exact values hide: rounding, NaN, infinities.

use std::path::Path;

use coop_device::ComponentType;
use serde::Deserialize;

use crate::case::{Buffer, Number, PushPart, lay_out};
use crate::error::Error;
use crate::file;
use crate::number::{self, Value};
use crate::quantised::Blocks;
use crate::random::Random;

/// The initial contents: a word, or a table with one key.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(untagged)]
pub enum Fill {
    /// `fill = "small-ints"`.
    Plain(Plain),
    /// `fill = { small-ints = [-2, 2] }`.
    With(With),
}

impl Default for Fill {
    fn default() -> Fill {
        Fill::Plain(Plain::Zeros)
    }
}

/// Contents without parameters.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Plain {
    /// All bits zero.
    Zeros,
    /// 0, 1, 2 ..., wrapped or rounded by the type.
    Ramp,
    /// The element's own index, modulo as many integers as the type holds exactly.
    Position,
    /// Integers from -4 to 4; from 0 to 8 in unsigned types.
    SmallInts,
    /// Halves from -4 to 4; in integer types the same as small integers.
    HalfIntegers,
    /// Floats from -1 up to 1; in integer types the whole range of values.
    Uniform,
    /// Random bits.
    Bits,
    /// A byte pattern that results hardly ever have, for buffers that are only written: bytes that still have it were
    /// not.
    Pattern,
    /// NaNs, infinities, zeros of both signs, subnormals and the largest values among uniform floats;
    /// in integer types the smallest and largest values among random ones.
    NanInf,
    /// Floats of all orders of magnitude whose products of three the type holds; integers of all lengths, 0, and those at which a
    /// sum overflows.
    Magnitudes,
}

/// Contents with parameters.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum With {
    /// The same number everywhere.
    Constant(Number),
    /// First value and step.
    Ramp(Number, Number),
    /// Integers between two bounds, both included.
    SmallInts(i64, i64),
    /// Halves between two bounds, both included.
    HalfIntegers(f64, f64),
    /// Floats between two bounds, the lower one included.
    Uniform(f64, f64),
    /// Rows of so many elements: 0 up to the row's number plus an offset, minus infinity behind.
    Causal(u64, u64),
    /// These numbers, then zeros.
    Values(Vec<Number>),
    /// The bytes of a file, then zeros.
    File(String),
    /// The device addresses of buffers, then zeros.
    Addresses(Vec<String>),
    /// Parts, as of push constants, then zeros: numbers of several types, and device addresses among them.
    Parts(Vec<PushPart>),
    /// Random blocks of quantized numbers, in a buffer of `u8`.
    Blocks(Blocks),
}

impl Fill {
    /// Returns true if the contents include device addresses.
    pub fn has_addresses(&self) -> bool {
        match self {
            Fill::With(With::Addresses(_)) => true,
            Fill::With(With::Parts(parts)) => parts.iter().any(|part| part.address.is_some()),
            _ => false,
        }
    }

    /// Returns whether each byte of a buffer is part of a device address, which differs from run to run.
    pub(crate) fn addresses(&self, buffer: &Buffer) -> Result<Vec<bool>, Error> {
        let with = |address: u64| self.bytes(buffer, 0, Path::new(""), &move |_| address);
        let (zeros, ones) = (with(0)?, with(u64::MAX)?);
        Ok(zeros.into_iter().zip(ones).map(|(a, b)| a != b).collect())
    }

    /// Refuses contents that the element type can't represent, and names of buffers that do not exist.
    pub(crate) fn check(&self, buffer: &Buffer, known: &dyn Fn(&str) -> bool) -> Result<(), Error> {
        let (name, element) = (&buffer.name, buffer.element);
        let fail = |message: String| Err(Error::case(format!("buffer {name}: {message}")));
        match self {
            Fill::With(With::Addresses(names)) => {
                if element != ComponentType::U64 {
                    return fail(format!("addresses need elements of u64, not {element}"));
                }
                match names.iter().find(|wanted| !known(wanted)) {
                    Some(unknown) => fail(format!("no buffer is called '{unknown}'")),
                    None => Ok(()),
                }
            }
            Fill::With(With::Parts(parts)) if parts.iter().any(|part| part.local.is_some()) => {
                fail("local is for arguments of kernels; a part of a buffer has values, address or bytes".into())
            }
            Fill::With(With::Parts(parts)) => {
                lay_out(parts, &format!("buffer {name}"), buffer.size(), known, &|_| 0).map(|_| ())
            }
            Fill::With(With::Blocks(_)) if element != ComponentType::U8 => {
                fail(format!("blocks need elements of u8, not {element}"))
            }
            Fill::With(With::SmallInts(low, high)) if low > high => fail(format!("small-ints: {low} is above {high}")),
            Fill::With(With::HalfIntegers(low, high)) if !half_bounds(*low, *high) => fail(format!(
                "half-integers: {low} to {high} is not a range of halves: both are multiples of 0.5, the first is not above the second"
            )),
            Fill::With(With::Uniform(low, high)) if !(low <= high && (high - low).is_finite()) => {
                fail(format!("uniform: {low} to {high} is not a range"))
            }
            Fill::With(With::Causal(0, _)) => fail("causal: 0 is not the number of elements in a row".into()),
            Fill::With(With::Constant(number)) => number.value().map(|_| ()),
            Fill::With(With::Values(numbers)) => numbers.iter().try_for_each(|number| number.value().map(|_| ())),
            Fill::With(With::Ramp(first, step)) => first.value().and(step.value()).map(|_| ()),
            _ => Ok(()),
        }
    }

    /// The bytes of the buffer.
    pub(crate) fn bytes(
        &self,
        buffer: &Buffer,
        seed: u64,
        folder: &Path,
        address: &dyn Fn(&str) -> u64,
    ) -> Result<Vec<u8>, Error> {
        let random = Random::new(seed);
        let mut maker =
            Maker { kind: buffer.element, count: buffer.count, random, out: Vec::with_capacity(buffer.size()) };
        match self {
            Fill::Plain(plain) => maker.plain(*plain),
            Fill::With(With::Constant(number)) => maker.constant(number.value()?),
            Fill::With(With::Ramp(first, step)) => maker.ramp(first.value()?, step.value()?),
            Fill::With(With::SmallInts(low, high)) => maker.integers(*low, *high),
            Fill::With(With::HalfIntegers(low, high)) => maker.halves((low * 2.0) as i64, (high * 2.0) as i64),
            Fill::With(With::Uniform(low, high)) => maker.uniform(*low, *high),
            Fill::With(With::Causal(columns, offset)) => maker.each(|index, _| {
                let (row, column) = (index / columns, index % columns);
                Value::Float(if column <= row.saturating_add(*offset) { 0.0 } else { f64::NEG_INFINITY })
            }),
            Fill::With(With::Values(numbers)) => {
                for number in numbers.iter().take(buffer.count as usize) {
                    number::encode(buffer.element, number.value()?, &mut maker.out);
                }
            }
            Fill::With(With::File(name)) => {
                let path = folder.join(name);
                maker.out = file::read_start(&path, buffer.size() as u64)
                    .map_err(|error| Error::case(format!("{}: {error}", path.display())))?;
            }
            Fill::With(With::Parts(parts)) => {
                let what = format!("buffer {}", buffer.name);
                maker.out = lay_out(parts, &what, buffer.size(), &|_| true, address)?;
            }
            Fill::With(With::Blocks(blocks)) => {
                while (maker.out.len() as u64) < buffer.count {
                    blocks.append_random(&mut maker.random, &mut maker.out);
                }
            }
            Fill::With(With::Addresses(names)) => {
                let addresses = names.iter().take(buffer.count as usize).flat_map(|name| address(name).to_le_bytes());
                maker.out.extend(addresses);
            }
        }
        maker.out.resize(buffer.size(), 0);
        Ok(maker.out)
    }
}

fn half_bounds(low: f64, high: f64) -> bool {
    let half = |value: f64| (value * 2.0).fract() == 0.0 && value.abs() < 1e15;
    half(low) && half(high) && low <= high
}

struct Maker {
    kind: ComponentType,
    count: u64,
    random: Random,
    out: Vec<u8>,
}

impl Maker {
    fn each(&mut self, mut value: impl FnMut(u64, &mut Random) -> Value) {
        for index in 0..self.count {
            let value = value(index, &mut self.random);
            number::encode(self.kind, value, &mut self.out);
        }
    }

    fn constant(&mut self, value: Value) {
        number::encode(self.kind, value, &mut self.out);
        let one = std::mem::take(&mut self.out);
        self.out = one.repeat(self.count as usize);
    }

    fn plain(&mut self, plain: Plain) {
        let signed = !self.kind.is_unsigned_integer();
        match plain {
            Plain::Zeros => {}
            Plain::Ramp => self.ramp(Value::Int(0), Value::Int(1)),
            Plain::Position => {
                let modulus = number::exact_integers(self.kind);
                self.each(|index, _| Value::Int((index % modulus).into()));
            }
            Plain::SmallInts if signed => self.integers(-4, 4),
            Plain::HalfIntegers if number::is_float(self.kind) => self.halves(-8, 8),
            Plain::HalfIntegers if signed => self.integers(-4, 4),
            Plain::SmallInts | Plain::HalfIntegers => self.integers(0, 8),
            Plain::Uniform if number::is_float(self.kind) => self.uniform(-1.0, 1.0),
            Plain::Uniform | Plain::Bits => self.bits(),
            Plain::Pattern => {
                let size = self.count as usize * number::size_of(self.kind);
                self.out.extend([0xa5, 0xc3, 0x5a, 0x69].into_iter().cycle().take(size));
            }
            Plain::NanInf => self.specials(),
            Plain::Magnitudes if number::is_float(self.kind) => self.magnitudes(),
            Plain::Magnitudes => self.lengths(),
        }
    }

    fn lengths(&mut self) {
        let width = number::size_of(self.kind) as u32 * 8;
        let sign = 1u64 << (width - 1);
        for _ in 0..self.count {
            let (choice, bits) = (self.random.bits(), self.random.bits());
            self.raw(match choice & 7 {
                0 => sign,
                1 => sign - 1,
                2 => u64::MAX,
                3 => 0,
                _ => {
                    let by = 64 - width + (choice >> 3) as u32 % width;
                    (bits.cast_signed() >> by).cast_unsigned()
                }
            });
        }
    }

    fn magnitudes(&mut self) {
        let largest = number::special_bits(self.kind).map_or(1.0, |special| {
            let bytes = &special[2].to_le_bytes()[..number::size_of(self.kind)];
            number::decode_all(self.kind, bytes)[0].to_f64()
        });
        let most = largest.log2() / 3.0;
        self.each(|_, random| {
            let sign = if random.bits() & 1 == 1 { -1.0 } else { 1.0 };
            Value::Float(sign * (most * (2.0 * random.unit() - 1.0)).exp2())
        });
    }

    fn ramp(&mut self, first: Value, step: Value) {
        self.each(|index, _| match (first, step) {
            // Indices are below 2^32 and steps below 2^64: no overflow.
            (Value::Int(first), Value::Int(step)) => Value::Int(first + step * i128::from(index)),
            _ => Value::Float(first.to_f64() + step.to_f64() * index as f64),
        });
    }

    fn integers(&mut self, low: i64, high: i64) {
        self.each(|_, random| Value::Int(random.integer(low, high).into()));
    }

    fn halves(&mut self, low: i64, high: i64) {
        self.each(|_, random| Value::Float(random.integer(low, high) as f64 / 2.0));
    }

    fn uniform(&mut self, low: f64, high: f64) {
        self.each(|_, random| Value::Float(low + (high - low) * random.unit()));
    }

    fn bits(&mut self) {
        for _ in 0..self.count {
            let bits = self.random.bits();
            self.raw(bits);
        }
    }

    fn raw(&mut self, bits: u64) {
        self.out.extend_from_slice(&bits.to_le_bytes()[..number::size_of(self.kind)]);
    }

    fn specials(&mut self) {
        let sign = 1u64 << (number::size_of(self.kind) * 8 - 1);
        let special = number::special_bits(self.kind);
        for _ in 0..self.count {
            // Half of the elements are special; of those, half are negative.
            let choice = self.random.bits();
            let signed = if choice & 0x10 != 0 { sign } else { 0 };
            match (special, choice & 0xf) {
                (Some(special), pick @ 0..=4) => self.raw(special[pick as usize] | signed),
                (Some(_), 5..=7) => self.raw(signed),
                (None, 0..=3) => self.raw(sign),
                (None, 4..=7) => self.raw(sign - 1),
                (None, _) => self.raw(choice >> 8),
                (Some(_), _) => {
                    let value = self.random.unit() * 2.0 - 1.0;
                    number::encode(self.kind, Value::Float(value), &mut self.out);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::Case;

    fn filled(kind: &str, count: u64, fill: &str) -> Result<Vec<Value>, Error> {
        let text = format!(
            "workgroups = [1, 1, 1]\n[[buffer]]\nname = \"A\"\ntype = \"{kind}\"\ncount = {count}\nfill = {fill}"
        );
        let case = Case::parse(&text, Path::new(""))?;
        let bytes = case.contents(0, &|_| 0)?;
        assert_eq!(bytes.len(), case.buffer[0].size());
        Ok(number::decode_all(case.buffer[0].element, &bytes))
    }

    fn floats(kind: &str, count: u64, fill: &str) -> Vec<f64> {
        filled(kind, count, fill).unwrap().into_iter().map(Value::to_f64).collect()
    }

    #[test]
    fn each_kind_is_what_it_says() {
        assert_eq!(floats("f16", 3, "'zeros'"), [0.0; 3]);
        assert_eq!(floats("s8", 130, "'ramp'")[127..], [127.0, -128.0, -127.0]);
        assert_eq!(floats("e4m3", 18, "'position'")[15..], [15.0, 0.0, 1.0]);
        assert_eq!(floats("f32", 3, "{ ramp = [1.0, 0.5] }"), [1.0, 1.5, 2.0]);
        assert_eq!(floats("u64", 2, "{ constant = '0xffffffffffffffff' }"), [2f64.powi(64); 2]);
        assert_eq!(floats("f16", 3, "{ values = [1, 2.5] }"), [1.0, 2.5, 0.0]);
        assert_eq!(floats("u8", 5, "'pattern'"), [165.0, 195.0, 90.0, 105.0, 165.0]);
        assert!(floats("u8", 999, "'small-ints'").iter().all(|value| (0.0..=8.0).contains(value)));
        assert!(
            floats("e5m2", 999, "'half-integers'")
                .iter()
                .all(|value| (value * 2.0).fract() == 0.0 && value.abs() <= 4.0)
        );
        assert!(floats("f32", 999, "{ uniform = [2.0, 3.0] }").iter().all(|value| (2.0..3.0).contains(value)));
        assert!(floats("f64", 99, "{ half-integers = [0.5, 1.0] }").iter().all(|value| [0.5, 1.0].contains(value)));
    }

    #[test]
    fn special_values_are_all_there() {
        for kind in ["f16", "bf16", "f32", "f64", "e5m2"] {
            let values = floats(kind, 2000, "'nan-inf'");
            assert!(values.iter().any(|value| value.is_nan()), "{kind}");
            assert!(values.contains(&f64::INFINITY) && values.contains(&f64::NEG_INFINITY), "{kind}");
            assert!(values.iter().any(|value| *value == 0.0 && value.is_sign_negative()), "{kind}");
            assert!(values.iter().any(|value| value.is_finite() && value.abs() < 1.0), "{kind}");
        }
        let large = floats("bf16", 500, "'magnitudes'");
        let most = 2f64.powi(42).next_up() * 2.0;
        assert!(large.iter().all(|value| (1.0 / most..=most).contains(&value.abs())), "{large:?}");
        assert!(large.iter().any(|value| *value < -1e9) && large.iter().any(|value| value.abs() < 1e-9));
        let integers = floats("s16", 500, "'magnitudes'");
        assert!([-32768.0, 32767.0, -1.0, 0.0].iter().all(|value| integers.contains(value)));
        assert!((1..15).all(|bits| integers.iter().any(|value| (value.abs() / 2f64.powi(bits)) as u32 == 1)));
        let bytes = floats("s16", 500, "'nan-inf'");
        assert!(bytes.contains(&-32768.0) && bytes.contains(&32767.0));
    }

    #[test]
    fn parts_lie_where_they_say() {
        let text = "workgroups = [1, 1, 1]\n[[buffer]]\nname = \"A\"\ntype = \"u8\"\ncount = 24\n\
                    fill = { parts = [{ values = [7] }, { address = \"A\" }, { offset = 20, type = \"f16\", values = [1.0] }] }";
        let case = Case::parse(text, Path::new("")).unwrap();
        assert!(case.needs_addresses() && case.buffer[0].fill.has_addresses());
        let bytes = case.contents(0, &|_| 0x0102).unwrap();
        assert_eq!(bytes[..10], [7, 0, 0, 0, 0, 0, 0, 0, 2, 1]);
        assert_eq!(bytes[20..], [0, 0x3c, 0, 0]);
        let addresses = case.buffer[0].fill.addresses(&case.buffer[0]).unwrap();
        assert_eq!((0..24).filter(|at| addresses[*at]).collect::<Vec<_>>(), (8..16).collect::<Vec<_>>());
        for (from, to, why) in [
            ("count = 24", "count = 20", "buffer A: 22 bytes are more than there is room for, 20"),
            ("values = [7]", "local = 4", "local is for arguments of kernels"),
            ("address = \"A\"", "address = \"B\"", "buffer A: no buffer is called 'B'"),
        ] {
            let error = Case::parse(&text.replace(from, to), Path::new("")).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn faults_are_named() {
        for (fill, why) in [
            ("{ small-ints = [4, 1] }", "4 is above 1"),
            ("{ half-integers = [0.25, 1.0] }", "is not a range of halves"),
            ("{ uniform = [nan, 1.0] }", "is not a range"),
            ("{ constant = 'many' }", "'many' is not a number"),
            ("'sevens'", "fill"),
        ] {
            let error = filled("f16", 4, fill).unwrap_err().to_string();
            assert!(error.contains(why), "{fill}: {error}");
        }
        let error = filled("f16", 4, "{ file = 'not-there.bin' }").unwrap_err().to_string();
        assert!(error.contains("not-there.bin"), "{error}");
    }
}
