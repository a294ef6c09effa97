//! The instructions of a module that decide its control flow.
//!
//! This is the backward slice from every branch condition and selector: the instructions that compute them, and whatever
//! writes the memory that those read. Memory is told apart by variable; memory behind addresses is one. Two variables
//! with the same binding count as different memory.
//!
//! Invariant: every block, merge instruction, call and barrier of the module remains, at the same [`InstRef`], so that a
//! run of the slice executes the same blocks as a run of the module, as often.

use coop_ir::effects::{ExtSets, Written};
use coop_ir::hash::{FxHashMap, FxHashSet};
use coop_ir::types::Type;
use coop_ir::{Id, Inst, InstRef, Module, Op, pointers, rewrite};

/// Memory that the slice tells apart from other memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Place {
    Variable(Id),
    /// All memory behind addresses.
    Other,
}

/// Returns a module with the instructions of `module` that decide its control flow, and no others.
pub(super) fn control_slice(module: &Module) -> Module {
    let mut slicer = Slicer::new(module);
    slicer.run();
    let live = slicer.live;
    let used: FxHashSet<Id> = live.iter().flat_map(|at| module.inst(*at).ids()).collect();
    let mut out = module.clone();
    let mut gone: FxHashSet<InstRef> = FxHashSet::default();
    let blocks = module.functions.iter().flat_map(|function| &function.blocks);
    for at in blocks.flat_map(|block| &block.insts).filter(|at| !live.contains(at)) {
        let inst = module.inst(*at);
        // Calls still pass, and functions return, values that no control flow depends on.
        if inst.result.is_some_and(|id| used.contains(&id)) {
            out.replace(*at, Inst::new(Op::Undef, inst.ty, inst.result, []));
        } else {
            gone.insert(*at);
        }
    }
    rewrite::remove_from_functions(&mut out, &gone);
    rewrite::remove_dangling_notes(&mut out);
    out
}

struct Slicer<'m> {
    module: &'m Module,
    live: FxHashSet<InstRef>,
    needed: FxHashSet<Id>,
    work: Vec<Id>,
    /// The instructions that may write each place.
    writers: FxHashMap<Place, Vec<InstRef>>,
    /// The calls of each function.
    calls: FxHashMap<Id, Vec<InstRef>>,
    /// The function and the number of each parameter.
    parameters: FxHashMap<Id, (Id, usize)>,
    /// The values that each function returns.
    returned: FxHashMap<Id, Vec<Id>>,
}

impl<'m> Slicer<'m> {
    fn new(module: &'m Module) -> Slicer<'m> {
        let mut slicer = Slicer {
            module,
            live: FxHashSet::default(),
            needed: FxHashSet::default(),
            work: Vec::new(),
            writers: FxHashMap::default(),
            calls: FxHashMap::default(),
            parameters: FxHashMap::default(),
            returned: FxHashMap::default(),
        };
        for function in &module.functions {
            let Some(name) = module.inst(function.def).result else { continue };
            let parameters = function.params.iter().filter_map(|at| module.inst(*at).result);
            slicer.parameters.extend(parameters.enumerate().map(|(number, id)| (id, (name, number))));
            for inst in function.insts() {
                if let Some(callee) = called(module.inst(inst)) {
                    slicer.calls.entry(callee).or_default().push(inst);
                }
                slicer.returned.entry(name).or_default().extend(module.inst(inst).returned());
            }
        }
        slicer
    }

    fn run(&mut self) {
        let sets = ExtSets::new(self.module);
        let blocks = self.module.functions.iter().flat_map(|function| &function.blocks);
        for at in blocks.flat_map(|block| &block.insts) {
            let inst = self.module.inst(*at);
            match sets.written(self.module, inst) {
                Written::Through(pointer) => {
                    let mut places = Vec::new();
                    self.places(pointer, &mut FxHashSet::default(), &mut places);
                    places.into_iter().for_each(|place| self.writers.entry(place).or_default().push(*at));
                }
                Written::Anything => self.keep(*at),
                Written::Nothing | Written::Image | Written::Output => {}
            }
            let barrier = inst.op.is_control_barrier() || inst.op == Op::MemoryBarrier;
            if inst.op == Op::Variable || called(inst).is_some() || inst.returned().is_some() {
                self.live.insert(*at);
            } else if inst.op.is_terminator() || inst.op.is_merge() || barrier {
                self.keep(*at);
            }
        }
        while let Some(id) = self.work.pop() {
            self.supply(id);
        }
    }

    /// Appends the places that a pointer may point to.
    fn places(&self, pointer: Id, seen: &mut FxHashSet<Id>, places: &mut Vec<Place>) {
        let Some(root) = pointers::root(self.module, pointer, Op::derives_pointer) else { return };
        if !seen.insert(root) {
            return;
        }
        if let Some((function, number)) = self.parameters.get(&root) {
            for call in self.calls.get(function).into_iter().flatten() {
                let argument = self.module.inst(*call).ids_from(1).nth(*number);
                argument.into_iter().for_each(|id| self.places(id, seen, places));
            }
        } else {
            let variable = self.module.def_inst(root).is_some_and(|inst| inst.op.is_variable());
            places.push(if variable { Place::Variable(root) } else { Place::Other });
        }
    }

    /// Keeps an instruction with what it needs.
    fn keep(&mut self, at: InstRef) {
        if self.live.insert(at) {
            self.module.inst(at).ids().for_each(|id| self.need(id));
        }
    }

    fn need(&mut self, id: Id) {
        if self.needed.insert(id) {
            self.work.push(id);
        }
    }

    /// Keeps what a value that is needed depends on.
    fn supply(&mut self, id: Id) {
        let module = self.module;
        let Some(at) = module.def(id) else { return };
        let inst = module.inst(at);
        if let Some((function, number)) = self.parameters.get(&id).copied() {
            let calls = self.calls.get(&function).cloned().unwrap_or_default();
            calls.iter().filter_map(|call| module.inst(*call).ids_from(1).nth(number)).for_each(|id| self.need(id));
        } else if let Some(callee) = called(inst) {
            self.need_returned(callee);
        } else if inst.op == Op::Function {
            // An instruction that is kept calls it back.
            self.need_returned(id);
        } else if inst.op.is_variable() {
            self.read(Place::Variable(id));
        } else if inst.op != Op::Label {
            self.keep(at);
            let ty = inst.ty.and_then(|ty| Type::of(module, ty));
            let is_pointer = matches!(ty, Some(Type::Pointer { .. } | Type::UntypedPointer { .. }));
            if is_pointer && !inst.op.derives_pointer() {
                self.read(Place::Other);
            }
        }
    }

    fn need_returned(&mut self, function: Id) {
        self.returned.get(&function).cloned().into_iter().flatten().for_each(|id| self.need(id));
    }

    /// Keeps what writes a place.
    fn read(&mut self, place: Place) {
        self.writers.remove(&place).into_iter().flatten().for_each(|at| self.keep(at));
    }
}

/// Returns the function that a call calls.
pub(super) fn called(inst: &Inst) -> Option<Id> {
    inst.callee().filter(|_| inst.op == Op::FunctionCall)
}
