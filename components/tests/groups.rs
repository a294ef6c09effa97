//! Sums, and the least and greatest numbers, of subgroups, of 64-bit integers: reductions and scans against the interpreter's run of the
//! original. Half of the numbers have one of four high words, so that low words decide, in all of their parts.

mod common;

use common::{case, everything, interpret, lowered, parse, run_on, same};
use coop_exec::vulkan::VulkanExecutor;
use coop_exec::{Case, Outcome, vulkan_test};
use coop_ir::Module;
use std::fmt::Write;

const INVOCATIONS: u32 = 256;
const OPERATIONS: [&str; 5] = ["IAdd", "UMin", "UMax", "SMin", "SMax"];
const KINDS: [&str; 3] = ["Reduce", "InclusiveScan", "ExclusiveScan"];

/// A module that stores each operation on the numbers of a buffer, of a kind, behind them. Under `branch`, only some invocations execute it.
fn module(kind: &str, signed: u32, branch: bool) -> Module {
    let (mut code, mut constants) = (String::new(), String::new());
    for (n, operation) in OPERATIONS.iter().enumerate() {
        let _ = writeln!(constants, "%o{n} = OpConstant %uint {}", INVOCATIONS as usize * (n + 1));
        let _ = write!(
            code,
            "%r{n} = OpGroupNonUniform{operation} %long %3 {kind} %v\n%i{n} = OpIAdd %uint %n %o{n}\n\
             %p{n} = OpAccessChain %plong %buffer %0 %i{n}\nOpStore %p{n} %r{n}\n"
        );
    }
    let [before, after] = match branch {
        true => [
            "%odd = OpBitwiseAnd %uint %n %5\n%some = OpINotEqual %bool %odd %0\nOpSelectionMerge %merge None\n\
             OpBranchConditional %some %inside %merge\n%inside = OpLabel",
            "OpBranch %merge\n%merge = OpLabel",
        ],
        false => ["", ""],
    };
    parse(&format!(
        r#"
               OpCapability Shader
               OpCapability Int64
               OpCapability GroupNonUniform
               OpCapability GroupNonUniformArithmetic
               OpMemoryModel Logical GLSL450
               OpEntryPoint GLCompute %main "main" %id %buffer
               OpExecutionMode %main LocalSize 32 1 1
               OpDecorate %id BuiltIn GlobalInvocationId
               OpDecorate %buffer DescriptorSet 0
               OpDecorate %buffer Binding 0
               OpDecorate %array ArrayStride 8
               OpDecorate %block Block
               OpMemberDecorate %block 0 Offset 0
       %void = OpTypeVoid
         %fn = OpTypeFunction %void
       %bool = OpTypeBool
       %uint = OpTypeInt 32 0
      %uint3 = OpTypeVector %uint 3
       %long = OpTypeInt 64 {signed}
          %0 = OpConstant %uint 0
          %1 = OpConstant %uint 1
          %3 = OpConstant %uint 3
          %5 = OpConstant %uint 5
       %mask = OpConstant %long 0x40000001ff00ff03
      {constants}
      %array = OpTypeRuntimeArray %long
      %block = OpTypeStruct %array
     %pblock = OpTypePointer StorageBuffer %block
      %plong = OpTypePointer StorageBuffer %long
        %pin = OpTypePointer Input %uint3
     %buffer = OpVariable %pblock StorageBuffer
         %id = OpVariable %pin Input
       %main = OpFunction %void None %fn
      %entry = OpLabel
        %all = OpLoad %uint3 %id
          %n = OpCompositeExtract %uint %all 0
       %from = OpAccessChain %plong %buffer %0 %n
      %whole = OpLoad %long %from
       %part = OpBitwiseAnd %long %whole %mask
       %half = OpShiftRightLogical %uint %n %5
        %bit = OpBitwiseAnd %uint %half %1
      %parts = OpINotEqual %bool %bit %0
          %v = OpSelect %long %parts %part %whole
      {before}
      {code}
      {after}
               OpReturn
               OpFunctionEnd
        "#
    ))
}

fn numbers() -> Case {
    let words = INVOCATIONS as usize * (OPERATIONS.len() + 1) * 2;
    case(&format!(
        "workgroups = [{}, 1, 1]\nseed = 9\n[[buffer]]\nname = \"A\"\nbinding = 0\ntype = \"u32\"\ncount = {words}\nfill = \"bits\"\n",
        INVOCATIONS / 32
    ))
}

/// Compares each lowered module with what the module itself does on subgroups of a size.
fn on(size: u32, run: impl Fn(&str, &Module, &Case) -> Outcome) {
    for (kind, signed, branch) in KINDS.iter().flat_map(|k| [(k, 0, false), (k, 1, false), (k, 0, true)]) {
        let what = format!("{kind} of integers of signedness {signed}, in a branch: {branch}");
        let module = module(kind, signed, branch);
        let wanted = interpret(&what, &module, &numbers(), size);
        let lowered = lowered(&what, &module, everything()).module;
        same(&what, &run(&what, &lowered, &numbers()), &wanted);
    }
}

fn on_device(device: &VulkanExecutor<'_>, size: u32) {
    on(size, |what, module, case| run_on(device, what, module, case));
}

#[test]
fn subgroups_in_the_interpreter() {
    for size in [1, 8, 32] {
        on(size, |what, module, case| interpret(what, module, case, size));
    }
}

vulkan_test!(
    Lavapipe,
    fn subgroups_on_lavapipe(device) {
        on_device(device, 8);
    }
);

vulkan_test!(
    SwiftShader,
    fn subgroups_on_swiftshader(device) {
        on_device(device, 4);
    }
);
