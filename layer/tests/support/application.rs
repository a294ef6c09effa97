//! An application of Vulkan, and what it makes pipelines of.
#![allow(unsafe_code)]
#![allow(
    clippy::undocumented_unsafe_blocks,
    reason = "one reason for all: handles are the test's own and alive, structures live during calls"
)]

use std::ffi::{CStr, c_void};
use std::sync::Mutex;

use ash::vk;
use coop_exec::testing::words;

/// An instance with one physical device and what the layer's messages say.
pub(crate) struct Application {
    pub(crate) entry: ash::Entry,
    pub(crate) instance: ash::Instance,
    pub(crate) physical: vk::PhysicalDevice,
    pub(crate) messenger: Option<(ash::ext::debug_utils::Instance, vk::DebugUtilsMessengerEXT)>,
}

pub(crate) static MESSAGES: Mutex<Vec<String>> = Mutex::new(Vec::new());

unsafe extern "system" fn collect(
    _: vk::DebugUtilsMessageSeverityFlagsEXT,
    _: vk::DebugUtilsMessageTypeFlagsEXT,
    data: *const vk::DebugUtilsMessengerCallbackDataEXT<'_>,
    _: *mut c_void,
) -> vk::Bool32 {
    let text = unsafe { CStr::from_ptr((*data).p_message) }.to_string_lossy().into_owned();
    MESSAGES.lock().unwrap().push(text);
    vk::FALSE
}

impl Application {
    pub(crate) fn new() -> Application {
        Application::with_version(vk::API_VERSION_1_3)
    }

    pub(crate) fn with_version(version: u32) -> Application {
        let entry = unsafe { ash::Entry::load() }.unwrap();
        let application = vk::ApplicationInfo::default().api_version(version);
        let names = [ash::ext::debug_utils::NAME.as_ptr()];
        let info = vk::InstanceCreateInfo::default().application_info(&application).enabled_extension_names(&names);
        let instance = unsafe { entry.create_instance(&info, None) }.unwrap();
        let functions = ash::ext::debug_utils::Instance::new(&entry, &instance);
        let info = vk::DebugUtilsMessengerCreateInfoEXT::default()
            .message_severity(vk::DebugUtilsMessageSeverityFlagsEXT::ERROR)
            .message_type(vk::DebugUtilsMessageTypeFlagsEXT::GENERAL | vk::DebugUtilsMessageTypeFlagsEXT::VALIDATION)
            .pfn_user_callback(Some(collect));
        let messenger = unsafe { functions.create_debug_utils_messenger(&info, None) }.unwrap();
        let physical = unsafe { instance.enumerate_physical_devices() }.unwrap()[0];
        Application { entry, instance, physical, messenger: Some((functions, messenger)) }
    }

    pub(crate) fn extensions(&self) -> Vec<(String, u32)> {
        let all = unsafe { self.instance.enumerate_device_extension_properties(self.physical) }.unwrap();
        let name = |e: &vk::ExtensionProperties| e.extension_name_as_c_str().unwrap().to_string_lossy().into_owned();
        all.iter().map(|e| (name(e), e.spec_version)).collect()
    }

    pub(crate) fn function<F: Copy>(&self, name: &CStr) -> F {
        let function = unsafe { self.entry.get_instance_proc_addr(self.instance.handle(), name.as_ptr()) };
        let function = function.unwrap_or_else(|| panic!("no {name:?}"));
        assert_eq!(size_of::<F>(), size_of::<fn()>());
        unsafe { std::mem::transmute_copy(&function) }
    }

    /// A device with matrices, as ggml makes one.
    pub(crate) fn device(&self, matrices: bool) -> ash::Device {
        self.device_with(matrices, &[])
    }

    /// Likewise, with further extensions.
    pub(crate) fn device_with(&self, matrices: bool, more: &[&CStr]) -> ash::Device {
        let mut khr = Raw::new(1_000_506_000, [1, 0, 0, 0, 0, 0, 0, 0]);
        let mut nv2 = Raw::new(1_000_593_000, [1, 1, 1, 1, 1, 1, 1, 0]);
        let mut v11 = vk::PhysicalDeviceVulkan11Features::default().storage_buffer16_bit_access(true);
        let mut v12 = vk::PhysicalDeviceVulkan12Features::default()
            .shader_float16(true)
            .vulkan_memory_model(true)
            .vulkan_memory_model_device_scope(true);
        khr.next = (&raw mut nv2).cast();
        nv2.next = (&raw mut v12).cast();
        let queue = [vk::DeviceQueueCreateInfo::default().queue_family_index(0).queue_priorities(&[1.0])];
        let own = [c"VK_KHR_cooperative_matrix", c"VK_NV_cooperative_matrix2"];
        let names: Vec<_> = own.iter().chain(more).map(|name| name.as_ptr()).collect();
        let mut info = vk::DeviceCreateInfo::default().queue_create_infos(&queue);
        if matrices {
            info = info.enabled_extension_names(&names).push_next(&mut v11);
            // At the head, so that they have to be taken out of the middle.
            let last = info.p_next.cast::<vk::BaseInStructure<'_>>().cast_mut();
            unsafe { (*last).p_next = (&raw const khr).cast() };
        }
        let device = unsafe { self.instance.create_device(self.physical, &info, None) }.unwrap();
        assert!(!matrices || khr.next == (&raw mut nv2).cast(), "the application's chain is its own");
        device
    }

    /// A device with VK_KHR_cooperative_matrix and no other feature.
    pub(crate) fn weak_device(&self) -> ash::Device {
        let khr = Raw::new(1_000_506_000, [1, 0, 0, 0, 0, 0, 0, 0]);
        let queue = [vk::DeviceQueueCreateInfo::default().queue_family_index(0).queue_priorities(&[1.0])];
        let names = [c"VK_KHR_cooperative_matrix".as_ptr()];
        let mut info = vk::DeviceCreateInfo::default().queue_create_infos(&queue).enabled_extension_names(&names);
        info.p_next = (&raw const khr).cast();
        unsafe { self.instance.create_device(self.physical, &info, None) }.unwrap()
    }

    /// A device with VK_KHR_cooperative_matrix and nothing else of the layer's, as Dawn makes one: by Vulkan 1.1 and extensions.
    pub(crate) fn khr_device(&self) -> ash::Device {
        let mut khr = Raw::new(1_000_506_000, [1, 0, 0, 0, 0, 0, 0, 0]);
        let mut model = vk::PhysicalDeviceVulkanMemoryModelFeatures::default()
            .vulkan_memory_model(true)
            .vulkan_memory_model_device_scope(true);
        let mut small = vk::PhysicalDeviceShaderFloat16Int8Features::default().shader_float16(true);
        let mut storage = vk::PhysicalDevice16BitStorageFeatures::default().storage_buffer16_bit_access(true);
        let queue = [vk::DeviceQueueCreateInfo::default().queue_family_index(0).queue_priorities(&[1.0])];
        let names = [
            c"VK_KHR_cooperative_matrix".as_ptr(),
            c"VK_KHR_vulkan_memory_model".as_ptr(),
            c"VK_KHR_shader_float16_int8".as_ptr(),
            c"VK_KHR_shader_float_controls".as_ptr(),
            c"VK_KHR_spirv_1_4".as_ptr(),
        ];
        let info = vk::DeviceCreateInfo::default().queue_create_infos(&queue).enabled_extension_names(&names);
        let mut info = info.push_next(&mut model).push_next(&mut small).push_next(&mut storage);
        khr.next = info.p_next.cast_mut();
        info.p_next = (&raw const khr).cast();
        unsafe { self.instance.create_device(self.physical, &info, None) }.unwrap()
    }
}

impl Drop for Application {
    fn drop(&mut self) {
        unsafe {
            if let Some((functions, messenger)) = self.messenger.take() {
                functions.destroy_debug_utils_messenger(messenger, None);
            }
            self.instance.destroy_instance(None);
        }
    }
}

/// A structure of 32-bit members.
#[repr(C)]
pub(crate) struct Raw {
    pub(crate) s_type: i32,
    pub(crate) next: *mut c_void,
    pub(crate) members: [u32; 8],
}

impl Raw {
    pub(crate) fn new(s_type: i32, members: [u32; 8]) -> Raw {
        Raw { s_type, next: std::ptr::null_mut(), members }
    }
}

/// The layout of a pipeline: bindings 0 to 3 and push constants.
pub(crate) struct Layout {
    pub(crate) set: vk::DescriptorSetLayout,
    pub(crate) layout: vk::PipelineLayout,
}

impl Layout {
    pub(crate) fn new(device: &ash::Device) -> Layout {
        let binding = |binding| {
            vk::DescriptorSetLayoutBinding::default()
                .binding(binding)
                .descriptor_type(vk::DescriptorType::STORAGE_BUFFER)
                .descriptor_count(1)
                .stage_flags(vk::ShaderStageFlags::COMPUTE)
        };
        let bindings: Vec<_> = (0..4).map(binding).collect();
        let ranges = [vk::PushConstantRange { stage_flags: vk::ShaderStageFlags::COMPUTE, offset: 0, size: 64 }];
        unsafe {
            let info = vk::DescriptorSetLayoutCreateInfo::default().bindings(&bindings);
            let set = device.create_descriptor_set_layout(&info, None).unwrap();
            let sets = [set];
            let info = vk::PipelineLayoutCreateInfo::default().set_layouts(&sets).push_constant_ranges(&ranges);
            Layout { set, layout: device.create_pipeline_layout(&info, None).unwrap() }
        }
    }

    pub(crate) fn destroy(self, device: &ash::Device) {
        unsafe {
            device.destroy_pipeline_layout(self.layout, None);
            device.destroy_descriptor_set_layout(self.set, None);
        }
    }
}

/// The sizes of matrices that `gemm_simple` has as constants 0 to 2, and its workgroup as 3.
pub(crate) struct Sizes {
    pub(crate) entries: Vec<vk::SpecializationMapEntry>,
    pub(crate) data: Vec<u8>,
}

impl Sizes {
    pub(crate) fn new(values: [u32; 4]) -> Sizes {
        let entry = |i: u32| vk::SpecializationMapEntry { constant_id: i, offset: i * 4, size: 4 };
        Sizes { entries: (0..4).map(entry).collect(), data: values.iter().flat_map(|v| v.to_ne_bytes()).collect() }
    }

    pub(crate) fn info(&self) -> vk::SpecializationInfo<'_> {
        vk::SpecializationInfo::default().map_entries(&self.entries).data(&self.data)
    }
}

pub(crate) fn gemm() -> Vec<u32> {
    words("testdata/kernels/gemm_simple.spv")
}

pub(crate) fn module(device: &ash::Device, words: &[u32]) -> Result<vk::ShaderModule, vk::Result> {
    unsafe { device.create_shader_module(&vk::ShaderModuleCreateInfo::default().code(words), None) }
}

pub(crate) fn stage<'a>(
    module: vk::ShaderModule,
    sizes: &'a vk::SpecializationInfo<'a>,
) -> vk::PipelineShaderStageCreateInfo<'a> {
    vk::PipelineShaderStageCreateInfo::default()
        .stage(vk::ShaderStageFlags::COMPUTE)
        .module(module)
        .name(c"main")
        .specialization_info(sizes)
}
