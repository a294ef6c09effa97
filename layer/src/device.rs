//! Logical devices: the features enabled in the driver, and the functions that the layer intercepts.

use std::collections::{BTreeSet, HashMap};
use std::ffi::{CStr, CString, c_char};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, PoisonError, RwLock};

use ash::vk;
use coop_device::vulkan::{EnabledFeatures, structs};
use coop_device::{ApiVersion, Feature, Profile};

use crate::cache::OutcomeCache;
use crate::chain::Copy;
use crate::ffi::{self, DeviceLink};
use crate::instance::{Instance, Key, Loaded, PhysicalDeviceState, instance_of};
use crate::log;
use crate::modules::Modules;

/// A device of an application.
pub(crate) struct Device {
    pub(crate) handle: vk::Device,
    pub(crate) instance: Arc<Instance>,
    next: vk::PFN_vkGetDeviceProcAddr,
    destroy: vk::PFN_vkDestroyDevice,
    /// The state of the layer for it: none for an application that enables no extension that the layer answers for.
    pub(crate) active: Option<LayerState>,
}

/// The state of the layer for a device with matrices.
pub(crate) struct LayerState {
    /// The device with what the driver was made to enable.
    pub(crate) target: coopmat::Device,
    pub(crate) modules: Modules,
    /// The cached outcomes of pipelines.
    pub(crate) outcomes: OutcomeCache,
    /// Pipelines so far, for names in the log and of dumps.
    pub(crate) pipelines: AtomicU64,
}

static DEVICES: LazyLock<RwLock<HashMap<Key, Arc<Device>>>> = LazyLock::new(RwLock::default);

/// Returns the device of a handle that the device dispatches.
///
/// # Safety
///
/// The handle is alive.
pub(crate) unsafe fn device_of(handle: vk::Device) -> Option<Arc<Device>> {
    // SAFETY: the caller's promise.
    let key = unsafe { Key::of(handle) };
    DEVICES.read().unwrap_or_else(PoisonError::into_inner).get(&key).cloned()
}

impl Device {
    /// Returns a function of what is behind this layer.
    pub(crate) fn function(&self, name: &CStr) -> Loaded {
        // SAFETY: the device is alive as long as it is in the table, and the name ends in zero.
        unsafe { (self.next)(self.handle, name.as_ptr()) }
    }

    /// A number for a pipeline.
    pub(crate) fn number(&self) -> u64 {
        self.active.as_ref().map_or(0, |active| active.pipelines.fetch_add(1, Ordering::Relaxed))
    }
}

/// Features that lowered modules use without the application's having asked for them: enabled where the device has them.
const USEFUL: &[Feature] = &[
    Feature::ShaderInt16,
    Feature::ShaderInt64,
    Feature::StorageBuffer16BitAccess,
    Feature::UniformAndStorageBuffer16BitAccess,
    Feature::StorageBuffer8BitAccess,
    Feature::UniformAndStorageBuffer8BitAccess,
    Feature::ShaderFloat16,
    Feature::ShaderInt8,
    Feature::ShaderSubgroupExtendedTypes,
    Feature::VulkanMemoryModel,
    Feature::VulkanMemoryModelDeviceScope,
    Feature::VariablePointersStorageBuffer,
    Feature::VariablePointers,
    Feature::ScalarBlockLayout,
    Feature::SubgroupSizeControl,
    Feature::ComputeFullSubgroups,
    Feature::Maintenance4,
    Feature::ShaderZeroInitializeWorkgroupMemory,
    Feature::WorkgroupMemoryExplicitLayout,
    Feature::WorkgroupMemoryExplicitLayoutScalarBlockLayout,
    Feature::WorkgroupMemoryExplicitLayout8BitAccess,
    Feature::WorkgroupMemoryExplicitLayout16BitAccess,
    Feature::ShaderReplicatedComposites,
    Feature::CooperativeMatrix,
    Feature::ShaderBFloat16Type,
    Feature::ShaderBFloat16CooperativeMatrix,
];

/// `vkCreateDevice`.
pub(crate) unsafe extern "system" fn create_device(
    physical: vk::PhysicalDevice,
    info: *const vk::DeviceCreateInfo<'_>,
    allocator: *const vk::AllocationCallbacks<'_>,
    out: *mut vk::Device,
) -> vk::Result {
    crate::guard::guard("vkCreateDevice", || {
        // SAFETY: the loader gives a valid create info with its link in the chain, and the application's own arguments.
        unsafe {
            let (Some(link), Some(instance)) = (ffi::take_link::<DeviceLink>((*info).p_next), instance_of(physical))
            else {
                return vk::Result::ERROR_INITIALIZATION_FAILED;
            };
            let create = (link.get_instance_proc_addr)(instance.raw.handle(), c"vkCreateDevice".as_ptr());
            let Some(create) = std::mem::transmute::<Loaded, Option<vk::PFN_vkCreateDevice>>(create) else {
                return vk::Result::ERROR_INITIALIZATION_FAILED;
            };
            let known = instance.physical(physical);
            let asked = EnabledFeatures::from_create_info(&*info);
            let ours = known.concerns(&asked);
            let (result, active) = if ours {
                let changed = PatchedCreateInfo::new(&*info, asked, &known);
                let result = create(physical, &raw const changed.info, allocator, out);
                (result, Some(LayerState::new(&changed, &known)))
            } else {
                (create(physical, info, allocator, out), None)
            };
            if result != vk::Result::SUCCESS {
                return result;
            }
            let next = link.get_device_proc_addr;
            let destroy = next(*out, c"vkDestroyDevice".as_ptr());
            let Some(destroy) = std::mem::transmute::<Loaded, Option<vk::PFN_vkDestroyDevice>>(destroy) else {
                return vk::Result::ERROR_INITIALIZATION_FAILED;
            };
            let name = &known.profile.device;
            match &active {
                Some(_) => log::info(format_args!("{name}: a device with matrices")),
                None => log::debug(format_args!("{name}: a device without matrices of the layer: left as it is")),
            }
            let device = Device { handle: *out, instance, next, destroy, active };
            DEVICES.write().unwrap_or_else(PoisonError::into_inner).insert(Key::of(*out), Arc::new(device));
            result
        }
    })
}

/// `vkDestroyDevice`.
pub(crate) unsafe extern "system" fn destroy_device(device: vk::Device, allocator: *const vk::AllocationCallbacks<'_>) {
    if device == vk::Device::null() {
        return;
    }
    crate::guard::guard("vkDestroyDevice", || {
        // SAFETY: the application's handle, alive until the call below.
        let key = unsafe { Key::of(device) };
        let gone = DEVICES.write().unwrap_or_else(PoisonError::into_inner).remove(&key);
        if let Some(gone) = gone {
            // SAFETY: the application's own arguments.
            unsafe { (gone.destroy)(device, allocator) };
        }
    });
}

impl LayerState {
    fn new(changed: &PatchedCreateInfo<'_>, known: &PhysicalDeviceState) -> LayerState {
        let target = coopmat::Device::from_profile(known.profile.restricted_to(&changed.enabled));
        // Here, and not for the first pipeline.
        target.hash();
        LayerState {
            target,
            modules: Modules::default(),
            outcomes: OutcomeCache::default(),
            pipelines: AtomicU64::new(0),
        }
    }
}

/// A create info without what only the layer has, and with what lowered modules use.
struct PatchedCreateInfo<'a> {
    info: vk::DeviceCreateInfo<'a>,
    /// The features enabled in the driver.
    enabled: EnabledFeatures,
    /// The chain that `info` points to.
    chain: Copy,
    names: Vec<*const c_char>,
    owned: Vec<CString>,
    core: Option<Box<vk::PhysicalDeviceFeatures>>,
}

impl<'a> PatchedCreateInfo<'a> {
    /// # Safety
    ///
    /// The create info is valid, and outlives what is made here.
    unsafe fn new(
        info: &vk::DeviceCreateInfo<'a>,
        asked: EnabledFeatures,
        known: &PhysicalDeviceState,
    ) -> PatchedCreateInfo<'a> {
        // The driver's own structures stay, with the layer's features off.
        let own = |name: &CStr| name.to_str().is_ok_and(|name| known.profile.has_extension(name));
        let unknown = |s_type: i32| known.added.iter().any(|a| a.features_type == s_type && !own(a.name));
        // SAFETY: the caller's promise.
        let chain = unsafe { Copy::new(info.p_next, unknown) };
        for left in &chain.left {
            let unknown = chain.unknown.unwrap_or_default();
            log::warn(format_args!(
                "structure {left} hangs on structure {unknown}, which is not known: the driver sees it"
            ));
        }
        // SAFETY: null or a structure.
        let core = unsafe { info.p_enabled_features.as_ref() }.map(|core| Box::new(*core));
        let mut changed =
            PatchedCreateInfo { info: *info, enabled: asked, chain, names: Vec::new(), owned: Vec::new(), core };
        changed.drop_ours(known);
        changed.add_useful(&known.profile);
        // SAFETY: the caller's promise.
        unsafe { changed.list_extensions(info, known) };
        changed.info.p_next = changed.chain.head();
        if let Some(core) = &changed.core {
            changed.info.p_enabled_features = &raw const **core;
        }
        changed
    }

    /// Turns features off that the driver has not though it has their structure.
    fn drop_ours(&mut self, known: &PhysicalDeviceState) {
        for addition in &known.added {
            for (index, (feature, _)) in addition.features.iter().enumerate() {
                if known.profile.has(*feature) {
                    continue;
                }
                if let Some(members) = self.chain.members(addition.features_type) {
                    members[index] = vk::FALSE;
                }
            }
        }
        let profile = &known.profile;
        self.enabled.features = self.enabled.features.iter().filter(|f| profile.has(*f)).collect();
        self.enabled.extensions.retain(|name| profile.has_extension(name));
    }

    fn add_useful(&mut self, profile: &Profile) {
        let version = profile.api_version;
        for &feature in USEFUL.iter().filter(|f| profile.has(**f)) {
            if !self.enabled.features.has(feature) && self.turn_on(feature, profile, version) {
                self.enabled.features.insert(feature);
            }
        }
    }

    /// Turns a feature on where the application's own structures have it, or else in one of its own.
    fn turn_on(&mut self, feature: Feature, profile: &Profile, version: ApiVersion) -> bool {
        if feature.structure() == "VkPhysicalDeviceFeatures" {
            return self.turn_core_on(feature);
        }
        for structure in structs::VERSION_STRUCTS {
            let Some((offset, _)) = structure.members.iter().find(|(_, f)| *f == feature) else { continue };
            // SAFETY: the application's chain is alive.
            if unsafe { self.chain.has(structure.s_type) } {
                let members = self.chain.members(structure.s_type);
                return members.is_some_and(|members| {
                    members[offset / 4 - 4] = vk::TRUE;
                    true
                });
            }
        }
        let groups = structs::FEATURE_STRUCTS.iter();
        for group in groups {
            let Some(index) = group.members.iter().position(|f| *f == Some(feature)) else { continue };
            let core = group.is_core_in(version);
            if !core && !profile.has_extension(group.extension) {
                continue;
            }
            if !core {
                self.enabled.extensions.insert(group.extension.to_owned());
            }
            // SAFETY: as above.
            if !unsafe { self.chain.has(group.s_type) } {
                self.chain.push(group.s_type, &vec![vk::FALSE; group.members.len()]);
            }
            return self.chain.members(group.s_type).is_some_and(|members| {
                members[index] = vk::TRUE;
                true
            });
        }
        false
    }

    fn turn_core_on(&mut self, feature: Feature) -> bool {
        let s_type = ffi::s_type::<vk::PhysicalDeviceFeatures2<'_>>();
        let on = |features: &mut vk::PhysicalDeviceFeatures| {
            structs::core_features(features).into_iter().find(|(f, _)| *f == feature).is_some_and(|(_, member)| {
                *member = vk::TRUE;
                true
            })
        };
        // SAFETY: the application's chain is alive.
        if unsafe { self.chain.has(s_type) } {
            let Some(members) = self.chain.members(s_type) else { return false };
            // SAFETY: what is behind `pNext` in that structure.
            return on(unsafe { &mut *members.as_mut_ptr().cast::<vk::PhysicalDeviceFeatures>() });
        }
        on(self.core.get_or_insert_default())
    }

    /// # Safety
    ///
    /// The create info is valid.
    unsafe fn list_extensions(&mut self, info: &vk::DeviceCreateInfo<'_>, known: &PhysicalDeviceState) {
        let mut listed = BTreeSet::new();
        for index in 0..info.enabled_extension_count as usize {
            // SAFETY: an array of that many strings.
            let name = unsafe { *info.pp_enabled_extension_names.add(index) };
            // SAFETY: as above.
            let text = unsafe { CStr::from_ptr(name) };
            let own = text.to_str().is_ok_and(|text| known.profile.has_extension(text));
            if own || !known.added.iter().any(|a| a.name == text) {
                self.names.push(name);
                listed.insert(text.to_string_lossy().into_owned());
            }
        }
        for name in self.enabled.extensions.difference(&listed) {
            if let Ok(name) = CString::new(name.as_str()) {
                self.owned.push(name);
            }
        }
        self.names.extend(self.owned.iter().map(|name| name.as_ptr()));
        self.info.enabled_extension_count = self.names.len() as u32;
        self.info.pp_enabled_extension_names = self.names.as_ptr();
    }
}
