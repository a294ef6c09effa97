//! Kernels that became Vulkan compute shaders: spirv-val accepts them, and they do on lavapipe and in the interpreter what
//! the case expects and what the kernel does in the interpreter. Graphs of any shape leave the same trace once they are
//! structured.

use coop_device::Profile;
use coop_exec::interp::{Config, Interpreted, Interpreter, Memory, Reconvergence, base_address};
use coop_exec::testing::{case, repository, words};
use coop_exec::vulkan::VulkanExecutor;
use coop_exec::{Case, Executor, Outcome, RunOptions, vulkan_test};
use coop_ir::constant::Specialization;
use coop_ir::{Module, binary, text};
use coop_passes::{Lanes, Lowered, Options, Target, Vulkan, lower};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::Command;

/// A kernel with its case.
struct Job {
    name: String,
    module: Module,
    words: Vec<u32>,
    case: Case,
    local_size: Option<[u32; 3]>,
    vulkan: Vulkan,
}

/// The kernels of a folder of `testdata`, as either compiler made them, each with the case of its name.
fn jobs(folder: &str) -> Vec<Job> {
    let folder = repository().join("testdata").join(folder);
    let mut files: Vec<PathBuf> = std::fs::read_dir(&folder).expect("readable").flatten().map(|e| e.path()).collect();
    files.retain(|p| p.extension().is_some_and(|e| e == "spv"));
    files.sort();
    let job = |path: PathBuf| {
        let file = path.file_name().map_or_else(String::new, |n| n.to_string_lossy().into_owned());
        let toml = folder.join(file.split('.').next().unwrap_or_default()).with_extension("toml");
        let words = words(&path);
        let module = binary::read_words(&words).expect("a module");
        let (local_size, vulkan) = vulkan(&toml);
        Job { module, words, case: case(&toml), local_size, vulkan, name: file }
    };
    files.into_iter().map(job).collect()
}

/// Returns the workgroup sizes of the case, as options of `cooplower`.
fn vulkan(case: &PathBuf) -> (Option<[u32; 3]>, Vulkan) {
    let table: toml::Table = std::fs::read_to_string(case).expect("readable").parse().expect("toml");
    let number = |v: &toml::Value| v.as_integer().and_then(|n| u32::try_from(n).ok());
    let size: Vec<u32> = table["local-size"].as_array().into_iter().flatten().filter_map(number).collect();
    let push = table["push"].as_array().into_iter().flatten().enumerate();
    let local = push.filter_map(|(i, part)| Some((i as u32, number(part.get("local")?)?)));
    (<[u32; 3]>::try_from(size).ok(), Vulkan { local_arguments: local.collect() })
}

fn lowered(job: &Job, target: Target, lanes: Lanes, profile: Option<&Profile>) -> Lowered {
    let mut options = Options::new(target);
    (options.lanes, options.profile) = (lanes, profile);
    options.vulkan = Some(job.vulkan.clone());
    options.local_size = job.local_size;
    lower(&job.module, &options).unwrap_or_else(|e| panic!("{}: {e}", job.name))
}

fn spirv_val() -> Option<PathBuf> {
    let cache = std::env::var_os("COOP_CACHE").map_or_else(|| repository().join(".cache"), PathBuf::from);
    let tool = cache.join("bin/spirv-val");
    if tool.is_file() {
        return Some(tool);
    }
    assert!(std::env::var_os("COOP_REQUIRE_TOOLS").is_none(), "no spirv-val: run scripts/drivers.sh first");
    eprintln!("SKIPPED: no spirv-val: run scripts/drivers.sh first");
    None
}

/// Returns the error of spirv-val for a module for Vulkan, if any.
fn invalid(name: &str, module: &Module) -> Option<String> {
    let tool = spirv_val()?;
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("vulkan_kernels");
    std::fs::create_dir_all(&folder).expect("writable");
    let file = folder.join(format!("{name}.vulkan.spv"));
    std::fs::write(&file, binary::write(module)).expect("writable");
    let out = Command::new(tool).args(["--target-env", "vulkan1.3"]).arg(&file).output().expect("it starts");
    (!out.status.success()).then(|| format!("{name}: spirv-val: {}", String::from_utf8_lossy(&out.stderr)))
}

/// Describes the differences of an outcome from what the case expects.
fn wrong(what: &str, outcome: &Outcome, case: &Case) -> Vec<String> {
    let said = outcome.messages.iter().chain(&outcome.faults).cloned();
    let differences = outcome.check(case).unwrap_or_else(|e| panic!("{what}: {e}"));
    said.chain(differences.iter().map(|d| d.to_string())).map(|w| format!("{what}: {w}")).collect()
}

/// Runs a shader on the device and in the interpreter, and compares both with what the case expects and the kernel did.
fn run(device: &VulkanExecutor<'_>, job: &Job, shader: &Lowered, kernel: Option<&Outcome>) -> Vec<String> {
    let mut case = job.case.clone();
    case.subgroup_size = shader.report.required_subgroup_size;
    case.full_subgroups = shader.report.full_subgroups;
    let words = binary::write_words(&shader.module);
    let options = RunOptions::default();
    let here = Interpreted { config: Config { subgroup_size: 8, ..Config::default() } };
    let executors: [&dyn Executor; 2] = [device, &here];
    let mut failures: Vec<String> = invalid(&job.name, &shader.module).into_iter().collect();
    for on in executors {
        let what = format!("{} on {}", job.name, on.name());
        match on.run(&words, &case, &options) {
            Err(e) => failures.push(format!("{what}: {e}")),
            Ok(outcome) => {
                failures.extend(wrong(&what, &outcome, &case));
                if let Some(kernel) = kernel {
                    let differences = kernel.compare(&outcome, &case).expect("the same buffers");
                    failures.extend(differences.iter().map(|d| format!("{what}: not what the kernel does: {d}")));
                }
            }
        }
    }
    failures
}

/// Returns the outcome of the kernel in the interpreter, if that supports all its instructions.
fn original(job: &Job) -> Option<Outcome> {
    match Interpreted::default().run(&job.words, &job.case, &RunOptions::default()) {
        Ok(outcome) => Some(outcome),
        Err(coop_exec::Error::Unsupported { .. }) => None,
        Err(e) => panic!("{}: {e}", job.name),
    }
}

vulkan_test!(
    Lavapipe,
    fn plain_kernels_do_the_same_as_shaders(device) {
        let (mut failures, mut compared) = (Vec::new(), 0);
        for job in jobs("vulkan").iter().filter(|j| !j.name.starts_with("gemm")) {
            let kernel = original(job);
            compared += usize::from(kernel.is_some());
            assert!(kernel.is_some() || !job.case.expect.is_empty(), "{}: nothing to compare with", job.name);
            let shader = lowered(job, Target::Scalar, Lanes::Subgroup, None);
            failures.extend(run(device, job, &shader, kernel.as_ref()));
        }
        assert!(failures.is_empty(), "{}", failures.join("\n"));
        assert!(compared >= 8, "only {compared} kernels were compared with themselves");
    }
);

vulkan_test!(
    Lavapipe,
    fn joint_matrix_kernels_give_right_answers_as_shaders(device) {
        let mut failures = Vec::new();
        let jobs: Vec<Job> = jobs("opencl").into_iter().chain(jobs("vulkan")).collect();
        let jobs: Vec<&Job> = jobs.iter().filter(|j| !j.case.expect.is_empty()).collect();
        let mut names: Vec<&str> = jobs.iter().filter_map(|j| j.name.split('.').next()).collect();
        for job in &jobs {
            let shader = lowered(job, Target::Scalar, Lanes::LocalIndex, None);
            failures.extend(run(device, job, &shader, None));
        }
        assert!(failures.is_empty(), "{}", failures.join("\n"));
        names.dedup();
        assert!(names.len() >= 5, "{names:?}");
    }
);

vulkan_test!(
    Lavapipe,
    fn matrices_of_a_kernel_stay_matrices_where_the_device_has_them(device) {
        let mut runs = 0;
        for job in jobs("vulkan").iter().filter(|j| j.name.starts_with("gemm_khr")) {
            let shader = lowered(job, Target::Khr, Lanes::Subgroup, Some(device.profile()));
            assert!(shader.module.all().any(|r| shader.module.inst(r).op == coop_ir::Op::CooperativeMatrixMulAddKHR));
            assert_eq!(shader.report.required_subgroup_size, Some(8));
            let failures = run(device, job, &shader, original(job).as_ref());
            assert!(failures.is_empty(), "{}", failures.join("\n"));
            runs += 1;
        }
        assert_eq!(runs, 2);
    }
);

#[test]
fn the_report_says_where_arguments_are() {
    let jobs = jobs("vulkan");
    let job = jobs.iter().find(|j| j.name == "reduce.spv").expect("there is one");
    let report = lowered(job, Target::Scalar, Lanes::Subgroup, None).report;
    let [kernel] = report.kernels.as_slice() else { panic!("{} kernels", report.kernels.len()) };
    assert_eq!((kernel.entry.as_str(), kernel.local_size, kernel.push_constant_bytes), ("reduce", [64, 1, 1], 32));
    let places: Vec<_> = kernel.arguments.iter().map(|a| (a.kind, a.offset, a.size)).collect();
    let address = |at| ("address", Some(at), Some(8));
    assert_eq!(places, [address(0), ("local", None, Some(256)), address(8), ("value", Some(16), Some(2)), address(24)]);
}

struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (self.0 >> 33) as usize % n.max(1)
    }
}

/// Invocations of a workgroup, and the places in the trace that each has.
const LANES: usize = 8;
const ROOM: usize = 64;

/// A kernel of random blocks. Each invocation writes the numbers of those that it passes. What it does next depends on
/// a number that the blocks change; `parted`: each invocation has its own, else all go the same way, through barriers.
/// Going back is given up after some steps, so that every run ends.
fn graph(r: &mut Random, parted: bool) -> String {
    let n = 3 + r.below(12);
    let mut blocks: Vec<(String, Vec<usize>)> = Vec::new();
    let mut id = 0;
    for b in 0..n {
        id += 10;
        let mut body = String::new();
        let _ = writeln!(body, "%b{b} = OpLabel");
        let _ = write!(
            body,
            "%n{id} = OpLoad %u32 %count\n%at{id} = OpIAdd %u32 %base %n{id}
             %p{id} = OpInBoundsPtrAccessChain %global %trace %at{id}\nOpStore %p{id} %c{b} Aligned 4
             %m{id} = OpIAdd %u32 %n{id} %c1\nOpStore %count %m{id}
             %s{id} = OpLoad %u32 %state\n%t{id} = OpIMul %u32 %s{id} %factor\n%u{id} = OpIAdd %u32 %t{id} %c{b}
             %v{id} = OpIAdd %u32 %u{id} %odd\nOpStore %state %v{id}\n%w{id} = OpShiftRightLogical %u32 %v{id} %c13\n"
        );
        if !parted && r.below(3) == 0 {
            body += "OpControlBarrier %c2 %c2 %c272\n";
        }
        if b == n - 1 {
            body += "OpReturn\n";
            blocks.push((body, Vec::new()));
            continue;
        }
        let forward = b + 1 + r.below((n - b - 1).min(3));
        let mut others: Vec<usize> = (0..r.below(4)).map(|_| 1 + r.below(n - 1)).filter(|t| *t != forward).collect();
        others.sort_unstable();
        others.dedup();
        // Beyond the steps there are, the default is taken.
        let _ = write!(
            body,
            "%x{id} = OpUMod %u32 %w{id} %c{}\n%late{id} = OpUGreaterThan %bool %m{id} %c40
             %y{id} = OpSelect %u32 %late{id} %c100 %x{id}\n",
            others.len() + 1
        );
        let mut next: Vec<usize> = others.iter().copied().chain([forward]).collect();
        match others.as_slice() {
            [] if r.below(4) == 0 => {
                body += "OpReturn\n";
                next.clear();
            }
            [] => body += &format!("OpBranch %b{forward}\n"),
            [one] => {
                let _ = writeln!(body, "%z{id} = OpIEqual %bool %y{id} %c0");
                body += &format!("OpBranchConditional %z{id} %b{one} %b{forward}\n");
            }
            many => {
                let _ = write!(body, "OpSwitch %y{id} %b{forward}");
                many.iter().enumerate().for_each(|(i, t)| body += &format!(" {i} %b{t}"));
                body += "\n";
            }
        }
        blocks.push((body, next));
    }
    let body: String = in_order(&blocks).into_iter().map(|b| blocks[b].0.as_str()).collect();
    let own = if parted { "%lane" } else { "%c3" };
    let constants: String = (0..=16).map(|c| format!("%c{c} = OpConstant %u32 {c}\n")).collect();
    format!(
        "OpCapability Addresses\nOpCapability Kernel\nOpCapability Int64
         OpMemoryModel Physical64 OpenCL
         OpEntryPoint Kernel %main \"main\" %id
         OpDecorate %id BuiltIn LocalInvocationId
         %void = OpTypeVoid\n%bool = OpTypeBool\n%u32 = OpTypeInt 32 0\n%u64 = OpTypeInt 64 0
         %v3 = OpTypeVector %u64 3\n%in = OpTypePointer Input %v3\n%global = OpTypePointer CrossWorkgroup %u32
         %mine = OpTypePointer Function %u32\n%fn = OpTypeFunction %void %global
         {constants}%c40 = OpConstant %u32 40\n%c64 = OpConstant %u32 {ROOM}\n%c100 = OpConstant %u32 100
         %c272 = OpConstant %u32 272\n%factor = OpConstant %u32 1664525\n%odd = OpConstant %u32 1013904223
         %id = OpVariable %in Input
         %main = OpFunction %void None %fn
         %trace = OpFunctionParameter %global
         %entry = OpLabel
         %count = OpVariable %mine Function\n%state = OpVariable %mine Function
         %ids = OpLoad %v3 %id\n%wide = OpCompositeExtract %u64 %ids 0\n%lane = OpUConvert %u32 %wide
         %base = OpIMul %u32 %lane %c64\nOpStore %count %c0
         %own = OpIMul %u32 {own} %odd\n%seed = OpIAdd %u32 %own %c{}\nOpStore %state %seed
         OpBranch %b0
         {body}
         OpFunctionEnd",
        r.below(17)
    )
}

/// Blocks behind those that lead to them first, as SPIR-V asks of those that dominate; those that nothing leads to are left out.
fn in_order(blocks: &[(String, Vec<usize>)]) -> Vec<usize> {
    let (mut seen, mut out, mut stack) = (vec![false; blocks.len()], Vec::new(), vec![(0, 0)]);
    seen[0] = true;
    while let Some((block, at)) = stack.pop() {
        let Some(next) = blocks[block].1.get(at) else {
            out.push(block);
            continue;
        };
        stack.push((block, at + 1));
        if !std::mem::replace(&mut seen[*next], true) {
            stack.push((*next, 0));
        }
    }
    out.reverse();
    out
}

/// The trace that a module leaves in the interpreter, and what that found.
fn trace(module: &Module, reconvergence: Reconvergence) -> (Vec<u8>, Vec<String>) {
    let config =
        Config { local_size: Some([LANES as u32, 1, 1]), subgroup_size: 4, reconvergence, ..Config::default() };
    let specialization = Specialization::new();
    let interpreter = Interpreter::new(module, None, &specialization, config).expect("it can be run");
    let mut buffers = [Memory { name: "trace".into(), slot: None, bytes: vec![0xff; LANES * ROOM * 4] }];
    let push = base_address(0).to_le_bytes();
    let report = interpreter.run(&mut buffers, &push, [1, 1, 1]).expect("it runs");
    let findings = report.findings.iter().map(|f| f.to_string()).collect();
    let [memory] = buffers;
    (memory.bytes, findings)
}

#[test]
fn graphs_of_any_shape_leave_the_same_trace() {
    let mut r = Random(7);
    let mut steps = 0;
    for case in 0..150 {
        let parted = case % 2 == 0;
        let source = graph(&mut r, parted);
        let module = text::parse(&source).unwrap_or_else(|e| panic!("{e}\n{source}"));
        let mut options = Options::new(Target::Scalar);
        options.vulkan = Some(Vulkan::default());
        options.local_size = Some([LANES as u32, 1, 1]);
        let shader = lower(&module, &options).unwrap_or_else(|e| panic!("{e}\n{source}")).module;
        if case < 40 {
            let said = invalid(&format!("graph{case}"), &shader);
            assert!(said.is_none(), "{}\n{source}", said.unwrap_or_default());
        }
        let (wanted, findings) = trace(&module, Reconvergence::Early);
        assert!(findings.is_empty(), "{findings:?}\n{source}");
        for reconvergence in [Reconvergence::Early, Reconvergence::Promised(case)] {
            let (got, findings) = trace(&shader, reconvergence);
            assert!(findings.is_empty(), "{findings:?}\n{source}");
            assert!(got == wanted, "case {case}: another trace\n{source}");
        }
        steps += wanted.chunks(4).filter(|c| **c != [0xff; 4]).count();
    }
    assert!(steps > 5000, "{steps} steps");
}
