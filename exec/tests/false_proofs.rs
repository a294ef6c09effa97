//! Attempts at a false proof: lowered modules that differ from the original for some data, or in what is defined, while the
//! data of the case shows nothing. None of them may be proved.

mod proof_common;

use coop_exec::interp::Arithmetic;
use coop_exec::proof::Verdict;
use proof_common::Pairs;

/// Two invocations; buffers of floats F and D, of unsigned integers I and E. `%x` is the invocation.
const HEAD: &str = "
    OpCapability Shader
    OpCapability Float16
    OpCapability BFloat16TypeKHR
    OpExtension \"SPV_KHR_bfloat16\"
    %glsl = OpExtInstImport \"GLSL.std.450\"
    OpMemoryModel Logical GLSL450
    OpEntryPoint GLCompute %main \"main\" %local
    OpExecutionMode %main LocalSize 2 1 1
    OpDecorate %local BuiltIn LocalInvocationIndex
    OpDecorate %floats ArrayStride 4
    OpDecorate %uints ArrayStride 4
    OpMemberDecorate %float_block 0 Offset 0
    OpMemberDecorate %uint_block 0 Offset 0
    OpDecorate %float_block Block
    OpDecorate %uint_block Block
    OpDecorate %F DescriptorSet 0
    OpDecorate %F Binding 0
    OpDecorate %I DescriptorSet 0
    OpDecorate %I Binding 1
    OpDecorate %D DescriptorSet 0
    OpDecorate %D Binding 2
    OpDecorate %E DescriptorSet 0
    OpDecorate %E Binding 3
    %void = OpTypeVoid
    %fn = OpTypeFunction %void
    %bool = OpTypeBool
    %uint = OpTypeInt 32 0
    %float = OpTypeFloat 32
    %half = OpTypeFloat 16
    %bfloat = OpTypeFloat 16 BFloat16KHR
    %n0 = OpConstant %uint 0
    %n1 = OpConstant %uint 1
    %n2 = OpConstant %uint 2
    %n8 = OpConstant %uint 8
    %n31 = OpConstant %uint 31
    %n32 = OpConstant %uint 32
    %n64 = OpConstant %uint 64
    %n256 = OpConstant %uint 256
    %n264 = OpConstant %uint 264
    %most = OpConstant %uint 4294967295
    %n16 = OpConstant %uint 16
    %most16 = OpConstant %uint 32767
    %least16 = OpConstant %uint 4294934528
    %top = OpConstant %uint 2147483648
    %below = OpConstant %uint 2147483647
    %zero = OpConstant %float 0
    %minus_zero = OpConstant %float -0.0
    %one = OpConstant %float 1
    %undef = OpUndef %float
    %floats = OpTypeRuntimeArray %float
    %uints = OpTypeRuntimeArray %uint
    %float_block = OpTypeStruct %floats
    %uint_block = OpTypeStruct %uints
    %two_floats = OpTypeArray %float %n2
    %p_float_block = OpTypePointer StorageBuffer %float_block
    %p_uint_block = OpTypePointer StorageBuffer %uint_block
    %p_float = OpTypePointer StorageBuffer %float
    %p_uint = OpTypePointer StorageBuffer %uint
    %in_uint = OpTypePointer Input %uint
    %p_shared = OpTypePointer Workgroup %two_floats
    %p_shared_float = OpTypePointer Workgroup %float
    %p_own_float = OpTypePointer Function %float
    %local = OpVariable %in_uint Input
    %shared = OpVariable %p_shared Workgroup
    %F = OpVariable %p_float_block StorageBuffer
    %I = OpVariable %p_uint_block StorageBuffer
    %D = OpVariable %p_float_block StorageBuffer
    %E = OpVariable %p_uint_block StorageBuffer
    %main = OpFunction %void None %fn
    %entry = OpLabel
    %own = OpVariable %p_own_float Function
    %x = OpLoad %uint %local
    %y = OpBitwiseXor %uint %x %n1
    %pa = OpAccessChain %p_float %F %n0 %x
    %pb = OpAccessChain %p_float %F %n0 %y
    %pi = OpAccessChain %p_uint %I %n0 %x
    %pj = OpAccessChain %p_uint %I %n0 %n2
    %pd = OpAccessChain %p_float %D %n0 %x
    %pe = OpAccessChain %p_uint %E %n0 %x
    %ps = OpAccessChain %p_shared_float %shared %x
    %pt = OpAccessChain %p_shared_float %shared %y
    %a = OpLoad %float %pa
    %b = OpLoad %float %pb
    %i = OpLoad %uint %pi
    %j = OpLoad %uint %pj
";

const CASE: &str = "
workgroups = [1, 1, 1]
[[buffer]]
name = \"F\"
binding = 0
type = \"f32\"
count = 8
fill = { values = [1.5, 1.5, 2.0, 4.0] }
[[buffer]]
name = \"I\"
binding = 1
type = \"u32\"
count = 8
fill = { values = [3, 3, 5, 6] }
[[buffer]]
name = \"D\"
binding = 2
type = \"f32\"
count = 8
[[buffer]]
name = \"E\"
binding = 3
type = \"u32\"
count = 8
";

// What is only written is no data.
const PAIRS: Pairs = Pairs { head: HEAD, case: CASE, fixed: &["D", "E"] };

fn verdict(arithmetic: Arithmetic, one: &str, other: &str) -> Verdict {
    PAIRS.proof(arithmetic, one, other).verdict
}

fn is_proved(arithmetic: Arithmetic, one: &str, other: &str) {
    assert_eq!(verdict(arithmetic, one, other), Verdict::Proved, "{one}\nand\n{other}");
}

fn is_not_proved(arithmetic: Arithmetic, one: &str, other: &str) {
    assert_ne!(verdict(arithmetic, one, other), Verdict::Proved, "{one}\nand\n{other}");
}

const REALS: Arithmetic = Arithmetic::Reals;
const MODES: [Arithmetic; 3] = [Arithmetic::Reals, Arithmetic::Rounding, Arithmetic::Strict];

/// Values that are undefined are not the ones that the interpreter has for them.
#[test]
fn undefined_values_prove_nothing() {
    let zero = "OpStore %pd %zero";
    let none = "OpStore %pe %n0";
    for other in [
        "OpStore %pd %undef",
        // Of a variable and of shared memory that nothing was stored to.
        "%r = OpLoad %float %own\nOpStore %pd %r",
        "%r = OpLoad %float %ps\nOpStore %pd %r",
        "%c = OpFOrdLessThan %bool %undef %one\n%r = OpSelect %float %c %zero %zero\nOpStore %pd %r",
    ] {
        is_not_proved(REALS, zero, other);
    }
    for other in [
        "%r = OpShiftLeftLogical %uint %n1 %n32\nOpStore %pe %r",
        "%r = OpShiftLeftLogical %uint %i %n32\nOpStore %pe %r",
        "%r = OpShiftRightLogical %uint %i %n64\nOpStore %pe %r",
        "%r = OpShiftRightLogical %uint %x %n32\nOpStore %pe %r",
        "%r = OpBitFieldUExtract %uint %n1 %n31 %n2\nOpStore %pe %r",
        "%r = OpUDiv %uint %n1 %n0\nOpStore %pe %r",
        "%r = OpUMod %uint %i %n0\nOpStore %pe %r",
    ] {
        is_not_proved(REALS, none, other);
    }
    // What the original leaves undefined is not asked of the lowered module where it does not matter.
    let chosen = "%s = OpShiftLeftLogical %uint %i %n32\n%c = OpIEqual %bool %x %x\n%r = OpSelect %uint %c %j %s\nOpStore %pe %r";
    is_proved(REALS, "OpStore %pe %j", chosen);
}

/// A barrier orders the memory that its semantics name.
#[test]
fn barriers_order_what_they_say() {
    let exchanged = |barrier: &str| format!("OpStore %ps %a\n{barrier}\n%r = OpLoad %float %pt\nOpStore %pd %r");
    let whole = exchanged("OpControlBarrier %n2 %n2 %n264");
    is_proved(REALS, "OpStore %pd %b", &whole);
    is_proved(REALS, &whole, &exchanged("OpMemoryBarrier %n2 %n264\nOpControlBarrier %n2 %n2 %n0"));
    for wrong in ["", "OpMemoryBarrier %n2 %n264", "OpControlBarrier %n2 %n2 %n0", "OpControlBarrier %n2 %n2 %n256"] {
        is_not_proved(REALS, "OpStore %pd %b", &exchanged(wrong));
    }
}

/// Zeros have signs, and what is no number differs, where operations round.
#[test]
fn strict_proofs_tell_zeros_and_nan_apart() {
    let store = |body: &str| format!("{body}\nOpStore %pd %r");
    for (one, other) in [
        ("%r = OpFMul %float %a %zero", "%r = OpFMul %float %a %minus_zero"),
        ("%r = OpFAdd %float %a %zero", "%r = OpFAdd %float %a %minus_zero"),
        ("%r = OpFAdd %float %a %zero", "%r = OpCopyObject %float %a"),
        ("%r = OpExtInst %float %glsl NMax %a %b", "%r = OpExtInst %float %glsl FMax %a %b"),
        ("%r = OpFSub %float %a %a", "%r = OpCopyObject %float %zero"),
        ("%r = OpFMul %float %a %zero", "%r = OpCopyObject %float %zero"),
        ("%t = OpFMul %float %a %b\n%r = OpFDiv %float %t %b", "%r = OpCopyObject %float %a"),
    ] {
        is_not_proved(Arithmetic::Strict, &store(one), &store(other));
    }
    is_proved(Arithmetic::Strict, &store("%r = OpFSub %float %a %zero"), &store("%r = OpFAdd %float %a %minus_zero"));
}

/// Comparisons of what is no number go both ways, whatever the mode.
#[test]
fn ordered_and_unordered_comparisons_differ() {
    let choice = |op: &str| format!("%c = {op} %bool %a %b\n%r = OpSelect %float %c %a %one\nOpStore %pd %r");
    for mode in MODES {
        is_not_proved(mode, &choice("OpFOrdLessThan"), &choice("OpFUnordLessThan"));
        is_not_proved(mode, &choice("OpFOrdLessThan"), &choice("OpFOrdLessThanEqual"));
    }
}

/// A sum that saturates is one that was computed with its overflow, and nothing like it.
#[test]
fn sums_saturate_in_one_way() {
    let signed = |x: &str, limits: &str, total: &str| {
        format!(
            "%t = OpIAdd %uint %i %j\n%u = {total}\n%p = OpBitwiseXor %uint %i %u\n%q = OpBitwiseXor %uint %j %u\n\
             %both = OpBitwiseAnd %uint %p %q\n%over = OpSLessThan %bool %both %n0\n%negative = OpSLessThan %bool {x} %n0\n\
             %limit = OpSelect %uint %negative {limits}\n%r = OpSelect %uint %over %limit %u\nOpStore %pe %r"
        )
    };
    let (limits, same) = ("%top %below", "OpCopyObject %uint %t");
    let right = signed("%i", limits, same);
    is_proved(REALS, &right, &signed("%j", limits, same));
    // 0 and another number do not overflow, so that the sign of 0 does not matter here; in the sum it does.
    let at_most = |compared: &str| {
        let other = right
            .replace(&format!("OpSLessThan %bool {compared} %n0"), &format!("OpSLessThanEqual %bool {compared} %n0"));
        assert_ne!(other, right);
        other
    };
    is_proved(REALS, &right, &at_most("%i"));
    is_not_proved(REALS, &right, &at_most("%both"));
    is_not_proved(REALS, &right, &signed("%t", limits, same));
    is_not_proved(REALS, &right, &signed("%i", "%below %top", same));
    is_not_proved(REALS, &right, &signed("%i", "%top %most", same));
    is_not_proved(REALS, &right, &signed("%i", limits, "OpIAdd %uint %t %n1"));
    is_not_proved(REALS, &right, "%t = OpIAdd %uint %i %j\nOpStore %pe %t");
    let unsigned = |x: &str, limit: &str| {
        format!(
            "%t = OpIAdd %uint %i %j\n%over = OpULessThan %bool %t {x}\n%r = OpSelect %uint %over {limit} %t\nOpStore %pe %r"
        )
    };
    is_proved(REALS, &unsigned("%i", "%most"), &unsigned("%j", "%most"));
    is_not_proved(REALS, &unsigned("%i", "%most"), &unsigned("%n2", "%most"));
    is_not_proved(REALS, &unsigned("%i", "%most"), &unsigned("%i", "%below"));
    is_not_proved(REALS, &unsigned("%i", "%most"), &right);
}

/// A narrow sum in a wider integer is clamped; a sum that may wrap is not the same, and a number of fewer bits is not clamped.
#[test]
fn narrow_sums_are_clamped() {
    let clamp = "%above = OpSGreaterThan %bool %t %most16\n%s = OpSelect %uint %above %most16 %t\n\
                 %below_it = OpSLessThan %bool %s %least16\n%r = OpSelect %uint %below_it %least16 %s\nOpStore %pe %r";
    let sum = |bits: &str| {
        format!(
            "%p = OpBitFieldSExtract %uint %i %n0 {bits}\n%q = OpBitFieldSExtract %uint %j %n0 {bits}\n%t = OpIAdd %uint %p %q\n"
        )
    };
    let narrow = format!("{}{clamp}", sum("%n16"));
    is_proved(REALS, &narrow, &narrow.replace("OpIAdd %uint %p %q", "OpIAdd %uint %q %p"));
    is_not_proved(REALS, &narrow, &format!("{}OpStore %pe %t", sum("%n16")));
    is_not_proved(REALS, &narrow, &format!("{}{clamp}", sum("%n31")));
    let wrapped = format!("{}%w = OpBitFieldSExtract %uint %t %n0 %n16\nOpStore %pe %w", sum("%n16"));
    is_not_proved(REALS, &narrow, &wrapped);
    let one = |bits: &str| format!("%t = OpBitFieldSExtract %uint %i %n0 {bits}\n");
    is_proved(REALS, &format!("{}OpStore %pe %t", one("%n8")), &format!("{}{clamp}", one("%n8")));
    is_proved(REALS, &format!("{}OpStore %pe %t", one("%n16")), &format!("{}{clamp}", one("%n16")));
    is_not_proved(REALS, &format!("{}OpStore %pe %t", one("%n31")), &format!("{}{clamp}", one("%n31")));
    let unsigned = one("%n16").replace("SExtract", "UExtract");
    is_not_proved(REALS, &format!("{unsigned}OpStore %pe %t"), &format!("{unsigned}{clamp}"));
}

/// Invocations that agree for the data of the case alone.
#[test]
fn agreement_by_chance_proves_nothing() {
    // F[0] and F[1] are equal, I[0] and I[1] too.
    is_not_proved(REALS, "OpStore %pd %a", "OpStore %pd %b");
    is_not_proved(
        REALS,
        "OpStore %pe %i",
        "%q = OpAccessChain %p_uint %I %n0 %y\n%k = OpLoad %uint %q\nOpStore %pe %k",
    );
}

/// Returns the verdict where small integers are the data.
fn of_small_integers(arithmetic: Arithmetic, one: &str, other: &str) -> Verdict {
    let mut case = CASE.to_owned();
    for values in ["{ values = [1.5, 1.5, 2.0, 4.0] }", "{ values = [3, 3, 5, 6] }"] {
        assert!(case.contains(values), "{values}");
        case = case.replace(values, "\"small-ints\"");
    }
    Pairs { case: &case, ..PAIRS }.proof(arithmetic, one, other).verdict
}

/// A number that is rounded once more is another one: numbers with many digits show it.
#[test]
fn roundings_are_refuted() {
    let plain = "%r = OpFMul %float %a %b\nOpStore %pd %r";
    let rounded = "%t = OpFMul %float %a %b\n%h = OpFConvert %half %t\n%r = OpFConvert %float %h\nOpStore %pd %r";
    let of = of_small_integers;
    for mode in [Arithmetic::Rounding, Arithmetic::Strict] {
        assert!(matches!(of(mode, plain, rounded), Verdict::Refuted(why) if why.contains("many digits")));
        assert!(matches!(of(mode, rounded, plain), Verdict::Refuted(_)));
    }
    assert_eq!(of(REALS, plain, rounded), Verdict::Proved);
}

/// Numbers of all magnitudes show limits: of sums that saturate, and of formats with fewer exponents.
#[test]
fn other_limits_are_refuted() {
    // Few pairs of numbers have a sum that overflows.
    let sums = |limits: &str| {
        let sum = |k: u32| {
            format!(
                "%at{k} = OpIAdd %uint %at{before} %n1\n%pj{k} = OpAccessChain %p_uint %I %n0 %at{k}\n%j{k} = OpLoad %uint %pj{k}\n\
                 %t{k} = OpIAdd %uint %small %j{k}\n%p{k} = OpBitwiseXor %uint %small %t{k}\n\
                 %q{k} = OpBitwiseXor %uint %j{k} %t{k}\n%both{k} = OpBitwiseAnd %uint %p{k} %q{k}\n\
                 %over{k} = OpSLessThan %bool %both{k} %n0\n%limit{k} = OpSelect %uint %negative {limits}\n\
                 %r{k} = OpSelect %uint %over{k} %limit{k} %t{k}\n%all{k} = OpBitwiseXor %uint %all{before} %r{k}\n",
                before = k - 1
            )
        };
        let sums: String = (1..8).map(sum).collect();
        format!(
            "%small = OpBitFieldSExtract %uint %i %n0 %n8\n%negative = OpSLessThan %bool %small %n0\n\
             %at0 = OpCopyObject %uint %n0\n%all0 = OpCopyObject %uint %n0\n{sums}OpStore %pe %all7"
        )
    };
    let right = sums("%top %below");
    assert_eq!(of_small_integers(REALS, &right, &right), Verdict::Proved);
    for limits in ["%top %top", "%below %below", "%below %top"] {
        let verdict = of_small_integers(REALS, &right, &sums(limits));
        assert!(matches!(&verdict, Verdict::Refuted(why) if why.contains("magnitudes")), "{limits}: {verdict:?}");
    }
    // Each number of bf16 that f16 has room for is one of f16.
    let once = "%h = OpFConvert %bfloat %a\n%v = OpFConvert %float %h\n%r = OpFMul %float %v %b\nOpStore %pd %r";
    let twice = once
        .replace("FMul %float %v", "FMul %float %z")
        .replace("%r =", "%n = OpFConvert %half %v\n%z = OpFConvert %float %n\n%r =");
    let verdict = of_small_integers(Arithmetic::Rounding, once, &twice);
    assert!(matches!(&verdict, Verdict::Refuted(why) if why.contains("magnitudes")), "{verdict:?}");
}
