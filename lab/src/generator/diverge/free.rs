//! Rewrites a module so that data decides its branches.
//!
//! A proof about a branch holds whatever the branches around it do; but the conditions of these may be such that no
//! input ever leads there, or that none is found, or something before it may be undefined. With words of a buffer as
//! conditions, and nothing undefined before, [`Freed::data`] gives inputs that lead there.

mod given;
mod quiet;

use super::Diverging;
use coop_ir::cfg::{Cfg, Loops};
use coop_ir::decorate::Decorations;
use coop_ir::grammar::Op;
use coop_ir::hash::FxHashMap;
use coop_ir::spv::{BuiltIn, ExecutionModel, StorageClass};
use coop_ir::{Function, Id, Inst, InstRef, Module, Operand};
use coop_uniformity::{MAX_CHOICES, Uniformity};

pub use given::Given;

/// The parts of a module to leave unchanged, and the limits of the rewriting.
#[derive(Clone, Copy, Debug)]
pub struct Free<'a> {
    /// Branches that remain what they are.
    pub keep: &'a [InstRef],
    /// Loads and stores of matrices of which only this operand is to differ: the pointer leads to the first element, or
    /// the stride is constant.
    pub alone: &'a [(InstRef, u32)],
    /// The branches in loops that may go elsewhere in each round; all of them, if `None`.
    pub rounds: Option<&'a [InstRef]>,
    /// The only writes to shared memory, barriers and matrix instructions that remain.
    pub only: &'a [InstRef],
}

/// A module with branches that data decides.
#[derive(Clone, Debug)]
pub struct Freed {
    /// The module. Its first buffer has [`Freed::words`] words.
    pub made: Diverging,
    /// The number of words of the first buffer. Reads by index are in the first `DATA`.
    pub words: u32,
    /// The branches that words decide.
    branches: Vec<Deciding>,
    /// The words that elements of matrices became: the first of each.
    elements: Vec<(InstRef, u32)>,
    /// The branches that words do not decide.
    kept: Vec<InstRef>,
}

/// The number of words of data: those of the first buffer, and those that replace the second buffer and shared memory.
const DATA: u32 = 3 * super::WORDS;

/// A branch, and the words that decide it.
#[derive(Clone, Copy, Debug)]
struct Deciding {
    at: InstRef,
    first: u32,
    /// The number of words in each iteration.
    count: u32,
    rounds: u32,
}

/// The module with words of the first buffer for conditions: one for each branch where the condition was uniform over
/// the workgroup, as `over` says of the branch, one for each subgroup or each invocation where it was not; of branches in loops, as
/// many for each of the first [`MAX_CHOICES`] rounds. What other invocations may have written is read from that buffer too, and
/// so are elements of matrices. `None` if the module is none that the generator makes.
pub fn free(made: &Diverging, over: impl Fn(InstRef) -> Uniformity, how: Free<'_>) -> Option<Freed> {
    let mut module = made.module.clone();
    let mut freer = Freer::new(&mut module)?;
    if freer.kernel {
        freer.pass_buffer();
    }
    for f in 0..freer.module.functions.len() {
        freer.buffer = freer.buffers[f];
        let loops = Loops::new(&Cfg::new(freer.module, &freer.module.functions[f]));
        freer.again = (0..freer.module.functions[f].blocks.len()).map(|b| loops.innermost(b).is_some()).collect();
        for b in 0..freer.module.functions[f].blocks.len() {
            freer.block(f, b, &over, how);
        }
        for b in 0..freer.module.functions[f].blocks.len() {
            freer.memory(f, b, how.alone);
            freer.quiet(f, b, &over, how.only);
        }
    }
    freer.sweep(how.only);
    let (branches, elements) = (std::mem::take(&mut freer.branches), std::mem::take(&mut freer.elements));
    let words = freer.next;
    let kept = how.keep.to_vec();
    Some(Freed { made: Diverging { module, ..made.clone() }, words, branches, elements, kept })
}

struct Freer<'m> {
    module: &'m mut Module,
    kernel: bool,
    main: Option<Id>,
    uint: Id,
    bool: Id,
    zero: Id,
    /// The buffer's name in each function.
    buffers: Vec<Id>,
    buffer: Id,
    pointer: Id,
    local_index: Id,
    subgroup: Id,
    /// The first word that is not used yet.
    next: u32,
    branches: Vec<Deciding>,
    elements: Vec<(InstRef, u32)>,
    /// True for each block of the function that is in a loop.
    again: Vec<bool>,
    /// The type of each matrix.
    matrices: FxHashMap<Id, Id>,
}

impl<'m> Freer<'m> {
    /// `None` if the module is none that the generator makes.
    fn new(module: &'m mut Module) -> Option<Freer<'m>> {
        let global = |want: &dyn Fn(&Inst) -> bool| {
            module.globals.iter().map(|r| module.inst(*r)).find(|i| want(i)).and_then(|i| i.result)
        };
        let uint = global(&|i| i.op == Op::TypeInt)?;
        let bool = global(&|i| i.op == Op::TypeBool)?;
        let constant = |n: u32| global(&|i| i.op == Op::Constant && i.ty == Some(uint) && i.word(0) == Some(n));
        let decorations = Decorations::new(module);
        let entry = module.globals_with(Op::EntryPoint).next().map(|r| module.inst(r))?;
        let (kernel, main) = (entry.enumerant(0) == Some(ExecutionModel::Kernel), entry.entry_function());
        let class = if kernel { StorageClass::CrossWorkgroup } else { StorageClass::StorageBuffer }.0;
        let pointer = global(&|i| i.op == Op::TypePointer && i.word(0) == Some(class) && i.id(1) == Some(uint))?;
        let first_parameter = || {
            let f = module.functions.iter().find(|f| module.inst(f.def).result == main)?;
            module.inst(*f.params.first()?).result
        };
        let buffer = if kernel {
            first_parameter()?
        } else {
            let first =
                |i: &Inst| i.op == Op::Variable && i.result.is_some_and(|id| decorations.binding(id) == Some(0));
            global(&first)?
        };
        let zero = constant(0)?;
        let local_index = decorations.with_built_in(BuiltIn::LocalInvocationIndex).next()?;
        let subgroup = decorations.with_built_in(BuiltIn::SubgroupId).next()?;
        let buffers = vec![buffer; module.functions.len()];
        let bodies = module.functions.iter().flat_map(|f| &f.blocks).flat_map(|b| &b.insts);
        let typed = bodies.chain(&module.globals).map(|r| module.inst(*r)).filter_map(|i| Some((i.result?, i.ty?)));
        let is_matrix = |ty: Id| module.def_inst(ty).is_some_and(|i| i.op == Op::TypeCooperativeMatrixKHR);
        let matrices = typed.filter(|(_, ty)| is_matrix(*ty)).collect();
        Some(Freer {
            module,
            kernel,
            main,
            uint,
            bool,
            zero,
            buffers,
            buffer,
            pointer,
            local_index,
            subgroup,
            next: DATA,
            branches: Vec::new(),
            elements: Vec::new(),
            again: Vec::new(),
            matrices,
        })
    }

    /// Gives functions of kernels the buffer as an argument, the last one.
    fn pass_buffer(&mut self) {
        let names = |f: &Function| self.module.inst(f.def).result;
        let others: Vec<usize> =
            (0..self.buffers.len()).filter(|f| names(&self.module.functions[*f]) != self.main).collect();
        for f in others {
            let (def, params) = (self.module.functions[f].def, self.module.functions[f].params.clone());
            let Some(result) = self.module.inst(def).ty else { continue };
            let types = params.iter().filter_map(|p| self.module.inst(*p).ty).chain([self.pointer]);
            let operands: Vec<Operand> = std::iter::once(result).chain(types).map(Operand::Id).collect();
            let (ty, param) = (self.module.fresh_id(), self.module.fresh_id());
            let r = self.module.add(Inst::new(Op::TypeFunction, None, Some(ty), operands));
            self.module.globals.push(r);
            let r = self.module.add(Inst::new(Op::FunctionParameter, Some(self.pointer), Some(param), []));
            self.module.functions[f].params.push(r);
            self.module.inst_mut(def).operands[1] = Operand::Id(ty);
            self.buffers[f] = param;
        }
        for f in 0..self.buffers.len() {
            let insts = self.module.functions[f].blocks.iter().flat_map(|b| b.insts.iter().copied());
            let calls: Vec<InstRef> = insts.filter(|r| self.module.inst(*r).op == Op::FunctionCall).collect();
            for r in calls {
                self.module.inst_mut(r).operands.push(Operand::Id(self.buffers[f]));
            }
        }
    }

    fn block(&mut self, f: usize, b: usize, over: &impl Fn(InstRef) -> Uniformity, how: Free<'_>) -> Option<()> {
        let end = self.module.functions[f].blocks[b].terminator()?;
        let inst = self.module.inst(end);
        if !matches!(inst.op, Op::BranchConditional | Op::Switch) || how.keep.contains(&end) {
            return None;
        }
        let switch = inst.op == Op::Switch;
        // Cases alone, if the default leads to `OpUnreachable`.
        let cases = (inst.operands.len() as u32 / 2).saturating_sub(1).max(1);
        let two = switch && inst.id(1).is_some_and(|id| given::leads_nowhere(self.module, f, id));
        let mut made = Vec::new();
        let rounds = self.again[b] && how.rounds.is_none_or(|some| some.contains(&end));
        let counter = if rounds { Some(self.counter(f, &mut made)?) } else { None };
        let word = self.word(over(end), Some((end, counter)), &mut made);
        let cases = self.constant(cases);
        let (op, operands) = match switch {
            true if two => (Op::UMod, vec![word, cases]),
            true => (Op::CopyObject, vec![word]),
            false => (Op::INotEqual, vec![word, self.zero]),
        };
        let ty = if switch { self.uint } else { self.bool };
        let free = self.put(&mut made, op, ty, &operands);
        // In front of the branch and the merge instruction that belongs to it.
        let insts = &self.module.functions[f].blocks[b].insts;
        let before = insts
            .len()
            .checked_sub(2)
            .filter(|i| matches!(self.module.inst(insts[*i]).op, Op::SelectionMerge | Op::LoopMerge));
        let at = before.unwrap_or(insts.len() - 1);
        self.module.functions[f].blocks[b].insts.insert_from_slice(at, &made);
        self.module.inst_mut(end).operands[0] = Operand::Id(free);
        Some(())
    }

    /// The block and the place in it of an instruction.
    fn place(&self, f: usize, r: InstRef) -> Option<(usize, usize)> {
        let blocks = self.module.functions[f].blocks.iter().enumerate();
        blocks.filter_map(|(b, block)| Some((b, block.insts.iter().position(|i| *i == r)?))).next()
    }

    fn element(&mut self, ty: Id, buffer: Id, index: Id, made: &mut Vec<InstRef>) -> Id {
        if self.kernel {
            self.put(made, Op::InBoundsPtrAccessChain, ty, &[buffer, index])
        } else {
            self.put(made, Op::AccessChain, ty, &[buffer, self.zero, index])
        }
    }

    /// Counts the executions of a block in this call by an invocation, at most [`MAX_CHOICES`] - 1.
    fn counter(&mut self, f: usize, made: &mut Vec<InstRef>) -> Option<Id> {
        let mut pointers = self.module.globals.iter().map(|r| self.module.inst(*r));
        let own = StorageClass::Function.0;
        let is_own = |i: &&Inst| i.op == Op::TypePointer && i.word(0) == Some(own) && i.id(1) == Some(self.uint);
        let pointer = pointers.find(is_own)?.result?;
        let variable = self.module.fresh_id();
        let operands = [Operand::Word(own), Operand::Id(self.zero)];
        let r = self.module.add(Inst::new(Op::Variable, Some(pointer), Some(variable), operands));
        self.module.functions[f].blocks[0].insts.insert(0, r);
        let (one, last) = (self.constant(1), self.constant(MAX_CHOICES - 1));
        let n = self.put(made, Op::Load, self.uint, &[variable]);
        let more = self.put(made, Op::IAdd, self.uint, &[n, one]);
        let store = Inst::new(Op::Store, None, None, [Operand::Id(variable), Operand::Id(more)]);
        made.push(self.module.add(store));
        let less = self.put(made, Op::ULessThan, self.bool, &[n, last]);
        Some(self.put(made, Op::Select, self.uint, &[less, n, last]))
    }

    /// A word of the buffer: for a branch, in the round that is given if there are several, or for data.
    fn word(&mut self, over: Uniformity, branch: Option<(InstRef, Option<Id>)>, made: &mut Vec<InstRef>) -> Id {
        let count = match over {
            Uniformity::Workgroup => 1,
            Uniformity::Subgroup => super::MOST_INVOCATIONS / 4,
            Uniformity::Divergent => super::MOST_INVOCATIONS,
        };
        let first = self.next;
        let round = branch.and_then(|b| b.1);
        let rounds = if round.is_some() { MAX_CHOICES } else { 1 };
        self.next += count * rounds;
        if let Some((at, _)) = branch {
            self.branches.push(Deciding { at, first, count, rounds });
        }
        let mut index = self.constant(first);
        if let Some(round) = round {
            let count = self.constant(count);
            let of = self.put(made, Op::IMul, self.uint, &[round, count]);
            index = self.put(made, Op::IAdd, self.uint, &[of, index]);
        }
        if over != Uniformity::Workgroup {
            let of = if over == Uniformity::Subgroup { self.subgroup } else { self.local_index };
            let lane = self.put(made, Op::Load, self.uint, &[of]);
            index = self.put(made, Op::IAdd, self.uint, &[lane, index]);
        }
        let place = self.element(self.pointer, self.buffer, index, made);
        self.put(made, Op::Load, self.uint, &[place])
    }

    fn constant(&mut self, value: u32) -> Id {
        let n = self.module.fresh_id();
        let r = self.module.add(Inst::new(Op::Constant, Some(self.uint), Some(n), [Operand::Word(value)]));
        self.module.globals.push(r);
        n
    }

    fn put(&mut self, made: &mut Vec<InstRef>, op: Op, ty: Id, ids: &[Id]) -> Id {
        let id = self.module.fresh_id();
        let operands = ids.iter().map(|i| Operand::Id(*i));
        made.push(self.module.add(Inst::new(op, Some(ty), Some(id), operands)));
        id
    }
}
