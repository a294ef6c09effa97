//! The repository as a whole: licences, versions, and what an engine builds.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use coop_validate::RULES;
use serde_json::Value;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(name: &str) -> String {
    std::fs::read_to_string(root().join(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
}

/// The packages of the workspace and all that they need.
fn packages() -> Vec<Value> {
    let cargo = std::env::var("CARGO").unwrap_or("cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--locked"])
        .current_dir(root())
        .output()
        .expect("cargo metadata runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let all: Value = serde_json::from_slice(&output.stdout).expect("cargo prints JSON");
    all["packages"].as_array().expect("a list").clone()
}

/// Licences that ask for no more than their text.
const LICENCES: [&str; 8] =
    ["MIT", "Apache-2.0", "BSD-2-Clause", "ISC", "Zlib", "Unicode-3.0", "0BSD", "Apache-2.0 WITH LLVM-exception"];

/// Whether an SPDX expression can be satisfied by [`LICENCES`].
fn allowed(expression: &str) -> bool {
    let expression = expression.replace('/', " OR ");
    let any = |all: &str| all.split(" OR ").any(|one| LICENCES.contains(&one.trim_matches(['(', ')', ' '])));
    expression.split(" AND ").all(any)
}

#[test]
fn licences_are_permissive() {
    assert!(allowed("(MIT OR Apache-2.0) AND Unicode-3.0") && allowed("MIT/Apache-2.0") && !allowed("GPL-3.0"));
    let packages = packages();
    assert!(packages.len() > 40, "only {} packages", packages.len());
    let bad: Vec<String> = packages
        .iter()
        .filter(|p| !p["license"].as_str().is_some_and(allowed))
        .map(|p| format!("{}: {}", p["name"], p["license"]))
        .collect();
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}

/// A version as numbers.
fn numbers(version: &str) -> Vec<u32> {
    version.split('.').map(|n| n.parse().unwrap_or_else(|_| panic!("{version} is not a version"))).collect()
}

#[test]
fn versions_agree() {
    let manifest: toml::Table = read("Cargo.toml").parse().expect("TOML");
    let version = manifest["workspace"]["package"]["version"].as_str().expect("a version").to_owned();
    let changelog = read("CHANGELOG.md");
    assert!(changelog.contains(&format!("\n## {version}")), "CHANGELOG.md has no heading for {version}");
    for rule in RULES {
        assert!(numbers(rule.since) <= numbers(&version), "{}: since {}, but this is {version}", rule.id, rule.since);
        let headed = changelog.lines().any(|l| l.strip_prefix("## ").is_some_and(|l| l.starts_with(rule.since)));
        assert!(headed, "{}: CHANGELOG.md has no heading for {}", rule.id, rule.since);
    }
    // Crates of ours need each other in this version.
    for (name, dependency) in manifest["workspace"]["dependencies"].as_table().expect("a table") {
        if name.starts_with("coop-") && name != "coop-lab" {
            assert_eq!(dependency.get("version").and_then(|v| v.as_str()), Some(version.as_str()), "{name}");
        }
    }
}

/// The lines of a file, as [`lines`] counts them.
fn lines_of(path: &Path) -> [usize; 2] {
    let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let tests = text.find("\n#[cfg(test)]\nmod tests {").unwrap_or(text.len());
    let is_code = |l: &&str| !l.trim().is_empty() && !l.trim_start().starts_with("//");
    [text.lines().count(), text[..tests].lines().filter(is_code).count()]
}

/// The lines of a crate's sources: all, and those that a user compiles, which are neither blank, comments nor tests.
fn lines(folder: &Path) -> [usize; 2] {
    let mut total = [0; 2];
    for entry in std::fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display())) {
        let path = entry.expect("a readable folder").path();
        let counts = if path.is_dir() {
            lines(&path)
        } else if path.extension().is_some_and(|e| e == "rs") {
            lines_of(&path)
        } else {
            continue;
        };
        (total[0], total[1]) = (total[0] + counts[0], total[1] + counts[1]);
    }
    total
}

/// What an engine builds that lowers modules: no more crates and lines than this, the grammar's tables apart.
#[test]
fn an_engine_builds_little() {
    let packages = packages();
    let by_name: BTreeMap<&str, &Value> = packages.iter().map(|p| (p["name"].as_str().expect("a name"), p)).collect();
    let cargo = std::env::var("CARGO").unwrap_or("cargo".into());
    let output = Command::new(cargo)
        .args(["tree", "--locked", "-p", "coop-passes", "-e", "normal,build", "--prefix", "none", "-f", "{p}"])
        .current_dir(root())
        .output()
        .expect("cargo tree runs");
    let text = String::from_utf8_lossy(&output.stdout);
    let name = |line: &str| line.split(' ').take(2).collect::<Vec<_>>().join(" ");
    let crates: BTreeSet<String> = text.lines().filter(|l| !l.is_empty()).map(name).collect();
    let ours = crates.iter().filter_map(|c| by_name.get(c.split(' ').next()?)).filter(|p| p["source"].is_null());
    let folders = ours.map(|p| Path::new(p["manifest_path"].as_str().expect("a path")).with_file_name("src"));
    let sum = |all: Vec<[usize; 2]>| all.into_iter().fold([0; 2], |a, b| [a[0] + b[0], a[1] + b[1]]);
    let questions = lines_of(&root().join("ir/src/grammar/properties.rs"));
    let tables = sum(["ir/src/grammar", "ir/src/spv"].map(|f| lines(&root().join(f))).to_vec());
    let tables = [tables[0] - questions[0], tables[1] - questions[1]];
    let all = sum(folders.map(|f| lines(&f)).collect());
    let (lines, code) = (all[0] - tables[0], all[1] - tables[1]);
    eprintln!(
        "an engine builds {} crates and {code} lines of ours ({lines} with comments and tests), and {} of tables",
        crates.len(),
        tables[0]
    );
    assert!(crates.len() <= 25, "{} crates: {crates:?}", crates.len());
    assert!(code <= 40_000, "{code} lines");
}
