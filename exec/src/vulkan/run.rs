//! One run: from words and a case to the buffers afterwards.

use std::time::{Duration, Instant};

use ash::vk;
use coop_device::ApiVersion;

use super::buffers::Buffers;
use super::device::{Device, Needs};
use super::pipeline::Pipeline;
use super::{Physical, Spent, VulkanExecutor, check, nanoseconds};
use crate::case::Case;
use crate::error::Error;
use crate::executor::{Outcome, RunOptions, Timer};
use crate::facts::{Entry, Facts};
use crate::measure::{MeasureOptions, Measured};

pub(super) fn run(
    executor: &VulkanExecutor<'_>,
    words: &[u32],
    case: &Case,
    options: &RunOptions,
) -> Result<Outcome, Error> {
    let (instance, physical) = (executor.instance, executor.physical);
    let module = coop_ir::binary::read_words(words).map_err(|error| Error::module(error.to_string()))?;
    let facts = Facts::new(&module, &case.specialization()?);
    let entry = facts.entry(case.entry.as_deref())?;
    let version: ApiVersion = physical.profile.api_version.min(instance.version);
    let freed = without_subgroup_size(case, &facts, physical);
    let case = freed.as_ref().unwrap_or(case);
    let needs = Needs::new(&facts, entry, case, options, &physical.profile, version)?;
    check_sizes(physical, entry, case)?;

    let mut watch = Watch { executor, since: Instant::now() };
    let device = executor.logical(needs)?;
    watch.lap(|s| &mut s.devices);
    let buffers = Buffers::new(&device, case, None)?;
    watch.lap(|s| &mut s.buffers);
    let pipeline = Pipeline::new(&device, words, &facts, entry, case, &buffers, executor.unoptimized);
    watch.lap(|s| &mut s.pipelines);
    let (pipeline, queue) = (pipeline?, Queue::new(&device)?);

    queue.submit(options.timeout, |commands| {
        buffers.record_upload(commands);
        queue.barrier(commands, Stage::TRANSFER, Stage::COMPUTE);
        pipeline.record_bind(commands);
        queue.dispatch(commands, case.workgroups);
        queue.barrier(commands, Stage::COMPUTE, Stage::TRANSFER);
        buffers.record_download(commands);
        queue.barrier(commands, Stage::TRANSFER, Stage::HOST);
    })?;
    watch.lap(|s| &mut s.dispatches);
    let contents = buffers.read(case)?;
    watch.lap(|s| &mut s.buffers);
    let (timer, times) = if options.bench == 0 {
        (Timer::Device, Vec::new())
    } else if device.timestamps {
        (Timer::Device, bench_on_device(&queue, &pipeline, case, options)?)
    } else {
        (Timer::Host, bench_on_host(&queue, &pipeline, case, options)?)
    };
    Ok(Outcome {
        device: physical.profile.device.clone(),
        buffers: contents.buffers,
        timer,
        times,
        messages: Vec::new(),
        faults: contents.faults,
    })
}

/// Returns the case without its subgroup size, if the device does not support it and the module uses no subgroups: the
/// case is then that of a kernel, and the module its lowering to a shader.
pub(super) fn without_subgroup_size(case: &Case, facts: &Facts, physical: &Physical) -> Option<Case> {
    let limits = &physical.profile.limits;
    let range = limits.min_subgroup_size..=limits.max_subgroup_size;
    let lacks = case.subgroup_size.is_some_and(|size| size.is_power_of_two() && !range.contains(&size));
    (lacks && !facts.uses_subgroups).then(|| Case { subgroup_size: None, ..case.clone() })
}

/// Measures the time of a run by activity.
struct Watch<'e, 'a> {
    executor: &'e VulkanExecutor<'a>,
    since: Instant,
}

impl Watch<'_, '_> {
    fn lap(&mut self, what: fn(&mut Spent) -> &mut Duration) {
        let mut spent = self.executor.spent.get();
        *what(&mut spent) += self.since.elapsed();
        self.executor.spent.set(spent);
        self.since = Instant::now();
    }
}

/// Runs a module once, returns the contents of some buffers, and measures dispatches: first as many as keep the device
/// busy for `warm_up`, or for the whole of a run that takes longer, then `options.bench`.
pub(super) fn measure(
    executor: &VulkanExecutor<'_>,
    words: &[u32],
    case: &Case,
    given: &[Vec<u8>],
    wanted: &[usize],
    options: &MeasureOptions,
) -> Result<Measured, Error> {
    let MeasureOptions { ref run, warm_up } = *options;
    let options = run;
    let (instance, physical) = (executor.instance, executor.physical);
    let module = coop_ir::binary::read_words(words).map_err(|error| Error::module(error.to_string()))?;
    let facts = Facts::new(&module, &case.specialization()?);
    let entry = facts.entry(case.entry.as_deref())?;
    let version: ApiVersion = physical.profile.api_version.min(instance.version);
    let needs = Needs::new(&facts, entry, case, options, &physical.profile, version)?;
    check_sizes(physical, entry, case)?;

    let device = executor.logical(needs)?;
    let buffers = Buffers::new(&device, case, Some(given))?;
    let start = Instant::now();
    let pipeline = Pipeline::new(&device, words, &facts, entry, case, &buffers, executor.unoptimized)?;
    let compiled = start.elapsed();
    let queue = Queue::new(&device)?;
    queue.submit(options.timeout, |commands| buffers.record_upload(commands))?;

    let start = Instant::now();
    queue.submit(options.timeout, |commands| {
        pipeline.record_bind(commands);
        queue.dispatch(commands, case.workgroups);
    })?;
    let first = start.elapsed().max(Duration::from_micros(10));
    queue.submit(options.timeout, |commands| {
        for &index in wanted {
            buffers.record_download_of(commands, index);
        }
        queue.barrier(commands, Stage::TRANSFER, Stage::HOST);
    })?;
    let outputs = wanted.iter().map(|&index| buffers.read_one(index)).collect::<Result<_, _>>()?;

    let times = if options.bench == 0 {
        Vec::new()
    } else {
        let dispatches = (warm_up.as_secs_f64() / first.as_secs_f64()) as u32;
        queue.submit(options.timeout, |commands| {
            pipeline.record_bind(commands);
            for _ in 0..dispatches.min(10_000) {
                queue.dispatch(commands, case.workgroups);
                queue.barrier(commands, Stage::COMPUTE, Stage::COMPUTE);
            }
        })?;
        // What takes long is measured well enough by few.
        let bench = options.bench.min((2.0 / first.as_secs_f64()) as u32).max(3);
        let options = RunOptions { bench, ..options.clone() };
        if device.timestamps {
            bench_on_device(&queue, &pipeline, case, &options)?
        } else {
            bench_on_host(&queue, &pipeline, case, &options)?
        }
    };
    Ok(Measured { outputs, times, compiled })
}

/// Refuses a workgroup or a dispatch that is too large, which is undefined behavior for the driver.
pub(super) fn check_sizes(physical: &Physical, entry: &Entry, case: &Case) -> Result<(), Error> {
    let limits = &physical.profile.limits;
    let unsupported = |line: String| {
        let device = physical.profile.device.clone();
        Err(Error::Unsupported { device, missing: vec![line] })
    };
    let mut invocations = 1u64;
    for (axis, name) in ["x", "y", "z"].into_iter().enumerate() {
        let Some(size) = entry.local_size[axis].value() else {
            return Err(Error::module(format!("the size of a workgroup in {name} is not known")));
        };
        if size == 0 {
            return Err(Error::module(format!("the size of a workgroup in {name} is 0")));
        }
        let limit = limits.max_compute_work_group_size[axis];
        if size > limit.into() {
            return unsupported(format!("a workgroup of {size} in {name}, maxComputeWorkGroupSize is {limit}"));
        }
        invocations = invocations.saturating_mul(size);
        let (count, limit) = (case.workgroups[axis], limits.max_compute_work_group_count[axis]);
        if count > limit {
            return unsupported(format!("{count} workgroups in {name}, maxComputeWorkGroupCount is {limit}"));
        }
    }
    let limit = limits.max_compute_work_group_invocations;
    if invocations > limit.into() {
        return unsupported(format!(
            "{invocations} invocations in a workgroup, maxComputeWorkGroupInvocations is {limit}"
        ));
    }
    Ok(())
}

/// The stage and the accesses on one side of a barrier.
#[derive(Clone, Copy)]
struct Stage(vk::PipelineStageFlags, vk::AccessFlags);

impl Stage {
    const TRANSFER: Stage = Stage(
        vk::PipelineStageFlags::TRANSFER,
        vk::AccessFlags::from_raw(vk::AccessFlags::TRANSFER_READ.as_raw() | vk::AccessFlags::TRANSFER_WRITE.as_raw()),
    );
    const COMPUTE: Stage = Stage(
        vk::PipelineStageFlags::COMPUTE_SHADER,
        vk::AccessFlags::from_raw(
            vk::AccessFlags::SHADER_READ.as_raw()
                | vk::AccessFlags::SHADER_WRITE.as_raw()
                | vk::AccessFlags::UNIFORM_READ.as_raw(),
        ),
    );
    const HOST: Stage = Stage(vk::PipelineStageFlags::HOST, vk::AccessFlags::HOST_READ);
}

/// The queue with a command pool and a fence.
struct Queue<'a> {
    device: &'a Device<'a>,
    pool: vk::CommandPool,
    fence: vk::Fence,
}

impl<'a> Queue<'a> {
    fn new(device: &'a Device<'a>) -> Result<Queue<'a>, Error> {
        let mut this = Queue { device, pool: vk::CommandPool::null(), fence: vk::Fence::null() };
        let create = vk::CommandPoolCreateInfo::default().queue_family_index(device.family);
        // SAFETY: the device is alive; Drop destroys each handle once.
        unsafe {
            this.pool = check("vkCreateCommandPool", device.raw.create_command_pool(&create, None))?;
            this.fence = check("vkCreateFence", device.raw.create_fence(&vk::FenceCreateInfo::default(), None))?;
        }
        Ok(this)
    }

    /// Records a command buffer, submits it and waits for it. On a timeout the device is abandoned.
    fn submit(&self, timeout: Duration, record: impl FnOnce(vk::CommandBuffer)) -> Result<(), Error> {
        let raw = &self.device.raw;
        let allocate = vk::CommandBufferAllocateInfo::default().command_pool(self.pool).command_buffer_count(1);
        let begin = vk::CommandBufferBeginInfo::default().flags(vk::CommandBufferUsageFlags::ONE_TIME_SUBMIT);
        // SAFETY: one thread records and submits; what is recorded lives until this returns, and on time-out for ever.
        unsafe {
            let commands = check("vkAllocateCommandBuffers", raw.allocate_command_buffers(&allocate))?;
            let [commands] = commands[..] else { unreachable!("one command buffer was asked for") };
            check("vkBeginCommandBuffer", raw.begin_command_buffer(commands, &begin))?;
            record(commands);
            check("vkEndCommandBuffer", raw.end_command_buffer(commands))?;
            check("vkResetFences", raw.reset_fences(&[self.fence]))?;
            let buffers = [commands];
            let submit = [vk::SubmitInfo::default().command_buffers(&buffers)];
            check("vkQueueSubmit", raw.queue_submit(self.device.queue, &submit, self.fence))?;
            match raw.wait_for_fences(&[self.fence], true, nanoseconds(timeout)) {
                Err(vk::Result::TIMEOUT) => {
                    self.device.instance.abandoned.set(true);
                    return Err(Error::Timeout { seconds: timeout.as_secs_f64(), workgroups: None });
                }
                other => check("vkWaitForFences", other)?,
            }
            raw.free_command_buffers(self.pool, &buffers);
        }
        Ok(())
    }

    fn barrier(&self, commands: vk::CommandBuffer, from: Stage, to: Stage) {
        let barrier = [vk::MemoryBarrier::default().src_access_mask(from.1).dst_access_mask(to.1)];
        // SAFETY: the command buffer records.
        unsafe {
            let flags = vk::DependencyFlags::empty();
            self.device.raw.cmd_pipeline_barrier(commands, from.0, to.0, flags, &barrier, &[], &[]);
        }
    }

    fn dispatch(&self, commands: vk::CommandBuffer, [x, y, z]: [u32; 3]) {
        // SAFETY: the command buffer records and has a pipeline bound; the counts are within the device's limits.
        unsafe { self.device.raw.cmd_dispatch(commands, x, y, z) };
    }
}

impl Drop for Queue<'_> {
    fn drop(&mut self) {
        if !self.device.instance.abandoned.get() {
            // SAFETY: made here, destroyed once, and no submission is pending.
            unsafe {
                self.device.raw.destroy_fence(self.fence, None);
                self.device.raw.destroy_command_pool(self.pool, None);
            }
        }
    }
}

struct Timestamps<'a> {
    device: &'a Device<'a>,
    pool: vk::QueryPool,
    count: u32,
}

impl<'a> Timestamps<'a> {
    fn new(device: &'a Device<'a>, count: u32) -> Result<Timestamps<'a>, Error> {
        let create = vk::QueryPoolCreateInfo::default().query_type(vk::QueryType::TIMESTAMP).query_count(count);
        // SAFETY: the device is alive; Drop destroys the handle once.
        let pool = check("vkCreateQueryPool", unsafe { device.raw.create_query_pool(&create, None) })?;
        Ok(Timestamps { device, pool, count })
    }

    fn record_reset(&self, commands: vk::CommandBuffer) {
        // SAFETY: the command buffer records, and the pool has as many queries.
        unsafe { self.device.raw.cmd_reset_query_pool(commands, self.pool, 0, self.count) };
    }

    fn record(&self, commands: vk::CommandBuffer, query: u32) {
        let stage = vk::PipelineStageFlags::BOTTOM_OF_PIPE;
        // SAFETY: as above; each query is written once.
        unsafe { self.device.raw.cmd_write_timestamp(commands, stage, self.pool, query) };
    }

    fn read(&self) -> Result<Vec<u64>, Error> {
        let mut ticks = vec![0u64; self.count as usize];
        let flags = vk::QueryResultFlags::TYPE_64 | vk::QueryResultFlags::WAIT;
        // SAFETY: the submission that writes the queries has ended.
        let read = unsafe { self.device.raw.get_query_pool_results(self.pool, 0, &mut ticks, flags) };
        check("vkGetQueryPoolResults", read)?;
        Ok(ticks)
    }
}

impl Drop for Timestamps<'_> {
    fn drop(&mut self) {
        if !self.device.instance.abandoned.get() {
            // SAFETY: made here, destroyed once, and no submission is pending.
            unsafe { self.device.raw.destroy_query_pool(self.pool, None) };
        }
    }
}

fn bench_on_device(
    queue: &Queue<'_>,
    pipeline: &Pipeline<'_>,
    case: &Case,
    options: &RunOptions,
) -> Result<Vec<Duration>, Error> {
    let stamps = Timestamps::new(queue.device, options.bench + 1)?;
    queue.submit(options.timeout, |commands| {
        stamps.record_reset(commands);
        pipeline.record_bind(commands);
        // The first dispatch warms up; every stamp after it ends one that is measured.
        queue.dispatch(commands, case.workgroups);
        queue.barrier(commands, Stage::COMPUTE, Stage::COMPUTE);
        stamps.record(commands, 0);
        for query in 1..=options.bench {
            queue.dispatch(commands, case.workgroups);
            queue.barrier(commands, Stage::COMPUTE, Stage::COMPUTE);
            stamps.record(commands, query);
        }
    })?;
    let period = f64::from(queue.device.profile.limits.timestamp_period);
    let ticks = stamps.read()?;
    let times = ticks.windows(2).map(|pair| {
        let nanoseconds = pair[1].wrapping_sub(pair[0]) as f64 * period;
        Duration::from_nanos(nanoseconds as u64)
    });
    Ok(times.collect())
}

fn bench_on_host(
    queue: &Queue<'_>,
    pipeline: &Pipeline<'_>,
    case: &Case,
    options: &RunOptions,
) -> Result<Vec<Duration>, Error> {
    let mut times = Vec::new();
    for _ in 0..options.bench {
        let start = Instant::now();
        queue.submit(options.timeout, |commands| {
            pipeline.record_bind(commands);
            queue.dispatch(commands, case.workgroups);
        })?;
        times.push(start.elapsed());
    }
    Ok(times)
}
