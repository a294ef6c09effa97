//! Rules about component types: bfloat16, 8-bit floats, 4-bit integers, and types that need a capability.

use crate::cx::Cx;
use crate::declare_rule;
use crate::matrix::MatrixType;
use crate::operation::Operation;
use crate::report::{Draft, Part, Sink};
use crate::rules::access::Pointer;
use coop_ir::hash::FxHashSet;
use coop_ir::spv::{Capability as Cap, Decoration, FPEncoding};
use coop_ir::spv::{Capability, StorageClass};
use coop_ir::types::{Scalar, Type, scalar_or_vector};
use coop_ir::{Id, InstRef, Op};

declare_rule! {
    /// ## What it checks
    /// There is no arithmetic on matrices of bfloat16, 8-bit floats or 4-bit integers, matrix times scalar included.
    /// ## Why
    /// These types are for storage, conversions and multiply-adds; their extensions list the instructions that take them.
    /// ## Example
    /// `OpFAdd` of matrices of bf16.
    pub(crate) static ARITHMETIC = {
        id: "component-arithmetic",
        summary: "arithmetic on components that are only for storage",
        level: Error,
        since: "0.2.0",
        spec: "SPV_KHR_bfloat16, SPV_EXT_float8 and SPV_INTEL_int4, 2.16.1 Universal Validation Rules",
        vuids: [],
        digest: ["types.bf16-ops", "types.fp8-ops", "types.int4-cap"],
    }
}

declare_rule! {
    /// ## What it checks
    /// Matrices of bfloat16 or 8-bit floats are reduced only with SPV_EXT_cooperative_matrix_maintenance1.
    /// ## Why
    /// SPV_NV_cooperative_matrix2 counts the instruction as arithmetic, which these types do not have; the later
    /// extension counts it as a call.
    /// ## Example
    /// `OpCooperativeMatrixReduceNV` of an accumulator of bf16.
    pub(crate) static REDUCE = {
        id: "component-reduce",
        summary: "a reduction of components that are only for storage",
        level: Warning,
        since: "0.2.0",
        spec: "SPV_NV_cooperative_matrix2, OpCooperativeMatrixReduceNV; SPV_KHR_bfloat16; SPV_EXT_float8",
        vuids: [],
        digest: ["types.bf16-ops", "types.fp8-ops"],
    }
}

declare_rule! {
    /// ## What it checks
    /// In Vulkan, no Input or Output variable is or has a bfloat16 or an 8-bit float.
    /// ## Why
    /// Stages do not pass them to each other.
    /// ## Example
    /// `OpVariable %ptr_Output_bf16 Output`
    pub(crate) static INTERFACE = {
        id: "component-interface",
        summary: "an input or output of bfloat16 or 8-bit floats",
        level: Error,
        since: "0.2.0",
        spec: "Vulkan, Standalone SPIR-V Validation",
        vuids: ["VUID-StandaloneSpirv-OpTypeFloat-10370", "VUID-StandaloneSpirv-OpTypeFloat-10823"],
        digest: ["types.bf16-io", "types.fp8-io"],
    }
}

declare_rule! {
    /// ## What it checks
    /// In a shader, variables outside of an invocation's own memory hold 4-bit integers in vectors of an even length only.
    /// ## Why
    /// Memory is counted in bytes, and the first of each pair is in the low half of one. (Compilers of kernels let pointers point to
    /// the components of matrices nevertheless.)
    /// ## Example
    /// `OpVariable %ptr_Workgroup_int4 Workgroup`
    pub(crate) static INT4_MEMORY = {
        id: "component-int4-memory",
        summary: "4-bit integers by themselves in memory",
        level: Error,
        since: "0.2.0",
        spec: "SPV_INTEL_int4, 2.16.1 Universal Validation Rules",
        vuids: [],
        digest: ["types.int4-cap"],
    }
}

declare_rule! {
    /// ## What it checks
    /// SaturatedToLargestFloat8NormalConversionEXT decorates only OpFConvert, OpConvertSToF and OpConvertUToF that give
    /// 8-bit floats.
    /// ## Why
    /// It says what becomes of values that are too large for them.
    /// ## Example
    /// The decoration on an `OpFConvert` to f16.
    pub(crate) static SATURATED = {
        id: "component-saturation-target",
        summary: "the decoration of saturation on something that makes no 8-bit floats",
        level: Error,
        since: "0.2.0",
        spec: "SPV_EXT_float8, SaturatedToLargestFloat8NormalConversionEXT",
        vuids: [],
        digest: ["types.fp8-sat-target"],
    }
}

declare_rule! {
    /// ## What it checks
    /// No matrix has components of a microscaling format: 4-bit and 6-bit floats, E8M0, MXINT8.
    /// ## Why
    /// SPV_EXT_ocp_microscaling_types leaves matrices of them to a later extension.
    /// ## Example
    /// A matrix of Float4E2M1EXT.
    pub(crate) static MICROSCALING = {
        id: "component-microscaling",
        summary: "a matrix of a microscaling format",
        level: Error,
        since: "0.2.0",
        spec: "SPV_EXT_ocp_microscaling_types",
        vuids: [],
        digest: ["types.ocp"],
    }
}

declare_rule! {
    /// ## What it checks
    /// In a shader, components of 8, 16 or 64 bits come with the capability for them: Int8, Int16, Int64, Float16 or
    /// Float64, or one for storing such types.
    /// ## Why
    /// The component type can't be declared without it.
    /// ## Example
    /// A matrix of f16 without capability Float16.
    pub(crate) static WIDTH = {
        id: "component-width-capability",
        summary: "components of a width that no capability allows",
        level: Error,
        since: "0.2.0",
        spec: "SPIR-V, OpTypeInt and OpTypeFloat",
        vuids: [],
        digest: ["types.width-caps"],
    }
}

declare_rule! {
    /// ## What it checks
    /// In a shader, memory that a matrix is loaded from or stored to, if it is of 8-bit or 16-bit scalars, comes with the
    /// capability for storing these in memory of that storage class, or for computing with them.
    /// ## Why
    /// A capability that lets such types be stored elsewhere does not let them be stored here.
    /// ## Example
    /// A load from a buffer of f16 with no capability for f16 but StoragePushConstant16.
    pub(crate) static STORED = {
        id: "access-storage-capability",
        summary: "memory of small scalars without the capability for it",
        level: Error,
        since: "0.2.0",
        spec: "SPIR-V, 2.16.2 Validation Rules for Shader Capabilities",
        vuids: [],
        digest: ["types.storage-caps"],
    }
}

/// Returns the reason for which arithmetic is not defined for a component type.
pub(crate) fn storage_only(component: Scalar) -> Option<&'static str> {
    match component {
        Scalar::BF16 => Some("SPV_KHR_bfloat16"),
        Scalar::E4M3 | Scalar::E5M2 => Some("SPV_EXT_float8"),
        Scalar::Int { width: 4, .. } => Some("SPV_INTEL_int4"),
        _ => None,
    }
}

/// Checks a matrix type of either extension.
pub(crate) fn matrix_type(cx: &Cx, m: MatrixType, at: InstRef, out: &mut Sink) {
    let Some(component) = m.component() else { return };
    if is_microscaling(component) {
        out.report(&MICROSCALING, at, || {
            Draft::new(format!("there are no matrices of microscaling formats yet; this is one of {component}"))
                .label(at, Part::Operand(0), format!("{component}"))
                .label_opt(cx.def(m.component_id()), Part::Whole, "the component type")
                .help("decode to f16 or e4m3 when the matrix is loaded, by a decode function for one")
        });
        return;
    }
    width(cx, component, m.component_id(), at, out);
}

/// Returns true for the formats of SPV_EXT_ocp_microscaling_types; the last one, of 8-bit integers with a scale, has no
/// name in the grammar yet.
fn is_microscaling(scalar: Scalar) -> bool {
    let Scalar::Encoded { encoding, .. } = scalar else { return false };
    (FPEncoding::Float6E2M3EXT.0..=FPEncoding::Float8UnsignedE8M0EXT.0 + 1).contains(&encoding)
}

fn width(cx: &Cx, component: Scalar, id: Id, at: InstRef, out: &mut Sink) {
    if !cx.has(Capability::Shader) {
        return;
    }
    // The capabilities that allow the type, including those for storing it.
    let any_of: &[Cap] = match component {
        Scalar::Int { width: 8, .. } => &[
            Cap::Int8,
            Cap::StorageBuffer8BitAccess,
            Cap::UniformAndStorageBuffer8BitAccess,
            Cap::StoragePushConstant8,
            Cap::WorkgroupMemoryExplicitLayout8BitAccessKHR,
        ],
        Scalar::Int { width: 16, .. } => &[
            Cap::Int16,
            Cap::StorageBuffer16BitAccess,
            Cap::UniformAndStorageBuffer16BitAccess,
            Cap::StoragePushConstant16,
            Cap::StorageInputOutput16,
            Cap::WorkgroupMemoryExplicitLayout16BitAccessKHR,
        ],
        Scalar::Int { width: 64, .. } => &[Cap::Int64],
        Scalar::Float { width: 16 } => &[
            Cap::Float16,
            Cap::Float16Buffer,
            Cap::StorageBuffer16BitAccess,
            Cap::UniformAndStorageBuffer16BitAccess,
            Cap::StoragePushConstant16,
            Cap::StorageInputOutput16,
            Cap::WorkgroupMemoryExplicitLayout16BitAccessKHR,
        ],
        Scalar::Float { width: 64 } => &[Cap::Float64],
        _ => return,
    };
    if any_of.iter().any(|c| cx.capabilities.has(*c)) {
        return;
    }
    out.report(&WIDTH, at, || {
        let name = any_of[0];
        Draft::new(format!("components of {component} need capability {name}"))
            .label(at, Part::Operand(0), format!("{component}"))
            .label_opt(cx.def(id), Part::Whole, "the component type")
            .help(format!("declare `OpCapability {name}`"))
    });
}

/// Checks arithmetic, or a reduction, on the matrix operand or result of an operation.
pub(crate) fn operation(cx: &Cx, o: &Operation, out: &mut Sink) {
    let arithmetic = o.op.is_matrix_arithmetic();
    let reduction = o.op == Op::CooperativeMatrixReduceNV;
    if !arithmetic && !reduction {
        return;
    }
    let Some((matrix, part)) = o.matrix(cx) else { return };
    let Some((component, extension)) = matrix.component().and_then(|c| Some((c, storage_only(c)?))) else { return };
    if arithmetic {
        out.report(&ARITHMETIC, o.at, || {
            Draft::new(format!("{} on {matrix}: {extension} has no arithmetic on {component}", o.op))
                .label(o.at, part, format!("{matrix}"))
                .label_opt(matrix.decl(cx), Part::Operand(0), format!("{component}"))
                .help("convert to a matrix of f32 or f16 first")
        });
    } else if !component.is_int() && !cx.has_extension("SPV_EXT_cooperative_matrix_maintenance1") {
        out.report(&REDUCE, o.at, || {
            Draft::new(format!(
                "a reduction of {matrix}: SPV_NV_cooperative_matrix2 counts it as arithmetic on {component}"
            ))
            .label(o.at, part, format!("{matrix}"))
            .help("convert to a matrix of f32 first, or declare SPV_EXT_cooperative_matrix_maintenance1")
        });
    }
}

/// Checks variables and decorations in a module with small floats or 4-bit integers.
pub(crate) fn globals(cx: &Cx, out: &mut Sink) {
    for &at in &cx.module.globals {
        let inst = cx.inst(at);
        match inst.op {
            Op::Variable => {
                int4_memory(cx, at, out);
                if cx.env.is_vulkan() {
                    interface(cx, at, out);
                }
            }
            Op::Decorate if inst.enumerant(1) == Some(Decoration::SaturatedToLargestFloat8NormalConversionEXT) => {
                if let Some(target) = inst.id(0) {
                    saturated(cx, at, target, out);
                }
            }
            _ => {}
        }
    }
}

fn int4_memory(cx: &Cx, at: InstRef, out: &mut Sink) {
    let inst = cx.inst(at);
    let own = [StorageClass::Function, StorageClass::Private];
    if !cx.has(Capability::Shader) || inst.enumerant(0).is_none_or(|s| own.contains(&s)) {
        return;
    }
    let Some(Type::Pointer { pointee, .. }) = inst.ty.and_then(|t| Type::of(cx.module, t)) else { return };
    if !parts(cx, pointee).into_iter().any(|ty| half_bytes(cx, ty)) {
        return;
    }
    out.report(&INT4_MEMORY, at, || {
        Draft::new("4-bit integers lie in memory two to a byte, as vectors")
            .label(at, Part::Whole, "memory of 4-bit integers by themselves")
            .label_opt(cx.def(pointee), Part::Whole, "is or has some")
            .help("use vectors of an even length, or integers of 8 or 32 bits that hold several")
    });
}

/// Returns a type, and what structs and arrays in it are made of, each once.
fn parts(cx: &Cx, ty: Id) -> Vec<Id> {
    let (mut out, mut seen) = (vec![ty], FxHashSet::from_iter([ty]));
    let mut at = 0;
    while let Some(ty) = out.get(at) {
        let inner = match Type::of(cx.module, *ty) {
            Some(Type::Array { elem, .. } | Type::RuntimeArray { elem }) => vec![elem],
            Some(Type::Struct { members }) => members,
            _ => Vec::new(),
        };
        out.extend(inner.into_iter().filter(|part| seen.insert(*part)));
        at += 1;
    }
    out
}

/// Returns true if a number or a vector is of 4-bit integers that do not fill a byte.
fn half_bytes(cx: &Cx, ty: Id) -> bool {
    let is_four = |id: Id| matches!(cx.scalar(id), Some(Scalar::Int { width: 4, .. }));
    match Type::of(cx.module, ty) {
        Some(Type::Scalar(_)) => is_four(ty),
        Some(Type::Vector { elem, len }) => is_four(elem) && len % 2 == 1,
        _ => false,
    }
}

fn interface(cx: &Cx, at: InstRef, out: &mut Sink) {
    let inst = cx.inst(at);
    let input_output = [StorageClass::Input, StorageClass::Output];
    if !inst.enumerant(0).is_some_and(|s| input_output.contains(&s)) {
        return;
    }
    let Some(Type::Pointer { pointee, .. }) = inst.ty.and_then(|t| Type::of(cx.module, t)) else { return };
    let Some(small) = parts(cx, pointee).into_iter().find_map(|ty| small_float(cx, ty)) else { return };
    out.report(&INTERFACE, at, || {
        Draft::new(format!("inputs and outputs can't have components of {small}"))
            .label(at, Part::Whole, "an input or output")
            .label_opt(cx.def(pointee), Part::Whole, format!("is or has {small}"))
            .help("pass its bits as an integer")
    });
}

/// Returns the type of a number or of a vector's components if that is bfloat16 or an 8-bit float.
fn small_float(cx: &Cx, ty: Id) -> Option<Scalar> {
    let (scalar, _) = scalar_or_vector(cx.module, ty)?;
    matches!(scalar, Scalar::BF16 | Scalar::E4M3 | Scalar::E5M2).then_some(scalar)
}

fn saturated(cx: &Cx, decoration: InstRef, target: Id, out: &mut Sink) {
    let Some(at) = cx.def(target) else { return };
    let o = Operation::specialized(cx, at).unwrap_or_else(|| Operation::new(cx, at));
    let component = o.ty.and_then(|t| match (cx.matrix_type(t), Type::of(cx.module, t)) {
        (Some(m), _) => m.component(),
        (None, Some(Type::Vector { elem, .. })) => cx.scalar(elem),
        (None, _) => cx.scalar(t),
    });
    let converts = o.op.is_conversion_to_float();
    if converts && matches!(component, Some(Scalar::E4M3 | Scalar::E5M2)) || o.op == Op::DecorationGroup {
        return;
    }
    out.report(&SATURATED, at, || {
        let is = o.ty.map_or_else(|| o.op.to_string(), |t| format!("{} to {}", o.op, cx.describe(t)));
        Draft::new(format!("saturation to the largest 8-bit float is for conversions to such; this is {is}"))
            .label(at, Part::Whole, "makes no 8-bit floats by conversion")
            .label(decoration, Part::Whole, "the decoration")
    });
}

/// Checks the memory behind the pointer of a matrix load or store.
pub(crate) fn memory(cx: &Cx, at: InstRef, pointer: &Pointer, out: &mut Sink) {
    let (Some(storage), true) = (pointer.storage, cx.has(Capability::Shader)) else { return };
    let Some((scalar, _)) = pointer.unit(cx) else { return };
    let buffer = [StorageClass::StorageBuffer, StorageClass::PhysicalStorageBuffer].contains(&storage);
    let workgroup = storage == StorageClass::Workgroup;
    // Shared memory without an explicit layout needs the capability for arithmetic.
    let any_of: &[Cap] = match (scalar, scalar.width()) {
        // The capabilities of encoded floats allow storing them.
        (Scalar::Encoded { .. }, _) => return,
        // A capability for arithmetic with a type also allows storing it; whether a device supports that is a separate
        // question.
        (_, 8) if buffer => &[Cap::StorageBuffer8BitAccess, Cap::UniformAndStorageBuffer8BitAccess, Cap::Int8],
        (Scalar::Int { .. }, 16) if buffer => {
            &[Cap::StorageBuffer16BitAccess, Cap::UniformAndStorageBuffer16BitAccess, Cap::Int16]
        }
        (_, 16) if buffer => &[Cap::StorageBuffer16BitAccess, Cap::UniformAndStorageBuffer16BitAccess, Cap::Float16],
        (Scalar::Int { .. }, 8) if workgroup => &[Cap::Int8, Cap::WorkgroupMemoryExplicitLayout8BitAccessKHR],
        (Scalar::Int { .. }, 16) if workgroup => &[Cap::Int16, Cap::WorkgroupMemoryExplicitLayout16BitAccessKHR],
        (Scalar::Float { .. }, 16) if workgroup => &[Cap::Float16, Cap::WorkgroupMemoryExplicitLayout16BitAccessKHR],
        _ => return,
    };
    if any_of.iter().any(|c| cx.capabilities.has(*c)) {
        return;
    }
    out.report(&STORED, at, || {
        let name = any_of[0];
        let class = crate::rules::types::storage_name(storage);
        Draft::new(format!("memory of {scalar} in {class} needs capability {name}"))
            .label(at, Part::Operand(0), format!("points to {scalar}"))
            .label_opt(cx.def(pointer.ty), Part::Whole, format!("in {class} memory"))
            .help(format!("declare `OpCapability {name}`"))
    });
}
