//! Shows how an engine uses a shader that a driver may not be able to run: as it is, or lowered.
//!
//!     cargo run --example fallback -- shader.spv mesa-lavapipe 0=64 1=64
//!
//! An engine fills in a [`Profile`] from Vulkan's queries (`coop_exec` does that with ash, `cooprun profile` writes
//! one), and does this where it makes a pipeline, with the values of specialization constants that it gives the
//! pipeline.

use coop_device::Profile;
use coop_ir::constant::{SpecValue, Specialization};
use coop_ir::{Module, binary};
use coop_passes::{Target, lower};
use coop_validate::{Device, Level, check_device};
use std::error::Error;
use std::sync::Arc;

/// The shader of the pipeline.
pub(crate) struct Shader {
    /// The module's words.
    pub(crate) spirv: Vec<u8>,
    /// The subgroup size that the pipeline must require (VkPipelineShaderStageRequiredSubgroupSizeCreateInfo).
    pub(crate) subgroup_size: Option<u32>,
    /// True if it must require full subgroups (VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT).
    pub(crate) full_subgroups: bool,
    /// The target of the lowering and the reason for it; none if the device runs the module as it is.
    pub(crate) lowered: Option<(String, String)>,
}

/// The module to give to a device. Bindings, push constants and workgroup size are the same in any case; a constant that the lowering
/// took the value of is gone from the module, and giving it again does no harm.
pub(crate) fn shader_for(spirv: &[u8], device: &Profile, spec: &Specialization) -> Result<Shader, Box<dyn Error>> {
    let module = binary::read(spirv)?;

    let Some(lacking) = lacking(&module, device, None, spec) else {
        return Ok(Shader { spirv: spirv.to_vec(), subgroup_size: None, full_subgroups: false, lowered: None });
    };

    let mut options = coop_passes::Options::new(Target::Auto);
    options.profile = Some(device);
    options.spec = spec.clone();
    // As in a pipeline: constants that are given no value have their defaults.
    options.spec_defaults = true;
    let lowered = lower(&module, &options)?;
    // Matrices are not all that a device can lack.
    if let Some(still) = self::lacking(&lowered.module, device, lowered.report.required_subgroup_size, spec) {
        return Err(format!("lowered to {}: {still}", lowered.report.target).into());
    }
    Ok(Shader {
        spirv: binary::write(&lowered.module),
        subgroup_size: lowered.report.required_subgroup_size,
        full_subgroups: lowered.report.full_subgroups,
        lowered: Some((lowered.report.target, lacking)),
    })
}

/// Returns the reasons why the device does not run a module.
fn lacking(module: &Module, device: &Profile, subgroup_size: Option<u32>, spec: &Specialization) -> Option<String> {
    let mut rules = coop_validate::Options::default();
    rules.specialization = spec.clone();
    rules.device = Some(Arc::new(Device { subgroup_size, ..Device::new(device.clone()) }));
    let findings = check_device(module, &rules).findings;
    findings.into_iter().find(|f| f.level == Level::Error).map(|f| f.message)
}

#[allow(dead_code, clippy::print_stdout, reason = "a program; a test takes the rest of this file")]
fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(path), Some(name)) = (args.next(), args.next()) else {
        return Err("usage: fallback SHADER.spv PROFILE [SPECID=VALUE]...".into());
    };
    let device = Profile::builtin(&name).ok_or("no such profile")?;
    let mut spec = Specialization::new();
    for pair in args {
        let (id, value) = pair.split_once('=').ok_or("not SPECID=VALUE")?;
        spec.set(id.parse()?, SpecValue::parse(value).ok_or("not a value")?);
    }
    let shader = shader_for(&std::fs::read(path)?, &device, &spec)?;
    match shader.lowered {
        None => println!("runs on {name} as it is"),
        Some((target, why)) => println!(
            "lowered to {target}, {} bytes, since {why}; subgroups of {:?}, full: {}",
            shader.spirv.len(),
            shader.subgroup_size,
            shader.full_subgroups
        ),
    }
    Ok(())
}
