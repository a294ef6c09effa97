//! Compares the lowered modules of `testdata/hardware`, run in the interpreter and on lavapipe, with the results of a
//! device that runs them natively.

use std::path::{Path, PathBuf};

use coop_device::Profile;
use coop_exec::interp::{self, Config, Interpreted};
use coop_exec::vulkan::VulkanExecutor;
use coop_exec::{Bounds, Case, Executor, Outcome, RunOptions, testing, vulkan_test};
use coop_ir::{Module, binary};
use coop_lab::record::{self, Ended, Kept, Known, Recording, Run};
use coop_passes::{Error, Lanes, Options, Semantics, Target, lower};
use coop_validate::testing::complaints;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata/hardware")
}

/// A run that was recorded.
struct Recorded<'a> {
    name: String,
    module: &'a Module,
    case: Case,
    kept: &'a [(String, Kept)],
    /// The device is known to do something else than the text.
    known: bool,
    /// And `--semantics nvidia` is to follow it.
    followed: bool,
}

/// Calls `f` with every recorded run of the modules that `wanted` names.
fn each(wanted: impl Fn(&str) -> bool, mut f: impl FnMut(&Recorded<'_>)) {
    let known = Known::load(&folder().join("h100")).unwrap_or_else(|e| panic!("{e}"));
    for subject in record::subjects(&folder()).unwrap_or_else(|e| panic!("{e}")) {
        let path = folder().join("h100").join(format!("{}.rec", subject.name));
        if !wanted(&subject.name) || !path.exists() {
            continue;
        }
        let recording = Recording::load(&path).unwrap_or_else(|e| panic!("{e}"));
        let words = testing::words(&subject.module);
        let module = binary::read_words(&words).unwrap_or_else(|e| panic!("{}: {e}", subject.name));
        for path in &subject.cases {
            let variants = Case::load(path).and_then(|case| case.all_variants()).unwrap_or_else(|e| panic!("{e}"));
            for (variant, case) in variants {
                let run = recording.run(&record::case_name(path), variant.as_deref(), &case);
                let Some(run @ Run { ended: Ended::Ran(kept), .. }) = run.unwrap_or_else(|e| panic!("{e}")) else {
                    continue;
                };
                let why = |observed| known.why(&subject.name, run, observed).is_some();
                let (known, followed) = (why(false), why(false) && !why(true));
                f(&Recorded { name: format!("{}: {run}", subject.name), module: &module, case, kept, known, followed });
            }
        }
    }
}

/// The module in scalar code with the case that runs it, or why there is none.
fn scalar(recorded: &Recorded<'_>, lanes: Lanes, size: u32) -> Result<(Vec<u32>, Case), Error> {
    let mut options = Options::new(Target::Scalar);
    options.spec = recorded.case.specialization().expect("values");
    options.spec_defaults = true;
    options.subgroup_size = Some(size);
    options.lanes = lanes;
    let lowered = lower(recorded.module, &options)?;
    // Barriers stand where all arrive, among other things.
    let found = complaints(&lowered.module);
    assert!(found.is_empty(), "{}, lowered: {}", recorded.name, found.join("\n"));
    let mut case = recorded.case.clone();
    case.subgroup_size = lowered.report.required_subgroup_size;
    case.full_subgroups = lowered.report.full_subgroups;
    Ok((binary::write_words(&lowered.module), case))
}

/// Describes the differences of an outcome from the recording.
fn wrong(recorded: &Recorded<'_>, outcome: &Outcome, size: u32) -> Vec<String> {
    let mut out: Vec<String> = outcome.messages.iter().chain(&outcome.faults).cloned().collect();
    let different = |bounds| record::differences(&recorded.case, recorded.kept, outcome, bounds).expect("buffers");
    let mut differences = different(None);
    if !differences.is_empty() {
        let config = Config { subgroup_size: size, ..Config::default() };
        let bounds = Bounds::derive(recorded.module, &recorded.case, config);
        // Neither the device nor the lowered code adds up as the interpreter does.
        differences = different(Some((&bounds, 2)));
    }
    if !recorded.known {
        out.extend(differences.iter().map(ToString::to_string));
    }
    out.into_iter().map(|line| format!("{}: {line}", recorded.name)).collect()
}

#[test]
fn lowered_in_the_interpreter() {
    let mut failures = Vec::new();
    let (mut ran, mut refused, mut number) = (0, 0, 0);
    each(
        |_| true,
        |recorded| {
            // All of them are `cooplab replay --target scalar`; here a fifth.
            number += 1;
            if number % 5 != 0 {
                return;
            }
            let (words, case) = match scalar(recorded, Lanes::Subgroup, 32) {
                Ok(lowered) => lowered,
                Err(Error::Refused(_)) => {
                    refused += 1;
                    return;
                }
                Err(error) => return failures.push(format!("{}: {error}", recorded.name)),
            };
            match Interpreted::default().run(&words, &case, &RunOptions::default()) {
                Ok(outcome) => failures.extend(wrong(recorded, &outcome, 32)),
                Err(error) => failures.push(format!("{}: {error}", recorded.name)),
            }
            ran += 1;
        },
    );
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(ran >= 120, "{ran} runs, {refused} refused");
}

/// `--semantics` selects between the specification and the device where they differ: in the interpreter, and in both
/// lowerings.
#[test]
fn semantics_choose_between_the_text_and_the_device() {
    let h100 = Profile::builtin("nvidia-h100").expect("built in");
    let differs = |recorded: &Recorded<'_>, target: Option<Target>, nvidia: bool| -> bool {
        let mut device = Interpreted::default();
        device.config.subgroup_size = 32;
        if nvidia {
            device.config.semantics = interp::Semantics::Nvidia;
        }
        let mut case = recorded.case.clone();
        let words = match target {
            None => binary::write_words(recorded.module),
            Some(target) => {
                let mut options = Options::new(target);
                options.spec = case.specialization().expect("values");
                options.spec_defaults = true;
                options.profile = Some(&h100);
                options.semantics = if nvidia { Semantics::Nvidia } else { Semantics::Spec };
                let lowered = lower(recorded.module, &options).unwrap_or_else(|e| panic!("{}: {e}", recorded.name));
                case.subgroup_size = lowered.report.required_subgroup_size.or(case.subgroup_size);
                case.full_subgroups |= lowered.report.full_subgroups;
                binary::write_words(&lowered.module)
            }
        };
        let outcome = device.run(&words, &case, &RunOptions::default());
        let outcome = outcome.unwrap_or_else(|e| panic!("{}: {e}", recorded.name));
        !record::differences(&recorded.case, recorded.kept, &outcome, None).expect("buffers").is_empty()
    };
    // A conversion to bfloat16 may be rounded either way, so nothing that is known to differ; but the device truncates.
    let rounds = |recorded: &Recorded<'_>| recorded.name.starts_with("convert.f16-bf16:");
    let mut points = 0;
    let mut failures = Vec::new();
    each(
        |_| true,
        |recorded| {
            if !recorded.followed && !rounds(recorded) {
                return;
            }
            points += 1;
            for target in [None, Some(Target::Scalar), Some(Target::Khr)] {
                let name = target.map_or_else(|| "interpreted".to_owned(), |t| t.to_string());
                if differs(recorded, target, true) {
                    failures.push(format!("{}, {name}: not what the device did", recorded.name));
                }
                if recorded.followed && !differs(recorded, target, false) {
                    failures.push(format!("{}, {name}: the text is not followed", recorded.name));
                }
            }
        },
    );
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(points > 5, "{points}");
}

/// One of each family; lavapipe takes its time to compile.
const ON_LAVAPIPE: [&str; 12] = [
    "move.f16x4",
    "convert.s8-f16",
    "use.f16",
    "reduce.f32",
    "element.s32",
    "composite.f32",
    "muladd.s8",
    "muladd.f16-f32",
    "tensor2",
    "tensor3.clip",
    "view",
    "decode.q4",
];

fn on_lavapipe(device: &VulkanExecutor<'_>) {
    let mut failures = Vec::new();
    let mut ran = 0;
    let mut last = String::new();
    each(
        |name| ON_LAVAPIPE.contains(&name),
        |recorded| {
            // The first of each module, and where several ways of one instruction matter, some more.
            let module = recorded.name.split(':').next().unwrap_or_default().to_owned();
            let more = ["over-", "both-", "uniform"].iter().any(|part| recorded.name.contains(part));
            if module == last && !more {
                return;
            }
            last = module;
            let (words, case) = match scalar(recorded, Lanes::LocalIndex, 32) {
                Ok(lowered) => lowered,
                Err(error) => return failures.push(format!("{}: {error}", recorded.name)),
            };
            match device.run(&words, &case, &RunOptions::default()) {
                Ok(outcome) => failures.extend(wrong(recorded, &outcome, 32)),
                Err(error) => failures.push(format!("{}: {error}", recorded.name)),
            }
            ran += 1;
        },
    );
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(ran >= 20, "{ran} runs");
}

vulkan_test!(
    Lavapipe,
    fn lowered_on_lavapipe(device) {
        on_lavapipe(device);
    }
);

/// The table says of each module how it runs, and sums that up.
#[test]
fn a_table_of_modules() {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_cooplab"));
    command.args(["replay", "--table", "--first", "--on", "interp", "--only", "null"]);
    command.args(["--target", "scalar", "--lanes", "local-index"]).arg(folder());
    let done = command.output().expect("cooplab starts");
    let text = String::from_utf8_lossy(&done.stdout);
    assert!(
        text.contains("| null | yes | 1 of 1 |  |\n") && text.contains("Of 1 modules 1 run as they are."),
        "{text}"
    );
    assert_eq!(done.status.code(), Some(0));
}
