//! Blocks of quantised numbers, as ggml lays them out: 32 elements share one scale.

use serde::Deserialize;

use coop_ir::profile::ComponentType;

use crate::number::{self, Value};
use crate::random::Random;

/// Elements of a block.
pub const BLOCK_ELEMENTS: u64 = 32;

/// A block format.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Blocks {
    /// An f16 scale, then 16 bytes: low halves are elements 0 to 15, high halves 16 to 31; an element is scale * (q - 8).
    Q4_0,
    /// An f16 scale, then 32 signed bytes; an element is scale * q.
    Q8_0,
}

impl Blocks {
    /// Bytes of a block.
    pub fn bytes(self) -> u64 {
        match self {
            Blocks::Q4_0 => 18,
            Blocks::Q8_0 => 34,
        }
    }

    /// An element of a buffer of blocks.
    pub fn decode(self, buffer: &[u8], element: u64) -> Option<f64> {
        let start = usize::try_from((element / BLOCK_ELEMENTS).checked_mul(self.bytes())?).ok()?;
        let block = buffer.get(start..start.checked_add(self.bytes() as usize)?)?;
        let (scale, quants) = block.split_at(2);
        let scale = number::decode(ComponentType::F16, scale).to_f64();
        let place = (element % BLOCK_ELEMENTS) as usize;
        let quant = match self {
            Blocks::Q4_0 if place < 16 => f64::from(quants[place] & 0xf) - 8.0,
            Blocks::Q4_0 => f64::from(quants[place - 16] >> 4) - 8.0,
            Blocks::Q8_0 => f64::from(quants[place] as i8),
        };
        Some(scale * quant)
    }

    /// Appends a random block. Scales are 1/4, 1/2 or 1, so that every element and every product with a half is exact.
    pub(crate) fn append_random(self, random: &mut Random, out: &mut Vec<u8>) {
        let scale = 2f64.powi(-(random.integer(0, 2) as i32));
        number::encode(ComponentType::F16, Value::Float(scale), out);
        for _ in 2..self.bytes() {
            out.push(match self {
                Blocks::Q4_0 => random.bits() as u8,
                Blocks::Q8_0 => random.integer(-127, 127) as u8,
            });
        }
    }
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
        for blocks in [Blocks::Q4_0, Blocks::Q8_0] {
            let mut out = Vec::new();
            blocks.append_random(&mut Random::new(1), &mut out);
            assert_eq!(out.len() as u64, blocks.bytes());
            assert!((0..32).any(|element| blocks.decode(&out, element) != Some(0.0)));
        }
    }
}
