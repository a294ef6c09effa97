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

use crate::bounds::Bounds;
use crate::case::{BufferKind, Case};
use crate::error::Error;
use crate::interp::{Agreement, Arithmetic, Blocks, Fingerprints, Interpreted, Mismatch, Report, Symbolic};
use crate::number;

/// Runs are repeated with other values of the symbols until the error is less than this power of two.
const WANTED_LOG2: f64 = -40.0;

/// The most repetitions.
const MOST_ROUNDS: u32 = 4;

/// The most bytes of buffers in a proof: their terms take some sixteen times that.
const MOST_BYTES: usize = 256 << 20;

/// The options of a proof.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Options {
    /// The meaning of float arithmetic.
    pub arithmetic: Arithmetic,
    /// The seed of the symbols' values.
    pub seed: u64,
    /// Buffers whose contents are those of the case, by name.
    pub fixed: Vec<String>,
}

/// The outcome of an attempt at a proof.
#[derive(Clone, PartialEq, Debug)]
pub enum Verdict {
    /// All stored elements agree.
    Proved,
    /// An element differs.
    Refuted(String),
    /// Neither: the reason.
    NotProvable(String),
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
    /// The elements that either module stored.
    pub stored: u64,
    /// The elements that differ; the first at most 16 of them.
    pub differing: u64,
    /// The places of the first of them.
    pub mismatches: Vec<Mismatch>,
    /// The binary logarithm of the probability that different expressions were taken for equal.
    pub log2_error: f64,
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
            }
            Verdict::Refuted(why) => write!(f, "refuted: {why}")?,
            Verdict::NotProvable(why) => write!(f, "not provable: {why}")?,
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
    let case = original.1;
    if let Some(name) = options.fixed.iter().find(|name| !case.buffer.iter().any(|b| b.name == **name)) {
        return Err(Error::case(format!("there is no buffer '{name}' whose contents could be fixed")));
    }
    let data: Vec<bool> = case
        .buffer
        .iter()
        .map(|b| b.kind == BufferKind::Storage && !b.fill.has_addresses() && !options.fixed.contains(&b.name))
        .collect();
    let names = case.buffer.iter().zip(&data).filter(|(_, data)| **data).map(|(b, _)| b.name.clone()).collect();
    let mut proof = Proof {
        verdict: Verdict::Proved,
        arithmetic: options.arithmetic,
        data: names,
        stored: 0,
        differing: 0,
        mismatches: Vec::new(),
        log2_error: 0.0,
        rounds: 0,
        decisions: 0,
        blocks: [Blocks::default(), Blocks::default()],
    };
    let bytes: usize = case.buffer.iter().map(crate::case::Buffer::size).sum();
    if bytes > MOST_BYTES {
        let why = format!("the buffers have {bytes} bytes, more than {MOST_BYTES}; a case with fewer proves as much");
        return Ok(Proof { verdict: Verdict::NotProvable(why), ..proof });
    }
    let mut log2_error = 0.0;
    while proof.rounds < MOST_ROUNDS && log2_error >= WANTED_LOG2 {
        let seed = options.seed.wrapping_add(u64::from(proof.rounds) << 32);
        let symbolic = Symbolic { arithmetic: options.arithmetic, seed, data: data.clone() };
        let agreement = match proof.round(interpreted, original, lowered, &symbolic)? {
            Ok(agreement) => agreement,
            Err(verdict) => return Ok(Proof { verdict, ..proof }),
        };
        log2_error += agreement.log2_error().min(0.0);
        proof.log2_error = log2_error;
    }
    if log2_error >= WANTED_LOG2 {
        let why = format!("the probability of an error is 2^{:.0} only: the case computes too much", log2_error.ceil());
        proof.verdict = Verdict::NotProvable(why);
    }
    Ok(proof)
}

impl Proof {
    /// Runs both modules once.
    fn round(
        &mut self,
        interpreted: &Interpreted,
        original: (&Module, &Case),
        lowered: (&Module, &Case),
        symbolic: &Symbolic,
    ) -> Result<Result<Agreement, Verdict>, Error> {
        let case = original.1;
        let mut sides = Vec::new();
        for (k, (name, (module, case))) in [("original", original), ("lowered module", lowered)].into_iter().enumerate() {
            let (report, fingerprints) = match interpreted.run_symbolic(module, case, symbolic) {
                Ok(ran) => ran,
                Err(error @ (Error::Unsupported { .. } | Error::Timeout { .. })) => {
                    return Ok(Err(Verdict::NotProvable(format!("the {name} can't be run: {error}"))));
                }
                Err(error) => return Err(error),
            };
            self.blocks[k] = fingerprints.blocks.clone();
            if let Some(verdict) = complaint(name, k == 0, &report, &fingerprints) {
                return Ok(Err(verdict));
            }
            sides.push((report, fingerprints));
        }
        let sizes: Vec<usize> = case.buffer.iter().map(|b| number::size_of(b.element)).collect();
        let [(_, a), (_, b)] = sides.as_mut_slice() else { unreachable!("two modules ran") };
        let agreement = Fingerprints::compare(a, b, &sizes);
        self.rounds += 1;
        self.stored = agreement.stored;
        self.decisions = agreement.decisions;
        self.differing = agreement.differing;
        self.mismatches.clone_from(&agreement.mismatches);
        let verdict = judged(interpreted, original, &agreement, a, b)?;
        Ok(match verdict {
            Some(verdict) => Err(verdict),
            None => Ok(agreement),
        })
    }
}

/// Returns the verdict if a run by itself makes a proof impossible.
fn complaint(name: &str, is_original: bool, report: &Report, fingerprints: &Fingerprints) -> Option<Verdict> {
    if let Some(finding) = report.findings.iter().find(|f| f.kind.is_undefined_behaviour()) {
        let why = format!("the {name} has undefined behaviour: {finding}");
        // A defined program was made into one that is not.
        return Some(if is_original { Verdict::NotProvable(why) } else { Verdict::Refuted(why) });
    }
    let why = fingerprints.depends()?;
    let lost = fingerprints.lost().map(|(at, why)| format!("; instruction {at}: {why}")).unwrap_or_default();
    Some(Verdict::NotProvable(format!("in the {name} {why}{lost}")))
}

/// Returns the verdict if the comparison does not prove anything.
fn judged(
    interpreted: &Interpreted,
    original: (&Module, &Case),
    agreement: &Agreement,
    a: &Fingerprints,
    b: &Fingerprints,
) -> Result<Option<Verdict>, Error> {
    let case = original.1;
    let place = |buffer: usize, element: usize| {
        let of = &case.buffer[buffer];
        match of.row_stride.filter(|stride| *stride > 0) {
            Some(stride) => format!("{}[{}, {}]", of.name, element as u64 / stride, element as u64 % stride),
            None => format!("{}[{element}]", of.name),
        }
    };
    if let Some(first) = agreement.mismatches.iter().find(|m| m.certain).or(agreement.mismatches.first()) {
        let (n, at) = (thousands(agreement.differing), place(first.buffer, first.element));
        let all = thousands(agreement.stored);
        let what = format!("{n} of {all} stored elements differ, the first is {at}");
        let values = differences(interpreted, original, a, b)?;
        return Ok(Some(match (first.certain, values) {
            (true, _) => Verdict::Refuted(what),
            (false, Some(values)) => Verdict::Refuted(format!("{what}; {values}")),
            (false, None) => Verdict::NotProvable(format!(
                "{what}; the values agree on the case's data, and the expressions may be equal by a law that is not known here"
            )),
        }));
    }
    if let Some((buffer, element)) = agreement.lost {
        let lost = a.lost().map(|l| ("original", l)).or_else(|| b.lost().map(|l| ("lowered module", l)));
        let why = lost.map_or_else(String::new, |(name, (at, why))| format!(": {why} (instruction {at} of the {name})"));
        let at = place(buffer, element);
        return Ok(Some(Verdict::NotProvable(format!("{at} depends on data in an unknown way{why}"))));
    }
    if let Some(what) = &agreement.new_decision {
        let why = format!("data decides something in the lowered module that it does not decide in the original: {what}");
        return Ok(Some(Verdict::NotProvable(why)));
    }
    if agreement.unbounded {
        return Ok(Some(Verdict::NotProvable("an expression has too large a degree".into())));
    }
    if agreement.stored == 0 {
        return Ok(Some(Verdict::NotProvable("nothing is stored".into())));
    }
    let values = differences(interpreted, original, a, b)?;
    Ok(values.map(|values| Verdict::Refuted(format!("the expressions agree, but not their rounded values: {values}"))))
}

/// Returns the first difference between what the runs stored with the case's data.
fn differences(
    interpreted: &Interpreted,
    (module, case): (&Module, &Case),
    a: &Fingerprints,
    b: &Fingerprints,
) -> Result<Option<String>, Error> {
    let outcome = |side: &Fingerprints| Interpreted::outcome(side.memory.clone(), &Report::default());
    let (wanted, got) = (outcome(a), outcome(b));
    if got.compare(&wanted, case)?.is_empty() {
        return Ok(None);
    }
    let bounds = Bounds::derive(module, case, interpreted.config);
    let found = got.compare_within(&wanted, case, &bounds, 2)?;
    Ok(found.first().map(|difference| difference.to_string()))
}
