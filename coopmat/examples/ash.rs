//! An engine on ash that makes a compute pipeline of whatever module it is given, on whatever device there is.
//!
//!     cargo run -p coopmat --features vulkan --example ash -- testdata/kernels/gemm_simple.spv
//!
//! All that has to do with coopmat is in `adapt` and in a few lines of `run`.

use ash::vk;
use coopmat::{Device, EnabledFeatures, Lowered, MapEntry, Outcome, PipelineOptions, Prepared, Specialization};
use std::error::Error;
use std::path::Path;

/// Returns the words that the engine makes pipelines of: the module as it is, or lowered for the device.
fn adapt(
    device: &Device,
    words: &[u32],
    entries: &[vk::SpecializationMapEntry],
    data: &[u8],
) -> Result<Option<Box<Lowered>>, Box<dyn Error>> {
    let entry =
        |e: &vk::SpecializationMapEntry| MapEntry { constant_id: e.constant_id, offset: e.offset, size: e.size };
    let entries: Vec<MapEntry> = entries.iter().map(entry).collect();
    let mut options = PipelineOptions::default();
    options.entry_point = Some("main".to_owned());
    options.specialization = Specialization::from_entries(&entries, data)?;
    match Prepared::read(words)?.for_pipeline(device, &options) {
        Outcome::Native => Ok(None),
        Outcome::Lowered(lowered) => Ok(Some(lowered)),
        Outcome::Refused(refused) => Err(refused),
    }
}

#[allow(clippy::print_stdout, reason = "a program")]
fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("usage: ash MODULE.spv")?;
    println!("{}", run(path.as_ref())?);
    Ok(())
}

/// Makes a pipeline of a module, and says of what.
#[allow(unsafe_code, reason = "Vulkan")]
pub(crate) fn run(path: &Path) -> Result<String, Box<dyn Error>> {
    let words = ash::util::read_spv(&mut std::fs::File::open(path)?)?;
    // SAFETY: plain Vulkan, in order; what is made is destroyed at the end, when nothing uses it any more.
    unsafe {
        let entry = ash::Entry::load()?;
        let application = vk::ApplicationInfo::default().api_version(vk::API_VERSION_1_3);
        let instance =
            entry.create_instance(&vk::InstanceCreateInfo::default().application_info(&application), None)?;
        let physical = *instance.enumerate_physical_devices()?.first().ok_or("no device")?;

        // What the engine enables: here all that the device has of Vulkan 1.1 to 1.3, and its matrices.
        let mut vulkan11 = vk::PhysicalDeviceVulkan11Features::default();
        let mut vulkan12 = vk::PhysicalDeviceVulkan12Features::default();
        let mut vulkan13 = vk::PhysicalDeviceVulkan13Features::default();
        let mut matrices = vk::PhysicalDeviceCooperativeMatrixFeaturesKHR::default();
        let mut features = vk::PhysicalDeviceFeatures2::default()
            .push_next(&mut vulkan11)
            .push_next(&mut vulkan12)
            .push_next(&mut vulkan13)
            .push_next(&mut matrices);
        instance.get_physical_device_features2(physical, &mut features);
        let extensions = instance.enumerate_device_extension_properties(physical)?;
        let has = |name| extensions.iter().any(|e| e.extension_name_as_c_str() == Ok(name));
        let wanted = [ash::khr::cooperative_matrix::NAME].into_iter().filter(|name| has(name));
        let names: Vec<_> = wanted.map(|name| name.as_ptr()).collect();
        let queues = [vk::DeviceQueueCreateInfo::default().queue_priorities(&[1.0])];
        let mut info = vk::DeviceCreateInfo::default().queue_create_infos(&queues).enabled_extension_names(&names);
        info = info.push_next(&mut features);
        let device = instance.create_device(physical, &info, None)?;

        let mut enabled = EnabledFeatures::from_create_info(&info);
        enabled.api_version = Some(coopmat::ApiVersion::from_packed(application.api_version));
        let lowered = adapt(&Device::from_vulkan(&entry, &instance, physical, &enabled)?, &words, &[], &[])?;

        let code = lowered.as_ref().map_or(&words, |lowered| &lowered.words);
        let module = device.create_shader_module(&vk::ShaderModuleCreateInfo::default().code(code), None)?;
        let mut stage = vk::PipelineShaderStageCreateInfo::default()
            .stage(vk::ShaderStageFlags::COMPUTE)
            .name(c"main")
            .module(module);
        let needs = lowered.as_ref().map(|lowered| lowered.requirements.clone()).unwrap_or_default();
        let mut size = vk::PipelineShaderStageRequiredSubgroupSizeCreateInfo::default();
        if let Some(required) = needs.subgroup_size {
            size.required_subgroup_size = required;
            stage = stage.push_next(&mut size);
        }
        if needs.full_subgroups {
            stage.flags |= vk::PipelineShaderStageCreateFlags::REQUIRE_FULL_SUBGROUPS;
        }
        let binding = |n| {
            vk::DescriptorSetLayoutBinding::default()
                .binding(n)
                .descriptor_type(vk::DescriptorType::STORAGE_BUFFER)
                .descriptor_count(1)
                .stage_flags(vk::ShaderStageFlags::COMPUTE)
        };
        let bindings: Vec<_> = (0..4).map(binding).collect();
        let set = device
            .create_descriptor_set_layout(&vk::DescriptorSetLayoutCreateInfo::default().bindings(&bindings), None)?;
        let push = [vk::PushConstantRange { stage_flags: vk::ShaderStageFlags::COMPUTE, offset: 0, size: 128 }];
        let sets = [set];
        let layout = device.create_pipeline_layout(
            &vk::PipelineLayoutCreateInfo::default().set_layouts(&sets).push_constant_ranges(&push),
            None,
        )?;
        let create = vk::ComputePipelineCreateInfo::default().stage(stage).layout(layout);
        let pipelines = device.create_compute_pipelines(vk::PipelineCache::null(), &[create], None);
        let pipelines = pipelines.map_err(|(_, result)| result)?;
        let said = match &lowered {
            None => "the pipeline is made of the module as it is".to_owned(),
            Some(lowered) => format!("the pipeline is made of {} words, {:?}", code.len(), lowered.target),
        };
        pipelines.into_iter().for_each(|pipeline| device.destroy_pipeline(pipeline, None));
        device.destroy_pipeline_layout(layout, None);
        device.destroy_descriptor_set_layout(set, None);
        device.destroy_shader_module(module, None);
        device.destroy_device(None);
        instance.destroy_instance(None);
        Ok(said)
    }
}
