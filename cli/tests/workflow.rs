//! The workflow in docs/coopcheck.md does what the page says: its steps are run here, as a runner would run them.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The scripts of the page's workflow, by the names of their steps.
fn step(name: &str) -> String {
    let page = include_str!("../../docs/coopcheck.md");
    let from = page.find(&format!("- name: {name}\n")).unwrap_or_else(|| panic!("no step `{name}`"));
    let (_, after) = page[from..].split_once("run:").expect("a step that runs something");
    let (first, rest) = after.split_once('\n').expect("a line");
    if first.trim() != "|" {
        return first.trim().to_owned();
    }
    let deep = |line: &str| line.len() - line.trim_start().len();
    let depth = deep(rest);
    rest.lines().take_while(|line| deep(line) >= depth).map(|line| format!("{}\n", &line[depth..])).collect()
}

/// A repository with this one shader, in a folder of its own. Without glslang it is `None`, or a failure if tools must be there.
fn repository(name: &str, shader: &str) -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("workflow-{name}"));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(folder.join("shaders")).expect("a folder");
    std::fs::write(folder.join("shaders/product.comp"), shader).expect("a shader");
    if Command::new("glslang").arg("--version").output().is_err() {
        assert!(
            std::env::var_os("COOP_REQUIRE_TOOLS").is_none(),
            "glslang is not there: scripts/drivers.sh fetches it"
        );
        eprintln!("SKIPPED: glslang is not there; scripts/drivers.sh fetches it");
        return None;
    }
    // The name that Ubuntu's package has it under.
    std::fs::create_dir(folder.join("bin")).expect("a folder");
    let wrapper = "#!/bin/sh\nexec glslang \"$@\"\n";
    std::fs::write(folder.join("bin/glslangValidator"), wrapper).expect("a program");
    let made = Command::new("chmod").arg("+x").arg(folder.join("bin/glslangValidator")).status();
    assert!(made.is_ok_and(|status| status.success()));
    Some(folder)
}

/// Runs a step as GitHub does: `bash -e`, in the checkout.
fn run(folder: &Path, script: &str) -> Output {
    let coopcheck = Path::new(env!("CARGO_BIN_EXE_coopcheck")).parent().expect("a folder");
    let path = std::env::var("PATH").expect("a path");
    Command::new("bash")
        .args(["--noprofile", "--norc", "-e", "-o", "pipefail", "-c", script])
        .current_dir(folder)
        .env("PATH", format!("{}:{}:{path}", folder.join("bin").display(), coopcheck.display()))
        .output()
        .expect("bash")
}

fn check(name: &str, shader: &str) -> Option<(Option<i32>, Value)> {
    let folder = repository(name, shader)?;
    let compiled = run(&folder, &step("compile with debug information"));
    assert!(
        compiled.status.success(),
        "{}{}",
        String::from_utf8_lossy(&compiled.stdout),
        String::from_utf8_lossy(&compiled.stderr)
    );
    let checked = run(&folder, &step("check"));
    let report = std::fs::read(folder.join("coopcheck.sarif")).expect("the file that the next step uploads");
    Some((checked.status.code(), serde_json::from_slice(&report).expect("JSON")))
}

#[test]
fn the_line_of_the_pull_request_is_annotated() {
    let shader = include_str!("../../testdata/kernels/gemm_simple.comp");
    let Some((status, report)) = check("clean", shader) else { return };
    let errors = |report: &Value| -> Vec<(String, u64, String)> {
        let results = report["runs"][0]["results"].as_array().expect("results");
        let place = |r: &Value| r["locations"][0]["physicalLocation"].clone();
        results
            .iter()
            .filter(|r| r["level"] == "error")
            .map(|r| {
                let line = place(r)["region"]["startLine"].as_u64().expect("a line");
                let file = place(r)["artifactLocation"]["uri"].as_str().expect("a file").to_owned();
                (file, line, r["ruleId"].as_str().expect("a rule").to_owned())
            })
            .collect()
    };
    assert_eq!((status, errors(&report)), (Some(0), vec![]));

    // Half of the subgroup leaves before the matrices come.
    let line = shader.lines().position(|line| line.contains("coopMatLoad")).expect("a load");
    let mut lines: Vec<&str> = shader.lines().collect();
    lines.insert(line, "    if (gl_SubgroupInvocationID < 16) return;");
    let version = shader.lines().position(|line| line.starts_with("#version")).expect("a version");
    lines.insert(version + 1, "#extension GL_KHR_shader_subgroup_basic : require");
    let (status, report) = check("broken", &lines.join("\n")).expect("glslang was there");
    // Two lines came in front of the load, and lines are counted from 1. The file's name is the one that the repository has it
    // under, which is what puts the finding into the pull request.
    let wanted = ("shaders/product.comp".to_owned(), line as u64 + 3, "uniformity-flow".to_owned());
    assert_eq!((status, errors(&report)), (Some(1), vec![wanted]));
}
