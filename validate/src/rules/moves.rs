//! Rules about instructions that move matrices, tensor layouts and views, and composites with some inside, without
//! changing them.

use crate::cx::{Cx, TypeClass};
use crate::declare_rule;
use crate::operation::Operation;
use crate::report::{Draft, Part, Sink};
use crate::rules::access::Pointer;
use crate::rules::types::storage_name;
use coop_ir::pointers;
use coop_ir::spv::StorageClass;
use coop_ir::{Id, InstRef, Op};

declare_rule! {
    /// ## What it checks
    /// `OpLoad`, `OpStore`, `OpCopyMemory`, `OpPhi`, `OpSelect` and `OpCopyObject` keep the type, by id, of matrices, tensor
    /// layouts and views, and of what has some inside.
    /// ## Why
    /// Two types whose constants happen to be equal are two types all the same.
    /// ## Example
    /// `OpStore %pointer %value` with a pointer to f32 16x16 and a value of f32 16x8.
    pub(crate) static TYPE_MISMATCH = {
        id: "move-type-mismatch",
        summary: "a matrix is moved to something of another type",
        level: Error,
        since: "0.2.0",
        spec: "SPIR-V, OpLoad, OpStore, OpCopyMemory, OpPhi, OpSelect and OpCopyObject",
        vuids: [],
        digest: ["khr.function-cm-args", "types.signedness-ids"],
    }
}

declare_rule! {
    /// ## What it checks
    /// `OpLoad`, `OpStore` and `OpCopyMemory` move matrices, and what has some inside, in Function and Private memory only
    /// (in kernels by way of Generic pointers, too).
    /// ## Why
    /// A matrix has no layout in memory that the program could name; loads and stores of SPV_KHR_cooperative_matrix have one.
    /// ## Example
    /// `OpLoad %matrix %pointer Aligned 16` with a pointer to PhysicalStorageBuffer memory.
    pub(crate) static STORAGE = {
        id: "move-storage-class",
        summary: "a matrix is moved from or to memory that has none",
        level: Error,
        since: "0.2.0",
        spec: "SPV_KHR_cooperative_matrix, 2.16.1 Universal Validation Rules",
        vuids: [],
        digest: ["khr.storage-class", "khr.no-memory-interface", "nv1.storage"],
    }
}

/// Checks an instruction that may move a matrix.
pub(crate) fn check(cx: &Cx, at: InstRef, out: &mut Sink) {
    let inst = cx.inst(at);
    let o = Operation::new(cx, at);
    match inst.op {
        Op::Load => {
            let Some(pointer) = inst.accessed() else { return };
            storage(cx, at, 0, pointer, inst.ty, out);
            let pointee = Pointer::of(cx, pointer).pointee;
            if let (Some(pointee), Some(ty)) = (pointee, inst.ty) {
                agree(cx, &o, (pointee, Part::Operand(0), "points to"), (ty, Part::Type, "the result is"), out);
            }
        }
        Op::Store => {
            let (Some(pointer), Some(object)) = (inst.accessed(), inst.stored()) else { return };
            storage(cx, at, 0, pointer, cx.module.type_of(object), out);
            if let Some(pointee) = Pointer::of(cx, pointer).pointee {
                value(cx, &o, 1, object, (pointee, Part::Operand(0), "points to"), out);
            }
        }
        Op::CopyMemory => {
            let Some((to, from)) = inst.copied() else { return };
            let [a, b] = [to, from].map(|p| Pointer::of(cx, p).pointee);
            storage(cx, at, 0, to, a.or(b), out);
            storage(cx, at, 1, from, b.or(a), out);
            if let (Some(a), Some(b)) = (a, b) {
                agree(cx, &o, (b, Part::Operand(1), "points to"), (a, Part::Operand(0), "points to"), out);
            }
        }
        Op::Phi => {
            o.ids().step_by(2).for_each(|(i, id)| of_result(cx, &o, i, id, out));
        }
        Op::CopyObject => {
            o.ids().for_each(|(i, id)| of_result(cx, &o, i, id, out));
        }
        _ => {}
    }
}

/// Checks the objects of an `OpSelect`.
pub(crate) fn select(cx: &Cx, o: &Operation, out: &mut Sink) {
    o.ids().skip(1).for_each(|(i, id)| of_result(cx, o, i, id, out));
}

/// A type, its part of the instruction, and its description.
type Side<'a> = (Id, Part, &'a str);

/// Returns true if a type is a matrix, a tensor layout or view, or has some inside; pointers are handled elsewhere.
fn concerns(cx: &Cx, ty: Id) -> bool {
    cx.class(ty).is_some_and(|c| !matches!(c, TypeClass::Pointer | TypeClass::TensorPointer))
}

fn agree(cx: &Cx, o: &Operation, from: Side, to: Side, out: &mut Sink) {
    if from.0 == to.0 || !concerns(cx, from.0) && !concerns(cx, to.0) {
        return;
    }
    out.report(&TYPE_MISMATCH, o.at, || {
        let (was, is) = (cx.describe(from.0), cx.describe(to.0));
        let again = if was == is { "another type that looks the same, " } else { "" };
        Draft::new(format!("{} of {was} to {again}{is}: both must have one type", o.op))
            .label(o.at, from.1, format!("{} {was}", from.2))
            .label(o.at, to.1, format!("{} {is}", to.2))
    });
}

/// Checks that a value has the type of the result.
fn of_result(cx: &Cx, o: &Operation, operand: usize, id: Id, out: &mut Sink) {
    if let Some(ty) = o.ty {
        value(cx, o, operand, id, (ty, Part::Type, "the result is"), out);
    }
}

/// Checks that a value has a type.
fn value(cx: &Cx, o: &Operation, operand: usize, id: Id, to: Side, out: &mut Sink) {
    match cx.module.type_of(id) {
        Some(ty) => agree(cx, o, (ty, o.part(operand), "this is"), to, out),
        None if concerns(cx, to.0) && cx.is_not_a_value(id) => out.report(&TYPE_MISMATCH, o.at, || {
            let (was, is) = (cx.describe_value(id), cx.describe(to.0));
            Draft::new(format!("{} of {was} to {is}: both must have one type", o.op))
                .label(o.at, o.part(operand), format!("this is {was}"))
                .label(o.at, to.1, format!("{} {is}", to.2))
        }),
        None => {}
    }
}

/// Checks the storage class of memory that an object is moved from or to.
fn storage(cx: &Cx, at: InstRef, operand: usize, pointer: Id, ty: Option<Id>, out: &mut Sink) {
    let holds = |t: Id| matches!(cx.class(t), Some(TypeClass::Matrix | TypeClass::MatrixNv | TypeClass::Holder));
    let Some(ty) = ty.filter(|t| holds(*t)) else { return };
    let Some(storage) = Pointer::of(cx, pointer).storage else { return };
    let own = [StorageClass::Function, StorageClass::Private, StorageClass::Generic];
    if own.contains(&storage) || is_variable_of_matrices(cx, pointer) {
        return;
    }
    out.report(&STORAGE, at, || {
        let (op, name) = (cx.inst(at).op, storage_name(storage));
        Draft::new(format!("{op} of {} in {name} memory, where matrices have no layout", cx.describe(ty)))
            .label(at, Part::Operand(operand), format!("points to {name} memory"))
            .label_opt(cx.def(pointer), Part::Whole, "the pointer is made here")
            .help("load and store the elements by OpCooperativeMatrixLoadKHR and OpCooperativeMatrixStoreKHR")
    });
}

/// Returns true if a pointer leads to a variable with matrices, whose storage class another rule checks.
fn is_variable_of_matrices(cx: &Cx, pointer: Id) -> bool {
    let root = pointers::root(cx.module, pointer, |op| op.is_member_chain() || op == Op::CopyObject);
    root.is_some_and(|root| {
        cx.module.def_inst(root).is_some_and(|i| i.op == Op::Variable) && cx.class(root) == Some(TypeClass::Pointer)
    })
}
