//! Gives pointers without a type (SPV_KHR_untyped_pointers) the type of what they point to.
//!
//! Precondition: no decoration groups. Effect: variables, access chains and the lengths of arrays are typed. Where an access, or
//! the data type of a chain, is of the first part of what a pointer points to (the first member, the first element), a chain leads
//! there. The strides of matrices, which count bytes with such pointers, count components. Kernels stay as they are.
//!
//! Refuses, where a matrix becomes scalar code that goes through such a pointer: accesses of other types than the memory has;
//! pointers that are passed, chosen, cast or stepped by elements; tensor accesses and copies. Else such a module keeps its
//! pointers; those to descriptors stay too.

use crate::pipeline::PassCx;
use crate::{Refusal, Target};
use coop_ir::builder::Globals;
use coop_ir::constant::{Constants, Specialization};
use coop_ir::decorate::Decorations;
use coop_ir::hash::FxHashSet;
use coop_ir::rewrite::{remove_capability, remove_extension, remove_globals, sort_globals};
use coop_ir::spv::{Capability, Decoration, StorageClass};
use coop_ir::types::{self, Scalar, Type};
use coop_ir::{Id, Inst, InstRef, Module, Op, Operand};

pub(crate) fn run(m: &mut Module, cx: &mut PassCx<'_>) -> Result<(), Refusal> {
    let types = m.globals_with(Op::TypeUntypedPointerKHR).filter_map(|r| m.inst(r).result);
    // Those to descriptors point to no memory.
    let memory =
        |id: &Id| !matches!(Type::of(m, *id), Some(Type::UntypedPointer { storage: StorageClass::UniformConstant }));
    let untyped: FxHashSet<Id> = types.filter(memory).collect();
    if untyped.is_empty() || m.is_kernel() {
        return Ok(());
    }
    let before = m.clone();
    let Err(refusal) = give_types(m, untyped.clone()) else { return Ok(()) };
    let of_matrix = |r: InstRef| {
        let inst = before.inst(r);
        let pointer = inst.matrix_access().map(|access| access.pointer);
        pointer.and_then(|p| before.type_of(p)).is_some_and(|ty| untyped.contains(&ty))
    };
    if cx.options.target == Target::Scalar && before.all().any(of_matrix) {
        return Err(refusal);
    }
    // What stays may keep such pointers, on a device that has them.
    *m = before;
    Ok(())
}

fn give_types(m: &mut Module, untyped: FxHashSet<Id>) -> Result<(), Refusal> {
    let mut pass = Pass {
        globals: Globals::new(m),
        constants: Constants::new(m, &Specialization::new()),
        decorations: Decorations::new(m),
        untyped,
        typed: FxHashSet::default(),
        before: Vec::new(),
    };
    for r in m.globals_with(Op::UntypedVariableKHR).collect::<Vec<_>>() {
        pass.variable(m, r)?;
    }
    for f in 0..m.functions.len() {
        for b in 0..m.functions[f].blocks.len() {
            let old = std::mem::take(&mut m.functions[f].blocks[b].insts);
            let mut insts = Vec::new();
            for r in old {
                pass.inst(m, r)?;
                insts.append(&mut pass.before);
                insts.push(r);
            }
            m.functions[f].blocks[b].insts = insts.into();
        }
    }
    let untyped = pass.untyped;
    if let Some(r) = m.all().find(|r| m.inst(*r).ty.is_some_and(|ty| untyped.contains(&ty))) {
        let why = format!("{} makes a pointer without a type, of which nothing tells what it points to", m.inst(r).op);
        return Err(refusal(r, why));
    }
    remove_globals(m, |m, r| {
        let i = m.inst(r);
        i.result.or(i.note_target()).is_some_and(|id| untyped.contains(&id))
    });
    if m.globals_with(Op::TypeUntypedPointerKHR).next().is_none() {
        remove_capability(m, Capability::UntypedPointersKHR);
        remove_extension(m, "SPV_KHR_untyped_pointers");
    }
    sort_globals(m);
    Ok(())
}

fn refusal(at: InstRef, why: impl Into<String>) -> Refusal {
    let remedy = "compile without untyped pointers, or access the memory as the type that it is declared with";
    Refusal::new("refused-pointer", Some(at), why, remedy)
}

struct Pass {
    globals: Globals,
    constants: Constants,
    decorations: Decorations,
    /// The types of pointers without a type.
    untyped: FxHashSet<Id>,
    /// The pointers that have got a type.
    typed: FxHashSet<Id>,
    /// The instructions that go before the one that is looked at.
    before: Vec<InstRef>,
}

impl Pass {
    fn inst(&mut self, m: &mut Module, r: InstRef) -> Result<(), Refusal> {
        let inst = m.inst(r);
        let (op, ty, accessed) = (inst.op, inst.ty, inst.accessed());
        let here = accessed.filter(|p| self.typed.contains(p));
        match op {
            Op::UntypedVariableKHR => self.variable(m, r),
            Op::UntypedArrayLengthKHR => self.length(m, r),
            _ if op.is_access_chain() && ty.is_some_and(|ty| self.untyped.contains(&ty)) => self.chain(m, r),
            _ if here.is_some() && (op == Op::Load || op == Op::Store) => {
                let wanted = ty.or_else(|| m.inst(r).stored().and_then(|v| m.type_of(v)));
                self.access(m, r, |_, t| Some(t) == wanted)
            }
            _ if here.is_some() && op.is_atomic() && ty.is_some() => self.access(m, r, |_, t| Some(t) == ty),
            _ if here.is_some() && m.inst(r).matrix_access().is_some() => self.matrix(m, r),
            _ if m.inst(r).ids().any(|id| self.typed.contains(&id)) && !crate::ssa::is_debug(m, m.inst(r)) => {
                Err(refusal(r, format!("{op} of a pointer without a type")))
            }
            _ => Ok(()),
        }
    }

    fn variable(&mut self, m: &mut Module, r: InstRef) -> Result<(), Refusal> {
        let inst = m.inst(r);
        if inst.ty.is_none_or(|ty| !self.untyped.contains(&ty)) {
            return Ok(());
        }
        let (Some(id), Some(storage)) = (inst.result, inst.variable_storage()) else {
            return Err(refusal(r, "the variable has no storage class"));
        };
        let initializer = inst.initializer();
        let Some(data) = inst.ids().next() else {
            return Err(refusal(r, "the variable has no data type"));
        };
        let pointer = self.globals.pointer(m, storage, data);
        let inst = m.inst_mut(r);
        (inst.op, inst.ty) = (Op::Variable, Some(pointer));
        inst.operands = std::iter::once(storage.into()).chain(initializer.map(Operand::Id)).collect();
        self.typed.insert(id);
        Ok(())
    }

    fn chain(&mut self, m: &mut Module, r: InstRef) -> Result<(), Refusal> {
        let inst = m.inst(r).clone();
        let known = inst.access_chain().and_then(|chain| Some((chain, chain.data_type?)));
        let Some((chain, data)) = known.filter(|_| !inst.op.is_element_chain()) else {
            return Err(refusal(r, format!("{} steps by elements of a type that the pointer does not have", inst.op)));
        };
        let base = self.reach(m, r, chain.base, true, |pass, m, t| pass.same(m, t, data))?;
        let Some((storage, mut pointee)) = pointer(m, base) else {
            return Err(refusal(r, "the base is not a pointer"));
        };
        let indices: Vec<Id> = inst.ids_from(chain.first).collect();
        for index in &indices {
            let next = match Type::of(m, pointee) {
                Some(Type::Struct { members }) => {
                    let at = self.constants.get(*index).fixed().and_then(|at| usize::try_from(at).ok());
                    at.and_then(|at| members.get(at).copied())
                }
                Some(Type::Matrix { column, .. }) => Some(column),
                other => element(other, true),
            };
            let Some(next) = next else { return Err(refusal(r, "an index leads to nothing")) };
            pointee = next;
        }
        let ty = self.globals.pointer(m, storage, pointee);
        let op = match inst.op {
            _ if indices.is_empty() => Op::CopyObject,
            Op::UntypedInBoundsAccessChainKHR => Op::InBoundsAccessChain,
            _ => Op::AccessChain,
        };
        let inst = m.inst_mut(r);
        (inst.op, inst.ty) = (op, Some(ty));
        inst.operands = std::iter::once(base).chain(indices).map(Operand::Id).collect();
        self.typed.extend(inst.result);
        Ok(())
    }

    fn length(&mut self, m: &mut Module, r: InstRef) -> Result<(), Refusal> {
        let inst = m.inst(r).clone();
        let ids: Vec<Id> = inst.ids().collect();
        let (&[data, base], Some(member)) = (ids.as_slice(), inst.operands.last()) else {
            return Err(refusal(r, "the operands don't fit the instruction"));
        };
        let base = self.reach(m, r, base, false, |pass, m, t| pass.same(m, t, data))?;
        let inst = m.inst_mut(r);
        inst.op = Op::ArrayLength;
        inst.operands = [base.into(), *member].into_iter().collect();
        Ok(())
    }

    /// Gives an access a pointer to a type that fits.
    fn access(&mut self, m: &mut Module, r: InstRef, fits: impl Fn(&Module, Id) -> bool) -> Result<(), Refusal> {
        let Some(old) = m.inst(r).accessed() else { return Ok(()) };
        let new = self.reach(m, r, old, true, |_, m, t| fits(m, t))?;
        m.inst_mut(r).operands[0] = new.into();
        Ok(())
    }

    fn matrix(&mut self, m: &mut Module, r: InstRef) -> Result<(), Refusal> {
        let inst = m.inst(r).clone();
        let Some(access) = inst.matrix_access() else { return Ok(()) };
        let ty = inst.ty.or_else(|| access.object.and_then(|o| m.type_of(o)));
        let Some(scalar) = ty.and_then(|t| types::coop_mat(m, t)).and_then(|v| types::scalar(m, v.component)) else {
            return Err(refusal(r, "the matrix has no component type"));
        };
        let bytes = scalar.bytes();
        let new =
            self.reach(m, r, access.pointer, false, |_, m, t| types::scalar(m, t).is_some_and(|s| s.bytes() == bytes))?;
        m.inst_mut(r).operands[0] = new.into();
        let Some(stride) = access.stride.filter(|_| bytes > 1) else { return Ok(()) };
        let stride_type = m.type_of(stride);
        let Some((ty, Scalar::Int { signed, width })) = stride_type.and_then(|t| Some((t, types::scalar(m, t)?)))
        else {
            return Err(refusal(r, "the stride is not an integer"));
        };
        let kind = Scalar::Int { signed, width };
        let count = match self.constants.get(stride).fixed() {
            Some(value) if !value.is_multiple_of(u64::from(bytes)) => {
                return Err(refusal(
                    r,
                    format!("rows or columns {value} bytes apart, which is not a multiple of {bytes}"),
                ));
            }
            Some(value) => self.globals.constant_of(m, ty, kind, value / u64::from(bytes)),
            None => {
                let bytes = self.globals.constant_of(m, ty, kind, u64::from(bytes));
                let op = if signed { Op::SDiv } else { Op::UDiv };
                self.make(m, op, ty, &[stride, bytes])
            }
        };
        // The truth value Column Major of the first extension is behind the stride.
        let last = access.memory - 1;
        let at = if inst.id(last) == Some(stride) { last } else { last - 1 };
        m.inst_mut(r).operands[at] = count.into();
        Ok(())
    }

    /// Returns a pointer to the first part, of what a pointer points to, that fits.
    fn reach(
        &mut self,
        m: &mut Module,
        r: InstRef,
        from: Id,
        vectors: bool,
        fits: impl Fn(&Pass, &Module, Id) -> bool,
    ) -> Result<Id, Refusal> {
        let Some((storage, first)) = pointer(m, from) else {
            return Err(refusal(r, "nothing tells what a pointer without a type points to"));
        };
        let (mut at, mut steps) = (first, 0);
        while !fits(self, m, at) {
            let next = match Type::of(m, at) {
                Some(Type::Struct { members }) => {
                    let begins = self.decorations.member_value(at, 0, Decoration::Offset).unwrap_or(0) == 0;
                    members.first().copied().filter(|_| begins)
                }
                other => element(other, vectors),
            };
            let Some(next) = next else {
                return Err(refusal(r, format!("{} takes memory for another type than it has", m.inst(r).op)));
            };
            (at, steps) = (next, steps + 1);
        }
        if steps == 0 {
            return Ok(from);
        }
        let zero = self.globals.u32(m, 0);
        let ty = self.globals.pointer(m, storage, at);
        let ids: Vec<Id> = std::iter::once(from).chain(std::iter::repeat_n(zero, steps)).collect();
        Ok(self.make(m, Op::AccessChain, ty, &ids))
    }

    fn make(&mut self, m: &mut Module, op: Op, ty: Id, ids: &[Id]) -> Id {
        let id = m.fresh_id();
        let r = m.add(Inst::new(op, Some(ty), Some(id), ids.iter().map(|id| Operand::Id(*id))));
        self.before.push(r);
        id
    }

    /// Returns true if types have the same layout: equal ones, or arrays of them with the same stride.
    fn same(&self, m: &Module, a: Id, b: Id) -> bool {
        let stride = |t| self.decorations.value(t, Decoration::ArrayStride);
        a == b
            || match (Type::of(m, a), Type::of(m, b)) {
                (Some(Type::RuntimeArray { elem: x }), Some(Type::RuntimeArray { elem: y })) => {
                    stride(a) == stride(b) && self.same(m, x, y)
                }
                (Some(Type::Array { elem: x, len: n }), Some(Type::Array { elem: y, len: k })) => {
                    n == k && stride(a) == stride(b) && self.same(m, x, y)
                }
                _ => false,
            }
    }
}

/// Returns the storage class and the pointee of a typed pointer.
fn pointer(m: &Module, id: Id) -> Option<(StorageClass, Id)> {
    match Type::of(m, m.type_of(id)?)? {
        Type::Pointer { storage, pointee } => Some((storage, pointee)),
        _ => None,
    }
}

/// Returns the type of the elements of an array, or of a vector.
fn element(ty: Option<Type>, vectors: bool) -> Option<Id> {
    match ty? {
        Type::Array { elem, .. } | Type::RuntimeArray { elem } => Some(elem),
        Type::Vector { elem, .. } => Some(elem).filter(|_| vectors),
        _ => None,
    }
}
