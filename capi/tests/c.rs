//! The header and the libraries, from C and C++.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn module() -> PathBuf {
    root().join("testdata/kernels/gemm_simple.spv")
}

/// Where Cargo put the libraries that were built with this test.
fn libraries() -> PathBuf {
    // The first argument, since a runner may be the program of the process.
    let program = std::env::args_os().next().map(PathBuf::from).expect("a program has a name");
    let folder = program.parent().expect("a program is in a folder").to_owned();
    assert!(folder.join("libcoopmat.so").is_file(), "{} has no libcoopmat.so", folder.display());
    folder
}

fn run(command: &mut Command) -> Output {
    command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"))
}

fn succeed(command: &mut Command) -> String {
    let output = run(command);
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {}\n{text}", output.status);
    text
}

enum Library {
    Shared,
    Static,
}

/// Compiles a program with every warning being an error, and with AddressSanitizer and UndefinedBehaviorSanitizer.
fn compile(source: &str, library: &Library) -> PathBuf {
    compile_with(source, library, "-fsanitize=address,undefined", "sanitized")
}

/// Compiles a program with every warning being an error. The name of the program has a tag.
fn compile_with(source: &str, library: &Library, option: &str, tag: &str) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(source);
    let is_cpp = source.extension().is_some_and(|e| e == "cpp");
    let (compiler, standard) = if is_cpp { ("g++", "-std=c++17") } else { ("gcc", "-std=c99") };
    let stem = source.file_name().expect("a file").to_string_lossy().replace('.', "_");
    let kind = if matches!(library, Library::Shared) { "shared" } else { "static" };
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{stem}_{kind}_{tag}"));
    let folder = libraries();
    let mut command = Command::new(compiler);
    command.args([standard, "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-g", option]);
    command.arg("-I").arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("include"));
    command.arg(&source).arg("-o").arg(&program);
    match library {
        Library::Shared => {
            // The loader asks for the name that the library has in itself.
            let soname = Path::new(env!("CARGO_TARGET_TMPDIR")).join("libcoopmat.so.1");
            let _ = std::fs::remove_file(&soname);
            let linked = std::os::unix::fs::symlink(folder.join("libcoopmat.so"), &soname);
            // Another test of this file may have been quicker.
            assert!(linked.is_ok() || soname.exists(), "{linked:?}");
            command.arg(folder.join("libcoopmat.so"));
            command.arg(format!("-Wl,-rpath,{}", env!("CARGO_TARGET_TMPDIR")));
        }
        Library::Static => {
            command.arg(folder.join("libcoopmat.a")).args(["-lpthread", "-ldl", "-lm"]);
        }
    }
    succeed(command.arg("-lpthread"));
    program
}

/// A program with nothing of the loader's that a driver's wrapper sets.
fn program(path: &Path) -> Command {
    let mut command = Command::new(path);
    command.env_remove("LD_LIBRARY_PATH").env_remove("LD_PRELOAD");
    command.env("ASAN_OPTIONS", "detect_leaks=1:abort_on_error=0");
    command
}

#[test]
fn abi_from_c() {
    for library in [Library::Shared, Library::Static] {
        let text = succeed(program(&compile("tests/c/abi.c", &library)).arg(module()));
        assert!(text.ends_with("done\n"), "{text}");
    }
}

#[test]
fn eight_threads() {
    let text = succeed(program(&compile("tests/c/threads.c", &Library::Shared)).arg(module()));
    assert!(text.ends_with("done\n"), "{text}");
}

/// Runs a program in valgrind, where that is installed: it finds nothing.
fn valgrind(source: &str) {
    if Command::new("valgrind").arg("--version").output().is_err() {
        eprintln!("SKIPPED: no valgrind");
        return;
    }
    let path = compile_with(source, &Library::Shared, "-O1", "plain");
    let mut valgrind = program(Path::new("valgrind"));
    valgrind.args(["--quiet", "--error-exitcode=9", "--leak-check=full"]);
    valgrind.arg("--errors-for-leak-kinds=definite,indirect").arg(path).arg(module());
    let text = succeed(&mut valgrind);
    assert!(text.ends_with("done\n") && !text.contains("=="), "{text}");
}

#[test]
fn abi_in_valgrind() {
    valgrind("tests/c/abi.c");
}

#[test]
#[ignore = "scripts/test.sh long runs it: a minute"]
fn eight_threads_in_valgrind() {
    valgrind("tests/c/threads.c");
}

/// A C example writes what the library itself answers, and a C++ example the same.
#[test]
fn examples_lower() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (from_c, from_cpp) = (folder.join("from_c.spv"), folder.join("from_cpp.spv"));
    let text = succeed(
        program(&compile("examples/lower.c", &Library::Shared))
            .arg(module())
            .arg("mesa-lavapipe-debian12")
            .arg(&from_c)
            .arg("99=1"),
    );
    assert_eq!(text, "lowered: subgroups of 8, full: 1, 0 bytes of shared memory\n");
    let profile = root().join("device/profiles/mesa-lavapipe-debian12.json");
    let text =
        succeed(program(&compile("examples/lower.cpp", &Library::Static)).arg(module()).arg(profile).arg(&from_cpp));
    assert!(text.starts_with("lowered: ") && text.contains("CooperativeMatrixKHR"), "{text}");
    let words = std::fs::read(&from_c).expect("it was written");
    assert_eq!(words, std::fs::read(&from_cpp).expect("it was written"));
    let module = coopmat_words(&module());
    assert_eq!(words, module.iter().flat_map(|word| word.to_ne_bytes()).collect::<Vec<u8>>());
}

/// Returns the outcome of the Rust library.
fn coopmat_words(path: &Path) -> Vec<u32> {
    let bytes = std::fs::read(path).expect("it is there");
    let device = facade::Device::builtin("mesa-lavapipe-debian12").expect("built in");
    let module = facade::Prepared::read_bytes(&bytes).expect("a module");
    match module.for_pipeline(&device, &facade::PipelineOptions::default()) {
        facade::Outcome::Lowered(lowered) => lowered.words,
        other => panic!("{other:?}"),
    }
}

#[test]
fn examples_say_what_is_wrong() {
    let lower = compile("examples/lower.c", &Library::Shared);
    let output = run(program(&lower).arg(module()).arg("abacus").arg("/dev/null"));
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("no device is called 'abacus'"));
}

/// The header is what cbindgen makes of the sources. Needs cbindgen, which scripts/capi.sh fetches.
#[test]
fn header_is_not_stale() {
    let Some(cbindgen) = cbindgen() else {
        let required = std::env::var_os("COOP_REQUIRE_TOOLS").is_some();
        assert!(!required, "no cbindgen: scripts/capi.sh header fetches it");
        eprintln!("skipped: no cbindgen");
        return;
    };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let output = run(Command::new(cbindgen).arg("--config").arg(folder.join("cbindgen.toml")).arg(folder));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let header = std::fs::read(folder.join("include/coopmat.h")).expect("it is there");
    assert!(output.stdout == header, "coopmat.h is stale: run scripts/capi.sh header");
}

/// `cargo cinstall` (cargo-c) installs what `scripts/capi.sh install` does: the same names, header, description and version of the ABI.
#[test]
fn both_packages_are_of_one_kind() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
    let manifest: toml::Value = toml::from_str(&read("Cargo.toml")).expect("TOML");
    let says = |path: &[&str]| {
        let value = path.iter().try_fold(&manifest, |at, key| at.get(key)).unwrap_or_else(|| panic!("no {path:?}"));
        value.as_str().map_or_else(|| value.to_string(), str::to_owned)
    };
    let capi = |path: &[&str]| says(&[&["package", "metadata", "capi"], path].concat());
    assert!(says(&["features", "capi"]) == "[]" && says(&["lib", "name"]) == "coopmat");

    let pc = read("coopmat.pc.in");
    let line =
        |key: &str| pc.lines().find_map(|line| line.strip_prefix(key)).unwrap_or_else(|| panic!("no {key}")).trim();
    assert_eq!(capi(&["pkg_config", "name"]), line("Name:"));
    assert_eq!(capi(&["pkg_config", "description"]), line("Description:"));
    assert_eq!(capi(&["pkg_config", "filename"]), "coopmat");

    let headers = &manifest["package"]["metadata"]["capi"]["install"]["include"]["asset"];
    assert_eq!(headers.as_array().map(Vec::len), Some(1));
    assert_eq!(headers[0]["from"].as_str(), Some("include/coopmat.h"));
    assert_eq!(
        (capi(&["header", "generation"]).as_str(), capi(&["header", "subdirectory"]).as_str()),
        ("false", "false")
    );

    // Both name the shared library by the first number of this version.
    let version = capi(&["library", "version"]);
    let abi = coopmat::COOPMAT_ABI_VERSION.to_string();
    assert_eq!(version.split('.').next(), Some(abi.as_str()));
    let name = format!("\0libcoopmat.so.{abi}\0");
    let library = std::fs::read(libraries().join("libcoopmat.so")).expect("it is there");
    assert!(library.windows(name.len()).any(|bytes| bytes == name.as_bytes()), "the library calls itself otherwise");
}

fn cbindgen() -> Option<PathBuf> {
    let cache = std::env::var_os("COOP_CACHE").map_or_else(|| root().join(".cache"), PathBuf::from);
    Some(cache.join("cbindgen/bin/cbindgen")).filter(|path| path.is_file())
}
