//! Devices.

use crate::error::{CoopmatError, CoopmatStatus, Failure, answer, free};
use crate::pointers::{elements, give, give_text, place, required, string};
use ash::vk;
use facade::{ApiVersion, Device, EnabledFeatures, MatrixProperties};
use std::ffi::{c_char, c_void};

/// A device. It never changes, so any number of threads may use it. To be freed by `coopmat_device_free`.
pub struct CoopmatDevice(pub(crate) Device);

/// A function of Vulkan, of any signature.
pub type CoopmatVoidFunction = Option<unsafe extern "system" fn()>;

/// `vkGetInstanceProcAddr`: instance and name.
pub type CoopmatGetInstanceProcAddr =
    Option<unsafe extern "system" fn(instance: *mut c_void, name: *const c_char) -> CoopmatVoidFunction>;

/// Writes a result to the caller's pointer.
///
/// # Safety
///
/// `out` can be written.
pub(crate) unsafe fn hand_over<T>(value: T, out: *mut *mut T) -> Result<(), Failure> {
    // SAFETY: as the caller promises.
    unsafe { out.write(Box::into_raw(Box::new(value))) };
    Ok(())
}

/// Makes a device that comes with the library, by name: "nvidia-h100".
///
/// # Safety
///
/// `name` is a text; `device` and `error` are null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coopmat_device_builtin(
    name: *const c_char,
    device: *mut *mut CoopmatDevice,
    error: *mut *mut CoopmatError,
) -> CoopmatStatus {
    let work = || {
        // SAFETY: as the caller promises.
        let (out, name) = unsafe { (place(device, "device")?, string(name, "name")?) };
        let missing = || {
            let all: Vec<&str> = Device::builtin_names().collect();
            Failure::new(
                CoopmatStatus::NoSuchDevice,
                format!("no device is called '{name}'; there are {}", all.join(", ")),
            )
        };
        let device = Device::builtin(name).ok_or_else(missing)?;
        // SAFETY: `place` looked at it.
        unsafe { hand_over(CoopmatDevice(device), out) }
    };
    // SAFETY: as the caller promises.
    unsafe { answer(error, work) }
}

/// Reads a device from a profile as `cooprun profile` writes it: `length` bytes of JSON.
///
/// # Safety
///
/// `json` has `length` bytes; `device` and `error` are null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coopmat_device_from_json(
    json: *const c_char,
    length: usize,
    device: *mut *mut CoopmatDevice,
    error: *mut *mut CoopmatError,
) -> CoopmatStatus {
    let work = || {
        // SAFETY: as the caller promises.
        let (out, bytes) = unsafe { (place(device, "device")?, elements(json.cast::<u8>(), length, "json")?) };
        let text = std::str::from_utf8(bytes).map_err(|_| Failure::argument("json is not UTF-8"))?;
        let device = Device::from_json(text).map_err(|e| Failure::new(CoopmatStatus::BadProfile, e.to_string()))?;
        // SAFETY: `place` looked at it.
        unsafe { hand_over(CoopmatDevice(device), out) }
    };
    // SAFETY: as the caller promises.
    unsafe { answer(error, work) }
}

/// Makes a device from a physical device.
///
/// `create_info` is the `VkDeviceCreateInfo` that the `VkDevice` is made with: a shader may use no more than that enables. If it is
/// null, all that the physical device has counts as enabled. `api_version` is the one of `VkApplicationInfo`; 0 is 1.0, as there.
///
/// # Safety
///
/// `get_instance_proc_addr` is null or Vulkan's; `instance` is alive, and `physical_device` one of its devices; `create_info` is null
/// or valid as Vulkan defines it; `device` and `error` are null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coopmat_device_from_vulkan(
    get_instance_proc_addr: CoopmatGetInstanceProcAddr,
    instance: *mut c_void,
    physical_device: *mut c_void,
    create_info: *const c_void,
    api_version: u32,
    device: *mut *mut CoopmatDevice,
    error: *mut *mut CoopmatError,
) -> CoopmatStatus {
    let work = || {
        // SAFETY: as the caller promises.
        let out = unsafe { place(device, "device") }?;
        let get = get_instance_proc_addr.ok_or_else(|| Failure::argument("get_instance_proc_addr is null"))?;
        if instance.is_null() || physical_device.is_null() {
            return Err(Failure::argument("instance or physical_device is null"));
        }
        type Ours = unsafe extern "system" fn(*mut c_void, *const c_char) -> CoopmatVoidFunction;
        // SAFETY: the same function; handles that are dispatched on are pointers.
        let get = unsafe { std::mem::transmute::<Ours, vk::PFN_vkGetInstanceProcAddr>(get) };
        let functions = ash::StaticFn { get_instance_proc_addr: get };
        let handles = (vk::Handle::from_raw(instance as u64), vk::Handle::from_raw(physical_device as u64));
        let (instance, physical): (vk::Instance, vk::PhysicalDevice) = handles;
        let version = ApiVersion::from_packed(api_version.max(vk::API_VERSION_1_0));
        // SAFETY: the instance is alive and Vulkan's; the device is one of it.
        let found = unsafe {
            let entry = ash::Entry::from_static_fn(functions.clone());
            let instance = ash::Instance::load(&functions, instance);
            Device::from_physical(&entry, &instance, version, physical)
        };
        let mut found = found.map_err(|e| Failure::new(CoopmatStatus::Vulkan, e.to_string()))?;
        // SAFETY: null or valid, as the caller promises.
        if let Some(info) = unsafe { create_info.cast::<vk::DeviceCreateInfo<'_>>().as_ref() } {
            // SAFETY: as above.
            let mut enabled = unsafe { EnabledFeatures::from_create_info(info) };
            enabled.api_version = Some(version);
            found = found.restricted_to(&enabled);
        }
        // SAFETY: `place` looked at it.
        unsafe { hand_over(CoopmatDevice(found), out) }
    };
    // SAFETY: as the caller promises.
    unsafe { answer(error, work) }
}

/// Returns the profile of the device, as the JSON that `coopmat_device_from_json` reads; `count` includes the
/// terminating zero.
///
/// # Safety
///
/// `device` is null or alive; `buffer` is null or has room for `capacity` bytes; `count` and `error` are null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coopmat_device_json(
    device: *const CoopmatDevice,
    buffer: *mut c_char,
    capacity: usize,
    count: *mut usize,
    error: *mut *mut CoopmatError,
) -> CoopmatStatus {
    let work = || {
        // SAFETY: as the caller promises.
        unsafe { give_text(&required(device, "device")?.0.profile().to_json(), buffer, capacity, count) }
    };
    // SAFETY: as the caller promises.
    unsafe { answer(error, work) }
}

/// Frees a device; null is nothing. Outcomes of it stay.
///
/// # Safety
///
/// `device` is null or alive, and nobody uses it any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coopmat_device_free(device: *mut CoopmatDevice) {
    // SAFETY: as the caller promises.
    unsafe { free(device) }
}

/// A size of matrices, with the values of Vulkan: a `VkCooperativeMatrixPropertiesKHR`, or, with `workgroup_invocations`, a
/// `VkCooperativeMatrixFlexibleDimensionsPropertiesNV`.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CoopmatMatrixProperties {
    /// Rows of A and of the result, or what they are a multiple of.
    pub m: u32,
    /// Columns of B and of the result, or what they are a multiple of.
    pub n: u32,
    /// Columns of A and rows of B, or what they are a multiple of.
    pub k: u32,
    /// The components of A, a `VkComponentTypeKHR`.
    pub a: u32,
    /// The components of B.
    pub b: u32,
    /// The components of C.
    pub c: u32,
    /// The components of the result.
    pub result: u32,
    /// 1 if the addition saturates: a `VkBool32`.
    pub saturating: u32,
    /// The scope, a `VkScopeKHR`.
    pub scope: u32,
    /// The workgroup's invocations with workgroup scope, else 0.
    pub workgroup_invocations: u32,
}

impl CoopmatMatrixProperties {
    fn new(row: &MatrixProperties, workgroup_invocations: u32) -> CoopmatMatrixProperties {
        CoopmatMatrixProperties {
            m: row.m,
            n: row.n,
            k: row.k,
            a: row.a.to_vk(),
            b: row.b.to_vk(),
            c: row.c.to_vk(),
            result: row.result.to_vk(),
            saturating: row.saturating.into(),
            scope: row.scope.number(),
            workgroup_invocations,
        }
    }
}

/// The limits that a device may report besides the lists of sizes: those of
/// `VkPhysicalDeviceCooperativeMatrix2PropertiesNV`.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CoopmatPromisedLimits {
    /// `cooperativeMatrixWorkgroupScopeMaxWorkgroupSize`.
    pub max_workgroup_size: u32,
    /// `cooperativeMatrixFlexibleDimensionsMaxDimension`.
    pub max_dimension: u32,
    /// `cooperativeMatrixWorkgroupScopeReservedSharedMemory`.
    pub reserved_shared_memory: u32,
}

/// Returns the list of VK_KHR_cooperative_matrix that applications may be told: the device's own sizes, then others
/// that are lowered.
///
/// # Safety
///
/// `device` is null or alive; `buffer` is null or has room for `capacity` rows; `count` and `error` are null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coopmat_device_promised_khr(
    device: *const CoopmatDevice,
    buffer: *mut CoopmatMatrixProperties,
    capacity: usize,
    count: *mut usize,
    error: *mut *mut CoopmatError,
) -> CoopmatStatus {
    let work = || {
        // SAFETY: as the caller promises.
        let promise = unsafe { required(device, "device") }?.0.promised();
        let rows: Vec<_> = promise.khr.iter().map(|row| CoopmatMatrixProperties::new(row, 0)).collect();
        // SAFETY: as the caller promises.
        unsafe { give(&rows, buffer, capacity, count) }
    };
    // SAFETY: as the caller promises.
    unsafe { answer(error, work) }
}

/// Returns the list of VK_NV_cooperative_matrix2 that applications may be told: sizes may be multiples of these.
///
/// # Safety
///
/// `device` is null or alive; `buffer` is null or has room for `capacity` rows; `count` and `error` are null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coopmat_device_promised_flexible(
    device: *const CoopmatDevice,
    buffer: *mut CoopmatMatrixProperties,
    capacity: usize,
    count: *mut usize,
    error: *mut *mut CoopmatError,
) -> CoopmatStatus {
    let work = || {
        // SAFETY: as the caller promises.
        let promise = unsafe { required(device, "device") }?.0.promised();
        let row = |row: &facade::FlexibleProperties| {
            CoopmatMatrixProperties::new(&row.granularity, row.workgroup_invocations)
        };
        let rows: Vec<_> = promise.flexible.iter().map(row).collect();
        // SAFETY: as the caller promises.
        unsafe { give(&rows, buffer, capacity, count) }
    };
    // SAFETY: as the caller promises.
    unsafe { answer(error, work) }
}

/// Returns the limits that applications may be told.
///
/// # Safety
///
/// `device` is null or alive; `limits` and `error` are null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coopmat_device_promised_limits(
    device: *const CoopmatDevice,
    limits: *mut CoopmatPromisedLimits,
    error: *mut *mut CoopmatError,
) -> CoopmatStatus {
    let work = || {
        // SAFETY: as the caller promises.
        let (out, device) = unsafe { (place(limits, "limits")?, required(device, "device")?) };
        let promise = device.0.promised();
        // SAFETY: `place` looked at it.
        unsafe {
            out.write(CoopmatPromisedLimits {
                max_workgroup_size: promise.max_workgroup_size,
                max_dimension: promise.max_dimension,
                reserved_shared_memory: promise.reserved_shared_memory,
            });
        }
        Ok(())
    };
    // SAFETY: as the caller promises.
    unsafe { answer(error, work) }
}
