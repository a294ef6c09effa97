//! Source maps, on assembly and on what glslang writes.

mod common;

use common::tools::{Scratch, testdata, tool};
use coop_ir::source::SourceMap;
use coop_ir::{Module, Op, binary, text};
use std::process::Command;

/// Each instruction with this opcode: where it is.
fn places(module: &Module, op: Op) -> Vec<String> {
    let map = SourceMap::new(module);
    let all = module.all().filter(|r| module.inst(*r).op == op);
    all.map(|r| map.location(r).map_or("-".into(), |l| map.display(l))).collect()
}

#[test]
fn lines_hold_until_the_end_of_the_block() {
    let module = text::parse(
        r#"
        OpCapability Shader
        OpMemoryModel Logical GLSL450
        %file = OpString "a.comp"
        OpSource GLSL 460 %file "one
two
"
        OpSourceContinued "three
four"
        %void = OpTypeVoid
        %fn = OpTypeFunction %void
        %u = OpTypeInt 32 0
        OpLine %file 1 9
        %c = OpConstant %u 5
        OpNoLine
        %f = OpFunction %void None %fn
        OpLine %file 2 0
        %l = OpLabel
        %a = OpIAdd %u %c %c
        OpLine %file 4 3
        %b = OpIAdd %u %c %c
        OpBranch %m
        %m = OpLabel
        %d = OpIAdd %u %c %c
        OpReturn
        OpFunctionEnd
        "#,
    )
    .expect("assembles");
    assert_eq!(places(&module, Op::IAdd), ["a.comp:2", "a.comp:4:3", "-"]);
    assert_eq!(places(&module, Op::Constant), ["a.comp:1:9"]);
    assert_eq!(places(&module, Op::Function), ["-"]);
    assert_eq!(places(&module, Op::Label), ["a.comp:2", "-"]);
    let map = SourceMap::new(&module);
    let [file] = map.files() else { panic!("one file") };
    assert_eq!(file.text().as_deref(), Some("one\ntwo\nthree\nfour"));
    assert_eq!(file.line(4).as_deref(), Some("four"));
    assert_eq!(file.line(5), None);
    assert_eq!(file.line(0), None);
}

#[test]
fn debug_lines_and_declarations() {
    let module = text::parse(
        r#"
        OpCapability Shader
        OpExtension "SPV_KHR_non_semantic_info"
        %x = OpExtInstImport "NonSemantic.Shader.DebugInfo.777"
        OpMemoryModel Logical GLSL450
        %name = OpString "b.comp"
        %text = OpString "first
"
        %more = OpString "second"
        %void = OpTypeVoid
        %fn = OpTypeFunction %void
        %u = OpTypeInt 32 0
        %p = OpTypePointer Private %u
        %u0 = OpConstant %u 0
        %u1 = OpConstant %u 1
        %u2 = OpConstant %u 2
        %src = OpExtInst %void %x DebugSource %name %text
        %rest = OpExtInst %void %x DebugSourceContinued %more
        %v = OpVariable %p Private
        %dv = OpExtInst %void %x DebugGlobalVariable %name %name %src %u2 %u1 %src %name %v %u0
        %df = OpExtInst %void %x DebugFunction %name %name %src %u1 %u0 %src %name %u0 %u1
        %f = OpFunction %void None %fn
        %l = OpLabel
        %n1 = OpExtInst %void %x DebugFunctionDefinition %df %f
        %n2 = OpExtInst %void %x DebugLine %src %u2 %u2 %u1 %u2
        OpStore %v %u1
        %n3 = OpExtInst %void %x DebugNoLine
        OpStore %v %u2
        %n4 = OpExtInst %void %x DebugLine %src %u1 %u1 %u0 %u0
        OpReturn
        OpFunctionEnd
        "#,
    )
    .expect("assembles");
    assert_eq!(places(&module, Op::Store), ["b.comp:2:1", "-"]);
    assert_eq!(places(&module, Op::Return), ["b.comp:1"]);
    assert_eq!(places(&module, Op::Variable), ["b.comp:2:1"]);
    assert_eq!(places(&module, Op::Function), ["b.comp:1"]);
    let map = SourceMap::new(&module);
    assert_eq!(map.files()[0].text().as_deref(), Some("first\nsecond"));
}

#[test]
fn debug_information_that_makes_no_sense() {
    let module = text::parse(
        r#"
        %x = OpExtInstImport "NonSemantic.Shader.DebugInfo.100"
        %void = OpTypeVoid
        OpLine %nowhere 1 1
        %a = OpExtInst %void %x DebugSource %void
        %b = OpExtInst %void %x DebugSource %b %b
        %c = OpExtInst %void %x DebugSourceContinued %c
        %d = OpExtInst %void %x DebugLine %d %d %d %d %d
        %e = OpExtInst %void %x DebugLine
        %g = OpExtInst %void %x DebugGlobalVariable %g %g %g %g %g %g %g %g %g
        %h = OpExtInst %void %x DebugDeclare %h %h
        %i = OpExtInst %void %x DebugFunctionDefinition
        OpSourceContinued "x"
        "#,
    )
    .expect("assembles");
    assert!(SourceMap::new(&module).is_empty());
}

/// The lines on which the words of a kernel's source stand that the instructions come from.
fn check_glslang(module: &Module, source: &str) {
    let map = SourceMap::new(module);
    let expected: Vec<u32> =
        (1u32..).zip(source.lines()).filter(|(_, l)| l.contains("coopMatMulAdd")).map(|(n, _)| n).collect();
    assert!(!expected.is_empty());
    let all = module.all().filter(|r| module.inst(*r).op == Op::CooperativeMatrixMulAddKHR);
    let mut found: Vec<u32> = all.map(|r| map.location(r).expect("has a place").line).collect();
    found.dedup();
    assert_eq!(found, expected);
    for line in found {
        let texts: Vec<_> = map.files().iter().filter_map(|f| f.line(line)).collect();
        assert!(texts.iter().any(|t| t.contains("coopMatMulAdd")), "{texts:?}");
    }
}

#[test]
fn a_kernel_with_debug_information() {
    let kernels = testdata().join("kernels");
    let bytes = std::fs::read(kernels.join("gemm_simple.debug.spv")).expect("in the repository");
    let source = std::fs::read_to_string(kernels.join("gemm_simple.comp")).expect("in the repository");
    check_glslang(&binary::read(&bytes).expect("readable"), &source);
}

#[test]
fn glslang_with_either_kind_of_debug_information() {
    let Some(glslang) = tool("glslang") else { return };
    let kernel = testdata().join("kernels/gemm_simple.comp");
    let source = std::fs::read_to_string(&kernel).expect("in the repository");
    let dir = Scratch::new("source");
    for option in ["-g", "-gVS"] {
        let out = dir.file("out.spv");
        let run =
            Command::new(&glslang).args(["--target-env", "vulkan1.3", option, "-o"]).arg(&out).arg(&kernel).output();
        let run = run.expect("runs");
        assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stdout));
        let module = binary::read(&std::fs::read(&out).expect("written")).expect("readable");
        check_glslang(&module, &source);
    }
}
