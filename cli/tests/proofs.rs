//! The lowerings of every kernel are proved to store what the original stores, for all contents of the data buffers.

use coop_device::Profile;
use coop_exec::interp::{Arithmetic, Config, Interpreted};
use coop_exec::proof::{Options, Proof, Prover, Verdict};
use coop_exec::{Case, testing};
use coop_ir::{Module, Op, binary};
use coop_passes::{Lowered, Target, lower};

/// The kernels whose lowerings are not proved to be right, with a part of the reason.
const OPEN: &[(&str, &str)] = &[];

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
    Options { arithmetic: Arithmetic::Reals, seed: 1, fixed: Vec::new(), explain: true }
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
                (Verdict::NotProvable(said), Some((_, why))) if said.message.contains(why) => {}
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

fn tool(path: &str, arguments: &[&str]) -> (i32, String, String) {
    let mut command = std::process::Command::new(path);
    let output = command.args(arguments).current_dir(testing::repository()).output().expect("it runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap_or(-1), text(&output.stdout), text(&output.stderr))
}

fn cooprun(arguments: &[&str]) -> (i32, String, String) {
    tool(env!("CARGO_BIN_EXE_cooprun"), arguments)
}

const SIMPLE: &str = "testdata/kernels/gemm_simple.spv";
const SIMPLE_CASE: &str = "testdata/kernels/gemm_simple.toml";

#[test]
fn exit_statuses_and_json() {
    let target = ["--target", "scalar", "--profile", "mesa-lavapipe"];
    let proof = |module: &str, case: &str, more: &[&str]| cooprun(&[&["prove", module, "--case", case], more].concat());
    let (status, out, _) = proof(SIMPLE, SIMPLE_CASE, &target);
    assert_eq!(status, 0, "{out}");
    assert!(out.starts_with("proved: 512 stored elements agree for all contents of A, B, C (reals; "), "{out}");
    assert!(out.contains("original: 6 of 6 blocks executed"), "{out}");
    let (status, out, _) = proof(SIMPLE, SIMPLE_CASE, &[&target[..], &["--json"]].concat());
    let json: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!((status, &json["verdict"], &json["stored"]), (0, &"proved".into(), &512.into()));
    // Neither: scalar code rounds in other places than a product of matrices in f16.
    let (module, case) = ("testdata/kernels/gemm_f16acc.spv", "testdata/kernels/gemm_f16acc.toml");
    let (status, out, _) = proof(module, case, &[&target[..], &["--mode", "rounding"]].concat());
    assert!(status == 3 && out.starts_with("not provable: "), "{status} {out}");
    // Another module, which multiplies other types.
    let other = ["--lowered", "testdata/kernels/crosstype_i8.spv", "--subgroup-size", "8"];
    let (status, out, _) = proof(SIMPLE, SIMPLE_CASE, &[&other[..], &["--json"]].concat());
    let json: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!((status, &json["verdict"], &json["ok"]), (1, &"refuted".into(), &false.into()), "{out}");
    // Wrong usage.
    for more in
        [&["--fixed", "nothing"][..], &["--mode", "guess"], &["--placement", "all"], &["--lowered", "no-such-file"]]
    {
        let (status, out, err) = proof(SIMPLE, SIMPLE_CASE, &[more, &["--subgroup-size", "8"]].concat());
        assert!(status == 2 && out.is_empty() && err.starts_with("error: "), "{more:?}: {status} {out}{err}");
    }
    let (status, out, _) = proof(SIMPLE, SIMPLE_CASE, &[&target[..], &["--fixed", "A"]].concat());
    assert!(status == 0 && out.contains("contents of B, C ("), "{out}");
}

#[test]
fn cooplower_writes_only_what_it_proves() {
    let lower = |module: &str, case: &str, path: &std::path::Path| {
        let _ = std::fs::remove_file(path);
        let spec = ["--spec", "0=8", "--spec", "1=8", "--spec", "2=8", "--spec", "3=8"];
        let common = ["--target", "scalar", "--subgroup-size", "8", "--prove", case, module, "-o"];
        let path = path.to_str().expect("UTF-8");
        tool(env!("CARGO_BIN_EXE_cooplower"), &[&common[..], &[path], &spec].concat())
    };
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("proved.spv");
    let (status, _, err) = lower(SIMPLE, SIMPLE_CASE, &path);
    assert!(status == 0 && path.exists() && err.contains("proved: 512 stored elements"), "{status} {err}");
    // Its buffers are not compared.
    let (module, case) = ("testdata/hardware/once.workgroup.spv", "testdata/hardware/once.workgroup.toml");
    let (status, _, err) = lower(module, case, &path);
    assert!(status == 3 && !path.exists() && err.contains("nothing is written"), "{status} {err}");
    let (status, _, err) = lower(SIMPLE, "no-such-case.toml", &path);
    assert!(status == 2 && !path.exists() && err.starts_with("error: --prove"), "{status} {err}");
}

/// A module that was lowered wrongly once (`testdata/mended`).
struct Mended {
    name: &'static str,
    profile: Option<&'static str>,
    target: Target,
    size: u32,
    /// The subgroup size that the lowered module runs with, if it is another one.
    lowered_size: Option<u32>,
    /// A part of the refutation.
    refuted: &'static str,
    /// The rule by which it is refused today, if it is not lowered rightly.
    today: Option<&'static str>,
}

const MENDED: &[Mended] = &[
    Mended {
        name: "unaligned-load",
        profile: Some("mesa-lavapipe"),
        target: Target::Khr,
        size: 8,
        lowered_size: None,
        refuted: "the first is b[8]",
        today: None,
    },
    Mended {
        name: "unaligned-store",
        profile: Some("nvidia-h100"),
        target: Target::Khr,
        size: 32,
        lowered_size: None,
        refuted: "writes byte 16 of b",
        today: None,
    },
    Mended {
        name: "array-stride",
        profile: Some("mesa-lavapipe"),
        target: Target::Scalar,
        size: 8,
        lowered_size: None,
        refuted: "the first is out[1]",
        today: None,
    },
    Mended {
        name: "array-stride-khr",
        profile: Some("mesa-lavapipe"),
        target: Target::Khr,
        size: 8,
        lowered_size: None,
        refuted: "the first is out[8]",
        today: None,
    },
    Mended {
        name: "array-stride-vectors",
        profile: Some("mesa-lavapipe"),
        target: Target::Scalar,
        size: 8,
        lowered_size: None,
        refuted: "the first is out[2]",
        today: None,
    },
    Mended {
        name: "saturated-conversion",
        profile: None,
        target: Target::Scalar,
        size: 32,
        lowered_size: None,
        refuted: "300 is converted to u8",
        today: None,
    },
    Mended {
        name: "group-sum",
        profile: None,
        target: Target::Scalar,
        size: 32,
        lowered_size: Some(8),
        refuted: "the first is B[0]",
        today: Some("refused-lanes"),
    },
];

/// A wrong lowering of an older commit is refuted, with the element, and the one of today is proved.
#[test]
fn mended_defects_are_refuted() {
    let folder = testing::repository().join("testdata/mended");
    let mut failures = Vec::new();
    for Mended { name, profile, target, size, lowered_size, refuted, today } in MENDED {
        let read = |file: String| {
            let text = std::fs::read_to_string(folder.join(&file)).unwrap_or_else(|error| panic!("{file}: {error}"));
            coop_ir::text::parse(&text).unwrap_or_else(|error| panic!("{file}: {error}"))
        };
        let (module, broken) = (read(format!("{name}.spvasm")), read(format!("{name}.lowered.spvasm")));
        let mut case = Case::load(&folder.join(format!("{name}.toml"))).expect("a case");
        case.subgroup_size = Some(*size);
        let mut asked = case.clone();
        asked.subgroup_size = lowered_size.or(case.subgroup_size);
        let profile = profile.map(|name| Profile::builtin(name).expect("built in"));
        let target_options = coop_passes::Options {
            spec_defaults: true,
            profile: profile.as_ref(),
            subgroup_size: Some(*size),
            lanes: if lowered_size.is_some() { coop_passes::Lanes::LocalIndex } else { coop_passes::Lanes::Subgroup },
            ..coop_passes::Options::new(*target)
        };
        let asking = options();
        let mut prover = Prover::new(interpreter(), &module, &case, &asking).expect("the case fits");
        let proof = prover.prove(&broken, &asked).expect("both run");
        match &proof.verdict {
            Verdict::Refuted(why) if why.contains(refuted) => {}
            _ => failures.push(format!("{name}: {proof}")),
        }
        match (lower(&module, &target_options), today) {
            (Ok(lowered), None) => {
                let proof = prover.prove(&lowered.module, &asked).expect("both run");
                if !proof.is_proved() {
                    failures.push(format!("{name} today: {proof}"));
                }
            }
            (Err(coop_passes::Error::Refused(refusal)), Some(rule)) if refusal.rule == *rule => {}
            (outcome, _) => failures.push(format!("{name} today: {:?}", outcome.map(|_| "lowered"))),
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
