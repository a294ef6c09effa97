//! Every kernel, and llama.cpp's small cases, on the weakest device there is a profile of: SwiftShader, with subgroups of 4 and
//! without any component type. By its profile in the interpreter, and on SwiftShader itself.

use coop_exec::interp::Interpreted;
use coop_exec::testing::{case, kernels, llama_modules, run, words, wrong};
use coop_exec::vulkan::VulkanExecutor;
use coop_exec::{Case, Executor, RunOptions, vulkan_test};
use coopmat::{Device, Lowered, Outcome, PipelineOptions, Prepared};

/// A small case of a module of llama.cpp's.
const LLAMA: [&str; 1] = ["exec/tests/interp/llama/matmul_q4_0_f16_cm2"];

/// More of them: blocks of other formats, bf16, sums in f16, one matrix of many for each row, attention, convolutions.
const MORE_LLAMA: [&str; 12] = [
    "testdata/llama/cm2/matmul_f16_cm2",
    "testdata/llama/cm2/matmul_f16_cm2.unaligned",
    "testdata/llama/cm2/matmul_f16_f16acc_cm2",
    "testdata/llama/cm2/matmul_bf16_cm2",
    "testdata/llama/cm2/matmul_q8_0_f16_cm2",
    "testdata/llama/cm2/matmul_q6_k_f16_cm2",
    "testdata/llama/cm2/matmul_iq4_xs_f16_cm2",
    "testdata/llama/cm2/matmul_id_subgroup_f16_cm2",
    "testdata/llama/cm2/flash_attn_f32_f16_cm2",
    "testdata/llama/cm2/flash_attn_f32_f16_cm2.q8-0",
    "testdata/llama/cm2/conv2d_f16_f32_cm2",
    "testdata/llama/cm2/conv_transpose_2d_f32_cm2",
];

/// Modules that wait for subgroups of 8 in branches that not all subgroups take, which nothing emulates.
const OF_SUBGROUPS: [&str; 3] = ["matmul_f16_cm1", "matmul_q4_0_f32_cm1", "matmul_q8_0_f32_cm1"];

type Executed = Result<coop_exec::Outcome, coop_exec::Error>;

/// Lowers a module for SwiftShader with the values of a case; `size` is that of the subgroups that the module is made for.
fn lowered(words: &[u32], case: &Case, size: u32) -> Result<Lowered, String> {
    let device = Device::builtin("google-swiftshader").expect("a profile");
    let prepared = Prepared::read(words).map_err(|e| e.to_string())?;
    let mut options = PipelineOptions::default();
    let spec = case.specialization().map_err(|e| e.to_string())?;
    for (id, value) in spec.iter() {
        let coop_ir::constant::SpecValue::Int(value) = value else { continue };
        options.specialization.set_u32(id, value as u32);
    }
    options.required_subgroup_size = Some(size);
    match prepared.for_pipeline(&device, &options) {
        Outcome::Lowered(lowered) => Ok(*lowered),
        Outcome::Refused(r) => Err(r.message),
        Outcome::Native => Err("the device has no matrices".to_owned()),
    }
}

/// Runs every Nth kernel, which are made for subgroups of 8, that the device emulates.
fn kernels_run(every: usize, execute: &dyn Fn(&Lowered, &Case) -> Executed) {
    let (mut ran, mut slower) = (0, 0);
    for kernel in kernels().into_iter().step_by(every) {
        let (what, case) = (kernel.to_string(), kernel.case());
        let lowered = lowered(&kernel.words(), &case, 8).unwrap_or_else(|why| panic!("{what}: {why}"));
        let said = lowered.approximations.iter().any(|a| a.starts_with("slower by about "));
        assert!(said || lowered.approximations.is_empty(), "{what}: {:?}", lowered.approximations);
        slower += u32::from(said);
        let wrong = wrong(&what, execute(&lowered, &case), &case);
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        ran += 1;
    }
    assert_eq!(ran, 34_usize.div_ceil(every));
    assert!(slower > 0);
}

#[test]
fn kernels_on_a_device_without_component_types() {
    kernels_run(1, &|lowered, case| {
        let mut interpreter = Interpreted::default();
        interpreter.config.subgroup_size = 4;
        interpreter.run(&lowered.words, case, &RunOptions::default())
    });
}

fn on_device<'d>(device: &'d VulkanExecutor<'_>) -> impl Fn(&Lowered, &Case) -> Executed + 'd {
    |lowered, case| {
        let asked = &lowered.requirements;
        let (subgroup_size, full_subgroups) = (asked.subgroup_size, asked.full_subgroups);
        run(device, &lowered.words, &Case { subgroup_size, full_subgroups, ..case.clone() })
    }
}

vulkan_test!(
    SwiftShader,
    fn some_kernels_on_swiftshader(device) {
        kernels_run(7, &on_device(device));
    }
);

vulkan_test!(
    #[ignore = "scripts/test.sh long runs it: SwiftShader executes slowly"]
    SwiftShader,
    fn every_kernel_on_swiftshader(device) {
        kernels_run(1, &on_device(device));
    }
);

fn llama_cases(device: &VulkanExecutor<'_>, names: &[&str]) {
    let Some(folder) = llama_modules() else { return };
    let execute = on_device(device);
    let mut all = Vec::new();
    for name in names {
        let case = case(format!("{name}.toml"));
        let module = name.rsplit('/').next().and_then(|name| name.split('.').next()).unwrap_or(name);
        match lowered(&words(folder.join(format!("{module}.spv"))), &case, 8) {
            Ok(words) => all.extend(wrong(name, execute(&words, &case), &case)),
            Err(why) => all.push(format!("{name}: {why}")),
        }
    }
    assert!(all.is_empty(), "{}", all.join("\n"));
}

#[test]
fn subgroups_that_the_device_lacks_are_refused() {
    let Some(folder) = llama_modules() else { return };
    for name in OF_SUBGROUPS {
        let case = case(format!("testdata/llama/{name}.toml"));
        let why = lowered(&words(folder.join(format!("{name}.spv"))), &case, 8).expect_err("refused");
        assert_eq!(why, "google-swiftshader has no subgroups of 8 that a pipeline can require");
    }
}

vulkan_test!(
    SwiftShader,
    fn llama_cases_on_swiftshader(device) {
        llama_cases(device, &LLAMA);
    }
);

vulkan_test!(
    #[ignore = "scripts/test.sh long runs it: SwiftShader executes slowly"]
    SwiftShader,
    fn more_llama_cases_on_swiftshader(device) {
        llama_cases(device, &MORE_LLAMA);
    }
);
