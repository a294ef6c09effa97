//! Mistakes of shader authors, in GLSL: each is found in the line that has it.
//!
//! A shader of `testdata/cli/mistakes` says what is found behind its lines, `// finds: RULE`, and with which options, `// options: ...`. With
//! a case of its name beside it, it is run as well.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The most lines of a finding.
const MOST_LINES: usize = 15;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata/cli/mistakes")
}

/// Returns false where there is no glslang, which is a failure where tools are demanded.
fn has_compiler() -> bool {
    let there = Command::new("glslang").arg("--version").output().is_ok();
    assert!(there || std::env::var_os("COOP_REQUIRE_TOOLS").is_none(), "glslang is not there");
    there
}

fn coopcheck(file: &str, options: &[String]) -> Output {
    let mut command = match std::env::var_os("COOP_RUNNER") {
        Some(runner) => {
            let mut command = Command::new(runner);
            command.arg(env!("CARGO_BIN_EXE_coopcheck"));
            command
        }
        None => Command::new(env!("CARGO_BIN_EXE_coopcheck")),
    };
    command.env("NO_COLOR", "1").current_dir(folder()).arg("--no-config").args(options).arg(file);
    command.output().expect("coopcheck runs")
}

/// Reads the comments of a shader: options, and rules by their lines.
fn said(source: &str, case: &Path) -> (Vec<String>, BTreeSet<(usize, String)>) {
    let options = source.lines().find_map(|line| line.strip_prefix("// options: ")).unwrap_or_default();
    let mut options: Vec<String> = options.split_whitespace().map(str::to_owned).collect();
    if case.exists() {
        options.extend(["--run".to_owned(), case.to_string_lossy().into_owned()]);
    }
    let finds = |(at, line): (usize, &str)| Some((at + 1, line.split_once("// finds: ")?.1.to_owned()));
    (options, source.lines().enumerate().filter_map(finds).collect())
}

#[test]
fn mistakes_are_found_where_they_are() {
    if !has_compiler() {
        return;
    }
    let mut shaders: Vec<PathBuf> =
        std::fs::read_dir(folder()).expect("a folder").map(|e| e.expect("an entry").path()).collect();
    shaders.retain(|path| path.extension().is_some_and(|e| e == "comp"));
    shaders.sort();
    assert!(shaders.len() > 10, "{} shaders", shaders.len());
    for path in &shaders {
        let file = path.file_name().expect("a name").to_string_lossy();
        let source = std::fs::read_to_string(path).expect("a shader");
        let (options, wanted) = said(&source, &path.with_extension("toml"));
        if wanted.is_empty() {
            continue;
        }
        let short = [&["--format".to_owned(), "short".to_owned()], &options[..]].concat();
        let out = coopcheck(&file, &short);
        let text = String::from_utf8_lossy(&out.stdout);
        // "FILE:LINE:COLUMN: LEVEL[RULE]: MESSAGE"
        let found = |line: &str| {
            let at = line.strip_prefix(&*file)?.strip_prefix(':')?.split(':').next()?.parse().ok()?;
            Some((at, line.split_once('[')?.1.split_once(']')?.0.to_owned()))
        };
        let found: BTreeSet<(usize, String)> = text.lines().filter_map(found).collect();
        assert!(
            wanted.is_subset(&found),
            "{file}: {wanted:?} is not in {found:?}\n{text}{}",
            String::from_utf8_lossy(&out.stderr)
        );
        let out = coopcheck(&file, &options);
        let text = String::from_utf8_lossy(&out.stdout);
        // A finding begins with a line that is not indented.
        let mut lines = 0;
        for line in text.lines() {
            lines = if line.starts_with(|c: char| c.is_ascii_lowercase()) {
                1
            } else {
                lines + usize::from(!line.is_empty())
            };
            assert!(lines <= MOST_LINES, "{file}: a finding of more than {MOST_LINES} lines\n{text}");
        }
        assert!(text.contains(&*file), "{file}: no line of the shader\n{text}");
    }
}

#[test]
fn what_the_compiler_finds_is_told_as_it_says_it() {
    if !has_compiler() {
        return;
    }
    let out = coopcheck("k_mismatch.comp", &[]);
    let said = String::from_utf8_lossy(&out.stderr);
    let source = std::fs::read_to_string(folder().join("k_mismatch.comp")).expect("a shader");
    let line = source.lines().position(|line| line.contains("coopMatMulAdd")).expect("a product") + 1;
    assert_eq!(out.status.code(), Some(2), "{said}");
    assert!(said.contains(&format!("ERROR: k_mismatch.comp:{line}: 'ma' : cannot multiply coop matrices")), "{said}");
}
