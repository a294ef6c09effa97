//! Whether the device runs what a lowering made for it.
//!
//! Asked of matrices only, since scalar code is what is left where they can't be had. What a rule of the checker says about
//! devices besides is said there.

use crate::{Options, Refusal, Target, kernel};
use coop_device::{Profile, Requirement, spirv_extension};
use coop_ir::constant::{Constants, Specialization};
use coop_ir::decorate::Decorations;
use coop_ir::entry::entry_points;
use coop_ir::{InstRef, Kind, Module, Op};

/// Refuses an output with matrices that the device of the options does not run.
pub(crate) fn check(output: &Module, options: &Options<'_>) -> Result<(), Refusal> {
    let Some(profile) = options.profile.filter(|_| options.target != Target::Scalar) else { return Ok(()) };
    // What OpenCL takes is not in the tables.
    if kernel::is_kernel(output) {
        return Ok(());
    }
    let lacking =
        capability(output, profile).or_else(|| extension(output, profile)).or_else(|| workgroup(output, profile));
    match lacking {
        Some((at, why)) => {
            let why = format!("{} does not run the output: {why}", profile.name);
            Err(Refusal::new(
                "refused-device",
                Some(at),
                why,
                "lower for a device that has it, or with --target scalar",
            ))
        }
        None => Ok(()),
    }
}

fn capability(m: &Module, profile: &Profile) -> Option<(InstRef, String)> {
    m.globals_with(Op::Capability).find_map(|r| {
        let capability = m.inst(r).word(0)?;
        let name = Kind::Capability.enumerant(capability).map_or_else(|| capability.to_string(), |e| e.name.to_owned());
        match profile.check_capability(capability) {
            Ok(()) => None,
            Err(Requirement::NeverInVulkan) => Some((r, format!("Vulkan has no feature for capability {name}"))),
            Err(requirement) => Some((r, format!("capability {name} needs {requirement}"))),
        }
    })
}

fn extension(m: &Module, profile: &Profile) -> Option<(InstRef, String)> {
    m.globals_with(Op::Extension).find_map(|r| {
        let (name, _) = m.inst(r).string(0)?;
        let extension = spirv_extension(&name)?;
        let has = extension.is_core_in(profile.api_version) || profile.has_extension(extension.name);
        (!has).then(|| (r, format!("{name} comes with {}", extension.name)))
    })
}

fn workgroup(m: &Module, profile: &Profile) -> Option<(InstRef, String)> {
    let limits = &profile.limits;
    let constants = Constants::new(m, &Specialization::new());
    entry_points(m, &Decorations::new(m)).into_iter().find_map(|entry| {
        let size = entry.workgroup_size?;
        // What is not known is at least 1.
        let extents = size.values(&constants).map(|v| v.fixed().unwrap_or(1));
        let most = limits.max_compute_work_group_size.map(u64::from);
        let invocations = extents.into_iter().fold(1, u64::saturating_mul);
        let too_long = extents.iter().zip(most).find(|(n, most)| **n > *most);
        let limit = u64::from(limits.max_compute_work_group_invocations);
        let why = match too_long {
            Some((n, most)) => format!("{n} invocations in one dimension of a workgroup, and it has up to {most}"),
            None if invocations > limit => {
                format!("{invocations} invocations in a workgroup, and it has up to {limit}")
            }
            None => return None,
        };
        Some((size.at, why))
    })
}
