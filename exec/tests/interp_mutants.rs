//! Broken modules do not make the interpreter panic: words of real ones changed at random. `COOP_MUTANTS` says how many
//! of each; a failure names the module and the seed.

use std::panic::{AssertUnwindSafe, catch_unwind};

use coop_exec::interp::{Config, Interpreter, Memory, Placement};
use coop_exec::random::Random;
use coop_exec::testing;
use coop_ir::constant::Specialization;

fn mutate(words: &[u32], random: &mut Random) -> Vec<u32> {
    let mut words = words.to_vec();
    for _ in 0..random.integer(1, 4) {
        let last = words.len() as i64 - 1;
        let at = random.integer(5, last) as usize;
        words[at] = match random.integer(0, 5) {
            // Ids and literals are small numbers.
            0 | 1 => random.integer(0, i64::from(words[3])) as u32,
            2 => words[at].wrapping_add(random.integer(-2, 2) as u32),
            3 => words[random.integer(5, last) as usize],
            4 => random.bits() as u32,
            // Another opcode of the same length.
            _ => (words[at] & 0xffff_0000) | random.integer(1, 460) as u32,
        };
    }
    words
}

fn run(words: &[u32], random: &mut Random) {
    let Ok(module) = coop_ir::binary::read_words(words) else { return };
    let config = Config {
        subgroup_size: 32,
        placement: Placement::ALL[random.integer(0, Placement::ALL.len() as i64 - 1) as usize],
        step_budget: 3000,
        local_size: Some([32, 1, 1]),
        ..Config::default()
    };
    let specialization = Specialization::new();
    let Ok(interpreter) = Interpreter::new(&module, None, &specialization, config) else { return };
    let buffer = |binding: u32| Memory {
        name: format!("buffer {binding}"),
        slot: Some((0, binding)),
        bytes: (0..4096u32).map(|i| (i * 7) as u8).collect(),
    };
    let mut buffers: Vec<Memory> = (0..10).map(buffer).collect();
    // Whether it can be run or not: it must say so.
    let _ = interpreter.run(&mut buffers, &[1; 128], [1, 1, 1]);
}

#[test]
fn mutants_do_not_panic() {
    let count: u64 = std::env::var("COOP_MUTANTS").ok().and_then(|v| v.parse().ok()).unwrap_or(60);
    let mut modules: Vec<(String, Vec<u32>)> =
        testing::kernels().iter().map(|k| (k.module.clone(), k.words())).collect();
    modules.dedup_by(|a, b| a.0 == b.0);
    for name in ["reduce", "element", "view", "decode", "clamp", "flow", "memory", "ub", "nv1"] {
        modules.push((name.into(), testing::words(format!("exec/tests/interp/{name}.spv"))));
    }
    let mut failures = Vec::new();
    for (name, words) in &modules {
        for seed in 0..count {
            let mut random = Random::new(seed);
            let mutant = mutate(words, &mut random);
            if catch_unwind(AssertUnwindSafe(|| run(&mutant, &mut random))).is_err() {
                failures.push(format!("{name} {seed}"));
            }
        }
    }
    assert!(failures.is_empty(), "{} mutants panic: {}", failures.len(), failures.join(", "));
}
