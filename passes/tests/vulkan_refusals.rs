//! Tests that kernels outside the supported subset are refused with the reason; each rule has a kernel here, and its
//! text in docs/vulkan-kernels.md.

use coop_ir::text::parse;
use coop_passes::{Error, Options, Refusal, Target, Vulkan, lower};
use std::collections::BTreeSet;
use std::path::Path;

/// A kernel with these types and constants, parameters and instructions in its only block.
fn kernel(declarations: &str, parameters: &str, body: &str) -> String {
    let types: String = parameters
        .lines()
        .filter_map(|l| l.split("OpFunctionParameter").nth(1))
        .fold(String::new(), |all, t| all + " " + t.trim());
    format!(
        "OpCapability Addresses\nOpCapability Kernel\nOpCapability Int64\nOpCapability Int8\nOpCapability GenericPointer
        %cl = OpExtInstImport \"OpenCL.std\"
        OpMemoryModel Physical64 OpenCL
        OpEntryPoint Kernel %main \"main\"
        OpName %elsewhere \"elsewhere\"
        OpDecorate %dim BuiltIn WorkDim
        %void = OpTypeVoid
        %u8 = OpTypeInt 8 0
        %u32 = OpTypeInt 32 0
        %u64 = OpTypeInt 64 0
        %f32 = OpTypeFloat 32
        %bool = OpTypeBool
        %true = OpConstantTrue %bool
        %0 = OpConstant %u32 0
        %1 = OpConstant %u32 1
        %2 = OpConstant %u32 2
        %272 = OpConstant %u32 272
        %long = OpConstant %u64 1048576
        %one = OpConstant %f32 1
        %global = OpTypePointer CrossWorkgroup %u32
        %generic = OpTypePointer Generic %u32
        %local = OpTypePointer Workgroup %u32
        %in = OpTypePointer Input %u32
        %nothing = OpTypeFunction %void
        %dim = OpVariable %in Input
        {declarations}
        %fn = OpTypeFunction %void{types}
        %elsewhere = OpFunction %void None %nothing
        OpFunctionEnd
        %main = OpFunction %void None %fn
        {parameters}
        %entry = OpLabel
        {body}
        OpReturn
        OpFunctionEnd"
    )
}

fn refusal(text: &str, local_size: Option<[u32; 3]>) -> Refusal {
    let module = parse(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let mut all = Options::new(Target::Scalar);
    (all.vulkan, all.local_size) = (Some(Vulkan::default()), local_size);
    match lower(&module, &all) {
        Err(Error::Refused(refusal)) => *refusal,
        Err(e) => panic!("{e}\n{text}"),
        Ok(_) => panic!("lowered\n{text}"),
    }
}

/// The rule, what its reason says, and the kernel.
fn refused() -> Vec<(&'static str, &'static str, String)> {
    let p = "%p = OpFunctionParameter %global";
    let many: String = (0..17).map(|i| format!("%p{i} = OpFunctionParameter %global\n")).collect();
    vec![
        ("refused-vulkan-addresses", "64-bit", kernel("", "", "").replace("Physical64", "Physical32")),
        ("refused-vulkan-local-argument", "argument 0", kernel("", "%p = OpFunctionParameter %local", "")),
        (
            "refused-vulkan-variable",
            "'v'",
            kernel("%v = OpVariable %global CrossWorkgroup", "", "%x = OpLoad %u32 %v Aligned 4")
                .replace("OpDecorate %dim", "OpName %v \"v\"\nOpDecorate %dim"),
        ),
        (
            "refused-vulkan-generic",
            "read from memory",
            kernel(
                "%pp = OpTypePointer CrossWorkgroup %generic\n%mine = OpTypePointer Function %u32",
                "%p = OpFunctionParameter %pp",
                "%v = OpVariable %mine Function
                 %g = OpPtrCastToGeneric %generic %v
                 OpStore %p %g Aligned 8
                 %q = OpLoad %generic %p Aligned 8\n%x = OpLoad %u32 %q Aligned 4",
            ),
        ),
        (
            "refused-vulkan-pointer",
            "one variable or another",
            kernel(
                "%mine = OpTypePointer Function %u32",
                p,
                "%v = OpVariable %mine Function
                 %w = OpVariable %mine Function
                 %x = OpSelect %mine %true %v %w
                 OpStore %x %1 Aligned 4\nOpStore %v %2 Aligned 4",
            ),
        ),
        (
            "refused-vulkan-type",
            "no known layout",
            kernel("%image = OpTypeSampler", "%p = OpFunctionParameter %image", ""),
        ),
        (
            "refused-vulkan-matrix",
            "narrower numbers",
            kernel(
                "%8 = OpConstant %u32 8\n%64 = OpConstant %u32 64\n%0b = OpConstant %u8 0
                 %m = OpTypeCooperativeMatrixKHR %u32 %2 %8 %8 %2
                 %numbers = OpTypeArray %u32 %64\n%shared = OpTypePointer Workgroup %numbers
                 %byte = OpTypePointer Workgroup %u8\n%s = OpVariable %shared Workgroup",
                p,
                "%b = OpBitcast %byte %s
                 OpStore %b %0b Aligned 1
                 %e = OpBitcast %local %s
                 %x = OpCooperativeMatrixLoadCheckedINTEL %m %e %0 %0 %0 %8 %8 %8
                 OpCooperativeMatrixStoreKHR %p %x %0 %8",
            ),
        ),
        ("refused-vulkan-builtin", "WorkDim", kernel("", "", "%x = OpLoad %u32 %dim")),
        ("refused-vulkan-arguments", "136 bytes", kernel("", &many, "")),
        ("refused-vulkan-math", "erf ", kernel("", "", "%x = OpExtInst %f32 %cl erf %one")),
        (
            "refused-vulkan-copy",
            "length",
            kernel(
                "%byte = OpTypePointer CrossWorkgroup %u8",
                "%p = OpFunctionParameter %byte\n%q = OpFunctionParameter %byte",
                "OpCopyMemorySized %p %q %long Aligned 4",
            ),
        ),
        ("refused-vulkan-group", "workgroup", kernel("", "", "OpControlBarrier %1 %1 %272")),
        ("refused-vulkan-group", "another scope", kernel("", "", "%x = OpGroupAll %bool %2 %true")),
        ("refused-vulkan-call", "'elsewhere'", kernel("", "", "%x = OpFunctionCall %void %elsewhere")),
        ("refused-vulkan-instruction", "OpIsNormal", kernel("", "", "%x = OpIsNormal %bool %one")),
    ]
}

/// Rounding and denormal modes of a kernel are dropped, and the report says so.
#[test]
fn what_is_said_of_rounding_is_reported() {
    let modes = "OpExecutionMode %main DenormPreserve 32\nOpExecutionMode %main RoundingModeRTZ 16\nOpName %elsewhere";
    let text = kernel("", "", "%float = OpConvertUToF %f32 %1")
        .replace("OpName %elsewhere", modes)
        .replace("OpDecorate %dim", "OpDecorate %float FPRoundingMode RTP\nOpDecorate %dim");
    let module = parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let mut all = Options::new(Target::Scalar);
    (all.vulkan, all.local_size) = (Some(Vulkan::default()), Some([8, 1, 1]));
    let report = lower(&module, &all).unwrap_or_else(|e| panic!("{e}")).report;
    let expected = [
        "DenormPreserve of 32 bits: the device's default applies",
        "RoundingModeRTZ of 16 bits: the device's default applies",
        "conversions rounded by RTP: the device's default applies",
    ];
    assert_eq!(report.approximations, expected);
}

#[test]
fn what_has_no_equal_is_refused_with_the_reason() {
    for (rule, reason, text) in refused() {
        let found = refusal(&text, Some([8, 1, 1]));
        assert_eq!(found.rule, rule, "{found}");
        assert!(found.reason.contains(reason), "{found}");
        assert!(!found.remedy.is_empty(), "{found}");
    }
    let found = refusal(&kernel("", "", ""), None);
    assert_eq!(found.rule, "refused-vulkan-local-size");
    assert!(found.remedy.contains("--local-size"));
}

/// A chain of conditions, each under the one before.
#[test]
fn flow_that_nests_too_deep_is_refused() {
    let mut body = String::new();
    for i in 0..1000 {
        body += &format!("OpBranchConditional %true %in{i} %out{i}\n%out{i} = OpLabel\nOpReturn\n%in{i} = OpLabel\n");
    }
    let found = refusal(&kernel("", "", &body), Some([8, 1, 1]));
    assert_eq!(found.rule, "refused-vulkan-flow");
}

/// Every rule that the pass names is explained, and nothing else is.
#[test]
fn each_rule_is_explained() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut named = BTreeSet::new();
    let mut work = vec![root.join("src/vulkan")];
    while let Some(path) = work.pop() {
        if path.is_dir() {
            work.extend(std::fs::read_dir(path).expect("readable").flatten().map(|e| e.path()));
            continue;
        }
        let text = std::fs::read_to_string(path).expect("readable");
        named.extend(text.split('"').filter(|s| s.starts_with("refused-vulkan-") && s.len() > 15).map(str::to_owned));
    }
    let page = std::fs::read_to_string(root.join("../docs/vulkan-kernels.md")).expect("readable");
    let explained: BTreeSet<String> =
        page.split('`').filter(|s| s.starts_with("refused-vulkan-") && s.len() > 15).map(str::to_owned).collect();
    assert_eq!(named, explained);
    let mut tested: BTreeSet<String> = refused().into_iter().map(|r| r.0.to_owned()).collect();
    tested.extend(["refused-vulkan-local-size", "refused-vulkan-flow"].map(str::to_owned));
    assert_eq!(named, tested);
}
