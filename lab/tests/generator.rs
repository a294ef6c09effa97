//! Generated modules are what `coop_lab::generator` promises of them, as far as that shows without running them.

use coop_device::Profile;
use coop_exec::Case;
use coop_ir::spv::Capability;
use coop_ir::{Module, Op, binary, text, verify};
use coop_lab::generator::diverge::{Constructs, diverge_with};
use coop_lab::generator::{Dialect, GeneratorProfile, Limits, generate};
use coop_passes::{Options, Target, lower};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

#[path = "../../ir/tests/common/mod.rs"]
mod common;

fn profiles() -> impl Iterator<Item = GeneratorProfile> {
    let dialects = Dialect::ALL.into_iter().chain([Dialect::Kernel]);
    let all = dialects.flat_map(|dialect| Limits::ALL.map(|limits| GeneratorProfile { dialect, limits }));
    all.filter(|p| p.dialect.has(p.limits))
}

fn entropy(seed: u64, len: usize) -> Vec<u8> {
    let mut random = common::Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    (0..len).map(|_| random.below(256) as u8).collect()
}

fn validate(tool: &Path, module: &Module, environment: &str) -> Result<(), String> {
    let mut child = Command::new(tool)
        .args(["--target-env", environment, "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("spirv-val starts");
    let written = child.stdin.take().expect("a pipe").write_all(&binary::write(module));
    let output = child.wait_with_output().expect("spirv-val ends");
    written.map_err(|e| e.to_string())?;
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
}

#[test]
fn generated_modules_are_valid() {
    let tool = common::tools::tool("spirv-val");
    let mut made: BTreeMap<&str, u32> = BTreeMap::new();
    for profile in profiles() {
        for seed in 0..80 {
            let bytes = entropy(seed, 40 + seed as usize * 5 % 400);
            let what = format!("{profile} from seed {seed}");
            let generated = generate(profile, &bytes);
            let module = &generated.module;
            verify::verify(module).unwrap_or_else(|p| panic!("{what}: {}", p[0]));
            let words = binary::write_words(module);
            let again = binary::read_words(&words).unwrap_or_else(|e| panic!("{what}: {e}"));
            assert_eq!(binary::write_words(&again), words, "{what}: written, read and written");
            assert_eq!(binary::write_words(&generate(profile, &bytes).module), words, "{what}: the same again");
            // It does not know SPV_INTEL_joint_matrix, and refuses selections of matrices (docs/vs-spirv-val.md).
            let selects = |r| {
                let inst = module.inst(r);
                inst.op == Op::Select
                    && inst
                        .ty
                        .and_then(|t| module.def_inst(t))
                        .is_some_and(|t| matches!(t.op, Op::TypeCooperativeMatrixKHR | Op::TypeCooperativeMatrixNV))
            };
            let known = !matches!(profile.dialect, Dialect::Intel | Dialect::Kernel) && !module.all().any(selects);
            if let Some(tool) = tool.as_ref().filter(|_| known && seed % 4 == 0) {
                validate(tool, module, "vulkan1.4").unwrap_or_else(|e| panic!("{what}: {e}"));
            }
            for (key, count) in generated.made {
                *made.entry(key).or_default() += count;
            }
        }
    }
    assert!(made.len() > 115, "{} constructs were made: {made:#?}", made.len());
}

#[test]
fn diverging_modules_are_valid() {
    let tool = common::tools::tool("spirv-val");
    for constructs in [Constructs::Basic, Constructs::All] {
        let kinds = diverging(constructs, tool.as_deref());
        let all = if constructs == Constructs::All { 12 } else { 6 };
        assert!(kinds.values().all(|n| *n >= 3) && kinds.len() == all, "{kinds:?}");
    }
}

/// Counts the constructs of 200 modules, which are validated.
fn diverging(constructs: Constructs, tool: Option<&Path>) -> BTreeMap<&'static str, u32> {
    let mut kinds: BTreeMap<&str, u32> = BTreeMap::new();
    for seed in 0..200 {
        let bytes = entropy(seed, 40 + seed as usize * 7 % 500);
        let made = diverge_with(&bytes, constructs);
        let module = made.module;
        verify::verify(&module).unwrap_or_else(|p| panic!("seed {seed}: {}", p[0]));
        let again = diverge_with(&bytes, constructs).module;
        assert_eq!(binary::write_words(&again), binary::write_words(&module), "seed {seed}");
        let kernel = module.has_capability(Capability::Kernel);
        let insts = || module.functions.iter().flat_map(|f| &f.blocks).flat_map(|b| &b.insts).map(|r| module.inst(*r));
        let has = |op: Op| insts().any(|i| i.op == op);
        let kills = has(Op::Kill);
        *kinds.entry(if kernel { "kernel" } else { "shader" }).or_default() += 1;
        for (what, has) in [
            ("kill", kills),
            ("loop", has(Op::LoopMerge)),
            ("switch", has(Op::Switch)),
            ("unreachable", has(Op::Unreachable)),
        ] {
            *kinds.entry(what).or_default() += u32::from(has);
        }
        if constructs == Constructs::All {
            for (what, has) in [
                ("volatile", insts().any(|i| i.op == Op::Load && i.word(1).is_some_and(|m| m & 1 != 0))),
                ("atomic", has(Op::AtomicIAdd)),
                ("extended", has(Op::ExtInst)),
                ("tensor", has(Op::CooperativeMatrixLoadTensorNV)),
                ("long", has(Op::UConvert)),
                ("one", made.local_size == [1, 1, 1]),
            ] {
                *kinds.entry(what).or_default() += u32::from(has);
            }
        }
        if let Some(tool) = tool.filter(|_| !kills && seed % 5 == 0) {
            let environment = if kernel { "spv1.6" } else { "vulkan1.4" };
            validate(tool, &module, environment).unwrap_or_else(|e| panic!("{constructs:?} seed {seed}: {e}"));
        }
    }
    kinds
}

#[test]
fn printed_modules_read_back() {
    for profile in profiles() {
        for seed in 0..30 {
            let module = generate(profile, &entropy(seed, 300)).module;
            let options = text::PrintOptions { friendly_names: false, ..Default::default() };
            let printed = text::print(&module, &options).text;
            let parsed = text::parse(&printed).unwrap_or_else(|e| panic!("{profile} from seed {seed}: {e}"));
            assert_eq!(binary::write_words(&parsed), binary::write_words(&module), "{profile} from seed {seed}");
        }
    }
}

#[test]
fn bytes_that_are_not_asked_for_change_nothing() {
    for profile in profiles() {
        for seed in 0..50 {
            let bytes = entropy(seed, 200);
            let module = generate(profile, &bytes);
            let mut more = bytes.clone();
            more.resize(module.used.max(200), 0);
            more.extend([17, 34, 51]);
            let words = |m: &Module| binary::write_words(m);
            assert_eq!(words(&generate(profile, &more).module), words(&module.module), "{profile} seed {seed}");
        }
        // No entropy at all: the least module.
        let least = generate(profile, &[]);
        assert!(verify::verify(&least.module).is_ok());
        assert!(least.made.contains_key("store"), "{:?}", least.made);
    }
}

/// Loops of products are among generated modules, in such forms that scalar code fetches factors an iteration ahead, and divides K among groups
/// of lanes.
#[test]
fn loops_of_products_are_fetched_ahead_and_divided() {
    let h100 = Profile::builtin("nvidia-h100").expect("built in");
    let (mut loops, mut ahead, mut divided) = (0, 0, [0, 0]);
    for (n, limits) in [Limits::Nvidia, Limits::Any].into_iter().enumerate() {
        let profile = GeneratorProfile { dialect: Dialect::Nv2, limits };
        for seed in 0..400 {
            let made = generate(profile, &entropy(seed, 600));
            loops += u32::from(made.made.contains_key("loop of products"));
            let case = Case::parse(&made.case, Path::new("")).expect("a case");
            let mut options = Options::new(Target::Scalar);
            options.spec = case.specialization().expect("constants");
            options.subgroup_size = Some(profile.lanes());
            options.profile = Some(&h100).filter(|_| limits == Limits::Nvidia);
            let Ok(lowered) = lower(&made.module, &options) else { continue };
            let m = lowered.module;
            let names = || m.globals_with(Op::Name).filter_map(|r| Some(m.inst(r).string(1)?.0));
            ahead += u32::from(names().any(|name| name.starts_with("coop_fetch_first")));
            divided[n] += u32::from(names().any(|name| name.starts_with("coop_sum_") && name.contains("_parts_")));
        }
    }
    assert!(
        loops > 80 && ahead > 8 && divided[0] > 2 && divided[1] > 9,
        "{loops} loops of products, {ahead} fetched ahead, {divided:?} with K divided among groups"
    );
}
