//! Integers that depend on data: polynomials with integer coefficients.
//!
//! The results of additions, subtractions and multiplications modulo 2^w are the low w bits of a polynomial's
//! value, whether or not steps wrap: the map from the integers to those modulo 2^w keeps sums and products. So equal
//! polynomials mean equal results, and polynomials are compared by their values in the field. The converse does not hold
//! (2^w * x is 0 modulo 2^w and no zero polynomial); such an equality is not proved.
//!
//! The symbols are the numbers that bit patterns stand for, read as signed or unsigned. A pattern that was extended
//! stands for the number that it was before, so it does not matter to what width.

use coop_ir::Op;

use smallvec::SmallVec;

use super::super::code::Conv;
use super::super::num::{Num, mask, signed};
use super::super::taint::Taint;
use super::bits::{self, Bit, Part, Pattern, Source};
use super::exact::Range;
use super::field::Fp;
use super::term::{Degree, Sort, Term};
use super::{Arithmetic, Integer, Number, Operand, Rule, Symbols, Value};

impl Symbols {
    /// Returns the number that a pattern stands for, read as signed or unsigned.
    fn pattern(&mut self, parts: &[Part], read_signed: bool) -> Number {
        let known =
            |this: &Symbols| this.known.numbers.get(parts).and_then(|numbers| numbers[usize::from(read_signed)]);
        if let Some(number) = known(self) {
            return number;
        }
        let number = self.new_pattern(parts, read_signed);
        self.known.numbers.entry(parts.into()).or_default()[usize::from(read_signed)] = Some(number);
        number
    }

    fn new_pattern(&mut self, parts: &[Part], read_signed: bool) -> Number {
        let (core, core_signed) = bits::core(parts);
        let width: u32 = parts.iter().map(|part| part.len).sum();
        let kept: u32 = core.iter().map(|part| part.len).sum();
        // Of an extended pattern both readings agree with the way of extension, but for the unsigned reading of copies of
        // the sign.
        let (core, as_signed) = match (kept < width, core_signed) {
            (false, _) => (Pattern::from_slice(parts), read_signed),
            (true, true) if !read_signed => (Pattern::from_slice(parts), false),
            (true, core_signed) => (core, core_signed),
        };
        if let Some(exact) = self.exact_core(&core, as_signed) {
            return exact.number;
        }
        let name = self.hash("integer pattern", &core).bits();
        let name = self.symbol("integer", &[name, u64::from(as_signed)]).bits();
        let function = core.iter().any(|part| matches!(part.source, Source::Atom(_)));
        let symbol = match self.patterns.get(&name) {
            Some(number) => *number,
            None => {
                let number = self.sum_of_bits(&core, as_signed);
                self.patterns.insert(name, number);
                number
            }
        };
        self.integers.entry(symbol.bits()).or_insert_with(|| (core.as_slice().into(), as_signed));
        (symbol, if function { Degree::FUNCTION } else { Degree::SYMBOL })
    }

    fn bit_of_buffer(&mut self, buffer: u32, bit: u64) -> Fp {
        if let Some(symbol) = self.known.bits.get(&(buffer, bit)) {
            return *symbol;
        }
        let symbol = self.symbol("bit of a buffer", &[u64::from(buffer), bit]);
        self.known.bits.insert((buffer, bit), symbol);
        symbol
    }

    /// Returns the sum of the bits of a pattern, each with its weight: a bit of a buffer is a symbol, and so are the bits of
    /// another term together.
    fn sum_of_bits(&mut self, parts: &[Part], read_signed: bool) -> Fp {
        let (mut total, mut weight) = (Fp::ZERO, Fp::ONE);
        for (i, part) in parts.iter().enumerate() {
            // The highest bit of a number with a sign counts against it.
            let negative = read_signed && i + 1 == parts.len();
            match part.source {
                Source::Atom(atom) => {
                    let atom = self.atom_below(atom, part.from as u32 + part.len);
                    let words = [atom, part.from, u64::from(part.len), u64::from(negative)];
                    total = total.plus(self.symbol("integer part", &words).times(weight));
                    weight = weight.times(Fp::power_of_two(part.len as i32));
                }
                source => {
                    for bit in 0..part.len {
                        let value = match source {
                            Source::Input(buffer) => self.bit_of_buffer(buffer, part.from + u64::from(bit)),
                            _ => Fp::integer(i128::from(part.from >> bit & 1)),
                        };
                        let value = value.times(weight);
                        total = if negative && bit + 1 == part.len { total.minus(value) } else { total.plus(value) };
                        weight = weight.plus(weight);
                    }
                }
            }
        }
        total
    }

    /// Returns the number that a value of `width` bits stands for in the ring modulo 2^`to`.
    pub(super) fn integer(&mut self, value: Value, width: u32, read_signed: bool, to: u32) -> Integer {
        let Some(term) = value.term else {
            // Modulo 2^to one representative is as good as another; all places take the same.
            let number = if read_signed || to <= width {
                i128::from(signed(mask(value.bits, width), width))
            } else {
                i128::from(mask(value.bits, width))
            };
            return self.integer_constant(number);
        };
        if let Some(integer) = self.modular_integer(value, width, read_signed, to) {
            return integer;
        }
        if term.sort() == Sort::Ring && to <= width {
            let range = self.exact(value, true).map(|exact| exact.range);
            return Integer::of_field((Fp::from_bits(term.fingerprint()), term.degree()), range);
        }
        let parts = self.parts(value, width);
        let (number, range) = self.number_of(&parts, read_signed || to <= width);
        Integer::of_field(number, range)
    }

    /// Returns the number that a pattern stands for, and its range.
    pub(super) fn number_of(&mut self, parts: &[Part], read_signed: bool) -> (Number, Option<Range>) {
        (self.pattern(parts, read_signed), self.range_of(parts, read_signed))
    }

    /// Returns the number of a value that is read exactly: not modulo anything.
    pub(super) fn exact_integer(&mut self, value: Value, width: u32, read_signed: bool) -> Number {
        if value.term.is_none() {
            let bits = mask(value.bits, width);
            let number = if read_signed { i128::from(signed(bits, width)) } else { i128::from(bits) };
            return (Fp::integer(number), Degree::CONSTANT);
        }
        if let Some(exact) = self.exact(value, read_signed) {
            return exact.number;
        }
        let parts = self.parts(value, width);
        self.pattern(&parts, read_signed)
    }

    /// Returns the result of ring operations in `width` bits.
    pub(super) fn ring(&mut self, width: u32, (value, degree): Number) -> Taint {
        match degree.bound() {
            Some(bound) => self.degree = self.degree.max(bound),
            None => self.degree_lost = true,
        }
        if let Some((core, core_signed)) = self.integers.get(&value.bits()) {
            // A symbol alone: the pattern that it is the number of.
            let (core, core_signed) = (core.clone(), *core_signed);
            let kept = core.iter().map(|part| part.len).sum();
            let parts = bits::resized(&core, kept, width, core_signed);
            return self.of_parts(parts);
        }
        Taint::Term(Term::new(Sort::Ring, width, value.bits(), degree))
    }

    /// Returns the result of an integer instruction on components; `None` if it is none of those that are known.
    pub(super) fn integer_each(&mut self, op: Op, num: Num, v: &[Value]) -> Option<Taint> {
        let width = num.bits();
        let number = |this: &mut Symbols, k: usize| this.integer(v[k], width, true, width);
        if let Some(taint) = self.shifted(op, width, v) {
            return Some(taint);
        }
        Some(match op {
            Op::IAdd | Op::ISub | Op::IMul => {
                let (x, y) = (number(self, 0), number(self, 1));
                let result = match op {
                    Op::IAdd => x.plus(&y),
                    Op::ISub => x.plus(&y.negated()),
                    _ => x.times(&y),
                };
                self.ring_of(width, result)
            }
            Op::SNegate => {
                let x = number(self, 0);
                self.ring_of(width, x.negated())
            }
            Op::Not => {
                let x = number(self, 0);
                let less = self.integer_constant(-1);
                self.ring_of(width, x.negated().plus(&less))
            }
            Op::BitwiseAnd | Op::BitwiseOr | Op::BitwiseXor => self.logic(op, width, v),
            Op::ShiftLeftLogical | Op::ShiftRightLogical | Op::ShiftRightArithmetic => return self.shift(op, width, v),
            Op::BitFieldUExtract | Op::BitFieldSExtract | Op::BitFieldInsert => return self.field(op, width, v),
            Op::UDiv | Op::UMod => {
                return self.division_by_power(op, width, v).or_else(|| self.narrow_division(op, width, v));
            }
            _ => return None,
        })
    }

    /// Returns the result of a product of a pattern with a power of two, or of its sum with itself: the bits shifted, if none is
    /// lost at the top.
    fn shifted(&mut self, op: Op, width: u32, v: &[Value]) -> Option<Taint> {
        let power = |v: Value| (v.term.is_none() && v.bits.is_power_of_two()).then(|| v.bits.trailing_zeros());
        let (of, by) = match (op, v) {
            (Op::IMul, [x, y]) if [x, y].iter().any(|v| v.term.is_none() && v.bits == 0) => return Some(Taint::Exact),
            (Op::IMul, [x, y]) => power(*y).map(|by| (*x, by)).or_else(|| power(*x).map(|by| (*y, by)))?,
            (Op::IAdd, [x, y]) if x.term.is_some() && Symbols::identity(*x) == Symbols::identity(*y) => (*x, 1),
            _ => return None,
        };
        if of.term.is_none_or(|term| term.sort() == Sort::Ring) {
            return None;
        }
        let parts = self.parts(of, width);
        let zero = [Part { source: Source::Constant, from: 0, len: by }];
        let fits = by == 0 || bits::slice(&parts, width - by, by).as_slice() == zero;
        fits.then(|| self.of_parts(bits::shifted_left(&parts, width, by)))
    }

    fn logic(&mut self, op: Op, width: u32, v: &[Value]) -> Taint {
        let (a, b) = (self.parts(v[0], width), self.parts(v[1], width));
        let rule = |x: Option<bool>, y: Option<bool>| match (op, x, y) {
            (Op::BitwiseAnd, Some(false), _) | (Op::BitwiseAnd, _, Some(false)) => Some(Bit::Constant(false)),
            (Op::BitwiseAnd, Some(true), _) | (Op::BitwiseOr | Op::BitwiseXor, Some(false), _) => Some(Bit::Second),
            (Op::BitwiseAnd, _, Some(true)) | (Op::BitwiseOr | Op::BitwiseXor, _, Some(false)) => Some(Bit::First),
            (Op::BitwiseOr, Some(true), _) | (Op::BitwiseOr, _, Some(true)) => Some(Bit::Constant(true)),
            (Op::BitwiseXor, Some(true), Some(true)) => Some(Bit::Constant(false)),
            _ => None,
        };
        match bits::bitwise(&a, &b, width, rule) {
            // The same bit twice cancels.
            Some(_) if op == Op::BitwiseXor && a == b => Taint::Exact,
            Some(parts) if op != Op::BitwiseXor || !overlap(&a, &b, width) => self.of_parts(parts),
            _ => {
                let taint = self.together(op, width, v);
                self.note_logic(op, width, v, taint);
                taint
            }
        }
    }

    /// Returns the result of `and`, `or` or `xor` as that of all operands together, in whatever order and grouping. One that is there
    /// twice counts once for the first two, and not at all for the last.
    fn together(&mut self, op: Op, width: u32, v: &[Value]) -> Taint {
        let mut members: Vec<u64> = Vec::new();
        for value in v {
            let word = self.symbol("operand", &Symbols::identity(*value)).bits();
            match self.together.get(&word) {
                Some((of, inner)) if *of == op => members.extend(inner),
                _ => {
                    members.push(word);
                    self.operands.insert(word, *value);
                }
            }
        }
        members.sort_unstable();
        if op == Op::BitwiseXor {
            let odd = |same: &[u64]| (same.len() % 2 == 1).then_some(same[0]);
            members = members.chunk_by(|a, b| a == b).filter_map(odd).collect();
        } else {
            members.dedup();
        }
        let taint = match *members.as_slice() {
            [] => Taint::Exact,
            [one] => self.operands.get(&one).and_then(|value| value.term).map_or(Taint::Exact, Taint::Term),
            _ => self.opaque(width, op.name().unwrap_or("?"), &members),
        };
        if let (Taint::Term(term), true) = (taint, members.len() > 1) {
            let word = self.symbol("operand", &Symbols::identity(Value { bits: 0, term: Some(term) })).bits();
            self.together.insert(word, (op, members.into()));
        }
        taint
    }

    fn shift(&mut self, op: Op, width: u32, v: &[Value]) -> Option<Taint> {
        if v[1].term.is_some() {
            return None;
        }
        let by = u32::try_from(v[1].bits).unwrap_or(u32::MAX);
        if op == Op::ShiftLeftLogical && by < width && v[0].term.is_some_and(|term| term.sort() == Sort::Ring) {
            let (x, power) = (self.integer(v[0], width, true, width), self.integer_constant(1 << by));
            return Some(self.ring_of(width, x.times(&power)));
        }
        let parts = self.parts(v[0], width);
        let parts = match op {
            Op::ShiftLeftLogical => bits::shifted_left(&parts, width, by),
            _ => bits::shifted_right(&parts, width, by, op == Op::ShiftRightArithmetic),
        };
        Some(self.of_parts(parts))
    }

    /// Returns the result of a division by a power of two: the bits above it, or those below.
    fn division_by_power(&mut self, op: Op, width: u32, v: &[Value]) -> Option<Taint> {
        let divisor = v[1];
        if divisor.term.is_some() || !divisor.bits.is_power_of_two() {
            return None;
        }
        let by = divisor.bits.trailing_zeros();
        let parts = self.parts(v[0], width);
        let parts = match op {
            Op::UDiv => bits::shifted_right(&parts, width, by, false),
            _ if by == 0 => return Some(Taint::Exact),
            _ => bits::resized(&bits::slice(&parts, 0, by), by, width, false),
        };
        Some(self.of_parts(parts))
    }

    /// Returns the result of a division of numbers that have zeros above: that of the numbers without these, in whatever width. `None`
    /// if they have all the bits.
    fn narrow_division(&mut self, op: Op, width: u32, v: &[Value]) -> Option<Taint> {
        let parts: SmallVec<[Pattern; 2]> = v.iter().map(|v| self.parts(*v, width)).collect();
        let used = |parts: &Pattern| match parts.last() {
            Some(top) if top.source == Source::Constant => width - (top.len - (64 - top.from.leading_zeros())),
            _ => width,
        };
        let narrow = parts.iter().map(used).max().filter(|used| (1..width).contains(used))?;
        let mut ids: SmallVec<[u64; 4]> = SmallVec::new();
        for (v, parts) in v.iter().zip(&parts) {
            let term = match self.of_parts(bits::slice(parts, 0, narrow)) {
                Taint::Term(term) => Some(term),
                _ => None,
            };
            ids.extend(Symbols::identity(Value { bits: mask(v.bits, narrow), term }));
        }
        let Taint::Term(term) = self.opaque(narrow, &format!("{op} {narrow}"), &ids) else { return None };
        let quotient = self.parts(Value { bits: 0, term: Some(term) }, narrow);
        Some(self.of_parts(bits::resized(&quotient, narrow, width, false)))
    }

    fn field(&mut self, op: Op, width: u32, v: &[Value]) -> Option<Taint> {
        let [offset, count] = if op == Op::BitFieldInsert { [v[2], v[3]] } else { [v[1], v[2]] };
        if offset.term.is_some() || count.term.is_some() {
            return None;
        }
        let (offset, count) = (u32::try_from(offset.bits).ok()?, u32::try_from(count.bits).ok()?);
        if offset.checked_add(count)? > width || count == 0 {
            return None;
        }
        let base = self.parts(v[0], width);
        let parts = if op == Op::BitFieldInsert {
            let insert = self.parts(v[1], width);
            let above = offset + count;
            let low = bits::slice(&base, 0, offset);
            bits::joined([&low[..], &bits::slice(&insert, 0, count), &bits::slice(&base, above, width - above)])
        } else {
            bits::resized(&bits::slice(&base, offset, count), count, width, op == Op::BitFieldSExtract)
        };
        Some(self.of_parts(parts))
    }

    /// Returns the result of an uninterpreted function of two operands in either order.
    pub(super) fn commutative(&mut self, op: Op, width: u32, v: &[Value]) -> Taint {
        let mut ids = [Symbols::identity(v[0]), Symbols::identity(v[1])];
        ids.sort_unstable();
        self.opaque(width, op.name().unwrap_or("?"), ids.as_flattened())
    }

    /// Returns the result of a conversion.
    pub(super) fn convert(&mut self, conv: &Conv, v: Value) -> Taint {
        let taint = self.converted(conv, v);
        let exact = self.arithmetic == Arithmetic::Reals && conv.op == Op::FConvert && !conv.saturate;
        let rule = || if exact { Rule::Same } else { Rule::Function(conv.op.name().unwrap_or("?").into()) };
        self.made(taint, rule, [Operand { value: v, num: conv.from }]);
        taint
    }

    fn converted(&mut self, conv: &Conv, v: Value) -> Taint {
        let (from, to) = (conv.from, conv.to);
        let (fw, tw) = (from.bits(), to.bits());
        // SPV_KHR_bfloat16 has f32 between, so that the number may be rounded twice.
        let twice = to == Num::Bf16 && (from == Num::F64 || !from.is_float() && fw > Num::F32.precision());
        match conv.op {
            op if twice => self.opaque(tw, &format!("{op} {fw} {tw} {:?}", conv.mode), &Symbols::identity(v)),
            Op::FConvert if !(conv.saturate && (from == Num::E8M0 || to == Num::E8M0)) => {
                let v = self.bounded(conv, v);
                self.round(conv, v)
            }
            Op::ConvertSToF | Op::ConvertUToF if !conv.saturate => {
                let number = self.exact_integer(v, fw, conv.op == Op::ConvertSToF);
                self.rounded(to, conv.mode, fw >= to.precision(), number)
            }
            Op::ConvertFToS | Op::ConvertFToU => {
                let (x, _) = self.number(v, from);
                self.opaque(tw, &format!("{} {tw}", conv.op), &[x.bits(), u64::from(conv.saturate)])
            }
            Op::UConvert | Op::SConvert if !conv.saturate => {
                let parts = self.parts(v, fw);
                let parts = bits::resized(&parts, fw, tw, conv.op == Op::SConvert);
                self.of_parts(parts)
            }
            op => self.opaque(tw, &format!("{op} {fw} {tw}"), &Symbols::identity(v)),
        }
    }
}

/// Returns true if a bit of the second pattern is not 0 where one of the first is not.
fn overlap(a: &[Part], b: &[Part], width: u32) -> bool {
    let both = |x: Option<bool>, y: Option<bool>| match (x, y) {
        (Some(false), _) | (_, Some(false)) => Some(Bit::Constant(false)),
        _ => Some(Bit::Constant(true)),
    };
    let zero = [Part { source: Source::Constant, from: 0, len: width }];
    bits::bitwise(a, b, width, both).is_none_or(|bits| bits.as_slice() != zero)
}
