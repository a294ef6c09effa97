//! Checks the uniformity analysis against the interpreter.
//!
//! Modules with random control flow are analyzed, and run with several inputs, subgroup sizes and kinds of
//! reconvergence. Two things must never happen:
//!
//! 1. an instruction that the interpreter saw executed by a part of its scope, or with an operand that differs, was
//!    called uniform;
//! 2. of an instruction the analysis names two invocations that disagree, the first executed it, and the other did so
//!    together with it, or the operand was the same for both.
//!
//! Observations after other undefined behavior do not count, nor do verdicts that rest on an assumption that the run
//! does not keep.
//!
//! For every error, the test looks for a run that reaches it. Conditions of branches around it may be such that no
//! input leads there, or none that is found. The proof does not depend on them: so the module is tried as well with
//! words of a buffer for these conditions (see [`crate::generator::diverge::free`]), where the analysis must name the
//! same instruction and two invocations, by the same branch, and be right.

mod data;

use crate::generator::diverge::{Constructs, Diverging, Free, diverge_with, free};
use coop_exec::interp::{Config, Coverage, Finding, FindingKind, Interpreter, Reconvergence};
use coop_ir::constant::{Constants, SpecValue, Specialization};
use coop_ir::{InstRef, Module, Op};
use coop_uniformity::{Analysis, Analyzer, Aspect, Assumption, BranchChoice, Options, Path, Uniformity, Witness};
use data::{Data, Inputs, Kind};
use std::collections::{BTreeMap, BTreeSet};

/// The counts of a comparison.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Modules.
    pub modules: u64,
    /// Runs in the interpreter.
    pub runs: u64,
    /// Runs with undefined behaviour of another kind.
    pub cut_short: u64,
    /// Instructions that must be executed together, in all modules and with all subgroup sizes.
    pub checked: u64,
    /// The number of these that the analysis calls uniform.
    pub uniform: u64,
    /// The number of these that are uniform under an assumption.
    pub assumed: u64,
    /// The number of these that may not be uniform.
    pub doubted: u64,
    /// The number of these that are proved not to be uniform.
    pub shown: u64,
    /// The number of the doubted ones that some run showed not to be uniform.
    pub doubted_seen: u64,
    /// The number of the proved ones that some run showed.
    pub shown_seen: u64,
    /// The number of the others that a run showed with branches around them decided by data.
    pub shown_freed: u64,
    /// The number of the others that a run showed after other undefined behavior.
    pub shown_behind: u64,
    /// The proved ones that no run reached, except after other undefined behavior.
    pub open: Vec<Open>,
}

/// An error that no run has confirmed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Open {
    /// The seed of the module.
    pub seed: u64,
    /// The subgroup size.
    pub size: u32,
    /// The instruction.
    pub at: InstRef,
    /// The operand that differs, if one does.
    pub operand: Option<u32>,
    /// The branch that decides, or where the operand comes from.
    pub deciding: Option<InstRef>,
    /// The invocations that are said to disagree.
    pub invocations: (u32, u32),
    /// True if it was reached behind other undefined behaviour.
    pub behind: bool,
}

impl Tally {
    /// Adds another's numbers.
    pub fn add(&mut self, other: &Tally) {
        let pairs = [
            (&mut self.modules, other.modules),
            (&mut self.runs, other.runs),
            (&mut self.cut_short, other.cut_short),
            (&mut self.checked, other.checked),
            (&mut self.uniform, other.uniform),
            (&mut self.assumed, other.assumed),
            (&mut self.doubted, other.doubted),
            (&mut self.shown, other.shown),
            (&mut self.doubted_seen, other.doubted_seen),
            (&mut self.shown_seen, other.shown_seen),
            (&mut self.shown_freed, other.shown_freed),
            (&mut self.shown_behind, other.shown_behind),
        ];
        for (slot, n) in pairs {
            *slot += n;
        }
        self.open.extend_from_slice(&other.open);
    }
}

/// A contradiction between the analysis and the interpreter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// In a few words: shrinking keeps it.
    pub class: &'static str,
    /// All of it.
    pub message: String,
}

/// Subgroup sizes.
const SIZES: [u32; 4] = [4, 8, 16, 32];
/// Runs with each size, with other inputs each time.
const RUNS: u64 = 4;
/// And more of them for what is shown and was not seen yet.
const MORE_RUNS: u64 = 12;

/// Makes a module of some entropy and tries it.
pub fn try_entropy(entropy: &[u8], constructs: Constructs, seed: u64, tally: &mut Tally) -> Result<(), Box<Wrong>> {
    let made = diverge_with(entropy, constructs);
    tally.modules += 1;
    if let Err(problems) = coop_ir::verify::verify(&made.module) {
        return Err(wrong("not well formed", problems[0].to_string()));
    }
    let specialization = Specialization::new();
    let constants = Constants::new(&made.module, &specialization);
    let analyzer = Analyzer::new(&made.module, &constants);
    let Some(entry) = analyzer.entry_points().into_iter().next() else {
        return Err(wrong("no entry point", String::new()));
    };
    for size in SIZES {
        let options = Options { subgroup_size: Some(size), ..Options::default() };
        let analysis = analyzer.analyze(&entry, options).map_err(|e| wrong("refused", format!("{e:?}")))?;
        let said = Said::new(&made.module, &analysis);
        tally.checked += analysis.checked as u64;
        tally.uniform += (analysis.checked as u64).saturating_sub(said.doubts.len() as u64);
        tally.assumed += said.assumed.len() as u64;
        let shown = said.doubts.values().filter(|witness| witness.is_some()).count() as u64;
        tally.shown += shown;
        tally.doubted += said.doubts.len() as u64 - shown;
        let mut seen = Seen::default();
        for round in 0..MORE_RUNS {
            if round >= RUNS && said.unseen(&seen).next().is_none() {
                break;
            }
            let data = Data {
                seed: seed.wrapping_mul(MORE_RUNS) + round,
                kind: if round < RUNS { Kind::Small } else { Kind::Wide },
            };
            let as_given = How::new(size_and_reconvergence(&made, size, seed, round));
            run(&made, as_given, &data.inputs(), &said, &mut seen, tally)?;
            if constructs == Constructs::All && round == 0 {
                // What is said without an assumption holds whatever the constant is.
                let other = [1, 2, 3, 5, 8, 31, 64][(seed % 7) as usize];
                let how = How { constant: Some(other), ..as_given };
                run(&made, how, &data.inputs(), &said, &mut Seen::default(), tally)?;
            }
        }
        let freed = if said.unseen(&seen).next().is_some() {
            freed(&made, (size, seed), (&said, &mut seen), tally)?
        } else {
            BTreeSet::new()
        };
        for (key, witness) in &said.doubts {
            let (here, behind) = (seen.here.contains(key), seen.behind.contains(key));
            match witness {
                None => tally.doubted_seen += u64::from(here),
                Some(_) if here => tally.shown_seen += 1,
                Some(_) if freed.contains(key) => tally.shown_freed += 1,
                Some(w) => {
                    tally.shown_behind += u64::from(behind);
                    let deciding = said.deciding.get(key).copied();
                    let (at, operand) = *key;
                    tally.open.push(Open { seed, size, at, operand, deciding, invocations: w.invocations, behind });
                }
            }
        }
    }
    Ok(())
}

/// Returns the subgroup size and the kind of reconvergence of one run.
fn size_and_reconvergence(made: &Diverging, size: u32, seed: u64, round: u64) -> (u32, Reconvergence) {
    let early = made.meets_early || round.is_multiple_of(2);
    (size, if early { Reconvergence::Early } else { Reconvergence::Promised(seed ^ round) })
}

/// The errors that no run has reached, and that one reaches where data decides the branches around them.
fn freed(
    made: &Diverging,
    (size, seed): (u32, u64),
    (said, seen): (&Said, &mut Seen),
    tally: &mut Tally,
) -> Result<BTreeSet<Key>, Box<Wrong>> {
    let finder = Finder { made, size, seed, said };
    let all: Vec<Key> = said.unseen(seen).collect();
    let mut found = BTreeSet::new();
    for key in all {
        let reached = finder.along(key, tally)?;
        found.extend(reached.here.contains(&key).then_some(key));
        seen.behind.extend(reached.behind.contains(&key).then_some(key));
    }
    Ok(found)
}

/// Looks for runs in which data decides the branches around errors.
struct Finder<'a, 'm> {
    made: &'a Diverging,
    size: u32,
    seed: u64,
    said: &'a Said<'m>,
}

impl Finder<'_, '_> {
    /// Goes the way to an error that the analysis has found. Branches in loops may all go elsewhere in each round, or
    /// else those alone that do: counting rounds makes more seem different than is.
    fn along(&self, key: Key, tally: &mut Tally) -> Result<Seen, Box<Wrong>> {
        let Some(way) = self.said.ways.get(&key) else { return Ok(Seen::default()) };
        let reached = self.follow(key, way, None, tally)?;
        if reached.here.contains(&key) {
            return Ok(reached);
        }
        let first = |t: &BranchChoice| way.choices.iter().find(|o| (o.at, o.group) == (t.at, t.group)).map(|o| o.to);
        let turning: Vec<InstRef> = way.choices.iter().filter(|t| first(t) != Some(t.to)).map(|t| t.at).collect();
        self.follow(key, way, Some(&turning), tally)
    }

    /// Goes a way in a module in which data decides the branches on which the proof does not rest. The analysis must name
    /// the error there, by the same branch.
    fn follow(&self, key: Key, way: &Path, rounds: Option<&[InstRef]>, tally: &mut Tally) -> Result<Seen, Box<Wrong>> {
        let mut reached = Seen::default();
        let (at, operand) = key;
        let alone: Vec<(InstRef, u32)> = operand.map(|i| (at, i)).into_iter().collect();
        let how = Free { keep: &way.kept, alone: &alone, rounds, only: &[at] };
        let over = |at: InstRef| way.uniformity.iter().find(|o| o.0 == at).map_or(Uniformity::Workgroup, |o| o.1);
        let Some(other) = free(self.made, over, how) else { return Ok(reached) };
        if let Err(problems) = coop_ir::verify::verify(&other.made.module) {
            return Err(wrong("not well formed", problems[0].to_string()));
        }
        let on_a_way = self.said.doubts.get(&key).copied().flatten().is_some_and(|w| w.on_a_path);
        let analysis = self.analyze(&other.made.module, !on_a_way)?;
        let now = Said::new(&other.made.module, &analysis);
        // By the same branch: of several invocations that it may lead there another one may be named. Of what is so on one
        // way another way may be found.
        let shown = |said: &Said| {
            let witness = said.doubts.get(&key).copied().flatten();
            witness.map(|_| said.deciding.get(&key).copied().filter(|_| operand.is_none() && !on_a_way))
        };
        if shown(self.said) != shown(&now) {
            return Ok(reached);
        }
        let data = Data { seed: self.seed, kind: Kind::Small };
        let inputs = data.along(&other.data(way), other.words, way.workgroups);
        run(&other.made, How::new((self.size, Reconvergence::Early)), &inputs, &now, &mut reached, tally)?;
        Ok(reached)
    }

    fn analyze(&self, module: &Module, unreached: bool) -> Result<Analysis, Box<Wrong>> {
        let specialization = Specialization::new();
        let constants = Constants::new(module, &specialization);
        let analyzer = Analyzer::new(module, &constants);
        let options = Options { subgroup_size: Some(self.size), facts: false, unreached };
        let entry = analyzer.entry_points().into_iter().next().ok_or_else(|| wrong("no entry point", String::new()))?;
        analyzer.analyze(&entry, options).map_err(|e| wrong("refused", format!("{e:?}")))
    }
}

fn wrong(class: &'static str, message: String) -> Box<Wrong> {
    Box::new(Wrong { class, message })
}

/// An instruction, and which operand of it differs, if it is one.
type Key = (InstRef, Option<u32>);

/// The observations of runs.
#[derive(Default)]
struct Seen {
    /// Not to be uniform, by the module.
    here: BTreeSet<Key>,
    /// Those that were seen after other undefined behavior.
    behind: BTreeSet<Key>,
}

/// The results of the analysis.
struct Said<'m> {
    module: &'m Module,
    /// The instructions and operands that may not be uniform, with two invocations where that is proved.
    doubts: BTreeMap<Key, Option<Witness>>,
    /// The branches that decide.
    deciding: BTreeMap<Key, InstRef>,
    /// The path that leads to each.
    ways: BTreeMap<Key, &'m Path>,
    /// The instructions of functions that are called from one place at most.
    once: BTreeSet<InstRef>,
    assumed: BTreeSet<InstRef>,
    /// The verdicts with the default of the specialization constant: uniform, or proved not to be.
    defaults: BTreeSet<InstRef>,
    by_default: BTreeSet<Key>,
    /// The matrix phis of blocks, by terminator: the interpreter speaks of that.
    phis: BTreeMap<InstRef, Vec<InstRef>>,
}

impl<'m> Said<'m> {
    fn new(module: &'m Module, analysis: &'m Analysis) -> Said<'m> {
        let (mut doubts, mut by_default) = (BTreeMap::new(), BTreeSet::new());
        let mut deciding = BTreeMap::new();
        let mut ways = BTreeMap::new();
        for d in &analysis.divergences {
            let operand = if let Aspect::Operand(i) = d.aspect { Some(i) } else { None };
            by_default.extend((!d.defaults.is_empty()).then_some((d.at, operand)));
            let witness = doubts.entry((d.at, operand)).or_insert(d.witness);
            *witness = witness.or(d.witness);
            ways.extend(d.path.as_deref().map(|way| ((d.at, operand), way)));
            if let Some(first) = d.chain.first().filter(|_| d.witness.is_some()) {
                deciding.insert((d.at, operand), first.at);
            }
        }
        let assumed = analysis.assumed.iter().map(|(_, at)| *at).collect();
        let of_default = analysis.assumed.iter().filter(|(a, _)| *a == Assumption::Defaults);
        let defaults = of_default.map(|(_, at)| *at).collect();

        let mut phis = BTreeMap::new();
        for b in module.functions.iter().flat_map(|f| &f.blocks) {
            let own: Vec<InstRef> = b.insts.iter().copied().filter(|r| module.inst(*r).op == Op::Phi).collect();
            if let (Some(at), false) = (b.terminator(), own.is_empty()) {
                phis.insert(at, own);
            }
        }
        let once = called_once(module);
        Said { module, doubts, deciding, ways, once, assumed, defaults, by_default, phis }
    }

    /// Returns the proved divergences that no run showed.
    fn unseen(&self, seen: &Seen) -> impl Iterator<Item = Key> {
        let shown = self.doubts.iter().filter(|(key, witness)| witness.is_some() && !seen.here.contains(key));
        shown.map(|(key, _)| *key)
    }

    /// Returns the divergence that a finding of the interpreter shows: of the instruction's execution, or of an
    /// operand.
    fn doubt(&self, f: &Finding) -> Option<Key> {
        let operand = operand(self.module, f);
        let here = |at: InstRef| {
            let keys = || self.doubts.range((at, None)..=(at, Some(u32::MAX))).map(|d| *d.0);
            // Where some invocations may be missing, operands may differ between those that are there.
            let whole = keys().find(|k| k.1.is_none());
            let of = match operand {
                Sight::Flow => None,
                Sight::Operand(i) => keys().find(|k| k.1 == Some(i)),
                Sight::SomeOperand => keys().find(|k| k.1.is_some()),
            };
            of.or(whole)
        };
        here(f.at).or_else(|| self.phis.get(&f.at)?.iter().find_map(|p| here(*p)))
    }
}

/// An observation of the interpreter.
enum Sight {
    Flow,
    Operand(u32),
    SomeOperand,
}

fn operand(module: &Module, f: &Finding) -> Sight {
    let tensor = module.inst(f.at).op == Op::CooperativeMatrixLoadTensorNV;
    let store = module.inst(f.at).op == Op::CooperativeMatrixStoreKHR;
    match f.kind {
        FindingKind::NonUniformOperand if f.message.contains(": the pointer differs") => Sight::Operand(0),
        FindingKind::NonUniformOperand if tensor && f.message.contains(": the tensor layout differs") => {
            Sight::Operand(2)
        }
        FindingKind::NonUniformOperand if f.message.contains(": the stride differs") => {
            Sight::Operand(if store { 3 } else { 2 })
        }
        FindingKind::NonUniformOperand => Sight::SomeOperand,
        _ => Sight::Flow,
    }
}

/// The instructions of functions that run once at most for each invocation, but for loops.
fn called_once(module: &Module) -> BTreeSet<InstRef> {
    let insts = |f: usize| module.functions[f].blocks.iter().flat_map(|b| b.insts.iter().copied());
    let id = |f: usize| module.inst(module.functions[f].def).result;
    let callers = |callee: usize| {
        let calls = |f: usize| insts(f).map(|r| module.inst(r)).filter(|i| i.op == Op::FunctionCall);
        (0..module.functions.len()).flat_map(move |f| calls(f).filter(move |i| i.id(0) == id(callee)).map(move |_| f))
    };
    // The entry point has no callers, and there is no recursion.
    let once = |f: usize| {
        let mut at = f;
        for _ in 0..module.functions.len() {
            let mut callers = callers(at);
            match (callers.next(), callers.next()) {
                (Some(one), None) => at = one,
                (first, _) => return first.is_none(),
            }
        }
        false
    };
    (0..module.functions.len()).filter(|f| once(*f)).flat_map(insts).collect()
}

/// The parameters of a run.
#[derive(Clone, Copy)]
struct How {
    size: u32,
    way: Reconvergence,
    /// The value of the specialization constant, if not its default.
    constant: Option<u32>,
}

impl How {
    fn new((size, way): (u32, Reconvergence)) -> How {
        How { size, way, constant: None }
    }
}

fn run(
    made: &Diverging,
    How { size, way, constant }: How,
    inputs: &Inputs,
    said: &Said,
    seen: &mut Seen,
    tally: &mut Tally,
) -> Result<(), Box<Wrong>> {
    let seed = inputs.seed;
    let config = Config {
        subgroup_size: size,
        step_budget: 200_000,
        reconvergence: way,
        coverage: true,
        others: Some(seed),
        ..Config::default()
    };
    let mut specialization = Specialization::new();
    if let Some(value) = constant {
        specialization.set(0, SpecValue::Int(value.into()));
    }
    let interpreter =
        Interpreter::new(&made.module, None, &specialization, config).map_err(|e| wrong("not run", e.to_string()))?;
    let report = interpreter.run(&mut inputs.buffers.clone(), &inputs.push, inputs.groups);
    let report = report.map_err(|e| wrong("not run", e.to_string()))?;
    tally.runs += 1;
    let mut whole = true;
    for f in &report.findings {
        match f.kind {
            FindingKind::NonUniformExecution | FindingKind::NonUniformOperand => {}
            FindingKind::Portability | FindingKind::Placement => continue,
            _ => {
                tally.cut_short += u64::from(whole);
                whole = false;
                continue;
            }
        }
        let doubt = said.doubt(f);
        if !whole {
            seen.behind.extend(doubt);
            continue;
        }
        seen.here.extend(doubt);
        let by_default = constant.is_some() && said.defaults.contains(&f.at);
        if doubt.is_none() && !is_free(said.module, f.at) && !by_default {
            let class = if said.assumed.contains(&f.at) { "assumed uniform" } else { "called uniform" };
            let how = match way {
                Reconvergence::Early => "",
                Reconvergence::Promised(_) => ", promised reconvergence only",
            };
            return Err(wrong(
                class,
                format!("subgroups of {size}{how}, seed {seed}: instruction {}: {f}", f.at.index()),
            ));
        }
        // Nothing that barriers promise holds behind one that only some have come to.
        if said.module.inst(f.at).op == Op::ControlBarrier {
            whole = false;
        }
    }
    if !whole {
        return Ok(());
    }
    let Some(coverage) = &report.coverage else { return Ok(()) };
    for (key, witness) in &said.doubts {
        // What is so on one way need not be so in this run.
        let always = |w: &Witness| {
            let by_default = constant.is_some() && said.by_default.contains(key);
            !w.on_a_path && !by_default
        };
        let Some(w) = witness.filter(|w| said.once.contains(&key.0) && always(w)) else { continue };
        let found = report.findings.iter().any(|f| f.at == key.0 && (f.kind == NON_UNIFORM || key.1.is_some()));
        if let Some(what) = contradicted(coverage, *key, w, found) {
            let at = key.0.index();
            let message = format!("subgroups of {size}, seed {seed}: instruction {at}: {what}");
            return Err(wrong("shown but not so", message));
        }
    }
    Ok(())
}

const NON_UNIFORM: FindingKind = FindingKind::NonUniformExecution;

/// Returns the part of a proof that a run contradicts, in which nothing else was undefined. `found` is true if the interpreter
/// reported the instruction.
fn contradicted(coverage: &Coverage, (at, operand): Key, w: Witness, found: bool) -> Option<String> {
    let (one, other) = (w.invocations.0 as usize, w.invocations.1 as usize);
    if operand.is_some() {
        let both = coverage.together(at, one, other) && !found;
        return both.then(|| format!("an operand is the same in invocations {one} and {other}"));
    }
    if !coverage.executed(at, one) {
        return None;
    }
    if !coverage.apart(at, one, other) {
        return Some(format!("invocation {one} executes it with invocation {other} always"));
    }
    (!found).then(|| "its execution is uniform".into())
}

/// Subgroup instructions may be executed by some: the interpreter speaks of an operand of theirs that differs.
fn is_free(module: &Module, at: InstRef) -> bool {
    let op = module.inst(at).op;
    op.execution_scope().is_some() && op != Op::ControlBarrier
}

/// Less entropy that still goes wrong in the same way.
pub fn shrink(entropy: &[u8], constructs: Constructs, seed: u64, class: &str) -> Vec<u8> {
    let fails =
        |bytes: &[u8]| try_entropy(bytes, constructs, seed, &mut Tally::default()).is_err_and(|w| w.class == class);
    let mut best = entropy.to_vec();
    loop {
        let before = best.clone();
        let mut step = best.len() / 2;
        while step > 0 {
            let mut at = 0;
            while at < best.len() {
                let mut less = best.clone();
                less.drain(at..(at + step).min(less.len()));
                if fails(&less) { best = less } else { at += step }
            }
            step /= 2;
        }
        for at in 0..best.len() {
            for value in [0, best[at] / 2, best[at].saturating_sub(1)] {
                let mut less = best.clone();
                less[at] = value;
                if value < best[at] && fails(&less) {
                    best = less;
                    break;
                }
            }
        }
        if best == before {
            return best;
        }
    }
}
