//! Shared memory is made visible by barriers, unless something else orders it.

use coop_ir::constant::{Constants, Specialization};
use coop_ir::spv::{MemoryAccess, MemorySemantics};
use coop_ir::{Module, Op, text};
use coop_passes::{Lanes, Options, Target, lower};

/// A shader that exchanges numbers through shared memory. `between` stands behind the barrier.
fn lowered(semantics: u32, between: &str) -> Module {
    let source = format!(
        "; Version: 1.6
         OpCapability Shader
         OpCapability VulkanMemoryModel
         OpCapability CooperativeMatrixKHR
         OpExtension \"SPV_KHR_cooperative_matrix\"
         OpMemoryModel Logical Vulkan
         OpEntryPoint GLCompute %main \"main\" %shared %counter
         OpExecutionMode %main LocalSize 8 1 1
         %void = OpTypeVoid
         %fn = OpTypeFunction %void
         %uint = OpTypeInt 32 0
         %float = OpTypeFloat 32
         %n0 = OpConstant %uint 0
         %n1 = OpConstant %uint 1
         %n2 = OpConstant %uint 2
         %n3 = OpConstant %uint 3
         %n8 = OpConstant %uint 8
         %semantics = OpConstant %uint {semantics}
         %order = OpConstant %uint 264
         %array = OpTypeArray %uint %n8
         %to_array = OpTypePointer Workgroup %array
         %to_uint = OpTypePointer Workgroup %uint
         %shared = OpVariable %to_array Workgroup
         %counter = OpVariable %to_uint Workgroup
         %matrix = OpTypeCooperativeMatrixKHR %float %n3 %n8 %n8 %n2
         %null = OpConstantNull %matrix
         %main = OpFunction %void None %fn
         %entry = OpLabel
         %sum = OpFAdd %matrix %null %null
         %at = OpAccessChain %to_uint %shared %n1
         OpStore %at %n8 Aligned|MakePointerAvailable|NonPrivatePointer 4 %n2
         OpControlBarrier %n2 %n2 %semantics
         {between}
         %got = OpLoad %uint %at MakePointerVisible|NonPrivatePointer %n2
         OpReturn
         OpFunctionEnd"
    );
    let module = text::parse(&source).unwrap_or_else(|e| panic!("{e}"));
    let mut options = Options::new(Target::Scalar);
    (options.lanes, options.subgroup_size, options.verify_each) = (Lanes::LocalIndex, Some(8), true);
    lower(&module, &options).unwrap_or_else(|e| panic!("{e}")).module
}

/// The masks of the accesses of shared memory, and the semantics of the first barrier.
fn found(m: &Module) -> (Vec<MemoryAccess>, MemorySemantics) {
    let insts: Vec<_> = m.functions.iter().flat_map(|f| f.insts()).map(|r| m.inst(r)).collect();
    let accesses = insts.iter().filter(|i| matches!(i.op, Op::Load | Op::Store));
    let barrier = insts.iter().find(|i| i.op == Op::ControlBarrier).and_then(|i| i.id(2)).expect("a barrier");
    let semantics = Constants::new(m, &Specialization::new()).get(barrier).fixed().expect("a constant");
    (accesses.map(|i| i.memory_access()).collect(), MemorySemantics(semantics as u32))
}

#[test]
fn barriers_make_shared_memory_visible() {
    let (accesses, semantics) = found(&lowered(264, ""));
    assert_eq!(accesses, [MemoryAccess::Aligned | MemoryAccess::NonPrivatePointer, MemoryAccess::NonPrivatePointer]);
    let order = MemorySemantics::AcquireRelease | MemorySemantics::WorkgroupMemory;
    assert_eq!(semantics, order | MemorySemantics::MakeAvailable | MemorySemantics::MakeVisible);
}

/// A relaxed atomic orders nothing.
#[test]
fn relaxed_atomics_are_beside() {
    let (accesses, _) = found(&lowered(264, "%one = OpAtomicIAdd %uint %counter %n2 %n0 %n1"));
    assert!(accesses.iter().all(|a| !a.intersects(MemoryAccess::MakePointerVisible)), "{accesses:?}");
}

/// Accesses that an atomic orders stay visible by themselves.
#[test]
fn atomics_that_order_keep_the_accesses() {
    let (accesses, semantics) = found(&lowered(264, "%one = OpAtomicIAdd %uint %counter %n2 %order %n1"));
    assert!(accesses[1].intersects(MemoryAccess::MakePointerVisible), "{accesses:?}");
    assert_eq!(semantics.0, 264);
}

/// A barrier of execution alone makes nothing visible; the accesses then order nothing either.
#[test]
fn barriers_that_order_nothing_stay() {
    let (_, semantics) = found(&lowered(0, ""));
    assert_eq!(semantics.0, 0);
}
