//! A pipeline with the buffers and the push constants of a case bound to it.

use ash::vk;

use super::buffers::Buffers;
use super::check;
use super::compute::{Compute, Plan, Slot, SpecializationData};
use super::device::Device;
use crate::case::{BufferKind, Case};
use crate::error::Error;
use crate::facts::{Binding, BindingKind, Entry, Facts};

/// A compute pipeline with everything that is bound to it.
pub(super) struct Pipeline<'a> {
    compute: Compute<'a>,
    pool: vk::DescriptorPool,
    sets: Vec<vk::DescriptorSet>,
    push: Vec<u8>,
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
        let bound: Vec<(Slot, usize)> = case
            .buffer
            .iter()
            .enumerate()
            .filter_map(|(index, buffer)| Some(((buffer.slot()?, descriptor_type(buffer.kind)), index)))
            .collect();
        let slots: Vec<Slot> = bound.iter().map(|(slot, _)| *slot).collect();
        let flags =
            if unoptimized { vk::PipelineCreateFlags::DISABLE_OPTIMIZATION } else { vk::PipelineCreateFlags::empty() };
        let specialization = SpecializationData::new(facts, &case.specialization()?)?;
        let plan = Plan { entry, case, slots: &slots, push: push.len(), specialization, flags };
        let compute = Compute::new(device, words, &plan)?;
        // Drop destroys what has been made so far; Vulkan ignores null handles.
        let mut this = Pipeline { compute, pool: vk::DescriptorPool::null(), sets: Vec::new(), push };
        this.make_sets(&bound, buffers)?;
        this.compute.make_pipeline(&plan)?;
        Ok(this)
    }

    fn make_sets(&mut self, bound: &[(Slot, usize)], buffers: &Buffers<'_>) -> Result<(), Error> {
        let Compute { device, set_layouts, .. } = &self.compute;
        if set_layouts.is_empty() {
            return Ok(());
        }
        let count = |kind| bound.iter().filter(|((_, other), _)| *other == kind).count() as u32;
        let kinds = [vk::DescriptorType::STORAGE_BUFFER, vk::DescriptorType::UNIFORM_BUFFER];
        let sizes: Vec<_> = kinds
            .iter()
            .map(|&ty| vk::DescriptorPoolSize { ty, descriptor_count: count(ty) })
            .filter(|size| size.descriptor_count > 0)
            .collect();
        let create = vk::DescriptorPoolCreateInfo::default().max_sets(set_layouts.len() as u32).pool_sizes(&sizes);
        // SAFETY: the device is alive; Drop destroys the pool once, and the sets go with it.
        unsafe {
            self.pool = check("vkCreateDescriptorPool", device.raw.create_descriptor_pool(&create, None))?;
            let allocate = vk::DescriptorSetAllocateInfo::default().descriptor_pool(self.pool).set_layouts(set_layouts);
            self.sets = check("vkAllocateDescriptorSets", device.raw.allocate_descriptor_sets(&allocate))?;
        }
        for (((set, binding), kind), index) in bound {
            let info = [buffers.descriptor(*index)];
            let write = vk::WriteDescriptorSet::default()
                .dst_set(self.sets[*set as usize])
                .dst_binding(*binding)
                .descriptor_type(*kind)
                .buffer_info(&info);
            // SAFETY: the set has this binding, and nothing pending uses it.
            unsafe { device.raw.update_descriptor_sets(&[write], &[]) };
        }
        Ok(())
    }

    /// Records everything up to the dispatch.
    pub(super) fn record_bind(&self, commands: vk::CommandBuffer) {
        let Compute { device, layout, pipeline, .. } = &self.compute;
        let (raw, point) = (&device.raw, vk::PipelineBindPoint::COMPUTE);
        // SAFETY: the command buffer records, and all handles live until it has run.
        unsafe {
            raw.cmd_bind_pipeline(commands, point, *pipeline);
            if !self.sets.is_empty() {
                raw.cmd_bind_descriptor_sets(commands, point, *layout, 0, &self.sets, &[]);
            }
            if !self.push.is_empty() {
                raw.cmd_push_constants(commands, *layout, vk::ShaderStageFlags::COMPUTE, 0, &self.push);
            }
        }
    }
}

impl Drop for Pipeline<'_> {
    fn drop(&mut self) {
        let device = self.compute.device;
        if !device.instance.abandoned.get() {
            // SAFETY: made here, destroyed once, and no submission is pending.
            unsafe { device.raw.destroy_descriptor_pool(self.pool, None) };
        }
    }
}

/// The descriptor type of a kind of buffer.
pub(super) fn descriptor_type(kind: BufferKind) -> vk::DescriptorType {
    match kind {
        BufferKind::Storage => vk::DescriptorType::STORAGE_BUFFER,
        BufferKind::Uniform => vk::DescriptorType::UNIFORM_BUFFER,
    }
}

/// Checks that every binding that the module uses has a buffer of the same kind.
fn check_bindings(facts: &Facts, case: &Case) -> Result<(), Error> {
    for binding in facts.bindings.iter().filter(|binding| binding.used) {
        let (slot, place, wanted) = ((binding.set, binding.binding), binding.place(), buffer_kind(binding)?);
        match case.buffer.iter().find(|buffer| buffer.slot() == Some(slot)) {
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

/// Returns the kind of buffer that a binding is.
pub(super) fn buffer_kind(binding: &Binding) -> Result<BufferKind, Error> {
    match binding.kind {
        BindingKind::Storage => Ok(BufferKind::Storage),
        BindingKind::Uniform => Ok(BufferKind::Uniform),
        BindingKind::Other => {
            Err(Error::module(format!("{} is neither a storage nor a uniform buffer", binding.place())))
        }
    }
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
