//! The inputs that modules are run with.

use crate::generator::diverge::{Given, PUSH_WORDS, WORDS};
use coop_exec::interp::Memory;
use coop_exec::random::Random;

/// The inputs of a run.
pub(super) struct Inputs {
    pub(super) seed: u64,
    pub(super) buffers: Vec<Memory>,
    pub(super) push: Vec<u8>,
    pub(super) groups: [u32; 3],
}

/// The generator of inputs.
pub(super) struct Data {
    pub(super) seed: u64,
    pub(super) kind: Kind,
}

/// The kind of the numbers.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    /// Small ones: what conditions compare with, and the cases of switches.
    Small,
    /// Constants of the modules, what is next to them, and any now and then.
    Wide,
}

/// Constants of the modules.
const CONSTANTS: [u32; 18] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 15, 16, 31, 32, 63, 64, 128, 200, 255];

impl Data {
    fn word(&self, random: &mut Random) -> u32 {
        if let Kind::Wide = self.kind {
            return match random.integer(0, 7) {
                0 => random.bits() as u32,
                1 => (random.bits() as u32) >> random.integer(0, 31),
                n => {
                    let near = random.integer(0, CONSTANTS.len() as i64 - 1) as usize;
                    CONSTANTS[near].wrapping_add(if n < 5 { 0 } else { random.integer(-1, 1) as u32 })
                }
            };
        }
        match random.integer(0, 3) {
            0 => 0,
            1 => random.integer(0, 4) as u32,
            _ => random.integer(0, 70) as u32,
        }
    }

    fn words(&self, random: &mut Random, n: u32, alike: bool) -> Vec<u8> {
        let first = self.word(random);
        (0..n).flat_map(|_| if alike { first } else { self.word(random) }.to_le_bytes()).collect()
    }

    /// Buffers and push constants.
    pub(super) fn inputs(&self) -> Inputs {
        let mut random = Random::new(self.seed);
        let alike = random.integer(0, 3) == 0;
        // Kernels take them in this order.
        let memory =
            |binding: u32, bytes: Vec<u8>| Memory { name: format!("b{binding}"), slot: Some((0, binding)), bytes };
        let buffers = vec![
            memory(0, self.words(&mut random, WORDS, alike)),
            memory(1, self.words(&mut random, WORDS, alike)),
            memory(2, (0..4096).flat_map(|i| ((i % 7) as f32).to_le_bytes()).collect()),
        ];
        let push = self.words(&mut random, PUSH_WORDS, false);
        let groups = [1 + (self.seed % 2) as u32, 1 + (self.seed / 3 % 2) as u32, 1];
        Inputs { seed: self.seed, buffers, push, groups }
    }

    /// Returns inputs that lead along a path.
    pub(super) fn along(&self, given: &Given, words: u32, groups: [u32; 3]) -> Inputs {
        let mut inputs = Inputs { groups, ..self.inputs() };
        let bytes = &mut inputs.buffers[0].bytes;
        bytes.resize(words as usize * 4, 0);
        let set = |bytes: &mut Vec<u8>, (at, value): &(u32, u32)| {
            if let Some(slot) = bytes.get_mut(*at as usize * 4..).and_then(|b| b.first_chunk_mut()) {
                *slot = value.to_le_bytes();
            }
        };
        given.words.iter().for_each(|w| set(bytes, w));
        given.push.iter().for_each(|w| set(&mut inputs.push, w));
        inputs
    }
}
