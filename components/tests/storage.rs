//! Memory by words, and memory without the Vulkan memory model: original and output leave the same bytes, whatever of the features is lacking.

mod common;

use common::{environment, everything, interpret, lacks, lowered, of_devices, parse, run_on, same, valid, valid_for};
use coop_components::Lacks;
use coop_device::Feature;
use coop_exec::testing::{case, repository};
use coop_exec::vulkan::VulkanExecutor;
use coop_exec::{Case, Outcome, Vulkan, vulkan_test};
use coop_ir::{Module, Op};

/// The modules with cases.
const NAMES: [&str; 7] = ["layouts", "racing", "coherent", "addresses", "elements", "shared", "memory-only"];

fn module(name: &str) -> Module {
    let path = repository().join(format!("testdata/components/{name}.spvasm"));
    parse(&std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display())))
}

fn with_case(name: &str) -> (Module, Case) {
    (module(name), case(format!("testdata/components/{name}.toml")))
}

/// Each feature by itself, pairs of neighbors, and all of them.
fn combinations() -> Vec<Lacks> {
    let all = Lacks::FEATURES;
    let single = all.iter().map(|f| lacks(&[*f]));
    let pairs = all.windows(2).map(lacks);
    single.chain(pairs).chain([everything(), lacks(&all[..3]), lacks(&all[3..])]).collect()
}

#[test]
fn bytes_are_the_same_in_the_interpreter() {
    for name in NAMES {
        let (module, case) = with_case(name);
        let wanted = interpret(name, &module, &case, 8);
        for lacks in combinations() {
            let what = format!("{name} without {:?}", lacks.features().collect::<Vec<_>>());
            let found = interpret(&what, &lowered(&what, &module, lacks).module, &case, 8);
            same(&what, &found, &wanted);
        }
    }
}

fn on_device(device: &VulkanExecutor<'_>) {
    for name in NAMES {
        let (module, case) = with_case(name);
        let wanted = interpret(name, &module, &case, 8);
        for lacks in combinations() {
            let what = format!("{name} without {:?}", lacks.features().collect::<Vec<_>>());
            let lowered = lowered(&what, &module, lacks);
            same(&what, &run_on(device, &what, &lowered.module, &case), &wanted);
        }
    }
}

vulkan_test!(
    Lavapipe,
    fn bytes_are_the_same_on_lavapipe(device) {
        on_device(device);
    }
);

/// The modules for each device that there is a profile of, as it takes them.
fn for_devices(mut check: impl FnMut(Lacks, &str, &Module, &Case)) {
    for (device, lacks) in of_devices() {
        for name in NAMES.into_iter().chain(["versions"]) {
            let (module, case) = with_case(name);
            let what = format!("{name} for {device}");
            let lowered = lowered(&what, &module, lacks);
            valid_for(environment(&lowered.module), &what, &lowered.module);
            check(lacks, &what, &lowered.module, &case);
        }
    }
}

fn original(what: &str, case: &Case) -> Outcome {
    let name = what.split(' ').next().expect("a name");
    interpret(what, &module(name), case, 8)
}

#[test]
fn bytes_are_the_same_with_what_devices_have_in_the_interpreter() {
    for_devices(|_, what, lowered, case| same(what, &interpret(what, lowered, case, 8), &original(what, case)));
}

vulkan_test!(
    Lavapipe,
    fn bytes_are_the_same_with_what_devices_have_on_lavapipe(_device) {
        for_devices(|lacks, what, lowered, case| {
            let features: Vec<Feature> = lacks.features().collect();
            let vulkan = Vulkan::open(true).expect("a loader").without(&features);
            let device = vulkan.device(Some("llvmpipe")).expect("lavapipe");
            same(what, &run_on(&device, what, lowered, case), &original(what, case));
        });
    }
);

/// Elements are counted inside of an object too.
#[test]
fn elements_in_bounds() {
    let (module, case) = with_case("elements");
    let wanted = interpret("elements", &module, &case, 8);
    let path = repository().join("testdata/components/elements.spvasm");
    let source =
        std::fs::read_to_string(path).expect("readable").replace("OpPtrAccessChain", "OpInBoundsPtrAccessChain");
    let lowered = lowered("elements in bounds", &parse(&source), everything()).module;
    assert!(lowered.all().all(|r| !lowered.inst(r).op.is_element_chain()));
    same("elements in bounds", &interpret("elements in bounds", &lowered, &case, 8), &wanted);
}

/// Numbers of 16, 32 and 64 bits at odd addresses, where the module states an alignment of 1.
fn unaligned() -> (Module, Case) {
    let source = r#"
        OpCapability Shader
        OpCapability Int64
        OpCapability Int16
        OpCapability StorageBuffer16BitAccess
        OpCapability PhysicalStorageBufferAddresses
        OpMemoryModel PhysicalStorageBuffer64 GLSL450
        OpEntryPoint GLCompute %main "main" %id %push
        OpExecutionMode %main LocalSize 8 1 1
        OpDecorate %id BuiltIn GlobalInvocationId
        OpMemberDecorate %packed 0 Offset 0
        OpMemberDecorate %packed 1 Offset 2
        OpMemberDecorate %packed 2 Offset 6
        OpDecorate %addresses Block
        OpMemberDecorate %addresses 0 Offset 0
        OpMemberDecorate %addresses 1 Offset 8
        %void = OpTypeVoid
        %fn = OpTypeFunction %void
        %uint = OpTypeInt 32 0
        %short = OpTypeInt 16 1
        %ulong = OpTypeInt 64 0
        %v3uint = OpTypeVector %uint 3
        %packed = OpTypeStruct %short %uint %ulong
        %far = OpTypePointer PhysicalStorageBuffer %packed
        %addresses = OpTypeStruct %ulong %ulong
        %to_addresses = OpTypePointer PushConstant %addresses
        %to_ulong = OpTypePointer PushConstant %ulong
        %in_v3uint = OpTypePointer Input %v3uint
        %0 = OpConstant %uint 0
        %1 = OpConstant %uint 1
        %bytes = OpConstant %ulong 14
        %from = OpConstant %ulong 1
        %to = OpConstant %ulong 3
        %id = OpVariable %in_v3uint Input
        %push = OpVariable %to_addresses PushConstant
        %main = OpFunction %void None %fn
        %entry = OpLabel
        %all = OpLoad %v3uint %id
        %i = OpCompositeExtract %uint %all 0
        %wide = OpUConvert %ulong %i
        %offset = OpIMul %ulong %wide %bytes
        %pa = OpAccessChain %to_ulong %push %0
        %a = OpLoad %ulong %pa
        %pb = OpAccessChain %to_ulong %push %1
        %b = OpLoad %ulong %pb
        %aa = OpIAdd %ulong %a %from
        %ab = OpIAdd %ulong %aa %offset
        %ac = OpConvertUToPtr %far %ab
        %ba = OpIAdd %ulong %b %to
        %bb = OpIAdd %ulong %ba %offset
        %bc = OpConvertUToPtr %far %bb
        %value = OpLoad %packed %ac Aligned 1
        OpStore %bc %value Aligned 1
        OpReturn
        OpFunctionEnd
    "#;
    let case = r#"
        workgroups = [2, 1, 1]
        seed = 5
        push = [{ address = "A" }, { address = "B" }]
        [[buffer]]
        name = "A"
        type = "u32"
        count = 60
        fill = "bits"
        [[buffer]]
        name = "B"
        type = "u32"
        count = 60
        fill = "pattern"
    "#;
    (parse(source), common::case(case))
}

/// Vulkan requires that a number lies at a multiple of its size. Where a module states less, its numbers are accessed byte by byte.
fn copies_unaligned(run: impl Fn(&str, &Module, &Case) -> Outcome) {
    let (module, case) = unaligned();
    for lacks in [lacks(&[Feature::StorageBuffer16BitAccess]), lacks(&[Feature::ShaderInt16]), everything()] {
        let what = format!("unaligned without {:?}", lacks.features().collect::<Vec<_>>());
        let nothing = parse(
            &coop_ir::text::print(&module, &coop_ir::text::PrintOptions::default()).text.replace("OpStore ", "; "),
        );
        let before = run(&what, &lowered(&what, &nothing, lacks).module, &case);
        let after = run(&what, &lowered(&what, &module, lacks).module, &case);
        let (a, mut wanted) = (&before.buffers[0].1, before.buffers[1].1.clone());
        wanted[3..3 + 14 * 16].copy_from_slice(&a[1..1 + 14 * 16]);
        assert_eq!((&after.buffers[0].1, &after.buffers[1].1), (a, &wanted), "{what}");
    }
}

#[test]
fn unaligned_numbers_are_bytes_in_the_interpreter() {
    copies_unaligned(|what, module, case| interpret(what, module, case, 8));
}

vulkan_test!(
    Lavapipe,
    fn unaligned_numbers_are_bytes_on_lavapipe(device) {
        copies_unaligned(|what, module, case| run_on(device, what, module, case));
    }
);

/// Invocations that write neighboring bytes of a word leave those of others as they are: no store writes the whole word.
#[test]
fn parts_of_words_are_written_by_atomic_operations() {
    let lowered = lowered("racing", &module("racing"), everything());
    let mut atomics = 0;
    let mut stores = 0;
    let m = &lowered.module;
    m.in_blocks(|_, i| {
        let class = i.accessed().and_then(|p| coop_ir::types::storage_of(m, p));
        let shared = class == Some(coop_ir::spv::StorageClass::StorageBuffer);
        atomics += usize::from(shared && (i.op == Op::AtomicAnd || i.op == Op::AtomicOr));
        stores += usize::from(shared && i.op == Op::Store);
    });
    assert_eq!((atomics, stores), (8, 0));
    assert!(lowered.report.whole_words && lowered.report.software.len() >= 5, "{:?}", lowered.report);
}

/// Memory through which invocations hand each other numbers is coherent without the Vulkan memory model, and nothing says more than its successor knows.
#[test]
fn memory_that_invocations_share_is_coherent() {
    let lowered = lowered("coherent", &module("coherent"), lacks(&[Feature::VulkanMemoryModel]));
    let text = coop_ir::text::print(&lowered.module, &coop_ir::text::PrintOptions::default()).text;
    let count = |part: &str| text.matches(part).count();
    assert!(text.contains("OpMemoryModel Logical GLSL450") && text.contains("OpDecorate %2 Coherent"), "{text}");
    assert_eq!(
        (count(" Coherent"), count("MakePointer"), count("Private"), count("VulkanMemoryModel")),
        (1, 0, 0, 0),
        "{text}"
    );
    // The scope of the queue family, and the semantics that make available and visible.
    assert_eq!((count("OpConstant %uint 5"), count("OpConstant %uint 24904")), (0, 0), "{text}");
}

/// In tessellation control, a barrier has no memory scope Workgroup without the Vulkan memory model; in compute shaders it has.
#[test]
fn barriers_of_tessellation_have_another_scope() {
    let module = |model: &str, mode: &str| {
        parse(&format!(
            "OpCapability Shader
            OpCapability Tessellation
            OpCapability VulkanMemoryModel
            OpMemoryModel Logical Vulkan
            OpEntryPoint {model} %main \"main\"
            OpExecutionMode %main {mode}
            %void = OpTypeVoid
            %fn = OpTypeFunction %void
            %uint = OpTypeInt 32 0
            %workgroup = OpConstant %uint 2
            %semantics = OpConstant %uint 4104
            %main = OpFunction %void None %fn
            %entry = OpLabel
            %called = OpFunctionCall %void %wait
            OpReturn
            OpFunctionEnd
            %wait = OpFunction %void None %fn
            %label = OpLabel
            OpControlBarrier %workgroup %workgroup %semantics
            OpReturn
            OpFunctionEnd"
        ))
    };
    for (model, mode, scope) in [("TessellationControl", "OutputVertices 4", 1), ("GLCompute", "LocalSize 4 1 1", 2)] {
        let module = module(model, mode);
        valid(model, &module);
        let lowered = lowered(model, &module, lacks(&[Feature::VulkanMemoryModel])).module;
        valid(model, &lowered);
        let mut found = Vec::new();
        lowered.in_blocks(|_, i| {
            if i.op == Op::ControlBarrier {
                found.extend(i.id(1).and_then(|id| lowered.def_inst(id)).and_then(|c| c.constant_bits()));
            }
        });
        assert_eq!(found, [scope], "{model}");
    }
}

/// Blocks of shared memory that overlap become one array where the device takes no layout of it, and stay blocks where it does.
#[test]
fn blocks_of_shared_memory_become_one_array() {
    let all = Lacks::FEATURES;
    let narrow = [Feature::WorkgroupMemoryExplicitLayout8BitAccess, Feature::WorkgroupMemoryExplicitLayout16BitAccess];
    let rows = [(lacks(&narrow), 4), (lacks(&[Feature::WorkgroupMemoryExplicitLayout]), 1), (lacks(&all), 1)];
    for (lacks, count) in rows {
        let lowered = lowered("shared", &module("shared"), lacks).module;
        let class = |r| coop_ir::types::storage_of(&lowered, lowered.inst(r).result?);
        let shared =
            lowered.globals_with(Op::Variable).filter(|r| class(*r) == Some(coop_ir::spv::StorageClass::Workgroup));
        assert_eq!(shared.count(), count, "{:?}", lacks.features().collect::<Vec<_>>());
    }
}

/// An extension stays for a capability that the removed one implied, and goes with the last.
#[test]
fn extensions_of_implied_capabilities_stay() {
    let path = repository().join("testdata/components/memory-only.spvasm");
    let source = std::fs::read_to_string(path).expect("readable");
    let extended = "OpCapability UniformAndStorageBuffer8BitAccess\n OpExtension \"SPV_KHR_8bit_storage\"";
    let source = source.replace("OpCapability StorageBuffer8BitAccess", extended);
    // Before SPIR-V 1.4 interfaces have inputs and outputs alone.
    let mut module = parse(&source.replace("%index %from %to", "%index"));
    module.header.version = 0x0001_0300;
    valid_for("vulkan1.1", "the original", &module);
    let uniform = Feature::UniformAndStorageBuffer8BitAccess;
    for (lacks, stays) in [(lacks(&[uniform]), true), (lacks(&[uniform, Feature::StorageBuffer8BitAccess]), false)] {
        let lowered = coop_components::lower(&module, &coop_components::Options::new(lacks));
        let lowered = lowered.unwrap_or_else(|e| panic!("{e}")).module;
        valid_for("vulkan1.1", "lowered", &lowered);
        let extension = |r: coop_ir::InstRef| lowered.inst(r).string(0).is_some_and(|s| s.0 == "SPV_KHR_8bit_storage");
        assert_eq!(lowered.globals_with(Op::Extension).any(extension), stays);
    }
}

/// Arrays of descriptors keep their bindings, and the decorations of indices that differ.
#[test]
fn arrays_of_descriptors() {
    for lacks in combinations() {
        lowered("arrays", &module("arrays"), lacks);
    }
}

/// The storage buffers of before SPIR-V 1.3, which are uniform memory with another decoration.
#[test]
fn buffer_blocks_are_storage_buffers() {
    let path = repository().join("testdata/components/racing.spvasm");
    let source = std::fs::read_to_string(path).expect("readable");
    let source = source.replace(" StorageBuffer\n", " Uniform\n").replace(" StorageBuffer %", " Uniform %");
    let module = parse(&source.replace(" Block\n", " BufferBlock\n"));
    let case = case("testdata/components/racing.toml");
    let wanted = interpret("original", &module, &case, 8);
    let lowered = coop_components::lower(&module, &coop_components::Options::new(everything()));
    // No validator takes them since SPIR-V 1.4, which the module is for the rest.
    let lowered = lowered.unwrap_or_else(|e| panic!("{e}"));
    assert!(lowered.module.all().any(|r| lowered.module.inst(r).op == Op::AtomicOr));
    same("buffer blocks", &interpret("lowered", &lowered.module, &case, 8), &wanted);
}

/// Matrices of f16, of f32 and of both majornesses: each invocation copies whole ones from one to the other, a column, and a component
/// that an index selects. Rows of three halves have neighbors in their words that other invocations write.
fn matrices() -> (Module, Case) {
    let source = r#"
        OpCapability Shader
        OpCapability Float16
        OpCapability StorageBuffer16BitAccess
        OpMemoryModel Logical GLSL450
        OpEntryPoint GLCompute %main "main" %id %from %to
        OpExecutionMode %main LocalSize 32 1 1
        OpDecorate %id BuiltIn GlobalInvocationId
        OpDecorate %from DescriptorSet 0
        OpDecorate %from Binding 0
        OpDecorate %to DescriptorSet 0
        OpDecorate %to Binding 1
        OpDecorate %pair ArrayStride 16
        OpDecorate %list ArrayStride 22
        OpDecorate %rows ArrayStride 60
        OpDecorate %columns ArrayStride 60
        OpDecorate %a Block
        OpDecorate %b Block
        OpMemberDecorate %a 0 Offset 0
        OpMemberDecorate %b 0 Offset 0
        OpMemberDecorate %row 0 Offset 0
        OpMemberDecorate %row 0 RowMajor
        OpMemberDecorate %row 0 MatrixStride 6
        OpMemberDecorate %row 1 Offset 12
        OpMemberDecorate %row 1 RowMajor
        OpMemberDecorate %row 1 MatrixStride 8
        OpMemberDecorate %row 2 Offset 44
        OpMemberDecorate %row 2 RowMajor
        OpMemberDecorate %row 2 MatrixStride 8
        OpMemberDecorate %column 0 Offset 0
        OpMemberDecorate %column 0 ColMajor
        OpMemberDecorate %column 0 MatrixStride 4
        OpMemberDecorate %column 1 Offset 14
        OpMemberDecorate %column 1 RowMajor
        OpMemberDecorate %column 1 MatrixStride 6
        OpMemberDecorate %column 2 Offset 40
        OpMemberDecorate %column 2 ColMajor
        OpMemberDecorate %column 2 MatrixStride 8
        %void = OpTypeVoid
        %fn = OpTypeFunction %void
        %uint = OpTypeInt 32 0
        %uint3 = OpTypeVector %uint 3
        %half = OpTypeFloat 16
        %float = OpTypeFloat 32
        %half2 = OpTypeVector %half 2
        %half4 = OpTypeVector %half 4
        %float2 = OpTypeVector %float 2
        %2x3 = OpTypeMatrix %half2 3
        %2x2 = OpTypeMatrix %half2 2
        %floats = OpTypeMatrix %float2 2
        %0 = OpConstant %uint 0
        %1 = OpConstant %uint 1
        %2 = OpConstant %uint 2
        %pair = OpTypeArray %2x2 %2
        %list = OpTypeArray %2x2 %1
        %row = OpTypeStruct %2x3 %pair %floats
        %column = OpTypeStruct %2x3 %list %floats
        %rows = OpTypeRuntimeArray %row
        %columns = OpTypeRuntimeArray %column
        %a = OpTypeStruct %rows
        %b = OpTypeStruct %columns
        %pa = OpTypePointer StorageBuffer %a
        %pb = OpTypePointer StorageBuffer %b
        %p2x3 = OpTypePointer StorageBuffer %2x3
        %p2x2 = OpTypePointer StorageBuffer %2x2
        %pfloats = OpTypePointer StorageBuffer %floats
        %phalf2 = OpTypePointer StorageBuffer %half2
        %phalf = OpTypePointer StorageBuffer %half
        %pin = OpTypePointer Input %uint3
        %id = OpVariable %pin Input
        %from = OpVariable %pa StorageBuffer
        %to = OpVariable %pb StorageBuffer
        %main = OpFunction %void None %fn
        %entry = OpLabel
        %all = OpLoad %uint3 %id
        %n = OpCompositeExtract %uint %all 0
        %bit = OpBitwiseAnd %uint %n %1
        %p0 = OpAccessChain %p2x3 %from %0 %n %0
        %v0 = OpLoad %2x3 %p0
        %q0 = OpAccessChain %p2x3 %to %0 %n %0
        OpStore %q0 %v0
        %p1 = OpAccessChain %p2x2 %from %0 %n %1 %bit
        %v1 = OpLoad %2x2 %p1
        %q1 = OpAccessChain %p2x2 %to %0 %n %1 %0
        OpStore %q1 %v1
        %p2 = OpAccessChain %pfloats %from %0 %n %2
        %v2 = OpLoad %floats %p2
        %q2 = OpAccessChain %pfloats %to %0 %n %2
        OpStore %q2 %v2
        %p3 = OpAccessChain %phalf2 %from %0 %n %0 %bit
        %v3 = OpLoad %half2 %p3
        %q3 = OpAccessChain %phalf2 %to %0 %n %1 %0 %bit
        OpStore %q3 %v3
        %p4 = OpAccessChain %phalf %from %0 %n %0 %2 %bit
        %v4 = OpLoad %half %p4
        %q4 = OpAccessChain %phalf %to %0 %n %1 %0 %bit %1
        OpStore %q4 %v4
        OpReturn
        OpFunctionEnd
    "#;
    let case = r#"
        workgroups = [2, 1, 1]
        seed = 5
        [[buffer]]
        name = "A"
        binding = 0
        type = "f16"
        count = 1920
        fill = "half-integers"
        [[buffer]]
        name = "B"
        binding = 1
        type = "f16"
        count = 1920
        fill = "pattern"
    "#;
    (parse(source), common::case(case))
}

fn moves_matrices(all: &[Lacks], run: impl Fn(&str, &Module, &Case) -> Outcome) {
    let (module, case) = matrices();
    let wanted = interpret("matrices", &module, &case, 8);
    for lacks in all.iter().copied() {
        let what = format!("matrices without {:?}", lacks.features().collect::<Vec<_>>());
        same(&what, &run(&what, &lowered(&what, &module, lacks).module, &case), &wanted);
    }
}

fn without_halves() -> [Lacks; 3] {
    [lacks(&[Feature::StorageBuffer16BitAccess]), lacks(&[Feature::ShaderFloat16]), everything()]
}

#[test]
fn matrices_of_rows_in_the_interpreter() {
    moves_matrices(&without_halves(), |what, module, case| interpret(what, module, case, 8));
}

vulkan_test!(
    Lavapipe,
    fn matrices_of_rows_on_lavapipe(device) {
        moves_matrices(&without_halves(), |what, module, case| run_on(device, what, module, case));
    }
);

vulkan_test!(
    SwiftShader,
    fn matrices_of_rows_on_swiftshader(device) {
        moves_matrices(&[everything()], |what, module, case| run_on(device, what, module, case));
    }
);

/// Shader, where only the capability of a layout implies it, stays when that goes: spirv-opt, which SwiftShader inlines functions by, refuses an
/// entry point without it.
#[test]
fn what_a_removed_capability_implied_is_declared() {
    let path = repository().join("testdata/components/shared.spvasm");
    let source = std::fs::read_to_string(path).expect("readable");
    assert!(
        source.contains("OpCapability Shader\n") && source.contains("OpCapability WorkgroupMemoryExplicitLayoutKHR\n")
    );
    let module = parse(&source.replacen("OpCapability Shader\n", "\n", 1));
    let lowered = lowered("shared memory without Shader", &module, everything()).module;
    assert!(lowered.capabilities().any(|c| c == coop_ir::spv::Capability::Shader));
}

/// Debug information of a block of shared memory goes with it where another one stands for it, and that for OpenCL in any case.
#[test]
fn debug_information_of_blocks_that_are_gone() {
    let path = repository().join("testdata/components/shared.spvasm");
    let source = std::fs::read_to_string(path).expect("readable");
    let described = |set: &str| {
        // DebugSource is 35, DebugGlobalVariable 18.
        let about = "%note = OpExtInst %void %notes 35 %name\n\
             %variable = OpExtInst %void %notes 18 %name %note %note %c1 %c1 %note %name %second %c8\n\
             %main = OpFunction ";
        let source = source
            .replacen("OpMemoryModel", &format!("%notes = OpExtInstImport \"{set}\"\nOpMemoryModel"), 1)
            .replacen("OpName %second", "%name = OpString \"name\"\nOpName %second", 1)
            .replacen("%main = OpFunction ", about, 1)
            .replacen("OpExtension ", "OpExtension \"SPV_KHR_non_semantic_info\"\nOpExtension ", 1);
        parse(&source)
    };
    for (set, kept) in [("NonSemantic.Shader.DebugInfo.100", 1), ("OpenCL.DebugInfo.100", 0)] {
        let module = described(set);
        let lacking = lacks(&[Feature::WorkgroupMemoryExplicitLayout]);
        let lowered = lowered("notes", &module, lacking);
        assert_eq!(lowered.module.globals_with(Op::ExtInst).count(), kept, "{set}");
        valid_for(environment(&lowered.module), "notes", &lowered.module);
    }
}
