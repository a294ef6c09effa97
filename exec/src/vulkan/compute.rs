//! A compute pipeline with its layout, and nothing bound to it.

use std::ffi::CString;

use ash::vk;
use coop_ir::constant::Specialization;

use super::check;
use super::device::Device;
use crate::case::Case;
use crate::error::Error;
use crate::facts::{Entry, Facts};

/// A descriptor: its set and binding, and its type.
pub(super) type Slot = ((u32, u32), vk::DescriptorType);

/// Everything that a pipeline is made of besides the words of its module.
pub(super) struct Plan<'p> {
    /// The entry point.
    pub(super) entry: &'p Entry,
    /// The case, for what it asks of subgroups.
    pub(super) case: &'p Case,
    /// The descriptors.
    pub(super) slots: &'p [Slot],
    /// Bytes of push constants.
    pub(super) push: usize,
    /// The values of specialization constants.
    pub(super) specialization: SpecializationData,
    /// Flags of the pipeline.
    pub(super) flags: vk::PipelineCreateFlags,
}

/// A compute pipeline and its layout.
pub(super) struct Compute<'a> {
    pub(super) device: &'a Device<'a>,
    pub(super) set_layouts: Vec<vk::DescriptorSetLayout>,
    pub(super) layout: vk::PipelineLayout,
    pub(super) pipeline: vk::Pipeline,
    module: vk::ShaderModule,
}

impl<'a> Compute<'a> {
    /// Makes the layout and the shader module, but no pipeline yet.
    pub(super) fn new(device: &'a Device<'a>, words: &[u32], plan: &Plan<'_>) -> Result<Compute<'a>, Error> {
        // Drop destroys what has been made so far; Vulkan ignores null handles.
        let mut this = Compute {
            device,
            set_layouts: Vec::new(),
            layout: vk::PipelineLayout::null(),
            pipeline: vk::Pipeline::null(),
            module: vk::ShaderModule::null(),
        };
        this.make_set_layouts(plan.slots)?;
        this.make_layout(plan.push)?;
        let create = vk::ShaderModuleCreateInfo::default().code(words);
        // SAFETY: the words were read as a module by us; whether they are a valid one is for the caller to know.
        this.module = check("vkCreateShaderModule", unsafe { device.raw.create_shader_module(&create, None) })?;
        Ok(this)
    }

    fn make_set_layouts(&mut self, slots: &[Slot]) -> Result<(), Error> {
        let Some(last) = slots.iter().map(|((set, _), _)| *set).max() else { return Ok(()) };
        if last >= 32 {
            return Err(Error::case(format!("set {last} is more than any device has: sets are 0 to 31")));
        }
        for set in 0..=last {
            let bindings: Vec<_> = slots
                .iter()
                .filter(|((other, _), _)| *other == set)
                .map(|((_, binding), kind)| {
                    vk::DescriptorSetLayoutBinding::default()
                        .binding(*binding)
                        .descriptor_type(*kind)
                        .descriptor_count(1)
                        .stage_flags(vk::ShaderStageFlags::COMPUTE)
                })
                .collect();
            let create = vk::DescriptorSetLayoutCreateInfo::default().bindings(&bindings);
            // SAFETY: the device is alive, here and below; Drop destroys each handle once.
            let layout = unsafe { self.device.raw.create_descriptor_set_layout(&create, None) };
            self.set_layouts.push(check("vkCreateDescriptorSetLayout", layout)?);
        }
        Ok(())
    }

    fn make_layout(&mut self, push: usize) -> Result<(), Error> {
        let ranges =
            [vk::PushConstantRange { stage_flags: vk::ShaderStageFlags::COMPUTE, offset: 0, size: push as u32 }];
        let limit = self.device.profile.limits.max_push_constants_size;
        if push > limit as usize {
            let missing = vec![format!("{push} bytes of push constants, maxPushConstantsSize is {limit}")];
            return Err(Error::Unsupported { device: self.device.profile.device.clone(), missing });
        }
        let used = if push == 0 { &[][..] } else { &ranges[..] };
        let create = vk::PipelineLayoutCreateInfo::default().set_layouts(&self.set_layouts).push_constant_ranges(used);
        // SAFETY: as for the sets.
        self.layout =
            check("vkCreatePipelineLayout", unsafe { self.device.raw.create_pipeline_layout(&create, None) })?;
        Ok(())
    }

    /// Makes the pipeline, which is where most drivers compile.
    pub(super) fn make_pipeline(&mut self, plan: &Plan<'_>) -> Result<(), Error> {
        let name =
            CString::new(plan.entry.name.as_str()).map_err(|_| Error::module("the entry point's name holds a zero"))?;
        let values = &plan.specialization;
        let info = vk::SpecializationInfo::default().map_entries(&values.entries).data(&values.data);
        let mut size = vk::PipelineShaderStageRequiredSubgroupSizeCreateInfo::default();
        let mut stage = vk::PipelineShaderStageCreateInfo::default()
            .stage(vk::ShaderStageFlags::COMPUTE)
            .module(self.module)
            .name(&name)
            .specialization_info(&info);
        if plan.case.full_subgroups {
            stage = stage.flags(vk::PipelineShaderStageCreateFlags::REQUIRE_FULL_SUBGROUPS);
        }
        if let Some(required) = plan.case.subgroup_size {
            size.required_subgroup_size = required;
            stage = stage.push_next(&mut size);
        }
        let create = [vk::ComputePipelineCreateInfo::default().flags(plan.flags).stage(stage).layout(self.layout)];
        // SAFETY: all that `create` points to lives until the call returns.
        let made = unsafe { self.device.raw.create_compute_pipelines(vk::PipelineCache::null(), &create, None) };
        let made = made.map_err(|(_, result)| result);
        self.pipeline = check("vkCreateComputePipelines", made)?.into_iter().next().unwrap_or_default();
        Ok(())
    }
}

impl Drop for Compute<'_> {
    fn drop(&mut self) {
        if self.device.instance.abandoned.get() {
            return;
        }
        let raw = &self.device.raw;
        // SAFETY: made here, destroyed once, and no submission is pending.
        unsafe {
            raw.destroy_pipeline(self.pipeline, None);
            raw.destroy_pipeline_layout(self.layout, None);
            for &layout in &self.set_layouts {
                raw.destroy_descriptor_set_layout(layout, None);
            }
            raw.destroy_shader_module(self.module, None);
        }
    }
}

/// The data that `VkSpecializationInfo` points to.
pub(super) struct SpecializationData {
    entries: Vec<vk::SpecializationMapEntry>,
    data: Vec<u8>,
}

impl SpecializationData {
    /// Collects the values. Those of SpecIds that the module does not have are left out: another module of the same
    /// case has them.
    pub(super) fn new(facts: &Facts, specialization: &Specialization) -> Result<SpecializationData, Error> {
        let mut this = SpecializationData { entries: Vec::new(), data: Vec::new() };
        for spec in &facts.specs {
            let Some(value) = specialization.get(spec.spec_id) else { continue };
            let id = spec.spec_id;
            let bits = value.bits(&spec.kind).map_err(|why| Error::case(format!("spec {id}: {why}")))?;
            let size = spec.size();
            let offset = this.data.len() as u32;
            this.data.extend_from_slice(&bits.to_le_bytes()[..size]);
            this.entries.push(vk::SpecializationMapEntry { constant_id: id, offset, size });
        }
        Ok(this)
    }
}
