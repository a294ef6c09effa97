//! Rules about instructions of SPV_KHR_cooperative_matrix, and the other forms of these instructions: the operation of an
//! `OpSpecConstantOp`, the twin of SPV_NV_cooperative_matrix, tensor loads and stores, Intel's checked loads and stores.
//!
//! Each rule that applies to an instruction has a section in `forms.txt`, which says which rule finds the defect in each form,
//! and shows it, or why there is no such form.

use coop_ir::text;
use coop_validate::{Options, RULES, check};
use std::collections::{BTreeMap, BTreeSet};

/// The forms of an instruction besides its own.
const FORMS: [&str; 5] = ["specialized", "nv1", "nv1-specialized", "tensor", "intel"];

/// The expected class of a form of an instruction.
enum Form<'a> {
    /// This rule finds the defect in a module with these lines outside of functions and in the entry point.
    Found { rule: &'a str, globals: String, body: String },
    /// There is no such form.
    None,
}

/// By rule, its forms by name.
fn table(text: &str) -> BTreeMap<&str, BTreeMap<&str, Form<'_>>> {
    let mut table = BTreeMap::new();
    let text = text.trim_start_matches(|c| c != '[');
    for section in text.split("\n\n") {
        let (rule, forms) = section.split_once('\n').expect("a rule and its forms");
        let rule = rule.strip_prefix('[').and_then(|r| r.strip_suffix(']')).expect("a rule in brackets");
        let mut row = BTreeMap::new();
        let mut lines = forms.lines().peekable();
        while let Some(head) = lines.next() {
            let (name, says) = head.split_once(": ").expect("a form and what it shows");
            let (mut globals, mut body) = (String::new(), String::new());
            while let Some(line) = lines.next_if(|l| l.starts_with(' ')) {
                match line.trim() {
                    "--" => globals = std::mem::take(&mut body),
                    line => body += &format!("{line}\n"),
                }
            }
            let form = match says.split_once(": ") {
                Some(("none", why)) if !why.is_empty() && body.is_empty() => Form::None,
                _ => Form::Found { rule: says, globals, body },
            };
            assert!(row.insert(name, form).is_none(), "{rule}: {name} is there twice");
        }
        assert!(table.insert(rule, row).is_none(), "{rule} is there twice");
    }
    table
}

/// Families, or rules, that are not about instructions of SPV_KHR_cooperative_matrix.
const OTHERS: &[(&str, &str)] = &[
    ("arm", "a layout of loads and stores of SPV_KHR_cooperative_matrix alone"),
    ("component-int4-memory", "variables"),
    ("component-interface", "variables"),
    ("component-reduce", "reductions"),
    ("coordinate", "an instruction of SPV_EXT_cooperative_matrix_maintenance1; Intel's is the same function"),
    ("decode", "functions of tensor loads"),
    ("device", "devices"),
    ("intel", "SPV_INTEL_joint_matrix"),
    ("module", "the module as a whole"),
    ("nv1", "SPV_NV_cooperative_matrix"),
    ("perelement", "an instruction of SPV_NV_cooperative_matrix2"),
    ("portability", "what is valid"),
    ("qcom", "SPV_QCOM_cooperative_matrix_conversion"),
    ("reduce", "an instruction of SPV_NV_cooperative_matrix2"),
    ("sync", "barriers and atomics"),
    ("tensor", "SPV_NV_tensor_addressing"),
    ("transpose", "instructions of SPV_NV_cooperative_matrix2"),
    ("uniformity", "control flow, whichever instruction it is of"),
    ("use", "instructions of SPV_NV_cooperative_matrix2"),
];

/// Constants and matrices that shaders and kernels share.
const COMMON: &str = "\
%void = OpTypeVoid
%fn = OpTypeFunction %void
%bool = OpTypeBool
%bool2 = OpTypeVector %bool 2
%true = OpConstantTrue %bool
%false = OpConstantFalse %bool
%both = OpConstantNull %bool2
%u32 = OpTypeInt 32 0
%f16 = OpTypeFloat 16
%f32 = OpTypeFloat 32
%u32_0 = OpConstant %u32 0
%u32_1 = OpConstant %u32 1
%u32_2 = OpConstant %u32 2
%u32_3 = OpConstant %u32 3
%u32_5 = OpConstant %u32 5
%u32_8 = OpConstant %u32 8
%u32_16 = OpConstant %u32 16
%u32_17 = OpConstant %u32 17
%u32_32 = OpConstant %u32 32
%u32_256 = OpConstant %u32 256
%u32_1024 = OpConstant %u32 1024
%u32_4202 = OpConstant %u32 4202
%f16_1 = OpConstant %f16 1
%f32_1 = OpConstant %f32 1
%mat = OpTypeCooperativeMatrixKHR %f32 %u32_3 %u32_16 %u32_16 %u32_2
%imat = OpTypeCooperativeMatrixKHR %u32 %u32_3 %u32_16 %u32_16 %u32_2
%c = OpConstantComposite %mat %f32_1
%ic = OpConstantComposite %imat %u32_1
";

const SHADER: &str = "\
%s32 = OpTypeInt 32 1
%s32_m16 = OpConstant %s32 -16
%hmat = OpTypeCooperativeMatrixKHR %f16 %u32_3 %u32_16 %u32_16 %u32_2
%mat8 = OpTypeCooperativeMatrixKHR %f32 %u32_3 %u32_16 %u32_8 %u32_2
%mat_a = OpTypeCooperativeMatrixKHR %f32 %u32_3 %u32_16 %u32_16 %u32_0
%izero = OpConstantNull %imat
%c8 = OpConstantComposite %mat8 %f32_1
%ca = OpConstantComposite %mat_a %f32_1
%nv = OpTypeCooperativeMatrixNV %f32 %u32_3 %u32_16 %u32_16
%inv = OpTypeCooperativeMatrixNV %u32 %u32_3 %u32_16 %u32_16
%hnv = OpTypeCooperativeMatrixNV %f16 %u32_3 %u32_16 %u32_16
%nv8 = OpTypeCooperativeMatrixNV %f32 %u32_3 %u32_16 %u32_8
%nv8x16 = OpTypeCooperativeMatrixNV %f32 %u32_3 %u32_8 %u32_16
%nc = OpConstantComposite %nv %f32_1
%inc = OpConstantComposite %inv %u32_1
%inzero = OpConstantNull %inv
%hnc = OpConstantComposite %hnv %f16_1
%nc8 = OpConstantComposite %nv8 %f32_1
%nc8x16 = OpConstantComposite %nv8x16 %f32_1
%ptr_nv = OpTypePointer Function %nv
%ptr_function_f32 = OpTypePointer Function %f32
%array = OpTypeRuntimeArray %f32
%block = OpTypeStruct %array
%ptr_block = OpTypePointer StorageBuffer %block
%ptr_array = OpTypePointer StorageBuffer %array
%ptr_f32 = OpTypePointer StorageBuffer %f32
%buffer = OpVariable %ptr_block StorageBuffer
%single = OpTypeStruct %f32
%ptr_single = OpTypePointer StorageBuffer %single
%lone = OpVariable %ptr_single StorageBuffer
%floats = OpTypeArray %f32 %u32_256
%ptr_shared = OpTypePointer Workgroup %floats
%ptr_shared_f32 = OpTypePointer Workgroup %f32
%shared = OpVariable %ptr_shared Workgroup
%ptr_own = OpTypePointer Private %floats
%ptr_own_f32 = OpTypePointer Private %f32
%own = OpVariable %ptr_own Private
%layout = OpTypeTensorLayoutNV %u32_2 %u32_1
%takes_nv_type = OpTypeFunction %void %nv
";

/// A shader with these lines.
fn shader(globals: &str, body: &str) -> String {
    let (decorations, globals) = split(globals, |l| l.starts_with("OpDecorate") || l.starts_with("OpMemberDecorate"));
    let (variables, rest) = split(body, is_variable);
    let far = globals.contains("PhysicalStorageBuffer");
    let (far, model) = if far {
        ("OpCapability PhysicalStorageBufferAddresses\n", "PhysicalStorageBuffer64")
    } else {
        ("", "Logical")
    };
    // Where memory of halves is the defect, they may be stored in buffers only.
    let halves = if globals.contains("%halves") { "StorageBuffer16BitAccess" } else { "Float16" };
    format!(
        "; SPIR-V\n; Version: 1.6\nOpCapability Shader\nOpCapability {halves}\nOpCapability VulkanMemoryModel\n\
         OpCapability CooperativeMatrixKHR\nOpCapability CooperativeMatrixNV\nOpCapability ReplicatedCompositesEXT\n\
         OpCapability CooperativeMatrixTensorAddressingNV\nOpCapability TensorAddressingNV\n\
         OpCapability BFloat16CooperativeMatrixKHR\nOpCapability Int4CooperativeMatrixINTEL\n{far}\
         OpExtension \"SPV_KHR_cooperative_matrix\"\nOpExtension \"SPV_NV_cooperative_matrix\"\n\
         OpExtension \"SPV_NV_cooperative_matrix2\"\nOpExtension \"SPV_NV_tensor_addressing\"\n\
         OpExtension \"SPV_EXT_replicated_composites\"\nOpExtension \"SPV_KHR_bfloat16\"\n\
         OpExtension \"SPV_INTEL_int4\"\nOpMemoryModel {model} Vulkan\n\
         OpEntryPoint GLCompute %main \"main\" %buffer %lone %shared %own{interface}\n\
         OpExecutionMode %main LocalSize 32 1 1\nOpDecorate %array ArrayStride 4\nOpDecorate %block Block\n\
         OpMemberDecorate %block 0 Offset 0\nOpDecorate %buffer DescriptorSet 0\nOpDecorate %buffer Binding 0\n\
         OpDecorate %single Block\nOpMemberDecorate %single 0 Offset 0\nOpDecorate %lone DescriptorSet 0\n\
         OpDecorate %lone Binding 1\n{decorations}{COMMON}{SHADER}{globals}\n\
         %takes_nv = OpFunction %void None %takes_nv_type\n%parameter = OpFunctionParameter %nv\n%first = OpLabel\n\
         OpReturn\nOpFunctionEnd\n\
         %main = OpFunction %void None %fn\n%entry = OpLabel\n{variables}%p = OpAccessChain %ptr_f32 %buffer %u32_0 %u32_0\n\
         %l0 = OpCreateTensorLayoutNV %layout\n%l = OpTensorLayoutSetDimensionNV %layout %l0 %u32_16 %u32_16\n\
         {rest}\nOpReturn\nOpFunctionEnd\n",
        interface = if globals.contains("%halves =") { " %halves" } else { "" },
    )
}

/// A kernel with these lines.
fn kernel(globals: &str, body: &str) -> String {
    let (variables, rest) = split(body, is_variable);
    format!(
        "; SPIR-V\n; Version: 1.4\nOpCapability Kernel\nOpCapability Addresses\nOpCapability Float16\n\
         OpCapability CooperativeMatrixKHR\n\
         OpCapability CooperativeMatrixCheckedInstructionsINTEL\n\
         OpCapability CooperativeMatrixOffsetInstructionsINTEL\nOpExtension \"SPV_KHR_cooperative_matrix\"\n\
         OpExtension \"SPV_INTEL_joint_matrix\"\n\
         OpMemoryModel Physical64 OpenCL\nOpEntryPoint Kernel %main \"main\"\n{COMMON}\
         %s32 = OpTypeInt 32 1\n%s32_m16 = OpConstant %s32 -16\n\
         %smat_a = OpTypeCooperativeMatrixKHR %s32 %u32_3 %u32_16 %u32_16 %u32_0\n\
         %array = OpTypeArray %f32 %u32_256\n%ptr_array = OpTypePointer CrossWorkgroup %array\n\
         %ptr_f32 = OpTypePointer CrossWorkgroup %f32\n%ptr_own_array = OpTypePointer Function %array\n\
         %ptr_own_f32 = OpTypePointer Function %f32\n%kernel_fn = OpTypeFunction %void %ptr_f32\n{globals}\n\
         %main = OpFunction %void None %kernel_fn\n%p = OpFunctionParameter %ptr_f32\n%entry = OpLabel\n{variables}\
         {rest}\nOpReturn\nOpFunctionEnd\n",
    )
}

fn is_variable(line: &str) -> bool {
    line.contains(" OpVariable ")
}

/// The lines for which a test holds, and the others.
fn split(lines: &str, test: impl Fn(&str) -> bool) -> (String, String) {
    let (some, others): (Vec<&str>, Vec<&str>) = lines.lines().partition(|l| test(l));
    let join = |lines: Vec<&str>| lines.into_iter().map(|l| format!("{l}\n")).collect();
    (join(some), join(others))
}

/// The rules that a module breaks.
fn found(source: &str) -> Vec<&'static str> {
    let module = text::parse(source).unwrap_or_else(|e| panic!("{e:?}\n{source}"));
    let findings = check(&module, &Options::default()).findings;
    // Findings of portability are about valid modules.
    let mut all: Vec<_> =
        findings.iter().map(|f| f.rule).filter(|r| r.family() != "portability").map(|r| r.id).collect();
    all.dedup();
    all
}

#[test]
fn every_form_of_an_instruction_is_checked() {
    assert_eq!(found(&shader("", "")), [""; 0]);
    assert_eq!(found(&kernel("", "")), [""; 0]);
    let mut problems = Vec::new();
    let mut shown = 0;
    for (of, forms) in table(include_str!("forms.txt")) {
        for (name, form) in forms {
            let Form::Found { rule, globals, body } = form else { continue };
            let source = if name == "intel" { kernel(&globals, &body) } else { shader(&globals, &body) };
            let found = found(&source);
            if found != [rule] {
                problems.push(format!("{of}, {name}: found {found:?} instead of {rule}"));
            }
            shown += 1;
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    assert!(shown > 120, "{shown}");
}

/// Every rule has a row with all forms, or it is said why not.
#[test]
fn every_rule_is_in_the_table() {
    let table = table(include_str!("forms.txt"));
    for rule in RULES {
        let other = OTHERS.iter().any(|(name, _)| *name == rule.id || *name == rule.family());
        let row = table.get(rule.id);
        assert!(row.is_some() != other, "{}: one of forms.txt and the list of others has it", rule.id);
        let forms: BTreeSet<&str> = row.into_iter().flat_map(|r| r.keys().copied()).collect();
        assert!(other || forms == BTreeSet::from(FORMS), "{}: has the forms {forms:?}", rule.id);
    }
    assert!(table.keys().all(|id| RULES.iter().any(|r| r.id == *id)));
}
