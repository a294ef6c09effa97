//! Multiplications of matrices, group operations and atomics.

use coop_ir::Op;
use coop_ir::grammar::GroupOp;
use coop_ir::spv::GlslStd450 as Glsl;

use super::super::num::Num;
use super::super::taint::Taint;
use super::arithmetic::{product, sum};
use super::field::Fp;
use super::term::Degree;
use super::{Arithmetic, Number, Symbols, Value};

/// A multiplication of matrices.
pub(in crate::interp) struct Multiplication<'a> {
    /// The elements of A, B and C by rows, and their taints (empty: all are exact).
    pub values: &'a [Vec<u64>; 3],
    pub taints: &'a [Vec<Taint>; 3],
    pub m: usize,
    pub n: usize,
    pub k: usize,
    /// The types of A, B, C and the result.
    pub nums: [Num; 4],
    /// True for each that is read as signed.
    pub signed: [bool; 4],
    pub saturating: bool,
    pub tf32: bool,
}

impl Symbols {
    /// Computes the taints of a product of matrices. `out` has them by the general rule.
    pub(in crate::interp) fn multiply(&mut self, x: &Multiplication<'_>, out: &mut [Taint]) {
        if out.is_empty() {
            return;
        }
        // A number for each element; none where the term is lost or the value undefined.
        let mut numbers: [Vec<Option<Number>>; 3] = Default::default();
        let mut terms: [Vec<bool>; 3] = Default::default();
        for (k, list) in numbers.iter_mut().enumerate() {
            for (i, bits) in x.values[k].iter().enumerate() {
                let taint = x.taints[k].get(i).copied().unwrap_or_default();
                let term = match taint {
                    Taint::Exact => None,
                    Taint::Term(term) => Some(term),
                    Taint::Inexact { .. } | Taint::Undefined => {
                        list.push(None);
                        terms[k].push(true);
                        continue;
                    }
                };
                terms[k].push(term.is_some());
                let number = self.factor(x, k, Value { bits: *bits, term });
                list.push(Some(number));
            }
        }
        for i in 0..x.m {
            for j in 0..x.n {
                let at = i * x.n + j;
                let row = i * x.k..(i + 1) * x.k;
                let depends =
                    terms[2][at] || terms[0][row.clone()].contains(&true) || (0..x.k).any(|k| terms[1][k * x.n + j]);
                if !depends {
                    out[at] = Taint::Exact;
                    continue;
                }
                let pairs: Option<Vec<(Number, Number)>> =
                    row.map(|a| Some((numbers[0][a]?, numbers[1][(a - i * x.k) * x.n + j]?))).collect();
                // Else the general rule has said what it is.
                if let (Some(pairs), Some(c)) = (pairs, numbers[2][at]) {
                    out[at] = self.element(x, &pairs, c);
                }
            }
        }
    }

    fn factor(&mut self, x: &Multiplication<'_>, k: usize, v: Value) -> Number {
        let (num, to) = (x.nums[k], x.nums[3].bits());
        if !num.is_float() {
            return if x.saturating {
                self.exact_integer(v, num.bits(), x.signed[k])
            } else {
                self.integer(v, num.bits(), x.signed[k], to)
            };
        }
        let number = self.number(v, num);
        if x.tf32 && k < 2 && self.arithmetic != Arithmetic::Reals && v.term.is_some() {
            return self.function("tf32", &[number.0.bits()]);
        }
        number
    }

    fn element(&mut self, x: &Multiplication<'_>, pairs: &[(Number, Number)], c: Number) -> Taint {
        let to = x.nums[3];
        if to.is_float() && self.arithmetic == Arithmetic::Strict {
            let mut of: Vec<[Fp; 2]> = pairs.iter().map(|(a, b)| [a.0.min(b.0), a.0.max(b.0)]).collect();
            of.sort_unstable();
            of.push([c.0, Fp::ZERO]);
            return self.float_function("MulAdd", to, of.as_flattened());
        }
        let total = pairs.iter().fold(c, |total, (a, b)| sum(total, product(*a, *b)));
        if to.is_float() {
            return self.float(to, total);
        }
        if x.saturating {
            let tag = format!("saturated {} {}", to.bits(), x.signed[3]);
            return self.opaque(to.bits(), &tag, &[total.0.bits()]);
        }
        self.ring(to.bits(), total)
    }

    /// Returns the taint of the result of a group operation on the operands of some invocations; `all` is that by the
    /// general rule.
    pub(in crate::interp) fn group(&mut self, what: GroupOp, num: Num, parts: &[(u64, Taint)], all: Taint) -> Taint {
        let mut values = Vec::with_capacity(parts.len());
        for (bits, taint) in parts {
            let term = match taint {
                Taint::Exact => None,
                Taint::Term(term) => Some(*term),
                Taint::Inexact { .. } | Taint::Undefined => return all,
            };
            values.push(Value { bits: *bits, term });
        }
        match values.as_slice() {
            _ if values.iter().all(|v| v.term.is_none()) => return Taint::Exact,
            [one] => return one.term.map_or(Taint::Exact, Taint::Term),
            _ => {}
        }
        let zero = (Fp::ZERO, Degree::CONSTANT);
        let one = (Fp::ONE, Degree::CONSTANT);
        let width = num.bits();
        let free = self.arithmetic != Arithmetic::Strict;
        match what {
            GroupOp::FAdd | GroupOp::FMul if free => {
                let mut total = if what == GroupOp::FAdd { zero } else { one };
                for v in &values {
                    let x = self.number(*v, num);
                    total = if what == GroupOp::FAdd { sum(total, x) } else { product(total, x) };
                }
                self.float(num, total)
            }
            GroupOp::IAdd | GroupOp::IMul => {
                let mut total = if what == GroupOp::IAdd { zero } else { one };
                for v in &values {
                    let x = self.integer(*v, width, true, width);
                    total = if what == GroupOp::IAdd { sum(total, x) } else { product(total, x) };
                }
                self.ring(width, total)
            }
            GroupOp::FMax => self.extreme("float max", num, &values),
            GroupOp::FMin => self.extreme("float min", num, &values),
            GroupOp::UMax => self.extended(Glsl::UMax, num, &values),
            GroupOp::UMin => self.extended(Glsl::UMin, num, &values),
            GroupOp::SMax => self.extended(Glsl::SMax, num, &values),
            GroupOp::SMin => self.extended(Glsl::SMin, num, &values),
            _ => self.lose("a group operation without a rule"),
        }
    }

    /// Returns the taint of the value that an atomic instruction writes.
    pub(in crate::interp) fn atomic(
        &mut self,
        op: Op,
        num: Num,
        old: (u64, Taint),
        given: (u64, Taint),
        compared: Taint,
    ) -> Taint {
        if compared != Taint::Exact {
            return self.lose(format!("{op} with a comparator from data"));
        }
        let value = |(bits, taint): (u64, Taint)| match taint {
            Taint::Exact => Some(Value { bits, term: None }),
            Taint::Term(term) => Some(Value { bits, term: Some(term) }),
            Taint::Inexact { .. } | Taint::Undefined => None,
        };
        match op {
            Op::AtomicStore | Op::AtomicExchange => return given.1,
            Op::AtomicLoad => return old.1,
            _ => {}
        }
        let (Some(x), Some(y)) = (value(old), value(given)) else { return Taint::UNKNOWN };
        if x.term.is_none() && y.term.is_none() {
            return Taint::Exact;
        }
        let both = [x, y];
        match op {
            Op::AtomicFAddEXT => self.each(Op::FAdd, num, &both),
            Op::AtomicIAdd => self.each(Op::IAdd, num, &both),
            Op::AtomicISub => self.each(Op::ISub, num, &both),
            Op::AtomicFMaxEXT => self.extended(Glsl::FMax, num, &both),
            Op::AtomicFMinEXT => self.extended(Glsl::FMin, num, &both),
            Op::AtomicUMax => self.extended(Glsl::UMax, num, &both),
            Op::AtomicUMin => self.extended(Glsl::UMin, num, &both),
            Op::AtomicSMax => self.extended(Glsl::SMax, num, &both),
            Op::AtomicSMin => self.extended(Glsl::SMin, num, &both),
            Op::AtomicOr => self.each(Op::BitwiseOr, num, &both),
            Op::AtomicAnd => self.each(Op::BitwiseAnd, num, &both),
            Op::AtomicXor => self.each(Op::BitwiseXor, num, &both),
            _ => self.lose(format!("{op} on data")),
        }
    }
}
