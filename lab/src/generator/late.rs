//! Changes to a module that is complete: shared memory becomes blocks, and debug information speaks of matrices.

use super::emit::Gen;
use coop_ir::builder::{add_global, decorate};
use coop_ir::constant::{Constants, Specialization};
use coop_ir::grammar::Op;
use coop_ir::spv::{Capability, Decoration, StorageClass};
use coop_ir::types::{Type, coop_mat, natural_size, scalar_or_vector};
use coop_ir::{Inst, InstRef, Operand, string_operands};

impl Gen<'_> {
    pub(super) fn late(&mut self) {
        if self.kernel() {
            return;
        }
        if self.side.chance(64) {
            self.lay_out_shared_memory();
        }
        if self.side.chance(64) {
            self.speak_of_matrices();
        }
    }

    /// Makes a block of each array in shared memory, at an offset of its own: blocks begin at the same place.
    fn lay_out_shared_memory(&mut self) {
        let constants = Constants::new(&self.m, &Specialization::new());
        let m = &self.m;
        let of_shared = |r: &InstRef| match Type::of(m, m.inst(*r).ty?)? {
            Type::Pointer { storage: StorageClass::Workgroup, pointee } => Some(pointee),
            _ => None,
        };
        let variables: Vec<InstRef> = m.globals_with(Op::Variable).filter(|r| of_shared(r).is_some()).collect();
        // Of a length that may be specialized nobody knows where the next block may begin.
        let laid_out = |r: &InstRef| {
            let array = of_shared(r)?;
            let Some(Type::Array { elem, len }) = Type::of(m, array) else { return None };
            constants.get(len).fixed_as::<u32>()?;
            let [stride, bytes] = [elem, array].map(|ty| natural_size(m, &constants, ty).map(|size| size.0 as u32));
            Some((*r, m.inst(*r).result?, array, scalar_or_vector(m, elem)?.0.bytes(), stride?, bytes?))
        };
        let shared: Vec<_> = variables.iter().filter_map(laid_out).collect();
        if shared.is_empty() || shared.len() < variables.len() {
            return;
        }
        self.note("shared blocks");
        self.capability(Capability::WorkgroupMemoryExplicitLayoutKHR);
        self.extension("SPV_KHR_workgroup_memory_explicit_layout");
        let zero = self.u32(0);
        let mut at = 16 * self.side.below(3);
        for (r, _, array, of_number, stride, bytes) in &shared {
            match of_number {
                1 => self.capability(Capability::WorkgroupMemoryExplicitLayout8BitAccessKHR),
                2 => self.capability(Capability::WorkgroupMemoryExplicitLayout16BitAccessKHR),
                _ => {}
            }
            let block = self.m.fresh_id();
            self.global(Inst::new(Op::TypeStruct, None, Some(block), [Operand::Id(*array)]));
            decorate(&mut self.m, *array, Decoration::ArrayStride, &[*stride]);
            decorate(&mut self.m, block, Decoration::Block, &[]);
            let offset = [block.into(), 0.into(), Decoration::Offset.into(), at.into()];
            add_global(&mut self.m, Inst::new(Op::MemberDecorate, None, None, offset));
            let pointer = self.g.pointer(&mut self.m, StorageClass::Workgroup, block);
            self.m.inst_mut(*r).ty = Some(pointer);
            at = (at + bytes).next_multiple_of(16);
        }
        for (_, variable, ..) in &shared {
            if shared.len() > 1 {
                decorate(&mut self.m, *variable, Decoration::Aliased, &[]);
            }
            let insts: Vec<InstRef> = self.m.functions.iter().flat_map(|f| f.insts()).collect();
            for r in insts {
                let inst = self.m.inst(r);
                if inst.op.is_access_chain() && inst.ids().next() == Some(*variable) {
                    self.m.inst_mut(r).operands.insert(1, Operand::Id(zero));
                }
            }
        }
    }

    /// Puts notes of a set that nobody knows behind instructions that make matrices.
    fn speak_of_matrices(&mut self) {
        self.note("debug information");
        self.extension("SPV_KHR_non_semantic_info");
        let [set, void] = [self.m.fresh_id(), self.g.void(&mut self.m)];
        add_global(&mut self.m, Inst::new(Op::ExtInstImport, None, Some(set), string_operands("NonSemantic.Matrices")));
        for f in 0..self.m.functions.len() {
            for b in 0..self.m.functions[f].blocks.len() {
                let before = std::mem::take(&mut self.m.functions[f].blocks[b].insts);
                for r in before {
                    self.m.functions[f].blocks[b].insts.push(r);
                    let inst = self.m.inst(r);
                    let made = inst.result.filter(|_| inst.ty.is_some_and(|ty| coop_mat(&self.m, ty).is_some()));
                    let Some(made) = made.filter(|_| inst.op != Op::Phi && self.side.chance(128)) else { continue };
                    let id = self.m.fresh_id();
                    let operands = [set.into(), 1.into(), made.into()];
                    let spoken = self.m.add(Inst::new(Op::ExtInst, Some(void), Some(id), operands));
                    self.m.functions[f].blocks[b].insts.push(spoken);
                }
            }
        }
    }
}
