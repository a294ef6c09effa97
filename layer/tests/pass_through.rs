//! Applications that the layer has nothing to do for: they call the driver's functions, and their pipelines cost what they did.
#![allow(unsafe_code)]
#![allow(
    clippy::undocumented_unsafe_blocks,
    reason = "one reason for all: handles are the test's own and alive, structures live during calls"
)]

mod support;

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_void};
use std::time::{Duration, Instant};

use ash::vk;
use support::application::{Application, Layout, Sizes, module, stage};

/// The device functions of Vulkan 1.0 to 1.3, with what the device says for each.
fn functions(app: &Application, device: &ash::Device) -> BTreeMap<CString, usize> {
    let ask = app.instance.fp_v1_0().get_device_proc_addr;
    let mut all = BTreeMap::new();
    let mut load = |name: &CStr| -> *const c_void {
        let function = unsafe { ask(device.handle(), name.as_ptr()) };
        let address = function.map_or(std::ptr::null(), |function| function as *const c_void);
        all.insert(name.to_owned(), address as usize);
        address
    };
    ash::DeviceFnV1_0::load(&mut load);
    ash::DeviceFnV1_1::load(&mut load);
    ash::DeviceFnV1_2::load(&mut load);
    ash::DeviceFnV1_3::load(&mut load);
    all
}

/// Starts an application without the layer, in the same process: the driver is loaded once.
fn without_the_layer() -> Application {
    // This process has one thread that looks.
    unsafe { std::env::set_var("VK_INSTANCE_LAYERS", "") };
    Application::new()
}

/// The names of functions that are not the driver's.
fn intercepted(driver: &BTreeMap<CString, usize>, shown: &BTreeMap<CString, usize>) -> Vec<String> {
    let differs = |name: &&CString| driver[*name] != shown[*name];
    shown.keys().filter(differs).map(|name| name.to_string_lossy().into_owned()).collect()
}

layer_test!(
    Lavapipe,
    [],
    fn devices_have_the_drivers_own_functions() {
        let layered = Application::new();
        let plain = without_the_layer();
        let driver = functions(&plain, &plain.device(false));
        assert!(driver.len() > 180 && driver.values().filter(|address| **address != 0).count() > 180);
        // Not even vkDestroyDevice, which is the loader's in either case, and calls the layer's.
        assert_eq!(intercepted(&driver, &functions(&layered, &layered.device(false))), [""; 0]);
        // With matrices: those that make something of modules.
        let modules =
            ["vkCreateComputePipelines", "vkCreateGraphicsPipelines", "vkCreateShaderModule", "vkDestroyShaderModule"];
        assert_eq!(intercepted(&driver, &functions(&layered, &layered.device(true))), modules);
    }
);

/// Adds one to each number of a buffer: no matrices.
fn plain_words() -> Vec<u32> {
    let text = "; Version: 1.0\nOpCapability Shader\nOpMemoryModel Logical GLSL450\nOpEntryPoint GLCompute %main \"main\" %id\n\
         OpExecutionMode %main LocalSize 64 1 1\nOpDecorate %id BuiltIn GlobalInvocationId\nOpDecorate %array ArrayStride 4\n\
         OpDecorate %block BufferBlock\nOpMemberDecorate %block 0 Offset 0\nOpDecorate %buffer DescriptorSet 0\n\
         OpDecorate %buffer Binding 0\n%void = OpTypeVoid\n%fn = OpTypeFunction %void\n%uint = OpTypeInt 32 0\n\
         %v3 = OpTypeVector %uint 3\n%in = OpTypePointer Input %v3\n%id = OpVariable %in Input\n%n0 = OpConstant %uint 0\n\
         %n1 = OpConstant %uint 1\n%array = OpTypeRuntimeArray %uint\n%block = OpTypeStruct %array\n\
         %to_block = OpTypePointer Uniform %block\n%to_uint = OpTypePointer Uniform %uint\n%buffer = OpVariable %to_block Uniform\n\
         %main = OpFunction %void None %fn\n%entry = OpLabel\n%at = OpLoad %v3 %id\n%x = OpCompositeExtract %uint %at 0\n\
         %to = OpAccessChain %to_uint %buffer %n0 %x\n%old = OpLoad %uint %to\n%new = OpIAdd %uint %old %n1\nOpStore %to %new\n\
         OpReturn\nOpFunctionEnd\n";
    coop_ir::binary::write_words(&coop_ir::text::parse(text).unwrap())
}

/// A device, and what a pipeline of it takes.
struct Maker {
    device: ash::Device,
    layout: Layout,
    words: Vec<u32>,
    times: Vec<Duration>,
}

impl Maker {
    fn new(device: ash::Device) -> Maker {
        Maker { layout: Layout::new(&device), device, words: plain_words(), times: Vec::new() }
    }

    /// Makes a module and a pipeline of it, and destroys both.
    fn make(&mut self) {
        let sizes = Sizes::new([0; 4]);
        let info = sizes.info();
        let start = Instant::now();
        let module = module(&self.device, &self.words).unwrap();
        let create = vk::ComputePipelineCreateInfo::default().stage(stage(module, &info)).layout(self.layout.layout);
        let made = unsafe { self.device.create_compute_pipelines(vk::PipelineCache::null(), &[create], None) };
        let made = made.unwrap();
        unsafe {
            self.device.destroy_shader_module(module, None);
            self.times.push(start.elapsed());
            self.device.destroy_pipeline(made[0], None);
        }
    }

    fn median(&mut self) -> Duration {
        self.times.sort_unstable();
        self.times[self.times.len() / 2]
    }
}

/// Returns the time of a dispatch that is recorded, in nanoseconds: the least of some rounds.
fn recording(device: &ash::Device) -> u128 {
    const DISPATCHES: u32 = 20_000;
    let pool = unsafe { device.create_command_pool(&vk::CommandPoolCreateInfo::default(), None) }.unwrap();
    let round = |_| unsafe {
        let info = vk::CommandBufferAllocateInfo::default().command_pool(pool).command_buffer_count(1);
        let buffer = device.allocate_command_buffers(&info).unwrap()[0];
        device.begin_command_buffer(buffer, &vk::CommandBufferBeginInfo::default()).unwrap();
        let start = Instant::now();
        (0..DISPATCHES).for_each(|_| device.cmd_dispatch(buffer, 1, 1, 1));
        let took = start.elapsed().as_nanos() / u128::from(DISPATCHES);
        device.end_command_buffer(buffer).unwrap();
        device.free_command_buffers(pool, &[buffer]);
        took
    };
    let least = (0..5).map(round).min().unwrap();
    unsafe { device.destroy_command_pool(pool, None) };
    least
}

layer_test!(
    Lavapipe,
    [],
    fn pipelines_without_matrices_cost_what_they_did() {
        let layered = Application::new();
        let plain = without_the_layer();
        // On a device with matrices, where the layer looks at each pipeline; on one without; and without the layer.
        let mut all = [layered.device(true), layered.device(false), plain.device(false)].map(Maker::new);
        // In turn, so that what else the machine does is of all of them.
        for _ in 0..201 {
            all.iter_mut().for_each(Maker::make);
        }
        let [matrices, none, driver] = all.each_mut().map(|maker| maker.median().as_nanos() as f64 / 1000.0);
        let [recorded, driver_recorded] = [&all[0].device, &all[2].device].map(recording);
        eprintln!(
            "module and pipeline without matrices, median of 201: {matrices:.1} us on a device with the layer's matrices, {none:.1} us \
             on one without them, {driver:.1} us without the layer; a recorded dispatch: {recorded} ns with the layer, \
             {driver_recorded} ns without"
        );
        assert!(matrices - driver <= 50.0, "{matrices} us with the layer, {driver} us without");
    }
);
