//! Measuring modules on large inputs.
//!
//! The initial contents of the buffers are made once for all modules that are measured with a case. Only a sample of
//! the results is compared with the right answer: all of them would take the host minutes.

use std::time::Duration;

use crate::case::{Buffer, Case};
use crate::compare::{Difference, compare};
use crate::error::Error;
use crate::executor::{Outcome, RunOptions};
use crate::number;
use crate::random::Random;
use crate::reference::Expect;

/// The options of a measurement.
#[derive(Clone, PartialEq, Debug)]
pub struct MeasureOptions {
    /// The options of the run; `bench` dispatches are measured.
    pub run: RunOptions,
    /// The time that the device is kept busy before measuring.
    pub warm_up: Duration,
}

/// The result of a measurement.
#[derive(Clone, PartialEq, Debug)]
pub struct Measured {
    /// The requested buffers after the first dispatch.
    pub outputs: Vec<Vec<u8>>,
    /// The time of each measured dispatch.
    pub times: Vec<Duration>,
    /// The time that the driver took to make the pipeline.
    pub compiled: Duration,
}

impl Measured {
    /// The median of the times.
    pub fn median(&self) -> Option<Duration> {
        let mut times = self.times.clone();
        times.sort();
        times.get(times.len() / 2).copied()
    }
}

/// Something that measures modules.
pub trait Measure {
    /// Runs a module on the given contents of the buffers and measures it.
    fn measure(
        &self,
        words: &[u32],
        case: &Case,
        given: &[Vec<u8>],
        wanted: &[usize],
        options: &MeasureOptions,
    ) -> Result<Measured, Error>;
}

/// Elements of a buffer, and their expected values after the run.
#[derive(Clone, PartialEq, Debug)]
pub struct Sample {
    /// The buffer's index in the case.
    pub buffer: usize,
    elements: Vec<u64>,
    wanted: Vec<u8>,
}

/// A case with its contents, ready for many runs.
#[derive(Clone, Debug)]
pub struct Inputs {
    case: Case,
    contents: Vec<Vec<u8>>,
    samples: Vec<Sample>,
}

/// The numbers of rows and of columns in a sample.
const SAMPLES: usize = 48;

impl Inputs {
    /// Makes the contents of a case's buffers, and the right answer for a sample of the elements.
    pub fn new(case: Case) -> Result<Inputs, Error> {
        if case.needs_addresses() {
            return Err(Error::case("buffers with addresses can't be measured"));
        }
        let contents =
            (0..case.buffer.len()).map(|index| case.contents(index, &|_| 0)).collect::<Result<Vec<_>, _>>()?;
        let samples = case.expect.iter().map(|expect| sample(expect, &case, &contents)).collect::<Result<_, _>>()?;
        Ok(Inputs { case, contents, samples })
    }

    /// The case.
    pub fn case(&self) -> &Case {
        &self.case
    }

    /// Measures a module with these inputs. `case` is the same except for the specialization and the dispatch. Returns
    /// the differences from what the case expects as well.
    pub fn measure(
        &self,
        on: &dyn Measure,
        words: &[u32],
        case: &Case,
        options: &MeasureOptions,
    ) -> Result<(Measured, Vec<Difference>), Error> {
        let wanted: Vec<usize> = self.samples.iter().map(|sample| sample.buffer).collect();
        let measured = on.measure(words, case, &self.contents, &wanted, options)?;
        let mut differences = Vec::new();
        for (sample, bytes) in self.samples.iter().zip(&measured.outputs) {
            differences.extend(sample.compare(&self.case.buffer[sample.buffer], bytes)?);
        }
        Ok((measured, differences))
    }
}

impl Outcome {
    /// Returns the differences of a sample of the elements from what the case expects, enough to see that a kernel is
    /// right: all of them would take the host minutes. The sample is the first, the last and some 46 other rows, and as
    /// many columns.
    pub fn check_some(&self, case: &Case) -> Result<Vec<Difference>, Error> {
        let contents =
            (0..case.buffer.len()).map(|index| case.contents(index, &|_| 0)).collect::<Result<Vec<_>, _>>()?;
        let mut differences = Vec::new();
        for expect in &case.expect {
            let sample = sample(expect, case, &contents)?;
            let buffer = &case.buffer[sample.buffer];
            differences.extend(sample.compare(buffer, self.buffer(&buffer.name).unwrap_or_default())?);
        }
        Ok(differences)
    }
}

impl Sample {
    /// Compares the sample with the bytes of the whole buffer. Indices are those in the sample.
    fn compare(&self, buffer: &Buffer, bytes: &[u8]) -> Result<Option<Difference>, Error> {
        let size = number::size_of(buffer.element);
        let mut found = Vec::with_capacity(self.wanted.len());
        for &element in &self.elements {
            let start = element as usize * size;
            let place = bytes.get(start..start + size);
            found.extend_from_slice(place.ok_or_else(|| Error::case("a sample lies outside of its buffer"))?);
        }
        let of_sample = Buffer { count: self.elements.len() as u64, row_stride: None, ..buffer.clone() };
        compare(&of_sample, &found, &self.wanted)
    }
}

/// Returns numbers below `count`: the first, the last and others, in order.
fn some(count: u64, random: &mut Random) -> Vec<u64> {
    if count <= SAMPLES as u64 {
        return (0..count).collect();
    }
    let mut chosen = vec![0, count - 1];
    chosen.extend((2..SAMPLES).map(|_| random.integer(0, count as i64 - 1) as u64));
    chosen.sort_unstable();
    chosen.dedup();
    chosen
}

fn sample(expect: &Expect, case: &Case, contents: &[Vec<u8>]) -> Result<Sample, Error> {
    let mut random = Random::new(0x5a5a);
    let name = expect.buffer();
    let buffer = case.buffer.iter().position(|buffer| buffer.name == name);
    let buffer = buffer.ok_or_else(|| Error::case(format!("expect: no buffer is called '{name}'")))?;
    let kind = case.buffer[buffer].element;
    let values = match expect {
        Expect::Gemm(gemm) => {
            let (rows, columns) = (some(gemm.m, &mut random), some(gemm.n, &mut random));
            gemm.sample(case, contents, &rows, &columns)?
        }
        Expect::Attention(attention) => {
            let rows = some(attention.batches * attention.heads * attention.n, &mut random);
            attention.rows(case, &|index| Ok(contents[index].clone()), &rows)?
        }
        Expect::Convolution(convolution) => {
            let [planes, positions] = convolution.extents().map(|count| some(count, &mut random));
            convolution.sample(case, contents, &planes, &positions)?
        }
        Expect::Map(_) | Expect::Values(_) => {
            return Err(Error::case("expect: only gemm, attention and convolution can be sampled"));
        }
    };
    let mut sample = Sample { buffer, elements: Vec::new(), wanted: Vec::new() };
    for (element, value) in values {
        sample.elements.push(element);
        number::encode(kind, value, &mut sample.wanted);
    }
    Ok(sample)
}
