//! The list of passes is all that a lowering does to a module, and callers see each of them.

use coop_device::Profile;
use coop_ir::{Module, binary};
use coop_passes::{Options, PASSES, Target, lower, lower_with};
use std::path::{Path, PathBuf};

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// A file without its unit tests and comments.
fn code(path: &Path) -> String {
    let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let text = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
    text.lines().map(|l| l.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

/// Functions of a pass's signature that are visible to the whole crate, as `module::name`.
fn pass_functions(folder: &Path, module: &str, out: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).expect("sources").flatten() {
        let path = entry.path();
        let stem = path.file_stem().expect("a name").to_string_lossy().into_owned();
        if path.is_dir() {
            pass_functions(&path, if module.is_empty() { &stem } else { module }, out);
            continue;
        }
        let module = if module.is_empty() { &stem } else { module };
        for declaration in code(&path).split("pub(crate) fn ").skip(1) {
            let Some((name, rest)) = declaration.split_once('(') else { continue };
            let parameters = rest.split_once("{\n").map_or(rest, |(signature, _)| signature);
            let is_pass = parameters.starts_with("m: &mut Module, ")
                && parameters.contains("&mut PassCx<'_>) -> Result<(), Refusal>")
                && parameters.matches(',').count() == 2;
            if is_pass {
                out.push(format!("{module}::{name}"));
            }
        }
    }
}

#[test]
fn every_pass_is_in_the_list() {
    let mut functions = Vec::new();
    pass_functions(&folder("src"), "", &mut functions);
    assert!(functions.len() > 12, "{functions:?}");
    let pipeline = code(&folder("src/pipeline.rs"));
    let missing: Vec<&String> = functions.iter().filter(|f| !pipeline.contains(&format!("run: {f},"))).collect();
    assert!(missing.is_empty(), "not in PASSES: {missing:?}");
}

/// Nothing but passes changes the module: dumps, fuel and timings would not see it.
#[test]
fn nothing_but_passes_changes_the_module() {
    let pipeline = code(&folder("src/pipeline.rs"));
    let calls: Vec<&str> = pipeline.lines().filter(|l| l.contains("&mut module")).map(str::trim).collect();
    assert_eq!(calls, ["let done = (pass.run)(&mut module, &mut cx);"]);
}

fn kernel(name: &str) -> Module {
    let path = folder("../testdata/kernels").join(name);
    let bytes = std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    binary::read(&bytes).expect("a module")
}

fn names(target: Target) -> Vec<String> {
    let passes = PASSES.iter().filter(|p| p.targets.contains(&target));
    passes.enumerate().map(|(n, p)| format!("{n:02}-{}", p.name)).collect()
}

#[test]
fn callers_see_each_pass_of_the_target_that_auto_takes() {
    let module = kernel("gemm_simple.spv");
    let profile = Profile::builtin("nvidia-h100").expect("a profile");
    // Another with the feature and no matrix at all: attempts at tiles are refused.
    let mut without = profile.clone();
    without.khr_properties.clear();
    for (profile, target) in [(&profile, Target::Khr), (&without, Target::Scalar)] {
        let options = Options { profile: Some(profile), spec_defaults: true, ..Options::new(Target::Auto) };
        let mut seen = Vec::new();
        let lowered = lower_with(&module, &options, &mut |name, _| seen.push(name.to_owned())).expect("it is lowered");
        assert_eq!(lowered.report.target, target.to_string());
        assert_eq!(seen, names(target));
        let timed: Vec<&str> = lowered.report.passes.iter().map(|t| t.pass).collect();
        assert!(names(target).iter().zip(&timed).all(|(name, pass)| name.ends_with(&format!("-{pass}"))), "{timed:?}");
        // Nobody pays for what nobody sees, and the output is the same.
        let unseen = lower(&module, &options).expect("it is lowered");
        assert_eq!(binary::write(&unseen.module), binary::write(&lowered.module));
    }
}

/// ARCHITECTURE.md lists the passes in the order of `PASSES`.
#[test]
fn the_documentation_lists_the_passes_in_order() {
    let path = folder("../ARCHITECTURE.md");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let list = text.split_once("`pipeline.rs` lists them in order: ").expect("the list of passes").1;
    let listed: Vec<&str> = list.split_once('.').expect("the end of the list").0.split(", ").collect();
    let passes: Vec<&str> = PASSES.iter().map(|p| p.name).collect();
    assert_eq!(listed, passes);
}

/// The output is the module after the last pass, and with fuel for some passes the module after the last of these: a
/// lowering changes a module in passes only.
#[test]
fn the_output_is_the_module_after_the_last_pass() {
    let module = kernel("gemm_simple.spv");
    let profile = Profile::builtin("nvidia-h100").expect("a profile");
    for target in [Target::Scalar, Target::Khr, Target::Ext] {
        let options =
            Options { profile: Some(&profile), subgroup_size: Some(32), spec_defaults: true, ..Options::new(target) };
        let mut after: Vec<Vec<u8>> = Vec::new();
        let lowered = lower_with(&module, &options, &mut |_, m| after.push(binary::write(m))).expect("it is lowered");
        assert_eq!(after.len(), names(target).len());
        assert_eq!(after.last(), Some(&binary::write(&lowered.module)), "{target}");
        for fuel in 0..=after.len() {
            let part = lower(&module, &Options { fuel: Some(fuel), ..options.clone() }).expect("it is lowered");
            let expected = fuel.checked_sub(1).map_or_else(|| binary::write(&module), |last| after[last].clone());
            assert_eq!(binary::write(&part.module), expected, "{target} with fuel for {fuel} passes");
        }
    }
}

#[test]
fn without_fuel_the_module_stays_as_it_was() {
    let module = kernel("gemm_simple.spv");
    let options =
        Options { subgroup_size: Some(32), spec_defaults: true, fuel: Some(0), ..Options::new(Target::Scalar) };
    let lowered = lower(&module, &options).expect("nothing refuses");
    assert_eq!(binary::write(&lowered.module), binary::write(&module));
    assert_eq!(lowered.report.skipped_passes.len(), names(Target::Scalar).len());
}
