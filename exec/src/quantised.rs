//! Blocks of quantized numbers, as ggml lays them out: neighbors share a scale.

mod decode;

use serde::Deserialize;

use coop_device::ComponentType;

use crate::number::{self, Value};
use crate::random::Random;

/// A block format. Those that look their elements up in large tables are for fills only.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Blocks {
    /// Signs.
    Q1_0,
    /// 2 bits, from -1.
    Q2_0,
    /// 2 bits, from -1, interleaved.
    Tq2_0,
    /// An f16 scale, then 16 bytes: low halves are elements 0 to 15, high halves 16 to 31; an element is scale * (q - 8).
    Q4_0,
    /// 4 bits with scale and minimum.
    Q4_1,
    /// 5 bits, from -16.
    Q5_0,
    /// 5 bits with scale and minimum.
    Q5_1,
    /// An f16 scale, then 32 signed bytes; an element is scale * q.
    Q8_0,
    /// 2 bits; 16 parts with a scale and a minimum of 4 bits each.
    Q2K,
    /// 3 bits, from -4; 16 parts with a scale of 6 bits each.
    Q3K,
    /// 4 bits; 8 parts with a scale and a minimum of 6 bits each.
    Q4K,
    /// 5 bits; 8 parts with a scale and a minimum of 6 bits each.
    Q5K,
    /// 6 bits, from -32; 16 parts with a scale of 8 bits each.
    Q6K,
    /// 4 bits, through a table of 16.
    Iq4Nl,
    /// 4 bits, through a table of 16; 8 parts with a scale of 6 bits each.
    Iq4Xs,
    /// Floats of 4 bits with an exponent.
    Mxfp4,
    /// Floats of 4 bits; 4 parts with a float of 8 bits as scale each.
    Nvfp4,
    /// For fills only.
    Iq1S,
    /// For fills only.
    Iq1M,
    /// For fills only.
    Iq2Xxs,
    /// For fills only.
    Iq2Xs,
    /// For fills only.
    Iq2S,
    /// For fills only.
    Iq3Xxs,
    /// For fills only.
    Iq3S,
}

/// The bytes of a block that must not be random.
enum Scales {
    /// f16 at these bytes.
    Half(&'static [usize]),
    /// The exponent in the first byte.
    Exponent,
    /// Small floats in the first bytes.
    Quarter(usize),
    /// An f16 in the upper four bits of the last four 16-bit words.
    Spread,
}

impl Blocks {
    /// Elements and bytes of a block.
    fn sizes(self) -> (u64, u64) {
        match self {
            Blocks::Q1_0 => (128, 18),
            Blocks::Q2_0 => (64, 18),
            Blocks::Tq2_0 => (256, 66),
            Blocks::Q4_0 | Blocks::Iq4Nl => (32, 18),
            Blocks::Q4_1 => (32, 20),
            Blocks::Q5_0 => (32, 22),
            Blocks::Q5_1 => (32, 24),
            Blocks::Q8_0 => (32, 34),
            Blocks::Q2K => (256, 84),
            Blocks::Q3K => (256, 110),
            Blocks::Q4K => (256, 144),
            Blocks::Q5K => (256, 176),
            Blocks::Q6K => (256, 210),
            Blocks::Iq4Xs => (256, 136),
            Blocks::Mxfp4 => (32, 17),
            Blocks::Nvfp4 => (64, 36),
            Blocks::Iq1S => (256, 50),
            Blocks::Iq1M => (256, 56),
            Blocks::Iq2Xxs => (256, 66),
            Blocks::Iq2Xs => (256, 74),
            Blocks::Iq2S => (256, 82),
            Blocks::Iq3Xxs => (256, 98),
            Blocks::Iq3S => (256, 110),
        }
    }

    /// Elements of a block.
    pub fn elements(self) -> u64 {
        self.sizes().0
    }

    /// Bytes of a block.
    pub fn bytes(self) -> u64 {
        self.sizes().1
    }

    /// Returns true if [`Blocks::decode`] knows the format.
    pub fn is_decoded(self) -> bool {
        use Blocks::*;
        !matches!(self, Iq1S | Iq1M | Iq2Xxs | Iq2Xs | Iq2S | Iq3Xxs | Iq3S)
    }

    /// An element of a buffer of blocks; none outside of the buffer, or if the format is for fills only.
    pub fn decode(self, buffer: &[u8], element: u64) -> Option<f64> {
        let start = usize::try_from((element / self.elements()).checked_mul(self.bytes())?).ok()?;
        let block = buffer.get(start..start.checked_add(self.bytes() as usize)?)?;
        decode::element(self, block, (element % self.elements()) as usize)
    }

    fn scales(self) -> Scales {
        match self {
            Blocks::Q4_1 | Blocks::Q5_1 | Blocks::Q4K | Blocks::Q5K => Scales::Half(&[0, 2]),
            Blocks::Tq2_0 => Scales::Half(&[64]),
            Blocks::Q2K => Scales::Half(&[80, 82]),
            Blocks::Q3K => Scales::Half(&[108]),
            Blocks::Q6K => Scales::Half(&[208]),
            Blocks::Mxfp4 => Scales::Exponent,
            Blocks::Nvfp4 => Scales::Quarter(4),
            Blocks::Iq1M => Scales::Spread,
            _ => Scales::Half(&[0]),
        }
    }

    /// Appends a random block. Scales are powers of two, such that sums of products with small numbers stay small: with blocks of
    /// 32 elements, every element and every product with a half is exact.
    pub(crate) fn append_random(self, random: &mut Random, out: &mut Vec<u8>) {
        if matches!(self, Blocks::Q4_0 | Blocks::Q8_0) {
            number::encode(ComponentType::F16, Value::Float(scale(self, random)), out);
            for _ in 2..self.bytes() {
                out.push(match self {
                    Blocks::Q4_0 => random.bits() as u8,
                    _ => random.integer(-127, 127) as u8,
                });
            }
            return;
        }
        let start = out.len();
        out.extend((0..self.bytes()).map(|_| random.bits() as u8));
        let block = &mut out[start..];
        match self.scales() {
            Scales::Half(places) => {
                for &place in places {
                    block[place..place + 2].copy_from_slice(&half(self, random));
                }
            }
            Scales::Exponent => block[0] = random.integer(123, 127) as u8,
            Scales::Quarter(count) => {
                for byte in &mut block[..count] {
                    // Powers of two from 1/8 to 1, the sign bit clear.
                    *byte = (random.integer(4, 7) << 3) as u8;
                }
            }
            Scales::Spread => {
                let bits = u16::from_le_bytes(half(self, random));
                let words = block.len() - 8;
                for (index, word) in block[words..].chunks_exact_mut(2).enumerate() {
                    word[1] = word[1] & 0xf | ((bits >> (4 * index) & 0xf) << 4) as u8;
                }
            }
        }
    }
}

/// A power of two: from 1/4 to 1, or far less where further scales of several bits multiply it.
fn scale(blocks: Blocks, random: &mut Random) -> f64 {
    let least = if blocks.elements() == 256 && blocks != Blocks::Tq2_0 { 6 } else { 0 };
    2f64.powi(-(random.integer(least, least + 2) as i32))
}

fn half(blocks: Blocks, random: &mut Random) -> [u8; 2] {
    let mut bytes = Vec::with_capacity(2);
    number::encode(ComponentType::F16, Value::Float(scale(blocks, random)), &mut bytes);
    [bytes[0], bytes[1]]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_decoded() {
        let mut q4 = vec![0x00, 0x38]; // 0.5
        q4.extend((0..16).map(|i| i | (15 - i) << 4));
        assert_eq!(Blocks::Q4_0.decode(&q4, 0), Some(-4.0));
        assert_eq!(Blocks::Q4_0.decode(&q4, 15), Some(3.5));
        assert_eq!(Blocks::Q4_0.decode(&q4, 16), Some(3.5));
        assert_eq!(Blocks::Q4_0.decode(&q4, 32), None);
        let mut q8 = vec![0; 34];
        q8.extend([0x00, 0x34]); // 0.25
        q8.extend((0..32).map(|i| (i as i8 - 16) as u8));
        assert_eq!(Blocks::Q8_0.decode(&q8, 3), Some(0.0));
        assert_eq!(Blocks::Q8_0.decode(&q8, 32), Some(-4.0));
        assert_eq!(Blocks::Q8_0.decode(&q8, 63), Some(3.75));
        assert_eq!(Blocks::Q8_0.decode(&q8, u64::MAX), None);
    }

    #[test]
    fn random_blocks_have_their_size() {
        use Blocks::*;
        let all = [
            Q1_0, Q2_0, Tq2_0, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2K, Q3K, Q4K, Q5K, Q6K, Iq4Nl, Iq4Xs, Mxfp4, Nvfp4, Iq1S,
            Iq1M, Iq2Xxs, Iq2Xs, Iq2S, Iq3Xxs, Iq3S,
        ];
        for blocks in all {
            let mut out = Vec::new();
            blocks.append_random(&mut Random::new(1), &mut out);
            assert_eq!(out.len() as u64, blocks.bytes(), "{blocks:?}");
            let values: Vec<_> = (0..blocks.elements()).map(|element| blocks.decode(&out, element)).collect();
            if blocks.is_decoded() {
                assert!(values.iter().any(|value| *value != Some(0.0)), "{blocks:?}");
                assert!(values.iter().flatten().all(|value| value.abs() <= 512.0), "{blocks:?}: {values:?}");
            }
            assert!(values.iter().all(|value| value.is_some() == blocks.is_decoded()), "{blocks:?}");
        }
    }

    #[test]
    fn bytes_of_a_seed_stay() {
        let mut out = Vec::new();
        Blocks::Q4_0.append_random(&mut Random::new(1_234_567), &mut out);
        // Cases rest on these.
        assert_eq!(out[..4], [0x00, 0x38, 0xa5, 0x77]);
    }
}
