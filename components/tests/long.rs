//! 64-bit integers by pairs of words: every operation against exact results, on numbers around the powers of two and random ones.

mod common;

use common::{case_with_files, contents, interpret, lacks, lowered, parse, run_on};
use coop_components::{Error, Options, lower};
use coop_device::Feature;
use coop_exec::vulkan::VulkanExecutor;
use coop_exec::{Case, Outcome, vulkan_test};
use coop_ir::Module;

/// An operation: code that computes `%r` (u64) of `%a`, `%b` (u64), `%sa`, `%sb` (s64), `%n` (the low 6 bits of `%b`) and
/// `%f`, `%g` (f32); and the exact result. `None` where SPIR-V leaves it open.
struct Row {
    name: &'static str,
    code: &'static str,
    exact: fn(u64, u64) -> Option<u64>,
}

const fn row(name: &'static str, code: &'static str, exact: fn(u64, u64) -> Option<u64>) -> Row {
    Row { name, code, exact }
}

/// The f32 of a test: the bits of the low word, scaled so that it has a place among the numbers of 64 bits.
fn float(a: u64) -> f32 {
    let exponent = 100 + (a >> 23 & 0xff) as u32 * 90 / 256;
    f32::from_bits((a as u32 & 0x807f_ffff) | exponent << 23)
}

/// The field of a test: it begins at the low 6 bits of a number, and has at most as many bits as are left.
fn place(b: u64) -> (u32, u32) {
    let offset = (b & 63) as u32;
    (offset, (b >> 32) as u32 % (64 - offset + 1))
}

/// Computes the place of the field, `%nw` and `%cw`.
const FIELD: &str = "%nw = OpUConvert %uint %n\n%left = OpISub %ulong %l64 %n\n%lw = OpUConvert %uint %left\n\
    %h = OpShiftRightLogical %ulong %b %32\n%hw = OpUConvert %uint %h\n%more = OpIAdd %uint %lw %1\n%cw = OpUMod %uint %hw %more\n";

/// So many ones.
fn ones(count: u32) -> u64 {
    u64::MAX.checked_shr(64 - count).unwrap_or(0)
}

static ROWS: &[Row] = &[
    row("add", "%r = OpIAdd %ulong %a %b", |a, b| Some(a.wrapping_add(b))),
    row("sub", "%r = OpISub %ulong %a %b", |a, b| Some(a.wrapping_sub(b))),
    row("mul", "%r = OpIMul %ulong %a %b", |a, b| Some(a.wrapping_mul(b))),
    row("negate", "%r = OpSNegate %ulong %a", |a, _| Some(a.wrapping_neg())),
    row("and", "%r = OpBitwiseAnd %ulong %a %b", |a, b| Some(a & b)),
    row("or", "%r = OpBitwiseOr %ulong %a %sb", |a, b| Some(a | b)),
    row("xor", "%r = OpBitwiseXor %ulong %a %b", |a, b| Some(a ^ b)),
    row("not", "%r = OpNot %ulong %a", |a, _| Some(!a)),
    row("udiv", "%r = OpUDiv %ulong %a %b", |a, b| a.checked_div(b)),
    row("umod", "%r = OpUMod %ulong %a %b", |a, b| a.checked_rem(b)),
    row("udiv small", "%d = OpBitwiseAnd %ulong %b %mask\n%r = OpUDiv %ulong %a %d", |a, b| a.checked_div(b & 0xffff)),
    row("sdiv", "%q = OpSDiv %long %sa %sb\n%r = OpBitcast %ulong %q", |a, b| {
        (a as i64).checked_div(b as i64).map(|v| v as u64)
    }),
    row("srem", "%q = OpSRem %long %sa %sb\n%r = OpBitcast %ulong %q", |a, b| {
        (a as i64).checked_rem(b as i64).map(|v| v as u64)
    }),
    row("smod", "%q = OpSMod %long %sa %sb\n%r = OpBitcast %ulong %q", |a, b| {
        let (a, b) = (a as i64, b as i64);
        let rest = a.checked_rem(b)?;
        Some((if rest != 0 && (rest < 0) != (b < 0) { rest + b } else { rest }) as u64)
    }),
    row("shl", "%r = OpShiftLeftLogical %ulong %a %n", |a, b| Some(a << (b & 63))),
    row("shr", "%r = OpShiftRightLogical %ulong %a %n", |a, b| Some(a >> (b & 63))),
    row("sar", "%r = OpShiftRightArithmetic %ulong %a %n", |a, b| Some((a as i64 >> (b & 63)) as u64)),
    row("shl by a word", "%w = OpUConvert %uint %n\n%r = OpShiftLeftLogical %ulong %a %w", |a, b| Some(a << (b & 63))),
    row("shl 0", "%r = OpShiftLeftLogical %ulong %a %l0", |a, _| Some(a)),
    row("shl 7", "%r = OpShiftLeftLogical %ulong %a %l7", |a, _| Some(a << 7)),
    row("shl 32", "%r = OpShiftLeftLogical %ulong %a %32", |a, _| Some(a << 32)),
    row("shl 45", "%r = OpShiftLeftLogical %ulong %a %45", |a, _| Some(a << 45)),
    row("shr 7", "%r = OpShiftRightLogical %ulong %a %l7", |a, _| Some(a >> 7)),
    row("shr 32", "%r = OpShiftRightLogical %ulong %a %32", |a, _| Some(a >> 32)),
    row("shr 45", "%r = OpShiftRightLogical %ulong %a %45", |a, _| Some(a >> 45)),
    row("sar 7", "%r = OpShiftRightArithmetic %ulong %a %l7", |a, _| Some((a as i64 >> 7) as u64)),
    row("sar 32", "%r = OpShiftRightArithmetic %ulong %a %32", |a, _| Some((a as i64 >> 32) as u64)),
    row("sar 45", "%r = OpShiftRightArithmetic %ulong %a %45", |a, _| Some((a as i64 >> 45) as u64)),
    row(
        "a word by a number",
        "%l = OpUConvert %uint %a\n%m = OpBitwiseAnd %ulong %n %31\n%w = OpShiftLeftLogical %uint %l %m\n%r = OpUConvert %ulong %w",
        |a, b| Some(((a as u32) << (b & 31)).into()),
    ),
    row("reversed", "%r = OpBitReverse %ulong %a", |a, _| Some(a.reverse_bits())),
    row("count", "%r = OpBitCount %ulong %a", |a, _| Some(a.count_ones().into())),
    row("count in a word", "%c = OpBitCount %uint %a\n%r = OpUConvert %ulong %c", |a, _| Some(a.count_ones().into())),
    row("first bit", "%r = OpExtInst %ulong %glsl FindILsb %a", |a, _| {
        Some(if a == 0 { u64::MAX } else { a.trailing_zeros().into() })
    }),
    row("last bit", "%r = OpExtInst %ulong %glsl FindUMsb %a", |a, _| {
        Some(if a == 0 { u64::MAX } else { (63 - a.leading_zeros()).into() })
    }),
    row("last bit of a signed number", "%q = OpExtInst %long %glsl FindSMsb %sa\n%r = OpBitcast %ulong %q", |a, _| {
        let a = if (a as i64) < 0 { !a } else { a };
        Some(if a == 0 { u64::MAX } else { (63 - a.leading_zeros()).into() })
    }),
    row("field", "FIELD\n%r = OpBitFieldUExtract %ulong %a %nw %cw", |a, b| {
        let (offset, count) = place(b);
        Some(a.checked_shr(offset).unwrap_or(0) & ones(count))
    }),
    row("signed field", "FIELD\n%r = OpBitFieldSExtract %ulong %a %nw %cw", |a, b| {
        let (offset, count) = place(b);
        let field = a.checked_shr(offset).unwrap_or(0) & ones(count);
        Some(if count > 0 && field >> (count - 1) == 1 { field | !ones(count) } else { field })
    }),
    row("inserted field", "FIELD\n%r = OpBitFieldInsert %ulong %a %b %nw %cw", |a, b| {
        let (offset, count) = place(b);
        let mask = ones(count).checked_shl(offset).unwrap_or(0);
        Some(a & !mask | (b & ones(count)).checked_shl(offset).unwrap_or(0) & mask)
    }),
    row("equal", "%c = OpIEqual %bool %a %b\n%r = OpSelect %ulong %c %a %l7", |a, b| Some(if a == b { a } else { 7 })),
    row(
        "equal itself",
        "%x = OpBitwiseXor %ulong %a %b\n%y = OpBitwiseXor %ulong %x %b\n%c = OpIEqual %bool %a %y\n%r = OpSelect %ulong %c %a %l7",
        |a, _| Some(a),
    ),
    row("not equal", "%c = OpINotEqual %bool %a %b\n%r = OpSelect %ulong %c %a %l7", |a, b| {
        Some(if a != b { a } else { 7 })
    }),
    row("ult", "%c = OpULessThan %bool %a %b\n%r = OpSelect %ulong %c %a %b", |a, b| Some(a.min(b))),
    row("ule", "%c = OpULessThanEqual %bool %a %b\n%r = OpSelect %ulong %c %l7 %b", |a, b| {
        Some(if a <= b { 7 } else { b })
    }),
    row("ugt", "%c = OpUGreaterThan %bool %a %b\n%r = OpSelect %ulong %c %a %b", |a, b| Some(a.max(b))),
    row("uge", "%c = OpUGreaterThanEqual %bool %a %b\n%r = OpSelect %ulong %c %l7 %b", |a, b| {
        Some(if a >= b { 7 } else { b })
    }),
    row("slt", "%c = OpSLessThan %bool %sa %sb\n%r = OpSelect %ulong %c %l7 %b", |a, b| {
        Some(if (a as i64) < b as i64 { 7 } else { b })
    }),
    row("sle", "%c = OpSLessThanEqual %bool %sa %sb\n%r = OpSelect %ulong %c %l7 %b", |a, b| {
        Some(if a as i64 <= b as i64 { 7 } else { b })
    }),
    row("sgt", "%c = OpSGreaterThan %bool %sa %sb\n%r = OpSelect %ulong %c %l7 %b", |a, b| {
        Some(if a as i64 > b as i64 { 7 } else { b })
    }),
    row("sge", "%c = OpSGreaterThanEqual %bool %sa %sb\n%r = OpSelect %ulong %c %l7 %b", |a, b| {
        Some(if a as i64 >= b as i64 { 7 } else { b })
    }),
    row("umin", "%r = OpExtInst %ulong %glsl UMin %a %b", |a, b| Some(a.min(b))),
    row("umax", "%r = OpExtInst %ulong %glsl UMax %a %b", |a, b| Some(a.max(b))),
    row("smin", "%q = OpExtInst %long %glsl SMin %sa %sb\n%r = OpBitcast %ulong %q", |a, b| {
        Some((a as i64).min(b as i64) as u64)
    }),
    row("smax", "%q = OpExtInst %long %glsl SMax %sa %sb\n%r = OpBitcast %ulong %q", |a, b| {
        Some((a as i64).max(b as i64) as u64)
    }),
    row("sabs", "%q = OpExtInst %long %glsl SAbs %sa\n%r = OpBitcast %ulong %q", |a, _| {
        Some((a as i64).wrapping_abs() as u64)
    }),
    row("ssign", "%q = OpExtInst %long %glsl SSign %sa\n%r = OpBitcast %ulong %q", |a, _| {
        Some((a as i64).signum() as u64)
    }),
    row("uclamp", "%r = OpExtInst %ulong %glsl UClamp %a %l7 %mask", |a, _| Some(a.clamp(7, 0xffff))),
    row("to u32", "%w = OpUConvert %uint %a\n%r = OpUConvert %ulong %w", |a, _| Some(a & 0xffff_ffff)),
    row("to s32", "%w = OpSConvert %int %sa\n%q = OpSConvert %long %w\n%r = OpBitcast %ulong %q", |a, _| {
        Some(a as i32 as u64)
    }),
    row("to u32 and with its sign", "%w = OpUConvert %uint %a\n%r = OpSConvert %ulong %w", |a, _| {
        Some(a as i32 as u64)
    }),
    row(
        "cast to words",
        "%v = OpBitcast %uint2 %a\n%t = OpVectorShuffle %uint2 %v %v 1 0\n%r = OpBitcast %ulong %t",
        |a, _| Some(a.rotate_left(32)),
    ),
    row(
        "a phi",
        "%c = OpULessThan %bool %a %b\nOpSelectionMerge %end None\nOpBranchConditional %c %yes %no\n%yes = OpLabel\n%y = OpIAdd %ulong %a %l7\nOpBranch %end\n%no = OpLabel\n%z = OpISub %ulong %b %l7\nOpBranch %end\n%end = OpLabel\n%r = OpPhi %ulong %y %yes %z %no",
        |a, b| Some(if a < b { a.wrapping_add(7) } else { b.wrapping_sub(7) }),
    ),
    row(
        "a loop",
        "OpBranch %head\n%head = OpLabel\n%i = OpPhi %ulong %l0 %entry %j %next\n%s = OpPhi %ulong %a %entry %t %next\nOpLoopMerge %end %next None\nOpBranch %check\n%check = OpLabel\n%c = OpULessThan %bool %i %l7\nOpBranchConditional %c %body %end\n%body = OpLabel\n%m = OpIMul %ulong %s %b\n%t = OpIAdd %ulong %m %i\nOpBranch %next\n%next = OpLabel\n%j = OpIAdd %ulong %i %l1\nOpBranch %head\n%end = OpLabel\n%r = OpIAdd %ulong %s %l0",
        |a, b| Some((0..7).fold(a, |s, i| s.wrapping_mul(b).wrapping_add(i))),
    ),
    row("a function", "%r = OpFunctionCall %ulong %twice %a", |a, _| Some(a.wrapping_mul(2))),
    row(
        "memory of a function",
        "OpStore %local %a\n%q = OpLoad %ulong %local\n%p2 = OpCompositeConstruct %two %q %b\n%r = OpCompositeExtract %ulong %p2 1",
        |_, b| Some(b),
    ),
    row(
        "an index",
        "%x = OpBitwiseAnd %ulong %b %l7\n%p3 = OpAccessChain %plong %va %0 %x\n%r = OpLoad %ulong %p3",
        |_, b| Some(numbers()[(b & 7) as usize].0),
    ),
    row("u64 to f32", "%x = OpConvertUToF %float %a\n%w = OpBitcast %uint %x\n%r = OpUConvert %ulong %w", |a, _| {
        Some((a as f32).to_bits().into())
    }),
    row("s64 to f32", "%x = OpConvertSToF %float %sa\n%w = OpBitcast %uint %x\n%r = OpUConvert %ulong %w", |a, _| {
        Some((a as i64 as f32).to_bits().into())
    }),
    row("f32 to u64", "%r = OpConvertFToU %ulong %g", |a, _| Some(float(a).abs() as u64)),
    row("f32 to s64", "%q = OpConvertFToS %long %f\n%r = OpBitcast %ulong %q", |a, _| Some(float(a) as i64 as u64)),
];

/// Pairs of numbers: those around powers of two with one another, and random ones.
fn numbers() -> Vec<(u64, u64)> {
    let mut edges: Vec<u64> = vec![0, 1, 2, 3, 5, u64::MAX, u64::MAX - 1];
    for power in [7, 16, 24, 25, 31, 32, 33, 40, 48, 53, 62, 63] {
        let p = 1u64 << power;
        edges.extend([p - 1, p, p + 1, p.wrapping_neg()]);
    }
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        // Numbers of all lengths.
        state >> (state.wrapping_mul(0xd134_2543_de82_ef95) >> 58)
    };
    let all = edges.iter().flat_map(|a| edges.iter().map(|b| (*a, *b))).collect::<Vec<_>>();
    let mut all: Vec<(u64, u64)> = all.into_iter().chain((0..1000).map(|_| (random(), random()))).collect();
    all.truncate(all.len() / 64 * 64);
    all
}

fn module(code: &str) -> Module {
    parse(&source(&code.replace("FIELD\n", FIELD)))
}

fn source(code: &str) -> String {
    format!(
        r#"
               OpCapability Shader
               OpCapability Int64
       %glsl = OpExtInstImport "GLSL.std.450"
               OpMemoryModel Logical GLSL450
               OpEntryPoint GLCompute %main "main" %id %va %vb %vf %vr
               OpExecutionMode %main LocalSize 64 1 1
               OpDecorate %id BuiltIn GlobalInvocationId
               OpDecorate %va DescriptorSet 0
               OpDecorate %va Binding 0
               OpDecorate %vb DescriptorSet 0
               OpDecorate %vb Binding 1
               OpDecorate %vf DescriptorSet 0
               OpDecorate %vf Binding 2
               OpDecorate %vr DescriptorSet 0
               OpDecorate %vr Binding 3
               OpDecorate %longs ArrayStride 8
               OpDecorate %floats ArrayStride 4
               OpDecorate %bl Block
               OpDecorate %bf Block
               OpMemberDecorate %bl 0 Offset 0
               OpMemberDecorate %bf 0 Offset 0
       %void = OpTypeVoid
         %fn = OpTypeFunction %void
       %bool = OpTypeBool
       %uint = OpTypeInt 32 0
        %int = OpTypeInt 32 1
      %ulong = OpTypeInt 64 0
       %long = OpTypeInt 64 1
      %uint2 = OpTypeVector %uint 2
      %uint3 = OpTypeVector %uint 3
      %float = OpTypeFloat 32
          %0 = OpConstant %uint 0
         %l0 = OpConstant %ulong 0
         %l1 = OpConstant %ulong 1
         %l2 = OpConstant %ulong 2
         %l7 = OpConstant %ulong 7
         %31 = OpConstant %ulong 31
         %32 = OpConstant %uint 32
         %45 = OpConstant %ulong 45
         %63 = OpConstant %ulong 63
        %l64 = OpConstant %ulong 64
          %1 = OpConstant %uint 1
          %3 = OpConstant %uint 3
       %mask = OpConstant %ulong 65535
      %longs = OpTypeRuntimeArray %ulong
     %floats = OpTypeRuntimeArray %float
        %two = OpTypeArray %ulong %l2
         %bl = OpTypeStruct %longs
         %bf = OpTypeStruct %floats
        %pbl = OpTypePointer StorageBuffer %bl
        %pbf = OpTypePointer StorageBuffer %bf
      %plong = OpTypePointer StorageBuffer %ulong
     %pfloat = OpTypePointer StorageBuffer %float
       %pfun = OpTypePointer Function %ulong
        %pin = OpTypePointer Input %uint3
      %unary = OpTypeFunction %ulong %ulong
         %va = OpVariable %pbl StorageBuffer
         %vb = OpVariable %pbl StorageBuffer
         %vf = OpVariable %pbf StorageBuffer
         %vr = OpVariable %pbl StorageBuffer
         %id = OpVariable %pin Input
      %twice = OpFunction %ulong None %unary
          %given = OpFunctionParameter %ulong
       %only = OpLabel
        %sum = OpIAdd %ulong %given %given
               OpReturnValue %sum
               OpFunctionEnd
       %main = OpFunction %void None %fn
      %entry = OpLabel
      %local = OpVariable %pfun Function
        %all = OpLoad %uint3 %id
          %k = OpCompositeExtract %uint %all 0
         %pa = OpAccessChain %plong %va %0 %k
         %pb = OpAccessChain %plong %vb %0 %k
         %pf = OpAccessChain %pfloat %vf %0 %k
         %pr = OpAccessChain %plong %vr %0 %k
          %a = OpLoad %ulong %pa
          %b = OpLoad %ulong %pb
          %f = OpLoad %float %pf
          %g = OpExtInst %float %glsl FAbs %f
         %sa = OpBitcast %long %a
         %sb = OpBitcast %long %b
          %n = OpBitwiseAnd %ulong %b %63
         {code}
               OpStore %pr %r
               OpReturn
               OpFunctionEnd
        "#
    )
}

fn case() -> Case {
    let numbers = numbers();
    let count = numbers.len();
    let a = contents("long-a", numbers.iter().flat_map(|n| n.0.to_le_bytes()));
    let b = contents("long-b", numbers.iter().flat_map(|n| n.1.to_le_bytes()));
    let f = contents("long-f", numbers.iter().flat_map(|n| float(n.0).to_le_bytes()));
    let mut text = format!("workgroups = [{}, 1, 1]\n", count / 64);
    for (binding, (path, ty, count)) in
        [(a, "u32", 2 * count), (b, "u32", 2 * count), (f, "u32", count)].into_iter().enumerate()
    {
        text += &format!(
            "[[buffer]]\nname = \"{binding}\"\nbinding = {binding}\ntype = \"{ty}\"\ncount = {count}\nfill = {{ file = \"{path}\" }}\n"
        );
    }
    text += &format!("[[buffer]]\nname = \"r\"\nbinding = 3\ntype = \"u32\"\ncount = {}\n", 2 * count);
    case_with_files(&text)
}

fn check(row: &Row, outcome: &Outcome) {
    let results = outcome.buffers.iter().find(|(name, _)| name == "r").map(|(_, bytes)| bytes).expect("a buffer");
    let results: Vec<u64> =
        results.chunks_exact(8).map(|c| u64::from_le_bytes(c.try_into().expect("8 bytes"))).collect();
    assert_eq!(results.len(), numbers().len());
    for ((a, b), found) in numbers().into_iter().zip(results) {
        if let Some(exact) = (row.exact)(a, b) {
            assert_eq!(found, exact, "{} of {a:#x} and {b:#x}: {found:#x}, not {exact:#x}", row.name);
        }
    }
}

fn without(row: &Row) -> Module {
    lowered(row.name, &module(row.code), lacks(&[Feature::ShaderInt64])).module
}

/// Division by zero and of the least number by -1 is undefined, which the interpreter says: those rows run on devices only.
#[test]
fn pairs_are_exact_in_the_interpreter() {
    let case = case();
    for row in ROWS {
        let lowered = without(row);
        assert!(!lowered.capabilities().any(|c| c == coop_ir::spv::Capability::Int64), "{}", row.name);
        if !row.code.contains("Div") && !row.code.contains("Rem") && !row.code.contains("Mod") {
            check(row, &interpret(row.name, &lowered, &case, 8));
        }
    }
}

fn on_device(device: &VulkanExecutor<'_>) {
    let case = case();
    for row in ROWS {
        check(row, &run_on(device, row.name, &without(row), &case));
    }
}

vulkan_test!(
    Lavapipe,
    fn pairs_are_exact_on_lavapipe(device) {
        on_device(device);
    }
);

vulkan_test!(
    SwiftShader,
    fn pairs_are_exact_on_swiftshader(device) {
        on_device(device);
    }
);

/// Lengths of arrays and workgroup sizes of 64 bits become words, and so does the size of a descriptor, which is a pair where it is
/// computed with.
#[test]
fn constants_that_types_name_are_words() {
    let module = parse(
        "OpCapability Shader
        OpCapability Int64
        OpCapability UntypedPointersKHR
        OpCapability DescriptorHeapEXT
        OpExtension \"SPV_EXT_descriptor_heap\"
        OpExtension \"SPV_KHR_untyped_pointers\"
        OpMemoryModel Logical GLSL450
        OpEntryPoint GLCompute %main \"main\" %heap %own
        OpExecutionModeId %main LocalSizeId %eight %one %one
        OpName %size \"size\"
        OpName %eight \"eight\"
        OpDecorate %heap BuiltIn ResourceHeapEXT
        OpDecorateId %buffers ArrayStrideIdEXT %stride
        OpDecorate %C Block
        OpMemberDecorate %C 0 Offset 0
        %void = OpTypeVoid
        %fn = OpTypeFunction %void
        %uint = OpTypeInt 32 0
        %ulong = OpTypeInt 64 0
        %zero = OpConstant %uint 0
        %one = OpConstant %ulong 1
        %eight = OpConstant %ulong 8
        %array = OpTypeArray %uint %eight
        %to_array = OpTypePointer Private %array
        %own = OpVariable %to_array Private
        %ptr = OpTypeUntypedPointerKHR UniformConstant
        %heap = OpUntypedVariableKHR %ptr UniformConstant
        %buffer = OpTypeBufferEXT StorageBuffer
        %size = OpConstantSizeOfEXT %ulong %buffer
        %stride = OpConstantSizeOfEXT %uint %buffer
        %buffers = OpTypeRuntimeArray %buffer
        %C = OpTypeStruct %ulong
        %to_C = OpTypePointer StorageBuffer %C
        %to_long = OpTypePointer StorageBuffer %ulong
        %main = OpFunction %void None %fn
        %entry = OpLabel
        %d = OpUntypedAccessChainKHR %ptr %buffers %heap %zero
        %b = OpBufferPointerEXT %to_C %d
        %c = OpAccessChain %to_long %b %zero
        %sum = OpIAdd %ulong %size %eight
        OpStore %c %sum
        OpReturn
        OpFunctionEnd",
    );
    common::valid_for("vulkan1.4", "64 bits", &module);
    let lowered = lowered("64 bits", &module, lacks(&[Feature::ShaderInt64])).module;
    common::valid_for("vulkan1.4", "pairs", &lowered);
    let text = coop_ir::text::print(&lowered, &coop_ir::text::PrintOptions::default()).text;
    assert!(!text.contains("Int64") && !text.contains("OpTypeInt 64"), "{text}");
    // Those of the input: the stride, and the low word of the size.
    assert_eq!(text.matches("OpConstantSizeOfEXT %uint").count(), 2, "{text}");
}

/// Conversions to and from floats of 16 and 64 bits, exact or rounded once.
const FLOATS: [Row; 6] = [
    row("u64 to f64", "%d = OpConvertUToF %double %a\n%r = OpBitcast %ulong %d", |a, _| Some((a as f64).to_bits())),
    row("s64 to f64", "%d = OpConvertSToF %double %sa\n%r = OpBitcast %ulong %d", |a, _| {
        Some((a as i64 as f64).to_bits())
    }),
    row("f64 to u64", "%d = OpConvertUToF %double %a\n%r = OpConvertFToU %ulong %d", |a, _| {
        Some(a as f64).filter(|f| *f < 2f64.powi(64)).map(|f| f as u64)
    }),
    row(
        "f64 to s64",
        "%d = OpConvertSToF %double %sa\n%s = OpConvertFToS %long %d\n%r = OpBitcast %ulong %s",
        |a, _| Some(a as i64 as f64).filter(|f| *f < 2f64.powi(63)).map(|f| f as i64 as u64),
    ),
    // The bits of the half twice in a word: lavapipe leaves conversions there and back out.
    row(
        "u64 to f16",
        "%h = OpConvertUToF %half %a\n%v = OpCompositeConstruct %half2 %h %h\n%w = OpBitcast %uint %v\n%r = OpUConvert %ulong %w",
        |a, _| Some(u64::from(half::f16::from_f64(a as f64).to_bits()) * 0x1_0001),
    ),
    row(
        "f16 to s64",
        "%w = OpUConvert %uint %a\n%v = OpBitcast %half2 %w\n%h = OpCompositeExtract %half %v 0\n%s = OpConvertFToS %long %h\n\
         %r = OpBitcast %ulong %s",
        |a, _| {
            let half = half::f16::from_bits(a as u16);
            half.is_finite().then(|| half.to_f64() as i64 as u64)
        },
    ),
];

/// A module with other floats and moves between invocations.
fn with_more(code: &str) -> Module {
    let capabilities = "OpCapability Int64\nOpCapability Float16\nOpCapability Float64\nOpCapability GroupNonUniform\n\
                        OpCapability GroupNonUniformShuffle\nOpCapability GroupNonUniformBallot\n";
    let types = "%half = OpTypeFloat 16\n%half2 = OpTypeVector %half 2\n%double = OpTypeFloat 64\n%scope = OpConstant %uint 3\n%lane = OpConstant %uint 5\n\
                 %float = OpTypeFloat 32\n";
    let source = source(code).replacen("OpCapability Int64\n", capabilities, 1);
    parse(&source.replacen("%float = OpTypeFloat 32\n", types, 1))
}

fn check_floats(run: impl Fn(&Row, &Module, &Case) -> Outcome) {
    let case = case();
    for row in &FLOATS {
        let lowered = lowered(row.name, &with_more(row.code), lacks(&[Feature::ShaderInt64])).module;
        check(row, &run(row, &lowered, &case));
    }
}

/// Conversions of numbers that the result's type has not are undefined: those rows run on a device only.
#[test]
fn conversions_with_other_floats_in_the_interpreter() {
    let defined = |row: &Row| numbers().into_iter().all(|(a, b)| (row.exact)(a, b).is_some());
    let case = case();
    let rows: Vec<&Row> = FLOATS.iter().filter(|row| defined(row)).collect();
    assert_eq!(rows.len(), 3);
    for row in rows {
        let lowered = lowered(row.name, &with_more(row.code), lacks(&[Feature::ShaderInt64])).module;
        check(row, &interpret(row.name, &lowered, &case, 8));
    }
}

vulkan_test!(
    Lavapipe,
    fn conversions_with_other_floats_on_lavapipe(device) {
        check_floats(|row, module, case| run_on(device, row.name, module, case));
    }
);

/// Pairs move between the invocations of a subgroup as numbers of 64 bits do.
#[test]
fn moves_between_invocations() {
    let case = case();
    for code in [
        "%r = OpGroupNonUniformBroadcastFirst %ulong %scope %a",
        "%r = OpGroupNonUniformBroadcast %ulong %scope %a %lane",
        "%w = OpBitwiseAnd %uint %k %lane\n%r = OpGroupNonUniformShuffle %ulong %scope %a %w",
        "%r = OpGroupNonUniformShuffleXor %ulong %scope %a %lane",
    ] {
        let original = with_more(code);
        let lowered = lowered(code, &original, lacks(&[Feature::ShaderInt64])).module;
        common::same(code, &interpret(code, &lowered, &case, 8), &interpret(code, &original, &case, 8));
    }
}

/// Other uses are refused with the instruction's name.
#[test]
fn other_uses_are_refused() {
    let rows = [
        ("%q = OpAtomicIAdd %ulong %pa %0 %0 %b\n%r = OpIAdd %ulong %q %q", "OpAtomicIAdd"),
        ("%w = OpExtInst %ulong %glsl FMin %a %b\n%r = OpIAdd %ulong %w %w", "OpExtInst"),
        ("%q = OpGroupNonUniformIMul %ulong %3 Reduce %a\n%r = OpIAdd %ulong %q %q", "OpGroupNonUniformIMul"),
        ("%r = OpIAdd %ulong %a %b\nOpSelectionMerge %end None\nOpSwitch %a %end 1 %end\n%end = OpLabel", "OpSwitch"),
    ];
    for (code, op) in rows {
        let module = module(code);
        match lower(&module, &Options::new(lacks(&[Feature::ShaderInt64]))) {
            Err(Error::Refused(why)) => {
                let at = why.at.map(|r| module.inst(r).op.to_string());
                assert_eq!((at.as_deref(), why.rule), (Some(op), "refused-component-type"), "{why}");
                assert!(why.reason.contains(op) && !why.remedy.is_empty(), "{why}");
            }
            other => panic!(
                "{op}: {:?}",
                other.map(|l| coop_ir::text::print(&l.module, &coop_ir::text::PrintOptions::default()).text)
            ),
        }
    }
}

/// Casts between addresses and pairs of words are no part of the older extension with addresses.
#[test]
fn addresses_of_the_older_extension() {
    let module = common::parse(
        "; Version: 1.3
        OpCapability Shader
        OpCapability Int64
        OpCapability PhysicalStorageBufferAddresses
        OpExtension \"SPV_EXT_physical_storage_buffer\"
        OpExtension \"SPV_KHR_storage_buffer_storage_class\"
        OpMemoryModel PhysicalStorageBuffer64 GLSL450
        OpEntryPoint GLCompute %main \"main\"
        OpExecutionMode %main LocalSize 1 1 1
        OpMemberDecorate %block 0 Offset 0
        OpDecorate %block Block
        %void = OpTypeVoid
        %fn = OpTypeFunction %void
        %uint = OpTypeInt 32 0
        %ulong = OpTypeInt 64 0
        %0 = OpConstant %uint 0
        %far = OpTypePointer PhysicalStorageBuffer %uint
        %block = OpTypeStruct %ulong
        %to_block = OpTypePointer PushConstant %block
        %to_ulong = OpTypePointer PushConstant %ulong
        %push = OpVariable %to_block PushConstant
        %main = OpFunction %void None %fn
        %label = OpLabel
        %at = OpAccessChain %to_ulong %push %0
        %address = OpLoad %ulong %at
        %p = OpConvertUToPtr %far %address
        OpStore %p %0 Aligned 4
        OpReturn
        OpFunctionEnd",
    );
    let lacks = common::lacks(&[Feature::ShaderInt64]);
    let lowered = coop_components::lower(&module, &Options::new(lacks)).unwrap_or_else(|e| panic!("{e}"));
    common::valid_for("vulkan1.1", "addresses", &lowered.module);
}
