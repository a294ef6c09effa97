//! Which words lead to an instruction.

use super::Freed;
use crate::constant::fold_int;
use crate::grammar::Op;
use crate::module::{Id, InstRef, Module};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// What words are to be, for a branch to lead where it should.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The words.
    pub words: std::ops::Range<u32>,
    /// What each is to be.
    pub value: u32,
}

/// What a value is that is made of constants alone.
pub(super) fn fixed(module: &Module, id: Id, depth: u32) -> Option<u64> {
    let inst = module.def_inst(id)?;
    if inst.op == Op::Constant {
        return inst.word(0).map(u64::from);
    }
    if depth > 8 || !matches!(inst.op.0, 124 | 126..=152 | 164..=205) {
        return None;
    }
    let width = |id: Id| {
        let ty = module.type_of(id).and_then(|t| module.def_inst(t));
        ty.map_or(32, |t| if t.op == Op::TypeBool { 1 } else { 32 })
    };
    let args: Option<Vec<(u64, u32)>> = inst.ids().map(|a| Some((fixed(module, a, depth + 1)?, width(a)))).collect();
    let args = args?;
    if inst.op == Op::Select {
        return Some(if args.first()?.0 != 0 { args.get(1)?.0 } else { args.get(2)?.0 });
    }
    fold_int(inst.op, width(id), &args)
}

/// If a condition says whether a loop goes on after so many rounds: the counter's phi, and on which side it ends. The
/// branch is that of the block behind the loop's header.
pub(super) fn bound(module: &Module, (f, b): (usize, usize), condition: Id) -> Option<(InstRef, bool)> {
    let inst = module.def_inst(condition)?;
    let (less, ends) = match inst.op {
        Op::LogicalNot => (module.def_inst(inst.id(0)?)?, true),
        _ => (inst, false),
    };
    let phi = module.def(less.id(0).filter(|_| less.op == Op::ULessThan)?)?;
    let blocks = &module.functions[f].blocks;
    let header = blocks.iter().find(|x| x.insts.contains(&phi)).filter(|_| module.inst(phi).op == Op::Phi)?;
    let leads = header.terminator().is_some_and(|r| module.inst(r).id(0) == module.inst(blocks[b].label).result);
    leads.then_some((phi, ends))
}

/// Whether a block of a function is one that nothing comes to.
pub(super) fn leads_nowhere(module: &Module, f: usize, label: Id) -> bool {
    let block = module.functions[f].blocks.iter().find(|b| module.inst(b.label).result == Some(label));
    block.and_then(|b| b.terminator()).is_some_and(|r| module.inst(r).op == Op::Unreachable)
}

/// Random numbers, for ways that differ.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides.max(1)
    }
}

/// Where control goes in a function: by block, the blocks that it can go to.
struct Ways {
    next: Vec<Vec<usize>>,
}

/// Something that an invocation is to come to, in a function.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Goal {
    Block(usize),
    Return,
}

impl Freed {
    /// What words must be for invocations to come to a branch, and from there to an instruction, as far as the branches
    /// decide that words decide. Other seeds give other ways, where there are several.
    pub fn script(&self, branch: Option<InstRef>, at: InstRef, seed: u64) -> Vec<Choice> {
        let mut dice = Dice(seed);
        let module = &self.made.module;
        let Some(target) = self.find(at) else { return Vec::new() };
        let mut goals: Vec<Vec<Goal>> = vec![Vec::new(); module.functions.len()];
        let chain = self.chain(target, &mut dice);
        if let Some(place) = branch.and_then(|b| self.find(b)) {
            for (f, b) in self.chain(place, &mut dice) {
                goals[f].push(Goal::Block(b));
            }
        }
        for (f, b) in &chain {
            // The call through which both are come to.
            if !(*f != target.0 && goals[*f].last() == Some(&Goal::Block(*b))) {
                goals[*f].push(Goal::Block(*b));
            }
        }
        let mut choices = Vec::new();
        for (f, goals) in goals.iter_mut().enumerate() {
            if chain.iter().all(|c| c.0 != f) {
                goals.push(Goal::Return);
            }
            self.route(f, goals, seed, &mut dice, &mut choices);
        }
        choices
    }

    /// The function and the block of an instruction.
    fn find(&self, at: InstRef) -> Option<(usize, usize)> {
        let functions = self.made.module.functions.iter().enumerate();
        let mut all =
            functions.flat_map(|(f, function)| function.blocks.iter().enumerate().map(move |(b, x)| (f, b, x)));
        all.find(|(_, _, block)| block.insts.contains(&at)).map(|(f, b, _)| (f, b))
    }

    /// A place, the call of its function, the call of that one's, and so on.
    fn chain(&self, place: (usize, usize), dice: &mut Dice) -> Vec<(usize, usize)> {
        let module = &self.made.module;
        let mut chain = vec![place];
        while let Some((f, _)) = chain.last().copied().filter(|_| chain.len() <= module.functions.len()) {
            let callee = module.inst(module.functions[f].def).result;
            let calls = |r: &InstRef| module.inst(*r).op == Op::FunctionCall && module.inst(*r).id(0) == callee;
            let functions = module.functions.iter().enumerate();
            let blocks = functions.flat_map(|(f, x)| x.blocks.iter().enumerate().map(move |(b, x)| (f, b, x)));
            let from: Vec<(usize, usize)> =
                blocks.filter(|(_, _, x)| x.insts.iter().any(calls)).map(|(f, b, _)| (f, b)).collect();
            let Some(from) = from.get(dice.roll(from.len() as u64) as usize) else { break };
            chain.push(*from);
        }
        chain
    }

    /// Finds a way through a function by some goals, and what words must be for it.
    fn route(&self, f: usize, goals: &[Goal], seed: u64, dice: &mut Dice, choices: &mut Vec<Choice>) {
        let module = &self.made.module;
        let blocks = &module.functions[f].blocks;
        let ways = self.ways(f);
        let mut taken: FxHashMap<usize, usize> = FxHashMap::default();
        let mut from = None;
        for goal in goals {
            let is_goal = |b: usize| match goal {
                Goal::Block(g) => b == *g,
                Goal::Return => {
                    blocks[b].terminator().is_some_and(|r| matches!(module.inst(r).op, Op::Return | Op::ReturnValue))
                }
            };
            // The first way is the shortest; others leave out what the dice say.
            let loose = ways.path(from, is_goal, |_| seed > 0 && dice.roll(4) == 0);
            let Some(path) = loose.or_else(|| ways.path(from, is_goal, |_| false)) else { break };
            for pair in path.windows(2) {
                // Where the way comes by twice, one of both counts.
                if seed.is_multiple_of(2) {
                    taken.entry(pair[0]).or_insert(pair[1]);
                } else {
                    taken.insert(pair[0], pair[1]);
                }
            }
            from = path.last().copied();
        }
        for (b, to) in taken {
            let end = blocks[b].terminator();
            let Some(branch) = self.branches.iter().find(|d| Some(d.at) == end) else { continue };
            let Some(value) = self.value(branch.at, module.inst(blocks[to].label).result, dice) else { continue };
            choices.push(Choice { words: branch.first..branch.first + branch.count, value });
        }
    }

    /// What the word of a branch must be for it to lead to a label.
    fn value(&self, at: InstRef, label: Option<Id>, dice: &mut Dice) -> Option<u32> {
        let inst = self.made.module.inst(at);
        if inst.op == Op::BranchConditional {
            return match (inst.id(1) == label, inst.id(2) == label) {
                (true, _) => Some(1),
                (_, true) => Some(0),
                _ => None,
            };
        }
        let cases: Vec<(u32, Option<Id>)> = (2..inst.operands.len())
            .step_by(2)
            .filter_map(|i| Some((inst.word(i)?, inst.operands.get(i + 1)?.id())))
            .collect();
        let to: Vec<u32> = cases.iter().filter(|c| c.1 == label).map(|c| c.0).collect();
        let default = (inst.id(1) == label).then(|| (0..100).find(|n| cases.iter().all(|c| c.0 != *n)));
        to.get(dice.roll(to.len() as u64) as usize).copied().or(default.flatten())
    }

    fn ways(&self, f: usize) -> Ways {
        let module = &self.made.module;
        let blocks = &module.functions[f].blocks;
        let numbers: FxHashMap<Id, usize> =
            blocks.iter().enumerate().filter_map(|(b, x)| Some((module.inst(x.label).result?, b))).collect();
        let mut next: Vec<Vec<usize>> = vec![Vec::new(); blocks.len()];
        let mut later = Vec::new();
        for (b, block) in blocks.iter().enumerate() {
            let Some(inst) = block.terminator().map(|r| module.inst(r)) else { continue };
            let conditional = inst.op == Op::BranchConditional;
            let condition = inst.id(0).filter(|_| conditional || inst.op == Op::Switch);
            let known = condition.and_then(|c| fixed(module, c, 0));
            let bound = condition.filter(|_| conditional).and_then(|c| bound(module, (f, b), c));
            let label = |i: usize| inst.id(i).and_then(|id| numbers.get(&id).copied());
            let all = inst.ids().filter_map(|id| numbers.get(&id).copied());
            next[b] = match (known, bound) {
                (Some(v), _) if conditional => label(if v != 0 { 1 } else { 2 }).into_iter().collect(),
                // The way out is open after the last round.
                (_, Some((phi, ends))) => {
                    let (on, out) = if ends { (label(2), label(1)) } else { (label(1), label(2)) };
                    let latch = module.inst(phi).id(3).and_then(|id| numbers.get(&id).copied());
                    later.extend(latch.zip(out));
                    on.into_iter().collect()
                }
                _ => all.filter(|t| !self.is_nowhere(f, *t)).collect(),
            };
        }
        for (latch, out) in later {
            next[latch].push(out);
        }
        Ways { next }
    }

    fn is_nowhere(&self, f: usize, b: usize) -> bool {
        let module = &self.made.module;
        module.functions[f].blocks[b].terminator().is_some_and(|r| module.inst(r).op == Op::Unreachable)
    }
}

impl Ways {
    /// A shortest path from a block, or from the function's beginning, to a goal; not by the edges that are left out.
    fn path(
        &self,
        from: Option<usize>,
        is_goal: impl Fn(usize) -> bool,
        mut leave_out: impl FnMut(usize) -> bool,
    ) -> Option<Vec<usize>> {
        let mut came: FxHashMap<usize, Option<usize>> = FxHashMap::default();
        let mut queue = VecDeque::new();
        match from {
            None => {
                came.insert(0, None);
                queue.push_back(0);
            }
            Some(b) => {
                for n in &self.next[b] {
                    if came.insert(*n, Some(b)).is_none() {
                        queue.push_back(*n);
                    }
                }
            }
        }
        while let Some(b) = queue.pop_front() {
            if is_goal(b) {
                let mut path = vec![b];
                let mut at = b;
                while let Some(before) = came.get(&at).copied().flatten() {
                    path.push(before);
                    if Some(before) == from {
                        break;
                    }
                    at = before;
                }
                path.reverse();
                return Some(path);
            }
            for n in &self.next[b] {
                if !came.contains_key(n) && !leave_out(*n) {
                    came.insert(*n, Some(b));
                    queue.push_back(*n);
                }
            }
        }
        None
    }
}
