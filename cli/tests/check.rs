//! `coopcheck`: how findings look, what the command line does, and whether the page of rules is current.
//!
//! Snapshots of findings stand next to the modules in `testdata/validate`, those of the command line in
//! `testdata/cli/check`. `INSTA_UPDATE=always cargo test` rewrites them.

use coop_cli::render::{self, Renderer};
use coop_validate::testing::cases;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn snapshot(folder: &Path, name: &str, text: &str) {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(folder);
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(name, text));
}

#[test]
fn findings_as_people_see_them() {
    for case in cases(&root().join("testdata/validate")) {
        if case.expected.is_empty() {
            continue;
        }
        let report = coop_validate::check(&case.module, &case.options);
        let name = format!("{}.spv", case.name());
        let text = render::human(Renderer::new(&case.module, &name, false, render::WIDTH), &report);
        let folder = case.path.parent().expect("files lie in folders");
        snapshot(&folder.canonicalize().expect("it exists"), case.name(), &text);
    }
}

/// Every snapshot belongs to a module.
#[test]
fn no_orphans() {
    let mut folders = vec![root().join("testdata/validate")];
    let mut seen = 0;
    while let Some(folder) = folders.pop() {
        for path in std::fs::read_dir(&folder).expect("a folder").map(|e| e.expect("an entry").path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "snap") {
                assert!(path.with_extension("spvasm").exists(), "{} belongs to no module", path.display());
                seen += 1;
            } else {
                let known =
                    path.extension().is_some_and(|e| e == "spvasm" || e == "json") || path.ends_with("README.md");
                assert!(known, "{} does not belong here", path.display());
            }
        }
    }
    assert!(seen > 0, "no snapshots");
}

#[test]
fn the_page_of_rules_is_current() {
    let path = root().join("docs/rules.md");
    let page = std::fs::read_to_string(&path).unwrap_or_default();
    let wanted = coop_cli::check::markdown();
    if std::env::var_os("INSTA_UPDATE").is_some_and(|v| v == "always") {
        std::fs::write(&path, &wanted).expect("writable");
        return;
    }
    assert!(page == wanted, "docs/rules.md is stale: `coopcheck rules --format md > docs/rules.md`");
}

/// Runs `coopcheck` in the repository's root; status, output and messages as one text.
fn coopcheck(args: &[&str], stdin: &[u8]) -> String {
    let mut child = Command::new(env!("CARGO_BIN_EXE_coopcheck"))
        .args(args)
        .current_dir(root())
        .env_remove("NO_COLOR")
        .env_remove("RUST_BACKTRACE")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    // It may end without reading its input.
    let _ = child.stdin.take().expect("piped").write_all(stdin);
    let out = child.wait_with_output().expect("it ends");
    let status = out.status.code().map_or("killed".to_owned(), |c| c.to_string());
    let text = |b: &[u8]| String::from_utf8_lossy(b).replace(scratch().to_str().expect("UTF-8"), "SCRATCH");
    format!(
        "coopcheck {}\nstatus: {status}\n--- stdout\n{}--- stderr\n{}",
        args.join(" ").replace(scratch().to_str().expect("UTF-8"), "SCRATCH"),
        text(&out.stdout),
        text(&out.stderr)
    )
}

fn scratch() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("check");
    std::fs::create_dir_all(&folder).expect("writable");
    folder
}

fn cli_snapshot(name: &str, args: &[&str]) {
    snapshot(&root().join("testdata/cli/check").canonicalize().expect("it exists"), name, &coopcheck(args, b""));
}

const K: &str = "testdata/validate/muladd/muladd-k-mismatch.spvasm";
const K_DEFAULT: &str = "testdata/validate/muladd/muladd-k-mismatch.default.spvasm";
const VALID: &str = "testdata/validate/valid/gemm.spvasm";

#[test]
fn formats() {
    cli_snapshot("human", &[K_DEFAULT]);
    cli_snapshot("short", &["--format", "short", K, VALID, K_DEFAULT]);
    cli_snapshot("json", &["--format", "json", K_DEFAULT, VALID]);
    cli_snapshot("quiet", &["-q", K, K_DEFAULT]);
    cli_snapshot("silent", &["-qq", K, K_DEFAULT]);
    cli_snapshot("verbose", &["-v", VALID, "testdata/validate/valid/no-matrices.spvasm"]);
}

/// Modules without matrices are answered at once, unless their barriers are asked for.
#[test]
fn barriers_without_matrices() {
    const BARRIER: &str = "testdata/cli/barrier-without-matrices.spvasm";
    cli_snapshot("barriers-not-asked-for", &["-v", BARRIER]);
    cli_snapshot("barriers", &["--barriers", BARRIER]);
    cli_snapshot("barriers-none", &["-v", "--barriers", "testdata/validate/valid/no-matrices.spvasm"]);
}

#[test]
fn levels() {
    cli_snapshot("deny", &["--format", "short", "--deny", "muladd-k-mismatch", K_DEFAULT]);
    cli_snapshot("deny-warnings", &["--format", "short", "--deny", "warnings", K_DEFAULT]);
    cli_snapshot("warn", &["--format", "short", "--warn", "muladd-k-mismatch", K]);
    cli_snapshot("allow", &["--allow", "muladd-k-mismatch", K]);
    cli_snapshot("unknown-rule", &["--allow", "muladd-k-missmatch", K]);
}

#[test]
fn specialisation() {
    cli_snapshot("spec-mends", &["--spec", "2=8", "--spec", "5=8", K_DEFAULT]);
    cli_snapshot("spec-breaks", &["--format", "short", "--spec", "2=4", "--spec", "5=8", K_DEFAULT]);
    cli_snapshot("spec-nobody-asks", &["--spec", "2=8", "--spec", "5=8", "--spec", "77=1", K_DEFAULT]);
    cli_snapshot("spec-does-not-fit", &["--spec", "2=0x100000000", K_DEFAULT]);
    cli_snapshot("spec-malformed", &["--spec", "two=8", K_DEFAULT]);
    let file = scratch().join("values");
    std::fs::write(&file, "# K\n2 = 8  # of A\n\n5 = 0x8\n").expect("writable");
    cli_snapshot("spec-file", &["--spec-file", file.to_str().expect("UTF-8"), K_DEFAULT]);
    std::fs::write(&file, "2=8\n5\n").expect("writable");
    cli_snapshot("spec-file-malformed", &["--spec-file", file.to_str().expect("UTF-8"), K_DEFAULT]);
}

#[test]
fn catalogue() {
    cli_snapshot("explain", &["explain", "muladd-k-mismatch"]);
    cli_snapshot("explain-vuid", &["explain", "VUID-StandaloneSpirv-Pointer-08973"]);
    cli_snapshot("explain-digest", &["explain", "khr.type-not-undef"]);
    cli_snapshot("explain-run", &["explain", "run-misaligned"]);
    cli_snapshot("explain-both", &["explain", "nv2.lt-base-align16"]);
    cli_snapshot("explain-elsewhere", &["explain", "vkapi.q2-scope"]);
    cli_snapshot("explain-unknown", &["explain", "muladd-k-missmatch"]);
    cli_snapshot("rules", &["rules"]);
    cli_snapshot("help", &["--help"]);
    cli_snapshot("version", &["--version"]);
    cli_snapshot("no-arguments", &[]);
}

#[test]
fn devices() {
    const GEMM: &str = "testdata/kernels/gemm_simple.spv";
    let sizes = ["--spec", "0=8", "--spec", "1=8", "--spec", "2=8", "--spec", "3=32"];
    let with = |rest: &[&'static str]| -> Vec<&'static str> { rest.iter().copied().chain(sizes).collect() };
    // One that takes it, and one that has no matrices at all: what a lowering to matrices can do is not for here.
    const TWO: [&str; 4] = ["--profile", "mesa-lavapipe", "--profile", "mesa-lavapipe-debian12"];
    cli_snapshot("devices", &with(&["devices", TWO[0], TWO[1], TWO[2], TWO[3], GEMM]));
    cli_snapshot("devices-json", &with(&["devices", "--format", "json", TWO[2], TWO[3], GEMM]));
    // Slower by so much, with the types that it lacks in software.
    let sizes = ["--spec", "0=8", "--spec", "1=8", "--spec", "2=8", "--spec", "3=4"];
    let said = coopcheck(&[&["devices", "--profile", "google-swiftshader", GEMM][..], &sizes].concat(), b"");
    assert!(said.contains("with f16, memory of narrow types in software: slower by about "), "{said}");
    // A workgroup of 32 on a device with subgroups of 64.
    let sizes = ["--spec", "0=16", "--spec", "1=16", "--spec", "2=16", "--spec", "3=32"];
    let said = coopcheck(&[&["devices", "--profile", "adreno-630", GEMM][..], &sizes].concat(), b"");
    assert!(said.contains("runs after `cooplower --target scalar --lanes local-index`, with memory"), "{said}");
    cli_snapshot("devices-undecided", &["devices", "--profile", "mesa-lavapipe", GEMM]);
    cli_snapshot("devices-broken", &["devices", "--profile", "mesa-lavapipe", K]);
    // What profiles don't know, in either format.
    const RAYS: &str = "testdata/validate/device/device-not-judged.spvasm";
    cli_snapshot("devices-not-judged", &["devices", RAYS]);
    let one = ["devices", "--format", "json", "--profile", "nvidia-h100", "--profile", "intel-opencl-gpu"];
    cli_snapshot("devices-not-judged-json", &[&one[..], &[RAYS, "testdata/kernels/gemm_i8.spv"]].concat());
    // Subgroups of 64 do not divide the workgroup, those of 32 do.
    const HALF: &str = "testdata/cli/half-a-subgroup.spvasm";
    cli_snapshot("devices-required", &["devices", "--profile", "amd-rdna3", "--profile", "nvidia-h100", HALF]);
    cli_snapshot("devices-required-json", &["devices", "--format", "json", "--profile", "amd-rdna3", HALF]);
    // A kernel of OpenCL.
    const KERNEL: &str = "testdata/validate/valid/kernel.spvasm";
    cli_snapshot("devices-kernel", &["devices", "--profile", "intel-opencl-gpu", "--profile", "nvidia-h100", KERNEL]);
    cli_snapshot("profile", &with(&["--format", "short", "--profile", "nvidia-h100", GEMM]));
    cli_snapshot("profile-file", &["--format", "short", "--profile", "testdata/validate/device/small.json", VALID]);
    cli_snapshot("profile-unknown", &["--profile", "no-such-device", GEMM]);
    cli_snapshot("entry-unknown", &["--profile", "nvidia-h100", "--entry", "other", GEMM]);
    cli_snapshot("list-profiles", &["--list-profiles"]);
}

#[test]
fn what_can_not_be_read() {
    let file = |name: &str, bytes: &[u8]| {
        let path = scratch().join(name);
        std::fs::write(&path, bytes).expect("writable");
        path.to_str().expect("UTF-8").to_owned()
    };
    let kernel = std::fs::read(root().join("testdata/kernels/gemm_simple.spv")).expect("readable");
    let mut no_length = kernel.clone();
    no_length[20..24].fill(0);
    let folder = scratch().join("folder");
    std::fs::create_dir_all(&folder).expect("writable");

    cli_snapshot("bad-missing", &["testdata/no-such-file.spv"]);
    cli_snapshot("bad-folder", &[folder.to_str().expect("UTF-8")]);
    cli_snapshot("bad-empty", &[&file("empty.spv", b"")]);
    cli_snapshot("bad-zeros", &[&file("zeros.spv", &[0; 1 << 20])]);
    cli_snapshot("bad-magic", &[&file("elf.spv", b"\x7fELF\x02\x01\x01")]);
    cli_snapshot("bad-truncated", &[&file("truncated.spv", &kernel[..kernel.len() / 2 / 4 * 4])]);
    cli_snapshot("bad-size", &[&file("size.spv", &kernel[..kernel.len() - 1])]);
    cli_snapshot("bad-length", &[&file("length.spv", &no_length)]);
    cli_snapshot("bad-text", &[&file("source.txt", b"#version 450\nvoid main() {}\n")]);
    let undefined =
        b"%void = OpTypeVoid\n%f = OpTypeFunction %void\n%main = OpFunction %void None %g\n%entry = OpLabel\n\
                      OpReturn\nOpFunctionEnd\n";
    cli_snapshot("bad-undefined", &[&file("undefined.spvasm", undefined)]);
    let cyclic = b"%a = OpTypeStruct %b\n%b = OpTypeStruct %a\n%c = OpTypeVector %c 4\n";
    cli_snapshot("bad-cyclic", &["--format", "json", &file("cyclic.spvasm", cyclic)]);
    cli_snapshot("bad-among-good", &["--format", "json", VALID, "testdata/no-such-file.spv", K]);
    cli_snapshot("bad-option", &["--no-such-option", K]);
}

/// Modules in the cache and of ours, with matrices and without, cut and damaged: each at its own place.
fn damaged() -> Vec<Vec<u8>> {
    let read = |name: &str| std::fs::read(root().join("testdata/kernels").join(name)).expect("readable");
    let with = ["gemm_simple.spv", "gemm_simple.opt.spv", "elementwise_float.spv", "functions.spv"].map(read);
    // Without matrices: what the lowering makes of one, and one that never had any.
    let lowered = || {
        let module = coop_ir::binary::read(&read("gemm_simple.spv")).expect("a module");
        let mut how = coop_passes::Options::new(coop_passes::Target::Scalar);
        how.subgroup_size = Some(32);
        how.spec_defaults = true;
        coop_ir::binary::write(&coop_passes::lower(&module, &how).expect("it is lowered").module)
    };
    let assembled = |name: &str| {
        let text = std::fs::read_to_string(root().join(name)).expect("readable");
        coop_ir::binary::write(&coop_ir::text::parse(&text).expect("a module"))
    };
    let mut out = vec![with[0][..20].to_vec()];
    let mut state = 0x9e37_79b9u32;
    let mut below = |n: usize| {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state as usize % n
    };
    let others = [lowered(), assembled("testdata/cli/barrier-without-matrices.spvasm"), assembled(K)];
    for module in with.into_iter().chain(others) {
        let starts = instruction_starts(&module);
        for i in 0..12 {
            let at = starts[below(starts.len())];
            let mut bytes = module.clone();
            match i % 4 {
                // Cut in front of an instruction, ...
                0 | 1 => bytes.truncate(at),
                // ... without an instruction, ...
                2 => drop(bytes.drain(at..at + 4 * usize::from(u16::from_le_bytes([module[at + 2], module[at + 3]])))),
                // ... or with another word.
                _ => {
                    let word = 20 + 4 * below(module.len() / 4 - 5);
                    bytes[word..word + 4].copy_from_slice(&(below(64) as u32).to_le_bytes());
                }
            }
            out.push(bytes);
        }
        out.push(module);
    }
    out
}

fn instruction_starts(module: &[u8]) -> Vec<usize> {
    let mut starts = vec![20];
    while let Some(at) = starts.last().copied().filter(|at| at + 4 <= module.len()) {
        starts.push(at + 4 * usize::from(u16::from_le_bytes([module[at + 2], module[at + 3]])));
    }
    starts.pop();
    starts
}

/// Verbosity and format change neither the exit status nor the errors.
#[test]
fn verbosity_changes_no_status() {
    let path = scratch().join("damaged.spv");
    let name = path.to_str().expect("UTF-8");
    let (mut statuses, mut silent) = ([0; 3], 0);
    for (n, bytes) in damaged().into_iter().enumerate() {
        std::fs::write(&path, &bytes).expect("writable");
        let run = |args: &[&str]| {
            let out = Command::new(env!("CARGO_BIN_EXE_coopcheck")).args(args).arg(&path).output().expect("it runs");
            let text = |b: &[u8]| String::from_utf8_lossy(b).into_owned();
            let found: Vec<String> = text(&out.stdout).lines().map(str::to_owned).collect();
            let errors: Vec<String> =
                text(&out.stderr).lines().filter(|l| l.starts_with("error")).map(str::to_owned).collect();
            (out.status.code().expect("it ends"), found, errors)
        };
        let is_error = |l: &String| l.contains(": error[");
        let (status, found, errors) = run(&["--format", "short"]);
        assert_eq!(run(&["--format", "short", "-v"]), (status, found.clone(), errors.clone()), "{n}");
        let found_errors: Vec<&String> = found.iter().filter(|l| is_error(l)).collect();
        let (s, f, e) = run(&["--format", "short", "-q"]);
        assert_eq!((s, &e), (status, &errors), "{n}");
        assert_eq!(f.iter().filter(|l| is_error(l)).collect::<Vec<_>>(), found_errors, "{n}");
        for args in [&["-qq"][..], &["--format", "human", "-vv"], &["--format", "json"]] {
            let (s, _, e) = run(args);
            assert_eq!((s, e), (status, errors.clone()), "{n}: {args:?}");
        }
        statuses[usize::try_from(status).expect("a status")] += 1;
        silent += usize::from(found.is_empty() && errors.is_empty());
        assert!(found.iter().chain(&errors).all(|l| l.contains(name)), "{n}: {found:?} {errors:?}");
    }
    assert!(statuses.iter().all(|n| *n > 0) && silent > 5, "{statuses:?}, {silent} without a word");
}

#[test]
fn standard_input_takes_words_and_text() {
    let text = std::fs::read(root().join(K)).expect("readable");
    let module = coop_ir::text::parse(&String::from_utf8(text.clone()).expect("UTF-8")).expect("a module");
    let words = coop_ir::binary::write(&module);
    let mut big: Vec<u8> = words.clone();
    big.chunks_exact_mut(4).for_each(|w| w.reverse());
    for input in [text, words, big] {
        let out = coopcheck(&["--format", "short", "-"], &input);
        assert!(out.contains("status: 1\n"), "{out}");
        assert!(out.contains("stdin:29: error[muladd-k-mismatch]: K of A (16) differs from K of B (8)\n"), "{out}");
    }
}

/// Files are reported in the order in which they were given, however many threads work.
#[test]
fn many_files_in_order() {
    let mut files: Vec<PathBuf> =
        cases(&root().join("testdata/validate")).into_iter().map(|c| c.path).cycle().take(300).collect();
    files.reverse();
    let args: Vec<&str> = ["--format", "json"].into_iter().chain(files.iter().filter_map(|p| p.to_str())).collect();
    let out = coopcheck(&args, b"");
    let reported: Vec<String> = out
        .lines()
        .filter(|l| l.starts_with('{'))
        .map(|l| {
            serde_json::from_str::<serde_json::Value>(l).expect("JSON")["file"].as_str().expect("a name").to_owned()
        })
        .collect();
    let given: Vec<String> = files.iter().map(|p| p.display().to_string()).collect();
    assert_eq!(reported, given);
}

/// Modules with debug information show the lines of the shader; here the factors are exchanged.
#[test]
fn the_line_in_the_shader() {
    for (kernel, name) in [("gemm_simple.debug", "shader-debug-info"), ("gemm_simple.line", "shader-lines")] {
        let bytes = std::fs::read(root().join(format!("testdata/kernels/{kernel}.spv"))).expect("readable");
        let mut module = coop_ir::binary::read(&bytes).expect("a module");
        let is_muladd = |r: &coop_ir::InstRef| module.inst(*r).op == coop_ir::Op::CooperativeMatrixMulAddKHR;
        let muladd = module.all().find(is_muladd).expect("it multiplies");
        module.inst_mut(muladd).operands.swap(0, 1);
        let report = coop_validate::check(&module, &coop_validate::Options::default());
        let text = render::human(Renderer::new(&module, "gemm.spv", false, render::WIDTH), &report);
        let json = coop_cli::json::report(&module, "gemm.spv", &report);
        let source = serde_json::to_string_pretty(&json["findings"][0]["source"]).expect("JSON");
        snapshot(
            &root().join("testdata/cli/check").canonicalize().expect("it exists"),
            name,
            &format!("{text}{source}\n"),
        );
    }
}

/// Compares the JSON of a shader's findings without offsets in its module: the module has the compiler's command line
/// and folder as debug information, and their lengths differ.
fn json_of_a_source(shader: &str) {
    let out = coopcheck(&["--format", "json", shader], b"");
    let mut parts = out.split("\"word_offset\":");
    let mut text = parts.next().expect("there is a first part").to_owned();
    for part in parts {
        let rest = part.trim_start_matches(|c: char| c.is_ascii_digit());
        assert_ne!(rest, part, "an offset is a number");
        text += &format!("\"word_offset\":N{rest}");
    }
    snapshot(&root().join("testdata/cli/check").canonicalize().expect("it exists"), "source-json", &text);
}

/// A shader's source is input too: findings are in it, in every format, and each takes at most 15 lines.
#[test]
fn sources_are_compiled() {
    const SHADER: &str = "testdata/cli/divergent.comp";
    if Command::new("glslang").arg("--version").output().is_err() {
        let missing = "no glslang: run scripts/drivers.sh first";
        assert!(std::env::var_os("COOP_REQUIRE_TOOLS").is_none(), "{missing}");
        let _ = writeln!(std::io::stderr(), "SKIPPED, {missing}");
        return;
    }
    cli_snapshot("source", &[SHADER]);
    cli_snapshot("source-far", &[SHADER, "--", "-DFAR"]);
    cli_snapshot("source-verbose", &["-v", SHADER]);
    cli_snapshot("source-short", &["--format", "short", SHADER]);
    cli_snapshot("source-github", &["--format", "github", SHADER, K]);
    json_of_a_source(SHADER);
    cli_snapshot("source-allowed", &["--deny", "warnings", "testdata/cli/allowed.comp"]);
    cli_snapshot("source-compiler-error", &[SHADER, "--", "-DroundS=1", "-Dfactors=1"]);
    for arguments in [&[SHADER][..], &[SHADER, "--", "-DFAR"]] {
        let out = coopcheck(arguments, b"");
        let drawn = out.lines().skip_while(|l| !l.starts_with("warning[")).take_while(|l| !l.starts_with("--- "));
        let drawn: Vec<&str> = drawn.filter(|l| !l.trim().is_empty() || l.contains('│')).collect();
        assert!((8..=15).contains(&drawn.len()), "{out}");
        if arguments == [SHADER] {
            let readme = std::fs::read_to_string(root().join("README.md")).expect("readable");
            let missing = drawn.iter().find(|line| !readme.contains(&format!("    {line}\n")));
            assert_eq!(missing, None, "README.md shows other output");
        }
    }
}

/// Without its compiler a source is an error that names what is missing; nothing is left behind.
#[test]
fn sources_need_a_compiler() {
    const SHADER: &str = "testdata/cli/divergent.comp";
    cli_snapshot("source-no-compiler", &["--compiler", "no-such-compiler", SHADER]);
    cli_snapshot("source-missing", &["testdata/cli/no-such-shader.comp"]);
}

/// A module without debug information says once how findings come to be shown in the source.
#[test]
fn debug_information_is_asked_for() {
    let bytes = std::fs::read(root().join("testdata/kernels/gemm_simple.spv")).expect("readable");
    let mut module = coop_ir::binary::read(&bytes).expect("a module");
    let is_muladd = |r: &coop_ir::InstRef| module.inst(*r).op == coop_ir::Op::CooperativeMatrixMulAddKHR;
    let muladd = module.all().find(is_muladd).expect("it multiplies");
    module.inst_mut(muladd).operands.swap(0, 1);
    let path = scratch().join("no-debug-information.spv");
    std::fs::write(&path, coop_ir::binary::write(&module)).expect("writable");
    let path = path.to_str().expect("UTF-8");
    let out = coopcheck(&[path, path], b"");
    assert_eq!(out.matches("and 1 more have no debug information; with `glslang -gVS`").count(), 1, "{out}");
    for quiet in [&["-q", path][..], &["--format", "short", path]] {
        assert!(!coopcheck(quiet, b"").contains("debug information"), "{quiet:?}");
    }
}

/// The kinds of findings of a run are in the catalogue, by name.
#[test]
fn the_catalogue_has_what_a_run_reports() {
    use coop_exec::interp::FindingKind::*;
    let kinds = [
        DataRace,
        InfiniteLoop,
        MatrixSize,
        Misaligned,
        NonUniformExecution,
        NonUniformOperand,
        OutOfBounds,
        Placement,
        Portability,
        Undefined,
        Uninitialised,
        Unreachable,
    ];
    let reported: Vec<String> = kinds.iter().map(|k| format!("run-{k}")).collect();
    let listed: Vec<&str> = coop_validate::dynamic::DYNAMIC.iter().map(|d| d.id).collect();
    assert_eq!(listed, reported);
}
