//! Generated modules give the same results in every way that they can be run: natively on the device, by the
//! interpreter, and lowered. `cooprun smith` does the same at length.

use coop_cli::args::TargetArg;
use coop_cli::smith::{Differential, Row, Tally, entropy, shrink, try_seed};
use coop_exec::vulkan::VulkanExecutor;
use coop_exec::{Case, vulkan_test};
use coop_ir::smith::{Dialect, Limits, Profile, generate};
use coop_ir::{Module, text};
use coop_passes::Target;
use std::path::Path;

/// Modules of a dialect that the device runs.
const ON_DEVICE: u64 = 40;
/// The most entropy for each: drivers take their time to compile large modules.
const BYTES: usize = 100;
/// Modules of a dialect that the interpreter alone runs.
const INTERPRETED: u64 = 20;
/// Modules of each other dialect that run lowered on the device.
const LOWERED: u64 = 8;

fn run_all(differential: &Differential<'_, '_>, profile: Profile, seeds: std::ops::Range<u64>) -> Row {
    run_until(differential, profile, seeds, |_| false)
}

/// Runs the modules of seeds, one by one, until that is enough.
fn run_until(
    differential: &Differential<'_, '_>,
    profile: Profile,
    seeds: std::ops::Range<u64>,
    enough: impl Fn(&Row) -> bool,
) -> Row {
    let mut tally = Tally::default();
    let mut failures = Vec::new();
    for seed in seeds {
        if let Err(trouble) = try_seed(differential, (seed, &entropy(seed, BYTES)), profile, None, &mut tally) {
            failures.push(format!("seed {seed} ({profile}): {}", trouble.message));
        }
        if enough(&tally.total()) {
            break;
        }
    }
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
    tally.total()
}

fn differential<'a, 'v>(device: Option<&'a VulkanExecutor<'v>>) -> Differential<'a, 'v> {
    Differential {
        device,
        lowered_only: false,
        interpret: true,
        placements: 3,
        targets: vec![Target::Scalar],
        cut_for: None,
        validator: None,
    }
}

fn count(row: &Row, what: &str) -> u64 {
    row.runs.get(what).copied().unwrap_or(0)
}

vulkan_test!(
    Lavapipe,
    fn generated_modules_run_alike_in_every_way(device) {
        let d = differential(Some(device));
        let row = run_all(&d, Profile::DEVICE8, 0..ON_DEVICE);
        assert!(count(&row, "original vulkan") >= ON_DEVICE * 9 / 10, "{row:?}");
        let row = run_all(&d, Profile::ANY, 0..ON_DEVICE);
        assert!(count(&row, "scalar vulkan") >= ON_DEVICE * 8 / 10, "{row:?}");
        assert!(row.refused.values().sum::<u64>() < ON_DEVICE / 5, "{row:?}");
        let flexible = Profile { dialect: Dialect::Nv2, limits: Limits::Lavapipe };
        let row = run_all(&d, flexible, 0..ON_DEVICE / 2);
        assert!(count(&row, "original vulkan") >= ON_DEVICE / 4, "{row:?}");
    }
);

#[test]
fn generated_modules_are_interpreted_alike_lowered_and_not() {
    for dialect in Dialect::ALL {
        let row = run_all(&differential(None), Profile::any(dialect), 10_000..10_000 + INTERPRETED);
        assert_eq!(row.modules, INTERPRETED);
        assert_eq!(count(&row, "original interp"), 3 * INTERPRETED);
        let lowered = count(&row, "scalar interp") + row.refused.values().sum::<u64>();
        assert_eq!(lowered, INTERPRETED, "{row:?}");
    }
}

/// A module of `testdata/passes` (what generated modules led to) or `testdata/dialects` (written for each instruction).
struct Found {
    name: String,
    module: Module,
    case: Case,
    targets: Vec<Target>,
    /// Whether a device may have the module itself.
    native: bool,
    /// Whether lavapipe takes long to compile what it becomes.
    slow: bool,
}

/// The words behind `; key:` at the top of a file.
fn header<'a>(text: &'a str, key: &str) -> Option<Vec<&'a str>> {
    let lines = text.lines().take_while(|l| l.starts_with(';'));
    let found = lines.filter_map(|l| l.trim_start_matches(';').trim().strip_prefix(key)?.strip_prefix(':')).next()?;
    Some(found.split_whitespace().collect())
}

fn found(folder: &str) -> Vec<Found> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata").join(folder);
    let files = std::fs::read_dir(&folder).expect("the folder").flatten().map(|e| e.path());
    let usual = if folder.ends_with("dialects") { vec!["scalar", "khr"] } else { vec!["scalar"] };
    let mut all: Vec<Found> = files
        .filter(|p| p.extension().is_some_and(|e| e == "spvasm"))
        .map(|p| {
            let name = p.file_stem().map_or_else(String::new, |s| s.to_string_lossy().into_owned());
            let source = std::fs::read_to_string(&p).expect("readable");
            let module = text::parse(&source).unwrap_or_else(|e| panic!("{name}: {e}"));
            let case = Case::load(&p.with_extension("toml")).unwrap_or_else(|e| panic!("{name}: {e}"));
            let target = |n: &&str| <TargetArg as clap::ValueEnum>::from_str(n, false).map(Target::from);
            let names = header(&source, "targets").unwrap_or(usual.clone());
            let targets = names.iter().map(target).collect::<Result<_, _>>().unwrap_or_else(|e| panic!("{name}: {e}"));
            let native = header(&source, "native").is_none_or(|w| w != ["no"]);
            let slow = header(&source, "slow").is_some();
            Found { name, module, case, targets, native, slow }
        })
        .collect();
    all.sort_by(|a, b| a.name.cmp(&b.name));
    assert!(!all.is_empty());
    all
}

fn run_found(all: Vec<Found>, device: Option<&VulkanExecutor<'_>>, ways: u64) {
    for f in all {
        let differential =
            Differential { device: device.filter(|_| f.native), targets: f.targets.clone(), ..differential(None) };
        for salt in 0..ways {
            let mut row = Row::default();
            let profile = Profile { dialect: Dialect::Khr, limits: Limits::Lavapipe };
            let result = differential.check_case(profile, &f.module, &f.case, salt, &mut row);
            result.unwrap_or_else(|t| panic!("{}: {}", f.name, t.message));
            assert!(row.refused.is_empty(), "{}: {row:?}", f.name);
            for target in &f.targets {
                assert_eq!(count(&row, &format!("{target} interp")), 1, "{}: {row:?}", f.name);
            }
        }
    }
}

#[test]
fn what_was_found_once_is_interpreted_alike() {
    run_found(found("passes"), None, 6);
}

vulkan_test!(
    Lavapipe,
    fn what_was_found_once_runs_alike(device) {
        run_found(found("passes"), Some(device), 6);
    }
);

#[test]
fn dialects_are_interpreted_as_expected_lowered_and_not() {
    run_found(found("dialects"), None, 3);
}

vulkan_test!(
    Lavapipe,
    fn dialects_run_as_expected_lowered(device) {
        run_found(found("dialects").into_iter().filter(|f| !f.slow).collect(), Some(device), 1);
    }
);

vulkan_test!(
    #[ignore = "takes minutes"]
    Lavapipe,
    fn slow_dialects_run_as_expected_lowered(device) {
        run_found(found("dialects").into_iter().filter(|f| f.slow).collect(), Some(device), 1);
    }
);

vulkan_test!(
    Lavapipe,
    fn generated_modules_of_other_dialects_run_alike_lowered(device) {
        let targets = vec![Target::Scalar, Target::Khr];
        let d = Differential { targets, ..differential(Some(device)) };
        let ran = |row: &Row, what: &str| count(row, what) >= LOWERED;
        for dialect in [Dialect::Intel, Dialect::Arm] {
            let profile = Profile { dialect, limits: Limits::Tiles };
            let row = run_until(&d, profile, 0..4 * LOWERED, |row| ran(row, "khr vulkan") && ran(row, "scalar vulkan"));
            // What the driver is known to get wrong does not count.
            assert!(ran(&row, "khr vulkan") && ran(&row, "scalar vulkan"), "{row:?}");
        }
        let scalar = Differential { targets: vec![Target::Scalar], ..differential(Some(device)) };
        let row = run_until(&scalar, Profile::any(Dialect::Qcom), 0..4 * LOWERED, |row| ran(row, "scalar vulkan"));
        assert!(ran(&row, "scalar vulkan"), "{row:?}");
    }
);

vulkan_test!(
    Lavapipe,
    fn what_takes_the_driver_down_runs_lowered(device) {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata");
        let text = std::fs::read_to_string(folder.join("hardware/stride64.spvasm")).expect("readable");
        let module = text::parse(&text).unwrap_or_else(|e| panic!("{e}"));
        let case = Case::load(&folder.join("passes/variable-initializer.toml")).unwrap_or_else(|e| panic!("{e}"));
        let mut row = Row::default();
        // Not natively: docs/drivers.md.
        let result = differential(Some(device)).check_case(Profile::DEVICE8, &module, &case, 0, &mut row);
        result.unwrap_or_else(|t| panic!("{}", t.message));
        assert!(row.skipped.keys().any(|k| k.contains("64 bits")), "{row:?}");
        assert_eq!(count(&row, "scalar vulkan"), 1, "{row:?}");
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
    let Found { module, case, .. } =
        found("passes").into_iter().find(|f| f.name == "variable-initializer").expect("there");
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
    // Of the interpreter's placements, the replicated one has twice the length.
    let trouble = differential(None).check_case(Profile::DEVICE8, &module, &case, 8, &mut Row::default());
    let trouble = trouble.expect_err("the results differ");
    assert!(trouble.class.contains("differs"), "{}", trouble.message);
}

/// The id that an instruction defines.
fn operand(text: &str, what: &str) -> String {
    let line = text.lines().find(|l| l.contains(what)).expect("the instruction");
    line.split('=').next().expect("an id").trim().to_owned()
}
