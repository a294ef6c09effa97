//! The kernels of `testdata/kernels` on the interpreter: every case and variant, with every placement of elements.

use coop_exec::interp::{Config, Interpreted, MulAddMode, Placement, Reconvergence, Report};
use coop_exec::testing::{self, Kernel};
use coop_exec::{Case, Outcome, Timer};

/// All kernels have their subgroup size in spec constant 3.
fn subgroup_size(case: &Case) -> u32 {
    match case.specialization().unwrap().get(3) {
        Some(coop_ir::constant::SpecValue::Int(v)) => v as u32,
        _ => 32,
    }
}

fn run(words: &[u32], case: &Case, config: Config) -> Result<(Outcome, Report), String> {
    let executor = Interpreted { config: Config { subgroup_size: subgroup_size(case), ..config } };
    let (buffers, report) = executor.run_case(words, case).map_err(|e| e.to_string())?;
    let buffers = buffers.into_iter().map(|m| (m.name, m.bytes)).collect();
    let outcome = Outcome {
        device: "interpreter".into(),
        buffers,
        timer: Timer::Host,
        times: Vec::new(),
        messages: Vec::new(),
        faults: Vec::new(),
    };
    Ok((outcome, report))
}

fn check(words: &[u32], case: &Case, config: Config) -> Result<(), String> {
    let (outcome, report) = run(words, case, config)?;
    if let Some(f) = report.findings.iter().find(|f| f.kind.is_undefined_behaviour()) {
        return Err(f.to_string());
    }
    let differences = outcome.check(case).map_err(|e| e.to_string())?;
    match differences.first() {
        None => Ok(()),
        Some(d) => Err(d.to_string()),
    }
}

fn variants(kernel: &Kernel) -> Vec<(String, Case)> {
    let case = kernel.case();
    let named = case.variant.keys().map(|v| (v.clone(), case.clone().with_variant(v).unwrap()));
    [(String::new(), case.clone())].into_iter().chain(named.collect::<Vec<_>>()).collect()
}

#[test]
fn kernels_compute_what_their_cases_expect_wherever_elements_are() {
    let mut failures = Vec::new();
    let mut checked = 0;
    for kernel in testing::kernels() {
        let words = kernel.words();
        for (variant, case) in variants(&kernel) {
            for placement in Placement::ALL {
                checked += 1;
                if let Err(why) = check(&words, &case, Config { placement, ..Config::default() }) {
                    failures.push(format!("{kernel} {variant} {placement:?}: {why}"));
                }
            }
        }
    }
    assert!(failures.is_empty(), "{} of {checked} runs fail\n{}", failures.len(), failures.join("\n"));
    assert!(checked >= 200, "{checked} runs");
}

#[test]
fn the_order_of_additions_does_not_matter_to_exact_cases() {
    let kernel = testing::kernels().into_iter().find(|k| k.module == "gemm_simple").unwrap();
    let config = Config { mul_add: MulAddMode::Sequential, ..Config::default() };
    check(&kernel.words(), &kernel.case(), config).unwrap();
}

/// Kernels are correct, so they need no more reconvergence than is promised.
#[test]
fn kernels_need_no_more_reconvergence_than_is_promised() {
    let mut failures = Vec::new();
    for (seed, kernel) in testing::kernels().into_iter().enumerate() {
        let config = Config { reconvergence: Reconvergence::Promised(seed as u64), ..Config::default() };
        if let Err(why) = check(&kernel.words(), &kernel.case(), config) {
            failures.push(format!("{kernel}: {why}"));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
