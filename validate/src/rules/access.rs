//! Rules about `OpCooperativeMatrixLoadKHR` and `OpCooperativeMatrixStoreKHR`: the matrix, the pointer and the layout.
//! Strides and memory operands have their own files.

use super::{arm, component, intel, memory, stride};
use crate::cx::Cx;
use crate::declare_rule;
use crate::report::{Draft, Part, Sink};
use crate::rules::types::storage_name;
use crate::verdict::Verdict;
use coop_ir::constant::Const;
use coop_ir::spv::{self, CooperativeMatrixLayout};
use coop_ir::spv::{Capability, StorageClass};
use coop_ir::types::{CoopMatView, Scalar, Type, scalar_or_vector};
use coop_ir::{Id, InstRef, Kind, Op};

declare_rule! {
    /// ## What it checks
    /// The result type of a load is a matrix of SPV_KHR_cooperative_matrix.
    /// ## Why
    /// Nothing else can be loaded by this instruction; matrices of SPV_NV_cooperative_matrix have their own.
    /// ## Example
    /// `OpCooperativeMatrixLoadKHR %float %pointer %row_major %stride`
    pub(crate) static LOAD_RESULT = {
        id: "load-result-not-matrix",
        summary: "the result of a load is not a cooperative matrix",
        level: Error,
        since: "0.1.0",
        spec: "SPV_KHR_cooperative_matrix, OpCooperativeMatrixLoadKHR",
        vuids: [],
        digest: ["khr.load-result-type"],
    }
}

declare_rule! {
    /// ## What it checks
    /// The Object of a store is a matrix of SPV_KHR_cooperative_matrix.
    /// ## Why
    /// Nothing else can be stored by this instruction; matrices of SPV_NV_cooperative_matrix have their own.
    /// ## Example
    /// `OpCooperativeMatrixStoreKHR %pointer %float_1 %row_major %stride`
    pub(crate) static STORE_OBJECT = {
        id: "store-object-not-matrix",
        summary: "the object of a store is not a cooperative matrix",
        level: Error,
        since: "0.1.0",
        spec: "SPV_KHR_cooperative_matrix, OpCooperativeMatrixStoreKHR",
        vuids: [],
        digest: ["khr.store-object-type"],
    }
}

declare_rule! {
    /// ## What it checks
    /// Pointer is a pointer (`OpTypePointer` or `OpTypeUntypedPointerKHR`).
    /// ## Why
    /// A load takes an address, not the value there.
    /// ## Example
    /// `OpCooperativeMatrixLoadKHR %matrix %loaded_float %row_major %stride`
    pub(crate) static POINTER_TYPE = {
        id: "access-pointer-type",
        summary: "the Pointer operand is not a pointer",
        level: Error,
        since: "0.1.0",
        spec: "SPV_KHR_cooperative_matrix, OpCooperativeMatrixLoadKHR and StoreKHR",
        vuids: [],
        digest: ["khr.ls-pointer-type"],
    }
}

declare_rule! {
    /// ## What it checks
    /// With Logical addressing, Pointer comes from an instruction that may make logical pointers: a variable, an access
    /// chain, a parameter, a copy; with variable pointers also `OpSelect`, `OpPhi`, calls, loads and null.
    /// ## Why
    /// Without addresses, a consumer must be able to tell which variable is meant.
    /// ## Example
    /// A pointer chosen by `OpSelect` without capability VariablePointers.
    pub(crate) static POINTER_SOURCE = {
        id: "access-pointer-source",
        summary: "a logical pointer from an instruction that can't make one",
        level: Error,
        since: "0.1.0",
        spec: "SPV_KHR_cooperative_matrix, 2.16.1 Universal Validation Rules",
        vuids: [],
        digest: ["khr.ls-logical-pointer"],
    }
}

declare_rule! {
    /// ## What it checks
    /// Pointer points to a numerical scalar or a vector of such.
    /// ## Why
    /// The stride counts elements of that type.
    /// ## Example
    /// Pointer points to the whole array instead of to its first element.
    pub(crate) static POINTEE_TYPE = {
        id: "access-pointee-type",
        summary: "Pointer does not point to a scalar or vector",
        level: Error,
        since: "0.1.0",
        spec: "SPV_KHR_cooperative_matrix, OpCooperativeMatrixLoadKHR and StoreKHR",
        vuids: [],
        digest: ["khr.ls-pointee"],
    }
}

declare_rule! {
    /// ## What it checks
    /// In a shader, Pointer points into an array: its access chain goes through one.
    /// ## Why
    /// The elements of the matrix are found by stepping through that array; a lone scalar has no neighbors.
    /// ## Example
    /// Pointer points to a member `float x` of a block.
    pub(crate) static NOT_IN_ARRAY = {
        id: "access-not-in-array",
        summary: "Pointer does not point into an array",
        level: Error,
        since: "0.1.0",
        spec: "SPV_KHR_cooperative_matrix, OpCooperativeMatrixLoadKHR and StoreKHR",
        vuids: [],
        digest: ["khr.ls-into-array"],
    }
}

declare_rule! {
    /// ## What it checks
    /// In Vulkan, the storage class of Pointer is Workgroup, StorageBuffer or PhysicalStorageBuffer.
    /// ## Why
    /// Only memory that the invocations share can hold a matrix for all of them.
    /// ## Example
    /// A load from an array in a Private variable.
    pub(crate) static STORAGE_CLASS = {
        id: "access-storage-class",
        summary: "a load or store in a storage class that has no matrices",
        level: Error,
        since: "0.1.0",
        spec: "Vulkan, Standalone SPIR-V Validation",
        vuids: ["VUID-StandaloneSpirv-Pointer-08973"],
        digest: ["khr.ls-storage-class"],
    }
}

declare_rule! {
    /// ## What it checks
    /// MemoryLayout is a constant instruction of a 32-bit integer type.
    /// ## Why
    /// How elements lie in memory must be known when the pipeline is made; it may be specialized.
    /// ## Example
    /// MemoryLayout is read from a buffer.
    pub(crate) static LAYOUT_NOT_CONSTANT = {
        id: "access-layout-not-constant",
        summary: "MemoryLayout is not a constant of a 32-bit integer type",
        level: Error,
        since: "0.1.0",
        spec: "SPV_KHR_cooperative_matrix, OpCooperativeMatrixLoadKHR and StoreKHR",
        vuids: [],
        digest: ["khr.ls-layout-const"],
    }
}

declare_rule! {
    /// ## What it checks
    /// MemoryLayout is RowMajorKHR (0), ColumnMajorKHR (1), or a layout of an extension: PackedINTEL (2),
    /// RowBlockedInterleavedARM (4202), ColumnBlockedInterleavedARM (4203).
    /// ## Why
    /// No other layout exists.
    /// ## Example
    /// MemoryLayout is `%uint_7`.
    pub(crate) static LAYOUT_UNKNOWN = {
        id: "access-layout-unknown",
        summary: "MemoryLayout is not a layout",
        level: Error,
        since: "0.1.0",
        spec: "SPV_KHR_cooperative_matrix, Cooperative Matrix Layout",
        vuids: [],
        digest: ["khr.ls-layout-value"],
    }
}

declare_rule! {
    /// ## What it checks
    /// The layouts of SPV_ARM_cooperative_matrix_layouts need capability CooperativeMatrixLayoutsARM, and PackedINTEL
    /// needs PackedCooperativeMatrixINTEL.
    /// ## Why
    /// A consumer without the capability does not know the layout.
    /// ## Example
    /// MemoryLayout 4202 in a module without capability CooperativeMatrixLayoutsARM.
    pub(crate) static LAYOUT_CAPABILITY = {
        id: "access-layout-capability",
        summary: "a layout of an extension without its capability",
        level: Error,
        since: "0.1.0",
        spec: "SPV_ARM_cooperative_matrix_layouts and SPV_INTEL_joint_matrix, Cooperative Matrix Layout",
        vuids: [],
        digest: ["khr.ls-layout-cap", "arm.cap", "intel.packed-layout-cap"],
    }
}

/// A decoded load or store.
pub(crate) struct LoadStore<'a> {
    pub(crate) at: InstRef,
    pub(crate) is_load: bool,
    pub(crate) matrix: Option<&'a CoopMatView>,
    pub(crate) pointer: Pointer,
    pub(crate) layout: Id,
    pub(crate) layout_value: Const,
    /// The stride and its operand index.
    pub(crate) stride: Option<(Id, usize)>,
    /// The index of the first memory operand.
    pub(crate) memory: usize,
}

/// The pointer of a load or store.
#[derive(Clone, Copy)]
pub(crate) struct Pointer {
    pub(crate) id: Id,
    pub(crate) ty: Id,
    /// The storage class, if it is a pointer.
    pub(crate) storage: Option<StorageClass>,
    /// The type of the target, if it is a typed pointer.
    pub(crate) pointee: Option<Id>,
}

impl LoadStore<'_> {
    /// Returns `load` or `store`.
    pub(crate) fn verb(&self) -> &'static str {
        if self.is_load { "load" } else { "store" }
    }
}

impl Pointer {
    /// Returns the description of `id`, which need not be a pointer.
    pub(crate) fn of(cx: &Cx, id: Id) -> Pointer {
        let ty = cx.module.type_of(id);
        let (storage, pointee) = match ty.and_then(|t| Type::of(cx.module, t)) {
            Some(Type::Pointer { storage, pointee }) => (Some(storage), Some(pointee)),
            Some(Type::UntypedPointer { storage }) => (Some(storage), None),
            _ => (None, None),
        };
        Pointer { id, ty: ty.unwrap_or(id), storage, pointee }
    }

    /// Returns true if it points to PhysicalStorageBuffer memory.
    pub(crate) fn is_physical(&self) -> bool {
        self.storage == Some(StorageClass::PhysicalStorageBuffer)
    }

    /// Returns the scalar type in memory and the number of bytes in which the stride counts, if they are known.
    pub(crate) fn unit(&self, cx: &Cx) -> Option<(Scalar, u64)> {
        let (scalar, len) = scalar_or_vector(cx.module, self.pointee?)?;
        Some((scalar, u64::from(scalar.bytes()) * u64::from(len)))
    }
}

/// Checks a load or a store.
pub(crate) fn check(cx: &Cx, at: InstRef, is_load: bool, out: &mut Sink) {
    let Some(access) = decode(cx, at, is_load) else { return };
    object(cx, &access, out);
    pointer(cx, &access, out);
    layout(cx, at, access.layout, if is_load { 1 } else { 2 }, out);
    stride::check(cx, &access, out);
    arm::check(cx, &access, out);
    intel::load_or_store(cx, &access, out);
    component::memory(cx, at, &access.pointer, out);
    let site = memory::Site { at, is_load, memory: access.memory, pointer: access.pointer };
    memory::check(cx, &site, out);
}

fn decode<'a>(cx: &'a Cx, at: InstRef, is_load: bool) -> Option<LoadStore<'a>> {
    let inst = cx.inst(at);
    let pointer = Pointer::of(cx, inst.accessed()?);
    let matrix_type = if is_load { inst.ty } else { inst.stored().and_then(|o| cx.module.type_of(o)) };
    let layout_at = if is_load { 1 } else { 2 };
    let layout = inst.id(layout_at)?;
    Some(LoadStore {
        at,
        is_load,
        matrix: matrix_type.and_then(|t| cx.matrix(t)),
        pointer,
        layout,
        layout_value: cx.constant(layout),
        stride: inst.id(layout_at + 1).map(|s| (s, layout_at + 1)),
        memory: layout_at + 2,
    })
}

fn object(cx: &Cx, a: &LoadStore, out: &mut Sink) {
    if a.matrix.is_some() {
        return;
    }
    let inst = cx.inst(a.at);
    if a.is_load {
        let what = inst.ty.map_or_else(|| "missing".into(), |t| cx.describe(t));
        out.report(&LOAD_RESULT, a.at, || {
            Draft::new(format!("the result of a load must be a cooperative matrix; this is {what}")).label(
                a.at,
                Part::Type,
                "must be a cooperative matrix",
            )
        });
    } else {
        let what = inst.stored().map_or_else(|| "missing".into(), |o| cx.describe_value(o));
        out.report(&STORE_OBJECT, a.at, || {
            Draft::new(format!("the object of a store must be a cooperative matrix; this is {what}")).label(
                a.at,
                Part::Operand(1),
                "must be a cooperative matrix",
            )
        });
    }
}

fn pointer(cx: &Cx, a: &LoadStore, out: &mut Sink) {
    let p = &a.pointer;
    let Some(storage) = p.storage else {
        let what = cx.describe_value(p.id);
        out.report(&POINTER_TYPE, a.at, || {
            Draft::new(format!("a matrix {} takes a pointer; this is {what}", a.verb())).label(
                a.at,
                Part::Operand(0),
                format!("this is {what}"),
            )
        });
        return;
    };
    if let Some(pointee) = p.pointee
        && !numeric(cx, pointee)
    {
        let what = cx.describe(pointee);
        out.report(&POINTEE_TYPE, a.at, || {
            Draft::new(format!(
                "a matrix {} takes a pointer to a scalar or vector of numbers; this points to {what}",
                a.verb()
            ))
            .label(a.at, Part::Operand(0), format!("points to {what}"))
            .help("point to the first element")
        });
        return;
    }
    let classes = [StorageClass::Workgroup, StorageClass::StorageBuffer, StorageClass::PhysicalStorageBuffer];
    if cx.env.is_vulkan() && !classes.contains(&storage) {
        out.report(&STORAGE_CLASS, a.at, || {
            Draft::new(format!(
                "a matrix {} needs Workgroup, StorageBuffer or PhysicalStorageBuffer memory; this is {}",
                a.verb(),
                storage_name(storage)
            ))
            .label(a.at, Part::Operand(0), format!("points to {} memory", storage_name(storage)))
            .label_opt(cx.def(p.ty), Part::Operand(0), "the storage class")
        });
    }
    source(cx, a.at, p, a.verb(), out);
    single_object(cx, a.at, p, a.verb(), out);
}

/// Returns false if Pointer of a load or store points to something that is not an element of an array.
pub(crate) fn single_object(cx: &Cx, at: InstRef, p: &Pointer, verb: &str, out: &mut Sink) {
    if cx.has(Capability::Shader) && p.pointee.is_some() && !p.is_physical() && in_array(cx, p.id) == Some(false) {
        out.report(&NOT_IN_ARRAY, at, || {
            Draft::new(format!("a matrix {verb} needs a pointer into an array; this points to a single object"))
                .label(at, Part::Operand(0), "not an element of an array")
                .label_opt(cx.def(p.id), Part::Whole, "points to it")
        });
    }
}

/// Returns true for a numerical scalar or a vector of such, including long vectors.
fn numeric(cx: &Cx, ty: Id) -> bool {
    scalar_or_vector(cx.module, ty).is_some() || cx.module.def_inst(ty).is_some_and(|i| i.op == Op::TypeVectorIdEXT)
}

/// Checks that the instruction that makes a logical pointer may make the one of a load or store.
pub(crate) fn source(cx: &Cx, at: InstRef, p: &Pointer, verb: &str, out: &mut Sink) {
    let Some(def) = cx.module.def_inst(p.id) else { return };
    if p.storage.is_none() || p.is_physical() || !cx.logical || def.op.info().is_none() {
        return;
    }
    let (always, variable) = (def.op.makes_logical_pointer(), def.op.makes_variable_pointer());
    let variable_pointers = cx.has(Capability::VariablePointers) || cx.has(Capability::VariablePointersStorageBuffer);
    if !(always || variable && variable_pointers) {
        out.report(&POINTER_SOURCE, at, || {
            Draft::new(format!("with Logical addressing, {} can't make the pointer of a matrix {verb}", def.op))
                .label(at, Part::Operand(0), "a logical pointer")
                .label_opt(cx.def(p.id), Part::Whole, "made here")
                .help(if variable {
                    "declare capability VariablePointers, or make the pointer by an access chain"
                } else {
                    "make the pointer by an access chain"
                })
        });
    }
}

/// Returns true if a pointer points into an array; `None` if that is not known.
pub(crate) fn in_array(cx: &Cx, pointer: Id) -> Option<bool> {
    let mut id = pointer;
    // Chains of chains are short; malformed modules may have cycles.
    for _ in 0..64 {
        let def = cx.module.def_inst(id)?;
        match def.op {
            Op::AccessChain | Op::InBoundsAccessChain => {
                let base = def.access_chain()?.base;
                let Type::Pointer { pointee, .. } = Type::of(cx.module, cx.module.type_of(base)?)? else {
                    return None;
                };
                let mut ty = pointee;
                for index in def.ids_from(1) {
                    // A member of an element is also in an array, if not as the specification means it: accept it.
                    if cx.module.def_inst(ty).is_some_and(|t| matches!(t.op, Op::TypeArray | Op::TypeRuntimeArray)) {
                        return Some(true);
                    }
                    ty = stepped(cx, ty, index)?;
                }
                id = base;
            }
            Op::CopyObject => id = def.copy_source()?,
            Op::PtrAccessChain | Op::InBoundsPtrAccessChain => return Some(true),
            Op::Variable => return Some(false),
            _ => return None,
        }
    }
    None
}

/// Returns the type after one step of an access chain.
fn stepped(cx: &Cx, ty: Id, index: Id) -> Option<Id> {
    let inst = cx.module.def_inst(ty)?;
    match inst.op {
        // Decoded in place: a struct may have many members.
        Op::TypeStruct => inst.id(usize::try_from(cx.constant(index).fixed()?).ok()?),
        Op::TypeVector | Op::TypeMatrix => inst.id(0),
        _ => None,
    }
}

/// Checks the operand MemoryLayout of a load or store.
pub(crate) fn layout(cx: &Cx, at: InstRef, layout: Id, operand: usize, out: &mut Sink) {
    let operand = Part::Operand(operand);
    if let Some(why) = cx.not_const_u32(layout) {
        out.report(&LAYOUT_NOT_CONSTANT, at, || {
            Draft::new(format!("MemoryLayout must be a constant of a 32-bit integer type; {why}"))
                .label(at, operand, "MemoryLayout")
                .label_opt(cx.def(layout), Part::Whole, "comes from here")
        });
        return;
    }
    let value = cx.constant(layout);
    let known = Verdict::of(&value, |v| matches!(v, ROW_MAJOR | COLUMN_MAJOR | PACKED | ROW_BLOCKED | COLUMN_BLOCKED));
    out.judge(&LAYOUT_UNKNOWN, known, at, || {
        Draft::new(format!("{value} is not a memory layout"))
            .label(at, operand, format!("MemoryLayout is {value}"))
            .label_opt(cx.def(layout), Part::Whole, "comes from here")
            .help("0 is row-major and 1 is column-major")
    });
    let packed = cx.capabilities.has(spv::Capability::PackedCooperativeMatrixINTEL);
    let blocked = cx.has(Capability::CooperativeMatrixLayoutsARM);
    let enabled = Verdict::of(&value, |v| match v {
        // In kernels that is a note.
        PACKED => packed || cx.has(Capability::Kernel),
        ROW_BLOCKED | COLUMN_BLOCKED => blocked,
        _ => true,
    });
    out.judge(&LAYOUT_CAPABILITY, enabled, at, || {
        let name = layout_name(value.value());
        let capability = match value.value() {
            Some(PACKED) => "PackedCooperativeMatrixINTEL",
            _ => "CooperativeMatrixLayoutsARM",
        };
        Draft::new(format!("layout {name} needs capability {capability}")).label(
            at,
            operand,
            format!("MemoryLayout is {name}"),
        )
    });
}

pub(crate) const ROW_MAJOR: u64 = CooperativeMatrixLayout::RowMajorKHR.0 as u64;
pub(crate) const COLUMN_MAJOR: u64 = CooperativeMatrixLayout::ColumnMajorKHR.0 as u64;
pub(crate) const PACKED: u64 = CooperativeMatrixLayout::PackedINTEL.0 as u64;
pub(crate) const ROW_BLOCKED: u64 = CooperativeMatrixLayout::RowBlockedInterleavedARM.0 as u64;
pub(crate) const COLUMN_BLOCKED: u64 = CooperativeMatrixLayout::ColumnBlockedInterleavedARM.0 as u64;

/// Returns the name of a memory layout.
pub(crate) fn layout_name(value: Option<u64>) -> &'static str {
    let layout = value.and_then(|v| u32::try_from(v).ok());
    layout.and_then(|l| Kind::CooperativeMatrixLayout.enumerant(l)).map_or("?", |e| e.name)
}
