//! Generated modules give the same results in every way that they can be run: natively on the device, by the
//! interpreter, and lowered. `cooplab campaign` does the same at length.

use coop_cli::args::TargetArg;
use coop_components::Lacks;
use coop_exec::interp::{Config, Interpreted};
use coop_exec::testing::Driver;
use coop_exec::vulkan::VulkanExecutor;
use coop_exec::{Case, vulkan_test};
use coop_ir::spv::Capability;
use coop_ir::{Module, Op, text};
use coop_lab::campaign::{Differential, Row, Tally, Without, entropy, shrink, try_seed};
use coop_lab::generator::{Dialect, GeneratorProfile, Limits, generate};
use coop_passes::Target;
use std::borrow::Cow;
use std::path::{Path, PathBuf};

/// Modules of a dialect that the device runs.
const ON_DEVICE: u64 = 40;
/// The most entropy for each: drivers take their time to compile large modules.
const BYTES: usize = 100;
/// Modules of a dialect that the interpreter alone runs.
const INTERPRETED: u64 = 20;
/// Modules of each other dialect that run lowered on the device.
const LOWERED: u64 = 8;
/// Modules of maintenance1 for each thing that is said otherwise.
const SPELLED: u64 = 5;

fn run_all(differential: &Differential<'_, '_>, profile: GeneratorProfile, seeds: std::ops::Range<u64>) -> Row {
    run_until(differential, profile, seeds, |_| false)
}

/// Runs the modules of seeds, one by one, until that is enough.
fn run_until(
    differential: &Differential<'_, '_>,
    profile: GeneratorProfile,
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
        opencl: None,
        lowered_only: false,
        interpret: true,
        placements: 3,
        targets: vec![Target::Scalar],
        tile_profile: None,
        validator: None,
        without: None,
    }
}

fn count(row: &Row, what: &str) -> u64 {
    row.runs.get(what).copied().unwrap_or(0)
}

vulkan_test!(
    Lavapipe,
    fn generated_modules_run_alike_in_every_way(device) {
        let d = differential(Some(device));
        let row = run_all(&d, GeneratorProfile::DEVICE8, 0..ON_DEVICE);
        assert!(count(&row, "original vulkan") >= ON_DEVICE * 9 / 10, "{row:?}");
        let row = run_all(&d, GeneratorProfile::ANY, 0..ON_DEVICE);
        assert!(count(&row, "scalar vulkan") >= ON_DEVICE * 8 / 10, "{row:?}");
        assert!(row.refused.values().sum::<u64>() < ON_DEVICE / 5, "{row:?}");
        let flexible = GeneratorProfile { dialect: Dialect::Nv2, limits: Limits::Lavapipe };
        let row = run_all(&d, flexible, 0..ON_DEVICE / 2);
        assert!(count(&row, "original vulkan") >= ON_DEVICE / 4, "{row:?}");
    }
);

#[test]
fn generated_modules_are_interpreted_alike_lowered_and_not() {
    for dialect in Dialect::ALL {
        let row = run_all(&differential(None), GeneratorProfile::any(dialect), 10_000..10_000 + INTERPRETED);
        assert_eq!(row.modules, INTERPRETED);
        assert_eq!(count(&row, "original interp"), 3 * INTERPRETED);
        let lowered = count(&row, "scalar interp") + row.refused.values().sum::<u64>();
        assert_eq!(lowered, INTERPRETED, "{row:?}");
    }
}

/// Scalar code without some or all component types, other ones for each module.
#[test]
fn generated_modules_without_component_types_are_interpreted_alike() {
    let mut software = 0;
    for dialect in Dialect::ALL {
        let d = Differential { without: Some(Without::Some), placements: 1, ..differential(None) };
        let row = run_all(&d, GeneratorProfile::any(dialect), 20_000..20_000 + INTERPRETED);
        let refused = row.refused.get("component types: refused-component-type").copied().unwrap_or(0);
        let lowered = count(&row, "scalar interp") + row.refused.values().sum::<u64>() - refused;
        assert_eq!(lowered, INTERPRETED, "{row:?}");
        assert!(refused <= INTERPRETED / 3, "{row:?}");
        software += count(&row, "in software");
    }
    assert!(software >= 3 * INTERPRETED, "{software}");
}

/// Matrices stay where a device lacks no more than memory of narrow numbers, other such for each module.
#[test]
fn generated_matrices_without_narrow_memory_are_interpreted_alike() {
    let targets = vec![Target::Khr];
    let d = Differential { without: Some(Without::Some), targets, placements: 1, ..differential(None) };
    for dialect in [Dialect::Nv2, Dialect::Khr] {
        let profile = GeneratorProfile { dialect, limits: Limits::Tiles };
        let row = run_all(&d, profile, 30_000..30_000 + 4 * INTERPRETED);
        assert!(count(&row, "with matrices, in software") >= 5, "{row:?}");
    }
}

/// Kernels too, and with the matrices of Intel's devices: of those that it lists with one row, of 16 bits, a column is less than
/// a word of shared memory. Three of these seeds had such.
#[test]
fn generated_kernels_are_interpreted_alike_lowered_and_not() {
    let d = Differential { targets: vec![Target::Scalar, Target::Khr], placements: 1, ..differential(None) };
    let mut tally = Tally::default();
    for seed in (3130..3180).chain([3312, 3753]) {
        let result =
            try_seed(&d, (seed, &entropy(seed, 120)), GeneratorProfile::any(Dialect::Kernel), None, &mut tally);
        result.unwrap_or_else(|t| panic!("seed {seed}: {}", t.message));
    }
    let row = tally.total();
    // What looks at elements of factors, with lanes that have no subgroup.
    let refused = row.refused.get("scalar: refused-lanes").copied().unwrap_or(0);
    assert!(refused <= 4, "{row:?}");
    assert_eq!(count(&row, "scalar interp") + refused, 52, "{row:?}");
    assert!(count(&row, "khr interp") > 20, "{row:?}");
}

/// Modules whose pointers and strides break the rules of alignment, as engines do, and with what else there is to an access:
/// the interpreter goes on, and lowered they do what is meant.
#[test]
fn unaligned_accesses_are_interpreted_alike_lowered_and_not() {
    let d = Differential { targets: vec![Target::Scalar, Target::Khr], placements: 1, ..differential(None) };
    for (dialect, kind) in [
        (Dialect::Khr, "unaligned load or store"),
        (Dialect::Nv2, "unaligned tensor access"),
        (Dialect::Nv1, "unaligned load or store"),
        (Dialect::Intel, "unaligned load or store"),
    ] {
        let mut tally = Tally::default();
        // Types that a device has, so that matrices can stay.
        let profile = GeneratorProfile { dialect, limits: Limits::Tiles };
        let has = |seed: &u64| generate(profile, &entropy(*seed, 3 * BYTES)).made.contains_key(kind);
        for seed in (20_000..).filter(has).take(2 * INTERPRETED as usize) {
            let result = try_seed(&d, (seed, &entropy(seed, 3 * BYTES)), profile, None, &mut tally);
            result.unwrap_or_else(|t| panic!("seed {seed}: {}", t.message));
        }
        let row = tally.total();
        assert!(count(&row, "scalar interp") >= INTERPRETED && count(&row, "khr interp") > 0, "{row:?}");
    }
}

/// Not even bfloat16, which becomes the integers of 16 bits that it was cast from.
#[test]
fn nothing_is_cast_to_its_own_type() {
    let mut casts = 0;
    for (dialect, seed) in (0..60).flat_map(|seed| [(Dialect::Kernel, seed), (Dialect::Intel, seed)]) {
        let made = generate(GeneratorProfile::any(dialect), &entropy(seed, 200));
        let options = coop_passes::Options { subgroup_size: Some(16), ..coop_passes::Options::new(Target::Scalar) };
        let Ok(lowered) = coop_passes::lower(&made.module, &options) else { continue };
        let m = lowered.module;
        let all = || m.functions.iter().flat_map(|f| f.insts()).map(|r| m.inst(r)).filter(|i| i.op == Op::Bitcast);
        casts += all().count();
        assert!(all().all(|i| i.id(0).and_then(|id| m.type_of(id)) != i.ty), "{} of seed {seed}", dialect.name());
    }
    assert!(casts > 20, "{casts} casts");
}

/// A module of `testdata/passes` (what generated modules led to) or `testdata/dialects` (written for each instruction).
struct Found {
    name: String,
    module: Module,
    case: Case,
    targets: Vec<Target>,
    /// True if a device may have the module itself.
    native: bool,
    /// True if lavapipe takes long to compile what it becomes.
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
    run_found_as(GeneratorProfile { dialect: Dialect::Khr, limits: Limits::Lavapipe }, all, device, ways);
}

fn run_found_as(profile: GeneratorProfile, all: Vec<Found>, device: Option<&VulkanExecutor<'_>>, ways: u64) {
    for f in all {
        let differential =
            Differential { device: device.filter(|_| f.native), targets: f.targets.clone(), ..differential(None) };
        for salt in 0..ways {
            let mut row = Row::default();
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

/// Kernels of OpenCL, for the matrices of Intel's devices.
#[test]
fn kernels_that_were_found_once_are_interpreted_alike() {
    run_found_as(GeneratorProfile::any(Dialect::Kernel), found("passes/kernels"), None, 3);
}

/// Lowered modules are valid by spirv-val too. (Some inputs are not: slang's lambdas, OpSelect of matrices.)
#[test]
fn what_was_found_once_is_valid_lowered() {
    let Some(validator) = validator() else { return };
    let lavapipe = coop_device::Profile::builtin("mesa-lavapipe").expect("a profile");
    for f in found("passes") {
        for target in f.targets {
            let options = coop_passes::Options {
                spec: f.case.specialization().expect("constants"),
                subgroup_size: Some(8),
                profile: Some(&lavapipe),
                ..coop_passes::Options::new(target)
            };
            let lowered = coop_passes::lower(&f.module, &options).unwrap_or_else(|e| panic!("{}: {e}", f.name));
            let said = spirv_val(&validator, &lowered.module);
            assert_eq!(said, "", "{} for {target}", f.name);
        }
    }
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
    #[ignore = "scripts/test.sh long runs it: lavapipe compiles for minutes"]
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
            let profile = GeneratorProfile { dialect, limits: Limits::Tiles };
            let row = run_until(&d, profile, 0..4 * LOWERED, |row| ran(row, "khr vulkan") && ran(row, "scalar vulkan"));
            // What the driver is known to get wrong does not count.
            assert!(ran(&row, "khr vulkan") && ran(&row, "scalar vulkan"), "{row:?}");
        }
        let scalar = Differential { targets: vec![Target::Scalar], ..differential(Some(device)) };
        let row = run_until(&scalar, GeneratorProfile::any(Dialect::Qcom), 0..4 * LOWERED, |row| ran(row, "scalar vulkan"));
        assert!(ran(&row, "scalar vulkan"), "{row:?}");
    }
);

/// The reasons why a module of maintenance1 can't be rewritten for SPV_NV_cooperative_matrix2.
const NO_WORDS: [&str; 4] = [
    "a conversion of a factor to an accumulator",
    "a transposition to a factor A",
    " of bf16",
    ", which does not hold them",
];

/// Returns whether a module has other words without maintenance1, which are valid and give the same results. Or why
/// there are none.
fn spelled(module: &Module, case: &Case, lanes: u32, validator: Option<&Path>) -> Result<bool, String> {
    let spec = case.specialization().expect("constants");
    let other = coop_exec::respell::as_nv2(module, &spec)?;
    let declared = |m: &Module| text::print(m, &text::PrintOptions::default()).text;
    if matches!(other, Cow::Borrowed(_)) {
        assert!(!declared(module).contains("maintenance1"));
        return Ok(false);
    }
    for word in ["EXT_cooperative_matrix", "ConversionsEXT", "TransposeEXT", "GetCoordinateEXT"] {
        assert!(!declared(&other).contains(word), "{word}");
    }
    let interpreted = |m: &Module| {
        let config = Config { subgroup_size: lanes, ..Config::default() };
        let (buffers, report) = Interpreted { config }.run_module(m, case).expect("it runs");
        Interpreted::outcome(buffers, &report)
    };
    let (wanted, got) = (interpreted(module), interpreted(&other));
    assert!(got.faults.is_empty(), "{:?}\n{}", got.faults, declared(&other));
    assert!(got.compare(&wanted, case).expect("comparable").is_empty(), "{}", declared(&other));
    let mut options = coop_validate::Options::default();
    options.specialization = spec;
    let report = coop_validate::check(&other, &options);
    let errors: Vec<_> = report.blocking().collect();
    assert!(errors.is_empty(), "{:?}\n{}", errors[0], declared(&other));
    // It refuses selections of matrices (docs/vs-spirv-val.md).
    if let Some(tool) = validator.filter(|_| !selects_matrices(&other)) {
        let said = spirv_val(tool, &other);
        assert_eq!(said, "", "{}", declared(&other));
    }
    Ok(true)
}

/// Returns true if an `OpSelect` chooses between matrices.
fn selects_matrices(module: &Module) -> bool {
    let is_matrix = |id| coop_ir::types::coop_mat_of(module, id).is_some();
    module.all().map(|r| module.inst(r)).any(|i| i.op == coop_ir::Op::Select && i.result.is_some_and(is_matrix))
}

/// Returns true if a conversion of use is one between signed and unsigned numbers too.
fn changes_sign(module: &Module) -> bool {
    let component = |id| coop_ir::types::coop_mat_of(module, id).map(|ty| ty.component);
    let insts = module.all().map(|r| module.inst(r)).filter(|i| i.op == coop_ir::Op::CooperativeMatrixConvertNV);
    insts.into_iter().any(|i| i.result.and_then(component) != i.id(0).and_then(component))
}

/// Returns the output of spirv-val for a module.
fn spirv_val(tool: &Path, module: &Module) -> String {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("respelled-{}.spv", std::process::id()));
    std::fs::write(&file, coop_ir::binary::write(module)).expect("a file");
    // The environments of OpenCL end at older versions.
    let environment = if module.enables(Capability::Shader) { "vulkan1.4" } else { "spv1.6" };
    let said = std::process::Command::new(tool).args(["--target-env", environment]).arg(&file).output();
    let said = said.unwrap_or_else(|e| panic!("{}: {e}", tool.display()));
    String::from_utf8_lossy(&[said.stdout, said.stderr].concat()).trim().to_owned()
}

/// The program that looks at modules besides, if it is here.
fn validator() -> Option<PathBuf> {
    Driver::Lavapipe.wrapper_or_skip("spirv-val").map(|w| w.with_file_name("spirv-val"))
}

/// Returns true if a reason for having no words is one that `coop_exec::respell` names.
fn is_named(why: &str) -> bool {
    NO_WORDS.iter().any(|known| why.ends_with(known))
}

#[test]
fn modules_of_maintenance1_have_other_words() {
    let validator = validator();
    // How often what has other words is still wanted.
    let mut wanted = [
        "loop with coordinates",
        "transposing conversion",
        "conversion of use",
        "other signedness",
        "reduction of all",
    ]
    .map(|what| (what, SPELLED));
    for seed in 0..6000 {
        let limits = if seed % 4 == 0 { Limits::Any } else { Limits::Nvidia };
        let profile = GeneratorProfile { dialect: Dialect::Ext, limits };
        let made = generate(profile, &entropy(seed, 4 * BYTES));
        let has = |what: &str| made.made.contains_key(what) || what == "other signedness" && changes_sign(&made.module);
        if !wanted.iter().any(|(what, n)| *n > 0 && has(what)) {
            continue;
        }
        let case = Case::parse(&made.case, Path::new("")).expect("a case");
        match spelled(&made.module, &case, profile.lanes(), validator.as_deref()) {
            Ok(changed) => {
                assert!(changed);
                wanted.iter_mut().filter(|(what, _)| has(what)).for_each(|(_, n)| *n = n.saturating_sub(1));
            }
            Err(why) => assert!(is_named(&why), "{why}"),
        }
        if wanted.iter().all(|(_, n)| *n == 0) {
            return;
        }
    }
    panic!("still wanted: {wanted:?}");
}

#[test]
fn what_is_lowered_for_maintenance1_has_other_words() {
    let validator = validator();
    let h100 = coop_device::Profile::builtin("nvidia-h100").expect("built in").with_maintenance1();
    let profile = GeneratorProfile { dialect: Dialect::Ext, limits: Limits::Nvidia };
    let (mut changed, mut none) = (0, 0);
    for seed in 0..10 * SPELLED {
        let made = generate(profile, &entropy(seed, 2 * BYTES));
        let case = Case::parse(&made.case, Path::new("")).expect("a case");
        let mut options = coop_passes::Options::new(Target::Ext);
        options.spec = case.specialization().expect("constants");
        options.subgroup_size = Some(profile.lanes());
        options.profile = Some(&h100);
        let Ok(lowered) = coop_passes::lower(&made.module, &options) else { continue };
        match spelled(&lowered.module, &case, profile.lanes(), validator.as_deref()) {
            Ok(c) => changed += u64::from(c),
            Err(why) => {
                assert!(is_named(&why), "{why}");
                none += 1;
            }
        }
    }
    assert!(changed >= SPELLED && none < changed, "{changed}, {none}");
}

vulkan_test!(
    Debian12,
    fn generated_modules_run_alike_on_debian_12(device) {
        let d = Differential { lowered_only: true, placements: 1, ..differential(Some(device)) };
        for dialect in [Dialect::Khr, Dialect::Nv2, Dialect::Ext] {
            let row = run_all(&d, GeneratorProfile { dialect, limits: Limits::Tiles }, 0..LOWERED);
            assert!(count(&row, "scalar vulkan") >= LOWERED - 1, "{row:?}");
        }
    }
);

vulkan_test!(
    SwiftShader,
    fn generated_modules_run_alike_on_swiftshader(device) {
        let without = Some(Without::Given(Lacks::of(device.profile())));
        let d = Differential { lowered_only: true, placements: 1, without, ..differential(Some(device)) };
        for dialect in Dialect::ALL {
            // Some have types or operations that nothing does without.
            let enough = |row: &Row| count(row, "scalar vulkan") >= LOWERED / 2;
            let row = run_until(&d, GeneratorProfile::any(dialect), 0..8 * LOWERED, enough);
            assert!(enough(&row), "{dialect:?}: {row:?}");
        }
    }
);

vulkan_test!(
    Lavapipe,
    fn maintenance1_runs_in_other_words(device) {
        let device = device.respelled().expect("lavapipe has NV2");
        let d = Differential { targets: vec![Target::Ext], placements: 1, ..differential(Some(&device)) };
        for dialect in [Dialect::Ext, Dialect::Nv2] {
            let profile = GeneratorProfile { dialect, limits: Limits::Tiles };
            let row = run_all(&d, profile, 100..100 + 2 * LOWERED);
            assert!(count(&row, "ext vulkan") >= LOWERED && count(&row, "original vulkan") >= LOWERED, "{row:?}");
        }
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
        let result = differential(Some(device)).check_case(GeneratorProfile::DEVICE8, &module, &case, 0, &mut row);
        result.unwrap_or_else(|t| panic!("{}", t.message));
        assert!(row.skipped.keys().any(|k| k.contains("64 bits")), "{row:?}");
        assert_eq!(count(&row, "scalar vulkan"), 1, "{row:?}");
    }
);

#[test]
fn entropy_shrinks() {
    let bytes = entropy(7, 4000);
    let stores = |bytes: &[u8]| {
        let made = generate(GeneratorProfile::ANY, bytes);
        made.made.iter().filter(|(k, _)| k.starts_with("store")).map(|(_, n)| n).sum::<u32>()
    };
    assert!(stores(&bytes) > 1);
    let small = shrink(&bytes, 1000, &mut |b| stores(b) > 1);
    assert!(stores(&small) > 1 && small.len() < bytes.len() / 4, "{} of {} bytes", small.len(), bytes.len());
}

/// A module whose results depend on the subgroup size is noticed: it writes the number of elements that an invocation
/// holds.
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
    let trouble = differential(None).check_case(GeneratorProfile::DEVICE8, &module, &case, 8, &mut Row::default());
    let trouble = trouble.expect_err("the results differ");
    assert!(trouble.class.contains("differs"), "{}", trouble.message);
}

/// The id that an instruction defines.
fn operand(text: &str, what: &str) -> String {
    let line = text.lines().find(|l| l.contains(what)).expect("the instruction");
    line.split('=').next().expect("an id").trim().to_owned()
}
