//! Whether an invocation can go where a proof says that it may: what is not known is tried.
//!
//! A proof may know of one invocation that it does not come to an instruction, and of another nothing. What decides
//! about that one may still be such that no data leads it there: `n | 2` is never less than 2. So values are made up for
//! what comes from outside and what is not known, as uniform as they are, and the condition is computed from them. What
//! follows from what was made up for the same operands is the same in one trial.

use super::Uniformity;
use super::graph::NONE;
use super::lanes::{Prover, Round, Values};
use super::nodes::{Group, Kind};
use super::shape::Shape;
use crate::grammar::Op;
use crate::module::Id;
use rustc_hash::{FxHashMap, FxHasher};
use smallvec::SmallVec;
use spirv::BuiltIn;
use std::hash::{Hash, Hasher};
use std::rc::Rc;

/// So many trials.
const TRIALS: u64 = 96;
/// Nodes times invocations that are computed in all of them.
const MAX_WORK: usize = 1_000_000;
/// The same for all branches of an entry point.
pub(super) const MAX_TRIALS: usize = 8_000_000;

/// Where a branch may lead.
pub(super) type Targets = SmallVec<[u32; 2]>;

/// Values that were made up.
#[derive(Clone, Copy)]
pub(super) struct Trial<'a> {
    number: u64,
    /// Numbers that what is tried is compared with.
    constants: &'a [u64],
}

impl Prover<'_, '_, '_> {
    /// Where a branch leads each invocation in some trial, if its condition is the same in every round.
    pub(super) fn possible(&self, branch: u32, condition: u32) -> Rc<Vec<Targets>> {
        if let Some(known) = self.tried.borrow().get(&branch) {
            return known.clone();
        }
        let ways = self.solved.regions.next(branch).count();
        let mut found = vec![Targets::new(); self.solved.grid.lanes];
        let constants = self.constants(condition);
        let none = FxHashMap::default();
        let mut work = 0;
        for number in 0..TRIALS {
            if self.trials_left.get() == 0 {
                break;
            }
            let mut r = Round::new(branch, &none, Some(Trial { number, constants: &constants }));
            let values = self.values(condition, &mut r, 0);
            for (found, v) in found.iter_mut().zip(values.iter()) {
                let to = v.and_then(|v| self.target(branch, v));
                found.extend(to.filter(|to| !found.contains(to)));
            }
            let done = (r.work() + 1) * self.solved.grid.lanes;
            self.trials_left.set(self.trials_left.get().saturating_sub(done));
            work += done;
            if work > MAX_WORK || found.iter().all(|f| f.len() == ways) {
                break;
            }
        }
        let found = Rc::new(found);
        self.tried.borrow_mut().insert(branch, found.clone());
        found
    }

    /// The constants that a node is computed from, few.
    fn constants(&self, node: u32) -> Vec<u64> {
        let graph = &self.solved.graph;
        let (mut seen, mut found) = (vec![graph.find(node)], Vec::new());
        let mut next = 0;
        while let Some(n) = seen.get(next).copied().filter(|_| next < 200) {
            next += 1;
            if let Shape::Const(v) = graph.nodes[n as usize].shape {
                found.push(v);
            }
            for (op, _) in graph.operands(n) {
                if !seen.contains(&op) {
                    seen.push(op);
                }
            }
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Values for those invocations of which nothing is known.
    pub(super) fn made_up(&self, n: u32, known: &Values, r: &mut Round, trial: Trial, depth: u32) -> Values {
        if known.iter().all(Option::is_some) {
            return known.clone();
        }
        let solved = self.solved;
        let node = &solved.graph.nodes[n as usize];
        let lanes = solved.grid.lanes;
        if let Kind::Group(g) = node.kind
            && let Some(values) = self.grouped(n, g, r, trial, depth)
        {
            return values;
        }
        if let Some(values) = self.counted(n, r, trial, depth) {
            return values;
        }
        if let Some(values) = self.source(n, trial) {
            return values;
        }
        if let Shape::Offset { lanes, base, .. } = &node.shape {
            let sum = |l: usize| lanes[l].wrapping_add(self.number(n, trial, *base, l) as u32);
            return Rc::new((0..lanes.len()).map(|l| Some(u64::from(sum(l)))).collect());
        }
        let one = |l: usize| known[l].or_else(|| Some(self.number(n, trial, node.over, l)));
        Rc::new((0..lanes).map(one).collect())
    }

    /// What is made up for a node in one invocation.
    fn number(&self, n: u32, trial: Trial, over: Uniformity, lane: usize) -> u64 {
        let node = &self.solved.graph.nodes[n as usize];
        let v = trial.choose((self.place(n), self.group(over, lane)));
        match node.width {
            0 => v & 0xffff_ffff,
            w @ 1..64 => v & ((1 << w) - 1),
            _ => v,
        }
    }

    /// The invocations that have one value: the one that this is in.
    pub(super) fn group(&self, over: Uniformity, lane: usize) -> usize {
        match over {
            Uniformity::Workgroup => 0,
            Uniformity::Subgroup => lane / self.solved.grid.subgroup,
            Uniformity::Divergent => lane,
        }
    }

    /// Where a value is from: two loads from one place give the same.
    fn place(&self, n: u32) -> (u32, Vec<Id>) {
        let (module, node) = (self.solved.program.module, &self.solved.graph.nodes[n as usize]);
        let load =
            node.inst.map(|r| module.inst(r)).filter(|i| i.op == Op::Load && matches!(node.kind, Kind::Load { .. }));
        let chain = load.and_then(|i| module.def_inst(i.id(0)?));
        match chain {
            Some(c) if c.ids().skip(1).all(|id| module.def_inst(id).is_some_and(|i| i.op.is_constant())) => {
                (NONE, c.ids().collect())
            }
            _ => (n, Vec::new()),
        }
    }

    /// A built-in of which only the place in a workgroup is known.
    fn source(&self, n: u32, trial: Trial) -> Option<Values> {
        let solved = self.solved;
        let grid = &solved.grid;
        let (variable, axis) = *solved.graph.source_of.get(&n)?;
        // Of `WorkgroupId` and what is computed from it.
        let workgroup = || trial.choose((NONE, axis)) % 4;
        let same = |v: u64| Some(Rc::new(vec![Some(v); grid.lanes]));
        match BuiltIn::from_u32(self.decorations.built_in(variable)?)? {
            BuiltIn::NumSubgroups => grid.size.and(same(grid.lanes.div_ceil(grid.subgroup) as u64)),
            BuiltIn::SubgroupSize | BuiltIn::SubgroupMaxSize => same(grid.subgroup as u64),
            BuiltIn::WorkgroupId => same(workgroup()),
            BuiltIn::NumWorkgroups => same(4),
            BuiltIn::GlobalInvocationId => {
                // A workgroup may have one invocation along this axis.
                let Shape::Offset { lanes, .. } = &solved.graph.nodes[n as usize].shape else {
                    return grid.size.and(same(workgroup()));
                };
                let size = lanes.iter().max().map_or(1, |m| u64::from(*m) + 1);
                let first = workgroup() * size;
                Some(Rc::new(lanes.iter().map(|l| Some(first + u64::from(*l))).collect()))
            }
            _ => None,
        }
    }

    /// What a subgroup instruction gives, where all of the subgroup execute it; a part of it elsewhere.
    fn grouped(&self, n: u32, g: Group, r: &mut Round, trial: Trial, depth: u32) -> Option<Values> {
        let solved = self.solved;
        let node = &solved.graph.nodes[n as usize];
        let inst = solved.program.module.inst(node.inst?);
        let of = match solved.graph.operands(n).next() {
            Some((op, _)) => self.values(op, r, depth + 1),
            None => Rc::new(vec![Some(0); solved.grid.lanes]),
        };
        let (lanes, size) = (solved.grid.lanes, solved.grid.subgroup);
        let there = self.active(node.spot, r, trial, depth);
        let active = |one: usize, l: usize| one == l || there[l];
        let mask = |v: u64| if node.width == 1 { v & 1 } else { v & 0xffff_ffff };
        let one = |l: usize| {
            let first = l / size * size;
            let all = (first..(first + size).min(lanes)).filter(|o| active(l, *o));
            let mut values = all.clone().filter_map(|o| of[o]);
            Some(match inst.op {
                Op::GroupNonUniformElect => u64::from(all.clone().next() == Some(l)),
                Op::GroupNonUniformAll => u64::from(values.all(|v| v != 0)),
                Op::GroupNonUniformAny => u64::from(values.any(|v| v != 0)),
                Op::GroupNonUniformBroadcastFirst => values.next()?,
                Op::GroupNonUniformIAdd | Op::GroupNonUniformUMax | Op::GroupNonUniformUMin => {
                    let operation = inst.word(1)?;
                    let part = all.clone().filter(|o| match operation {
                        0 => true,
                        1 => *o <= l,
                        _ => *o < l,
                    });
                    let part = part.filter_map(|o| of[o]);
                    match inst.op {
                        Op::GroupNonUniformIAdd => part.fold(0, u64::wrapping_add),
                        Op::GroupNonUniformUMax => part.max().unwrap_or(0),
                        _ => part.min().unwrap_or(u64::MAX),
                    }
                }
                _ if matches!(g, Group::Keeps(_) | Group::Named | Group::Moved) => {
                    let first = values.next()?;
                    values.all(|v| v == first).then_some(first)?
                }
                _ => return None,
            })
        };
        let found: Option<Vec<Option<u64>>> = (0..lanes).map(|l| one(l).map(|v| Some(mask(v)))).collect();
        found.map(Rc::new)
    }
}

impl Prover<'_, '_, '_> {
    /// Which invocations execute a spot: all where a subgroup is whole, those that a branch sends there where only that
    /// leads there; a part that is made up elsewhere.
    fn active(&self, spot: u32, r: &mut Round, trial: Trial, depth: u32) -> Vec<bool> {
        let solved = self.solved;
        let lanes = solved.grid.lanes;
        if solved.flow.spots[spot as usize] <= Uniformity::Subgroup {
            return vec![true; lanes];
        }
        if let [edge] = solved.program.into(spot)
            && depth < 40
        {
            let from = solved.program.edge(*edge).from;
            let before = self.active(from, r, trial, depth + 1);
            let condition = solved.graph.conditions[from as usize];
            if condition == NONE {
                return before;
            }
            let values = self.values(condition, r, depth + 1);
            let comes = |l: usize| before[l] && values[l].and_then(|v| self.target(from, v)) == Some(spot);
            return (0..lanes).map(comes).collect();
        }
        (0..lanes).map(|l| trial.number.is_multiple_of(4) || trial.hash((spot, l)) & 1 == 0).collect()
    }

    /// How many invocations a ballot counts, if that is what a node is.
    fn counted(&self, n: u32, r: &mut Round, trial: Trial, depth: u32) -> Option<Values> {
        let solved = self.solved;
        let module = solved.program.module;
        let node = &solved.graph.nodes[n as usize];
        let inst = node.inst.map(|r| module.inst(r)).filter(|i| i.op == Op::GroupNonUniformBallotBitCount)?;
        let ballot = solved.graph.operands(n).map(|(op, _)| op).find(|op| {
            let of = &solved.graph.nodes[*op as usize];
            of.inst.is_some_and(|r| module.inst(r).op == Op::GroupNonUniformBallot)
        });
        let votes = match ballot.and_then(|b| solved.graph.operands(b).next()) {
            Some((vote, _)) => self.values(vote, r, depth + 1),
            // A part of those, or all.
            None => {
                let some = |l: usize| trial.number.is_multiple_of(2) || trial.hash((n, l)) & 1 == 0;
                Rc::new((0..solved.grid.lanes).map(|l| Some(u64::from(some(l)))).collect())
            }
        };
        let spot = ballot.map_or(node.spot, |b| solved.graph.nodes[b as usize].spot);
        let there = self.active(spot, r, trial, depth + 1);
        let size = solved.grid.subgroup;
        let one = |l: usize| {
            let first = l / size * size;
            let end = match inst.word(1) {
                Some(1) => l + 1,
                Some(2) => l,
                _ => (first + size).min(solved.grid.lanes),
            };
            Some((first..end).filter(|o| (there[*o] || *o == l) && votes[*o] != Some(0)).count() as u64)
        };
        Some(Rc::new((0..solved.grid.lanes).map(one).collect()))
    }
}

impl Trial<'_> {
    fn hash(&self, key: impl Hash) -> u64 {
        let mut h = FxHasher::default();
        (self.number, key).hash(&mut h);
        // The hasher leaves the lower bits little mixed.
        let h = h.finish() ^ 0x9e37_79b9_7f4a_7c15;
        let h = (h ^ (h >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let h = (h ^ (h >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        h ^ (h >> 31)
    }

    /// One of several.
    pub(super) fn pick<'a, T>(&self, key: impl Hash, of: &'a [T]) -> Option<&'a T> {
        of.get(self.hash(key) as usize % of.len().max(1))
    }

    /// A number: small, close to one that it may be compared with, or any.
    fn choose(&self, key: impl Hash) -> u64 {
        let h = self.hash(key);
        let (kind, n) = (h % 8, h >> 8);
        match kind {
            0 => 0,
            1 | 2 => n % 5,
            3 => n % 71,
            7 => n >> (n % 56),
            _ => {
                let near = (n >> 8) % 3;
                let one =
                    |n: u64| self.constants.get(n as usize % self.constants.len().max(1)).copied().unwrap_or(n % 9);
                let c = if kind == 6 { one(n >> 16).wrapping_mul(one(n >> 24)) } else { one(n >> 16) };
                c.wrapping_add(near).wrapping_sub(1)
            }
        }
    }
}
