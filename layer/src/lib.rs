//! `VK_LAYER_COOPMAT_fallback`: a Vulkan layer that makes a device without cooperative matrices look as if it had them.
//!
//! An application asks for extensions (`additions`) that the driver has not, or has in part; the layer answers the queries
//! (`instance`), leaves what is its own out of `vkCreateDevice` (`device`), keeps the words of modules with matrices
//! (`modules`), and lowers them where pipelines are made of them (`pipelines`, `stages`): only there the values of
//! specialization constants and the subgroup size are known. An application that uses none of the added extensions, nor
//! VK_KHR_cooperative_matrix, whose list is longer where anything is added, calls the driver's own functions, unless the
//! setting `always_lower` has the driver's own extensions lowered too.
//!
//! Unsafe code is what a layer is made of: it is called with the application's pointers, calls the next layer with them, and is
//! sound as far as both keep to the specification. No panic crosses into C (`guard`).
#![allow(unsafe_code)]

mod additions;
mod cache;
mod chain;
mod device;
mod ffi;
mod guard;
mod instance;
mod log;
mod modules;
mod pipelines;
mod settings;
mod stages;

use std::ffi::{CStr, c_char, c_void};

use ash::vk;

pub use ffi::NegotiateLayerInterface;

/// Where the loader begins: it tells which version of its interface it speaks, and asks for the layer's functions.
///
/// # Safety
///
/// Called by a Vulkan loader with a valid structure.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn vkNegotiateLoaderLayerInterfaceVersion(
    version: *mut NegotiateLayerInterface,
) -> vk::Result {
    guard::guard("vkNegotiateLoaderLayerInterfaceVersion", || {
        // SAFETY: the loader's structure, or null.
        match unsafe { version.as_mut() } {
            Some(version) => {
                version.stage_module(get_instance_proc_addr, get_device_proc_addr, get_physical_device_proc_addr)
            }
            None => vk::Result::ERROR_INITIALIZATION_FAILED,
        }
    })
}

/// Functions by their names. Each is cast from the type that belongs to the name.
type Table = &'static [(&'static CStr, Address)];

/// A function of this layer, of whatever type.
#[derive(Clone, Copy)]
struct Address(*const c_void);

// SAFETY: functions are never written.
unsafe impl Sync for Address {}

macro_rules! table {
    ($($name:literal => $function:path),* $(,)?) => {
        &[$(($name, Address($function as *const c_void))),*]
    };
}

/// Functions of instances and physical devices.
static OF_INSTANCES: Table = table! {
    c"vkGetInstanceProcAddr" => get_instance_proc_addr,
    c"vkCreateInstance" => instance::create_instance,
    c"vkDestroyInstance" => instance::destroy_instance,
    c"vkCreateDevice" => device::create_device,
};

/// Functions of physical devices, which a loader that does not know them asks for too.
static OF_PHYSICAL_DEVICES: Table = table! {
    c"vkEnumerateDeviceExtensionProperties" => instance::enumerate_device_extensions,
    c"vkGetPhysicalDeviceFeatures2" => instance::features2,
    c"vkGetPhysicalDeviceFeatures2KHR" => instance::features2_khr,
    c"vkGetPhysicalDeviceProperties2" => instance::properties2,
    c"vkGetPhysicalDeviceProperties2KHR" => instance::properties2_khr,
    c"vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR" => instance::khr_list,
    c"vkGetPhysicalDeviceCooperativeMatrixFlexibleDimensionsPropertiesNV" => instance::flexible_list,
    c"vkGetPhysicalDeviceCooperativeMatrixProperties2EXT" => instance::khr_list2,
};

/// Functions of every device.
static OF_ALL_DEVICES: Table = table! {
    c"vkGetDeviceProcAddr" => get_device_proc_addr,
    c"vkDestroyDevice" => device::destroy_device,
};

/// Functions of devices with matrices. Where the driver lacks one of them, so does the layer.
static OF_DEVICES: Table = table! {
    c"vkCreateShaderModule" => modules::create_shader_module,
    c"vkDestroyShaderModule" => modules::destroy_shader_module,
    c"vkGetShaderModuleIdentifierEXT" => modules::module_identifier,
    c"vkCreateComputePipelines" => pipelines::create_compute_pipelines,
    c"vkCreateGraphicsPipelines" => pipelines::create_graphics_pipelines,
    c"vkCreateRayTracingPipelinesKHR" => pipelines::create_ray_tracing_pipelines,
    c"vkCreateRayTracingPipelinesNV" => pipelines::create_ray_tracing_pipelines_nv,
    c"vkCreateShadersEXT" => pipelines::create_shaders,
};

fn find(table: Table, name: &CStr) -> vk::PFN_vkVoidFunction {
    let (_, function) = table.iter().find(|(known, _)| *known == name)?;
    // SAFETY: a function; who asked by name knows its type.
    unsafe { std::mem::transmute::<*const c_void, vk::PFN_vkVoidFunction>(function.0) }
}

/// `vkGetInstanceProcAddr`.
unsafe extern "system" fn get_instance_proc_addr(
    instance: vk::Instance,
    name: *const c_char,
) -> vk::PFN_vkVoidFunction {
    guard::guard("vkGetInstanceProcAddr", || {
        // SAFETY: the caller's name is a string.
        let name = unsafe { CStr::from_ptr(name) };
        let own = find(OF_INSTANCES, name).or_else(|| find(OF_PHYSICAL_DEVICES, name));
        if let Some(own) = own.or_else(|| find(OF_ALL_DEVICES, name)) {
            return Some(own);
        }
        if instance == vk::Instance::null() {
            return None;
        }
        // SAFETY: the caller's instance.
        let next = unsafe { instance::instance_of(instance) }?.function(name)?;
        Some(find(OF_DEVICES, name).unwrap_or(next))
    })
}

/// `vkGetDeviceProcAddr`.
unsafe extern "system" fn get_device_proc_addr(device: vk::Device, name: *const c_char) -> vk::PFN_vkVoidFunction {
    guard::guard("vkGetDeviceProcAddr", || {
        // SAFETY: the caller's name is a string, and the device is alive.
        let (name, this) = unsafe { (CStr::from_ptr(name), device::device_of(device)) };
        if let Some(own) = find(OF_ALL_DEVICES, name) {
            return Some(own);
        }
        let this = this?;
        let next = this.function(name)?;
        let own = if this.active.is_some() { find(OF_DEVICES, name) } else { None };
        Some(own.unwrap_or(next))
    })
}

/// `vk_layerGetPhysicalDeviceProcAddr`: so loaders that are older than an extension find its functions.
unsafe extern "system" fn get_physical_device_proc_addr(
    instance: vk::Instance,
    name: *const c_char,
) -> vk::PFN_vkVoidFunction {
    guard::guard("vk_layerGetPhysicalDeviceProcAddr", || {
        // SAFETY: the caller's name is a string, and the instance is alive or null.
        unsafe {
            let name = CStr::from_ptr(name);
            if let Some(own) = find(OF_PHYSICAL_DEVICES, name) {
                return Some(own);
            }
            instance::instance_of(instance)?.physical_device_function(name)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::{OF_ALL_DEVICES, OF_DEVICES, OF_INSTANCES, OF_PHYSICAL_DEVICES, find};
    use crate::additions::{ADDITIONS, HIDDEN};
    use crate::chain;
    use ash::vk::{self, TaggedStructure};
    use std::collections::BTreeSet;
    use std::ffi::{CStr, CString, c_void};

    /// The commands of Vulkan and of the extensions that make pipelines or shaders.
    fn commands() -> BTreeSet<CString> {
        let mut all = BTreeSet::new();
        let mut load = |name: &CStr| -> *const c_void {
            all.insert(name.to_owned());
            std::ptr::null()
        };
        ash::DeviceFnV1_0::load(&mut load);
        ash::DeviceFnV1_1::load(&mut load);
        ash::DeviceFnV1_2::load(&mut load);
        ash::DeviceFnV1_3::load(&mut load);
        ash::khr::ray_tracing_pipeline::DeviceFn::load(&mut load);
        ash::nv::ray_tracing::DeviceFn::load(&mut load);
        ash::nv::device_generated_commands_compute::DeviceFn::load(&mut load);
        ash::ext::shader_object::DeviceFn::load(&mut load);
        ash::ext::shader_module_identifier::DeviceFn::load(&mut load);
        ash::amdx::shader_enqueue::DeviceFn::load(&mut load);
        all
    }

    /// Lists the functions, extensions and structures that stand in the way of a layer that lowers modules. Each function is answered, each
    /// extension added or hidden, and each structure of a device's chain can be copied.
    #[test]
    fn what_stands_in_the_way_is_answered_hidden_or_copied() {
        let functions = [
            c"vkCreateInstance",
            c"vkCreateDevice",
            c"vkGetInstanceProcAddr",
            c"vkGetDeviceProcAddr",
            c"vkEnumerateDeviceExtensionProperties",
            c"vkGetPhysicalDeviceFeatures2",
            c"vkGetPhysicalDeviceProperties2",
            c"vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR",
            c"vkGetPhysicalDeviceCooperativeMatrixFlexibleDimensionsPropertiesNV",
            c"vkGetPhysicalDeviceCooperativeMatrixProperties2EXT",
            c"vkCreateShaderModule",
            c"vkGetShaderModuleIdentifierEXT",
            c"vkCreateComputePipelines",
            c"vkCreateGraphicsPipelines",
            c"vkCreateRayTracingPipelinesKHR",
            c"vkCreateShadersEXT",
        ];
        for name in functions {
            let tables = [OF_INSTANCES, OF_PHYSICAL_DEVICES, OF_ALL_DEVICES, OF_DEVICES];
            assert!(tables.into_iter().any(|table| find(table, name).is_some()), "{name:?}");
        }
        for name in [
            c"VK_KHR_cooperative_matrix",
            c"VK_NV_cooperative_matrix2",
            c"VK_EXT_cooperative_matrix_maintenance1",
            c"VK_KHR_shader_bfloat16",
        ] {
            assert!(ADDITIONS.iter().any(|addition| addition.name == name), "{name:?}");
        }
        assert!(HIDDEN.contains(&c"VK_KHR_pipeline_binary"));
        let structures = [
            vk::PhysicalDeviceFeatures2::STRUCTURE_TYPE,
            vk::PhysicalDeviceVulkan11Features::STRUCTURE_TYPE,
            vk::PhysicalDeviceVulkan12Features::STRUCTURE_TYPE,
            vk::PhysicalDeviceVulkan13Features::STRUCTURE_TYPE,
            vk::PhysicalDeviceSubgroupSizeControlFeatures::STRUCTURE_TYPE,
            vk::PhysicalDeviceShaderObjectFeaturesEXT::STRUCTURE_TYPE,
            vk::PhysicalDeviceShaderModuleIdentifierFeaturesEXT::STRUCTURE_TYPE,
            vk::PhysicalDevicePipelineRobustnessFeaturesEXT::STRUCTURE_TYPE,
            vk::PhysicalDeviceGraphicsPipelineLibraryFeaturesEXT::STRUCTURE_TYPE,
            vk::PhysicalDeviceCooperativeMatrixFeaturesKHR::STRUCTURE_TYPE,
        ];
        for structure in
            structures.map(vk::StructureType::as_raw).into_iter().chain(ADDITIONS.iter().map(|a| a.features_type))
        {
            assert!(chain::size(structure).is_some_and(|size| size >= 24), "{structure}");
        }
    }

    /// A module with matrices is a stand-in for the driver, so no command may see it unchanged.
    #[test]
    fn commands_that_take_modules_are_the_layers_or_hidden() {
        let hidden = [(c"vkCreateExecutionGraphPipelinesAMDX", c"VK_AMDX_shader_enqueue")];
        // Of words that the application has, not of a module.
        let drivers = [c"vkGetShaderModuleCreateInfoIdentifierEXT"];
        let takes_modules = |name: &CStr| {
            let name = name.to_string_lossy();
            name.contains("ShaderModule")
                || name.starts_with("vkCreate") && (name.contains("Pipelines") || name.contains("Shaders"))
        };
        let all: Vec<CString> = commands().into_iter().filter(|name| takes_modules(name)).collect();
        assert_eq!(all.len(), 10, "{all:?}");
        for name in &all {
            let by = hidden.iter().find(|(command, _)| *command == name.as_c_str());
            let is_hidden = by.is_some_and(|(_, extension)| HIDDEN.contains(extension));
            let is_known = find(OF_DEVICES, name).is_some() || is_hidden || drivers.contains(&name.as_c_str());
            assert!(is_known, "{name:?} sees modules of the layer as they are");
        }
    }
}
