//! `cooprun devices` and `cooprun profile`: list the Vulkan devices and write their profiles.

use std::fmt::Write;
use std::path::PathBuf;

use clap::Args;
use coop_device::{Feature, MatrixProperties, Profile};
use coop_exec::{Error, Vulkan};

use super::{DeviceArgs, Failure, print, write_text};
use crate::Status;

#[derive(Args, Debug)]
pub(super) struct Devices {
    /// Print every device's profile as one JSON list
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
pub(super) struct WriteProfile {
    #[command(flatten)]
    device: DeviceArgs,
    /// The name of the profile
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// The file to write
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

impl Devices {
    pub(super) fn json(&self) -> bool {
        self.json
    }

    pub(super) fn run(&self) -> Result<Status, Failure> {
        let vulkan = Vulkan::open(false)?;
        if vulkan.profiles().len() == 0 {
            return Err(Error::NoDevice.into());
        }
        if self.json {
            let profiles: Vec<String> = vulkan.profiles().map(Profile::to_json).collect();
            print(&format!("[\n{}]", profiles.join(",\n")));
        } else {
            let descriptions: Vec<String> =
                vulkan.profiles().enumerate().map(|(index, profile)| describe(index, profile)).collect();
            print(&descriptions.join("\n"));
        }
        Ok(Status::Success)
    }
}

impl WriteProfile {
    pub(super) fn run(&self) -> Result<Status, Failure> {
        let vulkan = self.device.open()?;
        let mut profile = self.device.executor(&vulkan)?.profile().clone();
        profile.name = self.name.clone().unwrap_or_else(|| slug(&profile.device));
        profile.source = format!("cooprun {}", env!("CARGO_PKG_VERSION"));
        write_text(self.output.as_deref(), &profile.to_json())?;
        Ok(Status::Success)
    }
}

/// Returns a profile name from the device's: lower case, one dash for each run of characters that are neither letters
/// nor digits.
fn slug(device: &str) -> String {
    let words: Vec<&str> = device.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()).collect();
    words.join("-").to_lowercase()
}

fn describe(index: usize, profile: &Profile) -> String {
    let limits = &profile.limits;
    let mut text = format!(
        "{index}: {}\n   Vulkan {}, driver {} {}\n",
        profile.device, profile.api_version, profile.driver, profile.driver_info
    );
    let mut line = |name: &str, value: String| {
        let _ = writeln!(text, "   {name:<22} {value}");
    };
    let sizes = match (limits.min_subgroup_size, limits.max_subgroup_size) {
        (min, max) if min == max => format!("{min}"),
        (min, max) => format!("{} ({min} to {max})", limits.subgroup_size),
    };
    line("subgroup size", format!("{sizes}; {}", limits.subgroup_supported_operations));
    let [x, y, z] = limits.max_compute_work_group_size;
    let invocations = limits.max_compute_work_group_invocations;
    line(
        "workgroup",
        format!("{x} x {y} x {z}, {invocations} invocations, {} bytes shared", limits.max_compute_shared_memory_size),
    );
    line("scalar types", names(profile, SCALARS));
    line("storage", names(profile, STORAGE));
    line("matrices", names(profile, MATRICES));
    for row in grouped(&profile.khr_properties) {
        line("  size", row);
    }
    let flexible: Vec<MatrixProperties> = profile.flexible_properties.iter().map(|row| row.granularity).collect();
    for row in grouped(&flexible) {
        line("  multiples of", row);
    }
    text
}

type Named = &'static [(Feature, &'static str)];

const SCALARS: Named = &[
    (Feature::ShaderFloat16, "f16"),
    (Feature::ShaderFloat64, "f64"),
    (Feature::ShaderBFloat16Type, "bf16"),
    (Feature::ShaderFloat8, "fp8"),
    (Feature::ShaderInt8, "int8"),
    (Feature::ShaderInt16, "int16"),
    (Feature::ShaderInt64, "int64"),
];

const STORAGE: Named = &[
    (Feature::StorageBuffer8BitAccess, "8-bit"),
    (Feature::StorageBuffer16BitAccess, "16-bit"),
    (Feature::BufferDeviceAddress, "addresses"),
    (Feature::VulkanMemoryModel, "Vulkan memory model"),
    (Feature::WorkgroupMemoryExplicitLayout, "explicit layout of shared memory"),
];

const MATRICES: Named = &[
    (Feature::CooperativeMatrix, "KHR"),
    (Feature::CooperativeMatrixNv, "NV 1"),
    (Feature::ShaderBFloat16CooperativeMatrix, "bf16"),
    (Feature::ShaderFloat8CooperativeMatrix, "fp8"),
    (Feature::CooperativeMatrixWorkgroupScope, "workgroup scope"),
    (Feature::CooperativeMatrixFlexibleDimensions, "flexible dimensions"),
    (Feature::CooperativeMatrixReductionsNv, "reductions"),
    (Feature::CooperativeMatrixConversionsNv, "conversions"),
    (Feature::CooperativeMatrixPerElementOperationsNv, "per-element operations"),
    (Feature::CooperativeMatrixTensorAddressing, "tensor addressing"),
    (Feature::CooperativeMatrixBlockLoads, "block loads"),
    (Feature::CooperativeMatrixDecodeVector, "decode vectors"),
    (Feature::CooperativeMatrixProperties2, "maintenance1"),
];

fn names(profile: &Profile, named: Named) -> String {
    let present: Vec<&str> = named.iter().filter(|(feature, _)| profile.has(*feature)).map(|(_, name)| *name).collect();
    if present.is_empty() { "none".into() } else { present.join(", ") }
}

/// Returns one line for each set of types and scope, followed by the sizes.
fn grouped(rows: &[MatrixProperties]) -> Vec<String> {
    let mut groups: Vec<(String, Vec<String>)> = Vec::new();
    for row in rows {
        let saturating = if row.saturating { ", saturating" } else { "" };
        let key = format!("{} x {} + {} -> {}, {}{saturating}", row.a, row.b, row.c, row.result, row.scope);
        let size = format!("{}x{}x{}", row.m, row.n, row.k);
        match groups.iter_mut().find(|(other, _)| *other == key) {
            Some((_, sizes)) if sizes.contains(&size) => {}
            Some((_, sizes)) => sizes.push(size),
            None => groups.push((key, vec![size])),
        }
    }
    groups.into_iter().map(|(key, sizes)| format!("{}: {key}", sizes.join(" "))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_names_what_matters() {
        let text = describe(3, &Profile::builtin("nvidia-h100").unwrap());
        for part in [
            "3: NVIDIA H100",
            "subgroup size",
            "32;",
            "16x16x16 16x8x16 16x8x8: f16 x f16 + f16 -> f16, subgroup",
            "tensor addressing",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
        assert_eq!(slug("llvmpipe (LLVM 22.1.8, 256 bits)"), "llvmpipe-llvm-22-1-8-256-bits");
    }
}
