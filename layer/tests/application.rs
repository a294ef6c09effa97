//! Tests the layer from the side of applications, including their mistakes.
#![allow(unsafe_code)]
#![allow(
    clippy::undocumented_unsafe_blocks,
    reason = "one reason for all: handles are the test's own and alive, structures live during calls"
)]

mod support;

use std::ffi::{CStr, c_char, c_void};

use ash::vk::{self, Handle};
use coop_exec::testing::words;
use support::application::{Application, Layout, MESSAGES, Raw, Sizes, gemm, module, stage};

layer_test!(
    Debian12,
    [],
    fn a_device_shows_what_is_added() {
        let app = Application::new();
        let extensions = app.extensions();
        let version = |name: &str| extensions.iter().find(|(n, _)| n == name).map(|(_, version)| *version);
        assert_eq!(version("VK_KHR_cooperative_matrix"), Some(2));
        assert_eq!(version("VK_NV_cooperative_matrix2"), Some(1));
        assert_eq!(version("VK_KHR_shader_bfloat16"), None);
        assert_eq!(extensions.iter().filter(|(n, _)| n == "VK_KHR_cooperative_matrix").count(), 1);
        // Too little room.
        let list = app.instance.fp_v1_0().enumerate_device_extension_properties;
        let mut room = vec![vk::ExtensionProperties::default(); 3];
        let mut count = 2;
        let result = unsafe { list(app.physical, std::ptr::null(), &raw mut count, room.as_mut_ptr()) };
        assert_eq!((result, count, room[2].spec_version), (vk::Result::INCOMPLETE, 2, 0));
    }
);

layer_test!(
    Debian12,
    [],
    fn queries_answer_and_leave_chains_alone() {
        let app = Application::new();
        // One that nobody knows, between the layer's and the driver's.
        let mut strange = Raw::new(1_999_999_000, [7; 8]);
        let mut khr = Raw::new(1_000_506_000, [9; 8]);
        let mut nv2 = Raw::new(1_000_593_000, [9; 8]);
        let mut float16 = Raw::new(1_000_082_000, [9; 8]);
        (khr.next, strange.next) = ((&raw mut strange).cast(), (&raw mut nv2).cast());
        nv2.next = (&raw mut float16).cast();
        let mut all = vk::PhysicalDeviceFeatures2 { p_next: (&raw mut khr).cast(), ..Default::default() };
        unsafe { app.instance.get_physical_device_features2(app.physical, &mut all) };
        assert_eq!(all.p_next, (&raw mut khr).cast());
        assert_eq!(khr.next, (&raw mut strange).cast());
        assert_eq!(strange.next, (&raw mut nv2).cast());
        assert_eq!(nv2.next, (&raw mut float16).cast());
        assert_eq!(khr.members, [1, 0, 9, 9, 9, 9, 9, 9]);
        assert_eq!(nv2.members, [1, 1, 1, 1, 1, 1, 1, 9]);
        assert_eq!((float16.members[0], strange.members), (1, [7; 8]));
        let mut nv2 = Raw::new(1_000_593_002, [9; 8]);
        let mut khr = Raw { next: (&raw mut nv2).cast(), ..Raw::new(1_000_506_002, [9; 8]) };
        let mut all = vk::PhysicalDeviceProperties2 { p_next: (&raw mut khr).cast(), ..Default::default() };
        unsafe { app.instance.get_physical_device_properties2(app.physical, &mut all) };
        assert_eq!(khr.members[..2], [vk::ShaderStageFlags::COMPUTE.as_raw(), 9]);
        assert!(nv2.members[0] >= 256 && nv2.members[1] >= 512 && nv2.members[3] == 9, "{:?}", nv2.members);
    }
);

type List<const N: usize> = unsafe extern "system" fn(vk::PhysicalDevice, *mut u32, *mut Row<N>) -> vk::Result;

#[repr(C)]
#[derive(Clone, Copy)]
struct Row<const N: usize> {
    s_type: i32,
    next: *mut c_void,
    members: [u32; N],
}

fn rows<const N: usize>(app: &Application, name: &CStr) -> Vec<[u32; N]> {
    let list: List<N> = app.function(name);
    let mut count = 0;
    assert_eq!(unsafe { list(app.physical, &raw mut count, std::ptr::null_mut()) }, vk::Result::SUCCESS);
    let row = Row { s_type: 0, next: std::ptr::null_mut(), members: [0; N] };
    let mut rows = vec![row; count as usize];
    assert_eq!(unsafe { list(app.physical, &raw mut count, rows.as_mut_ptr()) }, vk::Result::SUCCESS);
    let mut fewer = count - 1;
    assert_eq!(unsafe { list(app.physical, &raw mut fewer, rows.as_mut_ptr()) }, vk::Result::INCOMPLETE);
    rows.iter().map(|row| row.members).collect()
}

layer_test!(
    Debian12,
    [],
    fn lists_have_what_engines_look_for() {
        let app = Application::new();
        let khr = rows::<9>(&app, c"vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR");
        // f16 times f16 with f32 and f16, in 16 x 16 x 16 of a subgroup.
        assert!(
            khr.contains(&[16, 16, 16, 0, 0, 1, 1, 0, 3]) && khr.contains(&[16, 16, 16, 0, 0, 0, 0, 0, 3]),
            "{khr:?}"
        );
        let flexible = rows::<10>(&app, c"vkGetPhysicalDeviceCooperativeMatrixFlexibleDimensionsPropertiesNV");
        for invocations in [128, 256] {
            let row = |c: u32| flexible.contains(&[16, 16, 16, 0, 0, c, c, 0, 2, invocations]);
            assert!(row(0) && row(1), "{flexible:?}");
        }
        // bfloat16 is added by a setting.
        assert!(khr.iter().all(|row| row[3] < 100));
    }
);

layer_test!(
    Debian12,
    [("COOPMAT_EXTENSIONS", "none")],
    fn nothing_is_added_where_nothing_is_wanted() {
        let app = Application::new();
        assert!(app.extensions().iter().all(|(name, _)| !name.contains("cooperative_matrix")));
    }
);

#[repr(C)]
struct DlInfo {
    file: *const c_char,
    base: *mut c_void,
    symbol: *const c_char,
    address: *mut c_void,
}

unsafe extern "C" {
    fn dladdr(address: *const c_void, info: *mut DlInfo) -> i32;
}

/// The library that a function is in.
fn library(function: vk::PFN_vkVoidFunction) -> String {
    let mut info = DlInfo {
        file: std::ptr::null(),
        base: std::ptr::null_mut(),
        symbol: std::ptr::null(),
        address: std::ptr::null_mut(),
    };
    let address = function.map_or(std::ptr::null(), |function| function as *const c_void);
    assert_ne!(unsafe { dladdr(address, &raw mut info) }, 0);
    unsafe { CStr::from_ptr(info.file) }.to_string_lossy().into_owned()
}

layer_test!(
    Debian12,
    [],
    fn devices_without_matrices_call_the_driver() {
        let app = Application::new();
        let (with, without) = (app.device(true), app.device(false));
        for name in [c"vkCreateComputePipelines", c"vkCreateShaderModule", c"vkDestroyShaderModule"] {
            let of = |device: &ash::Device| unsafe {
                library((app.instance.fp_v1_0().get_device_proc_addr)(device.handle(), name.as_ptr()))
            };
            assert!(of(&with).ends_with("libcoopmat_layer.so"), "{}", of(&with));
            assert!(of(&without).contains("libvulkan_lvp"), "{}", of(&without));
        }
        let dispatch =
            unsafe { (app.instance.fp_v1_0().get_device_proc_addr)(with.handle(), c"vkCmdDispatch".as_ptr()) };
        assert!(!library(dispatch).contains("coopmat"), "what the layer has nothing to do with is the driver's");
        unsafe {
            with.destroy_device(None);
            without.destroy_device(None);
        }
    }
);

layer_test!(
    Debian12,
    [],
    fn a_refused_pipeline_is_an_error_and_a_message() {
        let app = Application::new();
        let device = app.device(true);
        let layout = Layout::new(&device);
        let good = gemm();
        // Ends in the middle; words that are no instructions.
        let cut = good[..good.len() * 2 / 3].to_vec();
        let mut odd = good.clone();
        let at = good.len() - 40;
        odd[at..].fill(0x0003_0000);
        let sizes = Sizes::new([8, 8, 8, 8]);
        let info = sizes.info();
        let fine = module(&device, &good).unwrap();
        for broken in [cut, odd] {
            let module = module(&device, &broken).unwrap();
            let of =
                |module| vk::ComputePipelineCreateInfo::default().stage(stage(module, &info)).layout(layout.layout);
            let infos = [of(fine), of(module), of(fine)];
            let result = unsafe { device.create_compute_pipelines(vk::PipelineCache::null(), &infos, None) };
            let (pipelines, error) = result.unwrap_err();
            assert_eq!(error, vk::Result::ERROR_UNKNOWN);
            assert!(!pipelines[0].is_null() && pipelines[1].is_null() && !pipelines[2].is_null());
            let messages = std::mem::take(&mut *MESSAGES.lock().unwrap());
            assert!(messages.iter().any(|m| m.contains("is refused")), "{messages:?}");
            unsafe {
                pipelines.iter().for_each(|pipeline| device.destroy_pipeline(*pipeline, None));
                device.destroy_shader_module(module, None);
            }
        }
        unsafe {
            device.destroy_shader_module(fine, None);
            layout.destroy(&device);
            device.destroy_device(None);
        }
    }
);

/// A pipeline of the simplest product is refused, and the message says why.
fn is_refused(why: &str) {
    let app = Application::new();
    let device = app.device(true);
    let layout = Layout::new(&device);
    let module = module(&device, &gemm()).unwrap();
    let sizes = Sizes::new([16, 16, 16, 8]);
    let info = sizes.info();
    let create = vk::ComputePipelineCreateInfo::default().stage(stage(module, &info)).layout(layout.layout);
    let result = unsafe { device.create_compute_pipelines(vk::PipelineCache::null(), &[create], None) };
    assert_eq!(result.unwrap_err().1, vk::Result::ERROR_UNKNOWN);
    let messages = std::mem::take(&mut *MESSAGES.lock().unwrap());
    assert!(messages.iter().any(|m| m.contains(why)), "{messages:?}");
}

layer_test!(
    Debian12,
    [("COOPMAT_TIME_LIMIT_MS", "0")],
    fn time_is_limited() {
        is_refused("time_limit_ms");
    }
);

layer_test!(
    Debian12,
    [("COOPMAT_MAX_WORDS", "100")],
    fn the_size_of_modules_is_limited() {
        is_refused("max_words");
    }
);

layer_test!(
    Debian12,
    [("COOPMAT_MAX_INSTRUCTIONS", "100")],
    fn what_lowerings_make_is_limited() {
        is_refused("refused-limit");
    }
);

layer_test!(
    Lavapipe,
    [("COOPMAT_LOG", "info")],
    fn shader_objects_are_lowered() {
        let app = Application::new();
        let mut khr = Raw::new(1_000_506_000, [1, 0, 0, 0, 0, 0, 0, 0]);
        let mut objects = vk::PhysicalDeviceShaderObjectFeaturesEXT::default().shader_object(true);
        let mut v12 = vk::PhysicalDeviceVulkan12Features::default().shader_float16(true).vulkan_memory_model(true);
        let mut v11 = vk::PhysicalDeviceVulkan11Features::default().storage_buffer16_bit_access(true);
        objects.p_next = (&raw mut khr).cast();
        v12.p_next = (&raw mut objects).cast();
        v11.p_next = (&raw mut v12).cast();
        let queue = [vk::DeviceQueueCreateInfo::default().queue_family_index(0).queue_priorities(&[1.0])];
        let names = [
            c"VK_KHR_cooperative_matrix".as_ptr(),
            c"VK_NV_cooperative_matrix2".as_ptr(),
            c"VK_EXT_shader_object".as_ptr(),
        ];
        let mut info = vk::DeviceCreateInfo::default().queue_create_infos(&queue).enabled_extension_names(&names);
        info.p_next = (&raw const v11).cast();
        let device = unsafe { app.instance.create_device(app.physical, &info, None) }.unwrap();
        let functions = ash::ext::shader_object::Device::new(&app.instance, &device);
        let layout = Layout::new(&device);
        let words = gemm();
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let sets = [layout.set];
        let ranges = [vk::PushConstantRange { stage_flags: vk::ShaderStageFlags::COMPUTE, offset: 0, size: 64 }];
        let sizes = Sizes::new([16, 16, 16, 8]);
        let specialization = sizes.info();
        let create = vk::ShaderCreateInfoEXT::default()
            .stage(vk::ShaderStageFlags::COMPUTE)
            .code_type(vk::ShaderCodeTypeEXT::SPIRV)
            .code(&bytes)
            .name(c"main")
            .set_layouts(&sets)
            .push_constant_ranges(&ranges)
            .specialization_info(&specialization);
        let shaders = unsafe { functions.create_shaders(&[create], None) }.unwrap();
        // What does not lower is an error.
        let cut = &bytes[..(bytes.len() / 2) & !3];
        let broken = unsafe { functions.create_shaders(&[create.code(cut)], None) };
        assert_eq!(broken.unwrap_err().1, vk::Result::ERROR_UNKNOWN);
        unsafe {
            functions.destroy_shader(shaders[0], None);
            layout.destroy(&device);
            device.destroy_device(None);
        }
    }
);

// The validation layer is below, and objects to robustness where the device has not enabled it: so it tells that the driver gets it.
layer_test!(
    Lavapipe,
    [
        ("VK_INSTANCE_LAYERS", "VK_LAYER_COOPMAT_fallback:VK_LAYER_KHRONOS_validation"),
        ("COOPMAT_ALWAYS_LOWER", "1"),
        ("COOPMAT_TARGET", "scalar"),
    ],
    fn lowered_pipelines_keep_their_robustness() {
        let app = Application::new();
        let device = app.device(true);
        let layout = Layout::new(&device);
        let module = module(&device, &gemm()).unwrap();
        let sizes = Sizes::new([8, 8, 8, 8]);
        let info = sizes.info();
        let robust = vk::PipelineRobustnessCreateInfoEXT::default()
            .storage_buffers(vk::PipelineRobustnessBufferBehaviorEXT::ROBUST_BUFFER_ACCESS_2);
        let chain: *const c_void = (&raw const robust).cast();
        let none = std::ptr::null();
        for (of_stage, of_pipeline, objections) in [(none, none, 0), (chain, none, 1), (none, chain, 1)] {
            MESSAGES.lock().unwrap().clear();
            let mut stage = stage(module, &info);
            stage.p_next = of_stage;
            let mut create = vk::ComputePipelineCreateInfo::default().stage(stage).layout(layout.layout);
            create.p_next = of_pipeline;
            let made = unsafe { device.create_compute_pipelines(vk::PipelineCache::null(), &[create], None) };
            unsafe { device.destroy_pipeline(made.unwrap()[0], None) };
            let messages = std::mem::take(&mut *MESSAGES.lock().unwrap());
            let found = messages.iter().filter(|m| m.contains("pipelineRobustness")).count();
            assert_eq!((messages.len(), found), (objections, objections), "{messages:#?}");
        }
        unsafe {
            device.destroy_shader_module(module, None);
            layout.destroy(&device);
            device.destroy_device(None);
        }
    }
);

layer_test!(
    Debian12,
    [],
    fn threads_and_devices_do_not_meet() {
        let app = Application::new();
        let devices = [app.device(true), app.device(true)];
        std::thread::scope(|scope| {
            for thread in 0..8u32 {
                let device = &devices[thread as usize % 2];
                scope.spawn(move || {
                    let layout = Layout::new(device);
                    let cache =
                        unsafe { device.create_pipeline_cache(&vk::PipelineCacheCreateInfo::default(), None) }.unwrap();
                    for round in 0..6 {
                        let module = module(device, &gemm()).unwrap();
                        let size = if (thread + round) % 2 == 0 { 8 } else { 16 };
                        let sizes = Sizes::new([size, size, size, 8]);
                        let info = sizes.info();
                        let create =
                            vk::ComputePipelineCreateInfo::default().stage(stage(module, &info)).layout(layout.layout);
                        let pipelines = unsafe { device.create_compute_pipelines(cache, &[create], None) }.unwrap();
                        unsafe {
                            device.destroy_shader_module(module, None);
                            device.destroy_pipeline(pipelines[0], None);
                        }
                    }
                    unsafe { device.destroy_pipeline_cache(cache, None) };
                    layout.destroy(device);
                });
            }
        });
        unsafe { devices.iter().for_each(|device| device.destroy_device(None)) };
    }
);

/// Kilobytes that the process has.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Makes and destroys this many pipelines, on a device for each twenty. Two of the twenty are new to the layer, which lowers them.
fn many_pipelines(count: usize) {
    let app = Application::new();
    let sizes = Sizes::new([8, 8, 8, 8]);
    let info = sizes.info();
    let mut words = gemm();
    let mut twenty = || {
        let device = app.device(true);
        let layout = Layout::new(&device);
        for n in 0..20 {
            // The number of the program that made the module.
            words[2] += u32::from(n % 10 == 0);
            let module = module(&device, &words).unwrap();
            let create = vk::ComputePipelineCreateInfo::default().stage(stage(module, &info)).layout(layout.layout);
            let pipelines =
                unsafe { device.create_compute_pipelines(vk::PipelineCache::null(), &[create], None) }.unwrap();
            unsafe {
                device.destroy_pipeline(pipelines[0], None);
                device.destroy_shader_module(module, None);
            }
        }
        layout.destroy(&device);
        unsafe { device.destroy_device(None) };
    };
    (0..10.max(count / 80)).for_each(|_| twenty());
    let before = resident();
    (0..count / 20).for_each(|_| twenty());
    let grown = resident().saturating_sub(before);
    eprintln!("{count} pipelines: {grown} kB more than {before} kB");
    assert!(grown < 4096, "{grown} kB more after {count} pipelines");
}

// Mesa 22.3 keeps most of a megabyte of each pipeline that is made, with the layer or without.
layer_test!(
    Lavapipe,
    [("COOPMAT_ALWAYS_LOWER", "1")],
    fn memory_comes_back() {
        many_pipelines(200);
    }
);

layer_test!(
    #[ignore = "scripts/test.sh long runs it: minutes"]
    Lavapipe,
    [("COOPMAT_ALWAYS_LOWER", "1")],
    fn twenty_thousand_pipelines() {
        many_pipelines(20_000);
    }
);

layer_test!(
    Lavapipe,
    [],
    fn words_in_a_stage_are_lowered() {
        let app = Application::new();
        let device = app.device(true);
        let layout = Layout::new(&device);
        let words = gemm();
        let sizes = Sizes::new([16, 16, 16, 8]);
        let info = sizes.info();
        let mut code = vk::ShaderModuleCreateInfo::default().code(&words);
        let stage = stage(vk::ShaderModule::null(), &info).push_next(&mut code);
        let create = vk::ComputePipelineCreateInfo::default().stage(stage).layout(layout.layout);
        let pipelines = unsafe { device.create_compute_pipelines(vk::PipelineCache::null(), &[create], None) }.unwrap();
        unsafe {
            device.destroy_pipeline(pipelines[0], None);
            layout.destroy(&device);
            device.destroy_device(None);
        }
    }
);

layer_test!(
    Navi31,
    [("COOPMAT_ALWAYS_LOWER", "1"), ("COOPMAT_TARGET", "scalar")],
    fn caches_and_identifiers_are_of_the_module_given() {
        let app = Application::new();
        let device = app.device_with(true, &[c"VK_EXT_shader_module_identifier"]);
        let functions = ash::ext::shader_module_identifier::Device::new(&app.instance, &device);
        let all = [gemm(), words("testdata/kernels/gemm_i8.spv")];
        let [first, second] = all.each_ref().map(|words| {
            let module = module(&device, words).unwrap();
            let mut of_module = vk::ShaderModuleIdentifierEXT::default();
            let mut of_words = of_module;
            let info = vk::ShaderModuleCreateInfo::default().code(words);
            unsafe {
                (functions.fp().get_shader_module_identifier_ext)(device.handle(), module, &raw mut of_module);
                (functions.fp().get_shader_module_create_info_identifier_ext)(
                    device.handle(),
                    &raw const info,
                    &raw mut of_words,
                );
                device.destroy_shader_module(module, None);
            }
            let bytes = |id: &vk::ShaderModuleIdentifierEXT<'_>| id.identifier[..id.identifier_size as usize].to_vec();
            assert_eq!(bytes(&of_module), bytes(&of_words));
            bytes(&of_module)
        });
        assert!(!first.is_empty() && first != second, "{first:?}");
        // A pipeline of an identifier alone has to be asked for by its module.
        let layout = Layout::new(&device);
        let sizes = Sizes::new([16, 16, 16, 64]);
        let info = sizes.info();
        let mut named = vk::PipelineShaderStageModuleIdentifierCreateInfoEXT::default().identifier(&first);
        let by_name = stage(vk::ShaderModule::null(), &info).push_next(&mut named);
        let create = vk::ComputePipelineCreateInfo::default()
            .flags(vk::PipelineCreateFlags::FAIL_ON_PIPELINE_COMPILE_REQUIRED)
            .stage(by_name)
            .layout(layout.layout);
        let cache = unsafe { device.create_pipeline_cache(&vk::PipelineCacheCreateInfo::default(), None) }.unwrap();
        let (_, result) = unsafe { device.create_compute_pipelines(cache, &[create], None) }.unwrap_err();
        assert_eq!(result, vk::Result::PIPELINE_COMPILE_REQUIRED);
        // A cache of the application's takes lowered pipelines.
        let module = module(&device, &all[0]).unwrap();
        let create = vk::ComputePipelineCreateInfo::default().stage(stage(module, &info)).layout(layout.layout);
        for _ in 0..2 {
            let pipelines = unsafe { device.create_compute_pipelines(cache, &[create], None) }.unwrap();
            unsafe { device.destroy_pipeline(pipelines[0], None) };
        }
        unsafe {
            assert!(!device.get_pipeline_cache_data(cache).unwrap().is_empty());
            device.destroy_pipeline_cache(cache, None);
            device.destroy_shader_module(module, None);
            layout.destroy(&device);
            device.destroy_device(None);
        }
    }
);

layer_test!(
    Lavapipe,
    [],
    fn graphics_stages_with_matrices_are_refused() {
        let app = Application::new();
        let device = app.device(true);
        let module = module(&device, &gemm()).unwrap();
        let sizes = Sizes::new([16, 16, 16, 8]);
        let info = sizes.info();
        let stages = [stage(module, &info).stage(vk::ShaderStageFlags::VERTEX)];
        let create = vk::GraphicsPipelineCreateInfo::default().stages(&stages);
        let result = unsafe { device.create_graphics_pipelines(vk::PipelineCache::null(), &[create], None) };
        let (pipelines, error) = result.unwrap_err();
        assert!(error == vk::Result::ERROR_UNKNOWN && pipelines[0].is_null());
    }
);

layer_test!(
    Debian12,
    [],
    fn applications_of_vulkan_1_0_see_the_driver() {
        let app = Application::with_version(vk::API_VERSION_1_0);
        assert!(app.extensions().iter().all(|(name, _)| !name.contains("cooperative_matrix")));
    }
);

/// Makes a pipeline of `gemm_simple` with matrices of a size and a workgroup for an application of Vulkan 1.1 that enables
/// VK_KHR_cooperative_matrix alone. Returns the log.
fn made_by_khr_alone(log: &str, size: u32, workgroup: u32) -> String {
    let _ = std::fs::remove_file(log);
    let app = Application::with_version(vk::API_VERSION_1_1);
    let listed = rows::<9>(&app, c"vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR");
    assert!(listed.contains(&[size, size, size, 0, 0, 1, 1, 0, 3]), "{listed:?}");
    let device = app.khr_device();
    // Vulkan 1.1 with VK_KHR_spirv_1_4.
    let mut words = gemm();
    words[1] = 0x0001_0400;
    make_on(&device, &words, [size, size, size, workgroup], 1);
    std::fs::read_to_string(log).unwrap()
}

const KHR_LOG: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/khr.log");

layer_test!(
    Debian12,
    [("COOPMAT_LOG", "info"), ("COOPMAT_LOG_FILE", KHR_LOG)],
    fn applications_of_vulkan_1_1_have_matrices() {
        let log = made_by_khr_alone(KHR_LOG, 16, 8);
        assert!(log.contains(": lowered to Scalar"), "{log}");
    }
);

const LISTED_LOG: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/listed.log");

// The driver's own list has 8 x 8 x 8 alone.
layer_test!(
    Lavapipe,
    [("COOPMAT_LOG", "info"), ("COOPMAT_LOG_FILE", LISTED_LOG)],
    fn sizes_that_the_layer_lists_are_lowered_where_the_extension_is_the_drivers() {
        let log = made_by_khr_alone(LISTED_LOG, 16, 8);
        assert!(log.contains(": lowered to Khr"), "{log}");
    }
);

const ALWAYS_LOG: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/always.log");

// The driver has the extension, and nothing is added to it.
layer_test!(
    Lavapipe,
    [
        ("COOPMAT_ALWAYS_LOWER", "1"),
        ("COOPMAT_EXTENSIONS", "khr"),
        ("COOPMAT_TARGET", "scalar"),
        ("COOPMAT_LOG", "info"),
        ("COOPMAT_LOG_FILE", ALWAYS_LOG),
    ],
    fn what_the_driver_runs_is_lowered_where_nothing_is_added() {
        let log = made_by_khr_alone(ALWAYS_LOG, 8, 8);
        assert!(log.contains(": added: nothing") && log.contains(": lowered to Scalar"), "{log}");
    }
);

const LEFT_LOG: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/left.log");

// Likewise, but with the application left to the driver.
layer_test!(
    Lavapipe,
    [("COOPMAT_EXTENSIONS", "khr"), ("COOPMAT_LOG", "debug"), ("COOPMAT_LOG_FILE", LEFT_LOG)],
    fn applications_are_left_alone_where_nothing_is_added() {
        let log = made_by_khr_alone(LEFT_LOG, 8, 8);
        assert!(
            log.contains(": added: nothing") && log.contains("left as it is") && !log.contains("pipeline"),
            "{log}"
        );
    }
);

const SPLIT_LOG: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/split.log");

// The driver's matrices are 16 x 16 x 16.
layer_test!(
    Navi31,
    [("COOPMAT_LOG", "info"), ("COOPMAT_LOG_FILE", SPLIT_LOG)],
    fn the_compiler_of_another_gpu_takes_what_is_lowered_to_its_matrices() {
        let _ = std::fs::remove_file(SPLIT_LOG);
        make_on(&Application::new().device(true), &gemm(), [32, 32, 32, 64], 1);
        let log = std::fs::read_to_string(SPLIT_LOG).unwrap();
        assert!(log.contains("NAVI31") && log.contains(": lowered to Khr"), "{log}");
    }
);

const SCALAR_LOG: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/compiled-scalar.log");

layer_test!(
    Navi31,
    [
        ("COOPMAT_ALWAYS_LOWER", "1"),
        ("COOPMAT_EXTENSIONS", "khr"),
        ("COOPMAT_TARGET", "scalar"),
        ("COOPMAT_LOG", "info"),
        ("COOPMAT_LOG_FILE", SCALAR_LOG),
    ],
    fn extensions_that_name_pipelines_by_modules_are_hidden_where_modules_may_be_lowered() {
        let log = made_by_khr_alone(SCALAR_LOG, 16, 64);
        assert!(log.contains(": added: nothing") && log.contains(": lowered to Scalar"), "{log}");
        assert!(Application::new().extensions().iter().all(|(name, _)| name != "VK_KHR_pipeline_binary"));
    }
);

layer_test!(
    Navi31,
    [("COOPMAT_EXTENSIONS", "khr")],
    fn extensions_that_name_pipelines_by_modules_are_the_drivers_where_nothing_is_lowered() {
        assert!(Application::new().extensions().iter().any(|(name, _)| name == "VK_KHR_pipeline_binary"));
    }
);

/// Makes a pipeline of `gemm_simple` on a device of its own, with matrices of a size, `count` times.
fn make(app: &Application, size: u32, count: usize) {
    make_on(&app.device(true), &gemm(), [size, size, size, 8], count);
}

/// Makes a pipeline of words with these constants, `count` times, and destroys the device.
fn make_on(device: &ash::Device, words: &[u32], sizes: [u32; 4], count: usize) {
    let layout = Layout::new(device);
    let module = module(device, words).unwrap();
    let sizes = Sizes::new(sizes);
    let info = sizes.info();
    for _ in 0..count {
        let create = vk::ComputePipelineCreateInfo::default().stage(stage(module, &info)).layout(layout.layout);
        let pipelines = unsafe { device.create_compute_pipelines(vk::PipelineCache::null(), &[create], None) }.unwrap();
        unsafe { device.destroy_pipeline(pipelines[0], None) };
    }
    unsafe {
        device.destroy_shader_module(module, None);
        layout.destroy(device);
        device.destroy_device(None);
    }
}

/// The microseconds behind a text in the lines of a log, the fewest first.
fn times(log: &str, behind: &str) -> Vec<u64> {
    let text = std::fs::read_to_string(log).unwrap();
    let time = |line: &str| line.split_once(behind)?.1.split_whitespace().next()?.parse().ok();
    let mut all: Vec<u64> = text.lines().filter_map(time).collect();
    all.sort_unstable();
    all
}

/// Scales a time limit in microseconds of an optimized build to this build.
fn at_most(micros: u64) -> u64 {
    if cfg!(debug_assertions) { micros * 20 } else { micros }
}

const NATIVE_LOG: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/native.log");

layer_test!(
    Lavapipe,
    [("COOPMAT_LOG", "debug"), ("COOPMAT_LOG_FILE", NATIVE_LOG)],
    fn a_pipeline_that_needs_nothing_costs_next_to_nothing_again() {
        let _ = std::fs::remove_file(NATIVE_LOG);
        let app = Application::new();
        make(&app, 8, 21);
        let times = times(NATIVE_LOG, "left as it is; from memory in ");
        assert_eq!(times.len(), 20, "{times:?}");
        eprintln!("native, known: {} us at the median, {} at most", times[10], times[19]);
        assert!(times[10] <= at_most(50), "{times:?}");
    }
);

const CACHE: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/layer-cache");
const CACHE_LOG: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/layer-cache.log");

layer_test!(
    Debian12,
    [("COOPMAT_LOG", "info"), ("COOPMAT_LOG_FILE", CACHE_LOG), ("COOPMAT_CACHE_DIR", CACHE), ("COOPMAT_CACHE_MB", "1")],
    fn what_was_lowered_once_is_found_again() {
        let _ = (std::fs::remove_dir_all(CACHE), std::fs::remove_file(CACHE_LOG));
        let app = Application::new();
        for _ in 0..11 {
            make(&app, 16, 2);
        }
        let (files, memory) = (times(CACHE_LOG, "; from the cache in "), times(CACHE_LOG, "; from memory in "));
        assert_eq!((files.len(), memory.len()), (10, 11), "{files:?} {memory:?}");
        eprintln!("from files: {} us at the median; from memory: {} us", files[5], memory[5]);
        assert!(files[5] <= at_most(200) && memory[5] <= at_most(50), "{files:?} {memory:?}");
        // A broken file is no answer, and is written again.
        let path = std::fs::read_dir(CACHE).unwrap().flatten().next().unwrap().path();
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[40] ^= 1;
        std::fs::write(&path, bytes).unwrap();
        make(&app, 16, 1);
        assert_eq!(times(CACHE_LOG, "; from the cache in ").len(), 10);
        make(&app, 16, 1);
        assert_eq!(times(CACHE_LOG, "; from the cache in ").len(), 11);
    }
);

const SETTINGS: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/layer-settings");

layer_test!(
    Debian12,
    [("VK_LAYER_SETTINGS_PATH", SETTINGS)],
    fn settings_come_from_a_file() {
        std::fs::create_dir_all(SETTINGS).unwrap();
        let file = std::path::Path::new(SETTINGS).join("vk_layer_settings.txt");
        std::fs::write(file, "coopmat_fallback.extensions = khr\n").unwrap();
        let extensions = Application::new().extensions();
        let has = |name: &str| extensions.iter().any(|(n, _)| n == name);
        assert!(has("VK_KHR_cooperative_matrix") && !has("VK_NV_cooperative_matrix2"));
    }
);

const IMPLICIT: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/implicit");

/// Puts the manifest where loaders look for layers that are switched on by a variable.
fn install_as_implicit() {
    // Drivers' wrappers keep the machine's own implicit layers out. This process has one thread that looks.
    unsafe { std::env::remove_var("VK_LOADER_LAYERS_DISABLE") };
    let folder = std::path::Path::new(IMPLICIT).join("vulkan/implicit_layer.d");
    std::fs::create_dir_all(&folder).unwrap();
    let name = "VkLayer_COOPMAT_fallback.json";
    // Both tests do this: what is there is replaced at once.
    let aside = folder.join(format!("{}.part", std::process::id()));
    std::fs::copy(support::manifest().join(name), &aside).unwrap();
    std::fs::rename(aside, folder.join(name)).unwrap();
}

layer_test!(
    Debian12,
    [("VK_INSTANCE_LAYERS", ""), ("COOP_LAYER_PATH", ""), ("XDG_DATA_HOME", IMPLICIT), ("COOPMAT_FALLBACK", "1")],
    fn a_variable_switches_the_layer_on() {
        install_as_implicit();
        assert!(Application::new().extensions().iter().any(|(name, _)| name == "VK_NV_cooperative_matrix2"));
    }
);

layer_test!(
    Debian12,
    [("VK_INSTANCE_LAYERS", ""), ("COOP_LAYER_PATH", ""), ("XDG_DATA_HOME", IMPLICIT)],
    fn without_the_variable_it_stays_off() {
        install_as_implicit();
        assert!(Application::new().extensions().iter().all(|(name, _)| name != "VK_NV_cooperative_matrix2"));
    }
);
