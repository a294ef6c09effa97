//! Every number of a case file replaced by those that nobody means: each case is refused with a reason or runs, none takes long,
//! much memory, or the process with it.

use std::panic::catch_unwind;
use std::path::Path;
use std::time::{Duration, Instant};

use coop_exec::interp::{Config, Interpreted};
use coop_exec::{Case, Error, Executor, RunOptions, testing};

/// Has every key that takes a number.
const EVERY_KEY: &str = r#"
workgroups = [1, 1, 1]
seed = 1
push = [{ values = [16, 16, 16] }, { offset = 16, type = "f32", values = [1.5] }, { offset = 24, address = "P" }, { local = 64 }]
spec = { "0" = 8, "1" = 8, "2" = 8, "3" = 8, "9" = 1.5 }
local-size = [8, 1, 1]
subgroup-size = 8
operations = 32768
[[buffer]]
name = "A"
set = 0
binding = 0
type = "f16"
count = 512
fill = { half-integers = [-2.0, 2.0] }
seed = 3
row-stride = 32
[[buffer]]
name = "B"
binding = 1
type = "f16"
count = 512
fill = { ramp = [1.0, 0.5] }
tolerance = { ulp = 2 }
[[buffer]]
name = "C"
binding = 2
type = "f32"
count = 512
fill = { uniform = [0.0, 1.0] }
tolerance = { abs = 1.5, rel = 0.5 }
[[buffer]]
name = "D"
type = "s8"
count = 64
fill = { small-ints = [-2, 2] }
tolerance = { sums-of = 8, abs = 0.5, rel = 0.5 }
[[buffer]]
name = "E"
type = "f32"
count = 64
fill = { causal = [8, 1] }
tolerance = { nmse = 0.5 }
[[buffer]]
name = "F"
type = "s64"
count = 64
fill = { constant = 7 }
[[buffer]]
name = "G"
type = "u8"
count = 68
fill = { blocks = "q8_0" }
[[buffer]]
name = "H"
type = "f32"
count = 64
fill = { values = [1, 2.5] }
[[buffer]]
name = "P"
type = "u64"
count = 2
fill = { addresses = ["A"] }
[[expect]]
gemm = { m = 4, n = 4, k = 8, alpha = 2.0, beta = 1.0, saturate = 2, skip = [0, 1], then = [{ clamp = [0.0, 6.0] }, { scale = 2.0 }], a = { buffer = "A", stride = 8, offset = 1, blocks = [2, 2] }, b = { buffer = "B", stride = 0 }, c = [{ buffer = "C", stride = 4 }], d = { buffer = "D", stride = 8 } }
[[expect]]
attention = { q = "A", k = "B", v = "B", o = "C", n = 4, kv = 4, head = 4, head-v = 4, heads = 2, kv-heads = 1, scale = 0.5, softcap = 2.0, slopes = [1.0, 0.5] }
[[expect]]
convolution = { kernel = "A", input = "B", output = "C", channels = [2, 1], count = 1, from = [3, 3, 1], to = [2, 2, 1], size = [2, 2, 1], step = [1, 1, 1], pad = [0, 0, 0], dilation = [1, 1, 1] }
[[expect]]
map = { buffer = "H", offset = 1, count = 4, value = "E@2 1.5:f32 +" }
[[expect]]
values = { buffer = "F", values = [7, 7] }
[variant.other]
workgroups = [1, 1, 1]
subgroup-size = 16
spec = { "0" = 16 }
fill = { D = { constant = 3 } }
"#;

/// In the place of each number.
const NUMBERS: &[&str] = &[
    "0",
    "-1",
    "-0.0",
    "3",
    "65536",
    "2147483648",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "-9223372036854775808",
    "\"0xffffffffffffffff\"",
    "\"-0xffffffffffffffff\"",
    "1e308",
    "-1e308",
    "inf",
    "nan",
];

/// A case with more is not run here.
const MOST_BYTES: u64 = 32 << 20;

/// Returns the ranges of the numbers that are values.
fn numbers(text: &str) -> Vec<(usize, usize)> {
    let bytes = text.as_bytes();
    let (mut out, mut at, mut quoted) = (Vec::new(), 0, false);
    while at < bytes.len() {
        quoted ^= bytes[at] == b'"';
        let begins = !quoted
            && (bytes[at].is_ascii_digit() || bytes[at] == b'-' && bytes[at + 1].is_ascii_digit())
            && matches!(bytes[at - 1], b' ' | b'[' | b',');
        if !begins {
            at += 1;
            continue;
        }
        let end = at + 1 + bytes[at + 1..].iter().take_while(|b| b.is_ascii_digit() || **b == b'.').count();
        out.push((at, end));
        at = end;
    }
    out
}

/// Parses a case and runs it, or its variant, if it is not too large; why not, where it can't.
fn attempt(text: &str, variant: bool, words: &[u32]) -> Result<(), Error> {
    let case = Case::parse(text, Path::new(""))?;
    let case = if variant { case.with_variant("other")? } else { case };
    if case.buffer.iter().map(|b| b.size() as u64).sum::<u64>() > MOST_BYTES {
        return Ok(());
    }
    let interpreter = Interpreted { config: Config { step_budget: 100_000, ..Config::default() } };
    let options = RunOptions { timeout: Duration::from_millis(200), ..RunOptions::default() };
    let outcome = interpreter.run(words, &case, &options)?;
    outcome.check(&case)?;
    outcome.compare(&outcome, &case).map(|_| ())
}

#[test]
fn numbers_that_nobody_means() {
    let words = testing::words(testing::repository().join("testdata/kernels/gemm_simple.spv"));
    attempt(EVERY_KEY, false, &words).unwrap();
    attempt(EVERY_KEY, true, &words).unwrap();
    let variant = EVERY_KEY.find("[variant").unwrap();
    let places = numbers(EVERY_KEY);
    assert!(places.len() > 100, "{} numbers", places.len());
    let (mut ran, mut refused, mut bad) = (0, 0, Vec::new());
    for (start, end) in places {
        for number in NUMBERS {
            let text = format!("{}{number}{}", &EVERY_KEY[..start], &EVERY_KEY[end..]);
            let line = text[..start].rsplit('\n').next().unwrap_or_default().to_owned() + number;
            let began = Instant::now();
            match catch_unwind(|| attempt(&text, start > variant, &words)) {
                Ok(Ok(())) => ran += 1,
                Ok(Err(_)) => refused += 1,
                Err(_) => bad.push(format!("{line}: panics")),
            }
            if began.elapsed() > Duration::from_secs(30) {
                bad.push(format!("{line}: takes {:?}", began.elapsed()));
            }
        }
    }
    assert!(bad.is_empty(), "{} of {}:\n{}", bad.len(), ran + refused + bad.len(), bad.join("\n"));
    assert!(ran > 100 && refused > 500, "{ran} ran, {refused} were refused");
}

#[test]
fn a_buffer_takes_no_more_of_a_file_than_it_has() {
    let text =
        "workgroups = [1, 1, 1]\n[[buffer]]\nname = \"A\"\ntype = \"u8\"\ncount = 16\nfill = { file = \"/dev/zero\" }";
    let case = Case::parse(text, Path::new("")).unwrap();
    assert_eq!(case.contents(0, &|_| 0).unwrap(), [0; 16]);
}

#[test]
fn a_dispatch_that_never_ends_is_ended() {
    let words = testing::words(testing::repository().join("testdata/kernels/gemm_simple.spv"));
    let case = EVERY_KEY.replacen("workgroups = [1, 1, 1]", "workgroups = [4294967295, 4294967295, 4294967295]", 1);
    let case = Case::parse(&case, Path::new("")).unwrap();
    let interpreter = Interpreted { config: Config { step_budget: u64::MAX, ..Config::default() } };
    let options = RunOptions { timeout: Duration::from_millis(300), ..RunOptions::default() };
    let error = interpreter.run(&words, &case, &options).unwrap_err();
    assert!(matches!(error, Error::Timeout { workgroups: Some((1.., _)), .. }), "{error:?}");
    let all = u128::from(u32::MAX).pow(3);
    assert!(error.to_string().starts_with("the dispatch did not end within 0.3 seconds: "), "{error}");
    assert!(error.to_string().ends_with(&format!(" of {all} workgroups did")), "{error}");
}

#[test]
fn subgroup_sizes_that_no_device_has() {
    for size in ["0", "3", "129", "256", "4294967295"] {
        let case = EVERY_KEY.replacen("subgroup-size = 8", &format!("subgroup-size = {size}"), 1);
        let error = Case::parse(&case, Path::new("")).unwrap_err().to_string();
        assert!(error.contains(&format!("subgroup-size: {size} is not 1, 2, 4, ... or 128")), "{error}");
    }
}
