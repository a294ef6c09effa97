//! Checks that a device supports the capabilities and extensions that a lowering to its matrices adds.
//!
//! Only additions of the lowering are checked: scalar code would need the rest too.

use crate::{Options, Refusal, Target};
use coop_device::{Profile, Requirement, spirv_extension};
use coop_ir::hash::FxHashSet;
use coop_ir::spv::Capability;
use coop_ir::{InstRef, Module, Op};

/// The drivers of NVIDIA's GPUs.
const NVIDIA: [&str; 2] = ["NVIDIA", "NVK"];

/// Returns true if the device is one of NVIDIA's, with either driver.
pub(crate) fn is_nvidia(profile: Option<&Profile>) -> bool {
    profile.is_some_and(|p| NVIDIA.contains(&p.driver.as_str()))
}

/// Refuses an output with matrices that needs a capability or extension that neither the input declares nor the device
/// supports.
pub(crate) fn check(input: &Module, output: &Module, options: &Options<'_>) -> Result<(), Refusal> {
    let Some(profile) = options.profile.filter(|_| options.target != Target::Scalar) else { return Ok(()) };
    // The tables do not cover OpenCL.
    if output.is_kernel() {
        return Ok(());
    }
    let declared: FxHashSet<Capability> = input.capabilities().collect();
    let capability = |r: InstRef| {
        let capability = output.inst(r).enumerant(0).filter(|c| !declared.contains(c))?;
        match profile.check_capability(capability).err()? {
            Requirement::NeverInVulkan => Some((r, format!("Vulkan has no feature for capability {capability}"))),
            requirement => Some((r, format!("capability {capability} needs {requirement}"))),
        }
    };
    let named: FxHashSet<String> = extensions(input).map(|(_, name)| name).collect();
    let extension = |(r, name): (InstRef, String)| {
        let extension = spirv_extension(&name).filter(|_| !named.contains(&name))?;
        let has = extension.is_core_in(profile.api_version) || profile.has_extension(extension.name);
        (!has).then(|| (r, format!("{name} comes with {}", extension.name)))
    };
    let lacking = output.globals_with(Op::Capability).find_map(capability);
    match lacking.or_else(|| extensions(output).find_map(extension)) {
        Some((at, why)) => {
            let why = format!("{} does not run what its matrices need: {why}", profile.name);
            Err(Refusal::new("refused-device", Some(at), why, "lower with --target scalar"))
        }
        None => Ok(()),
    }
}

fn extensions(m: &Module) -> impl Iterator<Item = (InstRef, String)> {
    m.globals_with(Op::Extension).filter_map(|r| Some((r, m.inst(r).string(0)?.0)))
}
