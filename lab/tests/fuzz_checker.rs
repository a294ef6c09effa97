//! The checker survives modules that are damaged but still read: one second of mutations of real ones, or as many as
//! `COOP_FUZZ_SECONDS` says.

use coop_ir::binary;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// xorshift64*: repeatable, and good enough to choose words.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % n.max(1)
    }
}

fn seeds() -> Vec<Vec<u32>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata");
    let mut seeds: Vec<Vec<u32>> =
        coop_validate::testing::cases(&root.join("validate")).iter().map(|c| binary::write_words(&c.module)).collect();
    let kernels: Vec<PathBuf> = std::fs::read_dir(root.join("kernels"))
        .expect("our kernels")
        .map(|e| e.expect("an entry").path())
        .filter(|p| p.extension().is_some_and(|e| e == "spv"))
        .collect();
    for path in kernels {
        let bytes = std::fs::read(path).expect("readable");
        let words = bytes.chunks_exact(4).map(|c| u32::from_le_bytes([c[0], c[1], c[2], c[3]])).collect();
        seeds.push(words);
    }
    seeds
}

/// Returns the offsets of the instructions.
fn starts(words: &[u32]) -> Vec<usize> {
    let mut at = 5;
    let mut out = Vec::new();
    while at < words.len() {
        out.push(at);
        at += ((words[at] >> 16) as usize).max(1);
    }
    out
}

fn mutate(words: &mut Vec<u32>, random: &mut Random) {
    for _ in 0..1 + random.below(4) {
        let starts = starts(words);
        let Some(&start) = starts.get(random.below(starts.len())) else { return };
        let count = ((words[start] >> 16) as usize).clamp(1, words.len() - start);
        match random.below(8) {
            // An operand becomes another id, a small number, or anything.
            0..=2 if count > 1 => {
                let bound = words[3] as usize;
                words[start + 1 + random.below(count - 1)] = 1 + random.below(bound.max(2) - 1) as u32;
            }
            3 if count > 1 => words[start + 1 + random.below(count - 1)] = random.below(8) as u32,
            4 if count > 1 => words[start + 1 + random.below(count - 1)] = random.below(usize::MAX) as u32,
            // Another opcode of the same length, from elsewhere in the module or from around the matrices.
            5 => {
                let other = words[starts[random.below(starts.len())]] & 0xffff;
                words[start] = (words[start] & !0xffff) | other;
            }
            6 => {
                // KHR, QCOM, NV and NV2, tensor addressing, Intel.
                let near = [(4456, 5), (4540, 3), (5358, 6), (5366, 19), (5293, 1), (5390, 1), (6193, 3), (6448, 2)];
                let (first, n) = near[random.below(near.len())];
                words[start] = (words[start] & !0xffff) | (first + random.below(n) as u32);
            }
            // An instruction disappears.
            _ => drop(words.drain(start..start + count)),
        }
    }
}

/// Inputs that failed once.
#[test]
fn found_modules() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata/fuzz/checker");
    let files = std::fs::read_dir(folder).expect("a folder of ours").map(|e| e.expect("an entry").path());
    let ran = files.map(|path| coop_lab::fuzz::checker(&std::fs::read(path).expect("readable"))).count();
    assert!(ran >= 3, "{ran} modules");
}

#[test]
fn damaged_modules() {
    let seeds = seeds();
    let seconds = std::env::var("COOP_FUZZ_SECONDS").map_or(1, |s| s.parse().expect("a number of seconds"));
    let end = Instant::now() + Duration::from_secs(seconds);
    let (mut runs, mut read) = (0u64, 0u64);
    while Instant::now() < end {
        let mut random = Random(0x9e37_79b9_7f4a_7c15 ^ (runs + 1));
        let mut words = seeds[random.below(seeds.len())].clone();
        mutate(&mut words, &mut random);
        let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        read += u64::from(binary::read(&bytes).is_ok());
        let outcome = std::panic::catch_unwind(|| coop_lab::fuzz::checker(&bytes));
        assert!(outcome.is_ok(), "run {runs} panics");
        runs += 1;
    }
    // A mutation that the reader refuses tests nothing here.
    assert!(read * 4 > runs, "only {read} of {runs} mutations could be read");
}
