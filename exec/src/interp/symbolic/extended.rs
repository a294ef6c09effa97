//! GLSL.std.450, and instructions that look at all components of their operands.

use coop_ir::Op;
use coop_ir::spv::GlslStd450 as Glsl;

use super::super::code::{Conv, LaneFn};
use super::super::glsl_std_450;
use super::super::num::{Num, mask, signed};
use super::super::registers::Regs;
use super::super::taint::Taint;
use super::arithmetic::{product, sum};
use super::bits;
use super::field::Fp;
use super::term::Degree;
use super::{Arithmetic, Number, Symbols, Value, Values, operands};

impl Symbols {
    /// Returns the result of an instruction of GLSL.std.450 on components.
    pub(super) fn extended(&mut self, op: Glsl, num: Num, v: &[Value]) -> Taint {
        let taint = self.extended_result(op, num, v);
        self.made_by_extended(op, num, v, taint);
        taint
    }

    fn extended_result(&mut self, op: Glsl, num: Num, v: &[Value]) -> Taint {
        match op {
            // They differ in what they make of NaN.
            Glsl::FMax | Glsl::NMax => return self.extreme(self.of_numbers(op == Glsl::NMax, "float max"), num, v),
            Glsl::FMin | Glsl::NMin => return self.extreme(self.of_numbers(op == Glsl::NMin, "float min"), num, v),
            Glsl::UMax | Glsl::UMin | Glsl::SMax | Glsl::SMin => {
                return self.extreme(&format!("{} {}", integer_extreme(op), num.bits()), num, v);
            }
            Glsl::FClamp | Glsl::NClamp => {
                let tags = ["float max", "float min"].map(|tag| self.of_numbers(op == Glsl::NClamp, tag).to_owned());
                return self.clamped(num, v, tags);
            }
            Glsl::UClamp | Glsl::SClamp => {
                let [most, least] = if op == Glsl::UClamp { ["umax", "umin"] } else { ["smax", "smin"] };
                return self.clamped(num, v, [most, least].map(|tag| format!("{tag} {}", num.bits())));
            }
            _ => {}
        }
        if op == glsl_std_450::QUOTIENT {
            return self.lose("the quotient of remquo");
        }
        if !num.is_float() {
            let ids: Vec<u64> = v.iter().flat_map(|v| Symbols::identity(*v)).collect();
            return self.opaque(num.bits(), &format!("GLSL.std.450 {} {}", op.0, num.bits()), &ids);
        }
        if op == Glsl::Ldexp {
            return self.scaled(num, v);
        }
        let numbers: Vec<Number> = v.iter().map(|v| self.number(*v, num)).collect();
        if let ([x, y, z], false) = (numbers.as_slice(), self.arithmetic == Arithmetic::Strict) {
            match op {
                Glsl::Fma => return self.float(num, sum(product(*x, *y), *z)),
                Glsl::FMix => {
                    // x * (1 - z) + y * z
                    let rest = sum((Fp::ONE, Degree::CONSTANT), (z.0.negated(), z.1));
                    return self.float(num, sum(product(*x, rest), product(*y, *z)));
                }
                _ => {}
            }
        }
        let mut of: Vec<Fp> = numbers.iter().map(|n| n.0).collect();
        if op == Glsl::FAbs {
            // That of x and that of -x.
            of = vec![of[0].min(of[0].negated())];
        }
        if op == Glsl::Fma {
            of[..2].sort_unstable();
            return self.float_function("FmaKHR", num, &of);
        }
        self.float_function(&format!("GLSL.std.450 {}", op.0), num, &of)
    }

    /// Returns the tag of a maximum or minimum: another one where it takes what is a number and that matters.
    fn of_numbers(&self, takes_numbers: bool, tag: &'static str) -> &'static str {
        match tag {
            _ if !takes_numbers || self.arithmetic != Arithmetic::Strict => tag,
            "float max" => "number max",
            _ => "number min",
        }
    }

    fn clamped(&mut self, num: Num, v: &[Value], [most, least]: [String; 2]) -> Taint {
        let [x, low, high] = *v else { return self.lose("a clamp without three operands") };
        // What was clamped from below depends on data if the value or the bound does.
        let above = if x.term.is_some() || low.term.is_some() {
            match self.extreme(&most, num, &[x, low]) {
                Taint::Term(term) => Value { bits: 0, term: Some(term) },
                other => return other,
            }
        } else {
            let greater = match num {
                _ if num.is_float() => num.to_f64(low.bits) > num.to_f64(x.bits),
                _ if most.starts_with('s') => signed(low.bits, num.bits()) > signed(x.bits, num.bits()),
                _ => low.bits > x.bits,
            };
            if greater { low } else { x }
        };
        self.extreme(&least, num, &[above, high])
    }

    fn scaled(&mut self, num: Num, v: &[Value]) -> Taint {
        let [x, exponent] = *v else { return self.lose("a scale without two operands") };
        let number = self.number(x, num);
        let by = signed(mask(exponent.bits, 32), 32);
        if exponent.term.is_none() && self.arithmetic != Arithmetic::Strict && by.abs() < 5000 {
            return self.float(num, (number.0.times(Fp::power_of_two(by as i32)), number.1));
        }
        let [a, b] = Symbols::identity(exponent);
        self.float_function("ldexp", num, &[number.0, Fp::new(a), Fp::new(b)])
    }

    /// Computes the terms of the results of an instruction on all components.
    pub(super) fn lane(&mut self, regs: &mut Regs, f: &LaneFn, dst: u32, n: u32, args: &[(u32, u32)]) {
        let rows: Vec<u32> = args.iter().flat_map(|(row, n)| *row..row + n).collect();
        if rows.iter().all(|row| !regs.any_taint(*row..row + 1)) {
            return;
        }
        let sizes: Vec<usize> = args.iter().map(|a| a.1 as usize).collect();
        let mut values = Values::new();
        for k in 0..regs.act.list.len() {
            let lane = regs.act.list[k] as usize;
            if !operands(regs, &rows, lane, &mut values) {
                continue;
            }
            let taints = self.whole(f, &values, &sizes, n as usize);
            for (row, taint) in (dst..dst + n).zip(taints) {
                regs.set_taint(row, lane, taint);
            }
        }
    }

    fn whole(&mut self, f: &LaneFn, v: &[Value], sizes: &[usize], n: usize) -> Vec<Taint> {
        match f {
            LaneFn::Dot(num) => vec![self.dot(*num, &v[..v.len() / 2], &v[v.len() / 2..])],
            LaneFn::Product { num, rows, inner, cols } => {
                let (rows, inner, cols) = (*rows as usize, *inner as usize, *cols as usize);
                let (a, b) = v.split_at(rows * inner);
                let mut out = Vec::with_capacity(rows * cols);
                for c in 0..cols {
                    for r in 0..rows {
                        let left: Vec<Value> = (0..inner).map(|k| a[k * rows + r]).collect();
                        out.push(self.dot(*num, &left, &b[c * inner..(c + 1) * inner]));
                    }
                }
                out
            }
            LaneFn::Outer(num) => {
                let (a, b) = v.split_at(sizes[0]);
                let pairs = b.iter().flat_map(|y| a.iter().map(move |x| [*x, *y]));
                pairs.map(|[x, y]| self.dot(*num, &[x], &[y])).collect()
            }
            LaneFn::IntDot { a, b, to, packed, signed, accumulate } => {
                let taint = self.integer_dot(v, [*a, *b], *to, *packed, *signed, *accumulate);
                vec![taint]
            }
            LaneFn::Bits { from, to } => self.regrouped(v, *from, *to, 0, n),
            LaneFn::BitsAt { from, to } if v[sizes[0]].term.is_none() => {
                let (fields, at) = (&v[..sizes[0]], u32::try_from(v[sizes[0]].bits).unwrap_or(u32::MAX));
                if fields.len() == n {
                    fields.iter().flat_map(|x| self.regrouped(&[*x], *from, *to, at, 1)).collect()
                } else {
                    self.regrouped(fields, *from, *to, at, n)
                }
            }
            LaneFn::Any | LaneFn::All => {
                let mut ids: Vec<[u64; 2]> = v.iter().map(|v| Symbols::identity(*v)).collect();
                ids.sort_unstable();
                ids.dedup();
                let tag = if matches!(f, LaneFn::Any) { "any" } else { "all" };
                vec![self.opaque(Num::Bool.bits(), tag, ids.as_flattened())]
            }
            LaneFn::Glsl { op, num } => self.whole_extended(*op, *num, v, n),
            _ => {
                let taint = self.lose("an instruction on all components without a rule");
                vec![taint; n]
            }
        }
    }

    fn whole_extended(&mut self, op: Glsl, num: Num, v: &[Value], n: usize) -> Vec<Taint> {
        match op {
            Glsl::PackHalf2x16 => {
                let halves: Vec<Value> = v
                    .iter()
                    .map(|x| match x.term {
                        None => Value { bits: Num::F16.encode_f64(Num::F32.to_f64(x.bits)), term: None },
                        Some(_) => match self.round(&conversion(Num::F32, Num::F16), *x) {
                            Taint::Term(term) => Value { bits: 0, term: Some(term) },
                            _ => *x,
                        },
                    })
                    .collect();
                self.regrouped(&halves, 16, 32, 0, 1)
            }
            Glsl::UnpackHalf2x16 => {
                let halves = self.regrouped(v, 32, 16, 0, 2);
                halves
                    .into_iter()
                    .map(|half| match half {
                        Taint::Term(term) => {
                            self.round(&conversion(Num::F16, Num::F32), Value { bits: 0, term: Some(term) })
                        }
                        other => other,
                    })
                    .collect()
            }
            Glsl::PackDouble2x32 => self.regrouped(v, 32, 64, 0, 1),
            Glsl::UnpackDouble2x32 => self.regrouped(v, 64, 32, 0, 2),
            Glsl::Length | Glsl::Distance | Glsl::Normalize | Glsl::Cross if num.is_float() => {
                let of: Vec<Fp> = v.iter().map(|v| self.number(*v, num).0).collect();
                (0..n).map(|i| self.float_function(&format!("GLSL.std.450 {} {i}", op.0), num, &of)).collect()
            }
            _ => {
                let taint = self.lose(format!("GLSL.std.450 instruction {}", op.0));
                vec![taint; n]
            }
        }
    }

    fn dot(&mut self, num: Num, a: &[Value], b: &[Value]) -> Taint {
        let taint = self.dot_product(num, a, b);
        if self.expressions.is_some() {
            let pairs: Vec<(Value, Value)> = a.iter().copied().zip(b.iter().copied()).collect();
            self.made_by_products(num, &pairs, None, taint);
        }
        taint
    }

    fn dot_product(&mut self, num: Num, a: &[Value], b: &[Value]) -> Taint {
        if a.iter().chain(b).all(|v| v.term.is_none()) {
            return Taint::Exact;
        }
        let mut pairs = Vec::with_capacity(a.len());
        for (x, y) in a.iter().zip(b) {
            pairs.push((self.number(*x, num), self.number(*y, num)));
        }
        if self.arithmetic == Arithmetic::Strict {
            let mut of: Vec<[Fp; 2]> = pairs.iter().map(|(x, y)| [x.0.min(y.0), x.0.max(y.0)]).collect();
            of.sort_unstable();
            return self.float_function("dot", num, of.as_flattened());
        }
        let zero = (Fp::ZERO, Degree::CONSTANT);
        let total = pairs.into_iter().fold(zero, |total, (x, y)| sum(total, product(x, y)));
        self.float(num, total)
    }

    fn integer_dot(
        &mut self,
        v: &[Value],
        nums: [Num; 2],
        to: Num,
        packed: bool,
        signed: [bool; 2],
        accumulate: bool,
    ) -> Taint {
        let width = to.bits();
        let n = (v.len() - usize::from(accumulate)) / 2;
        let mut pairs: Vec<[(Value, u32); 2]> = Vec::new();
        for i in 0..n {
            let pair = [v[i], v[n + i]];
            if packed {
                let [x, y] = pair.map(|x| self.bytes_of(x));
                pairs.extend(x.into_iter().zip(y).map(|(x, y)| [(x, 8), (y, 8)]));
            } else {
                pairs.push([(pair[0], nums[0].bits()), (pair[1], nums[1].bits())]);
            }
        }
        if accumulate {
            let mut total = (Fp::ZERO, Degree::CONSTANT);
            for [x, y] in pairs {
                let (x, y) = (self.exact_integer(x.0, x.1, signed[0]), self.exact_integer(y.0, y.1, signed[1]));
                total = sum(total, product(x, y));
            }
            let accumulator = self.exact_integer(v[2 * n], width, signed[0] || signed[1]);
            let words = [total.0.bits(), accumulator.0.bits()];
            return self.opaque(width, &format!("saturating sum {width} {}", signed[0] || signed[1]), &words);
        }
        let mut total = self.integer_constant(0);
        for [x, y] in pairs {
            let (x, y) = (self.integer(x.0, x.1, signed[0], width), self.integer(y.0, y.1, signed[1], width));
            total = total.plus(&x.times(&y));
        }
        self.ring_of(width, total)
    }

    /// Returns the four bytes of a word.
    fn bytes_of(&mut self, v: Value) -> Vec<Value> {
        let parts = self.parts(v, 32);
        let byte = |this: &mut Symbols, k: u32| {
            let bits = v.bits >> (8 * k) & 0xff;
            match this.of_parts(bits::slice(&parts, 8 * k, 8)) {
                Taint::Term(term) => Value { bits, term: Some(term) },
                _ => Value { bits, term: None },
            }
        };
        (0..4).map(|k| byte(self, k)).collect()
    }

    /// Returns components of `to` bits made of components of `from` bits, from a bit on.
    pub(super) fn regrouped(&mut self, v: &[Value], from: u32, to: u32, skip: u32, n: usize) -> Vec<Taint> {
        let all: Vec<bits::Pattern> = v.iter().map(|v| self.parts(*v, from)).collect();
        let whole = bits::joined(all.iter().map(|parts| parts.as_slice()));
        let width = from * v.len() as u32;
        let mut out = Vec::with_capacity(n);
        for i in 0..n as u32 {
            let Some(first) = (i * to).checked_add(skip).filter(|first| first + to <= width) else {
                out.push(self.lose("bits behind the end of a value"));
                continue;
            };
            let parts = bits::slice(&whole, first, to);
            out.push(self.of_parts(parts));
        }
        out
    }
}

/// A plain conversion between float formats.
fn conversion(from: Num, to: Num) -> Conv {
    Conv { op: Op::FConvert, from, to, saturate: false, mode: None }
}

fn integer_extreme(op: Glsl) -> &'static str {
    match op {
        Glsl::UMax => "umax",
        Glsl::UMin => "umin",
        Glsl::SMax => "smax",
        _ => "smin",
    }
}
