//! Finds the matrices whose elements a module accesses one by one, such that it observes how often each is held.
//!
//! SPIR-V leaves open which invocation holds which element, and how many do. Devices hold each once, and matrices of one shape
//! in the same positions, whatever their use; programs rely on it: they add up the elements of factors, and make factors of accumulators, element by
//! element. A shape is *observed* where what is known of its elements (their values, their number, where they are) goes anywhere but back
//! into elements of matrices of the same type. What is only changed in place may be held many times: every copy changes in the same way.
//!
//! The analysis follows values through instructions and private variables, and decisions to what they decide: the blocks up to
//! where all paths reconverge.

use crate::kernel::through_matrix;
use crate::matrix::placement::Use;
use crate::ssa::is_debug;
use coop_ir::cfg::{Cfg, PostDoms};
use coop_ir::constant::{Constants, Specialization};
use coop_ir::grammar::{Class, Effects};
use coop_ir::hash::{FxHashMap, FxHashSet};
use coop_ir::pointers;
use coop_ir::spv::{CooperativeMatrixUse, StorageClass};
use coop_ir::types::{self, Type};
use coop_ir::{Id, Inst, InstRef, Module, Op};

/// The observed types.
#[derive(Default)]
pub(crate) struct Observed {
    /// The types that are observed, and those that are given elements of others.
    pub(crate) types: FxHashSet<Id>,
    /// From which types elements go to elements of which others.
    pub(crate) copies: FxHashSet<(Id, Id)>,
}

/// Returns those of the types `uses` that are observed.
pub(crate) fn observed(m: &Module, uses: &FxHashMap<Id, Use>) -> Observed {
    let mut out = Observed::default();
    for f in 0..m.functions.len() {
        if m.functions[f].insts().any(|r| accesses_elements(m, m.inst(r))) {
            let mut flow = Flow::new(m, uses, f);
            flow.run();
            out.types.extend(flow.observed.types);
            out.copies.extend(flow.observed.copies);
        }
    }
    out
}

/// Returns true if a module may look at single elements of factors.
pub(crate) fn accesses_factor_elements(m: &Module) -> bool {
    let constants = Constants::new(m, &Specialization::new());
    let factor = |ty: Id| {
        let ty = types::coop_mat(m, ty)?;
        Some(matches!(
            ty.view(m, &constants).use_.value_as(),
            Some(CooperativeMatrixUse::MatrixAKHR | CooperativeMatrixUse::MatrixBKHR)
        ))
    };
    m.functions.iter().flat_map(|f| f.insts()).map(|r| m.inst(r)).any(|inst| {
        let ty = match inst.op {
            op if op.is_member_chain() => through_matrix(m, inst).map(|(_, _, ty)| ty),
            Op::CompositeExtract | Op::CooperativeMatrixGetCoordinateEXT => inst.id(0).and_then(|id| m.type_of(id)),
            _ => None,
        };
        ty.and_then(factor) == Some(true)
    })
}

/// Returns true if an instruction is about single elements, or may lead to one that is.
fn accesses_elements(m: &Module, inst: &Inst) -> bool {
    match inst.op {
        op if op.is_member_chain() => through_matrix(m, inst).is_some(),
        Op::CompositeExtract | Op::CompositeInsert => inst.ids().any(|id| types::coop_mat_of(m, id).is_some()),
        Op::CooperativeMatrixGetCoordinateEXT | Op::CooperativeMatrixLengthKHR => true,
        _ => false,
    }
}

/// Types whose elements something was made of: a few, as a rule one.
type Sources = Vec<Id>;

struct Flow<'a> {
    m: &'a Module,
    uses: &'a FxHashMap<Id, Use>,
    f: usize,
    cfg: Cfg,
    post: PostDoms,
    /// The elements that each value depends on; for a pointer, those that the memory depends on.
    values: FxHashMap<Id, Sources>,
    /// Pointers to elements, and the types of the matrices.
    elements: FxHashMap<Id, Id>,
    /// The elements that decide whether a block is reached.
    blocks: Vec<Sources>,
    observed: Observed,
    changed: bool,
}

impl<'a> Flow<'a> {
    fn new(m: &'a Module, uses: &'a FxHashMap<Id, Use>, f: usize) -> Flow<'a> {
        let cfg = Cfg::new(m, &m.functions[f]);
        let post = PostDoms::new(&cfg);
        let blocks = vec![Sources::new(); cfg.len()];
        let (values, elements, observed) = (FxHashMap::default(), FxHashMap::default(), Observed::default());
        Flow { m, uses, f, cfg, post, values, elements, blocks, observed, changed: true }
    }

    fn run(&mut self) {
        // Lengths may be constants of the module.
        for r in self.m.globals_with(Op::SpecConstantOp) {
            let inst = self.m.inst(r);
            let length = inst.word(0) == Some(u32::from(Op::CooperativeMatrixLengthKHR.0));
            if let (true, Some(result), Some(ty)) = (length, inst.result, inst.id(1)) {
                self.make(result, &[ty]);
            }
        }
        while std::mem::take(&mut self.changed) {
            for (b, block) in self.m.functions[self.f].blocks.iter().enumerate() {
                for r in &block.insts {
                    self.inst(b, *r);
                }
            }
        }
    }

    /// The types whose elements a value depends on.
    fn of(&self, id: Id) -> &[Id] {
        self.values.get(&id).map_or(&[], Vec::as_slice)
    }

    fn make(&mut self, id: Id, sources: &[Id]) {
        for source in sources.iter().filter(|s| self.uses.contains_key(s)) {
            let known = self.values.entry(id).or_default();
            if !known.contains(source) {
                known.push(*source);
                self.changed = true;
            }
        }
    }

    fn observe(&mut self, sources: &[Id]) {
        self.observed.types.extend(sources.iter().copied());
    }

    /// The type of the matrix with elements of which an instruction does something.
    fn matrix(&self, id: Option<Id>) -> Option<Id> {
        let ty = self.m.type_of(id?)?;
        types::coop_mat(self.m, ty).map(|_| ty)
    }

    fn inst(&mut self, b: usize, r: InstRef) {
        let inst = self.m.inst(r);
        let mut given: Sources = Sources::new();
        for id in inst.ids() {
            given.extend_from_slice(self.of(id));
        }
        let decided = self.blocks[b].clone();
        match (inst.op, inst.result) {
            (Op::AccessChain | Op::InBoundsAccessChain, Some(result)) => {
                if let Some((_, _, ty)) = through_matrix(self.m, inst) {
                    self.elements.insert(result, ty);
                } else {
                    // Which place it is, and what is there.
                    self.make(result, &given);
                }
            }
            (Op::CompositeExtract, Some(result)) if self.matrix(inst.id(0)).is_some() => {
                let ty = self.matrix(inst.id(0));
                self.make(result, ty.as_slice());
            }
            (Op::CompositeInsert, Some(_)) if self.matrix(inst.id(1)).is_some() => {
                let Some(ty) = self.matrix(inst.id(1)) else { return };
                self.element(ty, inst.id(0));
            }
            (Op::CooperativeMatrixGetCoordinateEXT, Some(result)) => {
                let ty = self.matrix(inst.id(0));
                self.make(result, ty.as_slice());
            }
            (Op::CooperativeMatrixLengthKHR, Some(result)) => {
                let ty = inst.id(0).map(|id| self.m.type_of(id).unwrap_or(id));
                self.make(result, ty.as_slice());
            }
            (Op::Load, Some(result)) => {
                let element = inst.id(0).and_then(|p| self.elements.get(&p)).copied();
                let root = inst.id(0).and_then(|p| self.root(p));
                let there = root.map(|root| self.of(root).to_vec()).unwrap_or_default();
                self.make(result, element.as_slice());
                self.make(result, &given);
                self.make(result, &there);
            }
            (Op::Store, _) => self.store(inst, &given, &decided),
            (Op::Phi, Some(result)) => {
                self.make(result, &given);
                self.make(result, &decided);
            }
            (Op::BranchConditional | Op::Switch, _) => {
                let sources: Sources = inst.id(0).map(|id| self.of(id).to_vec()).unwrap_or_default();
                self.decide(b, &sources);
            }
            (Op::ReturnValue, _) => self.observe(&given),
            (Op::ExtInst, _) if is_debug(self.m, inst) => {}
            // What may be seen from outside, and what may do anything: groups of invocations add up what they are given.
            (op, None) if !op.is_terminator() && !is_invocation_local(op) => {
                self.observe(&given);
                self.observe(&decided);
            }
            (Op::FunctionCall, Some(result)) if self.is_pure(inst) => self.make(result, &given),
            (op, Some(_)) if has_side_effects(op) => {
                // What comes of many is nobody's element.
                self.observe(&given);
                self.observe(&decided);
            }
            (_, Some(result)) => self.make(result, &given),
            _ => {}
        }
    }

    /// Returns true if a call does nothing but compute: it is given no pointers, and writes nothing but variables of
    /// its own.
    fn is_pure(&self, call: &Inst) -> bool {
        let pointer = |id: Id| self.m.type_of(id).and_then(|t| Type::of(self.m, t));
        if call.ids_from(1).any(|id| matches!(pointer(id), Some(Type::Pointer { .. } | Type::UntypedPointer { .. }))) {
            return false;
        }
        let callee = self.m.functions.iter().find(|f| self.m.inst(f.def).result == call.id(0));
        callee.is_some_and(|f| {
            !f.blocks.is_empty()
                && f.blocks.iter().flat_map(|b| &b.insts).map(|r| self.m.inst(*r)).all(|i| match i.op {
                    Op::Store => i
                        .accessed()
                        .and_then(|p| self.root(p))
                        .and_then(|v| self.m.def_inst(v))
                        .is_some_and(is_function_variable),
                    op => op.is_terminator() || is_invocation_local(op) || i.result.is_some() && !has_side_effects(op),
                })
        })
    }

    /// An element of a matrix becomes a value.
    fn element(&mut self, ty: Id, value: Option<Id>) {
        let from: Sources = value.map(|v| self.of(v).to_vec()).unwrap_or_default();
        if from.iter().any(|source| *source != ty) {
            self.observe(&from);
            self.observe(&[ty]);
            self.observed.copies.extend(from.iter().filter(|source| **source != ty).map(|source| (*source, ty)));
        }
    }

    fn store(&mut self, inst: &Inst, given: &[Id], decided: &[Id]) {
        let (Some(pointer), Some(value)) = (inst.accessed(), inst.stored()) else { return };
        if let Some(ty) = self.elements.get(&pointer).copied() {
            self.element(ty, Some(value));
            return;
        }
        match self.root(pointer) {
            Some(root) => {
                self.make(root, given);
                self.make(root, decided);
            }
            None => {
                self.observe(given);
                self.observe(decided);
            }
        }
    }

    /// The private variable that a pointer leads to.
    fn root(&self, pointer: Id) -> Option<Id> {
        let root = pointers::root(self.m, pointer, Op::derives_pointer)?;
        let variable = self.m.def_inst(root).filter(|i| i.op == Op::Variable)?;
        [StorageClass::Function, StorageClass::Private].contains(&variable.enumerant(0)?).then_some(root)
    }

    /// Elements decide where control goes from a block: what is done until all paths reconverge depends on them, and what comes
    /// together there.
    fn decide(&mut self, b: usize, sources: &[Id]) {
        if sources.is_empty() {
            return;
        }
        let end = self.post.ipdom(b);
        let mut seen: FxHashSet<usize> = end.into_iter().collect();
        let mut work: Vec<usize> = self.cfg.successors(b).to_vec();
        let mut reached: Vec<usize> = end.into_iter().collect();
        while let Some(block) = work.pop() {
            if seen.insert(block) {
                reached.push(block);
                work.extend_from_slice(self.cfg.successors(block));
            }
        }
        for block in reached {
            if Some(block) == end {
                self.join(block, sources);
                continue;
            }
            for source in sources {
                if !self.blocks[block].contains(source) {
                    self.blocks[block].push(*source);
                    self.changed = true;
                }
            }
        }
    }

    /// Makes the phis of a block depend on the elements that decide by which edge it is reached.
    fn join(&mut self, block: usize, sources: &[Id]) {
        let insts = &self.m.functions[self.f].blocks[block].insts;
        let phis: Vec<Id> =
            insts.iter().map(|r| self.m.inst(*r)).filter(|i| i.op == Op::Phi).filter_map(|i| i.result).collect();
        for phi in phis {
            self.make(phi, sources);
        }
    }
}

/// Returns true if a variable is one of a function.
fn is_function_variable(variable: &Inst) -> bool {
    variable.enumerant(0) == Some(StorageClass::Function)
}

/// Instructions without a result that do nothing outside of the invocation.
fn is_invocation_local(op: Op) -> bool {
    op.is_line() || op.is_hint() || op.is_merge()
}

/// Instructions with a result that do something, or that other invocations take part in.
fn has_side_effects(op: Op) -> bool {
    let Some(info) = op.info() else { return true };
    let does = Effects::WRITES | Effects::BARRIER | Effects::EXCHANGES | Effects::CALLS;
    info.effects.any(does) || matches!(info.class, Class::Atomic | Class::Image)
}
