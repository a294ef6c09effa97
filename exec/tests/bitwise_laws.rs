//! Operations on bits of data: `and`, `or` and `xor` go in any order and grouping, and a division without sign in any width; by a
//! power of two it is a shift.

mod proof_common;
mod proof_head;

use coop_exec::interp::Arithmetic;
use coop_exec::proof::Verdict;
use coop_exec::random::Random;
use proof_head::{CASE, HEAD, PAIRS};

/// Returns a body that combines some of the integers in a random tree and stores the result.
fn tree(random: &mut Random, op: &str, of: &[&str]) -> String {
    let mut left: Vec<String> = of.iter().map(|name| (*name).to_owned()).collect();
    let mut body = String::new();
    let mut step = 0;
    loop {
        let mut draw = |n: usize| random.integer(0, n as i64 - 1) as usize;
        let a = left.remove(draw(left.len()));
        if left.is_empty() {
            return format!("{body}OpStore %pe {a}");
        }
        let at = draw(left.len());
        body += &format!("%t{step} = {op} %uint {a} {}\n", left[at]);
        left[at] = format!("%t{step}");
        step += 1;
    }
}

fn is_proved(one: &str, other: &str) -> bool {
    PAIRS.proof(Arithmetic::Reals, one, other).verdict == Verdict::Proved
}

#[test]
fn order_and_grouping_do_not_matter() {
    let mut random = Random::new(51);
    assert!(HEAD.contains("%k = OpLoad") && CASE.contains("u32"));
    for _ in 0..12 {
        for op in ["OpBitwiseAnd", "OpBitwiseOr", "OpBitwiseXor"] {
            let mut body = |of: &[&str]| tree(&mut random, op, of);
            let all = body(&["%i", "%j", "%k"]);
            assert!(is_proved(&all, &body(&["%k", "%i", "%j"])), "{all}");
            // One operand twice: it counts once, or not at all.
            let twice = body(&["%i", "%j", "%k", "%j"]);
            let wanted = if op == "OpBitwiseXor" { body(&["%k", "%i"]) } else { all.clone() };
            assert!(is_proved(&wanted, &twice), "{twice}");
            let thrice = body(&["%i", "%j", "%j", "%k", "%j"]);
            assert!(is_proved(&all, &thrice), "{thrice}");
            // What lacks an operand, or has another operation, is no proof.
            for wrong in [body(&["%i", "%k"]), all.replacen(op, "OpIAdd", 1)] {
                assert!(!is_proved(&all, &wrong) && !is_proved(&wrong, &all), "{all}\nand\n{wrong}");
            }
            let even = body(&["%i", "%j", "%j", "%k"]);
            assert_eq!(is_proved(&all, &even), op != "OpBitwiseXor", "{even}");
        }
    }
    // Everything cancels.
    let none = tree(&mut random, "OpBitwiseXor", &["%i", "%j", "%j", "%i"]);
    assert!(is_proved("%z = OpISub %uint %k %k\nOpStore %pe %z", &none), "{none}");
}

#[test]
fn divisions_are_the_same_in_any_width() {
    let narrow = |op: &str| {
        format!(
            "%x = OpUConvert %byte %i\n%y = OpUConvert %byte %j\n%o = OpUConvert %byte %n1\n%z = OpBitwiseOr %byte %y %o\n\
             %q = {op} %byte %x %z\n%r = OpUConvert %uint %q\nOpStore %pe %r"
        )
    };
    let wide = |op: &str, mask: &str| {
        format!(
            "%x = OpUConvert %byte %i\n%y = OpUConvert %byte %j\n%p = {mask} %uint %x\n%s = OpUConvert %uint %y\n\
             %z = OpBitwiseOr %uint %s %n1\n%r = {op} %uint %p %z\nOpStore %pe %r"
        )
    };
    for (op, other) in [("OpUDiv", "OpUMod"), ("OpUMod", "OpUDiv")] {
        assert!(is_proved(&narrow(op), &wide(op, "OpUConvert")), "{op}");
        assert!(!is_proved(&narrow(op), &wide(other, "OpUConvert")), "{op}");
        // A number whose sign was extended is another one.
        assert!(!is_proved(&narrow(op), &wide(op, "OpSConvert")), "{op}");
    }
}

#[test]
fn divisions_by_powers_of_two_take_bits() {
    let body = |line: &str| format!("%r = {line}\nOpStore %pe %r");
    let four = "%n4 = OpIAdd %uint %n2 %n2\n%n3 = OpIAdd %uint %n1 %n2\n";
    let of_four = |line: &str| format!("{four}{}", body(line));
    let quotient = of_four("OpUDiv %uint %i %n4");
    assert!(is_proved(&quotient, &body("OpShiftRightLogical %uint %i %n2")));
    assert!(!is_proved(&quotient, &body("OpShiftRightLogical %uint %i %n1")));
    assert!(!is_proved(&quotient, &body("OpShiftRightArithmetic %uint %i %n2")));
    let rest = of_four("OpUMod %uint %i %n4");
    assert!(is_proved(&rest, &of_four("OpBitwiseAnd %uint %i %n3")));
    assert!(!is_proved(&rest, &of_four("OpBitwiseAnd %uint %i %n2")));
    assert!(is_proved(&body("OpUMod %uint %i %n1"), "%z = OpISub %uint %k %k\nOpStore %pe %z"));
    assert!(is_proved(&body("OpUDiv %uint %i %n1"), "OpStore %pe %i"));
}

/// A sum with nothing is its other operand, in whatever width and whatever function made that. That the dividends are equal is known
/// modulo 2^16 only.
#[test]
fn a_quotient_and_nothing_is_the_quotient() {
    let quotient = |square: &str| {
        format!(
            "%x = OpUConvert %short %i\n%y = OpUConvert %short %j\n%o = OpUConvert %short %n1\n{square}\n\
             %z = OpBitwiseOr %short %y %o\n%q = OpSDiv %short %s %z\n"
        )
    };
    let narrow = |term: &str| {
        format!(
            "{}%w = OpISub %short {term} %x\n%t = OpIAdd %short %q %w\n%r = OpUConvert %uint %t\nOpStore %pe %r",
            quotient("%s = OpIMul %short %x %x")
        )
    };
    let wide = "%w = OpISub %uint %k %k\n%v = OpSConvert %uint %q\n%t = OpIAdd %uint %v %w\n\
                %u = OpUConvert %short %t\n%r = OpUConvert %uint %u\nOpStore %pe %r";
    let wide = format!("{}{wide}", quotient("%all = OpIMul %uint %i %i\n%s = OpUConvert %short %all"));
    assert!(is_proved(&narrow("%x"), &wide));
    assert!(!is_proved(&narrow("%y"), &wide));
}
