//! The lowerings of every kernel are proved to store what the original stores, for all contents of the data buffers.

use coop_device::Profile;
use coop_exec::interp::{Arithmetic, Config, Interpreted};
use coop_exec::proof::{Options, Proof, Prover, Verdict};
use coop_exec::{Case, testing};
use coop_ir::{Module, Op, binary};
use coop_passes::{Lowered, Target, lower};

/// What a proof says of a kernel's lowerings, where it is not that they are right.
const OPEN: &[(&str, &str)] = &[
    // What is clamped at each of several steps is not known to be what is clamped once.
    ("gemm_i8_sat", "a law that is not known here"),
];

fn profile() -> Profile {
    Profile::builtin("mesa-lavapipe").expect("built in")
}

fn interpreter() -> Interpreted {
    // Loops of broken modules may never end.
    Interpreted { config: Config { subgroup_size: 8, step_budget: 300_000, ..Config::default() } }
}

fn lowered(module: &Module, case: &Case, target: Target) -> Result<Lowered, coop_passes::Error> {
    let profile = profile();
    let options = coop_passes::Options {
        spec: case.specialization().expect("values"),
        spec_defaults: true,
        profile: Some(&profile),
        ..coop_passes::Options::new(target)
    };
    lower(module, &options)
}

fn options() -> Options {
    Options { arithmetic: Arithmetic::Reals, seed: 1, fixed: Vec::new() }
}

fn proved(module: &Module, case: &Case, lowered: &Module) -> Proof {
    let options = options();
    let mut prover = Prover::new(interpreter(), module, case, &options).expect("the case fits");
    prover.prove(lowered, case).expect("both run")
}

#[test]
fn lowerings_of_all_kernels_are_proved() {
    let (mut failures, mut done) = (Vec::new(), 0);
    for kernel in testing::kernels() {
        let module = binary::read_words(&kernel.words()).expect("the module is read");
        let case = kernel.case();
        for target in [Target::Scalar, Target::Khr] {
            let what = format!("{kernel} to {target}");
            let lowered = match lowered(&module, &case, target) {
                Ok(lowered) => lowered.module,
                // lavapipe's matrices have no bf16.
                Err(_) if kernel.module.starts_with("gemm_bf16") && target == Target::Khr => continue,
                Err(error) => {
                    failures.push(format!("{what}: {error}"));
                    continue;
                }
            };
            let verdict = proved(&module, &case, &lowered).verdict;
            let open = OPEN.iter().find(|(name, _)| *name == kernel.module);
            match (&verdict, open) {
                (Verdict::Proved, None) => done += 1,
                (Verdict::NotProvable(said), Some((_, why))) if said.contains(why) => {}
                _ => failures.push(format!("{what}: {verdict:?}")),
            }
        }
    }
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
    assert!(done >= 50, "only {done} are proved");
}

/// A lowering without one of its stores, for each of them.
#[test]
fn a_lowering_without_a_store_is_refuted() {
    let module =
        |name: &str| binary::read_words(&testing::words(format!("testdata/kernels/{name}.spv"))).expect("read");
    let case = testing::case("testdata/kernels/gemm_simple.toml");
    let right = lowered(&module("gemm_simple"), &case, Target::Scalar).expect("lowered").module;
    assert_eq!(proved(&module("gemm_simple"), &case, &right).verdict, Verdict::Proved);
    let (mut refuted, mut stores) = (0, 0);
    for at in right.all().filter(|at| right.inst(*at).op == Op::Store) {
        let mut broken = right.clone();
        for function in &mut broken.functions {
            for block in &mut function.blocks {
                let kept: Vec<_> = block.insts.iter().copied().filter(|other| *other != at).collect();
                block.insts = kept.into_iter().collect();
            }
        }
        stores += 1;
        refuted += usize::from(matches!(proved(&module("gemm_simple"), &case, &broken).verdict, Verdict::Refuted(_)));
    }
    assert!(stores > 0 && refuted == stores, "{refuted} of {stores} are refuted");
}
