//! Checks 5 to 8: blocks, and the edges between them.

use super::Verifier;
use crate::cfg::{Case, Cfg, CfgDefect};
use crate::grammar::Op;
use crate::module::{Function, Id, Inst, InstRef};
use crate::spv::StorageClass;

impl Verifier<'_> {
    /// Checks the blocks of a function.
    pub(super) fn blocks(&mut self, function: &Function, cfg: &Cfg) {
        for p in cfg.problems() {
            let check = match p.defect {
                CfgDefect::NoTerminator(_) => 5,
                // Check 1 reports ids that are defined twice.
                CfgDefect::SameLabel(_) => continue,
                _ => 8,
            };
            self.problem(check, p.at, p.defect);
        }
        for (b, block) in function.blocks.iter().enumerate() {
            if let Some(d) = cfg.idom(b).filter(|d| *d > b) {
                let label = cfg.label(d).map_or_else(String::new, |l| format!(" {l}"));
                self.problem(8, block.label, format_args!("the block stands before{label}, which dominates it"));
            }
            self.order_in(b, &block.insts);
            self.merges(&block.insts);
            for &r in &block.insts {
                let inst = self.module.inst(r);
                if inst.op == Op::Phi {
                    self.phi(r, inst, b, cfg);
                }
            }
        }
    }

    fn order_in(&mut self, block: usize, insts: &[InstRef]) {
        let (mut phis_over, mut variables_over) = (false, false);
        for &r in insts {
            let inst = self.module.inst(r);
            match inst.op {
                Op::Phi => {
                    if phis_over {
                        self.problem(6, r, "it does not stand at the start of its block");
                    }
                    variables_over = true;
                }
                Op::Variable | Op::UntypedVariableKHR => {
                    if block != 0 {
                        self.problem(6, r, "it is not in the entry block");
                    } else if variables_over {
                        self.problem(6, r, "it does not stand at the start of the entry block");
                    }
                    let storage = StorageClass::Function.0;
                    if inst.word(0).is_some_and(|s| s != storage) {
                        self.problem(11, r, "a variable in a function must have the storage class Function");
                    }
                    phis_over = true;
                }
                _ if self.is_aside(inst) => {}
                _ => (phis_over, variables_over) = (true, true),
            }
        }
    }

    fn merges(&mut self, insts: &[InstRef]) {
        let module = self.module;
        for (i, &r) in insts.iter().enumerate() {
            let op = module.inst(r).op;
            if !matches!(op, Op::SelectionMerge | Op::LoopMerge) {
                continue;
            }
            let next = insts[i + 1..].iter().map(|n| module.inst(*n).op).find(|n| !n.is_line());
            let fits = match next {
                Some(Op::BranchConditional) => true,
                Some(Op::Branch) => op == Op::LoopMerge,
                Some(Op::Switch) => op == Op::SelectionMerge,
                // A branch beyond the grammar.
                Some(n) => n.info().is_none(),
                None => false,
            };
            if !fits {
                self.problem(8, r, "no branch that it could be about follows it");
            }
        }
    }

    fn phi(&mut self, r: InstRef, inst: &Inst, block: usize, cfg: &Cfg) {
        let predecessors = cfg.predecessors(block);
        let mut seen = vec![false; predecessors.len()];
        for pair in inst.operands.chunks(2) {
            let parent: Option<Id> = pair.get(1).and_then(|o| o.id());
            let Some(parent) = parent else { continue };
            match cfg.block(parent).and_then(|p| predecessors.binary_search(&p).ok()) {
                Some(i) if std::mem::replace(&mut seen[i], true) => {
                    self.problem(7, r, format_args!("it has two values for the predecessor {parent}"));
                }
                Some(_) => {}
                None => self.problem(7, r, format_args!("{parent} is not a predecessor of its block")),
            }
        }
        for (&p, _) in predecessors.iter().zip(seen).filter(|(_, seen)| !seen) {
            // What is only a possible edge needs no value.
            if cfg.edges(p).iter().any(|e| e.to == block && e.case != Case::Possible) {
                let label = cfg.label(p).map_or_else(|| "without a label".to_owned(), |l| l.to_string());
                self.problem(7, r, format_args!("it has no value for the predecessor {label}"));
            }
        }
    }
}
