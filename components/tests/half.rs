//! f16 by f32: every conversion, and arithmetic against exact results rounded once.

mod common;

use common::{case_with_files, contents, lacks, lowered, parse, run_on};
use coop_device::Feature;
use coop_exec::vulkan::VulkanExecutor;
use coop_exec::{Case, Outcome, vulkan_test};
use coop_ir::Module;
use half::f16;

/// A module that computes `body` for each element: `%a`, `%b` and `%c` are the elements of three buffers of f16, `%x` of one of
/// words. `%r` is written to a buffer of f16 and `%w` to one of words.
fn module(body: &str) -> Module {
    parse(&format!(
        r#"
               OpCapability Shader
               OpCapability Float16
               OpCapability StorageBuffer16BitAccess
       %glsl = OpExtInstImport "GLSL.std.450"
               OpMemoryModel Logical GLSL450
               OpEntryPoint GLCompute %main "main" %id %va %vb %vc %vx %vr %vw
               OpExecutionMode %main LocalSize 64 1 1
               OpDecorate %id BuiltIn GlobalInvocationId
               OpDecorate %va DescriptorSet 0
               OpDecorate %va Binding 0
               OpDecorate %vb DescriptorSet 0
               OpDecorate %vb Binding 1
               OpDecorate %vc DescriptorSet 0
               OpDecorate %vc Binding 2
               OpDecorate %vx DescriptorSet 0
               OpDecorate %vx Binding 3
               OpDecorate %vr DescriptorSet 0
               OpDecorate %vr Binding 4
               OpDecorate %vw DescriptorSet 0
               OpDecorate %vw Binding 5
               OpDecorate %halves ArrayStride 2
               OpDecorate %words ArrayStride 4
               OpDecorate %bh Block
               OpDecorate %bw Block
               OpMemberDecorate %bh 0 Offset 0
               OpMemberDecorate %bw 0 Offset 0
       %void = OpTypeVoid
         %fn = OpTypeFunction %void
       %bool = OpTypeBool
       %uint = OpTypeInt 32 0
      %uint3 = OpTypeVector %uint 3
      %uint2 = OpTypeVector %uint 2
      %float = OpTypeFloat 32
       %half = OpTypeFloat 16
      %half2 = OpTypeVector %half 2
     %matrix = OpTypeMatrix %half2 2
       %zero = OpConstant %half 0
          %0 = OpConstant %uint 0
     %halves = OpTypeRuntimeArray %half
      %words = OpTypeRuntimeArray %uint
         %bh = OpTypeStruct %halves
         %bw = OpTypeStruct %words
        %pbh = OpTypePointer StorageBuffer %bh
        %pbw = OpTypePointer StorageBuffer %bw
      %phalf = OpTypePointer StorageBuffer %half
      %puint = OpTypePointer StorageBuffer %uint
        %pin = OpTypePointer Input %uint3
         %va = OpVariable %pbh StorageBuffer
         %vb = OpVariable %pbh StorageBuffer
         %vc = OpVariable %pbh StorageBuffer
         %vx = OpVariable %pbw StorageBuffer
         %vr = OpVariable %pbh StorageBuffer
         %vw = OpVariable %pbw StorageBuffer
         %id = OpVariable %pin Input
       %main = OpFunction %void None %fn
      %entry = OpLabel
        %all = OpLoad %uint3 %id
          %i = OpCompositeExtract %uint %all 0
         %pa = OpAccessChain %phalf %va %0 %i
         %pb = OpAccessChain %phalf %vb %0 %i
         %pc = OpAccessChain %phalf %vc %0 %i
         %px = OpAccessChain %puint %vx %0 %i
         %pr = OpAccessChain %phalf %vr %0 %i
         %pw = OpAccessChain %puint %vw %0 %i
          %a = OpLoad %half %pa
          %b = OpLoad %half %pb
          %c = OpLoad %half %pc
          %x = OpLoad %uint %px
         {body}
               OpStore %pr %r
               OpStore %pw %w
               OpReturn
               OpFunctionEnd
        "#
    ))
}

/// The contents of the buffers of [`module`].
struct Inputs {
    name: &'static str,
    halves: [Vec<u16>; 3],
    words: Vec<u32>,
}

impl Inputs {
    fn case(&self) -> Case {
        let count = self.words.len();
        let mut text = format!("workgroups = [{}, 1, 1]\n", count / 64);
        let mut buffer = |name: &str, binding: usize, ty: &str, path: &str| {
            text += &format!(
                "[[buffer]]\nname = \"{name}\"\nbinding = {binding}\ntype = \"{ty}\"\ncount = {count}\nfill = {{ file = \"{path}\" }}\n"
            );
        };
        for (n, halves) in self.halves.iter().enumerate() {
            let bytes = halves.iter().flat_map(|h| h.to_le_bytes());
            buffer(&n.to_string(), n, "f16", &contents(&format!("{}-{n}", self.name), bytes));
        }
        let bytes = self.words.iter().flat_map(|w| w.to_le_bytes());
        buffer("x", 3, "u32", &contents(&format!("{}-x", self.name), bytes));
        for (name, binding, ty) in [("r", 4, "f16"), ("w", 5, "u32")] {
            text += &format!("[[buffer]]\nname = \"{name}\"\nbinding = {binding}\ntype = \"{ty}\"\ncount = {count}\n");
        }
        case_with_files(&text)
    }

    /// Every number of f16, with two others; words around every f16.
    fn all(name: &'static str, seed: u32) -> Inputs {
        let mixed = |n: u32, salt: u32| {
            let x = (n ^ salt).wrapping_mul(0x9e37_79b1);
            let x = (x ^ x >> 15).wrapping_mul(0x85eb_ca77);
            (x ^ x >> 13) as u16
        };
        let all = 0..1u32 << 16;
        let b = all.clone().map(|n| mixed(n, seed)).collect();
        let c = all.clone().map(|n| mixed(n, seed ^ 0x5bd1_e995)).collect();
        // Below, at and above the numbers of f16 and the middles between them, by turns; middles of subnormal numbers have few bits.
        let near = |n: u32| match seed % 7 {
            0 => n << 16 | 0x1000,
            1 => n << 16 | 0x0fff,
            2 => n << 16 | 0x1001,
            3 => n << 16 | 0x3000,
            4 => n << 16 | 0x2fff | (n & 1) << 15,
            5 => n << 16,
            _ => n << 16 | u32::from(mixed(n, seed)),
        };
        Inputs { name, halves: [all.clone().map(|n| n as u16).collect(), b, c], words: all.map(near).collect() }
    }
}

fn halves(outcome: &Outcome) -> Vec<u16> {
    outcome.buffer("r").expect("a buffer").chunks_exact(2).map(|b| u16::from_le_bytes([b[0], b[1]])).collect()
}

fn words(outcome: &Outcome) -> Vec<u32> {
    let bytes = outcome.buffer("w").expect("a buffer").chunks_exact(4);
    bytes.map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
}

/// Rounds to the nearest f16, ties to even. (`half` drops the lower bits of f64 first.)
fn nearest(value: f64) -> u16 {
    if !value.is_finite() || value == 0.0 {
        return f16::from_f64(value).to_bits();
    }
    let exponent = (value.abs().to_bits() >> 52) as i32 - 1023;
    let quantum = 2f64.powi(exponent.max(-14) - 10);
    f16::from_f64((value / quantum).round_ties_even() * quantum).to_bits()
}

/// Equal, or both NaN.
fn same_half(a: u16, b: u16) -> bool {
    a == b || f16::from_bits(a).is_nan() && f16::from_bits(b).is_nan()
}

/// One operation: its text, and its exact result. The last is given the numbers' bits and the word.
struct Operation {
    text: &'static str,
    exact: fn(u16, u16, u16, u32) -> f64,
}

/// The value of f16.
fn v(bits: u16) -> f64 {
    f16::from_bits(bits).to_f64()
}

/// `a * b + c`, rounded to odd in f64.
fn fused(a: u16, b: u16, c: u16) -> f64 {
    let (x, y, z) = (v(a), v(b), v(c));
    if !(x * y + z).is_finite() || x * y + z == 0.0 {
        return x * y + z;
    }
    // Multiples of 2^-48.
    let units = |value: f64, scale: i32| (value * 2f64.powi(scale)) as i128;
    let sum = units(x, 24) * units(y, 24) + (units(z, 24) << 24);
    let (mut magnitude, mut shift) = (sum.unsigned_abs(), 0);
    while magnitude >= 1 << 53 {
        magnitude = magnitude >> 1 | magnitude & 1;
        shift += 1;
    }
    (magnitude as f64 * 2f64.powi(shift - 48)).copysign(sum as f64)
}

/// Operations whose results are correctly rounded.
const ROUNDED: [Operation; 13] = [
    Operation { text: "%r = OpFAdd %half %a %b", exact: |a, b, _, _| v(a) + v(b) },
    Operation { text: "%r = OpFSub %half %a %b", exact: |a, b, _, _| v(a) - v(b) },
    Operation { text: "%r = OpFMul %half %a %b", exact: |a, b, _, _| v(a) * v(b) },
    Operation { text: "%r = OpFDiv %half %a %b", exact: |a, b, _, _| v(a) / v(b) },
    Operation { text: "%r = OpExtInst %half %glsl Sqrt %a", exact: |a, _, _, _| v(a).sqrt() },
    Operation { text: "%r = OpExtInst %half %glsl Fma %a %b %c", exact: |a, b, c, _| fused(a, b, c) },
    Operation { text: "%r = OpFmaKHR %half %a %b %c", exact: |a, b, c, _| fused(a, b, c) },
    Operation {
        text: "%v = OpCompositeConstruct %half2 %a %c\n%u = OpCompositeConstruct %half2 %c %b\n\
               %m = OpOuterProduct %matrix %v %u\n%r = OpCompositeExtract %half %m 1 0",
        exact: |a, b, _, _| v(a) * v(b),
    },
    Operation {
        text: "%v = OpCompositeConstruct %half2 %c %a\n%m = OpCompositeConstruct %matrix %v %v\n\
               %s = OpMatrixTimesScalar %matrix %m %b\n%r = OpCompositeExtract %half %s 0 1",
        exact: |a, b, _, _| v(a) * v(b),
    },
    Operation {
        text: "%v = OpCompositeConstruct %half2 %a %zero\n%u = OpCompositeConstruct %half2 %zero %a\n\
               %m = OpCompositeConstruct %matrix %v %u\n%d = OpCompositeConstruct %half2 %b %zero\n\
               %e = OpCompositeConstruct %half2 %zero %b\n%n = OpCompositeConstruct %matrix %d %e\n\
               %p = OpMatrixTimesMatrix %matrix %m %n\n%q = OpCompositeExtract %half %p 0 0\n\
               %r = OpExtInst %half %glsl FAbs %q",
        exact: |a, b, _, _| (v(a) * v(b)).abs(),
    },
    Operation { text: "%r = OpFNegate %half %a", exact: |a, _, _, _| -v(a) },
    Operation {
        text: "%f = OpBitcast %float %x\n%r = OpFConvert %half %f",
        exact: |_, _, _, x| f64::from(f32::from_bits(x)),
    },
    Operation { text: "%r = OpConvertUToF %half %x", exact: |_, _, _, x| f64::from(x) },
];

fn check(what: &str, inputs: &Inputs, outcome: &Outcome, operation: &Operation) {
    let mut wrong = Vec::new();
    for (n, found) in halves(outcome).into_iter().enumerate() {
        let [a, b, c] = [0, 1, 2].map(|k| inputs.halves[k][n]);
        let wanted = nearest((operation.exact)(a, b, c, inputs.words[n]));
        if !same_half(found, wanted) {
            wrong
                .push(format!("{a:#06x} {b:#06x} {c:#06x} {:#010x}: {found:#06x}, not {wanted:#06x}", inputs.words[n]));
        }
    }
    wrong.truncate(5);
    assert!(wrong.is_empty(), "{what}, {}:\n{}", operation.text, wrong.join("\n"));
}

const LACKS: [Feature; 2] = [Feature::ShaderFloat16, Feature::StorageBuffer16BitAccess];

fn without_half(text: &str) -> Module {
    let module = module(&format!("{text}\n%w = OpBitwiseAnd %uint %x %x"));
    lowered(text, &module, lacks(&LACKS)).module
}

fn interpret(module: &Module, case: &Case) -> Outcome {
    common::interpret("f16 by f32", module, case, 32)
}

#[test]
fn every_half_in_the_interpreter() {
    for seed in [5, 6] {
        let inputs = Inputs::all("interp", seed);
        let case = inputs.case();
        for operation in ROUNDED {
            check("interpreter", &inputs, &interpret(&without_half(operation.text), &case), &operation);
        }
    }
}

fn on_device(device: &VulkanExecutor<'_>) {
    for seed in 0..12 {
        let inputs = Inputs::all("lavapipe", seed);
        let case = inputs.case();
        for operation in ROUNDED {
            let outcome = run_on(device, operation.text, &without_half(operation.text), &case);
            check("lavapipe", &inputs, &outcome, &operation);
        }
    }
}

vulkan_test!(
    Lavapipe,
    fn every_half_on_lavapipe(device) {
        on_device(device);
    }
);

/// Operations that are computed with f32 and rounded once, where results keep that precision.
const EXCESS: [Operation; 4] = [
    Operation {
        text: "%m = OpFMul %half %a %b\n%r = OpFAdd %half %m %c",
        exact: |a, b, c, _| f64::from((v(a) * v(b)) as f32 + v(c) as f32),
    },
    Operation {
        text: "%s = OpFAdd %half %a %b\n%r = OpFMul %half %s %c",
        exact: |a, b, c, _| f64::from((v(a) + v(b)) as f32 * v(c) as f32),
    },
    Operation { text: "%r = OpFNegate %half %a", exact: |a, _, _, _| -v(a) },
    // A conversion rounds.
    Operation {
        text: "%f = OpBitcast %float %x\n%h = OpFConvert %half %f\n%r = OpFAdd %half %h %h",
        exact: |_, _, _, x| 2.0 * v(nearest(f64::from(f32::from_bits(x)))),
    },
];

fn with_excess(text: &str) -> Module {
    let module = module(&format!("{text}\n%w = OpBitwiseAnd %uint %x %x"));
    let mut options = coop_components::Options::new(lacks(&LACKS));
    options.excess_precision = true;
    coop_components::lower(&module, &options).unwrap_or_else(|e| panic!("{text}: {e}")).module
}

#[test]
fn excess_precision_is_that_of_f32_until_it_is_stored() {
    let inputs = Inputs::all("excess", 6);
    let case = inputs.case();
    for operation in EXCESS {
        check("interpreter", &inputs, &interpret(&with_excess(operation.text), &case), &operation);
    }
    // Without it each operation is rounded, which is another result here and there.
    let text = EXCESS[0].text;
    let [excess, rounded] = [with_excess(text), without_half(text)].map(|m| halves(&interpret(&m, &case)));
    assert!(excess.iter().zip(&rounded).any(|(a, b)| !same_half(*a, *b)));
}

vulkan_test!(
    Lavapipe,
    fn excess_precision_on_lavapipe(device) {
        let inputs = Inputs::all("excess-lavapipe", 6);
        let case = inputs.case();
        for operation in EXCESS {
            let outcome = run_on(device, operation.text, &with_excess(operation.text), &case);
            check("lavapipe", &inputs, &outcome, &operation);
        }
    }
);

/// Casts, comparisons and functions that are exact give the bits of the original.
#[test]
fn what_rounds_nothing_is_as_it_was() {
    let inputs = Inputs::all("exact", 3);
    let case = inputs.case();
    let operations = [
        "%f = OpFConvert %float %a\n%w = OpBitcast %uint %f\n%r = OpCopyObject %half %b",
        "%v = OpCompositeConstruct %half2 %a %b\n%w = OpBitcast %uint %v\n%r = OpExtInst %half %glsl FAbs %a",
        "%v = OpBitcast %half2 %x\n%r = OpCompositeExtract %half %v 1\n%w = OpCopyObject %uint %x",
        "%v = OpBitcast %half2 %x\n%u = OpFNegate %half2 %v\n%w = OpBitcast %uint %u\n%r = OpCompositeExtract %half %u 0",
        "%t = OpFOrdLessThan %bool %a %b\n%r = OpSelect %half %t %a %b\n%n = OpIsNan %bool %a\n%w = OpSelect %uint %n %x %0",
        "%m = OpExtInst %half %glsl NMin %a %b\n%r = OpExtInst %half %glsl NMax %m %c\n%w = OpCopyObject %uint %x",
        "%f = OpExtInst %half %glsl Floor %a\n%r = OpExtInst %half %glsl RoundEven %b\n%g = OpFConvert %float %f\n%w = OpBitcast %uint %g",
    ];
    for text in operations {
        let module = module(text);
        let found = interpret(&lowered(text, &module, lacks(&LACKS)).module, &case);
        let wanted = interpret(&module, &case);
        let pairs = halves(&found).into_iter().zip(halves(&wanted));
        let wrong = pairs.clone().position(|(a, b)| !same_half(a, b));
        assert_eq!(wrong, None, "{text}");
        let nan =
            |w: u32| f32::from_bits(w).is_nan() || [w, w >> 16].iter().any(|w| f16::from_bits(*w as u16).is_nan());
        let wrong = words(&found).into_iter().zip(words(&wanted)).position(|(a, b)| a != b && !(nan(a) && nan(b)));
        assert_eq!(wrong, None, "{text}");
    }
}
