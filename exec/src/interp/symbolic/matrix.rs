//! Multiplications of matrices, group operations and atomics.

use coop_ir::Op;
use coop_ir::grammar::GroupOp;
use coop_ir::spv::GlslStd450 as Glsl;

use super::super::num::{Num, mask, signed};
use super::super::taint::Taint;
use super::arithmetic::{product, sum};
use super::bits;
use super::field::Fp;
use super::term::Degree;
use super::{Arithmetic, Integer, Number, Operand, Rule, Symbols, Value};

/// A multiplication of matrices.
pub(in crate::interp) struct Multiplication<'a> {
    /// The elements of A, B and C by rows, and their taints (empty: all are exact).
    pub values: &'a [Vec<u64>; 3],
    pub taints: &'a [Vec<Taint>; 3],
    pub n: usize,
    pub k: usize,
    /// The types of A, B, C and the result.
    pub nums: [Num; 4],
    /// True for each that is read as signed.
    pub signed: [bool; 4],
    pub saturating: bool,
    pub tf32: bool,
}

/// The numbers of a matrix. None where the term is lost or the value undefined.
struct Factors {
    numbers: Vec<Option<Number>>,
    /// True where the element depends on data.
    depend: Vec<bool>,
}

impl Symbols {
    /// Computes the taints of a product of matrices. `out` has them by the general rule.
    pub(in crate::interp) fn multiply(&mut self, x: &Multiplication<'_>, out: &mut [Taint]) {
        if out.is_empty() || x.k == 0 {
            return;
        }
        if !x.nums[3].is_float() {
            self.multiply_integers(x, out);
            return;
        }
        let [a, b, c] = [0, 1, 2].map(|k| self.factors(x, k));
        // B by columns, so that both factors are read in order.
        let b = Factors {
            numbers: (0..x.n * x.k).map(|i| b.numbers[i % x.k * x.n + i / x.k]).collect(),
            depend: (0..x.n * x.k).map(|i| b.depend[i % x.k * x.n + i / x.k]).collect(),
        };
        let rows: Vec<bool> = a.depend.chunks(x.k).map(|row| row.contains(&true)).collect();
        let columns: Vec<bool> = b.depend.chunks(x.k).map(|column| column.contains(&true)).collect();
        for (at, taint) in out.iter_mut().enumerate() {
            let (i, j) = (at / x.n, at % x.n);
            if !(c.depend[at] || rows[i] || columns[j]) {
                *taint = Taint::Exact;
                continue;
            }
            // Else the general rule has said what it is.
            if let Some(found) =
                self.element(x, &a.numbers[i * x.k..][..x.k], &b.numbers[j * x.k..][..x.k], c.numbers[at])
            {
                *taint = found;
                self.made_by_multiplication(x, (i, j), found);
            }
        }
    }

    /// Returns the numbers of a matrix.
    fn factors(&mut self, x: &Multiplication<'_>, k: usize) -> Factors {
        let mut out = Factors { numbers: Vec::new(), depend: Vec::new() };
        for (i, bits) in x.values[k].iter().enumerate() {
            let term = match x.taints[k].get(i).copied().unwrap_or_default() {
                Taint::Exact => None,
                Taint::Term(term) => Some(term),
                Taint::Inexact { .. } | Taint::Undefined => {
                    out.numbers.push(None);
                    out.depend.push(true);
                    continue;
                }
            };
            let number = self.factor(x, k, Value { bits: *bits, term });
            out.numbers.push(Some(number));
            out.depend.push(term.is_some());
        }
        out
    }

    /// Computes the taints of a product of matrices of integers.
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
            let Some((given, depends)) = &c[at] else { continue };
            let mut depends = *depends;
            let mut total = if x.saturating { self.integer_constant(0) } else { given.clone() };
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
                *taint = match (depends, x.saturating) {
                    (false, _) => Taint::Exact,
                    (true, false) => self.ring_of(to, total),
                    (true, true) => self.saturated_sum(x, (i, j), total),
                };
                self.made_by_multiplication(x, (i, j), *taint);
            }
        }
    }

    /// Returns the taint of a sum of products to which C is added so that it saturates. A sum of products that does not fit
    /// is undefined behavior, so that its lowest bits are the number.
    fn saturated_sum(&mut self, x: &Multiplication<'_>, (i, j): (usize, usize), products: Integer) -> Taint {
        let (at, to, from) = (i * x.n + j, x.nums[3].bits(), x.nums[2].bits());
        let read = |k: usize, at: usize| {
            let (bits, width) = (x.values[k][at], x.nums[k].bits());
            if x.signed[k] { signed(bits, width) as u64 } else { mask(bits, width) }
        };
        let of = |k: usize| read(0, i * x.k + k).wrapping_mul(read(1, k * x.n + j));
        let bits = (0..x.k).fold(0u64, |all, k| all.wrapping_add(of(k)));
        let taint = self.ring_of(to, products);
        let products =
            Value { bits: mask(bits, to), term: if let Taint::Term(term) = taint { Some(term) } else { None } };
        let mut given = Value { bits: mask(read(2, at), to), term: None };
        if let Some(Taint::Term(term)) = x.taints[2].get(at) {
            let parts = self.parts(Value { bits: x.values[2][at], term: Some(*term) }, from);
            match self.of_parts(bits::resized(&parts, from, to, x.signed[2])) {
                Taint::Term(term) => given.term = Some(term),
                Taint::Exact => {}
                other => return other,
            }
        }
        self.saturated(to, x.signed[3], [products, given])
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
        let number = self.number(v, x.nums[k]);
        if x.tf32 && k < 2 && self.arithmetic != Arithmetic::Reals && v.term.is_some() {
            return self.function("tf32", &[number.0.bits()]);
        }
        number
    }

    /// Returns the sum of the products of pairs and of C. `None` if the term of one is lost.
    fn element(
        &mut self,
        x: &Multiplication<'_>,
        row: &[Option<Number>],
        column: &[Option<Number>],
        c: Option<Number>,
    ) -> Option<Taint> {
        let (to, c) = (x.nums[3], c?);
        let mut pairs = row.iter().zip(column);
        if self.arithmetic == Arithmetic::Strict {
            let ordered = |(a, b): (Number, Number)| [a.0.min(b.0), a.0.max(b.0)];
            let mut of: Vec<[Fp; 2]> = pairs.map(|(a, b)| (*a).zip(*b).map(ordered)).collect::<Option<_>>()?;
            of.sort_unstable();
            of.push([c.0, Fp::ZERO]);
            return Some(self.float_function("MulAdd", to, of.as_flattened()));
        }
        let total = pairs.try_fold(c, |total, (a, b)| Some(sum(total, product((*a)?, (*b)?))))?;
        Some(self.float(to, total))
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

    /// Returns the taint of a vote: true if all conditions are, or if any is. `general` is that by the general rule.
    pub(in crate::interp) fn vote(&mut self, all: bool, parts: &[(u64, Taint)], general: Taint) -> Taint {
        let mut ids: Vec<[u64; 2]> = Vec::new();
        for (bits, taint) in parts {
            match taint {
                // One that decides whatever the others are.
                Taint::Exact if (*bits != 0) != all => return Taint::Exact,
                Taint::Exact => {}
                Taint::Term(term) => ids.push(Symbols::identity(Value { bits: *bits, term: Some(*term) })),
                Taint::Inexact { .. } | Taint::Undefined => return general,
            }
        }
        ids.sort_unstable();
        ids.dedup();
        match ids.as_slice() {
            [] => Taint::Exact,
            _ => self.opaque(Num::Bool.bits(), if all { "all" } else { "any" }, ids.as_flattened()),
        }
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
