//! The page of devices: what each has, what was compiled and executed there, and what is known to be wrong.
//!
//! Everything on it is made of files of the repository: the built-in profiles, the result of `cooplab compile` that is kept in
//! `testdata/devices/compiled.json`, and the headings of the page of drivers. A test makes it anew and compares.

use std::collections::BTreeMap;
use std::fmt::Write;

use coop_device::{Api, Feature, Limits, Profile};
use serde::{Deserialize, Serialize};

use crate::compile::Tally;
use crate::profiles::{is_of_driver, name_of};

/// The file of the results, in the repository.
pub const COMPILED: &str = "testdata/devices/compiled.json";

/// The results of `cooplab compile` that are kept.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Compiled {
    /// That of the modules of the repository and of llama.cpp.
    pub corpus: Run,
    /// That of generated modules.
    pub generated: Run,
}

/// A result of `cooplab compile`.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Run {
    /// The command.
    pub command: String,
    /// Its date.
    pub date: String,
    /// The fates.
    pub tally: Tally,
}

/// Runs on devices, by profile, and where to read about them. Nothing ran on the others.
const EXECUTED: [(&str, &str); 5] = [
    ("intel-opencl-cpu", "kernels of OpenCL: [dialects.md](dialects.md)"),
    (
        "mesa-lavapipe",
        "every test that runs a module, and campaigns: [drivers.md](drivers.md#generated-modules-on-devices)",
    ),
    (
        "mesa-lavapipe-debian12",
        "every test of scalar code, and a campaign: [drivers.md](drivers.md#generated-modules-on-devices)",
    ),
    (
        "nvidia-h100",
        "modules of testdata/hardware ([hardware.md](hardware.md)), engines and figures ([evidence.md](evidence.md), \
         [performance.md](performance.md)), campaigns ([drivers.md](drivers.md#generated-modules-on-devices))",
    ),
    (
        "google-swiftshader",
        "kernels, cases of llama.cpp's and generated modules, as scalar code without component types: \
         [component-types.md](component-types.md), [drivers.md](drivers.md#swiftshader-ends-at-pointers-that-become-pointers-of-another-type)",
    ),
];

/// The words of headings on the page of drivers that name the drivers of profiles: the beginning of the profile's driver, in
/// lower case, and the words.
const WRONG: [(&str, &[&str]); 8] = [
    ("llvmpipe", &["lavapipe"]),
    ("nvidia", &["NVIDIA"]),
    ("radv", &["RADV", "Drivers end"]),
    ("nvk", &["NVK", "Drivers end"]),
    ("turnip", &["Turnip"]),
    ("honeykrisp", &["Honeykrisp"]),
    ("intel open-source", &["Intel's driver", "Drivers end"]),
    ("swiftshader", &["SwiftShader"]),
];

/// Returns the page; `drivers` is the text of the page of drivers.
pub fn page(compiled: &Compiled, drivers: &str) -> String {
    let profiles: Vec<Profile> = Profile::builtin_names().filter_map(Profile::builtin).collect();
    let mut text = format!(
        "# Devices\n\n\
         What the built-in profiles say of each device, what its compiler made of the modules of this repository, what was executed, and what is\n\
         known to be wrong. `cooplab devices-page -o docs/devices.md` writes this page of the profiles, of {COMPILED} and of\n\
         [drivers.md](drivers.md); a test fails when it is stale.\n\n\
         Where a profile comes from: *measured*, read from the driver on the device; *driver*, read from the driver without the device, whose compiler\n\
         is the real one and which executes nothing (`scripts/drivers.sh gpus`); *published*, from documents and sources that the profile names.\n\n\
         ## What they have\n\n\
         | profile | device | driver | origin | subgroups | shared memory | numbers | matrices |\n|---|---|---|---|---|---|---|---|\n"
    );
    for profile in &profiles {
        let Limits { min_subgroup_size: min, max_subgroup_size: max, max_compute_shared_memory_size: shared, .. } =
            profile.limits;
        let sizes = if min == max { min.to_string() } else { format!("{min} to {max}") };
        let info = profile.driver_info.trim();
        let origin = if is_of_driver(profile) { "driver".to_owned() } else { profile.origin.to_string() };
        let _ = writeln!(
            text,
            "| {} | {} | {} {info} | {} | {sizes} | {} KiB | {} | {} |",
            profile.name,
            profile.device.trim(),
            profile.driver,
            origin,
            shared / 1024,
            numbers(profile),
            matrices(profile)
        );
    }
    text.push_str(&compiled_part(&compiled.corpus, &profiles));
    text.push_str(&generated_part(&compiled.generated));
    text.push_str("\n## What was executed\n\n");
    for profile in &profiles {
        let known = EXECUTED.iter().find(|(name, _)| *name == profile.name);
        if let Some((name, what)) = known {
            let _ = writeln!(text, "- {name}: {what}.");
        }
    }
    text.push_str(
        "- All others: nothing. Their code was lowered and run in the interpreter and on the devices above.\n",
    );
    text.push_str(&wrong_part(&profiles, drivers));
    text.push_str(
        "\n## Figures\n\n\
         Speed was measured on H100 and H200 ([evidence.md](evidence.md), [performance.md](performance.md)). Of GPUs that are not there, the compilers say how many instructions run:\n\
         [performance.md](performance.md#what-amds-compiler-says). `cooprun compile` prints them for any module.\n",
    );
    text
}

/// Returns the kinds of numbers that shaders compute with and store.
fn numbers(profile: &Profile) -> String {
    let names = [
        (Feature::ShaderFloat16, "f16"),
        (Feature::ShaderBFloat16Type, "bf16"),
        (Feature::ShaderFloat8, "fp8"),
        (Feature::ShaderInt8, "int8"),
        (Feature::ShaderInt16, "int16"),
        (Feature::ShaderInt64, "int64"),
        (Feature::ShaderFloat64, "f64"),
        (Feature::StorageBuffer8BitAccess, "8-bit storage"),
        (Feature::StorageBuffer16BitAccess, "16-bit storage"),
    ];
    let has = names.iter().filter(|(feature, _)| profile.has(*feature)).map(|(_, name)| *name);
    let all: Vec<&str> = has.collect();
    if all.is_empty() { "32-bit only".to_owned() } else { all.join(", ") }
}

/// Returns the lists of matrices in short: the sizes for each type of factors.
fn matrices(profile: &Profile) -> String {
    let mut by_type: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for row in &profile.khr_properties {
        let sizes = by_type.entry(row.a.to_string()).or_default();
        let size = format!("{}x{}x{}", row.m, row.n, row.k);
        if !sizes.contains(&size) {
            sizes.push(size);
        }
    }
    let mut parts: Vec<String> = by_type.iter().map(|(ty, sizes)| format!("{ty} {}", sizes.join(" "))).collect();
    if !profile.flexible_properties.is_empty() {
        parts.push("flexible dimensions".to_owned());
    }
    if !profile.slow_matrices.is_empty() {
        parts.push("slow".to_owned());
    }
    match (parts.is_empty(), profile.api) {
        (false, _) => parts.join("; "),
        (true, Api::OpenCl) => "of SPV_INTEL_joint_matrix".to_owned(),
        (true, Api::Vulkan) => "none".to_owned(),
    }
}

fn compiled_part(compiled: &Run, profiles: &[Profile]) -> String {
    let renamed: Vec<String> = compiled
        .tally
        .devices()
        .filter(|gpu| name_of(gpu) != *gpu)
        .map(|gpu| format!("{gpu} has the profile {}", name_of(gpu)))
        .collect();
    let renamed = renamed.join(", ");
    let mut text = format!(
        "\n## What was compiled\n\n\
         `{}` on {}: every module is given to a driver's compiler as an engine would give it, as it is where the device runs it, else lowered; `khr` and\n\
         `scalar` lower in any case. *refused*: by us, with a reason and a remedy, counted by rule; the other columns after it are what needs a look.\n\
         Compiling says nothing about results. {renamed}.\n\n",
        compiled.command, compiled.date
    );
    text.push_str(&compiled.tally.table());
    let troubles: Vec<String> = compiled
        .tally
        .troubles()
        .map(|(device, target, module, fate)| {
            format!("- {device}, {target}, {module}: {}", fate.to_string().replace('\n', "; "))
        })
        .collect();
    if !troubles.is_empty() {
        let _ = writeln!(text, "\nNot made, and not by a refusal of ours:\n\n{}", troubles.join("\n"));
    }
    let without: Vec<&str> = profiles
        .iter()
        .filter(|p| !is_of_driver(p) || compiled.tally.devices().all(|gpu| name_of(gpu) != p.name))
        .map(|p| p.name.as_str())
        .collect();
    let _ = writeln!(text, "\nNot in this run: {}.", without.join(", "));
    text
}

fn generated_part(run: &Run) -> String {
    let mut text = format!(
        "\n## What was compiled of generated modules\n\n\
         `{}` on {}: modules of all dialects, half of them with the sizes that NVIDIA's devices have, in batches.\n\n{}",
        run.command,
        run.date,
        run.tally.table()
    );
    // One module for each kind of trouble.
    let mut kinds: BTreeMap<(&str, &str, String), (u64, &str)> = BTreeMap::new();
    for (device, target, module, fate) in run.tally.troubles() {
        let kind = fate.to_string().replace('\n', "; ").trim_end().to_owned();
        kinds.entry((device, target, kind)).or_insert((0, module)).0 += 1;
    }
    text.push_str("\nNot made, and not by a refusal of ours ([drivers.md](drivers.md) says why):\n\n");
    for ((device, target, kind), (count, module)) in kinds {
        let _ = writeln!(text, "- {device}, {target}: {count}, as {module}: {kind}");
    }
    text
}

fn wrong_part(profiles: &[Profile], drivers: &str) -> String {
    let mut text = "\n## What is known to be wrong\n\n".to_owned();
    let headings: Vec<&str> = drivers.lines().filter_map(|line| line.strip_prefix("## ")).collect();
    let mut seen: Vec<&str> = Vec::new();
    for profile in profiles {
        let driver = profile.driver.to_lowercase();
        let Some((name, words)) = WRONG.iter().find(|(name, _)| driver.starts_with(name)) else { continue };
        if seen.contains(name) {
            continue;
        }
        seen.push(name);
        for heading in headings.iter().filter(|heading| words.iter().any(|word| heading.contains(word))) {
            if !heading.starts_with("Not wrong") {
                let _ = writeln!(text, "- {}: [{heading}](drivers.md#{})", profile.driver, anchor(heading));
            }
        }
    }
    text
}

/// Returns the anchor of a heading in Markdown.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}
