//! Small modules whose types have very many parts, where each use of a type counts: they are lowered at once.

use std::fmt::Write;

use coop_device::Profile;
use coop_ir::constant::{Constants, Specialization};
use coop_ir::types::natural_size;
use coop_ir::{Op, text};
use coop_passes::{Lanes, Options, Target, lower};

/// A load and a store of a matrix, beside a variable in shared memory of a struct of two structs of two structs, and so on.
fn module(depth: u32) -> String {
    let mut structs = "%s0 = OpTypeStruct %half %half\n".to_owned();
    for n in 1..depth {
        writeln!(structs, "%s{n} = OpTypeStruct %s{0} %s{0}", n - 1).expect("text");
    }
    format!(
        "OpCapability Shader
         OpCapability Float16
         OpCapability StorageBuffer16BitAccess
         OpCapability VulkanMemoryModel
         OpCapability CooperativeMatrixKHR
         OpExtension \"SPV_KHR_cooperative_matrix\"
         OpMemoryModel Logical Vulkan
         OpEntryPoint GLCompute %main \"main\" %a %shared
         OpExecutionMode %main LocalSize 32 1 1
         OpDecorate %halves ArrayStride 2
         OpDecorate %block Block
         OpMemberDecorate %block 0 Offset 0
         OpDecorate %a DescriptorSet 0
         OpDecorate %a Binding 0
         %void = OpTypeVoid
         %fn = OpTypeFunction %void
         %uint = OpTypeInt 32 0
         %half = OpTypeFloat 16
         %0 = OpConstant %uint 0
         %2 = OpConstant %uint 2
         %3 = OpConstant %uint 3
         %16 = OpConstant %uint 16
         {structs}
         %halves = OpTypeRuntimeArray %half
         %block = OpTypeStruct %halves
         %to_block = OpTypePointer StorageBuffer %block
         %to_half = OpTypePointer StorageBuffer %half
         %to_shared = OpTypePointer Workgroup %s{last}
         %a = OpVariable %to_block StorageBuffer
         %shared = OpVariable %to_shared Workgroup
         %matrix = OpTypeCooperativeMatrixKHR %half %3 %16 %16 %2
         %main = OpFunction %void None %fn
         %entry = OpLabel
         %place = OpAccessChain %to_half %a %0 %0
         %loaded = OpCooperativeMatrixLoadKHR %matrix %place %0 %16
         OpCooperativeMatrixStoreKHR %place %loaded %0 %16
         OpReturn
         OpFunctionEnd",
        last = depth - 1
    )
}

#[test]
fn structs_of_structs() {
    let nvidia = Profile::builtin("nvidia-h100").expect("a profile");
    for (depth, fits) in [(8, true), (48, false)] {
        let module = text::parse(&module(depth)).expect("the module parses");
        for (target, lanes) in [(Target::Scalar, Lanes::LocalIndex), (Target::Khr, Lanes::Subgroup)] {
            let options = Options { profile: Some(&nvidia), subgroup_size: Some(32), lanes, ..Options::new(target) };
            // Nothing is said of what the module takes itself, unless something is added to that.
            let result = lower(&module, &options);
            assert!(!fits || result.is_ok(), "{depth}: {:?}", result.err());
        }
    }
}

#[test]
fn sizes_of_structs_of_structs() {
    let module = text::parse(&module(30)).expect("the module parses");
    let constants = Constants::new(&module, &Specialization::new());
    let last =
        module.globals_with(Op::TypeStruct).filter_map(|r| natural_size(&module, &constants, module.inst(r).result?));
    assert_eq!(last.max(), Some((4 << 29, 2)));
}
