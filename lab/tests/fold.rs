//! Folding leaves what a module computes alone: generated control flow, in which constants decide some branches, stays
//! valid and writes the same.

use coop_exec::interp::{Config, FindingKind, Interpreter, Memory};
use coop_exec::random::Random;
use coop_ir::builder::Globals;
use coop_ir::constant::Specialization;
use coop_ir::spv::Capability;
use coop_ir::{Module, Op, Operand, binary, verify};
use coop_lab::campaign::entropy;
use coop_lab::generator::diverge::{Constructs, PUSH_WORDS, WORDS, diverge_with};
use coop_passes::{Options, PASSES, Target, lower};
use std::io::Write;
use std::process::{Command, Stdio};

#[path = "../../ir/tests/common/mod.rs"]
mod common;

/// Makes constants of some conditions and selectors: of one branch in three.
fn decide(m: &mut Module, random: &mut Random) -> u32 {
    let mut globals = Globals::new(m);
    let mut decided = 0;
    for r in m.all().collect::<Vec<_>>() {
        let inst = m.inst(r).clone();
        if random.integer(0, 2) != 0 {
            continue;
        }
        let constant = match inst.op {
            Op::BranchConditional => globals.boolean(m, random.integer(0, 1) == 1),
            Op::Switch => globals.u32(m, random.integer(0, 4) as u32),
            _ => continue,
        };
        m.inst_mut(r).operands[0] = Operand::Id(constant);
        decided += 1;
    }
    decided
}

/// Runs the passes up to folding.
fn folded(m: &Module) -> Result<Module, String> {
    let mut options = Options::new(Target::Scalar);
    let passes = PASSES.iter().filter(|p| p.targets.contains(&Target::Scalar));
    options.fuel = passes.map(|p| p.name).position(|name| name == "fold").map(|at| at + 1);
    options.spec_defaults = true;
    options.verify_each = true;
    lower(m, &options).map(|lowered| lowered.module).map_err(|e| e.to_string())
}

/// Returns what a module writes; `None` if it does something that is not defined.
fn written(m: &Module, seed: u64) -> Option<Vec<Vec<u8>>> {
    let config = Config { subgroup_size: 8, step_budget: 20_000, ..Config::default() };
    let defaults = Specialization::new();
    let interpreter = Interpreter::new(m, None, &defaults, config).expect("the interpreter runs it");
    let mut random = Random::new(seed);
    let mut words = |n: u32| -> Vec<u8> { (0..n).flat_map(|_| (random.integer(0, 9) as u32).to_le_bytes()).collect() };
    let floats = (0..4096).flat_map(|i| ((i % 7) as f32).to_le_bytes()).collect();
    let memory = |binding: u32, bytes| Memory { name: format!("b{binding}"), slot: Some((0, binding)), bytes };
    let mut buffers = vec![memory(0, words(WORDS)), memory(1, words(WORDS)), memory(2, floats)];
    let report = interpreter.run(&mut buffers, &words(PUSH_WORDS), [2, 1, 1]).ok()?;
    let portable = |kind| matches!(kind, FindingKind::Portability | FindingKind::Placement);
    let defined = report.findings.iter().all(|f| portable(f.kind));
    defined.then(|| buffers.into_iter().map(|b| b.bytes).collect())
}

fn validate(m: &Module) -> Result<(), String> {
    let Some(tool) = common::tools::tool("spirv-val") else { return Ok(()) };
    let mut child = Command::new(tool)
        .args(["--target-env", "vulkan1.4", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("spirv-val starts");
    child.stdin.take().expect("a pipe").write_all(&binary::write(m)).expect("written");
    let output = child.wait_with_output().expect("spirv-val ends");
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
}

#[test]
fn generated_control_flow_stays_what_it_is() {
    let (mut compared, mut smaller) = (0, 0);
    for seed in 0..500 {
        let made = diverge_with(&entropy(seed, 40 + seed as usize * 7 % 500), Constructs::All);
        let mut module = made.module;
        // Kernels are not folded, and OpKill stands for another instruction.
        if module.has_capability(Capability::Kernel) || module.all().any(|r| module.inst(r).op == Op::Kill) {
            continue;
        }
        let mut random = Random::new(seed);
        if decide(&mut module, &mut random) == 0 {
            continue;
        }
        verify::verify(&module).unwrap_or_else(|p| panic!("seed {seed}: {}", p[0]));
        let after = folded(&module).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        smaller += u32::from(after.all().count() < module.all().count());
        if seed % 5 == 0 {
            validate(&after).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        }
        for data in 0..2 {
            let Some(wanted) = written(&module, seed ^ data) else { continue };
            assert_eq!(written(&after, seed ^ data).as_ref(), Some(&wanted), "seed {seed}, data {data}");
            compared += 1;
        }
    }
    assert!(compared > 60 && smaller > 80, "{compared} runs were compared, {smaller} modules became smaller");
}
