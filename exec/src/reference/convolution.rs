//! Convolutions in up to three dimensions, channels first.

use coop_device::ComponentType;
use serde::Deserialize;

use super::{locate, outside, put};
use crate::case::Case;
use crate::error::Error;
use crate::number::{self, Value};

/// Sums over input channels and places of the kernel. Buffers have no gaps; the first of three sizes changes fastest, then come
/// the other two, the channel, and the number of the image. The kernel is `size` x in x out, transposed `size` x out x in.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Convolution {
    /// The buffer of the kernel.
    pub kernel: String,
    /// The buffer of the input.
    pub input: String,
    /// The buffer of results.
    pub output: String,
    /// Channels of the output, of the input.
    pub channels: [u64; 2],
    /// Images.
    pub count: u64,
    /// Sizes of an input.
    pub from: [u64; 3],
    /// Sizes of an output.
    pub to: [u64; 3],
    /// Sizes of the kernel.
    pub size: [u64; 3],
    /// The stride of outputs in the input; transposed, of inputs in the output.
    #[serde(default = "ones")]
    pub step: [u64; 3],
    /// The padding before the input; transposed, the number of elements cut off the output.
    #[serde(default)]
    pub pad: [u64; 3],
    /// The distance of the kernel's elements.
    #[serde(default = "ones")]
    pub dilation: [u64; 3],
    /// True for a transposed convolution.
    #[serde(default)]
    pub transposed: bool,
}

fn ones() -> [u64; 3] {
    [1; 3]
}

fn product(sizes: [u64; 3]) -> u64 {
    sizes.iter().product()
}

/// Returns every position in a box, the first size changing fastest.
fn places([w, h, d]: [u64; 3]) -> impl Iterator<Item = [u64; 3]> {
    (0..d).flat_map(move |z| (0..h).flat_map(move |y| (0..w).map(move |x| [x, y, z])))
}

fn index([w, h, _]: [u64; 3], [x, y, z]: [u64; 3]) -> u64 {
    (z * h + y) * w + x
}

impl Convolution {
    pub(super) fn check(&self, case: &Case) -> Result<(), Error> {
        const MOST: u64 = 1 << 12;
        let [out, into] = self.channels;
        let sizes = [self.from, self.to, self.size, self.step, self.dilation].concat();
        let mut sizes = sizes.iter().chain([&out, &into, &self.count]);
        if let Some(size) = sizes.find(|&&size| size == 0 || size > MOST) {
            return Err(Error::case(format!("expect: {size} is a size of the convolution, and they are 1 to {MOST}")));
        }
        for (name, count) in [
            (&self.kernel, product(self.size).saturating_mul(out * into)),
            (&self.input, product(self.from).saturating_mul(into * self.count)),
            (&self.output, product(self.to).saturating_mul(out * self.count)),
        ] {
            let (index, _) = locate(case, name)?;
            if case.buffer[index].count < count {
                return Err(outside(name, count - 1));
            }
        }
        Ok(())
    }

    /// Returns the position in the input that a position of the kernel reads for a position of the output.
    fn source(&self, at: [u64; 3], inside: [u64; 3]) -> Option<[u64; 3]> {
        let mut source = [0; 3];
        for axis in 0..3 {
            let reach = inside[axis] * self.dilation[axis];
            source[axis] = if self.transposed {
                let spread = (at[axis] + self.pad[axis]).checked_sub(reach)?;
                spread.is_multiple_of(self.step[axis]).then_some(spread / self.step[axis])?
            } else {
                (at[axis] * self.step[axis] + reach).checked_sub(self.pad[axis])?
            };
            if source[axis] >= self.from[axis] {
                return None;
            }
        }
        Some(source)
    }

    /// Writes the result into the bytes of the output's buffer.
    pub(super) fn apply(&self, case: &Case, bytes: &mut [u8]) -> Result<(), Error> {
        let (_, kind) = locate(case, &self.output)?;
        let [kernel, input] = self.factors(case, &|index| case.contents(index, &|_| 0))?;
        let [planes, positions] = self.extents();
        for element in 0..planes * positions {
            put(&self.output, kind, Value::Float(self.sum(&kernel, &input, element)), element, bytes)?;
        }
        Ok(())
    }

    /// The numbers of planes of the output, one for each channel of each image, and of elements of a plane.
    pub(crate) fn extents(&self) -> [u64; 2] {
        [self.count * self.channels[0], product(self.to)]
    }

    /// Returns elements of some planes of the output, each with its position in the buffer.
    pub(crate) fn sample(
        &self,
        case: &Case,
        contents: &[Vec<u8>],
        planes: &[u64],
        positions: &[u64],
    ) -> Result<Vec<(u64, Value)>, Error> {
        let [kernel, input] = self.factors(case, &|index| Ok(contents[index].clone()))?;
        let [_, length] = self.extents();
        let elements = planes.iter().flat_map(|plane| positions.iter().map(move |position| plane * length + position));
        Ok(elements.map(|element| (element, Value::Float(self.sum(&kernel, &input, element)))).collect())
    }

    /// The elements of the kernel and of the input.
    fn factors(&self, case: &Case, bytes: &dyn Fn(usize) -> Result<Vec<u8>, Error>) -> Result<[Vec<f64>; 2], Error> {
        let read = |name| -> Result<Vec<f64>, Error> {
            let (index, kind): (usize, ComponentType) = locate(case, name)?;
            Ok(number::decode_all(kind, &bytes(index)?).into_iter().map(Value::to_f64).collect())
        };
        Ok([read(&self.kernel)?, read(&self.input)?])
    }

    /// Returns one element of the output.
    fn sum(&self, kernel: &[f64], input: &[f64], element: u64) -> f64 {
        let [out, into] = self.channels;
        let (plane, position) = (element / product(self.to), element % product(self.to));
        let (image, channel) = (plane / out, plane % out);
        let [w, h, _] = self.to;
        let at = [position % w, position / w % h, position / (w * h)];
        let mut sum = 0.0;
        for inside in places(self.size) {
            let Some(source) = self.source(at, inside) else { continue };
            for from in 0..into {
                let pair = if self.transposed { from * out + channel } else { channel * into + from };
                let weight = kernel[(pair * product(self.size) + index(self.size, inside)) as usize];
                let place = (image * into + from) * product(self.from) + index(self.from, source);
                sum += weight * input[place as usize];
            }
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn result(kernel: &str, input: &str, outputs: u64, convolution: &str) -> Vec<f64> {
        let text = format!(
            r#"
            workgroups = [1, 1, 1]
            buffer = [
                {{ name = "K", type = "f32", count = 16, fill = {{ values = {kernel} }} }},
                {{ name = "I", type = "f32", count = 16, fill = {{ values = {input} }} }},
                {{ name = "O", type = "f32", count = {outputs} }},
            ]
            [[expect]]
            convolution = {{ kernel = "K", input = "I", output = "O", count = 1, {convolution} }}
        "#
        );
        let case = Case::parse(&text, Path::new("")).unwrap();
        let (_, bytes) = case.expected().unwrap().remove(0);
        number::decode_all(ComponentType::F32, &bytes).into_iter().map(Value::to_f64).collect()
    }

    #[test]
    fn by_hand() {
        let sizes = "channels = [1, 1], from = [3, 1, 1], to = [2, 1, 1], size = [2, 1, 1]";
        assert_eq!(result("[1, 10]", "[1, 2, 3]", 2, sizes), [21.0, 32.0]);
        let sizes =
            "channels = [1, 1], from = [3, 1, 1], to = [2, 1, 1], size = [2, 1, 1], step = [2, 1, 1], pad = [1, 0, 0]";
        assert_eq!(result("[1, 10]", "[1, 2, 3]", 2, sizes), [10.0, 32.0]);
        let sizes = "channels = [1, 2], from = [1, 2, 1], to = [1, 1, 1], size = [1, 2, 1]";
        assert_eq!(result("[1, 2, 3, 4]", "[1, 10, 100, 1000]", 1, sizes), [4321.0]);
        let sizes = "channels = [1, 1], from = [2, 1, 1], to = [4, 1, 1], size = [2, 1, 1], step = [2, 1, 1], transposed = true";
        assert_eq!(result("[1, 10]", "[1, 2]", 4, sizes), [1.0, 10.0, 2.0, 20.0]);
        let sizes =
            "channels = [2, 1], from = [1, 1, 2], to = [1, 1, 1], size = [1, 1, 1], pad = [0, 0, 0], step = [1, 1, 2]";
        assert_eq!(result("[1, 10]", "[3, 4]", 2, sizes), [3.0, 30.0]);
    }
}
