//! Creates pipelines: those with matrices are made of lowered modules.

use std::ffi::CStr;
use std::slice;
use std::sync::Arc;

use ash::vk;

use crate::cache::Replacement;
use crate::chain::{Copy, find};
use crate::device::{Device, LayerState, device_of};
use crate::instance::Loaded;
use crate::modules;
use crate::stages::{ChangedStage, Source, StageModule, source, stage_module};

/// The result for a refused pipeline: a code that every function may return.
const REFUSED: vk::Result = vk::Result::ERROR_UNKNOWN;

/// `vkCreateComputePipelines`.
pub(crate) unsafe extern "system" fn create_compute_pipelines(
    device: vk::Device,
    cache: vk::PipelineCache,
    count: u32,
    infos: *const vk::ComputePipelineCreateInfo<'_>,
    allocator: *const vk::AllocationCallbacks<'_>,
    out: *mut vk::Pipeline,
) -> vk::Result {
    crate::guard::guard("vkCreateComputePipelines", || {
        // SAFETY: the application's own arguments, here and below, and a function of that type.
        unsafe {
            let Some(this) = device_of(device) else { return vk::Result::ERROR_INITIALIZATION_FAILED };
            let next = this.function(c"vkCreateComputePipelines");
            let Some(next) = std::mem::transmute::<Loaded, Option<vk::PFN_vkCreateComputePipelines>>(next) else {
                return vk::Result::ERROR_INITIALIZATION_FAILED;
            };
            let given = slice::from_raw_parts(infos, count as usize);
            let Some(batch) = this.active.as_ref().and_then(|active| Batch::new(&this, active, given)) else {
                return next(device, cache, count, infos, allocator, out);
            };
            let result = if batch.refused.contains(&true) {
                let one = |info: &vk::ComputePipelineCreateInfo<'_>, out: *mut vk::Pipeline| {
                    next(device, cache, 1, info, allocator, out)
                };
                batch.create_each(one, slice::from_raw_parts_mut(out, count as usize))
            } else {
                next(device, cache, count, batch.infos.as_ptr(), allocator, out)
            };
            batch.stages.into_iter().for_each(|stage| stage.finish(&this));
            result
        }
    })
}

/// The pipelines of one call, with the changed create infos.
struct Batch<'a> {
    infos: Vec<vk::ComputePipelineCreateInfo<'a>>,
    refused: Vec<bool>,
    stages: Vec<ChangedStage>,
}

impl<'a> Batch<'a> {
    /// Returns what to create instead, unless there is nothing to change.
    ///
    /// # Safety
    ///
    /// The create infos are valid.
    unsafe fn new(
        device: &Device,
        active: &LayerState,
        given: &[vk::ComputePipelineCreateInfo<'a>],
    ) -> Option<Batch<'a>> {
        // SAFETY: the caller's promise, for the whole function.
        let sources: Vec<_> = given.iter().map(|info| unsafe { source(active, &info.stage) }).collect();
        if sources.iter().all(Option::is_none) {
            return None;
        }
        let mut batch = Batch { infos: given.to_vec(), refused: vec![false; given.len()], stages: Vec::new() };
        for (index, source) in sources.iter().enumerate() {
            let Some(source) = source else { continue };
            // SAFETY: as above.
            let answer = unsafe { stage_module(device, active, source) };
            let (words, lowered) = match &answer {
                StageModule::Native => (&source.kept.words, None),
                StageModule::Lowered(lowered) => (&lowered.words, Some(&**lowered)),
                StageModule::Refused => {
                    batch.refused[index] = true;
                    continue;
                }
            };
            // SAFETY: as above.
            match unsafe { ChangedStage::new(device, &mut batch.infos[index].stage, words, lowered) } {
                Ok(stage) => batch.stages.push(stage),
                Err(_) => batch.refused[index] = true,
            }
        }
        Some(batch)
    }

    /// Creates one pipeline after the other, as some are refused.
    fn create_each(
        &self,
        mut create: impl FnMut(&vk::ComputePipelineCreateInfo<'_>, *mut vk::Pipeline) -> vk::Result,
        out: &mut [vk::Pipeline],
    ) -> vk::Result {
        out.fill(vk::Pipeline::null());
        let mut worst = vk::Result::SUCCESS;
        for (index, info) in self.infos.iter().enumerate() {
            let mut info = *info;
            // A place in this call becomes the pipeline that was made for it.
            if let Ok(base) = usize::try_from(info.base_pipeline_index)
                && info.flags.contains(vk::PipelineCreateFlags::DERIVATIVE)
            {
                info.base_pipeline_handle = out.get(base).copied().unwrap_or_default();
                info.base_pipeline_index = -1;
                if info.base_pipeline_handle == vk::Pipeline::null() {
                    info.flags &= !vk::PipelineCreateFlags::DERIVATIVE;
                }
            }
            let result = if self.refused[index] { REFUSED } else { create(&info, &raw mut out[index]) };
            if result != vk::Result::SUCCESS && (worst == vk::Result::SUCCESS || result.as_raw() < 0) {
                worst = result;
            }
            if result != vk::Result::SUCCESS && info.flags.contains(vk::PipelineCreateFlags::EARLY_RETURN_ON_FAILURE) {
                break;
            }
        }
        worst
    }
}

/// Returns true if a stage is made of a module that the layer keeps: none but compute stages have matrices.
///
/// # Safety
///
/// The stages are valid.
unsafe fn has_kept(device: &Device, stages: *const vk::PipelineShaderStageCreateInfo<'_>, count: u32) -> bool {
    let Some(active) = &device.active else { return false };
    if stages.is_null() {
        return false;
    }
    // SAFETY: the caller's promise.
    let stages = unsafe { slice::from_raw_parts(stages, count as usize) };
    // SAFETY: as above.
    stages.iter().any(|stage| unsafe { source(active, stage) }.is_some())
}

fn refuse_stage(device: &Device, what: &str) -> vk::Result {
    let text = format!("a {what} pipeline is refused: its modules have matrices, which only compute stages may have");
    device.instance.message(vk::DebugUtilsMessageSeverityFlagsEXT::ERROR, &text);
    REFUSED
}

/// `vkCreateGraphicsPipelines`.
pub(crate) unsafe extern "system" fn create_graphics_pipelines(
    device: vk::Device,
    cache: vk::PipelineCache,
    count: u32,
    infos: *const vk::GraphicsPipelineCreateInfo<'_>,
    allocator: *const vk::AllocationCallbacks<'_>,
    out: *mut vk::Pipeline,
) -> vk::Result {
    crate::guard::guard("vkCreateGraphicsPipelines", || {
        // SAFETY: the application's own arguments, and a function of that type.
        unsafe {
            let Some(this) = device_of(device) else { return vk::Result::ERROR_INITIALIZATION_FAILED };
            let next = this.function(c"vkCreateGraphicsPipelines");
            let Some(next) = std::mem::transmute::<Loaded, Option<vk::PFN_vkCreateGraphicsPipelines>>(next) else {
                return vk::Result::ERROR_INITIALIZATION_FAILED;
            };
            let given = slice::from_raw_parts(infos, count as usize);
            if given.iter().any(|info| has_kept(&this, info.p_stages, info.stage_count)) {
                slice::from_raw_parts_mut(out, count as usize).fill(vk::Pipeline::null());
                return refuse_stage(&this, "graphics");
            }
            next(device, cache, count, infos, allocator, out)
        }
    })
}

/// `vkCreateRayTracingPipelinesKHR`.
pub(crate) unsafe extern "system" fn create_ray_tracing_pipelines(
    device: vk::Device,
    operation: vk::DeferredOperationKHR,
    cache: vk::PipelineCache,
    count: u32,
    infos: *const vk::RayTracingPipelineCreateInfoKHR<'_>,
    allocator: *const vk::AllocationCallbacks<'_>,
    out: *mut vk::Pipeline,
) -> vk::Result {
    crate::guard::guard("vkCreateRayTracingPipelinesKHR", || {
        // SAFETY: the application's own arguments, and a function of that type.
        unsafe {
            let Some(this) = device_of(device) else { return vk::Result::ERROR_INITIALIZATION_FAILED };
            let next = this.function(c"vkCreateRayTracingPipelinesKHR");
            let Some(next) = std::mem::transmute::<Loaded, Option<vk::PFN_vkCreateRayTracingPipelinesKHR>>(next) else {
                return vk::Result::ERROR_INITIALIZATION_FAILED;
            };
            let given = slice::from_raw_parts(infos, count as usize);
            if given.iter().any(|info| has_kept(&this, info.p_stages, info.stage_count)) {
                slice::from_raw_parts_mut(out, count as usize).fill(vk::Pipeline::null());
                return refuse_stage(&this, "ray tracing");
            }
            next(device, operation, cache, count, infos, allocator, out)
        }
    })
}

/// `vkCreateRayTracingPipelinesNV`.
pub(crate) unsafe extern "system" fn create_ray_tracing_pipelines_nv(
    device: vk::Device,
    cache: vk::PipelineCache,
    count: u32,
    infos: *const vk::RayTracingPipelineCreateInfoNV<'_>,
    allocator: *const vk::AllocationCallbacks<'_>,
    out: *mut vk::Pipeline,
) -> vk::Result {
    crate::guard::guard("vkCreateRayTracingPipelinesNV", || {
        // SAFETY: the application's own arguments, and a function of that type.
        unsafe {
            let Some(this) = device_of(device) else { return vk::Result::ERROR_INITIALIZATION_FAILED };
            let next = this.function(c"vkCreateRayTracingPipelinesNV");
            let Some(next) = std::mem::transmute::<Loaded, Option<vk::PFN_vkCreateRayTracingPipelinesNV>>(next) else {
                return vk::Result::ERROR_INITIALIZATION_FAILED;
            };
            let given = slice::from_raw_parts(infos, count as usize);
            if given.iter().any(|info| has_kept(&this, info.p_stages, info.stage_count)) {
                slice::from_raw_parts_mut(out, count as usize).fill(vk::Pipeline::null());
                return refuse_stage(&this, "ray tracing");
            }
            next(device, cache, count, infos, allocator, out)
        }
    })
}

/// `vkCreateShadersEXT`.
pub(crate) unsafe extern "system" fn create_shaders(
    device: vk::Device,
    count: u32,
    infos: *const vk::ShaderCreateInfoEXT<'_>,
    allocator: *const vk::AllocationCallbacks<'_>,
    out: *mut vk::ShaderEXT,
) -> vk::Result {
    crate::guard::guard("vkCreateShadersEXT", || {
        // SAFETY: the application's own arguments, and a function of that type.
        unsafe {
            let Some(this) = device_of(device) else { return vk::Result::ERROR_INITIALIZATION_FAILED };
            let next = this.function(c"vkCreateShadersEXT");
            let Some(next) = std::mem::transmute::<Loaded, Option<vk::PFN_vkCreateShadersEXT>>(next) else {
                return vk::Result::ERROR_INITIALIZATION_FAILED;
            };
            let given = slice::from_raw_parts(infos, count as usize);
            let Some(objects) = this.active.as_ref().map(|active| Objects::new(&this, active, given)) else {
                return next(device, count, infos, allocator, out);
            };
            match objects {
                Some(objects) => next(device, count, objects.infos.as_ptr(), allocator, out),
                None => {
                    slice::from_raw_parts_mut(out, count as usize).fill(vk::ShaderEXT::null());
                    REFUSED
                }
            }
        }
    })
}

/// The shader objects of one call, with the changed create infos.
struct Objects<'a> {
    infos: Vec<vk::ShaderCreateInfoEXT<'a>>,
    /// The words that the create infos point to.
    words: Vec<Arc<Replacement>>,
    chains: Vec<Copy>,
}

impl<'a> Objects<'a> {
    /// Returns what to create instead; none if one of them is refused.
    ///
    /// # Safety
    ///
    /// The create infos are valid.
    unsafe fn new(device: &Device, active: &LayerState, given: &[vk::ShaderCreateInfoEXT<'a>]) -> Option<Objects<'a>> {
        let mut objects = Objects { infos: given.to_vec(), words: Vec::new(), chains: Vec::new() };
        for (index, info) in given.iter().enumerate() {
            if info.code_type != vk::ShaderCodeTypeEXT::SPIRV {
                continue;
            }
            // SAFETY: the caller's promise, for the whole loop: an array of that many bytes, and a string.
            let (code, entry) = unsafe {
                (slice::from_raw_parts(info.p_code.cast::<u32>(), info.code_size / 4), CStr::from_ptr(info.p_name))
            };
            if !modules::needs_layer(code, active.target.profile()) {
                continue;
            }
            // SAFETY: as above.
            let required = unsafe { find::<vk::PipelineShaderStageRequiredSubgroupSizeCreateInfo<'_>>(info.p_next) };
            let source = Source {
                kept: Arc::new(modules::TrackedModule::new(code.to_vec())),
                entry,
                specialization: info.p_specialization_info,
                subgroup_size: required.map(|required| required.required_subgroup_size),
            };
            // SAFETY: as above.
            match unsafe { stage_module(device, active, &source) } {
                StageModule::Native => {}
                StageModule::Refused => return None,
                StageModule::Lowered(lowered) => objects.change(index, lowered),
            }
        }
        Some(objects)
    }

    fn change(&mut self, index: usize, lowered: Arc<Replacement>) {
        let info = &mut self.infos[index];
        let size_type = crate::ffi::s_type::<vk::PipelineShaderStageRequiredSubgroupSizeCreateInfo<'_>>();
        // SAFETY: the application's chain is alive.
        let mut chain = unsafe { Copy::new(info.p_next, |s_type| s_type == size_type) };
        if let Some(size) = lowered.subgroup_size {
            chain.push(size_type, &[size]);
            info.flags &= !vk::ShaderCreateFlagsEXT::ALLOW_VARYING_SUBGROUP_SIZE;
        }
        if lowered.full_subgroups {
            info.flags |= vk::ShaderCreateFlagsEXT::REQUIRE_FULL_SUBGROUPS;
        }
        if lowered.any_subgroup_size {
            info.flags &= !vk::ShaderCreateFlagsEXT::REQUIRE_FULL_SUBGROUPS;
        }
        info.p_next = chain.head();
        info.code_size = lowered.words.len() * 4;
        info.p_code = lowered.words.as_ptr().cast();
        self.words.push(lowered);
        self.chains.push(chain);
    }
}
