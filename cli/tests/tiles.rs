//! Modules lowered to the matrices that a device has: spirv-val and coopcheck accept what comes out, and it gives what
//! the case expects, on the device and in the interpreter.

mod llama_modules;

use coop_device::{ComponentType, MatrixProperties, Profile};
use coop_exec::case::Number;
use coop_exec::interp::Interpreted;
use coop_exec::vulkan::VulkanExecutor;
use coop_exec::{Case, Executor, RunOptions, Tolerance, testing, vulkan_test};
use coop_ir::constant::{SpecValue, Specialization};
use coop_ir::types::Type;
use coop_ir::{Module, Op, binary};
use coop_passes::{Lowered, Options, Target, lower};
use coop_validate::Device;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

fn testdata(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata").join(folder)
}

fn stem(path: &Path) -> String {
    path.file_stem().map_or_else(String::new, |s| s.to_string_lossy().into_owned())
}

/// A module with a case and the case's variant.
struct Job {
    name: String,
    module: Module,
    case: Case,
}

/// Every kernel with every case and variant that is made for subgroups of 8.
fn kernels() -> Vec<Job> {
    let files: Vec<PathBuf> =
        std::fs::read_dir(testdata("kernels")).expect("testdata/kernels").flatten().map(|e| e.path()).collect();
    let of = |extension: &str| {
        let mut some: Vec<PathBuf> =
            files.iter().filter(|p| p.extension().is_some_and(|e| e == extension)).cloned().collect();
        some.sort();
        some
    };
    let mut out = Vec::new();
    for path in of("spv") {
        let module = binary::read(&std::fs::read(&path).expect("readable")).expect("a module");
        let kernel = stem(&path);
        let base = kernel.split('.').next().unwrap_or_default().to_owned();
        for case_path in of("toml").into_iter().filter(|p| stem(p).split('.').next() == Some(&base)) {
            let case = Case::load(&case_path).unwrap_or_else(|e| panic!("{}: {e}", case_path.display()));
            let variants: Vec<String> = case.variant.keys().cloned().collect();
            let mut all = vec![(stem(&case_path), case.clone())];
            for v in variants {
                let variant = case.clone().with_variant(&v).unwrap_or_else(|e| panic!("{}: {e}", case_path.display()));
                all.push((format!("{}:{v}", stem(&case_path)), variant));
            }
            for (label, mut case) in all {
                // SpecId 3 is the subgroup size in all kernels.
                if matches!(case.spec.get("3"), Some(Number::Int(8))) {
                    case.subgroup_size = Some(8);
                    case.full_subgroups = true;
                    out.push(Job { name: format!("{kernel} with {label}"), module: module.clone(), case });
                }
            }
        }
    }
    out
}

fn options<'a>(case: &Case, target: Target, profile: &'a Profile) -> Options<'a> {
    Options {
        spec: case.specialization().expect("values"),
        spec_defaults: true,
        profile: Some(profile),
        ..Options::new(target)
    }
}

/// Kernels whose types lavapipe's matrices don't have, with what is said then.
fn refused(name: &str) -> Option<&'static str> {
    name.starts_with("gemm_bf16").then_some("refused-device-types")
}

/// The matrices that a module declares and the profile has not.
fn foreign(module: &Module, profile: &Profile) -> Vec<String> {
    let constants = coop_ir::constant::Constants::new(module, &coop_ir::constant::Specialization::new());
    let mut out = Vec::new();
    for r in module.globals_with(Op::TypeCooperativeMatrixKHR) {
        let view = module.inst(r).result.and_then(|id| Type::of(module, id)?.coop_mat());
        let view = view.expect("a matrix type").view(module, &constants);
        let (rows, cols, use_) = (view.rows.fixed(), view.cols.fixed(), view.use_.fixed());
        let has = profile.khr_properties.iter().any(|p| {
            let shape = match use_ {
                Some(0) => (p.m, p.k),
                Some(1) => (p.k, p.n),
                _ => (p.m, p.n),
            };
            (rows, cols) == (Some(shape.0.into()), Some(shape.1.into()))
        });
        if !has || view.scope.fixed() != Some(3) {
            out.push(view.to_string());
        }
    }
    out
}

/// Returns the errors of spirv-val and coopcheck for a lowered module, and its matrices that the device lacks.
fn invalid(what: &str, lowered: &Lowered, profile: &Profile) -> Vec<String> {
    let mut out: Vec<String> =
        foreign(&lowered.module, profile).into_iter().map(|m| format!("{what}: declares {m}")).collect();
    let mut options = coop_validate::Options::default();
    let subgroup_size = lowered.report.required_subgroup_size;
    // Blocks of microscaling types, which the module decodes, are of devices that none of these is.
    if !what.contains("_ocp") {
        options.device = Some(Arc::new(Device { subgroup_size, ..Device::new(profile.clone()) }));
    }
    let report = coop_validate::check(&lowered.module, &options);
    let errors = report.findings.iter().filter(|f| f.level == coop_validate::Level::Error);
    out.extend(errors.map(|f| format!("{what}: coopcheck: {}", f.message)));
    out.extend(spirv_val(&lowered.module).map(|said| format!("{what}: spirv-val: {said}")));
    out
}

/// Returns the errors of spirv-val for a module. Without the fetched tool there are none, which is printed.
fn spirv_val(module: &Module) -> Option<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let cache = std::env::var_os("COOP_CACHE").map_or(root.join(".cache"), PathBuf::from);
    let tool = cache.join("bin/spirv-val");
    if !tool.is_file() {
        assert!(
            std::env::var_os("COOP_REQUIRE_TOOLS").is_none(),
            "spirv-val is not there: scripts/drivers.sh fetches it"
        );
        eprintln!("SKIPPED: spirv-val is not there; scripts/drivers.sh fetches it");
        return None;
    }
    let mut child = Command::new(tool)
        .args(["--target-env", "vulkan1.3", "-"])
        .stdin(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .stdout(std::process::Stdio::null())
        .spawn()
        .expect("it starts");
    std::io::Write::write_all(&mut child.stdin.take().expect("piped"), &binary::write(module)).expect("it reads");
    let out = child.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&out.stderr).lines().next().unwrap_or("no reason given").to_owned();
    (!out.status.success()).then_some(said)
}

/// Lowers every kernel for the profile, and hands each to `run` with its name and case.
fn each_kernel(profile: &Profile, run: &mut dyn FnMut(&str, &Lowered, &Job) -> Vec<String>) {
    let mut failures = Vec::new();
    let mut done = 0;
    for job in kernels() {
        let what = &job.name;
        match (lower(&job.module, &options(&job.case, Target::Khr, profile)), refused(what)) {
            (Ok(lowered), None) => {
                done += 1;
                failures.extend(run(what, &lowered, &job));
            }
            (Ok(_), Some(why)) => failures.push(format!("{what}: lowered, not {why}")),
            (Err(e), Some(why)) if e.to_string().contains(why) => {}
            (Err(e), _) => failures.push(format!("{what}: {e}")),
        }
    }
    assert!(done >= 50, "only {done} kernels were lowered");
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
}

vulkan_test!(
    Lavapipe,
    fn kernels_cut_into_tiles_run_on_lavapipe(device) {
        on_device(device);
    }
);

fn on_device(device: &VulkanExecutor<'_>) {
    each_kernel(device.profile(), &mut |what, lowered, job| {
        // What fits comes out as it is, and is run elsewhere; variants of a module are left to the interpreter.
        let fits = matches!(job.case.spec.get("0"), Some(Number::Int(8)));
        let variant = what.split(' ').next().is_some_and(|m| m.contains('.') && !m.ends_with(".opt"));
        if fits || variant {
            return Vec::new();
        }
        let outcome = device.run(&binary::write_words(&lowered.module), &job.case, &RunOptions::default());
        testing::wrong(what, outcome, &job.case)
    });
}

#[test]
fn kernels_cut_into_tiles_are_valid_and_right_in_the_interpreter() {
    let profile = Profile::builtin("mesa-lavapipe").expect("built in");
    let mut interpreter = Interpreted::default();
    interpreter.config.subgroup_size = 8;
    each_kernel(&profile, &mut |what, lowered, job| {
        let mut failures = invalid(what, lowered, &profile);
        let outcome = interpreter.run(&binary::write_words(&lowered.module), &job.case, &RunOptions::default());
        failures.extend(testing::wrong(what, outcome, &job.case));
        failures
    });
}

/// Tiles of M x N x K that no device has: what is lowered to them is right, and what can't be staged in words is refused.
#[test]
fn tiles_of_unusual_extents_are_right_or_refused() {
    const EXTENTS: [(u32, u32, u32); 12] = [
        (12, 8, 8),
        (8, 12, 8),
        (8, 8, 12),
        (24, 24, 24),
        (16, 4, 8),
        (6, 8, 8),
        (8, 6, 8),
        (8, 8, 6),
        (7, 8, 8),
        (8, 7, 8),
        (8, 8, 3),
        (8, 8, 1),
    ];
    const KERNELS: [&str; 8] = [
        "colmajor",
        "crosstype",
        "elementwise_int",
        "elementwise_narrow",
        "functions",
        "gemm_f16acc",
        "gemm_i8",
        "gemm_simple",
    ];
    let of = |job: &Job| KERNELS.into_iter().find(|kernel| job.name == format!("{kernel} with {kernel}"));
    let jobs: Vec<(&str, Job)> = kernels().into_iter().filter_map(|job| Some((of(&job)?, job))).collect();
    assert_eq!(jobs.len(), KERNELS.len());
    let mut failures = Vec::new();
    for (m, n, k) in EXTENTS {
        let mut profile = Profile::builtin("mesa-lavapipe").expect("built in");
        profile.khr_properties.iter_mut().for_each(|p| (p.m, p.n, p.k) = (m, n, k));
        let words = [m, n, k].iter().all(|extent| extent.is_multiple_of(4));
        let halves = [m, n, k].iter().all(|extent| extent.is_multiple_of(2));
        for (kernel, job) in &jobs {
            let refused = match same(job, Target::Khr, &profile) {
                Ok(_) => false,
                Err(why) if why.iter().all(|w| w.contains("[refused-")) => true,
                Err(why) => {
                    failures.extend(why.iter().map(|w| format!("{m}x{n}x{k}: {w}")));
                    continue;
                }
            };
            // Factors of f16, and of bytes; crosstype converts between uses, whose tiles must be alike for that.
            let must = match *kernel {
                "gemm_simple" | "gemm_f16acc" | "colmajor" | "functions" => halves,
                "crosstype" => continue,
                _ => words,
            };
            if refused == must {
                failures.push(format!("{m}x{n}x{k}: {kernel} is {}", if refused { "refused" } else { "lowered" }));
            }
        }
    }
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn kernels_that_fit_come_out_as_they_are() {
    let profile = Profile::builtin("mesa-lavapipe").expect("built in");
    let mut same = 0;
    for job in kernels().iter().filter(|j| matches!(j.case.spec.get("0"), Some(Number::Int(8)))) {
        let Ok(lowered) = lower(&job.module, &options(&job.case, Target::Khr, &profile)) else { continue };
        let count = |m: &Module, op: Op| m.all().filter(|r| m.inst(*r).op == op).count();
        let saturates = job.name.starts_with("gemm_i8_sat");
        // Functions that take matrices are inlined, as often as they are called.
        let inlined = job.name.starts_with("functions") || job.name.starts_with("acc_private");
        for op in [Op::CooperativeMatrixLoadKHR, Op::CooperativeMatrixMulAddKHR, Op::CooperativeMatrixStoreKHR] {
            assert!(inlined || count(&job.module, op) == count(&lowered.module, op), "{}: {op}", job.name);
        }
        assert!(inlined || job.module.functions.len() == lowered.module.functions.len(), "{}", job.name);
        assert!(saturates || lowered.report.added_capabilities.is_empty(), "{}", job.name);
        assert_eq!(lowered.report.added_shared_memory, 0, "{}", job.name);
        same += 1;
    }
    assert!(same > 20, "only {same}");
}

#[test]
fn auto_takes_what_the_device_has() {
    let lavapipe = Profile::builtin("mesa-lavapipe").expect("built in");
    let none = Profile::builtin("mesa-lavapipe-debian12").expect("built in");
    for job in kernels().iter().filter(|j| j.name.starts_with("gemm_")) {
        let chosen = |profile| {
            let lowered =
                lower(&job.module, &options(&job.case, Target::Auto, profile)).unwrap_or_else(|e| panic!("{e}"));
            (lowered.report.target, lowered.report.not_taken)
        };
        assert_eq!(chosen(&none), ("scalar".to_owned(), Vec::new()), "{}", job.name);
        let (target, not_taken) = chosen(&lavapipe);
        if refused(&job.name).is_some() {
            assert_eq!(target, "scalar", "{}", job.name);
            assert!(not_taken.iter().any(|n| n.starts_with("khr: ")), "{}: {not_taken:?}", job.name);
        } else {
            assert_eq!((target.as_str(), not_taken.len()), ("khr", 0), "{}", job.name);
        }
    }
}

/// Published profiles: matrices where the device lists any, scalar code where it does not.
#[test]
fn auto_knows_published_devices() {
    let mut job = kernels().into_iter().find(|j| j.name.starts_with("gemm_simple")).expect("a kernel");
    // Whole subgroups of every size.
    job.case.spec.insert("3".to_owned(), coop_exec::case::Number::Int(128));
    let mut chosen = std::collections::BTreeMap::new();
    for profile in Profile::builtin_names().filter_map(Profile::builtin) {
        let lowered = lower(&job.module, &options(&job.case, Target::Auto, &profile));
        chosen.insert(profile.name, lowered.map_or_else(|e| e.to_string(), |l| l.report.target));
    }
    for (name, target) in &chosen {
        let profile = Profile::builtin(name).expect("built in");
        // The kernel multiplies f16 into f32; Intel's CPUs have matrices of smaller numbers only.
        let f16 = |p: &MatrixProperties| (p.a, p.result) == (ComponentType::F16, ComponentType::F32);
        // By a report, code without matrices is faster on Arc.
        let has_fast = profile.khr_properties.iter().any(f16) && profile.slow_matrices.is_empty();
        let wanted = if has_fast { "khr" } else { "scalar" };
        assert_eq!(target, wanted, "{name}: {chosen:?}");
    }
    let count = |t: &str| chosen.values().filter(|c| *c == t).count();
    assert_eq!((count("scalar"), count("khr")), (16, 8), "{chosen:?}");
}

#[test]
fn a_device_must_be_named() {
    let job = kernels().into_iter().next().expect("a kernel");
    let mut options = Options::new(Target::Khr);
    options.spec_defaults = true;
    let refusal = lower(&job.module, &options).expect_err("nobody knows the shapes").to_string();
    assert!(refusal.contains("refused-no-profile") && refusal.contains("--profile"), "{refusal}");
}

/// Modules of a folder with their cases and variants.
fn recorded(folder: &str) -> Vec<Job> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(folder);
    let mut out = Vec::new();
    let files = std::fs::read_dir(&folder).expect("a folder of cases").flatten().map(|e| e.path());
    for path in files.filter(|p| p.extension().is_some_and(|e| e == "toml")) {
        let Ok(bytes) = std::fs::read(path.with_extension("spv")) else { continue };
        let module = binary::read(&bytes).expect("a module");
        let case = Case::load(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let variants: Vec<String> = case.variant.keys().cloned().collect();
        out.push(Job { name: stem(&path), module: module.clone(), case: case.clone() });
        for v in variants {
            let case = case.clone().with_variant(&v).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
            out.push(Job { name: format!("{}:{v}", stem(&path)), module: module.clone(), case });
        }
    }
    out.sort_by(|a, b| a.name.cmp(&b.name));
    out
}

/// Lowers a module for the profile; the interpreter must not tell the result from the original.
fn same(job: &Job, target: Target, profile: &Profile) -> Result<Lowered, Vec<String>> {
    let what = &job.name;
    let mut options = options(&job.case, target, profile);
    options.subgroup_size = Some(profile.limits.subgroup_size);
    let lowered = lower(&job.module, &options).map_err(|e| vec![format!("{what}: {e}")])?;
    let mut interpreter = Interpreted::default();
    interpreter.config.subgroup_size = profile.limits.subgroup_size;
    let run = |m: &Module| interpreter.run(&binary::write_words(m), &job.case, &RunOptions::default());
    let before = run(&job.module).map_err(|e| vec![format!("{what}, original: {e}")])?;
    // Variants of a case are of one module, and often of one specialization.
    let mut failures = if what.contains(':') { Vec::new() } else { invalid(what, &lowered, profile) };
    match run(&lowered.module) {
        Err(e) => failures.push(format!("{what}: {e}")),
        Ok(after) => {
            // What the original does that is not defined, the lowered module may do.
            if before.faults.is_empty() {
                failures.extend(after.faults.iter().chain(&after.messages).map(|w| format!("{what}: {w}")));
            }
            let differences = after.compare(&before, &job.case).expect("the same buffers");
            failures.extend(differences.iter().take(1).map(|d| format!("{what}: {d}")));
        }
    }
    if failures.is_empty() { Ok(lowered) } else { Err(failures) }
}

/// Returns true if a refusal is one of operations that a target does not support.
fn not_done(why: &str) -> bool {
    // u8 times s8 works on the device although it does not list it.
    why.contains("[refused-dialect]") || why.contains("multiply u8 by s8 into s32")
}

#[test]
fn recorded_cases_cut_into_tiles_are_the_same_in_the_interpreter() {
    let profile = Profile::builtin("nvidia-h100").expect("built in");
    let mut failures = Vec::new();
    let (mut done, mut refused) = (0, 0);
    for mut job in recorded("testdata/hardware") {
        if job.name.starts_with("muladd.") && job.name.ends_with(":uniform") {
            // Sums are rounded after each tile instead of once.
            job.case.buffer.iter_mut().for_each(|b| b.tolerance = Tolerance::Near { abs: 0.02, rel: 1e-3 });
        }
        match same(&job, Target::Khr, &profile) {
            Ok(_) => done += 1,
            Err(why) if why.iter().all(|w| not_done(w)) => refused += 1,
            Err(why) => failures.extend(why),
        }
    }
    assert!(failures.is_empty(), "{done} are fine, {} failures:\n{}", failures.len(), failures.join("\n"));
    assert!(done > 600 && refused < 40, "{done} are fine, {refused} refused");
}

/// Shaders of SPV_NV_cooperative_matrix2 for subgroups of 8: module, case, variant, the SpecId of the workgroup's size if
/// that has to be a subgroup.
const NV2: &[(&str, &str, Option<&str>, Option<&str>)] = &[
    ("exec/tests/interp/reduce", "exec/tests/interp/reduce", None, Some("4")),
    ("exec/tests/interp/reduce", "exec/tests/interp/reduce", Some("tall"), Some("4")),
    ("exec/tests/interp/reduce.workgroup", "exec/tests/interp/reduce.workgroup", None, None),
    ("exec/tests/interp/element", "exec/tests/interp/element", None, Some("0")),
    ("exec/tests/interp/element.workgroup", "exec/tests/interp/element", None, None),
    ("exec/tests/interp/clamp", "exec/tests/interp/clamp", None, None),
    ("exec/tests/interp/view", "exec/tests/interp/view", None, None),
    ("testdata/bench/matmul_nv2_f16", "testdata/bench/matmul_f16.small", None, None),
    ("testdata/bench/flash_nv2", "testdata/bench/flash_64.small", None, None),
    ("testdata/bench/matmul_nv2_q4_0_vector", "testdata/bench/matmul_q4_0.small", None, None),
];

fn nv2() -> Vec<Job> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let job = |(module, case, variant, threads): &(&str, &str, Option<&str>, Option<&str>)| {
        let bytes = std::fs::read(root.join(format!("{module}.spv"))).unwrap_or_else(|e| panic!("{module}: {e}"));
        let mut made = Case::load(&root.join(format!("{case}.toml"))).unwrap_or_else(|e| panic!("{case}: {e}"));
        if let Some(variant) = variant {
            made = made.with_variant(variant).unwrap_or_else(|e| panic!("{case}: {e}"));
        }
        if let Some(threads) = threads {
            made.spec.insert((*threads).to_owned(), Number::Int(8));
        }
        if module.contains("matmul") {
            // Smaller than the case has it: large blocks of code take the driver long.
            (1..=3).for_each(|n| drop(made.spec.insert(n.to_string(), Number::Int(16))));
            made.workgroups = [5, 3, 1];
        }
        (made.subgroup_size, made.full_subgroups) = (Some(8), true);
        let name = format!("{module}{}", variant.map_or_else(String::new, |v| format!(":{v}")));
        Job { name, module: binary::read(&bytes).expect("a module"), case: made }
    };
    NV2.iter().map(job).collect()
}

#[test]
fn cooperative_matrix_2_cut_into_small_tiles_is_the_same_in_the_interpreter() {
    let profile = Profile::builtin("mesa-lavapipe").expect("built in");
    let failures: Vec<String> =
        nv2().iter().filter_map(|job| same(job, Target::Khr, &profile).err()).flatten().collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

fn coordinates() -> Job {
    let path = testdata("passes").join("coordinates.spvasm");
    let text = std::fs::read_to_string(&path).expect("readable");
    let module = coop_ir::text::parse(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let case = Case::load(&path.with_extension("toml")).unwrap_or_else(|e| panic!("{e}"));
    Job { name: "coordinates".into(), module, case }
}

/// The instructions of SPV_EXT_cooperative_matrix_maintenance1.
const NATIVE: [Op; 4] = [
    Op::CooperativeMatrixReduceNV,
    Op::CooperativeMatrixPerElementOpNV,
    Op::CooperativeMatrixConvertNV,
    Op::CooperativeMatrixGetCoordinateEXT,
];

#[test]
fn what_the_device_does_to_a_tile_is_left_to_it() {
    let mut failures = Vec::new();
    let mut left = [0; NATIVE.len()];
    let mut small = nv2();
    small.push(coordinates());
    for (device, jobs) in [("mesa-lavapipe", small), ("nvidia-h100", recorded("testdata/hardware"))] {
        let profile = Profile::builtin(device).expect("built in").with_maintenance1();
        let sums = |job: &Job| job.name.starts_with("muladd.");
        for job in jobs.iter().filter(|job| !sums(job)).step_by(if device == "nvidia-h100" { 5 } else { 1 }) {
            match same(job, Target::Ext, &profile) {
                Ok(lowered) => {
                    for (n, op) in NATIVE.iter().enumerate() {
                        left[n] += usize::from(lowered.module.all().any(|r| lowered.module.inst(r).op == *op));
                    }
                }
                Err(why) if why.iter().all(|w| not_done(w)) => {}
                Err(why) => failures.extend(why),
            }
        }
    }
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
    assert!(left.iter().all(|n| *n > 0) && left.iter().sum::<usize>() > 15, "{left:?}");
}

/// The fewest products of tiles in a block that has any.
fn products_in_a_row(lowered: &Lowered) -> usize {
    let module = &lowered.module;
    let blocks = module.functions.iter().flat_map(|function| &function.blocks);
    let products = |op: Op| op == Op::CooperativeMatrixMulAddKHR;
    blocks
        .map(|block| block.insts.iter().filter(|r| products(module.inst(**r).op)).count())
        .filter(|n| *n > 0)
        .min()
        .unwrap_or(0)
}

/// Four subgroups of 64 have 32 tiles of a tile of 128 x 256, and a slice of 64 four steps. RADV packs sums of f16 for the next round of
/// a loop, so there the slice is written out. Elsewhere two steps are, in each round of a loop.
#[test]
fn sums_of_f16_go_through_few_rounds_on_radv() {
    let path = testdata("bench").join("matmul_nv2_f16_f16acc.spv");
    let module = binary::read(&std::fs::read(&path).expect("readable")).expect("a module");
    let mut case = Case::load(&testdata("bench").join("matmul_f16.small.toml")).unwrap_or_else(|e| panic!("{e}"));
    case.workgroups = [1, 1, 1];
    case.spec = [256, 128, 256, 64].into_iter().enumerate().map(|(id, v)| (id.to_string(), Number::Int(v))).collect();
    let job = Job { name: "matmul_nv2_f16_f16acc".into(), module, case };
    let profile = Profile::builtin("amd-rdna3").expect("built in");
    let radv = same(&job, Target::Khr, &profile).unwrap_or_else(|why| panic!("{why:?}"));
    assert_eq!(products_in_a_row(&radv), 128);
    let other = Profile { driver: "another".into(), ..profile.clone() };
    let other = same(&job, Target::Khr, &other).unwrap_or_else(|why| panic!("{why:?}"));
    assert_eq!(products_in_a_row(&other), 64);
}

vulkan_test!(
    Lavapipe,
    fn cooperative_matrix_2_runs_on_lavapipe(device) {
        let mut interpreter = Interpreted::default();
        interpreter.config.subgroup_size = 8;
        let run = RunOptions::default();
        let mut failures = Vec::new();
        // Attention takes this driver's compiler minutes.
        for job in nv2().into_iter().filter(|job| !job.name.contains("flash")) {
            let what = &job.name;
            let lowered = lower(&job.module, &options(&job.case, Target::Khr, device.profile()));
            let lowered = lowered.unwrap_or_else(|e| panic!("{what}: {e}"));
            let wanted = interpreter.run(&binary::write_words(&job.module), &job.case, &run);
            let wanted = wanted.unwrap_or_else(|e| panic!("{what}, original: {e}"));
            match device.run(&binary::write_words(&lowered.module), &job.case, &run) {
                Err(e) => failures.push(format!("{what}: {e}")),
                Ok(outcome) => {
                    failures.extend(outcome.messages.iter().chain(&outcome.faults).map(|w| format!("{what}: {w}")));
                    let differences = outcome.compare(&wanted, &job.case).expect("the same buffers");
                    failures.extend(differences.iter().take(1).map(|d| format!("{what}: {d}")));
                }
            }
        }
        assert!(failures.is_empty(), "{}", failures.join("\n"));
    }
);

/// The devices that llama.cpp's modules are lowered for.
const DEVICES: [&str; 2] = ["nvidia-h100", "mesa-lavapipe"];

/// llama.cpp's cooperative-matrix-2 modules with the spec constants that its engine gives them: each is lowered, fits the
/// device, and comes out valid: for spirv-val, and for coopcheck, which also knows what must be uniform. `every`: all the
/// constants, on all devices, and all of it asked; else one set of them for each module, and a part.
///
/// Answers how many were lowered and how many refused: those with bfloat16 where the device has neither that nor f32 for
/// factors.
fn llama(every: bool) -> Option<([usize; 2], Vec<String>)> {
    let modules = llama_modules::modules()?;
    let groups = llama_modules::groups_of("spec_cm2.toml");
    let ([mut done, mut refused], mut failures) = ([0, 0], Vec::new());
    for (m, member) in llama_modules::members(&modules, &groups).into_iter().enumerate() {
        let name = llama_modules::stem(member.path);
        let module = binary::read(&std::fs::read(member.path).expect("readable")).expect("a module");
        let entries = member.group.entry.len();
        for n in (0..entries * DEVICES.len()).filter(|n| every || *n == m % (entries * DEVICES.len())) {
            let entry = &member.group.entry[n % entries];
            let device = DEVICES[n / entries];
            let profile = Profile::builtin(device).expect("built in");
            let what = format!("{name} for {device}, {}", entry.label());
            let options =
                Options { spec: entry.specialization(), profile: Some(&profile), ..Options::new(Target::Khr) };
            match lower(&module, &options) {
                Err(e) if why_not(&name, device).is_some_and(|why| e.to_string().contains(why)) => refused += 1,
                Err(e) => failures.push(format!("{what}: {e}")),
                Ok(lowered) => {
                    done += 1;
                    if every || m % 3 == 0 {
                        failures.extend(invalid(&what, &lowered, &profile));
                    }
                }
            }
        }
    }
    Some(([done, refused], failures))
}

/// Returns the reason why a module is refused for a device.
fn why_not(module: &str, device: &str) -> Option<&'static str> {
    let why = "mesa-lavapipe has no matrices that multiply bf16 by bf16";
    (device == "mesa-lavapipe" && module.contains("bf16")).then_some(why)
}

#[test]
fn llamas_modules_cut_into_tiles_are_valid() {
    let Some(([done, refused], failures)) = llama(false) else { return };
    assert!(failures.is_empty(), "{done} are fine, {} failures:\n{}", failures.len(), failures.join("\n"));
    assert_eq!(done + refused, 125);
    assert!(refused < 5, "{refused} refused");
}

#[test]
#[ignore = "scripts/test.sh long runs it: minutes; the test above has a part of the constants"]
fn llamas_modules_with_all_their_constants_cut_into_tiles_are_valid() {
    let Some((counts, failures)) = llama(true) else { return };
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
    assert_eq!(counts, [504, 12]);
}

/// Cases of llama.cpp's modules: each feature once.
const LLAMA: &[&str] = &[
    "matmul_f16_cm2",
    "matmul_f16_cm2.unaligned",
    "matmul_f16_cm2.odd-batches",
    "matmul_bf16_cm2",
    "matmul_q4_k_f16_cm2.edge",
    "matmul_id_subgroup_q4_0_f16_cm2",
    "flash_attn_f32_f16_cm2",
    "flash_attn_f32_f16_cm2.edge",
    "flash_attn_f32_f16_cm2.odd-masks",
    "flash_attn_f32_f16_cm2.q8-0-q4-0",
    "flash_attn_f32_f16_f16acc_cm2",
    "flash_attn_f32_f16_bf16_cm2",
    "conv2d_f32_cm2",
    "conv2d_f16_f32_cm2.callback",
];

/// Runs a case of llama.cpp's modules in the interpreter, cut into tiles of an H100.
fn llama_case(path: &Path) -> Result<(), String> {
    let name = stem(path);
    let module = name.split('.').next().unwrap_or_default();
    let bytes = std::fs::read(llama_modules::cache().join("llama").join(format!("{module}.spv")));
    let module = binary::read(&bytes.map_err(|e| format!("{name}: {e}"))?).map_err(|e| format!("{name}: {e}"))?;
    let case = Case::load(path).map_err(|e| format!("{name}: {e}"))?;
    let profile = Profile::builtin("nvidia-h100").expect("built in");
    let lowered = lower(&module, &options(&case, Target::Khr, &profile)).map_err(|e| format!("{name}: {e}"))?;
    let interpreter = Interpreted::default();
    let outcome = interpreter.run(&binary::write_words(&lowered.module), &case, &RunOptions::default());
    let wrong = if case.expect.is_empty() { Vec::new() } else { testing::wrong(&name, outcome, &case) };
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

#[test]
fn llamas_modules_cut_into_tiles_give_what_is_expected() {
    if llama_modules::modules().is_none() {
        return;
    }
    let folder = testdata("llama").join("cm2");
    let failures: Vec<String> =
        LLAMA.iter().filter_map(|n| llama_case(&folder.join(format!("{n}.toml"))).err()).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Returns the size of the shared memory of a module where the device has `limit` bytes, or the reason why it can't be
/// lowered.
fn taken(module: &Module, spec: &[u32], limit: u32) -> Result<u32, String> {
    let mut profile = Profile::builtin("nvidia-h100").expect("built in");
    profile.limits.max_compute_shared_memory_size = limit;
    let mut values = Specialization::new();
    for (id, value) in (0..).zip(spec) {
        values.set(id, SpecValue::Int(i128::from(*value)));
    }
    let options = Options { spec: values, profile: Some(&profile), ..Options::new(Target::Khr) };
    lower(module, &options).map(|l| l.report.added_shared_memory).map_err(|e| e.to_string())
}

/// Lowers with less and less shared memory. Answers the different amounts that were taken.
fn shrink(name: &str, spec: &[u32]) -> Vec<u32> {
    let bytes = std::fs::read(testdata("bench").join(name)).expect("readable");
    let module = binary::read(&bytes).expect("a module");
    let (mut steps, mut refused) = (Vec::new(), false);
    for limit in (1..=96).rev().map(|n| n * 512) {
        match taken(&module, spec, limit) {
            Ok(bytes) => {
                assert!(!refused, "{name}: {limit} bytes are enough, more were not");
                assert!(bytes <= limit, "{name}: {bytes} of {limit}");
                steps.push(bytes);
            }
            Err(why) => {
                refused = true;
                assert!(
                    why.contains("[refused-shared-memory]") && why.contains(&format!("has {limit}, the module")),
                    "{why}"
                );
            }
        }
    }
    assert!(refused, "{name}: always fits");
    steps.dedup();
    steps
}

#[test]
fn products_are_cut_into_slices_before_they_are_refused() {
    let steps = shrink("matmul_nv2_f16.spv", &[256, 128, 128, 64]);
    assert!(steps.len() >= 3 && steps[0] >= 2 * steps[steps.len() - 1], "{steps:?}");
}

#[test]
fn reductions_and_conversions_take_what_there_is() {
    let steps = shrink("flash_nv2.spv", &[128, 64, 64, 64]);
    assert!(steps.len() >= 3, "{steps:?}");
}

/// Pointers to buffers of a descriptor heap are values: no function may be given one without variable pointers.
#[test]
fn buffers_of_a_descriptor_heap() {
    let path = testdata("validate/valid").join("descriptor-heap.spvasm");
    let text = std::fs::read_to_string(&path).expect("readable");
    let module = coop_ir::text::parse(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let profile = Profile::builtin("nvidia-h100").expect("built in");
    for target in [Target::Scalar, Target::Khr] {
        let options = Options { profile: Some(&profile), verify_each: true, ..Options::new(target) };
        let lowered = lower(&module, &options).unwrap_or_else(|e| panic!("{target}: {e}"));
        let mut wrong = coop_validate::testing::complaints(&lowered.module);
        wrong.extend(spirv_val(&lowered.module));
        assert!(wrong.is_empty(), "{target}: {}", wrong.join("\n"));
        let buffers = lowered.module.all().filter(|r| lowered.module.inst(*r).op == Op::BufferPointerEXT);
        assert_eq!(buffers.count(), 3, "{target}");
    }
}
