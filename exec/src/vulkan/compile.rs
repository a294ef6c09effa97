//! One pipeline and what the driver says about it.

use std::ffi::c_char;
use std::time::Instant;

use ash::khr::pipeline_executable_properties as properties;
use ash::prelude::VkResult;
use ash::vk;
use coop_device::ApiVersion;

use super::compute::{Compute, Plan, Slot, SpecializationData};
use super::device::{Device, Needs};
use super::pipeline::{buffer_kind, descriptor_type};
use super::run::{check_sizes, without_subgroup_size};
use super::{VulkanExecutor, check};
use crate::case::Case;
use crate::compiled::{Compiled, Executable, Statistic, Text, Value};
use crate::error::Error;
use crate::executor::RunOptions;
use crate::facts::Facts;

/// The extension that describes pipelines.
pub(super) const EXTENSION: &str = "VK_KHR_pipeline_executable_properties";

/// The number of the structure of its features, which has one: every device with the extension has that.
pub(super) const FEATURES: i32 =
    vk::StructureType::PHYSICAL_DEVICE_PIPELINE_EXECUTABLE_PROPERTIES_FEATURES_KHR.as_raw();

pub(super) fn compile(
    executor: &VulkanExecutor<'_>,
    words: &[u32],
    case: &Case,
    texts: bool,
) -> Result<Compiled, Error> {
    let (instance, physical) = (executor.instance, executor.physical);
    let profile = &physical.profile;
    let module = coop_ir::binary::read_words(words).map_err(|error| Error::module(error.to_string()))?;
    let facts = Facts::new(&module, &case.specialization()?);
    let entry = facts.entry(case.entry.as_deref())?;
    let version: ApiVersion = profile.api_version.min(instance.version);
    let freed = without_subgroup_size(case, &facts, physical);
    let case = freed.as_ref().unwrap_or(case);
    let mut needs = Needs::new(&facts, entry, case, &RunOptions::default(), profile, version)?;
    check_sizes(physical, entry, case)?;
    let described = profile.has_extension(EXTENSION);
    if described {
        needs.extensions.insert(EXTENSION);
    }
    let device = executor.logical(needs)?;
    let mut flags = vk::PipelineCreateFlags::empty();
    if described {
        flags |= vk::PipelineCreateFlags::CAPTURE_STATISTICS_KHR;
        if texts {
            flags |= vk::PipelineCreateFlags::CAPTURE_INTERNAL_REPRESENTATIONS_KHR;
        }
    }
    if executor.unoptimized {
        flags |= vk::PipelineCreateFlags::DISABLE_OPTIMIZATION;
    }
    let slots = slots(&facts)?;
    if facts.push.is_some() && facts.push_size.is_none() {
        return Err(Error::module("the size of the push constants depends on what is not known"));
    }
    let plan = Plan {
        entry,
        case,
        slots: &slots,
        push: facts.push_size.unwrap_or(0).next_multiple_of(4) as usize,
        specialization: SpecializationData::new(&facts, &case.specialization()?)?,
        flags,
    };
    let mut compute = Compute::new(&device, words, &plan)?;
    let start = Instant::now();
    compute.make_pipeline(&plan)?;
    let time = start.elapsed();
    let executables = if described { Some(executables(&device, compute.pipeline, texts)?) } else { None };
    Ok(Compiled {
        device: profile.device.clone(),
        driver: format!("{} {}", profile.driver, profile.driver_info),
        time,
        executables,
        messages: Vec::new(),
    })
}

/// Returns the descriptors that the module uses.
fn slots(facts: &Facts) -> Result<Vec<Slot>, Error> {
    let mut slots: Vec<Slot> = Vec::new();
    for binding in facts.bindings.iter().filter(|binding| binding.used) {
        let (at, kind) = ((binding.set, binding.binding), descriptor_type(buffer_kind(binding)?));
        match slots.iter().find(|(other, _)| *other == at) {
            None => slots.push((at, kind)),
            Some((_, other)) if *other == kind => {}
            Some(_) => {
                return Err(Error::module(format!("{} is both a storage and a uniform buffer", binding.place())));
            }
        }
    }
    Ok(slots)
}

fn executables(device: &Device<'_>, pipeline: vk::Pipeline, texts: bool) -> Result<Vec<Executable>, Error> {
    let functions = properties::Device::new(&device.instance.raw, &device.raw);
    let info = vk::PipelineInfoKHR::default().pipeline(pipeline);
    // SAFETY: the pipeline was made with the flags that the queries ask for, here and below, and is alive.
    let found = unsafe { functions.get_pipeline_executable_properties(&info) };
    let found = check("vkGetPipelineExecutablePropertiesKHR", found)?;
    let mut executables = Vec::new();
    for (index, one) in (0..).zip(&found) {
        let info = vk::PipelineExecutableInfoKHR::default().pipeline(pipeline).executable_index(index);
        // SAFETY: as above; the pipeline has an executable of this index.
        let statistics = unsafe { functions.get_pipeline_executable_statistics(&info) };
        let statistics = check("vkGetPipelineExecutableStatisticsKHR", statistics)?;
        let texts = if texts {
            check("vkGetPipelineExecutableInternalRepresentationsKHR", representations(&functions, &info))?
        } else {
            Vec::new()
        };
        executables.push(Executable {
            name: text(&one.name),
            description: text(&one.description),
            subgroup_size: one.subgroup_size,
            statistics: statistics.iter().filter_map(statistic).collect(),
            texts,
        });
    }
    Ok(executables)
}

/// Returns a statistic; `None` for one of a type that Vulkan did not have when this was written.
fn statistic(one: &vk::PipelineExecutableStatisticKHR<'_>) -> Option<Statistic> {
    use vk::PipelineExecutableStatisticFormatKHR as Format;
    // SAFETY: the format says which member the driver wrote.
    let value = unsafe {
        match one.format {
            Format::BOOL32 => Value::Bool(one.value.b32 != vk::FALSE),
            Format::INT64 => Value::Int(one.value.i64),
            Format::UINT64 => Value::Uint(one.value.u64),
            Format::FLOAT64 => Value::Float(one.value.f64),
            _ => return None,
        }
    };
    Some(Statistic { name: text(&one.name), description: text(&one.description), value })
}

/// Returns the texts of an executable: ash's wrapper returns their sizes only.
fn representations(functions: &properties::Device, info: &vk::PipelineExecutableInfoKHR<'_>) -> VkResult<Vec<Text>> {
    // SAFETY: as for the statistics.
    let mut found = unsafe { functions.get_pipeline_executable_internal_representations(info) }?;
    let mut buffers: Vec<Vec<u8>> = found.iter().map(|one| vec![0; one.data_size]).collect();
    for (one, buffer) in found.iter_mut().zip(&mut buffers) {
        one.p_data = buffer.as_mut_ptr().cast();
    }
    let mut count = found.len() as u32;
    // SAFETY: each structure points to a buffer of the size that it names; all live until the call returns.
    let result = unsafe {
        (functions.fp().get_pipeline_executable_internal_representations_khr)(
            functions.device(),
            info,
            &mut count,
            found.as_mut_ptr(),
        )
    };
    result.result()?;
    let texts = found.iter().zip(&buffers).map(|(one, buffer)| Text {
        name: text(&one.name),
        description: text(&one.description),
        text: (one.is_text == vk::TRUE).then(|| {
            // The size counts the final zero.
            let end = buffer.iter().position(|&byte| byte == 0).unwrap_or(buffer.len());
            String::from_utf8_lossy(&buffer[..end]).into_owned()
        }),
    });
    Ok(texts.collect())
}

/// Returns a name that the driver wrote into an array; one without a final zero is taken whole.
fn text(chars: &[c_char]) -> String {
    let bytes: Vec<u8> = chars.iter().take_while(|&&c| c != 0).map(|&c| c.to_ne_bytes()[0]).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}
