//! The settings for what engines do and texts forbid, each on both sides.
#![allow(unsafe_code)]
#![allow(
    clippy::undocumented_unsafe_blocks,
    reason = "one reason for all: handles are the test's own and alive, structures live during calls"
)]

mod support;

use ash::vk;
use coop_exec::testing::words;
use support::application::{Application, Layout, Sizes, module, stage};

/// Makes a pipeline of words with four constants on a device with matrices, and returns what the log says of it.
fn made(log: &str, words: &[u32], constants: [u32; 4]) -> String {
    made_on(|app| app.device(true), log, words, constants)
}

/// Likewise, on another device.
fn made_on(device: impl Fn(&Application) -> ash::Device, log: &str, words: &[u32], constants: [u32; 4]) -> String {
    let _ = std::fs::remove_file(log);
    let app = Application::new();
    let device = device(&app);
    let layout = Layout::new(&device);
    let module = module(&device, words).unwrap();
    let sizes = Sizes::new(constants);
    let info = sizes.info();
    let create = vk::ComputePipelineCreateInfo::default().stage(stage(module, &info)).layout(layout.layout);
    let pipelines = unsafe { device.create_compute_pipelines(vk::PipelineCache::null(), &[create], None) }.unwrap();
    unsafe {
        device.destroy_pipeline(pipelines[0], None);
        device.destroy_shader_module(module, None);
        layout.destroy(&device);
        device.destroy_device(None);
    }
    let text = std::fs::read_to_string(log).unwrap();
    text.lines().find(|line| line.contains(": lowered to ")).unwrap_or_else(|| panic!("{text}")).to_owned()
}

/// The words of what a module became, from a line of the log.
fn size(line: &str) -> u32 {
    let (before, _) = line.split_once(" words").unwrap();
    before.rsplit(' ').next().unwrap().parse().unwrap()
}

/// Made for subgroups of 32: a shared array has a part for each, and one of the constants is the size.
fn with_parts() -> Vec<u32> {
    let text = "; Version: 1.6\nOpCapability Shader\nOpCapability VulkanMemoryModel\nOpCapability CooperativeMatrixKHR\n\
         OpCapability GroupNonUniform\nOpCapability GroupNonUniformBallot\n\
         OpExtension \"SPV_KHR_cooperative_matrix\"\nOpMemoryModel Logical Vulkan\n\
         OpEntryPoint GLCompute %main \"main\" %index %subgroup %parts\nOpExecutionModeId %main LocalSizeId %x %n1 %n1\n\
         OpDecorate %x SpecId 0\nOpDecorate %size SpecId 1\n\
         OpDecorate %index BuiltIn LocalInvocationIndex\nOpDecorate %subgroup BuiltIn SubgroupId\n\
         %void = OpTypeVoid\n%fn = OpTypeFunction %void\n%u32 = OpTypeInt 32 0\n%f32 = OpTypeFloat 32\n\
         %n1 = OpConstant %u32 1\n%n2 = OpConstant %u32 2\n%n3 = OpConstant %u32 3\n%n8 = OpConstant %u32 8\n\
         %x = OpSpecConstant %u32 128\n%size = OpSpecConstant %u32 32\n%count = OpSpecConstantOp %u32 UDiv %x %size\n\
         %array = OpTypeArray %u32 %count\n%to_array = OpTypePointer Workgroup %array\n%to_part = OpTypePointer Workgroup %u32\n\
         %to_in = OpTypePointer Input %u32\n%index = OpVariable %to_in Input\n%subgroup = OpVariable %to_in Input\n\
         %parts = OpVariable %to_array Workgroup\n%matrix = OpTypeCooperativeMatrixKHR %f32 %n3 %n8 %n8 %n2\n\
         %null = OpConstantNull %matrix\n%main = OpFunction %void None %fn\n%entry = OpLabel\n%me = OpLoad %u32 %index\n\
         %s = OpLoad %u32 %subgroup\n%sum = OpFAdd %matrix %null %null\n%part = OpAccessChain %to_part %parts %s\n\
         OpStore %part %me\n%b = OpGroupNonUniformBroadcastFirst %u32 %n3 %me\nOpReturn\nOpFunctionEnd\n";
    coop_ir::binary::write_words(&coop_ir::text::parse(text).unwrap())
}

const EMULATED_LOG: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/emulated.log");

// The driver's subgroups have 8 invocations.
layer_test!(
    Debian12,
    [("COOPMAT_LOG", "debug"), ("COOPMAT_LOG_FILE", EMULATED_LOG)],
    fn subgroups_that_modules_have_parts_for_are_emulated() {
        let line = made(EMULATED_LOG, &with_parts(), [128, 32, 0, 0]);
        assert!(line.contains("none has 32 invocations") && !line.contains("subgroups of 8"), "{line}");
    }
);

const ANY_LOG: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/any.log");

layer_test!(
    Debian12,
    [("COOPMAT_BAKED_SUBGROUP_SIZE", "0"), ("COOPMAT_LOG", "debug"), ("COOPMAT_LOG_FILE", ANY_LOG)],
    fn modules_have_the_devices_subgroups_by_a_setting() {
        let line = made(ANY_LOG, &with_parts(), [128, 32, 0, 0]);
        assert!(line.contains("subgroups of 8, full subgroups") && !line.contains("shared memory more"), "{line}");
    }
);

const WORDS_LOG: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/quirks.log");

/// The words of what a module becomes as the layer is set up, and with a setting off.
fn with_and_without(setting: &str, path: &str, constant: u32) -> [u32; 2] {
    ["1", "0"].map(|value| {
        // This process has one thread that looks.
        unsafe { std::env::set_var(setting, value) };
        size(&made(WORDS_LOG, &words(path), [constant, 0, 0, 0]))
    })
}

layer_test!(
    Debian12,
    [("COOPMAT_LOG", "info"), ("COOPMAT_LOG_FILE", WORDS_LOG)],
    fn addresses_and_elements_outside_cost_code_that_settings_leave_out() {
        // Loads and stores tensors at offsets of an element.
        let [tested, promised] = with_and_without("COOPMAT_UNALIGNED_TENSORS", "testdata/nv2/unaligned.f16.spv", 8);
        assert!(promised < tested, "{promised} of {tested} words");
        // Loads beyond a tensor with the clamp mode Undefined.
        let [zeros, undefined] = with_and_without("COOPMAT_UNDEFINED_AS_ZERO", "exec/tests/interp/clamp.spv", 0);
        assert!(undefined < zeros, "{undefined} of {zeros} words");
    }
);

const SOFTWARE_LOG: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/software.log");

// It has subgroups of 4, and no f16.
layer_test!(
    SwiftShader,
    [("COOPMAT_LOG", "info"), ("COOPMAT_LOG_FILE", SOFTWARE_LOG)],
    fn f16_in_software_is_said_and_rounded_less_by_a_setting() {
        let kernel = words("testdata/kernels/gemm_simple.spv");
        let [exact, excess] = ["0", "1"].map(|value| {
            // This process has one thread that looks.
            unsafe { std::env::set_var("COOPMAT_EXCESS_PRECISION", value) };
            let line = made_on(Application::weak_device, SOFTWARE_LOG, &kernel, [8, 8, 8, 8]);
            assert!(line.contains("f16 is computed with f32") && line.contains("slower by about "), "{line}");
            size(&line)
        });
        assert!(excess < exact, "{excess} of {exact} words");
    }
);
