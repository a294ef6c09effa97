//! Shaders in HLSL, compiled by dxc: what is found, and that what it makes is lowered right.
//!
//! A shader of `testdata/cli/hlsl` says what is found, `// finds: RULE`, behind a line or alone for what has no line, and with which
//! arguments of dxc, `// arguments: ...`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The most lines of a finding.
const MOST_LINES: usize = 15;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata/cli/hlsl")
}

/// Returns false where there is no dxc, which is a failure where tools are demanded.
fn has_compiler() -> bool {
    let there = Command::new("dxc").output().is_ok();
    assert!(there || std::env::var_os("COOP_REQUIRE_TOOLS").is_none(), "no dxc: scripts/drivers.sh dxc fetches it");
    there
}

/// Runs one of the tools in a folder.
fn run(folder: &Path, tool: &str, arguments: &[&str]) -> Output {
    let mut command = match std::env::var_os("COOP_RUNNER") {
        Some(runner) => {
            let mut command = Command::new(runner);
            command.arg(tool);
            command
        }
        None => Command::new(tool),
    };
    command.env("NO_COLOR", "1").current_dir(folder).args(arguments).output().expect("the tool runs")
}

/// Checks a shader with options of coopcheck and arguments of the compiler.
fn coopcheck(file: &str, options: &[&str], arguments: &[&str]) -> Output {
    let all = [&["--no-config"], options, &[file, "--"], arguments].concat();
    run(&folder(), env!("CARGO_BIN_EXE_coopcheck"), &all)
}

fn text(out: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr))
}

/// The arguments that a shader names.
fn arguments(source: &str) -> Vec<&str> {
    source.lines().find_map(|line| line.strip_prefix("// arguments: ")).unwrap_or_default().split_whitespace().collect()
}

/// A finding: its line, if it has one, and the rule.
type Found = (Option<usize>, String);

/// The findings that a shader's comments name.
fn wanted(source: &str) -> BTreeSet<Found> {
    let finds = |(at, line): (usize, &str)| {
        let (code, rule) = line.split_once("// finds: ")?;
        Some(((!code.is_empty()).then_some(at + 1), rule.to_owned()))
    };
    source.lines().enumerate().filter_map(finds).collect()
}

#[test]
fn findings_are_on_the_lines_of_shaders() {
    if !has_compiler() {
        return;
    }
    for file in ["product.hlsl", "divergent.hlsl", "khr.hlsl", "reduce.hlsl"] {
        let source = std::fs::read_to_string(folder().join(file)).expect("a shader");
        let (arguments, wanted) = (arguments(&source), wanted(&source));
        let out = coopcheck(file, &["--format", "short"], &arguments);
        // "FILE:LINE:COLUMN: LEVEL[RULE]: MESSAGE", or without a line "FILE: LEVEL[RULE]: MESSAGE".
        let found = |line: &str| {
            let at = line.strip_prefix(file)?.strip_prefix(':')?.split(':').next()?.parse().ok();
            Some((at, line.split_once('[')?.1.split_once(']')?.0.to_owned()))
        };
        let found: BTreeSet<Found> = String::from_utf8_lossy(&out.stdout).lines().filter_map(found).collect();
        assert_eq!(found, wanted, "{file}: {}", text(&out));
        let errors = text(&out).contains(" error[");
        assert_eq!(out.status.code(), Some(i32::from(errors)), "{file}: {}", text(&out));
        let shown = text(&coopcheck(file, &[], &arguments));
        for (line, rule) in &wanted {
            let start = shown.find(&format!("[{rule}]")).unwrap_or_else(|| panic!("{file}: no {rule}\n{shown}"));
            let finding = shown[start..].split("\n\n").skip(1).take(1).collect::<String>();
            assert!(finding.lines().count() < MOST_LINES, "{file}: {rule} takes more than {MOST_LINES} lines\n{shown}");
            if let Some(code) = line.and_then(|line| source.lines().nth(line - 1)) {
                let marked = format!(" {line} │ {code}\n", line = line.unwrap_or_default());
                assert!(finding.contains(&marked), "{file}: {marked} is not shown\n{shown}");
            }
        }
    }
}

/// A comment in a source that the module names, and does not hold, allows findings too.
#[test]
fn comments_allow_findings() {
    if !has_compiler() {
        return;
    }
    let copy = Path::new(env!("CARGO_TARGET_TMPDIR")).join("hlsl-allowed");
    std::fs::create_dir_all(&copy).expect("writable");
    std::fs::copy(folder().join("matrix.hlsli"), copy.join("matrix.hlsli")).expect("writable");
    let source = std::fs::read_to_string(folder().join("divergent.hlsl")).expect("a shader");
    let allowed =
        source.replace("// finds: uniformity-flow", "// coopcheck: allow(uniformity-flow) sums are all alike");
    let file = copy.join("divergent.hlsl");
    std::fs::write(&file, &allowed).expect("writable");
    let out = coopcheck(file.to_str().expect("UTF-8"), &[], &arguments(&source));
    assert_eq!((out.status.code(), text(&out).as_str()), (Some(0), ""));
}

/// Each language has a compiler, and arguments that the others do not know.
#[test]
fn a_project_has_compilers_by_language() {
    if !has_compiler() || Command::new("glslang").arg("--version").output().is_err() {
        return;
    }
    let project = Path::new(env!("CARGO_TARGET_TMPDIR")).join("hlsl-project");
    std::fs::create_dir_all(&project).expect("writable");
    for name in ["hlsl/matrix.hlsli", "hlsl/divergent.hlsl", "divergent.comp"] {
        let from = folder().join("..").join(name);
        std::fs::copy(&from, project.join(from.file_name().expect("a name"))).expect("writable");
    }
    let written = "files = [\"*.comp\", \"*.hlsl\"]\ncompiler-arguments = [\"-DANY\"]\n\
                   [glsl]\ncompiler-arguments = [\"--auto-map-bindings\"]\n\
                   [hlsl]\ncompiler = \"dxc\"\ncompiler-arguments = [\"-DNV\", \"-fspv-debug=line\"]\n";
    std::fs::write(project.join("coopcheck.toml"), written).expect("writable");
    let out = run(&project, env!("CARGO_BIN_EXE_coopcheck"), &["--format", "short"]);
    let said = text(&out);
    assert_eq!(out.status.code(), Some(0), "{said}");
    for place in ["divergent.comp:27:13: warning[uniformity-flow]", "divergent.hlsl:12:36: warning[uniformity-flow]"] {
        assert!(said.contains(place), "{place}: {said}");
    }
    std::fs::write(project.join("coopcheck.toml"), written.replace("[hlsl]", "[glsl.more]")).expect("writable");
    let out = run(&project, env!("CARGO_BIN_EXE_coopcheck"), &[]);
    assert!(out.status.code() == Some(2) && text(&out).contains("unknown field `more`"), "{}", text(&out));
}

#[test]
fn devices_take_sources() {
    if !has_compiler() {
        return;
    }
    let asked = ["devices", "--profile", "mesa-lavapipe", "reduce.hlsl", "--", "-HV", "2021"];
    let out = run(&folder(), env!("CARGO_BIN_EXE_coopcheck"), &asked);
    assert!(out.status.success() && text(&out).contains("mesa-lavapipe  runs as it is"), "{}", text(&out));
}

#[test]
fn errors_are_told_as_dxc_says_them() {
    if !has_compiler() {
        return;
    }
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("syntax.hlsl");
    let shader = "RWStructuredBuffer<float> sums;\n[numthreads(32, 1, 1)]\nvoid main() { sums[0] = undeclared; }\n";
    std::fs::write(&file, shader).expect("writable");
    let name = file.to_str().expect("UTF-8");
    let out = coopcheck(name, &[], &[]);
    let said = text(&out);
    assert_eq!(out.status.code(), Some(2), "{said}");
    assert!(said.contains(&format!("{name}:3:25: error: use of undeclared identifier 'undeclared'")), "{said}");
    let out = coopcheck(name, &[], &["-no-such-argument"]);
    assert!(out.status.code() == Some(2) && text(&out).contains("-no-such-argument"), "{}", text(&out));
}

/// dxc of 2022 crashes when it describes types by inline SPIR-V: it is called again, with less debug information.
#[test]
fn a_compiler_that_crashes_is_called_again() {
    if !has_compiler() {
        return;
    }
    let out = coopcheck("divergent.hlsl", &["--format", "short"], &["-DNV"]);
    let said = text(&out);
    assert!(out.status.success() && said.contains("divergent.hlsl:12:36: warning[uniformity-flow]"), "{said}");
}

/// A compiler that is ended by a signal says nothing itself.
#[test]
#[cfg(unix)]
fn a_compiler_that_crashes_is_said_to() {
    use std::os::unix::fs::PermissionsExt;
    let compiler = Path::new(env!("CARGO_TARGET_TMPDIR")).join("crashing");
    std::fs::create_dir_all(&compiler).expect("writable");
    let compiler = compiler.join("dxc");
    std::fs::write(&compiler, "#!/bin/sh\nkill -SEGV $$\n").expect("writable");
    std::fs::set_permissions(&compiler, std::fs::Permissions::from_mode(0o755)).expect("it is ours");
    let out = coopcheck("reduce.hlsl", &["--compiler", compiler.to_str().expect("UTF-8")], &[]);
    let said = text(&out);
    assert_eq!(out.status.code(), Some(2), "{said}");
    assert!(
        said.contains("makes no module of it, it ends with signal: 11") && said.contains("try another version"),
        "{said}"
    );
}

#[test]
fn what_dxc_makes_is_lowered() {
    if !has_compiler() {
        return;
    }
    let module = Path::new(env!("CARGO_TARGET_TMPDIR")).join("product-hlsl.spv");
    let module = module.to_str().expect("UTF-8");
    let compiled = Command::new("dxc")
        .args(["-spirv", "-T", "cs_6_6", "-fspv-target-env=vulkan1.3", "-DNV", "product.hlsl", "-Fo", module])
        .current_dir(folder())
        .output()
        .expect("dxc runs");
    assert!(compiled.status.success(), "{}", text(&compiled));
    let verify = ["verify", module, "--case", "product.toml", "--on", "interp"];
    let out = run(&folder(), env!("CARGO_BIN_EXE_cooprun"), &verify);
    assert!(out.status.success() && text(&out).contains("agrees with the original"), "{}", text(&out));
}
