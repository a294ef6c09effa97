//! The other dialects of cooperative matrices on the interpreter: SPV_EXT_cooperative_matrix_maintenance1,
//! SPV_ARM_cooperative_matrix_layouts, SPV_QCOM_cooperative_matrix_conversion, SPV_INTEL_joint_matrix, and
//! SPV_NV_cooperative_matrix.

mod interp_common;

use coop_exec::interp::{Config, Placement};
use interp_common::*;

/// A shader of 32 invocations. `types` may use what is declared here.
fn shader(types: &str, body: &str) -> coop_ir::Module {
    let text = format!(
        r#"
        OpCapability Shader
        OpCapability CooperativeMatrixKHR
        %glsl = OpExtInstImport "GLSL.std.450"
        OpMemoryModel Logical Vulkan
        OpEntryPoint GLCompute %main "main" %in %out %lane_in
        OpExecutionMode %main LocalSize 32 1 1
        OpDecorate %lane_in BuiltIn LocalInvocationIndex
        OpDecorate %floats ArrayStride 4
        OpMemberDecorate %block 0 Offset 0
        OpDecorate %block Block
        OpDecorate %in DescriptorSet 0
        OpDecorate %in Binding 0
        OpDecorate %out DescriptorSet 0
        OpDecorate %out Binding 1
        OpDecorate %turned CooperativeMatrixTransposeEXT
        %void = OpTypeVoid
        %fn = OpTypeFunction %void
        %bool = OpTypeBool
        %uint = OpTypeInt 32 0
        %float = OpTypeFloat 32
        %half = OpTypeFloat 16
        %v2uint = OpTypeVector %uint 2
        %0 = OpConstant %uint 0
        %1 = OpConstant %uint 1
        %2 = OpConstant %uint 2
        %3 = OpConstant %uint 3
        %4 = OpConstant %uint 4
        %8 = OpConstant %uint 8
        %16 = OpConstant %uint 16
        %f0 = OpConstant %float 0
        %arm_rows = OpConstant %uint 4202
        %arm_columns = OpConstant %uint 4203
        %floats = OpTypeRuntimeArray %float
        %block = OpTypeStruct %floats
        %ptr_block = OpTypePointer StorageBuffer %block
        %ptr_float = OpTypePointer StorageBuffer %float
        %ptr_in = OpTypePointer Input %uint
        %in = OpVariable %ptr_block StorageBuffer
        %out = OpVariable %ptr_block StorageBuffer
        %lane_in = OpVariable %ptr_in Input
        {types}
        %main = OpFunction %void None %fn
        %entry = OpLabel
        {body}
        OpReturn
        OpFunctionEnd
        "#
    );
    let text: String = text.replace("%0 ", "%c0 ").replace("%0\n", "%c0\n");
    let text = [1, 2, 3, 4, 8, 16].into_iter().fold(text, |t, n| {
        t.replace(&format!("%{n} "), &format!("%c{n} ")).replace(&format!("%{n}\n"), &format!("%c{n}\n"))
    });
    coop_ir::text::parse(&text).unwrap_or_else(|e| panic!("{e}"))
}

fn configs() -> impl Iterator<Item = Config> {
    Placement::ALL.into_iter().map(|placement| Config { placement, ..Config::default() })
}

const ACC: &str = "
    %acc = OpTypeCooperativeMatrixKHR %float %3 %16 %8 %2
    %acc_t = OpTypeCooperativeMatrixKHR %float %3 %8 %16 %1
    %ptr_var = OpTypePointer Function %acc
    %ptr_elem = OpTypePointer Function %float
    ";

#[test]
fn coordinates_of_elements() {
    // Each element becomes 100 * row + column.
    let body = "
        %var = OpVariable %ptr_var Function
        %len = OpCooperativeMatrixLengthKHR %uint %acc
        OpBranch %head
        %head = OpLabel
        %i = OpPhi %uint %0 %entry %next %tail
        %m0 = OpLoad %acc %var
        %go = OpULessThan %bool %i %len
        OpLoopMerge %end %tail None
        OpBranchConditional %go %work %end
        %work = OpLabel
        %rc = OpCooperativeMatrixGetCoordinateEXT %v2uint %m0 %i
        %r = OpCompositeExtract %uint %rc 0
        %c = OpCompositeExtract %uint %rc 1
        %hundred = OpIMul %uint %r %c100
        %n = OpIAdd %uint %hundred %c
        %f = OpConvertUToF %float %n
        %e = OpAccessChain %ptr_elem %var %i
        OpStore %e %f
        OpBranch %tail
        %tail = OpLabel
        %next = OpIAdd %uint %i %1
        OpBranch %head
        %end = OpLabel
        %m = OpLoad %acc %var
        %to = OpAccessChain %ptr_float %out %0 %0
        OpCooperativeMatrixStoreKHR %to %m %0 %8
    ";
    let module = shader(&format!("{ACC} %c100 = OpConstant %uint 100"), body);
    for config in configs() {
        let out = run_clean(&module, &[], &[vec![0; 4], vec![0; 512]], config);
        assert_eq!(
            from_f32s(&out[1]),
            (0..128).map(|i| (100 * (i / 8) + i % 8) as f32).collect::<Vec<_>>(),
            "{config:?}"
        );
    }
}

#[test]
fn conversion_of_use_that_transposes() {
    let body = "
        %from = OpAccessChain %ptr_float %in %0 %0
        %m = OpCooperativeMatrixLoadKHR %acc %from %0 %8
        %turned = OpCooperativeMatrixConvertUseEXT %acc_t %m
        %to = OpAccessChain %ptr_float %out %0 %0
        OpCooperativeMatrixStoreKHR %to %turned %0 %16
    ";
    let module = shader(ACC, body);
    for config in configs() {
        let out = run_clean(&module, &[], &[f32s((0..128).map(|i| i as f32)), vec![0; 512]], config);
        assert_eq!(from_f32s(&out[1]), (0..128).map(|i| (i % 16 * 8 + i / 16) as f32).collect::<Vec<_>>());
    }
}

/// The byte of each element of a 16 x 8 matrix of f32 in ARM's blocks, found by walking memory.
fn arm_bytes(by_rows: bool, interleave: usize) -> Vec<usize> {
    let (rows, cols, width) = (16, 8, 4);
    let mut order = Vec::new();
    if by_rows {
        for br in 0..rows / 4 {
            order.extend((0..cols / width).map(|bc| (br, bc)));
        }
    } else {
        for bc in 0..cols / width {
            order.extend((0..rows / 4).map(|br| (br, bc)));
        }
    }
    let mut place = vec![0; rows * cols];
    let mut at = 0;
    for group in order.chunks(interleave) {
        // 4 bytes of each block of the group in turn: for f32, one element.
        for k in 0..16 {
            for (br, bc) in group {
                place[(br * 4 + k / 4) * cols + bc * width + k % 4] = at;
                at += 4;
            }
        }
    }
    place
}

#[test]
fn blocked_layouts_of_arm() {
    for (by_rows, layout) in [(true, "%arm_rows"), (false, "%arm_columns")] {
        for interleave in [1, 2] {
            let body = format!(
                "
                %from = OpAccessChain %ptr_float %in %0 %0
                %m = OpCooperativeMatrixLoadKHR %acc %from {layout} %{interleave}
                %to = OpAccessChain %ptr_float %out %0 %0
                OpCooperativeMatrixStoreKHR %to %m %0 %8
                "
            );
            let module = shader(ACC, &body);
            let place = arm_bytes(by_rows, interleave);
            for config in configs() {
                let out = run_clean(&module, &[], &[f32s((0..128).map(|i| i as f32)), vec![0; 512]], config);
                let wanted: Vec<f32> = place.iter().map(|b| (b / 4) as f32).collect();
                assert_eq!(from_f32s(&out[1]), wanted, "{layout} {interleave}");
            }
        }
    }
}

#[test]
fn rows_from_invocations_of_qcom() {
    // Invocation i gives row i, 8 numbers; 16 of 32 invocations have one.
    let types = format!("{ACC} %array = OpTypeArray %float %8");
    let elements: String = (0..8).map(|k| format!("%k{k} = OpConstant %float {k}.5\n")).collect();
    let add: String = (0..8).map(|k| format!("%v{k} = OpFAdd %float %base %k{k}\n")).collect();
    let body = format!(
        "
        %lane = OpLoad %uint %lane_in
        %scaled = OpIMul %uint %lane %8
        %base = OpConvertUToF %float %scaled
        {add}
        %a = OpCompositeConstruct %array %v0 %v1 %v2 %v3 %v4 %v5 %v6 %v7
        %m = OpCompositeConstructCoopMatQCOM %acc %a
        %to = OpAccessChain %ptr_float %out %0 %0
        OpCooperativeMatrixStoreKHR %to %m %0 %8
        %b = OpCompositeExtractCoopMatQCOM %array %m
        %b3 = OpCompositeExtract %float %b 3
        %low = OpULessThan %bool %lane %16
        OpSelectionMerge %end None
        OpBranchConditional %low %yes %end
        %yes = OpLabel
        %o = OpIAdd %uint %lane %c128
        %p = OpAccessChain %ptr_float %out %0 %o
        OpStore %p %b3
        OpBranch %end
        %end = OpLabel
        "
    );
    let module = shader(&format!("{types}\n{elements}\n%c128 = OpConstant %uint 128"), &body);
    for config in configs() {
        let out = run_clean(&module, &[], &[vec![0; 4], vec![0; 512 + 64]], config);
        let out = from_f32s(&out[1]);
        assert_eq!(out[..128], (0..128).map(|i| i as f32 + 0.5).collect::<Vec<_>>());
        assert_eq!(out[128..], (0..16).map(|i| (i * 8 + 3) as f32 + 0.5).collect::<Vec<_>>());
    }
}

/// A kernel with three buffers, of a subgroup of 16.
fn kernel(types: &str, body: &str) -> coop_ir::Module {
    let text = format!(
        r#"
        OpCapability Kernel
        OpCapability Addresses
        OpCapability CooperativeMatrixKHR
        OpMemoryModel Physical64 OpenCL
        OpEntryPoint Kernel %main "main"
        OpExecutionMode %main LocalSize 16 1 1
        %void = OpTypeVoid
        %bool = OpTypeBool
        %uint = OpTypeInt 32 0
        %short = OpTypeInt 16 0
        %float = OpTypeFloat 32
        %c0 = OpConstant %uint 0
        %c1 = OpConstant %uint 1
        %c2 = OpConstant %uint 2
        %c3 = OpConstant %uint 3
        %c5 = OpConstant %uint 5
        %c7 = OpConstant %uint 7
        %c8 = OpConstant %uint 8
        %c10 = OpConstant %uint 10
        %c16 = OpConstant %uint 16
        %c32 = OpConstant %uint 32
        %f4 = OpConstant %float 4
        %pf = OpTypePointer CrossWorkgroup %float
        %ps = OpTypePointer CrossWorkgroup %short
        %a = OpTypeCooperativeMatrixKHR %short %c3 %c8 %c16 %c0
        %b = OpTypeCooperativeMatrixKHR %short %c3 %c16 %c16 %c1
        %c = OpTypeCooperativeMatrixKHR %float %c3 %c8 %c16 %c2
        {types}
        {body}
        "#
    );
    coop_ir::text::parse(&text).unwrap_or_else(|e| panic!("{e}"))
}

fn kernel_configs() -> impl Iterator<Item = Config> {
    configs().map(|c| Config { subgroup_size: 16, ..c })
}

#[test]
fn packed_brain_floats_of_intel() {
    let body = "
        %fn = OpTypeFunction %void %ps %ps %pf
        %main = OpFunction %void None %fn
        %pa = OpFunctionParameter %ps
        %pb = OpFunctionParameter %ps
        %pc = OpFunctionParameter %pf
        %entry = OpLabel
        %ma = OpCooperativeMatrixLoadKHR %a %pa %c0 %c16
        %mb = OpCooperativeMatrixLoadKHR %b %pb %c2 %c32
        %zero = OpConstantNull %c
        %d = OpCooperativeMatrixMulAddKHR %c %ma %mb %zero MatrixAAndBBFloat16ComponentsINTEL
        OpCooperativeMatrixStoreKHR %pc %d %c0 %c16
        OpReturn
        OpFunctionEnd
        ";
    let null = "%zero = OpConstantNull %c\n";
    let module = kernel(null, &body.replace(null.trim(), ""));
    let bf16 = |v: f32| half::bf16::from_f32(v).to_le_bytes();
    let a = |r: usize, c: usize| ((r * 3 + c) % 7) as f32 - 2.0;
    let b = |r: usize, c: usize| ((r + c * 5) % 9) as f32 - 4.0;
    let bytes_a: Vec<u8> = (0..128).flat_map(|i| bf16(a(i / 16, i % 16))).collect();
    // Two rows lie side by side, element by element.
    let bytes_b: Vec<u8> = (0..256).flat_map(|i| bf16(b(i / 32 * 2 + i % 2, i % 32 / 2))).collect();
    let wanted: Vec<f32> = (0..128).map(|i| (0..16).map(|k| a(i / 16, k) * b(k, i % 16)).sum()).collect();
    for config in kernel_configs() {
        let out = run_clean(&module, &[], &[bytes_a.clone(), bytes_b.clone(), vec![0; 512]], config);
        assert_eq!(from_f32s(&out[2]), wanted, "{config:?}");
    }
}

#[test]
fn checked_accesses_of_intel() {
    // A surface of 7 x 10; the tile begins at row 3 (5 for the store) and column 2. Then a checked splat.
    let body = "
        %fn = OpTypeFunction %void %pf %pf %pf
        %main = OpFunction %void None %fn
        %p0 = OpFunctionParameter %pf
        %p1 = OpFunctionParameter %pf
        %p2 = OpFunctionParameter %pf
        %entry = OpLabel
        %m = OpCooperativeMatrixLoadCheckedINTEL %c %p0 %c3 %c2 %c0 %c7 %c10 %c10
        OpCooperativeMatrixStoreKHR %p1 %m %c0 %c16
        %s = OpCooperativeMatrixConstructCheckedINTEL %c %c3 %c2 %c7 %c10 %f4
        OpCooperativeMatrixStoreCheckedINTEL %p2 %c5 %c2 %s %c0 %c7 %c10 %c10
        OpReturn
        OpFunctionEnd
        ";
    let module = kernel("", body);
    let surface: Vec<f32> = (0..70).map(|i| i as f32 + 1.0).collect();
    let tile = |i: usize| {
        let (r, c) = (3 + i / 16, 2 + i % 16);
        if r < 7 && c < 10 { surface[r * 10 + c] } else { 0.0 }
    };
    let stored = |i: usize| {
        let (r, c) = (i / 10, i % 10);
        match (r >= 5, c >= 2) {
            (true, true) => 4.0,
            _ => 99.0,
        }
    };
    for config in kernel_configs() {
        let buffers = [f32s(surface.iter().copied()), f32s(vec![99.0; 128]), f32s(vec![99.0; 70])];
        let out = run_clean(&module, &[], &buffers, config);
        assert_eq!(from_f32s(&out[1]), (0..128).map(tile).collect::<Vec<_>>());
        assert_eq!(from_f32s(&out[2]), (0..70).map(stored).collect::<Vec<_>>());
    }
}

#[test]
fn the_first_dialect_of_nvidia() {
    let module = module("nv1.spv");
    let a = |r: usize, k: usize| ((r * 5 + k) % 11) as f32 / 2.0 - 2.0;
    let b = |k: usize, c: usize| ((k * 3 + c) % 8) as f32 / 2.0 - 1.5;
    let buffers = [
        f16s((0..128).map(|i| a(i / 8, i % 8))),
        f16s((0..128).map(|i| b(i % 8, i / 8))),
        f32s((0..256).map(|i| i as f32)),
        vec![0; 1024],
    ];
    let wanted: Vec<f32> =
        (0..256).map(|i| 2.0 * ((0..8).map(|k| a(i / 16, k) * b(k, i % 16)).sum::<f32>() + i as f32)).collect();
    for config in configs() {
        let out = run_clean(&module, &[(0, 8)], &buffers, config);
        assert_eq!(from_f32s(&out[3]), wanted, "{config:?}");
    }
}

#[test]
fn what_can_not_be_run_is_named() {
    let body = "
        %from = OpAccessChain %ptr_float %in %0 %0
        %v = OpLoad %float %from
        %d = OpDPdx %float %v
    ";
    let module = shader(ACC, body);
    let error = try_run(&module, &[], &[vec![0; 4], vec![0; 4]], Config::default()).unwrap_err().to_string();
    assert!(error.contains("OpDPdx: is not supported"), "{error}");
}
