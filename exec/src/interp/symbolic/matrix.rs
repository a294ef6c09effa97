//! Multiplications of matrices, group operations and atomics.

use coop_ir::Op;
use coop_ir::grammar::GroupOp;
use coop_ir::spv::GlslStd450 as Glsl;

use super::super::num::Num;
use super::super::taint::Taint;
use super::arithmetic::{product, sum};
use super::field::Fp;
use super::term::Degree;
use super::{Arithmetic, Integer, Number, Operand, Rule, Symbols, Value};

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
        if !x.nums[3].is_float() && !x.saturating {
            self.multiply_integers(x, out);
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
                    let given = x.taints[2].get(at).copied().unwrap_or_default();
                    out[at] = self.element(x, &pairs, c, given);
                    self.made_by_multiplication(x, (i, j), out[at]);
                }
            }
        }
    }

    /// Computes the taints of a product of matrices of integers that wrap.
    fn multiply_integers(&mut self, x: &Multiplication<'_>, out: &mut [Taint]) {
        let to = x.nums[3].bits();
        // An integer for each element, and whether it depends on data; none where the term is lost or the value undefined.
        let mut all: [Vec<Option<(Integer, bool)>>; 3] = Default::default();
        for (k, list) in all.iter_mut().enumerate() {
            for (i, bits) in x.values[k].iter().enumerate() {
                let term = match x.taints[k].get(i).copied().unwrap_or_default() {
                    Taint::Exact => None,
                    Taint::Term(term) => Some(term),
                    Taint::Inexact { .. } | Taint::Undefined => {
                        list.push(None);
                        continue;
                    }
                };
                let integer = self.integer(Value { bits: *bits, term }, x.nums[k].bits(), x.signed[k], to);
                list.push(Some((integer, term.is_some())));
            }
        }
        let [a, b, c] = &all;
        for (at, taint) in out.iter_mut().enumerate() {
            let (i, j) = (at / x.n, at % x.n);
            let Some((total, depends)) = &c[at] else { continue };
            let (mut total, mut depends) = (total.clone(), *depends);
            let mut known = true;
            for k in 0..x.k {
                let (Some((p, one)), Some((q, other))) = (&a[i * x.k + k], &b[k * x.n + j]) else {
                    known = false;
                    break;
                };
                depends |= one | other;
                total = total.plus(&p.times(q));
            }
            // Else the general rule has said what it is.
            if known {
                *taint = if depends { self.ring_of(to, total) } else { Taint::Exact };
                self.made_by_multiplication(x, (i, j), *taint);
            }
        }
    }

    /// Keeps how an element came about.
    fn made_by_multiplication(&mut self, x: &Multiplication<'_>, (i, j): (usize, usize), taint: Taint) {
        if self.expressions.is_none() {
            return;
        }
        let operand = |k: usize, at: usize| {
            let taint = x.taints[k].get(at).copied().unwrap_or_default();
            let term = if let Taint::Term(term) = taint { Some(term) } else { None };
            Operand { value: Value { bits: x.values[k][at], term }, num: x.nums[k] }
        };
        let factors = (0..x.k).flat_map(|k| [operand(0, i * x.k + k), operand(1, k * x.n + j)]);
        let operands: Vec<Operand> = factors.chain([operand(2, i * x.n + j)]).collect();
        let rule = || if x.saturating { Rule::Function("saturating MulAdd".into()) } else { Rule::Products(x.k) };
        self.made(taint, rule, operands);
    }

    fn factor(&mut self, x: &Multiplication<'_>, k: usize, v: Value) -> Number {
        let num = x.nums[k];
        if !num.is_float() {
            return self.exact_integer(v, num.bits(), x.signed[k]);
        }
        let number = self.number(v, num);
        if x.tf32 && k < 2 && self.arithmetic != Arithmetic::Reals && v.term.is_some() {
            return self.function("tf32", &[number.0.bits()]);
        }
        number
    }

    fn element(&mut self, x: &Multiplication<'_>, pairs: &[(Number, Number)], c: Number, given: Taint) -> Taint {
        let to = x.nums[3];
        // Of an accumulator alone nothing is clamped.
        let fits = x.nums[2].bits() == to.bits() && x.signed[2] == x.signed[3];
        if to.is_float() && self.arithmetic == Arithmetic::Strict {
            let mut of: Vec<[Fp; 2]> = pairs.iter().map(|(a, b)| [a.0.min(b.0), a.0.max(b.0)]).collect();
            of.sort_unstable();
            of.push([c.0, Fp::ZERO]);
            return self.float_function("MulAdd", to, of.as_flattened());
        }
        if x.saturating && pairs.iter().all(|(a, b)| a.0 == Fp::ZERO || b.0 == Fp::ZERO) && fits {
            return given;
        }
        let total = pairs.iter().fold(c, |total, (a, b)| sum(total, product(*a, *b)));
        if to.is_float() {
            return self.float(to, total);
        }
        let tag = format!("saturated {} {}", to.bits(), x.signed[3]);
        self.opaque(to.bits(), &tag, &[total.0.bits()])
    }

    /// Returns the taint of the result of a group operation on the operands of some invocations; `all` is that by the
    /// general rule.
    pub(in crate::interp) fn group(&mut self, what: GroupOp, num: Num, parts: &[(u64, Taint)], all: Taint) -> Taint {
        let taint = self.grouped(what, num, parts, all);
        let operands = parts.iter().map(|(bits, taint)| {
            let term = if let Taint::Term(term) = taint { Some(*term) } else { None };
            Operand { value: Value { bits: *bits, term }, num }
        });
        let rule = || match what {
            GroupOp::FAdd | GroupOp::IAdd => Rule::Sum,
            what => Rule::Function(format!("{what:?}").into()),
        };
        self.made(taint, rule, operands);
        taint
    }

    fn grouped(&mut self, what: GroupOp, num: Num, parts: &[(u64, Taint)], all: Taint) -> Taint {
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
                let mut total = self.integer_constant(i128::from(what == GroupOp::IMul));
                for v in &values {
                    let x = self.integer(*v, width, true, width);
                    total = if what == GroupOp::IAdd { total.plus(&x) } else { total.times(&x) };
                }
                self.ring_of(width, total)
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
