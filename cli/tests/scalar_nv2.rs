//! SPV_NV_cooperative_matrix2 and matrices of workgroup scope, lowered to scalar code: it gives what the original gives
//! in the interpreter, there and on the current lavapipe and on Debian 12's; and spirv-val and our own rules have nothing
//! against it.

use coop_device::Profile;
use coop_exec::case::Number;
use coop_exec::interp::Interpreted;
use coop_exec::vulkan::VulkanExecutor;
use coop_exec::{Case, Executor, Outcome, RunOptions, vulkan_test};
use coop_ir::{Module, Op, binary};
use coop_passes::{Lanes, Lowered, Options, Target, lower};
use coop_validate::testing::complaints;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A module, and how it is run.
struct Sample {
    label: String,
    module: Module,
    case: Case,
    /// The SpecId of the size of the workgroup, where that is to be the size of a subgroup.
    threads: Option<&'static str>,
}

impl Sample {
    /// For subgroups of `size`.
    fn case(&self, size: u32) -> Case {
        let mut case = self.case.clone();
        if let Some(threads) = self.threads {
            case.spec.insert(threads.to_owned(), Number::Int(size.into()));
        }
        case.subgroup_size = Some(size);
        case
    }
}

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name)
}

fn read(path: &Path) -> Module {
    let bytes = std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    binary::read(&bytes).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// A shader of the interpreter's tests.
fn sample(module: &str, case: &str, variant: Option<&str>, threads: Option<&'static str>) -> Sample {
    let folder = folder("exec/tests/interp");
    let path = folder.join(format!("{case}.toml"));
    let mut case = Case::load(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    if let Some(variant) = variant {
        case = case.with_variant(variant).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    }
    let label = format!("{module}{}", variant.map_or_else(String::new, |v| format!(":{v}")));
    Sample { label, module: read(&folder.join(format!("{module}.spv"))), case, threads }
}

/// Reductions, per-element operations, conversions.
fn exchanges() -> Vec<Sample> {
    vec![
        sample("reduce", "reduce", None, Some("4")),
        sample("reduce", "reduce", Some("tall"), Some("4")),
        sample("reduce.workgroup", "reduce.workgroup", None, None),
        sample("element", "element", None, Some("0")),
        sample("element.workgroup", "element", None, None),
    ]
}

/// Tensor loads and stores. Their workgroups have 32 invocations.
fn tensors() -> Vec<Sample> {
    let clamps = [None, Some("edge"), Some("repeat"), Some("mirror")];
    let mut out: Vec<Sample> = clamps.into_iter().map(|v| sample("clamp", "clamp", v, None)).collect();
    out.push(sample("view", "view", None, None));
    out
}

/// M, N, K of a step, steps, invocations.
type Extents = [u32; 5];

/// A variant of `testdata/nv2/product.comp`.
fn product(variant: &str, [m, n, k, steps, lanes]: Extents) -> Sample {
    let (factor, sum) = match variant.split('_').next().unwrap_or_default() {
        "s8" => ("s8", "s32"),
        "u8" => ("u8", "u32"),
        "f32" => ("f32", "f32"),
        "f16acc" => ("f16", "f16"),
        _ => ("f16", "f32"),
    };
    let buffer = |name: &str, binding: u32, ty: &str, count: u32, fill: &str| {
        format!("[[buffer]]\nname = '{name}'\nbinding = {binding}\ntype = '{ty}'\ncount = {count}\nfill = {fill}\n")
    };
    let buffers = [
        buffer("A", 0, factor, m * k * steps.max(1), "{ small-ints = [0, 3] }"),
        buffer("B", 1, factor, k * n * steps.max(1), "{ small-ints = [0, 3] }"),
        buffer("C", 2, sum, m * n, "'small-ints'"),
        buffer("D", 3, sum, m * n, "{ constant = 99 }"),
    ];
    let spec = format!("spec = {{ 0 = {m}, 1 = {n}, 2 = {k}, 3 = {steps}, 4 = {lanes} }}");
    let text = format!("workgroups = [1, 1, 1]\nseed = 1\n{spec}\n{}", buffers.concat());
    let case = Case::parse(&text, Path::new(".")).unwrap_or_else(|e| panic!("{variant}: {e}"));
    let label = format!("product {variant} {m}x{n}x{k} {steps} steps {lanes} lanes");
    let module = read(&folder("testdata/nv2").join(format!("product.{variant}.spv")));
    Sample { label, module, case, threads: None }
}

const PRODUCTS: [&str; 7] = ["f16", "f16_across", "f16_twice", "s8", "u8", "f32", "f16acc"];

/// Products of matrices of workgroup scope: whole and odd extents, more lanes than elements, several slices, tiles that
/// no registers hold.
const EXTENTS: [Extents; 8] = [
    [32, 32, 16, 2, 64],
    [64, 64, 32, 1, 32],
    [16, 16, 16, 2, 128],
    [20, 12, 6, 2, 32],
    [33, 17, 5, 1, 64],
    [48, 80, 24, 2, 96],
    [64, 128, 64, 1, 128],
    [64, 64, 8, 1, 8],
];

/// Products whose sums begin as 0; of two the elements are clamped behind the loop, in the variable that had the sums.
const FROM_ZERO: [&str; 5] = ["f16_zero", "f16acc_zero", "s8_zero", "u8_zero", "f32_zero"];

/// Few sums for each lane, and the groups of lanes among which K is divided then; of the last but one no group would have whole subgroups of 32, and of
/// the last a lane has 16 sums.
const FEW_SUMS: [(Extents, u32); 7] = [
    ([16, 16, 32, 2, 128], 4),
    ([16, 32, 16, 3, 64], 2),
    ([32, 64, 64, 2, 256], 8),
    ([16, 16, 64, 1, 256], 8),
    ([32, 16, 64, 0, 64], 1),
    ([24, 16, 16, 2, 96], 1),
    ([64, 32, 32, 2, 128], 1),
];

/// A device that has subgroups of `size`.
fn device_of(size: u32) -> Option<Profile> {
    let name = match size {
        8 => "mesa-lavapipe",
        32 => "nvidia-h100",
        _ => return None,
    };
    Profile::builtin(name)
}

/// The ways in which modules are lowered: for any device, and for one.
fn ways(device: Option<&Profile>) -> Vec<(Lanes, Option<&Profile>)> {
    let device = device.map(|p| (Lanes::Subgroup, Some(p)));
    [(Lanes::Subgroup, None), (Lanes::LocalIndex, None)].into_iter().chain(device).collect()
}

fn way(lanes: Lanes, profile: Option<&Profile>) -> String {
    profile.map_or_else(|| format!("{lanes:?}"), |p| format!("{lanes:?} of {}", p.name))
}

fn scalar(module: &Module, case: &Case, lanes: Lanes, profile: Option<&Profile>) -> Result<Lowered, String> {
    let mut options = Options::new(Target::Scalar);
    options.spec = case.specialization().map_err(|e| e.to_string())?;
    options.spec_defaults = true;
    options.subgroup_size = case.subgroup_size;
    (options.lanes, options.profile) = (lanes, profile);
    options.verify_each = true;
    lower(module, &options).map_err(|e| e.to_string())
}

/// Describes the differences of an outcome from another one; empty if there are none.
fn wrong(outcome: Result<Outcome, coop_exec::Error>, wanted: &Outcome, case: &Case) -> Vec<String> {
    let outcome = match outcome {
        Ok(o) => o,
        Err(e) => return vec![e.to_string()],
    };
    let mut out: Vec<String> = outcome.messages.iter().chain(&outcome.faults).cloned().collect();
    match outcome.compare(wanted, case) {
        Ok(differences) => out.extend(differences.iter().map(|d| d.to_string())),
        Err(e) => out.push(e.to_string()),
    }
    out
}

fn interpreted(module: &Module, case: &Case) -> Result<Outcome, coop_exec::Error> {
    Interpreted::default().run(&binary::write_words(module), case, &RunOptions::default())
}

/// Returns the errors of spirv-val for a module. Without spirv-val there are none, which is printed, and is a failure
/// where tools are required.
fn spirv_val(label: &str, module: &Module) -> Vec<String> {
    let cache = std::env::var_os("COOP_CACHE")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../.cache"), PathBuf::from);
    let tool = cache.join("bin/spirv-val");
    if !tool.exists() {
        assert!(
            std::env::var_os("COOP_REQUIRE_TOOLS").is_none(),
            "spirv-val is not there: scripts/drivers.sh fetches it"
        );
        eprintln!("SKIPPED: spirv-val is not there; scripts/drivers.sh fetches it");
        return Vec::new();
    }
    let scratch = Path::new(env!("CARGO_TARGET_TMPDIR")).join("scalar_nv2");
    std::fs::create_dir_all(&scratch).expect("writable");
    let path = scratch.join(format!("{}.spv", label.replace([':', ' ', ','], "_")));
    std::fs::write(&path, binary::write(module)).expect("writable");
    let out = Command::new(tool).args(["--target-env", "vulkan1.3"]).arg(&path).output().expect("spirv-val runs");
    if out.status.success() {
        return Vec::new();
    }
    vec![format!("spirv-val: {}", String::from_utf8_lossy(&[out.stdout, out.stderr].concat()))]
}

/// Samples in the interpreter, with their lowerings; what is wrong with these.
fn interpret(samples: &[Sample], size: u32) -> Vec<String> {
    let mut failures = Vec::new();
    for sample in samples {
        let case = sample.case(size);
        let label = format!("{} in subgroups of {size}", sample.label);
        let original = interpreted(&sample.module, &case).unwrap_or_else(|e| panic!("{label}: {e}"));
        assert!(original.faults.is_empty(), "{label}: {:?}", original.faults);
        for (lanes, profile) in ways(device_of(size).as_ref()) {
            let label = format!("{label}, {}", way(lanes, profile));
            let lowered = match scalar(&sample.module, &case, lanes, profile) {
                Ok(l) => l.module,
                Err(e) => {
                    failures.push(format!("{label}: {e}"));
                    continue;
                }
            };
            let mut found = wrong(interpreted(&lowered, &case), &original, &case);
            found.extend(complaints(&lowered));
            found.extend(spirv_val(&label, &lowered));
            failures.extend(found.into_iter().map(|w| format!("{label}: {w}")));
        }
    }
    failures
}

fn none(failures: &[String]) {
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn exchanges_in_the_interpreter() {
    none(&[interpret(&exchanges(), 8), interpret(&exchanges(), 32)].concat());
}

#[test]
fn tensors_in_the_interpreter() {
    none(&interpret(&tensors(), 32));
}

#[test]
fn products_in_the_interpreter() {
    let samples: Vec<Sample> = PRODUCTS.iter().flat_map(|v| EXTENTS.map(|e| product(v, e))).collect();
    none(&interpret(&samples, 8));
}

/// The groups of lanes among which a module divides K.
fn parts_of_k(module: &Module) -> u32 {
    let names = module.globals_with(Op::Name).filter_map(|r| Some(module.inst(r).string(1)?.0));
    let mut parts = names.filter_map(|name| name.strip_prefix("coop_sum_")?.split_once("_parts_")?.0.parse().ok());
    parts.next().unwrap_or(1)
}

#[test]
fn products_whose_k_is_divided_in_the_interpreter() {
    let all = || FROM_ZERO.iter().flat_map(|v| FEW_SUMS.map(|(e, parts)| (product(v, e), parts)));
    for (sample, parts) in all() {
        let lowered = scalar(&sample.module, &sample.case(32), Lanes::Subgroup, None);
        let lowered = lowered.unwrap_or_else(|e| panic!("{}: {e}", sample.label));
        assert_eq!(parts_of_k(&lowered.module), parts, "{}", sample.label);
    }
    let samples: Vec<Sample> = all().map(|(sample, _)| sample).collect();
    none(&[interpret(&samples, 8), interpret(&samples, 32)].concat());
}

/// A kernel of `testdata/bench` with its small case: invocations, and the extents of its tiles.
fn bench(module: &str, case: &str, spec: &[i64]) -> Sample {
    let path = folder("testdata/bench").join(format!("{case}.small.toml"));
    let mut case = Case::load(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    for (id, value) in spec.iter().enumerate() {
        case.spec.insert(id.to_string(), Number::Int(*value));
    }
    case.workgroups = [1, 1, 1];
    case.expect.clear();
    let label = format!("{module} {spec:?}");
    Sample { label, module: read(&folder("testdata/bench").join(format!("{module}.spv"))), case, threads: None }
}

/// Attention: rows that hold one value, reductions by shuffles, a factor that stays in shared memory.
fn attention(spec: [i64; 3]) -> Sample {
    bench("flash_nv2", "flash_64", &spec)
}

#[test]
fn attention_in_the_interpreter() {
    let samples = [[64, 64, 64], [32, 16, 16]].map(attention);
    none(&[interpret(&samples[1..], 8), interpret(&samples[..1], 32)].concat());
    // For a device with subgroups of 32, reductions are shuffles, and rows of one value are not reduced again.
    let [sample, _] = samples;
    let profile = Profile::builtin("nvidia-h100");
    let lowered = scalar(&sample.module, &sample.case(32), Lanes::Subgroup, profile.as_ref());
    let lowered = lowered.unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(lowered.report.required_subgroup_size, Some(32));
    let count = |op: Op| lowered.module.all().filter(|r| lowered.module.inst(*r).op == op).count();
    // Of maximum and sum, in the eight lanes of a row each.
    assert_eq!(count(Op::GroupNonUniformShuffleXor), 2 * 3);
}

#[test]
fn refusals_say_why_and_what_to_do() {
    let refusal =
        |sample: &Sample, size: u32, lanes: Lanes| match scalar(&sample.module, &sample.case(size), lanes, None) {
            Ok(_) => panic!("{}: lowered", sample.label),
            Err(e) => e,
        };
    // Two subgroups that can't wait for their own lanes only.
    let mut sample = sample("element", "element", None, None);
    sample.case.spec.insert("0".to_owned(), Number::Int(16));
    let said = refusal(&sample, 8, Lanes::LocalIndex);
    assert!(said.contains("[refused-lanes]") && said.contains("--lanes subgroup"), "{said}");
    assert!(scalar(&sample.module, &sample.case(8), Lanes::Subgroup, None).is_ok());
    // A row of each factor alone is more than there is.
    let said = refusal(&product("f16", [1024, 1024, 16, 1, 64]), 8, Lanes::Subgroup);
    assert!(said.contains("[refused-shared-memory]") && said.contains("16384") && said.contains("--profile"), "{said}");
}

fn on_device(device: &VulkanExecutor<'_>, samples: &[Sample]) {
    let size = device.profile().limits.subgroup_size;
    let mut failures = Vec::new();
    for sample in samples {
        let case = sample.case(size);
        let original = interpreted(&sample.module, &case).unwrap_or_else(|e| panic!("{}: {e}", sample.label));
        let mut seen: Vec<Vec<u32>> = Vec::new();
        for (lanes, profile) in ways(Some(device.profile())) {
            let label = format!("{}, {}", sample.label, way(lanes, profile));
            let lowered = scalar(&sample.module, &case, lanes, profile);
            let lowered = lowered.unwrap_or_else(|e| panic!("{label}: {e}"));
            let words = binary::write_words(&lowered.module);
            // Lanes of workgroups are the same in both.
            if seen.contains(&words) {
                continue;
            }
            let mut case = case.clone();
            case.subgroup_size = lowered.report.required_subgroup_size;
            case.full_subgroups = lowered.report.full_subgroups;
            let outcome = device.run(&words, &case, &RunOptions::default());
            failures.extend(wrong(outcome, &original, &case).into_iter().map(|w| format!("{label}: {w}")));
            seen.push(words);
        }
    }
    none(&failures);
}

/// Returns the samples to run on devices: a few of each kind.
fn few() -> Vec<Sample> {
    let mut out = exchanges();
    out.extend(PRODUCTS.iter().zip(EXTENTS).map(|(v, e)| product(v, e)));
    out.extend(FROM_ZERO.iter().zip(FEW_SUMS).map(|(v, (e, _))| product(v, e)));
    out.push(product("f16", EXTENTS[0]));
    out
}

vulkan_test!(
    Lavapipe,
    fn lowered_on_lavapipe(device) {
        on_device(device, &few());
    }
);

vulkan_test!(
    Debian12,
    fn lowered_on_debian_12(device) {
        on_device(device, &few());
    }
);
