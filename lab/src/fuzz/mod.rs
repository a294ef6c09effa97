//! Fuzz bodies: each takes any bytes and panics when something is not as it must be.
//!
//! cargo-fuzz runs them for long (`fuzz/`), the tests for a second ([`smoke`]).

mod checker;
mod components;
mod lowering;
mod reader;

use coop_ir::Op;
use std::time::{Duration, Instant};

pub use checker::checker;
pub use components::components;
pub use lowering::{lowering, lowering_in_all_modes};
pub use reader::{parser, reader};

/// Calls a body with changed seeds for about as long as `time`; the sequence is the same every time.
///
/// The number of calls is returned, so that a test can see that there were some.
pub fn smoke(seeds: &[Vec<u8>], time: Duration, body: fn(&[u8])) -> usize {
    assert!(!seeds.is_empty(), "nothing to change");
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    let (start, mut calls) = (Instant::now(), 0);
    while start.elapsed() < time {
        let seed = &seeds[random.below(seeds.len())];
        let changed = match std::str::from_utf8(seed) {
            Ok(text) => mutate_text(text, &mut random).into_bytes(),
            Err(_) => mutate_words(seed, &mut random),
        };
        body(&changed);
        calls += 1;
    }
    calls
}

/// Numbers that look random and are the same on every run (xorshift64*).
#[derive(Debug)]
pub struct Random(pub u64);

impl Random {
    /// A number below `n`, which must not be 0.
    pub fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % n
    }
}

/// Changes a few words (sometimes bytes) of a binary.
pub fn mutate_words(seed: &[u8], random: &mut Random) -> Vec<u8> {
    let mut words: Vec<u32> = seed.chunks_exact(4).map(|c| u32::from_le_bytes([c[0], c[1], c[2], c[3]])).collect();
    if words.is_empty() {
        return seed.to_vec();
    }
    for _ in 0..=random.below(4) {
        let at = random.below(words.len());
        let other = words[random.below(words.len())];
        match random.below(15) {
            12 => change_number(&mut words, random),
            13 => append_word(&mut words, random),
            0 => words[at] ^= 1 << random.below(32),
            1 => words[at] = other,
            2 => words[at] = random.below(300) as u32,
            3 => words[at] = [0, u32::MAX, 1 << 31, 0x7fff_ffff, 0x3f80_0000][random.below(5)],
            4 => words[at] = words[at].wrapping_add(1),
            5 => words[at] = words[at].wrapping_add(1 << 16),
            6 => words[at] = words[at].wrapping_sub(1 << 16),
            7 => words.insert(at, other),
            8 if words.len() > 6 => {
                words.remove(at);
            }
            9 if words.len() > 6 => words.truncate(at.max(5)),
            10 => {
                let end = (at + 1 + random.below(20)).min(words.len());
                let copy = words[at..end].to_vec();
                let to = random.below(words.len());
                words.splice(to..to, copy);
            }
            _ => words[at] = words[at].rotate_left(8),
        }
    }
    let mut bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
    if random.below(50) == 0 {
        bytes.truncate(random.below(bytes.len()));
    }
    bytes
}

/// Makes an instruction of a function longer by a word.
fn append_word(words: &mut Vec<u32>, random: &mut Random) {
    let mut starts = Vec::new();
    let mut at = 5;
    while let Some(first) = words.get(at).copied() {
        starts.push(at);
        at += (first >> 16).max(1) as usize;
    }
    if starts.is_empty() {
        return;
    }
    // Functions come last.
    let half = starts.len() / 2;
    let at = starts[half + random.below(starts.len() - half)];
    let end = at + (words[at] >> 16) as usize;
    if end <= words.len() {
        words[at] = words[at].wrapping_add(1 << 16);
        words.insert(end, random.below(32) as u32);
    }
}

/// Changes the width of a number type, or the value of a constant, to one that is rare.
fn change_number(words: &mut [u32], random: &mut Random) {
    const WIDTHS: [u32; 12] = [0, 1, 2, 4, 6, 8, 16, 24, 32, 64, 128, u32::MAX];
    const VALUES: [u32; 10] = [0, 1, 2, 3, 7, 8, 1 << 10, 1 << 20, 1 << 31, u32::MAX];
    let mut found = Vec::new();
    let mut at = 5;
    while let Some(first) = words.get(at).copied() {
        match first & 0xffff {
            op if op == u32::from(Op::TypeInt.0) || op == u32::from(Op::TypeFloat.0) => found.push((at + 2, true)),
            op if op == u32::from(Op::Constant.0) => found.push((at + 3, false)),
            _ => {}
        }
        at += (first >> 16).max(1) as usize;
    }
    if found.is_empty() {
        return;
    }
    // There are fewer types than constants, and more hangs on them.
    let types = random.below(2) == 0;
    found.retain(|f| f.1 == types);
    let Some((at, _)) = (!found.is_empty()).then(|| found[random.below(found.len())]) else { return };
    let new = if types { WIDTHS[random.below(WIDTHS.len())] } else { VALUES[random.below(VALUES.len())] };
    if let Some(word) = words.get_mut(at) {
        *word = new;
    }
}

/// Changes a few tokens of a text.
pub fn mutate_text(seed: &str, random: &mut Random) -> String {
    const TOKENS: &[&str] = &[
        "",
        "!0x5",
        "!70000",
        "!0xffffffff",
        "%1",
        "%999999999",
        "%a_b",
        "=",
        "OpUnknown(9, 2)",
        "OpUnknown(",
        ")",
        ",",
        "\"",
        "\\",
        ";",
        "\"x\\\"y\"",
        "|",
        "None",
        "Op",
        "OpNop",
        "OpReturn",
        "0x1p+4",
        "-1",
        "1.5",
        "4294967296",
        "\u{e4}",
        "\0",
        "Aligned|",
        "%",
        "OpFunctionEnd",
        "OpSwitch",
        "; Bound: 7\n",
        "; Version: 9.9\n",
        "18446744073709551616",
        "07",
        "08",
    ];
    let mut tokens: Vec<&str> = seed.split_inclusive(char::is_whitespace).collect();
    for _ in 0..=random.below(4) {
        let (at, other) = (random.below(tokens.len().max(1)), random.below(tokens.len().max(1)));
        match random.below(6) {
            0 => tokens.insert(at, TOKENS[random.below(TOKENS.len())]),
            1 if !tokens.is_empty() => tokens[at] = TOKENS[random.below(TOKENS.len())],
            2 if !tokens.is_empty() => {
                tokens.remove(at);
            }
            3 if !tokens.is_empty() => tokens[at] = tokens[other],
            4 if !tokens.is_empty() => tokens.swap(at, other),
            5 if random.below(10) == 0 => tokens.truncate(at),
            _ => tokens.insert(at, " "),
        }
    }
    tokens.concat()
}
