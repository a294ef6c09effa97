//! Rules about `OpCooperativeMatrixLoadTensorNV` and `OpCooperativeMatrixStoreTensorNV`: types of the operands, and the
//! operands that follow the two masks.

use super::state::States;
use super::values;
use crate::cx::Cx;
use crate::declare_rule;
use crate::report::{Draft, Part, Sink};
use crate::rules::access::{Pointer, in_array, source};
use crate::rules::types::storage_name;
use crate::rules::{component, decode, memory, stride};
use coop_ir::spv::TensorAddressingOperands;
use coop_ir::spv::{Capability, StorageClass};
use coop_ir::types::CoopMatView;
use coop_ir::{Id, InstRef, Kind};

declare_rule! {
    /// ## What it checks
    /// The result of a tensor load, and the Object of a tensor store, is a matrix of SPV_KHR_cooperative_matrix.
    /// ## Why
    /// Nothing else can be loaded or stored this way.
    /// ## Example
    /// `OpCooperativeMatrixLoadTensorNV %float %pointer %object %layout None None`
    pub(crate) static NOT_MATRIX = {
        id: "tensor-access-not-matrix",
        summary: "a tensor load or store of something that is not a matrix",
        level: Error,
        since: "0.2.0",
        spec: "SPV_NV_cooperative_matrix2, OpCooperativeMatrixLoadTensorNV and StoreTensorNV",
        vuids: [],
        digest: ["nv2.lt-result-type"],
    }
}

declare_rule! {
    /// ## What it checks
    /// Object of a tensor load has the result type, by id.
    /// ## Why
    /// It gives the elements that the view clips away.
    /// ## Example
    /// A f16 16x16 A is loaded over an Object of f16 16x16 B.
    pub(crate) static OBJECT = {
        id: "tensor-object-type",
        summary: "Object of a tensor load has another type than the result",
        level: Error,
        since: "0.2.0",
        spec: "SPV_NV_cooperative_matrix2, OpCooperativeMatrixLoadTensorNV",
        vuids: [],
        digest: ["nv2.lt-object-type"],
    }
}

declare_rule! {
    /// ## What it checks
    /// TensorLayout is a tensor layout.
    /// ## Why
    /// It says where elements are.
    /// ## Example
    /// TensorLayout is a view.
    pub(crate) static LAYOUT = {
        id: "tensor-layout-operand",
        summary: "the TensorLayout operand is not a tensor layout",
        level: Error,
        since: "0.2.0",
        spec: "SPV_NV_cooperative_matrix2, OpCooperativeMatrixLoadTensorNV and StoreTensorNV",
        vuids: [],
        digest: ["nv2.lt-layout-type"],
    }
}

declare_rule! {
    /// ## What it checks
    /// The operand of TensorView is a tensor view.
    /// ## Why
    /// It says how elements are numbered.
    /// ## Example
    /// The operand of TensorView is a layout.
    pub(crate) static VIEW = {
        id: "tensor-view-operand",
        summary: "the operand of TensorView is not a tensor view",
        level: Error,
        since: "0.2.0",
        spec: "SPV_NV_cooperative_matrix2, Tensor Addressing Operands",
        vuids: [],
        digest: ["nv2.lt-view-type"],
    }
}

declare_rule! {
    /// ## What it checks
    /// Pointer of a tensor load or store is a typed pointer.
    /// ## Why
    /// The specification requires OpTypePointer, and spirv-val rejects untyped pointers.
    /// ## Example
    /// Pointer is an untyped pointer.
    pub(crate) static POINTER = {
        id: "tensor-pointer-type",
        summary: "Pointer of a tensor load or store is not a typed pointer",
        level: Error,
        since: "0.2.0",
        spec: "SPV_NV_cooperative_matrix2, OpCooperativeMatrixLoadTensorNV and StoreTensorNV",
        vuids: [],
        digest: ["nv2.lt-pointer"],
    }
}

declare_rule! {
    /// ## What it checks
    /// In a shader, Pointer of a tensor load or store points into an array.
    /// ## Why
    /// The elements are found by stepping through that array; a lone scalar has no neighbors.
    /// ## Example
    /// Pointer points to a member `float x` of a block.
    pub(crate) static NOT_IN_ARRAY = {
        id: "tensor-pointer-not-in-array",
        summary: "Pointer of a tensor load or store does not point into an array",
        level: Error,
        since: "0.2.0",
        spec: "SPV_NV_cooperative_matrix2, OpCooperativeMatrixLoadTensorNV and StoreTensorNV",
        vuids: [],
        digest: ["nv2.lt-pointer"],
    }
}

declare_rule! {
    /// ## What it checks
    /// In Vulkan, Pointer of a tensor load or store points to Workgroup, StorageBuffer or PhysicalStorageBuffer memory.
    /// ## Why
    /// Only memory that the invocations share can hold a tensor for all of them.
    /// ## Example
    /// A tensor load from an array in a Private variable.
    pub(crate) static STORAGE = {
        id: "tensor-storage-class",
        summary: "a tensor load or store in a storage class that has no tensors",
        level: Error,
        since: "0.2.0",
        spec: "SPV_NV_cooperative_matrix2, OpCooperativeMatrixLoadTensorNV and StoreTensorNV",
        vuids: [],
        digest: ["nv2.lt-storage-class"],
    }
}

declare_rule! {
    /// ## What it checks
    /// The Tensor Addressing Operands have no bit that is not defined.
    /// ## Why
    /// The operands of an unknown bit are unknown, so the operands behind it can't be decoded either.
    /// ## Example
    /// A mask of `0x10`.
    pub(crate) static UNKNOWN = {
        id: "tensor-operands-unknown",
        summary: "undefined bits in the Tensor Addressing Operands",
        level: Error,
        since: "0.2.0",
        spec: "SPV_NV_cooperative_matrix2, Tensor Addressing Operands",
        vuids: [],
        digest: ["nv2.lt-mask-known"],
    }
}

declare_rule! {
    /// ## What it checks
    /// A tensor store has no decode function.
    /// ## Why
    /// There is no function that would encode the stored elements.
    /// ## Example
    /// `OpCooperativeMatrixStoreTensorNV ... None DecodeFunc %decode`
    pub(crate) static STORE_DECODE = {
        id: "tensor-store-decode",
        summary: "a tensor store with a decode function",
        level: Error,
        since: "0.2.0",
        spec: "SPV_NV_cooperative_matrix2, OpCooperativeMatrixStoreTensorNV",
        vuids: [],
        digest: ["nv2.st-no-decode", "decode.load-only"],
    }
}

/// A decoded tensor load or store.
pub(crate) struct TensorLoadStore<'a> {
    pub(crate) at: InstRef,
    pub(crate) is_load: bool,
    pub(crate) matrix: Option<&'a CoopMatView>,
    pub(crate) pointer: Pointer,
    pub(crate) layout: Id,
    /// The view and the decode functions, with their operand indices.
    pub(crate) view: Option<(Id, usize)>,
    pub(crate) decode: Option<(Id, usize)>,
    pub(crate) decode_vector: Option<(Id, usize)>,
}

impl TensorLoadStore<'_> {
    pub(crate) fn verb(&self) -> &'static str {
        if self.is_load { "load" } else { "store" }
    }
}

/// Pointer, Object and TensorLayout come first, then the memory operands.
const MEMORY: usize = 3;

/// Checks a tensor load or store; `states` has the values of layouts and views.
pub(crate) fn check(cx: &Cx, at: InstRef, is_load: bool, states: Option<&States>, out: &mut Sink) {
    let inst = cx.inst(at);
    let (Some(pointer), Some(object), Some(layout)) = (inst.id(0), inst.id(1), inst.id(2)) else { return };
    let ty = if is_load { inst.ty } else { cx.module.type_of(object) };
    let matrix = ty.and_then(|t| cx.matrix(t));
    let pointer = Pointer::of(cx, pointer);
    let site = memory::Site { at, is_load, memory: MEMORY, pointer };
    let masks = memory::check(cx, &site, out);
    let mut a = TensorLoadStore { at, is_load, matrix, pointer, layout, view: None, decode: None, decode_vector: None };

    object_type(cx, &a, object, ty, out);
    pointer_type(cx, &a, out);
    component::memory(cx, at, &pointer, out);
    stride::pointer_alignment(cx, at, pointer.id, 16, a.verb(), out);
    if cx.module.type_of(layout).is_none_or(|t| cx.layout_type(t).is_none()) {
        let is = cx.describe_value(layout);
        out.report(&LAYOUT, at, || {
            Draft::new(format!("TensorLayout must be a tensor layout; this is {is}"))
                .label(at, Part::Operand(2), format!("this is {is}"))
                .label_opt(cx.def(layout), Part::Whole, "comes from here")
        });
    }
    // Operands behind unknown memory operands can't be decoded.
    if let Some(mask_at) = masks {
        addressing(cx, &mut a, mask_at, out);
    }
    decode::check(cx, &a, states, out);
    if let Some(states) = states {
        values::access(cx, &a, states, out);
    }
}

fn object_type(cx: &Cx, a: &TensorLoadStore, object: Id, ty: Option<Id>, out: &mut Sink) {
    if a.matrix.is_none() {
        let is = ty.map_or_else(|| cx.describe_value(object), |t| cx.describe(t));
        let part = if a.is_load { Part::Type } else { Part::Operand(1) };
        out.report(&NOT_MATRIX, a.at, || {
            Draft::new(format!("a tensor {} is one of a cooperative matrix; this is {is}", a.verb())).label(
                a.at,
                part,
                format!("this is {is}"),
            )
        });
    } else if a.is_load && cx.module.type_of(object) != ty {
        out.report(&OBJECT, a.at, || {
            let (is, wanted) = (cx.describe_value(object), ty.map(|t| cx.describe(t)).unwrap_or_default());
            let again = if is == wanted { "another type that looks the same, " } else { "" };
            Draft::new(format!("Object must have the type of the result, {wanted}; it is {again}{is}"))
                .label(a.at, Part::Operand(1), format!("this is {is}"))
                .label_opt(cx.def(object), Part::Whole, "comes from here")
                .help("any matrix of the result's type will do where no view clips, an OpUndef too")
        });
    }
}

fn pointer_type(cx: &Cx, a: &TensorLoadStore, out: &mut Sink) {
    let p = &a.pointer;
    let (Some(storage), Some(_)) = (p.storage, p.pointee) else {
        let is = if p.storage.is_some() { "an untyped pointer".to_owned() } else { cx.describe_value(p.id) };
        out.report(&POINTER, a.at, || {
            Draft::new(format!("a tensor {} takes a typed pointer; this is {is}", a.verb())).label(
                a.at,
                Part::Operand(0),
                format!("this is {is}"),
            )
        });
        return;
    };
    let classes = [StorageClass::Workgroup, StorageClass::StorageBuffer, StorageClass::PhysicalStorageBuffer];
    if cx.env.is_vulkan() && !classes.contains(&storage) {
        let name = storage_name(storage);
        out.report(&STORAGE, a.at, || {
            Draft::new(format!(
                "a tensor {} needs Workgroup, StorageBuffer or PhysicalStorageBuffer memory; this is {name}",
                a.verb()
            ))
            .label(a.at, Part::Operand(0), format!("points to {name} memory"))
            .label_opt(cx.def(p.ty), Part::Operand(0), "the storage class")
        });
    }
    source(cx, a.at, p, a.verb(), out);
    if cx.has(Capability::Shader) && !p.is_physical() && in_array(cx, p.id) == Some(false) {
        out.report(&NOT_IN_ARRAY, a.at, || {
            Draft::new(format!("a tensor {} needs a pointer into an array; this points to a single object", a.verb()))
                .label(a.at, Part::Operand(0), "not an element of an array")
                .label_opt(cx.def(p.id), Part::Whole, "points to it")
        });
    }
}

fn addressing(cx: &Cx, a: &mut TensorLoadStore, mask_at: usize, out: &mut Sink) {
    let inst = cx.inst(a.at);
    let Some(mask) = inst.word(mask_at) else { return };
    let known = |bit: u32| Kind::TensorAddressingOperands.enumerant(bit).is_some();
    let unknown = (0..32).map(|i| 1u32 << i).filter(|b| mask & b != 0 && !known(*b)).fold(0, |all, b| all | b);
    if unknown != 0 {
        out.report(&UNKNOWN, a.at, || {
            Draft::new(format!("the bits {unknown:#x} of the Tensor Addressing Operands are not defined")).label(
                a.at,
                Part::Operand(mask_at),
                format!("the mask is {mask:#x}"),
            )
        });
    }
    let mut next = mask_at + 1;
    let mut take = |bit: u32| {
        let id = (mask & bit != 0).then(|| inst.id(next).map(|id| (id, next))).flatten();
        next += usize::from(mask & bit != 0);
        id
    };
    a.view = take(TensorAddressingOperands::TensorView.0);
    a.decode = take(TensorAddressingOperands::DecodeFunc.0);
    a.decode_vector = take(TensorAddressingOperands::DecodeVectorFunc.0);
    if let Some((view, operand)) = a.view
        && cx.module.type_of(view).is_none_or(|t| cx.view_type(t).is_none())
    {
        let is = cx.describe_value(view);
        out.report(&VIEW, a.at, || {
            Draft::new(format!("the operand of TensorView must be a tensor view; this is {is}"))
                .label(a.at, Part::Operand(operand), format!("this is {is}"))
                .label_opt(cx.def(view), Part::Whole, "comes from here")
        });
    }
    if let (false, Some((_, operand))) = (a.is_load, a.decode.or(a.decode_vector)) {
        out.report(&STORE_DECODE, a.at, || {
            Draft::new("a tensor store can't have a decode function")
                .label(a.at, Part::Operand(operand), "decodes what is loaded")
                .help("encode the elements by a per-element operation before they are stored")
        });
    }
}
