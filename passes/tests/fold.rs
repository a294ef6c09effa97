//! Branches that constants decide: what of a shader is left, and that it is well formed.

use coop_ir::constant::SpecValue;
use coop_ir::{Module, Op, text};
use coop_passes::{Lanes, Options, Report, Target, lower_with};

/// A shader with the body of its main function, and what stands in front of that.
fn shader(globals: &str, body: &str) -> String {
    format!(
        "OpCapability Shader
         OpCapability VulkanMemoryModel
         OpCapability CooperativeMatrixKHR
         OpExtension \"SPV_KHR_cooperative_matrix\"
         OpMemoryModel Logical Vulkan
         OpEntryPoint GLCompute %main \"main\" %out %shared
         OpExecutionMode %main LocalSize 8 1 1
         OpDecorate %out DescriptorSet 0
         OpDecorate %out Binding 0
         OpDecorate %block Block
         OpMemberDecorate %block 0 Offset 0
         OpDecorate %mode SpecId 3
         OpDecorate %other SpecId 4
         %void = OpTypeVoid
         %nothing = OpTypeFunction %void
         %bool = OpTypeBool
         %uint = OpTypeInt 32 0
         %float = OpTypeFloat 32
         %c0 = OpConstant %uint 0
         %c1 = OpConstant %uint 1
         %c2 = OpConstant %uint 2
         %c3 = OpConstant %uint 3
         %c8 = OpConstant %uint 8
         %true = OpConstantTrue %bool
         %mode = OpSpecConstant %uint 7
         %other = OpSpecConstant %uint 9
         %block = OpTypeStruct %uint
         %ptr_block = OpTypePointer StorageBuffer %block
         %ptr_uint = OpTypePointer StorageBuffer %uint
         %ptr_shared = OpTypePointer Workgroup %uint
         %out = OpVariable %ptr_block StorageBuffer
         %shared = OpVariable %ptr_shared Workgroup
         %matrix = OpTypeCooperativeMatrixKHR %float %c3 %c8 %c8 %c2
         %null = OpConstantNull %matrix
         {globals}
         %main = OpFunction %void None %nothing
         %entry = OpLabel
         %sum = OpFAdd %matrix %null %null
         %at = OpAccessChain %ptr_uint %out %c0
         %any = OpLoad %uint %at
         {body}
         OpFunctionEnd"
    )
}

/// The module after folding, as it is where `mode` is given, and the report.
fn folded(source: &str, mode: Option<u64>) -> (Module, Report) {
    let module = text::parse(source).unwrap_or_else(|e| panic!("{e}\n{source}"));
    let mut options =
        Options { lanes: Lanes::LocalIndex, verify_each: true, subgroup_size: Some(8), ..Options::new(Target::Scalar) };
    if let Some(mode) = mode {
        options.spec.set(3, SpecValue::parse(&mode.to_string()).expect("a number"));
    }
    let mut found = None;
    let mut keep = |name: &str, m: &Module| {
        if name.ends_with("-fold") {
            found = Some(m.clone());
        }
    };
    let lowered = lower_with(&module, &options, &mut keep).unwrap_or_else(|e| panic!("{e}\n{source}"));
    let findings = coop_ir::verify::verify(&lowered.module);
    assert!(findings.is_ok(), "{findings:?}");
    (found.expect("the pass ran"), lowered.report)
}

fn count(m: &Module, op: Op) -> usize {
    m.functions.iter().flat_map(|f| f.insts()).filter(|r| m.inst(*r).op == op).count()
}

/// Returns the stored values that are constants.
fn stored(m: &Module) -> Vec<Option<u32>> {
    let stores = m.functions.iter().flat_map(|f| f.insts()).map(|r| m.inst(r)).filter(|i| i.op == Op::Store);
    let value = |id| m.def_inst(id).filter(|i| i.op == Op::Constant).and_then(|i| i.word(0));
    stores.map(|i| i.stored().and_then(value)).collect()
}

const SELECTION: &str = "
    %is = OpIEqual %bool %mode %c3
    OpSelectionMerge %end None
    OpBranchConditional %is %yes %no
    %yes = OpLabel
    %one = OpIAdd %uint %c8 %c1
    OpBranch %end
    %no = OpLabel
    OpStore %shared %any
    OpBranch %end
    %end = OpLabel
    %value = OpPhi %uint %one %yes %any %no
    OpStore %at %value
    OpReturn";

#[test]
fn a_mode_that_is_given_leaves_its_code() {
    let (m, report) = folded(&shader("", SELECTION), Some(3));
    assert_eq!((count(&m, Op::Label), count(&m, Op::SelectionMerge), count(&m, Op::Phi)), (1, 0, 0));
    assert_eq!(stored(&m), [Some(9)]);
    // Nothing uses it: it takes no shared memory.
    assert!(!m.globals_with(Op::Variable).any(|r| m.inst(r).word(0) == Some(4)));
    assert_eq!(report.consumed_spec_ids.into_iter().collect::<Vec<_>>(), [(3, 3)]);
    assert_eq!(report.remaining_spec_ids, [4]);
    let (m, _) = folded(&shader("", SELECTION), Some(4));
    assert_eq!((count(&m, Op::Label), stored(&m)), (1, vec![None, None]));
}

#[test]
fn a_mode_that_is_not_given_stays() {
    let (m, report) = folded(&shader("", SELECTION), None);
    assert_eq!((count(&m, Op::Label), count(&m, Op::SelectionMerge), count(&m, Op::Phi)), (4, 1, 1));
    assert_eq!(report.remaining_spec_ids, [3, 4]);
}

#[test]
fn what_breaks_out_of_a_selection_from_inside_keeps_it() {
    let body = "
        OpSelectionMerge %end None
        OpSwitch %mode %end 3 %three 4 %four
        %three = OpLabel
        %is = OpIEqual %bool %any %c1
        OpSelectionMerge %after None
        OpBranchConditional %is %break %after
        %break = OpLabel
        OpBranch %end
        %after = OpLabel
        OpStore %at %c2
        OpBranch %end
        %four = OpLabel
        OpStore %at %c8
        OpBranch %end
        %end = OpLabel
        OpReturn";
    let (m, _) = folded(&shader("", body), Some(3));
    assert_eq!((count(&m, Op::SelectionMerge), count(&m, Op::Switch)), (2, 1));
    assert_eq!(stored(&m), [Some(2)]);
    let (m, _) = folded(&shader("", body), Some(4));
    assert_eq!((count(&m, Op::Label), count(&m, Op::SelectionMerge)), (1, 0));
    assert_eq!(stored(&m), [Some(8)]);
    let (m, _) = folded(&shader("", body), Some(5));
    assert_eq!((count(&m, Op::Label), stored(&m)), (1, vec![]));
}

const LOOP: &str = "
    OpBranch %head
    %head = OpLabel
    %i = OpPhi %uint %c0 %entry %next %go_on
    OpLoopMerge %end %go_on None
    OpBranch %test
    %test = OpLabel
    %less = OpULessThan %bool %i %mode
    OpBranchConditional %less %body %end
    %body = OpLabel
    OpStore %at %i
    OpBranch %go_on
    %go_on = OpLabel
    %next = OpIAdd %uint %i %c1
    OpBranch %head
    %end = OpLabel
    OpReturn";

#[test]
fn a_loop_that_is_not_entered_goes() {
    let (m, _) = folded(&shader("", LOOP), Some(0));
    assert_eq!((count(&m, Op::Label), count(&m, Op::LoopMerge), stored(&m)), (1, 0, vec![]));
    let (m, report) = folded(&shader("", LOOP), Some(5));
    assert_eq!((count(&m, Op::LoopMerge), count(&m, Op::Phi), stored(&m)), (1, 1, vec![None]));
    assert_eq!(report.remaining_spec_ids, [3, 4]);
}

#[test]
fn a_loop_that_is_left_in_its_first_round_keeps_a_continue_target() {
    // Left by a condition, so it stays a loop.
    let body = "
        OpBranch %head
        %head = OpLabel
        %i = OpPhi %uint %c0 %entry %next %go_on
        OpLoopMerge %end %go_on None
        OpBranch %test
        %test = OpLabel
        %less = OpULessThan %bool %any %c8
        OpBranchConditional %less %body %end
        %body = OpLabel
        OpStore %at %i
        %once = OpIEqual %bool %mode %c1
        OpSelectionMerge %after None
        OpBranchConditional %once %leave %after
        %leave = OpLabel
        OpBranch %end
        %after = OpLabel
        OpBranch %go_on
        %go_on = OpLabel
        %next = OpIAdd %uint %i %c1
        OpBranch %head
        %end = OpLabel
        OpReturn";
    let (m, _) = folded(&shader("", body), Some(1));
    assert_eq!((count(&m, Op::LoopMerge), count(&m, Op::Phi), stored(&m)), (1, 0, vec![Some(0)]));
    let (m, _) = folded(&shader("", body), Some(2));
    assert_eq!((count(&m, Op::LoopMerge), count(&m, Op::SelectionMerge), count(&m, Op::Phi)), (1, 0, 1));
}

#[test]
fn a_merge_block_that_nothing_reaches_stays_with_its_header() {
    let body = "
        %is = OpIEqual %bool %any %c1
        OpSelectionMerge %end None
        OpBranchConditional %is %yes %no
        %yes = OpLabel
        OpReturn
        %no = OpLabel
        %two = OpIEqual %bool %mode %c2
        OpSelectionMerge %rest None
        OpBranchConditional %two %leave %rest
        %leave = OpLabel
        OpReturn
        %rest = OpLabel
        OpBranch %end
        %end = OpLabel
        OpStore %at %c8
        OpReturn";
    let (m, _) = folded(&shader("", body), Some(2));
    assert_eq!((count(&m, Op::SelectionMerge), count(&m, Op::Unreachable), stored(&m)), (1, 1, vec![]));
}

#[test]
fn functions_that_only_another_mode_calls_go() {
    let body = "
        %is = OpIEqual %bool %mode %c3
        OpSelectionMerge %end None
        OpBranchConditional %is %yes %end
        %yes = OpLabel
        %done = OpFunctionCall %void %work
        OpBranch %end
        %end = OpLabel
        OpReturn
        OpFunctionEnd
        %work = OpFunction %void None %nothing
        %first = OpLabel
        %where = OpAccessChain %ptr_uint %out %c0
        OpStore %where %c8
        OpReturn";
    assert_eq!(folded(&shader("", body), Some(2)).0.functions.len(), 1);
    assert_eq!(folded(&shader("", body), Some(3)).0.functions.len(), 2);
}
