//! Rules about the uniformity of matrix instructions: all invocations of the scope execute them together, with the same
//! operands.
//!
//! [`coop_uniformity`] does the analysis. A proof that two invocations disagree is an error; if they may disagree, it
//! is a warning; the assumptions are notes, one for each. Instructions with the same deciding branch share one finding.

mod callback;
mod rules;

pub(crate) use rules::{ASSUMED, BARRIER, CALLBACK, FLOW, OPERAND, RECURSION};

use crate::cx::Cx;
use crate::options::Options;
use crate::report::{Draft, Part, Sink};
use crate::verdict::Verdict;
use coop_ir::constant::SpecIds;
use coop_ir::{InstRef, Op};
use coop_uniformity::{Analyzer, Aspect, Assumption, Divergence, Refusal, Uniformity, Witness};
use std::collections::BTreeMap;

/// The most other instructions of one finding that are named.
const NAMED: usize = 2;

pub(crate) fn check(cx: &Cx, options: &Options, out: &mut Sink) {
    // The analysis is the most expensive check.
    if [&FLOW, &BARRIER, &OPERAND, &CALLBACK, &RECURSION, &ASSUMED].iter().all(|r| options.is_off(r)) {
        return;
    }
    let analyzer = Analyzer::with(cx.module, &cx.constants, cx.decorations(), cx.calls(), cx.cfgs());
    callback::check(cx, &analyzer, out);
    let with = coop_uniformity::Options { subgroup_size: options.subgroups(), facts: false, unreached: false };
    let mut all = Results::default();
    for entry in cx.entries() {
        // The analysis takes memory for each block. Recursion has its own finding.
        if !analyzer.has_collectives(entry) && !analyzer.is_recursive(entry) {
            continue;
        }
        match analyzer.analyze(entry, with) {
            Ok(analysis) => all.add(analysis),
            Err(Refusal::Recursion(functions)) => recursion(cx, &functions, out),
            Err(Refusal::NoFunction) => {}
        }
    }
    all.report(cx, out);
}

/// The results for all entry points.
#[derive(Default)]
struct Results {
    /// The worst divergence for each instruction and aspect.
    divergences: BTreeMap<(InstRef, u32), Divergence>,
    assumed: BTreeMap<Assumption, Vec<InstRef>>,
    /// The specialization constants whose defaults were assumed.
    defaults: SpecIds,
    unfollowed: Vec<(InstRef, usize)>,
    exhausted: bool,
}

impl Results {
    fn add(&mut self, analysis: coop_uniformity::Analysis) {
        for d in analysis.divergences {
            let key = (d.at, rank(d.aspect));
            let worse = self.divergences.get(&key).is_none_or(|old| old.witness.is_none() && d.witness.is_some());
            if worse {
                self.divergences.insert(key, d);
            }
        }
        for (what, at) in analysis.assumed {
            self.assumed.entry(what).or_default().push(at);
        }
        self.defaults.merge(&analysis.defaults);
        self.unfollowed.extend(analysis.unfollowed);
        self.exhausted |= analysis.exhausted;
    }

    fn report(self, cx: &Cx, out: &mut Sink) {
        // Divergences with the same cause, in file order.
        let mut groups: Vec<(&Divergence, Vec<InstRef>)> = Vec::new();
        for d in self.divergences.values() {
            let same = |g: &&mut (&Divergence, Vec<InstRef>)| {
                let flow = !matches!(d.aspect, Aspect::Operand(_));
                let alike = g.0.aspect == d.aspect && g.0.scope == d.scope;
                flow && alike && g.0.witness == d.witness && g.0.chain.first() == d.chain.first()
            };
            match groups.iter_mut().find(same) {
                Some(g) => g.1.push(d.at),
                None => groups.push((d, Vec::new())),
            }
        }
        for (divergence, others) in groups {
            let rule = match divergence.aspect {
                Aspect::Flow => &FLOW,
                Aspect::Barrier => &BARRIER,
                Aspect::Operand(_) => &OPERAND,
            };
            let draft = || self.draft(cx, divergence, &others);
            match divergence.witness {
                Some(_) if divergence.defaults.is_empty() => out.report(rule, divergence.at, draft),
                Some(_) => out.judge(rule, Verdict::BrokenByDefault(divergence.defaults.clone()), divergence.at, draft),
                None => out.suspect(rule, divergence.at, draft),
            }
        }
        for (assumption, at) in &self.assumed {
            let mut at = at.clone();
            at.sort_unstable();
            at.dedup();
            let Some(first) = at.first() else { continue };
            let verdict = match assumption {
                Assumption::Defaults => Verdict::BrokenByDefault(self.defaults.clone()),
                _ => Verdict::Broken,
            };
            out.judge(&ASSUMED, verdict, *first, || assumed(cx, *assumption, &at));
        }
        self.report_unfollowed(cx, out);
    }

    fn draft(&self, cx: &Cx, divergence: &Divergence, others: &[InstRef]) -> Draft {
        let inst = cx.inst(divergence.at);
        let mut message = match divergence.aspect {
            Aspect::Operand(i) => operand_message(cx, divergence, i),
            _ => flow_message(inst.op, divergence),
        };
        if !others.is_empty() {
            message.push_str(&match others.len() {
                1 => ", and so is 1 more instruction".to_owned(),
                n => format!(", and so are {n} more instructions"),
            });
        }
        let (part, text) = match divergence.aspect {
            Aspect::Operand(i) => (Part::Operand(i as usize), "must be the same for all"),
            _ => (Part::Whole, "must be executed by all or none"),
        };
        let mut draft = Draft::new(message).label(divergence.at, part, text);
        for step in &divergence.chain {
            draft = draft.label(step.at, Part::Whole, step.text.clone());
        }
        for at in others.iter().take(NAMED) {
            draft = draft.label(*at, Part::Whole, "this one too");
        }
        if self.exhausted {
            draft = draft.help("the module is too large to be analyzed, so nothing in it is known to be uniform");
        } else if divergence.witness.is_some_and(|w| w.assumed && divergence.scope == Uniformity::Subgroup) {
            draft = draft.help("32 is the default; `--subgroup-size N` sets the subgroup size");
        }
        draft
    }

    /// Reports calls that were not followed: nothing is known about the instructions that they execute.
    fn report_unfollowed(&self, cx: &Cx, out: &mut Sink) {
        let mut calls = self.unfollowed.clone();
        calls.sort_unstable();
        calls.dedup();
        for (at, function) in calls {
            let blocks = cx.module.functions[function].blocks.iter();
            let insts = blocks.flat_map(|b| b.insts.iter().copied());
            if insts.map(|r| cx.inst(r)).any(|i| callback::is_tangled(cx, i) || i.op == Op::FunctionCall) {
                out.suspect(&FLOW, at, || {
                    Draft::new("it is not known whether all invocations execute the body of this call").label(
                        at,
                        Part::Whole,
                        "too many calls to follow this one",
                    )
                });
            }
        }
    }
}

/// Returns a number for an aspect, to sort by.
fn rank(aspect: Aspect) -> u32 {
    match aspect {
        Aspect::Flow => 0,
        Aspect::Barrier => 1,
        Aspect::Operand(i) => 2 + i,
    }
}

fn scope_name(scope: Uniformity) -> &'static str {
    if scope == Uniformity::Workgroup { "the workgroup" } else { "a subgroup" }
}

/// Returns the subgroup size for a message, where it matters.
fn subgroups(w: &Witness, scope: Uniformity) -> String {
    match (scope, w.in_subgroup) {
        (Uniformity::Subgroup, true) => format!(" of a subgroup of {}", w.subgroup),
        (Uniformity::Subgroup, false) => format!(" (subgroups of {})", w.subgroup),
        _ => String::new(),
    }
}

/// Returns the place where the proof holds, if not wherever the instruction is executed.
fn on_a_path(w: &Witness) -> Option<String> {
    w.on_a_path.then(|| match w.workgroup {
        Some([x, y, z]) => format!(" in workgroup {x} {y} {z}"),
        None => " on one of the paths to it".into(),
    })
}

fn flow_message(op: Op, divergence: &Divergence) -> String {
    let scope = scope_name(divergence.scope);
    match &divergence.witness {
        Some(w) => {
            let (one, other) = w.invocations;
            let of = subgroups(w, divergence.scope);
            let iteration = match w.iteration {
                0 => String::new(),
                n => format!(", in iteration {} of the loop", n + 1),
            };
            match on_a_path(w) {
                Some(path) => format!(
                    "{op} is executed by a part of {scope}{path}: by invocation {one}, not by invocation {other}{of}"
                ),
                None => format!(
                    "{op} is executed by a part of {scope}: if by invocation {one}, then not by invocation {other}{of}{iteration}"
                ),
            }
        }
        None => format!("{op} may be executed by a part of {scope}"),
    }
}

fn operand_message(cx: &Cx, divergence: &Divergence, operand: u32) -> String {
    let inst = cx.inst(divergence.at);
    let scope = scope_name(divergence.scope);
    let name = operand_name(inst.op, operand);
    match &divergence.witness {
        Some(w) => {
            let (one, other) = w.invocations;
            let of = subgroups(w, divergence.scope);
            let path = on_a_path(w).unwrap_or_default();
            match w.values {
                Some((x, y)) => format!(
                    "{name} of {} differs within {scope}{path}: {x} in invocation {one}, {y} in invocation {other}{of}",
                    inst.op
                ),
                None => {
                    let op = inst.op;
                    format!("{name} of {op} differs within {scope}{path}: between invocations {one} and {other}{of}")
                }
            }
        }
        None => format!("{name} of {} may differ within {scope}", inst.op),
    }
}

fn operand_name(op: Op, operand: u32) -> String {
    match (op, operand) {
        (op, 0) if op.is_matrix_access() => "the Pointer".into(),
        (Op::CooperativeMatrixLoadKHR, 1) | (Op::CooperativeMatrixStoreKHR, 2) => "the MemoryLayout".into(),
        (Op::CooperativeMatrixLoadKHR, 2) | (Op::CooperativeMatrixStoreKHR, 3) => "the Stride".into(),
        (Op::CooperativeMatrixLoadNV, 1) | (Op::CooperativeMatrixStoreNV, 2) => "the Stride".into(),
        (Op::CooperativeMatrixLoadTensorNV | Op::CooperativeMatrixStoreTensorNV, 2) => "the TensorLayout".into(),
        (Op::CooperativeMatrixLoadTensorNV | Op::CooperativeMatrixStoreTensorNV, _) => "the TensorView".into(),
        (Op::CompositeConstruct | Op::CompositeConstructReplicateEXT, _) => "the value".into(),
        (Op::MatrixTimesScalar, _) => "the scalar".into(),
        (_, n) => format!("operand {n}"),
    }
}

fn assumed(cx: &Cx, assumption: Assumption, at: &[InstRef]) -> Draft {
    let what = match assumption {
        Assumption::FullSubgroups => "subgroups are full and made of consecutive invocations",
        Assumption::SubgroupSize => "subgroups have 32 invocations",
        Assumption::NoRace => "no invocation writes memory that others read at the same time",
        Assumption::EqualLengths => "all invocations hold equally many elements of a matrix",
        Assumption::Reduced => "what was reduced over the workgroup covers the value of each invocation",
        Assumption::Reconvergence => "subgroups stay together where only the workgroup diverges",
        // The verdict names these constants.
        Assumption::Defaults => "",
    };
    let first = cx.inst(at[0]).op;
    let who = match at.len() {
        1 => format!("{first} is"),
        2 => format!("{first} and 1 more instruction are"),
        n => format!("{first} and {} more instructions are", n - 1),
    };
    let what = if what.is_empty() { String::new() } else { format!(" if {what}") };
    let draft = Draft::new(format!("{who} executed by all invocations only{what}")).label(
        at[0],
        Part::Whole,
        "the first of them",
    );
    match assumption {
        Assumption::SubgroupSize => draft.help("pass `--subgroup-size N` to check what is run"),
        Assumption::Reconvergence => draft.help(
            "drivers do that; `OpExecutionMode SubgroupUniformControlFlowKHR` (VK_KHR_shader_subgroup_uniform_control_flow) \
             asks for it",
        ),
        _ => draft,
    }
}

fn recursion(cx: &Cx, functions: &[usize], out: &mut Sink) {
    let Some(f) = functions.first() else { return };
    let at = cx.module.functions[*f].def;
    out.report(&RECURSION, at, || {
        let others = functions.iter().skip(1).map(|f| cx.module.functions[*f].def);
        let mut draft = Draft::new("the function calls itself, directly or through others").label(
            at,
            Part::Whole,
            "a function of the cycle",
        );
        for other in others.take(NAMED) {
            draft = draft.label(other, Part::Whole, "another one");
        }
        draft
    });
}
