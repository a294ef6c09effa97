//! The built-in profiles of GPUs that are not there are what their drivers say.

use std::process::Command;

use coop_device::Profile;
use coop_exec::testing::{Driver, gpus, repository};
use coop_lab::devices_page::{COMPILED, Compiled, page};
use coop_lab::profiles::{is_of_driver, name_of};

#[test]
fn each_gpu_has_a_profile_of_its_driver() {
    let gpus = gpus().expect("the script runs");
    for gpu in &gpus {
        let profile = Profile::builtin(name_of(gpu)).unwrap_or_else(|| panic!("{gpu}: cooplab profiles --write DATE"));
        assert!(is_of_driver(&profile), "{gpu}: {}", profile.source);
        assert!(profile.source.contains(&format!("--gpu {gpu})")), "{gpu}: {}", profile.source);
    }
    let of_drivers = Profile::builtin_names().filter_map(Profile::builtin).filter(is_of_driver);
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

/// The page is what the files of the repository make it.
#[test]
fn the_page_of_devices_is_current() {
    let read = |name: &str| std::fs::read_to_string(repository().join(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
    let compiled: Compiled = serde_json::from_str(&read(COMPILED)).expect("a result of cooplab compile");
    let current = page(&compiled, &read("docs/drivers.md"));
    assert!(current == read("docs/devices.md"), "stale: cooplab devices-page -o docs/devices.md");
    for name in Profile::builtin_names() {
        assert!(current.contains(&format!("| {name} |")), "{name}");
    }
    let gpus = gpus().expect("the script runs");
    for run in [&compiled.corpus, &compiled.generated] {
        assert!(run.tally.devices().eq(sorted(&gpus)), "cooplab compile --gpu all --output FILE");
    }
}

fn sorted(gpus: &[String]) -> impl Iterator<Item = &str> {
    let mut names: Vec<&str> = gpus.iter().map(String::as_str).collect();
    names.sort_unstable();
    names.into_iter()
}
