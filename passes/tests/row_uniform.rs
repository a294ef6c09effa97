//! Products whose columns are all the same are made once for each row of tiles.

use coop_device::Profile;
use coop_ir::{Op, text};
use coop_passes::{Options, Target, lower};

/// A shader that multiplies 16 x 32 by 32 x 64, with these definitions of B and of C.
fn products(b: &str, c: &str) -> usize {
    let source = format!(
        "OpCapability Shader
         OpCapability Float16
         OpCapability VulkanMemoryModel
         OpCapability CooperativeMatrixKHR
         OpExtension \"SPV_KHR_cooperative_matrix\"
         OpMemoryModel Logical Vulkan
         OpEntryPoint GLCompute %main \"main\" %out
         OpExecutionMode %main LocalSize 32 1 1
         OpDecorate %out DescriptorSet 0
         OpDecorate %out Binding 0
         OpDecorate %block Block
         OpMemberDecorate %block 0 Offset 0
         OpDecorate %floats ArrayStride 4
         %void = OpTypeVoid
         %nothing = OpTypeFunction %void
         %uint = OpTypeInt 32 0
         %half = OpTypeFloat 16
         %float = OpTypeFloat 32
         %c0 = OpConstant %uint 0
         %c1 = OpConstant %uint 1
         %c2 = OpConstant %uint 2
         %c3 = OpConstant %uint 3
         %c16 = OpConstant %uint 16
         %c32 = OpConstant %uint 32
         %c64 = OpConstant %uint 64
         %one = OpConstant %half 0x1p+0
         %floats = OpTypeRuntimeArray %float
         %block = OpTypeStruct %floats
         %ptr_block = OpTypePointer StorageBuffer %block
         %ptr_float = OpTypePointer StorageBuffer %float
         %out = OpVariable %ptr_block StorageBuffer
         %a_type = OpTypeCooperativeMatrixKHR %half %c3 %c16 %c32 %c0
         %b_type = OpTypeCooperativeMatrixKHR %half %c3 %c32 %c64 %c1
         %sums = OpTypeCooperativeMatrixKHR %float %c3 %c16 %c64 %c2
         %ones = OpConstantComposite %b_type %one
         %b_null = OpConstantNull %b_type
         %null = OpConstantNull %sums
         %main = OpFunction %void None %nothing
         %entry = OpLabel
         %at = OpAccessChain %ptr_float %out %c0 %c0
         %a = OpCooperativeMatrixLoadKHR %a_type %at %c0 %c64
         %b_loaded = OpCooperativeMatrixLoadKHR %b_type %at %c0 %c64
         %c_loaded = OpCooperativeMatrixLoadKHR %sums %at %c0 %c64
         %sum = OpCooperativeMatrixMulAddKHR %sums %a {b} {c}
         OpCooperativeMatrixStoreKHR %at %sum %c0 %c64
         OpReturn
         OpFunctionEnd"
    );
    let module = text::parse(&source).unwrap_or_else(|e| panic!("{e}\n{source}"));
    let profile = Profile::builtin("nvidia-h100").expect("a profile");
    let options =
        Options { subgroup_size: Some(32), verify_each: true, profile: Some(&profile), ..Options::new(Target::Khr) };
    let lowered = lower(&module, &options).unwrap_or_else(|e| panic!("{e}\n{source}")).module;
    lowered.all().filter(|r| lowered.inst(*r).op == Op::CooperativeMatrixMulAddKHR).count()
}

#[test]
fn a_product_with_ones_is_made_once_for_each_row() {
    // Two steps of 16 for each of four tiles.
    assert_eq!(products("%b_loaded", "%null"), 8);
    assert_eq!(products("%ones", "%null"), 2);
    assert_eq!(products("%b_null", "%null"), 2);
    // What is added is not the same in each column.
    assert_eq!(products("%ones", "%c_loaded"), 8);
}
