//! Emulates subgroups of a size that the device does not support: lowers the module's operations on subgroups if lanes come from the local invocation index.
//!
//! Precondition: the workgroup's size is fixed (`specialize`). Effect, with `--lanes local-index` and a size that is not the
//! device's: each operation on a subgroup becomes a call of a function of the module. Those that only compute (counts of bits in
//! ballots, masks) stay where they are. Those that communicate put a value of each invocation into an array in shared memory,
//! with a barrier of the workgroup before and after; so they have to stand where all invocations of the workgroup execute them
//! together ([`uniform_blocks`]), and all are active there. Barriers of a subgroup become barriers of the workgroup, under the same
//! condition, which all barriers of a workgroup's only subgroup meet. `matrix/lanes.rs` defines the values of built-in variables about subgroups.
//!
//! Refuses: communication and barriers where not all invocations are sure to be together; types that are neither truth values nor
//! numbers of 8 to 64 bits. Operations that have no lowering here (partitions, quads' votes) are left, and refused there.

mod uniform_blocks;

use crate::builtins::Builtins;
use crate::matrix::arena::{Arena, Zone};
use crate::matrix::lanes;
use crate::pipeline::PassCx;
use crate::workgroup::Workgroup;
use crate::{Refusal, cleanup, kernel};
use coop_ir::builder::{FunctionBuilder, Globals, Index, require_capability};
use coop_ir::constant::{Constants, Specialization};
use coop_ir::decorate::Decorations;
use coop_ir::grammar::{ExecutionScope, GroupOp};
use coop_ir::hash::{FxHashMap, FxHashSet};
use coop_ir::rewrite::{remove_globals, sort_globals};
use coop_ir::spv::{BuiltIn, Capability, GroupOperation, Scope};
use coop_ir::types::{Scalar, Type};
use coop_ir::uses::is_note;
use coop_ir::{Id, Inst, InstRef, Kind, Module, Op, Operand};
use uniform_blocks::UniformBlocks;

/// The capabilities of operations that are gone afterwards.
const CAPABILITIES: [Capability; 10] = [
    Capability::GroupNonUniformVote,
    Capability::GroupNonUniformArithmetic,
    Capability::GroupNonUniformBallot,
    Capability::GroupNonUniformShuffle,
    Capability::GroupNonUniformShuffleRelative,
    Capability::GroupNonUniformClustered,
    Capability::GroupNonUniformQuad,
    Capability::GroupNonUniformRotateKHR,
    Capability::SubgroupBallotKHR,
    Capability::SubgroupVoteKHR,
];

/// The words of a ballot.
const BALLOT: u32 = 4;

pub(crate) fn run(m: &mut Module, cx: &mut PassCx<'_>) -> Result<(), Refusal> {
    let simulates = lanes::simulates(cx.options) && !kernel::is_kernel(m);
    let Some(size) = cx.options.subgroup_size.filter(|_| simulates) else { return Ok(()) };
    let constants = Constants::new(m, &Specialization::new());
    let masks = masks(m);
    let mut found = Vec::new();
    for (f, function) in m.functions.iter().enumerate() {
        for (b, block) in function.blocks.iter().enumerate() {
            let is_mask = |i: &Inst| i.op == Op::Load && i.id(0).is_some_and(|id| masks.contains_key(&id));
            let concerns = |r: &&InstRef| lanes::works_on_subgroup(m, &constants, m.inst(**r)) || is_mask(m.inst(**r));
            found.extend(block.insts.iter().filter(concerns).map(|r| (f, b, *r)));
        }
    }
    let invocations = Workgroup::new(m, &constants).invocations.filter(|n| n.is_multiple_of(size));
    // Without a known size the pass behind refuses.
    let Some(invocations) = invocations.filter(|_| !found.is_empty()) else { return Ok(()) };
    let together = UniformBlocks::new(m, &constants, invocations == size);
    let mut emulation = Emulation {
        size,
        invocations,
        arena: Arena::new(m, &constants, cx.options.profile, None),
        builtins: Builtins::new(m),
        functions: FxHashMap::default(),
    };
    let mut g = Globals::new(m);
    for (f, b, r) in found {
        emulation.inst(m, &mut g, &constants, r, &masks, together.block(f, b))?;
        cx.within_limits(m, Some(r))?;
    }
    cx.report.counts_subgroups = true;
    emulation.builtins.finish(m);
    cx.report.added_shared_memory += emulation.arena.finish(m, &mut g);
    forget(m, &masks);
    sort_globals(m);
    Ok(())
}

/// The variables that hold a bit for each invocation of a subgroup.
fn masks(m: &Module) -> FxHashMap<Id, BuiltIn> {
    let decorations = Decorations::new(m);
    let variables = |b: BuiltIn| decorations.with_built_in(b).map(move |id| (id, b)).collect::<Vec<_>>();
    let all = lanes::MASKS.into_iter().flat_map(variables);
    all.filter(|(id, _)| m.def_inst(*id).is_some_and(|i| i.op == Op::Variable)).collect()
}

/// Removes what nothing uses any more: variables of masks, and capabilities with their extensions.
fn forget(m: &mut Module, masks: &FxHashMap<Id, BuiltIn>) {
    let used: FxHashSet<Id> = m.functions.iter().flat_map(|f| f.insts()).flat_map(|r| m.inst(r).ids()).collect();
    let gone: FxHashSet<Id> = masks.keys().copied().filter(|id| !used.contains(id)).collect();
    for r in m.globals_with(Op::EntryPoint).collect::<Vec<_>>() {
        let first = m.inst(r).string(2).map_or(0, |(_, at)| at);
        let mut at = 0;
        m.inst_mut(r).operands.retain(|operand| {
            at += 1;
            at <= first || operand.id().is_none_or(|id| !gone.contains(&id))
        });
    }
    remove_globals(m, |m, r| {
        let i = m.inst(r);
        i.result.is_some_and(|id| gone.contains(&id)) || is_note(i.op) && i.id(0).is_some_and(|id| gone.contains(&id))
    });
    let left = m.functions.iter().flat_map(|f| f.insts()).any(|r| m.inst(r).op.group_operation().is_some());
    if left || gone.len() < masks.len() {
        return;
    }
    let mut removed = false;
    for capability in CAPABILITIES {
        if cleanup::remove_capability(m, capability) {
            removed = true;
            let extensions = Kind::Capability.enumerant(capability.0).map_or(&[][..], |e| e.extensions);
            extensions.iter().for_each(|extension| cleanup::remove_extension(m, extension));
        }
    }
    if removed {
        require_capability(m, Capability::GroupNonUniform);
    }
}

/// A function that was made: what it computes, of which types, and a literal.
type Key = (GroupOp, Vec<Id>, u32);

struct Emulation {
    /// Invocations of a subgroup.
    size: u32,
    /// Invocations of the workgroup.
    invocations: u32,
    /// The array of values: first a word of each invocation, then the second words.
    arena: Arena,
    builtins: Builtins,
    functions: FxHashMap<Key, Id>,
}

/// An operation on the values of a subgroup.
#[derive(Clone, Copy)]
struct Reduction {
    what: GroupOp,
    ty: Id,
    operation: GroupOperation,
    /// The invocations of a cluster.
    cluster: u32,
}

impl Emulation {
    fn inst(
        &mut self,
        m: &mut Module,
        g: &mut Globals,
        constants: &Constants,
        r: InstRef,
        masks: &FxHashMap<Id, BuiltIn>,
        together: bool,
    ) -> Result<(), Refusal> {
        let i = m.inst(r).clone();
        if i.op == Op::Load {
            let Some(mask) = i.id(0).and_then(|id| masks.get(&id).copied()) else { return Ok(()) };
            if let (Some(ty), Some(_)) = (i.ty, i.result) {
                let function = self.mask(m, g, mask, ty);
                m.replace(r, Inst::new(Op::FunctionCall, Some(ty), i.result, [function.into()]).at(i.origin));
            }
            return Ok(());
        }
        let diverged = || {
            let why = format!(
                "{} where not all invocations of the workgroup are sure to be together: subgroups of {} are emulated in shared \
                 memory",
                i.op, self.size
            );
            let remedy = "move it in front of the branch, or lower for subgroups of the device: --lanes subgroup";
            Err(Refusal::new("refused-lanes", Some(r), why, remedy))
        };
        if i.op == Op::ControlBarrier {
            if !together {
                return diverged();
            }
            let scope = g.u32(m, Scope::Workgroup.0);
            m.inst_mut(r).operands[0] = scope.into();
            return Ok(());
        }
        let Some(what) = i.op.group_operation() else { return Ok(()) };
        let (Some(ty), Some(_)) = (i.ty, i.result) else { return Ok(()) };
        // Instructions of older extensions name no scope.
        let first = usize::from(matches!(i.op.execution_scope(), Some(ExecutionScope::Operand(_))));
        let communicates = !is_computed(what);
        if communicates && !together {
            return diverged();
        }
        if communicates && let Some(layout) = i.id(first).or(i.id(first + 1)).and_then(|v| Layout::of(m, m.type_of(v)?))
        {
            let mark = self.arena.mark();
            let bytes = layout.count() * 4 * self.invocations;
            self.arena.take(r, "what a subgroup's invocations tell each other", Zone::Workgroup, bytes)?;
            self.arena.release(mark);
        }
        let Some(made) = self.function(m, g, constants, &i, what, first) else { return Ok(()) };
        let operands = std::iter::once(made.function).chain(made.arguments).map(Operand::Id);
        m.replace(r, Inst::new(Op::FunctionCall, Some(ty), i.result, operands).at(i.origin));
        Ok(())
    }

    /// The function that does what an instruction does, if there is one: `first` is its first operand behind the scope.
    fn function(
        &mut self,
        m: &mut Module,
        g: &mut Globals,
        constants: &Constants,
        i: &Inst,
        what: GroupOp,
        first: usize,
    ) -> Option<HelperCall> {
        use GroupOp as G;
        let ty = i.ty?;
        let literal = matches!(what, G::BallotBitCount) || what.is_reduction();
        let operation = if literal { i.enumerant::<GroupOperation>(first)? } else { GroupOperation::Reduce };
        let arguments: Vec<Id> = i.ids_from(first + usize::from(literal)).collect();
        let words = g.uint(m, 32);
        // Invocations and distances are numbers of 32 bits.
        if what.moves() && arguments.get(1).is_some_and(|id| m.type_of(*id) != Some(words)) {
            return None;
        }
        let known = |id: Option<&Id>| id.and_then(|id| constants.get(*id).fixed()).and_then(|n| u32::try_from(n).ok());
        let clustered = operation == GroupOperation::ClusteredReduce || what == G::Rotate && arguments.len() > 2;
        let cluster = if clustered { known(arguments.last())? } else { self.size };
        if !cluster.is_power_of_two() || cluster > self.size {
            return None;
        }
        let arguments: Vec<Id> = if clustered { arguments[..arguments.len() - 1].to_vec() } else { arguments };
        let value = arguments.first().copied().and_then(|id| m.type_of(id));
        if !is_computed(what) && what != G::Elect && Layout::of(m, value?).is_none() {
            return None;
        }
        let types: Vec<Id> = arguments.iter().filter_map(|id| m.type_of(*id)).collect();
        let reduction = Reduction { what, ty, operation, cluster };
        let mut key = types.clone();
        key.push(ty);
        let key = (what, key, operation.0 << 16 | cluster);
        if let Some(function) = self.functions.get(&key) {
            return Some(HelperCall { function: *function, arguments });
        }
        let mut b = FunctionBuilder::new(m, g, &format!("coop_subgroup_{what:?}"), ty, &types);
        let lane = self.lane(&mut b);
        let result = match what {
            G::Elect => b.compare(Op::IEqual, lane, Index::Const(0)),
            G::All | G::Any | G::AllEqual | G::Ballot => self.vote(&mut b, what, value?),
            G::InverseBallot => bit(&mut b, lane),
            G::BallotBitExtract => {
                let index = Index::Value(b.param(1));
                bit(&mut b, index)
            }
            G::BallotBitCount | G::BallotFindLsb | G::BallotFindMsb => self.bits(&mut b, reduction, lane)?,
            what if what.moves() => self.shuffled(&mut b, reduction, lane)?,
            what if what.is_reduction() => self.reduced(&mut b, reduction, lane)?,
            _ => return None,
        };
        let function = b.finish(Some(result));
        self.functions.insert(key, function);
        Some(HelperCall { function, arguments })
    }

    /// The number of the invocation in its subgroup.
    fn lane(&mut self, b: &mut FunctionBuilder<'_>) -> Index {
        let index = self.builtins.load(b, BuiltIn::LocalInvocationIndex);
        b.rem(index, self.size)
    }

    /// The place of the subgroup's first invocation in the workgroup.
    fn begin(&mut self, b: &mut FunctionBuilder<'_>) -> Index {
        let index = self.builtins.load(b, BuiltIn::LocalInvocationIndex);
        let subgroup = b.div(index, self.size);
        b.mul(subgroup, Index::Const(self.size))
    }

    /// Returns the index of a word of an invocation's value.
    fn place(&self, b: &mut FunctionBuilder<'_>, word: u32, invocation: Index) -> Index {
        b.add(invocation, Index::Const(word * self.invocations))
    }

    fn load(&mut self, b: &mut FunctionBuilder<'_>, word: u32, invocation: Index) -> Id {
        let place = self.place(b, word, invocation);
        self.arena.load_word(b, place)
    }

    /// Gives all invocations of the workgroup the value that each has.
    fn exchange(&mut self, b: &mut FunctionBuilder<'_>, value: Id, ty: Id) {
        let Some(layout) = Layout::of(b.module, ty) else { return };
        let index = self.builtins.load(b, BuiltIn::LocalInvocationIndex);
        let words = layout.words(b, value);
        // Nobody reads any more what was exchanged before.
        self.arena.barrier(b, Zone::Workgroup);
        for (n, word) in (0..).zip(words) {
            let place = self.place(b, n, index);
            self.arena.store_word(b, place, word);
        }
        self.arena.barrier(b, Zone::Workgroup);
    }

    /// The value of the invocation at a place of the workgroup.
    fn value(&mut self, b: &mut FunctionBuilder<'_>, ty: Id, at: Index) -> Id {
        let Some(layout) = Layout::of(b.module, ty) else { return b.param(0) };
        let words: Vec<Id> = (0..layout.count()).map(|n| self.load(b, n, at)).collect();
        layout.value(b, &words)
    }

    fn vote(&mut self, b: &mut FunctionBuilder<'_>, what: GroupOp, ty: Id) -> Id {
        let value = b.param(0);
        self.exchange(b, value, ty);
        let begin = self.begin(b);
        if what == GroupOp::Ballot {
            let words: Vec<Id> = (0..BALLOT).map(|w| self.ballot_word(b, begin, w)).collect();
            return ballot_of(b, &words);
        }
        let bool_type = b.globals.bool(b.module);
        let first = self.value(b, ty, begin);
        let start = b.globals.boolean(b.module, what != GroupOp::Any);
        let range = (Index::Const(0), Index::Const(self.size), Index::Const(1));
        let all = b.fold(range, &[bool_type], &[start], &mut |b, n, so_far| {
            let at = b.add(begin, n);
            let value = self.value(b, ty, at);
            let (op, value) = match what {
                GroupOp::Any => (Op::LogicalOr, value),
                GroupOp::All => (Op::LogicalAnd, value),
                _ => (Op::LogicalAnd, equal(b, ty, first, value)),
            };
            vec![b.ids(op, bool_type, &[so_far[0], value])]
        });
        all[0]
    }

    /// A word of a ballot of truth values that were exchanged.
    fn ballot_word(&mut self, b: &mut FunctionBuilder<'_>, begin: Index, word: u32) -> Id {
        let (first, end) = (word * 32, self.size.min((word + 1) * 32));
        let none = b.u32(0);
        if first >= end {
            return none;
        }
        let ty = b.u32_type();
        let range = (Index::Const(0), Index::Const(end - first), Index::Const(1));
        let begin = b.add(begin, Index::Const(first));
        let bits = b.fold(range, &[ty], &[none], &mut |b, n, so_far| {
            let at = b.add(begin, n);
            let one = self.load(b, 0, at);
            let n = b.index(n);
            let bit = b.ids(Op::ShiftLeftLogical, ty, &[one, n]);
            vec![b.ids(Op::BitwiseOr, ty, &[so_far[0], bit])]
        });
        bits[0]
    }

    /// Counts the bits of a ballot, or finds one.
    fn bits(&mut self, b: &mut FunctionBuilder<'_>, reduction: Reduction, lane: Index) -> Option<Id> {
        let ty = b.u32_type();
        let ballot = b.param(0);
        let used = self.size.div_ceil(32);
        let mut words = Vec::new();
        for w in 0..used {
            let word = b.op(Op::CompositeExtract, ty, [ballot.into(), Operand::Word(w)]);
            let mask = match reduction.operation {
                GroupOperation::Reduce => b.u32(self.all(w)),
                GroupOperation::InclusiveScan => self.lane_mask(b, BuiltIn::SubgroupLeMask, lane, w),
                GroupOperation::ExclusiveScan => self.lane_mask(b, BuiltIn::SubgroupLtMask, lane, w),
                _ => return None,
            };
            words.push(b.ids(Op::BitwiseAnd, ty, &[word, mask]));
        }
        let found = match reduction.what {
            GroupOp::BallotBitCount => {
                let counts: Vec<Id> = words.into_iter().map(|w| b.ids(Op::BitCount, ty, &[w])).collect();
                counts.into_iter().reduce(|a, c| b.ids(Op::IAdd, ty, &[a, c]))?
            }
            what => {
                let last = what == GroupOp::BallotFindMsb;
                let numbered: Vec<(u32, Id)> = (0..).zip(words).collect();
                let order: Vec<(u32, Id)> = if last { numbered } else { numbered.into_iter().rev().collect() };
                let mut found = b.u32(0);
                for (w, word) in order {
                    let at = if last { highest(b, word) } else { lowest(b, word) };
                    let at = b.add(Index::Value(at), Index::Const(w * 32));
                    let some = b.compare(Op::INotEqual, Index::Value(word), Index::Const(0));
                    let chosen = b.select(some, at, Index::Value(found));
                    found = b.index(chosen);
                }
                found
            }
        };
        Some(if reduction.ty == ty { found } else { b.ids(Op::Bitcast, reduction.ty, &[found]) })
    }

    /// The bits of all invocations in a word of a ballot.
    fn all(&self, word: u32) -> u32 {
        match self.size.saturating_sub(word * 32) {
            0 => 0,
            n @ 1..32 => (1 << n) - 1,
            _ => u32::MAX,
        }
    }

    /// A word of the mask of the invocations before one, behind it, or of itself.
    fn lane_mask(&self, b: &mut FunctionBuilder<'_>, mask: BuiltIn, lane: Index, word: u32) -> Id {
        let ty = b.u32_type();
        let all = b.u32(self.all(word));
        let (one, zero) = (b.u32(1), b.u32(0));
        let bit = b.rem(lane, 32);
        let bit = b.index(bit);
        let shifted = b.ids(Op::ShiftLeftLogical, ty, &[one, bit]);
        let of = b.div(lane, 32);
        let here = b.compare(Op::IEqual, of, Index::Const(word));
        let own = b.ids(Op::Select, ty, &[here, shifted, zero]);
        let below = b.ids(Op::ISub, ty, &[shifted, one]);
        let behind = b.compare(Op::UGreaterThan, of, Index::Const(word));
        let past = b.ids(Op::Select, ty, &[behind, all, zero]);
        let before = b.ids(Op::Select, ty, &[here, below, past]);
        let up_to = b.ids(Op::BitwiseOr, ty, &[before, own]);
        let without = |b: &mut FunctionBuilder<'_>, bits: Id| {
            let not = b.ids(Op::Not, ty, &[bits]);
            b.ids(Op::BitwiseAnd, ty, &[all, not])
        };
        match mask {
            BuiltIn::SubgroupEqMask => own,
            BuiltIn::SubgroupLtMask => before,
            BuiltIn::SubgroupLeMask => up_to,
            BuiltIn::SubgroupGtMask => without(b, up_to),
            _ => without(b, before),
        }
    }

    /// The function that answers a built-in mask.
    fn mask(&mut self, m: &mut Module, g: &mut Globals, mask: BuiltIn, ty: Id) -> Id {
        let key = (GroupOp::Ballot, vec![ty], mask.0);
        if let Some(function) = self.functions.get(&key) {
            return *function;
        }
        let mut b = FunctionBuilder::new(m, g, &format!("coop_{mask:?}"), ty, &[]);
        let lane = self.lane(&mut b);
        let words: Vec<Id> = (0..BALLOT).map(|w| self.lane_mask(&mut b, mask, lane, w)).collect();
        let mut result = ballot_of(&mut b, &words);
        if b.module.type_of(result) != Some(ty) {
            result = b.ids(Op::Bitcast, ty, &[result]);
        }
        let function = b.finish(Some(result));
        self.functions.insert(key, function);
        function
    }

    /// The value of another invocation.
    fn shuffled(&mut self, b: &mut FunctionBuilder<'_>, reduction: Reduction, lane: Index) -> Option<Id> {
        use GroupOp as G;
        let Reduction { what, ty, cluster, .. } = reduction;
        let value = b.param(0);
        self.exchange(b, value, ty);
        let begin = self.begin(b);
        let given = Index::Value(b.param(1));
        let last = Index::Const(self.size - 1);
        let and = |b: &mut FunctionBuilder<'_>, a: Index, mask: Index| b.u32_op(Op::BitwiseAnd, a, mask);
        // Those that are out of range give no value, but are read within the subgroup.
        let other = match what {
            G::Broadcast | G::Shuffle => given,
            G::BroadcastFirst => Index::Const(0),
            G::ShuffleXor => b.u32_op(Op::BitwiseXor, lane, given),
            G::ShuffleUp => b.u32_op(Op::ISub, lane, given),
            G::ShuffleDown => b.u32_op(Op::IAdd, lane, given),
            G::Rotate => {
                let sum = b.u32_op(Op::IAdd, lane, given);
                let within = and(b, sum, Index::Const(cluster - 1));
                let first = and(b, lane, Index::Const(!(cluster - 1)));
                b.add(first, within)
            }
            G::QuadBroadcast => {
                let first = and(b, lane, Index::Const(!3));
                let within = and(b, given, Index::Const(3));
                b.add(first, within)
            }
            G::QuadSwap => {
                let mask = b.add(given, Index::Const(1));
                b.u32_op(Op::BitwiseXor, lane, mask)
            }
            _ => return None,
        };
        let other = and(b, other, last);
        let at = b.add(begin, other);
        Some(self.value(b, ty, at))
    }

    /// The values of the subgroup, of a cluster, or of the invocations up to this one, made one.
    fn reduced(&mut self, b: &mut FunctionBuilder<'_>, reduction: Reduction, lane: Index) -> Option<Id> {
        let Reduction { what, ty, operation, cluster } = reduction;
        let value = b.param(0);
        self.exchange(b, value, ty);
        let mut begin = self.begin(b);
        if cluster < self.size {
            let first = b.u32_op(Op::BitwiseAnd, lane, Index::Const(!(cluster - 1)));
            begin = b.add(begin, first);
        }
        let (start, first, end) = match operation {
            GroupOperation::Reduce | GroupOperation::ClusteredReduce => {
                (self.value(b, ty, begin), Index::Const(1), Index::Const(cluster))
            }
            GroupOperation::InclusiveScan => {
                let end = b.add(lane, Index::Const(1));
                (self.value(b, ty, begin), Index::Const(1), end)
            }
            GroupOperation::ExclusiveScan => (identity(b, what, ty)?, Index::Const(0), lane),
            _ => return None,
        };
        let all = b.fold((first, end, Index::Const(1)), &[ty], &[start], &mut |b, n, so_far| {
            let at = b.add(begin, n);
            let value = self.value(b, ty, at);
            vec![combined(b, what, ty, so_far[0], value)]
        });
        Some(all[0])
    }
}

/// A generated function and the arguments of its call.
struct HelperCall {
    function: Id,
    arguments: Vec<Id>,
}

/// Returns true if an operation is a function of its operands and the invocation's number, whichever other invocations execute it.
fn is_computed(what: GroupOp) -> bool {
    use GroupOp as G;
    matches!(what, G::InverseBallot | G::BallotBitExtract | G::BallotBitCount | G::BallotFindLsb | G::BallotFindMsb)
}

/// The representation of a value in words.
struct Layout {
    ty: Id,
    elem: Id,
    /// None: a truth value.
    scalar: Option<Scalar>,
    /// The components of a vector.
    len: Option<u32>,
}

impl Layout {
    fn of(m: &Module, ty: Id) -> Option<Layout> {
        let (elem, len) = match Type::of(m, ty)? {
            Type::Vector { elem, len } => (elem, Some(len)),
            _ => (ty, None),
        };
        let scalar = match Type::of(m, elem)? {
            Type::Bool => None,
            Type::Scalar(s @ Scalar::Int { width: 8 | 16 | 32 | 64, .. }) => Some(s),
            Type::Scalar(s @ Scalar::Float { width: 16 | 32 | 64 }) => Some(s),
            _ => return None,
        };
        Some(Layout { ty, elem, scalar, len })
    }

    fn words_of_component(&self) -> u32 {
        self.scalar.map_or(1, |s| s.width().div_ceil(32))
    }

    fn count(&self) -> u32 {
        self.words_of_component() * self.len.unwrap_or(1)
    }

    fn words(&self, b: &mut FunctionBuilder<'_>, value: Id) -> Vec<Id> {
        let Some(len) = self.len else { return self.component_words(b, value) };
        let parts: Vec<Id> =
            (0..len).map(|n| b.op(Op::CompositeExtract, self.elem, [value.into(), Operand::Word(n)])).collect();
        parts.into_iter().flat_map(|part| self.component_words(b, part)).collect()
    }

    fn component_words(&self, b: &mut FunctionBuilder<'_>, value: Id) -> Vec<Id> {
        let ty = b.u32_type();
        vec![match self.scalar {
            None => {
                let (one, zero) = (b.u32(1), b.u32(0));
                b.ids(Op::Select, ty, &[value, one, zero])
            }
            Some(_) if self.elem == ty => value,
            Some(s) if s.width() == 64 => {
                let pair = b.globals.vector(b.module, ty, 2);
                let pair = b.ids(Op::Bitcast, pair, &[value]);
                return (0..2).map(|n| b.op(Op::CompositeExtract, ty, [pair.into(), Operand::Word(n)])).collect();
            }
            Some(s) if s.width() == 32 => b.ids(Op::Bitcast, ty, &[value]),
            Some(s) if s.is_int() => b.ids(Op::UConvert, ty, &[value]),
            // Half of a word; integers of 16 bits need a feature of their own.
            Some(_) => {
                let pair = b.globals.vector(b.module, self.elem, 2);
                let pair = b.ids(Op::CompositeConstruct, pair, &[value, value]);
                b.ids(Op::Bitcast, ty, &[pair])
            }
        }]
    }

    fn value(&self, b: &mut FunctionBuilder<'_>, words: &[Id]) -> Id {
        let each = self.words_of_component() as usize;
        let parts: Vec<Id> = words.chunks(each).map(|words| self.component(b, words)).collect();
        if self.len.is_none() { parts[0] } else { b.ids(Op::CompositeConstruct, self.ty, &parts) }
    }

    fn component(&self, b: &mut FunctionBuilder<'_>, words: &[Id]) -> Id {
        let ty = b.u32_type();
        let word = words[0];
        match self.scalar {
            None => b.compare(Op::INotEqual, Index::Value(word), Index::Const(0)),
            Some(_) if self.elem == ty => word,
            Some(s) if s.width() == 64 => {
                let pair = b.globals.vector(b.module, ty, 2);
                let pair = b.ids(Op::CompositeConstruct, pair, words);
                b.ids(Op::Bitcast, self.elem, &[pair])
            }
            Some(s) if s.width() == 32 => b.ids(Op::Bitcast, self.elem, &[word]),
            Some(Scalar::Int { signed: true, .. }) => b.ids(Op::SConvert, self.elem, &[word]),
            Some(s) if s.is_int() => b.ids(Op::UConvert, self.elem, &[word]),
            Some(_) => {
                let pair = b.globals.vector(b.module, self.elem, 2);
                let pair = b.ids(Op::Bitcast, pair, &[word]);
                b.op(Op::CompositeExtract, self.elem, [pair.into(), Operand::Word(0)])
            }
        }
    }
}

/// A ballot of its words.
fn ballot_of(b: &mut FunctionBuilder<'_>, words: &[Id]) -> Id {
    let ty = b.u32_type();
    let ballot = b.globals.vector(b.module, ty, BALLOT);
    b.ids(Op::CompositeConstruct, ballot, words)
}

/// A bit of the ballot that is the first parameter.
fn bit(b: &mut FunctionBuilder<'_>, at: Index) -> Id {
    let ty = b.u32_type();
    let ballot = b.param(0);
    let (word, bit) = (b.div(at, 32), b.rem(at, 32));
    // Those that are out of range have no meaning, but are read within the ballot.
    let word = b.rem(word, BALLOT);
    let (word, bit) = (b.index(word), b.index(bit));
    let word = b.ids(Op::VectorExtractDynamic, ty, &[ballot, word]);
    let shifted = b.ids(Op::ShiftRightLogical, ty, &[word, bit]);
    let one = b.rem(Index::Value(shifted), 2);
    b.compare(Op::INotEqual, one, Index::Const(0))
}

/// The number of the lowest bit of a word that has one.
fn lowest(b: &mut FunctionBuilder<'_>, word: Id) -> Id {
    let ty = b.u32_type();
    let one = b.u32(1);
    let less = b.ids(Op::ISub, ty, &[word, one]);
    let not = b.ids(Op::Not, ty, &[word]);
    let below = b.ids(Op::BitwiseAnd, ty, &[less, not]);
    b.ids(Op::BitCount, ty, &[below])
}

/// The number of the highest bit of a word that has one.
fn highest(b: &mut FunctionBuilder<'_>, word: Id) -> Id {
    let ty = b.u32_type();
    let mut all = word;
    for n in [1, 2, 4, 8, 16] {
        let n = b.u32(n);
        let shifted = b.ids(Op::ShiftRightLogical, ty, &[all, n]);
        all = b.ids(Op::BitwiseOr, ty, &[all, shifted]);
    }
    let count = b.ids(Op::BitCount, ty, &[all]);
    let one = b.u32(1);
    b.ids(Op::ISub, ty, &[count, one])
}

/// Returns the type of truth values as many as a type has components.
fn truth(b: &mut FunctionBuilder<'_>, len: Option<u32>) -> Id {
    let ty = b.globals.bool(b.module);
    len.map_or(ty, |len| b.globals.vector(b.module, ty, len))
}

/// True if two values are the same.
fn equal(b: &mut FunctionBuilder<'_>, ty: Id, x: Id, y: Id) -> Id {
    let Some(layout) = Layout::of(b.module, ty) else { return x };
    let op = match layout.scalar {
        None => Op::LogicalEqual,
        Some(s) if s.is_int() => Op::IEqual,
        Some(_) => Op::FOrdEqual,
    };
    let each = truth(b, layout.len);
    let equal = b.ids(op, each, &[x, y]);
    let one = b.globals.bool(b.module);
    if layout.len.is_some() { b.ids(Op::All, one, &[equal]) } else { equal }
}

/// Two values made one.
fn combined(b: &mut FunctionBuilder<'_>, what: GroupOp, ty: Id, x: Id, y: Id) -> Id {
    use GroupOp as G;
    let op = match what {
        G::IAdd => Op::IAdd,
        G::FAdd => Op::FAdd,
        G::IMul => Op::IMul,
        G::FMul => Op::FMul,
        G::And => Op::BitwiseAnd,
        G::Or => Op::BitwiseOr,
        G::Xor => Op::BitwiseXor,
        G::LogicalAnd => Op::LogicalAnd,
        G::LogicalOr => Op::LogicalOr,
        G::LogicalXor => Op::LogicalNotEqual,
        _ => {
            let comparison = match what {
                G::SMin => Op::SLessThan,
                G::UMin => Op::ULessThan,
                G::FMin => Op::FOrdLessThan,
                G::SMax => Op::SGreaterThan,
                G::UMax => Op::UGreaterThan,
                _ => Op::FOrdGreaterThan,
            };
            let len = Layout::of(b.module, ty).and_then(|l| l.len);
            let each = truth(b, len);
            let mut other = b.ids(comparison, each, &[y, x]);
            if matches!(what, G::FMin | G::FMax) {
                // A number is chosen rather than what is none.
                let none = b.ids(Op::IsNan, each, &[x]);
                other = b.ids(Op::LogicalOr, each, &[other, none]);
            }
            return b.ids(Op::Select, ty, &[other, y, x]);
        }
    };
    b.ids(op, ty, &[x, y])
}

/// The value that changes none that it is combined with.
fn identity(b: &mut FunctionBuilder<'_>, what: GroupOp, ty: Id) -> Option<Id> {
    use GroupOp as G;
    let layout = Layout::of(b.module, ty)?;
    let Some(scalar) = layout.scalar else {
        let value = b.globals.boolean(b.module, what == G::LogicalAnd);
        return Some(splat(b, &layout, value));
    };
    let width = scalar.width();
    let all = u64::MAX >> (64 - width);
    // One and infinity of the formats of IEEE 754.
    let (one, infinity) = match width {
        16 => (0x3c00, 0x7c00),
        32 => (0x3f80_0000, 0x7f80_0000),
        _ => (0x3ff0_0000_0000_0000, 0x7ff0_0000_0000_0000),
    };
    let bits = match what {
        G::IMul => 1,
        G::FMul => one,
        G::SMin => all >> 1,
        G::SMax => (all >> 1) + 1,
        G::UMin | G::And => all,
        G::FMin => infinity,
        G::FMax => infinity | 1 << (width - 1),
        _ => 0,
    };
    let value = b.globals.constant_of(b.module, layout.elem, scalar, bits);
    Some(splat(b, &layout, value))
}

fn splat(b: &mut FunctionBuilder<'_>, layout: &Layout, value: Id) -> Id {
    match layout.len {
        Some(len) => b.ids(Op::CompositeConstruct, layout.ty, &vec![value; len as usize]),
        None => value,
    }
}
