//! Runs a module for all contents of its data buffers at once: beside each value its term (`term`), an expression over
//! those contents that is known by a fingerprint in a finite field (`field`). docs/proofs.md has the theory.
//!
//! Control data stays concrete: addresses, branches and integers that do not come from data buffers are what an ordinary
//! run computes. Where data decides a branch, an address or an operand that must be uniform, the run follows the concrete
//! data and records the decision.
//!
//! How it is built in: the term of a value travels as its [`Taint`], through registers, matrices and callbacks, as error
//! bounds do. After each instruction that has executed, [`refine`] computes the terms of the results. The rule
//! of `Taint::with` is that what depends on a term in a way that nobody described is `UNKNOWN`; such a value is never
//! part of a proof. An instruction that is forgotten here therefore costs a proof and never makes one.

mod arithmetic;
mod bits;
mod compare;
mod conditions;
mod coverage;
mod exact;
mod explain;
mod expression;
mod extended;
mod field;
mod integer;
mod matrix;
mod memory;
mod modular;
mod rounding;
mod saturation;
pub(super) mod term;

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hasher};

use coop_ir::hash::{FxHashMap, FxHashSet};
use coop_ir::{InstRef, Op};

use smallvec::SmallVec;

use super::code::Ins;
use super::num::Num;
use super::registers::Regs;
use super::taint::Taint;
use bits::{Known, Part};
pub use compare::{Agreement, Elements, Fingerprints, Mismatch};
pub use coverage::Blocks;
pub(super) use coverage::Trace;
use exact::Exact;
pub use expression::ExpressionDifference;
use expression::{Expressions, Operand, Rule};
use field::Fp;
pub(super) use matrix::Multiplication;
use memory::Cells;
use modular::{Integer, Modular};
use saturation::Forms;
use term::{Degree, Key, Sort, Term};

/// The meaning of float arithmetic in a proof.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Arithmetic {
    /// That of the real numbers: nothing rounds.
    #[default]
    Reals,
    /// That of the real numbers, but conversions to formats with fewer values are functions of which nothing is known.
    Rounding,
    /// Each operation is a function of which nothing is known, except that addition and multiplication commute.
    Strict,
}

/// The options of a symbolic run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Symbolic {
    /// The meaning of float arithmetic.
    pub arithmetic: Arithmetic,
    /// The seed of the symbols' values.
    pub seed: u64,
    /// True for each buffer whose contents are data; the others have the given contents only.
    pub data: Vec<bool>,
    /// True to count integers modulo powers of two: slower, and knows what the field does not.
    pub modular: bool,
    /// True if conversions that do not say how they round do so to the nearest number: one of the ways in which they may.
    pub nearest: bool,
    /// True to keep how each term came about, for [`Fingerprints::difference`].
    pub expressions: bool,
    /// The decisions by data that are taken for given: choices by these values are decided.
    pub given: Decisions,
}

/// Values that decide something, each with what it is.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Decisions(BTreeSet<(Key, u64)>);

/// The value of an operand, with its term if it depends on data.
#[derive(Clone, Copy, Debug)]
struct Value {
    bits: u64,
    term: Option<Term>,
}

/// The operands of an instruction; most have at most four.
type Values = SmallVec<[Value; 4]>;

/// A number of the field with the bound of its degree.
type Number = (Fp, Degree);

/// The bits of a symbol that [`Symbols::maybe_numbers`] tells apart.
const FILTER_BITS: u32 = 18;

/// The terms of a run.
#[derive(Debug)]
pub(super) struct Symbols {
    arithmetic: Arithmetic,
    nearest: bool,
    seed: u64,
    /// The parts of the terms of sort `Bits`, by fingerprint.
    parts: FxHashMap<u64, Box<[Part]>>,
    known: Known,
    /// The terms that parts are bits of.
    atoms: FxHashMap<u64, Term>,
    /// The operands of minima and maxima, by fingerprint.
    extremes: FxHashMap<u64, (String, Box<[u64]>)>,
    /// The operands of bitwise operations of one kind, by the symbol of their result.
    together: FxHashMap<u64, (Op, Box<[u64]>)>,
    /// The values of such operands, by their symbols.
    operands: FxHashMap<u64, Value>,
    /// The format that a rounded number fits into.
    fits: FxHashMap<u64, Num>,
    /// The term that a number symbol is the value of, with the format in which it is read.
    numbers: FxHashMap<u64, (Term, Num)>,
    /// The symbols of terms that are read as numbers: fingerprint, kind and width of the term, and the format.
    symbols_of_numbers: FxHashMap<(u64, Sort, u8, Num), Fp>,
    /// A bit for each value of the lowest bits of a number symbol: most results are none.
    maybe_numbers: Vec<u64>,
    /// The integers, if they count modulo powers of two.
    modular: Option<Modular>,
    /// The numbers of patterns, by their names.
    patterns: FxHashMap<u64, Fp>,
    /// The bits that an integer symbol is the value of, and true if they are read as signed.
    integers: FxHashMap<u64, (Box<[Part]>, bool)>,
    /// The uninterpreted functions applied, each with its operands.
    applied: FxHashSet<u64>,
    /// The values from which overflows are computed.
    forms: Forms,
    /// The integers that no data makes wrap.
    exact: FxHashMap<Key, Exact>,
    /// The decisions that are given.
    given: BTreeSet<(Key, u64)>,
    /// The largest degree.
    degree: u32,
    /// True if a degree is not bounded.
    degree_lost: bool,
    /// The values that decided something, each with what it was in this run.
    pub decisions: BTreeSet<(Key, u64)>,
    /// The instructions behind `decisions`, for messages.
    pub decided: BTreeMap<(Key, u64), (InstRef, String)>,
    /// The operation that lost a term in the instruction that executes.
    pub lost_now: Option<String>,
    /// The first instruction that lost a term.
    pub lost: Option<(InstRef, String)>,
    /// How terms came about, if that is asked for.
    expressions: Option<Expressions>,
    /// The ways of control.
    pub trace: Trace,
    /// A decision that depends on data in a way that is not known.
    pub depends: Option<String>,
    cells: Cells,
}

impl Symbols {
    pub(super) fn new(options: &Symbolic) -> Symbols {
        Symbols {
            arithmetic: options.arithmetic,
            nearest: options.nearest,
            seed: options.seed,
            parts: FxHashMap::default(),
            known: Known::default(),
            atoms: FxHashMap::default(),
            extremes: FxHashMap::default(),
            together: FxHashMap::default(),
            operands: FxHashMap::default(),
            fits: FxHashMap::default(),
            numbers: FxHashMap::default(),
            symbols_of_numbers: FxHashMap::default(),
            maybe_numbers: vec![0; 1 << (FILTER_BITS - 6)],
            modular: options.modular.then(Modular::default),
            patterns: FxHashMap::default(),
            integers: FxHashMap::default(),
            applied: FxHashSet::default(),
            forms: Forms::default(),
            exact: FxHashMap::default(),
            given: options.given.0.clone(),
            degree: 0,
            degree_lost: false,
            decisions: BTreeSet::new(),
            decided: BTreeMap::new(),
            lost_now: None,
            lost: None,
            expressions: options.expressions.then(Expressions::default),
            trace: Trace::default(),
            depends: None,
            cells: Cells::new(&options.data),
        }
    }

    /// Returns the random element that stands for a symbol. The tag keeps kinds of symbols apart.
    fn symbol(&self, tag: &str, of: &[u64]) -> Fp {
        let mut hasher = self.hasher(tag);
        hasher.write_u64(of.len() as u64);
        for word in of {
            hasher.write_u64(*word);
        }
        Fp::new(hasher.finish())
    }

    fn hasher(&self, tag: &str) -> DefaultHasher {
        let mut hasher = DefaultHasher::new();
        hasher.write_u64(self.seed);
        hasher.write(tag.as_bytes());
        hasher
    }

    /// Returns the symbol of an uninterpreted function of operands.
    fn function(&mut self, tag: &str, of: &[u64]) -> Number {
        let result = self.symbol(tag, of);
        self.applied.insert(result.bits());
        (result, Degree::FUNCTION)
    }

    /// Returns a float result.
    fn float(&mut self, num: Num, (value, degree): Number) -> Taint {
        match degree.bound() {
            Some(bound) => self.degree = self.degree.max(bound),
            None => self.degree_lost = true,
        }
        if self.maybe_number(value)
            && let Some((term, format)) = self.numbers.get(&value.bits())
            && *format == num
        {
            // A symbol alone: the bits that it is the number of.
            return Taint::Term(*term);
        }
        match Sort::of(num) {
            Some(sort) => Taint::Term(Term::new(sort, num.bits(), value.bits(), degree)),
            None => self.lose("a float result of an integer type"),
        }
    }

    /// Returns false if a number is no symbol, of those of [`Symbols::numbers`].
    fn maybe_number(&self, value: Fp) -> bool {
        let low = value.bits() as usize & ((1 << FILTER_BITS) - 1);
        self.maybe_numbers[low / 64] >> (low % 64) & 1 == 1
    }

    /// Records the term that a symbol is the number of.
    fn is_number(&mut self, symbol: Fp, term: Term, format: Num) {
        let low = symbol.bits() as usize & ((1 << FILTER_BITS) - 1);
        self.maybe_numbers[low / 64] |= 1 << (low % 64);
        self.numbers.entry(symbol.bits()).or_insert((term, format));
    }

    /// Returns a result of which only the operation and its operands are known.
    fn opaque(&mut self, width: u32, tag: &str, of: &[u64]) -> Taint {
        let (value, degree) = self.function(tag, of);
        Taint::Term(Term::new(Sort::Opaque, width, value.bits(), degree))
    }

    /// Returns the taint of a result whose term is not known.
    pub(super) fn lose(&mut self, why: impl Into<String>) -> Taint {
        self.lost_now.get_or_insert(why.into());
        Taint::UNKNOWN
    }

    /// Records that a value decided something.
    pub(super) fn decide(&mut self, term: Term, bits: u64, at: InstRef, what: &str) {
        let decision = (term.key(), bits);
        if self.decisions.insert(decision) {
            self.decided.insert(decision, (at, what.to_owned()));
        }
    }

    /// Returns words that identify a value.
    fn identity(value: Value) -> [u64; 2] {
        match value.term {
            None => [value.bits, u64::MAX],
            Some(term) => {
                let key = term.key();
                [key.fingerprint, u64::from(key.width) << 8 | key.sort as u64]
            }
        }
    }
}

/// Reads the operands in rows of an invocation. Returns false if the taint of the result is right as it is: no operand
/// depends on data, one is undefined, or the term of one is lost.
fn operands(regs: &Regs, rows: &[u32], lane: usize, values: &mut Values) -> bool {
    let mut depends = false;
    values.clear();
    for row in rows {
        let term = match regs.taint(*row, lane) {
            Taint::Exact => None,
            Taint::Term(term) => {
                depends = true;
                Some(term)
            }
            Taint::Inexact { .. } | Taint::Undefined => return false,
        };
        values.push(Value { bits: regs.get(*row, lane), term });
    }
    depends
}

/// Computes the terms of the results of an instruction on registers alone, after it was executed.
pub(super) fn refine(regs: &mut Regs, ins: &Ins) {
    let Some(mut symbols) = regs.symbols.take() else { return };
    match ins {
        // What moves whole values moves their terms.
        Ins::Copy { .. } | Ins::Rows { .. } | Ins::Undef { .. } => {}
        Ins::Each { op, num, dst, args, n } => {
            for i in 0..*n {
                let rows = each_rows(*op, args, i);
                apply(regs, &rows, dst + i, |values| symbols.each(*op, *num, values));
            }
        }
        Ins::Ext { op, num, dst, args, n } => {
            let arity = super::glsl_std_450::arity(*op);
            for i in 0..*n {
                let rows: SmallVec<[u32; 4]> = args[..arity].iter().map(|row| row + i).collect();
                apply(regs, &rows, dst + i, |values| symbols.extended(*op, *num, values));
            }
        }
        Ins::Convert { conv, dst, a, n } => {
            for i in 0..*n {
                apply(regs, &[a + i], dst + i, |values| symbols.convert(conv, values[0]));
            }
        }
        Ins::Select { cond, wide, dst, a, b, n, num } => {
            for i in 0..*n {
                let cond = if *wide { cond + i } else { *cond };
                if regs.any_taint(cond..cond + 1) {
                    // Only a condition that depends on data: else the result is one of the two as it is.
                    let rows = [cond, a + i, b + i];
                    let wanted = |regs: &Regs, lane| depends(regs, cond, lane);
                    apply_where(regs, wanted, &rows, dst + i, |values| symbols.select(*num, values));
                }
            }
        }
        Ins::Extract { dst, index, .. } => {
            apply(regs, &[*index], *dst, |_| symbols.lose("an index into a vector that depends on data"));
        }
        Ins::Insert { dst, n, index, .. } => {
            for row in *dst..dst + n {
                apply(regs, &[*index], row, |_| symbols.lose("an index into a vector that depends on data"));
            }
        }
        Ins::Lane { f, dst, n, args } => symbols.lane(regs, f, *dst, *n, args),
        _ => {}
    }
    regs.symbols = Some(symbols);
}

/// Returns the rows of the operands of a component.
fn each_rows(op: Op, args: &[u32; 4], i: u32) -> SmallVec<[u32; 4]> {
    let arity = op.required_operands().min(4);
    // Offset and count of a bit field are the same for all components.
    let scalars = if op.is_bit_field() { 2 } else { 0 };
    let own = arity - scalars.min(arity);
    args[..arity].iter().enumerate().map(|(k, row)| if k < own { row + i } else { *row }).collect()
}

/// Sets the taint of a result in each active invocation where operands depend on data.
fn apply(regs: &mut Regs, rows: &[u32], dst: u32, f: impl FnMut(&[Value]) -> Taint) {
    if rows.iter().any(|row| regs.any_taint(*row..row + 1)) {
        apply_where(regs, |_, _| true, rows, dst, f);
    }
}

/// Like [`apply`], for some invocations.
fn apply_where(
    regs: &mut Regs,
    wanted: impl Fn(&Regs, usize) -> bool,
    rows: &[u32],
    dst: u32,
    mut f: impl FnMut(&[Value]) -> Taint,
) {
    let mut values = Values::new();
    for k in 0..regs.act.list.len() {
        let lane = regs.act.list[k] as usize;
        // An operand out of its range makes the result undefined, whatever the others are.
        if wanted(regs, lane) && !regs.is_undefined(dst, lane) && operands(regs, rows, lane, &mut values) {
            let taint = f(&values);
            regs.set_taint(dst, lane, taint);
        }
    }
}

/// Returns true if the value of a row depends on data.
fn depends(regs: &Regs, row: u32, lane: usize) -> bool {
    matches!(regs.taint(row, lane), Taint::Term(_))
}
