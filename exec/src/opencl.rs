//! Runs kernels on an OpenCL device.
//!
//! The ICD loader is opened on demand, so that the tools start on machines without OpenCL. A run makes a context, a
//! program from the module's words, and buffers with a guard after each, and waits for the kernel up to a time limit.
//! The arguments are the parts of the case's `push`, in order.
//!
//! A device may ignore the subgroup size that a kernel requires and run it with its own, which changes the kernel. The
//! run is therefore refused where the device's size differs from the module's.
//!
//! Unsafe code is confined to this module. What makes it sound: calls that read or write host memory block until they
//! are done; arguments are read while they are set; a kernel that did not end in time is never waited for, and all that
//! it may still use stays allocated.
#![allow(unsafe_code)]

use std::cell::RefCell;
use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::rc::Rc;
use std::time::{Duration, Instant};

use coop_ir::constant::{Constants, SpecValue};
use coop_ir::decorate::Decorations;
use coop_ir::entry::{EntryPoint, entry_points};
use coop_ir::spv::{CooperativeMatrixUse, ExecutionMode, ExecutionModel};
use coop_ir::types::Scalar;
use coop_ir::{Module, Op};
use opencl3::command_queue::CommandQueue;
use opencl3::context::Context;
use opencl3::device::{CL_DEVICE_TYPE_ALL, CL_DEVICE_TYPE_CPU, Device};
use opencl3::error_codes::{CL_PLATFORM_NOT_FOUND_KHR, ClError, DLOPEN_RUNTIME_LOAD_FAILED};
use opencl3::event::CL_COMPLETE;
use opencl3::kernel::{CL_KERNEL_MAX_SUB_GROUP_SIZE_FOR_NDRANGE, Kernel, get_kernel_sub_group_info, set_kernel_arg};
use opencl3::memory::{Buffer, CL_MEM_READ_WRITE, ClMem};
use opencl3::platform::get_platforms;
use opencl3::program::Program;
use opencl3::types::{CL_BLOCKING, cl_device_id};

use crate::case::Case;
use crate::error::Error;
use crate::executor::{Executor, Outcome, RunOptions, Timer};
use crate::facts::{Facts, SpecConstant};

/// The byte and the size of the guard after each buffer: writes of a kernel there are found.
const GUARD: (u8, usize) = (0xa5, 4096);

/// `CL_KERNEL_COMPILE_SUB_GROUP_SIZE_INTEL` of cl_intel_required_subgroup_size.
const COMPILED_FOR: u32 = 0x410A;

/// The OpenCL devices of this machine.
pub struct OpenCl {
    devices: Vec<Found>,
}

/// A device and its properties.
struct Found {
    device: Device,
    name: String,
    matrices: Matrices,
}

/// The matrices that a device supports. OpenCL has no query for them; of the implementations on CPUs only Intel's has
/// some, and others crash or do nothing where they meet one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Matrices {
    None,
    /// The types of AMX tiles: factors of 8-bit integers, and of bfloat16 in 16-bit ones. Intel's compiler crashes on
    /// f32, and has f16 for newer processors only.
    Amx,
    All,
}

impl Matrices {
    fn of(platform: &str, device: &Device) -> Matrices {
        let cpu = || device.dev_type().is_ok_and(|kind| kind & CL_DEVICE_TYPE_CPU != 0);
        let amx = || {
            std::fs::read_to_string("/proc/cpuinfo").is_ok_and(|text| text.split_whitespace().any(|w| w == "amx_tile"))
        };
        match () {
            () if !platform.contains("Intel") => Matrices::None,
            () if !cpu() => Matrices::All,
            () if amx() => Matrices::Amx,
            () => Matrices::None,
        }
    }

    /// Returns the reason why a device can't run the matrices of a module, if there is one.
    fn lacks(self, module: &Module) -> Option<String> {
        let constants = Constants::new(module, &coop_ir::constant::Specialization::new());
        let types = module.globals_with(Op::TypeCooperativeMatrixKHR);
        let views = types
            .filter_map(|r| Some(coop_ir::types::coop_mat(module, module.inst(r).result?)?.view(module, &constants)));
        let lacking = |view: &coop_ir::types::CoopMatView| match self {
            Matrices::None => true,
            Matrices::All => false,
            Matrices::Amx => {
                let factor = view.use_.fixed_as() != Some(CooperativeMatrixUse::MatrixAccumulatorKHR);
                factor && !matches!(view.component, Some(Scalar::Int { width: 8 | 16, .. }))
            }
        };
        let found = views.into_iter().find(lacking)?;
        Some(if self == Matrices::None { "cooperative matrices".into() } else { format!("matrices such as {found}") })
    }
}

/// One device of [`OpenCl`], to run kernels on.
pub struct OpenClExecutor<'a> {
    found: &'a Found,
    /// The setup that the first run makes for all: what a context compiles with is read once. Dropped where a kernel
    /// did not end.
    setup: RefCell<Option<Rc<Setup>>>,
}

impl OpenCl {
    /// Opens the loader and asks every platform for its devices.
    pub fn open() -> Result<OpenCl, Error> {
        let platforms = match get_platforms() {
            Ok(platforms) => platforms,
            Err(ClError(DLOPEN_RUNTIME_LOAD_FAILED)) => {
                return Err(Error::NoOpenCl("there is no OpenCL loader on this machine".into()));
            }
            Err(ClError(CL_PLATFORM_NOT_FOUND_KHR)) => Vec::new(),
            Err(error) => return Err(failed("clGetPlatformIDs", error)),
        };
        let mut devices = Vec::new();
        for platform in platforms {
            // A platform without devices says so by failing.
            let Ok(ids) = platform.get_devices(CL_DEVICE_TYPE_ALL) else { continue };
            let platform = platform.name().unwrap_or_default();
            for id in ids {
                let device = Device::new(id);
                let name = device.name().map_err(|error| failed("clGetDeviceInfo", error))?;
                let matrices = Matrices::of(&platform, &device);
                devices.push(Found { device, name: format!("{} ({})", name.trim(), platform.trim()), matrices });
            }
        }
        if devices.is_empty() {
            return Err(Error::NoOpenCl("no OpenCL platform offers a device".into()));
        }
        Ok(OpenCl { devices })
    }

    /// Returns a device by index or by a part of its name or its platform's, regardless of case; by default the first
    /// one.
    pub fn device(&self, wanted: Option<&str>) -> Result<OpenClExecutor<'_>, Error> {
        let index = match wanted.map(|wanted| (wanted.parse::<usize>(), wanted.to_lowercase())) {
            None => Some(0),
            Some((Ok(index), _)) => Some(index),
            Some((Err(_), name)) => self.devices.iter().position(|found| found.name.to_lowercase().contains(&name)),
        };
        match index.and_then(|index| self.devices.get(index)) {
            Some(found) => Ok(OpenClExecutor { found, setup: RefCell::default() }),
            None => Err(Error::NoSuchDevice {
                wanted: wanted.unwrap_or_default().to_string(),
                present: self.devices.iter().map(|found| found.name.clone()).collect(),
            }),
        }
    }

    /// Describes each device: its name, and the intermediate languages and extensions that it supports.
    pub fn describe(&self) -> Vec<String> {
        let line = |found: &Found| {
            let il = found.device.il_version().unwrap_or_default();
            let il = if il.trim().is_empty() { "no SPIR-V".to_owned() } else { il.trim().to_owned() };
            format!("{}\n   {}, driver {}", found.name, il, found.device.driver_version().unwrap_or_default())
        };
        self.devices.iter().map(line).collect()
    }
}

impl Executor for OpenClExecutor<'_> {
    fn name(&self) -> String {
        self.found.name.clone()
    }

    fn run(&self, words: &[u32], case: &Case, options: &RunOptions) -> Result<Outcome, Error> {
        let module = coop_ir::binary::read_words(words).map_err(|error| Error::module(error.to_string()))?;
        let job = Job::new(&module, case)?;
        if case.buffer.iter().any(|buffer| buffer.fill.has_addresses()) {
            return Err(self.unsupported("buffers that hold device addresses"));
        }
        if let Some(what) = self.found.matrices.lacks(&module) {
            return Err(self.unsupported(&what));
        }
        let setup = self.setup()?;
        let kernel = setup.kernel(words, &job, case)?;
        self.check_subgroups(&setup, &kernel, &job)?;
        let mut buffers = setup.buffers(case)?;
        set_arguments(&kernel, case, &buffers)?;
        let mut times = Vec::new();
        if let Err(error) = setup.launch(&kernel, &job, options.timeout) {
            if matches!(error, Error::Timeout { .. }) {
                // The kernel still runs, and all of these are its.
                self.setup.take();
                let _ = ManuallyDrop::new((setup, kernel, buffers));
            }
            return Err(error);
        }
        let (contents, faults) = setup.read(case, &mut buffers)?;
        for _ in 0..options.bench {
            let start = Instant::now();
            setup.launch(&kernel, &job, options.timeout)?;
            times.push(start.elapsed());
        }
        Ok(Outcome { device: self.name(), buffers: contents, timer: Timer::Host, times, messages: Vec::new(), faults })
    }
}

impl OpenClExecutor<'_> {
    fn setup(&self) -> Result<Rc<Setup>, Error> {
        if let Some(setup) = &*self.setup.borrow() {
            return Ok(setup.clone());
        }
        let setup = Rc::new(Setup::new(&self.found.device)?);
        *self.setup.borrow_mut() = Some(setup.clone());
        Ok(setup)
    }

    fn unsupported(&self, what: impl Into<String>) -> Error {
        Error::Unsupported { device: self.name(), missing: vec![what.into()] }
    }

    /// Refuses to run a kernel with another subgroup size than it requires.
    fn check_subgroups(&self, setup: &Setup, kernel: &Kernel, job: &Job) -> Result<(), Error> {
        let Some(wanted) = job.subgroup else { return Ok(()) };
        let ask = |what: u32, input: &[usize]| {
            let input_size = size_of_val(input);
            get_kernel_sub_group_info(kernel.get(), setup.device, what, input_size, input.as_ptr().cast::<c_void>())
        };
        // Where kernels may ask for a size, the other question is answered without regard to that.
        if self.found.device.extensions().is_ok_and(|all| all.contains("cl_intel_required_subgroup_size"))
            && let Ok(size) = ask(COMPILED_FOR, &[])
            && Vec::<u8>::from(size).first_chunk() == Some(&u64::from(wanted).to_le_bytes())
        {
            return Ok(());
        }
        match ask(CL_KERNEL_MAX_SUB_GROUP_SIZE_FOR_NDRANGE, &job.local).map(usize::from) {
            Ok(size) if size == wanted as usize => Ok(()),
            Ok(size) => {
                Err(self.unsupported(format!("subgroups of {wanted} invocations (SubgroupSize); it has {size}")))
            }
            Err(_) => Err(self.unsupported(format!("subgroups of {wanted} invocations (SubgroupSize)"))),
        }
    }
}

/// The parameters of a run: the entry point and the sizes.
struct Job {
    entry: String,
    /// The subgroup size that the kernel requires.
    subgroup: Option<u32>,
    local: [usize; 3],
    global: [usize; 3],
    specs: Vec<SpecConstant>,
}

impl Job {
    fn new(module: &Module, case: &Case) -> Result<Job, Error> {
        let specialization = case.specialization()?;
        let constants = Constants::new(module, &specialization);
        let entry = kernel_named(module, case.entry.as_deref())?;
        let fixed = entry.workgroup_size.map(|size| size.values(&constants));
        let fixed = fixed.and_then(|[x, y, z]| Some([x.fixed()?, y.fixed()?, z.fixed()?].map(|v| v as usize)));
        let local = match (fixed, case.local_size) {
            (Some(fixed), Some(asked)) if fixed != asked.map(|v| v as usize) => {
                return Err(Error::case(format!(
                    "local-size: {asked:?} is not the size that the kernel is made for, {fixed:?}"
                )));
            }
            (Some(fixed), _) => fixed,
            (None, Some(asked)) => asked.map(|v| v as usize),
            (None, None) => return Err(Error::case("the kernel has no LocalSize: say local-size")),
        };
        let mut global = local;
        for (size, count) in global.iter_mut().zip(case.workgroups) {
            *size = size.saturating_mul(count as usize);
        }
        let specs = Facts::new(module, &specialization).specs;
        let subgroup = entry.mode(ExecutionMode::SubgroupSize).and_then(|mode| module.inst(mode.at).word(2));
        Ok(Job { subgroup, entry: entry.name, local, global, specs })
    }
}

/// Returns the kernel of that name, or the only one if no name is given.
fn kernel_named(module: &Module, name: Option<&str>) -> Result<EntryPoint, Error> {
    let mut kernels = entry_points(module, &Decorations::new(module));
    kernels.retain(|entry| entry.model == ExecutionModel::Kernel);
    let names: Vec<String> = kernels.iter().map(|entry| format!("'{}'", entry.name)).collect();
    match name {
        _ if kernels.is_empty() => Err(Error::module("the module has no kernel: OpenCL does not run shaders")),
        None if kernels.len() > 1 => Err(Error::case(format!(
            "the module has several kernels, name one (--entry, or entry of the case): {}",
            names.join(", ")
        ))),
        _ => kernels.into_iter().find(|entry| name.is_none_or(|name| entry.name == name)).ok_or_else(|| {
            let name = name.unwrap_or_default();
            Error::case(format!("the module has no kernel '{name}', only {}", names.join(", ")))
        }),
    }
}

/// A context with its queue.
struct Setup {
    device: cl_device_id,
    context: Context,
    queue: CommandQueue,
}

impl Setup {
    fn new(device: &Device) -> Result<Setup, Error> {
        let context = check("clCreateContext", Context::from_device(device))?;
        let queue = CommandQueue::create_default_with_properties(&context, 0, 0);
        let queue = check("clCreateCommandQueueWithProperties", queue)?;
        Ok(Setup { device: device.id(), context, queue })
    }

    fn kernel(&self, words: &[u32], job: &Job, case: &Case) -> Result<Kernel, Error> {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let mut program = check("clCreateProgramWithIL", Program::create_from_il(&self.context, &bytes))?;
        let specialization = case.specialization()?;
        for spec in &job.specs {
            let Some(value) = specialization.get(spec.spec_id) else { continue };
            let bytes = spec_bytes(spec, value)?;
            // SAFETY: `bytes` is as long as is said, and read in the call.
            let set = unsafe {
                program.set_specialization_constant(spec.spec_id, bytes.len(), bytes.as_ptr().cast::<c_void>())
            };
            check("clSetProgramSpecializationConstant", set)?;
        }
        if let Err(error) = program.build(&[self.device], "") {
            let log = program.get_build_log(self.device).unwrap_or_default();
            let messages = log.lines().filter(|line| !line.trim().is_empty()).map(str::to_owned).collect();
            return Err(Error::OpenCl { call: "clBuildProgram", result: error.to_string(), messages });
        }
        check("clCreateKernel", Kernel::create(&program, &job.entry))
    }

    /// Makes the case's buffers, each with its guard.
    fn buffers(&self, case: &Case) -> Result<Vec<Buffer<u8>>, Error> {
        let mut buffers = Vec::new();
        for index in 0..case.buffer.len() {
            let mut bytes = case.contents(index, &|_| 0)?;
            bytes.resize(bytes.len() + GUARD.1, GUARD.0);
            // SAFETY: no host memory is handed over.
            let buffer = unsafe { Buffer::create(&self.context, CL_MEM_READ_WRITE, bytes.len(), std::ptr::null_mut()) };
            let mut buffer = check("clCreateBuffer", buffer)?;
            // SAFETY: the call ends when all is written.
            let write = unsafe { self.queue.enqueue_write_buffer(&mut buffer, CL_BLOCKING, 0, &bytes, &[]) };
            check("clEnqueueWriteBuffer", write)?;
            buffers.push(buffer);
        }
        Ok(buffers)
    }

    fn launch(&self, kernel: &Kernel, job: &Job, timeout: Duration) -> Result<(), Error> {
        // SAFETY: the sizes are three each, as said; the arguments are set, and the buffers live until the kernel ended.
        let event = unsafe {
            let (global, local) = (job.global.as_ptr(), job.local.as_ptr());
            self.queue.enqueue_nd_range_kernel(kernel.get(), 3, std::ptr::null(), global, local, &[])
        };
        let event = check("clEnqueueNDRangeKernel", event)?;
        check("clFlush", self.queue.flush())?;
        let start = Instant::now();
        loop {
            let status = check("clGetEventInfo", event.command_execution_status())?.0;
            match status {
                CL_COMPLETE => return Ok(()),
                ..0 => return Err(failed("the kernel", ClError(status))),
                _ if start.elapsed() > timeout => {
                    return Err(Error::Timeout { seconds: timeout.as_secs_f64(), workgroups: None });
                }
                _ => std::thread::sleep(Duration::from_micros(200)),
            }
        }
    }

    /// Returns the contents of the buffers, and the faults: writes behind their ends.
    #[allow(clippy::type_complexity, reason = "the two parts of an outcome")]
    fn read(&self, case: &Case, buffers: &mut [Buffer<u8>]) -> Result<(Vec<(String, Vec<u8>)>, Vec<String>), Error> {
        let (mut contents, mut faults) = (Vec::new(), Vec::new());
        for (described, buffer) in case.buffer.iter().zip(buffers) {
            let mut bytes = vec![0; described.size() + GUARD.1];
            // SAFETY: the call ends when all is read.
            let read = unsafe { self.queue.enqueue_read_buffer(buffer, CL_BLOCKING, 0, &mut bytes, &[]) };
            check("clEnqueueReadBuffer", read)?;
            let guard = bytes.split_off(described.size());
            if let Some(at) = guard.iter().position(|byte| *byte != GUARD.0) {
                faults.push(format!("buffer {}: something was written {at} bytes behind its end", described.name));
            }
            contents.push((described.name.clone(), bytes));
        }
        Ok((contents, faults))
    }
}

/// Sets the kernel's arguments: the parts of `push`, in order.
fn set_arguments(kernel: &Kernel, case: &Case, buffers: &[Buffer<u8>]) -> Result<(), Error> {
    let count = check("clGetKernelInfo", kernel.num_args())?;
    if count as usize != case.push.len() {
        let given = case.push.len();
        return Err(Error::case(format!("push: the kernel has {count} arguments, and {given} are given")));
    }
    for (index, part) in (0..).zip(&case.push) {
        let named = part.address.as_ref().and_then(|name| case.buffer.iter().position(|b| b.name == *name));
        let set = match (named.and_then(|at| buffers.get(at)), part.local) {
            (Some(buffer), _) => {
                let handle = buffer.get();
                // SAFETY: the argument is the buffer's handle, which is read in the call.
                unsafe { kernel.set_arg(index, &handle) }
            }
            // SAFETY: no memory is read.
            (None, Some(bytes)) => unsafe { kernel.set_arg_local_buffer(index, bytes as usize) },
            (None, None) => {
                let (bytes, _) = case.push_part(part, &|_| 0)?;
                // SAFETY: `bytes` is as long as is said, and read in the call.
                let set = unsafe { set_kernel_arg(kernel.get(), index, bytes.len(), bytes.as_ptr().cast::<c_void>()) };
                set.map_err(ClError)
            }
        };
        check("clSetKernelArg", set)?;
    }
    Ok(())
}

/// Returns the bytes of a specialization constant; a Boolean is one byte.
fn spec_bytes(spec: &SpecConstant, value: SpecValue) -> Result<Vec<u8>, Error> {
    let id = spec.spec_id;
    let bits = value.bits(&spec.kind).map_err(|why| Error::case(format!("spec {id}: {why}")))?;
    let size = spec.kind.scalar().map_or(1, |scalar| scalar.bytes() as usize);
    Ok(bits.to_le_bytes()[..size.min(8)].to_vec())
}

fn check<T>(call: &'static str, result: Result<T, ClError>) -> Result<T, Error> {
    result.map_err(|error| failed(call, error))
}

fn failed(call: &'static str, error: ClError) -> Error {
    Error::OpenCl { call, result: error.to_string(), messages: Vec::new() }
}
