//! The public interface of the library, and of what it re-exports, is the one on record: a change is seen where it is reviewed.
//! `scripts/semver.sh` says whether it breaks programs.

use std::path::{Path, PathBuf};
use std::process::Command;

use public_api::Builder;

/// The crates whose items a program names as `coopmat`'s.
const CRATES: &[&str] = &["coopmat", "coop-device"];

/// Writes rustdoc's description of a crate with the features that engines use.
fn describe(name: &str, target: &Path) -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../Cargo.toml");
    let output = Command::new(env!("CARGO"))
        .args(["rustdoc", "--quiet", "--lib", "--package", name, "--features", "vulkan", "--manifest-path"])
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

#[test]
fn the_public_interface_is_the_one_on_record() {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("interface");
    let record = Path::new(env!("CARGO_MANIFEST_DIR")).join("interface").canonicalize().expect("it exists");
    for name in CRATES {
        let json = describe(name, &target);
        let items = Builder::from_rustdoc_json(&json)
            .omit_blanket_impls(true)
            .omit_auto_trait_impls(true)
            .build()
            .unwrap_or_else(|error| panic!("{}: {error}", json.display()));
        let listing: String = items.items().map(|item| format!("{item}\n")).collect();
        let mut settings = insta::Settings::clone_current();
        settings.set_snapshot_path(&record);
        settings.set_prepend_module_to_snapshot(false);
        settings.set_omit_expression(true);
        settings.bind(|| insta::assert_snapshot!(*name, listing));
    }
}
