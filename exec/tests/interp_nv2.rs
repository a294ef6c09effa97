//! Tensor addressing, reductions, per-element operations and conversions of SPV_NV_cooperative_matrix2 on the
//! interpreter, against closed forms, with every placement of elements. The shaders are in `tests/interp`.

mod interp_common;

use coop_exec::interp::{Config, FindingKind, Interpreted, Placement, Semantics};
use interp_common::*;

fn configs() -> impl Iterator<Item = Config> {
    Placement::ALL.into_iter().map(|placement| Config { placement, ..Config::default() })
}

fn check_reduce(name: &str, spec: &[(u32, i64)], [m, n, m2, n2]: [usize; 4]) {
    let module = module(name);
    let input: Vec<f32> = (0..m * n).map(|i| ((i * 37 + 11) % 64) as f32 - 20.5).collect();
    let at = |r: usize, c: usize| input[r * n + c];
    let buffers = [
        f32s(input.iter().copied()),
        f32s(vec![99.0; m * n2]),
        f32s(vec![99.0; m2 * n]),
        f32s(vec![99.0; m2 * n2]),
        f32s(vec![99.0; m / 2 * (n / 2)]),
        f32s(vec![99.0; m * n2]),
    ];
    let row_sum = |r: usize| (0..n).map(|c| at(r, c)).sum::<f32>();
    let column_max = |c: usize| (0..m).map(|r| at(r, c)).fold(f32::MIN, f32::max);
    let total: f32 = input.iter().sum();
    for config in configs() {
        let out = run_clean(&module, spec, &buffers, config);
        let out: Vec<Vec<f32>> = out.iter().map(|b| from_f32s(b)).collect();
        assert_eq!(out[1], (0..m * n2).map(|i| row_sum(i / n2)).collect::<Vec<_>>(), "rows {config:?}");
        assert_eq!(out[2], (0..m2 * n).map(|i| column_max(i % n)).collect::<Vec<_>>(), "columns {config:?}");
        assert_eq!(out[3], vec![total; m2 * n2], "all {config:?}");
        let quarter = |i: usize| {
            let (r, c) = (i / (n / 2) * 2, i % (n / 2) * 2);
            at(r, c) + at(r, c + 1) + at(r + 1, c) + at(r + 1, c + 1)
        };
        assert_eq!(out[4], (0..m / 2 * (n / 2)).map(quarter).collect::<Vec<_>>(), "2 x 2 {config:?}");
        assert_eq!(out[5], (0..m * n2).map(|i| at(i / n2, 0)).collect::<Vec<_>>(), "first {config:?}");
    }
}

#[test]
fn reductions() {
    check_reduce("reduce.spv", &[(4, 32)], [16, 16, 8, 32]);
    check_reduce("reduce.spv", &[(0, 8), (1, 24), (2, 16), (3, 8), (4, 32)], [8, 24, 16, 8]);
}

#[test]
fn reductions_of_workgroup_matrices() {
    check_reduce("reduce.workgroup.spv", &[(0, 32), (1, 16), (2, 8), (3, 32), (4, 128)], [32, 16, 8, 32]);
}

/// Returns the coordinate that is read, by clamp mode; `None` if out of bounds.
fn clamped(mode: i64, at: i64, extent: i64) -> Option<i64> {
    if (0..extent).contains(&at) {
        return Some(at);
    }
    match mode {
        2 => Some(at.clamp(0, extent - 1)),
        3 => Some(at.rem_euclid(extent)),
        4 => {
            let w = at.rem_euclid(2 * extent - 2);
            Some(if w >= extent { 2 * extent - 2 - w } else { w })
        }
        _ => None,
    }
}

#[test]
fn clamp_modes() {
    let module = module("clamp.spv");
    for (h, w, y, x) in [(10, 12, -3, 5), (40, 40, 3, 4), (5, 7, -20, -9), (2, 3, 30, 40)] {
        for mode in 1..=4 {
            let spec = [(0, mode), (1, h), (2, w), (3, y), (4, x)];
            let size = (h * w) as usize;
            let input: Vec<f32> = (0..size).map(|i| i as f32).collect();
            let buffers = [f16s(input.iter().copied()), f16s(vec![99.0; 256]), f16s(vec![99.0; size])];
            let mut stored = vec![99.0; size];
            let wanted: Vec<f32> = (0..256)
                .map(|i| {
                    let (r, c) = (y + i / 16, x + i % 16);
                    match (clamped(mode, r, h), clamped(mode, c, w)) {
                        (Some(r), Some(c)) => (r * w + c) as f32,
                        _ => 0.5,
                    }
                })
                .collect();
            for i in 0..256i64 {
                let (r, c) = (y + i / 16, x + i % 16);
                if (0..h).contains(&r) && (0..w).contains(&c) {
                    stored[(r * w + c) as usize] = wanted[i as usize];
                }
            }
            for config in configs() {
                let out = run_clean(&module, &spec, &buffers, config);
                assert_eq!(from_f16s(&out[1]), wanted, "mode {mode}, {h}x{w} at {y}, {x}, {config:?}");
                assert_eq!(from_f16s(&out[2]), stored, "mode {mode}, {h}x{w} at {y}, {x}, {config:?}");
            }
        }
    }
}

#[test]
fn out_of_bounds_without_a_clamp_mode_is_reported() {
    let module = module("clamp.spv");
    let buffers = [f16s(vec![1.0; 120]), f16s(vec![99.0; 256]), f16s(vec![99.0; 120])];
    let (_, report) = run(&module, &[(0, 0)], &buffers, Config::default());
    let found: Vec<_> = report.findings.iter().map(|f| f.kind).collect();
    assert!(found.contains(&FindingKind::OutOfBounds), "{found:?}");
    assert!(report.findings[0].message.contains("clamp mode is Undefined"), "{}", report.findings[0]);
}

#[test]
fn views() {
    let module = module("view.spv");
    let tensor: Vec<f32> = (0..192).map(|i| i as f32).collect();
    let image: Vec<f32> = (0..256).map(|i| 1000.0 + i as f32).collect();
    let buffers =
        [f32s(tensor.iter().copied()), f32s(vec![99.0; 384]), f32s(image.iter().copied()), f32s(vec![99.0; 64])];
    let mut wanted = vec![99.0f32; 384];
    for r in 0..8 {
        for c in 0..4 {
            wanted[r * 4 + c] = tensor[48 + (2 + c) * 8 + r];
        }
    }
    for r in 0..8 {
        for c in 0..8 {
            let inside = (2..6).contains(&r) && (1..5).contains(&c);
            wanted[64 + r * 8 + c] = if inside { tensor[(3 + r - 2) * 8 + 2 + c - 1] } else { 5.0 };
        }
    }
    for n in 0..256 {
        let (block, within) = (n / 4, n % 4);
        let (row, column) = (block / 8 * 2 + within / 2, block % 8 * 2 + within % 2);
        wanted[128 + n] = image[row * 16 + column];
    }
    let mut transposed = vec![0.0; 64];
    for r in 0..8 {
        for c in 0..8 {
            transposed[c * 8 + r] = wanted[64 + r * 8 + c];
        }
    }
    for config in configs() {
        let out = run_clean(&module, &[], &buffers, config);
        let got = from_f32s(&out[1]);
        assert_eq!(got[..32], wanted[..32], "transposed slice");
        assert_eq!(got[64..128], wanted[64..128], "clip");
        assert_eq!(got[128..], wanted[128..], "space to depth");
        assert_eq!(from_f32s(&out[3]), transposed, "own dimensions");
    }
}

fn check_element(name: &str, threads: i64) {
    let module = module(name);
    let m = |r: usize, c: usize| (r * 8 + c) as f32 / 2.0;
    let buffers = [
        f32s((0..128).map(|i| m(i / 8, i % 8))),
        f32s(vec![99.0; 128]),
        f32s(vec![99.0; 128]),
        f16s(vec![99.0; 128]),
        f16s(vec![99.0; 128]),
        u32s(vec![0; 128]),
    ];
    let place = |r: usize, c: usize| m(r, c) + 1000.0 * r as f32 + 100.0 * c as f32;
    for config in configs() {
        let out = run_clean(&module, &[(0, threads)], &buffers, config);
        let rows = |f: &dyn Fn(usize, usize) -> f32| (0..128).map(|i| f(i / 8, i % 8)).collect::<Vec<_>>();
        assert_eq!(from_f32s(&out[1]), rows(&place));
        assert_eq!(from_f32s(&out[2]), rows(&|r, c| place(r, c) * m(r, c)));
        assert_eq!(from_f16s(&out[3]), rows(&m));
        assert_eq!(from_f16s(&out[4]), (0..128).map(|i| m(i % 16, i / 16)).collect::<Vec<_>>());
        assert_eq!(from_u32s(&out[5]), vec![1; 128], "every element once");
    }
}

#[test]
fn per_element_operations_and_conversions_of_use() {
    check_element("element.spv", 32);
    check_element("element.workgroup.spv", 64);
    // More invocations than elements.
    check_element("element.workgroup.spv", 256);
}

#[test]
fn decode_functions() {
    let module = module("decode.spv");
    let scale = |r: usize, b: usize| (1 + (r + b) % 4) as f32 / 2.0;
    let nibble = |r: usize, b: usize, i: usize| (r * 5 + b * 3 + i) % 16;
    let mut blocks = Vec::new();
    for r in 0..16 {
        for b in 0..4 {
            blocks.extend(f16s([scale(r, b)]));
            blocks.extend([0, 0]);
            let word = (0..8).fold(0u32, |w, i| w | (nibble(r, b, i) as u32) << (4 * i));
            blocks.extend(word.to_le_bytes());
        }
    }
    let wanted: Vec<f32> = (0..512)
        .map(|i| {
            let (r, b, k) = (i / 32, i % 32 / 8, i % 8);
            if r >= 12 { 0.0 } else { scale(r, b) * nibble(r, b, k) as f32 + (r & 1) as f32 }
        })
        .collect();
    for semantics in [Semantics::Spec, Semantics::Nvidia] {
        for config in configs() {
            let out = run_clean(&module, &[], &[blocks.clone(), f16s(vec![99.0; 512])], Config { semantics, ..config });
            assert_eq!(from_f16s(&out[1]), wanted, "{config:?}");
        }
    }
}

/// The cases that compare devices with the interpreter: nothing is found in them, and the placement does not show.
#[test]
fn cases_for_devices_are_sound() {
    let mut checked = 0;
    for entry in std::fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|e| e != "toml") {
            continue;
        }
        let words = coop_exec::testing::words(path.with_extension("spv"));
        let case = coop_exec::Case::load(&path).unwrap();
        let variants: Vec<String> = case.variant.keys().cloned().collect();
        for variant in std::iter::once(None).chain(variants.iter().map(Some)) {
            let case = variant.map_or_else(|| case.clone(), |v| case.clone().with_variant(v).unwrap());
            let mut results = Vec::new();
            for config in configs() {
                let (buffers, report) = Interpreted { config }.run_case(&words, &case).unwrap();
                let text: Vec<String> = report.findings.iter().map(|f| f.to_string()).collect();
                assert!(text.is_empty(), "{} {variant:?}: {}", path.display(), text.join("\n"));
                results.push(buffers);
            }
            assert!(results.iter().all(|r| *r == results[0]), "{} {variant:?}", path.display());
            checked += 1;
        }
    }
    assert!(checked >= 10, "{checked} cases");
}
