//! Every kernel of testdata through the layer, run as if the device had its matrices, against what its case expects.

mod support;

use coop_exec::testing::{Kernel, kernels, run};
use coop_exec::{Case, Error, Executor, RunOptions, Vulkan};
use std::path::Path;

/// The outcomes of the kernels.
#[derive(Default)]
struct Tally {
    right: Vec<String>,
    wrong: Vec<String>,
    /// The device as the layer shows it lacks something.
    unsupported: Vec<String>,
    /// The layer refuses the pipeline.
    refused: Vec<String>,
}

fn run_all() -> Tally {
    run_some(|_| true)
}

fn run_some(chosen: impl Fn(&Kernel) -> bool) -> Tally {
    let vulkan = Vulkan::open(true).unwrap_or_else(|error| panic!("{error}"));
    let device = vulkan.device(None).unwrap_or_else(|error| panic!("{error}"));
    let mut tally = Tally::default();
    for kernel in kernels().into_iter().filter(chosen) {
        let case = kernel.case();
        match run(&device, &kernel.words(), &case) {
            Ok(outcome) => {
                let said = outcome.messages.iter().chain(&outcome.faults).cloned();
                let differences = outcome.check(&case).unwrap_or_else(|error| panic!("{kernel}: {error}"));
                let wrong: Vec<String> = said.chain(differences.iter().map(ToString::to_string)).collect();
                match wrong.as_slice() {
                    [] => tally.right.push(kernel.to_string()),
                    wrong => tally.wrong.push(format!("{kernel}: {}", wrong.join("; "))),
                }
            }
            Err(error @ Error::Unsupported { .. }) => tally.unsupported.push(format!("{kernel}: {error}")),
            Err(error) => tally.refused.push(format!("{kernel}: {error}")),
        }
    }
    tally
}

/// All are right but those that `passes` refuses for now, by the names of their modules.
fn check(tally: &Tally, refused: &[&str]) {
    assert!(tally.wrong.is_empty(), "{:#?}", tally.wrong);
    assert!(tally.unsupported.is_empty(), "{:#?}", tally.unsupported);
    let of = |line: &String| line.split(".spv").next().unwrap_or_default().to_owned();
    let names: Vec<String> = tally.refused.iter().map(of).collect();
    assert_eq!(names, refused, "{:#?}", tally.refused);
    assert!(tally.right.len() >= 30, "{:#?}", tally.right);
}

layer_test!(
    Debian12,
    [("COOPMAT_EXTENSIONS", "all")],
    fn kernels_run_on_a_device_without_matrices() {
        check(&run_all(), &[]);
    }
);

// The validation layer is below: it sees what the driver gets.
layer_test!(
    Lavapipe,
    [("COOPMAT_EXTENSIONS", "all")],
    fn kernels_run_on_small_matrices() {
        check(&run_all(), &[]);
    }
);

layer_test!(
    Lavapipe,
    [("COOPMAT_ALWAYS_LOWER", "1"), ("COOPMAT_TARGET", "scalar")],
    fn kernels_run_without_matrices() {
        let tally = run_all();
        assert!(tally.wrong.is_empty(), "{:#?}", tally.wrong);
        assert!(tally.right.len() >= 25, "{:#?}", tally.right);
    }
);

const ALWAYS_LOG: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/kernels-always.log");

// Nothing is added: the driver has VK_KHR_cooperative_matrix.
layer_test!(
    Lavapipe,
    [
        ("COOPMAT_ALWAYS_LOWER", "1"),
        ("COOPMAT_EXTENSIONS", "khr"),
        ("COOPMAT_TARGET", "scalar"),
        ("COOPMAT_LOG", "info"),
        ("COOPMAT_LOG_FILE", ALWAYS_LOG),
    ],
    fn kernels_run_without_matrices_where_nothing_is_added() {
        let _ = std::fs::remove_file(ALWAYS_LOG);
        let tally = run_some(|kernel| kernel.module.starts_with("gemm_"));
        assert!(tally.wrong.is_empty() && tally.refused.is_empty(), "{:#?} {:#?}", tally.wrong, tally.refused);
        let log = std::fs::read_to_string(ALWAYS_LOG).unwrap();
        let lowered = log.matches(": lowered to Scalar").count();
        assert!(lowered >= 5 && tally.right.len() == lowered, "{:#?}\n{log}", tally.right);
    }
);

// The validation layer is above: it sees the application, with what the layer adds.
layer_test!(
    Lavapipe,
    [("VK_INSTANCE_LAYERS", "VK_LAYER_KHRONOS_validation:VK_LAYER_COOPMAT_fallback")],
    fn applications_are_valid_with_what_is_added() {
        let tally = run_all();
        // One uses saturating products, which no list promises.
        let others = |line: &&String| !line.starts_with("gemm_i8_sat.spv");
        assert!(!tally.wrong.iter().any(|line| others(&line)), "{:#?}", tally.wrong);
        assert!(tally.right.len() >= 25, "{:#?}", tally.right);
    }
);

/// Loads 8 x 8 elements of f32 and stores them elsewhere.
const COPY: &str = "; Version: 1.6
OpCapability Shader
OpCapability VulkanMemoryModel
OpCapability CooperativeMatrixKHR
OpExtension \"SPV_KHR_cooperative_matrix\"
OpMemoryModel Logical Vulkan
OpEntryPoint GLCompute %main \"main\" %from %to
OpExecutionMode %main LocalSize 8 1 1
OpDecorate %array ArrayStride 4
OpDecorate %block Block
OpMemberDecorate %block 0 Offset 0
OpDecorate %from DescriptorSet 0
OpDecorate %from Binding 0
OpDecorate %to DescriptorSet 0
OpDecorate %to Binding 1
%void = OpTypeVoid
%fn = OpTypeFunction %void
%u32 = OpTypeInt 32 0
%f32 = OpTypeFloat 32
%n0 = OpConstant %u32 0
%n2 = OpConstant %u32 2
%n3 = OpConstant %u32 3
%n8 = OpConstant %u32 8
%array = OpTypeRuntimeArray %f32
%block = OpTypeStruct %array
%to_block = OpTypePointer StorageBuffer %block
%to_f32 = OpTypePointer StorageBuffer %f32
%from = OpVariable %to_block StorageBuffer
%to = OpVariable %to_block StorageBuffer
%matrix = OpTypeCooperativeMatrixKHR %f32 %n3 %n8 %n8 %n2
%main = OpFunction %void None %fn
%entry = OpLabel
%a = OpAccessChain %to_f32 %from %n0 %n0
%d = OpAccessChain %to_f32 %to %n0 %n0
%loaded = OpCooperativeMatrixLoadKHR %matrix %a %n0 %n8
OpCooperativeMatrixStoreKHR %d %loaded %n0 %n8
OpReturn
OpFunctionEnd
";

// The device enables robust buffer access: what is behind the end of a buffer reads as zero, and is not written.
layer_test!(
    Debian12,
    [],
    fn robust_devices_keep_lowered_code_inside_of_buffers() {
        let vulkan = Vulkan::open(true).unwrap_or_else(|error| panic!("{error}"));
        let device = vulkan.device(None).unwrap_or_else(|error| panic!("{error}"));
        let words = coop_ir::binary::write_words(&coop_ir::text::parse(COPY).unwrap());
        for (from, to) in [(64, 64), (37, 64), (64, 21), (5, 3)] {
            let case = format!(
                "workgroups = [1, 1, 1]\n[[buffer]]\nname = 'A'\nbinding = 0\ntype = 'f32'\ncount = {from}\nfill = 'position'\n\
                 [[buffer]]\nname = 'D'\nbinding = 1\ntype = 'f32'\ncount = {to}\nfill = {{ constant = 77 }}\n"
            );
            let case = Case::parse(&case, Path::new("")).unwrap_or_else(|error| panic!("{error}"));
            let options = RunOptions { robust: true, ..RunOptions::default() };
            let outcome = device.run(&words, &case, &options).unwrap_or_else(|error| panic!("{error}"));
            let source = case.contents(0, &|_| 0).expect("a fill");
            let wanted = |at: usize| source.get(at * 4..at * 4 + 4).unwrap_or(&[0; 4]).to_vec();
            let sink = outcome.buffer("D").expect("the sink");
            let wrong = sink.chunks(4).enumerate().find(|(at, element)| *element != wanted(*at).as_slice());
            assert_eq!((wrong, outcome.messages.len()), (None, 0), "{from} to {to}: {:?}", outcome.messages);
        }
    }
);
