//! The interface of loader and layers: the structures of `vk_layer.h`, which ash does not have.

use std::ffi::{c_char, c_void};

use ash::vk;

/// `VK_STRUCTURE_TYPE_LOADER_INSTANCE_CREATE_INFO`.
pub(crate) const LOADER_INSTANCE_CREATE_INFO: i32 = 47;
/// `VK_STRUCTURE_TYPE_LOADER_DEVICE_CREATE_INFO`.
pub(crate) const LOADER_DEVICE_CREATE_INFO: i32 = 48;
/// `VK_LAYER_LINK_INFO`: the function of a create info that holds the chain of layers.
const LINK_INFO: i32 = 0;
/// The version of the interface that this layer speaks.
const INTERFACE_VERSION: u32 = 2;

/// `vk_layerGetPhysicalDeviceProcAddr`.
pub(crate) type GetPhysicalDeviceProcAddr =
    unsafe extern "system" fn(vk::Instance, *const c_char) -> vk::PFN_vkVoidFunction;

/// `VkNegotiateLayerInterface`.
#[repr(C)]
pub struct NegotiateLayerInterface {
    s_type: i32,
    p_next: *mut c_void,
    loader_layer_interface_version: u32,
    get_instance_proc_addr: Option<vk::PFN_vkGetInstanceProcAddr>,
    get_device_proc_addr: Option<vk::PFN_vkGetDeviceProcAddr>,
    get_physical_device_proc_addr: Option<GetPhysicalDeviceProcAddr>,
}

impl NegotiateLayerInterface {
    /// Fills in the functions; fails where the loader is older than the interface.
    pub(crate) fn stage_module(
        &mut self,
        instance: vk::PFN_vkGetInstanceProcAddr,
        device: vk::PFN_vkGetDeviceProcAddr,
        physical_device: GetPhysicalDeviceProcAddr,
    ) -> vk::Result {
        if self.loader_layer_interface_version < INTERFACE_VERSION {
            return vk::Result::ERROR_INITIALIZATION_FAILED;
        }
        self.loader_layer_interface_version = INTERFACE_VERSION;
        self.get_instance_proc_addr = Some(instance);
        self.get_device_proc_addr = Some(device);
        self.get_physical_device_proc_addr = Some(physical_device);
        vk::Result::SUCCESS
    }
}

/// `VkLayerInstanceLink`: a layer of the instance's chain.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct InstanceLink {
    next: *mut InstanceLink,
    pub(crate) get_instance_proc_addr: vk::PFN_vkGetInstanceProcAddr,
    pub(crate) get_physical_device_proc_addr: Option<GetPhysicalDeviceProcAddr>,
}

/// `VkLayerDeviceLink`: a layer of a device's chain.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct DeviceLink {
    next: *mut DeviceLink,
    pub(crate) get_instance_proc_addr: vk::PFN_vkGetInstanceProcAddr,
    pub(crate) get_device_proc_addr: vk::PFN_vkGetDeviceProcAddr,
}

/// A link of a chain of layers.
pub(crate) trait Link: Copy {
    /// The number of the create info that holds the chain.
    const S_TYPE: i32;
    /// The layer behind this one.
    fn next(self) -> *mut Self;
}

impl Link for InstanceLink {
    const S_TYPE: i32 = LOADER_INSTANCE_CREATE_INFO;

    fn next(self) -> *mut InstanceLink {
        self.next
    }
}

impl Link for DeviceLink {
    const S_TYPE: i32 = LOADER_DEVICE_CREATE_INFO;

    fn next(self) -> *mut DeviceLink {
        self.next
    }
}

/// `VkLayerInstanceCreateInfo` and `VkLayerDeviceCreateInfo`: the head is the same, then a pointer whose kind `function` says.
#[repr(C)]
struct LoaderCreateInfo<L> {
    s_type: i32,
    p_next: *const c_void,
    function: i32,
    link: *mut L,
}

/// The first two members of every structure that is chained.
#[repr(C)]
pub(crate) struct Base {
    pub(crate) s_type: i32,
    pub(crate) p_next: *const c_void,
}

/// The size of a create info of the loader's, whatever its function.
pub(crate) const LOADER_CREATE_INFO_SIZE: usize = size_of::<LoaderCreateInfo<DeviceLink>>();

/// Takes this layer's link off the chain that the loader left in a create info: what is called next.
///
/// # Safety
///
/// `chain` is the `pNext` of a valid create info that the loader gave.
pub(crate) unsafe fn take_link<L: Link>(chain: *const c_void) -> Option<L> {
    let mut at = chain.cast::<Base>();
    // SAFETY: every structure of a valid chain begins with these members.
    while let Some(base) = unsafe { at.as_ref() } {
        if base.s_type == L::S_TYPE {
            let info = at.cast::<LoaderCreateInfo<L>>().cast_mut();
            // SAFETY: structures with that number have this layout. The loader expects each layer to advance the link, so the
            // memory is writable though the chain is const.
            unsafe {
                if (*info).function == LINK_INFO {
                    let link = *(*info).link.as_ref()?;
                    (*info).link = link.next();
                    return Some(link);
                }
            }
        }
        at = base.p_next.cast();
    }
    None
}

/// The number of a structure that is chained, for structures that ash does not know.
pub(crate) fn s_type<T: vk::TaggedStructure>() -> i32 {
    T::STRUCTURE_TYPE.as_raw()
}
