//! Every opcode and every enumerant that the grammar knows, printed and parsed.

mod common;

use common::tools::{Scratch, same_name, tool};
use coop_ir::grammar::{OPS, OpInfo, Operands, Quantifier, second_names};
use coop_ir::text::{self, PrintOptions};
use coop_ir::{Kind, Op, binary};
use std::process::Command;

/// Ids that every module here defines.
const UINT: u32 = 2;
const VALUE: u32 = 3;
const GLSL: u32 = 5;
const FIRST_FREE: u32 = 10;

/// How instructions are made up.
#[derive(Clone)]
struct Choice {
    /// How many operands stand for a `?` and for a `*`.
    optional: usize,
    repeated: usize,
    /// The value of operands of some kinds.
    fixed: Vec<(Kind, u32)>,
}

struct Synth {
    words: Vec<u32>,
    next: u32,
    choice: Choice,
}

impl Synth {
    fn shape(&mut self, shape: Operands) {
        for &(kind, quantifier) in shape {
            let count = match quantifier {
                Quantifier::One => 1,
                Quantifier::Optional => self.choice.optional,
                Quantifier::Repeated => self.choice.repeated,
            };
            (0..count).for_each(|_| self.operand(kind));
        }
    }

    fn operand(&mut self, kind: Kind) {
        match kind {
            Kind::IdResult => {
                self.words.push(self.next);
                self.next += 1;
            }
            Kind::IdResultType => self.words.push(UINT),
            _ if kind.is_id() => self.words.push(VALUE),
            Kind::LiteralString => {
                self.words.extend(string("a\"\\bä\n"));
            }
            Kind::LiteralFloat => self.words.push(1.25f32.to_bits()),
            Kind::LiteralSpecConstantOpInteger => self.words.push(u32::from(Op::IAdd.0)),
            // An instruction of GLSL.std.450 with one operand.
            Kind::LiteralExtInstInteger => self.words.push(1),
            Kind::PairLiteralIntegerIdRef => self.words.extend([7, VALUE]),
            Kind::PairIdRefLiteralInteger => self.words.extend([VALUE, 7]),
            Kind::PairIdRefIdRef => self.words.extend([VALUE, VALUE]),
            _ => match kind.enumerants() {
                Some(rows) => self.enumerant(kind, rows[0].value),
                None => self.words.push(7),
            },
        }
    }

    fn enumerant(&mut self, kind: Kind, default: u32) {
        let value = self.choice.fixed.iter().find(|f| f.0 == kind).map_or(default, |f| f.1);
        self.words.push(value);
        if !kind.is_mask() {
            return self.shape(kind.enumerant(value).expect("in the table").params);
        }
        for bit in (0..32).map(|b| 1 << b).filter(|b| value & b != 0) {
            self.shape(kind.enumerant(bit).expect("in the table").params);
        }
    }
}

/// Opcodes that this file puts around the others.
fn is_frame(op: Op) -> bool {
    matches!(op, Op::FunctionEnd | Op::Label)
}

/// A module with one instruction in it, for every way that `choices` give.
fn modules(choices: impl Iterator<Item = (&'static OpInfo, Choice)>) -> Vec<Vec<u32>> {
    choices.filter(|(info, _)| !is_frame(info.op)).map(|(info, choice)| module(info, choice)).collect()
}

fn string(text: &str) -> Vec<u32> {
    coop_ir::string_operands(text).map(|o| o.word()).collect()
}

fn module(info: &OpInfo, choice: Choice) -> Vec<u32> {
    let mut words = vec![binary::MAGIC, 0x0001_0600, 0, 0, 0];
    let mut next = FIRST_FREE;
    let mut put = |op: Op, operands: &[u32]| {
        words.push(((operands.len() as u32 + 1) << 16) | u32::from(op.0));
        words.extend(operands);
    };
    put(Op::TypeVoid, &[1]);
    put(Op::TypeInt, &[UINT, 32, 0]);
    put(Op::Constant, &[UINT, VALUE, 9]);
    put(Op::TypeFunction, &[4, 1]);
    put(Op::ExtInstImport, &[&[GLSL][..], &string("GLSL.std.450")].concat());

    let mut s = Synth { words: Vec::new(), next, choice };
    match info.op {
        Op::ExtInst | Op::ExtInstWithForwardRefsKHR => s.words = vec![UINT, next, GLSL, 1, VALUE],
        Op::SpecConstantOp => s.words = vec![UINT, next, u32::from(Op::IAdd.0), VALUE, VALUE],
        Op::ExtInstImport => s.words = [&[next][..], &string("OpenCL.std")].concat(),
        Op::TypeInt => s.words = vec![next, 8, 1],
        Op::TypeFloat => {
            let encoding = s.choice.fixed.iter().find(|f| f.0 == Kind::FPEncoding).map(|f| f.1);
            let width = match encoding {
                None | Some(0) => 16,
                Some(4225) => 4,
                Some(4223 | 4224) => 6,
                Some(_) => 8,
            };
            s.words = vec![next, width];
            s.words.extend(encoding.or((s.choice.optional == 1).then_some(0)));
        }
        _ => s.shape(info.operands),
    }
    next = next.max(s.next) + 1;
    let operands = s.words;
    let in_block = info.op.is_terminator();
    if in_block || info.op == Op::FunctionParameter {
        put(Op::Function, &[1, 6, 0, 4]);
    }
    if in_block {
        put(Op::Label, &[7]);
    }
    put(info.op, &operands);
    if in_block || matches!(info.op, Op::Function | Op::FunctionParameter) {
        put(Op::FunctionEnd, &[]);
    }
    words[3] = next;
    words
}

/// Without optional operands, with them, with one and with three repeated ones.
fn choices() -> [Choice; 4] {
    [(0, 0), (1, 0), (1, 1), (1, 3)].map(|(optional, repeated)| Choice { optional, repeated, fixed: Vec::new() })
}

fn every_opcode() -> Vec<Vec<u32>> {
    let mut all = modules(OPS.iter().flat_map(|i| choices().map(|c| (i, c))));
    all.sort();
    all.dedup();
    all
}

/// Kinds whose values are constants in a module, never words of an instruction.
const ONLY_BY_ID: &[Kind] = &[
    Kind::ComponentType,
    Kind::CooperativeMatrixLayout,
    Kind::CooperativeMatrixUse,
    Kind::CooperativeVectorMatrixLayout,
    Kind::FragmentShadingRate,
    Kind::ImageChannelDataType,
    Kind::ImageChannelOrder,
    Kind::KernelEnqueueFlags,
    Kind::KernelProfilingInfo,
    Kind::MemorySemantics,
    Kind::OverflowModes,
    Kind::QuantizationModes,
    Kind::RayFlags,
    Kind::RayQueryCandidateIntersectionType,
    Kind::RayQueryCommittedIntersectionType,
    Kind::RayQueryIntersection,
    Kind::Scope,
    Kind::TensorClampMode,
];

/// Each enumerant as an operand of the first opcode that takes its kind, and for masks also none and all bits.
fn every_enumerant() -> Vec<Vec<u32>> {
    let mut out = Vec::new();
    for &kind in Kind::ALL {
        let Some(rows) = kind.enumerants() else { continue };
        let Some((info, fixed)) = host(kind) else {
            assert!(ONLY_BY_ID.contains(&kind), "no opcode takes a {kind:?}");
            continue;
        };
        assert!(!ONLY_BY_ID.contains(&kind), "Op{} takes a {kind:?}", info.name);
        let mut values: Vec<u32> = rows.iter().map(|r| r.value).collect();
        if kind.is_mask() {
            // Zero has no name in this mask: see below.
            values.extend((kind != Kind::CooperativeMatrixReduce).then_some(0));
            values.extend([rows.iter().fold(0, |mask, r| mask | r.value)]);
        }
        let choice = |value| {
            let fixed = [vec![(kind, value)], fixed.clone()].concat();
            Choice { optional: 1, repeated: 1, fixed }
        };
        out.extend(modules(values.into_iter().map(|v| (info, choice(v)))));
    }
    out
}

/// An opcode with an operand of this kind, or with one whose parameter is of this kind when it has the value given.
fn host(kind: Kind) -> Option<(&'static OpInfo, Vec<(Kind, u32)>)> {
    let takes = |shape: Operands, kind| shape.iter().any(|o| o.0 == kind);
    let op = |kind| OPS.iter().find(|i| !is_frame(i.op) && takes(i.operands, kind));
    if let Some(info) = op(kind) {
        return Some((info, Vec::new()));
    }
    Kind::ALL.iter().find_map(|&outer| {
        let row = outer.enumerants()?.iter().find(|row| takes(row.params, kind))?;
        Some((op(outer)?, vec![(outer, row.value)]))
    })
}

fn numeric() -> PrintOptions {
    PrintOptions { friendly_names: false, ..PrintOptions::default() }
}

fn print(words: &[u32]) -> String {
    let module = binary::read_words(words).unwrap_or_else(|e| panic!("{e}: {words:x?}"));
    assert!(module.all().all(|r| !module.inst(r).opaque), "opaque: {words:x?}");
    text::print(&module, &numeric()).text
}

#[test]
fn every_opcode_and_enumerant_reads_back() {
    let (opcodes, enumerants) = (every_opcode(), every_enumerant());
    assert!(opcodes.len() > OPS.len(), "{}", opcodes.len());
    for words in opcodes.iter().chain(&enumerants) {
        let text = print(words);
        assert!(!text.contains('!') && !text.contains("OpUnknown"), "{text}");
        let back = text::parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        assert_eq!(&binary::write_words(&back), words, "{text}");
        let friendly = text::print(&back, &PrintOptions::default()).text;
        text::parse(&friendly).unwrap_or_else(|e| panic!("{e}\n{friendly}"));
    }
}

#[test]
fn masks_of_zero() {
    let source = "%1 = OpCooperativeMatrixReduceNV %2 %3 !0x00000000 %4\n%5 = OpLoad %2 %3 None\n\
                  %6 = OpCooperativeMatrixMulAddKHR %2 %3 %3 %3 NoneKHR\n%7 = OpTensorReadARM %2 %3 %3 NoneARM\n";
    let module = text::parse(source).expect("parses");
    let text = text::print(&module, &PrintOptions { header: false, indent: false, ..numeric() }).text;
    assert_eq!(text, source);
}

#[test]
fn second_names_parse() {
    let mut seen = 0;
    for (kind, value, name) in second_names() {
        match kind {
            None => assert_eq!(Op::from_name(name), Some(Op(value as u16)), "{name}"),
            Some(kind) => {
                assert_eq!(kind.enumerant_named(name), Some(value), "{name}");
                assert!(kind.enumerant(value).is_some_and(|e| e.name != name), "{name} is the first name");
            }
        }
        seen += 1;
    }
    assert!(seen > 200);
    let module =
        text::parse("OpDecorate %1 NonUniformEXT OpDecorateStringGOOGLE %1 HlslSemanticGOOGLE \"x\"").expect("parses");
    let text = text::print(&module, &PrintOptions { header: false, indent: false, ..numeric() }).text;
    assert_eq!(text, "OpDecorate %1 NonUniform\nOpDecorateString %1 UserSemantic \"x\"\n");
}

/// Instructions that SPIRV-Tools 2026.4 does not know.
const OURS_ONLY: &[&str] = &[
    "JointMatrixINTEL",
    "CheckedINTEL",
    "OffsetINTEL",
    "GetElementCoordINTEL",
    "ApplyFunctionINTEL",
    "PrefetchINTEL",
    "CooperativeMatrixCheckedInstructionsINTEL",
    "CooperativeMatrixOffsetInstructionsINTEL",
    "CooperativeMatrixInvocationInstructionsINTEL",
    "PackedCooperativeMatrixINTEL",
    "ComponentTypeINTEL",
    "PackedINTEL",
    "ComponentsINTEL",
];

/// Opcodes that have a result in the grammar but not in these tools, and operands on which they fail.
const NOT_IN_TOOLS: &[&str] = &[
    "OpCompositeConstructContinuedINTEL",
    "OpReadPipeBlockingALTERA",
    "OpWritePipeBlockingALTERA",
    "InitModeALTERA InitOnDevice",
];

#[test]
fn the_tools_agree_on_every_opcode_and_enumerant() {
    let (Some(dis), Some(assembler)) = (tool("spirv-dis"), tool("spirv-as")) else { return };
    let dir = Scratch::new("grammar");
    let (spv, asm, out) = (dir.file("a.spv"), dir.file("a.spvasm"), dir.file("b.spv"));
    let mut all: Vec<String> = every_opcode().iter().chain(&every_enumerant()).map(|w| print(w)).collect();
    all.retain(|text| !OURS_ONLY.iter().chain(NOT_IN_TOOLS).any(|name| text.contains(name)));
    let mut problems = Vec::new();
    for text in all {
        let words = binary::write_words(&text::parse(&text).expect("parses"));
        let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        std::fs::write(&spv, bytes).expect("writable");
        let run = Command::new(&dis).args(["--raw-id", "--no-color"]).arg(&spv).output().expect("runs");
        let theirs = String::from_utf8_lossy(&run.stdout).into_owned();
        if !run.status.success() {
            problems.push(format!("{}\n{}", text, String::from_utf8_lossy(&run.stderr)));
        } else if theirs != text {
            let same = |a: &str, b: &str| {
                let (a, b) = (a.split([' ', '|']), b.split([' ', '|']));
                a.clone().count() == b.clone().count() && a.zip(b).all(|(a, b)| same_name(a, b))
            };
            let lines = theirs.lines().zip(text.lines()).filter(|(a, b)| !same(a, b));
            problems.extend(lines.map(|(a, b)| format!("theirs {a}\nours   {b}")));
        }
        std::fs::write(&asm, &text).expect("writable");
        let run =
            Command::new(&assembler).args(["--preserve-numeric-ids", "-o"]).args([&out, &asm]).output().expect("runs");
        if run.status.success() {
            let theirs = std::fs::read(&out).expect("written");
            let theirs: Vec<u32> = theirs.chunks_exact(4).map(|c| u32::from_le_bytes(c.try_into().unwrap())).collect();
            if theirs[5..] != words[5..] {
                problems.push(format!("assembled otherwise:\n{text}"));
            }
        } else {
            problems.push(format!("{}\n{}", text, String::from_utf8_lossy(&run.stderr)));
        }
    }
    assert!(problems.is_empty(), "{} problems, first:\n{}", problems.len(), problems[0]);
}
