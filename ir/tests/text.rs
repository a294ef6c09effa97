//! Text: spans, agreement with the tools of Khronos, and identity of printing and parsing on every module at hand.

mod common;

use common::tools::{Scratch, modules, name, same_name, some_modules, tool};
use coop_ir::binary;
use coop_ir::isomorphic::isomorphic;
use coop_ir::text::{self, PrintOptions};
use std::collections::{BTreeSet, HashMap};
use std::process::Command;

fn numeric() -> PrintOptions {
    PrintOptions { friendly_names: false, ..PrintOptions::default() }
}

#[test]
fn spans_are_of_what_they_say() {
    for (path, module) in some_modules(19) {
        for options in [PrintOptions::default(), numeric()] {
            let printed = text::print(&module, &options);
            let lines: Vec<&str> = printed.text.lines().collect();
            for r in module.all() {
                let at = || format!("{}: {r:?}", path.display());
                let inst = module.inst(r);
                if inst.op.info().is_none() {
                    continue;
                }
                let whole = &printed.text[printed.span(r).expect("listed")];
                assert!(
                    lines[printed.line(r).expect("listed") - 1].ends_with(whole.lines().next().unwrap()),
                    "{}",
                    at()
                );
                let result = printed.result_span(r).map(|s| &printed.text[s]);
                let ty = printed.type_span(r).map(|s| &printed.text[s]);
                assert_eq!(result.is_some(), inst.result.is_some(), "{}", at());
                assert_eq!(ty.is_some(), inst.ty.is_some(), "{}", at());
                let mut rebuilt = result.map_or(String::new(), |r| format!("{r} = "));
                rebuilt += &inst.op.to_string();
                rebuilt.extend(ty.map(|t| format!(" {t}")));
                let mut last = None;
                for i in 0..inst.operands.len() {
                    let span = printed.operand_span(r, i).unwrap_or_else(|| panic!("{} operand {i}", at()));
                    if last.as_ref() != Some(&span) {
                        rebuilt = rebuilt + " " + &printed.text[span.clone()];
                        last = Some(span);
                    }
                }
                assert_eq!(rebuilt, whole, "{}", at());
                assert_eq!(printed.operand_span(r, inst.operands.len()), None, "{}", at());
            }
        }
    }
}

/// Types of floating-point numbers, by their names, with the number of bits.
type Floats = HashMap<String, u32>;

/// The tokens of an instruction, a constant of such a type by its value: spirv-dis prints more digits than are needed, or
/// a point and an exponent where we don't.
fn tokens(line: &str, floats: &Floats) -> Vec<String> {
    let mut tokens: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    if let [_, _, op, ty, literal] = tokens.as_mut_slice()
        && matches!(op.as_str(), "OpConstant" | "OpSpecConstant")
        && let Some(width) = floats.get(ty)
        && let Ok(value) = literal.parse::<f64>()
    {
        *literal = if *width == 64 {
            format!("{:016x}", value.to_bits())
        } else {
            format!("{:08x}", (value as f32).to_bits())
        };
    }
    tokens
}

#[test]
fn prints_what_spirv_dis_prints() {
    let Some(dis) = tool("spirv-dis") else { return };
    // OpenCL's library has the most floating-point constants.
    let library = modules().into_iter().find(|(path, _)| path.ends_with("clc/spirv64-mesa3d-.spv"));
    let mut refused = BTreeSet::new();
    for (path, module) in some_modules(5).chain(library) {
        let output = Command::new(&dis).args(["--no-color", "--raw-id"]).arg(&path).output().expect("runs");
        if !output.status.success() {
            refused.insert(name(&path));
            continue;
        }
        let theirs = String::from_utf8_lossy(&output.stdout);
        let ours = text::print(&module, &numeric());
        let lines = theirs.lines().zip(ours.text.lines());
        let mut floats = Floats::new();
        for (i, (theirs, ours)) in lines.enumerate() {
            if let [ty, _, "OpTypeFloat", width] = ours.split_whitespace().collect::<Vec<_>>()[..] {
                floats.insert(ty.to_owned(), width.parse().expect("a number of bits"));
            }
            if theirs != ours && !theirs.starts_with(';') {
                let (theirs, ours) = (tokens(theirs, &floats), tokens(ours, &floats));
                let same = theirs.len() == ours.len() && theirs.iter().zip(&ours).all(|(a, b)| same_name(a, b));
                assert!(same, "{} line {}:\n{}\n{}", path.display(), i + 1, theirs.join(" "), ours.join(" "));
            }
        }
        assert_eq!(theirs.lines().count(), ours.text.lines().count(), "{}", path.display());
    }
    assert_eq!(refused, not_read(&[Why::Intel]));
}

#[test]
fn printing_and_parsing_is_the_identity() {
    for (i, (path, module)) in modules().into_iter().enumerate() {
        let name = path.display();
        let text = text::print(&module, &numeric()).text;
        let back = text::parse(&text).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(binary::write_words(&back) == binary::write_words(&module), "{name}: other words");
        if i % 4 != 0 {
            continue;
        }
        let friendly = text::print(&module, &PrintOptions::default()).text;
        let back = text::parse(&friendly).unwrap_or_else(|e| panic!("{name}, friendly: {e}"));
        assert!(isomorphic(&module, &back), "{name}: friendly names lead to another module");
        assert!(text::print(&back, &PrintOptions::default()).text.lines().count() == friendly.lines().count());
    }
}

/// Files that spirv-as 2026.4 does not read, nor spirv-dis where noted: the file, spirv-as's message, and the reason.
const NOT_READ: [(&str, &str, Why); 11] = [
    ("elements.spv", "'CooperativeMatrixInvocationInstructionsINTEL'", Why::Intel),
    ("gemm_bf16.llc.spv", "'CooperativeMatrixPrefetchINTEL'", Why::Intel),
    ("gemm_bf16.spv", "'CooperativeMatrixPrefetchINTEL'", Why::Intel),
    ("gemm_checked.llc.spv", "'CooperativeMatrixCheckedInstructionsINTEL'", Why::Intel),
    ("gemm_checked.spv", "'CooperativeMatrixCheckedInstructionsINTEL'", Why::Intel),
    ("gemm_i4.llc.spv", "'PackedCooperativeMatrixINTEL'", Why::Intel),
    ("gemm_i8.llc.spv", "'PackedCooperativeMatrixINTEL'", Why::Intel),
    ("gemm_o0.spv", "'CooperativeMatrixOffsetInstructionsINTEL'", Why::Intel),
    ("sums.spv", "'CooperativeMatrixInvocationInstructionsINTEL'", Why::Intel),
    ("tensor2.shared.spv", "Invalid memory access 'MakePointerVisible|NonPrivatePointer'", Why::Tensor),
    ("unaligned.f16_shared.spv", "Invalid memory access 'MakePointerVisible|NonPrivatePointer'", Why::Tensor),
];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Why {
    /// SPIRV-Tools know nothing of Intel's matrices.
    Intel,
    /// spirv-as does not read memory operands of tensor loads that have an operand of their own, even as spirv-dis
    /// prints them.
    Tensor,
}

fn not_read(why: &[Why]) -> BTreeSet<String> {
    NOT_READ.iter().filter(|(_, _, w)| why.contains(w)).map(|(file, _, _)| (*file).to_owned()).collect()
}

#[test]
fn parses_what_spirv_as_parses() {
    let Some(assembler) = tool("spirv-as") else { return };
    let dir = Scratch::new("text");
    let out = dir.file("out.spv");
    let mut refused = BTreeSet::new();
    for (path, module) in some_modules(11) {
        for options in [numeric(), PrintOptions::default()] {
            let text = text::print(&module, &options).text;
            let file = dir.file("in.spvasm");
            std::fs::write(&file, &text).expect("writable");
            let version = module.header.version_pair();
            let env = format!("spv{}.{}", version.0, version.1);
            let args = ["--preserve-numeric-ids", "--target-env", &env, "-o"];
            let run = Command::new(&assembler).args(args).arg(&out).arg(&file).output().expect("runs");
            let message = String::from_utf8_lossy(&run.stderr);
            let name = name(&path);
            if NOT_READ.iter().any(|(file, part, _)| name == *file && message.contains(part)) {
                refused.insert(name);
                continue;
            }
            assert!(run.status.success(), "{}: {message}", path.display());
            let theirs = binary::read(&std::fs::read(&out).expect("written")).expect("readable");
            let ours = text::parse(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
            // The header differs: spirv-as does not read comments.
            assert!(binary::write_words(&theirs)[5..] == binary::write_words(&ours)[5..], "{}", path.display());
        }
    }
    assert_eq!(refused, not_read(&[Why::Intel, Why::Tensor]));
}

/// The text without header and columns.
fn plain(module: &coop_ir::Module, friendly_names: bool) -> String {
    text::print(module, &PrintOptions { friendly_names, header: false, indent: false }).text
}

#[test]
fn names_say_what_things_are() {
    let module = text::parse(
        r#"
        OpName %10 "main"       OpName %11 "main"      OpName %12 "7"
        OpName %13 "a b(f1;"    OpName %14 ""          OpDecorate %15 BuiltIn WorkgroupId
        %1 = OpTypeInt 32 0     %2 = OpConstant %1 16  %3 = OpConstant %1 3
        %4 = OpTypeFloat 16     %5 = OpConstant %4 0x1.8p+1
        %6 = OpConstant %1 2    %7 = OpTypeCooperativeMatrixKHR %4 %3 %2 %2 %6
        %8 = OpSpecConstant %1 8
        %9 = OpTypeCooperativeMatrixKHR %1 %6 %8 %2 %16
        %16 = OpTypePointer Function %7
        %17 = OpTypeStruct %4   %18 = OpTypeArray %17 %2
        %19 = OpTypeFloat 32    %20 = OpConstant %19 -0.25
        %21 = OpConstant %19 1e-10
        "#,
    )
    .expect("parses");
    let names = text::Names::friendly(&module);
    let get = |n| names.get(coop_ir::Id::new(n).expect("not 0")).into_owned();
    let all: Vec<String> = (1..=21).map(get).collect();
    assert_eq!(
        all.join(" "),
        "uint uint_16 uint_3 half half_0x1_8p_1 uint_2 mat_f16_16x16_Acc 8 mat_u32_nx16_Workgroup \
         main main_0 _7 a_b_f1_ _ gl_WorkGroupID _ptr_Function_mat_f16_16x16_Acc _struct_17 _arr__struct_17_uint_16 \
         float float_n0_25 float_1en10"
    );
    assert_eq!(text::Names::numeric().get(coop_ir::Id::new(5).expect("not 0")), "5");
}

#[test]
fn what_the_grammar_does_not_know_survives() {
    for source in [
        "OpUnknown(6999, 3) !0x00000001 !0xffffffff\n",
        "OpUnknown(0, 2) !0x00000005\n",
        "OpDecorate %1 !0x0001869f !0x00000001\n",
        "OpCapability !0x0001869f\n",
        "%1 = OpTypeFloat 16 !0x0001869f\n%2 = OpConstant %1 !0x00000001\n",
        "%1 = OpTypeInt 32 !0x00000000 !0x00000007\n%2 = OpConstant %1 7\n",
        "%1 = OpTypeInt 8 1\n%2 = OpConstant %1 !0x000000ff\n%3 = OpConstant %1 -1\n",
        "%1 = OpExtInstImport \"Some.Set\"\n%2 = OpExtInst %3 %1 !0x00000009 !0x00000002\n",
        "%1 = OpExtInstImport \"NonSemantic.Some.Set\"\n%2 = OpExtInst %3 %1 9 %2\n",
        "%1 = OpExtInstImport \"GLSL.std.450\"\n%2 = OpExtInst %3 %1 !0x000003e7 !0x00000002\n",
        "OpName %1 !0x0000fffe\n",
        "OpName %1 !0x00610061 !0x00000061\n",
        "OpUnknown(83, 5) %1 %2 %3 !0x00000004\n",
    ] {
        let module = text::parse(source).unwrap_or_else(|e| panic!("{e}\n{source}"));
        assert_eq!(plain(&module, false), source);
        // Numbers that words may mean are kept.
        assert!(isomorphic(&module, &text::parse(&plain(&module, true)).expect("parses")), "{source}");
    }
    let module = text::parse("OpName %5 \"five\" %5 = OpTypeVoid OpUnknown(6999, 2) 5").expect("parses");
    assert_eq!(plain(&module, true), "OpName %5 \"five\"\n%5 = OpTypeVoid\nOpUnknown(6999, 2) !0x00000005\n");
}

#[test]
fn layout_does_not_matter() {
    let source = "OpName %1 \"a;b \\\"c\\\\\n\" ; comment %2 = OpTypeVoid\n%1\n=\nOpTypeInt\t0x20\r\n01 OpMemberName %1 010 \"x\" \
                  %f = OpTypeFloat 32 %c = OpConstant %f 0x1.8p1 OpNop OpDecorate %c SpecId 3";
    let module = text::parse(source).expect("parses");
    let expected = "OpName %1 \"a;b \\\"c\\\\\n\"\n%1 = OpTypeInt 32 1\nOpMemberName %1 8 \"x\"\n%2 = OpTypeFloat 32\n\
                    %3 = OpConstant %2 3\nOpNop\nOpDecorate %3 SpecId 3\n";
    assert_eq!(plain(&module, false), expected);
    let printed = text::print(&module, &PrintOptions::default());
    let lines: Vec<_> = module.all().map(|r| printed.line(r).expect("listed")).collect();
    assert_eq!(lines, [6, 8, 9, 10, 11, 12, 13], "a string may have line ends");
    let parsed = text::parse_with_places(source).expect("parses");
    let lines: Vec<_> = parsed.module.all().map(|r| parsed.line(r).expect("read")).collect();
    assert_eq!(lines, [1, 3, 6, 6, 6, 6, 6]);
}

#[test]
fn header_comments_are_read_back() {
    let header = |text: &str| text::parse(text).expect("parses").header;
    let h =
        header("; SPIR-V\n; Version: 1.3\n; Generator: Google rspirv; 77\n; Bound: 100\n; Schema: 5\nOpName %3 \"\"");
    assert_eq!((h.version, h.generator, h.bound, h.schema), (0x0001_0300, 15 << 16 | 77, 100, 5));
    let h = header("; Version: 0x00010601\n; Generator: Unknown(700); 1\n; Bound: 2\nOpName %3 \"\"");
    assert_eq!((h.version, h.generator, h.bound, h.schema), (0x0001_0601, 700 << 16 | 1, 4, 0));
    let h = header("; Version: of no kind\n; Bound: 4294967295\nOpNop\n; Version: 1.0");
    assert_eq!((h.version, h.generator, h.bound, h.schema), (0x0001_0600, 0, 1, 0));
    assert_eq!(header("OpNop").bound, 1);
}
