//! Finds the words that lead along a path.

use super::super::WORDS;
use super::Freed;
use coop_ir::cfg::Cfg;
use coop_ir::decorate::Decorations;
use coop_ir::grammar::Op;
use coop_ir::spv::StorageClass;
use coop_ir::{Id, InstRef, Module};
use coop_uniformity::Path;

/// The inputs of a run that takes a path.
#[derive(Clone, Debug, Default)]
pub struct Given {
    /// Words of the first buffer, and what they are.
    pub words: Vec<(u32, u32)>,
    /// Words of the push constants.
    pub push: Vec<(u32, u32)>,
}

impl Freed {
    /// Returns the inputs that lead along a path.
    pub fn data(&self, path: &Path) -> Given {
        let module = &self.made.module;
        let decorations = Decorations::new(module);
        let mut given = Given::default();
        let entry = module.globals_with(Op::EntryPoint).next().and_then(|r| module.inst(r).entry_function());
        let main = module.functions.iter().find(|f| module.inst(f.def).result == entry);
        let parameter = |id: Id| main.and_then(|f| f.params.iter().position(|r| module.inst(*r).result == Some(id)));
        for (base, index, value) in &path.memory {
            let (index, value) = (*index as u32, *value as u32);
            let ty = module.type_of(*base).and_then(|t| module.def_inst(t));
            let class = ty.and_then(|t| t.enumerant(0));
            let buffer = decorations.binding(*base).or(parameter(*base).map(|n| n as u32));
            match (class, buffer) {
                (Some(StorageClass::PushConstant), _) => given.push.push((index, value)),
                (Some(StorageClass::Workgroup), _) => given.words.push((2 * WORDS + index, value)),
                (_, Some(n @ 0..2)) => given.words.push((n * WORDS + index, value)),
                _ => {}
            }
        }
        for (at, group, value) in &path.numbers {
            if let Some((_, first)) = self.elements.iter().find(|e| e.0 == *at) {
                given.words.push((first + group, *value as u32));
            }
            // Kernels have three buffers first.
            let n = module.inst(*at).result.and_then(parameter).and_then(|n| n.checked_sub(3));
            given.push.extend(n.map(|n| (n as u32, *value as u32)));
        }
        // Where a path does not say, branches lead to the end: workgroups that it says nothing of end too.
        for f in 0..module.functions.len() {
            self.to_the_end(f, &mut given);
        }
        for turn in &path.choices {
            let branch = self.branches.iter().find(|d| d.at == turn.at);
            let value = self.value(turn.at, Some(turn.to));
            let Some((d, value)) = branch.zip(value) else { continue };
            given.words.push((d.first + turn.iteration.min(d.rounds - 1) * d.count + turn.group, value));
        }
        given
    }

    /// Has the branches of a function lead to its end, by the shortest path, wherever those lead that words do not decide.
    fn to_the_end(&self, f: usize, given: &mut Given) {
        let module = &self.made.module;
        let blocks = &module.functions[f].blocks;
        let cfg = Cfg::new(module, &module.functions[f]);
        let is_kept = |b: usize| blocks[b].terminator().is_some_and(|r| self.kept.contains(&r));
        let is_nowhere = |b: usize| blocks[b].terminator().is_none_or(|r| module.inst(r).op == Op::Unreachable);
        let mut far = vec![u32::MAX; cfg.len()];
        // Those that lead nowhere else; then whatever leads to them, and where that takes trust, that too.
        for trusting in [false, true] {
            loop {
                let before = far.clone();
                for b in (0..cfg.len()).filter(|b| !is_nowhere(*b)) {
                    let next = cfg.successors(b).iter().map(|s| before[*s]);
                    let next = if is_kept(b) && !trusting { next.max() } else { next.min() };
                    if !trusting || before[b] == u32::MAX {
                        far[b] = far[b].min(next.map_or(0, |n| n.saturating_add(1)));
                    }
                }
                if far == before {
                    break;
                }
            }
        }
        for (b, block) in blocks.iter().enumerate() {
            let Some(d) = self.branches.iter().find(|d| Some(d.at) == block.terminator()) else { continue };
            let next = cfg.successors(b).iter().min_by_key(|s| far[**s]);
            if let Some(value) = next.and_then(|s| self.value(d.at, cfg.label(*s))) {
                given.words.extend((d.first..d.first + d.count * d.rounds).map(|w| (w, value)));
            }
        }
    }

    /// Returns the value of a branch's word that leads to a label.
    fn value(&self, at: InstRef, label: Option<Id>) -> Option<u32> {
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
        let to = cases.iter().find(|c| c.1 == label).map(|c| c.0);
        let default = (inst.id(1) == label).then(|| (0..100).find(|n| cases.iter().all(|c| c.0 != *n)));
        to.or(default.flatten())
    }
}

/// Returns true if a block of a function is one that nothing comes to.
pub(super) fn leads_nowhere(module: &Module, f: usize, label: Id) -> bool {
    let block = module.functions[f].blocks.iter().find(|b| module.inst(b.label).result == Some(label));
    block.and_then(|b| b.terminator()).is_some_and(|r| module.inst(r).op == Op::Unreachable)
}
