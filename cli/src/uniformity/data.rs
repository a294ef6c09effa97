//! What modules are run with.

use coop_exec::interp::Memory;
use coop_exec::random::Random;
use coop_ir::smith::diverge::{Choice, DATA, PUSH_WORDS, WORDS};

/// What a run is given.
pub(super) struct Inputs {
    pub(super) seed: u64,
    pub(super) buffers: Vec<Memory>,
    pub(super) push: Vec<u8>,
    pub(super) groups: [u32; 3],
}

/// How inputs are made.
pub(super) struct Data {
    pub(super) seed: u64,
    pub(super) kind: Kind,
}

/// What numbers.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    /// Small ones: what conditions compare with, and the cases of switches.
    Small,
    /// Constants of the modules, what is next to them, and any now and then.
    Wide,
    /// One after the other, by round.
    Free(u64),
}

/// Constants of the modules.
const CONSTANTS: [u32; 14] = [0, 1, 2, 3, 4, 5, 7, 8, 15, 16, 32, 63, 64, 255];

impl Data {
    fn word(&self, random: &mut Random) -> u32 {
        let (small, wide) = match self.kind {
            Kind::Small => (true, false),
            Kind::Wide => (false, true),
            Kind::Free(round) => (round.is_multiple_of(3), round % 3 == 1),
        };
        if wide {
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
            _ if small => random.integer(0, 70) as u32,
            _ => random.integer(0, 3) as u32,
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
        Inputs { seed: self.seed, buffers, push, groups: [1 + (self.seed % 2) as u32, 1, 1] }
    }

    /// The same with words that decide branches: as a script says, in some runs but for some invocations, in some for
    /// those from `first` on only.
    pub(super) fn with(&self, script: &[Choice], words: u32, first: u32) -> Inputs {
        let mut inputs = self.inputs();
        let mut random = Random::new(self.seed ^ 0x5eed);
        let Kind::Free(round) = self.kind else { return inputs };
        let more = self.words(&mut random, DATA - WORDS, inputs.seed.is_multiple_of(5));
        let deciding = (DATA..words).flat_map(|_| (random.integer(0, 3) as u32).to_le_bytes());
        let deciding: Vec<u8> = deciding.collect();
        let bytes = &mut inputs.buffers[0].bytes;
        bytes.extend(more);
        bytes.extend(deciding);
        let unscripted = round % 8 == 7;
        for choice in script.iter().filter(|_| !unscripted) {
            for (i, w) in choice.words.clone().enumerate() {
                let skipped = match round % 4 {
                    1 => random.integer(0, 7) == 0,
                    2 => choice.words.len() > 1 && (i as u32) < first,
                    _ => false,
                };
                let at = w as usize * 4;
                if let Some(slot) = bytes.get_mut(at..at + 4).filter(|_| !skipped) {
                    slot.copy_from_slice(&choice.value.to_le_bytes());
                }
            }
        }
        match round % 5 {
            3 => inputs.groups = [4, 1, 1],
            4 if round % 2 == 0 => inputs.groups = [2, 2, 1],
            4 => inputs.groups = [1, 4, 1],
            _ => {}
        }
        inputs
    }
}
