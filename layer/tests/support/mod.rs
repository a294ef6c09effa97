//! Tests run in a process of their own, which a driver's wrapper starts with the layer.
#![allow(dead_code, reason = "each test program uses a part")]

pub(crate) mod application;

use std::io::Write;
use std::path::PathBuf;
use std::process::Command;

use coop_exec::testing::{Driver, repository};

/// Set in the second process.
const CHILD: &str = "COOP_LAYER_TEST";

/// Runs the body of the test `path` (crate, modules, function) in a process with the layer, with these settings of the layer
/// and other variables.
pub(crate) fn with_layer(driver: Driver, path: &str, variables: &[(&str, &str)], body: impl FnOnce()) {
    if std::env::var_os(CHILD).is_some() {
        return body();
    }
    let Some(wrapper) = driver.wrapper_or_skip(path) else { return };
    let (_, test) = path.split_once("::").unwrap_or(("", path));
    let mut command = Command::new(wrapper);
    command.arg(program()).args(["--exact", test, "--include-ignored", "--nocapture", "--test-threads=1"]);
    command.env(CHILD, "1").env("COOP_LAYER_PATH", manifest()).env("VK_INSTANCE_LAYERS", "VK_LAYER_COOPMAT_fallback");
    // Answers of other tests, and of other builds, are kept out.
    command.env("COOPMAT_CACHE_MB", "0");
    let output = command.envs(variables.iter().copied()).output().unwrap_or_else(|error| panic!("{test}: {error}"));
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (said(&output.stdout), said(&output.stderr));
    // A name that matches no test would pass with nothing run.
    assert!(output.status.success() && out.contains("1 passed"), "{test}: {}\n{out}\n{err}", output.status);
    // The layer's log goes to standard error; what it must say is asserted where the test is.
    let _ = std::io::stderr().write_all(err.as_bytes());
}

/// `current_exe` would name the linker that the wrapper starts programs with.
fn program() -> PathBuf {
    std::env::args_os().next().unwrap_or_else(|| panic!("a process has a name")).into()
}

/// Writes a manifest for the library that cargo built beside this program; its folder.
pub(crate) fn manifest() -> PathBuf {
    let library = program().with_file_name("libcoopmat_layer.so");
    assert!(library.is_file(), "cargo builds {} with the tests", library.display());
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("manifest-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let name = "VkLayer_COOPMAT_fallback.json";
    let text = std::fs::read_to_string(repository().join("layer").join(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
    let text = text.replace("\"libcoopmat_layer.so\"", &format!("\"{}\"", library.display()));
    std::fs::write(folder.join(name), text).unwrap_or_else(|error| panic!("{name}: {error}"));
    folder
}

/// Declares a test in a process with the layer: `layer_test!(Debian12, [("COOPMAT_LOG", "info")], fn name() { ... })`.
#[macro_export]
macro_rules! layer_test {
    ($(#[$attribute:meta])* $driver:ident, $variables:expr, fn $name:ident() $body:block) => {
        $(#[$attribute])*
        #[test]
        fn $name() {
            let path = concat!(module_path!(), "::", stringify!($name));
            $crate::support::with_layer(coop_exec::testing::Driver::$driver, path, &$variables, || $body);
        }
    };
}
