//! Small floats, TF32, and pointers of every kind on the interpreter; races between workgroups.

mod interp_common;

use coop_exec::interp::{Config, FindingKind, Interpreter, Memory, Placement, Report, Semantics};
use coop_ir::constant::Specialization;
use interp_common::*;

fn configs() -> impl Iterator<Item = Config> {
    Placement::ALL.into_iter().map(|placement| Config { placement, ..Config::default() })
}

/// A shader of 32 invocations with two buffers of the type `%element`, of so many bytes.
fn shader(element: &str, bytes: u32, types: &str, body: &str) -> coop_ir::Module {
    let text = format!(
        r#"
        OpCapability Shader
        OpCapability CooperativeMatrixKHR
        OpMemoryModel Logical Vulkan
        OpEntryPoint GLCompute %main "main" %in %out %lane_in %group_in
        OpExecutionMode %main LocalSize 32 1 1
        OpDecorate %lane_in BuiltIn LocalInvocationIndex
        OpDecorate %group_in BuiltIn WorkgroupId
        OpDecorate %elements ArrayStride {bytes}
        OpMemberDecorate %block 0 Offset 0
        OpDecorate %block Block
        OpDecorate %in DescriptorSet 0
        OpDecorate %in Binding 0
        OpDecorate %out DescriptorSet 0
        OpDecorate %out Binding 1
        %void = OpTypeVoid
        %fn = OpTypeFunction %void
        %bool = OpTypeBool
        %uint = OpTypeInt 32 0
        %byte = OpTypeInt 8 0
        %float = OpTypeFloat 32
        %half = OpTypeFloat 16
        %e4m3 = OpTypeFloat 8 Float8E4M3EXT
        %e5m2 = OpTypeFloat 8 Float8E5M2EXT
        %v3uint = OpTypeVector %uint 3
        %c0 = OpConstant %uint 0
        %c1 = OpConstant %uint 1
        %c2 = OpConstant %uint 2
        %c3 = OpConstant %uint 3
        %c4 = OpConstant %uint 4
        %c8 = OpConstant %uint 8
        %c16 = OpConstant %uint 16
        %c32 = OpConstant %uint 32
        %c64 = OpConstant %uint 64
        %elements = OpTypeRuntimeArray {element}
        %block = OpTypeStruct %elements
        %ptr_block = OpTypePointer StorageBuffer %block
        %ptr = OpTypePointer StorageBuffer {element}
        %ptr_in = OpTypePointer Input %uint
        %ptr_in3 = OpTypePointer Input %v3uint
        %in = OpVariable %ptr_block StorageBuffer
        %out = OpVariable %ptr_block StorageBuffer
        %lane_in = OpVariable %ptr_in Input
        %group_in = OpVariable %ptr_in3 Input
        {types}
        %main = OpFunction %void None %fn
        %entry = OpLabel
        %from = OpAccessChain %ptr %in %c0 %c0
        %to = OpAccessChain %ptr %out %c0 %c0
        {body}
        OpReturn
        OpFunctionEnd
        "#
    );
    coop_ir::text::parse(&text).unwrap_or_else(|e| panic!("{e}"))
}

/// The bytes of a small float, by search: there are 256 of them.
fn e4m3(bits: u8) -> f32 {
    let (e, m) = (i32::from(bits >> 3 & 15), f32::from(bits & 7));
    let v = if e == 0 { m * 2f32.powi(-9) } else { (8.0 + m) * 2f32.powi(e - 10) };
    let v = if bits & 0x7f == 0x7f { f32::NAN } else { v };
    if bits & 0x80 != 0 { -v } else { v }
}

fn e5m2(bits: u8) -> f32 {
    half::f16::from_bits(u16::from(bits) << 8).to_f32()
}

/// Exponents of 8, 16 and 64 bits, with a sign and without.
#[test]
fn exponents_of_other_widths() {
    let types = "%c5 = OpConstant %uint 5
         %schar = OpTypeInt 8 1
         %short = OpTypeInt 16 1
         %long = OpTypeInt 64 1
         %glsl = OpExtInstImport \"GLSL.std.450\"
         %one = OpConstant %float 1
         %x0 = OpConstant %schar -2
         %x1 = OpConstant %short -1
         %x2 = OpConstant %long -3
         %x3 = OpConstant %long 4294967296
         %x4 = OpConstant %long -4294967296
         %x5 = OpConstant %byte 100";
    let exponents = ["%x0", "%x1", "%x2", "%x3", "%x4", "%x5"];
    let body = (0..).zip(exponents).map(|(i, x)| {
        format!("%to{i} = OpAccessChain %ptr %out %c0 %c{i}\n%v{i} = OpExtInst %float %glsl Ldexp %one {x}\nOpStore %to{i} %v{i}\n")
    });
    let module = shader("%float", 4, types, &body.collect::<String>());
    let out = run_clean(&module, &[], &[vec![0; 24], vec![0x55; 24]], Config::default());
    assert_eq!(from_f32s(&out[1]), [0.25, 0.5, 0.125, f32::INFINITY, 0.0, 100f32.exp2()]);
}

/// A 16 x 32 times 32 x 16 of small floats, their sum in f32, and the sum as a small float again.
#[test]
fn small_floats() {
    for (name, decode) in [("e4m3", e4m3 as fn(u8) -> f32), ("e5m2", e5m2)] {
        let types = format!(
            "%a = OpTypeCooperativeMatrixKHR %{name} %c3 %c16 %c32 %c0
             %b = OpTypeCooperativeMatrixKHR %{name} %c3 %c32 %c16 %c1
             %c = OpTypeCooperativeMatrixKHR %float %c3 %c16 %c16 %c2
             %d = OpTypeCooperativeMatrixKHR %{name} %c3 %c16 %c16 %c2
             %zero = OpConstantNull %c
             %bytes512 = OpConstant %uint 512
             %bytes1024 = OpConstant %uint 1024"
        );
        let body = "
             %from_b = OpAccessChain %ptr %in %c0 %bytes512
             %to_d = OpAccessChain %ptr %out %c0 %bytes1024
             %ma = OpCooperativeMatrixLoadKHR %a %from %c0 %c32
             %mb = OpCooperativeMatrixLoadKHR %b %from_b %c1 %c32
             %mc = OpCooperativeMatrixMulAddKHR %c %ma %mb %zero
             %md = OpFConvert %d %mc
             OpCooperativeMatrixStoreKHR %to %mc %c0 %c64
             OpCooperativeMatrixStoreKHR %to_d %md %c0 %c16";
        // The buffers are of bytes; the stride of f32 rows counts them.
        let module = shader("%byte", 1, &types, body);
        // Values of either sign up to 2, all of whose products and sums f32 holds.
        let pick = |i: usize| -> u8 {
            let bits = if name == "e4m3" { 0x28 + (i * 7 % 24) as u8 } else { 0x34 + (i * 7 % 12) as u8 };
            if i.is_multiple_of(3) { bits | 0x80 } else { bits }
        };
        let input: Vec<u8> = (0..1024).map(pick).collect();
        let sum = |r: usize, c: usize| -> f32 {
            (0..32).map(|k| decode(input[r * 32 + k]) * decode(input[512 + c * 32 + k])).sum()
        };
        for config in configs() {
            let out = run_clean(&module, &[], &[input.clone(), vec![0x55; 1280]], config);
            let floats = from_f32s(&out[1][..1024]);
            for i in 0..256 {
                let wanted = sum(i / 16, i % 16);
                assert_eq!(floats[i], wanted, "{name} {i} {config:?}");
                // The nearest of all that there are; of two equally near ones the even.
                let near = (0..=255u8)
                    .filter(|b| decode(*b).is_finite() && (decode(*b).is_sign_negative() == wanted.is_sign_negative()))
                    .min_by(|a, b| {
                        let far = |bits: u8| ((decode(bits) - wanted).abs(), bits & 1);
                        far(*a).partial_cmp(&far(*b)).unwrap()
                    });
                assert_eq!(Some(out[1][1024 + i]), near, "{name} {wanted}");
            }
        }
    }
}

/// Loads and stores through untyped pointers; strides count bytes.
#[test]
fn untyped_pointers() {
    let types = "
        %acc = OpTypeCooperativeMatrixKHR %half %c3 %c16 %c16 %c2
        %any = OpTypeUntypedPointerKHR StorageBuffer
        %c34 = OpConstant %uint 34
        %c40 = OpConstant %uint 40
        %small = OpTypeStruct %uint %half
        %halves = OpTypeRuntimeArray %half";
    let body = "
        %base = OpUntypedAccessChainKHR %any %block %in %c0 %c2
        %m = OpCooperativeMatrixLoadKHR %acc %base %c0 %c34
        %target = OpUntypedAccessChainKHR %any %block %out %c0 %c0
        OpCooperativeMatrixStoreKHR %target %m %c1 %c40
        %lane = OpLoad %uint %lane_in
        %first = OpIEqual %bool %lane %c0
        OpSelectionMerge %after None
        OpBranchConditional %first %one %after
        %one = OpLabel
        %word = OpLoad %uint %base Aligned 4
        %place = OpUntypedInBoundsAccessChainKHR %any %block %out %c0 %at
        OpStore %place %word Aligned 4
        OpBranch %after
        %after = OpLabel";
    let module = shader("%uint", 4, &format!("{types}\n%at = OpConstant %uint 160"), body);
    let input: Vec<u8> = (0..640u32).map(|i| (i % 251) as u8).collect();
    let at = |bytes: &[u8], i: usize| [bytes[i], bytes[i + 1]];
    for config in configs() {
        // Not aligned as Vulkan asks: lines begin at multiples of a component only.
        let config = Config { semantics: Semantics::Nvidia, ..config };
        let out = run_clean(&module, &[], &[input.clone(), vec![0; 644]], config);
        for r in 0..16 {
            for c in 0..16 {
                assert_eq!(at(&out[1], c * 40 + r * 2), at(&input, 8 + r * 34 + c * 2), "{r} {c}");
            }
        }
        assert_eq!(out[1][640..644], input[8..12]);
    }
}

fn kernel(types: &str, parameters: &str, body: &str) -> coop_ir::Module {
    let text = format!(
        r#"
        OpCapability Kernel
        OpCapability Addresses
        OpCapability GenericPointer
        OpCapability CooperativeMatrixKHR
        OpMemoryModel Physical64 OpenCL
        OpEntryPoint Kernel %main "main" %tile
        OpExecutionMode %main LocalSize 16 1 1
        %void = OpTypeVoid
        %uint = OpTypeInt 32 0
        %float = OpTypeFloat 32
        %c0 = OpConstant %uint 0
        %c1 = OpConstant %uint 1
        %c2 = OpConstant %uint 2
        %c3 = OpConstant %uint 3
        %c8 = OpConstant %uint 8
        %c16 = OpConstant %uint 16
        %c20 = OpConstant %uint 20
        %c128 = OpConstant %uint 128
        %minus1 = OpConstant %uint 4294967295
        %pf = OpTypePointer CrossWorkgroup %float
        %gf = OpTypePointer Generic %float
        %lf = OpTypePointer Workgroup %float
        %floats = OpTypeArray %float %c128
        %la = OpTypePointer Workgroup %floats
        %tile = OpVariable %la Workgroup
        %a = OpTypeCooperativeMatrixKHR %float %c3 %c8 %c8 %c0
        %b = OpTypeCooperativeMatrixKHR %float %c3 %c8 %c16 %c1
        %c = OpTypeCooperativeMatrixKHR %float %c3 %c8 %c16 %c2
        {types}
        %fn = OpTypeFunction %void {parameters}
        {body}
        "#
    );
    coop_ir::text::parse(&text).unwrap_or_else(|e| panic!("{e}"))
}

fn kernel_configs() -> impl Iterator<Item = Config> {
    configs().map(|c| Config { subgroup_size: 16, ..c })
}

/// Matrices through Generic pointers, to global memory and to a workgroup's.
#[test]
fn generic_pointers() {
    let body = "
        %main = OpFunction %void None %fn
        %p0 = OpFunctionParameter %pf
        %p1 = OpFunctionParameter %pf
        %entry = OpLabel
        %g0 = OpPtrCastToGeneric %gf %p0
        %local = OpInBoundsAccessChain %lf %tile %c0
        %g1 = OpPtrCastToGeneric %gf %local
        %m = OpCooperativeMatrixLoadKHR %c %g0 %c0 %c16
        OpCooperativeMatrixStoreKHR %g1 %m %c1 %c8
        OpControlBarrier %c2 %c2 %c272
        %back = OpGenericCastToPtr %lf %g1
        %n = OpCooperativeMatrixLoadKHR %c %back %c0 %c16
        OpCooperativeMatrixStoreKHR %p1 %n %c0 %c16
        OpReturn
        OpFunctionEnd";
    let module = kernel("%c272 = OpConstant %uint 272", "%pf %pf", body);
    let input: Vec<f32> = (0..128).map(|i| i as f32).collect();
    // Stored by columns of 8, loaded by rows of 16.
    let wanted: Vec<f32> = (0..128).map(|i| input[i % 8 * 16 + i / 8]).collect();
    for config in kernel_configs() {
        let out = run_clean(&module, &[], &[f32s(input.iter().copied()), vec![0; 512]], config);
        assert_eq!(from_f32s(&out[1]), wanted, "{config:?}");
    }
}

/// The forms with offsets that Intel's tools emit, negative offsets too.
#[test]
fn offsets_of_intel() {
    let body = "
        %main = OpFunction %void None %fn
        %p0 = OpFunctionParameter %pf
        %p1 = OpFunctionParameter %pf
        %entry = OpLabel
        %inner = OpInBoundsPtrAccessChain %pf %p0 %c20
        %m = OpCooperativeMatrixLoadOffsetINTEL %c %inner %minus1 %c2 %c0 %c20
        OpCooperativeMatrixStoreOffsetINTEL %p1 %c1 %c3 %m %c1 %c20
        OpReturn
        OpFunctionEnd";
    let module = kernel("", "%pf %pf", body);
    let input: Vec<f32> = (0..200).map(|i| i as f32).collect();
    let mut wanted = vec![-1.0; 400];
    for r in 0..8 {
        for c in 0..16 {
            // Columns first: rows of the surface are columns of the matrix.
            wanted[(1 + c) * 20 + 3 + r] = input[r * 20 + 2 + c];
        }
    }
    for config in kernel_configs() {
        let out = run_clean(&module, &[], &[f32s(input.iter().copied()), f32s(vec![-1.0; 400])], config);
        assert_eq!(from_f32s(&out[1]), wanted, "{config:?}");
    }
}

/// Rounded to TF32 by an instruction, and by the bit of MulAdd.
#[test]
fn tf32() {
    let body = "
        %main = OpFunction %void None %fn
        %p0 = OpFunctionParameter %pf
        %p1 = OpFunctionParameter %pf
        %p2 = OpFunctionParameter %pf
        %entry = OpLabel
        %ma = OpCooperativeMatrixLoadKHR %a %p0 %c0 %c8
        %mb = OpCooperativeMatrixLoadKHR %b %p1 %c0 %c16
        %bits = OpCooperativeMatrixMulAddKHR %c %ma %mb %zero MatrixAAndBTF32ComponentsINTEL
        OpCooperativeMatrixStoreKHR %p2 %bits %c0 %c16
        %ra = OpRoundFToTF32INTEL %a %ma
        %rb = OpRoundFToTF32INTEL %b %mb
        %second = OpInBoundsPtrAccessChain %pf %p2 %c128
        %rounded = OpCooperativeMatrixMulAddKHR %c %ra %rb %zero
        OpCooperativeMatrixStoreKHR %second %rounded %c0 %c16
        OpReturn
        OpFunctionEnd";
    let module = kernel("%zero = OpConstantNull %c", "%pf %pf %pf", body);
    // 10 bits of mantissa, ties to even.
    let round = |x: f32| {
        let quantum = 2f64.powi((f64::from(x).abs().log2().floor() as i32) - 10);
        (f64::from(x) / quantum).round_ties_even() * quantum
    };
    let value = |i: usize| 1.0 + (i * 37 % 101) as f32 / 4096.0 + if i.is_multiple_of(4) { 1.0 } else { 0.0 };
    let a: Vec<f32> = (0..64).map(value).collect();
    let b: Vec<f32> = (0..128).map(|i| -value(i + 5)).collect();
    let sum = |r: usize, c: usize| (0..8).map(|k| round(a[r * 8 + k]) * round(b[k * 16 + c])).sum::<f64>() as f32;
    let wanted: Vec<f32> = (0..256).map(|i| sum(i % 128 / 16, i % 16)).collect();
    assert!(a.iter().any(|x| f64::from(*x) != round(*x)), "something is rounded");
    for config in kernel_configs() {
        let buffers = [f32s(a.iter().copied()), f32s(b.iter().copied()), vec![0; 1024]];
        assert_eq!(from_f32s(&run_clean(&module, &[], &buffers, config)[2]), wanted, "{config:?}");
    }
}

fn in_two_workgroups(body: &str) -> Report {
    let module = shader(
        "%uint",
        4,
        "%c512 = OpConstant %uint 512\n%c100 = OpConstant %uint 100\n%device = OpConstant %uint 1\n",
        body,
    );
    let memory = |name: &str, binding| Memory { name: name.into(), slot: Some((0, binding)), bytes: vec![0; 1024] };
    let specialization = Specialization::new();
    let interpreter = Interpreter::new(&module, None, &specialization, Config::default()).unwrap();
    interpreter.run(&mut [memory("In", 0), memory("Out", 1)], &[], [2, 1, 1]).unwrap()
}

/// Returns the code of both workgroups: lane l of workgroup g does something with element l + g * `step`.
fn place(step: &str) -> String {
    format!(
        "%lane = OpLoad %uint %lane_in
         %group3 = OpLoad %v3uint %group_in
         %group = OpCompositeExtract %uint %group3 0
         %name = OpIAdd %uint %group %c1
         %offset = OpIMul %uint %group {step}
         %index = OpIAdd %uint %lane %offset
         %here = OpAccessChain %ptr %out %c0 %index"
    )
}

#[test]
fn races_between_workgroups() {
    // Elements 16 to 31 are written by both, with different values.
    let report = in_two_workgroups(&format!("{}\nOpStore %here %name", place("%c16")));
    let [finding] = report.findings.as_slice() else { panic!("{:?}", report.findings.len()) };
    assert_eq!(finding.kind, FindingKind::DataRace);
    assert!(finding.message.contains("writes byte 64 of Out, which another workgroup wrote"), "{finding}");
    assert!(finding.notes.iter().any(|n| n.1 == "workgroup number 0 wrote it here"), "{finding}");
    assert_eq!(finding.count, 16);

    // What the first workgroup reads, the second writes.
    let text = "%old = OpLoad %uint %fixed\n%more = OpIAdd %uint %old %name\nOpStore %here %more";
    let fixed = "%fixed = OpAccessChain %ptr %out %c0 %c32";
    let report = in_two_workgroups(&format!("{}\n{fixed}\n{text}", place("%c32")));
    assert!(
        report.findings.iter().any(|f| f.message.contains("which another workgroup read")),
        "{:?}",
        report.findings.len()
    );
}

#[test]
fn no_races_between_workgroups() {
    for (what, body) in [
        ("each its own", format!("{}\nOpStore %here %name", place("%c32"))),
        ("the same value", format!("{}\nOpStore %here %c8", place("%c16"))),
        ("atomics", format!("{}\n%old = OpAtomicIAdd %uint %here %device %c0 %name", place("%c16"))),
        (
            "an atomic operation first",
            format!(
                "{}\n%flag = OpAccessChain %ptr %out %c0 %c100\n%old = OpAtomicIAdd %uint %flag %device %c8 %c1\nOpStore %here %name",
                place("%c16")
            ),
        ),
        (
            "both read",
            format!(
                "{}\n%source = OpAccessChain %ptr %in %c0 %lane\n%v = OpLoad %uint %source\nOpStore %here %v",
                place("%c32")
            ),
        ),
    ] {
        let report = in_two_workgroups(&body);
        let text: Vec<String> = report.findings.iter().map(|f| f.to_string()).collect();
        assert!(text.is_empty(), "{what}: {}", text.join("\n"));
    }
}

/// Conversions of numbers and matrices to an integer type that can't represent the value are reported. With
/// SaturatedConversion there is always a result.
#[test]
fn conversions_to_integers_that_do_not_have_the_number() {
    let scalar = "%x = OpLoad %float %from
        %n = {op} %byte %x
        %w = OpUConvert %uint %n
        %f = OpConvertUToF %float %w
        OpStore %to %f";
    let matrix = "%x = OpCooperativeMatrixLoadKHR %floats %from %c0 %c16
        %n = {op} %small %x
        %w = OpUConvert %words %n
        %f = OpConvertUToF %floats %w
        OpCooperativeMatrixStoreKHR %to %f %c0 %c16";
    let types = "%floats = OpTypeCooperativeMatrixKHR %float %c3 %c16 %c16 %c2
        %words = OpTypeCooperativeMatrixKHR %uint %c3 %c16 %c16 %c2
        %small = OpTypeCooperativeMatrixKHR %byte %c3 %c16 %c16 %c2";
    let cases: [(&str, f32, Option<u8>, u8); 14] = [
        ("OpConvertFToU", 255.9, Some(255), 255),
        ("OpConvertFToU", 256.0, None, 255),
        ("OpConvertFToU", -0.9, Some(0), 0),
        ("OpConvertFToU", -1.0, None, 0),
        ("OpConvertFToU", f32::NAN, None, 0),
        ("OpConvertFToU", f32::INFINITY, None, 255),
        ("OpConvertFToU", 12.75, Some(12), 12),
        ("OpConvertFToS", 127.9, Some(127), 127),
        ("OpConvertFToS", 128.0, None, 127),
        ("OpConvertFToS", -128.9, Some(0x80), 0x80),
        ("OpConvertFToS", -129.0, None, 0x80),
        ("OpConvertFToS", f32::NAN, None, 0),
        ("OpConvertFToS", f32::NEG_INFINITY, None, 0x80),
        ("OpConvertFToS", -3.5, Some(0xfd), 0xfd),
    ];
    for body in [scalar, matrix] {
        for (op, x, wanted, saturated) in cases {
            let body = body.replace("{op}", op);
            let input = [f32s(vec![x; 256]), f32s(vec![99.0; 256])];
            let (out, report) = run(&shader("%float", 4, types, &body), &[], &input, Config::default());
            let text: Vec<String> = report.findings.iter().map(|f| f.to_string()).collect();
            match wanted {
                Some(wanted) => {
                    assert!(text.is_empty(), "{op} of {x}: {text:?}");
                    assert_eq!(from_f32s(&out[1])[0], f32::from(wanted), "{op} of {x}");
                }
                None => {
                    assert_eq!(text.len(), 1, "{op} of {x}: {text:?}");
                    assert_eq!(report.findings[0].kind, FindingKind::Undefined);
                    let sign = if op.ends_with('S') { 's' } else { 'u' };
                    assert!(text[0].contains(&format!("{x} is converted to {sign}8")), "{text:?}");
                }
            }
            let types = format!("OpDecorate %n SaturatedConversion\n{types}");
            let out = run_clean(&shader("%float", 4, &types, &body), &[], &input, Config::default());
            assert_eq!(from_f32s(&out[1])[0], f32::from(saturated), "{op} of {x}, saturated");
        }
    }
}

/// Instructions on quads have no scope operand; what they look at need not be constant, and may be.
#[test]
fn quads() {
    let body = "%lane = OpLoad %uint %lane_in
        %second = OpIEqual %bool %lane %c2
        %any = OpGroupNonUniformQuadAnyKHR %bool %second
        %all = OpGroupNonUniformQuadAllKHR %bool %yes
        %both = OpLogicalAnd %bool %any %all
        %v = OpSelect %uint %both %c1 %c0
        %at = OpAccessChain %ptr %out %c0 %lane
        OpStore %at %v";
    let module = shader("%uint", 4, "%yes = OpConstantTrue %bool", body);
    let out = run_clean(&module, &[], &[u32s([0; 32]), u32s([99; 32])], Config::default());
    let wanted: Vec<u32> = (0..32).map(|lane| u32::from(lane < 4)).collect();
    assert_eq!(from_u32s(&out[1]), wanted);
}
