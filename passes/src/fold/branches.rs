//! Branches that are decided: what becomes of the blocks, and of the constructs around them.
//!
//! A selection whose branch is decided is none any more, and neither is a loop that nothing leads back to: their merge
//! instructions go, unless something breaks out of them from another construct or by a condition. Then the header keeps its
//! merge instruction, in front of a switch with one target. Merge blocks and continue targets that nothing leads to, of
//! constructs that stay, keep their label and their terminator.

use super::values::Values;
use crate::ssa;
use coop_ir::builder::Globals;
use coop_ir::cfg::{Cfg, Construct, ConstructKind, Constructs};
use coop_ir::hash::{FxHashMap, FxHashSet};
use coop_ir::{Block, Id, Inst, InstRef, Module, Op, Operand};

/// The fate of each block and branch of a function.
pub(super) struct Plan {
    /// Blocks whose branch is decided, with where they go.
    decided: Vec<(usize, usize)>,
    /// Blocks whose merge instruction goes.
    dropped: FxHashSet<usize>,
    /// Selection headers that are decided and stay headers.
    kept: FxHashSet<usize>,
    /// For each block what it is.
    blocks: Vec<Fate>,
    /// Edges that are taken.
    taken: FxHashSet<(usize, usize)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Live,
    Gone,
    /// The merge block of a construct that nothing leaves that way.
    Merge,
    /// The continue target of the loop with this header, that nothing continues.
    Continue(usize),
}

impl Plan {
    /// Plans what becomes of function `f`; `None` if no branch is decided, or a loop would lose its back edge only.
    pub(super) fn new(m: &Module, cfg: &Cfg, values: &Values<'_>, f: usize) -> Option<Plan> {
        let decided: Vec<(usize, usize)> = values.decided().collect();
        if decided.is_empty() {
            return None;
        }
        let targets: FxHashMap<usize, usize> = decided.iter().copied().collect();
        let mut plan = Plan {
            decided,
            dropped: FxHashSet::default(),
            kept: FxHashSet::default(),
            blocks: (0..cfg.len()).map(|b| if values.is_live(b) { Fate::Live } else { Fate::Gone }).collect(),
            taken: FxHashSet::default(),
        };
        for b in 0..cfg.len() {
            plan.taken
                .extend(cfg.successors(b).iter().map(|to| (b, *to)).filter(|(b, to)| values.is_executed(*b, *to)));
        }
        let jumps = |b: usize| {
            let last = m.functions[f].blocks[b].terminator().map(|r| m.inst(r).op);
            targets.contains_key(&b) || last == Some(Op::Branch)
        };
        let constructs = Constructs::new(cfg);
        // Inner ones first: what breaks out of an inner one that is none any more does so from the outer one.
        for (at, c) in constructs.all().iter().enumerate().rev() {
            if c.kind == ConstructKind::Continue || !values.is_live(c.header) {
                continue;
            }
            let none = match c.kind {
                ConstructKind::Selection => targets.contains_key(&c.header),
                _ => jumps(c.header) && !plan.returns(cfg, c.header),
            };
            if none && plan.can_drop(cfg, &constructs, at, c, &jumps)? {
                plan.dropped.insert(c.header);
            } else if none && c.kind == ConstructKind::Selection {
                plan.kept.insert(c.header);
            }
        }
        for (b, merge) in cfg.merges() {
            if plan.blocks[b] != Fate::Live || plan.dropped.contains(&b) {
                continue;
            }
            let end = merge.merge?;
            if plan.blocks[end] == Fate::Gone {
                plan.blocks[end] = Fate::Merge;
            }
            if let Some(next) = merge.continue_target {
                match plan.blocks[next] {
                    Fate::Live if !plan.returns(cfg, b) => return None,
                    Fate::Live => {}
                    _ => plan.blocks[next] = Fate::Continue(b),
                }
            }
        }
        Some(plan)
    }

    /// Returns true if control goes back to a loop header.
    fn returns(&self, cfg: &Cfg, header: usize) -> bool {
        let back = |p: &&usize| cfg.rpo_index(**p) >= cfg.rpo_index(header) && self.taken.contains(&(**p, header));
        cfg.predecessors(header).iter().any(|p| back(&p))
    }

    /// Returns true if a construct can go: what leaves it for its merge block jumps there, from no other construct.
    fn can_drop(
        &self,
        cfg: &Cfg,
        constructs: &Constructs,
        at: usize,
        c: &Construct,
        jumps: &dyn Fn(usize) -> bool,
    ) -> Option<bool> {
        let merge = c.merge?;
        let innermost = |b: usize| {
            let mut around = constructs.all().iter().enumerate().rev();
            around.find(|(_, c)| !self.dropped.contains(&c.header) && constructs.contains(c, b)).map(|(at, _)| at)
        };
        let mut leaving = cfg.predecessors(merge).iter().filter(|p| self.taken.contains(&(**p, merge)));
        Some(leaving.all(|p| jumps(*p) && innermost(*p) == Some(at)))
    }

    /// Edits the function. `map` gets what phis are that only one edge leads to, `gone` the results that are no more.
    pub(super) fn apply(
        self,
        m: &mut Module,
        g: &mut Globals,
        cfg: &Cfg,
        f: usize,
        map: &mut FxHashMap<Id, Id>,
        gone: &mut FxHashSet<Id>,
    ) {
        self.phis(m, cfg, f, map);
        for (b, to) in &self.decided {
            let (Some(last), Some(to)) = (m.functions[f].blocks[*b].terminator(), cfg.label(*to)) else { continue };
            let origin = m.inst(last).origin;
            let jump = if self.kept.contains(b) {
                let zero = g.u32(m, 0);
                Inst::new(Op::Switch, None, None, [zero.into(), to.into()])
            } else {
                Inst::new(Op::Branch, None, None, [to.into()])
            };
            m.replace(last, jump.at(origin));
        }
        let merges: FxHashSet<InstRef> =
            cfg.merges().filter(|(b, _)| self.dropped.contains(b)).map(|(_, merge)| merge.inst).collect();
        ssa::remove_insts(m, f, &merges);
        let blocks = std::mem::take(&mut m.functions[f].blocks);
        for (b, mut block) in blocks.into_iter().enumerate() {
            if self.blocks[b] == Fate::Live {
                m.functions[f].blocks.push(block);
                continue;
            }
            gone.extend(block.insts.iter().filter_map(|r| m.inst(*r).result));
            block.insts.iter().for_each(|r| m.forget(*r));
            let end = match self.blocks[b] {
                Fate::Live | Fate::Gone => None,
                Fate::Merge => Some(Inst::new(Op::Unreachable, None, None, [])),
                Fate::Continue(header) => cfg.label(header).map(|to| Inst::new(Op::Branch, None, None, [to.into()])),
            };
            let Some(end) = end else {
                gone.extend(m.inst(block.label).result);
                m.forget(block.label);
                continue;
            };
            block.insts = std::iter::once(m.add(end)).collect();
            m.functions[f].blocks.push(block);
        }
    }

    /// Leaves phis what comes by edges that are taken.
    fn phis(&self, m: &mut Module, cfg: &Cfg, f: usize, map: &mut FxHashMap<Id, Id>) {
        for b in (0..cfg.len()).filter(|b| self.blocks[*b] == Fate::Live) {
            // Where nothing continues a loop, control seems to come from its continue target still.
            let seeming = self.blocks.iter().position(|fate| *fate == Fate::Continue(b)).and_then(|c| cfg.label(c));
            for r in m.functions[f].blocks[b].insts.clone() {
                let i = m.inst(r);
                let (Op::Phi, Some(id), Some(ty)) = (i.op, i.result, i.ty) else { continue };
                let pairs = i.operands.chunks_exact(2).filter(|pair| {
                    let from = pair[1].id().and_then(|l| cfg.block(l));
                    from.is_some_and(|from| self.taken.contains(&(from, b)))
                });
                let mut operands: Vec<Operand> = pairs.flatten().copied().collect();
                if let [Operand::Id(only), _] = operands[..] {
                    map.entry(id).or_insert(only);
                }
                if let Some(label) = seeming {
                    let undefined = ssa::undef(m, ty);
                    operands.extend([undefined, label].map(Operand::Id));
                }
                m.inst_mut(r).operands = operands.into_iter().collect();
            }
        }
    }
}

/// Puts together blocks of function `f` of which one jumps to the other and nothing else leads there.
pub(super) fn merge_straight(m: &mut Module, f: usize, gone: &mut FxHashSet<Id>) {
    let cfg = Cfg::new(m, &m.functions[f]);
    // Scopes of debug information end with their block.
    if m.functions[f].blocks.iter().flat_map(|b| &b.insts).any(|r| ssa::is_debug(m, m.inst(*r))) {
        return;
    }
    let targets: FxHashSet<usize> =
        cfg.merges().flat_map(|(_, merge)| merge.merge.into_iter().chain(merge.continue_target)).collect();
    let next = |b: usize| {
        let block = &m.functions[f].blocks[b];
        let jumps = block.terminator().is_some_and(|r| m.inst(r).op == Op::Branch) && cfg.merge(b).is_none();
        let [to] = cfg.successors(b) else { return None };
        let begins = m.functions[f].blocks[*to].insts.first().map(|r| m.inst(*r).op);
        let alone = cfg.predecessors(*to) == [b] && *to != b && *to != 0 && !targets.contains(to);
        (jumps && alone && cfg.is_reachable(b) && begins != Some(Op::Phi)).then_some(*to)
    };
    let next: Vec<Option<usize>> = (0..cfg.len()).map(next).collect();
    let absorbed: FxHashSet<usize> = next.iter().flatten().copied().collect();
    if absorbed.is_empty() {
        return;
    }
    let mut blocks: Vec<Option<Block>> = std::mem::take(&mut m.functions[f].blocks).into_iter().map(Some).collect();
    let mut labels: FxHashMap<Id, Id> = FxHashMap::default();
    let mut out = Vec::new();
    for b in 0..cfg.len() {
        if absorbed.contains(&b) {
            continue;
        }
        let Some(mut block) = blocks[b].take() else { continue };
        let mut at = b;
        while let Some(to) = next[at] {
            at = to;
            let Some(more) = blocks[to].take() else { break };
            if let Some(jump) = block.insts.pop() {
                m.forget(jump);
            }
            let has_line = block.insts.iter().rev().map(|r| m.inst(*r).op).find(|op| op.is_line()) == Some(Op::Line);
            if has_line && more.lead.is_empty() {
                let end = m.add(Inst::new(Op::NoLine, None, None, []));
                block.insts.push(end);
            }
            block.insts.extend(more.lead);
            block.insts.extend(more.insts);
            if let (Some(from), Some(to)) = (cfg.label(to), cfg.label(b)) {
                labels.insert(from, to);
            }
            m.forget(more.label);
        }
        out.push(block);
    }
    m.functions[f].blocks = out;
    ssa::replace_in(m, f, &labels);
    gone.extend(labels.into_keys());
}
