//! Checks in one pass whether a module that was read is well-formed. Nearly all modules are. If this pass is not sure,
//! the numbered checks find the problems, if there are any.
//!
//! It also checks its own assumptions: each instruction is listed once, in the order of the arena, so that the position
//! there decides whether it stands before another; and the module's table has the right definitions of ids. Everything
//! that needs more than an instruction and the definitions of its operands, such as opaque instructions, is left to the
//! numbered checks. The checks of the types of values, 13 and 16, are not included.

use super::globals::is_global_only;
use super::ids::refers_forward;
use crate::cfg::Cfg;
use crate::effects::ExtSet;
use crate::grammar::Op;
use crate::module::{Function, Id, IdSet, Inst, InstRef, Module};
use crate::section::Section;
use crate::spv::StorageClass;
use crate::uses::is_note;

/// Returns the graphs of all functions, if checks 1 to 8, 11, 12, 14, 15 and 17 certainly find nothing.
pub(super) fn fine(module: &Module) -> Option<Vec<Cfg>> {
    let first = module.functions.first().map_or(module.arena_len(), |f| f.insts().next().map_or(0, InstRef::index));
    let mut walk = Walk {
        module,
        at: 0,
        body: first,
        types: IdSet::default(),
        entries: Vec::new(),
        forward: Vec::new(),
        asides: Vec::new(),
        block_of: Vec::new(),
        graphs: Vec::with_capacity(module.functions.len()),
    };
    walk.module()?;
    Some(walk.graphs)
}

/// The checks; `None` ends them without a verdict.
struct Walk<'a> {
    module: &'a Module,
    /// The number of instructions so far.
    at: usize,
    /// The position of the first function.
    body: usize,
    /// The types so far.
    types: IdSet,
    /// The functions of entry points.
    entries: Vec<Id>,
    /// The ids of `OpTypeForwardPointer`.
    forward: Vec<Id>,
    /// The instruction sets that are not executed.
    asides: Vec<Id>,
    /// The block of each position, from the function's first on.
    block_of: Vec<u32>,
    /// The graphs of the functions so far.
    graphs: Vec<Cfg>,
}

/// A function's body.
struct Body<'a> {
    cfg: &'a Cfg,
    /// The positions of its first instruction, of the first in its first block, and of the first after its blocks.
    start: usize,
    blocks: usize,
    end: usize,
}

fn some(yes: bool) -> Option<()> {
    yes.then_some(())
}

impl<'a> Walk<'a> {
    fn module(&mut self) -> Option<()> {
        let module = self.module;
        let mut last = Section::Capability;
        let mut models = 0;
        for &r in &module.globals {
            let inst = self.enter(r)?;
            models += usize::from(inst.op == Op::MemoryModel);
            if !inst.op.is_line() {
                let section = Section::of(inst.op)?;
                some(section >= last)?;
                last = section;
            }
            self.global(inst)?;
            if let Some(id) = inst.result.filter(|_| inst.op.is_type()) {
                self.types.insert(id);
            }
            self.at += 1;
        }
        some(models == 1)?;
        for f in &module.functions {
            self.function(f)?;
        }
        for &r in &module.trailing {
            self.aside(r)?;
        }
        Some(())
    }

    /// Moves to the next instruction, if it is where it must be.
    #[inline(always)]
    fn enter(&self, r: InstRef) -> Option<&'a Inst> {
        let inst = self.module.inst(r);
        some(r.index() == self.at && !inst.opaque)?;
        if let Some(id) = inst.result {
            some(self.module.def(id) == Some(r))?;
        }
        Some(inst)
    }

    /// Moves to the next instruction, a source position.
    fn aside(&mut self, r: InstRef) -> Option<()> {
        let inst = self.enter(r)?;
        some(inst.op.is_line())?;
        self.global_uses(inst)?;
        self.at += 1;
        Some(())
    }

    fn is_aside(&self, inst: &Inst) -> bool {
        inst.op.is_line() || inst.op == Op::ExtInst && inst.id(0).is_some_and(|set| self.asides.contains(&set))
    }

    fn def(&self, id: Id) -> Option<&'a Inst> {
        self.module.def_inst(id)
    }

    fn is_type(&self, id: Id) -> Option<()> {
        some(self.def(id)?.op.is_type())
    }

    fn global(&mut self, inst: &'a Inst) -> Option<()> {
        self.global_uses(inst)?;
        match inst.op {
            Op::ExtInstImport => {
                let id = inst.result?;
                if ExtSet::named(&inst.string(0)?.0) == ExtSet::Note {
                    self.asides.push(id);
                }
                Some(())
            }
            Op::TypeInt => some(inst.word(1)? <= 1),
            Op::TypePointer => inst.ids_from(1).try_for_each(|t| self.is_type(t)),
            Op::TypeStruct | Op::TypeFunction => inst.ids().try_for_each(|t| self.is_type(t)),
            Op::TypeArray
            | Op::TypeRuntimeArray
            | Op::TypeVector
            | Op::TypeCooperativeMatrixKHR
            | Op::TypeCooperativeMatrixNV => self.is_type(inst.id(0)?),
            Op::TypeMatrix => some(self.def(inst.id(0)?)?.op == Op::TypeVector),
            Op::ExecutionMode | Op::ExecutionModeId => some(self.entries.contains(&inst.id(0)?)),
            Op::TypeForwardPointer => {
                let pointer =
                    |id: Id| matches!(self.def(id)?.op, Op::TypePointer | Op::TypeUntypedPointerKHR).then_some(());
                inst.ids().try_for_each(pointer)?;
                self.forward.extend(inst.ids());
                Some(())
            }
            Op::Variable => some(inst.word(0) != Some(StorageClass::Function.0)),
            Op::EntryPoint => self.entry_point(inst),
            _ => Some(()),
        }
    }

    fn entry_point(&mut self, inst: &Inst) -> Option<()> {
        some(self.def(inst.id(1)?)?.op == Op::Function)?;
        self.entries.push(inst.id(1)?);
        let (_, first) = inst.string(2)?;
        let mut interface = Vec::with_capacity(inst.operands.len());
        for o in inst.operands.get(first..)? {
            let def = self.module.def(o.id()?)?;
            some(matches!(self.module.inst(def).op, Op::Variable | Op::UntypedVariableKHR) && def.index() < self.body)?;
            interface.push(def);
        }
        interface.sort_unstable();
        some(self.module.header.version < 0x0001_0400 || interface.windows(2).all(|w| w[0] != w[1]))
    }

    /// Checks the ids that an instruction outside functions uses.
    fn global_uses(&self, inst: &Inst) -> Option<()> {
        if let Some(ty) = inst.ty {
            some(self.types.contains(ty))?;
        }
        for id in inst.ids() {
            let def = self.module.def(id)?;
            let forward = || {
                is_note(inst.op)
                    || self.module.inst(def).op == Op::Function
                    || def.index() < self.body
                        && (refers_forward(inst.op) || self.forward.contains(&id) && inst.op.is_type())
            };
            some(def.index() < self.at || forward())?;
        }
        Some(())
    }

    fn function(&mut self, f: &Function) -> Option<()> {
        let module = self.module;
        for &r in &f.lead {
            self.aside(r)?;
        }
        let start = self.at;
        let def = self.enter(f.def)?;
        some(def.op == Op::Function)?;
        self.global_uses(def)?;
        some(module.inst(module.def(def.id(1)?)?).op == Op::TypeFunction)?;
        self.at += 1;
        for &r in &f.params {
            let inst = self.enter(r)?;
            some(inst.op == Op::FunctionParameter || inst.op.is_line())?;
            self.global_uses(inst)?;
            self.at += 1;
        }
        let cfg = Cfg::new(module, f);
        some(cfg.problems().is_empty())?;
        let count: usize = f.blocks.iter().map(|b| b.lead.len() + 1 + b.insts.len()).sum();
        let body = Body { cfg: &cfg, start, blocks: self.at, end: self.at + count };
        self.block_of.clear();
        for (b, block) in f.blocks.iter().enumerate() {
            let len = self.block_of.len() + block.lead.len() + 1 + block.insts.len();
            self.block_of.resize(len, b as u32);
        }
        for (b, block) in f.blocks.iter().enumerate() {
            for &r in &block.lead {
                let inst = self.enter(r)?;
                some(self.is_aside(inst))?;
                self.result_type(inst)?;
                self.uses(inst, 0, b, &body)?;
                self.at += 1;
            }
            some(self.enter(block.label)?.op == Op::Label)?;
            self.at += 1;
            some(cfg.idom(b).is_none_or(|d| d < b))?;
            self.block(b, &block.insts, &body)?;
        }
        let (last, before) = f.tail.split_last()?;
        for &r in before {
            let inst = self.enter(r)?;
            some(self.is_aside(inst))?;
            some(inst.ids().all(|id| module.def(id).is_some_and(|d| d.index() < self.body)))?;
            self.global_uses(inst)?;
            self.at += 1;
        }
        some(self.enter(*last)?.op == Op::FunctionEnd)?;
        self.at += 1;
        self.graphs.push(cfg);
        Some(())
    }

    fn block(&mut self, b: usize, insts: &[InstRef], body: &Body) -> Option<()> {
        let (mut phis_over, mut variables_over) = (false, false);
        let begin = self.at;
        for (i, &r) in insts.iter().enumerate() {
            let inst = self.enter(r)?;
            let last = i + 1 == insts.len();
            match inst.op {
                Op::Phi => {
                    some(!phis_over)?;
                    variables_over = true;
                    self.phi(inst, b, body)?;
                    self.at += 1;
                    continue;
                }
                Op::Variable | Op::UntypedVariableKHR => {
                    some(b == 0 && !variables_over && inst.word(0)? == StorageClass::Function.0)?;
                    phis_over = true;
                }
                Op::Branch => {
                    // Targets are labels of the function: otherwise the graph has a problem.
                    some(last)?;
                    self.at += 1;
                    continue;
                }
                Op::BranchConditional | Op::Switch => {
                    some(last)?;
                    self.use_of(inst.id(0)?, begin, b, body)?;
                    self.at += 1;
                    continue;
                }
                Op::SelectionMerge | Op::LoopMerge => {
                    let mut rest = insts[i + 1..].iter().map(|n| self.module.inst(*n).op).filter(|op| !op.is_line());
                    some(match rest.next()? {
                        Op::BranchConditional => true,
                        Op::Branch => inst.op == Op::LoopMerge,
                        Op::Switch => inst.op == Op::SelectionMerge,
                        _ => false,
                    })?;
                    (phis_over, variables_over) = (true, true);
                    self.at += 1;
                    continue;
                }
                Op::Label | Op::Function | Op::FunctionParameter | Op::FunctionEnd => return None,
                op if op.is_terminator() => some(last)?,
                op if self.is_aside(inst) || op.is_line() => {}
                op => {
                    some(!is_global_only(op))?;
                    (phis_over, variables_over) = (true, true);
                }
            }
            self.result_type(inst)?;
            self.uses(inst, begin, b, body)?;
            self.at += 1;
        }
        Some(())
    }

    /// Checks the result type of an instruction in a function.
    fn result_type(&self, inst: &Inst) -> Option<()> {
        some(inst.ty.is_none_or(|ty| self.types.contains(ty)))
    }

    fn uses(&self, inst: &Inst, begin: usize, b: usize, body: &Body) -> Option<()> {
        inst.ids().try_for_each(|id| self.use_of(id, begin, b, body))
    }

    /// Checks a use in a block whose instructions begin at a position.
    fn use_of(&self, id: Id, begin: usize, b: usize, body: &Body) -> Option<()> {
        let def = self.module.def(id)?.index();
        // Globals, and what stands before it in the block.
        if def < self.body || begin > 0 && (begin..self.at).contains(&def) {
            return Some(());
        }
        self.value_of(id, def, body, |from| body.cfg.dominates(from, b) && (from != b || def < self.at))
    }

    /// Checks the use of a value from elsewhere in the function, if the block that defines it `fits`, or of a function.
    fn value_of(&self, id: Id, def: usize, body: &Body, fits: impl Fn(usize) -> bool) -> Option<()> {
        let op = self.def(id)?.op;
        if op == Op::Function {
            return Some(());
        }
        some((body.start..body.end).contains(&def) && op != Op::Label)?;
        // Parameters are there from the start.
        some(def < body.blocks || fits(self.block_of[def - body.blocks] as usize))
    }

    fn phi(&self, inst: &Inst, b: usize, body: &Body) -> Option<()> {
        self.result_type(inst)?;
        let predecessors = body.cfg.predecessors(b);
        some(predecessors.len() <= 64 && inst.operands.len() == 2 * predecessors.len())?;
        let mut seen = 0u64;
        for pair in inst.operands.chunks_exact(2) {
            let parent = body.cfg.block(pair[1].id()?)?;
            let bit = 1 << predecessors.binary_search(&parent).ok()?;
            some(seen & bit == 0)?;
            seen |= bit;
            let id = pair[0].id()?;
            let def = self.module.def(id)?.index();
            if def >= self.body {
                self.value_of(id, def, body, |from| body.cfg.dominates(from, parent))?;
            }
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::fine;
    use crate::binary::read;
    use std::path::Path;

    /// The output of compilers passes the quick check.
    #[test]
    fn kernels_are_fine_at_once() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata/kernels");
        let files = std::fs::read_dir(&folder).expect("it is there").map(|f| f.expect("it can be read").path());
        let modules: Vec<_> = files.filter(|p| p.extension().is_some_and(|e| e == "spv")).collect();
        assert!(modules.len() > 20);
        for path in modules {
            let bytes = std::fs::read(&path).expect("it can be read");
            assert!(fine(&read(&bytes).expect("a module")).is_some(), "{}", path.display());
        }
    }
}
