//! Proofs that invocations disagree: values for each invocation as far as they follow from what is known.
//!
//! A branch shows that an instruction is not executed together if the instruction can't be executed without it, and
//! one of these holds:
//!
//! 1. the branch sends one invocation where it can't come to the instruction whatever else happens, as what decides is
//!    the same in every round: whoever executes the instruction is without that one;
//! 2. in some round it sends one invocation where the instruction is never reached again, in that round or later, and
//!    another where every path leads to it; if what decides is not the same in every round, every path of that round
//!    must lead to the branch.
//!
//! What is known of a round follows from where the loop begins and, for later rounds, from what its phis become, as
//! long as everything that may leave the loop is known to stay.
//!
//! Where neither holds the program is run with data that is made up (see `play`): that shows a disagreement on one way to
//! the instruction, if invocations part by what is known of them alone.

mod evaluate;
mod layouts;

use super::graph::NONE;
use super::nodes::Kind;
use super::play::{Differing, Goal, Player, Run, Way};
use super::shape::Shape;
use super::solve::Solved;
use super::{Assumptions, Number, Uniformity};
use coop_ir::InstRef;
use coop_ir::cfg::{DomTree, Graph};
use coop_ir::decorate::Decorations;
use coop_ir::grammar::Op;
use coop_ir::hash::{FxHashMap, FxHashSet};
use std::cell::OnceCell;
use std::rc::Rc;

/// A value for each invocation, where it is known.
pub(super) type Values = Rc<Vec<Option<u64>>>;

/// Deeper expressions are not followed.
const MAX_DEPTH: u32 = 80;
/// Rounds of a loop that are followed.
const MAX_ROUNDS: u64 = 2048;
/// Rounds in which a way is looked for.
const MAX_PLAYS: u32 = 4;
/// Nodes that are looked at for one proof.
const MAX_WORK: u32 = 20_000;

/// Two invocations of one instance of a scope.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Pair {
    /// May execute the instruction, or has the first value.
    pub(super) one: usize,
    /// Does not execute it, or has the other value.
    pub(super) other: usize,
    /// The round of the loop in which they part; 0 is the first.
    pub(super) round: u64,
}

/// Looks for proofs.
pub(super) struct Prover<'s, 'p, 'm> {
    solved: &'s Solved<'p, 'm>,
    decorations: &'s Decorations,
    dom: DomTree,
    /// Looks for ways, if there must be one.
    player: Option<OnceCell<Player<'s, 'p, 'm>>>,
}

/// What was shown.
pub(super) struct Shown {
    pub(super) pair: Pair,
    /// The values of an operand, if they are known.
    pub(super) values: Option<(Number, Number)>,
    pub(super) way: Way,
    /// What the proof rests on.
    pub(super) assumes: Assumptions,
    /// The workgroup, if it decides, and the branch that parts the two, if it is so on that way and not on others.
    pub(super) run: Option<(Option<[u32; 3]>, Option<u32>)>,
}

/// What follows from where a branch leads.
struct Exit {
    to: u32,
    /// True if the instruction can be executed at all, if the branch always leads there.
    ever: bool,
    /// True if it can be executed from then on.
    again: bool,
    /// True if it must be executed then, before the branch is come to again.
    certain: bool,
}

/// What is known of a node in a round.
struct Known {
    values: Values,
    round: u64,
    /// True if it rests on what loops' phis are in this round.
    varies: bool,
    /// True if it does, and some path through the round goes past.
    unsure: bool,
    /// The branches whose conditions it rests on.
    asked: FxHashSet<u32>,
    assumes: Assumptions,
}

/// One evaluation: as seen from a spot.
struct Round<'a> {
    from: u32,
    /// What phis of the loop that is followed are in this round.
    phis: &'a FxHashMap<u32, Values>,
    memo: FxHashMap<u32, Values>,
    left: u32,
    /// True if a loop's phi was asked for.
    varies: bool,
    /// The branches whose conditions were looked at.
    asked: FxHashSet<u32>,
    /// What the values rest on.
    assumes: Assumptions,
}

impl<'a> Round<'a> {
    fn new(from: u32, phis: &'a FxHashMap<u32, Values>) -> Round<'a> {
        let (memo, asked) = (FxHashMap::default(), FxHashSet::default());
        Round { from, phis, memo, left: MAX_WORK, varies: false, asked, assumes: Assumptions::NONE }
    }
}

impl<'s, 'p, 'm> Prover<'s, 'p, 'm> {
    /// `ways` is whether somebody must be able to come to what is shown.
    pub(super) fn new(solved: &'s Solved<'p, 'm>, decorations: &'s Decorations, ways: bool) -> Prover<'s, 'p, 'm> {
        let taken = solved.program.edges.iter().enumerate().filter(|(e, _)| solved.regions.taken[*e]);
        let edges: Vec<_> = taken.map(|(_, e)| (e.from as usize, e.to as usize)).collect();
        let graph = Graph::new(solved.program.spots.len(), &edges);
        Prover { solved, decorations, dom: DomTree::new(&graph, 0), player: ways.then(OnceCell::new) }
    }

    /// Looks for a way to a goal.
    fn play(&self, goal: &Goal) -> Option<(Pair, Way)> {
        match &self.player {
            Some(player) => player.get_or_init(|| Player::new(self.solved, self.decorations)).play(goal),
            None => goal.pair.map(|pair| (pair, Way::default())),
        }
    }

    /// Two invocations of which one can't execute `spot` because of a branch, at least not when the other does,
    /// and how the other comes to it.
    pub(super) fn parted(&self, branch: u32, spot: u32, scope: Uniformity) -> Option<Shown> {
        let solved = self.solved;
        let condition = solved.graph.find(solved.graph.conditions[branch as usize]);
        let targets: Vec<u32> = solved.regions.next(branch).collect();
        let ways: Vec<Exit> = targets
            .iter()
            .map(|t| Exit {
                to: *t,
                ever: self.reaches(0, spot, Some((branch, *t))),
                again: *t == spot || self.reaches(*t, spot, None),
                certain: *t == spot || self.unavoidable(branch, *t, spot),
            })
            .collect();
        let with_it = self.dom.dominates(branch as usize, spot as usize)
            || self.unavoidable(spot, spot, branch)
            || ways.iter().any(|w| !w.ever);
        if !with_it || ways.iter().all(|w| w.ever && w.again) {
            return None;
        }
        let (mut plays, mut assumes) = (MAX_PLAYS, Assumptions::NONE);
        let (pair, way) = self.in_rounds(branch, condition, |known| {
            let Known { values, round, varies, unsure, asked, .. } = known;
            assumes = known.assumes;
            let way = |lane: usize| {
                let to = self.target(branch, values.get(lane).copied().flatten()?)?;
                ways.iter().find(|w| w.to == to)
            };
            let all: Vec<Option<&Exit>> = (0..solved.grid.lanes).map(way).collect();
            // Those that can't execute it, in no round.
            let never: Vec<bool> = all.iter().map(|w| !varies && w.is_some_and(|w| !w.ever)).collect();
            // The first executes it, or may, the second does not.
            let apart = |one: usize, other: usize| match (all[one], all[other]) {
                (Some(to), Some(w)) => {
                    (never[other] && to.ever) || (!unsure && to.certain && !w.again && w.to != to.to)
                }
                _ => false,
            };
            let found = solved.grid.witness(scope, |a, b| apart(a, b) || apart(b, a));
            let pair = found.map(|(a, b)| {
                let (one, other) = if apart(a, b) { (a, b) } else { (b, a) };
                Pair { one, other, round: *round }
            });
            // Of the first nothing may be known; but some must be able to go there.
            let may = |one: usize| all[one].is_none_or(|w| w.ever);
            let pair = pair.or_else(|| {
                let (a, b) = solved.grid.witness(scope, |a, b| never[a] && may(b) || never[b] && may(a))?;
                let (one, other) = if never[b] { (a, b) } else { (b, a) };
                Some(Pair { one, other, round: *round })
            });
            pair.filter(|_| plays > 0)?;
            plays -= 1;
            let goal =
                Goal { branch: Some(branch), spot, scope, asked, pair, never: &never, round: *round, differ: None };
            self.play(&goal)
        })?;
        Some(Shown { pair, values: None, way, assumes, run: None })
    }

    /// Two invocations of which one executes `spot` without the other, on some way there; `around` are the branches
    /// that may part them.
    pub(super) fn parted_on_a_way(&self, spot: u32, scope: Uniformity, around: &[u32]) -> Option<Shown> {
        let condition = |x: &u32| self.solved.graph.find(self.solved.graph.conditions[*x as usize]);
        let known = around.iter().any(|x| self.knows_apart(condition(x)));
        known.then(|| self.run(spot, scope, None)).flatten()
    }

    /// Returns true if anything in which invocations are known to differ goes into a value, without a read of memory.
    fn knows_apart(&self, n: u32) -> bool {
        let graph = &self.solved.graph;
        let mut seen = FxHashSet::default();
        let mut work = vec![n];
        while let Some(n) = work.pop() {
            let node = &graph.nodes[n as usize];
            if matches!(node.shape, Shape::Lanes(_) | Shape::Offset { .. }) {
                return true;
            }
            if seen.len() < MAX_WORK as usize && seen.insert(n) && !matches!(node.kind, Kind::Load { .. }) {
                work.extend(graph.operands(n).map(|(op, _)| op));
            }
        }
        false
    }

    fn run(&self, spot: u32, scope: Uniformity, differ: Option<Differing>) -> Option<Shown> {
        let player = self.player.as_ref()?.get_or_init(|| Player::new(self.solved, self.decorations));
        let Run { pair, way, workgroup, parted, assumes, values } = player.run(spot, scope, differ)?;
        let values = differ.zip(values).map(|(d, v)| self.numbers(d.node, v));
        Some(Shown { pair, values, way, assumes, run: Some((workgroup, parted)) })
    }

    /// Two invocations for which an operand differs, and how they come to it.
    pub(super) fn differ(&self, node: u32, spot: u32, scope: Uniformity) -> Option<Shown> {
        let sources = self.sources(node, scope);
        let always = sources.iter().find_map(|(n, exact)| self.differ_always(*n, *exact, spot, scope));
        always.or_else(|| {
            let on_a_way = |(n, exact): &(u32, u64)| self.run(spot, scope, Some(Differing { node: *n, exact: *exact }));
            sources.iter().find_map(on_a_way)
        })
    }

    /// Values of which each decides alone whether a value differs, and up to which number.
    fn sources(&self, node: u32, scope: Uniformity) -> Vec<(u32, u64)> {
        let solved = self.solved;
        let mut n = solved.graph.find(node);
        // Below this, integers stay apart.
        let mut exact = u64::MAX;
        // Of an address only one index may differ: then the address does.
        for _ in 0..32 {
            let of = &solved.graph.nodes[n as usize];
            let op = of.inst.map(|r| solved.program.module.inst(r).op);
            if op.is_some_and(layouts::is_layout) {
                return self.fields(n, scope).into_iter().map(|n| (n, exact)).collect();
            }
            if of.kind != Kind::Max || !op.is_none_or(keeps_apart) {
                break;
            }
            if matches!(op, Some(Op::ConvertUToF | Op::ConvertSToF)) {
                exact = exact.min(self.exact_integers(of.inst));
            }
            let mut apart = solved.graph.operands(n).filter(|(op, _)| solved.seen_from(*op, of.spot).0 > scope);
            match (apart.next(), apart.next()) {
                (Some((op, _)), None) => n = op,
                _ => return Vec::new(),
            }
        }
        vec![(n, exact)]
    }

    fn differ_always(&self, n: u32, exact: u64, spot: u32, scope: Uniformity) -> Option<Shown> {
        let solved = self.solved;
        let of = &solved.graph.nodes[n as usize];
        if let Shape::Offset { lanes, base, .. } = &of.shape
            && *base <= scope
            && exact == u64::MAX
        {
            let (one, other) = solved.grid.witness(scope, |a, b| lanes[a] != lanes[b])?;
            let pair = Pair { one, other, round: 0 };
            let none = FxHashSet::default();
            let (pair, way) = self.play(&Goal::operand(spot, scope, pair, Differing { node: n, exact }, &none))?;
            return Some(Shown { pair, values: None, way, assumes: of.shape_assumes, run: None });
        }
        let (mut values, mut plays, mut assumes) = ((0, 0), MAX_PLAYS, Assumptions::NONE);
        let (pair, way) = self.in_rounds(spot, n, |known| {
            // Whether it is executed in this very round is not known.
            (!known.varies).then_some(())?;
            let v = &known.values;
            let (one, other) = solved
                .grid
                .witness(scope, |a, b| matches!((v[a], v[b]), (Some(x), Some(y)) if x != y && x.max(y) <= exact))?;
            values = (v[one]?, v[other]?);
            assumes = known.assumes;
            plays = u32::checked_sub(plays, 1)?;
            let pair = Pair { one, other, round: known.round };
            self.play(&Goal::operand(spot, scope, pair, Differing { node: n, exact }, &known.asked))
        })?;
        Some(Shown { pair, values: Some(self.numbers(n, values)), way, assumes, run: None })
    }

    /// The values of a node, as they are called.
    fn numbers(&self, n: u32, (a, b): (u64, u64)) -> (Number, Number) {
        let float = self.solved.graph.nodes[n as usize].width == 0;
        (Number::new(a, float), Number::new(b, float))
    }

    /// Up to which number a conversion to floats keeps all integers.
    fn exact_integers(&self, conversion: Option<InstRef>) -> u64 {
        let module = self.solved.program.module;
        let ty = conversion.and_then(|r| module.inst(r).ty).and_then(|t| module.def_inst(t));
        match ty.and_then(|t| t.word(0)).filter(|_| ty.is_some_and(|t| t.op == Op::TypeFloat)) {
            Some(32 | 64) => 1 << 24,
            // The least of all formats.
            Some(16) => 1 << 8,
            _ => 0,
        }
    }

    /// Asks for the values of a node in the first round of all loops around a spot, and in later ones of the innermost.
    fn in_rounds(
        &self,
        spot: u32,
        node: u32,
        mut judge: impl FnMut(&Known) -> Option<(Pair, Way)>,
    ) -> Option<(Pair, Way)> {
        let solved = self.solved;
        let mut phis: FxHashMap<u32, Values> = FxHashMap::default();
        let l = solved.program.spot(spot).in_loop;
        let mut work = 0;
        let (mut before, mut assumes) = (FxHashSet::default(), Assumptions::NONE);
        for round in 0..MAX_ROUNDS {
            let mut r = Round::new(spot, &phis);
            (r.asked, r.assumes) = (std::mem::take(&mut before), assumes);
            let values = self.values(node, &mut r, 0);
            let varies = r.varies;
            let unsure = varies && !self.comes_to(spot, &mut r);
            let (asked, assumed) = (std::mem::take(&mut r.asked), r.assumes);
            let known = Known { values, round, varies, unsure, asked, assumes: assumed };
            if let Some(found) = judge(&known) {
                return Some(found);
            }
            r.asked = known.asked;
            work += r.memo.len() as u64 * solved.grid.lanes as u64;
            let one_entry = l != NONE && solved.program.loops[l as usize].entries.len() == 1;
            if !one_entry || work > 4_000_000 || !self.all_stay(l, &mut r) {
                return None;
            }
            let met: Vec<u32> = r.memo.keys().copied().chain(phis.keys().copied()).collect();
            // The next round's phis, of those that matter.
            let mut next = FxHashMap::default();
            for n in met {
                if self.is_header_phi(n, l) && !next.contains_key(&n) {
                    next.insert(n, self.latched(n, l, &mut r));
                }
            }
            if next.is_empty() || next == phis {
                return None;
            }
            (before, assumes) = (r.asked, r.assumes);
            phis = next;
        }
        None
    }

    /// Whether, in this round, every path through the loops around a spot comes to it.
    fn comes_to(&self, spot: u32, r: &mut Round) -> bool {
        let mut l = self.solved.program.spot(spot).in_loop;
        while l != NONE {
            if !self.comes_in(l, spot, r) {
                return false;
            }
            l = self.solved.program.loops[l as usize].parent;
        }
        true
    }

    fn comes_in(&self, l: u32, spot: u32, r: &mut Round) -> bool {
        let solved = self.solved;
        let program = solved.program;
        let entries = &program.loops[l as usize].entries;
        let mut seen = vec![false; program.spots.len()];
        let mut work: Vec<u32> = entries.clone();
        while let Some(s) = work.pop() {
            if s == spot || std::mem::replace(&mut seen[s as usize], true) {
                continue;
            }
            let condition = solved.graph.conditions[s as usize];
            let known: Option<Vec<u32>> = match condition {
                NONE => None,
                c => self.values(c, r, 0).iter().map(|v| v.and_then(|v| self.target(s, v))).collect(),
            };
            r.asked.extend(known.is_some().then_some(s));
            let next: Vec<u32> = known.unwrap_or_else(|| solved.regions.next(s).collect());
            let ends = next.is_empty() && program.terminator_op(s) != Some(Op::Unreachable);
            if ends || next.iter().any(|t| !program.in_loop(*t, l) || entries.contains(t) && *t != spot) {
                return false;
            }
            work.extend(next);
        }
        true
    }

    /// Returns true if no invocation leaves a loop in a round.
    fn all_stay(&self, l: u32, r: &mut Round) -> bool {
        let solved = self.solved;
        let program = solved.program;
        let spots = program.order.iter().copied().filter(|s| solved.live[*s as usize] && program.in_loop(*s, l));
        for s in spots {
            if solved.regions.next(s).all(|to| program.in_loop(to, l)) {
                continue;
            }
            let condition = solved.graph.conditions[s as usize];
            if condition == NONE {
                return false;
            }
            let values = self.values(condition, r, 0);
            let stays = |v: &Option<u64>| v.and_then(|v| self.target(s, v)).is_some_and(|to| program.in_loop(to, l));
            if !values.iter().all(stays) {
                return false;
            }
            r.asked.insert(s);
        }
        true
    }

    fn is_header_phi(&self, n: u32, l: u32) -> bool {
        let node = &self.solved.graph.nodes[n as usize];
        node.kind == Kind::Phi && self.solved.program.headed_loop(node.spot) == Some(l)
    }

    /// What a phi of a loop's header is in the next round.
    fn latched(&self, n: u32, l: u32, r: &mut Round) -> Values {
        let solved = self.solved;
        let program = solved.program;
        let mut back = solved.graph.operands(n).filter(|(_, e)| {
            e.is_some_and(|e| solved.regions.taken[e as usize] && program.in_loop(program.edge(e).from, l))
        });
        match (back.next(), back.next()) {
            (Some((op, _)), None) => self.values(op, r, 0),
            _ => self.unknown(),
        }
    }

    /// Returns true if a path leads from one spot to another; if `forced` is given, one that goes from that branch to
    /// that target whenever it comes there.
    fn reaches(&self, from: u32, spot: u32, forced: Option<(u32, u32)>) -> bool {
        let program = self.solved.program;
        let mut seen = vec![false; program.spots.len()];
        let mut work = vec![from];
        while let Some(s) = work.pop() {
            if s == spot && (forced.is_some() || s != from) {
                return true;
            }
            if std::mem::replace(&mut seen[s as usize], true) {
                continue;
            }
            let next = self.solved.regions.next(s);
            work.extend(next.filter(|n| forced.is_none_or(|(branch, to)| s != branch || *n == to)));
        }
        false
    }

    /// Returns true if every path from `to` on comes to a spot before it comes to the branch (again) or ends.
    fn unavoidable(&self, branch: u32, to: u32, spot: u32) -> bool {
        let program = self.solved.program;
        let ends =
            |s: u32| self.solved.regions.next(s).next().is_none() && program.terminator_op(s) != Some(Op::Unreachable);
        if to == branch && ends(to) {
            return false;
        }
        let mut seen = vec![false; program.spots.len()];
        let mut work: Vec<u32> = if to == branch { self.solved.regions.next(to).collect() } else { vec![to] };
        while let Some(s) = work.pop() {
            if s == spot || std::mem::replace(&mut seen[s as usize], true) {
                continue;
            }
            if s == branch || ends(s) {
                return false;
            }
            work.extend(self.solved.regions.next(s));
        }
        true
    }
}

/// Returns true if results differ if one operand does.
fn keeps_apart(op: Op) -> bool {
    super::values::is_followed_chain(op)
        // Of small integers.
        || matches!(op, Op::ConvertUToF | Op::ConvertSToF)
}
