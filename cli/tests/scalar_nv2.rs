//! SPV_NV_cooperative_matrix2 and matrices of workgroup scope, lowered to scalar code: it gives what the original gives
//! in the interpreter, there and on the current lavapipe and on Debian 12's; and spirv-val and our own rules have nothing
//! against it.

use coop_exec::case::Number;
use coop_exec::interp::Interpreted;
use coop_exec::vulkan::VulkanExecutor;
use coop_exec::{Case, Executor, Outcome, RunOptions, vulkan_test};
use coop_ir::{Module, binary};
use coop_passes::{Lanes, Lowered, Options, Target, lower};
use coop_validate::Level;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A shader of the interpreter's tests, and how it is run.
struct Sample {
    module: &'static str,
    case: &'static str,
    variant: Option<&'static str>,
    /// The SpecId of the size of the workgroup, which is given the size of a subgroup; matrices of workgroup scope
    /// keep the size of the case.
    threads: Option<&'static str>,
}

const fn subgroup(module: &'static str, threads: &'static str) -> Sample {
    Sample { module, case: module, variant: None, threads: Some(threads) }
}

const fn workgroup(module: &'static str, case: &'static str) -> Sample {
    Sample { module, case, variant: None, threads: None }
}

const SAMPLES: &[Sample] = &[
    subgroup("reduce", "4"),
    Sample { variant: Some("tall"), ..subgroup("reduce", "4") },
    workgroup("reduce.workgroup", "reduce.workgroup"),
    subgroup("element", "0"),
    workgroup("element.workgroup", "element"),
];

impl Sample {
    fn label(&self) -> String {
        format!("{}{}", self.module, self.variant.map_or_else(String::new, |v| format!(":{v}")))
    }

    fn module(&self) -> Module {
        let path = folder().join(format!("{}.spv", self.module));
        let bytes = std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        binary::read(&bytes).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
    }

    /// The case for subgroups of `size`.
    fn case(&self, size: u32) -> Case {
        let path = folder().join(format!("{}.toml", self.case));
        let mut case = Case::load(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        if let Some(variant) = self.variant {
            case = case.with_variant(variant).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        }
        if let Some(threads) = self.threads {
            case.spec.insert(threads.to_owned(), Number::Int(size.into()));
        }
        case.subgroup_size = Some(size);
        case
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../exec/tests/interp")
}

fn scalar(module: &Module, case: &Case, lanes: Lanes) -> Result<Lowered, String> {
    let mut options = Options::new(Target::Scalar);
    options.spec = case.specialization().map_err(|e| e.to_string())?;
    options.spec_defaults = true;
    options.subgroup_size = case.subgroup_size;
    options.lanes = lanes;
    options.verify_each = true;
    lower(module, &options).map_err(|e| e.to_string())
}

/// What is wrong with an outcome, in words; nothing if it is the same as another one.
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

/// What our own rules find against a module.
fn findings(module: &Module) -> Vec<String> {
    let report = coop_validate::check(module, &coop_validate::Options::default());
    let found = report.findings.iter().filter(|f| f.level >= Level::Warning);
    found.map(|f| format!("{}[{}]: {}", f.level, f.rule.id, f.message)).collect()
}

/// What spirv-val has against a module. Without spirv-val, nothing; that is said aloud, and a failure where tools are
/// required.
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

#[test]
fn lowered_and_original_agree_in_the_interpreter() {
    let mut failures = Vec::new();
    for sample in SAMPLES {
        for size in [8, 32] {
            let (module, case) = (sample.module(), sample.case(size));
            let label = format!("{} in subgroups of {size}", sample.label());
            let original = interpreted(&module, &case).unwrap_or_else(|e| panic!("{label}: {e}"));
            assert!(original.faults.is_empty(), "{label}: {:?}", original.faults);
            for lanes in [Lanes::Subgroup, Lanes::LocalIndex] {
                let label = format!("{label}, {lanes:?}");
                let lowered = match scalar(&module, &case, lanes) {
                    Ok(l) => l.module,
                    Err(e) => {
                        failures.push(format!("{label}: {e}"));
                        continue;
                    }
                };
                let mut found = wrong(interpreted(&lowered, &case), &original, &case);
                found.extend(findings(&lowered));
                found.extend(spirv_val(&label, &lowered));
                failures.extend(found.into_iter().map(|w| format!("{label}: {w}")));
            }
        }
    }
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
}

fn on_device(device: &VulkanExecutor<'_>) {
    let size = device.profile().limits.subgroup_size;
    let mut failures = Vec::new();
    for sample in SAMPLES {
        let (module, case) = (sample.module(), sample.case(size));
        let original = interpreted(&module, &case).unwrap_or_else(|e| panic!("{}: {e}", sample.label()));
        for lanes in [Lanes::Subgroup, Lanes::LocalIndex] {
            let label = format!("{}, {lanes:?}", sample.label());
            let lowered = scalar(&module, &case, lanes).unwrap_or_else(|e| panic!("{label}: {e}"));
            let mut case = case.clone();
            case.subgroup_size = lowered.report.required_subgroup_size;
            case.full_subgroups = lowered.report.full_subgroups;
            let outcome = device.run(&binary::write_words(&lowered.module), &case, &RunOptions::default());
            failures.extend(wrong(outcome, &original, &case).into_iter().map(|w| format!("{label}: {w}")));
        }
    }
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
}

vulkan_test!(
    Lavapipe,
    fn lowered_on_lavapipe(device) {
        on_device(device);
    }
);

vulkan_test!(
    Debian12,
    fn lowered_on_debian_12(device) {
        on_device(device);
    }
);
