//! Questions about opcodes that are answered from the grammar, asked of all of it.

use coop_ir::grammar::{Class, ExecutionScope, OPS, OpInfo, implied_capabilities};
use coop_ir::needs::each_need;
use coop_ir::spv::Capability;
use coop_ir::{Kind, Op};

fn capability(c: Capability) -> &'static str {
    c.name().unwrap_or("?")
}

/// By names: of the instruction, and of the capabilities that enable it.
fn sounds_collective(info: &OpInfo) -> bool {
    let words = ["Group", "Subgroup", "Quad", "ControlBarrier", "Ballot", "Vote", "NamedBarrier"];
    let named = |name: &str| words.iter().any(|w| name.contains(w));
    let capabilities = ["Subgroup", "GroupNonUniform", "GroupUniform", "Groups", "QuadControl", "NamedBarrier"];
    let enabled = |c: &Capability| capabilities.iter().any(|w| capability(*c).contains(w));
    named(info.name) || info.capabilities.iter().any(enabled)
}

/// Names that say otherwise.
fn is_exception(info: &OpInfo) -> bool {
    // Decoration groups.
    matches!(info.op, Op::DecorationGroup | Op::GroupDecorate | Op::GroupMemberDecorate)
        // Of a kernel that is enqueued.
        || info.name.starts_with("GetKernel") && capability(info.capabilities[0]) == "DeviceEnqueue"
        || info.op.is_type()
}

#[test]
fn instructions_that_invocations_execute_together() {
    let mut found = [0; 2];
    for info in OPS {
        let scope = info.op.execution_scope();
        // Work graphs: one set of payloads for each instance of the scope.
        let expected = sounds_collective(info) && !is_exception(info) || info.op == Op::AllocateNodePayloadsAMDX;
        assert_eq!(scope.is_some(), expected, "Op{}", info.name);
        match scope {
            Some(ExecutionScope::Subgroup) => found[0] += 1,
            Some(ExecutionScope::Operand(at)) => {
                let skipped =
                    info.operands.iter().filter(|o| matches!(o.0, Kind::IdResult | Kind::IdResultType)).count();
                let plain = info.op == Op::UntypedGroupAsyncCopyKHR;
                let kind = if plain { Kind::IdRef } else { Kind::IdScope };
                assert_eq!(info.operands[skipped + at].0, kind, "Op{}", info.name);
                found[1] += 1;
            }
            None => {}
        }
    }
    assert!(found[0] > 100 && found[1] > 70, "{found:?}");
}

#[test]
fn atomics_have_a_scope_of_memory() {
    for info in OPS {
        let of_memory = info.operands.iter().any(|o| o.0 == Kind::IdMemorySemantics);
        let barrier = info.name.contains("Barrier");
        assert_eq!(info.op.is_atomic(), of_memory && !barrier, "Op{}", info.name);
    }
}

#[test]
fn spec_constants_are_constants() {
    let all: Vec<&str> = OPS.iter().filter(|i| i.op.is_spec_constant()).map(|i| i.name).collect();
    assert!(all.len() >= 6 && all.contains(&"SpecConstantOp") && all.contains(&"SpecConstantCompositeReplicateEXT"));
    assert!(OPS.iter().filter(|i| i.op.is_spec_constant()).all(|i| i.op.is_constant()));
}

#[test]
fn capabilities_imply_others() {
    let names = |c: Capability| implied_capabilities(c).into_iter().map(capability).collect::<Vec<_>>();
    assert_eq!(names(Capability::CooperativeMatrixNV), ["Shader", "Matrix"]);
    assert_eq!(names(Capability::BFloat16CooperativeMatrixKHR), ["BFloat16TypeKHR", "CooperativeMatrixKHR"]);
    assert_eq!(names(Capability::SubgroupDispatch), ["DeviceEnqueue", "Kernel"]);
    assert!(names(Capability::Matrix).is_empty());
    assert!(implied_capabilities(Capability(0xffff)).is_empty());
}

#[test]
fn needs_of_opcodes_and_of_operands() {
    let text = "OpCapability Linkage
        OpMemoryModel Logical GLSL450
        OpEntryPoint GLCompute %main \"main\"
        OpExecutionMode %main LocalSize 1 1 1
        %void = OpTypeVoid
        %fn = OpTypeFunction %void
        %half = OpTypeFloat 16 BFloat16KHR
        %uint = OpTypeInt 32 0
        %one = OpConstant %uint 1
        %sum = OpSpecConstantOp %uint UConvert %one
        %main = OpFunction %void None %fn
        %entry = OpLabel
        OpReturn
        OpFunctionEnd";
    let module = coop_ir::text::parse(text).unwrap_or_else(|e| panic!("{e}"));
    let mut found: Vec<&str> = Vec::new();
    for r in module.all() {
        each_need(&module, module.inst(r), &mut |any| found.extend(any.iter().map(|c| capability(*c))));
    }
    found.dedup();
    assert_eq!(found, ["Shader", "BFloat16TypeKHR"]);
}

#[test]
fn annotations_are_notes() {
    let made = |info: &OpInfo| info.operands.iter().any(|o| o.0 == Kind::IdResult);
    for info in OPS.iter().filter(|i| i.class == Class::Annotation && !made(i)) {
        assert!(coop_ir::uses::is_note(info.op), "Op{}", info.name);
    }
}
