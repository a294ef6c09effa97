//! Files that no tool would write: an error or a module, at once, with memory in proportion, and never a panic.

#[path = "../../ir/tests/common/mod.rs"]
mod common;

use coop_ir::source::SourceMap;
use coop_ir::text::{self, PrintOptions};
use coop_ir::{Module, Op, binary, string_operands};
use coop_lab::fuzz;
use std::time::{Duration, Instant};

fn kernel() -> Vec<u8> {
    std::fs::read(common::tools::testdata().join("kernels/gemm_simple.debug.spv")).expect("in the repository")
}

fn bytes(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|w| w.to_le_bytes()).collect()
}

/// A module of these instructions.
struct Words(Vec<u32>);

impl Words {
    fn new(bound: u32) -> Words {
        Words(vec![binary::MAGIC, 0x0001_0600, 0, bound, 0])
    }

    fn put(&mut self, op: Op, operands: &[u32]) -> &mut Words {
        self.0.push(((operands.len() as u32 + 1) << 16) | u32::from(op.0));
        self.0.extend(operands);
        self
    }

    fn put_string(&mut self, op: Op, before: &[u32], text: &str) -> &mut Words {
        let words: Vec<u32> = before.iter().copied().chain(string_operands(text).map(|o| o.word())).collect();
        self.put(op, &words)
    }
}

/// Does everything with a module, and says how long its text is.
fn everything(words: &[u32]) -> usize {
    fuzz::reader(&bytes(words));
    let module = binary::read_words(words).expect("readable");
    SourceMap::new(&module);
    text::print(&module, &PrintOptions::default()).text.len()
}

fn quick<T>(what: &str, run: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let result = run();
    let limit = Duration::from_secs(if cfg!(debug_assertions) { 60 } else { 10 });
    assert!(start.elapsed() < limit, "{what} took {:?}", start.elapsed());
    result
}

#[test]
fn cut_off_anywhere() {
    let whole = kernel();
    for end in 0..whole.len() / 4 {
        fuzz::reader(&whole[..4 * end]);
    }
    for end in (0..20).chain((20..400).filter(|n| n % 4 != 0)) {
        assert!(binary::read(&whole[..end]).is_err(), "{end} bytes");
    }
    let text = text::print(&binary::read(&whole).expect("a kernel"), &PrintOptions::default()).text;
    for (end, _) in text.char_indices().step_by(7) {
        fuzz::parser(&text.as_bytes()[..end]);
    }
}

#[test]
fn headers_that_lie() {
    let words: Vec<u32> = kernel().chunks_exact(4).map(|c| u32::from_le_bytes(c.try_into().expect("four"))).collect();
    let with = |index: usize, value: u32| {
        let mut words = words.clone();
        words[index] = value;
        binary::read(&bytes(&words)).map(|_| ()).map_err(|e| e.to_string())
    };
    assert!(with(0, 0x1234_5678).is_err_and(|e| e.contains("not SPIR-V: the first bytes are 78 56 34 12")));
    assert!(with(3, 0).is_err_and(|e| e.contains("is not below the bound 0")));
    assert!(with(3, 5).is_err_and(|e| e.contains("is not below the bound 5")));
    assert!(with(3, u32::MAX).is_err_and(|e| e.contains("bound 4294967295 is larger")));
    assert!(with(5, words[5] & 0xffff).is_err_and(|e| e.contains("length 0")));
    assert!(with(5, words[5] | 0xffff_0000).is_err_and(|e| e.contains("the file ends")));
    // Others are kept as they are.
    for (index, value) in [(1, 0), (1, u32::MAX), (2, u32::MAX), (3, 1 << 28), (4, u32::MAX)] {
        let mut words = words.clone();
        words[index] = value;
        fuzz::reader(&bytes(&words));
        assert!(binary::read(&bytes(&words)).is_ok(), "word {index} is {value}");
    }
}

#[test]
fn a_hundred_megabytes_of_zeros() {
    let zeros = vec![0; 100_000_000];
    assert!(quick("reading", || binary::read(&zeros)).is_err());
    let text = std::str::from_utf8(&zeros).expect("zeros are text");
    let e = quick("parsing", || text::parse(text)).expect_err("no assembly");
    assert!(e.message.len() < 200, "{e}");
    let mut zeros = zeros;
    zeros[..4].copy_from_slice(&binary::MAGIC.to_le_bytes());
    let e = quick("reading", || binary::read(&zeros)).expect_err("no instruction has length 0");
    assert_eq!(e.word, 5);
    let spaces = " ".repeat(100_000_000);
    assert!(quick("parsing", || text::parse(&spaces)).is_err());
}

#[test]
fn types_that_contain_themselves() {
    let mut w = Words::new(40);
    w.put(Op::TypeStruct, &[1, 1, 1])
        .put(Op::TypeArray, &[2, 2, 2])
        .put(Op::TypePointer, &[3, 7, 3])
        .put(Op::TypeVector, &[4, 5, 3])
        .put(Op::TypeMatrix, &[5, 4, 3])
        .put(Op::TypeCooperativeMatrixKHR, &[6, 6, 6, 6, 6, 6])
        .put(Op::TypeFunction, &[7, 7, 7])
        .put(Op::Constant, &[8, 8, 1])
        .put(Op::ConstantComposite, &[9, 9, 9])
        .put(Op::SpecConstantOp, &[10, 10, 128, 10, 10])
        .put(Op::ConstantComposite, &[11, 12, 12])
        .put(Op::ConstantComposite, &[12, 11, 11])
        // The same id twice.
        .put(Op::TypeInt, &[13, 32, 0])
        .put(Op::TypeInt, &[13, 64, 0])
        .put(Op::Constant, &[13, 14, 7]);
    everything(&w.0);
}

#[test]
fn ids_used_before_their_definition() {
    let mut w = Words::new(40);
    w.put(Op::Constant, &[2, 1, 0, 1])
        .put(Op::TypeInt, &[2, 64, 0])
        .put(Op::ExtInst, &[3, 4, 5, 1, 6])
        .put_string(Op::ExtInstImport, &[5], "GLSL.std.450")
        .put(Op::ExtInst, &[3, 7, 5, 1, 6])
        .put(Op::Function, &[3, 8, 0, 9])
        .put(Op::Label, &[10])
        .put(Op::Switch, &[11, 12, 0, 12])
        .put(Op::Label, &[12])
        .put(Op::Undef, &[2, 11])
        .put(Op::Switch, &[11, 12, 0, 1, 12])
        .put(Op::FunctionEnd, &[]);
    everything(&w.0);
    let module = binary::read_words(&w.0).expect("readable");
    let text = text::print(&module, &PrintOptions { friendly_names: false, ..PrintOptions::default() }).text;
    // Its type comes later, so its literal is only words.
    assert!(text.contains("%1 = OpConstant %2 !0x00000000 !0x00000001"), "{text}");
    assert!(text.contains("%7 = OpExtInst %3 %5 Round %6"), "{text}");
    assert!(text.contains("OpSwitch %11 %12 4294967296 %12"), "{text}");
}

#[test]
fn text_stays_in_proportion() {
    // Names of types are made of names of types.
    let mut w = Words::new(100_000);
    w.put(Op::TypeFloat, &[1, 32]);
    for id in 2..50_000 {
        w.put(Op::TypeRuntimeArray, &[id, id - 1]);
    }
    let text = quick("nested arrays", || everything(&w.0));
    assert!(text < 100 * w.0.len(), "{text} bytes for {} words", w.0.len());

    // One enormous name, used often.
    let mut w = Words::new(100_000);
    w.put_string(Op::Name, &[1], &"n".repeat(200_000));
    for id in 2..50_000 {
        w.put(Op::TypeRuntimeArray, &[id, 1]);
    }
    let text = quick("a long name", || everything(&w.0));
    assert!(text < 200 * w.0.len(), "{text} bytes for {} words", w.0.len());

    // One name for everything, and names that look like the ones made from it.
    let mut w = Words::new(100_000);
    for id in 1..20_000 {
        w.put_string(Op::Name, &[id], "x").put_string(Op::Name, &[id + 20_000], &format!("x_{id}"));
    }
    quick("equal names", || everything(&w.0));

    // An import with an enormous name, and many uses of it.
    let mut w = Words::new(100_000);
    w.put_string(Op::ExtInstImport, &[1], &format!("NonSemantic.{}", "s".repeat(200_000)));
    for id in 2..50_000 {
        w.put(Op::ExtInst, &[1, id, 1, 3, 1]);
    }
    quick("a long import", || everything(&w.0));

    // A source file with an enormous text, and many that name it.
    let mut w = Words::new(100_000);
    w.put_string(Op::ExtInstImport, &[1], "NonSemantic.Shader.DebugInfo.100");
    w.put_string(Op::String, &[2], &"t".repeat(200_000));
    for id in 3..50_000 {
        w.put(Op::ExtInst, &[1, id, 1, 35, 2, 2]);
    }
    quick("many files", || everything(&w.0));
}

#[test]
fn texts_that_are_no_assembly() {
    for (text, place, message) in [
        ("", "1:1", "no instruction in this text"),
        ("; only a comment", "1:1", "no instruction"),
        ("hello", "1:1", "expected an opcode or a result, found `hello`"),
        ("OpNop\n  \u{e4} OpNop", "2:3", "found `\u{e4}`"),
        ("OpNope", "1:1", "no opcode `OpNope`"),
        ("%1 OpTypeVoid", "1:4", "expected `=` after `%1`"),
        ("%1 =", "1:5", "expected an opcode"),
        ("%1 = 5", "1:6", "no opcode `5`"),
        ("OpTypeVoid", "1:1", "OpTypeVoid has a result"),
        ("%1 = OpNop", "1:1", "OpNop has no result"),
        ("%a-b = OpTypeVoid", "1:1", "`%a-b` is not an id"),
        ("OpCapability Matrix2", "1:14", "no Capability `Matrix2`"),
        ("OpCapability", "1:13", "OpCapability ends where an operand (Capability) must follow"),
        ("OpName %1 name", "1:11", "expected a string in quotes"),
        ("OpName %1 \"name", "1:11", "a string without closing quote"),
        ("OpName %1 \"na\"me", "1:11", "text follows the closing quote"),
        ("OpName x \"name\"", "1:8", "expected an id, found `x`"),
        ("OpMemberName %1 -1 \"x\"", "1:17", "`-1` is negative"),
        ("%1 = OpTypeFloat 32 %2 = OpConstant %1 x", "1:40", "`x` is not a floating-point number"),
        ("%2 = OpConstant %1 5", "1:20", "not a number type that is declared further up"),
        ("OpLoad", "1:1", "OpLoad has a result"),
        ("%1 = OpLoad %2 %3 Aligned", "1:26", "must follow"),
        ("%1 = OpLoad %2 %3 Aligned|Bogus 4", "1:19", "no MemoryAccess `Bogus`"),
        ("OpReturn", "1:1", "not inside a block"),
        ("%1 = OpFunction %2 None %3", "1:27", "the file ends inside a function"),
        ("OpUnknown(1", "1:12", "is not a 16-bit number"),
        ("OpUnknown(1, 3) 1", "1:18", "1 of them are missing"),
        ("OpUnknown(1, 2) \"abcdefgh\"", "1:17", "this goes beyond"),
        ("OpUnknown(1, 0)", "1:1", "length 0"),
        ("!0x00000001", "1:1", "an instruction of length 0"),
        ("!0x00020001 !99999999999", "1:13", "is not a number of 32 bits"),
        ("!0x00020001 x", "1:13", "is not an id, number or string"),
        ("%1 = OpTypePointer Function !0x00000000", "1:1", "is id 0"),
        ("OpName %1 \"a\0b\"", "1:11", "zero byte"),
    ] {
        let e = text::parse(text).expect_err(text);
        assert_eq!(format!("{}:{}", e.line, e.column), place, "{text}: {e}");
        assert!(e.message.contains(message), "{text}: {e}");
        fuzz::parser(text.as_bytes());
    }
    let long = format!("OpName %1 \"{}\"", "x".repeat(300_000));
    assert!(text::parse(&long).expect_err("too long").message.contains("65535"));
}

#[test]
fn long_texts_take_time_in_proportion() {
    let many = |piece: &str| piece.repeat(2_000_000 / piece.len());
    for text in [
        many("%a "),
        many("%1 = "),
        many("OpName "),
        many("!5 "),
        many("\" "),
        many("\\\""),
        many("; x\n"),
        many("|"),
        format!("%1 = OpLoad %2 %3 {}", many("Aligned|")),
        format!("OpSource GLSL {}", many("9")),
        format!("%1 = OpTypeFloat 64 %2 = OpConstant %1 {}", many("9")),
        format!("%1 = OpTypeFloat 64 %2 = OpConstant %1 0x{}p0", many("9")),
        many("OpUnknown(1, 1) "),
        many("!0x00010000 OpNop "),
    ] {
        quick(&text[..20], || text::parse(&text).map(|m: Module| m.arena_len())).ok();
    }
    // As many names as fit.
    let names: String = (0..100_000).map(|i| format!("%n{i} = OpTypeVoid\n")).collect();
    assert_eq!(quick("names", || text::parse(&names)).expect("parses").arena_len(), 100_000);
}
