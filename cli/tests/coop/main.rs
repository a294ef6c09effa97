//! `coop`: the tools as subcommands, and what it does besides.

mod drawings;
mod reduce;

use coop_cli::coop::{Line, difference};
use coop_cli::reduce::reduce;
use coop_components::Lacks;
use coop_ir::isomorphic::isomorphic;
use coop_ir::spv::Capability;
use coop_ir::types::{Scalar, scalar};
use coop_ir::{Module, Op, binary, text, verify};
use std::io::Write;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("coop").join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("writable");
    folder
}

/// A command that runs one of our programs; when tests run with a driver's own C library, it needs the same wrapper.
fn tool(program: &str) -> Command {
    let mut command = match std::env::var_os("COOP_RUNNER") {
        Some(runner) => {
            let mut command = Command::new(runner);
            command.arg(program);
            command
        }
        None => Command::new(program),
    };
    command.env("NO_COLOR", "1").current_dir(root());
    command
}

fn coop(arguments: &[&str]) -> Output {
    tool(env!("CARGO_BIN_EXE_coop")).args(arguments).output().expect("coop runs")
}

fn status(out: &Output) -> i32 {
    out.status.code().expect("it was not killed")
}

fn stdout(out: &Output) -> String {
    String::from_utf8_lossy(&out.stdout).into_owned()
}

fn stderr(out: &Output) -> String {
    String::from_utf8_lossy(&out.stderr).into_owned()
}

/// A program of SPIRV-Tools, which is not there only where nobody demands it.
fn spirv_tool(name: &str) -> Option<Command> {
    if Command::new(name).arg("--version").output().is_ok() {
        return Some(Command::new(name));
    }
    assert!(std::env::var_os("COOP_REQUIRE_TOOLS").is_none(), "{name} is not there");
    None
}

fn modules(folder: &str) -> Vec<(String, Module)> {
    let entries = std::fs::read_dir(root().join("testdata").join(folder)).expect("a folder");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    let module = |path: &PathBuf| {
        let bytes = std::fs::read(path).ok()?;
        let module = match path.extension()?.to_str()? {
            "spv" => binary::read(&bytes).ok()?,
            "spvasm" => text::parse(std::str::from_utf8(&bytes).ok()?).ok()?,
            _ => return None,
        };
        Some((path.file_name()?.to_string_lossy().into_owned(), module))
    };
    let all: Vec<(String, Module)> = paths.iter().filter_map(module).collect();
    assert!(all.len() > 10, "{folder} has {} modules", all.len());
    all
}

fn load(path: &Path) -> Module {
    binary::read(&std::fs::read(path).expect("it was written")).expect("a module")
}

const MISMATCH: &str = "testdata/validate/muladd/muladd-k-mismatch.spvasm";
const GEMM: &str = "testdata/kernels/gemm_simple.spv";
const DIMENSIONS: [&str; 8] = ["--spec", "0=16", "--spec", "1=16", "--spec", "2=16", "--subgroup-size", "32"];

#[test]
fn subcommands_are_the_tools() {
    let lower: Vec<&str> = DIMENSIONS.into_iter().chain(["--target", "scalar", GEMM, "-t", "-o", "-"]).collect();
    let case = "testdata/kernels/gemm_simple.toml";
    let cases: [(&str, &str, Vec<&str>); 6] = [
        ("check", env!("CARGO_BIN_EXE_coopcheck"), vec![MISMATCH]),
        ("check", env!("CARGO_BIN_EXE_coopcheck"), vec!["explain", "muladd-k-mismatch"]),
        ("check", env!("CARGO_BIN_EXE_coopcheck"), vec!["--format", "json", GEMM, "no-such-file.spv"]),
        ("lower", env!("CARGO_BIN_EXE_cooplower"), lower),
        ("lower", env!("CARGO_BIN_EXE_cooplower"), vec![GEMM, "--target", "khr"]),
        ("run", env!("CARGO_BIN_EXE_cooprun"), vec!["run", GEMM, "--on", "interp", "--case", case]),
    ];
    for (name, program, arguments) in cases {
        let alone = tool(program).args(&arguments).output().expect("the tool runs");
        let below = coop(&[&[name], &arguments[..]].concat());
        assert_eq!(
            (status(&alone), stdout(&alone), stderr(&alone)),
            (status(&below), stdout(&below), stderr(&below)),
            "{name} {arguments:?}"
        );
        assert!(!stdout(&alone).is_empty() || !stderr(&alone).is_empty(), "{name} {arguments:?} says nothing");
    }
}

/// A process that `cooprun compile` starts for the driver is one of the same subcommand.
#[test]
fn compile_starts_itself_again() {
    if std::env::var_os("COOP_REQUIRE_VULKAN").is_none() && std::env::var_os("COOP_RUNNER").is_none() {
        eprintln!("no driver");
        return;
    }
    let case = "testdata/kernels/gemm_simple.toml";
    let out = coop(&["run", "compile", GEMM, "--case", case]);
    let alone = tool(env!("CARGO_BIN_EXE_cooprun")).args(["compile", GEMM, "--case", case]).output().expect("it runs");
    // Times are its own.
    let text = |out: &Output| stdout(out).replace(|c: char| c.is_ascii_digit(), "").replace(' ', "");
    assert_eq!((status(&out), text(&out)), (status(&alone), text(&alone)), "{}", stderr(&out));
    assert!(status(&out) == 0 && stdout(&out).contains("time to compile"), "{}", stderr(&out));
}

/// One file with links of the tools' names is all tools.
#[cfg(unix)]
#[test]
fn a_link_is_the_tool_of_its_name() {
    let folder = folder("links");
    for name in ["coopcheck", "cooplower", "cooprun", "coop"] {
        let link = folder.join(name);
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_coop"), &link).expect("a link");
        let out = Command::new(&link).arg("--version").output().expect("it runs");
        assert_eq!(stdout(&out), format!("{name} {}\n", env!("CARGO_PKG_VERSION")));
    }
}

#[test]
fn text_and_words_are_the_same_module() {
    let folder = folder("text");
    for name in ["gemm_simple", "gemm_nv2", "reduce"] {
        let path = root().join(format!("testdata/kernels/{name}.spv"));
        let Ok(bytes) = std::fs::read(&path) else { continue };
        let (asm, spv) = (folder.join("a.spvasm"), folder.join("a.spv"));
        let [asm, spv, path] = [&asm, &spv, &path].map(|p| p.to_string_lossy().into_owned());
        assert_eq!(status(&coop(&["print", &path, "-o", &asm])), 0);
        assert_eq!(status(&coop(&["parse", &asm, "-o", &spv])), 0);
        let [before, after] =
            [bytes, std::fs::read(&spv).expect("written")].map(|b| binary::read(&b).expect("a module"));
        assert!(isomorphic(&before, &after), "{name}");
        assert_eq!(status(&coop(&["diff", &path, &asm])), 0);
        // With numbers it is the same module, byte for byte.
        let numbers = coop(&["print", "--numbers", &path]);
        let mut child = tool(env!("CARGO_BIN_EXE_coop"))
            .args(["parse", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it runs");
        child.stdin.take().expect("a pipe").write_all(&numbers.stdout).expect("it reads");
        let words = child.wait_with_output().expect("it ends").stdout;
        assert_eq!(binary::write(&before), words, "{name}");
    }
}

#[test]
fn bad_input_is_told() {
    let folder = folder("bad");
    let file = |name: &str, text: &str| {
        let path = folder.join(name);
        std::fs::write(&path, text).expect("writable");
        path.to_string_lossy().into_owned()
    };
    let unknown = file("unknown.spvasm", "OpCapability Shader\nOpNonsense\n");
    let loose = file("loose.spvasm", "OpCapability Shader\nOpMemoryModel Logical GLSL450\n%1 = OpTypeVector %2 4\n");
    let none = folder.join("none.spv").to_string_lossy().into_owned();
    let nowhere = folder.join("no-folder/out.spvasm").to_string_lossy().into_owned();
    for (arguments, message) in [
        (vec!["parse", &unknown], "unknown.spvasm:2:1: "),
        (vec!["parse", &loose], "%2"),
        (vec!["parse", GEMM], "SPIR-V words, not text"),
        (vec!["print", &none], "no such file"),
        (vec!["diff", GEMM, &none], "no such file"),
        (vec!["diff", &loose, GEMM], "%2"),
        (vec!["stats", &none, GEMM], "no such file"),
        (vec!["reduce", GEMM, "--", "true"], "has no {}"),
        (
            vec!["reduce", GEMM, "-o", "-", "--", "true", "{}"],
            "--output -: the smallest module so far is kept in a file",
        ),
        (vec!["reduce", &loose, "--", "true", "{}"], "not well formed"),
        (vec!["reduce", GEMM, "--", "no-such-program-here", "{}"], "no-such-program-here: no such program"),
        (vec!["reduce", GEMM, "--status", "3", "--", "true", "{}"], "is to end with status 3 and ended with status 0"),
        (vec!["lower", GEMM, "--passes", "folt"], "no such pass, --list-passes lists them; did you mean 'fold'"),
        (vec!["lower", GEMM, "--passes", "tiles"], "is not run for target scalar: give --target khr"),
        (
            vec!["lower", GEMM, "--passes", "tiles", "--target", "auto"],
            "is not run for target scalar, which auto is here: give --target khr",
        ),
        (
            vec!["lower", GEMM, "--passes", "fold,scalar", "--target", "auto", "--profile", "nvidia-h100"],
            "--passes scalar: is not run for target khr, which auto is here: give --target scalar",
        ),
        (
            vec!["lower", GEMM, "--passes", "fold", "--without", "shaderFloat16"],
            "--passes names no pass that does without",
        ),
        (vec!["lower", GEMM, "--dump-after", "half", "--dump-dir", &nowhere], "is dumped where --passes names it"),
        (
            vec!["lower", GEMM, "--dump-after", "halve", "--dump-dir", &nowhere],
            "no such pass; --list-passes lists them",
        ),
        (vec!["print", GEMM, "-o", &nowhere], "can't be written: there is no folder "),
        (vec!["print", GEMM, "-o", "."], ".: can't be written: is a folder"),
    ] {
        let out = coop(&arguments);
        assert_eq!(status(&out), 2, "{arguments:?}: {}", stderr(&out));
        assert!(stderr(&out).contains(message), "{arguments:?}: {}", stderr(&out));
    }
}

/// A difference is empty for the same module with other numbers, and the lines of each side are those of a module.
#[test]
fn differences_are_what_differs() {
    let all = modules("kernels");
    let options = coop_passes::Options {
        subgroup_size: Some(32),
        spec_defaults: true,
        ..coop_passes::Options::new(coop_passes::Target::Scalar)
    };
    let mut lowered = 0;
    for at in 0..all.len() {
        let (name, a) = &all[at];
        let mut others: Vec<Module> = vec![a.clone(), all[(at + 1) % all.len()].1.clone(), renumbered(a)];
        // Lowering takes longest.
        let low = (at % 3 == 0).then(|| coop_passes::lower(a, &options).ok()).flatten().map(|lowered| lowered.module);
        lowered += usize::from(low.is_some());
        others.extend(low);
        for b in &others {
            let found = difference(a, b);
            assert_eq!(found.is_empty(), isomorphic(a, b), "{name}: {}", found.unified(["a", "b"], 0, false));
            for region in &found.regions {
                let side = |mine: fn(&Line) -> Option<&String>| region.lines.iter().filter_map(mine).count();
                let [removed, added] = region.changes();
                let first = side(|line| match line {
                    Line::Both(text) | Line::First(text) => Some(text),
                    Line::Second(_) => None,
                });
                if region.name == "globals" {
                    assert_eq!(first, a.globals.len(), "{name}");
                    assert_eq!(first - removed + added, b.globals.len(), "{name}");
                }
            }
        }
    }
    assert!(lowered > 3, "{lowered} kernels were lowered");
}

/// The same module with its numbers turned around, by the words of the file.
fn renumbered(m: &Module) -> Module {
    let bound = m.header.bound;
    let turned = |id: coop_ir::Id| coop_ir::Id::new(bound - id.get()).expect("ids are below the bound");
    let mut out = m.clone();
    for r in m.all() {
        let inst = out.inst_mut(r);
        inst.map_ids(turned);
        inst.result = inst.result.map(turned);
    }
    binary::read(&binary::write(&out)).expect("a module")
}

/// Another tool renumbers, and one instruction is another: that one is what differs.
#[test]
fn one_changed_instruction_is_one_change() {
    let folder = folder("diff");
    let Some(mut opt) = spirv_tool("spirv-opt") else { return };
    let compact = folder.join("compact.spv");
    let done = opt.arg("--compact-ids").arg(root().join(GEMM)).arg("-o").arg(&compact).status().expect("it runs");
    assert!(done.success());
    let compact = compact.to_string_lossy().into_owned();
    let gemm = root().join(GEMM).to_string_lossy().into_owned();
    let same = coop(&["diff", &gemm, &compact]);
    assert_eq!((status(&same), stdout(&same).as_str()), (0, ""), "{}", stderr(&same));
    // A multiplication becomes an addition, in a module with other numbers.
    let text = stdout(&coop(&["print", &compact]));
    let line = text.lines().find(|l| l.contains("OpIMul")).expect("a multiplication");
    let changed = folder.join("changed.spvasm");
    std::fs::write(&changed, text.replacen(line, &line.replace("OpIMul", "OpIAdd"), 1)).expect("writable");
    let changed = changed.to_string_lossy().into_owned();
    let out = coop(&["diff", "-U", "0", &gemm, &changed]);
    assert_eq!(status(&out), 1, "{}", stderr(&out));
    let lines = stdout(&out);
    let marked = |mark: char| lines.lines().skip(2).filter(|l| l.starts_with(mark)).collect::<Vec<_>>();
    let (removed, added) = (marked('-'), marked('+'));
    assert_eq!((removed.len(), added.len()), (1, 1), "{lines}");
    assert!(lines.contains("@@ function %main: -1 +1"), "{lines}");
    assert_eq!(removed[0][1..].replace("OpIMul", "OpIAdd"), added[0][1..], "{lines}");
    let beside = stdout(&coop(&["diff", "--side-by-side", "--width", "120", "-U", "1", &gemm, &changed]));
    let rows: Vec<&str> = beside.lines().filter(|l| l.contains(" | ")).collect();
    assert_eq!(rows.len(), 1, "{beside}");
    let columns = rows[0].split_once(" | ").expect("two columns");
    assert!(columns.0.contains("OpIMul") && columns.1.contains("OpIAdd"), "{beside}");
    assert!(beside.lines().all(|l| l.chars().count() <= 120), "{beside}");
    // Without names and lines of source it is the same but for that.
    let out = coop(&["diff", "--no-debug", "-q", &gemm, &compact]);
    assert_eq!((status(&out), stdout(&out).as_str()), (0, ""));
}

/// Counted as another tool prints them.
#[test]
fn counts_are_those_of_the_text() {
    let Some(mut dis) = spirv_tool("spirv-dis") else { return };
    let text = dis.arg("--raw-id").arg("--no-color").arg(root().join(GEMM)).output().expect("it runs");
    let text = stdout(&text);
    let opcode = |line: &str| line.split_whitespace().find(|word| word.starts_with("Op")).map(str::to_owned);
    let mut wanted: std::collections::BTreeMap<String, u64> = std::collections::BTreeMap::new();
    for opcode in text.lines().filter(|l| !l.starts_with(';')).filter_map(opcode) {
        *wanted.entry(opcode).or_default() += 1;
    }
    let out = coop(&["stats", "--json", GEMM]);
    let counts: serde_json::Value = serde_json::from_slice(&out.stdout).expect("JSON");
    assert_eq!(counts["by_opcode"], serde_json::json!(wanted));
    assert_eq!(counts["instructions"], wanted.values().sum::<u64>());
    assert_eq!(
        (&counts["blocks"], &counts["functions"]),
        (&serde_json::json!(wanted["OpLabel"]), &serde_json::json!(1))
    );
    assert_eq!(counts["loops"], wanted["OpLoopMerge"]);
    let bound = text.lines().find_map(|l| l.strip_prefix("; Bound: ")).expect("a bound");
    assert_eq!(counts["id_bound"].to_string(), bound);
    let matrices: Vec<String> = counts["matrices"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|m| m["type"].as_str().expect("text").to_owned())
        .collect();
    assert_eq!(matrices, ["f32 16x16 Accumulator", "f16 16x16 A", "f16 16x16 B"]);
    let specialized = coop(&["stats", "--json", "--spec", "2=64", GEMM]);
    let specialized: serde_json::Value = serde_json::from_slice(&specialized.stdout).expect("JSON");
    assert_eq!(specialized["matrices"][1]["columns"], 64);
    let shown = stdout(&coop(&["stats", GEMM]));
    assert!(shown.contains("entry point      main (GLCompute), workgroups of 32x1x1"), "{shown}");
}

/// The search for the shortest difference has one limit for all functions, and functions are not searched one by one.
#[test]
fn the_difference_of_large_modules_is_found() {
    let module = |functions: usize, body: &dyn Fn(usize) -> String| {
        let head = "OpCapability Shader\nOpCapability Linkage\nOpMemoryModel Logical GLSL450\n%void = OpTypeVoid\n\
                    %type = OpTypeFunction %void\n%uint = OpTypeInt 32 0\n%one = OpConstant %uint 1\n%two = OpConstant %uint 2\n";
        let one = |f: usize| {
            format!("%f{f} = OpFunction %void None %type\n%l{f} = OpLabel\n{}OpReturn\nOpFunctionEnd\n", body(f))
        };
        let all = (0..functions).map(one);
        text::parse(&(head.to_owned() + &all.collect::<String>())).expect("it parses")
    };
    let add = |f: usize, n: usize, operand: &str| format!("%v{f}_{n} = OpIAdd %uint %one {operand}\n");
    // The bits of a product are as good as random here.
    let mixed = |n: usize, by: usize| if (n * by) >> 7 & 1 == 0 { "%one" } else { "%two" };
    let long = |by: usize| module(1, &|f| (0..5000).map(|n| add(f, n, mixed(n, by))).collect());
    let many = |operand: &str| module(2000, &|f| add(f, 0, operand));
    let hard = |by: usize| module(16, &|f| (0..300).map(|n| add(f, n, mixed(n + f, by))).collect());
    let start = Instant::now();
    for (a, b) in [(long(7919), long(104_729)), (many("%one"), many("%two")), (hard(7919), hard(104_729))] {
        let found = difference(&a, &b);
        assert!(!found.is_empty() && difference(&a, &a.clone()).is_empty());
        let [removed, added] = found.changes();
        assert_eq!(removed as i64 - added as i64, a.all().count() as i64 - b.all().count() as i64);
        let shown = found.side_by_side(["a", "b"], usize::MAX, 80, false);
        assert!(shown.lines().count() > removed.max(added));
    }
    assert!(start.elapsed() < Duration::from_secs(100), "{:?}", start.elapsed());
}

/// Any pass is run alone on any module: it gives one that is well formed, or says why not.
#[test]
fn passes_run_alone() {
    let mut all = modules("kernels");
    all.extend(modules("passes"));
    all.retain(|(_, module)| module.all().count() < 500);
    assert!(all.len() > 30, "{} modules", all.len());
    let mut ran = 0;
    for pass in coop_passes::PASSES {
        for (name, module) in &all {
            let options = coop_passes::Options {
                subgroup_size: Some(32),
                spec_defaults: true,
                passes: vec![pass.name.to_owned()],
                verify_each: true,
                ..coop_passes::Options::new(pass.targets[0])
            };
            match coop_passes::lower(module, &options) {
                Ok(lowered) => {
                    verify::verify(&lowered.module).unwrap_or_else(|p| panic!("{} on {name}: {p:?}", pass.name));
                    ran += 1;
                }
                Err(coop_passes::Error::Refused(refusal)) => assert!(!refusal.remedy.is_empty()),
                Err(coop_passes::Error::Bug { message, .. }) => {
                    assert!(message.contains("left that the pass removes"), "{} on {name}: {message}", pass.name);
                }
            }
        }
    }
    assert!(ran > all.len() * 10, "{ran} of {} runs", all.len() * coop_passes::PASSES.len());
    let lacks = Lacks::FEATURES.into_iter().filter_map(Lacks::without).fold(Lacks::default(), Lacks::and);
    let mut ran = 0;
    for pass in coop_components::PASSES {
        for (name, module) in &all {
            match coop_components::run(module, [pass], &coop_components::Options::new(lacks)) {
                Ok(lowered) => {
                    verify::verify(&lowered.module).unwrap_or_else(|p| panic!("{} on {name}: {p:?}", pass.name));
                    ran += 1;
                }
                Err(coop_components::Error::Refused(refusal)) => assert!(!refusal.remedy.is_empty()),
                Err(bug) => panic!("{} on {name}: {bug}", pass.name),
            }
        }
    }
    assert!(ran > all.len() * 2, "{ran} of {} runs", all.len() * coop_components::PASSES.len());
}

#[test]
fn a_pass_alone_and_what_passes_change() {
    let folder = folder("passes");
    let (out, spv) = (folder.join("fold.spv"), root().join(GEMM).to_string_lossy().into_owned());
    let name = out.to_string_lossy().into_owned();
    let run = coop(&["lower", "--passes", "cleanup", &spv, "-o", &name]);
    assert_eq!(status(&run), 0, "{}", stderr(&run));
    assert!(stderr(&run).contains("cleanup ran and no other pass"), "{}", stderr(&run));
    // The matrices are there still.
    assert!(load(&out).all().any(|r| load(&out).inst(r).op == Op::CooperativeMatrixMulAddKHR));
    // Likewise the passes of component types, behind those of matrices.
    let lowered = folder.join("scalar.spv").to_string_lossy().into_owned();
    let run = coop(&[&["lower", "--target", "scalar", "-qq", &spv, "-o", &lowered], &DIMENSIONS[..]].concat());
    assert_eq!(status(&run), 0, "{}", stderr(&run));
    let f16 = Some(Scalar::Float { width: 16 });
    let half =
        |m: &Module| m.globals_with(Op::TypeFloat).filter_map(|r| m.inst(r).result).any(|id| scalar(m, id) == f16);
    assert!(half(&load(Path::new(&lowered))), "f16 in {lowered}");
    let run = coop(&["lower", "--passes", "half", &lowered, "-o", &name]);
    assert!(status(&run) == 3 && stderr(&run).contains("f16 in StorageBuffer memory"), "{}", stderr(&run));
    let run = coop(&["lower", "--passes", "storage,half", "--dump-changed", &lowered, "-o", &name]);
    assert_eq!(status(&run), 0, "{}", stderr(&run));
    let said = stderr(&run);
    assert!(said.contains("storage, half ran and no other pass") && said.contains("-half: -"), "{said}");
    assert!(!half(&load(&out)) && load(&out).enables(Capability::Float16));
    let run = coop(&["lower", "--passes", "storage", "--without", "storageBuffer16BitAccess", &lowered, "-o", &name]);
    assert!(status(&run) == 0 && half(&load(&out)), "{}", stderr(&run));
    let arguments: Vec<&str> = ["lower", "--target", "scalar", "--dump-changed", "-qq", &spv].to_vec();
    let run = coop(&[&arguments[..], &DIMENSIONS].concat());
    assert_eq!(status(&run), 0, "{}", stderr(&run));
    let said = stderr(&run);
    assert!(said.contains("\n06-fold: nothing changed\n") || said.contains("06-fold: -"), "{said}");
    let specialize = said.split("05-specialize: ").nth(1).expect("the pass").split("06-fold").next().expect("text");
    assert!(specialize.contains("-%M = OpSpecConstant %uint 16"), "{specialize}");
    assert!(!specialize.contains("OpCooperativeMatrixMulAddKHR"), "{specialize}");
    let scalar = said.split("-scalar: ").nth(1).expect("the pass");
    assert!(scalar.contains("\n-%123 = OpCooperativeMatrixMulAddKHR"), "{scalar}");
}

/// An entry point that gets two versions keeps its debug information valid: it says in which function it stands. Both versions
/// give what the original gives.
#[test]
fn versions_keep_debug_information_valid() {
    let folder = folder("versions");
    let (Some(mut glslang), Some(mut spirv_val)) = (spirv_tool("glslang"), spirv_tool("spirv-val")) else { return };
    let [module, lowered] = ["rows.spv", "lowered.spv"].map(|name| folder.join(name).to_string_lossy().into_owned());
    let source = root().join("testdata/cli/rows.comp");
    let out = glslang.args(["-gVS", "--target-env", "vulkan1.3", "-o", &module]).arg(source).output().expect("it runs");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stdout));
    let device = ["--target", "khr", "--profile", "nvidia-h100", "--subgroup-size", "32"];
    let out = coop(&[&["lower", &module, "-o", &lowered][..], &device].concat());
    assert_eq!(status(&out), 0, "{}", stderr(&out));
    let text = stdout(&coop(&["print", &lowered]));
    assert!(text.contains("_in_registers\"") && text.contains("DebugFunctionDefinition"), "{text}");
    // The reduction's function is known for what it is in spite of what it says about its source.
    assert!(text.contains("OpGroupNonUniformShuffleXor %float "), "{text}");
    let out = spirv_val.args(["--target-env", "vulkan1.3", &lowered]).output().expect("it runs");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    for placement in ["blocked-rows", "fragments"] {
        let case = ["--case", "testdata/cli/rows.toml", "--on", "interp", "--placement", placement];
        let out = coop(&[&["run", "verify", &module][..], &device, &case].concat());
        assert_eq!(status(&out), 0, "{}{}", stdout(&out), stderr(&out));
    }
}
