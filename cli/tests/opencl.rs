//! Kernels: `testdata/opencl` in the interpreter and, lowered, on OpenCL devices.

use std::path::Path;
use std::process::Command;

use coop_exec::interp::Interpreted;
use coop_exec::testing::{Driver, case, optional_tool, repository, words};
use coop_exec::{Executor, RunOptions};
use coop_ir::decorate::Decorations;
use coop_ir::entry::entry_points;
use coop_ir::text::{PrintOptions, print};
use coop_ir::types::Type;
use coop_ir::{Module, Op};

/// Kernels whose workgroups are one subgroup.
const NARROW: [&str; 13] = [
    "plain",
    "plain.llc",
    "gemm_f16",
    "gemm_f16.llc",
    "gemm_tf32",
    "gemm_checked",
    "gemm_checked.llc",
    "elements",
    "gemm_o0",
    "wrapped",
    "sums",
    "chain",
    "unoptimised",
];

/// Kernels whose workgroups are several subgroups: pocl has subgroups as wide as a workgroup and does not keep the size
/// that a kernel requires, and rusticl crashes on them where its subgroups are of 16 (`testdata/opencl/README.md`).
const WIDE: [&str; 8] =
    ["gemm_bf16", "gemm_bf16.llc", "gemm_i4", "gemm_i4.llc", "gemm_i8", "gemm_i8.llc", "gemm_slm", "gemm_slm.llc"];

/// The modules of `testdata/opencl`, by name without `.spv`, each with its case's path.
fn kernels() -> Vec<(String, String)> {
    let folder = repository().join("testdata/opencl");
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let names = entries.map(|entry| entry.expect("a readable folder").file_name().into_string().expect("a UTF-8 name"));
    let mut modules: Vec<String> = names.filter_map(|name| Some(name.strip_suffix(".spv")?.to_owned())).collect();
    modules.sort();
    assert!(modules.len() >= 12, "only {} kernels", modules.len());
    let case = |name: &str| format!("testdata/opencl/{}.toml", name.split('.').next().unwrap_or_default());
    modules.into_iter().map(|name| (name.clone(), case(&name))).collect()
}

/// `cooprun` on a runtime: its status and what it prints. `None` where there is no such runtime.
fn cooprun(driver: Driver, arguments: &[&str]) -> Option<(Option<i32>, String)> {
    let mut command = Command::new(driver.wrapper_or_skip(arguments)?);
    // What the tests themselves run with is for Vulkan.
    command.env_remove("LP_NATIVE_VECTOR_WIDTH").env_remove("GALLIUM_OVERRIDE_CPU_CAPS");
    // With vectors of 512 bits rusticl crashes on some, and only subgroups of 16 need those.
    if driver == Driver::Rusticl && arguments.contains(&"local-index") {
        command.env("LP_NATIVE_VECTOR_WIDTH", "256").env("GALLIVM_PERF", "nopt");
    }
    command.arg(env!("CARGO_BIN_EXE_cooprun")).args(arguments).current_dir(repository());
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    Some((output.status.code(), text))
}

#[test]
fn kernels_do_in_the_interpreter_what_their_cases_expect() {
    for (name, toml) in kernels() {
        let case = case(&toml);
        let outcome = Interpreted::default()
            .run(&words(format!("testdata/opencl/{name}.spv")), &case, &RunOptions::default())
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(outcome.faults.is_empty(), "{name}: {}", outcome.faults.join("\n"));
        assert!(!case.expect.is_empty(), "{name} expects nothing");
        let differences = outcome.check(&case).unwrap();
        assert!(differences.is_empty(), "{name}: {}", differences[0]);
    }
}

/// Runs a kernel, lowered to scalar code, in the interpreter and on a runtime: both agree with the original in the
/// interpreter and with what the case expects. Answers whether there is such a runtime.
fn scalar_code_runs_on(driver: Driver, name: &str, more: &[&str]) -> bool {
    let (module, case) = (format!("testdata/opencl/{name}.spv"), name.split('.').next().unwrap_or_default());
    let case = format!("testdata/opencl/{case}.toml");
    let arguments = ["verify", &module, "--case", &case, "--target", "scalar", "--on", "interp-opencl"];
    let Some((status, text)) = cooprun(driver, &[&arguments[..], more].concat()) else { return false };
    assert_eq!(status, Some(0), "{name}: {text}");
    let agrees: Vec<&str> = text.lines().filter(|line| line.contains("agrees with the expectation")).collect();
    assert_eq!(agrees.len(), 2, "{name}: {text}");
    assert!(agrees[0].ends_with("and the original on interpreter"), "{name}: {text}");
    assert!(!agrees[1].contains("interpreter"), "{name}: {text}");
    assert!(text.trim_end().ends_with("agrees with interpreter"), "{name}: {text}");
    true
}

#[test]
fn scalar_code_of_kernels_runs_on_pocl() {
    for name in NARROW {
        if !scalar_code_runs_on(Driver::Pocl, name, &[]) {
            return;
        }
    }
    for name in WIDE {
        scalar_code_runs_on(Driver::Pocl, name, &["--lanes", "local-index"]);
    }
    let listed = NARROW.iter().chain(&WIDE).count();
    assert_eq!(listed, kernels().len(), "a kernel is in neither list");
}

#[test]
fn scalar_code_of_kernels_runs_on_rusticl() {
    // The loop with two entries of gemm_o0 never ends there, nor does unoptimised, which is not understood.
    let ends = |name: &&str| !name.ends_with(".llc") && !["gemm_o0", "unoptimised"].contains(name);
    for name in NARROW.into_iter().filter(ends) {
        if !scalar_code_runs_on(Driver::Rusticl, name, &[]) {
            return;
        }
    }
    // It crashes on gemm_slm with vectors of any width.
    for name in WIDE.into_iter().filter(|name| !name.ends_with(".llc") && *name != "gemm_slm") {
        scalar_code_runs_on(Driver::Rusticl, name, &["--lanes", "local-index"]);
    }
}

/// Intel's runtime crashes on some where lanes are those of subgroups, so they are places in the workgroup. Where the processor
/// has AMX, the originals with bfloat16 and bytes run too, and agree.
#[test]
fn scalar_code_of_kernels_runs_on_intels_runtime() {
    for (name, _) in kernels() {
        if !scalar_code_runs_on(Driver::Intel, &name, &["--lanes", "local-index"]) {
            return;
        }
    }
}

/// The faults of pocl are in the document, and their modules are defined.
#[test]
fn pocl_ends_at_what_its_page_says() {
    let module = "testdata/drivers/pocl/nontemporal.spvasm";
    let case_file = "testdata/drivers/pocl/nontemporal.toml";
    let page = std::fs::read_to_string(repository().join("docs/drivers.md")).expect("the page");
    assert!(page.contains(module));
    let outcome = Interpreted::default().run(&words(module), &case(case_file), &RunOptions::default());
    let outcome = outcome.unwrap_or_else(|error| panic!("{error}"));
    assert!(outcome.faults.is_empty(), "{}", outcome.faults.join("\n"));
    let Some((status, text)) = cooprun(Driver::Pocl, &["run", module, "--case", case_file, "--on", "opencl"]) else {
        return;
    };
    assert_eq!(status, None, "no signal ended it: {text}");
}

/// Runs a tool on a file; what it says, if it fails.
fn complaint(tool: &Path, arguments: &[&str]) -> Option<String> {
    let output =
        Command::new(tool).args(arguments).output().unwrap_or_else(|error| panic!("{}: {error}", tool.display()));
    let said = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    (!output.status.success()).then(|| format!("{}: {said}", output.status))
}

/// The matrices of a kernel become those of Intel's GPUs: the interpreter agrees, the kernel's interface is the same,
/// spirv-val takes the module, and so does Intel's compiler.
#[test]
fn kernels_keep_matrices_for_intels_devices() {
    let ocloc = optional_tool("ocloc");
    for (name, toml) in kernels() {
        let original = format!("testdata/opencl/{name}.spv");
        let file = format!("{}/{name}.khr.spv", env!("CARGO_TARGET_TMPDIR"));
        let mut command = Command::new(env!("CARGO_BIN_EXE_cooprun"));
        command.args(["verify", &original, "--case", &toml, "--target", "khr", "--profile", "intel-opencl-gpu"]);
        let output = command.args(["--on", "interp", "-o", &file]).current_dir(repository()).output();
        let output = output.unwrap_or_else(|error| panic!("{error}"));
        let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{name}: {text}");
        assert!(text.contains("agrees with the expectation and the original"), "{name}: {text}");
        let module =
            |path: &str| coop_ir::binary::read_words(&words(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
        let (before, after) = (module(&original), module(&file));
        assert_eq!(interface(&before), interface(&after), "{name}");
        let multiplies = |m: &Module| m.all().any(|r| m.inst(r).op == Op::CooperativeMatrixMulAddKHR);
        assert_eq!(multiplies(&before), multiplies(&after), "{name}");
        if let Some(tool) = Driver::Pocl.wrapper_or_skip("spirv-val").map(|w| w.with_file_name("spirv-val")) {
            // The version of SPIR-V is what a compiler says; the environments of OpenCL end at 1.2.
            assert_eq!(complaint(&tool, &["--target-env", "spv1.6", &file]), None, "{name}");
        }
        let Some(ocloc) = &ocloc else { continue };
        for device in ["pvc", "bmg"] {
            let out = format!("{}/{name}.{device}", env!("CARGO_TARGET_TMPDIR"));
            let arguments = ["compile", "-spirv_input", "-file", &file, "-device", device, "-out_dir", &out, "-q"];
            assert_eq!(complaint(ocloc, &arguments), None, "{name} for {device}");
        }
    }
}

/// The text of a kernel's module with changes: what stands there, and what shall stand there.
fn edited(what: &str, name: &str, edits: &[(&str, &str)]) -> String {
    let original = coop_ir::binary::read_words(&words(format!("testdata/opencl/{name}.spv"))).expect("a module");
    let text = print(&original, &PrintOptions::default()).text;
    let mut text = text.lines().map(str::trim).collect::<Vec<_>>().join("\n") + "\n";
    for (from, to) in edits {
        assert!(text.contains(from), "{what}: there is no {from} in\n{text}");
        text = text.replace(from, to);
    }
    text
}

/// Other compilers' forms of kernels: each is a change to the text of a kernel's module. The result is lowered, to
/// scalar code and with matrices, and gives the same.
#[test]
fn deviations_of_compilers_are_accepted() {
    let struct_pointer = (
        "%_ptr_Generic_half = OpTypePointer Generic %half\n",
        "%_ptr_Generic_half = OpTypePointer Generic %half\n%wrapped = OpTypeStruct %half\n%wrapped_pointer = OpTypePointer Generic %wrapped\n",
    );
    /// A description, the kernel, and pairs of a text and its replacement.
    type Change<'a> = (&'a str, &'a str, &'a [(&'a str, &'a str)]);
    let changes: [Change<'_>; 5] = [
        (
            "the length of a value, of 64 bits",
            "gemm_o0",
            &[("OpCooperativeMatrixLengthKHR %ulong %mat_f32_8x16_Acc", "OpCooperativeMatrixLengthKHR %ulong %acc")],
        ),
        (
            "a matrix behind a pointer to a struct",
            "gemm_f16",
            &[
                struct_pointer,
                (
                    "%am = OpCooperativeMatrixLoadKHR %mat_f16_8x16_A %ag",
                    "%aw = OpBitcast %wrapped_pointer %ag\n%am = OpCooperativeMatrixLoadKHR %mat_f16_8x16_A %aw",
                ),
            ],
        ),
        (
            "no capability of Intel's for loads with offsets, no extension",
            "gemm_o0",
            &[
                ("OpCapability CooperativeMatrixOffsetInstructionsINTEL\n", ""),
                ("OpExtension \"SPV_INTEL_joint_matrix\"\n", ""),
            ],
        ),
        (
            "a length of 32 bits with a sign",
            "gemm_o0",
            &[
                ("%ulong = OpTypeInt 64 0\n", "%ulong = OpTypeInt 64 0\n%signed = OpTypeInt 32 1\n"),
                (
                    "%len = OpCooperativeMatrixLengthKHR %ulong %mat_f32_8x16_Acc",
                    "%len_signed = OpCooperativeMatrixLengthKHR %signed %mat_f32_8x16_Acc\n%len = OpUConvert %ulong %len_signed",
                ),
            ],
        ),
        (
            "a prefetch with offsets, as the text has it",
            "gemm_bf16",
            &[(
                "OpCooperativeMatrixPrefetchINTEL %ang 50 51 0 54 19",
                "OpCooperativeMatrixPrefetchINTEL %ang 50 50 50 51 0 54 19",
            )],
        ),
    ];
    for (what, name, edits) in changes {
        let text = edited(what, name, edits);
        let file = format!("{}/{name}.{}.spvasm", env!("CARGO_TARGET_TMPDIR"), what.replace(' ', "-"));
        std::fs::write(&file, text).unwrap_or_else(|error| panic!("{file}: {error}"));
        let case = format!("testdata/opencl/{name}.toml");
        for target in ["scalar", "khr"] {
            let mut command = Command::new(env!("CARGO_BIN_EXE_cooprun"));
            command.args(["verify", &file, "--case", &case, "--target", target, "--profile", "intel-opencl-gpu"]);
            let output = command.args(["--on", "interp"]).current_dir(repository()).output();
            let output = output.unwrap_or_else(|error| panic!("{error}"));
            let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{what}, {target}: {said}");
            assert!(said.contains("agrees with the expectation and the original"), "{what}, {target}: {said}");
        }
    }
}

/// A module, and what comes of it as scalar code and with matrices of Intel's devices.
fn lowered_both_ways(module: &Module) -> [(&'static str, Vec<u32>); 3] {
    let profile = coop_device::Profile::builtin("intel-opencl-gpu");
    let lowered = |target| {
        let options = coop_passes::Options { profile: profile.as_ref(), ..coop_passes::Options::new(target) };
        let lowered = coop_passes::lower(module, &options).unwrap_or_else(|error| panic!("{error}"));
        coop_ir::binary::write_words(&lowered.module)
    };
    let (scalar, khr) = (lowered(coop_passes::Target::Scalar), lowered(coop_passes::Target::Khr));
    [("original", coop_ir::binary::write_words(module)), ("scalar", scalar), ("khr", khr)]
}

/// Returns true if a module keeps to its buffers in a case, in the interpreter.
fn stays_within(words: &[u32], case: &str) -> bool {
    let case = coop_exec::Case::parse(case, &repository()).expect("a case");
    let outcome = Interpreted::default().run(words, &case, &RunOptions::default());
    outcome.is_ok_and(|outcome| outcome.faults.is_empty())
}

/// A stride of more than 32 bits is taken whole: where the original reads beyond its buffers, so does what comes of it.
#[test]
fn strides_of_64_bits_keep_their_bits() {
    let module = coop_ir::binary::read_words(&words("testdata/opencl/gemm_f16.spv")).expect("a module");
    let text = std::fs::read_to_string(repository().join("testdata/opencl/gemm_f16.toml")).expect("a case");
    let far = text
        .replace("workgroups = [2, 2, 1]", "workgroups = [1, 1, 1]")
        .replace("values = [32]", "values = [4294967328]");
    assert_ne!(text, far);
    for (what, words) in lowered_both_ways(&module) {
        assert!(stays_within(&words, &text), "{what}");
        assert!(!stays_within(&words, &far), "{what}");
    }
}

/// The same of what is checked, packed or has offsets, and of the bounds of what is checked: 2^32 more than there should be,
/// as a value and as a constant, is too much for the original and for what comes of it.
#[test]
fn strides_and_bounds_of_64_bits_keep_their_bits_on_surfaces() {
    let far = ("%ulong = OpTypeInt 64 0\n", "%ulong = OpTypeInt 64 0\n%far = OpConstant %ulong 4294967296\n");
    let changes = [
        ("a checked load's stride", "gemm_checked", "%ka", "OpCooperativeMatrixLoadCheckedINTEL"),
        ("a checked load's stride", "gemm_checked", "%nb", "OpCooperativeMatrixLoadCheckedINTEL"),
        ("a checked store's stride", "gemm_checked", "%nb", "OpCooperativeMatrixStoreCheckedINTEL"),
        ("a checked load's height", "gemm_checked", "%m", "OpCooperativeMatrixLoadCheckedINTEL"),
        ("a packed load's stride", "gemm_bf16", "%bstride", "OpCooperativeMatrixLoadKHR"),
        ("an offset load's stride", "gemm_o0", "%n", "OpCooperativeMatrixLoadOffsetINTEL"),
    ];
    for (what, name, value, op) in changes {
        let original = edited(what, name, &[far]);
        let case = std::fs::read_to_string(repository().join(format!("testdata/opencl/{name}.toml"))).expect("a case");
        let mut lines: Vec<String> = original.lines().map(str::to_owned).collect();
        let mut uses = lines.iter_mut().enumerate().filter(|(_, l)| l.contains(op) && l.split(' ').any(|t| t == value));
        let (at, line) = uses.next().unwrap_or_else(|| panic!("{what}: no {op} with {value} in\n{original}"));
        let more: Vec<&str> = line.split(' ').map(|token| if token == value { "%much" } else { token }).collect();
        *line = more.join(" ");
        let wide = format!("%word = OpUConvert %ulong {value}\n%much = OpIAdd %ulong %word %far");
        let same = format!("%much = OpIAdd %ulong {value} %far");
        let of_32_bits = name == "gemm_checked" && value == "%m";
        lines.insert(at, if of_32_bits { wide } else { same });
        let value_text = lines.join("\n");
        let constant_text = value_text.replace(" %much", " %far");
        for (kind, text) in [("plain", &original), ("value", &value_text), ("constant", &constant_text)] {
            let module = coop_ir::text::parse(text).unwrap_or_else(|error| panic!("{what}: {error:?}\n{text}"));
            for (form, words) in lowered_both_ways(&module) {
                assert_eq!(stays_within(&words, &case), kind == "plain", "{what} as a {kind}, {form}");
            }
        }
    }
}

/// Returns the interface of a kernel to its host: its name, the types of its arguments, and its execution modes.
fn interface(m: &Module) -> Vec<String> {
    let entry = entry_points(m, &Decorations::new(m)).into_iter().next().expect("a kernel");
    let function = m.functions.iter().find(|f| m.inst(f.def).result == Some(entry.function)).expect("its function");
    let types = function.params.iter().filter_map(|r| Type::of(m, m.inst(*r).ty?)).map(|t| match t {
        Type::Pointer { storage, .. } => format!("pointer {storage}"),
        Type::Scalar(scalar) => scalar.to_string(),
        _ => "composite".to_owned(),
    });
    let modes = m.globals_with(Op::ExecutionMode).map(|r| {
        let words: Vec<String> = (1..4).filter_map(|at| m.inst(r).word(at)).map(|w| w.to_string()).collect();
        format!("mode {}", words.join(" "))
    });
    [entry.name.clone()].into_iter().chain(types).chain(modes).collect()
}

/// A workgroup's size that is given is said in the kernel, and shared memory is only for its subgroups.
#[test]
fn a_given_size_of_workgroups_is_fixed() {
    let lower = |more: &[&str], file: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cooplower"));
        command.args(["--target", "khr", "--profile", "intel-opencl-gpu", "testdata/opencl/gemm_checked.spv"]);
        command.args(more).args(["-t", "-o", file]).current_dir(repository());
        let output = command.output().unwrap_or_else(|error| panic!("{error}"));
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let file = concat!(env!("CARGO_TARGET_TMPDIR"), "/fixed.spvasm");
    let (status, said) = lower(&[], file);
    assert!(status == Some(0) && said.contains("it takes 32768 bytes more of shared memory"), "{said}");
    let (status, said) = lower(&["--local-size", "32,1,1"], file);
    assert!(status == Some(0) && said.contains("it takes 1024 bytes more of shared memory"), "{said}");
    let text = std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{error}"));
    assert!(text.contains("LocalSize 32 1 1"), "{text}");
    let fixed = ["--local-size", "64,1,1", file];
    let mut again = Command::new(env!("CARGO_BIN_EXE_cooplower"));
    again.args(["--target", "khr", "--profile", "intel-opencl-gpu", "-o", "-"]).args(fixed).current_dir(repository());
    let output = again.output().unwrap_or_else(|error| panic!("{error}"));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("requires workgroups of 32x1x1, not 64x1x1"), "{said}");
}

/// A device whose subgroups are of another size than the kernel asks for does not run it.
#[test]
fn kernels_do_not_run_with_other_subgroups_than_they_ask_for() {
    let lowered = concat!(env!("CARGO_TARGET_TMPDIR"), "/gemm_f16.scalar.spv");
    let case = "testdata/opencl/gemm_f16.toml";
    let verify = ["verify", "testdata/opencl/gemm_f16.spv", "--case", case, "--on", "interp", "-o", lowered];
    let Some((status, text)) = cooprun(Driver::Rusticl, &verify) else { return };
    assert_eq!(status, Some(0), "{text}");
    let Some(wrapper) = Driver::Rusticl.wrapper_or_skip("subgroups of 8") else { return };
    let mut narrow = Command::new(wrapper);
    narrow.env("LP_NATIVE_VECTOR_WIDTH", "256").current_dir(repository());
    let run = narrow.arg(env!("CARGO_BIN_EXE_cooprun")).args(["run", lowered, "--case", case, "--on", "opencl"]);
    let output = run.output().unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains("subgroups of 16 invocations (SubgroupSize); it has 8"), "{text}");
}

/// Without OpenCL the message says what to install.
#[test]
fn a_missing_loader_is_said() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cooprun"));
    command.args(["run", "testdata/opencl/plain.spv", "--case", "testdata/opencl/plain.toml", "--on", "opencl"]);
    command.env("OPENCL_DYLIB_PATH", "/nowhere/libOpenCL.so").current_dir(repository());
    let output = command.output().unwrap_or_else(|error| panic!("{error}"));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("apt install ocl-icd-libopencl1 pocl-opencl-icd"), "{text}");
}
