//! Capabilities, types, constants and variables.

use std::fmt::Write;

pub(super) fn header(out: &mut String, size: [u32; 3], mode: &str, kernel: bool, warp: Option<u32>) {
    out.push_str(if kernel {
        "OpCapability Kernel\nOpCapability Addresses\nOpCapability Matrix\n"
    } else {
        "OpCapability Shader\nOpCapability VulkanMemoryModel\n"
    });
    let all = warp.is_some();
    if all {
        out.push_str("OpCapability Int64\n");
    }
    if all && !kernel {
        out.push_str("OpCapability TensorAddressingNV\nOpCapability CooperativeMatrixTensorAddressingNV\n");
    }
    out.push_str(
        "OpCapability CooperativeMatrixKHR\nOpCapability GroupNonUniform\nOpCapability GroupNonUniformVote\n\
         OpCapability GroupNonUniformArithmetic\nOpCapability GroupNonUniformBallot\n\
         OpCapability GroupNonUniformShuffle\nOpExtension \"SPV_KHR_cooperative_matrix\"\n",
    );
    match mode {
        "" => {}
        super::MAXIMAL => out.push_str("OpExtension \"SPV_KHR_maximal_reconvergence\"\n"),
        _ => out.push_str("OpExtension \"SPV_KHR_subgroup_uniform_control_flow\"\n"),
    }
    if all && !kernel {
        out.push_str("OpExtension \"SPV_NV_cooperative_matrix2\"\nOpExtension \"SPV_NV_tensor_addressing\"\n");
    }
    if all {
        let _ = writeln!(out, "%ext = OpExtInstImport \"{}\"", if kernel { "OpenCL.std" } else { "GLSL.std.450" });
    }
    let more = if all { " %subgroup_size %num_workgroups" } else { "" };
    let built_ins = format!("%local_index %lane %subgroup %subgroups %local_id %global_id %workgroup %shared{more}");
    let _ = if kernel {
        writeln!(out, "OpMemoryModel Physical64 OpenCL\nOpEntryPoint Kernel %main \"main\" {built_ins}")
    } else {
        writeln!(
            out,
            "OpMemoryModel Logical Vulkan\nOpEntryPoint GLCompute %main \"main\" {built_ins} %in %out %floats %push \
             %private %privates"
        )
    };
    let [x, y, z] = size;
    let _ = writeln!(out, "OpExecutionMode %main LocalSize {x} {y} {z}");
    if !mode.is_empty() {
        let _ = writeln!(out, "OpExecutionMode %main {mode}");
    }
    let more: &[(&str, &str)] = &[("subgroup_size", "SubgroupSize"), ("num_workgroups", "NumWorkgroups")];
    for (name, built_in) in [
        ("local_index", "LocalInvocationIndex"),
        ("lane", "SubgroupLocalInvocationId"),
        ("subgroup", "SubgroupId"),
        ("subgroups", "NumSubgroups"),
        ("local_id", "LocalInvocationId"),
        ("global_id", "GlobalInvocationId"),
        ("workgroup", "WorkgroupId"),
    ]
    .iter()
    .chain(more.iter().filter(|_| all))
    {
        let _ = writeln!(out, "OpDecorate %{name} BuiltIn {built_in}");
    }
    if !kernel {
        decorations(out);
    }
    if all {
        out.push_str("OpDecorate %warp SpecId 0\n");
    }
    common(out);
    if let Some(warp) = warp {
        of_all(out, warp, kernel);
    }
    out.push_str(if kernel { OF_KERNELS } else { OF_SHADERS });
}

/// Writes the decorations of buffers and push constants.
fn decorations(out: &mut String) {
    for (i, (name, block)) in [("in", "uints_in"), ("out", "uints"), ("floats", "float_block")].iter().enumerate() {
        let _ = writeln!(out, "OpDecorate %{name} DescriptorSet 0\nOpDecorate %{name} Binding {i}");
        let _ = writeln!(out, "OpDecorate %{block} Block\nOpMemberDecorate %{block} 0 Offset 0");
    }
    out.push_str(
        "OpDecorate %in NonWritable\nOpDecorate %uint_array ArrayStride 4\nOpDecorate %float_array ArrayStride 4\n\
         OpDecorate %push_block Block\nOpMemberDecorate %push_block 0 Offset 0\nOpMemberDecorate %push_block 1 Offset 4\n\
         OpMemberDecorate %push_block 2 Offset 8\nOpMemberDecorate %push_block 3 Offset 12\n",
    );
}

/// Types, constants and variables of all modules.
fn common(out: &mut String) {
    out.push_str(
        "%void = OpTypeVoid\n%bool = OpTypeBool\n%uint = OpTypeInt 32 0\n%float = OpTypeFloat 32\n\
         %v3uint = OpTypeVector %uint 3\n%v4uint = OpTypeVector %uint 4\n",
    );
    for n in [0, 1, 2, 3, 4, 5, 7, 8, 15, 16, 32, 63, 64, 255, 264] {
        let _ = writeln!(out, "%c{n} = OpConstant %uint {n}");
    }
    out.push_str(
        "%one = OpConstant %float 1\n\
         %mat = OpTypeCooperativeMatrixKHR %float %c3 %c16 %c16 %c2\n\
         %wmat = OpTypeCooperativeMatrixKHR %float %c2 %c16 %c16 %c2\n\
         %mat_one = OpConstantComposite %mat %one\n%wmat_one = OpConstantComposite %wmat %one\n\
         %shared_array = OpTypeArray %uint %c64\n\
         %ptr_f_uint = OpTypePointer Function %uint\n%ptr_f_mat = OpTypePointer Function %mat\n\
         %ptr_f_wmat = OpTypePointer Function %wmat\n%ptr_in_uint = OpTypePointer Input %uint\n\
         %ptr_in_v3uint = OpTypePointer Input %v3uint\n%ptr_s_uint = OpTypePointer Workgroup %uint\n\
         %ptr_s_array = OpTypePointer Workgroup %shared_array\n%null_shared = OpConstantNull %shared_array\n\
         %shared = OpVariable %ptr_s_array Workgroup %null_shared\n\
         %fn_uint = OpTypeFunction %uint %uint %ptr_f_uint\n",
    );
    for name in ["local_index", "lane", "subgroup", "subgroups"] {
        let _ = writeln!(out, "%{name} = OpVariable %ptr_in_uint Input");
    }
    for name in ["local_id", "global_id", "workgroup"] {
        let _ = writeln!(out, "%{name} = OpVariable %ptr_in_v3uint Input");
    }
}

/// Writes the additional declarations of modules of [`Constructs::All`](super::Constructs).
fn of_all(out: &mut String, warp: u32, kernel: bool) {
    for n in [6, 31, 128, 200] {
        let _ = writeln!(out, "%c{n} = OpConstant %uint {n}");
    }
    out.push_str("%ulong = OpTypeInt 64 0\n%v2uint = OpTypeVector %uint 2\n");
    for n in [0, 2, 3, 8, 32] {
        let _ = writeln!(out, "%long{n} = OpConstant %ulong {n}");
    }
    let _ = writeln!(out, "%warp = OpSpecConstant %uint {warp}");
    out.push_str(
        "%zero = OpConstant %float 0\n%two = OpConstant %float 2\n%numbers_type = OpTypeArray %uint %c4\n\
         %numbers = OpConstantComposite %numbers_type %c0 %c16 %c32 %c3\n\
         %ptr_f_array = OpTypePointer Function %numbers_type\n%ptr_f_float = OpTypePointer Function %float\n\
         %subgroup_size = OpVariable %ptr_in_uint Input\n%num_workgroups = OpVariable %ptr_in_v3uint Input\n",
    );
    if !kernel {
        out.push_str("%layout = OpTypeTensorLayoutNV %c2 %c1\n");
    }
}

const OF_KERNELS: &str = "\
%ptr_b_uint = OpTypePointer CrossWorkgroup %uint
%ptr_b_float = OpTypePointer CrossWorkgroup %float
%fn_kernel = OpTypeFunction %void %ptr_b_uint %ptr_b_uint %ptr_b_float %uint %uint %uint %uint
";

const OF_SHADERS: &str = "\
%uint_array = OpTypeRuntimeArray %uint
%float_array = OpTypeRuntimeArray %float
%uints_in = OpTypeStruct %uint_array
%uints = OpTypeStruct %uint_array
%float_block = OpTypeStruct %float_array
%push_block = OpTypeStruct %uint %uint %uint %uint
%array4 = OpTypeArray %uint %c4
%ptr_p_uint = OpTypePointer Private %uint
%ptr_b_uint = OpTypePointer StorageBuffer %uint
%ptr_b_float = OpTypePointer StorageBuffer %float
%ptr_push_uint = OpTypePointer PushConstant %uint
%ptr_b_in = OpTypePointer StorageBuffer %uints_in
%ptr_b_uints = OpTypePointer StorageBuffer %uints
%ptr_b_floats = OpTypePointer StorageBuffer %float_block
%ptr_push = OpTypePointer PushConstant %push_block
%ptr_p_array = OpTypePointer Private %array4
%null4 = OpConstantNull %array4
%in = OpVariable %ptr_b_in StorageBuffer
%out = OpVariable %ptr_b_uints StorageBuffer
%floats = OpVariable %ptr_b_floats StorageBuffer
%push = OpVariable %ptr_push PushConstant
%private = OpVariable %ptr_p_uint Private %c0
%privates = OpVariable %ptr_p_array Private %null4
%fn_void = OpTypeFunction %void
";
