//! The laws that proofs know, and some that they don't: pairs of small modules that are proved to store the same, refuted,
//! or neither.
//!
//! Each module has a body that computes `%r` of the type of buffer D from elements of the data buffers. `%a`, `%b`, `%c`
//! are floats, `%i`, `%j`, `%k` unsigned integers of 32 bits, `%h` an unsigned one that holds two halves.

mod proof_common;
mod proof_head;

use std::path::Path;

use coop_exec::Case;
use coop_exec::interp::{Arithmetic, Interpreted};
use coop_exec::proof::{Options, Proof, Verdict, prove};
use coop_ir::Module;
use proof_common::Pairs;
use proof_head::{CASE, HEAD, PAIRS};

fn module(body: &str) -> Module {
    PAIRS.module(body)
}

/// Returns the proof that two bodies store the same.
fn proof(arithmetic: Arithmetic, one: &str, other: &str) -> Proof {
    PAIRS.proof(arithmetic, one, other)
}

/// A body that stores a float expression.
fn float(body: &str) -> String {
    format!("{body}\nOpStore %pd %r")
}

/// A body that stores an integer expression.
fn integer(body: &str) -> String {
    format!("{body}\nOpStore %pe %r")
}

fn is_proved(arithmetic: Arithmetic, one: &str, other: &str) {
    let proof = proof(arithmetic, one, other);
    assert_eq!(proof.verdict, Verdict::Proved, "{one}\nand\n{other}");
    assert!(proof.log2_error < -40.0 && proof.stored >= 1, "{proof:?}");
}

fn is_refuted(arithmetic: Arithmetic, one: &str, other: &str) {
    let verdict = proof(arithmetic, one, other).verdict;
    assert!(matches!(verdict, Verdict::Refuted(_)), "{verdict:?}: {one}\nand\n{other}");
}

fn is_open(arithmetic: Arithmetic, one: &str, other: &str, why: &str) {
    let verdict = proof(arithmetic, one, other).verdict;
    assert!(
        matches!(&verdict, Verdict::NotProvable(said) if said.message.contains(why)),
        "{verdict:?}: {one}\nand\n{other}"
    );
}

const REALS: Arithmetic = Arithmetic::Reals;

/// Integer code that rounds the sum of %a and %b, in place: the bits that it drops, the number below half of the last kept bit, and the mask.
fn rounded_by_code(dropped: &str, below_half: &str, kept: &str) -> String {
    format!(
        "%x = OpFAdd %float %a %b\n%u = OpBitcast %uint %x\n%l = OpShiftRightLogical %uint %u {dropped}\n\
         %o = OpBitwiseAnd %uint %l %n1\n%p = OpIAdd %uint %o {below_half}\n%s = OpIAdd %uint %u %p\n\
         %t = OpBitwiseAnd %uint %s {kept}\n%m = OpBitwiseAnd %uint %u %most\n\
         %n = OpUGreaterThan %bool %m %infinity\n%q = OpBitwiseOr %uint %u %quiet\n%v = OpBitwiseAnd %uint %q {kept}\n\
         %w = OpSelect %uint %n %v %t\n%r = OpBitcast %float %w"
    )
}

/// Integer code that rounds to bf16 is the conversion; so is the code that has the result in the lower half of a word. What differs in
/// a constant or lacks the NaN is not.
#[test]
fn roundings_by_integer_instructions() {
    let sum = "%x = OpFAdd %float %a %b\n";
    let conversion = float(&format!("{sum}%y = OpFConvert %bfloat %x\n%r = OpFConvert %float %y"));
    let code = float(&rounded_by_code("%n16", "%n32767", "%upper"));
    let low = code
        .replace("%t = OpBitwiseAnd %uint %s %upper", "%t = OpShiftRightLogical %uint %s %n16")
        .replace("%v = OpBitwiseAnd %uint %q %upper", "%v = OpBitwiseOr %uint %l %n64")
        .replace(
            "%r = OpBitcast %float %w",
            "%sh = OpUConvert %short %w\n%y = OpBitcast %bfloat %sh\n%r = OpFConvert %float %y",
        );
    let element = |body: &str| body.replace("%x = OpFAdd %float %a %b", "%x = OpCopyObject %float %a");
    for mode in [REALS, Arithmetic::Rounding] {
        for of in [str::to_owned, element] {
            let [conversion, code, low] = [&conversion, &code, &low].map(|body| of(body));
            is_proved(mode, &conversion, &code);
            is_proved(mode, &conversion, &low);
            is_proved(mode, &code, &low);
        }
    }
    for (from, to) in [
        ("%o %n32767", "%o %n32768"),
        ("%o = OpBitwiseAnd %uint %l %n1", "%o = OpBitwiseAnd %uint %l %n2"),
        ("%u %n16\n%o", "%u %n15\n%o"),
        ("%s %upper", "%s %upper19"),
        ("%m %infinity", "%m %quiet"),
        ("%w = OpSelect %uint %n %v %t", "%w = OpSelect %uint %n %t %v"),
        ("%q = OpBitwiseOr %uint %u %quiet", "%q = OpBitwiseOr %uint %u %n64"),
    ] {
        let other = code.replace(from, to);
        assert_ne!(other, code, "{from}");
        for mode in [REALS, Arithmetic::Rounding, Arithmetic::Strict] {
            assert_ne!(proof(mode, &conversion, &other).verdict, Verdict::Proved, "{other}");
        }
    }
    // A truncation is another rounding.
    let truncated =
        float(&format!("{sum}%u = OpBitcast %uint %x\n%w = OpBitwiseAnd %uint %u %upper\n%r = OpBitcast %float %w"));
    for mode in [REALS, Arithmetic::Rounding] {
        assert_ne!(proof(mode, &conversion, &truncated).verdict, Verdict::Proved);
    }
}

/// A number that was rounded to tf32 has no bits below, whatever it is among the reals.
#[test]
fn bits_that_a_rounding_dropped_are_gone() {
    let code = rounded_by_code("%n13", "%n4095", "%upper19")
        .replace("%x = OpFAdd %float %a %b", "%x = OpCopyObject %float %a");
    let low = |from: &str| {
        integer(
            &format!("{code}\n%z = OpBitcast %uint {from}\n%y = OpBitwiseAnd %uint %z %n15").replace("%y =", "%y0 ="),
        )
    };
    let [rounded, plain] = ["%r", "%a"].map(|from| low(from).replace("OpStore %pe %r", "OpStore %pe %y0"));
    assert_ne!(proof(REALS, &rounded, &plain).verdict, Verdict::Proved);
}

/// A sum whose order and precision are free may be rounded in other places: the bound of its rounding counts, whatever the tolerance
/// of the case. A coarser rounding is outside of it.
#[test]
fn values_may_be_as_far_apart_as_the_bound_of_a_sum() {
    let strict = "type = \"f32\"\ncount = 8\nfill = { constant = 99 }";
    let case = CASE.replace(strict, &format!("{strict}\ntolerance = {{ nmse = 1e-12 }}"));
    let case = case.replacen("[1.5, -2.25, 3.125,", "[1.2001953125, 2.30078125, 3.69921875,", 1);
    let pairs = Pairs { case: &case, ..PAIRS };
    let halves = "%x = OpFConvert %half %a\n%y = OpFConvert %half %b\n%z = OpFConvert %half %c\n";
    let body = |sum: &str| float(&format!("{halves}{sum}\n%r = OpFConvert %float %s"));
    let dot = "%v = OpCompositeConstruct %half2 %x %y\n%w = OpCompositeConstruct %half2 %y %z\n%s = OpDot %half %v %w";
    let steps = "%p = OpFMul %half %x %y\n%q = OpFMul %half %y %z\n%s = OpFAdd %half %p %q";
    let coarse = "%p = OpFMul %half %x %y\n%q = OpFMul %half %y %z\n%big = OpConvertUToF %half %n32768\n\
                  %t = OpFAdd %half %p %big\n%u = OpFSub %half %t %big\n%s = OpFAdd %half %u %q";
    let near = pairs.proof(REALS, &body(dot), &body(steps));
    assert_eq!(near.verdict, Verdict::Proved);
    assert!(near.apart.is_some_and(|apart| apart > 0.0 && apart < 0.05), "{near}");
    let text = near.to_string();
    assert!(text.contains("each within the bound of its sums"), "{text}");
    let far = pairs.proof(REALS, &body(dot), &body(coarse));
    assert!(matches!(&far.verdict, Verdict::Refuted(why) if why.contains("not their rounded values")), "{far}");
    let wrong = steps.replace("%half %y %z", "%half %x %z");
    let other = pairs.proof(REALS, &body(dot), &body(&wrong)).verdict;
    assert!(matches!(&other, Verdict::Refuted(why) if why.contains("stored elements differ")), "{other:?}");
}

#[test]
fn laws_of_the_reals() {
    for (one, other) in [
        ("%r = OpFAdd %float %a %b", "%r = OpFAdd %float %b %a"),
        ("%t = OpFAdd %float %a %b\n%r = OpFAdd %float %t %c", "%t = OpFAdd %float %b %c\n%r = OpFAdd %float %a %t"),
        (
            "%t = OpFAdd %float %a %b\n%r = OpFMul %float %t %c",
            "%t = OpFMul %float %b %c\n%r = OpExtInst %float %glsl Fma %a %c %t",
        ),
        ("%r = OpFMul %float %a %two", "%r = OpFAdd %float %a %a"),
        ("%r = OpFSub %float %a %b", "%n = OpFNegate %float %b\n%r = OpFAdd %float %a %n"),
        (
            "%q = OpFDiv %float %a %c\n%s = OpFDiv %float %b %c\n%r = OpFAdd %float %q %s",
            "%t = OpFAdd %float %a %b\n%r = OpFDiv %float %t %c",
        ),
        (
            "%s = OpExtInst %float %glsl FMax %a %b\n%r = OpExtInst %float %glsl FMax %s %c",
            "%s = OpExtInst %float %glsl FMax %c %a\n%t = OpExtInst %float %glsl NMax %b %c\n%r = OpExtInst %float %glsl FMax %s %t",
        ),
        (
            "%s = OpFAdd %float %a %b\n%r = OpExtInst %float %glsl Exp %s",
            "%s = OpFAdd %float %b %a\n%r = OpExtInst %float %glsl Exp %s",
        ),
        ("%r = OpFSub %float %a %a", "%r = OpCopyObject %float %zero"),
        ("%n = OpFConvert %half %a\n%r = OpFConvert %float %n", "%r = OpCopyObject %float %a"),
    ] {
        is_proved(REALS, &float(one), &float(other));
    }
}

#[test]
fn other_expressions_are_refuted() {
    for (one, other) in [
        ("%r = OpFAdd %float %a %b", "%r = OpFSub %float %a %b"),
        ("%r = OpFAdd %float %a %b", "%r = OpFAdd %float %a %c"),
        ("%r = OpFSub %float %a %b", "%r = OpFSub %float %b %a"),
        ("%r = OpFMul %float %a %two", "%r = OpFMul %float %a %three"),
        // 2 to the power of 61 is 1 in the field that proofs of this kind usually take.
        ("%r = OpCopyObject %float %a", "%r = OpFMul %float %a %huge"),
        ("%r = OpFMul %float %a %b", "%t = OpFMul %float %a %b\n%r = OpFAdd %float %t %tenth"),
        ("%r = OpExtInst %float %glsl Exp %a", "%r = OpExtInst %float %glsl Exp %b"),
        ("%r = OpExtInst %float %glsl FMax %a %b", "%r = OpExtInst %float %glsl FMin %a %b"),
        ("%r = OpExtInst %float %glsl FMax %a %b", "%r = OpCopyObject %float %a\n%x = OpFAdd %float %b %b"),
        ("%r = OpCopyObject %float %a", "%r = OpCopyObject %float %one"),
        ("%r = OpCopyObject %float %zero", "%r = OpCopyObject %float %one"),
    ] {
        // The greater of a and b is a here, so the case's data does not tell them apart.
        if one.contains("FMax %a %b") && other.contains("CopyObject") {
            is_open(REALS, &float(one), &float(other), "the values agree on the case's data");
            continue;
        }
        is_refuted(REALS, &float(one), &float(other));
    }
    // Stored elsewhere, twice, and not at all.
    is_refuted(REALS, "OpStore %pd %a", "OpStore %pe %i");
    is_refuted(REALS, "OpStore %pd %a", "OpStore %pd %a\nOpStore %pe %i");
    is_refuted(REALS, "OpStore %pd %a\nOpStore %pe %i", "OpStore %pd %a");
    is_proved(REALS, "OpStore %pd %a", "OpStore %pd %b\nOpStore %pd %a");
}

/// Expressions that the case's data happens to make equal are not equal.
#[test]
fn coincidences_are_refuted() {
    // 1.5 is stored, as a number and as a constant of the same value.
    is_refuted(REALS, &float("%r = OpCopyObject %float %a"), &float("%r = OpFDiv %float %three %two"));
    // I[0] is 3.
    is_refuted(REALS, &integer("%r = OpCopyObject %uint %i"), &integer("%r = OpCopyObject %uint %n3"));
    // I[0] + 3 = 2 * I[0].
    is_not_proved(&integer("%r = OpIAdd %uint %i %n3"), &integer("%r = OpIMul %uint %i %n2"));
}

#[test]
fn laws_of_the_integers() {
    for (one, other) in [
        (
            "%t = OpIAdd %uint %i %j\n%r = OpIMul %uint %t %k",
            "%t = OpIMul %uint %k %i\n%u = OpIMul %uint %j %k\n%r = OpIAdd %uint %u %t",
        ),
        ("%r = OpISub %uint %i %n1", "%r = OpIAdd %uint %i %minus1"),
        ("%t = OpNot %uint %i\n%r = OpIAdd %uint %t %n1", "%r = OpSNegate %uint %i"),
        // A field in three ways.
        (
            "%t = OpShiftRightLogical %uint %i %n4\n%r = OpBitwiseAnd %uint %t %n15",
            "%r = OpBitFieldUExtract %uint %i %n4 %n4",
        ),
        (
            "%t = OpBitwiseAnd %uint %i %n240\n%r = OpShiftRightLogical %uint %t %n4",
            "%t = OpBitcast %byte4 %i\n%x = OpCompositeExtract %byte %t 0\n%y = OpUConvert %uint %x\n%r = OpShiftRightLogical %uint %y %n4",
        ),
        (
            "%t = OpBitFieldSExtract %uint %i %n0 %n4\n%r = OpCopyObject %uint %t",
            "%t = OpShiftLeftLogical %uint %i %n28\n%r = OpShiftRightArithmetic %uint %t %n28",
        ),
        ("%r = OpExtInst %uint %glsl UMax %i %j", "%r = OpExtInst %uint %glsl UMax %j %i"),
        ("%r = OpBitwiseXor %uint %i %i", "%r = OpCopyObject %uint %n0"),
    ] {
        is_proved(REALS, &integer(one), &integer(other));
    }
    for (one, other) in [
        ("%r = OpIAdd %uint %i %j", "%r = OpISub %uint %i %j"),
        ("%r = OpShiftRightLogical %uint %i %n4", "%r = OpShiftRightLogical %uint %i %n8"),
        ("%r = OpBitwiseAnd %uint %j %n15", "%r = OpBitwiseAnd %uint %j %n65535"),
        ("%r = OpBitFieldUExtract %uint %i %n0 %n4", "%r = OpBitFieldSExtract %uint %i %n0 %n4"),
        ("%r = OpShiftRightLogical %uint %i %n1", "%r = OpShiftRightArithmetic %uint %i %n1"),
        ("%r = OpExtInst %uint %glsl UMax %i %j", "%r = OpExtInst %uint %glsl UMin %i %j"),
    ] {
        is_not_proved(&integer(one), &integer(other));
    }
}

fn is_not_proved(one: &str, other: &str) {
    let verdict = proof(REALS, one, other).verdict;
    assert_ne!(verdict, Verdict::Proved, "{one}\nand\n{other}");
}

/// Bytes are the same in whatever width they are written and read.
#[test]
fn bytes_keep_their_terms() {
    let halves =
        "%h0 = OpLoad %half %ph0\n%h1 = OpLoad %half %ph1\n%s = OpFAdd %half %h0 %h1\n%p = OpFMul %half %h0 %h1";
    let packed = format!("{halves}\n%v = OpCompositeConstruct %half2 %s %p\n%r = OpBitcast %uint %v");
    let shifted = format!(
        "{halves}\n%v = OpCompositeConstruct %half2 %p %s\n%w = OpBitcast %uint %v\n%x = OpShiftLeftLogical %uint %w %n16\n\
         %y = OpShiftRightLogical %uint %w %n16\n%r = OpBitwiseOr %uint %x %y"
    );
    is_proved(REALS, &integer(&packed), &integer(&shifted));
    let swapped = format!("{halves}\n%v = OpCompositeConstruct %half2 %p %s\n%r = OpBitcast %uint %v");
    is_refuted(REALS, &integer(&packed), &integer(&swapped));
    // Written as halves, read as a word.
    let stored = "%x = OpLoad %half %ph0\n%y = OpFAdd %half %x %x\nOpStore %ph0 %y\nOpStore %ph1 %y";
    let other = "%x = OpLoad %half %ph0\n%z = OpFConvert %float %x\n%w = OpFMul %float %z %two\n%y = OpFConvert %half %w\nOpStore %ph1 %y\nOpStore %ph0 %y";
    is_proved(REALS, stored, other);
    is_refuted(REALS, stored, "%x = OpLoad %half %ph1\n%y = OpFAdd %half %x %x\nOpStore %ph0 %y\nOpStore %ph1 %y");
    // A float is not the integer with its bits.
    is_not_proved(&float("%r = OpConvertUToF %float %i"), &float("%r = OpBitcast %float %i"));
    let unpack = "%f = OpExtInst %float2 %glsl UnpackHalf2x16 %i\n%r = OpCompositeExtract %float %f 1";
    let by_hand = "%v = OpBitcast %half2 %i\n%x = OpCompositeExtract %half %v 1\n%r = OpFConvert %float %x";
    is_proved(REALS, &float(unpack), &float(by_hand));
    is_not_proved(&float(unpack), &float(&by_hand.replace("%half %v 1", "%half %v 0")));
}

/// A branch on data: both may decide by it, but not only the second.
#[test]
fn decisions_on_data_are_compared() {
    let plain = "OpStore %pd %a";
    let branch = "%t = OpFOrdLessThan %bool %b %c\nOpSelectionMerge %end None\nOpBranchConditional %t %yes %end\n\
                  %yes = OpLabel\nOpStore %pd %a\nOpBranch %end\n%end = OpLabel";
    let greater = branch.replace("OpFOrdLessThan %bool %b %c", "OpFOrdGreaterThan %bool %c %b");
    let other = branch.replace("%b %c", "%b %a");
    is_open(REALS, plain, branch, "data decides something in the lowered module");
    is_proved(REALS, branch, &greater);
    is_open(REALS, branch, &other, "data decides something in the lowered module");
    let made = proof(REALS, branch, &greater);
    assert_eq!(made.decisions, 1);
    assert!(made.to_string().contains("that make 1 of their values what they are here"), "{made}");
    // So is an index: I[0] is 3.
    let index = "%p = OpAccessChain %p_float %F %n0 %i\n%r = OpLoad %float %p";
    let known = "%p = OpAccessChain %p_float %F %n0 %n3\n%r = OpLoad %float %p";
    is_open(REALS, &float(known), &float(index), "data decides something in the lowered module");
    is_proved(REALS, &float(index), &float(index));
    // A choice between values is an expression.
    let choice = "%t = OpFOrdLessThan %bool %b %c\n%r = OpSelect %float %t %a %b";
    is_proved(
        REALS,
        &float(choice),
        &float(&choice.replace("OpFOrdLessThan %bool %b %c", "OpFOrdGreaterThan %bool %c %b")),
    );
    is_open(REALS, &float(choice), &float("%r = OpCopyObject %float %a"), "agree on the case's data");
    is_refuted(REALS, &float(choice), &float("%r = OpCopyObject %float %b"));
}

#[test]
fn laws_that_are_not_known_prove_nothing() {
    // exp(a) * exp(b) is exp(a + b).
    is_open(
        REALS,
        &float("%s = OpFAdd %float %a %b\n%r = OpExtInst %float %glsl Exp %s"),
        &float("%x = OpExtInst %float %glsl Exp %a\n%y = OpExtInst %float %glsl Exp %b\n%r = OpFMul %float %x %y"),
        "a law that is not known here",
    );
    let undefined = "%u = OpUndef %float\n%r = OpFAdd %float %a %u";
    is_open(REALS, &float(undefined), &float(undefined), "undefined behaviour");
    is_refuted(REALS, &float("%r = OpCopyObject %float %a"), &float(undefined));
    is_open(REALS, "", "", "nothing is stored");
}

/// A number that is put together from bits is the sum of its parts, each with its weight.
#[test]
fn numbers_are_sums_of_their_bits() {
    let parts =
        "%lo = OpBitwiseAnd %uint %i %n15\n%t = OpBitwiseAnd %uint %j %n15\n%hi = OpShiftLeftLogical %uint %t %n4\n";
    let whole = float(&format!("{parts}%o = OpBitwiseOr %uint %lo %hi\n%r = OpConvertUToF %float %o"));
    let sum = |high: &str| {
        float(&format!(
            "{parts}%x = OpConvertUToF %float %lo\n%y = OpConvertUToF %float {high}\n%r = OpFAdd %float %x %y"
        ))
    };
    is_proved(REALS, &whole, &sum("%hi"));
    is_not_proved(&whole, &sum("%t"));
    is_not_proved(&float("%r = OpConvertUToF %float %i"), &float("%r = OpConvertSToF %float %i"));
}

/// Both expressions of an element that differs are shown, and what only one of them has.
#[test]
fn differences_show_both_expressions() {
    let shown = |one: &str, other: &str| proof(REALS, one, other).difference.expect("they differ");
    let product = "%t = OpFMul %float %a %b\n";
    let found = shown(
        &float(&format!("{product}%r = OpFAdd %float %t %c")),
        &float(&format!("{product}%r = OpFSub %float %t %b")),
    );
    assert_eq!(found.place, "D[0]");
    assert_eq!((found.original.as_str(), found.lowered.as_str()), ("F[0] * F[1] + F[2]", "F[0] * F[1] - F[1]"));
    assert_eq!(found.only, Some(["F[2]".to_owned(), "-F[1]".to_owned()]));
    let found = shown(
        &float("%e = OpExtInst %float %glsl Exp %a\n%r = OpFMul %float %e %b"),
        &float("%e = OpExtInst %float %glsl Sqrt %a\n%r = OpFMul %float %e %b"),
    );
    assert!(found.original.contains("Exp(F[0])") && found.lowered.contains("Sqrt(F[0])"), "{found}");
    let found = shown(
        &integer("%t = OpShiftRightLogical %uint %i %n8\n%r = OpBitwiseAnd %uint %t %n15"),
        &integer("%r = OpIMul %uint %i %j"),
    );
    assert_eq!(found.original, "BitwiseAnd(ShiftRightLogical(I[0], 8), 15)");
    assert_eq!(found.lowered, "I[0] * I[1]");
    // However large an expression is, it is printed in a line.
    let steps: String = (0..40).map(|k| format!("%s{} = OpFMul %float %s{k} %s{k}\n", k + 1)).collect();
    let large =
        format!("%s0 = OpFAdd %float %a %b\n{steps}%e = OpExtInst %float %glsl Exp %s40\n%r = OpFAdd %float %e %c");
    let found = shown(&float(&large), &float("%r = OpCopyObject %float %c"));
    assert!(found.original.len() < 2000 && found.original.contains('…'), "{}", found.original);
}

/// A sum of thousands of terms is one expression inside the other; to print it takes no more of the stack than a thread has.
#[test]
fn long_chains_are_shown() {
    let chain = |last: &str| {
        let steps = (0..4000).map(|k| format!("%s{} = OpFAdd %float %s{k} %b\n", k + 1)).collect::<String>();
        float(&format!("%s0 = OpFAdd %float %a %b\n{steps}%r = OpFAdd %float %s4000 {last}"))
    };
    let (one, other) = (chain("%b"), chain("%c"));
    let shown = move || proof(REALS, &one, &other).difference.expect("they differ");
    let thread = std::thread::Builder::new().stack_size(2 << 20).spawn(shown).expect("a thread");
    let found = thread.join().expect("it does not end");
    assert_ne!(found.original, found.lowered);
}

/// Integers count modulo a power of two: each pair is proved, and its neighbor that differs for some data is not.
#[test]
fn integers_wrap() {
    // The low bits of a sum are the sum of the low bits, but not the sum of the numbers in them.
    let low = integer("%s = OpIAdd %uint %i %j\n%n = OpUConvert %byte %s\n%r = OpUConvert %uint %n");
    let halves = "%x = OpUConvert %byte %i\n%y = OpUConvert %byte %j\n";
    is_proved(REALS, &low, &integer(&format!("{halves}%n = OpIAdd %byte %x %y\n%r = OpUConvert %uint %n")));
    let wide = "%p = OpUConvert %uint %x\n%q = OpUConvert %uint %y\n%r = OpIAdd %uint %p %q";
    is_not_proved(&low, &integer(&format!("{halves}{wide}")));
    // Where a step wraps does not matter, and how much is added does.
    let twice = integer("%s = OpIAdd %uint %i %most\n%r = OpIAdd %uint %s %n1");
    is_proved(REALS, &twice, &integer("%r = OpISub %uint %i %top"));
    is_proved(REALS, &twice, &integer("%r = OpIAdd %uint %i %top"));
    is_not_proved(&twice, &integer("%r = OpIAdd %uint %i %most"));
    // 2^31 * 2 is 0, and 2^31 alone is not.
    let half = "%s = OpIMul %uint %i %top\n";
    let none = integer("%r = OpISub %uint %j %j");
    is_proved(REALS, &none, &integer(&format!("{half}%r = OpIAdd %uint %s %s")));
    is_not_proved(&none, &integer(&format!("{half}%r = OpCopyObject %uint %s")));
    // Both readings of a sign agree in the low bits alone.
    let read = |op: &str| {
        format!("%x = OpUConvert %byte %i\n%p = {op} %uint %x\n%t = OpIMul %uint %p %n3\n%s = OpIAdd %uint %t %j\n")
    };
    let narrow = "%n = OpUConvert %byte %s\n%r = OpUConvert %uint %n";
    let [signed, unsigned] = [read("OpSConvert"), read("OpUConvert")];
    is_proved(REALS, &integer(&format!("{signed}{narrow}")), &integer(&format!("{unsigned}{narrow}")));
    let all = "%r = OpCopyObject %uint %s";
    is_not_proved(&integer(&format!("{signed}{all}")), &integer(&format!("{unsigned}{all}")));
    // A byte in a register of 32 bits, its sign extended after each step.
    let byte =
        integer("%x = OpUConvert %byte %i\n%m = OpSNegate %byte %x\n%t = OpIAdd %byte %m %m\n%r = OpSConvert %uint %t");
    let emulated = |steps: &str| {
        integer(&format!(
            "%x = OpBitFieldSExtract %uint %i %n0 %n8\n%p = OpSNegate %uint %x\n\
             %m = OpBitFieldSExtract %uint %p %n0 %n8\n%t = OpIAdd %uint %m %m\n{steps}"
        ))
    };
    is_proved(REALS, &byte, &emulated("%r = OpBitFieldSExtract %uint %t %n0 %n8"));
    is_not_proved(&byte, &emulated("%r = OpCopyObject %uint %t"));
    is_not_proved(&byte, &emulated("%r = OpBitFieldUExtract %uint %t %n0 %n8"));
    let sum = "%s = OpIAdd %uint %i %j\n";
    let shifted = integer(&format!("{sum}%r = OpShiftLeftLogical %uint %s %n4"));
    is_proved(REALS, &shifted, &integer(&format!("{sum}%r = OpIMul %uint %s %n16")));
    is_not_proved(&shifted, &integer(&format!("{sum}%r = OpIMul %uint %s %n15")));
}

/// Twice a pattern, or a power of two times one, is its bits shifted; 0 times anything is 0.
#[test]
fn patterns_are_multiplied_by_powers_of_two() {
    let shifted = |by: &str| integer(&format!("%r = OpShiftLeftLogical %uint %i {by}"));
    let sum = "%s = OpIAdd %uint %i %i\n";
    let [twice, eight] = [&format!("{sum}%r = OpCopyObject %uint %s"), "%r = OpIMul %uint %n8 %i"].map(integer);
    let four = integer("%t = OpIMul %uint %i %n3\n%r = OpIAdd %uint %t %i");
    for (one, by, wrong) in [(twice, "%n1", "%n2"), (eight, "%n3", "%n4"), (four, "%n2", "%n3")] {
        is_proved(REALS, &one, &shifted(by));
        is_proved(REALS, &shifted(by), &one);
        is_not_proved(&one, &shifted(wrong));
    }
    // As a number that is converted, the bits that are lost at the top count.
    let float_of = |by: &str| float(&format!("{by}\n%r = OpConvertUToF %float %s"));
    is_not_proved(&float_of(sum), &float("%f = OpConvertUToF %float %i\n%r = OpFMul %float %f %two"));
    let low = "%n = OpBitwiseAnd %uint %i %n15\n";
    let exact = float(&format!("{low}%f = OpConvertUToF %float %n\n%r = OpFMul %float %f %two"));
    is_proved(REALS, &float_of(&format!("{low}%s = OpIAdd %uint %n %n")), &exact);
    let masked = |by: &str| integer(&format!("%t = OpIMul %uint %i {by}\n%r = OpBitwiseAnd %uint %t %i"));
    is_proved(REALS, &integer("%r = OpISub %uint %j %j"), &masked("%n0"));
    is_not_proved(&integer("%r = OpISub %uint %j %j"), &masked("%n1"));
}

/// The modes differ in what they take for the same.
#[test]
fn modes_see_roundings() {
    let sum = float("%t = OpFAdd %float %a %b\n%r = OpFAdd %float %t %c");
    let tree = float("%t = OpFAdd %float %b %c\n%r = OpFAdd %float %a %t");
    let narrow = float(
        "%t = OpFAdd %float %a %b\n%h = OpFConvert %half %t\n%w = OpFConvert %float %h\n%r = OpFAdd %float %w %c",
    );
    let twice = float(
        "%t = OpFAdd %float %a %b\n%h = OpFConvert %half %t\n%w = OpFConvert %float %h\n%h2 = OpFConvert %half %w\n\
         %w2 = OpFConvert %float %h2\n%r = OpFAdd %float %w2 %c",
    );
    is_proved(REALS, &sum, &tree);
    is_proved(REALS, &sum, &narrow);
    is_proved(Arithmetic::Rounding, &sum, &tree);
    is_open(Arithmetic::Rounding, &sum, &narrow, "agree on the case's data");
    is_proved(Arithmetic::Rounding, &narrow, &twice);
    is_open(Arithmetic::Strict, &sum, &tree, "agree on the case's data");
    is_proved(Arithmetic::Strict, &sum, &float("%t = OpFAdd %float %b %a\n%r = OpFAdd %float %c %t"));
    is_proved(
        Arithmetic::Strict,
        &float("%r = OpFSub %float %a %b"),
        &float("%n = OpFNegate %float %b\n%r = OpFAdd %float %n %a"),
    );
}

/// A refutation says what is wrong where that is simple.
#[test]
fn refutations_are_explained() {
    let sum = "%x = OpFMul %float %a %b\n%y = OpFMul %float %b %c\n%r = OpFAdd %float %x %y";
    let swapped = "%x = OpFMul %float %a %b\n%y = OpFMul %float %a %c\n%r = OpFAdd %float %x %y";
    for (one, other, said) in [
        (sum, "%r = OpFMul %float %b %c", "D[0]: F[0] * F[1] is missing from the sum"),
        ("%r = OpFMul %float %b %c", sum, "D[0]: F[0] * F[1] is too much in the sum"),
        (sum, swapped, "D[0]: F[2] is multiplied by F[0] instead of F[1]"),
        (sum, "%r = OpFMul %float %a %a", "differ, the first is D[0]"),
        ("%r = OpFAdd %float %a %b", "%t = OpFAdd %float %a %b\n%r = OpFMul %float %t %two", "stores it times 2"),
        ("%r = OpFAdd %float %a %b", "%r = OpCopyObject %float %a", "F[1] is missing from the sum"),
    ] {
        let verdict = proof(REALS, &float(one), &float(other)).verdict;
        assert!(matches!(&verdict, Verdict::Refuted(why) if why.contains(said)), "{verdict:?}, not {said}");
    }
    let product = "%r = OpIMul %uint %i %j";
    let more = "%t = OpIMul %uint %i %j\n%r = OpIAdd %uint %t %k";
    let verdict = proof(REALS, &integer(product), &integer(more)).verdict;
    assert!(matches!(&verdict, Verdict::Refuted(why) if why.contains("I[2] is too much in the sum")), "{verdict:?}");
}

/// Conversions that saturate or round in another way are other functions.
#[test]
fn kinds_of_conversions_are_told_apart() {
    let decorated = |decoration: &str| {
        let head = HEAD.replace("%void = OpTypeVoid", &format!("OpDecorate %h {decoration}\n%void = OpTypeVoid"));
        let text = format!(
            "{head}%h = OpFConvert %half %a\n%r = OpFConvert %float %h\nOpStore %pd %r\nOpReturn\nOpFunctionEnd\n"
        );
        coop_ir::text::parse(&text).unwrap_or_else(|error| panic!("{error}"))
    };
    let plain = module(&float("%h = OpFConvert %half %a\n%r = OpFConvert %float %h"));
    let case = Case::parse(CASE, Path::new("")).expect("the case parses");
    let compare = |arithmetic: Arithmetic, a: &Module, b: &Module| {
        let options = Options { arithmetic, seed: 1, fixed: Vec::new(), explain: true };
        prove(&Interpreted::default(), (a, &case), (b, &case), &options).expect("both run").verdict
    };
    let (zero, nearest) = (decorated("FPRoundingMode RTZ"), decorated("FPRoundingMode RTE"));
    assert_eq!(compare(Arithmetic::Rounding, &plain, &nearest), Verdict::Proved);
    assert_ne!(compare(Arithmetic::Rounding, &plain, &zero), Verdict::Proved);
    // Who says how a conversion rounds gets that: what leaves it open is no such conversion.
    assert_ne!(compare(Arithmetic::Rounding, &nearest, &plain), Verdict::Proved);
    assert_ne!(compare(Arithmetic::Rounding, &zero, &plain), Verdict::Proved);
    assert_eq!(compare(REALS, &plain, &zero), Verdict::Proved);
    // Real numbers are clamped where a conversion saturates.
    let clamped = decorated("SaturatedToLargestFloat8NormalConversionEXT");
    assert_ne!(compare(REALS, &plain, &clamped), Verdict::Proved);
    assert_ne!(compare(REALS, &clamped, &plain), Verdict::Proved);
}

/// An element of a buffer that holds two stored numbers is compared as a whole.
#[test]
fn all_parts_of_an_element_are_compared() {
    let case = CASE.replace(
        "type = \"f16\"\ncount = 8\nfill = { values = [1.5, -2.25, 3.125, 4.0, 5.0, 6.0, 7.0, 8.0] }",
        "type = \"u32\"\ncount = 4\nfill = { constant = 0 }",
    );
    let case = Case::parse(&case, Path::new("")).expect("the case parses");
    // Halves of words: the upper one is another number, of the same value for this data.
    let body = |upper: &str| {
        let load = |n: &str| format!("%q{n} = OpAccessChain %p_half %H %n0 %n{n}\n%h{n} = OpLoad %half %q{n}\n");
        let sum = format!("%s = OpFAdd %half %h4 %h4\n%t = OpFAdd %half {upper} {upper}");
        module(&format!("{}{}{sum}\nOpStore %ph0 %s\nOpStore %ph1 %t", load("4"), load("3")))
    };
    let options = Options { arithmetic: REALS, seed: 1, fixed: Vec::new(), explain: true };
    let (one, other) = (body("%h4"), body("%h3"));
    let verdict = |a: &Module, b: &Module| {
        prove(&Interpreted::default(), (a, &case), (b, &case), &options).expect("both run").verdict
    };
    assert_eq!(verdict(&one, &one), Verdict::Proved);
    assert!(matches!(verdict(&one, &other), Verdict::Refuted(_)), "{:?}", verdict(&one, &other));
}

/// Workgroups that store different terms in one place race, also if their values are the same for the data of the case.
#[test]
fn races_of_equal_values_are_found() {
    let case = CASE.replace("workgroups = [1, 1, 1]", "workgroups = [2, 1, 1]");
    let case = Case::parse(&case.replace("[1.5, -2.25, 3.125,", "[1.5, 1.5, 3.125,"), Path::new("")).expect("a case");
    let text = |index: &str| {
        let head = HEAD
            .replace("%main \"main\"", "%main \"main\" %group")
            .replace("%void = OpTypeVoid", "OpDecorate %group BuiltIn WorkgroupId\n%void = OpTypeVoid")
            .replace(
                "%main = OpFunction",
                "%uint3 = OpTypeVector %uint 3\n%p_uint3 = OpTypePointer Input %uint3\n\
                 %group = OpVariable %p_uint3 Input\n%main = OpFunction",
            );
        format!(
            "{head}%v = OpLoad %uint3 %group\n%x = OpCompositeExtract %uint %v 0\n\
             %pr = OpAccessChain %p_float %F %n0 {index}\n%r = OpLoad %float %pr\nOpStore %pd %r\nOpReturn\nOpFunctionEnd\n"
        )
    };
    let sides = [text("%n1"), text("%x")].map(|text| coop_ir::text::parse(&text).expect("a module"));
    let options = Options { arithmetic: REALS, seed: 1, fixed: Vec::new(), explain: true };
    let prove = |a: usize, b: usize| {
        prove(&Interpreted::default(), (&sides[a], &case), (&sides[b], &case), &options).expect("both run").verdict
    };
    assert_eq!(prove(0, 0), Verdict::Proved);
    assert!(matches!(prove(0, 1), Verdict::Refuted(why) if why.contains("race") || why.contains("another workgroup")));
}

/// Invocations of a workgroup that store different terms in one place race, too.
#[test]
fn races_within_a_workgroup_are_found() {
    let case = Case::parse(&CASE.replace("[1.5, -2.25, 3.125,", "[1.5, 1.5, 3.125,"), Path::new("")).expect("a case");
    let text = |index: &str| {
        let head = HEAD
            .replace("LocalSize 1 1 1", "LocalSize 2 1 1")
            .replace("%main \"main\"", "%main \"main\" %local")
            .replace("%void = OpTypeVoid", "OpDecorate %local BuiltIn LocalInvocationIndex\n%void = OpTypeVoid")
            .replace(
                "%main = OpFunction",
                "%in_uint = OpTypePointer Input %uint\n%local = OpVariable %in_uint Input\n%main = OpFunction",
            );
        format!(
            "{head}%x = OpLoad %uint %local\n%pr = OpAccessChain %p_float %F %n0 {index}\n%r = OpLoad %float %pr\n\
             OpStore %pd %r\nOpReturn\nOpFunctionEnd\n"
        )
    };
    let sides = [text("%n1"), text("%x")].map(|text| coop_ir::text::parse(&text).expect("a module"));
    let options = Options { arithmetic: REALS, seed: 1, fixed: Vec::new(), explain: true };
    let prove = |a: usize, b: usize| {
        prove(&Interpreted::default(), (&sides[a], &case), (&sides[b], &case), &options).expect("both run").verdict
    };
    assert_eq!(prove(0, 0), Verdict::Proved);
    assert!(matches!(prove(0, 1), Verdict::Refuted(why) if why.contains("no barrier")));
}

/// A component that is replaced where nobody knows is not known, nor are the others.
#[test]
fn an_unknown_index_into_a_vector_proves_nothing() {
    // The index is a quotient that no rule knows; the value it has here replaces the first component.
    let body = |component: u32| {
        format!(
            "%s = OpExtInst %float %glsl Modf %a %whole\n%v = OpCompositeConstruct %float2 %a %b\n\
             %ix = OpConvertFToU %uint %s\n%m = OpUMod %uint %ix %n2\n\
             %w = OpVectorInsertDynamic %float2 %v %c %m\n%r = OpCompositeExtract %float %w {component}"
        )
        .replace("%s = OpExtInst %float %glsl Modf %a %whole\n", "%s = OpExtInst %float %glsl Sin %a\n")
    };
    let plain = "%r = OpCopyObject %float %b";
    is_not_proved(&float(&body(1)), &float(plain));
    is_not_proved(&float(plain), &float(&body(1)));
}

/// Of a group whose sum is compared, any element may be the one that is stored.
#[test]
fn sums_of_groups_are_compared_wherever_they_are_stored() {
    let d = "name = \"D\"\nbinding = 3\ntype = \"f32\"\ncount = 8\nfill = { constant = 0 }\ntolerance = { sums-of = 2, abs = 1e9 }";
    let case = CASE.replace("name = \"D\"\nbinding = 3\ntype = \"f32\"\ncount = 8\nfill = { constant = 99 }", d);
    let case = Case::parse(&case, Path::new("")).expect("the case parses");
    let options = Options { arithmetic: REALS, seed: 1, fixed: vec!["D".to_owned()], explain: true };
    let store = |value: &str, at: &str| {
        module(&format!("%q = OpAccessChain %p_float %D %n0 {at}\n%r = OpFAdd %float {value} {value}\nOpStore %q %r"))
    };
    let verdict = |a: &Module, b: &Module| {
        prove(&Interpreted::default(), (a, &case), (b, &case), &options).expect("both run").verdict
    };
    assert_eq!(verdict(&store("%a", "%n1"), &store("%a", "%n0")), Verdict::Proved);
    assert_ne!(verdict(&store("%a", "%n1"), &store("%b", "%n1")), Verdict::Proved);
    // A sum that does not depend on data is one, too.
    let [one, two] = ["%one", "%two"].map(|value| store(value, "%n1"));
    assert!(matches!(verdict(&store("%a", "%n1"), &one), Verdict::Refuted(_)));
    assert!(matches!(verdict(&one, &store("%a", "%n1")), Verdict::Refuted(_)));
    assert_eq!(verdict(&one, &one), Verdict::Proved);
    // What is not stored is what the buffer held.
    let options = Options { fixed: Vec::new(), ..options.clone() };
    let verdict = |a: &Module, b: &Module| {
        prove(&Interpreted::default(), (a, &case), (b, &case), &options).expect("both run").verdict
    };
    assert!(matches!(verdict(&store("%a", "%n1"), &module("")), Verdict::Refuted(_)));
    assert_ne!(verdict(&one, &two), Verdict::Proved);
}
