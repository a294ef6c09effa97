//! Every kind of undefined behavior that the interpreter reports, and that nothing is reported where nothing is
//! wrong. The shader is `tests/interp/ub.comp`; spec constant 0 chooses.

mod interp_common;

use coop_exec::interp::{Config, Finding, FindingKind, Placement, Reconvergence};
use coop_ir::Op;
use interp_common::*;

fn findings(case: i64, config: Config) -> (Vec<Finding>, Vec<Vec<u8>>) {
    let mut module = module("ub.spv");
    if case == 14 {
        // The compiler would not have it: B gets another number of rows.
        let constant = |r: &coop_ir::InstRef| module.inst(*r).op == Op::Constant && module.inst(*r).word(0) == Some(8);
        let eight = module.globals.iter().find(|r| constant(r)).and_then(|r| module.inst(*r).result).unwrap();
        let one = |r: &coop_ir::InstRef| module.inst(*r).op == Op::Constant && module.inst(*r).word(0) == Some(1);
        let use_b = module.globals.iter().find(|r| one(r)).and_then(|r| module.inst(*r).result).unwrap();
        let types: Vec<_> = module.globals_with(Op::TypeCooperativeMatrixKHR).collect();
        let b = types.into_iter().find(|r| module.inst(*r).id(4) == Some(use_b)).unwrap();
        module.inst_mut(b).operands[2] = eight.into();
    }
    let mut input = vec![0.0; 256];
    (input[1], input[7]) = (60.0, 7.0);
    let config = Config { step_budget: 20_000, ..config };
    let spec = [(0, case)];
    let (out, report) = run(&module, &spec, &[f32s(input), f32s(vec![99.0; 256])], config);
    (report.findings, out)
}

/// The one finding of a case.
fn only(case: i64) -> Finding {
    let (mut found, _) = findings(case, Config::default());
    let text: Vec<String> = found.iter().map(|f| f.to_string()).collect();
    assert_eq!(found.len(), 1, "case {case}: {}", text.join("\n"));
    found.remove(0)
}

fn check(case: i64, kind: FindingKind, parts: &[&str]) {
    let finding = only(case);
    let text = finding.to_string();
    assert_eq!(finding.kind, kind, "case {case}: {text}");
    for part in parts {
        assert!(text.contains(part), "case {case}: '{part}' is not in: {text}");
    }
}

#[test]
fn matrix_instructions_by_some_invocations() {
    let parts = [
        "OpCooperativeMatrixLoadKHR",
        "7 of the 32 invocations of subgroup 0: 0 to 6; not by 7 to 31",
        "OpBranchConditional",
        "sent invocations 0 and 7 to different blocks",
        "built-in LocalInvocationIndex, buffer %I",
    ];
    let (found, _) = findings(1, Config::default());
    let load = found.iter().find(|f| f.message.contains("OpCooperativeMatrixLoadKHR")).unwrap();
    let text = load.to_string();
    assert!(found.iter().all(|f| f.kind == FindingKind::NonUniformExecution), "{text}");
    for part in parts {
        assert!(text.contains(part), "'{part}' is not in: {text}");
    }
}

#[test]
fn operands_that_differ() {
    // Invocation 40 is in the second subgroup, so it is that one's stride which differs.
    check(2, FindingKind::NonUniformOperand, &["the stride differs: 0x10 in invocation 32, 0x8 in invocation 40"]);
    // Its subgroups store what came of it in one place.
    let (found, _) = findings(13, Config::default());
    let kinds: Vec<_> = found.iter().map(|f| f.kind).collect();
    assert_eq!(kinds, [FindingKind::NonUniformOperand, FindingKind::DataRace], "{found:?}");
    assert!(found[0].message.contains("the value differs"), "{}", found[0]);
}

#[test]
fn accesses_out_of_bounds() {
    check(
        3,
        FindingKind::OutOfBounds,
        &["invocation 16 writes bytes 1024 to 1027 of buffer 1, which has 1024 bytes", "48 times"],
    );
    check(4, FindingKind::OutOfBounds, &["invocation 4 writes an array", "not below its length"]);
    check(17, FindingKind::OutOfBounds, &["the matrix reads bytes 1024 to 1027 of buffer 0"]);
}

/// A pointer outside its array has no address, so nothing is said of its alignment.
#[test]
fn matrices_outside_of_an_array_are_not_misaligned() {
    let text = "OpCapability Shader
        OpCapability VulkanMemoryModel
        OpCapability CooperativeMatrixKHR
        OpExtension \"SPV_KHR_cooperative_matrix\"
        OpMemoryModel Logical Vulkan
        OpEntryPoint GLCompute %main \"main\" %data
        OpExecutionMode %main LocalSize 32 1 1
        OpDecorate %array ArrayStride 4
        OpDecorate %block Block
        OpMemberDecorate %block 0 Offset 0
        OpDecorate %data DescriptorSet 0
        OpDecorate %data Binding 0
        %void = OpTypeVoid
        %nothing = OpTypeFunction %void
        %uint = OpTypeInt 32 0
        %float = OpTypeFloat 32
        %c0 = OpConstant %uint 0
        %c2 = OpConstant %uint 2
        %c3 = OpConstant %uint 3
        %c8 = OpConstant %uint 8
        %c64 = OpConstant %uint 64
        %array = OpTypeArray %float %c64
        %block = OpTypeStruct %array
        %to_block = OpTypePointer StorageBuffer %block
        %to_float = OpTypePointer StorageBuffer %float
        %data = OpVariable %to_block StorageBuffer
        %matrix = OpTypeCooperativeMatrixKHR %float %c3 %c8 %c8 %c2
        %main = OpFunction %void None %nothing
        %entry = OpLabel
        %first = OpAccessChain %to_float %data %c0 %c64
        %second = OpAccessChain %to_float %data %c0 %c64
        %some = OpCooperativeMatrixLoadKHR %matrix %first %c0 %c8
        OpCooperativeMatrixStoreKHR %second %some %c0 %c8
        OpReturn
        OpFunctionEnd";
    let module = coop_ir::text::parse(text).expect("the module parses");
    let (_, report) = run(&module, &[], &[vec![0; 256]], Config::default());
    let found: Vec<FindingKind> = report.findings.iter().map(|f| f.kind).collect();
    assert!(!found.is_empty() && found.iter().all(|k| *k != FindingKind::Misaligned), "{found:?}");
}

#[test]
fn undefined_values_that_matter() {
    check(5, FindingKind::Uninitialised, &["an undefined value is written to byte 0 of buffer 1"]);
    check(12, FindingKind::Uninitialised, &["undefined value is written"]);
    check(15, FindingKind::Uninitialised, &["the condition of a branch is undefined in invocation 0"]);
}

#[test]
fn races() {
    check(6, FindingKind::DataRace, &["invocation 0 reads byte 4 of %s", "invocation 1 wrote it here"]);
    let (found, _) = findings(7, Config::default());
    let text = found[0].to_string();
    assert_eq!(found[0].kind, FindingKind::DataRace, "{text}");
    assert!(text.contains("a matrix instruction of subgroup 0 wrote it here"), "{text}");
}

#[test]
fn nothing_is_wrong_with_barriers_between() {
    // Both subgroups store the same matrix at one place: that is a race still.
    let (found, out) = findings(16, Config::default());
    assert!(found.iter().all(|f| f.message.contains("OpCooperativeMatrixStoreKHR")), "{found:?}");
    let wanted: Vec<f32> = (0..64).map(|l| (l ^ 1) as f32).collect();
    assert_eq!(from_f32s(&out[1])[..64], wanted);
    let (found, _) = findings(0, Config::default());
    assert_eq!(found, []);
}

/// A module whose two subgroups store matrices of `value` over each other in a buffer.
fn overlapping_stores(value: &str, between: &str) -> Vec<Finding> {
    let text = format!(
        "OpCapability Shader\nOpCapability GroupNonUniform\nOpCapability VulkanMemoryModel\nOpCapability CooperativeMatrixKHR\n\
        OpExtension \"SPV_KHR_cooperative_matrix\"\nOpMemoryModel Logical Vulkan\n\
        OpEntryPoint GLCompute %main \"main\" %subgroup %out\nOpExecutionMode %main LocalSize 64 1 1\n\
        OpDecorate %subgroup BuiltIn SubgroupId\nOpDecorate %array ArrayStride 4\nOpDecorate %block Block\n\
        OpMemberDecorate %block 0 Offset 0\nOpDecorate %out DescriptorSet 0\nOpDecorate %out Binding 0\n\
        %void = OpTypeVoid\n%bool = OpTypeBool\n%uint = OpTypeInt 32 0\n%float = OpTypeFloat 32\n\
        %c0 = OpConstant %uint 0\n%c2 = OpConstant %uint 2\n%c3 = OpConstant %uint 3\n%c16 = OpConstant %uint 16\n\
        %c24648 = OpConstant %uint 24648\n%two = OpConstant %float 2\n\
        %mat = OpTypeCooperativeMatrixKHR %float %c3 %c16 %c16 %c2\n%array = OpTypeRuntimeArray %float\n\
        %block = OpTypeStruct %array\n%to_block = OpTypePointer StorageBuffer %block\n\
        %to_float = OpTypePointer StorageBuffer %float\n%to_uint = OpTypePointer Input %uint\n\
        %out = OpVariable %to_block StorageBuffer\n%subgroup = OpVariable %to_uint Input\n%fn = OpTypeFunction %void\n\
        %main = OpFunction %void None %fn\n%entry = OpLabel\n%s = OpLoad %uint %subgroup\n\
        %own = OpConvertUToF %float %s\n%ten = OpFAdd %float %own %two\n%m = OpCompositeConstruct %mat %{value}\n\
        %p = OpAccessChain %to_float %out %c0 %c0\n\
        OpCooperativeMatrixStoreKHR %p %m %c0 %c16 NonPrivatePointer\n{between}\nOpReturn\nOpFunctionEnd\n"
    );
    let module = coop_ir::text::parse(&text).unwrap_or_else(|e| panic!("{e}"));
    run(&module, &[], &[f32s(vec![9.0; 256])], Config::default()).1.findings
}

/// Which of two subgroups comes last decides what a buffer holds, unless both store the same.
#[test]
fn stores_of_subgroups_over_each_other() {
    let found = overlapping_stores("ten", "");
    let [finding] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!(finding.kind, FindingKind::DataRace, "{finding}");
    assert!(finding.message.contains("a matrix instruction of subgroup 1 writes byte"), "{finding}");
    assert!(finding.notes.iter().any(|n| n.1 == "a matrix instruction of subgroup 0 wrote it here"), "{finding}");
    assert_eq!(overlapping_stores("two", ""), []);
    // Something else by one of them, behind a barrier.
    let again = "%n = OpFAdd %mat %m %m\nOpCooperativeMatrixStoreKHR %p %n %c0 %c16 NonPrivatePointer";
    let apart = format!(
        "OpControlBarrier %c2 %c2 %c24648\n%first = OpIEqual %bool %s %c0\nOpSelectionMerge %done None\n\
         OpBranchConditional %first %then %done\n%then = OpLabel\n{again}\nOpBranch %done\n%done = OpLabel"
    );
    assert_eq!(overlapping_stores("two", &apart), []);
}

#[test]
fn loops_without_end() {
    check(8, FindingKind::InfiniteLoop, &["after 20000 instructions", "0 to 63"]);
}

#[test]
fn results_that_depend_on_the_placement() {
    let mut results = Vec::new();
    for placement in Placement::ALL {
        let (found, out) = findings(9, Config { placement, ..Config::default() });
        let kinds: Vec<_> = found.iter().map(|f| f.kind).collect();
        if placement == Placement::Replicated {
            assert_eq!(kinds, [FindingKind::Placement], "{placement:?}");
        } else {
            assert_eq!(kinds, [], "{placement:?}");
        }
        results.push(out[1].clone());
    }
    assert!(results[1..].iter().any(|r| *r != results[0]));
}

#[test]
fn the_rest() {
    check(10, FindingKind::Undefined, &["OpUDiv", "divided by zero"]);
    check(11, FindingKind::NonUniformExecution, &["OpControlBarrier", "63 of the 64", "not by 3"]);
    check(14, FindingKind::MatrixSize, &["A is 16x16, B 8x16, C 16x16, the result 16x16"]);
}

/// `OpUnreachable` is told before what the others do without those that came there.
#[test]
fn unreachable_code_that_is_reached() {
    let text = "OpCapability Shader\nOpCapability VulkanMemoryModel\nOpCapability CooperativeMatrixKHR\n\
        OpExtension \"SPV_KHR_cooperative_matrix\"\nOpMemoryModel Logical Vulkan\n\
        OpEntryPoint GLCompute %main \"main\" %index\nOpExecutionMode %main LocalSize 32 1 1\n\
        OpDecorate %index BuiltIn LocalInvocationIndex\n%void = OpTypeVoid\n%bool = OpTypeBool\n\
        %uint = OpTypeInt 32 0\n%float = OpTypeFloat 32\n%c2 = OpConstant %uint 2\n%c3 = OpConstant %uint 3\n\
        %c16 = OpConstant %uint 16\n%one = OpConstant %float 1\n\
        %mat = OpTypeCooperativeMatrixKHR %float %c3 %c16 %c16 %c2\n%ones = OpConstantComposite %mat %one\n\
        %ptr = OpTypePointer Input %uint\n%index = OpVariable %ptr Input\n%fn = OpTypeFunction %void\n\
        %main = OpFunction %void None %fn\n%entry = OpLabel\n%i = OpLoad %uint %index\n\
        %low = OpULessThan %bool %i %c16\nOpSelectionMerge %merge None\nOpBranchConditional %low %merge %never\n\
        %never = OpLabel\nOpUnreachable\n%merge = OpLabel\n%sum = OpFAdd %mat %ones %ones\nOpReturn\nOpFunctionEnd\n";
    let module = coop_ir::text::parse(text).unwrap_or_else(|e| panic!("{e}"));
    for reconvergence in [Reconvergence::Early, Reconvergence::Promised(1)] {
        let (_, report) = run(&module, &[], &[], Config { reconvergence, ..Config::default() });
        let first = &report.findings[0];
        assert_eq!(
            (first.kind, first.count),
            (FindingKind::Unreachable, 1),
            "{reconvergence:?}: {:?}",
            report.findings
        );
        assert!(first.message.contains("OpUnreachable"), "{}", first.message);
    }
}
