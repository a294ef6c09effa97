//! Stages of pipelines: what a stage with matrices is made with instead.

use std::ffi::CStr;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use ash::vk;
use coopmat::{Lowered, MapEntry, Outcome, PipelineOptions, Specialization};

use crate::cache::{CachedOutcome, Key, Replacement};
use crate::chain::{self, Copy};
use crate::device::{Device, LayerState};
use crate::ffi;
use crate::log::{self, Level};
use crate::modules::{self, TrackedModule};

/// Lowerings need deep stacks on modules with deep control flow; applications make pipelines on threads with small ones.
const STACK: usize = 64 << 20;

/// Lowerings that ran out of time and may still run. With more than these nothing is lowered any more.
static ABANDONED: AtomicUsize = AtomicUsize::new(0);
const MOST_ABANDONED: usize = 4;

/// The module and specialization of a stage.
pub(crate) struct Source<'a> {
    pub(crate) kept: Arc<TrackedModule>,
    pub(crate) entry: &'a CStr,
    pub(crate) specialization: *const vk::SpecializationInfo<'a>,
    /// The subgroup size that the application requires.
    pub(crate) subgroup_size: Option<u32>,
}

/// The module to use for the stage.
pub(crate) enum StageModule {
    /// The module as it is.
    Native,
    /// These words.
    Lowered(Arc<Replacement>),
    /// Nothing: an error was reported.
    Refused,
}

/// Returns the source of a pipeline's stage if the layer has to look at it.
///
/// # Safety
///
/// The stage is valid.
pub(crate) unsafe fn source<'a>(
    active: &LayerState,
    stage: &vk::PipelineShaderStageCreateInfo<'a>,
) -> Option<Source<'a>> {
    // SAFETY: the caller's promise, for the whole function.
    unsafe {
        let kept = if stage.module == vk::ShaderModule::null() {
            let words = modules::words(chain::find::<vk::ShaderModuleCreateInfo<'_>>(stage.p_next)?);
            let concerns = modules::needs_layer(words, active.target.profile());
            Arc::new(TrackedModule::new(concerns.then(|| words.to_vec())?))
        } else {
            active.modules.get(stage.module)?
        };
        let required = chain::find::<vk::PipelineShaderStageRequiredSubgroupSizeCreateInfo<'_>>(stage.p_next);
        Some(Source {
            kept,
            entry: CStr::from_ptr(stage.p_name),
            specialization: stage.p_specialization_info,
            subgroup_size: required.map(|required| required.required_subgroup_size),
        })
    }
}

/// Says what a stage is made of: what is known of it, or what lowering it comes to.
///
/// # Safety
///
/// The pointers of the source are valid.
pub(crate) unsafe fn stage_module(device: &Device, active: &LayerState, source: &Source<'_>) -> StageModule {
    let number = device.number();
    let start = Instant::now();
    let what = || format!("pipeline {number} ({})", source.entry.to_string_lossy());
    let refused = |why: &dyn std::fmt::Display| {
        refuse(device, source, number, &format!("{} is refused: {why}; {}", what(), micros(start.elapsed())));
        StageModule::Refused
    };
    // SAFETY: the caller's promise.
    let options = match unsafe { specialization(source.specialization) } {
        Ok(values) => pipeline_options(device, source, values),
        Err(why) => return refused(&why),
    };
    let key = coopmat::pipeline_key(source.kept.hash(), &active.target, &options);
    if let Some((known, from)) = find(device, active, &key) {
        let took = start.elapsed();
        if log::enabled(Level::Info)
            && let Some(replacement) = &known
        {
            log::info(format_args!("{}: {}; from {from} in {}", what(), replacement.said, micros(took)));
        } else {
            log::debug(format_args!("{}: left as it is; from {from} in {}", what(), micros(took)));
        }
        return known.map_or(StageModule::Native, StageModule::Lowered);
    }
    let outcome = lower(device, active, source, options);
    let took = start.elapsed();
    let settings = &device.instance.settings;
    let known = match outcome {
        Ok(Outcome::Native) => {
            log::debug(format_args!("{}: the driver takes the module as it is; {}", what(), micros(took)));
            None
        }
        Ok(Outcome::Lowered(lowered)) => {
            let said = summary(&lowered, &source.kept);
            if log::enabled(Level::Info) {
                log::info(format_args!("{}: {said}; in {}", what(), micros(took)));
            }
            if settings.dump_all {
                dump(device, &format!("{number}.in"), &source.kept.words);
                dump(device, &format!("{number}.out"), &lowered.words);
            }
            Some(Arc::new(Replacement {
                subgroup_size: lowered.requirements.subgroup_size,
                full_subgroups: lowered.requirements.full_subgroups,
                any_subgroup_size: lowered.requirements.any_subgroup_size,
                words: lowered.words,
                said,
            }))
        }
        Ok(Outcome::Refused(why)) if why.rule == "refused-limit" => {
            return refused(&format!("{why} (time_limit_ms, max_instructions)"));
        }
        Ok(Outcome::Refused(why)) => return refused(&why),
        Err(why) => return refused(&why),
    };
    active.outcomes.insert(key, known.clone());
    if let Some(folder) = &settings.cache {
        folder.insert(&key, &known);
    }
    known.map_or(StageModule::Native, StageModule::Lowered)
}

/// Returns what is known of a pipeline, and where from. What is dumped is lowered again.
fn find(device: &Device, active: &LayerState, key: &Key) -> Option<(CachedOutcome, &'static str)> {
    let settings = &device.instance.settings;
    if settings.dump_all {
        return None;
    }
    if let Some(known) = active.outcomes.get(key) {
        return Some((known, "memory"));
    }
    let known = settings.cache.as_ref()?.get(key)?;
    active.outcomes.insert(*key, known.clone());
    Some((known, "the cache"))
}

fn refuse(device: &Device, source: &Source<'_>, number: u64, text: &str) {
    let mut text = text.to_owned();
    if let Some(path) = dump(device, &format!("{number}.refused"), &source.kept.words) {
        let _ = write!(text, "; the module is in {path}");
    }
    device.instance.message(vk::DebugUtilsMessageSeverityFlagsEXT::ERROR, &text);
}

fn micros(took: Duration) -> String {
    format!("{} us", took.as_micros())
}

fn summary(lowered: &Lowered, kept: &TrackedModule) -> String {
    let Lowered { requirements: r, because, not_taken, warnings, approximations, .. } = lowered;
    let (from, to) = (kept.words.len(), lowered.words.len());
    let mut text = format!("lowered to {:?}, {from} to {to} words", lowered.target);
    if r.shared_memory > 0 {
        let _ = write!(text, ", {} bytes of shared memory more", r.shared_memory);
    }
    if let Some(size) = r.subgroup_size {
        let _ = write!(text, ", subgroups of {size}");
    }
    if r.full_subgroups {
        text.push_str(", full subgroups");
    }
    if let Some(first) = because.first() {
        let _ = write!(text, "; because {first}");
    }
    if log::enabled(Level::Debug) {
        for why in not_taken {
            let _ = write!(text, "; not taken: {why}");
        }
    }
    // Those of component types say how much slower the code is.
    for what in approximations {
        let _ = write!(text, "; {what}");
    }
    for warning in warnings {
        let _ = write!(text, "; warning: {warning}");
    }
    text
}

/// Writes a module to the folder for them, if there is one.
fn dump(device: &Device, name: &str, words: &[u32]) -> Option<String> {
    let folder = device.instance.settings.dump.as_ref()?;
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let path = folder.join(format!("{}-{name}.spv", std::process::id()));
    let written = std::fs::create_dir_all(folder).and_then(|()| std::fs::write(&path, bytes));
    match written {
        Ok(()) => Some(path.display().to_string()),
        Err(error) => {
            log::error(format_args!("{}: {error}", path.display()));
            None
        }
    }
}

/// # Safety
///
/// The pointer is null or valid.
unsafe fn specialization(info: *const vk::SpecializationInfo<'_>) -> Result<Specialization, String> {
    // SAFETY: the caller's promise; arrays have as many elements as they count.
    unsafe {
        let Some(info) = info.as_ref() else { return Ok(Specialization::default()) };
        let slice = |count: usize, data: *const u8| match count {
            0 => &[][..],
            _ => std::slice::from_raw_parts(data, count),
        };
        let data = slice(info.data_size, info.p_data.cast());
        let entry = |i: usize| {
            let e = &*info.p_map_entries.add(i);
            MapEntry { constant_id: e.constant_id, offset: e.offset, size: e.size }
        };
        let entries: Vec<MapEntry> = (0..info.map_entry_count as usize).map(entry).collect();
        Specialization::from_entries(&entries, data).map_err(|error| error.to_string())
    }
}

/// Returns the pipeline options from the settings and a stage.
fn pipeline_options(device: &Device, source: &Source<'_>, specialization: Specialization) -> PipelineOptions {
    let settings = &device.instance.settings;
    let mut options = PipelineOptions::default();
    options.entry_point = Some(source.entry.to_string_lossy().into_owned());
    options.specialization = specialization;
    options.required_subgroup_size = source.subgroup_size;
    options.target = settings.target;
    options.lanes = settings.lanes;
    options.always_lower = settings.always_lower;
    options.check_rules = settings.check_rules;
    options.undefined_as_zero = settings.undefined_as_zero;
    options.excess_precision = settings.excess_precision;
    options.assume_aligned = !settings.unaligned_tensors;
    options.assume_any_subgroup_size = !settings.baked_subgroup_size;
    // It ends by itself; the wait below is for what does not look at the clock.
    options.limits.time = Some(settings.time_limit);
    if let Some(most) = settings.max_instructions {
        options.limits.instructions = most;
    }
    options
}

/// Lowers on a thread of its own: with a stack that is deep enough, and for no longer than is allowed.
fn lower(
    device: &Device,
    active: &LayerState,
    source: &Source<'_>,
    options: PipelineOptions,
) -> Result<Outcome, String> {
    let settings = &device.instance.settings;
    let (words, most) = (source.kept.words.len(), settings.max_words);
    if words > most {
        return Err(format!("the module has {words} words, and the setting max_words is {most}"));
    }
    if ABANDONED.load(Ordering::Relaxed) >= MOST_ABANDONED {
        return Err(format!(
            "{MOST_ABANDONED} lowerings that took longer than time_limit_ms run still; more are begun when one has ended"
        ));
    }
    let (kept, target) = (Arc::clone(&source.kept), active.target.clone());
    let (send, receive) = mpsc::channel();
    let work = move || {
        let outcome = match kept.prepared() {
            Ok(prepared) => Ok(prepared.for_pipeline(&target, &options)),
            Err(error) => Err(format!("the words are not a module: {error}")),
        };
        if send.send(outcome).is_err() {
            // Nobody waits any more.
            ABANDONED.fetch_sub(1, Ordering::Relaxed);
        }
    };
    let thread = std::thread::Builder::new().name("coopmat".to_owned()).stack_size(STACK).spawn(work);
    let thread = thread.map_err(|error| format!("no thread to lower on: {error}"))?;
    match receive.recv_timeout(settings.time_limit) {
        Ok(outcome) => {
            // It has ended but for its last instructions: the library may be unloaded after this.
            let _ = thread.join();
            outcome
        }
        Err(mpsc::RecvTimeoutError::Disconnected) => Err("the lowering ended without an answer, which is a bug of the layer: please report the module (dump_dir keeps it)".to_owned()),
        Err(mpsc::RecvTimeoutError::Timeout) => {
            ABANDONED.fetch_add(1, Ordering::Relaxed);
            let limit = settings.time_limit.as_millis();
            Err(format!("lowering took more than {limit} ms, which is the setting time_limit_ms"))
        }
    }
}

/// A stage that was changed, with what it points to.
pub(crate) struct ChangedStage {
    chain: Copy,
    /// The driver's module.
    pub(crate) module: vk::ShaderModule,
}

impl ChangedStage {
    /// Changes a stage to be made of the driver's module of other words. The result must live as long as the stage is used.
    ///
    /// # Safety
    ///
    /// The stage is valid.
    pub(crate) unsafe fn new(
        device: &Device,
        stage: &mut vk::PipelineShaderStageCreateInfo<'_>,
        words: &[u32],
        lowered: Option<&Replacement>,
    ) -> Result<ChangedStage, vk::Result> {
        let module = device.driver_module(words)?;
        let size_type = ffi::s_type::<vk::PipelineShaderStageRequiredSubgroupSizeCreateInfo<'_>>();
        let module_type = ffi::s_type::<vk::ShaderModuleCreateInfo<'_>>();
        let size = lowered.and_then(|lowered| lowered.subgroup_size);
        // SAFETY: the caller's promise.
        let asked = unsafe { chain::find::<vk::PipelineShaderStageRequiredSubgroupSizeCreateInfo<'_>>(stage.p_next) };
        // A size that the driver has not is emulated.
        let emulated = lowered.is_some()
            && device.active.as_ref().is_some_and(|active| {
                let has = active.target.profile().subgroup_sizes();
                asked.is_some_and(|asked| !has.contains(&asked.required_subgroup_size))
            });
        let foreign = emulated || lowered.is_some_and(|lowered| lowered.any_subgroup_size);
        let other_size = size.is_some() || foreign;
        // SAFETY: as above.
        let mut chain =
            unsafe { Copy::new(stage.p_next, |s_type| s_type == module_type || other_size && s_type == size_type) };
        if let Some(size) = size {
            chain.push(size_type, &[size]);
        }
        if let Some(lowered) = lowered
            && lowered.full_subgroups
        {
            stage.flags |= vk::PipelineShaderStageCreateFlags::REQUIRE_FULL_SUBGROUPS;
        }
        if size.is_some() {
            stage.flags &= !vk::PipelineShaderStageCreateFlags::ALLOW_VARYING_SUBGROUP_SIZE;
        }
        if foreign {
            stage.flags &= !vk::PipelineShaderStageCreateFlags::REQUIRE_FULL_SUBGROUPS;
        }
        stage.module = module;
        stage.p_next = chain.head();
        Ok(ChangedStage { chain, module })
    }

    /// Gives the driver's module back.
    pub(crate) fn finish(self, device: &Device) {
        device.drop_driver_module(self.module);
        drop(self.chain);
    }
}
