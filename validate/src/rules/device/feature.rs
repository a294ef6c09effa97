//! Versions, extensions, capabilities and the features behind them.

use super::{NOT_JUDGED, On};
use crate::declare_rule;
use crate::report::{Draft, Part, Sink};
use coop_device::{Feature, Requirement, spirv_extension};
use coop_ir::extensions::is_matrix_extension;
use coop_ir::spv::Capability;
use coop_ir::{InstRef, Op};

declare_rule! {
    /// ## What it checks
    /// With a device: the module's version is one that the device's Vulkan version takes.
    /// ## Why
    /// Vulkan 1.1 takes SPIR-V 1.3, with VK_KHR_spirv_1_4 1.4, Vulkan 1.2 SPIR-V 1.5, Vulkan 1.3 SPIR-V 1.6.
    /// ## Example
    /// A module of SPIR-V 1.6 for a device with Vulkan 1.2.
    pub(crate) static VERSION = {
        id: "device-spirv-version",
        summary: "the device does not take the module's version",
        level: Error,
        since: "0.2.0",
        spec: "Vulkan, Vulkan Environment for SPIR-V",
        vuids: [],
        digest: ["vk.ext-enabled"],
    }
}

declare_rule! {
    /// ## What it checks
    /// With a device: it has the Vulkan extension behind each `OpExtension`.
    /// ## Why
    /// A SPIR-V extension may be used only when the Vulkan extension that brings it is enabled.
    /// ## Example
    /// `OpExtension "SPV_NV_cooperative_matrix2"` for a device without VK_NV_cooperative_matrix2.
    pub(crate) static EXTENSION = {
        id: "device-extension",
        summary: "the device lacks an extension",
        level: Error,
        since: "0.2.0",
        spec: "Vulkan, Vulkan Environment for SPIR-V",
        vuids: ["VUID-VkShaderModuleCreateInfo-pCode-08742"],
        digest: ["vk.ext-enabled"],
    }
}

declare_rule! {
    /// ## What it checks
    /// With a device: it has the feature behind each capability. ARM's layouts and Intel's capabilities have none in
    /// Vulkan.
    /// ## Why
    /// A capability may be declared only when a feature that enables it is enabled.
    /// ## Example
    /// `OpCapability CooperativeMatrixTensorAddressingNV` for a device without cooperativeMatrixTensorAddressing.
    pub(crate) static CAPABILITY = {
        id: "device-capability",
        summary: "the device lacks the feature behind a capability",
        level: Error,
        since: "0.2.0",
        spec: "Vulkan, Vulkan Environment for SPIR-V",
        vuids: ["VUID-VkShaderModuleCreateInfo-pCode-08740"],
        digest: ["vk.cap-feature", "vk.vendor-unsupported", "vk.decode-needs-blockloads"],
    }
}

declare_rule! {
    /// ## What it checks
    /// With a device: block sizes of tensor layouts are set only if it has cooperativeMatrixBlockLoads, also without a
    /// decode function.
    /// ## Why
    /// SPIR-V ties only the decode function to a capability; Vulkan's feature is described as one for block sizes too.
    /// ## Example
    /// `OpTensorLayoutSetBlockSizeNV` for a device without cooperativeMatrixBlockLoads.
    pub(crate) static BLOCKS = {
        id: "device-block-size",
        summary: "block sizes for a device without block loads",
        level: Warning,
        since: "0.2.0",
        spec: "VK_NV_cooperative_matrix2, cooperativeMatrixBlockLoads",
        vuids: [],
        digest: ["vk.cap-feature"],
    }
}

pub(super) fn check(on: &mut On, out: &mut Sink) {
    if on.is_vulkan() {
        version(on, out);
        extensions(on, out);
    }
    capabilities(on, out);
    blocks(on, out);
}

fn version(on: &On, out: &mut Sink) {
    let (cx, name) = (on.cx, on.device.name());
    let first = cx.module.globals.first().copied();
    let version = cx.module.header.version_pair();
    let api = on.device.profile.api_version;
    let takes = on.device.profile.spirv_version();
    if let Some(at) = first
        && version > takes
    {
        out.report(&VERSION, at, || {
            let (major, minor) = version;
            Draft::new(format!(
                "the module is SPIR-V {major}.{minor}; {name} has Vulkan {api}, which takes up to {}.{}",
                takes.0, takes.1
            ))
            .label(at, Part::Whole, format!("a module of SPIR-V {major}.{minor}"))
            .help("compile for an older Vulkan")
        });
    }
}

fn extensions(on: &On, out: &mut Sink) {
    let (cx, profile, name) = (on.cx, &on.device.profile, on.device.name());
    for at in cx.module.globals_with(Op::Extension) {
        let Some((spv, _)) = cx.inst(at).string(0) else { continue };
        let Some(extension) = spirv_extension(&spv) else {
            // If Vulkan does not have the extension, the capabilities of matrix extensions report it.
            if !is_matrix_extension(&spv) {
                not_judged(on, at, &format!("the Vulkan extension for {spv} is not known"), out);
            }
            continue;
        };
        if extension.is_core_in(profile.api_version) || profile.has_extension(extension.name) {
            continue;
        }
        out.report(&EXTENSION, at, || {
            Draft::new(format!("{spv} comes with {}, which {name} does not have", extension.name)).label(
                at,
                Part::Whole,
                format!("needs {}", extension.name),
            )
        });
    }
}

fn capabilities(on: &On, out: &mut Sink) {
    let (cx, profile, name) = (on.cx, &on.device.profile, on.device.name());
    for at in cx.module.globals_with(Op::Capability) {
        let Some(capability) = cx.inst(at).enumerant::<Capability>(0) else { continue };
        let requirement = profile.requirement_of(capability);
        if requirement == Requirement::Unknown {
            let why = format!("the requirements of capability {capability} are not known");
            not_judged(on, at, &why, out);
        }
        if requirement.is_met_by(profile) {
            continue;
        }
        out.report(&CAPABILITY, at, || {
            let draft = match requirement {
                Requirement::NeverInVulkan => Draft::new(format!("Vulkan has no feature for capability {capability}"))
                    .help("lower the module: `coopcheck devices` shows the targets"),
                _ => Draft::new(format!("capability {capability} needs {requirement}, which {name} does not have")),
            };
            draft.label(at, Part::Whole, format!("not on {name}"))
        });
    }
}

fn not_judged(on: &On, at: InstRef, why: &str, out: &mut Sink) {
    out.report(&NOT_JUDGED, at, || {
        Draft::new(format!("not judged for {}: {why}", on.device.name())).label(at, Part::Whole, "in no table")
    });
}

fn blocks(on: &On, out: &mut Sink) {
    if on.device.profile.has(Feature::CooperativeMatrixBlockLoads) {
        return;
    }
    for &at in &on.cx.body {
        if on.cx.inst(at).op == Op::TensorLayoutSetBlockSizeNV {
            out.report(&BLOCKS, at, || {
                Draft::new(format!(
                    "block sizes belong to feature cooperativeMatrixBlockLoads, which {} does not have",
                    on.device.name()
                ))
                .label(at, Part::Whole, "sets block sizes")
            });
        }
    }
}
