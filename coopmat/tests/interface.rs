//! The public interface of the library, and of what it re-exports, is the one on record: a change is seen where it is reviewed.
//! Items that are gone since the baseline break programs; `scripts/semver.sh` knows all other ways.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use public_api::Builder;

/// The crates whose items a program names as `coopmat`'s, each with its features that are off by default.
const CRATES: &[(&str, &str)] = &[("coopmat", "vulkan,prove"), ("coop-device", "vulkan")];

/// Writes rustdoc's description of a crate with features.
fn describe(name: &str, features: &str, target: &Path) -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../Cargo.toml");
    let output = Command::new(env!("CARGO"))
        .args(["rustdoc", "--quiet", "--lib", "--package", name, "--features", features, "--manifest-path"])
        .arg(manifest)
        .arg("--target-dir")
        .arg(target)
        .args(["--", "-Zunstable-options", "--output-format", "json", "--cap-lints", "warn"])
        // The format is not stable.
        .env("RUSTC_BOOTSTRAP", "1")
        .env_remove("RUSTDOCFLAGS")
        .output()
        .unwrap_or_else(|error| panic!("cargo: {error}"));
    assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    target.join("doc").join(format!("{}.json", name.replace('-', "_")))
}

/// Returns true if a line says that a type has an auto trait, as nearly all have; those that have not say so.
fn is_usual(line: &str) -> bool {
    let autos = ["core::marker::", "core::panic::unwind_safe::"];
    let implemented =
        line.strip_prefix("impl ").or_else(|| line.strip_prefix("impl<")?.split_once("> ").map(|(_, i)| i));
    let of_auto = implemented.and_then(|i| i.split_once(" for ")).is_some_and(|(of, _)| {
        autos.iter().any(|path| of.starts_with(path))
            && !["Copy", "StructuralPartialEq"].iter().any(|t| of.ends_with(t))
    });
    of_auto && !line.contains(" where ")
}

#[test]
fn the_public_interface_is_the_one_on_record() {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("interface");
    let record = Path::new(env!("CARGO_MANIFEST_DIR")).join("interface").canonicalize().expect("it exists");
    for (name, features) in CRATES {
        let json = describe(name, features, &target);
        let items = Builder::from_rustdoc_json(&json)
            .omit_blanket_impls(true)
            .build()
            .unwrap_or_else(|error| panic!("{}: {error}", json.display()));
        let lines = items.items().map(ToString::to_string).filter(|line| !is_usual(line));
        let listing: String = lines.map(|line| line + "\n").collect();
        let mut settings = insta::Settings::clone_current();
        settings.set_snapshot_path(&record);
        settings.set_prepend_module_to_snapshot(false);
        settings.set_omit_expression(true);
        settings.bind(|| insta::assert_snapshot!(*name, listing));
    }
}

/// Returns the lines of the baseline's interface that programs can't do without and that are gone, and the variants that its
/// exhaustive enums have got: breaks, as far as a list of items shows them. An item that names a type of `coop-ir` in its
/// signature is the same wherever in `coop-ir` the type is defined: a list has the path of the definition, programs the path
/// of the re-export.
fn breaks<'a>(before: &'a str, after: &'a str) -> Vec<&'a str> {
    let [before, after] =
        [before, after].map(|text| text.lines().filter(|l| l.contains("pub ")).collect::<BTreeSet<_>>());
    let enums = before.iter().filter_map(|line| line.strip_prefix("pub enum "));
    let variants: Vec<String> = enums.map(|name| format!("pub {name}::")).collect();
    let added = after.difference(&before).filter(|line| variants.iter().any(|start| line.starts_with(start)));
    let signatures: BTreeSet<String> = after.iter().map(|line| without_modules_of_ir(line)).collect();
    let gone = before.difference(&after).filter(|line| !signatures.contains(&without_modules_of_ir(line)));
    gone.chain(added).copied().collect()
}

/// Returns a line with `coop_ir::a::b::Type` as `coop_ir::Type`.
fn without_modules_of_ir(line: &str) -> String {
    let mut parts = line.split("coop_ir::");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(|c: char| !c.is_alphanumeric() && !matches!(c, '_' | ':')).unwrap_or(part.len());
        let (path, rest) = part.split_at(end);
        text = text + "coop_ir::" + path.rsplit("::").next().unwrap_or(path) + rest;
    }
    text
}

#[test]
fn nothing_that_programs_of_the_baseline_use_is_gone() {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let baseline = std::fs::read_to_string(repository.join("coopmat/interface/BASELINE")).expect("a baseline");
    for (name, _) in CRATES {
        let path = format!("coopmat/interface/{name}.snap");
        let object = format!("{}:{path}", baseline.trim());
        let git = Command::new("git").arg("-C").arg(&repository).args(["show", &object]).output();
        let Some(before) = git.ok().filter(|output| output.status.success()) else {
            // A package from a registry, or a clone without history.
            let _ = writeln!(std::io::stderr(), "SKIPPED, {object} is not in this clone");
            return;
        };
        let before = String::from_utf8_lossy(&before.stdout);
        let after = std::fs::read_to_string(repository.join(&path)).expect("the record");
        let breaks = breaks(&before, &after);
        assert!(
            breaks.is_empty(),
            "these break programs, which needs a new version and then a new BASELINE:\n{}",
            breaks.join("\n")
        );
    }
}

#[test]
fn breaks_are_what_is_gone_and_new_variants() {
    let before = "---\nsource: x\npub enum a::E\npub a::E::One\n#[non_exhaustive] pub enum a::Open\npub a::Open::One\npub fn a::f(u32)\n";
    assert_eq!(breaks(before, before), [""; 0]);
    let more = format!("{before}pub a::Open::Two\npub fn a::g()\npub fn a::E::name(&self)\n");
    assert_eq!(breaks(before, &more), [""; 0]);
    let other = before.replace("f(u32)", "f(u64)") + "pub a::E::Two\n";
    assert_eq!(breaks(before, &other), ["pub fn a::f(u32)", "pub a::E::Two"]);
    let before = "pub fn a::f(&coop_ir::b::T, &coop_ir::c::U) -> bool\n";
    assert_eq!(breaks(before, "pub fn a::f(&coop_ir::b::d::T, &coop_ir::c::U) -> bool\n"), [""; 0]);
    assert_eq!(breaks(before, "pub fn a::f(&coop_ir::c::U, &coop_ir::c::U) -> bool\n").len(), 1);
    assert_eq!(breaks(before, "pub fn b::f(&coop_ir::b::T, &coop_ir::c::U) -> bool\n").len(), 1);
}
