//! One element of a block.

use coop_device::ComponentType;

use super::Blocks;
use crate::number;

/// The numbers that the 16 values of `iq4_nl` and `iq4_xs` stand for.
const IQ4: [f64; 16] =
    [-127.0, -104.0, -83.0, -65.0, -49.0, -35.0, -22.0, -10.0, 1.0, 13.0, 25.0, 38.0, 53.0, 69.0, 89.0, 113.0];

/// Floats with two bits of exponent and one of mantissa, positive.
const E2M1: [f64; 8] = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0];

/// Returns the element at `place` of a block, if the format is one of those with few tables.
pub(super) fn element(blocks: Blocks, block: &[u8], place: usize) -> Option<f64> {
    let of_32 = |from: usize| nibble(block[from + place % 16], place / 16);
    Some(match blocks {
        Blocks::Q1_0 => half(block, 0) * if block[2 + place / 8] >> (place % 8) & 1 == 1 { 1.0 } else { -1.0 },
        Blocks::Q2_0 => half(block, 0) * (f64::from(block[2 + place / 4] >> (place % 4 * 2) & 3) - 1.0),
        Blocks::Tq2_0 => half(block, 64) * (f64::from(pair(&block[..64], place)) - 1.0),
        Blocks::Q4_0 => half(block, 0) * (of_32(2) - 8.0),
        Blocks::Q4_1 => half(block, 0) * of_32(4) + half(block, 2),
        Blocks::Q5_0 => half(block, 0) * (of_32(6) + 16.0 * bit(word(block, 2), place) - 16.0),
        Blocks::Q5_1 => half(block, 0) * (of_32(8) + 16.0 * bit(word(block, 4), place)) + half(block, 2),
        Blocks::Q8_0 => half(block, 0) * f64::from(block[2 + place] as i8),
        Blocks::Q2K => {
            let scale = block[place / 16];
            half(block, 80) * f64::from((scale & 15) * pair(&block[16..80], place)) - half(block, 82) * nibble(scale, 1)
        }
        Blocks::Q3K => q3_k(block, place),
        Blocks::Q4K => {
            let quant = nibble(block[16 + place / 64 * 32 + place % 32], place / 32 % 2);
            six_bits(block, place / 32, quant)
        }
        Blocks::Q5K => {
            let quant = nibble(block[48 + place / 64 * 32 + place % 32], place / 32 % 2);
            six_bits(block, place / 32, quant + 16.0 * f64::from(block[16 + place % 32] >> (place / 32) & 1))
        }
        Blocks::Q6K => {
            let quarter = place % 128 / 32;
            let low = nibble(block[place / 128 * 64 + quarter % 2 * 32 + place % 32], quarter / 2);
            let quant = low + 16.0 * f64::from(pair(&block[128..192], place)) - 32.0;
            half(block, 208) * f64::from(block[192 + place / 16] as i8) * quant
        }
        Blocks::Iq4Nl => half(block, 0) * IQ4[of_32(2) as usize],
        Blocks::Iq4Xs => {
            let part = place / 32;
            let high = u16::from_le_bytes([block[2], block[3]]) >> (2 * part) & 3;
            let scale = nibble(block[4 + part / 2], part % 2) + 16.0 * f64::from(high) - 32.0;
            half(block, 0) * scale * IQ4[nibble(block[8 + part * 16 + place % 16], place / 16 % 2) as usize]
        }
        Blocks::Mxfp4 => 2f64.powi(i32::from(block[0]) - 127) * e2m1(of_32(1)),
        Blocks::Nvfp4 => {
            let part = place / 16;
            let scale = number::decode(ComponentType::E4m3, &block[part..=part]).to_f64();
            scale * e2m1(nibble(block[4 + part * 8 + place % 8], place / 8 % 2))
        }
        Blocks::Iq1S | Blocks::Iq1M | Blocks::Iq2Xxs | Blocks::Iq2Xs | Blocks::Iq2S | Blocks::Iq3Xxs | Blocks::Iq3S => {
            return None;
        }
    })
}

fn half(block: &[u8], from: usize) -> f64 {
    number::decode(ComponentType::F16, &block[from..from + 2]).to_f64()
}

fn word(block: &[u8], from: usize) -> u32 {
    u32::from_le_bytes([block[from], block[from + 1], block[from + 2], block[from + 3]])
}

/// The low half of a byte, or the high one.
fn nibble(byte: u8, which: usize) -> f64 {
    f64::from(if which == 0 { byte & 15 } else { byte >> 4 })
}

fn bit(word: u32, place: usize) -> f64 {
    f64::from(word >> place & 1)
}

fn e2m1(bits: f64) -> f64 {
    let bits = bits as usize;
    if bits < 8 { E2M1[bits] } else { -E2M1[bits - 8] }
}

/// Two bits: each 32 bytes hold four times 32 elements.
fn pair(bytes: &[u8], place: usize) -> u8 {
    bytes[place / 128 * 32 + place % 32] >> (place % 128 / 32 * 2) & 3
}

/// Scale and minimum of six bits for one of eight parts.
fn six_bits(block: &[u8], part: usize, quant: f64) -> f64 {
    let packed = &block[4..16];
    let (scale, least) = if part < 4 {
        (packed[part] & 63, packed[part + 4] & 63)
    } else {
        let low = packed[part + 4];
        (low & 15 | packed[part - 4] >> 6 << 4, low >> 4 | packed[part] >> 6 << 4)
    };
    half(block, 0) * f64::from(scale) * quant - half(block, 2) * f64::from(least)
}

fn q3_k(block: &[u8], place: usize) -> f64 {
    let part = place / 16;
    let packed = &block[96..108];
    let low = nibble(packed[part % 8], part / 8);
    let high = packed[8 + part % 4] >> (2 * (part / 4)) & 3;
    let set = block[place % 32] >> (place / 32) & 1;
    let quant = f64::from(pair(&block[32..96], place)) - if set == 1 { 0.0 } else { 4.0 };
    half(block, 108) * (low + 16.0 * f64::from(high) - 32.0) * quant
}
