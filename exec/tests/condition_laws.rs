//! Choices by bits and integers that do not wrap: both are polynomials.

mod proof_common;
mod proof_head;

use coop_exec::interp::Arithmetic;
use coop_exec::proof::Verdict;
use proof_head::{CASE, HEAD, PAIRS};

fn verdict(one: &str, other: &str) -> Verdict {
    assert!(HEAD.contains("%n15") && CASE.contains("u32"));
    PAIRS.proof(Arithmetic::Reals, one, other).verdict
}

fn is_proved(one: &str, other: &str) -> bool {
    verdict(one, other) == Verdict::Proved
}

#[test]
fn a_choice_by_a_bit_is_a_polynomial() {
    let choice = |bits: &str, comparison: &str, values: &str| {
        format!("%t = {bits}\n%c = {comparison}\n%r = OpSelect %float %c {values}\nOpStore %pd %r")
    };
    let second = "OpBitwiseAnd %uint %i %n2";
    let right = choice(second, "OpINotEqual %bool %t %n0", "%a %b");
    for same in [
        choice(second, "OpINotEqual %bool %n0 %t", "%a %b"),
        choice(second, "OpIEqual %bool %t %n2", "%a %b"),
        choice(second, "OpIEqual %bool %t %n0", "%b %a"),
        choice(second, "OpINotEqual %bool %t %n2", "%b %a"),
        choice("OpBitFieldUExtract %uint %i %n1 %n1", "OpIEqual %bool %t %n1", "%a %b"),
    ] {
        assert!(is_proved(&right, &same), "{same}");
    }
    for other in [
        choice(second, "OpINotEqual %bool %t %n0", "%b %a"),
        choice(second, "OpIEqual %bool %t %n1", "%a %b"),
        choice("OpBitwiseAnd %uint %i %n1", "OpINotEqual %bool %t %n0", "%a %b"),
        choice("OpBitwiseAnd %uint %i %n3", "OpINotEqual %bool %t %n0", "%a %b"),
        choice("OpBitwiseAnd %uint %j %n2", "OpINotEqual %bool %t %n0", "%a %b"),
    ] {
        assert!(!is_proved(&right, &other), "{other}");
    }
    let sum = "%t = OpBitFieldUExtract %uint %i %n1 %n1\n%x = OpConvertUToF %float %t\n%y = OpFSub %float %a %b\n\
               %z = OpFMul %float %x %y\n%r = OpFAdd %float %b %z\nOpStore %pd %r";
    assert!(is_proved(&right, sum));
    assert!(is_proved(sum, &right));
    assert!(!is_proved(&right, &sum.replace("FAdd %float %b", "FAdd %float %a")));
    // Among numbers that round they are not the same.
    assert_ne!(PAIRS.proof(Arithmetic::Strict, &right, sum).verdict, Verdict::Proved);
}

/// A bit and its square are one number and two polynomials.
#[test]
fn squares_of_bits_are_not_refuted() {
    let float =
        |lines: &str| format!("%t = OpBitwiseAnd %uint %i %n1\n{lines}\n%r = OpConvertUToF %float %u\nOpStore %pd %r");
    let verdict = verdict(&float("%u = OpIMul %uint %t %t"), &float("%u = OpCopyObject %uint %t"));
    assert!(!matches!(verdict, Verdict::Refuted(_)), "{verdict:?}");
}

#[test]
fn integers_that_do_not_wrap_are_floats() {
    let integers = |of: &str, op: &str, y: &str, conversion: &str| {
        format!(
            "%x = {of}\n%y = OpBitwiseAnd %uint %j %n15\n%t = {op} %uint %x {y}\n%r = {conversion} %float %t\nOpStore %pd %r"
        )
    };
    let floats = |of: &str, op: &str, y: &str| {
        format!(
            "%x = {of}\n%y = OpBitwiseAnd %uint %j %n15\n%f = OpConvertSToF %float %x\n%g = OpConvertSToF %float {y}\n\
             %r = {op} %float %f %g\nOpStore %pd %r"
        )
    };
    let (four, low) = ("OpBitwiseAnd %uint %i %n15", "OpBitFieldSExtract %uint %i %n0 %n16");
    for of in [four, low] {
        for (op, float) in [("OpIAdd", "OpFAdd"), ("OpISub", "OpFSub"), ("OpIMul", "OpFMul")] {
            for y in ["%y", "%n8"] {
                let (one, other) = (integers(of, op, y, "OpConvertSToF"), floats(of, float, y));
                assert!(is_proved(&one, &other) && is_proved(&other, &one), "{one}\nand\n{other}");
                let unsigned = integers(of, op, y, "OpConvertUToF");
                assert_eq!(is_proved(&unsigned, &other), of == four && op != "OpISub", "{unsigned}\nand\n{other}");
            }
        }
    }
    // These have not bits enough.
    let words = "OpCopyObject %uint %i";
    for (op, float) in [("OpIAdd", "OpFAdd"), ("OpISub", "OpFSub"), ("OpIMul", "OpFMul")] {
        assert!(!is_proved(&integers(words, op, "%n8", "OpConvertSToF"), &floats(words, float, "%n8")), "{op}");
    }
    let short = "%x = OpUConvert %short %i\n%y = OpUConvert %short %j\n%t = OpIAdd %short %x %y\n%s = OpSConvert %uint %t\n\
                 %r = OpConvertSToF %float %s\nOpStore %pd %r";
    let long = "%x = OpUConvert %short %i\n%y = OpUConvert %short %j\n%u = OpSConvert %uint %x\n%v = OpSConvert %uint %y\n\
                %s = OpIAdd %uint %u %v\n%r = OpConvertSToF %float %s\nOpStore %pd %r";
    assert!(!is_proved(short, long));
    // A sum of bytes in 16 bits is one in 32.
    let bytes = |text: &str| {
        text.replace("OpUConvert %short %i", "OpSConvert %short %bi")
            .replace("OpUConvert %short %j", "OpSConvert %short %bj")
    };
    let head = "%bi = OpUConvert %byte %i\n%bj = OpUConvert %byte %j\n";
    assert!(is_proved(&format!("{head}{}", bytes(short)), &format!("{head}{}", bytes(long))));
}

/// Decisions of the original by data are given in the lowered module: the proof is for such data. The other way round it is none.
#[test]
fn choices_follow_the_decisions_of_the_original() {
    let branch = "%t = OpBitwiseAnd %uint %i %n2\n%c = OpINotEqual %bool %t %n0\nOpSelectionMerge %end None\n\
                  OpBranchConditional %c %yes %no\n%yes = OpLabel\nOpBranch %end\n%no = OpLabel\nOpBranch %end\n%end = OpLabel\n\
                  %r = OpPhi %float %a %yes %b %no\nOpStore %pd %r";
    let choice = |comparison: &str, values: &str| {
        format!(
            "%t = OpBitFieldUExtract %uint %i %n1 %n1\n%c = {comparison}\n%r = OpSelect %float %c {values}\nOpStore %pd %r"
        )
    };
    let (is, is_not) = ("OpINotEqual %bool %t %n0", "OpIEqual %bool %t %n0");
    let proof = PAIRS.proof(Arithmetic::Reals, branch, &choice(is, "%a %b"));
    assert_eq!((proof.verdict, proof.decisions), (Verdict::Proved, 1));
    assert!(is_proved(branch, &choice(is_not, "%b %a")));
    assert!(!is_proved(branch, &choice(is, "%b %a")));
    assert!(!is_proved(branch, &choice("OpULessThan %bool %j %n2", "%a %b")));
    assert!(!is_proved(&choice(is, "%a %b"), branch));
}
