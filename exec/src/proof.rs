//! Proves that two modules store the same for all contents of the data buffers, or finds out why not.
//!
//! Both run symbolically (`interp/symbolic`) with the same case, and what they store is compared by fingerprints. A proof
//! rests on these, each of which this file asks for:
//!
//! - the ordinary findings of both runs are empty: no race, no divergence, no undefined value that matters;
//! - each stored element has a term in both runs, and the terms are equal;
//! - no value decides something in the lowered module that decides nothing in the original;
//! - what the runs stored with the case's own data agrees as it does in `cooprun verify`: where a proof ignores rounding,
//!   this looks at it.
//!
//! docs/proofs.md has the theory and the bound of the error.

use std::fmt;

use coop_ir::{Id, Module};

use crate::case::{Buffer, BufferKind, Case};
use crate::error::Error;
use crate::interp::{
    Agreement, Arithmetic, Blocks, Decisions, Elements, ExpressionDifference, FREE_ORDER, Fingerprints, Interpreted,
    Mismatch, Report, Symbolic,
};
use crate::number;
use crate::tolerance::Tolerance;
use crate::witness::{self, Distance};

/// Runs are repeated with other values of the symbols until the error is less than this power of two.
const WANTED_LOG2: f64 = -40.0;

/// The most repetitions.
const MOST_ROUNDS: u32 = 4;

/// The most bytes of buffers in a proof: their terms, and who accessed them, take some hundred times that.
const MOST_BYTES: usize = 32 << 20;

/// The options of a proof.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Options {
    /// The meaning of float arithmetic.
    pub arithmetic: Arithmetic,
    /// The seed of the symbols' values.
    pub seed: u64,
    /// Buffers whose contents are those of the case, by name.
    pub fixed: Vec<String>,
    /// True to find out the expressions of the first element that differs: both modules run once more.
    pub explain: bool,
}

/// The outcome of an attempt at a proof.
#[derive(Clone, PartialEq, Debug)]
pub enum Verdict {
    /// All stored elements agree.
    Proved,
    /// An element differs.
    Refuted(String),
    /// Neither: the reason.
    NotProvable(Open),
}

/// The reason why there is neither a proof nor a refutation.
#[derive(Clone, PartialEq, Debug)]
pub struct Open {
    /// The kind of reason.
    pub cause: Cause,
    /// The operation that lost a term, or the kinds of the terms that differ.
    pub operation: Option<String>,
    /// The whole reason.
    pub message: String,
}

/// A kind of reason why there is neither a proof nor a refutation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Cause {
    /// The original has undefined behavior: nothing is to be proved.
    OriginalUndefined,
    /// A module has an instruction that the interpreter lacks, or runs for too long.
    NotRun,
    /// The buffers are larger than those that a proof takes.
    TooLarge,
    /// A decision depends on data by an operation without a rule.
    UnknownDecision,
    /// A stored element depends on data by an operation without a rule.
    UnknownTerm,
    /// A result of the original depends on an order that the specification leaves open.
    FreeOrder,
    /// Data decides something in the lowered module that it does not decide in the original.
    NewDecision,
    /// The expressions differ, and the values agree: a law that is not known here may make them equal.
    UnknownLaw,
    /// The probability of an error is too large, or not bounded.
    Bound,
    /// No element of a buffer that is compared was stored.
    NothingStored,
}

impl Cause {
    /// Every cause.
    pub const ALL: [Cause; 10] = [
        Cause::OriginalUndefined,
        Cause::NotRun,
        Cause::TooLarge,
        Cause::UnknownDecision,
        Cause::UnknownTerm,
        Cause::FreeOrder,
        Cause::NewDecision,
        Cause::UnknownLaw,
        Cause::Bound,
        Cause::NothingStored,
    ];

    /// Returns the name in tables and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Cause::OriginalUndefined => "original-undefined",
            Cause::NotRun => "not-run",
            Cause::TooLarge => "too-large",
            Cause::UnknownDecision => "unknown-decision",
            Cause::UnknownTerm => "unknown-term",
            Cause::FreeOrder => "free-order",
            Cause::NewDecision => "new-decision",
            Cause::UnknownLaw => "unknown-law",
            Cause::Bound => "bound",
            Cause::NothingStored => "nothing-stored",
        }
    }
}

impl fmt::Display for Open {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Verdict {
    fn open(cause: Cause, message: impl Into<String>) -> Verdict {
        Verdict::NotProvable(Open { cause, operation: None, message: message.into() })
    }

    fn lost(cause: Cause, operation: Option<&str>, message: String) -> Verdict {
        if operation == Some(FREE_ORDER) {
            return Verdict::open(Cause::FreeOrder, message);
        }
        Verdict::NotProvable(Open { cause, operation: operation.map(str::to_owned), message })
    }
}

/// A proof, or why there is none.
#[derive(Clone, PartialEq, Debug)]
pub struct Proof {
    /// The outcome.
    pub verdict: Verdict,
    /// The meaning of float arithmetic.
    pub arithmetic: Arithmetic,
    /// The buffers whose contents are arbitrary.
    pub data: Vec<String>,
    /// The buffers that are not compared: their tolerance is `any`.
    pub unchecked: Vec<String>,
    /// The elements that either module stored.
    pub stored: u64,
    /// The elements that differ; the first at most 16 of them.
    pub differing: u64,
    /// The places of the first of them.
    pub mismatches: Vec<Mismatch>,
    /// The one of them that says most.
    first: Option<Mismatch>,
    /// True if integers from data are computed with.
    integers: bool,
    /// The expressions of the first of them, if they were asked for.
    pub difference: Option<ExpressionDifference>,
    /// The binary logarithm of the probability that different expressions were taken for equal.
    pub log2_error: f64,
    /// The largest distance of two values for the data of the case, where that is more than the tolerance of the case and
    /// in each element within the bound of its rounding.
    pub apart: Option<f64>,
    /// The number of times that both modules ran.
    pub rounds: u32,
    /// The values of data that decide a branch or an address of the original.
    pub decisions: usize,
    /// The blocks that were executed, of the original and of the lowered module.
    pub blocks: [Blocks; 2],
}

impl Proof {
    /// Returns true if the modules are proved to store the same.
    pub fn is_proved(&self) -> bool {
        self.verdict == Verdict::Proved
    }
}

impl Arithmetic {
    /// A short name.
    pub fn name(self) -> &'static str {
        match self {
            Arithmetic::Reals => "reals",
            Arithmetic::Rounding => "rounding",
            Arithmetic::Strict => "strict",
        }
    }
}

impl fmt::Display for Proof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.verdict {
            Verdict::Proved => {
                let (stored, data, mode) = (thousands(self.stored), self.data.join(", "), self.arithmetic.name());
                let bound = self.log2_error.ceil();
                write!(f, "proved: {stored} stored elements agree for all contents of {data}")?;
                if self.decisions > 0 {
                    write!(f, " that make {} of their values what they are here", thousands(self.decisions as u64))?;
                }
                write!(f, " ({mode}; probability of a false yes < 2^{bound}); for this specialization and dispatch")?;
                if let Some(apart) = self.apart {
                    write!(f, "; rounded values are up to {apart:.1e} apart, each within the bound of its sums")?;
                }
                if !self.unchecked.is_empty() {
                    write!(f, "; {} is not compared", self.unchecked.join(", "))?;
                }
            }
            Verdict::Refuted(why) => write!(f, "refuted: {why}")?,
            Verdict::NotProvable(why) => write!(f, "not provable: {why}")?,
        }
        if let Some(difference) = &self.difference {
            write!(f, "\n{difference}")?;
        }
        for (name, blocks) in ["original", "lowered module"].into_iter().zip(&self.blocks) {
            if blocks.all() > 0 {
                write!(f, "\n{name}: {} of {} blocks executed", blocks.executed, blocks.all())?;
            }
            if !blocks.missed.is_empty() {
                write!(f, "; not {}", listed(&blocks.missed))?;
            }
        }
        Ok(())
    }
}

/// Returns a number with separators.
fn thousands(n: u64) -> String {
    let digits = n.to_string();
    let groups: Vec<&str> = digits.as_bytes().rchunks(3).rev().map(|g| std::str::from_utf8(g).unwrap_or("")).collect();
    groups.join(",")
}

/// Returns the first of some ids.
fn listed(ids: &[Id]) -> String {
    let mut parts: Vec<String> = ids.iter().take(8).map(Id::to_string).collect();
    if ids.len() > parts.len() {
        parts.push(format!("and {} more", ids.len() - parts.len()));
    }
    parts.join(", ")
}

/// Proves that a lowered module stores what the original stores. Each has its case: the same, but for what the pipeline is
/// asked for.
pub fn prove(
    interpreted: &Interpreted,
    original: (&Module, &Case),
    lowered: (&Module, &Case),
    options: &Options,
) -> Result<Proof, Error> {
    Prover::new(*interpreted, original.0, original.1, options)?.prove(lowered.0, lowered.1)
}

/// A way of counting in an attempt at a proof. What is proved in one of them is proved.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Counting {
    /// True if integers count modulo powers of two, false if in the field.
    modular: bool,
    /// True if the conversions of the original that do not say how they round do so to the nearest number. Those of the lowered
    /// module keep their freedom.
    nearest: bool,
}

/// A module and a case, which other modules are compared with.
pub struct Prover<'a> {
    interpreted: Interpreted,
    module: &'a Module,
    case: &'a Case,
    options: &'a Options,
    data: Vec<bool>,
    /// How the attempt counts.
    counting: Counting,
    /// The runs of the original by way of counting: one for each round, or why there is none.
    rounds: [Vec<Result<Fingerprints, Verdict>>; 4],
}

impl<'a> Prover<'a> {
    /// Prepares proofs about other versions of a module.
    pub fn new(
        interpreted: Interpreted,
        module: &'a Module,
        case: &'a Case,
        options: &'a Options,
    ) -> Result<Prover<'a>, Error> {
        if let Some(name) = options.fixed.iter().find(|name| !case.buffer.iter().any(|b| b.name == **name)) {
            return Err(Error::case(format!("there is no buffer '{name}' whose contents could be fixed")));
        }
        let is_data =
            |b: &Buffer| b.kind == BufferKind::Storage && !b.fill.has_addresses() && !options.fixed.contains(&b.name);
        let data = case.buffer.iter().map(is_data).collect();
        let counting = Counting::default();
        Ok(Prover { interpreted, module, case, options, data, counting, rounds: Default::default() })
    }

    /// Proves that a module stores what the original stores; its case is that of the original, but for what its pipeline
    /// is asked for.
    pub fn prove(&mut self, lowered: &Module, case: &Case) -> Result<Proof, Error> {
        let law = |proof: &Proof| {
            matches!(&proof.verdict, Verdict::NotProvable(Open { cause: Cause::UnknownLaw | Cause::NewDecision, .. }))
        };
        self.counting = Counting::default();
        let mut proof = self.attempt(lowered, case)?;
        if proof.integers && law(&proof) {
            // The field does not know that integers wrap.
            self.counting.modular = true;
            proof = self.attempt(lowered, case)?;
        }
        if self.options.arithmetic != Arithmetic::Reals && law(&proof) {
            let first = self.counting;
            self.counting.nearest = true;
            let again = self.attempt(lowered, case)?;
            if again.is_proved() {
                proof = again;
            } else {
                self.counting = first;
            }
        }
        if let Some(first) = proof.first.filter(|_| self.options.explain) {
            proof.difference = Some(self.difference((lowered, case), first)?);
        }
        Ok(proof)
    }

    /// Attempts a proof with integers in the field, or modulo powers of two.
    fn attempt(&mut self, lowered: &Module, case: &Case) -> Result<Proof, Error> {
        let named = self.case.buffer.iter().zip(&self.data).filter(|(_, data)| **data);
        let unchecked = self.case.buffer.iter().filter(|b| b.tolerance == Tolerance::Any);
        let mut proof = Proof {
            verdict: Verdict::Proved,
            arithmetic: self.options.arithmetic,
            data: named.map(|(b, _)| b.name.clone()).collect(),
            unchecked: unchecked.map(|b| b.name.clone()).collect(),
            stored: 0,
            differing: 0,
            mismatches: Vec::new(),
            first: None,
            integers: false,
            difference: None,
            log2_error: 0.0,
            apart: None,
            rounds: 0,
            decisions: 0,
            blocks: [Blocks::default(), Blocks::default()],
        };
        let bytes: usize = self.case.buffer.iter().map(Buffer::size).sum();
        if bytes > MOST_BYTES {
            let why =
                format!("the buffers have {bytes} bytes, more than {MOST_BYTES}; a case with fewer proves as much");
            return Ok(Proof { verdict: Verdict::open(Cause::TooLarge, why), ..proof });
        }
        while proof.rounds < MOST_ROUNDS && proof.log2_error >= WANTED_LOG2 {
            if let Err(verdict) = self.round(lowered, case, &mut proof)? {
                proof.verdict = verdict;
                return Ok(proof);
            }
        }
        if proof.log2_error >= WANTED_LOG2 {
            let bound = proof.log2_error.ceil();
            let why = format!("the probability of an error is 2^{bound:.0} only: the case computes too much");
            proof.verdict = Verdict::open(Cause::Bound, why);
        }
        Ok(proof)
    }

    /// Returns the options of a run; `given` are the decisions of the original, `None` for the original itself.
    fn symbolic(&self, given: Option<Decisions>, round: u32, expressions: bool) -> Symbolic {
        let seed = self.options.seed.wrapping_add(u64::from(round) << 32);
        Symbolic {
            arithmetic: self.options.arithmetic,
            seed,
            data: self.data.clone(),
            modular: self.counting.modular,
            nearest: given.is_none() && self.counting.nearest,
            expressions,
            given: given.unwrap_or_default(),
        }
    }

    /// Runs both modules once more, and returns the expressions of an element.
    fn difference(&self, (lowered, case): (&Module, &Case), of: Mismatch) -> Result<ExpressionDifference, Error> {
        let (_, mut a) = self.interpreted.run_symbolic(self.module, self.case, &self.symbolic(None, 0, true))?;
        let other = self.symbolic(Some(a.decisions()), 0, true);
        let (_, mut b) = self.interpreted.run_symbolic(lowered, case, &other)?;
        let buffers: Vec<Elements> = self.case.buffer.iter().map(elements).collect();
        let name = |buffer: usize, element: usize| place(self.case, buffer, element);
        Ok(Fingerprints::difference(&mut a, &mut b, &buffers, of, &name))
    }

    /// Runs a module symbolically, in one round of a proof.
    fn run(
        &self,
        given: Option<Decisions>,
        round: u32,
        module: &Module,
        case: &Case,
    ) -> Result<Result<Fingerprints, Verdict>, Error> {
        let is_original = given.is_none();
        let name = if is_original { "original" } else { "lowered module" };
        let symbolic = self.symbolic(given, round, false);
        Ok(match self.interpreted.run_symbolic(module, case, &symbolic) {
            Ok((report, fingerprints)) => match complaint(name, is_original, &report, &fingerprints) {
                Some(verdict) => Err(verdict),
                None => Ok(fingerprints),
            },
            Err(error @ (Error::Unsupported { .. } | Error::Timeout { .. })) => {
                Err(Verdict::open(Cause::NotRun, format!("the {name} can't be run: {error}")))
            }
            Err(error) => return Err(error),
        })
    }

    /// Runs both modules once and compares them.
    fn round(&mut self, lowered: &Module, case: &Case, proof: &mut Proof) -> Result<Result<(), Verdict>, Error> {
        let round = proof.rounds;
        let kind = usize::from(self.counting.modular) + 2 * usize::from(self.counting.nearest);
        if self.rounds[kind].len() <= round as usize {
            let original = self.run(None, round, self.module, self.case)?;
            self.rounds[kind].push(original);
        }
        let given = match &self.rounds[kind][round as usize] {
            Ok(a) => a.decisions(),
            Err(verdict) => return Ok(Err(verdict.clone())),
        };
        let b = self.run(Some(given), round, lowered, case)?;
        let a = match &mut self.rounds[kind][round as usize] {
            Ok(a) => a,
            Err(verdict) => return Ok(Err(verdict.clone())),
        };
        proof.blocks[0] = a.blocks.clone();
        let mut b = match b {
            Ok(b) => b,
            Err(verdict) => return Ok(Err(verdict)),
        };
        proof.blocks[1] = b.blocks.clone();
        let buffers: Vec<Elements> = self.case.buffer.iter().map(elements).collect();
        let agreement = Fingerprints::compare(a, &mut b, &buffers);
        proof.rounds += 1;
        proof.stored = agreement.stored;
        proof.decisions = agreement.decisions;
        proof.differing = agreement.differing;
        proof.mismatches.clone_from(&agreement.mismatches);
        proof.first = agreement.first();
        proof.integers |= agreement.integers;
        proof.log2_error += agreement.log2_error().min(0.0);
        let sides = [(self.module, self.case), (lowered, case)];
        let verdict = judged(&self.interpreted, sides, &self.data, &agreement, [a, &mut b])?;
        Ok(verdict.map(|apart| proof.apart = apart))
    }
}

/// Returns what of a buffer is compared.
fn elements(buffer: &Buffer) -> Elements {
    let group = match buffer.tolerance {
        Tolerance::Sums { group, .. } => usize::try_from(group).unwrap_or(usize::MAX),
        Tolerance::Any => 0,
        _ => 1,
    };
    Elements { size: number::size_of(buffer.element), group }
}

/// Returns the name of an element of a buffer.
fn place(case: &Case, buffer: usize, element: usize) -> String {
    let of = &case.buffer[buffer];
    match of.row_stride.filter(|stride| *stride > 0) {
        Some(stride) => format!("{}[{}, {}]", of.name, element as u64 / stride, element as u64 % stride),
        None => format!("{}[{element}]", of.name),
    }
}

/// Returns the verdict if a run by itself makes a proof impossible.
fn complaint(name: &str, is_original: bool, report: &Report, fingerprints: &Fingerprints) -> Option<Verdict> {
    if let Some(finding) = report.findings.iter().find(|f| f.kind.is_undefined_behaviour()) {
        let why = format!("the {name} has undefined behaviour: {finding}");
        // A defined program was made into one that is not.
        return Some(if is_original { Verdict::open(Cause::OriginalUndefined, why) } else { Verdict::Refuted(why) });
    }
    let why = fingerprints.depends()?;
    let lost = fingerprints.lost().map(|(at, why)| format!("; instruction {at}: {why}")).unwrap_or_default();
    let operation = fingerprints.lost().map(|(_, why)| why);
    Some(Verdict::lost(Cause::UnknownDecision, operation, format!("in the {name} {why}{lost}")))
}

/// Returns the verdict if the comparison does not prove anything, or else how far values are apart that only the bounds of their
/// rounding allow.
fn judged(
    interpreted: &Interpreted,
    [original, lowered]: [(&Module, &Case); 2],
    data: &[bool],
    agreement: &Agreement,
    [a, b]: [&mut Fingerprints; 2],
) -> Result<Result<Option<f64>, Verdict>, Error> {
    let case = original.1;
    let place = |buffer: usize, element: usize| place(case, buffer, element);
    if let Some(first) = agreement.first() {
        let (n, at) = (thousands(agreement.differing), place(first.buffer, first.element));
        let all = thousands(agreement.stored);
        let buffers: Vec<Elements> = case.buffer.iter().map(elements).collect();
        let how = Fingerprints::explain(a, b, &buffers, first, &place);
        let how = how.map(|how| format!(": {how}")).unwrap_or_default();
        let what = format!("{n} of {all} stored elements differ, the first is {at}{how}");
        if first.certain {
            return Ok(Err(Verdict::Refuted(what)));
        }
        let values = match witness::distance(interpreted.config, original, a, b, false)? {
            Distance::Beyond(found) => Some(found),
            Distance::Agree | Distance::WithinBounds(_) => witness::find(interpreted, original, lowered, data)?,
        };
        return Ok(Err(match values {
            Some(values) => Verdict::Refuted(format!("{what}; {values}")),
            None => {
                let kinds = Fingerprints::kinds(a, b, &buffers, first);
                let law = "the values agree on the case's data, and the expressions may be equal by a law that is not known here";
                Verdict::lost(Cause::UnknownLaw, Some(&kinds), format!("{what}; {law}"))
            }
        }));
    }
    if let Some((buffer, element)) = agreement.lost {
        let lost = a.lost().map(|l| ("original", l)).or_else(|| b.lost().map(|l| ("lowered module", l)));
        let operation = lost.map(|(_, (_, why))| why);
        let why =
            lost.map_or_else(String::new, |(name, (at, why))| format!(": {why} (instruction {at} of the {name})"));
        let at = place(buffer, element);
        let why = format!("{at} depends on data in an unknown way{why}");
        return Ok(Err(Verdict::lost(Cause::UnknownTerm, operation, why)));
    }
    if let Some(what) = &agreement.new_decision {
        let why =
            format!("data decides something in the lowered module that it does not decide in the original: {what}");
        return Ok(Err(Verdict::open(Cause::NewDecision, why)));
    }
    if agreement.unbounded {
        return Ok(Err(Verdict::open(Cause::Bound, "an expression has too large a degree")));
    }
    if agreement.stored == 0 {
        return Ok(Err(Verdict::open(Cause::NothingStored, "nothing is stored")));
    }
    // The expressions agree, and no decision is another one.
    Ok(match witness::distance(interpreted.config, original, a, b, true)? {
        Distance::Agree => Ok(None),
        Distance::WithinBounds(apart) => Ok(Some(apart)),
        Distance::Beyond(values) => {
            Err(Verdict::Refuted(format!("the expressions agree, but not their rounded values: {values}")))
        }
    })
}
