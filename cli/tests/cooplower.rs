//! `cooplower` as its users see it: exit statuses, what is written and what is not.

mod llama_modules;

use coop_ir::binary;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn kernel(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata/kernels").join(name);
    path.to_string_lossy().into_owned()
}

fn temporary(name: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cooplower");
    std::fs::create_dir_all(&dir).expect("a temporary folder");
    let file = dir.join(name);
    let _ = std::fs::remove_file(&file).or_else(|_| std::fs::remove_dir_all(&file));
    file
}

/// Runs the tool; when these tests run with a driver's own C library, the tool needs the same wrapper.
fn cooplower(args: &[&str]) -> Output {
    let tool = env!("CARGO_BIN_EXE_cooplower");
    let mut command = match std::env::var_os("COOP_RUNNER") {
        Some(runner) => {
            let mut c = Command::new(runner);
            c.arg(tool);
            c
        }
        None => Command::new(tool),
    };
    command.args(args).env("NO_COLOR", "1").output().expect("cooplower runs")
}

fn status(output: &Output) -> i32 {
    output.status.code().expect("it was not killed")
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

const DIMENSIONS: [&str; 8] = ["--spec", "0=16", "--spec", "1=16", "--spec", "2=16", "--subgroup-size", "32"];

/// The first subgroup of a workgroup multiplies: which invocations are in it depends on the size that is given, or the device's.
#[test]
fn the_check_has_the_subgroups_of_the_lowering() {
    let by_subgroup = include_str!("../../testdata/passes/memory-model.spvasm");
    let by_index = by_subgroup.replacen("%first = OpIEqual %bool %s %c0", "%first = OpULessThan %bool %i %c8", 1);
    assert_ne!(by_subgroup, by_index);
    let file = temporary("by-index.spvasm");
    std::fs::write(&file, by_index).expect("the module is written");
    let file = file.to_string_lossy().into_owned();
    for size in [["--subgroup-size", "8"], ["--profile", "mesa-lavapipe"]] {
        let output = cooplower(&[size[0], size[1], &file, "-o", "-"]);
        assert_eq!(status(&output), 0, "{size:?}: {}", stderr(&output));
    }
    let output = cooplower(&["--subgroup-size", "16", &file, "-o", "-"]);
    assert_eq!(status(&output), 1, "{}", stderr(&output));
    assert!(stderr(&output).contains("(subgroups of 16)"), "{}", stderr(&output));
}

#[test]
fn a_kernel_is_lowered_and_says_what_it_needs() {
    let (out, report) = (temporary("gemm.spv"), temporary("gemm.json"));
    let (out_arg, report_arg) = (out.to_string_lossy(), report.to_string_lossy());
    let mut args: Vec<&str> = DIMENSIONS.to_vec();
    let input = kernel("gemm_simple.spv");
    args.extend([input.as_str(), "-o", &out_arg, "--report", &report_arg, "--verify-each"]);
    let output = cooplower(&args);
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    assert!(stderr(&output).contains("must require a subgroup size of 32"), "{}", stderr(&output));
    let module = binary::read(&std::fs::read(&out).expect("it was written")).expect("a module");
    assert!(!module.has_capability(coop_ir::spv::Capability::CooperativeMatrixKHR));
    let report: serde_json::Value =
        serde_json::from_slice(&std::fs::read(&report).expect("it was written")).expect("JSON");
    assert_eq!(report["requiredSubgroupSize"], 32);
    assert_eq!(report["consumedSpecIds"], serde_json::json!({"0": 16, "1": 16, "2": 16}));
    assert_eq!(report["remainingSpecIds"], serde_json::json!([3]));
    assert_eq!(report["matrices"].as_array().map(Vec::len), Some(3));
}

#[test]
fn promises_and_zeros_change_what_is_written() {
    let shared = |path: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path);
    let size = |input: &str, constant: &str, more: &[&str]| {
        let (input, out) = (shared(input), temporary("promised.spv"));
        let (input, out_arg) = (input.to_string_lossy(), out.to_string_lossy());
        let mut args =
            vec!["--spec", constant, "--profile", "mesa-lavapipe-debian12", "--spec-defaults", &input, "-o", &out_arg];
        args.extend(more);
        let output = cooplower(&args);
        assert_eq!(status(&output), 0, "{}", stderr(&output));
        std::fs::metadata(&out).expect("it was written").len()
    };
    let tensors = "testdata/nv2/unaligned.f16.spv";
    assert!(size(tensors, "0=8", &["--assume", "aligned"]) < size(tensors, "0=8", &[]));
    let outside = "exec/tests/interp/clamp.spv";
    assert!(size(outside, "0=0", &["--undefined-as-zero"]) > size(outside, "0=0", &[]));
    // A constant of 32 is called WARP, and the device has subgroups of 8.
    let named = include_str!("../../testdata/passes/coordinates.spvasm").replacen(
        "OpDecorate",
        "OpName %warp \"WARP\"\nOpDecorate %warp SpecId 77\nOpDecorate",
        1,
    );
    let function = named.find("%main = OpFunction").expect("a function");
    let named = format!("{}%warp = OpSpecConstant %uint 32\n{}", &named[..function], &named[function..]);
    let warning = |more: &[&str]| {
        let (input, out) = (temporary("named.spvasm"), temporary("any.spv"));
        std::fs::write(&input, &named).expect("written");
        let (input, out_arg) = (input.to_string_lossy(), out.to_string_lossy());
        let mut args = vec!["--profile", "mesa-lavapipe-debian12", "--spec-defaults", &input, "-o", &out_arg];
        args.extend(more);
        let output = cooplower(&args);
        assert_eq!(status(&output), 0, "{}", stderr(&output));
        stderr(&output).contains("subgroup-size-specialised")
    };
    assert_eq!([warning(&[]), warning(&["--assume", "any-subgroup-size"])], [true, false]);
    let wrong = cooplower(&["--assume", "peace", tensors]);
    assert!(status(&wrong) == 2 && stderr(&wrong).contains("any-subgroup-size"), "{}", stderr(&wrong));
}

#[test]
fn a_dimension_without_a_value_is_refused_and_nothing_is_written() {
    let out = temporary("refused.spv");
    let input = kernel("gemm_simple.spv");
    let output = cooplower(&["--subgroup-size", "32", &input, "-o", &out.to_string_lossy()]);
    assert_eq!(status(&output), 3);
    let text = stderr(&output);
    assert!(
        text.contains("refused-unknown-dimension") && text.contains("--spec 0=.. --spec 1=.. --spec 2=.."),
        "{text}"
    );
    assert!(!out.exists());
}

#[test]
fn a_subgroup_size_nobody_said_is_refused() {
    let output = cooplower(&["--spec-defaults", &kernel("gemm_simple.spv"), "-o", "-"]);
    assert_eq!(status(&output), 3);
    assert!(stderr(&output).contains("--subgroup-size N or --profile NAME"), "{}", stderr(&output));
    assert!(output.stdout.is_empty());
}

#[test]
fn a_value_that_does_not_fit_is_refused() {
    let input = kernel("gemm_simple.spv");
    let mut args = DIMENSIONS.to_vec();
    args[1] = "0=1.5";
    args.push(&input);
    let output = cooplower(&args);
    assert_eq!(status(&output), 3);
    assert!(stderr(&output).contains("SpecId 0 does not fit"), "{}", stderr(&output));
}

#[test]
fn a_module_without_matrices_comes_out_byte_for_byte() {
    let (once, twice) = (temporary("once.spv"), temporary("twice.spv"));
    let mut args = DIMENSIONS.to_vec();
    let input = kernel("gemm_i8.spv");
    let once_arg = once.to_string_lossy().into_owned();
    args.extend([input.as_str(), "-o", &once_arg]);
    assert_eq!(status(&cooplower(&args)), 0);
    let output = cooplower(&[&once_arg, "-o", &twice.to_string_lossy()]);
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    assert!(stderr(&output).contains("nothing to lower"), "{}", stderr(&output));
    assert_eq!(std::fs::read(once).ok(), std::fs::read(twice).ok());
}

#[test]
fn text_goes_to_standard_output_and_reads_back() {
    let mut args = DIMENSIONS.to_vec();
    let input = kernel("gemm_simple.spv");
    args.extend([input.as_str(), "-t", "-o", "-", "-q"]);
    let output = cooplower(&args);
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    let text = String::from_utf8(output.stdout).expect("text");
    let module = coop_ir::text::parse(&text).expect("assembly");
    assert!(text.contains("OpFunctionCall") && !text.contains("CooperativeMatrix"));
    assert_eq!(coop_ir::verify::verify(&module).map_err(|p| p.len()), Ok(()));
}

#[test]
fn what_can_not_be_read_is_2() {
    let garbage = temporary("garbage");
    std::fs::write(&garbage, [0u8; 64]).expect("it can be written");
    let folder = garbage.parent().expect("a folder").to_string_lossy().into_owned();
    for bad in [garbage.to_string_lossy().into_owned(), folder, "no/such/file.spv".to_owned()] {
        let output = cooplower(&[&bad, "-o", "-"]);
        assert_eq!(status(&output), 2, "{bad}: {}", stderr(&output));
        assert!(stderr(&output).starts_with("error: "), "{}", stderr(&output));
    }
    assert_eq!(status(&cooplower(&["--target", "nonsense"])), 2);
    assert_eq!(status(&cooplower(&["--dump-after", "nonsense", "--dump-dir", "x", "y"])), 2);
}

/// A module that is cut off before its memory model breaks rules, too: what they ask for is behind the cut.
#[test]
fn a_module_that_is_cut_off_is_2() {
    const MEMORY_MODEL: u32 = 14;
    let whole = std::fs::read(kernel("gemm_bf16.spv")).expect("a kernel");
    let word = |at: usize| u32::from_le_bytes(whole[at * 4..at * 4 + 4].try_into().expect("four bytes"));
    let mut model = 5;
    while word(model) & 0xffff != MEMORY_MODEL {
        model += (word(model) >> 16) as usize;
    }
    let path = temporary("cut-off.spv");
    for words in 5..=model {
        std::fs::write(&path, &whole[..words * 4]).expect("a temporary file");
        let output = cooplower(&[path.to_str().expect("a name")]);
        assert_eq!(status(&output), 2, "{words}: {}", stderr(&output));
    }
}

#[test]
fn passes_and_profiles_are_listed_and_dumped() {
    let list = cooplower(&["--list-passes"]);
    let names: Vec<String> = String::from_utf8_lossy(&list.stdout)
        .lines()
        .filter_map(|l| l.split_whitespace().next().map(str::to_owned))
        .collect();
    for expected in ["specialize", "inline", "scalar", "tiles", "bfloat16", "cleanup"] {
        assert!(names.iter().any(|n| n == expected), "{expected} is not in {names:?}");
    }
    let profiles = cooplower(&["--list-profiles"]);
    assert!(String::from_utf8_lossy(&profiles.stdout).contains("nvidia-h100"));
    let dir = temporary("dump");
    // What another version of the passes left would be found too.
    let _ = std::fs::remove_dir_all(&dir);
    let dir_arg = dir.to_string_lossy().into_owned();
    let mut args = DIMENSIONS.to_vec();
    let input = kernel("gemm_simple.spv");
    args.extend([input.as_str(), "--dump-after", "all", "--dump-dir", &dir_arg]);
    assert_eq!(status(&cooplower(&args)), 0);
    let mut files: Vec<String> = std::fs::read_dir(&dir)
        .expect("the folder was made")
        .flatten()
        .map(|e| e.file_name().to_string_lossy().into_owned())
        .collect();
    files.sort();
    // Those of the target, numbered in the order of the list; those of component types are behind them.
    let of_components = |name: &String| coop_components::PASSES.iter().any(|pass| pass.name == name);
    assert_eq!(names.iter().filter(|n| of_components(n)).count(), coop_components::PASSES.len());
    let of_target = |name: &String| {
        let scalar = coop_passes::Target::Scalar;
        coop_passes::PASSES.iter().any(|pass| pass.name == name && pass.targets.contains(&scalar))
    };
    let ran: Vec<&String> = names.iter().filter(|n| of_target(n)).collect();
    let expected: Vec<String> = ran.iter().enumerate().map(|(n, name)| format!("{n:02}-{name}.spvasm")).collect();
    assert_eq!(files, expected);
}

#[test]
fn an_invalid_module_is_not_lowered_unless_told_so() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata/validate/muladd/muladd-k-mismatch.spvasm");
    let input = path.to_string_lossy();
    let output = cooplower(&["--subgroup-size", "32", &input, "-o", "-"]);
    assert_eq!(status(&output), 1, "{}", stderr(&output));
    assert!(stderr(&output).contains("muladd-k-mismatch"), "{}", stderr(&output));
    let output = cooplower(&["--subgroup-size", "32", "--no-check", &input, "-o", "-"]);
    assert_eq!(status(&output), 3, "{}", stderr(&output));
}

#[test]
fn coopcheck_explains_refusals() {
    let explain = |id: &str| {
        let tool = env!("CARGO_BIN_EXE_coopcheck");
        let mut command = match std::env::var_os("COOP_RUNNER") {
            Some(runner) => {
                let mut c = Command::new(runner);
                c.arg(tool);
                c
            }
            None => Command::new(tool),
        };
        command.args(["explain", id]).env("NO_COLOR", "1").output().expect("coopcheck runs")
    };
    for rule in coop_passes::REFUSALS {
        let output = explain(rule.id);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(status(&output), 0, "{}: {}", rule.id, stderr(&output));
        assert!(text.starts_with(rule.id) && text.contains(rule.why) && text.contains(rule.remedy), "{text}");
    }
    for rule in coop_components::REFUSALS {
        let text = String::from_utf8_lossy(&explain(rule.id).stdout).into_owned();
        assert!(text.starts_with(rule.id) && text.contains(rule.why) && text.contains(rule.remedy), "{text}");
    }
    assert_eq!(status(&explain("refused-nothing")), 2);
}

/// `--without` and profiles that lack component types: what becomes software is said, and the output does not declare it.
#[test]
fn component_types_become_software() {
    let (out, report) = (temporary("software.spv"), temporary("software.json"));
    let (out_arg, report_arg) = (out.to_string_lossy(), report.to_string_lossy());
    let input = kernel("gemm_simple.spv");
    let local = ["--lanes", "local-index", "--spec-defaults", "-o", &out_arg];
    let scalar = ["--target", "scalar"];
    let without = ["--subgroup-size", "32", "--without", "shaderFloat16,storageBuffer16BitAccess"];
    let swiftshader = ["--subgroup-size", "4", "--spec", "3=4", "--profile", "google-swiftshader"];
    let auto = [&swiftshader[..], &["--target", "auto"]].concat();
    for more in [&without[..], &swiftshader[..], &auto[..]] {
        let target = if more.contains(&"--target") { &[][..] } else { &scalar[..] };
        let args = [&[input.as_str(), "--report", &report_arg], &local[..], target, more].concat();
        let output = cooplower(&args);
        assert_eq!(status(&output), 0, "{}", stderr(&output));
        assert!(stderr(&output).contains("f16 is computed with f32"), "{}", stderr(&output));
        assert!(!stderr(&output).contains("does not run"), "{}", stderr(&output));
        let module = binary::read(&std::fs::read(&out).expect("it was written")).expect("a module");
        assert!(!module.enables(coop_ir::spv::Capability::Float16));
        assert!(!module.enables(coop_ir::spv::Capability::StorageBuffer16BitAccess));
        let report: serde_json::Value =
            serde_json::from_slice(&std::fs::read(&report).expect("it was written")).expect("JSON");
        assert_eq!(report["software"].as_array().map(Vec::len), Some(4), "{report}");
        assert!(report["software"][3].as_str().is_some_and(|s| s.starts_with("slower by about ")), "{report}");
        assert_eq!(report["warnings"][0]["id"], "whole-words");
    }
    // With excess precision nothing is rounded but what is stored: the code is shorter.
    let size = |more: &[&str]| {
        assert_eq!(status(&cooplower(&[&[input.as_str()], &local[..], &scalar[..], &without[..], more].concat())), 0);
        std::fs::metadata(&out).expect("it was written").len()
    };
    assert!(size(&["--excess-precision"]) < size(&[]));
    // A module without matrices is lowered as well, and what the device has stays byte for byte.
    let words = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata/components/layouts.spvasm");
    let words = words.to_string_lossy();
    let output = cooplower(&[&words, "--without", "shaderInt8", "-o", &out_arg]);
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    assert!(stderr(&output).contains("u8 is computed with 32-bit integers"), "{}", stderr(&output));
    let output = cooplower(&[&out_arg, "--without", "shaderInt8", "-o", &report_arg]);
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    assert_eq!(std::fs::read(&out).expect("there"), std::fs::read(&report_arg[..]).expect("there"));
    // What has no lowering is refused, with the instruction; what no lowering does without is wrong usage.
    let refused = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata/components/refused.spvasm");
    let refused = refused.to_string_lossy();
    let output =
        cooplower(&[&[&*refused, "--lanes", "local-index", "-o", &out_arg], &scalar[..], &without[..]].concat());
    assert_eq!(status(&output), 3, "{}", stderr(&output));
    assert!(stderr(&output).contains("refused-component-type") && stderr(&output).contains("help:"));
    let output = cooplower(&[&input, "--without", "shaderFloat17", "-o", &out_arg]);
    assert_eq!(status(&output), 2);
    assert!(stderr(&output).contains("did you mean 'shaderFloat16'"), "{}", stderr(&output));
}

/// `scripts/bench.sh` has the figures of a release build: 200 ms and 200 MB. Here it is ten times the processor time, and the memory.
#[test]
fn the_largest_module_takes_little_time_and_memory() {
    use nix::sys::resource::{UsageWho, getrusage};
    let Some((file, spec)) = llama_modules::largest() else { return };
    let file = file.to_string_lossy();
    let out = temporary("largest.spv");
    let out = out.to_string_lossy();
    for target in ["scalar", "khr", "auto"] {
        let usage = || getrusage(UsageWho::RUSAGE_CHILDREN).expect("it is known");
        let seconds = |u: nix::sys::resource::Usage| {
            [u.user_time(), u.system_time()].iter().map(|t| t.tv_sec() as f64 + t.tv_usec() as f64 / 1e6).sum::<f64>()
        };
        let before = seconds(usage());
        let mut args = vec!["--target", target, "--profile", "nvidia-h100", "--no-check", &file, "-o", &out];
        args.extend(spec.iter().map(String::as_str));
        let output = cooplower(&args);
        assert_eq!(status(&output), 0, "{target}: {}", stderr(&output));
        let seconds = seconds(usage()) - before;
        let peak = usage().max_rss() as f64 * if cfg!(target_vendor = "apple") { 1.0 } else { 1024.0 } / 1e6;
        let limit = if cfg!(debug_assertions) { 2.0 } else { 0.4 };
        assert!(seconds < limit && peak < 200.0, "{target}: {seconds} s, {peak} MB");
    }
}

/// At most six times the input, or the report says why.
#[test]
fn the_size_of_the_output_is_told() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata/bench");
    let mut sizes = Vec::new();
    for name in ["matmul_nv2_f16", "matmul_nv2_bf16", "matmul_nv2_q4_0", "flash_nv2"] {
        for target in ["scalar", "khr"] {
            let (out, report) = (temporary("size.spv"), temporary("size.json"));
            let (out_arg, report_arg) = (out.to_string_lossy(), report.to_string_lossy());
            let input = folder.join(name).with_extension("spv");
            let input_arg = input.to_string_lossy();
            let mut args =
                vec!["--target", target, "--profile", "nvidia-h100", "--spec-defaults", &input_arg, "-o", &out_arg];
            args.extend(["--spec", "0=256", "--report", &report_arg]);
            let output = cooplower(&args);
            assert_eq!(status(&output), 0, "{name}: {}", stderr(&output));
            let report: serde_json::Value =
                serde_json::from_slice(&std::fs::read(&report).expect("it was written")).expect("JSON");
            let bytes = |path: &Path| std::fs::metadata(path).expect("a file").len();
            let (before, after) = (bytes(&input), bytes(&out));
            assert_eq!(report["size"]["input"], before, "{name} to {target}");
            assert_eq!(report["size"]["output"], after, "{name} to {target}");
            let why = report["size"]["why"].as_str();
            assert_eq!(why.is_some(), after > 6 * before, "{name} to {target}: {before} to {after}");
            let told = |w: &str| w.contains(&before.to_string()) && w.contains(&after.to_string());
            assert!(why.is_none_or(told), "{name} to {target}: {}", why.unwrap_or_default());
            sizes.push((name, target, after as f64 / before as f64));
        }
    }
    let f16 = sizes.iter().find(|s| s.0 == "matmul_nv2_f16" && s.1 == "scalar").expect("it was lowered").2;
    assert!(f16 <= 6.0, "{f16}");
}

#[test]
fn an_opencl_kernel_becomes_a_shader_for_vulkan() {
    let input = kernel("../vulkan/reduce.spv");
    let args = ["--env", "vulkan", "--local-size", "64", "--local-arg", "1=256", &input, "-t"];
    let output = cooplower(&args);
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    for line in ["OpEntryPoint GLCompute", "LocalSize 64 1 1", "PhysicalStorageBuffer64 Vulkan", "OpLoopMerge"] {
        assert!(text.contains(line), "{line}: {text}");
    }
    let said = stderr(&output);
    assert!(said.contains("argument 1 (part): local, 256 bytes"), "{said}");
    assert!(said.contains("argument 3 (scale): value at 16, 2 bytes"), "{said}");
    let output = cooplower(&["--env", "vulkan", "--local-size", "64", &input, "-t"]);
    assert_eq!((status(&output), output.stdout.len()), (3, 0));
    assert!(stderr(&output).contains("--local-arg 1=BYTES"), "{}", stderr(&output));
    for wrong in [["--local-size", "0"], ["--local-size", "1,1,1,1"], ["--local-arg", "256"]] {
        assert_eq!(status(&cooplower(&["--env", "vulkan", wrong[0], wrong[1], &input])), 2, "{wrong:?}");
    }
}

/// `--device` asks a device of this machine, and says it where there is none such.
#[test]
fn a_device_of_this_machine_is_looked_for() {
    let output = cooplower(&["--target", "khr", "--device", "nobody's device", &kernel("gemm_simple.spv")]);
    assert_eq!(status(&output), 2, "{}", stderr(&output));
    assert!(stderr(&output).contains("--device nobody's device: "), "{}", stderr(&output));
}

#[test]
fn a_file_that_can_t_be_written_whole_stays_as_it_was() {
    let folder = temporary("full");
    std::fs::create_dir_all(&folder).expect("a folder");
    let file = folder.join("gemm.spv");
    std::fs::copy(kernel("gemm_simple.spv"), &file).expect("a copy");
    let before = std::fs::read(&file).expect("it was copied");
    let over_itself = |limit: &str| {
        // Writing beyond the limit is an error, like a disk that is full.
        let script = format!("trap '' XFSZ; {limit}; exec \"$@\"");
        let mut command = Command::new("sh");
        command.args(["-c", script.as_str(), "sh"]);
        if let Some(runner) = std::env::var_os("COOP_RUNNER") {
            command.arg(runner);
        }
        command.arg(env!("CARGO_BIN_EXE_cooplower")).args(DIMENSIONS).args([
            file.as_path(),
            Path::new("-o"),
            file.as_path(),
        ]);
        command.env("NO_COLOR", "1").output().expect("sh runs")
    };
    let files = || std::fs::read_dir(&folder).expect("a folder").count();

    let output = over_itself("ulimit -f 1");
    assert_eq!(status(&output), 2, "{}", stderr(&output));
    assert_eq!(std::fs::read(&file).expect("still there"), before);
    assert_eq!(files(), 1, "nothing is left beside it");

    let output = over_itself(":");
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    let module = binary::read(&std::fs::read(&file).expect("it was written")).expect("a module");
    assert!(!module.has_capability(coop_ir::spv::Capability::CooperativeMatrixKHR));
    assert_eq!(files(), 1);
}

/// A file that ends between two instructions is no module, though it has no matrices to lower.
#[test]
fn a_damaged_module_without_matrices_is_not_handed_on() {
    let whole = std::fs::read(kernel("gemm_simple.spv")).expect("a kernel");
    let word = |at: usize| u32::from_le_bytes(whole[at..at + 4].try_into().expect("a word"));
    // Up to the first type: behind the entry point, which names ids that follow.
    let mut end = 20;
    while word(end) & 0xFFFF != 19 {
        end += 4 * (word(end) >> 16) as usize;
    }
    let (input, out) = (temporary("damaged.spv"), temporary("damaged-out.spv"));
    std::fs::write(&input, &whole[..end]).expect("writable");
    let output = cooplower(&[&input.to_string_lossy(), "-o", &out.to_string_lossy()]);
    assert_eq!(status(&output), 2, "{}", stderr(&output));
    assert!(stderr(&output).contains("is not defined") && !out.exists(), "{}", stderr(&output));
}
