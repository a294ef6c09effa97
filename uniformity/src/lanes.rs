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

use super::Uniformity;
use super::graph::NONE;
use super::nodes::Kind;
use super::play::{Differing, Goal, Player, Way};
use super::shape::{Arg, Fold, Shape, fold};
use super::solve::Solved;
use coop_ir::InstRef;
use coop_ir::cfg::{Case, DomTree, Graph};
use coop_ir::decorate::Decorations;
use coop_ir::grammar::Op;
use rustc_hash::{FxHashMap, FxHashSet};
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

/// An operand that is shown to differ.
pub(super) struct Shown {
    pub(super) pair: Pair,
    /// The values, if they are known.
    pub(super) values: Option<(u64, u64)>,
    pub(super) way: Way,
}

/// What follows from where a branch leads.
struct Exit {
    to: u32,
    /// Whether the instruction can be executed at all, if the branch always leads there.
    ever: bool,
    /// Whether it can be executed from then on.
    again: bool,
    /// Whether it must be executed then, before the branch is come to again.
    certain: bool,
}

/// What is known of a node in a round.
struct Known {
    values: Values,
    round: u64,
    /// Whether it rests on what loops' phis are in this round.
    varies: bool,
    /// Whether it does, and some path through the round goes past.
    unsure: bool,
    /// The branches whose conditions it rests on.
    asked: FxHashSet<u32>,
}

/// One evaluation: as seen from a spot.
struct Round<'a> {
    from: u32,
    /// What phis of the loop that is followed are in this round.
    phis: &'a FxHashMap<u32, Values>,
    memo: FxHashMap<u32, Values>,
    left: u32,
    /// Whether a loop's phi was asked for.
    varies: bool,
    /// The branches whose conditions were looked at.
    asked: FxHashSet<u32>,
}

impl<'a> Round<'a> {
    fn new(from: u32, phis: &'a FxHashMap<u32, Values>) -> Round<'a> {
        let (memo, asked) = (FxHashMap::default(), FxHashSet::default());
        Round { from, phis, memo, left: MAX_WORK, varies: false, asked }
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
    pub(super) fn parted(&self, branch: u32, spot: u32, scope: Uniformity) -> Option<(Pair, Way)> {
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
        let mut plays = MAX_PLAYS;
        self.in_rounds(branch, condition, |known| {
            let Known { values, round, varies, unsure, asked } = known;
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
        })
    }

    /// Two invocations for which an operand differs, and how they come to it.
    pub(super) fn differ(&self, node: u32, spot: u32, scope: Uniformity) -> Option<Shown> {
        let solved = self.solved;
        let mut n = solved.graph.find(node);
        // Below this, integers stay apart.
        let mut exact = u64::MAX;
        // Of an address only one index may differ: then the address does.
        for _ in 0..32 {
            let of = &solved.graph.nodes[n as usize];
            let op = of.inst.map(|r| solved.program.module.inst(r).op);
            if of.kind != Kind::Max || !op.is_none_or(keeps_apart) {
                break;
            }
            if matches!(op, Some(Op::ConvertUToF | Op::ConvertSToF)) {
                exact = exact.min(self.exact_integers(of.inst));
            }
            let mut apart = solved.graph.operands(n).filter(|(op, _)| solved.seen_from(*op, of.spot).0 > scope);
            match (apart.next(), apart.next()) {
                (Some((op, _)), None) => n = op,
                _ => return None,
            }
        }
        if let Shape::Offset { lanes, base, .. } = &solved.graph.nodes[n as usize].shape
            && *base <= scope
            && exact == u64::MAX
        {
            let (one, other) = solved.grid.witness(scope, |a, b| lanes[a] != lanes[b])?;
            let pair = Pair { one, other, round: 0 };
            let none = FxHashSet::default();
            let (pair, way) = self.play(&Goal::operand(spot, scope, pair, Differing { node: n, exact }, &none))?;
            return Some(Shown { pair, values: None, way });
        }
        let (mut values, mut plays) = ((0, 0), MAX_PLAYS);
        let (pair, way) = self.in_rounds(spot, n, |known| {
            // Whether it is executed in this very round is not known.
            (!known.varies).then_some(())?;
            let v = &known.values;
            let (one, other) = solved
                .grid
                .witness(scope, |a, b| matches!((v[a], v[b]), (Some(x), Some(y)) if x != y && x.max(y) <= exact))?;
            values = (v[one]?, v[other]?);
            plays = u32::checked_sub(plays, 1)?;
            let pair = Pair { one, other, round: known.round };
            self.play(&Goal::operand(spot, scope, pair, Differing { node: n, exact }, &known.asked))
        })?;
        Some(Shown { pair, values: Some(values), way })
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
        let mut before = FxHashSet::default();
        for round in 0..MAX_ROUNDS {
            let mut r = Round::new(spot, &phis);
            r.asked = std::mem::take(&mut before);
            let values = self.values(node, &mut r, 0);
            let varies = r.varies;
            let unsure = varies && !self.comes_to(spot, &mut r);
            let known = Known { values, round, varies, unsure, asked: std::mem::take(&mut r.asked) };
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
            (phis, before) = (next, r.asked);
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

    /// Whether no invocation leaves a loop in a round.
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

    fn unknown(&self) -> Values {
        Rc::new(vec![None; self.solved.grid.lanes])
    }

    fn values(&self, n: u32, r: &mut Round, depth: u32) -> Values {
        let n = self.solved.graph.find(n);
        if let Some(v) = r.phis.get(&n).cloned() {
            r.varies = true;
            return v;
        }
        if let Some(v) = r.memo.get(&n) {
            return v.clone();
        }
        if depth > MAX_DEPTH || r.left == 0 {
            return self.unknown();
        }
        r.left -= 1;
        // Stands in for itself while it is looked for.
        r.memo.insert(n, self.unknown());
        let values = self.find_values(n, r, depth);
        r.memo.insert(n, values.clone());
        values
    }

    fn find_values(&self, n: u32, r: &mut Round, depth: u32) -> Values {
        let solved = self.solved;
        let node = &solved.graph.nodes[n as usize];
        if node.shape.is_exact() {
            return Rc::new((0..solved.grid.lanes).map(|l| node.shape.value(l)).collect());
        }
        match node.kind {
            Kind::Fold(f) => {
                let ops: Vec<u32> = solved.graph.operands(n).map(|(op, _)| op).collect();
                let widths: Vec<u32> = ops.iter().map(|op| u32::from(solved.graph.nodes[*op as usize].width)).collect();
                let args: Vec<Values> = ops.iter().map(|op| self.values(*op, r, depth + 1)).collect();
                self.computed(f, u32::from(node.width), &args, &widths)
            }
            Kind::Phi => self.phi_values(n, r, depth),
            _ => self.unknown(),
        }
    }

    fn computed(&self, f: Fold, out: u32, args: &[Values], widths: &[u32]) -> Values {
        let grid = &self.solved.grid;
        if args.len() > 4 || args.iter().all(|a| a.iter().all(Option::is_none)) {
            return self.unknown();
        }
        let one = |lane: usize| {
            let mut shapes: [Shape; 4] = std::array::from_fn(|_| Shape::Unknown);
            for (slot, a) in shapes.iter_mut().zip(args) {
                *slot = a[lane].map_or(Shape::Unknown, Shape::Const);
            }
            let full: [Arg; 4] =
                std::array::from_fn(|i| (&shapes[i], Uniformity::Divergent, widths.get(i).copied().unwrap_or(0)));
            match fold(grid, f, out, &full[..args.len()]).0 {
                Shape::Const(v) => Some(v),
                _ => None,
            }
        };
        Rc::new((0..grid.lanes).map(one).collect())
    }

    fn phi_values(&self, n: u32, r: &mut Round, depth: u32) -> Values {
        let solved = self.solved;
        let program = solved.program;
        let spot = solved.graph.nodes[n as usize].spot;
        if let Some(l) = program.headed_loop(spot) {
            // The first round, for someone who is in it; where a loop has several entries, no round begins at one of them.
            if !program.in_loop(r.from, l) || program.loops[l as usize].entries.len() > 1 {
                return self.unknown();
            }
            let mut entering = solved.graph.operands(n).filter(|(_, e)| {
                e.is_some_and(|e| solved.regions.taken[e as usize] && !program.in_loop(program.edge(e).from, l))
            });
            r.varies = true;
            return match (entering.next(), entering.next()) {
                (Some((op, _)), None) => self.values(op, r, depth + 1),
                _ => self.unknown(),
            };
        }
        // The closest branch that decides along which edge an invocation comes.
        let Some(branch) = self.dom.idom(spot as usize).map(|b| b as u32) else { return self.unknown() };
        let condition = solved.graph.conditions[branch as usize];
        if condition == NONE || program.spot(branch).in_loop != program.spot(spot).in_loop {
            return self.unknown();
        }
        let condition = self.values(condition, r, depth + 1);
        r.asked.insert(branch);
        let ops: Vec<(u32, u32)> = solved
            .graph
            .operands(n)
            .filter_map(|(op, e)| Some((op, e.filter(|e| solved.regions.taken[*e as usize])?)))
            .collect();
        let values: Vec<Values> = ops
            .iter()
            .map(|(op, e)| match self.implied(*op, *e) {
                Some(v) => Rc::new(vec![Some(v); solved.grid.lanes]),
                None => self.values(*op, r, depth + 1),
            })
            .collect();
        let targets: Vec<u32> = solved.regions.next(branch).collect();
        // For each target, the operands that may come from there.
        let from: Vec<(u32, Vec<usize>)> = targets
            .iter()
            .map(|t| (*t, (0..ops.len()).filter(|i| self.comes_by(branch, *t, ops[*i].1)).collect()))
            .collect();
        let all: Vec<usize> = (0..ops.len()).collect();
        let same = |lane: usize, which: &[usize]| {
            let first = values[*which.first()?][lane]?;
            which.iter().all(|i| values[*i][lane] == Some(first)).then_some(first)
        };
        let one = |lane: usize| match condition[lane] {
            Some(c) => {
                let to = self.target(branch, c)?;
                let (_, which) = from.iter().find(|(t, _)| *t == to)?;
                same(lane, which)
            }
            None => same(lane, &all),
        };
        Rc::new((0..solved.grid.lanes).map(one).collect())
    }

    /// Where a branch leads for a value of its condition.
    fn target(&self, branch: u32, value: u64) -> Option<u32> {
        let program = self.solved.program;
        let edges = || program.out(branch).map(|e| program.edge(e));
        let found = edges().find(|e| match e.case {
            Case::True => value != 0,
            Case::False => value == 0,
            Case::Value(v) => v == value,
            _ => false,
        });
        found.or_else(|| edges().find(|e| e.case == Case::Default)).map(|e| e.to)
    }

    /// The value of a branch's condition on one of its edges.
    fn implied(&self, op: u32, edge: u32) -> Option<u64> {
        let solved = self.solved;
        let e = solved.program.edge(edge);
        let condition = solved.graph.conditions[e.from as usize];
        if condition == NONE || solved.graph.find(condition) != op {
            return None;
        }
        match e.case {
            Case::True => Some(1),
            Case::False => Some(0),
            Case::Value(v) => Some(v),
            _ => None,
        }
    }

    /// Whether a path leads from one spot to another; if `forced` is given, one that goes from that branch to that
    /// target whenever it comes there.
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

    /// Whether every path from `to` on comes to a spot before it comes to the branch (again) or ends.
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

    /// Whether a path from a branch by way of `to` leads along an edge, without coming to the branch again.
    fn comes_by(&self, branch: u32, to: u32, edge: u32) -> bool {
        let program = self.solved.program;
        let e = program.edge(edge);
        if e.from == branch {
            return e.to == to;
        }
        let mut seen = vec![false; program.spots.len()];
        let mut work = vec![to];
        while let Some(s) = work.pop() {
            if s == branch || s == e.to || std::mem::replace(&mut seen[s as usize], true) {
                continue;
            }
            if s == e.from {
                return true;
            }
            work.extend(self.solved.regions.next(s));
        }
        false
    }
}

/// Whether results differ if one operand does.
fn keeps_apart(op: Op) -> bool {
    matches!(
        op,
        Op::AccessChain
            | Op::InBoundsAccessChain
            | Op::PtrAccessChain
            | Op::InBoundsPtrAccessChain
            | Op::UntypedAccessChainKHR
            | Op::UntypedInBoundsAccessChainKHR
            // Of small integers.
            | Op::ConvertUToF
            | Op::ConvertSToF
    )
}
