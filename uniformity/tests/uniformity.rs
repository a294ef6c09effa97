//! The uniformity of values and blocks, row by row: `docs/uniformity.md` has the table.

use Uniformity::{Divergent, Subgroup, Workgroup};
use coop_ir::constant::{Constants, Specialization};
use coop_ir::{Id, Module, text};
use coop_uniformity::{Analysis, Analyzer, Assumption, Options, Refusal, Uniformity};

/// Returns a module with the given body. `%index`, `%lane` and so on are built-ins, `%n` is unknown and uniform, `%d`
/// differs.
fn module(size: &str, body: &str) -> Module {
    let source = format!(
        "OpCapability Shader
        OpCapability VulkanMemoryModel
        OpCapability CooperativeMatrixKHR
        OpCapability GroupNonUniformArithmetic
        OpCapability GroupNonUniformBallot
        OpExtension \"SPV_KHR_cooperative_matrix\"
        OpMemoryModel Logical Vulkan
        OpEntryPoint GLCompute %main \"main\" %Index %Lane %Sub %Id %Global %Group
        {size}
        OpDecorate %Index BuiltIn LocalInvocationIndex
        OpDecorate %Lane BuiltIn SubgroupLocalInvocationId
        OpDecorate %Sub BuiltIn SubgroupId
        OpDecorate %Id BuiltIn LocalInvocationId
        OpDecorate %Global BuiltIn GlobalInvocationId
        OpDecorate %Group BuiltIn WorkgroupId
        OpDecorate %words ArrayStride 4
        OpDecorate %Block Block
        OpMemberDecorate %Block 0 Offset 0
        OpDecorate %In DescriptorSet 0
        OpDecorate %In Binding 0
        OpDecorate %In NonWritable
        OpDecorate %Out DescriptorSet 0
        OpDecorate %Out Binding 1
        OpDecorate %Push Block
        OpMemberDecorate %Push 0 Offset 0
        OpDecorate %spec SpecId 0
        %void = OpTypeVoid
        %bool = OpTypeBool
        %uint = OpTypeInt 32 0
        %float = OpTypeFloat 32
        %v3uint = OpTypeVector %uint 3
        %v4uint = OpTypeVector %uint 4
        %c0 = OpConstant %uint 0
        %c1 = OpConstant %uint 1
        %c2 = OpConstant %uint 2
        %c3 = OpConstant %uint 3
        %c16 = OpConstant %uint 16
        %c32 = OpConstant %uint 32
        %c64 = OpConstant %uint 64
        %c264 = OpConstant %uint 264
        %spec = OpSpecConstant %uint 7
        %one = OpConstant %float 1
        %mat = OpTypeCooperativeMatrixKHR %float %c3 %c16 %c16 %c2
        %ones = OpConstantComposite %mat %one
        %words = OpTypeRuntimeArray %uint
        %Block = OpTypeStruct %words
        %Push = OpTypeStruct %uint
        %array = OpTypeArray %uint %c3
        %pin = OpTypePointer Input %uint
        %pin3 = OpTypePointer Input %v3uint
        %pblock = OpTypePointer StorageBuffer %Block
        %pword = OpTypePointer StorageBuffer %uint
        %ppush = OpTypePointer PushConstant %Push
        %ppushed = OpTypePointer PushConstant %uint
        %pshared = OpTypePointer Workgroup %uint
        %pf = OpTypePointer Function %uint
        %pfa = OpTypePointer Function %array
        %Index = OpVariable %pin Input
        %Lane = OpVariable %pin Input
        %Sub = OpVariable %pin Input
        %Id = OpVariable %pin3 Input
        %Global = OpVariable %pin3 Input
        %Group = OpVariable %pin3 Input
        %In = OpVariable %pblock StorageBuffer
        %Out = OpVariable %pblock StorageBuffer
        %push = OpVariable %ppush PushConstant
        %Shared = OpVariable %pshared Workgroup
        %fn = OpTypeFunction %void
        %main = OpFunction %void None %fn
        %entry = OpLabel
        %var = OpVariable %pf Function
        %arr = OpVariable %pfa Function
        %index = OpLoad %uint %Index
        %lane = OpLoad %uint %Lane
        %sub = OpLoad %uint %Sub
        %id3 = OpLoad %v3uint %Id
        %global3 = OpLoad %v3uint %Global
        %group3 = OpLoad %v3uint %Group
        %pp = OpAccessChain %ppushed %push %c0
        %n = OpLoad %uint %pp
        %dp = OpAccessChain %pword %In %c0 %index
        %d = OpLoad %uint %dp
        OpBranch %work
        %work = OpLabel
        {body}
        OpReturn
        OpFunctionEnd\n"
    );
    text::parse(&source).unwrap_or_else(|e| panic!("{e}\n{source}"))
}

fn analyze(module: &Module, subgroup: Option<u32>) -> Analysis {
    let constants = Constants::new(module, &Specialization::new());
    let analyzer = Analyzer::new(module, &constants);
    let entry = analyzer.entry_points().remove(0);
    let ask = |facts| {
        let options = Options { subgroup_size: subgroup, facts, ..Options::default() };
        analyzer.analyze(&entry, options).expect("it can be analysed")
    };
    // Values that are not needed are analyzed only on request, which does not change the others.
    let (whole, part) = (ask(true), ask(false));
    assert_eq!(whole.divergences, part.divergences);
    assert_eq!(whole.assumed, part.assumed);
    whole
}

const SIZE: &str = "OpExecutionMode %main LocalSize 16 8 1";

/// Returns the uniformity of `%900` in a workgroup of 16 x 8 with subgroups of 32.
fn degree(body: &str) -> Uniformity {
    analyze(&module(SIZE, body), Some(32)).value(Id::new(900).expect("not 0"))
}

#[test]
fn values() {
    let rows = [
        ("%900 = OpIAdd %uint %n %c1", Workgroup),
        ("%900 = OpIAdd %uint %n %spec", Workgroup),
        ("%900 = OpCopyObject %uint %sub", Subgroup),
        ("%900 = OpIAdd %uint %n %index", Divergent),
        ("%900 = OpIMul %uint %d %c0", Workgroup),
        ("%900 = OpCompositeExtract %uint %group3 1", Workgroup),
        // Shapes.
        ("%900 = OpUDiv %uint %index %c32", Subgroup),
        ("%900 = OpUDiv %uint %index %c16", Divergent),
        ("%900 = OpShiftRightLogical %uint %index %c3", Divergent),
        ("%900 = OpULessThan %bool %index %c64", Subgroup),
        ("%900 = OpCompositeExtract %uint %id3 1", Divergent),
        ("%1 = OpCompositeExtract %uint %id3 1\n%900 = OpUDiv %uint %1 %c2", Subgroup),
        ("%900 = OpCompositeExtract %uint %id3 2", Workgroup),
        ("%900 = OpCompositeExtract %uint %global3 2", Workgroup),
        ("%1 = OpUMod %uint %index %c16\n%2 = OpUDiv %uint %1 %c16\n%900 = OpIAdd %uint %2 %n", Workgroup),
        ("%1 = OpIAdd %uint %n %index\n%900 = OpISub %uint %1 %index", Workgroup),
        ("%1 = OpCompositeExtract %uint %global3 0\n%900 = OpUDiv %uint %1 %c16", Workgroup),
        ("%1 = OpCompositeExtract %uint %global3 0\n%900 = OpUDiv %uint %1 %c3", Divergent),
        ("%1 = OpUDiv %uint %lane %c32\n%900 = OpIAdd %uint %1 %n", Workgroup),
        // Memory.
        ("%1 = OpAccessChain %pword %In %c0 %n\n%900 = OpLoad %uint %1", Workgroup),
        ("%1 = OpAccessChain %pword %In %c0 %sub\n%900 = OpLoad %uint %1", Subgroup),
        ("%1 = OpAccessChain %pword %In %c0 %lane\n%900 = OpLoad %uint %1", Divergent),
        ("%1 = OpAccessChain %pword %Out %c0 %n\nOpStore %1 %d\n%900 = OpLoad %uint %1", Workgroup),
        ("%1 = OpAccessChain %pword %Out %c0 %n\n%900 = OpAtomicLoad %uint %1 %c1 %c0", Divergent),
        ("OpStore %var %d\nOpStore %var %n\n%900 = OpLoad %uint %var", Workgroup),
        ("OpStore %var %n\nOpStore %var %d\n%900 = OpLoad %uint %var", Divergent),
        (
            "%1 = OpAccessChain %pf %arr %c0\n%2 = OpAccessChain %pf %arr %c1\nOpStore %1 %n\nOpStore %2 %d
             %900 = OpLoad %uint %1",
            Workgroup,
        ),
        (
            "%1 = OpAccessChain %pf %arr %c0\n%2 = OpAccessChain %pf %arr %lane\nOpStore %1 %n\nOpStore %2 %n
             %900 = OpLoad %uint %1",
            Divergent,
        ),
        // Subgroups.
        ("%900 = OpGroupNonUniformBroadcastFirst %uint %c3 %d", Subgroup),
        ("%900 = OpGroupNonUniformBroadcastFirst %uint %c3 %n", Workgroup),
        ("%900 = OpGroupNonUniformIAdd %uint %c3 Reduce %d", Subgroup),
        ("%900 = OpGroupNonUniformIAdd %uint %c3 Reduce %n", Subgroup),
        ("%900 = OpGroupNonUniformUMax %uint %c3 Reduce %n", Workgroup),
        ("%900 = OpGroupNonUniformIAdd %uint %c3 InclusiveScan %n", Divergent),
        ("%900 = OpGroupNonUniformElect %bool %c3", Divergent),
        ("%900 = OpGroupNonUniformShuffle %uint %c3 %d %n", Subgroup),
        ("%900 = OpGroupNonUniformShuffle %uint %c3 %d %lane", Divergent),
        ("%900 = OpGroupNonUniformShuffleXor %uint %c3 %sub %lane", Subgroup),
        // Matrices.
        ("%900 = OpCompositeExtract %float %ones 3", Workgroup),
        ("%1 = OpFAdd %mat %ones %ones\n%900 = OpCompositeExtract %float %1 0", Workgroup),
        ("%900 = OpCooperativeMatrixLengthKHR %uint %mat", Workgroup),
    ];
    for (body, wanted) in rows {
        assert_eq!(degree(body), wanted, "{body}");
    }
}

/// Returns a selection on `condition` that stores 1 or 2, with a phi.
fn selection(condition: &str) -> String {
    format!(
        "%c = {condition}
        OpSelectionMerge %m None
        OpBranchConditional %c %a %b
        %a = OpLabel
        OpStore %var %c1
        OpBranch %m
        %b = OpLabel
        OpStore %var %c2
        OpBranch %m
        %m = OpLabel
        %900 = OpLoad %uint %var"
    )
}

#[test]
fn joins() {
    assert_eq!(degree(&selection("OpULessThan %bool %n %c2")), Workgroup);
    assert_eq!(degree(&selection("OpULessThan %bool %sub %c2")), Subgroup);
    assert_eq!(degree(&selection("OpULessThan %bool %d %c2")), Divergent);
    // The condition is always true.
    assert_eq!(degree(&selection("OpULessThan %bool %lane %c64")), Workgroup);
    assert_eq!(degree(&selection("OpULessThan %bool %index %c264")), Workgroup);
}

/// Returns a loop that runs while `condition` holds.
fn repetition(condition: &str) -> String {
    format!(
        "OpBranch %h
        %h = OpLabel
        %i = OpPhi %uint %c0 %work %more %next
        %same = OpPhi %uint %n %work %same %next
        OpLoopMerge %out %next None
        OpBranch %check
        %check = OpLabel
        %c = {condition}
        OpBranchConditional %c %body %out
        %body = OpLabel
        %inside = OpIAdd %uint %i %n
        OpBranch %next
        %next = OpLabel
        %more = OpIAdd %uint %i %c1
        OpBranch %h
        %out = OpLabel"
    )
}

#[test]
fn values_behind_a_loop() {
    let left =
        |condition: &str, value: &str| degree(&format!("{}\n%900 = OpIAdd %uint {value} %c1", repetition(condition)));
    assert_eq!(left("OpULessThan %bool %i %n", "%i"), Workgroup);
    assert_eq!(left("OpULessThan %bool %i %sub", "%i"), Subgroup);
    assert_eq!(left("OpULessThan %bool %i %d", "%i"), Divergent);
    // The value does not change between iterations.
    assert_eq!(left("OpULessThan %bool %i %d", "%same"), Workgroup);
}

#[test]
fn values_inside_of_a_loop() {
    let body = repetition("OpULessThan %bool %i %d").replace("%inside =", "%900 =");
    assert_eq!(degree(&body), Workgroup);
}

#[test]
fn blocks() {
    let source = selection("OpULessThan %bool %sub %c2").replace("%a", "%901").replace("%m", "%902");
    let m = module(SIZE, &source);
    let analysis = analyze(&m, Some(32));
    assert_eq!(analysis.block(Id::new(901).expect("not 0")), Subgroup);
    assert_eq!(analysis.block(Id::new(902).expect("not 0")), Workgroup);
    assert!(!analysis.is_stale(&m));
}

#[test]
fn unknown_sizes() {
    let of =
        |size: &str, subgroup, body: &str| analyze(&module(size, body), subgroup).value(Id::new(900).expect("not 0"));
    let halves = "%900 = OpUDiv %uint %index %c16";
    assert_eq!(of(SIZE, Some(16), halves), Subgroup);
    assert_eq!(of(SIZE, Some(8), halves), Subgroup);
    assert_eq!(of(SIZE, Some(64), halves), Divergent);
    // Everything is uniform over a workgroup of one invocation.
    let single = "OpExecutionMode %main LocalSize 1 1 1";
    assert_eq!(of(single, Some(32), "%900 = OpUDiv %uint %index %c32"), Workgroup);
    assert_eq!(of(single, Some(32), "%900 = OpCompositeExtract %uint %id3 1"), Workgroup);
    assert_eq!(of(single, Some(32), "%900 = OpULessThan %bool %lane %c32"), Workgroup);
}

#[test]
fn entry_points_without_a_function() {
    let m = module(SIZE, "%900 = OpCopyObject %uint %n");
    let constants = Constants::new(&m, &Specialization::new());
    let analyzer = Analyzer::new(&m, &constants);
    let mut entry = analyzer.entry_points().remove(0);
    entry.function = Id::new(899).expect("not 0");
    assert_eq!(analyzer.analyze(&entry, Options::default()).err(), Some(Refusal::NoFunction));
}

/// Returns the assumptions of the instructions that must be executed together; there are no divergences.
fn assumed(size: &str, body: &str) -> Vec<Assumption> {
    let analysis = analyze(&module(size, body), Some(32));
    assert!(analysis.divergences.is_empty(), "{:?}", analysis.divergences);
    let mut all: Vec<Assumption> = analysis.assumed.iter().map(|a| a.0).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// The workgroup diverges by subgroup. A reduction within a subgroup is still right if the subgroup stays together.
#[test]
fn diverged_subgroups_rest_on_reconvergence() {
    let body = "OpStore %var %c1
        %c = OpULessThan %bool %sub %c2
        OpSelectionMerge %m None
        OpBranchConditional %c %a %m
        %a = OpLabel
        %sum = OpGroupNonUniformIAdd %uint %c3 Reduce %d
        OpStore %var %sum
        OpBranch %m
        %m = OpLabel
        %stride = OpLoad %uint %var
        %from = OpAccessChain %pword %In %c0 %c0
        %900 = OpCooperativeMatrixLoadKHR %mat %from %c0 %stride";
    assert_eq!(assumed(SIZE, body), [Assumption::Reconvergence]);
    for mode in ["SubgroupUniformControlFlowKHR", "MaximallyReconvergesKHR"] {
        assert_eq!(assumed(&format!("{SIZE}\nOpExecutionMode %main {mode}"), body), []);
    }
}

/// Returns functions that call the next one twice, too many to follow all calls; the last has `body`.
fn tower(body: &str) -> String {
    let calls = |n: u32| format!("%l{n}a = OpFunctionCall %void %f{n}\n%l{n}b = OpFunctionCall %void %f{n}\n");
    let function = |n: u32, body: &str| {
        format!("OpReturn\nOpFunctionEnd\n%f{n} = OpFunction %void None %fn\n%e{n} = OpLabel\n{body}")
    };
    (0..40).map(|n| function(n, &calls(n + 1))).chain([function(40, body)]).collect()
}

/// A call that is not followed may write anything, so a read of shared memory behind it is as uncertain as if the write
/// stood there.
#[test]
fn calls_that_are_not_followed_may_write() {
    let read = |call: &str, last: &str| {
        let body = format!(
            "OpStore %Shared %c1
            OpControlBarrier %c2 %c2 %c264
            {call}
            %stride = OpLoad %uint %Shared
            %from = OpAccessChain %pword %In %c0 %c0
            %900 = OpCooperativeMatrixLoadKHR %mat %from %c0 %stride
            OpControlBarrier %c2 %c2 %c264
            {}",
            tower(last)
        );
        let m = module(SIZE, &body);
        let analysis = analyze(&m, Some(32));
        (analysis.unfollowed.is_empty(), analysis.assumed.iter().any(|a| a.0 == Assumption::NoRace))
    };
    let call = "%l = OpFunctionCall %void %f0";
    assert_eq!(read("", "OpStore %Shared %index"), (true, false));
    assert_eq!(read(call, "OpStore %Shared %c2"), (false, true));
}

#[test]
fn entry_points_with_collectives() {
    let asked = |body: &str| {
        let m = module(SIZE, body);
        let constants = Constants::new(&m, &Specialization::new());
        let analyzer = Analyzer::new(&m, &constants);
        let entry = analyzer.entry_points().remove(0);
        (analyzer.has_collectives(&entry), analyzer.is_recursive(&entry))
    };
    assert_eq!(asked("%900 = OpCopyObject %uint %n"), (false, false));
    assert_eq!(asked("OpControlBarrier %c2 %c2 %c264"), (true, false));
    assert_eq!(asked("%900 = OpFAdd %mat %ones %ones"), (true, false));
    assert_eq!(asked("%900 = OpCompositeExtract %float %ones 0"), (true, false));
    let called = |inside: &str| {
        format!(
            "%1 = OpFunctionCall %void %f\nOpReturn\nOpFunctionEnd\n%f = OpFunction %void None %fn\n%fe = OpLabel\n{inside}"
        )
    };
    assert_eq!(asked(&called("OpControlBarrier %c2 %c2 %c264")), (true, false));
    assert_eq!(asked(&called("%900 = OpFunctionCall %void %f")), (false, true));
}
