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

/// Returns true if an SPDX expression can be satisfied by [`LICENCES`].
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

/// Dependencies come from crates.io, or are ours.
#[test]
fn dependencies_are_published() {
    for package in packages() {
        match package["source"].as_str() {
            Some(source) => {
                assert_eq!(source, "registry+https://github.com/rust-lang/crates.io-index", "{}", package["name"]);
            }
            None => assert!(package["name"].as_str().is_some_and(|n| n.starts_with("coop")), "{}", package["name"]),
        }
    }
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
        if name.starts_with("coop") && name != "coop-lab" {
            assert_eq!(dependency.get("version").and_then(|v| v.as_str()), Some(version.as_str()), "{name}");
        }
    }
}

/// Every heading of a version but the newest has a tag, where the checkout has tags, and a tag that is checked out is of
/// the workspace's version.
#[test]
fn tags_agree_with_the_changelog() {
    let git = |arguments: &[&str]| {
        let output = std::process::Command::new("git").args(arguments).current_dir(root()).output().expect("git runs");
        assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("names are UTF-8")
    };
    let version =
        |tag: &str| tag.strip_prefix('v').unwrap_or_else(|| panic!("{tag} is not v and a version")).to_owned();
    let tags: Vec<String> = git(&["tag", "--list", "v*"]).lines().map(version).collect();
    let changelog = read("CHANGELOG.md");
    let headings: Vec<&str> = changelog.lines().filter_map(|l| l.strip_prefix("## ")).collect();
    for tag in &tags {
        assert!(headings.contains(&tag.as_str()), "CHANGELOG.md has no heading for the tag v{tag}");
    }
    if let Some(oldest) = tags.iter().min_by_key(|tag| numbers(tag)) {
        for heading in headings.iter().skip(1).filter(|h| numbers(h) >= numbers(oldest)) {
            assert!(tags.iter().any(|tag| tag == heading), "version {heading} has no tag");
        }
    }
    for tag in git(&["tag", "--points-at", "HEAD", "v*"]).lines().map(version) {
        assert_eq!(headings.first(), Some(&tag.as_str()), "the tag v{tag} is checked out");
    }
}

/// The C library names the facade by itself, since both are called coopmat.
#[test]
fn the_c_library_is_of_the_same_version() {
    let workspace: toml::Table = read("Cargo.toml").parse().expect("TOML");
    let capi: toml::Table = read("capi/Cargo.toml").parse().expect("TOML");
    assert_eq!(capi["dependencies"]["facade"]["version"], workspace["workspace"]["package"]["version"]);
    assert_eq!(capi["dependencies"]["facade"]["package"].as_str(), Some("coopmat"));
    // The name in the library, which install follows, is that of the ABI.
    let source = read("capi/src/lib.rs");
    let abi = source.split("COOPMAT_ABI_VERSION: u32 = ").nth(1).and_then(|t| t.split(';').next()).expect("a version");
    assert!(read("capi/build.rs").contains(&format!("-soname,libcoopmat.so.{abi}")), "ABI {abi}");
}

/// Unsafe code is where pointers come from others: Vulkan, OpenCL, C.
#[test]
fn unsafe_code_is_where_it_may_be() {
    let allowed = [
        "capi",
        "device/src/vulkan",
        "exec/src/opencl",
        "exec/src/vulkan",
        "layer",
        "coopmat/src/vulkan.rs",
        "web/src/abi.rs",
    ];
    let mut found = Vec::new();
    for folder in ["ir", "uniformity", "device", "validate", "passes", "components", "coopmat", "exec", "cli", "web"] {
        with_unsafe(&root().join(folder).join("src"), &mut found);
    }
    assert!(!found.is_empty());
    let allowed: Vec<PathBuf> = allowed.iter().map(|path| root().join(path)).collect();
    let is_allowed = |path: &PathBuf| allowed.iter().any(|a| path.starts_with(a) || path.with_extension("") == *a);
    found.retain(|path| !is_allowed(path));
    assert!(found.is_empty(), "{found:?}");
}

/// The files of a folder that have unsafe blocks or functions.
fn with_unsafe(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display())) {
        let path = entry.expect("a readable folder").path();
        if path.is_dir() {
            with_unsafe(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            let text = std::fs::read_to_string(&path).expect("UTF-8");
            if text.contains("unsafe {") || text.contains("unsafe fn ") {
                found.push(path);
            }
        }
    }
}

/// Every test belongs to a tier of `scripts/test.sh`: an ignored one says that `test.sh long` runs it.
#[test]
fn ignored_tests_say_which_tier_runs_them() {
    let listed = Command::new("git").args(["ls-files", "*.rs"]).current_dir(root()).output().expect("git runs");
    let files = String::from_utf8(listed.stdout).expect("UTF-8");
    let mut reasons = 0;
    for file in files.lines().filter(|f| root().join(f).exists()) {
        let text = read(file);
        // Not the strings in this test.
        for (at, _) in text.match_indices("#[ignore").filter(|(at, _)| !text[..*at].ends_with('"')) {
            let attribute = text[at..].lines().next().unwrap_or_default();
            let line = text[..at].lines().count();
            assert!(
                attribute.contains("\"scripts/test.sh long runs it: "),
                "{file}:{line}: {attribute} does not name its tier"
            );
            reasons += 1;
        }
    }
    assert!(reasons > 0);
    assert!(read("scripts/test.sh").contains("--run-ignored only"));
}

/// Compiles the scripts that it is given as Python 3.11 does, and looks for what the tarfile of 3.11.2 lacks. Extraction without its
/// filters is unsafe, so members are read one by one.
const COMPILE: &str = r#"
import ast, sys
for name in sys.argv[1:]:
    with open(name, encoding="utf-8") as file:
        source = file.read()
    compile(source, name, "exec")
    nodes = list(ast.walk(ast.parse(source, name, feature_version=(3, 11))))
    tar = any(alias.name == "tarfile" for node in nodes if isinstance(node, ast.Import) for alias in node.names)
    for node in nodes:
        call = node.func.attr if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else ""
        if call == "unpack_archive" or tar and call in ("extract", "extractall"):
            sys.exit(f"{name}:{node.lineno}: {call}: Python 3.11.2 has no filters; read each member by extractfile")
"#;

/// The parts of scripts that need neither network nor other packages: arguments, and the status.
const OFFLINE: [(&str, &[&str], i32); 10] = [
    ("counts.py", &["--help"], 0),
    ("dialect-cases.py", &["--check"], 0),
    ("dxc.py", &[], 2),
    ("engines.py", &["cases", "quick"], 0),
    ("iree-matmul.py", &["--help"], 1),
    ("llama-tokens.py", &["cases", "quick"], 0),
    ("messages.py", &["ir"], 0),
    ("ncnn-levels.py", &["--help"], 0),
    ("outputs.py", &["--help"], 0),
    ("sycl-kernels.py", &["cases", "--check"], 0),
];

/// Scripts work with the Python of Debian 12, 3.11.2, if the system has it. A later one finds newer syntax, but no newer functions.
#[test]
fn scripts_work_with_the_python_of_the_system() {
    let python = Path::new("/usr/bin/python3");
    if !python.exists() {
        return;
    }
    let run = |arguments: &[&str]| {
        let mut command = Command::new(python);
        command.args(arguments).current_dir(root()).env("PYTHONDONTWRITEBYTECODE", "1").env_remove("COOP_DXCOMPILER");
        let output = command.output().expect("python runs");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let listed = Command::new("git").args(["ls-files", "*.py"]).current_dir(root()).output().expect("git runs");
    let files = String::from_utf8(listed.stdout).expect("UTF-8");
    let files: Vec<&str> = files.lines().collect();
    let (status, errors) = run(&[&["-c", COMPILE][..], &files[..]].concat());
    assert_eq!(status, Some(0), "{errors}");
    for (script, arguments, expected) in OFFLINE {
        let path = format!("scripts/{script}");
        let (status, errors) = run(&[&[path.as_str()][..], arguments].concat());
        assert!(status == Some(expected) && !errors.contains("Traceback"), "{script}: {status:?}: {errors}");
    }
    // What needs a package that no system has.
    let scripts: BTreeSet<&str> = files.iter().filter_map(|f| f.strip_prefix("scripts/")).collect();
    let known: BTreeSet<&str> = OFFLINE.iter().map(|(script, ..)| *script).chain(["ncnn-layers.py"]).collect();
    assert_eq!(scripts, known, "a script without a part that is run here");
}

/// The lines of a file, as [`lines`] counts them.
fn lines_of(path: &Path) -> [usize; 2] {
    let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let tests = text.find("\n#[cfg(test)]\nmod tests {").unwrap_or(text.len());
    let is_code = |l: &&str| !l.trim().is_empty() && !l.trim_start().starts_with("//");
    [text.lines().count(), text[..tests].lines().filter(is_code).count()]
}

/// The lines of a file or a folder of sources: all, and those that a user compiles, which are neither blank, comments nor tests.
fn lines(folder: &Path) -> [usize; 2] {
    if folder.is_file() {
        return lines_of(folder);
    }
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

/// The sources behind features, which are built where somebody asks for the feature: package, feature and path.
const BEHIND_FEATURES: [(&str, &str, &str); 9] = [
    ("coop-ir", "text", "ir/src/text"),
    ("coop-ir", "text", "ir/src/source.rs"),
    ("coop-ir", "text", "ir/src/isomorphic.rs"),
    ("coop-ir", "execution", "ir/src/cfg/order.rs"),
    ("coop-passes", "kernels", "passes/src/vulkan"),
    ("coop-validate", "uniformity", "validate/src/rules/uniformity"),
    ("coop-validate", "text", "validate/src/places.rs"),
    ("coop-validate", "testing", "validate/src/testing.rs"),
    ("coopmat", "prove", "coopmat/src/certificate.rs"),
];

/// Limits the crates and lines that an engine that lowers modules builds, the grammar's tables apart.
#[test]
fn an_engine_builds_little() {
    builds("coop-passes", &[], 20, 40_000);
    builds("coopmat", &["--features", "vulkan"], 25, 58_000);
}

fn builds(package: &str, features: &[&str], most_crates: usize, most_lines: usize) {
    let packages = packages();
    let by_name: BTreeMap<&str, &Value> = packages.iter().map(|p| (p["name"].as_str().expect("a name"), p)).collect();
    let cargo = std::env::var("CARGO").unwrap_or("cargo".into());
    let output = Command::new(cargo)
        .args(["tree", "--locked", "-p", package, "-e", "normal,build", "--prefix", "none", "-f", "{p} {f}"])
        .args(features)
        .current_dir(root())
        .output()
        .expect("cargo tree runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
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
    let built = |(package, feature, _): &&(&str, &str, &str)| {
        let line = text.lines().find(|l| l.split(' ').next() == Some(package));
        line.is_some_and(|l| !l.split([' ', ',']).any(|word| word == *feature))
    };
    let left_out = sum(BEHIND_FEATURES.iter().filter(built).map(|(_, _, path)| lines(&root().join(path))).collect());
    let [lines, code] = [0, 1].map(|at| all[at] - tables[at] - left_out[at]);
    eprintln!(
        "{package}: an engine builds {} crates and {code} lines of ours ({lines} with comments and tests), and {} of tables",
        crates.len(),
        tables[0]
    );
    assert!(crates.len() <= most_crates, "{package}: {} crates: {crates:?}", crates.len());
    assert!(code <= most_lines, "{package}: {code} lines");
}
