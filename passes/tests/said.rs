//! Tests the declarations of lowered modules: capabilities and extensions, decorations, scopes of memory.

use coop_device::Profile;
use coop_ir::spv::Decoration;
use coop_ir::{Id, Inst, Kind, Module, Op, text};
use coop_passes::{Lanes, Options, Target, lower};

fn parsed(source: &str) -> Module {
    text::parse(source).unwrap_or_else(|e| panic!("{e}\n{source}"))
}

fn lowered(source: &str, target: Target, lanes: Lanes) -> Module {
    let lavapipe = Profile::builtin("mesa-lavapipe");
    let profile = lavapipe.as_ref().filter(|_| target != Target::Scalar);
    let options = Options { subgroup_size: Some(8), verify_each: true, profile, lanes, ..Options::new(target) };
    lower(&parsed(source), &options).unwrap_or_else(|e| panic!("{e}\n{source}")).module
}

fn printed(m: &Module) -> String {
    text::print(m, &text::PrintOptions::default()).text
}

fn capabilities(m: &Module) -> Vec<&'static str> {
    let mut all: Vec<&str> =
        m.capabilities().map(|c| Kind::Capability.enumerant(c.0).map_or("?", |e| e.name)).collect();
    all.sort_unstable();
    all
}

fn extensions(m: &Module) -> Vec<String> {
    m.globals_with(Op::Extension).filter_map(|r| Some(m.inst(r).string(0)?.0)).collect()
}

/// Instructions of functions with a result.
fn results(m: &Module) -> impl Iterator<Item = (Id, &Inst)> {
    m.functions.iter().flat_map(|f| f.insts()).map(|r| m.inst(r)).filter_map(|i| Some((i.result?, i)))
}

fn has(m: &Module, id: Id, decoration: Decoration) -> bool {
    coop_ir::decorate::Decorations::new(m).has(id, decoration)
}

/// A shader that multiplies a matrix of a type with itself, element by element: what it declares, and its types.
fn shader(declares: &str, matrix: &str) -> String {
    format!(
        "{declares}
         OpMemoryModel Logical Vulkan
         OpEntryPoint GLCompute %main \"main\"
         OpExecutionMode %main LocalSize 8 1 1
         %void = OpTypeVoid
         %nothing = OpTypeFunction %void
         %uint = OpTypeInt 32 0
         %float = OpTypeFloat 32
         %half = OpTypeFloat 16
         %c0 = OpConstant %uint 0
         %c2 = OpConstant %uint 2
         %c3 = OpConstant %uint 3
         %c8 = OpConstant %uint 8
         {matrix}
         %null = OpConstantNull %matrix
         %main = OpFunction %void None %nothing
         %entry = OpLabel
         %sum = OpFAdd %matrix %null %null
         OpReturn
         OpFunctionEnd"
    )
}

const NV: &str = "OpCapability VulkanMemoryModel\nOpCapability CooperativeMatrixNV\nOpCapability Float16\n\
                  OpExtension \"SPV_NV_cooperative_matrix\"";
const NV_MATRIX: &str = "%matrix = OpTypeCooperativeMatrixNV %float %c3 %c8 %c8";

#[test]
fn what_a_capability_implied_stays_where_it_is_needed() {
    let source = shader(NV, NV_MATRIX);
    let scalar = lowered(&source, Target::Scalar, Lanes::LocalIndex);
    assert_eq!(capabilities(&scalar), ["Float16", "Shader", "VulkanMemoryModel"]);
    let khr = lowered(&source, Target::Khr, Lanes::Subgroup);
    let wanted = ["CooperativeMatrixKHR", "Float16", "GroupNonUniform", "Shader", "VulkanMemoryModel"];
    assert!(capabilities(&khr).iter().all(|c| wanted.contains(c)), "{:?}", capabilities(&khr));
    assert!(capabilities(&khr).contains(&"Shader"));
    // No news: what was implied.
    let options = Options { subgroup_size: Some(8), lanes: Lanes::LocalIndex, ..Options::new(Target::Scalar) };
    let report = lower(&parsed(&source), &options).expect("lowered").report;
    assert!(report.added_capabilities.is_empty(), "{:?}", report.added_capabilities);
    assert_eq!(report.removed_capabilities, ["CooperativeMatrixNV"]);
}

#[test]
fn what_was_implied_by_nothing_else_goes_where_it_is_not_needed() {
    // Float8EXT, which the capability implies: no type of it is left, nor was there one.
    let declares = "OpCapability Shader\nOpCapability VulkanMemoryModel\nOpCapability Float16\n\
                    OpCapability Float8CooperativeMatrixEXT\nOpExtension \"SPV_EXT_float8\"\n\
                    OpExtension \"SPV_KHR_cooperative_matrix\"";
    let source = shader(declares, "%matrix = OpTypeCooperativeMatrixKHR %float %c3 %c8 %c8 %c2");
    let scalar = lowered(&source, Target::Scalar, Lanes::LocalIndex);
    assert_eq!(capabilities(&scalar), ["Float16", "Shader", "VulkanMemoryModel"]);
    // Matrices are left, and none of 8-bit floats: what the capability implied for them stays.
    let khr = lowered(&source, Target::Khr, Lanes::Subgroup);
    assert_eq!(capabilities(&khr), ["CooperativeMatrixKHR", "Float16", "Shader", "VulkanMemoryModel"]);
}

#[test]
fn matrices_that_another_capability_brought_have_their_own_behind_it() {
    let declares = "OpCapability Shader\nOpCapability VulkanMemoryModel\nOpCapability Float16\n\
                    OpCapability CooperativeMatrixConversionQCOM\n\
                    OpExtension \"SPV_QCOM_cooperative_matrix_conversion\"";
    let source = shader(declares, "%matrix = OpTypeCooperativeMatrixKHR %float %c3 %c8 %c8 %c2");
    let khr = lowered(&source, Target::Khr, Lanes::Subgroup);
    assert!(capabilities(&khr).contains(&"CooperativeMatrixKHR"), "{:?}", capabilities(&khr));
    if !capabilities(&khr).contains(&"CooperativeMatrixConversionQCOM") {
        assert!(extensions(&khr).iter().any(|e| e == "SPV_KHR_cooperative_matrix"), "{:?}", extensions(&khr));
    }
}

#[test]
fn a_kernel_stays_one_without_the_capability_that_said_so() {
    let source = "OpCapability Addresses
        OpCapability SubgroupDispatch
        OpCapability CooperativeMatrixKHR
        OpExtension \"SPV_KHR_cooperative_matrix\"
        OpMemoryModel Physical64 OpenCL
        OpEntryPoint Kernel %main \"main\"
        OpExecutionMode %main SubgroupSize 8
        OpExecutionMode %main LocalSize 16 1 1
        %void = OpTypeVoid
        %nothing = OpTypeFunction %void
        %uint = OpTypeInt 32 0
        %float = OpTypeFloat 32
        %c2 = OpConstant %uint 2
        %c3 = OpConstant %uint 3
        %c8 = OpConstant %uint 8
        %matrix = OpTypeCooperativeMatrixKHR %float %c3 %c8 %c8 %c2
        %null = OpConstantNull %matrix
        %main = OpFunction %void None %nothing
        %entry = OpLabel
        %sum = OpFAdd %matrix %null %null
        OpReturn
        OpFunctionEnd";
    let m = lowered(source, Target::Scalar, Lanes::LocalIndex);
    assert!(capabilities(&m).contains(&"Kernel"), "{:?}", capabilities(&m));
    assert!(!capabilities(&m).contains(&"SubgroupDispatch") && !capabilities(&m).contains(&"DeviceEnqueue"));
}

const KHR: &str = "OpCapability Shader\nOpCapability VulkanMemoryModel\nOpCapability Float16\n\
                   OpCapability CooperativeMatrixKHR\nOpExtension \"SPV_KHR_cooperative_matrix\"";

/// A sum and a conversion, each decorated; `rows` of 16 is more than lavapipe has.
fn decorated(rows: u32, decorations: &str) -> String {
    let memory = "OpMemoryModel Logical Vulkan\nOpEntryPoint GLCompute %main \"main\" %data
        OpExecutionMode %main LocalSize 8 1 1
        OpDecorate %array ArrayStride 4
        OpDecorate %block Block
        OpMemberDecorate %block 0 Offset 0
        OpDecorate %data DescriptorSet 0
        OpDecorate %data Binding 0";
    format!(
        "{KHR}
         {memory}
         {decorations}
         %void = OpTypeVoid
         %nothing = OpTypeFunction %void
         %uint = OpTypeInt 32 0
         %float = OpTypeFloat 32
         %half = OpTypeFloat 16
         %c0 = OpConstant %uint 0
         %c2 = OpConstant %uint 2
         %c3 = OpConstant %uint 3
         %rows = OpConstant %uint {rows}
         %array = OpTypeRuntimeArray %float
         %block = OpTypeStruct %array
         %to_block = OpTypePointer StorageBuffer %block
         %to_float = OpTypePointer StorageBuffer %float
         %data = OpVariable %to_block StorageBuffer
         %matrix = OpTypeCooperativeMatrixKHR %float %c3 %rows %rows %c2
         %halves = OpTypeCooperativeMatrixKHR %half %c3 %rows %rows %c2
         %main = OpFunction %void None %nothing
         %entry = OpLabel
         %p = OpAccessChain %to_float %data %c0 %c0
         %x = OpCooperativeMatrixLoadKHR %matrix %p %c0 %rows
         %sum = OpFAdd %matrix %x %x
         %narrow = OpFConvert %halves %sum
         %wide = OpFConvert %matrix %narrow
         OpCooperativeMatrixStoreKHR %p %wide %c0 %rows
         OpReturn
         OpFunctionEnd"
    )
}

/// Those of the operation, by itself or as one of a group, are those of each operation on a part: of an element, of a tile, and of
/// a matrix that stays.
#[test]
fn decorations_of_operations_are_those_of_their_parts() {
    let own = "OpDecorate %sum NoContraction\nOpDecorate %narrow FPRoundingMode RTZ";
    let group = "OpDecorate %group NoContraction\nOpDecorate %rounds FPRoundingMode RTZ
        %group = OpDecorationGroup\n%rounds = OpDecorationGroup
        OpGroupDecorate %group %sum\nOpGroupDecorate %rounds %narrow";
    for (decorations, rows) in [(own, 8), (own, 16), (group, 8), (group, 16)] {
        for (target, lanes) in
            [(Target::Scalar, Lanes::Subgroup), (Target::Scalar, Lanes::LocalIndex), (Target::Khr, Lanes::Subgroup)]
        {
            let m = lowered(&decorated(rows, decorations), target, lanes);
            let (mut sums, mut conversions) = (0, 0);
            for (id, i) in results(&m) {
                let narrows = i.op == Op::FConvert && has(&m, id, Decoration::FPRoundingMode);
                assert_eq!(has(&m, id, Decoration::NoContraction), i.op == Op::FAdd, "{}", printed(&m));
                sums += u32::from(i.op == Op::FAdd);
                conversions += u32::from(narrows);
                assert!(i.op == Op::FConvert || !has(&m, id, Decoration::FPRoundingMode), "{}", printed(&m));
            }
            // Elements of each lane; tiles.
            let parts = match (target, rows) {
                (Target::Scalar, _) => rows * rows / 8,
                (_, 8) => 1,
                _ => 4,
            };
            assert_eq!((sums, conversions), (parts, parts), "{target} of {rows}:\n{}", printed(&m));
            assert!(!m.globals.iter().any(|r| m.inst(*r).op == Op::DecorationGroup));
        }
    }
}

/// A value that is uniform as a matrix need not be uniform as parts.
#[test]
fn decorations_of_the_whole_go() {
    let decorations = "OpDecorate %sum UniformId %c3\nOpDecorate %x NonUniform";
    let m = lowered(
        &decorated(16, &decorations.replace("OpDecorate %sum UniformId", "OpDecorateId %sum UniformId")),
        Target::Scalar,
        Lanes::LocalIndex,
    );
    let uniform = [Decoration::UniformId, Decoration::NonUniform];
    assert!(results(&m).all(|(id, _)| uniform.iter().all(|d| !has(&m, id, *d))), "{}", printed(&m));
}

/// Buffers that are chosen by an index that differs: whoever reads them now says so.
#[test]
fn indices_that_are_not_uniform_stay_so() {
    let source = decorated(16, "OpDecorate %p NonUniform")
        .replace("OpCapability Float16", "OpCapability Float16\nOpCapability ShaderNonUniform\nOpCapability StorageBufferArrayNonUniformIndexing")
        .replace("%to_block = OpTypePointer StorageBuffer %block", "%c4 = OpConstant %uint 4\n%blocks = OpTypeArray %block %c4\n%to_block = OpTypePointer StorageBuffer %blocks\n%to_word = OpTypePointer Input %uint\n%which = OpVariable %to_word Input")
        .replace("%main \"main\" %data", "%main \"main\" %data %which")
        .replace("OpDecorate %data Binding 0", "OpDecorate %data Binding 0\nOpDecorate %which BuiltIn SubgroupId")
        .replace("OpCapability Shader\n", "OpCapability Shader\nOpCapability GroupNonUniform\n")
        .replace("%p = OpAccessChain %to_float %data %c0 %c0", "%n = OpLoad %uint %which\n%p = OpAccessChain %to_float %data %n %c0 %c0");
    for target in [Target::Scalar, Target::Khr] {
        let m = lowered(&source, target, Lanes::Subgroup);
        let data = parsed_id(&m, "data");
        let chains: Vec<Id> =
            results(&m).filter(|(_, i)| i.op == Op::AccessChain && i.id(0) == Some(data)).map(|(id, _)| id).collect();
        assert!(chains.len() > 1, "{}", printed(&m));
        assert!(chains.iter().all(|id| has(&m, *id, Decoration::NonUniform)), "{target}:\n{}", printed(&m));
    }
}

/// The variable of the first binding: text has no names of ids.
fn parsed_id(m: &Module, _name: &str) -> Id {
    let d = coop_ir::decorate::Decorations::new(m);
    let ids = m.globals_with(Op::Variable).filter_map(|r| m.inst(r).result);
    ids.into_iter().find(|id| d.binding(*id) == Some(0)).expect("a binding")
}

/// Lanes of a subgroup by local index are in several subgroups of the device: memory is shared by the workgroup.
#[test]
fn memory_of_simulated_subgroups_is_shared_by_the_workgroup() {
    let source = shader(KHR, "%matrix = OpTypeCooperativeMatrixKHR %float %c3 %c8 %c8 %c2\n%word = OpTypePointer Workgroup %uint\n%shared = OpVariable %word Workgroup\n%order = OpConstant %uint 264")
        .replace("OpReturn", "%old = OpAtomicIAdd %uint %shared %c3 %order %c2\nOpMemoryBarrier %c3 %order\nOpStore %shared %c8 MakePointerAvailable|NonPrivatePointer %c3\nOpReturn")
        .replace("%main \"main\"", "%main \"main\" %shared");
    let scope = |m: &Module, op: Op, at: usize| {
        let i = m.functions.iter().flat_map(|f| f.insts()).map(|r| m.inst(r)).find(|i| i.op == op).expect("there");
        i.id(at).and_then(|id| m.def_inst(id)).and_then(|c| c.word(0))
    };
    for (lanes, wanted) in [(Lanes::Subgroup, 3), (Lanes::LocalIndex, 2)] {
        let m = lowered(&source, Target::Scalar, lanes);
        for (op, at) in [(Op::AtomicIAdd, 1), (Op::MemoryBarrier, 0), (Op::Store, 3)] {
            assert_eq!(scope(&m, op, at), Some(wanted), "{op}, {lanes:?}:\n{}", printed(&m));
        }
    }
}

/// Queries about subgroups are answered; their sizes by any name.
#[test]
fn built_ins_about_subgroups_are_answered() {
    for (built_in, wanted) in
        [("SubgroupSize", 8), ("SubgroupMaxSize", 8), ("NumSubgroups", 1), ("NumEnqueuedSubgroups", 1)]
    {
        let source = shader(KHR, "%matrix = OpTypeCooperativeMatrixKHR %float %c3 %c8 %c8 %c2\n%word = OpTypePointer Input %uint\n%told = OpVariable %word Input\n%out = OpTypePointer Private %uint\n%kept = OpVariable %out Private")
            .replace("OpReturn", "%n = OpLoad %uint %told\nOpStore %kept %n\nOpReturn")
            .replace("%main \"main\"", "%main \"main\" %told %kept")
            .replace("OpExecutionMode %main LocalSize 8 1 1", &format!("OpExecutionMode %main LocalSize 8 1 1\nOpDecorate %told BuiltIn {built_in}"));
        let m = lowered(&source, Target::Scalar, Lanes::LocalIndex);
        let store = m.functions.iter().flat_map(|f| f.insts()).map(|r| m.inst(r)).find(|i| i.op == Op::Store);
        let stored = store.and_then(|i| m.def_inst(i.id(1)?)).expect("a value");
        let value = if stored.op == Op::CopyObject { stored.id(0).and_then(|id| m.def_inst(id)) } else { Some(stored) };
        assert_eq!(value.and_then(|c| c.word(0)), Some(wanted), "{built_in}:\n{}", printed(&m));
    }
}
