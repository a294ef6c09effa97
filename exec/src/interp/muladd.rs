//! The multiplication of cooperative matrices.

use super::MulAddMode;
use super::code::MulAdd;
use super::error_bound;
use super::findings::FindingKind;
use super::machine::{Machine, Scratch, Stop};
use super::num::{Num, Rounding, Sum, mask, round_tf32, signed, two_sum};
use super::symbolic::Multiplication;
use super::taint::Taint;

/// Bits of the Cooperative Matrix Operands.
mod operands {
    use coop_ir::spv::CooperativeMatrixOperands;

    pub(super) const SIGNED: [u32; 3] = [
        CooperativeMatrixOperands::MatrixASignedComponentsKHR.0,
        CooperativeMatrixOperands::MatrixBSignedComponentsKHR.0,
        CooperativeMatrixOperands::MatrixCSignedComponentsKHR.0,
    ];
    pub(super) const RESULT_SIGNED: u32 = CooperativeMatrixOperands::MatrixResultSignedComponentsKHR.0;
    pub(super) const SATURATING: u32 = CooperativeMatrixOperands::SaturatingAccumulationKHR.0;
    pub(super) const TF32: u32 = CooperativeMatrixOperands::MatrixAAndBTF32ComponentsINTEL.0;
    pub(super) const AB_BF16: u32 = CooperativeMatrixOperands::MatrixAAndBBFloat16ComponentsINTEL.0;
    pub(super) const C_BF16: u32 = CooperativeMatrixOperands::MatrixCBFloat16ComponentsINTEL.0;
    pub(super) const RESULT_BF16: u32 = CooperativeMatrixOperands::MatrixResultBFloat16ComponentsINTEL.0;
}

struct Shape {
    m: usize,
    n: usize,
    k: usize,
}

impl Machine<'_> {
    pub(super) fn mul_add(&mut self, i: &MulAdd) -> Result<(), Stop> {
        let p = self.p;
        let [Some(a), Some(b), Some(c)] = i.ty.map(|t| p.types.coop(t)) else { return Ok(()) };
        let Some(d) = p.types.coop(i.result) else { return Ok(()) };
        let shape = Shape { m: a.rows as usize, n: b.cols as usize, k: a.cols as usize };
        let fits = a.cols == b.rows
            && (c.rows, c.cols) == (a.rows, b.cols)
            && (d.rows, d.cols) == (a.rows, b.cols)
            && [b.scope, c.scope, d.scope] == [a.scope; 3];
        if !fits {
            let size = |x: &super::types::Coop| format!("{}x{}", x.rows, x.cols);
            let text = format!("A is {}, B {}, C {}, the result {}", size(a), size(b), size(c), size(d));
            self.find(FindingKind::MatrixSize, || text);
            return Ok(());
        }
        if i.operands >> 9 != 0 {
            return Err(self.unsupported(&format!("cooperative matrix operands {:#x}", i.operands)));
        }
        let bit = |b: u32| i.operands & b != 0;
        let bf16 = |num: Num, b: u32| if bit(b) && num.bits() == 16 { Num::Bf16 } else { num };
        let nums = [
            bf16(a.num, operands::AB_BF16),
            bf16(b.num, operands::AB_BF16),
            bf16(c.num, operands::C_BF16),
            bf16(d.num, operands::RESULT_BF16),
        ];
        let floats = nums.map(Num::is_float);
        if floats != [floats[0]; 4] {
            return Err(self.unsupported("integer and float matrices multiplied with each other"));
        }
        for range in self.matrix_instances(i.ty[0])? {
            let mut scratch = std::mem::take(&mut self.scratch);
            for (k, (values, taints)) in scratch.values.iter_mut().zip(&mut scratch.taint).enumerate() {
                self.gather(i.rows[k], i.ty[k], &range);
                std::mem::swap(values, &mut self.tile);
                std::mem::swap(taints, &mut self.tile_taint);
            }
            self.tile.clear();
            self.tile.resize(shape.m * shape.n, 0);
            if floats[0] {
                self.float(&mut scratch, &shape, nums, bit(operands::TF32));
            } else {
                self.integer(&scratch.values, &shape, nums, i);
            }
            propagate_taints(&scratch.taint, &shape, &mut self.tile_taint);
            if let Some(symbols) = &mut self.regs.symbols {
                let signed = signedness(i, nums);
                let (saturating, tf32) = (bit(operands::SATURATING), bit(operands::TF32));
                let Shape { n, k, .. } = shape;
                let (values, taints) = (&scratch.values, &scratch.taint);
                let product = Multiplication { values, taints, n, k, nums, signed, saturating, tf32 };
                symbols.multiply(&product, &mut self.tile_taint);
            }
            if floats[0] && self.config.error_bounds {
                self.set_error_bounds(&scratch, &shape, nums[3], bit(operands::TF32));
            }
            self.scratch = scratch;
            self.scatter(i.dst, i.result, &range);
        }
        Ok(())
    }

    fn float(&mut self, scratch: &mut Scratch, s: &Shape, nums: [Num; 4], tf32: bool) {
        let exact = |v: u64| if tf32 { round_tf32(v) } else { v };
        for (k, num) in nums.iter().enumerate().take(3) {
            let read = |v: &u64| num.to_f64(if k < 2 { exact(*v) } else { *v });
            scratch.floats[k].clear();
            if k == 1 {
                // B by columns, so that both factors are read in order.
                for n in 0..s.n {
                    scratch.floats[k].extend((0..s.k).map(|j| read(&scratch.values[k][j * s.n + n])));
                }
            } else {
                scratch.floats[k].extend(scratch.values[k].iter().map(read));
            }
        }
        let narrow = nums[0].bits() <= 32 && nums[1].bits() <= 32;
        for m in 0..s.m {
            let row = &scratch.floats[0][m * s.k..(m + 1) * s.k];
            for n in 0..s.n {
                let column = &scratch.floats[1][n * s.k..(n + 1) * s.k];
                let c = scratch.floats[2][m * s.n + n];
                self.tile[m * s.n + n] = match self.config.mul_add {
                    MulAddMode::Exact => exact_sum(row, column, c, nums[3], narrow, Rounding::NearestEven),
                    MulAddMode::Sequential => sequential(row, column, c, nums[3]),
                    MulAddMode::Lowest => extreme_sum(row, column, c, nums[3], Rounding::Down),
                    MulAddMode::Highest => extreme_sum(row, column, c, nums[3], Rounding::Up),
                };
            }
        }
    }

    /// Sets the error bound of each element of the product.
    fn set_error_bounds(&mut self, scratch: &Scratch, s: &Shape, to: Num, tf32: bool) {
        let by = |k: usize, i: usize| {
            let by = scratch.taint[k].get(i).map_or(0.0, |taint| taint.bound(true));
            if tf32 && k < 2 { error_bound::of_tf32(scratch.values[k][i], by) } else { by }
        };
        // `floats` has B by columns, the taints are by rows.
        let column = |n: usize| -> Vec<(f64, f64)> {
            (0..s.k).map(|k| (scratch.floats[1][n * s.k + k], by(1, k * s.n + n))).collect()
        };
        let columns: Vec<_> = (0..s.n).map(column).collect();
        self.tile_taint.resize(s.m * s.n, Taint::Exact);
        for m in 0..s.m {
            let row: Vec<(f64, f64)> = (0..s.k).map(|k| (scratch.floats[0][m * s.k + k], by(0, m * s.k + k))).collect();
            for (n, column) in columns.iter().enumerate() {
                let i = m * s.n + n;
                if !self.tile_taint[i].is_undefined() {
                    let c = (scratch.floats[2][i], by(2, i));
                    let mut by = error_bound::of_products(&row, column, c, to);
                    if to.to_f64(self.tile[i]) == 0.0 {
                        // Its sign is anybody's.
                        by = by.max(error_bound::quantum(to));
                    }
                    self.tile_taint[i] = Taint::inexact(by, true);
                }
            }
        }
    }

    fn integer(&mut self, v: &[Vec<u64>; 3], s: &Shape, nums: [Num; 4], i: &MulAdd) {
        let bit = |b: u32| i.operands & b != 0;
        let flags = signedness(i, nums);
        let w = nums[3].bits();
        let read = |k: usize, x: u64| {
            if flags[k] { i128::from(signed(x, nums[k].bits())) } else { i128::from(x) }
        };
        let (low, high) = if flags[3] { (-(1i128 << (w - 1)), (1i128 << (w - 1)) - 1) } else { (0, (1i128 << w) - 1) };
        let saturating = bit(operands::SATURATING);
        let mut overflow = None;
        for m in 0..s.m {
            for n in 0..s.n {
                let mut dot = 0i128;
                for k in 0..s.k {
                    let (x, y) = (read(0, v[0][m * s.k + k]), read(1, v[1][k * s.n + n]));
                    dot = dot.wrapping_add(x.wrapping_mul(y));
                }
                let c = read(2, v[2][m * s.n + n]);
                // Extended by its own bit to the width of the result, C is added as a number of the result's kind.
                let total = dot.wrapping_add(if saturating { of_width(c, w, flags[3]) } else { c });
                let out = |x: i128| x < low || x > high;
                if (saturating && out(dot)) || (i.nv1 && out(total)) {
                    overflow = Some((m, n, if saturating { dot } else { total }));
                }
                let r = if saturating { total.clamp(low, high) } else { total };
                self.tile[m * s.n + n] = mask(r as u64, w);
            }
        }
        if let Some((m, n, value)) = overflow {
            self.find(FindingKind::Undefined, || {
                format!("element ({m}, {n}) overflows: {value} is not between {low} and {high}")
            });
        }
    }
}

/// Returns the number that the lowest bits of another stand for.
fn of_width(v: i128, width: u32, is_signed: bool) -> i128 {
    let bits = mask(v as u64, width);
    if is_signed { i128::from(signed(bits, width)) } else { i128::from(bits) }
}

/// Returns for each of A, B, C and the result whether integers are signed.
fn signedness(i: &MulAdd, nums: [Num; 4]) -> [bool; 4] {
    let bit = |b: u32| i.operands & b != 0;
    [0, 1, 2, 3].map(|k| match nums[k] {
        Num::Int { signed, .. } if i.nv1 => signed,
        _ if k == 3 => bit(operands::RESULT_SIGNED),
        _ => bit(operands::SIGNED[k]),
    })
}

/// Returns the sum of the products and `c`, rounded once.
fn exact_sum(a: &[f64], b: &[f64], c: f64, to: Num, narrow: bool, mode: Rounding) -> u64 {
    if narrow {
        let (mut sum, mut exact) = (0.0, true);
        for (x, y) in a.iter().zip(b) {
            let (s, lost) = two_sum(sum, x * y);
            sum = s;
            exact &= lost == 0.0;
        }
        let (s, lost) = two_sum(sum, c);
        // A sum of zeros has a sign that only the slow way gets right.
        if exact && lost == 0.0 && s != 0.0 {
            return to.round_fast(s, mode);
        }
    }
    let mut sum = Sum::new();
    for (x, y) in a.iter().zip(b) {
        sum.add_product(*x, *y);
    }
    sum.add(c);
    sum.round(to, mode)
}

/// Adds one product after the other in f32 (f64 for results that wide).
fn sequential(a: &[f64], b: &[f64], c: f64, to: Num) -> u64 {
    if to == Num::F64 {
        return a.iter().zip(b).fold(c, |acc, (x, y)| acc + x * y).to_bits();
    }
    let sum = a.iter().zip(b).fold(c as f32, |acc, (x, y)| acc + (x * y) as f32);
    to.encode_f32(sum)
}

/// Returns the lowest or highest result of any order of the sum and any rounding of its steps in the precision of the
/// result.
fn extreme_sum(a: &[f64], b: &[f64], c: f64, to: Num, mode: Rounding) -> u64 {
    let mut sum = Sum::new();
    for (x, y) in a.iter().zip(b) {
        sum.add_product(*x, *y);
    }
    sum.add(c);
    let error = error_bound::of_sum(a.iter().zip(b).map(|(x, y)| x * y).chain([c]), to);
    if error.is_finite() {
        sum.add(if mode == Rounding::Up { error } else { -error });
    }
    sum.round(to, Rounding::NearestEven)
}

/// Computes the taints of the product: undefined elements of A, B and C make elements of the result undefined; error
/// bounds become unknown.
fn propagate_taints(taints: &[Vec<Taint>; 3], s: &Shape, out: &mut Vec<Taint>) {
    out.clear();
    if taints.iter().all(|p| p.is_empty()) {
        return;
    }
    let at = |k: usize, i: usize| taints[k].get(i).copied().unwrap_or_default();
    let columns: Vec<Taint> =
        (0..s.n).map(|n| (0..s.k).fold(Taint::Exact, |taint, k| taint.with(at(1, k * s.n + n)))).collect();
    for m in 0..s.m {
        let row = (0..s.k).fold(Taint::Exact, |taint, k| taint.with(at(0, m * s.k + k)));
        out.extend((0..s.n).map(|n| row.with(columns[n]).with(at(2, m * s.n + n))));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn sums_in_every_mode() {
        let mut random = Random::new(5);
        for round in 0..3000 {
            let k = random.integer(1, 40) as usize;
            let from = [Num::F16, Num::Bf16, Num::F32, Num::E4M3, Num::F64][round % 5];
            let to = [Num::F32, Num::F16, Num::F64, Num::Bf16][round % 4];
            let mut draw =
                || from.to_f64(from.encode_f64((random.unit() - 0.5) * 2f64.powi(random.integer(-6, 6) as i32)));
            let a: Vec<f64> = (0..k).map(|_| draw()).collect();
            let b: Vec<f64> = (0..k).map(|_| draw()).collect();
            let c = to.to_f64(to.encode_f64(draw()));
            let mut sum = Sum::new();
            for (x, y) in a.iter().zip(&b) {
                sum.add_product(*x, *y);
            }
            sum.add(c);
            let exact = exact_sum(&a, &b, c, to, from != Num::F64, Rounding::NearestEven);
            assert_eq!(exact, sum.round(to, Rounding::NearestEven), "{from:?} {to:?} {k}");
            let value = |bits: u64| to.to_f64(bits);
            let (low, high) = (extreme_sum(&a, &b, c, to, Rounding::Down), extreme_sum(&a, &b, c, to, Rounding::Up));
            for other in [exact, sequential(&a, &b, c, to)] {
                assert!(value(low) <= value(other) && value(other) <= value(high), "{from:?} {to:?} {k}");
            }
        }
    }

    #[test]
    fn accumulators_are_numbers_of_the_kind_of_the_result() {
        assert_eq!(of_width(0xc783, 16, true), 0xc783 - 0x1_0000);
        assert_eq!(of_width(-1, 16, false), 0xffff);
        assert_eq!((of_width(-5, 16, true), of_width(7, 16, false)), (-5, 7));
    }

    #[test]
    fn zeros_and_infinities() {
        let exact =
            |a: &[f64], b: &[f64], c: f64| Num::F32.to_f64(exact_sum(a, b, c, Num::F32, true, Rounding::NearestEven));
        assert!(exact(&[0.0, -1.0], &[-1.0, 0.0], -0.0).is_sign_negative());
        assert!(exact(&[0.0, 1.0], &[-1.0, 0.0], -0.0).is_sign_positive());
        assert_eq!(exact(&[f64::INFINITY, 1.0], &[1.0, 1.0], 5.0), f64::INFINITY);
        assert!(exact(&[f64::INFINITY, 1.0], &[1.0, 1.0], f64::NEG_INFINITY).is_nan());
        assert!(exact(&[f64::INFINITY], &[0.0], 5.0).is_nan());
        assert_eq!(exact(&[65504.0; 4], &[65504.0; 4], -4.0 * 65504.0 * 65504.0), 0.0);
    }
}
