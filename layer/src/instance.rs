//! Instances and physical devices: answers the queries of applications.

use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_void};
use std::sync::{Arc, LazyLock, Mutex, PoisonError, RwLock};

use ash::vk::{self, Handle};
use coop_device::vulkan::{EnabledFeatures, structs};
use coop_device::{ApiVersion, ComponentType, Feature, MatrixProperties, Profile, Scope};
use coopmat::Promise;

use crate::additions::{ADDITIONS, Addition, Group, HIDDEN, properties};
use crate::ffi::{self, Base, InstanceLink};
use crate::settings::{LAYER, Settings};
use crate::{chain, log};

/// Handles that the loader dispatches begin with a pointer that all objects of one instance, or of one device, share.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Key(usize);

impl Key {
    /// The key of a dispatchable handle.
    ///
    /// # Safety
    ///
    /// The handle is alive.
    pub(crate) unsafe fn of(handle: impl Handle) -> Key {
        // SAFETY: dispatchable handles are pointers to structures that begin with the loader's table.
        Key(unsafe { *(handle.as_raw() as *const usize) })
    }
}

/// An instance of an application.
pub(crate) struct Instance {
    pub(crate) raw: ash::Instance,
    pub(crate) settings: Settings,
    pub(crate) next: vk::PFN_vkGetInstanceProcAddr,
    next_physical: Option<ffi::GetPhysicalDeviceProcAddr>,
    /// Functions of physical devices as they were when the instance was made: later, older loaders answer with their own entry
    /// points, which lead to this layer again.
    early: HashMap<&'static CStr, Loaded>,
    /// The version that the application asked for.
    api_version: ApiVersion,
    submit_message: Option<vk::PFN_vkSubmitDebugUtilsMessageEXT>,
    physical: Mutex<HashMap<vk::PhysicalDevice, Arc<PhysicalDeviceState>>>,
}

/// A physical device, and what is added to it.
pub(crate) struct PhysicalDeviceState {
    /// The device without what is hidden.
    pub(crate) profile: Profile,
    /// The additions that the driver does not support, or whose support is hidden.
    pub(crate) added: Vec<&'static Addition>,
    /// The extensions whose modules may be lowered: those added, and with the setting `always_lower` the driver's own.
    lowered: Vec<&'static Addition>,
    pub(crate) promise: Promise,
}

/// The functions of physical devices that this layer calls, or passes on.
const EARLY: &[&CStr] = &[
    c"vkEnumerateDeviceExtensionProperties",
    c"vkGetPhysicalDeviceFeatures2",
    c"vkGetPhysicalDeviceFeatures2KHR",
    c"vkGetPhysicalDeviceProperties2",
    c"vkGetPhysicalDeviceProperties2KHR",
    c"vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR",
    c"vkGetPhysicalDeviceCooperativeMatrixPropertiesNV",
    c"vkGetPhysicalDeviceCooperativeMatrixFlexibleDimensionsPropertiesNV",
    c"vkGetPhysicalDeviceCooperativeMatrixProperties2EXT",
];

/// `vkGetInstanceProcAddr` of what is behind this layer, for who asks devices on its behalf.
unsafe extern "system" fn behind(instance: vk::Instance, name: *const c_char) -> Loaded {
    // SAFETY: an instance of the table's, and a string.
    unsafe { instance_of(instance)?.function(CStr::from_ptr(name)) }
}

static INSTANCES: LazyLock<RwLock<HashMap<Key, Arc<Instance>>>> = LazyLock::new(RwLock::default);

/// Returns the instance of an instance or of a physical device.
///
/// # Safety
///
/// The handle is null or alive.
pub(crate) unsafe fn instance_of(handle: impl Handle + std::marker::Copy) -> Option<Arc<Instance>> {
    if handle.is_null() {
        return None;
    }
    // SAFETY: the caller's promise.
    let key = unsafe { Key::of(handle) };
    INSTANCES.read().unwrap_or_else(PoisonError::into_inner).get(&key).cloned()
}

pub(crate) type Loaded = vk::PFN_vkVoidFunction;

impl Instance {
    /// Returns a function of what is behind this layer.
    pub(crate) fn function(&self, name: &CStr) -> Loaded {
        if let Some(early) = self.early.get(name) {
            return *early;
        }
        // SAFETY: the instance is alive as long as it is in the table, and the name ends in zero.
        unsafe { (self.next)(self.raw.handle(), name.as_ptr()) }
    }

    /// Returns a function of physical devices of what is behind this layer, though the loader may not know it.
    pub(crate) fn physical_device_function(&self, name: &CStr) -> Loaded {
        // SAFETY: as for `function`.
        self.next_physical.and_then(|next| unsafe { next(self.raw.handle(), name.as_ptr()) })
    }

    /// Returns the data of a physical device, queried from the driver the first time.
    pub(crate) fn physical(&self, device: vk::PhysicalDevice) -> Arc<PhysicalDeviceState> {
        if let Some(known) = self.physical.lock().unwrap_or_else(PoisonError::into_inner).get(&device) {
            return known.clone();
        }
        let made = Arc::new(PhysicalDeviceState::new(self, device));
        self.physical.lock().unwrap_or_else(PoisonError::into_inner).entry(device).or_insert(made).clone()
    }

    /// Says something to the application's messengers, and to the log.
    pub(crate) fn message(&self, severity: vk::DebugUtilsMessageSeverityFlagsEXT, text: &str) {
        let level = match severity {
            vk::DebugUtilsMessageSeverityFlagsEXT::ERROR => log::Level::Error,
            vk::DebugUtilsMessageSeverityFlagsEXT::WARNING => log::Level::Warn,
            _ => log::Level::Info,
        };
        log::write(level, format_args!("{text}"));
        let Some(submit) = self.submit_message else { return };
        let text: Vec<u8> = text.bytes().filter(|b| *b != 0).chain([0]).collect();
        let Ok(text) = CStr::from_bytes_with_nul(&text) else { return };
        let data = vk::DebugUtilsMessengerCallbackDataEXT::default().message_id_name(LAYER).message(text);
        // SAFETY: the instance has VK_EXT_debug_utils, or the function would not be there; all pointers live until it returns.
        unsafe { submit(self.raw.handle(), severity, vk::DebugUtilsMessageTypeFlagsEXT::GENERAL, &raw const data) };
    }
}

impl PhysicalDeviceState {
    fn new(instance: &Instance, device: vk::PhysicalDevice) -> PhysicalDeviceState {
        let nothing = |profile| PhysicalDeviceState {
            profile,
            added: Vec::new(),
            lowered: Vec::new(),
            promise: Promise::default(),
        };
        // SAFETY: the device is one of the instance's, which is alive.
        let profile = unsafe {
            let entry = ash::Entry::from_static_fn(ash::StaticFn { get_instance_proc_addr: behind });
            coop_device::vulkan::profile(&entry, &instance.raw, instance.api_version, device)
        };
        let mut profile = match profile {
            Ok(profile) => profile,
            Err(error) => {
                log::error(format_args!("a device could not be asked, and is left as it is: {error}"));
                return nothing(Profile::default());
            }
        };
        profile.api_version = profile.api_version.min(instance.api_version);
        remove_extensions(&mut profile, &instance.settings.hide);
        let name = profile.device.clone();
        if !profile.api_version.at_least(1, 1) {
            let v = profile.api_version;
            log::info(format_args!("{name}: nothing is added: Vulkan {v} is used, matrices need 1.1"));
            return nothing(profile);
        }
        if !profile.has(Feature::VulkanMemoryModel) {
            log::info(format_args!("{name}: nothing is added: the device has no vulkanMemoryModel"));
            return nothing(profile);
        }
        let wanted = |a: &&Addition| instance.settings.extensions.contains(&a.group);
        let lacks = |a: &&Addition| a.features.iter().any(|(f, has)| *has && !profile.has(*f));
        let added: Vec<&Addition> = ADDITIONS.iter().filter(wanted).filter(lacks).collect();
        let mut promise = coopmat::Device::from_profile(profile.clone()).promised();
        let bfloat16 = added.iter().any(|a| a.name == c"VK_KHR_shader_bfloat16");
        if !bfloat16 && !profile.has(Feature::ShaderBFloat16CooperativeMatrix) {
            promise.khr.retain(|row| row.a != ComponentType::Bf16);
            promise.flexible.retain(|row| row.granularity.a != ComponentType::Bf16);
        }
        let names: Vec<_> = added.iter().map(|a| a.name.to_string_lossy()).collect();
        let names = if names.is_empty() { "nothing".to_owned() } else { names.join(", ") };
        log::info(format_args!("{name}: added: {names}"));
        // The list of VK_KHR_cooperative_matrix has more than the driver's own sizes wherever anything is added.
        let may_lower = |a: &&Addition| {
            let own = a.name.to_str().is_ok_and(|name| profile.has_extension(name));
            lacks(a) && wanted(a) || own && instance.settings.always_lower || a.group == Group::Khr && !added.is_empty()
        };
        let lowered = ADDITIONS.iter().filter(may_lower).collect();
        PhysicalDeviceState { profile, added, lowered, promise }
    }

    /// Returns true if modules of a device with these extensions may be lowered.
    pub(crate) fn concerns(&self, asked: &EnabledFeatures) -> bool {
        self.lowered.iter().any(|a| a.name.to_str().is_ok_and(|name| asked.extensions.contains(name)))
    }

    /// Returns true if modules of any device may be lowered.
    fn lowers(&self) -> bool {
        !self.lowered.is_empty()
    }

    fn adds(&self, group: Group) -> bool {
        self.added.iter().any(|addition| addition.group == group)
    }

    /// Returns the addition to an extension, whether the driver has a version of it or not.
    fn addition_of(&self, features_type: i32) -> Option<&'static Addition> {
        self.added.iter().copied().find(|a| a.features_type == features_type)
    }

    /// Returns true if the driver lists the extension and the application may know.
    fn has_own(&self, name: &CStr) -> bool {
        name.to_str().is_ok_and(|name| self.profile.has_extension(name))
    }
}

/// Takes the extensions away, and their features.
fn remove_extensions(profile: &mut Profile, names: &[String]) {
    if names.is_empty() {
        return;
    }
    let mut left = EnabledFeatures::everything(profile);
    for name in names {
        left.extensions.remove(name);
        for group in structs::FEATURE_STRUCTS.iter().filter(|group| group.extension == name) {
            let gone: Vec<Feature> = group.members.iter().flatten().copied().collect();
            left.features = left.features.iter().filter(|f| !gone.contains(f)).collect();
        }
    }
    *profile = profile.restricted_to(&left);
}

// ---------------------------------------------------------------------------- creation

/// `vkCreateInstance`.
pub(crate) unsafe extern "system" fn create_instance(
    info: *const vk::InstanceCreateInfo<'_>,
    allocator: *const vk::AllocationCallbacks<'_>,
    out: *mut vk::Instance,
) -> vk::Result {
    crate::guard::guard("vkCreateInstance", || {
        // SAFETY: the loader gives a valid create info with its link in the chain, here and below.
        let Some(link) = (unsafe { ffi::take_link::<InstanceLink>((*info).p_next) }) else {
            return vk::Result::ERROR_INITIALIZATION_FAILED;
        };
        let next = link.get_instance_proc_addr;
        // SAFETY: a global function of the next layer, of that type.
        let create: Option<vk::PFN_vkCreateInstance> =
            unsafe { std::mem::transmute(next(vk::Instance::null(), c"vkCreateInstance".as_ptr())) };
        let Some(create) = create else { return vk::Result::ERROR_INITIALIZATION_FAILED };
        // SAFETY: the application's own arguments.
        let result = unsafe { create(info, allocator, out) };
        if result != vk::Result::SUCCESS {
            return result;
        }
        // SAFETY: the instance was made just now; the create info is valid.
        unsafe {
            let settings = Settings::read((*info).p_next);
            let application = (*info).p_application_info.as_ref();
            let version = application.map_or(0, |a| a.api_version).max(vk::API_VERSION_1_0);
            let load = |name: &CStr| std::mem::transmute::<Loaded, *const c_void>(next(*out, name.as_ptr()));
            let raw = ash::Instance::load_with(load, *out);
            let early = EARLY.iter().map(|name| (*name, next(*out, name.as_ptr()))).collect();
            let submit_message = next(*out, c"vkSubmitDebugUtilsMessageEXT".as_ptr());
            let instance = Instance {
                raw,
                settings,
                next,
                early,
                next_physical: link.get_physical_device_proc_addr,
                api_version: ApiVersion::from_packed(version),
                submit_message: std::mem::transmute::<Loaded, Option<vk::PFN_vkSubmitDebugUtilsMessageEXT>>(
                    submit_message.filter(|_| enables(&*info, c"VK_EXT_debug_utils")),
                ),
                physical: Mutex::default(),
            };
            INSTANCES.write().unwrap_or_else(PoisonError::into_inner).insert(Key::of(*out), Arc::new(instance));
        }
        result
    })
}

/// # Safety
///
/// The create info is valid.
unsafe fn enables(info: &vk::InstanceCreateInfo<'_>, name: &CStr) -> bool {
    let names = info.pp_enabled_extension_names;
    // SAFETY: an array of that many strings.
    (0..info.enabled_extension_count as usize).any(|i| unsafe { CStr::from_ptr(*names.add(i)) } == name)
}

/// `vkDestroyInstance`.
pub(crate) unsafe extern "system" fn destroy_instance(
    instance: vk::Instance,
    allocator: *const vk::AllocationCallbacks<'_>,
) {
    if instance.is_null() {
        return;
    }
    crate::guard::guard("vkDestroyInstance", || {
        // SAFETY: the application's handle, alive until the call below.
        let key = unsafe { Key::of(instance) };
        let gone = INSTANCES.write().unwrap_or_else(PoisonError::into_inner).remove(&key);
        if let Some(gone) = gone {
            // SAFETY: the application's own arguments.
            unsafe { (gone.raw.fp_v1_0().destroy_instance)(instance, allocator) };
        }
    });
}

// ---------------------------------------------------------------------------- extensions

/// `vkEnumerateDeviceExtensionProperties`.
pub(crate) unsafe extern "system" fn enumerate_device_extensions(
    device: vk::PhysicalDevice,
    layer: *const c_char,
    count: *mut u32,
    out: *mut vk::ExtensionProperties,
) -> vk::Result {
    crate::guard::guard("vkEnumerateDeviceExtensionProperties", || {
        // SAFETY: a string or null; the physical device is the application's.
        let (own, instance) = unsafe { (!layer.is_null() && CStr::from_ptr(layer) == LAYER, instance_of(device)) };
        if own {
            // SAFETY: the application's memory. The layer's extensions are added to the device's, not listed apart.
            return unsafe { list(&[], count, out, |to, from| *to = *from) };
        }
        let Some(instance) = instance else { return vk::Result::ERROR_INITIALIZATION_FAILED };
        let next = instance.raw.fp_v1_0().enumerate_device_extension_properties;
        let physical = if layer.is_null() { Some(instance.physical(device)) } else { None };
        let Some(physical) = physical.filter(|p| p.lowers() || !instance.settings.hide.is_empty()) else {
            // SAFETY: the application's own arguments.
            return unsafe { next(device, layer, count, out) };
        };
        // SAFETY: the physical device is alive.
        let all = match unsafe { instance.raw.enumerate_device_extension_properties(device) } {
            Ok(all) => all,
            Err(error) => return error,
        };
        let named = |e: &vk::ExtensionProperties, name: &CStr| e.extension_name_as_c_str() == Ok(name);
        let hidden = |e: &vk::ExtensionProperties| {
            let by_setting = instance
                .settings
                .hide
                .iter()
                .any(|n| e.extension_name_as_c_str().is_ok_and(|e| e.to_bytes() == n.as_bytes()));
            by_setting || physical.lowers() && HIDDEN.iter().any(|name| named(e, name))
        };
        let mut listed: Vec<_> = all.into_iter().filter(|e| !hidden(e)).collect();
        for addition in &physical.added {
            if !listed.iter().any(|e| named(e, addition.name)) {
                let mut extension =
                    vk::ExtensionProperties { spec_version: addition.spec_version, ..Default::default() };
                let bytes = addition.name.to_bytes_with_nul();
                for (to, from) in extension.extension_name.iter_mut().zip(bytes) {
                    *to = from.cast_signed();
                }
                listed.push(extension);
            }
        }
        // SAFETY: the application's memory.
        unsafe { list(&listed, count, out, |to, from| *to = *from) }
    })
}

/// Answers a list as Vulkan does: the count, or as many elements as there is room for.
///
/// # Safety
///
/// `count` is valid, and `out` null or an array of that many elements.
unsafe fn list<T, U>(all: &[U], count: *mut u32, out: *mut T, write: impl Fn(&mut T, &U)) -> vk::Result {
    // SAFETY: the caller's promise.
    unsafe {
        if out.is_null() {
            *count = all.len() as u32;
            return vk::Result::SUCCESS;
        }
        let room = *count as usize;
        for (index, from) in all.iter().enumerate().take(room) {
            write(&mut *out.add(index), from);
        }
        *count = room.min(all.len()) as u32;
        if room < all.len() { vk::Result::INCOMPLETE } else { vk::Result::SUCCESS }
    }
}

// ---------------------------------------------------------------------------- features and properties

/// `vkGetPhysicalDeviceFeatures2`.
pub(crate) unsafe extern "system" fn features2(device: vk::PhysicalDevice, out: *mut vk::PhysicalDeviceFeatures2<'_>) {
    // SAFETY: the application's own arguments, and functions of that type.
    unsafe { features_by(device, out, c"vkGetPhysicalDeviceFeatures2") };
}

/// `vkGetPhysicalDeviceFeatures2KHR`.
pub(crate) unsafe extern "system" fn features2_khr(
    device: vk::PhysicalDevice,
    out: *mut vk::PhysicalDeviceFeatures2<'_>,
) {
    // SAFETY: as above.
    unsafe { features_by(device, out, c"vkGetPhysicalDeviceFeatures2KHR") };
}

/// # Safety
///
/// The arguments are valid, and the name is of a function that takes them.
unsafe fn features_by(device: vk::PhysicalDevice, out: *mut vk::PhysicalDeviceFeatures2<'_>, name: &CStr) {
    crate::guard::guard("vkGetPhysicalDeviceFeatures2", || {
        // SAFETY: the caller's promise.
        unsafe {
            let Some(instance) = instance_of(device) else { return };
            let next =
                std::mem::transmute::<Loaded, Option<vk::PFN_vkGetPhysicalDeviceFeatures2>>(instance.function(name));
            let Some(next) = next else { return };
            let physical = instance.physical(device);
            let hidden: Vec<i32> = hidden_types(&instance.settings.hide);
            let ours = |s_type: i32| {
                let unknown = physical.addition_of(s_type).is_some_and(|a| !physical.has_own(a.name));
                unknown || hidden.contains(&s_type)
            };
            let taken = DetachedStructures::new(out.cast(), ours);
            next(device, out);
            taken.give_back();
            for s in chain::structures((*out).p_next) {
                let s_type = (*s).s_type;
                if let Some(addition) = physical.addition_of(s_type) {
                    for (index, (_, has)) in addition.features.iter().enumerate() {
                        let member = s.cast_mut().add(1).cast::<u32>().add(index);
                        if *has || !physical.has_own(addition.name) {
                            *member = u32::from(*has);
                        }
                    }
                } else if hidden.contains(&s_type)
                    && let Some(group) = structs::FEATURE_STRUCTS.iter().find(|g| g.s_type == s_type)
                {
                    std::ptr::write_bytes(s.cast_mut().add(1).cast::<u32>(), 0, group.members.len());
                }
            }
        }
    });
}

/// The numbers of the structures of features that hidden extensions have.
fn hidden_types(names: &[String]) -> Vec<i32> {
    let groups = structs::FEATURE_STRUCTS.iter().filter(|group| names.iter().any(|n| n == group.extension));
    groups.map(|group| group.s_type).collect()
}

/// `vkGetPhysicalDeviceProperties2`.
pub(crate) unsafe extern "system" fn properties2(
    device: vk::PhysicalDevice,
    out: *mut vk::PhysicalDeviceProperties2<'_>,
) {
    // SAFETY: the application's own arguments, and functions of that type.
    unsafe { properties_by(device, out, c"vkGetPhysicalDeviceProperties2") };
}

/// `vkGetPhysicalDeviceProperties2KHR`.
pub(crate) unsafe extern "system" fn properties2_khr(
    device: vk::PhysicalDevice,
    out: *mut vk::PhysicalDeviceProperties2<'_>,
) {
    // SAFETY: as above.
    unsafe { properties_by(device, out, c"vkGetPhysicalDeviceProperties2KHR") };
}

/// # Safety
///
/// As for [`features_by`].
unsafe fn properties_by(device: vk::PhysicalDevice, out: *mut vk::PhysicalDeviceProperties2<'_>, name: &CStr) {
    crate::guard::guard("vkGetPhysicalDeviceProperties2", || {
        // SAFETY: the caller's promise.
        unsafe {
            let Some(instance) = instance_of(device) else { return };
            let next =
                std::mem::transmute::<Loaded, Option<vk::PFN_vkGetPhysicalDeviceProperties2>>(instance.function(name));
            let Some(next) = next else { return };
            let physical = instance.physical(device);
            let answer = |s_type: i32| properties(s_type, &physical.added, &physical.promise);
            let taken = DetachedStructures::new(out.cast(), |s_type| answer(s_type).is_some());
            next(device, out);
            taken.give_back();
            for s in chain::structures((*out).p_next) {
                if let Some(members) = answer((*s).s_type) {
                    let to = s.cast_mut().add(1).cast::<u32>();
                    std::ptr::copy_nonoverlapping(members.as_ptr(), to, members.len());
                }
            }
        }
    });
}

/// Structures that are out of a chain for the time of a call: the driver is not asked for what it does not know. The chain of a
/// query is the application's to read when the call is over, and nobody else's before.
struct DetachedStructures {
    links: Vec<(*mut Base, *const c_void)>,
}

impl DetachedStructures {
    /// # Safety
    ///
    /// `head` is a valid structure whose chain is written to by the call.
    unsafe fn new(head: *mut Base, ours: impl Fn(i32) -> bool) -> DetachedStructures {
        let mut links = Vec::new();
        let mut at = head;
        // SAFETY: the caller's promise.
        unsafe {
            while let Some(next) = (*at).p_next.cast::<Base>().as_ref() {
                if ours(next.s_type) {
                    links.push((at, (*at).p_next));
                    (*at).p_next = next.p_next;
                } else {
                    at = (*at).p_next.cast::<Base>().cast_mut();
                }
            }
        }
        DetachedStructures { links }
    }

    fn give_back(self) {
        for (at, next) in self.links.into_iter().rev() {
            // SAFETY: the same memory as in `new`, during the same call. Backwards: the first link of a place is the one that was
            // there.
            unsafe { (*at).p_next = next };
        }
    }
}

// ---------------------------------------------------------------------------- lists of matrices

/// `vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR`.
pub(crate) unsafe extern "system" fn khr_list(
    device: vk::PhysicalDevice,
    count: *mut u32,
    out: *mut structs::Row<9>,
) -> vk::Result {
    crate::guard::guard("vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR", || {
        // SAFETY: the application's handle.
        let Some(instance) = (unsafe { instance_of(device) }) else { return vk::Result::ERROR_INITIALIZATION_FAILED };
        let physical = instance.physical(device);
        if physical.added.is_empty() {
            let name = c"vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR";
            // SAFETY: a function of that type.
            let next = unsafe { std::mem::transmute::<Loaded, Option<structs::ListRows<9>>>(instance.function(name)) };
            let Some(next) = next else { return vk::Result::ERROR_INITIALIZATION_FAILED };
            // SAFETY: the application's own arguments.
            return unsafe { next(device, count, out) };
        }
        // SAFETY: the application's memory.
        unsafe {
            list(&physical.promise.khr, count, out, |to, row| {
                to.members = [
                    row.m,
                    row.n,
                    row.k,
                    row.a.to_vk(),
                    row.b.to_vk(),
                    row.c.to_vk(),
                    row.result.to_vk(),
                    u32::from(row.saturating),
                    row.scope.number(),
                ];
            })
        }
    })
}

/// `vkGetPhysicalDeviceCooperativeMatrixProperties2EXT`.
pub(crate) unsafe extern "system" fn khr_list2(
    device: vk::PhysicalDevice,
    info: *const structs::Row<4>,
    count: *mut u32,
    out: *mut structs::Row<7>,
) -> vk::Result {
    crate::guard::guard("vkGetPhysicalDeviceCooperativeMatrixProperties2EXT", || {
        // SAFETY: the application's handle.
        let Some(instance) = (unsafe { instance_of(device) }) else { return vk::Result::ERROR_INITIALIZATION_FAILED };
        let physical = instance.physical(device);
        if !physical.adds(Group::Maintenance1) {
            let name = c"vkGetPhysicalDeviceCooperativeMatrixProperties2EXT";
            // SAFETY: a function of that type.
            let next =
                unsafe { std::mem::transmute::<Loaded, Option<structs::ListProperties2>>(instance.function(name)) };
            let Some(next) = next else { return vk::Result::ERROR_INITIALIZATION_FAILED };
            // SAFETY: the application's own arguments.
            return unsafe { next(device, info, count, out) };
        }
        // SAFETY: the application's structure.
        let [scope, invocations, _, saturating] = unsafe { (*info).members };
        let promise = &physical.promise;
        let asked = |row: &&MatrixProperties| {
            row.scope.number() == scope && row.saturating == (saturating & SATURATING_ACCUMULATION != 0)
        };
        let rows: Vec<&MatrixProperties> = if scope == Scope::Subgroup.number() {
            promise.khr.iter().filter(asked).collect()
        } else {
            let of = promise.flexible.iter().filter(|row| row.workgroup_invocations == invocations);
            of.map(|row| &row.granularity).filter(asked).collect()
        };
        // SAFETY: the application's memory.
        unsafe {
            list(&rows, count, out, |to, row| {
                let [a, b, c, result] = [row.a, row.b, row.c, row.result].map(ComponentType::to_vk);
                to.members = [row.m, row.n, row.k, a, b, c, result];
            })
        }
    })
}

/// `VK_COOPERATIVE_MATRIX_SATURATING_ACCUMULATION_BIT_EXT` of the query's flags.
const SATURATING_ACCUMULATION: u32 = 1;

/// `vkGetPhysicalDeviceCooperativeMatrixFlexibleDimensionsPropertiesNV`.
pub(crate) unsafe extern "system" fn flexible_list(
    device: vk::PhysicalDevice,
    count: *mut u32,
    out: *mut structs::Row<10>,
) -> vk::Result {
    let name = c"vkGetPhysicalDeviceCooperativeMatrixFlexibleDimensionsPropertiesNV";
    crate::guard::guard("vkGetPhysicalDeviceCooperativeMatrixFlexibleDimensionsPropertiesNV", || {
        // SAFETY: the application's handle.
        let Some(instance) = (unsafe { instance_of(device) }) else { return vk::Result::ERROR_INITIALIZATION_FAILED };
        let physical = instance.physical(device);
        if !physical.adds(Group::Nv2) {
            // SAFETY: a function of that type.
            let next = unsafe { std::mem::transmute::<Loaded, Option<structs::ListRows<10>>>(instance.function(name)) };
            let Some(next) = next else { return vk::Result::ERROR_INITIALIZATION_FAILED };
            // SAFETY: the application's own arguments.
            return unsafe { next(device, count, out) };
        }
        // SAFETY: the application's memory.
        unsafe {
            list(&physical.promise.flexible, count, out, |to, flexible| {
                let row = &flexible.granularity;
                to.members = [
                    row.m,
                    row.n,
                    row.k,
                    row.a.to_vk(),
                    row.b.to_vk(),
                    row.c.to_vk(),
                    row.result.to_vk(),
                    u32::from(row.saturating),
                    row.scope.number(),
                    flexible.workgroup_invocations,
                ];
            })
        }
    })
}
