//! Atomic operations on numbers that share a word with others, and on floats where the device has no such operation: each invocation's own
//! number between those of others, in memory of every kind, and numbers that all invocations count up.

mod common;

use common::{case, everything, interpret, lacks, lowered, parse, run_on, same, valid};
use coop_components::Lacks;
use coop_device::Feature;
use coop_exec::testing::repository;
use coop_exec::vulkan::VulkanExecutor;
use coop_exec::{Case, Outcome, vulkan_test};
use coop_ir::Module;
use coop_ir::spv::Capability;
use std::fmt::Write;

/// Invocations of own numbers.
const INVOCATIONS: u32 = 256;

/// The memory that a module has its numbers in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Memory {
    Buffer,
    /// A buffer of an array of them, which executors do not have.
    Descriptors,
    Shared,
    /// An array in a struct in shared memory, behind a byte.
    SharedStruct,
    Address,
}

const MEMORIES: [Memory; 4] = [Memory::Buffer, Memory::Shared, Memory::SharedStruct, Memory::Address];

/// A type of numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Number {
    Float(u32),
    Int(u32, u32),
}

const FLOATS: [Number; 2] = [Number::Float(16), Number::Float(32)];
const INTEGERS: [Number; 5] =
    [Number::Int(8, 0), Number::Int(8, 1), Number::Int(16, 0), Number::Int(16, 1), Number::Int(32, 0)];

impl Number {
    fn bytes(self) -> u32 {
        match self {
            Number::Float(width) | Number::Int(width, _) => width / 8,
        }
    }

    /// The id of the type, and its declaration if it is not one of words.
    fn declaration(self) -> (&'static str, String) {
        match self {
            Number::Float(32) => ("%float", String::new()),
            Number::Int(32, 0) => ("%uint", String::new()),
            Number::Float(width) => ("%narrow", format!("%narrow = OpTypeFloat {width}")),
            Number::Int(width, signed) => ("%narrow", format!("%narrow = OpTypeInt {width} {signed}")),
        }
    }

    fn buffer(self) -> String {
        match self {
            Number::Float(width) => format!("type = \"f{width}\"\nfill = \"half-integers\""),
            Number::Int(width, _) => format!("type = \"u{width}\"\nfill = \"bits\""),
        }
    }

    /// The operations on `%p` with `%v` and `%w`, of type `T`, in the scope `S`.
    fn operations(self) -> &'static [&'static str] {
        match self {
            Number::Float(_) => &[
                "OpAtomicFAddEXT T %p S %both %v",
                "OpAtomicFMinEXT T %p S %0 %w",
                "OpAtomicFAddEXT T %p S %release %w",
                "OpAtomicFMaxEXT T %p S %both %v",
                "OpAtomicExchange T %p S %acquire %w",
                "OpAtomicLoad T %p S %acquire",
            ],
            Number::Int(_, 1) => &[
                "OpAtomicIAdd T %p S %both %v",
                "OpAtomicISub T %p S %release %w",
                "OpAtomicSMin T %p S %0 %v",
                "OpAtomicIIncrement T %p S %both",
                "OpAtomicSMax T %p S %both %w",
                "OpAtomicCompareExchange T %p S %both %acquire %v %w",
                "OpAtomicLoad T %p S %acquire",
            ],
            Number::Int(..) => &[
                "OpAtomicIAdd T %p S %both %v",
                "OpAtomicUMin T %p S %0 %w",
                "OpAtomicIDecrement T %p S %both",
                "OpAtomicUMax T %p S %both %v",
                "OpAtomicCompareExchange T %p S %both %acquire %w %v",
                "OpAtomicAnd T %p S %both %w",
                "OpAtomicOr T %p S %0 %v",
                "OpAtomicXor T %p S %both %w",
                "OpAtomicExchange T %p S %acquire %v",
                "OpAtomicLoad T %p S %acquire",
            ],
        }
    }

    /// Extends the number `%r` to the word `%x`, both followed by `n`.
    fn word(self, n: usize) -> String {
        match self {
            Number::Float(16) => format!("%f{n} = OpFConvert %float %r{n}\n%x{n} = OpBitcast %uint %f{n}\n"),
            Number::Float(_) => format!("%x{n} = OpBitcast %uint %r{n}\n"),
            Number::Int(32, _) => format!("%x{n} = OpCopyObject %uint %r{n}\n"),
            Number::Int(_, 1) => format!("%f{n} = OpSConvert %sint %r{n}\n%x{n} = OpBitcast %uint %f{n}\n"),
            Number::Int(..) => format!("%x{n} = OpUConvert %uint %r{n}\n"),
        }
    }
}

/// The parts of a module that depend on its memory: decorations, variables and types, and what computes `%p`.
fn parts(memory: Memory) -> [&'static str; 3] {
    match memory {
        Memory::Buffer => [
            "OpDecorate %memory DescriptorSet 0\nOpDecorate %memory Binding 0",
            "%memory = OpVariable %pblock StorageBuffer",
            "%p = OpAccessChain %pnumber %memory %0 %index",
        ],
        Memory::Descriptors => [
            "OpDecorate %memory DescriptorSet 0\nOpDecorate %memory Binding 0",
            "%blocks = OpTypeArray %block %1\n%pblocks = OpTypePointer StorageBuffer %blocks\n\
             %memory = OpVariable %pblocks StorageBuffer",
            "%p = OpAccessChain %pnumber %memory %0 %0 %index",
        ],
        Memory::Shared => [
            "",
            "%some = OpTypeArray T %32\n%psome = OpTypePointer Workgroup %some\n%memory = OpVariable %psome Workgroup",
            "%p = OpAccessChain %pnumber %memory %index",
        ],
        Memory::SharedStruct => [
            "",
            "%rows = OpTypeArray T %4\n%columns = OpTypeArray %rows %8\n%some = OpTypeStruct T %columns %uint\n\
             %psome = OpTypePointer Workgroup %some\n%memory = OpVariable %psome Workgroup",
            "%row = OpUDiv %uint %index %4\n%column = OpUMod %uint %index %4\n\
             %p = OpAccessChain %pnumber %memory %1 %row %column",
        ],
        Memory::Address => [
            "OpDecorate %push Block\nOpMemberDecorate %push 0 Offset 0",
            "%far = OpTypePointer PhysicalStorageBuffer %block\n%push = OpTypeStruct %far\n\
             %ppush = OpTypePointer PushConstant %push\n%pfar = OpTypePointer PushConstant %far\n\
             %memory = OpVariable %ppush PushConstant",
            "%from = OpAccessChain %pfar %memory %0\n%base = OpLoad %far %from\n\
             %p = OpAccessChain %pnumber %base %0 %index",
        ],
    }
}

/// A module of invocations with a global index `%n` and a local one `%l`. `code` has `%p`, which points to the number at `%index`, and
/// the values `%v` and `%w` of another buffer, at `%n` and beside it. What is in shared memory comes from a buffer, and goes back there.
fn module(number: Number, memory: Memory, vulkan: bool, index: &str, code: &str) -> Module {
    let shared = matches!(memory, Memory::Shared | Memory::SharedStruct);
    let (scope, bits) = match (shared, vulkan) {
        (true, _) => ("%2", 0x100),
        (false, true) => ("%5", 0x40),
        (false, false) => ("%1", 0x40),
    };
    let class = match memory {
        Memory::Shared | Memory::SharedStruct => "Workgroup",
        Memory::Address => "PhysicalStorageBuffer",
        Memory::Buffer | Memory::Descriptors => "StorageBuffer",
    };
    let [decorations, declarations, chain] = parts(memory);
    let addressing = if memory == Memory::Address { "PhysicalStorageBuffer64" } else { "Logical" };
    let [model, capability] = if vulkan { ["Vulkan", "OpCapability VulkanMemoryModel"] } else { ["GLSL450", ""] };
    let [first, variable, listed, before, after] = match shared {
        false => [""; 5],
        true => [
            "OpDecorate %first DescriptorSet 0\nOpDecorate %first Binding 0",
            "%first = OpVariable %pblock StorageBuffer",
            "%first",
            "%here = OpAccessChain %pown %first %0 %n\n%there = OpLoad T %here\nOpStore %p %there\nOpControlBarrier %2 %2 %264",
            "OpControlBarrier %2 %2 %264\n%last = OpLoad T %p\nOpStore %here %last",
        ],
    };
    let (ty, declaration) = number.declaration();
    let text = format!(
        r#"
               OpCapability Shader
               OpCapability Int8
               OpCapability Int16
               OpCapability Float16
               OpCapability StorageBuffer8BitAccess
               OpCapability StorageBuffer16BitAccess
               OpCapability PhysicalStorageBufferAddresses
               OpCapability AtomicFloat16AddEXT
               OpCapability AtomicFloat16MinMaxEXT
               OpCapability AtomicFloat32AddEXT
               OpCapability AtomicFloat32MinMaxEXT
               {capability}
               OpExtension "SPV_EXT_shader_atomic_float_add"
               OpExtension "SPV_EXT_shader_atomic_float16_add"
               OpExtension "SPV_EXT_shader_atomic_float_min_max"
               OpMemoryModel {addressing} {model}
               OpEntryPoint GLCompute %main "main" %id %local %memory %values %results {listed}
               OpExecutionMode %main LocalSize 32 1 1
               OpDecorate %id BuiltIn GlobalInvocationId
               OpDecorate %local BuiltIn LocalInvocationId
               OpDecorate %results DescriptorSet 0
               OpDecorate %results Binding 1
               OpDecorate %values DescriptorSet 0
               OpDecorate %values Binding 2
               {decorations}
               {first}
               OpDecorate %array ArrayStride {stride}
               OpDecorate %words ArrayStride 4
               OpDecorate %block Block
               OpDecorate %wblock Block
               OpMemberDecorate %block 0 Offset 0
               OpMemberDecorate %wblock 0 Offset 0
       %void = OpTypeVoid
         %fn = OpTypeFunction %void
       %uint = OpTypeInt 32 0
       %sint = OpTypeInt 32 1
      %float = OpTypeFloat 32
      %uint3 = OpTypeVector %uint 3
      {declaration}
          %0 = OpConstant %uint 0
          %1 = OpConstant %uint 1
          %2 = OpConstant %uint 2
          %3 = OpConstant %uint 3
          %4 = OpConstant %uint 4
          %5 = OpConstant %uint 5
          %8 = OpConstant %uint 8
         %32 = OpConstant %uint 32
        %256 = OpConstant %uint 256
        %264 = OpConstant %uint 264
        %one = OpConstant T {one}
    %acquire = OpConstant %uint {acquire}
    %release = OpConstant %uint {release}
       %both = OpConstant %uint {both}
      %array = OpTypeRuntimeArray T
      %words = OpTypeRuntimeArray %uint
      %block = OpTypeStruct %array
     %wblock = OpTypeStruct %words
     %pblock = OpTypePointer StorageBuffer %block
    %pwblock = OpTypePointer StorageBuffer %wblock
       %pown = OpTypePointer StorageBuffer T
      %pword = OpTypePointer StorageBuffer %uint
        %pin = OpTypePointer Input %uint3
    {pnumber}
         %id = OpVariable %pin Input
      %local = OpVariable %pin Input
     %values = OpVariable %pblock StorageBuffer
    %results = OpVariable %pwblock StorageBuffer
       {declarations}
       {variable}
       %main = OpFunction %void None %fn
      %entry = OpLabel
        %all = OpLoad %uint3 %id
          %n = OpCompositeExtract %uint %all 0
     %inside = OpLoad %uint3 %local
          %l = OpCompositeExtract %uint %inside 0
      {index}
      {chain}
      {before}
       %next = OpBitwiseXor %uint %n %5
      %vfrom = OpAccessChain %pown %values %0 %n
      %wfrom = OpAccessChain %pown %values %0 %next
          %v = OpLoad T %vfrom
          %w = OpLoad T %wfrom
      {code}
      {after}
               OpReturn
               OpFunctionEnd
        "#,
        stride = number.bytes(),
        one = if matches!(number, Number::Float(_)) { "0x1p+0" } else { "1" },
        acquire = 2 | bits,
        release = 4 | bits,
        both = 8 | bits,
        pnumber = if class == "StorageBuffer" { String::new() } else { format!("%pnumber = OpTypePointer {class} T") },
    );
    let text = if class == "StorageBuffer" { text.replace("%pnumber", "%pown") } else { text };
    parse(&text.replace(" T", &format!(" {ty}")).replace(" S ", &format!(" {scope} ")))
}

/// Each invocation does every operation on a number of its own, between those of others, and stores what was there before each.
fn own(number: Number, memory: Memory, vulkan: bool) -> Module {
    let mut code = "%o0 = OpCopyObject %uint %n\n".to_owned();
    for (n, operation) in number.operations().iter().enumerate() {
        let (word, next) = (number.word(n), n + 1);
        let _ = write!(
            code,
            "%r{n} = {operation}\n{word}%t{n} = OpAccessChain %pword %results %0 %o{n}\nOpStore %t{n} %x{n}\n\
             %o{next} = OpIAdd %uint %o{n} %256\n"
        );
    }
    code.push_str("OpAtomicStore %p S %release %w\n");
    let index = if matches!(memory, Memory::Shared | Memory::SharedStruct) { "%l" } else { "%n" };
    module(number, memory, vulkan, &format!("%index = OpCopyObject %uint {index}"), &code)
}

fn own_case(number: Number, memory: Memory) -> Case {
    let (kind, results) = (number.buffer(), INVOCATIONS as usize * number.operations().len());
    let push = if memory == Memory::Address { "push = [{ address = \"A\" }]\n" } else { "" };
    let binding = if memory == Memory::Address { "" } else { "binding = 0\n" };
    case(&format!(
        "workgroups = [{}, 1, 1]\nseed = 7\n{push}\
         [[buffer]]\nname = \"A\"\n{binding}{kind}\ncount = {INVOCATIONS}\n\
         [[buffer]]\nname = \"B\"\nbinding = 1\ntype = \"u32\"\nfill = \"pattern\"\ncount = {results}\n\
         [[buffer]]\nname = \"C\"\nbinding = 2\n{kind}\ncount = {INVOCATIONS}\n",
        INVOCATIONS / 32
    ))
}

/// All invocations count three numbers up that lie side by side, and find the greatest of all values in a fourth. What was there before each
/// step is stored, in any order.
fn counting(number: Number, memory: Memory) -> Module {
    let [_, _, chain] = parts(memory);
    // Another pointer to the same memory.
    let renamed = |to: &str| {
        let mut text = chain.to_owned();
        for id in ["%p ", "%index", "%row", "%column", "%from", "%base"] {
            let new = if id == "%p " { format!("%{to} ") } else { format!("{id}{to}") };
            text = text.replace(&format!("{id}s"), "KEPT").replace(id, &new).replace("KEPT", &format!("{id}s"));
        }
        text
    };
    let [count, greatest] = match number {
        Number::Float(_) => ["OpAtomicFAddEXT T %q S %both %one", "OpAtomicFMaxEXT T %m S %0 %v"],
        Number::Int(_, 1) => ["OpAtomicIIncrement T %q S %both", "OpAtomicSMax T %m S %0 %v"],
        Number::Int(..) => ["OpAtomicISub T %q S %0 %one", "OpAtomicUMax T %m S %both %v"],
    };
    let code = format!(
        "%indexq = OpUMod %uint %n %3\n{}\n%indexm = OpCopyObject %uint %3\n{}\n%r0 = {count}\n{}%most = {greatest}\n\
         %t = OpAccessChain %pword %results %0 %n\nOpStore %t %x0\n",
        renamed("q"),
        renamed("m"),
        number.word(0),
    );
    let index = if matches!(memory, Memory::Shared | Memory::SharedStruct) { "%l" } else { "%n" };
    module(number, memory, false, &format!("%index = OpCopyObject %uint {index}"), &code)
}

/// Sorts the numbers that were there before each step: of each workgroup, or of all invocations.
fn sorted(mut outcome: Outcome) -> Outcome {
    let (_, olds) = &mut outcome.buffers[1];
    let mut words: Vec<[u8; 4]> = olds.chunks_exact(4).map(|w| [w[0], w[1], w[2], w[3]]).collect();
    words.sort_unstable();
    *olds = words.concat();
    outcome
}

fn counted(run: impl Fn(&str, &Module, &Case) -> Outcome) {
    for number in FLOATS.into_iter().chain(INTEGERS) {
        for memory in MEMORIES {
            let what = format!("counting {number:?} in {memory:?}");
            let (module, case) = (counting(number, memory), own_case(number, memory));
            let wanted = sorted(interpret(&what, &module, &case, 8));
            let lowered = lowered(&what, &module, everything()).module;
            same(&what, &sorted(run(&what, &lowered, &case)), &wanted);
        }
    }
}

/// The atomic operations of a module that its lowering leaves, on other than words.
fn left(m: &Module) -> Vec<String> {
    let scalar = |ty| coop_ir::types::scalar(m, ty).is_some_and(|s| s.width() == 32 && s.is_int());
    let ops = m.all().map(|r| m.inst(r)).filter(|i| i.op.is_atomic() && i.ty.is_some_and(|ty| !scalar(ty)));
    ops.map(|i| i.op.to_string()).collect()
}

fn on(run: impl Fn(&str, &Module, &Case) -> Outcome) {
    for number in FLOATS.into_iter().chain(INTEGERS) {
        for memory in MEMORIES {
            for vulkan in [false, true] {
                let what = format!("{number:?} in {memory:?}, Vulkan memory model {vulkan}");
                let (module, case) = (own(number, memory, vulkan), own_case(number, memory));
                // Vulkan has no atomic operations on narrow integers.
                if matches!(number, Number::Float(_)) {
                    valid(&what, &module);
                }
                let wanted = interpret(&what, &module, &case, 8);
                let lacks = if vulkan { without_model() } else { everything() };
                let lowered = lowered(&what, &module, lacks).module;
                assert_eq!(left(&lowered), Vec::<String>::new(), "{what}");
                same(&what, &run(&what, &lowered, &case), &wanted);
            }
        }
    }
}

/// A device that lacks everything but the Vulkan memory model.
fn without_model() -> Lacks {
    let others: Vec<Feature> = Lacks::FEATURES.into_iter().filter(|f| *f != Feature::VulkanMemoryModel).collect();
    lacks(&others)
}

fn on_device(device: &VulkanExecutor<'_>) {
    on(|what, module, case| run_on(device, what, module, case));
    counted(|what, module, case| run_on(device, what, module, case));
}

#[test]
fn own_numbers_in_the_interpreter() {
    on(|what, module, case| interpret(what, module, case, 8));
}

#[test]
fn counted_numbers_in_the_interpreter() {
    counted(|what, module, case| interpret(what, module, case, 8));
}

vulkan_test!(
    Lavapipe,
    fn numbers_on_lavapipe(device) {
        on_device(device);
    }
);

vulkan_test!(
    SwiftShader,
    fn numbers_on_swiftshader(device) {
        on_device(device);
    }
);

/// Buffers of an array of them: the function gets the index of the buffer.
#[test]
fn arrays_of_buffers() {
    for number in FLOATS.into_iter().chain(INTEGERS) {
        let what = format!("{number:?} in an array of buffers");
        let lowered = lowered(&what, &own(number, Memory::Descriptors, false), everything()).module;
        assert_eq!(left(&lowered), Vec::<String>::new(), "{what}");
    }
}

/// Only the operations that the device lacks become loops, and only their memory becomes words.
#[test]
fn what_the_device_has_stays() {
    use Capability as C;
    let declared = |m: &Module| {
        let all =
            [C::AtomicFloat16AddEXT, C::AtomicFloat16MinMaxEXT, C::AtomicFloat32AddEXT, C::AtomicFloat32MinMaxEXT];
        all.map(|c| m.capabilities().any(|of| of == c))
    };
    // The number, the memory, what is lacking, how many operations are left, and which capabilities.
    let rows = [
        (Number::Float(32), Memory::Buffer, Feature::ShaderSharedFloat32AtomicAdd, 6, [false, false, true, true]),
        (Number::Float(32), Memory::Shared, Feature::ShaderSharedFloat32AtomicAdd, 0, [false; 4]),
        (Number::Float(32), Memory::Address, Feature::ShaderBufferFloat32AtomicMinMax, 0, [false; 4]),
        (Number::Float(32), Memory::Buffer, Feature::ShaderBufferFloat32Atomics, 0, [false; 4]),
        (Number::Float(16), Memory::Shared, Feature::ShaderBufferFloat16AtomicAdd, 6, [true, true, false, false]),
        (Number::Float(16), Memory::Buffer, Feature::ShaderBufferFloat16AtomicAdd, 0, [false; 4]),
        (Number::Float(16), Memory::Buffer, Feature::StorageBuffer16BitAccess, 0, [false; 4]),
        (Number::Float(16), Memory::Shared, Feature::ShaderFloat16, 0, [false; 4]),
    ];
    for (number, memory, feature, count, capabilities) in rows {
        let what = format!("{number:?} in {memory:?} without {feature}");
        let (module, case) = (own(number, memory, false), own_case(number, memory));
        let lowered = lowered(&what, &module, lacks(&[feature]));
        assert_eq!(left(&lowered.module).len(), count, "{what}");
        // A module that needs nothing is as it was.
        if lowered.report.changed {
            assert_eq!(declared(&lowered.module), capabilities, "{what}");
        }
        let wanted = interpret(&what, &module, &case, 8);
        same(&what, &interpret(&what, &lowered.module, &case, 8), &wanted);
    }
}

// The last results of atomic operations in a loop, as SwiftShader gets them wrong: `FunctionBuilder::until` gives those of a phi.
vulkan_test!(
    SwiftShader,
    fn what_a_loop_read_is_lost_on_swiftshader(device) {
        let path = "testdata/drivers/swiftshader/value-of-a-loop";
        let source = std::fs::read_to_string(repository().join(format!("{path}.spvasm"))).expect("readable");
        let (module, case) = (parse(&source), coop_exec::testing::case(format!("{path}.toml")));
        let right = interpret(path, &module, &case, 4);
        assert_eq!(right.buffers[0].1[..8], [7, 0, 0, 0, 8, 0, 0, 0]);
        assert_ne!(run_on(device, path, &module, &case).buffers, right.buffers, "docs/drivers.md says otherwise");
    }
);
