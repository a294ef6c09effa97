//! Compares arithmetic with the host's, on random and special values.

use coop_ir::Op;
use coop_ir::spv::GlslStd450 as Glsl;

use super::code::{Conv, Ins, LaneFn};
use super::eval;
use super::num::{Num, mask, signed};
use super::registers::Regs;
use crate::random::Random;

/// Returns interesting bits: zeros, ones, limits, NaN and infinities of every format, and random ones.
fn samples(width: u32, count: usize) -> Vec<u64> {
    let mut random = Random::new(u64::from(width));
    let top = 1u64 << (width - 1);
    let special =
        [0, 1, 2, 3, top, top - 1, top + 1, u64::MAX, u64::MAX - 1, 0x3c00, 0x7c00, 0xfc00, 0x7e00, 0x3f80_0000];
    let more = [0x7f80_0000, 0xff80_0000, 0x7fc0_0000, 0x3ff0_0000_0000_0000, 0x7ff0_0000_0000_0000, 0x4b00_0000];
    let fixed = special.into_iter().chain(more).map(|v| mask(v, width));
    let mut all: Vec<u64> = fixed.collect();
    all.extend((0..count).map(|_| mask(random.bits(), width)));
    all
}

/// Runs a two-operand instruction on every pair.
fn binary(op: Op, num: Num, values: &[u64]) -> Vec<(u64, u64, u64)> {
    let mut out = Vec::new();
    for a in values {
        let lanes = values.len();
        let mut regs = Regs::new(lanes, 3);
        regs.fill(0, *a, false);
        for (lane, b) in values.iter().enumerate() {
            regs.put(1, lane, *b);
        }
        assert!(eval::execute(&mut regs, &Ins::Each { op, num, dst: 2, args: [0, 1, 0, 0], n: 1 }), "{op}");
        out.extend(values.iter().enumerate().map(|(lane, b)| (*a, *b, regs.get(2, lane))));
    }
    out
}

fn one(ins: impl Fn(u32, u32) -> Ins, args: &[u64], n: u32) -> Vec<u64> {
    let mut regs = Regs::new(1, args.len() + n as usize);
    for (row, v) in args.iter().enumerate() {
        regs.fill(row as u32, *v, false);
    }
    let dst = args.len() as u32;
    assert!(eval::execute(&mut regs, &ins(dst, n)));
    (dst..dst + n).map(|row| regs.get(row, 0)).collect()
}

macro_rules! integers {
    ($unsigned:ty, $signed:ty, $width:expr) => {
        let num = Num::Int { width: $width, signed: false };
        let values = samples($width, 60);
        let cases: &[(Op, fn($unsigned, $unsigned) -> Option<u64>)] = &[
            (Op::IAdd, |a, b| Some(u64::from(a.wrapping_add(b)))),
            (Op::ISub, |a, b| Some(u64::from(a.wrapping_sub(b)))),
            (Op::IMul, |a, b| Some(u64::from(a.wrapping_mul(b)))),
            (Op::UDiv, |a, b| a.checked_div(b).map(u64::from)),
            (Op::UMod, |a, b| a.checked_rem(b).map(u64::from)),
            (Op::SDiv, |a, b| (b != 0).then(|| u64::from((a as $signed).wrapping_div(b as $signed) as $unsigned))),
            (Op::SRem, |a, b| (b != 0).then(|| u64::from((a as $signed).wrapping_rem(b as $signed) as $unsigned))),
            (Op::SLessThan, |a, b| Some(u64::from((a as $signed) < (b as $signed)))),
            (Op::SGreaterThanEqual, |a, b| Some(u64::from((a as $signed) >= (b as $signed)))),
            (Op::ULessThan, |a, b| Some(u64::from(a < b))),
            (Op::BitwiseXor, |a, b| Some(u64::from(a ^ b))),
            (Op::ShiftLeftLogical, |a, b| a.checked_shl(u32::try_from(b).ok()?).map(u64::from)),
            (Op::ShiftRightLogical, |a, b| a.checked_shr(u32::try_from(b).ok()?).map(u64::from)),
            (Op::ShiftRightArithmetic, |a, b| {
                (a as $signed).checked_shr(u32::try_from(b).ok()?).map(|v| u64::from(v as $unsigned))
            }),
        ];
        for (op, host) in cases {
            for (a, b, got) in binary(*op, num, &values) {
                if let Some(wanted) = host(a as $unsigned, b as $unsigned) {
                    assert_eq!(got, wanted, "{op} on {a:#x} and {b:#x}, {} bits", $width);
                }
            }
        }
        for v in values {
            let unary = |op| one(|dst, n| Ins::Each { op, num, dst, args: [0; 4], n }, &[v], 1)[0];
            assert_eq!(unary(Op::BitReverse), u64::from((v as $unsigned).reverse_bits()));
            assert_eq!(unary(Op::BitCount), u64::from((v as $unsigned).count_ones()));
            assert_eq!(unary(Op::SNegate), u64::from((v as $unsigned).wrapping_neg()));
            assert_eq!(unary(Op::Not), u64::from(!(v as $unsigned)));
        }
    };
}

#[test]
fn integers_of_every_width() {
    integers!(u8, i8, 8);
    integers!(u16, i16, 16);
    integers!(u32, i32, 32);
    integers!(u64, i64, 64);
}

#[test]
fn modulo_takes_the_sign_of_the_divisor() {
    for (a, b, wanted) in [(7i64, 3i64, 1i64), (-7, 3, 2), (7, -3, -2), (-7, -3, -1), (6, -3, 0)] {
        let got = eval::divided(Op::SMod, 32, mask(a as u64, 32), mask(b as u64, 32));
        assert_eq!(signed(got, 32), wanted, "{a} mod {b}");
    }
}

/// Returns true if the values are equal or both NaN.
fn same(num: Num, a: u64, b: u64) -> bool {
    a == b || (num.to_f64(a).is_nan() && num.to_f64(b).is_nan())
}

#[test]
fn floats() {
    let values = samples(32, 80);
    for (op, host) in [
        (Op::FAdd, (|a, b| a + b) as fn(f32, f32) -> f32),
        (Op::FSub, |a, b| a - b),
        (Op::FMul, |a, b| a * b),
        (Op::FDiv, |a, b| a / b),
        (Op::FRem, |a, b| a % b),
    ] {
        for (a, b, got) in binary(op, Num::F32, &values) {
            let wanted = host(f32::from_bits(a as u32), f32::from_bits(b as u32));
            assert!(same(Num::F32, got, wanted.to_bits().into()), "{op} on {a:#x} and {b:#x}: {got:#x}");
        }
    }
    let values = samples(16, 120);
    for (op, host) in [
        (Op::FAdd, (|a, b| a + b) as fn(f64, f64) -> f64),
        (Op::FSub, |a, b| a - b),
        (Op::FMul, |a, b| a * b),
        (Op::FDiv, |a, b| a / b),
    ] {
        for num in [Num::F16, Num::Bf16] {
            for (a, b, got) in binary(op, num, &values) {
                // The exact result, or one with 53 bits of it, rounded once more: enough for 11 and 8 bits.
                let wanted = num.encode_f64(host(num.to_f64(a), num.to_f64(b)));
                assert!(same(num, got, wanted), "{num:?} {op} on {a:#x} and {b:#x}: {got:#x}, not {wanted:#x}");
            }
        }
    }
}

#[test]
fn comparisons_with_nan() {
    let nan = u64::from(f32::NAN.to_bits());
    let unity = u64::from(1f32.to_bits());
    for (op, wanted) in [
        (Op::FOrdEqual, 0),
        (Op::FUnordEqual, 1),
        (Op::FOrdNotEqual, 0),
        (Op::FUnordNotEqual, 1),
        (Op::FOrdLessThan, 0),
        (Op::FUnordLessThan, 1),
        (Op::FOrdGreaterThanEqual, 0),
        (Op::FUnordGreaterThanEqual, 1),
        (Op::Ordered, 0),
        (Op::Unordered, 1),
    ] {
        let got = one(|dst, n| Ins::Each { op, num: Num::F32, dst, args: [0, 1, 0, 0], n }, &[nan, unity], 1);
        assert_eq!(got, [wanted], "{op}");
    }
}

#[test]
fn fused_multiply_add_of_halves_rounds_once() {
    let mut random = Random::new(3);
    for _ in 0..100_000 {
        let [a, b, c] = [0; 3].map(|_| random.bits() & 0xffff);
        let got = super::num::fma(Num::F16, a, b, c);
        let mut sum = super::num::Sum::new();
        sum.add_product(Num::F16.to_f64(a), Num::F16.to_f64(b));
        sum.add(Num::F16.to_f64(c));
        let wanted = sum.round(Num::F16, super::num::Rounding::NearestEven);
        assert!(same(Num::F16, got, wanted), "{a:#x} {b:#x} {c:#x}: {got:#x}, not {wanted:#x}");
    }
}

#[test]
fn conversions() {
    let convert = |op, from, to, v| eval::convert(&Conv { op, from, to, saturate: false, mode: None }, v);
    let int = |width, signed| Num::Int { width, signed };
    for v in samples(32, 500) {
        let f = f32::from_bits(v as u32);
        assert_eq!(convert(Op::ConvertSToF, int(32, true), Num::F32, v), u64::from((v as i32 as f32).to_bits()));
        assert_eq!(convert(Op::ConvertUToF, int(32, false), Num::F32, v), u64::from((v as u32 as f32).to_bits()));
        assert_eq!(convert(Op::ConvertSToF, int(32, true), Num::F64, v), (v as i32 as f64).to_bits());
        assert_eq!(convert(Op::ConvertFToS, Num::F32, int(32, true), v), u64::from(f as i32 as u32));
        assert_eq!(convert(Op::ConvertFToU, Num::F32, int(32, false), v), u64::from(f as u32));
        assert_eq!(convert(Op::ConvertFToS, Num::F32, int(8, true), v), u64::from(f as i8 as u8));
        assert_eq!(convert(Op::SConvert, int(32, true), int(64, true), v), v as i32 as i64 as u64);
        assert_eq!(convert(Op::UConvert, int(32, false), int(8, false), v), v & 0xff);
        let half = convert(Op::FConvert, Num::F32, Num::F16, v);
        assert!(same(Num::F16, half, half::f16::from_f32(f).to_bits().into()), "{f:e}");
    }
    for v in samples(64, 500) {
        assert_eq!(convert(Op::ConvertUToF, int(64, false), Num::F32, v), u64::from((v as f32).to_bits()));
        assert_eq!(convert(Op::ConvertSToF, int(64, true), Num::F64, v), (v as i64 as f64).to_bits());
        let got = convert(Op::FConvert, Num::F64, Num::F32, v);
        assert!(same(Num::F32, got, u64::from((f64::from_bits(v) as f32).to_bits())), "{v:#x}");
    }
    let saturated = |op, from, to, v| eval::convert(&Conv { op, from, to, saturate: true, mode: None }, v);
    for v in samples(32, 500) {
        let i = v as i32;
        let clamped = i.clamp(i8::MIN.into(), i8::MAX.into()) as i8;
        assert_eq!(saturated(Op::SConvert, int(32, true), int(8, true), v), u64::from(clamped as u8));
        assert_eq!(saturated(Op::UConvert, int(32, false), int(8, false), v), v.min(255));
        let f = f32::from_bits(v as u32);
        assert_eq!(saturated(Op::ConvertFToU, Num::F32, int(8, false), v), u64::from(f as u8));
    }
    let saturating = Conv { op: Op::FConvert, from: Num::F32, to: Num::E4M3, saturate: true, mode: None };
    assert_eq!(eval::convert(&saturating, 1e6f32.to_bits().into()), 0x7e);
    assert_eq!(eval::convert(&saturating, (-1e6f32).to_bits().into()), 0xfe);
}

#[test]
fn integer_dot_products() {
    let word = |bytes: [i8; 4]| u64::from(u32::from_le_bytes(bytes.map(|b| b as u8)));
    let (a, b) = (word([1, -2, 127, -128]), word([5, 6, 127, -128]));
    let packed = |signed: [bool; 2], args: &[u64]| {
        let accumulate = args.len() == 3;
        let num = Num::Int { width: 32, signed: true };
        let f = || LaneFn::IntDot { a: num, b: num, to: num, packed: true, signed, accumulate };
        let rows: Box<[(u32, u32)]> = (0..args.len() as u32).map(|r| (r, 1)).collect();
        one(|dst, n| Ins::Lane { f: f(), dst, n, args: rows.clone() }, args, 1)[0] as u32
    };
    assert_eq!(packed([true, true], &[a, b]) as i32, 5 - 12 + 127 * 127 + 128 * 128);
    assert_eq!(packed([false, false], &[a, b]), 5 + 254 * 6 + 127 * 127 + 128 * 128);
    assert_eq!(packed([true, false], &[a, b]) as i32, 5 - 12 + 127 * 127 - 128 * 128);
    assert_eq!(packed([true, true], &[a, b, 0x7fff_ffff]), 0x7fff_ffff);
    assert_eq!(packed([false, false], &[a, b, 0xffff_ffff]), 0xffff_ffff);
}

#[test]
fn bit_fields_and_packing() {
    let num = Num::U32;
    let field = |op, args: &[u64]| {
        let mut rows = [0, 1, 2, 3];
        rows[args.len().min(3)..].fill(0);
        if args.len() == 4 {
            rows = [0, 1, 2, 3];
        }
        one(|dst, n| Ins::Each { op, num, dst, args: rows, n }, args, 1)[0]
    };
    assert_eq!(field(Op::BitFieldUExtract, &[0xdead_beef, 8, 12]), 0xdbe);
    assert_eq!(field(Op::BitFieldSExtract, &[0xdead_beef, 8, 12]), 0xffff_fdbe);
    assert_eq!(field(Op::BitFieldInsert, &[0xdead_beef, 0x123, 4, 8]), 0xdead_b23f);
    assert_eq!(field(Op::BitFieldUExtract, &[0xdead_beef, 0, 32]), 0xdead_beef);
    let pack = |op, args: &[u64], n| {
        let rows: Box<[(u32, u32)]> = [(0, args.len() as u32)].into();
        one(|dst, n| Ins::Lane { f: LaneFn::Glsl { op, num: Num::F32 }, dst, n, args: rows.clone() }, args, n)
    };
    let bits = |v: f32| u64::from(v.to_bits());
    assert_eq!(pack(Glsl::PackHalf2x16, &[bits(1.0), bits(-2.0)], 1), [0xc000_3c00]);
    assert_eq!(pack(Glsl::UnpackHalf2x16, &[0xc000_3c00], 2), [bits(1.0), bits(-2.0)]);
    assert_eq!(pack(Glsl::PackUnorm4x8, &[bits(0.0), bits(1.0), bits(0.5), bits(2.0)], 1), [0xff80_ff00]);
    assert_eq!(pack(Glsl::PackSnorm2x16, &[bits(-1.0), bits(0.5)], 1), [0x4000_8001]);
    assert_eq!(pack(Glsl::Length, &[bits(3.0), bits(4.0)], 1), [bits(5.0)]);
}
