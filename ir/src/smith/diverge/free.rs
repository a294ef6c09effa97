//! The same module with branches that data decides.
//!
//! What a proof about a branch says holds whatever the branches around it do; but the conditions of these may be such
//! that no input ever leads there, or that none is found. With conditions that are words of a buffer, inputs do.

use super::Diverging;
use crate::decorate::Decorations;
use crate::grammar::Op;
use crate::module::{Block, Id, Inst, InstRef, Module, Operand};
use crate::uniform::Uniformity;
use spirv::{BuiltIn, StorageClass};

/// What to leave as it is, and how far to go. Branches that lead to `OpUnreachable` are left alone always.
#[derive(Clone, Copy, Debug)]
pub struct Free<'a> {
    /// Branches that remain what they are.
    pub keep: &'a [InstRef],
    /// Loads and stores of matrices of which only this operand is to differ: the pointer leads to the first element.
    pub alone: &'a [(InstRef, u32)],
    /// Whether what else is computed from a condition is computed from the word.
    pub everywhere: bool,
    /// Of what writes memory of others, and of barriers, these alone remain.
    pub only: &'a [InstRef],
}

/// The module with words of the first buffer for conditions: one for each branch where the condition was uniform over
/// the workgroup, as `over` says, one for each subgroup or each invocation where it was not. What other invocations may
/// have written is read from that buffer too. What bounds loops remains. `None` if that changes nothing.
pub fn free(made: &Diverging, over: impl Fn(Id) -> Uniformity, how: Free<'_>) -> Option<Diverging> {
    let mut module = made.module.clone();
    let mut freer = Freer::new(&mut module)?;
    let mut changed = false;
    for f in 0..freer.module.functions.len() {
        // Functions of kernels have no buffer.
        if freer.kernel && freer.module.inst(freer.module.functions[f].def).result != freer.main {
            continue;
        }
        let certain = freer.certain(f);
        for b in 0..freer.module.functions[f].blocks.len() {
            changed |= freer.block(f, b, &over, how, &certain).is_some();
        }
        for b in 0..freer.module.functions[f].blocks.len() {
            changed |= freer.memory(f, b, how.alone);
            freer.quiet(f, b, how.only);
        }
    }
    changed.then(|| Diverging { module, ..made.clone() })
}

struct Freer<'m> {
    module: &'m mut Module,
    kernel: bool,
    main: Option<Id>,
    uint: Id,
    bool: Id,
    zero: Id,
    mask: Id,
    buffer: Id,
    pointer: Id,
    local_index: Id,
    subgroup: Id,
    branches: u32,
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
        let (kernel, main) = (entry.word(0) == Some(6), entry.id(1));
        let class = if kernel { StorageClass::CrossWorkgroup } else { StorageClass::StorageBuffer } as u32;
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
        let (zero, mask) = (constant(0)?, constant(255)?);
        let local_index = decorations.with_built_in(BuiltIn::LocalInvocationIndex).next()?;
        let subgroup = decorations.with_built_in(BuiltIn::SubgroupId).next()?;
        Some(Freer {
            module,
            kernel,
            main,
            uint,
            bool,
            zero,
            mask,
            buffer,
            pointer,
            local_index,
            subgroup,
            branches: 0,
        })
    }

    fn block(
        &mut self,
        f: usize,
        b: usize,
        over: &impl Fn(Id) -> Uniformity,
        how: Free<'_>,
        certain: &[Id],
    ) -> Option<()> {
        let end = self.module.functions[f].blocks[b].terminator()?;
        let inst = self.module.inst(end);
        if !matches!(inst.op, Op::BranchConditional | Op::Switch) || how.keep.contains(&end) {
            return None;
        }
        let switch = inst.op == Op::Switch;
        let condition = inst.id(0).filter(|c| !certain.contains(c))?;
        let def = self.module.def_inst(condition)?;
        let counts = |id: Option<Id>| {
            let less = id.and_then(|id| self.module.def_inst(id)).filter(|i| i.op == Op::ULessThan);
            less.and_then(|i| i.id(0)).and_then(|id| self.module.def_inst(id)).map(|i| i.op)
        };
        let bound = match def.op {
            // What is known beforehand stays known.
            _ if self.is_fixed(condition, 0) => return None,
            Op::LogicalNot if counts(def.id(0)) == Some(Op::Phi) => return None,
            Op::ULessThan if counts(Some(condition)) == Some(Op::Phi) => return None,
            // Of a way back, and so many times.
            Op::LogicalAnd if matches!(counts(def.id(0)), Some(Op::Phi | Op::Load)) => def.id(0),
            _ => None,
        };
        let movable = !matches!(def.op, Op::Phi | Op::FunctionParameter | Op::Load | Op::FunctionCall);
        let defined = self.module.def(condition).filter(|_| how.everywhere && movable && !switch);
        let mut made = Vec::new();
        let word = self.word(over(condition), &mut made);
        let (op, operands) = match bound {
            _ if switch => (Op::CopyObject, vec![word]),
            Some(bound) => {
                let free = self.put(&mut made, Op::INotEqual, self.bool, &[word, self.zero]);
                (Op::LogicalAnd, vec![bound, free])
            }
            None => (Op::INotEqual, vec![word, self.zero]),
        };
        if let Some((at, place)) = defined.and_then(|r| Some((r, self.place(f, r)?))) {
            let operands = operands.into_iter().map(Operand::Id);
            self.module.replace(at, Inst::new(op, Some(self.bool), Some(condition), operands));
            self.module.functions[f].blocks[place.0].insts.insert_from_slice(place.1, &made);
            return Some(());
        }
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

    /// Whether a value is made of constants alone.
    fn is_fixed(&self, id: Id, depth: u32) -> bool {
        let Some(inst) = self.module.def_inst(id) else { return false };
        let computed = matches!(inst.op.0, 124 | 126..=152 | 164..=205);
        inst.op.is_constant() || depth < 8 && computed && inst.ids().all(|id| self.is_fixed(id, depth + 1))
    }

    /// The conditions of branches that lead to `OpUnreachable`, which they must never do.
    fn certain(&self, f: usize) -> Vec<Id> {
        let blocks = &self.module.functions[f].blocks;
        let end = |b: &Block| b.terminator().map(|r| self.module.inst(r));
        let nowhere = blocks.iter().filter(|b| end(b).is_some_and(|i| i.op == Op::Unreachable));
        let labels: Vec<Id> = nowhere.filter_map(|b| self.module.inst(b.label).result).collect();
        let ends = blocks.iter().filter_map(end).filter(|i| i.ids().any(|id| labels.contains(&id)));
        ends.filter(|i| i.op != Op::Branch).filter_map(|i| i.id(0)).collect()
    }

    /// The block and the place in it of an instruction.
    fn place(&self, f: usize, r: InstRef) -> Option<(usize, usize)> {
        let blocks = self.module.functions[f].blocks.iter().enumerate();
        blocks.filter_map(|(b, block)| Some((b, block.insts.iter().position(|i| *i == r)?))).next()
    }

    /// Drops what may be in the way of others: nothing reads what is written.
    fn quiet(&mut self, f: usize, b: usize, only: &[InstRef]) {
        for r in self.module.functions[f].blocks[b].insts.clone() {
            let inst = self.module.inst(r);
            let drop = match inst.op {
                Op::ControlBarrier | Op::CooperativeMatrixStoreKHR => true,
                Op::Store => {
                    let ty = inst.id(0).and_then(|p| self.module.type_of(p)).and_then(|t| self.module.def_inst(t));
                    let own = [StorageClass::Function as u32, StorageClass::Private as u32];
                    ty.and_then(|t| t.word(0)).is_some_and(|class| !own.contains(&class))
                }
                _ => false,
            };
            if drop && !only.contains(&r) {
                self.module.replace(r, Inst::new(Op::Nop, None, None, []));
            }
        }
    }

    /// Has what may be written read from the buffer, which nothing writes.
    fn memory(&mut self, f: usize, b: usize, alone: &[(InstRef, u32)]) -> bool {
        let mut changed = false;
        for r in self.module.functions[f].blocks[b].insts.clone() {
            let inst = self.module.inst(r);
            let Some(chain) = inst.id(0).and_then(|p| self.module.def_inst(p)).cloned() else { continue };
            let Some(index) = chain.operands.last().and_then(|o| o.id()) else { continue };
            if !matches!(chain.op, Op::AccessChain | Op::InBoundsPtrAccessChain) {
                continue;
            }
            let mut made = Vec::new();
            let pointer = match inst.op {
                Op::Load if inst.ty == Some(self.uint) => {
                    let class = chain.ty.and_then(|t| self.module.def_inst(t)).and_then(|t| t.word(0));
                    let shared = class == Some(StorageClass::Workgroup as u32);
                    let written = chain.ty == Some(self.pointer) && chain.id(0) != Some(self.buffer);
                    if !shared && !written {
                        continue;
                    }
                    self.element(self.pointer, self.buffer, index, &mut made)
                }
                Op::CooperativeMatrixLoadKHR | Op::CooperativeMatrixStoreKHR
                    if alone.iter().any(|a| a.0 == r && a.1 > 0) =>
                {
                    let (Some(ty), Some(base)) = (chain.ty, chain.id(0)) else { continue };
                    self.element(ty, base, self.zero, &mut made)
                }
                _ => continue,
            };
            let Some((_, at)) = self.place(f, r) else { continue };
            self.module.functions[f].blocks[b].insts.insert_from_slice(at, &made);
            self.module.inst_mut(r).operands[0] = Operand::Id(pointer);
            changed = true;
        }
        changed
    }

    fn element(&mut self, ty: Id, buffer: Id, index: Id, made: &mut Vec<InstRef>) -> Id {
        if self.kernel {
            self.put(made, Op::InBoundsPtrAccessChain, ty, &[buffer, index])
        } else {
            self.put(made, Op::AccessChain, ty, &[buffer, self.zero, index])
        }
    }

    /// A word of the buffer.
    fn word(&mut self, over: Uniformity, made: &mut Vec<InstRef>) -> Id {
        self.branches += 1;
        let n = self.module.fresh_id();
        let first = Operand::Word(self.branches * 29 % super::WORDS);
        let r = self.module.add(Inst::new(Op::Constant, Some(self.uint), Some(n), [first]));
        self.module.globals.push(r);
        let index = match over {
            Uniformity::Workgroup => n,
            _ => {
                let of = if over == Uniformity::Subgroup { self.subgroup } else { self.local_index };
                let lane = self.put(made, Op::Load, self.uint, &[of]);
                let sum = self.put(made, Op::IAdd, self.uint, &[lane, n]);
                self.put(made, Op::BitwiseAnd, self.uint, &[sum, self.mask])
            }
        };
        let place = self.element(self.pointer, self.buffer, index, made);
        self.put(made, Op::Load, self.uint, &[place])
    }

    fn put(&mut self, made: &mut Vec<InstRef>, op: Op, ty: Id, ids: &[Id]) -> Id {
        let id = self.module.fresh_id();
        let operands = ids.iter().map(|i| Operand::Id(*i));
        made.push(self.module.add(Inst::new(op, Some(ty), Some(id), operands)));
        id
    }
}
