//! Robust buffer access: what is loaded from behind a buffer, and stored there, by matrices and by what they are lowered to.

use coop_device::{Feature, Profile};
use coop_exec::vulkan::VulkanExecutor;
use coop_exec::{Case, Executor, RunOptions, vulkan_test};
use coop_ir::{Module, binary, text};
use coop_passes::{Options, Target, lower};
use std::path::Path;

/// The rows of a matrix, and its columns.
const LINES: u32 = 8;

/// A load of 8 x 8 elements and their store elsewhere.
fn copy(ty: &str, bits: u32) -> Module {
    let source = format!(
        "; Version: 1.6\nOpCapability Shader\nOpCapability VulkanMemoryModel\nOpCapability CooperativeMatrixKHR\n\
         OpCapability Float16\nOpCapability StorageBuffer16BitAccess\n\
         OpExtension \"SPV_KHR_cooperative_matrix\"\nOpMemoryModel Logical Vulkan\n\
         OpEntryPoint GLCompute %main \"main\" %from %to\nOpExecutionMode %main LocalSize 8 1 1\n\
         OpDecorate %array ArrayStride {}\nOpDecorate %block Block\nOpMemberDecorate %block 0 Offset 0\n\
         OpDecorate %from DescriptorSet 0\nOpDecorate %from Binding 0\nOpDecorate %to DescriptorSet 0\nOpDecorate %to Binding 1\n\
         %void = OpTypeVoid\n%fn = OpTypeFunction %void\n%u32 = OpTypeInt 32 0\n%ty = OpTypeFloat {bits}\n\
         %n0 = OpConstant %u32 0\n%n2 = OpConstant %u32 2\n%n3 = OpConstant %u32 3\n%n8 = OpConstant %u32 {LINES}\n\
         %array = OpTypeRuntimeArray %ty\n%block = OpTypeStruct %array\n%to_block = OpTypePointer StorageBuffer %block\n\
         %to_ty = OpTypePointer StorageBuffer %ty\n%from = OpVariable %to_block StorageBuffer\n\
         %to = OpVariable %to_block StorageBuffer\n%matrix = OpTypeCooperativeMatrixKHR %ty %n3 %n8 %n8 %n2\n\
         %main = OpFunction %void None %fn\n%entry = OpLabel\n%a = OpAccessChain %to_ty %from %n0 %n0\n\
         %d = OpAccessChain %to_ty %to %n0 %n0\n%loaded = OpCooperativeMatrixLoadKHR %matrix %a %n0 %n8\n\
         OpCooperativeMatrixStoreKHR %d %loaded %n0 %n8\nOpReturn\nOpFunctionEnd\n",
        bits / 8
    );
    text::parse(&source).unwrap_or_else(|e| panic!("{ty}: {e}"))
}

/// A load of 16 x 16 elements of a tensor and their store elsewhere: a vector of 16 bytes at a time.
fn tensor() -> Module {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata/nv2/unaligned.f16.spv");
    binary::read(&std::fs::read(path).expect("a module")).expect("a module")
}

/// The elements of two buffers, of which the matrix may have more. `more`: other lines of the case.
fn case(ty: &str, (from, to): (u32, u32), more: &str) -> Case {
    let buffer = |name: &str, binding: u32, count: u32, fill: &str| {
        format!("[[buffer]]\nname = '{name}'\nbinding = {binding}\ntype = '{ty}'\ncount = {count}\nfill = {fill}\n")
    };
    let text = format!(
        "workgroups = [1, 1, 1]\nsubgroup-size = 8\nfull-subgroups = true\n{more}{}{}",
        buffer("A", 0, from, "'position'"),
        buffer("D", 1, to, "{ constant = 77 }")
    );
    Case::parse(&text, Path::new("")).unwrap_or_else(|e| panic!("{e}"))
}

/// Runs words with buffers of these elements, and returns the sink and the complaints.
fn run(device: &VulkanExecutor<'_>, words: &[u32], case: &Case) -> (Vec<u8>, Vec<String>) {
    let options = RunOptions { robust: true, ..RunOptions::default() };
    let outcome = device.run(words, case, &options).unwrap_or_else(|e| panic!("{e}"));
    let complaints = outcome.messages.iter().chain(&outcome.faults).cloned().collect();
    (outcome.buffer("D").expect("the sink").to_vec(), complaints)
}

fn lowered(module: &Module, target: Target, profile: &Profile, case: &Case) -> Vec<u32> {
    let mut options = Options::new(target);
    options.spec = case.specialization().expect("values");
    (options.profile, options.subgroup_size) = (Some(profile), Some(8));
    binary::write_words(&lower(module, &options).unwrap_or_else(|e| panic!("{e}")).module)
}

/// Runs words, and describes what is not as if each element had been copied alone: those behind
/// the end are zeros, or stay away. Those that share a word with the end of the buffer may count as behind it: lowered code loads and stores
/// words of several elements, and a word that is in part outside is outside.
fn wrong(device: &VulkanExecutor<'_>, what: &str, words: &[u32], case: &Case, bytes: usize) -> Vec<String> {
    let (sink, mut wrong) = run(device, words, case);
    let [source, initial] = [0, 1].map(|n| case.contents(n, &|_| 0).expect("a fill"));
    let untouched = &initial[..bytes];
    for (at, element) in sink.chunks(bytes).enumerate() {
        let expected = source.get(at * bytes..(at + 1) * bytes).map_or_else(|| vec![0; bytes], <[u8]>::to_vec);
        let ends = |contents: &[u8]| !contents.len().is_multiple_of(4) && at * bytes >= contents.len() / 4 * 4;
        let may_be_lost = !what.ends_with("as it is")
            && (ends(&source) && element.iter().all(|byte| *byte == 0) || ends(&sink) && element == untouched);
        if element != expected && !may_be_lost {
            wrong.push(format!("element {at} of {} is {element:?}, not {expected:?}", sink.len() / bytes));
        }
    }
    wrong.iter().map(|w| format!("{what} from {} elements: {w}", source.len() / bytes)).collect()
}

/// The elements that a buffer lacks: none, some lines, part of a line, part of a vector.
const LACKING: [u32; 7] = [0, 1, 16, 20, 22, 27, 56];

fn on_device(device: &VulkanExecutor<'_>, targets: &[Target]) {
    let mut all = Vec::new();
    let push = "spec = { 0 = 8 }\npush = [{ values = [0, 0, 16, 16] }]\n";
    for (name, module, ty, elements, more) in [
        ("f32", copy("f32", 32), "f32", 64, ""),
        ("f16", copy("f16", 16), "f16", 64, ""),
        ("tensor", tensor(), "f16", 256, push),
    ] {
        let bytes = if ty == "f32" { 4 } else { 2 };
        let mut ways: Vec<(String, Vec<u32>)> = Vec::new();
        let whole = case(ty, (elements, elements), more);
        for target in targets {
            ways.push((format!("{name} to {target}"), lowered(&module, *target, device.profile(), &whole)));
        }
        if device.profile().has(Feature::CooperativeMatrix) && name != "tensor" {
            ways.push((format!("{name} as it is"), binary::write_words(&module)));
        }
        for (what, words) in ways {
            for lacks in LACKING {
                for counts in [(elements - lacks, elements), (elements, elements - lacks)] {
                    all.extend(wrong(device, &what, &words, &case(ty, counts, more), bytes));
                }
            }
        }
    }
    assert!(all.is_empty(), "{}", all.join("\n"));
}

vulkan_test!(
    Lavapipe,
    fn nothing_is_loaded_from_behind_a_buffer_on_lavapipe(device) {
        on_device(device, &[Target::Scalar, Target::Khr]);
    }
);

vulkan_test!(
    Debian12,
    fn nothing_is_loaded_from_behind_a_buffer_on_debian_12(device) {
        on_device(device, &[Target::Scalar]);
    }
);
