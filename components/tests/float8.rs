//! 8-bit floats by integers: every number, and f32 around each of them, as the interpreter has it.

mod common;

use common::{case, everything, interpret, lacks, lowered, parse, run_on};
use coop_device::Feature;
use coop_exec::vulkan::VulkanExecutor;
use coop_exec::{Case, Outcome, vulkan_test};
use coop_ir::Module;

/// A module that computes `body` of the word `%x` for each of 65,536 words, with the result `%w`; `%narrow` is the type.
fn module(encoding: &str, decorations: &str, body: &str) -> Module {
    parse(&format!(
        r#"
               OpCapability Shader
               OpCapability Int8
               OpCapability Float8EXT
               OpExtension "SPV_EXT_float8"
               OpMemoryModel Logical GLSL450
               OpEntryPoint GLCompute %main "main" %id %vx %vw
               OpExecutionMode %main LocalSize 64 1 1
               OpDecorate %id BuiltIn GlobalInvocationId
               OpDecorate %vx DescriptorSet 0
               OpDecorate %vx Binding 0
               OpDecorate %vw DescriptorSet 0
               OpDecorate %vw Binding 1
               OpDecorate %words ArrayStride 4
               OpDecorate %block Block
               OpMemberDecorate %block 0 Offset 0
               {decorations}
       %void = OpTypeVoid
         %fn = OpTypeFunction %void
       %uint = OpTypeInt 32 0
      %uchar = OpTypeInt 8 0
      %uint3 = OpTypeVector %uint 3
      %float = OpTypeFloat 32
     %narrow = OpTypeFloat 8 {encoding}
    %narrow4 = OpTypeVector %narrow 4
          %0 = OpConstant %uint 0
         %16 = OpConstant %uint 16
      %words = OpTypeRuntimeArray %uint
      %block = OpTypeStruct %words
         %pb = OpTypePointer StorageBuffer %block
      %puint = OpTypePointer StorageBuffer %uint
        %pin = OpTypePointer Input %uint3
         %vx = OpVariable %pb StorageBuffer
         %vw = OpVariable %pb StorageBuffer
         %id = OpVariable %pin Input
       %main = OpFunction %void None %fn
      %entry = OpLabel
        %all = OpLoad %uint3 %id
          %i = OpCompositeExtract %uint %all 0
         %px = OpAccessChain %puint %vx %0 %i
         %pw = OpAccessChain %puint %vw %0 %i
          %x = OpLoad %uint %px
         {body}
               OpStore %pw %w
               OpReturn
               OpFunctionEnd
        "#
    ))
}

/// Words 0, step, 2 step, ... with some low bits.
fn words(first: u32, step: u32) -> Case {
    case(&format!(
        "workgroups = [1024, 1, 1]
        [[buffer]]
        name = \"x\"
        binding = 0
        type = \"u32\"
        count = 65536
        fill = {{ ramp = [{first}, {step}] }}
        [[buffer]]
        name = \"w\"
        binding = 1
        type = \"u32\"
        count = 65536"
    ))
}

/// Asserts that two runs give the same words, but for the sign and the payload of NaN: of f32, or of 8 bits, none or four in a word.
fn alike(what: &str, one: &Outcome, other: &Outcome) {
    let words = |o: &Outcome| -> Vec<u32> {
        let bytes = o.buffer("w").expect("a buffer").chunks_exact(4);
        bytes.map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
    };
    let least = if what.contains("E4M3") { 0x7f } else { 0x7d };
    let is_nan = |w: u32| if what.contains("to f32") { f32::from_bits(w).is_nan() } else { w & 0x7f >= least };
    let pairs = words(one).into_iter().zip(words(other));
    let wrong: Vec<String> = pairs
        .enumerate()
        .filter(|(_, (a, b))| a != b && !(is_nan(*a) && is_nan(*b) && !what.contains("four")))
        .map(|(n, (a, b))| format!("{n:#x}: {a:#x}, not {b:#x}"))
        .collect();
    assert!(wrong.is_empty(), "{what}: {} wrong, the first: {}", wrong.len(), wrong[0]);
}

/// From f32, with and without saturation; to f32; and four at once by a cast.
fn modules() -> Vec<(String, Module)> {
    let mut out = Vec::new();
    for encoding in ["Float8E4M3EXT", "Float8E5M2EXT"] {
        let narrowing =
            "%f = OpBitcast %float %x\n%n = OpFConvert %narrow %f\n%c = OpBitcast %uchar %n\n%w = OpUConvert %uint %c";
        let widening =
            "%c = OpUConvert %uchar %x\n%n = OpBitcast %narrow %c\n%f = OpFConvert %float %n\n%w = OpBitcast %uint %f";
        let four = "%v = OpBitcast %narrow4 %x\n%n = OpCompositeExtract %narrow %v 2\n%m = OpCompositeInsert %narrow4 %n %v 0\n%w = OpBitcast %uint %m";
        let saturated = "OpDecorate %n SaturatedToLargestFloat8NormalConversionEXT";
        for (what, decorations, body) in [
            ("from f32", "", narrowing),
            ("saturated", saturated, narrowing),
            ("to f32", "", widening),
            ("four", "", four),
        ] {
            out.push((format!("{encoding} {what}"), module(encoding, decorations, body)));
        }
    }
    out
}

#[test]
fn every_number_in_the_interpreter() {
    for (what, module) in modules() {
        for (low, lacks) in [(0, lacks(&[Feature::ShaderFloat8])), (0x8000, everything()), (0x8001, everything())] {
            let case = words(low, 1 << 16);
            let wanted = interpret(&what, &module, &case, 8);
            let found = interpret(&what, &lowered(&what, &module, lacks).module, &case, 8);
            alike(&what, &found, &wanted);
        }
    }
}

fn on_device(device: &VulkanExecutor<'_>) {
    for (what, module) in modules() {
        let lowered = lowered(&what, &module, everything());
        for low in [1, 0x7fff] {
            let case = words(low, 1 << 16);
            let found = run_on(device, &what, &lowered.module, &case);
            alike(&what, &found, &interpret(&what, &module, &case, 8));
        }
    }
}

vulkan_test!(
    Lavapipe,
    fn every_number_on_lavapipe(device) {
        on_device(device);
    }
);
