//! Computes the expected contents of a case's buffers.
//!
//! The answer depends on neither the driver nor the module. Floats are accumulated in `f64`, so the buffer's tolerance
//! is against the true value. Integers are exact, then wrap or saturate in the result's type.

mod attention;
mod convolution;
mod gemm;
mod map;

use coop_device::ComponentType;
use serde::Deserialize;

use crate::case::{Case, Number};
use crate::error::Error;
use crate::number::{self, Value};
pub use attention::Attention;
pub use convolution::Convolution;
pub use gemm::{ElementOp, Gemm, MajorOrder, MatrixView};
pub use map::Map;

/// A statement about the buffers after the run.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Expect {
    /// A matrix multiplication.
    Gemm(Box<Gemm>),
    /// Attention.
    Attention(Box<Attention>),
    /// A convolution.
    Convolution(Box<Convolution>),
    /// The same expression for each element.
    Map(Map),
    /// Given elements at the start of a buffer; the rest is unchanged.
    Values(Values),
}

/// Given elements.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Values {
    /// The buffer.
    pub buffer: String,
    /// Its first elements.
    pub values: Vec<Number>,
}

impl Expect {
    /// Refuses statements about buffers that do not exist, or about elements outside of them.
    pub(crate) fn check(&self, case: &Case) -> Result<(), Error> {
        match self {
            Expect::Gemm(gemm) => gemm.check(case),
            Expect::Attention(attention) => attention.check(case),
            Expect::Convolution(convolution) => convolution.check(case),
            Expect::Map(map) => map.check(case),
            Expect::Values(values) => {
                values.values.iter().try_for_each(|number| number.value().map(|_| ()))?;
                locate(case, &values.buffer).map(|_| ())
            }
        }
    }

    /// Returns the buffer that the statement is about.
    pub fn buffer(&self) -> &str {
        match self {
            Expect::Gemm(gemm) => &gemm.d.buffer,
            Expect::Attention(attention) => &attention.o,
            Expect::Convolution(convolution) => &convolution.output,
            Expect::Map(map) => &map.buffer,
            Expect::Values(values) => &values.buffer,
        }
    }

    /// Writes the expected values into the bytes of the buffer.
    fn apply(&self, case: &Case, bytes: &mut [u8]) -> Result<(), Error> {
        match self {
            Expect::Gemm(gemm) => gemm.apply(case, bytes),
            Expect::Attention(attention) => attention.apply(case, bytes),
            Expect::Convolution(convolution) => convolution.apply(case, bytes),
            Expect::Map(map) => map.apply(case, bytes),
            Expect::Values(values) => {
                let (_, kind) = locate(case, &values.buffer)?;
                for (element, number) in values.values.iter().enumerate() {
                    put(&values.buffer, kind, number.value()?, element as u64, bytes)?;
                }
                Ok(())
            }
        }
    }
}

impl Case {
    /// Returns the expected contents of the buffers that the case makes statements about: index and bytes.
    pub fn expected(&self) -> Result<Vec<(usize, Vec<u8>)>, Error> {
        let mut expected: Vec<(usize, Vec<u8>)> = Vec::new();
        for expect in &self.expect {
            let (index, _) = locate(self, expect.buffer())?;
            let place = match expected.iter().position(|(known, _)| *known == index) {
                Some(place) => place,
                None => {
                    expected.push((index, self.contents(index, &|_| 0)?));
                    expected.len() - 1
                }
            };
            expect.apply(self, &mut expected[place].1)?;
        }
        Ok(expected)
    }
}

fn outside(buffer: &str, element: u64) -> Error {
    Error::case(format!("expect: element {element} lies outside of buffer {buffer}"))
}

/// Index and element type of a buffer.
fn locate(case: &Case, name: &str) -> Result<(usize, ComponentType), Error> {
    let index = case.buffer.iter().position(|buffer| buffer.name == name);
    let index = index.ok_or_else(|| Error::case(format!("expect: no buffer is called '{name}'")))?;
    Ok((index, case.buffer[index].element))
}

/// Returns the elements of a buffer before the run.
fn elements(case: &Case, name: &str) -> Result<(Vec<Value>, ComponentType), Error> {
    let (index, kind) = locate(case, name)?;
    Ok((number::decode_all(kind, &case.contents(index, &|_| 0)?), kind))
}

/// Writes one element.
fn put(buffer: &str, kind: ComponentType, value: Value, element: u64, bytes: &mut [u8]) -> Result<(), Error> {
    let size = number::size_of(kind);
    let start = usize::try_from(element).ok().and_then(|element| element.checked_mul(size));
    let range = start.and_then(|start| Some(start..start.checked_add(size)?));
    let place = range.and_then(|range| bytes.get_mut(range)).ok_or_else(|| outside(buffer, element))?;
    let mut encoded = Vec::with_capacity(size);
    number::encode(kind, value, &mut encoded);
    place.copy_from_slice(&encoded);
    Ok(())
}
