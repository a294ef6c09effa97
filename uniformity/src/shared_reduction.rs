//! Recognizes reductions over a workgroup through shared memory.
//!
//! The idiom: every subgroup reduces the values of its invocations, one of them stores the result into a slot in shared
//! memory, and behind a barrier every invocation combines its own value with the stored ones by the same operation. The
//! operation is idempotent, and the own value is among those that the subgroup stored, so all invocations get the same
//! result. The other form is about a predicate: every subgroup votes on a comparison with a limit and stores a number
//! on one side of the limit or on the other; each invocation takes, say, the maximum of its own value and the stored
//! numbers, and compares that with the limit.
//!
//! Conditions of a [`ReductionRule`]:
//!
//! 1. One instruction writes the variable. One invocation of every subgroup executes it whenever the branch in front of
//!    it is executed. That branch dominates the reads, so no older value is read.
//! 2. It stores the result of a reduction by a whole subgroup, of the very value that is combined, by the same
//!    operation; or that vote.
//! 3. Subgroups store into different slots. If the slot of the own subgroup is read, the value is uniform over the
//!    subgroup; if all slots are, over the workgroup.
//! 4. A loop over the slots combines all of them: it has one exit, and the combination is in every iteration.
//!
//! The bound of such a loop is assumed to be right if it is not known. Floats are assumed not to be NaN.

use super::program::{NONE, Program};
use super::shape::{Fold, Shape, float_of_code};
use super::solve::Solution;
use super::value_graph::{Group, Kind, SharedStore, ValueGraph};
use super::{Assumptions, Uniformity};
use coop_ir::Id;
use coop_ir::cfg::{Case, DomTree, Graph as Cfg};
use coop_ir::effects::ExtSet;
use coop_ir::grammar::Op;
use coop_ir::spv::{BuiltIn, GlslStd450, GroupOperation, OpenClStd, Scope};
use smallvec::SmallVec;

/// An idempotent operation: combining a value twice is the same as combining it once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Family {
    UMax,
    UMin,
    SMax,
    SMin,
    FMax,
    FMin,
    And,
    Or,
}

impl Family {
    fn of_reduction(op: Op) -> Option<Family> {
        Some(match op {
            Op::GroupNonUniformUMax => Family::UMax,
            Op::GroupNonUniformUMin => Family::UMin,
            Op::GroupNonUniformSMax => Family::SMax,
            Op::GroupNonUniformSMin => Family::SMin,
            Op::GroupNonUniformFMax => Family::FMax,
            Op::GroupNonUniformFMin => Family::FMin,
            Op::GroupNonUniformBitwiseAnd | Op::GroupNonUniformLogicalAnd | Op::GroupNonUniformAll => Family::And,
            Op::GroupNonUniformBitwiseOr | Op::GroupNonUniformLogicalOr | Op::GroupNonUniformAny => Family::Or,
            _ => return None,
        })
    }

    fn of_combination(program: &Program, graph: &ValueGraph, n: u32) -> Option<Family> {
        let node = &graph.nodes[n as usize];
        let inst = program.module.inst(node.inst?);
        // Integer instructions have the numbers of GLSL.std.450 whatever the set.
        let number = match node.kind {
            Kind::Fold(Fold::Glsl(number)) => number,
            Kind::Max if inst.op.is_ext_inst() && ExtSet::of(program.module, inst) == ExtSet::Glsl => {
                GlslStd450(inst.ext_instruction()?)
            }
            Kind::Max if inst.op.is_ext_inst() && ExtSet::of(program.module, inst) == ExtSet::OpenCl => {
                // fmax, fmin.
                return match OpenClStd(inst.ext_instruction()?) {
                    OpenClStd::fmax => Some(Family::FMax),
                    OpenClStd::fmin => Some(Family::FMin),
                    _ => None,
                };
            }
            Kind::Fold(Fold::Op(Op::LogicalAnd | Op::BitwiseAnd)) => return Some(Family::And),
            Kind::Fold(Fold::Op(Op::LogicalOr | Op::BitwiseOr)) => return Some(Family::Or),
            _ => return None,
        };
        Some(match number {
            GlslStd450::UMin => Family::UMin,
            GlslStd450::SMin => Family::SMin,
            GlslStd450::UMax => Family::UMax,
            GlslStd450::SMax => Family::SMax,
            // Including those that treat NaN specially.
            GlslStd450::FMin | GlslStd450::NMin => Family::FMin,
            GlslStd450::FMax | GlslStd450::NMax => Family::FMax,
            _ => return None,
        })
    }

    fn is_float(self) -> bool {
        matches!(self, Family::FMax | Family::FMin)
    }

    fn is_max(self) -> bool {
        matches!(self, Family::UMax | Family::SMax | Family::FMax)
    }
}

/// An index into the variable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Slot {
    Known(u64),
    Node(u32),
}

/// The slots that are read and combined.
#[derive(Clone, Debug)]
enum Reads {
    /// These slots.
    Some(SmallVec<[Slot; 4]>),
    /// From the first of these up to, not including, the second.
    Range(u64, u32),
}

/// The fact that a value is as uniform as the slots that were read.
#[derive(Clone, Debug)]
pub(super) struct ReductionRule {
    /// The node of the value.
    pub(super) node: u32,
    /// The loop that combines, if there is one: the rule holds behind it.
    behind: Option<u32>,
    /// The reads of the variable.
    reads: SmallVec<[u32; 4]>,
    places: Reads,
    /// The node that is stored: a reduction, or a vote.
    reduced: u32,
    family: Family,
    predicate: Option<Predicate>,
    /// The slot that is stored.
    slot: Slot,
    /// The point that decides which invocations store, and the condition with the value for which one does.
    anchor: u32,
    condition: Option<(u32, bool)>,
}

/// A comparison with a limit, and the values that are stored if it holds for all (or for any), and if not.
#[derive(Clone, Debug)]
struct Predicate {
    op: Op,
    width: u32,
    limit: u32,
    good: u32,
    bad: u32,
}

/// Finds the idiom.
struct Finder<'a, 'm> {
    program: &'a Program<'m>,
    graph: &'a ValueGraph,
    dom: Option<DomTree>,
}

/// A value and the reads that are combined with it.
struct Combination {
    family: Family,
    own: u32,
    reads: SmallVec<[u32; 4]>,
    behind: Option<u32>,
}

/// The most values that are combined in a row.
const MAX_CHAIN: usize = 64;

/// Returns the rules of a program, by node.
pub(super) fn rules(program: &Program, graph: &ValueGraph) -> Vec<ReductionRule> {
    let reduces = || graph.nodes.iter().any(|node| matches!(node.kind, Kind::Group(Group::Keeps(_))));
    if graph.shared_stores.is_empty() || !reduces() {
        return Vec::new();
    }
    let mut finder = Finder { program, graph, dom: None };
    let mut found: Vec<ReductionRule> = graph.standing().filter_map(|n| finder.rule(n)).collect();
    found.sort_unstable_by_key(|r| r.node);
    found
}

impl Finder<'_, '_> {
    fn rule(&mut self, n: u32) -> Option<ReductionRule> {
        let (combination, compared) = match self.combination(n) {
            Some(c) => (c, None),
            None => {
                let (op, left, limit) = self.comparison(n)?;
                let combination = self.combination(left)?;
                // The result of a loop is complete behind it.
                let point = self.graph.nodes[n as usize].point;
                if combination.behind.is_some_and(|l| self.program.in_loop(point, l)) {
                    return None;
                }
                (combination, Some((op, left, limit)))
            }
        };
        let variable = shared_variable(self.program, self.graph, *combination.reads.first()?)?;
        let same = |r: &u32| shared_variable(self.program, self.graph, *r) == Some(variable);
        if !combination.reads.iter().all(same) || graph_writes(self.graph, variable) != 1 {
            return None;
        }
        let [store] = self.graph.shared_stores.get(&variable)?.as_slice() else { return None };
        let stored = self.graph.find(store.value);
        let (reduced, predicate) = match compared {
            None => (self.reduced(stored, &combination)?, None),
            Some(compared) => {
                let (reduced, predicate) = self.voted(stored, &combination, compared)?;
                (reduced, Some(predicate))
            }
        };
        let (anchor, condition) = self.anchor(store)?;
        self.dominates(self.graph.nodes[reduced as usize].point, anchor).then_some(())?;
        for read in &combination.reads {
            let point = self.graph.nodes[*read as usize].point;
            (point != anchor && self.dominates(anchor, point)).then_some(())?;
        }
        let slot = self.slot(store.pointer, store.address)?;
        let places = match combination.behind {
            Some(l) => self.range(l, combination.reads[0], n, compared.map(|c| c.1))?,
            None => Reads::Some(combination.reads.iter().map(|r| self.slot_of_read(*r)).collect::<Option<_>>()?),
        };
        Some(ReductionRule {
            node: n,
            behind: combination.behind,
            reads: combination.reads,
            places,
            reduced,
            family: combination.family,
            predicate,
            slot,
            anchor,
            condition,
        })
    }

    /// Returns the combination that makes a value: several instructions in a row, or a loop.
    fn combination(&self, n: u32) -> Option<Combination> {
        if let Some(family) = Family::of_combination(self.program, self.graph, n) {
            let mut reads = SmallVec::new();
            let mut own = n;
            while let Some(next) = self.step(own, family, &mut reads) {
                own = next;
            }
            return (!reads.is_empty()).then_some(Combination { family, own, reads, behind: None });
        }
        // In a loop over the slots, the value is a phi that begins with the invocation's own value.
        let node = &self.graph.nodes[n as usize];
        if node.kind != Kind::Phi {
            return None;
        }
        let l = self.program.headed_loop(node.point)?;
        let (mut begin, mut back) = (None, None);
        for (op, edge) in self.graph.operands(n) {
            let inside = self.program.in_loop(self.program.edge(edge?).from, l);
            let slot = if inside { &mut back } else { &mut begin };
            if slot.replace(op).is_some() {
                return None;
            }
        }
        let (own, combined) = (begin?, back?);
        let family = Family::of_combination(self.program, self.graph, combined)?;
        let mut reads = SmallVec::new();
        (self.step(combined, family, &mut reads)? == n).then_some(Combination { family, own, reads, behind: Some(l) })
    }

    /// Returns the other operand, if a value combines one with a read of shared memory.
    fn step(&self, n: u32, family: Family, reads: &mut SmallVec<[u32; 4]>) -> Option<u32> {
        if reads.len() >= MAX_CHAIN || Family::of_combination(self.program, self.graph, n) != Some(family) {
            return None;
        }
        let mut ops = self.graph.inputs(n);
        let (a, b) = (ops.next()?, ops.next()?);
        let shared = |n: u32| shared_variable(self.program, self.graph, n).is_some();
        let (own, read) = match (shared(a), shared(b), ops.next()) {
            (false, true, None) => (a, b),
            (true, false, None) => (b, a),
            _ => return None,
        };
        reads.push(read);
        Some(own)
    }

    /// Returns a comparison of a combination with a limit.
    fn comparison(&self, n: u32) -> Option<(Op, u32, u32)> {
        let node = &self.graph.nodes[n as usize];
        let op = self.program.module.inst(node.inst?).op;
        let known = comparison_of(op).is_some() && matches!(node.kind, Kind::Max | Kind::Fold(_));
        let mut ops = self.graph.inputs(n);
        known.then_some((op, ops.next()?, ops.next()?))
    }

    /// Returns the instruction that reduced the value, if its result is stored.
    fn reduced(&self, stored: u32, of: &Combination) -> Option<u32> {
        let operand = self.reduction(stored, of.family)?;
        let votes = matches!(self.op(stored)?, Op::GroupNonUniformAll | Op::GroupNonUniformAny);
        (!votes && (operand == of.own || stored == of.own)).then_some(stored)
    }

    /// Returns the operand of a reduction by a whole subgroup.
    fn reduction(&self, n: u32, family: Family) -> Option<u32> {
        let node = &self.graph.nodes[n as usize];
        let inst = self.program.module.inst(node.inst?);
        let scope = inst.scope_operand().and_then(|s| self.program.module.def_inst(s)).and_then(|s| s.literal());
        let votes = matches!(inst.op, Op::GroupNonUniformAll | Op::GroupNonUniformAny);
        let whole = votes || inst.enumerant(1) == Some(GroupOperation::Reduce);
        let fits = matches!(node.kind, Kind::Group(Group::Keeps(_)))
            && Family::of_reduction(inst.op) == Some(family)
            && scope == Some(Scope::Subgroup.0)
            && whole;
        self.graph.inputs(n).next().filter(|_| fits)
    }

    /// Returns the vote and its predicate, if a vote selects the stored value.
    fn voted(&self, stored: u32, of: &Combination, (op, left, limit): (Op, u32, u32)) -> Option<(u32, Predicate)> {
        if self.op(stored)? != Op::Select {
            return None;
        }
        let ops: SmallVec<[u32; 4]> = self.graph.inputs(stored).collect();
        let &[vote, good, bad] = ops.as_slice() else { return None };
        let (less, signed, float) = comparison_of(op)?;
        let fits = match of.family {
            Family::UMax | Family::UMin => !signed && !float,
            Family::SMax | Family::SMin => signed && !float,
            Family::FMax | Family::FMin => float,
            Family::And | Family::Or => false,
        };
        // The maximum is below a limit if all values are, and above it if any is; for the minimum it is the other way
        // around.
        let family = if of.family.is_max() == less { Family::And } else { Family::Or };
        // A NaN is not above the limit.
        if !fits || family == Family::Or && float {
            return None;
        }
        let asked = self.reduction(vote, family)?;
        let (asked_op, own, other) = self.comparison(asked)?;
        let width = u32::from(self.graph.nodes[left as usize].width);
        let constant = |n: u32| match self.graph.nodes[n as usize].shape {
            Shape::Const(v) => Some(v),
            _ => None,
        };
        let alike = other == limit || constant(other).is_some_and(|v| constant(limit) == Some(v));
        let same = asked_op == op && own == of.own && alike;
        same.then_some((vote, Predicate { op, width, limit, good, bad }))
    }

    fn op(&self, n: u32) -> Option<Op> {
        self.graph.nodes[n as usize].inst.map(|r| self.program.module.inst(r).op)
    }

    /// Returns the point that decides which invocations store, and the condition with the value for which one does.
    fn anchor(&mut self, store: &SharedStore) -> Option<(u32, Option<(u32, bool)>)> {
        let &[edge] = self.program.into(store.point) else { return Some((store.point, None)) };
        let edge = self.program.edge(edge);
        let condition = self.graph.conditions[edge.from as usize];
        let when = match edge.case {
            Case::True => true,
            Case::False => false,
            // No branch decides.
            _ => return Some((store.point, None)),
        };
        (condition != NONE).then(|| (edge.from, Some((self.graph.find(condition), when))))
    }

    fn dominates(&mut self, a: u32, b: u32) -> bool {
        let program = self.program;
        let dom = self.dom.get_or_insert_with(|| {
            let edges: Vec<_> = program.edges.iter().map(|e| (e.from as usize, e.to as usize)).collect();
            DomTree::new(&Cfg::new(program.points.len(), &edges), 0)
        });
        dom.dominates(a as usize, b as usize)
    }

    fn slot_of_read(&self, read: u32) -> Option<Slot> {
        let inst = self.program.module.inst(self.graph.nodes[read as usize].inst?);
        let address = self.graph.inputs(read).next()?;
        self.slot(inst.accessed()?, address)
    }

    /// Returns the index into a variable: 0 if it has none.
    fn slot(&self, pointer: Id, address: u32) -> Option<Slot> {
        let module = self.program.module;
        let chain = module.def_inst(pointer)?;
        match chain.op {
            Op::Variable => return Some(Slot::Known(0)),
            op if op.is_member_chain() => {}
            _ => return None,
        }
        let plain = module.def_inst(chain.access_chain()?.base).is_some_and(|i| i.op == Op::Variable);
        let mut indices = chain.ids_from(1);
        let (Some(index), None, true) = (indices.next(), indices.next(), plain) else { return None };
        let constant = module.def_inst(index).filter(|i| i.op == Op::Constant);
        if let Some(c) = constant {
            return Some(Slot::Known(u64::from(c.literal()?)));
        }
        let mut ops = self.graph.inputs(self.graph.find(address));
        let only = ops.next()?;
        ops.next().is_none().then_some(Slot::Node(only))
    }

    /// Returns the slots over which a loop runs, one in each iteration, all of which are combined into the phi of its
    /// header.
    fn range(&mut self, l: u32, read: u32, phi: u32, compared: Option<u32>) -> Option<Reads> {
        let program = self.program;
        let phi = compared.unwrap_or(phi);
        let header = self.graph.nodes[phi as usize].point;
        let Slot::Node(index) = self.slot_of_read(read)? else { return None };
        let of = &self.graph.nodes[index as usize];
        if program.loops[l as usize].entries.len() != 1 || of.kind != Kind::Phi || of.point != header {
            return None;
        }
        let (mut first, mut latch) = (None, None);
        for (op, edge) in self.graph.operands(index) {
            let from = program.edge(edge?).from;
            if program.in_loop(from, l) {
                latch = Some(from).filter(|_| latch.is_none() && self.is_next(op, index));
                latch?;
            } else {
                let Shape::Const(v) = self.graph.nodes[op as usize].shape else { return None };
                first = Some(v).filter(|_| first.is_none());
                first?;
            }
        }
        // The only exit is the one where the index has reached the end.
        let inside = |s: u32| program.in_loop(s, l);
        let mut exits = (0..program.points.len() as u32).filter(|s| inside(*s)).filter(|s| {
            let mut out = program.out(*s).map(|e| program.edge(e).to);
            program.out(*s).is_empty() || out.any(|to| !inside(to))
        });
        let (Some(exit), None) = (exits.next(), exits.next()) else { return None };
        let condition = self.graph.conditions[exit as usize];
        let stays = program.out(exit).map(|e| program.edge(e)).find(|e| inside(e.to)).map(|e| e.case);
        if condition == NONE || stays != Some(Case::True) {
            return None;
        }
        let condition = self.graph.find(condition);
        let less = self.op(condition).map(|op| op.is_strictly_less() || op == Op::INotEqual)?;
        let mut ops = self.graph.inputs(condition);
        let (left, end) = (ops.next()?, ops.next()?);
        let combined = self.graph.nodes[read as usize].point;
        let always = self.dominates(exit, combined) && exit != combined && self.dominates(combined, latch?);
        (less && left == index && always).then_some(Reads::Range(first?, end))
    }

    /// Returns true if a value is another one plus 1.
    fn is_next(&self, n: u32, index: u32) -> bool {
        let mut ops = self.graph.inputs(n);
        let one = |n: Option<u32>| n.is_some_and(|n| self.graph.nodes[n as usize].shape == Shape::Const(1));
        self.op(n) == Some(Op::IAdd) && ops.next() == Some(index) && one(ops.next())
    }
}

/// Returns the properties of a comparison that the idiom may have: true if lesser values pass, if it is signed, if it
/// is of floats.
fn comparison_of(op: Op) -> Option<(bool, bool, bool)> {
    Some(match op {
        Op::ULessThan | Op::ULessThanEqual => (true, false, false),
        Op::UGreaterThan | Op::UGreaterThanEqual => (false, false, false),
        Op::SLessThan | Op::SLessThanEqual => (true, true, false),
        Op::SGreaterThan | Op::SGreaterThanEqual => (false, true, false),
        Op::FOrdLessThan | Op::FOrdLessThanEqual => (true, false, true),
        Op::FOrdGreaterThan | Op::FOrdGreaterThanEqual => (false, false, true),
        _ => return None,
    })
}

fn shared_variable(program: &Program, graph: &ValueGraph, n: u32) -> Option<Id> {
    let node = &graph.nodes[n as usize];
    let inst = program.module.inst(node.inst.filter(|_| matches!(node.kind, Kind::Load { .. }))?);
    let variable = super::memory::root(program.module, inst.accessed()?)?;
    graph.shared_stores.contains_key(&variable).then_some(variable)
}

/// Returns the number of instructions that may write a variable of shared memory.
fn graph_writes(graph: &ValueGraph, variable: Id) -> u32 {
    graph.shared_writes.get(&Some(variable)).copied().unwrap_or(0)
        + graph.shared_writes.get(&None).copied().unwrap_or(0)
}

impl ReductionRule {
    /// Returns the loop behind which alone the rule holds, if its node is a phi of that loop.
    pub(super) fn only_behind(&self, graph: &ValueGraph) -> Option<u32> {
        self.behind.filter(|_| graph.nodes[self.node as usize].kind == Kind::Phi)
    }
}

/// Returns true if a lane stores.
type Stores<'a> = Box<dyn Fn(usize) -> bool + 'a>;

impl Solution<'_, '_> {
    /// Returns the scope over which a rule makes its node uniform, and the assumptions; `None` if the rule does not
    /// apply, or not yet.
    pub(super) fn by_rule(&self, rule: &ReductionRule) -> Option<(Uniformity, Assumptions)> {
        let mut assumes =
            if rule.family.is_float() && rule.predicate.is_none() { Assumptions::REDUCED } else { Assumptions::NONE };
        let mut uniformity = self.flow.points[rule.anchor as usize];
        assumes = assumes.and(self.flow.points_assume[rule.anchor as usize]);
        // A whole subgroup must reduce.
        let reducing = self.graph.nodes[rule.reduced as usize].point as usize;
        if self.flow.points[reducing] > Uniformity::Subgroup || uniformity > Uniformity::Subgroup {
            return None;
        }
        assumes = assumes.and(self.flow.points_assume[reducing]);
        if (uniformity == Uniformity::Subgroup || self.flow.points[reducing] == Uniformity::Subgroup)
            && !self.subgroup_flow
        {
            assumes = assumes.and(Assumptions::RECONVERGENCE);
        }
        let user = self.graph.nodes[rule.node as usize].point;
        for read in &rule.reads {
            let point = match rule.behind {
                // Seen from behind the loop: it must have ended for all in the same iteration.
                Some(l) => self.behind(l).unwrap_or(user),
                None => user,
            };
            let (read, rests) = self.seen_from(*read, point);
            (uniformity, assumes) = (uniformity.max(read), assumes.and(rests));
        }
        if let Some(p) = &rule.predicate {
            assumes = assumes.and(self.judges(p)?);
        }
        let (place, rests) = self.place(rule)?;
        uniformity = uniformity.max(place);
        (uniformity != Uniformity::Divergent).then_some((uniformity, assumes.and(rests)))
    }

    /// Returns a point behind a loop.
    fn behind(&self, l: u32) -> Option<u32> {
        let inside = |s: u32| self.program.in_loop(s, l);
        let exits = self.program.edges.iter().find(|e| inside(e.from) && !inside(e.to));
        exits.map(|e| e.to)
    }

    /// Returns the assumptions under which a stored vote is on the right side of the limit.
    fn judges(&self, p: &Predicate) -> Option<Assumptions> {
        let [good, bad, limit] = [p.good, p.bad, p.limit].map(|n| &self.graph.nodes[n as usize]);
        if [good, bad, limit].iter().any(|n| n.shape == Shape::Top) {
            return Some(Assumptions::NONE);
        }
        let passes = |of: u32| {
            if of == p.limit && limit.shape == Shape::Unknown {
                return Some(p.op.is_reflexive_order());
            }
            let (Shape::Const(a), Shape::Const(b)) = (&self.graph.nodes[of as usize].shape, &limit.shape) else {
                return None;
            };
            Some(compare(p.op, p.width, *a, *b))
        };
        let right = passes(p.good)? && !passes(p.bad)?;
        right.then(|| good.shape_assumes.and(bad.shape_assumes).and(limit.shape_assumes))
    }

    /// Returns the scope over which the slots that are read hold the values that each subgroup stored, and the
    /// assumptions.
    fn place(&self, rule: &ReductionRule) -> Option<(Uniformity, Assumptions)> {
        let grid = &self.grid;
        let (storing, mut assumes) = self.storing(rule)?;
        let single = grid.size.is_some() && grid.lanes <= grid.subgroup;
        let own = match rule.slot {
            Slot::Node(n) => self.built_in_of(n) == Some(BuiltIn::SubgroupId),
            Slot::Known(_) => false,
        };
        // Subgroups are numbered from 0, wherever they are.
        match &rule.places {
            Reads::Some(all) if own && !single && all.contains(&rule.slot) => {
                return Some((Uniformity::Subgroup, assumes));
            }
            Reads::Range(0, end) if own && self.built_in_of(*end) == Some(BuiltIn::NumSubgroups) => {
                return Some((Uniformity::Workgroup, assumes));
            }
            Reads::Range(0, _) if own && grid.size.is_none() => {
                return Some((Uniformity::Workgroup, assumes.and(Assumptions::REDUCED)));
            }
            _ if grid.size.is_none() => return None,
            _ => assumes = assumes.and(grid.subgroups()),
        }
        let value = |slot: Slot, lane: usize| match slot {
            Slot::Known(v) => Some(v),
            Slot::Node(n) => self.graph.nodes[n as usize].shape.value(lane),
        };
        let unknown = |slot: &Slot| matches!(slot, Slot::Node(n) if self.graph.nodes[*n as usize].shape == Shape::Top);
        if unknown(&rule.slot) {
            return Some((Uniformity::Workgroup, assumes));
        }
        if let Slot::Node(n) = rule.slot {
            assumes = assumes.and(self.graph.nodes[n as usize].shape_assumes);
        }
        // The slots of the subgroups: one each, all different.
        let mut stored: Vec<u64> = Vec::new();
        for first in (0..grid.lanes).step_by(grid.subgroup) {
            let members = first..(first + grid.subgroup).min(grid.lanes);
            let mut at = None;
            for lane in members.filter(|l| storing(*l)) {
                let here = value(rule.slot, lane)?;
                if at.replace(here).is_some_and(|before| before != here) {
                    return None;
                }
            }
            let at = at?;
            if stored.contains(&at) {
                return None;
            }
            stored.push(at);
        }
        match &rule.places {
            Reads::Some(slots) => {
                if slots.iter().any(unknown) {
                    return Some((Uniformity::Workgroup, assumes));
                }
                let has = |lane: usize, at: u64| slots.iter().any(|s| value(*s, lane) == Some(at));
                let all = (0..grid.lanes).all(|l| stored.iter().all(|at| has(l, *at)));
                let own = (0..grid.lanes).all(|l| has(l, stored[l / grid.subgroup]));
                match (all, own) {
                    (true, _) => Some((Uniformity::Workgroup, assumes)),
                    (_, true) => Some((Uniformity::Subgroup, assumes)),
                    _ => None,
                }
            }
            Reads::Range(first, end) => {
                let end_node = &self.graph.nodes[*end as usize];
                assumes = assumes.and(end_node.shape_assumes);
                match &end_node.shape {
                    Shape::Top => Some((Uniformity::Workgroup, assumes)),
                    Shape::Const(end) => {
                        let read = |at: &u64| (*first..*end).contains(at);
                        stored.iter().all(read).then_some((Uniformity::Workgroup, assumes))
                    }
                    _ => {
                        let read = |at: &u64| *at >= *first;
                        let all = stored.iter().all(read);
                        all.then_some((Uniformity::Workgroup, assumes.and(Assumptions::REDUCED)))
                    }
                }
            }
        }
    }

    /// Returns the lanes that store, if every subgroup has one, and the assumptions.
    fn storing(&self, rule: &ReductionRule) -> Option<(Stores<'_>, Assumptions)> {
        let Some((condition, when)) = rule.condition else { return Some((Box::new(|_| true), Assumptions::NONE)) };
        let node = &self.graph.nodes[condition as usize];
        let (grid, size) = (&self.grid, self.grid.subgroup);
        if when && self.is_one_of_each(condition) {
            return Some((Box::new(move |l| l % size == 0), Assumptions::NONE));
        }
        let goes = move |l: usize| node.shape.value(l).map(|v| (v != 0) == when);
        if node.shape == Shape::Top {
            return Some((Box::new(|_| true), Assumptions::NONE));
        }
        let one_of = |first: usize| (first..(first + size).min(grid.lanes)).any(|l| goes(l) == Some(true));
        let all = node.shape.is_exact() && (0..grid.lanes).step_by(size).all(one_of);
        all.then(|| {
            let storing: Box<dyn Fn(usize) -> bool + '_> = Box::new(move |l| goes(l) == Some(true));
            (storing, node.shape_assumes)
        })
    }

    /// Returns true if a condition holds only for the first invocation of each subgroup.
    fn is_one_of_each(&self, condition: u32) -> bool {
        let node = &self.graph.nodes[condition as usize];
        let Some(op) = node.inst.map(|r| self.program.module.inst(r).op) else { return false };
        let mut ops = self.graph.inputs(condition);
        match (op, ops.next(), ops.next()) {
            (Op::GroupNonUniformElect, ..) => self.flow.points[node.point as usize] <= Uniformity::Subgroup,
            (Op::IEqual, Some(a), Some(b)) => {
                let zero = self.graph.nodes[b as usize].shape == Shape::Const(0);
                zero && self.built_in_of(a) == Some(BuiltIn::SubgroupLocalInvocationId)
            }
            _ => false,
        }
    }

    /// Returns the built-in of a node.
    fn built_in_of(&self, n: u32) -> Option<BuiltIn> {
        self.graph.built_in_of.get(&n).copied()
    }
}

/// Returns true if a comparison of two numbers holds.
fn compare(op: Op, width: u32, a: u64, b: u64) -> bool {
    let unused = 64 - width.clamp(1, 64);
    let signed = |v: u64| ((v << unused) as i64) >> unused;
    let float = |v: u64| float_of_code(v);
    match op {
        Op::ULessThan => a < b,
        Op::ULessThanEqual => a <= b,
        Op::UGreaterThan => a > b,
        Op::UGreaterThanEqual => a >= b,
        Op::SLessThan => signed(a) < signed(b),
        Op::SLessThanEqual => signed(a) <= signed(b),
        Op::SGreaterThan => signed(a) > signed(b),
        Op::SGreaterThanEqual => signed(a) >= signed(b),
        Op::FOrdLessThan => float(a) < float(b),
        Op::FOrdLessThanEqual => float(a) <= float(b),
        Op::FOrdGreaterThan => float(a) > float(b),
        Op::FOrdGreaterThanEqual => float(a) >= float(b),
        _ => false,
    }
}
