//! The head of modules that compute `%r` of the type of buffer D or E from elements of the data buffers.

use super::proof_common::Pairs;

/// The head of the modules.
pub(crate) const HEAD: &str = "
    OpCapability Shader
    OpCapability Float16
    OpCapability Int8
    OpCapability Int16
    OpCapability BFloat16TypeKHR
    OpCapability StorageBuffer16BitAccess
    OpExtension \"SPV_KHR_16bit_storage\"
    OpExtension \"SPV_KHR_bfloat16\"
    %glsl = OpExtInstImport \"GLSL.std.450\"
    OpMemoryModel Logical GLSL450
    OpEntryPoint GLCompute %main \"main\"
    OpExecutionMode %main LocalSize 1 1 1
    OpDecorate %floats ArrayStride 4
    OpDecorate %uints ArrayStride 4
    OpDecorate %halves ArrayStride 2
    OpMemberDecorate %float_block 0 Offset 0
    OpMemberDecorate %uint_block 0 Offset 0
    OpMemberDecorate %half_block 0 Offset 0
    OpDecorate %float_block Block
    OpDecorate %uint_block Block
    OpDecorate %half_block Block
    OpDecorate %F DescriptorSet 0
    OpDecorate %F Binding 0
    OpDecorate %I DescriptorSet 0
    OpDecorate %I Binding 1
    OpDecorate %H DescriptorSet 0
    OpDecorate %H Binding 2
    OpDecorate %D DescriptorSet 0
    OpDecorate %D Binding 3
    OpDecorate %E DescriptorSet 0
    OpDecorate %E Binding 4
    %void = OpTypeVoid
    %fn = OpTypeFunction %void
    %bool = OpTypeBool
    %uint = OpTypeInt 32 0
    %byte = OpTypeInt 8 0
    %float = OpTypeFloat 32
    %half = OpTypeFloat 16
    %bfloat = OpTypeFloat 16 BFloat16KHR
    %short = OpTypeInt 16 0
    %half2 = OpTypeVector %half 2
    %float2 = OpTypeVector %float 2
    %byte4 = OpTypeVector %byte 4
    %n0 = OpConstant %uint 0
    %n1 = OpConstant %uint 1
    %n2 = OpConstant %uint 2
    %n3 = OpConstant %uint 3
    %n4 = OpConstant %uint 4
    %n8 = OpConstant %uint 8
    %n15 = OpConstant %uint 15
    %n16 = OpConstant %uint 16
    %n13 = OpConstant %uint 13
    %n64 = OpConstant %uint 64
    %n4095 = OpConstant %uint 4095
    %n32767 = OpConstant %uint 32767
    %n32768 = OpConstant %uint 32768
    %quiet = OpConstant %uint 4194304
    %infinity = OpConstant %uint 2139095040
    %upper = OpConstant %uint 4294901760
    %upper19 = OpConstant %uint 4294959104
    %n28 = OpConstant %uint 28
    %n240 = OpConstant %uint 240
    %n65535 = OpConstant %uint 65535
    %most = OpConstant %uint 2147483647
    %top = OpConstant %uint 2147483648
    %minus1 = OpConstant %uint 4294967295
    %zero = OpConstant %float 0
    %one = OpConstant %float 1
    %two = OpConstant %float 2
    %three = OpConstant %float 3
    %tenth = OpConstant %float 0.1
    %huge = OpConstant %float 2305843009213693952
    %floats = OpTypeRuntimeArray %float
    %uints = OpTypeRuntimeArray %uint
    %halves = OpTypeRuntimeArray %half
    %float_block = OpTypeStruct %floats
    %uint_block = OpTypeStruct %uints
    %half_block = OpTypeStruct %halves
    %p_float_block = OpTypePointer StorageBuffer %float_block
    %p_uint_block = OpTypePointer StorageBuffer %uint_block
    %p_half_block = OpTypePointer StorageBuffer %half_block
    %p_float = OpTypePointer StorageBuffer %float
    %p_uint = OpTypePointer StorageBuffer %uint
    %p_half = OpTypePointer StorageBuffer %half
    %F = OpVariable %p_float_block StorageBuffer
    %I = OpVariable %p_uint_block StorageBuffer
    %H = OpVariable %p_half_block StorageBuffer
    %D = OpVariable %p_float_block StorageBuffer
    %E = OpVariable %p_uint_block StorageBuffer
    %main = OpFunction %void None %fn
    %entry = OpLabel
    %pa = OpAccessChain %p_float %F %n0 %n0
    %pb = OpAccessChain %p_float %F %n0 %n1
    %pc = OpAccessChain %p_float %F %n0 %n2
    %pi = OpAccessChain %p_uint %I %n0 %n0
    %pj = OpAccessChain %p_uint %I %n0 %n1
    %pk = OpAccessChain %p_uint %I %n0 %n2
    %pd = OpAccessChain %p_float %D %n0 %n0
    %pe = OpAccessChain %p_uint %E %n0 %n0
    %ph0 = OpAccessChain %p_half %H %n0 %n0
    %ph1 = OpAccessChain %p_half %H %n0 %n1
    %a = OpLoad %float %pa
    %b = OpLoad %float %pb
    %c = OpLoad %float %pc
    %i = OpLoad %uint %pi
    %j = OpLoad %uint %pj
    %k = OpLoad %uint %pk
";

/// Their case.
pub(crate) const CASE: &str = "
workgroups = [1, 1, 1]
[[buffer]]
name = \"F\"
binding = 0
type = \"f32\"
count = 8
fill = { values = [1.5, -2.25, 3.125, 4.0, 5.0, 6.0, 7.0, 8.0] }
[[buffer]]
name = \"I\"
binding = 1
type = \"u32\"
count = 8
fill = { values = [3, 70000, 5, 6, 7, 8, 9, 10] }
[[buffer]]
name = \"H\"
binding = 2
type = \"f16\"
count = 8
fill = { values = [1.5, -2.25, 3.125, 4.0, 5.0, 6.0, 7.0, 8.0] }
[[buffer]]
name = \"D\"
binding = 3
type = \"f32\"
count = 8
fill = { constant = 99 }
[[buffer]]
name = \"E\"
binding = 4
type = \"u32\"
count = 8
fill = { constant = 99 }
";

/// Pairs of such modules.
pub(crate) const PAIRS: Pairs = Pairs { head: HEAD, case: CASE, fixed: &[] };
