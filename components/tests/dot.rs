//! Dot products of integers, exact: of vectors of 8 and 16 bits and of packed bytes, with each pair of signs, and saturating sums.

mod common;

use common::{case, everything, interpret, lacks, lowered, parse, run_on};
use coop_components::Lacks;
use coop_device::Feature;
use coop_exec::{Case, Outcome, vulkan_test};
use coop_ir::Module;

const COUNT: usize = 1024;

/// A module that computes `%r` of the words `%a`, `%b` and `%c`, and their parts.
fn module(code: &str) -> Module {
    parse(&format!(
        r#"
               OpCapability Shader
               OpCapability Int8
               OpCapability Int16
               OpCapability DotProduct
               OpCapability DotProductInputAll
               OpCapability DotProductInput4x8Bit
               OpCapability DotProductInput4x8BitPacked
               OpExtension "SPV_KHR_integer_dot_product"
               OpMemoryModel Logical GLSL450
               OpEntryPoint GLCompute %main "main" %id %va %vb %vc %vr
               OpExecutionMode %main LocalSize 64 1 1
               OpDecorate %id BuiltIn GlobalInvocationId
               OpDecorate %va DescriptorSet 0
               OpDecorate %va Binding 0
               OpDecorate %vb DescriptorSet 0
               OpDecorate %vb Binding 1
               OpDecorate %vc DescriptorSet 0
               OpDecorate %vc Binding 2
               OpDecorate %vr DescriptorSet 0
               OpDecorate %vr Binding 3
               OpDecorate %words ArrayStride 4
               OpDecorate %block Block
               OpMemberDecorate %block 0 Offset 0
       %void = OpTypeVoid
         %fn = OpTypeFunction %void
       %uint = OpTypeInt 32 0
        %int = OpTypeInt 32 1
      %short = OpTypeInt 16 1
     %ushort = OpTypeInt 16 0
       %char = OpTypeInt 8 1
      %uchar = OpTypeInt 8 0
      %uint3 = OpTypeVector %uint 3
      %char4 = OpTypeVector %char 4
     %uchar4 = OpTypeVector %uchar 4
     %short2 = OpTypeVector %short 2
    %ushort2 = OpTypeVector %ushort 2
          %0 = OpConstant %uint 0
      %words = OpTypeRuntimeArray %uint
      %block = OpTypeStruct %words
     %pblock = OpTypePointer StorageBuffer %block
      %pword = OpTypePointer StorageBuffer %uint
        %pin = OpTypePointer Input %uint3
         %va = OpVariable %pblock StorageBuffer
         %vb = OpVariable %pblock StorageBuffer
         %vc = OpVariable %pblock StorageBuffer
         %vr = OpVariable %pblock StorageBuffer
         %id = OpVariable %pin Input
       %main = OpFunction %void None %fn
      %entry = OpLabel
        %all = OpLoad %uint3 %id
          %i = OpCompositeExtract %uint %all 0
         %pa = OpAccessChain %pword %va %0 %i
         %pb = OpAccessChain %pword %vb %0 %i
         %pc = OpAccessChain %pword %vc %0 %i
         %pr = OpAccessChain %pword %vr %0 %i
          %a = OpLoad %uint %pa
          %b = OpLoad %uint %pb
          %c = OpLoad %uint %pc
         %sc = OpBitcast %int %c
        %sa4 = OpBitcast %char4 %a
        %sb4 = OpBitcast %char4 %b
        %ua4 = OpBitcast %uchar4 %a
        %ub4 = OpBitcast %uchar4 %b
        %sa2 = OpBitcast %short2 %a
        %sb2 = OpBitcast %short2 %b
        %ua2 = OpBitcast %ushort2 %a
        %ub2 = OpBitcast %ushort2 %b
         {code}
               OpStore %pr %r
               OpReturn
               OpFunctionEnd
        "#
    ))
}

/// Code, and its exact result modulo 2^32.
type Row = (&'static str, fn(u32, u32, u32) -> i64);

/// The sum of the products of parts of so many bits.
fn dot(a: u32, b: u32, bits: u32, signed: [bool; 2]) -> i64 {
    let part = |x: u32, n: u32, signed: bool| {
        let x = x >> (n * bits) & (u32::MAX >> (32 - bits));
        if signed { i64::from((x << (32 - bits)) as i32 >> (32 - bits)) } else { i64::from(x) }
    };
    (0..32 / bits).map(|n| part(a, n, signed[0]) * part(b, n, signed[1])).sum()
}

fn clamped(value: i64) -> i64 {
    value.clamp(i32::MIN.into(), i32::MAX.into())
}

const ROWS: [Row; 10] = [
    ("%s = OpSDot %int %sa4 %sb4\n%r = OpBitcast %uint %s", |a, b, _| dot(a, b, 8, [true; 2])),
    ("%r = OpUDot %uint %ua4 %ub4", |a, b, _| dot(a, b, 8, [false; 2])),
    ("%s = OpSUDot %int %sa4 %ub4\n%r = OpBitcast %uint %s", |a, b, _| dot(a, b, 8, [true, false])),
    ("%s = OpSDot %int %sa2 %sb2\n%r = OpBitcast %uint %s", |a, b, _| dot(a, b, 16, [true; 2])),
    ("%r = OpUDot %uint %ua2 %ub2", |a, b, _| dot(a, b, 16, [false; 2])),
    ("%s = OpSDot %int %a %b PackedVectorFormat4x8Bit\n%r = OpBitcast %uint %s", |a, b, _| dot(a, b, 8, [true; 2])),
    ("%r = OpUDot %uint %a %b PackedVectorFormat4x8Bit", |a, b, _| dot(a, b, 8, [false; 2])),
    ("%s = OpSDotAccSat %int %sa4 %sb4 %sc\n%r = OpBitcast %uint %s", |a, b, c| {
        clamped(dot(a, b, 8, [true; 2]) + i64::from(c as i32))
    }),
    ("%s = OpSUDotAccSat %int %a %b %sc PackedVectorFormat4x8Bit\n%r = OpBitcast %uint %s", |a, b, c| {
        clamped(dot(a, b, 8, [true, false]) + i64::from(c as i32))
    }),
    ("%r = OpUDotAccSat %uint %ua4 %ub4 %c", |a, b, c| (dot(a, b, 8, [false; 2]) + i64::from(c)).min(u32::MAX.into())),
];

/// Random words; the sums that are added are near the ends of both ranges as well.
fn words(salt: u32) -> Vec<u32> {
    let mut state = 0x9e37_79b9 ^ salt;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state
    };
    let edges =
        [0, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff, 0x8080_8080, 0x7f7f_7f7f, 0x7fff_f000, 0x8000_1000, 0xffff_8000];
    (0..COUNT).map(|n| if n % 3 == 0 { edges[random() as usize % edges.len()] } else { random() }).collect()
}

fn inputs() -> Case {
    let mut text = format!("workgroups = [{}, 1, 1]\n", COUNT / 64);
    for (binding, name) in ["a", "b", "c"].into_iter().enumerate() {
        let values = words(binding as u32);
        text += &format!(
            "[[buffer]]\nname = \"{name}\"\nbinding = {binding}\ntype = \"u32\"\ncount = {COUNT}\nfill = {{ values = {values:?} }}\n"
        );
    }
    text += &format!("[[buffer]]\nname = \"r\"\nbinding = 3\ntype = \"u32\"\ncount = {COUNT}\n");
    case(&text)
}

fn check(code: &str, exact: fn(u32, u32, u32) -> i64, outcome: &Outcome) {
    let [a, b, c] = [0, 1, 2].map(words);
    let found = outcome.buffer("r").expect("a buffer").chunks_exact(4);
    for (n, bytes) in found.enumerate() {
        let (found, wanted) =
            (u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]), exact(a[n], b[n], c[n]) as u32);
        assert_eq!(found, wanted, "{code}: {:#x} {:#x} {:#x}", a[n], b[n], c[n]);
    }
}

/// A device without the instructions, one without 8 bits, one without anything.
fn devices() -> [Lacks; 3] {
    [lacks(&[Feature::ShaderIntegerDotProduct]), lacks(&[Feature::ShaderInt8, Feature::ShaderInt16]), everything()]
}

fn on(run: impl Fn(&str, &Module, &Case) -> Outcome) {
    let case = inputs();
    for (code, exact) in ROWS {
        for lacks in devices() {
            let lowered = lowered(code, &module(code), lacks).module;
            // Packed bytes need no type of 8 bits: the instruction stays where the device has it.
            let dots = lowered.capabilities().any(|c| c == coop_ir::spv::Capability::DotProduct);
            assert_eq!(dots, code.contains("Packed") && !lacks.has(Feature::ShaderIntegerDotProduct), "{code}");
            if !dots {
                check(code, exact, &run(code, &lowered, &case));
            }
        }
    }
}

#[test]
fn dot_products_are_exact_in_the_interpreter() {
    on(|what, module, case| interpret(what, module, case, 8));
}

vulkan_test!(
    Lavapipe,
    fn dot_products_are_exact_on_lavapipe(device) {
        on(|what, module, case| run_on(device, what, module, case));
        // Its own instructions give what is expected here too.
        for (code, exact) in ROWS {
            check(code, exact, &run_on(device, code, &module(code), &inputs()));
        }
    }
);

vulkan_test!(
    SwiftShader,
    fn dot_products_are_exact_on_swiftshader(device) {
        for (code, exact) in ROWS {
            check(code, exact, &run_on(device, code, &lowered(code, &module(code), everything()).module, &inputs()));
        }
    }
);
