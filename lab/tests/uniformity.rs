//! Uniformity: planted bugs happen when they are run, the holes of other systems are none here, and generated control
//! flow finds nothing that was called uniform and is not.

use cli_uniformity::{Found, run_with, runs};
use coop_exec::interp::Reconvergence;
use coop_lab::campaign::entropy;
use coop_lab::generator::diverge::Constructs;
use coop_lab::uniformity::{Tally, try_entropy};
use coop_validate::testing::{Case, cases};
use coop_validate::{Level, check};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Running test files.
mod cli_uniformity {
    use super::*;
    use coop_exec::interp::{Config, FindingKind, Interpreter, Memory};
    use coop_ir::decorate::Decorations;
    use coop_ir::{InstRef, Op};

    /// The instructions that the interpreter saw to be not uniform.
    pub(crate) type Found = std::collections::BTreeSet<InstRef>;

    /// Runs a test file with some inputs; `value` makes the words of buffers and push constants.
    pub(crate) fn run_with(case: &Case, way: Reconvergence, value: &dyn Fn(u32) -> u32) -> Result<Found, String> {
        let module = &case.module;
        let config = Config {
            subgroup_size: case.options.subgroup_size.unwrap_or(32),
            step_budget: 300_000,
            reconvergence: way,
            ..Config::default()
        };
        let interpreter =
            Interpreter::new(module, None, &case.options.specialization, config).map_err(|e| e.to_string())?;
        let decorations = Decorations::new(module);
        let variables = module.globals_with(Op::Variable).filter_map(|r| module.inst(r).result);
        let mut slots: Vec<(u32, u32)> =
            variables.filter_map(|id| Some((decorations.set(id)?, decorations.binding(id)?))).collect();
        slots.sort_unstable();
        slots.dedup();
        let words = |n: u32, float: bool| -> Vec<u8> {
            let word = |i: u32| if float { (value(i) as f32).to_bits() } else { value(i) };
            (0..n).flat_map(|i| word(i).to_le_bytes()).collect()
        };
        let mut buffers: Vec<Memory> = slots
            .iter()
            // The first two are floats.
            .map(|s| Memory { name: format!("{s:?}"), slot: Some(*s), bytes: words(4096, s.1 < 2) })
            .collect();
        let report = interpreter.run(&mut buffers, &words(4, false), [2, 1, 1]).map_err(|e| e.to_string())?;
        let kinds = [FindingKind::NonUniformExecution, FindingKind::NonUniformOperand];
        Ok(report.findings.iter().filter(|f| kinds.contains(&f.kind)).map(|f| f.at).collect())
    }

    /// Returns the observations in runs with several inputs.
    pub(crate) fn runs(case: &Case) -> Result<Found, String> {
        let mut found = Found::new();
        for way in [Reconvergence::Early, Reconvergence::Promised(7)] {
            for n in [0u32, 1, 2, 5, 20] {
                found.extend(run_with(case, way, &|_| n)?);
                found.extend(run_with(case, way, &|i| (i * 7 + n) % 11)?);
            }
        }
        Ok(found)
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata/validate/uniformity")
}

fn planted() -> Vec<Case> {
    let all = cases(&folder());
    assert!(all.len() >= 60, "{} files", all.len());
    all
}

/// Returns true if a file says that it can't be run.
fn is_run(case: &Case) -> bool {
    !case.source.lines().any(|l| l == "; run: no") && case.rule() != "uniformity-recursion"
}

/// Each error happens when the shader is run; each warning too, but for those that need other data.
#[test]
fn planted_bugs_happen() {
    let mut problems = Vec::new();
    let (mut errors, mut warnings, mut seen) = (0, 0, 0);
    for case in planted().iter().filter(|c| is_run(c)) {
        let found = match runs(case) {
            Ok(found) => found,
            Err(e) => {
                problems.push(format!("{}: {e}", case.name()));
                continue;
            }
        };
        for f in check(&case.module, &case.options).findings {
            let happens = found.contains(&f.at);
            match f.level {
                Level::Error if happens => errors += 1,
                Level::Error => problems.push(format!("{}: does not happen: {}", case.name(), f.message)),
                // Of this it is said that no data leads there.
                Level::Warning if case.name() == "uniformity-flow.nobody" => {
                    problems.extend(happens.then(|| format!("{}: happens", case.name())));
                }
                Level::Warning => (warnings, seen) = (warnings + 1, seen + usize::from(happens)),
                _ if happens => problems.push(format!("{}: only assumed: {}", case.name(), f.message)),
                _ => {}
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    assert!(errors >= 47 && warnings >= 16 && warnings - seen <= 2, "{errors} errors; {seen} of {warnings} warnings");
}

/// No run contradicts the files that are right.
#[test]
fn uniform_files_are_uniform() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata/validate/valid");
    let all: Vec<Case> = cases(&folder).into_iter().filter(|c| c.name().starts_with("uniform-")).collect();
    assert!(all.len() >= 4, "{} files", all.len());
    for case in &all {
        let found = runs(case).unwrap_or_else(|e| panic!("{}: {e}", case.name()));
        assert!(found.is_empty(), "{}: {found:?}", case.name());
    }
}

/// The file with this name: something in it is found, and it happens where reconvergence is only what is promised.
fn hole(name: &str) -> (Found, Found) {
    let case = planted().into_iter().find(|c| c.name() == name).unwrap_or_else(|| panic!("no {name}"));
    let findings = check(&case.module, &case.options).findings;
    assert!(findings.iter().any(|f| f.level >= Level::Warning), "{name}: nothing is found");
    let late = (0..8).flat_map(|seed| {
        let value = |i: u32| (i * 5 + seed as u32) % 9;
        run_with(&case, Reconvergence::Promised(seed), &value).unwrap_or_else(|e| panic!("{name}: {e}"))
    });
    let late: Found = late.collect();
    let early = runs(&case).unwrap_or_else(|e| panic!("{name}: {e}"));
    assert!(findings.iter().any(|f| late.contains(&f.at)), "{name}: it does not happen");
    (late, early)
}

/// Tint once took what follows `break if` of a divergent condition for uniform (gpuweb#5277).
#[test]
fn break_if() {
    hole("uniformity-flow.do-while");
}

/// And a loop without a condition (crbug 463704875).
#[test]
fn loop_without_a_condition() {
    hole("uniformity-flow.endless-loop");
}

/// SPIRV-Tools' lint takes the point where ways meet for that where invocations do.
#[test]
fn late_merge() {
    hole("uniformity-flow.late-merge");
    hole("uniformity-flow.fall-through");
}

#[test]
fn continue_under_divergence() {
    hole("uniformity-flow.continue");
    hole("uniformity-flow.after-continue");
}

#[test]
fn return_inside_a_loop_inside_a_switch() {
    hole("uniformity-flow.return-in-loop-in-switch");
}

/// A value is uniform inside of a loop, and not behind it.
#[test]
fn temporal_divergence() {
    hole("uniformity-flow.rounds");
}

/// Two seconds of generated modules; `cooplab uniformity` does as many as one likes.
#[test]
fn generated_control_flow() {
    let end = Instant::now() + Duration::from_secs(2);
    let (mut tally, mut seed) = (Tally::default(), 1_000_000);
    while Instant::now() < end || tally.modules < 4 {
        if let Err(w) = try_entropy(&entropy(seed, 300), Constructs::All, seed, &mut tally) {
            panic!("seed {seed}: {}: {}", w.class, w.message);
        }
        seed += 1;
    }
    assert!(tally.uniform > 0 && tally.runs > 0, "{tally:?}");
}

/// Errors are seen to happen: in the module, or where data decides about the branches around. Some of these lie behind
/// other errors (8, 503), in functions of kernels (2251), behind one operand that hides the other (2452), in a certain
/// workgroup (86498), or behind branches that must go elsewhere in each round (8393, 112025), others where few may be
/// there when one is elected (42287, 302061) or a number must be met (200207); some are none, as what decides leads
/// nobody to them (24, 241, 41813). In some a branch is less uniform in other calls (125192, 1003613), or other
/// workgroups must end first (10948). In one a loop has two entries, so that no round is the first (2158420);
/// in one what a broadcast stores was taken for something reduced (3104761).
#[test]
fn errors_are_reached() {
    const SEEDS: [u64; 21] = [
        8, 24, 241, 503, 2251, 2452, 8393, 10948, 41813, 42287, 55078, 86498, 100_962, 108_552, 112_025, 125_192,
        200_207, 302_061, 1_003_613, 2_158_420, 3_104_761,
    ];
    let mut tally = Tally::default();
    for (seed, bytes) in [13, 15, 43, 59].map(|s| (s, 300)).into_iter().chain(SEEDS.map(|s| (s, 500))) {
        if let Err(w) = try_entropy(&entropy(seed, bytes), Constructs::Basic, seed, &mut tally) {
            panic!("seed {seed}: {}: {}", w.class, w.message);
        }
    }
    assert_eq!(tally.open, []);
    assert!(tally.shown_seen > 0 && tally.shown_freed > 0, "{tally:?}");
    assert_eq!(tally.shown_seen + tally.shown_freed, tally.shown, "{tally:?}");
}
