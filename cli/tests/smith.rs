//! Generated modules give the same results in every way that they can be run: natively on the device, by the
//! interpreter, and lowered to scalar code for subgroups of several sizes. `cooprun smith` does the same at length.

use coop_cli::smith::{Differential, Tally, entropy, profile, shrink, try_seed};
use coop_exec::vulkan::VulkanExecutor;
use coop_exec::{Case, vulkan_test};
use coop_ir::smith::{Profile, generate};
use coop_ir::{Module, text};
use std::path::Path;

/// Modules that the device runs, and how many of them the interpreter runs as well: one of so many.
const ON_DEVICE: u64 = 80;
const EACH: u64 = 5;
/// The most entropy for each: drivers take their time to compile large modules.
const BYTES: usize = 100;
/// Modules that the interpreter alone runs.
const INTERPRETED: u64 = 20;

fn run_all(device: Option<&VulkanExecutor<'_>>, seeds: std::ops::Range<u64>) -> Tally {
    let mut tally = Tally::default();
    let mut failures = Vec::new();
    for seed in seeds {
        let differential = Differential { device, interpret: device.is_none() || seed % EACH == 0 };
        if let Err(trouble) = try_seed(&differential, (seed, &entropy(seed, BYTES)), profile(seed), None, &mut tally) {
            failures.push(format!("seed {seed} ({:?}): {}", profile(seed), trouble.message));
        }
    }
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
    tally
}

vulkan_test!(
    Lavapipe,
    fn generated_modules_run_alike_in_every_way(device) {
        let tally = run_all(Some(device), 0..ON_DEVICE);
        let native = tally.runs.get("native").copied().unwrap_or(0);
        assert!(native >= ON_DEVICE / 3, "{native} modules ran natively: {tally:?}");
        assert!(tally.refused.values().sum::<u64>() < ON_DEVICE / 2, "{tally:?}");
    }
);

#[test]
fn generated_modules_are_interpreted_alike_lowered_and_not() {
    let tally = run_all(None, 10_000..10_000 + INTERPRETED);
    assert_eq!(tally.modules, INTERPRETED);
    assert!(tally.runs.len() >= 8, "{tally:?}");
}

/// What generated modules found, by name: `testdata/passes`.
fn found() -> Vec<(String, Module, Case)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata/passes");
    let files = std::fs::read_dir(&folder).expect("testdata/passes").flatten().map(|e| e.path());
    let mut all: Vec<_> = files
        .filter(|p| p.extension().is_some_and(|e| e == "spvasm"))
        .map(|p| {
            let name = p.file_stem().map_or_else(String::new, |s| s.to_string_lossy().into_owned());
            let text = std::fs::read_to_string(&p).expect("readable");
            let module = text::parse(&text).unwrap_or_else(|e| panic!("{name}: {e}"));
            let case = Case::load(&p.with_extension("toml")).unwrap_or_else(|e| panic!("{name}: {e}"));
            (name, module, case)
        })
        .collect();
    all.sort_by(|a, b| a.0.cmp(&b.0));
    assert!(!all.is_empty());
    all
}

fn run_found(device: Option<&VulkanExecutor<'_>>) {
    for (name, module, case) in found() {
        let differential = Differential { device, interpret: true };
        let mut tally = Tally::default();
        let result = differential.check_case(Profile::DEVICE8, &module, &case, 0, &mut tally);
        result.unwrap_or_else(|t| panic!("{name}: {}", t.message));
        assert!(tally.refused.is_empty() && tally.runs.len() >= 4, "{name}: {tally:?}");
    }
}

#[test]
fn what_was_found_once_is_interpreted_alike() {
    run_found(None);
}

vulkan_test!(
    Lavapipe,
    fn what_was_found_once_runs_alike(device) {
        run_found(Some(device));
    }
);

vulkan_test!(
    Lavapipe,
    fn what_takes_the_driver_down_runs_lowered(device) {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata");
        let text = std::fs::read_to_string(folder.join("hardware/stride64.spvasm")).expect("readable");
        let module = text::parse(&text).unwrap_or_else(|e| panic!("{e}"));
        let case = Case::load(&folder.join("passes/variable-initializer.toml")).unwrap_or_else(|e| panic!("{e}"));
        let differential = Differential { device: Some(device), interpret: true };
        let mut tally = Tally::default();
        // Not natively: docs/hardware.md.
        let result = differential.check_case(Profile::ANY, &module, &case, 0, &mut tally);
        result.unwrap_or_else(|t| panic!("{}", t.message));
        assert!(tally.runs.len() >= 4, "{tally:?}");
    }
);

#[test]
fn entropy_shrinks() {
    let bytes = entropy(7, 4000);
    let stores = |bytes: &[u8]| {
        let made = generate(Profile::ANY, bytes);
        made.made.iter().filter(|(k, _)| k.starts_with("store")).map(|(_, n)| n).sum::<u32>()
    };
    assert!(stores(&bytes) > 1);
    let small = shrink(&bytes, 1000, &mut |b| stores(b) > 1);
    assert!(stores(&small) > 1 && small.len() < bytes.len() / 4, "{} of {} bytes", small.len(), bytes.len());
}

/// Whose results differ by subgroup size must be noticed: what is written is the number of elements that an
/// invocation holds.
#[test]
fn a_module_that_depends_on_placement_is_noticed() {
    let (_, module, case) = found().into_iter().find(|f| f.0 == "variable-initializer").expect("there");
    let text = text::print(&module, &text::PrintOptions { friendly_names: false, ..Default::default() }).text;
    let load = text.lines().find(|l| l.contains("OpLoad")).expect("a load");
    let id = load.split('=').next().expect("an id").trim();
    let mat = load.split_whitespace().nth(3).expect("a type");
    let (float, uint) = (operand(&text, "OpTypeFloat 32"), operand(&text, "OpTypeInt 32 0"));
    let changed = format!(
        "%9001 = OpCooperativeMatrixLengthKHR {uint} {mat}\n%9002 = OpConvertUToF {float} %9001\n\
         {id} = OpCompositeConstruct {mat} %9002"
    );
    let module = text::parse(&text.replace(load, &changed)).unwrap_or_else(|e| panic!("{e}\n{changed}"));
    let differential = Differential { device: None, interpret: true };
    // Of the interpreter's placements, the replicated one has twice the length.
    let trouble = differential.check_case(Profile::DEVICE8, &module, &case, 32, &mut Tally::default());
    let trouble = trouble.expect_err("the results differ");
    assert!(trouble.class.contains("differs"), "{}", trouble.message);
}

/// The id that an instruction defines.
fn operand(text: &str, what: &str) -> String {
    let line = text.lines().find(|l| l.contains(what)).expect("the instruction");
    line.split('=').next().expect("an id").trim().to_owned()
}
