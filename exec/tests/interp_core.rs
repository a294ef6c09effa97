//! Control flow, subgroup instructions, memory layouts and arithmetic on the interpreter, against the host.

mod interp_common;

use coop_exec::interp::Config;
use interp_common::*;

#[test]
fn control_flow_parts_and_meets_again() {
    let module = module("flow.spv");
    let (out, report) = run(&module, &[], &[u32s(vec![0xdead; 64 * 32])], Config::default());
    // Invocation 0 shuffles up from nobody, and stores what it got.
    let found: Vec<String> = report.findings.iter().map(|f| f.to_string()).collect();
    assert_eq!(found.len(), 1, "{}", found.join("\n"));
    assert!(found[0].contains("an undefined value is written to byte 1024 of"), "{}", found[0]);
    let out = from_u32s(&out[0]);
    let mut at = 0;
    let mut next = |what: &str, f: &dyn Fn(u32) -> u32| {
        let wanted: Vec<u32> = (0..32).map(f).collect();
        assert_eq!(out[at * 32..at * 32 + 32], wanted, "{what}");
        at += 1;
    };
    next("collatz", &|lane| {
        let (mut n, mut steps) = (lane + 1, 0);
        while n > 1 {
            n = if n.is_multiple_of(2) { n / 2 } else { 3 * n + 1 };
            steps += 1;
        }
        steps
    });
    next("add of ones", &|_| 32);
    next("switch", &|n| match n % 5 {
        0 => 10,
        1 if n > 10 => n,
        1 => 20,
        2 => n + 1100,
        3 => n + 1000,
        _ => 7,
    });
    next("ballot", &|_| 32);
    next("nested loops", &|lane| {
        let mut sum = 0;
        for i in 0..lane {
            for _ in 0..i.min(7) {
                // Those are together that are in this iteration: all whose lane is greater than i.
                sum += 31 - i;
            }
        }
        sum
    });
    next("inclusive add", &|l| l * (l + 1) / 2);
    next("exclusive product", &|l| (1..=l.min(5)).product());
    next("shuffle xor", &|l| l ^ 5);
    next("shuffle up", &|l| l.saturating_sub(1));
    next("clustered maximum", &|l| l | 3);
    next("broadcast", &|_| 27);
    next("elect", &|l| u32::from(l == 0));
    next("ballot of a half", &|l| if l & 1 == 1 { 0xaaaa_aaaa } else { 0x5555_5555 & !0x3ff });
    next("broadcast of the first of a half", &|l| if l & 1 == 1 { 1 } else { 50 });
    next("least and greatest of a half", &|l| if l & 1 == 1 { 1 } else { 30 });
    next("all", &|_| 1);
    next("mask", &|l| (1u32 << l) - 1);
    next("count below", &|l| l.div_ceil(3));
    next("highest bit", &|_| 30);
    next("bit", &|l| u32::from(l % 3 == 0));
}

#[test]
fn layouts_of_memory() {
    let module = module("memory.spv");
    let mut input = vec![0u8; 112 + 5 * 16];
    let put = |bytes: &mut Vec<u8>, at: usize, v: &[u8]| bytes[at..at + v.len()].copy_from_slice(v);
    put(&mut input, 0, &5u32.to_le_bytes());
    // mat2x3 by rows: 3 rows of 2, 8 bytes apart; by columns: 2 columns of 3, 16 apart.
    for c in 0..2 {
        for r in 0..3 {
            put(&mut input, 8 + r * 8 + c * 4, &((10 * c + r) as f32).to_le_bytes());
            put(&mut input, 32 + c * 16 + r * 4, &((100 * c + r) as f32).to_le_bytes());
        }
    }
    for k in 0..2 {
        let at = 64 + 16 * k;
        put(&mut input, at, &half::f16::from_f32(1.5 + k as f32).to_le_bytes());
        put(&mut input, at + 4, &[1 + k as u8, 2, 3]);
        put(&mut input, at + 8, &(0.1 + k as f64).to_le_bytes());
    }
    put(&mut input, 96, &1234567890123i64.to_le_bytes());
    for i in 0..5 {
        for c in 0..3 {
            put(&mut input, 112 + i * 16 + c * 4, &((i * 3 + c) as f32).to_le_bytes());
        }
    }
    let out = run_clean(&module, &[], &[input.clone(), vec![0; 128 + 5 * 16]], Config::default());
    let o = &out[1];
    let f = |at: usize| f32::from_le_bytes([o[at], o[at + 1], o[at + 2], o[at + 3]]);
    let u = |at: usize| u32::from_le_bytes([o[at], o[at + 1], o[at + 2], o[at + 3]]);
    assert_eq!(u(0), 5 + 36);
    for c in 0..2 {
        for r in 0..3 {
            let wanted = if (c, r) == (1, 2) { 77.0 } else { (10 * c + r) as f32 };
            assert_eq!(f(16 + c * 16 + r * 4), wanted, "rows, column {c}, row {r}");
            let wanted = if (c, r) == (1, 1) { 78.0 } else { (100 * c + r) as f32 };
            assert_eq!(f(48 + r * 8 + c * 4), wanted, "columns, column {c}, row {r}");
        }
    }
    for k in 0..2 {
        let (from, to) = (64 + 16 * k, 72 + 16 * k);
        assert_eq!(o[to..to + 2], input[from..from + 2]);
        assert_eq!(o[to + 4..to + 7], input[from + 4..from + 7]);
        assert_eq!(o[to + 8..to + 16], input[from + 8..from + 16]);
    }
    assert_eq!(o[104..112], (-1234567890123i64).to_le_bytes());
    assert_eq!((u(112), u(116)), (7, 5));
    for i in 0..5 {
        let wanted = [2, 1, 0].map(|c| (i * 3 + c) as f32);
        assert_eq!([0, 1, 2].map(|c| f(128 + i * 16 + c * 4)), wanted, "tail {i}");
    }
}
