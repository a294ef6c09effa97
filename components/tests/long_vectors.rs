//! Vectors of 64-bit integers without shaderInt64: operations by component, parts, casts, memory, calls, against the interpreter's run of the
//! original.

mod common;

use common::{case, everything, interpret, lacks, lowered, parse, run_on, same};
use coop_device::Feature;
use coop_exec::vulkan::VulkanExecutor;
use coop_exec::{Case, Outcome, vulkan_test};
use coop_ir::Module;
use std::fmt::Write;

/// Operations that give `%r`, a vector of four, from `%v` and `%w`, of four, `%words`, four words, and the number `%k` of 0 to 3. `#` is
/// their number.
const OPERATIONS: [&str; 22] = [
    "%r# = OpIAdd %l4 %v %w",
    "%r# = OpIMul %l4 %v %w",
    "%n# = OpNot %l4 %v\n%r# = OpSNegate %l4 %n#",
    "%d# = OpBitwiseOr %l4 %w %ones\n%r# = OpUDiv %l4 %v %d#",
    "%b# = OpBitwiseAnd %u4 %words %31s\n%r# = OpShiftRightArithmetic %l4 %v %b#",
    "%c# = OpULessThan %bool4 %v %w\n%r# = OpSelect %l4 %c# %v %w",
    "%c# = OpIEqual %bool %k %1\n%r# = OpSelect %l4 %c# %v %w",
    "%r# = OpExtInst %l4 %glsl UMax %v %w",
    "%r# = OpUConvert %l4 %words",
    "%n# = OpUConvert %u4 %v\n%r# = OpSConvert %l4 %n#",
    "%f# = OpConvertUToF %f4 %v\n%n# = OpBitcast %u4 %f#\n%r# = OpUConvert %l4 %n#",
    "%r# = OpVectorShuffle %l4 %v %w 6 0 3 5",
    "%e# = OpVectorExtractDynamic %ulong %v %k\n%r# = OpCompositeConstruct %l4 %e# %e# %e# %e#",
    "%e# = OpCompositeExtract %ulong %w 2\n%r# = OpVectorInsertDynamic %l4 %v %e# %k",
    "%e# = OpCompositeExtract %ulong %w 1\n%r# = OpCompositeInsert %l4 %e# %v 3",
    "%a# = OpVectorShuffle %l2 %v %v 1 2\n%n# = OpBitcast %u4 %a#\n%m# = OpNot %u4 %n#\n%o# = OpBitcast %l2 %m#\n\
     %r# = OpCompositeConstruct %l4 %o# %a#",
    "%r# = OpBitCount %l4 %v",
    "%r# = OpGroupNonUniformIAdd %l4 %3 InclusiveScan %v",
    "%r# = OpGroupNonUniformUMin %l4 %3 Reduce %v",
    "OpStore %own %w\n%q# = OpAccessChain %plocal %own %k\nOpStore %q# %one\n%r# = OpLoad %l4 %own",
    "%r# = OpFunctionCall %l4 %twice %v",
    "%s# = OpCompositeConstruct %both %v %w\n%t# = OpCopyObject %both %s#\n%r# = OpCompositeExtract %l4 %t# 1",
];

const INVOCATIONS: u32 = 64;

fn module() -> Module {
    let count = OPERATIONS.len();
    let mut code = String::new();
    for (n, operation) in OPERATIONS.iter().enumerate() {
        let operation = operation.replace('#', &n.to_string());
        let _ = write!(
            code,
            "{operation}\n%i{n} = OpIAdd %uint %begin %c{n}c\n%p{n} = OpAccessChain %pl4 %to %0 %i{n}\nOpStore %p{n} %r{n}\n"
        );
    }
    let constants = (0..count).fold(String::new(), |mut text, n| {
        let _ = writeln!(text, "%c{n}c = OpConstant %uint {n}");
        text
    });
    parse(&format!(
        r#"
               OpCapability Shader
               OpCapability Int64
               OpCapability GroupNonUniform
               OpCapability GroupNonUniformArithmetic
       %glsl = OpExtInstImport "GLSL.std.450"
               OpMemoryModel Logical GLSL450
               OpEntryPoint GLCompute %main "main" %id %from %to
               OpExecutionMode %main LocalSize 32 1 1
               OpDecorate %id BuiltIn GlobalInvocationId
               OpDecorate %from DescriptorSet 0
               OpDecorate %from Binding 0
               OpDecorate %to DescriptorSet 0
               OpDecorate %to Binding 1
               OpDecorate %rows ArrayStride 96
               OpDecorate %list ArrayStride 32
               OpDecorate %a Block
               OpDecorate %b Block
               OpMemberDecorate %a 0 Offset 0
               OpMemberDecorate %b 0 Offset 0
               OpMemberDecorate %row 0 Offset 0
               OpMemberDecorate %row 1 Offset 32
               OpMemberDecorate %row 2 Offset 64
       %void = OpTypeVoid
         %fn = OpTypeFunction %void
       %bool = OpTypeBool
       %uint = OpTypeInt 32 0
      %float = OpTypeFloat 32
      %ulong = OpTypeInt 64 0
         %u3 = OpTypeVector %uint 3
         %u4 = OpTypeVector %uint 4
         %f4 = OpTypeVector %float 4
         %bool4 = OpTypeVector %bool 4
         %l2 = OpTypeVector %ulong 2
         %l4 = OpTypeVector %ulong 4
       %both = OpTypeStruct %l4 %l4
      %unary = OpTypeFunction %l4 %l4
          %0 = OpConstant %uint 0
          %1 = OpConstant %uint 1
          %2 = OpConstant %uint 2
          %3 = OpConstant %uint 3
         %31 = OpConstant %uint 31
      %count = OpConstant %uint {count}
        %one = OpConstant %ulong 1
        %31s = OpConstantComposite %u4 %31 %31 %31 %31
       %ones = OpConstantComposite %l4 %one %one %one %one
      {constants}
        %row = OpTypeStruct %l4 %l4 %u4
       %rows = OpTypeRuntimeArray %row
       %list = OpTypeRuntimeArray %l4
          %a = OpTypeStruct %rows
          %b = OpTypeStruct %list
         %pa = OpTypePointer StorageBuffer %a
         %pb = OpTypePointer StorageBuffer %b
        %pl4 = OpTypePointer StorageBuffer %l4
        %pu4 = OpTypePointer StorageBuffer %u4
       %pown = OpTypePointer Function %l4
     %plocal = OpTypePointer Function %ulong
        %pin = OpTypePointer Input %u3
         %id = OpVariable %pin Input
       %from = OpVariable %pa StorageBuffer
         %to = OpVariable %pb StorageBuffer
      %twice = OpFunction %l4 None %unary
      %given = OpFunctionParameter %l4
       %only = OpLabel
        %sum = OpIAdd %l4 %given %given
               OpReturnValue %sum
               OpFunctionEnd
       %main = OpFunction %void None %fn
      %entry = OpLabel
        %own = OpVariable %pown Function
        %all = OpLoad %u3 %id
          %n = OpCompositeExtract %uint %all 0
          %k = OpBitwiseAnd %uint %n %3
      %begin = OpIMul %uint %n %count
         %pv = OpAccessChain %pl4 %from %0 %n %0
         %pw = OpAccessChain %pl4 %from %0 %n %1
         %px = OpAccessChain %pu4 %from %0 %n %2
          %v = OpLoad %l4 %pv
          %w = OpLoad %l4 %pw
      %words = OpLoad %u4 %px
      {code}
               OpReturn
               OpFunctionEnd
        "#
    ))
}

fn numbers() -> Case {
    let (from, to) = (INVOCATIONS * 24, INVOCATIONS * 8 * OPERATIONS.len() as u32);
    case(&format!(
        "workgroups = [{}, 1, 1]\nseed = 3\n[[buffer]]\nname = \"A\"\nbinding = 0\ntype = \"u32\"\ncount = {from}\nfill = \"bits\"\n\
         [[buffer]]\nname = \"B\"\nbinding = 1\ntype = \"u32\"\ncount = {to}\nfill = \"pattern\"\n",
        INVOCATIONS / 32
    ))
}

fn on(size: u32, run: impl Fn(&str, &Module, &Case) -> Outcome) {
    let wanted = interpret("vectors", &module(), &numbers(), size);
    for lacks in [lacks(&[Feature::ShaderInt64]), everything()] {
        let what = format!("vectors without {:?}", lacks.features().collect::<Vec<_>>());
        let lowered = lowered(&what, &module(), lacks).module;
        same(&what, &run(&what, &lowered, &numbers()), &wanted);
    }
}

fn on_device(device: &VulkanExecutor<'_>, size: u32) {
    on(size, |what, module, case| run_on(device, what, module, case));
}

#[test]
fn vectors_in_the_interpreter() {
    on(8, |what, module, case| interpret(what, module, case, 8));
}

vulkan_test!(
    Lavapipe,
    fn vectors_on_lavapipe(device) {
        on_device(device, 8);
    }
);

vulkan_test!(
    SwiftShader,
    fn vectors_on_swiftshader(device) {
        on_device(device, 4);
    }
);
