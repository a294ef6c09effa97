//! Uses without a lowering are refused, at the instruction and with a remedy, and never with a panic.

mod common;

use common::{everything, lacks, parse};
use coop_components::{Error, Options, Refusal, lower};
use coop_device::Feature;
use coop_ir::{Module, text};

/// A module with a buffer `%buffer` of f16 behind `%pointer`, uniform `%choice`, and more globals and code.
fn module(globals: &str, code: &str) -> Module {
    parse(&format!(
        r#"
               OpCapability Shader
               OpCapability Float16
               OpCapability Int16
               OpCapability Int64
               OpCapability StorageBuffer16BitAccess
               OpCapability VariablePointersStorageBuffer
               OpCapability AtomicFloat16AddEXT
               OpExtension "SPV_EXT_shader_atomic_float16_add"
       %glsl = OpExtInstImport "GLSL.std.450"
               OpMemoryModel Logical GLSL450
               OpEntryPoint GLCompute %main "main" %buffer
               OpExecutionMode %main LocalSize 1 1 1
               OpDecorate %buffer DescriptorSet 0
               OpDecorate %buffer Binding 0
               OpDecorate %halves ArrayStride 2
               OpDecorate %block Block
               OpMemberDecorate %block 0 Offset 0
               OpDecorate %special SpecId 7
       %void = OpTypeVoid
         %fn = OpTypeFunction %void
       %bool = OpTypeBool
       %true = OpConstantTrue %bool
       %uint = OpTypeInt 32 0
     %ushort = OpTypeInt 16 0
       %half = OpTypeFloat 16
         %0 = OpConstant %uint 0
         %1 = OpConstant %uint 1
        %one = OpConstant %half 0x1p+0
      %short = OpConstant %ushort 1
     %halves = OpTypeRuntimeArray %half
      %block = OpTypeStruct %halves
    %special = OpSpecConstant %uint 0
         %pb = OpTypePointer StorageBuffer %block
      %phalf = OpTypePointer StorageBuffer %half
     %buffer = OpVariable %pb StorageBuffer
       {globals}
       %main = OpFunction %void None %fn
      %entry = OpLabel
    %pointer = OpAccessChain %phalf %buffer %0 %0
      %other = OpAccessChain %phalf %buffer %0 %1
       {code}
               OpReturn
               OpFunctionEnd
        "#
    ))
}

fn refusal(what: &str, module: &Module) -> Refusal {
    match lower(module, &Options::new(everything())) {
        Err(Error::Refused(refusal)) => *refusal,
        Err(bug) => panic!("{what}: {bug}"),
        Ok(lowered) => panic!("{what}: {}", text::print(&lowered.module, &text::PrintOptions::default()).text),
    }
}

#[test]
fn uses_without_a_lowering_are_refused() {
    // Globals, code, the refused opcode, and a part of the reason.
    let rows = [
        ("", "%p = OpSelect %phalf %true %pointer %other\n%v = OpLoad %half %p", "OpSelect", "has no lowering"),
        (
            "%pair = OpTypeVector %half 2\n%quad = OpTypeVector %half 4\n%shared = OpTypePointer Workgroup %quad\n\
             %four = OpVariable %shared Workgroup\n%none = OpConstantNull %quad",
            "%v = OpAtomicFAddEXT %quad %four %1 %0 %none",
            "OpAtomicFAddEXT",
            "two words can't be exchanged at once",
        ),
        (
            "",
            "%p = OpSelect %phalf %true %pointer %other\n%v = OpAtomicFAddEXT %half %p %1 %0 %one",
            "OpAtomicFAddEXT",
            "through a pointer that no variable is known of",
        ),
        (
            "%f32 = OpTypeFloat 32\n%image = OpTypeImage %f32 2D 0 0 0 2 R32f\n%of = OpTypePointer Image %f32\n\
             %pimage = OpTypePointer UniformConstant %image\n%texture = OpVariable %pimage UniformConstant\n\
             %two = OpTypeVector %uint 2\n%at = OpConstantNull %two\n%float = OpConstant %f32 0x1p+0",
            "%p = OpImageTexelPointer %of %texture %at %0\n%v = OpAtomicFAddEXT %f32 %p %1 %0 %float",
            "OpAtomicFAddEXT",
            "in an image",
        ),
        ("%f16 = OpSpecConstant %half 0x1p+0", "", "OpSpecConstant", "another size"),
        ("%u16 = OpSpecConstant %ushort 1", "", "OpSpecConstant", "another size"),
        (
            "%both = OpTypeStruct %ushort %ushort",
            "%v = OpUMulExtended %both %short %short",
            "OpUMulExtended",
            "no lowering to 32-bit integers",
        ),
        ("", "%v = OpDPdx %half %one", "OpDPdx", "no lowering to f32"),
        (
            "%out = OpTypePointer Output %half\n%var = OpVariable %out Output",
            "",
            "OpTypePointer",
            "f16 in Output memory",
        ),
        (
            "%untyped = OpTypeUntypedPointerKHR StorageBuffer\n%any = OpUntypedVariableKHR %untyped StorageBuffer %block",
            "",
            "OpUntypedVariableKHR",
            "without a type",
        ),
        (
            "%ulong = OpTypeInt 64 0\n%many = OpConstant %ulong 4294967296\n%array = OpTypeArray %uint %many\n\
             %own = OpTypePointer Private %array\n%kept = OpVariable %own Private",
            "%v = OpCopyObject %own %kept",
            "OpTypeArray",
            "names 4294967296 (%",
        ),
        (
            "%heap = OpTypeUntypedPointerKHR UniformConstant\n%all = OpUntypedVariableKHR %heap UniformConstant",
            "%from = OpBufferPointerEXT %pb %all",
            "OpBufferPointerEXT",
            "f16 in a buffer of a descriptor heap",
        ),
        ("%t = OpTypeVectorIdEXT %half %1", "", "OpTypeVectorIdEXT", "long vector"),
        ("%t = OpTypeCooperativeMatrixKHR %half %1 %1 %1 %0", "", "OpTypeCooperativeMatrixKHR", "cooperative matrices"),
    ];
    for (globals, code, op, why) in rows {
        let module = module(globals, code);
        let refused = refusal(op, &module);
        let at = refused.at.unwrap_or_else(|| panic!("{op}: {refused}"));
        assert_eq!(module.inst(at).op.to_string(), op, "{refused}");
        assert!(refused.reason.contains(why) && !refused.remedy.is_empty(), "{op}: {refused}");
        assert_eq!(refused.rule, "refused-component-type");
    }
}

/// Types of pointers that nothing has are no reason for a refusal.
#[test]
fn declarations_that_nothing_uses_are_not_refused() {
    let globals = "%far = OpTypePointer PhysicalStorageBuffer %block\n%untyped = OpTypeUntypedPointerKHR StorageBuffer";
    let m = module(globals, "%v = OpLoad %half %pointer\nOpStore %other %v");
    let lowered = lower(&m, &Options::new(everything())).unwrap_or_else(|e| panic!("{e}"));
    assert!(!lowered.module.capabilities().any(|c| c == coop_ir::spv::Capability::Float16));
}

/// Atomic operations on numbers of 64 bits at addresses, comparisons of addresses, and elements of no known size.
#[test]
fn accesses_by_address_without_a_lowering() {
    let globals = "%ulong = OpTypeInt 64 0\n%far = OpTypePointer PhysicalStorageBuffer %half\n\
                   %far3 = OpTypePointer PhysicalStorageBuffer %ulong\n\
                   %2 = OpConstant %uint 2\n%none = OpConstantNull %ulong";
    let given = "%null = OpConstantNull %far\n%null3 = OpConstantNull %far3";
    let rows = [
        ("%v = OpAtomicIAdd %ulong %null3 %1 %0 %none", "OpAtomicIAdd", "two words can't be exchanged at once"),
        ("%v = OpPtrAccessChain %far %null %2", "OpPtrAccessChain", "no ArrayStride"),
        ("%v = OpPtrAccessChain %phalf %pointer %2", "OpPtrAccessChain", "no ArrayStride"),
        ("%v = OpPtrDiff %uint %null %null", "OpPtrDiff", "takes device addresses"),
        ("%v = OpPtrEqual %bool %null %null", "OpPtrEqual", "takes device addresses"),
        ("%v = OpPtrNotEqual %bool %null %null", "OpPtrNotEqual", "takes device addresses"),
    ];
    for (code, op, why) in rows {
        let module = module(&format!("{globals}\n{given}"), code);
        let refused = refusal(op, &module);
        assert!(refused.reason.contains(why), "{refused}");
        let at = refused.at.unwrap_or_else(|| panic!("{op}: {refused}"));
        assert_eq!(module.inst(at).op.to_string(), op, "{refused}");
    }
}

/// A constant that is computed from what the pipeline sets is computed in the code: the result is the pipeline's. One that an array's
/// length needs is refused.
#[test]
fn computed_constants_become_code() {
    let globals = "%f32 = OpTypeFloat 32\n%scale = OpSpecConstant %f32 0x1.002p+0\n%narrow = OpSpecConstantOp %half FConvert %scale\n\
                   %wide = OpSpecConstantOp %f32 FConvert %narrow";
    let code =
        "%v = OpLoad %half %pointer\n%w = OpFMul %half %v %narrow\nOpStore %other %w\n%x = OpFAdd %f32 %wide %wide";
    let m = module(globals, code);
    let lowered = lower(&m, &Options::new(everything())).unwrap_or_else(|e| panic!("{e}"));
    let text = text::print(&lowered.module, &text::PrintOptions::default()).text;
    assert!(text.contains("OpSpecConstant %") && !text.contains("OpSpecConstantOp"), "{text}");
    common::valid("computed constants", &lowered.module);
    let length = "%length = OpSpecConstantOp %uint UConvert %short\n%array = OpTypeArray %uint %length\n\
                  %own = OpTypePointer Private %array\n%kept = OpVariable %own Private";
    // So is one that is the scope of a load: later code can't be one.
    let scope = "%scope = OpSpecConstantOp %uint UConvert %short";
    let text = text::print(
        &module(scope, "%v = OpLoad %half %pointer MakePointerVisible|NonPrivatePointer %scope\nOpStore %other %v"),
        &text::PrintOptions::default(),
    );
    let text = text.text.replace("OpMemoryModel Logical GLSL450", "OpMemoryModel Logical Vulkan");
    let vulkan = "OpCapability VulkanMemoryModel\nOpCapability Shader\n";
    let scoped = parse(&text.replacen("OpCapability Shader\n", vulkan, 1));
    let narrow = lacks(&[Feature::ShaderInt16]);
    let Err(Error::Refused(refused)) = lower(&scoped, &Options::new(narrow)) else { panic!("a scope is computed") };
    assert!(refused.reason.contains("computed from narrow ones"), "{refused}");
    let refused = refusal("a length", &module(length, "%v = OpCopyObject %own %kept"));
    assert!(refused.reason.contains("computed from narrow ones"), "{refused}");
}

/// A function that gets a pointer is refused at the parameter.
#[test]
fn pointers_are_not_passed() {
    let callee = "%f = OpFunction %void None %give\n%p = OpFunctionParameter %phalf\n%l = OpLabel";
    let code = format!("%r = OpFunctionCall %void %f %pointer\nOpReturn\nOpFunctionEnd\n{callee}");
    let module = module("%give = OpTypeFunction %void %phalf", &code);
    let refused = refusal("a parameter", &module);
    assert!(refused.reason.contains("a parameter points to"), "{refused}");
}

/// Modules that need no lacking feature come back as they are.
#[test]
fn modules_that_need_nothing_are_not_changed() {
    let module = module("", "%v = OpLoad %half %pointer");
    for lacking in [lacks(&[]), lacks(&[Feature::ShaderInt8]), lacks(&[Feature::StoragePushConstant16])] {
        let lowered = lower(&module, &Options::new(lacking)).unwrap_or_else(|e| panic!("{e}"));
        assert!(!lowered.report.changed);
        assert_eq!(coop_ir::binary::write_words(&lowered.module), coop_ir::binary::write_words(&module));
    }
}

/// Limits end a lowering with a refusal.
#[test]
fn limits_are_kept() {
    let module = module("", "%v = OpLoad %half %pointer\nOpStore %other %v");
    let few = Options { most_instructions: 3, ..Options::new(everything()) };
    let late = Options { deadline: Some(std::time::Instant::now()), ..Options::new(everything()) };
    for options in [few, late] {
        let Err(Error::Refused(refused)) = lower(&module, &options) else { panic!("it is lowered") };
        assert_eq!(refused.rule, "refused-limit", "{refused}");
    }
}

/// Memory that other invocations see, through a pointer that is passed: nothing says which variable is to be coherent. Images.
#[test]
fn what_other_invocations_see_has_a_variable() {
    let callee = "%f = OpFunction %void None %give\n%p = OpFunctionParameter %phalf\n%l = OpLabel";
    let load = "%v = OpLoad %half %p MakePointerVisible|NonPrivatePointer %1";
    let code = format!("%r = OpFunctionCall %void %f %pointer\nOpReturn\nOpFunctionEnd\n{callee}\n{load}");
    let image = "%f32 = OpTypeFloat 32\n%image = OpTypeImage %f32 2D 0 0 0 2 R32f";
    let rows = [
        ("%give = OpTypeFunction %void %phalf", code.as_str(), "no variable is known of"),
        (image, "", "images have no lowering"),
    ];
    for (globals, code, why) in rows {
        let text = text::print(&module(globals, code), &text::PrintOptions::default()).text;
        let text = text.replace("OpMemoryModel Logical GLSL450", "OpMemoryModel Logical Vulkan");
        let capabilities =
            "OpCapability VulkanMemoryModel\nOpCapability VulkanMemoryModelDeviceScope\nOpCapability Shader\n";
        let refused = refusal(why, &parse(&text.replacen("OpCapability Shader\n", capabilities, 1)));
        assert!(refused.reason.contains(why) && refused.at.is_some(), "{refused}");
    }
}
