//! Logical devices with the features that a module needs.

use coop_ir::grammar::Kind;
use coop_ir::spv::Capability;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ffi::CString;

use ash::vk;
use coop_device::{
    ApiVersion, Feature, Features, Profile, Requirement, VulkanExtension, capability_requirement, spirv_extension,
};

use super::buffers::Spares;
use super::instance::Instance;
use super::{Physical, check, compile};
use crate::case::Case;
use crate::error::Error;
use crate::executor::RunOptions;
use crate::facts::{Entry, Facts};
use coop_device::vulkan::structs::{self, Chain, FEATURE_STRUCTS};

/// Features that cost nothing and that modules rely on without declaring a capability.
const SILENT: &[Feature] = &[
    Feature::ScalarBlockLayout,
    Feature::UniformBufferStandardLayout,
    Feature::ShaderSubgroupExtendedTypes,
    Feature::ShaderZeroInitializeWorkgroupMemory,
];

/// Likewise for modules with cooperative matrices: shapes, not capabilities, decide if these are needed.
const SILENT_WITH_MATRICES: &[Feature] = &[
    Feature::CooperativeMatrixRobustBufferAccess,
    Feature::CooperativeMatrixWorkgroupScope,
    Feature::CooperativeMatrixFlexibleDimensions,
    Feature::CooperativeMatrixProperties2,
];

/// The features and extensions that a run enables.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Needs {
    pub(super) features: Features,
    pub(super) extensions: BTreeSet<&'static str>,
}

impl Needs {
    /// Returns what a module and a case need; an error if the device lacks some of it.
    pub(super) fn new(
        facts: &Facts,
        entry: &Entry,
        case: &Case,
        options: &RunOptions,
        profile: &Profile,
        version: ApiVersion,
    ) -> Result<Needs, Error> {
        let mut collector = Collector { needs: Needs::default(), missing: Vec::new(), profile, version };
        collector.spirv_version(facts);
        for &capability in &facts.capabilities {
            collector.capability(capability);
        }
        for name in &facts.extensions {
            collector.extension(name);
        }
        collector.case(entry, case, options);
        collector.silent(&facts.capabilities);
        collector.finish()
    }

    /// Adds what any capability needs, as far as the device supports it, except robustness.
    pub(super) fn with_every_capability(mut self, profile: &Profile, version: ApiVersion) -> Result<Needs, Error> {
        let mut collector = Collector { needs: Needs::default(), missing: Vec::new(), profile, version };
        let capabilities: Vec<Capability> =
            Kind::Capability.enumerants().unwrap_or(&[]).iter().map(|e| Capability(e.value)).collect();
        capabilities.iter().for_each(|&capability| collector.capability(capability));
        for feature in [
            Feature::Maintenance4,
            Feature::BufferDeviceAddress,
            Feature::ComputeFullSubgroups,
            Feature::SubgroupSizeControl,
        ] {
            collector.feature(feature, "");
        }
        collector.silent(&capabilities);
        collector.missing.clear();
        let every = collector.finish()?;
        every.features.iter().for_each(|feature| self.features.insert(feature));
        self.extensions.extend(every.extensions);
        Ok(self)
    }
}

/// The features of robust buffer access: the first as the text of Vulkan 1.0 has it, the second with tight bounds.
const ROBUST: [Feature; 2] = [Feature::RobustBufferAccess, Feature::RobustBufferAccess2];

struct Collector<'a> {
    needs: Needs,
    missing: Vec<String>,
    profile: &'a Profile,
    version: ApiVersion,
}

impl Collector<'_> {
    fn spirv_version(&mut self, facts: &Facts) {
        let (major, minor) = facts.version;
        let vulkan = match (major, minor) {
            (1, 0) => 0,
            (1, 1..=3) => 1,
            (1, 4) if self.profile.has_extension("VK_KHR_spirv_1_4") => {
                self.require(VulkanExtension { name: "VK_KHR_spirv_1_4", core: Some(ApiVersion::new(1, 2)) });
                1
            }
            (1, 4 | 5) => 2,
            _ => 3,
        };
        if !self.version.at_least(1, vulkan) {
            let have = self.version;
            self.missing.push(format!("SPIR-V {major}.{minor} needs Vulkan 1.{vulkan}, the device has {have}"));
        }
    }

    fn capability(&mut self, capability: Capability) {
        let requirement = capability_requirement(capability);
        match requirement {
            Requirement::AnyOf(features) if requirement.is_met_by(self.profile) => {
                for &feature in features.iter().filter(|&&feature| self.profile.has(feature)) {
                    self.needs.features.insert(feature);
                    if feature == Feature::VariablePointers {
                        // Vulkan wants the lesser feature enabled with it.
                        self.needs.features.insert(Feature::VariablePointersStorageBuffer);
                    }
                }
            }
            Requirement::Extension(extension) if requirement.is_met_by(self.profile) => self.require(extension),
            _ if requirement.is_met_by(self.profile) => {}
            _ => {
                self.missing.push(format!("capability {capability} needs {requirement}"));
            }
        }
    }

    /// SPIR-V extensions that are not in the table may need nothing; the driver and the validation layer know.
    fn extension(&mut self, name: &str) {
        let Some(extension) = spirv_extension(name) else { return };
        if extension.is_core_in(self.version) || self.profile.has_extension(extension.name) {
            self.require(extension);
        } else {
            self.missing.push(format!("extension {name} needs the device extension {}", extension.name));
        }
    }

    fn require(&mut self, extension: VulkanExtension) {
        if !extension.is_core_in(self.version) {
            self.needs.extensions.insert(extension.name);
        }
    }

    fn case(&mut self, entry: &Entry, case: &Case, options: &RunOptions) {
        if entry.by_id {
            self.feature(Feature::Maintenance4, "LocalSizeId");
        }
        if case.needs_addresses() {
            self.feature(Feature::BufferDeviceAddress, "a buffer's address in the case");
        }
        if options.robust {
            self.feature(Feature::RobustBufferAccess, "robust buffer access");
            if self.profile.has(Feature::RobustBufferAccess2) {
                self.feature(Feature::RobustBufferAccess2, "robust buffer access");
            }
        }
        if case.full_subgroups {
            self.feature(Feature::ComputeFullSubgroups, "full-subgroups");
        }
        if let Some(size) = case.subgroup_size {
            self.feature(Feature::SubgroupSizeControl, "subgroup-size");
            let limits = &self.profile.limits;
            let (min, max) = (limits.min_subgroup_size, limits.max_subgroup_size);
            if !size.is_power_of_two() || !(min..=max).contains(&size) {
                self.missing.push(format!("subgroup-size {size} is not a power of two from {min} to {max}"));
            }
        }
    }

    fn feature(&mut self, feature: Feature, why: &str) {
        if self.profile.has(feature) {
            self.needs.features.insert(feature);
        } else {
            self.missing.push(format!("{why} needs feature {feature}"));
        }
    }

    fn silent<'c>(&mut self, capabilities: impl IntoIterator<Item = &'c Capability> + Clone) {
        let has = |capability| capabilities.clone().into_iter().any(|c| *c == capability);
        let mut add = |features: &[Feature]| {
            for &feature in features.iter().filter(|&&feature| self.profile.has(feature)) {
                self.needs.features.insert(feature);
            }
        };
        add(SILENT);
        if has(Capability::CooperativeMatrixKHR) {
            add(SILENT_WITH_MATRICES);
        }
        if has(Capability::WorkgroupMemoryExplicitLayoutKHR) {
            add(&[Feature::WorkgroupMemoryExplicitLayoutScalarBlockLayout]);
        }
    }

    fn finish(mut self) -> Result<Needs, Error> {
        if !self.missing.is_empty() {
            return Err(Error::Unsupported { device: self.profile.device.clone(), missing: self.missing });
        }
        for group in FEATURE_STRUCTS {
            let wanted = group.members.iter().flatten().any(|&feature| self.needs.features.has(feature));
            if wanted && !group.is_core_in(self.version) {
                self.needs.extensions.insert(group.extension);
            }
        }
        let also: Vec<_> = self.needs.extensions.iter().flat_map(|name| structs::extension_needs(name)).collect();
        self.needs.extensions.extend(also);
        Ok(self.needs)
    }
}

/// A logical device with one compute queue. Everything that is made from it borrows it.
pub(super) struct Device<'a> {
    pub(super) instance: &'a Instance,
    pub(super) raw: ash::Device,
    pub(super) queue: vk::Queue,
    pub(super) family: u32,
    /// True if the queue writes timestamps.
    pub(super) timestamps: bool,
    pub(super) memory: vk::PhysicalDeviceMemoryProperties,
    pub(super) profile: &'a Profile,
    pub(super) features: Features,
    extensions: BTreeSet<&'static str>,
    /// The buffers that are kept for later runs, if any are to be.
    pub(super) keeps: bool,
    pub(super) spares: RefCell<Spares>,
}

impl<'a> Device<'a> {
    /// Returns true if the device was made with what is needed. Robustness must match exactly, since it changes code.
    pub(super) fn has(&self, needs: &Needs) -> bool {
        ROBUST.iter().all(|robust| self.features.has(*robust) == needs.features.has(*robust))
            && needs.features.iter().all(|f| self.features.has(f))
            && needs.extensions.is_subset(&self.extensions)
    }

    /// Returns the needs together with what the device has.
    pub(super) fn and(&self, mut needs: Needs) -> Needs {
        let more = self.features.iter().filter(|f| !ROBUST.contains(f));
        more.for_each(|f| needs.features.insert(f));
        needs.extensions.extend(&self.extensions);
        needs
    }

    pub(super) fn new(
        instance: &'a Instance,
        physical: &'a Physical,
        needs: Needs,
        keeps: bool,
    ) -> Result<Device<'a>, Error> {
        // SAFETY: the physical device is one of the instance.
        let (families, memory) = unsafe {
            (
                instance.raw.get_physical_device_queue_family_properties(physical.handle),
                instance.raw.get_physical_device_memory_properties(physical.handle),
            )
        };
        let family = families.iter().position(|family| family.queue_flags.contains(vk::QueueFlags::COMPUTE));
        let Some(family) = family else {
            let device = physical.profile.device.clone();
            return Err(Error::Unsupported { device, missing: vec!["there is no queue for compute".into()] });
        };
        let timestamps = families[family].timestamp_valid_bits > 0;
        let family = family as u32;

        let mut chain = Chain::default();
        for group in FEATURE_STRUCTS {
            let on = |member: &Option<Feature>| u32::from(member.is_some_and(|feature| needs.features.has(feature)));
            let members: Vec<u32> = group.members.iter().map(on).collect();
            if members.contains(&1) {
                chain.push(group.s_type, &members);
            }
        }
        if needs.extensions.contains(compile::EXTENSION) {
            chain.push(compile::FEATURES, &[vk::TRUE]);
        }
        let mut features = vk::PhysicalDeviceFeatures2 { p_next: chain.head(), ..Default::default() };
        for (feature, on) in structs::core_features(&mut features.features) {
            *on = u32::from(needs.features.has(feature));
        }
        let names: Vec<CString> = needs.extensions.iter().filter_map(|name| CString::new(*name).ok()).collect();
        let names: Vec<_> = names.iter().map(|name| name.as_ptr()).collect();
        let queues = [vk::DeviceQueueCreateInfo::default().queue_family_index(family).queue_priorities(&[1.0])];
        let mut create = vk::DeviceCreateInfo::default().queue_create_infos(&queues).enabled_extension_names(&names);
        // Before 1.1 there is no chain; a module with matrices was refused by then.
        if physical.profile.api_version.at_least(1, 1) && instance.version.at_least(1, 1) {
            create = create.push_next(&mut features);
        } else {
            create = create.enabled_features(&features.features);
        }
        // SAFETY: all that `create` points to lives until the call returns, and the device has all that is enabled.
        let raw = unsafe { instance.raw.create_device(physical.handle, &create, None) };
        let raw = check("vkCreateDevice", raw)?;
        // SAFETY: the device has one queue of this family.
        let queue = unsafe { raw.get_device_queue(family, 0) };
        Ok(Device {
            instance,
            raw,
            queue,
            family,
            timestamps,
            memory,
            profile: &physical.profile,
            features: needs.features,
            extensions: needs.extensions,
            keeps,
            spares: RefCell::default(),
        })
    }
}

impl Drop for Device<'_> {
    fn drop(&mut self) {
        if !self.instance.abandoned.get() {
            // SAFETY: everything else made from the device borrows it and is gone; no work is pending.
            unsafe {
                self.spares.get_mut().destroy(&self.raw);
                self.raw.destroy_device(None);
            }
        }
    }
}
