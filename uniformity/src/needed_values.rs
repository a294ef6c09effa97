//! Finds the values that the analysis needs: conditions of branches, operands that must be uniform, and the values from
//! which those are computed (a backward slice). Most of what a shader computes needs no nodes.
//!
//! The answer is for the whole module, not for each call. In doubt it has too many ids; a needed value without a node
//! would count as divergent. The set of needed ids has these properties:
//!
//! 1. With a value, it has the values from which that is computed: its operands, for the result of a call the values
//!    that the callee returns, for a parameter the arguments of all calls.
//! 2. With a load, the contents of the variable (or of what the parameter points to) are needed: every value that is
//!    stored there, and every pointer through which one is stored, also in functions to which the pointer is passed. An
//!    address alone needs no contents.

use super::inst_flags::InstFlags;
use super::instructions::uniform_operands;
use super::memory::root;
use crate::leaves::LeafLayouts;
use coop_ir::entry::CallGraph;
use coop_ir::grammar::Op;
use coop_ir::hash::FxHashMap;
use coop_ir::pointers;
use coop_ir::{Id, IdIndex, IdSet, IdTable, Inst, InstRef, Module};

/// The data from which the set is found.
struct Slicer<'a> {
    module: &'a Module,
    calls: &'a CallGraph,
    layouts: &'a LeafLayouts,
    marks: &'a InstFlags,
    needed: IdSet,
    work: Vec<Id>,
    /// Variables and parameters whose contents are needed.
    contents: IdSet,
    /// The ids to visit.
    read: Vec<Id>,
    /// The instructions that write through a pointer or pass it on, and for each the previous one for the same variable
    /// or parameter, counted from 1.
    touches: Vec<(InstRef, u32)>,
    /// The last of those, by variable or parameter.
    touched: IdIndex,
    /// The function and the index of each parameter.
    params: IdTable<(u32, u32)>,
    /// The calls of each function.
    called: FxHashMap<usize, Vec<InstRef>>,
}

/// Returns the needed ids of a module.
pub(super) fn needed(module: &Module, calls: &CallGraph, layouts: &LeafLayouts, marks: &InstFlags) -> IdSet {
    let mut this = Slicer {
        module,
        calls,
        layouts,
        marks,
        needed: IdSet::default(),
        work: Vec::new(),
        contents: IdSet::default(),
        read: Vec::new(),
        touches: Vec::new(),
        touched: IdIndex::new(module),
        params: IdTable::new(module),
        called: FxHashMap::default(),
    };
    this.look();
    loop {
        if let Some(id) = this.work.pop() {
            this.close(id);
        } else if let Some(root) = this.read.pop() {
            this.fill(root);
        } else {
            break;
        }
    }
    this.needed
}

impl<'a> Slicer<'a> {
    fn want(&mut self, id: Id) {
        if self.needed.insert(id) {
            self.work.push(id);
        }
    }

    fn want_all(&mut self, inst: &'a Inst) {
        inst.ids().for_each(|id| self.want(id));
    }

    fn is_pointer(&self, id: Id) -> bool {
        self.module.type_of(id).is_some_and(|t| self.layouts.storage(t).is_some())
    }

    /// Finds the values that are needed from the start, and the instructions that access each variable.
    fn look(&mut self) {
        let module = self.module;
        for (f, function) in module.functions.iter().enumerate() {
            let params = function.params.iter().map(|r| module.inst(*r)).filter(|i| i.op == Op::FunctionParameter);
            for (i, id) in params.enumerate().filter_map(|(i, p)| Some((i, p.result?))) {
                self.params.insert(id, (f as u32, i as u32));
            }
        }
        module.in_blocks(|r, inst| {
            match inst.op {
                Op::BranchConditional | Op::Switch => inst.branch_condition().into_iter().for_each(|id| self.want(id)),
                Op::Store => self.touch(r, inst.accessed()),
                Op::CopyMemorySized => self.touch(r, inst.copied().map(|(to, _)| to)),
                Op::CopyMemory => {
                    let (to, from) = inst.copied().unzip();
                    self.touch(r, to);
                    self.touch(r, from);
                }
                Op::FunctionCall => {
                    let callee = inst.callee().and_then(|id| self.calls.function(id));
                    callee.into_iter().for_each(|f| self.called.entry(f).or_default().push(r));
                    inst.ids_from(1).for_each(|id| self.touch_pointer(r, id));
                }
                Op::ExtInst | Op::ExtInstWithForwardRefsKHR => {
                    inst.ids_from(2).for_each(|id| self.touch_pointer(r, id));
                }
                _ => {}
            }
            if self.marks.has_matrix(r) {
                for i in uniform_operands(inst) {
                    inst.id(i as usize).into_iter().for_each(|id| self.want(id));
                }
            }
        });
    }

    fn touch_pointer(&mut self, at: InstRef, id: Id) {
        if self.is_pointer(id) {
            self.touch(at, Some(id));
        }
    }

    fn touch(&mut self, at: InstRef, pointer: Option<Id>) {
        if let Some(root) = pointer.and_then(|id| self.root(id)) {
            let before = self.touched.get(root).unwrap_or(0);
            self.touches.push((at, before));
            self.touched.insert(root, self.touches.len() as u32);
        }
    }

    /// Returns the variable or parameter that a pointer leads into.
    fn root(&self, pointer: Id) -> Option<Id> {
        let id = pointers::root(self.module, pointer, |op| op.is_member_chain() || op == Op::CopyObject)?;
        if self.params.get(id).is_some() { Some(id) } else { root(self.module, id) }
    }

    /// Adds the contents behind a pointer.
    fn need_contents(&mut self, pointer: Id) {
        if let Some(root) = self.root(pointer)
            && self.contents.insert(root)
        {
            self.want(root);
            self.read.push(root);
        }
    }

    /// Adds all values that are written to a variable, or to what a parameter points to.
    fn fill(&mut self, root: Id) {
        let module = self.module;
        let mut next = self.touched.get(root).unwrap_or(0);
        while let Some(&(at, before)) = (next as usize).checked_sub(1).and_then(|i| self.touches.get(i)) {
            next = before;
            let inst = module.inst(at);
            match inst.op {
                Op::FunctionCall => self.passed(inst, root),
                Op::CopyMemory => {
                    self.want_all(inst);
                    inst.copied().into_iter().for_each(|(_, from)| self.need_contents(from));
                }
                _ => self.want_all(inst),
            }
        }
        for at in self.calls_of(root) {
            self.argument(module.inst(at), root).into_iter().for_each(|id| self.need_contents(id));
        }
    }

    /// Returns the calls of a parameter's function.
    fn calls_of(&self, param: Id) -> Vec<InstRef> {
        let function = self.params.get(param).map(|p| p.0 as usize);
        function.and_then(|f| self.called.get(&f)).cloned().unwrap_or_default()
    }

    /// Returns the argument of a call for a parameter.
    fn argument(&self, call: &Inst, param: Id) -> Option<Id> {
        call.ids_from(1).nth(self.params.get(param)?.1 as usize)
    }

    fn close(&mut self, id: Id) {
        let module = self.module;
        if self.params.get(id).is_some() {
            for at in self.calls_of(id) {
                self.argument(module.inst(at), id).into_iter().for_each(|id| self.want(id));
            }
            return;
        }
        let Some(inst) = module.def_inst(id) else { return };
        // Constants and types have nodes anyway, and need nothing else.
        if inst.op.is_type() || inst.op.is_constant() || matches!(inst.op, Op::Label | Op::Function) {
            return;
        }
        self.want_all(inst);
        match inst.op {
            Op::Load => inst.accessed().into_iter().for_each(|id| self.need_contents(id)),
            Op::FunctionCall => {
                let pointers: Vec<Id> = inst.ids_from(1).filter(|id| self.is_pointer(*id)).collect();
                pointers.into_iter().for_each(|id| self.need_contents(id));
                let callee = inst.callee().and_then(|id| self.calls.function(id));
                let blocks = callee.map_or(&[][..], |f| &module.functions[f].blocks);
                let ends = blocks.iter().filter_map(|b| b.insts.last()).map(|r| module.inst(*r));
                ends.filter(|i| i.op == Op::ReturnValue).for_each(|end| self.want_all(end));
            }
            Op::ExtInst | Op::ExtInstWithForwardRefsKHR => {
                let pointers: Vec<Id> = inst.ids_from(2).filter(|id| self.is_pointer(*id)).collect();
                pointers.into_iter().for_each(|id| self.need_contents(id));
            }
            _ => {}
        }
    }

    /// Handles a call that takes a pointer to needed contents.
    fn passed(&mut self, call: &'a Inst, variable: Id) {
        let callee = call.callee().and_then(|id| self.calls.function(id)).map(|f| &self.module.functions[f]);
        let params: Vec<Id> = callee
            .iter()
            .flat_map(|f| &f.params)
            .map(|r| self.module.inst(*r))
            .filter(|i| i.op == Op::FunctionParameter)
            .filter_map(|i| i.result)
            .collect();
        for (i, id) in call.ids_from(1).enumerate() {
            if self.is_pointer(id) && self.root(id) == Some(variable) {
                self.want(id);
                params.get(i).copied().into_iter().for_each(|p| self.need_contents(p));
            }
        }
    }
}
