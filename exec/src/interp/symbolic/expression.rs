//! Expressions: how terms came about, kept only in a run that is asked for them ([`super::Symbolic::expressions`]).
//!
//! A node belongs to a term and has the operands of the instruction that made it; terms are known by their fingerprints, so
//! equal terms share a node. Two expressions are compared as polynomials: sums and products are multiplied out, as far as
//! that stays small, and what both have is left out.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write};

use coop_ir::Op;
use coop_ir::grammar::ext_inst_set;
use coop_ir::hash::FxHashMap;
use coop_ir::spv::GlslStd450 as Glsl;

use super::super::num::{Num, mask, signed};
use super::super::taint::Taint;
use super::bits::{Part, Source};
use super::compare::{Elements, Fingerprints, Mismatch};
use super::term::{Key, Sort, Term};
use super::{Symbols, Value};

/// The most operands that are kept.
const MOST_OPERANDS: usize = 8 << 20;

/// The most products of a sum that is multiplied out.
const MOST_PRODUCTS: usize = 4096;

/// The operations inside each other at most in an expression that is multiplied out: each takes some of a thread's stack.
const MOST_LEVELS: u32 = 512;

/// The most terms of a sum that are printed.
const MOST_PRINTED: usize = 4;

/// The depth to which functions are printed, and how many characters of them.
const MOST_DEPTH: u32 = 4;
const MOST_TEXT: usize = 240;

/// The operation of a node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Rule {
    /// The sum of all operands.
    Sum,
    /// The first without the second.
    Difference,
    Negated,
    /// The sum of the products of this many pairs, and of the other operands.
    Products(usize),
    /// The number itself, in another format.
    Same,
    Function(Box<str>),
}

/// An operand, and how it is read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operand {
    pub value: Value,
    pub num: Num,
}

#[derive(Debug)]
struct Node {
    rule: Rule,
    operands: Box<[Operand]>,
}

/// The nodes of a run.
#[derive(Debug, Default)]
pub(super) struct Expressions {
    nodes: FxHashMap<Key, Node>,
    operands: usize,
}

/// Two expressions that differ.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ExpressionDifference {
    /// The element.
    pub place: String,
    /// The expression that the original stores.
    pub original: String,
    /// The expression that the lowered module stores.
    pub lowered: String,
    /// Terms that only one of them has, if both are sums: of the original, of the lowered module.
    pub only: Option<[String; 2]>,
    /// The functions that the expression of the original applies, and that of the lowered module.
    pub functions: [BTreeSet<String>; 2],
}

impl fmt::Display for ExpressionDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ExpressionDifference { place, original, lowered, only, .. } = self;
        write!(f, "in the original {place} is {original}\nin the lowered module {place} is {lowered}")?;
        if let Some([original, lowered]) = only {
            write!(f, "\nonly in the original: {original}\nonly in the lowered module: {lowered}")?;
        }
        Ok(())
    }
}

impl Symbols {
    /// Keeps how a term came about, if expressions are asked for.
    pub(super) fn made(
        &mut self,
        taint: Taint,
        rule: impl FnOnce() -> Rule,
        operands: impl IntoIterator<Item = Operand>,
    ) {
        let (Some(kept), Taint::Term(term)) = (&mut self.expressions, taint) else { return };
        if term.as_input().is_some() || kept.operands >= MOST_OPERANDS || kept.nodes.contains_key(&term.key()) {
            return;
        }
        let operands: Box<[Operand]> = operands.into_iter().collect();
        // What an instruction gives back as it is has a node, or is none.
        if operands.iter().any(|o| o.value.term.is_some_and(|of| of.key() == term.key())) {
            return;
        }
        kept.operands += operands.len();
        kept.nodes.insert(term.key(), Node { rule: rule(), operands });
    }

    /// Keeps how the result of an instruction on components came about.
    pub(super) fn made_by(&mut self, op: Op, num: Num, v: &[Value], taint: Taint) {
        let rule = || match op {
            Op::FAdd | Op::IAdd => Rule::Sum,
            Op::FSub | Op::ISub => Rule::Difference,
            Op::FNegate | Op::SNegate => Rule::Negated,
            Op::FMul | Op::IMul | Op::FmaKHR => Rule::Products(1),
            _ => Rule::Function(op.name().unwrap_or("?").into()),
        };
        self.made(taint, rule, v.iter().map(|value| Operand { value: *value, num }));
    }

    /// Keeps how the result of an instruction of GLSL.std.450 came about.
    pub(super) fn made_by_extended(&mut self, op: Glsl, num: Num, v: &[Value], taint: Taint) {
        let rule = || match op {
            Glsl::Fma => Rule::Products(1),
            _ => {
                let set = ext_inst_set("GLSL.std.450");
                let name = set.and_then(|set| set.iter().find(|inst| inst.number == op.0));
                Rule::Function(name.map_or_else(|| op.0.to_string(), |inst| inst.name.to_owned()).into())
            }
        };
        self.made(taint, rule, v.iter().map(|value| Operand { value: *value, num }));
    }

    /// Keeps how the sum of the products of pairs came about.
    pub(super) fn made_by_products(&mut self, num: Num, pairs: &[(Value, Value)], rest: Option<Operand>, taint: Taint) {
        if self.expressions.is_some() {
            let factors = pairs.iter().flat_map(|(x, y)| [*x, *y]).map(|value| Operand { value, num });
            self.made(taint, || Rule::Products(pairs.len()), factors.chain(rest));
        }
    }
}

/// A factor of a product: a term, and the format that it is read in.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Factor {
    key: Key,
    number: u64,
}

/// The sum of the products of factors, each with its coefficient.
type Polynomial = BTreeMap<Vec<Factor>, f64>;

/// The printer of the expressions of a run.
struct Printer<'a> {
    symbols: &'a Symbols,
    buffers: &'a [Elements],
    name: &'a dyn Fn(usize, usize) -> String,
    /// The terms of factors, with how they are read.
    factors: BTreeMap<Factor, (Term, Num)>,
}

impl Fingerprints {
    /// Returns the expressions that two runs store in an element. Both runs kept expressions.
    pub fn difference(
        original: &mut Fingerprints,
        lowered: &mut Fingerprints,
        buffers: &[Elements],
        of: Mismatch,
        name: &dyn Fn(usize, usize) -> String,
    ) -> ExpressionDifference {
        let size = buffers[of.buffer].size;
        let read = |side: &mut Fingerprints| side.element(of.buffer, of.element * size, size);
        let [a, b] = [read(original), read(lowered)];
        let num =
            [a.0, b.0].into_iter().find_map(read_as).unwrap_or(Num::Int { width: (8 * size) as u8, signed: false });
        let operand = |(taint, bits): (Taint, u64)| {
            let term = if let Taint::Term(term) = taint { Some(term) } else { None };
            Operand { value: Value { bits, term }, num }
        };
        let mut sides = [(&*original, operand(a)), (&*lowered, operand(b))].map(|(side, operand)| {
            let symbols = &side.symbols;
            let mut printer = Printer { symbols, buffers, name, factors: BTreeMap::new() };
            let polynomial = printer.polynomial(operand, &mut { MOST_PRODUCTS }, MOST_LEVELS);
            (printer, operand, polynomial)
        });
        let text = |(printer, operand, polynomial): &mut (Printer<'_>, Operand, Option<Polynomial>)| match polynomial {
            Some(polynomial) => printer.sum(polynomial.iter().map(|(of, c)| (of.as_slice(), *c))),
            None => printer.text(*operand, MOST_DEPTH),
        };
        let [x, y] = &mut sides;
        let (original, lowered) = (text(x), text(y));
        let only = match (&x.2, &y.2) {
            (Some(p), Some(q)) if p.len() > 1 || q.len() > 1 => Some([x.0.sum(without(p, q)), y.0.sum(without(q, p))]),
            _ => None,
        };
        let functions = [x, y].map(|(printer, operand, _)| printer.functions(*operand));
        ExpressionDifference { place: name(of.buffer, of.element), original, lowered, only, functions }
    }
}

/// Returns what a sum has that another has not.
fn without<'p>(p: &'p Polynomial, q: &'p Polynomial) -> impl Iterator<Item = (&'p [Factor], f64)> {
    p.iter().filter(|(of, c)| q.get(*of) != Some(c)).map(|(of, c)| (of.as_slice(), *c))
}

/// Returns how a term is read as a number.
fn read_as(taint: Taint) -> Option<Num> {
    let Taint::Term(term) = taint else { return None };
    match term.sort() {
        Sort::Ring => Some(Num::Int { width: term.width() as u8, signed: true }),
        sort => sort.format(),
    }
}

impl Printer<'_> {
    /// Multiplies an expression out. `None` if that has more than so many products, or operations inside each other.
    fn polynomial(&mut self, of: Operand, most: &mut usize, levels: u32) -> Option<Polynomial> {
        let Operand { value, num } = of;
        *most = most.checked_sub(1)?;
        let levels = levels.checked_sub(1)?;
        let Some(term) = value.term else {
            return Some(BTreeMap::from([(Vec::new(), constant(value.bits, num))]));
        };
        let kept = self.symbols.expressions.as_ref()?;
        let Some(Node { rule, operands }) = kept.nodes.get(&term.key()) else { return Some(self.factor(term, num)) };
        let scaled = |p: Polynomial, by: f64| p.into_iter().map(|(of, c)| (of, c * by)).collect::<Polynomial>();
        let mut out = Polynomial::new();
        match rule {
            Rule::Function(_) => return Some(self.factor(term, num)),
            Rule::Sum => {
                for operand in operands {
                    add(&mut out, self.polynomial(*operand, most, levels)?);
                }
            }
            Rule::Difference => {
                add(&mut out, self.polynomial(operands[0], most, levels)?);
                add(&mut out, scaled(self.polynomial(operands[1], most, levels)?, -1.0));
            }
            Rule::Negated => add(&mut out, scaled(self.polynomial(operands[0], most, levels)?, -1.0)),
            Rule::Same => out = self.polynomial(operands[0], most, levels)?,
            Rule::Products(pairs) => {
                let (factors, rest) = operands.split_at(2 * pairs);
                for pair in factors.chunks(2) {
                    let (p, q) = (self.polynomial(pair[0], most, levels)?, self.polynomial(pair[1], most, levels)?);
                    *most = most.checked_sub(p.len() * q.len())?;
                    add(&mut out, product(&p, &q));
                }
                for operand in rest {
                    add(&mut out, self.polynomial(*operand, most, levels)?);
                }
            }
        }
        out.retain(|_, c| *c != 0.0);
        Some(out)
    }

    fn factor(&mut self, term: Term, num: Num) -> Polynomial {
        let number = Sort::of(num).map_or(u64::MAX, |sort| sort as u64);
        let factor = Factor { key: term.key(), number };
        self.factors.insert(factor, (term, num));
        BTreeMap::from([(vec![factor], 1.0)])
    }

    /// Returns the names of the functions in an expression.
    fn functions(&self, of: Operand) -> BTreeSet<String> {
        let (mut names, mut seen, mut open) = (BTreeSet::new(), BTreeSet::new(), vec![of]);
        while let Some(Operand { value, .. }) = open.pop() {
            let Some(term) = value.term.filter(|term| seen.len() < MOST_PRODUCTS && seen.insert(term.key())) else {
                continue;
            };
            if let Some(node) = self.symbols.expressions.as_ref().and_then(|kept| kept.nodes.get(&term.key())) {
                if let Rule::Function(name) = &node.rule {
                    names.insert(name.to_string());
                }
                open.extend(node.operands.iter().copied());
            } else if let Some(parts) =
                self.symbols.parts.get(&term.fingerprint()).filter(|_| term.sort() == Sort::Bits)
            {
                let atoms = parts.iter().filter_map(|part| match part.source {
                    Source::Atom(atom) => self.symbols.atoms.get(&atom).copied(),
                    _ => None,
                });
                open.extend(atoms.map(|term| Operand { value: Value { bits: 0, term: Some(term) }, num: Num::U32 }));
            }
        }
        names
    }

    /// Prints a sum of products.
    fn sum<'p>(&self, products: impl Iterator<Item = (&'p [Factor], f64)>) -> String {
        let mut printed: Vec<(String, f64)> = products
            .map(|(of, c)| {
                let factors: Vec<String> = of
                    .iter()
                    .filter_map(|factor| self.factors.get(factor))
                    .map(|(term, num)| {
                        self.text(Operand { value: Value { bits: 0, term: Some(*term) }, num: *num }, MOST_DEPTH)
                    })
                    .collect();
                (factors.join(" * "), c)
            })
            .collect();
        printed.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
        let mut out = String::new();
        for (i, (product, c)) in printed.iter().take(MOST_PRINTED).enumerate() {
            let size = c.abs();
            out.push_str(match (i, *c < 0.0) {
                (0, false) => "",
                (0, true) => "-",
                (_, false) => " + ",
                (_, true) => " - ",
            });
            let _ = match (product.is_empty(), size == 1.0) {
                (true, _) => write!(out, "{size}"),
                (false, true) => write!(out, "{product}"),
                (false, false) => write!(out, "{size} * {product}"),
            };
        }
        match printed.len() {
            0 => out.push('0'),
            n if n > MOST_PRINTED => _ = write!(out, " + … ({n} terms)"),
            _ => {}
        }
        out
    }

    /// Prints an expression to a depth.
    fn text(&self, of: Operand, depth: u32) -> String {
        let Some(term) = of.value.term else { return constant(of.value.bits, of.num).to_string() };
        if let Some((buffer, from)) = term.as_input() {
            return self.input(buffer as usize, from, term.width());
        }
        if depth == 0 {
            return "…".to_owned();
        }
        let node = self.symbols.expressions.as_ref().and_then(|kept| kept.nodes.get(&term.key()));
        let mut out = match (node, self.symbols.parts.get(&term.fingerprint())) {
            (Some(node), _) => self.node(node, depth - 1),
            (None, Some(parts)) if term.sort() == Sort::Bits => {
                let parts: Vec<String> = parts.iter().rev().map(|part| self.part(*part, depth - 1)).collect();
                format!("[{}]", parts.join(" : "))
            }
            _ => "…".to_owned(),
        };
        if let Some((end, _)) = out.char_indices().nth(MOST_TEXT) {
            out.truncate(end);
            out.push('…');
        }
        out
    }

    fn node(&self, node: &Node, depth: u32) -> String {
        let texts = |from: usize| -> Vec<String> {
            let shown = node.operands[from..].iter().take(MOST_PRINTED);
            let mut texts: Vec<String> = shown.map(|o| self.text(*o, depth)).collect();
            if node.operands.len() - from > texts.len() {
                texts.push("…".to_owned());
            }
            texts
        };
        match &node.rule {
            Rule::Function(name) => format!("{name}({})", texts(0).join(", ")),
            Rule::Sum => format!("({})", texts(0).join(" + ")),
            Rule::Difference => format!("({})", texts(0).join(" - ")),
            Rule::Negated => format!("-{}", texts(0).concat()),
            Rule::Same => texts(0).concat(),
            Rule::Products(pairs) => {
                let shown = node.operands[..2 * pairs].chunks(2).take(MOST_PRINTED);
                let mut terms: Vec<String> = shown
                    .map(|pair| pair.iter().map(|o| self.text(*o, depth)).collect::<Vec<_>>().join(" * "))
                    .collect();
                if *pairs > terms.len() {
                    terms.push("…".to_owned());
                }
                terms.extend(texts(2 * pairs));
                if terms.len() == 1 { terms.concat() } else { format!("({})", terms.join(" + ")) }
            }
        }
    }

    fn part(&self, part: Part, depth: u32) -> String {
        let (from, len) = (part.from, part.len);
        match part.source {
            Source::Constant => format!("{len} bits of {from:#x}"),
            Source::Input(buffer) => self.input(buffer as usize, from, len),
            Source::Atom(atom) => {
                let of = self.symbols.atoms.get(&atom).map_or_else(
                    || "…".to_owned(),
                    |term| {
                        let num = read_as(Taint::Term(*term))
                            .unwrap_or(Num::Int { width: term.width() as u8, signed: false });
                        self.text(Operand { value: Value { bits: 0, term: Some(*term) }, num }, depth)
                    },
                );
                format!("bits {from} to {} of {of}", from + u64::from(len) - 1)
            }
        }
    }

    /// Names bits of a buffer by its elements.
    fn input(&self, buffer: usize, from: u64, len: u32) -> String {
        let width = 8 * self.buffers[buffer].size.max(1) as u64;
        let (first, last) = (from / width, (from + u64::from(len) - 1) / width);
        let name = |element: u64| (self.name)(buffer, element as usize);
        let within = from % width;
        match (first == last, u64::from(len) == width) {
            (true, true) => name(first),
            (true, false) => format!("bits {within} to {} of {}", within + u64::from(len) - 1, name(first)),
            (false, _) if within == 0 && (from + u64::from(len)).is_multiple_of(width) => {
                format!("{} to {}", name(first), name(last))
            }
            (false, _) => format!("{len} bits from bit {within} of {} on", name(first)),
        }
    }
}

fn add(sum: &mut Polynomial, more: Polynomial) {
    for (of, c) in more {
        *sum.entry(of).or_default() += c;
    }
}

fn product(p: &Polynomial, q: &Polynomial) -> Polynomial {
    let mut out = Polynomial::new();
    for (a, x) in p {
        for (b, y) in q {
            let mut of = [a.as_slice(), b].concat();
            of.sort_unstable();
            *out.entry(of).or_default() += x * y;
        }
    }
    out
}

/// Returns the number that constant bits stand for.
fn constant(bits: u64, num: Num) -> f64 {
    match num {
        Num::Int { width, .. } => signed(mask(bits, width.into()), width.into()) as f64,
        _ => num.to_f64(bits),
    }
}
