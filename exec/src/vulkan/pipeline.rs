//! Descriptor sets, specialization, pipeline.

use std::ffi::CString;

use ash::vk;
use coop_ir::constant::Specialization;

use super::buffers::Buffers;
use super::check;
use super::device::Device;
use crate::case::{BufferKind, Case};
use crate::error::Error;
use crate::facts::{BindingKind, Entry, Facts};

/// A compute pipeline with everything that is bound to it.
pub(super) struct Pipeline<'a> {
    device: &'a Device<'a>,
    module: vk::ShaderModule,
    set_layouts: Vec<vk::DescriptorSetLayout>,
    pool: vk::DescriptorPool,
    sets: Vec<vk::DescriptorSet>,
    layout: vk::PipelineLayout,
    pipeline: vk::Pipeline,
    push: Vec<u8>,
    unoptimized: bool,
}

impl<'a> Pipeline<'a> {
    pub(super) fn new(
        device: &'a Device<'a>,
        words: &[u32],
        facts: &Facts,
        entry: &Entry,
        case: &Case,
        buffers: &Buffers<'_>,
        unoptimized: bool,
    ) -> Result<Pipeline<'a>, Error> {
        check_bindings(facts, case)?;
        let push = push_constants(facts, case, buffers)?;
        let specialization = SpecializationData::new(facts, &case.specialization()?)?;
        // Drop destroys what has been made so far; Vulkan ignores null handles.
        let mut this = Pipeline {
            device,
            module: vk::ShaderModule::null(),
            set_layouts: Vec::new(),
            pool: vk::DescriptorPool::null(),
            sets: Vec::new(),
            layout: vk::PipelineLayout::null(),
            pipeline: vk::Pipeline::null(),
            push,
            unoptimized,
        };
        this.make_sets(case, buffers)?;
        this.make_layout()?;
        let create = vk::ShaderModuleCreateInfo::default().code(words);
        // SAFETY: the words were read as a module by us; whether they are a valid one is for the caller to know.
        this.module = check("vkCreateShaderModule", unsafe { device.raw.create_shader_module(&create, None) })?;
        this.make_pipeline(entry, case, &specialization)?;
        Ok(this)
    }

    fn make_sets(&mut self, case: &Case, buffers: &Buffers<'_>) -> Result<(), Error> {
        let slots: Vec<_> = case
            .buffer
            .iter()
            .enumerate()
            .filter_map(|(index, buffer)| Some((buffer.slot()?, descriptor_type(buffer.kind), index)))
            .collect();
        let Some(last) = slots.iter().map(|((set, _), _, _)| *set).max() else { return Ok(()) };
        if last >= 32 {
            return Err(Error::case(format!("set {last} is more than any device has")));
        }
        for set in 0..=last {
            let bindings: Vec<_> = slots
                .iter()
                .filter(|((other, _), _, _)| *other == set)
                .map(|((_, binding), kind, _)| {
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
        let count = |kind| slots.iter().filter(|(_, other, _)| *other == kind).count() as u32;
        let kinds = [vk::DescriptorType::STORAGE_BUFFER, vk::DescriptorType::UNIFORM_BUFFER];
        let sizes: Vec<_> = kinds
            .iter()
            .map(|&ty| vk::DescriptorPoolSize { ty, descriptor_count: count(ty) })
            .filter(|size| size.descriptor_count > 0)
            .collect();
        let create = vk::DescriptorPoolCreateInfo::default().max_sets(last + 1).pool_sizes(&sizes);
        // SAFETY: as above; the sets go with their pool.
        unsafe {
            self.pool = check("vkCreateDescriptorPool", self.device.raw.create_descriptor_pool(&create, None))?;
            let allocate =
                vk::DescriptorSetAllocateInfo::default().descriptor_pool(self.pool).set_layouts(&self.set_layouts);
            self.sets = check("vkAllocateDescriptorSets", self.device.raw.allocate_descriptor_sets(&allocate))?;
        }
        for ((set, binding), kind, index) in slots {
            let info = [buffers.descriptor(index)];
            let write = vk::WriteDescriptorSet::default()
                .dst_set(self.sets[set as usize])
                .dst_binding(binding)
                .descriptor_type(kind)
                .buffer_info(&info);
            // SAFETY: the set has this binding, and nothing pending uses it.
            unsafe { self.device.raw.update_descriptor_sets(&[write], &[]) };
        }
        Ok(())
    }

    fn make_layout(&mut self) -> Result<(), Error> {
        let ranges = [vk::PushConstantRange {
            stage_flags: vk::ShaderStageFlags::COMPUTE,
            offset: 0,
            size: self.push.len() as u32,
        }];
        let limit = self.device.profile.limits.max_push_constants_size;
        if self.push.len() > limit as usize {
            let missing = vec![format!("{} bytes of push constants, maxPushConstantsSize is {limit}", self.push.len())];
            return Err(Error::Unsupported { device: self.device.profile.device.clone(), missing });
        }
        let used = if self.push.is_empty() { &[][..] } else { &ranges[..] };
        let create = vk::PipelineLayoutCreateInfo::default().set_layouts(&self.set_layouts).push_constant_ranges(used);
        // SAFETY: as for the sets.
        self.layout =
            check("vkCreatePipelineLayout", unsafe { self.device.raw.create_pipeline_layout(&create, None) })?;
        Ok(())
    }

    fn make_pipeline(&mut self, entry: &Entry, case: &Case, specialization: &SpecializationData) -> Result<(), Error> {
        let name =
            CString::new(entry.name.as_str()).map_err(|_| Error::module("the entry point's name holds a zero"))?;
        let info = vk::SpecializationInfo::default().map_entries(&specialization.entries).data(&specialization.data);
        let mut size = vk::PipelineShaderStageRequiredSubgroupSizeCreateInfo::default();
        let mut stage = vk::PipelineShaderStageCreateInfo::default()
            .stage(vk::ShaderStageFlags::COMPUTE)
            .module(self.module)
            .name(&name)
            .specialization_info(&info);
        if case.full_subgroups {
            stage = stage.flags(vk::PipelineShaderStageCreateFlags::REQUIRE_FULL_SUBGROUPS);
        }
        if let Some(required) = case.subgroup_size {
            size.required_subgroup_size = required;
            stage = stage.push_next(&mut size);
        }
        let flags = if self.unoptimized {
            vk::PipelineCreateFlags::DISABLE_OPTIMIZATION
        } else {
            vk::PipelineCreateFlags::empty()
        };
        let create = [vk::ComputePipelineCreateInfo::default().flags(flags).stage(stage).layout(self.layout)];
        // SAFETY: all that `create` points to lives until the call returns.
        let made = unsafe { self.device.raw.create_compute_pipelines(vk::PipelineCache::null(), &create, None) };
        let made = made.map_err(|(_, result)| result);
        self.pipeline = check("vkCreateComputePipelines", made)?.into_iter().next().unwrap_or_default();
        Ok(())
    }

    /// Records everything up to the dispatch.
    pub(super) fn record_bind(&self, commands: vk::CommandBuffer) {
        let (raw, point) = (&self.device.raw, vk::PipelineBindPoint::COMPUTE);
        // SAFETY: the command buffer records, and all handles live until it has run.
        unsafe {
            raw.cmd_bind_pipeline(commands, point, self.pipeline);
            if !self.sets.is_empty() {
                raw.cmd_bind_descriptor_sets(commands, point, self.layout, 0, &self.sets, &[]);
            }
            if !self.push.is_empty() {
                raw.cmd_push_constants(commands, self.layout, vk::ShaderStageFlags::COMPUTE, 0, &self.push);
            }
        }
    }
}

impl Drop for Pipeline<'_> {
    fn drop(&mut self) {
        if self.device.instance.abandoned.get() {
            return;
        }
        let raw = &self.device.raw;
        // SAFETY: made here, destroyed once, and no submission is pending.
        unsafe {
            raw.destroy_pipeline(self.pipeline, None);
            raw.destroy_pipeline_layout(self.layout, None);
            raw.destroy_descriptor_pool(self.pool, None);
            for &layout in &self.set_layouts {
                raw.destroy_descriptor_set_layout(layout, None);
            }
            raw.destroy_shader_module(self.module, None);
        }
    }
}

/// The data that `VkSpecializationInfo` points to.
struct SpecializationData {
    entries: Vec<vk::SpecializationMapEntry>,
    data: Vec<u8>,
}

impl SpecializationData {
    /// Collects the values. Those of SpecIds that the module does not have are left out: another module of the same
    /// case has them.
    fn new(facts: &Facts, specialization: &Specialization) -> Result<SpecializationData, Error> {
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

fn descriptor_type(kind: BufferKind) -> vk::DescriptorType {
    match kind {
        BufferKind::Storage => vk::DescriptorType::STORAGE_BUFFER,
        BufferKind::Uniform => vk::DescriptorType::UNIFORM_BUFFER,
    }
}

/// Checks that every binding that the module uses has a buffer of the same kind.
fn check_bindings(facts: &Facts, case: &Case) -> Result<(), Error> {
    for binding in facts.bindings.iter().filter(|binding| binding.used) {
        let (set, slot) = (binding.set, binding.binding);
        let name = binding.name.as_deref().map(|name| format!(" ({name})")).unwrap_or_default();
        let place = format!("set {set}, binding {slot}{name}");
        let wanted = match binding.kind {
            BindingKind::Storage => BufferKind::Storage,
            BindingKind::Uniform => BufferKind::Uniform,
            BindingKind::Other => {
                return Err(Error::module(format!("{place} is neither a storage nor a uniform buffer")));
            }
        };
        match case.buffer.iter().find(|buffer| buffer.slot() == Some((set, slot))) {
            None => return Err(Error::case(format!("the module uses {place}; the case has no buffer for it"))),
            Some(buffer) if buffer.kind != wanted => {
                let kind = if wanted == BufferKind::Uniform { "uniform" } else { "storage" };
                return Err(Error::case(format!("buffer {}: the module's {place} is a {kind} buffer", buffer.name)));
            }
            Some(_) => {}
        }
    }
    Ok(())
}

fn push_constants(facts: &Facts, case: &Case, buffers: &Buffers<'_>) -> Result<Vec<u8>, Error> {
    let mut push = case.push_constants(&|name| buffers.address(case, name))?;
    if let Some(size) = facts.push_size
        && push.len() < size as usize
    {
        let given = push.len();
        return Err(Error::case(format!(
            "push: the module has {size} bytes of push constants, the case gives {given}"
        )));
    }
    push.resize(push.len().next_multiple_of(4), 0);
    Ok(push)
}
