//! The built-in profiles of GPUs that are not there are what their drivers say.

use std::process::Command;

use coop_device::{Origin, Profile};
use coop_exec::testing::{Driver, gpus, repository};
use coop_lab::profiles::name_of;

#[test]
fn each_gpu_has_a_profile_of_its_driver() {
    let gpus = gpus().expect("the script runs");
    for gpu in &gpus {
        let profile = Profile::builtin(name_of(gpu)).unwrap_or_else(|| panic!("{gpu}: cooplab profiles --write DATE"));
        assert_eq!(profile.origin, Origin::Driver, "{gpu}");
        assert!(profile.source.contains(&format!("--gpu {gpu})")), "{gpu}: {}", profile.source);
    }
    let of_drivers = Profile::builtin_names().filter_map(Profile::builtin).filter(|p| p.origin == Origin::Driver);
    assert_eq!(of_drivers.count(), gpus.len());
}

/// Fails when a new Mesa says something else, with what it is.
#[test]
fn drivers_say_what_is_built_in() {
    let gpus = gpus().expect("the script runs");
    if Driver::Navi31.wrapper_or_skip("profiles").is_none() {
        return;
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_cooplab"));
    let output = command.arg("profiles").current_dir(repository()).output().expect("a process");
    let said = String::from_utf8_lossy(&output.stdout);
    let remedy = "look at what changed, then: cooplab profiles --write DATE";
    assert_eq!(output.status.code(), Some(0), "{remedy}\n{said}{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(said.matches(": as built in\n").count(), gpus.len(), "{said}");
}
