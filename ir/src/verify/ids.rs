//! Checks 1 to 4: ids, their definitions and uses.

use super::{DefKind, NOWHERE, Position, Verifier};
use crate::cfg::Cfg;
use crate::grammar::Op;
use crate::hash::FxHashSet;
use crate::module::{Function, Id, InstRef, Operand};
use crate::uses::is_note;

/// The position of the walk over the module.
#[derive(Clone, Copy)]
struct Here {
    at: u32,
    function: Option<u32>,
    block: Option<u32>,
}

impl Verifier<'_> {
    /// Records the positions of instructions, and the ids that those with unknown opcodes may define.
    pub(super) fn index(&mut self) {
        let mut listed = vec![false; self.module.arena_len()];
        let mut doubles = Vec::new();
        self.walk(|v, here, r| {
            if std::mem::replace(&mut listed[r.index()], true) {
                doubles.push(r);
                return;
            }
            let inst = v.module.inst(r);
            // The grammar says what others define.
            if inst.op.info().is_none() {
                let function = here.function.unwrap_or(NOWHERE);
                for id in inst.operands.iter().filter_map(|o| Id::new(o.word())) {
                    let known = v.maybe.entry(id).or_insert(function);
                    *known = if *known == function { function } else { NOWHERE };
                }
            }
            let Some(id) = inst.result else { return };
            // A function can be used anywhere.
            let function = here.function.filter(|_| inst.op != Op::Function);
            let place = Position::new(inst.op, here.at, function, here.block);
            if v.places.get(id).is_some() {
                v.problem(1, r, format_args!("{id} is defined twice"));
            } else {
                v.places.insert(id, place);
                if v.module.def(id) != Some(r) {
                    v.problem(1, r, format_args!("the module's table of definitions has another one for {id}"));
                }
            }
        });
        for r in doubles {
            self.problem(1, r, "it is listed twice");
        }
    }

    /// Visits every listed instruction in file order.
    fn walk(&mut self, mut visit: impl FnMut(&mut Self, Here, InstRef)) {
        let module = self.module;
        let mut here = Here { at: 0, function: None, block: None };
        let mut go = |here: &mut Here, r: InstRef| {
            visit(self, *here, r);
            here.at += 1;
        };
        module.globals.iter().for_each(|r| go(&mut here, *r));
        for (i, f) in module.functions.iter().enumerate() {
            let Function { lead, def, params, blocks, tail } = f;
            lead.iter().for_each(|r| go(&mut here, *r));
            here.function = Some(i as u32);
            go(&mut here, *def);
            params.iter().for_each(|r| go(&mut here, *r));
            for (b, block) in blocks.iter().enumerate() {
                here.block = Some(b as u32);
                block.all().for_each(|r| go(&mut here, r));
            }
            here.block = None;
            tail.iter().for_each(|r| go(&mut here, *r));
            here.function = None;
        }
        module.trailing.iter().for_each(|r| go(&mut here, *r));
    }

    /// Checks every use of an id.
    pub(super) fn uses(&mut self, cfgs: &[Cfg]) {
        let mut forward = FxHashSet::default();
        self.walk(|v, here, r| {
            let inst = v.module.inst(r);
            if inst.op == Op::TypeForwardPointer {
                forward.extend(inst.ids());
            }
            if let Some(ty) = inst.ty {
                v.one_use(here, r, None, ty, &forward, cfgs);
            }
            for (i, o) in inst.operands.iter().enumerate() {
                if let Operand::Id(id) = *o {
                    v.one_use(here, r, Some(i), id, &forward, cfgs);
                }
            }
        });
    }

    fn one_use(
        &mut self,
        here: Here,
        r: InstRef,
        operand: Option<usize>,
        id: Id,
        forward: &FxHashSet<Id>,
        cfgs: &[Cfg],
    ) {
        let inst = self.module.inst(r);
        let Some(&def) = self.places.get(id) else {
            let reaches = |f: u32| f == NOWHERE || Some(f) == here.function || is_note(inst.op);
            if !self.maybe.get(&id).is_some_and(|f| reaches(*f)) {
                self.problem(2, r, format_args!("{id} is not defined"));
            }
            return;
        };
        if def.what == DefKind::Function {
            return;
        }
        let Some(function) = def.function() else {
            if here.function.is_some() || def.at < here.at {
                return;
            }
            let declared = forward.contains(&id) && (inst.op.is_type() || inst.op == Op::TypeForwardPointer);
            if !is_note(inst.op) && !declared && !refers_forward(inst.op) {
                self.problem(3, r, format_args!("{id} is defined only after it"));
            }
            return;
        };
        if is_note(inst.op) {
            return;
        }
        if here.function != Some(function) {
            let whose = self.module.inst(self.module.functions[function as usize].def).result;
            let whose = whose.map_or_else(|| "another function".to_owned(), |f| format!("the function {f}"));
            self.problem(4, r, format_args!("{id} belongs to {whose}"));
            return;
        }
        if def.what == DefKind::Label {
            let names_labels = match (inst.op, operand) {
                (Op::Branch | Op::LoopMerge | Op::SelectionMerge, _) => true,
                (Op::BranchConditional | Op::Switch, Some(i)) => i > 0,
                (Op::Phi, Some(i)) => i % 2 == 1,
                _ => inst.opaque || self.is_aside(inst),
            };
            if !names_labels {
                self.problem(8, r, format_args!("its operand {id} is a label"));
            }
            return;
        }
        // Parameters are there from the start.
        let Some(def_block) = def.block() else { return };
        let cfg = &cfgs[function as usize];
        let fine = match (inst.op, operand) {
            (Op::Phi, Some(i)) => match inst.id(i + 1).and_then(|p| cfg.block(p)) {
                Some(parent) => cfg.dominates(def_block as usize, parent),
                // Check 7 reports a parent that does not exist.
                None => true,
            },
            _ => match here.block {
                Some(b) if b == def_block => def.at < here.at,
                Some(b) => cfg.dominates(def_block as usize, b as usize),
                None => false,
            },
        };
        if !fine {
            self.problem(4, r, format_args!("{id} does not dominate this use"));
        }
    }
}

/// Returns true if an instruction outside functions may refer to what follows it.
pub(super) fn refers_forward(op: Op) -> bool {
    matches!(
        op,
        Op::EntryPoint
            | Op::ConditionalEntryPointINTEL
            | Op::ConditionalCapabilityINTEL
            | Op::ConditionalExtensionINTEL
            | Op::ExecutionMode
            | Op::ExecutionModeId
            | Op::TypeForwardPointer
            | Op::GraphEntryPointARM
            | Op::ExtInstWithForwardRefsKHR
    )
}
