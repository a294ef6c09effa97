//! Modules as kernels of OpenCL: pointers with addresses, arguments instead of buffers and push constants, integers without
//! signs, built-in numbers of 64 bits, and, now and then, control flow without merges.

use super::access::AccessKind;
use super::emit::Gen;
use coop_ir::builder::add_global;
use coop_ir::grammar::Op;
use coop_ir::hash::FxHashMap;
use coop_ir::rewrite::insert_before;
use coop_ir::spv::{
    AddressingModel, BuiltIn, Capability, ExecutionMode, ExecutionModel, MemoryAccess, MemoryModel, StorageClass,
};
use coop_ir::types::{Scalar, Type, coop_mat};
use coop_ir::{Id, Inst, InstRef, Operand, string_operands};

/// An argument of the kernel.
pub(super) struct Argument {
    pub(super) ty: Id,
    pub(super) id: Id,
    /// The text in the case file.
    text: String,
}

/// Kernels have no more than this: what devices must take is 1024 bytes.
const MOST_ARGUMENTS: usize = 100;

impl Gen<'_> {
    /// Declares the capabilities of every kernel.
    pub(super) fn kernel_capabilities(&mut self) {
        for capability in [Capability::Addresses, Capability::Kernel, Capability::Int64, Capability::SubgroupDispatch] {
            self.capability(capability);
        }
    }

    /// A new argument, if there may be another.
    pub(super) fn argument(&mut self, ty: Id, text: String) -> Option<Id> {
        if self.arguments.len() >= MOST_ARGUMENTS {
            return None;
        }
        let id = self.m.fresh_id();
        self.arguments.push(Argument { ty, id, text });
        Some(id)
    }

    /// The argument that points to a buffer of such numbers, and its type.
    pub(super) fn buffer_argument(&mut self, unit: (Scalar, u32), name: &str) -> (Id, Id) {
        self.scalar_capabilities(unit.0);
        let elem = self.unit_type(unit);
        let ty = self.g.pointer(&mut self.m, StorageClass::CrossWorkgroup, elem);
        let id = self.m.fresh_id();
        self.arguments.push(Argument { ty, id, text: format!("address = \"{name}\"") });
        (id, ty)
    }

    /// The pointer `at` numbers behind another, maybe a Generic one, and its storage class.
    pub(super) fn stepped(&mut self, from: Id, elem: Id, at: Id) -> (Id, StorageClass) {
        let op = self.e.pick(&[Op::InBoundsPtrAccessChain, Op::PtrAccessChain]);
        let mut storage = StorageClass::CrossWorkgroup;
        let mut pointer = self.g.pointer(&mut self.m, storage, elem);
        let generic = self.e.below(6);
        let mut from = from;
        if generic == 0 {
            (pointer, storage) = self.generic(elem);
            from = self.ids(Op::PtrCastToGeneric, pointer, &[from]);
        }
        let mut id = self.ids(op, pointer, &[from, at]);
        if generic == 1 {
            (pointer, storage) = self.generic(elem);
            id = self.ids(Op::PtrCastToGeneric, pointer, &[id]);
        }
        (id, storage)
    }

    fn generic(&mut self, elem: Id) -> (Id, StorageClass) {
        self.capability(Capability::GenericPointer);
        self.note("generic pointer");
        (self.g.pointer(&mut self.m, StorageClass::Generic, elem), StorageClass::Generic)
    }

    /// One component of a built-in variable: numbers of 64 bits there.
    pub(super) fn kernel_builtin(&mut self, builtin: BuiltIn, component: u32) -> Id {
        let (uint, ulong) = (self.uint(), self.g.uint(&mut self.m, 64));
        let all = self.g.vector(&mut self.m, ulong, 3);
        let variable = self.builtin(builtin, all);
        let all = self.ids(Op::Load, all, &[variable]);
        let one = self.op(Op::CompositeExtract, ulong, [all.into(), component.into()]);
        self.ids(Op::UConvert, uint, &[one])
    }

    /// Memory operands with their mask: there are no others in kernels.
    pub(super) fn kernel_memory_operands(&mut self, align: u32, kind: AccessKind) -> Vec<Operand> {
        let mut mask = MemoryAccess::None;
        let mut words = Vec::new();
        if self.e.chance(20) && kind == AccessKind::Load {
            mask |= MemoryAccess::Nontemporal;
        }
        if self.e.chance(60) {
            mask |= MemoryAccess::Aligned;
            words.push(Operand::Word(align));
        }
        [Operand::Word(mask.0)].into_iter().chain(words).collect()
    }

    /// Entry point, modes and arguments, when all functions are made.
    pub(super) fn finish_kernel(&mut self, main: Id) {
        add_global(
            &mut self.m,
            Inst::new(Op::MemoryModel, None, None, [AddressingModel::Physical64.into(), MemoryModel::OpenCL.into()]),
        );
        let interface = self.globals.iter().copied().map(Operand::Id);
        let operands = [ExecutionModel::Kernel.into(), Operand::Id(main)].into_iter().chain(string_operands("main"));
        let entry = Inst::new(Op::EntryPoint, None, None, operands.chain(interface));
        add_global(&mut self.m, entry);
        let mut mode = |mode: ExecutionMode, words: &[u32]| {
            let operands = [Operand::Id(main), Operand::Word(mode.0)];
            let operands = operands.into_iter().chain(words.iter().copied().map(Operand::Word));
            add_global(&mut self.m, Inst::new(Op::ExecutionMode, None, None, operands));
        };
        let lanes = self.profile.lanes();
        mode(ExecutionMode::SubgroupSize, &[lanes]);
        if self.sized {
            mode(ExecutionMode::LocalSize, &[self.subgroups * lanes, 1, 1]);
        }
        self.hand_arguments_down(main);
        self.wrap_matrices();
        if self.loose {
            self.without_merges();
        }
    }

    /// Gives every function the kernel's arguments, as all may use them.
    fn hand_arguments_down(&mut self, main: Id) {
        let types: Vec<Id> = self.arguments.iter().map(|a| a.ty).collect();
        let ids: Vec<Id> = self.arguments.iter().map(|a| a.id).collect();
        for f in 0..self.m.functions.len() {
            let def = self.m.functions[f].def;
            let own: Vec<Id> = match self.m.inst(def).result {
                Some(id) if id == main => ids.clone(),
                _ => ids.iter().map(|_| self.m.fresh_id()).collect(),
            };
            let map: FxHashMap<Id, Id> = ids.iter().copied().zip(own.iter().copied()).collect();
            for r in self.m.functions[f].insts().collect::<Vec<InstRef>>() {
                let inst = self.m.inst_mut(r);
                for operand in &mut inst.operands {
                    if let Operand::Id(id) = operand {
                        *id = map.get(id).copied().unwrap_or(*id);
                    }
                }
                if inst.op == Op::FunctionCall {
                    inst.operands.extend(own.iter().copied().map(Operand::Id));
                }
            }
            let (ret, params) = (self.m.inst(def).ty, self.m.functions[f].params.clone());
            let params: Vec<Id> = params.iter().filter_map(|r| self.m.inst(*r).ty).chain(types.clone()).collect();
            let Some(ret) = ret else { continue };
            let ty = self.g.function(&mut self.m, ret, &params);
            self.m.inst_mut(def).operands[1] = ty.into();
            for (ty, id) in types.iter().zip(own) {
                let param = self.m.add(Inst::new(Op::FunctionParameter, Some(*ty), Some(id), []));
                self.m.functions[f].params.push(param);
            }
        }
    }

    /// Looks at variables of matrices as DPC++ does: as at a struct around the matrix, now and then behind a Generic pointer. No
    /// choice is drawn for it, so that seeds stay what they are.
    fn wrap_matrices(&mut self) {
        let mut turn = self.m.header.bound;
        let mut structs: FxHashMap<Id, Id> = FxHashMap::default();
        let function = StorageClass::Function;
        for r in self.m.functions.iter().flat_map(|f| f.insts()).collect::<Vec<InstRef>>() {
            let inst = self.m.inst(r);
            if !(matches!(inst.op, Op::Load | Op::Store) || inst.op.is_member_chain()) {
                continue;
            }
            let (op, variable) = (inst.op, inst.id(0));
            let pointer = variable.and_then(|id| self.m.def_inst(id)).filter(|i| i.op == Op::Variable);
            let matrix = match pointer.and_then(|i| Type::of(&self.m, i.ty?)) {
                Some(Type::Pointer { storage, pointee }) if storage == function => pointee,
                _ => continue,
            };
            turn = turn.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let (Some(variable), Some(_), true) = (variable, coop_mat(&self.m, matrix), turn >> 24 & 1 == 0) else {
                continue;
            };
            let wrapped = *structs.entry(matrix).or_insert_with(|| {
                let id = self.m.fresh_id();
                add_global(&mut self.m, Inst::new(Op::TypeStruct, None, Some(id), [matrix.into()]));
                id
            });
            let ulong = self.g.uint(&mut self.m, 64);
            let (outer, inner) =
                (self.g.pointer(&mut self.m, function, wrapped), self.g.pointer(&mut self.m, function, matrix));
            let zeros = [self.g.null(&mut self.m, ulong), self.g.u32(&mut self.m, 0)];
            let [cast, member] = [0, 1].map(|_| self.m.fresh_id());
            insert_before(&mut self.m, r, Inst::new(Op::Bitcast, Some(outer), Some(cast), [variable.into()]));
            let operands = [cast, zeros[0], zeros[1]].map(Operand::Id);
            insert_before(&mut self.m, r, Inst::new(Op::InBoundsPtrAccessChain, Some(inner), Some(member), operands));
            let mut from = member;
            if matches!(op, Op::Load | Op::Store) && turn >> 25 & 1 == 0 {
                let (generic, _) = self.generic(matrix);
                from = self.m.fresh_id();
                insert_before(
                    &mut self.m,
                    r,
                    Inst::new(Op::PtrCastToGeneric, Some(generic), Some(from), [member.into()]),
                );
            }
            self.m.inst_mut(r).operands[0] = from.into();
            self.note("wrapped matrix");
        }
    }

    /// Leaves merges out, as compilers of kernels do.
    fn without_merges(&mut self) {
        for f in 0..self.m.functions.len() {
            for b in 0..self.m.functions[f].blocks.len() {
                let insts = self.m.functions[f].blocks[b].insts.iter().copied().collect::<Vec<InstRef>>();
                let kept = |r: &InstRef| !matches!(self.m.inst(*r).op, Op::SelectionMerge | Op::LoopMerge);
                let kept: Vec<InstRef> = insts.into_iter().filter(kept).collect();
                self.m.functions[f].blocks[b].insts = kept.into_iter().collect();
            }
        }
        self.note("control flow without merges");
    }

    /// Sizes and arguments in the case file.
    pub(super) fn kernel_case(&self) -> String {
        let lanes = self.profile.lanes();
        let mut out = format!("subgroup-size = {lanes}\n");
        if !self.sized {
            out.push_str(&format!("local-size = [{}, 1, 1]\n", self.subgroups * lanes));
        }
        out.push_str("push = [\n");
        for argument in &self.arguments {
            out.push_str(&format!("    {{ {} }},\n", argument.text));
        }
        out.push_str("]\n");
        out
    }
}
