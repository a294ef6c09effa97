//! Fields, counts and orders of bits of narrow integers, powers of two by them, and exclusive scans for the least and greatest, whose first value is the narrow
//! type's.

mod common;

use common::{case, everything, interpret, lowered, parse, run_on, same};
use coop_exec::vulkan::VulkanExecutor;
use coop_exec::{Case, Outcome, vulkan_test};
use coop_ir::Module;
use std::fmt::Write;

/// The operations on `%v` and `%x`; the last two are for types without a sign.
const OPERATIONS: [&str; 9] = [
    "OpBitReverse %narrow %v",
    "OpBitCount %narrow %v",
    "OpBitFieldUExtract %narrow %v %3 %4",
    "OpBitFieldSExtract %narrow %v %2 %5",
    "OpBitFieldInsert %narrow %v %x %1 %5",
    "OpGroupNonUniformSMin %narrow %3 ExclusiveScan %v",
    "OpGroupNonUniformSMax %narrow %3 ExclusiveScan %v",
    "OpGroupNonUniformUMin %narrow %3 ExclusiveScan %v",
    "OpGroupNonUniformUMax %narrow %3 ExclusiveScan %v",
];

const INVOCATIONS: u32 = 256;

/// A module that computes with the low bits of the first numbers of a buffer, and stores behind them.
fn module(bits: u32, signed: u32) -> Module {
    let convert = if signed == 1 { "OpSConvert" } else { "OpUConvert" };
    let count = if signed == 1 { 7 } else { OPERATIONS.len() };
    let (mut constants, mut code) = (String::new(), String::new());
    for (n, operation) in OPERATIONS.iter().enumerate().take(count) {
        let _ = writeln!(constants, "%o{n} = OpConstant %uint {}", INVOCATIONS as usize * (n + 1));
        let _ = write!(
            code,
            "%r{n} = {operation}\n%w{n} = OpUConvert %uint %r{n}\n%i{n} = OpIAdd %uint %n %o{n}\n\
             %p{n} = OpAccessChain %puint %buffer %0 %i{n}\nOpStore %p{n} %w{n}\n"
        );
    }
    parse(&format!(
        r#"
               OpCapability Shader
               OpCapability Int8
               OpCapability Int16
               OpCapability GroupNonUniform
               OpCapability GroupNonUniformArithmetic
       %glsl = OpExtInstImport "GLSL.std.450"
               OpMemoryModel Logical GLSL450
               OpEntryPoint GLCompute %main "main" %id %buffer
               OpExecutionMode %main LocalSize 32 1 1
               OpDecorate %id BuiltIn GlobalInvocationId
               OpDecorate %buffer DescriptorSet 0
               OpDecorate %buffer Binding 0
               OpDecorate %array ArrayStride 4
               OpDecorate %block Block
               OpMemberDecorate %block 0 Offset 0
       %void = OpTypeVoid
         %fn = OpTypeFunction %void
       %uint = OpTypeInt 32 0
      %uint3 = OpTypeVector %uint 3
     %narrow = OpTypeInt {bits} {signed}
      %float = OpTypeFloat 32
        %one = OpConstant %float 1
          %0 = OpConstant %uint 0
          %1 = OpConstant %uint 1
          %2 = OpConstant %uint 2
          %3 = OpConstant %uint 3
          %4 = OpConstant %uint 4
          %5 = OpConstant %uint 5
          %9 = OpConstant %uint 9
      {constants}
      %array = OpTypeRuntimeArray %uint
      %block = OpTypeStruct %array
     %pblock = OpTypePointer StorageBuffer %block
      %puint = OpTypePointer StorageBuffer %uint
        %pin = OpTypePointer Input %uint3
     %buffer = OpVariable %pblock StorageBuffer
         %id = OpVariable %pin Input
       %main = OpFunction %void None %fn
      %entry = OpLabel
        %all = OpLoad %uint3 %id
          %n = OpCompositeExtract %uint %all 0
       %from = OpAccessChain %puint %buffer %0 %n
      %whole = OpLoad %uint %from
      %other = OpShiftRightLogical %uint %whole %9
          %v = {convert} %narrow %whole
        %few = OpBitFieldUExtract %narrow %v %0 %3
      %power = OpExtInst %float %glsl Ldexp %one %few
     %number = OpConvertFToU %uint %power
      %mixed = OpIAdd %uint %other %number
          %x = {convert} %narrow %mixed
      {code}
               OpReturn
               OpFunctionEnd
        "#
    ))
}

fn numbers() -> Case {
    let count = INVOCATIONS as usize * (OPERATIONS.len() + 1);
    case(&format!(
        "workgroups = [{}, 1, 1]\nseed = 9\n[[buffer]]\nname = \"A\"\nbinding = 0\ntype = \"u32\"\ncount = {count}\nfill = \"bits\"\n",
        INVOCATIONS / 32
    ))
}

/// Compares each lowered module with what the module itself does on subgroups of a size.
fn on(size: u32, run: impl Fn(&str, &Module, &Case) -> Outcome) {
    for (bits, signed) in [(8, 0), (8, 1), (16, 0), (16, 1)] {
        let what = format!("integers of {bits} bits, signedness {signed}");
        let module = module(bits, signed);
        let wanted = interpret(&what, &module, &numbers(), size);
        let lowered = lowered(&what, &module, everything()).module;
        same(&what, &run(&what, &lowered, &numbers()), &wanted);
    }
}

fn on_device(device: &VulkanExecutor<'_>, size: u32) {
    on(size, |what, module, case| run_on(device, what, module, case));
}

#[test]
fn bits_in_the_interpreter() {
    on(8, |what, module, case| interpret(what, module, case, 8));
}

vulkan_test!(
    Lavapipe,
    fn bits_on_lavapipe(device) {
        on_device(device, 8);
    }
);

vulkan_test!(
    SwiftShader,
    fn bits_on_swiftshader(device) {
        on_device(device, 4);
    }
);
