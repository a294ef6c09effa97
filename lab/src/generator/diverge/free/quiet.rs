//! Without what may be undefined before: what writes memory of others, barriers, and what is done with matrices.

use super::Freer;
use coop_ir::grammar::Op;
use coop_ir::hash::FxHashSet;
use coop_ir::spv::StorageClass;
use coop_ir::{Id, Inst, InstRef, Operand};
use coop_uniformity::Uniformity;

impl Freer<'_> {
    /// Drops what may be in the way of `only`. Elements of matrices become words of the buffer, and so does what others may
    /// write at any time.
    pub(super) fn quiet(&mut self, f: usize, b: usize, over: &impl Fn(InstRef) -> Uniformity, only: &[InstRef]) {
        for r in self.module.functions[f].blocks[b].insts.clone() {
            if only.contains(&r) {
                self.constant_matrices(r, only);
                continue;
            }
            let inst = self.module.inst(r);
            let matrix = |id: Id| self.matrices.contains_key(&id);
            let drop = match inst.op {
                Op::ControlBarrier | Op::CooperativeMatrixStoreKHR => true,
                Op::Store => inst.accessed().is_some_and(|p| self.is_of_others(p)) || inst.id(1).is_some_and(matrix),
                Op::ExtInst => inst.ids_from(2).any(|id| self.is_of_others(id)),
                _ => inst.result.is_some_and(matrix),
            };
            if drop {
                self.module.replace(r, Inst::new(Op::Nop, None, None, []));
                continue;
            }
            let inst = self.module.inst(r);
            let (Some(ty), Some(id)) = (inst.ty, inst.result) else { continue };
            let (how, becomes) = match inst.op {
                Op::CompositeExtract if inst.id(0).is_some_and(|id| self.matrices.contains_key(&id)) => {
                    (over(r), Op::ConvertUToF)
                }
                Op::Load if inst.word(1).is_some_and(|mask| mask & 1 != 0) => (Uniformity::Divergent, Op::CopyObject),
                Op::AtomicLoad | Op::AtomicIAdd => (Uniformity::Divergent, Op::CopyObject),
                // Of what these make of floats nothing is known; integers are computed.
                Op::ExtInst if ty != self.uint => (over(r), Op::ConvertUToF),
                _ => continue,
            };
            let pointer = inst.ids_from(2).find(|id| self.module.type_of(*id).is_some_and(|t| self.is_pointer(t)));
            let pointer = pointer.filter(|_| inst.op == Op::ExtInst);
            let mut made = Vec::new();
            self.elements.push((r, self.next));
            let word = self.word(how, None, &mut made);
            if let Some(pointer) = pointer {
                let to = self.module.type_of(pointer).and_then(|t| self.module.def_inst(t)).and_then(|t| t.id(1));
                let value = if to == Some(self.uint) { word } else { self.put(&mut made, becomes, ty, &[word]) };
                let store = Inst::new(Op::Store, None, None, [Operand::Id(pointer), Operand::Id(value)]);
                made.push(self.module.add(store));
            }
            self.module.replace(r, Inst::new(becomes, Some(ty), Some(id), [Operand::Id(word)]));
            if let Some((_, at)) = self.place(f, r) {
                self.module.functions[f].blocks[b].insts.insert_from_slice(at, &made);
            }
        }
    }

    fn is_pointer(&self, ty: Id) -> bool {
        self.module.def_inst(ty).is_some_and(|t| t.op == Op::TypePointer)
    }

    /// Returns true if an id is a pointer to memory that is not the invocation's own.
    fn is_of_others(&self, id: Id) -> bool {
        let ty = self.module.type_of(id).and_then(|t| self.module.def_inst(t));
        let own = [StorageClass::Function.0, StorageClass::Private.0];
        ty.filter(|t| t.op == Op::TypePointer).and_then(|t| t.word(0)).is_some_and(|class| !own.contains(&class))
    }

    /// Has an instruction use constant matrices in place of those that are dropped.
    fn constant_matrices(&mut self, r: InstRef, only: &[InstRef]) {
        for i in 0..self.module.inst(r).operands.len() {
            let Some(id) = self.module.inst(r).operands[i].id() else { continue };
            let Some(ty) = self.matrices.get(&id).copied() else { continue };
            let made_by = self.module.def(id);
            if made_by.is_some_and(|d| only.contains(&d) || self.module.inst(d).op.is_constant()) {
                continue;
            }
            let constant = self.module.globals.iter().map(|r| self.module.inst(*r));
            let constant = constant.filter(|i| i.op == Op::ConstantComposite && i.ty == Some(ty));
            if let Some(constant) = constant.filter_map(|i| i.result).next() {
                self.module.inst_mut(r).operands[i] = Operand::Id(constant);
            }
        }
    }

    /// Has what may be written read from the buffer, which nothing writes, each from a part of its own.
    pub(super) fn memory(&mut self, f: usize, b: usize, alone: &[(InstRef, u32)]) {
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
                    let shared = class == Some(StorageClass::Workgroup.0);
                    let written = chain.ty == Some(self.pointer) && chain.id(0) != Some(self.buffer);
                    if !shared && !written {
                        continue;
                    }
                    let part = self.constant(super::super::WORDS * if shared { 2 } else { 1 });
                    let index = self.put(&mut made, Op::IAdd, self.uint, &[index, part]);
                    self.element(self.pointer, self.buffer, index, &mut made)
                }
                Op::CooperativeMatrixLoadKHR | Op::CooperativeMatrixStoreKHR if alone.contains(&(r, 0)) => {
                    self.plain_stride(r);
                    continue;
                }
                Op::CooperativeMatrixLoadTensorNV if alone.iter().any(|a| a.0 == r && a.1 == 2) => {
                    let (Some(ty), Some(base)) = (chain.ty, chain.id(0)) else { continue };
                    self.element(ty, base, self.zero, &mut made)
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
        }
    }

    /// Gives a load or a store of a matrix a constant stride.
    fn plain_stride(&mut self, r: InstRef) {
        let stride = self.constant(16);
        if let Some(last) = self.module.inst_mut(r).operands.last_mut() {
            *last = Operand::Id(stride);
        }
    }

    /// Drops what nothing uses: subgroup instructions among it may be undefined where a part executes them.
    pub(super) fn sweep(&mut self, only: &[InstRef]) {
        loop {
            let bodies = || self.module.functions.iter().flat_map(|f| &f.blocks).flat_map(|b| b.insts.iter().copied());
            let used: FxHashSet<Id> = bodies().flat_map(|r| self.module.inst(r).ids()).collect();
            let unused: FxHashSet<InstRef> = bodies()
                .filter(|r| {
                    let inst = self.module.inst(*r);
                    // Extended instructions may write through a pointer.
                    let stays =
                        matches!(inst.op, Op::FunctionCall | Op::ExtInst) || inst.op.is_variable() || only.contains(r);
                    !stays && inst.result.is_some_and(|id| !used.contains(&id))
                })
                .collect();
            if unused.is_empty() {
                return;
            }
            for b in self.module.functions.iter_mut().flat_map(|f| &mut f.blocks) {
                b.insts.retain(|r| !unused.contains(&*r));
            }
            unused.iter().for_each(|r| self.module.replace(*r, Inst::new(Op::Nop, None, None, [])));
        }
    }
}
