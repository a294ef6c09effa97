//! `coop`: the tools as subcommands, and what it does besides.

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

fn load(path: &Path) -> Module {
    binary::read(&std::fs::read(path).expect("it was written")).expect("a module")
}

#[test]
fn a_module_becomes_small() {
    let folder = folder("reduce");
    let small = folder.join("small.spv");
    let command = format!("{} print {{}} | grep -q 'OpCooperativeMatrixMulAddKHR'", env!("CARGO_BIN_EXE_coop"));
    let out = tool(env!("CARGO_BIN_EXE_coop"))
        .args(["reduce", GEMM, "--quiet", "-o"])
        .arg(&small)
        .args(["--", "sh", "-c", &command])
        .output()
        .expect("it runs");
    assert_eq!(status(&out), 0, "{}", stderr(&out));
    assert_eq!(stderr(&out), "");
    let (before, after) = (load(&root().join(GEMM)), load(&small));
    verify::verify(&after).expect("it is well formed");
    assert_eq!(after.all().filter(|r| after.inst(*r).op == Op::CooperativeMatrixMulAddKHR).count(), 1);
    let [many, few] = [before, after].map(|m| m.all().count());
    assert!(few <= 60 && many > 200, "{few} of {many} instructions are left");
    if let Some(mut val) = spirv_tool("spirv-val") {
        let out = val.args(["--target-env", "vulkan1.3"]).arg(&small).output().expect("it runs");
        assert!(out.status.success(), "{}{}", stdout(&out), stderr(&out));
    }
}

/// A module that spirv-val accepts stays so: a module of each kind, reduced to one instruction, without spirv-val's help and with it.
#[test]
fn what_is_left_is_valid() {
    let val = |environment: &str, file: &Path| {
        let mut val = spirv_tool("spirv-val")?;
        Some(val.args(["--target-env", environment]).arg(file).output().expect("it runs").status.success())
    };
    if spirv_tool("spirv-val").is_none() {
        return;
    }
    let folder = folder("valid");
    let (file, environments) = (folder.join("small.spv"), ["vulkan1.3", "vulkan1.4", "spv1.6"]);
    let mut tried = 0;
    let wanted = |m: &Module| m.all().find(|r| m.inst(*r).op.is_matrix_store()).map(|r| m.inst(r).op);
    for (name, module) in modules("kernels").into_iter().chain(modules("passes")) {
        let Some(op) = wanted(&module).filter(|_| tried < 24 && module.all().count() < 400) else { continue };
        std::fs::write(&file, binary::write(&module)).expect("writable");
        let Some(environment) = environments.into_iter().find(|e| val(e, &file) == Some(true)) else { continue };
        tried += 1;
        let reduced = reduce(&module, 400, &mut |m| ControlFlow::Continue(m.all().any(|r| m.inst(r).op == op)));
        std::fs::write(&file, binary::write(&reduced.module)).expect("writable");
        let left = text::print(&reduced.module, &text::PrintOptions::default()).text;
        assert_eq!(val(environment, &file), Some(true), "{name} for {environment}:\n{left}");
    }
    assert!(tried > 15, "{tried} modules");
}

/// A loop around what is looked for goes, and so does one that leaves its values to what follows: with a continue target that is
/// reached, and without.
#[test]
fn loops_go() {
    let head = "OpCapability Shader\nOpMemoryModel Logical GLSL450\nOpEntryPoint GLCompute %main \"main\"\n\
                OpExecutionMode %main LocalSize 1 1 1\n%void = OpTypeVoid\n%fn = OpTypeFunction %void\n%bool = OpTypeBool\n\
                %true = OpConstantTrue %bool\n%u32 = OpTypeInt 32 0\n%n0 = OpConstant %u32 0\n%n1 = OpConstant %u32 1\n\
                %n9 = OpConstant %u32 9\n%main = OpFunction %void None %fn\n%entry = OpLabel\nOpBranch %head\n%head = OpLabel\n";
    let counted = "%i = OpPhi %u32 %n0 %entry %j %next\n%goes = OpULessThan %bool %i %n9\nOpLoopMerge %merge %next None\n\
                   OpBranchConditional %goes %body %merge\n%body = OpLabel\n%k = OpIMul %u32 %i %i\nOpBranch %next\n\
                   %next = OpLabel\n%j = OpIAdd %u32 %i %n1\nOpBranch %head\n%merge = OpLabel\n%s = OpISub %u32 %i %n1\n";
    let once = "OpLoopMerge %merge %next None\nOpBranch %body\n%body = OpLabel\n%s = OpISub %u32 %n9 %n1\nOpBranch %merge\n\
                %next = OpLabel\nOpBranch %head\n%merge = OpLabel\n";
    let choice = "OpLoopMerge %merge %next None\nOpBranchConditional %true %body %merge\n%body = OpLabel\n\
                  %s = OpISub %u32 %n9 %n1\nOpBranch %merge\n%next = OpLabel\nOpBranch %head\n%merge = OpLabel\n";
    let tail = "OpReturn\nOpFunctionEnd\n";
    for (loop_, wanted) in [(counted, Op::ISub), (counted, Op::IMul), (once, Op::ISub), (choice, Op::ISub)] {
        let module = text::parse(&format!("{head}{loop_}{tail}")).expect("it parses");
        let reduced = reduce(&module, 400, &mut |m| ControlFlow::Continue(m.all().any(|r| m.inst(r).op == wanted)));
        let left = text::print(&reduced.module, &text::PrintOptions::default()).text;
        assert!(
            left.contains(&wanted.to_string()) && !left.contains("OpLoopMerge") && !left.contains("OpPhi"),
            "{left}"
        );
    }
}

/// With spirv-val, what a module declares and does not need goes.
#[test]
fn what_nothing_needs_goes() {
    if spirv_tool("spirv-val").is_none() {
        return;
    }
    let folder = folder("unused");
    let (large, small) = (folder.join("large.spvasm"), folder.join("small.spvasm"));
    let source = text::print(&load(&root().join(GEMM)), &text::PrintOptions::default()).text;
    let source = source.replacen(
        "OpCapability Shader",
        "OpCapability Shader\nOpCapability Int64\nOpCapability GroupNonUniform",
        1,
    );
    let source = source.replacen("OpExtension", "OpExtension \"SPV_KHR_16bit_storage\"\nOpExtension", 1);
    std::fs::write(&large, source).expect("writable");
    let command = format!("{} print {{}} | grep -q OpCooperativeMatrixMulAddKHR", env!("CARGO_BIN_EXE_coop"));
    let names = [&large, &small].map(|file| file.to_string_lossy().into_owned());
    let out = coop(&["reduce", &names[0], "-o", &names[1], "--", "sh", "-c", &command]);
    assert_eq!(status(&out), 0, "{}", stderr(&out));
    assert!(stderr(&out).contains("valid by spirv-val for vulkan1.3, as the module is"), "{}", stderr(&out));
    let left = std::fs::read_to_string(&small).expect("it was written");
    for gone in [
        "Int64",
        "GroupNonUniform",
        "16BitAccess",
        "SPV_KHR_16bit_storage",
        "OpDecorate",
        "OpName",
        "OpSource",
        "OpSpecConstant",
        "OpVariable",
    ] {
        assert!(!left.contains(gone), "{gone} is left:\n{left}");
    }
    assert!(left.lines().filter(|line| line.contains("OpConstant ")).count() < 8, "{left}");
}

/// A broken rule is what the command looks for; the loop and the branches around it go.
#[test]
fn a_finding_is_kept() {
    let folder = folder("finding");
    let small = folder.join("small.spvasm");
    let small_name = small.to_string_lossy().into_owned();
    let check = env!("CARGO_BIN_EXE_coopcheck");
    let out = coop(&[
        "reduce",
        MISMATCH,
        "-o",
        &small_name,
        "--status",
        "1",
        "--text",
        "muladd-k-mismatch",
        "--",
        check,
        "{}",
    ]);
    assert_eq!(status(&out), 0, "{}", stderr(&out));
    assert!(stderr(&out).contains("runs of the command"), "{}", stderr(&out));
    let again = tool(check).arg(&small).output().expect("it runs");
    assert!(status(&again) == 1 && stdout(&again).contains("muladd-k-mismatch"), "{}", stdout(&again));
    let text = std::fs::read_to_string(&small).expect("text");
    assert!(text.starts_with("; SPIR-V") && text.contains("OpCooperativeMatrixMulAddKHR"), "{text}");
}

/// The most that a command takes is bounded, with all that it starts, and what is reached is kept.
#[cfg(unix)]
#[test]
fn an_interrupt_keeps_what_is_reached() {
    use nix::sys::signal::{Signal, kill};
    let folder = folder("interrupt");
    let small = folder.join("small.spv");
    let seen = folder.join("seen");
    // The first commands are quick, others hang.
    let script = format!("echo x >> {0}; test $(wc -l < {0}) -lt 3 || sleep 600 & wait; test -s {{}}", seen.display());
    let start = Instant::now();
    let mut child = tool(env!("CARGO_BIN_EXE_coop"))
        .args(["reduce", GEMM, "-o"])
        .arg(&small)
        .args(["--timeout", "100", "--", "sh", "-c", &script])
        .stderr(Stdio::piped())
        .spawn()
        .expect("it runs");
    let lines = || std::fs::read_to_string(&seen).map_or(0, |text| text.lines().count());
    while lines() < 3 && start.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(lines(), 3, "the third command does not end");
    kill(nix::unistd::Pid::from_raw(child.id() as i32), Signal::SIGINT).expect("it runs");
    let mut said = String::new();
    std::io::Read::read_to_string(&mut child.stderr.take().expect("a pipe"), &mut said).expect("text");
    assert_eq!(child.wait().expect("it ends").code(), Some(0), "{said}");
    assert!(start.elapsed() < Duration::from_secs(90));
    assert!(said.contains("it may become smaller; to go on: coop reduce "), "{said}");
    let name = small.to_string_lossy();
    assert!(said.contains(&format!("coop reduce {name} -o {name} --timeout 100 -- sh -c 'echo x")), "{said}");
    let left = load(&small).all().count();
    assert!(left < load(&root().join(GEMM)).all().count(), "{left}: the second command confirmed a step");
    // A command that takes too long is not kept, and ends with what it started.
    let out =
        coop(&["reduce", GEMM, "-o", &name, "--timeout", "1", "--", "sh", "-c", "sleep 600 & sleep 600; echo {}"]);
    assert_eq!(status(&out), 2, "{}", stderr(&out));
    assert!(stderr(&out).contains("took more than 1 s and was killed"), "{}", stderr(&out));
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
    assert!(said.contains("storage, half ran and no other pass") && said.contains("05-half: -"), "{said}");
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

/// Where elements are in rows of SVG: the fills of cells, by row, from the titles that name their places.
fn cells(svg: &str) -> Vec<String> {
    let titles = svg.split("<title>").skip(1).filter_map(|rest| rest.split("</title>").next());
    titles.map(str::to_owned).collect()
}

/// The interpreter's placement is known: consecutive elements, row by row. Every element is held where the module says.
#[test]
fn placements_are_those_of_who_runs() {
    let folder = folder("placement");
    let svg = folder.join("placement.svg");
    let svg_name = svg.to_string_lossy().into_owned();
    let on = ["--on", "interp", "--subgroup-size", "8"];
    for (matrix, place) in
        [("f16:8x16:A", "blocked-rows"), ("s8:8x16:B", "blocked-rows"), ("f32:16x8:C", "interleaved")]
    {
        let arguments = ["run", "placement", "--matrix", matrix, "--placement", place, "--json"];
        let out = coop(&[&arguments[..], &on].concat());
        assert_eq!(status(&out), 0, "{}", stderr(&out));
        let json: serde_json::Value = serde_json::from_slice(&out.stdout).expect("JSON");
        let elements = json["elements"].as_array().expect("rows");
        for (row, line) in elements.iter().enumerate() {
            let line = line.as_array().expect("a row");
            for (column, holders) in line.iter().enumerate() {
                let number = row * line.len() + column;
                let wanted = match place {
                    // 16 consecutive ones in each of 8 invocations.
                    "blocked-rows" => [number / 16, number % 16],
                    _ => [number % 8, number / 8],
                };
                assert_eq!(*holders, serde_json::json!([wanted]), "{matrix}, {place}: {row}, {column}");
            }
        }
    }
    // Every element in two invocations is said so, and drawn.
    let arguments = ["run", "placement", "--matrix", "f16:8x8:A", "--placement", "replicated", "--svg", &svg_name];
    let out = coop(&[&arguments[..], &on].concat());
    assert_eq!((status(&out), stdout(&out).as_str()), (0, ""), "{}", stderr(&out));
    let drawn = std::fs::read_to_string(&svg).expect("it was written");
    let cells = cells(&drawn);
    assert_eq!(cells.len(), 64, "{drawn}");
    assert!(cells[9].starts_with("row 1, column 1: invocation ") && cells[9].matches("invocation").count() == 2);
    assert!(drawn.contains("invocation.index: the invocation") && drawn.contains(">f16 8x8 A</text>"));
    // Lowered: the lanes of a subgroup hold each element once, whoever executes the code. The four tiles of 8x8
    // take turns.
    for lower in [&["scalar"][..], &["khr", "--profile", "mesa-lavapipe"]] {
        let arguments = ["run", "placement", "--matrix", "f32:16x16:Accumulator", "--json", "--lower"];
        let out = coop(&[&arguments[..], lower, &on].concat());
        assert_eq!(status(&out), 0, "{}", stderr(&out));
        let json: serde_json::Value = serde_json::from_slice(&out.stdout).expect("JSON");
        assert_eq!((&json["lengths"], &json["invocations"]), (&serde_json::json!([32, 32]), &serde_json::json!(8)));
        let held = json["elements"].as_array().expect("rows").iter().flat_map(|line| line.as_array().expect("a row"));
        let once = |holders: &serde_json::Value| holders.as_array().is_some_and(|h| h.len() == 1);
        assert!(held.clone().count() == 256 && held.into_iter().all(once), "{json}");
        if lower[0] == "khr" {
            let index = |row: usize, column: usize| json["elements"][row][column][0][1].as_u64();
            assert_eq!([index(0, 0), index(0, 8), index(8, 0), index(8, 8)], [0, 1, 2, 3].map(Some), "{json}");
        }
    }
    let out = coop(&[&["run", "placement", "--matrix", "f32:16x16:C", "--lower", "khr"], &on[..]].concat());
    assert!(status(&out) == 2 && stderr(&out).contains("say --profile NAME"), "{}", stderr(&out));
    // The types of a module.
    let spec = ["--spec", "0=8", "--spec", "1=16", "--spec", "2=8"];
    let out = coop(&[&["run", "placement", GEMM], &spec[..], &on].concat());
    assert_eq!(status(&out), 0, "{}", stderr(&out));
    let text = stdout(&out);
    for name in ["f16 8x8 A: 8 invocations", "f16 8x16 B: 8 invocations", "f32 8x16 Accumulator: 8 invocations"] {
        assert!(text.contains(name), "{text}");
    }
    for (matrix, message) in [
        ("f16:16:A", "'16' is not a size"),
        ("x16:16x16:A", "there is no component type 'x16'"),
        ("f16:16x16:D", "the use is A, B or Accumulator"),
        ("s8:129x4:A", "129x4: s8 has numbers for 128 rows and columns"),
        ("f16:4096x4096:A", "is not a size of 1 to 16384 elements"),
    ] {
        let out = coop(&["run", "placement", "--matrix", matrix]);
        assert!(status(&out) == 2 && stderr(&out).contains(message), "{matrix}: {}", stderr(&out));
    }
}

/// A device and what is lowered for it are asked the same.
#[test]
fn a_device_says_where_elements_are() {
    if std::env::var_os("COOP_REQUIRE_VULKAN").is_none() && std::env::var_os("COOP_RUNNER").is_none() {
        eprintln!("no driver");
        return;
    }
    for lower in [&[][..], &["--lower", "scalar"]] {
        let arguments = ["run", "placement", "--matrix", "f16:8x8:A", "--matrix", "f32:8x8:C", "--json"];
        let out = coop(&[&arguments[..], lower].concat());
        assert_eq!(status(&out), 0, "{}", stderr(&out));
        assert_eq!(stdout(&out).lines().count(), 2);
        for line in stdout(&out).lines() {
            let json: serde_json::Value = serde_json::from_str(line).expect("JSON");
            let rows = json["elements"].as_array().expect("rows");
            assert!(
                rows.iter()
                    .flat_map(|row| row.as_array().expect("a row"))
                    .all(|h| !h.as_array().expect("holders").is_empty())
            );
        }
    }
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

/// Divergent blocks have their color in both formats, with the lines of source.
#[test]
fn the_graph_shows_who_executes_what() {
    let folder = folder("graph");
    if spirv_tool("glslang").is_none() {
        return;
    }
    let shader = "testdata/cli/divergent.comp";
    let draw = |name: &str, more: &[&str]| {
        let to = folder.join(name);
        let out = coop(&[&["check", "--no-config", "--graph", &to.to_string_lossy(), shader], more].concat());
        assert_eq!(status(&out), 0, "{}", stderr(&out));
        std::fs::read_to_string(&to).expect("it was written")
    };
    let dot = draw("flow.dot", &[]);
    let block =
        |place: &str| dot.lines().find(|l| l.contains(place) && l.contains("fillcolor")).expect("a block").to_owned();
    // The loads inside of the branch on the invocation's index, and what comes after the loop.
    let inside = block("divergent.comp:27-29");
    assert!(inside.contains("#f7c6b5") && inside.contains("! %"), "{inside}");
    assert!(inside.contains("OpCooperativeMatrixMulAddKHR"), "{inside}");
    let after = block("divergent.comp:32-33");
    assert!(after.contains("#cdebc8") && after.contains("OpCooperativeMatrixStoreKHR"), "{after}");
    let branch = block("divergent.comp:19-26");
    assert!(branch.contains("[invocation]"), "{branch}");
    assert_eq!(dot.matches("style=dashed").count(), 1, "one loop: {dot}");
    let svg = draw("flow.svg", &["--subgroup-size", "32"]);
    assert_eq!(svg.matches("executed together by each invocation").count(), 1, "{svg}");
    assert!(svg.contains("divergent.comp:27-29") && svg.contains("Subgroups are of 32 invocations"), "{svg}");
    assert!(svg.ends_with("</svg>\n"));
    for (arguments, message) in [
        (&["--graph", "x.svg", GEMM, MISMATCH][..], "--graph draws one file, not 2"),
        (&["--graph", "x.svg", "--entry", "none", GEMM], "the module has no such entry point, only 'main'"),
        (&["--graph", "x.svg", "-"], "--graph reads its file twice"),
    ] {
        let out = coop(&[&["check", "--no-config"], arguments].concat());
        assert!(status(&out) == 2 && stderr(&out).contains(message), "{arguments:?}: {}", stderr(&out));
    }
}
