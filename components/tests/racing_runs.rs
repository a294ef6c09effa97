//! Invocations that write runs of narrow numbers side by side: runs begin and end within words that neighbors write too, and no
//! number is lost, whatever of a run is joined to words.

mod common;

use common::{case, everything, interpret, lowered, parse, run_on, same};
use coop_exec::vulkan::VulkanExecutor;
use coop_exec::{Case, vulkan_test};
use coop_ir::{Module, Op};
use std::fmt::Write;

const INVOCATIONS: u32 = 32 * 64;

/// A module whose invocation n writes `count` numbers of `bits` from `first + n * count` on, three times, each time others.
fn module(bits: u32, count: u32, first: u32) -> Module {
    let mut stores = String::new();
    for round in 0..3 {
        for k in 0..count {
            let at = round * count + k;
            let _ = write!(
                stores,
                "%o{at} = OpConstant %uint {}\n%f{at} = OpConstant %uint {}\n",
                k,
                0x35a7_19c3u32.wrapping_mul(at + 1)
            );
        }
    }
    let mut code = String::new();
    for at in 0..3 * count {
        let _ = write!(
            code,
            "%i{at} = OpIAdd %uint %begin %o{at}\n%m{at} = OpIMul %uint %i{at} %f{at}\n%h{at} = OpShiftRightLogical %uint %m{at} %11\n\
             %v{at} = OpUConvert %narrow %h{at}\n%p{at} = OpAccessChain %pnarrow %buffer %0 %i{at}\nOpStore %p{at} %v{at}\n"
        );
    }
    parse(&format!(
        r#"
               OpCapability Shader
               OpCapability Int8
               OpCapability Int16
               OpCapability StorageBuffer8BitAccess
               OpCapability StorageBuffer16BitAccess
               OpMemoryModel Logical GLSL450
               OpEntryPoint GLCompute %main "main" %id %buffer
               OpExecutionMode %main LocalSize 32 1 1
               OpDecorate %id BuiltIn GlobalInvocationId
               OpDecorate %buffer DescriptorSet 0
               OpDecorate %buffer Binding 0
               OpDecorate %array ArrayStride {stride}
               OpDecorate %block Block
               OpMemberDecorate %block 0 Offset 0
       %void = OpTypeVoid
         %fn = OpTypeFunction %void
       %uint = OpTypeInt 32 0
      %uint3 = OpTypeVector %uint 3
     %narrow = OpTypeInt {bits} 0
          %0 = OpConstant %uint 0
         %11 = OpConstant %uint 11
      %count = OpConstant %uint {count}
      %first = OpConstant %uint {first}
      {stores}
      %array = OpTypeRuntimeArray %narrow
      %block = OpTypeStruct %array
     %pblock = OpTypePointer StorageBuffer %block
    %pnarrow = OpTypePointer StorageBuffer %narrow
        %pin = OpTypePointer Input %uint3
     %buffer = OpVariable %pblock StorageBuffer
         %id = OpVariable %pin Input
       %main = OpFunction %void None %fn
      %entry = OpLabel
        %all = OpLoad %uint3 %id
          %n = OpCompositeExtract %uint %all 0
      %whole = OpIMul %uint %n %count
      %begin = OpIAdd %uint %whole %first
      {code}
               OpReturn
               OpFunctionEnd
        "#,
        stride = bits / 8,
    ))
}

/// The runs: bits of a number, numbers, the first.
fn rows() -> Vec<(u32, u32, u32)> {
    let bytes = [2, 3, 5, 8, 13].into_iter().flat_map(|count| [0, 1, 3].map(|first| (8, count, first)));
    bytes.chain([1, 3].into_iter().flat_map(|count| [0, 1].map(|first| (16, count, first)))).collect()
}

fn case_of(bits: u32, count: u32) -> Case {
    let numbers = (INVOCATIONS * count + 4).next_multiple_of(4);
    case(&format!(
        "workgroups = [{}, 1, 1]\nseed = 5\n[[buffer]]\nname = \"A\"\nbinding = 0\ntype = \"u{bits}\"\ncount = {numbers}\nfill = \"bits\"\n",
        INVOCATIONS / 32
    ))
}

fn on(run: impl Fn(&str, &Module, &Case) -> coop_exec::Outcome) {
    for (bits, count, first) in rows() {
        let what = format!("{count} numbers of {bits} bits from {first} on");
        let (module, case) = (module(bits, count, first), case_of(bits, count));
        let wanted = interpret(&what, &module, &case, 8);
        let lowered = lowered(&what, &module, everything()).module;
        // Runs of whole words are joined: a function tests where they begin.
        let joined = lowered.all().any(|r| lowered.inst(r).op == Op::FunctionCall);
        assert_eq!(joined, count * bits >= 32, "{what}");
        same(&what, &run(&what, &lowered, &case), &wanted);
    }
}

fn on_device(device: &VulkanExecutor<'_>) {
    on(|what, module, case| run_on(device, what, module, case));
}

#[test]
fn no_number_is_lost_in_the_interpreter() {
    on(|what, module, case| interpret(what, module, case, 8));
}

vulkan_test!(
    Lavapipe,
    fn no_number_is_lost_on_lavapipe(device) {
        on_device(device);
    }
);

vulkan_test!(
    Debian12,
    fn no_number_is_lost_on_debian_12(device) {
        on_device(device);
    }
);

vulkan_test!(
    SwiftShader,
    fn no_number_is_lost_on_swiftshader(device) {
        on_device(device);
    }
);
