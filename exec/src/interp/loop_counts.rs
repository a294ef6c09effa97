//! Counts of how often loops repeat.
//!
//! The counts come from a run of the module's [`control_slice`], which has the control flow of the module and takes
//! milliseconds where the module itself multiplies large matrices.

use coop_ir::cfg::{Cfg, Loops};
use coop_ir::hash::{FxHashMap, FxHashSet};
use coop_ir::spv::StorageClass;
use coop_ir::types::Type;
use coop_ir::{Block, Id, InstRef, Module, Op, captures};

use super::control_slice::{called, control_slice};
use super::executor::inputs;
use super::machine::MAX_DEPTH;
use super::registers::Mask;
use super::{Interpreted, Interpreter, find_entry};
use crate::case::Case;
use crate::error::Error;

/// What the blocks of a loop do that compilers keep in the loop.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Contents {
    /// Multiplies matrices.
    pub matrix: bool,
    /// Waits for the other invocations of the workgroup.
    pub barrier: bool,
    /// Accesses shared memory.
    pub shared: bool,
    /// Accesses buffers.
    pub memory: bool,
}

/// A loop of the module, in one chain of calls from the entry point. The counts are sums over the subgroups of the
/// workgroups that ran.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LoopCount {
    /// The label of the header.
    pub header: Id,
    /// The number of times that a subgroup executed the header.
    pub headers: u64,
    /// The number of times that a subgroup executed a block that can lead back to the header, which is how often the
    /// body runs whether the loop is left at its beginning or at its end.
    pub rounds: u64,
    /// What it does, the loops inside of it included.
    pub contents: Contents,
    /// The loops inside of it, in an order that control flow follows.
    pub inner: Vec<LoopCount>,
}

/// The loops of an entry point and how often they ran.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LoopCounts {
    /// The number of subgroups of a workgroup.
    pub subgroups: u64,
    /// The outermost loops, in an order that control flow follows.
    pub loops: Vec<LoopCount>,
    /// The number of times that a subgroup executed a multiplication of matrices.
    pub products: u64,
    /// The number of times that a subgroup executed a barrier.
    pub barriers: u64,
}

/// How often subgroups executed the blocks of a module, for each chain of calls.
#[derive(Debug, Default)]
pub(super) struct BlockCounts {
    /// By the chain of calls and the last instruction of the block.
    blocks: FxHashMap<(u32, InstRef), u64>,
    /// The chain that a call in a chain leads to; 0 is that of the entry point.
    chains: FxHashMap<(u32, InstRef), u32>,
    chain: u32,
}

impl BlockCounts {
    pub(super) fn add(&mut self, last: InstRef, by: &Mask, subgroup: usize) {
        let mut subgroups = 0;
        let mut previous = None;
        for lane in by.lanes() {
            let this = Some(lane / subgroup);
            subgroups += u64::from(this != previous);
            previous = this;
        }
        *self.blocks.entry((self.chain, last)).or_default() += subgroups;
    }

    /// Enters a function from a call; returns the chain to go back to.
    pub(super) fn enter(&mut self, call: InstRef) -> u32 {
        let next = self.chains.len() as u32 + 1;
        let chain = *self.chains.entry((self.chain, call)).or_insert(next);
        std::mem::replace(&mut self.chain, chain)
    }

    pub(super) fn leave(&mut self, back: u32) {
        self.chain = back;
    }

    fn of(&self, chain: Option<u32>, block: &Block) -> u64 {
        let key = chain.zip(block.terminator());
        key.and_then(|key| self.blocks.get(&key)).copied().unwrap_or(0)
    }
}

impl Interpreted {
    /// Counts how often the loops of a module run in a case. Buffers that control flow does not depend on are not filled.
    pub fn loop_counts(&self, module: &Module, case: &Case) -> Result<LoopCounts, Error> {
        let slice = control_slice(&captures::as_passed(module));
        let specialization = case.specialization()?;
        let interpreter = Interpreter::new(&slice, case.entry.as_deref(), &specialization, self.config_of(case))?;
        let used: FxHashSet<Id> =
            slice.functions.iter().flat_map(|f| f.insts()).flat_map(|at| slice.inst(at).ids()).collect();
        let bindings = &interpreter.program.bindings;
        let read = |slot| bindings.iter().any(|b| (b.set, b.binding) == slot && used.contains(&b.id));
        let (mut buffers, push) = inputs(case, |buffer| buffer.slot().is_none_or(read))?;
        let counts = interpreter.block_counts(&mut buffers, &push, case.workgroups)?;
        let program = &interpreter.program;
        let mut walk = Walk { module, counts: &counts, depth: 0, products: 0, barriers: 0 };
        let mut loops = Vec::new();
        walk.function(find_entry(module, case.entry.as_deref())?, Some(0), &mut loops, &mut Contents::default());
        let workgroups: u64 = case.workgroups.into_iter().map(u64::from).product();
        Ok(LoopCounts {
            subgroups: workgroups * program.lanes.div_ceil(program.subgroup) as u64,
            loops,
            products: walk.products,
            barriers: walk.barriers,
        })
    }
}

/// A walk through a module from its entry point, into each call.
struct Walk<'a> {
    module: &'a Module,
    counts: &'a BlockCounts,
    depth: usize,
    products: u64,
    barriers: u64,
}

impl Walk<'_> {
    /// Appends the loops of a function to those of its caller, and adds what it does.
    fn function(&mut self, id: Id, chain: Option<u32>, outer: &mut Vec<LoopCount>, contents: &mut Contents) {
        let module = self.module;
        let Some(function) = module.functions.iter().find(|f| module.inst(f.def).result == Some(id)) else { return };
        // A module that runs has no recursion that goes deeper.
        if function.blocks.is_empty() || self.depth == MAX_DEPTH {
            return;
        }
        self.depth += 1;
        let cfg = Cfg::new(module, function);
        let loops = Loops::new(&cfg);
        // The loops inside each loop, and at the end those inside none.
        let mut inner: Vec<Vec<Inner>> = (0..=loops.all().len()).map(|_| Vec::new()).collect();
        let mut all: Vec<Contents> = vec![Contents::default(); inner.len()];
        for block in cfg.rpo() {
            let place = loops.innermost(*block).unwrap_or(loops.all().len());
            if let Some(found) = loops.all().get(place).filter(|l| l.header == *block) {
                inner[found.parent.unwrap_or(loops.all().len())].push(Inner::Own(place));
            }
            let times = self.counts.of(chain, &function.blocks[*block]);
            for at in &function.blocks[*block].insts {
                self.instruction(*at, times, &mut all[place]);
                if let Some(callee) = called(module.inst(*at)) {
                    let mut found = Vec::new();
                    let chain = chain.and_then(|chain| self.counts.chains.get(&(chain, *at)).copied());
                    self.function(callee, chain, &mut found, &mut all[place]);
                    inner[place].extend(found.into_iter().map(Inner::Called));
                }
            }
        }
        // Inner loops have greater numbers than those around them.
        let mut made: Vec<Option<LoopCount>> = vec![None; loops.all().len()];
        for (number, found) in loops.all().iter().enumerate().rev() {
            let of = |block: usize| self.counts.of(chain, &function.blocks[block]);
            let inside = std::mem::take(&mut inner[number]);
            made[number] = cfg.label(found.header).map(|header| LoopCount {
                header,
                headers: of(found.header),
                rounds: loops.latches(&cfg, number).map(of).sum(),
                contents: all[number],
                inner: inside.into_iter().filter_map(|one| one.take(&mut made)).collect(),
            });
            let around = found.parent.unwrap_or(loops.all().len());
            all[around] = all[around].with(all[number]);
        }
        let outermost = inner.pop().unwrap_or_default();
        outer.extend(outermost.into_iter().filter_map(|one| one.take(&mut made)));
        *contents = contents.with(all.pop().unwrap_or_default());
        self.depth -= 1;
    }

    /// Adds what an instruction does, `times` times.
    fn instruction(&mut self, at: InstRef, times: u64, contents: &mut Contents) {
        let inst = self.module.inst(at);
        if inst.op == Op::CooperativeMatrixMulAddKHR {
            self.products += times;
            contents.matrix = true;
        }
        if inst.op.is_control_barrier() {
            self.barriers += times;
            contents.barrier = true;
        }
        if inst.op.derives_pointer() {
            return;
        }
        for pointer in inst.ids() {
            match self.module.type_of(pointer).and_then(|ty| Type::of(self.module, ty)) {
                Some(Type::Pointer { storage, .. } | Type::UntypedPointer { storage }) => match storage {
                    StorageClass::Workgroup => contents.shared = true,
                    StorageClass::StorageBuffer | StorageClass::PhysicalStorageBuffer => contents.memory = true,
                    _ => {}
                },
                _ => {}
            }
        }
    }
}

/// A loop inside of another one.
enum Inner {
    /// That of this number in the same function.
    Own(usize),
    /// That of a function that it calls.
    Called(LoopCount),
}

impl Inner {
    fn take(self, made: &mut [Option<LoopCount>]) -> Option<LoopCount> {
        match self {
            Inner::Own(number) => made[number].take(),
            Inner::Called(found) => Some(found),
        }
    }
}

impl Contents {
    /// Returns what either does.
    #[must_use]
    pub fn with(self, other: Contents) -> Contents {
        Contents {
            matrix: self.matrix || other.matrix,
            barrier: self.barrier || other.barrier,
            shared: self.shared || other.shared,
            memory: self.memory || other.memory,
        }
    }
}
