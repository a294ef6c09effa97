//! Rewrites loads and stores of matrices, and variables that hold them.

use super::Kernel;
use super::access::aligned;
use super::pointer_target::PointerTarget;
use crate::Refusal;
use coop_ir::builder::decorate;
use coop_ir::spv::{Decoration, MemoryAccess, StorageClass};
use coop_ir::types::{Scalar, Type, coop_mat};
use coop_ir::{Id, Inst, InstRef, Op, Operand};

/// Returns true if an instruction loads or stores a matrix through its first operand.
pub(super) fn accesses(op: Op) -> bool {
    op.is_matrix_access() && !op.is_tensor_access() && !op.is_nv_matrix_op()
}

impl Kernel<'_> {
    /// Returns the component type of the matrix that an instruction loads or stores.
    pub(super) fn matrix_component(&self, inst: &Inst) -> Option<Id> {
        let types = inst.ty.into_iter().chain(inst.ids().filter_map(|id| self.m.type_of(self.now(id))));
        types.into_iter().find_map(|t| coop_mat(self.m, t)).map(|t| t.component)
    }

    /// Rewrites a load or store of a matrix to go through a pointer to the component type, with a stride of 32 bits.
    pub(super) fn rewrite_matrix_access(&mut self, r: InstRef) -> Result<(), Refusal> {
        let inst = self.m.inst(r).clone();
        let component = self.matrix_component(&inst).ok_or_else(|| self.no_layout(r))?;
        let (scalar, _) = self.shape(component).ok_or_else(|| self.no_layout(r))?;
        let pointer = inst.accessed().ok_or_else(|| self.no_layout(r))?;
        let place = self.places.get(&pointer).copied().ok_or_else(|| self.no_layout(r))?;
        let address = self.address(pointer, place);
        let mask_at = inst.operands.iter().position(|o| o.id().is_none()).unwrap_or(inst.operands.len());
        let mut operands: Vec<Operand> = Vec::with_capacity(inst.operands.len() + 2);
        let mut ratio = 1;
        let now = match place {
            PointerTarget::Global => self.array_pointer(address, component, scalar),
            PointerTarget::FlatVariable(root) => {
                ratio = u64::from(scalar.bytes()) / self.roots[root].unit_bytes().max(1);
                self.unit_pointer(root, address).ok_or_else(|| self.no_layout(r))?
            }
            PointerTarget::Matrix | PointerTarget::BuiltIn(_) => return Err(self.no_layout(r)),
        };
        let plain = matches!(inst.op, Op::CooperativeMatrixLoadKHR | Op::CooperativeMatrixStoreKHR);
        if ratio != 1 && !plain {
            let why = "shared memory that a matrix is loaded from is also accessed as narrower numbers";
            return Err(Refusal::new("refused-vulkan-matrix", Some(r), why, "use one type for it"));
        }
        operands.push(now.into());
        let stride_at = if inst.op == Op::CooperativeMatrixLoadKHR { 2 } else { 3 };
        for (i, o) in inst.operands.iter().enumerate().take(mask_at).skip(1) {
            let Some(id) = o.id() else { continue };
            let id = self.now(id);
            let wide =
                self.m.type_of(id).and_then(|t| self.shape(t)).is_some_and(|(s, _)| s.is_int() && s.width() > 32);
            let mut id = if wide { self.resize(id, 32, true) } else { id };
            if plain && i == stride_at && ratio != 1 {
                id = self.resize(id, 32, false);
                id = self.times(32, id, ratio);
            }
            operands.push(id.into());
        }
        operands.extend(self.matrix_memory_operands(&inst, mask_at, place, scalar));
        let result = inst.result;
        self.m.replace(r, Inst::new(inst.op, inst.ty, result, operands).at(self.origin));
        self.keep(r);
        Ok(())
    }

    fn matrix_memory_operands(&self, inst: &Inst, at: usize, place: PointerTarget, scalar: Scalar) -> Vec<Operand> {
        let kept = (MemoryAccess::Volatile | MemoryAccess::Nontemporal).0;
        let bits = inst.word(at).unwrap_or(0) & kept | MemoryAccess::NonPrivatePointer.0;
        if place != PointerTarget::Global {
            return vec![Operand::Word(bits)];
        }
        let align = aligned(inst, at).unwrap_or(0).max(u64::from(scalar.bytes()));
        vec![Operand::Word(bits | MemoryAccess::Aligned.0), Operand::Word(align as u32)]
    }

    /// Makes a pointer to the first of an array of numbers in memory of the device.
    fn array_pointer(&mut self, address: Id, component: Id, scalar: Scalar) -> Id {
        let block = match self.blocks.get(&component) {
            Some(block) => *block,
            None => {
                let [array, block] = [0, 1].map(|_| self.m.fresh_id());
                let r = self.m.add(Inst::new(Op::TypeRuntimeArray, None, Some(array), [component.into()]));
                self.m.globals.push(r);
                let r = self.m.add(Inst::new(Op::TypeStruct, None, Some(block), [array.into()]));
                self.m.globals.push(r);
                decorate(self.m, array, Decoration::ArrayStride, &[scalar.bytes()]);
                decorate(self.m, block, Decoration::Block, &[]);
                let offset = [block.into(), Operand::Word(0), Operand::Word(Decoration::Offset.0), Operand::Word(0)];
                coop_ir::builder::add_global(self.m, Inst::new(Op::MemberDecorate, None, None, offset));
                self.blocks.insert(component, block);
                block
            }
        };
        let class = StorageClass::PhysicalStorageBuffer;
        let base = self.global_pointer(address, block);
        let pointer = self.g.pointer(self.m, class, component);
        let zero = self.u32(0);
        self.ids(Op::AccessChain, pointer, &[base, zero, zero])
    }

    /// Rewrites a pointer into a variable that holds matrices: an access chain of the variable, even if it was cast to
    /// a type at the same location.
    pub(super) fn matrix_pointer(&mut self, r: InstRef, inst: &Inst) -> Result<(), Refusal> {
        let refused = |why: &str| {
            let remedy = "compile with more optimization (-O2), so that matrices stay in registers";
            Err(Refusal::new("refused-vulkan-matrix", Some(r), why, remedy))
        };
        if inst.op == Op::Variable {
            self.variables.push(r);
            return Ok(());
        }
        let (Some(base), Some(ty)) = (inst.id(0), inst.ty) else { return Err(self.no_layout(r)) };
        let base = self.now(base);
        let Some(held) = self.m.type_of(base).and_then(|t| self.pointee(t)) else { return Err(self.no_layout(r)) };
        let Some(wanted) = self.pointee(ty) else { return Err(self.no_layout(r)) };
        let function = StorageClass::Function;
        match inst.op {
            op if op.is_typed_access_chain() => {
                let mut indices: Vec<Id> = inst.ids_from(1).collect();
                if inst.op.is_element_chain() {
                    let first = indices.first().and_then(|i| self.layout.constant(*i));
                    if first != Some(0) {
                        return refused("a pointer into a variable of matrices steps by whole objects");
                    }
                    indices.remove(0);
                }
                if indices.is_empty() {
                    self.replace_result(r, base);
                    return Ok(());
                }
                let mut operands = vec![Operand::Id(base)];
                let mut at = held;
                for index in indices {
                    let next = match Type::of(self.m, at) {
                        Some(Type::CoopMat(t)) => Some(t.component),
                        Some(Type::Array { elem, .. } | Type::Vector { elem, .. }) => Some(elem),
                        Some(Type::Struct { members }) => {
                            self.layout.constant(index).and_then(|c| members.get(usize::try_from(c).ok()?).copied())
                        }
                        _ => None,
                    };
                    // A step into the type of a cast: a struct around a number.
                    let Some(next) = next else {
                        if self.layout.constant(index) == Some(0) {
                            continue;
                        }
                        return refused("an element of a matrix is accessed as another type");
                    };
                    let index = self.now(index);
                    operands.push(self.resize(index, 32, true).into());
                    at = next;
                }
                if operands.len() == 1 {
                    self.replace_result(r, base);
                    return Ok(());
                }
                let pointer = self.g.pointer(self.m, function, at);
                self.instead(r, Op::AccessChain, pointer, operands);
            }
            _ => {
                // A cast to the first member, or to a wrapper.
                let mut at = held;
                let mut operands = vec![Operand::Id(base)];
                while at != wanted {
                    match Type::of(self.m, at) {
                        Some(Type::Struct { members }) if !members.is_empty() => at = members[0],
                        Some(Type::Array { elem, .. }) => at = elem,
                        // A type of the same size: the access determines it.
                        _ => {
                            operands.truncate(1);
                            break;
                        }
                    }
                    operands.push(self.u32(0).into());
                }
                if operands.len() == 1 {
                    self.replace_result(r, base);
                    return Ok(());
                }
                let pointer = self.g.pointer(self.m, function, at);
                self.instead(r, Op::AccessChain, pointer, operands);
            }
        }
        Ok(())
    }

    pub(super) fn rewrite_matrix_load(&mut self, r: InstRef) -> Result<(), Refusal> {
        let inst = self.m.inst(r).clone();
        let (Some(pointer), Some(ty)) = (inst.accessed(), inst.ty) else { return Err(self.no_layout(r)) };
        let pointer = self.now(pointer);
        let held = self.m.type_of(pointer).and_then(|t| self.pointee(t)).ok_or_else(|| self.no_layout(r))?;
        if held == ty {
            self.instead(r, Op::Load, ty, [pointer.into()]);
            return Ok(());
        }
        if !self.same_number(held, ty) {
            return Err(self.unknown_layout(r));
        }
        let value = self.op(Op::Load, held, [pointer.into()]);
        self.instead(r, Op::Bitcast, ty, [value.into()]);
        Ok(())
    }

    pub(super) fn rewrite_matrix_store(&mut self, r: InstRef) -> Result<(), Refusal> {
        let inst = self.m.inst(r).clone();
        let [Some(pointer), Some(value)] = [0, 1].map(|i| inst.id(i)) else { return Err(self.no_layout(r)) };
        let (pointer, mut value) = (self.now(pointer), self.now(value));
        let held = self.m.type_of(pointer).and_then(|t| self.pointee(t)).ok_or_else(|| self.no_layout(r))?;
        let ty = self.m.type_of(value).ok_or_else(|| self.no_layout(r))?;
        if held != ty {
            if !self.same_number(held, ty) {
                return Err(self.unknown_layout(r));
            }
            value = self.ids(Op::Bitcast, held, &[value]);
        }
        self.effect(Op::Store, [pointer, value].map(Operand::Id));
        self.m.forget(r);
        Ok(())
    }

    fn unknown_layout(&self, r: InstRef) -> Refusal {
        let why = "an element of a matrix is accessed as another type";
        let remedy = "compile with more optimization (-O2), so that matrices stay in registers";
        Refusal::new("refused-vulkan-matrix", Some(r), why, remedy)
    }

    fn same_number(&self, a: Id, b: Id) -> bool {
        match (self.shape(a), self.shape(b)) {
            (Some((a, 1)), Some((b, 1))) => a.width() == b.width(),
            _ => false,
        }
    }

    /// Rewrites the length of a matrix into the 32-bit length of a type. Producers ask it of values too, in 64 bits.
    pub(super) fn rewrite_length(&mut self, r: InstRef) {
        let inst = self.m.inst(r).clone();
        let (Some(of), Some(ty)) = (inst.id(0), inst.ty) else { return self.keep(r) };
        let of = self.m.type_of(self.now(of)).unwrap_or(of);
        let word = self.u32_type();
        if ty == word {
            self.instead(r, inst.op, ty, [of.into()]);
            return;
        }
        let length = self.op(inst.op, word, [of.into()]);
        let width = self.shape(ty).map_or(32, |(s, _)| s.width());
        let value = self.resize(length, width, false);
        self.replace_result(r, value);
    }
}
