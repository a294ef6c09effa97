//! Pointer operands of loads and stores: the memory they point to, and the root of their access chains.

use crate::Refusal;
use crate::kernel::is_physical;
use coop_ir::builder::{FunctionBuilder, Globals, Index, decorate};
use coop_ir::constant::Constants;
use coop_ir::spv::{Capability, Decoration, StorageClass};
use coop_ir::types::{self, Scalar, Type};
use coop_ir::{Id, Inst, InstRef, Module, Op};

/// The memory that a pointer operand points to.
#[derive(Clone, Debug)]
pub(crate) struct MemoryLocation {
    /// The variable or pointer value where the chain of accesses begins.
    pub(crate) root: Id,
    /// True if the root is a variable of the module (and not a value of the function).
    pub(crate) global: bool,
    /// The indices from there; the last one steps an array. Empty: the root itself points to the first unit.
    pub(crate) indices: Vec<Id>,
    /// The index of the number inside a vector, if the pointer points to one.
    pub(crate) component: Option<Id>,
    pub(crate) storage: StorageClass,
    /// The numbers in memory.
    pub(crate) memory: Scalar,
    pub(crate) memory_ty: Id,
    /// Numbers in a unit; where `component` is there, numbers in the vector that it indexes.
    pub(crate) lanes: u32,
    /// True if pointers can be stepped anywhere, by numbers that are signed.
    pub(crate) physical: bool,
}

/// Follows a pointer back to a variable or to a pointer value.
pub(crate) fn place(m: &Module, constants: &Constants, r: InstRef, pointer: Id) -> Result<MemoryLocation, Refusal> {
    let refuse = |why: &str, remedy: &str| Err(Refusal::new("refused-pointer", Some(r), why, remedy));
    let Some(Type::Pointer { storage, pointee }) = m.type_of(pointer).and_then(|t| Type::of(m, t)) else {
        return refuse("the pointer has no typed pointee", "use typed pointers");
    };
    let Some((memory, mut lanes)) = types::scalar_or_vector(m, pointee) else {
        return refuse("the pointer points to no number or vector", "point to an element of an array of numbers");
    };
    let memory_ty = match Type::of(m, pointee) {
        Some(Type::Vector { elem, .. }) => elem,
        _ => pointee,
    };
    let (root, mut indices) = chain(m, pointer);
    let global = m.def(root).is_some_and(|d| m.inst(d).op == Op::Variable && m.globals.contains(&d));
    let mut component = None;
    if let Some(containers) = containers(m, constants, root, &indices) {
        if let Some(array) = containers.iter().rev().find(|ty| is_array(m, **ty)).filter(|ty| is_padded(m, **ty)) {
            let (stride, unit) = (array_stride(m, *array).unwrap_or(0), memory.bytes() * lanes);
            let why = format!(
                "the pointer points into an array of {unit} bytes each that are {stride} bytes apart, which matrices ignore"
            );
            return refuse(&why, "declare the memory without padding between numbers");
        }
        let containers: Vec<Type> = containers.into_iter().filter_map(|ty| Type::of(m, ty)).collect();
        match containers.as_slice() {
            [.., Type::Array { .. } | Type::RuntimeArray { .. }] => {}
            [.., Type::Array { .. } | Type::RuntimeArray { .. }, Type::Vector { len, .. }] => {
                component = indices.pop();
                lanes = *len;
            }
            [] => {}
            _ => return refuse("the pointer does not point into an array", "point to an element of an array"),
        }
    } else {
        return refuse("the pointer's access chain can't be followed", "see what coopcheck says");
    }
    if indices.is_empty() {
        stepping(m, r, storage, m.type_of(root))?;
    }
    Ok(MemoryLocation { root, global, indices, component, storage, memory, memory_ty, lanes, physical: is_physical(m) })
}

/// Returns the root of the access chains that make a pointer, and the indices from there.
pub(crate) fn chain(m: &Module, pointer: Id) -> (Id, Vec<Id>) {
    let mut root = pointer;
    let mut parts: Vec<Vec<Id>> = Vec::new();
    // Definitions come before their uses, so that this ends; the count ends a cycle.
    for _ in 0..1000 {
        let Some(inst) = m.def_inst(root) else { break };
        match (inst.op, inst.id(0)) {
            (Op::AccessChain | Op::InBoundsAccessChain, Some(base)) => {
                parts.push(inst.ids_from(1).collect());
                root = base;
            }
            (Op::CopyObject, Some(base)) => root = base,
            _ => break,
        }
    }
    (root, parts.into_iter().rev().flatten().collect())
}

pub(crate) fn is_array(m: &Module, ty: Id) -> bool {
    matches!(Type::of(m, ty), Some(Type::Array { .. } | Type::RuntimeArray { .. }))
}

/// Returns true if a type is an array of numbers or vectors that are further apart, or closer, than they are large.
pub(crate) fn is_padded(m: &Module, ty: Id) -> bool {
    let Some(Type::Array { elem, .. } | Type::RuntimeArray { elem }) = Type::of(m, ty) else { return false };
    let size = types::scalar_or_vector(m, elem).and_then(|_| types::packed_bytes(m, elem));
    size.is_some() && array_stride(m, ty).is_some_and(|stride| Some(stride) != size)
}

/// The types that each index of a chain steps into.
pub(crate) fn containers(m: &Module, constants: &Constants, root: Id, indices: &[Id]) -> Option<Vec<Id>> {
    let Type::Pointer { pointee, .. } = Type::of(m, m.type_of(root)?)? else { return None };
    let mut ty = pointee;
    let mut out = Vec::new();
    for index in indices {
        out.push(ty);
        let container = Type::of(m, ty)?;
        ty = match &container {
            Type::Array { elem, .. } | Type::RuntimeArray { elem } | Type::Vector { elem, .. } => *elem,
            Type::Struct { members } => *members.get(constants.get(*index).value()? as usize)?,
            Type::Matrix { column, .. } => *column,
            _ => return None,
        };
    }
    Some(out)
}

/// Returns whether a pointer that no access chain made can be stepped.
fn stepping(m: &Module, r: InstRef, storage: StorageClass, ty: Option<Id>) -> Result<(), Refusal> {
    let has = |c: Capability| m.has_capability(c);
    let ok = if storage == StorageClass::PhysicalStorageBuffer || is_physical(m) {
        true
    } else {
        let natural = ty.and_then(|t| match Type::of(m, t)? {
            Type::Pointer { pointee, .. } => types::packed_bytes(m, pointee),
            _ => None,
        });
        let stride = ty.and_then(|t| array_stride(m, t));
        if storage == StorageClass::Workgroup {
            // Memory without a layout has no strides.
            return if has(Capability::VariablePointers) && (stride.is_none() || stride == natural) {
                Ok(())
            } else {
                Err(not_stepped(r))
            };
        }
        (has(Capability::VariablePointers) || has(Capability::VariablePointersStorageBuffer))
            && stride.is_some()
            && stride == natural
    };
    if ok { Ok(()) } else { Err(not_stepped(r)) }
}

fn not_stepped(r: InstRef) -> Refusal {
    let why = "the pointer is a value that can't be stepped: no access chain made it";
    Refusal::new("refused-pointer", Some(r), why, "index the array in the function that loads or stores")
}

fn array_stride(m: &Module, ty: Id) -> Option<u32> {
    let stride = Decoration::ArrayStride.0;
    m.globals_with(Op::Decorate)
        .map(|r| m.inst(r))
        .find(|i| i.id(0) == Some(ty) && i.word(1) == Some(stride))
        .and_then(|i| i.word(2))
}

/// The step of an `OpPtrAccessChain`: kernels take the number as signed, so there it is made wide enough not to be negative.
pub(crate) fn step(b: &mut FunctionBuilder<'_>, place: &MemoryLocation, count: Index) -> Id {
    let id = b.index(count);
    if !place.physical || matches!(count, Index::Const(_)) {
        return id;
    }
    let wide = b.globals.uint(b.module, 64);
    b.ids(Op::UConvert, wide, &[id])
}

/// A pointer value that `OpPtrAccessChain` may step: its type must say the stride.
pub(crate) fn steppable(b: &mut FunctionBuilder<'_>, place: &MemoryLocation, root: Id) -> Id {
    if place.storage != StorageClass::PhysicalStorageBuffer {
        return root;
    }
    let bytes = place.memory.bytes() * place.lanes;
    let ty = b.module.type_of(root);
    if ty.is_some_and(|t| array_stride(b.module, t) == Some(bytes)) {
        return root;
    }
    let pointee = unit_type(b.module, b.globals, place);
    // The stride says nothing of anything else, so the type itself takes it: SwiftShader ends at casts of such pointers.
    let to_units = |t: &Id| matches!(Type::of(b.module, *t), Some(Type::Pointer { pointee: to, .. }) if to == pointee);
    if let Some(t) = ty.filter(|t| to_units(t) && array_stride(b.module, *t).is_none()) {
        decorate(b.module, t, Decoration::ArrayStride, &[bytes]);
        return root;
    }
    let id = b.module.fresh_id();
    let pointer = Inst::new(Op::TypePointer, None, Some(id), [place.storage.into(), pointee.into()]);
    let r = b.module.add(pointer);
    b.module.globals.push(r);
    decorate(b.module, id, Decoration::ArrayStride, &[bytes]);
    b.ids(Op::Bitcast, id, &[root])
}

fn unit_type(m: &mut Module, g: &mut Globals, place: &MemoryLocation) -> Id {
    if place.lanes == 1 { place.memory_ty } else { g.vector(m, place.memory_ty, place.lanes) }
}
